#include "worker/devices.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"
#include "compiler/base/subprocess.h"

namespace kiln::worker {
namespace {

// A driver may need seconds to wake its devices.
constexpr auto kAnswerLimit = std::chrono::seconds(60);

struct Gpu {
  std::string name, kind, place;  // "gpu0", "sm_90a NVIDIA H200", "0000:17:00.0"
};
struct Found {
  std::vector<Gpu> gpus;
  std::string notes;
};

void Add(const Gpu& gpu, Devices* devices) {
  devices->names.push_back(gpu.name);
  devices->kinds.push_back(gpu.kind);
  devices->places.push_back(gpu.place);
}

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
      const size_t at = words.second.rfind(" at ");
      found.gpus.push_back(
          {words.first, words.second.substr(0, at),
           at == std::string::npos ? "" : words.second.substr(at + std::strlen(" at "))});
    } else {
      absl::StrAppend(&found.notes, found.notes.empty() ? "" : "; ", line);
    }
  }
  return found;
}

bool NamesGpu(absl::string_view name) {
  return absl::ConsumePrefix(&name, "gpu") && !name.empty() &&
         std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

absl::StatusOr<Devices> Named(const std::string& wanted, const Found& found) {
  Devices devices;
  for (const absl::string_view name : absl::StrSplit(wanted, ',')) {
    const auto known = std::find_if(found.gpus.begin(), found.gpus.end(),
                                    [&](const Gpu& gpu) { return gpu.name == name; });
    if (known == found.gpus.end()) {
      return absl::InvalidArgumentError(absl::StrCat("no device '", name, "' here",
                                                     found.notes.empty() ? "" : ": ", found.notes));
    }
    if (std::count(devices.names.begin(), devices.names.end(), name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", wanted, "' names ", name, " twice"));
    }
    Add(*known, &devices);
  }
  return devices;
}

bool IsNamed(const std::string& wanted) {
  return wanted != "cpu" && wanted != "auto" && wanted != "gpu";
}

}  // namespace

absl::Status CheckDevices(const std::string& wanted) {
  if (!IsNamed(wanted)) return absl::OkStatus();
  for (const absl::string_view name : absl::StrSplit(wanted, ',')) {
    if (NamesGpu(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' of '", wanted,
                     "' is no GPU: write auto, cpu, gpu (all GPUs), or some, as in gpu0,gpu2"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Devices> ChooseDevices(const std::string& wanted, const std::string& runner_binary) {
  KILN_RETURN_IF_ERROR(CheckDevices(wanted));
  if (wanted == "cpu") return Devices{{"cpu"}, ""};
  KILN_ASSIGN_OR_RETURN(const Found found, AskRunner(runner_binary));
  if (IsNamed(wanted)) return Named(wanted, found);
  if (found.gpus.empty() && wanted == "gpu") {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU here", found.notes.empty() ? "" : ": ", found.notes));
  }
  if (found.gpus.empty()) return Devices{{"cpu"}, found.notes};
  Devices devices;
  for (const Gpu& gpu : found.gpus) Add(gpu, &devices);
  devices.notes = found.notes;
  return devices;
}

}  // namespace kiln::worker
