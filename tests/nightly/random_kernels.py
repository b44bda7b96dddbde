#!/usr/bin/env python3
"""Random kernels, each against what NumPy says of it: nothing may come out wrong.

    tests/nightly/random_kernels.py [--seeds 0:300] [--modes M,M] [--kilnc build/bin/kilnc]
    tests/nightly/random_kernels.py --show SEED

A seed is one kernel (random_program.py), the same on every machine. Modes: `tiles` is the
interpreter, `x86` the native code, `threads` every thread of a block on registers of its own,
`sm_90a` and so on the instructions of that GPU that they become. All numbers are exact, so that
every element must be equal. Prints each failure with the command that shows it, whose kernel and
tensors are kept, and at the end what was refused and why, and the counts of runs; exits 1 when one
is wrong, crashes or does not end, and when more than 15 % are refused: then it tests too little."""
import argparse
import collections
import concurrent.futures
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernels"))
from run import decode, encode, np, storage  # noqa: E402
from random_program import Program  # noqa: E402

MODES = {"tiles": ["--interpret"], "x86": ["--threads", "1"],
         "threads": ["--on-threads", "--arch", "sm_90a"],
         **{gpu: ["--on-instructions", "--arch", gpu] for gpu in ("sm_90a", "sm_80", "sm_100a")}}
REFUSED_SHARE = 0.15


def differences(case, folder):
    """What is not as wanted, in words, or nothing."""
    for name, want in case.wanted.items():
        dtype = case.types[name]
        got = decode(np.fromfile(folder / f"{name}.out", storage(dtype)), dtype)
        if got.size != want.size:
            return f"{name} has {got.size} elements, not {want.size}"
        wrong = np.argwhere(~(got.reshape(want.shape) == want))
        if len(wrong):
            at = tuple(map(int, wrong[0]))
            return (f"{name}: {len(wrong)} of {want.size} wrong, first {list(at)} = "
                    f"{got.reshape(want.shape)[at]:g}, not {want[at]:g}")
    return ""


def run_mode(case, mode, folder, options):
    """("agree" | "refused" | "wrong", why, command)."""
    command = [options.kilnc, "run", folder / "kernel.py", *MODES[mode]]
    command += [w for n, v in case.runtime.items() for w in ("-r", f"{n}={v}")]
    command += [w for n in case.inputs for w in ("-i", f"{n}={folder / n}.in")]
    command += [w for n in case.wanted for w in ("-o", f"{n}={folder / n}.out")]
    command = [str(word) for word in command]
    outputs = [folder / f"{name}.out" for name in case.wanted]
    for path in outputs:
        path.unlink(missing_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              check=False, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return "wrong", f"no end within {options.limit:g} s", command
    said = (done.stderr.strip() or done.stdout.strip()).replace(f"{folder}/", "")
    first = said.partition("\n")[0][:300]
    if done.returncode < 0 or done.returncode > 2:
        return "wrong", f"exit code {done.returncode}: {first}", command
    if done.returncode and not all(path.exists() for path in outputs):
        # The kernels have no races and read nothing unwritten; nothing may go wrong inside.
        ours = not first or re.search("race: |nothing has written|internal", first, re.I)
        return "wrong" if ours else "refused", first or "no message", command
    wrong = differences(case, folder)
    if not wrong and done.returncode:
        wrong = f"equal to the oracle, but: {said.splitlines()[-1][:200]}"
    return ("wrong" if wrong else "agree"), wrong, command


def check(seed, options):
    """[(mode, verdict, why, command)]; the folder stays if one is wrong."""
    case = Program(seed).case()
    folder = options.keep / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.py").write_text(case.source, encoding="utf-8")
    for name, values in case.inputs.items():
        encode(values, case.types[name]).tofile(folder / f"{name}.in")
    results = []
    for mode in options.modes:
        results.append((mode, *run_mode(case, mode, folder, options)))
        if mode == "tiles" and results[-1][1] == "refused":
            break  # of the language: no other mode would take it
    if all(verdict != "wrong" for _, verdict, _, _ in results):
        shutil.rmtree(folder)
    return results


def reason(text):
    """A refusal without what differs from kernel to kernel."""
    text = re.sub(r"^(pass \S+ )?\S+:\d+:\d+: ", r"\1", text)  # without its place
    text = re.sub(r"'[^']*'|\b\w+\[[^:]*\]", "X", text)
    return re.sub(r"\d+(, ?\d+)*", "N", text)[:110]


def seeds(text):
    first, _, end = text.partition(":")
    return range(int(first), int(end) if end else int(first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=seeds, default=range(300), help="FIRST:END, or one")
    parser.add_argument("--modes", default=",".join(MODES), type=lambda t: t.split(","),
                        help="some of these, by default all: " + ",".join(MODES))
    parser.add_argument("--kilnc", default=ROOT / "build/bin/kilnc", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for kernels that fail")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60, help="seconds a command may take")
    parser.add_argument("--show", type=int, metavar="SEED", help="print this kernel and end")
    options = parser.parse_args()
    if unknown := set(options.modes) - MODES.keys():
        parser.error(f"no mode is called {sorted(unknown)[0]}")
    if options.show is not None:
        print(Program(options.show).case().source, end="")
        return 0
    options.keep = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="random_kernels_"))

    counts, reasons = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        checked = pool.map(lambda s: check(s, options), options.seeds)
        for seed, results in zip(options.seeds, checked):
            for mode, verdict, why, command in results:
                counts[verdict] += 1
                if verdict == "refused":
                    reasons[reason(why)] += 1
                if verdict == "wrong":
                    print(f"seed {seed} {mode}: {why}\n  {shlex.join(command)}", flush=True)
    if not any(options.keep.iterdir()):
        options.keep.rmdir()
    for text, count in reasons.most_common():
        print(f"refused {count:4} {text}")
    print(f"random_kernels {len(options.seeds)}",
          *(f"{verdict} {counts[verdict]}" for verdict in ("agree", "refused", "wrong")), sep="\n")
    too_many = counts["refused"] > REFUSED_SHARE * counts.total()
    if too_many:
        print(f"more than {REFUSED_SHARE:.0%} are refused: this tests too little")
    return 1 if counts["wrong"] or too_many else 0


if __name__ == "__main__":
    sys.exit(main())
