// Which cores are kept quiet, on machines that are folders; and that threads go where they are
// sent.
#include "worker/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/affinity.h"

namespace kiln::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CoresTest : public testing::Test {
 protected:
  CoresTest() {
    std::string pattern = testing::TempDir() + "/kiln-cores-XXXXXX";
    system_ = ::mkdtemp(pattern.data());
  }
  ~CoresTest() override { std::filesystem::remove_all(system_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = system_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  // Cores i and i + count / 2 are the hyperthreads of one; the halves of those are two nodes.
  void Machine(int count) {
    for (int i = 0; i < count; ++i) {
      const int low = i % (count / 2);
      Write(absl::StrCat("/devices/system/cpu/cpu", i, "/topology/thread_siblings_list"),
            absl::StrCat(low, ",", low + count / 2));
    }
  }
  void Gpu(const std::string& place, const std::string& cores) {
    Write(absl::StrCat("/bus/pci/devices/", place, "/local_cpulist"), cores);
  }
  static std::vector<int> Cores(int count) {
    std::vector<int> cores(static_cast<size_t>(count));
    std::iota(cores.begin(), cores.end(), 0);
    return cores;
  }
  QuietCores Plan(const std::string& wanted, const std::vector<std::string>& places, int count) {
    absl::StatusOr<QuietCores> plan = PlanCores(wanted, places, Cores(count), system_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : QuietCores();
  }
  std::string system_;
};

TEST_F(CoresTest, EachGpuGetsACoreOfItsNodeAndNothingRunsOnItsHyperthread) {
  Machine(16);
  Gpu("0000:0a:00.0", "0-3,8-11");
  Gpu("0000:1b:00.0", "4-7,12-15");
  const QuietCores plan = Plan("auto", {"0000:0A:00.0", "0000:1B:00.0"}, 16);
  EXPECT_THAT(plan.measuring, ElementsAre(11, 15));
  EXPECT_THAT(plan.others, ElementsAre(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14));
  EXPECT_EQ(plan.notes, "measuring on 11,15, all else on 0-2,4-6,8-10,12-14");
  // Two of one node have different cores, not hyperthreads of one.
  EXPECT_THAT(Plan("auto", {"0000:0a:00.0", "0000:0a:00.0"}, 16).measuring, ElementsAre(11, 10));
}

TEST_F(CoresTest, WhereTheSystemTellsNothingAnyCoreDoes) {
  const QuietCores plan = Plan("auto", {"", "0000:1b:00.0"}, 6);
  EXPECT_THAT(plan.measuring, ElementsAre(5, 4));
  EXPECT_THAT(plan.others, ElementsAre(0, 1, 2, 3));
}

TEST_F(CoresTest, SmallMachinesKeepNoneQuiet) {
  for (const int count : {1, 2}) {
    const QuietCores plan = Plan("auto", {""}, count);
    EXPECT_THAT(plan.measuring, IsEmpty());
    EXPECT_THAT(plan.notes, HasSubstr("too few"));
  }
  EXPECT_THAT(Plan("auto", {""}, 3).measuring, ElementsAre(2));
  EXPECT_THAT(Plan("auto", {"", "", ""}, 6).measuring, IsEmpty()) << "as many as would be left";
  Machine(4);
  EXPECT_THAT(Plan("auto", {""}, 4).measuring, ElementsAre(3));
  EXPECT_THAT(Plan("auto", {"", ""}, 4).measuring, IsEmpty()) << "with hyperthreads it is half";
}

TEST_F(CoresTest, ItCanBeTurnedOffOrSaid) {
  Machine(8);
  EXPECT_THAT(Plan("off", {""}, 8).measuring, IsEmpty());
  EXPECT_THAT(Plan("auto", {}, 8).measuring, IsEmpty()) << "the CPU is measured";
  const QuietCores plan = Plan("2", {""}, 8);
  EXPECT_THAT(plan.measuring, ElementsAre(2));
  EXPECT_THAT(plan.others, ElementsAre(0, 1, 3, 4, 5, 7));
  for (const auto& [wanted, why] : {std::pair{"2,3", "one core for each of the 1 GPUs"},
                                    {"9", "there is no core 9"},
                                    {"x", "no list of cores"},
                                    {"-1", "no list of cores"}}) {
    EXPECT_THAT(PlanCores(wanted, {""}, Cores(8), system_).status().message(), HasSubstr(why));
  }
  EXPECT_THAT(PlanCores("1,1", {"", ""}, Cores(8), system_).status().message(),
              HasSubstr("one core for each"));
  EXPECT_THAT(PlanCores("0", {""}, {0}, system_).status().message(), HasSubstr("leaves no core"));
}

TEST(AffinityTest, ListsAreReadAndWrittenAsTheKernelDoes) {
  EXPECT_THAT(*ParseCores("0-2,5,7-8\n"), ElementsAre(0, 1, 2, 5, 7, 8));
  EXPECT_EQ(CoresText({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  for (const char* bad : {"", "3-1", "1,", "a", "1-", "99999"}) EXPECT_FALSE(ParseCores(bad).ok());
}

TEST(AffinityTest, AThreadRunsWhereItIsSentAndComesBack) {
  const std::vector<int> before = AllowedCores();
  ASSERT_FALSE(before.empty());
  {
    const OnCore there(before.back());
    EXPECT_EQ(::sched_getcpu(), before.back());
    EXPECT_THAT(AllowedCores(), ElementsAre(before.back()));
  }
  EXPECT_EQ(AllowedCores(), before);
  {
    const OnCore nowhere(-1), absent(CPU_SETSIZE - 1);
    EXPECT_EQ(AllowedCores(), before);
  }
  std::thread([&] {
    ASSERT_TRUE(RunOn({before.front()}).ok());
    std::thread([&] { EXPECT_THAT(AllowedCores(), ElementsAre(before.front())); }).join();
    EXPECT_FALSE(RunOn({}).ok());
  }).join();
  EXPECT_EQ(AllowedCores(), before);
}

}  // namespace
}  // namespace kiln::worker
