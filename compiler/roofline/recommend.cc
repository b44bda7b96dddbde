#include "compiler/roofline/recommend.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/roofline/carver_bind.h"
#include "compiler/roofline/expand.h"
#include "compiler/roofline/priced_space.h"
#include "compiler/roofline/slate.h"

namespace kiln::roofline {
namespace {

constexpr int kReserve = 3;  // times top_k, after the slate

// The kernel's own defaults of the tunables.
Config Defaults(const Request& request, const PricedSpace& space) {
  Config config;
  for (const lang::ParamInfo& p : request.kernel->params()) {
    if (!p.default_text) continue;
    for (const Axis& a : space.axes()) {
      if (a.name == p.name) config.Set(p.name, *p.default_text);
    }
  }
  return config;
}

void ListRecommended(const Request& request, const PricedSpace& space, Recommendation& out) {
  std::set<int64_t> listed;
  for (const SlateEntry& e : ChooseSlate(space, request.top_k, Defaults(request, space))) {
    Hint hint = space.HintAt(e.rank);
    if (!e.why.empty()) hint.reason = absl::StrCat(e.why, " ", hint.reason);
    out.ranked.push_back(std::move(hint));
    listed.insert(e.rank);
  }
  const int64_t wanted = static_cast<int64_t>(out.ranked.size()) + kReserve * request.top_k;
  for (int64_t r = 0; r < space.legal(); ++r) {
    if (static_cast<int64_t>(out.ranked.size()) >= wanted) break;
    if (listed.count(r) == 0) out.ranked.push_back(space.HintAt(r));
  }
}

// Past a few hundred candidates nobody reads the reasons: config and prediction only.
void ListAll(const Request& request, const PricedSpace& space, Recommendation& out) {
  constexpr int64_t kExplained = 256;
  const int64_t n = std::min(space.legal(), request.limits.listed);
  // A sample is evenly spread over the ranking; the seed shifts where it starts.
  const double phase = static_cast<double>(request.seed * 0x9e3779b97f4a7c15ULL >> 11) * 0x1p-53;
  const double step =
      static_cast<double>(space.legal()) / static_cast<double>(std::max<int64_t>(1, n));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t rank =
        n == space.legal() ? i : static_cast<int64_t>((static_cast<double>(i) + phase) * step);
    if (i < kExplained) {
      out.ranked.push_back(space.HintAt(rank));
      continue;
    }
    Hint hint;
    hint.config = space.ConfigAt(rank);
    hint.predicted_ns = space.PredictedAt(rank);
    out.ranked.push_back(std::move(hint));
  }
  if (n < space.legal()) {
    out.notes.push_back(
        absl::StrCat("sampled: ", n, " of ", space.legal(), " legal configs listed"));
  }
}

}  // namespace

absl::StatusOr<Recommendation> Recommend(const Request& request) {
  if (request.kernel == nullptr) return absl::InvalidArgumentError("no kernel given");
  if (request.top_k < 1) return absl::InvalidArgumentError("top_k must be at least 1");
  KILN_ASSIGN_OR_RETURN(Expanded expanded, ExpandRequest(request));
  Recommendation out;
  out.kernel_digest = expanded.kernel_digest;
  out.notes = expanded.notes;
  auto space = std::make_shared<const PricedSpace>(std::move(expanded), request.arch);
  out.legal_count = space->legal();
  out.total_count = space->total();
  if (space->legal() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("none of the ", space->total(), " configs of the space is legal on ",
                     request.arch.name, "; most fail on: ", space->CommonestLimit()));
  }
  switch (request.strategy) {
    case Strategy::kRecommended:
      ListRecommended(request, *space, out);
      break;
    case Strategy::kCarver: {
      KILN_RETURN_IF_ERROR(ListCarver(request, *space, out));
      break;
    }
    case Strategy::kAll:
      ListAll(request, *space, out);
      break;
  }
  out.space = std::move(space);
  return out;
}

}  // namespace kiln::roofline
