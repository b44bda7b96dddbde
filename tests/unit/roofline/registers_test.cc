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
  const lang::Arguments bytes = {{"M", "1024"},          {"N", "1024"},
                                 {"K", "1024"},          {"dtype", "int8"},
                                 {"out_dtype", "int32"}, {"accum_dtype", "int32"},
                                 {"trans_A", "True"},    {"trans_B", "False"}};
  lang::Arguments right = bytes;
  right["trans_A"] = "False";
  const auto keys = [](int m, int n, int threads) {
    return "block_M=" + std::to_string(m) + ",block_N=" + std::to_string(n) +
           ",num_stages=2,threads=" + std::to_string(threads);
  };
  const auto moved = [](int m, int n, int threads) {
    return "block_M=" + std::to_string(m) + ",block_N=" + std::to_string(n) +
           ",pad=1,threads=" + std::to_string(threads);
  };
  const auto rows = [](int m, int threads) {
    return "block_M=" + std::to_string(m) + ",threads=" + std::to_string(threads);
  };
  const auto tile = [&](int m, int n, int threads) {
    return "block_N=" + std::to_string(n) + "," + rows(m, threads);
  };
  const lang::Arguments odd = {{"M", "300"}, {"N", "1000"}};
  const lang::Arguments narrow = {{"M", "512"}, {"N", "2048"}, {"dtype", "bfloat16"}};
  const lang::Arguments wide = {{"M", "1000"}, {"N", "4096"}, {"dtype", "bfloat16"}};
  const lang::Arguments wide_float = {{"M", "1000"}, {"N", "4096"}};
  const lang::Arguments vector = {{"N", "4096"}, {"K", "4096"}, {"dtype", "bfloat16"}};
  lang::Arguments doubles = right;
  for (const char* type : {"dtype", "out_dtype", "accum_dtype"}) doubles[type] = "float64";
  const lang::Arguments shared_steps = {
      {"M", "512"}, {"N", "1536"}, {"K", "2048"}, {"dtype", "float16"}, {"out_dtype", "float16"}};
  lang::Arguments relu = gelu;
  for (const auto& [name, value] :
       lang::Arguments{{"M", "512"}, {"N", "1536"}, {"K", "1024"}, {"activation", "'relu'"}}) {
    relu[name] = value;
  }
  return {
      // Of multiply-adds a thread keeps two rows and columns of its tile.
      {"doubles", "sm_86", "matmul", doubles, Tile(128, 160, 8, 256, 5), 8},
      {"doubles_fit", "sm_86", "matmul", doubles, Tile(128, 128, 8, 256, 5), 0},
      {"shared_steps", "sm_86", "matmul_streamk", shared_steps,
       "blocks=82," + Tile(128, 128, 64, 128, 3), 0},
      // Rows that no vectors divide evenly: a thread has an eighth of one, and half of them none.
      {"rows_in_teams", "sm_90a", "layernorm", odd, rows(4, 64), 64},
      {"rows_in_teams_more", "sm_90a", "layernorm", odd, rows(16, 256), 80},
      {"rows_in_turn", "sm_90a", "layernorm", odd, rows(16, 512), 0},
      {"rows_in_turn_two", "sm_90a", "layernorm", odd, rows(2, 64), 0},
      // What a sum takes is folded as it comes.
      {"folded", "sm_90a", "rmsnorm", narrow, rows(16, 256), 0},
      {"folded_few_registers", "sm_90a", "rmsnorm", narrow, rows(16, 512), 0},
      {"folded_products", "sm_90a", "gemv", vector, "block_K=1024,block_N=16,threads=64", 0},
      {"folded_many", "sm_90a", "gemv", vector, "block_K=512,block_N=128,threads=128", 400},
      // Of a maximum, every row that a thread has a part of takes what each warp found.
      {"maxima", "sm_90a", "softmax", narrow, rows(8, 128), 0},
      {"maxima_of_many_rows", "sm_90a", "softmax", narrow, rows(16, 256), 256},
      {"maxima_few_registers", "sm_90a", "softmax", narrow, rows(16, 512), 152},
      {"maxima_of_many_warps", "sm_90a", "softmax", wide, rows(8, 512), 632},
      {"sums_of_rows", "sm_90a", "reduction", narrow, tile(64, 2048, 256), 0},
      {"sums_in_a_warp", "sm_90a", "reduction", narrow, tile(128, 256, 64), 56},
      // Guards between loads and sums keep a tile whole.
      {"guarded", "sm_90a", "reduction", wide, tile(16, 2048, 128), 396},
      {"guarded_fits", "sm_90a", "reduction", wide, tile(32, 128, 64), 0},
      {"guarded_columns", "sm_90a", "reduction_columns", odd, "split=2," + tile(64, 128, 32), 252},
      {"guarded_columns_fit", "sm_90a", "reduction_columns", odd, "split=4," + tile(16, 512, 64),
       0},
      {"guarded_few_registers", "sm_90a", "reduction_columns", wide_float,
       "split=1," + tile(32, 2048, 512), 248},
      {"columns_kept", "sm_90a", "linear", relu, Tile(256, 160, 32, 256, 4), 72},
      {"columns_kept_fit", "sm_90a", "linear", relu, Tile(256, 144, 32, 256, 3), 0},
      {"unpacked_by_some", "sm_90a", "matmul_dequant", packed, Tile(192, 128, 128, 384), 1408},
      {"unpacked_by_all", "sm_90a", "matmul_dequant", packed, Tile(128, 192, 64, 384), 0},
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
      // A thread loads all columns of its lanes from tensor memory.
      {"tensor_rows", "sm_100a", "matmul", bf16, Tile(64, 192, 64, 128, 3), 0},
      {"tensor_rows_wide", "sm_100a", "matmul", bf16, Tile(64, 256, 64, 128, 3), 1024},
      {"mma", "sm_80", "matmul", bf16, Tile(256, 160, 64, 256), 0},
      {"mma_wide", "sm_80", "matmul", bf16, Tile(256, 192, 64, 256), 432},
      {"mma_deep", "sm_80", "matmul", bf16, Tile(128, 96, 128, 128), 0},
      // Bytes are turned piece by piece.
      {"turned_right", "sm_86", "matmul", right, Tile(64, 160, 64, 128, 1), 0},
      {"turned_right_more", "sm_86", "matmul", right, Tile(128, 160, 64, 128), 0},
      {"turned_uneven", "sm_86", "matmul", bytes, Tile(256, 144, 64, 384, 1), 900},
      {"turned_for_wgmma", "sm_90a", "matmul", bytes, Tile(256, 160, 128, 256), 0},
      {"turned_for_wgmma_wide", "sm_90a", "matmul", bytes, Tile(256, 192, 128, 256), 52},
      {"mma_deep_wide", "sm_80", "matmul", bf16, Tile(192, 96, 128, 128), 816},
  };
}

