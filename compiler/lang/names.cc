// Names: scopes, the module's late-bound globals, and the rules that keep a name's meaning clear
// when statements become run-time branches and loops.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/ast_walk.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/imports.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/suggest.h"
#include "compiler/lang/touches.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 48;  // of a buffer

const char* RegionNoun(RegionKind kind) {
  switch (kind) {
    case RegionKind::kBranch:
      return "run-time branch";
    case RegionKind::kLoop:
      return "loop";
    case RegionKind::kWhile:
      return "while loop";
    case RegionKind::kLaunch:
      return "T.Kernel block";
    case RegionKind::kThreads:
      return "T.ws block";
    default:
      return "block";
  }
}

bool IsVariable(const Value& v) {
  return v.Is(Type::kBuffer) && v.buffer().buffer->scope == ir::Scope::kVar;
}

constexpr int kMostNested = 20;  // tuples that are looked through

// It may come to be something else in place.
bool MayChange(const Value& value, int depth) {
  switch (value.type()) {
    case Type::kList:
    case Type::kDict:
    case Type::kSet:
    case Type::kLazy:
    case Type::kFunction:
    case Type::kMethod:
    case Type::kClass:
    case Type::kInstance:
    case Type::kPartial:
      return true;
    case Type::kTuple:
      return depth > kMostNested ||
             std::any_of(value.seq().items.begin(), value.seq().items.end(),
                         [&](const Value& item) { return MayChange(item, depth + 1); });
    default:
      return false;
  }
}

absl::Status CheckStrides(Elaborator& e, const std::vector<ir::Expr>& shape,
                          const std::vector<ir::Expr>& strides, SourceLoc loc) {
  int64_t last = 0;  // element that is known to be in the buffer
  for (size_t i = 0; i < strides.size() && i < shape.size(); ++i) {
    const auto stride = ir::ConstInt(strides[i]), extent = ir::ConstInt(shape[i]);
    if (!stride) continue;
    if (*stride < 0) {
      return e.Error(loc, absl::StrCat("stride ", i, " of the buffer is ", *stride),
                     "every stride is at least 0");
    }
    int64_t step = 0;
    if (__builtin_mul_overflow(*stride, extent.value_or(1) - 1, &step) || step > kMostElements ||
        (last += step) > kMostElements) {
      return e.Error(loc, "the strides of the buffer reach further than 2^48 elements",
                     "use smaller strides");
    }
  }
  return absl::OkStatus();
}

// Whether the statement of another file has been run before what runs now: by a kernel, all have.
bool IsBefore(const ParsedModule& module, size_t statement, size_t now) {
  if (now == SIZE_MAX) return true;
  const SourceSection& file = module.SectionAt(module.tree->body[statement]->loc);
  if (file.Holds(now)) return statement < now;
  const SourceSection& here = module.SectionAt(module.tree->body[now]->loc);
  const auto loads = here.loads.find(static_cast<size_t>(&file - module.sections.data()));
  // What an import gives is the same before a change in place and behind it.
  const bool imports = module.tree->body[now]->kind == ast::StmtKind::kImport;
  return loads != here.loads.end() && (loads->second < now || imports);
}

}  // namespace

// Names that Python takes for the body's own though the statement gives them no value.
static void CollectOthers(ast::StmtPtr root, std::vector<absl::string_view>* names) {
  const auto take = [&](ast::ExprPtr target) {
    if (const auto* name = target->As<ast::Name>()) names->push_back(name->id);
  };
  Walk(root, [&](ast::StmtPtr stmt) {
    if (const auto* annotated = stmt->As<ast::AnnAssign>()) take(annotated->target);
    if (const auto* deleted = stmt->As<ast::Delete>()) {
      for (ast::ExprPtr target : deleted->targets) take(target);
    }
    const auto* attempt = stmt->As<ast::Try>();
    if (attempt == nullptr) return;
    for (const ast::Handler& handler : attempt->handlers) names->push_back(handler.name);
  });
}

bool Elaborator::IsLocal(const ast::Block& body, absl::string_view name) {
  auto [it, inserted] = locals_.try_emplace(&body);
  if (inserted) {
    std::vector<absl::string_view> names;
    for (ast::StmtPtr stmt : body) {
      CollectBindings(stmt, &names);
      CollectOthers(stmt, &names);
      const std::vector<absl::string_view> named = Touches::WalrusNames(stmt);
      names.insert(names.end(), named.begin(), named.end());
    }
    it->second.insert(names.begin(), names.end());
  }
  return it->second.contains(name);
}

