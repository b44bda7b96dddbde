// Instructions that kernels ask for, as GPU code: tf32, additions to neighbours, cache hints.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/codegen/gpu_compile.h"

namespace kiln {
namespace {

// The template with a pass option.
codegen::CompileInput WithOption(codegen::CompileInput input, const std::string& option) {
  const std::string decorator = "@tilelang.jit(";
  const size_t at = input.kernel_source.find(decorator);
  EXPECT_NE(at, std::string::npos) << input.kernel_path;
  input.kernel_source.insert(at + decorator.size(), absl::StrCat("pass_configs={", option, "}, "));
  return input;
}

TEST_F(GpuAssemble, ProductsOfTf32AssembleWithoutSpills) {
  const auto check = [](const std::string& arch, const char* trans_a, const char* trans_b,
                        const std::string& columns) {
    const std::string config =
        absl::StrCat("block_M=128,block_N=", columns, ",block_K=32,num_stages=3,threads=128");
    const Case c = {"matmul", Product("float32", "float32", trans_a, trans_b), config.c_str()};
    const auto ptx = codegen::EmitStage(WithOption(Input(c, arch), "\"kiln.tf32\": 1"), "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    const bool wgmma =
        arch == "sm_90a" && trans_a == std::string("False") && trans_b == std::string("True");
    EXPECT_EQ(absl::StrContains(*ptx, absl::StrCat(".m64n", columns, "k8.f32.tf32.tf32")), wgmma);
    EXPECT_EQ(absl::StrContains(*ptx, ".m16n8k8.row.col.f32.tf32.tf32.f32"), !wgmma) << arch;
    EXPECT_EQ(absl::StrContains(*ptx, "cvt.rna.tf32.f32"), !wgmma) << arch;
    ExpectAssembles(absl::StrCat("tf32 ", trans_a, " ", trans_b, " ", columns), *ptx, arch);
  };
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    for (const char* trans_a : {"False", "True"}) {
      for (const char* trans_b : {"False", "True"}) {
        check(arch, trans_a, trans_b, "128");
      }
    }
  }
}

// Results of 16 bits go to shared memory by matrices, where the GPU has an instruction for it.
TEST_F(GpuAssemble, ResultsAreStoredByMatrices) {
  const char* config = "block_M=128,block_N=128,block_K=64,num_stages=3,threads=128";
  for (const char* type : {"float16", "bfloat16"}) {
    for (const char* out : {type, "float32"}) {
      const Case c = {"matmul", Product(type, out, "False", "True"), config};
      const std::string ptx = Ptx(c, "sm_90a");
      const bool narrow = out == std::string(type);
      EXPECT_EQ(absl::StrContains(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16"), narrow) << out;
      const char* pair = type == std::string("float16") ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32";
      EXPECT_EQ(absl::StrContains(ptx, pair), narrow) << out;
      ExpectAssembles(absl::StrCat("results of ", out), ptx, "sm_90a");
      EXPECT_FALSE(absl::StrContains(Ptx(c, "sm_89"), "stmatrix"));
    }
  }
}

// The second product's left operand is the first one's result: in the registers that it lies in, or
// by way of shared memory to a warpgroup. It stays exact for the copy after it.
TEST_F(GpuAssemble, ChainedProductsOfTf32AssembleWithoutSpills) {
  codegen::CompileInput input;
  input.kernel_source = R"(import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={"kiln.tf32": True})
def chained():
    @T.prim_func
    def main(Q: T.Tensor((512, 64), "float32"), K: T.Tensor((512, 64), "float32"),
             V: T.Tensor((64, 512), "float32"), S: T.Tensor((512, 512), "float32"),
             O: T.Tensor((512, 64), "float32")):
        with T.Kernel(8, threads=128) as bx:
            q = T.alloc_shared((64, 64), "float32")
            k = T.alloc_shared((32, 64), "float32")
            v = T.alloc_shared((64, 32), "float32")
            s = T.alloc_fragment((64, 32), "float32")
            p = T.alloc_fragment((64, 32), "float32")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[bx * 64, 0], q)
            T.clear(o)
            for step in T.Pipelined(16, num_stages=2):
                T.copy(K[step * 32, 0], k)
                T.copy(V[0, step * 32], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, v, o, transpose_B=True)
                T.copy(p, S[bx * 64, step * 32])
            T.copy(o, O[bx * 64, 0])

    return main
)";
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const auto ptx = codegen::EmitStage(input, "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    const bool wgmma = arch == std::string("sm_90a");
    EXPECT_EQ(absl::StrContains(*ptx, "wgmma.mma_async"), wgmma) << arch;
    EXPECT_EQ(absl::StrContains(*ptx, "cvt.rna.tf32.f32"), !wgmma) << arch;
    ExpectAssembles("chained", *ptx, arch);
  }
}

TEST_F(GpuAssemble, AdditionsToNeighboursAreInstructions) {
  codegen::CompileInput input;
  input.kernel_source = R"(import tilelang
import tilelang.language as T


@tilelang.jit
def added(type):
    @T.prim_func
    def main(A: T.Tensor((256, 264), type), C: T.Tensor((256, 264), type),
             D: T.Tensor((256, 261), type)):
        with T.Kernel(4, 5, threads=128) as (bx, by):
            f = T.alloc_fragment((64, 64), type)
            g = T.alloc_fragment((64, 64), type)
            T.copy(A[bx * 64, by * 64], f)
            T.atomic_add(C[bx * 64, by * 64], f)
            T.copy(A[bx * 64, by * 64], g)
            T.atomic_add(D[bx * 64, by * 64], g)

    return main
)";
  struct Want {
    const char *type, *wide, *narrow, *before;  // before: sm_80 to sm_89
  };
  for (const Want& want :
       {Want{"float32", "red.global.add.v4.f32", "atom.global.add.f32", "atom.global.add.f32"},
        Want{"float16", "red.global.add.noftz.v4.f16x2", "red.global.add.noftz.f16 ",
             "red.global.add.noftz.f16x2"},
        Want{"bfloat16", "red.global.add.noftz.v4.bf16x2", "red.global.add.noftz.bf16 ",
             "atom.global.cas.b32"}}) {
    input.arguments = {{"type", want.type}};
    for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
      input.arch_record = target::ToText(*target::NamedArch(arch));
      const auto ptx = codegen::EmitStage(input, "asm");
      ASSERT_TRUE(ptx.ok()) << arch << ptx.status();
      const bool older = arch == std::string("sm_80") || arch == std::string("sm_86") ||
                         arch == std::string("sm_89");
      EXPECT_EQ(absl::StrContains(*ptx, want.wide), !older) << arch << " " << want.wide;
      EXPECT_TRUE(absl::StrContains(*ptx, older ? want.before : want.narrow)) << arch << want.type;
      ExpectAssembles(want.type, *ptx, arch);
    }
  }
}

