// tune
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/tunectl/command.h"
#include "client/tunectl/embedded_farm.h"
#include "client/tunectl/format.h"
#include "client/tunectl/run_sweeps.h"

namespace kiln::tunectl {
namespace {

struct TuneFlags {
  SweepFlags sweeps;
  FetchFlags fetch;
  std::string store;
  int compile_slots = 0;
  bool with_company = false;
  bool no_wait = false;
};

// How long a stored winner waits for the workers whose toolchain it is compared with.
constexpr absl::Duration kAttachWait = absl::Seconds(10);

constexpr size_t kToldOf = 4;  // sweeps of earlier commands, by name

// Why the farm's child ended, if it did.
class DeathNote {
 public:
  void Set(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
    if (ends_.has_value()) ends_->Cancel();
  }
  absl::Status Get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  // From now on a death ends what waits on this. Returns Get().
  absl::Status Ends(const client::CancelToken& cancel) {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = cancel;
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status status_;                      // guarded by mutex_
  std::optional<client::CancelToken> ends_;  // guarded by mutex_
};

// A worker for the CPU, one for the GPUs, or both. What is only compiled needs no device.
std::vector<std::string> DevicesFor(const std::vector<client::SweepSpec>& specs) {
  bool cpu = false;
  bool gpu = false;
  for (const client::SweepSpec& spec : specs) {
    const bool on_cpu = IsForCpu(spec) || spec.objective == client::Objective::kCompile;
    (on_cpu ? cpu : gpu) = true;
  }
  std::vector<std::string> devices;
  if (cpu) devices.push_back("cpu");
  if (gpu) devices.push_back("gpu");
  return devices;
}

// A list of misses may name GPUs that only other machines have.
void LeaveOutGpus(std::vector<client::SweepSpec>* specs) {
  std::error_code ignored;
  if (std::filesystem::exists("/dev/nvidiactl", ignored)) return;
  const size_t left = std::erase_if(
      *specs, [](const client::SweepSpec& spec) { return DevicesFor({spec}).front() == "gpu"; });
  if (left == 0) return;
  std::fprintf(stderr, "tunectl: %zu misses are for GPUs, and there is none here: left out\n",
               left);
}

// A winner of another compiler's is no answer, but while no worker is attached nobody knows whose
// it should be. So a store that has tuned before is asked once all workers are there, one has died,
// or the wait is over.
void AwaitWorkers(const Context& context, client::Client* client, size_t count,
                  const DeathNote& death) {
  const auto before = client->List(1, /*active_only=*/false, context.Options());
  if (!before.ok() || before->empty()) return;
  const double limit = context.timeout_seconds;
  const absl::Time end =
      absl::Now() + (limit > 0 ? std::min(absl::Seconds(limit) / 2, kAttachWait) : kAttachWait);
  while (absl::Now() < end && death.Get().ok() && !context.cancel.cancelled()) {
    const auto workers = client->Workers(context.Options());
    if (!workers.ok()) return;
    const auto here = std::count_if(workers->begin(), workers->end(),
                                    [](const auto& worker) { return worker.state != "lost"; });
    if (static_cast<size_t>(here) >= count) return;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

// Whether the store answers them all, so that no worker is needed.
bool AllStored(const Context& context, client::Client* client,
               const std::vector<client::SweepSpec>& specs) {
  return std::all_of(specs.begin(), specs.end(), [&](const client::SweepSpec& spec) {
    if (spec.fresh || spec.objective != client::Objective::kTune) return false;
    const auto found = client->Lookup(spec, context.Options());
    return found.ok() && found->winner != nullptr;
  });
}

// What earlier commands left unfinished in the store shares its workers with what is asked for now.
void TellOfOthers(const Context& context, client::Client* client, const std::string& store,
                  const std::vector<client::SweepSpec>& specs) {
  if (context.quiet) return;
  const auto active = client->List(0, /*active_only=*/true, context.Options());
  if (!active.ok()) return;
  std::vector<std::string> told;
  for (const client::SweepSummary& sweep : *active) {
    const bool asked_for = std::any_of(specs.begin(), specs.end(),
                                       [&](const auto& spec) { return spec.name == sweep.name; });
    if (!asked_for && sweep.parent.empty()) {
      told.push_back(absl::StrCat(ShortSweep(sweep.sweep), " (", sweep.name, ")"));
    }
  }
  if (told.empty()) return;
  if (told.size() > kToldOf) {
    const std::string more = absl::StrCat("and ", told.size() - kToldOf, " more");
    told.resize(kToldOf);
    told.push_back(more);
  }
  std::fprintf(stderr,
               "tunectl: the store has what earlier commands left unfinished, and works on it too: "
               "%s; 'tunectl --store %s cancel SWEEP' ends one\n",
               absl::StrJoin(told, ", ").c_str(), store.c_str());
}

int RunTune(Context* context, const TuneFlags& flags) {
  absl::StatusOr<RunPlan> plan = PlanRun(flags.sweeps, flags.fetch);
  if (!plan.ok()) return Fail(*context, plan.status());
  EmbeddedOptions options;
  options.compile_slots = flags.compile_slots;
  options.with_company = flags.with_company;
  options.devices = DevicesFor(plan->specs);
  options.worker = !flags.sweeps.from_misses;  // until it is known for which devices
  options.wait_for_store = !flags.no_wait;
  options.cancel = context->cancel;
  // --store may stand before the command or after it; the farm below is the one to ask.
  const std::string given = flags.store.empty() ? context->store : flags.store;
  context->store.clear();
  const auto store = given.empty()
                         ? DefaultStore()
                         : absl::StatusOr<std::string>(
                               std::filesystem::absolute(given).lexically_normal().string());
  if (!store.ok()) return Fail(*context, store.status());
  options.store = *store;
  DeathNote death;
  const auto farm = EmbeddedFarm::Start(options);
  if (!farm.ok()) return Fail(*context, farm.status());
  context->server = (*farm)->address();
  const auto client = context->Connect();
  if (!client.ok()) return Fail(*context, client.status());
  if (flags.sweeps.from_misses) {
    auto specs = SweepsFromMisses(*context, client->get(), flags.sweeps);
    if (!specs.ok()) return Fail(*context, specs.status());
    LeaveOutGpus(&*specs);
    LeaveOutUnfetchable(*plan, &*specs);
    if (specs->empty()) return NoMisses(*context);
    plan->specs = *std::move(specs);
    const absl::Status started = (*farm)->StartWorkers(DevicesFor(plan->specs));
    if (!started.ok()) return Fail(*context, started);
  }

  (*farm)->OnDeath([&death](const absl::Status& status) { death.Set(status); });
  AwaitWorkers(*context, client->get(), DevicesFor(plan->specs).size(), death);
  if (death.Get().ok() || !AllStored(*context, client->get(), plan->specs)) {
    const absl::Status dead = death.Ends(context->cancel);
    if (!dead.ok()) return Fail(*context, dead);
  }
  TellOfOthers(*context, client->get(), *store, plan->specs);
  plan->one_at_a_time = true;
  plan->cancel_on_interrupt = true;
  plan->no_worker_hint =
      "this machine's own is not up yet; the first time, it measures the machine. Where nothing "
      "comes of it, 'tunectl tune' was perhaps asked for a device that is not here";
  plan->timeout_advice =
      "; the sweep is kept in the store: the same command takes it up where it stopped, and any "
      "other "
      "tune of this store works on it too";
  plan->why_failed = [&death] { return death.Get(); };
  return RunSweeps(*context, client->get(), *plan);
}

}  // namespace

void AddTuneCommand(Context* context) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* const tune = AddCommand(
      context, "tune", "Tune on this machine, without a farm to set up",
      "Runs a coordinator and a worker as children of this command, over a Unix socket in a "
      "private "
      "folder; a\nworker for the GPUs too where a sweep names them; no port is opened, and both "
      "end with the command, also when it is killed. Winners "
      "are kept in a store\n($XDG_CACHE_HOME/kiln, else ~/.cache/kiln): the same sweep is answered "
      "from it the next time. Two tunes on\none store run one after the other. --server is not "
      "used.",
      {"tunectl tune gemm.yaml", "tunectl tune gemm.yaml -o build/kernels --format obj",
       "tunectl tune --from-misses", "tunectl tune gemm.yaml --fresh --store /tmp/experiment"});
  AddSweepFlags(tune, &flags->sweeps);
  AddFromMissesFlags(tune, &flags->sweeps);
  AddFetchFlags(tune, &flags->fetch, /*only_with_output=*/true);
  tune->add_option("--store", flags->store, "folder of the store (default: the user's cache)")
      ->type_name("DIR");
  tune->add_flag("--with-company", flags->with_company,
                 "measure on a GPU that other processes compute on too, and say so in the result");
  tune->add_option("--compile-slots", flags->compile_slots,
                   "candidates compiled at once (default: the worker's own)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  tune->add_flag("--no-wait", flags->no_wait, "fail at once when another tune uses the store");
  tune->callback(
      [context, flags] { context->run = [context, flags] { return RunTune(context, *flags); }; });
}

}  // namespace kiln::tunectl
