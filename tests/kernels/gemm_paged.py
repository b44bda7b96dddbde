"""A product whose tiles lie where a table says, by names: TMA fetches them."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "paged_product",
    "arguments": {"M": 128, "N": 128, "pages": 6, "steps": 5},
    "types": {"A": "float16", "B": "float16", "table": "int32", "C": "float32"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[-1])
def paged_product(M, N, pages, steps, page=64, num_stages=3):
    @T.prim_func
    def main(A: T.Tensor((M, steps * page), "float16"), B: T.Tensor((pages, page, N), "float16"),
             table: T.Tensor((steps,), "int32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
            a = T.alloc_shared((64, page), "float16")
            b = T.alloc_shared((page, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(steps, num_stages=num_stages):
                at = table[k]
                column = k * page
                T.copy(A[by * 64, column], a)
                T.copy(B[at, :, bx * 64:(bx + 1) * 64], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * 64, bx * 64])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((128, 320)), "B": rng.standard_normal((6, 64, 128)),
            "table": np.array([3, 0, 5, 5, 1])}


def reference(A, B, table):
    return {"C": sum(A[:, 64 * k:64 * k + 64] @ B[table[k]] for k in range(5))}
