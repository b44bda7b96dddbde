#include "compiler/ir/sparse.h"

#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

// The annotation of a loop that expands a sparse form: which of its operands are turned.
constexpr char kExpands[] = "expands";

// Element (row, column) of a matrix operand.
Expr ElementOf(const Region& region, bool turned, const Expr& row, const Expr& column) {
  const auto dims = *MatrixDims(region);
  std::vector<Expr> indices;
  for (const Range& range : region.ranges) indices.push_back(range.min);
  indices[dims.first] = indices[dims.first] + (turned ? column : row);
  indices[dims.second] = indices[dims.second] + (turned ? row : column);
  return MakeLoad(region.buffer, std::move(indices));
}

Expr Constant(int64_t value, const Expr& like) { return MakeInt(value, like.dtype()); }

// Bits [first, first + count) of an integer; `first` may be an expression.
Expr Bits(const Expr& word, const Expr& first, int64_t count) {
  const Expr by = MakeCast(word.dtype(), first);
  return MakeBinary(BinaryOp::kBitAnd, MakeBinary(BinaryOp::kShr, word, by),
                    Constant((1 << count) - 1, word));
}

// The region of `extents` that begins where an access does once the loop's variables are 0.
std::optional<Region> RegionFrom(const Load& load, const VarMap& zeros, bool turned, int64_t rows,
                                 int64_t columns) {
  if (load.predicate.defined() || load.indices.size() < 2) return std::nullopt;
  Region region{load.buffer, {}};
  for (const Expr& index : load.indices) {
    region.ranges.push_back({Substitute(index, zeros), MakeInt(1)});
  }
  const size_t rank = region.ranges.size();
  region.ranges[rank - 2].extent = MakeInt(turned ? columns : rows);
  region.ranges[rank - 1].extent = MakeInt(turned ? rows : columns);
  return region;
}

const Load* LoadIn(const Expr& e) {
  const Load* found = nullptr;
  Walk(e, [&](const Expr& x) {
    if (const auto* load = x.As<Load>(); load != nullptr && found == nullptr) found = load;
    return found == nullptr;
  });
  return found;
}

}  // namespace

bool HasSparseForm(DType element) {
  if (element.lanes != 1 || element.is_bool()) return false;
  if (element.bits == 8) return true;
  return element.is_float() && (element.bits == 16 || element.bits == 32);
}

bool IsMetadata(DType type) {
  return type.is_int() && type.lanes == 1 && (type.bits == 8 || type.bits == 16 || type.bits == 32);
}

SparseForm SparseFormOf(DType element) {
  return element.bits == 32 ? SparseForm{2, 1} : SparseForm{4, 2};
}

int64_t DensePerMetadata(DType element, DType metadata) {
  return metadata.bits / kMetadataBits * SparseFormOf(element).group;
}

std::optional<int64_t> PlaceInGroup(DType element, int64_t bits, int64_t i) {
  const int64_t first = bits & 3, second = bits >> 2 & 3;
  if (SparseFormOf(element).kept == 1) {
    if (first % 2 != 0 || second != first + 1) return std::nullopt;
    return first / 2;
  }
  if (first >= second) return std::nullopt;
  return i == 0 ? first : second;
}

Expr DenseElement(const SparseMatrix& x, const Expr& row, const Expr& group, const Expr& place) {
  const DType type = x.a.buffer->dtype, stored = x.e.buffer->dtype;
  const SparseForm form = SparseFormOf(type);
  const Expr per = MakeInt(stored.bits / kMetadataBits);
  Expr word = ElementOf(x.e, x.trans_e, row, FloorDiv(group, per));
  if (stored.bits < 32) word = MakeCast(kInt32, word);
  const Expr from = FloorMod(group, per) * MakeInt(kMetadataBits);
  const Expr wanted = MakeCast(word.dtype(), place);
  const auto kept = [&](int64_t i) {
    return ElementOf(x.a, x.trans_a, row, group * MakeInt(form.kept) + MakeInt(i));
  };
  const Expr zero = MakeConst(0, type);
  if (form.kept == 1) {
    return MakeSelect(Equal(Bits(word, from + MakeInt(1), 1), wanted), kept(0), zero);
  }
  return MakeSelect(Equal(Bits(word, from, 2), wanted), kept(0),
                    MakeSelect(Equal(Bits(word, from + MakeInt(2), 2), wanted), kept(1), zero));
}

Stmt Expand(const SparseMatrix& x, const Buffer& dense, SourceLoc loc) {
  const int64_t group = SparseFormOf(dense->dtype).group;
  std::vector<Axis> axes;
  const auto axis = [&](const char* name, const Expr& extent) {
    axes.push_back({MakeVar(name), MakeInt(0), extent});
    return axes.back().var;
  };
  const Expr row = axis("i", dense->shape[0]);
  const Expr g = axis("g", FloorDiv(dense->shape[1], MakeInt(group)));
  const Expr place = axis("p", MakeInt(group));
  const Stmt store = MakeStmt<Store>(loc, dense, std::vector<Expr>{row, g * MakeInt(group) + place},
                                     DenseElement(x, row, g, place));
  const std::string turned = std::string(x.trans_a ? "a" : "") + (x.trans_e ? "e" : "");
  return MakeStmt<For>(loc, ForKind::kParallel, std::move(axes), store, Expr(),
                       std::map<std::string, std::string>{{kExpands, turned}});
}

std::optional<SparseMatrix> ExpandedBy(const Stmt& s, const Buffer& dense) {
  const auto* loop = s.As<For>();
  if (loop == nullptr || loop->annotations.count(kExpands) == 0 || loop->axes.size() != 3) {
    return std::nullopt;
  }
  const auto* store = loop->body.As<Store>();
  const auto* select = store == nullptr ? nullptr : store->value.As<Select>();
  const bool whole = select != nullptr && store->buffer == dense && !store->predicate.defined();
  const auto rows = ConstInt(dense->shape[0]), depth = ConstInt(dense->shape[1]);
  if (!whole || dense->shape.size() != 2 || !rows || !depth) return std::nullopt;
  const auto* kept = select->a.As<Load>();
  const Load* metadata = LoadIn(select->condition);
  if (kept == nullptr || metadata == nullptr) return std::nullopt;
  VarMap zeros;
  for (const Axis& axis : loop->axes) {
    if (!IsConst(axis.min, 0)) return std::nullopt;
    zeros[axis.var.get()] = MakeInt(0, axis.var.dtype());
  }
  const std::string& turned = loop->annotations.at(kExpands);
  SparseMatrix x;
  x.trans_a = turned.find('a') != std::string::npos;
  x.trans_e = turned.find('e') != std::string::npos;
  const DType type = kept->buffer->dtype, stored = metadata->buffer->dtype;
  const auto a = RegionFrom(*kept, zeros, x.trans_a, *rows, *depth / 2);
  const auto e =
      RegionFrom(*metadata, zeros, x.trans_e, *rows, *depth / DensePerMetadata(type, stored));
  if (!a || !e) return std::nullopt;
  x.a = *a;
  x.e = *e;
  return x;
}

}  // namespace kiln::ir
