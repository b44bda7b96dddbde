// Layout inference on kernels: who holds what, who runs what, and what is refused with which
// witness.
#include "compiler/passes/infer_layouts.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/kernel.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/passes/gemm_layouts.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln::passes {
namespace {

using layout::Ownership;
using layout::ThreadSet;
using testing::KernelAround;

absl::StatusOr<testing::InferredLaunch> InferProgram(const absl::StatusOr<ir::Program>& program,
                                                     LayoutCost cost = LayoutCost::kTraffic,
                                                     const target::Arch* gpu = nullptr) {
  KILN_RETURN_IF_ERROR(program.status());
  testing::InferredLaunch launch;
  PassContext context;
  context.gpu = gpu;
  KILN_RETURN_IF_ERROR(testing::InferLaunch(*program, &launch, cost, nullptr, context));
  return launch;
}

absl::StatusOr<testing::InferredLaunch> Infer(const std::string& text,
                                              LayoutCost cost = LayoutCost::kTraffic) {
  return InferProgram(testing::Elaborated("k.py", text), cost);
}

// The steps that decided something, in order.
std::vector<LayoutDecision> Decisions(const LayoutSolution& s) {
  std::vector<LayoutDecision> decisions;
  for (const LayoutDecision& d : s.story) {
    if (!d.fragments.empty() || d.step == InferenceStep::kRevisit) decisions.push_back(d);
  }
  return decisions;
}

std::string Owners(const Ownership& o, int64_t x) { return layout::ToString(o.Owners(x)); }

// The article's closing example, for which the compiler it describes stops with an assertion.
TEST(InferLayouts, ASparseColumnRunsWhereItIsHeld) {
  const auto inferred =
      Infer(KernelAround(64, 4, "(4, 16)", R"(fragment = T.alloc_fragment((4, 16), T.float32)
for row, col in T.Parallel(4, 16):
    fragment[row, col] = A[row, col]
for group, row_in_group in T.Parallel(2, 2):
    row = group * 2 + row_in_group
    B[row] = fragment[row, 0])"),
            LayoutCost::kRegisters);
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const LayoutSolution& s = inferred->solution;
  for (int64_t x = 0; x < 64; ++x) EXPECT_EQ(Owners(s.fragments[0], x), absl::StrCat(x));
  EXPECT_EQ(Owners(s.loops[1], 0), "0");
  EXPECT_EQ(Owners(s.loops[1], 1), "16");
  EXPECT_EQ(Owners(s.loops[1], 2), "32");
  EXPECT_EQ(Owners(s.loops[1], 3), "48");
  const std::vector<LayoutDecision> decisions = Decisions(s);
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].step, InferenceStep::kFree);
  EXPECT_EQ(decisions[0].operation, 0);
  EXPECT_EQ(decisions[1].step, InferenceStep::kRevisit);
  EXPECT_EQ(decisions[1].operation, 1);
}

// The article's error example: A[i] = B[i, 0], for every block.
TEST(InferLayouts, AColumnOfAnyHeightCompiles) {
  for (int block = 1; block <= 512; ++block) {
    const auto inferred =
        Infer(KernelAround(128, block, absl::StrCat("(", block, ", 8)"),
                           absl::StrReplaceAll(R"(b = T.alloc_fragment((BLOCK, 8), T.float32)
T.copy(A, b)
for i in T.Parallel(BLOCK):
    B[i] = b[i, 0])",
                                               {{"BLOCK", absl::StrCat(block)}})));
    ASSERT_TRUE(inferred.ok()) << block << ": " << inferred.status();
    const LayoutSolution& s = inferred->solution;
    ASSERT_FALSE(layout::FindCollision(s.fragments[0]).has_value());
    for (int64_t i = 0; i < block; ++i) {
      ASSERT_TRUE(s.loops[1].Owners(i).any());
      ASSERT_TRUE((s.loops[1].Owners(i) & ~s.fragments[0].Owners(i * 8)).none()) << block;
    }
  }
}

// Four threads that load four numbers ask for the least memory, and would hold all of the rows.
TEST(InferLayouts, NoThreadHoldsMoreThanCanBeCompiled) {
  const auto inferred =
      Infer(KernelAround(128, 4, "(4, 512)", R"(tile = T.alloc_shared((4, 512), T.float32)
few = T.alloc_fragment((4,), T.float32)
rows = T.alloc_fragment((4, 512), T.float32)
sums = T.alloc_fragment((4, 512), T.float32)
T.copy(B, few)
T.copy(A, tile)
T.copy(tile, rows)
for i, j in T.Parallel(4, 512):
    sums[i, j] = few[i]
    for k in T.serial(4):
        sums[i, j] += rows[k, j]
T.copy(sums, tile)
T.copy(tile, A))"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  for (const Ownership& fragment : inferred->solution.fragments) {
    EXPECT_LE(fragment.slots(), 16);
  }
}

