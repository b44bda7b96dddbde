// What the programs say of themselves: defaults, exit codes, and what is of no use by hand; and
// that the documents name the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct Said {
  int code = 0;
  std::string out, err;
};

Said Call(std::vector<std::string> command) {
  command[0] = absl::StrCat(test::BinaryFolder(), "/", command[0]);
  const std::string log = absl::StrCat(testing::TempDir(), "kiln_help_", getpid());
  test::Process process(command, log);
  Said run;
  run.code = process.Wait(absl::Seconds(30));
  run.out = process.out();
  run.err = process.err();
  return run;
}

// Each option of a help text with all that is said of it, its lines joined.
std::vector<std::string> Options(const std::string& help) {
  std::vector<std::string> options;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    if (absl::StartsWith(line, "  -")) {
      options.emplace_back(absl::StripAsciiWhitespace(line));
      inside = true;
    } else if (inside && absl::StartsWith(line, "      ")) {
      absl::StrAppend(&options.back(), " ", absl::StripAsciiWhitespace(line));
    } else {
      inside = false;
    }
  }
  return options;
}

// "--name TEXT=value  words": the word behind the names is the type; flags have none.
bool TakesValue(const std::string& option) {
  const std::vector<std::string> words = absl::StrSplit(option, ' ', absl::SkipEmpty());
  return words.size() > 1 && words[1].back() != ':' &&
         absl::ascii_isupper(static_cast<unsigned char>(words[1][0])) &&
         (words[1].size() < 2 || absl::ascii_isupper(static_cast<unsigned char>(words[1][1])));
}

bool SaysItsDefault(const std::string& option) {
  const std::vector<std::string> words = absl::StrSplit(option, ' ', absl::SkipEmpty());
  return absl::StrContains(words[1], "=") || absl::StrContains(option, "REQUIRED") ||
         absl::StrContains(option, "default") || absl::StrContains(option, "repeatable");
}

TEST(Help, EveryOptionThatTakesAValueSaysWhatItIsWithoutIt) {
  for (const char* program : {"kiln-worker", "kiln-runner", "kiln-coordinator", "kiln-anchors"}) {
    if (!fs::exists(absl::StrCat(test::BinaryFolder(), "/", program))) continue;
    const Said help = Call({program, "--help"});
    EXPECT_EQ(help.code, 0) << program;
    int found = 0;
    for (const std::string& option : Options(help.out)) {
      if (!TakesValue(option)) continue;
      ++found;
      EXPECT_TRUE(SaysItsDefault(option)) << program << " " << option;
    }
    EXPECT_GT(found, 4) << program << help.out;
  }
}

// A descriptor that is not there is no answer to somebody who asks what the program is for.
TEST(Help, ChildrenSayThatTheyAreOfNoUseByHand) {
  for (const char* program : {"kiln-compile", "kiln-runner"}) {
    if (!fs::exists(absl::StrCat(test::BinaryFolder(), "/", program))) continue;
    const Said help = Call({program, "--help"});
    EXPECT_EQ(help.code, 0) << program;
    EXPECT_THAT(help.out, HasSubstr("kiln-worker")) << program;
    EXPECT_EQ(Call({program, "--version"}).code, 0) << program;
    EXPECT_EQ(Call({program, "--nonsense"}).code, 2) << program;
    const Said alone = Call({program});
    EXPECT_EQ(alone.code, 1) << program;
    EXPECT_THAT(alone.err, HasSubstr("kiln-worker starts this program")) << program;
    EXPECT_THAT(alone.err, Not(HasSubstr("Bad file descriptor"))) << program;
  }
}

// It would be tried for ever.
TEST(Help, AWorkerRefusesWhatIsNoAddress) {
  for (const char* address : {"foo", "foo:", "foo:0", "unix:relative.sock", ":7465"}) {
    const Said refused = Call({"kiln-worker", "--coordinator", address});
    EXPECT_EQ(refused.code, 2) << address;
    EXPECT_THAT(refused.err, HasSubstr("write unix:/absolute/path or host:port")) << address;
  }
}

// "| 3 | not found: ... |" of the document, "  3   not found: ..." of the help.
TEST(Help, AWorkerThatMeasuresNothingRefusesWhatIsNoDevice) {
  const Said refused = Call({"kiln-worker", "--coordinator", "unix:/nonexistent", "--devices",
                             "gup", "--profile-slots", "0"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'gup' of 'gup' is no GPU"));
}

TEST(Help, TunectlListsTheExitCodesOfItsDocument) {
  const std::string help = Call({"tunectl", "--help"}).out;
  const std::string document = test::ReadText("client/README.md");
  const size_t begin = document.find("## Exit codes of tunectl");
  ASSERT_NE(begin, std::string::npos);
  int codes = 0;
  for (const absl::string_view line :
       absl::StrSplit(document.substr(begin, document.find("\n## ", begin + 1) - begin), '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    int code = 0;
    if (cells.size() != 4 || !absl::SimpleAtoi(cells[1], &code)) continue;
    ++codes;
    const std::string text = absl::StrReplaceAll(absl::StripAsciiWhitespace(cells[2]), {{"`", ""}});
    std::string row = absl::StrCat("  ", code);
    row.resize(6, ' ');
    EXPECT_THAT(help, HasSubstr(absl::StrCat("\n", row, text, "\n")));
  }
  EXPECT_EQ(codes, 9);
}

// Options that nobody finds are of no use: each is in a document too.
TEST(Help, DocumentsNameTheOptions) {
  std::string documents;
  for (const char* path :
       {"README.md", "client/README.md", "worker/README.md", "coordinator/README.md",
        "compiler/lang/README.md", "compiler/passes/README.md", "compiler/layout/README.md",
        "compiler/roofline/README.md"}) {
    absl::StrAppend(&documents, test::ReadText(path));
  }
  std::vector<std::vector<std::string>> commands = {
      {"kiln-worker"}, {"kiln-coordinator"}, {"tunectl"}};
  for (const char* command : {"tune", "submit", "watch", "fetch", "lookup", "misses", "bars",
                              "list", "show", "explain", "cancel", "workers", "gc", "backup"}) {
    commands.push_back({"tunectl", command});
  }
  for (const char* command : {"emit", "check", "run"}) commands.push_back({"kilnc", command});
  for (std::vector<std::string>& command : commands) {
    if (!fs::exists(absl::StrCat(test::BinaryFolder(), "/", command[0]))) continue;
    command.push_back("--help");
    for (const std::string& option : Options(Call(command).out)) {
      const std::string names = option.substr(0, option.find(' '));
      const size_t at = names.find("--");
      if (at == std::string::npos) continue;
      const std::string name = names.substr(at);
      if (name == "--help" || name == "--version") continue;
      const bool found = absl::StrContains(documents, absl::StrCat(name, "`")) ||
                         absl::StrContains(documents, absl::StrCat(name, " ")) ||
                         absl::StrContains(documents, absl::StrCat(name, "=")) ||
                         absl::StrContains(documents, absl::StrCat(name, "\n")) ||
                         absl::StrContains(documents, absl::StrCat(name, ",")) ||
                         absl::StrContains(documents, absl::StrCat(name, ")"));
      EXPECT_TRUE(found) << name << " of " << command[0] << " " << command[1]
                         << " is in no document";
    }
  }
}

}  // namespace
}  // namespace kiln
