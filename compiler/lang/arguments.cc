#include "compiler/lang/arguments.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"
#include "compiler/lang/builtin.h"

namespace kiln::lang {
namespace {

constexpr absl::string_view kWord = "T.dynamic";

bool IsIdentifier(absl::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

}  // namespace

std::string DynamicArgument(absl::string_view dimension) {
  return absl::StrCat(kWord, "(\"", dimension, "\")");
}

absl::StatusOr<std::string> DimensionOf(absl::string_view name, absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&rest, kWord)) return std::string();
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.empty()) rest = name;
  if (absl::ConsumePrefix(&rest, "(") && absl::ConsumeSuffix(&rest, ")")) {
    rest = absl::StripAsciiWhitespace(rest);
    for (const absl::string_view quote : {"\"", "'"}) {
      absl::string_view inside = rest;
      if (!absl::ConsumePrefix(&inside, quote) || !absl::ConsumeSuffix(&inside, quote)) continue;
      if (IsIdentifier(inside)) return std::string(inside);
    }
  } else if (IsIdentifier(rest) && rest == name) {
    return std::string(rest);
  }
  return absl::InvalidArgumentError(absl::StrCat("argument ", name, "=", text.substr(0, 80),
                                                 ": it names no run-time dimension\n  help: write ",
                                                 DynamicArgument(IsIdentifier(name) ? name : "M"),
                                                 ", or T.dynamic alone"));
}

absl::StatusOr<Value> MemberArgument(const ast::Attribute& attribute) {
  if (const auto type = ParseDType(attribute.attr)) return Value::OfDType(*type);
  const auto* outer = attribute.value->As<ast::Attribute>();
  if (outer != nullptr && outer->attr == "GemmWarpPolicy") {
    const auto& policies = FindModule("tilelang.language.GemmWarpPolicy")->members;
    const auto policy = policies.find(attribute.attr);
    if (policy != policies.end()) return policy->second;
  }
  return absl::InvalidArgumentError("unknown name");
}

std::string NormaliseArgument(absl::string_view name, absl::string_view text) {
  const absl::StatusOr<std::string> dimension = DimensionOf(name, text);
  if (!dimension.ok() || dimension->empty()) return std::string(text);
  return DynamicArgument(*dimension);
}

}  // namespace kiln::lang
