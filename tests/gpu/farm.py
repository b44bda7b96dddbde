#!/usr/bin/env python3
"""Sweeps the timed shapes on this machine's GPU and leaves the winners for bench.py.

    tests/gpu/farm.py OUT [--bin FOLDER] [--main] [--only TEXT] [--skip TEXT] [--top-k 16]

Starts a coordinator and a worker through `tunectl tune`, needs no network, and uses an empty store.
OUT gets the winners with cases.json beside them, the roofline of each sweep as a picture, and
farm.json, which has of each sweep its seconds, what it tried, what failed and why, and the winner;
prints one line a sweep, with the seconds of checks and of timing, and at the end whether checks cost less
everywhere. --main takes the shapes of main_job.sh alone. Then `OUT/bench.py` times the winners and their
anchors in one run."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import cases
import driver
from where import BIN

HERE = pathlib.Path(__file__).resolve().parent


# The shapes of the main job: products in bfloat16 and float8, attention, and one kernel of each other kind.
MAIN = ["dec128_down", "conv3x3", *cases.SHAPES, *(name for name, *_ in cases.DECODE),
        *(f"{name}_float8" for name in [*cases.LARGE, "sq2048", "sq1024"]),
        *(f"{kind}8192_bfloat16" for kind in ("softmax", "rmsnorm", "rowsum", "transpose"))]


def is_main(shape):
    return shape in MAIN or shape.startswith("attention_")


def shapes():
    """One case of each shape, its config open."""
    first = {}
    for case in cases.timed():
        first.setdefault(case["name"].split("/")[0], case)
    return {shape: {**case, "name": f"{shape}/winner", "file": shape, "config": {}, "options": {}}
            for shape, case in first.items()
            if not shape.endswith(("_mma", "_quick")) and "tf32" not in shape}


def sweep_of(case):
    return {"name": case["file"], "template": case["template"],
            "arguments": {k: v.strip("'") if isinstance(v, str) else v
                          for k, v in case["arguments"].items()}}


def sweep(tunectl, store, options, case):
    """Tunes one shape, with the winner in OUT/winners; what became of it, or None."""
    file = options.out / "sweep.yaml"  # JSON is YAML
    file.write_text(json.dumps({"target": "gpu", "top_k": options.top_k, **sweep_of(case)}))
    with (options.out / "tune.log").open("a") as log:
        subprocess.run([*tunectl, "tune", str(file), "--store", store, "-o",
                        str(options.out / "winners")],
                       stdout=log, stderr=subprocess.STDOUT, check=False)
    listed = json.loads(subprocess.run([*tunectl, "--store", store, "--json", "list"],
                                       capture_output=True, text=True, check=True).stdout)
    found = [one for one in listed["sweeps"] if one["name"] == case["file"]]
    return tell(tunectl, store, case["file"], found[0], case) if found else None


def tell(tunectl, store, name, listed, case):
    """What became of one sweep."""
    picture = pathlib.Path(store).parent / "rooflines" / f"{name}.svg"
    text = subprocess.run([*tunectl, "--store", store, "--json", "explain", listed["sweep"], "--svg",
                           str(picture)], capture_output=True, text=True, check=True).stdout
    details = json.loads(text)
    failures = [f"{c['config']}: {c['failure']['stage']}: {c['failure']['message']}"
                for c in details["candidates"] if c.get("failure")]
    winner = details.get("winner") or {}
    measured = winner.get("measurement") or {}
    return {"name": name, "config": winner.get("config", ""),
            "median_ns": measured.get("median_ns"), "check": measured.get("check_summary"),
            "conditions": measured.get("conditions"),
            "candidates": len(details["candidates"]), "failures": failures,
            "elapsed": listed["progress"]["elapsed_seconds"], "seconds": details["seconds"],
            "time": details.get("time"),
            "agreement": details["agreement"], "template": case["template"]}


def costs(story):
    """The seconds that its checks and its timing took, of all candidates."""
    check, timing = check_and_timing(story)
    return f"check {check:.2f} s, timing {timing:.2f} s"


def check_and_timing(story):
    seconds = story["seconds"]
    return seconds.get("check", 0), seconds.get("measure", 0) + seconds.get("warmup", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--main", action="store_true", help="the shapes of the main job alone")
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    parser.add_argument("--skip", default="-", help="shapes to leave out, likewise")
    parser.add_argument("--top-k", type=int, default=16)
    options = parser.parse_args()
    if why := driver.problem():
        print(f"farm.py: nothing can be measured here: {why}", file=sys.stderr)
        return 1
    (options.out / "rooflines").mkdir(parents=True, exist_ok=True)
    wanted = {name: case for name, case in shapes().items()
            if options.only in name and options.skip not in name
            and (is_main(name) or not options.main)}
    tunectl, store = [str(options.bin / "tunectl")], str(options.out / "store")
    shutil.rmtree(store, ignore_errors=True)
    told, built = [], []
    for name, case in wanted.items():
        story = sweep(tunectl, store, options, case)
        library = options.out / "winners" / f"kiln_{case['kind']}.so"
        if story is None or not story["config"] or not library.exists():
            why = "; ".join(story["failures"][:2]) if story else f"see {options.out}/tune.log"
            print(f"{name}: no winner: {why}", flush=True)
            continue
        told.append(story)
        shutil.copy(library, options.out / f"{name}.so")
        library.unlink()
        built.append(case)
        print(f"{name:36} {story['elapsed']:6.2f} s {story['candidates']:3} tried "
              f"{len(story['failures']):2} failed {story['median_ns'] / 1e3:9.1f} us  "
              f"{costs(story)}  {story['config']}", flush=True)
        (options.out / "farm.json").write_text(json.dumps(told, indent=1))
        (options.out / "cases.json").write_text(json.dumps(built))
    for script in ("gpu/kernels.py", "gpu/read_kernel.py", "bench/gpu/bench.py"):
        shutil.copy(HERE.parent / script, options.out)
    dear = [one["name"] for one in told if check_and_timing(one)[0] >= check_and_timing(one)[1]]
    print(f"checks cost less than timing in {len(told) - len(dear)} of {len(told)} sweeps"
          + "".join(f"; not in {name}" for name in dear))
    print(f"{len(built)} of {len(wanted)} sweeps ended with a winner")
    return 0 if len(built) == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