absl::StatusOr<Value> Elaborator::ReadBinding(absl::string_view name, Binding* binding,
                                              SourceLoc loc) {
  if (!region_alive_.empty() && !region_alive_[binding->region]) {
    return Error(
        loc,
        absl::StrCat("'", name, "' is read outside the loop or branch that made it (line ",
                     binding->loc.line, ")"),
        absl::StrCat("declare it before, as in ", name, " = T.alloc_var(dtype), or use it inside"));
  }
  binding->last_read = steps_;
  return binding->value;
}

absl::StatusOr<Value> Elaborator::ReadName(const ast::Name& name, bool keep_variable) {
  KILN_RETURN_IF_ERROR(Step(name.loc));
  auto finish = [&](Value v) -> absl::StatusOr<Value> {
    if (reads_ != nullptr) reads_->Note(v);
    if (!keep_variable && IsVariable(v)) return Decay(v, name.loc);
    return v;
  };
  for (Scope* scope = frame_->scope; scope != nullptr; scope = scope->parent) {
    const auto it = scope->names.find(name.id);
    if (it != scope->names.end()) {
      KILN_ASSIGN_OR_RETURN(Value v, ReadBinding(name.id, &it->second, name.loc));
      if (reads_ != nullptr) reads_->NoteName(*scope, name.id);
      return finish(v);
    }
    // What a class's body binds, but has not yet, is looked up among the globals next.
    if (scope->of_class != nullptr && IsLocal(scope->of_class->body, name.id)) break;
    if (scope->function != nullptr && IsLocal(scope->function->body, name.id)) {
      return Error(name.loc, absl::StrCat("'", name.id, "' is read before it has a value"),
                   absl::StrCat("'", scope->function->name,
                                "' assigns it elsewhere; assign it before this line on every "
                                "path"));
    }
  }
  KILN_ASSIGN_OR_RETURN(Value v, ReadGlobal(name.id, name.loc, frame_->before));
  return finish(v);
}

absl::StatusOr<Value> Elaborator::ReadGlobal(absl::string_view name, SourceLoc loc, size_t before) {
  const SourceSection& section = module_.SectionAt(loc);
  // A statement of another file is running: all of this one is there.
  const bool own = before == SIZE_MAX || (section.first <= before && before < section.last);
  return ReadGlobalOf(section, name, loc, own ? before : SIZE_MAX);
}

absl::StatusOr<Value> Elaborator::ReadGlobalOf(const SourceSection& section, absl::string_view name,
                                               SourceLoc loc, size_t before) {
  const auto found = section.globals.find(name);
  const Touch* binder = nullptr;
  size_t binder_at = 0;
  if (found != section.globals.end()) {
    for (size_t i = 0; i < found->second.size(); ++i) {
      const Touch& touch = found->second[i];
      if (touch.statement >= before) break;
      if (touch.binds) {
        binder = &touch;
        binder_at = i;
      }
    }
  }
  if (binder == nullptr) {
    const auto& builtins = PythonBuiltins().members;
    const auto builtin = builtins.find(name);
    if (builtin != builtins.end()) return builtin->second;
    if (name == "__name__") return NewStr(section.module.empty() ? "kernel" : section.module);
    for (const SourceSection::Star& star : section.stars) {
      const Module* module = FindModule(star.module);
      if (module == nullptr) continue;
      const absl::StatusOr<Value> member = GetMember(*module, std::string(name), loc);
      if (member.ok()) return member;
    }
    return UnknownName(name, loc);
  }
  KILN_RETURN_IF_ERROR(RunChangesElsewhere(section, name, loc));
  const std::vector<Touch>& touches = found->second;
  for (size_t at = binder_at;;) {
    const size_t statement = touches[at].statement;
    if (const SourceSection* other = StarAt(section, statement)) {
      CountGuard depth(&depth_);
      KILN_RETURN_IF_ERROR(CheckDepth(loc));
      KILN_ASSIGN_OR_RETURN(const Value value, ReadGlobalOf(*other, name, loc, SIZE_MAX));
      global_values_.insert_or_assign({name, statement}, value);
    } else {
      KILN_RETURN_IF_ERROR(RunGlobal(statement));
    }
    const auto found_value = global_values_.find({name, statement});
    const bool changes = found_value != global_values_.end() && MayChange(found_value->second, 0);
    if (changes && module_.touches->gave_up()) {
      return Error(loc,
                   absl::StrCat("'", name, "' is read here, and the statements of the file may ",
                                "change too many names together to be followed"),
                   "make the constants of a kernel in a file of their own");
    }
    for (size_t i = at + 1; i < touches.size(); ++i) {
      const size_t changer = touches[i].statement;
      if (touches[i].binds ? changer < before : !changes && !touches[i].rebinds) continue;
      if (touches[i].binds) break;
      if (changer < before && module_state_[changer] != 1) {
        KILN_RETURN_IF_ERROR(RunGlobal(changer));
      } else if (changer > before && module_state_[changer] != 0 && module_state_[changer] != 4) {
        return Error(loc,
                     absl::StrCat("'", name, "' is read here as it is before the statement at ",
                                  At(module_.tree->body[changer]->loc), ", which may change it"),
                     "compute the constant in one statement, or pass it as an argument");
      }
    }
    const auto value = global_values_.find({name, statement});
    if (value != global_values_.end()) return value->second;
    // A branch that was not taken: what the name meant before it.
    before = statement;
    do {
      if (at-- > 0) continue;
      return Error(loc,
                   absl::StrCat("'", name, "' has no value: the statement that binds it at ",
                                At(module_.tree->body[binder->statement]->loc), " did not do so"),
                   "give it a value on every path");
    } while (!touches[at].binds);
  }
}

