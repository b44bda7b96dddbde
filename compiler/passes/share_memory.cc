#include "compiler/passes/share_memory.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Stmt;
using target::Arch;

constexpr int64_t kSystemBytes = 1024;  // of shared memory, beside what each block asks for

constexpr int64_t kManyBlocks = int64_t{1} << 31;  // of a grid: more than any has

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Places one after the other, or as PlaceShared has them; nullopt where an extent is not known.
std::optional<ir::SharedPlaces<int64_t>> Places(const ir::SharedUse& use) {
  std::vector<int64_t> bytes;
  for (const ir::Buffer& b : use.buffers) {
    const auto known = ir::BytesOf(b);
    if (!known) return std::nullopt;
    bytes.push_back(*known);
  }
  const auto align = [&](size_t i, int64_t n) {
    return RoundUp(n, ir::SharedAlignment(*use.buffers[i]));
  };
  const auto most = [](int64_t a, int64_t b) { return std::max(a, b); };
  return ir::PlaceShared<int64_t>(use, bytes, 0, align, most);
}

// Blocks that an SM runs beside each other, as far as shared memory, threads and the grid say.
// Those that share out its registers (setmaxnreg) have it alone.
int64_t Residents(const ir::Launch& launch, int64_t bytes, const Arch& arch) {
  if (bytes > arch.smem_block) return 0;
  if (ir::Holds(launch.body, ir::Instruction::kMaxRegisters)) return 1;
  const int64_t threads = ir::ThreadsOf(launch).value_or(1);
  const int64_t warps = std::max<int64_t>(1, RoundUp(threads, arch.warp_size) / arch.warp_size);
  int64_t most = arch.blocks_sm;
  int64_t blocks = 1;
  for (const ir::Axis& axis : launch.grid) {
    const auto extent = ir::ConstInt(axis.extent);
    blocks = extent && blocks < kManyBlocks ? blocks * *extent : kManyBlocks;
  }
  most = std::min(most, (blocks + arch.cores - 1) / arch.cores);
  return std::min({arch.smem_sm / (bytes + kSystemBytes), arch.warps_sm / warps, most});
}

Stmt Share(const Stmt& s, const Arch& arch) {
  const auto* launch = s.As<ir::Launch>();
  if (launch == nullptr) return {};
  const ir::SharedUse use = ir::SharedUseOf(*launch);
  const auto apart = SharedBytesOf(*launch);
  const auto plan = Places(use);
  if (!apart || !plan || plan->bytes >= *apart ||
      Residents(*launch, plan->bytes, arch) <= Residents(*launch, *apart, arch)) {
    return {};
  }
  std::unordered_map<const ir::BufferNode*, int64_t> places;
  for (size_t i = 0; i < use.buffers.size(); ++i) places[use.buffers[i].get()] = plan->places[i];
  const Stmt body = ir::RewriteStmts(launch->body, [&](const Stmt& inner) -> Stmt {
    const auto* alloc = inner.As<ir::Alloc>();
    const auto found = alloc != nullptr ? places.find(alloc->buffer.get()) : places.end();
    if (found == places.end()) return {};
    return ir::MakeStmt<ir::Alloc>(inner->loc, alloc->buffer, alloc->init, found->second);
  });
  return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, body, launch->annotations);
}

}  // namespace

std::optional<int64_t> SharedBytesOf(const ir::Launch& launch) {
  int64_t bytes = 0;
  bool known = true;
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || (alloc->buffer->scope != ir::Scope::kShared &&
                             alloc->buffer->scope != ir::Scope::kBarrier)) {
      return true;
    }
    const auto own = ir::BytesOf(alloc->buffer);
    known &= own.has_value();
    const bool placed = alloc->place != ir::Alloc::kOwnPlace;
    const int64_t place =
        placed ? alloc->place : RoundUp(bytes, ir::SharedAlignment(*alloc->buffer));
    bytes = std::max(bytes, place + own.value_or(0));
    return true;
  });
  if (!known) return std::nullopt;
  return bytes;
}

absl::StatusOr<ir::Program> ShareMemory(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body =
      ir::RewriteStmts(program.body, [&](const Stmt& s) { return Share(s, GpuOf(context)); });
  return out;
}

}  // namespace kiln::passes
