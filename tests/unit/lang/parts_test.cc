// Parts of a block in loops of their own that wait for each other by hand-written barriers: kernels
// made at random, run, beside what their parts compute one element after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/base/rng.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "tests/unit/lang/lang_test_util.h"
#include "tests/unit/lang/pipelined_ring.h"

namespace kiln::lang {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 8;  // elements of a tile
constexpr int64_t kPrime = 1009;

// How a part counts its steps: by its loop, from another first one, in each half of an if, in a
// variable, in a variable that is counted up before the step.
enum Flavour : int64_t { kPlain, kShifted, kHalves, kVariable, kEarly };

// A chain of parts. Part 0 fetches tiles of A; part p > 0 takes a tile of the ring before it, folds
// it into a sum of its own, and passes the sum on in a ring of its own; all store their last sum.
// With `wide`, the last two parts read the same ring.
struct Chain {
  int64_t parts = 2, steps = 4, tiles = 1;
  bool wide = false;
  // The loop over tiles: 0 in each part, 1 around them, 2 with a variable of all of them in it.
  int64_t around = 0;
  std::vector<int64_t> depth;         // of the ring after part p
  std::vector<int64_t> peeled, tail;  // steps that part p does before and after its loop
  std::vector<Flavour> flavour;
  std::vector<bool> leaves;   // whether a step has a loop that it leaves
  std::vector<bool> walks;    // whether the tiles are walked by `while`
  std::vector<size_t> order;  // in which the parts stand in the program

  int64_t Before(int64_t p) const { return wide && p == parts - 1 ? p - 2 : p - 1; }
  bool HasRing(int64_t p) const { return p + (wide ? 2 : 1) < parts; }
  int64_t Readers(int64_t p) const { return wide && p == parts - 3 ? 2 : 1; }
};

Chain RandomChain(Rng* rng) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng->Below(static_cast<uint64_t>(high - low + 1)));
  };
  Chain c;
  c.parts = pick(2, 4);
  c.wide = c.parts > 2 && pick(0, 1) == 0;
  c.steps = pick(1, 9);
  c.tiles = pick(0, 2) == 0 ? pick(2, 3) : 1;
  if (c.tiles > 1) c.around = pick(0, 2);
  for (int64_t p = 0; p < c.parts; ++p) {
    c.depth.push_back(pick(1, 4));
    c.flavour.push_back(c.around == 2 ? kPlain : static_cast<Flavour>(pick(kPlain, kEarly)));
    c.leaves.push_back(pick(0, 3) == 0);
    const int64_t most = c.tiles == 1 && pick(0, 2) == 0 ? std::min<int64_t>(c.steps, 2) : 0;
    c.peeled.push_back(pick(0, most));
    c.tail.push_back(pick(0, std::min(most, c.steps - c.peeled.back())));
  }
  c.order.resize(static_cast<size_t>(c.parts));
  std::iota(c.order.begin(), c.order.end(), 0);
  for (size_t i = c.order.size(); i > 1; --i) std::swap(c.order[i - 1], c.order[rng->Below(i)]);
  for (int64_t p = 0; p < c.parts; ++p) c.walks.push_back(pick(0, 1) == 0);
  return c;
}

