// Bipartite edge colouring: which edges can go in the same round when every vertex takes part in
// one edge a round.
#ifndef KILN_COMPILER_LAYOUT_COLOR_H_
#define KILN_COMPILER_LAYOUT_COLOR_H_

#include <vector>

namespace kiln::layout {

struct Edge {
  int left = 0;
  int right = 0;
};

// A colour for every edge such that edges with a common end differ, with exactly as many colours as
// the largest degree (Konig): no colouring has fewer. Parallel edges are allowed. Vertices are
// [0, vertices) on each side. O(edges * vertices).
std::vector<int> ColorEdges(const std::vector<Edge>& edges, int vertices);

// The colours that takes: the largest degree.
int MaxDegree(const std::vector<Edge>& edges, int vertices);

// For every edge one of its candidate left ends such that the largest number of edges at one left
// end is as small as possible. Every list is non-empty.
std::vector<int> BalanceLeftEnds(const std::vector<std::vector<int>>& candidates, int vertices);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_COLOR_H_
