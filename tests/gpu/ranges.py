#!/usr/bin/env python3
"""One object for a range of sizes on this machine's GPU, beside each config that it could be instead.

    tests/gpu/ranges.py OUT [--bin FOLDER] [--rows 1..8192] [--columns 4096] [--depth 4096] [--between 24]

Tunes a product (bf16, B transposed) for a range of M through `tunectl tune` with an empty store. Then, at
sizes of M that the sweep never measured, half of them drawn by ratio and half the neighbours of its steps,
calls the object and each config that the sweep compared, compiled alone for every M, by turns, the L2
cache overwritten before each launch, and checks the object's numbers. One line a size: the object's
microseconds, the best single config's (the one with the least product of times over these sizes), and the
best there. Then `name value` lines: the mean and the worst of single over object, and of best over object.
Exit code 1 when numbers are wrong."""
import argparse
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys

from where import BIN

TURNS = 15
LAUNCHES = 4  # of one kernel between two turns


def tuned(options, spec):
    """What was measured and chosen, as the winner's JSON has it; the object is OUT/range.so."""
    file, folder = options.out / "sweep.yaml", options.out / "winner"
    file.write_text(json.dumps(spec))  # JSON is YAML
    subprocess.run([str(options.bin / "tunectl"), "tune", str(file), "--store",
                    str(options.out / "store"), "-o", str(folder)], check=True)
    next(folder.glob("*.so")).rename(options.out / "range.so")
    return json.loads(next(folder.glob("*.json")).read_text())


def single(options, number, config):
    command = [str(options.bin / "kilnc"), "emit", "template:matmul", "--arch", "sm_90a", "--stage",
               "so", "-o", str(options.out / f"{number}.so"), "-c", config]
    for argument in ("M=T.dynamic", f"N={options.columns}", f"K={options.depth}",
                     "dtype='bfloat16'", "out_dtype='bfloat16'", "trans_B=True"):
        command += ["-a", argument]
    subprocess.run(command, check=True)


def sizes_between(winner, count):
    """Sizes that nobody measured: neighbours of the steps' ends, then others, by ratio."""
    low, high = winner["dispatch"]["low"], winner["dispatch"]["high"]
    measured = {point["size"] for point in winner["measured"]["points"]}
    draw = random.Random(17)
    near = [size for step in winner["dispatch"]["steps"]
            for size in (step["first"] - 1, step["first"] + 1, step["last"] - 1, step["last"] + 1)]
    draw.shuffle(near)
    far = [round(low * (high / low) ** draw.random()) for _ in range(100 * count)]
    chosen = []
    for sizes, most in ((near, count // 2), (far, count)):
        for size in sizes:
            if len(chosen) < most and low <= size <= high and size not in measured | set(chosen):
                chosen.append(size)
    return sorted(chosen)


def times_us(kernels, flush):
    """Medians, taken by turns, so that what a card does meanwhile falls on all of them."""
    from kernels import launch_times
    times = [[] for _ in kernels]
    for turn in range(TURNS):
        order = sorted(range(len(kernels)), key=lambda n: (n + turn) % len(kernels))
        order = [number for number in order for _ in range(LAUNCHES)]
        for number, ms in zip(order, launch_times([kernels[n] for n in order], flush)):
            times[number].append(1e3 * ms)
    return [sorted(each)[len(each) // 2] for each in times]


def measure(options, configs, sizes):
    """{size: microseconds of the object, then of each config}, and whether all numbers were right."""
    from kernels import Kernel, Matmul, overwritten
    flush = overwritten()
    times, right = {}, True
    for size in sizes:
        problem = Matmul({"M": size, "N": options.columns, "K": options.depth, "dtype": "bfloat16",
                          "out": "bfloat16"})
        kernels = [Kernel({"name": name, "kind": "matmul", "file": name, "sizes": [size]},
                          options.out, problem)
                   for name in ["range", *map(str, range(len(configs)))]]
        kernels[0]()
        error = kernels[0].error()
        if not error < 1e-2:
            print(f"M={size}: WRONG, relative error {error:.3g}")
            right = False
        times[size] = times_us(kernels, flush)
    return times, right


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def tell(times, configs):
    alone = min(range(1, 1 + len(configs)), key=lambda n: mean([row[n] for row in times.values()]))
    for size, row in times.items():
        best = min(range(1, len(row)), key=row.__getitem__)
        print(f"M={size:<6} object {row[0]:8.2f} us  single {row[alone]:8.2f} "
              f"({row[alone] / row[0]:.3f})  best {row[best]:8.2f} ({row[best] / row[0]:.3f}) "
              f"{configs[best - 1]}", flush=True)
    print(f"single: {configs[alone - 1]}")
    for name, shares in (("single", [row[alone] / row[0] for row in times.values()]),
                         ("best", [min(row[1:]) / row[0] for row in times.values()])):
        print(f"range_{name}_mean {mean(shares):.4f}\nrange_{name}_least {min(shares):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--rows", default="1..8192")
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--depth", type=int, default=4096)
    parser.add_argument("--between", type=int, default=24)
    parser.add_argument("--top-k", type=int, default=16)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    options.out = options.out.resolve()
    winner = tuned(options, {
        "name": "range", "template": "matmul", "target": "gpu", "top_k": options.top_k,
        "shapes": {"M": options.rows, "N": options.columns, "K": options.depth},
        "dtypes": {"dtype": "bfloat16", "out_dtype": "bfloat16"}, "arguments": {"trans_B": True}})
    for step in winner["dispatch"]["steps"]:
        print(f"M={step['first']}..{step['last']}: variant {step['variant']}")
    configs = winner["measured"]["compared"]
    for number, config in enumerate(configs):
        single(options, number, config)
    times, right = measure(options, configs, sizes_between(winner, options.between))
    tell(times, configs)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
