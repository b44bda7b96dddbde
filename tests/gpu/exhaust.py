#!/usr/bin/env python3
"""Times every legal config of a product on this machine's GPU, to hold recommenders against.

    tests/gpu/exhaust.py OUT [--shapes 4096x4096x4096,...] [--draw N] [--count]

The space of a shape (M x N x K, bf16, B transposed) is a grid of tiles, stages, threads, panels and
splits of K, filtered by what the instructions, shared memory and registers of sm_90a allow: no
recommender has a say in it. --draw takes N of it at random, the same of every shape where they are
legal. What recommenders would try first (Kiln's, and Carver's rule) is timed beside it. Compiles on
all cores while the shape before is timed, checks each kernel's numbers, times all of them in few
launches, and those within half of the fastest again, in three rounds one after the other. Kernels
run in a process of their own: one that dies costs its own config.

OUT/<shape>.csv gets a line a config: origin (grid, kiln:<rank>, carver:<rank>), nanoseconds, launches,
template, config; nanoseconds are empty where `why` says what failed. --count only counts the grids.
tests/bench/recommender/exhaustive.py judges recommenders by such files."""
import argparse
import concurrent.futures
import csv
import hashlib
import itertools
import json
import math
import os
import pathlib
import select
import shutil
import subprocess
import sys

from where import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = ("2048x4096x4096", "64x28672x4096", "16x4096x14336", "4096x57344x8192", "2048x4096x14336",
          "4096x4096x4096", "64x7168x16384", "16x6144x4096", "128x2112x7168")
SHARED_BYTES = 227 * 1024
SUMS = 224  # registers of a thread that sums may take
SILENCE = 60  # seconds until a process that says nothing is killed: its kernel may not end
AGAIN = 1.5  # what is within this of the fastest is timed again
FIELDS = ("origin", "ns", "launches", "template", "config", "why")


