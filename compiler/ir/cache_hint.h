// How long the second-level cache is asked to keep what a launch reads or writes of a tensor.
#ifndef KILN_COMPILER_IR_CACHE_HINT_H_
#define KILN_COMPILER_IR_CACHE_HINT_H_

#include <map>
#include <optional>
#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct CacheHint {
  std::string policy;  // "evict_first" or "evict_last"
  float part = 1;      // of the accesses, above 0 to 1, that ask for it; the others ask for nothing
  // No loop loads from one address twice, and nothing is written there: loads may be moved.
  bool once = false;
};

// "evict_last 0.75"; without a part that is 1, and never with `once`.
std::string ToText(const CacheHint& hint);

// What such a text asks for; nothing of "evict_normal".
std::optional<CacheHint> ParseCacheHint(const std::string& text);

// Of a launch's accesses, by the tensor's name: what the kernel says ("evict:<tensor>",
// passes/cache_hints), or else a pass found ("stream:<tensor>", passes/stream_loads).
std::map<std::string, CacheHint> CacheHintsOf(const Launch& launch);

// Of what one copy reads; its own word ("eviction_policy") goes first.
std::optional<CacheHint> CacheHintOf(const Launch& launch, const Copy& copy);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_CACHE_HINT_H_
