#!/usr/bin/env python3
"""Programs of a TileLang checkout, run as they are on this processor or GPU with Kiln's compiler.

    KILN_TILELANG=CHECKOUT tests/tilelang/run.py [FILE ...]

Each program of programs.py imports `tilelang` and gets host.py; it compares what its kernels compute with its own
PyTorch reference. Prints a line a file: ok with the number of comparisons, WRONG where a comparison or an
artifact failed, TOOLONG, REFUSED where the compiler did, refused where it is known to, skipped where the program needs what is
not here. Exit code 1 unless each is ok, refused or skipped. Needs Debian's python3-torch; --device, the
PyTorch of the machine with the GPU.
"""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from programs import ARGUMENTS, NOT_HERE, ON_DEVICE, OWN_WORDS, PROGRAMS, REFUSED  # noqa: E402


def child(checkout, file, options):
    """Runs one program in this process; its last line says how it ended."""
    import host
    path = pathlib.Path(checkout, "examples", file).resolve()
    mode = host.install(options.kilnc, options.folder, options.arch, options.device)
    sys.path.insert(0, str(path.parent))
    sys.argv, statement = [str(path)], ""
    if not options.own_sizes:
        sys.argv += ARGUMENTS.get(file, "").split()
        statement = PROGRAMS.get(file) or ON_DEVICE.get(file, "")
    module = host.types.ModuleType(path.stem if statement else "__main__")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        with mode:
            exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
            exec(statement, module.__dict__)
    except (ModuleNotFoundError, host.Unsupported) as error:
        traceback.print_exc()
        return f"skipped {error}"
    except host.KilnFailed as error:
        traceback.print_exc()
        known = file in REFUSED and REFUSED[file] in str(error)
        return f"refused {REFUSED[file]}" if known else f"REFUSED {error}".replace("\n", " | ")
    except Exception as error:  # whatever a program raises
        traceback.print_exc()
        return f"WRONG {type(error).__name__}: {error}".replace("\n", " | ")[:600]
    if file in OWN_WORDS:
        return "ok by its own words"
    if not host.comparisons:
        return "NOTHING was compared"
    wide = f", with the reference in float64: {', '.join(host.widened)}" if host.widened else ""
    return f"ok {len(host.comparisons)} comparisons of {sum(host.comparisons)} elements{wide}"


def run(options, file, folder):
    if file in NOT_HERE and not (options.device and file in ON_DEVICE):
        return f"skipped {NOT_HERE[file]}", 0.0
    python = sys.executable if options.device else "/usr/bin/python3"
    command = [python, __file__, "--child", file, "--kilnc", options.kilnc, "--folder", folder]
    command += ["--arch", options.arch] if options.arch else []
    command += [flag for flag, given in (("--device", options.device), ("--own-sizes", options.own_sizes))
                if given]
    start = time.monotonic()
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, errors = program.communicate(timeout=options.limit)
        words = out.splitlines()[-1:] or [f"WRONG it ended with code {program.returncode}"]
        if options.verbose:
            print(out, errors, file=sys.stderr)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)  # and the compiler or interpreter that it waits for
        program.communicate()
        words = [f"TOOLONG no end within {options.limit:.0f} s"]
    return words[0], time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--kilnc", default=str(ROOT / "build/bin/kilnc"))
    parser.add_argument("--arch", help="a GPU, whose threads are interpreted instead of running natively")
    parser.add_argument("--device", action="store_true", help="run on this machine's GPU, an sm_90a")
    parser.add_argument("--own-sizes", action="store_true",
                        help="every file as a program without words, at the sizes that are its own")
    parser.add_argument("--limit", type=float, default=300, help="seconds a program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device:
        options.arch = "sm_90a"
    checkout = os.environ.get("KILN_TILELANG")
    if not checkout:
        parser.error("KILN_TILELANG names no checkout of TileLang")
    if options.child:
        print(child(checkout, options.child, options))
        return 0
    files = options.files or [*PROGRAMS, *NOT_HERE]
    counts = {}
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [(file, pool.submit(run, options, file, folder)) for file in files]
        for file, job in jobs:
            words, seconds = job.result()
            counts[words.split()[0]] = counts.get(words.split()[0], 0) + 1
            print(f"{file:64} {seconds:6.1f} s  {words}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if set(counts) - {"ok", "refused", "skipped"} else 0


if __name__ == "__main__":
    sys.exit(main())
