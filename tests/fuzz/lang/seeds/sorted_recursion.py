import tilelang
import tilelang.language as T
def f(v):
    return sorted([1, 2], key=lambda x: f(x)[0])
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        z = f(0)
