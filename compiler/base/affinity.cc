#include "compiler/base/affinity.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kiln {

std::vector<int> AllowedCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

absl::Status RunOn(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  if (::sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot run on the cores ", CoresText(cores), ": ", std::strerror(errno)));
}

absl::StatusOr<std::vector<int>> ParseCores(absl::string_view text) {
  std::vector<int> cores;
  for (const absl::string_view part : absl::StrSplit(absl::StripAsciiWhitespace(text), ',')) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    bool good = absl::SimpleAtoi(ends.first, &first) && first >= 0;
    last = first;
    if (part.find('-') != absl::string_view::npos) good &= absl::SimpleAtoi(ends.second, &last);
    if (!good || last < first || last >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no list of cores"));
    }
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

std::string CoresText(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", cores[i]);
    if (last > i) absl::StrAppend(&text, "-", cores[last]);
    i = last + 1;
  }
  return text;
}

OnCore::OnCore(int core) {
  if (core < 0 || ::sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  moved_ = RunOn({core}).ok();
}

OnCore::~OnCore() {
  if (moved_) (void)::sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace kiln
