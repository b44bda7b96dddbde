// Vectors: their lanes, the functions that make and take them apart, packed pairs, and loads and
// stores of several words.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

using ir::Expr;

DType Bits(int bits) { return {TypeCode::kUInt, static_cast<uint8_t>(bits)}; }

Expr AsBits(const Expr& e, DType type) {
  return e.dtype() == type ? e : ir::MakeCall(type, ir::Intrinsic::kReinterpret, {e});
}

absl::StatusOr<size_t> CountOf(Elaborator& e, const BoundArgs& args, size_t i, const char* what) {
  KILN_ASSIGN_OR_RETURN(const int64_t count, e.ToInt(args[i], args.LocOf(i), what));
  if (count >= 1 && count <= static_cast<int64_t>(kMaxLanes)) return static_cast<size_t>(count);
  return e.Error(args.LocOf(i), absl::StrCat(what, " is ", count),
                 absl::StrCat("use 1 to ", kMaxLanes));
}

// Elements of a region whose extents are known, in row-major order; empty where they are not, or
// are too many.
std::vector<Value> ElementsOf(Elaborator& e, const AccessObject& region) {
  int64_t count = 1;
  for (const AccessIndex& index : region.indices) {
    const auto extent = ir::ConstInt(index.extent);
    if (!extent || *extent > static_cast<int64_t>(kMaxLanes)) return {};
    count *= *extent;
    if (count > static_cast<int64_t>(kMaxLanes)) return {};
  }
  std::vector<Value> elements;
  for (int64_t k = 0; k < count; ++k) {
    auto* point = e.arena().New<AccessObject>();
    *point = region;
    point->is_point = true;
    int64_t rest = k;
    for (size_t d = region.indices.size(); d-- > 0;) {
      AccessIndex& index = point->indices[d];
      const int64_t extent = *ir::ConstInt(index.extent);
      const DType type = index.min.dtype();
      index = {index.min + ir::MakeInt(rest % extent, type), ir::MakeInt(1, type), false};
      rest /= extent;
    }
    elements.push_back(Value::Of(Type::kAccess, point));
  }
  return elements;
}

bool IsRegion(const Value& v) { return v.Is(Type::kAccess) && !v.access().is_point; }

// ---- making vectors and taking them apart ----

absl::StatusOr<Value> Ramp(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const size_t lanes, CountOf(e, args, 2, "the lanes of T.Ramp"));
  std::vector<Value> values = {args[0]};
  for (size_t k = 1; k < lanes; ++k) {
    KILN_ASSIGN_OR_RETURN(
        const Value step,
        e.BinaryOp(ast::BinaryOp::kMul, args[1], Value::Int(static_cast<int64_t>(k)), args.loc));
    KILN_ASSIGN_OR_RETURN(const Value lane,
                          e.BinaryOp(ast::BinaryOp::kAdd, args[0], step, args.loc));
    values.push_back(lane);
  }
  return NewVector(e, std::move(values));
}

absl::StatusOr<Value> Broadcast(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const size_t lanes, CountOf(e, args, 1, "the lanes of T.Broadcast"));
  if (IsVector(args[0]) || IsRegion(args[0])) {
    return e.Error(args.LocOf(0), "T.Broadcast of a vector", "pass a scalar");
  }
  KILN_ASSIGN_OR_RETURN(const Value value,
                        e.Keep(args[0], "item", args.LocOf(0), Elaborator::Use::kRepeated));
  return NewVector(e, std::vector<Value>(lanes, value));
}

// Lanes of the vectors, counted through, in the order of the indices.
absl::StatusOr<Value> Shuffle(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> vectors,
                        e.ToItems(args[0], args.LocOf(0), "the vectors of T.Shuffle"));
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> indices,
                        e.ToItems(args[1], args.LocOf(1), "the indices of T.Shuffle"));
  std::vector<Value> all, picked;
  for (const Value& v : vectors) {
    if (IsVector(v)) {
      all.insert(all.end(), v.seq().items.begin(), v.seq().items.end());
    } else if (IsRegion(v)) {
      const std::vector<Value> elements = ElementsOf(e, v.access());
      all.insert(all.end(), elements.begin(), elements.end());
    } else {
      all.push_back(v);
    }
  }
  for (const Value& index : indices) {
    KILN_ASSIGN_OR_RETURN(const int64_t i, e.ToInt(index, args.LocOf(1), "an index of T.Shuffle"));
    if (i < 0 || i >= static_cast<int64_t>(all.size())) {
      return e.Error(args.LocOf(1), absl::StrCat("T.Shuffle of lane ", i, " of ", all.size()),
                     "count the lanes of all vectors from 0");
    }
    picked.push_back(all[static_cast<size_t>(i)]);
  }
  if (picked.empty() || picked.size() > kMaxLanes) {
    return e.Error(args.LocOf(1), absl::StrCat("T.Shuffle to ", picked.size(), " lanes"),
                   absl::StrCat("pick 1 to ", kMaxLanes));
  }
  return picked.size() == 1 ? picked[0] : NewVector(e, std::move(picked));
}

