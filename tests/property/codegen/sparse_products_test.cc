// T.gemm_sp by everything that runs kernels, against products of the whole matrices: A is made at
// random with at most so many numbers a group, zeros among them, and compressed here, by the
// meaning of its metadata (compiler/ir/sparse.h) and nothing of the compiler's.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/explain_layouts.h"
#include "compiler/passes/fuse_sparse.h"
#include "tests/util/everywhere.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using ir::Instruction;
using testing::Elaborated;
using testing::Has;
using testing::Instructions;
using testing::Views;

struct Case {
  int m = 64, n = 64, k = 128;
  int block_m = 32, block_n = 32, block_k = 64, stages = 2, threads = 64;
  std::string type = "float16", metadata = "int16", accum = "float32";
  bool trans_a = false, trans_e = false, trans_b = false;
  std::string options = "";  // of jit
  std::string head = "";     // statements before the loop
  std::string a = "a", e = "e", b = "b";
  std::string step = "";  // statements before each product

  bool tf32() const { return absl::StrContains(options, "tf32"); }
  int group() const { return type == "float32" ? 2 : 4; }
  int bits() const { return std::stoi(metadata.substr(metadata.find('t') + 1)); }
  int per() const { return bits() / 4 * group(); }
};

std::string Shape(bool turned, int rows, int columns) {
  return turned ? absl::StrCat("(", columns, ", ", rows, ")")
                : absl::StrCat("(", rows, ", ", columns, ")");
}

std::string At(bool turned, const std::string& row, const std::string& column) {
  return turned ? absl::StrCat("[", column, ", ", row, "]")
                : absl::StrCat("[", row, ", ", column, "]");
}

std::string Text(const Case& c) {
  const std::string type = absl::StrCat("\"", c.type, "\""),
                    e = absl::StrCat("\"", c.metadata, "\"");
  const auto flag = [](bool f) { return f ? "True" : "False"; };
  const std::string row = absl::StrCat("by * ", c.block_m),
                    column = absl::StrCat("bx * ", c.block_n);
  const auto tensor = [](const std::string& shape, const std::string& of) {
    return absl::StrCat("T.Tensor(", shape, ", ", of, ")");
  };
  const auto tile = [](const std::string& shape, const std::string& of) {
    return absl::StrCat("T.alloc_shared(", shape, ", ", of, ")\n        ");
  };
  std::string text = absl::StrCat(
      "import tilelang\nimport tilelang.language as T\n\n\n",
      c.options.empty() ? "" : absl::StrCat("@tilelang.jit(", c.options, ")\n"),
      "def kernel():\n  @T.prim_func\n  def main(A: ", tensor(Shape(c.trans_a, c.m, c.k / 2), type),
      ", E: ", tensor(Shape(c.trans_e, c.m, c.k / c.per()), e),
      ", B: ", tensor(Shape(c.trans_b, c.k, c.n), type),
      ", C: ", tensor(Shape(false, c.m, c.n), absl::StrCat("\"", c.accum, "\"")), "):\n");
  absl::StrAppend(&text, "    with T.Kernel(T.ceildiv(", c.n, ", ", c.block_n, "), T.ceildiv(", c.m,
                  ", ", c.block_m, "), threads=", c.threads, ") as (bx, by):\n        a = ",
                  tile(Shape(c.trans_a, c.block_m, c.block_k / 2), type),
                  "e = ", tile(Shape(c.trans_e, c.block_m, c.block_k / c.per()), e),
                  "b = ", tile(Shape(c.trans_b, c.block_k, c.block_n), type),
                  "c = T.alloc_fragment((", c.block_m, ", ", c.block_n, "), \"", c.accum, "\")\n",
                  c.head, "        T.clear(c)\n        for k in T.Pipelined(", c.k / c.block_k,
                  ", num_stages=", c.stages, "):\n");
  absl::StrAppend(
      &text, "            T.copy(A", At(c.trans_a, row, absl::StrCat("k * ", c.block_k / 2)),
      ", a)\n            T.copy(E", At(c.trans_e, row, absl::StrCat("k * ", c.block_k / c.per())),
      ", e)\n            T.copy(B", At(c.trans_b, absl::StrCat("k * ", c.block_k), column),
      ", b)\n", c.step, "            T.gemm_sp(", c.a, ", ", c.e, ", ", c.b, ", c, ",
      flag(c.trans_a), ", ", flag(c.trans_e), ", ", flag(c.trans_b), ")\n");
  return absl::StrCat(text, "        T.copy(c, C[", row, ", ", column, "])\n  return main\n");
}

