// What host code around kernels takes from torch and numpy: tensors as far as their shapes and
// types go, and facts of the machine, which are those of the target that the kernel is compiled
// for.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/expr.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 48;

absl::StatusOr<Value> NewArray(Elaborator& e, std::vector<Value> shape, DType dtype,
                               SourceLoc loc) {
  int64_t elements = 1;
  for (const Value& extent : shape) {
    KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(extent, loc, "the shape of a tensor"));
    if (n < 0 || (n > 0 && elements > kMostElements / n)) {
      return e.Error(loc, absl::StrCat("a tensor with a dimension of ", n),
                     "use sizes from 0 on, and at most 2^48 elements");
    }
    elements *= std::max<int64_t>(1, n);
  }
  auto* array = e.arena().New<ArrayObject>();
  array->shape = std::move(shape);
  array->dtype = dtype;
  return Value::Of(Type::kArray, array);
}

bool IsTypeLike(const Value& v) {
  return v.Is(Type::kDType) || v.Is(Type::kStr) || v.Is(Type::kTypeName);
}

// torch.rand(m, k, dtype=...), torch.zeros((m, k), ...), numpy.ones((m, k), dtype).
template <const DType* otherwise>
absl::StatusOr<Value> Made(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> items = args.rest;
  DType dtype = *otherwise;
  if (items.size() >= 2 && IsTypeLike(items.back())) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(items.back(), args.rest_locs.back()));
    items.pop_back();
  }
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[0], args.LocOf(0)));
  }
  if (args.Given(1)) items = {args[1]};
  if (items.size() == 1 && items[0].is_sequence()) {
    items = std::vector<Value>(items[0].seq().items);
  }
  return NewArray(e, std::move(items), dtype, args.loc);
}

absl::StatusOr<Value> Full(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> shape, e.ToItems(args[0], args.LocOf(0), "the shape"));
  DType dtype = args[1].Is(Type::kFloat) ? kFloat32 : kInt64;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[2], args.LocOf(2)));
  }
  return NewArray(e, std::move(shape), dtype, args.loc);
}

// torch.randint(high, size), torch.randint(low, high, size).
absl::StatusOr<Value> RandInt(Elaborator& e, const BoundArgs& args) {
  Value size = args.Given(1) ? args[1] : args.rest.empty() ? Value::None() : args.rest.back();
  KILN_ASSIGN_OR_RETURN(std::vector<Value> shape, e.ToItems(size, args.loc, "the shape"));
  DType dtype = kInt64;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[0], args.LocOf(0)));
  }
  return NewArray(e, std::move(shape), dtype, args.loc);
}

absl::Status RequireArray(Elaborator& e, const Value& v, SourceLoc loc) {
  if (v.Is(Type::kArray)) return absl::OkStatus();
  return e.Error(loc, absl::StrCat("expected a tensor of the host, found ", Describe(v)),
                 "pass a tensor");
}

absl::StatusOr<Value> Like(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireArray(e, args[0], args.LocOf(0)));
  DType dtype = args[0].array().dtype;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[1], args.LocOf(1)));
  }
  return NewArray(e, args[0].array().shape, dtype, args.loc);
}

// --- Methods ---

absl::StatusOr<Value> Itself(Elaborator&, const BoundArgs& args) { return args[0]; }

template <const DType* type>
absl::StatusOr<Value> Converted(Elaborator& e, const BoundArgs& args) {
  return NewArray(e, args[0].array().shape, *type, args.loc);
}

// x.to("cuda"), x.to(torch.float16), x.to("cuda", torch.float16).
absl::StatusOr<Value> To(Elaborator& e, const BoundArgs& args) {
  DType dtype = args[0].array().dtype;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    if (args.rest[i].Is(Type::kDType)) dtype = args.rest[i].dtype();
    if (args.rest[i].Is(Type::kArray)) dtype = args.rest[i].array().dtype;
  }
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[1], args.LocOf(1)));
  }
  return NewArray(e, args[0].array().shape, dtype, args.loc);
}

int64_t Elements(const ArrayObject& array) {
  int64_t count = 1;
  for (const Value& extent : array.shape) count *= extent.int_value();
  return count;
}

