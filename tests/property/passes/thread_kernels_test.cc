// Kernels that speak of threads (tests/golden/lang/threads.py): the numbers that they compute, as
// tiles, on threads that meet only where plant-barriers makes them, and as GPUs run them, against
// numbers computed here. A loop over threads that should have ended shows as a race, or as numbers
// that depend on the order of the threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/merge_threads.h"
#include "tests/util/gpu_programs.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

using interp::TensorView;

constexpr char kFile[] = "tests/golden/lang/threads.py";
constexpr const char* kGpus[] = {"sm_80", "sm_90a"};

std::string Text() {
  std::ifstream in(kFile);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

absl::StatusOr<ir::Program> Entry(const std::string& entry, const lang::Arguments& arguments,
                                  const std::string& text = Text()) {
  auto file = std::make_shared<SourceFile>();
  file->path = kFile;
  file->text = text;
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, entry));
  return lang::Elaborate(kernel, arguments, {});
}

// The tensors of `program`: numbers from -3 to 3 before and what is there after.
struct Numbers {
  std::vector<interp::Tensor> before, after;
  double In(size_t tensor, int64_t i) const { return before[tensor].View().Get(i); }
  double Out(size_t tensor, int64_t i) const { return after[tensor].View().Get(i); }
};

void Compute(const ir::Program& program, interp::Order order, Numbers* numbers) {
  std::vector<TensorView> views;
  numbers->before = testing::SmallIntegers(program, 7);
  numbers->after = testing::SmallIntegers(program, 7, &views);
  interp::Options options;
  options.order = order;
  options.clip_global = true;
  const auto ran = interp::Run(program, views, options);
  ASSERT_TRUE(ran.ok()) << ran.status() << ir::ToString(program);
}

// `check` says what is wrong with the numbers.
void ExpectComputes(const std::string& entry, const lang::Arguments& arguments, double tolerance,
                    const std::function<std::string(const Numbers&)>& check,
                    const std::string& text = Text()) {
  SCOPED_TRACE(entry);
  const auto program = Entry(entry, arguments, text);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
    Numbers numbers;
    ASSERT_NO_FATAL_FAILURE(Compute(*program, order, &numbers));
    EXPECT_EQ(check(numbers), "") << ir::ToString(*program);
  }
  const auto merged = passes::MergeThreads(*program, {});
  ASSERT_TRUE(merged.ok()) << merged.status();
  Numbers numbers;
  ASSERT_NO_FATAL_FAILURE(Compute(*merged, interp::Order::kForward, &numbers));
  EXPECT_EQ(check(numbers), "") << ir::ToString(*merged);
  for (const uint64_t seed : {1, 2}) {
    std::string why;
    EXPECT_EQ(testing::CheckThreads(*program, seed, tolerance, &why), testing::Verdict::kSame)
        << why;
  }
  for (const std::string gpu : kGpus) {
    const auto instructions = testing::Instructions(*program, gpu);
    ASSERT_TRUE(instructions.ok()) << gpu << instructions.status();
    EXPECT_EQ(testing::Difference(*program, *instructions, tolerance), "")
        << gpu << ir::ToString(*instructions);
  }
}

std::string Wrong(const std::string& what, int64_t at, double got, double want) {
  return absl::StrCat(what, " ", at, " is ", got, ", not ", want);
}

bool Near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

TEST(ThreadKernels, WalshTransformByShuffles) {
  ExpectComputes("walsh", {{"rows", "3"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t i = 0; i < 512; ++i) {
        double want = 0;
        for (int64_t j = 0; j < 512; ++j) {
          want += (__builtin_popcountll(i & j) % 2 == 0 ? 1 : -1) * n.In(0, row * 512 + j);
        }
        const double got = n.Out(1, row * 512 + i);
        if (got != want) return Wrong("element", row * 512 + i, got, want);
      }
    }
    return "";
  });
}

TEST(ThreadKernels, MatrixByVectorWhereThreadsShareRows) {
  ExpectComputes("matrix_vector", {{"m", "40"}, {"k", "200"}}, 0,
                 [](const Numbers& n) -> std::string {
                   for (int64_t row = 0; row < 40; ++row) {
                     double want = 0;
                     for (int64_t k = 0; k < 200; ++k) want += n.In(0, row * 200 + k) * n.In(1, k);
                     if (n.Out(2, row) != want) return Wrong("row", row, n.Out(2, row), want);
                   }
                   return "";
                 });
}

