#include "worker/profile/runner.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/affinity.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "proto/conditions.h"
#include "proto/dispatch.h"
#include "worker/elapsed.h"
#include "worker/profile/ragged.h"
#include "worker/profile/runner_state.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCountingSeconds = 0.3;  // for hardware counters of the finalists
constexpr double kFreshSeconds = 0.15;    // for those that may have won, measured again
constexpr double kSoundSeconds = 0.1;     // that what was measured waits for a look at the device
constexpr int kScreenSamples = 5;
constexpr int kRaceSamples = 20;
constexpr double kMegabyte = 1e6;
constexpr auto kLookAgain = std::chrono::milliseconds(200);
constexpr char kCompanyRemedy[] = ": end it, or start kiln-worker with --with-company";

// Maps make the plain serialisation unstable; this one is not.
std::string StableBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

absl::StatusOr<v1::ArtifactBundle> ReadBundle(const std::string& path, std::string* digest) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  v1::ArtifactBundle bundle;
  if (!in || !bundle.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(path, " does not hold an artifact bundle"));
  }
  *digest = Sha256Hex(bytes);
  return bundle;
}

// The config that a candidate runs; of an object that dispatches, at the sizes of `inputs`.
std::string ConfigOf(const v1::SweepInputs& inputs, const std::string& config) {
  if (config != kDispatchConfig) return config;
  const auto found = inputs.runtime_values().find(inputs.dispatch().dimension());
  int64_t size = 0;
  if (found != inputs.runtime_values().end()) (void)absl::SimpleAtoi(found->second, &size);
  return VariantAt(inputs.dispatch(), size);
}

std::string RoundName(v1::TaskKind kind) {
  switch (kind) {
    case v1::TASK_RACE:
      return "race";
    case v1::TASK_FINALS:
      return "finals";
    default:
      return "screen";
  }
}

std::string Throttled(const std::string& device, const std::string& by) {
  return absl::StrCat(kNotMeasuredHere, device, " is throttled (", by,
                      "): see to its cooling and its power supply");
}

std::string SourceName(TimeSource source) {
  switch (source) {
    case TimeSource::kRecords:
      return "records";
    case TimeSource::kEvents:
      return "events";
    case TimeSource::kClock:
      break;
  }
  return "clock";
}

bool SourcesDiffer(const std::vector<absl::StatusOr<Timing>>& timings) {
  std::set<TimeSource> sources;
  for (const absl::StatusOr<Timing>& timing : timings) {
    if (timing.ok()) sources.insert(timing->source);
  }
  return sources.size() > 1;
}

bool IsKnownKind(v1::TaskKind kind) {
  return kind == v1::TASK_SCREEN || kind == v1::TASK_RACE || kind == v1::TASK_FINALS ||
         kind == v1::TASK_CHECK_RAGGED || kind == v1::TASK_CHECK_PLAIN;
}

}  // namespace

std::string BenchKey(const v1::SweepInputs& inputs, const BoundManifest& manifest) {
  Hasher hasher;
  hasher.UpdateField(StableBytes(inputs));
  for (const TensorShape& tensor : manifest.tensors) {
    hasher.UpdateField(tensor.name);
    hasher.UpdateField(tensor.type.ToString());
    hasher.UpdateField(absl::StrCat(tensor.output, tensor.accumulates, tensor.table));
    for (int64_t extent : tensor.shape) hasher.UpdateField(absl::StrCat(extent));
    for (int64_t stride : tensor.strides) hasher.UpdateField(absl::StrCat(stride));
  }
  for (int64_t value : manifest.values) hasher.UpdateField(absl::StrCat(value));
  return hasher.FinishHex();
}

Runner::Runner(Device* device, ReferenceFactory make_reference, RunnerOptions options)
    : device_(device), make_reference_(std::move(make_reference)), options_(std::move(options)) {}

Runner::~Runner() = default;

void Runner::Touch(const std::string& config) {
  current_ = config;
  v1::ProfileEvent event;
  event.set_started(config);
  (*emit_)(event);
}

