#include "compiler/codegen/c_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/arch.h"

namespace kiln::codegen {
namespace {

using ::testing::HasSubstr;

TEST(CNamesTest, KeywordsAndOddLettersAreNoIdentifiers) {
  for (const char* name : {"kiln_matmul", "_x", "integer", "x1", "row_C", "INTS"})
    EXPECT_TRUE(IsCIdentifier(name));
  for (const char* name : {"", "1x", "a-b", "a.b", "é", "int", "register", "xor", "co_yield",
                           "kiln_launch", "NULL", "INT64_MAX", "UINT8_C", "int64_t"}) {
    EXPECT_FALSE(IsCIdentifier(name)) << name;
  }
}

TEST(CNamesTest, ArgumentsStayApart) {
  ArgumentNames names({"launch"});
  EXPECT_EQ(names.Add("A"), "A");
  EXPECT_EQ(names.Add("int_"), "int_");
  EXPECT_EQ(names.Add("int"), "int__");
  EXPECT_EQ(names.Add("_Bool"), "arg_Bool");
  EXPECT_EQ(names.Add("launch"), "launch_");
  EXPECT_EQ(names.Add("launch_"), "launch__");
}

constexpr char kKernel[] = R"(
import tilelang.language as T

@T.prim_func
def launch(register: T.Tensor((64,), "float32"), launch: T.Tensor((64,), "float32"), new: T.int32,
           _Bool: T.int32, INT64_MAX: T.int32, linux: T.int32, int64_t: T.int32, typeof: T.int32,
           NULL: T.int32, void: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as block:
        for i in T.Parallel(64):
            void[i] = register[i] + launch[i] * new
)";

TEST(CNamesTest, AHeaderOfKeywordsCompilesAsCAndAsCpp) {
  CompileInput input;
  input.kernel_source = kKernel;
  input.arch_record = target::ToText(*target::NamedArch("x86-64-v3"));
  const absl::StatusOr<CompileOutput> out = CompileKernel(input);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(out->header, HasSubstr("const void* register_, const void* launch_, void* void_, "
                                     "int64_t new_, int64_t arg_Bool, int64_t INT64_MAX_"));
  EXPECT_THAT(out->header, HasSubstr("int32_t kiln_launch_("));
  EXPECT_THAT(out->header, HasSubstr("register_ (the kernel's register): float32 [64]"));
  const std::string file = ::testing::TempDir() + "kiln_c_names.h";
  std::ofstream(file) << out->header;
  for (const char* language : {"c", "c++"}) {
    const std::string command =
        absl::StrCat("cc -fsyntax-only -Wall -Werror -x ", language, " ", file);
    EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << out->header;
  }
  std::filesystem::remove(file);
}

TEST(CNamesTest, AKeywordIsNoSymbol) {
  CompileInput input;
  input.kernel_source = kKernel;
  input.symbol = "int";
  input.arch_record = target::ToText(*target::NamedArch("x86-64-v3"));
  EXPECT_THAT(std::string(CompileKernel(input).status().message()), HasSubstr("taken by C"));
}

}  // namespace
}  // namespace kiln::codegen
