import tilelang
import tilelang.language as T
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        z = (-9223372036854775807 - 1) // -1
        a[0] = T.min_value('int64')