// What a kernel is given, and what must come out.
struct Product {
  std::vector<double> a, b, c;
  std::vector<int64_t> e;  // elements of metadata, turned like E
};

int64_t Signed(uint64_t word, int bits) {
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>((word ^ sign) - sign);
}

Product Make(const Case& c, uint64_t seed = 3) {
  std::mt19937_64 rng(seed);
  std::uniform_int_distribution<int> number(-3, 3);
  const int group = c.group(), kept = group / 2;
  std::vector<double> dense(static_cast<size_t>(c.m) * c.k, 0);
  Product p;
  p.a.resize(dense.size() / 2);
  p.e.resize(static_cast<size_t>(c.m) * (c.k / c.per()));
  const auto place = [](bool turned, int row, int column, int rows, int columns) {
    return static_cast<size_t>(turned ? column * rows + row : row * columns + column);
  };
  for (int row = 0; row < c.m; ++row) {
    for (int word = 0; word < c.k / c.per(); ++word) {
      uint64_t bits = 0;
      for (int g = 0; g < c.per() / group; ++g) {
        const int at = word * c.per() / group + g;
        std::vector<int> places(static_cast<size_t>(group));
        std::iota(places.begin(), places.end(), 0);
        std::shuffle(places.begin(), places.end(), rng);
        std::sort(places.begin(), places.begin() + kept);
        for (int i = 0; i < kept; ++i) {
          const double value = number(rng);  // 0 too
          dense[static_cast<size_t>(row * c.k + at * group + places[i])] = value;
          p.a[place(c.trans_a, row, at * kept + i, c.m, c.k / 2)] = value;
        }
        const int nibble = kept == 2 ? places[0] | places[1] << 2 : places[0] == 0 ? 4 : 14;
        bits |= static_cast<uint64_t>(nibble) << (4 * g);
      }
      const int64_t value =
          c.metadata[0] == 'u' ? static_cast<int64_t>(bits) : Signed(bits, c.bits());
      p.e[place(c.trans_e, row, word, c.m, c.k / c.per())] = value;
    }
  }
  std::vector<double> b(static_cast<size_t>(c.k) * c.n);
  p.b.resize(b.size());
  for (int k = 0; k < c.k; ++k) {
    for (int n = 0; n < c.n; ++n) {
      b[static_cast<size_t>(k * c.n + n)] = number(rng);
      p.b[place(c.trans_b, k, n, c.k, c.n)] = b[static_cast<size_t>(k * c.n + n)];
    }
  }
  p.c.assign(static_cast<size_t>(c.m) * c.n, 0);
  for (int row = 0; row < c.m; ++row) {
    for (int k = 0; k < c.k; ++k) {
      const double x = dense[static_cast<size_t>(row * c.k + k)];
      for (int n = 0; n < c.n && x != 0; ++n) {
        p.c[static_cast<size_t>(row * c.n + n)] += x * b[static_cast<size_t>(k * c.n + n)];
      }
    }
  }
  return p;
}

void Fill(const Product& p, const Views& v) {
  for (size_t i = 0; i < p.a.size(); ++i) v[0].Set(static_cast<int64_t>(i), p.a[i]);
  for (size_t i = 0; i < p.e.size(); ++i)
    v[1].Set(static_cast<int64_t>(i), static_cast<double>(p.e[i]));
  for (size_t i = 0; i < p.b.size(); ++i) v[2].Set(static_cast<int64_t>(i), p.b[i]);
}

