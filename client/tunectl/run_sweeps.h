// Submits sweeps, watches them to their end, fetches what they made: the body of `submit --watch`
// and of `tune`.
#ifndef KILN_CLIENT_TUNECTL_RUN_SWEEPS_H_
#define KILN_CLIENT_TUNECTL_RUN_SWEEPS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/tunectl/bundle_files.h"
#include "client/tunectl/command.h"

namespace kiln::tunectl {

struct RunPlan {
  std::vector<client::SweepSpec> specs;
  bool watch = true;
  std::optional<FetchTarget> fetch;
  // A farm works on all sweeps at once, so all are submitted first. One machine gains nothing by
  // that, and each sweep's time budget should be spent on it alone: the next waits for the last.
  bool one_at_a_time = false;
  bool cancel_on_interrupt = false;  // else interrupted sweeps go on in the farm
  std::string timeout_advice;        // what to do after a --timeout that passed
  // What is behind calls that failed, where the caller knows: a farm that has died. May be null.
  std::function<absl::Status()> why_failed;
  // What to do about a farm without a worker for a sweep, where the caller knows better than it.
  std::string no_worker_hint;
};

// Whether a sweep is for a CPU rather than for a GPU.
bool IsForCpu(const client::SweepSpec& spec);

// Gives a plan its sweeps. kFailedPrecondition where they cannot be fetched in the plan's form: no
// GPU's code alone comes of a CPU's sweep.
absl::Status SetSweeps(std::vector<client::SweepSpec> specs, RunPlan* plan);

// Of misses, which nobody chose one by one: takes out those that SetSweeps would refuse, and says
// so on standard error.
void LeaveOutUnfetchable(const RunPlan& plan, std::vector<client::SweepSpec>* specs);

// Prints what comes out (one JSON document with --json; progress always goes to stderr) and returns
// the exit code: that of the first sweep that did not succeed, else 0.
int RunSweeps(const Context& context, client::Client* client, const RunPlan& plan);

// Watches one sweep with progress on stderr (events on stdout with --json).
absl::StatusOr<client::SweepEvent> WatchWithProgress(const Context& context, client::Client* client,
                                                     const std::string& sweep,
                                                     const std::string& name, bool json_events);

// Adds -o, --format and --name.
struct FetchFlags {
  std::string directory;
  std::string format = "so";
  std::string base_name;
  CLI::Option* directory_option = nullptr;

  FetchTarget Target() const;
  bool wanted() const { return directory_option->count() > 0; }
};
// `only_with_output`: nothing is fetched without -o, so that the others need it.
void AddFetchFlags(CLI::App* command, FetchFlags* flags, bool only_with_output = false);

// What is looked at before anything runs: the sweeps (none yet of --from-misses, which a farm alone
// knows), and where what they make is to go.
absl::StatusOr<RunPlan> PlanRun(const SweepFlags& sweeps, const FetchFlags& fetch);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_RUN_SWEEPS_H_
