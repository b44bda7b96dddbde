// From many measured candidates to one winner: successive halving, then interleaved finals, then a
// verdict by confidence interval. Pure functions; numbers in nanoseconds.
#ifndef KILN_COORDINATOR_SEARCH_RACE_H_
#define KILN_COORDINATOR_SEARCH_RACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/v1/common.pb.h"

namespace kiln::search {

struct Lap {
  int candidate = 0;     // the caller's index
  double median_ns = 0;  // of the latest round
  int samples = 0;       // behind it; 0 = unknown
};

struct RacePlan {
  bool finals = false;
  std::vector<int> survivors;  // fastest first; ties by index
  int samples = 0;             // that each survivor should collect (races only)
  int round = 0;               // of the race, from 1 (races only)
};

// What follows after `rounds_done` race rounds (0: only the screen) over the laps of all that are
// still in. Survivors are within 1.5x, then 1.1x, then 1.03x of the best, so that a screen of few
// samples throws nothing close away; finals start as soon as few enough are left. The first round
// is skipped when all who would run in it have as many samples as it asks for already: short
// launches are screened with more.
RacePlan PlanRound(int rounds_done, const std::vector<Lap>& laps, int screen_samples,
                   int max_finalists);

struct Finalist {
  std::string config;
  std::vector<double> samples_ns;  // in rounds: the i-th samples of two finalists are a pair
  double median_ns = 0;
  double mad_ns = 0;
  v1::Resources resources;
};

struct Verdict {
  int winner = 0;         // index into the finalists
  std::vector<int> ties;  // others that the samples cannot tell from the fastest
  // 95 % bootstrap interval of (runner-up / winner) over paired samples; 0 when there was no rival.
  double ratio_low = 0;
  double ratio_high = 0;
};

// `finalists` is not empty. The fastest has the least median, or is faster than that one in pairs,
// the whole interval of their ratio below 1. A finalist whose interval of the ratio to the fastest
// one contains 1 ties with it, unless it is more than 1.5 % slower: then there were too few samples
// to tell. One that is at most 0.3 % slower ties with it too: the next sweep may see it the other
// way. Of the tied, those whose spread is within 1 % of the median of the smallest spread stay;
// then fewer resources, then the smaller config text decide. Deterministic in its arguments, and
// steady between runs: no two near-equal numbers are compared.
Verdict Decide(const std::vector<Finalist>& finalists, uint64_t seed);

struct Interval {
  double low = 1;
  double high = 1;
  double middle = 1;  // of the pairs themselves
};
// 95 % bootstrap interval of the median of slow[i] / fast[i] over the common length. Fewer than 3
// pairs cannot separate anything: the interval then contains 1.
Interval PairedRatio(const std::vector<double>& slow, const std::vector<double>& fast,
                     uint64_t seed);

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_RACE_H_
