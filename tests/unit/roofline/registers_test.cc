// The limit of registers, held against what the assembler made of configs on both sides of it (CUDA
// 13.0, -O3): those that it compiled without spilling, and those that it did not.
#include "tests/unit/roofline/kernels.h"

namespace kiln::roofline {
namespace {

struct Edge {
  const char* name;
  const char* arch;
  const char* kernel;
  lang::Arguments arguments;
  std::string config;
  int spilled;  // bytes
};

std::string Tile(int m, int n, int k, int threads, int stages = 2) {
  return "block_M=" + std::to_string(m) + ",block_N=" + std::to_string(n) +
         ",block_K=" + std::to_string(k) + ",threads=" + std::to_string(threads) +
         ",num_stages=" + std::to_string(stages);
}

std::vector<Edge> Edges() {
  const lang::Arguments bf16 = {{"M", "1024"},       {"N", "1024"},
                                {"K", "1024"},       {"dtype", "bfloat16"},
                                {"trans_B", "True"}, {"out_dtype", "bfloat16"}};
  const lang::Arguments gelu = {{"M", "200"},
                                {"N", "264"},
                                {"K", "136"},
                                {"batch", "2"},
                                {"dtype", "bfloat16"},
                                {"scale", "0.5"},
                                {"activation", "'gelu'"}};
  const lang::Arguments few = {{"M", "3"}, {"N", "264"}, {"K", "2000"}, {"dtype", "bfloat16"}};
  const lang::Arguments packed = {{"M", "100"}, {"N", "264"}, {"K", "512"}};
  const lang::Arguments causal = {{"batch", "1"},       {"heads", "4"},    {"kv_heads", "4"},
                                  {"seq_q", "384"},     {"seq_kv", "384"}, {"dim", "64"},
                                  {"is_causal", "True"}};
  const lang::Arguments turned = {{"M", "300"}, {"N", "1000"}, {"dtype", "bfloat16"}};
  const auto keys = [](int m, int n, int threads) {
    return "block_M=" + std::to_string(m) + ",block_N=" + std::to_string(n) +
           ",num_stages=2,threads=" + std::to_string(threads);
  };
  const auto moved = [](int m, int n, int threads) {
    return "block_M=" + std::to_string(m) + ",block_N=" + std::to_string(n) +
           ",pad=1,threads=" + std::to_string(threads);
  };
  return {
      {"wgmma_two", "sm_90a", "matmul", bf16, Tile(192, 256, 64, 256), 0},
      {"wgmma_one", "sm_90a", "matmul", bf16, Tile(128, 192, 64, 128), 0},
      {"stored_by_elements", "sm_90a", "matmul_decode", few, Tile(128, 192, 64, 128), 0},
      {"three_without_tma", "sm_90a", "matmul_decode", few, Tile(256, 192, 32, 384, 1), 16},
      {"unpacked", "sm_90a", "matmul_dequant", packed, Tile(256, 96, 64, 128), 0},
      {"unpacked_wide", "sm_90a", "matmul_dequant", packed, Tile(256, 128, 64, 128), 1432},
      {"gelu", "sm_90a", "linear", gelu, Tile(192, 192, 64, 256), 0},
      {"gelu_wide", "sm_90a", "linear", gelu, Tile(256, 160, 64, 256), 1816},
      {"gelu_three", "sm_90a", "linear", gelu, Tile(192, 160, 64, 384), 56},
      {"attention", "sm_90a", "attention", causal, keys(256, 64, 256), 0},
      {"attention_one", "sm_90a", "attention", causal, keys(128, 96, 128), 0},
      {"attention_wide", "sm_90a", "attention", causal, keys(256, 96, 256), 144},
      {"attention_tall", "sm_90a", "attention", causal, keys(192, 64, 128), 192},
      {"moved", "sm_90a", "transpose", turned, moved(64, 1024, 256), 0},
      {"moved_whole", "sm_90a", "transpose", turned, moved(128, 256, 128), 80},
      {"mma", "sm_80", "matmul", bf16, Tile(256, 160, 64, 256), 0},
      {"mma_wide", "sm_80", "matmul", bf16, Tile(256, 192, 64, 256), 432},
      {"mma_deep", "sm_80", "matmul", bf16, Tile(128, 96, 128, 128), 0},
      {"mma_deep_wide", "sm_80", "matmul", bf16, Tile(192, 96, 128, 128), 816},
  };
}

class Registers : public testing::TestWithParam<Edge> {};

TEST_P(Registers, AreLimitedWhereTheAssemblerSpills) {
  const Edge& edge = GetParam();
  const lang::Kernel kernel = TemplateKernel(edge.kernel);
  Request request;
  request.kernel = &kernel;
  request.arguments = edge.arguments;
  request.configs = {*Config::Parse(edge.config)};
  request.arch = *target::NamedArch(edge.arch);
  const auto answer = Recommend(request);
  if (answer.ok()) {
    const Hint hint = answer->space->HintAt(0);
    EXPECT_EQ(std::stoi(hint.fields.at("spare_registers")) < 0, edge.spilled > 0);
    EXPECT_EQ(std::count(hint.risks.begin(), hint.risks.end(), "spills") > 0, edge.spilled > 0);
    return;
  }
  EXPECT_GT(edge.spilled, 0);
  EXPECT_NE(std::string(answer.status().message()).find("most fail on: registers"),
            std::string::npos)
      << answer.status();
}

// What is likely to spill is legal, and behind all that is not, unless it is far faster.
TEST(RegistersInDoubt, ArePricedBehindTheOthers) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request request;
  request.kernel = &kernel;
  request.arguments = {{"M", "4096"},       {"N", "4096"},         {"K", "4096"},
                       {"trans_B", "True"}, {"dtype", "bfloat16"}, {"out_dtype", "bfloat16"}};
  request.arch = *target::NamedArch("sm_80");
  for (const char* tile : {"block_M=256,block_N=160,block_K=64,threads=256,num_stages=2",
                           "block_M=256,block_N=192,block_K=32,threads=256,num_stages=2"}) {
    request.configs.push_back(*Config::Parse(tile));
  }
  const auto answer = Recommend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->space->legal(), 2);
  EXPECT_EQ(answer->space->HintAt(0).risks.front(), "spill-near");
  EXPECT_EQ(answer->space->HintAt(1).risks.front(), "spills");
  EXPECT_GT(answer->space->PredictedAt(1), 1.5 * answer->space->PredictedAt(0));
}

// Products of one chain whose threads hold other rows leave what is kept of each row without a
// place; where every warp has its own 16 rows, those of two instructions are the same.
TEST(ChainsOfProducts, HoldTheSameRows) {
  const lang::Kernel kernel = TemplateKernel("attention");
  Request request;
  request.kernel = &kernel;
  request.arguments = {{"batch", "1"},    {"heads", "4"}, {"kv_heads", "4"},    {"seq_q", "384"},
                       {"seq_kv", "384"}, {"dim", "64"},  {"is_causal", "True"}};
  request.arch = *target::NamedArch("sm_90a");
  request.configs = {*Config::Parse("block_M=64,block_N=128,num_stages=3,threads=256")};
  EXPECT_TRUE(Recommend(request).ok());
  request.configs = {*Config::Parse("block_M=192,block_N=64,num_stages=2,threads=256")};
  EXPECT_NE(std::string(Recommend(request).status().message()).find("gemm instruction"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Edges, Registers, testing::ValuesIn(Edges()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln::roofline
