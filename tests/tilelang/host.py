"""A stand-in for the Python package `tilelang`, whose kernels Kiln compiles for this machine's processor or GPU.

`install()` makes `import tilelang` mean this, and PyTorch's device "cuda" the processor, unless the GPU itself
is asked for. A program of the TileLang repository then runs as it is, its own reference and its own comparison
included. Kernels are not run by Python: the stand-in only notes which function of which file was called with
which arguments.
"""
import ast
import contextlib
import enum
import ctypes
import functools
import hashlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import pathlib
import subprocess
import sys
import struct
import tempfile
import textwrap
import types

import numpy as np
import torch

TORCH_TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
               "float64": torch.float64, "int8": torch.int8, "uint8": torch.uint8,
               "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
               "bool": torch.bool}
for _name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "uint16", "uint32", "uint64"):
    if hasattr(torch, _name):  # of newer PyTorches
        TORCH_TYPES[_name] = getattr(torch, _name)
ALIASES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32",
           "float8_e4m3": "float8_e4m3fn"}
NARROW = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3", "uint16", "uint32", "uint64")

# arch: a GPU whose threads are interpreted, or, with on_device, the one of this machine.
options = types.SimpleNamespace(kilnc=None, folder=None, arch=None, on_device=False)


class Unsupported(Exception):
    """What the stand-in does not have; no fault of Kiln's."""


class KilnFailed(Exception):
    """What kilnc or an artifact said."""


# -- values of the language that a program handles before a kernel sees them --

class DType(str):
    """A type of elements, as `T.float16`: text that a kernel and PyTorch both understand."""

    def as_torch(self):
        name = ALIASES.get(str(self), str(self))
        if name not in TORCH_TYPES:
            raise Unsupported(f"PyTorch {torch.__version__} has no {self}")
        return TORCH_TYPES[name]

    @property
    def bits(self):
        return int("".join(c for c in str(self).split("_")[0] if c.isdigit()) or 32)

    def __call__(self, *args):
        return args[0] if args else Symbol()

    def __hash__(self):
        return str.__hash__(self)


class Policy(str):
    """How warps share a product, as a kernel's argument spells it."""


class Symbol:
    """Stands for what only a kernel means: every use of it gives another."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol()

    def __call__(self, *args, **kwargs):
        # A decorator gives back what it decorates.
        if len(args) == 1 and not kwargs and inspect.isfunction(args[0]):
            return args[0]
        return Symbol()

    def __getitem__(self, key):
        return Symbol()

    def __iter__(self):
        return iter(())

    def __mro_entries__(self, bases):
        return ()

    def __bool__(self):
        return True

    def __hash__(self):
        return id(self)


for _name in ("add sub mul truediv floordiv mod pow lshift rshift and or xor radd rsub rmul rtruediv rfloordiv "
              "rmod neg invert lt le gt ge or ror").split():
    setattr(Symbol, f"__{_name}__", lambda self, *others: Symbol())


class SymbolModule(types.ModuleType):
    """A module of which every name is there."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol()


# -- kernels --

