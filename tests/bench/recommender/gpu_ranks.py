#!/usr/bin/env python3
"""Holds the prices of kilnc recommend against measured products of an H200 (results/gpu_products_h200.csv).

    tests/bench/recommender/gpu_ranks.py [--kilnc build/bin/kilnc] [--sample 120]

Of each shape the 70 fastest configs and a fixed random sample of the others, priced one by one. Prints
Spearman's rank correlation, the median of predicted / measured - 1, and the fastest time over that of the
best of the first 1, 4 and 16 by price."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FASTEST = 70


def price(kilnc, shape, config):
    M, N, K = shape.split("x")
    command = [kilnc, "recommend", "template:matmul", "--arch", "sm_90a", "--json", "-c", config]
    for argument in (f"M={M}", f"N={N}", f"K={K}", "dtype=bfloat16", "out_dtype=bfloat16",
                     "trans_B=True"):
        command += ["-a", argument]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    candidates = json.loads(result.stdout)["candidates"] if result.returncode == 0 else []
    return candidates[0]["predicted_ns"] if candidates else None


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0] * len(values)
    for place, index in enumerate(order):
        places[index] = place
    return places


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kilnc", default=str(ROOT / "build/bin/kilnc"))
    parser.add_argument("--sample", type=int, default=120)
    options = parser.parse_args()
    measured = collections.defaultdict(dict)
    for line in (ROOT / "tests/bench/results/gpu_products_h200.csv").read_text().splitlines():
        if not line.startswith("#"):
            shape, ns, config = line.split(",", 2)
            measured[shape][config] = float(ns)
    for shape, times in measured.items():
        sorted_times = sorted(times.items(), key=lambda item: item[1])
        rest = sorted_times[FASTEST:]
        some = random.Random(1).sample(rest, min(len(rest), max(0, options.sample - FASTEST)))
        picked = sorted_times[:FASTEST] + some
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            prices = list(pool.map(lambda item: price(options.kilnc, shape, item[0]), picked))
        both = sorted((p, ns) for p, (_, ns) in zip(prices, picked) if p)
        n = len(both)
        a, b = ranks([p for p, _ in both]), ranks([ns for _, ns in both])
        rho = 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))
        error = sorted(p / ns - 1 for p, ns in both)[n // 2]
        best = sorted_times[0][1]
        tops = " ".join(f"top{k} {best / min(ns for _, ns in both[:k]):.3f}" for k in (1, 4, 16))
        print(f"{shape:18} {n} priced, rho {rho:.3f}, median error {error:+.2f}, {tops}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
