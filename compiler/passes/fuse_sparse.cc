#include "compiler/passes/fuse_sparse.h"

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/sparse.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/touched.h"

namespace kiln::passes {
namespace {

using ir::Scope;
using ir::Stmt;

bool IsAround(const Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kSeq:
    case ir::StmtKind::kFor:
    case ir::StmtKind::kWhile:
    case ir::StmtKind::kIf:
    case ir::StmtKind::kLaunch:
    case ir::StmtKind::kOnThreads:
    case ir::StmtKind::kAlloc:
      return true;
    default:
      return false;
  }
}

// Whether one store writes a tile, one tile operation names it, and nothing else does.
bool HasOneReader(const Stmt& body, const ir::Buffer& tile) {
  int stores = 0, operations = 0;
  ir::Walk(
      body,
      [&](const Stmt& s) {
        if (IsAround(s)) return true;
        const Touched touched = TouchedBy(s);
        if (touched.reads.count(tile.get()) + touched.writes.count(tile.get()) == 0) return true;
        ++(s.kind() == ir::StmtKind::kStore ? stores : operations);
        return true;
      },
      [&](const ir::Expr& e) {
        const auto* load = e.As<ir::Load>();
        operations += load != nullptr && load->buffer == tile ? 2 : 0;
        return true;
      });
  return stores == 1 && operations == 1;
}

class FuseLaunch {
 public:
  FuseLaunch(const ir::Program& program, const ir::Launch& launch, const PassContext& context)
      : program_(program), launch_(launch), gpu_(GpuOf(context)) {}

  Stmt Run() {
    const Stmt body = Fused(launch_.body, {0, ir::ThreadsOf(launch_).value_or(0)});
    if (body.same_as(launch_.body) && notes_.empty()) return {};
    std::map<std::string, std::string> notes = launch_.annotations;
    notes.insert(notes_.begin(), notes_.end());
    const Stmt kept = ir::WithoutStmts(body, [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      return alloc != nullptr && gone_.count(alloc->buffer.get()) > 0;
    });
    return ir::MakeStmt<ir::Launch>(launch_.loc, launch_.grid, launch_.threads, kept,
                                    std::move(notes));
  }

 private:
  Stmt Fused(const Stmt& s, layout::ThreadRange threads) {
    return ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      if (const auto* part = x.As<ir::OnThreads>()) {
        const Stmt body = Fused(part->body, {part->first, part->count});
        if (body.same_as(part->body)) return x;
        return ir::MakeStmt<ir::OnThreads>(part->loc, part->first, part->count, body);
      }
      return x.kind() == ir::StmtKind::kSeq ? FusedIn(x, threads) : Stmt();
    });
  }

  Stmt FusedIn(const Stmt& s, layout::ThreadRange threads) {
    const ir::Seq& seq = *s.As<ir::Seq>();
    std::vector<Stmt> stmts;
    bool changed = false;
    for (size_t i = 0; i < seq.stmts.size(); ++i) {
      const auto* gemm = i + 1 < seq.stmts.size() ? seq.stmts[i + 1].As<ir::Gemm>() : nullptr;
      const auto x = gemm != nullptr && !gemm->trans_a && CoversWhole(gemm->a)
                         ? ir::ExpandedBy(seq.stmts[i], gemm->a.buffer)
                         : std::nullopt;
      if (!x) {
        const Stmt inner = Fused(seq.stmts[i], threads);
        changed |= !inner.same_as(seq.stmts[i]);
        stmts.push_back(inner);
        continue;
      }
      const Stmt product =
          ir::MakeStmt<ir::Gemm>(gemm->loc, x->a, gemm->b, gemm->c, x->trans_a, gemm->trans_b,
                                 gemm->policy, gemm->clear_accum, x->e, x->trans_e);
      const std::string why = WhyNot(*gemm, *product.As<ir::Gemm>(), threads);
      if (why.empty()) {
        gone_.insert(gemm->a.buffer.get());
        stmts.push_back(product);
        changed = true;
        ++i;
      } else {
        notes_[absl::StrCat(kExpanded, gemm->a.buffer->name)] = why;
        stmts.push_back(seq.stmts[i]);
      }
    }
    return changed ? ir::MakeStmt<ir::Seq>(seq.loc, std::move(stmts)) : s;
  }

  std::string WhyNot(const ir::Gemm& whole, const ir::Gemm& sparse,
                     layout::ThreadRange threads) const {
    if (ir::PassOption(program_, "kiln.sparse", 1) == 0) return "\"kiln.sparse\" is 0";
    for (const ir::Region* r : {&sparse.a, &sparse.e, &sparse.b}) {
      const ir::Buffer& tile = r->buffer;
      const bool staged = tile->scope == Scope::kFragment && CoversWhole(*r) && r != &sparse.e;
      if (tile->scope != Scope::kShared && !staged) {
        return absl::StrCat(tile->name, " does not lie in shared memory");
      }
      if (launch_.annotations.count(absl::StrCat("layout:", tile->name)) > 0) {
        return absl::StrCat("the kernel says how ", tile->name, " lies");
      }
    }
    if (sparse.c.buffer->scope != Scope::kFragment) {
      return absl::StrCat(sparse.c.buffer->name, " is no fragment");
    }
    if (!HasOneReader(launch_.body, whole.a.buffer)) return "others read the tile";
    std::optional<target::GemmQuery> query = QueryOf(program_, whole, threads);
    std::optional<target::GemmQuery> form = QueryOf(program_, sparse, threads);
    if (!query || !form) return "its shape is not known";
    query->b_space = target::OperandSpace::kShared;
    query->c_space = target::OperandSpace::kTensor;
    const bool held = gpu_.tmem_sm != 0 && ir::PassOption(program_, "kiln.tcgen05", 1) != 0;
    if (held && !target::ChooseGemm(gpu_, *query).unit.empty()) {
      return "tcgen05 multiplies the whole matrix";
    }
    // Operands in registers go to shared memory where they have to (stage-operands).
    form->a_space = form->b_space = target::OperandSpace::kShared;
    const target::GemmChoice choice = target::ChooseGemm(gpu_, *form);
    return choice.unit.empty() ? choice.why_not : "";
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  const target::Arch& gpu_;
  std::map<std::string, std::string> notes_;
  Buffers gone_;
};

}  // namespace

absl::StatusOr<ir::Program> FuseSparse(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    return launch != nullptr ? FuseLaunch(program, *launch, context).Run() : Stmt();
  });
  return out;
}

}  // namespace kiln::passes
