#include "tests/util/everywhere.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/compiled_program.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln::testing {
namespace {

using Fill = std::function<void(const Views&)>;
using Check = std::function<void(const Views&, const std::string&)>;

std::vector<interp::Tensor> Arguments(const ir::Program& program, const Fill& fill, Views* views) {
  std::vector<interp::Tensor> tensors = *interp::RandomArguments(program, {}, 7);
  for (const interp::Tensor& t : tensors) views->push_back(t.View());
  fill(*views);
  return tensors;
}

void Interpret(const ir::Program& program, bool tiles, interp::Order order, const Fill& fill,
               const Check& check, const std::string& where, bool meet = false) {
  Views views;
  const std::vector<interp::Tensor> tensors = Arguments(program, fill, &views);
  interp::Options options;
  options.clip_global = tiles;
  options.order = order;
  options.meet_at_barriers = meet;
  options.print = [](const std::string&) {};
  const auto ran = interp::Run(program, views, options);
  ASSERT_TRUE(ran.ok()) << where << ": " << ran.status() << "\n" << ir::ToString(program);
  check(views, where);
}

void Assemble(const std::string& text, const char* arch) {
  codegen::CompileInput input;
  input.kernel_source = text;
  input.kernel_path = "k.py";
  input.entry = "kernel";
  input.arch_record = target::ToText(*target::NamedArch(arch));
  const auto ptx = codegen::EmitStage(input, "asm");
  ASSERT_TRUE(ptx.ok()) << arch << ": " << ptx.status() << "\n" << text;
  if (!codegen::AssemblerVersion().ok()) return;
  const auto cubin = codegen::Assemble(*ptx, arch);
  EXPECT_TRUE(cubin.ok()) << arch << ": " << cubin.status() << "\n" << text;
}

// Where the hardware has clusters, which share memory there: nothing else has changed for others.
void InClusters(const std::string& text, const Fill& fill, const Check& check) {
  auto file = std::make_shared<SourceFile>();
  file->path = "k.py";
  file->text = text;
  const auto kernel = lang::Kernel::Parse(file, "kernel");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const char* arch : {"sm_90a", "sm_100a"}) {
    const auto program = lang::Elaborate(*kernel, {}, {}, lang::FactsOf(*target::NamedArch(arch)));
    ASSERT_TRUE(program.ok()) << program.status();
    bool shares = false;
    ir::Walk(program->body, [&](const ir::Stmt& s) {
      const auto* launch = s.As<ir::Launch>();
      shares |= launch != nullptr && launch->annotations.count(ir::kSharesMemory) > 0;
      return true;
    });
    if (!shares) return;
    const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
    ASSERT_TRUE(threads.ok()) << threads.status();
    const auto instructions = Instructions(*program, arch, /*cores=*/2);
    ASSERT_TRUE(instructions.ok()) << arch << ": " << instructions.status();
    for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
      Interpret(*program, true, order, fill, check, "tiles of clusters");
      Interpret(*threads, false, order, fill, check, "threads of clusters");
      Interpret(*instructions, false, order, fill, check, absl::StrCat("clusters of ", arch), true);
    }
    Assemble(text, arch);
  }
}

}  // namespace

std::string KernelText(const std::string& parameters, const std::string& body, int threads,
                       const std::string& blocks) {
  return absl::StrCat(
      "import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\ndef kernel(", parameters,
      "):\n    with T.Kernel(", blocks, ", threads=", threads, ") as bx:\n        ",
      absl::StrReplaceAll(body, {{"\n", "\n        "}}), "\n");
}

void RunEverywhere(const std::string& text, const Fill& fill, const Check& check,
                   Everywhere where) {
  SCOPED_TRACE(text);
  const auto program = Elaborated("k.py", text);
  ASSERT_TRUE(program.ok()) << program.status();
  Interpret(*program, true, interp::Order::kForward, fill, check, "tiles");
  if (where.native) {
    for (const int bits : {0, 256}) {
      const auto compiled = CompiledProgram::Compile(*program, bits);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      Views views;
      const std::vector<interp::Tensor> tensors = Arguments(*program, fill, &views);
      std::vector<void*> pointers;
      for (const interp::Tensor& t : tensors) pointers.push_back(t.data());
      ASSERT_EQ(compiled->Run(pointers), 0);
      check(views, absl::StrCat("machine code of ", bits, " bits"));
    }
  }
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
  ASSERT_TRUE(threads.ok()) << threads.status();
  for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
    Interpret(*threads, false, order, fill, check, "threads");
  }
  if (!where.gpu) return;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const auto instructions = Instructions(*program, arch, /*cores=*/2);
    ASSERT_TRUE(instructions.ok()) << arch << ": " << instructions.status();
    for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
      Interpret(*instructions, false, order, fill, check, arch);
    }
    Assemble(text, arch);
  }
  InClusters(text, fill, check);
}

}  // namespace kiln::testing
