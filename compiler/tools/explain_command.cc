#include "compiler/tools/explain_command.h"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/codegen/json_text.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/interface.h"
#include "compiler/roofline/recommend.h"

namespace kiln::tools {
namespace {

using Json = nlohmann::ordered_json;

// The kernel, and everything that is said of it.
struct Story {
  std::unique_ptr<lang::Kernel> kernel;
  codegen::CompileInput input;
  ir::Program program;
  roofline::Request request;
  size_t autotune_configs = 0;
  std::vector<roofline::Tunable> tunables;  // that the recommender would look at
  std::optional<roofline::Hint> demand;
  std::vector<std::string> notes;
};

absl::Status ReadRuntime(const std::map<std::string, std::string>& implied,
                         const std::vector<std::string>& given, roofline::Request* request) {
  std::map<std::string, std::string> values = implied;
  for (const std::string& text : given) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.size() == 2) values[parts[0]] = parts[1];
    double number = 0;
    if (parts.size() == 2 && absl::SimpleAtod(parts[1], &number)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("run-time value '", text, "' is not NAME=NUMBER"));
  }
  for (const auto& [name, text] : values) {
    double number = 0;
    if (absl::SimpleAtod(text, &number)) request->runtime[name] = number;
  }
  return absl::OkStatus();
}

// Asks the recommender once for what each parameter is, and once for this very config.
void AskRecommender(Story* story) {
  const auto told = [&](const absl::Status& status) {
    const std::string why(status.message());
    story->notes.push_back(absl::StrCat("the recommender: ", why.substr(0, why.find('\n'))));
  };
  const absl::StatusOr<roofline::Recommendation> all = roofline::Recommend(story->request);
  if (all.ok()) story->tunables = all->space->tunables();
  roofline::Request closed = story->request;
  closed.configs = {story->input.config};
  closed.strategy = roofline::Strategy::kAll;
  const absl::StatusOr<roofline::Recommendation> r = roofline::Recommend(closed);
  if (!r.ok()) return told(r.status());
  story->notes.insert(story->notes.end(), r->notes.begin(), r->notes.end());
  story->demand = r->space->HintAt(0);
}

// Why blocks of a cluster are not what the kernel says they are on this target.
void TellClusters(const ir::Program& program, Story* story) {
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return true;
    const auto tell = [&](const char* note, absl::string_view what) {
      const auto found = launch->annotations.find(note);
      if (found == launch->annotations.end()) return;
      story->notes.push_back(absl::StrCat("line ", s->loc.line, ": ", what, ": ", found->second));
    };
    tell(ir::kJoinedWhy, "one block does what the blocks of a cluster do");
    tell(ir::kFetchedApart, "blocks of a cluster_mask fetch for themselves");
    return false;
  });
}

bool SharesMemory(const ir::Program& program) {
  bool shares = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    shares = shares || (launch != nullptr && launch->annotations.count(ir::kSharesMemory) > 0);
    return launch == nullptr;
  });
  return shares;
}

absl::StatusOr<Story> Tell(const ExplainOptions& o) {
  Story story;
  std::map<std::string, std::string> implied;
  KILN_ASSIGN_OR_RETURN(story.input, ResolveInput(o.kernel, &implied));
  KILN_RETURN_IF_ERROR(TakeListedConfig(&story.input));
  auto file = std::make_shared<const SourceFile>(
      SourceFile{story.input.kernel_path, story.input.kernel_source});
  KILN_ASSIGN_OR_RETURN(lang::Kernel kernel, lang::Kernel::Parse(file, story.input.entry));
  story.kernel = std::make_unique<lang::Kernel>(std::move(kernel));
  KILN_ASSIGN_OR_RETURN(story.request.arch, target::ParseArch(story.input.arch_record));
  const lang::TargetFacts facts = lang::FactsOf(story.request.arch);
  KILN_ASSIGN_OR_RETURN(story.program, lang::Elaborate(*story.kernel, story.input.arguments,
                                                       story.input.config, facts));
  KILN_ASSIGN_OR_RETURN(const std::vector<Config> configs,
                        lang::AutotuneConfigs(*story.kernel, story.input.arguments, facts));
  story.autotune_configs = configs.size();
  story.request.kernel = story.kernel.get();
  story.request.arguments = story.input.arguments;
  KILN_RETURN_IF_ERROR(ReadRuntime(implied, o.runtime, &story.request));
  AskRecommender(&story);
  absl::StatusOr<ir::Program> told = story.program;
  if (SharesMemory(story.program)) {  // which copies are shared a pass decides
    told = codegen::LowerKernel(story.input, "multicast-copies");
  }
  TellClusters(told.ok() ? *told : story.program, &story);
  return story;
}

Json TensorsOf(const ir::Program& program) {
  Json out = Json::array();
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    Json shape = Json::array();
    for (const ir::Expr& extent : p.buffer->shape) {
      const std::optional<int64_t> literal = ir::ConstInt(extent);
      shape.push_back(literal ? Json(*literal) : Json(ir::ToString(extent)));
    }
    out.push_back({{"name", p.name}, {"dtype", p.buffer->dtype.ToString()}, {"shape", shape}});
  }
  return out;
}