TEST(ThreadKernels, RunningSums) {
  ExpectComputes("scan", {{"n", "300"}}, 0, [](const Numbers& n) -> std::string {
    double want = 0;
    for (int64_t i = 0; i < 300; ++i) {
      want = (i % 128 == 0 ? 0 : want) + n.In(0, i);
      if (n.Out(1, i) != want) return Wrong("element", i, n.Out(1, i), want);
    }
    return "";
  });
}

// The columns of B, for a thread of value a.
std::vector<int64_t> VotesOf(const std::vector<int64_t>& block, int64_t thread) {
  const int64_t first = thread / 32 * 32, lane = thread % 32, a = block[thread];
  const auto lanes = [&](const std::function<bool(int64_t)>& holds) {
    uint32_t bits = 0;
    for (int64_t l = 0; l < 32; ++l) bits |= (holds(first + l) ? 1u : 0u) << l;
    return static_cast<int64_t>(static_cast<int32_t>(bits));
  };
  const auto warp = [&](const std::function<bool(int64_t)>& holds) {
    return lanes([&](int64_t t) { return holds(block[t]); });
  };
  const auto in_block = [&](const std::function<bool(int64_t)>& holds) {
    return std::count_if(block.begin(), block.end(), holds);
  };
  int64_t most = -9, least = 9, sum = 0;
  for (int64_t l = 0; l < 32; ++l) {
    most = std::max(most, block[first + l]);
    least = std::min(least, block[first + l]);
    sum += block[first + l];
  }
  const bool chosen = thread % 3 != 1;
  const int64_t there = lane + 3 < 32 ? thread + 3 : thread;
  return {
      warp([](int64_t x) { return x > 0; }),
      warp([](int64_t x) { return x == 3; }) != 0 ? 1 : 0,
      warp([](int64_t x) { return x < 3; }) == -1 ? 1 : 0,
      warp([&](int64_t x) { return x == a; }),
      -1,
      in_block([](int64_t x) { return x > 1; }),
      (in_block([](int64_t x) { return x < 4; }) == 96 ? 2 : 0) +
          (in_block([](int64_t x) { return x == 3; }) > 0 ? 1 : 0),
      most * 100 + least,
      chosen ? lanes([](int64_t t) { return t % 3 != 1; }) : block[thread / 8 * 8 + 4],
      chosen ? block[there] : sum,
  };
}

TEST(ThreadKernels, Votes) {
  ExpectComputes("votes", {{"n", "192"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t i = 0; i < 192; ++i) {
      std::vector<int64_t> block;
      for (int64_t t = 0; t < 96; ++t) {
        block.push_back(static_cast<int64_t>(n.In(0, i / 96 * 96 + t)));
      }
      const std::vector<int64_t> want = VotesOf(block, i % 96);
      for (int64_t column = 0; column < 10; ++column) {
        // What a thread hears from one that the condition leaves out is not defined.
        const int64_t thread = i % 96, lane = thread % 32;
        const bool chosen = thread % 3 != 1;
        const int64_t asked = chosen ? thread + (lane + 3 < 32 ? 3 : 0) : thread / 8 * 8 + 4;
        const bool shuffled = column == (chosen ? 9 : 8);
        if (shuffled && (asked % 3 != 1) != chosen) continue;
        if (column == 9 && !chosen) continue;
        const double got = n.Out(1, i * 10 + column);
        if (got != static_cast<double>(want[column])) {
          return Wrong(absl::StrCat("thread ", i, ", column"), column, got,
                       static_cast<double>(want[column]));
        }
      }
    }
    return "";
  });
}

TEST(ThreadKernels, SoftmaxByAllReduce) {
  ExpectComputes("softmax", {{"rows", "9"}, {"n", "50"}}, 1e-5,
                 [](const Numbers& n) -> std::string {
                   for (int64_t row = 0; row < 9; ++row) {
                     double sum = 0;
                     for (int64_t k = 0; k < 50; ++k) sum += std::exp(n.In(0, row * 50 + k));
                     for (int64_t k = 0; k < 50; ++k) {
                       const double want = std::exp(n.In(0, row * 50 + k)) / sum;
                       const double got = n.Out(1, row * 50 + k);
                       if (!Near(got, want, 1e-5)) return Wrong("element", k, got, want);
                     }
                   }
                   return "";
                 });
}

