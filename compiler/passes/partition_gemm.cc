#include "compiler/passes/partition_gemm.h"

#include <algorithm>

#include "compiler/base/status.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/sparse.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// In depth, together: 16 bytes of float32 that lie side by side; fewer of what is converted first.
constexpr int64_t kSteps = 4, kStepsConverted = 2;

class ProductBetweenThreads {
 public:
  ProductBetweenThreads(int operation, const ir::Gemm& gemm,
                        const std::function<Expr(const Expr&)>& uniform, ThreadLevel* level)
      : level_(level),
        op_(level->problem().operations[operation]),
        gemm_(gemm),
        loc_(gemm.loc),
        uniform_(uniform),
        result_(op_.uses[0].fragment) {}

  Stmt Build() {
    std::vector<Stmt> stmts;
    left_ = gemm_.a;
    if (op_.uses.size() > 1) {
      ir::Buffer staged;
      stmts = Stage("left", op_.uses[1], gemm_.a, ExtentsOf(gemm_.a), &staged);
      left_ = ir::WholeBuffer(staged);
    }
    const auto dims = *ir::MatrixDims(gemm_.a);
    depth_ = gemm_.a.ranges[gemm_.trans_a ? dims.first : dims.second].extent;
    if (gemm_.sparse()) depth_ = depth_ * MakeInt(2);
    // The same for all, so it is asked once.
    clear_ = ir::MakeVar("clear", kBool);
    stmts.push_back(ir::MakeStmt<ir::Bind>(loc_, clear_, uniform_(gemm_.clear_accum)));
    if (ResultIsMoved()) {
      for (Stmt& s : StageResult()) stmts.push_back(std::move(s));
    }
    const bool in_place = !staged_ && gemm_.c.buffer->dtype == Sums();
    stmts.push_back(level_->ForThreads(loc_, [&](const Expr& thread) {
      return in_place ? OuterProducts(thread) : InnerProducts(thread);
    }));
    if (staged_) stmts.push_back(FetchResult());
    return ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
  }

 private:
  bool ResultIsMoved() const {
    const int o = static_cast<int>(&op_ - level_->problem().operations.data());
    const auto& moves = level_->solution().moves;
    return std::any_of(moves.begin(), moves.end(),
                       [&](const LayoutMove& m) { return m.operation == o && m.use == 0; });
  }

  // C is held by others than those who compute it: it goes to shared memory for the product, unless
  // the product starts from zero.
  std::vector<Stmt> StageResult() {
    std::vector<Stmt> stmts = Stage("result", op_.uses[0], gemm_.c, op_.extents, &staged_);
    const Expr keeps = ir::MakeUnary(ir::UnaryOp::kNot, clear_);
    stmts[1] = ir::MakeStmt<ir::If>(loc_, keeps, stmts[1]);
    return stmts;
  }

  // A buffer of `extents` in shared memory, and the loop that fills it with an operand's elements
  // from those who hold them.
  std::vector<Stmt> Stage(const char* name, const FragmentUse& use, const ir::Region& region,
                          const std::vector<int64_t>& extents, ir::Buffer* staged) {
    std::vector<Expr> shape;
    for (const int64_t extent : extents) shape.push_back(MakeInt(extent));
    *staged = ir::MakeBuffer(name, region.buffer->dtype, shape, ir::Scope::kShared);
    const layout::Ownership held = level_->solution()
                                       .fragments[use.fragment]
                                       .Pullback(use.elements[0])
                                       .Within(level_->threads().Set());
    const Stmt put = level_->ForThreads(loc_, [&](const Expr& thread) {
      return level_->ForShare(held, thread, loc_, [&](const Expr& i, const Expr& acts) {
        const Stmt store =
            ir::MakeStmt<ir::Store>(loc_, *staged, UnflattenExpr(i, extents),
                                    ir::MakeLoad(level_->Registers(use.fragment),
                                                 level_->PlaceIn(use.fragment, region, thread, i)));
        return acts.defined() ? ir::MakeStmt<ir::If>(loc_, acts, store) : store;
      });
    });
    return {ir::MakeStmt<ir::Alloc>(loc_, *staged), put};
  }

  Stmt FetchResult() {
    const layout::Ownership held =
        level_->solution().fragments[result_].Pullback(op_.uses[0].elements[0]);
    return level_->ForThreads(loc_, [&](const Expr& thread) {
      return level_->ForShare(held, thread, loc_, [&](const Expr& i, const Expr&) {
        return ir::MakeStmt<ir::Store>(loc_, level_->Registers(result_), ResultPlace(thread, i),
                                       ir::MakeLoad(staged_, UnflattenExpr(i, op_.extents)));
      });
    });
  }

  // The register of C's element i, in the threads that hold it.
  std::vector<Expr> ResultPlace(const Expr& thread, const Expr& i) const {
    return level_->PlaceIn(result_, gemm_.c, thread, i);
  }

  // One element of an operand, by row and column of op(X).
  Expr Operand(const ir::Region& region, bool transposed, const Expr& row,
               const Expr& column) const {
    const auto [first, second] = *ir::MatrixDims(region);
    std::vector<Expr> indices;
    for (const ir::Range& range : region.ranges) indices.push_back(uniform_(range.min));
    indices[first] = indices[first] + (transposed ? column : row);
    indices[second] = indices[second] + (transposed ? row : column);
    return ir::MakeCast(Sums(), ir::MakeLoad(region.buffer, indices));
  }

