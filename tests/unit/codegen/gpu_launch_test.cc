// What GPU artifacts do at run time (codegen/runtime/gpu_runtime.c), on a driver that counts: what
// is asked of it once is kept, and what is kept is right.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "compiler/codegen/runtime/kiln_launch.h"

extern "C" {
#include "compiler/codegen/runtime/gpu_launch.h"
int32_t kiln_gpu_run(const kiln_launch* launch, kiln_image* image, kiln_kernel* kernel,
                     int64_t blocks, uint64_t* slots, const kiln_tensor_map* maps);
void* stand_in_dlopen(const char*, int);
void* stand_in_dlsym(void*, const char* name);
}

namespace kiln {
namespace {

struct TensorMap {
  uint64_t words[16];
};
// The stand-in's encoding: what it was made of, where a launch can read it.
TensorMap Encoding(uint64_t address, uint64_t extent, uint32_t box) {
  return {{address, extent, box}};
}

struct Driver {
  std::atomic<int> loads{0}, functions{0}, attributes{0}, encodings{0}, launches{0}, wrong{0};
  std::atomic<int> doubled{0};  // encodings that ask L2 for two lines at once
  std::atomic<int> device{0}, refuse{0}, lack{0};
} driver;
constexpr int kMaps = 2;

int Ok() { return 0; }
int GetContext(void** context) { return *context = &driver, 0; }
int GetDevice(int* device) { return *device = driver.device, 0; }
int Load(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  ++driver.loads;
  return *library = &driver, 0;
}
int GetKernel(void** kernel, void*, const char* name) {
  ++driver.functions;
  if (driver.lack) return 500;  // CUDA_ERROR_NOT_FOUND
  return *kernel = const_cast<char*>(name), 0;
}
int SetAttribute(int, int, void*, int) {
  ++driver.attributes;
  return driver.refuse;
}
int Encode(TensorMap* out, int, uint32_t, void* address, const uint64_t* extents, const uint64_t*,
           const uint32_t* box, const uint32_t*, int, int, int promotion, int) {
  ++driver.encodings;
  driver.doubled += promotion == 3;  // CU_TENSOR_MAP_L2_PROMOTION_L2_256B
  if (driver.refuse) return 1;
  *out = Encoding(reinterpret_cast<uint64_t>(address), extents[0], box[0]);
  return 0;
}
// Parameters: the first map's address and extent, then the maps themselves.
int Launch(const void*, void*, void** parameters, void**) {
  ++driver.launches;
  const uint64_t address = *static_cast<uint64_t*>(parameters[0]);
  const uint64_t extent = *static_cast<uint64_t*>(parameters[1]);
  for (int i = 0; i < kMaps; ++i) {
    const TensorMap expected = Encoding(address + i, extent + i, 16);
    driver.wrong += std::memcmp(parameters[2 + i], &expected, sizeof(expected)) != 0;
  }
  return 0;
}

struct Kernel {
  kiln_image image = {"cubin", nullptr};
  kiln_kernel kernel = {"kernel", 128, 100 << 10, 2, kMaps, 1, 0, nullptr, 0};

  int Run(uint64_t address, uint64_t extent = 64) {
    kiln_tensor_map maps[kMaps];
    std::memset(maps, 0, sizeof(maps));
    for (int i = 0; i < kMaps; ++i) {
      maps[i].rank = 2;
      maps[i].bytes = 2;
      maps[i].address = address + i;
      maps[i].extents[0] = extent + i;
      maps[i].extents[1] = 8;
      maps[i].strides[0] = 1;
      maps[i].strides[1] = extent + i;
      maps[i].box[0] = maps[i].box[1] = 16;
    }
    uint64_t slots[2] = {address, extent};
    return kiln_gpu_run(nullptr, &image, &kernel, 1, slots, maps);
  }
};

class GpuLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::atomic<int>* x :
         {&driver.loads, &driver.functions, &driver.attributes, &driver.encodings, &driver.launches,
          &driver.wrong, &driver.doubled, &driver.device, &driver.refuse, &driver.lack}) {
      *x = 0;
    }
  }
};

TEST_F(GpuLaunch, AsksTheDriverOnce) {
  Kernel k;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(k.Run(0x10000), KILN_OK);
  EXPECT_EQ(driver.loads, 1);
  EXPECT_EQ(driver.functions, 1);
  EXPECT_EQ(driver.attributes, 1);
  EXPECT_EQ(driver.encodings, kMaps);
  EXPECT_EQ(driver.launches, 5);
  EXPECT_EQ(driver.wrong, 0);
}