TEST(ThreadKernels, AllReduceOverBothAxes) {
  ExpectComputes("total", {{"n", "512"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t block = 0; block < 2; ++block) {
      double want = 0;
      for (int64_t i = 0; i < 256; ++i) want += n.In(0, block * 256 + i);
      if (n.Out(1, block) != want) return Wrong("block", block, n.Out(1, block), want);
    }
    return "";
  });
}

std::string SumsOf256(const Numbers& n) {
  for (int64_t block = 0; block < 4; ++block) {
    double want = 0;
    for (int64_t i = block * 256; i < std::min<int64_t>(1000, block * 256 + 256); ++i) {
      want += n.In(0, i);
    }
    if (n.Out(1, block) != want) return Wrong("block", block, n.Out(1, block), want);
  }
  return "";
}

TEST(ThreadKernels, TreeInSharedMemory) { ExpectComputes("tree", {{"n", "1000"}}, 0, SumsOf256); }

TEST(ThreadKernels, PlacesOutsideOfAWindow) {
  ExpectComputes("mask", {{"rows", "5"}, {"n", "700"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t row = 0; row < 5; ++row) {
      const double first = n.In(1, row), last = n.In(2, row);
      for (int64_t i = 0; i < 700; ++i) {
        const auto at = static_cast<double>(i);
        double want = n.In(0, row * 700 + i);
        if (at == first || at == last) want = 100;
        if (at < first || at > last) want = -100;
        const double got = n.Out(0, row * 700 + i);
        if (got != want) return Wrong("element", row * 700 + i, got, want);
      }
    }
    return "";
  });
}

TEST(ThreadKernels, BetweenTilesOfTheBlock) {
  ExpectComputes("largest", {{"m", "64"}, {"n", "64"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t row = 0; row < 64; ++row) {
      double best = -1e9;
      int64_t where = 0;
      for (int64_t j = 0; j < 64; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 64; ++k) sum += n.In(0, row * 64 + k) * n.In(1, j * 64 + k);
        if (sum > best) best = sum, where = j;
      }
      if (n.Out(2, row) != best) return Wrong("row", row, n.Out(2, row), best);
      if (n.Out(3, row) != static_cast<double>(where)) {
        return Wrong("the place in row", row, n.Out(3, row), static_cast<double>(where));
      }
    }
    return "";
  });
}

TEST(ThreadKernels, TileOperationsOfSomeWarps) {
  ExpectComputes("parts", {{"n", "4"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t i = 0; i < 4 * 32; ++i) {
      double want = 0;
      for (int64_t j = 0; j < 32; ++j) {
        want += n.In(0, i * 32 + j);
        if (n.Out(1, i * 32 + j) != n.In(0, i * 32 + j)) return absl::StrCat("copy of row ", i);
      }
      if (n.Out(2, i) != want) return Wrong("row", i, n.Out(2, i), want);
    }
    return "";
  });
}

TEST(ThreadKernels, TilesThatAreFetchedAhead) {
  for (const char* stages : {"0", "2", "3"}) {
    ExpectComputes("fetched", {{"m", "256"}, {"k", "192"}, {"stages", stages}}, 0,
                   [](const Numbers& n) -> std::string {
                     for (int64_t row = 0; row < 256; ++row) {
                       double want = 0;
                       for (int64_t k = 0; k < 192; ++k) {
                         want += n.In(0, row * 192 + k) * n.In(1, k);
                       }
                       if (n.Out(2, row) != want) return Wrong("row", row, n.Out(2, row), want);
                     }
                     return "";
                   });
  }
}

TEST(ThreadKernels, WarpgroupsOfThreads) {
  ExpectComputes("groups", {{"n", "512"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t i = 0; i < 512; ++i) {
      const int64_t first = i / 128 * 128;
      const double want = 2 * n.In(0, first + 127 - i % 128) + n.In(0, i ^ 1);
      if (n.Out(1, i) != want) return Wrong("element", i, n.Out(1, i), want);
    }
    return "";
  });
}

