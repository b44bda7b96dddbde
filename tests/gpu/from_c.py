#!/usr/bin/env python3
"""Calls every winner that farm.py left from a C program, and holds its numbers against PyTorch's.

    tests/gpu/from_c.py OUT

Compiles call_winner.c with the machine's C compiler; inputs and outputs travel as files. One line a
winner: name, relative error, its bound, ok or WRONG, and the microseconds of a launch from C with a
warm cache, and of the call that starts it. Exit code 1 when one is wrong, or without a C compiler."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
if __name__ == "__main__" and COMPILER is None:  # before PyTorch is needed
    sys.exit("from_c.py: not run: this machine has no C compiler (cc, gcc, clang)")

import torch

from check import bound_of
from kernels import Kernel

HERE = pathlib.Path(__file__).resolve().parent


def bytes_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def through_c(program, folder, case, kernel):
    """What the C program printed; the kernel's output holds what it computed."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as files:
        paths = []
        for number, tensor in enumerate(kernel.problem.inputs):
            paths.append(pathlib.Path(files, str(number)))
            bytes_of(tensor).cpu().numpy().tofile(paths[-1])
        output = pathlib.Path(files, "output")
        size = kernel.output.numel() * kernel.output.element_size()
        done = subprocess.run([program, folder / f"{case['file']}.so", f"kiln_{case['kind']}", output,
                               str(size), *paths], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{case['name']}: {done.stderr.strip()}")
        result = torch.frombuffer(bytearray(output.read_bytes()), dtype=torch.uint8)
        bytes_of(kernel.output).copy_(result)
    return done.stdout.strip()


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    program = folder / "call_winner"
    subprocess.run([COMPILER, "-O2", HERE / "call_winner.c", "-ldl", "-o", program], check=True)
    torch.manual_seed(2)
    wrong = 0
    for case in json.loads((folder / "cases.json").read_text()):
        kernel = Kernel(case, folder)
        us, call_us = through_c(program, folder, case, kernel).split()
        error, bound = kernel.error(), bound_of(case, kernel)
        ok = error <= bound  # a NaN is not
        wrong += not ok
        print(f"{case['file']:36} {error:.3g} <= {bound:g} {'ok' if ok else 'WRONG'}  {us} us from C, "
              f"{call_us} us the call", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
