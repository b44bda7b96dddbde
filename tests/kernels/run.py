#!/usr/bin/env python3
"""Kernels as users write them, each against NumPy: tests/kernels/run.py [--bar] [KERNEL ...]

Every other file of this folder is a kernel file with a literal KERNEL and the plain functions inputs(rng)
and reference(...) (README.md says what they hold). For each of them the kernel must

  right    run in the interpreter and give what reference says
  x86      compile, run natively, agree with the interpreter and give the same
  threads  give the same with every thread of a block on registers of its own, lowered for sm_90a
  plain    give the same as the plain code for sm_90a, every thread with its barriers; a cubin comes of it
  sm_80, sm_90a  compile to a cubin; needs ptxas or libnvJitLink
  on_sm_80, on_sm_90a, on_sm_100a  run in the interpreter on the instructions that they become there,
           each thread of each block, and give the same
  device, plain_device  run on this machine's GPU, an sm_90a, and give the same, the latter as
           plain code; left out where there is none

KERNEL["refused"] names what must be refused instead, with a part of the message. Exit code 0 when all
that was asked for came out. --bar prints `N of M`: right, and compiled for both GPUs.
"""
import argparse
import ast
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEBIAN_PYTHON = "/usr/bin/python3"

try:
    import numpy as np
except ImportError:
    if os.path.realpath(sys.executable) == os.path.realpath(DEBIAN_PYTHON) or subprocess.run(
            [DEBIAN_PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode:
        sys.exit(f"{sys.executable} has no numpy: deploy/install_deps.sh installs it for "
                 f"{DEBIAN_PYTHON}, or run `pip install numpy`")
    os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])

sys.path.insert(0, str(ROOT / "tests/gpu"))
import driver  # noqa: E402

ON_GPUS = {f"on_{gpu}": gpu for gpu in ("sm_80", "sm_90a", "sm_100a")}
CHECKS = ("right", "x86", "threads", "plain", "sm_80", "sm_90a", *ON_GPUS, "device", "plain_device")
DEVICE = ("device", "plain_device")
PLAIN = {"kiln.plain": 1}  # what other code is judged by where nothing else can
GPUS = ("sm_80", "sm_90a")


class Wrong(Exception):
    """What a check found."""


# ---- element types that NumPy does not have ----

def small_float(exponent_bits, mantissa_bits, finite):
    """The values of an 8-bit float by their code; `finite`: no infinities, one NaN a sign."""
    codes = np.arange(256)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    value = np.where(exponent == 0, np.ldexp(mantissa, 1 - bias - mantissa_bits),
                     np.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits))
    if finite:
        value[(codes & 0x7F) == 0x7F] = np.nan
    else:
        top = exponent == (1 << exponent_bits) - 1
        value[top] = np.where(mantissa[top] == 0, np.inf, np.nan)
    return np.where(codes & 0x80, -value, value)


def without_negative_zero(exponent_bits, mantissa_bits):
    """The values of an 8-bit float whose bias is one more and whose code 0x80 is its one NaN."""
    codes = np.arange(256)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    step = np.maximum(exponent, 1) - (1 << (exponent_bits - 1)) - mantissa_bits
    value = np.ldexp(mantissa + np.where(exponent == 0, 0, 1 << mantissa_bits), step)
    return np.where(codes == 0x80, np.nan, np.where(codes & 0x80, -value, value))


FLOAT8 = {"float8_e4m3fn": small_float(4, 3, True), "float8_e5m2": small_float(5, 2, False),
          "float8_e4m3fnuz": without_negative_zero(4, 3), "float8_e5m2fnuz": without_negative_zero(5, 2),
          "float8_e8m0fnu": np.append(np.exp2(np.arange(-127.0, 128.0)), np.nan)}
FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
PACKED = {"int4": np.append(np.arange(8), np.arange(-8, 0)), "uint4": np.arange(16),
          "float4_e2m1fn": np.append(FLOAT4, -FLOAT4)}


def encode_float8(x, dtype):
    """To the nearest value, ties to the even code; what is too large becomes the largest. Powers of two: the
    size, up."""
    if dtype == "float8_e8m0fnu":
        code = np.searchsorted(FLOAT8[dtype][:255], np.abs(np.float32(x)).astype(np.float64))
        return np.where(np.isnan(x), 255, np.minimum(code, 254)).astype(np.uint8)
    code = nearest(x, FLOAT8[dtype][:128])
    sign = np.where(np.signbit(x) & ((code != 0) | (not dtype.endswith("fnuz"))), 0x80, 0)
    return (code | sign).astype(np.uint8)


