// Every kernel of tests/golden/lang, compiled for this machine and run, against the interpreter on
// the same random tensors: flash attention, split-K, convolutions, gathers, scans, dequantisation.
// What the interpreter refuses (kernels that are there for the front end alone) is named here, with
// its reason.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/codegen/compile.h"
#include "compiler/interp/interp.h"
#include "compiler/lang/kernel.h"
#include "compiler/target/host_arch.h"
#include "compiler/tools/native_call.h"

namespace kiln {
namespace {

constexpr char kFolder[] = "tests/golden/lang/";
constexpr int64_t kRuntimeValue = 45;  // of every run-time dimension and scalar

struct Case {
  std::string file;
  std::string line;
  std::string entry;
  lang::Arguments arguments;
  bool open = false;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Case ParseCase(const std::string& file, absl::string_view line) {
  Case c;
  c.file = file;
  c.line = std::string(line);
  for (absl::string_view word : absl::StrSplit(line.substr(2), ' ', absl::SkipEmpty())) {
    c.open |= absl::StartsWith(word, "open:");
    const size_t equal = word.find('=');
    if (equal == absl::string_view::npos) continue;
    const std::string name(word.substr(0, equal)), value(word.substr(equal + 1));
    if (name == "entry") {
      c.entry = value;
    } else {
      c.arguments[name] = value;
    }
  }
  return c;
}

std::vector<Case> Cases() {
  std::vector<std::string> files;
  DIR* folder = opendir(kFolder);
  while (const dirent* entry = folder ? readdir(folder) : nullptr) {
    if (absl::EndsWith(entry->d_name, ".py")) files.push_back(entry->d_name);
  }
  if (folder != nullptr) closedir(folder);
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const std::string& file : files) {
    const std::string text = ReadFile(kFolder + file);
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::StartsWith(line, "#:")) continue;
      Case c = ParseCase(file, line);
      if (!c.open) cases.push_back(std::move(c));
    }
  }
  return cases;
}

interp::Options OptionsFor(const ir::Program& program) {
  interp::Options options;
  options.clip_global = true;
  options.detect_uninitialised = false;  // outputs that accumulate start from the same pattern
  for (const ir::Expr& dim : program.dims) {
    options.dims[dim.As<ir::Var>()->name] = kRuntimeValue;
  }
  for (const ir::Param& p : program.params) {
    if (p.kind == ir::Param::kScalar) options.scalars[p.name] = kRuntimeValue;
  }
  return options;
}

// Part of a case's file and line -> part of the interpreter's error.
const std::map<std::string, std::string>& Refused() {
  static const std::map<std::string, std::string> refused = {
      {"control_flow.py entry=branches", "both write 'y[1, 0]'"},
      {"macros.py entry=several", "write and read 'A[1]'"},
  };
  return refused;
}

std::string RefusalOf(const Case& c) {
  const std::string name = absl::StrCat(c.file, c.line.substr(2));
  for (const auto& [part, why] : Refused()) {
    if (absl::StrContains(name, part)) return why;
  }
  return "";
}

class KernelsTest : public ::testing::TestWithParam<Case> {};

TEST_P(KernelsTest, NativeAgreesWithTheInterpreter) {
  const Case& c = GetParam();
  codegen::CompileInput input;
  input.kernel_source = ReadFile(kFolder + c.file);
  input.kernel_path = c.file;
  input.entry = c.entry;
  input.arguments = c.arguments;
  const auto host = target::DescribeHost();
  ASSERT_TRUE(host.ok());
  input.arch_record = target::ToText(*host);
  const auto file = std::make_shared<const SourceFile>(SourceFile{c.file, input.kernel_source});
  const auto kernel = lang::Kernel::Parse(file, c.entry);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const auto program = lang::Elaborate(*kernel, c.arguments, {}, lang::FactsOf(*host));
  ASSERT_TRUE(program.ok()) << program.status().message();

  const interp::Options options = OptionsFor(*program);
  auto native = interp::RandomArguments(*program, options, 3);
  auto reference = interp::RandomArguments(*program, options, 3);
  ASSERT_TRUE(native.ok()) << native.status().message();
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : *reference) views.push_back(t.View());
  const auto stats = interp::Run(*program, views, options);
  if (const std::string why = RefusalOf(c); !why.empty()) {
    ASSERT_FALSE(stats.ok());
    EXPECT_TRUE(absl::StrContains(stats.status().message(), why)) << stats.status().message();
    return;
  }
  ASSERT_TRUE(stats.ok()) << stats.status().message();

  const auto compiled = codegen::CompileKernel(input);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const auto seconds = tools::CallNative(*compiled, *program, options, *native, 2);
  ASSERT_TRUE(seconds.ok()) << seconds.status().message();
  for (size_t i = 0; i < native->size(); ++i) {
    const interp::Comparison comparison =
        interp::Compare((*native)[i].View(), (*reference)[i].View(),
                        interp::DefaultTolerance((*native)[i].dtype(), 4096));
    EXPECT_TRUE(comparison.ok()) << "tensor " << i << ": "
                                 << comparison.ToString((*native)[i].shape());
  }
}

TEST(KernelCases, ThereAreManyOfThem) { EXPECT_GE(Cases().size(), 25u); }

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  std::string name = absl::StrCat(info.index, "_", info.param.file);
  for (char& ch : name) {
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, KernelsTest, ::testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace kiln
