// The tile schedulers, run: which tiles each worker gets, in which order.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/interp/interp.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

struct Tiles {
  int64_t m = 1, n = 1, workers = 1, swizzle = 1, cluster = 1;
  bool by_column = true;
  int64_t rows() const { return (m + cluster - 1) / cluster; }
  int64_t total() const { return rows() * n; }
  std::string ToString() const {
    return absl::StrCat(m, "x", n, " workers=", workers, " swizzle=", swizzle, " cluster=", cluster,
                        by_column ? " by column" : " by row");
  }
};
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

// The order in closed form, as the schedulers' documentation gives it.
std::pair<int64_t, int64_t> Decode(const Tiles& t, int64_t id) {
  const int64_t fast_extent = t.by_column ? t.rows() : t.n;
  const int64_t slow_extent = t.by_column ? t.n : t.rows();
  const int64_t group = id / (fast_extent * t.swizzle), base = group * t.swizzle;
  const int64_t width = std::max<int64_t>(1, std::min(t.swizzle, slow_extent - base));
  const int64_t rest = id - group * fast_extent * t.swizzle;
  const int64_t fast = rest / width, slow = base + rest % width;
  return t.by_column ? std::pair(fast, slow) : std::pair(slow, fast);
}

// How a kernel uses the scheduler.
enum class Form { kPrefix, kName, kWaves, kRunTime };
constexpr int64_t kMost = 160;  // tiles of one worker