void Runner::Serve(const v1::ProfileRequest& request, const Emit& emit) {
  emit_ = &emit;
  stages_.Start();
  launch_seconds_ = options_.launch_seconds;
  device_->LimitLaunches(launch_seconds_);
  device_->BeginTask();
  v1::ProfileEvent last;
  if (!IsKnownKind(request.kind())) {
    last.mutable_failure()->set_stage(v1::Failure::RUN);
    last.mutable_failure()->set_message(
        absl::StrCat("this runner does not do ", v1::TaskKind_Name(request.kind())));
  } else if (request.kind() == v1::TASK_FINALS) {
    last = RunFinals(request, emit);
  } else if (request.kind() == v1::TASK_CHECK_RAGGED) {
    last = CheckCompiledRagged(request, emit);
  } else if (request.kind() == v1::TASK_CHECK_PLAIN) {
    last = CheckBesidePlain(request, emit);
  } else {
    last = RunAlone(request, emit);
  }
  const std::map<std::string, double> seconds = stages_.Read();
  last.mutable_seconds()->insert(seconds.begin(), seconds.end());
  emit(last);
  emit_ = nullptr;
}

void Runner::LoadEntry(const v1::ProfileRequest& request, const v1::ProfileCandidate& candidate,
                       Entry* entry) {
  const StageClock::Within loading(&stages_, "setup");
  Clock::time_point begin = Clock::now();
  entry->config = candidate.config();
  entry->checked = candidate.numbers_checked();
  entry->expected_ns = candidate.expected_ns();
  entry->result.set_config(candidate.config());
  Touch(entry->config);
  auto load = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(v1::ArtifactBundle bundle,
                          ReadBundle(candidate.bundle_path(), &entry->artifact));
    KILN_ASSIGN_OR_RETURN(entry->source, ParseManifest(bundle.manifest_json()));
    std::map<std::string, std::string> values(request.inputs().runtime_values().begin(),
                                              request.inputs().runtime_values().end());
    KILN_ASSIGN_OR_RETURN(entry->manifest, BindManifest(entry->source, values));
    KILN_ASSIGN_OR_RETURN(entry->kernel,
                          device_->Load(bundle, request.inputs().measurement().threads()));
    return absl::OkStatus();
  };
  absl::Status status = load();
  if (!status.ok()) entry->Fail(MakeFailure(v1::Failure::LOAD, status));
  entry->setup_seconds += SecondsSince(begin);
}

absl::Status Runner::PrepareBench(const v1::ProfileRequest& request, Entry* entry) {
  const StageClock::Within preparing(&stages_, "setup");
  std::string key = BenchKey(request.inputs(), entry->manifest);
  if (bench_ != nullptr && bench_->key == key) {
    ForgetOtherCode(request, *entry);
    LimitLaunches(request, *entry);
    return absl::OkStatus();
  }
  Clock::time_point begin = Clock::now();
  bench_.reset();
  convicted_.clear();
  summaries_.clear();
  artifacts_ = {{entry->config, entry->artifact}};
  slowest_ns_ = 0;
  auto bench = std::make_unique<Bench>();
  bench->key = key;
  int64_t footprint = 0;
  for (const TensorShape& tensor : entry->manifest.tensors) footprint += tensor.bytes();
  std::vector<uint64_t> seeds = Checker::Seeds(request.inputs().check());
  v1::MeasurementPolicy policy = WithDefaults(request.inputs().measurement());
  const double wanted = device_->cache_turns() * static_cast<double>(device_->cache_bytes());
  bench->plan = PlanRotation(policy.cache(), footprint, static_cast<int64_t>(wanted),
                             options_.rotation_bytes, static_cast<int>(seeds.size()));
  KILN_ASSIGN_OR_RETURN(bench->tensors, TensorSet::Create(device_, entry->manifest,
                                                          bench->plan.copies, std::move(seeds)));
  // A slow set-up is a sign of life, not a hang.
  Touch(entry->config);
  bench->checker = MakeChecker(request, bench->tensors.get());
  bench->meter = std::make_unique<Meter>(
      device_, bench->tensors.get(), policy, [this](const std::string& config) { Touch(config); },
      &stages_);
  bench_ = std::move(bench);
  LimitLaunches(request, *entry);
  entry->setup_seconds += SecondsSince(begin);
  return absl::OkStatus();
}

