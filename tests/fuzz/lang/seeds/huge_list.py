import tilelang
import tilelang.language as T
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        z = [0] * 10 ** 12
