#include "compiler/target/arch.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "compiler/target/gpu_figures.h"

namespace kiln::target {
namespace {

TEST(ArchTest, EveryShippedRecordRoundTrips) {
  ASSERT_GE(ArchNames().size(), 7u);
  for (const std::string& name : ArchNames()) {
    const auto arch = NamedArch(name);
    ASSERT_TRUE(arch.ok()) << arch.status();
    const std::string text = ToText(*arch);
    const auto back = ParseArch(text);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, *arch) << name;
    EXPECT_EQ(ToText(*back), text) << name;
  }
}

TEST(ArchTest, RoundTripKeepsAwkwardValues) {
  Arch a;
  a.name = "x86-64-v4";
  a.model = "line one\nline two\t= #";
  a.clock_ghz = 0.1 + 0.2;  // no short decimal
  a.dram.read_all = 1e-300;
  a.l1.bytes = (int64_t{1} << 62) + 1;
  a.units = {{"fma", kBFloat16, 1.0 / 3, 2.0 / 3}};
  const auto back = ParseArch(ToText(a));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->clock_ghz, a.clock_ghz);
  EXPECT_EQ(back->dram, a.dram);
  EXPECT_EQ(back->l1, a.l1);
  EXPECT_EQ(back->units, a.units);
  EXPECT_EQ(back->model, "line one line two = #");
}

TEST(ArchTest, ParseNamesTheLineAndTheFault) {
  const auto error = [](absl::string_view text) { return ParseArch(text).status().ToString(); };
  EXPECT_TRUE(absl::StrContains(error(""), "line 1: expected 'kiln-arch 1'"));
  EXPECT_TRUE(absl::StrContains(error("kiln-arch 2\nname = a\n"), "line 1"));
  const std::string head = "kiln-arch 1\nname = a\nkind = cpu\n";
  EXPECT_TRUE(absl::StrContains(error(head + "flavour = mint\n"), "line 4: unknown key 'flavour'"));
  EXPECT_TRUE(absl::StrContains(error(head + "name = b\n"), "line 4: 'name' is given twice"));
  EXPECT_TRUE(absl::StrContains(error(head + "cores = many\n"), "bad value for 'cores': 'many'"));
  EXPECT_TRUE(absl::StrContains(error(head + "cores = 0\n"), "'cores' must be at least 1"));
  EXPECT_TRUE(absl::StrContains(error(head + "cores = 99999999999\n"), "bad value for 'cores'"));
  EXPECT_TRUE(absl::StrContains(error(head + "clock_ghz = nan\n"), "bad value"));
  EXPECT_TRUE(absl::StrContains(error(head + "clock_ghz = -1\n"), "bad value"));
  EXPECT_TRUE(absl::StrContains(error(head + "l1 = 1 2 3\n"), "bad value for 'l1'"));
  EXPECT_TRUE(absl::StrContains(error(head + "unit = fma float31 1 2\n"), "bad value for 'unit'"));
  EXPECT_TRUE(absl::StrContains(error("kiln-arch 1\nkind = gpu\n"), "'name' is missing"));
  EXPECT_TRUE(absl::StrContains(error(std::string(70000, 'x')), "longer than 64 KiB"));
}

TEST(ArchTest, AGpuOfTheTablesModelHasTheTablesRecord) {
  // As its driver tells it: 132 SMs, 1980 MHz, memory of 3201 MHz and 6144 bits, 60 MiB.
  EXPECT_EQ(*GpuArchOf("sm_90a", {132, 1980, 3201, 6144, 60 << 20}), *NamedArch("sm_90a"));
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    EXPECT_EQ(*GpuArchOf(name, {}), *NamedArch(name)) << name;  // nothing is told
  }
}

