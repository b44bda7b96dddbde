// The checker must fail every way of being wrong and pass every way of being right.
#include "worker/profile/check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "tests/unit/worker/check_fixture.h"
#include "tests/util/dense_tensor.h"
#include "worker/profile/sample_places.h"
#include "worker/profile/tolerance.h"

namespace kiln::worker {
namespace {

TEST_P(CheckTest, HonestKernelsPassAndTheReferenceIsComputedForTheFirst) {
  int calls = 0;
  for (int i = 0; i < 5; ++i) {
    absl::StatusOr<CheckReport> report = Check(absl::StrCat("id=", i), Honest());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->passed) << report->failure.DebugString();
    EXPECT_NE(report->summary.find("2 seeds"), std::string::npos) << report->summary;
    // Also of one that needs no look of its own: the proof of the one that it equals.
    EXPECT_NE(report->summary.find(" elements sampled by the interpreter"), std::string::npos)
        << report->summary;
    if (i == 0) calls = reference_calls_;
  }
  EXPECT_GE(calls, 2);
  EXPECT_EQ(reference_calls_, calls);
}

// A reference that takes long is asked in two places of each seed, which are not the same ones.
TEST_P(CheckTest, ASlowReferenceIsAskedInFewPlaces) {
  class Slow : public AffineReference {
   public:
    Slow(DType type, int* calls, std::set<int64_t>* asked)
        : AffineReference(type, calls), asked_(asked) {}
    absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
        uint64_t seed, int tensor, const std::vector<int64_t>& elements) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
      asked_->insert(elements.begin(), elements.end());
      return AffineReference::Evaluate(seed, tensor, elements);
    }

   private:
    std::set<int64_t>* const asked_;
  };
  std::set<int64_t> asked;
  device_.Define("affine", {Honest()});
  v1::ArtifactBundle bundle;
  bundle.set_name("affine");
  kernel_ = *device_.Load(bundle, 0);
  Checker::Candidate candidate = Candidate("slow=1");
  candidate.make_reference = [&] {
    return absl::StatusOr<std::unique_ptr<Reference>>(
        std::make_unique<Slow>(type_, &reference_calls_, &asked));
  };
  const absl::StatusOr<CheckReport> report = checker_->Check(candidate);
  ASSERT_TRUE(report.ok() && report->passed);
  EXPECT_EQ(reference_calls_, 4);
  EXPECT_NE(report->summary.find("by the interpreter in 2 of 6 places (0 of seed 1"),
            std::string::npos)
      << report->summary;
  EXPECT_TRUE(asked.count(0) > 0 && asked.count(kElements - 1) > 0);
  std::set<int64_t> first;
  for (int i : {0, 1}) {
    const auto cluster = SampleClusters({kRows, kColumns}, 256, 1)[static_cast<size_t>(i)];
    first.insert(cluster.begin(), cluster.end());
  }
  EXPECT_GT(asked.size(), first.size() + 20) << "the second seed looks elsewhere";
}

TEST_P(CheckTest, AWrongCornerFails) {
  ExpectFails(Spoiled([this](const LaunchArguments& arguments) {
                uint8_t* last = Element(arguments, 1, kElements - 1);
                StoreElement(last, type_, LoadElement(last, type_) + 3);
              }),
              "wrong numbers", "C[39, 49] got ");
}

// An element that no sample covers: the comparison with the peer finds it, the reference judges.
TEST_P(CheckTest, AWrongElementAnywhereFailsOnceThereIsAPeer) {
  ASSERT_TRUE(Check("first=1", Honest())->passed);
  for (int64_t element = 20 * kColumns; element < 22 * kColumns; element += 7) {
    ExpectFails(Spoiled([&](const LaunchArguments& arguments) {
                  uint8_t* at = Element(arguments, 1, element);
                  StoreElement(at, type_, LoadElement(at, type_) + 3);
                }),
                "wrong numbers",
                absl::StrCat("C[", element / kColumns, ", ", element % kColumns, "] got "));
  }
}