Json ConstantsOf(const Story& story) {
  Json out = Json::array();
  const auto add = [&](const std::string& name) {
    Json one = {{"name", name}};
    const auto given = story.input.arguments.find(name);
    if (given != story.input.arguments.end()) one["value"] = given->second;
    out.push_back(std::move(one));
  };
  for (const std::string& name : story.kernel->consts()) add(name);
  for (const lang::ParamInfo& p : story.kernel->params()) {
    if (p.kind == lang::ParamInfo::kCompileTime && !p.has_default) add(p.name);
  }
  return out;
}

Json TunablesOf(const Story& story) {
  Json out = Json::array();
  for (const lang::ParamInfo& p : story.kernel->params()) {
    if (p.kind != lang::ParamInfo::kCompileTime || !p.has_default) continue;
    Json one = {{"name", p.name}};
    if (p.default_text) one["default"] = *p.default_text;
    one["role"] = "not tuned";
    one["field"] = "";
    for (const roofline::Tunable& t : story.tunables) {
      if (t.name != p.name) continue;
      one["role"] = t.role;
      one["field"] = t.field;
    }
    out.push_back(std::move(one));
  }
  return out;
}

Json ToJson(const Story& story) {
  Json out = {
      {"kernel", story.kernel->name()},          {"arch", story.request.arch.name},
      {"tensors", TensorsOf(story.program)},     {"constants", ConstantsOf(story)},
      {"tunables", TunablesOf(story)},           {"autotune_configs", story.autotune_configs},
      {"config", story.input.config.ToString()}, {"demand", nullptr}};
  if (story.demand) {
    const roofline::Hint& h = *story.demand;
    out["demand"] = {
        {"flops", h.flops}, {"compulsory_bytes", h.compulsory_bytes}, {"dram_bytes", h.dram_bytes}};
    for (const char* field : {"onchip_bytes", "blocks"}) {
      double number = 0;
      const auto found = h.fields.find(field);
      if (found != h.fields.end() && absl::SimpleAtod(found->second, &number)) {
        out["demand"][field] = number;
      }
    }
    out["demand"]["bound_by"] = h.bound_by;
    out["demand"]["roofline_ns"] = h.roofline_ns;
  }
  out["notes"] = story.notes;
  return out;
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

void Print(const Json& story, std::ostream& out) {
  out << Text(story["kernel"]) << " on " << Text(story["arch"]) << "\ntensors:\n";
  for (const Json& t : story["tensors"]) {
    std::vector<std::string> shape;
    for (const Json& extent : t["shape"]) shape.push_back(Text(extent));
    out << "  " << Text(t["name"]) << ": " << Text(t["dtype"]) << "[" << absl::StrJoin(shape, ", ")
        << "]\n";
  }
  if (!story["constants"].empty()) out << "constants:\n";
  for (const Json& c : story["constants"]) {
    out << "  " << Text(c["name"]);
    if (c.contains("value")) out << " = " << Text(c["value"]);
    out << "\n";
  }
  if (!story["tunables"].empty()) out << "tunables:\n";
  for (const Json& t : story["tunables"]) {
    out << "  " << Text(t["name"]);
    if (t.contains("default")) out << " = " << Text(t["default"]);
    out << ": " << Text(t["role"]);
    if (t["field"] != "") out << ", decides " << Text(t["field"]);
    out << "\n";
  }
  out << "configs listed by @autotune: " << story["autotune_configs"] << "\n";
  if (story["config"] != "") out << "with config: " << Text(story["config"]) << "\n";
  if (const Json& d = story["demand"]; !d.is_null()) {
    out << absl::StrFormat("demand: %.6g flops, %.6g bytes at least, %.6g bytes of memory",
                           d["flops"].get<double>(), d["compulsory_bytes"].get<double>(),
                           d["dram_bytes"].get<double>());
    if (d.contains("onchip_bytes")) {
      out << absl::StrFormat(", %.6g on chip", d["onchip_bytes"].get<double>());
    }
    if (d.contains("blocks")) out << absl::StrFormat(", %.0f blocks", d["blocks"].get<double>());
    out << absl::StrFormat("; bound by %s, at best %.4g us\n", Text(d["bound_by"]),
                           d["roofline_ns"].get<double>() / 1e3);
  }
  for (const Json& note : story["notes"]) out << "note: " << Text(note) << "\n";
}

}  // namespace

CLI::App* AddExplainCommand(CLI::App* app, ExplainOptions* o) {
  CLI::App* command = app->add_subcommand(
      "explain", "Tensors, constants, tunables and what each does, and the demand of a kernel");
  AddKernelOptions(command, &o->kernel);
  command->add_option("-r,--runtime", o->runtime, "NAME=VALUE: a run-time dimension or scalar")
      ->check(CheckAssignment);
  command->add_flag("--json", o->json, "As JSON");
  return command;
}

absl::Status RunExplainCommand(const ExplainOptions& o, std::ostream& out) {
  KILN_ASSIGN_OR_RETURN(const Story story, Tell(o));
  const Json json = ToJson(story);
  if (o.json) {
    out << JsonText(json, 2) << "\n";
  } else {
    Print(json, out);
  }
  return absl::OkStatus();
}

}  // namespace kiln::tools
