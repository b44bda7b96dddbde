"""Random compile-time programs, evaluated by CPython and by the elaborator: equal, or both raise.

    python_agreement.py EVALUATE [--count N] [--seed S] [--keep FOLDER]

EVALUATE is the tool of evaluate.cc. A program defines `f()`, with helpers, loops, comprehensions and
methods of what the language has. Integers are 64-bit in the language: a program in which CPython
meets a larger one may raise there; such programs are counted apart, and are few. Prints one line,
and the first programs that disagree; exit code 1 when there is one.
"""
import argparse
import ast
import math
import pathlib
import random
import subprocess
import sys
import types
import warnings

SEPARATOR = "\x1e\n"
MOST_BIG = 0.05  # of the programs, those with an integer beyond 64 bits
LARGEST = 2**63
MOST_SHOWN = 500  # characters of a message that come back

# What programs may use besides their own functions.
PRELUDE = """\
import collections
import dataclasses
import enum
import functools
import math
import operator
from typing import NamedTuple
import numpy as np

class Mode(enum.Enum):
    LOW = 1
    HIGH = 3
    BOTH = (1, 2)
    TOP = 3

class Level(enum.IntEnum):
    A = 2
    B = enum.auto()
    C = 7

class Kind(str, enum.Enum):
    X = 'x'
    Y = 'yy'

class Pair(NamedTuple):
    left: int
    right: int = 5

    def total(self, more=0):
        return self.left + self.right + more

Point = collections.namedtuple('Point', 'x y z', defaults=[9])

@dataclasses.dataclass(order=True)
class Tile:
    m: int
    n: int = 16
    tags: list = dataclasses.field(default_factory=list)

    @property
    def area(self):
        return self.m * self.n

@dataclasses.dataclass(order=True)
class Deep(Tile):
    k: int = 4

    def __post_init__(self):
        assert self.k > -30

class Box:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at] + 1

    def __call__(self, by, more=2):
        return [i * by + more for i in self.items]

class Never(Box):
    def __bool__(self):
        return len(self) > 2

class Part(enum.Flag):
    NONE = 0
    A = enum.auto()
    B = enum.auto()
    C = enum.auto()
    AB = A | B

class Bits(enum.IntFlag):
    R = 4
    W = 2
    X = 1

Made = enum.Enum('Made', 'ONE TWO', start=3)
Built = enum.IntEnum('Built', {'P': 5, 'Q': 9})

class Vec:
    def __init__(self, x, y=1):
        self.x, self.y = x, y

    def __add__(self, o):
        return Vec(self.x + o.x, self.y + o.y) if isinstance(o, Vec) else NotImplemented

    def __radd__(self, o):
        return Vec(self.x + o, self.y)

    def __sub__(self, o):
        return Vec(self.x - (o.x if isinstance(o, Vec) else o), self.y)

    def __mul__(self, o):
        return Vec(self.x * o, self.y * o)

    __rmul__ = __mul__

    def __neg__(self):
        return Vec(-self.x, -self.y)

    def __invert__(self):
        return self.x ^ self.y

    def __abs__(self):
        return abs(self.x) + abs(self.y)

    def __eq__(self, o):
        return self.x == (o.x if isinstance(o, Vec) else o)

    def __lt__(self, o):
        return self.x < (o.x if isinstance(o, Vec) else o)

    def __contains__(self, o):
        return o == self.x or o == self.y

    def __iadd__(self, o):
        self.y += 7
        return self

class Vec3(Vec):
    def __radd__(self, o):
        return Vec(5, 6)

    def __gt__(self, o):
        return False

@dataclasses.dataclass
class Scaled:
    m: int
    by: dataclasses.InitVar[int] = 3
    t: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, by):
        self.t = self.m * by

def spread(a, b=2, *rest, c=3):
    return a - 2 * b + 5 * c + len(rest)

def named(x):
    if (half := x // 2) > 3:
        return half
    return sum(y for z in range(4) if (y := z + half) % 2) + y

def steps(n, more=()):
    for i in range(n % 5):
        if i == 3:
            return
        yield i * n
    yield from more

def keep(f):
    @functools.wraps(f)
    def inner(*args, **keywords):
        return f(*args, **keywords) + 1
    return inner

def times(by):
    return lambda f: lambda x: f(x) * by

@keep
@times(3)
def wrapped(x):
    return x - 2

def grouped(items):
    groups = collections.defaultdict(list)
    for i in items:
        groups[i % 3].append(i)
    counts = collections.defaultdict(int, {0: 1})
    for i in items:
        counts[i % 2] += 1
    return [sorted(groups.items()), dict(counts)]

def updated(d, s):
    other, kept = d, s
    d |= {'z': 1}
    s |= {100}
    s -= {2}
    return [other, sorted(kept)]
"""