def spelled(value):
    """A compile-time argument as `kilnc -a` takes it."""
    if isinstance(value, torch.Tensor):
        shape = ", ".join(str(n) for n in value.shape)
        return f"T.Tensor(({shape}{',' * (value.dim() == 1)}), T.{type_name(value.dtype)})"
    if isinstance(value, torch.dtype):
        return type_name(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(repr(str(v)) if isinstance(v, str) else spelled(v) for v in value)
        return f"({inner}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, (np.integer, np.floating)):
        return repr(value.item())
    if isinstance(value, Symbol):
        raise Unsupported("an argument that is a value of the language")
    if type(value) is str and value not in (*TORCH_TYPES, *ALIASES, *NARROW):
        return json.dumps(value)
    if isinstance(value, (str, bool, int, float, type(None))):
        return str(value)
    raise Unsupported(f"an argument of type {type(value).__name__}")


def type_name(dtype):
    return str(dtype).replace("torch.", "")


def kilnc(*words):
    command = [options.kilnc, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Its own judge of a run compares with the tiles more closely than a chain of products may agree.
    differs = words[0] == "run" and done.returncode == 1 and not done.stderr
    if done.returncode and not differs:
        raise KilnFailed(f"{' '.join(command)}\n{done.stderr.strip()}")


class Compiled:
    """One kernel with its arguments; calling it runs it on PyTorch's tensors: natively, or, where options name a
    GPU but not this machine's own, every thread of every block interpreted on the instructions for it."""

    def __init__(self, path, entry, arguments, results):
        self.entry = entry
        self.what = [str(path), "-e", entry]
        for name, value in arguments.items():
            self.what += ["-a", f"{name}={value}"]
        if options.arch:
            self.what += ["--arch", options.arch]
        key = hashlib.sha256(repr(self.what).encode())
        self.stem = pathlib.Path(options.folder, key.hexdigest()[:16])
        self.compile()
        self.manifest = json.loads(self.stem.with_suffix(".json").read_text())
        self.params = self.manifest["params"]
        self.results = results  # positions among the parameters, or names
        self.latency = self.ref_latency = 1.0
        self.config = {}

    def compile(self):
        if options.arch and not options.on_device:
            kilnc("emit", *self.what, "-s", "manifest", "-o", f"{self.stem}.json")
            return
        kilnc("emit", *self.what, "-s", "so", "-o", f"{self.stem}.so", "--manifest", f"{self.stem}.json")
        self.loaded = ctypes.CDLL(f"{self.stem}.so")

    def made(self, index, param):
        if self.results is None:
            return False
        return index in self.results or param["name"] in self.results

    def shape(self, param, dims):
        return [n if isinstance(n, int) else int(eval(str(n).replace("/", "//"), {}, dims))  # noqa: S307
                for n in param.get("shape", [])]

    def solve(self, given):
        """Run-time dimensions, from the shapes of the tensors that were given."""
        dims = {}
        for param, value in given:
            if param["kind"] == "tensor":
                for n, size in zip(param.get("shape", []), value.shape):
                    if isinstance(n, str):
                        dims.setdefault(n, size)
        return {name: dims[name] for name in self.manifest.get("dims", []) if name in dims}

    def __call__(self, *args, **kwargs):
        kwargs.pop("stream", None)
        waiting, values, made = list(args), {}, []
        for index, param in enumerate(self.params):
            if param["name"] in kwargs:
                values[index] = kwargs.pop(param["name"])
            elif self.made(index, param):
                made.append(index)
            elif waiting:
                values[index] = waiting.pop(0)
            else:
                raise TypeError(f"{self.entry} takes '{param['name']}' too")
        dims = self.solve([(self.params[i], v) for i, v in values.items()])
        for name in list(kwargs):
            if name in self.manifest.get("dims", []):
                dims[name] = int(kwargs.pop(name))
        for index in made:
            param = self.params[index]
            # What a kernel adds to begins at zero, and nobody may rely on the rest.
            values[index] = torch.full(self.shape(param, dims), 0 if param["accumulates"] else 77,
                                       device=device()).to(DType(param["dtype"]).as_torch())
        self.launch(values, dims)
        results = [values[i] for i in made]
        return None if not results else results[0] if len(results) == 1 else results

    def launch(self, values, dims):
        tensors, scalars, back = [], [], []
        for index, param in enumerate(self.params):
            value = values[index]
            if param["kind"] == "tensor":
                self.check(param, value, dims)
                dense = value.detach().contiguous()
                if param["output"] and dense.data_ptr() != value.data_ptr():
                    back.append((value, dense))
                tensors.append(dense)
            else:
                scalars.append(value)
        if options.arch and not options.on_device:
            self.interpret(tensors, scalars, dims)
        else:
            self.run(tensors, scalars, dims)
        for value, dense in back:
            value.data.copy_(dense)

    def run(self, tensors, scalars, dims):
        arguments = [ctypes.c_void_p(t.data_ptr() if t.numel() else 64) for t in tensors]
        kinds = [p["dtype"] for p in self.params if p["kind"] != "tensor"]
        arguments += [ctypes.c_int64(slot(kind, v)) for kind, v in zip(kinds, scalars)]
        arguments += [ctypes.c_int64(dims[name]) for name in self.manifest.get("dims", [])]
        code = getattr(self.loaded, self.manifest["name"])(None, *arguments)
        if code:
            raise KilnFailed(f"{self.entry} returned {code}")
        if options.on_device:
            torch.cuda.synchronize()  # what a kernel breaks is told at its own call

    def interpret(self, tensors, scalars, dims):
        words, files = ["run", *self.what, "--on-threads"], {}
        names = [p["name"] for p in self.params if p["kind"] == "tensor"]
        params = {p["name"]: p for p in self.params}
        for name, tensor in zip(names, tensors):
            files[name] = pathlib.Path(options.folder, f"{os.getpid()}_{name}")
            if params[name].get("table"):
                files[name].write_bytes(b"".join(self.tabled(params[name], tensor, dims)))
            else:
                _bytes(tensor).tofile(files[name])
            words += ["-i", f"{name}={files[name]}", "-o", f"{name}={files[name]}"]
        for name, value in zip([p["name"] for p in self.params if p["kind"] != "tensor"], scalars):
            words += ["-r", f"{name}={value}"]
        for name, value in dims.items():
            words += ["-r", f"{name}={value}"]
        kilnc(*words)
        for name, tensor in zip(names, tensors):
            if params[name].get("table"):
                self.put_back(tensor, files[name].read_bytes())
                continue
            _bytes(tensor)[...] = np.fromfile(files[name], dtype=np.uint8).reshape(_bytes(tensor).shape)

    def tabled(self, param, table, dims):
        """The bytes of the tensors whose addresses a table holds."""
        if "strides" in param:
            raise Unsupported("a table of strided tensors")
        _, *rest = self.shape(param, dims)
        size = torch.empty(0, dtype=DType(param["dtype"]).as_torch()).element_size()
        return [ctypes.string_at(at, size * int(np.prod(rest))) for at in table.tolist()]

    def put_back(self, table, data):
        step = len(data) // table.numel()
        for i, at in enumerate(table.tolist()):
            ctypes.memmove(at, data[i * step:(i + 1) * step], step)

    def check(self, param, value, dims):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"'{param['name']}' of {self.entry} is a tensor, not {value!r}")
        shape, dtype = self.shape(param, dims), DType(param["dtype"]).as_torch()
        if param.get("table"):
            shape, dtype = shape[:1], torch.int64
        bytes_of = (torch.int8, torch.uint8)  # nibbles, which PyTorch has no type for
        same = value.dtype == dtype or (value.dtype in bytes_of and dtype in bytes_of)
        if list(value.shape) != shape or not same:
            raise TypeError(f"'{param['name']}' of {self.entry} is {dtype} {shape}, not {value.dtype} "
                            f"{list(value.shape)}")
        if value.device.type != device():  # whose address the kernel would follow all the same
            raise TypeError(f"'{param['name']}' of {self.entry} is on {value.device}, not on {device()}")

    # What programs do with a kernel besides calling it.

    def get_profiler(self, tensor_supply_type=None, **_):
        return Profiler(self, tensor_supply_type)

    def get_kernel_source(self):
        return ""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol()


def device():
    return "cuda" if options.on_device else "cpu"


def slot(kind, value):
    """A scalar as a kernel's entry takes it: 64 bits, of floats their own in the low ones."""
    if kind.startswith("float"):
        return int.from_bytes(struct.pack("<d" if kind == "float64" else "<f", value), "little")
    return int(value)


def _bytes(tensor):
    """The memory of a dense tensor, as NumPy sees it: bfloat16 it knows not."""
    same = {2: torch.int16, 4: torch.int32, 8: torch.int64, 1: torch.uint8}[tensor.element_size()]
    return tensor.reshape(-1).view(same).numpy().view(np.uint8)


# What a program wants in its inputs; of these, whole numbers alone are told from others.
TensorSupplyType = enum.Enum("TensorSupplyType", "Integer Uniform Normal Randn Zero One Auto")


class Profiler:
    """The part of a kernel's profiler that compares: inputs at random, results against a function's."""

    def __init__(self, kernel, supply=None):
        self.kernel = self.func = kernel
        self.whole = supply == TensorSupplyType.Integer

    def inputs(self):
        out = []
        for index, param in enumerate(self.kernel.params):
            if self.kernel.made(index, param):
                continue
            if param["kind"] != "tensor" or any(isinstance(n, str) for n in param["shape"]):
                raise Unsupported("inputs at random for run-time sizes")
            dtype = DType(param["dtype"]).as_torch()
            if dtype.is_floating_point and not self.whole:
                made = torch.randn(param["shape"])
            elif dtype == torch.bool:
                made = torch.randint(0, 2, param["shape"])
            else:
                made = torch.randint(0 if dtype == torch.uint8 else -2, 3, param["shape"])
            out.append(made.to(device(), dtype))
        return out

    def assert_allclose(self, reference, atol=1e-2, rtol=1e-2, max_mismatched_ratio=0.01, **_):
        given = self.inputs()
        before = [t.clone() for t in given]
        results = self.kernel(*given)
        if results is None:  # outputs are arguments
            results = given[-1]

        def compare(inputs):
            for result, right in zip(_list(results), _list(reference(*inputs))):
                assert_close(result, right, atol=atol, rtol=rtol, max_mismatched_ratio=max_mismatched_ratio)

        try:
            compare([t.clone() for t in before])
        except AssertionError:  # a reference of half precision may be further off than it allows
            compare([t.double() if t.dtype in HALVES else t for t in before])
            widened.append(self.kernel.entry)

    manual_assert_close = assert_allclose

    def assert_consistent(self, *_, **__):
        pass

    def do_bench(self, func=None, *_, **__):
        return 1.0

    def run_once(self, *_, **__):
        return self.kernel(*self.inputs())


def _list(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


widened = []  # kernels that agree with their reference in double precision alone
comparisons = []  # of this program, made by its own words: how many elements each


def assert_close(actual, expected, rtol=1e-2, atol=1e-2, max_mismatched_ratio=0.001, **_):
    a, b = actual.detach().double(), expected.detach().double()
    assert a.shape == b.shape, f"shapes {list(a.shape)} and {list(b.shape)}"
    comparisons.append(a.numel())
    away = (a - b).abs() > atol + rtol * b.abs()
    away |= torch.isnan(a) != torch.isnan(b)
    wrong = int(away.sum())
    assert wrong <= max_mismatched_ratio * a.numel(), (
        f"{wrong} of {a.numel()} elements differ, by {float((a - b).abs().max())} at most")


class Factory:
    """A function under @tilelang.jit."""

    def __init__(self, function, jit_options, configs=None):
        self.function, self.options, self.configs = function, jit_options, configs
        functools.update_wrapper(self, function)
        self.path = pathlib.Path(inspect.getsourcefile(function)).resolve()
        self.entry = function.__qualname__.replace(".<locals>", "")
        self.signature = inspect.signature(function)
        self.eager = _is_eager(function)
        self.made = {}

    def bind(self, args, kwargs):
        known = {k: v for k, v in kwargs.items() if k in self.signature.parameters}
        bound = self.signature.bind_partial(*args, **known)
        values = {**bound.arguments, **kwargs}  # constants of T.const may be given too
        for name, param in self.signature.parameters.items():
            if param.kind == param.VAR_KEYWORD:
                values.update(values.pop(name, {}))
        return {**self.first_config(values), **values}

    def first_config(self, values):
        configs = self.configs
        if configs is None:
            return {}
        if callable(configs):
            configs = configs(*values.values())
        first = dict(list(configs)[0])
        return {k: v for k, v in first.items() if k not in values and k in self.signature.parameters}

    def compiled(self, values):
        arguments = {name: spelled(value) for name, value in values.items()}
        key = repr(sorted(arguments.items()))
        if key not in self.made:
            results = self.options.get("out_idx")
            if self.eager:
                results = None
            self.made[key] = Compiled(self.path, self.entry, arguments, results)
            kernel = self.made[key]
            if self.eager:
                names = set(self.signature.parameters)
                kernel.results = [p["name"] for p in kernel.params if p["name"] not in names]
            elif isinstance(results, int):
                kernel.results = [results]
            if kernel.results is not None:
                kernel.results = [r % len(kernel.params) if isinstance(r, int) else r for r in kernel.results]
        return self.made[key]

    def __call__(self, *args, **kwargs):
        values = self.bind(args, kwargs)
        if not self.eager:
            return self.compiled(values)
        kernel = self.compiled(values)
        called = [values.get(p["name"], self.default(p["name"])) for i, p in enumerate(kernel.params)
                  if not kernel.made(i, p)]
        return kernel(*called)

    def default(self, name):
        return self.signature.parameters[name].default

    def compile(self, *args, **kwargs):
        return self.compiled(self.bind(args, kwargs))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol()


def _is_eager(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    inner = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda)) and n is not tree]
    inside = {id(n) for f in inner for n in ast.walk(f)}
    return any(isinstance(n, ast.With) and id(n) not in inside and "Kernel" in ast.unparse(n.items[0])
               for n in ast.walk(tree))


