// What a loader of one's own needs to launch the kernels of a cubin: compile.h's manifest,
// "launches".
#include "compiler/codegen/describe_kernels.h"

#include <nlohmann/json.hpp>

#include "compiler/codegen/json_text.h"
#include "compiler/codegen/launch_slots.h"
#include "compiler/ir/printer.h"

namespace kiln::codegen {
namespace {

using Json = nlohmann::json;

// A number where it is constant, else an expression over run-time dimensions.
Json Extent(const ir::Expr& e) {
  const auto n = ir::ConstInt(e);
  return n.has_value() ? Json(*n) : Json(ir::ToString(e));
}

Json Extents(const std::vector<ir::Expr>& extents) {
  Json out = Json::array();
  for (const ir::Expr& e : extents) out.push_back(Extent(e));
  return out;
}

Json Map(const TensorMap& map) {
  std::vector<ir::Expr> shape, strides;
  for (const ViewSide& side : ViewOf(map)) {
    shape.push_back(side.extent);
    if (side.stride.defined()) strides.push_back(side.stride);
  }
  Json out = {{"tensor", map.tensor->name},
              {"dtype", map.tensor->dtype.ToString()},
              {"shape", Extents(shape)},
              {"strides", Extents(strides)},
              {"box", map.box},
              {"swizzle_bytes", map.swizzle}};
  if (map.patches) {
    out["im2col"] = {{"low", map.low}, {"high", map.high}, {"stride", map.stride}};
  }
  return out;
}

Json Kernel(const GpuKernel& kernel, const ir::Launch& launch, const LaunchSlots& slots) {
  ir::Expr blocks = ir::MakeInt(1);
  for (const ir::Axis& axis : launch.grid) blocks = blocks * axis.extent;
  Json out = {{"kernel", kernel.name},
              {"grid_x", Extent(blocks)},
              {"block_x", kernel.threads},
              {"cluster_x", kernel.cluster},
              {"dynamic_shared_bytes", kernel.shared_bytes},
              {"parameters", slots.Names()},
              {"tensor_maps", Json::array()}};
  for (const TensorMap& map : kernel.maps) out["tensor_maps"].push_back(Map(map));
  return out;
}

}  // namespace

std::string DescribeKernels(const ir::Program& lowered, const std::vector<GpuKernel>& kernels) {
  const LaunchSlots slots(lowered);
  Json out = {
      {"launches", Json::array()}, {"workspaces", Json::array()}, {"variables", Json::array()}};
  size_t next = 0;
  for (const ir::Stmt& s : slots.host()) {
    if (const auto* launch = s.As<ir::Launch>()) {
      out["launches"].push_back(Kernel(kernels[next++], *launch, slots));
    } else if (const auto* bind = s.As<ir::Bind>()) {
      out["variables"].push_back(
          {{"name", bind->var.As<ir::Var>()->name}, {"value", ir::ToString(bind->value)}});
    }
  }
  for (const ir::Buffer& workspace : slots.workspaces()) {
    out["workspaces"].push_back({{"name", workspace->name},
                                 {"dtype", workspace->dtype.ToString()},
                                 {"shape", Extents(workspace->shape)}});
  }
  return JsonText(out);
}

}  // namespace kiln::codegen