void ExpectEverywhere(const Case& c) {
  const Product p = Make(c);
  testing::RunEverywhere(
      Text(c), [&](const Views& v) { Fill(p, v); },
      [&](const Views& v, const std::string& where) {
        for (size_t i = 0; i < p.c.size(); ++i) {
          ASSERT_EQ(v[3].Get(static_cast<int64_t>(i)), p.c[i]) << where << ", element " << i;
        }
      });
}

// What a program makes of the product; what is wrong, where the interpreter says so.
std::string Wrong(const ir::Program& program, const Product& p,
                  interp::Order order = interp::Order::kForward) {
  const auto tensors = *interp::RandomArguments(program, {}, 7);
  Views views;
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  Fill(p, views);
  interp::Options options;
  options.order = order;
  options.meet_at_barriers = true;
  const auto ran = interp::Run(program, views, options);
  if (!ran.ok()) return std::string(ran.status().message());
  for (size_t i = 0; i < p.c.size(); ++i) {
    const double got = views[3].Get(static_cast<int64_t>(i));
    if (got != p.c[i]) return absl::StrCat("element ", i, " is ", got, ", not ", p.c[i]);
  }
  return "";
}

void ExpectOn(const char* gpu, const Case& c, bool sparse = true) {
  const std::string text = Text(c);
  SCOPED_TRACE(absl::StrCat(gpu, ":\n", text));
  const auto program = Elaborated("k.py", text);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto instructions = Instructions(*program, gpu);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_EQ(Has(*instructions, Instruction::kSparseMma), sparse);
  const Product p = Make(c);
  for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
    EXPECT_EQ(Wrong(*instructions, p, order), "") << ir::ToString(*instructions);
  }
}

TEST(SparseProducts, OfEveryTypeAndMetadata) {
  for (const char* metadata : {"int8", "int16", "int32", "uint8", "uint16", "uint32"}) {
    ExpectEverywhere({.metadata = metadata});
  }
  for (const char* metadata : {"int16", "int32"}) {
    ExpectEverywhere({.type = "bfloat16", .metadata = metadata});
    ExpectEverywhere({.type = "int8", .metadata = metadata, .accum = "int32", .trans_b = true});
    ExpectEverywhere({.type = "float8_e5m2", .metadata = metadata, .trans_b = true});
  }
  ExpectEverywhere({.type = "float32", .metadata = "int8", .trans_b = true});
  ExpectEverywhere(
      {.type = "float32", .trans_b = true, .options = "pass_configs={\"kiln.tf32\": 1}"});
}

TEST(SparseProducts, Turned) {
  for (int turned = 0; turned < 8; ++turned) {
    ExpectEverywhere(
        {.trans_a = (turned & 1) != 0, .trans_e = (turned & 2) != 0, .trans_b = (turned & 4) != 0});
  }
  ExpectEverywhere(
      {.type = "int8", .metadata = "int32", .accum = "int32", .trans_a = true, .trans_e = true});
  ExpectEverywhere({.metadata = "int8", .trans_a = true, .trans_e = true});
}

TEST(SparseProducts, OfManyShapes) {
  for (const int threads : {32, 128, 256}) {
    ExpectEverywhere({.m = 128, .block_m = 64, .block_n = 64, .threads = threads});
  }
  ExpectEverywhere({.m = 80, .n = 40, .k = 192});  // edges of the tensors
  ExpectEverywhere({.n = 24, .k = 32, .block_n = 24, .block_k = 32, .threads = 32});
  for (const int stages : {0, 1, 3}) ExpectEverywhere({.k = 320, .stages = stages});
}

// The metadata of a step is in words that an instruction's may be a part of, or several.
TEST(SparseProducts, OfEveryInstruction) {
  for (const char* gpu : {"sm_80", "sm_86", "sm_89", "sm_90a"}) {
    for (const char* metadata : {"int8", "int16", "int32"}) {
      ExpectOn(gpu, {.metadata = metadata});
      ExpectOn(gpu, {.type = "bfloat16", .metadata = metadata, .trans_a = true, .trans_e = true});
      ExpectOn(gpu, {.block_k = 128,
                     .type = "int8",
                     .metadata = metadata,
                     .accum = "int32",
                     .trans_b = true});
      ExpectOn(gpu, {.type = "float32",
                     .metadata = metadata,
                     .trans_b = true,
                     .options = "pass_configs={\"kiln.tf32\": 1}"});
    }
  }
  for (const char* type : {"float8_e4m3fn", "float8_e5m2"}) {
    ExpectOn("sm_89", {.type = type, .metadata = "int32", .trans_b = true});
    ExpectOn("sm_90a", {.type = type, .trans_b = true});
    ExpectOn("sm_86", {.type = type, .trans_b = true}, /*sparse=*/false);
  }
}

