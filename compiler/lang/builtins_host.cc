// Functions of the modules around kernels: math, itertools, tilelang.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/lang/decorators.h"
#include "compiler/lang/lazy.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/text.h"

namespace kiln::lang {
namespace {

absl::StatusOr<double> ToDouble(Elaborator& e, const BoundArgs& args, size_t i) {
  const Value& v = args[i];
  if (v.is_number()) return v.as_double();
  if (v.Is(Type::kExpr) && v.expr().info.open_only()) {
    return e.NeedConcrete(args.LocOf(i), v.expr().expr,
                          "math functions are computed at compile time");
  }
  return e.Error(args.LocOf(i), absl::StrCat("a math function takes a number, not ", Describe(v)),
                 e.IsRuntime(v) ? "use the function of the same name in T for run-time values"
                                : "pass a number");
}

absl::StatusOr<Value> Checked(Elaborator& e, const BoundArgs& args, double result) {
  const bool bad_input = std::isnan(args[0].as_double()) || std::isinf(args[0].as_double());
  if (bad_input || (!std::isnan(result) && !std::isinf(result))) return Value::Float(result);
  return e.Error(args.loc, "this math function is not defined for that value",
                 "check the argument");
}

template <double (*f)(double)>
absl::StatusOr<Value> Unary(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  return Checked(e, args, f(x));
}

template <double (*f)(double)>
absl::StatusOr<Value> ToWhole(Elaborator& e, const BoundArgs& args) {
  if (args[0].is_integer()) return Value::Int(args[0].int_value());
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  const double whole = f(x);
  if (!(std::abs(whole) < 9.2e18)) {
    return e.Error(args.loc, "the result does not fit a 64-bit integer", "use a smaller number");
  }
  return Value::Int(static_cast<int64_t>(whole));
}

absl::StatusOr<Value> Log(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  double result = std::log(x);
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(const double base, ToDouble(e, args, 1));
    result /= std::log(base);
  }
  return Checked(e, args, result);
}

absl::StatusOr<Value> Pow(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const double y, ToDouble(e, args, 1));
  return Checked(e, args, std::pow(x, y));
}

absl::StatusOr<Value> Gcd(Elaborator& e, const BoundArgs& args) {
  int64_t result = 0;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t x,
                          e.ToInt(args.rest[i], args.rest_locs[i], "an argument of gcd"));
    if (x == INT64_MIN) return e.Error(args.loc, "gcd of -2^63", "use a smaller number");
    result = std::gcd(result, x);
  }
  return Value::Int(result);
}

absl::StatusOr<Value> Isqrt(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t x, e.ToInt(args[0], args.LocOf(0), "the argument of isqrt"));
  if (x < 0) return e.Error(args.loc, "the square root of a negative number", "check the argument");
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(x)));
  while (static_cast<__int128>(root) * root > x) --root;
  while (static_cast<__int128>(root + 1) * (root + 1) <= x) ++root;
  return Value::Int(root);
}

absl::StatusOr<Value> Prod(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(args[0], args.LocOf(0)));
  Value total = Value::Int(1);
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(total, e.BinaryOp(ast::BinaryOp::kMul, total, item, args.loc));
  }
  return total;
}

constexpr Builtin kMath[] = {
    {"math.log2", "x", Unary<std::log2>},
    {"math.log", "x base?", Log},
    {"math.log10", "x", Unary<std::log10>},
    {"math.exp", "x", Unary<std::exp>},
    {"math.exp2", "x", Unary<std::exp2>},
    {"math.sqrt", "x", Unary<std::sqrt>},
    {"math.fabs", "x", Unary<std::fabs>},
    {"math.sin", "x", Unary<std::sin>},
    {"math.cos", "x", Unary<std::cos>},
    {"math.tanh", "x", Unary<std::tanh>},
    {"math.ceil", "x", ToWhole<std::ceil>},
    {"math.floor", "x", ToWhole<std::floor>},
    {"math.trunc", "x", ToWhole<std::trunc>},
    {"math.pow", "x y", Pow},
    {"math.gcd", "*", Gcd},
    {"math.isqrt", "x", Isqrt},
    {"math.prod", "items", Prod},
};

