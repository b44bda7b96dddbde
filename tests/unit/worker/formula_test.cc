// Formulas against plain loops, and the checker with them: whatever is wrong in any tile of a large
// output is found with the very first candidate.
#include "worker/profile/formula.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"
#include "tests/util/dense_tensor.h"
#include "worker/profile/check.h"
#include "worker/profile/fake_device.h"
#include "worker/profile/projection.h"
#include "worker/profile/tensors.h"
#include "worker/profile/tolerance.h"

namespace kiln::worker {
namespace {

TensorShape Tensor(const std::string& name, std::vector<int64_t> shape, bool output = false,
                   DType type = kFloat32) {
  return DenseTensor(name, type, std::move(shape), output);
}

// The seeded number of an element.
double Number(const BoundManifest& m, uint64_t seed, int tensor, std::vector<int64_t> index) {
  const TensorShape& shape = m.tensors[static_cast<size_t>(tensor)];
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * shape.strides[d];
  return SeededValue(seed, tensor, shape.type, offset);
}

struct ProductCase {
  bool trans_a = false, trans_b = false, shared_b = false;
  int64_t batch = 0;  // 0: no such dimension
  bool bias = false;
  double alpha = 1;
  double (*tail)(double) = [](double x) { return x; };
  DType type = kFloat32;
  int64_t m = 70, n = 90, k = 40;

  BoundManifest Manifest() const {
    const auto with_batch = [&](std::vector<int64_t> shape) {
      if (batch > 0) shape.insert(shape.begin(), batch);
      return shape;
    };
    const auto matrix = [](bool trans, int64_t x, int64_t y) {
      return trans ? std::vector<int64_t>{y, x} : std::vector<int64_t>{x, y};
    };
    BoundManifest bound;
    bound.tensors.push_back(Tensor("A", with_batch(matrix(trans_a, m, k)), false, type));
    std::vector<int64_t> b = matrix(trans_b, k, n);
    bound.tensors.push_back(Tensor("B", shared_b ? b : with_batch(b), false, type));
    if (bias) bound.tensors.push_back(Tensor("bias", {n}));
    bound.tensors.push_back(Tensor("C", with_batch({m, n}), true));
    bound.reduction_length = k;
    return bound;
  }
  double Value(const BoundManifest& bound, uint64_t seed, int64_t element) const {
    const int64_t j = element % n, i = element / n % m, z = element / n / m;
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) {
      std::vector<int64_t> a = trans_a ? std::vector<int64_t>{p, i} : std::vector<int64_t>{i, p};
      std::vector<int64_t> b = trans_b ? std::vector<int64_t>{j, p} : std::vector<int64_t>{p, j};
      if (batch > 0) a.insert(a.begin(), z);
      if (batch > 0 && !shared_b) b.insert(b.begin(), z);
      sum += Number(bound, seed, 0, a) * Number(bound, seed, 1, b);
    }
    return tail(alpha * sum + (bias ? Number(bound, seed, 2, {j}) : 0));
  }
};

// The formula that `value` (of an element) confirms, or null.
template <typename Value>
std::unique_ptr<Formula> Confirmed(const BoundManifest& bound, const Value& value) {
  const int output = static_cast<int>(bound.tensors.size()) - 1;
  for (std::unique_ptr<Formula>& formula : FormulasFor(bound, output)) {
    std::vector<double> values;
    for (const int64_t element : formula->Probes()) values.push_back(value(1, element));
    if (formula->Confirm(1, formula->Probes(), values)) return std::move(formula);
  }
  return nullptr;
}

template <typename Value>
void ExpectRight(const Formula& formula, const Value& value) {
  for (int turn = 0; turn < 2; ++turn) {
    const FormulaSample sample = formula.Sample(5, turn, 2);
    ASSERT_EQ(sample.elements.size(), sample.values.size());
    ASSERT_FALSE(sample.elements.empty());
    for (size_t i = 0; i < sample.elements.size(); i += 7) {
      const double want = value(5, sample.elements[i]);
      ASSERT_NEAR(sample.values[i], want, 1e-9 * (1 + std::abs(want))) << formula.name();
    }
  }
}

double Relu(double x) { return std::max(x, 0.0); }
double Silu(double x) { return x / (1 + std::exp(-x)); }
double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(FormulaTest, ProductsOfEveryOrientation) {
  std::vector<ProductCase> cases;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const int64_t batch : {0, 3}) {
        ProductCase c;
        c.trans_a = trans_a, c.trans_b = trans_b, c.batch = batch;
        cases.push_back(c);
        c.m = c.n = c.k = 48;  // then the shapes do not tell
        cases.push_back(c);
      }
    }
  }
  for (double (*tail)(double) : {Relu, Silu, Gelu}) {
    ProductCase c;
    c.bias = true, c.tail = tail, c.trans_b = true;
    cases.push_back(c);
  }
  ProductCase scaled;
  scaled.bias = scaled.trans_b = true, scaled.alpha = 0.37, scaled.batch = 2;
  cases.push_back(scaled);
  for (const DType type : {kFloat16, kBFloat16, kInt8, kFloat64}) {
    ProductCase c;
    c.type = type, c.batch = 2, c.shared_b = true;
    cases.push_back(c);
  }
  for (const ProductCase& c : cases) {
    const BoundManifest bound = c.Manifest();
    const auto value = [&](uint64_t seed, int64_t element) {
      return c.Value(bound, seed, element);
    };
    const std::unique_ptr<Formula> formula = Confirmed(bound, value);
    ASSERT_NE(formula, nullptr);
    ExpectRight(*formula, value);
  }
}

