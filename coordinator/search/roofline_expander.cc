#include "coordinator/search/roofline_expander.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/lang/kernel.h"
#include "compiler/roofline/recommend.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"
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

absl::Status RefuseRange(const v1::ShapeRange& range, absl::string_view kernel,
                         absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      range.name(), "=", range.low(), "..", range.high(), ": kernel ", kernel, " ", why,
      ". For a "
      "range ",
      range.name(), " must be a run-time dimension: write '", range.name(), " = T.dynamic(\"",
      range.name(),
      "\")' in the kernel in place of T.const; where it is a "
      "parameter of the kernel, 'if ",
      range.name(), " is None: ", range.name(), " = T.dynamic(\"", range.name(),
      "\")' before its first use"));
}

// Whether the range's dimension is a parameter, which is then given None.
absl::StatusOr<bool> IsParameter(const v1::ShapeRange& range, const lang::Kernel& kernel) {
  for (const std::string& name : kernel.consts()) {
    if (name == range.name()) {
      return RefuseRange(range, kernel.name(), "has it as a T.const size");
    }
  }
  for (const lang::ParamInfo& param : kernel.params()) {
    if (param.name == range.name() && param.kind == lang::ParamInfo::kCompileTime) return true;
  }
  return false;
}

// The error that a range ended in: the range's own where it takes the range to bring it about.
absl::Status WhyNoRange(const v1::ShapeRange& range, bool parameter, roofline::Request request,
                        const absl::Status& error) {
  const std::string text(error.message());
  const std::string line = text.substr(0, text.find('\n'));
  request.runtime.erase(range.name());
  if (parameter) request.arguments[range.name()] = absl::StrCat(range.low());
  if (!roofline::Recommend(request).ok()) return error;
  return RefuseRange(range, request.kernel->name(),
                     parameter ? absl::StrCat("does not take None for it (", line, ")")
                               : absl::StrCat("has no such run-time dimension (", line, ")"));
}

// That programs of the kernel have the range's dimension, by one of them.
absl::Status CheckDimension(const v1::ShapeRange& range, const lang::Kernel& kernel,
                            const roofline::Request& request, const roofline::Hint& hint) {
  KILN_ASSIGN_OR_RETURN(
      const ir::Program program,
      lang::Elaborate(kernel, request.arguments, hint.config, lang::FactsOf(request.arch)));
  std::vector<std::string> names;
  for (const ir::Expr& dim : program.dims) {
    names.push_back(dim.As<ir::Var>()->name);
    if (names.back() == range.name()) return absl::OkStatus();
  }
  return RefuseRange(range, kernel.name(),
                     absl::StrCat("has no such run-time dimension (it has ",
                                  names.empty() ? "none" : absl::StrJoin(names, ", "), ")"));
}

}  // namespace

absl::StatusOr<Expansion> RooflineExpander::Expand(const v1::SweepSpec& asked,
                                                   const v1::ArchRecord& arch) {
  v1::SweepSpec spec = asked;
  std::string entry = spec.entry();
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const SourceFile> file, SourceOf(spec, &entry));
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, entry));
  bool parameter = false;
  if (spec.has_range()) {
    KILN_ASSIGN_OR_RETURN(parameter, IsParameter(spec.range(), kernel));
    if (parameter) (*spec.mutable_arguments())[spec.range().name()] = "None";
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
    return WhyNoRange(spec.range(), parameter, request, recommended.status());
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
    KILN_RETURN_IF_ERROR(CheckDimension(spec.range(), kernel, request, answer.ranked.front()));
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
  return out;
}

}  // namespace kiln::search
