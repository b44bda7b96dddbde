// What users of tile compilers reported as failures of layout inference, as kernels of our own:
// each either computes on threads what it computes on tiles, or is refused with a diagnostic that
// says why. Numbers are those of the reports.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

using testing::KernelAround;
using testing::Verdict;

void ExpectComputes(const std::string& text, double tolerance = 0, const char* gpu = "sm_80") {
  const auto program = testing::Elaborated("k.py", text);
  ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
  std::string why;
  const target::Arch arch = *target::NamedArch(gpu);
  passes::PassContext context;
  context.gpu = &arch;
  EXPECT_EQ(testing::CheckThreads(*program, 3, tolerance, &why, context), Verdict::kSame)
      << why << "\n"
      << text;
}

void ExpectRefused(const std::string& text, const std::string& saying) {
  const auto program = testing::Elaborated("k.py", text);
  std::string why(program.status().message());  // of what is refused for every target
  if (program.ok()) {
    EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why), Verdict::kRefused) << why;
  }
  EXPECT_NE(why.find(saying), std::string::npos) << why;
}

// #1868: a column of a fragment is read; all but a few threads idle.
TEST(ReportedCases, AColumnIsReadByTheThreadsThatHoldIt) {
  for (const auto& [rows, columns, threads] :
       {std::tuple(4, 16, 64), {3, 20, 64}, {5, 12, 32}, {16, 16, 128}, {7, 9, 100}}) {
    ExpectComputes(KernelAround(threads, rows, absl::StrCat("(", rows, ", ", columns, ")"),
                                absl::StrCat("f = T.alloc_fragment((", rows, ", ", columns,
                                             "), T.float32)\nT.copy(A, f)\nfor i in T.Parallel(",
                                             rows, "):\n    B[i] = f[i, ", columns / 3, "]")));
  }
}

// #2948: a shift around the end of a fragment.
TEST(ReportedCases, AShiftWrapsAround) {
  for (const int n : {2, 64, 127, 128, 229}) {
    ExpectComputes(KernelAround(128, n, absl::StrCat("(", n, ",)"),
                                absl::StrReplaceAll(R"(f = T.alloc_fragment((N,), T.float32)
T.copy(A, f)
for i in T.Parallel(N):
    B[i] = f[(i + 1) % N])",
                                                    {{"N", absl::StrCat(n)}})));
  }
}

// #2957: a loop that is larger than the smallest one that shares its fragment.
TEST(ReportedCases, ALargerLoopIsNotCutShort) {
  ExpectComputes(KernelAround(64, 256, "(64,)", R"(f = T.alloc_fragment((64,), T.float32)
T.copy(A, f)
for i in T.Parallel(256):
    B[i] = f[i // 4]
for i in T.Parallel(16):
    C[i] = f[i * 4])"));
}

// #2398: extents that the threads do not divide.
TEST(ReportedCases, ExtentsThatThreadsDoNotDivide) {
  for (const int n : {1, 127, 129, 192, 229, 514}) {
    ExpectComputes(KernelAround(128, n, absl::StrCat("(", n, ",)"),
                                absl::StrReplaceAll(R"(f = T.alloc_fragment((N,), T.float32)
g = T.alloc_fragment((N,), T.float32)
T.copy(A, f)
for i in T.Parallel(N):
    g[i] = f[i] * 2.0
T.copy(g, B))",
                                                    {{"N", absl::StrCat(n)}})));
  }
}

// #2399, #2542, #3266: reductions over 96 of 128 threads, and over strides that are no power of 2.
TEST(ReportedCases, ReductionsOverAnyNumberOfThreads) {
  for (const auto& [rows, columns, threads] :
       {std::tuple(1, 96, 128), {4, 96, 128}, {3, 40, 96}, {12, 20, 100}, {5, 7, 128}}) {
    for (const char* op : {"sum", "max", "absmax"}) {
      ExpectComputes(
          KernelAround(threads, rows, absl::StrCat("(", rows, ", ", columns, ")"),
                       absl::StrReplaceAll(
                           R"(f = T.alloc_fragment((M, N), T.float32)
r = T.alloc_fragment((M,), T.float32)
T.copy(A, f)
T.reduce_OP(f, r, dim=1)
T.copy(r, B))",
                           {{"M", absl::StrCat(rows)}, {"N", absl::StrCat(columns)}, {"OP", op}})));
    }
  }
}

