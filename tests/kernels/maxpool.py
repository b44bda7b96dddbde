"""The largest of each window and where it was: three parallel axes, loops over the window, values and places
together."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "maxpool",
    "arguments": {"N": 2, "C": 3, "H": 11, "W": 9, "window": 3, "stride": 2},
    "types": {"x": "float32", "y": "float32", "at": "int32"},
}


@tilelang.jit(out_idx=[1, 2])
def maxpool(N, C, H, W, window, stride):
    OH, OW = (H - window) // stride + 1, (W - window) // stride + 1

    @T.prim_func
    def main(x: T.Tensor((N, C, H, W), "float32"), y: T.Tensor((N, C, OH, OW), "float32"),
             at: T.Tensor((N, C, OH, OW), "int32")):
        with T.Kernel(N, threads=64) as n:
            best = T.alloc_fragment((C, OH, OW), "float32")
            place = T.alloc_fragment((C, OH, OW), "int32")
            T.fill(best, -T.infinity("float32"))
            T.clear(place)
            for r in T.serial(window):
                for s in T.serial(window):
                    for c, i, j in T.Parallel(C, OH, OW):
                        value = x[n, c, i * stride + r, j * stride + s]
                        if value > best[c, i, j]:
                            best[c, i, j] = value
                            place[c, i, j] = (i * stride + r) * W + j * stride + s
            T.copy(best, y[n, :, :, :])
            T.copy(place, at[n, :, :, :])

    return main


def inputs(rng):
    return {"x": rng.permutation(2 * 3 * 11 * 9).reshape(2, 3, 11, 9)}


def reference(x):
    y, at = np.zeros((2, 3, 5, 4)), np.zeros((2, 3, 5, 4), np.int64)
    for i in range(5):
        for j in range(4):
            part = x[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3].reshape(2, 3, 9)
            k = part.argmax(-1)
            y[:, :, i, j], at[:, :, i, j] = part.max(-1), (2 * i + k // 3) * 9 + 2 * j + k % 3
    return {"y": y, "at": at}
