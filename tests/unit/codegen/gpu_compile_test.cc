// Shipped templates as GPU code: PTX for every architecture, assembled where the CUDA Toolkit is.
#include "tests/unit/codegen/gpu_compile.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/roofline/recommend.h"

namespace kiln {
namespace {

const Case kPlain[] = {
    {"elementwise", {{"M", "64"}, {"N", "1000"}}, ""},
    {"elementwise", {{"M", "64"}, {"N", "1024"}, {"dtype", "bfloat16"}}, ""},
    {"softmax", {{"M", "64"}, {"N", "1024"}}, ""},
    {"softmax", {{"M", "64"}, {"N", "128256"}, {"dtype", "bfloat16"}}, ""},
    {"rmsnorm", {{"M", "64"}, {"N", "1024"}}, ""},
    {"rmsnorm", {{"M", "64"}, {"N", "128256"}}, ""},
    {"layernorm", {{"M", "64"}, {"N", "40001"}}, ""},
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
    {"attention_decode_ragged",
     {{"batch", "2"}, {"heads", "8"}, {"kv_heads", "2"}, {"length", "1000"}, {"dim", "64"}},
     ""},
    {"attention_ragged",
     {{"batch", "2"},
      {"heads", "2"},
      {"kv_heads", "1"},
      {"seq_q", "250"},
      {"seq_kv", "300"},
      {"dim", "64"},
      {"is_causal", "True"}},
     "block_M=64,block_N=64,threads=128"},
    {"broadcast", {{"M", "64"}, {"N", "1000"}, {"dtype", "bfloat16"}}, ""},
    {"conv2d", {{"N", "2"}, {"H", "14"}, {"W", "14"}, {"C", "64"}, {"F", "100"}}, ""},
    {"conv2d",
     {{"N", "2"}, {"H", "14"}, {"W", "14"}, {"C", "64"}, {"F", "128"}, {"groups", "2"}},
     ""},
    {"conv2d",
     {{"N", "2"}, {"H", "14"}, {"W", "14"}, {"C", "3"}, {"F", "64"}, {"R", "7"}, {"S", "7"}},
     "block_M=64,block_N=64"},
    {"layernorm", {{"M", "64"}, {"N", "1024"}, {"dtype", "bfloat16"}}, ""},
    {"linear",
     {{"M", "200"}, {"N", "264"}, {"K", "136"}, {"batch", "2"}, {"activation", "'gelu'"}},
     ""},
    {"matmul_decode", {{"M", "3"}, {"N", "256"}, {"K", "512"}}, ""},
    {"matmul_dequant", {{"M", "64"}, {"N", "256"}, {"K", "512"}}, ""},
    {"matmul_dequant",
     {{"M", "64"}, {"N", "256"}, {"K", "512"}, {"bits", "8"}, {"codes", "float8_e4m3fn"}},
     ""},
    {"matmul_promoted",
     {{"M", "200"}, {"N", "264"}, {"K", "512"}, {"dtype", "bfloat16"}},
     "block_K=64"},
    {"matmul_splitk", {{"M", "100"}, {"N", "264"}, {"K", "1000"}}, ""},
    {"matmul_streamk",
     {{"M", "100"}, {"N", "264"}, {"K", "1000"}, {"blocks", "7"}},
     "block_M=64,threads=128"},
    {"matmul_streamk",
     {{"M", "3"}, {"N", "264"}, {"K", "1000"}, {"few", "True"}, {"blocks", "7"}},
     "block_M=16"},
    {"matmul_splitk",
     {{"M", "100"},
      {"N", "264"},
      {"K", "1000"},
      {"trans_A", "True"},
      {"trans_B", "False"},
      {"with_bias", "True"},
      {"activation", "'gelu'"},
      {"scale", "0.5"}},
     ""},
    {"matmul_streamk",
     {{"M", "100"},
      {"N", "264"},
      {"K", "1000"},
      {"blocks", "7"},
      {"with_bias", "True"},
      {"activation", "'silu'"}},
     "block_M=64,threads=128"},
    {"reduction", {{"M", "64"}, {"N", "3000"}, {"op", "'max'"}, {"dtype", "bfloat16"}}, ""},
    {"reduction_all", {{"N", "100000"}}, ""},
    {"reduction_all", {{"N", "100000"}, {"op", "'mean'"}}, ""},
    {"reduction_columns", {{"M", "300"}, {"N", "1000"}, {"op", "'absmax'"}}, ""},
    {"reduction_columns", {{"M", "300"}, {"N", "1000"}}, ""},
    {"transpose", {{"M", "100"}, {"N", "200"}, {"dtype", "bfloat16"}}, ""},
    {"matmul",
     {{"M", "128"}, {"N", "96"}, {"K", "64"}},
     "block_M=32,block_N=32,block_K=32,threads=128"},
};

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

TEST(GpuCompile, PiecesOfProductsOnHopperAreWgmmaOnTilesThatTmaFetches) {
  for (const char* type : {"bfloat16", "float16", "float8_e4m3fn", "int8"}) {
    const bool integers = type == std::string("int8");
    lang::Arguments arguments = Product(type, integers ? "int32" : "float32", "False", "True");
    arguments["out_dtype"] = integers ? "int32" : "bfloat16";
    const std::string ptx = Ptx({"matmul_streamk", arguments, "blocks=7"}, "sm_90a");
    EXPECT_TRUE(absl::StrContains(ptx, "wgmma.mma_async.sync.aligned.m64n128k")) << type;
    EXPECT_TRUE(absl::StrContains(ptx, "cp.async.bulk.tensor.2d.shared")) << type;
    EXPECT_TRUE(absl::StrContains(ptx, "cp.async.bulk.tensor.2d.global")) << type;
  }
}

TEST(GpuCompile, ProductsOfBlackwellLeaveTheirSumsInTensorMemory) {
  for (const char* type : {"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8"}) {
    const Case c = {
        "matmul", Product(type, type == std::string("int8") ? "int32" : "float32", "False", "True"),
        "block_M=128,block_N=128,block_K=64,num_stages=3,threads=128"};
    const std::string ptx = Ptx(c, "sm_100a");
    const char* kind = type == std::string("int8")     ? "i8"
                       : absl::StrContains(type, "8_") ? "f8f6f4"
                                                       : "f16";
    EXPECT_TRUE(absl::StrContains(ptx, absl::StrCat("tcgen05.mma.cta_group::1.kind::", kind)))
        << type;
    EXPECT_TRUE(absl::StrContains(ptx, "cp.async.bulk.tensor.2d")) << type;
    EXPECT_FALSE(absl::StrContains(ptx, "mma.sync")) << type;
  }
}

// Both blocks of a pair give a tile back to both.
TEST(GpuCompile, PairsOfBlackwellShareTiles) {
  const Case c = {"matmul", Product("bfloat16", "float32", "False", "True"),
                  "block_M=64,block_N=128,block_K=64,num_stages=6,threads=128"};
  const std::string ptx = Ptx(c, "sm_100a");
  EXPECT_TRUE(absl::StrContains(ptx, ".mbarrier::complete_tx::bytes.multicast::cluster"));
  EXPECT_EQ(CountOf(ptx, ".shared::cluster.multicast::cluster.b64"), 1);
}

TEST(GpuCompile, SumsInHalfPrecisionAreOfTensorCores) {
  auto arguments = Product("float16", "float16", "False", "True");
  arguments["accum_dtype"] = "float16";
  const Case c = {"matmul", arguments, "block_M=128,block_N=128,block_K=64,threads=128"};
  EXPECT_TRUE(absl::StrContains(Ptx(c, "sm_90a"), "wgmma.mma_async.sync.aligned.m64n128k16.f16."));
  for (const char* arch : {"sm_80", "sm_89", "sm_100a"}) {
    EXPECT_TRUE(absl::StrContains(Ptx(c, arch), "mma.sync.aligned.m16n8k16.row.col.f16.f16"))
        << arch;
  }
}

TEST(GpuCompile, BytesThatAreNotKMajorAreTurnedForTensorCores) {
  const Case c = {"matmul", Product("int8", "int32", "False", "False"),
                  "block_M=128,block_N=128,block_K=64,num_stages=2,threads=128"};
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const std::string ptx = Ptx(c, arch);
    EXPECT_TRUE(absl::StrContains(ptx, arch == std::string("sm_90a") ? "wgmma.mma" : "mma.sync"));
    // A square of four by four a thread, in a loop over pieces: words, not bytes.
    EXPECT_EQ(CountOf(ptx, "ld.shared.u32"), 4) << arch;
    EXPECT_EQ(CountOf(ptx, "st.shared.u32"), 4) << arch;
    EXPECT_EQ(CountOf(ptx, "ld.shared.u8"), 0) << arch;
    EXPECT_EQ(CountOf(ptx, "st.shared.u8"), 0) << arch;
  }
}

// Neighbours that have a guard in common, and names of what they compute.
TEST(GpuCompile, RowsThatEndInsideOfATileAreAccessedWidely) {
  for (const char* width : {"1000", "512"}) {
    const Case c = {"elementwise", {{"M", "64"}, {"N", width}, {"dtype", "bfloat16"}}, ""};
    const std::string ptx = Ptx(c, "sm_90a");
    EXPECT_TRUE(absl::StrContains(ptx, "ld.global.v4")) << width;
    EXPECT_TRUE(absl::StrContains(ptx, "st.global.v4")) << width;
    EXPECT_FALSE(absl::StrContains(ptx, "ld.global.u16")) << width;
  }
}

// What is computed from one tile of shared memory for another.
TEST(GpuCompile, TilesThatAreUnpackedAreStoredWidely) {
  for (const auto& [bits, codes] :
       {std::pair("4", "uint8"), std::pair("8", "uint8"), std::pair("8", "float8_e4m3fn")}) {
    const Case c = {"matmul_dequant",
                    {{"M", "64"}, {"N", "256"}, {"K", "512"}, {"bits", bits}, {"codes", codes}},
                    ""};
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const std::string ptx = Ptx(c, arch);
      EXPECT_TRUE(absl::StrContains(ptx, "st.shared.v4")) << bits << arch;
      EXPECT_FALSE(absl::StrContains(ptx, "st.shared.b16")) << bits << arch;
      EXPECT_FALSE(absl::StrContains(ptx, "ld.shared.u8")) << bits << arch;
    }
  }
}