// #1165, #310: two products want one fragment in different warps. It is moved.
TEST(ReportedCases, TwoProductsThatDisagreeMoveTheirFragment) {
  for (const char* second : {"FullRow", "FullCol", "Square"}) {
    for (const char* clear : {"", ", clear_accum=True"}) {
      ExpectComputes(absl::StrReplaceAll(R"(import tilelang
import tilelang.language as T

@tilelang.jit
def f():
    @T.prim_func
    def main(A: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128) as bx:
            s = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, s)
            T.clear(c)
            T.gemm(s, s, c, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] + 1.0
            T.gemm(s, s, c, policy=T.GemmWarpPolicy.SECONDCLEAR)
            T.copy(c, C)
    return main
)",
                                         {{"SECOND", second}, {"CLEAR", clear}}));
    }
  }
}

// #2522: rows of a product that several warpgroups share.
TEST(ReportedCases, WarpgroupsShareTheRowsOfAProduct) {
  for (const auto& [m, n, threads] :
       {std::tuple(64, 32, 128), {128, 16, 128}, {128, 32, 256}, {256, 16, 256}, {64, 64, 256}}) {
    for (const char* left : {"shared", "fragment"}) {
      ExpectComputes(absl::StrReplaceAll(R"(import tilelang
import tilelang.language as T

@tilelang.jit
def f():
    @T.prim_func
    def main(A: T.Tensor((<M>, 32), T.float16), B: T.Tensor((<N>, 32), T.float16),
             C: T.Tensor((<M>, <N>), T.float32)):
        with T.Kernel(1, threads=<T>) as bx:
            a = T.alloc_<LEFT>((<M>, 32), T.float16)
            b = T.alloc_shared((<N>, 32), T.float16)
            c = T.alloc_fragment((<M>, <N>), T.float32)
            r = T.alloc_fragment((<M>,), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.reduce_max(c, r, dim=1)
            for i, j in T.Parallel(<M>, <N>):
                c[i, j] = c[i, j] - r[i]
            T.copy(c, C)
    return main
)",
                                         {{"<M>", absl::StrCat(m)},
                                          {"<N>", absl::StrCat(n)},
                                          {"<T>", absl::StrCat(threads)},
                                          {"<LEFT>", left}}),
                     0, "sm_90a");
    }
  }
}

