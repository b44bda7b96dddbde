#include "compiler/codegen/tensor_maps.h"

#include "absl/algorithm/container.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/swizzle.h"

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
  const auto row = static_cast<size_t>(ir::RowDimension(global));
  const int64_t blocks = NoteOf(load, "cluster");
  if (blocks > 1) map.box[row] /= blocks;
  if (map.swizzle > 0) map.box.back() = map.swizzle / global.buffer->dtype.bytes();
  if (const int64_t panels = NoteOf(load, "bands0"); panels > 0) {
    map.banded_rows = static_cast<int>(row);
    const int64_t rows = map.box[row], width = map.box.back();
    map.box.pop_back();
    map.box.erase(map.box.begin() + map.banded_rows);
    map.box.insert(map.box.end(), {rows / layout::kAtomRows, panels, layout::kAtomRows, width});
  }
  return map;
}

std::vector<ViewSide> ViewOf(const TensorMap& map) {
  const ir::Buffer& tensor = map.tensor;
  const int last = static_cast<int>(tensor->shape.size()) - 1;
  std::vector<ViewSide> sides;
  if (map.banded_rows < 0) {
    for (int d = 0; d <= last; ++d) {
      sides.push_back(
          {tensor->shape[d], tensor->strides.empty() ? ir::Expr() : tensor->strides[d], d});
    }
    return sides;
  }
  std::vector<int64_t> strides(last + 1, 1);
  for (int d = last; d-- > 0;) strides[d] = strides[d + 1] * *ir::ConstInt(tensor->shape[d + 1]);
  const auto add = [&](int d, int64_t unit, int64_t extent, bool within) {
    sides.push_back({ir::MakeInt(extent), ir::MakeInt(unit * strides[d]), d, unit, within});
  };
  const auto units = [&](int d, int64_t unit) {
    add(d, unit, *ir::ConstInt(tensor->shape[d]) / unit, false);
  };
  for (int d = 0; d < last; ++d) {
    if (d != map.banded_rows) units(d, 1);
  }
  const int64_t width = map.box.back();
  units(map.banded_rows, layout::kAtomRows);
  units(last, width);
  add(map.banded_rows, 1, layout::kAtomRows, true);
  add(last, 1, width, true);
  return sides;
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