TEST_P(CheckTest, AWrongPeerIsConvictedByTheNextCandidate) {
  // Wrong in one element that the samples do not cover, so that it passes at first.
  const int64_t hidden = Unsampled();
  absl::StatusOr<CheckReport> first = Check("sly=1", Spoiled([&](const LaunchArguments& arguments) {
                                              uint8_t* at = Element(arguments, 1, hidden);
                                              StoreElement(at, type_, LoadElement(at, type_) + 3);
                                            }));
  ASSERT_TRUE(first->passed) << "the samples cover it after all";
  absl::StatusOr<CheckReport> second = Check("good=1", Honest());
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->passed) << second->failure.DebugString();
  ASSERT_FALSE(second->convicted.empty());
  EXPECT_EQ(second->convicted[0], "sly=1");
}

// An output with the bytes of the peer's is as wrong as that; one with the bytes of a peer that is
// right stays right.
TEST_P(CheckTest, WhoHasTheBytesOfAWrongPeerIsConvictedWithIt) {
  const int64_t hidden = Unsampled();
  const auto sly = Spoiled([&](const LaunchArguments& arguments) {
    uint8_t* at = Element(arguments, 1, hidden);
    StoreElement(at, type_, LoadElement(at, type_) + 3);
  });
  for (const std::string config : {"sly=1", "sly=2", "sly=3"}) {
    ASSERT_TRUE(Check(config, sly)->passed) << config;
  }
  const absl::StatusOr<CheckReport> honest = Check("good=1", Honest());
  ASSERT_TRUE(honest.ok() && honest->passed) << honest.status();
  const std::set<std::string> convicted(honest->convicted.begin(), honest->convicted.end());
  EXPECT_EQ(convicted, (std::set<std::string>{"sly=1", "sly=2", "sly=3"}));
  EXPECT_TRUE(Check("good=2", Honest())->passed);
  const absl::StatusOr<CheckReport> again = Check("sly=4", sly);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->passed);
  EXPECT_TRUE(again->convicted.empty());
}

// Means three more than the kernel does with its defaults.
class ShiftedReference : public Reference {
 public:
  explicit ShiftedReference(std::unique_ptr<Reference> plain) : plain_(std::move(plain)) {}
  absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int tensor, const std::vector<int64_t>& elements) override {
    auto values = plain_->Evaluate(seed, tensor, elements);
    for (ReferenceValue& value : *values) value.value += 3;
    return values;
  }

 private:
  const std::unique_ptr<Reference> plain_;
};

TEST_P(CheckTest, TheDefaultsSayWhatTheKernelMeansWhicheverConfigComesFirst) {
  ASSERT_TRUE(Check("sound=1", Honest()).ok());  // loads a kernel
  checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
  Checker::Candidate odd = Candidate("odd=1");
  odd.make_default_reference = odd.make_reference;
  odd.make_reference = [plain =
                            odd.make_reference]() -> absl::StatusOr<std::unique_ptr<Reference>> {
    return std::make_unique<ShiftedReference>(*plain());
  };
  device_.Define("affine", {Spoiled([this](const LaunchArguments& arguments) {
                   for (int64_t i = 0; i < kElements; ++i) {
                     uint8_t* at = Element(arguments, 1, i);
                     StoreElement(at, type_, LoadElement(at, type_) + 3);
                   }
                 })});
  v1::ArtifactBundle bundle;
  bundle.set_name("affine");
  kernel_ = *device_.Load(bundle, 0);
  odd.kernel = kernel_.get();
  absl::StatusOr<CheckReport> report = checker_->Check(odd);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->passed);
  EXPECT_NE(report->failure.message().find("other numbers with this config than with its defaults"),
            std::string::npos)
      << report->failure.DebugString();
  report = Check("good=1", Honest());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->passed) << report->failure.DebugString();
}

TEST_P(CheckTest, UnwrittenElementsFail) {
  ExpectFails(AffineBody(type_, kElements - 1), "1 of 2000 elements", "never written");
  ExpectFails(AffineBody(type_, 0), "2000 of 2000 elements", "never written");
}

