#include "compiler/passes/async_lanes.h"

#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/neighbours.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kLeastBytes = 4;  // of cp.async

struct Lane {
  const ir::Store* store;
  const ir::Load* load;
};

const ir::Store* OnlyStore(const Stmt& s) {
  if (const auto* store = s.As<ir::Store>()) return store;
  const auto* seq = s.As<ir::Seq>();
  const ir::Store* only = nullptr;
  for (const Stmt& child : seq != nullptr ? seq->stmts : std::vector<Stmt>()) {
    const ir::Store* store = OnlyStore(child);
    if (store == nullptr && !(child.As<ir::Seq>() && child.As<ir::Seq>()->stmts.empty())) return {};
    if (store == nullptr) continue;
    if (only != nullptr) return nullptr;
    only = store;
  }
  return only;
}

bool Collect(const std::vector<Stmt>& stmts, std::vector<Lane>* lanes) {
  for (const Stmt& s : stmts) {
    const ir::Store* store = OnlyStore(s);
    if (store == nullptr || store->way != ir::StoreWay::kAsync || store->predicate.defined()) {
      return false;
    }
    const auto* load = store->value.As<ir::Load>();
    if (load == nullptr || load->buffer->dtype != store->buffer->dtype) return false;
    lanes->push_back({store, load});
  }
  return true;
}

bool SameGuard(const Expr& a, const Expr& b) {
  return a.defined() == b.defined() && (!a.defined() || ir::Same(a, b));
}

bool IsGroup(const std::vector<Lane>& lanes, size_t first, size_t width, const ir::Facts& facts) {
  const Lane& lead = lanes[first];
  const auto elements = static_cast<int64_t>(width);
  if (!LiesAt(lead.store->buffer, lead.store->indices, elements, facts) ||
      !LiesAt(lead.load->buffer, lead.load->indices, elements, facts)) {
    return false;
  }
  for (size_t i = 1; i < width; ++i) {
    const Lane& lane = lanes[first + i];
    const auto distance = static_cast<int64_t>(i);
    if (!Follows(lead.store->indices, lane.store->indices, distance, facts) ||
        !Follows(lead.load->indices, lane.load->indices, distance, facts) ||
        !SameGuard(lead.load->predicate, lane.load->predicate)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Stmt AsyncCopies(const std::vector<Stmt>& stmts, const ir::Facts& facts) {
  std::vector<Lane> lanes;
  if (!Collect(stmts, &lanes) || lanes.empty()) return {};
  const int64_t bytes = lanes[0].store->buffer->dtype.bytes();
  for (size_t width = lanes.size(); static_cast<int64_t>(width) * bytes >= kLeastBytes;
       width /= 2) {
    bool all = lanes.size() % width == 0;
    for (size_t i = 0; all && i < lanes.size(); i += width) all = IsGroup(lanes, i, width, facts);
    if (!all) continue;
    std::vector<Stmt> copies;
    for (size_t i = 0; i < lanes.size(); i += width) {
      const auto& [store, load] = lanes[i];
      const Expr valid = load->predicate.defined() ? load->predicate : ir::MakeConst(1, kBool);
      copies.push_back(ir::MakeStmt<ir::Instruct>(
          store->loc, ir::Instruction::kAsyncCopy,
          std::vector<ir::Region>{RunFrom(store->buffer, store->indices, width),
                                  RunFrom(load->buffer, load->indices, width)},
          std::vector<Expr>{valid}));
    }
    return ir::MakeSeq(std::move(copies), stmts[0]->loc);
  }
  return {};
}

}  // namespace kiln::passes
