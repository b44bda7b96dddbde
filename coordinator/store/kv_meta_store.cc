#include "coordinator/store/kv_meta_store.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "coordinator/store/keys.h"

namespace kiln::store {
namespace {

constexpr size_t kMinPrefix = 6;

std::string WinnersOfKernelKey(const v1::SweepSpec& spec) {
  const std::string kernel =
      Sha256Hex(absl::StrCat(spec.template_(), "|", spec.entry(), "|", spec.kernel_source()));
  return absl::StrCat(keys::kKernel, kernel, "/");
}

template <typename Row>
absl::Status ParseRow(absl::string_view key, absl::string_view bytes, Row* row) {
  if (row->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("row '", key, "' of the store does not parse"));
}

template <typename Row>
absl::StatusOr<std::optional<Row>> GetRow(Kv* kv, const std::string& key) {
  KILN_ASSIGN_OR_RETURN(std::optional<std::string> bytes, kv->Get(key));
  if (!bytes.has_value()) return std::optional<Row>();
  Row row;
  KILN_RETURN_IF_ERROR(ParseRow(key, *bytes, &row));
  return std::optional<Row>(std::move(row));
}

template <typename Row>
absl::Status ScanRows(Kv* kv, absl::string_view prefix, std::vector<Row>* rows) {
  absl::Status bad;
  KILN_RETURN_IF_ERROR(kv->Scan(prefix, "", [&](absl::string_view key, absl::string_view value) {
    rows->emplace_back();
    bad = ParseRow(key, value, &rows->back());
    return bad.ok();
  }));
  return bad;
}

bool IsTerminal(v1::SweepState state) {
  return state == v1::DONE || state == v1::FAILED || state == v1::CANCELLED;
}

absl::StatusOr<uint64_t> ReadTerm(Kv* kv) {
  KILN_ASSIGN_OR_RETURN(std::optional<std::string> text, kv->Get(keys::kTerm));
  if (!text.has_value()) return uint64_t{0};
  uint64_t term = 0;
  if (absl::SimpleAtoi(*text, &term)) return term;
  return absl::DataLossError(absl::StrCat("the store's term row reads '", *text, "'"));
}

absl::string_view LastPart(absl::string_view key) { return key.substr(key.rfind('/') + 1); }

// The serialised operations of one batch.
class OpList {
 public:
  explicit OpList(Kv* kv) : kv_(kv) {}

  absl::Status Add(const Batch& batch) {
    for (const std::string& sweep : batch.reset_sweeps) {
      ops_.push_back(KvOp::DeletePrefix(keys::Candidates(sweep)));
      ops_.push_back(KvOp::DeletePrefix(keys::Tasks(sweep)));
    }
    if (batch.farm.has_value()) Put(keys::kFarm, *batch.farm);
    for (const v1::ArchRow& row : batch.archs) {
      Put(keys::Arch(row.arch().name(), row.arch().device_model()), row);
    }
    for (const v1::SweepRow& row : batch.sweeps) KILN_RETURN_IF_ERROR(AddSweep(row));
    for (const v1::SweepStatusRow& row : batch.statuses) AddStatus(row);
    for (const CandidateWrite& write : batch.candidates) {
      Put(keys::Candidate(write.sweep, write.row.ordinal()), write.row);
    }
    for (const v1::TaskRow& row : batch.tasks) Put(keys::Task(row.sweep(), row.id()), row);
    for (const TaskDelete& task : batch.deleted_tasks) {
      ops_.push_back(KvOp::Delete(keys::Task(task.sweep, task.id)));
    }
    for (const std::string& name : batch.deleted_winners) KILN_RETURN_IF_ERROR(DropWinner(name));
    for (const v1::Winner& winner : batch.winners) AddWinner(winner);
    KILN_RETURN_IF_ERROR(AddCompiled(batch.compiled));
    for (const std::string& key : batch.deleted_kills) {
      ops_.push_back(KvOp::Delete(absl::StrCat(keys::kKill, key)));
    }
    for (const v1::KillRow& row : batch.kills) Put(absl::StrCat(keys::kKill, row.key()), row);
    for (const v1::WorkerRow& row : batch.workers) {
      Put(absl::StrCat(keys::kWorker, row.name()), row);
    }
    for (const std::string& name : batch.deleted_workers) {
      ops_.push_back(KvOp::Delete(absl::StrCat(keys::kWorker, name)));
    }
    AddMisses(batch);
    return absl::OkStatus();
  }

