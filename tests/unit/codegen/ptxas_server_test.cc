// ptxas by forks of one that has started: the same files as by processes of their own, whatever
// happens to the servers.
#include "compiler/codegen/ptxas_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/codegen/compile.h"
#include "compiler/codegen/temporary_folder.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"

namespace kiln::codegen {
namespace {

namespace fs = std::filesystem;

// A file's or a special file's text; empty where there is none.
std::string Text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Processes that this one has started.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::istringstream words(Text(task.path() / "children"));
    for (pid_t pid = 0; words >> pid;) children.push_back(pid);
  }
  return children;
}

std::string Product(const char* arch) {
  const KernelTemplate* shipped = FindKernelTemplate("matmul");
  CompileInput input;
  input.kernel_source = std::string(shipped->source);
  input.kernel_path = "matmul.py";
  input.entry = std::string(shipped->entry);
  for (const char* size : {"M", "N", "K"}) input.arguments[size] = "512";
  input.arch_record = target::ToText(*target::NamedArch(arch));
  absl::StatusOr<std::string> ptx = EmitStage(input, "asm");
  EXPECT_TRUE(ptx.ok()) << ptx.status();
  return ptx.value_or("");
}

// What a run leaves, but for the time that it says it took.
struct Made {
  int status = 0;
  std::string cubin, printed;
  bool operator==(const Made& other) const {
    return status == other.status && cubin == other.cubin && printed == other.printed;
  }
};

class PtxasServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& toolkit : ToolkitFolders()) {
      if (ptxas_.empty() && fs::exists(toolkit + "/bin/ptxas")) ptxas_ = toolkit + "/bin/ptxas";
    }
    if (ptxas_.empty()) GTEST_SKIP() << "no ptxas in CUDA's folders on this machine";
    for (int i = 0; i < 8; ++i) RunOften("");  // from here on a server pays
  }

  PtxasCommand Command(const std::string& path = "") const {
    return {path.empty() ? ptxas_ : path,
            {"-arch=sm_90a", "-O3", "-v", "-o", "kernel.cubin", kPtxasInput}};
  }

  template <typename F>
  Made Run(F run, const std::string& ptx, const PtxasCommand& command) {
    absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
    folder->Write(kPtxasInput, ptx);
    const absl::StatusOr<int> status = run(folder->Path(), command);
    EXPECT_TRUE(status.ok()) << status.status();
    Made made = {status.value_or(-1), folder->Read("kernel.cubin"), ""};
    for (absl::string_view line : absl::StrSplit(folder->Read(kPtxasPrinted), '\n')) {
      if (!absl::StrContains(line, "Compile time")) absl::StrAppend(&made.printed, line, "\n");
    }
    return made;
  }
  Made RunOnce(const std::string& ptx) { return Run(RunPtxasOnce, ptx, Command()); }
  Made RunOften(const std::string& ptx) { return Run(RunPtxasIn, ptx, Command()); }

  std::string ptxas_;
  const std::string product_ = Product("sm_90a");
};

TEST_F(PtxasServerTest, MakesWhatAProcessOfItsOwnMakes) {
  std::string wrong = product_;
  wrong.insert(wrong.rfind("ret;"), "no.such.instruction;\n\t");
  for (const std::string& ptx : {product_, wrong, std::string(), std::string("\0\1", 2)}) {
    const Made once = RunOnce(ptx);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(RunOften(ptx) == once) << once.printed;
    EXPECT_EQ(once.cubin.empty(), ptx != product_);
  }
  EXPECT_THAT(RunOften(wrong).printed, testing::HasSubstr("kernel.ptx, line"));
  EXPECT_EQ(Children().size(), 1);
}

TEST_F(PtxasServerTest, OneForEachThreadAtMost) {
  const Made once = RunOnce(product_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 4; ++k) EXPECT_TRUE(RunOften(product_) == once);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(Children().size(), 1);
  EXPECT_LE(Children().size(), 4);
}

