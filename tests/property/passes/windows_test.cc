// Convolutions whose pixels TMA fetches under a window, in the interpreter against their tiles; and
// gathers that look like one and are none.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

struct Case {
  int n = 2, h = 7, w = 9, c = 32, r = 3, s = 3;
  int stride = 1, pad = 1, dilation = 1;
  int block_m = 64, block_k = 32, stages = 2;
};

// {names} are put in by Text.
constexpr char kKernel[] = R"(import tilelang
import tilelang.language as T


@T.prim_func
def windows(x: T.Tensor(({n}, {h}, {w}, {c}), "float16"),
            f: T.Tensor(({r} * {s} * {c}, 32), "float16"),
            out: T.Tensor(({n} * {p} * {q}, 32), "float32")):
    with T.Kernel(1, T.ceildiv({n} * {p} * {q}, {block_m}), threads=128) as (bx, by):
        a = T.alloc_shared(({block_m}, {block_k}), "float16")
        b = T.alloc_shared(({block_k}, 32), "float16")
        sums = T.alloc_fragment(({block_m}, 32), "float32")
        T.clear(sums)
        for step in T.Pipelined({r} * {s} * {c} // {block_k}, num_stages={stages}):
            for i, j in T.Parallel({block_m}, {block_k}):
                k = step * {block_k} + j
                m = by * {block_m} + i
                row = m % ({p} * {q}) // {q} * {stride} + k // ({s} * {c}) * {dilation} - {pad}
                column = m % {q} * {stride} + k // {c} % {s} * {dilation} - {pad}
                inside = row >= 0 and column >= 0 and row < {h} and column < {w}
                a[i, j] = T.if_then_else(inside, x[m // ({p} * {q}), row, column, k % {c}], 0)
            T.copy(f[step * {block_k}, 0], b)
            T.gemm(a, b, sums)
        T.copy(sums, out[by * {block_m}, 0])
)";

std::string Text(const Case& c) {
  const int p = (c.h + 2 * c.pad - c.dilation * (c.r - 1) - 1) / c.stride + 1;
  const int q = (c.w + 2 * c.pad - c.dilation * (c.s - 1) - 1) / c.stride + 1;
  std::string text = kKernel;
  const std::pair<const char*, int> values[] = {{"{n}", c.n},
                                                {"{h}", c.h},
                                                {"{w}", c.w},
                                                {"{c}", c.c},
                                                {"{r}", c.r},
                                                {"{s}", c.s},
                                                {"{p}", p},
                                                {"{q}", q},
                                                {"{stride}", c.stride},
                                                {"{pad}", c.pad},
                                                {"{dilation}", c.dilation},
                                                {"{block_m}", c.block_m},
                                                {"{block_k}", c.block_k},
                                                {"{stages}", c.stages}};
  for (const auto& [name, value] : values) {
    absl::StrReplaceAll({{name, absl::StrCat(value)}}, &text);
  }
  return text;
}

void ExpectComputes(const std::string& text, bool by_window, const char* gpu = "sm_90a") {
  const auto tiles = testing::Elaborated("k.py", text);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = testing::Instructions(*tiles, gpu, /*cores=*/2);
  ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
  EXPECT_EQ(testing::Has(*instructions, ir::Instruction::kPatchLoad), by_window) << text;
  EXPECT_EQ(testing::Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
}

TEST(Windows, OfEveryKind) {
  ExpectComputes(Text({}), true);
  ExpectComputes(Text({.stride = 2}), true);
  ExpectComputes(Text({.pad = 0}), true);
  ExpectComputes(Text({.pad = 3, .dilation = 2}), true);
  ExpectComputes(Text({.r = 1, .s = 1, .pad = 0}), true);
  ExpectComputes(Text({.r = 1, .s = 1, .stride = 3, .pad = 2}), true);
  ExpectComputes(Text({.c = 128, .r = 2, .block_k = 64, .stages = 3}), true);
  ExpectComputes(Text({.c = 128, .r = 1, .block_k = 128}), true);  // two panels of a swizzle
}

TEST(Windows, Random) {
  std::mt19937_64 rng(5);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 25; ++i) {
    Case c;
    c.n = pick(1, 3);
    c.r = pick(1, 3);
    c.s = pick(1, 3);
    c.stride = pick(1, 3);
    c.dilation = pick(1, 3);
    c.pad = pick(0, 4);
    c.h = pick(2, 4) + c.dilation * (c.r - 1);
    c.w = pick(2, 6) + c.dilation * (c.s - 1);
    c.c = 32 * pick(1, 2);
    c.stages = pick(1, 3);
    const std::string text = Text(c);
    const auto tiles = testing::Elaborated("k.py", text);
    ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto instructions = testing::Instructions(*tiles, "sm_90a", /*cores=*/2);
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_EQ(testing::Difference(*tiles, *instructions), "")
        << text << ir::ToString(*instructions);
  }
}

TEST(Windows, OnlyHopperHasThem) { ExpectComputes(Text({}), false, "sm_80"); }

// Each is a gather like a convolution's but for one thing, which TMA would get wrong.
TEST(Windows, GathersThatAreNone) {
  const std::pair<const char*, const char*> changes[] = {
      {"m % 9 * 1 +", "m % 9 * 2 +"},  // strides that differ
      {"row < 7 and", "row < 6 and"},  // a guard that says more
      {"row < 7 and", "row < 7 and row + column < 9 and"},
      {"row < 7 and", "row < 7 and i < 60 and"},
      {"m % (7 * 9) // 9", "m % (7 * 9) // 3"},  // rows of another width
      {"x[m // (7 * 9),", "x[m // (5 * 9),"},    // images of another size
      {"x[m // (7 * 9),", "x[1 - m // (7 * 9),"},
      {"m = by * 64 + i", "m = by * 64 + 63 - i"},      // backwards
      {"m = by * 64 + i", "m = by * 64 + i // 2 * 2"},  // pairs
      {"k % 32], 0)", "31 - k % 32], 0)"},              // channels backwards
      {"k % 32], 0)", "(k + i) % 32], 0)"},             // of every row others
      {"k % 32], 0)", "k % 32], 1)"},                   // ones outside
      {"k // 32 % 3", "(k // 32 + i) % 3"},             // taps of every row
  };
  for (const auto& [from, to] : changes) {
    std::string text = Text({});
    ASSERT_EQ(absl::StrReplaceAll({{from, to}}, &text), 1) << from;
    ExpectComputes(text, false);
  }
}

// What the instruction is told must all be right.
TEST(Windows, MistakesAreNoticed) {
  const auto tiles = testing::Elaborated("k.py", Text({.stride = 2, .dilation = 2}));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = testing::Instructions(*tiles, "sm_90a", /*cores=*/2);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  const auto expect_noticed = [&](const std::string& what,
                                  const std::function<void(ir::Instruct*)>& change) {
    int changed = 0;
    ir::Program mistaken = *instructions;
    mistaken.body = ir::RewriteStmts(instructions->body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* x = s.As<ir::Instruct>();
      if (x == nullptr || x->op != ir::Instruction::kPatchLoad) return {};
      ++changed;
      ir::Instruct other = *x;
      change(&other);
      return ir::MakeStmt<ir::Instruct>(x->loc, x->op, other.regions, other.args,
                                        other.annotations);
    });
    EXPECT_GT(changed, 0);
    EXPECT_NE(testing::Difference(*tiles, mistaken), "") << what << " went unnoticed";
  };
  for (const char* note : {"stride", "low_h", "low_w"}) {
    expect_noticed(note, [&](ir::Instruct* x) { x->annotations[note] = "3"; });
  }
  for (const char* note : {"high_h", "high_w"}) {
    expect_noticed(note, [&](ir::Instruct* x) { x->annotations[note] = "2"; });
  }
  expect_noticed("taps", [](ir::Instruct* x) { std::swap(x->args[0], x->args[1]); });
}

}  // namespace
}  // namespace kiln