def jit(function=None, **jit_options):
    if function is None:
        return lambda f: jit(f, **jit_options)
    if isinstance(function, Factory):
        return function
    return Factory(function, jit_options)


def autotune(*args, configs=None, **_):
    def wrap(function):
        if isinstance(function, Factory):
            function.configs = configs
            return function
        return Factory(function, {}, configs)
    return wrap(args[0]) if args and callable(args[0]) else wrap


class Program:
    """What T.prim_func makes: a program of the factory that is running."""

    def __init__(self, frame):
        code = frame.f_code
        self.path = pathlib.Path(code.co_filename).resolve()
        self.entry = code.co_qualname.replace(".<locals>", "")
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        self.values = {name: frame.f_locals[name] for name in names}

    def with_attr(self, *_):
        return self


def prim_func(function=None, **_):
    if function is None:
        return prim_func
    return Program(sys._getframe(1))


def compile_program(program, out_idx=None, **_):
    if isinstance(program, Compiled):
        return program
    kernel = Compiled(program.path, program.entry, {k: spelled(v) for k, v in program.values.items()}, None)
    if out_idx is not None:
        kernel.results = [r % len(kernel.params) for r in ([out_idx] if isinstance(out_idx, int) else out_idx)]
    return kernel


def do_bench(function, *_, **__):
    function()
    return 1.0