TEST(InferLayouts, ConstantIndicesAreHeldByEverybody) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(4, 16)", R"(s = T.alloc_fragment((1,), T.float32)
for k in T.Parallel(1):
    s[0] = A[0, 0]
for i in T.Parallel(64):
    B[i] = s[0])"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(Owners(inferred->solution.fragments[0], 0), "0..63");
  EXPECT_EQ(Decisions(inferred->solution)[0].step, InferenceStep::kStrict);
}

TEST(InferLayouts, ALoopThatOnlyReadsAConstantDoesNotFollowIt) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(4, 16)", R"(s = T.alloc_fragment((1,), T.float32)
for k in T.Parallel(1):
    s[0] = A[0, 0]
for i in T.Parallel(64):
    B[i] = s[0])"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(Owners(inferred->solution.loops.back(), 17), "17");
}

// A fragment at a constant index tells nothing about where its loop runs, and keeps no other
// fragment from telling it; what all iterations write at a constant index is a race.
TEST(InferLayouts, AConstantIndexStopsPropagationOnlyAlone) {
  const std::string head = R"(frag_a = T.alloc_fragment((1,), T.float32)
frag_b = T.alloc_fragment((64,), T.float32)
shared_a = T.alloc_shared((64,), T.float32)
T.annotate_layout({frag_b: T.Fragment((64,), forward_fn=lambda i: (63 - i, 0))})
T.copy(C[0:64], frag_b)
for k in T.Parallel(1):
    frag_a[0] = A[0, 0]
for i in T.Parallel(64):
    )";
  const auto owners = [&](const std::string& body) {
    const auto inferred = Infer(KernelAround(64, 64, "(4, 16)", head + body));
    EXPECT_TRUE(inferred.ok()) << inferred.status();
    return inferred.ok() ? Owners(inferred->solution.loops.back(), 5) : "";
  };
  EXPECT_EQ(owners("shared_a[i] = frag_a[0]"), "5");
  EXPECT_EQ(owners("shared_a[i] = T.min(frag_a[0], frag_b[i])"), "58");
  const auto raced =
      Infer(KernelAround(64, 64, "(4, 16)", head + "frag_a[0] = T.min(frag_a[0], frag_b[i])"));
  ASSERT_FALSE(raced.ok());
  EXPECT_NE(raced.status().message().find("iterations (0) and (1)"), std::string::npos);
  EXPECT_NE(raced.status().message().find("T.alloc_reducer"), std::string::npos);
}

TEST(InferLayouts, FragmentsInConditionsAreHeldByEverybody) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(4, 16)", R"(s = T.alloc_fragment((64,), T.float32)
T.fill(s, 3.0)
if s[5] > 0:
    for i in T.Parallel(64):
        B[i] = s[i])"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  for (int64_t x = 0; x < 64; ++x) EXPECT_EQ(Owners(inferred->solution.fragments[0], x), "0..63");
  EXPECT_EQ(Decisions(inferred->solution)[0].step, InferenceStep::kFloating);
}

TEST(InferLayouts, ASerialVariableMayNotChooseTheThread) {
  const auto inferred =
      Infer(KernelAround(64, 4, "(4, 16)", R"(q = T.alloc_fragment((4, 16), T.float32)
for i, j in T.Parallel(4, 16):
    q[i, j] = A[i, j]
for i in T.Parallel(4):
    for j in T.serial(16):
        B[i] = q[i, j])"),
            LayoutCost::kRegisters);
  // A plan that spreads a row over threads is refused; one that keeps rows whole is found.
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 1; j < 16; ++j) {
      EXPECT_EQ(Owners(inferred->solution.fragments[0], i * 16 + j),
                Owners(inferred->solution.fragments[0], i * 16));
    }
  }
}

