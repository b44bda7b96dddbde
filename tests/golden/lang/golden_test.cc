// Kernel text to program text. Each tests/golden/lang/NAME.py states its cases in leading comments,
//   #: entry=NAME a=1 b="x" open:block_M,threads
// and NAME.txt holds the program of each. `lang_golden_test --update` writes the files anew.
#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/kernel.h"
#include "gtest/gtest.h"

namespace kiln::lang {
namespace {

constexpr char kFolder[] = "tests/golden/lang/";
bool update = false;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> KernelFiles() {
  std::vector<std::string> names;
  DIR* folder = opendir(kFolder);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (absl::EndsWith(name, ".py")) names.push_back(name.substr(0, name.size() - 3));
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

// A GPU of 4 SMs.
TargetFacts Target() {
  TargetFacts facts;
  facts.cores = 4;
  facts.gpu = true;
  facts.major = 9;
  facts.name = "a GPU";
  return facts;
}

std::string RunCase(const std::shared_ptr<const SourceFile>& file, absl::string_view line) {
  std::string entry;
  Arguments arguments;
  std::vector<std::string> open;
  for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    if (absl::StartsWith(word, "open:")) {
      open = absl::StrSplit(word.substr(5), ',');
      continue;
    }
    const size_t equal = word.find('=');
    const std::string name(word.substr(0, equal)), value(word.substr(equal + 1));
    if (name == "entry") {
      entry = value;
    } else {
      arguments[name] = value;
    }
  }
  const auto kernel = Kernel::Parse(file, entry);
  if (!kernel.ok()) return absl::StrCat(kernel.status().message(), "\n");
  if (open.empty()) {
    const auto program = Elaborate(*kernel, arguments, {}, Target());
    if (!program.ok()) return absl::StrCat(program.status().message(), "\n");
    return ir::ToString(*program);
  }
  const auto result = ElaborateOpen(*kernel, arguments, {}, open, Target());
  if (!result.ok()) return absl::StrCat(result.status().message(), "\n");
  if (result->needs) {
    return absl::StrCat("needs ", absl::StrJoin(result->needs->tunables, ", "), " at line ",
                        result->needs->loc.line, ": ", result->needs->why, "\n");
  }
  std::string text = ir::ToString(result->program->program);
  for (const ir::Expr& constraint : result->program->constraints) {
    absl::StrAppend(&text, "constraint ", ir::ToString(constraint), "\n");
  }
  return text;
}

TEST(LangGolden, ProgramsAreAsRecorded) {
  const std::vector<std::string> names = KernelFiles();
  ASSERT_GE(names.size(), 14u);
  for (const std::string& name : names) {
    auto file = std::make_shared<SourceFile>();
    file->path = name + ".py";
    file->text = ReadFile(kFolder + name + ".py");
    std::string actual;
    int cases = 0;
    for (absl::string_view line : absl::StrSplit(file->text, '\n')) {
      if (!absl::StartsWith(line, "#:")) continue;
      ++cases;
      absl::StrAppend(&actual, cases > 1 ? "\n" : "", line, "\n", RunCase(file, line.substr(2)));
    }
    EXPECT_GT(cases, 0) << name << ".py states no case";
    const std::string golden = kFolder + name + ".txt";
    if (update) {
      std::ofstream(golden) << actual;
      continue;
    }
    EXPECT_EQ(actual, ReadFile(golden))
        << name << ": run lang_golden_test --update and read the diff";
  }
}

TEST(LangGolden, ElaborationIsDeterministic) {
  for (const std::string& name : KernelFiles()) {
    auto file = std::make_shared<SourceFile>();
    file->path = name + ".py";
    file->text = ReadFile(kFolder + name + ".py");
    for (absl::string_view line : absl::StrSplit(file->text, '\n')) {
      if (!absl::StartsWith(line, "#:")) continue;
      EXPECT_EQ(RunCase(file, line.substr(2)), RunCase(file, line.substr(2))) << name;
    }
  }
}

}  // namespace
}  // namespace kiln::lang

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (absl::string_view(argv[i]) == "--update") kiln::lang::update = true;
  }
  return RUN_ALL_TESTS();
}
