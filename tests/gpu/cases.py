"""Kernels that are checked and timed on a GPU: shipped templates with arguments and configs.

A case is a dict: name, kind (what it computes, see kernels.py), template, arguments, config and what
kernels.py needs to make its inputs (M, N, K, dtype, ...); "sizes": what each call chooses."""


def product(name, M, N, K, dtype="bfloat16", out="bfloat16", trans_A=False, trans_B=True,
            block=(128, 256, 64), stages=4, threads=256, panel=8, options=None, accum=None):
    """C[M, N] = A B. `options`: pass options of the kernel, {"kiln.persistent": 0, ...}."""
    accum = accum or ("int32" if dtype in ("int8", "uint8") else "float32")
    arguments = {"M": M, "N": N, "K": K, "dtype": dtype, "out_dtype": out, "accum_dtype": accum,
                 "trans_A": trans_A, "trans_B": trans_B}
    config = {"block_M": block[0], "block_N": block[1], "block_K": block[2], "num_stages": stages,
              "threads": threads, "panel": panel}
    return {"name": name, "kind": "matmul", "template": "matmul", "arguments": arguments,
            "config": config, "options": options or {}, "M": M, "N": N, "K": K, "dtype": dtype,
            "out": out, "trans_A": trans_A, "trans_B": trans_B}


def tf32(name, M, N, K, options=None, block=(128, 128, 32), threads=128, stages=3, **product_of):
    """C[M, N] = A B of float32, whose operands may be rounded to tf32."""
    return product(name, M, N, K, "float32", "float32", block=block, threads=threads, stages=stages,
                   options={"kiln.tf32": 1, **(options or {})}, **product_of)


def one_row(name, N, K, dtype="bfloat16", **config):
    """C[1, N] = A B^T of one row of A."""
    return {"name": name, "kind": "matmul", "template": "gemv", "symbol": "kiln_gemv",
            "arguments": {"N": N, "K": K, "dtype": dtype, "out_dtype": dtype}, "config": config,
            "options": {}, "M": 1, "N": N, "K": K, "dtype": dtype, "out": dtype}


def rows(name, kind, M, N, dtype, **config):
    """A kernel over the rows of x[M, N]: softmax, rmsnorm, rowsum or swiglu."""
    template = {"rowsum": "reduction", "swiglu": "elementwise"}.get(kind, kind)
    return {"name": name, "kind": {"rowsum": "reduce_rows"}.get(kind, kind), "template": template,
            "arguments": {"M": M, "N": N, "dtype": dtype}, "config": config, "options": {},
            "M": M, "N": N, "dtype": dtype}


def attention(name, batch, heads, seq_q, seq_kv, dim, causal, kv_heads=None, dtype="float16",
              block=(128, 128), stages=2, threads=256):
    """Attention forward of q[batch, seq_q, heads, dim] to k, v[batch, seq_kv, kv_heads, dim]."""
    arguments = {"batch": batch, "heads": heads, "kv_heads": kv_heads or heads, "seq_q": seq_q,
                 "seq_kv": seq_kv, "dim": dim, "is_causal": causal, "dtype": dtype}
    config = {"block_M": block[0], "block_N": block[1], "num_stages": stages, "threads": threads}
    return {"name": name, "kind": "attention", "template": "attention", "arguments": arguments,
            "config": config, "options": {}, **arguments}


def other(name, template, arguments, config=None, kind=None, **case):
    """Any other template; `kind` is the name of its function."""
    return {"name": name, "kind": kind or template, "template": template,
            "arguments": {k: f"'{v}'" if k in ("activation", "op") else v
                          for k, v in arguments.items()},
            "config": config or {}, "options": {}, "dtype": "float16", **arguments, **case}


def few(name, M, N, K, block=(16, 64, 128), stages=4, rotate=False, **case):
    """C[M, N] = A B^T for few rows of A."""
    return other(name, "matmul_decode", {"M": M, "N": N, "K": K, "dtype": "bfloat16"},
                 {"block_M": block[0], "block_N": block[1], "block_K": block[2],
                  "num_stages": stages, "rotate": rotate}, out="bfloat16", **case)


def streamk(name, M, N, K, dtype="bfloat16", out="bfloat16", trans_A=False, trans_B=True, few=False,
            blocks=132, block=(128, 128, 64), stages=4, threads=256, panel=0, options=None):
    """C[M, N] = A B, whose steps `blocks` blocks share evenly; `few`: rows of B fill the tiles."""
    accum = "int32" if dtype == "int8" else "float32"
    return {"name": name, "kind": "matmul_streamk", "template": "matmul_streamk",
            "arguments": {"M": M, "N": N, "K": K, "dtype": dtype, "out_dtype": out,
                          "accum_dtype": accum, "trans_A": trans_A, "trans_B": trans_B,
                          "few": few},
            "config": {"block_M": block[0], "block_N": block[1], "block_K": block[2],
                       "num_stages": stages, "threads": threads, "panel": panel,
                       "blocks": blocks},
            "options": options or {}, "M": M, "N": N, "K": K, "dtype": dtype, "out": out,
            "trans_A": trans_A, "trans_B": trans_B}


