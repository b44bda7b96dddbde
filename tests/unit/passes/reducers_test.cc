// Reducers: what T.alloc_reducer, its updates and T.finalize_reducer compute, on tiles and on the
// block's threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/interp/interp.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

// A: float32[12, 20] -> B: float32[32].
std::string Kernel(int threads, const std::string& body) {
  return testing::KernelAround(threads, 32, "(12, 20)", body);
}

using Expected = std::function<double(const std::function<double(int, int)>& a, int i)>;

void ExpectReduces(const std::string& body, int results, const Expected& expected) {
  for (const int threads : {1, 32, 96, 128}) {
    const auto program = testing::Elaborated("k.py", Kernel(threads, body));
    ASSERT_TRUE(program.ok()) << program.status() << body;
    interp::Options options;
    options.clip_global = true;
    const std::vector<interp::Tensor> args = *interp::RandomArguments(*program, options, 7);
    std::vector<interp::TensorView> views;
    for (const interp::Tensor& tensor : args) views.push_back(tensor.View());
    const auto ran = interp::Run(*program, views, options);
    ASSERT_TRUE(ran.ok()) << ran.status() << body;
    const auto a = [&](int i, int j) { return views[0].Get(i * 20 + j); };
    for (int i = 0; i < results; ++i) {
      ASSERT_NEAR(views[1].Get(i), expected(a, i), 1e-4) << body << " at " << i;
    }
    std::string why;
    EXPECT_EQ(testing::CheckThreads(*program, 5, 0, &why), testing::Verdict::kSame) << why << body;
  }
}

double Fold(int n, double start, const std::function<double(double, int)>& step) {
  for (int i = 0; i < n; ++i) start = step(start, i);
  return start;
}

TEST(Reducers, FoldTheAxesThatTheyDoNotName) {
  const auto row = [](const auto& a, int i) {
    return Fold(20, 0, [&](double s, int j) { return s + a(i, j); });
  };
  for (const char* copies : {"", ", replication=\"all\"", ", replication=\"none\""}) {
    ExpectReduces(absl::StrCat(R"(r = T.alloc_reducer((12,), T.float32, op="sum")", copies, R"()
T.clear(r)
for i, j in T.Parallel(12, 20):
    r[i] += A[i, j]
T.finalize_reducer(r)
T.copy(r, B[0:12]))"),
                  12, row);
  }
  ExpectReduces(R"(r = T.alloc_reducer((20,), T.float32, op="max")
T.fill(r, -T.infinity(T.float32))
for j, i in T.Parallel(20, 12):
    r[j] = T.max(r[j], A[i, j])
T.finalize_reducer(r)
T.copy(r, B[0:20]))",
                20, [](const auto& a, int j) {
                  return Fold(12, -1e9, [&](double s, int i) { return std::max(s, a(i, j)); });
                });
  ExpectReduces(R"(r = T.alloc_reducer(1, T.float32, op="min")
for i, j in T.Parallel(12, 20):
    r[0] = T.min(A[i, j] + 1, r[0])
T.finalize_reducer(r)
B[0] = r[0])",
                1, [](const auto& a, int) {
                  return Fold(240, 1e9,
                              [&](double s, int x) { return std::min(s, a(x / 20, x % 20) + 1); });
                });
}

TEST(Reducers, AccumulateOverLoopsAndStartFromWhatTheyWereFilledWith) {
  ExpectReduces(R"(r = T.alloc_reducer((12,), T.float32)
T.fill(r, 100)
for k in T.serial(5):
    for i, j in T.Parallel(12, 4):
        if (i + j) % 3 != 0:
            r[i] -= A[i, k * 4 + j]
for i, j in T.Parallel(12, 20):
    r[i] = A[i, j] + r[i] + 1
T.finalize_reducer(r)
T.copy(r, B[0:12]))",
                12, [](const auto& a, int i) {
                  return Fold(20, 120, [&](double s, int j) {
                    return s + a(i, j) - ((i + j % 4) % 3 != 0 ? a(i, j) : 0);
                  });
                });
}

