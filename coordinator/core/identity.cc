#include "coordinator/core/identity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/config.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "compiler/lang/arguments.h"
#include "coordinator/search/searcher.h"
#include "coordinator/search/thresholds.h"
#include "proto/dispatch.h"

namespace kiln::core {
namespace {

constexpr size_t kMaxSource = 1 << 20;
constexpr size_t kMaxText = 4096;
constexpr int kMaxEntries = 4096;
constexpr int kMaxConfigs = 200'000;
constexpr int kMaxTopK = 4096;

absl::Status Bad(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", why));
}

absl::Status CheckNumber(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  return Bad(field, absl::StrCat(value, " is out of range; use ", low, " to ", high));
}

absl::Status CheckText(absl::string_view field, absl::string_view text) {
  if (text.size() <= kMaxText) return absl::OkStatus();
  return Bad(field, absl::StrCat(text.size(), " bytes; the limit is ", kMaxText));
}

absl::Status CheckKernel(const v1::SweepSpec& spec) {
  if (spec.kernel_source().empty() == spec.template_().empty()) {
    return Bad("kernel", spec.template_().empty()
                             ? "give the kernel's source or the name of a shipped template"
                             : "give either a source or a template, not both");
  }
  if (spec.kernel_source().size() > kMaxSource) {
    return Bad("kernel_source",
               absl::StrCat(spec.kernel_source().size(), " bytes; the limit is 1 MiB"));
  }
  KILN_RETURN_IF_ERROR(CheckText("template", spec.template_()));
  KILN_RETURN_IF_ERROR(CheckText("entry", spec.entry()));
  KILN_RETURN_IF_ERROR(CheckText("name", spec.name()));
  KILN_RETURN_IF_ERROR(CheckText("user", spec.user()));
  KILN_RETURN_IF_ERROR(CheckText("target", spec.target()));
  return CheckText("kernel_path", spec.kernel_path());
}

absl::Status CheckSpace(v1::SweepSpec* spec) {
  if (spec->arguments_size() > kMaxEntries || spec->tunables_size() > kMaxEntries ||
      spec->auto_tunables_size() > kMaxEntries || spec->runtime_values_size() > kMaxEntries) {
    return Bad("arguments and tunables", absl::StrCat("at most ", kMaxEntries, " of each"));
  }
  if (spec->configs_size() > kMaxConfigs) {
    return Bad("configs", absl::StrCat(spec->configs_size(), " given; the limit is ", kMaxConfigs));
  }
  for (std::string& text : *spec->mutable_configs()) {
    absl::StatusOr<Config> config = Config::Parse(text);
    if (!config.ok()) return WithContext(config.status(), "configs");
    text = config->ToString();
  }
  std::sort(spec->mutable_auto_tunables()->begin(), spec->mutable_auto_tunables()->end());
  for (auto& [name, text] : *spec->mutable_arguments()) text = lang::NormaliseArgument(name, text);
  return absl::OkStatus();
}

absl::Status NormaliseBudget(v1::SweepSpec* spec) {
  KILN_RETURN_IF_ERROR(CheckNumber("top_k", spec->top_k(), 0, kMaxTopK));
  KILN_RETURN_IF_ERROR(CheckNumber("max_candidates", spec->max_candidates(), 0, INT32_MAX));
  KILN_RETURN_IF_ERROR(CheckNumber("max_seconds", spec->max_seconds(), 0, 1e9));
  KILN_RETURN_IF_ERROR(CheckNumber("deadline_seconds", spec->deadline_seconds(), 0, 1e9));
  KILN_RETURN_IF_ERROR(CheckNumber("priority", spec->priority(), -100, 100));
  if (spec->strategy().empty()) spec->set_strategy("recommended");
  if (spec->top_k() == 0) spec->set_top_k(16);
  return search::NewSearcher(spec->strategy(), {}).status();
}

// "gpu", an architecture or a model of NVIDIA's; else a CPU.
bool IsGpuTarget(absl::string_view target) {
  return target == "gpu" || absl::StartsWith(target, "sm_") || absl::StartsWith(target, "NVIDIA");
}

absl::Status NormaliseMeasurement(v1::SweepSpec* spec) {
  v1::MeasurementPolicy* policy = spec->mutable_measurement();
  KILN_RETURN_IF_ERROR(CheckNumber("measurement.min_seconds", policy->min_seconds(), 0, 3600));
  KILN_RETURN_IF_ERROR(CheckNumber("measurement.min_samples", policy->min_samples(), 0, 100'000));
  KILN_RETURN_IF_ERROR(CheckNumber("measurement.max_samples", policy->max_samples(), 0, 100'000));
  KILN_RETURN_IF_ERROR(
      CheckNumber("measurement.target_relative_error", policy->target_relative_error(), 0, 1));
  KILN_RETURN_IF_ERROR(CheckNumber("measurement.threads", policy->threads(), 0, 65536));
  if (policy->cache() == v1::MeasurementPolicy::CACHE_UNSPECIFIED) {
    policy->set_cache(v1::MeasurementPolicy::COLD);
  }
  // Times of a GPU scatter less, by CUPTI's records.
  if (policy->min_seconds() == 0) policy->set_min_seconds(IsGpuTarget(spec->target()) ? 0.1 : 0.2);
  if (policy->min_samples() == 0) policy->set_min_samples(10);
  if (policy->max_samples() == 0) policy->set_max_samples(1000);
  if (policy->target_relative_error() == 0) policy->set_target_relative_error(0.005);
  if (policy->max_samples() < policy->min_samples()) {
    return Bad("measurement.max_samples", "smaller than min_samples");
  }
  return absl::OkStatus();
}

absl::Status NormaliseCheck(v1::SweepSpec* spec) {
  v1::CheckPolicy* policy = spec->mutable_check();
  KILN_RETURN_IF_ERROR(CheckNumber("check.rtol", policy->rtol(), 0, 1e6));
  KILN_RETURN_IF_ERROR(CheckNumber("check.atol", policy->atol(), 0, 1e300));
  KILN_RETURN_IF_ERROR(CheckNumber("check.samples", policy->samples(), 0, 1e8));
  if (policy->seeds_size() > 64) return Bad("check.seeds", "at most 64");
  if (policy->reference() == v1::CheckPolicy::REFERENCE_UNSPECIFIED) {
    policy->set_reference(v1::CheckPolicy::INTERPRETER);
  }
  if (policy->seeds_size() == 0) {
    policy->add_seeds(1);
    policy->add_seeds(2);
  }
  if (policy->samples() == 0) policy->set_samples(256);
  return absl::OkStatus();
}

// The points in order, both ends among them.
absl::Status NormaliseRange(v1::SweepSpec* spec) {
  if (!spec->has_range()) return absl::OkStatus();
  v1::ShapeRange* range = spec->mutable_range();
  if (range->low() < 1 || range->high() <= range->low()) {
    return Bad("range", absl::StrCat(range->low(), "..", range->high(),
                                     " is no range; the low end is at least 1 and below the high"));
  }
  if (spec->objective() != v1::SweepSpec::TUNE) return Bad("range", "needs the objective TUNE");
  // The range alone says that the argument of its name is left to run time.
  const auto given = spec->arguments().find(range->name());
  if (given != spec->arguments().end() && given->second == lang::DynamicArgument(range->name())) {
    spec->mutable_arguments()->erase(range->name());
  }
  for (const auto* values : {&spec->arguments(), &spec->runtime_values()}) {
    const auto fixed = values->find(range->name());
    if (fixed == values->end()) continue;
    return Bad("range", absl::StrCat(range->name(), " is also given as ", fixed->second,
                                     "; give its range or its value"));
  }
  if (range->points_size() > search::kMaxGivenPoints) {
    return Bad("range.points", absl::StrCat("at most ", search::kMaxGivenPoints));
  }
  if (range->points_size() == 0) {
    for (const int64_t point : search::DefaultPoints(range->low(), range->high())) {
      range->add_points(point);
    }
  }
  std::set<int64_t> points(range->points().begin(), range->points().end());
  points.insert({range->low(), range->high()});
  if (*points.begin() < range->low() || *points.rbegin() > range->high()) {
    return Bad("range.points",
               absl::StrCat("a size is outside of ", range->low(), "..", range->high()));
  }
  range->mutable_points()->Assign(points.begin(), points.end());
  return absl::OkStatus();
}

// Adds the fields of a message that are set, in field order; maps are added by AddMap.
template <typename Message>
void AddMessage(const Message& message, Hasher* hasher) {
  hasher->UpdateField(message.SerializeAsString());
}

void AddMap(const google::protobuf::Map<std::string, std::string>& entries, Hasher* hasher) {
  const std::map<std::string, std::string> sorted(entries.begin(), entries.end());
  hasher->UpdateField(absl::StrCat(sorted.size()));
  for (const auto& [name, value] : sorted) {
    hasher->UpdateField(name);
    hasher->UpdateField(value);
  }
}

void AddSpace(const v1::SweepSpec& spec, Hasher* hasher) {
  hasher->UpdateField(absl::StrJoin(spec.auto_tunables(), "\n"));
  const std::map<std::string, v1::ValueList> tunables(spec.tunables().begin(),
                                                      spec.tunables().end());
  hasher->UpdateField(absl::StrCat(tunables.size()));
  for (const auto& [name, list] : tunables) {
    hasher->UpdateField(name);
    AddMessage(list, hasher);
  }
  hasher->UpdateField(absl::StrJoin(spec.configs(), "\n"));
}

// Everything of the problem but the kernel and the device.
void AddProblem(const v1::SweepSpec& spec, Hasher* hasher) {
  AddMap(spec.arguments(), hasher);
  AddMap(spec.runtime_values(), hasher);
  AddSpace(spec, hasher);
  hasher->UpdateField(absl::StrCat(spec.objective()));
  AddMessage(spec.measurement(), hasher);
  AddMessage(spec.check(), hasher);
  if (spec.has_range()) {
    hasher->UpdateField("range");
    AddMessage(spec.range(), hasher);
  }
  if (spec.has_dispatch()) {
    hasher->UpdateField("dispatch");
    AddMessage(spec.dispatch(), hasher);
  }
}

void AddBudget(const v1::SweepSpec& spec, Hasher* hasher) {
  hasher->UpdateField(spec.strategy());
  hasher->UpdateField(absl::StrCat(spec.seed(), " ", spec.top_k(), " ", spec.max_candidates(), " ",
                                   spec.max_seconds()));
}

void AddKernelText(const v1::SweepSpec& spec, Hasher* hasher) {
  hasher->UpdateField(spec.kernel_source());
  hasher->UpdateField(spec.template_());
  hasher->UpdateField(spec.entry());
}

void AddDevice(const v1::ArchRecord& arch, Hasher* hasher) {
  hasher->UpdateField(arch.name());
  hasher->UpdateField(arch.device_model());
}

void AddClosedProblem(const v1::SweepSpec& spec, const search::Expansion& expansion,
                      Hasher* hasher) {
  hasher->UpdateField(expansion.kernel_digest);
  hasher->UpdateField(expansion.inputs.entry());
  AddDevice(expansion.inputs.arch(), hasher);
  AddProblem(spec, hasher);
}

}  // namespace

bool IsEmptySweep(const v1::SweepSpec& spec) { return spec.template_() == "empty"; }

absl::Status NormaliseSpec(v1::SweepSpec* spec) {
  KILN_RETURN_IF_ERROR(CheckKernel(*spec));
  KILN_RETURN_IF_ERROR(CheckSpace(spec));
  KILN_RETURN_IF_ERROR(NormaliseBudget(spec));
  KILN_RETURN_IF_ERROR(NormaliseMeasurement(spec));
  KILN_RETURN_IF_ERROR(NormaliseCheck(spec));
  if (spec->target().empty()) spec->set_target("cpu");
  if (spec->objective() == v1::SweepSpec::OBJECTIVE_UNSPECIFIED) {
    spec->set_objective(v1::SweepSpec::TUNE);
  }
  KILN_RETURN_IF_ERROR(NormaliseRange(spec));
  if (IsEmptySweep(*spec) && spec->max_candidates() == 0) {
    return Bad("max_candidates", "a sweep of empty tasks needs their number");
  }
  return absl::OkStatus();
}

std::string SpecDigest(const v1::SweepSpec& spec) {
  Hasher hasher;
  hasher.UpdateField("spec");
  AddKernelText(spec, &hasher);
  hasher.UpdateField(spec.target());
  AddProblem(spec, &hasher);
  AddBudget(spec, &hasher);
  hasher.UpdateField(spec.fresh() ? "fresh" : "");
  return hasher.FinishHex();
}

std::string SweepDigest(const v1::SweepSpec& spec, const search::Expansion& expansion) {
  Hasher hasher;
  hasher.UpdateField("sweep");
  AddClosedProblem(spec, expansion, &hasher);
  AddBudget(spec, &hasher);
  return hasher.FinishHex();
}

std::string ProblemKey(const v1::SweepSpec& spec, const search::Expansion& expansion) {
  Hasher hasher;
  hasher.UpdateField("problem");
  AddClosedProblem(spec, expansion, &hasher);
  return hasher.FinishHex();
}

std::string SpaceDigest(const v1::SweepSpec& spec) {
  Hasher hasher;
  hasher.UpdateField("space");
  AddSpace(spec, &hasher);
  return hasher.FinishHex();
}

std::string RequestDigest(const v1::SweepSpec& spec, const v1::ArchRecord& arch) {
  Hasher hasher;
  hasher.UpdateField("alias");
  AddKernelText(spec, &hasher);
  AddDevice(arch, &hasher);
  AddProblem(spec, &hasher);
  return hasher.FinishHex();
}

std::string CompileKey(const search::Expansion& expansion, absl::string_view config) {
  Hasher hasher;
  hasher.UpdateField("compile");
  hasher.UpdateField(expansion.kernel_digest);
  hasher.UpdateField(expansion.inputs.entry());
  AddMap(expansion.inputs.arguments(), &hasher);
  hasher.UpdateField(expansion.inputs.arch().name());
  hasher.UpdateField(expansion.inputs.arch().record());
  hasher.UpdateField(config);
  if (config == kDispatchConfig) AddMessage(expansion.inputs.dispatch(), &hasher);
  return hasher.FinishHex();
}

}  // namespace kiln::core
