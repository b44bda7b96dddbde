// kilnc as people call it: what it prints, and how it ends on input that is not what it should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class KilncTest : public ::testing::Test {
 protected:
  KilncTest() : folder_(fs::path(::testing::TempDir()) / absl::StrCat("kilnc_", getpid())) {
    fs::create_directories(folder_);
  }
  ~KilncTest() override { fs::remove_all(folder_); }

  int Kilnc(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::BinaryFolder() + "/kilnc");
    test::Process process(arguments, (folder_ / "log").string());
    const int code = process.Wait(absl::Seconds(60));
    out_ = process.out();
    err_ = process.err();
    return code;
  }
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  fs::path folder_;
  std::string out_, err_;
};

TEST_F(KilncTest, NativeCodeAndThreadsAgreeWithTheInterpreter) {
  for (const std::string level : {"--threads=2", "--on-threads"}) {
    ASSERT_EQ(Kilnc({"run", "template:softmax", "-a", "M=8", "-a", "N=100", level}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("agrees"));
    EXPECT_THAT(out_, HasSubstr(level == "--on-threads" ? "threads:" : "native:"));
  }
}

TEST_F(KilncTest, TheThreadLevelIsPrinted) {
  ASSERT_EQ(
      Kilnc({"emit", "template:elementwise", "-a", "M=64", "-a", "N=64", "--stage", "threads"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("for threads"));
}

TEST_F(KilncTest, WhatIsNoKernelIsRefused) {
  EXPECT_EQ(Kilnc({"check", folder_.string()}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("is a folder"));
  EXPECT_EQ(Kilnc({"check", "/dev/zero"}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("has more than 1048576 bytes"));
  EXPECT_EQ(Kilnc({"check", (folder_ / "missing.py").string()}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("cannot read"));
}

TEST_F(KilncTest, MoreParametersThanCTakesAreRefusedAtOnce) {
  std::string parameters = "x: T.Tensor((8,), \"float32\")";
  for (int i = 0; i < 1000; ++i)
    absl::StrAppend(&parameters, ", y", i, ": T.Tensor((8,), \"float32\")");
  const std::string kernel = File(
      "many.py", absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef f(", parameters,
                              "):\n    with T.Kernel(1) as b:\n        x[0] = 1.0\n"));
  EXPECT_EQ(Kilnc({"run", kernel}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("C calls functions of up to 127"));
}

TEST_F(KilncTest, OutputThatIsLostIsNoSuccess) {
  const std::string command =
      absl::StrCat(test::BinaryFolder(), "/kilnc emit template:softmax -a M=8 -a N=64 > /dev/full");
  test::Process process({"/bin/sh", "-c", command}, (folder_ / "sh").string());
  EXPECT_EQ(process.Wait(absl::Seconds(60)), 1);
  EXPECT_THAT(process.err(), HasSubstr("cannot write the output"));
}

}  // namespace
}  // namespace kiln
