#include "compiler/codegen/unrolled.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "compiler/ir/visit.h"

namespace kiln::codegen {
namespace {

constexpr int64_t kMostUnrolled = 1024;  // iterations of one loop
// Stores of a loop that is unrolled for speed alone: what it loads from tensors is then on its way
// at once; what it computes from elsewhere would only wait in registers.
constexpr int64_t kMostFetched = 64, kMostComputed = 32;
// Of a loop that is unrolled for the registers that it indexes, beyond so few steps. No loop of the
// templates has as many. A product is many instructions.
constexpr int64_t kFewSteps = 16, kMostNodes = 1 << 15, kNodesOfInstruction = 64;

bool IsOwn(const ir::Buffer& b) {
  return b->scope == ir::Scope::kRegister || b->scope == ir::Scope::kLocal ||
         b->scope == ir::Scope::kFragment;
}

// No loops inside, and few stores in all.
bool IsSmall(const ir::For& loop, int64_t trips) {
  bool loops = false, fetches = false;
  int64_t stores = 0;
  ir::Walk(
      loop.body,
      [&](const ir::Stmt& x) {
        loops |= x.kind() == ir::StmtKind::kFor || x.kind() == ir::StmtKind::kWhile;
        stores += x.kind() == ir::StmtKind::kStore ? 1 : 0;
        return !loops;
      },
      [&](const ir::Expr& e) {
        const auto* load = e.As<ir::Load>();
        fetches |= load != nullptr && load->buffer->scope == ir::Scope::kGlobal;
        return true;
      });
  return !loops && stores * trips <= (fetches ? kMostFetched : kMostComputed);
}

// Whether registers are indexed with the loop's variable, or with what is bound to it.
bool IndexesRegisters(const ir::For& loop) {
  std::unordered_set<const ir::ExprNode*> depends = {loop.axes[0].var.get()};
  const auto uses = [&](const ir::Expr& e) {
    bool found = false;
    ir::Walk(e, [&](const ir::Expr& x) {
      found |= depends.count(x.get()) > 0;
      return !found;
    });
    return found;
  };
  bool indexes = false;
  const auto check = [&](const ir::Buffer& b, const std::vector<ir::Expr>& indices) {
    indexes |= IsOwn(b) && std::any_of(indices.begin(), indices.end(), uses);
  };
  ir::Walk(
      loop.body,
      [&](const ir::Stmt& s) {
        if (const auto* bind = s.As<ir::Bind>(); bind != nullptr && uses(bind->value)) {
          depends.insert(bind->var.get());
        }
        if (const auto* store = s.As<ir::Store>()) check(store->buffer, store->indices);
        return !indexes;
      },
      [&](const ir::Expr& e) {
        if (const auto* load = e.As<ir::Load>()) check(load->buffer, load->indices);
        return !indexes;
      });
  return indexes;
}

// Nodes of a statement once loops that index registers are unrolled, if they are few.
int64_t NodesOf(const ir::Stmt& s) {
  int64_t nodes = 0;
  ir::Walk(
      s,
      [&](const ir::Stmt& x) {
        nodes += x.kind() == ir::StmtKind::kInstruct ? kNodesOfInstruction : 1;
        const auto* loop = x.As<ir::For>();
        if (loop == nullptr) return true;
        const int64_t trips = ir::ConstInt(loop->axes[0].extent).value_or(1);
        const int64_t inside = NodesOf(loop->body) * (IndexesRegisters(*loop) ? trips : 1);
        nodes = std::min(nodes + inside, kMostNodes + 1);
        return false;
      },
      [&](const ir::Expr&) {
        ++nodes;
        return true;
      });
  return nodes;
}

// Many steps of much work each, such as those of a pipelined loop that looks up what threads keep
// for each of them: unrolled they would fill the instruction caches and take minutes to compile;
// what they index lies in local memory instead.
bool IsTooLong(const ir::For& loop, int64_t trips) {
  return trips > kFewSteps && trips * NodesOf(loop.body) > kMostNodes;
}

// How often a loop runs; nullopt where nobody knows, or more often than any is unrolled.
std::optional<int64_t> TripsOf(const ir::For& loop) {
  const auto trips = ir::ConstInt(loop.axes[0].extent);
  return trips && *trips <= kMostUnrolled ? trips : std::nullopt;
}

}  // namespace

bool UnrollsForRegisters(const ir::For& loop) {
  const auto trips = TripsOf(loop);
  return trips && IndexesRegisters(loop) && !IsTooLong(loop, *trips);
}

bool UnrollsForSpeed(const ir::For& loop) {
  const auto trips = TripsOf(loop);
  return trips && IsSmall(loop, *trips);
}

}  // namespace kiln::codegen
