// The law of passes: interpreter(before) == interpreter(after), after every pass of the pipeline,
// on programs of many shapes. Inputs are small integers, so that every order of summation is exact.
#include <gtest/gtest.h>

#include <random>

#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/tile_programs.h"

namespace kiln {
namespace {

using testing::MatmulShape;

std::vector<interp::Tensor> IntegerArguments(const ir::Program& program, int seed) {
  std::mt19937 rng(seed);
  std::vector<interp::Tensor> tensors;
  for (const ir::Param& p : program.params) {
    std::vector<int64_t> shape;
    for (const ir::Expr& e : p.buffer->shape) shape.push_back(*ir::ConstInt(e));
    tensors.emplace_back(p.buffer->dtype, shape);
    const interp::TensorView view = tensors.back().View();
    for (int64_t i = 0; i < view.elements(); ++i) {
      view.Set(i, static_cast<int>(rng() % 7) - 3);
    }
  }
  return tensors;
}

// The output of `program`, or the error.
absl::StatusOr<interp::Tensor> Interpret(const ir::Program& program, bool lowered, int seed) {
  std::vector<interp::Tensor> tensors = IntegerArguments(program, seed);
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  interp::Options options;
  options.clip_global = !lowered;
  KILN_RETURN_IF_ERROR(interp::Run(program, views, options).status());
  return std::move(tensors.back());
}

void ExpectPassesPreserve(const ir::Program& program, int bits, double tolerance,
                          bool amx = false) {
  passes::PassContext context;
  context.amx_bf16 = amx;
  context.vector.bits = bits;
  context.vector.registers = bits == 512 ? 32 : 16;
  context.vector.stream_bytes = 1;
  const auto before = Interpret(program, false, 7);
  ASSERT_TRUE(before.ok()) << before.status();
  ir::Program current = program;
  bool guarded = false;
  for (const passes::Pass& pass : passes::CpuPipeline()) {
    const auto next = pass.run(current, context);
    ASSERT_TRUE(next.ok()) << pass.name << ": " << next.status();
    current = *next;
    guarded |= std::string(pass.name) == "guard-accesses";
    ASSERT_TRUE(ir::Verify(current).ok()) << pass.name << ": " << ir::Verify(current);
    const auto after = Interpret(current, guarded, 7);
    ASSERT_TRUE(after.ok()) << pass.name << ": " << after.status() << "\n" << ir::ToString(current);
    const interp::Comparison c =
        interp::Compare(after->View(), before->View(), {tolerance, tolerance});
    ASSERT_TRUE(c.ok()) << pass.name << " changed the result: " << c.ToString(before->shape())
                        << "\n"
                        << ir::ToString(current);
  }
}

class EquivalenceTest : public ::testing::TestWithParam<int> {};

TEST_P(EquivalenceTest, RandomMatmuls) {
  std::mt19937 rng(11);
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + rng() % values.size());
  };
  for (int i = 0; i < 40; ++i) {
    MatmulShape s;
    s.m = 1 + rng() % 40;
    s.n = 1 + rng() % 80;
    s.k = 1 + rng() % 40;
    s.block_m = pick({1, 2, 3, 4, 5, 16, 17, 32});
    s.block_n = pick({8, 16, 32, 48, 64, 128});
    s.block_k = pick({1, 8, 13, 16, 32});
    s.trans_a = rng() % 4 == 0;
    s.trans_b = rng() % 3 == 0;
    const DType types[] = {kFloat32, kFloat16, kBFloat16, kInt32};
    s.dtype = types[rng() % 4];
    s.accum = s.dtype == kInt32 ? kInt32 : kFloat32;
    SCOPED_TRACE(::testing::Message()
                 << s.m << "x" << s.n << "x" << s.k << " blocks " << s.block_m << "x" << s.block_n
                 << "x" << s.block_k << " " << s.trans_a << s.trans_b << s.dtype.ToString());
    ExpectPassesPreserve(testing::MatmulProgram(s), GetParam(), 0);
    if (HasFatalFailure()) return;
  }
}

int CountPairGemms(const ir::Program& program) {
  int count = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    count += s.kind() == ir::StmtKind::kPairGemm;
    return true;
  });
  return count;
}

int PairGemmsOf(const ir::Program& program) {
  passes::PassContext context;
  context.amx_bf16 = true;
  const auto placed =
      passes::RunPipeline(passes::CpuPipeline(), program, context, "place-gemm-operands");
  return placed.ok() ? CountPairGemms(*placed) : -1;
}

