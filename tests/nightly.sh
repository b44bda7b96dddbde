#!/usr/bin/env bash
# What does not fit into every change's tests: the nightly list. Needs some hours on two cores.
#
#   tests/nightly.sh [OUT]    one log an item in OUT (default build/nightly), one line an item here
#
# Sets up and builds like tests/run.sh. Exits 1 when an item fails.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/nightly}
mkdir -p "$out"
failed=0

item() {
  local name=$1 start=$SECONDS
  shift
  if "$@" > "$out/$name.txt" 2>&1; then verdict=ok; else verdict=FAILED failed=1; fi
  echo "$name $verdict $((SECONDS - start)) s, see $out/$name.txt"
}

fuzz() {  # an hour over parser and elaborator with AddressSanitizer, beginning from the kernels here
  local seeds=$out/corpus
  mkdir -p "$seeds"
  find tests/golden tests/fuzz/lang/seeds tests/kernels compiler/templates client/examples -name '*.py' \
    -exec sh -c 'cp "$1" "$2/$(sha256sum "$1" | cut -c1-16)"' _ {} "$seeds" \;
  cmake -G Ninja -S . -B build/fuzz -DCMAKE_CXX_FLAGS="-fsanitize=fuzzer-no-link,address" &&
    cmake --build build/fuzz --target lang_libfuzzer &&
    build/fuzz/bin/lang_libfuzzer -max_len=8000 -timeout=120 -rss_limit_mb=4000 \
      -max_total_time=3600 -artifact_prefix="$out/" -print_final_stats=1 "$seeds"
}

item suite tests/run.sh
item assemble python3 tests/nightly/templates.py assemble
item registers python3 tests/bench/recommender/registers.py --arch sm_90a --least-fit 0.995
item interpret python3 tests/nightly/templates.py interpret
item random python3 tests/nightly/random_kernels.py
item asan tests/run.sh asan
item tsan tests/run.sh tsan
item fuzz fuzz
exit $failed