TEST(Reducers, AreUsedAgainOnceTheyAreCleared) {
  ExpectReduces(R"(r = T.alloc_reducer((12,), T.float32)
t = T.alloc_fragment((12,), T.float32)
T.clear(t)
for k in T.serial(2):
    T.clear(r)
    for i, j in T.Parallel(12, 10):
        r[i] += A[i, k * 10 + j]
    T.finalize_reducer(r)
    for i in T.Parallel(12):
        t[i] += r[i] * (k + 1)
T.copy(t, B[0:12]))",
                12, [](const auto& a, int i) {
                  return Fold(20, 0, [&](double s, int j) { return s + a(i, j) * (j / 10 + 1); });
                });
}

TEST(Reducers, StartFromNothingAndAreClearedLater) {
  ExpectReduces(R"(r = T.alloc_reducer((12,), T.float32)
t = T.alloc_fragment((12,), T.float32)
for i, j in T.Parallel(12, 20):
    r[i] += A[i, j]
T.finalize_reducer(r)
T.copy(r, t)
T.clear(r)
for i, j in T.Parallel(12, 10):
    r[i] += A[i, j]
T.finalize_reducer(r)
for i in T.Parallel(12):
    B[i] = t[i] - r[i])",
                12, [](const auto& a, int i) {
                  return Fold(10, 0, [&](double s, int j) { return s + a(i, j + 10); });
                });
  ExpectReduces(R"(for k in T.serial(3):
    r = T.alloc_reducer((12,), T.float32)
    for i, j in T.Parallel(12, 6):
        r[i] += A[i, k * 6 + j]
    T.finalize_reducer(r)
    T.copy(r, B[0:12]))",
                12, [](const auto& a, int i) {
                  return Fold(6, 0, [&](double s, int j) { return s + a(i, j + 12); });
                });
}

