#include "compiler/roofline/roles.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/roofline/symbolic.h"

namespace kiln::roofline {
namespace {

using target::Arch;
using target::ArchKind;

constexpr int64_t kMany = 1 << 20;     // far more than a tunable's usual value
constexpr double kUnknownSize = 1024;  // of a run-time dimension that the request does not give

// Where one variable was seen.
struct Sightings {
  bool threads = false, stages = false, grid = false, loop = false;
  bool gemm_m = false, gemm_n = false, gemm_k = false;
  // Of loops over elements and of regions: the last of several dimensions, another, the only one.
  bool vector_axis = false, row_axis = false, sole_axis = false;
  bool multiplies_grid = false;
  bool blocks = false;
  bool panel = false;
  double gemm_rows = 0;
  DType element{TypeCode::kFloat, 32};
  std::set<double> cuts;
};

class Finder {
 public:
  Finder(const ir::Program& program, const std::map<std::string, ir::Expr>& tunables,
         const std::map<std::string, double>& runtime)
      : program_(program), tunables_(tunables), symbols_(&tape_) {
    for (const auto& [name, var] : tunables) symbols_.SetValue(var, tape_.Const(1));
    const auto declare = [&](const ir::Expr& var) {
      const auto it = runtime.find(var.As<ir::Var>()->name);
      symbols_.SetValue(var, tape_.Const(it == runtime.end() ? kUnknownSize : it->second));
    };
    for (const ir::Expr& dim : program.dims) declare(dim);
    for (const ir::Param& p : program.params) {
      if (p.kind == ir::Param::kScalar) declare(p.scalar);
    }
  }

  std::map<std::string, Sightings> Run() {
    CollectBinds();
    ir::Walk(program_.body, [&](const ir::Stmt& s) {
      Visit(s);
      return true;
    });
    return std::move(seen_);
  }

 private:
  // Binds make a name stand for an expression over tunables: uses follow them.
  void CollectBinds() {
    ir::Walk(program_.body, [&](const ir::Stmt& s) {
      if (const auto* b = s.As<ir::Bind>()) {
        binds_[b->var.get()] = b->value;
        symbols_.SetBind(b->var, b->value);
      }
      return true;
    });
  }

  bool Mentions(const ir::Expr& e, const ir::Expr& var) const {
    if (!e.defined()) return false;
    if (ir::Uses(e, var)) return true;
    bool found = false;
    ir::Walk(e, [&](const ir::Expr& x) {
      const auto it = binds_.find(x.get());
      if (it != binds_.end() && Mentions(it->second, var)) found = true;
      return !found;
    });
    return found;
  }

  template <typename F>
  void ForUsers(const ir::Expr& e, F&& f) {
    if (!e.defined()) return;
    for (const auto& [name, var] : tunables_) {
      if (Mentions(e, var)) f(name, var, seen_[name]);
    }
  }

  // Sizes d of d // var (or ceil) inside `e`.
  void AddCuts(const ir::Expr& e, const ir::Expr& var, Sightings& s) {
    if (!e.defined()) return;
    ir::Walk(e, [&](const ir::Expr& x) {
      if (const auto it = binds_.find(x.get()); it != binds_.end()) AddCuts(it->second, var, s);
      const auto* b = x.As<ir::Binary>();
      if (b == nullptr || b->op != ir::BinaryOp::kFloorDiv || !Mentions(b->b, var)) return true;
      const auto size = symbols_.Value(b->a);
      if (size && size->constant()) s.cuts.insert(*size->constant());
      return true;
    });
  }

  void Visit(const ir::Stmt& s) {
    if (const auto* launch = s.As<ir::Launch>()) {
      for (const ir::Axis& axis : launch->grid) VisitGrid(axis.extent);
      if (launch->grid.size() == 1) VisitBlocks(launch->grid[0].extent);
      if (const auto it = launch->annotations.find("swizzle_panel");
          it != launch->annotations.end() && tunables_.count(it->second) > 0) {
        seen_[it->second].panel = true;
      }
      for (const ir::Expr& t : launch->threads) {
        ForUsers(t, [](const auto&, const auto&, Sightings& x) { x.threads = true; });
      }
    } else if (const auto* loop = s.As<ir::For>()) {
      VisitLoop(*loop);
    } else if (const auto* gemm = s.As<ir::Gemm>()) {
      VisitGemm(*gemm);
    } else if (const auto* copy = s.As<ir::Copy>()) {
      VisitRegion(copy->src);
      VisitRegion(copy->dst);
    } else if (const auto* reduce = s.As<ir::Reduce>()) {
      VisitRegion(reduce->src);
    }
  }

