"""y = 2 x + 1, and what can go wrong with a kernel, one fault a config."""
import tilelang
import tilelang.language as T

BLOCK = 1024


@tilelang.jit(out_idx=[1],
              pass_configs={tilelang.PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: True})
def faulty(blocks, fault=0, threads=128):
    size = blocks * BLOCK

    @T.prim_func
    def main(x: T.Tensor([size], "float32"), y: T.Tensor([size], "float32")):
        with T.Kernel(blocks, threads=threads) as bx:
            if fault == 1:  # traps
                T.device_assert(x[bx * BLOCK] > 100.0, "no x is so large")
            if fault == 2:  # never ends
                while x[bx * BLOCK] < 100.0:
                    y[bx * BLOCK] = x[bx * BLOCK + 1]
            for i in T.Parallel(BLOCK):
                y[bx * BLOCK + i] = x[bx * BLOCK + i] * 2.0 + 1.0
            if fault == 3:  # writes just behind its output
                for i in T.Parallel(BLOCK):
                    y[bx * BLOCK + i + 8] = x[(bx * BLOCK + i + 8) % size] * 2.0 + 1.0
            if fault == 4:  # writes where nothing is
                for i in T.Parallel(BLOCK):
                    y[bx * BLOCK + i + 1099511627776] = 1.0
            if fault == 5:  # one wrong tile
                if bx == blocks // 2:
                    for i in T.Parallel(BLOCK):
                        y[bx * BLOCK + i] = x[bx * BLOCK + i] * 2.0
            if fault == 6:  # one NaN
                if bx == blocks // 3:
                    y[bx * BLOCK + 17] = T.log(-T.abs(x[bx * BLOCK]) - 1.0)

    return main
