// Matrices that warps store together: the instruction against its register fragments, programs that
// use it against their tiles, and what a compiler could get wrong about it.
#include "compiler/passes/store_matrices.h"

#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/axis.h"
#include "compiler/layout/fragments.h"
#include "compiler/passes/explain_layouts.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;
using testing::Difference;
using testing::Elaborated;
using testing::ExpectNoticed;
using testing::Has;
using testing::Instructions;
using testing::With;

constexpr ir::Instruction kStores = ir::Instruction::kStoreMatrices;

// One warp stores `count` matrices, of which lane l holds values 8 l and those that follow, rows in
// reverse order; then they go to a tensor.
ir::Program OneWarp(int count, bool transposed) {
  const SourceLoc loc;
  const std::vector<Expr> shape = {MakeInt(8 * count), MakeInt(8)};
  const ir::Buffer out = ir::MakeBuffer("out", kFloat16, shape, ir::Scope::kGlobal);
  const ir::Buffer tile = ir::MakeBuffer("tile", kFloat16, shape, ir::Scope::kShared);
  const auto threads = [&](const std::function<Stmt(const Expr&)>& body) {
    const Expr thread = ir::MakeVar("thread", kInt32);
    return ir::MakeStmt<ir::For>(loc, ir::ForKind::kThreads,
                                 std::vector<ir::Axis>{{thread, MakeInt(0), MakeInt(32)}},
                                 body(thread));
  };
  const Stmt store = threads([&](const Expr& thread) {
    const Expr row = MakeInt(8 * count - 1) - FloorMod(thread, MakeInt(8 * count));
    std::vector<Expr> values;
    for (int i = 0; i < 2 * count; ++i) {
      values.push_back(ir::MakeCast(kFloat16, thread * MakeInt(8) + MakeInt(i)));
    }
    std::map<std::string, std::string> notes;
    if (transposed) notes["trans"] = "1";
    return ir::MakeStmt<ir::Instruct>(
        loc, kStores,
        std::vector<ir::Region>{{tile, {{row, MakeInt(1)}, {MakeInt(0), MakeInt(8)}}}}, values,
        notes);
  });
  const Stmt copy = threads([&](const Expr& thread) {
    std::vector<Stmt> stmts;
    for (int i = 0; i < 2 * count; ++i) {
      const Expr flat = thread * MakeInt(2 * count) + MakeInt(i);
      const std::vector<Expr> at = {FloorDiv(flat, MakeInt(8)), FloorMod(flat, MakeInt(8))};
      stmts.push_back(ir::MakeStmt<ir::Store>(loc, out, at, ir::MakeLoad(tile, at)));
    }
    return ir::MakeSeq(stmts, loc);
  });
  const Stmt body = ir::MakeStmt<ir::Seq>(
      loc, std::vector<Stmt>{ir::MakeStmt<ir::Alloc>(loc, tile), store,
                             ir::MakeInstruct(loc, ir::Instruction::kBlockBarrier), copy});
  ir::Program program;
  program.name = "warp";
  program.params.push_back({ir::Param::kTensor, "out", out, {}, true});
  program.body = ir::MakeStmt<ir::Launch>(
      loc, std::vector<ir::Axis>{{ir::MakeVar("bx", kInt32), MakeInt(0), MakeInt(1)}},
      std::vector<Expr>{MakeInt(32)}, body);
  return program;
}

TEST(StoreMatrices, TheInstructionIsItsFragments) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      const auto fragment = layout::MatrixFragment(count, transposed);
      ASSERT_TRUE(fragment.ok()) << fragment.status();
      for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
        const ir::Program program = OneWarp(count, transposed);
        interp::Options options;
        options.order = order;
        options.meet_at_barriers = true;
        auto out = interp::RandomArguments(program, options, 1);
        ASSERT_TRUE(out.ok()) << out.status();
        const auto ran = interp::Run(program, {(*out)[0].View()}, options);
        ASSERT_TRUE(ran.ok()) << ran.status();
        for (int64_t row = 0; row < 8 * count; ++row) {
          for (int64_t column = 0; column < 8; ++column) {
            const auto place = fragment->Apply({row, column}, {8 * count, 8});
            ASSERT_TRUE(place.ok()) << place.status();
            layout::Coord at = (*place)[0];
            const int64_t want = at[layout::Axis::kLaneid] * 8 + at[layout::Axis::kM];
            const int64_t flat = (8 * count - 1 - row) * 8 + column;
            EXPECT_EQ((*out)[0].View().Get(flat), static_cast<double>(want))
                << count << " " << transposed << " " << row << " " << column;
          }
        }
      }
    }
  }
}

// A product whose result goes to the tensor by way of a tile, as it is or turned.
std::string Text(int m, int n, int threads, const char* type, bool turned,
                 const char* layout = "") {
  const std::string out = turned ? absl::StrCat(n, ", ", m) : absl::StrCat(m, ", ", n);
  return absl::StrCat("import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\n",
                      "def product(A: T.Tensor((", m, ", 64), \"", type, "\"), B: T.Tensor((64, ",
                      n, "), \"", type, "\"), C: T.Tensor((", out, "), \"", type,
                      "\")):\n    with T.Kernel(1, threads=", threads,
                      ") as bx:\n        a = T.alloc_shared((", m, ", 64), \"", type,
                      "\")\n        b = T.alloc_shared((64, ", n, "), \"", type,
                      "\")\n        c = T.alloc_fragment((", m, ", ", n,
                      "), \"float32\")\n        out = T.alloc_shared((", out, "), \"", type,
                      "\")\n", layout, "        T.copy(A, a)\n        T.copy(B, b)\n",
                      "        T.gemm(a, b, c, clear_accum=True)\n        for i, j in T.Parallel(",
                      m, ", ", n, "):\n            out[", turned ? "j, i" : "i, j",
                      "] = c[i, j] * 2.0\n        T.copy(out, C)\n");
}

