#!/usr/bin/env bash
# The test command: installs what is missing, builds, and runs every test that needs no GPU.
#
#   tests/run.sh          all tests (the configuration of build/)
#   tests/run.sh asan     with AddressSanitizer and UndefinedBehaviorSanitizer, in build/asan
#   tests/run.sh tsan     coordinator, worker and client with ThreadSanitizer, in build/tsan
#   tests/run.sh no_cuda  as on a machine without the CUDA Toolkit, in build/no_cuda
#   tests/run.sh -L unit  further arguments go to ctest
set -euo pipefail
cd "$(dirname "$0")/.."

configuration=default
case "${1:-}" in
  asan | tsan | no_cuda) configuration=$1; shift ;;
  "" | -*) ;;
  *) echo "tests/run.sh: '$1' is no configuration: asan, tsan or no_cuda" >&2; exit 2 ;;
esac
build=build
[ "$configuration" = default ] || build=build/$configuration

deploy/install_deps.sh
if [ ! -f "$build/build.ninja" ]; then
  cache=()
  [ "$configuration" = default ] || cache=(-C "deploy/cmake/$configuration.cmake")
  cmake -G Ninja "${cache[@]}" -S . -B "$build"
fi
target=all selection=()
[ "$configuration" != tsan ] || target=tests_farm selection=(-L farm)
cmake --build "$build" --target "$target"

ctest --test-dir "$build" --output-on-failure --no-tests=error -j 2 -LE 'bench|gpu' \
  "${selection[@]}" "$@"
