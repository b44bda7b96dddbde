#!/usr/bin/env python3
"""Says what a change does to the code of all kernels of cases.py: their PTX by two kilncs.

    tests/gpu/compare_code.py OLD NEW [--arch sm_90a]    (OLD, NEW: programs, build/bin/kilnc)

Prints how many kernels differ in PTX, how many of those in what ptxas makes of them, and of these the
instructions of PTX, registers, spills, refusals. A device's results may be carried over a change that leaves
the machine code of all the same. Exit code 1 when some code differs."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import build
import cases

LISTED = 12


def instructions(ptx):
    return sum(1 for line in ptx.splitlines()
               if line.rstrip().endswith(";") and not line.lstrip().startswith("."))


def assembled(path, arch):
    """(registers, bytes spilled, the cubin), or why ptxas refuses it."""
    cubin = path + ".cubin"
    result = subprocess.run(["ptxas", f"-arch={arch}", "-v", "-o", cubin, path],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode:
        return result.stdout.splitlines()[0].replace(path, pathlib.Path(path).name)
    registers = re.findall(r"Used (\d+) registers", result.stdout)
    spilled = re.findall(r"(\d+) bytes spill", result.stdout)
    return max(map(int, registers), default=0), sum(map(int, spilled)), pathlib.Path(cubin).read_bytes()


def emit_all(folder, kilnc, arch, pool):
    """{case: its PTX, or what kilnc says}: both lists, under names of their own."""
    jobs = {}
    for which, listed in (("checks", cases.checks()), ("timed", cases.timed())):
        (folder / which).mkdir(parents=True)
        for case in listed:
            jobs[f"{which}/{case['name']}"] = (case, pool.submit(build.emit, case, folder / which, kilnc,
                                                                 arch, "asm"))
    return {name: job.result().replace(f"{folder}/", "")
            or (folder / name.split("/")[0] / f"{case['file']}.asm").read_text()
            for name, (case, job) in jobs.items()}


def tell(others, old, new):
    """What the assembler makes of the kernels that differ, [(name, by the old kilnc, by the new one)]."""
    numbers = [(name, *(x[:2] if isinstance(x, tuple) else x for x in both)) for name, *both in others]
    sound = [(a, b) for _, a, b in numbers if isinstance(a, tuple) and isinstance(b, tuple)]
    print(f"instructions of PTX: {sum(instructions(old[name]) for name, _, _ in others)} -> "
          f"{sum(instructions(new[name]) for name, _, _ in others)}")
    print(f"registers: {sum(b[0] < a[0] for a, b in sound)} kernels fewer, "
          f"{sum(b[0] > a[0] for a, b in sound)} more")
    worse = [(name, a, b) for name, a, b in numbers
             if not isinstance(b, tuple) or (isinstance(a, tuple) and b[1] > a[1])]
    print(f"spills or refusals: {len(worse)} kernels worse")
    for name, a, b in (worse or numbers)[:LISTED]:
        print(f"  {name}: {a} -> {b}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    with (tempfile.TemporaryDirectory() as scratch,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        folders = [pathlib.Path(scratch) / side for side in ("old", "new")]
        old, new = (emit_all(folder, kilnc, options.arch, pool)
                    for folder, kilnc in zip(folders, (options.old, options.new)))
        changed = [name for name in old if old[name] != new[name]]
        print(f"{len(old)} kernels for {options.arch}, the PTX of {len(changed)} differs")

        def of(folder, name):
            which, case = name.split("/", 1)
            return str(folder / which / f"{case.replace('/', '_')}.asm")
        made = [list(pool.map(lambda name, at=folder: assembled(of(at, name), options.arch), changed))
                for folder in folders]
        others = [(name, a, b) for name, a, b in zip(changed, *made) if a != b]
        print(f"the machine code of {len(others)} differs")
        if not others:
            return 0
        tell(others, old, new)
    return 1


if __name__ == "__main__":
    sys.exit(main())