TEST(InferLayouts, TwoIterationsMayNotStoreToOneElement) {
  const auto inferred =
      Infer(KernelAround(64, 4, "(4, 16)", R"(s = T.alloc_fragment((4,), T.float32)
for i, j in T.Parallel(4, 16):
    s[i] = A[i, j])"));
  ASSERT_FALSE(inferred.ok());
  const std::string message(inferred.status().message());
  EXPECT_NE(message.find("iterations (0, 0) and (0, 1)"), std::string::npos) << message;
  EXPECT_NE(message.find("s(0)"), std::string::npos) << message;
  EXPECT_NE(message.find("k.py:11"), std::string::npos) << message;
}

TEST(InferLayouts, AnIterationMayNotReadWhatAnotherStores) {
  const auto refusal = [](const std::string& extent, const std::string& body) {
    const std::string before = "s = T.alloc_shared((64,), T.float32)\nfor i in T.Parallel(";
    return std::string(Infer(KernelAround(64, 64, "(64,)", before + extent + "):\n    " + body))
                           .status()
                           .message());
  };
  const std::string next = refusal("63", "s[i] = s[i + 1]");
  EXPECT_NE(
      next.find("iterations (1) and (0) of T.Parallel (i) store to and read one element, s[i] "
                "and s[i + 1]"),
      std::string::npos)
      << next;
  EXPECT_NE(next.find("k.py:11:"), std::string::npos) << next;
  EXPECT_NE(next.find("copy what is read into a fragment before the loop"), std::string::npos);
  EXPECT_NE(refusal("64", "s[i] = s[63 - i] + 1.0").find("(63) and (0)"), std::string::npos);
  EXPECT_NE(refusal("64", "for k in T.serial(2):\n        s[i] = s[k]").find("(0) and (1)"),
            std::string::npos);
  EXPECT_NE(refusal("63", "x = s[i]\n    s[i + 1] = x").find("(0) and (1)"), std::string::npos);
  // Its own element; what a guard keeps apart; what nobody knows.
  EXPECT_EQ(refusal("64", "s[i] = s[i] + 1.0"), "");
  EXPECT_EQ(refusal("64", "if i < 32:\n        s[i] = s[i] + s[i + 32]"), "");
  EXPECT_EQ(refusal("64", "j = 63 - i\n    s[j] = s[63 - i]"), "");
  EXPECT_EQ(refusal("64", "s[i] = s[T.cast(A[i], T.int32)]"), "");
  EXPECT_EQ(refusal("32", "if A[i] > 0.0:\n        s[i] = s[i + 1]"), "");
}

// As many tries as loops, each over all of them, would take minutes.
TEST(InferLayouts, AChainOfManyFragmentsIsHeldAlikeEverywhere) {
  constexpr int kLinks = 600;
  std::string body = "f0 = T.alloc_fragment((64,), T.float32)\nT.copy(A, f0)";
  for (int k = 1; k <= kLinks; ++k) {
    absl::StrAppend(&body, "\nf", k, " = T.alloc_fragment((64,), T.float32)\n",
                    "for i in T.Parallel(64):\n    f", k, "[i] = f", k - 1, "[i] * 2.0");
  }
  absl::StrAppend(&body, "\nT.copy(f", kLinks, ", B)");
  const absl::Time start = absl::Now();
  const auto inferred = Infer(KernelAround(64, 64, "(64,)", body));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  ASSERT_EQ(inferred->solution.fragments.size(), kLinks + 1);
  for (const Ownership& held : inferred->solution.fragments) {
    for (int64_t x = 0; x < 64; ++x) {
      ASSERT_EQ(Owners(held, x), Owners(inferred->solution.fragments[0], x));
    }
  }
}

// s is written where t is held and t where s is held transposed: no single owner will do.
// The article's fourth failure: B[0] = A[i, j].
TEST(InferLayouts, TwoIterationsMayNotStoreToOneLocationOfMemory) {
  const auto refusal = [](const std::string& body) {
    return std::string(Infer(KernelAround(64, 64, "(4, 16)", body)).status().message());
  };
  const std::string loop = "for i, j in T.Parallel(4, 16):\n    ";
  EXPECT_NE(
      refusal(loop + "B[0] = A[i, j]")
          .find("iterations (0, 0) and (0, 1) of T.Parallel (i, j) store to one element, B[0]"),
      std::string::npos)
      << refusal(loop + "B[0] = A[i, j]");
  EXPECT_NE(refusal(loop + "B[i] = A[i, j]").find("(0, 0) and (0, 1)"), std::string::npos);
  EXPECT_NE(refusal(loop + "B[i * 16 + j // 2] = A[i, j]").find("(0, 0) and (0, 1)"),
            std::string::npos);
  EXPECT_NE(refusal("for i in T.Parallel(32):\n    B[i] = A[0, 0]\n    B[31 - i] = A[0, 1]")
                .find("iterations (31) and (0)"),
            std::string::npos);
  EXPECT_NE(refusal("for i in T.Parallel(32):\n    B[i] = A[0, 0]\n    B[i + 1] = A[0, 1]")
                .find("iterations (1) and (0)"),
            std::string::npos);
  EXPECT_NE(
      refusal("for i in T.Parallel(8):\n    for k in T.serial(4):\n        B[i + k] = A[k, i]")
          .find("store to one element, B[i + k]"),
      std::string::npos);
  for (const std::string& body :
       {loop + "B[i * 16 + j] = A[i, j]", loop + "B[63 - i * 16 - j] = A[i, j]",
        loop + "if j == 3:\n        B[i] = A[i, j]",
        std::string("for i in T.Parallel(8):\n    for k in T.serial(4):\n        B[i * 4 + k] = "
                    "A[k, i]"),
        std::string(
            "for k in T.serial(4):\n    for i in T.Parallel(16):\n        B[i] = A[k, i]")}) {
    EXPECT_EQ(refusal(body), "") << body;
  }
}

// The article's remedy for its closing example.
TEST(InferLayouts, AnAnnotatedLayoutIsHonoured) {
  const auto inferred =
      Infer(KernelAround(64, 4, "(4, 16)", R"(fragment = T.alloc_fragment((4, 16), T.float32)
def source_layout(row, col):
    return col, row
T.annotate_layout({fragment: T.Fragment((4, 16), forward_fn=source_layout)})
for row, col in T.Parallel(4, 16):
    fragment[row, col] = A[row, col]
for row in T.Parallel(4):
    B[row] = fragment[row, 0])"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const Ownership& held = inferred->solution.fragments[0];
  for (int64_t x = 0; x < 64; ++x) {
    EXPECT_EQ(Owners(held, x), absl::StrCat(x % 16));
    EXPECT_EQ(held.Slot(x), x / 16);
  }
  for (int64_t row = 0; row < 4; ++row) EXPECT_EQ(Owners(inferred->solution.loops[1], row), "0");
  EXPECT_EQ(Decisions(inferred->solution)[0].step, InferenceStep::kStrict);
}

// A view is held where its memory is: a loop over it runs on the owners of the same elements.
TEST(InferLayouts, AViewFollowsTheLayoutOfItsMemory) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(4, 16)", R"(fragment = T.alloc_fragment((4, 16), T.float32)
flat = T.reshape(fragment, (64,))
T.annotate_layout({fragment: T.Fragment((4, 16), forward_fn=lambda row, col: (col, row))})
T.copy(A, fragment)
for i in T.Parallel(64):
    B[i] = flat[63 - i])"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  ASSERT_EQ(inferred->solution.fragments.size(), 1u);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(Owners(inferred->solution.loops[1], i), absl::StrCat((63 - i) % 16));
  }
}

TEST(InferLayouts, AnAnnotatedLayoutMayHaveCopiesAndGaps) {
  const auto inferred =
      Infer(KernelAround(64, 16, "(16,)", R"(f = T.alloc_fragment((16,), T.float32)
T.annotate_layout({f: T.Fragment((16,), forward_thread_fn=lambda i, rep: i + 32 * rep,
                                 replicate=2, forward_index_fn=lambda i: 3)})
T.copy(A, f)
T.copy(f, B))"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(Owners(inferred->solution.fragments[0], 5), "5,37");
  EXPECT_EQ(inferred->solution.fragments[0].Slot(5), 3);
}

TEST(InferLayouts, ALoopRunsAsItIsAnnotated) {
  const std::string loop = R"(f = T.alloc_fragment((64,), T.float32)
for i in T.Parallel(64, loop_layout=T.Fragment((64,), forward_fn=lambda i: (i % 16, i // 16))):
    f[i] = A[i]
T.copy(f, B))";
  const auto inferred = Infer(KernelAround(64, 64, "(64,)", loop));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(Owners(inferred->solution.loops[0], 17), "1");
  EXPECT_EQ(Owners(inferred->solution.fragments[0], 17), "1");
  const std::string twice = loop + R"(
for i in T.Parallel(64, loop_layout=T.Fragment((64,), forward_fn=lambda i: (i // 4, i % 4))):
    f[i] = f[i] + 1.0)";
  const auto refused = Infer(KernelAround(64, 64, "(64,)", twice));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(refused.status().message())
                .find("iteration (1) runs on 0, element (1) is held by 1"),
            std::string::npos)
      << refused.status();
}

TEST(InferLayouts, BadAnnotationsAreRefused) {
  const auto refusal = [](const std::string& layout) {
    return std::string(Infer(KernelAround(32, 16, "(16,)",
                                          absl::StrCat("f = T.alloc_fragment((16,), T.float32)\n"
                                                       "T.annotate_layout({f: ",
                                                       layout, "})\nT.copy(A, f)\nT.copy(f, B)")))
                           .status()
                           .message());
  };
  const std::pair<std::string, std::string> cases[] = {
      {"T.Fragment((8,), forward_fn=lambda i: (i, 0))", "of shape (16) gets a layout of shape (8)"},
      {"T.Fragment((16,), forward_fn=lambda i: (i * 4, 0))", "names thread 32"},
      {"T.Fragment((16,), forward_fn=lambda i: (i // 2, 0))",
       "elements 0 and 1 of the layout share a thread and a register"},
      {"T.Fragment((16,), forward_fn=lambda i: (i - 1, 0))", "held by thread -1"},
      {"T.Fragment((16,), forward_fn=lambda i: (i * 5 % 16, 0))",
       "a layout by this function is not supported"},
      {"T.Fragment((16,), forward_fn=lambda i: (i, i - 3))", "in register -3"},
      {"T.Fragment((16,))", "forward_fn or forward_thread_fn"},
      {"T.Layout((16,), lambda i: i)", "a fragment, names no threads"},
      {"T.Fragment((16,), forward_thread_fn=lambda i, rep: i, replicate=0)", "replicate=0"},
      {"T.Fragment((1 << 30,), forward_fn=lambda i: (i, 0))", "more than 4194304 elements"},
  };
  for (const auto& [layout, why] : cases) {
    EXPECT_NE(refusal(layout).find(why), std::string::npos) << layout << ": " << refusal(layout);
  }
}

TEST(InferLayouts, TheWidthIsTheOneThatIsAskedFor) {
  const auto inferred =
      Infer(KernelAround(384, 1024, "(1024,)", R"(f = T.alloc_fragment((1024,), T.float32)
for i in T.Parallel(1024, coalesced_width=1):
    f[i] = A[i]
T.copy(f, B))"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->problem.operations[0].vector_width, 1);
  EXPECT_EQ(inferred->solution.fragments[0].slots(), 3);
  EXPECT_NE(Infer(KernelAround(32, 96, "(96,)", R"(f = T.alloc_fragment((96,), T.float32)
for i in T.Parallel(96, coalesced_width=3):
    f[i] = A[i]
T.copy(f, B))"))
                .status()
                .message()
                .find("coalesced_width=3 does not divide 4"),
            std::string::npos);
}

// How wide an access may be is a question of where the tile's layout puts the elements.
TEST(InferLayouts, TheWidthIsThatOfTheRemappedAccess) {
  const auto width = [](const std::string& layout, const std::string& index) {
    const auto inferred =
        Infer(KernelAround(128, 1024, "(32, 32)",
                           absl::StrCat("s = T.alloc_shared((32, 32), T.float32, layout=", layout,
                                        ")\nf = T.alloc_fragment((32, 32), T.float32)\n"
                                        "for i, j in T.Parallel(32, 32):\n    f[i, j] = s[",
                                        index, "]\nT.copy(f, A)")));
    EXPECT_TRUE(inferred.ok()) << inferred.status();
    return inferred.ok() ? inferred->problem.operations[0].vector_width : 0;
  };
  const std::string l = "tilelang.layout.";
  EXPECT_EQ(width("None", "i, j"), 4);
  EXPECT_EQ(width("None", "j, i"), 1);
  EXPECT_EQ(width("T.Layout((32, 32), lambda i, j: (j, i))", "i, j"), 1);
  EXPECT_EQ(width("T.Layout((32, 32), lambda i, j: (j, i))", "j, i"), 4)
      << "columns are contiguous";
  EXPECT_EQ(width(l + "SwizzleLayout(2, 3, 3)", "i, j"), 4) << "16 bytes stay together";
  EXPECT_EQ(width(l + "SwizzleLayout(1, 3, 3)", "i, j"), 2);
  EXPECT_EQ(width(l + "SwizzleLayout(0, 3, 3)", "i, j"), 1);
  EXPECT_EQ(width(absl::StrCat(l, "TileLayout(", l, "S[(32, 32) : (36, 1)])"), "i, j"), 4);
  EXPECT_EQ(width(absl::StrCat(l, "TileLayout(", l, "S[(32, 32) : (33, 1)])"), "i, j"), 1)
      << "rows start anywhere";
}

// Segments of global memory and wavefronts of shared memory, per request of a warp.
TEST(InferLayouts, PricesAreThoseOfTheAddresses) {
  const auto price = [](const std::string& layout, const std::string& index) {
    const auto inferred = Infer(KernelAround(
        32, 1024, "(32, 32)",
        absl::StrCat(
            "s = T.alloc_shared((32, 32), T.float32, layout=", layout,
            ")\nf = T.alloc_fragment((32, 32), T.float32)\n"
            "for i, j in T.Parallel(32, 32, coalesced_width=1):\n    f[i, j] = s[",
            index,
            "]\nfor i, j in T.Parallel(32, 32, coalesced_width=1):\n    A[i, j] = f[i, j]")));
    EXPECT_TRUE(inferred.ok()) << inferred.status();
    if (!inferred.ok()) return passes::LayoutPrice();
    const auto& [problem, solution] = std::tie(inferred->problem, inferred->solution);
    return passes::LayoutPrices(problem, {0, 1}, LayoutCost::kTraffic)
        .Of(solution.fragments, solution.loops);
  };
  const std::string padded = "tilelang.layout.TileLayout(tilelang.layout.S[(32, 32) : (33, 1)])";
  for (const std::string layout : {"None", padded.c_str()}) {
    const passes::LayoutPrice rows = price(layout, "i, j");
    EXPECT_EQ(rows.segments, 32 * 32 * 4 / 32) << layout;
    EXPECT_EQ(rows.wavefronts, 32) << layout << ": one for each row";
    EXPECT_EQ(rows.instructions, 64);
    EXPECT_EQ(rows.registers, 32);
  }
  EXPECT_EQ(price("None", "j, i").wavefronts, 32 * 32) << "a column is one bank";
  EXPECT_EQ(price(padded, "j, i").wavefronts, 32) << "a padded column is all banks";
}

// A fragment's TIRx layout is a strict decision, whichever thread axes it is written on.
TEST(InferLayouts, LayoutsOfTirxAreHonoured) {
  const auto slots = [](int threads, const std::string& layout) {
    return Infer(KernelAround(threads, 1024, "(32, 32)",
                              absl::StrCat("f = T.alloc_fragment((32, 32), T.float32, layout=",
                                           layout, ")\nT.copy(A, f)\nT.copy(f, A)")));
  };
  const std::string l = "tilelang.layout.";
  const std::string by_rows =
      absl::StrCat(l, "TileLayout(", l, "S[(32, 32) : (1@", l, "laneid, 1)])");
  const auto rows = slots(32, by_rows);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->solution.fragments[0].slots(), 32);
  EXPECT_TRUE(rows->solution.fragments[0].Owners(32 * 7 + 5).test(7));
  EXPECT_NE(slots(128, by_rows).status().message().find("32 threads, and the block has 128"),
            std::string::npos);
  const auto warps = slots(128, absl::StrCat(l, "TileLayout(", l, "S[(4, 8, 32) : (1@", l,
                                             "warpid, 1, 1@", l, "laneid)])"));
  ASSERT_TRUE(warps.ok()) << warps.status();
  EXPECT_EQ(warps->solution.fragments[0].slots(), 8);
  EXPECT_TRUE(warps->solution.fragments[0].Owners(32 * 9 + 5).test(32 + 5)) << "row 9 is warp 1's";
}

TEST(InferLayouts, WritersThatDisagreeAreRefusedWithAnElementAndItsOwners) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(8, 8)", R"(s = T.alloc_fragment((8, 8), T.float32)
t = T.alloc_fragment((8, 8), T.float32)
T.copy(A, t)
for i, j in T.Parallel(8, 8):
    s[i, j] = t[i, j]
for i, j in T.Parallel(8, 8):
    t[i, j] = s[j, i]
T.copy(t, A))"));
  ASSERT_FALSE(inferred.ok());
  const std::string message(inferred.status().message());
  EXPECT_NE(message.find("is held by"), std::string::npos) << message;
  EXPECT_NE(message.find("comes from loop"), std::string::npos) << message;
  EXPECT_NE(message.find("help:"), std::string::npos) << message;
}

// Both readers get a copy.
TEST(InferLayouts, AnElementReadByTwoThreadsIsHeldByBoth) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(8, 8)", R"(s = T.alloc_fragment((8, 8), T.float32)
t = T.alloc_fragment((8, 8), T.float32)
T.copy(A, s)
for i, j in T.Parallel(8, 8):
    t[i, j] = s[i, j] + s[j, i]
T.copy(t, A))"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const LayoutSolution& s = inferred->solution;
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      const ThreadSet& runs = s.loops[1].Owners(i * 8 + j);
      EXPECT_TRUE((runs & ~s.fragments[0].Owners(i * 8 + j)).none());
      EXPECT_TRUE((runs & ~s.fragments[0].Owners(j * 8 + i)).none());
    }
  }
}

TEST(InferLayouts, ATransposedReadMovesTheWriterNotTheData) {
  const auto inferred =
      Infer(KernelAround(64, 64, "(8, 8)", R"(s = T.alloc_fragment((8, 8), T.float32)
t = T.alloc_fragment((8, 8), T.float32)
T.copy(A, s)
for i, j in T.Parallel(8, 8):
    t[i, j] = s[j, i]
for i, j in T.Parallel(8, 8):
    B[i * 8 + j] = t[i, j])"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const LayoutSolution& s = inferred->solution;
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_EQ(Owners(s.fragments[1], i * 8 + j), Owners(s.fragments[0], j * 8 + i));
    }
  }
}