TEST(SparseProducts, OfPartsOfTiles) {
  // Of tiles twice as deep, of which the second half is multiplied.
  Case c = {.block_k = 64};
  c.head =
      "        a2 = T.alloc_shared((32, 64), \"float16\")\n"
      "        e2 = T.alloc_shared((32, 8), \"int16\")\n";
  c.step =
      "            T.fill(a2, 7)\n            T.fill(e2, 0x4444)\n"
      "            T.copy(a, a2[:, 32:64])\n            T.copy(e, e2[:, 4:8])\n";
  c.a = "a2[:, 32:64]";
  c.e = "e2[:, 4:8]";
  for (const char* gpu : {"sm_80", "sm_90a"}) ExpectOn(gpu, c);
}

// A by way of a fragment.
Case FromRegisters(Case c) {
  c.a = "f";
  absl::StrAppend(&c.head, "        f = T.alloc_fragment(",
                  Shape(c.trans_a, c.block_m, c.block_k / 2), ", \"", c.type, "\")\n");
  absl::StrAppend(&c.step, "            T.copy(a, f)\n");
  return c;
}

TEST(SparseProducts, OfLeftOperandsInRegisters) {
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    for (const char* metadata : {"int8", "int16", "int32"}) {
      ExpectOn(gpu, FromRegisters({.metadata = metadata}));
      ExpectOn(gpu, FromRegisters({.block_k = 128,
                                   .type = "int8",
                                   .metadata = metadata,
                                   .accum = "int32",
                                   .trans_b = true}));
    }
    ExpectOn(gpu, FromRegisters({.m = 128, .block_m = 64, .threads = 32, .type = "bfloat16"}));
  }
  ExpectOn("sm_89", FromRegisters({.type = "float8_e4m3fn", .trans_b = true}));
}

// What an instruction does not take from registers goes through shared memory: A that several
// columns of warps read, turned or of float32, and B.
TEST(SparseProducts, OfOperandsThatAreStaged) {
  Case b = {};
  b.head = "        g = T.alloc_fragment((64, 32), \"float16\")\n";
  b.b = "g";
  b.step = "            T.copy(b, g)\n";
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    ExpectOn(gpu, FromRegisters({.threads = 128}));
    ExpectOn(gpu, FromRegisters({.trans_a = true, .trans_e = true}));
    ExpectOn(gpu, FromRegisters({.type = "float32",
                                 .trans_b = true,
                                 .options = "pass_configs={\"kiln.tf32\": 1}"}));
    ExpectOn(gpu, b);
    ExpectOn(gpu, FromRegisters(b));
  }
}

std::string Story(const Case& c, const char* gpu) {
  const target::Arch arch = *target::NamedArch(gpu);
  passes::PassContext context;
  context.gpu = &arch;
  const auto program = Elaborated("k.py", Text(c));
  if (!program.ok()) return std::string(program.status().message());
  const auto story = passes::ExplainLayouts(*program, passes::LayoutCost::kTraffic, context);
  return story.ok() ? *story : std::string(story.status().message());
}

