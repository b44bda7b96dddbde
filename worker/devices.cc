#include "worker/devices.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/base/subprocess.h"

namespace kiln::worker {
namespace {

// A driver may need seconds to wake its devices.
constexpr auto kAnswerLimit = std::chrono::seconds(60);

struct Found {
  std::vector<std::pair<std::string, std::string>> gpus;  // "gpu0" and "sm_90a NVIDIA H200"
  std::string notes;
};

absl::StatusOr<Found> AskRunner(const std::string& binary) {
  SubprocessOptions options;
  options.argv = {binary, "--devices"};
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Subprocess> child, Subprocess::Spawn(options));
  const std::optional<ExitStatus> exit = child->WaitExit(Subprocess::Clock::now() + kAnswerLimit);
  if (!exit.has_value()) {
    return absl::UnavailableError(absl::StrCat(binary, " does not say which GPUs there are"));
  }
  Found found;
  for (const absl::string_view line :
       absl::StrSplit(child->TakeOutput(), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (absl::StartsWith(words.first, "gpu")) {
      found.gpus.push_back(words);
    } else {
      absl::StrAppend(&found.notes, found.notes.empty() ? "" : "; ", line);
    }
  }
  return found;
}

absl::StatusOr<Devices> Named(const std::string& wanted, const Found& found) {
  Devices devices;
  std::string model;
  for (const absl::string_view name : absl::StrSplit(wanted, ',')) {
    const auto known = std::find_if(found.gpus.begin(), found.gpus.end(),
                                    [&](const auto& gpu) { return gpu.first == name; });
    if (known == found.gpus.end()) {
      return absl::InvalidArgumentError(absl::StrCat("no device '", name, "' here",
                                                     found.notes.empty() ? "" : ": ", found.notes));
    }
    if (!model.empty() && model != known->second) {
      return absl::InvalidArgumentError(absl::StrCat("'", wanted, "' names GPUs of two models, ",
                                                     model, " and ", known->second,
                                                     "; start a worker for each"));
    }
    model = known->second;
    devices.names.push_back(known->first);
  }
  return devices;
}

}  // namespace

absl::StatusOr<Devices> ChooseDevices(const std::string& wanted, const std::string& runner_binary) {
  if (wanted == "cpu") return Devices{{"cpu"}, ""};
  KILN_ASSIGN_OR_RETURN(const Found found, AskRunner(runner_binary));
  if (wanted != "auto" && wanted != "gpu") return Named(wanted, found);
  if (found.gpus.empty() && wanted == "gpu") {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU here", found.notes.empty() ? "" : ": ", found.notes));
  }
  if (found.gpus.empty()) return Devices{{"cpu"}, found.notes};
  Devices devices;
  std::vector<std::string> others;
  for (const auto& [name, model] : found.gpus) {
    (model == found.gpus.front().second ? devices.names : others).push_back(name);
  }
  devices.notes = found.notes;
  if (!others.empty()) {
    absl::StrAppend(&devices.notes, devices.notes.empty() ? "" : "; ", absl::StrJoin(others, ", "),
                    " are of another model: start a worker for them with --devices");
  }
  return devices;
}

}  // namespace kiln::worker