def encode_packed(x, dtype):
    """Two neighbours in a byte, the first in its low half."""
    if dtype == "float4_e2m1fn":
        code = nearest(x, FLOAT4) | np.where(np.signbit(x), 8, 0)
    else:
        code = np.asarray(x).astype(np.int64) & 15
    return (code[..., ::2] | code[..., 1::2] << 4).astype(np.uint8)


def nearest(x, values):
    """The code of the value that is nearest to the size of x."""
    count = int(np.isfinite(values).sum())
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    above = np.clip(np.searchsorted(values[:count], size), 0, count - 1)
    below = np.maximum(above - 1, 0)
    up, down = values[above] - size, size - values[below]
    return np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)


def encode(x, dtype):
    """The array that holds the bits of x as elements of dtype."""
    if dtype == "bfloat16":
        bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    if dtype in FLOAT8:
        return encode_float8(x, dtype)
    if dtype in PACKED:
        return encode_packed(x, dtype)
    if dtype == "bool":
        return np.asarray(x, np.bool_).astype(np.uint8)
    return np.asarray(x).astype(dtype)


def decode(bits, dtype):
    """The values: float64 of floats, int64 of integers."""
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in FLOAT8:
        return FLOAT8[dtype][bits]
    if dtype in PACKED:
        return PACKED[dtype][np.stack([bits & 15, bits >> 4], -1).reshape(*bits.shape[:-1], -1)]
    return bits.astype(np.float64 if np.dtype(dtype).kind == "f" else np.int64)


def storage(dtype):
    bytes_of = np.uint8 if dtype in FLOAT8 or dtype in PACKED else dtype
    return {"bfloat16": np.uint16, "bool": np.uint8}.get(dtype, bytes_of)


def round_to(x, dtype):
    """x as elements of dtype hold it: for references of kernels that round on the way."""
    return decode(encode(x, dtype), dtype)


# ---- kernel files ----

class Case:
    """A kernel file: KERNEL, inputs and reference, without running the rest of the file."""

    def __init__(self, path):
        self.path, self.name = path, path.stem
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        tops = {}
        for node in tree.body:
            for name in self.bound(node):
                tops[name] = node
        wanted, queue = [], ["KERNEL", "inputs", "reference"]
        while queue:
            node = tops.get(queue.pop())
            if node is None or node in wanted:
                continue
            wanted.append(node)
            queue += [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        module = ast.Module([n for n in tree.body if n in wanted], type_ignores=[])
        scope = {"np": np, "math": math, "round_to": round_to}
        exec(compile(module, str(path), "exec"), scope)  # noqa: S102 - the repository's own files
        missing = {"KERNEL", "inputs", "reference"} - scope.keys()
        if missing:
            raise Wrong(f"{path.name} has no {', '.join(sorted(missing))}")
        kernel = scope["KERNEL"]
        self.types = kernel["types"]
        self.tolerance = kernel.get("tolerance", 0)
        self.device_tolerance = kernel.get("device_tolerance", self.tolerance)
        self.refused = kernel.get("refused", {})
        given = scope["inputs"](np.random.default_rng(1))
        self.bits = {name: encode(x, self.types[name]) for name, x in given.items()}
        values = {name: decode(x, self.types[name]) for name, x in self.bits.items()}
        want = scope["reference"](**{name: x.copy() for name, x in values.items()})
        self.want = {name: np.asarray(x) for name, x in want.items()}
        for name, x in self.want.items():
            if not np.any(x):
                raise Wrong(f"the reference of {name} is zero: it would check nothing")
        self.launches = kernel.get("launches") or [kernel]

    @staticmethod
    def bound(node):
        if isinstance(node, ast.FunctionDef):
            return [node.name]
        targets = node.targets if isinstance(node, ast.Assign) else []
        return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]

    def compare(self, got, tolerances):
        """An element may differ by its tolerance times (its own size + the mean size of its tensor)."""
        for name, want in self.want.items():
            tolerance = tolerances
            if isinstance(tolerance, dict):
                tolerance = tolerance[name]
            values = decode(got[name], self.types[name])
            if values.size != want.size:
                raise Wrong(f"{name} has {values.size} elements, its reference {want.size}")
            values = values.reshape(want.shape)
            finite = np.isfinite(want)
            same = np.where(finite, True, (want == values) | (np.isnan(want) & np.isnan(values)))
            size = np.abs(np.where(finite, want, 0)).astype(np.float64)
            error = np.abs(np.where(finite, values - np.where(finite, want, 0), 0))
            ok = same & (error <= tolerance * (size + size[finite].mean()))
            if not ok.all():
                at = tuple(int(i) for i in np.argwhere(~ok)[0])
                worst = float(np.max(error / (size + size[finite].mean() + 1e-300)))
                raise Wrong(f"{name}: {np.count_nonzero(~ok)} of {ok.size} elements are wrong, first "
                            f"{name}{list(at)} = {values[at]:.6g}, not {want[at]:.6g}; worst "
                            f"{worst:.3g}, tolerance {tolerance:g}")


