// Tiles of shared memory on the same bytes: random programs compute what they do with bytes of
// their own for every tile, places are as close as what is in use at one time allows, and a place
// or a barrier that is wrong is noticed by the interpreter.
#include "compiler/passes/share_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Case;
using testing::Difference;
using testing::Elaborated;
using testing::ExpectNoticed;
using testing::Instructions;
using testing::Nothing;

const ir::Launch& LaunchOf(const ir::Program& program) {
  const ir::Launch* launch = nullptr;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    if (s.kind() == ir::StmtKind::kLaunch) launch = s.As<ir::Launch>();
    return launch == nullptr;
  });
  return *launch;
}

int64_t BytesOf(const ir::Program& program) {
  return passes::SharedBytesOf(LaunchOf(program)).value_or(-1);
}

std::map<const ir::BufferNode*, int64_t> PlacesOf(const ir::Program& program) {
  std::map<const ir::BufferNode*, int64_t> places;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc != nullptr && alloc->place != ir::Alloc::kOwnPlace) {
      places[alloc->buffer.get()] = alloc->place;
    }
    return true;
  });
  return places;
}

// Lowered for a GPU whose blocks have less shared memory than all tiles take, so that some have to
// share. The program with places of their own where that cannot be done.
struct Planned {
  ir::Program apart, shared;
  bool shares = false;
};
absl::StatusOr<Planned> Plan(const ir::Program& tiles, const std::string& gpu, int cores = 132) {
  target::Arch arch = *target::NamedArch(gpu);
  arch.cores = cores;
  Planned planned;
  KILN_ASSIGN_OR_RETURN(planned.apart, Instructions(tiles, arch));
  arch.smem_block = BytesOf(planned.apart) - 1;
  const absl::StatusOr<ir::Program> shared = Instructions(tiles, arch);
  planned.shares = shared.ok();
  if (!shared.ok() && shared.status().code() != absl::StatusCode::kResourceExhausted) {
    return shared.status();
  }
  planned.shared = shared.ok() ? *shared : planned.apart;
  return planned;
}

// Some tiles, each filled from a tensor or from those before it, here and there in a loop.
std::string RandomProgram(std::mt19937& random) {
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int tiles = 3 + draw(4);
  std::string text =
      "import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\n"
      "def chain(A: T.Tensor((64, 256), \"float32\"), B: T.Tensor((64, 256), \"float32\")):\n"
      "    with T.Kernel(2, threads=64) as bx:\n";
  std::vector<int> widths;
  for (int t = 0; t < tiles; ++t) {
    widths.push_back(16 << draw(3));
    const char* type = draw(2) == 0 ? "float32" : "int32";
    absl::StrAppend(&text, "        s", t, " = T.alloc_shared((32, ", widths.back(), "), \"", type,
                    "\")\n");
  }
  for (int t = 0; t < tiles; ++t) {
    const bool loop = draw(3) == 0;
    const std::string in = loop ? "            " : "        ";
    if (loop) absl::StrAppend(&text, "        for k", t, " in T.serial(2):\n");
    absl::StrAppend(&text, in, "for i, j in T.Parallel(32, ", widths[t], "):\n", in, "    s", t,
                    "[i, j] = T.cast(A[bx * 32 + i, j + ", draw(64), "], s", t, ".dtype)");
    for (int uses = t > 0 ? draw(3) : 0; uses > 0; --uses) {
      const int other = t - 1 - draw(std::min(t, 2));
      absl::StrAppend(&text, " + T.cast(s", other, "[", draw(2) == 0 ? "31 - i" : "i", ", j % ",
                      widths[other], "], s", t, ".dtype)");
    }
    absl::StrAppend(&text, "\n");
    if (draw(3) == 0 || t + 1 == tiles) {
      absl::StrAppend(&text, in, "for i, j in T.Parallel(32, ", widths[t], "):\n", in,
                      "    B[bx * 32 + i, j + ", 64 * draw(3), "] = s", t, "[31 - i, j]\n");
    }
  }
  return text;
}

// Nothing that is in use at the same time has a byte in common, tiles begin where they may, and the
// whole is between what is in use at one time and all of it.
void ExpectLaws(const Planned& planned) {
  const ir::SharedUse use = ir::SharedUseOf(LaunchOf(planned.shared));
  const auto places = PlacesOf(planned.shared);
  const std::string text = ir::ToString(planned.shared);
  ASSERT_EQ(places.size(), use.buffers.size()) << text;
  for (size_t i = 0; i < use.buffers.size(); ++i) {
    const ir::BufferNode* a = use.buffers[i].get();
    EXPECT_EQ(places.at(a) % ir::SharedAlignment(*a), 0) << a->name;
    for (size_t j = 0; j < i; ++j) {
      const ir::BufferNode* b = use.buffers[j].get();
      const bool overlap = places.at(a) < places.at(b) + *ir::BytesOf(use.buffers[j]) &&
                           places.at(b) < places.at(a) + *ir::BytesOf(use.buffers[i]);
      EXPECT_FALSE(overlap && use.meets[i][j]) << a->name << " and " << b->name << "\n" << text;
    }
  }
  int64_t most = 0;
  for (const std::vector<bool>& together : use.together) {
    int64_t bytes = 0;
    for (size_t i = 0; i < together.size(); ++i) {
      bytes += together[i] ? *ir::BytesOf(use.buffers[i]) : 0;
    }
    most = std::max(most, bytes);
  }
  EXPECT_GE(BytesOf(planned.shared), most) << text;
  EXPECT_LT(BytesOf(planned.shared), BytesOf(planned.apart)) << text;
}

