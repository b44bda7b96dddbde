// Subscripts and attributes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/extent.h"
#include "compiler/lang/format_value.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/region.h"
#include "compiler/lang/slice.h"
#include "compiler/lang/suggest.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

// What a defaultdict makes of a key that it does not have.
absl::StatusOr<Value> MissingItem(Elaborator& e, DictObject& dict, const Value& key,
                                  SourceLoc loc) {
  if (!e.MayMutate(dict)) {
    return e.Error(loc,
                   absl::StrCat("the dict gets the key ", Repr(key),
                                " inside a run-time branch or loop, which would change it once"),
                   "give it the key before");
  }
  CallArgs none;
  none.loc = loc;
  KILN_ASSIGN_OR_RETURN(const Value made, e.Call(dict.factory, none));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, 32));
  KILN_RETURN_IF_ERROR(e.SetItem(&dict, key, made, loc));
  return made;
}

// A value of the type, which tells its methods; nullopt for a type that has none.
std::optional<Value> SomeOf(Elaborator& e, absl::string_view type) {
  if (type == "str") return e.NewStr("");
  if (type == "list") return e.NewList({});
  if (type == "tuple") return e.NewTuple({});
  if (type == "dict") return Value::Of(Type::kDict, e.arena().New<DictObject>());
  if (type == "int") return Value::Int(0);
  if (type == "float") return Value::Float(0);
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Value> Elaborator::EvalIndex(ast::ExprPtr index) {
  const auto* slice = index->As<ast::Slice>();
  if (slice == nullptr) return Eval(index);
  auto* node = arena_.New<SliceObject>();
  const std::pair<ast::ExprPtr, Value*> parts[] = {
      {slice->start, &node->start}, {slice->stop, &node->stop}, {slice->step, &node->step}};
  for (const auto& [expr, value] : parts) {
    if (expr == nullptr) continue;
    const Moment then = Now();
    KILN_ASSIGN_OR_RETURN(*value, Eval(expr));
    KILN_RETURN_IF_ERROR(CheckStillHolds(Value::Of(Type::kSlice, node), then, index->loc));
  }
  return Value::Of(Type::kSlice, node);
}

absl::StatusOr<Value> Elaborator::EvalKey(const ast::Subscript& place) {
  if (place.indices.size() == 1 && !place.is_tuple) return EvalIndex(place.indices[0]);
  return EvalItems(place.indices, Type::kTuple, place.loc);
}

absl::StatusOr<Value> Elaborator::EvalSubscript(const ast::Subscript& node) {
  KILN_ASSIGN_OR_RETURN(const Value base, EvalKeepingVariable(node.value));
  KILN_RETURN_IF_ERROR(Step(node.loc));
  std::vector<Value> indices;
  std::vector<SourceLoc> locs;
  std::vector<std::pair<Value, Moment>> read;
  for (ast::ExprPtr index : node.indices) {
    if (const auto* starred = index->As<ast::Starred>()) {
      KILN_ASSIGN_OR_RETURN(const Value spread, Eval(starred->value));
      KILN_ASSIGN_OR_RETURN(const std::vector<Value> more, Iterate(spread, index->loc));
      indices.insert(indices.end(), more.begin(), more.end());
      locs.insert(locs.end(), more.size(), index->loc);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const Value value, EvalIndex(index));
    indices.push_back(value);
    locs.push_back(index->loc);
    read.emplace_back(value, Now());
  }
  for (const auto& [value, then] : read) {
    KILN_RETURN_IF_ERROR(CheckStillHolds(value, then, node.loc));
  }
  const bool one = indices.size() == 1 && !node.is_tuple;
  if (base.Is(Type::kBuffer)) {
    // x[(i, j)] is x[i, j].
    if (one && indices[0].is_sequence() && !IsVector(indices[0])) {
      locs.assign(indices[0].seq().items.size(), locs[0]);
      indices = std::vector<Value>(indices[0].seq().items);
    }
    KILN_RETURN_IF_ERROR(ExpandEllipsis(*this, base.buffer().buffer, &indices, &locs));
    return SubscriptBuffer(base.buffer().buffer, indices, node.loc, locs);
  }
  if (base.Is(Type::kBuiltin) && base.builtin()->subscriptable) {
    CallArgs args;
    args.loc = node.loc;
    args.positional = std::move(indices);
    args.locs = std::move(locs);
    return CallBuiltin(*base.builtin(), nullptr, args);
  }
  if (base.Is(Type::kClass) && one && base.type_object().def != nullptr) {
    KILN_RETURN_IF_ERROR(Prepare(&base.type_object(), node.loc));
    if (base.type_object().kind == ClassKind::kEnum) {
      return Classes(this).CaseNamed(base, indices[0], node.loc);
    }
  }
  if (base.Is(Type::kTypeName)) return base;  // Optional[int], list[int]: annotations
  return SubscriptSequence(base, one ? indices[0] : NewTuple(std::move(indices)), node.loc);
}

absl::StatusOr<Value> Elaborator::SubscriptSequence(const Value& base, const Value& index,
                                                    SourceLoc loc) {
  if (base.Is(Type::kDict)) {
    KILN_RETURN_IF_ERROR(CheckKey(index, loc));
    KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(base.dict().items.size())));
    if (index.Is(Type::kExpr) && index.expr().info.open_only()) {
      return NeedConcrete(loc, index.expr().expr, "it is the key of a dict");
    }
    KILN_ASSIGN_OR_RETURN(const auto at, FindKey(base.dict(), index, loc));
    if (at.has_value()) return base.dict().items[*at].second;
    if (!base.dict().factory.is_none()) return MissingItem(*this, base.dict(), index, loc);
    std::vector<std::string> keys;
    for (const auto& [key, item] : base.dict().items) {
      if (key.Is(Type::kStr) && keys.size() < 100) keys.push_back(key.str());
    }
    return Raised(Error(loc, absl::StrCat("the dict has no key ", Repr(index)),
                        index.Is(Type::kStr) ? DidYouMean(index.str(), keys, "check the key")
                                             : "check the key"),
                  "KeyError");
  }
  if (base.Is(Type::kDType)) return SubscriptSequence(AsText(*this, base), index, loc);
  if (const Value plain = Plain(base); !plain.Is(base.type())) {
    return SubscriptSequence(plain, index, loc);
  }
  if (base.Is(Type::kInstance)) {
    KILN_ASSIGN_OR_RETURN(const auto item,
                          Classes(this).Special(base, "__getitem__", {index}, loc));
    if (item.has_value()) return *item;
  }
  int64_t size = 0;
  if (base.is_sequence()) {
    size = static_cast<int64_t>(base.seq().items.size());
  } else if (base.Is(Type::kStr)) {
    KILN_RETURN_IF_ERROR(CheckAscii(*this, base, loc, "a part"));
    size = static_cast<int64_t>(base.str().size());
  } else if (base.Is(Type::kRange)) {
    size = base.range().Count();
  } else if (base.Is(Type::kArray)) {
    return Unimplemented(loc, "an element of a tensor of the host",
                         "a tensor has a shape and a dtype when a kernel is compiled, and no data");
  } else if (base.Is(Type::kAccess)) {
    return Unimplemented(loc, "a subscript of a region of a buffer",
                         "write all indices in one pair of brackets");
  } else {
    return Error(loc, absl::StrCat(Describe(base), " cannot be indexed"),
                 "index a buffer, list, tuple or dict");
  }
  if (index.Is(Type::kSlice)) {
    KILN_ASSIGN_OR_RETURN(const SliceBounds at, BoundsOf(*this, index.slice(), size, loc));
    if (base.Is(Type::kRange)) return SliceOfRange(*this, base.range(), at, loc);
    const int64_t count = at.Count();
    KILN_RETURN_IF_ERROR(Step(loc, count));
    std::vector<Value> items;
    std::string text;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t i = at.start + n * at.step;
      if (base.Is(Type::kStr))
        text += base.str()[i];
      else
        items.push_back(base.seq().items[i]);
    }
    KILN_RETURN_IF_ERROR(ChargeBytes(loc, static_cast<int64_t>(text.size() + 16 * items.size())));
    if (base.Is(Type::kStr)) return NewStr(std::move(text), ShownIn(base));
    return NewSeq(base.type(), std::move(items));
  }
  KILN_ASSIGN_OR_RETURN(int64_t i,
                        ToInt(index, loc, absl::StrCat("the index of ", Describe(base))));
  if (i < 0) i += size;
  if (i < 0 || i >= size) {
    return Raised(Error(loc,
                        absl::StrCat("index ", Repr(index), " is out of range for ", Describe(base),
                                     " of length ", size),
                        size == 0 ? "it is empty" : absl::StrCat("use 0 to ", size - 1)),
                  "IndexError");
  }
  if (base.Is(Type::kStr)) return NewStr(std::string(1, base.str()[i]), ShownIn(base));
  if (base.Is(Type::kRange)) return Value::Int(base.range().start + i * base.range().step);
  return base.seq().items[i];
}

