// Keeps answers within what a client takes.
#ifndef KILN_COORDINATOR_RPC_TRIM_H_
#define KILN_COORDINATOR_RPC_TRIM_H_

#include "kiln/v1/tuning.pb.h"

namespace kiln::rpc {

// Replaces the raw samples of a measurement by their number.
void TrimSamples(v1::Measurement* measurement);
void TrimSamples(v1::Candidate* candidate);

// Drops samples unless they were asked for, and then candidates from the end (the recommender's
// order: the least promising first) until the answer has at most `limit` bytes;
// `candidates_omitted` says how many.
void TrimAnswer(bool with_samples, int64_t limit, v1::GetSweepResponse* answer);

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_TRIM_H_