// What another file changes of a name, once that has been loaded: of a kernel all of it, for a
// statement what has been run before. Refused where more has been done already, but for an import
// of what is changed in place, and where several files do it, since their order is not followed.
absl::Status Elaborator::RunChangesElsewhere(const SourceSection& in, absl::string_view name,
                                             SourceLoc loc) {
  const auto found = in.changed_elsewhere.find(name);
  if (found == in.changed_elsewhere.end()) return absl::OkStatus();
  const size_t now = frame_ == nullptr ? SIZE_MAX : frame_->before;
  const bool loading = now != SIZE_MAX && in.Holds(now);
  const bool imports = now != SIZE_MAX && module_.tree->body[now]->kind == ast::StmtKind::kImport;
  const SourceSection& file =
      module_.SectionAt(module_.tree->body[found->second[0].statement]->loc);
  for (const Touch& touch : found->second) {
    const size_t changer = touch.statement;
    const int state = module_state_[changer];
    if (changer == now || state == 1) continue;
    const bool before = !loading && IsBefore(module_, changer, now);
    if (before && file.Holds(changer)) {
      KILN_RETURN_IF_ERROR(RunGlobal(changer));
      continue;
    }
    const bool not_yet = !before && (state == 0 || state == 4);
    if (not_yet || (imports && !touch.rebinds)) continue;
    return Error(loc,
                 absl::StrCat("'", name, "' is read here, and the statement at ",
                              At(module_.tree->body[changer]->loc),
                              " of another file may change it; which comes first is not clear"),
                 "change it in the file that makes it, or pass it as an argument");
  }
  return absl::OkStatus();
}

const SourceSection* Elaborator::StarAt(const SourceSection& section, size_t statement) const {
  for (const SourceSection::Star& star : section.stars) {
    if (star.statement == statement) return module_.FindSection(star.module);
  }
  return nullptr;
}

// Runs what reads a value before the statement changes it. What of that is host code has no value
// from then on.
absl::Status Elaborator::RunEarlier(size_t statement) {
  const SourceSection& section = module_.SectionAt(module_.tree->body[statement]->loc);
  const auto earlier = section.earlier.find(statement);
  if (earlier == section.earlier.end()) return absl::OkStatus();
  for (size_t i : earlier->second) {
    if (module_state_[i] != 0) continue;
    const size_t checks = checks_.size(), constraints = constraints_.size();
    const bool needed = needs_.has_value();
    absl::Status status = RunGlobal(i);
    if (status.ok()) status = PrepareClasses(i);
    if (status.ok()) continue;
    if (status.code() == absl::StatusCode::kResourceExhausted) return status;
    checks_.resize(checks);
    constraints_.resize(constraints);
    if (!needed) needs_.reset();
    failed_.emplace(i, status);  // a class of it may be what failed
    module_state_[i] = 3;
  }
  return absl::OkStatus();
}

