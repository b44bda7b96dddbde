"""Rows in order by swaps of neighbours, odd and even in turn; keys with the places that they came from."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "sort_rows",
    "arguments": {"M": 6, "N": 20},
    "types": {"keys": "int32", "sorted_keys": "int32", "order": "int32"},
}


@tilelang.jit
def sort_rows(keys):
    M, N = T.const("M, N")
    keys: T.Tensor((M, N), T.int32)
    sorted_keys = T.empty((M, N), T.int32)
    order = T.empty((M, N), T.int32)

    with T.Kernel(M, threads=32) as m:
        key = T.alloc_shared((N,), T.int32)
        at = T.alloc_shared((N,), T.int32)
        T.copy(keys[m, :], key)
        for j in T.Parallel(N):
            at[j] = j
        for phase in T.serial(N):
            for p in T.Parallel(N // 2):
                a = 2 * p + phase % 2
                if a + 1 < N:
                    if key[a] > key[a + 1]:
                        key[a], key[a + 1] = key[a + 1], key[a]
                        at[a], at[a + 1] = at[a + 1], at[a]
        T.copy(key, sorted_keys[m, :])
        T.copy(at, order[m, :])
    return sorted_keys, order


def inputs(rng):
    return {"keys": np.stack([rng.permutation(1000)[:20] for _ in range(6)])}


def reference(keys):
    return {"sorted_keys": np.sort(keys, 1), "order": np.argsort(keys, 1)}
