// Tensors known by shape and type alone, and what a signature says.
#include "compiler/lang/interface.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

// Row-major strides of a shape, in elements.
std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::string Text(const std::vector<int64_t>& numbers) {
  return absl::StrCat("(", absl::StrJoin(numbers, ", "), numbers.size() == 1 ? ",)" : ")");
}

}  // namespace

absl::StatusOr<Placeholder> Elaborator::ToPlaceholder(const std::string& name, const Value& value) {
  const SourceLoc loc = module_.entry->name_loc;
  if (!value.Is(Type::kTensorType)) {
    return Error(loc,
                 absl::StrCat("'", name, "' of '", module_.entry->name,
                              "' is a tensor, and the argument is ", Describe(value)),
                 "say its shape and type: T.Tensor((1024, 512), T.float16)");
  }
  const TensorTypeObject& type = value.tensor_type();
  Placeholder placeholder;
  const auto read = [&](const std::vector<Value>& items, int64_t least, const char* what,
                        std::vector<int64_t>* out) -> absl::Status {
    for (const Value& item : items) {
      if (!item.Is(Type::kInt) || item.int_value() < least || item.int_value() >> 48 != 0) {
        return Error(loc, absl::StrCat("the tensor '", name, "' has the ", what, " ", Repr(item)),
                     absl::StrCat("a ", what, " is an integer from ", least, " to 2^48"));
      }
      out->push_back(item.int_value());
    }
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(read(type.shape, 1, "size", &placeholder.shape));
  KILN_RETURN_IF_ERROR(read(type.strides, 0, "stride", &placeholder.strides));
  if (!placeholder.strides.empty() && placeholder.strides.size() != placeholder.shape.size()) {
    return Error(loc, absl::StrCat("the tensor '", name, "' has not one stride for each dimension"),
                 "give as many strides as dimensions");
  }
  if (!type.dtype.is_none()) {
    KILN_ASSIGN_OR_RETURN(placeholder.dtype, ToDType(type.dtype, loc));
  }
  return placeholder;
}

absl::Status Elaborator::ReadPlaceholders(const Kernel& kernel) {
  for (const ParamInfo& param : kernel.params()) {
    const auto given = arguments_->find(param.name);
    if (param.kind != ParamInfo::kTensor || given == arguments_->end()) continue;
    KILN_ASSIGN_OR_RETURN(const Value value, ParseArgument(param.name, given->second));
    KILN_ASSIGN_OR_RETURN(Placeholder tensor, ToPlaceholder(param.name, value));
    CountElements(kernel, param.name, &tensor);
    interface_.placeholders[param.name] = std::move(tensor);
  }
  if (interface_.placeholders.empty()) return absl::OkStatus();
  for (const SizeSource& source : FindSizeSources(*module_.entry)) {
    const auto found = interface_.placeholders.find(source.tensor);
    if (found == interface_.placeholders.end()) continue;
    const Placeholder& tensor = found->second;
    std::string text;
    if (source.part == SizeSource::kDType) {
      if (!tensor.dtype.has_value()) continue;
      text = tensor.dtype->ToString();
    } else {
      if (source.index >= tensor.shape.size()) {  // the wrong rank
        if (!absl::StartsWith(source.name, absl::StrCat(source.tensor, "_shape_"))) {
          continue;  // told at its annotation
        }
        return Error(module_.entry->name_loc,
                     absl::StrCat("'", source.tensor, "' has at least ", source.index + 1,
                                  " dimensions, and the argument has ", tensor.shape.size(), ": ",
                                  Text(tensor.shape)),
                     "give a tensor that fits the annotation");
      }
      const std::vector<int64_t> strides =
          tensor.strides.empty() ? DenseStrides(tensor.shape) : tensor.strides;
      text = absl::StrCat(source.part == SizeSource::kShape ? tensor.shape[source.index]
                                                            : strides[source.index]);
    }
    KILN_RETURN_IF_ERROR(NoteSize(source.name, std::move(text), source.tensor));
  }
  return interface_.signature != nullptr ? absl::OkStatus() : ReadComputedShapes(kernel);
}

// The element type that the annotation of a tensor names, where it can be read before any size has
// a value: as text, by a parameter or by the file.
std::optional<DType> Elaborator::AnnotatedType(const Kernel& kernel, const std::string& tensor) {
  const ast::ExprPtr expr = FindElementType(*module_.entry, tensor);
  if (expr == nullptr) return std::nullopt;
  std::optional<std::string> text = LiteralText(expr);
  if (const auto* name = expr->As<ast::Name>()) {
    const auto param = std::find_if(kernel.params().begin(), kernel.params().end(),
                                    [&](const ParamInfo& p) { return p.name == name->id; });
    const auto given = arguments_->find(name->id);
    if (const std::string* chosen = config_->Find(name->id)) {
      text = *chosen;
    } else if (given != arguments_->end()) {
      text = given->second;
    } else if (param != kernel.params().end()) {
      text = param->default_text;
    } else if (!IsLocal(module_.entry->body, name->id)) {
      Frame frame;
      frame.scope = arena_.New<Scope>();
      FrameGuard guard(this, &frame);
      const absl::StatusOr<Value> value = ReadGlobal(name->id, expr->loc, SIZE_MAX);
      if (value.ok()) text = Repr(*value);
    }
  }
  if (!text.has_value()) return std::nullopt;
  const absl::string_view all = *text;
  const size_t first = all.find_first_not_of("\"' "), last = all.find_last_not_of("\"' ");
  if (first == absl::string_view::npos) return std::nullopt;
  absl::string_view word = all.substr(first, last - first + 1);
  for (const char* prefix : {"T.", "torch."}) absl::ConsumePrefix(&word, prefix);
  return ParseDType(word);
}

// A tensor of bytes where the annotation says elements of which two lie in one.
void Elaborator::CountElements(const Kernel& kernel, const std::string& name, Placeholder* tensor) {
  const bool of_bytes = tensor->dtype == kInt8 || tensor->dtype == kUInt8;
  if (!of_bytes || tensor->shape.empty()) return;
  const std::optional<DType> own = AnnotatedType(kernel, name);
  if (!own.has_value() || !own->is_packed()) return;
  tensor->bytes = true;
  tensor->shape.back() *= 2;
  for (size_t i = 0; i + 1 < tensor->strides.size(); ++i) tensor->strides[i] *= 2;
}

absl::Status Elaborator::NoteSize(const std::string& name, std::string text,
                                  const std::string& tensor) {
  const auto [it, fresh] = interface_.sizes.try_emplace(name, Interface::Size{text, tensor});
  if (fresh || it->second.text == text) return absl::OkStatus();
  return Error(module_.entry->name_loc,
               absl::StrCat("the size '", name, "' is ", it->second.text, " in '",
                            it->second.tensor, "' and ", text, " in '", tensor, "'"),
               "give tensors whose shared sizes are equal");
}

// Sizes that stand in no annotation by name, as where A_shape is one tuple or another: what the
// annotations come to while those sizes are left open.
absl::Status Elaborator::ReadComputedShapes(const Kernel& kernel) {
  Arguments given = *arguments_;
  std::vector<std::string> open;
  for (const std::string& name : kernel.consts()) {
    if (const auto size = interface_.sizes.find(name); size != interface_.sizes.end()) {
      given.emplace(name, size->second.text);
    } else if (!given.contains(name) && config_->Find(name) == nullptr) {
      open.push_back(name);
    }
  }
  if (open.empty()) return absl::OkStatus();
  for (const auto& [name, value] : config_->values()) given.emplace(name, value);
  for (const auto& placeholder : interface_.placeholders) given.erase(placeholder.first);
  const absl::StatusOr<Signature> signature = ReadSignature(kernel, given, target_);
  if (!signature.ok()) return absl::OkStatus();  // what is wrong is told where it is read
  for (const ParamSignature& param : signature->params) {
    const auto found = interface_.placeholders.find(param.info.name);
    if (found == interface_.placeholders.end()) continue;
    const std::vector<int64_t>& shape = found->second.shape;
    for (size_t i = 0; i < std::min(shape.size(), param.shape.size()); ++i) {
      if (param.shape[i].kind != Dimension::kConstant) continue;
      KILN_RETURN_IF_ERROR(NoteSize(param.shape[i].text, absl::StrCat(shape[i]), param.info.name));
    }
  }
  return absl::OkStatus();
}

// Compares a size of an annotation with the one that was given; keeps those of run time.
absl::Status Elaborator::CheckDimension(const std::string& what, const ir::Expr& size,
                                        int64_t given, SourceLoc loc) {
  if (const auto literal = ir::ConstInt(size)) {
    if (*literal == given) return absl::OkStatus();
    return Error(loc, absl::StrCat(what, " is ", *literal, ", and the argument has ", given),
                 "give a tensor that fits the annotation");
  }
  const auto* var = size.As<ir::Var>();
  if (var == nullptr || !dims_.contains(var->name)) return absl::OkStatus();
  const auto [it, fresh] = interface_.runtime.emplace(var->name, given);
  if (it->second == given) return absl::OkStatus();
  return Error(loc,
               absl::StrCat(what, " is '", var->name, "', which is ", it->second,
                            " in an earlier tensor and ", given, " in this one"),
               "give tensors whose shared sizes are equal");
}

absl::Status Elaborator::CheckPlaceholder(const ast::Param& param, const ir::Buffer& buffer,
                                          bool own_dtype, SourceLoc loc) {
  const auto found = interface_.placeholders.find(param.name);
  if (found == interface_.placeholders.end()) return absl::OkStatus();
  const Placeholder& given = found->second;
  if (given.shape.size() != buffer->shape.size()) {
    return Error(loc,
                 absl::StrCat("'", param.name, "' has ", buffer->shape.size(),
                              " dimensions, and the argument has ", given.shape.size(), ": ",
                              Text(given.shape)),
                 "give a tensor that fits the annotation");
  }
  const std::string type = buffer->dtype.ToString();
  const bool byte = given.dtype == kInt8 || given.dtype == kUInt8;
  if (buffer->dtype.is_packed() && byte && !given.bytes) {
    return Error(loc,
                 absl::StrCat("'", param.name, "' is ", type, ", of which a byte holds two; the ",
                              "argument says ", given.dtype->ToString(), Text(given.shape)),
                 absl::StrCat("say its shape in elements: T.Tensor(shape, T.", type, ")"));
  }
  for (size_t i = 0; i < given.shape.size(); ++i) {
    const bool last = i + 1 == given.shape.size();
    KILN_RETURN_IF_ERROR(CheckDimension(
        absl::StrCat(
            "dimension ", i, " of '", param.name, "'",
            last && given.bytes ? absl::StrCat(", of ", type, ", of which a byte holds two,") : ""),
        buffer->shape[i], given.shape[i], loc));
  }
  const std::vector<int64_t> dense = DenseStrides(given.shape);
  const std::vector<int64_t>& strides = given.strides.empty() ? dense : given.strides;
  for (size_t i = 0; i < buffer->strides.size(); ++i) {
    KILN_RETURN_IF_ERROR(CheckDimension(absl::StrCat("stride ", i, " of '", param.name, "'"),
                                        buffer->strides[i], strides[i], loc));
  }
  if (buffer->strides.empty() && strides != dense) {
    return Error(loc,
                 absl::StrCat("'", param.name, "' is row-major, and the argument has the strides ",
                              Text(strides)),
                 "annotate it with T.StridedTensor[shape, strides, dtype]");
  }
  if (given.bytes) {
    interface_.notes.push_back(absl::StrCat("'", param.name, "' is ", type, Text(given.shape),
                                            " by its annotation; the argument is its bytes"));
  } else if (own_dtype && given.dtype.has_value() && *given.dtype != buffer->dtype) {
    interface_.notes.push_back(absl::StrCat("'", param.name, "' is ", buffer->dtype.ToString(),
                                            " by its annotation; the argument says ",
                                            given.dtype->ToString()));
  }
  return absl::OkStatus();
}

// Sizes of a tensor are told before the body runs: names that the body gave them are seen through.
ir::Expr Elaborator::OverSizes(ir::Expr size) const {
  constexpr int kMostNames = 64;
  for (int i = 0; i < kMostNames && InfoOf(size).size < 200; ++i) {
    ir::VarMap known;
    ir::Walk(size, [&](const ir::Expr& e) {
      const auto found = bound_.find(e.get());
      if (found != bound_.end()) known.emplace(e.get(), found->second);
      return true;
    });
    if (known.empty()) break;
    size = ir::Substitute(size, known);
  }
  return size;
}

absl::Status Elaborator::CheckShapes(const ir::Program& program) {
  const auto check = [&](const ir::Param& param, const ir::Expr& size) -> absl::Status {
    std::string name;
    ir::Walk(size, [&](const ir::Expr& e) {
      const auto* var = e.As<ir::Var>();
      const bool known =
          var == nullptr || tunables_.contains(var->name) ||
          std::any_of(dim_order_.begin(), dim_order_.end(),
                      [&](const ir::Expr& dim) { return dim.same_as(e); }) ||
          std::any_of(program.params.begin(), program.params.end(), [&](const ir::Param& p) {
            return p.kind == ir::Param::kScalar && p.scalar.same_as(e);
          });
      if (!known) name = var->name;
      return name.empty();
    });
    if (name.empty()) return absl::OkStatus();
    return Error(kernel_def_->name_loc,
                 absl::StrCat("the shape of '", param.name, "' depends on '", name,
                              "', which the kernel's body computes at run time"),
                 "say it by the sizes themselves, and divide by constants only");
  };
  for (const ir::Param& param : program.params) {
    if (param.kind != ir::Param::kTensor) continue;
    for (const ir::Expr& size : param.buffer->shape) KILN_RETURN_IF_ERROR(check(param, size));
    for (const ir::Expr& size : param.buffer->strides) KILN_RETURN_IF_ERROR(check(param, size));
  }
  return absl::OkStatus();
}

absl::Status Elaborator::CheckDimensionNames(const ir::Program& program) {
  for (const ir::Param& param : program.params) {
    const auto found = left_open_.find(param.name);
    if (found == left_open_.end()) continue;
    return Error(kernel_def_->name_loc,
                 absl::StrCat("the argument ", found->second, "=", DynamicArgument(param.name),
                              " has the name of the parameter '", param.name, "'"),
                 absl::StrCat("give the dimension another name, as in ",
                              DynamicArgument(absl::StrCat(param.name, "_size"))));
  }
  return absl::OkStatus();
}

ParamSignature* Elaborator::Seen(size_t slot) {
  if (interface_.signature == nullptr) return nullptr;
  return &interface_.signature->params[interface_.first_tensor + slot];
}

void Elaborator::Record(size_t slot, const ir::Buffer& buffer, bool own_dtype) {
  ParamSignature* const seen = Seen(slot);
  if (seen == nullptr) return;
  const auto dimension = [&](const ir::Expr& size) {
    Dimension d;
    const auto* var = size.As<ir::Var>();
    if (ir::ConstInt(size)) {
      d.kind = Dimension::kLiteral;
    } else if (var != nullptr && dims_.contains(var->name)) {
      d.kind = Dimension::kRuntime;
      d.type = size.dtype();
    } else {
      d.kind = var != nullptr ? Dimension::kConstant : Dimension::kComputed;
    }
    d.text = ir::ToString(size);
    return d;
  };
  ParamSignature& param = *seen;
  param.declared = true;
  param.strided = !buffer->strides.empty();
  for (const ir::Expr& size : buffer->shape) param.shape.push_back(dimension(size));
  for (const ir::Expr& stride : buffer->strides) param.strides.push_back(dimension(stride));
  if (own_dtype) param.dtype = buffer->dtype;
}

void Elaborator::GiveNothing() {
  static const Config& no_config = *std::make_unique<Config>().release();
  static const Arguments& no_arguments = *std::make_unique<Arguments>().release();
  arguments_ = &no_arguments;
  config_ = &no_config;
}

std::optional<std::string> Elaborator::DefaultText(ast::ExprPtr expr) {
  GiveNothing();
  Frame frame;
  frame.scope = arena_.New<Scope>();
  frame.module_index = frame.before = module_.EntryStatement();
  FrameGuard guard(this, &frame);
  const absl::StatusOr<Value> value = Eval(expr);
  if (!value.ok() || value->Is(Type::kList) || value->Is(Type::kFunction)) return std::nullopt;
  if (value->Is(Type::kStr) && !absl::StrContains(value->str(), '"')) {
    return absl::StrCat("\"", value->str(), "\"");
  }
  const absl::StatusOr<std::string> text = ArgumentText(*value, expr->loc);
  return text.ok() ? std::make_optional(*text) : std::nullopt;
}

absl::StatusOr<std::vector<Arguments>> Elaborator::Listed(absl::string_view name) {
  GiveNothing();
  Frame frame;
  frame.scope = arena_.New<Scope>();
  FrameGuard guard(this, &frame);
  const SourceLoc loc = module_.entry->name_loc;
  KILN_ASSIGN_OR_RETURN(Value value, ReadGlobal(name, loc, SIZE_MAX));
  if (value.Is(Type::kFunction)) {
    CallArgs call;
    call.loc = loc;
    KILN_ASSIGN_OR_RETURN(value, Call(value, call));
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, loc));
  std::vector<Arguments> sets;
  for (const Value& item : items) {
    if (!item.Is(Type::kDict)) {
      return Error(loc, absl::StrCat("'", name, "' holds ", Describe(item), ", not a dict"),
                   "list dicts of parameters and values");
    }
    Arguments arguments;
    for (const auto& [key, entry] : item.dict().items) {
      KILN_RETURN_IF_ERROR(Step(loc));
      KILN_ASSIGN_OR_RETURN(const std::string parameter,
                            ToStr(key, loc, "the name of a parameter"));
      KILN_ASSIGN_OR_RETURN(arguments[parameter], ArgumentText(entry, loc));
    }
    sets.push_back(std::move(arguments));
  }
  return sets;
}