def chosen(case, **dimensions):
    """The case with some of its sizes chosen by the call: argument=dimension."""
    sizes = {d: case["arguments"][name] for name, d in dimensions.items()}
    left = {name: f'T.dynamic("{d}")' for name, d in dimensions.items()}
    return {**case, "name": f"chosen_{case['name']}_{'_'.join(sizes)}",
            "sizes": list(sizes.values()), "arguments": {**case["arguments"], **left}}


def left_open():
    """Sizes that a call chooses: strides, tensor maps, grids and steps that no one knew before."""
    small = {"block": (128, 128, 64), "threads": 128}
    causal = attention("causal", 1, 4, 333, 333, 64, True, kv_heads=2)
    plain = attention("attention", 2, 2, 200, 333, 128, False)
    decode = other("decode", "attention_decode",
                   {"batch": 3, "heads": 16, "kv_heads": 2, "length": 1000, "dim": 128})
    convolution = other("conv", "conv2d",
                        {"N": 3, "H": 13, "W": 17, "C": 64, "F": 96, "R": 3, "S": 5, "stride": 2,
                         "pad": 2, "dilation": 2})
    dequant = other("dequant", "matmul_dequant",
                    {"M": 100, "N": 264, "K": 512, "bits": 4, "group": 128})
    return [
        chosen(product("nt", 1000, 264, 520, **small), M="M"),
        chosen(product("nt", 1000, 264, 520, **small), N="N"),
        chosen(product("nt", 1000, 264, 520, **small), K="K"),
        chosen(product("nn", 1000, 264, 520, trans_B=False, **small), M="M", N="N", K="K"),
        chosen(product("turns", 4096, 2560, 320), M="M"),
        chosen(streamk("streamk", 304, 264, 2000), M="M"),
        chosen(few("few", 3, 264, 2000), M="M"),
        chosen(dequant, M="M"), chosen(dequant, K="K"), chosen(convolution, N="N"),
        chosen(convolution, H="H", W="W"), chosen(causal, seq_q="S", seq_kv="S"),
        chosen(plain, batch="batch"), chosen(plain, seq_q="q", seq_kv="k"),
        chosen(decode, length="length"),
        chosen(rows("softmax", "softmax", 100, 1024, "bfloat16"), M="M"),
        chosen(rows("rowsum", "rowsum", 100, 1000, "float32"), M="M", N="N"),
        chosen(other("transpose", "transpose", {"M": 300, "N": 1000, "dtype": "bfloat16"}),
               M="M", N="N"),
    ]


def shared():
    """Products whose steps blocks share: parts of tiles at both ends, whole tiles, none."""
    cases = []
    for name, trans_A, trans_B in (("nt", False, True), ("nn", False, False), ("tn", True, False),
                                   ("tt", True, True)):
        cases.append(streamk(f"streamk_{name}", 304, 264, 2000, trans_A=trans_A, trans_B=trans_B))
    cases += [
        streamk("streamk_ragged", 3001, 4104, 520, block=(128, 256, 64), panel=8),
        streamk("streamk_whole", 1536, 1408, 512),
        streamk("streamk_two_parts", 256, 256, 4096, block=(128, 256, 64)),
        streamk("streamk_steps", 128, 256, 512),
        streamk("streamk_one_group", 304, 264, 2000, threads=128, block=(128, 96, 64)),
        streamk("streamk_many", 304, 264, 2000, blocks=300, block=(64, 64, 64), threads=128),
        streamk("streamk_odd_rows", 100, 100, 1004),
        streamk("streamk_float16", 304, 264, 2000, "float16", "float32"),
        streamk("streamk_e4m3", 304, 264, 2000, "float8_e4m3fn", block=(128, 128, 128)),
        streamk("streamk_int8", 304, 264, 2000, "int8", "int32", block=(128, 128, 128), stages=3),
        streamk("streamk_float32", 100, 96, 200, "float32", "float32", trans_B=False, blocks=20,
                block=(64, 32, 32), threads=128, stages=2),
        streamk("streamk_tf32", 304, 264, 2000, "float32", "float32", block=(128, 128, 32),
                options={"kiln.tf32": 1}),
        streamk("streamk_mma", 304, 264, 2000, stages=3, options={"kiln.instructions": 80}),
        streamk("streamk_few", 3, 264, 2000, few=True, block=(16, 64, 128), threads=128),
        streamk("streamk_few_turns", 16, 20000, 520, few=True, block=(16, 64, 128), threads=128),
        streamk("streamk_few_more", 70, 264, 2000, few=True, block=(64, 128, 128), stages=2),
    ]
    return cases


