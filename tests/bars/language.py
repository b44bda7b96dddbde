"""The bars of the kernel language: what it accepts, what it means, and what it costs.

Example files of TileLang are read from a checkout that KILN_TILELANG names. Run through tests/bars.sh.
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from common import BIN, ROOT, Failed, Skipped, at_least, at_most, build, ctest, main, number, run
from gpu_compiler import device_result
from tilelang_examples import HIGHER_TIER, TIER_1, TIER_2

FUZZ_RESULT = ROOT / "tests/bench/results/lang_fuzz.txt"
SIGNATURE = """{'A': TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16')),
 'B': TensorAnnot(shape=[K$dyn, B_shape_1$], strides=None, dtype=dtype('float16'))}
"""


def signature():
    build("kilnc")
    text = run([BIN / "kilnc", "signature", "tests/golden/lang/lazy_jit.py", "-e", "product_any_depth"])
    if text != SIGNATURE:
        raise Failed(f"printed {text}")
    return "equal", "equal", True


def par_compile():
    """Eight configs of one product, by placeholders, in order; the second time from the folder."""
    build("kilnc")
    configs = [{"A": {"shape": [1024, 1024], "dtype": "float32"},
                "B": "T.Tensor((1024, 1024), T.float32)", "block_M": m, "block_N": n, "block_K": k}
               for m in (32, 64) for n in (32, 64) for k in (32, 64)]
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder, "configs.json")
        listed.write_text(json.dumps(configs), encoding="utf-8")
        command = [BIN / "kilnc", "par-compile", "tests/golden/lang/lazy_jit.py", "-e", "product",
                   "--configs", listed, "-o", pathlib.Path(folder, "out")]
        first = re.findall(r"^(\d+) (\w+) ", run(command).replace(" note:", "note"), re.M)
        second = re.findall(r"^(\d+) (\w+) ", run(command).replace(" note:", "note"), re.M)
    done = [(str(i), "compiled") for i in range(8)]
    if first != done or second != [(i, "cached") for i, _ in done]:
        raise Failed(f"{first}, then {second}")
    return 8, "== 8", True


def own_kernels():
    runner = ROOT / "tests/kernels/run.py"
    if not runner.exists():
        raise Failed("tests/kernels/run.py is missing")
    build("kilnc")
    return at_least(number(r"(\d+)", run(["python3", runner, "--bar"])), 60)


def compiles(folder, path, entry, arguments):
    """Compiles one kernel of an example file for sm_90a; returns why not, or None."""
    options = [option for pair in arguments.split() for option in ("-a", pair)]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([BIN / "kilnc", "emit", folder / path, "-e", entry, *options,
                               "--arch", "sm_90a", "-s", "cubin", "-o", pathlib.Path(out, "k.cubin")],
                              cwd=ROOT, text=True, capture_output=True)
    return None if done.returncode == 0 else f"{entry}: {done.stderr.splitlines()[0]}"


def examples(table, least):
    """How many files of a tier compile for sm_90a in all kernels that use no higher tier's features,
    with the arguments of tilelang_examples.py."""
    checkout = os.environ.get("KILN_TILELANG")
    if not checkout:
        raise Skipped("KILN_TILELANG names no checkout of TileLang")
    build("kilnc")
    folder = pathlib.Path(checkout, "examples")
    jobs = [(path, entry, arguments) for path, kernels in table.items()
            for entry, arguments in kernels if (path, entry) not in HIGHER_TIER]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = list(pool.map(lambda job: compiles(folder, *job), jobs))
    refused = {}
    for (path, *_), why in zip(jobs, reasons):
        if why is not None:
            refused.setdefault(path, why)
    for path, why in refused.items():
        print(f"  {path}: {why}", file=sys.stderr)
    return at_least(len(table) - len(refused), least)


@functools.lru_cache(None)
def agreement():
    build("lang_evaluate")
    return run(["python3", "tests/property/lang/python_agreement.py", BIN / "lang_evaluate",
                "--count", "5000"], codes=(0, 1))


def python_agreement():
    text = agreement()
    if number(r"programs (\d+)", text) != 5000:
        raise Failed(text)
    return at_most(number(r"disagree (\d+)", text), 0)


def fuzz_hours():
    if not FUZZ_RESULT.exists():
        raise Skipped("there is no committed result")
    text = FUZZ_RESULT.read_text(encoding="utf-8")
    if number(r"open_findings (\d+)", text) > 0:
        raise Failed("the committed result has findings that are not repaired")
    return at_least(number(r"cpu_hours (\S+)", text), 3)


@functools.lru_cache(None)
def lang_bench():
    build("lang_bench")
    return run([BIN / "lang_bench"])


def on_device():
    """Of our own kernels, on a GPU (tests/kernels/run.py --checks device)."""
    lines = re.findall(r"^(\d+) of (\d+)$", device_result("gpu_kernels"), re.M)
    if not lines:
        raise Failed("no count in the result")
    right, of = lines[-1]
    return f"{right}/{of}", "all", right == of and int(of) >= 60


BARS = {
    "lazy_jit_kernels": lambda: ctest(["-R", "lang_lazy_jit_test"]),
    "signature": signature,
    "par_compile": par_compile,
    "compile_only_sweeps": lambda: ctest(["-R", "^farm_test"]),
    "scheduler": lambda: ctest(["-R", "lang_schedule"]),
    "own_kernels": own_kernels,
    "own_kernels_device": on_device,
    "tier_1_files": lambda: examples(TIER_1, 24),
    "tier_2_files": lambda: examples(TIER_2, 38),
    "constructs": lambda: ctest(["-R", "lang_construct_test|lang_golden_test"]),
    "refusals": lambda: ctest(["-R", "lang_refusal_test"]),
    "wrong_code": lambda: ctest(["-R", "lang_wrong_code_test|reported_cases_test"]),
    "python_agreement": python_agreement,
    "fuzz_cpu_hours": fuzz_hours,
    "attention_elaborate_ms": lambda: at_most(
        number(r"attention_elaborate_ms (\S+)", lang_bench()), 2),
    "product_1000_configs_s": lambda: at_most(
        number(r"product_1000_configs_s (\S+)", lang_bench()), 1),
}


if __name__ == "__main__":
    sys.exit(main(BARS, sys.argv[1:]))