  // An element of A, or of what it is the sparse form of.
  Expr Left(const Expr& row, const Expr& k) const {
    if (!gemm_.sparse()) return Operand(left_, gemm_.trans_a, row, k);
    const auto settled = [&](ir::Region region) {
      for (ir::Range& range : region.ranges) range.min = uniform_(range.min);
      return region;
    };
    const ir::SparseMatrix x{settled(left_), settled(gemm_.e), gemm_.trans_a, gemm_.trans_e};
    const Expr group = MakeInt(ir::SparseFormOf(gemm_.a.buffer->dtype).group);
    return ir::MakeCast(Sums(), ir::DenseElement(x, row, FloorDiv(k, group), FloorMod(k, group)));
  }

  DType Sums() const { return ComputeType(gemm_.c.buffer->dtype); }

  // Sums that stay where C is held: a step in depth at a time, each thread the outer product of its
  // rows and columns, so that an element of A or B that is read serves all its products.
  Stmt OuterProducts(const Expr& thread) {
    const auto share = [&](const std::function<Expr(const Expr& sum, const Expr& i)>& value) {
      return level_->ForShare(op_.anchors[0], thread, loc_, [&](const Expr& i, const Expr&) {
        const std::vector<Expr> place = ResultPlace(thread, i);
        const ir::Buffer& c = level_->Registers(result_);
        return ir::MakeStmt<ir::Store>(loc_, c, place, value(ir::MakeLoad(c, place), i));
      });
    };
    const Stmt zeros =
        share([&](const Expr& sum, const Expr&) { return ir::MakeConst(0, sum.dtype()); });
    KILN_CHECK(ir::ConstInt(depth_).has_value());  // products are planned for constant shapes alone
    const int64_t depth = *ir::ConstInt(depth_);
    const int64_t most = gemm_.a.buffer->dtype.bits < 32 ? kStepsConverted : kSteps;
    const int64_t steps = depth % most == 0 ? most : 1;
    const Stmt products = SerialLoop("k", MakeInt(depth / steps), loc_, [&](const Expr& k) {
      std::vector<Stmt> stmts;
      for (int64_t s = 0; s < steps; ++s) {
        const Expr at_k = k * MakeInt(steps) + MakeInt(s);
        stmts.push_back(UnrolledWhole(share([&](const Expr& sum, const Expr& i) {
          const std::vector<Expr> at = UnflattenExpr(i, op_.extents);  // row and column of C
          return sum + Left(at[0], at_k) * Operand(gemm_.b, gemm_.trans_b, at_k, at[1]);
        })));
      }
      return ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
    });
    return ir::MakeStmt<ir::Seq>(
        loc_, std::vector<Stmt>{ir::MakeStmt<ir::If>(loc_, clear_, zeros), products});
  }

  // Sums that are kept elsewhere or in another type: an element of C at a time.
  Stmt InnerProducts(const Expr& thread) {
    return level_->ForShare(op_.anchors[0], thread, loc_,
                            [&](const Expr& i, const Expr&) { return Element(thread, i); });
  }

  Stmt Element(const Expr& thread, const Expr& i) {
    const DType type = Sums();
    const std::vector<Expr> at = UnflattenExpr(i, op_.extents);  // row and column of C
    const ir::Buffer& home = staged_ ? staged_ : level_->Registers(result_);
    const std::vector<Expr> place = staged_ ? at : ResultPlace(thread, i);
    const ir::Buffer sum = ir::MakeBuffer("sum", type, {MakeInt(1)}, ir::Scope::kVar);
    const std::vector<Expr> whole = {MakeInt(0)};
    const Expr before = ir::MakeSelect(clear_, ir::MakeConst(0, type),
                                       ir::MakeCast(type, ir::MakeLoad(home, place)));
    const Stmt loop = SerialLoop("k", depth_, loc_, [&](const Expr& k) {
      const Expr product = Left(at[0], k) * Operand(gemm_.b, gemm_.trans_b, k, at[1]);
      return ir::MakeStmt<ir::Store>(loc_, sum, whole, ir::MakeLoad(sum, whole) + product);
    });
    return ir::MakeStmt<ir::Seq>(
        loc_, std::vector<Stmt>{
                  ir::MakeStmt<ir::Alloc>(loc_, sum, before), loop,
                  ir::MakeStmt<ir::Store>(loc_, home, place,
                                          ir::MakeCast(home->dtype, ir::MakeLoad(sum, whole)))});
  }

  ThreadLevel* const level_;
  const Operation& op_;
  const ir::Gemm& gemm_;
  const SourceLoc loc_;
  const std::function<Expr(const Expr&)>& uniform_;
  const int result_;   // the fragment of C
  ir::Region left_;    // A, where every thread can read it
  ir::Buffer staged_;  // C in shared memory, where it is moved
  Expr depth_, clear_;
};

}  // namespace

Stmt PartitionGemm(int operation, const ir::Gemm& gemm,
                   const std::function<Expr(const Expr&)>& uniform, ThreadLevel* level) {
  return ProductBetweenThreads(operation, gemm, uniform, level).Build();
}

}  // namespace kiln::passes