// The products of the matmul clear C themselves in the first step, as T.gemm(clear_accum=k == 0).
ir::Program ClearingByTheFirstStep(ir::Program program) {
  ir::Expr k;
  program.body = ir::RewriteStmts(program.body, [&](const ir::Stmt& s) -> ir::Stmt {
    if (s.kind() == ir::StmtKind::kFill) return ir::MakeSeq({}, s->loc);
    if (const auto* loop = s.As<ir::For>()) k = loop->axes[0].var;
    const auto* gemm = s.As<ir::Gemm>();
    if (gemm == nullptr) return {};
    return ir::MakeStmt<ir::Gemm>(s->loc, gemm->a, gemm->b, gemm->c, false, false, gemm->policy,
                                  ir::MakeBinary(ir::BinaryOp::kEq, k, ir::MakeInt(0)));
  });
  return program;
}

// B is a constant that a fill makes, instead of what the copy brings.
ir::Program WithConstantB(ir::Program program) {
  program.body = ir::RewriteStmts(program.body, [&](const ir::Stmt& s) -> ir::Stmt {
    const auto* copy = s.As<ir::Copy>();
    if (copy == nullptr || copy->dst.buffer->name != "B_shared") return {};
    return ir::MakeStmt<ir::Fill>(s->loc, copy->dst, ir::MakeConst(-2, kBFloat16));
  });
  return program;
}

TEST_P(EquivalenceTest, ProductsOfPairs) {
  std::mt19937 rng(23);
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + rng() % values.size());
  };
  for (int i = 0; i < 16; ++i) {
    MatmulShape s;
    s.m = 1 + rng() % 70;
    s.n = 1 + rng() % 140;
    s.k = 1 + rng() % 100;
    s.block_m = pick({5, 16, 17, 32, 40, 64});
    s.block_n = pick({2, 8, 16, 24, 32, 48, 64, 128});
    s.block_k = pick({4, 6, 30, 32, 34, 64, 96});
    s.dtype = kBFloat16;
    SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " blocks " << s.block_m
                                      << "x" << s.block_n << "x" << s.block_k);
    const ir::Program program = testing::MatmulProgram(s);
    ASSERT_EQ(PairGemmsOf(program), 1);
    ExpectPassesPreserve(program, GetParam(), 0, true);
    ExpectPassesPreserve(ClearingByTheFirstStep(program), GetParam(), 0, true);
    ExpectPassesPreserve(WithConstantB(program), GetParam(), 0, true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EquivalenceTest, WhatTheMatrixUnitCannotTakeKeepsItsPath) {
  const MatmulShape whole{64, 64, 64, 32, 32, 32, false, false, kBFloat16};
  ASSERT_EQ(PairGemmsOf(testing::MatmulProgram(whole)), 1);
  std::vector<MatmulShape> others(6, whole);
  others[0].block_k = 13;  // odd
  others[1].block_m = 4;   // streamed
  others[2].trans_a = true;
  others[3].trans_b = true;
  others[4].dtype = kFloat16;
  others[5].dtype = kFloat32;
  for (const MatmulShape& s : others) {
    const ir::Program program = testing::MatmulProgram(s);
    EXPECT_EQ(PairGemmsOf(program), 0);
    ExpectPassesPreserve(program, GetParam(), 0, true);
  }
}

TEST_P(EquivalenceTest, Softmax) {
  for (const int64_t n : {1, 15, 16, 33, 100}) {
    ExpectPassesPreserve(testing::SoftmaxProgram(5, n, 2, kFloat32), GetParam(), 1e-6);
    ExpectPassesPreserve(testing::SoftmaxProgram(4, n, 3, kBFloat16), GetParam(), 1e-2);
  }
}

TEST_P(EquivalenceTest, Reductions) {
  for (const ir::ReduceOp op : {ir::ReduceOp::kSum, ir::ReduceOp::kMax, ir::ReduceOp::kMin,
                                ir::ReduceOp::kAbsSum, ir::ReduceOp::kAbsMax}) {
    for (const int dim : {0, 1}) {
      ExpectPassesPreserve(testing::ReduceProgram(7, 130, 3, 65, op, dim), GetParam(), 0);
      ExpectPassesPreserve(testing::ReduceProgram(16, 64, 8, 64, op, dim), GetParam(), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, EquivalenceTest, ::testing::Values(512, 256));

}  // namespace
}  // namespace kiln