// A step: `n` is its number over all tiles, `s` the place in a ring of `depth`, `phase` its parity.
std::string Step(const Chain& c, int64_t p, const std::string& n, const std::string& indent) {
  const int64_t from = p == 0 ? -1 : c.Before(p);
  std::string text;
  const auto line = [&](const auto&... x) { absl::StrAppend(&text, indent, x..., "\n"); };
  const auto place = [&](int64_t ring) { return absl::StrCat("(", n, ") % ", c.depth[ring]); };
  const auto phase = [&](int64_t ring) {
    return absl::StrCat("((", n, ") // ", c.depth[ring], ") % 2");
  };
  if (from >= 0) line("T.barrier_wait(full", from, "[", place(from), "], ", phase(from), ")");
  if (p == 0) {
    line("T.barrier_wait(empty0[", place(0), "], ", phase(0), " ^ 1)");
    line("T.tma_copy(A[", n, ", :], ring0[", place(0), ", :], barrier=full0[", place(0), "])");
    line("for i in T.Parallel(", kWidth, "):");
    line("    sum0[i] = sum0[i] + 1");
    line("T.barrier_arrive(full0[", place(0), "])");
    return text;
  }
  const char* deeper = "";
  if (c.leaves[static_cast<size_t>(p)]) {
    line("for q in T.serial(3):");
    line("    if q > 0:");
    line("        break");
    deeper = "    ";
  }
  line(deeper, "for i in T.Parallel(", kWidth, "):");
  line(deeper, "    sum", p, "[i] = (sum", p, "[i] * 3 + ring", from, "[", place(from), ", i] + ",
       p, ") % ", kPrime);
  line("T.barrier_arrive(empty", from, "[", place(from), "])");
  if (!c.HasRing(p)) return text;
  line("T.barrier_wait(empty", p, "[", place(p), "], ", phase(p), " ^ 1)");
  line("T.copy(sum", p, ", ring", p, "[", place(p), ", :])");
  line("T.barrier_arrive(full", p, "[", place(p), "])");
  return text;
}

// A turn of a loop over k, whose step has the number `n` where the part does not count by itself.
std::string Turn(const Chain& c, int64_t p, const std::string& n, const std::string& indent) {
  const std::string own = absl::StrCat("n", p);
  const std::string count = absl::StrCat(indent, own, " = ", own, " + 1\n");
  switch (c.flavour[static_cast<size_t>(p)]) {
    case kVariable:
      return Step(c, p, own, indent) + count;
    case kEarly:
      return absl::StrCat(indent, "now", p, " = ", own, "\n", count,
                          Step(c, p, absl::StrCat("now", p), indent));
    case kHalves:
      return absl::StrCat(indent, "if (", n, ") % 2 == 0:\n", Step(c, p, n, indent + "    "),
                          indent, "else:\n", Step(c, p, n, indent + "    "));
    default:
      return Step(c, p, n, indent);
  }
}

// A part's loops, all of its tiles or one.
std::string LoopText(const Chain& c, int64_t p, const std::string& indent) {
  const auto i = static_cast<size_t>(p);
  const std::string in = indent + "    ";
  if (c.around > 0) {
    const std::string first = c.around == 1 ? absl::StrCat("t * ", c.steps) : "base";
    return absl::StrCat(indent, "for k in T.serial(", c.steps, "):\n",
                        Turn(c, p, first + " + k", in));
  }
  if (c.tiles > 1 && c.walks[i]) {  // from 3, by 2, with a variable that goes along
    const std::string t = absl::StrCat("t", p), base = absl::StrCat("base", p);
    return absl::StrCat(indent, t, " = T.alloc_var(\"int32\", init=3)\n", indent, base,
                        " = T.alloc_var(\"int32\", init=0)\n", indent, "while ", t, " < ",
                        3 + 2 * c.tiles - 1, ":\n", in, "for k in T.serial(", c.steps, "):\n",
                        Turn(c, p, base + " + k", in + "    "), in, t, " = ", t, " + 2\n", in, base,
                        " = (", t, " - 3) // 2 * ", c.steps, "\n");
  }
  if (c.tiles > 1) {
    return absl::StrCat(indent, "for t in T.serial(", c.tiles, "):\n", in, "for k in T.serial(",
                        c.steps, "):\n",
                        Turn(c, p, absl::StrCat("t * ", c.steps, " + k"), in + "    "));
  }
  const int64_t first = c.peeled[i], last = c.steps - c.tail[i];
  const int64_t shift = c.flavour[i] == kShifted ? 5 : 0;
  return absl::StrCat(indent, "for k in T.serial(", first + shift, ", ", last + shift, "):\n",
                      Turn(c, p, shift > 0 ? absl::StrCat("k - ", shift) : "k", in));
}

