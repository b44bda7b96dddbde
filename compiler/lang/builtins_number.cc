// The rest of Python's math, and what numpy computes of single numbers and of lists of them. math
// raises where a result is not defined; numpy gives nan or infinity.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

absl::StatusOr<double> ToDouble(Elaborator& e, const BoundArgs& args, size_t i) {
  const Value& v = args[i];
  if (v.is_number()) return v.as_double();
  if (v.Is(Type::kExpr) && v.expr().info.open_only()) {
    return e.NeedConcrete(args.LocOf(i), v.expr().expr,
                          "this function is computed at compile time");
  }
  return e.Error(args.LocOf(i), absl::StrCat("a math function takes a number, not ", Describe(v)),
                 e.IsRuntime(v) ? "use the function of the same name in T for run-time values"
                                : "pass a number");
}

absl::Status Undefined(Elaborator& e, const BoundArgs& args) {
  return e.Error(args.loc, "this math function is not defined for that value",
                 "check the argument");
}

absl::StatusOr<Value> Checked(Elaborator& e, const BoundArgs& args, double result, bool finite) {
  if (finite && !std::isfinite(result)) return Undefined(e, args);
  return Value::Float(result);
}

template <double (*f)(double)>
absl::StatusOr<Value> Math(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  return Checked(e, args, f(x), std::isfinite(x));
}
template <double (*f)(double, double)>
absl::StatusOr<Value> Math2(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const double y, ToDouble(e, args, 1));
  return Checked(e, args, f(x, y), std::isfinite(x) && std::isfinite(y));
}
template <double (*f)(double)>
absl::StatusOr<Value> Numpy(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  return Value::Float(f(x));
}

template <int test>  // 0 nan, 1 infinite, 2 finite
absl::StatusOr<Value> Classify(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  return Value::Bool(test == 0 ? std::isnan(x) : test == 1 ? std::isinf(x) : std::isfinite(x));
}

double Degrees(double x) { return x * (180.0 / 3.14159265358979323846); }
double Radians(double x) { return x * (3.14159265358979323846 / 180.0); }
double Copysign(double x, double y) { return std::copysign(x, y); }

// Rounded once, as Python's: the C library's is one off in the last place at times.
double RoundedHypot(double x, double y) {
  if (!std::isfinite(x) || !std::isfinite(y)) return std::hypot(x, y);
  const long double a = x, b = y;
  return static_cast<double>(std::sqrt(a * a + b * b));
}

absl::StatusOr<Value> Hypot(Elaborator& e, const BoundArgs& args) {
  if (args.rest.size() != 2) {
    return e.Unimplemented(args.loc, "math.hypot of other than two numbers",
                           "write math.sqrt(a * a + b * b + c * c)");
  }
  BoundArgs two;
  two.loc = args.loc;
  two.values = args.rest;
  two.present = {true, true};
  two.locs = args.rest_locs;
  return Math2<RoundedHypot>(e, two);
}

// abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)
absl::StatusOr<Value> IsClose(Elaborator& e, const BoundArgs& args) {
  double v[4] = {0, 0, 1e-9, 0};
  for (size_t i = 0; i < 4; ++i) {
    if (!args.Given(i)) continue;
    KILN_ASSIGN_OR_RETURN(v[i], ToDouble(e, args, i));
  }
  if (v[2] < 0 || v[3] < 0) return e.Error(args.loc, "a negative tolerance", "use 0 or more");
  if (v[0] == v[1]) return Value::Bool(true);
  if (std::isinf(v[0]) || std::isinf(v[1])) return Value::Bool(false);
  const double difference = std::abs(v[0] - v[1]);
  const double most = v[2] * std::max(std::abs(v[0]), std::abs(v[1]));
  return Value::Bool(difference <= most || difference <= v[3]);
}

absl::StatusOr<Value> Lcm(Elaborator& e, const BoundArgs& args) {
  __int128 result = 1;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t x,
                          e.ToInt(args.rest[i], args.rest_locs[i], "an argument of lcm"));
    if (x == 0) return Value::Int(0);
    if (x == INT64_MIN) return e.Error(args.loc, "lcm of -2^63", "use a smaller number");
    const int64_t size = std::abs(x);
    result *= size / std::gcd(static_cast<int64_t>(result), size);
    if (result > INT64_MAX) {
      return e.Error(args.loc, "the least common multiple does not fit 64 bits",
                     "use smaller numbers");
    }
  }
  return Value::Int(static_cast<int64_t>(result));
}