TEST(InferLayouts, AReducedRowBelongsToAllWhoHoldAPart) {
  const auto inferred =
      Infer(KernelAround(128, 8, "(8, 64)", R"(x = T.alloc_fragment((8, 64), T.float32)
m = T.alloc_fragment((8,), T.float32)
T.copy(A, x)
T.reduce_max(x, m, dim=1)
for i, j in T.Parallel(8, 64):
    x[i, j] = x[i, j] - m[i]
T.copy(x, A)
T.copy(m, B))"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const LayoutSolution& s = inferred->solution;
  for (int64_t i = 0; i < 8; ++i) {
    ThreadSet want;
    for (int64_t j = 0; j < 64; ++j) want |= s.fragments[0].Owners(i * 64 + j);
    EXPECT_EQ(s.fragments[1].Owners(i), want);
  }
}

TEST(InferLayouts, RaggedFragmentsHaveOwnersToo) {
  for (const int n : {192, 229, 514}) {
    const auto inferred =
        Infer(KernelAround(128, n, "(4, 16)",
                           absl::StrReplaceAll(R"(s = T.alloc_fragment((N,), T.float32)
for i in T.Parallel(N):
    s[i] = B[i]
for i in T.Parallel(N):
    C[i] = s[i])",
                                               {{"N", absl::StrCat(n)}})));
    ASSERT_TRUE(inferred.ok()) << n << ": " << inferred.status();
    EXPECT_FALSE(layout::FindCollision(inferred->solution.fragments[0]).has_value());
    EXPECT_EQ(inferred->solution.fragments[0].slots(), (n + 127) / 128);
  }
}

