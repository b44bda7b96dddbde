// Pass "share-memory": tiles of a block's shared memory that are not in use at the same time
// (ir/shared_use.h) get the same bytes, where that lets a block run at all or one more of them
// beside each other on an SM; elsewhere every tile has bytes of its own, and waits for nobody.
// Tiles begin where TMA and swizzles want them to. Needs a program that plant-barriers has not seen
// yet: that pass keeps threads from touching a tile before all have left the one that lay there,
// by then nothing asynchronous reads or writes it, because such accesses are uses of it. Tensor
// loads never write where threads have: their tiles are in use from the start.
#ifndef KILN_COMPILER_PASSES_SHARE_MEMORY_H_
#define KILN_COMPILER_PASSES_SHARE_MEMORY_H_

#include <optional>

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> ShareMemory(const ir::Program& program, const PassContext& context);

// Bytes of shared memory that a block asks for, with the places that it has; nullopt where a tile's
// extent is known only at run time.
std::optional<int64_t> SharedBytesOf(const ir::Launch& launch);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SHARE_MEMORY_H_
