// Are a candidate's numbers right? Asked before it is timed; a wrong candidate can never win.
//
// For each seed: poison the outputs, run once, then
//   1. red zones and inputs must be untouched,
//   2. every output element must have been written, unless the reference leaves it too,
//   3. sampled elements must agree with the reference at the real shape, all contributors included:
//      one of every tile where the kernel computes a known formula (formula.h), which its own
//      program has confirmed; else corners of the tensor, random places, and as many as there is
//      time for all over it, by the interpreter,
//   4. the whole output must agree with that of the first candidate that passed (the peer); where
//      they differ the reference decides which of the two is wrong; an output with the very bytes
//      of the peer's needs no other look; where the device counts that all are close, only the
//      samples are read,
//   5. the whole output of a matrix product that is not so compared must have right sums along its
//      rows, with random factors (projection.h),
//   6. a NaN is wrong unless the reference has one there.
// A formula alone finds nobody wrong: where it differs the candidate's own program is interpreted.
// Reference values and the peer's outputs are kept, so that the reference is computed once for all
// candidates of the same inputs.
#ifndef KILN_WORKER_PROFILE_CHECK_H_
#define KILN_WORKER_PROFILE_CHECK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/common.pb.h"
#include "worker/profile/device.h"
#include "worker/profile/formula.h"
#include "worker/profile/manifest.h"
#include "worker/profile/peer.h"
#include "worker/profile/reference.h"
#include "worker/profile/scan.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {

struct CheckReport {
  bool passed = false;
  v1::Failure failure;  // when not passed
  std::string summary;  // "2 seeds, 512 elements sampled by the interpreter, worst
                        // error 0.12 of the tolerance"
  // Every element was held against something other than a candidate: in projections, or as one
  // that was. Never of outputs that are compared by digests.
  bool whole_output = false;
  // Configs that passed earlier and that the reference has now proved wrong.
  std::vector<std::string> convicted;
};

class Checker {
 public:
  // What is needed of one candidate.
  struct Candidate {
    std::string config;
    LoadedKernel* kernel = nullptr;
    const BoundManifest* manifest = nullptr;
    // Makes this config's own reference; called at most once a check.
    std::function<absl::StatusOr<std::unique_ptr<Reference>>()> make_reference;
    // That of the kernel with its defaults, which says what the kernel means whichever config came
    // first. Empty, or an error: what the first config means is taken for right.
    std::function<absl::StatusOr<std::unique_ptr<Reference>>()> make_default_reference;
    // Whose launch takes longer is checked with the first seed alone; 0: with all in any case.
    double slow_seconds = 0;
  };

  // `tensors` must hold at least as many copies as there are seeds (default {1, 2}), copy i filled
  // from seed i. `alive` is called between the slow steps. Peers' outputs beyond `peer_bytes` are
  // not kept on the host (peer.h). All pointers must outlive the checker.
  Checker(Device* device, TensorSet* tensors, const v1::CheckPolicy& policy, int64_t peer_bytes,
          std::function<void()> alive);
  ~Checker();

  // A non-OK status is not the candidate's fault: the device fails.
  absl::StatusOr<CheckReport> Check(const Candidate& candidate);

  // After timing: runs once more and compares with the outputs that the check kept, to notice a
  // candidate whose numbers change from launch to launch. Passes when nothing was kept.
  absl::StatusOr<CheckReport> Recheck(const Candidate& candidate);

  // The seeds of a policy.
  static std::vector<uint64_t> Seeds(const v1::CheckPolicy& policy);

 private:
  struct Truth;  // of one seed
  struct Run;    // of one candidate and seed

  absl::Status CheckSeed(int copy, Run* run);
  absl::Status Launch(int copy, uint8_t poison, Run* run);
  absl::Status FindUnwritten(int copy, int tensor, Run* run);
  absl::Status CompareSampled(int copy, int tensor, Run* run);
  absl::StatusOr<bool> HoldElement(int copy, int tensor, int64_t element, double expected,
                                   Run* run);
  absl::Status ProjectAll(int copy, int tensor, Run* run);
  absl::Status BlameConfig(int copy, int tensor, int64_t element, double got,
                           const std::string& witness, Run* run);
  absl::Status ComparePeer(int copy, int tensor, Run* run);
  absl::Status CheckNaN(int copy, int tensor, Run* run);
  double ShareOfTime() const;
  int64_t ElementsOfOutputs() const;
  absl::Status AddSamples(int copy, int tensor, const std::vector<int64_t>& elements, Run* run);
  absl::Status SampleByInterpreter(int copy, int tensor, Run* run);
  absl::Status SampleSpread(int copy, int tensor, int samples, double each, Run* run);
  absl::Status EnsureSampled(int copy, int tensor, Run* run);
  absl::StatusOr<const Formula*> FormulaOf(int copy, int tensor, Run* run);
  absl::Status DropFormula(int copy, int tensor, Run* run);
  absl::StatusOr<std::vector<ReferenceValue>> Interpret(int copy, int tensor,
                                                        const std::vector<int64_t>& elements,
                                                        Run* run);
  absl::StatusOr<ReferenceValue> Ask(int copy, int tensor, int64_t element, Run* run);
  absl::StatusOr<ReferenceValue> AskOwn(int copy, int tensor, int64_t element, Run* run);
  absl::StatusOr<Reference*> OwnReference(Run* run);
  Reference* DefaultReference(Run* run);
  Tolerance ToleranceOf(int copy, int tensor, const Run& run) const;
  void NoteSums(const BoundManifest& manifest);
  bool SameAsPeer(int copy, int tensor, Run* run) const;
  absl::StatusOr<bool> NearPeer(int copy, int tensor, Run* run);
  absl::StatusOr<bool> CloseToPeer(int copy, int tensor, Run* run);
  absl::StatusOr<Peer::Comparison> HeldAgainstPeer(int copy, int tensor, Run* run);
  void KeepAsPeer(int copy, Run* run);
  void Recycle(Run* run);
  static std::string Sampled(const Run& run);
  std::string Summary(const Run& run, int seeds) const;

  Device* const device_;
  TensorSet* const tensors_;
  const v1::CheckPolicy policy_;
  const int64_t peer_bytes_;
  const std::function<void()> alive_;
  const std::vector<uint64_t> seeds_;
  std::vector<std::unique_ptr<Truth>> truths_;
  bool asked_for_default_ = false;
  std::unique_ptr<Reference> default_;                // null: there is none
  std::map<int, std::unique_ptr<Formula>> formulas_;  // by output; null: there is none
  std::map<int, ManifestSums> sums_;                  // by tensor: of the coarsest candidate so far
  std::map<std::string, std::string> proofs_;         // config -> what its samples said
  std::set<std::string> whole_;                       // configs, CheckReport.whole_output
  std::vector<Bytes> spare_;                          // buffers for outputs
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_CHECK_H_