absl::StatusOr<std::string> Elaborator::ArgumentText(const Value& v, SourceLoc loc) {
  const auto list = [&](const std::vector<Value>& items) -> absl::StatusOr<std::string> {
    std::vector<std::string> texts;
    for (const Value& item : items) {
      KILN_ASSIGN_OR_RETURN(std::string text, ArgumentText(item, loc));
      texts.push_back(std::move(text));
    }
    return absl::StrCat("(", absl::StrJoin(texts, ", "), texts.size() == 1 ? ",)" : ")");
  };
  switch (v.type()) {
    case Type::kNone:
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
    case Type::kDType:
    case Type::kStr:
      return Repr(v, kMaxArgumentText);
    case Type::kTuple:
    case Type::kList:
      return list(v.seq().items);
    case Type::kFunction:
      if (v.function().def != nullptr) return v.function().def->name;
      break;
    case Type::kTensorType: {
      const TensorTypeObject& type = v.tensor_type();
      KILN_ASSIGN_OR_RETURN(std::string text, list(type.shape));
      if (!type.strides.empty()) {
        KILN_ASSIGN_OR_RETURN(const std::string strides, list(type.strides));
        absl::StrAppend(&text, ", ", strides);
      }
      KILN_ASSIGN_OR_RETURN(const DType dtype, ToDType(type.dtype, loc));
      return absl::StrCat(type.name, "(", text, ", ", dtype.ToString(), ")");
    }
    default:
      break;
  }
  return Unimplemented(loc, absl::StrCat("an argument that is ", Describe(v)),
                       "arguments are numbers, bools, None, strings, dtypes, tuples, macros and "
                       "T.Tensor(shape, dtype)");
}