// Right, but seldom what the author wants: whoever looks at the winner is told, also of one with
// the very bytes of another.
TEST_P(CheckTest, WhatTheProgramItselfLeavesUnwrittenPassesAndIsSaid) {
  ASSERT_TRUE(Check("whole=1", Honest())->passed);  // loads a kernel, and nothing is said of it
  EXPECT_EQ(Check("whole=2", Honest())->summary.find("never written"), std::string::npos);
  checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
  for (const char* config : {"half=1", "half=2"}) {
    device_.Define("affine", {AffineBody(type_, kElements / 2)});
    v1::ArtifactBundle bundle;
    bundle.set_name("affine");
    kernel_ = *device_.Load(bundle, 0);
    const absl::StatusOr<CheckReport> report =
        checker_->Check(WhoseProgramWrites(config, kElements / 2));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->passed) << report->failure.DebugString();
    EXPECT_NE(
        report->summary.find("1000 of 2000 elements of 'C' never written: nor does the kernel's "
                             "own program write the "),
        std::string::npos)
        << report->summary;
  }
}

// Elements that only this candidate leaves, beside a thousand that its program leaves too.
TEST_P(CheckTest, AFewMoreUnwrittenThanTheProgramLeavesAreFound) {
  ASSERT_TRUE(Check("whole=1", Honest())->passed);                 // loads a kernel
  for (const int64_t first : {kElements / 2 - 7, int64_t{333}}) {  // joined to the others, or alone
    checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
    device_.Define(
        "affine",
        {[this, first, half = AffineBody(type_, kElements / 2)](const LaunchArguments& arguments) {
          const std::vector<uint8_t> before(Element(arguments, 1, first),
                                            Element(arguments, 1, first + 7));
          (void)half(arguments);
          std::copy(before.begin(), before.end(), Element(arguments, 1, first));
          return absl::OkStatus();
        }});
    v1::ArtifactBundle bundle;
    bundle.set_name("affine");
    kernel_ = *device_.Load(bundle, 0);
    const absl::StatusOr<CheckReport> report =
        checker_->Check(WhoseProgramWrites("less=1", kElements / 2));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->passed) << first << report->summary;
    EXPECT_NE(report->failure.message().find("leaves 1007 of 2000 elements of 'C' unwritten"),
              std::string::npos)
        << report->failure.DebugString();
  }
}

// Of an output that nobody writes at all there is no sample to speak of.
TEST_P(CheckTest, WhatIsWrittenNowhereIsSaidOfBothWithTheSameBytes) {
  ASSERT_TRUE(Check("whole=1", Honest())->passed);  // loads a kernel
  checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
  for (const char* config : {"none=1", "none=2"}) {
    device_.Define("affine", {AffineBody(type_, 0)});
    v1::ArtifactBundle bundle;
    bundle.set_name("affine");
    kernel_ = *device_.Load(bundle, 0);
    const absl::StatusOr<CheckReport> report = checker_->Check(WhoseProgramWrites(config, 0));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->passed) << report->failure.DebugString();
    EXPECT_NE(report->summary.find("2000 of 2000 elements of 'C' never written"), std::string::npos)
        << config << ": " << report->summary;
  }
}

TEST_P(CheckTest, StaleRightNumbersDoNotHideAMissingWrite) {
  ASSERT_TRUE(Check("good=1", Honest())->passed);
  // The right values lie in the output from the launch before; writing nothing must still fail.
  absl::StatusOr<CheckReport> report =
      Check("lazy=1", [](const LaunchArguments&) { return absl::OkStatus(); });
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->passed);
}

TEST_P(CheckTest, WritesOutsideTheTensorsFail) {
  for (int64_t offset : {int64_t{0}, int64_t{1}, int64_t{100}}) {
    ExpectFails(Spoiled([&](const LaunchArguments& arguments) {
                  Element(arguments, 1, kElements)[offset] = 1;
                }),
                absl::StrCat(offset, " bytes behind the end of 'C'"));
    ExpectFails(Spoiled([&](const LaunchArguments& arguments) {
                  Element(arguments, 0, 0)[-1 - offset] = 1;
                }),
                absl::StrCat(offset + 1, " bytes before the start of 'A'"));
  }
}