// Of launches whose addresses count.
std::vector<Edge> EdgesOfAddresses() {
  const lang::Arguments pixels = {{"N", "8"},   {"H", "28"},  {"W", "28"},
                                  {"C", "128"}, {"F", "256"}, {"groups", "2"}};
  const lang::Arguments shared = {{"M", "512"},
                                  {"N", "1536"},
                                  {"K", "2048"},
                                  {"dtype", "float16"},
                                  {"with_bias", "True"},
                                  {"out_dtype", "float16"},
                                  {"activation", "'gelu'"},
                                  {"scale", "0.5"}};
  return {
      {"gathered", "sm_89", "conv2d", pixels, Tile(192, 64, 64, 128, 3), 68},
      {"gathered_fit", "sm_89", "conv2d", pixels, Tile(192, 64, 32, 128, 3), 0},
      {"gathered_by_tma", "sm_90a", "conv2d", pixels, Tile(192, 64, 64, 128, 3), 0},
      {"in_turns", "sm_80", "matmul_streamk", shared, "blocks=108," + Tile(192, 128, 64, 256, 4),
       48},
      {"in_turns_fit", "sm_80", "matmul_streamk", shared, "blocks=108," + Tile(192, 96, 64, 256, 3),
       0},
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

// 255 registers are no 256.
TEST(RegistersOfAProduct, AreOneFewerThanGrainsHave) {
  const lang::Kernel kernel = RoundedKernel("matmul", ", \"kiln.tcgen05\": 0");
  Request request;
  request.kernel = &kernel;
  request.arguments = {{"M", "1024"}, {"N", "1536"}, {"K", "1024"}, {"trans_B", "True"}};
  request.arch = *target::NamedArch("sm_100a");
  request.configs = {*Config::Parse(Tile(128, 96, 64, 128, 4)),
                     *Config::Parse(Tile(96, 96, 64, 128, 4))};
  const auto answer = Recommend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto spare = [&](int i) {
    const Hint hint = answer->space->HintAt(answer->space->RankOf(request.configs[i]));
    return std::stoi(hint.fields.at("spare_registers"));
  };
  EXPECT_EQ(spare(0), -1);  // it spills 8 bytes
  EXPECT_GE(spare(1), 0);
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
INSTANTIATE_TEST_SUITE_P(EdgesOfAddresses, Registers, testing::ValuesIn(EdgesOfAddresses()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln::roofline
