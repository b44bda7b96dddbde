#include "coordinator/rpc/trim.h"

namespace kiln::rpc {

void TrimSamples(v1::Measurement* measurement) {
  measurement->set_sample_count(measurement->samples_ns_size());
  measurement->clear_samples_ns();
}

void TrimSamples(v1::Candidate* candidate) {
  for (v1::Measurement& m : *candidate->mutable_measurements()) TrimSamples(&m);
}

void TrimAnswer(bool with_samples, int64_t limit, v1::GetSweepResponse* answer) {
  if (!with_samples) {
    for (v1::Candidate& candidate : *answer->mutable_candidates()) TrimSamples(&candidate);
  }
  int64_t size = static_cast<int64_t>(answer->ByteSizeLong());
  int omitted = 0;
  while (size > limit && answer->candidates_size() > 0) {
    const v1::Candidate& last = answer->candidates(answer->candidates_size() - 1);
    size -= static_cast<int64_t>(last.ByteSizeLong());
    answer->mutable_candidates()->RemoveLast();
    ++omitted;
  }
  answer->set_candidates_omitted(omitted);
}

}  // namespace kiln::rpc
