#include "compiler/target/legality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln::target {
namespace {

GemmQuery Half(int64_t m, int64_t n, int64_t k, int warps = 4) {
  GemmQuery q;
  q.m = m;
  q.n = n;
  q.k = k;
  q.a = q.b = kFloat16;
  q.c = kFloat32;
  q.trans_b = true;
  q.warps = warps;
  return q;
}

std::string Unit(const char* arch, const GemmQuery& q) {
  return ChooseGemm(*NamedArch(arch), q).unit;
}

TEST(LegalityTest, HopperTakesWgmmaAndFallsBack) {
  EXPECT_EQ(Unit("sm_90a", Half(128, 128, 64)), "wgmma");
  EXPECT_EQ(Unit("sm_90a", Half(32, 128, 64)), "mma");      // fewer than 64 rows
  EXPECT_EQ(Unit("sm_90a", Half(128, 128, 64, 2)), "mma");  // not a whole warpgroup
  GemmQuery registers = Half(128, 128, 64);
  registers.b_space = OperandSpace::kRegisters;
  EXPECT_EQ(Unit("sm_90a", registers), "mma");
}

TEST(LegalityTest, Fp8NeedsKMajorForWgmma) {
  GemmQuery q = Half(128, 128, 64);
  q.a = q.b = *ParseDType("float8_e4m3fn");
  EXPECT_EQ(Unit("sm_90a", q), "wgmma");
  q.trans_b = false;
  EXPECT_EQ(Unit("sm_90a", q), "fma");  // ldmatrix turns 16-bit elements alone
  EXPECT_EQ(Unit("sm_80", q), "fma");   // whose elements are converted in code
}

TEST(LegalityTest, ColumnsThatAWarpgroupCannotRead) {
  const auto why = [](const GemmQuery& q) { return ChooseGemm(*NamedArch("sm_90a"), q).why_not; };
  GemmQuery q = Half(64, 24, 64);
  EXPECT_EQ(Unit("sm_90a", q), "wgmma");
  q.trans_b = false;  // rows of 48 bytes
  EXPECT_EQ(Unit("sm_90a", q), "mma");
  EXPECT_EQ(why(q), "not wgmma: rows of B are no multiple of 32 bytes for each warpgroup");
  q = Half(64, 64, 64, 8);
  EXPECT_EQ(Unit("sm_90a", q), "wgmma");
  q.trans_b = false;  // two warpgroups would each read half of a swizzle's 64 columns
  EXPECT_EQ(Unit("sm_90a", q), "mma");
  q.m = 128;  // one below the other
  q.policy = WarpPolicy::kFullCol;
  const GemmChoice below = ChooseGemm(*NamedArch("sm_90a"), q);
  EXPECT_EQ(below.unit, "wgmma");
  EXPECT_EQ(below.grid.rows, 2);
  q = Half(64, 40, 64);
  q.a = q.b = kInt8;
  q.c = kInt32;
  EXPECT_EQ(Unit("sm_90a", q), "mma");
  EXPECT_EQ(why(q), "not wgmma: columns = 40 is not a multiple of 16 for each warpgroup");
  q = Half(64, 320, 64);
  EXPECT_EQ(Unit("sm_90a", q), "mma");
}

TEST(LegalityTest, WhatOnlyVectorUnitsDo) {
  GemmQuery q = Half(64, 64, 64);
  q.a = q.b = kBFloat16;
  q.c = kFloat16;
  EXPECT_EQ(Unit("sm_90a", q), "fma");
  EXPECT_EQ(ChooseGemm(*NamedArch("sm_90a"), q).why_not,
            "not wgmma: wgmma does not accumulate in float16");
  q = Half(64, 64, 64);
  q.a_part = TilePart{64, 128, 0, 0, 0};
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) EXPECT_EQ(Unit(arch, q), "fma");
  q.k = 24;
  EXPECT_EQ(Unit("sm_80", q), "");
}

