// Bits of tcgen05 descriptors, field by field as the PTX ISA lists them (9.0, 9.7.16.4).
#include "compiler/codegen/tcgen05_descriptors.h"

#include <gtest/gtest.h>

namespace kiln::codegen {
namespace {

uint64_t Field(uint64_t word, int first, int bits) {
  return word >> first & ((uint64_t{1} << bits) - 1);
}

TEST(Tcgen05Descriptors, Tiles) {
  struct Row {
    int64_t swizzle, height;
    uint64_t mode;
  };
  for (const Row& row : {Row{128, 128, 2}, Row{64, 64, 4}, Row{32, 256, 6}}) {
    const uint64_t word = Tcgen05TileDescriptor(row.swizzle, row.height);
    EXPECT_EQ(Field(word, 0, 14), 0u);  // the address comes here
    EXPECT_EQ(Field(word, 16, 14) * 16, static_cast<uint64_t>(row.swizzle * row.height));
    EXPECT_EQ(Field(word, 32, 14) * 16, static_cast<uint64_t>(row.swizzle * 8));
    EXPECT_EQ(Field(word, 46, 3), 1u);  // the version of sm_100
    EXPECT_EQ(Field(word, 49, 12), 0u);
    EXPECT_EQ(Field(word, 61, 3), row.mode);
  }
}

TEST(Tcgen05Descriptors, Instructions) {
  struct Row {
    const char *a, *b;
    uint64_t sums, format, right;
  };
  for (const Row& row :
       {Row{"float16", "float16", 1, 0, 0}, Row{"bfloat16", "bfloat16", 1, 1, 1},
        Row{"float8_e4m3fn", "float8_e4m3fn", 1, 0, 0}, Row{"float8_e5m2", "float8_e5m2", 1, 1, 1},
        Row{"float8_e4m3fn", "float8_e5m2", 1, 0, 1}, Row{"int8", "int8", 2, 1, 1},
        Row{"float32", "float32", 1, 2, 2}}) {
    for (const int64_t m : {64, 128}) {
      for (const int64_t n : {16, 96, 256}) {
        const uint64_t word =
            Tcgen05InstructionDescriptor(*ParseDType(row.a), *ParseDType(row.b), m, n, true, false);
        EXPECT_EQ(Field(word, 0, 4), 0u);  // dense, no saturation
        EXPECT_EQ(Field(word, 4, 2), row.sums);
        EXPECT_EQ(Field(word, 6, 1), 0u);
        EXPECT_EQ(Field(word, 7, 3), row.format);
        EXPECT_EQ(Field(word, 10, 3), row.right);
        EXPECT_EQ(Field(word, 13, 2), 0u);  // no sign is changed
        EXPECT_EQ(Field(word, 15, 1), 1u);
        EXPECT_EQ(Field(word, 16, 1), 0u);
        EXPECT_EQ(Field(word, 17, 6) * 8, static_cast<uint64_t>(n));
        EXPECT_EQ(Field(word, 23, 1), 0u);
        EXPECT_EQ(Field(word, 24, 5) * 16, static_cast<uint64_t>(m));
        EXPECT_EQ(Field(word, 29, 3), 0u);
      }
    }
  }
  EXPECT_EQ(Tcgen05InstructionDescriptor(kBFloat16, kBFloat16, 128, 128, false, true),
            0x8200490u | 1u << 16);
}

}  // namespace
}  // namespace kiln::codegen
