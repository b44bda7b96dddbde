import collections
import dataclasses
import enum
import functools
import math
import operator
from typing import NamedTuple

import numpy as np
import tilelang.language as T


class Level(enum.IntEnum):
    A = 2
    B = enum.auto()
    C = 3


class Kind(str, enum.Enum):
    HALF = "float16"

    def __init__(self, text):
        self.twice = text * 2


class Pair(NamedTuple):
    left: int
    right: int = 5


Point = collections.namedtuple("Point", "x y", defaults=(Level.B,))


@dataclasses.dataclass(order=True)
class Tile:
    m: int
    n: int = 16
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.area = self.m * self.n

    def __str__(self):
        return "%d of %s" % (self.m, self.tags)


@dataclasses.dataclass(order=True, kw_only=True)
class Deep(Tile):
    inner: Tile = None


step = functools.partial(operator.add, Level.C)
step = functools.partial(functools.reduce, step)


@T.prim_func
def kernel(A: T.Tensor((64,), T.int32)):
    with T.Kernel(Level.A, threads=32) as bx:
        deep = Deep(m=2, inner=Tile(1))
        if max(deep, dataclasses.replace(deep, n=3)).n in Level and hasattr(deep, "inner"):
            A[bx] = getattr(deep.inner, "area", 1) + Pair(bx)._replace(right=4).left
        text = "{0.x:>{w}}|{1!r:^9}|{k[0]}".format(Point(1), Kind.HALF, w=5, k=[np.ceil(2.5)])
        A[len(text) + Level["B"]] = math.comb(5, 2) + step([1, 2]) if False else Level(3)
        A[0] = T.cast(T.region(A[0], "r", 1).buffer[bx], "int32", round="rz")
