// Against stand-ins of the driver and of NVML: see tests/util.
#include "worker/profile/gpu_facts.h"

#include <gtest/gtest.h>

namespace kiln::worker {
namespace {

TEST(GpuFacts, MemoryPowerLimitAndDriver) {
  v1::ArchRecord record;
  AddGpuFacts(0, &record);
  EXPECT_EQ(record.memory_bytes(), 150'754'820'096);
  EXPECT_DOUBLE_EQ(record.power_watts(), 699.9);
  EXPECT_EQ(record.driver(), "570.86.15");
}

TEST(GpuFacts, OfADeviceThatIsNotThereOnlyTheDriverIsKnown) {
  v1::ArchRecord record;
  AddGpuFacts(99, &record);
  EXPECT_EQ(record.memory_bytes(), 0);
  EXPECT_EQ(record.power_watts(), 0);
  EXPECT_EQ(record.driver(), "570.86.15");
}

}  // namespace
}  // namespace kiln::worker
