import tilelang
import tilelang.language as T
def f(x):
    for i in range(990):
        x = x + i * x if False else x * 2 + a2
    return x
a2 = 3
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        a[0] = f(a[1])
