#include "compiler/target/host_arch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace kiln::target {
namespace {

std::string TempDir(const std::string& name) {
  const auto dir = std::filesystem::temp_directory_path() / ("kiln-" + name);
  std::filesystem::remove_all(dir);
  return dir.string();
}

TEST(HostArchTest, LevelsFollowTheirFeatures) {
  EXPECT_EQ(LevelOf({}), "x86-64");
  EXPECT_EQ(LevelOf({"sse4.2", "popcnt"}), "x86-64-v2");
  const std::vector<std::string> v3 = {"sse4.2", "popcnt", "avx", "avx2",  "bmi",
                                       "bmi2",   "f16c",   "fma", "lzcnt", "movbe"};
  EXPECT_EQ(LevelOf(v3), "x86-64-v3");
  auto v4 = v3;
  for (const char* f : {"avx512f", "avx512bw", "avx512cd", "avx512dq"}) v4.push_back(f);
  EXPECT_EQ(LevelOf(v4), "x86-64-v3");  // one short
  v4.push_back("avx512vl");
  EXPECT_EQ(LevelOf(v4), "x86-64-v4");
}

TEST(HostArchTest, CalibratesOncePlausiblyAndCaches) {
  const std::string dir = TempDir("host-arch");
  const auto from = std::chrono::steady_clock::now();
  const auto first = HostArch(dir);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_LT(took.count(), 10.0);  // 2 s on an idle machine
  EXPECT_TRUE(first->calibrated);
  EXPECT_GE(first->cores, 1);
  EXPECT_GT(first->clock_ghz, 0.5);
  EXPECT_LT(first->clock_ghz, 7.0);
  ASSERT_NE(first->FindUnit("fma", kFloat32), nullptr);
  const double peak = first->FindUnit("fma", kFloat32)->core;
  const double bound = 2.0 * first->Lanes(kFloat32) * 4 * 7.0;  // four ports at 7 GHz
  EXPECT_GT(peak, 1.0);
  EXPECT_LT(peak, bound);
  EXPECT_GE(first->l1.read_core, first->dram.read_core);
  EXPECT_GE(first->dram.read_all, first->dram.read_core);
  EXPECT_GT(first->launch_ns, 0);

  const auto again = std::chrono::steady_clock::now();
  const auto second = HostArch(dir);
  const std::chrono::duration<double> cached = std::chrono::steady_clock::now() - again;
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second, *first);  // measured rates would differ in some digit
  EXPECT_LT(cached.count(), 0.1);
  std::filesystem::remove_all(dir);
}

TEST(HostArchTest, ABrokenCacheFileIsMeasuredAgain) {
  const std::string dir = TempDir("host-arch-broken");
  const auto first = HostArch(dir);
  ASSERT_TRUE(first.ok());
  std::filesystem::path file;
  for (const auto& e : std::filesystem::directory_iterator(dir)) file = e.path();
  ASSERT_FALSE(file.empty());
  std::ofstream(file) << "kiln-arch 1\nname = x86-64-v4\ncores = banana\n";
  const auto second = HostArch(dir);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->calibrated);
  EXPECT_EQ(second->name, first->name);
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_TRUE(ParseArch(text).ok()) << text;
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace kiln::target
