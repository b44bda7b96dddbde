#include "compiler/lang/target_facts.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace kiln::lang {

TargetFacts FactsOf(const target::Arch& arch) {
  TargetFacts facts;
  facts.cores = std::max(1, arch.cores);
  facts.gpu = arch.kind == target::ArchKind::kGpu;
  facts.name = arch.model.empty() ? arch.name : arch.model;
  facts.shared_bytes = arch.smem_block;
  if (facts.gpu) facts.cluster = arch.cluster;
  absl::string_view digits = arch.name;  // sm_90a
  if (!facts.gpu || digits.substr(0, 3) != "sm_") return facts;
  digits.remove_prefix(3);
  while (!digits.empty() && (digits.back() < '0' || digits.back() > '9')) digits.remove_suffix(1);
  int capability = 0;
  if (absl::SimpleAtoi(digits, &capability) && capability >= 10) {
    facts.major = capability / 10;
    facts.minor = capability % 10;
  }
  return facts;
}

}  // namespace kiln::lang
