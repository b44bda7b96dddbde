"""Expressions of random kernels: each a text in the kernel language and what it is worth in NumPy.

All of it is exact: what is read is taken modulo 1009 before it enters an expression, and what is
stored is brought into a range that the element type holds exactly."""
import contextlib
import pathlib
import random
import sys
from typing import Callable, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kernels"))
from run import FLOAT8, np, round_to  # noqa: E402

WIDE = ("int32", "float32", "int64")  # hold sums too; any other tile holds at most 104
SMALL = ("float16", "bfloat16", "int8", "int16")
STORAGE = tuple(t for t in FLOAT8 if t != "float8_e8m0fnu")  # no type for products here
MODULUS = 1009


class Expr(NamedTuple):
    """`of(memory)` is an int64 or an array of the shape of the loop over elements, if in one.
    `memory` holds tiles, variables, loop indices and tensors by their names."""
    text: str
    of: Callable


class Tile(NamedTuple):
    """On-chip memory, or a block's own part of a tensor."""
    name: str
    axes: str  # "ij", "i" or "j"
    shape: tuple
    dtype: str
    memory: str  # shared, fragment or global

    def at(self, *indices):
        block = ["bx", "by"] if self.memory == "global" else []
        return f"{self.name}[{', '.join([*block, *indices])}]"

    def region(self, starts, extents):
        return self.at(*(f"{a}:{a + n}" for a, n in zip(starts, extents)))

    def whole(self):
        if self.memory != "global":
            return self.name
        return self.region([0] * len(self.shape), self.shape)


class Where(NamedTuple):
    """What an expression may use at its place."""
    names: tuple  # of integers
    axes: dict = {}  # extents of the loop over elements around it
    stored: frozenset = frozenset()  # tiles this loop stores, read only at an iteration's element

    def plus(self, name):
        return self._replace(names=(*self.names, name))


def bounds(dtype):
    """[low, high] of what is stored by an expression."""
    if dtype in FLOAT8:
        return -8, 8
    return (0, 100) if dtype == "uint8" else (-50, 50)


def number_type(dtype):
    return np.int64 if dtype.startswith(("int", "uint")) else np.float64


def as_held(values, dtype):
    """Numbers as a tile of the type holds them: exactly, but for 8-bit floats."""
    if dtype in FLOAT8:
        return round_to(np.asarray(values, np.float64), dtype)
    return np.asarray(values).astype(number_type(dtype))


def zeros(tile):
    return np.zeros(tile.shape, number_type(tile.dtype))


