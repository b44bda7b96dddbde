#include "compiler/lang/tensor_memory.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/tensor_tiles.h"

namespace kiln::lang {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using Stmts = std::vector<Stmt>;
using Span = std::pair<int64_t, int64_t>;  // first thread, count

constexpr int64_t kMostParts = 32;                                 // of a tile, each for itself
constexpr int64_t kColumns = 512, kColumnBits = 32, kLanes = 128;  // PTX 9.7.17.1

bool IsTensor(const Buffer& b) { return b->scope == ir::Scope::kTensor; }

std::string NameOf(const Span& span) {
  return absl::StrCat("threads ", span.first, " to ", span.first + span.second - 1);
}

bool IsElementLoop(const ir::For& loop) {
  return loop.loop == ir::ForKind::kParallel || loop.loop == ir::ForKind::kVectorized;
}

// ---- whose a tile is ----

struct Tile {
  std::set<Span> movers;  // who copies it, or looks at its elements
  bool is_result = false;
};
struct Product {
  const ir::Gemm* gemm = nullptr;
  Span issued;
};

class Owners {
 public:
  Owners(const ir::Program& program, const ir::Launch& launch) : program_(program) {
    int64_t threads = 1;
    for (const Expr& extent : launch.threads) threads *= ir::ConstInt(extent).value_or(1);
    block_ = {0, threads};
    See(launch.body, block_);
  }

  const Span& block() const { return block_; }

  // Who does each product, and how each tile lies.
  absl::Status Decide() {
    for (const auto& [buffer, tile] : tiles_) {
      if (!tile.is_result || tile.movers.size() < 2) continue;
      return ir::ErrorAt(
          program_, loc_[buffer],
          absl::StrCat("'", buffer->name, "' in tensor memory is moved by ",
                       NameOf(*tile.movers.begin()), " and by ", NameOf(*tile.movers.rbegin())),
          "let the same threads copy a tile of tensor memory to registers and back; "
          "pass it on through shared memory",
          absl::StatusCode::kUnimplemented);
    }
    for (const Product& product : products_) {
      const Buffer& c = product.gemm->c.buffer;
      const Tile* result = Find(c);
      Span by = product.issued;
      if (result != nullptr && !result->movers.empty()) by = *result->movers.begin();
      if (by != product.issued) moved_[product.gemm] = by;
      for (const ir::Region* region : {&product.gemm->a, &product.gemm->b}) {
        const Buffer& operand = region->buffer;
        const Tile* tile = Find(operand);
        if (tile == nullptr) continue;
        const bool same = tile->movers.size() == 1 && *tile->movers.begin() == by &&
                          (tile->is_result || IsConstant(*region));
        if (same || (tile->movers.empty() && tile->is_result)) continue;
        if (tile->is_result) return OfTwo(*product.gemm, operand, by);
        in_shared_.insert(operand.get());
      }
    }
    return absl::OkStatus();
  }

  bool Moves(const Stmt& s) const { return moved_.count(s.get()) > 0; }
  const Span& By(const Stmt& s) const { return moved_.at(s.get()); }
  bool moves() const { return !moved_.empty(); }
  bool InShared(const ir::BufferNode* b) const { return in_shared_.count(b) > 0; }

 private:
  absl::Status OfTwo(const ir::Gemm& gemm, const Buffer& operand, const Span& by) const {
    return ir::ErrorAt(
        program_, gemm.loc,
        absl::StrCat("'", operand->name, "', the result of a product, is an operand ",
                     "of one whose result ", NameOf(by), " move"),
        "copy it to a tile of shared memory first", absl::StatusCode::kUnimplemented);
  }

  static bool IsConstant(const ir::Region& region) {
    return std::all_of(region.ranges.begin(), region.ranges.end(),
                       [](const ir::Range& range) { return ir::ConstInt(range.min).has_value(); });
  }

  const Tile* Find(const Buffer& b) const {
    const auto known = tiles_.find(b.get());
    return known == tiles_.end() ? nullptr : &known->second;
  }

