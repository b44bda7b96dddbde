// Templates whose sizes are chosen by each call: one artifact is right at every size, on a CPU and,
// in the interpreter of threads, on GPUs; and what the template's text says of a constant size.
#include "tests/util/left_open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/interp/interp.h"
#include "compiler/target/arch.h"
#include "compiler/target/host_arch.h"
#include "compiler/templates/templates.h"
#include "compiler/tools/native_call.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::LeftOpen;

absl::StatusOr<ir::Program> Elaborate(const LeftOpen& c, const lang::Arguments& arguments,
                                      const target::Arch& arch) {
  const KernelTemplate* shipped = FindKernelTemplate(c.kernel);
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel,
                        lang::Kernel::Parse(TemplateSource(*shipped), shipped->entry));
  KILN_ASSIGN_OR_RETURN(const Config config, Config::Parse(c.config));
  return lang::Elaborate(kernel, arguments, config, lang::FactsOf(arch));
}

absl::StatusOr<codegen::CompileOutput> Compile(const LeftOpen& c, const std::string& arch) {
  const KernelTemplate* shipped = FindKernelTemplate(c.kernel);
  codegen::CompileInput input;
  input.kernel_source = std::string(shipped->source);
  input.kernel_path = absl::StrCat(c.kernel, ".py");
  input.entry = std::string(shipped->entry);
  input.arguments = c.AtRunTime();
  KILN_ASSIGN_OR_RETURN(input.config, Config::Parse(c.config));
  input.arch_record = arch;
  return codegen::CompileKernel(input);
}

// Tensors of the program of constant sizes, and what it makes of them.
struct Expected {
  ir::Program program;
  std::vector<interp::Tensor> tensors;
};

absl::StatusOr<std::vector<interp::Tensor>> Interpret(const ir::Program& program,
                                                      const ir::Program& constant,
                                                      interp::Options options) {
  KILN_ASSIGN_OR_RETURN(std::vector<interp::Tensor> tensors,
                        interp::RandomArguments(constant, {}, 7));
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& tensor : tensors) views.push_back(tensor.View());
  KILN_RETURN_IF_ERROR(interp::Run(program, views, options).status());
  return tensors;
}

absl::StatusOr<Expected> ExpectedAt(const LeftOpen& c, int64_t size, const target::Arch& arch) {
  Expected out;
  KILN_ASSIGN_OR_RETURN(out.program, Elaborate(c, c.At(size), arch));
  interp::Options options;
  options.clip_global = true;
  KILN_ASSIGN_OR_RETURN(out.tensors, Interpret(out.program, out.program, options));
  return out;
}

std::string Difference(const std::vector<interp::Tensor>& got,
                       const std::vector<interp::Tensor>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = want[i].dtype() == kBFloat16 ? 2e-2 : 2e-3;
    const interp::Comparison c = interp::Compare(got[i].View(), want[i].View(), {error, error});
    if (!c.ok()) return absl::StrCat("tensor ", i, ": ", c.ToString(want[i].shape()));
  }
  return "";
}

class TemplateLeftOpen : public ::testing::TestWithParam<LeftOpen> {};

TEST_P(TemplateLeftOpen, OneObjectIsRightAtEverySizeOnACpu) {
  const LeftOpen& c = GetParam();
  const target::Arch host = *target::DescribeHost();
  const auto program = Elaborate(c, c.AtRunTime(), host);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->dims.size(), 1u);
  EXPECT_EQ(program->dims[0].As<ir::Var>()->name, c.dimension);
  const auto compiled = Compile(c, target::ToText(host));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const int64_t size : c.sizes) {
    SCOPED_TRACE(absl::StrCat(c.dimension, "=", size));
    const auto want = ExpectedAt(c, size, host);
    ASSERT_TRUE(want.ok()) << want.status();
    auto tensors = interp::RandomArguments(want->program, {}, 7);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    interp::Options options;
    options.dims[c.dimension] = size;
    const auto seconds = tools::CallNative(*compiled, *program, options, *tensors, 2);
    ASSERT_TRUE(seconds.ok()) << seconds.status();
    EXPECT_EQ(Difference(*tensors, want->tensors), "");
  }
}

