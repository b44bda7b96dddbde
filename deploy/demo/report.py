"""Checks and times what the demo tuned: one C program and one anchor run a winner, then the table.

usage: report.py FOLDER    with FOLDER/tune.json and FOLDER/winners from `tunectl tune`
Exit code 1 when a sweep has no winner or a number is wrong.
"""
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = {"matmul": "gemm", "softmax": "softmax", "rmsnorm": "rmsnorm", "reduction": "rowsum",
       "elementwise": "swiglu"}


def sweeps():
    """name -> (op, shape) in the order of the sweep file, from its one-line entries."""
    import re
    text = (ROOT / "deploy/demo/sweeps.yaml").read_text()
    for match in re.finditer(r"name: (\w+), template: (\w+), shapes: \{([^}]*)\}", text):
        shape = dict(part.split(":") for part in match.group(3).replace(" ", "").split(","))
        yield match.group(1), OPS[match.group(2)], {k: int(v) for k, v in shape.items()}


def file_of(sweep, suffix):
    return next((f for f in sweep["files"] if f.endswith(suffix)), None)


def symbol_of(sweep):
    return json.loads(pathlib.Path(file_of(sweep, ".json")).read_text())["name"]


def check(folder, name, op, shape, sweep):
    """Compiles check.c against the winner's header and library and runs it."""
    library = pathlib.Path(file_of(sweep, ".so")).resolve()
    header = pathlib.Path(file_of(sweep, ".h")).resolve()
    program = folder / f"check_{name}"
    defines = [f"-D{k}={v}" for k, v in shape.items()]
    subprocess.run(["cc", "-O2", "-march=native", "-o", program, ROOT / "deploy/demo/check.c",
                    f'-DHEADER="{header}"', f"-DKERNEL={symbol_of(sweep)}", f"-DOP_{op}", *defines,
                    library, f"-Wl,-rpath,{library.parent}", "-lm"], check=True)
    result = subprocess.run([program], capture_output=True, text=True)
    return result.returncode == 0, (result.stdout + result.stderr).strip()


def race(op, shape, sweep):
    command = [ROOT / "build/bin/kiln-anchors", "--op", op, "--library",
               pathlib.Path(file_of(sweep, ".so")).resolve(), "--symbol", symbol_of(sweep)]
    for k, v in shape.items():
        command += [f"--{k.lower()}", str(v)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main():
    folder = pathlib.Path(sys.argv[1])
    outcomes = {s["name"]: s for s in json.loads((folder / "tune.json").read_text())["sweeps"]}
    ok, ratios, last = True, {}, None
    print(f"{'kernel':<17}{'shape':<17}{'ms':>9}{'rate':>15}{'anchor':>8}{'roof':>7}"
          f"{'tried':>7}{'secs':>7}  {'numbers':<24}config")
    for name, op, shape in sweeps():
        sweep = outcomes.get(name)
        text = "x".join(str(v) for v in shape.values())
        if sweep is None or sweep["winner"] is None:
            ok = False
            why = sweep.get("error") or sweep.get("message") if sweep else "not submitted"
            print(f"{name:<17}{text:<17}  no winner: {why}")
            continue
        winner = sweep["winner"]
        right, words = check(folder, name, op, shape, sweep)
        ok &= right
        raced = race(op, shape, sweep)
        ratios[name] = raced["ratio"]
        rate = (f"{raced['gflops']:.1f} GFLOP/s" if op == "gemm" and shape["M"] > 1
                else f"{raced['gbytes']:.1f} GB/s")
        roof = winner["hint"]["roofline_ns"] / (raced["winner_ms"] * 1e6)
        print(f"{name:<17}{text:<17}{raced['winner_ms']:>9.3f}{rate:>15}{raced['ratio']:>8.2f}"
              f"{roof:>6.0%} {winner['candidates_tried']:>6}{winner['sweep_seconds']:>7.1f}  "
              f"{words if right else 'WRONG: ' + words:<24}{winner['config']}")
        last = sweep["sweep"]
    gemms = [r for n, r in ratios.items() if n.startswith(("llama", "resnet", "ragged"))
             and not n.endswith("_1")]
    streams = [r for n, r in ratios.items() if not n.startswith(("llama", "resnet", "ragged"))]
    ones = [r for n, r in ratios.items() if n.endswith("_1")]
    print(f"\ngeometric mean against the anchor: GEMM {geomean(gemms):.2f}, "
          f"M=1 {geomean(ones):.2f}, memory-bound {geomean(streams):.2f}")
    print("ms: one launch. anchor: how much faster than OpenBLAS's sgemm, or than a threaded loop that moves the "
          "same bytes (above 1: Kiln is).\n"
          "roof: share of what this machine's peaks allow, as measured when its worker first started. tried, secs: "
          "candidates and time of the sweep, of which the budget is what the search gets.\n"
          "numbers: what a C program that links the winner found against plain loops. "
          f"The winners: {folder / 'winners'}")
    if last is not None:
        picture(folder, outcomes)
    return 0 if ok else 1


def picture(folder, outcomes):
    """The roofline with all candidates of one compute-bound sweep."""
    chosen = outcomes.get("llama_qkv_512") or next(iter(outcomes.values()))
    result = subprocess.run(
        [ROOT / "build/bin/tunectl", "--store", folder / "store", "explain", chosen["sweep"],
         "--svg", folder / "roofline.svg"], capture_output=True, text=True)
    print(f"roofline: {folder / 'roofline.svg'}" if result.returncode == 0
          else f"no roofline picture: {result.stderr.strip()}")


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.stdout.reconfigure(line_buffering=True)  # a line a kernel, as they are done
    sys.exit(main())
