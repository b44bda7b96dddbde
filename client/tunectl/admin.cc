// gc, backup
#include <cstdio>
#include <filesystem>
#include <memory>

#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"

namespace kiln::tunectl {
namespace {

struct GcFlags {
  int64_t target_bytes = 0;
  bool dry_run = false;
};

int RunGc(const Context& context, const GcFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto report =
      (*client)->CollectGarbage(flags.target_bytes, flags.dry_run, context.Options());
  if (!report.ok()) return Fail(context, report.status());
  if (context.json) {
    PrintJson({{"bytes_before", report->bytes_before},
               {"bytes_after", report->bytes_after},
               {"artifacts_dropped", report->artifacts_dropped},
               {"dry_run", flags.dry_run}});
    return kExitOk;
  }
  std::printf("%s %d artifacts, %s -> %s\n", flags.dry_run ? "would drop" : "dropped",
              report->artifacts_dropped, FormatBytes(report->bytes_before).c_str(),
              FormatBytes(report->bytes_after).c_str());
  return kExitOk;
}

int RunBackup(const Context& context, const std::string& directory) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const std::string absolute = std::filesystem::absolute(directory).lexically_normal().string();
  const auto bytes = (*client)->Backup(absolute, context.Options());
  if (!bytes.ok()) return Fail(context, bytes.status());
  if (context.json) {
    PrintJson({{"directory", absolute}, {"bytes", *bytes}});
  } else {
    std::printf("%s  %s\n", absolute.c_str(), FormatBytes(*bytes).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddAdminCommands(Context* context) {
  auto flags = std::make_shared<GcFlags>();
  CLI::App* const gc = AddCommand(
      context, "gc", "Drop artifacts that nothing pins",
      "Drops artifacts, the one used longest ago first, until at most --target-bytes are left. "
      "Winners and the\nartifacts of running sweeps are pinned and stay, and so does what was used "
      "in the last ten minutes.\nThe coordinator does the same by itself at its --blob-limit.",
      {"tunectl gc --dry-run", "tunectl gc --target-bytes 1000000000"});
  gc->add_option("--target-bytes", flags->target_bytes, "0 = the coordinator's limit")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  gc->add_flag("--dry-run", flags->dry_run, "say what would be dropped, and drop nothing");
  gc->callback(
      [context, flags] { context->run = [context, flags] { return RunGc(*context, *flags); }; });

  auto directory = std::make_shared<std::string>();
  CLI::App* const backup = AddCommand(
      context, "backup", "Copy the store while the coordinator runs",
      "Writes a consistent copy into a new folder on the coordinator's disk. To restore, start "
      "kiln-coordinator\nwith --store on the copy.",
      {"tunectl backup /var/backups/kiln-2026-01-31"});
  backup->add_option("DIR", *directory, "a folder that does not exist yet")->required();
  backup->callback([context, directory] {
    context->run = [context, directory] { return RunBackup(*context, *directory); };
  });
}

}  // namespace kiln::tunectl