def epilogues():
    """What follows products whose sums blocks share; operands in every order."""
    cases = []
    problem = {"M": 100, "N": 264, "K": 2000, "with_bias": True, "scale": 0.5, "dtype": "bfloat16"}
    for activation, name, trans_A, trans_B in (
            ("none", "nt", False, True), ("relu", "nn", False, False), ("silu", "tn", True, False),
            ("gelu", "tt", True, True)):
        follows = {**problem, "activation": activation, "trans_A": trans_A, "trans_B": trans_B}
        for way, template, more, config in (
                ("splitk", "matmul_splitk", {}, {}),
                ("streamk", "matmul_streamk", {}, {"blocks": 33}),
                ("streamk_few", "matmul_streamk", {"few": True}, {"blocks": 33, "block_M": 16})):
            cases.append(other(f"{way}_{activation}_{name}", template, {**follows, **more}, config,
                               kind="linear", symbol=f"kiln_{template}", batch=1))
    cases.append(other("splitk_int8", "matmul_splitk",
                       {**problem, "scale": 0.01, "activation": "relu", "dtype": "int8",
                        "accum_dtype": "int32", "out_dtype": "bfloat16"},
                       kind="linear", symbol="kiln_matmul_splitk", batch=1))
    return cases


def others():
    """Every template that has no function of its own here, in ragged shapes."""
    cases = []
    for activation in ("none", "relu", "silu", "gelu"):
        cases.append(other(f"linear_{activation}", "linear",
                           {"M": 200, "N": 264, "K": 136, "batch": 2, "activation": activation,
                            "scale": 0.5, "dtype": "bfloat16"}))
    for name, trans_A, trans_B in (("nn", False, False), ("tn", True, False), ("tt", True, True)):
        cases.append(other(f"linear_{name}", "linear",
                           {"M": 200, "N": 264, "K": 136, "batch": 2, "activation": "gelu",
                            "scale": 0.5, "dtype": "bfloat16", "trans_A": trans_A,
                            "trans_B": trans_B}))
    cases.append(other("linear_int8", "linear",
                       {"M": 200, "N": 264, "K": 144, "batch": 2, "activation": "relu",
                        "scale": 0.01, "dtype": "int8", "out_dtype": "bfloat16",
                        "accum_dtype": "int32"}))
    cases.append(other("splitk", "matmul_splitk",
                       {"M": 100, "N": 264, "K": 2000, "dtype": "bfloat16"}, {"split": 4},
                                              out="bfloat16"))
    cases.append(few("few", 3, 264, 2000))
    cases.append(few("few_rotated", 3, 264, 2000, rotate=True))
    cases.append(one_row("row", 264, 2000))
    cases.append(few("few_more", 70, 264, 2000, block=(64, 128, 128), stages=2))
    cases.append(other("promoted", "matmul_promoted",
                       {"M": 100, "N": 264, "K": 2000, "dtype": "float8_e4m3fn",
                        "out_dtype": "bfloat16"}, out="bfloat16"))
    for bits in (4, 8):
        cases.append(other(f"dequant_{bits}", "matmul_dequant",
                           {"M": 100, "N": 264, "K": 512, "bits": bits, "group": 128}))
    for codes in ("float8_e4m3fn", "float8_e5m2"):
        cases.append(other(f"dequant_{codes}", "matmul_dequant",
                           {"M": 100, "N": 264, "K": 512, "bits": 8, "group": 128,
                            "codes": codes}))
    for R, S, stride, pad, dilation in ((3, 3, 1, 1, 1), (1, 1, 1, 0, 1), (3, 5, 2, 2, 2)):
        cases.append(other(f"conv_{R}x{S}_{stride}{pad}{dilation}", "conv2d",
                           {"N": 3, "H": 13, "W": 17, "C": 64, "F": 96, "R": R, "S": S,
                            "stride": stride, "pad": pad, "dilation": dilation}))
    image = {"N": 3, "H": 13, "W": 17, "F": 96, "R": 3, "S": 3, "stride": 1, "pad": 1, "dilation": 1}
    cases.append(other("conv_groups", "conv2d", {**image, "C": 64, "groups": 2}))
    cases.append(other("conv_sides", "conv2d", {**image, "C": 64, "stride": (2, 1), "pad": (0, 2),
                                                "dilation": (1, 2)}))
    cases.append(other("conv_few_channels", "conv2d", {**image, "C": 3, "stride": 2}))
    cases.append(other("conv_int8", "conv2d",
                       {**image, "C": 64, "dtype": "int8", "out_dtype": "int32",
                        "accum_dtype": "int32"}))
    for causal in (False, True):
        cases.append(other(f"attention_lengths{'_causal' * causal}", "attention_ragged",
                           {"batch": 3, "heads": 4, "kv_heads": 2, "seq_q": 333, "seq_kv": 500,
                            "dim": 128, "is_causal": causal}))
    cases.append(other("decode_ragged", "attention_decode_ragged",
                       {"batch": 3, "heads": 16, "kv_heads": 2, "length": 1000, "dim": 128}))
    cases.append(other("decode", "attention_decode",
                       {"batch": 3, "heads": 16, "kv_heads": 2, "length": 1000, "dim": 128}))
    for length, config in ((1000, {"split": 16, "block_N": 128}), (256, {})):
        cases.append(other(f"decode_empty_parts_{length}", "attention_decode",
                           {"batch": 3, "heads": 16, "kv_heads": 2, "length": length, "dim": 128},
                           config))
    cases.append(other("decode_64", "attention_decode",
                       {"batch": 1, "heads": 8, "kv_heads": 8, "length": 4096, "dim": 64}))
    cases.append(other("functions", "functions", {"M": 64, "N": 1000}, dtype="float32",
                       source="tests/gpu/functions_kernel.py"))
    for dtype in ("float32", "bfloat16"):
        for template in ("transpose", "layernorm", "broadcast"):
            cases.append(other(f"{template}_{dtype}", template,
                               {"M": 300, "N": 1000, "dtype": dtype}))
        cases.append(other(f"colsum_{dtype}", "reduction_columns",
                           {"M": 300, "N": 1000, "dtype": dtype}, kind="reduce_columns"))
        cases.append(other(f"total_{dtype}", "reduction_all", {"N": 100000, "dtype": dtype},
                           kind="reduce_all"))
    for op in ("mean", "max", "min", "abssum", "absmax"):
        both = {"M": 300, "N": 1000, "op": op}
        cases.append(other(f"rows_{op}", "reduction", {**both, "dtype": "bfloat16"},
                           kind="reduce_rows"))
        cases.append(other(f"columns_{op}", "reduction_columns", {**both, "dtype": "float32"},
                           kind="reduce_columns"))
        cases.append(other(f"all_{op}", "reduction_all",
                           {"N": 100000, "op": op, "dtype": "bfloat16"}, kind="reduce_all"))
    return cases


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
        product("uint8", 256, 256, 512, "uint8", "int32", block=(128, 128, 128), threads=128),
        {**product("half_sums", 256, 256, 512, "float16", "float16", accum="float16", **small),
         "bound": 1e-2},
        {**product("half_sums_mma", 256, 256, 512, "float16", "float16", accum="float16",
                   options={"kiln.instructions": 80}, **small), "bound": 1e-2},
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
    for cluster in (1, 2):
        cases.append(product(f"pingpong_{cluster}", 3001, 2560, 512, block=(64, 128, 64),
                             threads=128, options={"kiln.pingpong": 1, "kiln.cluster": cluster}))
    ampere = {"kiln.instructions": 80}
    cases += [
        product("mma", 256, 256, 512, stages=3, options=ampere, **small),
        product("mma_32", 256, 256, 512, stages=3, block=(128, 128, 32), threads=128,
                options=ampere),
        product("mma_nn", 256, 256, 512, trans_B=False, options=ampere, **small),
        product("mma_tn", 256, 256, 512, trans_A=True, trans_B=False, options=ampere, **small),
        product("mma_float16", 256, 256, 512, "float16", "float32", options=ampere, **small),
        product("mma_int8", 256, 256, 512, "int8", "int32", block=(128, 128, 64), threads=128,
                options=ampere),
        product("mma_e4m3", 256, 256, 512, "float8_e4m3fn", block=(128, 128, 64), threads=128,
                options={"kiln.instructions": 89}),
        product("mma_ragged", 1000, 1000, 1000, options=ampere, **small),
    ]
    for name, trans_A, trans_B in (("nt", False, True), ("nn", False, False), ("tn", True, False),
                                   ("tt", True, True)):
        cases += [
            product(f"int8_turned_{name}", 256, 256, 512, "int8", "int32", trans_A=trans_A,
                    trans_B=trans_B, block=(128, 128, 128), threads=128, stages=3),
            product(f"e4m3_turned_{name}", 1000, 1008, 1008, "float8_e4m3fn", trans_A=trans_A,
                    trans_B=trans_B, block=(128, 128, 64), threads=256, stages=3),
            product(f"int8_turned_mma_{name}", 256, 256, 512, "int8", "int32", trans_A=trans_A,
                    trans_B=trans_B, block=(128, 128, 64), threads=128, stages=3, options=ampere),
            tf32(f"tf32_{name}", 256, 256, 512, trans_A=trans_A, trans_B=trans_B),
            tf32(f"tf32_ragged_{name}", 1000, 1000, 1000, trans_A=trans_A, trans_B=trans_B),
            tf32(f"tf32_mma_{name}", 256, 256, 512, trans_A=trans_A, trans_B=trans_B,
                 options=ampere),
        ]
    cases.append(tf32("tf32_two_groups", 256, 512, 512, block=(128, 256, 32), threads=256))
    for dtype in ("float32", "bfloat16"):
        for kind in ("softmax", "rmsnorm", "rowsum", "swiglu"):
            cases.append(rows(f"{kind}_{dtype}", kind, 100, 1024, dtype))
        for kind in ("softmax", "rmsnorm", "layernorm"):  # more than a block's registers hold
            cases.append(rows(f"{kind}_long_{dtype}", kind, 5, 40001, dtype))
            cases.append(rows(f"{kind}_vocabulary_{dtype}", kind, 64, 128256, dtype))
    cases += [
        attention("attention_64", 1, 2, 256, 256, 64, False),
        attention("attention_64_causal", 1, 2, 256, 256, 64, True, dtype="bfloat16"),
        attention("attention_128", 2, 2, 256, 512, 128, False),
        attention("attention_128_causal", 1, 4, 256, 384, 128, True, kv_heads=2),
        attention("attention_256", 1, 2, 256, 256, 256, False, block=(128, 64)),
        attention("attention_ragged", 1, 2, 200, 333, 128, False),
        attention("attention_ragged_causal", 1, 2, 333, 333, 64, True),
    ]
    cases.append({"name": "gemv", "kind": "gemv", "template": "gemv",
                  "arguments": {"N": 512, "K": 2048}, "config": {}, "options": {}, "M": 512,
                  "N": 2048, "dtype": "float32"})
    return cases + shared() + left_open() + epilogues() + others()


