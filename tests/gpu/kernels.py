"""Inputs, references and calls of built cases, with PyTorch. Runs on a GPU machine."""
import ctypes
import math

import torch
import torch.nn.functional as F

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
         "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
         "int8": torch.int8, "int32": torch.int32, "uint8": torch.uint8}


AHEAD = 12  # overwritings, of a tenth of a millisecond each


def overwritten():
    """What `launch_times` overwrites: more than any cache holds."""
    return torch.empty(256 << 20, dtype=torch.int8, device="cuda")


def launch_times(calls, flush):
    """Milliseconds of each of the calls, in their order, the L2 cache overwritten before each. The
    device gets a millisecond's work first: where other programs keep the host's cores busy, a launch
    may be late, and the time between two events would hold the wait for it."""
    for _ in range(AHEAD):
        flush.zero_()
    pairs = []
    for call in calls:
        flush.zero_()
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        call()
        pair[1].record()
        pairs.append(pair)
    torch.cuda.synchronize()
    return [first.elapsed_time(last) for first, last in pairs]


def random(shape, dtype):
    if dtype == "int8":
        return torch.randint(-8, 8, shape, device="cuda", dtype=torch.int8)
    if dtype == "uint8":
        return torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8)
    return torch.randn(shape, device="cuda").to(TYPES[dtype])


def poisoned(shape, dtype):
    """An output that nobody has written: NaN, or a number that no product is likely to be."""
    fill = 0x5A5A5A5A if dtype == "int32" else float("nan")
    return torch.full(shape, fill, device="cuda", dtype=TYPES[dtype])


def attend(q, k, v, causal):
    """Of tensors [batch, heads, sequence, dim]; the last query sees all keys."""
    shared = q.shape[1] != k.shape[1]
    if not causal or q.shape[2] == k.shape[2]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device="cuda").tril(
        k.shape[2] - q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=shared)


def heads_first(tensors):
    return [t.transpose(1, 2) for t in tensors]


class Matmul:
    """C = A B, each of them as it is stored."""

    def __init__(self, case):
        M, N, K = case["M"], case["N"], case["K"]
        self.case = case
        dtype = case["dtype"]
        self.inputs = [random((K, M) if case.get("trans_A") else (M, K), dtype),
                       random((N, K) if case.get("trans_B", True) else (K, N), dtype)]
        self.output = poisoned((M, N), case["out"])
        self.operations = 2.0 * M * N * K

    def operands(self):
        a, b = self.inputs
        return (a.t() if self.case.get("trans_A") else a,
                b.t() if self.case.get("trans_B", True) else b)

    def reference(self):
        a, b = self.operands()
        return a.double() @ b.double()

    def read_anchors(self):
        """For few rows: kernels that do nothing but read B, the weights. The fastest counts."""
        from read_kernel import reader
        words = self.inputs[1].view(torch.int32)
        return [lambda: torch.amax(words), reader(words)]

    def anchor(self):
        """cuBLAS."""
        a, b = self.operands()
        if a.dtype != torch.float8_e4m3fn:
            rounds = "kiln.tf32" in self.case["options"]

            def run():
                torch.backends.cuda.matmul.allow_tf32 = rounds
                torch.matmul(a, b)
            return run
        one = torch.ones((), device="cuda")
        fast = self.case["kind"] != "matmul_promoted"  # tensor cores' own sums, as ours
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)


class Linear:
    def __init__(self, case):
        batch, M, N, K = (case[name] for name in ("batch", "M", "N", "K"))
        self.case = case
        a = (batch, K, M) if case.get("trans_A") else (batch, M, K)
        b = (batch, N, K) if case.get("trans_B", True) else (batch, K, N)
        self.inputs = [random(a, case["dtype"]), random(b, case["dtype"]), random((N,), "float32")]
        self.output = poisoned((batch, M, N), case.get("out_dtype", case["dtype"]))
        self.operations = 2.0 * batch * M * N * K

    def reference(self):
        a, b, bias = [t.double() for t in self.inputs]
        a = a.transpose(1, 2) if self.case.get("trans_A") else a
        b = b.transpose(1, 2) if self.case.get("trans_B", True) else b
        x = a @ b * self.case["scale"] + bias
        act = {"none": lambda t: t, "relu": F.relu, "silu": F.silu,
               "gelu": lambda t: F.gelu(t, approximate="tanh")}
        return act[self.case["activation"]](x)


