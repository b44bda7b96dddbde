#!/usr/bin/env bash
# The main job on a machine with a GPU and PyTorch, from the bundle, without a network: tunes the products,
# attention, convolution and kernels over rows that farm.py lists, then loads every winner in Python beside
# PyTorch and in a C program, checks its numbers in both, and times it beside cuBLAS, cuDNN and copies.
#
#   main_job.sh [OUT] [OPTIONS OF farm.py]     OUT, by default kiln_main_job, gets everything
#
# The programs are those of the bundle around this file, or of --bin.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in -*|"") out=$PWD/kiln_main_job ;; *) out=$1; shift ;; esac
if ! why=$(cd "$here" && python3 -c 'import driver, sys; sys.exit(driver.problem())' 2>&1); then
  echo "main_job.sh: nothing can be measured here: $why" >&2
  exit 1
fi
if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  echo "main_job.sh: python3 has no PyTorch that sees a GPU; the sweeps alone need none:" >&2
  echo "  $here/farm.py $out --main $*" >&2
  exit 1
fi
command -v cc gcc clang >/dev/null ||
  echo "main_job.sh: there is no C compiler (cc, gcc, clang): nothing will be called from C, and this fails" >&2
mkdir -p "$out"
status=0
echo "Seconds from submit to winner, tried, failed, median, seconds of checks and timing, winner"
python3 "$here/farm.py" "$out" --main "$@" | tee "$out/farm.txt" || status=1
echo "From Python: milliseconds, rate, the anchor's, above 1 is faster than the anchor"
python3 "$out/bench.py" | tee "$out/bench.txt" || status=1
echo "From C: relative error, its bound, microseconds with a warm cache"
python3 "$here/from_c.py" "$out" | tee "$out/from_c.txt" || status=1
echo "Rooflines: $out/rooflines"
exit $status
