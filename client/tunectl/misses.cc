// misses, and the sweeps that --from-misses makes of them
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"
#include "compiler/base/status.h"

namespace kiln::tunectl {
namespace {

constexpr size_t kMaxMissWhy = 100;  // characters in a table

struct MissesFlags {
  int limit = 50;
  bool clear = false;
};

int Clear(const Context& context, client::Client* client) {
  const auto cleared = client->ClearMisses({}, context.Options());
  if (!cleared.ok()) return Fail(context, cleared.status());
  if (context.json) {
    PrintJson({{"cleared", *cleared}});
  } else {
    std::printf("cleared %lld misses\n", static_cast<long long>(*cleared));
  }
  return kExitOk;
}

std::string KernelOf(const client::SweepSpec& spec) {
  if (!spec.template_name.empty()) return spec.template_name;
  if (!spec.entry.empty()) return spec.entry;
  return spec.kernel_path.empty() ? "kernel" : spec.kernel_path;
}

// "M=16, N=4096; m=3" with the run-time values last, a range among them.
std::string ShapeOf(const client::SweepSpec& spec) {
  const std::string text = absl::StrJoin(spec.arguments, ", ", absl::PairFormatter("="));
  std::map<std::string, std::string> runtime = spec.runtime_values;
  if (spec.range.has_value()) {
    runtime[spec.range->name] = absl::StrCat(spec.range->low, "..", spec.range->high);
  }
  if (runtime.empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : "; ",
                      absl::StrJoin(runtime, ", ", absl::PairFormatter("=")));
}

// The words that all reasons share say nothing, and a table has no room for the longest.
std::string Short(const std::string& reason) {
  std::string text(absl::StripPrefix(reason, "the nearest stored winner of this kernel: "));
  if (text.size() <= kMaxMissWhy) return text;
  return text.substr(0, kMaxMissWhy) + "...";
}

int RunMisses(const Context& context, const MissesFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  if (flags.clear) return Clear(context, client->get());
  const auto list = (*client)->Misses(flags.limit, /*with_kernels=*/false, context.Options());
  if (!list.ok()) return Fail(context, list.status());
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const client::Miss& miss : list->misses) rows.push_back(ToJson(miss));
    PrintJson({{"misses", rows}, {"total", list->total}});
    return kExitOk;
  }
  std::vector<std::vector<std::string>> table = {
      {"COUNT", "LAST", "KERNEL", "SHAPE", "TARGET", "USERS", "WHY"}};
  const absl::Time now = absl::Now();
  for (const client::Miss& miss : list->misses) {
    table.push_back({absl::StrCat(miss.count), FormatAge(miss.last, now), KernelOf(miss.spec),
                     ShapeOf(miss.spec), miss.spec.target,
                     absl::StrCat(absl::StrJoin(miss.users, ","), miss.more_users ? ",..." : ""),
                     Short(miss.reason)});
  }
  std::printf("%s", FormatTable(table).c_str());
  if (static_cast<int64_t>(list->misses.size()) < list->total) {
    std::printf("%lld more; --limit 0 shows all\n",
                static_cast<long long>(list->total) - static_cast<long long>(list->misses.size()));
  }
  return kExitOk;
}

}  // namespace

absl::StatusOr<std::vector<client::SweepSpec>> SweepsFromMisses(const Context& context,
                                                                client::Client* client,
                                                                const SweepFlags& flags) {
  KILN_ASSIGN_OR_RETURN(const client::MissList list,
                        client->Misses(0, /*with_kernels=*/true, context.Options()));
  std::vector<client::SweepSpec> all;
  for (const client::Miss& miss : list.misses) {
    all.push_back(miss.spec);
    all.back().user.clear();  // counted for who tunes now
    all.back().priority = 0;
    all.back().deadline_seconds = 0;
    if (miss.spec.name.empty()) all.back().name = absl::StrCat("miss ", miss.id.substr(0, 12));
  }
  if (all.empty()) return all;
  KILN_ASSIGN_OR_RETURN(std::vector<client::SweepSpec> chosen,
                        ChooseSweeps(std::move(all), "the list of misses", flags));
  if (flags.most > 0 && static_cast<int>(chosen.size()) > flags.most) chosen.resize(flags.most);
  return chosen;
}

int NoMisses(const Context& context) {
  if (context.json) {
    PrintJson({{"sweeps", nlohmann::json::array()}});
  } else {
    std::printf("there is nothing to tune: no lookup has missed since\n");
  }
  return kExitOk;
}

void AddMissesCommand(Context* context) {
  auto flags = std::make_shared<MissesFlags>();
  CLI::App* const misses = AddCommand(
      context, "misses", "List what was looked up and not found",
      "One line a problem, the most frequent first: how often, when last, by whom, and how the "
      "nearest stored\nwinner differs. What has been tuned since is not in the list. 'tunectl tune "
      "--from-misses' and 'tunectl\nsubmit --from-misses' tune what is. With --store it is the "
      "list of the store of 'tunectl tune'.",
      {"tunectl misses", "tunectl --json misses --limit 0 | jq '.misses[].spec.arguments'",
       "tunectl misses --clear"});
  misses->add_option("--limit", flags->limit, "at most N; 0 = all")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  misses->add_flag("--clear", flags->clear, "forget them all");
  misses->callback([context, flags] {
    context->run = [context, flags] { return RunMisses(*context, *flags); };
  });
}

}  // namespace kiln::tunectl
