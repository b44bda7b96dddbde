#!/usr/bin/env bash
# One relocatable archive with everything that a compile host or a GPU host needs: coordinator, worker
# and its children, tunectl, kilnc, examples. Runs on x86-64 Linux with glibc 2.36 or later. CUDA's
# driver, assembler and profiler are not in it: they are looked for where it runs. Without the profiler (CUPTI)
# events tell times, without an assembler the driver assembles PTX.
#
#   deploy/package.sh             build/package/kiln-linux-x86_64.tar.xz
#   deploy/package.sh --folder    build/package/kiln alone, not packed
set -euo pipefail
cd "$(dirname "$0")/.."

pack=true
for argument in "$@"; do
  case $argument in
    --folder) pack=false ;;
    *) echo "usage: deploy/package.sh [--folder]" >&2; exit 2 ;;
  esac
done

deploy/install_deps.sh
[ -f build/build.ninja ] || cmake -G Ninja -S . -B build >/dev/null
cmake --build build --target bundle

out=build/package
archive=$out/kiln-linux-x86_64.tar.xz
rm -rf "$out/kiln" "$archive.partial"
cmake --install build --component bundle --strip --prefix "$PWD/$out/kiln" >/dev/null
git rev-parse --verify --quiet HEAD >"$out/kiln/COMMIT" || echo unknown >"$out/kiln/COMMIT"
for program in "$out"/kiln/bin/*; do  # nothing may come from this machine but glibc
  missing=$(ldd "$program" | grep -E 'not found|=> /' |
    grep -vE "/kiln/bin/\.\./lib/|/lib(c|m|dl|rt|pthread|resolv)\.so|/ld-linux" || true)
  [ -z "$missing" ] || { echo "$program needs what is not packed: $missing" >&2; exit 1; }
done
$pack || exit 0
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -cf - kiln |
  xz -9e --lzma2=preset=9e,dict=128MiB >"$archive.partial"
size=$(stat -c %s "$archive.partial")
[ "$size" -le $((40 << 20)) ] || { echo "the archive has $size bytes, more than 40 MiB" >&2; exit 1; }
mv "$archive.partial" "$archive"  # the one before stays whole until then
ls -l "$archive"
