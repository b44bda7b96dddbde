// Blocks of a cluster that share memory: right in numbers on tiles, natively and on the threads of
// two GPUs, one with clusters and one without; what is missing or in a race is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/base/rng.h"
#include "compiler/interp/interp.h"
#include "tests/unit/lang/lang_test_util.h"
#include "tests/util/everywhere.h"
#include "tests/util/gpu_programs.h"
#include "tests/util/thread_level.h"

namespace kiln::lang {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 8;  // elements of a row

int64_t Given(int64_t i) { return i * 7 % 23 - 11; }

// A kernel over x and y, int32 of `rows` rows, y written by every element.
std::string Kernel(const std::string& launch, const std::string& body, int64_t rows = 4) {
  const std::string tensor = absl::StrCat("T.Tensor((", rows, ", ", kWidth, "), T.int32)");
  return absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef kernel(x: ", tensor,
                      ", y: ", tensor, "):\n    with T.ClusterKernel(", launch, ":\n        ",
                      absl::StrReplaceAll(body, {{"\n", "\n        "}}), "\n");
}

using Want = std::function<int64_t(int64_t row, int64_t column)>;

// `everywhere`: natively, on threads and as instructions too, and assembled.
void ExpectRight(const std::string& text, const Want& want, bool everywhere = true) {
  const auto fill = [](const kiln::testing::Views& tensors) {
    for (int64_t i = 0; i < tensors[0].elements(); ++i) {
      tensors[0].Set(i, static_cast<double>(Given(i)));
      tensors[1].Set(i, -99);
    }
  };
  const auto check = [&](const kiln::testing::Views& tensors, const std::string& where) {
    for (int64_t i = 0; i < tensors[1].elements(); ++i) {
      ASSERT_EQ(tensors[1].Get(i), want(i / kWidth, i % kWidth)) << where << ", element " << i;
    }
  };
  if (everywhere) return kiln::testing::RunEverywhere(text, fill, check);
  SCOPED_TRACE(text);
  const auto program = ElaborateText(text);
  ASSERT_TRUE(program.ok()) << program.status();
  kiln::testing::Views views;
  const std::vector<interp::Tensor> tensors = kiln::testing::SmallIntegers(*program, 0, &views);
  fill(views);
  const auto ran = interp::Run(*program, views, {});
  ASSERT_TRUE(ran.ok()) << ran.status();
  check(views, "tiles");
}

void ExpectRefused(const std::string& text, const std::string& message) {
  SCOPED_TRACE(text);
  const auto refused = DiagnosticOf(ElaborateText(text).status());
  ASSERT_TRUE(refused.has_value()) << Elaborated(text);
  EXPECT_THAT(refused->message, HasSubstr(message));
  EXPECT_FALSE(refused->remedy.empty());
  EXPECT_GT(refused->loc.line, 0);
}

std::string Changed(const std::string& text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

int64_t Row(int64_t row, int64_t j) { return Given(row * kWidth + j); }

// ---- one block to another ----

constexpr char kPush[] = R"(a = T.alloc_shared((8,), T.int32)
b = T.alloc_shared((8,), T.int32)
came = T.alloc_cluster_barrier([1])
T.fill(b, 0)
T.cluster_sync()
if pid == 1:
    T.copy(x[3, :], a)
    T.copy_cluster(a, b, dst_block=0, remote_barrier=came[0])
if pid == 0:
    T.mbarrier_wait_parity(came[0], 0)
    for i in T.Parallel(8):
        y[0, i] = b[i]
        y[1, i] = 2 * b[i]
        y[2, i] = -b[i]
        y[3, i] = 0)";
constexpr char kTwo[] = "2, threads=64, cluster_dims=(2, 1, 1)) as pid";

int64_t Pushed(int64_t row, int64_t j) {
  const int64_t factors[] = {1, 2, -1, 0};
  return factors[row] * Row(3, j);
}

// The block that waits comes first in the order of ranks.
TEST(Clusters, ABlockWritesAnothersMemory) {
  const std::string text = Kernel(kTwo, kPush);
  ExpectRight(text, Pushed);
  // By a meeting in place of the barrier.
  const std::string meeting =
      Changed(Changed(text, ", remote_barrier=came[0])", ")"),
              "if pid == 0:\n            T.mbarrier_wait_parity(came[0], 0)",
              "T.cluster_sync()\n        if pid == 0:");
  ExpectRight(meeting, Pushed);
  // An arrival of every thread, after the copy.
  ExpectRight(Changed(Changed(text, "[1])", "[64])"), "remote_barrier=came[0])",
                      ")\n            T.mbarrier_arrive(came[0], 0)"),
              Pushed);
  // Part of a tile; from registers.
  ExpectRight(Changed(Changed(text, "b = T.alloc_shared((8,)", "b = T.alloc_shared((16,)"),
                      "T.copy_cluster(a, b,", "T.copy_cluster(a[0:8], b[0:8],"),
              Pushed);
  ExpectRight(Changed(text, "a = T.alloc_shared(", "a = T.alloc_fragment("), Pushed);
  // Several launches of clusters in a grid, each with its own.
  ExpectRight(Changed(Changed(Changed(text, "2, threads=64", "6, threads=64"), "if pid == 1",
                              "if pid == 5"),
                      "if pid == 0", "if pid == 4"),
              Pushed);
}

TEST(Clusters, WhatIsMissingIsRefused) {
  const std::string text = Kernel(kTwo, kPush);
  const std::string race = "nothing orders that with what block";
  const std::pair<const char*, const char*> kRaces[] = {
      {"    T.cluster_sync()\n", "    a_sync = 0\n"},
      {"            T.mbarrier_wait_parity(came[0], 0)\n", ""},
  };
  for (const auto& [from, to] : kRaces) ExpectRefused(Changed(text, from, to), race);
  ExpectRefused(Changed(text, ", remote_barrier=came[0])", ")"), "never ends");
  // An arrival says nothing of what comes after it.
  const std::string meeting =
      Changed(Changed(text, ", remote_barrier=came[0])", ")"),
              "if pid == 0:\n            T.mbarrier_wait_parity(came[0], 0)",
              "T.cluster_sync()\n        if pid == 0:");
  const std::string last = "T.cluster_sync()\n        if pid == 0:";
  ExpectRefused(Changed(Changed(meeting, last, "T.cluster_wait()\n        if pid == 0:"),
                        "if pid == 1:", "T.cluster_arrive()\n        if pid == 1:"),
                race);
  ExpectRefused(Changed(text, "[1])", "[2])"), "1 threads have arrived, 2 make a phase");
  ExpectRefused(Changed(text, "dst_block=0", "dst_block=2"), "2 in a cluster of 2 blocks");
  ExpectRefused(Changed(text, "dst_block=0", "dst_block=pid + 1"), "speaks to block 2 of 2");
  ExpectRefused(Changed(text, "dst_block=0", "cluster_mask=2, dst_block=0"),
                "a dst_block and a cluster_mask");
  ExpectRefused(Changed(text, "(a, b,", "(a[0], b[0],"), "of a start to a start");
  ExpectRefused(Changed(text, "dst_block=0", "dst_block=T.get_thread_binding(0) % 2"),
                "whose rank differs between threads");
  ExpectRefused(Changed(text, "dst_block=0, ", ""), "a remote_barrier and no dst_block");
  ExpectRefused(Changed(text, "T.copy_cluster(a,", "T.copy_cluster(x[3, :],"), "cannot be 'x'");
  ExpectRefused(Changed(text, "(a, b, dst", "(a, x[0, :], dst"), "cannot be 'x'");
  ExpectRefused(Changed(text, "cluster_dims=(2, 1, 1)", "cluster_dims=1"),
                "in a launch without clusters");
  ExpectRefused(Changed(text, "if pid == 1:", "if pid == 1:\n            T.cluster_sync()"),
                "block 1 of the cluster meets the others here, and block 0 does not come by");
}

TEST(Clusters, MeetingsAreOfAllBlocks) {
  const auto meets = [](const std::string& how) {
    return Kernel(kTwo,
                  "a = T.alloc_shared((8,), T.int32)\nn = T.alloc_var(T.int32, init=2)\n"
                  "tx = T.get_thread_binding(0)\nT.clear(a)\n"
                  "T.copy_cluster(a, a, dst_block=pid)\n" +
                      how);
  };
  const std::pair<const char*, const char*> kCases[] = {
      {"T.cluster_wait()", "to which a block comes without an arrival"},
      {"T.cluster_arrive()\nT.cluster_arrive()\nT.cluster_wait()", "arrives twice"},
      {"if x[0, 0] > 1:\n    T.cluster_arrive()\nT.cluster_wait()", "in which it does not wait"},
      {"for k in T.serial(x[pid, 0]):\n    T.cluster_sync()", "other turns in each of them"},
      {"for k in T.serial(4):\n    T.cluster_sync()\n    if x[pid, k] > 0:\n        break",
       "that one of them may leave"},
      {"while n > 0:\n    T.cluster_sync()\n    n = n - 1", "in a while loop"},
      {"if x[pid, 0] > 1:\n    T.cluster_sync()", "a condition that may differ between them"},
      {"if n > 1:\n    T.cluster_sync()", "a condition that may differ between them"},
      {"if tx < 32:\n    T.cluster_sync()", "where only some threads come by"},
      {"if pid == 0:\n    T.cluster_sync()\nelse:\n    for k in T.serial(1):\n"
       "        T.cluster_sync()",
       "in different loops or branches"},
  };
  for (const auto& [how, message] : kCases) ExpectRefused(meets(how), message);
  ExpectRefused(Changed(meets("with T.ws(0):\n    T.cluster_sync()"), "threads=64", "threads=128"),
                "where only some threads come by");
  // The same for all: a loop as long as a tensor says, a meeting in each half of an if.
  for (const char* how :
       {"for k in T.serial(x[0, 1] + 5):\n    T.cluster_sync()\nfor i in T.Parallel(8):\n"
        "    for r in T.serial(4):\n        y[r, i] = r",
        "if x[0, 0] > 1:\n    T.cluster_sync()\nfor i in T.Parallel(8):\n    for r in T.serial(4):"
        "\n        y[r, i] = r",
        "if pid == 0:\n    T.cluster_sync()\nelse:\n    T.cluster_sync()\nfor i in T.Parallel(8):\n"
        "    for r in T.serial(4):\n        y[r, i] = r"}) {
    ExpectRight(
        meets(how), [](int64_t row, int64_t) { return row; }, false);
  }
}

// A while loop that counts by a variable is one that is counted.
TEST(Clusters, BlocksMeetInLoopsUnderACondition) {
  const std::string text =
      Kernel("4, threads=64, cluster_dims=2) as pid",
             "a = T.alloc_shared((8,), T.int32)\nb = T.alloc_shared((8,), T.int32)\n"
             "sched = T.PersistentTileScheduler(4, 1, num_workers=1, cluster_size=2)\n"
             "sched.init(pid // 2)\nwhile sched.valid():\n"
             "    row = sched.m_idx * 2 + pid % 2\n    T.copy(x[row, :], a)\n    T.cluster_sync()\n"
             "    T.copy_cluster(a, b, dst_block=1 - pid % 2)\n    T.cluster_sync()\n"
             "    T.copy(b, y[row, :])\n    T.cluster_sync()\n    sched.next_tile()");
  ExpectRight(Changed(text, "4, threads", "2, threads"),
              [](int64_t row, int64_t j) { return Row(row ^ 1, j); });
  ExpectRefused(Changed(text, "sched.init(pid // 2)", "sched.init(pid)"), "other turns");
}

// Where a copy for several begins is seen of such a loop, too.
TEST(Clusters, TilesOfASchedulerAreFetchedForAll) {
  const std::string text =
      Kernel("2, threads=64, cluster_dims=2) as pid",
             "a = T.alloc_shared((1, 8), T.int32)\n"
             "sched = T.PersistentTileScheduler(2, 1, num_workers=1)\nsched.init(pid // 2)\n"
             "while sched.valid():\n    m = sched.m_idx\n"
             "    T.copy_cluster(x[m * 2, 0], a, cluster_mask=3)\n"
             "    T.copy(a, y[m * 2 + pid % 2, 0])\n    sched.next_tile()");
  ExpectRight(text, [](int64_t row, int64_t j) { return Row(row / 2 * 2, j); });
  ExpectRefused(Changed(text, "m = sched.m_idx", "m = y[0, 0]"), "depends on the block's own");
}

// ---- orders that barriers ask for ----

// Rank 0 adds up what all others send, each to its own place.
TEST(Clusters, OneBlockWaitsForAll) {
  const std::string text = Kernel("4, threads=32, cluster_dims=4) as pid",
                                  R"(mine = T.alloc_shared((8,), T.int32)
parts = T.alloc_shared((4, 8), T.int32)
came = T.alloc_cluster_barrier([3])
T.copy(x[pid, :], mine)
T.cluster_sync()
if pid != 0:
    T.copy_cluster(mine, parts[pid, :], dst_block=0, remote_barrier=came[0])
else:
    T.mbarrier_wait_parity(came[0], 0)
    for r in T.serial(4):
        for i in T.Parallel(8):
            y[r, i] = mine[i] + parts[1, i] + 2 * parts[2, i] + 3 * parts[3, i] + r)");
  const auto want = [](int64_t row, int64_t j) {
    return Row(0, j) + Row(1, j) + 2 * Row(2, j) + 3 * Row(3, j) + row;
  };
  ExpectRight(text, want);
  // Two blocks in one place.
  ExpectRefused(Changed(text, "parts[pid, :]", "parts[pid // 2, :]"), "nothing orders that");
}

// There and back: no order of whole blocks is right.
TEST(Clusters, BlocksAnswerEachOther) {
  const std::string text = Kernel(kTwo, R"(a = T.alloc_shared((8,), T.int32)
b = T.alloc_shared((8,), T.int32)
asked = T.alloc_cluster_barrier([1])
answered = T.alloc_cluster_barrier([1])
T.copy(x[pid, :], a)
T.cluster_sync()
for turn in T.serial(3):
    if pid == 0:
        for i in T.Parallel(8):
            a[i] = a[i] + turn
        T.copy_cluster(a, b, dst_block=1, remote_barrier=asked[0])
        T.mbarrier_wait_parity(answered[0], turn % 2)
        for i in T.Parallel(8):
            a[i] = b[i]
    else:
        T.mbarrier_wait_parity(asked[0], turn % 2)
        for i in T.Parallel(8):
            a[i] = a[i] + 2 * b[i]
        T.copy_cluster(a, b, dst_block=0, remote_barrier=answered[0])
for r in T.serial(2):
    for i in T.Parallel(8):
        y[2 * pid + r, i] = a[i] + r)");
  const auto want = [](int64_t row, int64_t j) {
    int64_t a = Row(0, j), b = Row(1, j);
    for (int64_t turn = 0; turn < 3; ++turn) {
      b += 2 * (a + turn);
      a = b;
    }
    return (row < 2 ? a : b) + row % 2;
  };
  ExpectRight(text, want);
  ExpectRefused(Changed(text, "(answered[0], turn % 2)", "(answered[0], turn % 2 ^ 1)"),
                "never ends");
}

TEST(Clusters, SingleThreadsArrive) {
  // Thread t of each block arrives in block t.
  ExpectRight(Kernel("2, 2, threads=32, cluster_dims=(2, 2)) as (px, py)",
                     R"(came = T.alloc_cluster_barrier([4])
tx = T.get_thread_binding(0)
rank = T.block_rank_in_cluster()
for i in T.Parallel(8):
    y[rank, i] = x[rank, i]
T.cluster_sync()
if tx < 4:
    T.mbarrier_arrive(came[0], tx)
T.mbarrier_wait_parity(came[0], 0)
if tx < 8:
    y[rank, tx] = y[rank, tx] + x[(rank + 1) % 4, tx])"),
              [](int64_t row, int64_t j) { return Row(row, j) + Row((row + 1) % 4, j); });
}

// ---- tensors ----

TEST(Clusters, TensorsPassValuesWhereBlocksMeet) {
  const std::string text =
      Kernel("4, threads=32, cluster_dims=2) as pid", R"(for i in T.Parallel(8):
    y[pid, i] = 2 * x[pid, i]
T.cluster_arrive()
T.cluster_wait()
mine = T.alloc_fragment((8,), T.int32)
for i in T.Parallel(8):
    mine[i] = y[pid ^ 1, 7 - i] + pid
T.cluster_sync()
for i in T.Parallel(8):
    y[pid, i] = mine[i])");
  ExpectRight(text, [](int64_t row, int64_t j) { return 2 * Row(row ^ 1, 7 - j) + row; });
}

TEST(Clusters, TensorsAreReadAfterAMeeting) {
  const std::string text = Kernel("4, threads=32, cluster_dims=2) as pid", R"(
rank = T.block_rank_in_cluster()
mine = T.alloc_fragment((8,), T.int32)
T.copy(x[pid, :], mine)
T.copy(mine, y[pid, :])
T.cluster_sync()
T.copy(y[pid - rank + 1 - rank, :], mine)
T.cluster_sync()
T.copy(mine, y[pid, :]))");
  ExpectRight(text, [](int64_t row, int64_t j) { return Row(row ^ 1, j); });
  const std::string sync = "        T.cluster_sync()\n";
  const std::string first = "        T.copy(mine, y[pid, :])\n" + sync;
  ExpectRefused(Changed(text, first, "        T.copy(mine, y[pid, :])\n"),
                "nothing orders the two");
  const std::string read = "1 - rank, :], mine)\n";
  ExpectRefused(Changed(text, read + sync, read), "nothing orders the two");
}

TEST(Clusters, AllBlocksMeetBetweenClusters) {
  ExpectRight(Kernel("4, threads=32, cluster_dims=2) as pid",
                     R"(for i in T.Parallel(8):
    y[pid, i] = x[pid, i]
T.cluster_sync()
other = T.alloc_fragment((8,), T.int32)
for i in T.Parallel(8):
    other[i] = y[pid ^ 1, i]
T.cluster_sync()
for i in T.Parallel(8):
    y[pid, i] = other[i]
T.sync_grid()
for i in T.Parallel(8):
    y[pid, i] = y[pid, i] + pid)"),
              [](int64_t row, int64_t j) { return Row(row ^ 1, j) + row; });
}

// ---- copies to several blocks ----

TEST(Clusters, BlocksOfAMaskGetWhatTheFirstCopies) {
  const std::string text = Kernel("4, threads=32, cluster_dims=4) as pid", R"(
tile = T.alloc_shared((8,), T.int32)
T.copy_cluster(x[pid, :], tile, cluster_mask=0b0110)
T.copy(tile, y[pid, :]))");
  ExpectRight(text, [](int64_t row, int64_t j) { return Row(row == 2 ? 1 : row, j); });
  ExpectRight(Changed(text, "0b0110", "0b1111"), [](int64_t, int64_t j) { return Row(0, j); });
  ExpectRefused(
      Changed(text, "T.copy_cluster", "T.annotate_safe_value({x: 3})\n        T.copy_cluster"),
      "a copy to several blocks of 'x', which has a safe value of 3");
  ExpectRight(Changed(Changed(text, "cluster_dims=4", "cluster_dims=2"), "0b0110", "0b11"),
              [](int64_t row, int64_t j) { return Row(row / 2 * 2, j); });
  // In two dimensions: the first two of the cluster are those of one row of the grid.
  ExpectRight(Changed(Changed(Changed(text, "4, threads=32, cluster_dims=4) as pid",
                                      "2, 2, threads=32, cluster_dims=(2, 2)) as (px, py)"),
                              "[pid, :]", "[py * 2 + px, :]"),
                      "0b0110", "0b1010"),
              [](int64_t row, int64_t j) { return Row(row == 3 ? 1 : row, j); });
  // Through a name, and in a ring with barriers of each block's own.
  ExpectRight(Kernel(kTwo, R"(tiles = T.alloc_shared((2, 8), T.int32)
full = T.alloc_barrier([64] * 2)
for k in T.serial(2):
    first = pid * 2 + k
    T.tma_copy(x[first, :], tiles[k % 2, :], barrier=full[k % 2], cluster_mask=0b11)
    T.mbarrier_arrive(full[k % 2])
    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
    T.copy(tiles[k % 2, :], y[first, :]))"),
              [](int64_t row, int64_t j) { return Row(row % 2, j); });
  // Beside what blocks write of each other.
  ExpectRight(Changed(text, "T.copy(tile,",
                      "other = T.alloc_shared((8,), T.int32)\n        T.cluster_sync()\n        "
                      "T.copy_cluster(tile, other, dst_block=(pid + 1) % 4)\n        "
                      "T.cluster_sync()\n        T.copy(other,"),
              [](int64_t row, int64_t j) {
                const int64_t from = (row + 3) % 4;
                return Row(from == 2 ? 1 : from, j);
              });

  ExpectRefused(Changed(text, "0b0110", "0"), "cluster_mask is 0 in a cluster of 4 blocks");
  ExpectRefused(Changed(text, "0b0110", "16"), "cluster_mask is 16 in a cluster of 4 blocks");
  ExpectRefused(Changed(text, "T.copy_cluster(", "if pid == 1:\n            T.copy_cluster("),
                "not all blocks of cluster_mask come by");
  ExpectRefused(
      Changed(text, "T.copy_cluster(", "for k in T.serial(pid):\n            T.copy_cluster("),
      "not all blocks of cluster_mask come by");
  ExpectRefused(Changed(text, "T.copy_cluster(x[pid, :]",
                        "at = T.alloc_var(T.int32, init=pid)\n        T.copy_cluster(x[at, :]"),
                "depends on the block's own memory");
  ExpectRefused(Changed(text, "T.alloc_shared(", "T.alloc_fragment("), "cannot be 'tile'");
  ExpectRefused(Changed(text, "(x[pid, :], tile", "(x[pid, 0], tile[0]"), "of a start to a start");
  // A condition that is the same for the blocks of the mask is none of their ranks'.
  ExpectRight(Changed(text, "T.copy_cluster(",
                      "T.copy(x[0, :], tile)\n        if (pid + 1) // 2 == 1:\n            "
                      "T.copy_cluster("),
              [](int64_t row, int64_t j) { return Row(row == 1 || row == 2 ? 1 : 0, j); });
}

// ---- what a kernel may hold beside ----

TEST(Clusters, BlocksArePickedWhenTheKernelRuns) {
  ExpectRight(
      Kernel("4, threads=32, cluster_dims=4) as pid", R"(a = T.alloc_shared((8,), T.int32)
b = T.alloc_shared((4, 8), T.int32)
T.copy(x[pid, :], a)
T.cluster_sync()
T.copy_cluster(a, b[pid, :], dst_block=(x[0, 0] + 12 + pid) % 4)
T.cluster_sync()
T.copy(b[(pid - x[0, 0] - 12) % 4, :], y[pid, :]))"),
      [](int64_t row, int64_t j) { return Row((row + 3) % 4, j); }, false);
}

TEST(Clusters, ThreadsAndWarpgroupsOfABlock) {
  ExpectRight(Kernel("2, threads=32, cluster_dims=2) as pid", R"(tx = T.get_thread_binding(0)
a = T.alloc_shared((32,), T.int32)
b = T.alloc_shared((32,), T.int32)
own = T.alloc_local((1,), T.int32)
own[0] = tx + x[pid, tx % 8]
a[31 - tx] = own[0]
T.cluster_sync()
T.copy_cluster(a, b, dst_block=1 - pid)
T.cluster_sync()
if tx < 8:
    y[2 * pid, tx] = b[tx] + own[0]
    y[2 * pid + 1, tx] = T.shfl_xor(b[tx], 1))"),
              [](int64_t row, int64_t j) {
                const int64_t pid = row / 2;
                const auto a = [&](int64_t i) { return 31 - i + Row(1 - pid, (31 - i) % 8); };
                return row % 2 == 0 ? a(j) + j + Row(pid, j) : a(j ^ 1);
              });
  ExpectRight(Kernel("2, threads=256, cluster_dims=2) as pid", R"(a = T.alloc_shared((8,), T.int32)
b = T.alloc_shared((8,), T.int32)
full = T.alloc_barrier([128])
with T.ws(1):
    T.tma_copy(x[pid, :], a, barrier=full[0])
    T.mbarrier_arrive(full[0])
with T.ws(0):
    T.mbarrier_wait_parity(full[0], 0)
    for i in T.Parallel(8):
        a[i] = a[i] * 2
T.cluster_sync()
T.copy_cluster(a, b, dst_block=1 - pid)
T.cluster_sync()
for r in T.serial(2):
    T.copy(b, y[2 * pid + r, :]))"),
              [](int64_t row, int64_t j) { return 2 * Row(1 - row / 2, j); });
}

TEST(Clusters, NamesAndLayoutsOfTiles) {
  const std::string text = Kernel(kTwo, R"(a = T.alloc_shared((2, 8), T.int32)
b = T.alloc_shared((2, 8), T.int32)
flat = T.view(b, (16,), T.int32)
T.annotate_layout({b: T.Layout((2, 8), lambda i, j: (i * 8 + (j ^ i)))})
T.copy(x[2 * pid:2 * pid + 2, :], a)
T.cluster_sync()
T.copy_cluster(a, b, dst_block=1 - pid)
T.cluster_sync()
for r, i in T.Parallel(2, 8):
    y[2 * pid + r, i] = flat[r * 8 + i])");
  ExpectRight(text, [](int64_t row, int64_t j) { return Row((row + 2) % 4, j); });
  EXPECT_THAT(Elaborated(text), HasSubstr("layout:b.1=\"<0,1,3>"));
}

// What is known of their memory is known of a program without open tunables.
TEST(Clusters, BlocksThatCommunicateLeaveNothingOpen) {
  const auto open = [](const std::string& more) {
    const std::string text = absl::StrCat(
        "import tilelang.language as T\nimport tilelang\n@tilelang.jit\ndef f(n):\n    "
        "@T.prim_func\n"
        "    def main(x: T.Tensor((64,), T.int32)):\n        with T.ClusterKernel(4, "
        "cluster_dims=2) as "
        "pid:\n            a = T.alloc_shared((n,), T.int32)\n            T.copy(x[0:n], a)\n",
        more, "    return main\n");
    const auto kernel = lang::Kernel::Parse(MakeSource(text), "f");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return ElaborateOpen(*kernel, {}, {}, {"n"}, TestTarget());
  };
  const auto alone = open("            T.cluster_sync()\n");
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->program.has_value());
  const auto together = open(
      "            T.cluster_sync()\n            T.copy_cluster(a, a, "
      "dst_block=pid % 2)\n");
  ASSERT_TRUE(together.ok()) << together.status();
  ASSERT_TRUE(together->needs.has_value());
  EXPECT_EQ(together->needs->tunables, std::vector<std::string>{"n"});
}

