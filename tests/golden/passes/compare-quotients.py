"""Quotients and remainders of two values are comparisons; of more, or by powers of two, they stay. So do
remainders of remainders, and of what int32 has no multiple below."""
#: gpu=sm_90a
import tilelang.language as T


@T.prim_func
def quotients(A: T.Tensor((11, 192), "int32"), n: T.int32):
    with T.Kernel(66, threads=192) as bx:
        for turn in T.serial((57 - bx) // 66 + 4):
            for t in T.Parallel(192):
                A[0, t] = t // 96 + turn
                A[1, t] = t % 96
                A[2, t] = (t - 50) % 150
                A[3, t] = t // 65
                A[4, t] = t % 65
                A[5, t] = t // 128
                A[6, t] = (t + bx) // 96
                A[7, t] = (t + n) // 96
                A[8, t] = (T.min(n, t) + 191) // 96
                A[9, t] = ((t + 5) % 97 + t) % 180
                A[10, t] = (T.max(T.min(n, -1400000000), -2147483647) + t) % 1500000000