// However many steps the loop over K has: which stage they fill is looked at, not every step.
TEST(GpuCompile, TilesOfLongProductsAreFetchedInWideCopies) {
  for (const char* K : {"256", "8192", "8256", "1048576"}) {
    const Case c = {"matmul",
                    {{"M", "512"}, {"N", "512"}, {"K", K}, {"dtype", "bfloat16"}},
                    "block_M=256,block_N=128,block_K=64,num_stages=3,threads=256"};
    const std::string ptx = Ptx(c, "sm_80");
    EXPECT_TRUE(absl::StrContains(ptx, "cp.async.cg")) << K;
    EXPECT_FALSE(absl::StrContains(ptx, "ld.global.u16")) << K;
  }
}

// How many keys a sequence has is looked up in a tensor that nobody writes: both the warps that
// fetch and those that multiply can.
TEST(GpuCompile, LoopsOfLengthsThatAreLookedUpAreFedByTma) {
  const Case c = {"attention_ragged",
                  {{"batch", "2"},
                   {"heads", "2"},
                   {"kv_heads", "1"},
                   {"seq_q", "256"},
                   {"seq_kv", "512"},
                   {"dim", "64"}},
                  "block_M=128,block_N=64,threads=256"};
  const std::string ptx = Ptx(c, "sm_90a");
  EXPECT_TRUE(absl::StrContains(ptx, "cp.async.bulk.tensor"));
  EXPECT_TRUE(absl::StrContains(ptx, "wgmma.mma_async"));
  EXPECT_FALSE(absl::StrContains(ptx, "cp.async.cg"));
}

