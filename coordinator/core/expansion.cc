#include "coordinator/core/expansion.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"

namespace kiln::core {
namespace {

constexpr int kNearMisses = 64;

// One job's inputs and the stores.
class Runner {
 public:
  Runner(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
         store::BlobStore* blobs)
      : job_(job), expander_(expander), meta_(meta), blobs_(blobs) {}

  absl::Status Look(Expanded* out) {
    if (!looks()) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(std::optional<std::string> problem,
                          meta_->FindAlias(AliasOf(job_.spec, job_.arch)));
    return problem.has_value() ? FindWinner(*problem, out) : absl::OkStatus();
  }

  absl::Status Run(Expanded* out) {
    KILN_ASSIGN_OR_RETURN(out->expansion, expander_->Expand(job_.spec, job_.arch));
    out->sweep = SweepDigest(job_.spec, out->expansion);
    out->problem_key = ProblemKey(job_.spec, out->expansion);
    if (looks()) KILN_RETURN_IF_ERROR(FindWinner(out->problem_key, out));
    if (out->winner.has_value()) return absl::OkStatus();
    if (job_.lookup_only) return ExplainMiss(out);
    KILN_RETURN_IF_ERROR(FindStoredRun(out));
    if (!out->finished_sweep.empty()) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(out->inputs_digest,
                          blobs_->PutBytes(SerializeDeterministic(out->expansion.inputs)));
    return FindCompiled(out);
  }

 private:
  bool looks() const { return !job_.spec.fresh() || job_.lookup_only; }

  absl::Status FindWinner(const std::string& problem_key, Expanded* out) {
    KILN_ASSIGN_OR_RETURN(out->winner, meta_->FindWinner(problem_key));
    // Without its bytes a winner is of no use: tune again.
    if (out->winner.has_value() && !blobs_->Contains(out->winner->artifact().digest())) {
      out->winner.reset();
    }
    return absl::OkStatus();
  }

  absl::Status ExplainMiss(Expanded* out) {
    KILN_ASSIGN_OR_RETURN(const std::vector<v1::Winner> near,
                          meta_->WinnersOfKernel(job_.spec, kNearMisses));
    if (near.empty()) {
      out->miss_reason = "no winner of this kernel is stored";
      return absl::OkStatus();
    }
    std::string shortest;
    for (const v1::Winner& winner : near) {
      std::string difference = ProblemDifference(job_.spec, job_.arch, winner);
      if (shortest.empty() || difference.size() < shortest.size()) shortest = std::move(difference);
    }
    out->miss_reason = absl::StrCat("the nearest stored winner of this kernel has ", shortest);
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
};

}  // namespace

std::optional<Expanded> AnswerFromStore(const ExpandJob& job, store::MetaStore* meta,
                                        store::BlobStore* blobs) {
  Expanded out;
  out.job = job.job;
  out.status = Runner(job, nullptr, meta, blobs).Look(&out);
  if (out.status.ok() && !out.winner.has_value()) return std::nullopt;
  return out;
}

Expanded RunExpandJob(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
                      store::BlobStore* blobs) {
  Expanded out;
  out.job = job.job;
  out.status = Runner(job, expander, meta, blobs).Run(&out);
  return out;
}

}  // namespace kiln::core
