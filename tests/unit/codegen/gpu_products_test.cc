// Products of tensor cores as PTX: which instructions, in what order, in which groups.
#include <gtest/gtest.h>

#include "tests/unit/codegen/gpu_compile.h"

namespace kiln {
namespace {

std::string Matmul(const std::string& config, const std::string& dtype = "bfloat16") {
  const std::string out = dtype == "float16" ? "float16" : "bfloat16";
  auto arguments = Product(dtype, out, "False", "True");
  for (const char* size : {"M", "N", "K"}) arguments[size] = "4096";
  return Ptx({"matmul", arguments, config.c_str()}, "sm_90a");
}

// A product is committed in as many groups as a wait for the one before it leaves.
void ExpectGroups(const std::string& ptx, int instructions, int groups) {
  EXPECT_EQ(CountOf(ptx, "wgmma.mma_async"), instructions);
  EXPECT_EQ(CountOf(ptx, "wgmma.commit_group"), 1);
  EXPECT_EQ(CountOf(ptx, ".pragma \"nounroll\""), groups > 1 ? 1 : 0);
  EXPECT_EQ(CountOf(ptx, absl::StrCat("wait_group.sync.aligned ", groups, ";")), 1) << ptx;
  EXPECT_EQ(CountOf(ptx, "wait_group.sync.aligned 0;"), 1);
}

TEST(GpuProducts, StepsOfManySumsAreALoopOfGroups) {
  ExpectGroups(Matmul("block_M=128,block_N=256,block_K=64,num_stages=3,threads=256"), 1, 4);
  ExpectGroups(Matmul("block_M=256,block_N=128,block_K=64,num_stages=3,threads=256"), 2, 4);
  ExpectGroups(
      Matmul("block_M=128,block_N=256,block_K=128,num_stages=2,threads=256", "float8_e4m3fn"), 1,
      4);
}

TEST(GpuProducts, OtherStepsStandOneAfterTheOther) {
  // One instruction a step; few sums; few steps; steps of two panels, which do not lie evenly.
  ExpectGroups(Matmul("block_M=64,block_N=256,block_K=64,num_stages=3,threads=128"), 4, 1);
  ExpectGroups(Matmul("block_M=128,block_N=128,block_K=64,num_stages=3,threads=256"), 4, 1);
  ExpectGroups(Matmul("block_M=128,block_N=256,block_K=32,num_stages=3,threads=256"), 2, 1);
  ExpectGroups(Matmul("block_M=128,block_N=256,block_K=128,num_stages=2,threads=256"), 8, 1);
}

// Two products with different numbers of steps, or from registers: waits count products.
TEST(GpuProducts, AttentionHasOneGroupAProduct) {
  const Case c = {"attention",
                  {{"batch", "1"},
                   {"heads", "2"},
                   {"kv_heads", "2"},
                   {"seq_q", "1024"},
                   {"seq_kv", "1024"},
                   {"dim", "128"},
                   {"is_causal", "False"}},
                  "block_M=128,block_N=128,threads=256"};
  const std::string ptx = Ptx(c, "sm_90a");
  EXPECT_EQ(CountOf(ptx, ".pragma \"nounroll\""), 0);
  EXPECT_GT(CountOf(ptx, "wgmma.mma_async"), 16);
}

// The second loop goes on with the sums of the first, and multiplies other types.
TEST(GpuProducts, EachLoopMultipliesItsOwnTypes) {
  const std::string ptx = PtxOf(R"(import tilelang.language as T
@T.prim_func
def product(A: T.Tensor((128, 256), "float16"), B: T.Tensor((128, 256), "float16"),
            D: T.Tensor((128, 256), "bfloat16"), E: T.Tensor((128, 256), "bfloat16"),
            C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((128, 64), "float16")
        d = T.alloc_shared((128, 64), "bfloat16")
        e = T.alloc_shared((128, 64), "bfloat16")
        sums = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, sums, transpose_B=True)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(D[0, k * 64], d)
            T.copy(E[0, k * 64], e)
            T.gemm(d, e, sums, transpose_B=True)
        T.copy(sums, C)
)",
                                "sm_80");
  // 8 warps, 32 x 64 sums each: 16 instructions a step. A product of 4 steps that lags multiplies a
  // fifth time behind its loop.
  EXPECT_EQ(CountOf(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 5 * 16);
  EXPECT_EQ(CountOf(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 5 * 16);
}

// Addresses of guarded copies and those of a loop around leave a step's operands no registers.
TEST(GpuProducts, WaitForTheirOperandsWhereRegistersAreFew) {
  const char* config = "block_M=192,block_N=64,block_K=128,num_stages=4,threads=128";
  constexpr int kStep = 3 * 8;  // instructions: 4 warps below each other
  const auto count = [&](const char* kernel, const char* size) {
    auto arguments = Product("int8", "int32", "False", "True");
    for (const char* name : {"M", "N", "K"}) arguments[name] = size;
    return CountOf(Ptx({kernel, arguments, config}, "sm_80"), "mma.sync.aligned.m16n8k32");
  };
  EXPECT_EQ(count("matmul", "1536"), 5 * kStep);
  EXPECT_EQ(count("matmul_streamk", "1536"), 5 * kStep);
  EXPECT_EQ(count("matmul_streamk", "1520"), 4 * kStep);
}

// Which steps are whose, and of which tile, is known by what the loops around say of each other.
TEST(GpuProducts, StepsThatBlocksShareHaveNoGuards) {
  const char* config = "block_M=128,block_N=128,block_K=64,num_stages=3,threads=128,blocks=82";
  auto arguments = Product("float16", "float16", "False", "True");
  arguments["accum_dtype"] = "float32";
  for (const char* size : {"M", "N", "K"}) arguments[size] = "1536";
  const auto count = [&] {
    return CountOf(Ptx({"matmul_streamk", arguments, config}, "sm_80"), "cp.async.cg.shared");
  };
  // Two steps before the loop and one in it, of two operands of 8 copies a thread.
  EXPECT_EQ(count(), 3 * 2 * 8);
  arguments["K"] = "1544";  // each of them with and without
  EXPECT_GT(count(), 3 * 2 * 8);
}

}  // namespace
}  // namespace kiln