def kilnc(arguments, limit, outputs=()):
    """Its standard output. That `run` finds two results apart by more than a rounding of their type is
    no failure where there are `outputs` to hold against the reference."""
    command = [str(arguments[0]), *map(str, arguments[1:])]
    try:
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=limit,
                              check=False)
    except subprocess.TimeoutExpired:
        raise Wrong(f"ran longer than {limit} s") from None
    differ = not done.stderr.strip() and outputs and all(o.exists() for o in outputs)
    if done.returncode and not differ:
        text = (done.stderr.strip() or done.stdout.strip()).replace(str(ROOT) + "/", "")
        raise Wrong(text or f"exit code {done.returncode}")
    return done.stdout


def flags(case, launch, extra=None):
    out = [case.path, "-e", launch["entry"]]
    for name, value in launch.get("arguments", {}).items():
        out += ["-a", f"{name}={value!r}"]
    config = {**launch.get("config", {}), **(extra or {})}
    if config:
        out += ["-c", ",".join(f"{n}={v}" for n, v in config.items())]
    return out


def parameters(names):
    """(tensor, what the kernel calls it): a list says that both have one name, a dict says both."""
    return names.items() if isinstance(names, dict) else [(name, name) for name in names]


def run_case(case, binary, options, limit, extra=None):
    """Runs the launches in order on one set of tensors; returns the tensors after the last."""
    tensors = dict(case.bits)
    with tempfile.TemporaryDirectory() as folder:
        for launch in case.launches:
            command = [binary, "run", *flags(case, launch, extra), *options]
            for name, parameter in parameters(launch.get("inputs", list(case.bits))):
                path = pathlib.Path(folder, f"{name}.in")
                tensors[name].tofile(path)
                command += ["-i", f"{parameter}={path}"]
            outputs = parameters(launch.get("outputs", list(case.want)))
            for name, value in launch.get("runtime", {}).items():
                command += ["-r", f"{name}={value}"]
            paths = {name: pathlib.Path(folder, name + ".out") for name, _ in outputs}
            for name, parameter in outputs:
                command += ["-o", f"{parameter}={paths[name]}"]
            kilnc(command, limit, paths.values())
            for name, path in paths.items():
                tensors[name] = np.fromfile(path, storage(case.types[name]))
    return tensors


def run_on_device(case, binary, limit, extra=None):
    """As run_case, on this machine's GPU."""
    with tempfile.TemporaryDirectory() as folder:
        plan = {"tensors": {}, "launches": []}
        for name in [*case.bits, *(n for n in case.want if n not in case.bits)]:
            file = pathlib.Path(folder, name)
            if name in case.bits:
                case.bits[name].tofile(file)
            plan["tensors"][name] = {"from": str(file) if name in case.bits else None, "to": str(file)}
        for number, launch in enumerate(case.launches):
            stem = pathlib.Path(folder, f"launch_{number}")
            kilnc([binary, "emit", *flags(case, launch, extra), "--arch", "sm_90a", "-s", "so", "-o",
                   f"{stem}.so", "--manifest", f"{stem}.json"], limit)
            named = [*parameters(launch.get("inputs", list(case.bits))),
                     *parameters(launch.get("outputs", list(case.want)))]
            plan["launches"].append({
                "library": f"{stem}.so", "manifest": f"{stem}.json",
                "tensors": {parameter: name for name, parameter in named},
                "values": launch.get("runtime", {})})
        path = pathlib.Path(folder, "plan.json")
        path.write_text(json.dumps(plan))
        kilnc([sys.executable, driver.__file__, path], limit)
        return {name: np.fromfile(tensor["to"], storage(case.types[name]))
                for name, tensor in plan["tensors"].items()}


