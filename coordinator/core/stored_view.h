// Answers about sweeps that are not active any more, from their rows.
#ifndef KILN_COORDINATOR_CORE_STORED_VIEW_H_
#define KILN_COORDINATOR_CORE_STORED_VIEW_H_

#include "absl/status/statusor.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"
#include "kiln/v1/tuning.pb.h"

namespace kiln::core {

struct StoredArtifact {
  v1::Winner info;
  std::string digest;
};

bool IsTerminal(v1::SweepState state);

v1::SweepSummary SummaryOf(const v1::SweepRow& row, const v1::SweepStatusRow& status);

// kNotFound. Blocks on disk.
absl::StatusOr<v1::GetSweepResponse> StoredSweep(store::MetaStore* meta, const std::string& digest,
                                                 bool with_candidates);

// The terminal event of a finished sweep. kNotFound; kInternal when it is not finished.
absl::StatusOr<v1::SweepEvent> StoredEnd(store::MetaStore* meta, const std::string& digest);

// The artifact of a finished sweep's winner, or of one config. As Farm::FindArtifact.
absl::StatusOr<StoredArtifact> FindStoredArtifact(store::MetaStore* meta, const std::string& digest,
                                                  const std::string& config);

// The same of the winner of this name (winner_key, of older records problem_key).
absl::StatusOr<StoredArtifact> FindWinnerArtifact(store::MetaStore* meta, const std::string& name);

// Adds what was asked to the counts; `kernels` = their source text too. A miss that is gone by now
// is left out.
absl::Status FillMisses(store::MetaStore* meta, bool kernels, v1::ListMissesResponse* response);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_STORED_VIEW_H_
