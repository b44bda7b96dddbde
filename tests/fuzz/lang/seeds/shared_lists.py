import tilelang
import tilelang.language as T
def f():
    l = [1]
    for i in range(60):
        l = [l, l]
    return l
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        z = f() == f()
