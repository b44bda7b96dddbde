from dataclasses import InitVar, dataclass
from enum import Enum, Flag, IntFlag, auto

import tilelang.language as T


class Part(Flag):
    NONE = 0
    A = auto()
    B = auto()
    AB = A | B


class Bits(IntFlag):
    R = 4
    W = 2


Made = Enum("Made", "ONE TWO", start=3)


class Vector:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return Vector(self.x + other.x) if isinstance(other, Vector) else NotImplemented

    def __rmul__(self, other):
        return Vector(other * self.x)

    def __eq__(self, other):
        return self.x == (other.x if isinstance(other, Vector) else other)

    def __iadd__(self, other):
        self.x += other
        return self

    def __contains__(self, x):
        return self.x == x


@dataclass
class Scaled:
    m: int
    by: InitVar[int] = 3

    def __post_init__(self, by):
        self.area = self.m * by


def updated(v):
    v += 2
    return v.x


@T.prim_func
def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            z = 2 * (Vector(A[i]) + Vector(i))
            A[i] = z.x + (Bits.R | 8) + (~Part.A).value + Made.TWO.value + Scaled(2, 5).area
            if z == Vector(3) or n & Bits.W:
                A[i] = updated(Vector(4)) if Part.A in Part.AB and 4 in Vector(4) else len(~Part.B)
        for i in T.Parallel(1 << 20):
            if i < 32:
                A[i % 64] = A[i + 32]
