#include "compiler/codegen/c_names.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln::codegen {
namespace {

// Keywords of C23 (6.4.1) and C++20 ([lex.key], alternative tokens among them), as far as they do
// not begin with an underscore; macros that GNU compilers know; and what the header itself says.
// clang-format off
constexpr absl::string_view kTaken[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return",
    "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
    "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
    "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert",
    "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try",
    "typedef", "typeid", "typename", "typeof", "typeof_unqual", "union", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "linux", "unix", "i386",
    "NULL", "offsetof", "SIZE_MAX", "PTRDIFF_MAX", "PTRDIFF_MIN", "SIG_ATOMIC_MAX",
    "SIG_ATOMIC_MIN", "WCHAR_MAX", "WCHAR_MIN", "WINT_MAX", "WINT_MIN", "int32_t", "int64_t",
    "uint32_t", "uint64_t", "kiln_launch", "kiln_task", "kiln_parallel_for"};
// clang-format on

bool IsTaken(absl::string_view name) {
  const bool sized = absl::StartsWith(name, "INT") || absl::StartsWith(name, "UINT");
  const bool limit = absl::EndsWith(name, "_MAX") || absl::EndsWith(name, "_MIN") ||
                     absl::EndsWith(name, "_WIDTH") || absl::EndsWith(name, "_C");
  return (sized && limit) || absl::StartsWith(name, "KILN_") || absl::c_linear_search(kTaken, name);
}

}  // namespace

bool IsCIdentifier(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0]) || IsTaken(name)) return false;
  return absl::c_all_of(name, [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

std::string FreeName(std::string name) {
  if (IsTaken(name)) name += '_';
  return name;
}

std::string DefaultSymbol(absl::string_view kernel) {
  return FreeName(absl::StrCat("kiln_", kernel));
}

std::string ArgumentNames::Add(std::string name) {
  if (absl::StartsWith(name, "_")) name.insert(0, "arg");  // those are the compilers' own
  name = FreeName(std::move(name));
  while (!taken_.insert(name).second) name += '_';
  return name;
}

}  // namespace kiln::codegen
