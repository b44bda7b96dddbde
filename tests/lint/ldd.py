"""What each binary is linked to: the walls of include_walls.py as the dynamic linker sees them.

    tests/lint/ldd.py FOLDER        (of the programs: build/bin)"""
import argparse
import subprocess
import sys

# binary -> libraries that must not be there
FORBIDDEN = {
    "kiln-coordinator": ["LLVM", "cuda", "cupti"],
    "tunectl": ["LLVM", "cuda", "cupti", "rocksdb"],
    "kiln-worker": ["LLVM", "cuda", "cupti", "rocksdb"],
    "kiln-compile": ["grpc", "rocksdb", "prometheus"],
    "kiln-runner": ["LLVM", "grpc", "rocksdb", "prometheus"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    found = []
    for binary, banned in FORBIDDEN.items():
        result = subprocess.run(["ldd", f"{folder}/{binary}"], capture_output=True, text=True)
        if result.returncode != 0:
            found.append(f"{binary}: {result.stderr.strip() or 'ldd failed'}")
            continue
        found += [f"{binary} links {lib}" for lib in banned if f"lib{lib}" in result.stdout]
    print("\n".join(found) or "link walls hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