absl::StatusOr<Value> ExtractLane(Elaborator& e, const BoundArgs& args) {
  const std::vector<Value> lanes = IsVector(args[0])   ? args[0].seq().items
                                   : IsRegion(args[0]) ? ElementsOf(e, args[0].access())
                                                       : std::vector<Value>();
  if (lanes.empty()) {
    return e.Error(args.LocOf(0), absl::StrCat("T.extract_lane of ", Describe(args[0])),
                   "pass a vector");
  }
  KILN_ASSIGN_OR_RETURN(const int64_t i, e.ToInt(args[1], args.LocOf(1), "the lane"));
  if (i >= 0 && i < static_cast<int64_t>(lanes.size())) return lanes[static_cast<size_t>(i)];
  return e.Error(args.LocOf(1), absl::StrCat("lane ", i, " of ", lanes.size()),
                 "count lanes from 0");
}

// ---- packed pairs ----

enum PairOp : int { kAdd2, kSub2, kMul2, kFma2, kMax2, kMin2, kAbs2 };

absl::StatusOr<Value> PairLane(Elaborator& e, PairOp op, const std::vector<Value>& x,
                               SourceLoc loc) {
  switch (op) {
    case kAdd2:
      return e.BinaryOp(ast::BinaryOp::kAdd, x[0], x[1], loc);
    case kSub2:
      return e.BinaryOp(ast::BinaryOp::kSub, x[0], x[1], loc);
    case kMul2:
      return e.BinaryOp(ast::BinaryOp::kMul, x[0], x[1], loc);
    case kMax2:
    case kMin2:
      return e.MinMax(op == kMax2, x[0], x[1], loc);
    default:
      break;
  }
  std::vector<Expr> operands;
  ExprInfo info;
  for (const Value& v : x) {
    KILN_ASSIGN_OR_RETURN(const Operand operand, e.ToOperand(v, loc, "a lane"));
    operands.push_back(operand.e);
    info = Join(info, operand.info);
  }
  const ir::Intrinsic call = op == kFma2 ? ir::Intrinsic::kFma : ir::Intrinsic::kAbs;
  const DType type = operands[0].dtype();
  return e.NewExpr(ir::MakeCall(type, call, std::move(operands)), info, loc);
}

// Operands are pairs of one type: float32, float16 or bfloat16.
absl::StatusOr<Value> OnPairs(Elaborator& e, const BoundArgs& args, PairOp op, const char* name) {
  std::vector<Value> operands;
  std::optional<DType> type;
  for (size_t i = 0; i < args.values.size(); ++i) {
    const bool pair = IsVector(args[i]) ? args[i].seq().items.size() == 2 : IsRegion(args[i]);
    if (!pair) {
      return e.Error(args.LocOf(i), absl::StrCat(name, " of ", Describe(args[i])),
                     "pass two neighbours: x[i:i + 2], x[T.Ramp(i, 1, 2)] or a vector of two");
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> lanes, LanesOf(e, args[i], 2, args.LocOf(i)));
    for (const Value& lane : lanes) {
      KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(lane, args.LocOf(i), "a lane"));
      const DType own = x.e.dtype();
      if (type.value_or(own) != own || (own != kFloat32 && own != kFloat16 && own != kBFloat16)) {
        return e.Error(args.LocOf(i), absl::StrCat(name, " of ", own.ToString()),
                       "pass pairs of one type: float32, float16 or bfloat16");
      }
      type = own;
    }
    operands.push_back(NewVector(e, lanes));
  }
  return ByLane(e, args.loc, operands,
                [&](const std::vector<Value>& x) { return PairLane(e, op, x, args.loc); });
}

template <PairOp op>
absl::StatusOr<Value> Pairs(Elaborator& e, const BoundArgs& args) {
  static constexpr const char* kNames[] = {"T.add2", "T.sub2", "T.mul2", "T.fma2",
                                           "T.max2", "T.min2", "T.abs2"};
  return OnPairs(e, args, op, kNames[op]);
}

// ---- several words ----

constexpr int kWordBits = 32;