std::string PartText(const Chain& c, int64_t p) {
  const auto i = static_cast<size_t>(p);
  const std::string in = "            ";
  std::string text = absl::StrCat("        with T.ws(", p, "):\n", in, "T.clear(sum", p, ")\n");
  for (int64_t n = 0; n < c.peeled[i]; ++n) absl::StrAppend(&text, Step(c, p, absl::StrCat(n), in));
  absl::StrAppend(&text, in, "n", p, " = T.alloc_var(\"int32\", init=", c.peeled[i], ")\n",
                  LoopText(c, p, in));
  for (int64_t n = c.steps - c.tail[i]; c.tiles == 1 && n < c.steps; ++n) {
    absl::StrAppend(&text, Step(c, p, absl::StrCat(n), in));
  }
  return absl::StrCat(text, in, "T.copy(sum", p, ", C[", p, ", :])\n");
}

// The parts within the loop over tiles, in whose turns they come back.
std::string PartsInLoop(const Chain& c) {
  std::string before, loop, after;
  for (const size_t p : c.order) {
    const std::string part = absl::StrCat("with T.ws(", p, "):\n");
    absl::StrAppend(&before, "        n", p, " = T.alloc_var(\"int32\", init=0)\n        ", part,
                    "            T.clear(sum", p, ")\n");
    absl::StrAppend(&loop, "            ", part,
                    LoopText(c, static_cast<int64_t>(p), "                "));
    absl::StrAppend(&after, "        ", part, "            T.copy(sum", p, ", C[", p, ", :])\n");
  }
  const std::string base =
      absl::StrCat("            base = T.alloc_var(\"int32\", init=t * ", c.steps, ")\n");
  return absl::StrCat(before, "        for t in T.serial(", c.tiles, "):\n",
                      c.around == 2 ? base : "", loop, after);
}

std::string KernelText(const Chain& c) {
  std::string text = absl::StrCat(
      "import tilelang.language as T\n@T.prim_func\ndef chain(A: T.Tensor((", c.steps * c.tiles,
      ", ", kWidth, "), \"int32\"), C: T.Tensor((", c.parts, ", ", kWidth,
      "), \"int32\")):\n    with T.Kernel(1, threads=", c.parts * 128, ") as bx:\n");
  const auto line = [&](const auto&... x) { absl::StrAppend(&text, "        ", x..., "\n"); };
  for (int64_t p = 0; p < c.parts; ++p) {
    line("sum", p, " = T.alloc_fragment((", kWidth, ",), \"int32\")");
    if (!c.HasRing(p)) continue;
    const int64_t depth = c.depth[static_cast<size_t>(p)];
    line("ring", p, " = T.alloc_shared((", depth, ", ", kWidth, "), \"int32\")");
    line("full", p, " = T.alloc_barrier([128] * ", depth, ")");
    line("empty", p, " = T.alloc_barrier([", 128 * c.Readers(p), "] * ", depth, ")");
  }
  if (c.around > 0) return text + PartsInLoop(c);
  for (const size_t p : c.order) absl::StrAppend(&text, PartText(c, static_cast<int64_t>(p)));
  return text;
}

// What the parts compute.
std::vector<std::vector<int64_t>> Expected(const Chain& c, const int32_t* a) {
  std::vector<std::vector<int64_t>> sums(static_cast<size_t>(c.parts),
                                         std::vector<int64_t>(kWidth, 0));
  for (int64_t n = 0; n < c.steps * c.tiles; ++n) {
    for (int64_t i = 0; i < kWidth; ++i) {
      sums[0][i] += 1;
      for (int64_t p = 1; p < c.parts; ++p) {
        const int64_t from = c.Before(p);
        const int64_t tile = from == 0 ? a[n * kWidth + i] : sums[from][i];
        sums[p][i] = (sums[p][i] * 3 + tile + p) % kPrime;
      }
    }
  }
  return sums;
}

TEST(Parts, AnyChainComputesWhatItsPartsDo) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const Chain c = RandomChain(&rng);
    const std::string text = KernelText(c);
    const auto program = ElaborateText(text);
    ASSERT_TRUE(program.ok()) << seed << "\n" << text << program.status().message();
    interp::Tensor a(kInt32, {c.steps * c.tiles, kWidth}), out(kInt32, {c.parts, kWidth});
    for (int64_t i = 0; i < c.steps * c.tiles * kWidth; ++i) {
      a.as<int32_t>()[i] = static_cast<int32_t>(rng.Below(kPrime));
    }
    const auto ran = interp::Run(*program, {a.View(), out.View()}, {});
    ASSERT_TRUE(ran.ok()) << seed << "\n" << text << ran.status().message();
    const auto want = Expected(c, a.as<int32_t>());
    for (int64_t p = 0; p < c.parts; ++p) {
      for (int64_t i = 0; i < kWidth; ++i) {
        ASSERT_EQ(out.as<int32_t>()[p * kWidth + i], want[p][i]) << seed << " part " << p << "\n"
                                                                 << text << ir::ToString(*program);
      }
    }
  }
}

