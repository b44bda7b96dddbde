// Sums of products that PTX declares by name: which ones, and what becomes of their reads.
#include "compiler/codegen/named_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/buffer.h"
#include "compiler/ir/instruct.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/unit/codegen/gpu_compile.h"

namespace kiln {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

class NamedSums : public testing::Test {
 protected:
  static ir::Buffer Registers(const char* name, int64_t count, DType type = kFloat32) {
    return ir::MakeBuffer(name, type, {MakeInt(128), MakeInt(count)}, ir::Scope::kRegister);
  }

  Stmt Multiply(const ir::Buffer& c) const {
    return ir::MakeInstruct({}, Instruction::kWgmma,
                            {ir::WholeBuffer(c), ir::WholeBuffer(tile_), ir::WholeBuffer(tile_)},
                            {ir::MakeBool(true)});
  }
  Stmt Read(const Expr& number, const Expr& guard = {}) const {
    return ir::MakeStmt<ir::Store>(SourceLoc{}, out_, std::vector<Expr>{thread_},
                                   ir::MakeLoad(sums_, {thread_, number}), guard);
  }
  // for i in [0, trips): body(i)
  template <typename F>
  static Stmt Loop(const Expr& trips, F body) {
    const Expr i = ir::MakeVar("i");
    return ir::MakeStmt<ir::For>(SourceLoc{}, ir::ForKind::kSerial,
                                 std::vector<ir::Axis>{{i, MakeInt(0), trips}}, body(i));
  }
  bool Named(const Stmt& rest) const {
    const Stmt wait = ir::MakeInstruct({}, Instruction::kWgmmaWait, {ir::WholeBuffer(sums_)}, {0});
    return !codegen::SumsToName(ir::MakeSeq({Multiply(sums_), wait, rest})).empty();
  }