  const std::vector<KvOp>& ops() const { return ops_; }

 private:
  template <typename Row>
  void Put(std::string key, const Row& row) {
    ops_.push_back(KvOp::Put(std::move(key), row.SerializeAsString()));
  }

  absl::Status AddSweep(const v1::SweepRow& row) {
    const std::string key = absl::StrCat(keys::kSweep, row.digest());
    KILN_ASSIGN_OR_RETURN(std::optional<v1::SweepRow> old, GetRow<v1::SweepRow>(kv_, key));
    if (old.has_value()) {
      ops_.push_back(KvOp::Delete(keys::Order(old->submitted_unix_ms(), row.digest())));
    }
    Put(key, row);
    ops_.push_back(KvOp::Put(keys::Order(row.submitted_unix_ms(), row.digest()), ""));
    return absl::OkStatus();
  }

  void AddStatus(const v1::SweepStatusRow& row) {
    Put(absl::StrCat(keys::kStatus, row.digest()), row);
    const std::string active = absl::StrCat(keys::kActive, row.digest());
    ops_.push_back(IsTerminal(row.state()) ? KvOp::Delete(active) : KvOp::Put(active, ""));
  }

  void AddWinner(const v1::Winner& winner) {
    const std::string& name =
        winner.winner_key().empty() ? winner.problem_key() : winner.winner_key();
    Put(absl::StrCat(keys::kWinner, name), winner);
    v1::WinnerIndexRow row;
    row.set_winner(name);
    row.set_finished_unix_ms(winner.finished_unix_ms());
    row.set_problem_key(winner.problem_key());
    if (winner.has_key()) *row.mutable_key() = winner.key();
    Put(absl::StrCat(WinnersOfKernelKey(winner.spec()), name), row);
    if (!winner.kernel_digest().empty()) {
      Put(absl::StrCat(keys::kProgram, winner.kernel_digest(), "/", name), row);
    }
  }

  absl::Status DropWinner(const std::string& name) {
    const std::string key = absl::StrCat(keys::kWinner, name);
    KILN_ASSIGN_OR_RETURN(const std::optional<v1::Winner> old, GetRow<v1::Winner>(kv_, key));
    if (!old.has_value()) return absl::OkStatus();
    ops_.push_back(KvOp::Delete(key));
    ops_.push_back(KvOp::Delete(absl::StrCat(WinnersOfKernelKey(old->spec()), name)));
    ops_.push_back(KvOp::Delete(absl::StrCat(keys::kProgram, old->kernel_digest(), "/", name)));
    return absl::OkStatus();
  }

  void AddMisses(const Batch& batch) {
    for (const std::string& id : batch.deleted_misses) {
      ops_.push_back(KvOp::Delete(absl::StrCat(keys::kMiss, id)));
      ops_.push_back(KvOp::Delete(absl::StrCat(keys::kMissCount, id)));
    }
    for (const v1::MissRow& row : batch.misses) Put(absl::StrCat(keys::kMiss, row.id()), row);
    for (const v1::MissCountRow& row : batch.miss_counts) {
      Put(absl::StrCat(keys::kMissCount, row.id()), row);
    }
  }

  absl::Status AddCompiled(const std::vector<v1::CompileIndexRow>& rows) {
    std::map<std::string, v1::CompileIndexRow> merged;
    for (const v1::CompileIndexRow& row : rows) {
      const std::string key = absl::StrCat(keys::kCompiled, row.compile_key());
      auto [it, fresh] = merged.try_emplace(key);
      if (fresh) {
        KILN_ASSIGN_OR_RETURN(std::optional<v1::CompileIndexRow> old,
                              GetRow<v1::CompileIndexRow>(kv_, key));
        if (old.has_value()) it->second = *std::move(old);
        it->second.set_compile_key(row.compile_key());
      }
      for (const auto& entry : row.entries()) Merge(entry, &it->second);
    }
    for (const auto& [key, row] : merged) Put(key, row);
    return absl::OkStatus();
  }

