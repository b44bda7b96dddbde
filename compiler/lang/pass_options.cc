#include "compiler/lang/pass_options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

const std::vector<int64_t> kOff = {0, 1};

std::string Listed(const PassOptionRule& rule) {
  if (rule.flag) return "True or False";
  const size_t last = rule.values.size() - 1;
  std::string text = absl::StrJoin(rule.values.begin(), rule.values.begin() + last, ", ");
  return absl::StrCat(text, " or ", rule.values[last]);
}

}  // namespace

const std::vector<PassOptionRule>& PassOptionRules() {
  static const auto& rules = *new std::vector<PassOptionRule>{
      {"kiln.assembler", {0, 1, 2, 3}},
      {"kiln.chain", kOff},
      {"kiln.cluster", {1, 2}},
      {"kiln.instructions", {80, 86, 89, 90, 100}},
      {"kiln.persistent", kOff},
      {"kiln.pingpong", kOff},
      {"kiln.tcgen05", kOff},
      {"kiln.tf32", kOff},
      {"kiln.turn", kOff},
      {"tl.disable_safe_memory_legalize", kOff, true},
      {"tl.disable_thread_storage_sync", kOff, true},
      {"tl.disable_tma_lower", kOff, true},
      {"tl.disable_warp_specialized", kOff, true},
      {"tl.enable_fast_math", kOff, true},
      {"tl.ptxas_register_usage_level", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
  };
  return rules;
}

PassOptionValue ReadPassOption(absl::string_view name, absl::string_view text) {
  const PassOptionRule* rule = nullptr;
  std::vector<std::string> names;
  for (const PassOptionRule& r : PassOptionRules()) {
    names.emplace_back(r.name);
    if (r.name == name) rule = &r;
  }
  if (rule == nullptr) {
    return {
        "", absl::StrCat("the pass option '", name, "' is not supported"),
        DidYouMean(name, names, absl::StrCat("remove it; there are ", absl::StrJoin(names, ", ")))};
  }
  int64_t value = text == "True" ? 1 : 0;
  const bool number = text == "True" || text == "False" || absl::SimpleAtoi(text, &value);
  if (!number || std::count(rule->values.begin(), rule->values.end(), value) == 0) {
    return {"", absl::StrCat("the pass option '", name, "' cannot be ", text),
            absl::StrCat("it takes ", Listed(*rule))};
  }
  return {rule->flag ? (value != 0 ? "true" : "false") : absl::StrCat(value), "", ""};
}

absl::Status CheckPassOptions(const Config& config) {
  for (const auto& [name, text] : config.values()) {
    if (!IsOptionName(name)) continue;
    const PassOptionValue value = ReadPassOption(name, text);
    if (value.fault.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("a config: ", value.fault, "; ", value.remedy));
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang
