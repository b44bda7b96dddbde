#include "compiler/passes/forward_copies.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"
#include "compiler/passes/lower_gemm_cpu.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// How often statements name each buffer, over the whole program.
struct Counts {
  std::map<const ir::BufferNode*, int> reads, writes;
};

Counts CountUses(const ir::Program& program) {
  Counts counts;
  ir::Walk(program.body, [&](const Stmt& s) {
    const bool leaf = s.kind() != ir::StmtKind::kSeq && s.kind() != ir::StmtKind::kFor &&
                      s.kind() != ir::StmtKind::kLaunch && s.kind() != ir::StmtKind::kIf &&
                      s.kind() != ir::StmtKind::kWhile;
    if (leaf) {
      for (const ir::Buffer& b : ir::BuffersRead(s)) ++counts.reads[b.get()];
      for (const ir::Buffer& b : ir::BuffersWritten(s)) ++counts.writes[b.get()];
    } else if (s.kind() != ir::StmtKind::kSeq) {
      // Conditions and bounds may read too: any such read forbids forwarding.
      const auto note = [&](const Expr& e) {
        if (!e.defined()) return;
        ir::Walk(e, [&](const Expr& x) {
          if (const auto* load = x.As<ir::Load>()) counts.reads[load->buffer.get()] += 2;
          return true;
        });
      };
      if (const auto* branch = s.As<ir::If>()) note(branch->condition);
      if (const auto* loop = s.As<ir::While>()) note(loop->condition);
      if (const auto* loop = s.As<ir::For>()) {
        for (const ir::Axis& axis : loop->axes) {
          note(axis.min);
          note(axis.extent);
        }
      }
    }
    return true;
  });
  return counts;
}

class Forwarder : public FactsMutator {
 public:
  Forwarder(const Counts& counts) : counts_(counts) {}
  std::set<const ir::BufferNode*> forwarded;

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* seq = s.As<ir::Seq>()) return VisitSeq(s, *seq);
    return FactsMutator::VisitStmt(s);
  }

 private:
  Stmt VisitSeq(const Stmt& s, const ir::Seq& seq) {
    std::vector<Stmt> stmts = seq.stmts;
    bool changed = false;
    const ir::Facts saved = facts_;
    for (size_t i = 0; i < stmts.size(); ++i) {
      const auto* copy = stmts[i].As<ir::Copy>();
      if (copy != nullptr && IsCandidate(*copy) && ForwardInto(*copy, i, &stmts)) {
        forwarded.insert(copy->dst.buffer.get());
        stmts[i] = ir::MakeSeq({}, copy->loc);
        changed = true;
        continue;
      }
      const Stmt visited = Mutate(stmts[i]);
      changed |= !visited.same_as(stmts[i]);
      stmts[i] = visited;
    }
    facts_ = saved;
    return changed ? ir::MakeSeq(std::move(stmts), s->loc) : s;
  }

  int Reads(const ir::Buffer& b) const { return Lookup(counts_.reads, b); }
  int Writes(const ir::Buffer& b) const { return Lookup(counts_.writes, b); }
  static int Lookup(const std::map<const ir::BufferNode*, int>& map, const ir::Buffer& b) {
    const auto it = map.find(b.get());
    return it == map.end() ? 0 : it->second;
  }

  bool IsCandidate(const ir::Copy& copy) const {
    const ir::Buffer& tile = copy.dst.buffer;
    const ir::Buffer& tensor = copy.src.buffer;
    if (tile->scope != ir::Scope::kShared && tile->scope != ir::Scope::kFragment) return false;
    if (tensor->scope != ir::Scope::kGlobal || tensor->dtype != tile->dtype) return false;
    if (Writes(tile) != 1 || Reads(tile) != 1 || Writes(tensor) != 0) return false;
    if (!CoversWhole(copy.dst)) return false;
    return copy.src.ranges.size() == copy.dst.ranges.size() && Inside(copy.src);
  }

  bool Inside(const ir::Region& region) const {
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const ir::Range& r = region.ranges[d];
      if (!facts_.Proves(r.min >= ir::MakeInt(0)) ||
          !facts_.Proves(r.min + r.extent <= region.buffer->shape[d])) {
        return false;
      }
    }
    return true;
  }

  // The region that stands for `used` (a region of the tile) in the tensor.
  static ir::Region Translate(const ir::Copy& copy, const ir::Region& used) {
    ir::Region out{copy.src.buffer, {}};
    for (size_t d = 0; d < used.ranges.size(); ++d) {
      out.ranges.push_back({copy.src.ranges[d].min + used.ranges[d].min, used.ranges[d].extent});
    }
    return out;
  }

  // Rewrites the one reader when it is a later statement of the same Seq that gains nothing from
  // the staged tile, and the source names the same elements there.
  bool ForwardInto(const ir::Copy& copy, size_t at, std::vector<Stmt>* stmts) const {
    const ir::Buffer& tile = copy.dst.buffer;
    for (size_t i = at + 1; i < stmts->size(); ++i) {
      const Stmt& s = (*stmts)[i];
      if (MovesRegion(s, copy.src)) return false;
      const std::vector<ir::Buffer> read = ir::BuffersRead(s);
      if (std::find(read.begin(), read.end(), tile) == read.end()) continue;
      const Stmt direct = ReadInPlace(s, copy);
      if (!direct.defined()) return false;
      (*stmts)[i] = direct;
      return true;
    }
    return false;
  }

  // The reader with the tensor's region for the tile; undefined when it gains from the staged tile
  // or uses the tile in another way too.
  static Stmt ReadInPlace(const Stmt& s, const ir::Copy& copy) {
    const ir::Buffer& tile = copy.dst.buffer;
    Stmt direct;
    if (const auto* gemm = s.As<ir::Gemm>()) {
      if (gemm->b.buffer != tile || gemm->trans_b) return {};
      const auto rows = ir::ConstInt(gemm->c.ranges[gemm->c.ranges.size() - 2].extent);
      if (!rows.has_value() || *rows > kStreamRows) return {};
      direct =
          ir::MakeStmt<ir::Gemm>(gemm->loc, gemm->a, Translate(copy, gemm->b), gemm->c,
                                 gemm->trans_a, gemm->trans_b, gemm->policy, gemm->clear_accum);
    } else if (const auto* reduce = s.As<ir::Reduce>()) {
      if (reduce->src.buffer != tile) return {};
      direct = ir::MakeStmt<ir::Reduce>(reduce->loc, reduce->op, Translate(copy, reduce->src),
                                        reduce->dst, reduce->dim, reduce->clear);
    } else {
      return {};
    }
    const std::vector<ir::Buffer> read = ir::BuffersRead(direct);
    return std::find(read.begin(), read.end(), tile) == read.end() ? direct : Stmt();
  }

  const Counts& counts_;
};

}  // namespace

absl::StatusOr<ir::Program> ForwardCopies(const ir::Program& program, const PassContext&) {
  const Counts counts = CountUses(program);
  Forwarder forwarder(counts);
  ir::Program out = program;
  out.body = forwarder.Mutate(program.body);
  if (forwarder.forwarded.empty()) return program;
  out.body = ir::RewriteStmts(out.body, [&](const Stmt& s) -> Stmt {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || forwarder.forwarded.count(alloc->buffer.get()) == 0) return {};
    return ir::MakeSeq({}, s->loc);
  });
  return out;
}

}  // namespace kiln::passes
