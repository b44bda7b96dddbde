#!/usr/bin/env python3
"""Holds what kilnc recommend says of registers against the assembler; needs no GPU.

    tests/bench/recommender/registers.py [--draws 20] [--refused 5] [--arch A]... [--only TEXT]
        [--part K/N] [--seed 1] [--least-fit SHARE] [--most-refused SHARE]

Of every shipped template, type (tests/nightly/spaces.py) and target draws legal configs, and of those
that are refused for their registers some, assembles all, and compares what is spilled with what was
said. Prints each config of which the wrong thing was said, and the counts both ways: said to fit but
spills, said to spill but fits, refused but fits. Exits 1 when of those said to fit a smaller share does
than --least-fit, or of those refused a larger one than --most-refused. Needs build/bin/kilnc and the
CUDA Toolkit's assembler; without that it exits 77."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/nightly"), str(ROOT / "tests/gpu")]
from spaces import spaces  # noqa: E402
from templates import ARCHES, NO_CONFIG, Failed, Space, kilnc, part  # noqa: E402

NO_ASSEMBLER = "no assembler for GPU code"
TRIES = 12  # refused configs that are drawn for each that is refused for its registers
KINDS = ("fits", "spills", "refused")


def answer(space, *more):
    try:
        return json.loads(kilnc(space.command("recommend", "--json", *more)))
    except Failed as error:
        if NO_CONFIG in str(error):
            return {}
        raise


def draws(space, options):
    """[(config, what is said of it)]."""
    seed = ("--seed", str(options.seed))
    found = [(c["config"], KINDS[int(c["fields"]["spare_registers"]) < 0])
             for c in answer(space, "--sample", str(options.draws), *seed).get("candidates", [])]
    if found and options.refused:
        more = ("--sample", str(TRIES * options.refused), "--illegal")
        refused = [(r["config"], "refused") for r in answer(space, *more, *seed).get("refused", [])
                   if r["limit"].startswith("registers,")]
        found += refused[:options.refused]
    return found


def judge(space, options):
    """[(what was said, whether it holds, the config)]; what cannot be compiled has no registers."""
    judged = []
    for config, said in draws(space, options):
        try:
            spilled = space.assemble(config)
        except Failed as error:
            if NO_ASSEMBLER in str(error):
                raise
            continue
        judged.append((said, (spilled > 0) == (said != "fits"), f"{config}: {spilled} bytes"))
    return judged


def report(told):
    """Prints the counts; {what was said: the share of which it does not hold}."""
    wrong = {}
    for said, name in zip(KINDS, ("said_to_fit", "said_to_spill", "refused")):
        holds = [held for kind, held, _ in told if kind == said]
        wrong[said] = holds.count(False) / max(len(holds), 1)
        print(f"registers_{name} {1 - wrong[said]:.4f}  # of {len(holds)} configs; the other "
              f"{holds.count(False)} {'spill' if said == 'fits' else 'fit'}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--refused", type=int, default=5)
    parser.add_argument("--arch", action="append", choices=ARCHES)
    parser.add_argument("--only", default="", help="spaces whose name holds this")
    parser.add_argument("--part", type=part, default="1/1", metavar="K/N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least-fit", type=float, default=0)
    parser.add_argument("--most-refused", type=float, default=1)
    parser.add_argument("--kilnc", default=str(ROOT / "build/bin/kilnc"))
    options = parser.parse_args()
    told = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        chosen = [Space(s, arch, "large", options, pathlib.Path(folder)) for s in spaces()
                  for arch in options.arch or ARCHES
                  if options.only in f"{s['template']}/{s['variant']}"][options.part]
        try:
            for space, judged in zip(chosen, pool.map(lambda s: judge(s, options), chosen)):
                for said, held, config in judged:
                    if not held:
                        print(f"{space.name} {space.arch} {said}, but {config}", flush=True)
                told += judged
        except Failed as error:
            if NO_ASSEMBLER not in str(error):
                raise
            print(error)
            return 77
    wrong = report(told)
    return int(not told or 1 - wrong["fits"] < options.least_fit
               or wrong["refused"] > options.most_refused)


if __name__ == "__main__":
    sys.exit(main())
