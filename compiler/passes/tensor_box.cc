#include "compiler/passes/tensor_box.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/swizzle.h"
#include "compiler/passes/gemm_layouts.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kMostStride = (int64_t{1} << 40) - target::kBoxRowBytes;  // bytes
constexpr int64_t kMostExtent = int64_t{1} << 31;  // coordinates are of 32 bits
constexpr size_t kMostRank = 5;
constexpr int64_t kMostTiles = 2;  // one is written while the other is fetched
constexpr int64_t kTileAlign = 1024;

// What is wrong with the bytes between neighbours along a dimension; `exactly` so many where that
// is not 0. Of those that are known at run time alone the divisor counts; whether they are few
// enough the driver sees.
std::string WhyNoStride(const Expr& stride, int64_t exactly) {
  const auto bytes = ir::ConstInt(stride);
  if (exactly > 0) return bytes == exactly ? "" : "elements of a row do not lie side by side";
  if (bytes) {
    const bool fits = *bytes > 0 && *bytes <= kMostStride && *bytes % target::kBoxRowBytes == 0;
    return fits ? ""
                : absl::StrCat("rows lie ", *bytes, " bytes apart, no multiple of 16 below 2^40");
  }
  if (ir::Facts().Divides(target::kBoxRowBytes, stride)) return "";
  std::vector<std::string> sizes;
  ir::Walk(stride, [&](const Expr& e) {
    if (const auto* size = e.As<ir::Var>()) sizes.push_back(size->name);
    return true;
  });
  return absl::StrCat("rows lie as far apart as ", absl::StrJoin(sizes, " and "),
                      " says, not known to be a multiple of 16 bytes: T.assume can say so");
}

}  // namespace

std::string WhyNoTensorBox(const ir::Region& box, const Expr& rows, const Expr& columns,
                           bool panels) {
  const ir::Buffer& tensor = box.buffer;
  const size_t rank = tensor->shape.size();
  if (tensor->scope != ir::Scope::kGlobal) return "it is no tensor";
  if (tensor->table) return "it lies where a table says";
  if (rank < 2 || rank > kMostRank) return absl::StrCat("a tensor of ", rank, " dimensions");
  const auto row_dimension = static_cast<size_t>(ir::RowDimension(box));
  Expr stride = MakeInt(tensor->dtype.bytes());
  for (size_t d = rank; d-- > 0;) {
    const ir::Range& range = box.ranges[d];
    const auto extent = ir::ConstInt(range.extent);
    const bool one_box = d + 1 < rank || !panels;
    if (!extent || (one_box && *extent > target::kMostBox)) return "a side of the box is above 256";
    if (ReadsMemory(range.min)) return "its place is looked up in memory";
    const bool matrix = d == row_dimension || d + 1 == rank;
    const Expr side = !matrix ? MakeInt(1) : d == row_dimension ? rows : columns;
    if (!ir::IsConst(range.extent, ir::ConstInt(side).value_or(-1))) return "its shape is another";
    if (!tensor->strides.empty()) {
      stride = ir::MakeCast(kInt64, tensor->strides[d]) * MakeInt(tensor->dtype.bytes());
    }
    std::string why = WhyNoStride(stride, d + 1 == rank ? tensor->dtype.bytes() : 0);
    if (!why.empty()) return why;
    const auto whole = ir::ConstInt(tensor->shape[d]);
    if (whole.value_or(0) > kMostExtent) return "a side of the tensor is above 2^31";
    stride = stride * ir::MakeCast(kInt64, tensor->shape[d]);
  }
  return "";
}

target::TileFetch AsFetch(const ir::Buffer& tile, bool multiplied, bool panels) {
  const size_t rank = tile->shape.size();
  target::TileFetch fetch;
  fetch.type = tile->dtype;
  fetch.rows = ir::ConstInt(tile->shape[rank - 2]).value_or(0);
  fetch.columns = ir::ConstInt(tile->shape[rank - 1]).value_or(0);
  fetch.multiplied = multiplied;
  fetch.panels = panels;
  return fetch;
}

std::optional<StagedStore> StageStore(const ir::Copy& copy, int64_t bytes, int64_t span) {
  if (copy.src.buffer->scope != ir::Scope::kFragment) return std::nullopt;
  const auto dims = ir::MatrixDims(copy.src);
  if (!dims) return std::nullopt;
  const Expr& rows = copy.src.ranges[dims->first].extent;
  const auto columns = ir::ConstInt(copy.src.ranges[dims->second].extent);
  const DType type = copy.dst.buffer->dtype;
  if (!columns || !ir::ConstInt(rows)) return std::nullopt;
  const layout::SwizzleMode mode = layout::WidestMode(type.bits, *columns);
  if (mode == layout::SwizzleMode::kNone) return std::nullopt;
  const int64_t width = layout::RowBytes(mode) / type.bytes();
  const int64_t panels = *columns / width;
  if (span % width != 0 && width % span != 0) return std::nullopt;
  const auto column = static_cast<size_t>(copy.dst.buffer->shape.size() - 1);
  const auto panel_of = [&](const ir::Region& region, size_t dimension, int64_t p) {
    ir::Region panel = region;
    panel.ranges[dimension] = {region.ranges[dimension].min + MakeInt(p * width), MakeInt(width)};
    return panel;
  };
  if (!ir::Same(copy.dst.ranges[column].extent, MakeInt(*columns)) ||
      !WhyNoTensorBox(panel_of(copy.dst, column, 0), rows, MakeInt(width)).empty()) {
    return std::nullopt;
  }
  const int64_t height = *ir::ConstInt(rows);
  const int64_t tile_bytes =
      (height * layout::RowBytes(mode) + kTileAlign - 1) / kTileAlign * kTileAlign;
  const int64_t count = std::min({kMostTiles, panels, bytes / tile_bytes});
  const auto lies = SharedOperandLayout(MatrixUnit::kWgmma, type.bits, {height, width});
  if (count < 1 || !lies.ok() || !*lies) return std::nullopt;

  StagedStore staged;
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = absl::StrCat(copy.src.buffer->name, ".out", i);
    staged.tiles.push_back(ir::MakeBuffer(name, type, {rows, MakeInt(width)}, ir::Scope::kShared));
    staged.layouts[absl::StrCat("layout:", name)] = (*lies)->ToString();
  }
  std::vector<Stmt> stmts;
  for (int64_t p = 0; p < panels; ++p) {
    const ir::Region tile = ir::WholeBuffer(staged.tiles[static_cast<size_t>(p % count)]);
    // Where the tile was used last: one store ago, or two; the last panel's tile may be the
    // first's.
    const int64_t left = count == 1 || (p == 0 && panels % count != 0) ? 0 : count - 1;
    stmts.push_back(
        ir::MakeInstruct(copy.loc, ir::Instruction::kStoreWait, {tile}, {MakeInt(left)}));
    stmts.push_back(ir::MakeStmt<ir::Copy>(
        copy.loc, panel_of(copy.src, static_cast<size_t>(dims->second), p), tile));
    stmts.push_back(ir::MakeInstruct(copy.loc, ir::Instruction::kTensorStore,
                                     {tile, panel_of(copy.dst, column, p)}));
  }
  staged.body = ir::MakeStmt<ir::Seq>(copy.loc, std::move(stmts));
  staged.end = ir::MakeInstruct(copy.loc, ir::Instruction::kStoreWait,
                                {ir::WholeBuffer(staged.tiles[0])}, {MakeInt(0)});
  return staged;
}

}  // namespace kiln::passes
