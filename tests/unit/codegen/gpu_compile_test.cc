// Shipped templates as GPU code: PTX for every architecture, assembled where the CUDA Toolkit is.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/roofline/recommend.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"

namespace kiln {
namespace {

struct Case {
  const char* name;
  std::map<std::string, std::string> arguments;
  const char* config;
};

std::map<std::string, std::string> Product(const std::string& type, const std::string& out,
                                           const std::string& trans_a, const std::string& trans_b) {
  return {{"M", "256"},         {"N", "256"},
          {"K", "512"},         {"dtype", type},
          {"out_dtype", out},   {"trans_A", trans_a},
          {"trans_B", trans_b}, {"accum_dtype", type == "int8" ? "int32" : "float32"}};
}

const Case kPlain[] = {
    {"elementwise", {{"M", "64"}, {"N", "1000"}}, ""},
    {"elementwise", {{"M", "64"}, {"N", "1024"}, {"dtype", "bfloat16"}}, ""},
    {"softmax", {{"M", "64"}, {"N", "1024"}}, ""},
    {"rmsnorm", {{"M", "64"}, {"N", "1024"}}, ""},
    {"reduction", {{"M", "64"}, {"N", "3000"}}, ""},
    {"gemv", {{"N", "512"}, {"K", "2048"}}, ""},
    {"attention",
     {{"batch", "1"},
      {"heads", "2"},
      {"kv_heads", "1"},
      {"seq_q", "250"},
      {"seq_kv", "300"},
      {"dim", "64"},
      {"is_causal", "True"}},
     "block_M=64,block_N=64,threads=128"},
    {"attention_decode",
     {{"batch", "2"}, {"heads", "8"}, {"kv_heads", "2"}, {"length", "1000"}, {"dim", "64"}},
     ""},
    {"broadcast", {{"M", "64"}, {"N", "1000"}, {"dtype", "bfloat16"}}, ""},
    {"conv2d", {{"N", "2"}, {"H", "14"}, {"W", "14"}, {"C", "64"}, {"F", "100"}}, ""},
    {"layernorm", {{"M", "64"}, {"N", "1024"}, {"dtype", "bfloat16"}}, ""},
    {"linear",
     {{"M", "200"}, {"N", "264"}, {"K", "136"}, {"batch", "2"}, {"activation", "'gelu'"}},
     ""},
        {"matmul_decode", {{"M", "3"}, {"N", "256"}, {"K", "512"}}, ""},
    {"matmul_dequant", {{"M", "64"}, {"N", "256"}, {"K", "512"}}, ""},
    {"matmul_promoted",
     {{"M", "200"}, {"N", "264"}, {"K", "512"}, {"dtype", "bfloat16"}},
     "block_K=64"},
    {"matmul_splitk", {{"M", "100"}, {"N", "264"}, {"K", "1000"}}, ""},
    {"reduction_all", {{"N", "100000"}}, ""},
    {"reduction_columns", {{"M", "300"}, {"N", "1000"}}, ""},
    {"transpose", {{"M", "100"}, {"N", "200"}, {"dtype", "bfloat16"}}, ""},
    {"matmul",
     {{"M", "128"}, {"N", "96"}, {"K", "64"}},
     "block_M=32,block_N=32,block_K=32,threads=128"},
};

codegen::CompileInput Input(const Case& c, const std::string& arch) {
  const KernelTemplate* shipped = FindKernelTemplate(c.name);
  codegen::CompileInput input;
  input.kernel_source = std::string(shipped->source);
  input.kernel_path = absl::StrCat(c.name, ".py");
  input.entry = std::string(shipped->entry);
  input.arguments = c.arguments;
  input.config = *Config::Parse(c.config);
  input.arch_record = target::ToText(*target::NamedArch(arch));
  return input;
}

// The template with a pass option.
codegen::CompileInput WithOption(codegen::CompileInput input, const std::string& option) {
  const std::string decorator = "@tilelang.jit(";
  const size_t at = input.kernel_source.find(decorator);
  EXPECT_NE(at, std::string::npos) << input.kernel_path;
  input.kernel_source.insert(at + decorator.size(), absl::StrCat("pass_configs={", option, "}, "));
  return input;
}

std::string Ptx(const Case& c, const std::string& arch) {
  const auto ptx = codegen::EmitStage(Input(c, arch), "asm");
  EXPECT_TRUE(ptx.ok()) << c.name << " " << arch << ": " << ptx.status();
  return ptx.value_or("");
}

void ExpectAssembles(const std::string& what, const std::string& ptx, const std::string& arch) {
  const auto cubin = codegen::Assemble(ptx, arch);
  ASSERT_TRUE(cubin.ok()) << what << " " << arch << ": " << cubin.status();
  EXPECT_EQ(cubin->stack_bytes, 0) << what << " " << arch << ": " << cubin->log;
  EXPECT_EQ(cubin->spill_bytes, 0) << what << " " << arch << ": " << cubin->log;
  EXPECT_GT(cubin->registers, 0) << cubin->log;
  // Products that the assembler thinks it must run one after the other.
  EXPECT_FALSE(absl::StrContains(cubin->log, "Performance Loss")) << what << ": " << cubin->log;
}

void ExpectAssembles(const Case& c, const std::string& arch) {
  ExpectAssembles(c.name, Ptx(c, arch), arch);
}

TEST(GpuCompile, TemplatesBecomePtxForEveryArchitecture) {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    for (const Case& c : kPlain) {
      EXPECT_TRUE(absl::StrContains(Ptx(c, arch), absl::StrCat(".target ", arch))) << arch;
    }
  }
}

TEST(GpuCompile, ProductsOnHopperAreWgmmaOnTilesThatTmaFetches) {
  for (const char* type : {"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8"}) {
    const Case c = {
        "matmul", Product(type, type == std::string("int8") ? "int32" : "float32", "False", "True"),
        "block_M=128,block_N=128,block_K=64,num_stages=3,threads=128"};
    const std::string ptx = Ptx(c, "sm_90a");
    EXPECT_TRUE(absl::StrContains(ptx, "wgmma.mma_async.sync.aligned.m64n128k")) << type;
    EXPECT_TRUE(absl::StrContains(ptx, "cp.async.bulk.tensor.2d")) << type;
  }
}

TEST(GpuCompile, TheSameInputGivesTheSameText) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "block_M=128,block_N=256,block_K=64,num_stages=4,threads=256"};
  EXPECT_EQ(Ptx(c, "sm_90a"), Ptx(c, "sm_90a"));
}

