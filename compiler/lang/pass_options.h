// The pass options that Kiln honours. A kernel gives them in the pass_configs of its decorator, and
// a config may give them beside tunables ("block_M=128,kiln.cluster=1"), over what the kernel says.
#ifndef KILN_COMPILER_LANG_PASS_OPTIONS_H_
#define KILN_COMPILER_LANG_PASS_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/base/config.h"

namespace kiln::lang {

struct PassOptionRule {
  absl::string_view name;
  std::vector<int64_t> values;  // that it takes; a flag takes False and True
  bool flag = false;            // programs hold it as "false" or "true", others as the number
};

// In order of their names.
const std::vector<PassOptionRule>& PassOptionRules();

// A member of tilelang.PassConfigKey.
struct PassConfigKey {
  const char* name;  // TL_ENABLE_FAST_MATH
  const char* text;  // "tl.enable_fast_math"
  // What Kiln does with a key that is no rule above: empty, it changes neither result nor meaning
  // and is accepted without effect; else why it is refused, unless its value is `harmless`.
  const char* refused = "";
  const char* harmless = "";  // as literal text
};
const std::vector<PassConfigKey>& PassConfigKeys();
// The key of this text, or null.
const PassConfigKey* FindPassConfigKey(absl::string_view text);

// Of the value text of an option, either what programs hold (ir::Program::attrs), or what is wrong.
struct PassOptionValue {
  std::string text;
  std::string fault, remedy;  // a sentence and what to do; empty where nothing is wrong
};

// `text` is a literal of the kernel language: True, False or an integer. An unknown name is at
// fault too ("did you mean").
PassOptionValue ReadPassOption(absl::string_view name, absl::string_view text);

// kInvalidArgument where `config` gives an option that there is not, or a value that it does not
// take.
absl::Status CheckPassOptions(const Config& config);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_PASS_OPTIONS_H_
