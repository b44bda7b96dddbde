#include "compiler/codegen/c_names.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"

namespace kiln::codegen {
namespace {

// C17 6.4.1 and C++20 [lex.key], alternative tokens among them.
constexpr absl::string_view kKeywords[] = {"alignas",
                                           "alignof",
                                           "and",
                                           "and_eq",
                                           "asm",
                                           "auto",
                                           "bitand",
                                           "bitor",
                                           "bool",
                                           "break",
                                           "case",
                                           "catch",
                                           "char",
                                           "char16_t",
                                           "char32_t",
                                           "char8_t",
                                           "class",
                                           "co_await",
                                           "co_return",
                                           "co_yield",
                                           "compl",
                                           "concept",
                                           "const",
                                           "const_cast",
                                           "consteval",
                                           "constexpr",
                                           "constinit",
                                           "continue",
                                           "decltype",
                                           "default",
                                           "delete",
                                           "do",
                                           "double",
                                           "dynamic_cast",
                                           "else",
                                           "enum",
                                           "explicit",
                                           "export",
                                           "extern",
                                           "false",
                                           "float",
                                           "for",
                                           "friend",
                                           "goto",
                                           "if",
                                           "inline",
                                           "int",
                                           "long",
                                           "mutable",
                                           "namespace",
                                           "new",
                                           "noexcept",
                                           "not",
                                           "not_eq",
                                           "nullptr",
                                           "operator",
                                           "or",
                                           "or_eq",
                                           "private",
                                           "protected",
                                           "public",
                                           "register",
                                           "reinterpret_cast",
                                           "requires",
                                           "restrict",
                                           "return",
                                           "short",
                                           "signed",
                                           "sizeof",
                                           "static",
                                           "static_assert",
                                           "static_cast",
                                           "struct",
                                           "switch",
                                           "template",
                                           "this",
                                           "thread_local",
                                           "throw",
                                           "true",
                                           "try",
                                           "typedef",
                                           "typeid",
                                           "typename",
                                           "union",
                                           "unsigned",
                                           "using",
                                           "virtual",
                                           "void",
                                           "volatile",
                                           "wchar_t",
                                           "while",
                                           "xor",
                                           "xor_eq"};

bool IsKeyword(absl::string_view name) { return absl::c_linear_search(kKeywords, name); }

}  // namespace

bool IsCIdentifier(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0]) || IsKeyword(name)) return false;
  return absl::c_all_of(name, [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

std::string ArgumentNames::Add(std::string name) {
  while (IsKeyword(name) || !taken_.insert(name).second) name += '_';
  return name;
}

}  // namespace kiln::codegen
