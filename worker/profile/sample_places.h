// Which elements of an output to look at where the reference has no time for all.
#ifndef KILN_WORKER_PROFILE_SAMPLE_PLACES_H_
#define KILN_WORKER_PROFILE_SAMPLE_PLACES_H_

#include <cstdint>
#include <vector>

namespace kiln::worker {

// About `samples` distinct elements, in up to six clusters (the first and the last
// corner of the last dimension and the longest other one, two random places, the other corners), so
// that a reference that works block by block touches few blocks. Each is sorted. Deterministic in
// its arguments.
std::vector<std::vector<int64_t>> SampleClusters(const std::vector<int64_t>& shape, int samples,
                                                 uint64_t seed);

// Up to `samples` elements that cover the whole tensor evenly, one of four in the last column and
// one in the last row; so do the first few alone. Deterministic in its arguments.
std::vector<int64_t> SpreadElements(const std::vector<int64_t>& shape, int samples, uint64_t seed);

// Of sorted elements that are suspect: about `most` of all, evenly, and the ends of the shortest
// runs of neighbours, of as many: what is wrongly among them lies by itself, or joins what is
// rightly there.
std::vector<int64_t> FewOfRuns(const std::vector<int64_t>& elements, size_t most);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_SAMPLE_PLACES_H_
