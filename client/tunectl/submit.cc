// submit, watch
#include <cstdio>
#include <memory>
#include <utility>

#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/run_sweeps.h"

namespace kiln::tunectl {
namespace {

struct SubmitFlags {
  SweepFlags sweeps;
  FetchFlags fetch;
  bool watch = false;
};

int RunSubmit(const Context& context, const SubmitFlags& flags) {
  absl::StatusOr<RunPlan> plan = PlanRun(flags.sweeps, flags.fetch);
  if (!plan.ok()) return Fail(context, plan.status());
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  if (flags.sweeps.from_misses) {
    auto specs = SweepsFromMisses(context, client->get(), flags.sweeps);
    if (!specs.ok()) return Fail(context, specs.status());
    LeaveOutUnfetchable(*plan, &*specs);
    if (specs->empty()) return NoMisses(context);
    plan->specs = *std::move(specs);
  }
  plan->watch = flags.watch || plan->fetch.has_value();
  plan->timeout_advice =
      ", or submit it again to go on waiting: what the farm has accepted goes on ('tunectl list' "
      "names it, 'tunectl cancel SWEEP' ends it)";
  const int code = RunSweeps(context, client->get(), *plan);
  if (context.cancel.cancelled()) {
    std::fprintf(
        stderr,
        "tunectl: sweeps that the farm has accepted go on there; 'tunectl list' names them, "
        "'tunectl cancel SWEEP' ends one\n");
  }
  return code;
}

int RunWatch(const Context& context, const std::string& sweep) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto shown = (*client)->Show(sweep, /*with_candidates=*/false, context.Options());
  if (!shown.ok()) return Fail(context, shown.status());
  const auto last =
      WatchWithProgress(context, client->get(), sweep, shown->summary.name, context.json);
  if (!last.ok()) {
    return Fail(context, AdviseOnTimeout(last.status(),
                                         ", or watch it again: the sweep goes on ('tunectl "
                                         "cancel' ends it)"));
  }
  if (!context.json) {
    std::printf("%s%s%s\n", std::string(client::ToString(last->progress.state)).c_str(),
                last->progress.message.empty() ? "" : ": ", last->progress.message.c_str());
    if (last->winner != nullptr) std::printf("%s", FormatWinner(*last->winner).c_str());
  }
  return ExitCodeOf(last->progress.state);
}

}  // namespace

void AddSubmitCommands(Context* context) {
  auto submit_flags = std::make_shared<SubmitFlags>();
  CLI::App* const submit = AddCommand(
      context, "submit", "Submit the sweeps of a file to the farm",
      "Checks the sweep file and its kernels, submits every sweep, and prints one line a sweep: "
      "its "
      "digest, its\nname, and whether it is new, joined a running one, or is answered by a stored "
      "winner. With --watch it\nstays until the sweeps have ended; with -o it fetches the winners "
      "then. Interrupting it does not end\nthe sweeps.",
      {"tunectl submit gemm.yaml", "tunectl submit gemm.yaml --watch",
       "tunectl submit gemm.yaml --only 'M=512' --set dtype=bfloat16 -o build/kernels",
       "tunectl submit --from-misses --most 20",
       "tunectl --json submit gemm.yaml | jq -r '.sweeps[].sweep'"});
  AddSweepFlags(submit, &submit_flags->sweeps);
  AddFromMissesFlags(submit, &submit_flags->sweeps);
  AddFetchFlags(submit, &submit_flags->fetch, /*only_with_output=*/true);
  submit->add_flag("--watch", submit_flags->watch, "stay until the sweeps have ended");
  submit->callback([context, submit_flags] {
    context->run = [context, submit_flags] { return RunSubmit(*context, *submit_flags); };
  });

  auto sweep = std::make_shared<std::string>();
  CLI::App* const watch = AddCommand(
      context, "watch", "Follow a sweep until it ends",
      "Draws a bar on a terminal: settled candidates of all on the slate, their rate, the best "
      "time "
      "so far, the\nround, and the time left as the farm estimates it. Prints plain lines when "
      "stderr is no terminal, and one\nJSON object for every event with --json. Survives a restart "
      "of the coordinator.",
      {"tunectl watch 3f9ac1d2", "tunectl --json watch 3f9ac1d2 | jq .progress.best_ns"});
  watch->add_option("SWEEP", *sweep, "digest of the sweep, or at least 6 of its digits")
      ->required();
  watch->callback(
      [context, sweep] { context->run = [context, sweep] { return RunWatch(*context, *sweep); }; });
}

}  // namespace kiln::tunectl