TEST(ShareMemory, RandomProgramsComputeTheSame) {
  std::mt19937 random(1);
  int shared = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = RandomProgram(random);
    const auto tiles = Elaborated("k.py", text);
    ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto planned = Plan(*tiles, i % 2 == 0 ? "sm_80" : "sm_90a");
    ASSERT_TRUE(planned.ok()) << planned.status() << text;
    EXPECT_EQ(Difference(*tiles, planned->apart), "") << text;
    if (!planned->shares) continue;
    ++shared;
    EXPECT_EQ(Difference(*tiles, planned->shared), "") << text << ir::ToString(planned->shared);
    ExpectLaws(*planned);
  }
  EXPECT_GT(shared, 25);
}

// A tile that each turn of a loop reads before another is filled is in use in between too.
TEST(ShareMemory, WhatTheNextTurnReadsStays) {
  const auto tiles = Elaborated("k.py", R"(import tilelang
import tilelang.language as T


@T.prim_func
def turns(A: T.Tensor((32, 64), "float32"), B: T.Tensor((3, 32, 64), "float32")):
    with T.Kernel(1, threads=64) as bx:
        kept = T.alloc_shared((32, 64), "float32")
        work = T.alloc_shared((32, 64), "float32")
        after = T.alloc_shared((32, 64), "float32")
        T.copy(A, kept)
        for k in T.serial(3):
            for i, j in T.Parallel(32, 64):
                B[k, i, j] = kept[31 - i, j]
            for i, j in T.Parallel(32, 64):
                work[i, j] = A[i, j] + T.cast(k, "float32")
            for i, j in T.Parallel(32, 64):
                B[k, i, j] = B[k, i, j] + work[31 - i, j]
        T.copy(A, after)
        for i, j in T.Parallel(32, 64):
            B[0, i, j] = after[31 - i, j]
)");
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto planned = Plan(*tiles, "sm_80");
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_TRUE(planned->shares);
  EXPECT_EQ(BytesOf(planned->shared), 2 * 32 * 64 * 4) << ir::ToString(planned->shared);
  EXPECT_EQ(Difference(*tiles, planned->shared), "") << ir::ToString(planned->shared);
}

constexpr int kLaunchLine = 8;  // the barrier there is for what initialises others
constexpr char kStaged[] = R"(import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((128, 192), "float16"), B: T.Tensor((192, 128), "float16"),
            C: T.Tensor((128, 128), "float32")):
    with T.Kernel(2, 2, threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        out = T.alloc_shared((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[k * 64, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, out)
        T.copy(out, C[by * 64, bx * 64])
)";

// Results are staged where the operands were: behind cp.async, and behind TMA and wgmma.
TEST(ShareMemory, ResultsLieWhereOperandsWere) {
  const auto tiles = Elaborated("k.py", kStaged);
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const auto planned = Plan(*tiles, gpu);
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_TRUE(planned->shares) << gpu;
    EXPECT_EQ(Difference(*tiles, planned->shared), "") << ir::ToString(planned->shared);
    ExpectLaws(*planned);
    EXPECT_LE(BytesOf(planned->shared), 4 * 64 * 64 * 2 + 1024) << ir::ToString(planned->shared);
  }
}

// A block that does several tiles in turn fetches the next one's operands while it stores.
TEST(ShareMemory, PersistentBlocksKeepTheirOperands) {
  const auto tiles = Elaborated("k.py", kStaged);
  const auto planned = Plan(*tiles, "sm_90a", 1);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const ir::SharedUse use = ir::SharedUseOf(LaunchOf(planned->apart));
  for (size_t i = 0; i < use.buffers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(use.meets[i][j]) << use.buffers[i]->name << " " << use.buffers[j]->name;
    }
  }
  // What does not fit that way takes one turn, and shares.
  ASSERT_TRUE(planned->shares);
  EXPECT_EQ(Difference(*tiles, planned->shared), "") << ir::ToString(planned->shared);
}

