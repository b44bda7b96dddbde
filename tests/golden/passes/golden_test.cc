// Each pass on a kernel made for it. Each tests/golden/passes/NAME.py opens with a sentence and
//   #: pass=NAME a=1
// and NAME.txt holds the program as it is after that pass (512-bit vectors, and AMX where the line
// says amx; for passes of the GPU alone sm_90a, or what the line says as gpu=NAME). Run with
// --update to write the files anew, and read the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/pipeline.h"

namespace kiln {
namespace {

constexpr char kFolder[] = "tests/golden/passes/";
bool update = false;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool Has(const std::vector<passes::Pass>& pipeline, absl::string_view name) {
  return std::any_of(pipeline.begin(), pipeline.end(),
                     [&](const passes::Pass& pass) { return pass.name == name; });
}

const std::vector<passes::Pass>& PipelineOf(absl::string_view pass) {
  for (const auto* pipeline : {&passes::CpuPipeline(), &passes::ThreadPipeline()}) {
    if (Has(*pipeline, pass)) return *pipeline;
  }
  return passes::GpuPipeline();
}

std::string RunCase(const std::shared_ptr<const SourceFile>& file, absl::string_view line,
                    const std::string& pass) {
  lang::Arguments arguments;
  passes::PassContext context;
  lang::TargetFacts facts;
  target::Arch gpu = *target::NamedArch("sm_90a");
  if (!Has(passes::CpuPipeline(), pass) && !Has(passes::ThreadPipeline(), pass)) {
    context.gpu = &gpu;
    context.instruct = true;
  }
  for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    context.amx_bf16 |= word == "amx";
    const size_t equal = word.find('=');
    if (equal == absl::string_view::npos) continue;
    if (word.substr(0, equal) == "gpu") {
      gpu = *target::NamedArch(word.substr(equal + 1));
      facts = lang::FactsOf(gpu);
      continue;
    }
    arguments[std::string(word.substr(0, equal))] = std::string(word.substr(equal + 1));
  }
  const auto kernel = lang::Kernel::Parse(file, "");
  if (!kernel.ok()) return absl::StrCat(kernel.status().message(), "\n");
  const auto program = lang::Elaborate(*kernel, arguments, {}, facts);
  if (!program.ok()) return absl::StrCat(program.status().message(), "\n");
  const auto lowered = passes::RunPipeline(PipelineOf(pass), *program, context, pass);
  return lowered.ok() ? ir::ToString(*lowered) : absl::StrCat(lowered.status().message(), "\n");
}

TEST(PassGolden, EveryPassHasOneAndIsAsRecorded) {
  std::vector<std::string> names;
  for (const auto* pipeline :
       {&passes::CpuPipeline(), &passes::ThreadPipeline(), &passes::GpuPipeline()}) {
    for (const passes::Pass& pass : *pipeline) {
      if (std::find(names.begin(), names.end(), pass.name) == names.end()) {
        names.push_back(pass.name);
      }
    }
  }
  for (const std::string& name : names) {
    auto file = std::make_shared<SourceFile>();
    file->path = name + ".py";
    file->text = ReadFile(absl::StrCat(kFolder, name, ".py"));
    std::string actual;
    for (absl::string_view line : absl::StrSplit(file->text, '\n')) {
      if (!absl::StartsWith(line, "#:")) continue;
      absl::StrAppend(&actual, line, "\n", RunCase(file, line.substr(2), name));
    }
    EXPECT_FALSE(actual.empty()) << name << ".py is missing or states no case";
    const std::string golden = absl::StrCat(kFolder, name, ".txt");
    if (update) {
      std::ofstream(golden) << actual;
      continue;
    }
    EXPECT_EQ(actual, ReadFile(golden)) << name << ": run pass_golden_test --update";
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (absl::string_view(argv[i]) == "--update") kiln::update = true;
  }
  return RUN_ALL_TESTS();
}