absl::StatusOr<AccessIndex> Elaborator::BufferIndex(const ir::Buffer& buffer, size_t dim,
                                                    const Value& index, SourceLoc loc,
                                                    ExprInfo* info) {
  const ir::Expr size = buffer->shape[dim];
  const auto what = [&](absl::string_view part) {
    return absl::StrCat(part, " of dimension ", dim, " of '", buffer->name, "'");
  };
  // Python's negative constants count from the end.
  auto bound = [&](const Value& v, absl::string_view part) -> absl::StatusOr<ir::Expr> {
    KILN_ASSIGN_OR_RETURN(const Operand operand, ToIndex(v, loc, what(part)));
    *info = Join(*info, operand.info);
    if (const auto constant = ir::ConstInt(operand.e); constant && *constant < 0) {
      return size + operand.e;
    }
    return operand.e;
  };
  AccessIndex result;
  if (!index.Is(Type::kSlice)) {
    KILN_ASSIGN_OR_RETURN(result.min, bound(index, "the index"));
    result.extent = ir::MakeInt(1, result.min.dtype());
    const auto at = ir::ConstInt(result.min), limit = ir::ConstInt(size);
    // Under a run-time condition it may never be reached; global memory has guards in any case.
    const bool guarded = shielded_ > 0 && buffer->scope == ir::Scope::kGlobal;
    if (at && (*at < 0 || (limit && *at >= *limit && !guarded))) {
      return Error(
          loc,
          absl::StrCat("index ", Repr(index), " is outside dimension ", dim, " of '", buffer->name,
                       "', which has ", Repr(*NewExpr(size, {}, loc)), " elements"),
          limit ? absl::StrCat("use 0 to ", *limit - 1) : "use an index of at least 0");
    }
    return result;
  }
  const SliceObject& slice = index.slice();
  if (!slice.step.is_none()) {
    KILN_ASSIGN_OR_RETURN(const int64_t step, ToInt(slice.step, loc, what("the step")));
    if (step != 1) {
      return Unimplemented(loc, absl::StrCat("a buffer slice with step ", step),
                           "copy element by element in T.Parallel");
    }
  }
  result.is_slice = true;
  result.min = ir::MakeInt(0, size.dtype());
  ir::Expr stop = size;
  if (!slice.start.is_none()) {
    KILN_ASSIGN_OR_RETURN(result.min, bound(slice.start, "the start"));
  }
  if (!slice.stop.is_none()) {
    KILN_ASSIGN_OR_RETURN(stop, bound(slice.stop, "the end"));
  }
  result.extent = Difference(stop, result.min, bound_);
  const auto extent = ir::ConstInt(result.extent);
  if (extent && *extent <= 0) {
    return Error(loc,
                 absl::StrCat("the slice of dimension ", dim, " of '", buffer->name,
                              "' is empty: it has ", *extent, " elements"),
                 "end it after its start");
  }
  return result;
}