def multiplies(block_M, block_N, threads):
    """Whether warps divide the tile in instructions of 16 x 8."""
    warps = threads // 32
    return any(block_M % (16 * m) == 0 and block_N % (8 * (warps // m)) == 0
               for m in range(1, warps + 1) if warps % m == 0)


def grid(M, N, K):
    """[(template, config)] in a fixed order. Panels only where there are several rows and columns of
    tiles to order; K is split only into parts of at least one step."""
    found = []
    for block_M, block_N, block_K, stages, threads in itertools.product(
            (16, 32, 64, 128, 192, 256), (16, 32, 48, 64, 96, 128, 160, 192, 256),
            (32, 64, 128, 256), range(1, 7), (128, 256, 384)):
        if (block_M + block_N) * block_K * 2 * stages > SHARED_BYTES or block_K > K:
            continue
        if block_M * block_N > SUMS * threads or not multiplies(block_M, block_N, threads):
            continue
        tile = {"block_M": block_M, "block_N": block_N, "block_K": block_K, "num_stages": stages,
                "threads": threads}
        ordered = math.ceil(M / block_M) > 1 and math.ceil(N / block_N) > 1
        found += [("matmul", {**tile, "panel": panel}) for panel in ((0, 4, 8, 16) if ordered else (0,))]
        found += [("matmul_splitk", {**tile, "split": split}) for split in (2, 4, 8, 16)
                  if split * block_K <= K]
    return found


def text_of(config):
    """Canonical: by name."""
    return ",".join(f"{name}={value}" for name, value in sorted(config.items()))


def arguments_of(template, M, N, K):
    trans = ["-a", "trans_B=True"] if template == "matmul" else []
    return ["-a", f"M={M}", "-a", f"N={N}", "-a", f"K={K}", "-a", "dtype=bfloat16", "-a",
            "out_dtype=bfloat16", *trans]


def record_of_gpu(options):
    """A file with the record of the GPU that is measured, as its worker would report it."""
    runner = pathlib.Path(options.kilnc).parent / "kiln-runner"
    told = subprocess.run([runner, "--describe", "--device", "gpu0"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "arch.txt"
    path.write_text(told)
    return str(path)


def recommended(options, strategy, shape, count=20):
    """Configs in its order; none where the rule has no legal one (Carver's, of few rows)."""
    command = [options.kilnc, "recommend", "template:matmul", "--arch", options.arch, "--strategy",
               strategy, "--top", str(count), "--json", *arguments_of("matmul", *shape)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Carver has no hint" in done.stderr:
        return []
    done.check_returncode()
    return [c["config"] for c in json.loads(done.stdout)["candidates"]]


def tasks_of(options, shape):
    found = grid(*shape)
    tasks = [{"origin": "grid", "template": template, "config": text_of(config)}
             for template, config in found]
    if options.draw:
        tasks.sort(key=lambda t: hashlib.sha256((t["template"] + t["config"]).encode()).digest())
        tasks = tasks[:options.draw]
    for strategy, name in (("recommended", "kiln"), ("carver", "carver")):
        tasks += [{"origin": f"{name}:{rank}", "template": "matmul", "config": config}
                  for rank, config in enumerate(recommended(options, strategy, shape), 1)]
    for number, task in enumerate(tasks):
        task.update(file=str(number), ns="", launches=0, why="")
    return tasks


def compile_task(options, shape, folder, task):
    library = folder / f"{task['file']}.so"
    command = [options.kilnc, "emit", f"template:{task['template']}", "--arch", options.arch,
               "--stage", "so", "-o", str(library), "-c", task["config"],
               *arguments_of(task["template"], *shape)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        task["why"] = "compiling takes more than two minutes"
        return
    if done.returncode:
        task["why"] = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0][:200]


def compile_all(options, shape, folder, tasks):
    """A process for each template's configs, on all cores but those that time another shape meanwhile;
    one for each config where that process dies."""
    cores = max(len(os.sched_getaffinity(0)) - 2, 1)
    for template in sorted({t["template"] for t in tasks}):
        those = [t for t in tasks if t["template"] == template]
        configs, index = folder / "configs.json", folder / "index.json"
        configs.write_text(json.dumps([dict(p.split("=", 1) for p in t["config"].split(","))
                                       for t in those]))
        index.unlink(missing_ok=True)
        command = [options.kilnc, "par-compile", f"template:{template}", "--arch", options.arch,
                   "--configs", configs, "--ignore-error", "-j", str(cores), "-o", folder,
                   *arguments_of(template, *shape)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=120 + 2 * len(those))
            why = f"exit code {done.returncode}: {done.stderr[-300:]}"
        except subprocess.TimeoutExpired:
            why = "it does not end"
        if index.exists():
            for task, told in zip(those, json.loads(index.read_text()), strict=True):
                task["file"] = told.get("artifact", "")
                task["why"] = told.get("error", "").split("\n")[0][:200]
            continue
        print(f"{template}: each config by a process of its own, as for all of them {why}",
              file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor(cores) as pool:
            list(pool.map(lambda t: compile_task(options, shape, folder, t), those))


def timed_here(shape, folder):
    """The child: reads tasks as lines of JSON, answers each with one: launches and times, or why not."""
    sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
    import torch
    from kernels import Kernel, Matmul, launch_times, overwritten
    M, N, K = shape
    torch.manual_seed(1)
    problem = Matmul({"M": M, "N": N, "K": K, "dtype": "bfloat16", "out": "bfloat16"})
    want, kernels = problem.reference(), {}
    norm, scale = float(want.norm()), torch.empty_like(want)
    flush = overwritten()

    def checked(task):
        case = {"name": task["config"], "kind": task["template"], "file": task["file"]}
        kernel = Kernel(case, folder, problem)
        problem.output.fill_(float("nan"))
        kernel()
        torch.sub(problem.output, want, out=scale)
        error = float(scale.norm()) / norm
        if not error < 1e-2:
            raise RuntimeError(f"wrong numbers: {error:.3g}")
        return kernel

    for line in sys.stdin:
        task = json.loads(line)
        try:
            if task["file"] not in kernels:
                kernels[task["file"]] = checked(task)
            calls = [kernels[task["file"]]] * task["ask"]
            told = {"times": [1e6 * ms for ms in launch_times(calls, flush)]}
        except RuntimeError as error:
            if "CUDA error" in str(error):  # nothing more can be done in this context
                raise
            told = {"why": str(error).splitlines()[0]}
        print(json.dumps(told), flush=True)


class Child:
    """A process that times kernels, begun again when it dies or says nothing any more."""

    def __init__(self, shape, folder):
        self.command = [sys.executable, __file__, str(folder), "--child",
                        "x".join(map(str, shape))]
        self.process = None

    def time(self, task, launches):
        """Nanoseconds of each launch; none when it fails, and then task["why"] says why."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        silent = False
        try:
            self.process.stdin.write(json.dumps({**task, "ask": launches}) + "\n")
            self.process.stdin.flush()
            silent = not select.select([self.process.stdout], [], [], SILENCE)[0]
            line = "" if silent else self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            told = json.loads(line)
            task["why"] = told.get("why", "")
            return told.get("times", [])
        if silent:
            self.process.kill()
        said = self.process.communicate()[1].strip().splitlines()
        how = f"said nothing for {SILENCE} s" if silent else "died"
        task["why"] = f"its process {how}: {said[-1] if said else self.process.returncode}"[:200]
        self.process = None
        return []

    def end(self):
        if self.process is not None:
            self.process.communicate()


def median(values):
    return sorted(values)[len(values) // 2]


def time_all(child, tasks):
    """Few launches of each; then three rounds over those that may be the fastest."""
    for task in tasks:
        if task["why"]:
            continue
        once = child.time(task, 2)
        if once and once[-1] < 1e6:
            once += child.time(task, 5)
        if once:
            task.update(times=once[1:], ns=median(once[1:]), launches=len(once) - 1)
    timed = [t for t in tasks if t["ns"]]
    bound = AGAIN * min(t["ns"] for t in timed)
    near = [t for t in timed if t["ns"] <= bound]
    for task in near:
        task["times"] = []
    for _ in range(3):
        for task in near:
            task["times"] += child.time(task, 8)[1:]
    for task in near:
        fine = not task["why"]
        task.update(ns=median(task["times"]) if fine else "", launches=len(task["times"]) * fine)


def write(tasks, path):
    with path.open("w", newline="") as out:
        rows = csv.DictWriter(out, FIELDS, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        for task in tasks:
            rows.writerow({**task, "ns": task["ns"] and round(task["ns"])})


def compiled(name, options):
    """What is to be timed of a shape, compiled on all cores but those that time another meanwhile."""
    shape = tuple(map(int, name.split("x")))
    folder = options.out / f"{name}_built"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = tasks_of(options, shape)
    compile_all(options, shape, folder, tasks)
    return shape, folder, tasks


def measure(name, built, options):
    shape, folder, tasks = built
    refused = sum(bool(t["why"]) for t in tasks)
    child = Child(shape, folder)
    time_all(child, tasks)
    child.end()
    write(tasks, options.out / f"{name}.csv")
    shutil.rmtree(folder)
    timed = sorted((t for t in tasks if t["ns"]), key=lambda t: t["ns"])
    print(f"{name}: {len(tasks)} configs, {refused} not compiled, {len(tasks) - len(timed)} failed in "
          f"all; fastest {timed[0]['ns'] / 1e3:.2f} us {timed[0]['template']} {timed[0]['config']}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--draw", type=int, default=0, metavar="N")
    parser.add_argument("--kilnc", default=str(BIN / "kilnc"))
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        timed_here(tuple(map(int, options.child.split("x"))), options.out)
        return 0
    names = options.shapes.split(",")
    if options.count:
        for name in names:
            print(name, len(grid(*map(int, name.split("x")))))
        return 0
    options.arch = record_of_gpu(options)
    with concurrent.futures.ThreadPoolExecutor(1) as ahead:
        for name, built in zip(names, [ahead.submit(compiled, name, options) for name in names]):
            measure(name, built.result(), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
