// Compiled matrix products against a plain triple loop in double, over ragged shapes, transposes,
// storage types and both vector widths; and the launch ABI.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>

#include "tests/util/compiled_program.h"
#include "tests/util/tile_programs.h"

namespace kiln {
namespace {

using testing::CompiledProgram;
using testing::MatmulShape;

struct Tensors {
  std::vector<uint8_t> a, b, c;
};

std::vector<uint8_t> RandomBytes(int64_t count, DType type, int seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<uint8_t> bytes(count * type.bytes());
  for (int64_t i = 0; i < count; ++i) StoreElement(&bytes[i * type.bytes()], type, uniform(rng));
  return bytes;
}

double At(const std::vector<uint8_t>& bytes, DType type, int64_t index) {
  return LoadElement(&bytes[index * type.bytes()], type);
}

double Expected(const MatmulShape& s, const Tensors& t, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < s.k; ++k) {
    sum += At(t.a, s.dtype, s.trans_a ? k * s.m + i : i * s.k + k) *
           At(t.b, s.dtype, s.trans_b ? j * s.k + k : k * s.n + j);
  }
  return sum;
}

void ExpectRight(const MatmulShape& s, int vector_bits) {
  auto program = CompiledProgram::Compile(testing::MatmulProgram(s), vector_bits);
  ASSERT_TRUE(program.ok()) << program.status();
  Tensors t{RandomBytes(s.m * s.k, s.dtype, 1), RandomBytes(s.k * s.n, s.dtype, 2),
            std::vector<uint8_t>(s.m * s.n * s.dtype.bytes() + 64, 0xff)};
  ASSERT_EQ(program->Run({t.a.data(), t.b.data(), t.c.data()}), 0);
  const double step = s.dtype == kFloat32 ? 1e-5 : s.dtype == kFloat16 ? 2e-3 : 2e-2;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const double expected = Expected(s, t, i, j);
      ASSERT_NEAR(At(t.c, s.dtype, i * s.n + j), expected, step * (1 + std::abs(expected)))
          << i << "," << j << " of " << s.m << "x" << s.n << "x" << s.k << " blocks " << s.block_m
          << "x" << s.block_n << "x" << s.block_k << " trans " << s.trans_a << s.trans_b;
    }
  }
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(t.c[s.m * s.n * s.dtype.bytes() + i], 0xff) << "wrote past the end of C";
  }
}

class GemmTest : public ::testing::TestWithParam<int> {};

TEST_P(GemmTest, WholeAndRaggedShapes) {
  for (const MatmulShape& s : {
           MatmulShape{64, 64, 64, 32, 32, 32},
           MatmulShape{64, 96, 32, 28, 48, 16},
           MatmulShape{37, 29, 53, 16, 16, 16},
           MatmulShape{100, 130, 70, 64, 128, 64},
           MatmulShape{33, 65, 17, 64, 128, 32},
           MatmulShape{5, 7, 3, 16, 16, 16},
           MatmulShape{1, 1, 1, 16, 16, 16},
           MatmulShape{45, 40, 64, 45, 40, 13},
       }) {
    ExpectRight(s, GetParam());
  }
}

TEST_P(GemmTest, FewRowsStreamB) {
  for (const int64_t m : {1, 2, 3, 4}) {
    ExpectRight({m, 96, 40, m, 48, 20}, GetParam());
    ExpectRight({m, 50, 37, m, 32, 16}, GetParam());
  }
}

TEST_P(GemmTest, Transposes) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      MatmulShape s{50, 44, 36, 32, 32, 16};
      s.trans_a = ta;
      s.trans_b = tb;
      ExpectRight(s, GetParam());
      s.block_m = 2;
      ExpectRight(s, GetParam());
    }
  }
}

TEST_P(GemmTest, NarrowStorageTypes) {
  for (const DType type : {kFloat16, kBFloat16}) {
    for (const bool tb : {false, true}) {
      MatmulShape s{40, 72, 48, 32, 64, 16};
      s.dtype = type;
      s.trans_b = tb;
      ExpectRight(s, GetParam());
    }
  }
}

