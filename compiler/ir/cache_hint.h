// How long the second-level cache is asked to keep what a launch reads or writes of a tensor.
#ifndef KILN_COMPILER_IR_CACHE_HINT_H_
#define KILN_COMPILER_IR_CACHE_HINT_H_

#include <map>
#include <optional>
#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct CacheHint {
  std::string policy;      // "evict_first" or "evict_last"
  std::string part = "1";  // of the accesses, above 0 to 1, that ask for it; the others for nothing
};

// Of a launch's accesses to a tensor: what the kernel says ("evict:<tensor>", passes/cache_hints)
// or else a pass found ("stream:<tensor>", passes/stream_loads).
std::optional<CacheHint> CacheHintOf(const Launch& launch, const std::string& tensor);

// The same of one copy, whose own word ("eviction_policy") goes first.
std::optional<CacheHint> CacheHintOf(const Launch& launch, const Copy& copy);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_CACHE_HINT_H_
