#!/usr/bin/env bash
# The one list of packages: everything that building, testing and running Kiln needs on a fresh
# Debian 12. Does nothing when all of it is there already. Needs root (or sudo) only to install.
set -euo pipefail

packages=(
  # build
  g++ cmake ninja-build ccache lld-19 clang-19 libclang-rt-19-dev llvm-19-dev liblld-19-dev
  libzstd-dev zlib1g-dev
  # libraries
  libabsl-dev libssl-dev libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc
  librocksdb-dev prometheus-cpp-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  # tests, benchmarks, lints
  libgtest-dev libgmock-dev libbenchmark-dev libopenblas-dev prometheus python3 python3-numpy clang-format chromium
  gcc git ca-certificates
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
echo "installing: ${missing[*]}" >&2
if [[ " ${missing[*]} " == *" prometheus "* ]] && command -v systemctl >/dev/null; then
  # Tests use its promtool; nobody asked for a server.
  "${as_root[@]}" systemctl mask prometheus.service >/dev/null 2>&1 || true
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
"${apt[@]}" update -qq
"${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