TEST_P(CheckTest, WritesToAnInputFail) {
  ExpectFails(Spoiled([this](const LaunchArguments& arguments) {
                uint8_t* at = Element(arguments, 0, 77);
                StoreElement(at, type_, LoadElement(at, type_) == 0 ? 1 : 0);
              }),
              "wrote to its input 'A': memory element 77");
}

TEST_P(CheckTest, ErrorCodesFail) {
  ExpectFails(
      [](const LaunchArguments&) {
        return absl::InternalError("an assertion of the kernel failed");
      },
      "assertion");
}

TEST_P(CheckTest, NumbersThatChangeFromLaunchToLaunchAreCaughtAfterTiming) {
  int launches = 0;
  absl::StatusOr<CheckReport> report =
      Check("flaky=1", [&, honest = Honest()](const LaunchArguments& arguments) {
        (void)honest(arguments);
        if (++launches > 2) {
          uint8_t* at = Element(arguments, 1, 1000);
          StoreElement(at, type_, LoadElement(at, type_) + 3);
        }
        return absl::OkStatus();
      });
  ASSERT_TRUE(report->passed) << report->failure.DebugString();
  report = checker_->Recheck(Candidate("flaky=1"));
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->passed);
}

INSTANTIATE_TEST_SUITE_P(Types, CheckTest,
                         testing::Values("float32", "float64", "float16", "bfloat16", "int32",
                                         "int8", "uint8"),
                         [](const auto& info) { return std::string(info.param); });

class FloatCheckTest : public CheckTest {};

// Close to the peer in all elements but one, which is no number, or still the poison.
TEST_P(FloatCheckTest, WhatIsNoNumberFailsBesideAPeerToo) {
  ASSERT_TRUE(Check("first=1", Honest())->passed);
  constexpr int64_t kElement = 20 * kColumns + 25;
  ExpectFails(Spoiled([this](const LaunchArguments& arguments) {
                StoreElement(Element(arguments, 1, kElement), type_,
                             std::numeric_limits<double>::quiet_NaN());
              }),
              "wrong numbers", "C[20, 25] got nan");
  ExpectFails(Spoiled([this, poison = 0](const LaunchArguments& arguments) mutable {
                std::memset(Element(arguments, 1, kElement), poison++ % 2 == 0 ? 0xFF : 0xA5,
                            static_cast<size_t>(type_.bytes()));
              }),
              "leaves 1 of 2000 elements of 'C' unwritten");
}

TEST_P(FloatCheckTest, ANaNAnywhereFails) {
  ExpectFails(Spoiled([this](const LaunchArguments& arguments) {
                StoreElement(Element(arguments, 1, 20 * kColumns + 25), type_,
                             std::numeric_limits<double>::quiet_NaN());
              }),
              "NaN", "C[20, 25] got NaN");
}

INSTANTIATE_TEST_SUITE_P(Types, FloatCheckTest,
                         testing::Values("float32", "float64", "float16", "bfloat16"),
                         [](const auto& info) { return std::string(info.param); });

// An error as of sums in half precision: it passes where the candidate's own manifest tells of
// them, whichever came first, and does not convict the one that it is compared with.
TEST_P(FloatCheckTest, SumsInACoarseTypeAreTheCandidatesOwn) {
  const FakeDevice::Body rough = Spoiled([this](const LaunchArguments& arguments) {
    for (int64_t i = 0; i < kElements; ++i) {
      StoreElement(Element(arguments, 1, i), type_,
                   LoadElement(Element(arguments, 1, i), type_) + (i % 2 == 0 ? 0.3 : -0.3));
    }
  });
  ExpectFails(rough, "wrong numbers");
  const BoundManifest plain = manifest_;
  manifest_.tensors[1].sums = {kFloat16, 1 << 16};
  absl::StatusOr<CheckReport> report = Check("half=1", rough);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->passed) << report->failure.DebugString();
  checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
  ASSERT_TRUE(Check("half=1", rough)->passed);
  manifest_ = plain;
  report = Check("single=1", Honest());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->passed) << report->failure.DebugString();
  EXPECT_TRUE(report->convicted.empty());
  ExpectFails(AffineBody(type_, kElements / 2), "leaves 1000 of 2000 elements");
}