TEST(LegalityTest, SumsInHalfPrecision) {
  GemmQuery q = Half(64, 64, 64);
  q.c = kFloat16;
  EXPECT_EQ(Unit("sm_90a", q), "wgmma");
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_100a"}) EXPECT_EQ(Unit(arch, q), "mma");
  q.c_space = OperandSpace::kTensor;
  EXPECT_EQ(Unit("sm_100a", q), "");
}

TEST(LegalityTest, IntegersOfEightBitsHaveTheirOwnSigns) {
  GemmQuery q = Half(64, 64, 64);
  q.trans_b = true;
  q.c = kInt32;
  for (const DType a : {kInt8, kUInt8}) {
    for (const DType b : {kInt8, kUInt8}) {
      q.a = a;
      q.b = b;
      EXPECT_EQ(Unit("sm_90a", q), "wgmma");
      EXPECT_EQ(Unit("sm_80", q), "mma");
    }
  }
  q.b = *ParseDType("float8_e4m3fn");
  EXPECT_EQ(Unit("sm_90a", q), "");
}

TEST(LegalityTest, BytesThatAreNotKMajorAreTurned) {
  const auto turned = [](const char* arch, const GemmQuery& q) {
    const auto other = TurnedBytes(*NamedArch(arch), q);
    return other ? Unit(arch, *other) : "";
  };
  GemmQuery q = Half(64, 64, 64);
  q.a = q.b = kInt8;
  q.c = kInt32;
  q.trans_a = true;
  q.trans_b = false;
  EXPECT_EQ(turned("sm_90a", q), "wgmma");
  EXPECT_EQ(turned("sm_80", q), "mma");
  EXPECT_EQ(turned("sm_80", Half(64, 64, 64)), "") << "instructions turn it";
  q.k = 16;
  EXPECT_EQ(turned("sm_80", q), "") << "no step of an instruction";
  q.k = 64;
  q.c_space = OperandSpace::kTensor;
  EXPECT_EQ(turned("sm_100a", q), "") << "tcgen05 takes it as it is";
  q.c_space = OperandSpace::kRegisters;
  q.a = q.b = *ParseDType("float8_e4m3fn");
  q.c = kFloat32;
  EXPECT_EQ(turned("sm_89", q), "mma");
  EXPECT_EQ(turned("sm_80", q), "") << "no such instruction";
}

