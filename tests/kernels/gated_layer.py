"""A gated unit as a layer of a model keeps it: the kernel is built by a method, from what __init__ keeps,
and the file's settings are changed, registered and logged on the way."""
import functools
import logging

import tilelang
import tilelang.language as T
import torch
from torch import nn

logger = logging.getLogger(__name__)

KERNEL = {
    "entry": "GatedUnit.build",
    "arguments": {"rows": 37, "columns": 128, "gate": "silu"},
    "types": {"x": "float16", "y": "float16"},
    "tolerance": 2e-3,
}

ACTIVATIONS = {}
FAST = {"float16", "bfloat16"}
compiled = functools.partial(tilelang.compile, pass_configs={"tl.enable_fast_math": True})


class Settings:
    rows = 4
    threads = 64


settings = Settings()
settings.rows = 8


def register(name):
    def keep(function):
        ACTIVATIONS[name] = function
        return function

    return keep


@register("silu")
def silu(x):
    return x / (1.0 + T.exp(-x))


@register("relu")
def relu(x):
    return T.max(x, 0.0)


def tiles(columns):
    width = 16
    while (width := width * 2) <= columns:
        if columns % width == 0:
            yield width


class GatedUnit(nn.Module):
    def __init__(self, rows, columns, gate="relu", dtype="float16"):
        super().__init__()
        self.rows, self.columns, self.dtype = rows, columns, dtype
        self.gate = ACTIVATIONS[gate]
        self.weight = nn.Parameter(torch.empty(columns))
        self.kernel = self.build()

    def build(self, block=settings.rows):
        rows, columns = self.rows, self.columns
        half = columns // 2
        tile = max(tiles(half))
        if self.dtype not in FAST:
            logger.warning("%s is slow", self.dtype)

        @T.prim_func
        def main(x: T.Tensor((rows, columns), self.dtype), y: T.Tensor((rows, half), self.dtype)):
            with T.Kernel(T.ceildiv(rows, block), half // tile, threads=settings.threads) as (bx, by):
                for i, j in T.Parallel(block, tile):
                    left = T.cast(x[bx * block + i, by * tile + j], "float32")
                    right = T.cast(x[bx * block + i, half + by * tile + j], "float32")
                    y[bx * block + i, by * tile + j] = self.gate(left) * right

        return compiled(main, out_idx=[-1])

    def forward(self, x):
        return self.kernel(x)


def inputs(rng):
    return {"x": rng.standard_normal((37, 128))}


def reference(x):
    left, right = x[:, :64], x[:, 64:]
    return {"y": left / (1 + np.exp(-left)) * right}