TEST(InferLayouts, TheWidthFollowsTheMemoryAccess) {
  const auto width = [](const std::string& body) {
    const auto inferred = Infer(KernelAround(32, 256, "(16, 16)", body));
    EXPECT_TRUE(inferred.ok()) << inferred.status();
    return inferred.ok() ? inferred->problem.operations[0].vector_width : 0;
  };
  EXPECT_EQ(width("for i in T.Parallel(256):\n    B[i] = C[i]"), 4);
  EXPECT_EQ(width("for i in T.Parallel(128):\n    B[2 * i] = C[i]"), 1);
  EXPECT_EQ(width("for i, j in T.Parallel(16, 16):\n    B[i * 16 + j] = A[j, i]"), 1);
  EXPECT_EQ(width("for i, j in T.Parallel(16, 6):\n    B[i * 16 + j] = A[i, j]"), 2);
  EXPECT_EQ(width("for i in T.Parallel(128):\n    B[i + 2] = C[i]"), 2);
}

// A loop without fragments may be dealt out in groups that leave lanes idle at its end, behind a
// guard; one that touches a fragment is dealt out so that no group is split, and needs none.
TEST(InferLayouts, OnlyLoopsWithoutFragmentsArePadded) {
  const auto last = [](const std::string& body) {
    const auto inferred = Infer(KernelAround(128, 500, "(16, 16)", body));
    EXPECT_TRUE(inferred.ok()) << inferred.status();
    return inferred.ok() ? Owners(inferred->solution.loops[0], 499) : "";
  };
  const std::string loop = "for i in T.Parallel(500):\n    ";
  EXPECT_EQ(last(loop + "B[i] = C[i]"), "124");  // four neighbours each, three threads idle
  EXPECT_EQ(last("f = T.alloc_fragment((500,), T.float32)\n" + loop + "f[i] = C[i]"), "115");
}

