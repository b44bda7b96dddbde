// fetch, lookup
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"
#include "client/tunectl/run_sweeps.h"

namespace kiln::tunectl {
namespace {

struct FetchCommand {
  std::string sweep;
  std::string config;
  bool all = false;
  FetchFlags flags;
};

int RunFetch(const Context& context, const FetchCommand& command) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto files = command.all ? FetchAllConfigs(client->get(), command.sweep,
                                                   command.flags.Target(), context.Options())
                                 : FetchFiles(client->get(), {command.sweep, command.config},
                                              command.flags.Target(), context.Options());
  if (!files.ok()) return Fail(context, files.status());
  if (context.json) {
    PrintJson({{"files", files->files},
               {"config", files->fetched.info.config},
               {"digest", files->fetched.digest},
               {"bytes", files->fetched.bytes},
               {"resumed_at", files->fetched.resumed_at}});
    return kExitOk;
  }
  for (const std::string& file : files->files) std::printf("%s\n", file.c_str());
  return kExitOk;
}

struct LookupCommand {
  SweepFlags sweeps;
  FetchFlags fetch;
  std::string match = "exact";
};

client::Match MatchOf(const std::string& word) {
  if (word == "arch") return client::Match::kArch;
  return word == "compatible" ? client::Match::kCompatible : client::Match::kExact;
}

void PrintLookup(const std::string& name, const client::LookupResult& result) {
  std::printf("%s\n", name.c_str());
  if (result.winner == nullptr) {
    std::printf("no winner: %s\n", result.miss_reason.c_str());
    return;
  }
  std::printf("%s", FormatWinner(*result.winner).c_str());
  std::printf("matched  %s\n", std::string(client::ToString(result.matched)).c_str());
  for (const client::KeyDifference& d : result.differences) {
    if (d.field == "space") {  // digests, which say nothing to people
      std::printf("differs  space: tuned over another space of tunables\n");
      continue;
    }
    std::printf("differs  %s: tuned with %s, asked %s\n", d.field.c_str(),
                d.stored.empty() ? "unknown" : d.stored.c_str(),
                d.asked.empty() ? "unknown" : d.asked.c_str());
  }
}

int RunLookup(const Context& context, const LookupCommand& command) {
  const auto specs = LoadSweeps(command.sweeps);
  if (!specs.ok()) return Fail(context, specs.status());
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  nlohmann::json results = nlohmann::json::array();
  int code = kExitOk;
  for (const client::SweepSpec& spec : *specs) {
    const auto result = (*client)->Lookup(spec, MatchOf(command.match), context.Options());
    if (!result.ok()) return Fail(context, result.status());
    std::vector<std::string> files;
    if (result->winner == nullptr) {
      code = kExitNotFound;
    } else if (command.fetch.directory_option->count() > 0) {
      FetchTarget target = command.fetch.Target();
      if (specs->size() > 1) {
        absl::StrAppend(&target.directory, "/", SweepFolder(spec, result->winner->sweep, *specs));
      }
      auto fetched =
          FetchFiles(client->get(), WinnerRequest(*result->winner), target, context.Options());
      if (!fetched.ok()) return Fail(context, fetched.status());
      files = std::move(fetched->files);
    }
    if (context.json) {
      results.push_back(ToJson(*result));
      results.back()["name"] = spec.name;
      results.back()["files"] = files;
    } else {
      PrintLookup(spec.name, *result);
      for (const std::string& file : files) std::printf("wrote    %s\n", file.c_str());
    }
  }
  if (context.json) PrintJson({{"lookups", results}});
  return code;
}

}  // namespace

void AddFetchCommands(Context* context) {
  auto command = std::make_shared<FetchCommand>();
  CLI::App* const fetch = AddCommand(
      context, "fetch", "Download a winner as files that a build can link",
      "Downloads the winner of a sweep, checks its SHA-256, and writes NAME.so (or NAME.o) with "
      "NAME.h, the C\ndeclaration, and NAME.json, the manifest (parameters, launch, resources, "
      "config). For a loader of your own,\n--format cubin and ptx write the GPU's code and the "
      "manifest alone. A download that broke off goes on where it "
      "stopped.\n--config fetches one candidate instead of the winner, --all every candidate that "
      "was "
      "compiled, each into a folder\nof its config's name. Of a compile-only sweep that is all "
      "there "
      "is; of a tuning sweep those beside the winner\nare kept as long as the coordinator has "
      "room, "
      "and stderr names those that are gone.",
      {"tunectl fetch 3f9ac1d2", "tunectl fetch 3f9ac1d2 --format obj -o build/kernels --name gemm",
       "tunectl fetch 3f9ac1d2 --format cubin",
       "tunectl fetch 3f9ac1d2 --config block_M=64,block_N=64"});
  fetch->add_option("SWEEP", command->sweep, "digest of the sweep, or at least 6 of its digits")
      ->required();
  CLI::Option* const config =
      fetch
          ->add_option("--config", command->config,
                       "this candidate, as `tunectl show --candidates` names it")
          ->type_name("CONFIG");
  fetch->add_flag("--all", command->all, "every candidate that was compiled, not the winner alone")
      ->excludes(config);
  AddFetchFlags(fetch, &command->flags);
  fetch->callback([context, command] {
    context->run = [context, command] { return RunFetch(*context, *command); };
  });

  auto flags = std::make_shared<LookupCommand>();
  CLI::App* const lookup = AddCommand(
      context, "lookup", "Ask for stored winners without starting anything",
      "Exits with 0 when every sweep of the file has a stored winner and with 3 when one has none; "
      "then it says\nhow the nearest stored winner differs. --match compatible also takes winners "
      "that were tuned with another\ndriver, toolchain, power limit, memory or policy, --match "
      "arch "
      "those of any device of the architecture;\nthe answer says what differs. With -o the winners "
      "are fetched. What is not found is counted: see 'tunectl\nmisses'.",
      {"tunectl lookup gemm.yaml", "tunectl lookup gemm.yaml --match compatible -o build/kernels",
       "tunectl --json lookup gemm.yaml | jq '.lookups[].differences'"});
  AddChoiceFlags(lookup, &flags->sweeps);
  AddFetchFlags(lookup, &flags->fetch, /*only_with_output=*/true);
  lookup
      ->add_option("--match", flags->match, "how near a winner has to be: exact, compatible, arch")
      ->check(CLI::IsMember({"exact", "compatible", "arch"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  lookup->callback([context, flags] {
    context->run = [context, flags] { return RunLookup(*context, *flags); };
  });
}

}  // namespace kiln::tunectl