// Sums that were made without an element of the output are those of its elements.
TEST(FormulaTest, ProjectionsAreSumsOfTheElements) {
  std::vector<ProductCase> cases;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      ProductCase c;
      c.trans_a = trans_a, c.trans_b = trans_b, c.k = 150;
      cases.push_back(c);
      c.batch = 3, c.bias = true, c.alpha = -0.5, c.m = 130, c.n = 31;
      cases.push_back(c);
      c.shared_b = true, c.type = kInt8;
      cases.push_back(c);
    }
  }
  for (const ProductCase& c : cases) {
    const BoundManifest bound = c.Manifest();
    const std::unique_ptr<Formula> formula = Confirmed(
        bound, [&](uint64_t seed, int64_t element) { return c.Value(bound, seed, element); });
    ASSERT_NE(formula, nullptr);
    ASSERT_TRUE(formula->projects());
    std::vector<double> factors;
    for (int64_t j = 0; j < c.n; ++j) factors.push_back(static_cast<double>(j % 7) - 2.5);
    constexpr int64_t kWidth = 20;
    const std::vector<double> sums = formula->Project(9, factors, kWidth);
    const int64_t stretches = (c.n + kWidth - 1) / kWidth, planes = std::max<int64_t>(c.batch, 1);
    ASSERT_EQ(static_cast<int64_t>(sums.size()), planes * c.m * stretches);
    for (int64_t row = 0; row < planes * c.m; row += 11) {
      std::vector<double> want(static_cast<size_t>(stretches), 0.0);
      for (int64_t j = 0; j < c.n; ++j) {
        want[static_cast<size_t>(j / kWidth)] +=
            factors[static_cast<size_t>(j)] * c.Value(bound, 9, row * c.n + j);
      }
      for (int64_t s = 0; s < stretches; ++s) {
        ASSERT_NEAR(sums[static_cast<size_t>(row * stretches + s)], want[static_cast<size_t>(s)],
                    1e-8)
            << row << " " << s;
      }
    }
  }
}

// Most memory that this process has had since the last call, in bytes; 0 where nobody says.
int64_t TakePeakMemory() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> kilobytes;
  }
  std::ofstream("/proc/self/clear_refs") << 5;
  return kilobytes << 10;
}

// Of vectors there is one number of B x for each of B, which takes no memory of that size.
TEST(FormulaTest, ProjectionsOfVectorsTakeLittleMemory) {
  ProductCase vectors;
  vectors.type = kInt8, vectors.m = vectors.n = 1;
  vectors.batch = 12, vectors.k = 1 << 20;
  ProductCase deep = vectors;
  deep.batch = 0, deep.k = 5 << 20;
  for (const ProductCase& c : {vectors, deep}) {
    const BoundManifest bound = c.Manifest();
    const std::unique_ptr<Formula> formula = Confirmed(
        bound, [&](uint64_t seed, int64_t element) { return c.Value(bound, seed, element); });
    ASSERT_NE(formula, nullptr);
    const int64_t before = (TakePeakMemory(), TakePeakMemory());
    const std::vector<double> sums = formula->Project(9, {0.75}, 1);
    [[maybe_unused]] const int64_t taken = TakePeakMemory() - before;
#ifndef KILN_SANITIZER  // which keeps what is freed
    EXPECT_LT(taken, 28 << 20) << c.batch;
#endif
    ASSERT_EQ(static_cast<int64_t>(sums.size()), std::max<int64_t>(c.batch, 1));
    for (size_t plane = 0; plane < sums.size(); ++plane) {
      EXPECT_EQ(sums[plane], 0.75 * formula->At(9, {static_cast<int64_t>(plane)}).front()) << plane;
    }
  }
}

struct AttentionCase {
  std::vector<int64_t> q, kv;
  size_t axis;
  bool causal;

  BoundManifest Manifest() const {
    BoundManifest bound;
    bound.tensors = {Tensor("Q", q), Tensor("K", kv), Tensor("V", kv), Tensor("O", q, true)};
    return bound;
  }
  double Value(const BoundManifest& bound, uint64_t seed, int64_t element) const {
    std::vector<int64_t> index(q.size());
    for (size_t d = q.size(); d-- > 0; element /= q[d]) index[d] = element % q[d];
    std::vector<int64_t> key = index;
    for (size_t d = 0; d + 1 < q.size(); ++d) key[d] = index[d] * kv[d] / q[d];
    double sum = 0, weights = 0;
    for (int64_t l = 0; l < kv[axis]; ++l) {
      if (causal && l > index[axis] + kv[axis] - q[axis]) break;
      double score = 0;
      std::vector<int64_t> at = index;
      key[axis] = l;
      for (int64_t d = 0; d < q.back(); ++d) {
        at.back() = key.back() = d;
        score += Number(bound, seed, 0, at) * Number(bound, seed, 1, key);
      }
      key.back() = index.back();
      const double weight = std::exp(score / std::sqrt(static_cast<double>(q.back())));
      weights += weight;
      sum += weight * Number(bound, seed, 2, key);
    }
    return sum / weights;
  }
};

TEST(FormulaTest, AttentionOfEveryLayout) {
  for (const AttentionCase& c : {AttentionCase{{2, 37, 4, 16}, {2, 53, 4, 16}, 1, false},
                                 AttentionCase{{2, 37, 4, 16}, {2, 53, 2, 16}, 1, true},
                                 AttentionCase{{1, 4, 300, 8}, {1, 1, 300, 8}, 2, true},
                                 AttentionCase{{3, 40, 32}, {3, 600, 32}, 1, false},
                                 AttentionCase{{64, 32}, {64, 32}, 0, true}}) {
    const BoundManifest bound = c.Manifest();
    const auto value = [&](uint64_t seed, int64_t element) {
      return c.Value(bound, seed, element);
    };
    const std::unique_ptr<Formula> formula = Confirmed(bound, value);
    ASSERT_NE(formula, nullptr);
    EXPECT_EQ(formula->name(), std::string(c.causal ? "causal " : "") + "attention of Q, K, V");
    ExpectRight(*formula, value);
  }
}

TEST(FormulaTest, OtherNumbersConfirmNothing) {
  ProductCase c;
  const BoundManifest bound = c.Manifest();
  const auto off = [&](uint64_t seed, int64_t element) {
    return c.Value(bound, seed, element) * (element % 2 == 0 ? 1 : 1 + 1e-5);
  };
  EXPECT_EQ(Confirmed(bound, off), nullptr);
  EXPECT_EQ(Confirmed(bound, [](uint64_t, int64_t) { return 0.0; }), nullptr);
  EXPECT_EQ(Confirmed(bound, [](uint64_t, int64_t) { return std::nan(""); }), nullptr);
  BoundManifest adds = bound;  // to what is there
  adds.tensors.back().accumulates = true;
  EXPECT_TRUE(FormulasFor(adds, 2).empty());
}