TEST_F(GpuLaunch, OtherTensorsHaveMapsOfTheirOwn) {
  Kernel k;
  for (int turn = 0; turn < 2; ++turn) {
    for (uint64_t i = 1; i <= 1000; ++i) EXPECT_EQ(k.Run(i << 20), KILN_OK);
  }
  EXPECT_EQ(driver.wrong, 0);
  EXPECT_GT(driver.encodings, 1000 * kMaps);  // far more than are kept
}

TEST_F(GpuLaunch, EachDeviceIsAskedForItsSharedMemory) {
  Kernel k;
  for (const int device : {0, 1, 0, 1, 63, 63}) {
    driver.device = device;
    EXPECT_EQ(k.Run(0x20000), KILN_OK);
  }
  EXPECT_EQ(driver.attributes, 3);
  driver.device = 64;  // past those that are kept
  for (int i = 0; i < 2; ++i) EXPECT_EQ(k.Run(0x20000), KILN_OK);
  EXPECT_EQ(driver.attributes, 5);
}

TEST_F(GpuLaunch, TheSameMemoryMayHaveAnotherShape) {
  Kernel k;
  for (const uint64_t extent : {64, 128, 64, 72}) EXPECT_EQ(k.Run(0x40000, extent), KILN_OK);
  EXPECT_EQ(driver.wrong, 0);
  EXPECT_EQ(driver.functions, 1);
}

// Of the two maps the second begins a byte behind the first, and has rows of an element more.
TEST_F(GpuLaunch, L2IsAskedForTwoLinesWhereAllRowsBeginAtSuch) {
  Kernel k;
  EXPECT_EQ(k.Run(0x60000, 128), KILN_OK);
  EXPECT_EQ(driver.doubled, 1);
  EXPECT_EQ(k.Run(0x60000, 136), KILN_OK);  // rows of 272 bytes
  EXPECT_EQ(k.Run(0x60080, 128), KILN_OK);  // the tensor begins at the second line of a block
  EXPECT_EQ(driver.encodings, 3 * kMaps);
  EXPECT_EQ(driver.doubled, 1);
}

TEST_F(GpuLaunch, WhatCouldNotBeEncodedIsNotKept) {
  Kernel k;
  EXPECT_EQ(k.Run(0x30000), KILN_OK);
  driver.refuse = 1;
  EXPECT_EQ(k.Run(0x30000, 80), KILN_ERROR_ARGUMENT);
  EXPECT_EQ(driver.launches, 1);
  driver.refuse = 0;
  for (const uint64_t extent : {80, 64}) EXPECT_EQ(k.Run(0x30000, extent), KILN_OK);
  EXPECT_EQ(driver.wrong, 0);
}

TEST_F(GpuLaunch, WhatTheDriverRefusedIsAskedAgain) {
  Kernel k;
  driver.lack = 1;
  EXPECT_EQ(k.Run(0x50000), KILN_ERROR_DEVICE);
  driver.lack = 0;
  driver.refuse = 1;
  EXPECT_EQ(k.Run(0x50000), KILN_ERROR_UNSUPPORTED);  // its shared memory
  driver.refuse = 0;
  EXPECT_EQ(driver.launches, 0);
  EXPECT_EQ(k.Run(0x50000), KILN_OK);
  EXPECT_EQ(driver.functions, 2);
  EXPECT_EQ(driver.attributes, 2);
}

TEST_F(GpuLaunch, ThreadsMayLaunchTogether) {
  Kernel k;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&k, t] {
      for (uint64_t i = 0; i < 2000; ++i) k.Run((1 + (i + t) % 100) << 20);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(driver.launches, 8000);
  EXPECT_EQ(driver.wrong, 0);
  EXPECT_EQ(driver.loads, 1);
}

}  // namespace
}  // namespace kiln

extern "C" {
void* stand_in_dlopen(const char*, int) { return &kiln::driver; }
void* stand_in_dlsym(void*, const char* name) {
  const auto of = [](auto* f) { return reinterpret_cast<void*>(f); };
  static const auto& known =
      *new std::map<std::string, void*>{{"cuCtxGetCurrent", of(kiln::GetContext)},
                                        {"cuCtxGetDevice", of(kiln::GetDevice)},
                                        {"cuLibraryLoadData", of(kiln::Load)},
                                        {"cuLibraryGetKernel", of(kiln::GetKernel)},
                                        {"cuKernelSetAttribute", of(kiln::SetAttribute)},
                                        {"cuTensorMapEncodeTiled", of(kiln::Encode)},
                                        {"cuLaunchKernelEx", of(kiln::Launch)}};
  const auto found = known.find(name);
  return found != known.end() ? found->second : of(kiln::Ok);
}
}
