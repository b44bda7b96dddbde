#!/usr/bin/env python3
"""Everything that is measured on a machine with GPUs and PyTorch, from one command.

    tests/gpu/measure.py OUT [JOB ...] [--bin FOLDER] [--list]

Each GPU takes one job after the other, with a share of the cores for itself, so that a machine of several
GPUs is done sooner; jobs that need all GPUs go first, alone. A job's folder is OUT/jobs/JOB, what it prints
OUT/JOB.txt, with its commands, the commit of the programs, the GPU, seconds and exit code. Without JOB: all
of them; spaces names spaces1 to spaces4. Exit code 1 when a job failed. Run from the source tree, with the
programs of --bin (a bundle's, say)."""
import argparse
import concurrent.futures
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import time

from exhaust import SHAPES
from where import BIN

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ALL_GPUS = ("several",)
GROUPS = {"spaces": [f"spaces{part}" for part in range(1, 5)]}  # what stands for several jobs


def jobs_of(out, programs, count):
    """{name: its commands} on a machine of so many GPUs, the longest first."""
    def script(name, *arguments, folder=HERE):
        return [sys.executable, str(folder / name), *map(str, arguments)]
    farm, kilnc = ("--bin", programs), ("--kilnc", programs / "kilnc")
    def built(name, which, then):
        return [script("build.py", out / name, which, *kilnc), then]
    return {
        "several": [script("several.py", out / "several", *farm, "--devices",
                           *(n for n in (2, 4, 8) if n <= max(2, count)))],
        **{job: [script("exhaust.py", out / job, "--draw", 2150, "--shapes",
                        ",".join(SHAPES[part::len(GROUPS["spaces"])]), *kilnc)]
           for part, job in enumerate(GROUPS["spaces"])},
        "main_job": [[str(HERE / "main_job.sh"), str(out / "main_job"), *map(str, farm)]],
        "legality": [script("legality.py", out / "legality", "--legal", 2000, "--illegal", 500,
                            "--seed", 41, *kilnc)],
        "timed": built("timed", "timed", script("bench.py", folder=out / "timed")),
        "winners": [script("winners.py", out / "winners", *farm)],
        "faults": [script("faults.py", out / "faults", "--cut-off", 60, *farm)],
        "ranges": [script("ranges.py", out / "ranges", *farm)],
        "kernels": [script("run.py", "--checks", "device,plain_device", "--jobs", 8, *kilnc,
                           folder=ROOT / "tests/kernels")],
        "timing": [script("timing.py", out / "timing", *farm)],
        "checks": built("checks", "checks", script("check.py", folder=out / "checks")),
        "sanitize": built("sanitize", "checks", [str(out / "sanitize/sanitize.sh")]),
    }


def gpus():
    """[(CUDA_VISIBLE_DEVICES, the GPU's name)]; empty where NVIDIA's driver is not."""
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    return [tuple(line.split(", ", 1)) for line in listed.splitlines()]


def commit_of(programs):
    path = programs.parent / "COMMIT"
    return path.read_text().strip() if path.exists() else "unknown: no bundle"


RUNNING = set()  # leaders of the jobs' sessions


def ended(process):
    """A job's exit code, once it has ended."""
    RUNNING.add(process.pid)
    process.wait()
    RUNNING.discard(process.pid)
    return process.returncode


def stop(signum, _):
    """With all that the jobs started: coordinators and workers, too."""
    for leader in list(RUNNING):
        os.killpg(leader, signal.SIGKILL)
    os._exit(128 + signum)


def told(command, options):
    """A command without this machine's paths."""
    text = " ".join(part for part in command if part != sys.executable)
    for path, name in ((options.out / "jobs", "OUT"), (options.bin, "FOLDER"), (ROOT, "")):
        text = text.replace(f"{path}/" if not name else str(path), name)
    return text


def run(name, commands, seen, cores, options):
    """Whether all commands of a job succeeded, on these GPUs and cores."""
    (options.out / "jobs").mkdir(parents=True, exist_ok=True)
    visible, model = seen
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible, "PYTHONUNBUFFERED": "1"}
    start, code = time.monotonic(), 0
    with (options.out / f"{name}.txt").open("w") as log:
        for command in commands:
            print(f"command: {told(command, options)}", file=log)
        print(f"commit: {commit_of(options.bin)}\ndevice: {model}, {len(cores)} cores\n", file=log,
              flush=True)
        for command in commands:
            code = code or ended(subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment,
                start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores)))
    print(f"{name:10} exit code {code}, {time.monotonic() - start:.0f} s, GPU {visible}", flush=True)
    return code == 0


def shares(cores, count):
    """The cores in as many equal runs."""
    size = len(cores) // count
    return [cores[i * size:(i + 1) * size] for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("jobs", nargs="*", metavar="JOB")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--list", action="store_true", help="print the jobs and end")
    options = parser.parse_args()
    options.out, options.bin = options.out.resolve(), options.bin.resolve()
    found = gpus()
    jobs = jobs_of(options.out / "jobs", options.bin, len(found))
    options.jobs = [job for name in options.jobs for job in GROUPS.get(name, [name])]
    unknown = [name for name in options.jobs if name not in jobs]
    if options.list or unknown:
        for name, commands in jobs.items():
            print(f"{name:10} {'; '.join(told(command, options) for command in commands)}")
        if unknown:
            parser.error(f"no job is called {unknown[0]}")
        return 0
    if not found:
        print("skipped: no GPU on this machine (no nvidia-smi, or it lists none)")
        return 0
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    wanted = {name: jobs[name] for name in jobs if name in (options.jobs or jobs)}
    cores = sorted(os.sched_getaffinity(0))
    every = (",".join(visible for visible, _ in found), f"{len(found)} {found[0][1]}")
    found = [(visible, f"one of {len(found)} {model}" if len(found) > 1 else f"one {model}")
             for visible, model in found]
    right = [run(name, wanted.pop(name), every, cores, options) for name in ALL_GPUS
             if name in wanted and (len(found) > 1 or options.jobs)]
    free = queue.SimpleQueue()
    for lane in zip(found, shares(cores, len(found))):
        free.put(lane)

    def on_a_gpu(name):
        lane = free.get()
        try:
            return run(name, wanted[name], *lane, options)
        finally:
            free.put(lane)

    with concurrent.futures.ThreadPoolExecutor(len(found)) as pool:
        right += pool.map(on_a_gpu, [name for name in wanted if name not in ALL_GPUS])
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
