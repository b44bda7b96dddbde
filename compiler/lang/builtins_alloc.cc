// Tensors, allocations and sizes.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

absl::StatusOr<std::vector<ir::Expr>> Shape(Elaborator& e, const Value& v, SourceLoc loc,
                                            absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Operand> operands, e.ToShape(v, loc, what));
  std::vector<ir::Expr> shape;
  for (const Operand& operand : operands) shape.push_back(operand.e);
  return shape;
}

template <ir::Scope scope>
absl::StatusOr<Value> Alloc(Elaborator& e, const BoundArgs& args) {
  static constexpr const char* kNames[] = {"T.alloc_global", "T.alloc_shared", "T.alloc_fragment",
                                           "T.alloc_local", "T.alloc_var"};
  const char* name = kNames[static_cast<int>(scope)];
  const std::string what = absl::StrCat("the shape of ", name);
  KILN_ASSIGN_OR_RETURN(std::vector<Operand> operands, e.ToShape(args[0], args.LocOf(0), what));
  DType dtype = kFloat32;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[1], args.LocOf(1)));
  }
  std::vector<ir::Expr> shape;
  for (const Operand& extent : operands) {
    if (scope != ir::Scope::kGlobal && (extent.info.flags & ExprInfo::kRuntime)) {
      return e.NeedsValue(args.LocOf(0), absl::StrCat(what, " depends on a run-time value"),
                          extent.e,
                          "on-chip tiles have compile-time shapes: use parameters, constants and "
                          "T.const sizes");
    }
    shape.push_back(extent.e);
  }
  KILN_ASSIGN_OR_RETURN(const ir::Buffer buffer,
                        e.NewNamedBuffer(dtype, std::move(shape), scope, args.loc, {}, "tile"));
  if constexpr (scope == ir::Scope::kGlobal) {
    KILN_RETURN_IF_ERROR(e.EmitAtRoot(args.loc, ir::MakeStmt<ir::Alloc>(args.loc, buffer)));
  } else {
    KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, name));
    KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, buffer));
  }
  if (args.Given(3)) KILN_RETURN_IF_ERROR(AttachLayout(e, buffer, args[3], args.LocOf(3)));
  return e.NewBuffer(buffer);
}

// A buffer over the data of another one, in whose memory it is.
absl::StatusOr<Value> ViewIn(Elaborator& e, const BoundArgs& args, absl::string_view scope,
                             DType dtype) {
  KILN_ASSIGN_OR_RETURN(const Value view, MakeView(e, args[4], &args[0], dtype, args.loc));
  static constexpr const char* kScopes[] = {"global", "shared", "local.fragment", "local"};
  const auto memory = static_cast<size_t>(args[4].buffer().buffer->scope);
  if (args.Given(2) &&
      (memory >= std::size(kScopes) || !absl::StartsWith(scope, kScopes[memory]))) {
    return e.Error(args.LocOf(2),
                   absl::StrCat("the scope '", scope, "' of a buffer over '",
                                args[4].buffer().buffer->name, "', which is elsewhere"),
                   "leave the scope out");
  }
  if (args.Given(3)) {
    KILN_RETURN_IF_ERROR(AttachLayout(e, view.buffer().buffer, args[3], args.LocOf(3)));
  }
  return view;
}

// T.alloc_buffer and T.decl_buffer name the memory by `scope`.
absl::StatusOr<Value> AllocIn(Elaborator& e, const BoundArgs& args) {
  std::string scope = "global";
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(scope, e.ToStr(args[2], args.LocOf(2), "the scope of a buffer"));
  }
  if (args.Given(4)) {
    DType dtype = kFloat32;
    if (args.Given(1)) {
      KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[1], args.LocOf(1)));
    }
    return ViewIn(e, args, scope, dtype);
  }
  if (scope == "shared.tmem") return CallAs(e, "alloc_tmem", args, {0, 1});
  if (absl::StartsWith(scope, "shared")) return Alloc<ir::Scope::kShared>(e, args);
  if (scope == "local.fragment") return Alloc<ir::Scope::kFragment>(e, args);
  if (scope == "local") return Alloc<ir::Scope::kLocal>(e, args);
  if (scope == "global") return Alloc<ir::Scope::kGlobal>(e, args);
  return e.Error(args.LocOf(2), absl::StrCat("the scope '", scope, "'"),
                 "use \"shared\", \"shared.dyn\", \"local.fragment\", \"local\" or \"global\"");
}