std::unique_ptr<Checker> Runner::MakeChecker(const v1::ProfileRequest& request,
                                             TensorSet* tensors) {
  return std::make_unique<Checker>(device_, tensors, request.inputs().check(), options_.peer_bytes,
                                   [this] { Touch(current_); });
}

void Runner::LimitLaunches(const v1::ProfileRequest& request, const Entry& entry) {
  const KnownTimes known{entry.expected_ns, request.best_ns(), slowest_ns_};
  launch_seconds_ = std::max(launch_seconds_, LaunchSeconds(options_.launch_seconds, known));
  device_->LimitLaunches(launch_seconds_);
}

// Of a config that was compiled anew nothing is known, and others may have been held against what
// it was.
void Runner::ForgetOtherCode(const v1::ProfileRequest& request, const Entry& entry) {
  const auto [known, first] = artifacts_.emplace(entry.config, entry.artifact);
  if (first || known->second == entry.artifact) return;
  known->second = entry.artifact;
  convicted_.erase(entry.config);
  summaries_.clear();
  bench_->checker = MakeChecker(request, bench_->tensors.get());
  bench_->ragged.reset();
}

Checker::Candidate Runner::Checkable(const v1::ProfileRequest& request, const Entry& entry) const {
  Checker::Candidate candidate;
  candidate.config = entry.config;
  candidate.kernel = entry.kernel.get();
  candidate.manifest = &entry.manifest;
  candidate.make_reference = [this, &request, &entry] {
    return make_reference_(request.inputs(), ConfigOf(request.inputs(), entry.config),
                           entry.manifest);
  };
  candidate.make_default_reference = [this, &request, &entry] {
    return make_reference_(request.inputs(), "", entry.manifest);
  };
  return candidate;
}

void Runner::CheckEntry(const v1::ProfileRequest& request, Entry* entry) {
  auto earlier = convicted_.find(entry->config);
  if (earlier != convicted_.end()) {
    v1::Failure failure;
    failure.set_stage(v1::Failure::CHECK);
    failure.set_message("wrong numbers, found by comparison with " + earlier->second);
    entry->Fail(std::move(failure));
    return;
  }
  // Only what this process has seen right on these inputs: a check elsewhere says nothing of this
  // device, and leaves nothing here to compare the finals with.
  const auto known = summaries_.find(entry->config);
  if (entry->checked && known != summaries_.end()) {
    entry->check_summary = known->second.summary;
    entry->whole_output = known->second.whole_output;
    return;
  }
  const StageClock::Within checking(&stages_, "check");
  Clock::time_point begin = Clock::now();
  absl::StatusOr<CheckReport> report = bench_->checker->Check(Checkable(request, *entry));
  entry->check_seconds = SecondsSince(begin);
  if (!report.ok()) {
    entry->Fail(MakeFailure(v1::Failure::RUN, report.status()));
    return;
  }
  for (const std::string& config : report->convicted) convicted_[config] = entry->config;
  entry->check_summary = report->summary;
  entry->whole_output = report->whole_output;
  if (!report->passed) {
    entry->Fail(std::move(report->failure));
    return;
  }
  summaries_[entry->config] = {report->summary, report->whole_output};
}

// Who may win must be right at a shape that its tiles do not divide too.
void Runner::CheckRagged(const v1::ProfileRequest& request, Entry* entry,
                         std::map<std::string, std::string>* convicted) {
  const StageClock::Within checking(&stages_, "check");
  const Clock::time_point begin = Clock::now();
  Touch(entry->config);
  if (bench_->ragged == nullptr) {
    bench_->ragged = std::make_unique<RaggedCheck>(device_, make_reference_, request.inputs(),
                                                   [this] { Touch(current_); });
  }
  absl::StatusOr<RaggedCheck::Result> result =
      bench_->ragged->Check(entry->config, entry->source, entry->kernel.get());
  entry->check_seconds += SecondsSince(begin);
  if (!result.ok()) return entry->Fail(MakeFailure(v1::Failure::RUN, result.status()));
  for (const std::string& config : result->convicted) (*convicted)[config] = entry->config;
  if (result->wrong) return entry->Fail(std::move(result->failure));
  if (!result->text.empty()) absl::StrAppend(&entry->check_summary, "; ", result->text);
}

