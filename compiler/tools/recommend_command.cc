#include "compiler/tools/recommend_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/rng.h"
#include "compiler/base/status.h"
#include "compiler/codegen/json_text.h"
#include "compiler/roofline/recommend.h"

namespace kiln::tools {
namespace {

using Json = nlohmann::ordered_json;
using roofline::Hint;
using roofline::Recommendation;
using roofline::Request;

// A request, and the kernel that it points to.
struct Asked {
  std::unique_ptr<lang::Kernel> kernel;
  Request request;
};

absl::Status ReadTunables(const RecommendOptions& o, Request& request) {
  for (const std::string& text : o.tunables) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts[0].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tunable '", text, "' is neither NAME nor NAME=VALUE,VALUE"));
    }
    if (request.tunables.count(parts[0]) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("tunable '", parts[0], "' is given twice"));
    }
    if (parts.size() == 1) {
      request.auto_tunables.push_back(parts[0]);
    } else {
      request.tunables[parts[0]] = absl::StrSplit(parts[1], ',', absl::SkipWhitespace());
    }
  }
  for (const std::string& text : o.runtime) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    double value = 0;
    if (parts.size() != 2 || !absl::SimpleAtod(parts[1], &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("run-time value '", text, "' is not NAME=NUMBER"));
    }
    request.runtime[parts[0]] = value;
  }
  return absl::OkStatus();
}

absl::StatusOr<Asked> Ask(const RecommendOptions& o) {
  KILN_ASSIGN_OR_RETURN(const codegen::CompileInput input, ResolveInput(o.kernel));
  auto file =
      std::make_shared<const SourceFile>(SourceFile{input.kernel_path, input.kernel_source});
  Asked asked;
  KILN_ASSIGN_OR_RETURN(lang::Kernel kernel, lang::Kernel::Parse(file, input.entry));
  asked.kernel = std::make_unique<lang::Kernel>(std::move(kernel));
  Request& request = asked.request;
  request.kernel = asked.kernel.get();
  request.arguments = input.arguments;
  if (!input.config.values().empty()) request.configs = {input.config};
  KILN_RETURN_IF_ERROR(ReadTunables(o, request));
  KILN_ASSIGN_OR_RETURN(request.arch, target::ParseArch(input.arch_record));
  request.top_k = o.top;
  request.seed = o.seed;
  request.strategy =
      o.strategy == "carver" ? roofline::Strategy::kCarver : roofline::Strategy::kRecommended;
  return asked;
}

// Ranks of `wanted` different legal configs, or of all.
std::vector<int64_t> DrawRanks(int64_t legal, int64_t wanted, Rng& rng) {
  std::set<int64_t> drawn;
  while (static_cast<int64_t>(drawn.size()) < std::min(legal, wanted)) {
    drawn.insert(static_cast<int64_t>(rng.Below(static_cast<uint64_t>(legal))));
  }
  return {drawn.begin(), drawn.end()};
}

// Different configs of the space that a limit refuses; fewer than `wanted` where there are no more,
// or where they are rare.
std::vector<Config> DrawIllegal(const roofline::Space& space, int64_t wanted, Rng& rng) {
  constexpr int64_t kMostTries = 200;  // for each, and as a multiple of the space
  wanted = std::min(wanted, space.total() - space.legal());
  const int64_t tries = std::min(kMostTries * wanted, kMostTries / 10 * space.total());
  std::set<std::string> seen;
  std::vector<Config> drawn;
  for (int64_t i = 0; i < tries && static_cast<int64_t>(drawn.size()) < wanted; ++i) {
    Config config;
    for (const roofline::Tunable& t : space.tunables()) {
      const std::string& value = t.values[rng.Below(t.values.size())];
      // The first value of an option that is derived is what goes without saying.
      const bool said = !t.derived || !IsOptionName(t.name) || value != t.values.front();
      if (said) config.Set(t.name, value);
    }
    if (space.RankOf(config) >= 0 || !seen.insert(config.ToString()).second) continue;
    drawn.push_back(std::move(config));
  }
  return drawn;
}

Json ToJson(const Hint& h) {
  Json out = {
      {"config", h.config.ToString()}, {"predicted_ns", h.predicted_ns}, {"low_ns", h.low_ns},
      {"high_ns", h.high_ns},          {"roofline_ns", h.roofline_ns},   {"bound_by", h.bound_by}};
  for (const auto& [name, value] : h.fields) out["fields"][name] = value;
  out["risks"] = h.risks;
  out["reason"] = h.reason;
  return out;
}