TEST_P(CheckTest, WhoseLaunchIsSlowIsCheckedWithOneSeed) {
  ASSERT_TRUE(Check("first=1", Honest())->passed);
  const FakeDevice::Body slow = Spoiled(
      [](const LaunchArguments&) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  ASSERT_TRUE(Check("all=1", slow)->passed);
  for (const auto& [limit, seeds] : {std::pair(0.02, "1 seed, "), std::pair(20.0, "2 seeds, ")}) {
    Checker::Candidate candidate = Candidate("slow=1");
    candidate.slow_seconds = limit;
    const absl::StatusOr<CheckReport> report = checker_->Check(candidate);
    ASSERT_TRUE(report.ok() && report->passed);
    EXPECT_EQ(report->summary.find(seeds), 0u) << report->summary;
  }
}

TEST(SpreadElementsTest, CoversTheTensorAndItsEnds) {
  const std::vector<int64_t> shape = {3, 1000, 700};
  const std::vector<int64_t> spread = SpreadElements(shape, 256, 5);
  EXPECT_GT(spread.size(), 240u);
  std::set<std::pair<int64_t, int64_t>> tiles;
  int last_column = 0, last_row = 0;
  for (const int64_t i : spread) {
    ASSERT_GE(i, 0);
    ASSERT_LT(i, 3 * 1000 * 700);
    tiles.insert({i / 700 * 8 / 3000, i % 700 * 8 / 700});
    last_column += i % 700 == 699;
    last_row += i / 700 == 2999;
  }
  EXPECT_EQ(tiles.size(), 64u);
  EXPECT_GT(last_column, 40);
  EXPECT_GT(last_row, 40);
  EXPECT_EQ(spread, SpreadElements(shape, 256, 5));
}

constexpr int64_t kSide = 96;

// A product; the first row is NaN when it is spoilt.
double ProductAt(const std::function<double(int tensor, int64_t element)>& in, int64_t element,
                 bool spoilt) {
  const int64_t row = element / kSide, column = element % kSide;
  if (spoilt && row == 0) return std::nan("");
  double sum = 0;
  for (int64_t k = 0; k < kSide; ++k) sum += in(0, row * kSide + k) * in(1, k * kSide + column);
  return sum;
}

class ProductReference : public Reference {
 public:
  explicit ProductReference(bool spoilt) : spoilt_(spoilt) {}
  absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int, const std::vector<int64_t>& elements) override {
    std::vector<ReferenceValue> values;
    for (const int64_t i : elements) {
      const auto in = [&](int tensor, int64_t at) {
        return SeededValue(seed, tensor, kFloat32, at);
      };
      values.push_back({ProductAt(in, i, spoilt_), true});
    }
    return values;
  }

 private:
  const bool spoilt_;
};

FakeDevice::Body ProductBody(bool spoilt) {
  return [spoilt](const LaunchArguments& arguments) {
    const auto in = [&](int tensor, int64_t at) {
      return static_cast<double>(
          static_cast<const float*>(arguments.pointers[static_cast<size_t>(tensor)])[at]);
    };
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      static_cast<float*>(arguments.pointers[2])[i] = static_cast<float>(ProductAt(in, i, spoilt));
    }
    return absl::OkStatus();
  };
}

