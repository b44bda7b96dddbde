// Products in tensor memory (tcgen05), instruction by instruction in the interpreter, against their
// tiles; and the mistakes that a compiler could make there, each of which must show.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Case;
using testing::Difference;
using testing::ExpectNoticed;
using testing::Has;
using testing::kLaunchLine;
using testing::Lowered;
using testing::Nothing;
using testing::Text;
using testing::Tiles;
using testing::With;

// Sums in tensor memory: transposes, types, swizzles, grids of warpgroups, edges, turns.
TEST(TensorMemory, ProductsInTensorMemory) {
  const ir::Instruction mma = ir::Instruction::kTcgen05Mma;
  const auto expect = [&](Case c) {
    c.gpu = "sm_100a";
    testing::ExpectComputes(c, mma);
  };
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      expect({.trans_a = trans_a, .trans_b = trans_b});
      expect({.block_m = 128, .type = "float16", .trans_a = trans_a, .trans_b = trans_b});
      expect({.block_k = 64, .type = "float8_e4m3fn", .trans_a = trans_a, .trans_b = trans_b});
      expect({.type = "int8", .accum = "int32", .trans_a = trans_a, .trans_b = trans_b});
    }
  }
  expect({.block_k = 128, .type = "float8_e5m2"});
  for (const int block_k : {16, 32, 64, 128}) expect({.block_k = block_k});
  expect({.block_n = 32, .trans_b = false});
  expect({.block_n = 16});
  for (const int stages : {1, 2, 3, 4}) {
    for (const int k : {64, 128, 320}) expect({.k = k, .stages = stages});
  }
  expect({.block_m = 128, .block_n = 64, .threads = 256});
  expect({.block_m = 64, .block_n = 128, .threads = 256});
  expect({.m = 256, .block_m = 256, .block_n = 64});
  expect({.n = 512, .k = 64, .block_m = 128, .block_n = 512, .stages = 1, .threads = 256});
  expect({.m = 256, .n = 192, .block_m = 256, .block_n = 192, .threads = 256});
  expect({.m = 100, .n = 72, .k = 200});
  expect({.m = 96, .n = 130, .k = 72, .trans_a = true, .trans_b = false});
  for (const int cores : {1, 2, 3}) {
    for (const int stages : {1, 2, 3}) {
      expect({.m = 192, .k = 320, .stages = stages, .cores = cores});
    }
  }
}

// A block that takes turns multiplies one tile while it stores the last: a part fetches, one starts
// products, one stores; sums that fill more than half of tensor memory have one place.
TEST(TensorMemory, ProductsBesideStores) {
  const auto parts = [](const Case& c) {
    const auto tiles = Tiles(Text(c));
    const auto instructions = Lowered(*tiles, c);
    EXPECT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_EQ(Difference(*tiles, *instructions), "");
    int count = 0;
    ir::Walk(instructions->body, [&](const ir::Stmt& s) {
      const bool part = s.kind() == ir::StmtKind::kOnThreads;
      count += part ? 1 : 0;
      return !part;
    });
    return count;
  };
  Case c = {.m = 256, .n = 512, .k = 128, .block_m = 128, .block_n = 128, .gpu = "sm_100a"};
  EXPECT_EQ(parts(c), 2);  // each tile has a block
  c.cores = 3;
  EXPECT_EQ(parts(c), 3);
  c.block_m = 256;
  c.threads = 256;
  c.cores = 1;
  EXPECT_EQ(parts(c), 4);  // and one that gives registers away
  c.block_n = 256;
  EXPECT_EQ(parts(c), 2);
}

// Pairs of blocks each fetch half of what both multiply, and give it back when both products that
// read it are over; in turns, too, and beside stores.
constexpr Case kPairs = {
    .k = 768, .block_k = 128, .stages = 4, .cores = 2, .gpu = "sm_100a", .cluster = 2};

TEST(TensorMemory, PairsShareTiles) {
  const auto expect = [](const Case& c) {
    testing::ExpectComputes(c, ir::Instruction::kTcgen05Mma);
  };
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      Case c = kPairs;
      c.trans_a = trans_a;
      c.trans_b = trans_b;
      expect(c);
      c.m = 256;
      expect(c);  // in turns
    }
  }
  Case c = kPairs;
  c.m = 250, c.n = 72, c.k = 608;
  expect(c);
  c.type = "float8_e4m3fn", c.block_k = 256;
  expect(c);
  c = kPairs;
  c.m = 512, c.block_m = 256, c.threads = 256, c.stages = 2, c.k = 320;
  expect(c);
  c.cores = 132;
  expect(c);
}

// Steps that the run says: none at all, fewer than stages, as many, more.
TEST(TensorMemory, PairsTakeAnyNumberOfSteps) {
  Case c = kPairs;
  c.m = 256;
  std::string text = Text(c);
  ASSERT_EQ(absl::StrReplaceAll({{"T.Pipelined(T.ceildiv(768, 128)", "T.Pipelined(n"},
                                 {"\"float32\")):", "\"float32\"), n: T.int32):"}},
                                &text),
            2);
  const auto tiles = Tiles(text, c.cluster);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  for (const int cores : {2, 132}) {
    c.cores = cores;
    const auto instructions = Lowered(*tiles, c);
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_TRUE(absl::StrContains(ir::ToString(*instructions), "cluster=\"2\""));
    for (const int steps : {-3, -1, 0, 1, 4, 5, 6}) {
      EXPECT_EQ(Difference(*tiles, *instructions, 0, {{"n", steps}}), "") << steps;
    }
  }
}