  static void Merge(const v1::CompileIndexRow::Entry& entry, v1::CompileIndexRow* row) {
    for (auto& old : *row->mutable_entries()) {
      if (old.compiler_build() != entry.compiler_build()) continue;
      old = entry;
      return;
    }
    *row->add_entries() = entry;
  }

  Kv* kv_;
  std::vector<KvOp> ops_;
};

class KvMetaStore : public MetaStore {
 public:
  explicit KvMetaStore(std::unique_ptr<Kv> kv) : kv_(std::move(kv)) {}

  absl::StatusOr<uint64_t> BeginTerm() override {
    std::lock_guard<std::mutex> lock(commit_mutex_);
    KILN_ASSIGN_OR_RETURN(const uint64_t term, ReadTerm(kv_.get()));
    KILN_RETURN_IF_ERROR(kv_->Write({KvOp::Put(keys::kTerm, absl::StrCat(term + 1))}, true));
    return term + 1;
  }

  absl::Status Commit(uint64_t term, const Batch& batch) override {
    std::lock_guard<std::mutex> lock(commit_mutex_);
    KILN_ASSIGN_OR_RETURN(const uint64_t current, ReadTerm(kv_.get()));
    if (term != current) {
      return absl::AbortedError(absl::StrCat("term ", term, " is over: the store is in term ",
                                             current, ", held by another coordinator"));
    }
    OpList ops(kv_.get());
    KILN_RETURN_IF_ERROR(ops.Add(batch));
    if (ops.ops().empty()) return absl::OkStatus();
    return kv_->Write(ops.ops(), true);
  }

  absl::StatusOr<FarmState> Load() override;
  absl::StatusOr<std::string> ResolveSweep(absl::string_view prefix) override;
  absl::StatusOr<SweepRecord> GetSweep(absl::string_view digest, bool with_candidates) override;
  absl::StatusOr<SweepListing> ListSweeps(int limit, absl::string_view page_token,
                                          const SweepFilter& filter) override;
  absl::StatusOr<std::optional<v1::Winner>> FindWinner(absl::string_view name) override {
    return GetRow<v1::Winner>(kv_.get(), absl::StrCat(keys::kWinner, name));
  }
  absl::StatusOr<std::vector<v1::WinnerIndexRow>> WinnersOfKernel(const v1::SweepSpec& spec,
                                                                  absl::string_view kernel_digest,
                                                                  int limit) override;
  absl::StatusOr<std::vector<v1::MissRow>> FindMisses(const std::vector<std::string>& ids) override;
  absl::StatusOr<std::vector<v1::CompileIndexRow>> FindCompiled(
      const std::vector<std::string>& compile_keys) override;

  absl::Status Recover() override { return kv_->Recover(); }
  absl::StatusOr<int64_t> Checkpoint(const std::string& directory) override {
    return kv_->Checkpoint(directory);
  }

 private:
  absl::StatusOr<std::vector<std::string>> Suffixes(absl::string_view prefix, size_t limit);

