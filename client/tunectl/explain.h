// The text of `tunectl explain`.
#ifndef KILN_CLIENT_TUNECTL_EXPLAIN_H_
#define KILN_CLIENT_TUNECTL_EXPLAIN_H_

#include <string>
#include <vector>

#include "client/kiln_client.h"

namespace kiln::tunectl {

// Spearman's rank correlation of `a` and `b` (ties share their mean rank); 0 for fewer than two.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

// How the recommender did on a sweep.
struct Agreement {
  int measured = 0;
  double rank_correlation = 0;
  double median_error = 0;     // of |measured - predicted| / measured
  double within_interval = 0;  // share of measurements inside the predicted interval
  int winner_rank = 0;         // 1 = the recommender's first choice won; 0 = no winner
};
Agreement Agree(const client::SweepDetails& details);

// At most `limit` candidates (0 = all), measured ones first, the fastest at the top; `reasons`
// adds the recommender's sentences.
std::string ExplainText(const client::SweepDetails& details, int limit, bool reasons);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_EXPLAIN_H_