// Blocks that take turns over a grid by T.PersistentTileScheduler, in each of its forms.
TEST(GpuCompile, SchedulersOfKernelsBecomePtx) {
  std::ifstream in("tests/golden/lang/persistent_gemm.py");
  std::stringstream text;
  text << in.rdbuf();
  for (const char* arch : {"sm_80", "sm_90a"}) {
    for (const char* entry : {"by_prefix", "by_name", "in_clusters", "by_wave", "of_run_time_rows",
                              "primitive", "own_order"}) {
      SCOPED_TRACE(absl::StrCat(entry, " ", arch));
      codegen::CompileInput input;
      input.kernel_source = text.str();
      input.kernel_path = "persistent_gemm.py";
      input.entry = entry;
      input.arguments = {{"M", "1024"}, {"N", "512"}, {"K", "256"}};
      if (entry == std::string("of_run_time_rows")) input.arguments.erase("M");
      input.arch_record = target::ToText(*target::NamedArch(arch));
      const auto ptx = codegen::EmitStage(input, "asm");
      ASSERT_TRUE(ptx.ok()) << ptx.status();
      const bool hopper = arch == std::string("sm_90a");
      EXPECT_TRUE(absl::StrContains(*ptx, hopper ? "wgmma.mma_async" : "mma.sync"));
      if (entry != std::string("by_prefix")) continue;
      const auto tiles = codegen::EmitStage(input, "tile");  // one block on each of its SMs
      ASSERT_TRUE(tiles.ok()) << tiles.status();
      EXPECT_TRUE(absl::StrContains(*tiles, hopper ? "in (132)" : "in (108)")) << *tiles;
    }
  }
}

