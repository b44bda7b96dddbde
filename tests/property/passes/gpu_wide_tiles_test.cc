// Tiles whose rows have more elements than a side of TMA's boxes: those that lie in panels are
// fetched panel by panel, and products of them are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Case;
using testing::Difference;
using testing::ExpectComputes;
using ::testing::HasSubstr;
using testing::Lowered;
using ::testing::Not;
using testing::Story;
using testing::Text;
using testing::Tiles;

// More elements than a side of a box has: each panel is one.
TEST(WideTiles, PanelsAreBoxes) {
  ExpectComputes({.k = 800, .block_k = 320});
  ExpectComputes({.m = 100, .n = 72, .k = 1208, .block_k = 384, .cores = 2});
  ExpectComputes({.k = 1104, .block_k = 320, .type = "float16", .cluster = 2});
  ExpectComputes({.k = 1200, .block_k = 512, .type = "float8_e4m3fn"});
  ExpectComputes({.k = 800, .block_k = 320, .streamed = true});
}

// Rows that wide of a tile that lies in no panels are no boxes: threads copy it.
TEST(WideTiles, OthersAreNone) {
  const auto fetched = [](const Case& c, const std::string& text) {
    const auto tiles = Tiles(text);
    EXPECT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto instructions = Lowered(*tiles, c);
    EXPECT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
    std::string tensors;
    ir::Walk(instructions->body, [&](const ir::Stmt& s) {
      const auto* x = s.As<ir::Instruct>();
      if (x != nullptr && x->op == ir::Instruction::kTensorLoad) {
        tensors += x->regions[1].buffer->name;
      }
      return true;
    });
    return tensors;
  };
  Case c{.k = 640, .block_k = 320};
  EXPECT_EQ(fetched(c, Text(c)), "AB");
  std::string parts = Text(c);  // of tiles that end within an atom of eight rows
  EXPECT_EQ(absl::StrReplaceAll({{"b = T.alloc_shared((64,", "b = T.alloc_shared((68,"},
                                 {"T.gemm(a, b,", "T.gemm(a, b[0:64, :],"}},
                                &parts),
            2);
  EXPECT_EQ(fetched(c, parts), "A");
  c = {.m = 64,
       .n = 64,
       .k = 640,
       .block_m = 32,
       .block_n = 32,
       .block_k = 320,
       .stages = 1,
       .type = "float32"};
  EXPECT_EQ(fetched(c, Text(c)), "");  // no tensor cores read it
  c = {.m = 64,
       .n = 640,
       .k = 128,
       .block_n = 320,
       .threads = 256,
       .type = "int8",
       .accum = "int32",
       .trans_b = false};
  EXPECT_EQ(fetched(c, Text(c)), "A");  // B is turned first
}

TEST(WideTiles, ABoxThatIsTooWideIsNoticed) {
  const Case c{.k = 640, .block_k = 320};
  const auto tiles = Tiles(Text(c));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  auto instructions = Lowered(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  instructions->body = ir::RewriteStmts(instructions->body, [](const ir::Stmt& s) -> ir::Stmt {
    const auto* x = s.As<ir::Instruct>();
    if (x == nullptr || x->op != ir::Instruction::kTensorLoad) return {};
    auto notes = x->annotations;
    notes.erase("swizzle0");
    return testing::With(*x, x->args, notes);
  });
  EXPECT_THAT(Difference(*tiles, *instructions), HasSubstr("a side of 320"));
}

TEST(WideTiles, WhyThreadsCopyIsExplained) {
  const char* copied = "copy of A to a: threads copy, ";
  EXPECT_THAT(Story({.k = 640, .block_k = 320}), Not(HasSubstr(copied)));
  Case c{.m = 64, .n = 64, .k = 640, .block_m = 32, .block_n = 32, .block_k = 320};
  c.type = "float32";
  EXPECT_THAT(Story(c), HasSubstr(absl::StrCat(copied, "a side of the box is above 256")));
  c.k = 400, c.block_k = 100;  // rows that fill no swizzle
  EXPECT_THAT(Story(c), HasSubstr(absl::StrCat(copied, "TMA fetches no tile of this shape")));
}

}  // namespace
}  // namespace kiln