absl::StatusOr<Value> Numel(Elaborator&, const BoundArgs& args) {
  return Value::Int(Elements(args[0].array()));
}

absl::StatusOr<Value> Dim(Elaborator&, const BoundArgs& args) {
  return Value::Int(static_cast<int64_t>(args[0].array().shape.size()));
}

absl::StatusOr<Value> Size(Elaborator& e, const BoundArgs& args) {
  const std::vector<Value>& shape = args[0].array().shape;
  if (!args.Given(1)) return e.NewTuple(shape);
  KILN_ASSIGN_OR_RETURN(int64_t i, e.ToInt(args[1], args.LocOf(1), "a dimension"));
  const auto rank = static_cast<int64_t>(shape.size());
  if (i < 0) i += rank;
  if (i < 0 || i >= rank) {
    return e.Error(args.LocOf(1), absl::StrCat("dimension ", Repr(args[1]), " of ", rank),
                   "name a dimension of the tensor");
  }
  return shape[static_cast<size_t>(i)];
}

absl::StatusOr<Value> Reshape(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> shape = args.rest;
  if (shape.size() == 1 && shape[0].is_sequence()) {
    shape = std::vector<Value>(shape[0].seq().items);
  }
  const int64_t count = Elements(args[0].array());
  int64_t known = 1;
  Value* open = nullptr;
  for (Value& extent : shape) {
    KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(extent, args.loc, "the shape of a tensor"));
    if (n == -1 && open == nullptr) {
      open = &extent;
    } else if (n < 0 || __builtin_mul_overflow(known, n, &known)) {
      return e.Error(args.loc, "a shape with a negative dimension", "use -1 once at most");
    }
  }
  if (open != nullptr && known > 0 && count % known == 0) *open = Value::Int(count / known);
  if (open == nullptr ? known != count : known == 0 || count % known != 0) {
    return e.Error(args.loc, absl::StrCat("a shape of another number of elements than ", count),
                   "give it as many elements as the tensor has");
  }
  return NewArray(e, std::move(shape), args[0].array().dtype, args.loc);
}

absl::StatusOr<Value> Transpose(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> shape = args[0].array().shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axes[2];
  for (size_t i = 0; i < 2; ++i) {
    KILN_ASSIGN_OR_RETURN(axes[i], e.ToInt(args[i + 1], args.LocOf(i + 1), "a dimension"));
    if (axes[i] < 0) axes[i] += rank;
    if (axes[i] < 0 || axes[i] >= rank) {
      return e.Error(args.LocOf(i + 1), absl::StrCat("no such dimension of ", rank),
                     "name a dimension of the tensor");
    }
  }
  std::swap(shape[static_cast<size_t>(axes[0])], shape[static_cast<size_t>(axes[1])]);
  return NewArray(e, std::move(shape), args[0].array().dtype, args.loc);
}

constexpr Builtin kMethods[] = {
    {"to", "self * dtype? device? non_blocking? copy?", To},
    {"type", "self * dtype?", To},
    {"cuda", "self device?", Itself},
    {"cpu", "self", Itself},
    {"contiguous", "self", Itself},
    {"clone", "self", Itself},
    {"detach", "self", Itself},
    {"requires_grad_", "self on?", Itself},
    {"normal_", "self mean? std?", Itself},
    {"uniform_", "self low? high?", Itself},
    {"random_", "self low? high?", Itself},
    {"zero_", "self", Itself},
    {"fill_", "self value", Itself},
    {"half", "self", Converted<&kFloat16>},
    {"bfloat16", "self", Converted<&kBFloat16>},
    {"float", "self", Converted<&kFloat32>},
    {"int", "self", Converted<&kInt32>},
    {"long", "self", Converted<&kInt64>},
    {"bool", "self", Converted<&kBool>},
    {"numel", "self", Numel},
    {"dim", "self", Dim},
    {"size", "self dim?", Size},
    {"reshape", "self *", Reshape},
    {"view", "self *", Reshape},
    {"transpose", "self a b", Transpose},
};

// --- The target ---

