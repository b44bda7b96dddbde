"""Loops that end when memory says so: pages until a zero, items that are passed over, a limit reached inside; a pipelined
loop under a condition inside of a plain one."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "paths",
    "arguments": {"items": 6, "limit": 40, "dim": 32},
    "types": {"next_item": "int32", "size": "int32", "skip": "int32", "data": "float16", "W": "float16",
              "out": "float32", "steps": "int32"},
    "tolerance": {"out": 1e-4, "steps": 0},
}


@tilelang.jit(out_idx=[-2, -1])
def paths(items, limit, dim, block=16):
    @T.prim_func
    def main(next_item: T.Tensor((items,), "int32"), size: T.Tensor((items,), "int32"),
             skip: T.Tensor((items,), "int32"), data: T.Tensor((items, 2 * block, dim), "float16"),
             W: T.Tensor((dim, dim), "float16"), out: T.Tensor((items, block, dim), "float32"),
             steps: T.Tensor((items,), "int32")):
        with T.Kernel(items, threads=64) as start:
            tile = T.alloc_shared((block, dim), "float16")
            weight = T.alloc_shared((dim, dim), "float16")
            acc = T.alloc_fragment((block, dim), "float32")
            at = T.alloc_var("int32")
            seen = T.alloc_var("int32")
            count = T.alloc_var("int32")
            T.copy(W, weight)
            T.clear(acc)
            at = start
            seen = 0
            count = 0
            while at >= 0:
                seen += size[at]
                if seen > limit:
                    break
                if skip[at] != 0:
                    at = next_item[at]
                    continue
                if size[at] > 0:
                    for half in T.Pipelined(2, num_stages=2):
                        T.copy(data[at, half * block:(half + 1) * block, :], tile)
                        T.gemm(tile, weight, acc)
                count += 1
                at = next_item[at]
            T.copy(acc, out[start, :, :])
            steps[start] = count

    return main


def inputs(rng):
    return {"next_item": np.array([2, 0, 4, -1, 3, 1]), "size": np.array([10, 20, 5, 15, 0, 30]),
            "skip": np.array([0, 0, 1, 0, 0, 0]), "data": rng.standard_normal((6, 32, 32)),
            "W": rng.standard_normal((32, 32))}


def reference(next_item, size, skip, data, W):
    out, steps = np.zeros((6, 16, 32)), np.zeros(6, np.int64)
    for start in range(6):
        at, seen = start, 0
        while at >= 0:
            seen += size[at]
            if seen > 40:
                break
            if not skip[at]:
                if size[at] > 0:
                    out[start] += data[at, :16] @ W + data[at, 16:] @ W
                steps[start] += 1
            at = next_item[at]
    return {"out": out, "steps": steps}
