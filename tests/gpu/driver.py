#!/usr/bin/env python3
"""Calls shared objects of `kilnc emit -s so` on this machine's GPU, through the CUDA driver alone.

    driver.py PLAN.json

A process of its own, since a kernel may harm its context or never end. PLAN holds

    tensors   name: {"from": a file of its bytes or null, "to": the file for its bytes afterwards}
    launches  one after the other: {"library", "manifest": files, "tensors": {parameter: name},
              "values": {scalar or run-time dimension: number}}

A tensor that no file fills begins as bytes of 0xFF, NaN for floats. Exit code 1 and a sentence when
a call fails, or bytes beside a tensor changed."""
import ctypes
import json
import pathlib
import struct
import sys

GUARD = 4096  # bytes before and after each tensor
PATTERN = 0xA5
BITS = {"bool": 8, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "bfloat16": 16}


def problem():
    """Why no kernel can run here, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1)"
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the driver sees no GPU"
    return None


def checked(status, what):
    if status:
        raise SystemExit(f"{what}: CUDA error {status}")


class Device:
    """The first GPU's primary context."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        checked(self.cuda.cuInit(0), "cuInit")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        checked(self.cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
        checked(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "a context")
        checked(self.cuda.cuCtxSetCurrent(context), "a context")

    def put(self, data):
        """The address of a copy of `data`, between guards."""
        address, whole = ctypes.c_uint64(), len(data) + 2 * GUARD
        checked(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(whole)), "cuMemAlloc")
        guard = bytes([PATTERN]) * GUARD
        checked(self.cuda.cuMemcpyHtoD_v2(address, guard + data + guard, ctypes.c_size_t(whole)),
                "a copy to the device")
        return address.value + GUARD

    def get(self, address, size, name):
        whole = ctypes.create_string_buffer(size + 2 * GUARD)
        checked(self.cuda.cuMemcpyDtoH_v2(whole, ctypes.c_uint64(address - GUARD),
                                          ctypes.c_size_t(len(whole))), "a copy from the device")
        guard = bytes([PATTERN]) * GUARD
        if whole.raw[:GUARD] != guard or whole.raw[GUARD + size:] != guard:
            raise SystemExit(f"bytes beside '{name}' were written")
        return whole.raw[GUARD:GUARD + size]

    def wait(self):
        checked(self.cuda.cuCtxSynchronize(), "the kernel")


def bytes_of(param, values):
    """Of a dense tensor."""
    bits = BITS.get(param["dtype"])
    if bits is None:
        name = param["dtype"].split("_")[0]
        bits = int("".join(c for c in name if c.isdigit()))
    count = 1
    for size in param["shape"]:
        count *= size if isinstance(size, int) else eval(size, {}, values)  # noqa: S307 - our manifest
    return (count * bits + 7) // 8


def slot(kind, value):
    """A scalar as 64 bits: floats are their own bits in the low ones."""
    if kind in ("float32", "float64"):
        return int.from_bytes(struct.pack("<f" if kind == "float32" else "<d", value), "little")
    return int(value)


def table(device, first, param, values):
    """The address of a table of what lies one after the other from `first` on."""
    step = bytes_of({**param, "shape": param["shape"][1:]}, values)
    count = bytes_of(param, values) // step
    return device.put(struct.pack(f"<{count}Q", *(first + i * step for i in range(count))))


def call(device, launch, manifest, addresses):
    params, values = manifest["params"], launch["values"]
    words = []
    for param in params:
        if param["kind"] == "tensor":
            first = addresses[launch["tensors"][param["name"]]]
            words.append(ctypes.c_void_p(
                table(device, first, param, values) if param.get("table") else first))
    words += [ctypes.c_int64(slot(p["dtype"], values[p["name"]])) for p in params
              if p["kind"] != "tensor"]
    words += [ctypes.c_int64(values[name]) for name in manifest["dims"]]
    function = getattr(ctypes.CDLL(launch["library"]), manifest["name"])
    function.restype = ctypes.c_int32
    status = function(None, *words)
    if status:
        raise SystemExit(f"{manifest['name']} returned {status}")


def main():
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    device, addresses, sizes = Device(), {}, {}
    for name, tensor in plan["tensors"].items():
        if tensor["from"]:
            data = pathlib.Path(tensor["from"]).read_bytes()
            addresses[name], sizes[name] = device.put(data), len(data)
    for launch in plan["launches"]:
        manifest = json.loads(pathlib.Path(launch["manifest"]).read_text())
        for param in manifest["params"]:
            name = launch["tensors"].get(param["name"])
            if param["kind"] == "tensor" and name not in addresses:
                sizes[name] = bytes_of(param, launch["values"])
                addresses[name] = device.put(b"\xff" * sizes[name])
        call(device, launch, manifest, addresses)
        device.wait()
    for name, tensor in plan["tensors"].items():
        pathlib.Path(tensor["to"]).write_bytes(device.get(addresses[name], sizes[name], name))


if __name__ == "__main__":
    main()
