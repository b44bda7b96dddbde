// Kernels that speak of threads: what becomes of them, and what is refused.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Program(const std::string& body) { return Elaborated(InKernel(body)); }

TEST(Threads, WhatAThreadDoesIsALoopOverThreads) {
  EXPECT_THAT(
      Program("tx = T.get_thread_binding()\ny[0, tx] = x[0, tx]"),
      AllOf(HasSubstr("for threads thread in (128)"), HasSubstr("y[0, thread] = x[0, thread]")));
}

// What is the same for all threads stays the block's, and what differs is kept in registers.
TEST(Threads, TheBlockDoesOnceWhatIsTheSameForAll) {
  const std::string text = Program(
      "tx = T.get_thread_binding()\na = T.alloc_local((2,), 'float32')\nb = T.alloc_local((2,), "
      "'float32')\na[0] = x[0, tx]\nb[0] = x[0, 5]\ny[1, tx] = a[0] + b[0]\ny[2, 3] = b[0]");
  EXPECT_THAT(text,
              AllOf(HasSubstr("a: register float32[128, 2]"),
                    HasSubstr("a[thread, 0] = x[0, thread]"), HasSubstr("b: local float32[2]"),
                    HasSubstr("\n    b[0] = x[0, 5]"), HasSubstr("\n    y[2, 3] = b[0]")));
}

// A fragment that only single threads touch, each with another value in one place.
TEST(Threads, AFragmentMayBeEachThreadsOwn) {
  const std::string text = Program(
      "tx = T.get_thread_binding()\nf = T.alloc_fragment((2,), 'float32')\nf[1] = x[0, tx]\n"
      "y[0, tx] = f[1]");
  EXPECT_THAT(text, AllOf(HasSubstr("f: register float32[128, 2]"),
                          HasSubstr("f[thread, 1] = x[0, thread]")));
  EXPECT_THAT(Program("tx = T.get_thread_binding()\nf = T.alloc_fragment((2,), 'float32')\n"
                      "T.clear(f)\nf[1] = x[0, tx]"),
              HasSubstr("stores to the fragment 'f'"));
}

// Warps that wait for others by a barrier are a part, whatever each of their threads does.
TEST(Threads, WarpsThatWaitAreAPart) {
  const std::string text = Program(
      "tx = T.get_thread_binding()\ns = T.alloc_shared((64,), 'float32')\n"
      "full = T.alloc_barrier(64)\nempty = T.alloc_barrier(64)\nif tx < 64:\n"
      "    for k in T.serial(4):\n        T.barrier_wait(full, k % 2)\n"
      "        y[k, tx] = s[tx]\n        T.barrier_arrive(empty)\nelse:\n"
      "    for k in T.serial(4):\n        T.barrier_wait(empty, k % 2 ^ 1)\n"
      "        s[tx - 64] = x[k, tx]\n        T.barrier_arrive(full)");
  EXPECT_THAT(text,
              AllOf(HasSubstr("for serial k in (4):\n      on threads [64, 128):"),
                    HasSubstr("s[thread - 64] = x[k, thread]"), HasSubstr("on threads [0, 64)")));
}

TEST(Threads, IndicesAlongSeveralAxes) {
  const std::string text =
      "import tilelang.language as T\n\n\n@T.prim_func\ndef kernel(y: T.Tensor((4, 8, 2), "
      "'int32')):\n    with T.Kernel(4, 3, threads=(8, 2)) as (bx, by):\n"
      "        i = T.get_thread_binding(0)\n        j = T.get_thread_binding(1)\n"
      "        k = T.get_thread_binding(2)\n        if T.get_block_binding(1) == 0:\n"
      "            y[T.get_block_binding(0), i, j] = T.get_thread_extent(1) + k + "
      "T.get_block_extent(1)\n";
  EXPECT_THAT(Elaborated(text), AllOf(HasSubstr("thread % 8"), HasSubstr("thread // 8"),
                                      HasSubstr("for threads thread in (16)"), HasSubstr("= 5")));
}

// A value that is only computed is computed again, one that is read from memory is kept.
TEST(Threads, ValuesOutliveTheLoopThatBindsThem) {
  const std::string text = Program(
      "tx = T.get_thread_binding()\ns = T.alloc_shared((128,), 'float32')\nplace = 127 - tx\n"
      "a = x[0, tx]\ns[tx] = a\nT.sync_threads()\ny[0, tx] = s[place] + a");
  EXPECT_THAT(text, AllOf(HasSubstr("a: register float32[128, 1]"), HasSubstr("a[thread, 0] = a_1"),
                          HasSubstr("place_1 = 127 - thread_1")));
}