// The bodies of classes are evaluated when they are first used, unless that is too late.
absl::Status Elaborator::PrepareClasses(size_t statement) {
  const Scope* scope = module_scopes_[statement];
  ast::StmtPtr stmt = module_.tree->body[statement];
  if (scope == nullptr || stmt->kind == ast::StmtKind::kAssign) return absl::OkStatus();
  for (const auto& [name, binding] : scope->names) {
    if (!binding.value.Is(Type::kClass)) continue;
    KILN_RETURN_IF_ERROR(Prepare(&binding.value.type_object(), stmt->loc));
  }
  return absl::OkStatus();
}

absl::Status Elaborator::RunGlobal(size_t statement) {
  if (module_state_[statement] == 2) return absl::OkStatus();
  if (module_state_[statement] == 3) return failed_.at(statement);
  ast::StmtPtr stmt = module_.tree->body[statement];
  if (module_state_[statement] != 0) {
    return Error(stmt->loc, "this statement needs its own result", "break the cycle");
  }
  module_state_[statement] = 4;
  std::vector<IrRegion> regions;
  std::swap(regions, regions_);  // nothing of it is of the kernel or generator that reads it
  const int64_t generator = std::exchange(generator_, 0), made = arena_.count();
  Reads* const reads = std::exchange(reads_, nullptr);
  const absl::Status status = RunNow(statement);
  if (generator != 0) made_by_file_.emplace_back(made, arena_.count());
  generator_ = generator;
  reads_ = reads;
  std::swap(regions, regions_);
  if (!status.ok() && status.code() != absl::StatusCode::kResourceExhausted) {
    failed_.emplace(statement, status);
    module_state_[statement] = 3;
  }
  return status;
}

absl::Status Elaborator::RunNow(size_t statement) {
  ast::StmtPtr stmt = module_.tree->body[statement];
  {
    CountGuard depth(&depth_);
    KILN_RETURN_IF_ERROR(CheckDepth(stmt->loc));
    KILN_RETURN_IF_ERROR(RunEarlier(statement));
  }
  module_state_[statement] = 1;
  Scope* scope = arena_.New<Scope>();
  Frame frame;
  frame.scope = scope;
  frame.module_index = frame.before = statement;
  CountGuard depth(&depth_);
  FrameGuard guard(this, &frame);
  KILN_RETURN_IF_ERROR(CheckDepth(stmt->loc));
  KILN_RETURN_IF_ERROR(Exec(stmt).status());
  for (auto& [name, binding] : scope->names) {
    global_values_.insert_or_assign({name, statement}, binding.value);
  }
  module_state_[statement] = 2;
  module_scopes_[statement] = scope;
  const bool changes = module_.SectionAt(stmt->loc).earlier.contains(statement);
  return changes ? PrepareClasses(statement) : absl::OkStatus();
}

std::vector<std::string> Elaborator::VisibleNames() const {
  std::vector<std::string> names;
  for (const Scope* scope = frame_->scope; scope != nullptr; scope = scope->parent) {
    for (const auto& entry : scope->names) names.emplace_back(entry.first);
  }
  for (const auto& entry : module_.sections[0].globals) names.emplace_back(entry.first);
  for (const auto& entry : PythonBuiltins().members) names.push_back(entry.first);
  std::sort(names.begin(), names.end());
  return names;
}

// Names that kernel files take from imports, and the import that is left out where one is unknown.
constexpr const char* kUsualImports[][2] = {{"T", "import tilelang.language as T"},
                                            {"tilelang", "import tilelang"},
                                            {"torch", "import torch"},
                                            {"np", "import numpy as np"},
                                            {"numpy", "import numpy"},
                                            {"math", "import math"},
                                            {"itertools", "import itertools"},
                                            {"functools", "import functools"},
                                            {"operator", "import operator"},
                                            {"driver", "from tilelang.carver.arch import driver"},
                                            {"tvm", "from tilelang import tvm"},
                                            {"tir", "from tvm import tir"},
                                            {"dataclass", "from dataclasses import dataclass"},
                                            {"Enum", "from enum import Enum"},
                                            {"Any", "from typing import Any"}};

