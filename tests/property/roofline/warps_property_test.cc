// What a hint says of a block's warps is what the passes make of its config: drawn configs of
// kernels' spaces, pass options included, are elaborated, lowered, and read back.
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/tile_schedule.h"
#include "compiler/roofline/recommend.h"
#include "tests/unit/roofline/kernels.h"

namespace kiln::roofline {
namespace {

struct Space {
  std::string name, kernel;
  lang::Arguments arguments;
  std::string options;  // pass_configs of the kernel
};

std::vector<Space> Spaces() {
  const auto product = [](const char* m, const char* n, const char* k) {
    return lang::Arguments{{"M", m}, {"N", n}, {"K", k}, {"dtype", "bfloat16"}};
  };
  const auto with = [](lang::Arguments arguments, const lang::Arguments& more) {
    for (const auto& [name, value] : more) arguments[name] = value;
    return arguments;
  };
  const lang::Arguments square = product("1024", "1024", "1024");
  return {
      {"square", "matmul", square, ""},
      {"large", "matmul", product("4096", "6144", "4096"), ""},
      {"odd", "matmul", product("1000", "1000", "1000"), ""},
      {"narrow_rows", "matmul", product("256", "256", "100"), ""},
      {"nn", "matmul", with(square, {{"trans_B", "False"}}), ""},
      {"decode_product", "matmul", product("16", "3072", "1024"), ""},
      {"float32", "matmul", with(square, {{"dtype", "float32"}}), ""},
      {"tf32", "matmul", with(square, {{"dtype", "float32"}}), "\"kiln.tf32\": 1"},
      {"no_pairs", "matmul", square, "\"kiln.cluster\": 1"},
      {"turns", "matmul", product("4096", "4096", "1024"), "\"kiln.pingpong\": 1"},
      {"off", "matmul", square, "\"tl.disable_warp_specialized\": True"},
      {"older", "matmul", square, "\"tl.disable_tma_lower\": 1"},
      {"splitk", "matmul_splitk", product("512", "512", "2048"), ""},
      {"streamk", "matmul_streamk", product("512", "768", "2048"), ""},
      {"streamk_few", "matmul_streamk",
       with(product("16", "4096", "1024"), {{"few", "True"}, {"blocks", "132"}}), ""},
      {"promoted", "matmul_promoted", product("512", "512", "1024"), ""},
      {"few", "matmul_decode", product("16", "4096", "1024"), ""},
      {"dequant", "matmul_dequant", {{"M", "512"}, {"N", "512"}, {"K", "1024"}}, ""},
      {"linear",
       "linear",
       {{"M", "512"}, {"N", "512"}, {"K", "512"}, {"batch", "2"}, {"activation", "'gelu'"}},
       ""},
      {"conv", "conv2d", {{"N", "4"}, {"H", "28"}, {"W", "28"}, {"C", "64"}, {"F", "128"}}, ""},
      {"conv_1x1",
       "conv2d",
       {{"N", "4"}, {"H", "28"}, {"W", "28"}, {"C", "64"}, {"F", "128"}, {"R", "1"}, {"S", "1"}},
       ""},
      {"conv_groups",
       "conv2d",
       {{"N", "4"}, {"H", "28"}, {"W", "28"}, {"C", "64"}, {"F", "128"}, {"groups", "2"}},
       ""},
      {"conv_few_channels",
       "conv2d",
       {{"N", "4"}, {"H", "28"}, {"W", "28"}, {"C", "3"}, {"F", "64"}},
       ""},
      {"bytes_nn", "matmul",
       with(square, {{"dtype", "int8"}, {"out_dtype", "int32"}, {"accum_dtype", "int32"}}), ""},
      {"attention_ragged",
       "attention_ragged",
       {{"batch", "2"},
        {"heads", "4"},
        {"seq_q", "512"},
        {"seq_kv", "512"},
        {"dim", "64"},
        {"kv_heads", "4"},
        {"is_causal", "True"}},
       ""},
      {"attention",
       "attention",
       {{"batch", "1"},
        {"heads", "4"},
        {"kv_heads", "4"},
        {"seq_q", "512"},
        {"seq_kv", "512"},
        {"dim", "128"}},
       ""},
      {"attention_of_shared_heads",
       "attention",
       {{"batch", "1"},
        {"heads", "4"},
        {"kv_heads", "1"},
        {"seq_q", "512"},
        {"seq_kv", "512"},
        {"dim", "128"}},
       ""},
      {"attention_causal",
       "attention",
       {{"batch", "1"},
        {"heads", "4"},
        {"seq_q", "512"},
        {"seq_kv", "512"},
        {"dim", "64"},
        {"kv_heads", "4"},
        {"is_causal", "True"}},
       ""},
      {"softmax", "softmax", {{"M", "512"}, {"N", "2048"}}, ""},
      {"transpose", "transpose", {{"M", "512"}, {"N", "512"}}, ""},
  };
}

lang::Kernel KernelOf(const Space& space) {
  const lang::Kernel kernel = TemplateKernel(space.kernel);
  if (space.options.empty()) return kernel;
  std::string text = kernel.file()->text;
  const std::string decorator = "@tilelang.jit";
  const size_t at = text.find(decorator) + decorator.size();
  const bool called = text[at] == '(';
  const std::string configs = "(pass_configs={" + space.options + "}";
  text.replace(at, called ? 1 : 0, configs + (called && text[at + 1] != ')' ? ", " : ""));
  if (!called) text.insert(at + configs.size(), ")");
  return KernelFrom(text);
}

// What the passes made, in the words of Hint::fields.
std::map<std::string, std::string> ReadBack(const ir::Program& lowered) {
  int64_t parts = 0, cluster = 1;
  bool turns = false;
  ir::Walk(lowered.body, [&](const ir::Stmt& s) {
    if (const auto* launch = s.As<ir::Launch>()) {
      const auto note = launch->annotations.find("cluster");
      if (note != launch->annotations.end()) cluster = std::stoll(note->second);
    }
    if (const auto* loop = s.As<ir::For>()) {
      turns |= loop->annotations.count(passes::kTilesApart) > 0;
    }
    if (s.As<ir::OnThreads>() != nullptr) ++parts;
    return true;
  });
  return {{"warp_specialised", parts > 0 ? "1" : "0"},
          {"cluster", absl::StrCat("1,", cluster)},
          {"persistent", turns ? "1" : "0"},
          {"ping_pong", parts > 2 ? "1" : "0"}};
}

class HintedWarps : public testing::TestWithParam<Space> {};

// All that is legal of a space.
struct Answered {
  Answered(const Space& space, const char* arch) : kernel(KernelOf(space)) {
    request.kernel = &kernel;
    request.arguments = space.arguments;
    request.arch = *target::NamedArch(arch);
    request.strategy = Strategy::kAll;
    request.limits.listed = 1;
    answer = Recommend(request);
  }
  const lang::Kernel kernel;
  Request request;
  absl::StatusOr<Recommendation> answer;
};

void CheckHint(const Answered& a, const Hint& hint, std::set<std::string>* variants) {
  const auto program = lang::Elaborate(a.kernel, a.request.arguments, hint.config);
  if (!program.ok()) return;  // the kernel's own asserts
  passes::PassContext context;
  context.gpu = &a.request.arch;
  context.instruct = true;
  const auto lowered =
      passes::RunPipeline(passes::GpuPipeline(), *program, context, "specialise-warps");
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (const auto& [field, value] : ReadBack(*lowered)) {
    ASSERT_EQ(hint.fields.count(field), 1u) << field;
    EXPECT_EQ(hint.fields.at(field), value)
        << field << " of " << hint.config.ToString() << " on " << a.request.arch.name;
    variants->insert(absl::StrCat(field, "=", value));
  }
}

void Check(const Space& space, const char* arch, int64_t draws, std::set<std::string>* variants) {
  const Answered a(space, arch);
  ASSERT_TRUE(a.answer.ok()) << a.answer.status();
  Rng rng(7);
  std::set<int64_t> ranks;
  for (int64_t i = 0; i < draws; ++i) {
    ranks.insert(static_cast<int64_t>(rng.Below(static_cast<uint64_t>(a.answer->legal_count))));
  }
  for (const int64_t rank : ranks) {
    const Hint hint = a.answer->space->HintAt(rank);
    EXPECT_EQ(a.answer->space->RankOf(hint.config), rank) << hint.config.ToString();
    CheckHint(a, hint, variants);
  }
}

TEST_P(HintedWarps, AreThoseThatThePassesMake) {
  std::set<std::string> seen;
  Check(GetParam(), "sm_90a", 60, &seen);
  Check(GetParam(), "sm_100a", 15, &seen);
}

INSTANTIATE_TEST_SUITE_P(Spaces, HintedWarps, testing::ValuesIn(Spaces()),
                         [](const auto& info) { return info.param.name; });

// A block whose turned operands leave its tiles no bytes of their own takes one tile alone.
TEST(HintedWarps, KnowWhatTurnedOperandsTake) {
  const Space space{"",
                    "matmul",
                    {{"M", "8192"},
                     {"N", "8192"},
                     {"K", "512"},
                     {"dtype", "int8"},
                     {"out_dtype", "int32"},
                     {"accum_dtype", "int32"}},
                    ""};
  const Answered a(space, "sm_90a");
  ASSERT_TRUE(a.answer.ok()) << a.answer.status();
  std::set<std::string> seen;
  for (const char* stages : {"3", "4", "5"}) {
    const auto config = Config::Parse(
        absl::StrCat("block_M=64,block_N=256,block_K=128,threads=128,panel=8,num_stages=", stages));
    CheckHint(a, a.answer->space->HintAt(a.answer->space->RankOf(*config)), &seen);
  }
  EXPECT_EQ(seen.count("persistent=0") + seen.count("persistent=1"), 2u);
}

// The draws above are no test of what they never meet.
TEST(HintedWarps, MeetEveryPlan) {
  std::set<std::string> seen;
  for (const Space& space : Spaces()) {
    if (space.name == "large" || space.name == "turns") Check(space, "sm_90a", 60, &seen);
  }
  for (const char* plan : {"cluster=1,1", "cluster=1,2", "persistent=0", "persistent=1",
                           "ping_pong=0", "ping_pong=1", "warp_specialised=1"}) {
    EXPECT_EQ(seen.count(plan), 1u) << plan;
  }
  seen.clear();
  for (const Space& space : Spaces()) {
    if (space.name == "large") Check(space, "sm_100a", 60, &seen);
  }
  for (const char* plan : {"cluster=1,1", "cluster=1,2", "persistent=1"}) {
    EXPECT_EQ(seen.count(plan), 1u) << plan << " on sm_100a";
  }
}

Recommendation Answer(const lang::Kernel& kernel, const lang::Arguments& arguments,
                      const char* arch) {
  Request request;
  request.kernel = &kernel;
  request.arguments = arguments;
  request.arch = *target::NamedArch(arch);
  auto answer = Recommend(request);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return *std::move(answer);
}

std::set<std::string> OptionsOf(const Recommendation& answer) {
  std::set<std::string> found;
  for (const Tunable& t : answer.space->tunables()) {
    if (IsOptionName(t.name)) found.insert(t.name);
  }
  return found;
}

TEST(OpenOptions, AreThereWhereTheyMatter) {
  const lang::Arguments square = {
      {"M", "4096"}, {"N", "4096"}, {"K", "4096"}, {"dtype", "bfloat16"}};
  const lang::Kernel matmul = TemplateKernel("matmul");
  const Recommendation hopper = Answer(matmul, square, "sm_90a");
  EXPECT_EQ(OptionsOf(hopper), (std::set<std::string>{"kiln.cluster", "kiln.persistent"}));
  const Recommendation ampere = Answer(matmul, square, "sm_80");
  EXPECT_TRUE(OptionsOf(ampere).empty());
  EXPECT_GT(hopper.total_count, ampere.total_count);
  EXPECT_LE(hopper.total_count, 4 * ampere.total_count);
  EXPECT_TRUE(OptionsOf(Answer(TemplateKernel("softmax"), {{"M", "512"}, {"N", "2048"}}, "sm_90a"))
                  .empty());
  // Fixed by the kernel.
  Space fixed{"", "matmul", square, "\"kiln.cluster\": 2"};
  EXPECT_EQ(OptionsOf(Answer(KernelOf(fixed), square, "sm_90a")),
            (std::set<std::string>{"kiln.persistent"}));
}

TEST(OpenOptions, AreAskedForBesideListedTunables) {
  const lang::Kernel matmul = TemplateKernel("matmul");
  Request request = MatmulRequest(matmul, 4096, 4096, 4096, "sm_90a");
  request.arguments["dtype"] = "bfloat16";
  request.tunables = {{"block_M", {"128"}}, {"block_N", {"128"}}, {"threads", {"256"}}};
  auto answer = Recommend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->total_count, 1);
  request.auto_tunables = {"kiln.cluster"};
  answer = Recommend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->total_count, 2);
  request.auto_tunables = {"kiln.instructions"};
  EXPECT_NE(std::string(Recommend(request).status().message()).find("cannot be derived"),
            std::string::npos);
}

