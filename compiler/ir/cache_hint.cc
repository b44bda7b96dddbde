#include "compiler/ir/cache_hint.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln::ir {
namespace {

// "evict_last" or "evict_last 0.75".
std::optional<CacheHint> Asked(const std::string& text) {
  if (text == "evict_normal") return std::nullopt;
  const std::pair<std::string, std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  return CacheHint{words.first, words.second.empty() ? "1" : words.second};
}

}  // namespace

std::optional<CacheHint> CacheHintOf(const Launch& launch, const std::string& tensor) {
  const auto asked = launch.annotations.find(absl::StrCat("evict:", tensor));
  if (asked != launch.annotations.end()) return Asked(asked->second);
  if (launch.annotations.count(absl::StrCat("stream:", tensor)) == 0) return std::nullopt;
  return CacheHint{"evict_first"};
}

std::optional<CacheHint> CacheHintOf(const Launch& launch, const Copy& copy) {
  const auto own = copy.annotations.find("eviction_policy");
  if (own != copy.annotations.end()) return Asked(own->second);
  return CacheHintOf(launch, copy.src.buffer->name);
}

}  // namespace kiln::ir