void Runner::FillMeasurement(const v1::ProfileRequest& request, const Timing& timing,
                             const Entry& entry, v1::Measurement* out) const {
  out->set_config(entry.config);
  out->set_device(options_.device_name);
  *out->mutable_samples_ns() = {timing.samples_ns.begin(), timing.samples_ns.end()};
  out->set_median_ns(timing.summary.median);
  out->set_p25_ns(timing.summary.p25);
  out->set_p75_ns(timing.summary.p75);
  out->set_mad_ns(timing.summary.mad);
  out->set_events_ns(timing.events_ns);
  out->set_source(SourceName(timing.source));
  out->set_dropped(timing.dropped);
  out->set_sample_count(static_cast<int64_t>(timing.samples_ns.size()));
  out->set_round(RoundName(request.kind()));
  out->set_numbers_checked(true);
  out->set_check_summary(entry.check_summary);
  out->set_whole_output(entry.whole_output);
  out->set_check_seconds(entry.check_seconds);
  out->set_setup_seconds(entry.setup_seconds);
  out->set_measure_seconds(timing.seconds);
  const RotationPlan& plan = bench_->plan;
  bool warm = request.inputs().measurement().cache() == v1::MeasurementPolicy::WARM;
  std::string conditions = warm ? "warm: one copy" : absl::StrCat("cold: ", plan.copies, " copies");
  if (!warm) {
    absl::StrAppend(&conditions, ", ", static_cast<int64_t>(plan.bytes / kMegabyte),
                    " MB in rotation (", device_->cache_turns(), " x the cache is ",
                    static_cast<int64_t>(plan.wanted_bytes / kMegabyte), " MB)");
    if (!plan.reached) {
      absl::StrAppend(&conditions, "; ", kDisturbed,
                      "the rotation is smaller than that, so that some reads may hit the cache");
    }
  }
  if (!timing.conditions.empty()) absl::StrAppend(&conditions, "; ", timing.conditions);
  if (timing.out_raced) conditions += "; stopped early, clearly behind the best";
  out->set_conditions(conditions);
}

void Runner::ScreenEntry(const v1::ProfileRequest& request, Entry* entry) {
  int samples = request.samples();
  if (samples <= 0) samples = request.kind() == v1::TASK_RACE ? kRaceSamples : kScreenSamples;
  Contestant contestant{entry->config, entry->kernel.get(), &entry->manifest};
  absl::StatusOr<Timing> timing = [&] {
    const OnCore measuring(options_.measuring_core);
    return bench_->meter->Screen(contestant, samples, request.best_ns());
  }();
  if (!timing.ok()) {
    entry->Fail(MakeFailure(v1::Failure::RUN, timing.status()));
    return;
  }
  if (timing->samples_ns.empty()) {
    entry->result.set_not_run(true);
    entry->throttled = timing->throttled;
    return;
  }
  slowest_ns_ = std::max(slowest_ns_, timing->summary.median);
  FillMeasurement(request, *timing, *entry, entry->result.mutable_measurement());
}

// Others change the times. False: it ends the request, as `last` says. The journal names `next`, so
// that waiting is no hang.
bool Runner::WaitUntilAlone(const std::string& next, v1::ProfileEvent* last) {
  const StageClock::Within waiting(&stages_, "company");
  const Clock::time_point begin = Clock::now();
  std::vector<std::string> company = device_->Company();
  if (!company.empty()) company = device_->Company();  // without those that have left by now
  while (!company.empty() && company != stayed_) {
    if (SecondsSince(begin) >= options_.company_seconds) {
      stayed_ = company;
      break;
    }
    Touch(next);
    std::this_thread::sleep_for(kLookAgain);
    company = device_->Company();
  }
  if (company.empty()) stayed_.clear();
  if (company.empty() || options_.with_company) return true;
  last->set_unavailable(absl::StrCat(kNotMeasuredHere, absl::StrJoin(company, ", "), " uses ",
                                     device_->name(), " too", kCompanyRemedy));
  return false;
}

