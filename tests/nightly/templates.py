#!/usr/bin/env python3
"""Every template, type and target, more configs of each than fit into every change's tests.

    tests/nightly/templates.py assemble|interpret [--configs N] [--arch A]... [--only TEXT] [--part K/N]

assemble  draws configs from the legal set (20, or all where fewer are legal), compiles each to a cubin
          and demands of the first that is recommended that it spills no register.
interpret draws 3 at a small ragged size, and runs every thread of every block on the instructions
          that they become, against the tiles.
--part takes every N-th space from the K-th on, so that the list can be spread over runs and machines.
Prints one line a space and target, each failure with the command that shows it, and the counts;
exits 1 when something fails. Needs build/bin/kilnc, and for assemble the CUDA Toolkit's ptxas."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gpu"))
from build import kernel_of  # noqa: E402
from spaces import spaces  # noqa: E402

ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a")
NO_CONFIG = "configs of the space is legal"  # a type that the target does not multiply so


class Failed(Exception):
    """What a command said before it failed, and the command."""


def kilnc(command, limit_s=600):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no end within {limit_s} s: {shlex.join(command)}") from error
    if done.returncode:
        text = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}")
        raise Failed(f"{text.splitlines()[0][:300]}: {shlex.join(command)}")
    return done.stdout


def part(text):
    """K/N as a slice of the list."""
    first, _, step = text.partition("/")
    if not (first.isdigit() and step.isdigit() and 1 <= int(first) <= int(step)):
        raise argparse.ArgumentTypeError(f"'{text}' is not K/N with 1 <= K <= N")
    return slice(int(first) - 1, None, int(step))


class Space:
    """One template, choice of types and target."""

    def __init__(self, space, arch, size, options, folder):
        self.name = f"{space['template']}/{space['variant']}"
        self.arch = arch
        self.kernel = kernel_of({**space, "file": self.name.replace("/", "_")}, folder)
        self.arguments = [word for name, value in space[size].items()
                          for word in ("-a", f"{name}={value}")]
        self.options = options
        self.folder = folder

    def command(self, verb, *more):
        return [self.options.kilnc, verb, self.kernel, "--arch", self.arch, *self.arguments, *more]

    def recommended(self, *more):
        """Configs, or none where the target has nothing legal for these types."""
        try:
            answer = json.loads(kilnc(self.command("recommend", "--json", *more)))
        except Failed as error:
            if NO_CONFIG in str(error):
                return []
            raise
        return [c["config"] for c in answer["candidates"]]

    def assemble(self, config):
        """The bytes that it spills, and its stack."""
        with tempfile.NamedTemporaryFile(dir=self.folder) as cubin, \
                tempfile.NamedTemporaryFile(dir=self.folder) as manifest:
            kilnc(self.command("emit", "-c", config, "--stage", "cubin", "-o", cubin.name,
                               "--manifest", manifest.name))
            resources = json.loads(pathlib.Path(manifest.name).read_text())["resources"]
            return resources["spill_bytes"] + resources["stack_bytes"]

    def interpret(self, config):
        kilnc(self.command("run", "--on-instructions", "-c", config))


def assemble(space, count):
    """(configs, of which spill), and what failed."""
    first = space.recommended("--top", "1")
    drawn = space.recommended("--sample", str(count), "--seed", "1") if first else []
    failures, spilling = [], 0
    for config in drawn:
        try:
            spilling += space.assemble(config) > 0
        except Failed as error:
            failures.append(str(error))
    for config in first:
        try:
            if spilled := space.assemble(config):
                failures.append(f"the first recommended spills {spilled} bytes: "
                                f"{shlex.join(space.command('emit', '-c', config))}")
        except Failed as error:
            failures.append(str(error))
    return len(drawn), spilling, failures


def interpret(space, count):
    drawn = space.recommended("--sample", str(count), "--seed", "1")
    failures = []
    for config in drawn:
        try:
            space.interpret(config)
        except Failed as error:
            failures.append(str(error))
    return len(drawn), 0, failures


def checked(work, space, count):
    try:
        return work(space, count)
    except Failed as error:  # nothing was drawn
        return 0, 0, [str(error)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("assemble", "interpret"))
    parser.add_argument("--configs", type=int)
    parser.add_argument("--arch", action="append", choices=ARCHES)
    parser.add_argument("--only", default="", help="spaces whose name holds this")
    parser.add_argument("--part", type=part, default="1/1", metavar="K/N")
    parser.add_argument("--kilnc", default=str(ROOT / "build/bin/kilnc"))
    options = parser.parse_args()
    work, size, count = {"assemble": (assemble, "large", 20),
                         "interpret": (interpret, "small", 3)}[options.what]
    configs = spilling = empty = 0
    failures = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        chosen = [Space(s, arch, size, options, pathlib.Path(folder)) for s in spaces()
                  for arch in options.arch or ARCHES
                  if options.only in f"{s['template']}/{s['variant']}"][options.part]
        jobs = [pool.submit(checked, work, s, options.configs or count) for s in chosen]
        for space, job in zip(chosen, jobs):
            drawn, spill, failed = job.result()
            print(f"{space.name:36} {space.arch:7} configs {drawn:3} spill {spill:3} failed "
                  f"{len(failed):3}", *(f"\n  {f}" for f in failed), flush=True)
            configs, spilling, empty = configs + drawn, spilling + spill, empty + (not drawn)
            failures += failed
    print(f"{options.what}_spaces {len(chosen)}\n{options.what}_spaces_without_a_legal_config {empty}\n"
          f"{options.what}_configs {configs}\n{options.what}_spilling {spilling}\n"
          f"{options.what}_failures {len(failures)}")
    return 1 if failures or not configs else 0


if __name__ == "__main__":
    sys.exit(main())
