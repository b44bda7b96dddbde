// What was looked up and not found, counted. A part of the core: no clock, no lock, no disk.
// Bounded in number and bytes; counts reach the disk in batches (Options::miss_flush_count and
// _seconds).
#ifndef KILN_COORDINATOR_CORE_MISSES_H_
#define KILN_COORDINATOR_CORE_MISSES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "compiler/base/clock.h"
#include "coordinator/core/options.h"
#include "coordinator/store/meta_store.h"
#include "kiln/v1/store.pb.h"
#include "kiln/v1/tuning.pb.h"

namespace kiln::core {

class Misses {
 public:
  Misses(const Options& options, std::vector<v1::MissCountRow> stored);

  struct Seen {
    std::string id;  // of the canonical request
    v1::SweepSpec spec;
    std::set<std::string> users;
    int64_t count = 1;
    std::string reason;
  };
  // Counts one request's misses. Returns how many others had to go, to stay within the limits.
  int Add(const Seen& seen, Time now, store::Batch* batch);
  // The request has a winner now, or is not wanted any more. Unknown ids are fine.
  bool Drop(const std::string& id, store::Batch* batch);
  int64_t DropAll(store::Batch* batch);

  // Writes the counts that have changed if they are many or old enough, or in any case.
  void FlushIfDue(Time now, store::Batch* batch);
  void Flush(store::Batch* batch);

  // Most frequent first; of equals the latest, then by id. `limit` 0 = all.
  std::vector<const v1::MissCountRow*> List(int limit) const;
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }

 private:
  static constexpr int kMaxUsers = 8;
  static constexpr size_t kMaxReason = 1024;
  using Rank = std::tuple<int64_t, int64_t, std::string>;  // (count, last, id): least worth first

  static Rank RankOf(const v1::MissCountRow& row) {
    return {row.count(), row.last_unix_ms(), row.id()};
  }
  void Remove(const std::string& id, store::Batch* batch);

  const Options& options_;
  std::unordered_map<std::string, v1::MissCountRow> rows_;
  std::set<Rank> ranks_;
  int64_t bytes_ = 0;  // of all specs
  std::set<std::string> unwritten_;
  int64_t unwritten_count_ = 0;
  int64_t unwritten_since_ns_ = 0;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_MISSES_H_