# numpy's functions of single numbers, where they differ in no more than the type of the result.
NUMPY = {
    "ceil": lambda x: math.copysign(math.ceil(x), x),
    "floor": lambda x: math.copysign(math.floor(x), x),
    "sqrt": math.sqrt, "maximum": max, "minimum": min, "abs": abs,
    "prod": lambda a: math.prod(a) if len(a) else 1.0,
    "sum": lambda a: sum(a) if len(a) else 0.0, "max": max, "min": min,
    "log2": math.log2, "sign": lambda x: (x > 0) - (x < 0),
}


class Generator:
    """One program. Expressions are made by type; `depth` bounds them."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = {}  # name -> type, of the scope that is being written
        self.helpers = []  # (name, argument types, result type)
        self.fresh = 0

    def name(self):
        self.fresh += 1
        return f"v{self.fresh}"

    def pick(self, *choices):
        return self.r.choice(choices)

    def known(self, kind):
        return [n for n, k in self.names.items() if k == kind]

    def integer(self):
        if self.r.random() < 0.002:
            return self.pick("9223372036854775807", "(-2**63)", "3037000500", "(1 << 62)")
        return str(self.pick(0, 1, 2, 3, 5, 7, 16, 64, 128, self.r.randint(-40, 40)))

    def divisor(self, depth):
        """Rarely zero."""
        return self.pick("3", "-7", "16", "0.5", f"({self.expr('int', depth)} or 1)",
                         f"({self.expr('int', depth)} or 1)",
                         self.expr("int", depth) if self.r.random() < 0.2 else "2")

    def expr(self, kind, depth):
        known = self.known(kind)
        if known and self.r.random() < 0.35:
            return self.r.choice(known)
        if self.r.random() < 0.002:  # a type that does not belong there
            return f"({self.leaf(self.pick('int', 'str', 'list', 'dict', 'float'))})"
        if depth <= 0:
            return self.leaf(kind)
        if self.r.random() < 0.08:
            return (f"({self.expr(kind, depth - 1)} if {self.expr('bool', depth - 1)} "
                    f"else {self.expr(kind, depth - 1)})")
        calls = [h for h in self.helpers if h[2] == kind]
        if calls and self.r.random() < 0.2:
            name, arguments, _ = self.r.choice(calls)
            return f"{name}({', '.join(self.expr(a, depth - 1) for a in arguments)})"
        return getattr(self, "of_" + kind)(depth - 1)

    def leaf(self, kind):
        if kind == "int":
            return self.integer()
        if kind == "float":
            return self.pick("0.5", "2.0", "-1.25", "3.5", "1e3", "0.1")
        if kind == "bool":
            return self.pick("True", "False")
        if kind == "str":
            return self.pick("'a'", "'kiln'", "''", "'x,y'", "'A b'", "'_1'")
        if kind == "list":
            return "[" + ", ".join(self.integer() for _ in range(self.r.randint(0, 4))) + "]"
        if kind == "tuple":
            return "(" + "".join(self.integer() + ", " for _ in range(self.r.randint(1, 3))) + ")"
        keys = self.r.sample(["a", "b", "c", "d"], self.r.randint(0, 3))
        return "{" + ", ".join(f"'{k}': {self.integer()}" for k in keys) + "}"

    def of_int(self, d):
        e = self.expr
        choice = self.r.randint(0, 26)
        if choice <= 4:
            return f"({e('int', d)} {self.pick('+', '-', '*')} {e('int', d)})"
        if choice >= 22:
            return self.of_objects(d)
        if choice == 5:
            return f"({e('int', d)} {self.pick('//', '%')} {self.divisor(d)})".replace("0.5", "5")
        if choice == 6:
            return f"({e('int', d)} {self.pick('&', '|', '^')} {e('int', d)})"
        if choice == 7:
            return f"({e('int', d)} {self.pick('<<', '>>')} {self.pick('0', '1', '3', '5')})"
        if choice == 8:
            return f"{self.pick('-', '~', '+')}{e('int', d)}"
        if choice == 9:
            return f"({e('int', d)} ** {self.pick('0', '1', '2', '3')})"
        if choice == 10:
            return f"len({e(self.pick('str', 'list', 'tuple', 'dict'), d)})"
        if choice == 11:
            return (f"{self.pick('min', 'max')}([*{e(self.pick('list', 'tuple'), d)}, 4])"
                    if self.r.random() < 0.5 else f"sum({e(self.pick('list', 'tuple'), d)})")
        if choice == 12:
            return f"{self.pick('min', 'max')}({e('int', d)}, {e('int', d)}, {e('int', d)})"
        if choice == 13:
            if self.r.random() < 0.1:
                return f"{e(self.pick('list', 'tuple'), d)}[{self.pick('0', '-1', e('int', 0))}]"
            return f"[{e('int', d)}, *{e('list', d)}][{self.pick('0', '-1')}]"
        if choice == 14:
            return f"abs({e('int', d)})"
        if choice == 15:
            return f"int({e(self.pick('float', 'bool', 'int'), d)})"
        if choice == 16:
            return f"{e('dict', d)}.get({e('str', 0)}, {e('int', d)})"
        if choice == 17:
            if self.r.random() < 0.1:
                return f"{e('list', d)}.index({e('int', 0)})"
            return f"{e('list', d)}.count({e('int', 0)})"
        if choice == 18:
            return f"divmod({e('int', d)}, {self.divisor(d)})[{self.pick(0, 1)}]"
        if choice == 19:
            return f"round({e('float', d)})"
        if choice == 20:
            if self.r.random() < 0.1:
                return f"{e('dict', d)}['a']"
            return f"{{**{e('dict', d)}, 'a': {e('int', d)}}}['a']"
        return f"(lambda p, q={self.integer()}: p {self.pick('+', '*', '-')} q)({e('int', d)})"

    def of_objects(self, d):
        """An integer that the library's classes and functions make."""
        e = self.expr
        i = e("int", d)
        return self.pick(
            f"len({self.of_set(d)})", f"sum({self.of_set(d)})", f"max({self.of_set(d)} | {{0}})",
            f"sorted({self.of_set(d)} ^ {self.of_set(d)}, reverse=True)[:1] == [{i}] or {i}",
            f"sum(steps({i}, {e('list', 0)}))", f"wrapped({i})", f"named({i})", f"len(collections.OrderedDict(a={i}, b=2))",
            f"ord({self.pick(repr('a'), repr('Z'), 'chr(65)')})",
            f"{self.enum()}.value if isinstance({self.enum()}, Level) else {i}",
            f"({self.level()} {self.pick('+', '-', '*', '//', '&')} {self.pick(i, self.level())})",
            f"Level({self.pick(2, 3, 7, 7, 4)}).value", f"Level['{self.pick('A', 'B', 'B', 'D')}']",
            f"sum(Level)", f"len({self.pick('Mode', 'Level', 'Kind')})",
            f"{{Mode.LOW: {i}, Mode.HIGH: 4}}[{self.pick('Mode.LOW', 'Mode.TOP', 'Mode(1)')}]",
            f"{self.pair(d)}.{self.pick('left', 'right', 'total()', f'total({i})')}",
            f"{self.pair(d)}[{self.pick('0', '1', '-1')}]", f"sum({self.point(d)})",
            f"{self.point(d)}.{self.pick('x', 'y', 'z')}", f"max({self.pair(d)})",
            f"{self.point(d)}._replace(y={i}).y", f"{self.point(d)}._asdict()['z']",
            f"{self.tile(d)}.{self.pick('m', 'n', 'area')}",
            f"dataclasses.replace({self.tile(d)}, n={i}).area",
            f"sum(dataclasses.astuple({self.tile(d)})[:2])",
            f"getattr({self.tile(d)}, '{self.pick('m', 'area', 'k')}', {i})",
            f"getattr({self.pair(d)}, '{self.pick('left', 'none')}')",
            f"functools.partial(spread, {i})({self.pick('', i, 'c=1', 'b=4', '1, 2, 3')})",
            f"functools.partial(spread, {self.pick('c=7', 'b=1', '3, c=2')})({i})",
            f"functools.reduce(operator.{self.pick('add', 'mul', 'sub', 'xor')}, "
            f"{e('list', d)}, {i})",
            f"math.{self.pick('gcd', 'lcm')}({e('int', 0)}, {e('int', 0)})",
            f"math.{self.pick('comb', 'perm')}({self.pick(5, 9, i)}, {self.pick(2, 3)})",
            f"len({self.box(d)})", f"{self.box(d)}[{self.pick('0', '-1')}]",
            f"sum({self.box(d)}({self.pick(i, i + ', 3', 'by=2')}))",
            f"(1 if {self.box(d)} else 2)", f"(0 if not {self.box(d)} else {i})",
            f"math.factorial({self.pick(0, 1, 5, 'len(' + e('list', d) + ')')})",
            f"math.{self.pick('ceil', 'floor', 'trunc')}({e('float', d)})",
            f"math.prod({e('list', d)})", f"math.isqrt(abs({i}))",
            f"int(np.{self.pick('ceil', 'floor')}({e('float', d)}))",
            f"int(np.{self.pick('prod', 'sum', 'max')}([*{e('list', d)}, 2]))",
            f"int(np.{self.pick('maximum', 'minimum')}({i}, {e('int', d)}))",
            f"int(np.log2({self.pick(1, 2, 64, 1024)}))",
            f"{self.part()}.value", f"len({self.part()})", f"(1 if {self.part()} else {i})",
            f"len({self.pick('Part', 'Bits', 'Made', 'Built')})",
            f"({self.bits()} {self.pick('+', '-', '*', '&', '|', '^', '<<')} "
            f"{self.pick('3', '1', self.bits())})", f"int({self.bits()})",
            f"int({self.pick(1, 5, 8)} {self.pick('|', '&')} {self.bits()})",
            f"sum(p.value for p in {self.part()})", f"Made({self.pick(3, 4, 4, 5)}).value",
            f"(Built.{self.pick('P', 'Q')} + {i})", f"{self.vec(d)}.{self.pick('x', 'y')}",
            f"~{self.vec(d)}", f"abs({self.vec(d)})", f"sum([{self.vec(d)}, {self.vec(d)}]).x",
            f"max({self.vec(d)}, {self.vec(d)}).x", f"sorted([{self.vec(d)}, Vec(2)])[0].x",
            f"[{i}, 3].index(Vec(3))", f"Scaled({i}{self.pick('', ', 4', ', by=2')}).t",
            f"dataclasses.replace(Scaled({i}), m=2, by={self.pick(1, 5)}).t")

    def of_set(self, d):
        items = self.expr(self.pick("list", "tuple"), d)
        one = self.pick(f"set({items})", f"{{*{items}, 3}}", f"{{x % 5 for x in {items}}}",
                        f"frozenset({items})", "set()")
        return self.pick(one, one, f"({one} {self.pick('|', '&', '-', '^')} {{1, 2, 3}})",
                         f"set({items}).{self.pick('union', 'intersection', 'difference')}([2, 5])")

    # Versions of CPython differ in what a Flag does with bits that no member has, and in how an
    # IntFlag with aliases spells them: so none here has such bits, or such aliases.
    def part(self):
        one = "Part." + self.pick("NONE", "A", "B", "C", "AB")
        return self.pick(one, one, f"~{one}", f"Part({self.r.randint(0, 7)})", "Part['B']",
                         f"({one} {self.pick('|', '&', '^')} Part.{self.pick('A', 'B', 'AB')})")

    def bits(self):
        one = "Bits." + self.pick("R", "W", "X")
        return self.pick(one, f"~{one}", f"Bits({self.r.randint(0, 12)})",
                         f"({one} {self.pick('|', '&', '^')} {self.pick('Bits.X', 'Bits.W', 8)})")

    def vec(self, d):
        i = self.expr("int", d)
        return self.pick(f"Vec({i})", f"Vec({i}, 4)", f"(Vec({i}) + Vec3(2))", f"-Vec({i}, 2)",
                         f"(Vec(1) {self.pick('+', '-')} Vec({i}))", f"(3 * Vec({i}))",
                         f"(Vec({i}) * 2)", f"(2 + Vec({i}))", f"(Vec({i}) - 1)",
                         f"(Vec({i}) + 1)", f"Vec3({i})")

    def enum(self):
        return self.pick("Mode.LOW", "Mode.HIGH", "Mode.BOTH", "Mode(3)", "Mode['TOP']", "Kind.X",
                         "Kind('yy')", "list(Mode)[1]", self.level())

    def level(self):
        return self.pick("Level.A", "Level.B", "Level.C", "max(Level)", "min(Level.C, Level.B)")

    def pair(self, d):
        i = self.expr("int", d)
        return self.pick(f"Pair({i})", f"Pair({i}, 3)", f"Pair(right=1, left={i})",
                         f"Pair(*[{i}, 2])", f"Pair({i})._replace(right=8)")

    def point(self, d):
        i = self.expr("int", d)
        return self.pick(f"Point(1, {i})", f"Point({i}, 2, 3)", f"Point(z={i}, x=1, y=0)")

    def box(self, d):
        i = self.expr("int", d)
        return self.pick(f"Box({i}, 4)", f"Never({i})", f"Never({i}, 2, 3)", "Box()")

    def tile(self, d):
        i = self.expr("int", d)
        return self.pick(f"Tile({i})", f"Tile({i}, 4)", f"Tile(n={i}, m=2)", f"Deep({i}, k=6)",
                         f"Deep(1, {i})", f"Tile({i}, tags=[1])",
                         f"dataclasses.replace(Deep({i}), k={i})")

    def of_float(self, d):
        e = self.expr
        choice = self.r.randint(0, 9)
        if choice >= 8:
            x = e("float", d)
            return self.pick(
                f"math.sqrt(abs({x}))", f"math.fabs({x})", f"math.copysign({x}, {e('float', 0)})",
                f"math.fmod({x}, 3.0)", f"math.degrees(0.5)", f"math.hypot({x}, 2.0)",
                f"math.fsum([{x}, 1e16, {e('float', 0)}, -1e16, 0.1, 0.1])",
                f"math.modf({x})[{self.pick(0, 1)}]", f"math.frexp({x})[0]",
                f"math.ldexp({x}, {self.pick(-3, 0, 4)})", f"math.remainder({x}, 3.0)",
                f"math.log2({self.pick(8, 0.5, 1024)})", f"math.atan2({x}, 2.0)",
                f"math.exp({e('float', 0)})", f"math.erf({e('float', 0)})", "math.tau",
                f"float(np.sqrt(abs({x})))", f"float(np.{self.pick('ceil', 'floor')}({x}))")
        if choice <= 2:
            return f"({e('float', d)} {self.pick('+', '-', '*')} {e(self.pick('float', 'int'), d)})"
        if choice == 3:
            return f"({e('int', d)} / {self.divisor(d)})"
        if choice == 4:
            return f"({e('float', d)} {self.pick('//', '%', '/')} {self.divisor(d)})"
        if choice == 5:
            return f"float({e(self.pick('int', 'bool'), d)})"
        if choice == 6:
            return f"{self.pick('min', 'max')}({e('float', d)}, {e('int', d)})"
        return f"round({e('float', d)}, {self.pick(0, 1, 2)})"

    def of_bool(self, d):
        e = self.expr
        choice = self.r.randint(0, 14)
        if choice >= 11:
            return self.of_tests(d)
        if choice == 10 and self.r.random() < 0.5:
            return self.pick(f"({e('int', d)} in {self.of_set(d)})",
                             f"({self.of_set(d)} {self.pick('<=', '<', '==', '>')} {self.of_set(d)})",
                             f"{self.of_set(d)}.issubset([1, 2, 3, 4])", f"bool({self.of_set(d)})",
                             f"isinstance({self.of_set(d)}, (set, frozenset))")
        compare = ["<", "<=", ">", ">=", "==", "!="]
        if choice <= 2:
            return f"({e('int', d)} {self.pick(*compare)} {e(self.pick('int', 'float'), d)})"
        if choice == 3:
            return (f"({e('int', d)} {self.pick(*compare)} {e('int', d)} "
                    f"{self.pick(*compare)} {e('int', d)})")
        if choice == 4:
            return f"({e('bool', d)} {self.pick('and', 'or')} {e('bool', d)})"
        if choice == 5:
            return f"(not {e(self.pick('bool', 'int', 'str', 'list'), d)})"
        if choice == 6:
            return f"({e('int', 0)} {self.pick('in', 'not in')} {e(self.pick('list', 'tuple'), d)})"
        if choice == 7:
            return f"({e('str', d)} {self.pick('in', '==', '<', 'not in')} {e('str', d)})"
        if choice == 8:
            return f"{self.pick('any', 'all')}({e(self.pick('list', 'tuple'), d)})"
        if choice == 9:
            kind = self.pick("list", "tuple")
            return f"({e(kind, d)} {self.pick(*compare)} {e(kind, d)})"
        kind = self.pick("int", "str", "(int, float)", "bool", "(list, tuple)")
        return f"isinstance({e(self.pick('int', 'str', 'list', 'float'), d)}, {kind})"

    def of_tests(self, d):
        """Questions to objects."""
        tile, pair, sign = self.tile, self.pair, self.pick("==", "!=", "<", ">=")
        return self.pick(
            f"({self.vec(d)} {self.pick('<', '>', '==', '!=')} "
            f"{self.pick(self.vec(d), self.expr('int', d))})",
            f"({self.expr('int', 0)} {self.pick('==', 'in', '!=', '>')} {self.vec(d)})",
            f"({self.vec(d)} in [{self.vec(d)}, 4])",
            f"({self.part()} {self.pick('is', '==', '!=', 'in', 'not in', 'is not')} {self.part()})",
            f"({self.bits()} {self.pick('is', '==', '<', 'in')} {self.bits()})",
            f"({self.bits()} {self.pick('==', '<')} {self.expr('int', 0)})",
            f"({self.tile(d)} is {self.tile(d)})", f"bool({self.part()})",
            f"isinstance({self.pick(self.part(), self.bits())}, {self.pick('Part', 'int')})",
            f"({self.enum()} {self.pick('==', '!=', 'is', 'is not')} {self.enum()})",
            f"({self.level()} {sign} {self.pick(self.level(), self.expr('int', d))})",
            f"({self.enum()} in {self.pick('(Mode.LOW, Kind.X)', 'list(Mode)', '[Level.A, 3]')})",
            f"({tile(d)} {sign} {tile(d)})", f"({pair(d)} {sign} {pair(d)})",
            f"({pair(d)} == {self.expr('tuple', d)})",
            f"hasattr({self.pick(tile(d), pair(d), self.enum(), 'Tile')}, "
            f"'{self.pick('m', 'area', 'left', 'total', 'value', 'k', 'n', 'append')}')",
            f"hasattr({self.expr('list', d)}, '{self.pick('append', 'm', 'index')}')",
            f"isinstance({self.pick(tile(d), pair(d), self.enum(), '1', 'True', '()')}, "
            f"{self.pick('Tile', 'Deep', 'Pair', 'tuple', 'int', '(str, Mode)', 'Level', 'enum.Enum')})",
            f"issubclass({self.pick('Deep', 'Tile', 'Pair')}, {self.pick('Tile', '(Pair, Deep)')})",
            f"(type({self.pick('1', '1.0', 'True', tile(d), pair(d), self.level())}) is "
            f"{self.pick('int', 'float', 'bool', 'Tile', 'Pair', 'Level')})",
            f"callable({self.pick('spread', 'len', '3', 'Tile', tile(d), 'functools.partial(spread, 1)')})",
            f"math.isclose({self.expr('float', d)}, {self.expr('float', d)}, abs_tol=0.25)",
            f"math.is{self.pick('nan', 'inf', 'finite')}({self.expr('float', d)})",
            f"bool({self.pick(self.level(), tile(d), pair(d), self.enum())})")

    def of_formats(self, d):
        """Text that is laid out."""
        e = self.expr
        i, x, t = e("int", d), e("float", d), e("str", d)
        whole = self.pick("d", "5d", "-6d", "05d", "+d", " d", "x", "#x", "o", "X", "i", "s", "r")
        real = self.pick("f", ".2f", "8.3f", "-9.1f", "e", ".3e", "g", ".4g", "+.1f", "08.2f", "s")
        text = self.pick("s", "r", "10s", "-8s", ".2s", "6.1s")
        spec = self.pick("", ":d", ":>7", ":<6d", ":^9", ":08d", ":+d", ":x", ":#b", ":,", "!r", "!s:>5")
        spec2 = self.pick("", ":.3f", ":10.2f", ":<12.1e", ":g", ":.2%", ":+.0f", ":010.3f", "!r:>9")
        spec3 = self.pick("", ":>6", ":*^9", ":.2", "!r", ":<5s", "!s:.1")
        shown = self.pick(self.enum(), self.tile(d), self.pair(d), self.point(d), self.level())
        return self.pick(
            f"('%{whole}' % {i})", f"('%{whole}|%{text}%%' % ({i}, {t}))", f"('%{real}' % {x})",
            f"('%({self.pick('a', 'b')}){whole}' % {{'a': {i}, 'b': 3}})",
            f"('%*d,%-*d' % (5, {i}, 4, {i}))", f"('%s %s' % ({e('list', d)}, {e('tuple', d)}))",
            f"'{{{spec}}}'.format({i})", f"'{{1{spec3}}}-{{0{spec}}}'.format({i}, {t})",
            f"'{{v{spec2}}}'.format(v={x})", f"'{{{spec}}}{{{spec2}}}'.format({i}, {x})",
            f"'{{{{{{:{{}}}}}}}}'.format({i}, {self.pick(4, 7)})",
            f"'{{0[1]}}{{0[0]{spec}}}'.format([{i}, 4])", f"'{{t.m}}x{{t.n:>4}}'.format(t={self.tile(d)})",
            f"f'{{{i}{spec}}}'" if not set("'{}") & set(i + spec) else f"str({i})",
            f"str({shown})", f"repr({shown})", f"'{{}}'.format({shown})", f"f'{{{self.level()}:>4}}'",
            f"('%s' % ({shown},))", f"format({i}, '{spec[1:] if spec[:1] == ':' else ''}')",
            f"{t}.{self.pick('ljust', 'rjust', 'center')}({self.pick(0, 4, 7)}{self.pick('', ', chr_')})"
            .replace("chr_", "'*'"), f"str({i}).zfill({self.pick(0, 3, 8)})",
            f"{t}.{self.pick('lstrip', 'rstrip', 'strip')}({self.pick('', chr(39) + 'a ' + chr(39))})",
            f"{t}.{self.pick('removeprefix', 'removesuffix')}('{self.pick('a', 'n', 'x,')}')",
            f"{t}.{self.pick('partition', 'rpartition')}(',')[{self.pick(0, 1, 2)}]",
            f"{self.enum()}.name", f"Kind.X.upper()", f"(Kind.Y + {t})", f"type({self.tile(d)}).__name__")

    def of_str(self, d):
        e = self.expr
        choice = self.r.randint(0, 14)
        if choice >= 11:
            return self.of_formats(d)
        if choice <= 1:
            return f"({e('str', d)} + {e('str', d)})"
        if choice == 2:
            return f"({e('str', d)} * {self.pick(-1, 0, 1, 2)})"
        if choice == 3 and self.r.random() < 0.3:
            return self.pick(f"str(grouped({e('list', d)}))",
                             f"str(updated({e('dict', d)}, set({e('list', d)})))",
                             f"str({e('dict', d)} | {e('dict', d)})")
        if choice == 3:
            return f"str({e(self.pick('int', 'float', 'bool', 'list', 'tuple', 'dict'), d)})"
        if choice == 4:
            return f"{e('str', d)}.{self.pick('upper', 'lower', 'strip')}()"
        if choice == 5:
            return f"{e('str', d)}.replace('a', {e('str', 0)})"
        if choice == 6:
            return f"','.join([str(i) for i in {e('list', d)}])"
        if choice == 7:
            return f"{e('str', d)}[{self.slice()}]"
        if choice == 8:
            spec = self.pick("", ":d", ":03d", ":x", ":>6", ":<4", "!r", ":5d", ":+d", ":,")
            return f"f'<{{{self.integer()}{spec}}}|{{{self.pick('1 + 2', '7.25', '3')}:.2f}}>'"
        if choice == 9:
            flag = self.pick(self.part(), self.bits(), "Made.ONE", "Built(9)")
            return self.pick(f"repr({e(self.pick('str', 'list', 'float', 'tuple'), d)})",
                             f"{self.pick('str', 'repr')}({flag})", f"str({flag}.name)",
                             f"repr(Scaled({self.integer()}))", f"f'{{{self.bits()}}}'")
        return f"{e('str', d)}.split(',')[0]"

    def slice(self):
        part = lambda: self.pick("", "", "0", "1", "2", "-1", "-2", "5")
        return f"{part()}:{part()}" + self.pick("", "", ":2", ":-1", ":1")

    def sequence(self, d):
        return self.pick(f"range({self.r.randint(0, 6)})", self.expr("list", d),
                         self.expr("tuple", d), f"range({self.r.randint(-3, 3)}, 9, 3)",
                         f"reversed({self.expr('list', d)})")

    def of_list(self, d):
        e = self.expr
        choice = self.r.randint(0, 10)
        if choice <= 2:
            return self.comprehension("[", "]", d)
        if choice == 3:
            return f"({e('list', d)} + {e('list', d)})"
        if choice == 4:
            return f"({e('list', d)} * {self.pick(-1, 0, 1, 2)})"
        if choice == 5:
            return f"{e('list', d)}[{self.slice()}]"
        if choice == 6:
            key = self.pick("", ", reverse=True", ", key=lambda t: -t", ", key=lambda t: t % 3")
            return f"sorted({e('list', d)}{key})"
        if choice == 7:
            return f"[*{e('list', d)}, {e('int', d)}]"
        if choice == 8:
            return f"list({self.sequence(d)})"
        if choice == 9:
            return f"list(map(lambda t: t {self.pick('+', '*', '-')} 2, {e('list', d)}))"
        return f"[a * b for a, b in zip({e('list', d)}, {e('tuple', d)})]"

    def comprehension(self, left, right, d):
        name = self.name()
        source = self.sequence(d)
        saved = dict(self.names)
        self.names[name] = "int"
        item = self.expr("int", d)
        test = f" if {self.expr('bool', d)}" if self.r.random() < 0.5 else ""
        self.names = saved
        return f"{left}{item} for {name} in {source}{test}{right}"

    def of_tuple(self, d):
        choice = self.r.randint(0, 4)
        if choice == 4:
            return self.pick(self.pair(d), self.point(d), f"tuple({self.pair(d)})",
                             f"dataclasses.astuple({self.tile(d)})[:2]", "tuple(Level)")
        if choice == 0:
            return f"({self.expr('tuple', d)} + ({self.expr('int', d)},))"
        if choice == 1:
            return f"tuple({self.sequence(d)})"
        if choice == 2:
            return f"({self.expr('int', d)}, {self.expr('int', d)})"
        return f"{self.expr('tuple', d)}[{self.slice()}]"

    def of_dict(self, d):
        choice = self.r.randint(0, 3)
        if choice == 0:
            return f"{{k: n for k, n in zip('abcd', {self.expr('list', d)})}}"
        if choice == 1:
            return f"dict(a={self.expr('int', d)}, c={self.expr('int', d)})"
        if choice == 2:
            return f"{{'a': {self.expr('int', d)}, {self.expr('str', 0)}: {self.expr('int', d)}}}"
        return f"{{**{self.expr('dict', d)}, 'b': {self.expr('int', d)}}}"

    def block(self, indent, depth, loops=0):
        """Statements; assigned names stay known only where every path assigns them."""
        lines = []
        pad = "    " * indent
        for _ in range(self.r.randint(1, 3)):
            choice = self.r.randint(0, 12)
            if choice <= 3 or depth <= 0:
                kind = self.pick("int", "int", "float", "str", "list", "tuple", "dict", "bool")
                value = self.expr(kind, 2)
                name = self.name()
                lines.append(f"{pad}{name} = {value}")
                self.names[name] = kind
            elif choice == 4 and self.known("int"):
                name = self.r.choice(self.known("int"))
                lines.append(f"{pad}{name} {self.pick('+=', '-=', '*=')} {self.expr('int', 1)}")
            elif choice == 5 and self.known("list"):
                name = self.r.choice(self.known("list"))
                value = self.expr("int", 1)
                lines.append(pad + self.pick(f"{name}.append({value})", f"{name}.extend([{value}, 1])",
                                             f"{name}.insert(0, {value})", f"{name} += [{value}]",
                                             f"{name}.append(2); {name}.pop()",
                                             f"{name}.append(2); {name}[0] = {value}"))
            elif choice == 6 and self.known("dict"):
                name = self.r.choice(self.known("dict"))
                lines.append(f"{pad}{name}[{self.expr('str', 0)}] = {self.expr('int', 1)}")
            elif choice == 7:
                a, b = self.name(), self.name()
                lines.append(f"{pad}{a}, {b} = {self.expr('int', 1)}, {self.expr('int', 1)}")
                self.names.update({a: "int", b: "int"})
            elif choice <= 9:
                lines.append(f"{pad}if {self.expr('bool', 2)}:")
                saved = dict(self.names)
                lines += self.block(indent + 1, depth - 1, loops)
                self.names = dict(saved)
                if self.r.random() < 0.6:
                    lines.append(f"{pad}else:")
                    lines += self.block(indent + 1, depth - 1, loops)
                    self.names = dict(saved)
            elif loops < 2:
                saved = dict(self.names)
                name = self.name()
                if self.r.random() < 0.8:
                    # Of a copy: a body that appends to its own list never ends.
                    lines.append(f"{pad}for {name} in list({self.sequence(1)}):")
                    self.names[name] = "int"
                    lines += self.block(indent + 1, depth - 1, loops + 1)
                    if self.r.random() < 0.3:
                        lines.append(f"{pad}    if {self.expr('bool', 1)}:")
                        lines.append(f"{pad}        {self.pick('break', 'continue')}")
                else:
                    lines.append(f"{pad}{name} = {self.r.randint(0, 5)}")
                    lines.append(f"{pad}while {name} > 0:")
                    lines.append(f"{pad}    {name} -= 1")
                    self.names[name] = "str"  # out of reach of what follows, so that the loop ends
                    lines += self.block(indent + 1, depth - 1, loops + 1)
                self.names = saved
            else:
                lines.append(f"{pad}pass")
        return lines

    def function(self, name, arguments):
        self.names = {f"p{i}": kind for i, kind in enumerate(arguments)}
        header = ", ".join(self.names)
        result = self.pick("int", "int", "float", "str", "list", "tuple", "bool", "dict")
        lines = [f"def {name}({header}):"] + self.block(1, 2)
        lines.append(f"    return {self.expr(result, 2)}")
        return lines, result

    def program(self):
        lines = []
        for i in range(self.r.randint(0, 2)):
            arguments = [self.pick("int", "int", "list", "str") for _ in range(self.r.randint(0, 2))]
            body, result = self.function(f"h{i}", arguments)
            lines += body
            self.helpers.append((f"h{i}", arguments, result))
        self.names = {}
        lines = [*PRELUDE.splitlines(), *lines, "def f():", *self.block(1, 2)]
        kinds = [self.pick("int", "float", "str", "list", "tuple", "bool", "dict") for _ in range(2)]
        lines.append(f"    return ({self.expr(kinds[0], 3)}, {self.expr(kinds[1], 3)}"
                     + "".join(f", {n}" for n in self.names) + ")")
        return "\n".join(lines) + "\n"