Json Overview(const Asked& asked, const Recommendation& r) {
  Json out = {{"kernel", asked.kernel->name()},
              {"arch", asked.request.arch.name},
              {"legal", r.legal_count},
              {"total", r.total_count}};
  out["tunables"] = Json::array();
  for (const roofline::Tunable& t : r.space->tunables()) {
    out["tunables"].push_back(
        {{"name", t.name}, {"role", t.role}, {"values", t.values}, {"derived", t.derived}});
  }
  out["notes"] = r.notes;
  return out;
}

// Tunables, notes, and the candidates, best first.
void Print(const Asked& asked, const Recommendation& r, const std::vector<Hint>& hints,
           std::ostream& out) {
  out << asked.kernel->name() << " on " << asked.request.arch.name << ": " << r.legal_count
      << " legal configs of " << r.total_count << "\n";
  for (const roofline::Tunable& t : r.space->tunables()) {
    out << "  " << t.name << " (" << t.role << "): " << absl::StrJoin(t.values, " ") << "\n";
  }
  for (const std::string& note : r.notes) out << "note: " << note << "\n";
  int rank = 0;
  for (const Hint& h : hints) {
    out << absl::StrFormat("%3d  %10.1f us  %s\n", ++rank, h.predicted_ns / 1e3,
                           h.config.ToString());
    out << "     " << h.reason;
    if (!h.risks.empty()) out << " Risks: " << absl::StrJoin(h.risks, ", ") << ".";
    out << "\n";
  }
}

void PrintIllegal(const roofline::Space& space, const std::vector<Config>& drawn, Json* json,
                  std::ostream& out) {
  for (const Config& config : drawn) {
    const std::string limit = space.BrokenLimit(config);
    if (json != nullptr) {
      (*json)["refused"].push_back({{"config", config.ToString()}, {"limit", limit}});
    } else {
      out << config.ToString() << "  refused by: " << limit << "\n";
    }
  }
}

}  // namespace

CLI::App* AddRecommendCommand(CLI::App* app, RecommendOptions* o) {
  CLI::App* command = app->add_subcommand(
      "recommend", "Configs worth trying on a machine, with a prediction and the reason for each");
  AddKernelOptions(command, &o->kernel);
  command->add_option("-t,--tune", o->tunables,
                      "NAME or NAME=VALUE,VALUE: a tunable, its values derived or given; "
                      "default every integer parameter that is not fixed");
  command->add_option("-r,--runtime", o->runtime, "NAME=VALUE: a run-time dimension or scalar")
      ->check(CheckAssignment);
  command->add_option("--strategy", o->strategy, "recommended|carver")
      ->check(CLI::IsMember({"recommended", "carver"}))
      ->capture_default_str();
  command->add_option("--top", o->top, "How many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--sample", o->sample, "Instead, so many legal configs drawn at random")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--illegal", o->illegal,
                    "With --sample: of the configs that a limit refuses, and which limit");
  command->add_option("--seed", o->seed, "Of --sample")->capture_default_str();
  command->add_flag("--json", o->json, "Everything, as JSON");
  return command;
}

absl::Status RunRecommendCommand(const RecommendOptions& o, std::ostream& out) {
  if (o.illegal && o.sample == 0) return absl::InvalidArgumentError("--illegal needs --sample N");
  KILN_ASSIGN_OR_RETURN(const Asked asked, Ask(o));
  KILN_ASSIGN_OR_RETURN(const Recommendation r, roofline::Recommend(asked.request));
  Json json = Overview(asked, r);
  Rng rng(o.seed);
  if (o.illegal) {
    PrintIllegal(*r.space, DrawIllegal(*r.space, o.sample, rng), o.json ? &json : nullptr, out);
    if (o.json) out << JsonText(json, 1) << "\n";
    return absl::OkStatus();
  }
  std::vector<Hint> hints;
  if (o.sample > 0) {
    for (const int64_t rank : DrawRanks(r.legal_count, o.sample, rng)) {
      hints.push_back(r.space->HintAt(rank));
    }
  } else {
    const size_t n = std::min<size_t>(r.ranked.size(), static_cast<size_t>(o.top));
    hints.assign(r.ranked.begin(), r.ranked.begin() + static_cast<std::ptrdiff_t>(n));
  }
  if (!o.json) {
    Print(asked, r, hints, out);
    return absl::OkStatus();
  }
  json["candidates"] = Json::array();
  for (const Hint& h : hints) json["candidates"].push_back(ToJson(h));
  out << JsonText(json, 1) << "\n";
  return absl::OkStatus();
}

}  // namespace kiln::tools
