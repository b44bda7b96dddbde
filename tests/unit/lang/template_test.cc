// The kernels that ship with Kiln elaborate, closed and open, in well under a millisecond.
#include <chrono>

#include "compiler/ir/verify.h"
#include "compiler/lang/kernel.h"
#include "compiler/templates/templates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

struct Case {
  const char* name;
  Arguments arguments;
  std::vector<std::string> open;
};

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      {"attention",
       {{"batch", "2"},
        {"heads", "8"},
        {"kv_heads", "2"},
        {"seq_q", "1000"},
        {"seq_kv", "1024"},
        {"dim", "128"},
        {"is_causal", "True"}},
       {"block_M", "block_N", "num_stages", "threads"}},
      {"elementwise", {{"M", "4096"}, {"N", "14336"}}, {"block_M", "block_N", "threads"}},
      {"gemv", {{"N", "6144"}, {"K", "4096"}}, {"block_N", "block_K", "threads"}},
      {"matmul",
       {{"M", "512"}, {"N", "6144"}, {"K", "4096"}},
       {"block_M", "block_N", "block_K", "num_stages", "threads", "panel"}},
      {"matmul_streamk",
       {{"M", "512"}, {"N", "6144"}, {"K", "4096"}},
       {"block_M", "block_N", "block_K", "num_stages", "threads", "blocks"}},
      {"reduction", {{"M", "8192"}, {"N", "8192"}}, {"block_M", "block_N", "threads"}},
      {"rmsnorm", {{"M", "4096"}, {"N", "4096"}}, {"block_M", "threads"}},
      {"softmax", {{"M", "4096"}, {"N", "4096"}}, {"block_M", "threads"}},
  };
  return cases;
}

TEST(Templates, AreListedByName) {
  std::vector<std::string> names;
  for (const KernelTemplate& t : KernelTemplates()) names.emplace_back(t.name);
  EXPECT_THAT(names, testing::ElementsAre(
                         "attention", "attention_decode", "attention_decode_ragged",
                         "attention_ragged", "broadcast", "conv2d", "elementwise", "gemv",
                         "layernorm", "linear", "matmul", "matmul_decode", "matmul_dequant",
                         "matmul_promoted", "matmul_splitk", "matmul_streamk", "reduction",
                         "reduction_all", "reduction_columns", "rmsnorm", "softmax", "transpose"));
  EXPECT_EQ(FindKernelTemplate("nothing"), nullptr);
  EXPECT_EQ(FindKernelTemplate("reduction")->entry, "reduce_rows");
  EXPECT_THAT(std::string(FindKernelTemplate("gemv")->about), testing::HasSubstr("matrix-vector"));
}

TEST(Templates, ElaborateClosed) {
  for (const Case& c : Cases()) {
    const KernelTemplate* t = FindKernelTemplate(c.name);
    ASSERT_NE(t, nullptr) << c.name;
    const auto kernel = Kernel::Parse(TemplateSource(*t), t->entry);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const auto program = Elaborate(*kernel, c.arguments, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_TRUE(ir::Verify(*program).ok());
    EXPECT_EQ(program->name, t->entry);
    EXPECT_TRUE(program->params.back().is_output) << c.name;
  }
}

TEST(Templates, ElaborateOpen) {
  for (const Case& c : Cases()) {
    const KernelTemplate* t = FindKernelTemplate(c.name);
    const auto kernel = Kernel::Parse(TemplateSource(*t), t->entry);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const auto result = ElaborateOpen(*kernel, c.arguments, {}, c.open);
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_FALSE(result->needs.has_value()) << c.name << ": " << result->needs->why;
    EXPECT_EQ(result->program->tunables.size(), c.open.size());
    const std::string text = ir::ToString(result->program->program);
    EXPECT_THAT(text, testing::HasSubstr("block_")) << text;
  }
}

TEST(Templates, ElaborationIsFast) {
  for (const Case& c : Cases()) {
    const KernelTemplate* t = FindKernelTemplate(c.name);
    const auto kernel = Kernel::Parse(TemplateSource(*t), t->entry);
    ASSERT_TRUE(kernel.ok());
    for (const bool open : {false, true}) {
      const auto start = std::chrono::steady_clock::now();
      constexpr int kRounds = 50;
      for (int i = 0; i < kRounds; ++i) {
        if (open) {
          ASSERT_TRUE(ElaborateOpen(*kernel, c.arguments, {}, c.open).ok());
        } else {
          ASSERT_TRUE(Elaborate(*kernel, c.arguments, {}).ok());
        }
      }
      const double us =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count() /
          kRounds;
      std::cout << c.name << (open ? " open " : " closed ") << us << " us\n";
      EXPECT_LT(us, 5000) << c.name;  // sanitizers and a busy machine included
    }
  }
}

}  // namespace
}  // namespace kiln::lang
