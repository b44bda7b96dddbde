import tilelang
import tilelang.language as T
import itertools
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        z = list(itertools.product(range(100), repeat=9))
