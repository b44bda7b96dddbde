#include "tests/property/passes/gpu_products.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/explain_layouts.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln::testing {

std::string Text(const Case& c) {
  const auto shape = [](bool trans, int rows, int columns) {
    return trans ? absl::StrCat("(", columns, ", ", rows, ")")
                 : absl::StrCat("(", rows, ", ", columns, ")");
  };
  const auto at = [](bool trans, const std::string& row, const std::string& column) {
    return trans ? absl::StrCat(column, ", ", row) : absl::StrCat(row, ", ", column);
  };
  const std::string step = absl::StrCat("k * ", c.block_k);
  const char* hint = c.streamed ? ", eviction_policy=\"evict_first\"" : "";
  std::string text =
      absl::StrCat("import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\n",
                   "def product(A: T.Tensor(", shape(c.trans_a, c.m, c.k), ", \"", c.type,
                   "\"), B: T.Tensor(", shape(c.trans_b, c.k, c.n), ", \"", c.type,
                   "\"), C: T.Tensor((", c.m, ", ", c.n, "), \"", c.accum, "\")):\n");
  absl::StrAppend(&text, "    with T.Kernel(T.ceildiv(", c.n, ", ", c.block_n, "), T.ceildiv(", c.m,
                  ", ", c.block_m, "), threads=", c.threads, ") as (bx, by):\n");
  absl::StrAppend(&text, "        a = T.alloc_shared(", shape(c.trans_a, c.block_m, c.block_k),
                  ", \"", c.type, "\")\n        b = T.alloc_shared(",
                  shape(c.trans_b, c.block_k, c.block_n), ", \"", c.type, "\")\n");
  if (c.registers) {
    absl::StrAppend(&text, "        f = T.alloc_fragment(", shape(c.trans_a, c.block_m, c.block_k),
                    ", \"", c.type, "\")\n");
  }
  absl::StrAppend(&text, "        c = T.alloc_fragment((", c.block_m, ", ", c.block_n, "), \"",
                  c.accum, "\")\n        T.clear(c)\n        for k in T.Pipelined(T.ceildiv(", c.k,
                  ", ", c.block_k, "), num_stages=", c.stages, "):\n");
  absl::StrAppend(
      &text, "            T.copy(A[", at(c.trans_a, absl::StrCat("by * ", c.block_m), step), "], a",
      hint, ")\n", "            T.copy(B[", at(c.trans_b, step, absl::StrCat("bx * ", c.block_n)),
      "], b", hint, ")\n", c.registers ? "            T.copy(a, f)\n" : "", "            T.gemm(",
      c.registers ? "f" : "a", ", b, c, transpose_A=", c.trans_a ? "True" : "False",
      ", transpose_B=", c.trans_b ? "True" : "False", ")\n");
  absl::StrAppend(&text, "        T.copy(c, C[by * ", c.block_m, ", bx * ", c.block_n, "])\n");
  return text;
}

absl::StatusOr<ir::Program> Lowered(const ir::Program& program, const Case& c) {
  return Instructions(program, c.gpu, c.cores);
}

std::string Story(const Case& c) {
  const target::Arch gpu = *target::NamedArch("sm_90a");
  passes::PassContext context;
  context.gpu = &gpu;
  const auto text = passes::ExplainLayouts(*Tiles(Text(c)), passes::LayoutCost(), context);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

absl::StatusOr<ir::Program> Tiles(const std::string& text, int cluster, bool pingpong) {
  KILN_ASSIGN_OR_RETURN(ir::Program program, Elaborated("k.py", text));
  program.attrs["kiln.cluster"] = absl::StrCat(cluster);
  if (pingpong) program.attrs["kiln.pingpong"] = "1";
  return program;
}

namespace {

int64_t Parts(const ir::Program& program) {
  int64_t parts = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    parts += s.kind() == ir::StmtKind::kOnThreads ? 1 : 0;
    return true;
  });
  return parts;
}

bool HasClusters(const ir::Program& program) {
  bool has = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    has |= launch != nullptr && launch->annotations.count("cluster") > 0;
    return !has;
  });
  return has;
}

}  // namespace

void ExpectComputes(const Case& c, ir::Instruction product) {
  const std::string text = Text(c);
  const auto tiles = Tiles(text, c.cluster, c.pingpong);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Lowered(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
  EXPECT_TRUE(Has(*instructions, product)) << text;
  EXPECT_EQ(HasClusters(*instructions), c.cluster > 1) << text;
  if (c.pingpong) EXPECT_EQ(Parts(*instructions), 3) << text;
  EXPECT_EQ(Has(*instructions, ir::Instruction::kTensorLoad), c.fetches()) << text;
  EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
}

int ExpectNoticed(const ir::Program& tiles, const ir::Program& instructions,
                  const std::function<ir::Stmt(const ir::Instruct&)>& change, double tolerance) {
  int count = 0;
  for (int target = 0;; ++target) {
    int seen = 0;
    bool changed = false;
    ir::Program mistaken = instructions;
    mistaken.body = ir::RewriteStmts(instructions.body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* x = s.As<ir::Instruct>();
      const ir::Stmt other = x != nullptr ? change(*x) : ir::Stmt();
      if (!other.defined() || seen++ != target) return {};
      changed = true;
      return other;
    });
    if (!changed) break;
    ++count;
    EXPECT_NE(Difference(tiles, mistaken, tolerance), "")
        << "change " << target << " went unnoticed in\n"
        << ir::ToString(mistaken);
  }
  return count;
}

int ExpectNoticed(const Case& c, const std::function<ir::Stmt(const ir::Instruct&)>& change) {
  const auto tiles = Tiles(Text(c), c.cluster, c.pingpong);
  const auto instructions = Lowered(*tiles, c);
  EXPECT_TRUE(instructions.ok()) << instructions.status();
  return instructions.ok() ? ExpectNoticed(*tiles, *instructions, change) : 0;
}

ir::Stmt Nothing(const ir::Instruct& x) {
  return ir::MakeStmt<ir::Seq>(x.loc, std::vector<ir::Stmt>());
}

ir::Stmt With(const ir::Instruct& x, std::vector<ir::Expr> args,
              std::map<std::string, std::string> notes) {
  return ir::MakeStmt<ir::Instruct>(x.loc, x.op, x.regions, std::move(args), std::move(notes));
}

}  // namespace kiln::testing
