#include "compiler/ir/pipelined.h"

#include <algorithm>

namespace kiln::ir {
namespace {

bool IsPipelined(const Stmt& s) {
  const auto* loop = s.As<For>();
  return loop != nullptr && loop->loop == ForKind::kPipelined;
}

// The row inside of a statement that is passed through; empty for others.
std::vector<Stmt> Inside(const Stmt& s) {
  const auto* loop = s.As<For>();
  if (loop != nullptr && loop->loop == ForKind::kSerial) return RowOf(loop->body);
  const auto* branch = s.As<If>();
  if (branch != nullptr && !branch->else_case.defined()) return RowOf(branch->then_case);
  return {};
}

std::vector<Row> PathFrom(const std::vector<Stmt>& row) {
  const auto found = std::find_if(row.begin(), row.end(), IsPipelined);
  if (found != row.end()) return {{row, *found}};
  std::vector<Row> path;
  for (const Stmt& s : row) {
    const std::vector<Row> rest = PathFrom(Inside(s));
    if (rest.empty()) continue;
    if (!path.empty()) return {};
    path = {{row, s}};
    path.insert(path.end(), rest.begin(), rest.end());
  }
  return path;
}

}  // namespace

std::vector<Stmt> RowOf(const Stmt& body) {
  const auto* seq = body.As<Seq>();
  return seq != nullptr ? seq->stmts : std::vector<Stmt>{body};
}

std::vector<Row> PathToPipelined(const Launch& launch) { return PathFrom(RowOf(launch.body)); }

}  // namespace kiln::ir
