#!/usr/bin/env bash
# Compiles the kernel and runs every program of this folder on it; see README.md.
#
#   run.sh KILNC [FOLDER]     what is built goes to FOLDER, by default a temporary one
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: run.sh KILNC [FOLDER]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
kilnc=$1
out=${2:-$(mktemp -d)}
cuda=${CUDA_HOME:-/usr/local/cuda}
kernel=(template:matmul -a M=256 -a N=512 -a K=384 -a trans_B=True -a "dtype='bfloat16'"
  --arch sm_90a)
mkdir -p "$out"
"$kilnc" emit "${kernel[@]}" --stage so -o "$out/kiln_matmul.so"
"$kilnc" emit "${kernel[@]}" --stage header -o "$out/matmul.h"
"$kilnc" emit "${kernel[@]}" --stage cubin -o "$out/matmul.cubin" --manifest "$out/matmul.json"
flags=(-I"$out" -I"$cuda/include" -L"$out" -l:kiln_matmul.so -Wl,-rpath,"$out" -L"$cuda/lib64" -lcudart
  -Wl,-rpath,"$cuda/lib64" -lm)
cc -O2 "$here/call.c" "${flags[@]}" -o "$out/call_c"
c++ -O2 -std=c++17 -pthread "$here/call.cc" "${flags[@]}" -o "$out/call_cc"
"$out/call_c"
"$out/call_cc"
python3 "$here/call.py" "$out/kiln_matmul.so"
python3 "$here/load_cubin.py" "$out/matmul.cubin" "$out/matmul.json"
