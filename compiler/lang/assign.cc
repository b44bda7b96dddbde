// Assignments.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/mutable.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/region.h"
#include "compiler/lang/slice.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

// Sets and restores the name that allocations on the right side take.
class Hint {
 public:
  Hint(absl::string_view* slot, absl::string_view name) : slot_(slot), saved_(*slot) {
    if (!name.empty()) *slot_ = name;
  }
  ~Hint() { *slot_ = saved_; }
  Hint(const Hint&) = delete;

 private:
  absl::string_view* slot_;
  absl::string_view saved_;
};

const std::vector<ast::ExprPtr>* TargetItems(ast::ExprPtr target) {
  if (const auto* tuple = target->As<ast::Tuple>()) return &tuple->items;
  if (const auto* list = target->As<ast::List>()) return &list->items;
  return nullptr;
}

}  // namespace

// What a buffer made for `target` is called: its name, or that of the object and its attribute.
absl::StatusOr<absl::string_view> Elaborator::HintOf(ast::ExprPtr target) {
  if (const auto* name = target->As<ast::Name>()) return name->id;
  const auto* attribute = target->As<ast::Attribute>();
  const auto* owner = attribute == nullptr ? nullptr : attribute->value->As<ast::Name>();
  if (owner == nullptr) return absl::string_view();
  KILN_ASSIGN_OR_RETURN(const Value self, ReadName(*owner, /*keep_variable=*/true));
  const bool named = self.Is(Type::kInstance) && !self.instance().name.empty();
  if (!named) return attribute->attr;
  return NewStr(absl::StrCat(self.instance().name, "_", attribute->attr)).str();
}

absl::Status Elaborator::ExecAssign(const ast::Assign& node) {
  Value value;
  {
    KILN_ASSIGN_OR_RETURN(const absl::string_view name, HintOf(node.targets[0]));
    Hint hint(&name_hint_, name);
    KILN_ASSIGN_OR_RETURN(value, Eval(node.value));
  }
  // A list or tuple of targets sees all of the right side before the first store.
  const bool several = node.targets.size() > 1 || TargetItems(node.targets[0]) != nullptr;
  if (several && frame_->traced && (value.is_sequence() || IsIterator(value))) {
    for (Value& item : value.Is(Type::kLazy) ? LazyOf(value).items : value.seq().items) {
      if (!IsRuntime(item) || item.Is(Type::kBuffer)) continue;
      const bool loads = item.Is(Type::kAccess) || (item.expr().info.flags & ExprInfo::kLoads);
      if (!loads) continue;
      KILN_ASSIGN_OR_RETURN(item, Freeze(item, "value", node.loc));
    }
  } else if (several && frame_->traced && IsRuntime(value) && !value.Is(Type::kBuffer)) {
    KILN_ASSIGN_OR_RETURN(value, Freeze(value, "value", node.loc));
  }
  for (ast::ExprPtr target : node.targets) {
    // An error of the store is one of these expressions.
    const bool name = target->kind == ast::ExprKind::kName;
    const ast::ExprPtr outer = std::exchange(current_, name ? current_ : target);
    stored_ = several ? SourceLoc() : node.value->loc;
    KILN_RETURN_IF_ERROR(AssignTo(target, value));
    current_ = outer;
    stored_ = {};
    NoteMade(target, node.value);
  }
  return absl::OkStatus();
}

absl::Status Elaborator::AssignTo(ast::ExprPtr target, const Value& value, bool fresh) {
  switch (target->kind) {
    case ast::ExprKind::kName:
      return Bind(target->As<ast::Name>()->id, value, target->loc, fresh);
    case ast::ExprKind::kSubscript:
      return AssignSubscript(*target->As<ast::Subscript>(), value);
    case ast::ExprKind::kAttribute: {
      const auto& attribute = *target->As<ast::Attribute>();
      KILN_ASSIGN_OR_RETURN(const Value self, EvalKeepingVariable(attribute.value));
      return SetAttribute(self, attribute.attr, value, target->loc);
    }
    case ast::ExprKind::kTuple:
    case ast::ExprKind::kList: {
      CountGuard depth(&depth_);
      KILN_RETURN_IF_ERROR(CheckDepth(target->loc));
      return Unpack(*TargetItems(target), value, target->loc, fresh);
    }
    default:
      return Error(target->loc, "this cannot be assigned to", "assign to a name or element");
  }
}

