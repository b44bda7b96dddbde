// Which devices a worker chooses, by what a scripted runner says.
#include "worker/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace kiln::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DevicesTest : public testing::Test {
 protected:
  // A runner that answers --devices with these lines.
  std::string Runner(const std::string& lines) {
    const std::string path = testing::TempDir() + "/runner";
    std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --devices ] || exit 2\ncat <<'END'\n"
                        << lines << "END\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }
};

constexpr char kTwoModels[] =
    "gpu0 sm_90a NVIDIA H200 at 0000:17:00.0\ngpu1 sm_90a NVIDIA H200\n"
    "gpu2 sm_80 NVIDIA A100 at 0000:2A:00.0\n";

TEST_F(DevicesTest, TheCpuNeedsNoRunner) {
  absl::StatusOr<Devices> devices = ChooseDevices("cpu", "/nonexistent");
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(devices->names, ElementsAre("cpu"));
  EXPECT_FALSE(devices->gpus());
}

TEST_F(DevicesTest, AutoTakesAllGpusWhateverTheirModels) {
  for (const char* wanted : {"auto", "gpu"}) {
    absl::StatusOr<Devices> devices = ChooseDevices(wanted, Runner(kTwoModels));
    ASSERT_TRUE(devices.ok()) << devices.status();
    EXPECT_THAT(devices->names, ElementsAre("gpu0", "gpu1", "gpu2"));
    EXPECT_THAT(devices->kinds,
                ElementsAre("sm_90a NVIDIA H200", "sm_90a NVIDIA H200", "sm_80 NVIDIA A100"));
    EXPECT_THAT(devices->places, ElementsAre("0000:17:00.0", "", "0000:2A:00.0"));
    EXPECT_EQ(devices->models(3), 2u);
    EXPECT_EQ(devices->models(2), 1u);
    EXPECT_TRUE(devices->gpus());
  }
}

TEST_F(DevicesTest, WithoutAGpuAutoMeasuresTheCpuAndGpuSaysWhyNot) {
  const std::string runner = Runner("kiln-runner: no CUDA driver: not there\n");
  absl::StatusOr<Devices> devices = ChooseDevices("auto", runner);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(devices->names, ElementsAre("cpu"));
  EXPECT_THAT(devices->notes, HasSubstr("no CUDA driver"));
  devices = ChooseDevices("gpu", runner);
  EXPECT_EQ(devices.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(devices.status().message(), HasSubstr("no CUDA driver"));
}

TEST_F(DevicesTest, NamedGpusMustBeThereAndNamedOnce) {
  absl::StatusOr<Devices> devices = ChooseDevices("gpu1", Runner(kTwoModels));
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(devices->names, ElementsAre("gpu1"));
  EXPECT_THAT(ChooseDevices("gpu1,gpu7", Runner(kTwoModels)).status().message(),
              HasSubstr("no device 'gpu7'"));
  EXPECT_THAT(ChooseDevices("gpu1,gpu1", Runner(kTwoModels)).status().message(),
              HasSubstr("names gpu1 twice"));
  EXPECT_THAT(ChooseDevices("gpu2,gpu1", Runner(kTwoModels))->names, ElementsAre("gpu2", "gpu1"));
  EXPECT_FALSE(ChooseDevices("", Runner(kTwoModels)).ok());
  EXPECT_FALSE(ChooseDevices("gpu", "/nonexistent/runner").ok());
}

TEST_F(DevicesTest, WhatCanBeNoGpuIsNotBlamedOnTheDriver) {
  for (const char* wanted : {"gup", "gpu0,gup", "gpux", "gpu0,", "0", "GPU0", "cpu,gpu0"}) {
    const absl::Status status = ChooseDevices(wanted, "/nonexistent/runner").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wanted;
    EXPECT_THAT(status.message(), HasSubstr("is no GPU: write auto, cpu, gpu")) << wanted;
  }
}

}  // namespace
}  // namespace kiln::worker
