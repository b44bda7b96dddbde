#include "compiler/base/config.h"

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

bool IsIdentifier(absl::string_view text) {
  if (text.empty() || absl::ascii_isdigit(text[0])) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

// A literal: what can stand in a config without quoting rules of its own.
bool IsValueText(absl::string_view text) {
  if (text.empty() || text.size() > 256) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) &&
        absl::string_view("_.+-'\"").find(c) == absl::string_view::npos) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsOptionName(absl::string_view name) {
  const size_t dot = name.find('.');
  return dot != absl::string_view::npos && IsIdentifier(name.substr(0, dot)) &&
         IsIdentifier(name.substr(dot + 1));
}

absl::StatusOr<Config> Config::Parse(absl::string_view text) {
  Config config;
  if (absl::StripAsciiWhitespace(text).empty()) return config;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equal = part.find('=');
    if (equal == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("config part '", part, "' has no '='; write name=value,name=value"));
    }
    const absl::string_view name = absl::StripAsciiWhitespace(part.substr(0, equal));
    const absl::string_view value = absl::StripAsciiWhitespace(part.substr(equal + 1));
    if (!IsIdentifier(name) && !IsOptionName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("config name '", name, "' is not an identifier"));
    }
    if (!IsValueText(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "config value '", value, "' of '", name,
          "' is not a literal; use an integer, a float, True, False, None or a dtype name"));
    }
    if (!config.values_.emplace(name, value).second) {
      return absl::InvalidArgumentError(absl::StrCat("config names '", name, "' twice"));
    }
  }
  return config;
}

std::string Config::ToString() const {
  return absl::StrJoin(values_, ",", absl::PairFormatter("="));
}

const std::string* Config::Find(absl::string_view name) const {
  const auto it = values_.find(std::string(name));
  return it == values_.end() ? nullptr : &it->second;
}

Config Config::MergedWith(const Config& other) const {
  Config merged = other;
  merged.values_.insert(values_.begin(), values_.end());
  return merged;
}

}  // namespace kiln