absl::Status Elaborator::Unpack(const std::vector<ast::ExprPtr>& targets, const Value& value,
                                SourceLoc loc, bool fresh) {
  if (IsRuntime(value)) {
    if (value.Is(Type::kExpr) && value.expr().info.open_only()) {
      return NeedConcrete(loc, value.expr().expr, "it is unpacked");
    }
    return Error(
        loc, absl::StrCat(Describe(value), " cannot be unpacked into ", targets.size(), " names"),
        "assign it to one name");
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, loc));
  size_t star = targets.size();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i]->kind != ast::ExprKind::kStarred) continue;
    if (star < targets.size()) return Error(targets[i]->loc, "two starred targets", "keep one");
    star = i;
  }
  const bool starred = star < targets.size();
  if (starred ? items.size() + 1 < targets.size() : items.size() != targets.size()) {
    return Raised(Error(loc,
                        absl::StrCat("cannot unpack ", items.size(), " values into ",
                                     targets.size(), " names"),
                        "give each name one value"),
                  "ValueError");
  }
  const size_t extra = items.size() + 1 - targets.size();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i == star) {
      std::vector<Value> rest(items.begin() + i, items.begin() + i + extra);
      KILN_RETURN_IF_ERROR(
          AssignTo(targets[i]->As<ast::Starred>()->value, NewList(std::move(rest)), fresh));
      continue;
    }
    KILN_RETURN_IF_ERROR(AssignTo(targets[i], items[i > star ? i + extra - 1 : i], fresh));
  }
  return absl::OkStatus();
}

absl::Status Elaborator::AssignSubscript(const ast::Subscript& target, const Value& value) {
  const Moment then = Now();
  KILN_ASSIGN_OR_RETURN(const Value base, EvalKeepingVariable(target.value));
  if (!base.Is(Type::kBuffer)) {
    KILN_ASSIGN_OR_RETURN(const Value index, EvalKey(target));
    KILN_RETURN_IF_ERROR(CheckStillHolds(value, then, target.loc));
    return AssignItem(base, index, value, target.loc);
  }
  KILN_ASSIGN_OR_RETURN(const Value place, EvalSubscript(target));
  KILN_RETURN_IF_ERROR(CheckStillHolds(value, then, target.loc));
  const bool lanes = IsVector(place) || IsVector(value);
  if (LacksIndices(place)) {
    return Error(target.loc, absl::StrCat(Describe(place), " is assigned to"),
                 absl::StrCat(IndexAll(place), ", or write ':' for a whole dimension"));
  }
  if (!MayStore() && regions_.empty()) {
    return Error(target.loc, "a buffer is stored to outside a kernel", "move the store into it");
  }
  if (!MayStore()) {
    return Error(target.loc,
                 absl::StrCat("the plain function '", frame_->name, "' stores to a buffer"),
                 "make the function a @T.macro");
  }
  KILN_RETURN_IF_ERROR(RequireLaunch(target.loc, "a store"));
  if (lanes) {
    const size_t count = (IsVector(place) ? place : value).seq().items.size();
    if (!IsVector(place) && place.access().is_point) {
      return Error(target.loc,
                   absl::StrCat("a vector of ", count, " lanes is stored to an element"),
                   "store it to x[i:i + lanes] or x[T.Ramp(i, 1, lanes)]");
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> at, LanesOf(*this, place, count, target.loc));
    return StoreLanes(*this, at, value, target.loc);
  }
  const AccessObject& access = place.access();
  if (!access.is_point) return AssignRegion(*this, place, value, target.loc);
  std::vector<ir::Expr> indices;
  for (const AccessIndex& index : access.indices) indices.push_back(index.min);
  return StoreElement(access.buffer, std::move(indices), value, target.loc);
}

