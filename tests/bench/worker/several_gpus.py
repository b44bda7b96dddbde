#!/usr/bin/env python3
"""How much more one host measures with two and four GPUs: simulated, for want of the GPUs.

    tests/bench/worker/several_gpus.py [--build build] [--kernel-ms 40] [--repeats 3]

Everything is real (coordinator, worker, compiler, a runner a device, checks and timing) but the driver:
tests/util/fake_cuda, whose devices are busy for as long as a kernel is said to take and need no
processor for it. The same is swept with 1, 2 and 4 devices, each time from an empty store:

    several_gpus_N    one sweep, and of it what devices share: screens and races. Finals interleave
                      all finalists on one device
    several_sweeps_N  eight sweeps at once, finals too: while one has its finals, others go on

Candidates measured a second, from the first measurement's begin to the last one's end, as ratios to one
device; the median of the repeats. Exits 1 when several_gpus is short. Needs the targets
kiln-coordinator, kiln-worker, kiln-compile, kiln-runner, tunectl, kiln_fake_cuda and kiln_fake_nvml."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/gpu"))
from several import measured  # pylint: disable=wrong-import-position
ELEMENTS = 4096
KERNEL = """
import tilelang.language as T
def NAME(N, block=128, threads=128):
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
SWEEPS = 8


class Farm:
    """A coordinator and a worker of `devices` GPUs, with all that they leave in a folder."""

    def __init__(self, folder, options, devices):
        self.folder, self.bin = folder, options.build / "bin"
        self.address = f"unix:{folder}/s"
        driver = folder / "driver"
        driver.mkdir()
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (driver / library).symlink_to(options.build / "tests/fake_cuda" / library)
        (driver / "fake_cuda.conf").write_text(
            f"FAKE_CUDA_DEVICES={devices}\nFAKE_CUDA_KERNEL_US={1e3 * options.kernel_ms:.0f}\n"
            f"FAKE_CUDA_START_US={1e3 * options.start_ms:.0f}\nFAKE_CUDA_ZONE=4096\n"
            f"FAKE_CUDA_FOLDER={folder}\n")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(driver),
                            "KILN_CUDA_PATH": "/nonexistent"}
        self.processes = []
        self.start("coordinator", "kiln-coordinator", "--store", folder / "store", "--listen",
                   self.address)
        self.await_that((folder / "s").exists, "the coordinator")
        self.start("worker", "kiln-worker", "--coordinator", self.address, "--devices", "gpu",
                   "--name", "w", "--work-dir", folder / "work",
                   f"--runner-arg=--lock-dir={folder}")
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

    def submit(self, name, configs):
        (self.folder / f"{name}.py").write_text(KERNEL.replace("NAME", name))
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps({  # JSON is YAML
            "name": name, "kernel": f"{name}.py", "arguments": {"N": ELEMENTS},
            "configs": configs, "target": "gpu", "strategy": "exhaustive",
            "measurement": {"min_seconds": 0.01}}))
        return self.tunectl("submit", file)["sweeps"][0]["sweep"]

    def tune(self, sweeps):
        """Sweeps several lists of configs to their winners."""
        names = [self.submit(f"double{i}", configs) for i, configs in enumerate(sweeps)]
        for sweep in names:
            subprocess.run([str(self.bin / "tunectl"), "--server", self.address, "watch", sweep],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            shown = self.tunectl("show", sweep)
            failures = [c["failure"]["message"] for c in shown["candidates"] if c.get("failure")]
            if not shown.get("winner") or failures:
                raise RuntimeError(f"{shown['progress']}, {failures[:3]}")

    def tunectl(self, *arguments):
        out = subprocess.run([str(self.bin / "tunectl"), "--server", self.address, "--json",
                              *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(out.stdout)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)


def processor():
    """Busy and all ticks of this machine's cores so far."""
    ticks = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def rate(options, devices, sweeps, rounds):
    """Candidates measured a second."""
    with tempfile.TemporaryDirectory(prefix="kiln-gpus-") as folder:
        farm = Farm(pathlib.Path(folder), options, devices)
        try:
            before = processor()
            farm.tune(sweeps)
            after = processor()
        finally:
            farm.stop()
        candidates, seconds = measured(farm.log(), rounds)
    busy = (after[0] - before[0]) / (after[1] - before[1])
    print(f"# {devices} device{'s' if devices > 1 else ''}, {len(sweeps)} "
          f"sweep{'s' if len(sweeps) > 1 else ''}: {candidates} measured in {seconds:.2f} s, all "
          f"cores {100 * busy:.0f} % busy", flush=True)
    return candidates / seconds


def ratios(options, sweeps, rounds):
    """Of throughput with several devices to that with one, by number, of all repeats."""
    found = {devices: [] for devices in BARS}
    for _ in range(options.repeats):
        alone = rate(options, 1, sweeps, rounds)
        for devices, told in found.items():
            told.append(rate(options, devices, sweeps, rounds) / alone)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--kernel-ms", type=float, default=40,
                        help="a kernel takes one to three times that")
    parser.add_argument("--start-ms", type=float, default=0, help="a context takes that")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.build = options.build.resolve()
    one = ratios(options, [CONFIGS], "SCREEN|RACE")
    many = ratios(options, [CONFIGS[i::4] for i in range(SWEEPS)], "SCREEN|RACE|FINALS")
    for name, found in (("several_gpus", one), ("several_sweeps", many)):
        for devices, told in found.items():
            bar = f", at least {BARS[devices]}" if found is one else ""
            print(f"{name}_{devices} {statistics.median(told):.3f} simulated{bar}; "
                  f"{', '.join(f'{ratio:.3f}' for ratio in sorted(told))}")
    return int(any(statistics.median(one[devices]) < bar for devices, bar in BARS.items()))


if __name__ == "__main__":
    sys.exit(main())