SHAPES = {
    "sq8192": (8192, 8192, 8192), "sq4096": (4096, 4096, 4096), "sq2048": (2048, 2048, 2048),
    "sq1024": (1024, 1024, 1024), "l8b_qkv": (4096, 6144, 4096),
    "l8b_gateup": (4096, 28672, 4096), "l8b_down": (4096, 4096, 14336),
    "l70b_qkv": (8192, 10240, 8192), "ds_q_b": (4096, 24576, 1536), "ds_o": (4096, 7168, 16384),
    "ds_moe": (4096, 4096, 7168), "ragged": (3001, 4104, 4120), "odd1000": (1000, 1000, 1000),
}


LARGE = [name for name, (M, N, K) in SHAPES.items() if M * N > 2048 * 2048 and M % 128 == 0]
DECODE = [("dec1_gateup", 1, 28672, 4096), ("dec16_gateup", 16, 28672, 4096),
          ("dec64_gateup", 64, 28672, 4096)]
# With mma.sync.
OLDER = [((128, 128, 32), 128, 3), ((128, 128, 32), 128, 4), ((128, 128, 32), 128, 5),
         ((128, 128, 64), 128, 3), ((128, 256, 64), 256, 3), ((128, 256, 64), 256, 4),
         ((128, 256, 32), 256, 4), ((128, 256, 32), 256, 5), ((256, 128, 64), 256, 3),
         ((256, 128, 64), 256, 4)]
