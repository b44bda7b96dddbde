// Tiles: buffers and regions as operands of tile ops.
#include "compiler/lang/tile.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/extent.h"
#include "compiler/lang/tables.h"

namespace kiln::lang {
namespace {

std::string ShapeText(const ir::Region& region) {
  std::string text = "(";
  for (size_t i = 0; i < region.ranges.size(); ++i) {
    absl::StrAppend(&text, i ? ", " : "", ir::ToString(region.ranges[i].extent));
  }
  return text + ")";
}

std::vector<ir::Expr> Extents(const ir::Region& region, bool drop_units) {
  std::vector<ir::Expr> extents;
  for (const ir::Range& range : region.ranges) {
    if (!drop_units || !ir::IsConst(range.extent, 1)) extents.push_back(range.extent);
  }
  return extents;
}

}  // namespace

absl::StatusOr<Tile> Elaborator::ToTile(const Value& v, SourceLoc loc, absl::string_view what) {
  Tile tile;
  if (v.Is(Type::kBuffer)) KILN_RETURN_IF_ERROR(CheckNoAddress(*this, v.buffer().buffer, loc));
  if (v.Is(Type::kAccess)) KILN_RETURN_IF_ERROR(CheckNoAddress(*this, v.access().buffer, loc));
  if (v.Is(Type::kBuffer) && v.buffer().buffer->scope != ir::Scope::kBarrier) {
    tile.region = ir::WholeBuffer(v.buffer().buffer);
    return tile;
  }
  const AccessObject* access = nullptr;
  if (v.Is(Type::kAccess)) access = &v.access();
  // A name bound to an element still stands for the place where the element lies.
  if (v.Is(Type::kExpr)) access = v.expr().origin;
  if (v.Is(Type::kUnknown)) return NoValue(v, loc);
  if (access == nullptr || access->buffer->scope == ir::Scope::kBarrier) {
    return Error(loc, absl::StrCat(what, " must be a buffer or a region of one, not ", Describe(v)),
                 "pass a buffer x, a region x[a:b, c:d] or a start x[a, c]");
  }
  tile.region.buffer = access->buffer;
  tile.is_base = access->is_point;
  tile.info = access->info;
  for (const AccessIndex& index : access->indices) {
    if (!index.is_slice && !access->is_point) {
      tile.dropped.push_back(static_cast<int>(tile.region.ranges.size()));
    }
    tile.region.ranges.push_back({index.min, index.extent});
  }
  return tile;
}

absl::Status Elaborator::RequireSameExtent(const ir::Expr& a, const ir::Expr& b, SourceLoc loc,
                                           const std::string& message, const std::string& remedy) {
  const ir::Expr difference = Difference(a, b, bound_);
  if (ir::IsConst(difference, 0)) return absl::OkStatus();
  const ExprInfo info = Join(InfoOf(a), InfoOf(b));
  const ir::Expr equal = ir::ConstInt(difference) ? ir::MakeBool(false) : ir::Equal(a, b);
  return Require(equal, info, Error(loc, message, remedy));
}

absl::Status RequireSameShape(Elaborator& e, const Tile& a, const Tile& b, SourceLoc loc,
                              absl::string_view what) {
  std::vector<ir::Expr> x = Extents(a.region, true), y = Extents(b.region, true);
  const std::string message = absl::StrCat(
      what, " between shapes that differ: '", a.region.buffer->name, "' has ", ShapeText(a.region),
      a.shape, ", '", b.region.buffer->name, "' has ", ShapeText(b.region));
  const std::string remedy =
      "give both the same extents; a start such as x[i, j] takes them from the other operand";
  if (x.size() != y.size() && a.region.ranges.size() == b.region.ranges.size()) {
    x = Extents(a.region, false);
    y = Extents(b.region, false);
  }
  if (x.size() != y.size()) return e.Error(loc, message, remedy);
  for (size_t i = 0; i < x.size(); ++i) {
    KILN_RETURN_IF_ERROR(e.RequireSameExtent(x[i], y[i], loc, message, remedy));
  }
  return absl::OkStatus();
}

absl::Status FillBase(Elaborator& e, Tile* base, const Tile& other, SourceLoc loc) {
  std::vector<ir::Range>& ranges = base->region.ranges;
  std::vector<ir::Expr> extents = Extents(other.region, false);
  if (extents.size() > ranges.size()) {
    // More dimensions than the buffer has: those of extent 1 are dropped, leading ones first.
    for (size_t i = 0; i < extents.size() && extents.size() > ranges.size();) {
      if (ir::IsConst(extents[i], 1)) {
        extents.erase(extents.begin() + static_cast<long>(i));
      } else {
        ++i;
      }
    }
  }
  if (extents.size() > ranges.size()) {
    return e.Error(
        loc,
        absl::StrCat("'", base->region.buffer->name, "' has ", ranges.size(),
                     " dimensions, too few for a tile of shape ", ShapeText(other.region)),
        "pass a buffer with at least as many dimensions");
  }
  const size_t lead = ranges.size() - extents.size();
  for (size_t i = 0; i < extents.size(); ++i) ranges[lead + i].extent = extents[i];
  base->is_base = false;
  return absl::OkStatus();
}

}  // namespace kiln::lang
