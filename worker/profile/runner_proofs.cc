// What is asked of a winner's numbers beyond the check at the timed shape. Nothing is timed here,
// so that company on the device does no harm.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/profile/runner_state.h"

namespace kiln::worker {
namespace {

// Plain code takes up to a hundred times as long as the winner: then one seed must do.
constexpr double kSlowPlainSeconds = 0.05;

}  // namespace

v1::ProfileEvent Runner::CheckCompiledRagged(const v1::ProfileRequest& request, const Emit& emit) {
  v1::ProfileEvent last;
  last.set_done(true);
  RaggedCheck check(device_, make_reference_, request.inputs(), [this] { Touch(current_); });
  std::vector<Entry> entries(static_cast<size_t>(request.candidates_size()));
  std::map<std::string, std::string> convicted;
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    LoadEntry(request, request.candidates(static_cast<int>(i)), &entry);
    if (!entry.alive()) continue;
    const StageClock::Within checking(&stages_, "check");
    absl::StatusOr<RaggedCheck::Result> result =
        check.CheckCompiled(entry.config, entry.source, entry.kernel.get());
    if (!result.ok()) {
      entry.Fail(MakeFailure(v1::Failure::RUN, result.status()));
      continue;
    }
    for (const std::string& config : result->convicted) convicted[config] = entry.config;
    if (result->wrong) {
      entry.Fail(std::move(result->failure));
      continue;
    }
    v1::Measurement* measurement = entry.result.mutable_measurement();
    measurement->set_numbers_checked(true);
    measurement->set_check_summary(result->text);
  }
  for (Entry& entry : entries) {
    const auto found = convicted.find(entry.config);
    if (found == convicted.end() || !entry.alive()) continue;
    entry.Fail(MakeFailure(v1::Failure::CHECK,
                           absl::InternalError(absl::StrCat(
                               "wrong numbers, found by comparison with ", found->second))));
  }
  std::vector<v1::CandidateResult*> all;
  for (Entry& entry : entries) all.push_back(&entry.result);
  Sound(LookAt(false), entries.size() == 1 ? &entries[0] : nullptr, all, &last);
  for (Entry& entry : entries) {
    v1::ProfileEvent event;
    *event.mutable_result() = std::move(entry.result);
    emit(event);
  }
  return last;
}

// Whether finalists and their own programs in plain code compute the same.
v1::ProfileEvent Runner::CheckBesidePlain(const v1::ProfileRequest& request, const Emit& emit) {
  v1::ProfileEvent last;
  last.set_done(true);
  std::vector<Entry> entries(static_cast<size_t>(request.candidates_size()));
  std::vector<v1::CandidateResult*> all;
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    const v1::ProfileCandidate& candidate = request.candidates(static_cast<int>(i));
    LoadEntry(request, candidate, &entry);
    all.push_back(&entry.result);
    if (!entry.alive()) continue;
    const absl::Status prepared = PrepareBench(request, &entry);
    if (!prepared.ok()) entry.Fail(MakeFailure(v1::Failure::RESOURCES, prepared));
    if (entry.alive()) CheckEntry(request, &entry);
    if (entry.alive()) HoldAgainstPlain(request, candidate, &entry);
  }
  Sound(LookAt(false), entries.size() == 1 ? &entries[0] : nullptr, all, &last);
  for (v1::CandidateResult* result : all) {
    v1::ProfileEvent event;
    *event.mutable_result() = std::move(*result);
    emit(event);
  }
  return last;
}

// The plain code is one more candidate to the checker: all its elements are compared with those of
// the first, and where they differ the reference decides.
void Runner::HoldAgainstPlain(const v1::ProfileRequest& request,
                              const v1::ProfileCandidate& candidate, Entry* entry) {
  v1::ProfileCandidate of = candidate;
  of.set_bundle_path(candidate.plain_path());
  Entry plain;
  LoadEntry(request, of, &plain);
  const StageClock::Within checking(&stages_, "check");
  std::string text;
  if (!plain.alive()) {
    text = absl::StrCat("not held against its plain code: ", plain.result.failure().message());
  } else if (BenchKey(request.inputs(), plain.manifest) != bench_->key) {
    text = "not held against its plain code: that has other tensors";
  } else {
    Checker::Candidate code = Checkable(request, plain);
    code.config = absl::StrCat("the plain code of ", entry->config);
    code.slow_seconds = kSlowPlainSeconds;
    const absl::StatusOr<CheckReport> report = bench_->checker->Check(code);
    if (!report.ok()) return entry->Fail(MakeFailure(v1::Failure::RUN, report.status()));
    for (const std::string& config : report->convicted) convicted_[config] = code.config;
    if (!report->convicted.empty()) {  // by whom it was found right
      summaries_.erase(entry->config);
      CheckEntry(request, entry);
      if (!entry->alive()) return;
    }
    text = report->passed
               ? absl::StrCat("its plain code: ", report->summary)
               : absl::StrCat("its plain code proves nothing: ", report->failure.message(), ": ",
                              report->failure.witness());
  }
  v1::Measurement* measurement = entry->result.mutable_measurement();
  measurement->set_numbers_checked(true);
  measurement->set_check_summary(text);
}

}  // namespace kiln::worker
