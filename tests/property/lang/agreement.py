"""Of random programs whose f() CPython has evaluated: is the elaborator's equal, or is it refused?"""
import argparse
import random
import subprocess
import sys

SEPARATOR = "\x1e\n"
LONGEST = 400  # characters of a value that comes back whole


def main(doc, count, most_refused, draw):
    """draw(rng): (text for the tool of evaluate.cc, "value ..." by CPython, text to show), or None where
    CPython raises. Exit code 1 when a value is wrong, or more than that share is refused."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("evaluate")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    drawn = [draw(rng) for _ in range(args.count)]
    cases = [case for case in drawn if case is not None and len(case[1]) < LONGEST]
    out = subprocess.run([args.evaluate], input=SEPARATOR.join(text for text, _, _ in cases),
                         capture_output=True, text=True, check=True).stdout
    wrong, refused = [], []
    for (_, value, shown), got in zip(cases, out.split(SEPARATOR), strict=True):
        if got.startswith("error"):
            refused.append((shown, got, value))
        elif got != value:
            wrong.append((shown, got, value))
    print(f"{len(cases)} programs, {len(refused)} refused, {len(wrong)} wrong")
    many = len(refused) > most_refused * len(cases)
    for parts in wrong[:3] + (refused[:3] if many else []):
        print(*parts, sep="\n")
    sys.exit(1 if wrong or many else 0)