TEST(Reducers, TakeEachIterationOnceWhicheverAxesNameTheirPlace) {
  ExpectReduces(R"(r = T.alloc_reducer((12,), T.float32)
for i, j in T.Parallel(12, 12):
    r[i] += A[i, j]
    r[j] += A[i, j]
    r[3] += 1
T.finalize_reducer(r)
T.copy(r, B[0:12]))",
                12, [](const auto& a, int i) {
                  return Fold(12, i == 3 ? 144 : 0,
                              [&](double s, int j) { return s + a(i, j) + a(j, i); });
                });
  ExpectReduces(R"(r = T.alloc_reducer((4, 4), T.float32)
for i, j in T.Parallel(4, 4):
    r[i, j] += A[i, j]
    r[j, i] += A[i, j] * 2
T.finalize_reducer(r)
for i, j in T.Parallel(4, 4):
    B[i * 4 + j] = r[i, j])",
                16, [](const auto& a, int x) { return a(x / 4, x % 4) + 2 * a(x % 4, x / 4); });
  const auto narrow =
      testing::Elaborated("k.py", Kernel(32, R"(r = T.alloc_reducer((12,), T.int8, "min")
for i, j in T.Parallel(12, 20):
    r[i] = T.min(r[i], T.cast(A[i, j], T.int32))
T.finalize_reducer(r))"));
  ASSERT_FALSE(narrow.ok());
  EXPECT_NE(narrow.status().message().find("of int8 is updated by values of int32"),
            std::string::npos)
      << narrow.status();
  const auto wraps = testing::Elaborated("k.py", Kernel(32, R"(r = T.alloc_reducer((1,), T.int32)
for i in T.Parallel(12):
    r[0] = T.cast(T.cast(r[0], T.uint8) + T.cast(A[i, 0], T.uint8), T.int32)
T.finalize_reducer(r))"));
  ASSERT_FALSE(wraps.ok());
  EXPECT_NE(wraps.status().message().find("another operation than its own"), std::string::npos);
}

TEST(Reducers, TakeContributionsFromEveryPartOfTheBlock) {
  for (const char* copies : {"", ", replication=\"all\""}) {
    const auto program = testing::Elaborated(
        "k.py", Kernel(256, absl::StrCat("r = T.alloc_reducer((12,), T.float32", copies, R"()
T.clear(r)
with T.ws(0):
    for i, j in T.Parallel(12, 7):
        r[i] += A[i, j]
with T.ws(1):
    for i, j in T.Parallel(12, 13):
        r[i] += A[i, 7 + j]
T.finalize_reducer(r)
T.copy(r, B[0:12]))")));
    ASSERT_TRUE(program.ok()) << program.status();
    std::string why;
    EXPECT_EQ(testing::CheckThreads(*program, 5, 0, &why), testing::Verdict::kSame) << why;
  }
  const auto own = testing::Elaborated(
      "k.py", Kernel(256, R"(r = T.alloc_reducer((12,), T.float32, replication="all")
with T.ws(1):
    T.clear(r)
    for i, j in T.Parallel(12, 20):
        r[i] += A[i, j]
    T.finalize_reducer(r)
    T.copy(r, B[0:12]))"));
  ASSERT_TRUE(own.ok()) << own.status();
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*own, 5, 0, &why), testing::Verdict::kSame) << why;
}

TEST(Reducers, WhatTheyCannotDoIsRefused) {
  const std::pair<const char*, const char*> kCases[] = {
      {"B[0] = r[0]", "is read before it is finalised"},
      {"T.copy(r, B[0:12])", "is read before it is finalised"},
      {"T.finalize_reducer(r)\nfor i, j in T.Parallel(12, 20):\n    r[i] += A[i, j]",
       "is updated after it is finalised"},
      {"for k in T.serial(2):\n    for i, j in T.Parallel(12, 20):\n        r[i] += A[i, j]\n    "
       "T.finalize_reducer(r)",
       "is updated after it is finalised"},
      {"for i, j in T.Parallel(12, 20):\n    r[i] = A[i, j]",
       "is stored to by another operation than its own"},
      {"for i, j in T.Parallel(12, 20):\n    r[i] *= A[i, j]", "write x[i] += value"},
      {"for i, j in T.Parallel(12, 20):\n    r[i] = T.max(r[i], A[i, j])",
       "is stored to by another operation than its own"},
      {"for i, j in T.Parallel(12, 20):\n    r[i // 2] += A[i, j]",
       "a place that is computed from an axis"},
      {"T.finalize_reducer(r)\nT.finalize_reducer(r)", "is finalised twice"},
      {"for k in T.serial(2):\n    T.finalize_reducer(r)", "is finalised twice"},
      {"if A[0, 0] > 0:\n    T.finalize_reducer(r)\nB[0] = r[0]", "is read before it is finalised"},
      {"for s in T.serial(4):\n    for i, j in T.Parallel(12, s + 1):\n        r[i] += A[i, j]",
       "in a loop whose extent is not known"},
      {"for i, j in T.Parallel(12, 20):\n    r[i] += A[i, j]", "is never finalised"},
      {"for k in T.serial(T.cast(r[0], T.int32)):\n    B[k] = 1\nT.finalize_reducer(r)",
       "is read before"},
      {"T.clear(r[0:3])", "is filled in part"},
      {"T.copy(B[0:12], r)", "is written as a whole"},
      {"w = T.view(r, (3, 4))", "a view of the reducer 'r'"},
      {"T.finalize_reducer(A)", "which is no reducer"},
      {"q = T.alloc_reducer((4,), T.float32, op=\"mul\")", "a reducer by 'mul'"},
      {"q = T.alloc_reducer((4,), T.float32, replication=\"some\")", "the replication 'some'"},
  };
  for (const auto& [body, message] : kCases) {
    const auto program = testing::Elaborated(
        "k.py", Kernel(32, absl::StrCat("r = T.alloc_reducer((12,), T.float32)\n", body)));
    ASSERT_FALSE(program.ok()) << body;
    EXPECT_NE(program.status().message().find(message), std::string::npos)
        << body << "\n"
        << program.status().message();
  }
}

}  // namespace
}  // namespace kiln
