import collections, functools, logging, os
import tilelang
import tilelang.language as T

log = logging.getLogger(__name__)
jit = functools.partial(tilelang.jit, out_idx=[-1])
FAST = {"float16", *["bfloat16"]} | frozenset(["int8"]) - set()
D = collections.defaultdict(list, {"a": [1]})
D["b"].append(2)
D |= {"c": [3]}
del D["a"][0]


def steps[T1](n: T1, more=()):
    while (n := n - 1) > 0:
        if n % 3 == 0:
            return
        yield {"b": n}
    yield from more


def twice(f):
    @functools.wraps(f)
    def w(*a, **k):
        log.info("x")
        return f(*a, **k) * 2

    return w


@twice
def helper(x):
    return x + len(FAST) + sum(c["b"] for c in steps(3))


@tilelang.autotune(configs=list(steps(6)))
@jit
def k(N=64, b=int(os.environ.get("B", 4)), dt="float16"):
    assert dt in FAST and {1} < {1, 2}
    ys = [y for x in range(4) if (y := x * 2) > 2]

    @T.prim_func
    def main(A: T.Tensor((N,), dt), B: T.Tensor((N,), dt)):
        with T.Kernel(T.ceildiv(N, b), threads=32) as bx:
            for i in T.Parallel(b):
                B[bx * b + i] = A[bx * b + i] + helper(ys[0]) + D["c"][0]

    return tilelang.compile(main, out_idx=[1])