// Elements from a place on that are `words` words together.
absl::StatusOr<std::vector<Value>> WordsAt(Elaborator& e, const BoundArgs& args, int words,
                                           const char* what) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, what));
  KILN_ASSIGN_OR_RETURN(const Tile tile,
                        e.ToTile(args[0], args.LocOf(0), absl::StrCat("the place of ", what)));
  const DType type = tile.region.buffer->dtype;
  const bool plain = !type.is_bool() && !type.is_packed();
  if (!plain) {
    return e.Error(args.LocOf(0), absl::StrCat(what, " of ", type.ToString()),
                   "pass elements of 8 to 64 bits");
  }
  const int64_t count = words * kWordBits / type.bits;
  std::vector<Value> elements;
  for (int64_t k = 0; k < count; ++k) {
    auto* point = e.arena().New<AccessObject>();
    point->buffer = tile.region.buffer;
    point->is_point = true;
    point->info = tile.info;
    for (const ir::Range& range : tile.region.ranges) {
      point->indices.push_back({range.min, ir::MakeInt(1, range.min.dtype()), false});
    }
    Expr& last = point->indices.back().min;
    last = last + ir::MakeInt(k, last.dtype());
    elements.push_back(Value::Of(Type::kAccess, point));
  }
  return elements;
}

// Whether a guard holds; undefined: always.
absl::StatusOr<Expr> Guard(Elaborator& e, const BoundArgs& args, size_t i) {
  if (!args.Given(i)) return Expr();
  KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(args[i], args.LocOf(i)));
  return c.known ? ir::MakeBool(c.value) : c.expr.e;
}

template <int words>
absl::StatusOr<Value> LoadWords(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> elements,
                        WordsAt(e, args, words, "a load of several words"));
  KILN_ASSIGN_OR_RETURN(const Expr guard, Guard(e, args, 1));
  for (Value& element : elements) {
    KILN_ASSIGN_OR_RETURN(Operand x, e.ToOperand(element, args.loc, "an element"));
    const auto& load = *x.e.As<ir::Load>();
    if (guard.defined()) x.e = ir::MakeLoad(load.buffer, load.indices, guard);
    KILN_ASSIGN_OR_RETURN(element, e.NewExpr(x, args.loc));
  }
  return RepackLanes(e, NewVector(e, std::move(elements)), kUInt32, args.loc);
}

template <int words>
absl::StatusOr<Value> StoreWords(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> elements,
                        WordsAt(e, args, words, "a store of several words"));
  KILN_ASSIGN_OR_RETURN(const Expr guard, Guard(e, args, 2));
  const DType type = elements[0].access().buffer->dtype;
  KILN_ASSIGN_OR_RETURN(const Value bits, RepackLanes(e, args[1], type, args.LocOf(1)));
  const std::vector<Value> values = IsVector(bits) ? bits.seq().items : std::vector<Value>{bits};
  if (values.size() != elements.size()) {
    return e.Error(args.LocOf(1),
                   absl::StrCat("a value of ", values.size() * type.bits, " bits for a store of ",
                                words * kWordBits),
                   "pass as many bits as are stored");
  }
  std::vector<Operand> settled;
  for (const Value& value : values) {
    KILN_ASSIGN_OR_RETURN(const Value kept,
                          e.Keep(value, "item", args.LocOf(1), Elaborator::Use::kRepeated));
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(kept, args.LocOf(1), "a lane"));
    settled.push_back(x);
  }
  for (size_t k = 0; k < elements.size(); ++k) {
    std::vector<Expr> at;
    for (const AccessIndex& index : elements[k].access().indices) at.push_back(index.min);
    KILN_RETURN_IF_ERROR(e.EmitNew<ir::Store>(args.loc, elements[k].access().buffer, std::move(at),
                                              settled[k].e, guard));
  }
  return Value::None();
}

constexpr Builtin kRows[] = {
    {"T.Ramp", "base stride lanes", Ramp},
    {"T.Broadcast", "value lanes", Broadcast},
    {"T.Shuffle", "vectors indices", Shuffle},
    {"T.extract_lane", "vector lane", ExtractLane},
    {"T.add2", "x y", Pairs<kAdd2>},
    {"T.sub2", "x y", Pairs<kSub2>},
    {"T.mul2", "x y", Pairs<kMul2>},
    {"T.fma2", "x y z", Pairs<kFma2>},
    {"T.max2", "x y", Pairs<kMax2>},
    {"T.min2", "x y", Pairs<kMin2>},
    {"T.abs2", "x", Pairs<kAbs2>},
    {"T.ldg64", "src pred?", LoadWords<2>},
    {"T.ldg128", "src pred?", LoadWords<4>},
    {"T.ldg256", "src pred?", LoadWords<8>},
    {"T.lds64", "src", LoadWords<2>},
    {"T.lds128", "src", LoadWords<4>},
    {"T.stg64", "dst value pred?", StoreWords<2>},
    {"T.stg128", "dst value pred?", StoreWords<4>},
    {"T.stg256", "dst value pred?", StoreWords<8>},
    {"T.sts64", "dst value", StoreWords<2>},
    {"T.sts128", "dst value", StoreWords<4>},
};