// #1374, #1729: (16, 14) with 32 replicas by division; a broadcast read with few distinct elements.
TEST(ReportedCases, BroadcastReadsDoNotCollapseThreads) {
  ExpectComputes(KernelAround(32, 448, "(14,)", R"(f = T.alloc_fragment((14,), T.float32)
T.copy(A, f)
for i, j in T.Parallel(14, 32):
    B[i * 32 + j] = f[i] + 1.0)"));
  ExpectComputes(KernelAround(128, 512, "(16,)", R"(f = T.alloc_fragment((16,), T.float32)
T.copy(A, f)
for j in T.Parallel(512):
    B[j] = f[j // 32])"));
}

// #1719, #2307, #2311: a reduction's result is read by loops wider than those who hold a part;
// siblings read one accumulator.
TEST(ReportedCases, AResultIsReadAcrossTheTile) {
  ExpectComputes(KernelAround(128, 64 * 16, "(64, 16)", R"(f = T.alloc_fragment((64, 16), T.float32)
m = T.alloc_fragment((64,), T.float32)
s = T.alloc_fragment((64,), T.float32)
T.copy(A, f)
T.reduce_max(f, m, dim=1)
for i, j in T.Parallel(64, 16):
    f[i, j] = f[i, j] - m[i]
T.reduce_sum(f, s, dim=1)
for i, j in T.Parallel(64, 16):
    B[i * 16 + j] = f[i, j] * s[i] + m[i]
for i in T.Parallel(64):
    C[i] = s[i] - m[i])"));
}

// #3005: two different indices of one fragment in one loop.
TEST(ReportedCases, TwoIndicesOfOneFragment) {
  ExpectComputes(KernelAround(64, 64, "(128,)", R"(f = T.alloc_fragment((128,), T.float32)
T.copy(A, f)
for i in T.Parallel(64):
    B[i] = f[2 * i] + f[2 * i + 1])"));
  ExpectComputes(KernelAround(64, 64, "(64,)", R"(f = T.alloc_fragment((64,), T.float32)
T.copy(A, f)
for i in T.Parallel(64):
    B[i] = f[i] + f[63 - i])"));
}

// #2393, #2395, #2396: a fragment in a serial loop inside of a parallel one.
TEST(ReportedCases, ASerialLoopInsideOfAParallelOne) {
  ExpectComputes(KernelAround(32, 32, "(32, 8)", R"(f = T.alloc_fragment((32, 8), T.float32)
for i in T.Parallel(32):
    for k in T.serial(8):
        f[i, k] = A[i, k]
r = T.alloc_fragment((32,), T.float32)
for i in T.Parallel(32):
    r[i] = 0.0
    for k in T.serial(8):
        r[i] = r[i] + f[i, k]
T.copy(r, B))"));
}

// #3040: a fragment is read through a view of narrower elements.
TEST(ReportedCases, AViewOfNarrowerElements) {
  for (const int threads : {32, 64, 128}) {
    ExpectComputes(
        KernelAround(threads, 64, "(64, 32)", R"(f = T.alloc_fragment((64, 32), T.float32)
w = T.view(f, (64, 64), T.uint16)
T.copy(A, f)
for i in T.Parallel(64):
    B[i] = T.cast(w[i, 63], T.float32))"));
    ExpectComputes(KernelAround(threads, 64, "(64, 32)", R"(f = T.alloc_fragment((64, 64), T.uint16)
w = T.view(f, (64, 32), T.float32)
T.copy(A, w)
for i, j in T.Parallel(64, 64):
    f[i, j] = f[i, j] ^ 1
for i in T.Parallel(64):
    B[i] = w[i, 31])"));
  }
}

// What an operation reads of the memory that it writes through another name is read first.
TEST(ReportedCases, AViewReadsBeforeItWrites) {
  ExpectComputes(KernelAround(32, 64, "(64,)", R"(s = T.alloc_shared((64,), T.float32)
v = T.view(s, (8, 8))
T.copy(A, s)
T.fill(v, s[3] + v[0, 0])
T.copy(s, B))"));
  ExpectComputes(KernelAround(32, 64, "(64,)", R"(s = T.alloc_shared((4,), T.int32)
v = T.view(s, (8,), T.int16)
T.clear(v)
s[s[0]] = 65539
for i in T.Parallel(4):
    B[i] = T.cast(s[i], T.float32))"));
}

// #2158, #1890: fragments under another shape, reduced and multiplied into.
TEST(ReportedCases, AFragmentUnderAnotherShape) {
  ExpectComputes(KernelAround(128, 96, "(32, 48)", R"(f = T.alloc_fragment((32, 48), T.float32)
g = T.reshape(f, (96, 16))
r = T.alloc_fragment((96,), T.float32)
s = T.alloc_fragment((32,), T.float32)
T.copy(A, f)
T.reduce_sum(g, r, dim=1)
T.reduce_sum(f, s, dim=1)
for i in T.Parallel(96):
    B[i] = r[i] + s[i // 3])"));
  ExpectComputes(KernelAround(64, 64, "(32, 32)", R"(a = T.alloc_shared((32, 32), T.float16)
c = T.alloc_fragment((32, 32), T.float32)
halves = T.reshape(c, (64, 16))
r = T.alloc_fragment((64,), T.float32)
T.copy(A, a)
T.gemm(a, a, c, clear_accum=True)
T.reduce_max(halves, r, dim=1)
T.copy(r, B))"));
}

// #2883: more than 2^18 iterations in one loop.
TEST(ReportedCases, AHalfMillionIterations) {
  const auto program = testing::Elaborated(
      "k.py", KernelAround(256, 1, "(64, 8192)", R"(f = T.alloc_fragment((64, 8192), T.float32)
for i, j in T.Parallel(64, 8192):
    f[i, j] = A[i, j] + 1.0
for i, j in T.Parallel(64, 8192):
    A[i, j] = f[i, j])"));
  ASSERT_TRUE(program.ok()) << program.status();
  testing::InferredLaunch launch;
  ASSERT_TRUE(testing::InferLaunch(*program, &launch).ok());
  for (const layout::Ownership& loop : launch.solution.loops) EXPECT_EQ(loop.slots(), 2048);
}

// #2547: loops, reductions and products of a part of the block's threads.
TEST(ReportedCases, AWarpgroupDoesItsOwnWork) {
  ExpectComputes(KernelAround(256, 64, "(64, 32)", R"(f = T.alloc_fragment((64, 32), T.float32)
g = T.alloc_fragment((64, 32), T.float32)
r = T.alloc_fragment((64,), T.float32)
q = T.alloc_fragment((64,), T.float32)
s = T.alloc_shared((64,), T.float32)
n = T.alloc_fragment((1,), T.float32)
with T.ws(0):
    T.copy(A, f)
    T.reduce_sum(f, r, dim=1)
    T.copy(r, s)
with T.ws(1):
    n[0] = 2.0
    T.copy(A, g)
    for i, j in T.Parallel(64, 32):
        g[i, j] = g[i, j] * n[0]
    T.reduce_max(g, q, dim=1)
    for i in T.Parallel(64):
        C[i] = q[i] + n[0]
for i in T.Parallel(64):
    B[i] = s[i])"));
  ExpectComputes(R"(import tilelang
import tilelang.language as T

@tilelang.jit
def f():
    @T.prim_func
    def main(A: T.Tensor((64, 32), T.float16), C: T.Tensor((64, 64), T.float32),
             D: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=384) as bx:
            a = T.alloc_shared((64, 32), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            d = T.alloc_fragment((64, 64), T.float32)
            with T.ws(0):
                T.copy(A, a)
            with T.ws(1):
                T.gemm(a, a, c, transpose_B=True, clear_accum=True)
                T.copy(c, C)
            with T.ws(1, 2):
                T.gemm(a, a, d, transpose_B=True, clear_accum=True)
                T.copy(d, D)
    return main
)",
                 0, "sm_90a");
}

// What no thread holds together is read from a copy in shared memory: neighbours where halves are
// held together, transposed elements, results of a product.
TEST(ReportedCases, ElementsThatLieApartAreReadFromACopy) {
  ExpectComputes(KernelAround(64, 64, "(128,)", R"(f = T.alloc_fragment((128,), T.float32)
T.copy(A, f)
for i in T.Parallel(64):
    B[i] = f[2 * i] + f[2 * i + 1]
for i in T.Parallel(64):
    C[i] = f[i] + f[i + 64])"));
  ExpectComputes(KernelAround(64, 64, "(8, 8)", R"(f = T.alloc_fragment((8, 8), T.float32)
g = T.alloc_fragment((8, 8), T.float32)
T.copy(A, g)
for i, j in T.Parallel(8, 8):
    f[i, j] = g[i, j]
for k in T.serial(3):
    for i, j in T.Parallel(8, 8):
        g[i, j] = f[j, i] + g[i, j]
for i, j in T.Parallel(8, 8):
    B[i * 8 + j] = g[i, j])"));
  ExpectComputes(KernelAround(128, 64 * 64, "(64, 64)", R"(a = T.alloc_shared((64, 64), T.float16)
f = T.alloc_fragment((64, 64), T.float32)
T.copy(A, a)
T.clear(f)
T.gemm(a, a, f)
for i, j in T.Parallel(64, 32):
    B[i * 32 + j] = f[i, j] + f[i, j + 32]
for i, j in T.Parallel(64, 32):
    C[i * 32 + j] = f[i, 2 * j] - f[63 - i, 2 * j + 1])"),
                 1e-5);
}

TEST(ReportedCases, AWarpgroupCannotReadAnothersRegisters) {
  ExpectRefused(KernelAround(256, 64, "(64, 32)", R"(f = T.alloc_fragment((64, 32), T.float32)
g = T.alloc_fragment((64, 32), T.float32)
r = T.alloc_fragment((64,), T.float32)
with T.ws(0):
    T.copy(A, f)
    T.reduce_sum(f, r, dim=1)
with T.ws(1):
    T.copy(A, g)
    T.reduce_max(g, r, dim=1))"),
                "does not run where r is held");
  ExpectRefused(KernelAround(256, 64, "(64,)", R"(f = T.alloc_fragment((64,), T.float32)
with T.ws(0):
    T.copy(A, f)
with T.ws(1):
    for i in T.Parallel(64):
        B[i] = f[i])"),
                "does not run where f[i] is held");
  ExpectRefused(KernelAround(256, 64, "(64,)", R"(f = T.alloc_fragment((64,), T.float32)
with T.ws(0):
    f[0] = 1.0
with T.ws(1):
    B[0] = f[0])"),
                "is touched outside of loops and by 128..255 here, but written by 0..127");
}

// #2394: a column is broadcast over tiles of 24 to 96 columns.
TEST(ReportedCases, AColumnIsBroadcastOverAnyWidth) {
  for (const int n : {24, 40, 48, 64, 96}) {
    ExpectComputes(KernelAround(128, 32, absl::StrCat("(32, ", n, ")"),
                                absl::StrReplaceAll(R"(f = T.alloc_fragment((32, N), T.float32)
c = T.alloc_fragment((32,), T.float32)
T.copy(A, f)
for i in T.Parallel(32):
    c[i] = A[i, 1]
for i, j in T.Parallel(32, N):
    f[i, j] = f[i, j] * c[i]
for i in T.Parallel(32):
    B[i] = f[i, N - 1])",
                                                    {{"N", absl::StrCat(n)}})));
  }
}

// Forty names, each of which stands for the one before twice: 2^40 uses of the first.
TEST(ReportedCases, NamesOfNamesAreLookedAtOnce) {
  std::string names = "    x0 = i\n";
  for (int k = 1; k <= 40; ++k) {
    absl::StrAppend(&names, "    x", k, " = x", k - 1, " ^ (x", k - 1, " >> 1)\n");
  }
  for (const char* use : {"B[x40] = f[i]", "B[i] = S[x40]", "if x40 < 100:\n        B[i] = f[i]",
                          "B[x40] = S[x39] + f[i]"}) {
    ExpectComputes(
        KernelAround(64, 256, "(256,)",
                     absl::StrCat("f = T.alloc_fragment((256,), T.float32)\n"
                                  "S = T.alloc_shared((256,), T.float32)\n"
                                  "T.copy(A, f)\nT.copy(A, S)\nfor i in T.Parallel(256):\n",
                                  names, "    ", use)));
  }
}

// #2632: which index maps are injective. Stores that two iterations share are refused.
TEST(ReportedCases, StoresThatMeetAreRefusedOthersCompute) {
  const auto kernel = [](const std::string& index) {
    return KernelAround(64, 256, "(256,)",
                        absl::StrCat("f = T.alloc_fragment((256,), T.float32)\nT.copy(A, f)\n"
                                     "for i in T.Parallel(128):\n    f[",
                                     index, "] = 7.0\nT.copy(f, B)"));
  };
  for (const char* index : {"i", "i ^ 1", "2 * i", "i + 10", "255 - i"}) {
    ExpectComputes(kernel(index));
  }
  for (const char* index : {"i % 64", "0 * i", "(i % 64) * 4", "i // 2"}) {
    ExpectRefused(kernel(index), "store to one element");
  }
}

// Indices outside of a tensor, constants too, where a condition shields them and where none does:
// such elements read as zero and are not written.
TEST(ReportedCases, AConditionShieldsAConstantIndex) {
  for (const char* use :
       {"B[i] = T.if_then_else(i > 300, A[256], 1.0)",
        "B[i] = T.if_then_else(i < 100, A[i], A[256])", "B[i] = A[i] if i > 3 else A[256 + 1]",
        "if i < 100:\n        B[i] = A[i]\n    else:\n        B[256] = 1.0"}) {
    ExpectComputes(
        KernelAround(64, 256, "(256,)", absl::StrCat("for i in T.Parallel(256):\n    ", use)));
  }
}

// A guard leaves most rows of a result out in the one loop that says at once where rows are held:
// the loops over all rows say where the others are.
TEST(ReportedCases, AGuardLeavesOutRowsOfAResult) {
  for (const char* policy : {"FullRow", "FullCol"}) {
    ExpectComputes(KernelAround(64, 32, "(16, 16)",
                                absl::StrReplaceAll(R"(a = T.alloc_shared((16, 16), T.float16)
s = T.alloc_fragment((16, 16), T.float32)
top = T.alloc_fragment((16,), T.float32)
total = T.alloc_fragment((16,), T.float32)
T.copy(A, a)
T.clear(total)
T.gemm(a, a, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.POLICY)
T.reduce_max(s, top, dim=1)
for i in T.Parallel(16):
    total[i] = total[i] + top[i]
for i, j in T.Parallel(16, 16):
    if i < 2:
        B[i * 16 + j] = s[i, j] * total[i])",
                                                    {{"POLICY", policy}})));
  }
}

// Where the rows of two tiles are held meets in one loop: it decides before the tile that could
// lie anywhere is dealt out.
TEST(ReportedCases, RowsOfAProductMeetRowsOfATile) {
  ExpectComputes(KernelAround(64, 32, "(32, 16)", R"(a = T.alloc_shared((32, 16), T.float16)
dots = T.alloc_fragment((32, 32), T.float32)
squares = T.alloc_fragment((32, 16), T.float32)
norm = T.alloc_fragment((32,), T.float32)
low = T.alloc_fragment((32,), T.float32)
best = T.alloc_fragment((32,), T.float32)
T.copy(A, a)
for i, j in T.Parallel(32, 16):
    squares[i, j] = a[i, j] * a[i, j]
T.reduce_sum(squares, norm, dim=1)
T.fill(best, 1.0)
T.gemm(a, a, dots, transpose_B=True, clear_accum=True)
T.reduce_min(dots, low, dim=1)
for i in T.Parallel(32):
    best[i] = T.min(best[i], low[i])
for i in T.Parallel(32):
    B[i] = best[i] + norm[i])"));
}

}  // namespace
}  // namespace kiln
