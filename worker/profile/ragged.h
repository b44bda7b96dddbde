// Whether finalists compute right numbers at another shape than the timed one too: a small one that
// no tile divides. Of kernels that leave sizes to run time the same object is called with other
// sizes; of those whose sizes are compiled in, another object is. The numbers are checked as those
// of the timed shape are.
#ifndef KILN_WORKER_PROFILE_RAGGED_H_
#define KILN_WORKER_PROFILE_RAGGED_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/work.pb.h"
#include "worker/profile/check.h"
#include "worker/profile/device.h"
#include "worker/profile/manifest.h"
#include "worker/profile/reference.h"

namespace kiln::worker {

// The small size that stands for `value`: odd, or where sizes must be aligned a multiple of 8 but
// not of 16. Differs from that of other dimensions, `index` from 0, where it can.
int64_t RaggedSize(int64_t value, int index, bool aligned);

// The ragged shapes of one sweep's inputs. Keeps their tensors and reference values for all its
// finalists. Device and factory must outlive it.
class RaggedCheck {
 public:
  RaggedCheck(Device* device, const ReferenceFactory& make_reference, const v1::SweepInputs& inputs,
              std::function<void()> alive);
  ~RaggedCheck();

  struct Result {
    bool wrong = false;
    v1::Failure failure;  // if wrong: "wrong at M=211: wrong numbers"
    std::string text;     // else what was done: "at M=211: 1 seeds, 64 elements ...", or why not
    std::vector<std::string> convicted;  // that passed before and were wrong
  };
  // A text that is empty: the kernel has no sizes of run time. A non-OK status is not the
  // candidate's fault.
  absl::StatusOr<Result> Check(const std::string& config, const Manifest& manifest,
                               LoadedKernel* kernel);

  // The same of an object that was compiled for `inputs`, whose `ragged` says which sizes of its
  // are the small ones.
  absl::StatusOr<Result> CheckCompiled(const std::string& config, const Manifest& manifest,
                                       LoadedKernel* kernel);

 private:
  struct Problem;

  std::unique_ptr<Problem> Make(const std::string& config, const Manifest& manifest,
                                bool aligned) const;
  void Prepare(const std::string& config, const Manifest& manifest, int samples,
               Problem* problem) const;
  std::string Refusal(const std::string& config, const Problem& problem) const;
  // Empty text: the object does not take the shape, as `refused` says.
  absl::StatusOr<Result> CheckAt(Problem* problem, const std::string& config,
                                 const Manifest& manifest, LoadedKernel* kernel,
                                 std::string* refused) const;

  Device* const device_;
  const ReferenceFactory make_reference_;
  const v1::SweepInputs inputs_;
  const std::function<void()> alive_;
  std::map<bool, std::unique_ptr<Problem>> problems_;  // by whether sizes are aligned
  std::unique_ptr<Problem> compiled_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_RAGGED_H_