  void See(const Stmt& s, const Span& span) {
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& x : seq->stmts) See(x, span);
    } else if (const auto* part = s.As<ir::OnThreads>()) {
      See(part->body, {part->first, part->count});
    } else if (const auto* loop = s.As<ir::For>(); loop != nullptr && !IsElementLoop(*loop)) {
      See(loop->body, span);
    } else if (const auto* endless = s.As<ir::While>()) {
      See(endless->body, span);
    } else if (const auto* branch = s.As<ir::If>()) {
      See(branch->then_case, span);
      if (branch->else_case.defined()) See(branch->else_case, span);
    } else if (const auto* alloc = s.As<ir::Alloc>()) {
      if (!IsTensor(alloc->buffer)) return;
      tiles_[alloc->buffer.get()];
      loc_[alloc->buffer.get()] = s->loc;
    } else if (const auto* gemm = s.As<ir::Gemm>()) {
      bool any = false;
      for (const ir::Region* r : TileRegions(s)) any = any || IsTensor(r->buffer);
      if (IsTensor(gemm->c.buffer)) tiles_[gemm->c.buffer.get()].is_result = true;
      if (any) products_.push_back({gemm, span});
    } else {
      for (const auto& used : {ir::BuffersRead(s), ir::BuffersWritten(s)}) {
        for (const Buffer& b : used) {
          if (IsTensor(b)) tiles_[b.get()].movers.insert(span);
        }
      }
    }
  }

  struct ByName {  // a launch names each buffer once
    bool operator()(const ir::BufferNode* a, const ir::BufferNode* b) const {
      return a->name != b->name ? a->name < b->name : a < b;
    }
  };

  const ir::Program& program_;
  Span block_;
  std::map<const ir::BufferNode*, Tile, ByName> tiles_;
  std::map<const ir::BufferNode*, SourceLoc> loc_;
  std::vector<Product> products_;
  std::map<const ir::StmtNode*, Span> moved_;
  std::set<const ir::BufferNode*> in_shared_;
};

// ---- products to those whose they are ----

// Takes parts apart around products that other threads do. Conditions and loops around those, and
// variables that they depend on, become the block's.
class Mover {
 public:
  explicit Mover(const Owners& owners) : owners_(owners) {}

  Stmt Move(const Stmt& body) {
    for (size_t known = SIZE_MAX; known != needed_.size();) {
      known = needed_.size();
      Look(body, false);
    }
    Stmts out;
    Block(body, &out);
    return ir::MakeSeq(std::move(out), body->loc);
  }

 private:
  void Need(const Expr& e) {
    if (!e.defined()) return;
    ir::Walk(e, [&](const Expr& x) {
      const auto* load = x.As<ir::Load>();
      if (load != nullptr && load->buffer->scope == ir::Scope::kVar) {
        needed_.insert(load->buffer.get());
      }
      return true;
    });
  }

  // Whether `s`, of a part, holds something that does not stay in the part.
  bool Leaves(const Stmt& s) const {
    bool leaves = false;
    ir::Walk(s, [&](const Stmt& x) {
      const auto* store = x.As<ir::Store>();
      leaves = leaves || owners_.Moves(x) ||
               (store != nullptr && needed_.count(store->buffer.get()) > 0);
      return !leaves;
    });
    return leaves;
  }

