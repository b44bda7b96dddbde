import tilelang
import tilelang.language as T
def f(x):
    for i in range(980):
        x = x + 1.5
    return x
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        a[0] = T.cast(f(T.cast(a[1], 'float32')), 'int32')