  void VisitGrid(const ir::Expr& extent) {
    ForUsers(extent, [&](const auto&, const ir::Expr& var, Sightings& x) {
      x.grid = true;
      AddCuts(extent, var, x);
      const auto many = ir::Substitute(extent, {{var.get(), ir::MakeInt(kMany)}});
      const auto at = symbols_.Value(many), base = symbols_.Value(extent);
      if (at && base && at->constant() && base->constant() && *at->constant() > *base->constant()) {
        x.multiplies_grid = true;
      }
    });
  }

  // The least of a tunable and of what there is to do.
  void VisitBlocks(const ir::Expr& extent) {
    if (const auto it = binds_.find(extent.get()); it != binds_.end())
      return VisitBlocks(it->second);
    const auto* least = extent.As<ir::Binary>();
    if (least == nullptr || least->op != ir::BinaryOp::kMin) return;
    for (const auto& [name, var] : tunables_) {
      if (least->a.same_as(var) || least->b.same_as(var)) seen_[name].blocks = true;
    }
  }

  static bool& AxisOf(Sightings& s, size_t i, size_t count) {
    if (count == 1) return s.sole_axis;
    return i + 1 == count ? s.vector_axis : s.row_axis;
  }

  void VisitLoop(const ir::For& loop) {
    const bool parallel = loop.loop == ir::ForKind::kParallel;
    for (size_t i = 0; i < loop.axes.size(); ++i) {
      ForUsers(loop.axes[i].extent, [&](const auto&, const ir::Expr& var, Sightings& x) {
        if (!parallel) {
          x.loop = true;
          return AddCuts(loop.axes[i].extent, var, x);
        }
        AxisOf(x, i, loop.axes.size()) = true;
      });
    }
    ForUsers(loop.num_stages, [](const auto&, const auto&, Sightings& x) { x.stages = true; });
  }

  void VisitGemm(const ir::Gemm& g) {
    const auto extent = [](const ir::Region& r, size_t from_end) {
      return r.ranges.size() >= from_end ? r.ranges[r.ranges.size() - from_end].extent : ir::Expr();
    };
    const ir::Expr m = extent(g.a, g.trans_a ? 1 : 2), k = extent(g.a, g.trans_a ? 2 : 1);
    const ir::Expr n = extent(g.b, g.trans_b ? 2 : 1);
    double rows = 0;
    if (const auto value = ir::ConstInt(m)) rows = static_cast<double>(*value);
    const auto mark = [&](const ir::Expr& e, bool Sightings::*member) {
      ForUsers(e, [&](const auto&, const auto&, Sightings& x) {
        x.*member = true;
        x.element = g.a.buffer->dtype;
        x.gemm_rows = rows;
      });
    };
    mark(m, &Sightings::gemm_m);
    mark(n, &Sightings::gemm_n);
    mark(k, &Sightings::gemm_k);
  }

  void VisitRegion(const ir::Region& r) {
    for (size_t i = 0; i < r.ranges.size(); ++i) {
      ForUsers(r.ranges[i].extent, [&](const auto&, const auto&, Sightings& x) {
        AxisOf(x, i, r.ranges.size()) = true;
        x.element = r.buffer->dtype;
      });
    }
  }