absl::Status Elaborator::UnknownName(absl::string_view name, SourceLoc loc) {
  static constexpr absl::string_view kPython[] = {
      "open",        "exec",       "eval",    "input",    "globals", "locals",   "vars",
      "getattr",     "setattr",    "hasattr", "super",    "object",  "property", "staticmethod",
      "classmethod", "iter",       "next",    "id",       "hash",    "callable", "dir",
      "compile",     "memoryview", "complex", "bytearray"};
  if (std::find(std::begin(kPython), std::end(kPython), name) != std::end(kPython)) {
    return Unimplemented(loc, absl::StrCat("Python's '", name, "' is not in the kernel language"),
                         "a kernel is computed from its parameters and module constants only");
  }
  for (const auto& [usual, statement] : kUsualImports) {
    if (name != usual) continue;
    return Error(loc, absl::StrCat("unknown name '", name, "'"),
                 absl::StrCat("add '", statement, "' to the file"));
  }
  for (const SourceSection::Star& star : module_.SectionAt(loc).stars) {
    if (FindModule(star.module) != nullptr || module_.FindSection(star.module) != nullptr) continue;
    KILN_RETURN_IF_ERROR(BrokenFile(star.module, loc));
    return Error(loc, absl::StrCat("unknown name '", name, "'"),
                 absl::StrCat("'from ", star.module,
                              " import *' brings no names: ", WhyAbsent(module_, star.module)));
  }
  return Error(loc, absl::StrCat("unknown name '", name, "'"),
               DidYouMean(name, VisibleNames(), "define it, or pass it as a parameter"));
}

absl::Status Elaborator::CheckRebinding(absl::string_view name, const Binding& old, SourceLoc loc) {
  if (regions_.empty() || !region_alive_[old.region] || old.region == regions_.back().id) {
    return absl::OkStatus();
  }
  // Regions between the one that holds the old meaning and here, outermost first.
  for (const IrRegion& region : regions_) {
    if (region.id <= old.region) continue;
    if (region.kind == RegionKind::kBranch) {
      return Error(loc,
                   absl::StrCat("'", name, "' (line ", old.loc.line,
                                ") is rebound inside a run-time branch, which would change it "
                                "whether or not the branch is taken"),
                   absl::StrCat("make it a variable, ", name,
                                " = T.alloc_var(dtype, init=...), or choose the value with "
                                "T.if_then_else"));
    }
    const bool loops = region.kind == RegionKind::kLoop || region.kind == RegionKind::kWhile;
    if (loops && old.last_read >= region.start) {
      return Error(loc,
                   absl::StrCat("'", name, "' (line ", old.loc.line,
                                ") is read and then rebound "
                                "in the ",
                                RegionNoun(region.kind), " of line ", region.loc.line,
                                ", so that it would have to carry its value from one iteration to "
                                "the next"),
                   absl::StrCat("make it a variable, ", name,
                                " = T.alloc_var(dtype, init=...), before the loop"));
    }
  }
  return absl::OkStatus();
}

