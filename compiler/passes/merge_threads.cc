#include "compiler/passes/merge_threads.h"

#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

class Merge : public ir::Mutator {
 protected:
  ir::Stmt VisitStmt(const ir::Stmt& s) override {
    const auto* part = s.As<ir::OnThreads>();
    return part == nullptr ? RebuildStmt(s) : Mutate(part->body);
  }
};

}  // namespace

absl::StatusOr<ir::Program> MergeThreads(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Merge().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