TEST(GpuCompile, TheSameInputGivesTheSameText) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "block_M=128,block_N=256,block_K=64,num_stages=4,threads=256"};
  for (const char* arch : {"sm_90a", "sm_100a"}) EXPECT_EQ(Ptx(c, arch), Ptx(c, arch));
}

TEST(GpuCompile, ABlockThatAsksForTooMuchIsRefusedWithItsNumbers) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "block_M=256,block_N=256,block_K=128,num_stages=4,threads=256"};
  const auto ptx = codegen::EmitStage(Input(c, "sm_90a"), "asm");
  EXPECT_EQ(ptx.status().code(), absl::StatusCode::kResourceExhausted) << ptx.status();
  EXPECT_TRUE(absl::StrContains(ptx.status().message(), "bytes of shared memory")) << ptx.status();
}

TEST(GpuCompile, InstructionsOfAnotherArchitectureAloneAreRefused) {
  const Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                  "kiln.instructions=90"};
  const auto ptx = codegen::EmitStage(Input(c, "sm_100a"), "asm");
  EXPECT_EQ(ptx.status().code(), absl::StatusCode::kInvalidArgument) << ptx.status();
  EXPECT_TRUE(absl::StrContains(ptx.status().message(), "whose instructions sm_100a runs"))
      << ptx.status();
  EXPECT_TRUE(codegen::EmitStage(Input(c, "sm_90a"), "asm").ok());
}

TEST(GpuCompile, AFragmentOfManyTimesAThreadsRegistersIsRefusedAtOnce) {
  const Case c = {"softmax", {{"M", "64"}, {"N", "2048"}}, "block_M=64,threads=64"};
  const auto ptx = codegen::EmitStage(Input(c, "sm_90a"), "asm");
  EXPECT_EQ(ptx.status().code(), absl::StatusCode::kResourceExhausted) << ptx.status();
  EXPECT_TRUE(absl::StrContains(ptx.status().message(), "registers of 'rows'")) << ptx.status();
}

// Rows of which a step of the threads ends one and begins the next.
void ForRowsOfThreads(const std::function<void(const Case&, int rows, int threads)>& check) {
  for (const int rows : {2, 3, 5, 8, 16}) {
    for (const int threads : {64, 128, 256, 512, 1024}) {
      const std::string config = absl::StrCat("block_M=", rows, ",threads=", threads);
      SCOPED_TRACE(config);
      check({"layernorm", {{"M", "300"}, {"N", "1000"}}, config.c_str()}, rows, threads);
    }
  }
}

TEST(GpuCompile, RowsThatThreadsShareAreNotInMemory) {
  ForRowsOfThreads([](const Case& c, int, int) {
    EXPECT_FALSE(absl::StrContains(Ptx(c, "sm_90a"), "__local_depot"));
  });
}

TEST_F(GpuAssemble, RowsThatThreadsShareNeedNoStack) {
  ForRowsOfThreads([](const Case& c, int rows, int threads) {
    // Others want more registers than a thread has.
    if (rows * 1000 > 48 * threads || (threads == 1024 && rows > 3)) return;
    for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) ExpectAssembles(c, arch);
  });
}

TEST_F(GpuAssemble, ProductsOfFewerBitsAssemble) {
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100a"}) {
    for (const char* trans_b : {"False", "True"}) {
      const char* config = "block_M=128,block_N=64,block_K=64,threads=128";
      auto half = Product("float16", "float16", "False", trans_b);
      half["accum_dtype"] = "float16";
      ExpectAssembles({"matmul", half, config}, arch);
      ExpectAssembles({"matmul", Product("uint8", "int32", "True", trans_b), config}, arch);
      ExpectAssembles({"matmul", Product("int8", "int32", "True", trans_b), config}, arch);
    }
  }
}

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

