#include "worker/profile/tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;
constexpr uint8_t kZoneByte = 0xFF;

uint64_t Mix(uint64_t z) {  // the finaliser of SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t StreamOf(uint64_t seed, int parameter) {
  return Mix(seed * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(parameter) + 1);
}

uint64_t Bits(uint64_t stream, int64_t index) {
  return Mix(stream + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ULL);
}

// Uniform in [-1, 1) with 24 bits: exact in float32.
float UniformFloat(uint64_t bits) {
  return static_cast<float>(static_cast<int64_t>(bits >> 40) - (int64_t{1} << 23)) * 0x1p-23f;
}

double RawValue(DType type, uint64_t bits) {
  if (type.is_float()) return UniformFloat(bits);
  if (type.is_bool()) return static_cast<double>(bits >> 63);
  if (type.is_uint()) return static_cast<double>((bits >> 32) % 9);
  return static_cast<double>(static_cast<int64_t>((bits >> 32) % 17) - 8);
}

// 64-bit multiply-and-rotate over words: fast, and only meant to notice accidents.
uint64_t HashBytes(uint64_t hash, const uint8_t* data, int64_t bytes) {
  while (bytes >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
    hash ^= hash >> 32;
    data += 8;
    bytes -= 8;
  }
  for (; bytes > 0; --bytes) hash = (hash ^ *data++) * 0x100000001b3ULL;
  return hash;
}

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

double SeededValue(uint64_t seed, int parameter, DType type, int64_t index) {
  return RoundToType(RawValue(type, Bits(StreamOf(seed, parameter), index)), type);
}

void FillSeeded(uint64_t seed, int parameter, DType type, int64_t first, int64_t count, void* out) {
  uint64_t stream = StreamOf(seed, parameter);
  if (type == kFloat32) {
    float* values = static_cast<float*>(out);
    for (int64_t i = 0; i < count; ++i) values[i] = UniformFloat(Bits(stream, first + i));
    return;
  }
  uint8_t* bytes = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(bytes + i * type.bytes(), type, RawValue(type, Bits(stream, first + i)));
  }
}

TensorSet::TensorSet(Device* device, const BoundManifest& manifest, std::vector<uint64_t> seeds)
    : device_(device), tensors_(manifest.tensors), seeds_(std::move(seeds)) {
  for (const TensorShape& tensor : tensors_) footprint_ += tensor.bytes();
}

TensorSet::~TensorSet() {
  for (const std::vector<Placed>& copy : copies_) {
    for (const Placed& placed : copy) device_->Free(placed.base, placed.allocated);
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
    }
  }
  return absl::OkStatus();
}

LaunchArguments TensorSet::Arguments(int copy, const std::vector<int64_t>& values) const {
  LaunchArguments arguments;
  for (const Placed& placed : copies_[static_cast<size_t>(copy)]) {
    arguments.pointers.push_back(placed.tensor);
  }
  arguments.values = values;
  return arguments;
}

absl::Status TensorSet::FillZones(const Placed& placed, int64_t bytes) {
  std::vector<uint8_t> zone(static_cast<size_t>(placed.allocated - kRedZoneBytes - bytes),
                            kZoneByte);
  KILN_RETURN_IF_ERROR(device_->Write(placed.base, zone.data(), kRedZoneBytes));
  return device_->Write(placed.tensor + bytes, zone.data(), static_cast<int64_t>(zone.size()));
}

absl::Status TensorSet::FillSeededTensor(const std::vector<int>& copies, int tensor) {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  int64_t step = kChunkBytes / shape.type.bytes();
  std::vector<uint8_t> chunk(static_cast<size_t>(std::min(shape.bytes(), kChunkBytes)));
  uint64_t hash = 0;
  for (int64_t first = 0; first < shape.span; first += step) {
    int64_t count = std::min(step, shape.span - first);
    int64_t bytes = count * shape.type.bytes();
    FillSeeded(seed_of(copies[0]), tensor, shape.type, first, count, chunk.data());
    hash = HashBytes(hash, chunk.data(), bytes);
    for (int copy : copies) {
      uint8_t* to = PlacedAt(copy, tensor).tensor + first * shape.type.bytes();
      KILN_RETURN_IF_ERROR(device_->Write(to, chunk.data(), bytes));
    }
  }
  for (int copy : copies) PlacedAt(copy, tensor).hash = hash;
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
    std::vector<uint8_t> chunk(static_cast<size_t>(std::min(shape.bytes(), kChunkBytes)), poison);
    uint8_t* to = copies_[static_cast<size_t>(copy)][i].tensor;
    for (int64_t done = 0; done < shape.bytes(); done += kChunkBytes) {
      int64_t bytes = std::min(kChunkBytes, shape.bytes() - done);
      KILN_RETURN_IF_ERROR(device_->Write(to + done, chunk.data(), bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorSet::VerifyUntouched(int copy) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorShape& shape = tensors_[i];
    const Placed& placed = copies_[static_cast<size_t>(copy)][i];
    KILN_RETURN_IF_ERROR(VerifyZones(placed, shape));
    if (shape.output) continue;
    KILN_ASSIGN_OR_RETURN(uint64_t hash, HashTensor(placed, shape.bytes()));
    if (hash != placed.hash) return DescribeChange(copy, static_cast<int>(i));
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
    return absl::DataLossError(absl::StrCat("the kernel wrote ", kRedZoneBytes - before,
                                            " bytes before the start of '", shape.name, "'"));
  }
  KILN_ASSIGN_OR_RETURN(int64_t after, damaged(placed.tensor + shape.bytes(), behind));
  if (after >= 0) {
    return absl::DataLossError(
        absl::StrCat("the kernel wrote ", after, " bytes behind the end of '", shape.name, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TensorSet::HashTensor(const Placed& placed, int64_t bytes) const {
  std::vector<uint8_t> chunk(static_cast<size_t>(std::min(bytes, kChunkBytes)));
  uint64_t hash = 0;
  for (int64_t done = 0; done < bytes; done += kChunkBytes) {
    int64_t step = std::min(kChunkBytes, bytes - done);
    KILN_RETURN_IF_ERROR(device_->Read(chunk.data(), placed.tensor + done, step));
    hash = HashBytes(hash, chunk.data(), step);
  }
  return hash;
}

absl::Status TensorSet::DescribeChange(int copy, int tensor) const {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  std::vector<uint8_t> now;
  KILN_RETURN_IF_ERROR(ReadTensor(copy, tensor, &now));
  std::vector<uint8_t> was(now.size());
  FillSeeded(seed_of(copy), tensor, shape.type, 0, shape.span, was.data());
  auto [a, b] = std::mismatch(now.begin(), now.end(), was.begin());
  int64_t element = (a - now.begin()) / shape.type.bytes();
  size_t at = static_cast<size_t>(element * shape.type.bytes());
  return absl::DataLossError(absl::StrCat(
      "the kernel wrote to its input '", shape.name, "': memory element ", element, " was ",
      LoadElement(&was[at], shape.type), " and is ", LoadElement(&now[at], shape.type)));
}

absl::Status TensorSet::ReadTensor(int copy, int tensor, std::vector<uint8_t>* out) const {
  const TensorShape& shape = tensors_[static_cast<size_t>(tensor)];
  out->resize(static_cast<size_t>(shape.bytes()));
  if (out->empty()) return absl::OkStatus();
  const Placed& placed = copies_[static_cast<size_t>(copy)][static_cast<size_t>(tensor)];
  return device_->Read(out->data(), placed.tensor, shape.bytes());
}

}  // namespace kiln::worker
