// Registers that threads index differently, as choices among a few: no index depends on the thread,
// so that none needs memory, and threads compute what their tiles do.
#include "compiler/passes/settle_registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "compiler/target/arch.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using Nodes = std::unordered_set<const ir::ExprNode*>;

bool Uses(const ir::Expr& e, const Nodes& nodes) {
  bool found = false;
  ir::Walk(e, [&](const ir::Expr& x) {
    found |= nodes.count(x.get()) > 0;
    return !found;
  });
  return found;
}

// Of a program's registers, by what their index depends on.
struct Indices {
  int by_thread = 0;  // those land in memory
  int choices = 0;    // loads of one slot of several
};

class Count {
 public:
  explicit Count(const ir::Program& program) {
    ir::Walk(
        program.body, [&](const ir::Stmt& s) { return See(s); },
        [&](const ir::Expr& e) {
          if (const auto* load = e.As<ir::Load>()) Check(load->buffer, load->indices);
          const auto* choice = e.As<ir::Select>();
          const auto* chosen = choice != nullptr ? choice->a.As<ir::Load>() : nullptr;
          const auto* other = choice != nullptr ? choice->b.As<ir::Load>() : nullptr;
          result.choices += chosen != nullptr && other != nullptr &&
                            chosen->buffer->scope == ir::Scope::kRegister &&
                            chosen->buffer == other->buffer;
          return true;
        });
  }
  Indices result;

 private:
  bool See(const ir::Stmt& s) {
    if (const auto* loop = s.As<ir::For>();
        loop != nullptr && loop->loop == ir::ForKind::kThreads) {
      threads_.insert(loop->axes[0].var.get());
    }
    if (const auto* bind = s.As<ir::Bind>()) {
      if (Uses(bind->value, threads_)) threads_.insert(bind->var.get());
    }
    if (const auto* store = s.As<ir::Store>()) Check(store->buffer, store->indices);
    return true;
  }
  void Check(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) {
    if (buffer->scope != ir::Scope::kRegister) return;
    result.by_thread += std::any_of(indices.begin() + 1, indices.end(),
                                    [&](const ir::Expr& e) { return Uses(e, threads_); })
                            ? 1
                            : 0;
  }

  Nodes threads_;  // what depends on them
};

// The indices of the program's registers, whose instructions compute what its tiles do.
Indices Computes(const ir::Program& tiles, double tolerance) {
  const auto instructions = testing::Instructions(tiles, "sm_90a");
  EXPECT_TRUE(instructions.ok()) << instructions.status();
  if (!instructions.ok()) return {};
  EXPECT_EQ(testing::Difference(tiles, *instructions, tolerance), "")
      << ir::ToString(*instructions);
  return Count(*instructions).result;
}

// Rows of 1000 by 64 to 1024 threads: a step of the threads ends one row and begins the next.
TEST(SettleRegisters, RowsThatThreadsShareNeedNoMemory) {
  int choices = 0;
  for (const char* name : {"layernorm", "rmsnorm", "softmax"}) {
    for (const int rows : {2, 3, 8, 16}) {
      for (const int threads : {64, 128, 256, 512, 1024}) {
        if (rows * 1000 / threads > 130) continue;  // more than a thread's registers
        SCOPED_TRACE(absl::StrCat(name, " block_M=", rows, " threads=", threads));
        const auto tiles = testing::ElaboratedFile(absl::StrCat("compiler/templates/", name, ".py"),
                                                   {{"M", absl::StrCat(rows + 1)},
                                                    {"N", "1000"},
                                                    {"dtype", "float32"},
                                                    {"block_M", absl::StrCat(rows)},
                                                    {"threads", absl::StrCat(threads)}});
        ASSERT_TRUE(tiles.ok()) << tiles.status();
        const Indices indices = Computes(*tiles, 1e-4);
        EXPECT_EQ(indices.by_thread, 0);
        choices += indices.choices > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(choices, 20);
}

constexpr char kRows[] = R"(import tilelang
import tilelang.language as T


@T.prim_func
def rows(A: T.Tensor((M, N), "TYPE"), B: T.Tensor((M, N), "TYPE")):
    with T.Kernel(1, threads=THREADS) as bx:
        tile = T.alloc_fragment((M, N), "TYPE")
        most = T.alloc_fragment((M,), "TYPE")
        T.copy(A, tile)
        T.reduce_max(tile, most, dim=1)
        for i, j in T.Parallel(M, N):
            tile[i, j] = T.if_then_else(tile[i, j] < 0, tile[i, j] - most[i], most[i])
        T.copy(tile, B)
)";

// Rows shorter and longer than a warp.
TEST(SettleRegisters, AStepOfManyShortRows) {
  int choices = 0;
  for (const int n : {5, 9, 11, 17, 31, 33, 50, 100, 127}) {
    for (const int threads : {32, 96, 128}) {
      for (const char* type : {"float32", "float16", "int32"}) {
        const int m = 2 * threads / n + 3;
        SCOPED_TRACE(absl::StrCat(m, " x ", n, " threads=", threads, " ", type));
        const auto tiles = testing::Elaborated(
            "k.py", absl::StrReplaceAll(
                        kRows, {{"(M, N)", absl::StrCat("(", m, ", ", n, ")")},
                                {"Parallel(M, N)", absl::StrCat("Parallel(", m, ", ", n, ")")},
                                {"(M,)", absl::StrCat("(", m, ",)")},
                                {"THREADS", absl::StrCat(threads)},
                                {"TYPE", type}}));
        ASSERT_TRUE(tiles.ok()) << tiles.status();
        const Indices indices = Computes(*tiles, 0);
        EXPECT_EQ(indices.by_thread, 0);
        choices += indices.choices > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(choices, 10);
}

// 32 threads, a row of A each in `f`: what `body` makes of it.
ir::Program Slots(const std::string& shape, const std::string& body) {
  const std::string text = absl::StrCat(R"(import tilelang
import tilelang.language as T


@T.prim_func
def slots(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32, 8), "float32")):
    with T.Kernel(1, threads=32) as bx:
        tx = T.get_thread_binding()
        f = T.alloc_local()",
                                        shape, R"(, "float32")
)",
                                        body);
  const auto tiles = testing::Elaborated("k.py", text);
  EXPECT_TRUE(tiles.ok()) << tiles.status() << text;
  return tiles.value_or(ir::Program());
}

Indices OfThreads(const std::string& shape, const std::string& body) {
  return Computes(Slots(shape, body), 0);
}

constexpr char kFill[] = R"(        for k in T.serial(8):
            f[k] = A[tx, k]
)";
constexpr char kOut[] = R"(        for k in T.serial(8):
            B[tx, k] = f[k]
)";
// Under a guard, that leaves few.
constexpr char kGuarded[] = R"(        if tx < 3:
            f[tx + 1] = f[tx] + 1.0
)";

