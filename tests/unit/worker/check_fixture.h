// A kernel on the fake device and the checker that is to judge it.
#ifndef KILN_TESTS_UNIT_WORKER_CHECK_FIXTURE_H_
#define KILN_TESTS_UNIT_WORKER_CHECK_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/profile_fixture.h"
#include "worker/profile/check.h"
#include "worker/profile/sample_places.h"

namespace kiln::worker {

inline constexpr int64_t kRows = 40;
inline constexpr int64_t kColumns = 50;
inline constexpr int64_t kElements = kRows * kColumns;

inline std::vector<int64_t> SampleElements(const std::vector<int64_t>& shape, int samples,
                                           uint64_t seed) {
  std::set<int64_t> all;
  for (const auto& cluster : SampleClusters(shape, samples, seed)) {
    all.insert(cluster.begin(), cluster.end());
  }
  return {all.begin(), all.end()};
}

// Writes so many of the first elements alone.
class PartReference : public Reference {
 public:
  PartReference(std::unique_ptr<Reference> plain, int64_t written)
      : plain_(std::move(plain)), written_(written) {}
  absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int tensor, const std::vector<int64_t>& elements) override {
    auto values = plain_->Evaluate(seed, tensor, elements);
    for (size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] >= written_) (*values)[i].written = false;
    }
    return values;
  }

 private:
  const std::unique_ptr<Reference> plain_;
  const int64_t written_;
};

class CheckTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    type_ = *ParseDType(GetParam());
    Manifest manifest = *ParseManifest(AffineManifest(kRows, kColumns, GetParam()));
    manifest_ = *BindManifest(manifest, {});
    tensors_ = *TensorSet::Create(&device_, manifest_, 2, Checker::Seeds(policy_));
    checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
  }

  absl::StatusOr<CheckReport> Check(const std::string& config, FakeDevice::Body body) {
    device_.Define("affine", {std::move(body)});
    v1::ArtifactBundle bundle;
    bundle.set_name("affine");
    kernel_ = *device_.Load(bundle, 0);
    return checker_->Check(Candidate(config));
  }
  Checker::Candidate Candidate(const std::string& config) {
    Checker::Candidate candidate;
    candidate.config = config;
    candidate.kernel = kernel_.get();
    candidate.manifest = &manifest_;
    candidate.make_reference = [this] {
      return absl::StatusOr<std::unique_ptr<Reference>>(
          std::make_unique<AffineReference>(type_, &reference_calls_));
    };
    return candidate;
  }
  Checker::Candidate WhoseProgramWrites(const std::string& config, int64_t elements) {
    Checker::Candidate candidate = Candidate(config);
    candidate.make_reference = [plain = candidate.make_reference,
                                elements]() -> absl::StatusOr<std::unique_ptr<Reference>> {
      return std::make_unique<PartReference>(*plain(), elements);
    };
    return candidate;
  }
  FakeDevice::Body Honest() { return AffineBody(type_, kElements); }
  // Honest but for what `spoil` does after.
  FakeDevice::Body Spoiled(std::function<void(const LaunchArguments&)> spoil) {
    return [honest = Honest(), spoil](const LaunchArguments& arguments) {
      (void)honest(arguments);
      spoil(arguments);
      return absl::OkStatus();
    };
  }
  uint8_t* Element(const LaunchArguments& arguments, int tensor, int64_t index) {
    return static_cast<uint8_t*>(arguments.pointers[static_cast<size_t>(tensor)]) +
           index * type_.bytes();
  }
  static int64_t Unsampled() {
    std::set<int64_t> covered;
    for (const uint64_t seed : {1, 2}) {
      for (const auto& sampled : {SampleElements({kRows, kColumns}, 256, seed),
                                  SpreadElements({kRows, kColumns}, 256, seed)}) {
        covered.insert(sampled.begin(), sampled.end());
      }
    }
    int64_t hidden = 0;
    while (covered.count(hidden) > 0) ++hidden;
    return hidden;
  }
  void ExpectFails(FakeDevice::Body body, const std::string& message,
                   const std::string& witness = "") {
    absl::StatusOr<CheckReport> report = Check("bad=1", std::move(body));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->passed);
    EXPECT_EQ(report->failure.stage(), v1::Failure::CHECK);
    EXPECT_NE(report->failure.message().find(message), std::string::npos)
        << report->failure.DebugString();
    EXPECT_NE(report->failure.witness().find(witness), std::string::npos)
        << report->failure.DebugString();
    // And the next candidate finds everything in order again.
    report = Check("good=1", Honest());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->passed) << report->failure.DebugString();
  }

  v1::CheckPolicy policy_;
  FakeDevice device_;
  DType type_;
  BoundManifest manifest_;
  std::unique_ptr<TensorSet> tensors_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<LoadedKernel> kernel_;
  int reference_calls_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_TESTS_UNIT_WORKER_CHECK_FIXTURE_H_