TEST(GpuCompile, ABlockThatAsksForTooMuchIsRefusedWithItsNumbers) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "block_M=256,block_N=256,block_K=128,num_stages=4,threads=256"};
  const auto ptx = codegen::EmitStage(Input(c, "sm_90a"), "asm");
  EXPECT_EQ(ptx.status().code(), absl::StatusCode::kResourceExhausted) << ptx.status();
  EXPECT_TRUE(absl::StrContains(ptx.status().message(), "bytes of shared memory")) << ptx.status();
}

TEST(GpuCompile, AFragmentOfManyTimesAThreadsRegistersIsRefusedAtOnce) {
  const Case c = {"softmax", {{"M", "64"}, {"N", "2048"}}, "block_M=64,threads=64"};
  const auto ptx = codegen::EmitStage(Input(c, "sm_90a"), "asm");
  EXPECT_EQ(ptx.status().code(), absl::StatusCode::kResourceExhausted) << ptx.status();
  EXPECT_TRUE(absl::StrContains(ptx.status().message(), "registers of 'rows'")) << ptx.status();
}

class GpuAssemble : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto version = codegen::AssemblerVersion(); !version.ok()) {
      GTEST_SKIP() << version.status().message();
    }
  }
};

TEST_F(GpuAssemble, TemplatesAssembleWithoutSpills) {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    for (const Case& c : kPlain) ExpectAssembles(c, arch);
  }
}

TEST_F(GpuAssemble, WhatIsRecommendedFirstAssemblesWithoutSpills) {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    for (Case c : kPlain) {
      const codegen::CompileInput input = Input(c, arch);
      const auto kernel = lang::Kernel::Parse(
          std::make_shared<const SourceFile>(SourceFile{input.kernel_path, input.kernel_source}),
          input.entry);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      roofline::Request request;
      request.kernel = &*kernel;
      request.arguments = c.arguments;
      request.arch = *target::NamedArch(arch);
      const auto answer = roofline::Recommend(request);
      ASSERT_TRUE(answer.ok()) << c.name << " " << arch << ": " << answer.status();
      const std::string config = answer->ranked[0].config.ToString();
      SCOPED_TRACE(config);
      c.config = config.c_str();
      ExpectAssembles(c, arch);
    }
  }
}

