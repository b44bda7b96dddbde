# A fragment planned by one loop, read sparsely by the next: threads 0, 16, 32 and 48 hold column 0.
import tilelang
import tilelang.language as T


@tilelang.jit
def plan_then_buffer_layout():
    @T.prim_func
    def main(A: T.Tensor((4, 16), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=64):
            fragment = T.alloc_fragment((4, 16), T.float32)

            for row, col in T.Parallel(4, 16):
                fragment[row, col] = A[row, col]

            for group, row_in_group in T.Parallel(2, 2):
                row = group * 2 + row_in_group
                B[row] = fragment[row, 0]

    return main