// Whether nobody came since the last look; else what was measured `since` goes back, or says so.
bool Runner::StayedAlone(const std::vector<v1::CandidateResult*>& since, v1::ProfileEvent* last) {
  const StageClock::Within looking(&stages_, "company");
  const std::vector<std::string> company = device_->Company();
  if (company.empty()) return true;
  const std::string who = absl::StrJoin(company, ", ");
  for (v1::CandidateResult* result : since) {
    if (!result->has_measurement()) continue;
    if (options_.with_company) {
      absl::StrAppend(result->mutable_measurement()->mutable_conditions(), "; ", kDisturbed, who,
                      " used ", device_->name(), " too");
    } else {
      result->clear_measurement();
      result->set_not_run(true);
    }
  }
  if (options_.with_company) return true;
  last->set_unavailable(absl::StrCat(kNotMeasuredHere, who, " used ", device_->name(),
                                     " while it was measured", kCompanyRemedy));
  return false;
}

DeviceHealth Runner::LookAt(bool with_time) {
  const StageClock::Within looking(&stages_, "health");
  return with_time ? device_->Examine() : device_->Faults();
}

// A fault of the device costs no candidate anything but its measurement, and all that was measured
// `since` the last look; one that some program made while a single candidate ran, `alone`, is taken
// for that candidate's. False: it ends the request.
bool Runner::Sound(const DeviceHealth& health, Entry* alone,
                   const std::vector<v1::CandidateResult*>& since, v1::ProfileEvent* last) {
  if (health.broken.empty() && health.tainted.empty()) return true;
  if (health.broken.empty() && alone != nullptr) {
    if (alone->alive()) {
      alone->Fail(MakeFailure(v1::Failure::RUN,
                              absl::AbortedError(absl::StrCat(
                                  health.tainted, " on ", device_->name(),
                                  " while it was checked and timed: that does not count"))));
    }
    return true;
  }
  for (v1::CandidateResult* result : since) {
    result->clear_measurement();
    result->clear_fresh();
    result->clear_failure();
    result->set_not_run(true);
  }
  if (!health.broken.empty()) {
    last->set_quarantined(health.broken);
  } else {
    last->set_unavailable(absl::StrCat(device_->name(), ": ", health.tainted,
                                       ": what was measured meanwhile does not count"));
  }
  return false;
}

// The look at the device's time costs about as much as a screen, so that several candidates share
// one; none is reported before it.
v1::ProfileEvent Runner::RunAlone(const v1::ProfileRequest& request, const Emit& emit) {
  v1::ProfileEvent last;
  last.set_done(true);
  std::vector<v1::CandidateResult> held;
  const auto report = [&] {
    for (v1::CandidateResult& result : held) {
      v1::ProfileEvent event;
      *event.mutable_result() = std::move(result);
      emit(event);
    }
    held.clear();
  };
  const auto look = [&](bool with_time, Entry* alone) {
    std::vector<v1::CandidateResult*> since;
    for (v1::CandidateResult& result : held) since.push_back(&result);
    if (alone != nullptr) since.push_back(&alone->result);
    if (!Sound(LookAt(with_time), alone, since, &last)) return false;
    // In company that is allowed, those before have said so themselves.
    if (alone != nullptr && options_.with_company) since = {&alone->result};
    return StayedAlone(since, &last);
  };
  Clock::time_point looked = Clock::now();
  bool sound =
      request.candidates_size() == 0 || WaitUntilAlone(request.candidates(0).config(), &last);
  for (int i = 0; sound && i < request.candidates_size(); ++i) {
    const v1::ProfileCandidate& candidate = request.candidates(i);
    Entry entry;
    LoadEntry(request, candidate, &entry);
    if (entry.alive()) {
      absl::Status prepared = PrepareBench(request, &entry);
      if (!prepared.ok()) entry.Fail(MakeFailure(v1::Failure::RESOURCES, prepared));
    }
    if (entry.alive()) CheckEntry(request, &entry);
    if (entry.alive()) ScreenEntry(request, &entry);
    const bool due = i + 1 == request.candidates_size() || SecondsSince(looked) >= kSoundSeconds;
    sound = look(due, &entry);
    if (sound && !entry.throttled.empty()) {
      last.set_unavailable(Throttled(device_->name(), entry.throttled));
      sound = false;
    }
    held.push_back(std::move(entry.result));
    if (!due && sound) continue;
    report();
    looked = Clock::now();
  }
  if (sound && !held.empty()) look(true, nullptr);
  report();
  return last;
}

