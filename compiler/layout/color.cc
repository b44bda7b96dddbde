#include "compiler/layout/color.h"

#include <algorithm>
#include <deque>

#include "compiler/base/status.h"

namespace kiln::layout {
namespace {

constexpr int kFree = -1;

int FirstFree(const std::vector<int>& used) {
  return static_cast<int>(std::find(used.begin(), used.end(), kFree) - used.begin());
}

}  // namespace

int MaxDegree(const std::vector<Edge>& edges, int vertices) {
  std::vector<int> left(vertices), right(vertices);
  int degree = 0;
  for (const Edge& e : edges) degree = std::max({degree, ++left[e.left], ++right[e.right]});
  return degree;
}

std::vector<int> ColorEdges(const std::vector<Edge>& edges, int vertices) {
  const int colors = MaxDegree(edges, vertices);
  // at[side][vertex][color] = edge of that colour there
  std::vector<std::vector<std::vector<int>>> at(
      2, std::vector<std::vector<int>>(vertices, std::vector<int>(colors, kFree)));
  std::vector<int> color(edges.size(), kFree);
  const auto end_of = [&](int edge, int side) {
    return side == 0 ? edges[edge].left : edges[edge].right;
  };
  for (size_t i = 0; i < edges.size(); ++i) {
    const int a = FirstFree(at[0][edges[i].left]);
    const int b = FirstFree(at[1][edges[i].right]);
    KILN_CHECK(a < colors && b < colors);
    if (a != b) {
      // The path of colours a, b, a, ... from the right end never comes back to the left end: swap.
      std::vector<int> path;
      int side = 1;
      int vertex = edges[i].right;
      for (int want = a;; want = want == a ? b : a) {
        const int edge = at[side][vertex][want];
        if (edge == kFree) break;
        path.push_back(edge);
        side = 1 - side;
        vertex = end_of(edge, side);
      }
      for (const int edge : path) {
        for (int s = 0; s < 2; ++s) at[s][end_of(edge, s)][color[edge]] = kFree;
      }
      for (const int edge : path) {
        color[edge] = color[edge] == a ? b : a;
        for (int s = 0; s < 2; ++s) at[s][end_of(edge, s)][color[edge]] = edge;
      }
    }
    color[i] = a;
    at[0][edges[i].left][a] = static_cast<int>(i);
    at[1][edges[i].right][a] = static_cast<int>(i);
  }
  return color;
}

std::vector<int> BalanceLeftEnds(const std::vector<std::vector<int>>& candidates, int vertices) {
  std::vector<int> chosen(candidates.size());
  std::vector<std::vector<int>> held(vertices);
  for (size_t i = 0; i < candidates.size(); ++i) {
    chosen[i] = candidates[i][0];
    for (const int v : candidates[i]) {
      if (held[v].size() < held[chosen[i]].size()) chosen[i] = v;
    }
    held[chosen[i]].push_back(static_cast<int>(i));
  }
  // Moves one edge along a chain from a fullest vertex to one with at least two fewer, while it
  // can.
  for (;;) {
    const auto fullest = std::max_element(
        held.begin(), held.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const size_t load = fullest->size();
    bool improved = false;
    for (int start = 0; start < vertices && !improved; ++start) {
      if (held[start].size() != load) continue;
      std::vector<int> via(vertices, kFree), from(vertices, kFree);
      std::deque<int> queue = {start};
      from[start] = start;
      while (!queue.empty() && !improved) {
        const int v = queue.front();
        queue.pop_front();
        for (const int edge : held[v]) {
          for (const int next : candidates[edge]) {
            if (from[next] != kFree) continue;
            from[next] = v;
            via[next] = edge;
            queue.push_back(next);
          }
        }
        if (held[v].size() + 2 > load) continue;
        for (int to = v; to != start; to = from[to]) {
          auto& source = held[from[to]];
          source.erase(std::find(source.begin(), source.end(), via[to]));
          held[to].push_back(via[to]);
          chosen[via[to]] = to;
        }
        improved = true;
      }
    }
    if (!improved) return chosen;
  }
}

}  // namespace kiln::layout
