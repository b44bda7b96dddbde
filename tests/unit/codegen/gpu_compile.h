// Shipped templates as GPU code, assembled where the CUDA Toolkit is. Private to these tests.
#ifndef KILN_TESTS_UNIT_CODEGEN_GPU_COMPILE_H_
#define KILN_TESTS_UNIT_CODEGEN_GPU_COMPILE_H_

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"

namespace kiln {

struct Case {
  const char* name;
  std::map<std::string, std::string> arguments;
  const char* config;
};

inline std::map<std::string, std::string> Product(const std::string& type, const std::string& out,
                                                  const std::string& trans_a,
                                                  const std::string& trans_b) {
  return {
      {"M", "256"},         {"N", "256"},
      {"K", "512"},         {"dtype", type},
      {"out_dtype", out},   {"trans_A", trans_a},
      {"trans_B", trans_b}, {"accum_dtype", absl::StrContains(type, "int8") ? "int32" : "float32"}};
}

inline codegen::CompileInput Input(const Case& c, const std::string& arch) {
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

inline std::string Ptx(const Case& c, const std::string& arch) {
  const auto ptx = codegen::EmitStage(Input(c, arch), "asm");
  EXPECT_TRUE(ptx.ok()) << c.name << " " << arch << ": " << ptx.status();
  return ptx.value_or("");
}

// Of a kernel file's text.
inline std::string PtxOf(const std::string& kernel, const std::string& arch) {
  codegen::CompileInput input;
  input.kernel_source = kernel;
  input.kernel_path = "kernel.py";
  input.arch_record = target::ToText(*target::NamedArch(arch));
  const auto ptx = codegen::EmitStage(input, "asm");
  EXPECT_TRUE(ptx.ok()) << arch << ": " << ptx.status() << kernel;
  return ptx.value_or("");
}

inline int CountOf(absl::string_view text, absl::string_view word) {
  int count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

inline void ExpectAssembles(const std::string& what, const std::string& ptx,
                            const std::string& arch) {
  const auto cubin = codegen::Assemble(ptx, arch);
  ASSERT_TRUE(cubin.ok()) << what << " " << arch << ": " << cubin.status();
  EXPECT_EQ(cubin->stack_bytes, 0) << what << " " << arch << ": " << cubin->log;
  EXPECT_EQ(cubin->spill_bytes(), 0) << what << " " << arch << ": " << cubin->log;
  EXPECT_GT(cubin->registers, 0) << cubin->log;
  // Products that the assembler thinks it must run one after the other.
  EXPECT_FALSE(absl::StrContains(cubin->log, "Performance Loss")) << what << ": " << cubin->log;
}

inline void ExpectAssembles(const Case& c, const std::string& arch) {
  ExpectAssembles(c.name, Ptx(c, arch), arch);
}

class GpuAssemble : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto version = codegen::AssemblerVersion(); !version.ok()) {
      GTEST_SKIP() << version.status().message();
    }
  }
};

}  // namespace kiln

#endif  // KILN_TESTS_UNIT_CODEGEN_GPU_COMPILE_H_
