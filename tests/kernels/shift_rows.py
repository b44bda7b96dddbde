"""A window over time: rows move up by one and the columns of a ring by three, within their own memory, and a new row
comes in below. The source of each copy overlaps its destination."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "shift_rows",
    "arguments": {},
    "types": {"window": "float16", "ring": "int32", "new": "float16"},
}


@T.prim_func
def shift_rows(window: T.Tensor((20, 100), "float16"), ring: T.Tensor((100,), "int32"),
               new: T.Tensor((100,), "float16")):
    with T.Kernel(1, threads=128):
        held = T.alloc_shared((8, 100), "int32")
        T.copy(window[1:20, 0:100], window[0:19, 0:100])
        T.copy(new, window[19, 0:100])
        for i, j in T.Parallel(8, 100):
            held[i, j] = ring[j] * (i + 1)
        T.copy(held[0:7, 0:97], held[1:8, 3:100])
        for j in T.Parallel(100):
            ring[j] = held[7, j] + held[0, j]


def inputs(rng):
    return {"window": rng.standard_normal((20, 100)), "ring": rng.integers(-9, 9, 100),
            "new": rng.standard_normal(100)}


def reference(window, ring, new):
    held = np.arange(1, 9)[:, None] * ring[None, :]
    moved = held.copy()
    moved[1:8, 3:100] = held[0:7, 0:97]
    return {"window": np.concatenate([window[1:], new[None, :]]), "ring": moved[7] + moved[0]}
