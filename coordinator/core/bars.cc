// Programs that took children with them: who is barred farm-wide, and how that is lifted.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "coordinator/core/core_impl.h"

namespace kiln::core {
namespace {

constexpr size_t kIdDigits = 16;
constexpr size_t kLeastDigits = 6;

// The row's key is a binary's digest, or a compile key with the toolchain behind it.
std::string IdOf(const v1::KillRow& row) { return Sha256Hex(row.key()).substr(0, kIdDigits); }

v1::Bar BarOf(const v1::KillRow& row) {
  v1::Bar bar;
  bar.set_id(IdOf(row));
  bar.set_config(row.config());
  bar.set_sweep(row.sweep());
  bar.set_name(row.name());
  bar.set_children(row.count());
  *bar.mutable_failure() = row.failure();
  if (!row.has_failure()) bar.mutable_failure()->set_message(row.last());
  bar.set_last_unix_ms(row.last_unix_ms());
  return bar;
}

bool Later(const v1::Bar& a, const v1::Bar& b) {
  return std::make_pair(-a.last_unix_ms(), a.id()) < std::make_pair(-b.last_unix_ms(), b.id());
}

}  // namespace

int Core::Impl::Kills(const std::string& key) const {
  auto it = kills_.find(key);
  return it == kills_.end() ? 0 : it->second.count();
}

void Core::Impl::AddKill(const std::string& key, const v1::Failure& failure, const Sweep& sweep,
                         const Cand& cand) {
  v1::KillRow& row = kills_[key];
  row.set_key(key);
  row.set_count(row.count() + 1);
  row.set_last(
      absl::StrCat(failure.message(), failure.witness().empty() ? "" : ": ", failure.witness()));
  *row.mutable_failure() = failure;
  row.set_config(cand.config());
  row.set_sweep(sweep.digest());
  row.set_name(sweep.row.spec().name());
  row.set_last_unix_ms(now_.wall_ms);
  out_.batch.kills.push_back(row);
}

void Core::Impl::On(ListBars& event) {
  v1::ListBarsResponse response;
  for (const auto& [key, row] : kills_) {
    if (Barred(row)) *response.add_bars() = BarOf(row);
  }
  std::sort(response.mutable_bars()->begin(), response.mutable_bars()->end(), Later);
  out_.replies.push_back({event.request, ReplyBody(std::move(response))});
}

// The key of the one bar whose id begins so.
absl::StatusOr<std::string> Core::Impl::FindBar(const std::string& prefix) const {
  if (prefix.size() < kLeastDigits) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", prefix, "' is too short: give at least ", kLeastDigits, " digits"));
  }
  std::string found;
  for (const auto& [key, row] : kills_) {
    if (!Barred(row) || !absl::StartsWith(IdOf(row), prefix)) continue;
    if (!found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("several bars begin with '", prefix, "': give more digits"));
    }
    found = key;
  }
  if (found.empty()) return absl::NotFoundError(absl::StrCat("there is no bar ", prefix));
  return found;
}

void Core::Impl::On(LiftBars& event) {
  std::set<std::string> keys;
  for (const std::string& id : event.ids) {
    const absl::StatusOr<std::string> key = FindBar(id);
    if (!key.ok()) return ReplyStatus(event.request, key.status());
    keys.insert(*key);
  }
  for (const auto& [key, row] : kills_) {
    if (event.all && Barred(row)) keys.insert(key);
  }
  v1::LiftBarsResponse response;
  for (const std::string& key : keys) {
    *response.add_lifted() = BarOf(kills_.at(key));
    kills_.erase(key);
    std::erase_if(out_.batch.kills, [&](const v1::KillRow& row) { return row.key() == key; });
    out_.batch.deleted_kills.push_back(key);
  }
  std::sort(response.mutable_lifted()->begin(), response.mutable_lifted()->end(), Later);
  out_.replies.push_back({event.request, ReplyBody(std::move(response))});
}

}  // namespace kiln::core