absl::Status Elaborator::Bind(absl::string_view name, Value value, SourceLoc loc, bool fresh) {
  Scope* scope = frame_->scope;
  const auto it = scope->names.find(name);
  if (it != scope->names.end() && !fresh) ++changes_;
  if (generator_ != 0 && !fresh) oldest_change_ = std::min(oldest_change_, scope->number);
  if (it != scope->names.end() && !fresh && frame_->traced) {
    Binding& old = it->second;
    const bool alive = region_alive_.empty() || region_alive_[old.region];
    const bool scalar = IsRuntime(value) ? !IsVariable(value) : value.is_number();
    if (alive && IsVariable(old.value) && scalar) {
      return StoreElement(old.value.buffer().buffer, {ir::MakeInt(0)}, value, loc);
    }
    if (alive && old.value.Is(Type::kAccess) && old.value.access().is_point && scalar) {
      std::vector<ir::Expr> indices;  // a T.Ref parameter
      for (const AccessIndex& index : old.value.access().indices) indices.push_back(index.min);
      return StoreElement(old.value.access().buffer, std::move(indices), value, loc);
    }
    KILN_RETURN_IF_ERROR(CheckRebinding(name, old, loc));
  }
  if (frame_->traced && !regions_.empty() && pure_ == 0) {
    if (IsRuntime(value) && !IsVariable(value)) {
      KILN_ASSIGN_OR_RETURN(value, Freeze(value, name, loc));
    } else {
      KILN_RETURN_IF_ERROR(FreezeItems(value, name, loc));
    }
  }
  Binding binding;
  binding.value = value;
  binding.region = regions_.empty() ? 0 : regions_.back().id;
  binding.loc = loc;
  binding.born = steps_;
  scope->names.insert_or_assign(name, binding);
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::Freeze(const Value& v, absl::string_view name, SourceLoc loc) {
  const AccessObject* origin = v.Is(Type::kAccess) && v.access().is_point ? &v.access() : nullptr;
  KILN_ASSIGN_OR_RETURN(const Operand operand, ToOperand(v, loc, "the value"));
  const bool constant = operand.e.As<ir::IntImm>() || operand.e.As<ir::FloatImm>();
  if (operand.e.As<ir::Var>() || constant || operand.info.open_only()) {
    return v.Is(Type::kExpr) ? v : NewExpr(operand, loc);
  }
  const ir::Expr var = VarNamed(name, operand.e.dtype());
  KILN_RETURN_IF_ERROR(EmitNew<ir::Bind>(loc, var, operand.e));
  if (!(operand.info.flags & ExprInfo::kLoads)) bound_.emplace(var.get(), operand.e);
  ExprInfo info;
  info.flags = ExprInfo::kRuntime;
  KILN_ASSIGN_OR_RETURN(Value bound, NewExpr(var, info, loc));
  const_cast<ExprObject&>(bound.expr()).origin = origin;
  return bound;
}

absl::StatusOr<Value> Elaborator::Keep(Value value, absl::string_view name, SourceLoc loc,
                                       Use use) {
  if (regions_.empty() || pure_ > 0) return value;
  if (use == Use::kRepeated) {
    return frame_->traced && IsRuntime(value) ? Freeze(value, name, loc) : value;
  }
  if (IsVariable(value)) return value;
  if (!IsRuntime(value)) {
    KILN_RETURN_IF_ERROR(FreezeItems(value, name, loc));
    return value;
  }
  const bool loads = value.Is(Type::kAccess) || (value.expr().info.flags & ExprInfo::kLoads) != 0;
  return loads ? Freeze(value, name, loc) : value;
}

absl::Status Elaborator::FreezeItems(const Value& v, absl::string_view name, SourceLoc loc) {
  const bool dict = v.Is(Type::kDict), iterator = IsIterator(v);
  if (!dict && !iterator && !v.is_sequence()) return absl::OkStatus();
  CountGuard depth(&depth_);
  KILN_RETURN_IF_ERROR(CheckDepth(loc));
  auto freeze = [&](Value* item) -> absl::Status {
    KILN_RETURN_IF_ERROR(Step(loc));
    KILN_ASSIGN_OR_RETURN(*item, Keep(*item, name, loc));
    return absl::OkStatus();
  };
  if (dict) {
    for (auto& entry : v.dict().items) KILN_RETURN_IF_ERROR(freeze(&entry.second));
    return absl::OkStatus();
  }
  for (Value& item : iterator ? LazyOf(v).items : v.seq().items) {
    KILN_RETURN_IF_ERROR(freeze(&item));
  }
  return absl::OkStatus();
}

ir::Expr Elaborator::VarNamed(absl::string_view name, DType type) {
  std::string clean;
  for (char c : name) clean += static_cast<unsigned char>(c) < 0x80 ? c : '_';
  return ir::MakeVar(clean.empty() ? "v" : clean, type);
}

bool Elaborator::InRuntimeRegion() const {
  return std::any_of(regions_.begin(), regions_.end(), [](const IrRegion& r) {
    return r.kind != RegionKind::kRoot && r.kind != RegionKind::kLaunch;
  });
}

void Elaborator::PushRegion(RegionKind kind, SourceLoc loc, ir::ForKind loop) {
  IrRegion region;
  region.kind = kind;
  region.loop = loop;
  region.id = static_cast<int>(region_alive_.size());
  region.start = ++steps_;
  region.loc = loc;
  region_alive_.push_back(true);
  regions_.push_back(std::move(region));
}

std::vector<ir::Stmt> Elaborator::PopRegion() {
  std::vector<ir::Stmt> stmts = std::move(regions_.back().stmts);
  region_alive_[regions_.back().id] = false;
  regions_.pop_back();
  return stmts;
}

bool Elaborator::InLaunch() const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [](const IrRegion& r) { return r.kind == RegionKind::kLaunch; });
}

size_t Elaborator::OutermostElementLoop() const {
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].kind == RegionKind::kLoop && (regions_[i].loop == ir::ForKind::kParallel ||
                                                  regions_[i].loop == ir::ForKind::kVectorized)) {
      return i;
    }
  }
  return regions_.size();
}