TEST(LegalityTest, PartsOfTiles) {
  const auto at = [](int64_t row, int64_t column, int64_t rows = 128, int64_t columns = 128) {
    GemmQuery q = Half(64, 64, 32);
    q.a_part = TilePart{rows, columns, row, column};
    return q;
  };
  const auto why = [](const GemmQuery& q) { return ChooseGemm(*NamedArch("sm_90a"), q).why_not; };
  const auto expect = [&](const GemmQuery& q, const char* hopper, int64_t swizzle) {
    EXPECT_EQ(Unit("sm_90a", q), hopper);
    EXPECT_EQ(Unit("sm_80", q), hopper == std::string("fma") ? "fma" : "mma");
    if (swizzle > 0) EXPECT_EQ(ChooseGemm(*NamedArch("sm_90a"), q).a_swizzle, swizzle);
  };
  expect(at(0, 0), "wgmma", 128);
  expect(at(0, 16), "wgmma", 128);  // a step along k
  expect(at(0, 8), "mma", 0);
  expect(at(0, 4), "fma", 0);
  expect(at(4, 0), "mma", 0);
  EXPECT_EQ(why(at(4, 0)), "not wgmma: the part of A's tile begins in row 4 of an atom");
  EXPECT_EQ(
      why(at(0, 8)),
      "not wgmma: the part of A's tile of 128x128 is no whole number of rows of a swizzle, or "
      "begins inside of one");
  expect(at(0, 16, 128, 96), "wgmma", 64);
  expect(at(0, 16, 128, 80), "wgmma", 32);
  expect(at(0, 16, 128, 72), "mma", 0);  // rows of 144 bytes
  expect(at(0, 16, 128, 68), "fma", 0);
  expect(at(0, 0, 124), "mma", 0);  // no whole atoms
  GemmQuery unknown = at(0, 0);
  unknown.a_part->row.reset();
  expect(unknown, "fma", 0);
  EXPECT_EQ(why(unknown), "not wgmma: the part of A's tile begins where only the run knows");
  for (const int64_t known : {64, 32}) {  // of a column that only the run knows
    GemmQuery some = at(0, 16);
    some.a_part->known = known;
    expect(some, "wgmma", known);
    EXPECT_EQ(ChooseGemm(*NamedArch("sm_80"), some).a_swizzle, known);
  }
  GemmQuery turned = at(0, 32);  // rows along m begin and end with a swizzle's
  turned.trans_a = true;
  expect(turned, "wgmma", 64);
  turned.a_part->column = 16;
  expect(turned, "wgmma", 32);
  turned.a_part->column = 8;
  expect(turned, "mma", 0);

  GemmQuery b = Half(64, 32, 64);
  b.trans_b = false;
  b.b_part = TilePart{64, 64, 0, 32};
  const auto right = [&](const char* arch) { return ChooseGemm(*NamedArch(arch), b).b_swizzle; };
  EXPECT_EQ(Unit("sm_90a", b), "wgmma");
  EXPECT_EQ(right("sm_90a"), 64);
  EXPECT_EQ(right("sm_80"), 128);
  b.b_part->column = 0;  // and ends with one
  EXPECT_EQ(right("sm_90a"), 64);
  b.b_part->column = 32;
  b.warps = 8;  // two warpgroups would each read half of a swizzle's 32 columns
  EXPECT_EQ(Unit("sm_90a", b), "mma");
  b.b_part->column = 16;
  EXPECT_EQ(Unit("sm_90a", b), "wgmma");
  b.n = 24;
  b.warps = 4;
  EXPECT_EQ(Unit("sm_90a", b), "mma");  // the part ends inside of a row
}

TEST(LegalityTest, Float32IsExactUnlessTheKernelAllowsTf32) {
  GemmQuery q = Half(128, 128, 32);
  q.a = q.b = kFloat32;
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    q.tf32 = false;
    const GemmChoice exact = ChooseGemm(*NamedArch(arch), q);
    EXPECT_EQ(exact.unit, "fma");
    EXPECT_NE(exact.why_not.find("kiln.tf32"), std::string::npos) << exact.why_not;
    q.tf32 = true;
    const GemmChoice rounded = ChooseGemm(*NamedArch(arch), q);
    EXPECT_EQ(rounded.unit, arch == std::string("sm_90a") ? "wgmma" : "mma");
    EXPECT_EQ(rounded.why_not, "");
  }
  q.trans_b = false;
  const GemmChoice turned = ChooseGemm(*NamedArch("sm_90a"), q);
  EXPECT_EQ(turned.unit, "mma");
  EXPECT_EQ(turned.why_not, "not wgmma: wgmma on float32 needs both operands K-major");
  q.k = 20;
  EXPECT_EQ(Unit("sm_80", q), "fma");  // no whole atoms of eight
  q.k = 32;
  q.c = *ParseDType("float64");
  EXPECT_EQ(Unit("sm_80", q), "fma");
  q.a = q.b = *ParseDType("float64");
  EXPECT_EQ(Unit("sm_80", q), "fma");  // it is about float32 alone
}

TEST(LegalityTest, Tf32FromTheRegistersOfWarps) {
  GemmQuery q = Half(64, 64, 32);
  q.a = q.b = kFloat32;
  q.tf32 = true;
  q.policy = WarpPolicy::kFullRow;
  q.a_space = OperandSpace::kRegisters;
  const auto takes = [&](const char* arch) {
    return LeftFromRegisters(q, ChooseGemm(*NamedArch(arch), q));
  };
  EXPECT_TRUE(takes("sm_80"));
  EXPECT_FALSE(takes("sm_90a"));  // wgmma has an order of its own along k
  q.trans_b = false;
  EXPECT_TRUE(takes("sm_90a"));
  q.trans_a = true;
  EXPECT_FALSE(takes("sm_80"));
  q.trans_a = q.tf32 = false;
  EXPECT_FALSE(takes("sm_80"));
}

