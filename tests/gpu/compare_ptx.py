#!/usr/bin/env python3
"""Says what a change does to the code of all kernels of cases.py: their PTX by two kilncs.

    tests/gpu/compare_ptx.py OLD NEW [--arch sm_90a]     (OLD, NEW: programs, build/bin/kilnc)

Prints how many kernels differ, instructions of PTX in all, and of those that differ what ptxas makes of
them: registers, spills, refusals. A device's results may be carried over a change that leaves all the same.
Exit code 1 when some differ."""
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
    """(registers, bytes spilled), or why ptxas refuses it."""
    result = subprocess.run(["ptxas", f"-arch={arch}", "-v", "-o", os.devnull, path],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode:
        return result.stdout.splitlines()[0]
    registers = re.findall(r"Used (\d+) registers", result.stdout)
    spilled = re.findall(r"(\d+) bytes spill", result.stdout)
    return max(map(int, registers), default=0), sum(map(int, spilled))


def emit_all(folder, kilnc, arch, pool):
    """{case: its PTX, or what kilnc says}: both lists, under names of their own."""
    jobs = {}
    for which, listed in (("checks", cases.checks()), ("timed", cases.timed())):
        (folder / which).mkdir(parents=True)
        for case in listed:
            jobs[f"{which}/{case['name']}"] = (case, pool.submit(build.emit, case, folder / which, kilnc,
                                                                 arch, "asm"))
    return {name: job.result() or (folder / name.split("/")[0] / f"{case['file']}.asm").read_text()
            for name, (case, job) in jobs.items()}


def tell(changed, old, new):
    """What the assembler makes of the kernels that differ."""
    numbers = [(name, a, b) for name, a, b in zip(changed, old, new)]
    sound = [(a, b) for _, a, b in numbers if isinstance(a, tuple) and isinstance(b, tuple)]
    print(f"registers: {sum(b[0] < a[0] for a, b in sound)} kernels fewer, "
          f"{sum(b[0] > a[0] for a, b in sound)} more")
    worse = [(name, a, b) for name, a, b in numbers
             if not isinstance(b, tuple) or (isinstance(a, tuple) and b[1] > a[1])]
    print(f"spills or refusals: {len(worse)} kernels worse")
    for name, a, b in worse[:LISTED]:
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
        print(f"{len(old)} kernels for {options.arch}, {len(changed)} differ")
        if not changed:
            return 0
        print(f"instructions of PTX: {sum(map(instructions, old.values()))} -> "
              f"{sum(map(instructions, new.values()))}")

        def of(folder, name):
            which, case = name.split("/", 1)
            return str(folder / which / f"{case.replace('/', '_')}.asm")
        tell(changed, *(list(pool.map(lambda name, at=folder: assembled(of(at, name), options.arch),
                                      changed)) for folder in folders))
    return 1


if __name__ == "__main__":
    sys.exit(main())