TEST(Clusters, TheMemoryOfAllBlocksMustFitOne) {
  const std::string text = Kernel("4, threads=32, cluster_dims=4) as pid",
                                  R"(a = T.alloc_shared((2048, 8), T.int32)
T.clear(a)
T.cluster_sync()
T.copy_cluster(a[0, :], a[1, :], dst_block=(pid + 1) % 4)
T.cluster_sync()
T.copy(a[1, :], y[pid, :]))");
  const auto program = ElaborateText(text);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto refused = DiagnosticOf(kiln::testing::Instructions(*program, "sm_90a").status());
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(refused->message, HasSubstr("what 4 of a cluster do together needs 262144 bytes"));
  EXPECT_THAT(refused->remedy, HasSubstr("clusters of fewer blocks"));
}

// ---- kernels made at random ----

// Blocks with slots of rows. In a phase all push a slot to the next but `shift` block, into a slot
// that nobody touches meanwhile (but after a wait, where a barrier says that it came), and work on
// the others; then they meet. Phases stand in loops.
struct Phase {
  int64_t shift = 0, from = 0, to = 0;
  bool barrier = false, early = false;      // the push comes before the work
  int64_t a = 0, b = 0, c = 0, factor = 1;  // slot a = slot b * factor + slot c + rank
  bool odd = false;                         // odd ranks alone work
  int64_t meeting = 0;                      // sync, or an arrival with work before the wait
};
struct Loop {
  int64_t turns = 1;
  std::vector<Phase> phases;
};
constexpr int64_t kSlots = 4;

