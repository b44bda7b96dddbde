// What a runner keeps between requests, and of one candidate of a request. Private to its files.
#ifndef KILN_WORKER_PROFILE_RUNNER_STATE_H_
#define KILN_WORKER_PROFILE_RUNNER_STATE_H_

#include <memory>
#include <string>
#include <utility>

#include "worker/profile/ragged.h"
#include "worker/profile/runner.h"

namespace kiln::worker {

inline v1::Failure MakeFailure(v1::Failure::Stage stage, const absl::Status& status) {
  v1::Failure failure;
  failure.set_stage(stage);
  failure.set_message(std::string(status.message()));
  return failure;
}

// Candidates with equal keys can share tensors and reference values.
std::string BenchKey(const v1::SweepInputs& inputs, const BoundManifest& manifest);

struct Runner::Bench {
  std::string key;
  RotationPlan plan;
  std::unique_ptr<TensorSet> tensors;
  std::unique_ptr<Checker> checker;
  std::unique_ptr<Meter> meter;
  std::unique_ptr<RaggedCheck> ragged;  // null: no finals yet
};

struct Runner::Entry {
  std::string config;
  std::string artifact;    // digest of the bundle's bytes
  bool checked = false;    // before this request
  double expected_ns = 0;  // by the recommender; 0 = unknown
  v1::CandidateResult result;
  Manifest source;
  BoundManifest manifest;
  std::unique_ptr<LoadedKernel> kernel;
  double setup_seconds = 0;
  double check_seconds = 0;
  std::string check_summary;
  bool whole_output = false;  // CheckReport.whole_output
  bool out_raced = false;
  std::string throttled;  // by what, so that it was not measured
  bool alive() const { return !result.has_failure(); }
  void Fail(v1::Failure failure) {
    result.clear_measurement();
    result.clear_fresh();
    *result.mutable_failure() = std::move(failure);
  }
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_RUNNER_STATE_H_
