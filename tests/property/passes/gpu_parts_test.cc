// Products on parts of tiles: halves of columns and rows, one version of several, where swizzles
// begin and inside of them; instruction by instruction in the interpreter, against their tiles. And
// the mistakes that a compiler could make there, each of which must show.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using ir::Instruction;
using testing::Difference;
using testing::ExpectNoticed;
using testing::Has;
using testing::Instructions;
using testing::Tiles;
using testing::With;

struct How {
  int m = 64, n = 64;
  bool trans_a = false, trans_b = true;
  const char* type = "bfloat16";
  const char* accum = "float32";
  const char* gpu = "sm_90a";
  int threads = 128;
  const char* layout = "";  // of a tile
  const char* name = "";    // of what depends on s
  const char* more = "";    // other products
};
struct Parts {
  const char *a_shape, *a, *b_shape, *b;  // of the tiles, and what is multiplied of them
  How how = {};
};

std::string Text(const Parts& p) {
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  const auto tensor = [](const char* shape, const char* type) {
    return absl::StrCat("T.Tensor(", shape, ", \"", type, "\")");
  };
  const std::string result = absl::StrCat("(", p.how.m, ", ", p.how.n, ")");
  std::string text = absl::StrCat(
      "import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\ndef product(A: ",
      tensor(p.a_shape, p.how.type), ", B: ", tensor(p.b_shape, p.how.type),
      ", I: T.Tensor((4,), \"int32\"), C: ", tensor(result.c_str(), p.how.accum),
      "):\n    with T.Kernel(1, threads=", p.how.threads, "):\n");
  absl::StrAppend(&text, "        a = T.alloc_shared(", p.a_shape, ", \"", p.how.type,
                  "\")\n        b = T.alloc_shared(", p.b_shape, ", \"", p.how.type,
                  "\")\n        c = T.alloc_fragment(", result, ", \"", p.how.accum, "\")\n",
                  p.how.layout, "        T.copy(A, a)\n        T.copy(B, b)\n        T.clear(c)\n",
                  "        page = T.min(T.max(I[1], 0), 1)\n", "        for s in T.serial(2):\n",
                  p.how.name, "            T.gemm(", p.a, ", ", p.b,
                  ", c, transpose_A=", flag(p.how.trans_a), ", transpose_B=", flag(p.how.trans_b),
                  ")\n", p.how.more, "        T.copy(c, C)\n");
  return text;
}

struct Compiled {
  ir::Program tiles, instructions;
};

std::optional<Compiled> Compile(const Parts& p) {
  auto tiles = Tiles(Text(p));
  EXPECT_TRUE(tiles.ok()) << tiles.status() << Text(p);
  if (!tiles.ok()) return std::nullopt;
  tiles->attrs["kiln.tf32"] = "1";
  const auto instructions = Instructions(*tiles, p.how.gpu);
  EXPECT_TRUE(instructions.ok()) << instructions.status() << Text(p);
  if (!instructions.ok()) return std::nullopt;
  return Compiled{*tiles, *instructions};
}

// The notes of its products, in order.
std::vector<std::map<std::string, std::string>> NotesOf(const ir::Program& program,
                                                        Instruction product) {
  std::vector<std::map<std::string, std::string>> notes;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    if (x != nullptr && x->op == product) notes.push_back(x->annotations);
    return true;
  });
  return notes;
}

// That each of its products is that instruction, with the right numbers; the bytes of the tiles'
// swizzles, where they are given.
void ExpectComputes(const Parts& p, Instruction product, int a_swizzle = 0, int b_swizzle = 0) {
  SCOPED_TRACE(absl::StrCat(p.how.gpu, " ", p.a_shape, " ", p.a, " ", p.b_shape, " ", p.b));
  const auto compiled = Compile(p);
  ASSERT_TRUE(compiled);
  const auto notes = NotesOf(compiled->instructions, product);
  const size_t products = std::vector<std::string>(absl::StrSplit(Text(p), "T.gemm")).size() - 1;
  EXPECT_EQ(notes.size(), products) << ir::ToString(compiled->instructions);
  const int first = product == Instruction::kTcgen05Mma ? 0 : 1;
  for (const auto& of : notes) {
    const auto swizzle = [&](int i) {
      const auto note = of.find(absl::StrCat("swizzle", first + i));
      return note == of.end() ? "none" : note->second;
    };
    if (a_swizzle != 0) EXPECT_EQ(swizzle(0), absl::StrCat(a_swizzle));
    if (b_swizzle != 0) EXPECT_EQ(swizzle(1), absl::StrCat(b_swizzle));
  }
  EXPECT_EQ(Difference(compiled->tiles, compiled->instructions), "")
      << Text(p) << ir::ToString(compiled->instructions);
}

// Halves of columns and of rows, on either side, in one version of several: what a descriptor can
// name, and warps read as well.
std::vector<Parts> Halves() {
  return {
      {"(64, 128)", "a[:, :64]", "(64, 128)", "b[:, 64:]"},
      {"(64, 128)", "a[:, 64:128]", "(64, 64)", "b"},
      {"(128, 64)", "a[64:, :]", "(128, 64)", "b[:64, :]"},
      {"(64, 64)", "a", "(128, 128)", "b[64:128, 64:128]"},
      {"(72, 64)", "a[8:, :]", "(80, 64)", "b[16:, :]"},
      {"(64, 128)", "a[:, s * 64:s * 64 + 64]", "(128, 64)", "b[s * 64:s * 64 + 64, :]"},
      {"(2, 64, 64)", "a[1, :, :]", "(2, 64, 128)", "b[0, :, 64:]"},
      {"(2, 64, 128)", "a[s, :, 64:]", "(2, 64, 128)", "b[1 - s, :, :64]"},
      {"(2, 64, 64)", "a[page, :, :]", "(3, 128, 64)", "b[page + 1, 64:, :]"},
      {"(2, 2, 64, 128)", "a[s, 1, :, 64:]", "(2, 2, 64, 64)", "b[1, page, :, :]"},
      {"(64, 128)", "a[:, 64:]", "(128, 128)", "b[64:, s * 64:s * 64 + 64]", {.trans_b = false}},
      {"(64, 128)", "a[:, 64:]", "(2, 64, 128)", "b[page, :, :64]", {.trans_b = false}},
      {"(128, 128)", "a[64:, 64:]", "(64, 128)", "b[:, :64]", {.trans_a = true, .trans_b = false}},
      {"(2, 64, 128)", "a[s, :, :64]", "(64, 64)", "b", {.trans_a = true}},
      {"(64, 192)",
       "a[:, at:at + 64]",
       "(2, 64, 64)",
       "b[s, :, :]",
       {.name = "            at = (page + s) * 64\n"}},
      // For several warps or warpgroups.
      {"(128, 128)", "a[:, 64:]", "(64, 128)", "b[:, :64]", {.m = 128, .threads = 256}},
      {"(64, 128)", "a[:, 64:]", "(256, 128)", "b[128:, 64:]", {.n = 128, .threads = 256}},
      {"(64, 128)",
       "a[:, 64:]",
       "(64, 256)",
       "b[:, 128:]",
       {.n = 128, .trans_b = false, .threads = 256}},
  };
}

TEST(GpuParts, HalvesOfTiles) {
  for (Parts p : Halves()) {
    ExpectComputes(p, Instruction::kWgmma, 128, 128);
    p.how.gpu = "sm_100a";
    ExpectComputes(p, Instruction::kTcgen05Mma, 128, 128);
    p.how.gpu = "sm_80";
    ExpectComputes(p, Instruction::kMma, 128, 128);
    p.how.type = "float16";
    ExpectComputes(p, Instruction::kMma, 128, 128);
    p.how.gpu = "sm_90a";
    ExpectComputes(p, Instruction::kWgmma, 128, 128);
  }
}

// A region of the tile's storage holds all that is read of it, and no more.
TEST(GpuParts, AreWithinTheirRegions) {
  const auto compiled =
      Compile({"(72, 96)", "a[4:68, 24:88]", "(64, 96)", "b[:, 32:]", {.gpu = "sm_80"}});
  ASSERT_TRUE(compiled);
  ir::Walk(compiled->instructions.body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    if (x == nullptr || x->op != Instruction::kMma) return true;
    const ir::Range &a = x->regions[1].ranges[0], &b = x->regions[2].ranges[0];
    EXPECT_EQ(ir::ConstInt(a.min), 0);
    EXPECT_EQ(ir::ConstInt(a.extent), (2 * 72 + 68) * 32);  // three panels of 32 columns
    EXPECT_EQ(ir::ConstInt(b.min), 64 * 32);
    EXPECT_EQ(ir::ConstInt(b.extent), 2 * 64 * 32);
    return true;
  });
}

// Operands that run along k begin at any step of the instruction; the swizzle is the tile's own.
TEST(GpuParts, ThatBeginInsideOfASwizzle) {
  const std::vector<std::pair<Parts, std::pair<int, int>>> cases = {
      {{"(64, 64)", "a[:, 32:]", "(64, 64)", "b[:, 16:48]"}, {128, 128}},
      {{"(64, 128)", "a[:, 48:112]", "(64, 64)", "b"}, {128, 128}},
      {{"(64, 96)", "a[:, 16:80]", "(64, 160)", "b[:, 80:144]"}, {64, 64}},
      {{"(64, 80)", "a[:, 16:]", "(64, 112)", "b[:, 32:96]"}, {32, 32}},
      // Of what only the run knows, swizzles that it cannot begin inside of.
      {{"(64, 128)", "a[:, s * 16:s * 16 + 64]", "(64, 192)", "b[:, s * 48 + 16:s * 48 + 80]"},
       {32, 32}},
      {{"(64, 128)", "a[:, s * 32 + 16:s * 32 + 80]", "(64, 96)", "b[:, s * 32:s * 32 + 64]"},
       {64, 64}},
      {{"(64, 64)", "a[:, 16:32]", "(64, 32)", "b[:, 16:]"}, {128, 64}},
  };
  for (auto [p, swizzles] : cases) {
    for (const char* gpu : {"sm_90a", "sm_100a", "sm_80"}) {
      p.how.gpu = gpu;
      const Instruction product = gpu == std::string("sm_90a")    ? Instruction::kWgmma
                                  : gpu == std::string("sm_100a") ? Instruction::kTcgen05Mma
                                                                  : Instruction::kMma;
      ExpectComputes(p, product, swizzles.first, swizzles.second);
    }
  }
}

// Where rows of B run along n, a part's columns begin and end with a swizzle's: a narrower one.
TEST(GpuParts, ThatAskForANarrowerSwizzle) {
  for (const char* gpu : {"sm_90a", "sm_100a"}) {
    const Instruction product =
        gpu == std::string("sm_90a") ? Instruction::kWgmma : Instruction::kTcgen05Mma;
    const auto expect = [&](Parts p, int a, int b) {
      p.how.gpu = gpu;
      ExpectComputes(p, product, a, b);
    };
    expect({"(64, 64)", "a", "(64, 64)", "b[:, 32:]", {.n = 32, .trans_b = false}}, 128, 64);
    expect({"(64, 64)", "a", "(64, 64)", "b[:, :32]", {.n = 32, .trans_b = false}}, 128, 64);
    expect({"(64, 64)", "a", "(64, 128)", "b[:, 48:64]", {.n = 16, .trans_b = false}}, 128, 32);
    expect({"(64, 64)", "a", "(64, 128)", "b[:, 16:80]", {.trans_b = false}}, 128, 32);
    expect({"(64, 96)", "a[:, 32:]", "(64, 96)", "b[:, 32:]", {.trans_b = false}}, 64, 64);
    expect({"(64, 160)", "a[:, 32:96]", "(64, 64)", "b", {.trans_a = true}}, 64, 128);
    expect({"(64, 160)", "a[:, 80:144]", "(64, 64)", "b", {.trans_a = true}}, 32, 128);
    // Another product of all of it reads it so too, whichever comes first.
    expect(
        {"(64, 64)",
         "a",
         "(64, 128)",
         "b[:, 32:96]",
         {.trans_b = false, .more = "        T.gemm(b[:, 64:], b[:, 64:], c, transpose_A=True)\n"}},
        0, 64);
    expect({"(64, 64)",
            "a",
            "(64, 64)",
            "b",
            {.trans_b = false,
             .more = "        T.gemm(a[:, :32], b[:32, :], c)\n"
                     "        T.gemm(a[:, 32:], b[32:, :], c)\n"}},
           128, 128);
  }
  ExpectComputes(
      {"(64, 64)", "a", "(64, 64)", "b[:, 32:]", {.n = 32, .trans_b = false, .gpu = "sm_80"}},
      Instruction::kMma, 128, 128);
}

TEST(GpuParts, TypesOfOtherWidths) {
  for (const char* type : {"float8_e4m3fn", "float8_e5m2", "int8"}) {
    const char* accum = type == std::string("int8") ? "int32" : "float32";
    for (Parts p : {Parts{"(64, 256)", "a[:, 128:]", "(128, 128)", "b[64:, :]"},
                    Parts{"(2, 64, 128)", "a[s, :, 64:]", "(64, 128)", "b[:, 32:96]"},
                    Parts{"(64, 96)", "a[:, 32:]", "(64, 192)", "b[:, 64:128]"}}) {
      p.how.type = type;
      p.how.accum = accum;
      ExpectComputes(p, Instruction::kWgmma);
      p.how.gpu = "sm_100a";
      ExpectComputes(p, Instruction::kTcgen05Mma);
      p.how.gpu = "sm_89";
      ExpectComputes(p, Instruction::kMma);
    }
    // tcgen05 alone takes bytes whose rows do not run along k.
    ExpectComputes(
        {"(64, 128)",
         "a[:, 64:]",
         "(64, 128)",
         "b[:, 64:]",
         {.trans_a = true, .trans_b = false, .type = type, .accum = accum, .gpu = "sm_100a"}},
        Instruction::kTcgen05Mma, 64, 64);
  }
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (Parts p : {Parts{"(128, 128)", "a[64:, 64:]", "(128, 128)", "b[:64, 64:]"},
                      Parts{"(64, 80)", "a[:, 16:]", "(64, 80)", "b[:, 4:68]"},
                      Parts{"(68, 96)", "a[4:, 8:72]", "(70, 72)", "b[6:, 4:68]"}}) {
        p.how.type = "float32";
        p.how.trans_a = trans_a;
        p.how.trans_b = trans_b;
        p.how.gpu = "sm_80";
        ExpectComputes(p, Instruction::kMma);
      }
    }
  }
  ExpectComputes({"(64, 64)", "a[:, 32:]", "(128, 64)", "b[64:, 8:40]", {.type = "float32"}},
                 Instruction::kWgmma, 128, 128);
}

// Rows inside of an atom, columns at 16 bytes: warps read them where they lie, swizzled by the
// tile's own rows, or in no swizzle at all.
TEST(GpuParts, ThatOnlyWarpsRead) {
  for (const char* gpu : {"sm_80", "sm_90a", "sm_100a"}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        for (Parts p : {Parts{"(68, 64)", "a[4:, :]", "(72, 64)", "b[1:65, :]"},
                        Parts{"(72, 72)", "a[4:68, 8:]", "(80, 88)", "b[3:67, 16:80]"},
                        Parts{"(72, 96)", "a[4:68, 24:88]", "(80, 128)", "b[3:67, 56:120]"},
                        Parts{"(2, 72, 80)", "a[s, 8:, 8:72]", "(2, 66, 64)", "b[page, 2:, :]"}}) {
          p.how.gpu = gpu;
          p.how.trans_a = trans_a;
          p.how.trans_b = trans_b;
          ExpectComputes(p, Instruction::kMma);
        }
      }
    }
  }
}

// One product needs a narrower swizzle than another, whichever comes first.
TEST(GpuParts, OfOneTileInSeveralProducts) {
  const char* whole = "        T.gemm(b, b, c, transpose_B=True)\n";
  const char* part =
      "        for s in T.serial(2):\n"
      "            T.gemm(b[:, s * 32:s * 32 + 32], b[:, :32], c, transpose_B=True)\n";
  ExpectComputes({"(64, 64)",
                  "a[:, s * 32:s * 32 + 32]",
                  "(64, 64)",
                  "b[:, :32]",
                  {.gpu = "sm_80", .more = whole}},
                 Instruction::kMma, 0, 128);
  ExpectComputes({"(64, 64)", "a", "(64, 64)", "b", {.gpu = "sm_80", .more = part}},
                 Instruction::kMma, 0, 64);
}

// A swizzle of the kernel's own that warps know their way in.
TEST(GpuParts, OfTilesThatLieAsTheKernelSays) {
  const How own = {.gpu = "sm_80",
                   .layout =
                       "        T.annotate_layout({a: "
                       "tilelang.layout.make_swizzled_layout(a)})\n"};
  ExpectComputes({"(64, 128)", "a[:, 32:96]", "(64, 64)", "b", own}, Instruction::kMma, 128);
  // It may begin at two places of the swizzle.
  const auto compiled = Compile({"(64, 128)", "a[:, s * 32:s * 32 + 64]", "(64, 64)", "b", own});
  ASSERT_TRUE(compiled);
  EXPECT_FALSE(Has(compiled->instructions, Instruction::kMma));
  EXPECT_EQ(Difference(compiled->tiles, compiled->instructions), "");
}

// What no instruction reads is done by vector units, and the story says why.
TEST(GpuParts, ThatNoInstructionReads) {
  for (const auto& [p, why] : std::vector<std::pair<Parts, const char*>>{
           {{"(64, 72)", "a[:, 4:68]", "(64, 64)", "b"}, "bytes"},
           {{"(64, 68)", "a[:, :64]", "(64, 64)", "b"}, "bytes"},
           {{"(64, 128)", "a[:, page * 8:page * 8 + 64]", "(64, 64)", "b"}, "run"},
           {{"(66, 64)", "a[page:page + 64, :]", "(64, 64)", "b"}, "run"},
       }) {
    for (const char* gpu : {"sm_80", "sm_90a", "sm_100a"}) {
      Parts at = p;
      at.how.gpu = gpu;
      SCOPED_TRACE(absl::StrCat(gpu, " ", at.a, " ", why));
      const auto compiled = Compile(at);
      ASSERT_TRUE(compiled);
      for (const Instruction op :
           {Instruction::kMma, Instruction::kWgmma, Instruction::kTcgen05Mma}) {
        EXPECT_FALSE(Has(compiled->instructions, op));
      }
      EXPECT_EQ(Difference(compiled->tiles, compiled->instructions), "");
    }
  }
}

// Tiles that are fetched ahead, of which each step multiplies the halves one after the other, into
// one result or into two; the kernel's own ring, too.
TEST(GpuParts, InPipelines) {
  constexpr char kHead[] = R"(import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((128, 256), "bfloat16"), B: T.Tensor((128, 256), "bfloat16"),
            C: T.Tensor((128, 128), "float32")):
    with T.Kernel(2, 2, threads=128) as (bx, by):
)";
  constexpr char kTiles[] = R"(
        a = T.alloc_shared((64, 128), "bfloat16")
        b = T.alloc_shared((64, 128), "bfloat16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=STAGES):
            T.copy(A[by * 64, k * 128], a)
            T.copy(B[bx * 64, k * 128], b)
            T.gemm(a[:, :64], b[:, :64], c, transpose_B=True)
            T.gemm(a[:, 64:], b[:, 64:], c, transpose_B=True)
        T.copy(c, C[by * 64, bx * 64])
)";
  constexpr char kResults[] = R"(
        a = T.alloc_shared((64, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        left = T.alloc_fragment((64, 32), "float32")
        right = T.alloc_fragment((64, 32), "float32")
        T.clear(left)
        T.clear(right)
        for k in T.Pipelined(4, num_stages=STAGES):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 64, k * 64], b)
            T.gemm(a, b[:32, :], left, transpose_B=True)
            T.gemm(a, b[32:, :], right, transpose_B=True)
        T.copy(left, C[by * 64, bx * 64])
        T.copy(right, C[by * 64, bx * 64 + 32])
)";
  constexpr char kRing[] = R"(
        a = T.alloc_shared((STAGES, 64, 64), "bfloat16")
        b = T.alloc_shared((STAGES, 64, 128), "bfloat16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.serial(4):
            T.copy(A[by * 64, k * 64], a[k % STAGES, :, :])
            T.copy(B[bx * 64, k * 64], b[k % STAGES, :, 64:])
            T.gemm(a[k % STAGES, :, 32:], b[k % STAGES, :, 96:], c, transpose_B=True)
            T.gemm(a[k % STAGES, :, :32], b[k % STAGES, :, 64:96], c, transpose_B=True)
        T.copy(c, C[by * 64, bx * 64])
)";
  for (const char* body : {kTiles, kResults, kRing}) {
    for (const char* stages : {"1", "2", "3"}) {
      const auto tiles =
          Tiles(absl::StrCat(kHead, absl::StrReplaceAll(body, {{"STAGES", stages}})));
      ASSERT_TRUE(tiles.ok()) << tiles.status() << body;
      for (const char* gpu : {"sm_80", "sm_90a", "sm_100a"}) {
        for (const int cores : {1, 132}) {
          const auto instructions = Instructions(*tiles, gpu, cores);
          ASSERT_TRUE(instructions.ok()) << gpu << instructions.status() << body;
          EXPECT_FALSE(Has(*instructions,
                           gpu == std::string("sm_80") ? Instruction::kWgmma : Instruction::kMma));
          EXPECT_EQ(Difference(*tiles, *instructions), "")
              << gpu << " " << cores << " " << ir::ToString(*instructions);
        }
      }
    }
  }
}

// ---- mistakes ----

// A part that is read from where its atom begins, or with another height of its tile.
TEST(GpuPartsMistakes, AreNoticed) {
  const auto noticed = [](const Parts& p, const char* note, const char* other) {
    const auto compiled = Compile(p);
    return ExpectNoticed(compiled->tiles, compiled->instructions, [&](const ir::Instruct& x) {
      auto notes = x.annotations;
      const bool product = x.op == Instruction::kMma || x.op == Instruction::kWgmma ||
                           x.op == Instruction::kTcgen05Mma;
      if (!product || notes.count(note) == 0) return ir::Stmt();
      notes[note] = other;
      return With(x, x.args, notes);
    });
  };
  const Parts inside = {"(64, 64)", "a[:, 32:]", "(64, 64)", "b[:, 16:48]"};
  EXPECT_EQ(noticed(inside, "column1", "0"), 1);
  EXPECT_EQ(noticed(inside, "column2", "0"), 1);
  const Parts rows = {"(72, 128)", "a[4:68, :]", "(72, 128)", "b[:64, :]"};
  EXPECT_EQ(noticed(rows, "row1", "0"), 1);
  EXPECT_EQ(noticed(rows, "height1", "64"), 1);
  EXPECT_EQ(noticed(rows, "height2", "64"), 1);
  const Parts tensor = {"(64, 64)", "a[:, 32:]", "(128, 128)", "b[64:, 16:48]", {.gpu = "sm_100a"}};
  EXPECT_EQ(noticed(tensor, "column0", "0"), 1);
  EXPECT_EQ(noticed(tensor, "column1", "0"), 1);
}

}  // namespace
}  // namespace kiln