// Every box of a sample's pitches holds an element of some turn, and corners are there.
TEST(FormulaTest, SamplesReachEveryTile) {
  for (const int64_t batch : {0, 1, 5}) {
    ProductCase c;
    c.m = 333, c.n = 250, c.k = 16, c.batch = batch;
    const BoundManifest bound = c.Manifest();
    const std::unique_ptr<Formula> formula = Confirmed(
        bound, [&](uint64_t seed, int64_t element) { return c.Value(bound, seed, element); });
    ASSERT_NE(formula, nullptr);
    std::set<std::vector<int64_t>> boxes;
    std::set<int64_t> elements;
    int64_t rows = 0, columns = 0;
    for (int turn = 0; turn < 2; ++turn) {
      const FormulaSample sample = formula->Sample(static_cast<uint64_t>(turn) + 1, turn, 2);
      rows = (c.m + sample.row_pitch - 1) / sample.row_pitch;
      columns = (c.n + sample.column_pitch - 1) / sample.column_pitch;
      EXPECT_EQ(sample.row_pitch, 16);
      for (const int64_t e : sample.elements) {
        elements.insert(e);
        boxes.insert(
            {e / c.n / c.m, e / c.n % c.m / sample.row_pitch, e % c.n / sample.column_pitch});
      }
    }
    const int64_t planes = std::max<int64_t>(batch, 1);
    EXPECT_EQ(static_cast<int64_t>(boxes.size()), planes * rows * columns);
    for (int64_t plane = 0; plane < planes; ++plane) {
      EXPECT_EQ(elements.count(plane * c.m * c.n), 1u);
      EXPECT_EQ(elements.count((plane + 1) * c.m * c.n - 1), 1u);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// The checker with a product.

// An output of this type with the formula's numbers, of which `spoil` makes others; its projection.
template <typename Spoil>
Projection Projected(const ProductCase& c, DType type, const Spoil& spoil) {
  BoundManifest bound = c.Manifest();
  bound.tensors.back() = Tensor("C", {c.m, c.n}, true, type);
  const std::unique_ptr<Formula> formula = Confirmed(
      bound, [&](uint64_t seed, int64_t element) { return c.Value(bound, seed, element); });
  const TensorShape& shape = bound.tensors.back();
  std::vector<int64_t> all(static_cast<size_t>(shape.elements));
  std::iota(all.begin(), all.end(), int64_t{0});
  std::vector<double> values = formula->At(1, all);
  double squares = 0;
  for (const double value : values) squares += value * value;
  const double scale = std::sqrt(squares / static_cast<double>(values.size()));
  spoil(scale, &values);
  Bytes bytes(static_cast<size_t>(shape.bytes()));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(&bytes[i * static_cast<size_t>(type.bytes())], type, values[i]);
  }
  const Tolerance tolerance = ToleranceFor(shape, bound, v1::CheckPolicy(), scale);
  return ProjectOutput(*formula, 1, shape, bytes, tolerance, scale, 8);
}

constexpr DType kE4M3Type{TypeCode::kE4M3, 8};

// A sum says that it has seen all its elements only where a single wrong one would have shown.
TEST(ProjectionTest, WhatRoundingHidesIsNotSaidToBeSeen) {
  ProductCase c;
  c.m = 40, c.n = 1024, c.k = 64, c.type = kBFloat16;
  const auto honest = [](double, std::vector<double>*) {};
  const auto wrong = [&](double scale, std::vector<double>* values) {
    (*values)[12 * 1024 + 345] += scale;
  };
  for (const DType type : {kFloat32, kFloat16, kBFloat16}) {
    const Projection right = Projected(c, type, honest);
    EXPECT_TRUE(right.whole) << type.ToString();
    EXPECT_TRUE(right.suspects.empty()) << type.ToString();
    EXPECT_EQ(Projected(c, type, wrong).suspects.size(), 1u) << type.ToString();
  }
  EXPECT_FALSE(Projected(c, kE4M3Type, honest).whole);
  EXPECT_FALSE(Projected(c, kE4M3Type, wrong).whole);
}

// Where most sums are exact there is no standard deviation to tell an error by.
TEST(ProjectionTest, ErrorsAmongExactSumsAreToldAsTheyAre) {
  ProductCase c;
  c.m = 40, c.n = 48, c.k = 64, c.type = kInt8;
  const Projection exact = Projected(c, kInt32, [](double, std::vector<double>*) {});
  EXPECT_EQ(exact.spread, 0);
  EXPECT_TRUE(exact.whole && exact.suspects.empty());
  EXPECT_EQ(exact.ToString(), "sums of 48 elements with random factors, all exact");
  const Projection off =
      Projected(c, kInt32, [](double, std::vector<double>* values) { values->at(100) += 3; });
  EXPECT_EQ(off.suspects.size(), 1u);
  EXPECT_EQ(off.inexact, 1);
  EXPECT_GT(off.worst, 0.5 * 3 / std::sqrt(48));
  EXPECT_LT(off.worst, 1.5 * 3 / std::sqrt(48));
  EXPECT_EQ(off.ToString().find("sums of 48 elements with random factors, 1 of them off, by 0."),
            0u)
      << off.ToString();
  EXPECT_EQ(off.ToString().find("inf"), std::string::npos);
}

// A few sums cannot say what rounding does to them.
TEST(ProjectionTest, OfFewSumsEachMustBeClose) {
  for (const int64_t n : {1, 500, 1024, 1500}) {
    ProductCase c;
    c.m = 1, c.n = n, c.k = 64, c.type = kBFloat16;
    EXPECT_TRUE(Projected(c, kBFloat16, [](double, std::vector<double>*) {}).whole);
    const Projection wrong = Projected(c, kBFloat16, [](double scale, std::vector<double>* values) {
      values->back() += 2 * scale;
    });
    ASSERT_FALSE(wrong.suspects.empty()) << n;
    EXPECT_EQ(wrong.suspects.front().back(), n - 1) << n;
  }
}

constexpr int64_t kSide = 96;
constexpr int64_t kTile = 16;

// The kernel's own numbers, which tests may make differ from the product.
class OwnReference : public Reference {
 public:
  using Value = std::function<double(uint64_t seed, int64_t element)>;
  OwnReference(Value value, int64_t* asked) : value_(std::move(value)), asked_(asked) {}
  absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int, const std::vector<int64_t>& elements) override {
    std::vector<ReferenceValue> values;
    for (const int64_t element : elements) values.push_back({value_(seed, element), true});
    *asked_ += static_cast<int64_t>(elements.size());
    return values;
  }

 private:
  const Value value_;
  int64_t* const asked_;
};

class FormulaCheckTest : public testing::Test {
 protected:
  FormulaCheckTest() {
    case_.m = case_.n = kSide;
    case_.k = 16;
    manifest_ = case_.Manifest();
    value_ = [this](uint64_t seed, int64_t element) {
      return case_.Value(manifest_, seed, element);
    };
    ComputeRight();
    Restart();
  }
  void Restart() {
    tensors_ = *TensorSet::Create(&device_, manifest_, 2, {1, 2});
    checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 30, [] {});
  }
  // The numbers of an honest kernel.
  void ComputeRight() {
    for (const uint64_t seed : {1, 2}) {
      std::vector<float>& right = right_[seed];
      right.clear();
      for (int64_t i = 0; i < kSide * kSide; ++i) {
        right.push_back(static_cast<float>(value_(seed, i)));
      }
    }
  }
  using Spoil = std::function<void(float* out, uint64_t seed)>;
  CheckReport Check(const Spoil& spoil, const std::string& config = "x=1") {
    device_.Define("k", {[&](const LaunchArguments& arguments) {
                     float* out = static_cast<float*>(arguments.pointers[2]);
                     const uint64_t seed = out == tensors_->Arguments(0, {}).pointers[2] ? 1 : 2;
                     std::vector<float> numbers = right_[seed];
                     spoil(numbers.data(), seed);
                     for (int64_t i = 0; i < kSide * kSide; ++i) {
                       if (numbers[static_cast<size_t>(i)] != kLeaveOut)
                         out[i] = numbers[static_cast<size_t>(i)];
                     }
                     if (beyond_ != 0)
                       reinterpret_cast<uint8_t*>(out + kSide * kSide)[beyond_ - 1] = 1;
                     return absl::OkStatus();
                   }});
    v1::ArtifactBundle bundle;
    bundle.set_name("k");
    const std::unique_ptr<LoadedKernel> kernel = *device_.Load(bundle, 0);
    Checker::Candidate candidate;
    candidate.config = config;
    candidate.kernel = kernel.get();
    candidate.manifest = &manifest_;
    candidate.make_reference = [this] {
      return absl::StatusOr<std::unique_ptr<Reference>>(
          std::make_unique<OwnReference>(value_, &asked_));
    };
    const absl::StatusOr<CheckReport> report = checker_->Check(candidate);
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }

  static constexpr float kLeaveOut = 1234567;
  v1::CheckPolicy policy_;
  ProductCase case_;
  BoundManifest manifest_;
  OwnReference::Value value_;
  FakeDevice device_;
  std::unique_ptr<TensorSet> tensors_;
  std::unique_ptr<Checker> checker_;
  std::map<uint64_t, std::vector<float>> right_;
  int64_t asked_ = 0;
  int beyond_ = 0;
};