absl::StatusOr<Value> CeilDivision(Elaborator& e, const BoundArgs& args) {
  return e.CeilDiv(args[0], args[1], args.loc);
}

absl::StatusOr<Value> NextPowerOfTwo(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t x,
                        e.ToInt(args[0], args.LocOf(0), "the argument of next_power_of_2"));
  if (x > (int64_t{1} << 62))
    return e.Error(args.loc, "no power of two above that fits", "use less");
  int64_t power = 1;
  while (power < x) power *= 2;
  return Value::Int(x <= 0 ? 0 : power);
}

absl::StatusOr<Value> Product(Elaborator& e, const BoundArgs& args) {
  int64_t repeat = 1;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(repeat, e.ToInt(args[0], args.LocOf(0), "repeat"));
  }
  std::vector<std::vector<Value>> axes;
  for (size_t i = 0; repeat > 0 && i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(std::vector<Value> axis, e.Iterate(args.rest[i], args.rest_locs[i]));
    axes.push_back(std::move(axis));
  }
  for (int64_t r = 1; r < repeat && r < 64; ++r) {
    for (size_t i = 0; i < args.rest.size(); ++i) axes.push_back(axes[i]);
  }
  std::vector<std::vector<Value>> rows = {{}};
  for (const std::vector<Value>& axis : axes) {
    const int64_t count = static_cast<int64_t>(rows.size()) * static_cast<int64_t>(axis.size());
    KILN_RETURN_IF_ERROR(e.Step(args.loc, count));
    KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, count * 16 * static_cast<int64_t>(axes.size())));
    std::vector<std::vector<Value>> longer;
    for (const std::vector<Value>& row : rows) {
      for (const Value& item : axis) {
        longer.push_back(row);
        longer.back().push_back(item);
      }
    }
    rows = std::move(longer);
  }
  std::vector<Value> tuples;
  for (std::vector<Value>& row : rows) tuples.push_back(e.NewTuple(std::move(row)));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 0));
  return NewIterator(e, std::move(tuples), {}, {.keeps = true});
}

absl::StatusOr<Value> Chain(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> items;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> part,
                          e.Iterate(args.rest[i], args.rest_locs[i]));
    KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16 * static_cast<int64_t>(part.size())));
    items.insert(items.end(), part.begin(), part.end());
  }
  return NewIterator(e, std::move(items), args.rest);
}

// itertools.combinations and permutations: tuples of `count` of the items, by their places.
template <bool ordered>
absl::StatusOr<Value> Choices(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(args[0], args.LocOf(0)));
  int64_t count = static_cast<int64_t>(items.size());
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(count, e.ToInt(args[1], args.LocOf(1), "how many are chosen"));
  }
  if (count < 0) return e.Error(args.LocOf(1), "a negative number of items", "choose at least 0");
  std::vector<std::vector<size_t>> rows = {{}};
  for (int64_t place = 0; place < count && !rows.empty(); ++place) {
    std::vector<std::vector<size_t>> longer;
    for (const std::vector<size_t>& row : rows) {
      KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(items.size())));
      for (size_t i = 0; i < items.size(); ++i) {
        const bool taken = std::find(row.begin(), row.end(), i) != row.end();
        if (taken || (!ordered && !row.empty() && i < row.back())) continue;
        KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16 * (place + 4)));
        longer.push_back(row);
        longer.back().push_back(i);
      }
    }
    rows = std::move(longer);
  }
  std::vector<Value> tuples;
  for (const std::vector<size_t>& row : rows) {
    std::vector<Value> chosen;
    for (size_t i : row) chosen.push_back(items[i]);
    tuples.push_back(e.NewTuple(std::move(chosen)));
  }
  return NewIterator(e, std::move(tuples), {}, {.keeps = true});
}

