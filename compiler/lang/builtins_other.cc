// Other spellings of T's functions, and questions to dtypes.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

absl::StatusOr<Value> Same(Elaborator&, const BoundArgs& args) { return args[0]; }

absl::StatusOr<Value> ToDType(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[0], args.LocOf(0)));
  return Value::OfDType(type);
}

enum class Family { kFloat4, kPacked, kUnpacked, kF8F6F4 };

template <Family family>
absl::StatusOr<Value> IsOf(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[0], args.LocOf(0)));
  const std::string name = type.ToString();
  const bool packed = name == "float4_e2m1fn", unpacked = name == "float4_e2m1_unpacked";
  switch (family) {
    case Family::kPacked:
      return Value::Bool(packed);
    case Family::kUnpacked:
      return Value::Bool(unpacked);
    case Family::kFloat4:
      return Value::Bool(packed || unpacked);
    default:
      return Value::Bool(packed || unpacked || absl::StartsWith(name, "float8"));
  }
}

// T.region(x[i, j], access, rows, columns): the region that starts there. What is done with it
// says whether it is read or written.
absl::StatusOr<Value> Region(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kAccess) || !args[0].access().is_point) {
    return e.Error(
        args.LocOf(0), absl::StrCat("T.region starts at ", Describe(args[0])),
        "write T.region(x[i, j], \"r\", rows, columns), or x[i:i + rows, j:j + columns]");
  }
  const AccessObject& start = args[0].access();
  if (args.rest.size() != start.indices.size()) {
    return e.Error(args.loc,
                   absl::StrCat("T.region of '", start.buffer->name, "' has ", args.rest.size(),
                                " extents, and the buffer ", start.indices.size(), " dimensions"),
                   "give one extent a dimension");
  }
  auto* made = e.arena().New<AccessObject>();
  made->buffer = start.buffer;
  made->info = start.info;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t extent,
                          e.ToInt(args.rest[i], args.rest_locs[i], "an extent of T.region"));
    const auto first = ir::ConstInt(start.indices[i].min);
    const auto size = ir::ConstInt(start.buffer->shape[i]);
    const bool beyond =
        first && size && start.buffer->scope != ir::Scope::kGlobal && extent > *size - *first;
    if (extent < 1 || beyond) {
      return e.Error(
          args.rest_locs[i],
          absl::StrCat("extent ", extent, " of dimension ", i, " of '", start.buffer->name, "'"),
          beyond ? "end it inside of the tile" : "an extent is at least 1");
    }
    made->indices.push_back(
        {start.indices[i].min, ir::MakeInt(extent, start.indices[i].min.dtype()), true});
  }
  return Value::Of(Type::kAccess, made);
}

// T.reduce(x, out, "sum", dim, clear).
absl::StatusOr<Value> Reduce(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string kind, e.ToStr(args[2], args.LocOf(2), "reduce_type"));
  static const auto& kinds = *new std::vector<std::string>{"sum",    "max",    "min",   "abssum",
                                                           "absmax", "bitand", "bitor", "bitxor"};
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    return e.Error(args.LocOf(2), absl::StrCat("T.reduce has no kind '", kind, "'"),
                   DidYouMean(kind, kinds, "use sum, max, min, abssum, absmax or a bit operation"));
  }
  return CallAs(e, absl::StrCat("reduce_", kind).c_str(), args, {0, 1, 3, 4, 5, 6, 7});
}

// Quotient and remainder of C: towards zero, the remainder with the dividend's sign.
template <bool quotient>
absl::StatusOr<Value> Truncated(Elaborator& e, const BoundArgs& args) {
  using ast::BinaryOp;
  const Value zero = Value::Int(0);
  KILN_ASSIGN_OR_RETURN(const Value floor,
                        e.BinaryOp(BinaryOp::kFloorDiv, args[0], args[1], args.loc));
  KILN_ASSIGN_OR_RETURN(const Value rest, e.BinaryOp(BinaryOp::kMod, args[0], args[1], args.loc));
  // Where something is left over and the signs differ, floor is one too low.
  KILN_ASSIGN_OR_RETURN(const Value left, e.CompareOp(ast::CompareOp::kNe, rest, zero, args.loc));
  KILN_ASSIGN_OR_RETURN(const Value a, e.CompareOp(ast::CompareOp::kLt, args[0], zero, args.loc));
  KILN_ASSIGN_OR_RETURN(const Value b, e.CompareOp(ast::CompareOp::kLt, args[1], zero, args.loc));
  KILN_ASSIGN_OR_RETURN(const Value differ, e.CompareOp(ast::CompareOp::kNe, a, b, args.loc));
  KILN_ASSIGN_OR_RETURN(const Value low, e.BinaryOp(BinaryOp::kBitAnd, left, differ, args.loc));
  const Value& plain = quotient ? floor : rest;
  KILN_ASSIGN_OR_RETURN(const Value moved,
                        e.BinaryOp(quotient ? BinaryOp::kAdd : BinaryOp::kSub, plain,
                                   quotient ? Value::Int(1) : args[1], args.loc));
  return e.SelectValue(low, moved, plain, args.loc);
}

constexpr Builtin kRows[] = {
    {"T.likely", "condition span?", Same},
    {"T.get_tvm_dtype", "value", ToDType},
    {"T.is_float4", "value", IsOf<Family::kFloat4>},
    {"T.is_float4_e2m1fn", "value", IsOf<Family::kPacked>},
    {"T.is_float4_e2m1_unpacked", "value", IsOf<Family::kUnpacked>},
    {"T.is_f8f6f4_family", "value", IsOf<Family::kF8F6F4>},
    {"T.region", "start access *", Region},
    {"T.reduce", "buffer out reduce_type dim clear batch? nan_propagate? annotations?", Reduce},
    {"T.truncdiv", "a b span?", Truncated<true>},
    {"T.truncmod", "a b span?", Truncated<false>},
};

}  // namespace

BuiltinTable OtherBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