// Configs that once kept registers in local memory: rows and warps that threads do not divide
// evenly, vector units, packed weights.
TEST_F(GpuAssemble, UnevenConfigsAssembleWithoutSpills) {
  const auto bf16 = Product("bfloat16", "bfloat16", "False", "True");
  const std::map<std::string, std::string> rows = {
      {"M", "512"}, {"N", "2048"}, {"dtype", "bfloat16"}};
  for (const Case& c : std::vector<Case>{
           {"matmul", bf16, "block_M=32,block_N=192,block_K=64,threads=128"},
           {"matmul", bf16, "block_M=64,block_N=96,block_K=128,num_stages=3,threads=256"},
           {"matmul", {{"M", "256"}, {"N", "256"}, {"K", "256"}}, "block_M=128"},
           {"matmul",
            {{"M", "256"}, {"N", "256"}, {"K", "256"}},
            "block_M=128,block_N=160,block_K=16,num_stages=1,threads=256"},
           {"matmul_dequant",
            {{"M", "100"}, {"N", "264"}, {"K", "512"}},
            "block_M=64,block_N=256,block_K=32,num_stages=3,threads=128"},
           {"reduction", rows, "block_M=20,block_N=704,threads=128"},
           {"reduction", rows, "block_M=16,block_N=128,threads=384"},
           {"transpose", rows, "block_M=96,block_N=96,threads=384"},
           {"reduction_columns",
            {{"M", "300"}, {"N", "1000"}},
            "block_M=50,block_N=256,split=2,threads=192"}}) {
    SCOPED_TRACE(c.config);
    ExpectAssembles(c, "sm_90a");
  }
}

TEST_F(GpuAssemble, WgmmaKernelsOfEveryTransposeAssembleWithoutSpills) {
  for (const char* trans_a : {"False", "True"}) {
    for (const char* trans_b : {"False", "True"}) {
      ExpectAssembles({"matmul", Product("bfloat16", "bfloat16", trans_a, trans_b),
                       "block_M=128,block_N=256,block_K=64,num_stages=3,threads=256"},
                      "sm_90a");
    }
  }
  for (const char* type : {"float16", "float8_e4m3fn", "int8"}) {
    ExpectAssembles(
        {"matmul",
         Product(type, type == std::string("int8") ? "int32" : "float16", "False", "True"),
         "block_M=128,block_N=128,block_K=128,num_stages=3,threads=128"},
        "sm_90a");
  }
}

TEST_F(GpuAssemble, ProductsOfWarpsAssembleWithoutSpills) {
  for (const char* type : {"bfloat16", "float16", "int8"}) {
    const char* out = type == std::string("int8") ? "int32" : "float32";
    for (const char* arch : {"sm_80", "sm_86", "sm_89"}) {
      ExpectAssembles({"matmul", Product(type, out, "False", "True"),
                       "block_M=64,block_N=64,block_K=64,num_stages=2,threads=128"},
                      arch);
    }
  }
  for (const char* type : {"float8_e4m3fn", "float8_e5m2"}) {
    ExpectAssembles({"matmul", Product(type, "float32", "False", "True"),
                     "block_M=64,block_N=64,block_K=64,num_stages=2,threads=128"},
                    "sm_89");
  }
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
        for (const char* columns : {"64", "128"}) check(arch, trans_a, trans_b, columns);
      }
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

TEST_F(GpuAssemble, AttentionOverlapsItsProducts) {
  std::ifstream in("tests/golden/lang/flash_attention.py");
  std::stringstream text;
  text << in.rdbuf();
  codegen::CompileInput input;
  input.kernel_source = text.str();
  input.arguments = {{"batch", "4"},         {"heads", "16"}, {"seq_q", "4096"}, {"seq_kv", "4096"},
                     {"is_causal", "False"}, {"dim", "64"},   {"block_M", "64"}};
  input.arch_record = target::ToText(*target::NamedArch("sm_90a"));
  const auto ptx = codegen::EmitStage(input, "asm");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_TRUE(absl::StrContains(*ptx, "wgmma.mma_async"));
  EXPECT_TRUE(absl::StrContains(*ptx, "cp.async.bulk.tensor.4d"));
  ExpectAssembles("attention", *ptx, "sm_90a");
}

TEST_F(GpuAssemble, AnArtifactHasEverything) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "block_M=128,block_N=128,block_K=64,num_stages=3,threads=128"};
  const auto out = codegen::CompileKernel(Input(c, "sm_90a"));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->cubin.substr(1, 3), "ELF");
  EXPECT_EQ(out->shared_object.substr(1, 3), "ELF");
  EXPECT_EQ(out->threads, 256);
  EXPECT_EQ(out->grid_blocks, 4);
  EXPECT_GT(out->scratch_bytes, 3 * 2 * 128 * 64 * 2 - 1);
  const auto again = codegen::CompileKernel(Input(c, "sm_90a"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(out->shared_object, again->shared_object);
}

}  // namespace
}  // namespace kiln