// A row in 16 threads takes four rounds; one that a thread has to itself takes none.
TEST(InferLayouts, ReductionsAcrossThreadsArePriced) {
  const auto rounds = [](const char* place) {
    const auto inferred = Infer(KernelAround(
        32, 32, "(32, 16)",
        absl::StrCat("f = T.alloc_fragment((32, 16), T.float32)\n"
                     "r = T.alloc_fragment((32,), T.float32)\n"
                     "T.annotate_layout({f: T.Fragment((32, 16), forward_fn=lambda i, j: ",
                     place, ")})\nT.copy(A, f)\nT.reduce_sum(f, r, dim=1)\nT.copy(r, B)")));
    EXPECT_TRUE(inferred.ok()) << inferred.status();
    if (!inferred.ok()) return int64_t{-1};
    return LayoutPrices(inferred->problem, {0, 1, 2}, LayoutCost::kTraffic)
        .Of(inferred->solution.fragments, inferred->solution.loops)
        .rounds;
  };
  EXPECT_EQ(rounds("(i, j)"), 0);
  EXPECT_EQ(rounds("(i % 2 * 16 + j, i // 2)"), 16 * 4) << "16 rows in each thread";
}

std::string TwoProducts(const char* second) {
  return absl::StrReplaceAll(R"(import tilelang
import tilelang.language as T

@tilelang.jit
def f():
    @T.prim_func
    def main(A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float16),
             C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullRow)
            T.gemm(a, b, c, policy=T.GemmWarpPolicy.SECOND)
            T.copy(c, C)
    return main
)",
                             {{"SECOND", second}});
}

