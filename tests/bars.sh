#!/usr/bin/env bash
# Re-measures a table of bars on this machine: tests/bars.sh TABLE [BAR ...]
#
# One line a bar: name value bar ok|short|skipped why. Exit code 0 when no bar is short and none is
# skipped without a committed result, 2 when one is skipped so, 1 otherwise. BAR names pick some.
# Nothing else should run on the machine meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  straight-line) shift; exec python3 tests/bars/straight_line.py "$@" ;;
  language) shift; exec python3 tests/bars/language.py "$@" ;;
  layouts) shift; exec python3 tests/bars/layouts.py "$@" ;;
  gpu-compiler) shift; exec python3 tests/bars/gpu_compiler.py "$@" ;;
  gpu-workers) shift; exec python3 tests/bars/gpu_workers.py "$@" ;;
  *) echo "usage: tests/bars.sh straight-line|language|layouts|gpu-compiler|gpu-workers [BAR ...]" >&2; exit 64 ;;
esac
