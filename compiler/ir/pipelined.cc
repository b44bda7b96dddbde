#include "compiler/ir/pipelined.h"

#include <algorithm>

namespace kiln::ir {
namespace {

bool IsPipelined(const Stmt& s) {
  const auto* loop = s.As<For>();
  return loop != nullptr && loop->loop == ForKind::kPipelined;
}

// The row inside of a statement that is passed through; null for others.
const Seq* Inside(const Stmt& s) {
  const auto* loop = s.As<For>();
  if (loop != nullptr && loop->loop == ForKind::kSerial) return loop->body.As<Seq>();
  const auto* branch = s.As<If>();
  if (branch != nullptr && !branch->else_case.defined()) return branch->then_case.As<Seq>();
  return nullptr;
}

std::vector<Row> PathFrom(const Seq& seq) {
  const auto found = std::find_if(seq.stmts.begin(), seq.stmts.end(), IsPipelined);
  if (found != seq.stmts.end()) return {{&seq, *found}};
  std::vector<Row> path;
  for (const Stmt& s : seq.stmts) {
    const Seq* inside = Inside(s);
    if (inside == nullptr) continue;
    const std::vector<Row> rest = PathFrom(*inside);
    if (rest.empty()) continue;
    if (!path.empty()) return {};
    path = {{&seq, s}};
    path.insert(path.end(), rest.begin(), rest.end());
  }
  return path;
}

}  // namespace

std::vector<Row> PathToPipelined(const Launch& launch) {
  const auto* seq = launch.body.As<Seq>();
  return seq != nullptr ? PathFrom(*seq) : std::vector<Row>();
}

}  // namespace kiln::ir
