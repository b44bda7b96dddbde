"""The project speaks of itself alone: no machine paths, no unfinished work, one word per thing."""
import re
import subprocess
import sys

BANNED = [
    (re.compile(r"/(work|farm|home|root)/"), "a path of one machine"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "unfinished work"),
    (re.compile(r"\b(knobs?|tuning jobs?)\b", re.I), "say config or sweep"),
]
SKIP = ("tests/lint/words.py",)


def check(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, why in BANNED:
            if pattern.search(line):
                yield f"{name}:{number}: {why}: {line.strip()[:80]}"


def main():
    assert list(check("x", "see /" + "work/main")), "a planted path was not found"
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                           check=True).stdout.split("\n")
    found = []
    for name in filter(None, names):
        if name in SKIP:
            continue
        try:
            found += check(name, open(name, encoding="utf-8").read())
        except UnicodeDecodeError:
            continue
    print("\n".join(found) or "clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
