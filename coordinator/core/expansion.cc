#include "coordinator/core/expansion.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"
#include "coordinator/core/winner_key.h"

namespace kiln::core {
namespace {

constexpr size_t kWinnersOfAProblem = 8;
constexpr int kMaxCompared = 20'000;  // stored winners of one kernel

// One job's inputs and the stores.
class Runner {
 public:
  Runner(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
         store::BlobStore* blobs, ProgramCache* programs)
      : job_(job), expander_(expander), meta_(meta), blobs_(blobs), programs_(programs) {}

  // True: `out` is the answer.
  absl::StatusOr<bool> Look(Expanded* out) {
    if (!looks()) return false;
    std::optional<ProgramCache::Program> known;
    if (programs_ != nullptr) known = programs_->Find(RequestDigest(job_.spec, job_.arch));
    if (known.has_value()) out->problem_key = known->problem_key;
    KILN_RETURN_IF_ERROR(FindWinner(known.has_value() ? known->kernel_digest : "", out));
    return out->winner.has_value() || (job_.lookup_only && known.has_value());
  }

  absl::Status Run(Expanded* out) {
    KILN_ASSIGN_OR_RETURN(out->expansion, Expand());
    out->sweep = SweepDigest(job_.spec, out->expansion);
    out->problem_key = ProblemKey(job_.spec, out->expansion);
    const std::string& kernel_digest = out->expansion.kernel_digest;
    if (programs_ != nullptr) {
      programs_->Put(RequestDigest(job_.spec, job_.arch), {kernel_digest, out->problem_key});
    }
    if (looks()) KILN_RETURN_IF_ERROR(FindWinner(kernel_digest, out));
    if (out->winner.has_value() || job_.lookup_only) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(FindSuperseded(out));
    KILN_RETURN_IF_ERROR(FindStoredRun(out));
    if (!out->finished_sweep.empty()) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(out->inputs_digest,
                          blobs_->PutBytes(SerializeDeterministic(out->expansion.inputs)));
    return FindCompiled(out);
  }

 private:
  // Of a range at the first of its sizes that has a config.
  absl::StatusOr<search::Expansion> Expand() {
    if (!job_.spec.has_range()) return expander_->Expand(job_.spec, job_.arch);
    absl::StatusOr<search::Expansion> first;
    for (const int64_t size : job_.spec.range().points()) {
      v1::SweepSpec spec = job_.spec;
      (*spec.mutable_runtime_values())[spec.range().name()] = absl::StrCat(size);
      absl::StatusOr<search::Expansion> expansion = expander_->Expand(spec, job_.arch);
      if (expansion.ok()) return expansion;
      if (size == job_.spec.range().low()) first = std::move(expansion);
    }
    return first.status();
  }

  // Sweeps that only compile have no winner.
  bool looks() const {
    return job_.spec.objective() == v1::SweepSpec::TUNE && (!job_.spec.fresh() || job_.lookup_only);
  }

  // The kernel's stored winners. Older rows get the key that follows from the winner.
  absl::StatusOr<std::vector<v1::WinnerIndexRow>> Candidates(const std::string& kernel_digest) {
    KILN_ASSIGN_OR_RETURN(std::vector<v1::WinnerIndexRow> rows,
                          meta_->WinnersOfKernel(job_.spec, kernel_digest, kMaxCompared));
    std::vector<v1::WinnerIndexRow> usable;
    for (v1::WinnerIndexRow& row : rows) {
      if (!row.has_key()) {
        KILN_ASSIGN_OR_RETURN(const std::optional<v1::Winner> winner,
                              meta_->FindWinner(row.winner()));
        if (!winner.has_value()) continue;
        *row.mutable_key() = KeyOf(*winner);
        row.set_finished_unix_ms(winner->finished_unix_ms());
        row.set_problem_key(winner->problem_key());
      }
      usable.push_back(std::move(row));
    }
    return usable;
  }

  absl::Status FindWinner(const std::string& kernel_digest, Expanded* out) {
    const v1::WinnerKey asked = MakeKey(job_.spec, job_.arch, job_.tools, kernel_digest);
    v1::LookupWinnerResponse& answer = out->lookup;
    answer.Clear();
    *answer.mutable_asked() = asked;
    for (const std::string& field : NotCompared(asked)) answer.add_not_compared(field);
    KILN_ASSIGN_OR_RETURN(std::vector<v1::WinnerIndexRow> stored, Candidates(kernel_digest));
    const std::vector<v1::WinnerIndexRow> rows = NearestFirst(asked, std::move(stored));
    bool lost = false;
    for (const v1::WinnerIndexRow& row : rows) {
      const uint32_t mask = Compare(asked, row.key()).mask;
      if (!Accepts(job_.match, mask)) {
        if (!lost) Explain(asked, row, &answer);
        break;
      }
      KILN_ASSIGN_OR_RETURN(out->winner, meta_->FindWinner(row.winner()));
      // Without its bytes a winner is of no use: tune again.
      if (out->winner.has_value() && blobs_->Contains(out->winner->artifact().digest())) {
        *out->winner->mutable_key() = row.key();
        answer.set_found(true);
        answer.set_matched(LevelOf(mask));
        for (v1::KeyDifference& d : Differences(asked, row.key())) {
          *answer.add_differences() = std::move(d);
        }
        return absl::OkStatus();
      }
      out->winner.reset();
      lost = true;
    }
    if (lost) answer.set_miss_reason("the stored winner has lost its artifact; tune it again");
    if (rows.empty()) answer.set_miss_reason("no winner of this kernel is stored");
    return absl::OkStatus();
  }

