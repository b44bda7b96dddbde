#include "tests/util/fake_space.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/rng.h"
#include "proto/dispatch.h"

namespace kiln::testing {
namespace {

uint64_t HashOf(uint64_t seed, absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ seed;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return Rng(hash).Next();
}

double Unit(uint64_t seed, absl::string_view text) { return Rng(HashOf(seed, text)).Uniform(); }

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::vector<std::string> FakeSpace::Configs() const {
  std::vector<std::string> configs;
  for (int i = 0; i < model_.configs; ++i) {
    configs.push_back(absl::StrCat("m=", i / 8, ",n=", i / 2 % 4, ",u=", i % 2));
  }
  return configs;
}

std::string FakeSpace::BinaryOf(const std::string& config) const {
  if (config == kDispatchConfig) return absl::StrCat(config, dispatch_.ShortDebugString());
  return config.substr(0, config.rfind(",u="));
}

double FakeSpace::TrueNs(const std::string& config) const {
  if (config == kDispatchConfig) return TrueNs(VariantAt(dispatch_, size_));
  const double u = Unit(model_.seed, BinaryOf(config));
  if (size_ > 0) {
    const double v = 0.8 * (1 - u) + 0.2 * Unit(model_.seed ^ 0xf00d, BinaryOf(config));
    const double fixed = 1 + (model_.spread - 1) * u * u;
    const double grows = 1 + (model_.spread - 1) * v * v;
    return 1e4 * (fixed + grows * static_cast<double>(size_) / 100);
  }
  return 1e5 * (1 + (model_.spread - 1) * u * u);
}

Behaviour FakeSpace::Of(const std::string& config) const {
  if (config == kDispatchConfig) return Of(VariantAt(dispatch_, size_));
  const bool wrong =
      size_ > 100 && Unit(model_.seed ^ 0xabc, BinaryOf(config)) < model_.wrong_above;
  if (wrong) return Behaviour::kWrongNumbers;
  double u = Unit(model_.seed ^ 0xbeef, BinaryOf(config));
  const std::pair<double, Behaviour> shares[] = {
      {model_.compile_errors, Behaviour::kCompileError},
      {model_.kills_compiler, Behaviour::kKillsCompiler},
      {model_.wrong_numbers, Behaviour::kWrongNumbers},
      {model_.kills_runner, Behaviour::kKillsRunner},
      {model_.kills_worker, Behaviour::kKillsWorker},
      {model_.wrong_ragged, Behaviour::kWrongRagged},
      {model_.wrong_plain, Behaviour::kWrongPlain},
  };
  for (const auto& [share, behaviour] : shares) {
    if (u < share) return behaviour;
    u -= share;
  }
  return Behaviour::kFine;
}

double FakeSpace::SampleNs(const std::string& config, const std::string& round, int index) const {
  const double u =
      Unit(model_.seed ^ 0x5a5a, absl::StrCat(BinaryOf(config), "|", round, "|", index));
  return TrueNs(config) * (1 + model_.noise * (2 * u - 1));
}

v1::Artifact FakeSpace::Compile(const v1::SweepInputs& inputs, const std::string& config,
                                const std::string& build, std::string* bytes) const {
  const std::string problem = absl::StrCat(inputs.kernel_source(), "|", model_.seed);
  *bytes = absl::StrCat("bundle|", problem, "|", config, "|", build);
  if (config == kDispatchConfig) absl::StrAppend(bytes, "|", BinaryOf(config));
  v1::Artifact artifact;
  artifact.set_digest(Sha256Hex(*bytes));
  artifact.set_binary_digest(Sha256Hex(absl::StrCat(problem, "|", BinaryOf(config), "|", build)));
  artifact.set_index_key(Sha256Hex(absl::StrCat("key|", *bytes)));
  artifact.set_size_bytes(static_cast<int64_t>(bytes->size()));
  artifact.set_compiler_build(build);
  artifact.set_compile_ns(1000000);
  artifact.mutable_resources()->set_scratch_bytes(
      static_cast<int64_t>(HashOf(7, BinaryOf(config)) % 65536));
  return artifact;
}

v1::Measurement FakeSpace::Measure(const std::string& config, const std::string& round, int samples,
                                   const std::string& device) const {
  v1::Measurement m;
  m.set_config(config);
  m.set_device(device);
  std::vector<double> values;
  for (int i = 0; i < samples; ++i) values.push_back(SampleNs(config, round, i));
  for (double value : values) m.add_samples_ns(value);
  m.set_median_ns(MedianOf(values));
  std::vector<double> deviations;
  for (double value : values) deviations.push_back(std::abs(value - m.median_ns()));
  m.set_mad_ns(MedianOf(deviations));
  m.set_numbers_checked(true);
  m.set_check_summary("2 seeds, 256 samples, worst 0.1 of the tolerance");
  return m;
}

double FakeSpace::BestNs() const {
  double best = INFINITY;
  for (const std::string& config : Configs()) {
    if (Of(config) == Behaviour::kFine) best = std::min(best, TrueNs(config));
  }
  return best;
}

FakeSpace SpaceOf(const SpaceModel& model,
                  const google::protobuf::Map<std::string, std::string>& arguments) {
  SpaceModel own = model;
  auto it = arguments.find("problem");
  if (it != arguments.end()) own.seed = HashOf(model.seed, it->second);
  return FakeSpace(own);
}

FakeSpace SpaceOf(const SpaceModel& model, const v1::SweepInputs& inputs) {
  const auto found = inputs.runtime_values().find("M");
  int64_t size = 0;
  if (found != inputs.runtime_values().end()) (void)absl::SimpleAtoi(found->second, &size);
  return FakeSpace(SpaceOf(model, inputs.arguments()).model(), size, inputs.dispatch());
}

absl::StatusOr<search::Expansion> FakeExpander::Expand(const v1::SweepSpec& spec,
                                                       const v1::ArchRecord& arch) {
  if (spec.entry() == "bad") return absl::InvalidArgumentError("k.py:1:1: error: no such kernel");
  search::Expansion out;
  *out.inputs.mutable_runtime_values() = spec.runtime_values();
  *out.inputs.mutable_arguments() = spec.arguments();
  if (spec.has_dispatch()) *out.inputs.mutable_dispatch() = spec.dispatch();
  const FakeSpace space = SpaceOf(model_, out.inputs);
  for (const int64_t size : model_.no_config_at) {
    if (spec.configs_size() > 0) break;  // a list is taken as it is
    const auto found = spec.runtime_values().find("M");
    if (found != spec.runtime_values().end() && found->second == absl::StrCat(size)) {
      return absl::InvalidArgumentError(absl::StrCat("no config is legal at M=", size));
    }
  }
  int64_t at = 0;
  if (const auto found = spec.runtime_values().find("M"); found != spec.runtime_values().end()) {
    (void)absl::SimpleAtoi(found->second, &at);
  }
  if (at % model_.multiples_of != 0) {
    return absl::InvalidArgumentError(absl::StrCat("M=", at, " is no multiple"));
  }
  out.kernel_digest = Sha256Hex(absl::StrCat("kernel|", spec.kernel_source(), spec.template_()));
  if (model_.ragged) (*out.inputs.mutable_ragged())["N"] = "208";
  out.inputs.set_plain(model_.plain);
  out.inputs.set_kernel_source(spec.kernel_source());
  out.inputs.set_entry(spec.entry());
  *out.inputs.mutable_arch() = arch;
  *out.inputs.mutable_measurement() = spec.measurement();
  *out.inputs.mutable_check() = spec.check();
  std::vector<std::string> configs(spec.configs().begin(), spec.configs().end());
  if (configs.empty()) configs = space.Configs();
  if (spec.has_dispatch()) configs.emplace_back(kDispatchConfig);
  for (const std::string& config : configs) {
    v1::Hint hint;
    hint.set_config(config);
    const double error = model_.model_error * (2 * Unit(space.model().seed ^ 0x77, config) - 1);
    hint.set_predicted_ns(space.TrueNs(config) * (1 + error));
    hint.set_bound_by("dram");
    hint.set_reason("modelled");
    out.candidates.push_back(std::move(hint));
  }
  std::stable_sort(
      out.candidates.begin(), out.candidates.end(),
      [](const v1::Hint& a, const v1::Hint& b) { return a.predicted_ns() < b.predicted_ns(); });
  out.legal_configs = static_cast<int64_t>(configs.size());
  return out;
}

v1::SweepSpec FakeSpec(const std::string& problem) {
  v1::SweepSpec spec;
  spec.set_name("fake");
  spec.set_kernel_source("def kernel(): pass");
  (*spec.mutable_arguments())["problem"] = problem;
  spec.set_user("somebody");
  spec.set_top_k(8);
  spec.mutable_measurement()->set_max_samples(40);
  return spec;
}

v1::ArchRecord FakeArch() {
  v1::ArchRecord arch;
  arch.set_name("x86-64-v4");
  arch.set_record("cores 2");
  arch.set_device_model("Model CPU @ 2.0GHz");
  return arch;
}

}  // namespace kiln::testing
