#!/usr/bin/env python3
"""Times every case beside this file and its anchor in the same run; see tests/gpu/build.py.

Products: torch.matmul (cuBLAS). Attention and convolution: torch's, by cuDNN. Kernels over rows: a
copy of as many bytes (read plus written). One line a case: name, milliseconds, rate, the anchor's,
and the ratio (above 1: faster than the anchor); then the best case of each shape. Medians, of an
anchor the least of three; the L2 cache overwritten before every launch."""
import json
import pathlib
import sys

import torch

from kernels import Kernel, launch_times, overwritten

LAUNCHES = 10  # between two synchronisations
MOST_LAUNCHES = 200
LEAST_MS = 120.0


def median_ms(function, flush):
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    times = []
    while len(times) < LAUNCHES or (sum(times) < LEAST_MS and len(times) < MOST_LAUNCHES):
        times += launch_times([function] * LAUNCHES, flush)
    return sorted(times)[len(times) // 2]


def best_ms(anchor, flush):
    """Of three medians the least: an anchor's one measurement counts for all cases of its shape."""
    return min(median_ms(anchor, flush) for _ in range(3))


def main():
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU on this machine")
        return 0
    folder = pathlib.Path(__file__).resolve().parent
    torch.manual_seed(1)
    flush = overwritten()
    anchors, best = {}, {}
    print(f"device: {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for case in json.loads((folder / "cases.json").read_text()):
        kernel = Kernel(case, folder)
        shape = case["name"].split("/")[0]
        ms = median_ms(kernel, flush)
        problem = kernel.problem
        if hasattr(problem, "operations"):
            work, unit = problem.operations * 1e-9, "TFLOP/s"
        else:
            work, unit = problem.bytes_moved() * 1e-6, "GB/s"
        if shape not in anchors:
            anchors[shape] = best_ms(problem.anchor(), flush)
        error = kernel.error()
        ratio = anchors[shape] / ms if error < 1e-2 else 0.0  # a wrong kernel has no speed
        best[shape] = max(best.get(shape, 0.0), ratio)
        if case["kind"] in ("matmul", "matmul_decode", "matmul_streamk") and case["M"] <= 64:
            if f"{shape}_read" not in anchors:
                anchors[f"{shape}_read"] = min(best_ms(read, flush)
                                               for read in problem.read_anchors())
                print(f"reading B of {shape}: {anchors[f'{shape}_read']:.4f} ms")
            best[f"{shape}_read"] = max(best.get(f"{shape}_read", 0.0),
                                        anchors[f"{shape}_read"] / anchors[shape] * ratio)
        print(f"{case['name']:32} {ms:9.4f} ms {work / ms:8.1f} {unit} anchor "
              f"{work / anchors[shape]:8.1f} ratio {ratio:.3f} error {error:.2g}", flush=True)
    for shape, ratio in best.items():
        print(f"best {shape} {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
