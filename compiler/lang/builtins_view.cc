// Views: T.view and T.reshape, and buffers over another buffer's data.
#include <cstdint>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

std::string TextOfShape(const std::vector<ir::Expr>& shape) {
  return absl::StrCat("(",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, const ir::Expr& extent) {
                                      absl::StrAppend(out, ir::ToString(extent));
                                    }),
                      ")");
}

// The bits of a buffer, in units of `unit` bits. Constants are multiplied apart: their product may
// be more than an extent's own type holds.
ir::Expr Size(const std::vector<ir::Expr>& shape, int bits, int unit) {
  int64_t known = bits / unit;
  ir::Expr open;
  for (const ir::Expr& extent : shape) {
    if (const auto n = ir::ConstInt(extent)) {
      known *= *n;
    } else {
      open = open.defined() ? open * extent : extent;
    }
  }
  const ir::Expr factor = ir::MakeInt(known, known > INT32_MAX ? kInt64 : kInt32);
  return open.defined() ? open * factor : factor;
}

absl::Status CheckBase(Elaborator& e, const ir::BufferNode& base, DType dtype, SourceLoc loc) {
  if (base.scope == ir::Scope::kVar) {
    return e.Error(loc, absl::StrCat("a view of the variable '", base.name, "'"),
                   "use T.reinterpret for its bits");
  }
  for (const ir::Reducer& reducer : e.reducers()) {
    if (reducer.buffer.get() != &base) continue;
    return e.Error(loc, absl::StrCat("a view of the reducer '", base.name, "'"),
                   "copy it into a fragment once it is finalised, and view that");
  }
  if (base.table) {
    return e.Error(loc, absl::StrCat("a view of '", base.name, "', a tensor out of a table"),
                   "name it by the shape that you want: T.make_tensor(table[i], shape, dtype)");
  }
  if (!base.strides.empty()) {
    return e.Error(loc, absl::StrCat("a view of '", base.name, "', which is strided"),
                   "view a tensor whose elements lie side by side, or copy it into a tile");
  }
  if (dtype == base.dtype) return absl::OkStatus();
  const DType other = dtype.is_packed() ? base.dtype : dtype;
  const bool same_bytes =
      (dtype.is_packed() || base.dtype.is_packed()) && (other.is_packed() || other == kUInt8);
  if (base.scope == ir::Scope::kGlobal && !same_bytes) {
    return e.Unimplemented(loc,
                           absl::StrCat("a view of the global tensor '", base.name, "' of ",
                                        base.dtype.ToString(), " as ", dtype.ToString()),
                           absl::StrCat("declare the tensor as ", dtype.ToString(),
                                        ", or copy it into a tile and view that"));
  }
  if (dtype.is_bool() || base.dtype.is_bool()) {
    return e.Error(loc,
                   absl::StrCat("a view of '", base.name, "' of ", base.dtype.ToString(), " as ",
                                dtype.ToString()),
                   "use uint8: a bool is 0 or 1, not any eight bits");
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> View(Elaborator& e, const BoundArgs& args) {
  std::optional<DType> dtype;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[2], args.LocOf(2)));
  }
  return MakeView(e, args[0], args.Given(1) ? &args[1] : nullptr, dtype, args.loc);
}

absl::StatusOr<Value> Reshape(Elaborator& e, const BoundArgs& args) {
  return MakeView(e, args[0], &args[1], std::nullopt, args.loc);
}

constexpr Builtin kRows[] = {
    {"T.view", "src shape? dtype?", View},
    {"T.reshape", "src shape", Reshape},
};

}  // namespace

absl::StatusOr<Value> MakeView(Elaborator& e, const Value& source, const Value* shape,
                               std::optional<DType> dtype, SourceLoc loc) {
  if (!source.Is(Type::kBuffer)) {
    return e.Error(loc, absl::StrCat("a view of ", Describe(source)),
                   "view a whole tile or tensor, and take a region of the view");
  }
  const ir::Buffer& base = source.buffer().buffer;
  const DType type = dtype.value_or(base->dtype);
  KILN_RETURN_IF_ERROR(CheckBase(e, *base, type, loc));
  std::vector<ir::Expr> extents = base->shape;
  if (shape != nullptr) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Operand> operands,
                          e.ToShape(*shape, loc, "the shape of a view"));
    extents.clear();
    for (const Operand& operand : operands) extents.push_back(operand.e);
  }
  KILN_ASSIGN_OR_RETURN(const ir::Buffer view,
                        e.NewNamedBuffer(type, extents, base->scope, loc, {}, "view"));
  const int unit = std::gcd(type.bits, base->dtype.bits);
  KILN_RETURN_IF_ERROR(e.RequireSameExtent(
      Size(extents, type.bits, unit), Size(base->shape, base->dtype.bits, unit), loc,
      absl::StrCat("'", base->name, "', ", base->dtype.ToString(), " ", TextOfShape(base->shape),
                   ", viewed as ", type.ToString(), " ", TextOfShape(extents),
                   ", which is another number of bytes"),
      "give the view the same number of bytes"));
  e.AddView(view, base, loc);
  return e.NewBuffer(view);
}

BuiltinTable ViewBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