TEST_F(PtxasServerTest, ADeadServerIsReplaced) {
  const Made once = RunOnce(product_);
  RunOften(product_);
  for (int i = 0; i < 3; ++i) {
    const std::vector<pid_t> before = Children();
    ASSERT_FALSE(before.empty());
    for (const pid_t pid : before) ASSERT_EQ(kill(pid, SIGKILL), 0);
    EXPECT_TRUE(RunOften(product_) == once);
    EXPECT_TRUE(RunOften(product_) == once);
    EXPECT_THAT(Children(), testing::SizeIs(testing::Ge(1)));
    EXPECT_THAT(Children(), testing::Not(testing::Contains(before.front())));
  }
}

TEST_F(PtxasServerTest, SaysWhyAFolderCannotBeUsed) {
  RunOften(product_);
  const std::vector<pid_t> before = Children();
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = RunPtxasIn("/no/such/folder", Command()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), testing::HasSubstr("No such file or directory"));
  }
  EXPECT_EQ(Children(), before);
}

// No child of a program that dies is left behind, not even by one that has no time to end them.
TEST_F(PtxasServerTest, EndsWithItsProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t program = fork();
  if (program == 0) {
    RunOften(product_);
    RunOften(product_);
    const std::string told = absl::StrJoin(Children(), " ");
    const bool all = write(ends[1], told.data(), told.size()) == static_cast<ssize_t>(told.size());
    raise(all ? SIGKILL : SIGTERM);
  }
  close(ends[1]);
  int status = 0;
  ASSERT_EQ(waitpid(program, &status, 0), program);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  char told[100] = "";
  ASSERT_GT(read(ends[0], told, sizeof(told) - 1), 0);
  close(ends[0]);
  for (absl::string_view pid : absl::StrSplit(told, ' ')) {
    const std::string name = absl::StrCat("/proc/", pid, "/comm");
    for (int i = 0; i < 500 && Text(name) == "ptxas\n"; ++i) usleep(10000);
    EXPECT_NE(Text(name), "ptxas\n") << pid;
  }
}

// Whoever exits leaves nobody to be reaped.
TEST_F(PtxasServerTest, AnEndingProgramEndsItsServers) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans become ours
  RunOften(product_);
  const std::vector<pid_t> before = Children();
  const pid_t program = fork();
  if (program == 0) {
    RunOften(product_);
    RunOften(product_);
    std::exit(Children().empty() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(program, &status, 0), program);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Children(), before);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(TemporaryFolderTest, WhereThereIsNoPlaceForIt) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  for (const char* place : {"/no/such/folder", "", "/etc/passwd"}) {
    setenv("TMPDIR", place, 1);
    const absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(fs::path(folder->Path()).parent_path(), fs::current_path() / ".");
  }
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

// One that does not open its input as ptxas does, one that ends by a signal, none at all.
TEST_F(PtxasServerTest, OtherProgramsRunAsProcessesOfTheirOwn) {
  absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  folder->Write("copies", "#!/bin/sh\ncp kernel.ptx kernel.cubin\necho done\n");
  folder->Write("dies", "#!/bin/sh\nkill -9 $$\n");
  folder->Write("wraps", absl::StrCat("#!/bin/sh\ncat\nsleep 60 &\nexec ", ptxas_, " \"$@\"\n"));
  for (const char* name : {"copies", "dies", "wraps"})
    fs::permissions(folder->File(name), fs::perms::all);
  const Made once = RunOnce(product_);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Run(RunPtxasIn, product_, Command(folder->File("wraps"))) == once);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  for (int i = 0; i < 3; ++i) {
    const Made copied = Run(RunPtxasIn, "text", Command(folder->File("copies")));
    EXPECT_EQ(copied.status, 0);
    EXPECT_EQ(copied.cubin, "text");
    EXPECT_EQ(copied.printed, "done\n\n");
    const Made dead = Run(RunPtxasIn, "text", Command(folder->File("dies")));
    EXPECT_TRUE(WIFSIGNALED(dead.status) && WTERMSIG(dead.status) == SIGKILL);
    EXPECT_EQ(RunPtxasIn(folder->Path(), Command("/no/such/ptxas")).status().code(),
              absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace kiln::codegen
