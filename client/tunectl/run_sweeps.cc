#include "client/tunectl/run_sweeps.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"
#include "client/tunectl/progress.h"
#include "compiler/base/status.h"

namespace kiln::tunectl {
namespace {

struct Outcome {
  client::SweepSpec spec;
  client::Submitted submitted;
  absl::Status status;  // of the calls
  client::SweepState state = client::SweepState::kUnknown;
  std::string message;
  std::shared_ptr<const client::Winner> winner;
  std::vector<std::string> files;

  int exit_code() const { return status.ok() ? ExitCodeOf(state) : ExitCodeOf(status); }
};

nlohmann::json OutcomeJson(const Outcome& outcome) {
  nlohmann::json value = {{"name", outcome.spec.name},
                          {"sweep", outcome.submitted.sweep},
                          {"joined", outcome.submitted.joined},
                          {"answered", outcome.submitted.winner != nullptr},
                          {"not_compared", outcome.submitted.not_compared},
                          {"state", std::string(client::ToString(outcome.state))},
                          {"message", outcome.message},
                          {"files", outcome.files},
                          {"exit_code", outcome.exit_code()}};
  value["winner"] = outcome.winner == nullptr ? nlohmann::json(nullptr) : ToJson(*outcome.winner);
  if (!outcome.status.ok()) value["error"] = std::string(outcome.status.message());
  return value;
}

// A winner that answers may be of an older compiler where nobody is attached who has one.
std::string HowAnswered(const client::Submitted& submitted) {
  const std::vector<std::string>& unknown = submitted.not_compared;
  const bool any = std::find(unknown.begin(), unknown.end(), "compiler") != unknown.end();
  return any ? "answered from the store, whichever compiler made it: no worker compiles for it now"
             : "answered from the store";
}

void PrintOutcome(const Outcome& outcome, bool watched) {
  if (!outcome.status.ok()) {
    std::fprintf(stderr, "tunectl: %s: %s\n", outcome.spec.name.c_str(),
                 std::string(outcome.status.message()).c_str());
    return;
  }
  const std::string how = outcome.submitted.winner != nullptr ? HowAnswered(outcome.submitted)
                          : outcome.submitted.joined          ? "joined"
                                                              : "submitted";
  if (!watched && outcome.winner == nullptr) {
    std::printf("%s  %s  %s\n", outcome.submitted.sweep.c_str(), outcome.spec.name.c_str(),
                how.c_str());
    return;
  }
  std::printf("%s  (%s%s%s)\n", outcome.spec.name.c_str(),
              std::string(client::ToString(outcome.state)).c_str(),
              outcome.submitted.winner != nullptr
                  ? absl::StrCat(", ", HowAnswered(outcome.submitted)).c_str()
                  : "",
              outcome.message.empty() ? "" : absl::StrCat(": ", outcome.message).c_str());
  if (outcome.winner != nullptr) std::printf("%s", FormatWinner(*outcome.winner).c_str());
  for (const std::string& file : outcome.files) std::printf("wrote    %s\n", file.c_str());
}

// The farm answers a submit only once it knows a device to tune for. While it does not, this says
// so on stderr, after a moment and again when there is another reason.
class WaitNotice {
 public:
  WaitNotice(const Context& context, client::Client* client, const client::SweepSpec& spec,
             const std::string& hint)
      : context_(context), client_(client), spec_(spec), hint_(hint) {
    if (!context.quiet) thread_ = std::thread([this] { Run(); });
  }
  ~WaitNotice() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

 private:
  static constexpr std::chrono::seconds kFirst{3}, kAgain{15};

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (std::chrono::seconds pause = kFirst; !wake_.wait_for(lock, pause, [&] { return over_; });
         pause = kAgain) {
      lock.unlock();
      client::CallOptions quick = context_.Options();
      quick.timeout = absl::Seconds(2);
      quick.retry.max_attempts = 1;
      const absl::StatusOr<std::string> why = client_->WhyNobody(spec_.target, quick);
      lock.lock();
      if (over_ || !why.ok() || why->empty()) continue;
      const std::string& reason = hint_.empty() ? *why : hint_;
      if (reason == said_) continue;
      said_ = reason;
      std::fprintf(stderr, "tunectl: %s waits for a worker: %s\n", spec_.name.c_str(),
                   reason.c_str());
      std::fflush(stderr);
    }
  }