void Runner::FinishFinalist(const v1::ProfileRequest& request, const absl::StatusOr<Timing>& timing,
                            Entry* entry) {
  if (!entry->alive()) return;
  if (!timing.ok()) {
    entry->Fail(MakeFailure(v1::Failure::RUN, timing.status()));
    return;
  }
  entry->out_raced = timing->out_raced;
  FillMeasurement(request, *timing, *entry, entry->result.mutable_measurement());
  const StageClock::Within checking(&stages_, "check");
  Touch(entry->config);
  absl::StatusOr<CheckReport> report = bench_->checker->Recheck(Checkable(request, *entry));
  if (!report.ok()) {
    entry->Fail(MakeFailure(v1::Failure::RUN, report.status()));
    return;
  }
  for (const std::string& config : report->convicted) convicted_[config] = entry->config;
  if (!report->passed) entry->Fail(std::move(report->failure));
}

// Who wins had luck with the samples that chose it. The choice is the coordinator's, so that all
// who ran to the end of the finals, or nearly, are measured again, each alone, in a time for all.
void Runner::MeasureAgain(const v1::ProfileRequest& request,
                          const std::vector<absl::StatusOr<Timing>>& timings,
                          const std::vector<Entry*>& finalists) {
  size_t most = 0;
  for (const auto& timing : timings) {
    if (timing.ok()) most = std::max(most, timing->samples_ns.size());
  }
  std::vector<Entry*> again;
  for (size_t i = 0; i < finalists.size(); ++i) {
    if (timings[i].ok() && timings[i]->samples_ns.size() * 2 >= most) again.push_back(finalists[i]);
  }
  if (again.empty()) return;
  {
    const StageClock::Within measuring(&stages_, "measure");
    std::this_thread::sleep_for(std::chrono::duration<double>(device_->cool_seconds()));
  }
  std::vector<absl::StatusOr<Timing>> fresh;
  const OnCore measuring(options_.measuring_core);
  const auto take = [&] {
    fresh.clear();
    for (const Entry* entry : again) {
      fresh.push_back(bench_->meter->Again({entry->config, entry->kernel.get(), &entry->manifest},
                                           kFreshSeconds / static_cast<double>(again.size())));
    }
  };
  take();
  // A device that lost its records in the middle stays without until the next request.
  if (SourcesDiffer(fresh)) take();
  for (size_t i = 0; i < again.size(); ++i) {
    Entry* entry = again[i];
    const absl::StatusOr<Timing>& timing = fresh[i];
    if (!timing.ok()) {
      entry->Fail(MakeFailure(v1::Failure::RUN, timing.status()));
      continue;
    }
    if (timing->samples_ns.empty()) continue;  // throttled since: the finals' samples stay
    FillMeasurement(request, *timing, *entry, entry->result.mutable_fresh());
    entry->result.mutable_fresh()->set_round("fresh");
  }
}

// In launches of their own, when all times are taken; the fastest first, as long as there is time.
// Who was stopped cannot be the winner.
void Runner::CountFinalists(std::vector<Entry*> finalists) {
  std::erase_if(finalists, [](const Entry* entry) {
    return !entry->alive() || !entry->result.has_measurement();
  });
  std::sort(finalists.begin(), finalists.end(), [](const Entry* a, const Entry* b) {
    return a->result.measurement().median_ns() < b->result.measurement().median_ns();
  });
  const Clock::time_point begin = Clock::now();
  for (Entry* entry : finalists) {
    v1::Measurement* measurement = entry->result.mutable_measurement();
    if (entry->out_raced) {
      measurement->set_counters_missing("it was stopped early, clearly behind the best");
      continue;
    }
    if (SecondsSince(begin) > kCountingSeconds) {
      measurement->set_counters_missing("faster candidates took the time for counting");
      continue;
    }
    const auto counted =
        bench_->meter->Count({entry->config, entry->kernel.get(), &entry->manifest});
    if (absl::IsUnimplemented(counted.status())) return;
    if (!counted.ok()) {
      measurement->set_counters_missing(std::string(counted.status().message()));
      continue;
    }
    measurement->mutable_counters()->insert(counted->begin(), counted->end());
  }
}