absl::StatusOr<Value> AllocVar(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.alloc_var"));
  KILN_ASSIGN_OR_RETURN(const DType dtype, e.ToDType(args[0], args.LocOf(0)));
  ir::Expr init = ir::MakeConst(0, dtype);  // as TileLang declares it
  // The old spelling T.alloc_var(dtype, "local.var") names a scope; everything else is a value.
  if (args.Given(1) && !args[1].Is(Type::kStr)) {
    KILN_ASSIGN_OR_RETURN(const Operand value, e.ToType(args[1], dtype, args.LocOf(1),
                                                        "the initial value of T.alloc_var"));
    init = value.e;
  }
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer buffer,
      e.NewNamedBuffer(dtype, {ir::MakeInt(1)}, ir::Scope::kVar, args.loc, {}, "var"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, buffer, init));
  return e.NewBuffer(buffer);
}

// T.empty((M, N), dtype), T.empty(M, N, dtype=...).
absl::StatusOr<Value> Empty(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> items = args.rest;
  Value dtype = args.Given(0) ? args[0] : Value::OfDType(kFloat32);
  SourceLoc dtype_loc = args.LocOf(0);
  const bool trailing =
      items.size() >= 2 && (items.back().Is(Type::kDType) || items.back().Is(Type::kStr) ||
                            items.back().Is(Type::kTypeName));
  if (trailing) {
    dtype = items.back();
    dtype_loc = args.rest_locs.back();
    items.pop_back();
  }
  const Value shape = items.size() == 1 ? items[0] : e.NewTuple(items);
  KILN_ASSIGN_OR_RETURN(std::vector<ir::Expr> extents,
                        Shape(e, shape, args.loc, "the shape of T.empty"));
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(dtype, dtype_loc));
  return e.NewOutput(std::move(extents), type, args.loc);
}

// How a macro says which tiles it takes: a word for who reads it, which is not looked at.
template <bool shared>
absl::StatusOr<Value> OnChip(Elaborator& e, const BoundArgs& args) {
  auto* type = e.arena().New<TensorTypeObject>();
  type->name = shared ? "T.SharedBuffer" : "T.FragmentBuffer";
  KILN_ASSIGN_OR_RETURN(type->shape, e.ToItems(args[0], args.LocOf(0), "the shape of a tile"));
  type->dtype = args.Given(1) ? args[1] : Value::OfDType(kFloat32);
  return Value::Of(Type::kTensorType, type);
}

template <bool strided>
absl::StatusOr<Value> Tensor(Elaborator& e, const BoundArgs& args) {
  if constexpr (!strided) {  // T.Tensor(shape, dtype, x.data), T.Tensor(shape, dtype, data=x.data)
    const size_t data = args.Given(3) ? 3 : 2;
    if (args.Given(data) && args[data].Is(Type::kBuffer)) {
      DType dtype = kFloat32;
      if (args.Given(1)) {
        KILN_ASSIGN_OR_RETURN(dtype, e.ToDType(args[1], args.LocOf(1)));
      }
      return MakeView(e, args[data], &args[0], dtype, args.loc);
    }
  }
  auto* type = e.arena().New<TensorTypeObject>();
  type->name = strided ? "T.StridedTensor" : "T.Tensor";
  const auto dims = [&](size_t i, std::vector<Value>* out) -> absl::Status {
    if (args[i].is_integer() || e.IsRuntime(args[i]) || args[i].Is(Type::kTypeName)) {
      out->push_back(args[i]);
      return absl::OkStatus();
    }
    KILN_ASSIGN_OR_RETURN(*out, e.ToItems(args[i], args.LocOf(i), "the shape of a tensor"));
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(dims(0, &type->shape));
  if (strided) KILN_RETURN_IF_ERROR(dims(1, &type->strides));
  const size_t d = strided ? 2 : 1;
  type->dtype = args.present[d] ? args[d] : Value::OfDType(kFloat32);
  return Value::Of(Type::kTensorType, type);
}

std::vector<std::string> SplitNames(const std::string& text) {
  return absl::StrSplit(text, absl::ByAnyChar(", "), absl::SkipEmpty());
}

absl::Status CheckIdentifier(Elaborator& e, const std::string& name, SourceLoc loc) {
  bool good = !name.empty() && !(name[0] >= '0' && name[0] <= '9');
  for (char c : name) {
    good = good &&
           (c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
  }
  if (good) return absl::OkStatus();
  return e.Error(loc, absl::StrCat("'", name, "' is not the name of a size"),
                 "write names such as \"M, N\"");
}

absl::StatusOr<Value> Const(Elaborator& e, const BoundArgs& args) {
  if (args[0].is_integer()) {
    return e.Error(args.LocOf(0), "T.const names sizes, and this is a number",
                   "write the number as it is, or T.uint16(15) for one of a type");
  }
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        e.ToStr(args[0], args.LocOf(0), "the names of T.const"));
  std::vector<Value> sizes;
  for (const std::string& name : SplitNames(text)) {
    KILN_RETURN_IF_ERROR(CheckIdentifier(e, name, args.LocOf(0)));
    KILN_ASSIGN_OR_RETURN(const Value size, e.ConstSize(name, args.LocOf(0)));
    sizes.push_back(size);
  }
  if (sizes.empty()) return e.Error(args.loc, "T.const without a name", "write T.const(\"M, N\")");
  return sizes.size() == 1 ? sizes[0] : e.NewTuple(std::move(sizes));
}

absl::StatusOr<Value> Dynamic(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        e.ToStr(args[0], args.LocOf(0), "the names of T.dynamic"));
  DType type = kInt32;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(type, e.ToDType(args[1], args.LocOf(1)));
  }
  std::vector<Value> sizes;
  for (const std::string& name : SplitNames(text)) {
    KILN_RETURN_IF_ERROR(CheckIdentifier(e, name, args.LocOf(0)));
    KILN_ASSIGN_OR_RETURN(const Value size, e.DynamicSize(name, type, args.LocOf(0)));
    sizes.push_back(size);
  }
  if (sizes.empty())
    return e.Error(args.loc, "T.dynamic without a name", "write T.dynamic(\"M, N\")");
  return sizes.size() == 1 ? sizes[0] : e.NewTuple(std::move(sizes));
}