class Watch(ast.NodeTransformer):
    """Passes every value through `seen_`, which looks for integers beyond 64 bits."""

    def visit(self, node):
        node = self.generic_visit(node)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)):
            call = ast.Call(ast.Name("seen_", ast.Load()), [node], [])
            return ast.copy_location(call, node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            look = ast.Expr(ast.Call(ast.Name("seen_", ast.Load()), [value], []))
            return [ast.fix_missing_locations(ast.copy_location(look, node)), node]
        return node


def in_cpython(text):
    """(repr of f() or None when it raises, whether an integer beyond 64 bits was met)."""
    big = []

    def seen(value):
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            big.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                seen(item)
        return value

    def run(tree_or_text, scope):
        try:
            exec(compile(tree_or_text, "<program>", "exec"), scope)  # text that we wrote ourselves
            return repr(scope["f"]())
        except Exception:
            return None

    result = run(text, {})
    watched = ast.fix_missing_locations(Watch().visit(ast.parse(text)))
    run(watched, {"seen_": seen})
    return result, bool(big)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("evaluate")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for the programs that disagree")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of programs that cannot be right
    sys.modules["numpy"] = types.SimpleNamespace(**NUMPY)  # whose results are plain numbers
    texts = [Generator(options.seed * 1_000_003 + i).program() for i in range(options.count)]
    answers = subprocess.run([options.evaluate], input=SEPARATOR.join(texts), text=True,
                             stdout=subprocess.PIPE, check=True).stdout.split(SEPARATOR)
    if len(answers) != len(texts):
        sys.exit(f"{len(answers)} answers to {len(texts)} programs")
    equal = raised = big = 0
    wrong = []
    for text, answer in zip(texts, answers):
        want, met_big = in_cpython(text)
        value = answer[len("value "):] if answer.startswith("value ") else None
        agrees = value == (want and want[:MOST_SHOWN])
        equal += agrees and want is not None
        raised += agrees and want is None
        if met_big and (agrees or value is None):
            big += not agrees
        elif not agrees:
            wrong.append((text, want, answer))
    for text, want, answer in wrong[:5]:
        print(f"{text}CPython: {want if want is not None else 'raises'}\nKiln: {answer}\n")
    if options.keep:
        for i, (text, want, answer) in enumerate(wrong):
            kept = f"{text}# CPython: {want}\n# Kiln: {answer!r}\n"
            pathlib.Path(options.keep, f"{i}.py").write_text(kept, encoding="utf-8")
    print(f"programs {len(texts)} equal {equal} both_raise {raised} beyond_64_bits {big} "
          f"disagree {len(wrong)}")
    return 1 if wrong or big > MOST_BIG * len(texts) or equal < len(texts) / 2 else 0


if __name__ == "__main__":
    sys.exit(main())