  std::unique_ptr<Kv> kv_;
  std::mutex commit_mutex_;
};

absl::StatusOr<std::vector<std::string>> KvMetaStore::Suffixes(absl::string_view prefix,
                                                               size_t limit) {
  std::vector<std::string> found;
  KILN_RETURN_IF_ERROR(kv_->Scan(prefix, "", [&](absl::string_view key, absl::string_view) {
    found.emplace_back(LastPart(key));
    return found.size() < limit;
  }));
  return found;
}

absl::StatusOr<FarmState> KvMetaStore::Load() {
  FarmState state;
  KILN_ASSIGN_OR_RETURN(std::optional<v1::FarmRow> farm,
                        GetRow<v1::FarmRow>(kv_.get(), keys::kFarm));
  if (farm.has_value()) state.farm = *farm;
  KILN_RETURN_IF_ERROR(ScanRows(kv_.get(), keys::kKill, &state.kills));
  KILN_RETURN_IF_ERROR(ScanRows(kv_.get(), keys::kWorker, &state.workers));
  KILN_RETURN_IF_ERROR(ScanRows(kv_.get(), keys::kArch, &state.archs));
  KILN_RETURN_IF_ERROR(ScanRows(kv_.get(), keys::kMissCount, &state.miss_counts));
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> active, Suffixes(keys::kActive, SIZE_MAX));
  for (const std::string& digest : active) {
    KILN_ASSIGN_OR_RETURN(SweepRecord record, GetSweep(digest, true));
    state.active.push_back(std::move(record));
  }
  std::sort(state.active.begin(), state.active.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.row.submitted_unix_ms(), a.row.digest()) <
           std::make_pair(b.row.submitted_unix_ms(), b.row.digest());
  });
  return state;
}

absl::StatusOr<std::string> KvMetaStore::ResolveSweep(absl::string_view prefix) {
  if (prefix.size() < kMinPrefix) {
    return absl::InvalidArgumentError(absl::StrCat("'", prefix,
                                                   "' is too short for a sweep: give at least ",
                                                   kMinPrefix, " digits of its digest"));
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                        Suffixes(absl::StrCat(keys::kSweep, prefix), 2));
  if (found.empty()) return absl::NotFoundError(absl::StrCat("no sweep '", prefix, "'"));
  if (found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", prefix, "' is ambiguous: ", found[0],
                                                   " and ", found[1],
                                                   " begin with it; give more digits"));
  }
  return found[0];
}

absl::StatusOr<SweepRecord> KvMetaStore::GetSweep(absl::string_view digest, bool with_candidates) {
  SweepRecord record;
  KILN_ASSIGN_OR_RETURN(std::optional<v1::SweepRow> row,
                        GetRow<v1::SweepRow>(kv_.get(), absl::StrCat(keys::kSweep, digest)));
  KILN_ASSIGN_OR_RETURN(std::optional<v1::SweepStatusRow> status,
                        GetRow<v1::SweepStatusRow>(kv_.get(), absl::StrCat(keys::kStatus, digest)));
  if (!row.has_value() || !status.has_value()) {
    return absl::NotFoundError(absl::StrCat("no sweep '", digest, "'"));
  }
  record.row = *std::move(row);
  record.status = *std::move(status);
  if (with_candidates) {
    KILN_RETURN_IF_ERROR(ScanRows(kv_.get(), keys::Candidates(digest), &record.candidates));
    KILN_RETURN_IF_ERROR(ScanRows(kv_.get(), keys::Tasks(digest), &record.tasks));
  }
  return record;
}

absl::StatusOr<SweepListing> KvMetaStore::ListSweeps(int limit, absl::string_view page_token,
                                                     const SweepFilter& filter) {
  if (!page_token.empty() && !absl::StartsWith(page_token, keys::kOrder)) {
    return absl::InvalidArgumentError(
        "the page token is not one that an earlier answer gave; start without one");
  }
  int64_t oldest_ms = 0;  // nothing that is asked for is older
  if (!filter.parts_of.empty()) {
    KILN_ASSIGN_OR_RETURN(const SweepRecord range, GetSweep(filter.parts_of, false));
    oldest_ms = range.row.submitted_unix_ms();
  }
  SweepListing listing;
  absl::Status bad;
  KILN_RETURN_IF_ERROR(
      kv_->Scan(keys::kOrder, page_token, [&](absl::string_view key, absl::string_view) {
        if (static_cast<int>(listing.sweeps.size()) == limit) {
          listing.next_page_token = keys::Order(listing.sweeps.back().first.submitted_unix_ms(),
                                                listing.sweeps.back().first.digest());
          return false;
        }
        absl::StatusOr<SweepRecord> record = GetSweep(LastPart(key), false);
        if (!record.ok()) {
          bad = record.status();
          return false;
        }
        const v1::SweepRow& row = record->row;
        if (row.submitted_unix_ms() < oldest_ms) return false;
        if (filter.active_only && IsTerminal(record->status.state())) return true;
        const bool part = !row.parent().empty() && !record->status.asked();
        if (filter.without_parts && part) return true;
        if (!filter.parts_of.empty() && row.parent() != filter.parts_of) return true;
        listing.sweeps.emplace_back(std::move(record->row), std::move(record->status));
        return true;
      }));
  KILN_RETURN_IF_ERROR(bad);
  return listing;
}