  // Notes what variables are needed for what leaves the part; `inside` of a part that it leaves.
  void Look(const Stmt& s, bool inside) {
    if (const auto* part = s.As<ir::OnThreads>()) return Look(part->body, Leaves(part->body));
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& x : seq->stmts) Look(x, inside);
      return;
    }
    const bool leaves = inside && Leaves(s);
    if (const auto* loop = s.As<ir::For>(); loop != nullptr && !IsElementLoop(*loop)) {
      if (leaves) {
        Need(loop->axes[0].min);
        Need(loop->axes[0].extent);
      }
      Look(loop->body, inside);
    } else if (const auto* endless = s.As<ir::While>()) {
      if (leaves) Need(endless->condition);
      Look(endless->body, inside);
    } else if (const auto* branch = s.As<ir::If>()) {
      if (leaves) Need(branch->condition);
      Look(branch->then_case, inside);
      if (branch->else_case.defined()) Look(branch->else_case, inside);
    } else if (const auto* bind = s.As<ir::Bind>()) {
      if (inside) Need(bind->value);
    } else if (const auto* alloc = s.As<ir::Alloc>()) {
      if (inside) Need(alloc->init);
    } else if (leaves) {
      ir::Walk(
          s, [](const Stmt&) { return true; },
          [&](const Expr& e) {
            Need(e);
            return false;
          });
    }
  }

  // Statements of the block.
  void Block(const Stmt& s, Stmts* out) {
    if (const auto* part = s.As<ir::OnThreads>()) {
      if (!Leaves(part->body)) return out->push_back(s);
      return Part(part->body, {part->first, part->count}, out);
    }
    if (owners_.Moves(s)) return out->push_back(Product(s));
    if (Inner(s, out, [&](const Stmt& x, Stmts* to) { Block(x, to); })) return;
    out->push_back(s);
  }

  // Statements of a part, to be the block's or the part's.
  void Part(const Stmt& s, const Span& part, Stmts* out) {
    if (s.kind() == ir::StmtKind::kBind || s.kind() == ir::StmtKind::kAlloc ||
        s.kind() == ir::StmtKind::kOnThreads) {
      return Block(s, out);
    }
    if (s.kind() == ir::StmtKind::kSeq || Leaves(s)) {
      if (s.kind() == ir::StmtKind::kStore || owners_.Moves(s)) return Block(s, out);
      if (Inner(s, out, [&](const Stmt& x, Stmts* to) { Part(x, part, to); })) return;
    }
    const auto* last = out->empty() ? nullptr : out->back().As<ir::OnThreads>();
    if (last != nullptr && Span{last->first, last->count} == part) {
      const Stmt both = ir::MakeSeq({last->body, s}, last->loc);
      out->back() = ir::MakeStmt<ir::OnThreads>(last->loc, part.first, part.second, both);
      return;
    }
    out->push_back(ir::MakeStmt<ir::OnThreads>(s->loc, part.first, part.second, s));
  }

  // Where `s` is a list, loop or branch: the same with what it holds made over by `each`.
  template <typename F>
  bool Inner(const Stmt& s, Stmts* out, const F& each) {
    const auto made = [&](const Stmt& body) {
      Stmts inner;
      each(body, &inner);
      return ir::MakeSeq(std::move(inner), body->loc);
    };
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& x : seq->stmts) each(x, out);
    } else if (const auto* loop = s.As<ir::For>(); loop != nullptr && !IsElementLoop(*loop)) {
      out->push_back(ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, made(loop->body),
                                           loop->num_stages, loop->annotations));
    } else if (const auto* endless = s.As<ir::While>()) {
      out->push_back(ir::MakeStmt<ir::While>(s->loc, endless->condition, made(endless->body)));
    } else if (const auto* branch = s.As<ir::If>()) {
      const Stmt no = branch->else_case.defined() ? made(branch->else_case) : Stmt();
      out->push_back(ir::MakeStmt<ir::If>(s->loc, branch->condition, made(branch->then_case), no));
    } else {
      return false;
    }
    return true;
  }

  Stmt Product(const Stmt& s) const {
    const Span& by = owners_.By(s);
    if (by == owners_.block()) return s;
    return ir::MakeStmt<ir::OnThreads>(s->loc, by.first, by.second, s);
  }

  const Owners& owners_;
  std::set<const ir::BufferNode*> needed_;
};

// ---- what is left of the parts ----

// Takes variables away that nothing but themselves looks at, and what holds nothing without them.
class Unread : public ir::Mutator {
 public:
  explicit Unread(const Stmt& body) {
    std::vector<const ir::Store*> stores;
    ir::Walk(
        body,
        [&](const Stmt& s) {
          const auto* store = s.As<ir::Store>();
          if (store == nullptr || store->buffer->scope != ir::Scope::kVar) return true;
          stores.push_back(store);
          return false;
        },
        [&](const Expr& e) {
          ReadAll(e);
          return false;
        });
    for (size_t known = SIZE_MAX; known != read_.size();) {
      known = read_.size();
      for (const ir::Store* store : stores) {
        if (read_.count(store->buffer.get()) == 0) continue;
        for (const Expr& e : {store->value, store->predicate}) {
          if (e.defined()) ReadAll(e);
        }
      }
    }
  }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* alloc = s.As<ir::Alloc>();
    const auto* store = s.As<ir::Store>();
    const Buffer b = alloc != nullptr ? alloc->buffer : store != nullptr ? store->buffer : nullptr;
    const Stmt nothing = ir::MakeSeq({}, s->loc);
    if (b != nullptr) {
      return b->scope == ir::Scope::kVar && read_.count(b.get()) == 0 ? nothing : s;
    }
    const Stmt rest = RebuildStmt(s);
    const auto empty = [](const Stmt& x) {
      const auto* seq = x.As<ir::Seq>();
      return !x.defined() || (seq != nullptr && seq->stmts.empty());
    };
    const auto* part = rest.As<ir::OnThreads>();
    const auto* loop = rest.As<ir::For>();
    const auto* branch = rest.As<ir::If>();
    if (part != nullptr && empty(part->body)) return nothing;
    if (loop != nullptr && empty(loop->body)) return nothing;
    if (branch != nullptr && empty(branch->then_case) && empty(branch->else_case)) return nothing;
    return rest;
  }

 private:
  void ReadAll(const Expr& e) {
    ir::Walk(e, [&](const Expr& x) {
      if (const auto* load = x.As<ir::Load>()) read_.insert(load->buffer.get());
      return true;
    });
  }

  std::set<const ir::BufferNode*> read_;
};