// Where no instruction takes the sparse form, the whole matrix is multiplied, and the story says
// why.
TEST(SparseProducts, ElsewhereOfTheWholeMatrix) {
  const auto expanded = [](const Case& c, const char* gpu, const std::string& why) {
    ExpectOn(gpu, c, /*sparse=*/false);
    EXPECT_TRUE(absl::StrContains(Story(c, gpu), absl::StrCat("not mma.sp: ", why)))
        << Story(c, gpu);
  };
  EXPECT_TRUE(absl::StrContains(Story({}, "sm_90a"), "mma.sp says who holds"));
  expanded({.options = "pass_configs={\"kiln.sparse\": 0}"}, "sm_80", "\"kiln.sparse\" is 0");
  expanded({.block_m = 128, .block_n = 64, .threads = 128}, "sm_100a",
           "tcgen05 multiplies the whole matrix");
  expanded({.type = "float32", .trans_b = true}, "sm_80", "products of float32 are exact");
  expanded({.type = "float32", .options = "pass_configs={\"kiln.tf32\": 1}"}, "sm_80",
           "mma.sp on float32 needs both operands K-major");
  expanded({.type = "int8", .accum = "int32"}, "sm_80",
           "mma.sp on int8 needs both operands K-major");
  expanded({.block_k = 32, .type = "int8", .accum = "int32", .trans_b = true}, "sm_90a",
           "K tile = 32 is not a multiple of 64");
  expanded(
      {.head = "        T.annotate_layout({a: T.Layout((32, 32), lambda i, j: i * 40 + j)})\n"},
      "sm_80", "the kernel says how a lies");
}

// Sums that the kernel holds otherwise are the vector units', who expand what they read.
TEST(SparseProducts, OnVectorUnits) {
  Case c = {.head =
                "        T.annotate_layout({c: T.Fragment((32, 32), forward_fn=lambda i, j: "
                "(i % 2 * 32 + j, i // 2))})\n"};
  for (const char* gpu : {"sm_80", "sm_90a"}) ExpectOn(gpu, c, /*sparse=*/false);
  ExpectOn("sm_80", FromRegisters(c), /*sparse=*/false);
  c.trans_a = c.trans_e = true;
  ExpectOn("sm_80", c, /*sparse=*/false);
}

// Indices that do not ascend are no metadata: the instruction's interpreter says so.
TEST(SparseProducts, RefuseWhatIsNoMetadata) {
  for (const auto& [type, group] :
       {std::pair("float16", 0x5), {"float16", 0x1}, {"float16", 0xb}, {"float32", 0x9}}) {
    const bool wide = type == std::string("float32");
    Case c = {.type = type, .trans_b = true};
    if (wide) c.options = "pass_configs={\"kiln.tf32\": 1}";
    const auto program = Elaborated("k.py", Text(c));
    ASSERT_TRUE(program.ok()) << program.status();
    const auto fused = Instructions(*program, "sm_80");
    ASSERT_TRUE(fused.ok());
    Product p = Make(c);
    p.e[5] =
        Signed((static_cast<uint64_t>(p.e[5]) & 0xff0f) | static_cast<uint64_t>(group) << 4, 16);
    EXPECT_TRUE(absl::StrContains(Wrong(*fused, p), "'e' is no metadata in row"))
        << Wrong(*fused, p);
    // A product of tiles that takes the sparse form itself.
    passes::PassContext context;
    const auto tiles = passes::FuseSparse(*program, context);
    ASSERT_TRUE(tiles.ok());
    EXPECT_TRUE(absl::StrContains(ir::ToString(*tiles), "gemm a where e @ b.T -> c"));
    EXPECT_TRUE(absl::StrContains(Wrong(*tiles, p), "'e' is no metadata in row"));
    EXPECT_EQ(Wrong(*tiles, Make(c)), "");
  }
}

// Other metadata is another matrix: each group of it matters, on every path.
TEST(SparseProducts, NoticeWrongMetadata) {
  for (const Case& c :
       {Case{},
        {.block_k = 128, .type = "int8", .metadata = "int32", .accum = "int32", .trans_b = true},
        {.trans_a = true, .trans_e = true}}) {
    const auto program = Elaborated("k.py", Text(c));
    ASSERT_TRUE(program.ok()) << program.status();
    const auto fused = Instructions(*program, "sm_80");
    ASSERT_TRUE(fused.ok());
    const Product right = Make(c);
    for (size_t i = 0; i < right.e.size(); i += 7) {
      const auto group = static_cast<uint64_t>(i % static_cast<size_t>(c.bits() / 4));
      Product p = right;
      auto word = static_cast<uint64_t>(p.e[i]);
      const uint64_t nibble = word >> (4 * group) & 15, other = nibble == 0x4 ? 0xe : 0x4;
      word ^= (nibble ^ other) << (4 * group);
      p.e[i] = Signed(word & (~uint64_t{0} >> (64 - c.bits())), c.bits());
      const bool tells = Wrong(*program, p) != "";  // but where what moves is zero
      EXPECT_EQ(Wrong(*fused, p) != "", tells) << "word " << i << ", group " << group;
    }
  }
}

