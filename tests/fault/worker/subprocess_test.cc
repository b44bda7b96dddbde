// The killable child: framing, limits, floods, deadlines, and that nothing is left behind.
#include "compiler/base/subprocess.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/fault/worker/paths.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Subprocess::Clock::time_point In(milliseconds time) { return Subprocess::Clock::now() + time; }

SubprocessOptions EchoOptions() {
  SubprocessOptions options;
  options.argv = {worker::FakeChildPath(), "echo"};
  return options;
}

std::unique_ptr<Subprocess> Echo(const SubprocessOptions& options = EchoOptions()) {
  absl::StatusOr<std::unique_ptr<Subprocess>> child = Subprocess::Spawn(options);
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

bool HasChildren() { return ::waitpid(-1, nullptr, WNOHANG) >= 0; }

TEST(SubprocessTest, FramesOfAllSizesComeBackUnchanged) {
  std::unique_ptr<Subprocess> child = Echo();
  for (size_t size : {size_t{0}, size_t{1}, size_t{255}, size_t{65536}, size_t{9} << 20}) {
    std::string frame(size, 'k');
    for (size_t i = 0; i < size; ++i) frame[i] = static_cast<char>(i * 31);
    // Both directions at once would need a reader here; the child reads all before it answers.
    ASSERT_TRUE(child->Send(frame, In(seconds(20))).ok());
    absl::StatusOr<std::string> back = child->Receive(In(seconds(20)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, frame);
  }
  EXPECT_TRUE(child->CloseAndWait(In(seconds(5))));
  EXPECT_EQ(child->Kill().ToString(), "exit code 0");
  EXPECT_FALSE(HasChildren());
}

TEST(SubprocessTest, DeadlineAndInterruptEndAWait) {
  std::unique_ptr<Subprocess> child = Echo();
  ASSERT_TRUE(child->Send("hang", In(seconds(5))).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(child->Receive(In(milliseconds(50))).status()));
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(50));
    child->Interrupt();
  });
  EXPECT_TRUE(absl::IsCancelled(child->Receive(In(seconds(20))).status()));
  other.join();
  ExitStatus status = child->Kill();
  EXPECT_TRUE(status.signalled);
  EXPECT_EQ(status.code, SIGKILL);
  EXPECT_FALSE(HasChildren());
}

TEST(SubprocessTest, ACrashIsToldWithSignalAndLastWords) {
  std::unique_ptr<Subprocess> child = Echo();
  ASSERT_TRUE(child->Send("crash", In(seconds(5))).ok());
  EXPECT_TRUE(absl::IsUnavailable(child->Receive(In(seconds(20))).status()));
  ASSERT_TRUE(child->WaitExit(In(seconds(5))).has_value());
  EXPECT_EQ(child->Kill().ToString(), "signal 11 (Segmentation fault)");
  std::string output = child->TakeOutput();
  EXPECT_NE(output.find("about to crash"), std::string::npos);
#ifndef KILN_SANITIZER  // which has handlers of its own
  EXPECT_NE(output.find("fatal signal 11 at address 0x10"), std::string::npos) << output;
#endif
}

TEST(SubprocessTest, AFloodOfStderrNeitherBlocksNorGrows) {
  SubprocessOptions options = EchoOptions();
  options.output_head_bytes = 100;
  options.output_tail_bytes = 100;
  std::unique_ptr<Subprocess> child = Echo(options);
  ASSERT_TRUE(child->Send("flood", In(seconds(5))).ok());
  absl::StatusOr<std::string> back = child->Receive(In(seconds(30)));
  ASSERT_TRUE(back.ok()) << back.status();
  child->CloseAndWait(In(seconds(5)));
  std::string output = child->TakeOutput();
  EXPECT_LT(output.size(), 400u);
  EXPECT_NE(output.find("last words"), std::string::npos);
  EXPECT_NE(output.find("bytes left out"), std::string::npos);
}

TEST(SubprocessTest, AnEndlessFloodStillMeetsTheDeadline) {
  std::unique_ptr<Subprocess> child = Echo();
  ASSERT_TRUE(child->Send("flood_hang", In(seconds(5))).ok());
  auto begin = Subprocess::Clock::now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(child->Receive(In(milliseconds(300))).status()));
  EXPECT_LT(Subprocess::Clock::now() - begin, seconds(5));
  child->Kill();
  EXPECT_LT(child->TakeOutput().size(), size_t{300} << 10);
}

TEST(SubprocessTest, TruncatedAndOversizeFramesAreDataLoss) {
  for (const char* act : {"truncate", "oversize"}) {
    std::unique_ptr<Subprocess> child = Echo();
    ASSERT_TRUE(child->Send(act, In(seconds(5))).ok());
    absl::Status status = child->Receive(In(seconds(20))).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << act << ": " << status;
  }
  EXPECT_FALSE(HasChildren());
}

#ifndef KILN_SANITIZER
TEST(SubprocessTest, TheMemoryLimitEndsTheChildWithItsOwnCode) {
  SubprocessOptions options = EchoOptions();
  options.memory_bytes = int64_t{512} << 20;
  std::unique_ptr<Subprocess> child = Echo(options);
  ASSERT_TRUE(child->Send("bomb", In(seconds(5))).ok());
  EXPECT_TRUE(absl::IsUnavailable(child->Receive(In(seconds(60))).status()));
  std::optional<ExitStatus> status = child->WaitExit(In(seconds(5)));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code, kOutOfMemoryExitCode) << status->ToString();
  EXPECT_FALSE(status->signalled);
}
#endif

TEST(SubprocessTest, NoSecretOfTheParentReachesTheChild) {
  ::setenv("KILN_TEST_SECRET", "token", 1);
  std::unique_ptr<Subprocess> child = Echo();
  ASSERT_TRUE(child->Send("environment", In(seconds(5))).ok());
  absl::StatusOr<std::string> answer = child->Receive(In(seconds(20)));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, "clean");
}

TEST(SubprocessTest, AMissingBinaryIsAnErrorAndNotAChild) {
  SubprocessOptions options;
  options.argv = {"/nonexistent/kiln-nothing"};
  absl::Status status = Subprocess::Spawn(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("/nonexistent/kiln-nothing"), absl::string_view::npos);
  EXPECT_FALSE(HasChildren());
}

TEST(SubprocessTest, GrandchildrenDieWithTheGroup) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::unique_ptr<Subprocess> child = Echo();
  pid_t group = child->pid();
  ASSERT_TRUE(child->Send("orphan", In(seconds(5))).ok());
  EXPECT_FALSE(child->Receive(In(seconds(20))).ok());
  child->Kill();
  EXPECT_EQ(::kill(-group, 0), -1) << "somebody of the group still lives";
  EXPECT_EQ(errno, ESRCH);
  EXPECT_FALSE(HasChildren());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(SubprocessTest, TheChildDiesWithTheThreadThatStartedIt) {
  pid_t pid = -1;
  std::unique_ptr<Subprocess> child;
  std::thread starter([&] {
    child = Echo();
    pid = child->pid();
    ASSERT_TRUE(child->Send("x", In(seconds(5))).ok());
    ASSERT_TRUE(child->Receive(In(seconds(20))).ok());  // so its death signal is armed
  });
  starter.join();
  EXPECT_TRUE(child->WaitExit(In(seconds(5))).has_value()) << pid;
}

}  // namespace
}  // namespace kiln