// Whether `loop` counts parts of a tile: those of a fragment are known at compile time.
bool CountsParts(const ir::For& loop, const Owners& owners) {
  const std::optional<int64_t> turns = ir::ConstInt(loop.axes[0].extent);
  bool counts = false;
  ir::VarMap names;
  ir::Walk(loop.body, [&](const Stmt& s) {
    if (const auto* bind = s.As<ir::Bind>()) {
      names[bind->var.get()] = ir::Substitute(bind->value, names);
    }
    for (const ir::Region* r : TileRegions(s)) {
      for (const ir::Range& range : r->ranges) {
        counts = counts || (IsTensor(r->buffer) && !owners.InShared(r->buffer.get()) &&
                            ir::Uses(ir::Substitute(range.min, names), loop.axes[0].var));
      }
    }
    return true;
  });
  return counts && !ir::HasJump(loop.body) && turns && *turns <= kMostParts;
}

Stmt PartsUnrolled(const Stmt& launch, const Owners& owners) {
  return ir::RewriteStmts(launch, [&](const Stmt& s) -> Stmt {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kSerial || !CountsParts(*loop, owners)) {
      return {};
    }
    return ir::MakeStmt<ir::For>(s->loc, ir::ForKind::kUnroll, loop->axes,
                                 PartsUnrolled(loop->body, owners));
  });
}

// Fragments, or tiles of shared memory.
Stmt OnChip(const Stmt& launch, const Owners& owners) {
  ir::BufferMap tiles;
  ir::Walk(launch, [&](const Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || !IsTensor(alloc->buffer)) return true;
    auto tile = std::make_shared<ir::BufferNode>(*alloc->buffer);
    tile->scope = owners.InShared(alloc->buffer.get()) ? ir::Scope::kShared : ir::Scope::kFragment;
    tiles[alloc->buffer.get()] = std::move(tile);
    return true;
  });
  return ir::Substitute(launch, {}, tiles);
}

Stmt WithBody(const ir::Launch& l, const Stmt& body) {
  auto notes = l.annotations;
  notes.erase(kTensorMemoryFreed);
  return ir::MakeStmt<ir::Launch>(l.loc, l.grid, l.threads, body, std::move(notes));
}

// 32-bit columns of 128 lanes.
int64_t ColumnsOf(const Buffer& b) {
  int64_t extent = 1, columns = 1;
  for (size_t d = 0; d < b->shape.size(); ++d) {
    extent = ir::ConstInt(b->shape[d]).value_or(1);
    const bool rows = d + 2 == b->shape.size(), last = d + 1 == b->shape.size();
    columns *= rows ? (extent + kLanes - 1) / kLanes : last ? 1 : extent;
  }
  return columns * ((extent * b->dtype.bits + kColumnBits - 1) / kColumnBits);
}

// What is there at once, unless some of it is given back in between.
absl::Status CheckColumns(const ir::Program& program, const ir::Launch& launch) {
  int64_t columns = 0;
  SourceLoc loc = launch.loc;
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || !IsTensor(alloc->buffer) || columns > kColumns) return true;
    columns += ColumnsOf(alloc->buffer);
    loc = s->loc;
    return true;
  });
  if (columns <= kColumns || launch.annotations.count(kTensorMemoryFreed) > 0) {
    return absl::OkStatus();
  }
  return ir::ErrorAt(program, loc,
                     absl::StrCat("up to here the block has ", columns,
                                  " columns of tensor memory, of which there are ", kColumns),
                     "use smaller tiles or fewer of them, or T.deallocate_tmem between them");
}

}  // namespace

bool HoldsTensorMemory(const Stmt& s) {
  bool holds = false;
  ir::Walk(s, [&](const Stmt& x) {
    const auto* alloc = x.As<ir::Alloc>();
    holds = holds || (alloc != nullptr && IsTensor(alloc->buffer));
    return !holds;
  });
  return holds;
}

absl::StatusOr<Stmt> GiveTensorMemory(const ir::Program& program, const Stmt& launch) {
  KILN_RETURN_IF_ERROR(CheckColumns(program, *launch.As<ir::Launch>()));
  KILN_ASSIGN_OR_RETURN(Stmt given, TakeTilesApart(program, launch));
  Owners owners(program, *given.As<ir::Launch>());
  KILN_RETURN_IF_ERROR(owners.Decide());
  if (owners.moves()) {
    const auto& l = *given.As<ir::Launch>();
    given = WithBody(l, Mover(owners).Move(l.body));
  }
  given = OnChip(PartsUnrolled(given, owners), owners);
  const auto& l = *given.As<ir::Launch>();
  return WithBody(l, Unread(l.body).Mutate(l.body));
}

}  // namespace kiln::lang
