import tilelang
import tilelang.language as T
from torch import nn

TABLE = {}


def keep(name):
    def inner(f):
        TABLE[name] = f
        return f

    return inner


@keep("a")
def scale(x):
    return x * 2


class Op(nn.Module):
    sizes = [1]

    def __init__(self, n=8, f="a"):
        super().__init__()
        self.n, self.f = n, TABLE[f]
        self.w = nn.Linear(n)
        self.k = self.build()

    def build(self, more=1):
        @T.prim_func
        def main(A: T.Tensor((self.n,), "int32")):
            with T.Kernel(1, threads=32):
                A[0] = self.f(more) + len(Op.sizes)

        return tilelang.compile(main, out_idx=[0])


op = Op(4)
op.n = 6
Op.sizes.append(3)
other = op
other.sizes += [4]
