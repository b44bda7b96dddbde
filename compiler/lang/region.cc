#include "compiler/lang/region.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lang/tile.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

bool IsWhole(const Value& v) {
  return v.Is(Type::kBuffer) && v.buffer().buffer->scope != ir::Scope::kVar &&
         v.buffer().buffer->scope != ir::Scope::kBarrier;
}

bool IsTile(const Value& v) { return IsWhole(v) || (v.Is(Type::kAccess) && !v.access().is_point); }

// A whole buffer as a region of it.
Value AsRegion(Elaborator& e, const Value& v) {
  if (!IsWhole(v)) return v;
  auto* access = e.arena().New<AccessObject>();
  access->buffer = v.buffer().buffer;
  for (const ir::Expr& extent : access->buffer->shape) {
    access->indices.push_back({ir::MakeInt(0, extent.dtype()), extent, true});
  }
  return Value::Of(Type::kAccess, access);
}

// The elements of a short row; 0 of anything else.
size_t LanesIn(const AccessObject& region) {
  int64_t lanes = 0;
  for (const AccessIndex& index : region.indices) {
    if (!index.is_slice) continue;
    const auto extent = ir::ConstInt(index.extent);
    if (lanes != 0 || !extent || *extent > static_cast<int64_t>(kMaxLanes)) return 0;
    lanes = *extent;
  }
  return static_cast<size_t>(lanes);
}

bool IsFragment(const Value& v) {
  return v.Is(Type::kAccess) && v.access().buffer->scope == ir::Scope::kFragment;
}

}  // namespace

absl::Status AssignRegion(Elaborator& e, const Value& place, const Value& value, SourceLoc loc) {
  const Value from = AsRegion(e, value);
  KILN_ASSIGN_OR_RETURN(const Tile dst, e.ToTile(place, loc, "the place of a store"));
  size_t lanes = LanesIn(place.access());
  Tile src;
  if (IsTile(from)) {
    KILN_ASSIGN_OR_RETURN(src, e.ToTile(from, loc, "what is stored"));
    KILN_RETURN_IF_ERROR(RequireSameShape(e, src, dst, loc, "a store"));
    if (LanesIn(from.access()) != lanes) lanes = 0;
  }
  // By single elements a fragment would be held by every thread.
  const bool row = lanes > 0 && (e.InElementLoop() || !(IsFragment(place) || IsFragment(from)));
  if (!row && e.InElementLoop()) {
    return e.Unimplemented(
        loc,
        absl::StrCat("a region of '", place.access().buffer->name,
                     "' of more than one axis, or of ", "more than ", kMaxLanes,
                     " elements, is assigned to in a loop over elements"),
        "give its axes to the loop, or write a loop over them: for v in T.serial(n)");
  }
  if (!row && IsTile(from)) return e.EmitNew<ir::Copy>(loc, src.region, dst.region);
  if (!row) {
    KILN_ASSIGN_OR_RETURN(const Operand stored,
                          e.ToType(value, dst.region.buffer->dtype, loc, "what is stored"));
    return e.EmitNew<ir::Fill>(loc, dst.region, stored.e);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> at, LanesOf(e, place, lanes, loc));
  return StoreLanes(e, at, from, loc);
}

absl::Status ExpandEllipsis(Elaborator& e, const ir::Buffer& buffer, std::vector<Value>* indices,
                            std::vector<SourceLoc>* locs) {
  const auto is = [](const Value& v) { return v.Is(Type::kEllipsis); };
  const auto found = std::find_if(indices->begin(), indices->end(), is);
  if (found == indices->end()) return absl::OkStatus();
  const size_t at = found - indices->begin();
  const SourceLoc loc = (*locs)[at];
  if (std::count_if(indices->begin(), indices->end(), is) > 1) {
    return e.Error(loc, absl::StrCat("two '...' in an index of '", buffer->name, "'"),
                   "keep one: it stands for all dimensions that the others leave");
  }
  const size_t rank = buffer->shape.size();
  if (indices->size() > rank + 1) return absl::OkStatus();  // too many without it
  const size_t count = rank + 1 - indices->size();
  const Value all = Value::Of(Type::kSlice, e.arena().New<SliceObject>());
  indices->erase(indices->begin() + static_cast<std::ptrdiff_t>(at));
  locs->erase(locs->begin() + static_cast<std::ptrdiff_t>(at));
  indices->insert(indices->begin() + static_cast<std::ptrdiff_t>(at), count, all);
  locs->insert(locs->begin() + static_cast<std::ptrdiff_t>(at), count, loc);
  return absl::OkStatus();
}

bool LacksIndices(const Value& v) { return v.Is(Type::kAccess) && v.access().missing > 0; }

std::string IndexAll(const Value& v) {
  const AccessObject& access = v.access();
  std::string names;
  const size_t rank = access.indices.size();
  for (size_t d = 0; d < rank; ++d) {
    absl::StrAppend(&names, d > 0 ? ", " : "", std::string(1, static_cast<char>('i' + d % 18)));
  }
  return absl::StrCat("index ", rank == 2 ? "both" : absl::StrCat("all ", rank), " dimensions of '",
                      access.buffer->name, "', as in ", access.buffer->name, "[", names, "]");
}

}  // namespace kiln::lang
