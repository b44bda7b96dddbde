#!/usr/bin/env python3
"""Two sources of time on this machine's GPU, and a copy beside the driver's own.

    tests/gpu/timing.py OUT [--bin FOLDER]

Tunes products and copies of many sizes through `tunectl tune` with an empty store. Of each winner:
the median by CUPTI's records, that by events less what a pair of them costs, and whether they agree
within max(2 us, 2 %), or 1 % above a millisecond. Then, where PyTorch is there, times the tuned copies
and the driver's own copy of as many bytes alternately, the L2 cache overwritten before each. Prints
one line a case: `name ok|SHORT figures`."""
import argparse
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys

from where import BIN

HERE = pathlib.Path(__file__).resolve().parent
COPIES = {"copy_64mb": 1024, "copy_256mb": 8192, "copy_1gb": 32768, "copy_4gb": 131072}  # of 16 KiB
SIDES = (256, 512, 1024, 2048, 4096, 8192)


def sweeps():
    common = {"target": "gpu", "top_k": 16, "measurement": {"min_samples": 30}}
    for name, rows in COPIES.items():
        yield name, {**common, "strategy": "exhaustive", "kernel": str(HERE / "copy_kernel.py"),
                     "arguments": {"pieces": rows}}
    for side in SIDES:
        yield f"product_{side}", {
            **common, "template": "matmul", "dtypes": {"dtype": "bfloat16", "out_dtype": "bfloat16"},
            "shapes": {"M": side, "N": side, "K": side}, "arguments": {"trans_B": True}}


def tune(options, name, spec):
    """The winner's measurement, its shared object left as OUT/name.so."""
    file = options.out / "sweep.yaml"
    file.write_text(json.dumps({"name": name, **spec}))  # JSON is YAML
    tunectl, folder = str(options.bin / "tunectl"), options.out / "winners"
    result = subprocess.run([tunectl, "--json", "tune", str(file), "--store",
                             str(options.out / "store"), "-o", str(folder)],
                            capture_output=True, text=True, check=False)
    outcome = json.loads(result.stdout)["sweeps"][0]
    if result.returncode:
        raise RuntimeError(f"{name}: {outcome.get('message') or outcome.get('error')}")
    for library in folder.glob("*.so"):
        library.rename(options.out / f"{name}.so")
    return outcome["winner"]["measurement"]


def compare(name, measured):
    ns, events = measured["median_ns"], measured["events_ns"]
    allowed = 0.01 * ns if ns > 1e6 else max(2e3, 0.02 * ns)
    ok = events > 0 and abs(events - ns) <= allowed and "records" in measured["conditions"]
    print(f"{name:16} {'ok' if ok else 'SHORT'}  records {ns / 1e3:.2f} us, events "
          f"{events / 1e3:.2f} us, allowed {allowed / 1e3:.2f} us; {measured['conditions']}"[:300],
          flush=True)
    return ok


def median_us(function, flush, count=6):
    from kernels import launch_times
    times = [ms for _ in range(count) for ms in launch_times([function] * 10, flush)]
    return 1e3 * sorted(times)[len(times) // 2]


def beside_the_driver(options, name, rows):
    import torch
    from kernels import overwritten
    x = torch.randn(rows, 4096, device="cuda")
    y, z = torch.empty_like(x), torch.empty_like(x)
    flush = overwritten()
    entry = ctypes.CDLL(str(options.out / f"{name}.so")).kiln_copy
    entry.restype = ctypes.c_int32
    call = lambda: entry(None, ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()))
    if call() != 0:
        raise RuntimeError(f"{name}: the kernel returned an error")
    copy = lambda: z.copy_(x)
    copy()
    torch.cuda.synchronize()
    same = torch.equal(x, y)
    ours, theirs = [], []
    for _ in range(5):  # alternately
        ours.append(median_us(call, flush))
        theirs.append(median_us(copy, flush))
    ours, theirs = sorted(ours)[2], sorted(theirs)[2]
    ok = same and ours <= 1.02 * theirs
    print(f"{name}_driver {'ok' if ok else 'SHORT'}  {ours:.2f} us, the driver's {theirs:.2f} us, "
          f"ratio {theirs / ours:.4f}, the same bytes: {same}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    good = [compare(name, tune(options, name, spec)) for name, spec in sweeps()]
    try:
        import torch
        if torch.cuda.is_available():
            good += [beside_the_driver(options, name, rows) for name, rows in COPIES.items()]
    except ImportError:
        print("no PyTorch here: the driver's own copy was not timed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
