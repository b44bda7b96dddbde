#include "coordinator/search/roofline_expander.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/kernel.h"
#include "compiler/roofline/recommend.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"
#include "coordinator/search/ragged_shape.h"
#include "proto/dispatch.h"

namespace kiln::search {
namespace {

absl::StatusOr<std::shared_ptr<const SourceFile>> SourceOf(const v1::SweepSpec& spec,
                                                           std::string* entry) {
  if (spec.template_().empty()) {
    SourceFile file;
    file.path = spec.kernel_path().empty() ? "kernel.py" : spec.kernel_path();
    file.text = spec.kernel_source();
    return std::make_shared<const SourceFile>(std::move(file));
  }
  const KernelTemplate* found = FindKernelTemplate(spec.template_());
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const KernelTemplate& t : KernelTemplates()) names.emplace_back(t.name);
    return absl::NotFoundError(absl::StrCat("no template is called '", spec.template_(),
                                            "'; the templates are ", absl::StrJoin(names, ", ")));
  }
  if (entry->empty()) *entry = std::string(found->entry);
  return TemplateSource(*found);
}

absl::StatusOr<target::Arch> ArchOf(const v1::ArchRecord& record) {
  if (!record.record().empty()) return target::ParseArch(record.record());
  auto named = target::NamedArch(record.name());
  if (named.ok()) return named;
  return absl::NotFoundError(
      absl::StrCat("no worker has reported target '", record.name(),
                   "' and no table has it: ", std::string(named.status().message())));
}

absl::StatusOr<roofline::Strategy> StrategyOf(const v1::SweepSpec& spec) {
  const std::string& s = spec.strategy();
  const bool given =
      spec.auto_tunables().empty() && (spec.configs_size() > 0 || !spec.tunables().empty());
  if (spec.objective() != v1::SweepSpec::TUNE && given) return roofline::Strategy::kAll;
  if (s.empty() || s == "recommended") return roofline::Strategy::kRecommended;
  if (s == "carver") return roofline::Strategy::kCarver;
  if (s == "exhaustive" || s == "random") return roofline::Strategy::kAll;
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown strategy '", s, "'; the strategies are recommended, exhaustive, random, carver"));
}

v1::Hint ToProto(const roofline::Hint& h) {
  v1::Hint out;
  out.set_config(h.config.ToString());
  out.set_predicted_ns(h.predicted_ns);
  out.set_predicted_low_ns(h.low_ns);
  out.set_predicted_high_ns(h.high_ns);
  out.set_bound_by(h.bound_by);
  out.set_reason(h.reason);
  for (const std::string& r : h.risks) out.add_risks(r);
  for (const auto& [name, value] : h.fields) (*out.mutable_fields())[name] = value;
  out.set_flops(h.flops);
  out.set_dram_bytes(h.dram_bytes);
  out.set_compulsory_bytes(h.compulsory_bytes);
  out.set_roofline_ns(h.roofline_ns);
  return out;
}

// A worker must not guess what a missing field means.
void MakeExplicit(v1::MeasurementPolicy& m, v1::CheckPolicy& c) {
  if (m.cache() == v1::MeasurementPolicy::CACHE_UNSPECIFIED)
    m.set_cache(v1::MeasurementPolicy::COLD);
  if (m.min_seconds() <= 0) m.set_min_seconds(0.2);
  if (m.min_samples() <= 0) m.set_min_samples(10);
  if (m.max_samples() <= 0) m.set_max_samples(1000);
  if (m.target_relative_error() <= 0) m.set_target_relative_error(0.005);
  if (c.reference() == v1::CheckPolicy::REFERENCE_UNSPECIFIED) {
    c.set_reference(v1::CheckPolicy::INTERPRETER);
  }
  if (c.seeds().empty()) {
    c.add_seeds(1);
    c.add_seeds(2);
  }
  if (c.samples() <= 0) c.set_samples(256);
}

// Everything of the request that the spec says; `kernel` outlives it.
absl::StatusOr<roofline::Request> RequestOf(const v1::SweepSpec& spec, const lang::Kernel& kernel) {
  roofline::Request r;
  r.kernel = &kernel;
  r.arguments = {spec.arguments().begin(), spec.arguments().end()};
  r.auto_tunables = {spec.auto_tunables().begin(), spec.auto_tunables().end()};
  for (const auto& [name, list] : spec.tunables()) {
    r.tunables[name] = {list.values().begin(), list.values().end()};
  }
  for (const std::string& text : spec.configs()) {
    KILN_ASSIGN_OR_RETURN(Config config, Config::Parse(text));
    r.configs.push_back(std::move(config));
  }
  for (const auto& [name, text] : spec.runtime_values()) {
    double v = 0;
    if (!absl::SimpleAtod(text, &v)) {
      return absl::InvalidArgumentError(
          absl::StrCat("run-time value '", name, "' is not a number: '", text, "'"));
    }
    r.runtime[name] = v;
  }
  r.runs = spec.objective() != v1::SweepSpec::COMPILE;
  r.seed = spec.seed();
  return r;
}