// Kernels whose products a loop does not simply add up from zero.
std::string OneTile(const std::string& before, const std::string& loop, const std::string& after) {
  return absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def sums(A: T.Tensor((128, 256), "bfloat16"), B: T.Tensor((64, 256), "bfloat16"),
         N: T.Tensor((1,), "int32"), S: T.Tensor((128, 64), "float32"),
         C: T.Tensor((128, 64), "float32"), D: T.Tensor((128, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        c = T.alloc_fragment((128, 64), "float32")
        d = T.alloc_fragment((128, 64), "float32")
        n = T.alloc_var("int32")
        n = N[0] - N[0]
)",
                      before, loop, after);
}

constexpr char kFetchBoth[] =
    "            T.copy(A[0, k * 64], a)\n"
    "            T.copy(B[0, k * 64], b)\n";

TEST(TensorMemory, SumsThatBeginAnyhow) {
  const std::string fetch = kFetchBoth, clear = "        T.clear(c)\n";
  const std::string start = "        T.copy(S, c)\n", end = "        T.copy(c, C)\n";
  const std::string loop = "        for k in T.Pipelined(4, num_stages=2):\n" + fetch;
  const std::string some = "        for k in T.Pipelined(n, num_stages=2):\n" + fetch;
  const std::string product = "            T.gemm(a, b, c, transpose_B=True)\n";
  const std::string both = product + "            T.gemm(a, b, d, transpose_B=True)\n";
  const std::string inner = "            for h in T.serial(2):\n    " + product;
  const std::string serial = "        for t in T.serial(2):\n    " + clear +
                             "            for k in T.Pipelined(4, num_stages=2):\n                "
                             "T.copy(A[0, k * 64], a)\n"
                             "                T.copy(B[0, k * 64], b)\n    " +
                             product + "    " + end;
  const std::string first = "            T.gemm(a, b, c, transpose_B=True, clear_accum=k == 0)\n";
  for (const std::string& text : {
           OneTile(start, loop + product, end),  // from a tensor
           OneTile(clear + "        T.fill(d, 2.0)\n", loop + both, end + "        T.copy(d, D)\n"),
           OneTile(clear, loop + inner, end),                     // nested
           OneTile("", loop + first, end),                        // cleared by the kernel
           OneTile(clear, some + product, end),                   // none at all
           OneTile(clear, serial, ""),                            // turn by turn
           OneTile(clear, loop + product + loop + product, end),  // two loops
       }) {
    for (const char* specialised : {"true", "false"}) {
      auto tiles = Tiles(text);
      ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
      tiles->attrs["tl.disable_warp_specialized"] = specialised;
      const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
      ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
      EXPECT_TRUE(Has(*instructions, ir::Instruction::kTcgen05Mma)) << text;
      EXPECT_FALSE(Has(*instructions, ir::Instruction::kMma)) << text;
      EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
    }
    auto tiles = Tiles(text);
    tiles->attrs["kiln.tcgen05"] = "0";
    const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_FALSE(Has(*instructions, ir::Instruction::kTcgen05Mma)) << text;
    EXPECT_TRUE(Has(*instructions, ir::Instruction::kMma)) << text;
  }
}

// What is looked at between products that are small stays in registers, and the launch says why.
TEST(TensorMemory, SumsThatStayInRegisters) {
  const auto tiles =
      Tiles(OneTile("        T.clear(c)\n",
                    absl::StrCat("        for k in T.Pipelined(4, num_stages=2):\n", kFetchBoth,
                                 "            T.gemm(a[:, :32], b[:, :32], c, transpose_B=True)\n",
                                 "            for i, j in T.Parallel(128, 64):\n",
                                 "                c[i, j] = c[i, j] * 0.5\n"),
                    "        T.copy(c, C)\n"));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_TRUE(Has(*instructions, ir::Instruction::kMma));
  EXPECT_TRUE(absl::StrContains(ir::ToString(*instructions),
                                "registers:c=\"it is looked at between products\""));
  EXPECT_EQ(Difference(*tiles, *instructions), "");
}

// Two results meet in a loop, of which one must stay in registers: both do.
TEST(TensorMemory, SumsThatMeetOthers) {
  const auto tiles = Tiles(
      OneTile("        T.clear(c)\n        T.clear(d)\n",
              absl::StrCat("        for k in T.Pipelined(4, num_stages=2):\n", kFetchBoth,
                           "            T.gemm(a, b, c, transpose_B=True)\n",
                           "            T.gemm(a[:, :32], b[:, :32], d, transpose_B=True)\n",
                           "            for i, j in T.Parallel(128, 64):\n",
                           "                d[i, j] = d[i, j] * 0.5\n"),
              absl::StrCat("        for i, j in T.Parallel(128, 64):\n",
                           "            c[i, j] = c[i, j] + d[i, j]\n        T.copy(c, C)\n")));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_FALSE(Has(*instructions, ir::Instruction::kTcgen05Mma));
  EXPECT_TRUE(absl::StrContains(ir::ToString(*instructions), "registers:c=\"the rest of"));
  EXPECT_EQ(Difference(*tiles, *instructions), "");
}

// ---- mistakes ----

// Products in tensor memory: nothing of what orders them may be left out, be it a loop that one
// warp runs or products that all threads wait for.
TEST(TensorMemoryMistakes, AreNoticed) {
  using ir::Instruction;
  const Case turns = {.k = 320, .stages = 2, .cores = 1, .gpu = "sm_100a"};
  for (const Instruction op :
       {Instruction::kBarrierWait, Instruction::kBarrierExpect, Instruction::kBarrierInit,
        Instruction::kTensorLoad, Instruction::kTcgen05Alloc, Instruction::kTcgen05Free,
        Instruction::kTcgen05Mma, Instruction::kTcgen05Commit, Instruction::kTcgen05Load,
        Instruction::kTcgen05Wait, Instruction::kTcgen05Fence}) {
    // The warp that starts products fences every turn: what follows the first barrier is not
    // needed.
    const int count = ExpectNoticed(turns, [&](const ir::Instruct& x) {
      if (x.op != op) return ir::Stmt();
      const bool first = op == Instruction::kTcgen05Fence && x.loc.line == kLaunchLine &&
                         ir::IsConst(x.args[0], 1);
      return first ? ir::Stmt() : Nothing(x);
    });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
  auto tiles = Tiles(Text({.m = 64, .n = 64, .k = 320, .stages = 3}));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  tiles->attrs["tl.disable_warp_specialized"] = "true";
  const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  for (const Instruction op :
       {Instruction::kBarrierWait, Instruction::kBarrierInit, Instruction::kBlockBarrier,
        Instruction::kProxyFence, Instruction::kAsyncCopy, Instruction::kAsyncWait,
        Instruction::kTcgen05Alloc, Instruction::kTcgen05Free, Instruction::kTcgen05Mma,
        Instruction::kTcgen05Commit, Instruction::kTcgen05Load, Instruction::kTcgen05Wait,
        Instruction::kTcgen05Fence}) {
    const int count = ExpectNoticed(*tiles, *instructions, [&](const ir::Instruct& x) {
      return x.op == op ? Nothing(x) : ir::Stmt();
    });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
}

// Of two blocks one does not do its share for the other, or does not hear of it.
TEST(TensorMemoryMistakes, OfPairsAreNoticed) {
  using ir::Instruction;
  for (const int cores : {2, 132}) {
    Case c = kPairs;
    c.m = 256;
    c.cores = cores;
    const int alone = ExpectNoticed(c, [](const ir::Instruct& x) -> ir::Stmt {
      auto notes = x.annotations;
      const bool commits = x.op == Instruction::kTcgen05Commit && notes.erase("cluster") > 0;
      return commits ? With(x, x.args, notes) : ir::Stmt();
    });
    EXPECT_EQ(alone, 1) << cores;
    const int one = ExpectNoticed(c, [](const ir::Instruct& x) -> ir::Stmt {
      const bool counts = x.op == Instruction::kBarrierInit && ir::IsConst(x.args[0], 2);
      return counts ? With(x, {ir::MakeInt(1)}, x.annotations) : ir::Stmt();
    });
    EXPECT_EQ(one, 1) << cores;
    for (const Instruction op :
         {Instruction::kTcgen05Commit, Instruction::kTensorLoad, Instruction::kBarrierWait}) {
      EXPECT_GT(ExpectNoticed(
                    c, [&](const ir::Instruct& x) { return x.op == op ? Nothing(x) : ir::Stmt(); }),
                0)
          << ir::Name(op);
    }
  }
}

// Fewer columns than products fill, or other ones.
TEST(TensorMemoryMistakes, OtherColumnsAreNoticed) {
  const Case c = {.n = 256, .block_m = 128, .block_n = 128, .gpu = "sm_100a"};
  for (const ir::Instruction op : {ir::Instruction::kTcgen05Alloc, ir::Instruction::kTcgen05Free}) {
    EXPECT_EQ(ExpectNoticed(c,
                            [&](const ir::Instruct& x) {
                              if (x.op != op) return ir::Stmt();
                              std::vector<ir::Expr> args = x.args;
                              args.back() = ir::MakeInt(64);
                              return With(x, std::move(args), x.annotations);
                            }),
              1);
  }
  for (const ir::Instruction op : {ir::Instruction::kTcgen05Mma, ir::Instruction::kTcgen05Load}) {
    EXPECT_EQ(ExpectNoticed(c,
                            [&](const ir::Instruct& x) {
                              if (x.op != op) return ir::Stmt();
                              std::vector<ir::Expr> args = x.args;
                              args.back() = args.back() + ir::MakeInt(16, kInt32);
                              return With(x, std::move(args), x.annotations);
                            }),
              1);
  }
}

}  // namespace
}  // namespace kiln
