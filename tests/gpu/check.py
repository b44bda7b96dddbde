#!/usr/bin/env python3
"""Checks the numbers of every case beside this file on this machine's GPU; see build.py.

One line a case: name, relative error, its bound, ok or WRONG. Exits 1 when one is wrong."""
import json
import pathlib
import sys

import torch

from kernels import Kernel

# One rounding of the output, and sums in float32.
BOUNDS = {"float32": 1e-5, "bfloat16": 4e-3, "float16": 5e-4, "int32": 0.0}


def bound_of(case, kernel):
    """The largest relative error that a case may have."""
    if "bound" in case:
        return case["bound"]
    bound = BOUNDS[str(kernel.output.dtype).removeprefix("torch.")]
    if "kiln.tf32" in case["options"]:
        return 1e-3  # operands lose 2^-11 of themselves, or 2^-10
    if case["dtype"].startswith("float8") and case["kind"] != "matmul_promoted":
        return max(bound, 1e-3)  # tensor cores keep fewer bits of such sums than float32 has
    return bound


def main():
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU on this machine")
        return 0
    folder = pathlib.Path(__file__).resolve().parent
    torch.manual_seed(1)
    wrong = 0
    for case in json.loads((folder / "cases.json").read_text()):
        kernel = Kernel(case, folder)
        kernel()
        torch.cuda.synchronize()
        error, bound = kernel.error(), bound_of(case, kernel)
        ok = error <= bound  # a NaN is not
        wrong += not ok
        print(f"{case['name']:32} {error:.3g} <= {bound:g} {'ok' if ok else 'WRONG'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