absl::Status RequireTarget(Elaborator& e, const BoundArgs& args, absl::string_view what) {
  if (e.target().cores > 0) return absl::OkStatus();
  return e.Error(args.loc, absl::StrCat(what, " asks of the target, and none is named"),
                 "name one, as in --arch sm_90a, or make the number a parameter of the kernel");
}

absl::StatusOr<Value> Yes(Elaborator&, const BoundArgs&) { return Value::Bool(true); }
template <int value>
absl::StatusOr<Value> Constant(Elaborator&, const BoundArgs&) {
  return Value::Int(value);
}
absl::StatusOr<Value> First(Elaborator& e, const BoundArgs& args) {
  return args.rest.empty() ? Value::None() : args.rest[0];
}

absl::StatusOr<Value> Cores(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireTarget(e, args, "driver.get_num_sms"));
  return Value::Int(e.target().cores);
}

absl::StatusOr<Value> Capability(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireTarget(e, args, "torch.cuda.get_device_capability"));
  return e.NewTuple({Value::Int(e.target().major), Value::Int(e.target().minor)});
}

absl::StatusOr<Value> DeviceName(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireTarget(e, args, "the name of the device"));
  return e.NewStr(e.target().name);
}

absl::StatusOr<Value> SharedBytes(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireTarget(e, args, "the size of shared memory"));
  if (e.target().shared_bytes > 0) return Value::Int(e.target().shared_bytes);
  return e.Unimplemented(args.loc, "a CPU has no shared memory to ask for",
                         "make the number a parameter of the kernel");
}

absl::StatusOr<Value> Properties(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireTarget(e, args, "torch.cuda.get_device_properties"));
  const TargetFacts& target = e.target();
  auto* properties = e.arena().New<InstanceObject>();
  properties->what = "what torch.cuda.get_device_properties returns";
  properties->attributes = {{"name", e.NewStr(target.name)},
                            {"major", Value::Int(target.major)},
                            {"minor", Value::Int(target.minor)},
                            {"multi_processor_count", Value::Int(target.cores)},
                            {"warp_size", Value::Int(32)}};
  if (target.shared_bytes > 0) {
    properties->attributes.emplace_back("shared_memory_per_block_optin",
                                        Value::Int(target.shared_bytes));
  }
  return Value::Of(Type::kInstance, properties);
}

absl::StatusOr<Value> DetermineTarget(Elaborator& e, const BoundArgs& args) {
  if (args.Given(0) && args[0].Is(Type::kStr) && args[0].str() != "auto") return args[0];
  KILN_RETURN_IF_ERROR(RequireTarget(e, args, "determine_target"));
  return e.NewStr(e.target().gpu ? "cuda" : "llvm");
}

absl::StatusOr<Value> Fp8Type(Elaborator& e, const BoundArgs& args) {
  std::string format = "e4m3";
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(format, e.ToStr(args[0], args.LocOf(0), "the format"));
  }
  const auto type = ParseDType(format == "e4m3"   ? "float8_e4m3fn"
                               : format == "e5m2" ? "float8_e5m2"
                                                  : "");
  if (type) return Value::OfDType(*type);
  return e.Error(args.LocOf(0), absl::StrCat("the float8 format '", format, "'"),
                 "use \"e4m3\" or \"e5m2\"");
}