TEST(LegalityTest, OneOperandOfTf32IsLoadedToRegisters) {
  GemmQuery q = Half(128, 64, 32);
  q.a = q.b = kFloat32;
  q.tf32 = true;
  q.trans_b = false;
  q.warps = 4;
  const auto loads = [&](const char* arch = "sm_90a") { return LoadTf32(*NamedArch(arch), q); };
  ASSERT_TRUE(loads());
  EXPECT_TRUE(loads()->turned);
  EXPECT_EQ(loads()->query.m, 64);
  EXPECT_EQ(loads()->query.n, 128);
  EXPECT_EQ(ChooseGemm(*NamedArch("sm_90a"), loads()->query).unit, "wgmma");
  EXPECT_TRUE(LeftFromRegisters(loads()->query, ChooseGemm(*NamedArch("sm_90a"), loads()->query)));
  EXPECT_FALSE(loads("sm_80"));
  EXPECT_FALSE(loads("sm_100a"));
  q.warps = 8;
  EXPECT_FALSE(loads());  // two warpgroups have no 64 columns each
  q.trans_a = q.trans_b = true;
  ASSERT_TRUE(loads());
  EXPECT_FALSE(loads()->turned);
  EXPECT_EQ(loads()->query.m, 128);
  q.n = 256;
  q.k = 64;
  EXPECT_TRUE(loads());
  q.k = 256;
  EXPECT_FALSE(loads());  // more than a thread can hold
  q.k = 32;
  q.trans_b = false;
  EXPECT_FALSE(loads());  // neither is K-major
  q.trans_a = false, q.trans_b = true;
  EXPECT_FALSE(loads());  // both are
}

TEST(LegalityTest, AdditionsToNeighbours) {
  const auto widest = [](const char* arch, const char* type) {
    return WidestAtomicAdd(*NamedArch(arch), *ParseDType(type));
  };
  for (const char* arch : {"sm_80", "sm_86", "sm_89"}) {
    EXPECT_EQ(widest(arch, "float32"), 1);
    EXPECT_EQ(widest(arch, "float16"), 2);
    EXPECT_EQ(widest(arch, "bfloat16"), 1);
  }
  for (const char* arch : {"sm_90a", "sm_100a"}) {
    EXPECT_EQ(widest(arch, "float32"), 4);
    EXPECT_EQ(widest(arch, "float16"), 8);
    EXPECT_EQ(widest(arch, "bfloat16"), 8);
    EXPECT_EQ(widest(arch, "int64"), 1);
    EXPECT_EQ(widest(arch, "int8"), 0);
  }
}