TEST(OpenOptions, AreProposedAndStandForPrograms) {
  const lang::Arguments square = {
      {"M", "4096"}, {"N", "4096"}, {"K", "4096"}, {"dtype", "bfloat16"}};
  const lang::Kernel matmul = TemplateKernel("matmul");
  const Recommendation answer = Answer(matmul, square, "sm_90a");
  std::set<std::string> clusters;
  for (size_t i = 0; i < 16; ++i) clusters.insert(answer.ranked[i].fields.at("cluster"));
  EXPECT_EQ(clusters, (std::set<std::string>{"1,1", "1,2"}));
  // What an option leaves as it is has no config of its own, and the rank of the one without it.
  const Config best = *Config::Parse(
      "block_K=64,block_M=128,block_N=128,num_stages=3,panel=8,"
      "threads=256");
  const Config same = best.MergedWith(*Config::Parse("kiln.cluster=2,kiln.persistent=1"));
  ASSERT_GE(answer.space->RankOf(best), 0);
  EXPECT_EQ(answer.space->RankOf(best), answer.space->RankOf(same));
  EXPECT_EQ(answer.space->ConfigAt(answer.space->RankOf(same)), best);
  const Config pairs = best.MergedWith(*Config::Parse("kiln.cluster=1"));
  EXPECT_NE(answer.space->RankOf(pairs), answer.space->RankOf(best));
  EXPECT_EQ(answer.space->ConfigAt(answer.space->RankOf(pairs)), pairs);
  // Too few threads for TMA's warpgroup: nothing changes.
  std::set<std::string> seen;
  for (int64_t r = 0; r < answer.legal_count; ++r) {
    EXPECT_TRUE(seen.insert(answer.space->ConfigAt(r).ToString()).second);
  }
}

}  // namespace
}  // namespace kiln::roofline
