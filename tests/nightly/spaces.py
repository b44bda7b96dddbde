"""The shipped templates in every type that they take: arguments at a size that GPUs are tuned for, and
at one that the interpreter runs thread by thread in seconds."""

FLOATS = ("float32", "float16", "bfloat16")
HALVES = ("float16", "bfloat16")
EIGHTS = ("float8_e4m3fn", "float8_e5m2")


def space(template, variant, large, small, options=None):
    """One template with one choice of types. `large`, `small`: its arguments at both sizes."""
    return {"template": template, "variant": variant, "large": large, "small": small,
            "options": options or {}}


def sizes(large, small, **both):
    return [dict(zip(large, values), **both) for values in (large.values(), small)]


def orders(dtype, options):
    """(trans_A, trans_B): all four where tensor cores take them, else what is usual."""
    if dtype in ("bfloat16", "int8", "float8_e4m3fn") or options:
        return [(a, b) for a in (False, True) for b in (False, True)]
    return [(False, dtype not in ("float64", "float32"))]


def products():
    found = []
    for dtype, out, accum, options in (
            ("float64", "float64", "float64", {}), ("float32", "float32", "float32", {}),
            ("float32", "float32", "float32", {"kiln.tf32": 1}), ("float16", "float16", "float32", {}),
            ("bfloat16", "bfloat16", "float32", {}), ("float8_e4m3fn", "bfloat16", "float32", {}),
            ("float8_e5m2", "float16", "float32", {}), ("int8", "int32", "int32", {})):
        for trans_A, trans_B in orders(dtype, options):
            both = {"dtype": dtype, "out_dtype": out, "accum_dtype": accum, "trans_A": trans_A,
                    "trans_B": trans_B}
            name = f"{'tf32' if options else dtype}_{'nt'[trans_A]}{'nt'[trans_B]}"
            found.append(space("matmul", name, *sizes({"M": 1024, "N": 1536, "K": 1024},
                                                      (72, 88, 80), **both), options))
        if dtype not in ("float64", "float32"):
            both = {"dtype": dtype, "out_dtype": out, "accum_dtype": accum}
            for few in (False, True):
                found.append(space("matmul_streamk", f"{dtype}{'_few' * few}",
                                   *sizes({"M": 16 if few else 512, "N": 1536, "K": 2048},
                                          (9 if few else 72, 88, 160), few=few, **both)))
    for dtype in (*HALVES, *EIGHTS):
        both = {"dtype": dtype, "out_dtype": "float16" if dtype == "float16" else "bfloat16"}
        found.append(space("matmul_promoted", dtype, *sizes({"M": 512, "N": 1536, "K": 2048},
                                                            (40, 72, 272), **both)))
        for rows in (1, 16, 64):
            found.append(space("matmul_decode", f"{dtype}_{rows}", *sizes(
                {"N": 3072, "K": 2048}, (136, 272), M=rows, **both)))
        found.append(space("matmul_splitk", dtype, *sizes({"M": 128, "N": 512, "K": 4096},
                                                          (24, 72, 304), **both)))
        if dtype in HALVES:
            for trans_A, trans_B in ((False, False), (True, False), (True, True)):
                found.append(space(
                    "matmul_splitk", f"{dtype}_{'nt'[trans_A]}{'nt'[trans_B]}_gelu",
                    *sizes({"M": 128, "N": 512, "K": 4096}, (24, 72, 304), **both, trans_A=trans_A,
                           trans_B=trans_B, with_bias=True, activation="'gelu'", scale=0.5)))
            for few in (False, True):
                found.append(space(
                    "matmul_streamk", f"{dtype}{'_few' * few}_gelu",
                    *sizes({"M": 16 if few else 512, "N": 1536, "K": 2048},
                           (9 if few else 72, 88, 160), few=few, **both, with_bias=True,
                           activation="'gelu'", scale=0.5)))
    for dtype in HALVES:
        for bits in (4, 8):
            found.append(space("matmul_dequant", f"{dtype}_{bits}", *sizes(
                {"M": 64, "N": 1536, "K": 2048}, (20, 72, 256), dtype=dtype, out_dtype=dtype,
                bits=bits)))
        for activation in ("none", "relu", "gelu", "silu"):
            found.append(space("linear", f"{dtype}_{activation}", *sizes(
                {"M": 512, "N": 1536, "K": 1024}, (40, 72, 136), dtype=dtype, out_dtype=dtype,
                batch=2, activation=f"'{activation}'", scale=0.5)))
        for taps, stride, dilation in ((3, 1, 1), (3, 2, 1), (1, 1, 1), (3, 1, 2)):
            found.append(space("conv2d", f"{dtype}_{taps}x{taps}_{stride}_{dilation}", *sizes(
                {"N": 8, "H": 28, "W": 28, "C": 128, "F": 256}, (1, 7, 6, 32, 40), dtype=dtype,
                out_dtype=dtype, R=taps, S=taps, stride=stride, dilation=dilation)))
    for codes in EIGHTS:
        found.append(space("matmul_dequant", codes, *sizes(
            {"M": 64, "N": 1536, "K": 2048}, (20, 72, 256), bits=8, codes=codes)))
    for trans_A in (False, True):
        found.append(space("linear", f"bfloat16_{'nt'[trans_A]}n", *sizes(
            {"M": 512, "N": 1536, "K": 1024}, (40, 72, 136), batch=2, trans_A=trans_A,
            trans_B=False)))
    integers = {"dtype": "int8", "accum_dtype": "int32", "out_dtype": "int32"}
    found.append(space("linear", "int8", *sizes(
        {"M": 512, "N": 1536, "K": 1024}, (40, 72, 136), scale=0.5, dtype="int8",
        accum_dtype="int32", out_dtype="float32")))
    found.append(space("matmul_splitk", "int8", *sizes({"M": 128, "N": 512, "K": 4096}, (24, 72, 304),
                                                       **integers)))
    image = {"N": 8, "H": 28, "W": 28, "C": 128, "F": 256}
    found.append(space("conv2d", "groups", *sizes(image, (1, 7, 6, 64, 80), groups=2)))
    found.append(space("conv2d", "few_channels", *sizes({**image, "C": 3}, (1, 7, 6, 3, 40))))
    found.append(space("conv2d", "int8", *sizes(image, (1, 7, 6, 32, 40), **integers)))
    for dtype in FLOATS:
        found.append(space("gemv", dtype, *sizes({"N": 4096, "K": 4096}, (24, 520), dtype=dtype,
                                                 out_dtype=dtype)))
    return found


