"""Every code of the small types to float32, and numbers around all of their values to codes: float8 of five
kinds, four-bit floats and integers in registers and packed."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "narrow",
    "arguments": {},
    "types": {"x": "float32", "e4m3": "float8_e4m3fnuz", "e5m2": "float8_e5m2fnuz", "e8m0": "float8_e8m0fnu",
              "e4m3_of": "float32", "e5m2_of": "float32", "e8m0_of": "float32", "bytes": "uint8",
              "e2m1": "float4_e2m1fn", "i4": "int4", "u4": "uint4", "halves": "float32", "same": "bool"},
}


@tilelang.jit
def narrow(x, bytes, count: int = 4000):
    x: T.Tensor((count,), T.float32)
    bytes: T.Tensor((256,), T.uint8)
    e4m3 = T.empty((count,), T.float8_e4m3fnuz)
    e5m2 = T.empty((count,), T.float8_e5m2fnuz)
    e8m0 = T.empty((count,), T.float8_e8m0fnu)
    e4m3_of = T.empty((256,), T.float32)
    e5m2_of = T.empty((256,), T.float32)
    e8m0_of = T.empty((256,), T.float32)
    e2m1 = T.empty((count,), T.float4_e2m1fn)
    i4 = T.empty((count,), T.int4)
    u4 = T.empty((count,), T.uint4)
    halves = T.empty((3, 512), T.float32)
    same = T.empty((256,), T.bool)
    with T.Kernel(T.ceildiv(count, 256), threads=64) as b:
        codes = T.alloc_shared((256,), T.uint8)
        signed = T.view(codes, (512,), T.int4)
        unsigned = T.view(codes, (512,), T.uint4)
        floats = T.view(codes, (512,), T.float4_e2m1fn)
        T.copy(bytes, codes)
        for i in T.Parallel(256):
            if b * 256 + i < count:
                v = x[b * 256 + i]
                e4m3[b * 256 + i] = v
                e5m2[b * 256 + i] = v
                e8m0[b * 256 + i] = v
        for i in T.Parallel(256):
            if b * 256 + i < count:
                v = x[b * 256 + i]
                e2m1[b * 256 + i] = v
                i4[b * 256 + i] = v
                u4[b * 256 + i] = v
        if b == 0:
            for i in T.Parallel(256):
                e4m3_of[i] = T.reinterpret(codes[i], "float8_e4m3fnuz")
                e5m2_of[i] = T.reinterpret(codes[i], "float8_e5m2fnuz")
                e8m0_of[i] = T.reinterpret(codes[i], "float8_e8m0fnu")
                same[i] = signed[2 * i] == floats[2 * i + 1]
            for i in T.Parallel(512):
                halves[0, i] = signed[i]
                halves[1, i] = unsigned[i] - 1
                halves[2, i] = floats[i].astype("float16")
    return e4m3, e5m2, e8m0, e4m3_of, e5m2_of, e8m0_of, e2m1, i4, u4, halves, same


def around(values):
    """Numbers at, between and beside the values."""
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    return np.concatenate([values, middles, middles * (1 + 2.0**-20), middles * (1 - 2.0**-20)])


def inputs(rng):
    one = np.concatenate([around(round_to(rng.standard_normal(300) * 2.0**rng.integers(-18, 16, 300), t))
                          for t in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn")])
    powers = np.exp2(rng.integers(-130, 128, 200).astype(float))
    x = np.concatenate([one, -powers, powers * 1.25, [0, -0.0, np.inf, -np.inf, 240, 248, 57344, 61440, 1e30]])
    return {"x": np.resize(x, 4000), "bytes": np.arange(256)}


def reference(x, bytes):
    codes = bytes.astype(np.uint8)
    nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(-1).astype(int)
    table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])
    floats = np.concatenate([table, -table])[nibbles]
    signed = np.where(nibbles > 7, nibbles - 16, nibbles)
    field, fraction = (codes >> 3) & 15, codes & 7
    e4m3 = np.where(field == 0, fraction * 2.0**-10, (8 + fraction) * 2.0**(field - 11.0))
    e4m3 = np.where(codes == 128, np.nan, np.where(codes > 127, -e4m3, e4m3))
    field, fraction = (codes >> 2) & 31, codes & 3
    e5m2 = np.where(field == 0, fraction * 2.0**-17, (4 + fraction) * 2.0**(field - 18.0))
    e5m2 = np.where(codes == 128, np.nan, np.where(codes > 127, -e5m2, e5m2))
    e8m0 = np.where(codes == 255, np.nan, 2.0**(codes.astype(float) - 127))
    whole = np.trunc(np.clip(x, -100, 100))
    return {"e4m3": round_to(x, "float8_e4m3fnuz"), "e5m2": round_to(x, "float8_e5m2fnuz"),
            "e8m0": round_to(x, "float8_e8m0fnu"), "e4m3_of": e4m3, "e5m2_of": e5m2, "e8m0_of": e8m0,
            "e2m1": round_to(x, "float4_e2m1fn"), "i4": np.clip(whole, -8, 7),
            "u4": np.clip(whole, 0, 15), "halves": np.stack([signed, nibbles - 1, floats]),
            "same": signed[::2] == floats[1::2]}