  const Expr thread_ = ir::MakeVar("thread");
  const ir::Buffer sums_ = Registers("sums", 128);
  const ir::Buffer tile_ =
      ir::MakeBuffer("tile", kBFloat16, {MakeInt(64 * 128)}, ir::Scope::kShared);
  const ir::Buffer out_ = ir::MakeBuffer("out", kFloat32, {MakeInt(128)}, ir::Scope::kGlobal);
};

TEST_F(NamedSums, AreThoseThatAreReadByNumber) {
  EXPECT_TRUE(Named(Read(MakeInt(5))));
  EXPECT_TRUE(Named(Loop(MakeInt(128), [&](const Expr& i) { return Read(i); })));
  EXPECT_TRUE(Named(Loop(MakeInt(64), [&](const Expr& i) {
    const Expr twice = ir::MakeVar("twice");
    return ir::MakeSeq({ir::MakeStmt<ir::Bind>(SourceLoc{}, twice, i * MakeInt(2)),
                        Read(FloorMod(twice + MakeInt(1), MakeInt(128)))});
  })));
  EXPECT_FALSE(Named(Read(thread_)));
  EXPECT_FALSE(Named(Loop(thread_, [&](const Expr& i) { return Read(i); })));
  EXPECT_FALSE(Named(Loop(MakeInt(2048), [&](const Expr& i) { return Read(FloorDiv(i, 16)); })))
      << "a loop that is not unrolled";
}

TEST_F(NamedSums, AreThoseThatNobodyElseTouches) {
  EXPECT_FALSE(Named(Read(MakeInt(5), thread_ < Expr(3)))) << "behind a guard";
  EXPECT_FALSE(Named(ir::MakeStmt<ir::If>(SourceLoc{}, thread_ < Expr(3), Read(MakeInt(5)))));
  EXPECT_FALSE(Named(ir::MakeStmt<ir::Store>(
      SourceLoc{}, sums_, std::vector<Expr>{thread_, MakeInt(0)}, ir::MakeFloat(0), Expr())));
  EXPECT_FALSE(Named(ir::MakeInstruct({}, Instruction::kShuffleXor,
                                      {ir::WholeBuffer(sums_), ir::WholeBuffer(sums_)}, {1})));
  const ir::Buffer next = Registers("next", 128);
  const Stmt chained =
      ir::MakeInstruct({}, Instruction::kWgmma,
                       {ir::WholeBuffer(next), ir::WholeBuffer(sums_), ir::WholeBuffer(tile_)},
                       {ir::MakeBool(true)});
  const auto named = codegen::SumsToName(ir::MakeSeq({Multiply(sums_), chained}));
  EXPECT_THAT(named, testing::ElementsAre(next.get())) << "what is multiplied from registers";
}

TEST_F(NamedSums, AreManyOf32Bits) {
  const auto named = [&](const ir::Buffer& c) { return codegen::SumsToName(Multiply(c)).size(); };
  EXPECT_EQ(named(Registers("c", 64)), 1u);
  EXPECT_EQ(named(Registers("c", 32)), 0u);
  EXPECT_EQ(named(Registers("c", 64, kInt32)), 1u);
  EXPECT_EQ(named(Registers("c", 128, kFloat16)), 0u);
}

// One whose number is not known after all is looked for among all.
TEST_F(NamedSums, ReadsBecomeMovesOfRegisters) {
  llvm::LLVMContext context;
  llvm::Module module("reads", context);
  llvm::IRBuilder<> b(context);
  auto* form = llvm::FunctionType::get(b.getFloatTy(), {b.getInt32Ty()}, false);
  auto* function = llvm::Function::Create(form, llvm::Function::ExternalLinkage, "reads", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  codegen::DeclareSums(*function, "s_", 3, *b.getFloatTy());
  llvm::Value* known = codegen::ReadSum(b, "s_", 3, b.getFloatTy(), b.getInt32(2));
  llvm::Value* open = codegen::ReadSum(b, "s_", 3, b.getFloatTy(), function->getArg(0));
  b.CreateRet(b.CreateFAdd(known, open));
  codegen::LowerNamedSums(*function);
  std::string text;
  llvm::raw_string_ostream stream(text);
  EXPECT_FALSE(llvm::verifyModule(module, &stream)) << text;
  function->print(stream);
  EXPECT_EQ(CountOf(text, ".reg .f32 s_<3>;"), 1) << text;
  EXPECT_EQ(CountOf(text, "mov.f32 $0, s_2;"), 2) << text;
  EXPECT_EQ(CountOf(text, "mov.f32 $0, s_0;"), 1) << text;
  EXPECT_EQ(CountOf(text, "mov.f32 $0, s_1;"), 1) << text;
  EXPECT_EQ(CountOf(text, "select i1"), 2) << text;
  EXPECT_FALSE(absl::StrContains(text, "@kiln.sum")) << text;
}

TEST_F(NamedSums, OfAProductPassThroughNoLoop) {
  const Case product = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                        "block_M=128,block_N=256,block_K=64,threads=256,num_stages=3"};
  const std::string ptx = Ptx(product, "sm_90a");
  EXPECT_EQ(CountOf(ptx, ".reg .f32 sums0_<128>;"), 1);
  EXPECT_TRUE(absl::StrContains(ptx, "{sums0_0, sums0_1, sums0_2,"));
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(CountOf(ptx, absl::StrCat(", sums0_", i, ";\n")), 1) << "read once: " << i;
  }
  EXPECT_EQ(CountOf(ptx, ".pragma \"nounroll\""), CountOf(ptx, "nounroll\";\nsteps"))
      << "LLVM's loops say nothing to the assembler";
}

// A row of 256 columns is added to each of a thread's two rows: it is loaded once.
TEST_F(NamedSums, LeaveLoadsOfTensorsToBeMerged) {
  const std::string ptx = PtxOf(R"(
import tilelang
import tilelang.language as T


@tilelang.jit
def biased(M=768, N=768, K=512):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16),
             bias: T.Tensor((N,), T.float32), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(N // 256, M // 128, threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), T.float16)
            b = T.alloc_shared((256, 64), T.float16)
            c = T.alloc_fragment((128, 256), T.float32)
            T.clear(c)
            for k in T.Pipelined(K // 64, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 256, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(128, 256):
                C[by * 128 + i, bx * 256 + j] = c[i, j] + bias[bx * 256 + j]
    return main
)",
                                "sm_90a");
  EXPECT_TRUE(absl::StrContains(ptx, "sums0_127"));
  EXPECT_EQ(CountOf(ptx, "ld.global"), 32) << "two neighbours in each";
}

}  // namespace
}  // namespace kiln