void Nothing(float*, uint64_t) {}

TEST_F(FormulaCheckTest, TheProofSaysWhatWasUsedAndTheInterpreterDidLittle) {
  const CheckReport report = Check(Nothing);
  EXPECT_TRUE(report.passed) << report.failure.DebugString();
  EXPECT_NE(report.summary.find("72 elements sampled by A[m,k] B[k,n], one of every 16 x 16"),
            std::string::npos)
      << report.summary;
  EXPECT_EQ(asked_, 16);
}

TEST_F(FormulaCheckTest, AWrongTileAnywhereIsFoundWithTheFirstCandidate) {
  for (int64_t tile = 0; tile < (kSide / kTile) * (kSide / kTile); ++tile) {
    Restart();
    const int64_t row = tile / (kSide / kTile) * kTile, column = tile % (kSide / kTile) * kTile;
    const CheckReport report = Check([&](float* out, uint64_t) {
      for (int64_t i = 0; i < kTile; ++i) {
        for (int64_t j = 0; j < kTile; ++j) out[(row + i) * kSide + column + j] += 0.5f;
      }
    });
    EXPECT_FALSE(report.passed) << row << ", " << column;
    EXPECT_EQ(report.failure.message(), "wrong numbers");
  }
}

TEST_F(FormulaCheckTest, AWrongElementOfTheSampleIsFound) {
  const std::unique_ptr<Formula> formula = Confirmed(manifest_, value_);
  const FormulaSample sample = formula->Sample(2, 1, 2);
  for (size_t i = 0; i < sample.elements.size(); i += 17) {
    Restart();
    const CheckReport report = Check([&](float* out, uint64_t seed) {
      if (seed == 2) out[sample.elements[i]] *= 1.01f;
    });
    EXPECT_FALSE(report.passed) << sample.elements[i];
    EXPECT_NE(report.failure.witness().find("seed 2"), std::string::npos);
  }
}

