// From the entry function to a Program: arguments in, parameters, outputs and sizes out.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/iteration_tiles.h"
#include "compiler/ir/overlap.h"
#include "compiler/ir/packed.h"
#include "compiler/ir/threads.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/barrier_order.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/decorators.h"
#include "compiler/lang/parser.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/suggest.h"
#include "compiler/lang/tables.h"

namespace kiln::lang {
namespace {

constexpr char kConfigOrigin[] = "the config";

const std::string* FindText(const Config& config, const Arguments& arguments,
                            const std::string& name, const char** origin) {
  if (const std::string* text = config.Find(name)) {
    *origin = kConfigOrigin;
    return text;
  }
  const auto it = arguments.find(name);
  if (it == arguments.end()) return nullptr;
  *origin = "an argument";
  return &it->second;
}

}  // namespace

absl::Status Elaborator::CheckNames(const Kernel& kernel) {
  auto check = [&](const std::string& name, absl::string_view where) -> absl::Status {
    std::vector<std::string> known = kernel.consts();
    if (interface_.placeholders.contains(name)) return absl::OkStatus();
    for (const ParamInfo& param : kernel.params()) {
      if (param.kind == ParamInfo::kCompileTime) known.push_back(param.name);
      if (param.name != name || param.kind == ParamInfo::kCompileTime) continue;
      return Error(param.loc,
                   absl::StrCat("'", name, "' of ", where, " is a ",
                                param.kind == ParamInfo::kTensor ? "tensor" : "run-time scalar",
                                ", which gets its value when the kernel runs"),
                   param.kind == ParamInfo::kTensor
                       ? "leave it out, or say its shape: T.Tensor((1024, 512), T.float16)"
                       : "leave it out");
    }
    if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
    const std::string listed = known.empty()
                                   ? "it has no compile-time parameters"
                                   : absl::StrCat("its parameters: ", absl::StrJoin(known, ", "));
    const std::string near = Nearest(name, known);
    return Error(module_.entry->name_loc,
                 absl::StrCat("'", kernel.name(), "' has no parameter '", name, "', which ", where,
                              where == "the arguments" ? " give" : " gives"),
                 near.empty() ? listed : absl::StrCat("did you mean '", near, "'? ", listed));
  };
  for (const auto& [name, text] : config_->values()) {
    if (!IsOptionName(name)) {
      KILN_RETURN_IF_ERROR(check(name, "the config"));
      continue;
    }
    PassOptionValue value = ReadPassOption(name, text);
    if (value.fault.empty()) continue;
    return Error(module_.entry->name_loc, absl::StrCat(value.fault, ", as the config says"),
                 std::move(value.remedy));
  }
  for (const auto& entry : *arguments_) {
    KILN_RETURN_IF_ERROR(check(entry.first, "the arguments"));
  }
  for (const std::string& name : open_) {
    KILN_RETURN_IF_ERROR(check(name, "the list of open tunables"));
    tunables_.emplace(name, ir::MakeVar(name));
  }
  return absl::OkStatus();
}

namespace {

constexpr size_t kMaxParams = 127;  // C11 section 5.2.4.1

}  // namespace

absl::StatusOr<Value> Elaborator::LeaveToRunTime(absl::string_view name,
                                                 const std::string& dimension, const char* origin) {
  if (origin != nullptr && absl::string_view(origin) == kConfigOrigin) {
    return Error(module_.entry->name_loc,
                 absl::StrCat("'", name, "' of the config is ", DynamicArgument(dimension)),
                 "a config gives constants; a size that is left to run time is an argument");
  }
  KILN_ASSIGN_OR_RETURN(Value size, DynamicSize(dimension, kInt32, module_.entry->name_loc));
  left_open_.emplace(dimension, name);
  return size;
}

absl::StatusOr<Value> Elaborator::ParseArgument(absl::string_view name, const std::string& text,
                                                const char* origin) {
  KILN_ASSIGN_OR_RETURN(const std::string dimension, DimensionOf(name, text));
  if (!dimension.empty()) return LeaveToRunTime(name, dimension, origin);
  auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", name, "=", text.substr(0, 80), ": ", why,
                     "\n  help: write an integer, a float, True, False, None, a quoted string, a "
                     "dtype such as float16, or a tuple of these"));
  };
  if (text.size() > kMaxArgumentText) return bad("the text is too long");
  auto file = std::make_unique<SourceFile>();
  file->path = absl::StrCat("<argument ", name, ">");
  file->text = text;
  Limits limits = limits_;
  limits.depth = 20;
  const absl::StatusOr<ast::ExprPtr> parsed = ParseExpression(*file, limits, &argument_tree_);
  argument_files_.push_back(std::move(file));
  if (!parsed.ok()) {
    return bad(absl::StrContains(text, '=') ? "it is no literal; each NAME=VALUE is given apart"
                                            : "it is no literal");
  }
  struct Reader {
    Elaborator* e;
    absl::StatusOr<Value> Read(ast::ExprPtr expr) {
      if (const auto* constant = expr->As<ast::Constant>()) return e->EvalConstant(*constant);
      if (const auto* id = expr->As<ast::Name>()) {
        if (const auto type = ParseDType(id->id)) return Value::OfDType(*type);
        // In the kernel file, or in the one that the entry comes from.
        const SourceSection& own = e->module_.SectionAt(e->module_.entry->loc);
        const auto& globals = e->module_.sections[0].globals;
        for (const SourceSection* file : {&e->module_.sections[0], &own}) {
          if (!file->globals.contains(id->id)) continue;
          return e->ReadGlobalOf(*file, id->id, id->loc, SIZE_MAX);
        }
        std::vector<std::string> known = {"float32", "float16", "bfloat16",
                                          "int32",   "None",    "True"};
        for (const auto& global : globals) known.emplace_back(global.first);
        std::sort(known.begin(), known.end());
        const std::string near = DidYouMean(id->id, known, "");
        return absl::InvalidArgumentError(
            absl::StrCat("unknown name '", id->id, near.empty() ? "'" : "'; ", near));
      }
      if (const auto* attribute = expr->As<ast::Attribute>()) return ReadMember(*attribute);
      if (const auto* unary = expr->As<ast::Unary>()) {
        KILN_ASSIGN_OR_RETURN(const Value v, Read(unary->operand));
        return e->UnaryOp(unary->op, v, {});
      }
      if (const auto* call = expr->As<ast::Call>()) return ReadTensor(*call);
      const bool tuple = expr->kind == ast::ExprKind::kTuple;
      if (!tuple && expr->kind != ast::ExprKind::kList) {
        return absl::InvalidArgumentError("not a literal");
      }
      std::vector<Value> items;
      for (ast::ExprPtr item :
           tuple ? expr->As<ast::Tuple>()->items : expr->As<ast::List>()->items) {
        KILN_ASSIGN_OR_RETURN(const Value v, Read(item));
        items.push_back(v);
      }
      return tuple ? e->NewTuple(std::move(items)) : e->NewList(std::move(items));
    }
    // T.float16, T.GemmWarpPolicy.Square, and what names of the kernel file have.
    absl::StatusOr<Value> ReadMember(const ast::Attribute& attribute) {
      absl::StatusOr<Value> known = MemberArgument(attribute);
      if (known.ok()) return known;
      KILN_ASSIGN_OR_RETURN(const Value owner, Read(attribute.value));
      absl::StatusOr<Value> member = e->GetAttribute(owner, attribute.attr, {});
      if (member.ok()) return member;
      const auto d = DiagnosticOf(member.status());
      return absl::InvalidArgumentError(
          d ? absl::StrCat(d->message, d->remedy.empty() ? "" : "; ", d->remedy)
            : member.status().message());
    }
    // T.Tensor(shape, dtype) and T.StridedTensor(shape, strides, dtype).
    absl::StatusOr<Value> ReadTensor(const ast::Call& call) {
      absl::string_view word;
      if (const auto* attribute = call.callee->As<ast::Attribute>()) word = attribute->attr;
      if (const auto* id = call.callee->As<ast::Name>()) word = id->id;
      const bool strided = word == "StridedTensor";
      const size_t most = strided ? 3 : 2;
      if (!strided && word != "Tensor") return absl::InvalidArgumentError("not a literal");
      if (call.args.empty() || call.args.size() > most || !call.keywords.empty()) {
        return absl::InvalidArgumentError("write T.Tensor((1024, 512), T.float16)");
      }
      std::vector<Value> parts;
      for (ast::ExprPtr part : call.args) {
        KILN_ASSIGN_OR_RETURN(const Value v, Read(part));
        parts.push_back(v);
      }
      auto* type = e->arena_.New<TensorTypeObject>();
      KILN_ASSIGN_OR_RETURN(
          type->shape, e->ToItems(parts[0].is_integer() ? e->NewTuple({parts[0]}) : parts[0], {},
                                  "the shape of a tensor"));
      if (strided && parts.size() > 1) {
        KILN_ASSIGN_OR_RETURN(type->strides, e->ToItems(parts[1], {}, "the strides of a tensor"));
      }
      if (parts.size() == most) type->dtype = parts.back();
      return Value::Of(Type::kTensorType, type);
    }
  };
  Frame frame;
  frame.scope = arena_.New<Scope>();
  FrameGuard guard(this, &frame);
  absl::StatusOr<Value> value = Reader{this}.Read(*parsed);
  if (!value.ok()) {
    return DiagnosticOf(value.status()).has_value() ? value.status()
                                                    : bad(value.status().message());
  }
  return value;
}

