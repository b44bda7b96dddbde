"""Calls the artifact by ctypes, on PyTorch's tensors and on its current stream."""
import ctypes
import pathlib
import sys

import torch


class Launch(ctypes.Structure):
    """kiln_launch: fields that are zero have their defaults."""
    _fields_ = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("stream", ctypes.c_void_p), ("device", ctypes.c_int32),
                ("threads", ctypes.c_int32), ("parallel_for", ctypes.c_void_p),
                ("pool", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_uint64)]


def main():
    library = ctypes.CDLL(str(pathlib.Path(sys.argv[1]).resolve()))
    library.kiln_matmul.argtypes = [ctypes.POINTER(Launch)] + [ctypes.c_void_p] * 3
    library.kiln_matmul.restype = ctypes.c_int32
    a = torch.randn(256, 384, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(512, 384, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(256, 512, device="cuda", dtype=torch.float32)
    launch = Launch(size=ctypes.sizeof(Launch), version=1,
                    stream=torch.cuda.current_stream().cuda_stream)
    status = library.kiln_matmul(ctypes.byref(launch), a.data_ptr(), b.data_ptr(), c.data_ptr())
    if status != 0:
        raise SystemExit(f"kiln_matmul: error {status}")
    error = float((c - a.float() @ b.float().t()).abs().max())
    print(f"call.py: largest difference from PyTorch {error:.2g}")
    return 0 if error < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