# -- the part of einops that programs use --

def _axes(side):
    """["b", ["h", "g"], "d"] for "b (h g) d"."""
    axes, group = [], None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            group = []
        elif word == ")":
            axes.append(group)
            group = None
        elif group is not None:
            group.append(word)
        else:
            axes.append(word if word == "..." else [word] if word != "1" else [])
    return axes


def rearrange(tensor, pattern, **sizes):
    left, right = (_axes(side) for side in pattern.split("->"))
    left, right = _spread(left, right, tensor.dim())
    shape = []
    for axes, extent in zip(left, tensor.shape, strict=True):
        known = [sizes.get(name) for name in axes]
        rest = extent
        for size in known:
            rest //= size or 1
        for name, size in zip(axes, known):
            sizes[name] = size or rest
            shape.append(sizes[name])
    names = [name for axes in left for name in axes]
    wanted = [name for axes in right for name in axes]
    fresh = [name for name in wanted if name not in names]  # of repeat
    tensor = tensor.reshape(shape + [1] * len(fresh)).expand(*shape, *(sizes[n] for n in fresh))
    order = [(names + fresh).index(name) for name in wanted]
    return tensor.permute(order).reshape(
        [functools.reduce(lambda a, n: a * sizes[n], axes, 1) for axes in right])


