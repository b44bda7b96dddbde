import tilelang
import tilelang.language as T
def f(x):
    for i in range(60):
        x = x + x
    return x
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        a[0] = f(a[1])
