"""What every table of bars shares: running commands, judging figures, printing one line a bar.

A bar is a function that measures and returns (value, bar, ok). What fails on the way (Failed, or a
command's exit code) makes the bar short.
"""
import math
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"


class Failed(Exception):
    """What went wrong while a bar was measured: the bar counts as short."""


class Skipped(Exception):
    """Why a bar cannot be measured here, and has no committed result that still holds."""


def run(command, codes=(0,), **options):
    """Runs a command; returns its standard output. Benchmarks that exit 1 when a bar of theirs is
    missed are given `codes` (0, 1): their figures are judged here."""
    result = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, **options)
    if result.returncode not in codes:
        raise Failed(f"{command[0]} exited {result.returncode}: {result.stdout.strip()[-300:]}")
    return result.stdout


def build(*targets):
    if not (ROOT / "build/build.ninja").exists():
        run(["deploy/install_deps.sh"])
        run(["cmake", "-G", "Ninja", "-S", ".", "-B", "build"])
    run(["cmake", "--build", "build", "--target", *targets])


def number(pattern, text):
    match = re.search(pattern, text)
    if match is None:
        raise Failed(f"no '{pattern}' in the output")
    return float(match.group(1))


def at_most(value, bar):
    return value, f"<= {bar:g}", value <= bar


def at_least(value, bar):
    return value, f">= {bar:g}", value >= bar


def ctest(label_or_regex):
    build("all")
    run(["ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error", *label_or_regex])
    return "passed", "passes", True


def show(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(bars, names):
    """Measures the bars called `names`, or all; returns the exit code: 1 when one is short, 2 when one
    is skipped."""
    os.chdir(ROOT)
    unknown = [n for n in names if n not in bars]
    if unknown:
        print(f"no bar is called {unknown[0]}; the bars are: {' '.join(bars)}", file=sys.stderr)
        return 64
    short = skipped = False
    for name, measure in bars.items():
        if names and name not in names:
            continue
        try:
            value, bar, ok = measure()
            if isinstance(value, float) and math.isnan(value):
                raise Failed("nothing was measured")
            print(f"{name} {show(value)} {bar} {'ok' if ok else 'short'}", flush=True)
            short |= not ok
        except Skipped as why:
            print(f"{name} - - skipped {why}", flush=True)
            skipped = True
        except (Failed, subprocess.CalledProcessError) as why:
            print(f"{name} - - short {' '.join(str(why).split())}", flush=True)
            short = True
    return 1 if short else 2 if skipped else 0