// Whether a function takes scalars and gives one.
bool IsOfScalars(const Builtin& builtin) {
  for (const BuiltinTable& table : {MathBuiltins(), BitBuiltins(), RoundingBuiltins()}) {
    if (&builtin >= table.rows && &builtin < table.rows + table.size) return true;
  }
  return false;
}

// The vector type that a value names.
std::optional<DType> VectorTypeOf(const Value& v) {
  if (v.Is(Type::kDType) && v.dtype().lanes > 1) return v.dtype();
  return v.Is(Type::kStr) ? ParseVectorType(v.str()) : std::nullopt;
}

}  // namespace

bool IsVector(const Value& v) {
  return v.Is(Type::kTuple) && dynamic_cast<const VectorObject*>(&v.seq()) != nullptr;
}

Value NewVector(Elaborator& e, std::vector<Value> lanes) {
  auto* node = e.arena().New<VectorObject>();
  e.arena().Charge(static_cast<int64_t>(sizeof(Value) * lanes.size()));
  node->items = std::move(lanes);
  return Value::Of(Type::kTuple, node);
}

std::optional<DType> ParseVectorType(absl::string_view name) {
  const size_t at = name.rfind('x');
  int lanes = 0;
  if (at == absl::string_view::npos || !absl::SimpleAtoi(name.substr(at + 1), &lanes) ||
      lanes < 2 || lanes > static_cast<int>(kMaxLanes)) {
    return std::nullopt;
  }
  const std::optional<DType> element = ParseDType(name.substr(0, at));
  if (!element || element->code == TypeCode::kHandle) return std::nullopt;
  return element->with_lanes(lanes);
}

absl::StatusOr<std::vector<Value>> LanesOf(Elaborator& e, const Value& v, size_t count,
                                           SourceLoc loc) {
  std::vector<Value> lanes;
  if (IsVector(v)) {
    lanes = v.seq().items;
  } else if (IsRegion(v)) {
    lanes = ElementsOf(e, v.access());
  } else {
    return std::vector<Value>(count, v);
  }
  if (lanes.size() == count) return lanes;
  return e.Error(loc,
                 lanes.empty()
                     ? absl::StrCat("a region that is no vector of ", count, " lanes")
                     : absl::StrCat("a vector of ", lanes.size(), " lanes beside one of ", count),
                 "use as many lanes on both sides");
}

absl::StatusOr<Value> ByLane(Elaborator& e, SourceLoc loc, const std::vector<Value>& operands,
                             const LaneFunction& f, size_t count) {
  for (const Value& v : operands) {
    if (count == 0 && IsVector(v)) count = v.seq().items.size();
  }
  std::vector<std::vector<Value>> lanes;
  for (const Value& v : operands) {
    KILN_ASSIGN_OR_RETURN(std::vector<Value> own, LanesOf(e, v, count, loc));
    lanes.push_back(std::move(own));
  }
  std::vector<Value> results, row(operands.size());
  for (size_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = lanes[i][k];
    KILN_ASSIGN_OR_RETURN(const Value result, f(row));
    results.push_back(result);
  }
  return NewVector(e, std::move(results));
}

