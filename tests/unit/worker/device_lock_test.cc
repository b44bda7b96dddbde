// Who may measure on a device, between processes.
#include "worker/profile/device_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace kiln::worker {
namespace {

using testing::HasSubstr;

class DeviceLockTest : public testing::Test {
 protected:
  DeviceLockTest() { std::filesystem::create_directories(folder_); }
  ~DeviceLockTest() override { std::filesystem::remove_all(folder_); }
  absl::StatusOr<DeviceLock> Take(const std::string& id, double seconds = 0) {
    return DeviceLock::Take(folder_, id, "gpu0", seconds);
  }
  // A process that has the lock until it is killed.
  pid_t Holder(const std::string& id) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto lock = Take(id);
      if (lock.ok()) (void)!::write(ready[1], "x", 1);
      ::pause();
      ::_exit(0);
    }
    char said = 0;
    EXPECT_EQ(::read(ready[0], &said, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }
  static void Kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/kiln-locks-", ::getpid());
};

TEST_F(DeviceLockTest, ASecondProcessIsToldWhoHasIt) {
  const pid_t holder = Holder("0000:17:00.0");
  const absl::Status refused = Take("0000:17:00.0").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("gpu0 (0000:17:00.0) is measured on by "));
  EXPECT_THAT(refused.message(),
              HasSubstr(absl::StrCat("process ", holder, " of process ", ::getpid(), ";")));
  EXPECT_THAT(refused.message(), HasSubstr("name other GPUs with --devices"));
  EXPECT_TRUE(Take("0000:18:00.0").ok()) << "another device";
  Kill(holder);
  EXPECT_TRUE(Take("0000:17:00.0").ok()) << "it went with its process";
}

TEST_F(DeviceLockTest, WhoIsAboutToEndIsWaitedFor) {
  const pid_t holder = Holder("0000:17:00.0");
  const pid_t killer = ::fork();
  if (killer == 0) {
    ::usleep(200'000);
    ::kill(holder, SIGKILL);
    ::_exit(0);
  }
  EXPECT_TRUE(Take("0000:17:00.0", 20).ok());
  ::waitpid(killer, nullptr, 0);
  Kill(holder);
}

TEST_F(DeviceLockTest, ItIsHeldUntilItIsLetGo) {
  auto first = Take("0000:17:00.0");
  ASSERT_TRUE(first.ok());
  DeviceLock moved = *std::move(first);
  EXPECT_FALSE(Take("0000:17:00.0").ok());
  { const DeviceLock gone = std::move(moved); }
  EXPECT_TRUE(Take("0000:17:00.0").ok());
}

// Another user's file can only be read; what is no file, or a link, is not followed.
TEST_F(DeviceLockTest, WhatLiesThereAlreadyIsTakenOnlyIfItIsAFile) {
  const std::string path = folder_ + "/kiln-device-0000-17-00.0";
  std::ofstream(path) << "";
  ::chmod(path.c_str(), 0444);
  EXPECT_TRUE(Take("0000:17:00.0").ok());
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/null", path);
  EXPECT_EQ(Take("0000:17:00.0").status().code(), absl::StatusCode::kUnavailable);
  std::filesystem::remove(path);
  std::ofstream(folder_ + "/of somebody") << "";
  std::filesystem::create_symlink(folder_ + "/of somebody", path);
  EXPECT_EQ(Take("0000:17:00.0").status().code(), absl::StatusCode::kUnavailable);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Take("0000:17:00.0").status().message(), HasSubstr("it is no file"));
}

// Whoever makes the file, whatever its umask: all others can lock it.
TEST_F(DeviceLockTest, AnyUserCanLockWhatAnotherMade) {
  const mode_t before = ::umask(0077);
  EXPECT_TRUE(Take("0000:17:00.0").ok());
  ::umask(before);
  struct stat file = {};
  ASSERT_EQ(::stat((folder_ + "/kiln-device-0000-17-00.0").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0444u);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ::chmod(folder_.c_str(), 0755);
  const pid_t other = ::fork();
  if (other == 0) ::_exit(::setuid(65534) == 0 && Take("0000:17:00.0").ok() ? 0 : 1);
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

// A program that the holder starts does not have it.
TEST_F(DeviceLockTest, ItIsNotHandedDownToOtherPrograms) {
  pid_t sleeper = 0;
  {
    const auto lock = Take("0000:17:00.0");
    ASSERT_TRUE(lock.ok());
    sleeper = ::fork();
    if (sleeper == 0) {
      ::execlp("sleep", "sleep", "60", nullptr);
      ::_exit(127);
    }
    EXPECT_FALSE(Take("0000:17:00.0").ok());
    ::usleep(100'000);  // it has begun
  }
  EXPECT_TRUE(Take("0000:17:00.0", 2).ok());
  Kill(sleeper);
}

// Of several locks on this machine the right one's holder is named.
TEST_F(DeviceLockTest, TheHolderOfThisDeviceIsNamed) {
  const pid_t first = Holder("0000:17:00.0");
  const pid_t second = Holder("0000:18:00.0");
  for (const auto& [id, pid] : {std::pair{"0000:17:00.0", first}, {"0000:18:00.0", second}}) {
    EXPECT_THAT(Take(id).status().message(), HasSubstr(absl::StrCat("process ", pid, " of ")));
  }
  Kill(first);
  Kill(second);
}

}  // namespace
}  // namespace kiln::worker
