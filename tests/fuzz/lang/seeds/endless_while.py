import tilelang
import tilelang.language as T
def f():
    while True:
        pass
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        f()