TEST(ThreadKernels, RoundsOfThreadsTilesAndExchanges) {
  ExpectComputes("rounds", {{"n", "3"}}, 0, [](const Numbers& n) -> std::string {
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<double> mine(128), shared(128);
      for (int64_t t = 0; t < 128; ++t) mine[t] = n.In(0, row * 128 + t);
      for (int64_t step = 0; step < 4; ++step) {
        for (int64_t t = 0; t < 128; ++t) shared[127 - t] = mine[t] + static_cast<double>(step);
        const double most = 2 * *std::max_element(shared.begin(), shared.end());
        const std::vector<double> before = mine;
        for (int64_t t = 0; t < 128; ++t) {
          const int64_t below = t % 32 + step < 32 ? t + step : t;
          mine[t] += step % 2 == 0 ? most : before[below] - shared[t];
        }
      }
      for (int64_t t = 0; t < 128; ++t) {
        const double got = n.Out(1, row * 128 + t);
        if (got != mine[t]) return Wrong("element", row * 128 + t, got, mine[t]);
      }
    }
    return "";
  });
}

TEST(ThreadKernels, CountsInSharedAndGlobalMemory) {
  ExpectComputes("histogram", {{"n", "300"}}, 0, [](const Numbers& n) -> std::string {
    std::vector<double> want(8);
    for (int64_t i = 0; i < 300; ++i) want[static_cast<int64_t>(n.In(0, i)) & 7] += 1;
    for (int64_t i = 0; i < 8; ++i) {
      if (n.Out(1, i) != want[i]) return Wrong("count", i, n.Out(1, i), want[i]);
    }
    return "";
  });
}

TEST(ThreadKernels, UpdatesTellEachThreadWhatWasBefore) {
  ExpectComputes("tickets", {{"n", "200"}}, 0, [](const Numbers& n) -> std::string {
    double found = 0, tickets = 0;
    for (int64_t block = 0; block < 2; ++block) {
      double count = 0;
      for (int64_t i = block * 128; i < std::min<int64_t>(200, block * 128 + 128); ++i) {
        if (n.In(0, i) > 0) tickets += count++;
      }
      found += count;
    }
    if (n.Out(1, 0) != found) return Wrong("number", 0, n.Out(1, 0), found);
    if (n.Out(1, 1) != tickets) return Wrong("number", 1, n.Out(1, 1), tickets);
    if (n.Out(1, 2) != 2 * 128 * 127 / 2) return Wrong("number", 2, n.Out(1, 2), 128 * 127);
    return "";
  });
}

// `body` of two blocks of threads, of which each is `tx`, on A and B of 256 numbers and C of 4.
void ExpectOfThreads(const std::string& body,
                     const std::function<std::string(const Numbers&)>& check, int threads = 128) {
  std::string text = absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def kernel(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32"),
           C: T.Tensor((4,), "int32")):
    with T.Kernel(2, threads=)",
                                  threads, ") as bx:\n        tx = T.get_thread_binding()\n");
  for (const absl::string_view line : absl::StrSplit(body, '\n')) {
    absl::StrAppend(&text, "        ", line, "\n");
  }
  ExpectComputes("kernel", {}, 0, check, text);
}

// B as `want` says of each block's threads; nullopt: as it was.
std::function<std::string(const Numbers&)> EachIs(
    const std::function<std::optional<double>(const Numbers&, int64_t block, int64_t t)>& want,
    int64_t threads = 128) {
  return [=](const Numbers& n) -> std::string {
    for (int64_t i = 0; i < 2 * threads; ++i) {
      const double value = want(n, i / threads, i % threads).value_or(n.In(1, i));
      if (n.Out(1, i) != value) return Wrong("element", i, n.Out(1, i), value);
    }
    return "";
  };
}

