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
  grep "no PyTorch that sees a GPU" <<<"$said"
fi
echo "the bundle works"