// The widest swizzle up to `most` that tiles the shape, else row-major.
layout::Layout WidestSwizzle(int bits, const std::vector<int64_t>& shape,
                             layout::SwizzleMode most) {
  const layout::SwizzleMode mode = std::min(most, layout::WidestMode(bits, shape.back()));
  if (mode != layout::SwizzleMode::kNone) {
    const auto tiled = layout::MmaSharedLayout(bits, mode, shape);
    if (tiled.ok()) return *tiled;
  }
  return *layout::Build(layout::S(shape));
}

// Where an element of a row lies whose units of 16 bytes are exchanged by the row's number: the
// panel of swizzle_bytes, the row, and the column within the panel.
absl::StatusOr<Value> SwizzledPlace(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t size, e.ToInt(args[2], args.LocOf(2), "row_size"));
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[3], args.LocOf(3)));
  int64_t bytes = std::min<int64_t>(128, size * type.bits / 8);
  if (args.Given(4)) {
    KILN_ASSIGN_OR_RETURN(bytes, e.ToInt(args[4], args.LocOf(4), "swizzle_bytes"));
  }
  if (size * type.bits / 8 % 32 != 0 || (bytes != 32 && bytes != 64 && bytes != 128)) {
    return e.Error(
        args.loc,
        absl::StrCat("get_swizzle_layout of rows of ", size * type.bits / 8, " bytes, by ", bytes),
        "rows are multiples of 32 bytes, exchanged by 32, 64 or 128");
  }
  const auto op = [&](ast::BinaryOp kind, const Value& a, int64_t b) {
    return e.BinaryOp(kind, a, Value::Int(b), args.loc);
  };
  const int64_t unit = 128 / type.bits, units = bytes / 16;
  KILN_ASSIGN_OR_RETURN(const Value at, op(ast::BinaryOp::kFloorDiv, args[1], unit));
  KILN_ASSIGN_OR_RETURN(const Value within, op(ast::BinaryOp::kMod, args[1], unit));
  KILN_ASSIGN_OR_RETURN(const Value panel, op(ast::BinaryOp::kFloorDiv, at, units));
  KILN_ASSIGN_OR_RETURN(const Value among, op(ast::BinaryOp::kMod, at, units));
  KILN_ASSIGN_OR_RETURN(Value by, op(ast::BinaryOp::kMod, args[0], 8));
  KILN_ASSIGN_OR_RETURN(by, op(ast::BinaryOp::kFloorDiv, by, 8 / units));
  KILN_ASSIGN_OR_RETURN(Value column, e.BinaryOp(ast::BinaryOp::kBitXor, among, by, args.loc));
  KILN_ASSIGN_OR_RETURN(column, op(ast::BinaryOp::kMul, column, unit));
  KILN_ASSIGN_OR_RETURN(column, e.BinaryOp(ast::BinaryOp::kAdd, column, within, args.loc));
  return e.NewTuple({panel, args[0], column});
}

// make_swizzled_layout(buffer), make_half_bank_swizzled_layout(buffer), make_linear_layout(buffer).
template <layout::SwizzleMode most>
absl::StatusOr<Value> SwizzledLayout(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kBuffer)) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("a layout is made for a buffer, not for ", Describe(args[0])),
                   "pass the shared tile");
  }
  const ir::Buffer& buffer = args[0].buffer().buffer;
  auto* made = e.arena().New<LayoutObject>();
  made->shape = buffer->shape;
  std::vector<int64_t> shape;
  for (const ir::Expr& extent : buffer->shape) {
    if (const auto n = ir::ConstInt(extent)) shape.push_back(*n);
  }
  made->text = "swizzled";  // as long as an extent is open
  if (shape.size() == buffer->shape.size() && !shape.empty()) {
    made->text = WidestSwizzle(buffer->dtype.bits, shape, most).ToString();
  }
  return Value::Of(Type::kLayout, made);
}

absl::StatusOr<Value> Nothing(Elaborator&, const BoundArgs&) { return Value::None(); }

absl::StatusOr<Value> Fold(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(args[1], args.LocOf(1)));
  if (items.empty() && !args.Has(2)) {
    return e.Error(args.loc, "reduce of nothing has no value", "give it an initial value");
  }
  Value total = args.Has(2) ? args[2] : items[0];
  for (size_t i = args.Has(2) ? 0 : 1; i < items.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(total, e.Call(args[0], {total, items[i]}, args.loc));
  }
  return total;
}

