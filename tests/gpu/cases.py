"""Kernels that are checked and timed on a GPU: shipped templates with arguments and configs.

A case is a dict: name, kind (what it computes, see kernels.py), template, arguments, config and what
kernels.py needs to make its inputs (M, N, K, dtype, ...)."""


def product(name, M, N, K, dtype="bfloat16", out="bfloat16", trans_A=False, trans_B=True,
            block=(128, 256, 64), stages=4, threads=256, panel=8, options=None):
    """C[M, N] = A B. `options`: pass options of the kernel, {"kiln.persistent": 0, ...}."""
    accum = "int32" if dtype == "int8" else "float32"
    arguments = {"M": M, "N": N, "K": K, "dtype": dtype, "out_dtype": out, "accum_dtype": accum,
                 "trans_A": trans_A, "trans_B": trans_B}
    config = {"block_M": block[0], "block_N": block[1], "block_K": block[2], "num_stages": stages,
              "threads": threads, "panel": panel}
    return {"name": name, "kind": "matmul", "template": "matmul", "arguments": arguments,
            "config": config, "options": options or {}, "M": M, "N": N, "K": K, "dtype": dtype,
            "out": out, "trans_A": trans_A, "trans_B": trans_B}


def rows(name, kind, M, N, dtype, **config):
    """A kernel over the rows of x[M, N]: softmax, rmsnorm, rowsum or swiglu."""
    template = {"rowsum": "reduction", "swiglu": "elementwise"}.get(kind, kind)
    return {"name": name, "kind": kind, "template": template,
            "arguments": {"M": M, "N": N, "dtype": dtype}, "config": config, "options": {},
            "M": M, "N": N, "dtype": dtype}


def checks():
    """Small and ragged shapes, every path of the compiler."""
    small = {"block": (128, 128, 64), "threads": 128}
    cases = [
        product("nt", 256, 256, 512, stages=3, **small),
        product("nn", 256, 256, 512, trans_B=False, **small),
        product("tn", 256, 256, 512, trans_A=True, trans_B=False, **small),
        product("tt", 256, 256, 512, trans_A=True, **small),
        product("two_groups", 256, 512, 512),
        product("two_groups_nn", 256, 512, 512, trans_B=False),
        product("tall", 512, 256, 512, block=(256, 128, 64)),
        product("three_groups", 384, 256, 512, block=(192, 128, 64), threads=384, stages=3),
        product("wide", 128, 512, 512, block=(64, 256, 64), threads=128),
        product("deep", 256, 256, 512, block=(128, 128, 128), threads=128, stages=2),
        product("shallow", 256, 256, 512, block=(128, 128, 32), threads=128),
        product("one_stage", 256, 256, 512, stages=1, **small),
        product("no_pipeline", 256, 256, 512, stages=0, **small),
        product("short", 256, 512, 64),
        product("float16", 256, 256, 512, "float16", "float16", **small),
        product("float16_float32", 256, 256, 512, "float16", "float32", **small),
        product("e4m3", 256, 256, 512, "float8_e4m3fn", block=(128, 128, 128), threads=128),
        product("e5m2", 256, 256, 512, "float8_e5m2", "float32", block=(128, 128, 128),
                threads=128),
        product("int8", 256, 256, 512, "int8", "int32", block=(128, 128, 128), threads=128),
        product("float32", 128, 96, 64, "float32", "float32", trans_B=False, block=(64, 32, 32),
                threads=128, stages=2),
        product("odd1000", 1000, 1000, 1000, panel=4),
        product("ragged", 3001, 4104, 4120),
        product("turns", 4096, 2560, 320),
        product("turns_odd", 131 * 128, 768, 192),
        product("turns_nn", 2560, 2560, 512, trans_B=False, **small),
        product("turns_tn", 2560, 2560, 512, trans_A=True, trans_B=False),
        product("turns_ragged", 3000, 4104, 4120),
    ]
    for persistent in (0, 1):
        for cluster in (1, 2):
            options = {"kiln.persistent": persistent, "kiln.cluster": cluster}
            cases.append(product(f"options_{persistent}{cluster}", 2560, 2560, 512,
                                 options=options))
    for dtype in ("float32", "bfloat16"):
        for kind in ("softmax", "rmsnorm", "rowsum", "swiglu"):
            cases.append(rows(f"{kind}_{dtype}", kind, 100, 1024, dtype))
    cases.append({"name": "gemv", "kind": "gemv", "template": "gemv",
                  "arguments": {"N": 512, "K": 2048}, "config": {}, "options": {}, "N": 512,
                  "K": 2048, "dtype": "float32"})
    return cases


SHAPES = {
    "sq8192": (8192, 8192, 8192), "sq4096": (4096, 4096, 4096), "sq2048": (2048, 2048, 2048),
    "sq1024": (1024, 1024, 1024), "l8b_qkv": (4096, 6144, 4096),
    "l8b_gateup": (4096, 28672, 4096), "l8b_down": (4096, 4096, 14336),
    "l70b_qkv": (8192, 10240, 8192), "ds_q_b": (4096, 24576, 1536), "ds_o": (4096, 7168, 16384),
    "ds_moe": (4096, 4096, 7168), "ragged": (3001, 4104, 4120), "odd1000": (1000, 1000, 1000),
}


def timed():
    """Large shapes, a few configs each: the best of them is what counts."""
    cases = []
    for shape, (M, N, K) in SHAPES.items():
        for persistent, cluster in ((0, 1), (1, 1), (1, 2)):
            options = {"kiln.persistent": persistent, "kiln.cluster": cluster}
            cases.append(product(f"{shape}/{persistent}{cluster}", M, N, K, options=options))
        small = (64, 128, 64) if shape == "odd1000" else (128, 128, 64)
        cases.append(product(f"{shape}/small", M, N, K, block=small, threads=128, stages=6,
                             options={"kiln.persistent": 0, "kiln.cluster": 1}))
    for dtype in ("bfloat16", "float32"):
        for threads in (128, 256, 512):
            width = 8 if dtype == "bfloat16" else 4
            for kind, config in (("softmax", {}), ("rmsnorm", {}),
                                 ("rowsum", {"block_M": 1, "block_N": threads * 32}),
                                 ("swiglu", {"block_N": threads * width})):
                cases.append(rows(f"{kind}8192_{dtype}/{threads}", kind, 8192, 8192, dtype,
                                  threads=threads, **config))
    return cases