class Dequantised:
    def __init__(self, case):
        M, N, K, bits, group = (case[name] for name in ("M", "N", "K", "bits", "group"))
        self.case = case
        self.inputs = [random((M, K), case["dtype"]),
                       random((N, K * bits // 8), case.get("codes", "uint8")),
                       random((N, K // group), case["dtype"])]
        self.output = poisoned((M, N), case["dtype"])
        self.operations = 2.0 * M * N * K

    def reference(self):
        a, codes, scale = self.inputs
        bits, group = self.case["bits"], self.case["group"]
        if codes.dtype == torch.uint8:
            parts = [(codes >> (bits * p)) & ((1 << bits) - 1) for p in range(8 // bits)]
            w = torch.stack(parts, -1).reshape(codes.shape[0], -1).double() - (1 << (bits - 1))
        else:
            w = codes.double()
        w = (w * scale.double().repeat_interleave(group, 1)).to(TYPES[self.case["dtype"]]).double()
        return a.double() @ w.t()


class Convolution:
    def __init__(self, case):
        self.case = case
        N, H, W, C, filters, R, S = (case[n] for n in ("N", "H", "W", "C", "F", "R", "S"))
        dtype = case["dtype"]
        groups = case.get("groups", 1)
        self.x = random((N, H, W, C), dtype)
        self.w = random((filters, R, S, C // groups), dtype)
        self.inputs = [self.x, self.w]
        shape = self.run(self.x[:, :, :, :1].float(), self.w[:, :, :, :1].float(), 1).shape
        self.output = poisoned((shape[0], shape[2], shape[3], filters),
                               case.get("out_dtype", dtype))
        self.operations = 2.0 * self.output.numel() * R * S * C // groups

    def run(self, x, w, groups):
        """NHWC in, NCHW out."""
        return F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=self.case["stride"],
                        padding=self.case["pad"], dilation=self.case["dilation"], groups=groups)

    def reference(self):
        groups = self.case.get("groups", 1)
        return self.run(self.x.double(), self.w.double(), groups).permute(0, 2, 3, 1)

    def anchor(self):
        """cuDNN, on tensors in the order of channels last."""
        x, w = self.x.permute(0, 3, 1, 2), self.w.permute(0, 3, 1, 2)
        torch.backends.cudnn.benchmark = True
        return lambda: F.conv2d(x, w, stride=self.case["stride"], padding=self.case["pad"],
                                dilation=self.case["dilation"])


class Attention:
    def __init__(self, case):
        self.case = case
        batch, dim, dtype = case["batch"], case["dim"], case["dtype"]
        keys = (batch, case["seq_kv"], case["kv_heads"], dim)
        queries = (batch, case["seq_q"], case["heads"], dim)
        self.inputs = [random(queries, dtype), random(keys, dtype), random(keys, dtype)]
        self.output = poisoned(queries, dtype)
        self.operations = (4.0 * batch * case["heads"] * case["seq_q"] * case["seq_kv"] * dim
                           / (2 if case["is_causal"] else 1))  # half of the mask is not there

    def reference(self):
        q, k, v = heads_first([t.float() for t in self.inputs])
        return attend(q, k, v, self.case["is_causal"]).transpose(1, 2)

    def anchor(self):
        """cuDNN's, through torch."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q, k, v = heads_first(self.inputs)

        def run():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                attend(q, k, v, self.case["is_causal"])
        return run


class Decoding:
    def __init__(self, case):
        batch, heads, kv_heads, length, dim = (
            case[n] for n in ("batch", "heads", "kv_heads", "length", "dim"))
        keys, queries = (batch, length, kv_heads, dim), (batch, kv_heads, heads // kv_heads, dim)
        self.inputs = [random(queries, case["dtype"]), random(keys, case["dtype"]),
                       random(keys, case["dtype"])]
        self.output = poisoned(queries, case["dtype"])

    def reference(self):
        q, k, v = [t.double() for t in self.inputs]
        scores = torch.einsum("bhgd,bnhd->bhgn", q, k) / math.sqrt(q.shape[-1])
        return torch.einsum("bhgn,bnhd->bhgd", scores.softmax(-1), v)


def lengths_of(batch, most):
    """Of the sequences of a batch: all, some, few."""
    return torch.tensor([max(most >> 2 * b, 1) for b in range(batch)], device="cuda",
                        dtype=torch.int32)


class RaggedAttention(Attention):
    """Each sequence by itself; zeros behind its end."""

    def __init__(self, case):
        super().__init__(case)
        self.inputs += [lengths_of(case["batch"], case["seq_q"]),
                        lengths_of(case["batch"], case["seq_kv"])]

    def reference(self):
        q, k, v, queries, keys = self.inputs
        out = torch.zeros_like(q, dtype=torch.float32)
        for b in range(q.shape[0]):
            rows, columns = int(queries[b]), int(keys[b])
            parts = heads_first([q[b:b + 1, :rows].float(), k[b:b + 1, :columns].float(),
                                 v[b:b + 1, :columns].float()])
            out[b:b + 1, :rows] = attend(*parts, self.case["is_causal"]).transpose(1, 2)
        return out


class RaggedDecoding(Decoding):
    def __init__(self, case):
        super().__init__(case)
        self.inputs.append(lengths_of(case["batch"], case["length"]))

    def reference(self):
        q, k, v = [t.double() for t in self.inputs[:3]]
        out = torch.empty_like(q)
        for b, n in enumerate(self.inputs[3].tolist()):
            scores = torch.einsum("hgd,nhd->hgn", q[b], k[b, :n]) / math.sqrt(q.shape[-1])
            out[b] = torch.einsum("hgn,nhd->hgd", scores.softmax(-1), v[b, :n])
        return out


class Rows:
    """Kernels that move memory: name, shapes of the inputs, shape of the output, reference."""
    KINDS = {
        "softmax": (lambda M, N: [(M, N)], lambda M, N: (M, N), lambda x: torch.softmax(x, -1)),
        "rmsnorm": (lambda M, N: [(M, N), (N,)], lambda M, N: (M, N),
                    lambda x, w: x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + 1e-6) * w),
        "layernorm": (lambda M, N: [(M, N), (N,), (N,)], lambda M, N: (M, N),
                      lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5)),
        "reduce_rows": (lambda M, N: [(M, N)], lambda M, N: (M,), lambda x, op: op(x, 1)),
        "reduce_columns": (lambda M, N: [(M, N)], lambda M, N: (N,), lambda x, op: op(x, 0)),
        "reduce_all": (lambda M, N: [(N,)], lambda M, N: (1,), lambda x, op: op(x, 0).reshape(1)),
        "transpose": (lambda M, N: [(M, N)], lambda M, N: (N, M), lambda x: x.t()),
        "swiglu": (lambda M, N: [(M, N), (M, N)], lambda M, N: (M, N),
                   lambda g, u: F.silu(g) * u),
        "broadcast": (lambda M, N: [(M, N), (N,), (M,)], lambda M, N: (M, N),
                      lambda x, r, c: x * r + c[:, None]),
        "gemv": (lambda M, N: [(N,), (M, N)], lambda M, N: (M,), lambda x, a: a @ x),
        "functions": (lambda M, N: [(M, N)], lambda M, N: (5, M, N),
                      lambda x: torch.stack([torch.sin(x * 64), torch.cos(x * 2 ** 20),
                                             torch.erf(x), x.abs() ** 1.7, torch.tanh(x)])),
    }
    REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin,
                  "abssum": lambda x, dim: x.abs().sum(dim),
                  "absmax": lambda x, dim: x.abs().amax(dim)}

    def __init__(self, case):
        kind, dtype, M, N = case["kind"], case["dtype"], case.get("M", 1), case["N"]
        inputs, output, self.formula = self.KINDS[kind]
        self.inputs = [random(shape, dtype) for shape in inputs(M, N)]
        reduces = kind.startswith("reduce_")
        self.more = [self.REDUCTIONS[case.get("op", "sum")]] if reduces else []
        self.output = poisoned(output(M, N), "float32" if reduces or kind == "gemv" else dtype)

    def reference(self):
        return self.formula(*[t.double() for t in self.inputs], *self.more)

    def anchor(self):
        """A copy of as many bytes, read and written."""
        half = torch.empty(self.bytes_moved() // 2, dtype=torch.int8, device="cuda")
        other = torch.empty_like(half)
        return lambda: other.copy_(half)

    def bytes_moved(self):
        return sum(t.numel() * t.element_size() for t in self.inputs + [self.output])


KINDS = {"matmul": Matmul, "matmul_splitk": Matmul, "matmul_promoted": Matmul,
         "matmul_streamk": Matmul, "matmul_decode": Matmul, "linear": Linear,
         "matmul_dequant": Dequantised, "conv2d": Convolution, "attention": Attention,
         "attention_decode": Decoding, "attention_ragged": RaggedAttention,
         "attention_decode_ragged": RaggedDecoding}


def problem_of(case):
    return KINDS.get(case["kind"], Rows)(case)


class Kernel:
    """One built case: its problem (inputs, poisoned output, reference) and the function that fills it."""

    def __init__(self, case, folder, problem=None):
        self.case = case
        self.problem = problem or problem_of(case)
        library = ctypes.CDLL(str(folder / f"{case['file']}.so"))
        self.function = getattr(library, case.get("symbol", f"kiln_{case['kind']}"))
        self.function.restype = ctypes.c_int32
        self.output = self.problem.output
        self.pointers = [ctypes.c_void_p(t.data_ptr())
                         for t in self.problem.inputs + [self.output]]
        self.sizes = [ctypes.c_int64(size) for size in case.get("sizes", [])]

    def __call__(self):
        status = self.function(None, *self.pointers, *self.sizes)
        if status:
            raise RuntimeError(f"{self.case['name']}: kiln_error {status}")

    def error(self, want=None):
        """Relative to the reference's norm; NaN and infinity stay what they are."""
        want = self.problem.reference() if want is None else want
        return float((self.output.double() - want).norm() / want.norm())
