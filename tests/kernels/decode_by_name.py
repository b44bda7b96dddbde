"""Packed integers and floats, taken apart by the functions that dequantising kernels call by name: every thread
its own words. What a function does with which bit is written once more below, in NumPy."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "decode",
    "arguments": {},
    "types": {"words": "uint8", "scale": "float16", "zero": "float16", "whole_zero": "int16", "u4": "float16",
              "s4": "float16", "s2": "float16", "u1": "float16", "scaled": "float16", "original": "float16",
              "rescaled": "float16", "quantized": "float16", "halves": "float16", "i8_1": "int8", "i8_2": "int8",
              "i8_4": "int8", "i4": "int8", "fp4": "bfloat16"},
}

ROWS = 64


@tilelang.jit
def decode(words, scale, zero, whole_zero):
    words: T.Tensor((64, 8), T.uint8)
    scale: T.Tensor((2,), T.float16)
    zero: T.Tensor((2,), T.float16)
    whole_zero: T.Tensor((1,), T.int16)
    u4 = T.empty((64, 8), T.float16)
    s4 = T.empty((64, 8), T.float16)
    s2 = T.empty((64, 8), T.float16)
    u1 = T.empty((64, 8), T.float16)
    scaled = T.empty((64, 8), T.float16)
    original = T.empty((64, 8), T.float16)
    rescaled = T.empty((64, 8), T.float16)
    quantized = T.empty((64, 8), T.float16)
    halves = T.empty((64, 8), T.float16)
    i8_1 = T.empty((64, 16), T.int8)
    i8_2 = T.empty((64, 16), T.int8)
    i8_4 = T.empty((64, 16), T.int8)
    i4 = T.empty((64, 8), T.int8)
    fp4 = T.empty((64, 16), T.bfloat16)
    with T.Kernel(2, threads=32) as b:
        t = T.get_thread_binding(0)
        row = b * 32 + t
        packed = T.alloc_local((8,), T.uint8)
        half = T.alloc_local((8,), T.float16)
        byte = T.alloc_local((16,), T.int8)
        wide = T.alloc_local((16,), T.bfloat16)
        s = T.alloc_local((2,), T.float16)
        z = T.alloc_local((2,), T.float16)
        q = T.alloc_local((1,), T.int16)
        for v in T.vectorized(8):
            packed[v] = words[row, v]
        for v in T.serial(2):
            s[v] = scale[v]
            z[v] = zero[v]
        q[0] = whole_zero[0]
        T.call_extern("decode_i4u_to_f16", T.access_ptr(packed, "r"), T.access_ptr(half, "w"), dtype="handle")
        for v in T.vectorized(8):
            u4[row, v] = half[v]
        T.call_extern("handle", "decode_i4s_to_f16", T.address_of(packed[4]), T.access_ptr(half, "w"), 8)
        for v in T.vectorized(8):
            s4[row, v] = half[v]
        T.call_extern("handle", "decode_i2s_to_f16", T.access_ptr(packed, "r"), T.access_ptr(half, "w"))
        for v in T.vectorized(8):
            s2[row, v] = half[v]
        T.call_extern("handle", "decode_i1u_to_f16", T.access_ptr(packed, "r"), T.access_ptr(half, "w"))
        for v in T.vectorized(8):
            u1[row, v] = half[v]
        T.call_extern("handle", "decode_i4s_to_f16_scale", T.access_ptr(packed, "r"), T.access_ptr(half, "w"),
                      T.access_ptr(s, "r"))
        for v in T.vectorized(8):
            scaled[row, v] = half[v]
        T.call_extern("handle", "decode_i4u_to_f16_scale_zeros_original", T.access_ptr(packed, "r"),
                      T.access_ptr(half, "w"), T.access_ptr(s, "r"), T.access_ptr(z, "r"))
        for v in T.vectorized(8):
            original[row, v] = half[v]
        T.call_extern("handle", "decode_i4u_to_f16_scale_zeros_rescale", T.access_ptr(packed, "r"),
                      T.access_ptr(half, "w"), T.access_ptr(s, "r"), T.access_ptr(z, "r"))
        for v in T.vectorized(8):
            rescaled[row, v] = half[v]
        T.call_extern("handle", "decode_i2u_to_f16_scale_zeros_quantized", T.access_ptr(packed, "r"),
                      T.access_ptr(half, "w"), T.access_ptr(s, "r"), T.access_ptr(q, "r"))
        for v in T.vectorized(8):
            quantized[row, v] = half[v]
        T.call_extern("handle", "decode_i4u_to_f16_scale_zeros_original_offset", T.access_ptr(packed, "r"),
                      T.access_ptr(half, "w"), T.access_ptr(s, "r"), T.access_ptr(z, "r"), 1)
        for v in T.vectorized(8):
            halves[row, v] = half[v]
        T.call_extern("handle", "decode_i1s_to_i8s", T.access_ptr(packed, "r"), T.access_ptr(byte, "w"))
        for v in T.vectorized(16):
            i8_1[row, v] = byte[v]
        T.call_extern("handle", "decode_i2u_to_i8s", T.access_ptr(packed, "r"), T.access_ptr(byte, "w"))
        for v in T.vectorized(16):
            i8_2[row, v] = byte[v]
        T.call_extern("handle", "decode_i4s_to_i8s", T.access_ptr(packed, "r"), T.access_ptr(byte, "w"))
        for v in T.vectorized(16):
            i8_4[row, v] = byte[v]
        T.call_extern("handle", "decode_i2u_to_i4s", T.access_ptr(packed, "r"), T.access_ptr(byte, "w"), 16)
        for v in T.vectorized(8):
            i4[row, v] = byte[v]
        T.call_extern("handle", "decode_fp4_to_bf16_twiddling", T.access_ptr(packed, "r"), T.access_ptr(wide, "w"), 2)
        for v in T.vectorized(16):
            fp4[row, v] = wide[v]
    return u4, s4, s2, u1, scaled, original, rescaled, quantized, halves, i8_1, i8_2, i8_4, i4, fp4


def inputs(rng):
    return {"words": rng.integers(0, 256, (ROWS, 8)), "scale": np.array([0.37, -1.6]),
            "zero": np.array([4.3, 2.7]), "whole_zero": np.array([3])}


def codes(words, bits, first=0):
    """The codes of `bits` bits from byte `first` on, the lowest of a byte first."""
    split = words[:, first:, None] >> np.arange(0, 8, bits) & ((1 << bits) - 1)
    return split.reshape(len(words), -1)


def halves_of(words, bits, first=0):
    """The order of float16 results: code i of the low half of 8 codes, code i of the high half, code i + 1 ..."""
    eight = codes(words, bits, first)[:, :8]
    return np.stack([eight[:, :4], eight[:, 4:]], -1).reshape(len(words), 8)


def bytes_of(words, bits, count):
    """The order of int8 results: code i of every byte, then code i + 1 of every byte."""
    return np.concatenate([words[:, :count] >> (bits * i) & ((1 << bits) - 1) for i in range(8 // bits)], -1)


def half(x):
    return round_to(x, "float16")


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
# Where sign, exponent and mantissa of four elements lie in 16 bits, the first byte the higher.
TWIDDLED = [(15, 8, 7, 6), (12, 5, 4, 3), (9, 2, 1, 0), (14, 11, 10, 13)]


def twiddled(words):
    out = []
    for pair in range(4):
        bits = words[:, 2 * pair] << 8 | words[:, 2 * pair + 1]
        for sign, high, low, mantissa in TWIDDLED:
            value = E2M1[(bits >> high & 1) << 2 | (bits >> low & 1) << 1 | bits >> mantissa & 1]
            out.append(np.where(bits >> sign & 1, -value, value))
    return np.stack(out, -1)


def reference(words, scale, zero, whole_zero):
    u4, s, z = halves_of(words, 4), scale[0], zero[0]
    both = lambda x: np.repeat(x, 4)  # noqa: E731 - of the first four results and of the last
    ones = codes(words[:, :2], 1)
    four = np.concatenate([bytes_of(words[:, :4], 4, 4), bytes_of(words[:, 4:], 4, 4)], -1)
    pairs = np.concatenate([words[:, :4] & 0x33, words[:, :4] >> 2 & 0x33], -1)
    return {
        "u4": u4, "s4": halves_of(words, 4, 4) - 8, "s2": halves_of(words, 2) - 2, "u1": halves_of(words, 1),
        "scaled": half((u4 - 8) * s), "original": half(half(u4 - z) * s), "rescaled": half(u4 * s - z),
        "quantized": half((halves_of(words, 2) - whole_zero[0]) * s),
        "halves": half(half(u4 - both(zero)) * both(scale)),
        "i8_1": 2 * ones[:, [i + p for i in range(4) for p in (0, 8, 4, 12)]] - 1,
        "i8_2": bytes_of(words, 2, 4), "i8_4": four - 7, "i4": pairs, "fp4": twiddled(words),
    }
