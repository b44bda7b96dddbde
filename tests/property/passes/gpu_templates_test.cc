// The shipped kernels as GPUs run them, instruction by instruction in the interpreter, against
// their tiles: ragged shapes, every path of the compiler.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/templates/templates.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

struct Case {
  const char* name;
  lang::Arguments arguments;
  double tolerance = 0;  // sums in another order, or rounded in between
  bool held = false;     // on sm_100a in tensor memory
};

std::vector<Case> Plain() {
  return {
      {"attention_decode",
       {{"batch", "1"},
        {"heads", "6"},
        {"kv_heads", "2"},
        {"length", "200"},
        {"dim", "64"},
        {"split", "2"}},
       5e-3},
      {"broadcast", {{"M", "5"}, {"N", "300"}, {"dtype", "bfloat16"}}, 1e-2},
      {"conv2d",
       {{"N", "1"},
        {"H", "6"},
        {"W", "5"},
        {"C", "32"},
        {"F", "40"},
        {"block_M", "64"},
        {"block_N", "64"}},
       0,
       true},
      {"conv2d",
       {{"N", "2"},
        {"H", "7"},
        {"W", "9"},
        {"C", "32"},
        {"F", "16"},
        {"R", "1"},
        {"S", "3"},
        {"stride", "2"},
        {"pad", "2"},
        {"dilation", "2"},
        {"block_M", "64"},
        {"block_N", "32"}},
       0,
       true},
      {"elementwise", {{"M", "3"}, {"N", "200"}, {"block_N", "128"}}, 1e-5},
      {"gemv", {{"N", "20"}, {"K", "200"}}, 1e-5},
      {"layernorm", {{"M", "3"}, {"N", "136"}, {"dtype", "bfloat16"}}, 2e-2},
      {"linear",
       {{"M", "70"},
        {"N", "72"},
        {"K", "136"},
        {"batch", "2"},
        {"activation", "'relu'"},
        {"scale", "0.5"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       0,
       true},
      {"matmul", {{"M", "40"}, {"N", "24"}, {"K", "40"}, {"block_M", "32"}, {"block_N", "32"}}},
      {"matmul_decode", {{"M", "3"}, {"N", "136"}, {"K", "200"}, {"block_K", "64"}}, 0, true},
      {"matmul_decode", {{"M", "20"}, {"N", "100"}, {"K", "72"}, {"block_K", "32"}}, 0, true},
      {"matmul_decode",
       {{"M", "3"}, {"N", "264"}, {"K", "360"}, {"block_K", "64"}, {"rotate", "True"}},
       0,
       true},
      {"matmul_dequant", {{"M", "20"}, {"N", "40"}, {"K", "128"}, {"block_N", "64"}}, 0, true},
      {"matmul_dequant",
       {{"M", "20"}, {"N", "40"}, {"K", "256"}, {"bits", "8"}, {"block_N", "64"}},
       0,
       true},
      {"matmul_promoted",
       {{"M", "20"},
        {"N", "40"},
        {"K", "136"},
        {"dtype", "'bfloat16'"},
        {"out_dtype", "'float32'"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"block_K", "64"},
        {"threads", "128"}}},
      {"matmul_splitk",
       {{"M", "20"},
        {"N", "72"},
        {"K", "300"},
        {"split", "2"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       0,
       true},
      {"reduction", {{"M", "6"}, {"N", "200"}}},
      {"reduction_all", {{"N", "5000"}, {"block", "1024"}}},
      {"reduction_columns", {{"M", "50"}, {"N", "200"}, {"split", "4"}, {"block_N", "128"}}},
      {"rmsnorm", {{"M", "3"}, {"N", "136"}}, 1e-5},
      {"softmax", {{"M", "3"}, {"N", "136"}}, 1e-5},
      {"transpose", {{"M", "70"}, {"N", "72"}, {"dtype", "bfloat16"}}},
  };
}

// Their other options: lengths of sequences, groups, few channels, transposes, types.
std::vector<Case> Options() {
  return {
      {"attention_decode_ragged",
       {{"batch", "2"},
        {"heads", "6"},
        {"kv_heads", "2"},
        {"length", "7"},
        {"dim", "64"},
        {"split", "2"},
        {"block_N", "16"}},
       5e-3},
      {"attention_ragged",
       {{"batch", "2"},
        {"heads", "2"},
        {"kv_heads", "1"},
        {"seq_q", "5"},
        {"seq_kv", "8"},
        {"dim", "64"},
        {"is_causal", "True"},
        {"block_M", "64"},
        {"block_N", "16"},
        {"threads", "128"}},
       5e-3},
      // Groups of filters; channels that are no whole steps.
      {"conv2d",
       {{"N", "1"},
        {"H", "6"},
        {"W", "5"},
        {"C", "64"},
        {"F", "80"},
        {"groups", "2"},
        {"block_M", "64"},
        {"block_N", "64"}},
       0,
       true},
      {"conv2d",
       {{"N", "1"},
        {"H", "9"},
        {"W", "7"},
        {"C", "3"},
        {"F", "24"},
        {"stride", "2"},
        {"block_M", "64"},
        {"block_N", "32"}},
       0,
       true},
      {"conv2d",
       {{"N", "1"},
        {"H", "6"},
        {"W", "5"},
        {"C", "32"},
        {"F", "24"},
        {"dtype", "int8"},
        {"accum_dtype", "int32"},
        {"out_dtype", "int32"},
        {"block_M", "64"},
        {"block_N", "32"}},
       0,
       true},
      {"linear",
       {{"M", "70"},
        {"N", "72"},
        {"K", "136"},
        {"batch", "2"},
        {"trans_A", "True"},
        {"trans_B", "False"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       0,
       true},
      {"linear",
       {{"M", "40"},
        {"N", "72"},
        {"K", "144"},
        {"dtype", "int8"},
        {"accum_dtype", "int32"},
        {"out_dtype", "float32"},
        {"scale", "0.5"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       0,
       true},
      {"matmul_dequant",
       {{"M", "20"},
        {"N", "40"},
        {"K", "256"},
        {"bits", "8"},
        {"codes", "float8_e4m3fn"},
        {"block_N", "64"}},
       0,
       true},
      {"matmul_splitk",
       {{"M", "20"},
        {"N", "72"},
        {"K", "304"},
        {"dtype", "int8"},
        {"accum_dtype", "int32"},
        {"out_dtype", "int32"},
        {"split", "2"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       0,
       true},
  };
}

// Blocks that share the steps of a product.
std::vector<Case> StreamK() {
  return {
      // What follows the sums: in the second launch, in either of the two.
      {"matmul_splitk",
       {{"M", "20"},
        {"N", "72"},
        {"K", "304"},
        {"trans_A", "True"},
        {"trans_B", "False"},
        {"with_bias", "True"},
        {"activation", "'silu'"},
        {"split", "2"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       1e-2,
       true},
      {"matmul_streamk",
       {{"M", "70"},
        {"N", "200"},
        {"K", "296"},
        {"blocks", "5"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"num_stages", "3"},
        {"threads", "128"},
        {"with_bias", "True"},
        {"activation", "'gelu'"},
        {"scale", "0.5"}},
       1e-2,
       true},
      // Parts of tiles, of one step and of many; blocks that do a tile and begin the next.
      {"matmul_streamk",
       {{"M", "70"},
        {"N", "200"},
        {"K", "296"},
        {"blocks", "5"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"num_stages", "3"},
        {"threads", "128"}},
       1e-2,
       true},
      // Few rows.
      {"matmul_streamk",
       {{"M", "20"},
        {"N", "300"},
        {"K", "200"},
        {"few", "True"},
        {"blocks", "7"},
        {"block_M", "16"},
        {"block_N", "64"},
        {"block_K", "32"},
        {"num_stages", "5"},
        {"threads", "128"}},
       1e-2,
       true},
      // Exact sums; blocks of one step each.
      {"matmul_streamk",
       {{"M", "70"},
        {"N", "100"},
        {"K", "256"},
        {"dtype", "'int8'"},
        {"accum_dtype", "'int32'"},
        {"out_dtype", "'int32'"},
        {"blocks", "100"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"threads", "128"}},
       0,
       true},
      // Several whole tiles before the parts; tiles in panels.
      {"matmul_streamk",
       {{"M", "200"},
        {"N", "264"},
        {"K", "72"},
        {"trans_A", "True"},
        {"trans_B", "False"},
        {"blocks", "3"},
        {"block_M", "64"},
        {"block_N", "64"},
        {"block_K", "32"},
        {"num_stages", "2"},
        {"threads", "128"},
        {"panel", "2"}},
       1e-2,
       true},
  };
}

// Tiles that threads and warps do not divide evenly.
std::vector<Case> Uneven() {
  return {
      // Rows that do not divide evenly among threads.
      {"reduction",
       {{"M", "40"}, {"N", "1500"}, {"dtype", "bfloat16"}, {"block_M", "20"}, {"block_N", "704"}},
       1e-5},
      {"reduction",
       {{"M", "20"}, {"N", "200"}, {"block_M", "16"}, {"block_N", "128"}, {"threads", "384"}},
       1e-5},
      {"reduction",
       {{"M", "20"}, {"N", "200"}, {"op", "'min'"}, {"block_M", "16"}, {"block_N", "128"}}},
      {"reduction_columns",
       {{"M", "50"}, {"N", "200"}, {"op", "'max'"}, {"split", "4"}, {"block_N", "128"}}},
      {"reduction_all", {{"N", "5000"}, {"op", "'mean'"}, {"block", "1024"}}, 1e-6},
      {"layernorm",
       {{"M", "8"}, {"N", "768"}, {"dtype", "bfloat16"}, {"block_M", "4"}, {"threads", "128"}},
       2e-2},
      {"transpose",
       {{"M", "100"},
        {"N", "130"},
        {"dtype", "bfloat16"},
        {"block_M", "96"},
        {"block_N", "96"},
        {"threads", "384"}}},
      // Warps in several columns: panels of stores that cut them, rows that nobody has.
      {"matmul",
       {{"M", "16"},
        {"N", "200"},
        {"K", "64"},
        {"dtype", "'bfloat16'"},
        {"trans_B", "True"},
        {"block_M", "64"},
        {"block_N", "96"},
        {"block_K", "32"},
        {"threads", "256"}},
       0,
       true},
      {"matmul",
       {{"M", "40"},
        {"N", "200"},
        {"K", "64"},
        {"dtype", "'bfloat16'"},
        {"out_dtype", "'bfloat16'"},
        {"trans_B", "True"},
        {"block_M", "32"},
        {"block_N", "192"},
        {"block_K", "32"}},
       1e-2},
      // Sums in tensor memory: several rows of tiles, and of instructions, for each block.
      {"matmul",
       {{"M", "300"},
        {"N", "200"},
        {"K", "136"},
        {"dtype", "'bfloat16'"},
        {"out_dtype", "'bfloat16'"},
        {"trans_A", "True"},
        {"block_M", "128"},
        {"block_N", "64"},
        {"num_stages", "3"},
        {"threads", "128"}},
       1e-2,
       true},
      {"matmul",
       {{"M", "256"},
        {"N", "200"},
        {"K", "144"},
        {"dtype", "'int8'"},
        {"accum_dtype", "'int32'"},
        {"out_dtype", "'int32'"},
        {"trans_B", "True"},
        {"block_M", "256"},
        {"block_N", "96"},
        {"threads", "256"}},
       0,
       true},
      // Outer products on the vector units, with a depth of 4 steps, and of one.
      {"matmul",
       {{"M", "40"},
        {"N", "24"},
        {"K", "40"},
        {"block_M", "32"},
        {"block_N", "16"},
        {"block_K", "8"},
        {"trans_A", "True"},
        {"threads", "32"}},
       1e-5},
      {"matmul",
       {{"M", "40"},
        {"N", "24"},
        {"K", "33"},
        {"block_M", "32"},
        {"block_N", "16"},
        {"block_K", "11"},
        {"trans_B", "True"},
        {"threads", "32"}},
       1e-5},
      // Weights whose rows are packed, by more threads than a row has.
      {"matmul_dequant",
       {{"M", "20"},
        {"N", "40"},
        {"K", "256"},
        {"block_M", "32"},
        {"block_N", "64"},
        {"block_K", "128"},
        {"threads", "256"}}},
  };
}

const std::vector<Case>& Cases() {
  static const auto& cases = *[] {
    auto* all = new std::vector<Case>(Plain());
    for (const Case& c : StreamK()) all->push_back(c);
    for (const Case& c : Options()) all->push_back(c);
    for (const Case& c : Uneven()) all->push_back(c);
    return all;
  }();
  return cases;
}

class GpuTemplates : public ::testing::TestWithParam<std::tuple<size_t, const char*>> {};

TEST_P(GpuTemplates, ComputeWhatTheirTilesDo) {
  const auto& [number, gpu] = GetParam();
  const Case& c = Cases()[number];
  const auto tiles =
      testing::ElaboratedFile(absl::StrCat("compiler/templates/", c.name, ".py"), c.arguments);
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = testing::Instructions(*tiles, gpu, /*cores=*/4);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_EQ(testing::Has(*instructions, ir::Instruction::kTcgen05Mma),
            c.held && gpu == std::string("sm_100a"));
  // What warps find of a row goes to a place that its thread computes, not looks up.
  EXPECT_FALSE(absl::StrContains(ir::ToString(*instructions), "ranks"));
  EXPECT_EQ(testing::Difference(*tiles, *instructions, c.tolerance), "")
      << ir::ToString(*instructions);
}

std::string NameOf(const ::testing::TestParamInfo<GpuTemplates::ParamType>& info) {
  const size_t number = std::get<0>(info.param);
  return absl::StrCat(number, "_", Cases()[number].name, "_", std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, GpuTemplates,
                         ::testing::Combine(::testing::Range(size_t{0}, Cases().size()),
                                            ::testing::Values("sm_80", "sm_86", "sm_89", "sm_90a",
                                                              "sm_100a")),
                         NameOf);

// attention has a test of its own beside the instructions that it is about.
TEST(Templates, AllAreHere) {
  for (const KernelTemplate& t : KernelTemplates()) {
    bool has = t.name == "attention";
    for (const Case& c : Cases()) has |= t.name == c.name;
    EXPECT_TRUE(has) << t.name;
  }
}

}  // namespace
}  // namespace kiln
