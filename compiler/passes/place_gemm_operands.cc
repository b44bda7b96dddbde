#include "compiler/passes/place_gemm_operands.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/passes/build.h"
#include "compiler/passes/lower_gemm_cpu.h"
#include "compiler/passes/pair_operands.h"

namespace kiln::passes {
namespace {

// How the program uses one shared tile.
struct TileUse {
  bool staged_only = true;  // touched by Copy, Fill and Gemm alone
  bool gemm_a = false;      // read as A with K the last dimension
  bool gemm_b = false;      // read as B with N the last dimension
  bool streamed = false;    // some Gemm has so few rows that it reads B once, in whole rows
  bool exact = true;        // whatever is written to it is a value of its type before the write
  bool rows = true;         // every Copy and Fill takes whole rows, every Gemm all of it as B
};

using Uses = std::map<const ir::BufferNode*, TileUse>;

bool IsTile(const ir::Buffer& buffer) {
  return buffer != nullptr && buffer->scope == ir::Scope::kShared && buffer->shape.size() == 2 &&
         buffer->strides.empty() && buffer->layout.empty();
}

// Whether every value of type `from` is one of the float type `to`.
bool HoldsExactly(DType to, DType from) {
  if (from == to || from.is_bool()) return true;
  return from.bits <= 8;
}

bool HoldsValue(DType to, const ir::Expr& value) {
  const auto number = ir::ConstFloat(value);
  return number.has_value() ? RoundToType(*number, to) == *number : HoldsExactly(to, value.dtype());
}

// All columns of a matrix: vectors then run along rows from the start of a panel.
bool TakesWholeRows(const ir::Region& region) {
  return region.ranges.size() == 2 && ir::IsConst(region.ranges[1].min, 0) &&
         ir::Same(region.ranges[1].extent, region.buffer->shape[1]) &&
         !ir::IsConst(region.ranges[1].extent, 1);
}

Uses CollectUses(const ir::Program& program) {
  Uses uses;
  ir::Walk(
      program.body,
      [&](const ir::Stmt& s) {
        if (const auto* copy = s.As<ir::Copy>()) {
          TileUse& dst = uses[copy->dst.buffer.get()];
          dst.exact &= HoldsExactly(copy->dst.buffer->dtype, copy->src.buffer->dtype);
          dst.rows &= TakesWholeRows(copy->dst);
          uses[copy->src.buffer.get()].rows &= TakesWholeRows(copy->src);
        } else if (const auto* fill = s.As<ir::Fill>()) {
          TileUse& dst = uses[fill->dst.buffer.get()];
          dst.exact &= HoldsValue(fill->dst.buffer->dtype, fill->value);
          dst.rows &= TakesWholeRows(fill->dst);
        } else if (const auto* gemm = s.As<ir::Gemm>()) {
          if (IsTile(gemm->a.buffer)) {
            TileUse& use = uses[gemm->a.buffer.get()];
            if (!gemm->trans_a) use.gemm_a = true;
            use.rows = false;
          }
          if (IsTile(gemm->b.buffer)) {
            TileUse& use = uses[gemm->b.buffer.get()];
            if (!gemm->trans_b) use.gemm_b = true;
            use.rows &= !gemm->trans_b && TakesWholeRows(gemm->b);
            const auto rows = ir::ConstInt(gemm->c.ranges[gemm->c.ranges.size() - 2].extent);
            if (rows.has_value() && *rows <= kStreamRows) use.streamed = true;
          }
          if (IsTile(gemm->c.buffer)) uses[gemm->c.buffer.get()].staged_only = false;
        } else {
          if (const auto* store = s.As<ir::Store>()) uses[store->buffer.get()].staged_only = false;
          if (const auto* gemm = s.As<ir::PairGemm>()) {
            uses[gemm->a.buffer.get()].staged_only = false;
          }
          if (const auto* reduce = s.As<ir::Reduce>()) {
            uses[reduce->src.buffer.get()].staged_only = false;
            uses[reduce->dst.buffer.get()].staged_only = false;
          }
          if (const auto* atomic = s.As<ir::Atomic>()) {
            uses[atomic->dst.buffer.get()].staged_only = false;
            if (atomic->src.buffer != nullptr) uses[atomic->src.buffer.get()].staged_only = false;
          }
        }
        return true;
      },
      [&](const ir::Expr& e) {
        if (const auto* load = e.As<ir::Load>()) uses[load->buffer.get()].staged_only = false;
        return true;
      });
  return uses;
}

// The tile with its storage chosen, or null to leave it alone.
ir::Buffer Place(const ir::Buffer& tile, const TileUse& use, const VectorUnit& unit) {
  if (!use.gemm_a && !use.gemm_b) return nullptr;
  ir::BufferNode placed = *tile;
  const bool narrow = tile->dtype == kFloat16 || tile->dtype == kBFloat16;
  if (use.staged_only && use.exact && narrow) placed.dtype = kFloat32;
  const int64_t lanes = unit.Lanes(ComputeType(tile->dtype));
  const auto columns = ir::ConstInt(tile->shape[1]);
  if (!columns.has_value()) return nullptr;
  const int64_t panel = 2 * lanes;
  const bool panels = use.gemm_b && !use.gemm_a && !use.streamed && use.staged_only && use.rows;
  if (panels && *columns > panel && *columns % panel == 0) {
    placed.layout = absl::StrCat("panels:", panel);
  } else if (use.gemm_a && !use.gemm_b && *columns % lanes == 0) {
    placed.strides = {ir::MakeInt(*columns + lanes), ir::MakeInt(1)};
  }
  return std::make_shared<const ir::BufferNode>(placed);
}

}  // namespace

absl::StatusOr<ir::Program> PlaceGemmOperands(const ir::Program& program,
                                              const PassContext& context) {
  const ir::Program paired = context.amx_bf16 ? PairOperands(program) : program;
  const Uses uses = CollectUses(paired);
  ir::BufferMap placed;
  ir::Walk(paired.body, [&](const ir::Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || !IsTile(alloc->buffer)) return true;
    const auto use = uses.find(alloc->buffer.get());
    if (use == uses.end()) return true;
    if (ir::Buffer buffer = Place(alloc->buffer, use->second, context.vector)) {
      placed[alloc->buffer.get()] = buffer;
    }
    return true;
  });
  ir::Program out = paired;
  if (!placed.empty()) out.body = ir::Substitute(paired.body, {}, placed);
  return out;
}

}  // namespace kiln::passes