TEST(ThreadKernels, WhatOneStoresAnotherStoresAgain) {
  ExpectOfThreads(
      "s = T.alloc_shared((128,), 'int32')\ns[tx] = A[bx * 128 + tx]\n"
      "s[(tx + 1) % 128] = A[bx * 128 + tx] * 2\nB[bx * 128 + tx] = s[tx]",
      EachIs([](const Numbers& n, int64_t block, int64_t t) -> std::optional<double> {
        return 2 * n.In(0, block * 128 + (t + 127) % 128);
      }));
}

TEST(ThreadKernels, PassedOnUnderAConditionOfTheBlock) {
  ExpectOfThreads(
      "s = T.alloc_shared((128,), 'int32')\nif bx == 1:\n    s[tx] = A[tx]\n"
      "    B[128 + tx] = s[127 - tx]\nelse:\n    B[tx] = 5",
      EachIs([](const Numbers& n, int64_t block, int64_t t) -> std::optional<double> {
        return block == 1 ? n.In(0, 127 - t) : 5;
      }));
}

TEST(ThreadKernels, PlacesThatMoveWithTheBlock) {
  ExpectOfThreads(
      "s = T.alloc_shared((130,), 'int32')\ns[tx + bx] = A[bx * 128 + tx]\n"
      "if tx > 0:\n    B[bx * 128 + tx] = s[tx]",
      EachIs([](const Numbers& n, int64_t block, int64_t t) -> std::optional<double> {
        if (t == 0) return std::nullopt;
        return n.In(0, block == 0 ? t : 128 + t - 1);
      }));
}

// The same update by all threads is one of each.
TEST(ThreadKernels, UpdatesThatAreAlike) {
  ExpectOfThreads("B[bx * 128 + tx] = 1\nT.atomic_add(C[2], 3)", [](const Numbers& n) {
    const double want = n.In(2, 2) + 3 * 256;
    return n.Out(2, 2) == want ? "" : Wrong("number", 2, n.Out(2, 2), want);
  });
}

TEST(ThreadKernels, ConditionsWithinConditions) {
  const auto both = [](int64_t t) { return t % 2 == 0 && t % 3 == 0; };
  ExpectOfThreads(
      "if tx % 2 == 0:\n    some = T.activemask()\n    if tx % 3 == 0:\n"
      "        B[bx * 128 + tx] = T.cast(T.activemask(), 'int32')\n"
      "    else:\n        C[3] = T.cast(some, 'int32')",
      EachIs([&](const Numbers&, int64_t, int64_t t) -> std::optional<double> {
        if (!both(t)) return std::nullopt;
        uint32_t bits = 0;
        for (int64_t l = 0; l < 32; ++l) {
          bits |= (both(t / 32 * 32 + l) ? 1u : 0u) << l;
        }
        return static_cast<int32_t>(bits);
      }));
}

// What is the same for all threads is not done where none of them comes by.
TEST(ThreadKernels, NothingWhereNoThreadComesBy) {
  ExpectOfThreads(
      "if A[bx * 128 + tx] > 100:\n    other = T.shfl_xor(A[bx * 128 + tx], 1)\n    C[0] = 77\n"
      "    B[bx * 128 + tx] = other\n"
      "if A[bx * 128 + tx] > 2:\n    all = T.activemask()\n    C[1] = 78\n    C[2] = 79",
      [](const Numbers& n) -> std::string {
        const double want[] = {n.In(2, 0), 78, 79, n.In(2, 3)};
        for (int64_t i = 0; i < 4; ++i) {
          if (n.Out(2, i) != want[i]) return Wrong("number", i, n.Out(2, i), want[i]);
        }
        return n.Out(1, 9) == n.In(1, 9) ? "" : "element 9 is another";
      });
}

// What each thread has of its own by where it stores, or by whether it does.
TEST(ThreadKernels, OwnByPlaceAndByCondition) {
  ExpectOfThreads(
      "a = T.alloc_local((2,), 'int32')\nT.clear(a)\na[tx % 2] = 5\n"
      "v = T.alloc_var('int32', init=0)\nif tx > 5:\n    v = 1\n"
      "B[bx * 128 + tx] = a[0] * 10 + v",
      EachIs([](const Numbers&, int64_t, int64_t t) -> std::optional<double> {
        return (t % 2 == 0 ? 50 : 0) + (t > 5 ? 1 : 0);
      }));
}