std::vector<Loop> RandomLoops(Rng* rng, int64_t blocks) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng->Below(static_cast<uint64_t>(high - low + 1)));
  };
  std::vector<Loop> loops(static_cast<size_t>(pick(1, 2)));
  for (Loop& loop : loops) {
    loop.turns = pick(1, 3);
    loop.phases.resize(static_cast<size_t>(pick(1, 3)));
    for (Phase& p : loop.phases) {
      std::vector<int64_t> slots(kSlots);
      std::iota(slots.begin(), slots.end(), 0);
      for (size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[rng->Below(i)]);
      p.to = slots[0];
      p.from = slots[1];
      p.a = slots[2];
      p.barrier = pick(0, 1) == 0;
      p.early = pick(0, 1) == 0;
      p.b = p.barrier && pick(0, 1) == 0 ? p.to : slots[static_cast<size_t>(pick(1, 3))];
      p.c = slots[static_cast<size_t>(pick(1, 3))];
      if (p.b == p.to) p.early = true;
      p.factor = pick(-1, 1);
      p.shift = pick(0, blocks - 1);
      p.odd = pick(0, 2) == 0;
      p.meeting = pick(0, 1);
    }
  }
  return loops;
}

std::string TextOf(const std::vector<Loop>& loops, int64_t blocks) {
  std::string body = absl::StrCat("s = T.alloc_shared((", kSlots, ", 8), T.int32)\n");
  size_t barriers = 0;
  for (const Loop& loop : loops) barriers += loop.phases.size();
  absl::StrAppend(&body, "came = T.alloc_cluster_barrier([1] * ", barriers, ")\n",
                  "for k, i in T.Parallel(", kSlots, ", 8):\n    s[k, i] = x[pid, i] + k\n",
                  "T.cluster_sync()\n");
  size_t number = 0;
  for (const Loop& loop : loops) {
    absl::StrAppend(&body, "for t in T.serial(", loop.turns, "):\n");
    for (const Phase& p : loop.phases) {
      std::string push = absl::StrCat("    T.copy_cluster(s[", p.from, ", :], s[", p.to,
                                      ", :], dst_block=(pid + ", p.shift, ") % ", blocks);
      absl::StrAppend(&push, p.barrier ? absl::StrCat(", remote_barrier=came[", number, "])\n")
                                       : std::string(")\n"));
      if (p.barrier) {
        absl::StrAppend(&push, "    T.mbarrier_wait_parity(came[", number, "], t % 2)\n");
      }
      const char* deeper = p.odd ? "    " : "";
      std::string work = p.odd ? "    if pid % 2 == 1:\n" : "";
      absl::StrAppend(&work, deeper, "    for i in T.Parallel(8):\n", deeper, "        s[", p.a,
                      ", i] = s[", p.b, ", i] * ", p.factor, " + s[", p.c, ", i] + pid\n");
      const bool apart = p.meeting == 1;
      absl::StrAppend(
          &body, p.early ? push + work : work + push,
          apart ? "    T.cluster_arrive()\n    T.cluster_wait()\n" : "    T.cluster_sync()\n");
      ++number;
    }
  }
  absl::StrAppend(&body, "for i in T.Parallel(8):\n    y[pid, i] = s[0, i]");
  for (int64_t k = 1; k < kSlots; ++k) absl::StrAppend(&body, " + ", k + 1, " * s[", k, ", i]");
  return Kernel(absl::StrCat(2 * blocks, ", threads=32, cluster_dims=", blocks, ") as pid"), body,
                2 * blocks);
}

