// The functions that the entry stands in: what it reads of them, and the object that it belongs to.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/free_names.h"
#include "compiler/lang/touches.h"

namespace kiln::lang {
namespace {

// super().__init__(...): what it gives the object is not followed, and missing where it is read.
bool IsSuperInit(ast::StmtPtr stmt) {
  const ast::Call* call = stmt->kind == ast::StmtKind::kExpr ? CallOf(stmt) : nullptr;
  const auto* method = call == nullptr ? nullptr : call->callee->As<ast::Attribute>();
  const auto* base = method == nullptr ? nullptr : method->value->As<ast::Call>();
  return base != nullptr && method->attr == "__init__" && LastName(base) == "super";
}

}  // namespace

// An object of the entry's class, whose attributes the __init__ around the entry gives it; or the
// class itself.
absl::StatusOr<Value> Elaborator::Classes::OfEntry(const ast::Function& method) {
  const ast::Class& def = *e_.module_.owner;
  if (!e_.owner_.is_none()) return e_.owner_;
  const SourceSection& section = e_.module_.SectionAt(def.loc);
  KILN_ASSIGN_OR_RETURN(const Value type, e_.ReadGlobalOf(section, def.name, def.loc, SIZE_MAX));
  if (!type.Is(Type::kClass)) {
    return e_.Error(def.loc, absl::StrCat("'", def.name, "' is ", Describe(type), ", no class"),
                    "give the class a name of its own");
  }
  KILN_RETURN_IF_ERROR(e_.Prepare(&type.type_object(), def.loc));
  if (HasDecorator(method, "classmethod")) return type;
  auto* object = e_.arena_.New<InstanceObject>();
  object->type = &type.type_object();
  object->region = e_.CurrentRegion();
  e_.owner_ = Value::Of(Type::kInstance, object);
  return e_.owner_;
}

// A statement of an __init__ that kernels cannot run, such as one that makes a layer: the
// attributes that it would set have no value, for that reason. False: it is another failure.
bool Elaborator::Classes::LeaveOut(ast::StmtPtr stmt, const absl::Status& why) {
  const auto d = DiagnosticOf(why);
  const auto* assign = stmt->As<ast::Assign>();
  if (!d.has_value() || assign == nullptr || e_.needs_.has_value() ||
      why.code() == absl::StatusCode::kResourceExhausted) {
    return false;
  }
  for (ast::ExprPtr target : assign->targets) {
    const auto* attribute = target->As<ast::Attribute>();
    if (attribute == nullptr) return false;
    auto* unknown = e_.arena_.New<UnknownObject>();
    unknown->path = unknown->module = absl::StrCat("self.", attribute->attr);
    unknown->reason = absl::StrCat(d->message, " (", e_.At(d->loc), ")");
    unknown->remedy = d->remedy;
    e_.owner_.instance().attributes.emplace_back(attribute->attr,
                                                 Value::Of(Type::kUnknown, unknown));
  }
  return true;
}

absl::Status Elaborator::RunAround(const Kernel& kernel) {
  const bool of_object = !module_.around.empty() && module_.around[0]->name == "__init__" &&
                         module_.IsSelf(*module_.around[0], 0);
  // Innermost first: what each needs of the function around it.
  std::vector<NameSet> needed(module_.around.size());
  std::vector<std::vector<ast::StmtPtr>> kept(module_.around.size());
  NameSet wanted = FreeNames(*module_.entry);
  std::vector<std::unique_ptr<Touches>> inside;  // of each function's body
  Touches* enclosing = &module_.TouchesAt(module_.entry->loc);
  for (const ast::Function* outer : module_.around) {
    inside.push_back(std::make_unique<Touches>(*outer, enclosing));
    enclosing = inside.back().get();
  }
  for (size_t i = module_.around.size(); i-- > 0;) {
    const ast::Function& outer = *module_.around[i];
    const ast::Function& inner =
        i + 1 < module_.around.size() ? *module_.around[i + 1] : *module_.entry;
    if (i == 0 && of_object) wanted.insert(outer.params[0].name);  // for what follows
    std::vector<bool> keep(outer.body.size(), false);
    NameSet own_names;
    for (const ast::Param& param : outer.params) own_names.insert(param.name);
    for (ast::StmtPtr stmt : outer.body) {
      std::vector<absl::string_view> bound;
      CollectBindings(stmt, &bound);
      own_names.insert(bound.begin(), bound.end());
    }
    std::vector<NameSet> touched;  // of those, by each statement
    Touches& touches = *inside[i];
    for (ast::StmtPtr stmt : outer.body) {
      touched.push_back(touches.Of(stmt));
      absl::erase_if(touched.back(),
                     [&](absl::string_view name) { return !own_names.contains(name); });
      std::vector<absl::string_view> bound;
      CollectBindings(stmt, &bound);
      touched.back().insert(bound.begin(), bound.end());
    }
    for (bool more = true; more;) {
      more = false;
      for (size_t s = 0; s < outer.body.size(); ++s) {
        if (keep[s] || outer.body[s] == &inner || IsSuperInit(outer.body[s])) continue;
        const bool of_use = std::any_of(touched[s].begin(), touched[s].end(),
                                        [&](absl::string_view n) { return wanted.contains(n); });
        if (!of_use) continue;
        keep[s] = more = true;
        const NameSet reads = NamesRead(outer.body[s]);
        wanted.insert(reads.begin(), reads.end());
      }
    }
    for (size_t s = 0; s < keep.size(); ++s) {
      if (keep[s]) kept[i].push_back(outer.body[s]);
    }
    needed[i] = wanted;
    std::vector<absl::string_view> own;
    for (ast::StmtPtr stmt : outer.body) CollectBindings(stmt, &own);
    for (absl::string_view name : own) wanted.erase(name);
    for (const ast::Param& param : outer.params) {
      if (wanted.erase(param.name) == 0 || param.default_value == nullptr) continue;
      ast::ExprStmt outside(param.loc);
      outside.value = param.default_value;
      const NameSet reads = NamesRead(&outside);
      wanted.insert(reads.begin(), reads.end());
    }
  }
  for (size_t i = 0; i < module_.around.size(); ++i) {
    Scope* scope = arena_.New<Scope>();
    scope->parent = around_;
    Frame frame;
    frame.name = module_.around[i]->name;
    frame.scope = scope;
    frame.is_entry = true;
    FrameGuard guard(this, &frame);
    KILN_RETURN_IF_ERROR(BindArguments(kernel, *module_.around[i], scope, &needed[i]));
    for (ast::StmtPtr stmt : kept[i]) {
      const absl::StatusOr<Flow> flow = Exec(stmt);
      if (!flow.ok() && i == 0 && of_object && Classes(this).LeaveOut(stmt, flow.status()))
        continue;
      KILN_RETURN_IF_ERROR(flow.status());
      if (*flow != Flow::kNormal) break;
    }
    // A method does not see the names of the __init__ beside it.
    const ast::Function& next =
        i + 1 < module_.around.size() ? *module_.around[i + 1] : *module_.entry;
    around_ = i == 0 && of_object && module_.IsSelf(next, 0) ? nullptr : scope;
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang
