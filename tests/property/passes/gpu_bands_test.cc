// Tiles of streamed tensors whose panels lie together eight rows at a time (passes/band_tiles):
// which do, and that products of them are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

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
using testing::ExpectNoticed;
using ::testing::HasSubstr;
using testing::Instructions;
using testing::Lowered;
using ::testing::Not;
using testing::Story;
using testing::Text;
using testing::Tiles;

// The tensors that are loaded into such tiles, in order, and that what multiplies a tile knows it.
std::string Banded(const ir::Program& program) {
  std::string tensors;
  std::set<const ir::BufferNode*> tiles;
  const auto note = [](const ir::Instruct& x, int operand) {
    const auto found = x.annotations.find(absl::StrCat("bands", operand));
    return found == x.annotations.end() ? std::string() : found->second;
  };
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    if (x == nullptr) return true;
    if (x->op == ir::Instruction::kTensorLoad && !note(*x, 0).empty()) {
      if (tiles.insert(x->regions[0].buffer.get()).second) tensors += x->regions[1].buffer->name;
    }
    for (int i = 1; i < 3 && x->op == ir::Instruction::kWgmma; ++i) {
      EXPECT_EQ(!note(*x, i).empty(), tiles.count(x->regions[i].buffer.get()) > 0);
    }
    return true;
  });
  return tensors;
}

void ExpectBanded(const std::string& text, const Case& c, const std::string& tensors) {
  const auto tiles = Tiles(text, c.cluster);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Lowered(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
  EXPECT_EQ(Banded(*instructions), tensors) << text << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
}

Case Streamed() {
  Case c;
  c.m = 120, c.n = 136, c.k = 320, c.block_k = 128;
  c.streamed = true;
  return c;
}

TEST(Bands, EveryOrderOfOperands) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const int cores : {2, 132}) {  // tiles in turn, too
        Case c = Streamed();
        c.trans_a = trans_a, c.trans_b = trans_b, c.cores = cores;
        c.block_m = trans_a ? 128 : 64, c.block_n = trans_b ? 64 : 128;
        // What runs along M and N ends with half a panel, which a map of panels cannot say.
        ExpectBanded(Text(c), c, absl::StrCat(trans_a ? "" : "A", trans_b ? "B" : ""));
        c.m = c.n = 192;
        ExpectBanded(Text(c), c, "AB");
      }
    }
  }
}

TEST(Bands, TypesOfEverySize) {
  for (const char* type : {"float16", "float8_e4m3fn", "float8_e5m2", "int8"}) {
    Case c = Streamed();
    c.type = type;
    if (type == std::string("int8")) c.accum = "int32";
    c.k = 640, c.block_k = 256;
    ExpectBanded(Text(c), c, "AB");
  }
}

TEST(Bands, BlocksThatShareTiles) {
  Case c = Streamed();
  c.m = c.n = 256, c.block_n = 128, c.cluster = 2;
  for (const bool trans_b : {false, true}) {
    c.trans_b = trans_b;
    ExpectBanded(Text(c), c, "AB");
  }
}

// What a map of bands and panels cannot say, or pays nothing, lies panel by panel.
TEST(Bands, OnlyWhereTheyFit) {
  const auto others = [](auto change) {
    Case c = Streamed();
    change(&c);
    return c;
  };
  const auto expect = [](const Case& c, const char* tensors) { ExpectBanded(Text(c), c, tensors); };
  expect(others([](Case* c) { c->streamed = false; }), "");
  expect(others([](Case* c) { c->block_k = 64; }), "");          // one panel
  expect(others([](Case* c) { c->k = 328; }), "");               // part of a panel
  expect(others([](Case* c) { c->n = 132, c->m = 120; }), "A");  // part of a band
  expect(others([](Case* c) { c->registers = true; }), "B");     // threads read A's
  expect(others([](Case* c) { c->gpu = "sm_100a"; }), "");       // not by wgmma
  expect(others([](Case* c) { c->gpu = "sm_80"; }), "");
  // From a row on that begins no band, or may begin none.
  const Case c = Streamed();
  ExpectBanded(absl::StrReplaceAll(Text(c), {{"B[bx * 64", "B[bx * 64 + 4"}}), c, "A");
  ExpectBanded(absl::StrReplaceAll(Text(c), {{"k * 128], b", "k * 128 + 32], b"}}), c, "A");
}