TEST(LegalityTest, SumsInTensorMemory) {
  const auto held = [](GemmQuery q) {
    q.c_space = OperandSpace::kTensor;
    return q;
  };
  const auto why = [&](const GemmQuery& q) { return ChooseGemm(*NamedArch("sm_100a"), q).why_not; };
  for (const int64_t m : {64, 128, 256}) {
    EXPECT_EQ(Unit("sm_100a", held(Half(m, 128, 64))), "tcgen05") << m;
  }
  EXPECT_EQ(Unit("sm_100a", Half(128, 128, 64)), "mma");  // which leaves them in registers
  EXPECT_EQ(Unit("sm_90a", held(Half(128, 128, 64))), "");
  const GemmChoice wide = ChooseGemm(*NamedArch("sm_100a"), held(Half(128, 256, 64, 8)));
  EXPECT_EQ(wide.grid.rows, 1);
  EXPECT_EQ(wide.grid.columns, 2);
  EXPECT_EQ(why(held(Half(32, 128, 64))), "M tile 32 is below 64");
  EXPECT_EQ(why(held(Half(192, 128, 64))), "M tile = 192 is not a multiple of 128");
  EXPECT_EQ(why(held(Half(128, 24, 64))), "N tile = 24 is not a multiple of 16");
  EXPECT_EQ(why(held(Half(128, 128, 64, 2))), "warps = 2 is not a multiple of 4");
  EXPECT_EQ(why(held(Half(256, 320, 64))), "tensor memory has no room for sums of 256x320");
  GemmQuery registers = held(Half(128, 128, 64));
  registers.a_space = OperandSpace::kRegisters;
  EXPECT_EQ(why(registers), "tcgen05 takes A from shared memory here");
  GemmQuery narrow = held(Half(128, 16, 64));
  narrow.a = narrow.b = *ParseDType("float8_e4m3fn");
  EXPECT_EQ(why(narrow), "");
  narrow.trans_b = false;
  EXPECT_EQ(why(narrow), "rows of tiles are no multiples of 32 bytes");
  GemmQuery wide_type = held(Half(128, 128, 64));
  wide_type.a = wide_type.b = kFloat32;
  EXPECT_THAT(why(wide_type), testing::HasSubstr("\"kiln.tf32\" would let tensor cores round"));
  wide_type.tf32 = true;
  EXPECT_EQ(Unit("sm_100a", wide_type), "tcgen05");
  wide_type.trans_a = true;
  EXPECT_EQ(why(wide_type), "tcgen05 on float32 needs both operands K-major");
}

TEST(LegalityTest, ColumnsOfTensorMemory) {
  EXPECT_EQ(TensorColumns(64, 96), 96);
  EXPECT_EQ(TensorColumns(128, 96), 96);
  EXPECT_EQ(TensorColumns(256, 96), 192);
  EXPECT_EQ(TakenColumns(16), 32);
  EXPECT_EQ(TakenColumns(32), 32);
  EXPECT_EQ(TakenColumns(96), 128);
  EXPECT_EQ(TakenColumns(512), 512);
}

TEST(LegalityTest, DivisibilityOfEveryGpuGemm) {
  EXPECT_EQ(Unit("sm_80", Half(24, 128, 32)), "");
  EXPECT_EQ(Unit("sm_80", Half(32, 28, 32)), "");
  EXPECT_EQ(Unit("sm_80", Half(32, 128, 24)), "");
  EXPECT_EQ(Unit("sm_80", Half(32, 128, 32)), "mma");
  const GemmChoice c = ChooseGemm(*NamedArch("sm_80"), Half(32, 28, 32));
  EXPECT_EQ(c.why_not, "N tile = 28 is not a multiple of 8");  // not that fma takes no float16
  EXPECT_EQ(Unit("sm_80", Half(16, 8, 32, 4)), "");  // four warps cannot tile one fragment
}

TEST(LegalityTest, WarpsTileTheBlock) {
  for (int warps : {1, 2, 4, 8}) {
    const GemmQuery q = Half(128, 128, 32, warps);
    const GemmChoice c = ChooseGemm(*NamedArch("sm_80"), q);
    ASSERT_EQ(c.unit, "mma");
    EXPECT_EQ(c.grid.rows * c.grid.columns, warps);
    EXPECT_EQ(q.m % (16 * c.grid.rows), 0);
    EXPECT_EQ(q.n % (8 * c.grid.columns), 0);
  }
}

TEST(LegalityTest, CpuTakesAnyExtent) {
  GemmQuery q = Half(7, 13, 5);
  q.a = q.b = q.c = kFloat32;
  EXPECT_EQ(Unit("x86-64-v4", q), "fma");
  q.b = kFloat16;
  EXPECT_EQ(Unit("x86-64-v4", q), "");
}

}  // namespace
}  // namespace kiln::target
