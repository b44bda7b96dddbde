// The law of passes: interpreter(before) == interpreter(after), after every pass of the pipeline,
// on programs of many shapes. Inputs are small integers, so that every order of summation is exact.
#include <gtest/gtest.h>

#include <random>

#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
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

void ExpectPassesPreserve(const ir::Program& program, int bits, double tolerance) {
  passes::PassContext context;
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
