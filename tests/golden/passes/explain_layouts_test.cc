// The stories that ExplainLayouts tells of tests/golden/passes/explain-layouts/NAME.py, as recorded
// in NAME.txt; a line "#: gpu=sm_90a" names the GPU. Run with --update to write the files anew, and
// read the diff.
#include "compiler/passes/explain_layouts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/kernel.h"

namespace kiln {
namespace {

constexpr char kFolder[] = "tests/golden/passes/explain-layouts";
bool update = false;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string Story(const std::filesystem::path& path) {
  auto file = std::make_shared<SourceFile>();
  file->path = path.filename().string();
  file->text = ReadFile(path);
  const auto kernel = lang::Kernel::Parse(file, "");
  if (!kernel.ok()) return absl::StrCat(kernel.status().message(), "\n");
  const auto program = lang::Elaborate(*kernel, {}, {});
  if (!program.ok()) return absl::StrCat(program.status().message(), "\n");
  passes::PassContext context;
  target::Arch gpu;
  constexpr absl::string_view kGpu = "#: gpu=";
  for (const absl::string_view line : absl::StrSplit(file->text, '\n')) {
    if (!absl::StartsWith(line, kGpu)) continue;
    gpu = *target::NamedArch(line.substr(kGpu.size()));
    context.gpu = &gpu;
  }
  const auto story = passes::ExplainLayouts(*program, passes::LayoutCost::kTraffic, context);
  return story.ok() ? *story : absl::StrCat(story.status().message(), "\n");
}

TEST(ExplainLayoutsGolden, StoriesAreAsRecorded) {
  int stories = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".py") continue;
    ++stories;
    const std::string actual = Story(entry.path());
    std::filesystem::path golden = entry.path();
    golden.replace_extension(".txt");
    if (update) {
      std::ofstream(golden) << actual;
      continue;
    }
    EXPECT_EQ(actual, ReadFile(golden)) << entry.path() << ": run with --update";
  }
  EXPECT_GE(stories, 4);
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