  const Context& context_;
  client::Client* const client_;
  const client::SweepSpec& spec_;
  const std::string& hint_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;  // guarded by mutex_
  std::string said_;   // of the thread alone
  std::thread thread_;
};

void Submit(const Context& context, client::Client* client, const std::string& hint,
            Outcome* outcome) {
  if (context.cancel.cancelled()) {
    outcome->status = absl::CancelledError("interrupted before it was submitted");
    return;
  }
  absl::StatusOr<client::Submitted> submitted = absl::UnknownError("not submitted");
  {
    const WaitNotice notice(context, client, outcome->spec, hint);
    submitted = client->Submit(outcome->spec, context.Options());
  }
  outcome->status = submitted.status();
  if (!submitted.ok()) return;
  outcome->submitted = *std::move(submitted);
  outcome->winner = outcome->submitted.winner;
  outcome->state =
      outcome->winner != nullptr ? client::SweepState::kDone : client::SweepState::kExpanding;
}

void WatchOutcome(const Context& context, client::Client* client, Outcome* outcome) {
  if (!outcome->status.ok() || outcome->winner != nullptr) return;
  const absl::StatusOr<client::SweepEvent> last = WatchWithProgress(
      context, client, outcome->submitted.sweep, outcome->spec.name, /*json_events=*/false);
  outcome->status = last.status();
  if (!last.ok()) return;
  outcome->state = last->progress.state;
  outcome->message = last->progress.message;
  outcome->winner = last->winner;
}

void FetchOutcome(const Context& context, client::Client* client, const FetchTarget& target,
                  Outcome* outcome) {
  if (!outcome->status.ok() || outcome->state != client::SweepState::kDone) return;
  const std::string& sweep = outcome->submitted.sweep;
  absl::StatusOr<FetchedFiles> files =
      outcome->spec.objective == client::Objective::kCompile
          ? FetchAllConfigs(client, sweep, target, context.Options())
      : outcome->winner != nullptr
          ? FetchFiles(client, WinnerRequest(*outcome->winner), target, context.Options())
          : FetchFiles(client, {sweep, ""}, target, context.Options());
  outcome->status = files.status();
  if (files.ok()) outcome->files = std::move(files->files);
}

void CancelAll(client::Client* client, const std::vector<Outcome>& outcomes) {
  client::CallOptions quick;
  quick.timeout = absl::Seconds(2);
  quick.retry.max_attempts = 1;
  for (const Outcome& outcome : outcomes) {
    if (outcome.submitted.sweep.empty() || client::IsTerminal(outcome.state)) continue;
    (void)client->Cancel(outcome.submitted.sweep, "interrupted", quick);
  }
}

// Several sweeps into one folder: each gets one of its own in it.
FetchTarget TargetFor(const RunPlan& plan, const Outcome& outcome) {
  FetchTarget one = *plan.fetch;
  if (plan.specs.size() > 1) {
    absl::StrAppend(&one.directory, "/",
                    SweepFolder(outcome.spec, outcome.submitted.sweep, plan.specs));
  }
  return one;
}

bool IsGpuCodeAlone(const RunPlan& plan) {
  return plan.fetch.has_value() &&
         (plan.fetch->format == BundleFormat::kCubin || plan.fetch->format == BundleFormat::kPtx);
}

// What an interrupt means for a sweep.
absl::Status Interrupted(const Outcome& outcome, bool cancels) {
  const std::string& sweep = outcome.submitted.sweep;
  if (sweep.empty()) return absl::CancelledError("interrupted before it was submitted");
  if (cancels) return absl::CancelledError("interrupted: the sweep is cancelled");
  return absl::CancelledError(absl::StrCat("interrupted: the farm goes on with ", sweep));
}

}  // namespace

absl::StatusOr<client::SweepEvent> WatchWithProgress(const Context& context, client::Client* client,
                                                     const std::string& sweep,
                                                     const std::string& name, bool json_events) {
  std::FILE* const stream = json_events ? stdout : stderr;
  ProgressView view(name, StyleFor(stream, json_events, context.quiet), stream,
                    TerminalColumns(stream));
  absl::StatusOr<client::SweepEvent> last = client->Watch(
      sweep,
      [&view](const client::SweepEvent& event) {
        view.Show(event, absl::Now());
        return true;
      },
      context.Options());
  view.End();
  return last;
}