SHARED_MEMORY = 226 << 10  # of a block, for tiles
# Where the tiles of a product are few.
SMALL = [((128, 128, 64), 256, 5), ((128, 128, 128), 256, 3), ((64, 128, 64), 128, 6),
         ((64, 128, 128), 128, 4), ((128, 64, 64), 256, 6), ((128, 64, 128), 256, 4),
         ((64, 64, 128), 128, 4)]
# Of products whose steps blocks share: tiles, threads, stages, panel.
SHARED = {
    "dec128_down": [((128, 128, 64), 256, 6, 0), ((128, 128, 128), 256, 3, 0),
                    ((128, 64, 64), 256, 8, 0), ((128, 64, 128), 256, 4, 0),
                    ((128, 96, 64), 256, 6, 0), ((128, 192, 64), 256, 4, 0),
                    ((128, 256, 64), 256, 4, 0)],
    "sq2048": [((128, 256, 64), 256, 4, 8), ((256, 128, 64), 256, 4, 8),
               ((128, 192, 64), 256, 4, 8), ((128, 128, 64), 256, 6, 8)],
    "sq1024": [((128, 128, 64), 256, 6, 0), ((128, 128, 128), 256, 3, 0),
               ((64, 128, 128), 128, 4, 0), ((128, 256, 64), 256, 4, 0)],
    "odd1000": [((128, 128, 64), 256, 6, 0), ((128, 128, 128), 256, 3, 0),
                ((64, 128, 128), 128, 4, 0), ((128, 256, 64), 256, 4, 0)],
    "ragged": [((128, 256, 64), 256, 4, 8), ((128, 256, 64), 256, 4, 24),
               ((256, 128, 64), 256, 4, 12), ((128, 192, 64), 256, 4, 24)],
}
# Of few rows: blocks, rows of B a tile, K a step, stages.
SHARED_FEW = [(132, 64, 128, 10), (132, 128, 128, 5), (132, 64, 64, 18), (132, 64, 256, 5),
              (264, 64, 128, 5), (264, 128, 128, 2), (396, 64, 128, 3), (112, 64, 128, 10)]
