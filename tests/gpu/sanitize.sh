#!/usr/bin/env bash
# Runs the cases beside this file under compute-sanitizer: memcheck and racecheck of our kernels alone.
# First that memcheck sees anything: an output of half the size must be reported.
set -euo pipefail
cd "$(dirname "$0")"
export PYTORCH_NO_CUDA_MEMORY_CACHING=1  # allocations of their own size
check() { compute-sanitizer --error-exitcode 9 --kernel-regex kns=kiln_ "$@"; }
if check --tool memcheck python3 - > planted.txt 2>&1 <<'P'
import json, pathlib, ctypes, torch
from kernels import Kernel
case = next(c for c in json.loads(pathlib.Path("cases.json").read_text()) if c["kind"] == "softmax")
kernel = Kernel(case, pathlib.Path(".").resolve())
half = torch.empty(kernel.output.numel() // 2, dtype=kernel.output.dtype, device="cuda")
kernel.pointers[-1] = ctypes.c_void_p(half.data_ptr())
kernel()
torch.cuda.synchronize()
P
then
  echo "memcheck does not see an output that is too small"; exit 1
fi
grep -m 1 "Invalid __global__ write" planted.txt
for tool in memcheck racecheck; do
  check --tool "$tool" python3 check.py > "$tool.txt" 2>&1 || { tail -20 "$tool.txt"; exit 1; }
  echo "$tool: $(grep -c ' ok$' "$tool.txt") cases, $(grep SUMMARY "$tool.txt")"
done
