#include "compiler/roofline/carver_bind.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"

namespace kiln::roofline {
namespace {

constexpr int kOverfetch =
    20;  // hints asked for, a seat: many name tiles that are not in the space

constexpr int64_t kLargestExtent = int64_t{1} << 31;

absl::Status NoTemplate(const std::string& why) {
  return absl::UnimplementedError(absl::StrCat("Carver has no template for this kernel (", why,
                                               "); use strategy 'recommended'"));
}

int AxisOfLoop(const std::vector<int>& loops, int loop) {
  const auto it = std::find(loops.begin(), loops.end(), loop);
  return it == loops.end() ? -1 : static_cast<int>(it - loops.begin());
}

// Loops that move the dimensions of the stored tensor, in order of its dimensions, then the loops
// inside the block that move an input.
struct Axes {
  std::vector<int> loops;
  size_t space = 0;
  std::vector<int64_t> extents;
};

absl::Status AddDimensions(const Demand& d, const Access& a, bool space, Axes& axes) {
  const auto& shape = d.tensors[a.tensor].shape;
  for (size_t dim = 0; dim < a.dim_loop.size(); ++dim) {
    const auto extent = shape[dim].constant();
    if (!extent) return NoTemplate("a shape depends on a tunable");
    const int loop = a.dim_loop[dim];
    if (*extent == 1) continue;
    if (loop < 0) {
      return NoTemplate(absl::StrCat("dimension ", dim, " of '", d.tensors[a.tensor].name,
                                     "' is not tiled by any loop"));
    }
    if (AxisOfLoop(axes.loops, loop) >= 0) continue;
    if (space != d.loops[loop].grid) return NoTemplate("its blocks do not tile the output");
    axes.loops.push_back(loop);
    axes.extents.push_back(static_cast<int64_t>(*extent));
  }
  return absl::OkStatus();
}

const std::string* TextOf(const Axis& axis, int64_t value) {
  const auto at = std::find(axis.texts.begin(), axis.texts.end(), absl::StrCat(value));
  return at == axis.texts.end() ? nullptr : &*at;
}

// The value that `hint` gives to a tunable of `role`; -1 = it says nothing.
int64_t ValueFor(const CarverHint& hint, const Axis& axis) {
  switch (axis.role) {
    case Role::kTileM:
      return hint.block.size() >= 2 ? hint.block[hint.block.size() - 2] : hint.block.back();
    case Role::kTileN:
      return hint.block.back();
    case Role::kTileK:
      return hint.rstep.empty() ? -1 : hint.rstep.back();
    case Role::kTileRow:
      return hint.block.front();
    case Role::kTileVector:
      return hint.rstep.empty() ? hint.block.back() : hint.rstep.back();
    case Role::kThreads:
      return hint.threads;
    case Role::kStages:
      return hint.pipeline_stage;
    case Role::kPanel:
      return hint.panel;
    default:
      return -1;
  }
}

// The config that a hint names, or nullopt when the space has no such value.
std::optional<Config> ConfigOf(const CarverHint& hint, const PricedSpace& space) {
  Config config;
  for (const Axis& axis : space.axes()) {
    const int64_t value = ValueFor(hint, axis);
    const std::string* text = value < 0 ? nullptr : TextOf(axis, value);
    // A tunable with one value, or one that the rule does not know, keeps its first.
    if (text == nullptr && (axis.texts.size() == 1 || value < 0)) text = &axis.texts.front();
    if (text == nullptr) return std::nullopt;
    config.Set(axis.name, *text);
  }
  return config;
}

}  // namespace

absl::StatusOr<CarverNode> CarverNodeOf(const Demand& d) {
  int gemms = 0, reductions = 0;
  const OpDemand* gemm = nullptr;
  for (const OpDemand& op : d.ops) {
    if (op.kind == OpKind::kGemm) {
      ++gemms;
      gemm = &op;
    }
    if (op.kind == OpKind::kReduce) ++reductions;
  }
  if (d.launches.size() != 1 || gemms + reductions > 1) {
    return NoTemplate("it is more than one matrix product or reduction");
  }
  const Access* store = nullptr;
  for (const Access& a : d.accesses) {
    if (!a.write) continue;
    if (store != nullptr) return NoTemplate("it stores more than one tensor");
    store = &a;
  }
  if (store == nullptr) return NoTemplate("it stores no tensor");
  Axes axes;
  KILN_RETURN_IF_ERROR(AddDimensions(d, *store, true, axes));
  axes.space = axes.loops.size();
  CarverNode node;
  for (const Access& a : d.accesses) {
    if (a.write) continue;
    KILN_RETURN_IF_ERROR(AddDimensions(d, a, false, axes));
    CarverTensor t;
    t.dtype = d.tensors[a.tensor].dtype;
    for (size_t dim = 0; dim < a.dim_loop.size(); ++dim) {
      const int axis = AxisOfLoop(axes.loops, a.dim_loop[dim]);
      if (axis >= 0) t.axes.push_back(axis);
    }
    node.inputs.push_back(std::move(t));
  }
  if (node.inputs.empty() || axes.space == 0) return NoTemplate("it reads or tiles nothing");
  node.space.assign(axes.extents.begin(), axes.extents.begin() + static_cast<int64_t>(axes.space));
  node.reduce.assign(axes.extents.begin() + static_cast<int64_t>(axes.space), axes.extents.end());
  node.out = d.tensors[store->tensor].dtype;
  node.accum = gemm != nullptr ? gemm->c_type : node.out;
  node.contraction = gemm != nullptr;
  return node;
}

absl::Status ListCarver(const Request& request, const PricedSpace& space, Recommendation& out) {
  KILN_ASSIGN_OR_RETURN(const CarverNode node, CarverNodeOf(space.FirstDemand()));
  for (const std::vector<int64_t>* extents : {&node.space, &node.reduce}) {
    for (const int64_t n : *extents) {
      if (n <= kLargestExtent) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Carver's rule tries the divisors of each extent, and ", n, " is above ",
                       kLargestExtent, "; use the strategy 'recommended', which does not"));
    }
  }
  const CarverDevice device = CarverDeviceOf(request.arch);
  const auto hints = EmitCarver(node, device, request.top_k * kOverfetch);
  int outside = 0;
  std::set<int64_t> listed;
  for (const CarverHint& h : hints) {
    if (static_cast<int>(out.ranked.size()) >= request.top_k) break;
    const std::optional<Config> config = ConfigOf(h, space);
    const int64_t rank = config ? space.RankOf(*config) : -1;
    if (rank < 0 || !listed.insert(rank).second) {
      outside += rank < 0 ? 1 : 0;
      continue;
    }
    Hint hint = space.HintAt(rank);
    hint.reason = absl::StrCat("Carver: ", h.tensor_core ? "TensorCorePolicy" : "DefaultPolicy",
                               ", priority ", static_cast<int64_t>(h.priority), ". ", hint.reason);
    hint.fields["use_async"] = h.use_async ? "1" : "0";
    if (!h.warp.empty()) hint.fields["warp"] = absl::StrJoin(h.warp, ",");
    out.ranked.push_back(std::move(hint));
  }
  if (outside > 0) {
    out.notes.push_back(
        absl::StrCat(outside, " of Carver's hints are not legal configs of the space"));
  }
  if (out.ranked.empty()) {
    return absl::NotFoundError("Carver has no hint that is a legal config of the space");
  }
  return absl::OkStatus();
}

}  // namespace kiln::roofline
