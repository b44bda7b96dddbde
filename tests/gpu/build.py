#!/usr/bin/env python3
"""Compiles the cases for a GPU into a folder that a GPU machine can run without anything of ours.

    tests/gpu/build.py OUT [checks|timed] [--arch sm_90a] [--kilnc build/bin/kilnc]

Needs an assembler of the CUDA Toolkit (ptxas). OUT holds one shared object a case, cases.json and
the scripts that run them: python3 OUT/check.py, OUT/sanitize.sh, python3 OUT/bench.py."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import cases
from where import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]


def kernel_of(case, folder):
    """The template itself, or a copy of it with the case's pass options; or a file of ours."""
    if "source" in case:
        return str(ROOT / case["source"])
    if not case["options"]:
        return f"template:{case['template']}"
    text = (ROOT / "compiler/templates" / f"{case['template']}.py").read_text()
    options = ", ".join(f'"{k}": {v!r}' for k, v in case["options"].items())
    marked = text.replace("@tilelang.jit(", f"@tilelang.jit(pass_configs={{{options}}}, ")
    if marked == text:
        raise ValueError(f"template {case['template']} has no @tilelang.jit( to give options to")
    path = folder / f"{case['file']}.py"
    if not path.exists() or path.read_text() != marked:  # others may be reading it
        path.write_text(marked)
    return str(path)


def emit(case, folder, kilnc, arch, stage):
    """Writes a stage of a case into the folder; what kilnc says where it cannot."""
    case["file"] = case["name"].replace("/", "_")
    command = [kilnc, "emit", kernel_of(case, folder), "--arch", arch, "--stage", stage, "-o",
               str(folder / f"{case['file']}.{stage}")]
    for name, value in case["arguments"].items():
        command += ["-a", f"{name}={value}"]
    if case["config"]:
        command += ["-c", ",".join(f"{k}={v}" for k, v in case["config"].items())]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stderr.strip() if result.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("which", nargs="?", choices=("checks", "timed"), default="checks")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--kilnc", default=str(BIN / "kilnc"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    selected = cases.checks() if options.which == "checks" else cases.timed()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(emit, c, options.out, options.kilnc, options.arch, "so") for c in selected]
        for case, job in zip(selected, jobs):
            if job.result():
                failed += 1
                print(f"{case['name']}: {job.result()}", file=sys.stderr)
    (options.out / "cases.json").write_text(json.dumps(selected))
    for script in ("tests/gpu/kernels.py", "tests/gpu/read_kernel.py", "tests/gpu/check.py",
                   "tests/gpu/sanitize.sh", "tests/bench/gpu/bench.py"):
        shutil.copy(ROOT / script, options.out)
    print(f"{len(selected) - failed} of {len(selected)} cases built in {options.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