TEST(ArchTest, AnotherModelHasRatesOfItsOwn) {
  const Arch table = *NamedArch("sm_90a");
  // An H100 of the SXM form: as many SMs at the same clock, less and slower memory.
  const Arch sxm = *GpuArchOf("sm_90a", {132, 1980, 2619, 5120, 50 << 20});
  EXPECT_NEAR(sxm.dram.copy_all, 2902, 1);  // 3.35 TB/s by the datasheet, 3.0 measured as a copy
  EXPECT_EQ(sxm.dram.copy_core, table.dram.copy_core);
  EXPECT_NEAR(static_cast<double>(sxm.llc.bytes), static_cast<double>(table.llc.bytes) * 5 / 6, 1);
  EXPECT_EQ(sxm.units, table.units);
  EXPECT_EQ(sxm.l1, table.l1);
  // Half of the SMs at half the clock.
  const Arch half = *GpuArchOf("sm_90a", {66, 990, 3201, 6144, 60 << 20});
  EXPECT_EQ(half.cores, 66);
  EXPECT_DOUBLE_EQ(half.clock_ghz, table.clock_ghz / 2);
  EXPECT_EQ(half.dram, table.dram);
  EXPECT_DOUBLE_EQ(half.l1.read_core, table.l1.read_core / 2);
  EXPECT_DOUBLE_EQ(half.l1.read_all, table.l1.read_all / 4);
  for (size_t i = 0; i < half.units.size(); ++i) {
    EXPECT_DOUBLE_EQ(half.units[i].core, table.units[i].core / 2);
    EXPECT_DOUBLE_EQ(half.units[i].all, table.units[i].all / 4);
  }
  // One SM draws no more than all do.
  const Arch narrow = *GpuArchOf("sm_90a", {132, 1980, 100, 64, 60 << 20});
  EXPECT_EQ(narrow.dram.read_core, narrow.dram.read_all);
}

TEST(ArchTest, FiguresAreOfGpus) {
  EXPECT_EQ(GpuArchOf("x86-64-v4", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(GpuArchOf("sm_42", {}).status().message(), "sm_90a"));
}

TEST(ArchTest, UnknownNameListsTheNames) {
  const auto missing = NamedArch("sm_42");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(missing.status().message(), "sm_90a"));
}

TEST(ArchTest, FeatureNamesIgnoreDashes) {
  Arch a;
  a.features = {"avx512bf16", "amx-bf16"};
  EXPECT_TRUE(a.Has("avx512_bf16"));
  EXPECT_TRUE(a.Has("avx512bf16"));
  EXPECT_TRUE(a.Has("amx_bf16"));
  EXPECT_FALSE(a.Has("avx512"));
  EXPECT_FALSE(a.Has("amx"));
}

TEST(ArchTest, LanesAndUnits) {
  const Arch v4 = *NamedArch("x86-64-v4");
  EXPECT_EQ(v4.Lanes(kFloat32), 16);
  EXPECT_EQ(v4.Lanes(kFloat64), 8);
  ASSERT_NE(v4.FindUnit("fma", kFloat32), nullptr);
  EXPECT_EQ(v4.FindUnit("tensor", kFloat32), nullptr);
  const Arch h = *NamedArch("sm_90a");
  EXPECT_EQ(h.smem_block, 227 * 1024);
  EXPECT_NE(h.FindUnit("tensor", *ParseDType("float8_e4m3fn")), nullptr);
  EXPECT_EQ(NamedArch("sm_80")->FindUnit("tensor", *ParseDType("float8_e4m3fn")), nullptr);
}

TEST(ArchTest, InstructionsOfOtherGpus) {
  const Arch hopper = *NamedArch("sm_90a"), blackwell = *NamedArch("sm_100a");
  EXPECT_EQ(CapabilityOf(hopper), 90);
  EXPECT_EQ(CapabilityOf(blackwell), 100);
  EXPECT_EQ(*WithInstructions(hopper, 0), hopper);
  EXPECT_EQ(*WithInstructions(hopper, 90), hopper);
  const Arch older = *WithInstructions(hopper, 80);
  EXPECT_EQ(older.name, "sm_80");
  EXPECT_EQ(older.smem_block, hopper.smem_block);
  EXPECT_EQ(*WithInstructions(*NamedArch("x86-64-v4"), 80), *NamedArch("x86-64-v4"));
  // Newer; of an architecture of its own; of no GPU.
  for (const auto& [gpu, capability] : std::vector<std::pair<Arch, int>>{
           {hopper, 100}, {blackwell, 90}, {*NamedArch("sm_80"), 86}, {hopper, 81}, {hopper, -1}}) {
    EXPECT_EQ(WithInstructions(gpu, capability).status().code(), absl::StatusCode::kInvalidArgument)
        << gpu.name << " " << capability;
  }
}

TEST(ArchTest, Family) {
  EXPECT_EQ(ArchFamily("x86-64-v3"), "x86-64");
  EXPECT_EQ(ArchFamily("sm_100a"), "sm");
}

}  // namespace
}  // namespace kiln::target
