// The arguments of a kernel in device memory: several copies of all tensors with the same numbers,
// each tensor between two red zones.
//
//   | zone 4096 B | tensor | fill to 64 B + zone 4096 B |     zones hold the byte 0xFF, which reads
//                                                           as NaN in every float format
//
// Inputs are seeded (seeded.h). Outputs hold a poison pattern, or seeded numbers where the kernel
// adds to them.
#ifndef KILN_WORKER_PROFILE_TENSORS_H_
#define KILN_WORKER_PROFILE_TENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/profile/device.h"
#include "worker/profile/host_memory.h"
#include "worker/profile/manifest.h"
#include "worker/profile/seeded.h"

namespace kiln::worker {

inline constexpr int64_t kRedZoneBytes = 4096;

// The two poison bytes. An element is taken for unwritten when it holds the pattern; a kernel that
// really computes the pattern is cleared by a second run with the other byte.
inline constexpr uint8_t kPoison[2] = {0xFF, 0xA5};

class TensorSet {
 public:
  // kResourceExhausted: the device has no room for `copies` copies. Copy i is filled from
  // seeds[i % seeds.size()]. The device must outlive the set.
  static absl::StatusOr<std::unique_ptr<TensorSet>> Create(Device* device,
                                                           const BoundManifest& manifest,
                                                           int copies, std::vector<uint64_t> seeds);
  ~TensorSet();
  TensorSet(const TensorSet&) = delete;
  TensorSet& operator=(const TensorSet&) = delete;

  int copies() const { return static_cast<int>(copies_.size()); }
  uint64_t seed_of(int copy) const { return seeds_[static_cast<size_t>(copy) % seeds_.size()]; }
  const std::vector<TensorShape>& tensors() const { return tensors_; }
  // Bytes of all tensors of one copy.
  int64_t footprint() const { return footprint_; }

  LaunchArguments Arguments(int copy, const std::vector<int64_t>& values) const;

  // Of one tensor's first byte.
  const void* Address(int copy, int tensor) const {
    return copies_[static_cast<size_t>(copy)][static_cast<size_t>(tensor)].tensor;
  }

  // Makes the outputs of a copy ready for a checked launch: poison, or the seeded start values.
  absl::Status ResetOutputs(int copy, uint8_t poison);

  // What a launch must not have touched: red zones and inputs. OK, or kDataLoss whose message is
  // the witness: which tensor, which byte or element.
  absl::Status VerifyUntouched(int copy) const;
  // Writes the inputs and the zones of a copy anew, after a launch that damaged them.
  absl::Status Restore(int copy);

  // The device's digest of one tensor's bytes.
  absl::StatusOr<uint64_t> DigestTensor(int copy, int tensor) const;
  // The numbers of some elements, by their places in row-major order.
  absl::StatusOr<std::vector<double>> ReadElements(int copy, int tensor,
                                                   const std::vector<int64_t>& elements) const;
  // The memory of one tensor (TensorShape::span elements).
  absl::Status ReadTensor(int copy, int tensor, Bytes* out) const;

 private:
  struct Placed {
    uint8_t* base = nullptr;  // of the allocation
    int64_t allocated = 0;
    uint8_t* tensor = nullptr;  // base + zone
    uint64_t digest = 0;        // of the tensor's bytes as filled; inputs only
    void* table = nullptr;      // of addresses in it; null: the tensor is passed itself
    int64_t table_bytes = 0;
  };

  TensorSet(Device* device, const BoundManifest& manifest, std::vector<uint64_t> seeds);
  absl::Status Place(int copies);
  absl::Status PlaceTable(const TensorShape& tensor, Placed* placed);
  absl::Status FillZones(const Placed& placed, int64_t bytes);
  // Copies of one seed.
  absl::Status FillSeededTensor(const std::vector<int>& copies, int tensor);
  absl::Status FillInputs(int tensor);
  Placed& PlacedAt(int copy, int tensor) {
    return copies_[static_cast<size_t>(copy)][static_cast<size_t>(tensor)];
  }
  absl::Status VerifyZones(const Placed& placed, const TensorShape& shape) const;
  absl::Status DescribeChange(int copy, int tensor) const;

  Device* const device_;
  const std::vector<TensorShape> tensors_;
  const std::vector<uint64_t> seeds_;
  int64_t footprint_ = 0;
  std::vector<std::vector<Placed>> copies_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_TENSORS_H_
