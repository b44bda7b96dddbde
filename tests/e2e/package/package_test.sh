#!/usr/bin/env bash
# The bundle works where it was not built: moved elsewhere, with an empty environment, no library of
# this machine but glibc's is loaded, and a kernel is tuned from end to end.
set -euo pipefail
cd "$(dirname "$0")/../../.."
deploy/package.sh --folder >/dev/null
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
cp -r build/package/kiln "$there/moved"
cd "$there"
for program in kilnc kiln-compile kiln-runner kiln-worker kiln-coordinator tunectl; do
  foreign=$(env -i LD_TRACE_LOADED_OBJECTS=1 "moved/bin/$program" | grep '=> /' |
    grep -vE "=> $there/moved/bin/\.\./lib/|=> /lib[^ ]*/(lib(c|m|dl|rt|pthread|resolv)\.so|ld-linux)" || true)
  [ -z "$foreign" ] || { echo "$program loads $foreign"; exit 1; }
done
env -i moved/bin/kilnc run template:softmax -a M=8 -a N=64 | grep agrees
# Nothing in it asks for more of glibc than it promises to.
newest=$(objdump -T moved/bin/* moved/lib/*.so* 2>/dev/null | grep -oE 'GLIBC_[0-9]+\.[0-9.]+' | sort -uV | tail -1 || true)
[ -n "$newest" ] || { echo "no version of glibc is read from the bundle"; exit 1; }
[ "$(printf '%s\nGLIBC_2.36\n' "$newest" | sort -V | tail -1)" = GLIBC_2.36 ] ||
  { echo "the bundle needs $newest, but promises to run with glibc 2.36"; exit 1; }
# Without an assembler the worker says what is missing and where it looked, and artifacts for GPUs hold PTX, which
# the driver assembles.
mkdir none
hidden='mount -t tmpfs none /usr/local && exec "$@"'
if unshare -rm sh -c "$hidden" - true 2>/dev/null; then
  env -i HOME="$there" PATH=/usr/bin:/bin KILN_CUDA_PATH="$there/none" unshare -rm sh -c "$hidden" - \
    timeout 20 moved/bin/kiln-worker --coordinator "unix:$there/none/s" --profile-slots 0 \
    --compile-slots 1 --work-dir "$there/work" >worker.log 2>&1 &
  for _ in $(seq 100); do grep -q 'compiling does without' worker.log && break; sleep 0.1; done
  kill $! 2>/dev/null || true
  grep 'compiling does without: no assembler for GPU code: no ptxas in .* or on the path; ' worker.log
  grep -q "no nvJitLink.*until then the GPU's driver assembles each kernel" worker.log
  emit() {
    env -i PATH=/usr/bin:/bin KILN_CUDA_PATH="$there/none" unshare -rm sh -c "$hidden" - \
      moved/bin/kilnc emit template:softmax -a M=8 -a N=64 --arch sm_90a "$@"
  }
  emit --stage so -o ptx.so --manifest ptx.json
  grep -q '"assembler": *"the driver"' ptx.json
  grep -q '"launches"' ptx.json
  grep -qa '^\.target sm_90a' ptx.so
  said=$(emit --stage cubin -o ptx.cubin 2>&1) && { echo "a cubin of no assembler: $said"; exit 1; }
  grep -q 'no assembler for GPU code' <<<"$said"
else
  echo "not tested here: what is said without an assembler (no user namespaces to hide this machine's)"
fi
# A winner is not called from C where there is no C compiler; that is no success.
mkdir bare
python=$(python3 -c 'import sys; print(sys.executable)')
said=$(env -i PATH="$there/bare" "$python" moved/job/gpu/from_c.py out 2>&1) && { echo "from_c.py: $said"; exit 1; }
grep "no C compiler" <<<"$said"
cat >sweep.yaml <<'Y'
template: matmul
sweeps:
  - name: small
    shapes: {M: 64, N: 64, K: 64}
    tunables: {block_M: [32], block_N: [32], block_K: [16]}
Y
env -i HOME="$there" PATH=/usr/bin:/bin moved/bin/tunectl tune sweep.yaml --store store -o out
ls out | grep '\.so$'
# Without a GPU the main job says so before it starts anything.
if ! [ -e /dev/nvidiactl ]; then
  said=$(env -i PATH=/usr/bin:/bin moved/job/gpu/main_job.sh job 2>&1) && { echo "it ran: $said"; exit 1; }
  grep -E "nothing can be measured here: (there is no NVIDIA driver|the driver sees no GPU)" <<<"$said"
fi
echo "the bundle works"