def check(case, what, binary, limit):
    extra = PLAIN if what in ("plain", "plain_device") else None
    if what in DEVICE:
        case.compare(run_on_device(case, binary, limit, extra), case.device_tolerance)
        return
    if what in GPUS or what == "plain":
        arch = "sm_90a" if what == "plain" else what
        for launch in case.launches:
            kilnc([binary, "emit", *flags(case, launch, extra), "--arch", arch, "-s", "cubin", "-o",
                   os.devnull], limit)
    if what in GPUS:
        return
    options = {"right": ["--interpret"], "x86": ["--threads", "1"],
               "threads": ["--on-threads", "--arch", "sm_90a"],
               "plain": ["--interpret", "--arch", "sm_90a", "--stop-after", "check-resources"],
               **{on: ["--on-instructions", "--arch", gpu] for on, gpu in ON_GPUS.items()}}[what]
    case.compare(run_case(case, binary, options, limit, extra), case.tolerance)


def verdict(case, what, binary, limit):
    """None when it is as it must be, else what is wrong."""
    refusal = case.refused.get("sm_90a" if what in DEVICE else ON_GPUS.get(what, what))
    try:
        check(case, what, binary, limit)
    except Wrong as wrong:
        if refusal is not None and refusal in str(wrong):
            return None
        return str(wrong)
    return None if refusal is None else f"was accepted, but '{refusal}' is expected"


def run_file(path, checks, binary, limit):
    """[(check, what is wrong or None, seconds)] of one file."""
    try:
        case = Case(path)
    except Exception as error:  # whatever the file's own functions raise is the file's failure
        return [("file", f"{type(error).__name__}: {error}", 0.0)]
    out = []
    for what in checks:
        start = time.monotonic()
        wrong = verdict(case, what, binary, limit)
        out.append((what, wrong, time.monotonic() - start))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="*", help="names of files, without .py; all by default")
    parser.add_argument("--bar", action="store_true", help="print `N of M`")
    parser.add_argument("--checks", default="", help="some of " + ",".join(CHECKS))
    parser.add_argument("--kilnc", default=ROOT / "build/bin/kilnc", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120, help="seconds a command may take")
    parser.add_argument("--times", action="store_true", help="print the seconds of each check")
    options = parser.parse_args()

    files = sorted(p for p in HERE.glob("*.py") if p.name != "run.py")
    unknown = set(options.kernels) - {p.stem for p in files}
    if unknown:
        parser.error(f"no kernel file is called {sorted(unknown)[0]}.py")
    files = [p for p in files if not options.kernels or p.stem in options.kernels]
    wanted = options.checks.split(",") if options.checks else CHECKS
    if not set(wanted) <= set(CHECKS):
        parser.error(f"no check is called {sorted(set(wanted) - set(CHECKS))[0]}")
    checks = [c for c in CHECKS if c in wanted]
    if options.bar:
        checks = ["right", *GPUS]
    if not shutil.which("ptxas") and not options.bar and not options.checks:
        checks = [c for c in checks if c not in (*GPUS, "plain", *DEVICE)]
    if set(DEVICE) & set(checks) and driver.problem():
        if "device" in options.checks:
            parser.error(f"nothing can run on a device: {driver.problem()}")
        checks = [c for c in checks if c not in DEVICE]

    good = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        work = [pool.submit(run_file, p, checks, options.kilnc, options.limit) for p in files]
        for path, future in zip(files, work):
            results = future.result()
            failed = [r for r in results if r[1] is not None]
            good += not failed
            times = " ".join(f"{w} {s:.1f}" for w, _, s in results) if options.times else ""
            if not options.bar and (times or not failed):
                print(f"{path.stem}: {'FAILED' if failed else 'ok'} {times}".rstrip(), flush=True)
            for wrong in dict.fromkeys(r[1] for r in failed):
                of = ", ".join(r[0] for r in failed if r[1] == wrong)
                print(f"{path.stem}: {of}: {wrong}", file=sys.stderr if options.bar else sys.stdout,
                      flush=True)
    print(f"{good} of {len(files)}")
    return 0 if good == len(files) else 1


if __name__ == "__main__":
    sys.exit(main())