  const ir::Program& program_;
  const std::map<std::string, ir::Expr>& tunables_;
  Tape tape_;
  Symbols symbols_;
  std::map<const ir::ExprNode*, ir::Expr> binds_;
  std::map<std::string, Sightings> seen_;
};

Role RoleOf(const Sightings& s) {
  if (s.gemm_m) return Role::kTileM;
  if (s.gemm_n) return Role::kTileN;
  if (s.gemm_k) return Role::kTileK;
  if (s.vector_axis) return Role::kTileVector;
  if (s.row_axis) return Role::kTileRow;
  if (s.sole_axis) return Role::kTileVector;
  if (s.threads) return Role::kThreads;
  if (s.stages) return Role::kStages;
  if (s.panel) return Role::kPanel;
  if (s.blocks) return Role::kBlocks;
  if (s.multiplies_grid) return Role::kSplit;
  if (!s.cuts.empty()) return Role::kTileRow;
  if (s.grid || s.loop) return Role::kOther;
  return Role::kInert;
}

// ---- values ----

int64_t RoundUp(double x, int64_t to) {
  return (static_cast<int64_t>(std::ceil(x)) + to - 1) / to * to;
}

void AddDivisors(double size, int64_t low, int64_t high, int64_t multiple, std::set<int64_t>& out) {
  const int64_t n = static_cast<int64_t>(size);
  for (int64_t d = 1; d * d <= n && d <= high; ++d) {  // n / d <= high < d: found as d itself
    if (n % d != 0) continue;
    for (int64_t v : {d, n / d}) {
      if (v >= low && v <= high && v % multiple == 0) out.insert(v);
    }
  }
}

// Sizes that cut `size` into n even parts, for small n, rounded up to `multiple`.
void AddEvenCuts(double size, int64_t low, int64_t high, int64_t multiple, int most,
                 std::set<int64_t>& out) {
  for (int n = 1; n <= most; ++n) {
    const int64_t v = RoundUp(size / n, multiple);
    if (v >= low && v <= high) out.insert(v);
  }
}

void AddPowers(int64_t low, int64_t high, std::set<int64_t>& out) {
  for (int64_t v = 1; v <= high; v *= 2) {
    if (v >= low) out.insert(v);
  }
}

struct TileRange {
  int64_t low, high;  // smallest and largest extent worth trying
  int64_t multiple;   // of the register tile or instruction
  int even_parts;     // even cuts to add
};

void AddTile(const Binding& b, const TileRange& r, std::set<int64_t>& out) {
  double size = 0;
  for (double c : b.cuts) size = std::max(size, c);
  const int64_t cap = size > 0 ? std::min(r.high, RoundUp(size, r.multiple)) : r.high;
  AddPowers(r.low, cap, out);
  for (int64_t i = 1; i <= 8; ++i) {
    for (int64_t scale : {int64_t{1}, int64_t{3}, int64_t{5}}) {
      const int64_t v = r.multiple * scale * (int64_t{1} << (i - 1));
      if (v >= r.low && v <= cap) out.insert(v);
    }
  }
  for (double c : b.cuts) {
    AddDivisors(c, r.low, cap, std::min<int64_t>(r.multiple, 16), out);
    AddEvenCuts(c, r.low, cap, r.multiple, r.even_parts, out);
  }
  if (size > 0 && size < static_cast<double>(r.low)) out.insert(static_cast<int64_t>(size));
}

// Rows of a CPU gemm tile: whole register tiles, and even cuts of M that leave little waste.
void AddCpuRows(const Binding& b, const Arch& arch, std::set<int64_t>& out) {
  const int64_t chunk = arch.vector_registers >= 32 ? 14 : 6;
  double size = 0;
  for (double c : b.cuts) size = std::max(size, c);
  const int64_t cap = size > 0 ? std::min<int64_t>(512, static_cast<int64_t>(size)) : 512;
  for (int64_t n : {1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32}) {
    if (n * chunk <= cap) out.insert(n * chunk);
  }
  AddPowers(1, cap, out);
  for (double c : b.cuts) {
    AddDivisors(c, 4, cap, 1, out);
    AddEvenCuts(c, std::min<int64_t>(chunk, cap), cap, 1, 12, out);
  }
}

std::set<int64_t> CpuValues(const Binding& b, const Arch& arch, int64_t fallback) {
  std::set<int64_t> out;
  const int64_t lanes = arch.Lanes(kFloat32);
  const bool streams = b.stream_rows > 0 && b.stream_rows <= 4;
  switch (b.role) {
    case Role::kTileM:
      AddCpuRows(b, arch, out);
      break;
    case Role::kTileN:
      AddTile(b, {lanes, streams ? 16384 : 2048, 2 * lanes, streams ? 32 : 12}, out);
      break;
    case Role::kTileK:
      AddTile(b, {16, 2048, 2 * lanes, 12}, out);
      break;
    case Role::kTileRow:
      AddTile(b, {1, 256, 1, 4}, out);
      break;
    case Role::kTileVector:
      AddTile(b, {lanes, 32768, 2 * lanes, 8}, out);
      break;
    case Role::kPanel:
      out = {0, 2, 4, 8, 16};
      break;
    case Role::kSplit:
      out = {1, 2, 4, 8};
      break;
    case Role::kBlocks:
      out = {arch.cores, 2 * arch.cores, 4 * arch.cores};
      break;
    default:
      out = {fallback};  // threads and stages do nothing on a CPU
  }
  return out;
}

// The least power of two that covers the longest extent that is cut, or `most`.
int64_t WithinCuts(const Binding& b, int64_t most) {
  double size = 0;
  for (const double cut : b.cuts) size = std::max(size, cut);
  int64_t cover = 1;
  while (cover < most && (size == 0 || static_cast<double>(cover) < size)) cover *= 2;
  return cover;
}

std::set<int64_t> GpuValues(const Binding& b, const Arch& arch, int64_t fallback) {
  std::set<int64_t> out;
  const int64_t bytes = std::max<int64_t>(1, b.element.bytes());
  switch (b.role) {
    case Role::kTileM:
      return {16, 32, 64, 128, 192, 256};
    case Role::kTileN:
      out = {16, 32, 48, 64, 96, 128, 160, 192, 256};
      for (const double cut : b.cuts) AddDivisors(cut, 64, 256, 16, out);  // 28672 is 128 of 224
      return out;
    case Role::kTileK:
      return {64 / bytes, 128 / bytes, 256 / bytes};
    case Role::kThreads:  // products are shared by warpgroups
      if (b.multiplies) return {128, 256, 384};
      return {64, 128, 256, 512, 1024};
    case Role::kStages:
      return {1, 2, 3, 4, 5, 6};
    case Role::kPanel:
      return {0, 4, 8, 16};
    case Role::kSplit:
      return {1, 2, 4, 8, 16};
    case Role::kBlocks:
      return {arch.cores, 2 * arch.cores, 3 * arch.cores};
    case Role::kTileRow:
      AddPowers(1, WithinCuts(b, 128), out);
      return out;
    case Role::kTileVector:  // what warps share evenly
      AddPowers(32, WithinCuts(b, 8192), out);
      for (const double cut : b.cuts) AddDivisors(cut, 32, 8192, 128, out);
      return out;
    default:
      return {fallback};
  }
}

// Keeps `limit` values spread over the list in proportion, ends and `fallback` included.
std::vector<int64_t> Thin(const std::set<int64_t>& values, int64_t fallback, int limit) {
  std::vector<int64_t> all(values.begin(), values.end());
  const int n = static_cast<int>(all.size());
  if (n <= limit) return all;
  std::set<int64_t> kept = {fallback};
  for (int i = 0; i < limit; ++i) {
    if (static_cast<int>(kept.size()) >= limit && i > 0) break;
    kept.insert(all[static_cast<size_t>(std::llround(i * (n - 1.0) / std::max(1, limit - 1)))]);
  }
  return {kept.begin(), kept.end()};
}

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kTileM:
      return "tile M";
    case Role::kTileN:
      return "tile N";
    case Role::kTileK:
      return "tile K";
    case Role::kTileRow:
      return "tile rows";
    case Role::kTileVector:
      return "tile columns";
    case Role::kThreads:
      return "threads";
    case Role::kStages:
      return "stages";
    case Role::kPanel:
      return "panel";
    case Role::kSplit:
      return "split";
    case Role::kBlocks:
      return "blocks";
    case Role::kFlag:
      return "flag";
    case Role::kOption:
      return "pass option";
    case Role::kInert:
      return "no effect";
    case Role::kOther:
      return "other";
  }
  return "other";
}

