#!/usr/bin/env bash
# Every C++ file is as clang-format leaves it.
set -uo pipefail
cd "$(dirname "$0")/../.."
if ! git ls-files '*.cc' '*.h' '*.c' | xargs clang-format --dry-run --Werror 2>/tmp/kiln-format.$$; then
  grep 'error:' "/tmp/kiln-format.$$" | head -20
  rm -f "/tmp/kiln-format.$$"
  echo "run: git ls-files '*.cc' '*.h' '*.c' | xargs clang-format -i"
  exit 1
fi
rm -f "/tmp/kiln-format.$$"
echo "formatted"