absl::Status StoreLanes(Elaborator& e, const std::vector<Value>& at, const Value& value,
                        SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> lanes, LanesOf(e, value, at.size(), loc));
  for (Value& lane : lanes) {
    KILN_ASSIGN_OR_RETURN(lane, e.Keep(lane, "item", loc, Elaborator::Use::kRepeated));
  }
  for (size_t k = 0; k < at.size(); ++k) {
    const AccessObject& place = at[k].access();
    std::vector<Expr> indices;
    for (const AccessIndex& index : place.indices) indices.push_back(index.min);
    KILN_RETURN_IF_ERROR(e.StoreElement(place.buffer, std::move(indices), lanes[k], loc));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> RepackLanes(Elaborator& e, const Value& v, DType type, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> lanes,
                        IsRegion(v) ? absl::StatusOr<std::vector<Value>>(ElementsOf(e, v.access()))
                                    : LanesOf(e, v, IsVector(v) ? v.seq().items.size() : 1, loc));
  std::vector<Expr> from, to;
  ExprInfo info;
  for (const Value& lane : lanes) {
    KILN_ASSIGN_OR_RETURN(const Value settled,
                          e.Keep(lane, "item", loc, Elaborator::Use::kRepeated));
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(settled, loc, "a lane"));
    if (x.e.dtype().is_bool() || x.e.dtype().is_packed() || x.e.dtype().code == TypeCode::kHandle) {
      return e.Error(loc, absl::StrCat("the bits of ", x.e.dtype().ToString()),
                     "use a type of 8 to 64 bits");
    }
    info = Join(info, x.info);
    from.push_back(AsBits(x.e, Bits(x.e.dtype().bits)));
  }
  const int bits = type.bits, own = from.empty() ? 0 : from[0].dtype().bits;
  if (from.empty() || type.is_bool() || type.is_packed() || own * from.size() % bits != 0) {
    return e.Error(loc, absl::StrCat(own * from.size(), " bits as ", type.element().ToString()),
                   "use a type that divides them");
  }
  for (const Expr& x : from) {  // a wide one is several, from the lowest bits on
    for (int at = 0; own > bits && at < own; at += bits) {
      const Expr part = ir::MakeBinary(ir::BinaryOp::kShr, x, ir::MakeInt(at, Bits(own)));
      to.push_back(ir::MakeCast(Bits(bits), part));
    }
  }
  const size_t parts = static_cast<size_t>(std::max(1, bits / own));
  for (size_t i = 0; own <= bits && i < from.size(); i += parts) {
    Expr whole = ir::MakeCast(Bits(bits), from[i]);
    for (size_t k = 1; k < parts; ++k) {
      const Expr up = ir::MakeBinary(ir::BinaryOp::kShl, ir::MakeCast(Bits(bits), from[i + k]),
                                     ir::MakeInt(static_cast<int64_t>(k) * own, Bits(bits)));
      whole = ir::MakeBinary(ir::BinaryOp::kBitOr, whole, up);
    }
    to.push_back(whole);
  }
  std::vector<Value> results;
  for (const Expr& x : to) {
    KILN_ASSIGN_OR_RETURN(const Value lane, e.NewExpr(AsBits(x, type.element()), info, loc));
    results.push_back(lane);
  }
  return results.size() == 1 ? results[0] : NewVector(e, std::move(results));
}

absl::StatusOr<std::optional<Value>> CallByLane(Elaborator& e, const Builtin& builtin,
                                                const BoundArgs& args) {
  if (!IsOfScalars(builtin)) return std::nullopt;
  size_t count = 0;
  std::optional<DType> named;
  for (const std::vector<Value>* list : {&args.values, &args.rest}) {
    for (const Value& v : *list) {
      if (count == 0 && IsVector(v)) count = v.seq().items.size();
      if (const auto type = VectorTypeOf(v)) named = type;
    }
  }
  if (count == 0 && !named) return std::nullopt;
  if (builtin.name == absl::string_view("T.reinterpret")) {
    const bool type_first = args[0].Is(Type::kDType) || args[0].Is(Type::kStr);
    const size_t t = type_first ? 0 : 1, v = type_first ? 1 : 0;
    DType type;
    if (named) {
      type = *named;
    } else {
      KILN_ASSIGN_OR_RETURN(type, e.ToDType(args[t], args.LocOf(t)));
    }
    KILN_ASSIGN_OR_RETURN(const Value made, RepackLanes(e, args[v], type, args.loc));
    const size_t lanes = IsVector(made) ? made.seq().items.size() : 1;
    if (lanes == type.lanes) return made;
    return e.Error(
        args.loc,
        absl::StrCat("T.reinterpret to ", type.ToString(), " of ", lanes * type.bits, " bits"),
        "both types need the same number of bits");
  }
  std::vector<Value> operands = args.values;
  operands.insert(operands.end(), args.rest.begin(), args.rest.end());
  for (Value& v : operands) {
    if (const auto type = VectorTypeOf(v)) v = Value::OfDType(type->element());
  }
  const auto one = [&](const std::vector<Value>& lanes) {
    BoundArgs scalar = args;
    const auto middle = lanes.begin() + static_cast<int64_t>(args.values.size());
    scalar.values.assign(lanes.begin(), middle);
    scalar.rest.assign(middle, lanes.end());
    return builtin.function(e, scalar);
  };
  if (named) count = named->lanes;
  KILN_ASSIGN_OR_RETURN(const Value made, ByLane(e, args.loc, operands, one, count));
  return made;
}

BuiltinTable VectorBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