absl::StatusOr<std::vector<ir::Axis>> Elaborator::ElementAxes(SourceLoc loc) {
  std::vector<ir::Axis> axes;
  for (size_t i = OutermostElementLoop(); i < regions_.size(); ++i) {
    if (regions_[i].kind == RegionKind::kWhile) {
      return Error(loc, "this stands in a while loop inside of a loop over elements",
                   "use a for loop, whose length is known");
    }
    axes.insert(axes.end(), regions_[i].axes.begin(), regions_[i].axes.end());
  }
  return axes;
}

int Elaborator::EmitAfterElementLoop(ir::Stmt stmt) {
  IrRegion& loop = regions_[OutermostElementLoop()];
  if (stmt.defined()) loop.after.push_back(std::move(stmt));
  return loop.id;
}

absl::Status Elaborator::RequireLaunch(SourceLoc loc, absl::string_view what) {
  if (InLaunch()) return absl::OkStatus();
  return Error(loc, absl::StrCat(what, " stands outside a T.Kernel block"),
               "move it under `with T.Kernel(...) as ...:`");
}

absl::Status Elaborator::Emit(SourceLoc loc, ir::Stmt stmt) {
  if (regions_.empty()) {
    return Error(loc, "this statement belongs inside a kernel",
                 "move it into a function under @T.prim_func, @T.macro or @tilelang.jit");
  }
  if (pure_ > 0) {
    return Error(loc,
                 "this has an effect, but stands in an operand that run time may skip (and, or, "
                 "a conditional expression)",
                 "write it as a statement under if");
  }
  KILN_RETURN_IF_ERROR(CountNodes(loc, stmt));
  regions_.back().stmts.push_back(std::move(stmt));
  return absl::OkStatus();
}

absl::Status Elaborator::CountNodes(SourceLoc loc, const ir::Stmt& stmt) {
  // Only what the statement itself holds: the statements below it were counted before.
  int64_t count = 1;
  ir::Walk(
      stmt, [&](const ir::Stmt& s) { return s.same_as(stmt); },
      [&](const ir::Expr&) {
        ++count;
        return true;
      });
  nodes_ += count;
  if (nodes_ <= limits_.ir_nodes) return absl::OkStatus();
  return Exhausted(loc, absl::StrCat("the program has more than ", limits_.ir_nodes,
                                     " statements and expressions"));
}

absl::Status Elaborator::EmitAtRoot(SourceLoc loc, ir::Stmt stmt) {
  if (regions_.empty()) return Emit(loc, std::move(stmt));
  KILN_RETURN_IF_ERROR(CountNodes(loc, stmt));
  regions_.front().stmts.push_back(std::move(stmt));
  return absl::OkStatus();
}

// About run-time sizes alone, and true wherever the kernel gets to.
bool Elaborator::IsOfSizes(const ir::Expr& condition) const {
  if (InRuntimeRegion()) return false;
  bool sizes = true;
  ir::Walk(condition, [&](const ir::Expr& e) {
    const bool is_size = std::any_of(dim_order_.begin(), dim_order_.end(),
                                     [&](const ir::Expr& dim) { return dim.same_as(e); });
    const auto* var = e.As<ir::Var>();
    const bool tunable = var != nullptr && tunables_.contains(var->name);
    sizes &= e.kind() != ir::ExprKind::kLoad && (var == nullptr || is_size || tunable);
    return sizes;
  });
  return sizes;
}

absl::Status Elaborator::EmitCheck(SourceLoc loc, const ir::Expr& condition, std::string message) {
  ir::Stmt check = ir::MakeStmt<ir::Assert>(loc, condition, std::move(message));
  if (!regions_.empty()) return EmitAtRoot(loc, std::move(check));
  KILN_RETURN_IF_ERROR(CountNodes(loc, check));
  checks_.push_back(std::move(check));
  return absl::OkStatus();
}