// A formula that the rest of the output confirms knows better than defaults that make NaN.
TEST(CheckNaNTest, WhatTheKernelItselfSpoilsIsWrongAndJudgesNobody) {
  FakeDevice device;
  const v1::CheckPolicy policy;
  BoundManifest manifest;
  for (const char* name : {"A", "B", "C"}) {
    manifest.tensors.push_back(DenseTensor(name, kFloat32, {kSide, kSide}));
  }
  manifest.tensors.back().output = true;
  const auto tensors = TensorSet::Create(&device, manifest, 2, Checker::Seeds(policy));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  Checker checker(&device, tensors->get(), policy, 1 << 20, [] {});
  for (const bool spoilt : {true, false}) {
    device.Define("product", {ProductBody(spoilt)});
    v1::ArtifactBundle bundle;
    bundle.set_name("product");
    const auto kernel = device.Load(bundle, 0);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    Checker::Candidate candidate;
    candidate.config = spoilt ? "default=1" : "other=1";
    candidate.kernel = kernel->get();
    candidate.manifest = &manifest;
    const auto reference = [](bool is_spoilt) {
      return [is_spoilt]() -> absl::StatusOr<std::unique_ptr<Reference>> {
        return std::make_unique<ProductReference>(is_spoilt);
      };
    };
    candidate.make_reference = reference(spoilt);
    candidate.make_default_reference = reference(true);
    const absl::StatusOr<CheckReport> report = checker.Check(candidate);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->passed, !spoilt) << report->failure.DebugString();
    if (!spoilt) continue;
    EXPECT_NE(report->failure.message().find("NaN of finite inputs"), std::string::npos)
        << report->failure.DebugString();
  }
}

TEST(ToleranceTest, AcceptsRoundingAndRefusesAMissingTerm) {
  // A dot product of K terms in [-1, 1]: float32 accumulation in any order passes, leaving out one
  // typical term fails.
  for (int64_t k : {16, 256, 4096, 16384}) {
    BoundManifest manifest;
    manifest.reduction_length = k;
    TensorShape shape;
    shape.type = kFloat32;
    shape.output = true;
    manifest.tensors = {shape};
    // The root mean square of such a sum is sqrt(K) / 3.
    Tolerance tolerance = ToleranceFor(shape, manifest, {}, std::sqrt(static_cast<double>(k)) / 3);
    int missed = 0;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      double exact = 0;
      float forward = 0;
      float backward = 0;
      double last = 0;
      for (int64_t i = 0; i < k; ++i) {
        double a = SeededValue(seed, 0, kFloat32, i);
        double b = SeededValue(seed, 1, kFloat32, i);
        exact += a * b;
        last = a * b;
        forward += static_cast<float>(a) * static_cast<float>(b);
        int64_t j = k - 1 - i;
        backward += static_cast<float>(SeededValue(seed, 0, kFloat32, j)) *
                    static_cast<float>(SeededValue(seed, 1, kFloat32, j));
      }
      EXPECT_TRUE(tolerance.Accepts(forward, exact)) << k;
      EXPECT_TRUE(tolerance.Accepts(backward, exact)) << k;
      if (tolerance.Accepts(exact - last, exact)) ++missed;
    }
    EXPECT_LE(missed, 3) << "of 50 sums that lack a term, K = " << k;
  }
}

// A product of a row of `a` and a column of `b` as tensor cores add it in half precision: every 16
// terms exactly, then rounded. From the last term, or without some of them.
double HalfSum(const std::vector<double>& a, const std::vector<double>& b, bool backward,
               int64_t without = -1) {
  const auto length = static_cast<int64_t>(a.size());
  double sum = 0;
  for (int64_t step = 0; step < length; step += 16) {
    const int64_t first = backward ? length - 16 - step : step;
    if (first == without) continue;
    for (int64_t i = first; i < first + 16; ++i) {
      sum += a[static_cast<size_t>(i)] * b[static_cast<size_t>(i)];
    }
    sum = RoundToType(sum, kFloat16);
  }
  return sum;
}

