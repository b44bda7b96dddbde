// The sweeps that a sweep over a range of sizes is made of, and what is drawn from their results.
// Pure functions; core/range_sweeps.cc runs them.
//
// A range goes through three phases. Each size to tune for has a sweep of its own, an ordinary one
// at that size. The configs that won somewhere are then measured beside each other at those sizes
// and at sizes between, and the steps follow from that (search/thresholds.h). More sizes are
// measured where a step ends, and where the steps would have run something slower than the one
// config that is best alone. Last, the object that dispatches is measured beside that one config at
// every size.
#ifndef KILN_COORDINATOR_CORE_RANGE_H_
#define KILN_COORDINATOR_CORE_RANGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kiln/v1/store.pb.h"

namespace kiln::core {

// What a sweep at one size is for.
enum class RangeStep { kTune, kCompare, kProve };

// The spec of such a sweep. kProve needs the table's dispatch.
v1::SweepSpec SpecAt(const v1::SweepRow& range, const v1::RangeTable& table, RangeStep step,
                     int64_t size);

// A table with the points to tune for and nothing known.
v1::RangeTable EmptyTable(const v1::ShapeRange& range);

// The point of this size; there is one.
v1::RangePoint* PointAt(v1::RangeTable* table, int64_t size);

// All tuned points have a winner or a failure: lists the winners to compare, each once, sorted; of
// more than search::kMaxVariants those that won most often. Adds the points between.
void StartComparison(v1::RangeTable* table);

// Samples of configs that were measured beside each other: the i-th of two are a pair.
using Samples = std::map<std::string, std::vector<double>>;

// Notes the times of table.compared at a point; `samples` has all of them.
void NoteTimes(const v1::RangeTable& table, const Samples& samples, uint64_t seed,
               v1::RangePoint* point);

// Notes what the object that dispatches and the single config took, measured beside each other.
void NoteProof(const v1::Measurement& dispatched, const v1::Measurement& single, uint64_t seed,
               v1::RangePoint* point);

// Whether the object was slower at the point than the single config, beyond noise.
inline bool ProvedSlower(const v1::RangePoint& point) { return point.ratio_low() > 1; }

// Every point has its proof. Where the object was slower and runs another config than the single
// one, that counts against the config from now on; the dispatch is then set anew and all proofs are
// void. False when nothing changes by that.
bool Mend(const v1::ShapeRange& range, v1::RangeTable* table);

// The kernel does not take this size: nothing is asked of it any more, and no step ends there.
void Refuse(int64_t size, const std::string& why, v1::RangeTable* table);

// Takes a config that failed at some size out of the comparison.
void Drop(const std::string& config, const std::string& why, v1::RangeTable* table);

// Every point has its times. Adds the points that the next wave is to measure and returns how many:
// in the middle of the two sizes between which a step ends, until they are near each other; the
// first size behind a point where a step begins or the best single config may be faster, and the
// last before one of whole tiles where a step ends; and on both sides of a size of the last wave at
// which the steps before it, which had not seen it, would have run something slower than the best
// single config beyond noise. 0 when nothing is left to ask, or as many points or waves as allowed
// are there.
int Refine(v1::RangeTable* table, int wave);

// Sets table.dispatch and table.single.
void SetDispatch(const v1::ShapeRange& range, v1::RangeTable* table);

// How far it is: sizes done of all that are known of, over all phases.
void CountSizes(const v1::RangeTable& table, int* done, int* total);

// The share of its work that is done, where to tune for a size is as much as `weight` other
// measurements, and `tuning` of such are done besides in parts.
double ShareDone(const v1::RangeTable& table, double weight, double tuning);

// "the kernel does not take M=362, M=724"; empty: it takes all.
std::string RefusedText(const v1::ShapeRange& range, const v1::RangeTable& table);

// "slower than the best single config at 1 of 17 sizes: M=96 (1.02 times)"; empty: nowhere.
std::string SlowerText(const v1::RangeTable& table);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_RANGE_H_