absl::Status Elaborator::BindArguments(const Kernel& kernel, const ast::Function& function,
                                       Scope* scope,
                                       const absl::flat_hash_set<absl::string_view>* only) {
  const bool own = &function == module_.entry;
  const std::vector<ast::Param>& params = function.params;
  const auto compile_time = [&](const ast::Param& param) {
    const auto& known = kernel.params();
    const auto info = std::find_if(known.begin(), known.end(),
                                   [&](const ParamInfo& p) { return p.name == param.name; });
    return info == known.end() || info->kind == ParamInfo::kCompileTime;
  };
  for (size_t i = 0; i < params.size(); ++i) {
    const ast::Param& param = params[i];
    if (only != nullptr && !only->contains(param.name)) continue;
    Binding binding;
    binding.loc = param.loc;
    if (module_.IsSelf(function, i)) {
      KILN_ASSIGN_OR_RETURN(binding.value, Classes(this).OfEntry(function));
      scope->names.insert_or_assign(param.name, binding);
      continue;
    }
    if (own && !compile_time(param)) {
      auto* unknown = arena_.New<UnknownObject>();
      unknown->path = param.name;
      unknown->reason = "the tensor is used before its annotation gives it a shape";
      binding.value = Value::Of(Type::kUnknown, unknown);
      scope->names.insert_or_assign(param.name, binding);
      continue;
    }
    const auto open = tunables_.find(param.name);
    if (open != tunables_.end()) {
      ExprInfo info;
      info.flags = ExprInfo::kOpen;
      KILN_ASSIGN_OR_RETURN(binding.value, NewExpr(open->second, info, param.loc));
    } else if (const std::string* text =
                   FindText(*config_, *arguments_, param.name, &binding.origin)) {
      KILN_ASSIGN_OR_RETURN(binding.value, ParseArgument(param.name, *text, binding.origin));
    } else if (param.kind == ast::ParamKind::kVarArgs) {
      binding.value = NewTuple({});
    } else if (param.kind == ast::ParamKind::kVarKeywords) {
      binding.value = Value::Of(Type::kDict, arena_.New<DictObject>());
    } else if (param.default_value != nullptr) {
      frame_->module_index = frame_->before = module_.EntryStatement();
      KILN_ASSIGN_OR_RETURN(binding.value, Eval(param.default_value));
      frame_->module_index = frame_->before = SIZE_MAX;
      binding.origin = "its default";
    } else if (interface_.signature != nullptr) {
      auto* unknown = arena_.New<UnknownObject>();
      unknown->path = param.name;
      unknown->reason = "it has no value yet";
      binding.value = Value::Of(Type::kUnknown, unknown);
    } else {
      std::vector<std::string> missing;
      for (size_t j = i; j < params.size(); ++j) {
        const ast::Param& other = params[j];
        const char* unused = nullptr;
        if (other.kind != ast::ParamKind::kVarArgs && other.kind != ast::ParamKind::kVarKeywords &&
            other.default_value == nullptr && !module_.IsSelf(function, j) &&
            (!own || compile_time(other)) && !tunables_.contains(other.name) &&
            FindText(*config_, *arguments_, other.name, &unused) == nullptr) {
          missing.push_back(other.name);
        }
      }
      return Error(param.loc,
                   absl::StrCat(missing.size() > 1 ? "parameters '" : "parameter '",
                                absl::StrJoin(missing, "', '"), "' of '", function.name,
                                missing.size() > 1 ? "' have no values" : "' has no value"),
                   GiveArguments(missing));
    }
    scope->names.insert_or_assign(param.name, binding);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::ConstSize(absl::string_view name, SourceLoc loc) {
  const std::string key(name);
  const auto open = tunables_.find(key);
  if (open != tunables_.end()) {
    ExprInfo info;
    info.flags = ExprInfo::kOpen;
    return NewExpr(open->second, info, loc);
  }
  const char* origin = nullptr;
  const std::string* text = FindText(*config_, *arguments_, key, &origin);
  const auto implied = interface_.sizes.find(key);
  if (text == nullptr && implied != interface_.sizes.end()) {
    text = &interface_.used.emplace(key, implied->second.text).first->second;
  }
  if (text == nullptr) {
    return Error(loc, absl::StrCat("the size '", name, "' has no value"), GiveSize(name));
  }
  KILN_ASSIGN_OR_RETURN(const Value value, ParseArgument(name, *text, origin));
  if (value.Is(Type::kDType) || value.Is(Type::kExpr)) return value;
  if (!value.is_integer() || value.int_value() < 1 || value.Is(Type::kBool)) {
    return Error(loc, absl::StrCat("the size '", name, "' is ", Repr(value)),
                 "a size is an integer of at least 1");
  }
  return value;
}

absl::StatusOr<Value> Elaborator::DynamicSize(absl::string_view name, DType type, SourceLoc loc) {
  if (!type.is_int() || type.bits < 32) {
    return Error(loc, absl::StrCat("the run-time size '", name, "' of type ", type.ToString()),
                 "use int32 or int64");
  }
  auto [it, inserted] = dims_.try_emplace(std::string(name));
  if (inserted) {
    it->second = ir::MakeVar(std::string(name), type.bits == 64 ? kInt64 : kInt32);
    dim_order_.push_back(it->second);
  }
  ExprInfo info;
  info.flags = ExprInfo::kRuntime;
  return NewExpr(it->second, info, loc);
}

absl::StatusOr<std::vector<ir::Expr>> Elaborator::TensorShape(const TensorTypeObject& type,
                                                              const std::vector<Value>& items,
                                                              const ast::Param& param,
                                                              const char* part, SourceLoc loc) {
  std::vector<ir::Expr> shape;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    const std::string name = absl::StrCat(param.name, part, i);
    if (item.Is(Type::kTypeName) || item.is_none()) {
      KILN_ASSIGN_OR_RETURN(item, ConstSize(name, loc));
    } else if (item.Is(Type::kBuiltin) && absl::string_view(item.builtin()->name) == "T.dyn") {
      KILN_ASSIGN_OR_RETURN(item, DynamicSize(name, kInt32, loc));
    }
    KILN_ASSIGN_OR_RETURN(const Operand extent,
                          ToIndex(item, loc, absl::StrCat("dimension ", i, " of ", type.name)));
    shape.push_back(OverSizes(extent.e));
  }
  return shape;
}

absl::Status Elaborator::DeclareParam(size_t slot, const ast::Param& param, const Value& annotation,
                                      SourceLoc loc, Scope* scope) {
  if (slots_[slot].has_value()) {
    return Error(loc, absl::StrCat("parameter '", param.name, "' is annotated twice"),
                 "keep one annotation");
  }
  Binding binding;
  binding.loc = param.loc;
  ir::Param result;
  result.name = param.name;
  if (annotation.Is(Type::kTensorType)) {
    const TensorTypeObject& type = annotation.tensor_type();
    KILN_ASSIGN_OR_RETURN(std::vector<ir::Expr> shape,
                          TensorShape(type, type.shape, param, "_shape_", loc));
    std::vector<ir::Expr> strides;
    if (!type.strides.empty()) {
      KILN_ASSIGN_OR_RETURN(strides, TensorShape(type, type.strides, param, "_stride_", loc));
      if (strides.size() != shape.size()) {
        return Error(loc, "T.StridedTensor needs one stride for each dimension",
                     "give as many strides as dimensions");
      }
    }
    if (absl::string_view(type.name) != "T.Tensor" && type.strides.empty()) {
      return Error(loc, absl::StrCat("the parameter '", param.name, "' is a ", type.name),
                   "a tile belongs to a block: annotate the parameters of a kernel with T.Tensor");
    }
    if (IsTable(type)) {
      KILN_ASSIGN_OR_RETURN(handles_[slot], DeclareTable(*this, param.name, type, shape, loc));
      if (ParamSignature* seen = Seen(slot)) seen->pointer = true;
      binding.value = handles_[slot];
      scope->names.insert_or_assign(param.name, binding);
      return absl::OkStatus();
    }
    Value dtype_value = type.dtype;
    const bool placeholder =
        dtype_value.is_none() ||
        (dtype_value.Is(Type::kTypeName) && absl::string_view(dtype_value.type_name()) == "Any");
    const std::string dtype_name = absl::StrCat(param.name, "_dtype");
    const bool left_open = placeholder && interface_.signature != nullptr &&
                           !arguments_->contains(dtype_name) &&
                           !interface_.sizes.contains(dtype_name);
    if (left_open) {
      dtype_value = Value::OfDType(kFloat32);
    } else if (placeholder) {
      KILN_ASSIGN_OR_RETURN(dtype_value, ConstSize(dtype_name, loc));
    }
    KILN_ASSIGN_OR_RETURN(const DType dtype, ToDType(dtype_value, loc));
    name_hint_ = param.name;
    KILN_ASSIGN_OR_RETURN(result.buffer, NewNamedBuffer(dtype, std::move(shape), ir::Scope::kGlobal,
                                                        loc, std::move(strides)));
    name_hint_ = {};
    KILN_RETURN_IF_ERROR(CheckPlaceholder(param, result.buffer, !placeholder, loc));
    Record(slot, result.buffer, !left_open);
    binding.value = NewBuffer(result.buffer);
  } else if (annotation.Is(Type::kDType) && annotation.dtype().code == TypeCode::kHandle) {
    auto* handle = arena_.New<UnknownObject>();
    handle->path = param.name;
    handle->reason = "a handle has no shape before T.match_buffer";
    handle->remedy = absl::StrCat("write ", param.name, " = T.match_buffer(", param.name,
                                  ", (M, N), dtype) before the T.Kernel block");
    binding.value = Value::Of(Type::kUnknown, handle);
    handles_[slot] = binding.value;
    if (ParamSignature* seen = Seen(slot)) seen->pointer = true;
    scope->names.insert_or_assign(param.name, binding);
    return absl::OkStatus();
  } else if (annotation.Is(Type::kDType) || annotation.Is(Type::kTypeName)) {
    KILN_ASSIGN_OR_RETURN(const DType type, ToDType(annotation, loc));
    if (type.is_packed()) {
      return Unimplemented(loc, absl::StrCat("a scalar parameter of ", type.ToString()),
                           "pass int32 or float32, and convert it");
    }
    result.kind = ir::Param::kScalar;
    result.scalar = VarNamed(param.name, type);
    if (ParamSignature* seen = Seen(slot)) seen->dtype = type;
    ExprInfo info;
    info.flags = ExprInfo::kRuntime;
    KILN_ASSIGN_OR_RETURN(binding.value, NewExpr(result.scalar, info, loc));
  } else {
    return Error(loc,
                 absl::StrCat("the annotation of '", param.name, "' is ", Describe(annotation)),
                 "annotate it with T.Tensor(shape, dtype) or a dtype such as T.int32");
  }
  slots_[slot] = std::move(result);
  scope->names.insert_or_assign(param.name, binding);
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::EagerAnnotation(ast::ExprPtr annotation) {
  KILN_ASSIGN_OR_RETURN(const Value value, Eval(annotation));
  // `A: T.Tensor` alone is a name, not a shape.
  if (value.Is(Type::kBuiltin)) {
    return Error(annotation->loc, absl::StrCat(value.builtin()->name, " without a shape"),
                 "write T.Tensor((M, N), dtype)");
  }
  return value;
}

absl::StatusOr<Value> Elaborator::NewOutput(std::vector<ir::Expr> shape, DType dtype,
                                            SourceLoc loc) {
  if (regions_.size() != 1 || frame_ == nullptr || !frame_->traced) {
    return Error(loc, "T.empty makes an output of the kernel and stands before its T.Kernel block",
                 "use T.alloc_global for a workspace, T.alloc_fragment for a tile");
  }
  if (!frame_->is_entry) {
    return Error(loc, "T.empty in a macro", "make the output in the kernel and pass it");
  }
  for (ir::Expr& size : shape) size = OverSizes(size);
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer buffer,
      NewNamedBuffer(dtype, std::move(shape), ir::Scope::kGlobal, loc, {}, "out"));
  ir::Param param;
  param.name = buffer->name;
  param.buffer = buffer;
  param.is_output = true;
  outputs_.push_back(std::move(param));
  return NewBuffer(buffer);
}

absl::Status Elaborator::CheckReturn(const Frame& frame) {
  std::vector<Value> returned;
  if (frame.result.is_sequence()) {
    returned = frame.result.seq().items;
  } else if (!frame.result.is_none()) {
    returned.push_back(frame.result);
  }
  const SourceLoc loc = frame.returned ? frame.result_loc : kernel_def_->name_loc;
  for (const Value& value : returned) {
    const bool output = value.Is(Type::kBuffer) &&
                        std::any_of(outputs_.begin(), outputs_.end(), [&](const ir::Param& p) {
                          return p.buffer == value.buffer().buffer;
                        });
    if (!output) {
      return Error(loc,
                   absl::StrCat("a kernel returns tensors made by T.empty, not ", Describe(value)),
                   "make the output with T.empty(shape, dtype)");
    }
  }
  for (const ir::Param& output : outputs_) {
    const auto count = std::count_if(returned.begin(), returned.end(), [&](const Value& v) {
      return v.buffer().buffer == output.buffer;
    });
    if (count == 1) continue;
    const char* how = count == 0 ? "' is not returned" : "' is returned more than once";
    return Error(loc, absl::StrCat("the output '", output.name, how),
                 "return each tensor made by T.empty once");
  }
  return absl::OkStatus();
}

absl::Status Elaborator::MarkOutputs(const JitOptions& options, SourceLoc loc) {
  if (!options.has_out_idx) return absl::OkStatus();
  if (!outputs_.empty()) {
    return Error(loc, "both out_idx and T.empty name outputs", "use one of them");
  }
  const int64_t count = static_cast<int64_t>(slots_.size());
  for (int64_t index : options.out_idx) {
    const int64_t i = index < 0 ? index + count : index;
    if (i < 0 || i >= count) {
      return Error(loc,
                   absl::StrCat("out_idx ", index, " is out of range: the kernel has ", count,
                                " parameters"),
                   "name a parameter by its position");
    }
    if (!slots_[i].has_value() || slots_[i]->kind != ir::Param::kTensor) {
      return Error(loc,
                   absl::StrCat("out_idx ", index, " names '", kernel_def_->params[i].name,
                                "', which is no tensor"),
                   "outputs are tensors");
    }
    slots_[i]->is_output = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<ir::Program> Elaborator::Finish(const std::string& name, const JitOptions& options) {
  KILN_RETURN_IF_ERROR(MarkOutputs(options, kernel_def_->name_loc));
  ir::Program program;
  program.name = name;
  program.source = module_.file;
  ir::Stmt body = ir::MakeSeq(PopRegion(), kernel_def_->loc);
  std::vector<ir::Expr> open;
  for (const auto& tunable : tunables_) open.push_back(tunable.second);
  const ir::PackedInput packed{open, launch_.indices, module_.file.get()};
  std::vector<ir::Param*> tensors;
  for (auto& slot : slots_) {
    if (slot.has_value()) tensors.push_back(&*slot);
  }
  for (ir::Param& output : outputs_) tensors.push_back(&output);
  std::vector<ir::Expr> even;
  KILN_RETURN_IF_ERROR(ir::ResolvePacked(packed, &body, std::move(tensors), &views_, &even));
  for (const ir::Expr& tunable : even) {
    constraints_.push_back(ir::Equal(ir::FloorMod(tunable, ir::MakeInt(2)), ir::MakeInt(0)));
  }
  KILN_ASSIGN_OR_RETURN(program.body, ir::ResolveReducers(body, reducers_, open, *module_.file));
  // Before views become loops, and once more where views were two names of one memory.
  KILN_ASSIGN_OR_RETURN(program.body, ir::StageOverlaps(program.body, open, *module_.file));
  KILN_ASSIGN_OR_RETURN(program.body, ir::ResolveViews(program.body, views_, *module_.file));
  KILN_ASSIGN_OR_RETURN(program.body, ir::StageOverlaps(program.body, open, *module_.file));
  KILN_ASSIGN_OR_RETURN(program.body,
                        ir::ResolveThreads(program.body, launch_.indices, *module_.file));
  KILN_ASSIGN_OR_RETURN(program.body, ir::GiveIterationsTheirOwn(program.body, *module_.file));
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].has_value()) {
      program.params.push_back(std::move(*slots_[i]));
    } else if (!handles_[i].is_none()) {
      return Error(
          kernel_def_->params[i].loc,
          absl::StrCat("the handle '", kernel_def_->params[i].name, "' never gets a shape"),
          "give it one with T.match_buffer or T.make_tensor");
    }
  }
  for (ir::Param& output : outputs_) program.params.push_back(std::move(output));
  KILN_RETURN_IF_ERROR(CheckDimensionNames(program));
  bool launches = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    launches = launches || s.As<ir::Launch>();
    return !launches;
  });
  if (!launches) {
    return Error(kernel_def_->name_loc,
                 absl::StrCat("'", kernel_def_->name, "' has no T.Kernel block"),
                 "put the computation under `with T.Kernel(...) as ...:`");
  }
  for (const ir::Expr& dim : dim_order_) {
    bool used = ir::Uses(program.body, dim);
    for (const ir::Param& param : program.params) {
      if (used || param.kind != ir::Param::kTensor) continue;
      for (const ir::Expr& extent : param.buffer->shape) used = used || ir::Uses(extent, dim);
      for (const ir::Expr& stride : param.buffer->strides) used = used || ir::Uses(stride, dim);
    }
    if (used) program.dims.push_back(dim);
  }
  for (const auto& [key, value] : annotated_.attrs) program.attrs[key] = value;
  for (const auto& [key, value] : options.attrs) program.attrs[key] = value;
  for (const auto& [key, value] : config_->values()) {
    if (IsOptionName(key)) program.attrs[key] = ReadPassOption(key, value).text;
  }
  AlignTables(&program);
  if (tunables_.empty()) {
    KILN_ASSIGN_OR_RETURN(program.body, OrderBarriers(program, target().cluster));
  } else {
    KILN_ASSIGN_OR_RETURN(program.body, WithoutOrder(program));
  }
  if (tunables_.empty()) {
    KILN_RETURN_IF_ERROR(CheckShapes(program));
    const absl::Status verified = ir::Verify(program);
    if (!verified.ok()) return WithContext(verified, "elaboration made an invalid program");
  }
  return program;
}

