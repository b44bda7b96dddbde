#include "compiler/passes/load_operands.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/turnable.h"
#include "compiler/passes/build.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/turn_operands.h"

namespace kiln::passes {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::MakeInt;
using ir::Region;
using ir::Scope;
using ir::Stmt;

Region Turned(const Region& r, const Buffer& turned) {
  return {turned, {r.ranges[1], r.ranges[0]}};
}

// for j in columns, i in rows, in parallel: body(i, j).
template <typename F>
Stmt Loop(SourceLoc loc, const Expr& rows, const Expr& columns, F body) {
  const Expr i = ir::MakeVar("i"), j = ir::MakeVar("j");
  return ir::MakeStmt<ir::For>(
      loc, ir::ForKind::kParallel,
      std::vector<ir::Axis>{{j, MakeInt(0), columns}, {i, MakeInt(0), rows}}, body(i, j));
}

// The products of a launch that are changed, and the fragments that are turned for them.
class Plan {
 public:
  Plan(const ir::Program& program, const ir::Launch& launch, const target::Arch& gpu)
      : launch_(launch) {
    const layout::ThreadRange threads = {0, ir::ThreadsOf(launch).value_or(0)};
    std::vector<std::pair<const ir::Gemm*, std::optional<target::LoadedTf32>>> products;
    ir::Walk(launch.body, [&](const Stmt& s) {
      if (s.kind() == ir::StmtKind::kOnThreads) return false;
      const auto* gemm = s.As<ir::Gemm>();
      if (gemm == nullptr) return true;
      const auto query = QueryOf(program, *gemm, threads);
      products.emplace_back(gemm,
                            query && IsFree(*gemm) ? target::LoadTf32(gpu, *query) : std::nullopt);
      return true;
    });
    for (const auto& [gemm, loaded] : products) {
      if (!loaded) continue;
      const Buffer& c = gemm->c.buffer;
      const bool turned = loaded->turned;
      const auto agrees = [&](const auto& other) {
        return other.first->c.buffer != c || (other.second && other.second->turned == turned);
      };
      if (!std::all_of(products.begin(), products.end(), agrees)) continue;
      if (!ir::IsTurnable(launch, c)) continue;  // else what fits mma.sync might not fit wgmma
      loaded_.insert(gemm);
      if (!turned || TurnedOf(c) != nullptr) continue;
      turned_[c.get()] = ir::MakeBuffer(absl::StrCat(c->name, ".turned"), c->dtype,
                                        {c->shape[1], c->shape[0]}, Scope::kFragment);
    }
  }

  bool empty() const { return loaded_.empty(); }
  bool Loads(const ir::Gemm* gemm) const { return loaded_.count(gemm) > 0; }
  // What holds a fragment turned; null where nothing does.
  Buffer TurnedOf(const Buffer& fragment) const {
    const auto found = turned_.find(fragment.get());
    return found == turned_.end() ? nullptr : found->second;
  }

 private:
  bool IsFree(const ir::Gemm& gemm) const {
    for (const Region* r : {&gemm.a, &gemm.b, &gemm.c}) {
      if (launch_.annotations.count(absl::StrCat("layout:", r->buffer->name)) > 0) return false;
    }
    return true;
  }

  const ir::Launch& launch_;
  std::set<const ir::Gemm*> loaded_;
  std::map<const ir::BufferNode*, Buffer> turned_;
};

class LoadIn : public ir::Mutator {
 public:
  explicit LoadIn(const Plan& plan) : plan_(plan) {}