absl::StatusOr<Signature> ReadSignature(const Kernel& kernel, const Arguments& arguments,
                                        const TargetFacts& target) {
  Signature signature;
  signature.kernel = kernel.name();
  for (const ParamInfo& info : kernel.params()) {
    signature.params.emplace_back();
    signature.params.back().info = info;
  }
  std::vector<std::string> open;
  for (const std::string& name : kernel.consts()) {
    if (!arguments.contains(name) && !absl::EndsWith(name, "_dtype")) open.push_back(name);
  }
  const Limits limits;
  Elaborator elaborator(kernel.module(), limits, target);
  elaborator.interface().signature = &signature;
  const absl::Status status = elaborator.Run(kernel, arguments, {}, open).status();
  // A factory makes its tensors from its own parameters.
  const bool all_given =
      std::all_of(kernel.params().begin(), kernel.params().end(), [&](const ParamInfo& param) {
        return param.kind != ParamInfo::kCompileTime || param.has_default ||
               arguments.contains(param.name);
      });
  if (!status.ok() && !all_given) signature.params.resize(kernel.params().size());
  const bool complete = std::all_of(
      signature.params.begin(), signature.params.end(), [](const ParamSignature& param) {
        return param.info.kind != ParamInfo::kTensor || param.declared || param.pointer;
      });
  if (!complete && !status.ok()) return status;
  return signature;
}