TEST(SettleRegisters, AllOfABufferOrNothing) {
  // Few slots at each step; what reads the slot that is stored to.
  const std::string few = R"(        for k in T.serial(4):
            f[k + tx // 8 % 4] = f[k + tx // 8 % 4] * 2.0 + f[k * 2 + tx % 2]
)";
  const std::string many = R"(        f[tx % 5] = 7.0
)";
  for (const std::string& body : {few, std::string(kGuarded), few + kGuarded}) {
    const Indices indices = OfThreads("(8,)", kFill + body + kOut);
    EXPECT_EQ(indices.by_thread, 0) << body;
    EXPECT_GT(indices.choices, 0) << body;
    const Indices left = OfThreads("(8,)", kFill + body + many + kOut);
    EXPECT_GT(left.by_thread, 1) << body;
    EXPECT_EQ(left.choices, 0) << body;
  }
  const Indices boxes = OfThreads("(2, 4)", R"(        for i, k in T.grid(2, 4):
            f[i, k] = A[tx, i * 4 + k]
        f[tx % 2, 1] = f[1, tx % 3]
        for i, k in T.grid(2, 4):
            B[tx, i * 4 + k] = f[i, k]
)");
  EXPECT_EQ(boxes.choices, 0);
}

// A store's own predicate.
TEST(SettleRegisters, APredicateHoldsForEverySlot) {
  const ir::Program tiles = Slots("(8,)", absl::StrCat(kFill, kGuarded, kOut));
  const target::Arch arch = *target::NamedArch("sm_90a");
  passes::PassContext context;
  context.gpu = &arch;
  auto program =
      passes::RunPipeline(passes::GpuPipeline(), tiles, context, /*stop_after=*/"simplify-lowered");
  ASSERT_TRUE(program.ok()) << program.status();
  int predicates = 0;
  program->body = ir::RewriteStmts(program->body, [&](const ir::Stmt& s) -> ir::Stmt {
    const auto* branch = s.As<ir::If>();
    const auto* store = branch != nullptr ? branch->then_case.As<ir::Store>() : nullptr;
    if (store == nullptr) return {};
    ++predicates;
    return ir::MakeStmt<ir::Store>(s->loc, store->buffer, store->indices, store->value,
                                   branch->condition);
  });
  EXPECT_EQ(predicates, 1);
  const auto settled = passes::SettleRegisters(*program, context);
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(Count(*settled).result.by_thread, 0) << ir::ToString(*settled);
  EXPECT_EQ(testing::Difference(tiles, *settled), "") << ir::ToString(*settled);
}

// A guard that only the run decides keeps threads from registers that are not there.
TEST(SettleRegisters, MissingRegistersAreNoChoice) {
  const Indices indices = OfThreads("(8,)", absl::StrCat(kFill, R"(        if A[tx, 0] > 1000.0:
            f[0] = f[tx // 8 * 4]
)",
                                                         kOut));
  EXPECT_EQ(indices.by_thread, 1);
  EXPECT_EQ(indices.choices, 0);
}

// What was never written is not read for a slot that another thread means.
TEST(SettleRegisters, OnlyTheChosenSlotIsRead) {
  const Indices indices = OfThreads("(8,)", R"(        f[tx % 2] = A[tx, 0]
        B[tx, 0] = f[tx % 2]
)");
  EXPECT_EQ(indices.by_thread, 0);
  EXPECT_EQ(indices.choices, 1);
}

TEST(SettleRegisters, RandomFragments) {
  int computed = 0, choices = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = testing::RandomFragmentKernel(seed);
    SCOPED_TRACE(text);
    const auto tiles = testing::Elaborated("k.py", text);
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    if (!testing::Instructions(*tiles, "sm_90a").ok()) continue;  // refused, with a diagnostic
    ++computed;
    choices += Computes(*tiles, 0).choices > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(computed, 300);
  EXPECT_GT(choices, 10);
}

}  // namespace
}  // namespace kiln
