import tilelang.language as T
@T.prim_func
def main(x: T.Tensor((64,), T.int32), n: T.int32):
    with T.Kernel(4, threads=128) as bx:
        s = T.alloc_shared((8,), "int32")
        tx = T.get_thread_binding(0)
        if tx < 8 and not tx == 3:
            s[tx] = n
        with T.ws(0):
            for i in T.serial(9):
                if i != 8 and 2 * i - 3 < 20 or n > 4:
                    s[i] = 0
                else:
                    T.atomic_add(s[7 - i], 1)
        w = T.alloc_var("int32", init=s[3])
        while s[1] > w:
            w = w + 1