TEST(StoreMatrices, ResultsOfProducts) {
  const char* annotated =
      "        T.annotate_layout({out: tilelang.layout.make_swizzled_layout(out)})\n";
  for (const char* gpu : {"sm_90a", "sm_100a"}) {
    for (const char* type : {"float16", "bfloat16"}) {
      for (const bool turned : {false, true}) {
        for (const char* layout : {"", annotated}) {
          for (const auto& [m, n, threads] :
               {std::tuple(64, 64, 128), std::tuple(128, 64, 256), std::tuple(64, 24, 128)}) {
            if (layout[0] != '\0' && n == 24) continue;
            const std::string text = Text(m, n, threads, type, turned, layout);
            auto tiles = Elaborated("k.py", text);
            ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
            tiles->attrs["kiln.tcgen05"] = "0";
            const auto program = Instructions(*tiles, gpu);
            ASSERT_TRUE(program.ok()) << program.status() << text;
            EXPECT_TRUE(Has(*program, kStores)) << text << ir::ToString(*program);
            EXPECT_EQ(Difference(*tiles, *program), "") << text << ir::ToString(*program);
          }
        }
      }
    }
  }
}

// By TMA, out of the tile that the pass before made for it; float32 stays as it was.
TEST(StoreMatrices, ResultsThatTmaStores) {
  for (const char* accum : {"float32", "float16"}) {
    testing::Case c = {.type = "float16", .accum = "float32"};
    std::string text = testing::Text(c);
    const std::string want = "C: T.Tensor((128, 128), \"float32\")";
    const size_t at = text.find(want);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, want.size(), absl::StrCat("C: T.Tensor((128, 128), \"", accum, "\")"));
    const auto tiles = Elaborated("k.py", text);
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    const auto program = Instructions(*tiles, "sm_90a");
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(Has(*program, ir::Instruction::kTensorStore));
    EXPECT_EQ(Has(*program, kStores), accum == std::string("float16")) << ir::ToString(*program);
    EXPECT_EQ(Difference(*tiles, *program), "") << ir::ToString(*program);
  }
}

TEST(StoreMatrices, OlderGpusStoreOneByOne) {
  const auto tiles = Elaborated("k.py", Text(64, 64, 128, "float16", false));
  const auto program = Instructions(*tiles, "sm_89");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_FALSE(Has(*program, kStores));
}

TEST(StoreMatrices, MistakesAreNoticed) {
  for (const bool turned : {false, true}) {
    const auto tiles = Elaborated("k.py", Text(64, 64, 128, "float16", turned));
    const auto program = Instructions(*tiles, "sm_90a");
    ASSERT_TRUE(program.ok()) << program.status();
    const auto of_stores = [&](const std::function<Stmt(const ir::Instruct&)>& change) {
      EXPECT_EQ(ExpectNoticed(
                    *tiles, *program,
                    [&](const ir::Instruct& x) { return x.op == kStores ? change(x) : Stmt(); }),
                1);
    };
    of_stores([](const ir::Instruct& x) { return testing::Nothing(x); });
    of_stores([](const ir::Instruct& x) {  // turned where it should not be, and the reverse
      auto notes = x.annotations;
      if (notes.erase("trans") == 0) notes["trans"] = "1";
      return With(x, x.args, notes);
    });
    of_stores([](const ir::Instruct& x) {  // two matrices for each other
      std::vector<Expr> values = x.args;
      std::swap(values[0], values[2]);
      std::swap(values[1], values[3]);
      return With(x, values, x.annotations);
    });
    of_stores([](const ir::Instruct& x) {  // the halves of a pair
      std::vector<Expr> values = x.args;
      std::swap(values[0], values[1]);
      return With(x, values, x.annotations);
    });
    of_stores([](const ir::Instruct& x) {  // rows that begin in between
      std::vector<ir::Region> regions = x.regions;
      regions[0].ranges.back().min = regions[0].ranges.back().min + MakeInt(4);
      return ir::MakeStmt<ir::Instruct>(x.loc, x.op, regions, x.args, x.annotations);
    });
  }
}

TEST(StoreMatrices, TheStorySaysSo) {
  const target::Arch gpu = *target::NamedArch("sm_90a");
  passes::PassContext context;
  context.gpu = &gpu;
  const auto story = [&](bool turned) {
    const auto tiles = Elaborated("k.py", Text(64, 64, 128, "float16", turned));
    const auto told = passes::ExplainLayouts(*tiles, passes::LayoutCost::kTraffic, context);
    EXPECT_TRUE(told.ok()) << told.status();
    return told.value_or("");
  };
  EXPECT_TRUE(absl::StrContains(story(false), "stores to out: 4 matrices an instruction"))
      << story(false);
  EXPECT_TRUE(absl::StrContains(story(true), "stores to out: 4 transposed matrices"))
      << story(true);
}

}  // namespace
}  // namespace kiln
