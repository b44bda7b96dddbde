#include "worker/profile_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/profile/exit_codes.h"

namespace kiln::worker {
namespace {

// A child that dies before it touches any candidate is tried this often before the slot gives up.
constexpr int kIdleDeaths = 3;

v1::ProfileRequest WithoutFinished(const v1::ProfileRequest& request,
                                   const ProfileOutcome& outcome) {
  std::set<std::string> finished;
  for (const v1::CandidateResult& result : outcome.results) finished.insert(result.config());
  v1::ProfileRequest rest = request;
  rest.clear_candidates();
  for (const v1::ProfileCandidate& candidate : request.candidates()) {
    if (finished.count(candidate.config()) == 0) *rest.add_candidates() = candidate;
  }
  return rest;
}

bool Names(const v1::ProfileRequest& request, const std::string& config) {
  return std::any_of(request.candidates().begin(), request.candidates().end(),
                     [&](const v1::ProfileCandidate& c) { return c.config() == config; });
}

void AddFailure(const std::string& config, v1::Failure failure, ProfileOutcome* outcome) {
  v1::CandidateResult& result = outcome->results.emplace_back();
  result.set_config(config);
  *result.mutable_failure() = std::move(failure);
}

bool EndedWith(int exit_code, const ChildDeath& death) {
  return !death.exit.signalled && death.exit.code == exit_code;
}

std::string LastLine(const std::string& output) {
  const std::string text(absl::StripTrailingAsciiWhitespace(output));
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

ChildProfileExecutor::ChildProfileExecutor(ChildOptions child, ProfileLimits limits,
                                           DeviceLook look)
    : child_(std::move(child)), limits_(limits), look_(std::move(look)) {}

absl::StatusOr<v1::ChildHello> ChildProfileExecutor::Start() {
  KILN_RETURN_IF_ERROR(child_.Start());
  return child_.hello();
}

absl::StatusOr<ProfileOutcome> ChildProfileExecutor::Profile(const v1::ProfileRequest& request,
                                                             double limit_seconds) {
  ProfileOutcome outcome;
  Child::Clock::time_point begin = Child::Clock::now();
  Child::Clock::time_point deadline = DeadlineIn(limit_seconds);
  std::map<std::string, int> outside_kills;
  int idle_deaths = 0;
  while (true) {
    v1::ProfileRequest rest = WithoutFinished(request, outcome);
    if (rest.candidates_size() == 0) return outcome;
    KILN_RETURN_IF_ERROR(child_.Start());
    outcome.quarantined = child_.hello().quarantined();
    if (!outcome.quarantined.empty()) return outcome;
    Session session;
    absl::Status status = RunSession(rest, deadline, &session, &outcome);
    outcome.unavailable = session.unavailable;
    if (!session.unavailable.empty() && outcome.results.empty()) {
      return absl::UnavailableError(session.unavailable);
    }
    if (status.ok() && session.request_failure.stage() == v1::Failure::STAGE_UNSPECIFIED) {
      return outcome;
    }
    if (status.ok()) {
      const v1::ProfileRequest unfinished = WithoutFinished(rest, outcome);
      for (const v1::ProfileCandidate& left : unfinished.candidates()) {
        AddFailure(left.config(), session.request_failure, &outcome);
      }
      return outcome;
    }
    ChildDeath death = child_.Bury(status);
    if (absl::IsCancelled(status)) return status;
    if (EndedWith(kDeviceBroken, death)) {
      outcome.quarantined = LastLine(death.output);
      return outcome;
    }
    const DeviceHealth health = look_ ? look_() : DeviceHealth();
    if (!health.broken.empty()) {
      outcome.quarantined = health.broken;
      return outcome;
    }
    if (!session.current.has_value()) {
      if (session.whole_limit) return outcome;
      if (++idle_deaths < kIdleDeaths) continue;
      return absl::UnavailableError(absl::StrCat(
          "kiln-runner dies before it runs anything: ", death.Describe(), "; ", death.output));
    }
    // Killed from outside: rarely the candidate's doing, so it gets one more child.
    if (death.killed_from_outside && outside_kills[*session.current]++ == 0) continue;
    if (session.whole_limit) {
      // The task's time was up. The running candidate is to blame when it ate half of it.
      bool guilty = (Child::Clock::now() - session.since) * 2 >= Child::Clock::now() - begin;
      if (!guilty) return outcome;
    }
    AddFailure(*session.current, FailureOf(status, death, session, health.tainted), &outcome);
    if (session.whole_limit) return outcome;
  }
}

absl::Status ChildProfileExecutor::RunSession(const v1::ProfileRequest& request,
                                              Child::Clock::time_point deadline, Session* session,
                                              ProfileOutcome* outcome) {
  KILN_RETURN_IF_ERROR(child_.Send(request, deadline));
  while (true) {
    Child::Clock::time_point silence = DeadlineIn(limits_.silence_seconds);
    v1::ProfileEvent event;
    absl::Status status = child_.Receive(&event, std::min(deadline, silence));
    if (absl::IsDeadlineExceeded(status)) session->whole_limit = deadline <= silence;
    KILN_RETURN_IF_ERROR(status);
    for (const auto& [stage, seconds] : event.seconds()) outcome->seconds[stage] += seconds;
    switch (event.event_case()) {
      case v1::ProfileEvent::kStarted:
        if (!Names(request, event.started())) {
          return absl::DataLossError("the child started a candidate that it was not given");
        }
        if (session->current != event.started()) session->since = Child::Clock::now();
        session->current = event.started();
        break;
      case v1::ProfileEvent::kResult:
        if (!Names(request, event.result().config())) {
          return absl::DataLossError("the child reported a candidate that it was not given");
        }
        if (session->current == event.result().config()) session->current.reset();
        if (!event.result().not_run()) outcome->results.push_back(event.result());
        break;
      case v1::ProfileEvent::kDone:
        session->done = true;
        return absl::OkStatus();
      case v1::ProfileEvent::kFailure:
        session->request_failure = event.failure();
        if (session->request_failure.stage() == v1::Failure::STAGE_UNSPECIFIED) {
          session->request_failure.set_stage(v1::Failure::RUN);
        }
        return absl::OkStatus();
      case v1::ProfileEvent::kQuarantined:
        outcome->quarantined = event.quarantined();
        return absl::OkStatus();
      case v1::ProfileEvent::kUnavailable:
        session->unavailable = event.unavailable();
        return absl::OkStatus();
      case v1::ProfileEvent::EVENT_NOT_SET:
        return absl::DataLossError("the child sent an empty event");
    }
  }
}

v1::Failure ChildProfileExecutor::FailureOf(const absl::Status& status, const ChildDeath& death,
                                            const Session& session,
                                            const std::string& tainted) const {
  v1::Failure failure;
  failure.set_killed_child(true);
  failure.set_stage(v1::Failure::RUN);
  failure.set_witness(death.output);
  double seconds = std::chrono::duration<double>(Child::Clock::now() - session.since).count();
  if (absl::IsDeadlineExceeded(status)) {
    failure.set_message(absl::StrCat("the candidate did not come back after ",
                                     static_cast<int64_t>(seconds * 10) / 10.0,
                                     " s and was stopped"));
  } else if (death.out_of_memory) {
    failure.set_stage(v1::Failure::RESOURCES);
    failure.set_message("the runner hit its memory limit while it ran the candidate");
  } else if (EndedWith(kLaunchStopped, death)) {
    failure.set_message(absl::StrCat("the candidate was stopped: ", LastLine(death.output)));
  } else if (EndedWith(kDeviceLost, death)) {
    failure.set_message(
        absl::StrCat("the candidate took the GPU's context down: ", LastLine(death.output)));
  } else if (absl::IsDataLoss(status)) {
    failure.set_message(absl::StrCat("the runner child broke the protocol: ", status.message()));
  } else {
    failure.set_message(absl::StrCat("the candidate took the runner down: ", death.Describe()));
  }
  if (!tainted.empty()) absl::StrAppend(failure.mutable_message(), "; ", tainted);
  return failure;
}

}  // namespace kiln::worker
