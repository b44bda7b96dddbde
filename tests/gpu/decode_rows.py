#!/usr/bin/env python3
"""Times decode_rows.cu on a Hopper GPU: a product of 16 rows by hand, and kernels that only read the
weights (in order, with more or less of them on their way at once, by blocks that stay, and as a
product of 64 rows does), beside cuBLAS. Each with the second cache overwritten before, which leaves
it dirty, and again with other memory read before, which leaves it clean. Needs nvcc and PyTorch.

    tests/gpu/decode_rows.py"""
import ctypes
import pathlib
import statistics
import subprocess
import tempfile

import torch

M, N, K = 16, 28672, 4096
ROWS_OF_TILES = 64  # of the product whose tiles decode_rows.cu reads
HOLD = ROWS_OF_TILES * 112 * 128 // 2048  # cycles in which an SM multiplies one step of them
ROUNDS, WARM_UP = 110, 10
PACES = [0, 490, 505, 520]  # cycles from one row of a block that stays to its next
LAUNCHES = [(1, 132), (2, 132), (4, 120)]  # blocks of a cluster, blocks


def library(folder):
    path = f"{folder}/decode_rows.so"
    source = pathlib.Path(__file__).with_name("decode_rows.cu")
    subprocess.run(["nvcc", "-O3", "-gencode", "arch=compute_90a,code=sm_90a", "-shared",
                    "-Xcompiler", "-fPIC", "-o", path, source], check=True)
    return ctypes.CDLL(path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        lib = library(folder)
    torch.manual_seed(1)
    a = torch.randn(M, K, device="cuda").bfloat16()
    rows = torch.randn(ROWS_OF_TILES, K, device="cuda").bfloat16()
    b = (torch.randn(N, K, device="cuda") * 0.05).bfloat16()
    c = torch.zeros(M, N, device="cuda", dtype=torch.bfloat16)
    dirty = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    pa, pb, pc, prows = (ctypes.c_void_p(t.data_ptr()) for t in (a, b, c, rows))
    launches = 0

    def checked(status):
        if status:
            raise SystemExit(f"CUDA error {status}")

    def by_hand(cluster, blocks):
        nonlocal launches
        checked(lib.product(pa, pb, pc, N, blocks, cluster, launches, stream))
        launches += 1

    def in_tiles(hold):
        checked(lib.read_tiles(prows, pb, N, 132, hold, stream))

    product_64 = torch.empty(ROWS_OF_TILES, N, device="cuda", dtype=torch.bfloat16)
    cases = {"cublas": lambda: torch.matmul(a, b.t(), out=c),
             "cublas, M = 64": lambda: torch.matmul(rows, b.t(), out=product_64),
             "reading B": lambda: checked(lib.read(pb, pc, N, 128, stream)),
             "reading B, a narrow front": lambda: checked(lib.read(pb, pc, N, 32, stream)),
             "reading, tiles of M = 64": lambda: in_tiles(0),
             "the same, held": lambda: in_tiles(HOLD)}
    for cluster, blocks in LAUNCHES:
        cases[f"by hand, clusters of {cluster}"] = lambda x=cluster, y=blocks: by_hand(x, y)
    for pace in PACES:
        name = f"rows by blocks that stay, {pace}" if pace else "rows by blocks that stay"
        cases[name] = lambda x=pace: checked(lib.read_rows(pb, N, 132, x, stream))
    checks = [name for name in cases if name == "cublas" or name.startswith("by hand")]
    want = a.float() @ b.float().t()
    errors = {}
    words, total = dirty.view(torch.int64), torch.zeros((), device="cuda", dtype=torch.int64)

    def medians(flush):
        nonlocal launches
        times = {name: [] for name in cases}
        for step in range(WARM_UP + ROUNDS):
            torch.cuda.synchronize()
            checked(lib.reset())
            launches = 0
            order = list(cases)
            for name in order[step % len(order):] + order[:step % len(order)]:
                c.zero_()
                flush()
                begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
                begin.record()
                cases[name]()
                end.record()
                torch.cuda.synchronize()
                if step >= WARM_UP:
                    times[name].append(begin.elapsed_time(end) * 1e3)
                if step == 0 and name in checks:
                    errors[name] = float((c.float() - want).abs().max() / want.abs().max())
        return {name: statistics.median(t) for name, t in times.items()}

    overwritten = medians(dirty.zero_)
    clean = medians(lambda: torch.sum(words, 0, out=total))
    for name, median in overwritten.items():
        of_64 = name in ("cublas, M = 64", "reading, tiles of M = 64", "the same, held")
        anchor = overwritten["cublas, M = 64" if of_64 else "cublas"]
        error = f" error {errors[name]:.2g}" if name in checks else ""
        print(f"{name:30} {median:6.2f} us ratio {anchor / median:.3f} "
              f"clean {clean[name]:6.2f} us{error}")
        if error and errors[name] > 0.005:
            raise SystemExit(f"{name} is wrong")


main()
