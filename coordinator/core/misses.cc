#include "coordinator/core/misses.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/text.h"

namespace kiln::core {

Misses::Misses(const Options& options, std::vector<v1::MissCountRow> stored) : options_(options) {
  for (v1::MissCountRow& row : stored) {
    bytes_ += row.spec_bytes();
    ranks_.insert(RankOf(row));
    const std::string id = row.id();
    rows_.emplace(id, std::move(row));
  }
}

void Misses::Remove(const std::string& id, store::Batch* batch) {
  const auto found = rows_.find(id);
  bytes_ -= found->second.spec_bytes();
  ranks_.erase(RankOf(found->second));
  rows_.erase(found);
  unwritten_.erase(id);
  // The same batch may hold its first row: deletions come first there.
  std::erase_if(batch->misses, [&](const v1::MissRow& row) { return row.id() == id; });
  std::erase_if(batch->miss_counts, [&](const v1::MissCountRow& row) { return row.id() == id; });
  batch->deleted_misses.push_back(id);
}

int Misses::Add(const Seen& seen, Time now, store::Batch* batch) {
  auto [it, fresh] = rows_.try_emplace(seen.id);
  v1::MissCountRow& row = it->second;
  if (fresh) {
    v1::MissRow& request = batch->misses.emplace_back();
    request.set_id(seen.id);
    *request.mutable_spec() = seen.spec;
    row.set_id(seen.id);
    row.set_first_unix_ms(now.wall_ms);
    row.set_spec_bytes(static_cast<int64_t>(request.ByteSizeLong()));
    bytes_ += row.spec_bytes();
  } else {
    ranks_.erase(RankOf(row));
  }
  row.set_count(row.count() + seen.count);
  row.set_last_unix_ms(std::max(row.last_unix_ms(), now.wall_ms));
  row.set_reason(Cut(seen.reason, kMaxReason));
  for (const std::string& user : seen.users) {
    const auto& known = row.users();
    if (user.empty() || std::find(known.begin(), known.end(), user) != known.end()) continue;
    if (row.users_size() < kMaxUsers) {
      row.add_users(user);
    } else {
      row.set_more_users(true);
    }
  }
  ranks_.insert(RankOf(row));
  if (unwritten_.empty()) unwritten_since_ns_ = now.mono_ns;
  unwritten_.insert(seen.id);
  unwritten_count_ += seen.count;
  // A request and its first count are one fact.
  if (fresh) batch->miss_counts.push_back(row);
  int evicted = 0;
  while (rows_.size() > 1 && (static_cast<int>(rows_.size()) > options_.max_misses ||
                              bytes_ > options_.max_miss_bytes)) {
    // Never the one that came just now: else nothing new could ever be seen in a full list.
    auto least = ranks_.begin();
    if (std::get<2>(*least) == seen.id) ++least;
    Remove(std::string(std::get<2>(*least)), batch);
    ++evicted;
  }
  return evicted;
}

bool Misses::Drop(const std::string& id, store::Batch* batch) {
  if (rows_.find(id) == rows_.end()) return false;
  Remove(id, batch);
  return true;
}

int64_t Misses::DropAll(store::Batch* batch) {
  const int64_t count = size();
  while (!rows_.empty()) Remove(std::string(rows_.begin()->first), batch);
  return count;
}

void Misses::FlushIfDue(Time now, store::Batch* batch) {
  const bool due = unwritten_count_ >= options_.miss_flush_count ||
                   now.mono_ns - unwritten_since_ns_ >= SecondsToNs(options_.miss_flush_seconds);
  if (!unwritten_.empty() && due) Flush(batch);
}

void Misses::Flush(store::Batch* batch) {
  for (const std::string& id : unwritten_) batch->miss_counts.push_back(rows_.at(id));
  unwritten_.clear();
  unwritten_count_ = 0;
}

std::vector<const v1::MissCountRow*> Misses::List(int limit) const {
  std::vector<const v1::MissCountRow*> out;
  for (const auto& [id, row] : rows_) out.push_back(&row);
  std::sort(out.begin(), out.end(), [](const v1::MissCountRow* a, const v1::MissCountRow* b) {
    return std::make_tuple(-a->count(), -a->last_unix_ms(), std::cref(a->id())) <
           std::make_tuple(-b->count(), -b->last_unix_ms(), std::cref(b->id()));
  });
  if (limit > 0 && static_cast<int>(out.size()) > limit) out.resize(limit);
  return out;
}

}  // namespace kiln::core
