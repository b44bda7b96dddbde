#include "compiler/codegen/assembler.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/codegen/assemblers.h"

namespace kiln::codegen {

namespace {

// "Function properties for f", "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads" and
// "Used 40 registers".
void ReadResources(Cubin* cubin) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(cubin->log, absl::ByAnyChar(" \n,"), absl::SkipEmpty());
  std::string function;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t value = 0;
    if (words[i] == "for") function = std::string(words[i + 1]);
    if (!absl::SimpleAtoi(words[i], &value)) continue;
    if (words[i + 1] == "registers") {
      cubin->registers = std::max(cubin->registers, static_cast<int>(value));
    } else if (i + 2 < words.size() && words[i + 1] == "bytes" && words[i + 2] == "stack") {
      cubin->stack_bytes = std::max(cubin->stack_bytes, value);
    } else if (i + 2 < words.size() && words[i + 1] == "bytes" && words[i + 2] == "spill") {
      if (value > 0) cubin->spills[function] += value;
    }
  }
}

absl::Status Refusal(const std::string& log) {
  const std::string words = absl::StrCat("the assembler refuses the PTX: ", log);
  const bool resources = absl::StrContains(log, "too much shared data") ||
                         absl::StrContains(log, "too many registers") ||
                         absl::StrContains(log, "Insufficient registers");
  return resources ? absl::ResourceExhaustedError(words) : absl::InternalError(words);
}

// The driver reads PTX up to a zero byte.
Cubin LeftToDriver(const std::string& ptx) {
  Cubin cubin;
  cubin.bytes = ptx + '\0';
  cubin.by_driver = true;
  return cubin;
}

}  // namespace

int64_t Cubin::spill_bytes() const {
  int64_t bytes = 0;
  for (const auto& [function, spilled] : spills) bytes += spilled;
  return bytes;
}

absl::StatusOr<std::string> AssemblerVersion() {
  const absl::StatusOr<std::string> ptxas = PtxasVersion();
  if (ptxas.ok()) return ptxas;
  const absl::StatusOr<std::string> linker = NvJitLinkVersion();
  if (linker.ok()) return linker;
  return absl::UnavailableError(absl::StrCat(
      "no assembler for GPU code: ", ptxas.status().message(), "; ", linker.status().message()));
}

absl::StatusOr<Cubin> Assemble(const std::string& ptx, const std::string& arch, int level) {
  if (!AssemblerVersion().ok()) return LeftToDriver(ptx);
  absl::StatusOr<Assembled> assembled =
      PtxasVersion().ok() ? RunPtxas(ptx, arch, level) : RunNvJitLink(ptx, arch, level);
  if (absl::IsInternal(assembled.status())) {
    return Refusal(std::string(assembled.status().message()));
  }
  KILN_RETURN_IF_ERROR(assembled.status());
  Cubin cubin;
  cubin.bytes = std::move(assembled->bytes);
  cubin.log = std::move(assembled->log);
  ReadResources(&cubin);
  return cubin;
}

}  // namespace kiln::codegen
