#include "coordinator/core/stored_view.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/config.h"
#include "compiler/base/status.h"
#include "coordinator/core/account.h"
#include "coordinator/core/winner_key.h"

namespace kiln::core {
namespace {

// With its key, also where an older program stored none.
absl::StatusOr<std::optional<v1::Winner>> FindWinner(store::MetaStore* meta,
                                                     const std::string& name) {
  KILN_ASSIGN_OR_RETURN(std::optional<v1::Winner> winner, meta->FindWinner(name));
  if (winner.has_value()) *winner->mutable_key() = KeyOf(*winner);
  return winner;
}

// The stored winner, when this sweep is what it answers.
absl::StatusOr<std::optional<v1::Winner>> WinnerOf(store::MetaStore* meta,
                                                   const store::SweepRecord& record) {
  const bool tuned = record.status.state() == v1::DONE && !record.row.problem_key().empty() &&
                     record.row.spec().objective() == v1::SweepSpec::TUNE;
  if (!tuned) return std::optional<v1::Winner>();
  const std::string& name = record.status.winner_key();
  return FindWinner(meta, name.empty() ? record.row.problem_key() : name);
}

std::string ShortOf(const std::string& digest) { return digest.substr(0, 12); }

}  // namespace

bool IsTerminal(v1::SweepState state) {
  return state == v1::DONE || state == v1::FAILED || state == v1::CANCELLED;
}

v1::SweepSummary SummaryOf(const v1::SweepRow& row, const v1::SweepStatusRow& status) {
  v1::SweepSummary out;
  out.set_sweep(row.digest());
  out.set_name(row.spec().name());
  *out.mutable_progress() = status.progress();
  out.mutable_progress()->set_state(status.state());
  out.set_target(row.arch().name());
  out.set_submitted_unix_ms(row.submitted_unix_ms());
  out.set_finished_unix_ms(status.finished_unix_ms());
  out.set_user(row.spec().user());
  out.set_parent(row.parent());
  if (row.spec().has_range()) *out.mutable_range() = row.spec().range();
  return out;
}

absl::StatusOr<v1::GetSweepResponse> StoredSweep(store::MetaStore* meta, const std::string& digest,
                                                 bool with_candidates) {
  KILN_ASSIGN_OR_RETURN(store::SweepRecord record, meta->GetSweep(digest, with_candidates));
  v1::GetSweepResponse out;
  *out.mutable_summary() = SummaryOf(record.row, record.status);
  *out.mutable_spec() = record.row.spec();
  *out.mutable_arch() = record.row.arch();
  *out.mutable_seconds() = record.status.seconds();
  if (record.status.situation_ns_size() > 0) *out.mutable_time() = TimeOf(record.status);
  *out.mutable_notes() = record.row.notes();
  out.set_legal_configs(record.row.legal_configs());
  if (record.row.spec().has_range()) *out.mutable_range() = record.status.range();
  for (v1::CandidateRow& row : record.candidates) {
    if (row.proposed()) *out.add_candidates() = std::move(*row.mutable_candidate());
  }
  KILN_ASSIGN_OR_RETURN(std::optional<v1::Winner> winner, WinnerOf(meta, record));
  if (winner.has_value()) *out.mutable_winner() = *std::move(winner);
  return out;
}

absl::StatusOr<v1::SweepEvent> StoredEnd(store::MetaStore* meta, const std::string& digest) {
  KILN_ASSIGN_OR_RETURN(store::SweepRecord record, meta->GetSweep(digest, false));
  if (!IsTerminal(record.status.state())) {
    return absl::InternalError(absl::StrCat("sweep ", digest, " is stored as active but is not"));
  }
  v1::SweepEvent event;
  *event.mutable_progress() = SummaryOf(record.row, record.status).progress();
  KILN_ASSIGN_OR_RETURN(std::optional<v1::Winner> winner, WinnerOf(meta, record));
  if (winner.has_value()) *event.mutable_winner() = *std::move(winner);
  return event;
}

absl::StatusOr<StoredArtifact> FindStoredArtifact(store::MetaStore* meta, const std::string& digest,
                                                  const std::string& config) {
  KILN_ASSIGN_OR_RETURN(store::SweepRecord record, meta->GetSweep(digest, true));
  if (!IsTerminal(record.status.state())) {
    return absl::FailedPreconditionError(
        absl::StrCat("sweep ", ShortOf(digest), " still runs; watch it and fetch when it is done"));
  }
  StoredArtifact out;
  // The empty text asks for the winner; of a compile-only sweep, which has none, it is the config
  // of a kernel without tunables.
  if (config.empty() && record.row.spec().objective() != v1::SweepSpec::COMPILE) {
    KILN_ASSIGN_OR_RETURN(std::optional<v1::Winner> winner, WinnerOf(meta, record));
    if (!winner.has_value()) {
      return absl::NotFoundError(absl::StrCat(
          "sweep ", ShortOf(digest), " has no winner (", v1::SweepState_Name(record.status.state()),
          record.status.message().empty() ? "" : ": ", record.status.message(), ")"));
    }
    out.info = *std::move(winner);
    out.digest = out.info.artifact().digest();
    return out;
  }
  const absl::StatusOr<Config> parsed = Config::Parse(config);
  const std::string wanted = parsed.ok() ? parsed->ToString() : config;  // names in order
  for (const v1::CandidateRow& row : record.candidates) {
    if (row.candidate().config() != wanted || !row.candidate().has_artifact()) continue;
    out.info.set_config(wanted);
    out.info.set_sweep_digest(digest);
    *out.info.mutable_artifact() = row.candidate().artifact();
    *out.info.mutable_hint() = row.candidate().hint();
    *out.info.mutable_arch() = record.row.arch();
    *out.info.mutable_spec() = record.row.spec();
    out.digest = row.candidate().artifact().digest();
    return out;
  }
  return absl::NotFoundError(absl::StrCat("sweep ", ShortOf(digest), " has no compiled config '",
                                          config,
                                          "'; name one of its candidates, which `show` lists"));
}

absl::StatusOr<StoredArtifact> FindWinnerArtifact(store::MetaStore* meta, const std::string& name) {
  KILN_ASSIGN_OR_RETURN(std::optional<v1::Winner> winner, FindWinner(meta, name));
  if (!winner.has_value()) {
    return absl::NotFoundError(absl::StrCat("no winner ", ShortOf(name), " is stored"));
  }
  StoredArtifact out;
  out.info = *std::move(winner);
  out.digest = out.info.artifact().digest();
  return out;
}

absl::Status FillMisses(store::MetaStore* meta, bool kernels, v1::ListMissesResponse* response) {
  std::vector<v1::Miss> kept;
  for (v1::Miss& miss : *response->mutable_misses()) {
    KILN_ASSIGN_OR_RETURN(std::vector<v1::MissRow> rows, meta->FindMisses({miss.id()}));
    if (rows.empty()) continue;
    *miss.mutable_spec() = std::move(*rows.front().mutable_spec());
    if (!kernels) miss.mutable_spec()->clear_kernel_source();
    kept.push_back(std::move(miss));
  }
  response->clear_misses();
  for (v1::Miss& miss : kept) *response->add_misses() = std::move(miss);
  return absl::OkStatus();
}

}  // namespace kiln::core