TEST_P(GemmTest, IntegersAreExact) {
  MatmulShape s{40, 40, 40, 32, 32, 32};
  s.dtype = s.accum = kInt32;
  auto program = CompiledProgram::Compile(testing::MatmulProgram(s), GetParam());
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<int32_t> a(1600), b(1600), c(1600);
  for (int i = 0; i < 1600; ++i) a[i] = i % 17 - 8, b[i] = i % 13 - 6;
  ASSERT_EQ(program->Run({a.data(), b.data(), c.data()}), 0);
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 40; ++j) {
      int32_t sum = 0;
      for (int k = 0; k < 40; ++k) sum += a[i * 40 + k] * b[k * 40 + j];
      ASSERT_EQ(c[i * 40 + j], sum);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, GemmTest, ::testing::Values(0, 256));

// ---- the launch ABI ----

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto compiled = CompiledProgram::Compile(testing::MatmulProgram({96, 96, 32, 16, 16, 32}));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    program_ = *std::move(compiled);
    a_.assign(96 * 32, 1.0f);
    b_.assign(32 * 96, 0.5f);
    c_.assign(96 * 96, -1.0f);
  }
  void ExpectComputed() {
    for (const float v : c_) ASSERT_EQ(v, 16.0f);
  }
  std::vector<void*> Pointers() { return {a_.data(), b_.data(), c_.data()}; }

  CompiledProgram program_;
  std::vector<float> a_, b_, c_;
};

TEST_F(LaunchTest, NullPointersAreRefused) {
  EXPECT_EQ(program_.Run({nullptr, b_.data(), c_.data()}), KILN_ERROR_ARGUMENT);
  EXPECT_EQ(program_.Run({a_.data(), b_.data(), nullptr}), KILN_ERROR_ARGUMENT);
}

TEST_F(LaunchTest, AnyThreadCountComputesTheSame) {
  for (const int threads : {0, 1, 2, 3, 64}) {
    kiln_launch launch = {};
    launch.size = sizeof(launch);
    launch.version = 1;
    launch.threads = threads;
    c_.assign(c_.size(), -1.0f);
    ASSERT_EQ(program_.Run(Pointers(), &launch), 0);
    ExpectComputed();
  }
}

struct CountingPool {
  std::atomic<int64_t> tasks{0};
};

void RunOnThreads(void* pool, int64_t count, kiln_task task, void* context) {
  std::vector<std::thread> threads;
  std::atomic<int64_t> next{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = next++; i < count; i = next++) {
        task(context, i);
        ++static_cast<CountingPool*>(pool)->tasks;
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(LaunchTest, TheCallersPoolIsUsed) {
  CountingPool pool;
  kiln_launch launch = {};
  launch.size = sizeof(launch);
  launch.version = 1;
  launch.parallel_for = RunOnThreads;
  launch.pool = &pool;
  ASSERT_EQ(program_.Run(Pointers(), &launch), 0);
  ExpectComputed();
  EXPECT_EQ(pool.tasks, 36);
}

TEST_F(LaunchTest, ConcurrentCallsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const float scale = 1.0f + t;
      std::vector<float> a(96 * 32, scale), c(96 * 96);
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::fill(c.begin(), c.end(), -1.0f);
        if (program_.Run({a.data(), b_.data(), c.data()}) != 0) ++wrong;
        for (const float v : c) wrong += v != 16.0f * scale;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(LaunchTest, AnOlderCallersShorterStructIsUnderstood) {
  kiln_launch launch = {};
  launch.size = offsetof(kiln_launch, threads) + sizeof(int32_t);
  launch.version = 1;
  launch.threads = 1;
  launch.parallel_for = reinterpret_cast<kiln_parallel_for>(1);  // beyond `size`: must not be read
  ASSERT_EQ(program_.Run(Pointers(), &launch), 0);
  ExpectComputed();
}

}  // namespace
}  // namespace kiln