const char* HintField(Role role) {
  switch (role) {
    case Role::kTileM:
    case Role::kTileN:
    case Role::kTileRow:
    case Role::kTileVector:
      return "block";
    case Role::kTileK:
      return "rstep";
    case Role::kThreads:
      return "thread";
    case Role::kStages:
      return "pipeline_stage";
    case Role::kPanel:
      return "rasterization_plan";
    case Role::kSplit:
      return "split_k";
    default:
      return "";
  }
}

std::map<std::string, Binding> BindRoles(const ir::Program& program,
                                         const std::map<std::string, ir::Expr>& tunables,
                                         const std::map<std::string, double>& runtime) {
  std::map<std::string, Sightings> seen = Finder(program, tunables, runtime).Run();
  bool multiplies = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    multiplies |= s.As<ir::Gemm>() != nullptr;
    return true;
  });
  std::map<std::string, Binding> out;
  for (const auto& [name, var] : tunables) {
    const Sightings& s = seen[name];
    Binding b;
    b.role = RoleOf(s);
    b.cuts.assign(s.cuts.rbegin(), s.cuts.rend());
    b.element = s.element;
    b.in_grid = s.grid;
    b.multiplies = multiplies;
    b.stream_rows = s.gemm_rows;
    out[name] = std::move(b);
  }
  return out;
}

Role RoleByDifference(const ir::Program& a, const ir::Program& b) {
  if (ir::ProgramDigest(a) == ir::ProgramDigest(b)) return Role::kInert;
  const auto strip = [](const ir::Program& p) {
    ir::Program out = p;
    out.body = ir::RewriteStmts(p.body, [](const ir::Stmt& s) -> ir::Stmt {
      const auto* l = s.As<ir::Launch>();
      if (l == nullptr) return {};
      auto notes = l->annotations;
      notes.erase("swizzle_panel");
      notes.erase("swizzle_order");
      return ir::MakeStmt<ir::Launch>(l->loc, l->grid, l->threads, l->body, notes);
    });
    return ir::ProgramDigest(out);
  };
  return strip(a) == strip(b) ? Role::kPanel : Role::kOther;
}

std::vector<int64_t> DeriveValues(const Binding& binding, const Arch& arch, int64_t fallback,
                                  int limit) {
  std::set<int64_t> values = arch.kind == ArchKind::kCpu ? CpuValues(binding, arch, fallback)
                                                         : GpuValues(binding, arch, fallback);
  values.insert(fallback);
  return Thin(values, fallback, limit);
}

}  // namespace kiln::roofline