absl::Status Elaborator::AssignItem(const Value& base, const Value& index, const Value& given,
                                    SourceLoc loc) {
  const bool list = base.Is(Type::kList), dict = base.Is(Type::kDict);
  if (base.Is(Type::kUnknown)) return NoValue(base, loc);
  if (!list && !dict) {
    return Error(loc, absl::StrCat(Describe(base), " cannot be changed"),
                 base.Is(Type::kTuple) ? "make it a list" : "store to a buffer, list or dict");
  }
  if (list && index.Is(Type::kSlice)) {
    return AssignSlice(*this, base, index.slice(), given, loc);
  }
  KILN_RETURN_IF_ERROR(CheckMutable(*this, base, loc));
  KILN_ASSIGN_OR_RETURN(const Value value, Keep(given, "item", loc));
  if (dict) {
    KILN_RETURN_IF_ERROR(CheckKey(index, loc));
    KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(base.dict().items.size())));
    KILN_RETURN_IF_ERROR(ChargeBytes(loc, 32));
    return SetItem(&base.dict(), index, value, loc);
  }
  const int64_t size = static_cast<int64_t>(base.seq().items.size());
  KILN_ASSIGN_OR_RETURN(int64_t i, ToInt(index, loc, "the index of a list"));
  if (i < 0) i += size;
  if (i < 0 || i >= size) {
    return Raised(
        Error(loc,
              absl::StrCat("index ", Repr(index), " is out of range for a list of length ", size),
              "append to the list instead"),
        "IndexError");
  }
  base.seq().items[i] = value;
  return absl::OkStatus();
}

absl::Status Elaborator::ExecAugAssign(const ast::AugAssign& node) {
  if (const auto* name = node.target->As<ast::Name>()) {
    KILN_ASSIGN_OR_RETURN(const Value old, ReadName(*name, /*keep_variable=*/false));
    const Moment then = Now();
    KILN_ASSIGN_OR_RETURN(const Value right, Eval(node.value));
    KILN_RETURN_IF_ERROR(CheckStillHolds(old, then, name->loc));
    KILN_ASSIGN_OR_RETURN(const Value value, Classes(this).Update(node.op, old, right, node.loc));
    KILN_RETURN_IF_ERROR(Bind(name->id, value, node.target->loc));
    NoteMade(node.target, node.value, ast::Spelling(node.op));
    return absl::OkStatus();
  }
  if (const auto* attribute = node.target->As<ast::Attribute>()) {
    KILN_ASSIGN_OR_RETURN(const Value self, EvalKeepingVariable(attribute->value));
    KILN_ASSIGN_OR_RETURN(Value old, GetAttribute(self, attribute->attr, attribute->attr_loc));
    KILN_ASSIGN_OR_RETURN(old, Decay(old, node.loc));
    const Moment then = Now();
    KILN_ASSIGN_OR_RETURN(const Value right, Eval(node.value));
    KILN_RETURN_IF_ERROR(CheckStillHolds(old, then, attribute->loc));
    KILN_ASSIGN_OR_RETURN(const Value value, Classes(this).Update(node.op, old, right, node.loc));
    return SetAttribute(self, attribute->attr, value, node.target->loc);
  }
  const auto* target = node.target->As<ast::Subscript>();
  if (target == nullptr) return Error(node.target->loc, "this cannot be updated", "update a name");
  KILN_ASSIGN_OR_RETURN(const Value base, EvalKeepingVariable(target->value));
  if (!base.Is(Type::kBuffer)) {
    KILN_ASSIGN_OR_RETURN(const Value index, EvalKey(*target));
    KILN_ASSIGN_OR_RETURN(const Value old, SubscriptSequence(base, index, target->loc));
    KILN_ASSIGN_OR_RETURN(const Value right, Eval(node.value));
    KILN_ASSIGN_OR_RETURN(const Value value, Classes(this).Update(node.op, old, right, node.loc));
    return AssignItem(base, index, value, target->loc);
  }
  KILN_ASSIGN_OR_RETURN(const Value place, EvalSubscript(*target));
  if (!IsVector(place) && !place.access().is_point) {
    return Error(target->loc, absl::StrCat(Describe(place), " is updated in place"),
                 LacksIndices(place) ? IndexAll(place) : "update element by element in T.Parallel");
  }
  if (!MayStore()) {
    return Error(target->loc,
                 absl::StrCat("the plain function '", frame_->name, "' stores to a buffer"),
                 "make the function a @T.macro");
  }
  KILN_RETURN_IF_ERROR(RequireLaunch(target->loc, "a store"));
  const Moment then = Now();
  KILN_ASSIGN_OR_RETURN(const Value right, Eval(node.value));
  KILN_RETURN_IF_ERROR(CheckStillHolds(place, then, target->loc));
  KILN_ASSIGN_OR_RETURN(const Value value, BinaryOp(node.op, place, right, node.loc));
  if (IsVector(place)) return StoreLanes(*this, place.seq().items, value, node.loc);
  const AccessObject& access = place.access();
  std::vector<ir::Expr> indices;
  for (const AccessIndex& index : access.indices) indices.push_back(index.min);
  return StoreElement(access.buffer, std::move(indices), value, node.loc);
}