absl::StatusOr<Value> Elaborator::SubscriptBuffer(const ir::Buffer& buffer,
                                                  const std::vector<Value>& indices, SourceLoc loc,
                                                  const std::vector<SourceLoc>& locs) {
  const size_t rank = buffer->shape.size();
  if (indices.size() > rank) {
    return Error(loc,
                 absl::StrCat("'", buffer->name, "' has ", rank, " dimension", rank == 1 ? "" : "s",
                              ", but ", indices.size(), " indices"),
                 "drop the extra indices");
  }
  if (std::any_of(indices.begin(), indices.end(), IsVector)) {
    return ByLane(*this, loc, indices, [&](const std::vector<Value>& lanes) {
      return SubscriptBuffer(buffer, lanes, loc, locs);
    });
  }
  auto* access = arena_.New<AccessObject>();
  access->buffer = buffer;
  access->is_point = indices.size() == rank;
  access->missing = rank - indices.size();
  ExprInfo info;
  for (size_t i = 0; i < rank; ++i) {
    if (i >= indices.size()) {  // missing indices mean whole dimensions
      access->indices.push_back({ir::MakeInt(0, buffer->shape[i].dtype()), buffer->shape[i], true});
      continue;
    }
    KILN_ASSIGN_OR_RETURN(AccessIndex index, BufferIndex(buffer, i, indices[i], locs[i], &info));
    if (index.is_slice) access->is_point = false;
    access->indices.push_back(std::move(index));
  }
  access->info = info;
  return Value::Of(Type::kAccess, access);
}