#define KILN_MADE "* dtype? size? device? requires_grad? generator? layout? pin_memory?"
constexpr Builtin kRows[] = {
    {"torch.rand", KILN_MADE, Made<&kFloat32>},
    {"torch.randn", KILN_MADE, Made<&kFloat32>},
    {"torch.empty", KILN_MADE, Made<&kFloat32>},
    {"torch.zeros", KILN_MADE, Made<&kFloat32>},
    {"torch.ones", KILN_MADE, Made<&kFloat32>},
    {"torch.full", "size fill_value dtype? device? requires_grad?", Full},
    {"torch.randint", "* dtype? size? device? low? high? requires_grad? generator?", RandInt},
    {"torch.empty_like", "like dtype? device? requires_grad?", Like},
    {"torch.zeros_like", "like dtype? device? requires_grad?", Like},
    {"torch.ones_like", "like dtype? device? requires_grad?", Like},
    {"torch.rand_like", "like dtype? device? requires_grad?", Like},
    {"torch.randn_like", "like dtype? device? requires_grad?", Like},
    {"torch.device", "*", First},
    {"numpy.empty", "* dtype? shape? order?", Made<&kFloat64>},
    {"numpy.zeros", "* dtype? shape? order?", Made<&kFloat64>},
    {"numpy.ones", "* dtype? shape? order?", Made<&kFloat64>},
    {"numpy.random.rand", "* dtype? size?", Made<&kFloat64>},
    {"numpy.random.randn", "* dtype? size?", Made<&kFloat64>},
    {"torch.cuda.is_available", "", Yes},
    {"torch.cuda.current_device", "", Constant<0>},
    {"torch.cuda.device_count", "", Constant<1>},
    {"torch.cuda.get_device_capability", "device?", Capability},
    {"torch.cuda.get_device_name", "device?", DeviceName},
    {"torch.cuda.get_device_properties", "device?", Properties},
    {"driver.get_num_sms", "device_id?", Cores},
    {"driver.get_device_name", "device_id?", DeviceName},
    {"driver.get_max_dynamic_shared_size_bytes", "device_id?", SharedBytes},
    {"tilelang.determine_target", "target? return_object?", DetermineTarget},
    {"tilelang.determine_fp8_type", "fp8_format?", Fp8Type},
    {"tilelang.determine_torch_fp8_type", "fp8_format?", Fp8Type},
};
#undef KILN_MADE

}  // namespace

absl::StatusOr<Value> TransposedArray(Elaborator& e, const Value& array) {
  std::vector<Value> shape = array.array().shape;
  std::reverse(shape.begin(), shape.end());
  return NewArray(e, std::move(shape), array.array().dtype, {});
}

absl::StatusOr<Value> ArrayOp(Elaborator& e, ast::BinaryOp op, const Value& a, const Value& b,
                              SourceLoc loc) {
  for (const Value* v : {&a, &b}) {
    if (v->Is(Type::kArray) || v->is_number()) continue;
    return e.Error(loc, absl::StrCat("arithmetic on a tensor of the host and ", Describe(*v)),
                   "a kernel reads tensors that are its parameters");
  }
  const auto dtype_of = [](const Value& v, const Value& other) {
    if (v.Is(Type::kArray)) return v.array().dtype;
    const DType type = other.array().dtype;
    return v.Is(Type::kFloat) && !type.is_float() ? kFloat32 : type;
  };
  const DType x = dtype_of(a, b), y = dtype_of(b, a);
  DType dtype = x == y ? x : ir::CommonType(x, y);
  if (op == ast::BinaryOp::kDiv && !dtype.is_float()) dtype = kFloat32;
  const std::vector<Value> none;
  const std::vector<Value>& p = a.Is(Type::kArray) ? a.array().shape : none;
  const std::vector<Value>& q = b.Is(Type::kArray) ? b.array().shape : none;
  const auto differ = [&]() {
    return e.Error(loc, "the shapes of two tensors of the host do not fit each other",
                   "check their sizes");
  };
  if (op == ast::BinaryOp::kMatMul) {
    if (p.size() != 2 || q.size() != 2 || p[1].int_value() != q[0].int_value()) return differ();
    return NewArray(e, {p[0], q[1]}, dtype, loc);
  }
  std::vector<Value> shape(std::max(p.size(), q.size()));
  for (size_t i = 0; i < shape.size(); ++i) {  // from the last dimension on
    const int64_t m = i < p.size() ? p[p.size() - 1 - i].int_value() : 1;
    const int64_t n = i < q.size() ? q[q.size() - 1 - i].int_value() : 1;
    if (m != n && m != 1 && n != 1) return differ();
    shape[shape.size() - 1 - i] = Value::Int(m == 1 ? n : m);
  }
  return NewArray(e, std::move(shape), dtype, loc);
}

BuiltinTable TorchBuiltins() { return {kRows, std::size(kRows)}; }
BuiltinTable ArrayMethods() { return {kMethods, std::size(kMethods)}; }

}  // namespace kiln::lang