def _spread(left, right, rank):
    """Names instead of "..."."""
    more = [f"_{i}" for i in range(rank - len(left) + 1)]

    def side(axes):
        out = []
        for group in axes:
            if group == "...":
                out += [[name] for name in more]
            else:
                out.append([n for name in group for n in (more if name == "..." else [name])])
        return out

    return side(left), side(right)


def einsum(*tensors_and_pattern):
    *tensors, pattern = tensors_and_pattern
    letters = {}
    out = ""
    for word in pattern.replace(",", " , ").replace("->", " -> ").split():
        out += word if word in (",", "->") else letters.setdefault(word, chr(97 + len(letters)))
    return torch.einsum(out, *tensors)


# -- modules --

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Any other module of the packages that a program may name."""

    roots = ["tilelang", "tvm", "triton"]

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.roots:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = SymbolModule(spec.name)
        module.__path__ = []
        module.__all__ = []
        return module

    def exec_module(self, module):
        pass


def sparse_layout():
    """What host code asks of sparse forms (compiler/ir/sparse.h): each group's size by the type of its elements, and
    how many of those an element of metadata is about."""
    module = SymbolModule("tilelang.cuda.intrinsics.sparse_layout")
    narrow = ("float16", "bfloat16", "int8", "uint8", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
    module.GROUP_CONFIG = {DType(name): (2, 4) for name in narrow}
    module.GROUP_CONFIG.update({DType(name): (1, 2) for name in ("float", "float32")})
    module.get_e_factor = lambda kind, metadata: DType(metadata).bits // 4 * module.GROUP_CONFIG[DType(kind)][1]
    module.get_e_replicate_factor = lambda kind: 1 if DType(kind).bits <= 8 else 2
    return module


def _modules():
    language = SymbolModule("tilelang.language")
    for name in [*TORCH_TYPES, *ALIASES, *NARROW, "float4_e2m1fn", "int4", "uint4", "float8_e8m0fnu"]:
        setattr(language, name, DType(name))
    language.prim_func = prim_func
    language.macro = language.meta_class = lambda f=None, **_: f if f is not None else (lambda g: g)
    language.dtype = DType
    language.ceildiv = lambda a, b: -(-a // b) if isinstance(a, int) and isinstance(b, int) else Symbol()
    for name in ("min", "max"):
        setattr(language, name, lambda *v, f=getattr(__builtins__, name, None) or {"min": min, "max": max}[name]:
                f(*v) if all(isinstance(x, (int, float)) for x in v) else Symbol())
    package = SymbolModule("tilelang")
    package.__path__ = []
    package.language, package.jit, package.autotune, package.compile = language, jit, autotune, compile_program
    language.__path__ = []
    package.cdiv = language.ceildiv
    package.next_power_of_2 = lambda n: 1 << (n - 1).bit_length()
    package.disable_cache = package.enable_cache = lambda: None
    package.lazy_jit = jit
    profiler = SymbolModule("tilelang.profiler")
    profiler.do_bench = do_bench
    package.profiler = profiler
    tuner = SymbolModule("tilelang.autotuner")
    tuner.autotune = autotune
    tuner.set_autotune_inputs = lambda *_, **__: contextlib.nullcontext()
    tuner.__all__ = ["autotune"]
    package.autotuner = tuner
    testing = SymbolModule("tilelang.testing")
    testing.torch_assert_close = assert_close
    testing.set_random_seed = lambda seed=0: torch.manual_seed(seed)
    package.testing = testing
    package.TensorSupplyType = TensorSupplyType
    utils = SymbolModule("tilelang.utils")
    utils.__path__ = []
    tensor = SymbolModule("tilelang.utils.tensor")
    tensor.torch_assert_close = assert_close
    tensor.TensorSupplyType = utils.TensorSupplyType = TensorSupplyType
    tensor.map_torch_type = lambda name: DType(name).as_torch()
    utils.tensor = tensor
    utils.map_torch_type = tensor.map_torch_type
    package.utils = utils
    dtypes = SymbolModule("tilelang.language.dtypes")
    dtypes.dtype = DType
    dtypes._TORCH_DTYPE_TO_STR = {kind: name for name, kind in TORCH_TYPES.items()}
    language.GemmWarpPolicy = types.SimpleNamespace(**{
        name: Policy(f"T.GemmWarpPolicy.{name}") for name in ("Square", "FullRow", "FullCol")})
    sparse = sparse_layout()
    fp8 = SymbolModule("tilelang.language.fp8")
    fp8.determine_fp8_type = lambda kind="e4m3": DType("float8_e5m2" if kind == "e5m2" else "float8_e4m3fn")
    einops = types.ModuleType("einops")
    einops.rearrange = einops.repeat = rearrange
    einops.einsum = einsum
    return [einops, package, language, dtypes, sparse, fp8, profiler, tuner, testing, utils, tensor]


HALVES = (torch.float16, torch.bfloat16)
WIDE = ("layer_norm", "softmax", "matmul", "einsum", "bmm")  # a GPU rounds their results alone


class OnProcessor(torch.overrides.TorchFunctionMode):
    """PyTorch with "cuda" meaning the processor, and with the products of float16 that it lacks there."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = "cpu"
        name = getattr(function, "__name__", "")
        if name in ("cuda", "pin_memory"):
            return args[0]
        if name == "to":
            args = tuple("cpu" if _is_device(a) else a for a in args)
        try:
            if name in WIDE and any(t.dtype in HALVES for t in _tensors(args)):
                return self.widened(function, args, kwargs)
            return function(*args, **kwargs)
        except RuntimeError as error:
            if "not implemented for 'Half'" not in str(error) and "BFloat16" not in str(error):
                raise
        return self.widened(function, args, kwargs)

    def widened(self, function, args, kwargs):
        kinds = {t.dtype for t in _tensors((args, kwargs))}
        kind = torch.bfloat16 if torch.bfloat16 in kinds else torch.float16
        wide = _map(lambda t: t.float() if t.dtype in HALVES else t, (args, kwargs))
        result = function(*wide[0], **wide[1])
        return _map(lambda t: t.to(kind) if t.dtype == torch.float32 else t, result)


