// Where libraries of CUDA are looked for, and what is said where there are none: this process sees
// no driver, no toolkit and no NVML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/cuda_toolkit.h"
#include "worker/profile/cuda_driver.h"
#include "worker/profile/cupti.h"
#include "worker/profile/nvml.h"

namespace kiln::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ToolkitTest : public testing::Test {
 protected:
  ToolkitTest() { ::setenv("KILN_CUDA_PATH", folder_.c_str(), 1); }
  ~ToolkitTest() override {
    ::unsetenv("KILN_CUDA_PATH");
    ::unsetenv("CUDA_HOME");
    fs::remove_all(folder_);
  }
  std::string Make(const std::string& path) {
    const fs::path file = fs::path(folder_) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "";
    return file.string();
  }
  const std::string folder_ = absl::StrCat(testing::TempDir(), "/kiln-toolkit-", ::getpid());
};

TEST_F(ToolkitTest, LibrariesLieAsAToolkitOrTheWheelsLayThemOut) {
  for (const char* path :
       {"lib64/libcupti.so.13", "extras/CUPTI/lib64/libcupti.so.12", "lib/libcupti.so",
        "nvidia/cuda_cupti/lib/libcupti.so.12", "cuda_cupti/lib/libcupti.so.12",
        "nvidia/cu13/lib/libcupti.so.13", "cu13/lib/libcupti.so.13", "libcupti.so.13"}) {
    const std::string file = Make(path);
    EXPECT_EQ(ToolkitLibraries("libcupti", "cuda_cupti").front(), file);
    fs::remove(file);
  }
  const std::string linker = Make("nvidia/nvjitlink/lib/libnvJitLink.so.12");
  EXPECT_EQ(ToolkitLibraries("libnvJitLink", "nvjitlink").front(), linker);
  EXPECT_EQ(ToolkitLibraries("libcupti", "cuda_cupti").back(), "libcupti.so")
      << "last the system's";
}

TEST_F(ToolkitTest, WhatIsNamedIsBeforeWhatIsInstalled) {
  ::setenv("CUDA_HOME", "/opt/elsewhere", 1);
  const std::vector<std::string> folders = ToolkitFolders();
  EXPECT_EQ(folders[0], folder_);
  EXPECT_EQ(folders[1], "/opt/elsewhere");
  EXPECT_EQ(folders[2], "/usr/local/cuda");
  const std::string newer = Make("lib64/libcupti.so.13"), older = Make("lib64/libcupti.so.12");
  const auto found = ToolkitLibraries("libcupti", "cuda_cupti");
  EXPECT_EQ(found[0], newer);
  EXPECT_EQ(found[1], older);
}

TEST_F(ToolkitTest, WhatIsNotThereIsASentenceWithARemedy) {
  const absl::Status cupti = cuda::OpenCupti().status();
  if (!cupti.ok()) {
    EXPECT_THAT(cupti.message(), HasSubstr("no CUPTI (libcupti.so.13 or .12): looked in "));
    EXPECT_THAT(cupti.message(), HasSubstr(folder_));
    EXPECT_THAT(cupti.message(), HasSubstr("set KILN_CUDA_PATH to its folder or to the "));
  }
  const absl::Status nvml = cuda::Monitor::Start("0000:00:00.0").status();
  if (absl::StrContains(nvml.message(), "does not know the device")) GTEST_SKIP() << nvml;
  EXPECT_EQ(nvml.message(),
            "no NVML (libnvidia-ml.so.1, of the driver): clocks, throttling and other processes "
            "are not watched");
}

}  // namespace
}  // namespace kiln::worker