absl::Status Elaborator::ExecAnnAssign(const ast::AnnAssign& node) {
  const auto* name = node.target->As<ast::Name>();
  if (node.value == nullptr) {
    if (name == nullptr || !frame_->is_entry || kernel_def_ == nullptr) return absl::OkStatus();
    const std::vector<ast::Param>& params = kernel_def_->params;
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i].name != name->id) continue;
      KILN_ASSIGN_OR_RETURN(const Value annotation, EagerAnnotation(node.annotation));
      return DeclareParam(i, params[i], annotation, node.annotation->loc, frame_->scope);
    }
    if (KindOfAnnotation(node.annotation) == AnnotationKind::kTensor) {
      return Error(
          node.target->loc,
          absl::StrCat("'", name->id, "' is annotated as a tensor, but is no parameter of '",
                       kernel_def_->name, "'"),
          "add it to the parameters, or make an output with T.empty");
    }
    return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(const absl::string_view hinted, HintOf(node.target));
  Hint hint(&name_hint_, hinted);
  KILN_ASSIGN_OR_RETURN(Value value, Eval(node.value));
  // `x: T.float32 = v` converts.
  if (frame_->traced && KindOfAnnotation(node.annotation) == AnnotationKind::kScalar &&
      (IsRuntime(value) || value.is_number())) {
    KILN_ASSIGN_OR_RETURN(const Value type, Eval(node.annotation));
    if (type.Is(Type::kDType) && type.dtype().lanes > 1) {
      return Error(node.annotation->loc,
                   absl::StrCat("a scalar is annotated as ", type.dtype().ToString()),
                   "make a vector of it with T.Broadcast");
    }
    if (type.Is(Type::kDType) && !(value.Is(Type::kBuffer))) {
      KILN_ASSIGN_OR_RETURN(const Operand cast, ToType(value, type.dtype(), node.loc, "the value"));
      KILN_ASSIGN_OR_RETURN(value, NewExpr(cast, node.loc));
    }
  }
  KILN_RETURN_IF_ERROR(AssignTo(node.target, value));
  NoteMade(node.target, node.value);
  return absl::OkStatus();
}

}  // namespace kiln::lang