absl::StatusOr<Value> Elaborator::GetMember(const Module& module, const std::string& attr,
                                            SourceLoc loc) {
  const auto found = module.members.find(attr);
  if (found != module.members.end()) return found->second;
  if (module.has_dtypes) {
    if (attr == "tfloat32") {  // float32 in memory, whose products may be cut to TF32
      // First: what the kernel says of the option itself wins.
      annotated_.attrs.insert(annotated_.attrs.begin(), {"kiln.tf32", "1"});
      return Value::OfDType(kFloat32);
    }
    if (const auto type = ParseDType(attr)) return Value::OfDType(*type);
    if (const auto type = ParseVectorType(attr)) return Value::OfDType(*type);
  }
  if (module.bundled.contains(attr)) return BundledClass(attr, loc);
  const auto refused = module.refused.find(attr);
  if (refused != module.refused.end()) {
    return Unimplemented(loc, absl::StrCat("'", module.name, ".", attr, "' is not supported"),
                         refused->second);
  }
  std::vector<std::string> names;
  for (const auto& entry : module.members) names.push_back(entry.first);
  names.insert(names.end(), module.bundled.begin(), module.bundled.end());
  if (module.has_dtypes) {
    for (const char* type :
         {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"}) {
      names.emplace_back(type);
    }
  }
  std::sort(names.begin(), names.end());
  const Module* language = FindModule("tilelang.language");
  const bool of_kernels =
      language != nullptr && language != &module && language->members.contains(attr);
  return Unimplemented(
      loc, absl::StrCat("'", module.name, "' has no member '", attr, "'"),
      of_kernels ? absl::StrCat("in kernels it is T.", attr)
                 : DidYouMean(attr, names, "see compiler/lang/README.md for what is supported"));
}

absl::StatusOr<Value> Elaborator::BufferAttribute(const Value& self, const std::string& attr,
                                                  SourceLoc loc) {
  const ir::Buffer& buffer = self.buffer().buffer;
  auto expressions = [&](const std::vector<ir::Expr>& exprs) -> absl::StatusOr<Value> {
    std::vector<Value> items;
    for (const ir::Expr& e : exprs) {
      KILN_ASSIGN_OR_RETURN(const Value item, NewExpr(e, InfoOf(e), loc));
      items.push_back(item);
    }
    return NewTuple(std::move(items));
  };
  if (attr == "shape") return expressions(buffer->shape);
  if (attr == "dtype") return Value::OfDType(buffer->dtype);
  if (attr == "name") return NewStr(buffer->name);
  if (attr == "ndim") return Value::Int(static_cast<int64_t>(buffer->shape.size()));
  if (attr == "strides") {
    if (!buffer->strides.empty()) return expressions(buffer->strides);
    std::vector<ir::Expr> strides(buffer->shape.size(), ir::MakeInt(1));
    for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * buffer->shape[i];
    return expressions(strides);
  }
  if (attr == "data") return self;  // what T.Tensor and T.decl_buffer make another name for
  return Error(loc, absl::StrCat("the buffer '", buffer->name, "' has no attribute '", attr, "'"),
               DidYouMean(attr, {"shape", "dtype", "strides", "ndim", "name", "data"},
                          "use shape, dtype, strides, ndim, name or data"));
}

absl::StatusOr<Value> Elaborator::GetAttribute(const Value& self, const std::string& attr,
                                               SourceLoc loc) {
  switch (self.type()) {
    case Type::kModule:
      return GetMember(*self.module(), attr, loc);
    case Type::kUnknown: {
      const SourceSection* file = module_.FindSection(self.unknown().path);
      const std::string path = absl::StrCat(self.unknown().path, ".", attr);
      if (file != nullptr &&
          (file->globals.contains(attr) || module_.FindSection(path) == nullptr)) {
        return ReadGlobalOf(*file, attr, loc, SIZE_MAX);
      }
      auto* node = arena_.New<UnknownObject>();
      node->path = path;
      node->reason = self.unknown().reason;
      node->module = self.unknown().module;
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, static_cast<int64_t>(node->path.size())));
      return Value::Of(Type::kUnknown, node);
    }
    case Type::kBuffer:
      if (self.buffer().buffer->scope == ir::Scope::kVar && attr == "astype") break;
      if (attr == "astype" || attr == "copy") break;
      return BufferAttribute(self, attr, loc);
    case Type::kDType: {
      const DType type = self.dtype();
      if (attr == "bits") return Value::Int(type.bits);
      if (attr == "lanes") return Value::Int(type.lanes);
      if (attr == "itemsize" || attr == "bytes" || attr == "nbytes")
        return Value::Int(type.bytes());
      return GetAttribute(AsText(*this, self), attr, loc);
    }
    case Type::kExpr:
      if (attr == "dtype") return Value::OfDType(self.expr().expr.dtype());
      break;
    case Type::kAccess:
      if (attr == "dtype") return Value::OfDType(self.access().buffer->dtype);
      if (attr == "buffer") return NewBuffer(self.access().buffer);
      break;
    case Type::kTuple:
      if (attr == "dtype" && IsVector(self)) {
        KILN_ASSIGN_OR_RETURN(const Operand lane, ToOperand(self.seq().items[0], loc, "a lane"));
        const auto lanes = static_cast<int>(self.seq().items.size());
        return Value::OfDType(lane.e.dtype().with_lanes(lanes));
      }
      if (self.seq().named != nullptr) {
        bool found = false;
        KILN_ASSIGN_OR_RETURN(const Value item,
                              Classes(this).TupleAttribute(self, attr, loc, &found));
        if (found) return item;
      }
      break;
    case Type::kRange:
      if (attr == "start") return Value::Int(self.range().start);
      if (attr == "stop") return Value::Int(self.range().stop);
      if (attr == "step") return Value::Int(self.range().step);
      break;
    case Type::kEnum:
      if (attr == "name") return NewStr(self.member()->name);
      if (attr == "value" && self.member()->text != nullptr) return NewStr(self.member()->text);
      if (attr == "value") return Value::Int(self.member()->value);
      break;
    case Type::kInstance:
      return InstanceAttribute(self, attr, loc);
    case Type::kClass:
      if (attr == "__name__") return NewStr(self.type_object().def->name);
      return ClassAttribute(self, self, attr, loc);
    case Type::kMethod:  // of super()
      if (self.method().callee.Is(Type::kClass)) {
        return ClassAttribute(self.method().callee, self.method().self, attr, loc);
      }
      break;
    case Type::kArray:
      if (attr == "shape") return NewTuple(self.array().shape);
      if (attr == "dtype") return Value::OfDType(self.array().dtype);
      if (attr == "ndim") return Value::Int(static_cast<int64_t>(self.array().shape.size()));
      if (attr == "T") return TransposedArray(*this, self);
      break;
    case Type::kBuiltin:
      if (const Builtin* member = FindMember(*self.builtin(), attr)) {
        return Value::OfBuiltin(member);
      }
      break;
    case Type::kFunction:
      if (attr == "__name__" && !self.function().wrapped.is_none()) {
        return GetAttribute(self.function().wrapped, attr, loc);
      }
      if (attr == "__name__") return NewStr(std::string(self.function().name()));
      break;
    case Type::kPartial:
      if (attr == "func") return self.partial().callee;
      if (attr == "args") return NewTuple(self.partial().positional);
      break;
    case Type::kTypeName:
      if (attr == "__name__") return NewStr(self.type_name());
      if (const auto some = SomeOf(*this, self.type_name())) {  // str.lower, as a function
        if (const Builtin* method = FindMethod(*some, attr)) return Value::OfBuiltin(method);
        return Error(loc, absl::StrCat(self.type_name(), " has no attribute '", attr, "'"),
                     DidYouMean(attr, MethodNames(*some), "check the name"));
      }
      break;
    default:
      break;
  }
  if (const Builtin* method = FindMethod(self, attr)) {
    auto* node = arena_.New<MethodObject>();
    node->self = self;
    node->function = method;
    return Value::Of(Type::kMethod, node);
  }
  if (self.Is(Type::kArray)) {
    return Unimplemented(loc, absl::StrCat("'", attr, "' of a tensor of the host"),
                         "a tensor has a shape and a dtype when a kernel is compiled, and no data");
  }
  return Error(loc, absl::StrCat(Describe(self), " has no attribute '", attr, "'"),
               DidYouMean(attr, MethodNames(self), "check the name"));
}

}  // namespace kiln::lang