// Where a block does one tile after the other, addresses of the results are not kept during the
// loop over the tile's steps.
TEST_F(GpuAssemble, PiecesAssembleWithoutSpills) {
  const std::map<std::string, std::string> square = {
      {"M", "512"}, {"N", "768"}, {"K", "2048"}, {"dtype", "bfloat16"}};
  const std::map<std::string, std::string> few = {
      {"M", "16"}, {"N", "3072"}, {"K", "1024"}, {"dtype", "bfloat16"}, {"few", "True"}};
  for (const Case& c : std::vector<Case>{
           {"matmul_streamk", square,
            "block_M=128,block_N=192,block_K=64,num_stages=5,threads=384,blocks=132,panel=0"},
           {"matmul_streamk", square,
            "block_M=32,block_N=256,block_K=128,num_stages=2,threads=128,blocks=264,panel=0"},
           {"matmul_streamk", few,
            "block_M=96,block_N=256,block_K=128,num_stages=2,threads=384,blocks=132,panel=0"}}) {
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

TEST_F(GpuAssemble, ProductsInTensorMemoryAssembleWithoutSpills) {
  for (const char* trans_a : {"False", "True"}) {
    for (const char* trans_b : {"False", "True"}) {
      for (const char* config : {"block_M=128,block_N=256,block_K=64,num_stages=3,threads=256",
                                 "block_M=64,block_N=64,block_K=128,num_stages=2,threads=128",
                                 "block_M=256,block_N=96,block_K=64,num_stages=3,threads=256"}) {
        SCOPED_TRACE(config);
        ExpectAssembles({"matmul", Product("bfloat16", "bfloat16", trans_a, trans_b), config},
                        "sm_100a");
      }
    }
  }
  for (const char* type : {"float16", "float8_e4m3fn", "float8_e5m2", "int8"}) {
    ExpectAssembles(
        {"matmul",
         Product(type, type == std::string("int8") ? "int32" : "float16", "True", "False"),
         "block_M=128,block_N=128,block_K=128,num_stages=3,threads=128"},
        "sm_100a");
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

// Halves of columns and rows, versions, what begins inside of a swizzle and of an atom.
TEST_F(GpuAssemble, ProductsOnPartsOfTilesAssembleWithoutSpills) {
  const auto kernel = [](const char* a, const char* b, bool trans_b) {
    return absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((128, 128), "bfloat16"), B: T.Tensor((2, 128, 128), "bfloat16"),
            C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 128), "bfloat16")
        b = T.alloc_shared((2, 128, 128), "bfloat16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        for s in T.serial(2):
            T.gemm()",
                        a, ", ", b, ", c, transpose_B=", trans_b ? "True" : "False",
                        ")\n        T.copy(c, C)\n");
  };
  const auto expect = [](const std::string& text, const char* arch, const char* instruction) {
    const std::string ptx = PtxOf(text, arch);
    EXPECT_TRUE(absl::StrContains(ptx, instruction)) << arch << text;
    ExpectAssembles(text, ptx, arch);
  };
  for (const bool trans_b : {false, true}) {
    const char* b = trans_b ? "b[s, 64:, :64]" : "b[s, :64, 64:]";
    const std::string halves = kernel("a[64:, 64:]", b, trans_b);
    const std::string inside = kernel("a[8:72, 32:96]", b, trans_b);
    const std::string rows = kernel("a[4:68, 8:72]", "b[s, 3:67, 24:88]", trans_b);
    for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100a"}) {
      const char* wide = arch == std::string("sm_90a")    ? "wgmma.mma_async"
                         : arch == std::string("sm_100a") ? "tcgen05.mma"
                                                          : "mma.sync";
      expect(halves, arch, wide);
      expect(inside, arch, wide);
      expect(rows, arch, "mma.sync");
    }
  }
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
  EXPECT_TRUE(out->shared_object == again->shared_object) << "not the same bytes again";
}

// Which tile a turn of a persistent block has, how many turns there are and which version of a tile
// comes next take no division, and where it lies in shared memory takes 32 bits.
TEST_F(GpuAssemble, TurnsOverTilesDivideNothing) {
  Case c = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
            "block_M=128,block_N=256,block_K=64,num_stages=4,threads=256,panel=8"};
  for (const char* size : {"M", "N", "K"}) c.arguments[size] = "4096";
  const auto ptx = codegen::EmitStage(Input(c, "sm_90a"), "asm");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  for (const char* slow : {"div.", "rem.", "mul.hi", "cvt.u32.u64"}) {
    EXPECT_FALSE(absl::StrContains(*ptx, slow)) << slow;
  }
}

