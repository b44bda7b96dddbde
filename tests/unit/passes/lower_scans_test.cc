// How a scan is shared among threads, or among the vectors of a CPU: the memory that it takes says
// so.
#include "compiler/passes/lower_scans.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/visit.h"
#include "tests/util/fragment_kernels.h"

namespace kiln::passes {
namespace {

std::string Launch(int rows, int columns, int threads, int dim = 1, bool part = false) {
  const std::string indent = part ? "            " : "        ";
  return absl::StrCat("    with T.Kernel(1, threads=", threads, "):\n        x = T.alloc_shared((",
                      rows, ", ", columns, "), \"float32\")\n        T.fill(x, 1)\n",
                      part ? "        with T.ws(0):\n" : "", indent, "T.cumsum(x, dim=", dim,
                      ")\n        T.copy(x, A[0:", rows, ", 0:", columns, "])\n");
}

ir::Program Elaborated(const std::string& launches) {
  const auto program =
      testing::Elaborated("k.py", absl::StrCat("import tilelang.language as T\n\n\n@T.prim_func\n"
                                               "def scan(A: T.Tensor((256, 2048), \"float32\")):\n",
                                               launches));
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

using Shapes = std::vector<std::vector<int64_t>>;

// The shapes of its chunks, level by level: rows, chunks of a row, elements of one.
Shapes OnGpu(const std::string& launches) {
  const auto lowered = LowerScansGpu(Elaborated(launches), {});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  Shapes shapes;
  ir::Walk(lowered->body, [&](const ir::Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr) return true;
    if (alloc->buffer->name != "scanned" && alloc->buffer->name != "totals") return true;
    shapes.emplace_back();
    for (const ir::Expr& extent : alloc->buffer->shape) {
      shapes.back().push_back(*ir::ConstInt(extent));
    }
    return true;
  });
  return shapes;
}

TEST(LowerScans, AThreadHasAChunkOfARow) {
  EXPECT_EQ(OnGpu(Launch(1, 1024, 128))[0], (std::vector<int64_t>{1, 128, 9}));
  EXPECT_EQ(OnGpu(Launch(1, 1000, 128)), (Shapes{{1, 125, 9}, {1, 25, 5}, {1, 5, 5}, {1, 1, 5}}));
  EXPECT_EQ(OnGpu(Launch(16, 64, 128))[0], (std::vector<int64_t>{16, 8, 9}));
  EXPECT_EQ(OnGpu(Launch(200, 64, 64)), (Shapes{{200, 1, 65}}));  // more rows than threads
  EXPECT_EQ(OnGpu(Launch(64, 128, 128, 0))[0], (std::vector<int64_t>{128, 1, 65}));
}

TEST(LowerScans, APartOfTheBlockHasItsOwnThreads) {
  EXPECT_EQ(OnGpu(Launch(1, 1024, 256))[0], (std::vector<int64_t>{1, 256, 5}));
  EXPECT_EQ(OnGpu(Launch(1, 1024, 256, 1, /*part=*/true))[0], (std::vector<int64_t>{1, 128, 9}));
}

TEST(LowerScans, EveryLaunchHasItsOwnMemory) {
  EXPECT_EQ(OnGpu(Launch(200, 64, 64) + Launch(100, 32, 64)), (Shapes{{200, 1, 65}, {100, 1, 33}}));
}

ir::Scope OnCpu(int rows, int columns, int dim) {
  const auto lowered = LowerScansCpu(Elaborated(Launch(rows, columns, 128, dim)), {});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  ir::Scope scope = ir::Scope::kGlobal;
  ir::Walk(lowered->body, [&](const ir::Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc != nullptr && alloc->buffer->name == "running") scope = alloc->buffer->scope;
    return true;
  });
  return scope;
}

// Row by row along what lies side by side; else all rows together, so that vectors run across them.
TEST(LowerScans, VectorsRunAcrossRows) {
  EXPECT_EQ(OnCpu(8, 16, 1), ir::Scope::kVar);
  EXPECT_EQ(OnCpu(8, 16, 0), ir::Scope::kFragment);
  EXPECT_EQ(OnCpu(8, 1, 0), ir::Scope::kVar);
}

}  // namespace
}  // namespace kiln::passes
