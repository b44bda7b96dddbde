#include "worker/profile/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/profile/parallel.h"

namespace kiln::worker {
namespace {

constexpr int64_t kChunkBytes = 64 << 20;  // of a tensor made on the host at once
constexpr uint8_t kZoneByte = 0xFF;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

TensorSet::TensorSet(Device* device, const BoundManifest& manifest, std::vector<uint64_t> seeds)
    : device_(device), tensors_(manifest.tensors), seeds_(std::move(seeds)) {
  for (const TensorShape& tensor : tensors_) footprint_ += tensor.bytes();
}

TensorSet::~TensorSet() {
  for (const std::vector<Placed>& copy : copies_) {
    for (const Placed& placed : copy) {
      device_->Free(placed.base, placed.allocated);
      if (placed.table != nullptr) device_->Free(placed.table, placed.table_bytes);
    }
  }
}

absl::StatusOr<std::unique_ptr<TensorSet>> TensorSet::Create(Device* device,
                                                             const BoundManifest& manifest,
                                                             int copies,
                                                             std::vector<uint64_t> seeds) {
  KILN_CHECK(copies > 0 && !seeds.empty());
  std::unique_ptr<TensorSet> set(new TensorSet(device, manifest, std::move(seeds)));
  KILN_RETURN_IF_ERROR(set->Place(copies));
  for (size_t tensor = 0; tensor < set->tensors_.size(); ++tensor) {
    KILN_RETURN_IF_ERROR(set->FillInputs(static_cast<int>(tensor)));
  }
  for (int copy = 0; copy < copies; ++copy) {
    KILN_RETURN_IF_ERROR(set->ResetOutputs(copy, kPoison[0]));
  }
  return set;
}

absl::Status TensorSet::Place(int copies) {
  for (int copy = 0; copy < copies; ++copy) {
    std::vector<Placed>& placed = copies_.emplace_back();
    for (const TensorShape& tensor : tensors_) {
      int64_t bytes = 2 * kRedZoneBytes + RoundUp(tensor.bytes(), 64);
      KILN_ASSIGN_OR_RETURN(void* address, device_->Allocate(bytes));
      uint8_t* base = static_cast<uint8_t*>(address);
      placed.push_back({base, bytes, base + kRedZoneBytes, 0});
      if (tensor.table) KILN_RETURN_IF_ERROR(PlaceTable(tensor, &placed.back()));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorSet::PlaceTable(const TensorShape& tensor, Placed* placed) {
  const int64_t step = tensor.strides[0] * tensor.type.bytes();
  std::vector<uint8_t*> addresses;
  for (int64_t i = 0; i < tensor.shape[0]; ++i) addresses.push_back(placed->tensor + i * step);
  placed->table_bytes = RoundUp(static_cast<int64_t>(addresses.size() * sizeof(uint8_t*)), 64);
  placed->table_bytes = std::max<int64_t>(placed->table_bytes, 64);
  KILN_ASSIGN_OR_RETURN(placed->table, device_->Allocate(placed->table_bytes));
  return device_->Write(placed->table, addresses.data(),
                        static_cast<int64_t>(addresses.size() * sizeof(uint8_t*)));
}

LaunchArguments TensorSet::Arguments(int copy, const std::vector<int64_t>& values) const {
  LaunchArguments arguments;
  for (const Placed& placed : copies_[static_cast<size_t>(copy)]) {
    arguments.pointers.push_back(placed.table != nullptr ? placed.table : placed.tensor);
  }
  arguments.values = values;
  return arguments;
}

absl::Status TensorSet::FillZones(const Placed& placed, int64_t bytes) {
  KILN_RETURN_IF_ERROR(device_->Fill(placed.base, kZoneByte, kRedZoneBytes));
  return device_->Fill(placed.tensor + bytes, kZoneByte, placed.allocated - kRedZoneBytes - bytes);
}

// Made on the host once; the other copies are made of the first one within the device.
absl::Status TensorSet::FillSeededTensor(const std::vector<int>& copies, int tensor) {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  const int64_t width = shape.type.bytes();
  const int64_t step = kChunkBytes / width;
  uint8_t* first_copy = PlacedAt(copies[0], tensor).tensor;
  std::vector<uint8_t> chunk(static_cast<size_t>(std::min(shape.bytes(), kChunkBytes)));
  for (int64_t first = 0; first < shape.span; first += step) {
    const int64_t count = std::min(step, shape.span - first);
    ParallelFor(count, [&](int64_t begin, int64_t end) {
      FillSeeded(seed_of(copies[0]), tensor, shape.type, first + begin, end - begin,
                 chunk.data() + begin * width);
    });
    KILN_RETURN_IF_ERROR(device_->Write(first_copy + first * width, chunk.data(), count * width));
  }
  KILN_ASSIGN_OR_RETURN(const uint64_t digest, DigestTensor(copies[0], tensor));
  for (int copy : copies) {
    Placed& placed = PlacedAt(copy, tensor);
    placed.digest = digest;
    if (copy == copies[0] || shape.bytes() == 0) continue;
    KILN_RETURN_IF_ERROR(device_->Copy(placed.tensor, first_copy, shape.bytes()));
  }
  return absl::OkStatus();
}

// Numbers are made once for all copies of one seed.
absl::Status TensorSet::FillInputs(int tensor) {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  for (int copy = 0; copy < copies(); ++copy) {
    KILN_RETURN_IF_ERROR(FillZones(PlacedAt(copy, tensor), shape.bytes()));
  }
  if (shape.output) return absl::OkStatus();
  int seeds = static_cast<int>(seeds_.size());
  for (int first = 0; first < std::min(seeds, copies()); ++first) {
    std::vector<int> same;
    for (int copy = first; copy < copies(); copy += seeds) same.push_back(copy);
    KILN_RETURN_IF_ERROR(FillSeededTensor(same, tensor));
  }
  return absl::OkStatus();
}

absl::Status TensorSet::Restore(int copy) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    KILN_RETURN_IF_ERROR(FillZones(copies_[static_cast<size_t>(copy)][i], tensors_[i].bytes()));
    if (tensors_[i].output) continue;
    KILN_RETURN_IF_ERROR(FillSeededTensor({copy}, static_cast<int>(i)));
  }
  return absl::OkStatus();
}

absl::Status TensorSet::ResetOutputs(int copy, uint8_t poison) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorShape& shape = tensors_[i];
    if (!shape.output) continue;
    if (shape.accumulates) {
      KILN_RETURN_IF_ERROR(FillSeededTensor({copy}, static_cast<int>(i)));
      continue;
    }
    uint8_t* to = copies_[static_cast<size_t>(copy)][i].tensor;
    if (shape.bytes() > 0) KILN_RETURN_IF_ERROR(device_->Fill(to, poison, shape.bytes()));
  }
  return absl::OkStatus();
}

absl::Status TensorSet::VerifyUntouched(int copy) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorShape& shape = tensors_[i];
    const Placed& placed = copies_[static_cast<size_t>(copy)][i];
    KILN_RETURN_IF_ERROR(VerifyZones(placed, shape));
    if (shape.output) continue;
    KILN_ASSIGN_OR_RETURN(uint64_t digest, DigestTensor(copy, static_cast<int>(i)));
    if (digest != placed.digest) return DescribeChange(copy, static_cast<int>(i));
  }
  return absl::OkStatus();
}