absl::Status Elaborator::SetKernel(const ast::Function* def) {
  if (def->params.size() > kMaxParams) {
    return Error(def->params[kMaxParams].loc,
                 absl::StrCat("a kernel of ", def->params.size(), " parameters; C calls functions ",
                              "of up to ", kMaxParams),
                 "put some of them in one tensor");
  }
  kernel_def_ = def;
  if (interface_.signature != nullptr && def != module_.entry) {  // of a factory: the kernel's own
    interface_.first_tensor = interface_.signature->params.size();
    for (const ast::Param& param : def->params) {
      interface_.signature->params.emplace_back();
      ParamInfo& info = interface_.signature->params.back().info;
      info.name = param.name;
      info.loc = param.loc;
      const bool tensor = KindOfAnnotation(param.annotation) == AnnotationKind::kTensor;
      info.kind = tensor ? ParamInfo::kTensor : ParamInfo::kRuntimeScalar;
    }
  }
  slots_.resize(def->params.size());
  handles_.resize(def->params.size());
  return absl::OkStatus();
}

absl::StatusOr<ir::Program> Elaborator::RunPrimFunc(const Value& prim_func, const std::string& name,
                                                    const JitOptions& options) {
  const FunctionObject& function = prim_func.function();
  KILN_RETURN_IF_ERROR(SetKernel(function.def));
  Scope* scope = arena_.New<Scope>();
  scope->parent = function.closure;
  scope->function = function.def;
  PushRegion(RegionKind::kRoot, function.def->loc);
  regions_.back().stmts = std::move(checks_);
  Frame frame;
  frame.name = function.def->name;
  frame.scope = scope;
  frame.is_entry = true;
  FrameGuard guard(this, &frame);
  frame.region_base = 0;
  for (size_t i = 0; i < function.def->params.size(); ++i) {
    const ast::Param& param = function.def->params[i];
    if (param.annotation == nullptr) {
      return Error(param.loc, absl::StrCat("parameter '", param.name, "' has no annotation"),
                   "annotate it with T.Tensor(shape, dtype) or a dtype such as T.int32");
    }
    ScopeGuard outer(&frame, function.closure != nullptr ? function.closure : scope);
    KILN_ASSIGN_OR_RETURN(const Value annotation, EagerAnnotation(param.annotation));
    KILN_RETURN_IF_ERROR(DeclareParam(i, param, annotation, param.annotation->loc, scope));
  }
  frame.traced = true;
  KILN_RETURN_IF_ERROR(ExecBlock(function.def->body).status());
  KILN_RETURN_IF_ERROR(CheckReturn(frame));
  return Finish(name, options);
}

