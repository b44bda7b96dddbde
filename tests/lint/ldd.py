"""What each binary is linked to: the walls of the README as the dynamic linker sees them."""
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
    folder = sys.argv[1]
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