// The recommender prices open programs; this asks the elaborator about each listed config, so that
// nothing reaches a worker that cannot be elaborated.
void DropWhatDoesNotElaborate(const lang::Kernel& kernel, const roofline::Request& request,
                              roofline::Recommendation& answer, std::vector<std::string>& notes) {
  size_t dropped = 0;
  std::string first;
  const lang::TargetFacts facts = lang::FactsOf(request.arch);
  std::erase_if(answer.ranked, [&](const roofline::Hint& h) {
    const auto program = lang::Elaborate(kernel, request.arguments, h.config, facts);
    if (program.ok()) return false;
    if (first.empty()) first = std::string(program.status().message());
    ++dropped;
    return true;
  });
  if (dropped > 0) {
    notes.push_back(
        absl::StrCat(dropped, " listed configs do not elaborate, the first with: ", first));
  }
}

// What is listed is made, whatever the recommender thinks of it.
bool TakesListAsGiven(const v1::SweepSpec& spec) {
  return spec.objective() != v1::SweepSpec::TUNE && spec.configs_size() > 0 &&
         spec.auto_tunables().empty() && spec.tunables().empty();
}

// The configs of the list, each once, in its order; also those that a limit of the recommender
// refuses, as compiling them says what is wrong.
void ListAsGiven(const roofline::Request& request, const roofline::Space& space, Expansion& out) {
  std::set<Config> seen;
  for (const Config& config : request.configs) {
    if (!seen.insert(config).second) continue;
    const int64_t rank = space.RankOf(config);
    roofline::Hint hint;
    if (rank >= 0) {
      hint = space.HintAt(rank);
    } else {
      hint.config = config;
      hint.reason = absl::StrCat("The limits refuse it: ", space.BrokenLimit(config), ".");
    }
    out.candidates.push_back(ToProto(hint));
  }
}

// ---- ranges ----

std::string RangeText(const v1::ShapeRange& range) {
  return absl::StrCat(range.name(), "=", range.low(), "..", range.high());
}

// The names that arguments may have: compile-time parameters and T.const sizes.
std::vector<std::string> ArgumentNames(const lang::Kernel& kernel) {
  std::vector<std::string> names;
  for (const lang::ParamInfo& param : kernel.params()) {
    if (param.kind == lang::ParamInfo::kCompileTime) names.push_back(param.name);
  }
  names.insert(names.end(), kernel.consts().begin(), kernel.consts().end());
  return names;
}

// That programs of the kernel have the range's dimension, by one of them.
absl::Status CheckDimension(const v1::ShapeRange& range, const roofline::Request& request,
                            const Config& config) {
  const lang::Kernel& kernel = *request.kernel;
  KILN_ASSIGN_OR_RETURN(
      const ir::Program program,
      lang::Elaborate(kernel, request.arguments, config, lang::FactsOf(request.arch)));
  std::vector<std::string> dims;
  for (const ir::Expr& dim : program.dims) {
    dims.push_back(dim.As<ir::Var>()->name);
    if (dims.back() == range.name()) return absl::OkStatus();
  }
  const std::vector<std::string> names = ArgumentNames(kernel);
  return absl::InvalidArgumentError(absl::StrCat(
      RangeText(range), ": kernel ", kernel.name(), " has no size ", range.name(),
      ". A range is of an argument (", names.empty() ? "it has none" : absl::StrJoin(names, ", "),
      ") or of a run-time dimension (", dims.empty() ? "it has none" : absl::StrJoin(dims, ", "),
      ")"));
}

// The error that a range ended in: the range's own where it takes the range to bring it about.
absl::Status WhyNoRange(const v1::ShapeRange& range, bool argument, roofline::Request request,
                        const absl::Status& error) {
  request.runtime.erase(range.name());
  if (!argument) {
    const auto without = roofline::Recommend(request);
    if (!without.ok() || without->ranked.empty()) return error;
    KILN_RETURN_IF_ERROR(CheckDimension(range, request, without->ranked.front().config));
    return error;
  }
  for (const int64_t size : {range.high(), range.low()}) {
    request.arguments[range.name()] = absl::StrCat(size);
    if (!roofline::Recommend(request).ok()) continue;
    return WithContext(error, absl::StrCat(RangeText(range), ": kernel ", request.kernel->name(),
                                           " needs ", range.name(), " when it is compiled"));
  }
  return error;
}

}  // namespace

