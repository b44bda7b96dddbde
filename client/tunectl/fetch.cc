// fetch, lookup
#include <cstdio>
#include <memory>

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

int RunLookup(const Context& context, const SweepFlags& flags) {
  const auto specs = LoadSweeps(flags);
  if (!specs.ok()) return Fail(context, specs.status());
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  nlohmann::json results = nlohmann::json::array();
  int code = kExitOk;
  for (const client::SweepSpec& spec : *specs) {
    const auto result = (*client)->Lookup(spec, context.Options());
    if (!result.ok()) return Fail(context, result.status());
    if (result->winner == nullptr) code = kExitNotFound;
    if (context.json) {
      results.push_back({{"name", spec.name},
                         {"found", result->winner != nullptr},
                         {"miss_reason", result->miss_reason}});
      if (result->winner != nullptr) results.back()["winner"] = ToJson(*result->winner);
    } else if (result->winner != nullptr) {
      std::printf("%s\n%s", spec.name.c_str(), FormatWinner(*result->winner).c_str());
    } else {
      std::printf("%s\nno winner: %s\n", spec.name.c_str(), result->miss_reason.c_str());
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
      "manifest alone. A download that broke off goes on where it stopped. Of a "
      "compile-only\nsweep, "
      "--config names a candidate and --all takes every one.",
      {"tunectl fetch 3f9ac1d2", "tunectl fetch 3f9ac1d2 --format obj -o build/kernels --name gemm",
       "tunectl fetch 3f9ac1d2 --format cubin",
       "tunectl fetch 3f9ac1d2 --config block_M=64,block_N=64"});
  fetch->add_option("SWEEP", command->sweep, "digest of the sweep, or at least 6 of its digits")
      ->required();
  fetch->add_option("--config", command->config, "a config of a compile-only sweep")
      ->type_name("CONFIG");
  fetch->add_flag("--all", command->all, "every artifact of a compile-only sweep");
  AddFetchFlags(fetch, &command->flags);
  fetch->callback([context, command] {
    context->run = [context, command] { return RunFetch(*context, *command); };
  });

  auto flags = std::make_shared<SweepFlags>();
  CLI::App* const lookup = AddCommand(
      context, "lookup", "Ask for stored winners without starting anything",
      "Exits with 0 when every sweep of the file has a stored winner and with 3 when one has none; "
      "then it says\nwhich part of the problem differs from the nearest stored winner.",
      {"tunectl lookup gemm.yaml", "tunectl --json lookup gemm.yaml"});
  AddSweepFlags(lookup, flags.get());
  lookup->callback([context, flags] {
    context->run = [context, flags] { return RunLookup(*context, *flags); };
  });
}

}  // namespace kiln::tunectl
