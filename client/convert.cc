#include "client/convert.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lang/source_bundle.h"

namespace kiln::client {
namespace {

template <typename Repeated>
std::vector<std::string> Strings(const Repeated& field) {
  return {field.begin(), field.end()};
}

template <typename Field>
std::map<std::string, std::string> TextMap(const Field& field) {
  return {field.begin(), field.end()};
}

absl::Time FromUnixMillis(int64_t millis) {
  return millis == 0 ? absl::InfinitePast() : absl::FromUnixMillis(millis);
}

v1::MeasurementPolicy ToProto(const MeasurementPolicy& policy) {
  v1::MeasurementPolicy proto;
  if (policy.cache == CachePolicy::kCold) proto.set_cache(v1::MeasurementPolicy::COLD);
  if (policy.cache == CachePolicy::kWarm) proto.set_cache(v1::MeasurementPolicy::WARM);
  proto.set_min_seconds(policy.min_seconds);
  proto.set_min_samples(policy.min_samples);
  proto.set_max_samples(policy.max_samples);
  proto.set_target_relative_error(policy.target_relative_error);
  proto.set_threads(policy.threads);
  return proto;
}

MeasurementPolicy FromProto(const v1::MeasurementPolicy& proto) {
  MeasurementPolicy policy;
  if (proto.cache() == v1::MeasurementPolicy::COLD) policy.cache = CachePolicy::kCold;
  if (proto.cache() == v1::MeasurementPolicy::WARM) policy.cache = CachePolicy::kWarm;
  policy.min_seconds = proto.min_seconds();
  policy.min_samples = proto.min_samples();
  policy.max_samples = proto.max_samples();
  policy.target_relative_error = proto.target_relative_error();
  policy.threads = proto.threads();
  return policy;
}

v1::CheckPolicy ToProto(const CheckPolicy& policy) {
  v1::CheckPolicy proto;
  if (policy.reference == CheckReference::kInterpreter) {
    proto.set_reference(v1::CheckPolicy::INTERPRETER);
  }
  if (policy.reference == CheckReference::kNone) proto.set_reference(v1::CheckPolicy::NONE);
  proto.set_rtol(policy.rtol);
  proto.set_atol(policy.atol);
  proto.mutable_seeds()->Add(policy.seeds.begin(), policy.seeds.end());
  proto.set_samples(policy.samples);
  return proto;
}

CheckPolicy FromProto(const v1::CheckPolicy& proto) {
  CheckPolicy policy;
  if (proto.reference() == v1::CheckPolicy::INTERPRETER) {
    policy.reference = CheckReference::kInterpreter;
  }
  if (proto.reference() == v1::CheckPolicy::NONE) policy.reference = CheckReference::kNone;
  policy.rtol = proto.rtol();
  policy.atol = proto.atol();
  policy.seeds.assign(proto.seeds().begin(), proto.seeds().end());
  policy.samples = proto.samples();
  return policy;
}

const char* StageName(v1::Failure::Stage stage) {
  switch (stage) {
    case v1::Failure::ELABORATE:
      return "elaborate";
    case v1::Failure::COMPILE:
      return "compile";
    case v1::Failure::LOAD:
      return "load";
    case v1::Failure::CHECK:
      return "check";
    case v1::Failure::RUN:
      return "run";
    case v1::Failure::RESOURCES:
      return "resources";
    case v1::Failure::CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

Failure FromProto(const v1::Failure& proto) {
  return {StageName(proto.stage()), proto.message(), proto.witness(), proto.worker(),
          proto.killed_child()};
}

Artifact FromProto(const v1::Artifact& proto) {
  Artifact artifact;
  artifact.digest = proto.digest();
  artifact.binary_digest = proto.binary_digest();
  artifact.size_bytes = proto.size_bytes();
  artifact.scratch_bytes = proto.resources().scratch_bytes();
  artifact.registers = proto.resources().registers();
  artifact.spill_bytes = proto.resources().spill_bytes();
  artifact.code_bytes = proto.resources().code_bytes();
  artifact.compiler_build = proto.compiler_build();
  artifact.compile_seconds = static_cast<double>(proto.compile_ns()) * 1e-9;
  return artifact;
}

Measurement FromProto(const v1::Measurement& proto) {
  Measurement m;
  m.config = proto.config();
  m.device = proto.device();
  m.round = proto.round();
  m.samples_ns.assign(proto.samples_ns().begin(), proto.samples_ns().end());
  m.sample_count = proto.sample_count() != 0 ? proto.sample_count() : proto.samples_ns_size();
  m.median_ns = proto.median_ns();
  m.p25_ns = proto.p25_ns();
  m.p75_ns = proto.p75_ns();
  m.mad_ns = proto.mad_ns();
  m.events_ns = proto.events_ns();
  m.counters.insert(proto.counters().begin(), proto.counters().end());
  m.counters_missing = proto.counters_missing();
  m.dropped = proto.dropped();
  m.numbers_checked = proto.numbers_checked();
  m.check_summary = proto.check_summary();
  m.conditions = proto.conditions();
  return m;
}

Hint FromProto(const v1::Hint& proto) {
  Hint hint;
  hint.config = proto.config();
  hint.predicted_ns = proto.predicted_ns();
  hint.predicted_low_ns = proto.predicted_low_ns();
  hint.predicted_high_ns = proto.predicted_high_ns();
  hint.bound_by = proto.bound_by();
  hint.reason = proto.reason();
  hint.risks = Strings(proto.risks());
  hint.fields = TextMap(proto.fields());
  hint.flops = proto.flops();
  hint.dram_bytes = proto.dram_bytes();
  hint.compulsory_bytes = proto.compulsory_bytes();
  hint.roofline_ns = proto.roofline_ns();
  return hint;
}

CandidateState FromProto(v1::CandidateState state) {
  switch (state) {
    case v1::QUEUED:
      return CandidateState::kQueued;
    case v1::COMPILING:
      return CandidateState::kCompiling;
    case v1::COMPILED:
      return CandidateState::kCompiled;
    case v1::PROFILING:
      return CandidateState::kProfiling;
    case v1::CANDIDATE_DONE:
      return CandidateState::kDone;
    case v1::CANDIDATE_FAILED:
      return CandidateState::kFailed;
    case v1::SKIPPED:
      return CandidateState::kSkipped;
    default:
      return CandidateState::kUnknown;
  }
}

ShapeRange FromProto(const v1::ShapeRange& proto) {
  return {proto.name(), proto.low(), proto.high(), {proto.points().begin(), proto.points().end()}};
}

std::shared_ptr<const RangeTable> FromProto(const v1::RangeTable& proto) {
  auto table = std::make_shared<RangeTable>();
  const v1::Dispatch& dispatch = proto.dispatch();
  table->dimension = dispatch.dimension();
  table->low = dispatch.low();
  table->high = dispatch.high();
  table->variants = Strings(dispatch.variants());
  for (int i = 0; i < dispatch.steps_size(); ++i) {
    const bool last = i + 1 == dispatch.steps_size();
    table->steps.push_back({dispatch.steps(i).first(),
                            last ? dispatch.high() : dispatch.steps(i + 1).first() - 1,
                            dispatch.steps(i).variant()});
  }
  table->compared = Strings(proto.compared());
  table->single = proto.single();
  table->dropped = Strings(proto.dropped());
  for (const v1::RangePoint& p : proto.points()) {
    RangePoint point;
    point.size = p.size();
    point.tuned = p.tuned();
    point.winner = p.winner();
    point.failure = p.failure();
    point.refused = p.refused();
    point.sweep = p.sweep();
    for (const v1::VariantTime& time : p.times()) point.times_ns.push_back(time.median_ns());
    point.dispatched_ns = p.dispatched_ns();
    point.single_ns = p.single_ns();
    point.ratio_low = p.ratio_low();
    point.ratio_high = p.ratio_high();
    table->points.push_back(std::move(point));
  }
  return table;
}

}  // namespace

absl::string_view ToString(SweepState state) {
  switch (state) {
    case SweepState::kUnknown:
      return "unknown";
    case SweepState::kExpanding:
      return "expanding";
    case SweepState::kRunning:
      return "running";
    case SweepState::kDone:
      return "done";
    case SweepState::kFailed:
      return "failed";
    case SweepState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

absl::string_view ToString(CandidateState state) {
  switch (state) {
    case CandidateState::kUnknown:
      return "unknown";
    case CandidateState::kQueued:
      return "queued";
    case CandidateState::kCompiling:
      return "compiling";
    case CandidateState::kCompiled:
      return "compiled";
    case CandidateState::kProfiling:
      return "profiling";
    case CandidateState::kDone:
      return "done";
    case CandidateState::kFailed:
      return "failed";
    case CandidateState::kSkipped:
      return "skipped";
  }
  return "unknown";
}

SweepState FromProto(v1::SweepState state) {
  switch (state) {
    case v1::EXPANDING:
      return SweepState::kExpanding;
    case v1::RUNNING:
      return SweepState::kRunning;
    case v1::DONE:
      return SweepState::kDone;
    case v1::FAILED:
      return SweepState::kFailed;
    case v1::CANCELLED:
      return SweepState::kCancelled;
    default:
      return SweepState::kUnknown;
  }
}

std::string ClosedSource(const SweepSpec& spec) {
  const bool open = !spec.closed && !spec.kernel_source.empty() && !spec.kernel_path.empty();
  return open ? lang::WithImportedFiles(spec.kernel_source, spec.kernel_path) : spec.kernel_source;
}

v1::SweepSpec ToProto(const SweepSpec& spec) {
  v1::SweepSpec proto;
  proto.set_name(spec.name);
  proto.set_kernel_source(ClosedSource(spec));
  proto.set_kernel_path(spec.kernel_path);
  proto.set_template_(spec.template_name);
  proto.set_entry(spec.entry);
  proto.mutable_arguments()->insert(spec.arguments.begin(), spec.arguments.end());
  proto.mutable_auto_tunables()->Add(spec.auto_tunables.begin(), spec.auto_tunables.end());
  for (const auto& [name, values] : spec.tunables) {
    (*proto.mutable_tunables())[name].mutable_values()->Add(values.begin(), values.end());
  }
  proto.mutable_configs()->Add(spec.configs.begin(), spec.configs.end());
  proto.set_target(spec.target);
  proto.set_objective(spec.objective == Objective::kCompile ? v1::SweepSpec::COMPILE
                                                            : v1::SweepSpec::TUNE);
  *proto.mutable_measurement() = ToProto(spec.measurement);
  *proto.mutable_check() = ToProto(spec.check);
  proto.set_strategy(spec.strategy);
  proto.set_seed(spec.seed);
  proto.set_top_k(spec.top_k);
  proto.set_max_candidates(spec.max_candidates);
  proto.set_max_seconds(spec.max_seconds);
  proto.set_user(spec.user);
  proto.set_priority(spec.priority);
  proto.set_deadline_seconds(spec.deadline_seconds);
  proto.set_fresh(spec.fresh);
  proto.mutable_runtime_values()->insert(spec.runtime_values.begin(), spec.runtime_values.end());
  if (spec.range.has_value()) {
    v1::ShapeRange* range = proto.mutable_range();
    range->set_name(spec.range->name);
    range->set_low(spec.range->low);
    range->set_high(spec.range->high);
    range->mutable_points()->Assign(spec.range->points.begin(), spec.range->points.end());
  }
  return proto;
}

SweepSpec FromProto(const v1::SweepSpec& proto) {
  SweepSpec spec;
  spec.name = proto.name();
  spec.kernel_source = proto.kernel_source();
  spec.closed = true;  // another's paths are none of this machine's
  spec.kernel_path = proto.kernel_path();
  spec.template_name = proto.template_();
  spec.entry = proto.entry();
  spec.arguments = TextMap(proto.arguments());
  spec.auto_tunables = Strings(proto.auto_tunables());
  for (const auto& [name, list] : proto.tunables()) spec.tunables[name] = Strings(list.values());
  spec.configs = Strings(proto.configs());
  spec.target = proto.target();
  spec.objective =
      proto.objective() == v1::SweepSpec::COMPILE ? Objective::kCompile : Objective::kTune;
  spec.measurement = FromProto(proto.measurement());
  spec.check = FromProto(proto.check());
  spec.strategy = proto.strategy();
  spec.seed = proto.seed();
  spec.top_k = proto.top_k();
  spec.max_candidates = proto.max_candidates();
  spec.max_seconds = proto.max_seconds();
  spec.user = proto.user();
  spec.priority = proto.priority();
  spec.deadline_seconds = proto.deadline_seconds();
  spec.fresh = proto.fresh();
  spec.runtime_values = TextMap(proto.runtime_values());
  if (proto.has_range()) spec.range = FromProto(proto.range());
  return spec;
}

Candidate FromProto(const v1::Candidate& proto) {
  Candidate candidate;
  candidate.config = proto.config();
  candidate.state = FromProto(proto.state());
  candidate.hint = FromProto(proto.hint());
  candidate.artifact = FromProto(proto.artifact());
  for (const v1::Measurement& m : proto.measurements()) {
    candidate.measurements.push_back(FromProto(m));
  }
  candidate.failed = proto.has_failure();
  if (candidate.failed) candidate.failure = FromProto(proto.failure());
  candidate.attempts = proto.attempts();
  candidate.same_binary_as = proto.same_binary_as();
  return candidate;
}

absl::string_view ToString(Match match) {
  switch (match) {
    case Match::kExact:
      return "exact";
    case Match::kCompatible:
      return "compatible";
    case Match::kArch:
      return "arch";
  }
  return "exact";
}

v1::Match ToProto(Match match) {
  switch (match) {
    case Match::kExact:
      return v1::EXACT;
    case Match::kCompatible:
      return v1::COMPATIBLE;
    case Match::kArch:
      return v1::ARCH;
  }
  return v1::EXACT;
}

WinnerKey FromProto(const v1::WinnerKey& proto) {
  WinnerKey key;
  key.kernel = proto.kernel();
  key.shapes = TextMap(proto.shapes());
  key.dtypes = TextMap(proto.dtypes());
  key.flags = TextMap(proto.flags());
  key.runtime = TextMap(proto.runtime());
  key.arch = proto.arch();
  key.device_model = proto.device_model();
  key.features = proto.features();
  key.cores = proto.cores();
  key.power = proto.power();
  key.memory = proto.memory();
  key.compiler = proto.compiler();
  key.assembler = proto.assembler();
  key.driver = proto.driver();
  key.measurement = proto.measurement();
  key.check = proto.check();
  key.space = proto.space();
  if (proto.has_range()) key.range = FromProto(proto.range());
  return key;
}

LookupResult FromProto(const v1::LookupWinnerResponse& proto) {
  LookupResult result;
  if (proto.found()) result.winner = std::make_shared<const Winner>(FromProto(proto.winner()));
  result.matched = proto.matched() == v1::ARCH         ? Match::kArch
                   : proto.matched() == v1::COMPATIBLE ? Match::kCompatible
                                                       : Match::kExact;
  for (const v1::KeyDifference& d : proto.differences()) {
    result.differences.push_back({d.field(), d.stored(), d.asked()});
  }
  result.miss_reason = proto.miss_reason();
  result.nearest = proto.nearest();
  result.asked = FromProto(proto.asked());
  result.not_compared = Strings(proto.not_compared());
  return result;
}

Miss FromProto(const v1::Miss& proto) {
  Miss miss;
  miss.id = proto.id();
  miss.spec = FromProto(proto.spec());
  miss.count = proto.count();
  miss.first = FromUnixMillis(proto.first_unix_ms());
  miss.last = FromUnixMillis(proto.last_unix_ms());
  miss.users = Strings(proto.users());
  miss.more_users = proto.more_users();
  miss.reason = proto.reason();
  return miss;
}

Winner FromProto(const v1::Winner& proto) {
  Winner winner;
  winner.winner_key = proto.winner_key();
  winner.key = FromProto(proto.key());
  winner.problem_key = proto.problem_key();
  winner.sweep = proto.sweep_digest();
  winner.config = proto.config();
  winner.target = proto.arch().name();
  winner.device_model = proto.arch().device_model();
  winner.name = proto.spec().name();
  winner.artifact = FromProto(proto.artifact());
  winner.measurement = FromProto(proto.measurement());
  winner.hint = FromProto(proto.hint());
  winner.ties = Strings(proto.ties());
  winner.ratio_low = proto.ratio_low();
  winner.ratio_high = proto.ratio_high();
  winner.candidates_tried = proto.candidates_tried();
  winner.candidates_failed = proto.candidates_failed();
  winner.sweep_seconds = proto.sweep_seconds();
  winner.finished = FromUnixMillis(proto.finished_unix_ms());
  if (proto.has_range()) winner.range = FromProto(proto.range());
  return winner;
}

Progress FromProto(const v1::SweepProgress& proto) {
  Progress p;
  p.state = FromProto(proto.state());
  p.total = proto.total();
  p.queued = proto.queued();
  p.compiling = proto.compiling();
  p.compiled = proto.compiled();
  p.profiling = proto.profiling();
  p.done = proto.done();
  p.failed = proto.failed();
  p.skipped = proto.skipped();
  p.not_run = proto.not_run();
  p.best_config = proto.best_config();
  p.best_ns = proto.best_ns();
  p.elapsed_seconds = proto.elapsed_seconds();
  p.estimated_seconds_left = proto.estimated_seconds_left();
  p.round = proto.round();
  p.message = proto.message();
  return p;
}

SweepEvent FromProto(const v1::SweepEvent& proto) {
  SweepEvent event;
  event.progress = FromProto(proto.progress());
  if (proto.has_changed()) {
    event.changed = std::make_shared<const Candidate>(FromProto(proto.changed()));
  }
  if (proto.has_winner()) event.winner = std::make_shared<const Winner>(FromProto(proto.winner()));
  return event;
}

SweepSummary FromProto(const v1::SweepSummary& proto) {
  SweepSummary summary;
  summary.sweep = proto.sweep();
  summary.name = proto.name();
  summary.target = proto.target();
  summary.user = proto.user();
  summary.progress = FromProto(proto.progress());
  summary.submitted = FromUnixMillis(proto.submitted_unix_ms());
  summary.finished = FromUnixMillis(proto.finished_unix_ms());
  summary.parent = proto.parent();
  if (proto.has_range()) summary.range = FromProto(proto.range());
  return summary;
}

namespace {

TimeAccount FromProto(const v1::TimeAccount& proto) {
  TimeAccount time;
  time.before_seconds = proto.before_seconds();
  time.elapsed_seconds = proto.elapsed_seconds();
  time.sweep = {proto.sweep().begin(), proto.sweep().end()};
  for (const v1::DeviceTime& device : proto.devices()) {
    time.devices.push_back(
        {device.device(), {device.seconds().begin(), device.seconds().end()}, device.idle_share()});
  }
  return time;
}

}  // namespace

SweepDetails FromProto(const v1::GetSweepResponse& proto) {
  SweepDetails details;
  details.summary = FromProto(proto.summary());
  details.spec = FromProto(proto.spec());
  for (const v1::Candidate& c : proto.candidates()) details.candidates.push_back(FromProto(c));
  if (proto.has_winner()) {
    details.winner = std::make_shared<const Winner>(FromProto(proto.winner()));
  }
  details.arch_name = proto.arch().name();
  details.arch_record = proto.arch().record();
  details.device_model = proto.arch().device_model();
  details.seconds = {proto.seconds().begin(), proto.seconds().end()};
  if (proto.has_range()) details.range = FromProto(proto.range());
  if (proto.has_time()) details.time = FromProto(proto.time());
  return details;
}

WorkerInfo FromProto(const v1::WorkerInfo& proto) {
  WorkerInfo worker;
  worker.name = proto.name();
  worker.state = proto.state();
  worker.compile_slots = proto.compile_slots();
  worker.profile_slots = proto.profile_slots();
  worker.busy_compile = proto.busy_compile();
  worker.busy_profile = proto.busy_profile();
  for (const v1::ArchRecord& arch : proto.archs()) {
    worker.archs.push_back(arch.device_model().empty()
                               ? arch.name()
                               : absl::StrCat(arch.name(), " (", arch.device_model(), ")"));
  }
  worker.compiler_build = proto.compiler_build();
  worker.assembler = proto.assembler();
  worker.seconds_since_heartbeat = proto.seconds_since_heartbeat();
  worker.notes = Strings(proto.notes());
  return worker;
}

Bar FromProto(const v1::Bar& proto) {
  const Failure failure = FromProto(proto.failure());
  return {proto.id(),       proto.config(), proto.sweep(),   proto.name(),
          proto.children(), failure.stage,  failure.message, FromUnixMillis(proto.last_unix_ms())};
}

Cancelled FromProto(const v1::CancelSweepResponse& proto) {
  return {FromProto(proto.state()), proto.had_ended(), proto.message(),
          FromUnixMillis(proto.finished_unix_ms())};
}

}  // namespace kiln::client