int64_t Computed(const std::vector<Loop>& loops, int64_t blocks, int64_t row, int64_t j) {
  const int64_t first = row / blocks * blocks;
  std::vector<std::vector<int64_t>> s(static_cast<size_t>(blocks));
  for (int64_t r = 0; r < blocks; ++r) {
    for (int64_t k = 0; k < kSlots; ++k) s[static_cast<size_t>(r)].push_back(Row(first + r, j) + k);
  }
  const auto work = [&](const Phase& p) {
    for (int64_t r = 0; r < blocks; ++r) {
      auto& own = s[static_cast<size_t>(r)];
      if (p.odd && (first + r) % 2 == 0) continue;
      own[p.a] = own[p.b] * p.factor + own[p.c] + first + r;
    }
  };
  for (const Loop& loop : loops) {
    for (int64_t t = 0; t < loop.turns; ++t) {
      for (const Phase& p : loop.phases) {
        if (!p.early) work(p);
        for (int64_t r = 0; r < blocks; ++r) {
          const int64_t peer = (first + r + p.shift) % blocks;
          s[static_cast<size_t>(peer)][p.to] = s[static_cast<size_t>(r)][p.from];
        }
        if (p.early) work(p);
      }
    }
  }
  int64_t sum = 0;
  for (int64_t k = 0; k < kSlots; ++k) sum += (k + 1) * s[static_cast<size_t>(row - first)][k];
  return sum;
}

TEST(Clusters, RandomKernelsAreRight) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Rng rng(seed);
    const int64_t blocks = 2 + static_cast<int64_t>(rng.Below(3));
    const std::vector<Loop> loops = RandomLoops(&rng, blocks);
    ExpectRight(
        TextOf(loops, blocks),
        [&](int64_t row, int64_t j) { return Computed(loops, blocks, row, j); }, seed % 25 == 0);
    if (::testing::Test::HasFailure()) return;
  }
}

// Without a meeting, a push into a slot that others work on is seen.
TEST(Clusters, RandomKernelsWithARaceAreRefused) {
  int64_t races = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const int64_t blocks = 2 + static_cast<int64_t>(rng.Below(3));
    std::vector<Loop> loops = RandomLoops(&rng, blocks);
    Phase& p = loops[0].phases[0];
    p.barrier = p.odd = false;
    if (p.shift == 0) p.shift = 1;
    p.c = p.to;
    ExpectRefused(TextOf(loops, blocks), "nothing orders that with what block");
    ++races;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(races, 60);
}

}  // namespace
}  // namespace kiln::lang