// ---- turns that are counted at run time ----

// A ring of `depth` between a part that fetches and one that adds up; after them a barrier whose
// phases are the turns of the loops.
std::string Counted(int64_t depth, const char* steps, const std::string& more = "pass") {
  return absl::StrReplaceAll(R"(
import tilelang.language as T
@T.prim_func
def counted(A: T.Tensor((64, 8), "int32"), C: T.Tensor((8,), "int32"), n: T.int32):
    with T.Kernel(1, threads=256) as bx:
        ring = T.alloc_shared((DEPTH, 8), "int32")
        sum = T.alloc_fragment((8,), "int32")
        full = T.alloc_barrier([128] * DEPTH)
        empty = T.alloc_barrier([128] * DEPTH)
        each = T.alloc_barrier(128)
        with T.ws(0):
            T.clear(sum)
            for k in T.serial(STEPS):
                T.barrier_wait(full[k % DEPTH], (k // DEPTH) & 1)
                for i in T.Parallel(8):
                    sum[i] = (sum[i] * 3 + ring[k % DEPTH, i]) % 1009
                T.barrier_arrive(empty[k % DEPTH])
                if k < STEPS - 1:
                    T.barrier_arrive(each)
            T.copy(sum, C)
        with T.ws(1):
            for k in T.serial(STEPS):
                s = k % DEPTH
                if k > 0:
                    T.barrier_wait(each, (k - 1) % 2)
                T.barrier_wait(empty[s], (k // DEPTH) & 1 ^ 1)
                T.copy(A[k, :], ring[s, :])
                T.barrier_arrive(full[s])
                MORE
)",
                             {{"DEPTH", absl::StrCat(depth)}, {"STEPS", steps}, {"MORE", more}});
}

TEST(Parts, TurnsMayBeCountedAtRunTime) {
  for (int64_t depth = 1; depth <= 5; ++depth) {
    for (const auto& [steps, offset] :
         std::vector<std::pair<const char*, int64_t>>{{"n", 0}, {"n + 2", 2}}) {
      const std::string text = Counted(depth, steps);
      const auto program = ElaborateText(text);
      ASSERT_TRUE(program.ok()) << text << program.status().message();
      for (int64_t n = 0; n < 40; n = n < 8 ? n + 1 : n * 2) {
        interp::Tensor a(kInt32, {64, 8}), out(kInt32, {8});
        Rng rng(static_cast<uint64_t>(depth * 100 + n));
        for (int64_t i = 0; i < 64 * 8; ++i) {
          a.as<int32_t>()[i] = static_cast<int32_t>(rng.Below(kPrime));
        }
        interp::Options options;
        options.scalars = {{"n", static_cast<double>(n)}};
        const auto ran = interp::Run(*program, {a.View(), out.View()}, options);
        ASSERT_TRUE(ran.ok()) << text << ran.status().message();
        for (int64_t i = 0; i < 8; ++i) {
          int64_t sum = 0;
          for (int64_t k = 0; k < n + offset; ++k) {
            sum = (sum * 3 + a.as<int32_t>()[k * 8 + i]) % kPrime;
          }
          ASSERT_EQ(out.as<int32_t>()[i], sum) << n << "\n" << text << ir::ToString(*program);
        }
      }
    }
  }
}

TEST(Parts, WhatDependsOnTheCountIsRefused) {
  const auto message = [](const std::string& text) {
    const auto program = ElaborateText(text);
    EXPECT_FALSE(program.ok()) << text;
    return std::string(program.status().message());
  };
  // A wait more, when there are many turns.
  EXPECT_THAT(message(Counted(2, "n", "if k == 7:\n                    T.barrier_wait(each, 1)")),
              HasSubstr("never ends"));
  // The same near the end, where it holds for some counts only.
  EXPECT_THAT(
      message(Counted(2, "n", "if k == n - 2:\n                    T.barrier_wait(each, 0)")),
      HasSubstr("may never end: nothing keeps the other parts"));
  // Loops of other lengths.
  const std::string two =
      absl::StrReplaceAll(Counted(2, "n"), {{"for k in T.serial(n):\n                s =",
                                             "for k in T.serial(n // 2):\n                s ="}});
  EXPECT_THAT(message(two), HasSubstr("run-time value"));
  // Barriers that do not come back.
  EXPECT_THAT(message(absl::StrReplaceAll(Counted(2, "n"),
                                          {{"(k // 2) & 1", "(k // 2 + k * (k + 1)) & 1"}})),
              HasSubstr("does not repeat from turn to turn"));
}

// The part that adds up is two steps behind: a tile holds what was stored two turns ago.
TEST(Parts, TilesThatAreReadBeforeTheyAreFilledAgain) {
  const auto program = ElaborateText(R"(
import tilelang.language as T
@T.prim_func
def late(A: T.Tensor((8, 8), "int32"), C: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=256) as bx:
        ring = T.alloc_shared((2, 8), "int32")
        sum = T.alloc_fragment((8,), "int32")
        full = T.alloc_barrier([128] * 2)
        empty = T.alloc_barrier([128] * 2)
        with T.ws(0):
            T.clear(sum)
            for k in T.serial(8):
                if k >= 2:
                    T.barrier_wait(full[k % 2], (k // 2 - 1) % 2)
                    for i in T.Parallel(8):
                        sum[i] = sum[i] * 3 + ring[k % 2, i]
                T.barrier_arrive(empty[k % 2])
            T.copy(sum, C)
        with T.ws(1):
            for k in T.serial(8):
                T.barrier_wait(empty[k % 2], (k // 2) % 2)
                T.copy(A[k, :], ring[k % 2, :])
                T.barrier_arrive(full[k % 2])
)");
  ASSERT_TRUE(program.ok()) << program.status().message();
  interp::Tensor a(kInt32, {8, 8}), out(kInt32, {8});
  for (int32_t i = 0; i < 64; ++i) a.as<int32_t>()[i] = i * 7 % 13;
  const auto ran = interp::Run(*program, {a.View(), out.View()}, {});
  ASSERT_TRUE(ran.ok()) << ran.status().message();
  for (int64_t i = 0; i < 8; ++i) {
    int32_t sum = 0;
    for (int64_t k = 0; k < 6; ++k) sum = sum * 3 + a.as<int32_t>()[k * 8 + i];
    EXPECT_EQ(out.as<int32_t>()[i], sum) << ir::ToString(*program);
  }
}

// Halves of an if that each wait for the other part within their turn are taken apart.
TEST(Parts, BothHalvesOfAnIfWaitWithinATurn) {
  const auto program = ElaborateText(R"(
import tilelang.language as T
@T.prim_func
def halves(C: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=256) as bx:
        x = T.alloc_shared((8,), "int32")
        sum = T.alloc_fragment((8,), "int32")
        ping = T.alloc_barrier(128)
        pong = T.alloc_barrier(128)
        with T.ws(0):
            for k in T.serial(4):
                if k % 3 == 0:
                    T.fill(x, k + 1)
                    T.barrier_arrive(ping)
                    T.barrier_wait(pong, k % 2)
                else:
                    T.fill(x, k + 10)
                    T.barrier_arrive(ping)
                    T.barrier_wait(pong, k % 2)
        with T.ws(1):
            T.clear(sum)
            for k in T.serial(4):
                T.barrier_wait(ping, k % 2)
                for i in T.Parallel(8):
                    sum[i] = sum[i] * 20 + x[i]
                T.barrier_arrive(pong)
            T.copy(sum, C)
)");
  ASSERT_TRUE(program.ok()) << program.status().message();
  interp::Tensor out(kInt32, {8});
  const auto ran = interp::Run(*program, {out.View()}, {});
  ASSERT_TRUE(ran.ok()) << ran.status().message();
  EXPECT_EQ(out.as<int32_t>()[5], ((1 * 20 + 11) * 20 + 12) * 20 + 4) << ir::ToString(*program);
}

// ---- what comes out ----

constexpr char kRing[] = R"(
@T.prim_func
def ring(A: T.Tensor((64, 512), "float16"), B: T.Tensor((64, 512), "float16"),
         C: T.Tensor((64, 64), "float32")):
    with T.Kernel(2, threads=256) as bx:
        a = T.alloc_shared((2, 64, 64), "float16")
        b = T.alloc_shared((2, 64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        full = T.alloc_barrier(arrive_count=[128] * 2)
        empty = T.alloc_barrier(arrive_count=[128] * 2)
        with T.ws(0):
            T.clear(c)
            for k in T.serial(8):
                T.barrier_wait(full[k % 2], (k // 2) % 2)
                T.wgmma_gemm(a[k % 2, :, :], b[k % 2, :, :], c, transpose_B=True)
                T.barrier_arrive(empty[k % 2])
            T.copy(c, C)
        with T.ws(1):
            for k in T.serial(8):
                T.barrier_wait(empty[k % 2], (k // 2) % 2 ^ 1)
                T.tma_copy(A[0, k * 64], a[k % 2, :, :], barrier=full[k % 2])
                T.tma_copy(B[0, k * 64], b[k % 2, :, :], barrier=full[k % 2])
                T.barrier_arrive(full[k % 2])
)";

std::string Text(const std::string& kernel) { return "import tilelang.language as T\n" + kernel; }

TEST(Parts, LoopsThatWaitForEachOtherAreOne) {
  EXPECT_EQ(Elaborated(Text(kRing)), Elaborated(Text(kPipelinedRing)));
}

// As many tiles ahead as the shorter of two rings has.
TEST(Parts, RingsOfDifferentLengths) {
  const std::string longer = absl::StrReplaceAll(
      kRing, {{"b = T.alloc_shared((2,", "b = T.alloc_shared((3,"}, {"b[k % 2,", "b[k % 3,"}});
  EXPECT_EQ(Elaborated(Text(longer)), Elaborated(Text(kPipelinedRing)));
}

// Where both do something, or the one that does is no whole warpgroup, the parts stay.
TEST(Parts, LoopsOfTwoThatWorkStayOnTheirThreads) {
  const std::string both = absl::StrReplaceAll(
      kRing,
      {{"        full = ", "        d = T.alloc_fragment((64, 64), \"float32\")\n        full = "},
       {"                T.barrier_arrive(full",
        "                T.fill(d, 2)\n                T.barrier_arrive(full"}});
  EXPECT_THAT(Elaborated(Text(both)), HasSubstr("on threads [128, 256)"));
  const std::string narrow = absl::StrReplaceAll(
      kRing, {{"threads=256", "threads=128"},
              {"[128] * 2", "[64] * 2"},
              {"        full = ", "        tx = T.get_thread_binding()\n        full = "},
              {"        with T.ws(0):", "        if tx < 64:"},
              {"        with T.ws(1):", "        else:"}});
  EXPECT_THAT(Elaborated(Text(narrow)), HasSubstr("on threads [0, 64)"));
}

struct Wrong {
  const char* from;
  const char* to;
  const char* message;
};

TEST(Parts, WhatNeverEndsIsRefused) {
  const Wrong kWrong[] = {
      // Nobody says that a tile is empty again, or full.
      {"                T.barrier_arrive(empty[k % 2])\n", "",
       "this wait of threads 0 to 127 for barrier 0 of 'full' (128 threads"},
      {"                T.barrier_arrive(full[k % 2])\n", "",
       "this wait of threads 0 to 127 for barrier 0 of 'full' (0 threads have arrived, 128 make a "
       "phase, and parity 0 waits for phase 0) never ends; threads 128 to 255 wait for barrier 0 "
       "of "
       "'empty' (0 threads have arrived, 128 make a phase, and parity 0 waits for phase 0) in line "
       "21"},
      // The first round waits too.
      {"(k // 2) % 2 ^ 1", "(k // 2) % 2", "never ends; threads 128 to 255 wait for barrier 0"},
      // One thread too many, one too few.
      {"full = T.alloc_barrier(arrive_count=[128] * 2)",
       "full = T.alloc_barrier(arrive_count=[129] * 2)",
       "128 threads have arrived, 129 make a phase"},
      {"empty = T.alloc_barrier(arrive_count=[128] * 2)",
       "empty = T.alloc_barrier(arrive_count=[127] * 2)",
       "an arrival of 128 threads at barrier 0 of 'empty', whose phase ends before the "
       "last 1 of them"},
      // Another barrier, one step more, one less.
      {"T.barrier_arrive(full[k % 2])", "T.barrier_arrive(full[0])",
       "for barrier 0 of 'full' (256 threads"},
      {"            for k in T.serial(8):\n                T.barrier_wait(full",
       "            for k in T.serial(9):\n                T.barrier_wait(full", "never ends"},
  };
  for (const Wrong& wrong : kWrong) {
    const std::string kernel = kRing;
    ASSERT_NE(kernel.find(wrong.from), std::string::npos) << wrong.from;
    const auto program = ElaborateText(Text(absl::StrReplaceAll(kernel, {{wrong.from, wrong.to}})));
    ASSERT_FALSE(program.ok()) << wrong.from << " -> " << wrong.to;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(wrong.message)) << wrong.to;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr("help:"));
    EXPECT_TRUE(absl::IsInvalidArgument(program.status())) << program.status();
  }
}

// Two parts with `first` and `second` as their bodies.
std::string Two(const char* first, const char* second, const char* before = "pass") {
  return absl::StrReplaceAll(Text(R"(
@T.prim_func
def two(A: T.Tensor((64,), "int32"), n: T.int32):
    with T.Kernel(1, threads=256) as bx:
        x = T.alloc_shared((64,), "int32")
        f = T.alloc_fragment((64,), "int32")
        g = T.alloc_fragment((64,), "int32")
        phase = T.alloc_var("int32", init=0)
        ping = T.alloc_barrier(128)
        pong = T.alloc_barrier(128)
        BEFORE
        with T.ws(0):
FIRST
        with T.ws(1):
SECOND
)"),
                             {{"FIRST", first}, {"SECOND", second}, {"BEFORE", before}});
}

TEST(Parts, VariablesAreEachPartsOwn) {
  // Both parts turn `phase` over in each of their steps.
  const std::string program = Elaborated(Two(R"(
            for k in T.serial(4):
                T.barrier_wait(pong, phase)
                T.copy(x, f)
                T.barrier_arrive(ping)
                phase = phase ^ 1)",
                                             R"(
            for k in T.serial(4):
                T.barrier_wait(ping, phase ^ 1)
                T.fill(x, k)
                T.barrier_arrive(pong)
                phase = phase ^ 1)"));
  EXPECT_THAT(program, HasSubstr("phase_1[0] = phase_1[0] ^ 1"));
  EXPECT_THAT(program, HasSubstr("phase_2[0] = phase_2[0] ^ 1"));
}

// What the block stores before its parts begin, the variables of all of them hold.
TEST(Parts, VariablesOfPartsBeginAsTheBlockSays) {
  const std::string program = Elaborated(Two(R"(
            for k in T.serial(4):
                T.barrier_wait(pong, phase ^ 1)
                T.copy(x, f)
                T.barrier_arrive(ping)
                phase = phase ^ 1)",
                                             R"(
            for k in T.serial(4):
                T.barrier_wait(ping, phase)
                T.fill(x, k)
                T.barrier_arrive(pong)
                phase = phase ^ 1)",
                                             "phase = 1"));
  EXPECT_THAT(program, HasSubstr("phase_1[0] = 1\n"));
  EXPECT_THAT(program, HasSubstr("phase_2[0] = 1\n"));
}

// Parts of a branch, or of a loop, whose condition is read from a variable that one of them stores.
TEST(Parts, UnderWhatAVariableSays) {
  for (const char* head : {"if m > 0:", "for t in T.serial(m):"}) {
    const auto program = ElaborateText(absl::StrReplaceAll(Text(R"(
@T.prim_func
def two(A: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=256) as bx:
        x = T.alloc_shared((64,), "int32")
        f = T.alloc_fragment((64,), "int32")
        m = T.alloc_var("int32", init=1)
        ping = T.alloc_barrier(128)
        pong = T.alloc_barrier(128)
        HEAD
            with T.ws(0):
                T.barrier_wait(pong, 0)
                T.copy(x, f)
                m = 0
                T.barrier_arrive(ping)
                T.copy(f, A)
            with T.ws(1):
                T.fill(x, 3)
                T.barrier_arrive(pong)
                T.barrier_wait(ping, 0)
)"),
                                                           {{"HEAD", head}}));
    ASSERT_TRUE(program.ok()) << head << program.status().message();
    interp::Tensor a(kInt32, {64});
    const auto ran = interp::Run(*program, {a.View()}, {});
    ASSERT_TRUE(ran.ok()) << ran.status().message();
    EXPECT_EQ(a.as<int32_t>()[7], 3) << ir::ToString(*program);
  }
}

// What a part has stored to a variable nobody knows after the parts.
TEST(Parts, VariablesAfterThePartsAreNotKnown) {
  const auto program = ElaborateText(Two(R"(
            T.barrier_wait(pong, 0)
            T.copy(x, f)
            phase = 1)",
                                         R"(
            T.fill(x, 2)
            T.barrier_arrive(pong)
        T.barrier_arrive(ping)
        T.barrier_wait(ping, phase))"));
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("run-time value"));
}

TEST(Parts, WhatHasNoOrderIsRefused) {
  const auto refused = [](const char* first, const char* second, const char* message) {
    const auto program = ElaborateText(Two(first, second));
    ASSERT_FALSE(program.ok()) << first << second;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(message)) << first << second;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr("help:"));
    EXPECT_TRUE(absl::IsUnimplemented(program.status())) << program.status();
  };
  // One of two steps to each of the other part.
  refused(R"(
            for k in T.serial(8):
                T.barrier_wait(pong, k % 2)
                T.barrier_arrive(ping))",
          R"(
            for k in T.serial(4):
                T.barrier_arrive(pong)
                T.barrier_wait(ping, 0)
                T.barrier_arrive(pong)
                T.barrier_wait(ping, 1))",
          "their loops go at different paces");
  // A fragment of both.
  refused(R"(
            for k in T.serial(4):
                T.barrier_wait(pong, k % 2)
                T.copy(x, f)
                T.barrier_arrive(ping))",
          R"(
            for k in T.serial(4):
                T.barrier_wait(ping, k % 2 ^ 1)
                T.fill(f, k)
                T.barrier_arrive(pong))",
          "'f' is in registers, written by threads 0 to 127 and used by threads 128 to 255");
  // A variable of both that the block reads when they are over.
  refused(R"(
            for k in T.serial(4):
                T.barrier_wait(pong, phase)
                T.barrier_arrive(ping)
                phase = phase ^ 1)",
          R"(
            for k in T.serial(4):
                T.barrier_wait(ping, phase ^ 1)
                T.barrier_arrive(pong)
                phase = phase ^ 1
        if phase > 0:
            T.fill(x, 1))",
          "'phase' is in registers, written by threads 0 to 127 and used by threads 128 to 255");
  // What stands under a condition that is loaded cannot be taken apart.
  refused(R"(
            for k in T.serial(4):
                if phase < 9:
                    T.barrier_arrive(ping)
                    T.barrier_wait(pong, k % 2)
                phase = phase + 1)",
          R"(
            for k in T.serial(4):
                T.barrier_wait(ping, k % 2)
                T.barrier_arrive(pong))",
          "they stand under conditions that are loaded");
  // A loop that is not counted: what it counts by goes up in some turns only.
  refused(R"(
            turn = T.alloc_var("int32", init=0)
            while phase < 4:
                T.barrier_wait(pong, turn % 2)
                T.barrier_arrive(ping)
                turn = turn + 1
                if turn > 0:
                    phase = phase + 1)",
          R"(
            for k in T.serial(4):
                T.barrier_wait(ping, k % 2 ^ 1)
                T.barrier_arrive(pong))",
          "in a loop that is not counted");
}

}  // namespace
}  // namespace kiln::lang