// Nothing but the projections looks at all elements of the first candidate.
TEST_F(FormulaCheckTest, AWrongElementAnywhereIsFoundWithTheFirstCandidate) {
  for (int64_t at = 7; at < kSide * kSide; at += 389) {
    Restart();
    const CheckReport report = Check([&](float* out, uint64_t) { out[at] += 0.01f; });
    EXPECT_FALSE(report.passed) << at << ": " << report.summary;
    EXPECT_EQ(report.failure.message(), "wrong numbers");
    const std::string place = absl::StrCat("C[", at / kSide, ", ", at % kSide, "] got");
    EXPECT_NE(report.failure.witness().find(place), std::string::npos) << report.failure.witness();
  }
}

TEST_F(FormulaCheckTest, TwoElementsThatChangedPlacesAreFound) {
  for (int64_t at = 0; at + 35 < kSide; ++at) {
    Restart();
    const int64_t row = 31 * kSide + at;
    const CheckReport report =
        Check([&](float* out, uint64_t) { std::swap(out[row], out[row + 35]); });
    EXPECT_FALSE(report.passed) << at << ": " << report.summary;
  }
}

// What was compared with a candidate that another seed has convicted since proves nothing.
TEST_F(FormulaCheckTest, AComparisonWithAConvictedCandidateIsNoProof) {
  policy_.set_rtol(1e-9);
  policy_.set_atol(2e-3);
  Restart();
  const FormulaSample sample = Confirmed(manifest_, value_)->Sample(1, 0, 2);
  int64_t at = 20 * kSide + 20;
  while (std::count(sample.elements.begin(), sample.elements.end(), at) > 0) ++at;
  const CheckReport first = Check([&](float* out, uint64_t seed) {
    Rng random(seed);
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      out[i] += static_cast<float>(1.9e-3 * (2 * random.Uniform() - 1));
    }
    if (seed == 1) out[at] = right_[1][static_cast<size_t>(at)] + 5e-3f;
  });
  ASSERT_TRUE(first.passed) << first.failure.DebugString();
  ASSERT_TRUE(first.whole_output);  // as far as sums tell
  const CheckReport second = Check(Nothing, "x=2");
  ASSERT_TRUE(second.passed) << second.failure.DebugString();
  ASSERT_EQ(second.convicted.size(), 1u);
  EXPECT_FALSE(second.whole_output);
}