TEST(ToleranceTest, SumsInHalfPrecisionTakeTheirOwnRoundingAndNoMore) {
  constexpr uint64_t kSampled = 256;
  for (const int64_t length : {256, 512, 1024, 2048, 4096}) {
    TensorShape shape;
    shape.type = kFloat16;
    shape.output = true;
    BoundManifest manifest;
    manifest.reduction_length = length;
    manifest.tensors = {shape};
    std::vector<std::vector<double>> a(kSampled), b(kSampled);
    std::vector<double> expected;
    double squares = 0;
    for (uint64_t i = 0; i < kSampled; ++i) {
      for (int64_t k = 0; k < length; ++k) {
        a[i].push_back(SeededValue(i + 1, 0, kFloat16, k));
        b[i].push_back(SeededValue(i + 1, 1, kFloat16, k));
      }
      expected.push_back(HalfSum(a[i], b[i], false));
      squares += expected.back() * expected.back();
    }
    const double scale = std::sqrt(squares / kSampled);
    TensorShape coarse = shape;
    coarse.sums = {kFloat16, length};
    const Tolerance tolerance = ToleranceFor(coarse, manifest, {}, scale);
    coarse.sums.roundings = 0;  // not known: the length stands for them
    EXPECT_EQ(ToleranceFor(coarse, manifest, {}, scale).atol, tolerance.atol);
    const Tolerance plain = ToleranceFor(shape, manifest, {}, scale);
    int called_wrong = 0, missed = 0, other_tile = 0;
    for (uint64_t i = 0; i < kSampled; ++i) {
      const double other_order = HalfSum(a[i], b[i], true);
      EXPECT_TRUE(tolerance.Accepts(other_order, expected[i]))
          << "K = " << length << ": " << other_order << " of " << expected[i];
      called_wrong += !plain.Accepts(other_order, expected[i]);
      // A pipeline that loses its last step, and a tile of another column.
      missed += tolerance.Accepts(HalfSum(a[i], b[i], true, length - 16), expected[i]);
      other_tile += tolerance.Accepts(HalfSum(a[i], b[(i + 1) % kSampled], true), expected[i]);
    }
    if (length >= 1024) {
      EXPECT_GT(called_wrong, 0) << "K = " << length;
    }
    EXPECT_LT(missed, 220) << "of 256 elements that lack a step of 16, K = " << length;
    EXPECT_LT(other_tile, 32) << "of 256 elements of another tile, K = " << length;
  }
}

// Outputs that are small everywhere are not excused by their size: a softmax row has values around
// 1 / length, and zeros must not pass for them.
TEST(ToleranceTest, SmallOutputsAreHeldToTheirOwnScale) {
  BoundManifest manifest;
  manifest.reduction_length = 4096;
  TensorShape shape;
  shape.type = kFloat32;
  shape.output = true;
  manifest.tensors = {shape};
  double value = 1.0 / 4096;
  Tolerance tolerance = ToleranceFor(shape, manifest, {}, value);
  EXPECT_FALSE(tolerance.Accepts(0, value));
  EXPECT_FALSE(tolerance.Accepts(value * 1.001, value));
  EXPECT_TRUE(tolerance.Accepts(value * (1 + 1e-5), value));
}

TEST(ToleranceTest, SpecialValues) {
  Tolerance tolerance{0.1, 0.1};
  double nan = std::numeric_limits<double>::quiet_NaN();
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(tolerance.Accepts(nan, nan));
  EXPECT_FALSE(tolerance.Accepts(nan, 0));
  EXPECT_FALSE(tolerance.Accepts(0, nan));
  EXPECT_TRUE(tolerance.Accepts(infinity, infinity));
  EXPECT_FALSE(tolerance.Accepts(infinity, -infinity));
  EXPECT_FALSE(tolerance.Accepts(1e300, infinity));
}

TEST(SampleElementsTest, CornersAreAlwaysThereAndNothingIsOutside) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1},
                                            {7},
                                            {100000},
                                            {333, 257},
                                            {1, 100000},
                                            {100000, 1},
                                            {3, 5, 7},
                                            {8, 128, 4096},
                                            {}}) {
    int64_t elements = 1;
    for (int64_t extent : shape) elements *= extent;
    std::vector<int64_t> picked = SampleElements(shape, 256, 1);
    ASSERT_FALSE(picked.empty());
    EXPECT_EQ(picked.front(), 0);
    EXPECT_EQ(picked.back(), elements - 1);
    EXPECT_TRUE(std::is_sorted(picked.begin(), picked.end()));
    EXPECT_LE(picked.size(), 258u);
    EXPECT_EQ(picked, SampleElements(shape, 256, 1)) << "deterministic";
    if (elements > 1000) {
      EXPECT_NE(picked, SampleElements(shape, 256, 2)) << "seeds differ";
    }
  }
}

}  // namespace
}  // namespace kiln::worker