absl::StatusOr<Expansion> RooflineExpander::Expand(const v1::SweepSpec& asked,
                                                   const v1::ArchRecord& arch) {
  v1::SweepSpec spec = asked;
  std::string entry = spec.entry();
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const SourceFile> file, SourceOf(spec, &entry));
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, entry));
  const std::vector<std::string> names = ArgumentNames(kernel);
  const bool of_argument = spec.has_range() && absl::c_linear_search(names, spec.range().name());
  if (of_argument && spec.range().high() > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        RangeText(spec.range()),
        ": a size that an argument leaves to run time is an int32; in the ", "kernel, T.dynamic(\"",
        spec.range().name(), "\", \"int64\") takes larger ones"));
  }
  if (of_argument) {
    (*spec.mutable_arguments())[spec.range().name()] = lang::DynamicArgument(spec.range().name());
  }
  KILN_ASSIGN_OR_RETURN(roofline::Request request, RequestOf(spec, kernel));
  KILN_ASSIGN_OR_RETURN(request.arch, ArchOf(arch));
  KILN_ASSIGN_OR_RETURN(request.strategy, StrategyOf(spec));
  request.top_k = spec.top_k() > 0 ? spec.top_k() : options_.default_top_k;
  request.limits.listed = options_.max_listed;
  request.limits.configs = options_.max_configs;
  request.limits.pieces = options_.max_pieces;
  absl::StatusOr<roofline::Recommendation> recommended = roofline::Recommend(request);
  if (!recommended.ok() && spec.has_range()) {
    return WhyNoRange(spec.range(), of_argument, request, recommended.status());
  }
  KILN_ASSIGN_OR_RETURN(roofline::Recommendation answer, std::move(recommended));

  Expansion out;
  out.kernel_digest = answer.kernel_digest;
  out.legal_configs = answer.legal_count;
  out.notes = answer.notes;
  if (request.strategy != roofline::Strategy::kAll) {
    DropWhatDoesNotElaborate(kernel, request, answer, out.notes);
  }
  const bool slate_only = spec.objective() == v1::SweepSpec::COMPILE &&
                          request.strategy == roofline::Strategy::kRecommended;
  if (TakesListAsGiven(spec)) {
    ListAsGiven(request, *answer.space, out);
    answer.ranked.clear();
  }
  for (const roofline::Hint& h : answer.ranked) {
    if (slate_only && static_cast<int>(out.candidates.size()) >= request.top_k) break;
    out.candidates.push_back(ToProto(h));
  }
  if (out.candidates.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no config of the space can be built",
                                                   out.notes.empty() ? "" : ": ",
                                                   absl::StrJoin(out.notes, "; ")));
  }

  if (spec.has_range()) {
    KILN_ASSIGN_OR_RETURN(const Config config, Config::Parse(out.candidates.front().config()));
    KILN_RETURN_IF_ERROR(CheckDimension(spec.range(), request, config));
  }
  if (spec.has_dispatch()) {
    v1::Hint& hint = out.candidates.emplace_back();
    hint.set_config(std::string(kDispatchConfig));
    hint.set_reason("All configs of the range in one object.");
    *out.inputs.mutable_dispatch() = spec.dispatch();
  }

  out.inputs.set_kernel_source(file->text);
  out.inputs.set_kernel_path(file->path);
  out.inputs.set_entry(kernel.name());
  *out.inputs.mutable_arguments() = spec.arguments();
  out.inputs.mutable_arch()->set_name(request.arch.name);
  out.inputs.mutable_arch()->set_record(target::ToText(request.arch));
  out.inputs.mutable_arch()->set_device_model(arch.device_model().empty() ? request.arch.model
                                                                          : arch.device_model());
  *out.inputs.mutable_measurement() = spec.measurement();
  *out.inputs.mutable_check() = spec.check();
  MakeExplicit(*out.inputs.mutable_measurement(), *out.inputs.mutable_check());
  *out.inputs.mutable_runtime_values() = spec.runtime_values();
  const bool tunes =
      spec.objective() != v1::SweepSpec::COMPILE && spec.objective() != v1::SweepSpec::COMPARE;
  if (tunes && !spec.has_range()) {
    KILN_ASSIGN_OR_RETURN(const Config config, Config::Parse(out.candidates.front().config()));
    const auto ragged = RaggedShape(kernel, request.arguments, request.runtime, config,
                                    lang::FactsOf(request.arch));
    out.inputs.mutable_ragged()->insert(ragged.begin(), ragged.end());
    out.inputs.set_plain(request.arch.kind == target::ArchKind::kGpu);
  }
  return out;
}

}  // namespace kiln::search
