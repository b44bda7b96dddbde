#include "compiler/passes/serialize_loops.h"

#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

constexpr int64_t kMaxExpanded = 64;

class Serializer : public ir::Mutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const Stmt rebuilt = RebuildStmt(s);
    const auto* loop = rebuilt.As<ir::For>();
    if (loop == nullptr || loop->loop == ir::ForKind::kSerial ||
        loop->loop == ir::ForKind::kThreads) {
      return rebuilt;
    }
    if (loop->loop == ir::ForKind::kUnroll) {
      const auto extent = ir::ConstInt(loop->axes[0].extent);
      if (extent.has_value() && *extent <= kMaxExpanded && !ir::HasJump(loop->body)) {
        return Expand(*loop, *extent);
      }
    }
    return ir::MakeStmt<ir::For>(loop->loc, ir::ForKind::kSerial, loop->axes, loop->body);
  }

 private:
  static Stmt Expand(const ir::For& loop, int64_t extent) {
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < extent; ++i) {
      const ir::Expr value = loop.axes[0].min + ir::MakeInt(i, loop.axes[0].var.dtype());
      copies.push_back(ir::FreshCopy(ir::Substitute(loop.body, {{loop.axes[0].var.get(), value}})));
    }
    return ir::MakeSeq(std::move(copies), loop.loc);
  }
};

}  // namespace

absl::StatusOr<ir::Program> SerializeLoops(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Serializer().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
