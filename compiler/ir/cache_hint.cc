#include "compiler/ir/cache_hint.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"

namespace kiln::ir {

std::string ToText(const CacheHint& hint) {
  return hint.part < 1 ? absl::StrFormat("%s %.9g", hint.policy, hint.part) : hint.policy;
}

std::optional<CacheHint> ParseCacheHint(const std::string& text) {
  if (text == "evict_normal") return std::nullopt;
  const std::pair<std::string, std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  CacheHint hint{words.first};
  if (!words.second.empty()) KILN_CHECK(absl::SimpleAtof(words.second, &hint.part));
  return hint;
}

std::map<std::string, CacheHint> CacheHintsOf(const Launch& launch) {
  std::map<std::string, CacheHint> hints;
  for (const auto& [note, text] : launch.annotations) {
    absl::string_view tensor = note;
    if (absl::ConsumePrefix(&tensor, "stream:") &&
        launch.annotations.count(absl::StrCat("evict:", tensor)) == 0) {
      hints[std::string(tensor)] = {"evict_first", 1, true};
    } else if (absl::ConsumePrefix(&tensor, "evict:")) {
      if (const auto hint = ParseCacheHint(text)) hints[std::string(tensor)] = *hint;
    }
  }
  return hints;
}

std::optional<CacheHint> CacheHintOf(const Launch& launch, const Copy& copy) {
  const auto own = copy.annotations.find("eviction_policy");
  if (own != copy.annotations.end()) return ParseCacheHint(own->second);
  const auto hints = CacheHintsOf(launch);
  const auto hint = hints.find(copy.src.buffer->name);
  return hint == hints.end() ? std::nullopt : std::make_optional(hint->second);
}

}  // namespace kiln::ir
