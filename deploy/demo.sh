#!/usr/bin/env bash
# The main job on this machine: installs, builds, tunes the kernels of deploy/demo/sweeps.yaml with
# an embedded farm, fetches each winner, links it into a small C program that checks its numbers,
# times it against its anchor, and prints one table and a roofline picture.
#
#   deploy/demo.sh            winners that the store has are answered from it
#   deploy/demo.sh --fresh    tunes again
#
# Results land in build/demo: report.txt, roofline.svg, and the winners.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=()
for argument in "$@"; do
  case $argument in
    --fresh) fresh=(--fresh) ;;
    *) echo "usage: deploy/demo.sh [--fresh]" >&2; exit 2 ;;
  esac
done

deploy/install_deps.sh
[ -f build/build.ninja ] || cmake -G Ninja -S . -B build >/dev/null
cmake --build build --target kiln-coordinator kiln-worker kiln-compile kiln-runner tunectl kilnc \
  kiln-anchors

out=build/demo
mkdir -p "$out"
status=0
build/bin/tunectl --json tune deploy/demo/sweeps.yaml --store "$out/store" -o "$out/winners" \
  "${fresh[@]}" >"$out/tune.json" || status=$?
[ "$status" = 0 ] || echo "some sweeps did not finish (tunectl exit code $status)" >&2
python3 deploy/demo/report.py "$out" | tee "$out/report.txt"
exit "${PIPESTATUS[0]}"
