#include "worker/profile/peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/base/status.h"
#include "worker/profile/parallel.h"

namespace kiln::worker {
namespace {

constexpr int64_t kPieceElements = int64_t{16} << 20;  // read from the device at once
constexpr int64_t kBlockElements = int64_t{16} << 10;  // behind one digest

TensorShape Stretch(const TensorShape& shape, int64_t elements) {
  TensorShape piece = shape;
  piece.shape = {elements};
  piece.strides = {1};
  piece.elements = piece.span = elements;
  return piece;
}

// Of the elements in memory, holes included.
std::vector<uint64_t> DigestsOf(const Bytes& bytes, int64_t width) {
  const int64_t block = kBlockElements * width;
  const auto size = static_cast<int64_t>(bytes.size());
  std::vector<uint64_t> digests(static_cast<size_t>((size + block - 1) / block));
  ParallelTasks(static_cast<int64_t>(digests.size()), [&](int64_t i) {
    digests[static_cast<size_t>(i)] =
        DigestOfHostMemory(bytes.data() + i * block, std::min(block, size - i * block));
  });
  return digests;
}

}  // namespace

std::unique_ptr<Peer> Peer::Keep(Device* device, const TensorSet& tensors, int copy, int tensor,
                                 uint64_t digest, bool on_host, Bytes* output) {
  std::unique_ptr<Peer> peer(new Peer(device, tensors.tensors()[static_cast<size_t>(tensor)]));
  const bool on_device =
      device->has_own_memory() && peer->KeepOnDevice(tensors, copy, tensor, digest, *output);
  if (on_host) {
    peer->host_ = std::move(*output);
  } else if (!on_device) {
    peer->digests_ = DigestsOf(*output, peer->shape_.type.bytes());
  }
  return peer;
}

Peer::~Peer() {
  if (on_device_ != nullptr) device_->Free(on_device_, shape_.bytes());
}

// Only where as much again stays free, for what kernels ask for.
bool Peer::KeepOnDevice(const TensorSet& tensors, int copy, int tensor, uint64_t digest,
                        const Bytes& output) {
  const int64_t bytes = shape_.bytes();
  const absl::StatusOr<void*> room = device_->Allocate(2 * bytes);
  if (!room.ok()) return false;
  device_->Free(*room, 2 * bytes);
  const absl::StatusOr<void*> memory = device_->Allocate(bytes);
  if (!memory.ok()) return false;
  on_device_ = *memory;
  const absl::StatusOr<uint64_t> now = tensors.DigestTensor(copy, tensor);
  const bool unchanged = now.ok() && *now == digest;
  const absl::Status kept = unchanged
                                ? device_->Copy(on_device_, tensors.Address(copy, tensor), bytes)
                                : device_->Write(on_device_, output.data(), bytes);
  if (kept.ok()) return true;
  device_->Free(std::exchange(on_device_, nullptr), bytes);
  return false;
}

absl::StatusOr<Peer::Comparison> Peer::Compare(const Bytes& output, const Tolerance& tolerance,
                                               size_t limit) const {
  if (!digests_.empty()) return CompareDigests(output, limit);
  if (host_.empty()) return ComparePieces(output, tolerance, limit);
  return Comparison{shape_.elements, FindDifferences(shape_, output, host_, tolerance, limit)};
}

absl::StatusOr<std::optional<int64_t>> Peer::CountApart(const void* tensor,
                                                        const Tolerance& tolerance) const {
  if (on_device_ == nullptr || !shape_.dense) return std::nullopt;
  const absl::StatusOr<int64_t> apart =
      device_->CountApart(tensor, on_device_, shape_.type, shape_.elements,
                          static_cast<float>(tolerance.rtol), static_cast<float>(tolerance.atol));
  if (absl::IsUnimplemented(apart.status())) return std::nullopt;
  return apart;
}

// Of what is dense a stretch at a time, so that the host need not hold all of it.
absl::StatusOr<Peer::Comparison> Peer::ComparePieces(const Bytes& output,
                                                     const Tolerance& tolerance,
                                                     size_t limit) const {
  Comparison result;
  result.compared = shape_.elements;
  const int64_t width = shape_.type.bytes();
  const auto* from = static_cast<const uint8_t*>(on_device_);
  Bytes peer, own;
  if (!shape_.dense) {
    peer.resize(static_cast<size_t>(shape_.bytes()));
    KILN_RETURN_IF_ERROR(device_->Read(peer.data(), from, shape_.bytes()));
    result.differing = FindDifferences(shape_, output, peer, tolerance, limit);
    return result;
  }
  for (int64_t first = 0; first < shape_.elements; first += kPieceElements) {
    const TensorShape piece = Stretch(shape_, std::min(kPieceElements, shape_.elements - first));
    peer.resize(static_cast<size_t>(piece.bytes()));
    own.resize(peer.size());
    KILN_RETURN_IF_ERROR(device_->Read(peer.data(), from + first * width, piece.bytes()));
    std::memcpy(own.data(), output.data() + first * width, own.size());
    for (const int64_t i :
         FindDifferences(piece, own, peer, tolerance, limit - result.differing.size())) {
      result.differing.push_back(first + i);
    }
    if (result.differing.size() >= limit) break;
  }
  return result;
}

Peer::Comparison Peer::CompareDigests(const Bytes& output, size_t limit) const {
  const std::vector<uint64_t> own = DigestsOf(output, shape_.type.bytes());
  std::vector<int64_t> other;  // blocks
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != digests_[i]) other.push_back(static_cast<int64_t>(i));
  }
  Comparison result;
  if (!shape_.dense) {  // which elements lie in a block is not looked up
    result.compared = other.empty() ? shape_.elements : 0;
    if (!other.empty()) result.differing = {shape_.elements / 2};
    return result;
  }
  const auto extent = [&](int64_t block) {
    return std::min(kBlockElements, shape_.elements - block * kBlockElements);
  };
  result.compared = shape_.elements;
  for (const int64_t block : other) result.compared -= extent(block);
  for (size_t i = 0; i < std::min(limit, other.size()); ++i) {
    const int64_t block = other[i * other.size() / std::min(limit, other.size())];
    result.differing.push_back(block * kBlockElements + extent(block) / 2);
  }
  return result;
}

absl::StatusOr<std::optional<double>> Peer::At(int64_t element) const {
  if (!digests_.empty()) return std::nullopt;
  if (!host_.empty()) return ElementAt(shape_, host_, element);
  uint8_t bytes[16];
  const int64_t width = shape_.type.bytes();
  const int64_t at = shape_.OffsetOf(element) * width;
  KILN_RETURN_IF_ERROR(device_->Read(bytes, static_cast<const uint8_t*>(on_device_) + at, width));
  return LoadElement(bytes, shape_.type);
}

}  // namespace kiln::worker