// A warpgroup that fetches gives registers to those that need more than an even share, among them
// all that multiply without wgmma, call functions or load a bias, and to no others. Neither way
// spills.
TEST_F(GpuAssemble, RegistersAreSharedOutToThoseThatNeedThem) {
  const auto plain = Product("bfloat16", "bfloat16", "False", "True");
  auto rows = Product("bfloat16", "bfloat16", "False", "False");  // ragged for tiles of 192 x 160
  rows["M"] = "1024", rows["N"] = "1536";
  auto tf32 = Product("float32", "float32", "False", "False");
  tf32["M"] = "1024", tf32["N"] = "768";
  auto doubles = Product("float64", "float64", "False", "False");
  doubles["accum_dtype"] = "float64";
  const std::map<std::string, std::string> even = {{"M", "512"}, {"N", "1024"}, {"K", "512"}};
  const std::map<std::string, std::string> gelu = {
      {"M", "200"},    {"N", "264"}, {"K", "136"}, {"batch", "2"}, {"activation", "'gelu'"},
      {"scale", "0.5"}};
  const struct {
    Case c;
    bool shares;
  } cases[] = {
      {{"matmul", plain, "block_M=128,block_N=256,block_K=64,num_stages=3,threads=256"}, false},
      {{"matmul", plain, "block_M=256,block_N=128,block_K=64,num_stages=3,threads=256"}, false},
      {{"matmul", plain,
        "block_M=256,block_N=128,block_K=64,num_stages=3,threads=256,kiln.even_registers=0"},
       true},
      {{"matmul", plain, "block_M=192,block_N=128,block_K=64,num_stages=3,threads=384"}, false},
      {{"matmul", plain, "block_M=192,block_N=192,block_K=64,num_stages=3,threads=384"}, true},
      {{"matmul", plain, "block_M=256,block_N=192,block_K=64,num_stages=3,threads=256"}, true},
      {{"matmul_promoted", even, "block_M=128,block_N=192,threads=256"}, true},
      {{"matmul", doubles, "block_M=64,block_N=256,block_K=8,num_stages=2,threads=256"}, true},
      {{"matmul", rows, "block_M=192,block_N=160,block_K=64,num_stages=4,threads=256,panel=4"},
       true},
      {{"matmul", tf32,
        "block_M=128,block_N=192,block_K=32,num_stages=4,threads=256,panel=8,kiln.cluster=1,"
        "kiln.tf32=1"},
       true},
      {{"linear", gelu, "block_M=256,block_N=128,block_K=64,num_stages=4,threads=256"}, true},
  };
  for (const auto& [c, shares] : cases) {
    SCOPED_TRACE(absl::StrCat(c.name, " ", c.config));
    const auto out = codegen::CompileKernel(Input(c, "sm_90a"));
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(absl::StrContains(out->assembly, "setmaxnreg"), shares);
    EXPECT_EQ(out->spill_bytes, 0);
  }
}

// What a kernel that copies rows makes of sizes, compiled for the machine at hand.
class Copied {
 public:
  Copied(const char* text, const char* arch) {
    codegen::CompileInput input;
    input.kernel_source = text;
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const auto out = codegen::CompileKernel(input);
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return;
    const std::string path = testing::TempDir() + "/sizes_" + arch + ".so";
    std::ofstream(path, std::ios::binary) << out->shared_object;
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    if (library_ != nullptr) {
      entry_ = reinterpret_cast<Entry>(dlsym(library_, out->name.c_str()));
    }
  }
  ~Copied() {
    if (library_ != nullptr) dlclose(library_);
  }

  int32_t operator()(int64_t m, int64_t n) {
    EXPECT_NE(entry_, nullptr);
    return entry_ == nullptr ? KILN_OK : entry_(nullptr, a_, c_, m, n);
  }

 private:
  using Entry = int32_t (*)(const void*, const float*, float*, int64_t, int64_t);
  void* library_ = nullptr;
  Entry entry_ = nullptr;
  alignas(64) float a_[128] = {1}, c_[128] = {};
};

