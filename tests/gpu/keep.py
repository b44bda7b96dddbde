#!/usr/bin/env python3
"""Keeps what measure.py left in OUT as the committed results of a card, tests/bench/results/*_CARD*.

    tests/gpu/keep.py OUT CARD             (CARD: h100, h200)

Each results file begins with its command, commit and device; the commit is that of the programs that
measured, as each job's head in OUT says. Jobs that are not in OUT, or that failed, leave their files alone,
and are told. Exit code 1 when there was such a one."""
import argparse
import lzma
import pathlib
import re
import shutil
import subprocess
import sys

from measure import GROUPS

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results"
# File (before _CARD) -> [(a heading or "", job)].
FILES = {
    "gpu_kernels": [("", "kernels")],
    "gpu_legality": [("", "legality")],
    "gpu_main_job": [("", "main_job")],
    "gpu_ranges": [("", "ranges")],
    "gpu_several": [("", "several")],
    "gpu_winners": [("", "winners")],
    "gpu_workers": [("Two sources of time, and copies beside the driver's own", "timing"),
                    ("Faults", "faults")],
    "gpu": [("Sanitizers", "sanitize"), ("Numbers", "checks"), ("Speed", "timed")],
}


def read(out, job):
    """(fields of the head, the rest) of what a job printed, without the folder that it ran in."""
    lines = re.sub(r"/\S*/jobs/", "OUT/", (out / f"{job}.txt").read_text()).split("\n")
    head = {}
    while lines and (found := re.match(r"(command|commit|device): (.*)", lines[0])):
        head[found[1]] = found[2]
        lines.pop(0)
    return head, "\n".join(lines).strip("\n") + "\n"


def headings(text):
    """The lines of a results file that stand alone above its parts, by their first word."""
    lines = text.split("\n")
    return {line.split()[0].rstrip(":"): line for before, line, after in
            zip(lines, lines[1:], lines[2:]) if line and not before and not after}


def head_of(path, head, seconds):
    """The first three lines of a results file, for another run on the device that a job's head names."""
    command, _, device = path.read_text().split("\n")[:3]
    command, device = (re.sub(r"\b\d+ s\b", f"{seconds} s", line) for line in (command, device))
    if devices := re.search(r"--devices [\d ]*\d", head["command"]):
        command = re.sub(r"--devices [\d ]*\d", devices[0], command)
    device = re.sub(r"^device: .*? cores\b", f"device: {head['device']}", device)
    return "\n".join([command, f"commit: {head['commit'][:7]}", device, ""])


def places(name, card):
    """A results file, and the one whose words it takes: itself, or before there is one, another card's."""
    path = RESULTS / f"{name}_{card}.txt"
    return path, path if path.exists() else next(RESULTS.glob(f"{name}_h?00.txt"))


def same_commit(path, heads):
    commits = {head["commit"] for head in heads}
    if len(commits) != 1:
        raise ValueError(f"{path.name}: measured at {', '.join(sorted(commits))}")


def keep(out, card, name, parts, seconds):
    """Writes one results file anew; its command stays, and what its device's line says after the cores."""
    path, before = places(name, card)
    written = headings(before.read_text())
    jobs = [(heading, *read(out, job)) for heading, job in parts]
    same_commit(path, [head for _, head, _ in jobs])
    text = head_of(before, jobs[0][1], sum(seconds[job] for _, job in parts))
    for heading, _, body in jobs:
        if heading:
            text += f"\n{written.get(heading.split()[0], heading)}\n"
        text += "\n" + body
    path.write_text(text)


def keep_spaces(out, card, jobs, seconds):
    """The exhaustive spaces, and what the recommender makes of them."""
    folder = RESULTS / ("spaces" if card == "h200" else f"spaces_{card}")
    folder.mkdir(exist_ok=True)
    path, before = places("gpu_spaces", card)
    heads = [read(out, job)[0] for job in jobs]
    same_commit(path, heads)
    for space in sorted(space for job in jobs for space in (out / "jobs" / job).glob("*.csv")):
        packed = lzma.compress(space.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        (folder / f"{space.name}.xz").write_bytes(packed)
    told = subprocess.run([sys.executable, ROOT / "tests/bench/recommender/exhaustive.py", folder],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    path.write_text(head_of(before, heads[0], sum(seconds[job] for job in jobs)) + "\n" + told)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("card", choices=("h100", "h200"))
    options = parser.parse_args()
    log = re.findall(r"^(\w+) +exit code (\d+), (\d+) s", (options.out / "measure.log").read_text(),
                     re.MULTILINE)
    ended = {job: code for job, code, _ in log}
    seconds = {job: int(spent) for job, _, spent in log}
    missing = []
    for name, parts in FILES.items():
        if any(ended.get(job) != "0" for _, job in parts):
            missing += [job for _, job in parts if ended.get(job) != "0"]
            continue
        keep(options.out, options.card, name, parts, seconds)
    unfinished = [job for job in GROUPS["spaces"] if ended.get(job) != "0"]
    missing += unfinished
    if not unfinished:
        keep_spaces(options.out, options.card, GROUPS["spaces"], seconds)
    pictures = options.out / "jobs/main_job/rooflines"
    if ended.get("main_job") == "0" and pictures.exists():
        for picture in pictures.iterdir():
            shutil.copy(picture, RESULTS / f"gpu_rooflines_{options.card}")
    for job in missing:
        print(f"{job}: not kept: " + ("no such job ran" if job not in ended
                                      else f"exit code {ended[job]}"))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
