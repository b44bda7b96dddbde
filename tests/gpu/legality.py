#!/usr/bin/env python3
"""Holds what the recommender calls legal, and what it refuses, against the compiler and a GPU.

    tests/gpu/legality.py OUT [--legal 2000] [--illegal 500] [--kilnc build/bin/kilnc]

Draws configs uniformly from the legal set of each space of cases.spaces(), and from what the limits
refuse, compiles all of them, and, where PyTorch sees a GPU, runs them and checks their numbers. A
legal draw holds when it compiles, fits the device and is right; a refused one only when it spills no
register either. Legal draws that spill are counted apart: those of which the recommender said so (it
calls them legal, and takes them to be slow), and those of which it did not. Prints one line a space,
each draw that contradicts the recommender, and the shares; OUT gets legality.json."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import cases
from where import BIN
from build import kernel_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def command_of(verb, case, options):
    kernel = kernel_of({**case, "file": case["name"]}, options.out)
    command = [options.kilnc, verb, kernel, "--arch", options.arch]
    for name, value in case["arguments"].items():
        command += ["-a", f"{name}={value}"]
    return command


def draw(case, count, illegal, options):
    """[(config, the limit that refuses it or "", registers left)], and (legal, all) configs."""
    command = command_of("recommend", case, options) + ["--json", "--sample", str(count), "--seed",
                                                        str(options.seed)]
    result = subprocess.run(command + (["--illegal"] if illegal else []), capture_output=True,
                            text=True, check=False)
    if "configs of the space is legal" in result.stderr:  # types that the target does not multiply
        return [], (0, 0)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
    answer = json.loads(result.stdout)
    if illegal:
        draws = [(r["config"], r["limit"], 0) for r in answer.get("refused", [])]
    else:
        draws = [(c["config"], "", int(c["fields"]["spare_registers"])) for c in answer["candidates"]]
    return draws, (answer["legal"], answer["total"])


def compile_draw(task, options):
    """Adds what became of it: error, registers, spill_bytes, shared_bytes."""
    stem = options.out / task["file"]
    command = command_of("emit", task["case"], options) + [
        "-c", task["config"], "--stage", "so", "-o", f"{stem}.so", "--manifest", f"{stem}.json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        task["error"] = "compiling takes more than two minutes"
        return
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
        task["error"] = lines[0]
        return
    manifest = json.loads(pathlib.Path(f"{stem}.json").read_text())
    task.update(manifest["resources"])
    if task["spill_bytes"] > 0 or task["stack_bytes"] > 0:
        task["spills"] = (f"{task['spill_bytes']} bytes of registers spilled, "
                          f"{task['stack_bytes']} bytes of stack")
        if task["limit"]:
            task["error"] = task["spills"]


def run_draws(tasks, folder):
    """Runs what compiled, space by space, on the same inputs."""
    import torch
    from check import bound_of
    from kernels import Kernel, problem_of
    torch.manual_seed(1)
    by_space = collections.defaultdict(list)
    for task in tasks:
        if "error" not in task:
            by_space[task["case"]["name"]].append(task)
    for name, group in by_space.items():
        problem = problem_of(group[0]["case"])
        want = problem.reference()
        for task in group:
            case = {**task["case"], "file": task["file"]}
            problem.output.fill_(0x5A5A5A5A if problem.output.dtype == torch.int32 else float("nan"))
            try:
                kernel = Kernel(case, folder, problem)
                kernel()
                torch.cuda.synchronize()
            except RuntimeError as error:
                task["error"] = str(error).splitlines()[0]
                if "CUDA error" in str(error):
                    raise SystemExit(f"{name} {task['config']}: {error}") from error
                continue
            task["difference"] = kernel.error(want)
            if not task["difference"] <= bound_of(case, kernel):
                task["error"] = f"wrong numbers: {task['difference']:.3g}"


def report(tasks, spaces, options, ran):
    counts = collections.Counter()
    for task in tasks:
        kind = "illegal" if task["limit"] else "legal"
        counts[kind] += 1
        counts[kind, "holds"] += "error" not in task
        counts[kind, "spills"] += "spills" in task and task["spare_registers"] >= 0
        counts[kind, "doubtful"] += task["spare_registers"] < 0
        counts[kind, "doubtful and spills"] += "spills" in task and task["spare_registers"] < 0
    for case in spaces:
        of = [t for t in tasks if t["case"]["name"] == case["name"]]
        legal = [t for t in of if not t["limit"]]
        refused = [t for t in of if t["limit"]]
        print(f"{case['name']:24} {case['space'][0]:7} of {case['space'][1]:7} legal; drawn "
              f"{len(legal):4}, hold {sum('error' not in t for t in legal):4}; refused {len(refused):4},"
              f" hold {sum('error' not in t for t in refused):4}")
    for task in tasks:
        if not task["limit"] and "error" in task:
            print(f"legal, but: {task['case']['name']} {task['config']}: {task['error'][:200]}")
        if not task["limit"] and "spills" in task and task["spare_registers"] >= 0:
            print(f"said to fit, but: {task['case']['name']} {task['config']}: {task['spills']}")
        if task["limit"] and "error" not in task:
            print(f"refused by {task['limit']}, but holds: {task['case']['name']} {task['config']} "
                  f"registers {task['registers']}")
    where = "compiled and run" if ran else "compiled"
    for kind in ("legal", "illegal"):
        share = counts[kind, "holds"] / max(counts[kind], 1)
        print(f"legality_{kind} {share:.4f}  # {counts[kind]} draws {where}")
    sure = counts["legal"] - counts["legal", "doubtful"]
    print(f"legality_sure {1 - counts['legal', 'spills'] / max(sure, 1):.4f}  # spill nothing, of "
          f"{sure} legal draws said to need no more registers than there are; of the other "
          f"{counts['legal', 'doubtful']}, {counts['legal', 'doubtful and spills']} spill")
    (options.out / "legality.json").write_text(json.dumps(tasks, indent=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--legal", type=int, default=2000)
    parser.add_argument("--illegal", type=int, default=500)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--only", default="", help="spaces whose name holds this")
    parser.add_argument("--kilnc", default=str(BIN / "kilnc"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    spaces = [c for c in cases.spaces() if options.only in c["name"]]
    tasks = []
    for i, case in enumerate(spaces):
        for illegal, wanted in ((False, options.legal), (True, options.illegal)):
            count = wanted * (i + 1) // len(spaces) - wanted * i // len(spaces)
            draws, space = draw(case, count, illegal, options) if count else ([], (0, 0))
            case["space"] = max(case.get("space", (0, 0)), space)
            for config, limit, spare in draws:
                tasks.append({"case": case, "config": config, "limit": limit,
                              "spare_registers": spare,
                              "file": f"draw{len(tasks)}"})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda task: compile_draw(task, options), tasks))
    try:
        import torch
        ran = torch.cuda.is_available() and not options.compile_only
    except ImportError:
        ran = False
    if ran:
        run_draws(tasks, options.out)
    report(tasks, spaces, options, ran)
    for path in options.out.glob("draw*"):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
