// Barriers that kernels write themselves: taken away where the order of the program satisfies
// them, refused where it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/barrier_order.h"
#include "tests/unit/lang/lang_test_util.h"
#include "tests/unit/lang/pipelined_ring.h"

namespace kiln::lang {
namespace {

using ::testing::HasSubstr;

// A ring of two tiles between a part that fills and a part that multiplies.
constexpr char kRing[] = R"(
@T.prim_func
def ring(A: T.Tensor((64, 512), "float16"), B: T.Tensor((64, 512), "float16"),
         C: T.Tensor((64, 64), "float32")):
    with T.Kernel(2, threads=256) as bx:
        a = T.alloc_shared((2, 64, 64), "float16")
        b = T.alloc_shared((2, 64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        full = T.alloc_barrier(arrive_count=[128] * 2)
        empty = T.alloc_barrier(arrive_count=[128, 128])
        with T.ws(0):
            T.clear(c)
        for k in T.serial(8):
            with T.ws(1):
                T.set_max_nreg(40, 0)
                free = empty[k % 2]
                T.mbarrier_wait_parity(mbarrier=free, parity=(k // 2) % 2 ^ 1)
                T.mbarrier_expect_tx(full[k % 2], 16384)
                T.tma_copy(A[0, k * 64], a[k % 2, :, :], barrier=full[k % 2])
                T.tma_copy(B[0, k * 64], b[k % 2, :, :], barrier=full[k % 2])
                T.mbarrier_arrive(mbarrier=full[k % 2])
            with T.ws(0):
                T.barrier_wait(full[k % 2], (k // 2) % 2)
                T.wgmma_gemm(a[k % 2, :, :], b[k % 2, :, :], c, transpose_B=True)
                T.wait_wgmma(0)
                T.barrier_arrive(empty[k % 2])
        with T.ws(0):
            T.copy(c, C)
)";

std::string Text(const std::string& kernel) { return "import tilelang.language as T\n" + kernel; }

std::string Changed(const std::string& from, const std::string& to) {
  const std::string kernel = kRing;
  EXPECT_NE(kernel.find(from), std::string::npos) << from;
  return Text(absl::StrReplaceAll(kernel, {{from, to}}));
}

// The lines of a kernel that are not about barriers.
std::string Plain(absl::string_view kernel) {
  std::string plain;
  for (absl::string_view line : absl::StrSplit(kernel, '\n')) {
    if (line.find("barrier") != line.npos && line.find("copy") == line.npos) continue;
    if (line.find("empty") != line.npos || line.find("nreg") != line.npos) continue;
    if (line.find("wait_wgmma") != line.npos) continue;
    absl::StrAppend(&plain, line, "\n");
  }
  plain = absl::StrReplaceAll(
      plain, {{"tma_copy", "copy"}, {"wgmma_gemm", "gemm"}, {", barrier=full[k % 2])", ")"}});
  EXPECT_EQ(plain.find("full"), std::string::npos) << plain;
  return plain;
}

// Half a tile is filled, so that it is no ring of tiles.
const std::vector<std::pair<const char*, const char*>> kHalves = {
    {"A[0, k * 64], a[k % 2, :, :]", "A[0:32, k * 64:k * 64 + 64], a[k % 2, :32, :]"},
    {"B[0, k * 64], b[k % 2, :, :]", "B[0:32, k * 64:k * 64 + 64], b[k % 2, :32, :]"},
};

TEST(Barriers, WhatTheOrderSatisfiesIsTheKernelWithoutThem) {
  // But that warps deal out the rows of a warpgroup's product.
  const std::string want = absl::StrReplaceAll(
      Elaborated(Text(absl::StrReplaceAll(Plain(kRing), kHalves))), {{"square", "full_row"}});
  EXPECT_THAT(want, HasSubstr("gemm"));
  EXPECT_EQ(Elaborated(Text(absl::StrReplaceAll(kRing, kHalves))), want);
}

// One part fetches whole tiles into a ring, the other works: a pipelined loop of as many stages.
TEST(Barriers, ARingIsAPipelinedLoop) {
  EXPECT_EQ(Elaborated(Text(kRing)), Elaborated(Text(kPipelinedRing)));
  // Half a tile, another place, a use outside of the loop: no ring.
  const std::pair<const char*, const char*> kNot[] = {
      kHalves[0],
      {"T.tma_copy(A[0, k * 64], a[k % 2", "T.tma_copy(A[0, k * 64], a[(k + 1) % 2"},
      {"            T.copy(c, C)", "            T.copy(c, C)\n            T.copy(a[0, :, :], C)"},
  };
  for (const auto& [from, to] : kNot) {
    const std::string program = Elaborated(Changed(from, to));
    EXPECT_THAT(program, HasSubstr("a: shared float16[2, 64, 64]")) << to;
    EXPECT_THAT(program, HasSubstr("b: shared float16[64, 64]")) << to;
  }
  // A third part: a loop of parts, but of one tile.
  const std::string third = Elaborated(absl::StrReplaceAll(
      Changed("            T.copy(c, C)",
              "            T.copy(c, C)\n        with T.ws(2):\n            T.copy(B[0, 0], C)"),
      {{"threads=256", "threads=384"}}));
  EXPECT_THAT(third, HasSubstr("copy A[0 : +64, k * 64 : +64] -> a\n"));
  EXPECT_THAT(third, HasSubstr("on threads [128, 256)"));
}

struct Wrong {
  const char* from;
  const char* to;
  const char* message;
};

TEST(Barriers, WhatItDoesNotSatisfyIsRefused) {
  const Wrong kWrong[] = {
      {"                T.barrier_arrive(empty[k % 2])\n", "", "never ends"},
      {"                T.mbarrier_arrive(mbarrier=full[k % 2])\n", "", "never ends"},
      {"(k // 2) % 2 ^ 1", "(k // 2) % 2",
       "(0 threads have arrived, 128 make a phase, and parity 0 waits for phase 0) never ends"},
      {"T.barrier_wait(full[k % 2], (k // 2) % 2)", "T.barrier_wait(full[k % 2], k % 2)",
       "never ends"},
      {"[128] * 2", "[256] * 2", "128 threads have arrived, 256 make a phase"},
      {"with T.ws(1):\n                T.set", "with T.ws(0, 1):\n                T.set",
       "this wait for barrier 0 of 'empty' (0 threads"},
      {"T.barrier_wait(full[k % 2]", "T.barrier_wait(full[k % 2 + 1]",
       "barrier 2 of 'full', which has 2"},
      {"T.barrier_wait(full[k % 2]", "T.barrier_wait(full[k % 4]",
       "barrier 2 of 'full', which has 2"},
      {"T.barrier_wait(full[k % 2]", "T.barrier_wait(full", "'full' is 2 barriers"},
      {"T.barrier_wait(full[k % 2]", "T.barrier_wait(c", "a barrier is wanted here"},
      {"T.barrier_wait(full[k % 2]", "T.barrier_wait(full[k % 2] + 1", "a barrier is wanted here"},
      {"T.set_max_nreg(40, 0)", "c[0, 0] = full[0] + 1", "a barrier is used as a number"},
      {"T.set_max_nreg(40, 0)", "full[0] = 1", "is a barrier and holds no values"},
      {"T.set_max_nreg(40, 0)", "T.copy(full, c)", "must be a buffer"},
      {"mbarrier=full[k % 2])\n", "mbarrier=full[k % 2], cta_id=0)\n",
       "cta_id in a launch without clusters"},
      {"barrier=full[k % 2])\n                T.tma_copy(B",
       "barrier=full[k % 2], cluster_mask=3)\n                T.tma_copy(B",
       "cluster_mask in a launch without clusters"},
      {"[128] * 2", "[0, 128]", "arrive_count is 0"},
      {"[128] * 2", "[]", "of no barriers"},
      {"T.clear(c)\n",
       "T.clear(c)\n            for i in T.Parallel(4):\n"
       "                T.barrier_arrive(full[0])\n",
       "a barrier in a loop over elements"},
      {"T.barrier_wait(full[k % 2], (k // 2) % 2)",
       "T.barrier_wait(full[k % 2], T.cast(A[0, 0], \"int32\"))", "depends on a run-time value"},
      {"T.serial(8)", "T.serial(bx * 1000000 + 8)", "used too often to follow"},
  };
  for (const Wrong& wrong : kWrong) {
    const auto program = ElaborateText(Changed(wrong.from, wrong.to));
    ASSERT_FALSE(program.ok()) << wrong.to;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(wrong.message)) << wrong.to;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr("help:"));
  }
}

// Arrivals are counted thread by thread.
TEST(Barriers, SomeThreadsArrive) {
  const auto some = [](const char* condition, int count) {
    return Elaborated(Text(absl::StrCat(R"(
@T.prim_func
def some(A: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        bar = T.alloc_barrier(arrive_count=)",
                                        count, R"()
        if )",
                                        condition, R"(:
            T.mbarrier_arrive(bar)
        T.mbarrier_wait_parity(bar, 0)
        A[tx] = 1.0
)")));
  };
  EXPECT_THAT(some("tx == 0", 1), HasSubstr("A["));
  EXPECT_THAT(some("tx % 32 < 3", 12), HasSubstr("A["));
  EXPECT_THAT(some("tx % 32 < 3", 13), HasSubstr("12 threads have arrived, 13 make a phase"));
  EXPECT_THAT(some("A[tx] > 0.0", 1), HasSubstr("depends on a run-time value"));
}

// Blocks that do different numbers of steps, a phase in a variable, a loop that is left.
TEST(Barriers, ControlFlowIsFollowed) {
  EXPECT_THAT(Elaborated(Changed("T.serial(8)", "T.serial(bx + 4)")), HasSubstr("gemm"));
  EXPECT_THAT(Elaborated(Changed("T.serial(8)", "T.serial(T.cast(A[0, 0], \"int32\"))")),
              HasSubstr("gemm"));
  const auto steps = [](const char* toggle) {
    return Text(absl::StrCat(R"(
@T.prim_func
def steps(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=128) as bx:
        bar = T.alloc_barrier(128)
        phase = T.alloc_var("int32", init=0)
        left = T.alloc_var("int32", init=9)
        while left > 0:
            left = left - 1
            if left == 3:
                break
            T.barrier_arrive(bar)
            T.barrier_wait(bar, phase)
            )",
                             toggle, R"(
        A[0] = 1.0
)"));
  };
  EXPECT_THAT(Elaborated(steps("phase = phase ^ 1")), HasSubstr("left"));
  EXPECT_THAT(Elaborated(steps("pass")), HasSubstr("128 make a phase, and parity 0 waits"));
  EXPECT_THAT(Elaborated(steps("phase = T.cast(A[0], \"int32\")")),
              HasSubstr("depends on a run-time value"));
}

// A loop of as many turns as a value of run time says, with `body` in it.
std::string Counted(const std::string& body, const std::string& after = "pass") {
  return Text(absl::StrReplaceAll(
      R"(
@T.prim_func
def counted(A: T.Tensor((64,), "int32"), n: T.int32):
    with T.Kernel(1, threads=128) as bx:
        v = T.alloc_var("int32", init=0)
        each = T.alloc_barrier(128)
        all = T.alloc_barrier(128 * 30)
        for k in T.serial(n):
            BODY
        AFTER
)",
      {{"BODY", absl::StrReplaceAll(body, {{"\n", "\n            "}})},
       {"AFTER", absl::StrReplaceAll(after, {{"\n", "\n        "}})}}));
}

// What goes wrong for some counts alone: for every third, for one, near the end of loops that are
// long enough, in the last turn, by what a variable is after it and by how many have arrived.
TEST(Barriers, TurnsThatAreCountedAtRunTimeAreFollowedUntilTheyRepeat) {
  const auto some = [](const std::string& what) {
    return absl::StrCat("if n % 3 == 0:\n    ", absl::StrReplaceAll(what, {{"\n", "\n    "}}),
                        "\n");
  };
  const std::string turn = "T.barrier_arrive(each)\nT.barrier_wait(each, k % 2)\n";
  const std::string count = "v = (v + 1) % 64\n", many = "T.barrier_arrive(all)\n";
  for (const std::string& right :
       {Counted(turn), Counted(turn + some("if k == n - 30:\n    T.barrier_arrive(all)")),
        Counted(turn + count + some("if v == 40:\n    T.barrier_wait(each, k % 2)")),
        Counted(turn + many + some("T.barrier_wait(all, (k + 1) // 30 % 2 ^ 1)")),
        Counted(turn + count, "if v == 40:\n    T.barrier_wait(all, 1)")}) {
    const auto program = ElaborateText(right);
    EXPECT_TRUE(program.ok()) << right << program.status().message();
  }
  const std::string never = "T.barrier_wait(each, k % 2 ^ 1)";
  for (const std::string& wrong :
       {Counted(turn + some("if k == n - 30:\n    " + never)),
        Counted(turn + count + some("if v == 40:\n    " + never)),
        Counted(turn + "if n == 40:\n    " + never),
        Counted(turn + count, "if v == 40:\n    T.barrier_wait(all, 0)"),
        Counted(turn + many, "T.barrier_wait(all, 1)"),
        absl::StrReplaceAll(Counted(turn + "if k == n + 1:\n    " + never),
                            {{"T.serial(n)", "T.serial(n + 2)"}})}) {
    const auto program = ElaborateText(wrong);
    ASSERT_FALSE(program.ok()) << wrong;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr("never ends"));
  }
}

// Blocks that look at the same of their number are run once: more of them than could be run one
// after the other. One that does something else is found, however it learns its number.
TEST(Barriers, BlocksThatDoTheSame) {
  const auto text = [](const char* before, const char* condition) {
    return absl::StrReplaceAll(R"(
import tilelang.language as T
@T.prim_func
def blocks(A: T.Tensor((64,), "int32")):
    with T.Kernel(COUNT, 8, threads=128) as (bx, by):
        each = T.alloc_barrier(128)
        BEFORE
        first = bx % 5
        for k in T.serial(first, 100 + first):
            T.barrier_arrive(each)
            T.barrier_wait(each, (k - first) % 2)
            if CONDITION:
                T.barrier_wait(each, (k - first) % 2 ^ 1)
)",
                               {{"BEFORE", before}, {"CONDITION", condition}});
  };
  const auto message = [](std::string kernel, const char* count) {
    kernel = absl::StrReplaceAll(kernel, {{"COUNT", count}});
    return std::string(ElaborateText(kernel).status().message());
  };
  EXPECT_EQ(message(text("pass", "k < 0"), "20000"), "");
  for (const auto& [before, condition] : std::vector<std::pair<const char*, const char*>>{
           {"pass", "bx == 137 and by == 7"},
           {"pass", "k == 50 and bx * 8 + by == 1000"},
           {"n = bx // 100", "n == k - 98"},
           {"n = T.alloc_var('int32', init=bx)", "n == 137"},
           {"n = T.alloc_var('int32', init=0)\n        if by == 3:\n            n = 1",
            "n == 1"}}) {
    EXPECT_THAT(message(text(before, condition), "200"), HasSubstr("never ends")) << condition;
  }
}

}  // namespace
}  // namespace kiln::lang
