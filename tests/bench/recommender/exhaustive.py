#!/usr/bin/env python3
"""Judges recommenders by exhaustively timed spaces (tests/gpu/exhaust.py).

    tests/bench/recommender/exhaustive.py [FOLDER]

Of each shape in FOLDER (tests/bench/results/spaces): the fastest time of its whole space over the
first config that an arm tries, and over the best of its first 16. Arms: Kiln's recommender; Carver's
rule; a fixed list of the 20 configs that do best on the other shapes; 16 drawn at random, in
expectation. A config that failed has no speed. Then the geometric mean and the least of each, over the shapes for
which it has a config at all."""
import csv
import lzma
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRIES = 16
FIXED = 20
SLOWEST = 1e-3  # the share of what failed, so that means exist


def read(path):
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as lines:
        return list(csv.DictReader(lines))


class Space:
    def __init__(self, path):
        self.name = path.name.split(".")[0]
        rows = read(path)
        self.grid = {(r["template"], r["config"]): float(r["ns"] or "inf")
                     for r in rows if r["origin"] == "grid"}
        self.arms = {}
        for row in rows:
            if ":" in row["origin"]:
                arm, rank = row["origin"].split(":")
                self.arms.setdefault(arm, {})[int(rank)] = float(row["ns"] or "inf")
        self.best = min([*self.grid.values(), *(t for a in self.arms.values() for t in a.values())])

    def share(self, times):
        """The fastest of the space over the fastest of these."""
        return max(self.best / min(times, default=math.inf), SLOWEST)

    def tried(self, arm):
        """(first, best of the first 16) of an arm that was timed with the space, if it had any."""
        ranked = [t for _, t in sorted(self.arms.get(arm, {}).items())]
        return (self.share(ranked[:1]), self.share(ranked[:TRIES])) if ranked else None

    def drawn(self):
        """The same of configs drawn at random without repeats, in expectation."""
        times, n = sorted(self.grid.values()), len(self.grid)
        tries = min(TRIES, n)
        first = sum(self.share([t]) for t in times) / n
        best = sum(math.comb(n - i - 1, tries - 1) * self.share([t])
                   for i, t in enumerate(times) if n - i >= tries) / math.comb(n, tries)
        return first, best

    def fixed(self, others):
        """Of the list that does best on the other shapes: by the mean share of those who have it."""
        gains = {config: geometric([o.share([o.grid[config]]) for o in others])
                 for config in self.grid if others and all(config in o.grid for o in others)}
        ranked = sorted(gains, key=lambda c: (-gains[c], c))[:FIXED]
        times = [self.grid[c] for c in ranked]
        return (self.share(times[:1]), self.share(times[:TRIES])) if times else None


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/bench/results/spaces"
    spaces = [Space(path) for path in sorted(folder.glob("*.csv*"))]
    if not spaces:
        print(f"no spaces in {folder}: tests/gpu/exhaust.py makes them on a machine with a GPU")
        return 2
    told = {}
    for space in spaces:
        arms = {"kiln": space.tried("kiln"), "carver": space.tried("carver"),
                "fixed": space.fixed([s for s in spaces if s is not space]),
                "random": space.drawn()}
        print(f"{space.name} {len(space.grid)} configs, {space.best / 1e3:.2f} us;",
              ", ".join(f"{arm} first {both[0]:.3f} top{TRIES} {both[1]:.3f}" if both else
                        f"{arm} none" for arm, both in arms.items()))
        for arm, both in arms.items():
            told.setdefault(arm, []).extend([both] if both else [])
    for arm, shares in told.items():
        for name, values in zip(("first", f"top{TRIES}"), zip(*shares)):
            print(f"{arm}_{name} {geometric(values):.4f} least {min(values):.4f} of {len(values)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