std::string ToString(const Signature& signature) {
  const auto list = [](const std::vector<Dimension>& dimensions) {
    return absl::StrCat("[",
                        absl::StrJoin(dimensions, ", ",
                                      [](std::string* out, const Dimension& d) {
                                        absl::StrAppend(out, d.text,
                                                        d.kind == Dimension::kConstant  ? "$"
                                                        : d.kind == Dimension::kRuntime ? "$dyn"
                                                                                        : "");
                                      }),
                        "]");
  };
  std::vector<std::string> lines;
  for (const ParamSignature& param : signature.params) {
    const std::string& name = param.info.name;
    std::string text;
    if (param.pointer) {
      text = absl::StrCat(name, "$ptr");
    } else if (param.declared) {
      const std::string dtype =
          param.dtype.has_value() ? absl::StrCat("dtype('", param.dtype->ToString(), "')") : "None";
      text = absl::StrCat(
          param.strided ? "StridedTensorAnnot" : "TensorAnnot", "(shape=", list(param.shape),
          ", strides=", param.strided ? list(param.strides) : "None", ", dtype=", dtype, ")");
    } else {
      text = absl::StrCat(name, param.info.kind == ParamInfo::kCompileTime ? "$" : "$dyn");
    }
    lines.push_back(absl::StrCat("'", name, "': ", text));
  }
  return absl::StrCat("{", absl::StrJoin(lines, ",\n "), "}");
}

