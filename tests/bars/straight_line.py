"""The bars of the straight line: one sweep from tunectl to a fetched binary that runs.

No bar here needs a device, so none is skipped. Long steps run once and are shared. Run through
tests/bars.sh.
"""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from common import BIN, ROOT, Failed, at_least, at_most, build, ctest, main, number, run


@functools.lru_cache(None)
def demo():
    """(seconds, report) of the demo, tuning afresh on a built tree."""
    start = time.monotonic()
    report = run(["deploy/demo.sh", "--fresh"])
    return time.monotonic() - start, report


@functools.lru_cache(None)
def clean_build():
    """Seconds of a clean build of everything without a compiler cache."""
    folder = tempfile.mkdtemp(prefix="kiln-clean-")
    environment = dict(os.environ, CCACHE_DISABLE="1")
    try:
        run(["cmake", "-G", "Ninja", "-S", ".", "-B", folder], env=environment)
        start = time.monotonic()
        run(["cmake", "--build", folder], env=environment)
        return time.monotonic() - start
    finally:
        shutil.rmtree(folder)


@functools.lru_cache(None)
def compile_bench():
    build("compile_bench")
    return run([BIN / "compile_bench"])


@functools.lru_cache(None)
def recommender():
    """The evaluation against exhaustively measured spaces: measured here, now."""
    build("recommender_measure", "recommender_eval")
    times, arch = ROOT / "build/recommender_times.csv", ROOT / "build/recommender_arch.txt"
    with open(times, "w", encoding="utf-8") as out:
        subprocess.run([BIN / "recommender_measure", "--arch", arch], cwd=ROOT, stdout=out, check=True)
    return run([BIN / "recommender_eval", times, arch], codes=(0, 1))


def pricing_ms():
    """The slowest space's time to price 10,000 candidates."""
    build("recommender_latency")
    text = run([BIN / "recommender_latency"], codes=(0, 1))
    times = [float(t) for t in re.findall(r"price_10k_ms\S* (\S+)", text)]
    if not times:
        raise Failed("recommender_latency printed no price")
    return at_most(max(times), 5)


def dispatch():
    build("dispatch_bench")
    return at_least(number(r"(\d+) tasks/s", run([ROOT / "build/bench/dispatch_bench"])), 20000)


def demo_seconds():
    return at_most(demo()[0], 25 * 60)


def demo_answered_seconds():
    demo()
    start = time.monotonic()
    run(["deploy/demo.sh"])
    return at_most(time.monotonic() - start, 180)


def tests_seconds():
    start = time.monotonic()
    run(["tests/run.sh"])
    return at_most(time.monotonic() - start, 40 * 60)


def sanitizer(name):
    start = time.monotonic()
    run(["tests/run.sh", name])
    return at_most(time.monotonic() - start, 60 * 60)


def rebuild_seconds():
    build("all")
    source = ROOT / "compiler/passes/lower_copies.cc"
    text = source.read_text()
    try:
        source.write_text(text + "// touched\n")
        start = time.monotonic()
        build("kiln_passes", "pass_equivalence_test")
        run([ROOT / "build/tests/pass_equivalence_test"])
        return at_most(time.monotonic() - start, 30)
    finally:
        source.write_text(text)


def ratio(name):
    return number(name + r" (\d+\.\d+)", demo()[1])


BARS = {
    "demo_seconds": demo_seconds,
    "demo_answered_seconds": demo_answered_seconds,
    "tests_seconds": tests_seconds,
    "clean_build_seconds": lambda: at_most(clean_build(), 600),
    "rebuild_one_pass_seconds": rebuild_seconds,
    "gemm_vs_openblas": lambda: at_least(ratio("GEMM"), 0.8),
    "gemm_m1_vs_read_loop": lambda: at_least(ratio("M=1"), 0.85),
    "memory_bound_vs_loop": lambda: at_least(ratio("memory-bound"), 0.85),
    "recommender_top8": lambda: at_least(number(r"top8_geomean (\S+)", recommender()), 0.95),
    "recommender_top1": lambda: at_least(number(r"top1_geomean (\S+)", recommender()), 0.85),
    "recommender_top1_worst": lambda: at_least(number(r"top1_worst (\S+)", recommender()), 0.6),
    "pricing_10000_ms": pricing_ms,
    "compile_median_ms": lambda: (number(r"median_ms (\S+)", compile_bench()), "printed", True),
    "compile_per_second_per_core": lambda: (
        number(r"per_core (\S+)", compile_bench()), "printed", True),
    "compile_two_threads": lambda: at_least(number(r"speedup (\S+)", compile_bench()), 1.8),
    "coordinator_kill9": lambda: ctest(["-R", "coordinator_kill|coordinator_test"]),
    "worker_kill9": lambda: ctest(["-R", "worker_process_test|executor_fault_test"]),
    "dispatch_tasks_per_second": dispatch,
    "hostile_input": lambda: ctest(["-R", "refusal|store_fault|fuzz|rpc_test|coordinator_test"]),
    "fuzzed": lambda: ctest(["-L", "fuzz"]),
    "asan_seconds": lambda: sanitizer("asan"),
    "tsan_seconds": lambda: sanitizer("tsan"),
}


if __name__ == "__main__":
    sys.exit(main(BARS, sys.argv[1:]))