// tilelang.jit(function, ...), and without a function what makes a kernel of one.
absl::StatusOr<Value> Jit(Elaborator& e, const BoundArgs& args) {
  if (!args.Given(0)) {
    auto* made = e.arena().New<PartialObject>();
    made->callee = FindModule("tilelang")->members.at("jit");
    for (const CallArgs::Keyword& keyword : args.extra) {
      made->keywords.emplace_back(std::string(keyword.name), keyword.value);
    }
    return Value::Of(Type::kPartial, made);
  }
  if (!args[0].Is(Type::kFunction)) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("tilelang.jit takes a function, not ", Describe(args[0])),
                   "pass a function that returns a T.prim_func, or whose body is a kernel");
  }
  auto* made = e.arena().New<FunctionObject>();
  *made = args[0].function();
  if (made->kind == FunctionKind::kPlain) made->kind = FunctionKind::kJit;
  for (const CallArgs::Keyword& keyword : args.extra) {
    KILN_RETURN_IF_ERROR(Elaborator::Decorators(&e).ReadOption(keyword.name, keyword.value,
                                                               keyword.loc, &made->jit));
  }
  return Value::Of(Type::kFunction, made);
}

// tilelang.compile(prim_func, ...): the kernel, with what is said of it.
absl::StatusOr<Value> Compile(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kFunction) || args[0].function().kind != FunctionKind::kPrimFunc) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("tilelang.compile takes a function under "
                                "@T.prim_func, not ",
                                Describe(args[0])),
                   "call the function that makes the kernel, and pass its result");
  }
  auto* made = e.arena().New<FunctionObject>();
  *made = args[0].function();
  made->jit = {};
  if (args.Given(1)) {
    KILN_RETURN_IF_ERROR(
        Elaborator::Decorators(&e).ReadOption("out_idx", args[1], args.LocOf(1), &made->jit));
  }
  for (const CallArgs::Keyword& keyword : args.extra) {
    KILN_RETURN_IF_ERROR(Elaborator::Decorators(&e).ReadOption(keyword.name, keyword.value,
                                                               keyword.loc, &made->jit));
  }
  return Value::Of(Type::kFunction, made);
}

constexpr Builtin kTilelang[] = {
    {"tilelang.jit", "func? **", Jit},
    {"tilelang.compile", "func out_idx? execution_backend? target? target_host? verbose? **",
     Compile},
    {"tilelang.cdiv", "a b", CeilDivision},
    {"tilelang.next_power_of_2", "x", NextPowerOfTwo},
    {"tilelang.get_swizzle_layout", "row_idx col_idx row_size dtype swizzle_bytes?", SwizzledPlace},
    {"tilelang.make_swizzled_layout", "buffer k_major? allow_pad?",
     SwizzledLayout<layout::SwizzleMode::k128B>},
    {"tilelang.make_full_bank_swizzled_layout", "buffer",
     SwizzledLayout<layout::SwizzleMode::k128B>},
    {"tilelang.make_half_bank_swizzled_layout", "buffer",
     SwizzledLayout<layout::SwizzleMode::k64B>},
    {"tilelang.make_quarter_bank_swizzled_layout", "buffer",
     SwizzledLayout<layout::SwizzleMode::k32B>},
    {"tilelang.make_linear_layout", "buffer", SwizzledLayout<layout::SwizzleMode::kNone>},
    {"tilelang.disable_cache", "", Nothing},
    {"tilelang.enable_cache", "", Nothing},
    {"itertools.product", "* repeat?", Product},
    {"itertools.chain", "*", Chain},
    {"itertools.combinations", "iterable r", Choices<false>},
    {"itertools.permutations", "iterable r?", Choices<true>},
    {"functools.reduce", "function items initial?", Fold},
};

}  // namespace

BuiltinTable HostMathBuiltins() { return {kMath, std::size(kMath)}; }
BuiltinTable TilelangBuiltins() { return {kTilelang, std::size(kTilelang)}; }

}  // namespace kiln::lang
