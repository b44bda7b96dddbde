// The durable seam for metadata: typed rows that say how things stand now. No event log, no
// key-value leak. Keys, formats and a worked example are in README.md of this folder.
#ifndef KILN_COORDINATOR_STORE_META_STORE_H_
#define KILN_COORDINATOR_STORE_META_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/store.pb.h"

namespace kiln::store {

struct CandidateWrite {
  std::string sweep;
  v1::CandidateRow row;
};

struct TaskDelete {
  std::string sweep;
  std::string id;
};

// All that one turn of the coordinator's loop changes. Applied as a whole or not at all, in the
// order of the fields. Every write states a row's new content, so applying a batch twice is the
// same as once.
struct Batch {
  std::vector<std::string> reset_sweeps;  // drop the candidates and tasks of an earlier run
  std::optional<v1::FarmRow> farm;
  std::vector<v1::SweepRow> sweeps;
  std::vector<v1::SweepStatusRow> statuses;  // a terminal state takes the sweep off the active list
  std::vector<CandidateWrite> candidates;
  std::vector<v1::TaskRow> tasks;
  std::vector<TaskDelete> deleted_tasks;
  std::vector<std::string> deleted_winners;   // by name; unknown ones are fine
  std::vector<v1::Winner> winners;            // replaces the one of the same name
  std::vector<v1::CompileIndexRow> compiled;  // entries are merged into the row by compiler build
  std::vector<std::string> deleted_kills;     // by key; unknown ones are fine
  std::vector<v1::KillRow> kills;
  std::vector<v1::WorkerRow> workers;
  std::vector<std::string> deleted_workers;
  std::vector<v1::ArchRow> archs;           // by name and device model
  std::vector<std::string> deleted_misses;  // both rows of each
  std::vector<v1::MissRow> misses;
  std::vector<v1::MissCountRow> miss_counts;

  bool empty() const;
};

struct SweepRecord {
  v1::SweepRow row;
  v1::SweepStatusRow status;
  std::vector<v1::CandidateRow> candidates;  // by ordinal
  std::vector<v1::TaskRow> tasks;            // by id
};

// What a starting coordinator needs: finished sweeps, winners and the compile index stay on disk.
struct FarmState {
  v1::FarmRow farm;
  std::vector<SweepRecord> active;
  std::vector<v1::KillRow> kills;
  std::vector<v1::WorkerRow> workers;
  std::vector<v1::ArchRow> archs;
  std::vector<v1::MissCountRow> miss_counts;
};

struct SweepFilter {
  bool active_only = false;
  bool without_parts = false;  // not those that a range is made of, and nobody else asked for
  std::string parts_of = {};   // only those of this range
};

struct SweepListing {
  std::vector<std::pair<v1::SweepRow, v1::SweepStatusRow>> sweeps;  // newest first
  std::string next_page_token;                                      // empty at the end
};

// Thread-safe: one writer (the loop) and any number of readers. A reader sees whole rows; the rows
// of a finished sweep no longer change.
//
// Errors of every call: kResourceExhausted "disk full", kUnavailable for other I/O errors that may
// pass, kDataLoss when stored bytes do not parse or fail their checksum.
class MetaStore {
 public:
  virtual ~MetaStore() = default;

  // Starts a new term, one above every earlier one, and ends the current one: later commits under
  // an older term fail. Durable when it returns.
  virtual absl::StatusOr<uint64_t> BeginTerm() = 0;

  // Atomic, and durable when it returns OK. The term is compared in the same transaction:
  // kAborted when `term` is not the current one; nothing is written then.
  virtual absl::Status Commit(uint64_t term, const Batch& batch) = 0;

  virtual absl::StatusOr<FarmState> Load() = 0;

  // Whole digest, or a prefix of at least 6 digits. kNotFound; kInvalidArgument for a prefix that
  // is too short or ambiguous.
  virtual absl::StatusOr<std::string> ResolveSweep(absl::string_view prefix) = 0;
  // kNotFound. Candidates and tasks are filled in only when asked for.
  virtual absl::StatusOr<SweepRecord> GetSweep(absl::string_view digest, bool with_candidates) = 0;
  // Newest first; `page_token` is empty or a next_page_token (else kInvalidArgument). kNotFound:
  // there is no such range.
  virtual absl::StatusOr<SweepListing> ListSweeps(int limit, absl::string_view page_token,
                                                  const SweepFilter& filter) = 0;

  // `name`: winner_key, or the problem_key of a record that has none.
  virtual absl::StatusOr<std::optional<v1::Winner>> FindWinner(absl::string_view name) = 0;
  // Where the winners stand of the kernel that `spec` names, by template or by source and entry,
  // whatever its arguments, and of the canonical program `kernel_digest` (may be empty), whatever
  // its text. Each winner once, at most `limit`. Rows of older programs have a name alone.
  virtual absl::StatusOr<std::vector<v1::WinnerIndexRow>> WinnersOfKernel(
      const v1::SweepSpec& spec, absl::string_view kernel_digest, int limit) = 0;
  // The requests of these misses, in order; those that are gone are left out.
  virtual absl::StatusOr<std::vector<v1::MissRow>> FindMisses(
      const std::vector<std::string>& ids) = 0;
  // One answer a key, in order; a row without entries where nothing is stored.
  virtual absl::StatusOr<std::vector<v1::CompileIndexRow>> FindCompiled(
      const std::vector<std::string>& compile_keys) = 0;

  // Tries to leave the read-only state that an I/O error put the store in.
  virtual absl::Status Recover() = 0;
  // A consistent copy in `directory` (absolute, must not exist), and its bytes. Opening the copy is
  // the restore. kUnimplemented for stores without a disk.
  virtual absl::StatusOr<int64_t> Checkpoint(const std::string& directory) = 0;
};

// Opens or creates a store. kFailedPrecondition: another process has it open, or its format is
// newer than this program (the message names both versions and what to do).
absl::StatusOr<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const std::string& directory);

// The in-memory twin: same contract, nothing survives the object.
std::unique_ptr<MetaStore> NewMemoryMetaStore();

}  // namespace kiln::store

#endif  // KILN_COORDINATOR_STORE_META_STORE_H_