absl::Status Elaborator::NeedsValue(SourceLoc loc, std::string message, const ir::Expr& e,
                                    std::string remedy) {
  std::set<std::string> names;
  std::vector<ir::Expr> work = {e};
  for (size_t i = 0; i < work.size() && i < 1000; ++i) {
    const ir::Expr whole = work[i];
    ir::Walk(whole, [&](const ir::Expr& part) {
      const auto* var = part.As<ir::Var>();
      if (var == nullptr) return true;
      if (const auto known = bound_.find(part.get()); known != bound_.end()) {
        work.push_back(known->second);
      } else if (left_open_.contains(var->name) && dims_[var->name].same_as(part)) {
        names.insert(var->name);
      }
      return true;
    });
  }
  if (names.empty()) return Error(loc, std::move(message), std::move(remedy));
  std::vector<std::string> given;
  for (const std::string& name : names) {
    given.push_back(absl::StrCat(left_open_[name], "=", DynamicArgument(name)));
  }
  const std::string arguments = absl::StrJoin(names, ", ", [&](std::string* out, const auto& name) {
    absl::StrAppend(out, left_open_[name]);
  });
  return Error(
      loc,
      absl::StrCat(message, "; it comes from the argument", names.size() > 1 ? "s " : " ",
                   absl::StrJoin(given, ", ")),
      absl::StrCat("give ", arguments, " a number: what is left to run time (a range too) ",
                   "may say the shapes of tensors, the grid, the bounds of loops, indices "
                   "and conditions of the kernel, and no more"));
}

void Elaborator::AddView(const ir::Buffer& view, const ir::Buffer& base, SourceLoc loc) {
  const auto through = std::find_if(views_.begin(), views_.end(),
                                    [&](const ir::View& known) { return known.view == base; });
  views_.push_back({view, through == views_.end() ? base : through->base, loc});
}

absl::Status Elaborator::Require(const ir::Expr& condition, ExprInfo info, absl::Status error) {
  if (const auto constant = ir::ConstInt(condition)) {
    return *constant ? absl::OkStatus() : error;
  }
  if ((info.flags & ExprInfo::kOpen) && !(info.flags & ExprInfo::kRuntime)) {
    constraints_.push_back(condition);
    return absl::OkStatus();
  }
  return error;
}

absl::StatusOr<ir::Buffer> Elaborator::NewNamedBuffer(DType dtype, std::vector<ir::Expr> shape,
                                                      ir::Scope scope, SourceLoc loc,
                                                      std::vector<ir::Expr> strides,
                                                      absl::string_view fallback) {
  if (shape.empty()) {
    return Error(loc, "a buffer needs at least one dimension", "use shape (1,) for a scalar");
  }
  if (dtype.lanes > 1) {
    return Error(loc, absl::StrCat("a buffer of ", dtype.ToString()),
                 "make the lanes its last dimension");
  }
  if (shape.size() > 16) {
    return Error(loc, absl::StrCat("a buffer of ", shape.size(), " dimensions"),
                 "use at most 16 dimensions");
  }
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto extent = ir::ConstInt(shape[i]);
    if (!extent) continue;
    if (*extent <= 0) {
      return Error(loc, absl::StrCat("dimension ", i, " of the buffer is ", *extent),
                   "every dimension is at least 1");
    }
    if (__builtin_mul_overflow(elements, *extent, &elements) || elements > kMostElements) {
      return Error(loc, "the buffer has more than 2^48 elements", "use smaller dimensions");
    }
  }
  KILN_RETURN_IF_ERROR(CheckStrides(*this, shape, strides, loc));
  if (!dtype.is_scalar() || dtype.code == TypeCode::kHandle) {
    return Error(loc, absl::StrCat("a buffer of ", dtype.ToString()), "use a scalar number type");
  }
  std::string name;
  for (char c : name_hint_.empty() ? fallback : name_hint_) {
    name += static_cast<unsigned char>(c) < 0x80 ? c : '_';
  }
  const int count = buffer_names_[name]++;
  if (count > 0) {
    std::string unique;
    for (int i = count;; ++i) {
      unique = absl::StrCat(name, "_", i);
      if (!buffer_names_.contains(unique)) break;
    }
    buffer_names_[unique] = 1;
    name = std::move(unique);
  }
  return ir::MakeBuffer(std::move(name), dtype, std::move(shape), scope, std::move(strides));
}

absl::Status Elaborator::StoreElement(const ir::Buffer& buffer, std::vector<ir::Expr> indices,
                                      const Value& value, SourceLoc loc) {
  if (buffer->scope == ir::Scope::kBarrier) {
    return Error(loc, absl::StrCat("'", buffer->name, "' is a barrier and holds no values"),
                 "use T.barrier_arrive and T.barrier_wait");
  }
  KILN_ASSIGN_OR_RETURN(const Operand stored,
                        ToType(value, buffer->dtype, stored_.known() ? stored_ : loc,
                               absl::StrCat("the value stored to '", buffer->name, "'")));
  return EmitNew<ir::Store>(loc, buffer, std::move(indices), stored.e);
}

}  // namespace kiln::lang