// What the kernel says of the second-level cache, TMA says to it.
TEST_F(GpuAssemble, TensorLoadsCarryCacheHints) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "block_M=128,block_N=256,block_K=64,num_stages=3,threads=256"};
  const auto with = [&](const char* from, const std::string& to, const char* arch) {
    codegen::CompileInput input = Input(c, arch);
    const size_t at = input.kernel_source.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    input.kernel_source.replace(at, std::string(from).size(), to);
    return codegen::EmitStage(input, "asm").value_or("");
  };
  const std::string plain = Ptx(c, "sm_90a");
  EXPECT_FALSE(absl::StrContains(plain, "cache_hint"));
  const char* copy = "T.copy(A[by * block_M, k * block_K], A_shared)";
  const auto asked = [&](const std::string& policy, const char* arch = "sm_90a") {
    return with(copy,
                absl::StrCat("T.copy(A[by * block_M, k * block_K], A_shared, eviction_policy='",
                             policy, "')"),
                arch);
  };
  EXPECT_EQ(asked("evict_normal"), plain);
  for (const char* policy : {"evict_first", "evict_last"}) {
    const std::string ptx = asked(policy);
    EXPECT_TRUE(
        absl::StrContains(ptx, absl::StrCat("createpolicy.fractional.L2::", policy, ".b64")))
        << policy;
    EXPECT_TRUE(absl::StrContains(ptx, "complete_tx::bytes.L2::cache_hint"));
    ExpectAssembles(policy, ptx, "sm_90a");
  }
  EXPECT_EQ(asked("evict_first", "sm_80"), Ptx(c, "sm_80"));  // no TMA
  const char* clear = "T.clear(C_local)";
  const std::string kept = with(
      clear, absl::StrCat("T.annotate_l2_hit_ratio({B: 0.75})\n            ", clear), "sm_90a");
  EXPECT_TRUE(absl::StrContains(kept, "L2::evict_last.b64"));
  EXPECT_TRUE(absl::StrContains(kept, "0f3F400000"));
  ExpectAssembles("kept", kept, "sm_90a");
}

// Functions of double are our own (emit_wide.h), whose sums of two live on exact roundings.
TEST_F(GpuAssemble, FunctionsOfDouble) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def functions():
    @T.prim_func
    def main(x: T.Tensor((8, 256), "float64"), out: T.Tensor((12, 8, 256), "float64")):
        with T.Kernel(8, threads=128) as b:
            for j in T.Parallel(256):
                out[0, b, j] = T.sin(x[b, j])
                out[1, b, j] = T.cos(x[b, j])
                out[2, b, j] = T.erf(x[b, j])
                out[3, b, j] = T.pow(x[b, j], 1.7)
                out[4, b, j] = T.tanh(x[b, j])
                out[5, b, j] = T.exp(x[b, j])
                out[6, b, j] = T.exp2(x[b, j])
                out[7, b, j] = T.log(x[b, j])
                out[8, b, j] = T.log2(x[b, j])
                out[9, b, j] = T.sigmoid(x[b, j])
                out[10, b, j] = T.sqrt(x[b, j])
                out[11, b, j] = T.rsqrt(x[b, j])
    return main
)";
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    codegen::CompileInput input;
    input.kernel_source = kText;
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const auto ptx = codegen::EmitStage(input, "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    for (const char* loose : {"mul.f64", "add.f64", "sub.f64"}) {
      EXPECT_FALSE(absl::StrContains(*ptx, loose)) << "the assembler may contract it";
    }
    ExpectAssembles("functions of double", *ptx, arch);
  }
}

}  // namespace
}  // namespace kiln