// T.dyn["K"], T.dyn[dtype, "K"].
absl::StatusOr<Value> Dyn(Elaborator& e, const BoundArgs& args) {
  DType type = kInt32;
  std::string name;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    if (args.rest[i].Is(Type::kStr)) {
      name = args.rest[i].str();
    } else {
      KILN_ASSIGN_OR_RETURN(type, e.ToDType(args.rest[i], args.rest_locs[i]));
    }
  }
  KILN_RETURN_IF_ERROR(CheckIdentifier(e, name, args.loc));
  return e.DynamicSize(name, type, args.loc);
}

absl::StatusOr<Value> MatchBuffer(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::vector<ir::Expr> shape,
                        Shape(e, args[1], args.LocOf(1), "the shape of T.match_buffer"));
  DType type = kFloat32;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(type, e.ToDType(args[2], args.LocOf(2)));
  }
  std::vector<ir::Expr> strides;
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(strides,
                          Shape(e, args[3], args.LocOf(3), "the strides of T.match_buffer"));
    if (strides.size() != shape.size()) {
      return e.Error(args.LocOf(3), "T.match_buffer needs one stride for each dimension",
                     "give as many strides as dimensions");
    }
  }
  return e.MatchBuffer(args[0], {type, std::move(shape), std::move(strides)}, args.loc);
}

absl::StatusOr<Value> DTypeOf(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[0], args.LocOf(0)));
  return Value::OfDType(type);
}

constexpr Builtin kRows[] = {
    {"T.alloc_shared", "shape dtype? scope? layout?", Alloc<ir::Scope::kShared>},
    {"T.alloc_fragment", "shape dtype? scope? layout?", Alloc<ir::Scope::kFragment>},
    {"T.alloc_local", "shape dtype? scope? layout?", Alloc<ir::Scope::kLocal>},
    {"T.alloc_buffer", "shape dtype? scope? layout? data?", AllocIn},
    {"T.decl_buffer", "shape dtype? scope? layout? data?", AllocIn},
    {"T.alloc_global", "shape dtype?", Alloc<ir::Scope::kGlobal>},
    {"T.alloc_var", "dtype init? scope?", AllocVar},
    {"T.empty", "* dtype?", Empty},
    {"T.Tensor", "shape dtype? scope? data?", Tensor<false>, true},
    {"T.Buffer", "shape dtype? scope? data?", Tensor<false>, true},
    {"T.StridedTensor", "shape strides dtype?", Tensor<true>, true},
    {"T.SharedBuffer", "shape dtype?", OnChip<true>, true},
    {"T.FragmentBuffer", "shape dtype?", OnChip<false>, true},
    {"T.LocalBuffer", "shape dtype?", OnChip<false>, true},
    {"T.const", "names dtype?", Const},
    {"T.dynamic", "names dtype?", Dynamic},
    {"T.symbolic", "names dtype?", Dynamic},
    {"T.dyn", "*", Dyn, true},
    {"T.match_buffer", "handle shape dtype? strides? align? offset_factor?", MatchBuffer},
    {"T.make_tensor", "handle shape dtype? strides?", MatchBuffer},
    {"T.dtype", "name", DTypeOf},
};

}  // namespace

BuiltinTable AllocBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