ATTENTION = [(16, 16, 1024, 128), (4, 16, 4096, 128), (1, 16, 16384, 128), (4, 32, 4096, 64)]


def timed_few(shape, M, N, K):
    """Few rows: a tile a block, where shared memory holds the stages."""
    cases = []
    rows = 16 if M <= 16 else 64
    plain = [((128, 128), 3, 1), ((128, 128), 3, 2), ((128, 128), 2, 1), ((64, 128), 4, 1),
             ((64, 128), 4, 2), ((64, 128), 2, 1), ((64, 128), 1, 1), ((64, 64), 5, 1),
             ((128, 64), 5, 1), ((64, 128), 6, 1), ((64, 128), 7, 1), ((64, 256), 5, 1)]
    rotated = [((64, 128), 1, 1), ((64, 128), 2, 1), ((64, 128), 4, 1), ((64, 128), 6, 1),
               ((64, 256), 2, 1), ((64, 256), 5, 1), ((64, 512), 1, 1), ((128, 128), 3, 1)]
    panels = [((64, 128), 2, 1), ((64, 128), 4, 1)]  # rotated too, and not in bands
    for kind, configs in (("few", plain), ("rotated", rotated), ("panels", panels)):
        for (width, depth), stages, cluster in configs:
            if 2 * (rows + width) * depth * stages > SHARED_MEMORY:
                continue
            options = {"kiln.persistent": 0, "kiln.cluster": cluster}
            if kind == "panels":
                options["kiln.bands"] = 0
            cases.append(few(f"{shape}/{kind}_{rows}x{width}x{depth}_{stages}_{cluster}", M, N, K,
                             (rows, width, depth), stages, rotate=kind != "few", options=options))
    return cases


