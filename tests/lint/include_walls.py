"""Who may include what, as a table, checked on every #include of the tree.

A rule maps a folder (longest prefix wins) to the Kiln folders and the outside headers that it may
include. Standard and POSIX headers are always allowed.
"""
import pathlib
import re
import subprocess
import sys

BASE = {"compiler/base"}
LAYOUT = BASE | {"compiler/layout"}
TARGET = LAYOUT | {"compiler/target"}
IR = TARGET | {"compiler/ir"}
LANG = IR | {"compiler/lang", "compiler/templates"}
ROOFLINE = LANG | {"compiler/roofline"}
PASSES = LANG | {"compiler/passes", "compiler/interp"}
CODEGEN = PASSES | {"compiler/codegen"}
COORDINATOR = ROOFLINE | {"compiler/passes", "coordinator", "proto", "kiln/v1"}

ABSL = {"absl/"}
HOST = ABSL | {"spdlog/", "nlohmann/", "CLI/", "google/protobuf/"}
GRPC = {"grpc/", "grpcpp/"}

RULES = {
    "compiler/base": (BASE, ABSL | {"openssl/"}),
    "compiler/layout": (LAYOUT, ABSL),
    "compiler/target": (TARGET, ABSL),
    "compiler/ir": (IR, ABSL),
    "compiler/lang": (LANG, ABSL),
    "compiler/templates": (BASE | {"compiler/templates"}, ABSL),
    "compiler/roofline": (ROOFLINE, ABSL),
    "compiler/passes": (PASSES, ABSL),
    "compiler/interp": (PASSES, ABSL),
    "compiler/codegen": (CODEGEN, ABSL | {"llvm/", "lld/", "nlohmann/"}),
    "compiler/codegen/runtime": (set(), {"kiln_launch.h"}),
    "compiler/tools": (CODEGEN | ROOFLINE | {"compiler/tools"}, ABSL | {"CLI/", "nlohmann/"}),
    "coordinator/core": (COORDINATOR, HOST),
    "coordinator/search": (COORDINATOR, HOST),
    "coordinator/store": (COORDINATOR, HOST | {"rocksdb/"}),
    "coordinator/rpc": (COORDINATOR, HOST | GRPC | {"prometheus/"}),
    "coordinator": (COORDINATOR, HOST | GRPC | {"prometheus/", "rocksdb/"}),
    "worker": (BASE | {"compiler/target", "worker", "kiln/v1", "proto/address.h"},
               HOST | GRPC | {"prometheus/"}),
    "worker/compile": (CODEGEN | {"worker", "kiln/v1", "proto/dispatch.h"}, HOST),
    "worker/profile": (LANG | {"compiler/interp", "compiler/passes", "compiler/codegen/runtime",
                               "worker", "kiln/v1", "proto/conditions.h", "proto/dispatch.h"}, HOST),
    "proto": (BASE | {"proto", "kiln/v1"}, ABSL),
    "client": (LANG | {"client", "proto", "kiln/v1"}, HOST | GRPC | {"yaml-cpp/"}),
}

STANDARD = re.compile(r"^(sys/|linux/|netinet/|arpa/|bits/)?[a-z_0-9]+(\.h)?$")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
KILN_ROOTS = ("compiler/", "coordinator/", "worker/", "client/", "proto/", "tests/", "kiln/v1/")


def rule_of(path):
    folder = path.parent
    while str(folder) != ".":
        if str(folder) in RULES:
            return RULES[str(folder)]
        folder = folder.parent
    return None


def allowed(header, rule):
    ours, outside = rule
    if header.startswith(KILN_ROOTS):
        return any(header == o or header.startswith(o + "/") for o in ours)
    if any(header.startswith(o) for o in outside):
        return True
    return "/" not in header.replace("sys/", "").replace("linux/", "").replace(
        "netinet/", "").replace("arpa/", "") and STANDARD.match(header) is not None


def violations(files, read):
    for name in files:
        path = pathlib.PurePosixPath(name)
        rule = rule_of(path)
        if rule is None or path.suffix not in (".h", ".cc", ".c"):
            continue
        for match in INCLUDE.finditer(read(name)):
            if not allowed(match.group(1), rule):
                yield f"{name}: may not include {match.group(1)}"


def self_test():
    bad = {"compiler/passes/x.cc": '#include "compiler/codegen/compile.h"',
           "compiler/ir/x.cc": '#include <grpcpp/grpcpp.h>',
           "coordinator/core/x.cc": '#include <rocksdb/db.h>',
           "client/x.cc": '#include "llvm/IR/Module.h"'}
    good = {"compiler/ir/x.cc": '#include "compiler/base/status.h"\n#include <vector>',
            "coordinator/store/x.cc": '#include <rocksdb/db.h>'}
    assert len(list(violations(bad, bad.get))) == len(bad), "a planted violation was not found"
    assert not list(violations(good, good.get)), "a clean include was refused"


def main():
    self_test()
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                           check=True).stdout.split("\n")
    found = list(violations(filter(None, files), lambda n: open(n, encoding="utf-8").read()))
    print("\n".join(found) or "include walls hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
