"""The bars of the GPU compiler. Run through tests/bars.sh.

What needs a device is read from its committed result (tests/bench/results/gpu_*_CARD.txt), which names
the commit that it measured: it is refused once compiler/ or worker/ changed since."""
import functools
import math
import re
import subprocess
import sys
import time

from common import BIN, ROOT, Skipped, at_least, at_most, build, ctest, main, number, run

sys.path.insert(0, str(ROOT / "tests/gpu"))
import cases  # noqa: E402

RESULTS = ROOT / "tests/bench/results"
CARDS = ("h200", "h100")  # of results, the one that the bars are about first
LARGE = ["sq8192", "sq4096", "sq2048", "sq1024", "l8b_qkv", "l8b_gateup", "l8b_down", "l70b_qkv",
         "ds_q_b", "ds_o", "ds_moe"]
HALF = [f"{name}_float16" for name in LARGE]
EIGHT = [f"{name}_float8" for name in LARGE if name not in ("sq2048", "sq1024")]
ATTENTION = [f"attention_{shape}{mask}" for shape in ("16x16x1024x128", "4x16x4096x128",
                                                     "1x16x16384x128", "4x32x4096x64")
             for mask in ("", "_causal")]
MEMORY = [f"{kernel}8192_{dtype}" for kernel in ("softmax", "rmsnorm", "rowsum", "transpose", "swiglu")
          for dtype in ("bfloat16", "float32")]


@functools.lru_cache(None)
def device_result(name="gpu"):
    """The committed text of NAME_CARD.txt, of the first card whose result still speaks of this code."""
    why = []
    for card in CARDS:
        path = RESULTS / f"{name}_{card}.txt"
        if not path.exists():
            continue
        text = path.read_text()
        commit = re.search(r"^commit: (\w+)", text, re.M)
        if commit is None:
            why.append(f"{path.name} names no commit")
        elif subprocess.run(["git", "diff", "--quiet", commit[1], "--", "compiler", "worker",
                             ":(exclude)*.md"], cwd=ROOT, check=False).returncode:
            why.append(f"{path.name} refused: compiler/ or worker/ changed since {commit[1]}, "
                       "measured there")
        else:
            when = int(run(["git", "log", "-1", "--format=%ct", commit[1]]))
            print(f"# {path.name}: commit {commit[1]}, {(time.time() - when) / 3600:.1f} hours old")
            return text
    raise Skipped("; ".join(why) or f"no committed result {name}_*.txt")


def ratios(shapes):
    """The best config of each shape."""
    text = device_result()
    missing = [shape for shape in shapes if f"\nbest {shape} " not in text]
    if missing:
        raise Skipped(f"no committed result of {' '.join(missing)}")
    return [number(rf"(?m)^best {re.escape(shape)} (\S+)$", text) for shape in shapes]


def mean(shapes, bar):
    return lambda: at_least(math.exp(sum(map(math.log, ratios(shapes))) / len(shapes)), bar)


def least(shapes, bar):
    return lambda: at_least(min(ratios(shapes)), bar)


def legality(kind, judge, bar):
    """Of draws that the recommender calls legal, or refuses: the share that compiles, fits and is right;
    of those that it says have registers enough: the share that spills none."""
    return lambda: judge(number(rf"(?m)^legality_{kind} (\S+)",
                                device_result("gpu_legality")), bar)


def numbers():
    """Of all that tests/gpu checks, by name: a result of fewer is of other checks."""
    verdicts = dict(re.findall(r"^(\S+) +\S+ <= \S+ (ok|WRONG)$", device_result(), re.M))
    wanted = [case["name"] for case in cases.checks()]
    missing = [name for name in wanted if name not in verdicts]
    if missing:
        raise Skipped(f"no committed result of {' '.join(missing)}")
    right = sum(verdicts[name] == "ok" for name in wanted)
    return f"{right}/{len(wanted)}", "all", right == len(wanted)


@functools.lru_cache(None)
def compile_bench():
    build("gpu_compile_bench")
    return run([BIN / "gpu_compile_bench"])


def figure(name, judge, bar):
    return lambda: judge(number(rf"gpu_compile_{name} (\S+)", compile_bench()), bar)


def memory():
    build("gpu_compile_bench")
    return at_most(number(r"gpu_compile_memory_ratio (\S+)", run([BIN / "gpu_compile_bench", "memory"])),
                   1.05)


BARS = {
    "device_numbers": numbers,
    "gemm_bf16_mean": mean(LARGE, 0.95),
    "gemm_bf16_least": least(LARGE, 0.85),
    "gemm_fp16_mean": mean(HALF, 0.95),
    "gemm_fp8_fast_mean": mean(EIGHT, 0.95),
    "gemm_fp8_full_mean": mean([f"{name}_full" for name in EIGHT], 0.90),
    "dec128_down": least(["dec128_down"], 0.95),
    "decode_least": least([f"dec{m}_gateup" for m in (1, 16, 64)], 1.10),
    "decode_read_least": least([f"dec{m}_gateup_read" for m in (1, 16, 64)], 0.85),
    "ragged_and_odd": least(["ragged", "odd1000"], 0.90),
    "attention_mean": mean(ATTENTION, 0.90),
    "attention_least": least(ATTENTION, 0.75),
    "memory_least": least(MEMORY, 0.92),
    "conv3x3": least(["conv3x3"], 0.85),
    "mma_sync_least": least(["sq4096_mma", "sq8192_mma"], 0.55),
    "legality_legal": legality("legal", at_least, 0.995),
    "legality_illegal": legality("illegal", at_most, 0.01),
    "legality_sure": legality("sure", at_least, 0.995),
    "compile_sm_90a_ms": figure("sm_90a_median_ms", at_most, 80),
    "compile_mma_ms": figure("sm_80_median_ms", at_most, 130),
    "nvcc_sm_90a_ratio": figure("sm_90a_nvcc_ratio", at_least, 5),
    "nvcc_mma_ratio": figure("sm_80_nvcc_ratio", at_least, 3),
    "compile_two_threads": figure("two_threads_speedup", at_least, 1.8),
    "compile_memory": memory,
    "assembles": lambda: ctest(["-R", "gpu_compile_test"]),
    "interpreter": lambda: ctest(["-R", "gpu_instructions_test|gpu_templates_test|plant_barriers"]),
}


if __name__ == "__main__":
    sys.exit(main(BARS, sys.argv[1:]))
