#include "compiler/passes/check_resources.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/share_memory.h"

namespace kiln::passes {
namespace {

constexpr int64_t kMostTimes = 4;  // what a thread may hold, times the registers that it has

// A fragment of several times a thread's registers would live in local memory, and keep an
// assembler busy for minutes.
absl::Status FitsRegisters(const ir::Alloc& alloc, const PassContext& context) {
  const ir::Buffer& b = alloc.buffer;
  if (context.gpu == nullptr || b->scope != ir::Scope::kRegister) return absl::OkStatus();
  const int64_t wanted = ir::RegistersOf(b);
  const int64_t most = kMostTimes * context.gpu->registers_thread;
  if (wanted <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("each thread would hold ", wanted, " registers of '", b->name, "'; ",
                   context.gpu->name, " gives one ", context.gpu->registers_thread,
                   ": use more threads, or make the tile smaller"));
}

// The blocks of a launch lie along one axis of a GPU's grid.
absl::Status FitsGrid(const ir::Program& program, const ir::Stmt& s, const PassContext& context) {
  const auto* launch = s.As<ir::Launch>();
  if (launch == nullptr || context.gpu == nullptr) return absl::OkStatus();
  int64_t blocks = 1;
  for (const ir::Axis& axis : launch->grid) blocks *= ir::ConstInt(axis.extent).value_or(1);
  if (blocks <= INT32_MAX) return absl::OkStatus();
  return ir::ErrorAt(
      program, s->loc,
      absl::StrCat("a launch of ", blocks, " blocks; ", context.gpu->name, " runs fewer than 2^31"),
      "use larger tiles");
}

// What the blocks of each launch share, in the places that share-memory gave it.
absl::Status FitsShared(const ir::Program& program, const target::Arch& gpu) {
  absl::Status status;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return status.ok();
    const int64_t bytes = SharedBytesOf(*launch).value_or(0);
    if (bytes > gpu.smem_block) {
      const auto joined = launch->annotations.find(ir::kJoined);
      const bool one = joined == launch->annotations.end();
      status = ir::ErrorAt(program, s->loc,
                           absl::StrCat("a block ",
                                        one ? ""
                                            : absl::StrCat("that does what ", joined->second,
                                                           " of a cluster do together "),
                                        "needs ", bytes, " bytes of shared memory; ", gpu.name,
                                        " gives one ", gpu.smem_block),
                           absl::StrCat("make tiles, stages or the number of threads smaller",
                                        one ? "" : ", or clusters of fewer blocks"),
                           absl::StatusCode::kResourceExhausted);
    }
    return false;
  });
  return status;
}

}  // namespace

absl::StatusOr<ir::Program> CheckResources(const ir::Program& program, const PassContext& context) {
  int64_t total = 0;
  int64_t largest = 0;
  std::string largest_name;
  absl::Status status;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    status.Update(FitsGrid(program, s, context));
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || alloc->buffer->scope == ir::Scope::kGlobal) return true;
    int64_t bytes = alloc->buffer->dtype.bytes();  // of one block
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
    bytes /= alloc->buffer->blocks;
    status.Update(FitsRegisters(*alloc, context));
    total += bytes;
    if (bytes > largest) {
      largest = bytes;
      largest_name = alloc->buffer->name;
    }
    return true;
  });
  KILN_RETURN_IF_ERROR(status);
  if (context.gpu != nullptr) KILN_RETURN_IF_ERROR(FitsShared(program, *context.gpu));
  if (total > context.vector.scratch_limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a block needs ", total, " bytes of on-chip storage and the target gives ",
                     context.vector.scratch_limit, "; the largest buffer is '", largest_name,
                     "' with ", largest, " bytes: make its tile smaller"));
  }
  return program;
}

}  // namespace kiln::passes
