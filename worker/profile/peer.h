// The output that those of other candidates are compared with, element by element: kept in the
// device's own memory, where that is not the host's and has room, and on the host; or, as a last
// resort, as a digest of each block of its memory, which says of a block only that it is the same.
#ifndef KILN_WORKER_PROFILE_PEER_H_
#define KILN_WORKER_PROFILE_PEER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/profile/device.h"
#include "worker/profile/host_memory.h"
#include "worker/profile/manifest.h"
#include "worker/profile/scan.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {

class Peer {
 public:
  // `output` is what a launch left in tensor `tensor` of copy `copy`, and `digest` the device's of
  // it; the tensor itself may hold more recent things. Taken over if `on_host`, else left: then it
  // is on the device alone, or digests are all that is kept. The device must outlive the peer.
  static std::unique_ptr<Peer> Keep(Device* device, const TensorSet& tensors, int copy, int tensor,
                                    uint64_t digest, bool on_host, Bytes* output);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  struct Comparison {
    int64_t compared = 0;  // elements that were held against the peer's, ...
    // ... and the first few that are too far from it. Of digests: elements of blocks that differ,
    // spread over them; nothing of those blocks was compared.
    std::vector<int64_t> differing;
  };
  absl::StatusOr<Comparison> Compare(const Bytes& output, const Tolerance& tolerance,
                                     size_t limit) const;

  // How many elements of a tensor like it, at `tensor` in the device's memory, are not within the
  // tolerance of the peer's, as the device counts them; unset: it cannot.
  absl::StatusOr<std::optional<int64_t>> CountApart(const void* tensor,
                                                    const Tolerance& tolerance) const;

  // The peer's number; unset: not known.
  absl::StatusOr<std::optional<double>> At(int64_t element) const;

 private:
  Peer(Device* device, const TensorShape& shape) : device_(device), shape_(shape) {}
  bool KeepOnDevice(const TensorSet& tensors, int copy, int tensor, uint64_t digest,
                    const Bytes& output);
  absl::StatusOr<Comparison> ComparePieces(const Bytes& output, const Tolerance& tolerance,
                                           size_t limit) const;
  Comparison CompareDigests(const Bytes& output, size_t limit) const;

  Device* const device_;
  const TensorShape shape_;
  Bytes host_;
  void* on_device_ = nullptr;
  std::vector<uint64_t> digests_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_PEER_H_
