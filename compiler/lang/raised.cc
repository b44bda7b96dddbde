#include "compiler/lang/raised.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/diagnostic.h"

namespace kiln::lang {
namespace {

constexpr char kType[] = "kiln/raised";
constexpr char kNamed[] = "a handler is named";  // in place of a type

// Of Python's exceptions each one's base, where that is not Exception alone.
constexpr std::pair<absl::string_view, absl::string_view> kBases[] = {
    {"KeyError", "LookupError"},
    {"IndexError", "LookupError"},
    {"ZeroDivisionError", "ArithmeticError"},
    {"OverflowError", "ArithmeticError"},
    {"FloatingPointError", "ArithmeticError"},
    {"ModuleNotFoundError", "ImportError"},
    {"NotImplementedError", "RuntimeError"},
    {"RecursionError", "RuntimeError"},
    {"UnicodeError", "ValueError"},
    {"FileNotFoundError", "OSError"},
    {"PermissionError", "OSError"},
    {"TimeoutError", "OSError"},
    {"UnboundLocalError", "NameError"},
};
constexpr absl::string_view kOthers[] = {
    "LookupError",   "ArithmeticError", "ImportError", "RuntimeError",   "ValueError",
    "OSError",       "NameError",       "TypeError",   "AssertionError", "AttributeError",
    "StopIteration", "SyntaxError",     "EOFError",    "MemoryError",    "BufferError",
};

const absl::string_view* BaseOf(absl::string_view type) {
  const auto at = std::find_if(std::begin(kBases), std::end(kBases),
                               [&](const auto& row) { return row.first == type; });
  return at == std::end(kBases) ? nullptr : &at->second;
}

bool IsPythons(absl::string_view type) {
  return BaseOf(type) != nullptr ||
         std::find(std::begin(kOthers), std::end(kOthers), type) != std::end(kOthers);
}

std::string NameOf(ast::ExprPtr type) {
  if (const auto* name = type->As<ast::Name>()) return name->id;
  if (const auto* attribute = type->As<ast::Attribute>()) return attribute->attr;
  return "";
}

// `raised` is empty for an exception of a type that is not known.
bool MayCatch(absl::string_view handler, absl::string_view raised) {
  if (handler == "Exception" || handler == "BaseException") return true;
  const bool of_import = handler == "ImportError" || handler == "ModuleNotFoundError";
  if (raised.empty()) return !of_import;
  if (!IsPythons(handler) || !IsPythons(raised)) return !of_import;  // a class of the file
  for (const absl::string_view* type = &raised; type != nullptr; type = BaseOf(*type)) {
    if (*type == handler) return true;
  }
  return false;
}

bool MayCatch(const ast::Handler& handler, absl::string_view raised) {
  if (handler.type == nullptr) return true;
  const auto* tuple = handler.type->As<ast::Tuple>();
  if (tuple == nullptr) return MayCatch(NameOf(handler.type), raised);
  return std::any_of(tuple->items.begin(), tuple->items.end(),
                     [&](ast::ExprPtr type) { return MayCatch(NameOf(type), raised); });
}

bool IsBuiltIn(absl::string_view type) { return type == "Exception" || IsPythons(type); }

enum class Catch : uint8_t { kNo, kYes, kUnknown };

// `type`: of the handler.
Catch Catches(absl::string_view type, absl::string_view raised) {
  if (raised.empty()) return MayCatch(type, raised) ? Catch::kUnknown : Catch::kNo;
  if (type == raised) return Catch::kYes;
  if (!IsBuiltIn(raised)) return Catch::kUnknown;
  if (type == "Exception" || type == "BaseException") return Catch::kYes;
  if (!IsBuiltIn(type)) return Catch::kUnknown;
  for (const absl::string_view* base = BaseOf(raised); base != nullptr; base = BaseOf(*base)) {
    if (*base == type) return Catch::kYes;
  }
  return Catch::kNo;
}

Catch Catches(const ast::Handler& handler, absl::string_view raised) {
  if (handler.type == nullptr) return Catches("BaseException", raised);
  std::vector<ast::ExprPtr> types = {handler.type};
  if (const auto* tuple = handler.type->As<ast::Tuple>()) types = tuple->items;
  Catch any = Catch::kNo;
  for (ast::ExprPtr type : types) {
    const Catch one = Catches(NameOf(type), raised);
    if (one == Catch::kYes) return one;
    if (one == Catch::kUnknown) any = one;
  }
  return any;
}

std::string Spelled(const ast::Handler& handler) {
  if (handler.type == nullptr) return "except";
  const auto* tuple = handler.type->As<ast::Tuple>();
  if (tuple == nullptr) return absl::StrCat("except ", NameOf(handler.type));
  std::vector<std::string> names;
  for (ast::ExprPtr type : tuple->items) names.push_back(NameOf(type));
  return absl::StrCat("except (", absl::StrJoin(names, ", "), ")");
}

}  // namespace

absl::Status Raised(absl::Status error, absl::string_view type) {
  error.SetPayload(kType, absl::Cord(type));
  return error;
}

std::string ExceptionOf(const absl::Status& error) {
  if (error.code() != absl::StatusCode::kInvalidArgument) return "";
  const std::string type(error.GetPayload(kType).value_or(absl::Cord()));
  return type == kNamed ? "" : type;
}

const ast::Handler* HandlerOf(const absl::Status& error, const ast::Try& node) {
  const std::string raised = ExceptionOf(error);
  if (raised.empty()) return nullptr;
  for (const ast::Handler& handler : node.handlers) {
    const Catch found = Catches(handler, raised);
    if (found == Catch::kUnknown) return nullptr;
    if (found == Catch::kYes) return &handler;
  }
  return nullptr;
}

absl::Status NotFollowed(const absl::Status& error, const ast::Try& node) {
  std::optional<Diagnostic> d = DiagnosticOf(error);
  if (!d.has_value() || error.code() != absl::StatusCode::kInvalidArgument) return error;
  const std::string raised(error.GetPayload(kType).value_or(absl::Cord()));
  if (raised == kNamed) return error;
  const auto handler = std::find_if(node.handlers.begin(), node.handlers.end(),
                                    [&](const ast::Handler& h) { return MayCatch(h, raised); });
  if (handler == node.handlers.end()) return error;
  absl::StrAppend(&d->message, "; the '", Spelled(*handler), "' around it is not followed");
  return Raised(DiagnosticStatus(*d), kNamed);
}

}  // namespace kiln::lang