// Mistakes of a compiler: metadata of other rows or steps, turned, or a step too shallow.
TEST(SparseProducts, NoticeMistakes) {
  const Case c = {.block_m = 64, .block_k = 128, .metadata = "int32"};
  const auto program = Elaborated("k.py", Text(c));
  ASSERT_TRUE(program.ok()) << program.status();
  const auto fused = Instructions(*program, "sm_80");
  ASSERT_TRUE(fused.ok());
  const Product p = Make(c);
  ASSERT_EQ(Wrong(*fused, p), "");
  int changes = 0;
  for (const char* mistake : {"trans_e", "trans_a", "trans_b", "k", "e"}) {
    ir::Program mistaken = *fused;
    mistaken.body = ir::RewriteStmts(fused->body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* x = s.As<ir::Instruct>();
      if (x == nullptr || x->op != Instruction::kSparseMma) return {};
      ++changes;
      auto notes = x->annotations;
      auto regions = x->regions;
      if (mistake == std::string("k")) {
        notes["k"] = "64";
      } else if (mistake == std::string("e")) {
        ir::Range& row = regions[3].ranges[regions[3].ranges.size() - 2];
        row = {row.min + ir::MakeInt(1), row.extent - ir::MakeInt(1)};
      } else {
        notes[mistake] = notes[mistake] == "1" ? "0" : "1";
      }
      return ir::MakeStmt<ir::Instruct>(x->loc, x->op, regions, x->args, notes);
    });
    EXPECT_NE(Wrong(mistaken, p), "") << mistake << "\n" << ir::ToString(mistaken);
  }
  EXPECT_GE(changes, 5);
}

// Instructions as text, by type; and that they assemble.
TEST(SparseProducts, AreInstructionsOfTheGpu) {
  const std::string tf32 = "pass_configs={\"kiln.tf32\": 1}";
  const std::pair<Case, const char*> cases[] = {
      {{}, "m16n8k32.row.col.f32.f16.f16.f32"},
      {{.type = "bfloat16", .metadata = "int32"}, "m16n8k32.row.col.f32.bf16.bf16.f32"},
      {{.type = "int8", .metadata = "int8", .accum = "int32", .trans_b = true},
       "m16n8k64.row.col.s32.s8.s8.s32"},
      {{.type = "float32", .trans_b = true, .options = tf32}, "m16n8k16.row.col.f32.tf32.tf32.f32"},
      {{.type = "float8_e5m2", .trans_b = true}, "m16n8k64.row.col.f32.e5m2.e5m2.f32"}};
  for (const auto& [c, instruction] : cases) {
    for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a"}) {
      if (c.type == "float8_e5m2" && (arch == std::string("sm_80") || arch == std::string("sm_86")))
        continue;
      codegen::CompileInput input;
      input.kernel_source = Text(c);
      input.kernel_path = "k.py";
      input.entry = "kernel";
      input.arch_record = target::ToText(*target::NamedArch(arch));
      const auto ptx = codegen::EmitStage(input, "asm");
      ASSERT_TRUE(ptx.ok()) << arch << ": " << ptx.status() << "\n" << Text(c);
      EXPECT_TRUE(absl::StrContains(
          *ptx, absl::StrCat("mma.sp::ordered_metadata.sync.aligned.", instruction)))
          << arch << "\n"
          << *ptx;
      if (!codegen::AssemblerVersion().ok()) continue;
      const auto cubin = codegen::Assemble(*ptx, arch);
      EXPECT_TRUE(cubin.ok()) << arch << ": " << cubin.status();
    }
  }
}

}  // namespace
}  // namespace kiln