absl::Status TensorSet::VerifyZones(const Placed& placed, const TensorShape& shape) const {
  int64_t behind = placed.allocated - kRedZoneBytes - shape.bytes();
  std::vector<uint8_t> zone(static_cast<size_t>(std::max(behind, kRedZoneBytes)));
  auto damaged = [&](const uint8_t* from, int64_t bytes) -> absl::StatusOr<int64_t> {
    KILN_RETURN_IF_ERROR(device_->Read(zone.data(), from, bytes));
    for (int64_t i = 0; i < bytes; ++i) {
      if (zone[static_cast<size_t>(i)] != kZoneByte) return i;
    }
    return -1;
  };
  KILN_ASSIGN_OR_RETURN(int64_t before, damaged(placed.base, kRedZoneBytes));
  if (before >= 0) {
    return absl::DataLossError(absl::StrCat("the kernel wrote outside, ", kRedZoneBytes - before,
                                            " bytes before the start of '", shape.name, "'"));
  }
  KILN_ASSIGN_OR_RETURN(int64_t after, damaged(placed.tensor + shape.bytes(), behind));
  if (after >= 0) {
    return absl::DataLossError(absl::StrCat("the kernel wrote outside, ", after,
                                            " bytes behind the end of '", shape.name, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TensorSet::DigestTensor(int copy, int tensor) const {
  const int64_t bytes = tensors_[static_cast<size_t>(tensor)].bytes();
  if (bytes == 0) return 0;
  return device_->Digest(copies_[static_cast<size_t>(copy)][static_cast<size_t>(tensor)].tensor,
                         bytes);
}

absl::Status TensorSet::DescribeChange(int copy, int tensor) const {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  Bytes now;
  KILN_RETURN_IF_ERROR(ReadTensor(copy, tensor, &now));
  Bytes was(now.size());
  FillSeeded(seed_of(copy), tensor, shape.type, 0, shape.span, was.data());
  auto [a, b] = std::mismatch(now.begin(), now.end(), was.begin());
  int64_t element = (a - now.begin()) / shape.type.bytes();
  size_t at = static_cast<size_t>(element * shape.type.bytes());
  return absl::DataLossError(absl::StrCat(
      "the kernel wrote to its input '", shape.name, "': memory element ", element, " was ",
      LoadElement(&was[at], shape.type), " and is ", LoadElement(&now[at], shape.type)));
}

absl::StatusOr<std::vector<double>> TensorSet::ReadElements(
    int copy, int tensor, const std::vector<int64_t>& elements) const {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  const int64_t width = shape.type.bytes();
  std::vector<int64_t> places;
  places.reserve(elements.size());
  for (const int64_t element : elements) places.push_back(shape.OffsetOf(element));
  Bytes bytes(static_cast<size_t>(width) * places.size());
  KILN_RETURN_IF_ERROR(device_->Gather(bytes.data(), Address(copy, tensor), places, width));
  std::vector<double> numbers;
  numbers.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    numbers.push_back(LoadElement(&bytes[i * static_cast<size_t>(width)], shape.type));
  }
  return numbers;
}

absl::Status TensorSet::ReadTensor(int copy, int tensor, Bytes* out) const {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  out->resize(static_cast<size_t>(shape.bytes()));
  if (out->empty()) return absl::OkStatus();
  const Placed& placed = copies_[static_cast<size_t>(copy)][static_cast<size_t>(tensor)];
  return device_->Read(out->data(), placed.tensor, shape.bytes());
}

}  // namespace kiln::worker