def _is_device(value):
    return (isinstance(value, str) and value.startswith("cuda")) or isinstance(value, torch.device)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _map(change, value):
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: _map(change, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_map(change, v) for v in value)
    return value


class InOrder:
    """torch.cuda.Event and torch.cuda.Stream, where everything runs in order anyway."""

    def __init__(self, *_, **__):
        pass

    def record(self, *_):
        pass

    synchronize = wait_stream = wait_event = record_event = __exit__ = record

    def __enter__(self):
        return self

    def elapsed_time(self, _):
        return 1.0


def counted(function):
    """A comparison of PyTorch's, which takes tensors for its first two arguments."""
    def compare(actual, expected, *args, **kwargs):
        if isinstance(actual, torch.Tensor):
            comparisons.append(actual.numel())
        return function(actual, expected, *args, **kwargs)
    return compare


def install(compiler, folder, arch=None, on_device=False):
    """From here on `import tilelang` is this, and "cuda" the processor, unless the GPU itself is meant. Returns the
    mode to run in."""
    options.kilnc, options.folder = str(compiler), str(folder)
    options.arch, options.on_device = arch, on_device
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.meta_path.insert(0, Finder())
    for module in _modules():
        sys.modules[module.__name__] = module
    torch.compile = lambda f=None, **_: f if f is not None else (lambda g: g)
    torch.testing.assert_close = counted(torch.testing.assert_close)
    torch.allclose = counted(torch.allclose)
    torch.manual_seed(0)
    if not hasattr(torch, "uint16"):
        torch.uint16 = torch.int16  # which programs only view the bits of
    if on_device:
        Finder.roots.remove("triton")
        return contextlib.nullcontext()
    pretend_cuda()
    return OnProcessor()


def pretend_cuda():
    """torch.cuda as far as programs ask it something."""
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.synchronize = cuda.empty_cache = lambda *_: None
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.Event = cuda.Stream = cuda.stream = InOrder
    cuda.current_stream = cuda.default_stream = InOrder
    cuda.get_device_properties = lambda *_: types.SimpleNamespace(
        multi_processor_count=4, name="processor", major=9, minor=0, gcnArchName="")
    torch.Tensor.cuda = lambda self, *_, **__: self
    generator = torch.Generator
    torch.Generator = lambda *_, **__: generator()
