// A small "kernel" C[i] = 2 * A[i] + i on the fake device, and its honest reference.
#ifndef KILN_TESTS_UNIT_WORKER_PROFILE_FIXTURE_H_
#define KILN_TESTS_UNIT_WORKER_PROFILE_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/profile/fake_device.h"
#include "worker/profile/manifest.h"
#include "worker/profile/reference.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {

inline std::string AffineManifest(int64_t rows, int64_t columns, const std::string& dtype) {
  std::string shape = absl::StrCat("[", rows, ",", columns, "]");
  return absl::StrCat(R"({"name":"affine","target":"fake","flops":0,"params":[)",
                      R"({"name":"A","kind":"tensor","dtype":")", dtype, R"(","shape":)", shape,
                      R"(},{"name":"C","kind":"tensor","dtype":")", dtype, R"(","shape":)", shape,
                      R"(,"output":true}]})");
}

inline double AffineValue(DType type, double a, int64_t i) {
  return RoundToType(2 * a + static_cast<double>(i % 7), type);
}

class AffineReference : public Reference {
 public:
  AffineReference(DType type, int* calls) : type_(type), calls_(calls) {}
  absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int tensor, const std::vector<int64_t>& elements) override {
    ++*calls_;
    std::vector<ReferenceValue> values;
    for (int64_t i : elements) {
      values.push_back({AffineValue(type_, SeededValue(seed, 0, type_, i), i), true});
    }
    return values;
  }

 private:
  DType type_;
  int* calls_;
};

// The honest body; `elements` may be fewer than there are.
inline FakeDevice::Body AffineBody(DType type, int64_t elements) {
  return [type, elements](const LaunchArguments& arguments) {
    const uint8_t* a = static_cast<const uint8_t*>(arguments.pointers[0]);
    uint8_t* c = static_cast<uint8_t*>(arguments.pointers[1]);
    for (int64_t i = 0; i < elements; ++i) {
      StoreElement(c + i * type.bytes(), type,
                   AffineValue(type, LoadElement(a + i * type.bytes(), type), i));
    }
    return absl::OkStatus();
  };
}

}  // namespace kiln::worker

#endif  // KILN_TESTS_UNIT_WORKER_PROFILE_FIXTURE_H_