// n * (n - 1) * ... of k factors, divided by k! where `chosen`.
template <bool chosen>
absl::StatusOr<Value> Arrangements(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(args[0], args.LocOf(0), "the number"));
  int64_t k = n;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(k, e.ToInt(args[1], args.LocOf(1), "the number taken"));
  }
  if (n < 0 || k < 0) return Undefined(e, args);
  if (k > n) return Value::Int(0);
  if (chosen) k = std::min(k, n - k);
  KILN_RETURN_IF_ERROR(e.Step(args.loc, std::min<int64_t>(k, 64)));
  __int128 result = 1;
  for (int64_t i = 0; i < k; ++i) {
    result *= n - i;
    if (chosen) result /= i + 1;
    if (result > INT64_MAX) {
      return e.Error(args.loc, "the number does not fit 64 bits", "use smaller numbers");
    }
  }
  return Value::Int(static_cast<int64_t>(result));
}

absl::StatusOr<Value> Factorial(Elaborator& e, const BoundArgs& args) {
  if (args[0].Is(Type::kFloat)) return Undefined(e, args);
  return Arrangements<false>(e, args);
}

absl::StatusOr<Value> Modf(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  double whole = 0;
  const double part = std::modf(x, &whole);
  return e.NewTuple({Value::Float(part), Value::Float(whole)});
}

absl::StatusOr<Value> Frexp(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  int exponent = 0;
  const double part = std::frexp(x, &exponent);
  return e.NewTuple({Value::Float(part), Value::Int(std::isfinite(x) ? exponent : 0)});
}

absl::StatusOr<Value> Ldexp(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const int64_t exponent, e.ToInt(args[1], args.LocOf(1), "the exponent"));
  const auto small = static_cast<int>(std::clamp<int64_t>(exponent, -100000, 100000));
  return Checked(e, args, std::ldexp(x, small), std::isfinite(x));
}

// The sum of the numbers as if it were rounded once: partial sums that do not overlap (Shewchuk,
// "Adaptive Precision Floating-Point Arithmetic", 1997).
absl::StatusOr<Value> Fsum(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(args[0], args.LocOf(0)));
  std::vector<double> partials;
  double special = 0;
  for (const Value& given : items) {
    const Value item = Plain(given);
    if (!item.is_number()) {
      return e.Error(args.LocOf(0), absl::StrCat("fsum of ", Describe(item)), "pass numbers");
    }
    double x = item.as_double();
    KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(partials.size()) + 1));
    if (!std::isfinite(x)) {
      special += x;
      continue;
    }
    size_t kept = 0;
    for (double y : partials) {
      if (std::abs(x) < std::abs(y)) std::swap(x, y);
      const double high = x + y, low = y - (high - x);
      if (low != 0) partials[kept++] = low;
      x = high;
    }
    partials.resize(kept);
    partials.push_back(x);
    if (!std::isfinite(x)) return Undefined(e, args);
  }
  if (special != 0)
    return std::isnan(special) ? Undefined(e, args) : Checked(e, args, special, false);
  double high = 0;
  size_t n = partials.size();
  while (n > 0) {
    const double x = high, y = partials[--n];
    high = x + y;
    const double low = y - (high - x);
    if (low == 0) continue;
    // Half a unit: the parts below say which way it goes.
    if (n > 0 && ((low < 0) == (partials[n - 1] < 0)) && partials[n - 1] != 0) {
      const double twice = low * 2, moved = high + twice;
      if (moved - high == twice) high = moved;
    }
    break;
  }
  return Value::Float(high);
}

// --- numpy ---

absl::Status NoItems(Elaborator& e, const BoundArgs& args) {
  return e.Error(args.LocOf(0), "the largest or smallest of no numbers", "give it some");
}