  Stmt Run(const ir::Launch& launch) {
    const Stmt body = Mutate(launch.body);
    const auto* seq = body.As<ir::Seq>();
    std::vector<Stmt> stmts = seq == nullptr ? std::vector<Stmt>{body} : seq->stmts;
    stmts.insert(stmts.begin(), fragments_.begin(), fragments_.end());
    std::map<std::string, std::string> notes = launch.annotations;
    notes.insert(tiles_.begin(), tiles_.end());
    return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads,
                                    ir::MakeStmt<ir::Seq>(launch.loc, std::move(stmts)),
                                    std::move(notes));
  }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const Expr rebuilt = ir::Mutator::VisitExpr(e);
    const auto* load = rebuilt.As<ir::Load>();
    const Buffer turned = load == nullptr ? nullptr : plan_.TurnedOf(load->buffer);
    if (turned == nullptr) return rebuilt;
    return ir::MakeLoad(turned, {load->indices[1], load->indices[0]}, load->predicate);
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* gemm = s.As<ir::Gemm>(); gemm != nullptr && plan_.Loads(gemm)) {
      return Loaded(*gemm);
    }
    const Stmt rebuilt = ir::Mutator::VisitStmt(s);
    if (const auto* x = rebuilt.As<ir::Alloc>()) {
      const Buffer turned = plan_.TurnedOf(x->buffer);
      return turned == nullptr ? rebuilt : ir::MakeStmt<ir::Alloc>(x->loc, turned);
    }
    if (const auto* x = rebuilt.As<ir::Store>()) {
      const Buffer turned = plan_.TurnedOf(x->buffer);
      if (turned == nullptr) return rebuilt;
      return ir::MakeStmt<ir::Store>(x->loc, turned,
                                     std::vector<Expr>{x->indices[1], x->indices[0]}, x->value,
                                     x->predicate, x->way);
    }
    if (const auto* x = rebuilt.As<ir::Fill>()) {
      const Buffer turned = plan_.TurnedOf(x->dst.buffer);
      if (turned == nullptr) return rebuilt;
      return ir::MakeStmt<ir::Fill>(x->loc, Turned(x->dst, turned), x->value);
    }
    if (const auto* x = rebuilt.As<ir::Copy>()) return Copied(rebuilt, *x);
    return rebuilt;
  }

 private:
  // Element by element, from or into the fragment's columns.
  Stmt Copied(const Stmt& s, const ir::Copy& x) const {
    const Buffer out = plan_.TurnedOf(x.src.buffer), in = plan_.TurnedOf(x.dst.buffer);
    if (out == nullptr && in == nullptr) return s;
    const Region &mine = out != nullptr ? x.src : x.dst, &other = out != nullptr ? x.dst : x.src;
    const std::vector<int> dims = *ir::PairDims(mine, other);
    return Loop(x.loc, mine.ranges[0].extent, mine.ranges[1].extent, [&](auto& i, auto& j) {
      const std::vector<Expr> turned = RegionIndices(Turned(mine, mine.buffer), {0, 1}, {j, i});
      const std::vector<Expr> place = RegionIndices(other, dims, {i, j});
      const Expr value =
          out != nullptr ? ir::MakeLoad(out, turned) : ir::MakeLoad(other.buffer, place);
      const Buffer& to = out != nullptr ? other.buffer : in;
      return ir::MakeStmt<ir::Store>(x.loc, to, out != nullptr ? place : turned,
                                     ir::MakeCast(to->dtype, value));
    });
  }

  Stmt Loaded(const ir::Gemm& gemm) {
    const Buffer turned = plan_.TurnedOf(gemm.c.buffer);
    const Region& tile = turned != nullptr ? gemm.b : gemm.a;
    const auto dims = *ir::MatrixDims(tile);  // k, then rows of what is loaded
    const Expr depth = tile.ranges[dims.first].extent, rows = tile.ranges[dims.second].extent;
    const Buffer loaded = ir::MakeBuffer(absl::StrCat(tile.buffer->name, kLoadedName),
                                         tile.buffer->dtype, {rows, depth}, Scope::kFragment);
    fragments_.push_back(ir::MakeStmt<ir::Alloc>(gemm.loc, loaded));
    tiles_[absl::StrCat(kLoadedTile, tile.buffer->name)] = absl::StrCat(
        "wgmma reads float32 K-major alone",
        turned == nullptr ? "" : absl::StrCat(", and computes ", gemm.c.buffer->name, " turned"));
    const Stmt load = Loop(gemm.loc, depth, rows, [&](auto& k, auto& row) {
      const auto place = RegionIndices(tile, {dims.first, dims.second}, {k, row});
      return ir::MakeStmt<ir::Store>(gemm.loc, loaded, std::vector<Expr>{row, k},
                                     RoundedToTf32(ir::MakeLoad(tile.buffer, place)));
    });
    const Stmt product = ir::MakeStmt<ir::Gemm>(
        gemm.loc, ir::WholeBuffer(loaded), turned != nullptr ? gemm.a : gemm.b,
        turned != nullptr ? Turned(gemm.c, turned) : gemm.c, /*trans_a=*/false, /*trans_b=*/true,
        ir::GemmPolicy::kFullRow, Mutate(gemm.clear_accum));
    return ir::MakeSeq({load, product}, gemm.loc);
  }

  const Plan& plan_;
  std::vector<Stmt> fragments_;
  std::map<std::string, std::string> tiles_;  // notes
};

}  // namespace

absl::StatusOr<ir::Program> LoadOperands(const ir::Program& program, const PassContext& context) {
  const bool asked = ir::PassOption(program, "kiln.tf32", 0) != 0;
  if (!asked || ir::PassOption(program, "kiln.turn", 1) == 0) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    const Plan plan(program, *launch, GpuOf(context));
    return plan.empty() ? Stmt() : LoadIn(plan).Run(*launch);
  });
  return out;
}

}  // namespace kiln::passes