absl::StatusOr<ir::Program> Elaborator::RunEager(const Kernel& kernel) {
  KILN_ASSIGN_OR_RETURN(const JitOptions options, Decorators(this).OfEntry());
  if (options.has_out_idx) {
    return Error(module_.entry->name_loc,
                 "out_idx on a kernel that declares its outputs with T.empty", "drop out_idx");
  }
  KILN_RETURN_IF_ERROR(SetKernel(module_.entry));
  Scope* scope = arena_.New<Scope>();
  scope->parent = around_;
  scope->function = kernel_def_;
  KILN_RETURN_IF_ERROR(BindArguments(kernel, *kernel_def_, scope, nullptr));
  PushRegion(RegionKind::kRoot, kernel_def_->loc);
  regions_.back().stmts = std::move(checks_);
  Frame frame;
  frame.name = kernel_def_->name;
  frame.scope = scope;
  frame.is_entry = true;
  FrameGuard guard(this, &frame);
  frame.region_base = 0;
  for (size_t i = 0; i < kernel_def_->params.size(); ++i) {
    const ast::Param& param = kernel_def_->params[i];
    const AnnotationKind kind = KindOfAnnotation(param.annotation);
    if (kind != AnnotationKind::kTensor && kind != AnnotationKind::kScalar) continue;
    KILN_ASSIGN_OR_RETURN(const Value annotation, EagerAnnotation(param.annotation));
    KILN_RETURN_IF_ERROR(DeclareParam(i, param, annotation, param.annotation->loc, scope));
  }
  frame.traced = true;
  KILN_RETURN_IF_ERROR(ExecBlock(kernel_def_->body).status());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool runtime = kernel.params()[i].kind != ParamInfo::kCompileTime;
    if (runtime && !slots_[i].has_value() && !handles_[i].Is(Type::kUnknown)) {
      return Error(
          kernel_def_->params[i].loc,
          absl::StrCat("the annotation of '", kernel_def_->params[i].name, "' was not reached"),
          "annotate tensors on every path, directly in the kernel's body");
    }
  }
  KILN_RETURN_IF_ERROR(CheckReturn(frame));
  return Finish(kernel.name(), options);
}