absl::StatusOr<ClosedArguments> CloseArguments(const Kernel& kernel, const Arguments& arguments,
                                               const Config& config, const TargetFacts& target,
                                               const Limits& limits) {
  ClosedArguments closed;
  for (const auto& [name, text] : arguments) {
    closed.arguments[name] = NormaliseArgument(name, text);
  }
  for (const ParamInfo& param : kernel.params()) {
    const auto given = closed.arguments.find(param.name);
    if (param.kind != ParamInfo::kRuntimeScalar || given == closed.arguments.end()) continue;
    closed.runtime[param.name] = given->second;
    closed.arguments.erase(given);
  }
  Elaborator elaborator(kernel.module(), limits, target);
  KILN_RETURN_IF_ERROR(elaborator.Run(kernel, closed.arguments, config, {}).status());
  const Interface& seen = elaborator.interface();
  for (const auto& placeholder : seen.placeholders) closed.arguments.erase(placeholder.first);
  for (const auto& [name, text] : seen.used) closed.arguments.emplace(name, text);
  for (const auto& [name, value] : seen.runtime) {
    closed.runtime.emplace(name, absl::StrCat(value));
  }
  closed.notes = seen.notes;
  return closed;
}

absl::StatusOr<std::vector<Arguments>> ListedArguments(const Kernel& kernel, absl::string_view name,
                                                       const TargetFacts& target,
                                                       const Limits& limits) {
  Elaborator elaborator(kernel.module(), limits, target);
  return elaborator.Listed(name);
}

}  // namespace kiln::lang
