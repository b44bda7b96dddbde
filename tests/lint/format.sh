#!/usr/bin/env bash
# Every C++ file is as clang-format leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
git ls-files '*.cc' '*.h' '*.c' | xargs clang-format --dry-run --Werror 2>&1 | grep -E 'error' | head -20 && exit 1
echo "formatted"