// The launcher looks at sizes before it looks for a GPU.
TEST_F(GpuAssemble, SizesThatTheKernelDoesNotTakeAreRefused) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def copied():
    M, N = T.dynamic("M, N")
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), "float32")):
        T.assume(N % 4 == 0)
        with T.Kernel(M, threads=64) as b:
            for j in T.Parallel(64):
                C[b, j] = A[b, j]
    return main
)";
  for (const char* arch : {"sm_90a", "x86-64-v3"}) {
    Copied run(kText, arch);
    EXPECT_EQ(run(2, 62), KILN_ERROR_ARGUMENT);
    EXPECT_EQ(run(2, -4), KILN_ERROR_ARGUMENT);
    EXPECT_NE(run(2, 64), KILN_ERROR_ARGUMENT);
  }
}

// Extents are computed in 32 bits: what is more would be taken for another size.
TEST_F(GpuAssemble, SizesOfWhichAnExtentHasNoValueAreRefused) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def copied():
    M, N = T.dynamic("M, N")
    @T.prim_func
    def main(A: T.Tensor((M * N,), "float32"), C: T.Tensor((M * N,), "float32")):
        with T.Kernel(T.ceildiv(M * N, 64), threads=64) as b:
            for j in T.Parallel(64):
                C[b * 64 + j] = A[b * 64 + j]
    return main
)";
  for (const char* arch : {"sm_90a", "x86-64-v3"}) {
    Copied run(kText, arch);
    EXPECT_EQ(run(65536, 65536), KILN_ERROR_ARGUMENT) << "0 in 32 bits";
    EXPECT_EQ(run(65537, 65536), KILN_ERROR_ARGUMENT) << "65536 in 32 bits";
    EXPECT_EQ(run(1, INT32_MAX), KILN_ERROR_ARGUMENT) << "blocks are counted with 63 more";
    EXPECT_NE(run(2, 64), KILN_ERROR_ARGUMENT);
  }
}

// Wherever such a number comes from; but not one that nobody asks for.
TEST_F(GpuAssemble, SizesThatAreLostOnTheWayAreRefused) {
  constexpr int64_t kBig = 65536;
  const struct {
    const char *before, *extent;
    int64_t m, n;
    bool refused;
  } kCases[] = {
      {"n = M * N\n    k = n * N + M", "T.ceildiv(k, 8)", kBig, kBig, true},
      {"n = M * N\n    k = n * N + M", "T.ceildiv(k, 8)", 4, 8, false},
      {"n = M * N", "1", kBig, kBig, false},
      {"", "(M << 3) + N", 1 << 29, 1, true},
      {"", "(M << 3) + N", 2, 1, false},
      {"", "T.if_then_else(M > 4, M * N, 4)", kBig, kBig, true},
      {"", "T.if_then_else(M > 4, 4, M * N)", kBig, kBig, false},
      {"", "T.cast(T.cast(M, 'int64') * N, 'int32')", kBig, kBig, true},
      {"", "T.cast(T.cast(M, 'int64') * N, 'int32')", 4, 4, false},
      {"", "T.cast(T.cast(M, 'uint32') * T.cast(N, 'uint32'), 'int32')", kBig, kBig, true},
      {"", "M - N + 4", 2, 3, false},
      {"T.assume(M * N < 100)", "1", kBig, kBig, true},
      {"T.assume(M * N < 100)", "1", 3, 4, false},
      {"T.assume((M > 4) or (M * N < 100))", "1", kBig, kBig, false},
  };
  for (const auto& c : kCases) {
    const std::string text = absl::StrCat(R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def copied():
    M, N = T.dynamic("M, N")
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), "float32")):
        )",
                                          absl::StrReplaceAll(c.before, {{"    ", "        "}}), R"(
        with T.Kernel()",
                                          c.extent, R"(, threads=64) as b:
            for j in T.Parallel(64):
                if M * 0 + j > 100:
                    C[0, 0] = A[0, 0]
    return main
)");
    for (const char* arch : {"sm_90a", "x86-64-v3"}) {
      const int32_t code = Copied(text.c_str(), arch)(c.m, c.n);
      EXPECT_EQ(code == KILN_ERROR_ARGUMENT, c.refused) << arch << " " << c.m << " " << c.n << text;
    }
  }
}

}  // namespace
}  // namespace kiln