// The tile that a store takes its results from comes out of what TMA fetched, in clusters too.
TEST(ShareMemory, StoresByTmaReuseWhatWasFetched) {
  for (const int cluster : {1, 2}) {
    Case c = {.stages = 3, .cluster = cluster};
    const auto tiles = testing::Tiles(testing::Text(c), cluster);
    target::Arch arch = *target::NamedArch("sm_90a");
    arch.smem_block = 3 * 2 * 64 * 64 * 2 + 1024;
    const auto program = Instructions(*tiles, arch);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(testing::Has(*program, ir::Instruction::kTensorStore));
    EXPECT_FALSE(PlacesOf(*program).empty());
    EXPECT_EQ(Difference(*tiles, *program), "") << ir::ToString(*program);
  }
}

// Threads write elements side by side on the bytes of one wider element: no race, unless a barrier
// is missing between the two tiles.
TEST(ShareMemory, ElementsOfTwoWidthsLieOnTheSameBytes) {
  const auto tiles = Elaborated("k.py", R"(import tilelang
import tilelang.language as T


@T.prim_func
def widths(A: T.Tensor((64,), "int64"), B: T.Tensor((128,), "float32"),
           C: T.Tensor((64,), "int64"), D: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128) as bx:
        wide = T.alloc_shared((64,), "int64")
        narrow = T.alloc_shared((128,), "float32")
        again = T.alloc_shared((64,), "int64")
        T.copy(A, wide)
        for i in T.Parallel(64):
            C[i] = wide[63 - i]
        T.copy(B, narrow)
        for i in T.Parallel(128):
            D[i] = narrow[127 - i]
        T.copy(A, again)
        for i in T.Parallel(64):
            C[i] = C[i] + again[63 - i]
)");
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const auto planned = Plan(*tiles, gpu);
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_TRUE(planned->shares) << gpu;
    EXPECT_EQ(BytesOf(planned->shared), 64 * 8) << ir::ToString(planned->shared);
    EXPECT_EQ(Difference(*tiles, planned->shared), "") << ir::ToString(planned->shared);
    const int left_out = ExpectNoticed(*tiles, planned->shared, [](const ir::Instruct& x) {
      return x.op == ir::Instruction::kBlockBarrier ? Nothing(x) : ir::Stmt();
    });
    EXPECT_EQ(left_out, 5) << gpu;
  }
}

TEST(ShareMemory, MissingBarriersAreNoticed) {
  const auto tiles = Elaborated("k.py", kStaged);
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const auto planned = Plan(*tiles, gpu);
    ASSERT_TRUE(planned.ok() && planned->shares);
    const int left_out = ExpectNoticed(*tiles, planned->shared, [&](const ir::Instruct& x) {
      return x.op == ir::Instruction::kBlockBarrier && x.loc.line > kLaunchLine ? Nothing(x)
                                                                                : ir::Stmt();
    });
    EXPECT_GE(left_out, 2) << gpu;
  }
}

// A wait for products that is left out lets results be staged over operands that are still read.
TEST(ShareMemory, MissingWaitsAreNoticed) {
  const auto tiles = Elaborated("k.py", kStaged);
  const auto planned = Plan(*tiles, "sm_90a");
  ASSERT_TRUE(planned.ok() && planned->shares);
  EXPECT_GE(ExpectNoticed(*tiles, planned->shared,
                          [](const ir::Instruct& x) {
                            const bool waits = x.op == ir::Instruction::kWgmmaWait;
                            return waits ? Nothing(x) : ir::Stmt();
                          }),
            1);
}

// Each tile moved onto one that is in use with it.
TEST(ShareMemory, TilesOnBytesInUseAreNoticed) {
  const auto tiles = Elaborated("k.py", kStaged);
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const auto planned = Plan(*tiles, gpu);
    ASSERT_TRUE(planned.ok() && planned->shares);
    const ir::SharedUse use = ir::SharedUseOf(LaunchOf(planned->shared));
    const auto places = PlacesOf(planned->shared);
    int moved = 0;
    for (size_t i = 0; i < use.buffers.size(); ++i) {
      for (size_t j = 0; j < use.buffers.size(); ++j) {
        const bool tiles_alone = use.buffers[i]->scope == ir::Scope::kShared &&
                                 use.buffers[j]->scope == ir::Scope::kShared;
        if (!use.meets[i][j] || !tiles_alone) continue;
        ir::Program wrong = planned->shared;
        wrong.body = ir::RewriteStmts(wrong.body, [&](const ir::Stmt& s) -> ir::Stmt {
          const auto* alloc = s.As<ir::Alloc>();
          if (alloc == nullptr || alloc->buffer != use.buffers[i]) return {};
          return ir::MakeStmt<ir::Alloc>(s->loc, alloc->buffer, alloc->init,
                                         places.at(use.buffers[j].get()));
        });
        ++moved;
        EXPECT_NE(Difference(*tiles, wrong), "")
            << use.buffers[i]->name << " onto " << use.buffers[j]->name << " on " << gpu;
      }
    }
    EXPECT_GE(moved, 2) << gpu;
  }
}

}  // namespace
}  // namespace kiln
