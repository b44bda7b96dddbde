#!/usr/bin/env python3
"""Writes tables for tests/replay from exhaustively timed spaces (tests/bench/results/spaces).

    tests/bench/recommender/replay_tables.py [--configs 300] [--kilnc build/bin/kilnc]

Of each shape the fastest configs of the template matmul, a tenth of those asked for, and others by the
order of a hash, each with the price that kilnc recommend gives it and the time that it took on the H200."""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import sys

from exhaustive import read
from gpu_ranks import ROOT, price

SPACES, TABLES = ROOT / "tests/bench/results/spaces", ROOT / "tests/replay/tables"


def picked(path, count):
    """[(config, nanoseconds)], in the order of the hash."""
    timed = [(row["config"], float(row["ns"])) for row in read(path)
             if row["origin"] == "grid" and row["template"] == "matmul" and row["ns"]]
    timed.sort(key=lambda item: hashlib.sha256(item[0].encode()).digest())
    fastest = sorted(timed, key=lambda item: item[1])[:count // 10]
    others = [item for item in timed if item not in fastest]
    return fastest + others[:count - len(fastest)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kilnc", default=str(ROOT / "build/bin/kilnc"))
    parser.add_argument("--configs", type=int, default=300)
    options = parser.parse_args()
    for path in sorted(SPACES.glob("*.csv.xz")):
        shape = path.name.split(".")[0]
        rows = picked(path, options.configs)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            prices = list(pool.map(lambda row: price(options.kilnc, shape, row[0]), rows))
        lines = sorted(f"{config}\t{predicted:.0f}\t{ns:.0f}\n"
                       for predicted, (config, ns) in zip(prices, rows) if predicted)
        (TABLES / f"gpu_gemm_{shape}.tsv").write_text(
            f"# template matmul, {shape} (M x N x K), bfloat16, one NVIDIA H200, from the exhausted space of the\n"
            "# shape. predicted: kilnc recommend; measured: median, cold cache. Nanoseconds; tab-separated.\n"
            + "".join(lines))
        print(f"{shape}: {len(lines)} configs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