// Numbers of a list, or a single one. Lists of lists are arrays, which have no data in kernels.
absl::StatusOr<std::vector<Value>> Numbers(Elaborator& e, const BoundArgs& args) {
  if (args[0].is_number()) return std::vector<Value>{args[0]};
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, e.Iterate(args[0], args.LocOf(0)));
  for (Value& item : items) {
    item = Plain(item);
    if (item.is_number() || e.IsRuntime(item)) continue;
    return e.Error(args.LocOf(0),
                   absl::StrCat("numpy's functions go over numbers, not ", Describe(item)),
                   "use a flat list of numbers");
  }
  return items;
}

template <ast::BinaryOp op>  // kAdd, kMul
absl::StatusOr<Value> Reduce(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Numbers(e, args));
  const bool product = op == ast::BinaryOp::kMul;
  if (items.empty()) return Value::Float(product ? 1 : 0);
  Value total = Value::Int(product ? 1 : 0);
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(total, e.BinaryOp(op, total, item, args.loc));
  }
  return total;
}

template <bool is_max>
absl::StatusOr<Value> Extreme(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Numbers(e, args));
  if (items.empty()) return NoItems(e, args);
  Value best = items[0];
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(best, e.MinMax(is_max, best, item, args.loc));
  }
  return best;
}

absl::StatusOr<Value> Mean(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Numbers(e, args));
  if (items.empty()) return Value::Float(NAN);
  KILN_ASSIGN_OR_RETURN(const Value total, Reduce<ast::BinaryOp::kAdd>(e, args));
  return e.BinaryOp(ast::BinaryOp::kDiv, total, Value::Int(static_cast<int64_t>(items.size())),
                    args.loc);
}

// Of two numbers, of which nan wins.
template <bool is_max>
absl::StatusOr<Value> Larger(Elaborator& e, const BoundArgs& args) {
  for (size_t i = 0; i < 2; ++i) {
    KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, i));
    if (std::isnan(x)) return args[i];
  }
  KILN_ASSIGN_OR_RETURN(const Value best, e.MinMax(is_max, args[0], args[1], args.loc));
  const bool floats = args[0].Is(Type::kFloat) || args[1].Is(Type::kFloat);
  return floats ? Value::Float(best.as_double()) : Value::Int(best.int_value());
}

absl::StatusOr<Value> Clip(Elaborator& e, const BoundArgs& args) {
  BoundArgs pair = args;
  pair.values = {args[0], args[1]};
  KILN_ASSIGN_OR_RETURN(const Value low, Larger<true>(e, pair));
  pair.values = {low, args[2]};
  return Larger<false>(e, pair);
}

absl::StatusOr<Value> Power(Elaborator& e, const BoundArgs& args) {
  for (size_t i = 0; i < 2; ++i) KILN_RETURN_IF_ERROR(ToDouble(e, args, i).status());
  const bool integers = args[0].is_integer() && args[1].is_integer();
  if (integers && args[1].int_value() < 0) {
    return e.Error(args.loc, "an integer to a negative power", "use a float, as in 2.0");
  }
  if (integers) return e.BinaryOp(ast::BinaryOp::kPow, args[0], args[1], args.loc);
  return Value::Float(std::pow(args[0].as_double(), args[1].as_double()));
}

absl::StatusOr<Value> Sign(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  const int sign = x > 0 ? 1 : x < 0 ? -1 : 0;
  if (args[0].is_integer()) return Value::Int(sign);
  return Value::Float(std::isnan(x) ? x : sign);
}

absl::StatusOr<Value> Round(Elaborator& e, const BoundArgs& args) {
  if (args[0].is_integer()) return Value::Int(args[0].int_value());
  KILN_ASSIGN_OR_RETURN(const double x, ToDouble(e, args, 0));
  int64_t digits = 0;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(digits, e.ToInt(args[1], args.LocOf(1), "the digits"));
  }
  if (digits == 0) return Value::Float(std::nearbyint(x));
  if (digits < -300 || digits > 300) {
    return e.Error(args.LocOf(1), "more than 300 digits", "use fewer");
  }
  const double unit = std::pow(10.0, static_cast<double>(std::abs(digits)));
  return Value::Float(digits > 0 ? std::nearbyint(x * unit) / unit
                                 : std::nearbyint(x / unit) * unit);
}

