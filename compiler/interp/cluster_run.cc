#include "compiler/interp/cluster_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln::interp {

ClusterRun::ClusterRun(Machine& m, size_t blocks)
    : before_(m.NewRun()),
      known_(blocks, Epochs(blocks, before_)),
      reached_(blocks, Epochs(blocks, 0)),
      ended_(blocks, false),
      meetings_(blocks, 0) {}

void ClusterRun::Begin(Machine& m, size_t rank) {
  Level& level = m.levels[kRankLevel];
  level.unit = static_cast<uint32_t>(rank);
  level.run = m.NewRun();
  level.known = &known_[rank];
  known_[rank][rank] = level.run;
}

bool ClusterRun::End(Machine& m, SourceLoc loc) {
  const size_t own = Own(m);
  ended_[own] = true;
  for (size_t other = 0; other < ended_.size() && !m.failed(); ++other) {
    if (other == own || reached_[own][other] <= known_[own][other]) continue;
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           absl::StrCat("block ", own, " of the cluster may have ended when block ", other,
                        " touches its shared memory"),
           "let the blocks of the cluster meet before they end (T.cluster_sync)");
  }
  return !m.failed();
}

bool ClusterRun::Reach(Machine& m, int64_t owner, const std::string& what, SourceLoc loc) {
  const size_t own = Own(m), other = static_cast<size_t>(owner);
  if (own == other) return true;
  const bool begun = known_[own][other] > before_;
  if (!begun || ended_[other]) {
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           absl::StrCat("block ", own, " of the cluster touches ", what, " of block ", other,
                        begun ? ", which may have ended" : ", which may not have begun"),
           begun ? "let the blocks of the cluster meet before they end (T.cluster_sync)"
                 : "let the blocks of the cluster meet first (T.cluster_sync)");
    return false;
  }
  reached_[other][own] = m.levels[kRankLevel].run;
  return true;
}

void ClusterRun::Learn(Epochs* to, const Epochs& more) {
  to->resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) (*to)[i] = std::max((*to)[i], more[i]);
}

void ClusterRun::Release(Machine& m, const BarrierKey& barrier) {
  Learn(&told_[barrier], known_[Own(m)]);
  Begin(m, Own(m));
}

void ClusterRun::Acquire(Machine& m, const BarrierKey& barrier) {
  const auto told = told_.find(barrier);
  if (told != told_.end()) Learn(&known_[Own(m)], told->second);
  known_[Own(m)][Own(m)] = m.levels[kRankLevel].run;
}

void ClusterRun::Arrive(Machine& m) {
  const auto meeting = static_cast<size_t>(meetings_[Own(m)]++);
  if (met_.size() <= meeting) met_.resize(meeting + 1);
  Learn(&met_[meeting], known_[Own(m)]);
  Begin(m, Own(m));
}

bool ClusterRun::AllArrived(const Machine& m) const {
  return *std::min_element(meetings_.begin(), meetings_.end()) >= meetings_[Own(m)];
}

void ClusterRun::GoOn(Machine& m) {
  Learn(&known_[Own(m)], met_[static_cast<size_t>(meetings_[Own(m)] - 1)]);
  known_[Own(m)][Own(m)] = m.levels[kRankLevel].run;
}

}  // namespace kiln::interp