  static void Explain(const v1::WinnerKey& asked, const v1::WinnerIndexRow& row,
                      v1::LookupWinnerResponse* answer) {
    const std::vector<v1::KeyDifference> differences = Differences(asked, row.key());
    for (const v1::KeyDifference& d : differences) *answer->add_differences() = d;
    answer->set_nearest(row.winner());
    answer->set_miss_reason(
        absl::StrCat("the nearest stored winner of this kernel: ", DifferenceText(differences)));
  }

  // A problem has a winner for each toolchain, driver and so on; of these the latest are kept.
  absl::Status FindSuperseded(Expanded* out) {
    if (job_.spec.objective() != v1::SweepSpec::TUNE) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(std::vector<v1::WinnerIndexRow> rows,
                          Candidates(out->expansion.kernel_digest));
    std::erase_if(rows, [&](const auto& row) { return row.problem_key() != out->problem_key; });
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.finished_unix_ms() > b.finished_unix_ms();
    });
    for (size_t i = kWinnersOfAProblem - 1; i < rows.size(); ++i) {
      out->superseded.push_back(rows[i].winner());
    }
    return absl::OkStatus();
  }

  absl::Status FindStoredRun(Expanded* out) {
    const bool compile = job_.spec.objective() == v1::SweepSpec::COMPILE && !job_.spec.fresh();
    absl::StatusOr<store::SweepRecord> record = meta_->GetSweep(out->sweep, compile);
    if (absl::IsNotFound(record.status())) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(record.status());
    out->stored_before = true;
    if (!compile || record->status.state() != v1::DONE) return absl::OkStatus();
    for (const v1::CandidateRow& row : record->candidates) {
      if (!row.candidate().has_artifact()) continue;
      if (!blobs_->Contains(row.candidate().artifact().digest())) return absl::OkStatus();
    }
    out->finished_sweep = out->sweep;
    return absl::OkStatus();
  }

  absl::Status FindCompiled(Expanded* out) {
    for (const v1::Hint& hint : out->expansion.candidates) {
      out->compile_keys.push_back(CompileKey(out->expansion, hint.config()));
    }
    KILN_ASSIGN_OR_RETURN(out->compiled, meta_->FindCompiled(out->compile_keys));
    for (v1::CompileIndexRow& row : out->compiled) {
      v1::CompileIndexRow usable;
      for (auto& entry : *row.mutable_entries()) {
        const bool gone = entry.has_artifact() && !blobs_->Contains(entry.artifact().digest());
        if (!gone) *usable.add_entries() = std::move(entry);
      }
      row = std::move(usable);
    }
    return absl::OkStatus();
  }

  const ExpandJob& job_;
  search::Expander* const expander_;
  store::MetaStore* const meta_;
  store::BlobStore* const blobs_;
  ProgramCache* const programs_;
};

}  // namespace

std::optional<ProgramCache::Program> ProgramCache::Find(const std::string& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(request);
  if (found == entries_.end()) return std::nullopt;
  order_.splice(order_.begin(), order_, found->second);
  return found->second->second;
}

void ProgramCache::Put(const std::string& request, Program program) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(request);
  if (found != entries_.end()) {
    order_.erase(found->second);
    entries_.erase(found);
  }
  order_.emplace_front(request, std::move(program));
  entries_[request] = order_.begin();
  if (entries_.size() <= limit_) return;
  entries_.erase(order_.back().first);
  order_.pop_back();
}

std::optional<Expanded> AnswerFromStore(const ExpandJob& job, store::MetaStore* meta,
                                        store::BlobStore* blobs, ProgramCache* programs) {
  Expanded out;
  out.job = job.job;
  const absl::StatusOr<bool> answered = Runner(job, nullptr, meta, blobs, programs).Look(&out);
  out.status = answered.status();
  if (answered.ok() && !*answered) return std::nullopt;
  return out;
}

Expanded RunExpandJob(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
                      store::BlobStore* blobs, ProgramCache* programs) {
  Expanded out;
  out.job = job.job;
  out.status = Runner(job, expander, meta, blobs, programs).Run(&out);
  return out;
}

}  // namespace kiln::core