absl::StatusOr<Value> Abs(Elaborator& e, const BoundArgs& args) {
  if (!args[0].is_integer()) return Numpy<std::fabs>(e, args);
  if (args[0].int_value() < 0) {
    return e.UnaryOp(ast::UnaryOp::kNeg, args[0], args.loc);
  }
  return Value::Int(args[0].int_value());
}

constexpr Builtin kRows[] = {
    {"math.acos", "x", Math<std::acos>},
    {"math.acosh", "x", Math<std::acosh>},
    {"math.asin", "x", Math<std::asin>},
    {"math.asinh", "x", Math<std::asinh>},
    {"math.atan", "x", Math<std::atan>},
    {"math.atan2", "y x", Math2<std::atan2>},
    {"math.atanh", "x", Math<std::atanh>},
    {"math.cbrt", "x", Math<std::cbrt>},
    {"math.comb", "n k", Arrangements<true>},
    {"math.copysign", "x y", Math2<Copysign>},
    {"math.cosh", "x", Math<std::cosh>},
    {"math.degrees", "x", Math<Degrees>},
    {"math.erf", "x", Math<std::erf>},
    {"math.erfc", "x", Math<std::erfc>},
    {"math.expm1", "x", Math<std::expm1>},
    {"math.factorial", "n", Factorial},
    {"math.fmod", "x y", Math2<std::fmod>},
    {"math.frexp", "x", Frexp},
    {"math.fsum", "items", Fsum},
    {"math.hypot", "*", Hypot},
    {"math.isclose", "a b * rel_tol? abs_tol?", IsClose},
    {"math.isfinite", "x", Classify<2>},
    {"math.isinf", "x", Classify<1>},
    {"math.isnan", "x", Classify<0>},
    {"math.lcm", "*", Lcm},
    {"math.ldexp", "x i", Ldexp},
    {"math.log1p", "x", Math<std::log1p>},
    {"math.modf", "x", Modf},
    {"math.perm", "n k?", Arrangements<false>},
    {"math.radians", "x", Math<Radians>},
    {"math.remainder", "x y", Math2<std::remainder>},
    {"math.sinh", "x", Math<std::sinh>},
    {"math.tan", "x", Math<std::tan>},
    {"numpy.abs", "x", Abs},
    {"numpy.absolute", "x", Abs},
    {"numpy.amax", "a", Extreme<true>},
    {"numpy.amin", "a", Extreme<false>},
    {"numpy.ceil", "x", Numpy<std::ceil>},
    {"numpy.clip", "a a_min a_max", Clip},
    {"numpy.cos", "x", Numpy<std::cos>},
    {"numpy.exp", "x", Numpy<std::exp>},
    {"numpy.exp2", "x", Numpy<std::exp2>},
    {"numpy.floor", "x", Numpy<std::floor>},
    {"numpy.isfinite", "x", Classify<2>},
    {"numpy.isinf", "x", Classify<1>},
    {"numpy.isnan", "x", Classify<0>},
    {"numpy.log", "x", Numpy<std::log>},
    {"numpy.log10", "x", Numpy<std::log10>},
    {"numpy.log1p", "x", Numpy<std::log1p>},
    {"numpy.log2", "x", Numpy<std::log2>},
    {"numpy.max", "a", Extreme<true>},
    {"numpy.maximum", "a b", Larger<true>},
    {"numpy.mean", "a", Mean},
    {"numpy.min", "a", Extreme<false>},
    {"numpy.minimum", "a b", Larger<false>},
    {"numpy.power", "a b", Power},
    {"numpy.prod", "a", Reduce<ast::BinaryOp::kMul>},
    {"numpy.rint", "x", Numpy<std::nearbyint>},
    {"numpy.round", "a decimals?", Round},
    {"numpy.sign", "x", Sign},
    {"numpy.sin", "x", Numpy<std::sin>},
    {"numpy.sqrt", "x", Numpy<std::sqrt>},
    {"numpy.sum", "a", Reduce<ast::BinaryOp::kAdd>},
    {"numpy.tanh", "x", Numpy<std::tanh>},
    {"numpy.trunc", "x", Numpy<std::trunc>},
};

}  // namespace

BuiltinTable NumberTable() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
