#include "worker/cores.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/affinity.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

// Of a file that holds one; empty where it is not there.
std::vector<int> CoresIn(const std::string& path) {
  std::string line;
  std::ifstream in(path);
  if (!std::getline(in, line)) return {};
  return ParseCores(line).value_or(std::vector<int>());
}

// Itself, and the hyperthreads beside it.
std::vector<int> Siblings(const std::string& system, int core) {
  std::vector<int> cores = CoresIn(
      absl::StrCat(system, "/devices/system/cpu/cpu", core, "/topology/thread_siblings_list"));
  cores.push_back(core);
  return cores;
}

// The last free core near the GPU: the first ones serve interrupts. -1: none is free.
int CoreNear(const std::string& system, const std::string& place, const std::set<int>& free) {
  const std::vector<int> near = CoresIn(
      absl::StrCat(system, "/bus/pci/devices/", absl::AsciiStrToLower(place), "/local_cpulist"));
  int last = -1;
  for (const int core : near) {
    if (free.count(core) > 0) last = std::max(last, core);
  }
  if (last >= 0) return last;
  return free.empty() ? -1 : *free.rbegin();
}

absl::StatusOr<std::vector<int>> Named(const std::string& wanted, size_t gpus,
                                       const std::vector<int>& allowed) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int> cores, ParseCores(wanted));
  const std::set<int> distinct(cores.begin(), cores.end());
  if (cores.size() != gpus || distinct.size() != gpus) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--quiet-cores=", wanted, " must name one core for each of the ", gpus, " GPUs"));
  }
  for (const int core : cores) {
    if (std::count(allowed.begin(), allowed.end(), core) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--quiet-cores: there is no core ", core, "; there are ", CoresText(allowed)));
  }
  return cores;
}

}  // namespace

absl::StatusOr<QuietCores> PlanCores(const std::string& wanted,
                                     const std::vector<std::string>& places,
                                     const std::vector<int>& allowed, const std::string& system) {
  QuietCores plan;
  if (wanted == "off" || places.empty()) return plan;
  const bool choose = wanted == "auto";
  std::set<int> free(allowed.begin(), allowed.end());
  std::vector<int> named;
  if (!choose) {
    KILN_ASSIGN_OR_RETURN(named, Named(wanted, places.size(), allowed));
  }
  for (size_t gpu = 0; gpu < places.size(); ++gpu) {
    const int core = choose ? CoreNear(system, places[gpu], free) : named[gpu];
    if (core < 0) break;
    plan.measuring.push_back(core);
    for (const int sibling : Siblings(system, core)) free.erase(sibling);
  }
  if (choose && free.size() < std::max<size_t>(2, places.size() + 1)) {
    plan.measuring.clear();
    plan.notes = absl::StrCat(allowed.size(), " cores are too few to keep one quiet for each GPU");
    return plan;
  }
  if (free.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--quiet-cores=", wanted, " leaves no core for anything else"));
  }
  plan.others.assign(free.begin(), free.end());
  plan.notes = absl::StrCat("measuring on ", CoresText(plan.measuring), ", all else on ",
                            CoresText(plan.others));
  return plan;
}

}  // namespace kiln::worker