TEST(InferLayouts, ProductsAnchorTheirAccumulators) {
  const auto inferred = Infer(TwoProducts("FullRow"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const LayoutSolution& s = inferred->solution;
  EXPECT_EQ(s.fragments[0], *Ownership::Of(*AccumulatorLayout(64, 64, {4, 1}), 64 * 64));
  EXPECT_EQ(s.loops.back(), s.fragments[0]);  // the copy out follows
}

// mma.sync reads a shared tile however it lies, and sets a layout where there is none; wgmma reads
// what its descriptors say, whatever is annotated.
TEST(InferLayouts, MmaKeepsAnExistingSharedLayoutAndWarpgroupsSetTheirs) {
  const std::string note =
      "            T.annotate_layout({a: T.Layout((64, 64), lambda i, j: i * 72 + j)})\n";
  std::string text = TwoProducts("FullRow");
  text.insert(text.find("            T.copy(A, a)"), note);
  const auto program = testing::Elaborated("k.py", text);
  const std::string given = "S[(64,64):(72,1)]";
  const std::string swizzled =
      layout::MmaSharedLayout(16, layout::SwizzleMode::k128B, {64, 64})->ToString();
  for (const auto& [name, unit, kept] : {std::tuple("sm_80", MatrixUnit::kMma, true),
                                         {"sm_90a", MatrixUnit::kWgmma, false},
                                         {"sm_100a", MatrixUnit::kMma, true}}) {
    const target::Arch gpu = *target::NamedArch(name);
    const auto inferred = InferProgram(program, LayoutCost::kTraffic, &gpu);
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    ASSERT_EQ(inferred->problem.shared.size(), 2u);
    const SharedTile &a = inferred->problem.shared[0], &b = inferred->problem.shared[1];
    EXPECT_EQ(a.layout.ToString(), kept ? given : swizzled) << name;
    EXPECT_EQ(b.layout.ToString(), swizzled) << name;
    EXPECT_EQ(inferred->problem.operations.back().kind, OperationKind::kLoop);
    for (const Operation& op : inferred->problem.operations) {
      if (op.kind == OperationKind::kGemm) EXPECT_EQ(op.unit, unit) << name;
    }
    PassContext context;
    context.gpu = &gpu;
    std::string why;
    EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why, context), testing::Verdict::kSame) << why;
  }
}

TEST(InferLayouts, AtomicsGoToWhereASharedTileLies) {
  const auto program = testing::Elaborated(
      "k.py", KernelAround(64, 64, "(64,)", R"(s = T.alloc_shared((8, 8), T.float32)
T.annotate_layout({s: T.Layout((8, 8), lambda i, j: j * 9 + i)})
T.clear(s)
for i in T.Parallel(64):
    T.atomic_add(s[i % 8, i // 16], A[i])
for i in T.Parallel(64):
    B[i] = s[i // 8, i % 8])"));
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why), testing::Verdict::kSame) << why;
}

TEST(InferLayouts, ProductsThatDisagreeAboutAFragmentMoveIt) {
  const auto inferred = Infer(TwoProducts("FullCol"));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  ASSERT_EQ(inferred->solution.moves.size(), 1u);
  const LayoutMove& move = inferred->solution.moves[0];
  EXPECT_EQ(inferred->problem.operations[move.operation].name, "gemm 5");
  EXPECT_EQ(move.use, 0);
  EXPECT_EQ(move.plan, "shared memory");
  EXPECT_TRUE(Infer(TwoProducts("FullRow"))->solution.moves.empty());
}

TEST(InferLayouts, AttentionFollowsItsProducts) {
  const auto inferred = InferProgram(
      testing::ElaboratedFile("tests/golden/lang/flash_attention.py", {{"batch", "1"},
                                                                       {"heads", "2"},
                                                                       {"seq_q", "256"},
                                                                       {"seq_kv", "256"},
                                                                       {"dim", "64"},
                                                                       {"is_causal", "True"}}));
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const LayoutProblem& problem = inferred->problem;
  for (size_t f = 0; f < problem.fragments.size(); ++f) {
    const Ownership& o = inferred->solution.fragments[f];
    EXPECT_TRUE(o.complete()) << problem.fragments[f].buffer->name;
    EXPECT_FALSE(layout::FindCollision(o).has_value()) << problem.fragments[f].buffer->name;
  }
  // A row's statistics are with the four lanes that hold the row.
  const Ownership& m = inferred->solution.fragments[3];  // after S, P and O
  ASSERT_EQ(problem.fragments[3].shape, std::vector<int64_t>({128}));
  EXPECT_EQ(Owners(m, 0), "0..3");
  EXPECT_EQ(Owners(m, 9), "4..7");
}

}  // namespace
}  // namespace kiln::passes
