// bars
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"

namespace kiln::tunectl {
namespace {

constexpr size_t kMaxBarWhy = 100;  // characters in a table

struct BarsFlags {
  std::vector<std::string> lift;
};

nlohmann::json Rows(const std::vector<client::Bar>& bars) {
  nlohmann::json rows = nlohmann::json::array();
  for (const client::Bar& bar : bars) rows.push_back(ToJson(bar));
  return rows;
}

std::string BarTable(const std::vector<client::Bar>& bars) {
  std::vector<std::vector<std::string>> table = {
      {"BAR", "CHILDREN", "LAST", "SWEEP", "NAME", "STAGE", "CONFIG", "WHY"}};
  const absl::Time now = absl::Now();
  const auto known = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const client::Bar& bar : bars) {
    table.push_back({bar.id, absl::StrCat(bar.children), FormatAge(bar.last, now),
                     known(ShortSweep(bar.sweep)), known(bar.name), known(bar.stage),
                     known(bar.config), bar.reason.substr(0, kMaxBarWhy)});
  }
  return FormatTable(table);
}

int List(const Context& context, client::Client* client) {
  const auto bars = client->Bars(context.Options());
  if (!bars.ok()) return Fail(context, bars.status());
  if (context.json) {
    PrintJson({{"bars", Rows(*bars)}});
  } else {
    std::printf("%s", BarTable(*bars).c_str());
  }
  return kExitOk;
}

int Lift(const Context& context, client::Client* client, std::vector<std::string> ids) {
  // No ids are all of them, for the library.
  if (ids.size() == 1 && ids[0] == "all") ids.clear();
  const auto lifted = client->LiftBars(ids, context.Options());
  if (!lifted.ok()) return Fail(context, lifted.status());
  if (context.json) {
    PrintJson({{"lifted", Rows(*lifted)}});
    return kExitOk;
  }
  for (const client::Bar& bar : *lifted) {
    std::printf("lifted %s  %s\n", bar.id.c_str(), bar.config.c_str());
  }
  if (lifted->empty()) std::printf("nothing is barred\n");
  return kExitOk;
}

int RunBars(const Context& context, const BarsFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  return flags.lift.empty() ? List(context, client->get())
                            : Lift(context, client->get(), flags.lift);
}

}  // namespace

void AddBarsCommand(Context* context) {
  auto flags = std::make_shared<BarsFlags>();
  CLI::App* const bars = AddCommand(
      context, "bars", "List programs that never run again, and lift that",
      "A program of which two child processes died, while it was compiled or while it ran, is not "
      "tried again, in no\nsweep of the farm, also after a restart of the coordinator. One line "
      "each, the latest first: how many children,\nwhen, in which sweep, as which config, where "
      "and "
      "how. --lift gives it another two chances, where the machine\nwas to blame, or its driver is "
      "another one now; what has ended stays as it is: submit the sweep again with\n--fresh.",
      {"tunectl bars", "tunectl bars --lift 5c0f1e9a", "tunectl bars --lift all"});
  bars->add_option("--lift", flags->lift,
                   "a bar, or at least 6 digits of it; repeatable; all: every one")
      ->allow_extra_args(false)
      ->type_name("BAR");
  bars->callback(
      [context, flags] { context->run = [context, flags] { return RunBars(*context, *flags); }; });
}

}  // namespace kiln::tunectl