int RunSweeps(const Context& context, client::Client* client, const RunPlan& plan) {
  std::vector<Outcome> outcomes;
  for (const client::SweepSpec& spec : plan.specs) {
    Outcome outcome;
    outcome.spec = spec;
    outcomes.push_back(std::move(outcome));
  }
  if (!plan.one_at_a_time) {
    for (Outcome& outcome : outcomes) Submit(context, client, plan.no_worker_hint, &outcome);
  }
  int exit_code = kExitOk;
  nlohmann::json results = nlohmann::json::array();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    Outcome& outcome = outcomes[i];
    if (plan.one_at_a_time) Submit(context, client, plan.no_worker_hint, &outcome);
    if (plan.watch) WatchOutcome(context, client, &outcome);
    if (plan.watch && plan.fetch.has_value()) {
      FetchOutcome(context, client, TargetFor(plan, outcome), &outcome);
    }
    if (!outcome.status.ok() && plan.why_failed) {
      if (absl::Status why = plan.why_failed(); !why.ok()) outcome.status = std::move(why);
    }
    outcome.status = AdviseOnTimeout(outcome.status, plan.timeout_advice);
    if (absl::IsCancelled(outcome.status) && context.cancel.cancelled()) {
      outcome.status = Interrupted(outcome, plan.cancel_on_interrupt);
    }
    if (exit_code == kExitOk) exit_code = outcome.exit_code();
    if (context.json) {
      results.push_back(OutcomeJson(outcome));
    } else {
      PrintOutcome(outcome, plan.watch);
    }
  }
  if (context.json) PrintJson({{"sweeps", results}});
  if (context.cancel.cancelled() && plan.cancel_on_interrupt) CancelAll(client, outcomes);
  return exit_code;
}

bool IsForCpu(const client::SweepSpec& spec) {
  return spec.target.empty() || spec.target == "cpu" || absl::StartsWith(spec.target, "x86-64");
}

absl::Status SetSweeps(std::vector<client::SweepSpec> specs, RunPlan* plan) {
  plan->specs = std::move(specs);
  if (!IsGpuCodeAlone(*plan)) return absl::OkStatus();
  const auto cpu = std::find_if(plan->specs.begin(), plan->specs.end(), IsForCpu);
  if (cpu == plan->specs.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--format ", kBundleFormats[static_cast<size_t>(plan->fetch->format)],
      " is a GPU's code alone, and '", cpu->name, "' is for ", cpu->target, ": use so or obj"));
}

void LeaveOutUnfetchable(const RunPlan& plan, std::vector<client::SweepSpec>* specs) {
  if (!IsGpuCodeAlone(plan)) return;
  const size_t left = std::erase_if(*specs, IsForCpu);
  if (left == 0) return;
  std::fprintf(
      stderr, "tunectl: %zu misses are for CPUs, and --format %s is a GPU's code alone: left out\n",
      left, kBundleFormats[static_cast<size_t>(plan.fetch->format)].c_str());
}

absl::StatusOr<RunPlan> PlanRun(const SweepFlags& sweeps, const FetchFlags& fetch) {
  RunPlan plan;
  if (fetch.wanted()) plan.fetch = fetch.Target();
  if (!sweeps.from_misses) {
    KILN_ASSIGN_OR_RETURN(std::vector<client::SweepSpec> specs, LoadSweeps(sweeps));
    KILN_RETURN_IF_ERROR(SetSweeps(std::move(specs), &plan));
  }
  if (plan.fetch.has_value()) KILN_RETURN_IF_ERROR(CheckFolder(plan.fetch->directory));
  return plan;
}

FetchTarget FetchFlags::Target() const {
  FetchTarget target;
  if (!directory.empty()) target.directory = directory;
  target.base_name = base_name;
  const auto it = std::find(kBundleFormats.begin(), kBundleFormats.end(), format);
  target.format = static_cast<BundleFormat>(it - kBundleFormats.begin());
  return target;
}

void AddFetchFlags(CLI::App* command, FetchFlags* flags, bool only_with_output) {
  flags->directory_option =
      command
          ->add_option("-o,--output", flags->directory,
                       only_with_output ? "fetch the winners into this folder"
                                        : "folder for the files (default: the working directory)")
          ->type_name("DIR");
  CLI::Option* const format =
      command
          ->add_option(
              "--format", flags->format,
              "so: shared object; obj: object; cubin, ptx: a GPU's code alone; bundle: everything "
              "in one file")
          ->check(CLI::IsMember(kBundleFormats))
          ->capture_default_str();
  CLI::Option* const name =
      command
          ->add_option("--name", flags->base_name,
                       "base name of the files (default: the kernel's, by which programs look for "
                       "a shared object that they were linked with)")
          ->type_name("NAME")
          ->check([](const std::string& name) {
            return name.empty() || name.find('/') != std::string::npos || name[0] == '.'
                       ? std::string("a file name without folders")
                       : std::string();
          });
  if (!only_with_output) return;
  format->needs(flags->directory_option);
  name->needs(flags->directory_option);
}

}  // namespace kiln::tunectl
