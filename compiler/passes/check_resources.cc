#include "compiler/passes/check_resources.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> CheckResources(const ir::Program& program, const PassContext& context) {
  int64_t total = 0;
  int64_t largest = 0;
  std::string largest_name;
  absl::Status status;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || alloc->buffer->scope == ir::Scope::kGlobal) return true;
    int64_t bytes = alloc->buffer->dtype.bytes();
    for (const ir::Expr& extent : alloc->buffer->shape) {
      const auto n = ir::ConstInt(extent);
      if (!n.has_value()) {
        status = absl::UnimplementedError(
            absl::StrCat("buffer '", alloc->buffer->name,
                         "' has an extent that is not a compile-time constant; on-chip buffers "
                         "need constant shapes"));
        return false;
      }
      if (*n <= 0 || bytes > (int64_t{1} << 40) / *n) {
        status = absl::ResourceExhaustedError(absl::StrCat("buffer '", alloc->buffer->name,
                                                           "' has an extent of ", *n,
                                                           "; it must be between 1 "
                                                           "and what fits on chip"));
        return false;
      }
      bytes *= *n;
    }
    total += bytes;
    if (bytes > largest) {
      largest = bytes;
      largest_name = alloc->buffer->name;
    }
    return true;
  });
  KILN_RETURN_IF_ERROR(status);
  if (total > context.vector.scratch_limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a block needs ", total, " bytes of on-chip storage and the target gives ",
                     context.vector.scratch_limit, "; the largest buffer is '", largest_name,
                     "' with ", largest, " bytes: make its tile smaller"));
  }
  return program;
}

}  // namespace kiln::passes