// A side of a box has at most 256 panels.
TEST(Bands, OfAsManyPanelsAsABoxHas) {
  for (const int panels : {255, 257}) {
    const int width = 16 * panels;
    const std::string text = absl::StrReplaceAll(
        R"(import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64, 16), "float16"), B: T.Tensor((32, WIDTH), "float16"),
         C: T.Tensor((64, 32), "float32")):
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_shared((64, 16), "float16")
        b = T.alloc_shared((16, WIDTH), "float16")
        c = T.alloc_fragment((64, 16), "float32")
        T.clear(c)
        T.copy(A, a)
        for k in T.Pipelined(1, num_stages=1):
            T.copy(B[bx * 16, k * WIDTH], b, eviction_policy="evict_first")
            for j in T.serial(PANELS):
                T.gemm(a, b[:, j * 16 : j * 16 + 16], c, transpose_B=True)
        T.copy(c, C[0, bx * 16])
)",
        {{"WIDTH", absl::StrCat(width)}, {"PANELS", absl::StrCat(panels)}});
    ExpectBanded(text, {}, panels <= 256 ? "B" : "");
  }
}

// Rows of a tensor of three dimensions; of four, a map would have one too many.
TEST(Bands, TensorsOfMoreDimensions) {
  const std::string text = Text(Streamed());
  const auto in = [&](const std::string& shape, const std::string& at) {
    return absl::StrReplaceAll(text, {{"B: T.Tensor((136, 320)", "B: T.Tensor(" + shape},
                                      {"B[bx * 64, k * 128]", "B[" + at + "]"}});
  };
  ExpectBanded(in("(3, 136, 320)", "1, bx * 64, k * 128"), Streamed(), "AB");
  ExpectBanded(in("(2, 3, 136, 320)", "1, 2, bx * 64, k * 128"), Streamed(), "A");
}

// Without a hint of the kernel's: what each block reads for itself, and no cache holds.
TEST(Bands, OfWhatIsReadFromMemory) {
  Case c = Streamed();
  c.m = 16;
  c.streamed = false;
  const auto tiles = Tiles(Text(c));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const int64_t bytes = 2 * c.n * c.k;  // of B
  for (const auto& [cache, tensors] :
       {std::pair(bytes - 1, "B"), std::pair(bytes, ""), std::pair(2 * bytes, "")}) {
    target::Arch gpu = *target::NamedArch("sm_90a");
    gpu.llc.bytes = cache;
    const auto instructions = Instructions(*tiles, gpu);
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_EQ(Banded(*instructions), tensors);
    EXPECT_EQ(Difference(*tiles, *instructions), "");
  }
}

TEST(Bands, NotWhereTheKernelWantsNone) {
  const Case c = Streamed();
  auto tiles = Tiles(Text(c));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  tiles->attrs["kiln.bands"] = "0";
  const auto instructions = Lowered(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_EQ(Banded(*instructions), "");
}

TEST(Bands, ExplainedWithTheirLayout) {
  Case c = Streamed();
  EXPECT_THAT(Story(c), HasSubstr("shared b lies in bands of eight rows"));
  c.streamed = false;
  EXPECT_THAT(Story(c), Not(HasSubstr("in bands")));
}

// A product that takes a tile's panels for ones that follow each other, or other bands.
TEST(Bands, MistakesAreNoticed) {
  for (const int operand : {1, 2}) {
    for (const char* other : {"", "1", "3"}) {
      const int count = ExpectNoticed(Streamed(), [&](const ir::Instruct& x) -> ir::Stmt {
        if (x.op != ir::Instruction::kWgmma) return {};
        auto notes = x.annotations;
        notes.erase(absl::StrCat("bands", operand));
        if (*other != 0) notes[absl::StrCat("bands", operand)] = other;
        return testing::With(x, x.args, std::move(notes));
      });
      EXPECT_GE(count, 1);
    }
  }
  const auto load = [](const ir::Instruct& x) -> ir::Stmt {
    if (x.op != ir::Instruction::kTensorLoad) return {};
    auto notes = x.annotations;
    notes["bands0"] = "3";
    return testing::With(x, x.args, std::move(notes));
  };
  EXPECT_EQ(ExpectNoticed(Streamed(), load), 2);
}

}  // namespace
}  // namespace kiln
