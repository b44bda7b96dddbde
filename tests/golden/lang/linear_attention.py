#: B=1 S=256 H=2 D=64
#: B=1 S=256 H=2 D=64 chunk=32
import tilelang as tl
import tilelang.language as T
from tilelang.math import next_power_of_2


@tl.jit(out_idx=[3, 4])
def linear_attention(B, S, H, D, chunk=64):
    block_D = min(64, next_power_of_2(D))
    tiles = tl.cdiv(D, block_D)
    steps = S // chunk

    @T.prim_func
    def main(Q: T.Tensor([B, S, H, D], T.bfloat16), K: T.Tensor([B, S, H, D], T.bfloat16),
             V: T.Tensor([B, S, H, D], T.bfloat16), O: T.Tensor([B, S, H, D], T.float32),
             state: T.Tensor([B, H, D, D], T.float32)):
        with T.Kernel(tiles, tiles, B * H) as (iv, ik, bh):
            b, h = bh // H, bh % H
            q = T.alloc_shared([chunk, block_D], T.bfloat16)
            k = T.alloc_shared([chunk, block_D], T.bfloat16)
            v = T.alloc_shared([chunk, block_D], T.bfloat16)
            s = T.alloc_fragment([chunk, chunk], T.float32)
            s_shared = T.alloc_shared([chunk, chunk], T.bfloat16)
            hidden = T.alloc_fragment([block_D, block_D], T.float32)
            hidden_shared = T.alloc_shared([block_D, block_D], T.bfloat16)
            o = T.alloc_fragment([chunk, block_D], T.float32)
            T.use_swizzle(8)
            T.clear(hidden)
            for t in T.Pipelined(0, steps, num_stages=1):
                for r, d in T.Parallel(chunk, block_D):
                    q[r, d] = Q[b, t * chunk + r, h, ik * block_D + d] * D ** -0.5
                T.copy(K[b, t * chunk:(t + 1) * chunk, h, ik * block_D:(ik + 1) * block_D], k)
                T.copy(V[b, t * chunk:(t + 1) * chunk, h, iv * block_D:(iv + 1) * block_D], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for i, j in T.Parallel(chunk, chunk):
                    s_shared[i, j] = T.if_then_else(i >= j, s[i, j], 0)
                T.gemm(s_shared, v, o, clear_accum=True)
                T.copy(hidden, hidden_shared)
                T.gemm(k, v, hidden, transpose_A=True)
                T.gemm(q, hidden_shared, o)
                for i, d in T.Parallel(chunk, block_D):
                    T.atomic_add(O[b, t * chunk + i, h, iv * block_D + d], o[i, d])
            T.copy(hidden, state[b, h, ik * block_D:(ik + 1) * block_D, iv * block_D:(iv + 1) * block_D])

    return main