TEST_P(TemplateLeftOpen, TheThreadsOfAGpuAreRightAtEverySize) {
  const LeftOpen& c = GetParam();
  target::Arch gpu = *target::NamedArch("sm_90a");
  gpu.cores = 2;
  const auto program = Elaborate(c, c.AtRunTime(), gpu);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto lowered = testing::Instructions(*program, gpu);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (const int64_t size : c.sizes) {
    SCOPED_TRACE(absl::StrCat(c.dimension, "=", size));
    const auto want = ExpectedAt(c, size, gpu);
    ASSERT_TRUE(want.ok()) << want.status();
    interp::Options options;
    options.meet_at_barriers = true;
    options.dims[c.dimension] = size;
    const auto got = Interpret(*lowered, want->program, options);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Difference(*got, want->tensors), "");
  }
}

TEST_P(TemplateLeftOpen, IsAssembled) {
  if (!codegen::AssemblerVersion().ok()) GTEST_SKIP() << "no assembler of GPU code is here";
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const auto compiled = Compile(GetParam(), target::ToText(*target::NamedArch(gpu)));
    EXPECT_TRUE(compiled.ok()) << gpu << ": " << compiled.status();
  }
}

INSTANTIATE_TEST_SUITE_P(All, TemplateLeftOpen, ::testing::ValuesIn(testing::TemplatesLeftOpen()),
                         [](const auto& info) { return info.param.Name(); });

// Leaving rows to run time costs no instruction of the tensor cores and no copy by TMA.
TEST(LeftOpenCode, KeepsTensorCoresAndTma) {
  struct Case {
    LeftOpen kernel;
    int64_t size;
  };
  const lang::Arguments bf16 = {
      {"N", "4096"}, {"K", "4096"}, {"dtype", "bfloat16"}, {"out_dtype", "bfloat16"}};
  const lang::Arguments heads = {{"heads", "8"}, {"kv_heads", "2"}, {"dim", "128"}};
  lang::Arguments queries = heads;
  queries["batch"] = "2";
  lang::Arguments keys = queries;
  keys["is_causal"] = "True";
  lang::Arguments batches = heads;
  batches["seq_q"] = batches["seq_kv"] = "1024";
  const Case cases[] = {
      {{"matmul", "M", bf16, "", {}, {}}, 4096},
      {{"matmul_streamk", "M", bf16, "", {}, {}}, 4096},
      {{"matmul_dequant", "M", {{"N", "4096"}, {"K", "4096"}}, "", {}, {}}, 64},
      {{"conv2d", "N", {{"H", "56"}, {"W", "56"}, {"C", "64"}, {"F", "128"}}, "", {}, {}}, 32},
      {{"attention", "batch", batches, "", {}, {}}, 2},
      {{"attention", "S", queries, "", {}, {"seq_q", "seq_kv"}}, 1000},
      {{"attention", "S", keys, "", {}, {"seq_q", "seq_kv"}}, 1000},
  };
  const target::Arch gpu = *target::NamedArch("sm_90a");
  for (const Case& c : cases) {
    SCOPED_TRACE(c.kernel.Name());
    const auto open = Elaborate(c.kernel, c.kernel.AtRunTime(), gpu);
    ASSERT_TRUE(open.ok()) << open.status();
    const auto constant = Elaborate(c.kernel, c.kernel.At(c.size), gpu);
    ASSERT_TRUE(constant.ok()) << constant.status();
    const auto lowered = testing::Instructions(*open, gpu);
    const auto known = testing::Instructions(*constant, gpu);
    ASSERT_TRUE(lowered.ok() && known.ok()) << lowered.status() << known.status();
    for (const ir::Instruction op : {ir::Instruction::kTensorLoad, ir::Instruction::kTensorStore,
                                     ir::Instruction::kPatchLoad, ir::Instruction::kAsyncCopy}) {
      EXPECT_EQ(testing::Has(*lowered, op), testing::Has(*known, op));
    }
    EXPECT_TRUE(testing::Has(*lowered, ir::Instruction::kTensorLoad));
  }
}

}  // namespace
}  // namespace kiln
