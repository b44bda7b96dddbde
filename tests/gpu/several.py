#!/usr/bin/env python3
"""How much more this machine measures with several of its GPUs than with one.

    tests/gpu/several.py OUT [--bin FOLDER] [--devices 2 [4 ...]] [--shape 8192x8192x8192] [--candidates 384] [--repeats 3]

Sweeps a product (M x N x K, bf16, B transposed) over --candidates configs with a worker of one GPU and with
those of --devices GPUs in turn, each time as a fresh sweep whose artifacts are there, so that no compiler is
waited for. Counted is what devices share, screens and races (finals interleave all finalists on one device),
from the first one's begin to the last one's end, as the worker's log tells it. Prints a line a sweep, then
`several_gpus_N RATIO`: candidates measured a second over those with one GPU, the median of the repeats."""
import argparse
import datetime
import pathlib
import re
import shutil
import statistics
import sys

from faults import Farm
from where import BIN
from winners import sweep_of, tune


def seconds_of(line):
    return datetime.datetime.fromisoformat(line.split(" ", 1)[0]).timestamp()


def measured(log, rounds):
    """(candidates, seconds) of those rounds in a worker's log, from the first one's begin to the last
    one's end."""
    begun, begins, ends, candidates = {}, [], [], 0
    for line in log.splitlines():
        started = re.search(rf"task started id=(\S+) .*kind=TASK_(?:{rounds}) .*candidates=(\d+)",
                            line)
        finished = re.search(r"task finished id=(\S+)", line)
        if started:
            begun[started[1]] = int(started[2])
            begins.append(seconds_of(line))
        elif finished and finished[1] in begun:
            candidates += begun[finished[1]]
            ends.append(seconds_of(line))
    return candidates, max(ends) - min(begins)


class SeveralGpus(Farm):
    """A farm whose worker is replaced by one of other devices, store and caches kept."""

    def use(self, devices):
        worker = self.processes.pop("worker", None)
        if worker is not None:
            worker.terminate()
            worker.wait(60)
        self.options.target = ",".join(f"gpu{i}" for i in range(devices))
        self.start_worker()

    def log(self):
        return (self.out / "worker.log").read_text()


def rate(farm, devices, options):
    """Candidates measured a second."""
    farm.use(devices)
    tune(farm, sweep_of("512x512x512", 4, "warm-up"))  # contexts are up
    before = len(farm.log())
    shown = tune(farm, sweep_of(options.shape, options.candidates, f"{devices} devices"))
    candidates, seconds = measured(farm.log()[before:], "SCREEN|RACE")
    failed = sum(bool(c.get("failure")) for c in shown["candidates"])
    idle = ", ".join(f"{gpu['device']} idle {gpu['idle_share']:.2f}"
                     for gpu in shown["time"]["devices"])
    print(f"# {devices} device{'s' if devices > 1 else ''}: {candidates} measured in {seconds:.2f} s, "
          f"{failed} failed, {idle}; {shown['winner']['config']}", flush=True)
    return candidates / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--devices", type=int, nargs="+", default=[2])
    parser.add_argument("--shape", default="8192x8192x8192")
    parser.add_argument("--candidates", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.target, options.out = "gpu", options.out.resolve()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    farm = SeveralGpus(options)
    ratios = {devices: [] for devices in options.devices}
    try:
        rate(farm, max(ratios), options)  # compiles
        for _ in range(options.repeats):
            alone = rate(farm, 1, options)
            for devices, seen in ratios.items():
                seen.append(rate(farm, devices, options) / alone)
    finally:
        farm.stop()
    for devices, seen in ratios.items():
        print(f"several_gpus_{devices} {statistics.median(seen):.3f}  # "
              f"{', '.join(f'{ratio:.3f}' for ratio in sorted(seen))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