def timed_few_shared(shape, M, N, K):
    """Few rows: tiles in turns of as many blocks as SMs, and steps that blocks share."""
    cases = []
    rows = 16 if M <= 16 else 64
    for width, depth, stages in ((64, 128, 10), (128, 128, 5), (64, 256, 5)):
        stages = stages if rows == 16 else stages * 3 // 5
        cases.append(few(f"{shape}/turns_{rows}x{width}x{depth}_{stages}", M, N, K,
                         (rows, width, depth), stages, options={"kiln.cluster": 1}))
    for blocks, width, depth, stages in SHARED_FEW:
        stages = stages if rows == 16 else max(stages * 3 // 5, 2)
        name = f"{shape}/shared_{blocks}_{rows}x{width}x{depth}_{stages}"
        cases.append(streamk(name, M, N, K, few=True, blocks=blocks, block=(rows, width, depth),
                             stages=stages, threads=128))
    return cases


def timed():
    """Large shapes, a few configs each: the best of them is what counts."""
    cases = []
    for shape, (M, N, K) in SHAPES.items():
        for persistent, cluster in ((0, 1), (1, 1), (1, 2)):
            options = {"kiln.persistent": persistent, "kiln.cluster": cluster}
            cases.append(product(f"{shape}/{persistent}{cluster}", M, N, K, options=options))
        cases.append(product(f"{shape}/tall", M, N, K, block=(256, 128, 64)))
        cases.append(product(f"{shape}/large", M, N, K, block=(256, 192, 64),
                             options={"kiln.persistent": 1, "kiln.cluster": 2}))
        for block, stages in (((64, 256, 64), 4), ((128, 128, 64), 5)):
            cases.append(product(f"{shape}/pingpong_{block[0]}x{block[1]}", M, N, K, block=block,
                                 stages=stages, threads=128, options={"kiln.pingpong": 1}))
        if shape in ("sq4096", "sq8192"):  # what a quick assembler costs
            cases.append(product(f"{shape}_quick/O1", M, N, K, options={"kiln.assembler": 1}))
        if M % 128:  # rows of no whole lines: what blocks share counts
            for panel, stages in ((16, 4), (24, 4), (32, 4), (12, 5), (24, 5)):
                cases.append(product(f"{shape}/192_{panel}_{stages}", M, N, K,
                                     block=(128, 192, 64), stages=stages, panel=panel))
            for panel in (0, 4):
                cases.append(product(f"{shape}/256x192_{panel}", M, N, K, block=(256, 192, 64),
                                     panel=panel, options={"kiln.persistent": 0,
                                                           "kiln.cluster": 2}))
        if M * N > 2048 * 2048:
            continue
        for block, threads, stages in SMALL:
            for cluster in (1, 2):
                name = f"{shape}/{'x'.join(map(str, block))}_{threads}_{cluster}"
                options = {"kiln.persistent": 0, "kiln.cluster": cluster}
                cases.append(product(name, M, N, K, block=block, threads=threads, stages=stages,
                                     options=options))
    for shape in ("sq4096", "sq8192"):
        M, N, K = SHAPES[shape]
        for block, threads, stages in OLDER:
            for panel in (8, 16):
                name = f"{shape}_mma/{'x'.join(map(str, block))}_{threads}_{stages}_{panel}"
                cases.append(product(name, M, N, K, block=block, threads=threads, stages=stages,
                                     panel=panel, options={"kiln.instructions": 80}))
        for panel in (4, 8, 16):
            cases.append(product(f"{shape}_mma/turns_{panel}", M, N, K, block=(256, 128, 64),
                                 panel=panel, options={"kiln.instructions": 80,
                                                       "kiln.persistent": 1}))
            cases.append(streamk(f"{shape}_mma/shared_{panel}", M, N, K, block=(256, 128, 64),
                                 panel=panel, options={"kiln.instructions": 80}))
    for shape, M, N, K in DECODE:
        for block, threads, stages in (((64, 224, 64), 128, 5), ((64, 112, 64), 128, 8),
                                       ((64, 112, 64), 128, 7),
                                       ((64, 112, 128), 128, 3), ((64, 112, 128), 128, 4),
                                       ((64, 112, 128), 128, 5), ((64, 224, 128), 128, 2),
                                       ((64, 224, 128), 128, 3), ((64, 128, 64), 128, 6),
                                       ((64, 128, 128), 128, 4), ((64, 80, 128), 128, 6)):
            name = f"{shape}/{'x'.join(map(str, block))}_{stages}"
            cases.append(product(name, M, N, K, block=block, threads=threads, stages=stages, panel=0,
                                 options={"kiln.cluster": 1}))
        cases.append(product(f"{shape}/panels_64x112x128_5", M, N, K, block=(64, 112, 128),
                             threads=128, stages=5, panel=0,
                             options={"kiln.cluster": 1, "kiln.bands": 0}))
        cases += timed_few(shape, M, N, K)
        if M == 1:  # one row needs no tensor core
            for block_N, block_K, threads in ((1, 4096, 512), (2, 4096, 512), (1, 4096, 256),
                                              (1, 2048, 128), (4, 2048, 512)):
                cases.append(one_row(f"{shape}/gemv_{block_N}x{block_K}_{threads}", N, K,
                                     block_N=block_N, block_K=block_K, threads=threads))
        cases += timed_few_shared(shape, M, N, K)
    for block, threads, stages in (((128, 256, 32), 256, 4), ((128, 128, 32), 128, 4),
                                   ((256, 128, 32), 256, 4)):
        for name, turned in (("", {"trans_B": True}), ("_nn", {"trans_B": False}),
                             ("_tt", {"trans_A": True, "trans_B": True})):
            cases.append(tf32(f"sq4096_tf32{name}/{'x'.join(map(str, block))}", 4096, 4096, 4096,
                              block=block, threads=threads, stages=stages, **turned))
    half = "float16"
    for shape, block in (("sq2048", (128, 256, 128)), ("sq1024", (128, 128, 128))):
        cases.append(product(f"{shape}_float8/1", *SHAPES[shape], "float8_e4m3fn", "bfloat16",
                             block=block, options={"kiln.cluster": 1}))
    cases.append(product("sq2048_float16/1", 2048, 2048, 2048, half, half,
                         options={"kiln.cluster": 1}))
    for block in ((64, 128, 128), (128, 64, 128)):
        cases.append(product(f"sq1024_float16/{'x'.join(map(str, block))}", 1024, 1024, 1024, half,
                             half, block=block, threads=block[0] * 2, stages=4,
                             options={"kiln.persistent": 0, "kiln.cluster": 1}))
    for shape in LARGE:
        M, N, K = SHAPES[shape]
        for cluster in (1, 2):
            options = {"kiln.cluster": cluster}
            cases.append(product(f"{shape}_float16/{cluster}", M, N, K, "float16", "float16",
                                 options=options))
            cases.append(product(f"{shape}_float8/{cluster}", M, N, K, "float8_e4m3fn", "bfloat16",
                                 block=(128, 256, 128), options=options))
            for block, threads, stages in (((128, 128, 128), 256, 4), ((192, 128, 128), 384, 4)):
                case = other(f"{shape}_float8_full/{block[0]}x{block[1]}_{cluster}",
                             "matmul_promoted",
                             {"M": M, "N": N, "K": K, "dtype": "float8_e4m3fn"},
                             {"block_M": block[0], "block_N": block[1], "block_K": block[2],
                              "num_stages": stages, "threads": threads}, out="bfloat16")
                cases.append({**case, "options": options})
    for batch, heads, seq, dim in ATTENTION:
        for causal in (False, True):
            shape = f"attention_{batch}x{heads}x{seq}x{dim}{'_causal' if causal else ''}"
            for block_N in (128, 64):
                cases.append(attention(f"{shape}/{block_N}", batch, heads, seq, seq, dim, causal,
                                       block=(128, block_N)))
    for split, block, stages in ((4, (128, 128, 64), 4), (4, (128, 128, 128), 3),
                                 (8, (128, 256, 64), 4), (2, (128, 64, 64), 8),
                                 (3, (128, 96, 64), 6)):
        cases.append(other(f"dec128_down/{split}_{'x'.join(map(str, block))}", "matmul_splitk",
                           {"M": 128, "N": 4096, "K": 14336, "dtype": "bfloat16"},
                           {"split": split, "block_M": block[0], "block_N": block[1],
                            "block_K": block[2], "num_stages": stages}, out="bfloat16"))
    for shape, configs in SHARED.items():
        M, N, K = SHAPES.get(shape, (128, 4096, 14336))
        for block, threads, stages, panel in configs:
            name = f"{shape}/shared_{'x'.join(map(str, block))}_{stages}_{panel}"
            cases.append(streamk(name, M, N, K, block=block, threads=threads, stages=stages,
                                 panel=panel))
    for block, threads, stages in (((128, 128, 64), 128, 3), ((128, 128, 64), 256, 4),
                                   ((128, 256, 64), 256, 3), ((128, 256, 64), 256, 4),
                                   ((256, 128, 64), 256, 4), ((128, 256, 128), 256, 2)):
        cases.append(other(f"conv3x3/{'x'.join(map(str, block))}_{threads}_{stages}", "conv2d",
                           {"N": 64, "H": 56, "W": 56, "C": 256, "F": 256},
                           {"block_M": block[0], "block_N": block[1], "block_K": block[2],
                            "threads": threads, "num_stages": stages},
                           R=3, S=3, stride=1, pad=1, dilation=1))
    for dtype, pads in (("bfloat16", (2, 4)), ("float32", (1, 2))):
        for pad in pads:
            for block in ((64, 64), (128, 64), (128, 128), (64, 32)):
                cases.append(other(f"transpose8192_{dtype}/{pad}_{block[0]}x{block[1]}", "transpose",
                                   {"M": 8192, "N": 8192, "dtype": dtype},
                                   {"pad": pad, "block_M": block[0], "block_N": block[1]}))
    for dtype in ("bfloat16", "float32"):
        for at_once in (1, 2):
            cases.append(other(f"layernorm8192_{dtype}/{at_once}_256", "layernorm",
                               {"M": 8192, "N": 8192, "dtype": dtype},
                               {"block_M": at_once, "threads": 256}))
        cases.append(other(f"colsum8192_{dtype}/128", "reduction_columns",
                           {"M": 8192, "N": 8192, "dtype": dtype}, kind="reduce_columns"))
        for threads in (128, 256, 512):
            width = 8 if dtype == "bfloat16" else 4
            for kind, config in (("softmax", {}), ("rmsnorm", {}),
                                 ("rowsum", {"block_M": 1, "block_N": 8192}),
                                 ("swiglu", {"block_N": threads * width})):
                cases.append(rows(f"{kind}8192_{dtype}/{threads}", kind, 8192, 8192, dtype,
                                  threads=threads, **config))
    return cases


def without_config(case):
    """The case as a space of configs: the template's tunables are open."""
    return {**case, "config": {}}


def spaces():
    """Kernels and shapes whose spaces of configs are drawn from; small enough to check quickly."""
    found = [product("bf16", 1024, 1024, 1024), product("bf16_nn", 1024, 1536, 512, trans_B=False),
             product("bf16_tn", 512, 1024, 1024, trans_A=True, trans_B=False),
             product("bf16_decode", 16, 3072, 1024), product("bf16_odd", 1000, 1000, 1000),
             product("fp16_tall", 4096, 256, 512, "float16", "float16"),
             product("fp8", 1024, 1024, 1024, "float8_e4m3fn"),
             product("int8", 1024, 768, 1024, "int8", "int32"),
             product("mma", 1024, 1024, 1024, "float16", "float32", trans_B=False),
             product("float32", 256, 256, 256, "float32", "float32"),
             tf32("tf32", 1024, 1024, 1024), tf32("tf32_nn", 1024, 768, 512, trans_B=False),
             tf32("tf32_tt", 512, 1024, 1024, trans_A=True),
             streamk("streamk", 512, 768, 2048),
             streamk("streamk_few_rows", 16, 3072, 1024, few=True)]
    found += [c for c in others() if c["name"] in
              ("linear_gelu", "splitk", "few", "promoted", "dequant_4", "conv_3x3_111", "decode",
               "transpose_bfloat16", "layernorm_float32", "broadcast_bfloat16", "colsum_float32",
               "total_bfloat16")]
    found += [rows(f"{kind}_rows", kind, 512, 2048, "bfloat16")
              for kind in ("softmax", "rmsnorm", "rowsum", "swiglu")]
    found += [attention("attention_space", 1, 4, 512, 512, 128, False),
              attention("attention_causal", 1, 4, 384, 384, 64, True)]
    return [without_config(c) for c in found]