absl::StatusOr<std::vector<v1::WinnerIndexRow>> KvMetaStore::WinnersOfKernel(
    const v1::SweepSpec& spec, absl::string_view kernel_digest, int limit) {
  std::vector<v1::WinnerIndexRow> rows;
  std::set<std::string> seen;
  std::vector<std::string> prefixes = {WinnersOfKernelKey(spec)};
  if (!kernel_digest.empty()) {
    prefixes.push_back(absl::StrCat(keys::kProgram, kernel_digest, "/"));
  }
  for (const std::string& prefix : prefixes) {
    absl::Status bad;
    KILN_RETURN_IF_ERROR(kv_->Scan(prefix, "", [&](absl::string_view key, absl::string_view value) {
      if (static_cast<int>(rows.size()) >= limit) return false;
      if (!seen.emplace(LastPart(key)).second) return true;
      rows.emplace_back();
      bad = ParseRow(key, value, &rows.back());
      rows.back().set_winner(std::string(LastPart(key)));
      return bad.ok();
    }));
    KILN_RETURN_IF_ERROR(bad);
  }
  return rows;
}

absl::StatusOr<std::vector<v1::MissRow>> KvMetaStore::FindMisses(
    const std::vector<std::string>& ids) {
  std::vector<v1::MissRow> rows;
  for (const std::string& id : ids) {
    KILN_ASSIGN_OR_RETURN(std::optional<v1::MissRow> row,
                          GetRow<v1::MissRow>(kv_.get(), absl::StrCat(keys::kMiss, id)));
    if (row.has_value()) rows.push_back(*std::move(row));
  }
  return rows;
}

absl::StatusOr<std::vector<v1::CompileIndexRow>> KvMetaStore::FindCompiled(
    const std::vector<std::string>& compile_keys) {
  std::vector<v1::CompileIndexRow> rows;
  rows.reserve(compile_keys.size());
  for (const std::string& key : compile_keys) {
    KILN_ASSIGN_OR_RETURN(
        std::optional<v1::CompileIndexRow> row,
        GetRow<v1::CompileIndexRow>(kv_.get(), absl::StrCat(keys::kCompiled, key)));
    rows.push_back(row.has_value() ? *std::move(row) : v1::CompileIndexRow());
  }
  return rows;
}

}  // namespace

bool Batch::empty() const {
  return reset_sweeps.empty() && !farm.has_value() && sweeps.empty() && statuses.empty() &&
         candidates.empty() && tasks.empty() && deleted_tasks.empty() && winners.empty() &&
         compiled.empty() && kills.empty() && deleted_kills.empty() && workers.empty() &&
         deleted_workers.empty() && archs.empty() && deleted_winners.empty() &&
         deleted_misses.empty() && misses.empty() && miss_counts.empty();
}

absl::StatusOr<std::unique_ptr<MetaStore>> NewKvMetaStore(std::unique_ptr<Kv> kv) {
  KILN_RETURN_IF_ERROR(CheckFormat(kv.get(), "kiln-meta", kMetaFormatVersion));
  return std::make_unique<KvMetaStore>(std::move(kv));
}

absl::StatusOr<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const std::string& directory) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Kv> kv, OpenRocksKv({directory, /*large_values=*/false}));
  return NewKvMetaStore(std::move(kv));
}

std::unique_ptr<MetaStore> NewMemoryMetaStore() {
  absl::StatusOr<std::unique_ptr<MetaStore>> store = NewKvMetaStore(NewMemoryKv());
  KILN_CHECK(store.ok());
  return *std::move(store);
}

}  // namespace kiln::store