std::string KernelText(const Tiles& t, Form form) {
  const bool runtime = form == Form::kRunTime;
  const std::string sizes = runtime ? "m, n, num_workers=workers" : absl::StrCat(t.m, ", ", t.n);
  const std::string options = absl::StrCat(
      runtime ? "" : absl::StrCat(", num_workers=", t.workers), ", swizzle_size=", t.swizzle,
      ", column_major=", t.by_column ? "True" : "False", ", cluster_size=", t.cluster);
  std::string text =
      absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef main(seq: T.Tensor((",
                   t.workers, ", ", kMost, ", 2), T.int32), count: T.Tensor((", t.workers,
                   ",), T.int32), m: T.int32, n: T.int32, workers: T.int32):\n    with T.Kernel(",
                   t.workers, ", threads=32) as w:\n");
  if (form == Form::kWaves) {
    return absl::StrCat(
        text, "        s = T.PersistentTileScheduler(", sizes, options, ", stateful=False)\n",
        "        count[w] = 0\n        for i in range(", (t.total() + t.workers - 1) / t.workers,
        "):\n            tile = ", t.workers, " * i + w\n            if tile < ", t.total(),
        ":\n                row, column = s.coord(tile)\n",
        "                seq[w, i, 0] = row\n                seq[w, i, 1] = column\n",
        "                count[w] = i + 1\n");
  }
  const std::string at = form == Form::kPrefix ? "[0]" : "";
  return absl::StrCat(
      text, "        s = T.PersistentTileScheduler(", form == Form::kPrefix ? "'s', " : "", sizes,
      options, form == Form::kName ? ", name='s'" : "", ")\n        s.init(w)\n",
      "        while s.valid():\n            seq[w, s.current_iter", at, ", 0] = s.m_idx", at,
      "\n            seq[w, s.current_iter", at, ", 1] = s.n_idx", at,
      "\n            s.next_tile()\n        count[w] = s.current_iter", at, "\n");
}

// What each worker does.
absl::StatusOr<std::vector<Pairs>> Sequences(const std::string& text, const Tiles& t) {
  KILN_ASSIGN_OR_RETURN(const ir::Program program, ElaborateText(text));
  interp::Tensor seq(kInt32, {t.workers, kMost, 2}), count(kInt32, {t.workers});
  interp::Options options;
  options.scalars = {{"m", t.m}, {"n", t.n}, {"workers", t.workers}};
  KILN_RETURN_IF_ERROR(interp::Run(program, {seq.View(), count.View()}, options).status());
  std::vector<Pairs> all(static_cast<size_t>(t.workers));
  for (int64_t w = 0; w < t.workers; ++w) {
    for (int64_t i = 0; i < count.as<int32_t>()[w]; ++i) {
      const int32_t* place = seq.as<int32_t>() + (w * kMost + i) * 2;
      all[static_cast<size_t>(w)].emplace_back(place[0], place[1]);
    }
  }
  return all;
}

Pairs Expected(const Tiles& t, int64_t worker) {
  Pairs tiles;
  for (int64_t id = worker; id < t.total(); id += t.workers) tiles.push_back(Decode(t, id));
  return tiles;
}

void Check(const Tiles& t, Form form) {
  const auto all = Sequences(KernelText(t, form), t);
  ASSERT_TRUE(all.ok()) << t.ToString() << "\n" << all.status().message();
  std::map<std::pair<int64_t, int64_t>, int> visits;
  for (int64_t w = 0; w < t.workers; ++w) {
    const Pairs& own = (*all)[static_cast<size_t>(w)];
    ASSERT_EQ(own, Expected(t, w)) << t.ToString() << " worker " << w;
    for (const auto& tile : own) ++visits[tile];
  }
  ASSERT_EQ(visits.size(), static_cast<size_t>(t.total())) << t.ToString();
  for (const auto& [tile, times] : visits) {
    ASSERT_EQ(times, 1) << t.ToString();
    ASSERT_LT(tile.first, t.rows()) << t.ToString();
    ASSERT_LT(tile.second, t.n) << t.ToString();
  }
}

// "(0,0)(1,0) (2,0)" as pairs.
Pairs Read(absl::string_view text) {
  Pairs pairs;
  std::vector<int64_t> numbers;
  for (const char c : text) {
    if (c >= '0' && c <= '9') numbers.push_back(c - '0');
  }
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    pairs.emplace_back(numbers[i], numbers[i + 1]);
  }
  return pairs;
}

void ExpectSequences(const Tiles& t, const std::vector<std::string>& expected) {
  for (const Form form : {Form::kPrefix, Form::kName, Form::kWaves, Form::kRunTime}) {
    const auto all = Sequences(KernelText(t, form), t);
    ASSERT_TRUE(all.ok()) << t.ToString() << "\n" << all.status().message();
    ASSERT_EQ(all->size(), expected.size());
    for (size_t w = 0; w < expected.size(); ++w) {
      EXPECT_EQ((*all)[w], Read(expected[w])) << t.ToString() << " worker " << w;
    }
  }
}

// Worked out by hand, digit by digit.
TEST(Schedule, WorkedSequences) {
  ExpectSequences({4, 3}, {"(0,0)(1,0)(2,0)(3,0) (0,1)(1,1)(2,1)(3,1) (0,2)(1,2)(2,2)(3,2)"});
  ExpectSequences({4, 3, 1, 1, 1, false},
                  {"(0,0)(0,1)(0,2) (1,0)(1,1)(1,2) (2,0)(2,1)(2,2) (3,0)(3,1)(3,2)"});
  ExpectSequences({4, 5, 1, 2},
                  {"(0,0)(0,1)(1,0)(1,1)(2,0)(2,1)(3,0)(3,1) (0,2)(0,3)(1,2)(1,3)(2,2)(2,3)(3,2)"
                   "(3,3) (0,4)(1,4)(2,4)(3,4)"});
  ExpectSequences({5, 3, 1, 2, 1, false},
                  {"(0,0)(1,0)(0,1)(1,1)(0,2)(1,2) (2,0)(3,0)(2,1)(3,1)(2,2)(3,2) "
                   "(4,0)(4,1)(4,2)"});
  ExpectSequences({4, 5, 6, 2}, {"(0,0)(3,0)(2,2)(2,4)", "(0,1)(3,1)(2,3)(3,4)", "(1,0)(0,2)(3,2)",
                                 "(1,1)(0,3)(3,3)", "(2,0)(1,2)(0,4)", "(2,1)(1,3)(1,4)"});
  ExpectSequences({5, 3, 2, 2, 2}, {"(0,0)(1,0)(2,0)(0,2)(2,2)", "(0,1)(1,1)(2,1)(1,2)"});
  ExpectSequences({3, 3, 1, 8}, {"(0,0)(0,1)(0,2)(1,0)(1,1)(1,2)(2,0)(2,1)(2,2)"});
}

TEST(Schedule, TilesBeyondTheLastAreOutsideOfTheGrid) {
  const auto program = ElaborateText(R"(
import tilelang.language as T
@T.prim_func
def main(seq: T.Tensor((8, 2), T.int32)):
    with T.Kernel(8, threads=32) as w:
        row, column = T.PersistentTileScheduler(4, 5, 1, 2, stateful=False).coord(20 + w)
        seq[w, 0] = row
        seq[w, 1] = column
)");
  ASSERT_TRUE(program.ok()) << program.status().message();
  interp::Tensor seq(kInt32, {8, 2});
  ASSERT_TRUE(interp::Run(*program, {seq.View()}, {}).ok());
  Pairs found;
  for (int i = 0; i < 8; ++i) {
    found.emplace_back(seq.as<int32_t>()[2 * i], seq.as<int32_t>()[2 * i + 1]);
  }
  EXPECT_EQ(found, Read("(4,4)(5,4)(6,4)(7,4) (0,6)(1,6)(2,6)(3,6)"));
}

TEST(Schedule, RowsOfAClusterAreItsBlocks) {
  const auto program = ElaborateText(R"(
import tilelang.language as T
@T.prim_func
def main(rows: T.Tensor((4, 8), T.int32), count: T.Tensor((4,), T.int32)):
    with T.ClusterKernel(4, cluster_dims=2, threads=32) as block:
        s = T.PersistentTileScheduler("s", 5, 3, num_workers=2, swizzle_size=2, cluster_size=2)
        s.init(block // 2)
        while s.valid():
            rows[block, s.current_iter] = s.m_idx * 2 + T.block_rank_in_cluster()
            s.next_tile()
        count[block] = s.current_iter
)");
  ASSERT_TRUE(program.ok()) << program.status().message();
  interp::Tensor rows(kInt32, {4, 8}), count(kInt32, {4});
  ASSERT_TRUE(interp::Run(*program, {rows.View(), count.View()}, {}).ok());
  const std::vector<std::vector<int32_t>> expected = {
      {0, 2, 4, 0, 4}, {1, 3, 5, 1, 5}, {0, 2, 4, 2}, {1, 3, 5, 3}};
  for (size_t b = 0; b < 4; ++b) {
    ASSERT_EQ(count.as<int32_t>()[b], static_cast<int32_t>(expected[b].size()));
    for (size_t i = 0; i < expected[b].size(); ++i) {
      EXPECT_EQ(rows.as<int32_t>()[b * 8 + i], expected[b][i]) << b << " " << i;
    }
  }
}

TEST(Schedule, ManyGridsInEveryForm) {
  uint64_t state = 7;
  const auto pick = [&](int64_t low, int64_t high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(high - low + 1));
  };
  const int64_t kSwizzles[] = {1, 2, 3, 5, 8};
  for (int i = 0; i < 4000; ++i) {
    Tiles t;
    t.m = pick(1, 12);
    t.n = pick(1, 12);
    t.workers = pick(1, 9);
    t.swizzle = kSwizzles[pick(0, 4)];
    t.cluster = pick(1, 3);
    t.by_column = pick(0, 1) == 1;
    ASSERT_NO_FATAL_FAILURE(Check(t, static_cast<Form>(i % 4)));
  }
}

// T.Persistent: another order, and the same law that every tile has one turn.
TEST(Schedule, PersistentLoopsVisitEveryTileOnce) {
  for (int64_t m = 1; m <= 7; ++m) {
    for (int64_t n = 1; n <= 11; n += 2) {
      for (const int64_t workers : {1, 3, 8}) {
        for (const int64_t depth : {1, 3}) {
          const std::string text = absl::StrCat(
              "import tilelang.language as T\n@T.prim_func\ndef main(seen: T.Tensor((", depth, ", ",
              m, ", ", n, "), T.int32)):\n    with T.Kernel(", workers,
              ", threads=32) as w:\n        for k, i, j in T.Persistent([", depth, ", ", m, ", ", n,
              "], ", workers, ", w, group_size=4):\n            seen[k, i, j] += 1\n");
          const auto program = ElaborateText(text);
          ASSERT_TRUE(program.ok()) << program.status().message();
          interp::Tensor seen(kInt32, {depth, m, n});
          ASSERT_TRUE(interp::Run(*program, {seen.View()}, {}).ok());
          for (int64_t i = 0; i < seen.elements(); ++i) {
            ASSERT_EQ(seen.as<int32_t>()[i], 1) << m << "x" << n << " of " << workers;
          }
        }
      }
    }
  }
}

// Where the last axis is whole panels the order is: panel by panel, over rows, the panel's columns.
TEST(Schedule, PersistentLoopsWalkPanelsOfTheLastAxis) {
  const auto program = ElaborateText(R"(
import tilelang.language as T
@T.prim_func
def main(seq: T.Tensor((16,), T.int32)):
    with T.Kernel(1, threads=32) as w:
        at = T.alloc_var(T.int32, init=0)
        for i, j in T.Persistent([4, 4], 1, w, group_size=2):
            seq[at] = i * 10 + j
            at = at + 1
)");
  ASSERT_TRUE(program.ok()) << program.status().message();
  interp::Tensor seq(kInt32, {16});
  ASSERT_TRUE(interp::Run(*program, {seq.View()}, {}).ok());
  const std::vector<int32_t> expected = {0, 1, 10, 11, 20, 21, 30, 31,
                                         2, 3, 12, 13, 22, 23, 32, 33};
  EXPECT_EQ(std::vector<int32_t>(seq.as<int32_t>(), seq.as<int32_t>() + 16), expected);
}

}  // namespace
}  // namespace kiln::lang