absl::StatusOr<ir::Program> Elaborator::RunFactory(const Kernel& kernel) {
  const ast::Function& entry = *module_.entry;
  KILN_ASSIGN_OR_RETURN(JitOptions options, Decorators(this).OfEntry());
  Scope* scope = arena_.New<Scope>();
  scope->parent = around_;
  scope->function = &entry;
  KILN_RETURN_IF_ERROR(BindArguments(kernel, entry, scope, nullptr));
  Value result;
  {
    Frame frame;
    frame.name = entry.name;
    frame.scope = scope;
    frame.is_entry = true;
    FrameGuard guard(this, &frame);
    KILN_RETURN_IF_ERROR(ExecBlock(entry.body).status());
    result = frame.result;
  }
  if (!result.Is(Type::kFunction) || result.function().kind != FunctionKind::kPrimFunc) {
    return Error(
        entry.name_loc,
        absl::StrCat("'", entry.name, "' returned ", Describe(result), " instead of a kernel"),
        "return the function under @T.prim_func, or use the eager style with T.empty");
  }
  if (!options.has_out_idx && options.attrs.empty()) options = result.function().jit;
  return RunPrimFunc(result, kernel.name(), options);
}

absl::StatusOr<ir::Program> Elaborator::Run(const Kernel& kernel, const Arguments& arguments,
                                            const Config& config,
                                            const std::vector<std::string>& open) {
  arguments_ = &arguments;
  config_ = &config;
  open_ = open;
  Frame frame;  // evaluates decorators and defaults
  frame.scope = arena_.New<Scope>();
  FrameGuard guard(this, &frame);
  KILN_RETURN_IF_ERROR(ReadPlaceholders(kernel));
  KILN_RETURN_IF_ERROR(CheckNames(kernel));
  KILN_RETURN_IF_ERROR(RunAround(kernel));
  ScopeGuard around(&frame, around_ != nullptr ? around_ : frame.scope);
  switch (module_.style) {
    case EntryStyle::kEager:
      return RunEager(kernel);
    case EntryStyle::kFactory:
      return RunFactory(kernel);
    case EntryStyle::kPrimFunc:
      break;
  }
  KILN_ASSIGN_OR_RETURN(Value prim_func, MakeFunction(*module_.entry));
  prim_func.function().closure = around_;
  return RunPrimFunc(prim_func, kernel.name(), prim_func.function().jit);
}

}  // namespace kiln::lang