// Rounding alone arouses no suspicion: the interpreter is asked for nothing but the probes.
TEST_F(FormulaCheckTest, RoundingIsNoSuspect) {
  for (const double unit : {0.0, 1e-8, 1e-7}) {  // of a float32, whose half unit is 6e-8
    Restart();
    asked_ = 0;
    const CheckReport report = Check([&](float* out, uint64_t seed) {
      Rng random(seed);
      for (int64_t i = 0; i < kSide * kSide; ++i) {
        out[i] *= static_cast<float>(1 + unit * (2 * random.Uniform() - 1));
      }
    });
    EXPECT_TRUE(report.passed) << report.failure.DebugString();
    EXPECT_NE(report.summary.find("all 18432 elements in sums of 96 elements with random factors"),
              std::string::npos)
        << report.summary;
    EXPECT_EQ(asked_, 16);
  }
}

TEST_F(FormulaCheckTest, NaNsUnwrittenElementsAndWritesBeyondAreFoundAnywhere) {
  for (const int64_t at : {int64_t{5}, 50 * kSide + 33, kSide * kSide - 2}) {
    Restart();
    CheckReport report =
        Check([&](float* out, uint64_t) { out[at] = std::numeric_limits<float>::quiet_NaN(); });
    EXPECT_FALSE(report.passed);
    report = Check([&](float* out, uint64_t) { out[at] = kLeaveOut; });
    EXPECT_FALSE(report.passed);
    EXPECT_NE(report.failure.message().find("1 of 9216 elements of 'C' unwritten"),
              std::string::npos)
        << report.failure.message();
  }
  beyond_ = 9;
  const CheckReport report = Check(Nothing);
  EXPECT_FALSE(report.passed);
  EXPECT_NE(report.failure.message().find("8 bytes behind the end of 'C'"), std::string::npos);
}

// The program is a product but for its last rows: the formula is dropped, and nobody is blamed.
TEST_F(FormulaCheckTest, AFormulaThatIsNotTheKernelBlamesNobody) {
  value_ = [this](uint64_t seed, int64_t element) {
    return element / kSide >= kSide - 20 ? 7.0 : case_.Value(manifest_, seed, element);
  };
  ComputeRight();
  CheckReport report = Check(Nothing);
  EXPECT_TRUE(report.passed) << report.failure.DebugString();
  EXPECT_NE(report.summary.find("by the interpreter"), std::string::npos) << report.summary;
  report = Check([](float* out, uint64_t) { out[kSide * kSide - 1] = 8; }, "x=2");
  EXPECT_FALSE(report.passed);
}

}  // namespace
}  // namespace kiln::worker