// The last warp has eight threads.
TEST(ThreadKernels, WarpsThatAreNotWhole) {
  ExpectOfThreads(
      "a = A[bx * 40 + tx]\nB[bx * 40 + tx] = T.shfl_sync(a, 5) * 4096 + "
      "T.cast(T.ballot(a > 0), 'int32') % 4096",
      EachIs(
          [](const Numbers& n, int64_t block, int64_t t) -> std::optional<double> {
            const int64_t first = block * 40 + t / 32 * 32;
            int64_t votes = 0;
            for (int64_t l = 0; l < 12 && t / 32 * 32 + l < 40; ++l) {
              votes |= int64_t{n.In(0, first + l) > 0} << l;
            }
            return n.In(0, first + 5) * 4096 + static_cast<double>(votes);
          },
          40),
      40);
}

// Barriers need not be written: what a statement stored, all threads see in the next.
TEST(ThreadKernels, BarriersAreTheCompilers) {
  const std::string text = absl::StrReplaceAll(Text(), {{"T.sync_threads()", "pass"}});
  const auto with = Entry("tree", {{"n", "1000"}}), without = Entry("tree", {{"n", "1000"}}, text);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(ir::ToString(*with), ir::ToString(*without));
}

int64_t Count(const ir::Program& program, ir::Instruction op) {
  int64_t count = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    count += x != nullptr && x->op == op ? 1 : 0;
    return true;
  });
  return count;
}

// Threads that come back to elements of their own wait for nobody, nor do those of one warp.
TEST(ThreadKernels, NoMoreMeetingsThanThereMustBe) {
  struct Case {
    const char* entry;
    lang::Arguments arguments;
    int64_t barriers;
  };
  const Case kCases[] = {{"mask", {{"rows", "5"}, {"n", "700"}}, 0},
                         {"walsh", {{"rows", "5"}}, 3},
                         {"tree", {{"n", "700"}}, 2}};
  for (const auto& [entry, arguments, barriers] : kCases) {
    const auto program = Entry(entry, arguments);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto instructions = testing::Instructions(*program, "sm_90a");
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_EQ(Count(*instructions, ir::Instruction::kBlockBarrier), barriers)
        << ir::ToString(*instructions);
  }
}

// Runs of neighbours that a thread has to itself need no barrier; runs that overlap, or that
// another thread reads, do.
TEST(ThreadKernels, RunsOfNeighboursThatBelongToAThread) {
  struct Case {
    const char *stored, *read;
    bool meets;
  };
  constexpr Case kCases[] = {{"8 * tx + k", "8 * tx + 7 - k", false},
                             {"9 * tx + k", "9 * tx + 7 - k", false},
                             {"16 * tx + 2 * k", "16 * tx + 14 - 2 * k", false},
                             {"8 * tx + k", "(8 * tx + k + 1) % 512", true},
                             {"8 * tx + k", "504 - 8 * tx + k", true},
                             {"7 * tx + k", "7 * tx + k", true},
                             {"8 * tx + k + 1", "8 * tx + k + 1", true},
                             {"4 * tx + k // 2", "4 * tx + k // 2", true}};
  for (const auto& [stored, read, meets] : kCases) {
    const std::string text = absl::StrReplaceAll(R"(import tilelang.language as T

@T.prim_func
def runs(A: T.Tensor((512,), "float32"), B: T.Tensor((512,), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        S = T.alloc_shared((1024,), "float32")
        for k in T.serial(8):
            S[STORED] = A[(STORED) % 512]
        for k in T.serial(8):
            B[8 * tx + k] = S[READ]
)",
                                                 {{"STORED", stored}, {"READ", read}});
    SCOPED_TRACE(text);
    const auto program = Entry("runs", {}, text);
    ASSERT_TRUE(program.ok()) << program.status();
    for (const std::string gpu : kGpus) {
      const auto instructions = testing::Instructions(*program, gpu);
      ASSERT_TRUE(instructions.ok()) << gpu << instructions.status();
      EXPECT_EQ(testing::Difference(*program, *instructions, 0), "") << gpu;
      EXPECT_EQ(Count(*instructions, ir::Instruction::kBlockBarrier) > 0, meets)
          << ir::ToString(*instructions);
    }
  }
}

}  // namespace
}  // namespace kiln
