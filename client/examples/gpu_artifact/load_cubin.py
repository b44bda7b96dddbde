"""Launches the kernels of a cubin as its manifest says, through the CUDA driver alone.

    load_cubin.py matmul.cubin matmul.json

For artifacts of constant shapes; what is an expression over run-time dimensions would be computed
here from their values."""
import ctypes
import json
import pathlib
import sys

import torch

DRIVER = ctypes.CDLL("libcuda.so.1")
TYPES = {"uint8": 0, "int8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "int32": 4, "float16": 6,
         "float32": 7, "float64": 8, "bfloat16": 9}  # CUtensorMapDataType
BYTES = {0: 1, 4: 4, 6: 2, 7: 4, 8: 8, 9: 2}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("attribute_count", ctypes.c_uint)]


def check(status, what):
    if status != 0:
        raise SystemExit(f"{what}: CUDA error {status}")


def tensor_map(record, address):
    """A CUtensorMap, innermost dimension first; it begins at a multiple of 64 bytes."""
    buffer = ctypes.create_string_buffer(128 + 64)
    start = (ctypes.addressof(buffer) + 63) // 64 * 64
    shape, box = record["shape"][::-1], record["box"][::-1]
    kind, rank = TYPES[record["dtype"]], len(shape)
    strides, step = [], BYTES[kind]
    for dim, extent in enumerate(shape[:-1]):
        given = record["strides"][::-1][dim + 1] * BYTES[kind] if record["strides"] else None
        step = given or step * extent
        strides.append(step)
        common = (ctypes.c_void_p(start), kind, rank, ctypes.c_void_p(address),
              (ctypes.c_uint64 * rank)(*shape),
              (ctypes.c_uint64 * max(rank - 1, 1))(*strides or [0]))
    window, swizzle = record.get("im2col"), SWIZZLES[record["swizzle_bytes"]]
    if window:
        steps = [1] + [window["stride"]] * (rank - 2) + [1]
        check(DRIVER.cuTensorMapEncodeIm2col(
            *common, (ctypes.c_int * (rank - 2))(*window["low"]),
            (ctypes.c_int * (rank - 2))(*window["high"]), box[0], box[1],
            (ctypes.c_uint32 * rank)(*steps), 0, swizzle, 3, 0), "cuTensorMapEncodeIm2col")
    else:
        check(DRIVER.cuTensorMapEncodeTiled(
            *common, (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank), 0,
            swizzle, 3, 0), "cuTensorMapEncodeTiled")
    return buffer, start


def launch(module, record, pointers):
    function = ctypes.c_void_p()
    check(DRIVER.cuModuleGetFunction(ctypes.byref(function), module, record["kernel"].encode()),
          record["kernel"])
    check(DRIVER.cuFuncSetAttribute(function, DYNAMIC_SHARED, record["dynamic_shared_bytes"]),
          "cuFuncSetAttribute")
    slots = [ctypes.c_uint64(pointers[name]) for name in record["parameters"]]
    maps = [tensor_map(m, pointers[m["tensor"]]) for m in record["tensor_maps"]]
    addresses = [ctypes.addressof(slot) for slot in slots] + [start for _, start in maps]
    arguments = (ctypes.c_void_p * len(addresses))(*addresses)
    cluster = Attribute(id=CLUSTER)
    cluster.value[0:3] = [record["cluster_x"], 1, 1]
    config = Config(grid=(record["grid_x"], 1, 1), block=(record["block_x"], 1, 1),
                    shared_bytes=record["dynamic_shared_bytes"],
                    stream=torch.cuda.current_stream().cuda_stream,
                    attributes=ctypes.pointer(cluster), attribute_count=1)
    check(DRIVER.cuLaunchKernelEx(ctypes.byref(config), function, arguments, None), record["kernel"])


def main():
    cubin = pathlib.Path(sys.argv[1]).read_bytes()
    manifest = json.loads(pathlib.Path(sys.argv[2]).read_text())
    a = torch.randn(256, 384, device="cuda", dtype=torch.bfloat16)  # makes the context, too
    b = torch.randn(512, 384, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(256, 512, device="cuda", dtype=torch.float32)
    module = ctypes.c_void_p()
    check(DRIVER.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
    tensors = dict(zip([p["name"] for p in manifest["params"]], (a, b, c)))
    for record in manifest["launches"]:
        launch(module, record, {name: t.data_ptr() for name, t in tensors.items()})
    torch.cuda.synchronize()
    error = float((c - a.float() @ b.float().t()).abs().max())
    print(f"load_cubin.py: largest difference from PyTorch {error:.2g}")
    return 0 if error < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
