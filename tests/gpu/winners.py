#!/usr/bin/env python3
"""How long a winner takes on this machine's GPU, beside Triton's autotuner, and whether it stays the same.

    tests/gpu/winners.py OUT [--bin FOLDER] [--candidates 64] [--shapes 4096x4096x4096,...]

Starts a coordinator and a worker, sweeps one small product so that processes and context are up, then,
of each shape (M x N x K, bf16, B transposed), five sweeps of --candidates that ignore what is stored.
Prints of each: seconds from submit to winner, the winner, its ties and its time, and what the GPU did
meanwhile, as `tunectl show` tells it; of the first, the share of the time from the first compiled
candidate to the winner in which the GPU was idle. Then the winner of the last is
measured again, alone. Where Triton is installed it tunes a plain product over as many configs with an
empty cache in the same run. One line a figure: `name value ...`."""
import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from faults import Farm

from where import BIN

REPEATS = 5


def sweep_of(shape, candidates, name, config=None):
    M, N, K = map(int, shape.split("x"))
    spec = {"name": name, "template": "matmul", "shapes": {"M": M, "N": N, "K": K},
            "dtypes": {"dtype": "bfloat16", "out_dtype": "bfloat16"},
            "arguments": {"trans_B": True}, "target": "gpu", "top_k": candidates,
            "budget": {"candidates": candidates}, "fresh": True}
    return {**spec, "configs": [config]} if config else spec


def tune(farm, spec):
    """The sweep as `tunectl show` tells it, with the seconds by our clock."""
    file = farm.out / "sweep.yaml"
    file.write_text(json.dumps(spec))  # JSON is YAML
    start = time.monotonic()
    sweep = farm.tunectl("submit", str(file))["sweeps"][0]["sweep"]
    shown = farm.ended(sweep, pause=0.02)
    shown["wall"] = time.monotonic() - start
    return shown


def gpu_of(run):
    """What the GPU did during a sweep: the farm has one. Its parts must be all of the time."""
    time, (gpu,) = run["time"], run["time"]["devices"]
    told = sum(gpu["seconds"].values())
    if abs(told - time["elapsed_seconds"]) > 1e-3:
        raise RuntimeError(f"{told} s of {time['elapsed_seconds']} s are accounted for: {gpu}")
    return gpu


def repeat(farm, shape, candidates):
    """Five sweeps, and whether they agree; the seconds of the first."""
    runs = [tune(farm, sweep_of(shape, candidates, f"{shape} {i}")) for i in range(REPEATS)]
    for i, run in enumerate(runs):
        winner, spent = run["winner"], gpu_of(run)["seconds"]
        failed = sum(bool(c.get("failure")) for c in run["candidates"])
        told = ", ".join(f"{k} {v:.2f}" for k, v in sorted(spent.items()))
        print(f"run_{shape}_{i} {run['wall']:.2f} s, {len(run['candidates'])} candidates, {failed} "
              f"failed; {winner['measurement']['median_ns'] / 1e3:.2f} us {winner['config']}; "
              f"{len(winner['ties'])} ties; {told}; {winner['measurement']['conditions']}", flush=True)
    ties = [set(r["winner"]["ties"]) | {r["winner"]["config"]} for r in runs]
    agree = all(r["winner"]["config"] in ties[0] or runs[0]["winner"]["config"] in ties[i]
                for i, r in enumerate(runs))
    stored = runs[-1]["winner"]["measurement"]["median_ns"]
    again = tune(farm, sweep_of(shape, 1, f"{shape} again", runs[-1]["winner"]["config"]))
    drift = again["winner"]["measurement"]["median_ns"] / stored - 1
    # The first had everything to compile; the others found its artifacts.
    idle = [gpu_of(run)["idle_share"] for run in runs]
    print(f"winner_seconds_{shape} {runs[0]['wall']:.2f}")
    print(f"gpu_idle_{shape} {idle[0]:.3f}  # from the first compiled candidate to the winner; the "
          f"others {', '.join(f'{share:.3f}' for share in idle[1:])}")
    print(f"same_winner_{shape} {int(agree)}  # sets of ties of {sorted(map(len, ties))}")
    print(f"drift_{shape} {drift:+.4f}  # {again['winner']['measurement']['conditions']}", flush=True)
    return runs[0]["wall"]


def triton_seconds(shape, candidates):
    """Triton's autotuner from an empty cache over as many configs of a plain product."""
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="kiln-triton-")
    import torch
    import triton
    import triton_matmul
    M, N, K = map(int, shape.split("x"))
    a = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(N, K, device="cuda", dtype=torch.bfloat16)
    start = time.monotonic()
    c, config = triton_matmul.run(a, b, candidates)
    torch.cuda.synchronize()
    seconds = time.monotonic() - start
    error = ((c.double() - a.double() @ b.double().t()).norm() / c.double().norm()).item()
    shutil.rmtree(os.environ["TRITON_CACHE_DIR"], ignore_errors=True)
    print(f"triton_seconds_{shape} {seconds:.2f}  # {triton.__version__}, error {error:.1e}, "
          f"{config}", flush=True)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path,
                        default=BIN)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--shapes", default="4096x4096x4096,2048x4096x4096,16x6144x4096")
    parser.add_argument("--triton", default="4096x4096x4096", help="of these shapes, one for Triton; '' for none")
    options = parser.parse_args()
    options.target, options.out = "gpu", options.out.resolve()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    farm = Farm(options)
    ours = {}
    try:
        tune(farm, sweep_of("512x512x512", 4, "warm-up"))
        for shape in options.shapes.split(","):
            ours[shape] = repeat(farm, shape, options.candidates)
    finally:
        farm.stop()
    if not options.triton:
        return 0
    try:
        theirs = triton_seconds(options.triton, options.candidates)
        print(f"triton_ratio_{options.triton} {theirs / ours[options.triton]:.2f}")
    except ImportError as error:
        print(f"# Triton was not timed: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
