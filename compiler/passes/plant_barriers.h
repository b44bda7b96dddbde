// Pass "plant-barriers": a barrier wherever a thread may touch what another thread of the block has
// touched before in shared or global memory, one of them writing, and none anywhere else. Memory is
// told apart by buffers: threads that come back to elements of their own wait too. Until
// here every loop over threads ends with all of them; from here on only at barriers. Where tensor
// cores read what threads stored, a proxy fence goes before the barrier. Loops, branches and parts
// of the block are followed along every path. What mbarriers order is not this pass's: buffers that
// tensor loads fill get no barriers, but for those that share bytes with others (share-memory),
// which are one memory here. A thread that has read such a tile fences before it gives the tile
// back, because a load's answer may still be on its way when the next tensor load writes (PTX 8.7,
// 8.8: proxies order nothing between them).
#ifndef KILN_COMPILER_PASSES_PLANT_BARRIERS_H_
#define KILN_COMPILER_PASSES_PLANT_BARRIERS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> PlantBarriers(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PLANT_BARRIERS_H_
