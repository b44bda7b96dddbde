#include "worker/profile/fake_device.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/profile/host_memory.h"

namespace kiln::worker {
namespace {

constexpr std::align_val_t kPage{4096};

struct FakeKernel : LoadedKernel {
  FakeKernel(std::string kernel_name, const FakeDevice::Script& kernel_script)
      : name(std::move(kernel_name)), script(kernel_script) {}
  std::string name;
  FakeDevice::Script script;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedKernel>> FakeDevice::Load(const v1::ArtifactBundle& bundle,
                                                               int threads) {
  auto found = scripts_.find(bundle.name());
  if (found == scripts_.end()) {
    return absl::NotFoundError(absl::StrCat("no kernel '", bundle.name(), "'"));
  }
  return std::unique_ptr<LoadedKernel>(std::make_unique<FakeKernel>(found->first, found->second));
}

absl::StatusOr<void*> FakeDevice::Allocate(int64_t bytes) {
  if (allocated_ + bytes > memory_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("no room for ", bytes, " bytes"));
  }
  allocated_ += bytes;
  return ::operator new(static_cast<size_t>(bytes), kPage);
}

void FakeDevice::Free(void* address, int64_t bytes) {
  allocated_ -= bytes;
  ::operator delete(address, kPage);
}

absl::Status FakeDevice::Write(void* to, const void* from_host, int64_t bytes) {
  std::memcpy(to, from_host, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeDevice::Read(void* to_host, const void* from, int64_t bytes) {
  read_bytes_ += bytes;
  std::memcpy(to_host, from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeDevice::Fill(void* to, uint8_t byte, int64_t bytes) {
  std::memset(to, byte, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeDevice::Copy(void* to, const void* from, int64_t bytes) {
  return Write(to, from, bytes);
}

absl::StatusOr<uint64_t> FakeDevice::Digest(const void* from, int64_t bytes) {
  return DigestOfHostMemory(from, bytes);
}

absl::StatusOr<int64_t> FakeDevice::CountApart(const void* a, const void* b, DType type,
                                               int64_t count, float rtol, float atol) {
  const bool known = type == kFloat32 || type == kBFloat16 || type == kFloat16;
  if (!own_memory_ || !known) return absl::UnimplementedError("not compared");
  const auto at = [&](const void* from, int64_t i) {
    return static_cast<float>(
        LoadElement(static_cast<const uint8_t*>(from) + i * type.bytes(), type));
  };
  int64_t apart = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float x = at(a, i), y = at(b, i);
    const bool near =
        std::abs(x - y) <= atol + rtol * std::abs(y) && std::isfinite(x) && std::isfinite(y);
    apart += near ? 0 : 1;
  }
  return apart;
}

absl::Status FakeDevice::Launch(LoadedKernel* kernel, const LaunchArguments& arguments) {
  ++launches_;
  const FakeKernel* fake = static_cast<FakeKernel*>(kernel);
  return fake->script.body ? fake->script.body(arguments) : absl::OkStatus();
}

absl::StatusOr<std::vector<Sample>> FakeDevice::Time(LoadedKernel* kernel,
                                                     absl::Span<const LaunchArguments> launches) {
  const FakeKernel* fake = static_cast<FakeKernel*>(kernel);
  const Script& script = fake->script;
  std::vector<Sample> samples;
  batches_.push_back(static_cast<int>(launches.size()));
  for (const LaunchArguments& arguments : launches) {
    KILN_RETURN_IF_ERROR(Launch(kernel, arguments));
    timed_.push_back(fake->name);
    timed_addresses_.push_back(arguments.pointers.empty() ? nullptr : arguments.pointers[0]);
    Sample sample;
    sample.ns = script.ns * (1 + script.noise * (2 * random_.Uniform() - 1));
    if (random_.Uniform() < script.disturbed_share) {
      sample.disturbed = true;
      sample.ns *= script.disturbed_factor;
    }
    sample.throttled = script.throttled_share > 0 && random_.Uniform() < script.throttled_share;
    if (alter) KILN_RETURN_IF_ERROR(alter(static_cast<int>(timed_.size()) - 1, &sample));
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace kiln::worker