v1::ProfileEvent Runner::RunFinals(const v1::ProfileRequest& request, const Emit& emit) {
  v1::ProfileEvent last;
  last.set_done(true);
  if (request.candidates_size() == 0) return last;
  if (!WaitUntilAlone(request.candidates(0).config(), &last)) return last;
  std::vector<Entry> entries(static_cast<size_t>(request.candidates_size()));
  std::vector<Contestant> contestants;
  std::vector<Entry*> running;
  std::string key;
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    LoadEntry(request, request.candidates(static_cast<int>(i)), &entry);
    if (!entry.alive()) continue;
    std::string own = BenchKey(request.inputs(), entry.manifest);
    if (!key.empty() && own != key) {
      // Candidates interleave over one set of tensors.
      entry.Fail(MakeFailure(v1::Failure::RUN, absl::FailedPreconditionError(
                                                   "its tensors are not those of the other "
                                                   "finalists: they cannot be interleaved")));
      continue;
    }
    absl::Status prepared = PrepareBench(request, &entry);
    if (!prepared.ok()) entry.Fail(MakeFailure(v1::Failure::RESOURCES, prepared));
    if (entry.alive()) key = own;
    if (entry.alive()) CheckEntry(request, &entry);
  }
  std::map<std::string, std::string> convicted;
  for (Entry& entry : entries) {
    if (entry.alive() && request.best_ns() > 0) CheckRagged(request, &entry, &convicted);
  }
  convicted_.insert(convicted.begin(), convicted.end());
  for (Entry& entry : entries) {
    // The check of a later finalist may have convicted an earlier one.
    if (entry.alive() && convicted_.count(entry.config) > 0) CheckEntry(request, &entry);
    if (!entry.alive()) continue;
    contestants.push_back({entry.config, entry.kernel.get(), &entry.manifest});
    running.push_back(&entry);
  }
  std::string throttled;
  if (!contestants.empty()) {
    // Without a best so far they are compared with each other, and nobody wins.
    const bool one_winner = request.best_ns() > 0;
    const std::vector<absl::StatusOr<Timing>> timings = [&] {
      const OnCore measuring(options_.measuring_core);
      return bench_->meter->Finals(contestants, one_winner);
    }();
    for (const absl::StatusOr<Timing>& timing : timings) {
      if (timing.ok() && timing->samples_ns.empty()) throttled = timing->throttled;
    }
    if (one_winner && throttled.empty()) MeasureAgain(request, timings, running);
    for (size_t i = 0; i < running.size() && throttled.empty(); ++i) {
      FinishFinalist(request, timings[i], running[i]);
    }
    for (Entry* entry : running) {
      if (entry->alive() && convicted_.count(entry->config) > 0) CheckEntry(request, entry);
    }
  }
  for (Entry& entry : entries) {
    if (!throttled.empty() && entry.alive()) entry.result.set_not_run(true);
  }
  if (!throttled.empty()) last.set_unavailable(Throttled(device_->name(), throttled));
  std::vector<v1::CandidateResult*> all;
  for (Entry& entry : entries) all.push_back(&entry.result);
  Entry* alone = entries.size() == 1 ? &entries[0] : nullptr;
  if (Sound(LookAt(true), alone, all, &last) && StayedAlone(all, &last)) CountFinalists(running);
  for (Entry& entry : entries) {
    if (entry.result.has_fresh()) {
      const v1::Measurement& counted = entry.result.measurement();
      *entry.result.mutable_fresh()->mutable_counters() = counted.counters();
      entry.result.mutable_fresh()->set_counters_missing(counted.counters_missing());
    }
    v1::ProfileEvent event;
    *event.mutable_result() = std::move(entry.result);
    emit(event);
  }
  return last;
}

}  // namespace kiln::worker