// What a value is computed from need not be named again itself.
TEST(Threads, ValuesAreComputedAgainFromWhatTheyWereComputedFrom) {
  const std::string text = Program(
      "tx = T.get_thread_binding()\ns = T.alloc_shared((128,), 'float32')\nwarp = tx // 32\n"
      "k = v[tx]\nplace = warp + k\ns[tx] = x[0, place]\nT.sync_threads()\n"
      "y[0, tx] = s[place]");
  EXPECT_THAT(text, AllOf(HasSubstr("k: register int32[128, 1]"), Not(HasSubstr("place: "))));
  EXPECT_THAT(text.substr(text.rfind("for threads ")),
              AllOf(HasSubstr("= thread_1 // 32"), HasSubstr("+ k[thread_1, 0]")));
}

TEST(Threads, ABarrierSaysNothingToAKernelOfTiles) {
  const std::string tiles = "s = T.alloc_shared((64,), 'float32')\nT.copy(x[0, 0], s)\n";
  EXPECT_EQ(Program(tiles + "T.sync_threads()\nT.copy(s, y[0, 0])"),
            Program(tiles + "T.copy(s, y[0, 0])"));
}

// Threads that each touch elements of their own need not wait for the others.
TEST(Threads, OwnElementsDoNotEndALoop) {
  const auto loops = [](const std::string& body) {
    const std::string text = Program(
        "tx = T.get_thread_binding()\ns = T.alloc_shared((4, 512), "
        "'float32')\n" +
        body);
    int count = 0;
    for (size_t at = text.find("for threads "); at != std::string::npos;
         at = text.find("for threads ", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(loops("s[0, tx] = 1\ny[0, tx] = s[0, tx]"), 1);
  EXPECT_EQ(loops("s[0, tx] = 1\ny[0, tx] = s[0, tx + 1]"), 2);
  EXPECT_EQ(loops("for i in T.serial(4):\n    s[1, i * 128 + tx] = 1\ny[0, tx] = s[1, tx]"), 1);
  EXPECT_EQ(loops("for i in T.serial(4):\n    s[1, i * 64 + tx] = 1\ny[0, tx] = s[1, tx]"), 2);
  EXPECT_EQ(loops("s[0, tx // 2] = 1\ny[0, tx] = s[0, tx // 2]"), 2);
  EXPECT_EQ(loops("s[tx // 32, tx % 32] = 1\ny[0, tx] = s[tx // 32, tx % 32]"), 1);
  EXPECT_EQ(loops("s[tx // 32, 0] = 1\ny[0, tx] = s[tx // 32, 0]"), 2);
}

TEST(Threads, ExchangesUnderAConditionAreAmongThoseItHoldsFor) {
  const std::string text = Program(
      "tx = T.get_thread_binding()\nif tx % 2 == 0:\n    y[0, tx] = T.shfl_xor(x[0, tx], 2)");
  EXPECT_THAT(text, AllOf(HasSubstr("holds[thread, 0] = int32(thread % 2 == 0)"),
                          HasSubstr("shuffle("), HasSubstr("if holds[thread")));
}

// There is nothing to fetch ahead for threads.
TEST(Threads, APipelinedLoopOfThreadsIsSerial) {
  EXPECT_THAT(Program("tx = T.get_thread_binding()\nfor k in T.Pipelined(4, num_stages=2):\n"
                      "    y[k, tx] = T.shfl_xor(x[k, tx], 1)"),
              HasSubstr("for serial k in (4)"));
}

struct Refusal {
  const char* body;
  int line;  // of the body
  const char* message;
  const char* remedy;
};

constexpr Refusal kRefusals[] = {
    {"tx = T.get_thread_binding()\ns = T.alloc_shared((8,), 'float32')\nif tx // 32 % 2 == 0:\n"
     "    T.copy(x[0, 0], s)",
     4, "under a condition that differs between threads", "whole warps"},
    {"tx = T.get_thread_binding()\nif tx < 3:\n    T.sync_threads()", 3,
     "T.sync_threads where only some threads come by", "out of the condition"},
    {"tx = T.get_thread_binding()\nfor i in T.serial(tx):\n    y[0, i] = 0\n    T.sync_threads()",
     4, "a barrier in a loop that threads run differently often", "equally often"},
    {"tx = T.get_thread_binding()\nfor i in T.serial(4):\n    if x[i, tx] > 0:\n        break\n"
     "    y[i, tx] = T.shfl_xor(x[i, tx], 1)",
     5, "an exchange between threads in a loop that threads run differently often",
     "equally often"},
    {"tx = T.get_thread_binding()\nwhile v[tx] > 0:\n    T.sync_threads()", 3,
     "a barrier in a loop", "equally often"},
    {"tx = T.get_thread_binding()\ns = T.alloc_shared((8,), 'float32')\nT.copy(x[tx, 0], s)", 3,
     "a tile operation that depends on which thread runs it", "T.alloc_local"},
    {"tx = T.get_thread_binding()\nfor i in T.Parallel(64):\n    y[tx % 4, i] = 0", 2,
     "a tile operation that depends on which thread runs it", "T.alloc_local"},
    {"tx = T.get_thread_binding()\nf = T.alloc_fragment((128,), 'float32')\nf[tx] = 0", 3,
     "a thread by itself stores to the fragment 'f'", "T.alloc_local"},
    {"tx = T.get_thread_binding()\ns = T.alloc_shared((64,), 'float32')\nif tx < 16:\n"
     "    T.copy(x[0, 0], s)",
     4, "under a condition that differs between threads (line 11)", "whole warps"},
    {"tx = T.get_thread_binding()\ns = T.alloc_shared((64,), 'float32')\nif x[0, tx] > 0:\n"
     "    T.copy(x[0, 0], s)",
     4, "under a condition that differs between threads", "whole warps"},
    {"tx = T.get_thread_binding()\nif tx < 64:\n    y[0, tx] = T.syncthreads_count(tx > 3)", 3,
     "T.sync_threads where only some threads come by", "out of the condition"},
    {"for i in T.Parallel(64):\n    y[0, i] = T.shfl_xor(x[0, i], 1)", 2,
     "an exchange between threads in T.Parallel", "T.get_thread_binding"},
    {"tx = T.get_thread_binding(3)", 1, "dimension 3 of a block or a grid", "0, 1 or 2"},
    {"tx = T.thread_binding(64, thread='threadIdx.x')", 1,
     "T.thread_binding of threadIdx.x, of which T.kernel does not", "T.Kernel"},
    {"tx = T.thread_binding(0, 128)", 1, "without a thread axis", "threadIdx.x"},
    {"tx = T.thread_binding(128, thread='warp')", 1, "the axis 'warp'", "threadIdx.x"},
    {"a = T.shfl_xor(x[0, 0], 1, width=5)", 1, "a shuffle of 5 lanes", "power of two"},
    {"a = T.get_warp_idx(1 << 40)", 1, "the size of a warp is 1099511627776", "1 to 1024"},
    {"a = T.shuffle_elect(-1)", 1, "the group of T.shuffle_elect is -1", "to 1024"},
    {"a = T.any_sync(x[0, 0])", 1, "a predicate of float32", "compare"},
    {"a = T.warp_reduce_bitor(x[0, 0])", 1, "a reduction of float32", "integer"},
    {"a = T.alloc_local((1,), 'float32')\nT.evaluate(T.tvm_thread_allreduce(T.uint32(1), x[0, 0], "
     "True, a[0], T.get_thread_binding()))",
     2, "T.tvm_thread_allreduce without a reducer", "T.comm_reducer"},
    {"a = T.alloc_local((1,), 'float32')\nwith T.attr(T.comm_reducer(lambda p, q: p + q, [0.0]), "
     "'reduce_scope', None):\n    T.tvm_thread_allreduce(T.uint32(1), x[0, 0], True, a[0], bx)",
     3, "over something that is no axis of the block", "T.get_thread_binding"},
    {"with T.attr(None, 'pragma', 1):\n    y[0, 0] = 1", 1, "T.attr of 'pragma'", "reduce_scope"},
};

TEST(Threads, Refusals) {
  for (const Refusal& r : kRefusals) {
    const std::string text = InKernel(r.body);
    SCOPED_TRACE(text);
    const auto program = ElaborateText(text);
    ASSERT_FALSE(program.ok()) << ir::ToString(*program);
    const std::optional<Diagnostic> d = DiagnosticOf(program.status());
    ASSERT_TRUE(d.has_value()) << program.status();
    EXPECT_THAT(absl::AsciiStrToLower(d->message), HasSubstr(absl::AsciiStrToLower(r.message)));
    EXPECT_THAT(d->remedy, HasSubstr(r.remedy));
    const std::string before = text.substr(0, text.find("as bx:"));
    EXPECT_EQ(d->loc.line, r.line + 1 + std::count(before.begin(), before.end(), '\n'));
  }
}

// The number of threads must be known where a kernel speaks of them; tiles do not mind.
TEST(Threads, OpenNumbersOfThreads) {
  const std::string text =
      "import tilelang\nimport tilelang.language as T\n\n\n@tilelang.jit\ndef kernel(y: "
      "T.Tensor((64,), 'int32'), threads=64):\n    with T.Kernel(1, threads=threads) as bx:\n"
      "        y[T.get_thread_binding()] = 1\n";
  const auto kernel = Kernel::Parse(MakeSource(text), "", {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto open = ElaborateOpen(*kernel, {}, {}, {"threads"});
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_TRUE(open->needs.has_value());
  EXPECT_THAT(open->needs->tunables, testing::ElementsAre("threads"));
}

}  // namespace
}  // namespace kiln::lang
