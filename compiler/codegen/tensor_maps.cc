#include "compiler/codegen/tensor_maps.h"

#include "absl/algorithm/container.h"
#include "compiler/ir/visit.h"

namespace kiln::codegen {

TensorMap MapOf(const ir::Instruct& load) {
  const ir::Region& global = load.regions[1];
  TensorMap map{global.buffer, {}, NoteOf(load, "swizzle0")};
  if (load.op == ir::Instruction::kPatchLoad) {
    map.patches = true;
    map.stride = NoteOf(load, "stride");
    map.low = {NoteOf(load, "low_w"), NoteOf(load, "low_h")};
    map.high = {NoteOf(load, "high_w"), NoteOf(load, "high_h")};
  }
  for (const ir::Range& range : global.ranges) map.box.push_back(*ir::ConstInt(range.extent));
  const int64_t blocks = NoteOf(load, "cluster");
  if (blocks > 1) map.box[static_cast<size_t>(ir::RowDimension(global))] /= blocks;
  if (map.swizzle > 0) map.box.back() = map.swizzle / global.buffer->dtype.bytes();
  return map;
}

std::vector<TensorMap> CollectTensorMaps(const ir::Launch& launch) {
  std::vector<TensorMap> maps;
  ir::Walk(launch.body, [&](const ir::Stmt& s) {
    const auto* load = s.As<ir::Instruct>();
    if (load == nullptr) return true;
    const bool moves = load->op == ir::Instruction::kTensorLoad ||
                       load->op == ir::Instruction::kPatchLoad ||
                       load->op == ir::Instruction::kTensorStore;
    if (moves && !absl::c_linear_search(maps, MapOf(*load))) {
      maps.push_back(MapOf(*load));
    }
    return true;
  });
  return maps;
}

}  // namespace kiln::codegen
