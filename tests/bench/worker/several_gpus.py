#!/usr/bin/env python3
"""How much more one host measures with two and four GPUs: simulated, for want of the GPUs.

    tests/bench/worker/several_gpus.py [--build build] [--kernel-ms 40] [--repeats 3]

Everything is real (coordinator, worker, compiler, a runner a device, checks and timing) but the driver:
tests/util/fake_cuda, whose devices are busy for as long as a kernel is said to take and need no
processor for it. One list of candidates is swept with 1, 2 and 4 devices, each time from an empty
store. What counts is the part of a sweep that devices share, screens and races; finals interleave all
finalists on one device. Prints measured candidates a second, from the first measurement's begin to the
last one's end, as ratios to one device: several_gpus_2 and several_gpus_4, the median of the repeats.
Exits 1 when one is short. Needs the targets kiln-coordinator, kiln-worker, kiln-compile, kiln-runner,
tunectl, kiln_fake_cuda and kiln_fake_nvml."""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
ELEMENTS = 4096
KERNEL = """
import tilelang.language as T
def double(N, block=128, threads=128):
    @T.prim_func
    def main(x: T.Tensor((N,), "float32"), y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as b:
            for i in T.Parallel(block):
                y[b * block + i] = x[b * block + i] * 2.0
    return main
"""
CONFIGS = [{"block": block, "threads": threads} for block in (128, 256, 512, 1024, 2048, 4096)
           for threads in range(32, 288, 32)]
BARS = {2: 1.9, 4: 3.6}


class Farm:
    """A coordinator and a worker of `devices` GPUs, with all that they leave in a folder."""

    def __init__(self, folder, build, devices, kernel_us):
        self.folder, self.bin = folder, build / "bin"
        self.address = f"unix:{folder}/s"
        driver = folder / "driver"
        driver.mkdir()
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (driver / library).symlink_to(build / "tests/fake_cuda" / library)
        (driver / "fake_cuda.conf").write_text(
            f"FAKE_CUDA_DEVICES={devices}\nFAKE_CUDA_KERNEL_US={kernel_us}\n"
            f"FAKE_CUDA_ELEMENTS={ELEMENTS}\nFAKE_CUDA_FOLDER={folder}\n")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(driver),
                            "KILN_CUDA_PATH": "/nonexistent"}
        self.processes = []
        self.start("coordinator", "kiln-coordinator", "--store", folder / "store", "--listen",
                   self.address)
        self.await_that((folder / "s").exists, "the coordinator")
        self.start("worker", "kiln-worker", "--coordinator", self.address, "--devices", "gpu",
                   "--name", "w", "--work-dir", folder / "work")
        self.await_that(lambda: "attached" in self.log(), "the worker")

    def start(self, name, program, *arguments):
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes.append(subprocess.Popen(
                [str(self.bin / program), *map(str, arguments)], stdout=log,
                stderr=subprocess.STDOUT, env=self.environment))

    def await_that(self, happens, what, within=60):
        until = time.monotonic() + within
        while not happens():
            if time.monotonic() > until:
                raise TimeoutError(f"{what} does not start: {self.log()}")
            time.sleep(0.02)

    def log(self):
        path = self.folder / "worker.log"
        return path.read_text() if path.exists() else ""

    def tune(self):
        """Sweeps the list to its winner; what `tunectl show` tells of it."""
        (self.folder / "kernel.py").write_text(KERNEL)
        sweep = {"name": "double", "kernel": "kernel.py", "arguments": {"N": ELEMENTS},
                 "configs": CONFIGS, "target": "gpu", "strategy": "exhaustive",
                 "measurement": {"min_seconds": 0.01}}
        (self.folder / "sweep.yaml").write_text(json.dumps(sweep))  # JSON is YAML
        submitted = self.tunectl("submit", self.folder / "sweep.yaml")["sweeps"][0]["sweep"]
        subprocess.run([str(self.bin / "tunectl"), "--server", self.address, "watch", submitted],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return self.tunectl("show", submitted)

    def tunectl(self, *arguments):
        out = subprocess.run([str(self.bin / "tunectl"), "--server", self.address, "--json",
                              *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(out.stdout)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)


def seconds_of(line):
    return datetime.datetime.fromisoformat(line.split(" ", 1)[0]).timestamp()


def measured(log):
    """(candidates, seconds) of screens and races, from the first one's begin to the last one's end."""
    begun, begins, ends, candidates = {}, [], [], 0
    for line in log.splitlines():
        started = re.search(r"task started id=(\S+) .*kind=TASK_(?:SCREEN|RACE) .*candidates=(\d+)",
                            line)
        finished = re.search(r"task finished id=(\S+)", line)
        if started:
            begun[started[1]] = int(started[2])
            begins.append(seconds_of(line))
        elif finished and finished[1] in begun:
            candidates += begun[finished[1]]
            ends.append(seconds_of(line))
    return candidates, max(ends) - min(begins)


def processor():
    """Busy and all ticks of this machine's cores so far."""
    ticks = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def rate(build, devices, kernel_us):
    """Candidates measured a second."""
    with tempfile.TemporaryDirectory(prefix="kiln-gpus-") as folder:
        farm = Farm(pathlib.Path(folder), build, devices, kernel_us)
        try:
            before = processor()
            shown = farm.tune()
            after = processor()
        finally:
            farm.stop()
        log = farm.log()
    failures = [c["failure"]["message"] for c in shown["candidates"] if c.get("failure")]
    if not shown.get("winner") or failures:
        raise RuntimeError(f"{shown['progress']}, {failures[:3]}")
    candidates, seconds = measured(log)
    busy = (after[0] - before[0]) / (after[1] - before[1])
    print(f"# {devices} device{'s' if devices > 1 else ''}: {candidates} measured in {seconds:.2f} s, "
          f"all cores {100 * busy:.0f} % busy", flush=True)
    return candidates / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--kernel-ms", type=float, default=40,
                        help="a kernel takes one to three times that")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    build, kernel_us = options.build.resolve(), round(options.kernel_ms * 1e3)
    ratios = {devices: [] for devices in BARS}
    for _ in range(options.repeats):
        alone = rate(build, 1, kernel_us)
        for devices, told in ratios.items():
            told.append(rate(build, devices, kernel_us) / alone)
    for devices, told in ratios.items():
        print(f"several_gpus_{devices} {statistics.median(told):.3f} simulated, at least "
              f"{BARS[devices]}; {', '.join(f'{ratio:.3f}' for ratio in sorted(told))}")
    return int(any(statistics.median(ratios[devices]) < bar for devices, bar in BARS.items()))


if __name__ == "__main__":
    sys.exit(main())