def attentions():
    found = []
    for dtype in HALVES:
        for dim in (64, 128, 256):
            for causal in (False, True):
                found.append(space("attention", f"{dtype}_{dim}{'_causal' * causal}", *sizes(
                    {"seq_q": 1000, "seq_kv": 1024}, (40, 72), batch=1, heads=4, kv_heads=2, dim=dim,
                    is_causal=causal, dtype=dtype)))
            found.append(space("attention_decode", f"{dtype}_{dim}", *sizes(
                {"batch": 8, "heads": 32, "length": 4096}, (1, 6, 200), kv_heads=2, dim=dim,
                dtype=dtype)))
        for causal in (False, True):
            found.append(space("attention_ragged", f"{dtype}{'_causal' * causal}", *sizes(
                {"seq_q": 1000, "seq_kv": 1024}, (40, 72), batch=2, heads=4, kv_heads=2, dim=128,
                is_causal=causal, dtype=dtype)))
        found.append(space("attention_decode_ragged", dtype, *sizes(
            {"batch": 8, "heads": 32, "length": 4096}, (1, 6, 200), kv_heads=2, dim=128,
            dtype=dtype)))
    return found


def memory():
    found = []
    for dtype in FLOATS:
        for template in ("elementwise", "broadcast", "softmax", "rmsnorm", "layernorm", "reduction",
                         "reduction_columns", "transpose"):
            found.append(space(template, dtype, *sizes({"M": 1000, "N": 4096}, (20, 264),
                                                       dtype=dtype)))
        for template in ("softmax", "rmsnorm", "layernorm"):  # rows that no block's registers hold
            found.append(space(template, f"{dtype}_long", *sizes({"M": 1000, "N": 128256}, (2, 33000),
                                                                 dtype=dtype)))
        for op in ("mean", "max"):
            for template in ("reduction", "reduction_columns"):
                found.append(space(template, f"{dtype}_{op}", *sizes(
                    {"M": 1000, "N": 4096}, (20, 264), dtype=dtype, op=f"'{op}'")))
            found.append(space("reduction_all", f"{dtype}_{op}", *sizes(
                {"N": 1 << 22}, (5000,), dtype=dtype, op=f"'{op}'")))
        found.append(space("reduction_all", dtype, *sizes({"N": 1 << 22}, (5000,), dtype=dtype)))
    return found


def spaces():
    return [*products(), *attentions(), *memory()]
