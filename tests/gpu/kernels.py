"""Inputs, references and calls of built cases, with PyTorch. Runs on a GPU machine."""
import ctypes

import torch

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
         "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
         "int8": torch.int8, "int32": torch.int32}


def random(shape, dtype):
    if dtype == "int8":
        return torch.randint(-8, 8, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda").to(TYPES[dtype])


def poisoned(shape, dtype):
    """An output that nobody has written: NaN, or a number that no product is likely to be."""
    fill = 0x5A5A5A5A if dtype == "int32" else float("nan")
    return torch.full(shape, fill, device="cuda", dtype=TYPES[dtype])


class Kernel:
    """One built case: its inputs, its poisoned output and the function that fills it."""

    def __init__(self, case, folder):
        self.case = case
        kind, dtype = case["kind"], case["dtype"]
        M, N, K = (case.get(name, 1) for name in ("M", "N", "K"))
        if kind == "matmul":
            self.inputs = [random((K, M) if case["trans_A"] else (M, K), dtype),
                           random((N, K) if case["trans_B"] else (K, N), dtype)]
            self.output = poisoned((M, N), case["out"])
        elif kind == "attention":
            batch, dim = case["batch"], case["dim"]
            keys = (batch, case["seq_kv"], case["kv_heads"], dim)
            queries = (batch, case["seq_q"], case["heads"], dim)
            self.inputs = [random(queries, dtype), random(keys, dtype), random(keys, dtype)]
            self.output = poisoned(queries, dtype)
        elif kind == "gemv":
            self.inputs = [random((K,), dtype), random((N, K), dtype)]
            self.output = poisoned((N,), "float32")
        else:
            second = {"swiglu": (M, N), "rmsnorm": (N,)}.get(kind)
            self.inputs = [random((M, N), dtype)] + ([random(second, dtype)] if second else [])
            self.output = poisoned((M,), "float32") if kind == "rowsum" else poisoned((M, N), dtype)
        library = ctypes.CDLL(str(folder / f"{case['file']}.so"))
        self.function = getattr(library, f"kiln_{kind}")
        self.function.restype = ctypes.c_int32
        self.pointers = [ctypes.c_void_p(t.data_ptr()) for t in self.inputs + [self.output]]

    def __call__(self):
        status = self.function(None, *self.pointers)
        if status:
            raise RuntimeError(f"{self.case['name']}: kiln_error {status}")

    def operands(self):
        """A and B of a product, as torch multiplies them."""
        a, b = self.inputs
        return (a.t() if self.case["trans_A"] else a), (b.t() if self.case["trans_B"] else b)

    def attention(self, q, k, v):
        """As torch computes it, from tensors [batch, heads, sequence, dim]; the last query sees all
        keys."""
        if not self.case["is_causal"] or q.shape[2] == k.shape[2]:
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=self.case["is_causal"], enable_gqa=q.shape[1] != k.shape[1])
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device="cuda").tril(
            k.shape[2] - q.shape[2])
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, enable_gqa=q.shape[1] != k.shape[1])

    def heads_first(self):
        return [t.transpose(1, 2) for t in self.inputs]

    def reference(self):
        """In float64, of attention in float32, from the same inputs."""
        kind = self.case["kind"]
        x = [t.float() if kind == "attention" else t.double() for t in self.inputs]
        if kind == "matmul":
            a, b = self.operands()
            return a.double() @ b.double()
        if kind == "attention":
            return self.attention(*[t.transpose(1, 2) for t in x]).transpose(1, 2)
        if kind == "gemv":
            return x[1] @ x[0]
        if kind == "softmax":
            return torch.softmax(x[0], -1)
        if kind == "rmsnorm":
            return x[0] * torch.rsqrt((x[0] ** 2).mean(-1, keepdim=True) + 1e-6) * x[1]
        if kind == "rowsum":
            return x[0].sum(-1)
        return torch.nn.functional.silu(x[0]) * x[1]

    def error(self):
        """Relative to the reference's norm; NaN and infinity stay what they are."""
        want = self.reference()
        return float((self.output.double() - want).norm() / want.norm())

    def operations(self):
        """Of a product or of attention; of a causal mask half is not there."""
        case = self.case
        if case["kind"] == "matmul":
            return 2.0 * case["M"] * case["N"] * case["K"]
        return (4.0 * case["batch"] * case["heads"] * case["seq_q"] * case["seq_kv"] * case["dim"]
                / (2 if case["is_causal"] else 1))

    def bytes_moved(self):
        return sum(t.numel() * t.element_size() for t in self.inputs + [self.output])
