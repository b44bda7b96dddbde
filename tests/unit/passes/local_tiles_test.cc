// Tiles of which each thread has its own, filled and copied as wholes.
#include <gtest/gtest.h>

#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

void ExpectComputes(const std::string& body) {
  const auto program = testing::Elaborated("k.py", testing::KernelAround(32, 64, "(64,)", body));
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why), testing::Verdict::kSame) << why;
}

TEST(LocalTiles, AreFilledByEveryThread) {
  ExpectComputes(R"(f = T.alloc_local((3,), T.float32)
T.clear(f)
f[1] = A[7]
B[2] = f[1] + f[2])");
  ExpectComputes(R"(f = T.alloc_local((2, 3), T.float32)
T.fill(f, 2.5)
for i in T.Parallel(64):
    B[i] = f[i % 2, i % 3] + A[i])");
}

TEST(LocalTiles, AreCopiedByEveryThread) {
  ExpectComputes(R"(f = T.alloc_local((4,), T.float32)
T.copy(A[8:12], f)
for i in T.Parallel(64):
    B[i] = f[i % 4] + A[i])");
}

TEST(LocalTiles, OfAnIterationAreFilledInIt) {
  ExpectComputes(R"(for i in T.Parallel(32):
    f = T.alloc_local((4,), T.float32)
    T.clear(f)
    for k in T.serial(2):
        f[k] += A[2 * i + k]
    B[i] = f[0] + f[1] + f[3])");
}

}  // namespace
}  // namespace kiln
