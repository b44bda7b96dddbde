// The order in which Python evaluates the parts of an expression. A read of memory becomes part of
// the statement that the expression ends in, which comes behind those that a macro in a later part
// emits: where these change what was read, the expression is refused.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

constexpr int kMostNested = 20;  // tuples that are looked through

void AddLoads(const ir::Expr& e, std::set<const ir::BufferNode*>* out) {
  ir::Walk(e, [&](const ir::Expr& part) {
    if (const auto* load = part.As<ir::Load>()) out->insert(load->buffer.get());
    return true;
  });
}

// The buffers whose elements the value stands for, not yet read.
void AddReads(const Value& v, int depth, std::set<const ir::BufferNode*>* out) {
  if (v.Is(Type::kExpr) && (v.expr().info.flags & ExprInfo::kLoads) != 0) {
    AddLoads(v.expr().expr, out);
  } else if (v.Is(Type::kAccess) && v.access().is_point) {
    out->insert(v.access().buffer.get());
    for (const AccessIndex& index : v.access().indices) AddLoads(index.min, out);
  } else if (v.Is(Type::kBuffer) && v.buffer().buffer->scope == ir::Scope::kVar) {
    out->insert(v.buffer().buffer.get());
  } else if (v.Is(Type::kSlice)) {
    for (const Value& part : {v.slice().start, v.slice().stop, v.slice().step}) {
      AddReads(part, depth, out);
    }
  } else if (v.Is(Type::kTuple) && depth < kMostNested) {
    for (const Value& item : v.seq().items) AddReads(item, depth + 1, out);
  }
}

}  // namespace

Moment Elaborator::Now() const {
  if (regions_.empty()) return {};
  return {regions_.back().id, regions_.back().stmts.size()};
}

absl::Status Elaborator::CheckStillHolds(const Value& read, const Moment& then, SourceLoc loc) {
  if (regions_.empty() || regions_.back().id != then.region) return absl::OkStatus();
  const std::vector<ir::Stmt>& stmts = regions_.back().stmts;
  if (stmts.size() <= then.statements) return absl::OkStatus();
  std::set<const ir::BufferNode*> reads;
  AddReads(read, 0, &reads);
  if (reads.empty()) return absl::OkStatus();
  const auto memory = [&](const ir::BufferNode* buffer) {
    const auto view = std::find_if(views_.begin(), views_.end(),
                                   [&](const ir::View& v) { return v.view.get() == buffer; });
    return view == views_.end() ? buffer : view->base.get();
  };
  std::set<const ir::BufferNode*> places;
  for (const ir::BufferNode* buffer : reads) places.insert(memory(buffer));
  for (size_t i = then.statements; i < stmts.size(); ++i) {
    KILN_RETURN_IF_ERROR(Step(loc));
    for (const ir::Buffer& written : ir::BuffersWritten(stmts[i])) {
      if (!places.contains(memory(written.get()))) continue;
      return Error(loc,
                   absl::StrCat("'", written->name, "' is read here, and changed by what the same ",
                                "expression calls later"),
                   "give the value a name in a statement before, or call the macro there");
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang
