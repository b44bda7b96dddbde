// list, show, workers, cancel
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"

namespace kiln::tunectl {
namespace {

constexpr size_t kMaxWhy = 100;      // characters of a failure in a table
constexpr int kMaxCounted = 10'000;  // candidates that are fetched to be counted

struct ListFlags {
  int limit = 50;
  bool active = false;
  bool parts = false;
};

// What a sweep is called in a table.
std::string NameOf(const client::SweepSummary& sweep) {
  if (sweep.range.has_value()) {
    return absl::StrCat(sweep.name, "  ", sweep.range->name, "=", sweep.range->low, "..",
                        sweep.range->high);
  }
  if (!sweep.parent.empty()) {
    return absl::StrCat(sweep.name, "  (of range ", ShortSweep(sweep.parent), ")");
  }
  return sweep.name;
}

std::string SweepTable(const std::vector<client::SweepSummary>& sweeps) {
  std::vector<std::vector<std::string>> table = {
      {"SWEEP", "STATE", "DONE", "BEST", "TARGET", "USER", "SUBMITTED", "NAME"}};
  const absl::Time now = absl::Now();
  for (const client::SweepSummary& sweep : sweeps) {
    const client::Progress& p = sweep.progress;
    table.push_back({ShortSweep(sweep.sweep), std::string(client::ToString(p.state)),
                     absl::StrCat(Settled(p), "/", p.total), FormatNs(p.best_ns), sweep.target,
                     sweep.user, FormatAge(sweep.submitted, now), NameOf(sweep)});
  }
  return FormatTable(table);
}

int RunList(const Context& context, const ListFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto sweeps =
      (*client)->List({flags.limit, flags.active, !flags.parts, ""}, context.Options());
  if (!sweeps.ok()) return Fail(context, sweeps.status());
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const client::SweepSummary& sweep : *sweeps) rows.push_back(ToJson(sweep));
    PrintJson({{"sweeps", rows}});
    return kExitOk;
  }
  std::printf("%s", SweepTable(*sweeps).c_str());
  return kExitOk;
}

// At most kMaxWhy bytes of a reason, whole characters; what is left out shows.
std::string Shortened(const std::string& reason) {
  if (reason.size() <= kMaxWhy) return reason;
  size_t end = kMaxWhy;
  while (end > 0 && (reason[end] & 0xC0) == 0x80) --end;  // within one of UTF-8
  return absl::StrCat(reason.substr(0, end), "...");
}

void PrintCandidates(const client::SweepDetails& details) {
  std::vector<std::vector<std::string>> table = {
      {"STATE", "PREDICTED", "MEASURED", "IN THE", "CONFIG", "WHY"}};
  for (const client::Candidate& c : details.candidates) {
    // Out of the race with a time is another thing than never run.
    const bool slower = c.state == client::CandidateState::kSkipped && !c.measurements.empty();
    const std::string why =
        c.failed ? absl::StrCat(c.failure.stage, ": ", Shortened(c.failure.message)) : "";
    table.push_back({slower ? "slower" : std::string(client::ToString(c.state)),
                     FormatNs(c.hint.predicted_ns), FormatNs(MeasuredNs(c)),
                     c.measurements.empty() ? "-" : c.measurements.back().round, c.config, why});
  }
  std::printf("\n%s", FormatTable(table).c_str());
}

void PrintDetails(const client::SweepDetails& details, bool candidates) {
  const client::SweepSummary& summary = details.summary;
  const client::Progress& p = summary.progress;
  const bool range = details.spec.range.has_value();
  const std::string slate =
      range ? absl::StrCat("range    ", details.spec.range->name, "=", details.spec.range->low,
                           "..", details.spec.range->high, ", ", p.done, " of ", p.total,
                           " measurements done")
            : absl::StrCat("slate    ", FormatSlate(details));
  std::printf(
      "sweep    %s\nname     %s\nstate    %s%s%s\ntarget   %s%s\n%s\nelapsed  %s\n",
      summary.sweep.c_str(), summary.name.c_str(), std::string(client::ToString(p.state)).c_str(),
      p.message.empty() ? "" : ": ", p.message.c_str(), summary.target.c_str(),
      details.device_model.empty() ? "" : absl::StrCat(" (", details.device_model, ")").c_str(),
      slate.c_str(), FormatSeconds(p.elapsed_seconds).c_str());
  std::vector<std::string> stages;
  for (const auto& [stage, seconds] : details.seconds) {
    stages.push_back(absl::StrCat(stage, " ", FormatSeconds(seconds)));
  }
  if (details.time.has_value()) std::printf("%s", FormatTime(*details.time).c_str());
  if (!stages.empty()) std::printf("tasks    %s\n", absl::StrJoin(stages, ", ").c_str());
  if (!details.spec.arguments.empty()) {
    std::printf("given    %s\n",
                absl::StrJoin(details.spec.arguments, ", ", absl::PairFormatter("=")).c_str());
  }
  if (details.winner != nullptr) std::printf("%s", FormatWinner(*details.winner).c_str());
  if (details.range != nullptr) std::printf("\n%s", FormatRange(*details.range).c_str());
  if (candidates && !range) PrintCandidates(details);
}

struct ShowFlags {
  std::string sweep;
  bool candidates = false;
  bool parts = false;
};

int RunShow(const Context& context, const ShowFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  auto details = (*client)->Show(flags.sweep, flags.candidates || context.json, context.Options());
  if (!details.ok()) return Fail(context, details.status());
  const client::Progress& p = details->summary.progress;
  if (details->candidates.empty() && p.skipped > 0 && p.total <= kMaxCounted) {
    details = (*client)->Show(flags.sweep, true, context.Options());  // they say why
    if (!details.ok()) return Fail(context, details.status());
  }
  absl::StatusOr<std::vector<client::SweepSummary>> parts = std::vector<client::SweepSummary>();
  const bool range = details->spec.range.has_value();
  if (range && (flags.parts || flags.candidates || context.json)) {
    parts = (*client)->List({0, false, false, details->summary.sweep}, context.Options());
    if (!parts.ok()) return Fail(context, parts.status());
  }
  if (context.json) {
    nlohmann::json value = ToJson(*details);
    if (range) value["parts"] = nlohmann::json::array();
    for (const client::SweepSummary& part : *parts) value["parts"].push_back(ToJson(part));
    PrintJson(value);
    return kExitOk;
  }
  PrintDetails(*details, flags.candidates);
  if (range && flags.candidates) {
    std::printf("\ncandidates are those of its parts: tunectl show PART --candidates\n");
  }
  if (range && (flags.parts || flags.candidates)) std::printf("\n%s", SweepTable(*parts).c_str());
  return kExitOk;
}

int RunWorkers(const Context& context) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto workers = (*client)->Workers(context.Options());
  if (!workers.ok()) return Fail(context, workers.status());
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const client::WorkerInfo& worker : *workers) rows.push_back(ToJson(worker));
    PrintJson({{"workers", rows}});
    return kExitOk;
  }
  std::vector<std::vector<std::string>> table = {
      {"WORKER", "STATE", "COMPILE", "PROFILE", "HEARTBEAT", "BUILD", "DEVICES"}};
  for (const client::WorkerInfo& w : *workers) {
    table.push_back({w.name, w.state, absl::StrCat(w.busy_compile, "/", w.compile_slots),
                     absl::StrCat(w.busy_profile, "/", w.profile_slots),
                     absl::StrCat(FormatSeconds(w.seconds_since_heartbeat), " ago"),
                     w.compiler_build.substr(0, 16), absl::StrJoin(w.archs, "; ")});
  }
  std::printf("%s", FormatTable(table).c_str());
  for (const client::WorkerInfo& w : *workers) {
    for (const std::string& note : w.notes) {
      std::printf("%s: %s\n", w.name.c_str(), note.c_str());
    }
  }
  return kExitOk;
}

struct CancelFlags {
  std::vector<std::string> sweeps;
  std::string reason = "cancelled by the user";
};

int RunCancel(const Context& context, const CancelFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  nlohmann::json results = nlohmann::json::array();
  for (const std::string& sweep : flags.sweeps) {
    const auto state = (*client)->Cancel(sweep, flags.reason, context.Options());
    if (!state.ok()) return Fail(context, state.status());
    const std::string word(client::ToString(state->state));
    results.push_back({{"sweep", sweep},
                       {"state", word},
                       {"had_ended", state->had_ended},
                       {"message", state->message}});
    if (context.json) continue;
    if (!state->had_ended) {
      std::printf("%s  %s\n", sweep.c_str(), word.c_str());
    } else {
      std::printf("%s  had ended already, %s: %s%s%s\n", sweep.c_str(),
                  FormatAge(state->finished, absl::Now()).c_str(), word.c_str(),
                  state->message.empty() ? "" : ": ", state->message.c_str());
    }
  }
  if (context.json) PrintJson({{"sweeps", results}});
  return kExitOk;
}

void AddShow(Context* context) {
  auto flags = std::make_shared<ShowFlags>();
  CLI::App* const show = AddCommand(
      context, "show", "Show one sweep",
      "State, slate, where the time went, and the winner; with --candidates every "
      "candidate with its\npredicted time and its time in the last round that it was in, with "
      "--parts the sweeps that a "
      "range is made of. --json always carries\nboth. 'clock' cuts the elapsed time into "
      "what the farm did, 'device' into what each device that\nmeasured did, or waited "
      "for; 'tasks' are sums over tasks, of which several run at once.",
      {"tunectl show 3f9ac1d2", "tunectl show 3f9ac1d2 --candidates"});
  show->add_option("SWEEP", flags->sweep, "digest of the sweep, or at least 6 of its digits")
      ->required();
  show->add_flag("--candidates", flags->candidates, "list the candidates too");
  show->add_flag("--parts", flags->parts, "of a range: list its sweeps too");
  show->callback(
      [context, flags] { context->run = [context, flags] { return RunShow(*context, *flags); }; });
}

void AddCancel(Context* context) {
  auto flags = std::make_shared<CancelFlags>();
  CLI::App* const cancel = AddCommand(
      context, "cancel", "End running sweeps",
      "Ends sweeps; what was measured stays stored. A sweep that has ended already keeps its "
      "state, "
      "and the line\nsays when and how it ended.",
      {"tunectl cancel 3f9ac1d2", "tunectl cancel 3f9ac1d2 77b0e1aa --reason 'wrong shape'"});
  cancel->add_option("SWEEP", flags->sweeps, "digests, or at least 6 of their digits")->required();
  cancel->add_option("--reason", flags->reason, "kept with the sweep")->type_name("TEXT");
  cancel->callback([context, flags] {
    context->run = [context, flags] { return RunCancel(*context, *flags); };
  });
}

}  // namespace

void AddListCommands(Context* context) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* const list = AddCommand(
      context, "list", "List sweeps, the newest first",
      "DONE counts the candidates of the slate that came to an end, other than by the end "
      "of their sweep; BEST is\nthe winner's time, while a sweep runs the least so far, of "
      "whichever round. A sweep for a range of sizes is one\nline; DONE then counts the "
      "measurements at one size each that it is made of. Their own sweeps are listed "
      "with\n--parts.",
      {"tunectl list", "tunectl list --active", "tunectl --json list --limit 0"});
  list->add_option("--limit", flags->limit, "at most N sweeps; 0 = all")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  list->add_flag("--active", flags->active, "only sweeps that have not ended");
  list->add_flag("--parts", flags->parts, "the sweeps that ranges are made of too");
  list->callback(
      [context, flags] { context->run = [context, flags] { return RunList(*context, *flags); }; });
  AddShow(context);
  CLI::App* const workers = AddCommand(context, "workers", "List the farm's workers",
                                       "Slots in use of all slots, devices, compiler build, and "
                                       "for a worker that gets no work, why.",
                                       {"tunectl workers"});
  workers->callback([context] { context->run = [context] { return RunWorkers(*context); }; });
  AddCancel(context);
}

}  // namespace kiln::tunectl
