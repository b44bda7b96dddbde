import tilelang
import tilelang.language as T
@T.macro
def m(x, n):
    if x[0] == n:
        for i in range(x[1]):
            if x[2] == n:
                y = 1 + (2 + (3 + (x[i] + n)))
                m(x, n + 1)
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        m(a, 0)