class Expressions:
    """Draws expressions; `tiles`, `variables` and `tensors` are what they read."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.tiles, self.variables = [], []
        self.tensors = {}  # name: (dtype, shape), of what is only read

    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, items):
        return self.rng.choice(items)

    @contextlib.contextmanager
    def only(self, tiles, variables):
        """With no other tiles and variables than these."""
        before = self.tiles, self.variables
        self.tiles, self.variables = tiles, variables
        yield
        self.tiles, self.variables = before

    # ---- leaves ----

    def other_index(self, axis, extent):
        """Some place along the axis that depends on the iteration's."""
        if self.chance(0.5):
            return Expr(f"{extent - 1} - {axis}", lambda m: extent - 1 - m[axis])
        step, start = self.pick([1, 2, 3]), self.rng.randint(0, 9)
        return Expr(f"({axis} * {step} + {start}) % {extent}",
                    lambda m: (m[axis] * step + start) % extent)

    def load(self, where):
        """An element of a tile that has no other axes than the loop."""
        tiles = [t for t in self.tiles if set(t.axes) <= where.axes.keys()]
        if not tiles or self.chance(0.1):
            return self.tensor_element(where)
        tile = self.pick(tiles)
        moves = tile.name not in where.stored and self.chance(
            0.02 if tile.memory == "fragment" else 0.5)
        index = [self.other_index(a, n) if moves and self.chance(0.6) else
                 Expr(a, lambda m, a=a: m[a]) for a, n in zip(tile.axes, tile.shape)]
        text = tile.at(*(i.text for i in index))
        if tile.dtype != "int32":
            text = f'T.cast({text}, "int32")'

        def of(m):
            return m[tile.name][tuple(i.of(m) for i in index)].astype(np.int64) % MODULUS
        return Expr(f"({text} % {MODULUS})", of)

    def tensor_element(self, where):
        """An element of A or B, zero outside of it."""
        name = self.pick("AB")
        dtype, shape = self.tensors[name]
        axes = [self.pick(list(where.axes)) for _ in shape]
        shifts = [self.pick([0, 0, 1, -1, n // 2]) for n in shape]
        index = ", ".join(f"{a} + {s}" if s else a for a, s in zip(axes, shifts))
        text = f"{name}[{index}]"
        if dtype != "int32":
            text = f'T.cast({text}, "int32")'

        def of(m):
            at = np.broadcast_arrays(*(m[a] + s for a, s in zip(axes, shifts)))
            inside = np.logical_and.reduce([(0 <= x) & (x < n) for x, n in zip(at, shape)])
            held = m[name][tuple(np.where(inside, x, 0) for x in at)].astype(np.int64)
            return np.where(inside, held, 0) % MODULUS
        return Expr(f"({text} % {MODULUS})", of)

    def atom(self, where):
        """A constant, a variable, an element of V, or an index."""
        kind = self.rng.random()
        if kind < 0.3:
            value = self.rng.randint(-9, 20)
            return Expr(str(value) if value >= 0 else f"({value})", lambda m: np.int64(value))
        if kind < 0.5 and self.variables:
            name = self.pick(self.variables)
            return Expr(f"({name} % {MODULUS})", lambda m: np.int64(m[name] % MODULUS))
        if kind < 0.6:
            at = self.rng.randrange(self.tensors["V"][1][0])
            return Expr(f"(V[{at}] % {MODULUS})", lambda m: np.int64(m["V"][at] % MODULUS))
        name = self.pick([*where.names, *where.axes])
        return Expr(name, lambda m: np.int64(m[name]))

    # ---- operators ----

    def expr(self, where, depth):
        if depth == 0 or self.chance(0.15):
            return self.load(where) if where.axes and self.chance(0.7) else self.atom(where)
        kind = self.rng.random()
        a, b = self.expr(where, depth - 1), self.expr(where, depth - 1)
        if kind < 0.25:
            return Expr(f"({a.text} + {b.text})", lambda m: a.of(m) + b.of(m))
        if kind < 0.4:
            return Expr(f"({a.text} - {b.text})", lambda m: a.of(m) - b.of(m))
        if kind < 0.55:
            return Expr(f"({a.text} % {MODULUS} * ({b.text} % {MODULUS}) % {MODULUS})",
                        lambda m: a.of(m) % MODULUS * (b.of(m) % MODULUS) % MODULUS)
        if kind < 0.63:
            return Expr(f"T.max({a.text}, {b.text})", lambda m: np.maximum(a.of(m), b.of(m)))
        if kind < 0.7:
            return Expr(f"T.min({a.text}, {b.text})", lambda m: np.minimum(a.of(m), b.of(m)))
        if kind < 0.78:
            by = self.pick([2, 3, 7, 8, -3])
            return Expr(f"({a.text} // ({by}))", lambda m: a.of(m) // by)
        if kind < 0.86:
            by = self.pick([2, 3, 7, 8, -5])
            return Expr(f"({a.text} % ({by}))", lambda m: a.of(m) % by)
        c = self.condition(where, depth - 1)
        text = (f"({a.text} if {c.text} else {b.text})" if self.chance(0.5) else
                f"T.if_then_else({c.text}, {a.text}, {b.text})")
        return Expr(text, lambda m: np.where(c.of(m), a.of(m), b.of(m)))

    def condition(self, where, depth=1):
        a, b = self.expr(where, max(depth, 0)), self.expr(where, 0)
        sign, compare = self.pick([("<", np.less), ("<=", np.less_equal), ("==", np.equal),
                                   ("!=", np.not_equal), (">", np.greater)])
        one = Expr(f"({a.text} {sign} {b.text})", lambda m: compare(a.of(m), b.of(m)))
        if depth < 0 or not self.chance(0.25):
            return one
        two = self.condition(where, -1)
        if self.chance(0.5):
            return Expr(f"({one.text} and {two.text})",
                        lambda m: np.logical_and(one.of(m), two.of(m)))
        return Expr(f"({one.text} or not {two.text})",
                    lambda m: np.logical_or(one.of(m), np.logical_not(two.of(m))))

    def stored_value(self, where, depth, dtype):
        """An expression that an element of the type holds exactly."""
        a = self.expr(where, depth)
        low, high = bounds(dtype)
        text = f"({a.text}) % {high - low + 1}" + (f" - {-low}" if low else "")
        if dtype != "int32":
            text = f'T.cast({text}, "{dtype}")'
        return Expr(text, lambda m: a.of(m) % (high - low + 1) + low)
