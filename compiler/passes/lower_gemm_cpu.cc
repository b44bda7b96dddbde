// A Gemm becomes one of three loop nests, chosen by its shape alone:
//
//   panels   for column panel of 2 vectors / for chunk of <= 14 rows:
//              acc[rows][2] = C;  for k: b = B[k][panel]; acc[i] += A[i][k] * b;  C = acc
//   stream   rows <= 4: for k in steps of u: for vector j of the whole row: C[i][j] += A[i][k..] *
//   B[k..][j]
//            B is read once, in whole rows, at the speed of memory; C stays in cache
//   dot      B transposed: vectors run along K of both operands; lanes are summed at the end
//
// Accumulators are a local buffer with constant indices, which LLVM keeps in registers.
// Tested in tests/unit/passes/lower_gemm_cpu_test.cc against the interpreter.
#include "compiler/passes/lower_gemm_cpu.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/passes/build.h"
#include "compiler/passes/lower_pair_gemm.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// The last two dimensions of a region as a matrix.
struct Matrix {
  const ir::Region* region;
  bool transposed = false;

  int64_t Extent(int dim) const {  // of the region, -1 unless constant
    const auto n = ir::ConstInt(region->ranges[region->ranges.size() - 2 + dim].extent);
    return n.value_or(-1);
  }
  int64_t rows() const { return Extent(transposed ? 1 : 0); }
  int64_t columns() const { return Extent(transposed ? 0 : 1); }

  std::vector<Expr> At(const Expr& row, const Expr& column) const {
    std::vector<Expr> indices;
    for (const ir::Range& range : region->ranges) indices.push_back(range.min);
    const size_t n = indices.size();
    indices[n - 2] = indices[n - 2] + (transposed ? column : row);
    indices[n - 1] = indices[n - 1] + (transposed ? row : column);
    return indices;
  }
};

class GemmLowering {
 public:
  GemmLowering(const ir::Gemm& gemm, const VectorUnit& unit)
      : gemm_(gemm),
        unit_(unit),
        loc_(gemm.loc),
        a_{&gemm.a, gemm.trans_a},
        b_{&gemm.b, gemm.trans_b},
        c_{&gemm.c} {}

  absl::StatusOr<Stmt> Lower() {
    KILN_RETURN_IF_ERROR(Prepare());
    if (gemm_.trans_b && !gemm_.trans_a) return Dot();
    if (gemm_.trans_b) return Scalar();
    if (m_ <= kStreamRows && gemm_.c.buffer->dtype == type_) return Stream();
    return Panels();
  }

 private:
  absl::Status Prepare() {
    m_ = c_.rows();
    n_ = c_.columns();
    k_ = a_.columns();
    if (m_ < 0 || n_ < 0 || k_ < 0) {
      return absl::UnimplementedError(
          absl::StrCat("T.gemm on ", ir::ToString(gemm_.a), " and ", ir::ToString(gemm_.b),
                       " needs tile shapes that are compile-time constants"));
    }
    if (a_.rows() != m_ || b_.rows() != k_ || b_.columns() != n_) {
      return absl::InvalidArgumentError(absl::StrCat("T.gemm shapes do not match: A is ", a_.rows(),
                                                     "x", a_.columns(), ", B is ", b_.rows(), "x",
                                                     b_.columns(), ", C is ", m_, "x", n_));
    }
    type_ = ComputeType(gemm_.c.buffer->dtype);
    lanes_ = unit_.Lanes(type_);
    return absl::OkStatus();
  }

  // ---- element access, converted to the accumulation type ----
  Expr LoadA(const Expr& i, const Expr& k) const {
    return ir::MakeCast(type_, ir::MakeLoad(gemm_.a.buffer, a_.At(i, k)));
  }
  Expr LoadVector(const Matrix& m, const Expr& row, const Expr& column, int lanes,
                  const Expr& mask = {}) const {
    std::vector<Expr> indices = m.At(row, column);
    indices.back() = ir::MakeRamp(indices.back(), MakeInt(1), lanes);
    return ir::MakeCast(type_.with_lanes(lanes), ir::MakeLoad(m.region->buffer, indices, mask));
  }
  Stmt StoreVectorC(const Expr& row, const Expr& column, int lanes, const Expr& value,
                    const Expr& mask = {}) const {
    std::vector<Expr> indices = c_.At(row, column);
    indices.back() = ir::MakeRamp(indices.back(), MakeInt(1), lanes);
    return ir::MakeStmt<ir::Store>(loc_, gemm_.c.buffer, indices,
                                   ir::MakeCast(gemm_.c.buffer->dtype.with_lanes(lanes), value),
                                   mask);
  }
  Expr MultiplyAdd(const Expr& a, const Expr& b, const Expr& c) const {
    if (!type_.is_float()) return a * b + c;
    return ir::MakeCall(c.dtype(), ir::Intrinsic::kFma, {a, b, c});
  }
  // C's old value, or zero where the gemm clears it.
  Expr InitialC(const Expr& old) const {
    const Expr zero = ir::MakeConst(0, old.dtype());
    const auto clear = ir::ConstInt(gemm_.clear_accum);
    if (clear.has_value()) return *clear != 0 ? zero : old;
    return ir::MakeSelect(gemm_.clear_accum, zero, old);
  }
  // First `count` of `lanes`; undefined when that is all of them.
  static Expr Mask(int64_t count, int lanes) {
    if (count >= lanes) return {};
    return ir::MakeRamp(MakeInt(0), MakeInt(1), lanes) < ir::MakeBroadcast(MakeInt(count), lanes);
  }

  // ---- panels ----
  Stmt Panels() const {
    const int vectors = n_ > lanes_ ? 2 : 1;
    const int max_rows = std::max(1, (unit_.registers - vectors - 1) / vectors);
    const int64_t width = static_cast<int64_t>(vectors) * lanes_;
    const int64_t full = n_ / width;
    std::vector<Stmt> nest;
    if (full > 0) {
      nest.push_back(SerialLoop("p", MakeInt(full), loc_, [&](const Expr& p) {
        return RowChunks(p * MakeInt(width), width, max_rows);
      }));
    }
    if (n_ % width != 0) nest.push_back(RowChunks(MakeInt(full * width), n_ % width, max_rows));
    return ir::MakeSeq(std::move(nest), loc_);
  }

  // Rows in near-equal chunks: `longer` chunks of base + 1 rows, then chunks of base rows.
  Stmt RowChunks(const Expr& column, int64_t columns, int max_rows) const {
    const int64_t chunks = (m_ + max_rows - 1) / max_rows;
    const int64_t base = m_ / chunks;
    const int64_t longer = m_ % chunks;
    std::vector<Stmt> nest;
    if (longer > 0) {
      nest.push_back(SerialLoop("c", MakeInt(longer), loc_, [&](const Expr& c) {
        return RegisterTile(c * MakeInt(base + 1), base + 1, column, columns);
      }));
    }
    nest.push_back(SerialLoop("c", MakeInt(chunks - longer), loc_, [&](const Expr& c) {
      return RegisterTile(c * MakeInt(base) + MakeInt(longer * (base + 1)), base, column, columns);
    }));
    return ir::MakeSeq(std::move(nest), loc_);
  }

  Stmt RegisterTile(const Expr& row, int64_t rows, const Expr& column, int64_t columns) const {
    const int vectors = static_cast<int>((columns + lanes_ - 1) / lanes_);
    const ir::Buffer acc =
        ir::MakeBuffer("acc", type_, {MakeInt(rows), MakeInt(vectors * lanes_)}, ir::Scope::kLocal);
    const auto mask = [&](int v) { return Mask(columns - v * lanes_, lanes_); };
    const auto acc_at = [&](int64_t i, int v) {
      return std::vector<Expr>{MakeInt(i), ir::MakeRamp(MakeInt(v * lanes_), MakeInt(1), lanes_)};
    };
    std::vector<Stmt> body = {ir::MakeStmt<ir::Alloc>(loc_, acc)};
    ForEachAccumulator(rows, vectors, [&](int64_t i, int v) {
      const Expr old =
          LoadVector(c_, row + MakeInt(i), column + MakeInt(v * lanes_), lanes_, mask(v));
      body.push_back(ir::MakeStmt<ir::Store>(loc_, acc, acc_at(i, v), InitialC(old)));
    });
    body.push_back(SerialLoop("k", MakeInt(k_), loc_, [&](const Expr& k) {
      std::vector<Stmt> step;
      std::vector<Expr> b;
      for (int v = 0; v < vectors; ++v) {
        b.push_back(ir::MakeVar("b", type_.with_lanes(lanes_)));
        step.push_back(ir::MakeStmt<ir::Bind>(
            loc_, b[v], LoadVector(b_, k, column + MakeInt(v * lanes_), lanes_, mask(v))));
      }
      for (int64_t i = 0; i < rows; ++i) {
        const Expr a = ir::MakeVar("a", type_.with_lanes(lanes_));
        step.push_back(
            ir::MakeStmt<ir::Bind>(loc_, a, ir::MakeBroadcast(LoadA(row + MakeInt(i), k), lanes_)));
        for (int v = 0; v < vectors; ++v) {
          step.push_back(ir::MakeStmt<ir::Store>(
              loc_, acc, acc_at(i, v), MultiplyAdd(a, b[v], ir::MakeLoad(acc, acc_at(i, v)))));
        }
      }
      return ir::MakeSeq(std::move(step), loc_);
    }));
    ForEachAccumulator(rows, vectors, [&](int64_t i, int v) {
      body.push_back(StoreVectorC(row + MakeInt(i), column + MakeInt(v * lanes_), lanes_,
                                  ir::MakeLoad(acc, acc_at(i, v)), mask(v)));
    });
    return ir::MakeSeq(std::move(body), loc_);
  }

  static void ForEachAccumulator(int64_t rows, int vectors,
                                 const std::function<void(int64_t, int)>& f) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int v = 0; v < vectors; ++v) f(i, v);
    }
  }

  // ---- stream ----
  Stmt Stream() const {
    std::vector<Stmt> nest;
    const auto clear = ir::ConstInt(gemm_.clear_accum);
    if (!clear.has_value() || *clear != 0) nest.push_back(ClearRows());
    const int64_t step = std::max<int64_t>(1, 8 / m_);
    if (k_ >= step) {
      nest.push_back(SerialLoop("k", MakeInt(k_ / step), loc_, [&](const Expr& k) {
        return StreamStep(k * MakeInt(step), step);
      }));
    }
    if (k_ % step != 0) nest.push_back(StreamStep(MakeInt(k_ / step * step), k_ % step));
    return ir::MakeSeq(std::move(nest), loc_);
  }

  Stmt ClearRows() const {
    return ForEachVector([&](const Expr& j, const Expr& mask) {
      std::vector<Stmt> stores;
      for (int64_t i = 0; i < m_; ++i) {
        const Expr old = LoadVector(c_, MakeInt(i), j, lanes_, mask);
        stores.push_back(StoreVectorC(MakeInt(i), j, lanes_, InitialC(old), mask));
      }
      return ir::MakeSeq(std::move(stores), loc_);
    });
  }

  // C += A[:, k..k+steps] * B[k..k+steps, :], vector by vector along the row.
  Stmt StreamStep(const Expr& k, int64_t steps) const {
    std::vector<Stmt> body;
    std::vector<Expr> a;
    for (int64_t i = 0; i < m_; ++i) {
      for (int64_t u = 0; u < steps; ++u) {
        a.push_back(ir::MakeVar("a", type_.with_lanes(lanes_)));
        body.push_back(ir::MakeStmt<ir::Bind>(
            loc_, a.back(), ir::MakeBroadcast(LoadA(MakeInt(i), k + MakeInt(u)), lanes_)));
      }
    }
    body.push_back(ForEachVector([&](const Expr& j, const Expr& mask) {
      std::vector<Stmt> vector_step;
      std::vector<Expr> sum;
      for (int64_t i = 0; i < m_; ++i) sum.push_back(LoadVector(c_, MakeInt(i), j, lanes_, mask));
      for (int64_t u = 0; u < steps; ++u) {
        const Expr b = ir::MakeVar("b", type_.with_lanes(lanes_));
        vector_step.push_back(
            ir::MakeStmt<ir::Bind>(loc_, b, LoadVector(b_, k + MakeInt(u), j, lanes_, mask)));
        for (int64_t i = 0; i < m_; ++i) sum[i] = MultiplyAdd(a[i * steps + u], b, sum[i]);
      }
      for (int64_t i = 0; i < m_; ++i) {
        vector_step.push_back(StoreVectorC(MakeInt(i), j, lanes_, sum[i], mask));
      }
      return ir::MakeSeq(std::move(vector_step), loc_);
    }));
    return ir::MakeSeq(std::move(body), loc_);
  }

  Stmt ForEachVector(const std::function<Stmt(const Expr& column, const Expr& mask)>& f) const {
    std::vector<Stmt> nest;
    if (n_ >= lanes_) {
      nest.push_back(SerialLoop("j", MakeInt(n_ / lanes_), loc_,
                                [&](const Expr& j) { return f(j * MakeInt(lanes_), {}); }));
    }
    const int64_t rest = n_ % lanes_;
    if (rest != 0) nest.push_back(f(MakeInt(n_ - rest), Mask(rest, lanes_)));
    return ir::MakeSeq(std::move(nest), loc_);
  }

  // ---- dot ----
  Stmt Dot() const {
    const int tile_n = unit_.registers >= 32 ? 4 : 2;
    const int tile_m = unit_.registers >= 32 ? 6 : 4;
    return Tiles("i", m_, tile_m, [&](const Expr& i, int64_t rows) {
      return Tiles("j", n_, tile_n,
                   [&](const Expr& j, int64_t columns) { return DotTile(i, rows, j, columns); });
    });
  }

  // f over [0, n) in steps of `size`, with one smaller step at the end.
  Stmt Tiles(const std::string& name, int64_t n, int64_t size,
             const std::function<Stmt(const Expr&, int64_t)>& f) const {
    std::vector<Stmt> nest;
    if (n >= size) {
      nest.push_back(SerialLoop(name, MakeInt(n / size), loc_,
                                [&](const Expr& i) { return f(i * MakeInt(size), size); }));
    }
    if (n % size != 0) nest.push_back(f(MakeInt(n / size * size), n % size));
    return ir::MakeSeq(std::move(nest), loc_);
  }

  Stmt DotTile(const Expr& row, int64_t rows, const Expr& column, int64_t columns) const {
    const ir::Buffer acc =
        ir::MakeBuffer("acc", type_, {MakeInt(rows), MakeInt(columns * lanes_)}, ir::Scope::kLocal);
    const auto acc_at = [&](int64_t i, int j) {
      return std::vector<Expr>{MakeInt(i), ir::MakeRamp(MakeInt(j * lanes_), MakeInt(1), lanes_)};
    };
    const int width = static_cast<int>(columns);
    std::vector<Stmt> body = {ir::MakeStmt<ir::Alloc>(loc_, acc)};
    ForEachAccumulator(rows, width, [&](int64_t i, int j) {
      body.push_back(ir::MakeStmt<ir::Store>(loc_, acc, acc_at(i, j),
                                             ir::MakeConst(0, type_.with_lanes(lanes_))));
    });
    const auto step = [&](const Expr& k, const Expr& mask) {
      std::vector<Stmt> stmts;
      std::vector<Expr> b;
      for (int j = 0; j < width; ++j) {
        b.push_back(ir::MakeVar("b", type_.with_lanes(lanes_)));
        stmts.push_back(ir::MakeStmt<ir::Bind>(
            loc_, b[j], LoadVector(b_, k, column + MakeInt(j), lanes_, mask)));
      }
      for (int64_t i = 0; i < rows; ++i) {
        const Expr a = ir::MakeVar("a", type_.with_lanes(lanes_));
        stmts.push_back(
            ir::MakeStmt<ir::Bind>(loc_, a, LoadVector(a_, row + MakeInt(i), k, lanes_, mask)));
        for (int j = 0; j < width; ++j) {
          stmts.push_back(ir::MakeStmt<ir::Store>(
              loc_, acc, acc_at(i, j), MultiplyAdd(a, b[j], ir::MakeLoad(acc, acc_at(i, j)))));
        }
      }
      return ir::MakeSeq(std::move(stmts), loc_);
    };
    if (k_ >= lanes_) {
      body.push_back(SerialLoop("k", MakeInt(k_ / lanes_), loc_,
                                [&](const Expr& k) { return step(k * MakeInt(lanes_), {}); }));
    }
    const int64_t rest = k_ % lanes_;
    if (rest != 0) body.push_back(step(MakeInt(k_ - rest), Mask(rest, lanes_)));
    ForEachAccumulator(rows, width, [&](int64_t i, int j) {
      const std::vector<Expr> at = c_.At(row + MakeInt(i), column + MakeInt(j));
      const Expr old = ir::MakeCast(type_, ir::MakeLoad(gemm_.c.buffer, at));
      const Expr sum =
          ir::MakeCall(type_, ir::Intrinsic::kReduceAdd, {ir::MakeLoad(acc, acc_at(i, j))});
      body.push_back(ir::MakeStmt<ir::Store>(
          loc_, gemm_.c.buffer, at, ir::MakeCast(gemm_.c.buffer->dtype, InitialC(old) + sum)));
    });
    return ir::MakeSeq(std::move(body), loc_);
  }

  // Both operands transposed: no axis is contiguous in all three; plain loops.
  Stmt Scalar() const {
    return SerialLoop("i", MakeInt(m_), loc_, [&](const Expr& i) {
      return SerialLoop("j", MakeInt(n_), loc_, [&](const Expr& j) {
        const ir::Buffer acc = ir::MakeBuffer("acc", type_, {MakeInt(1)}, ir::Scope::kLocal);
        const std::vector<Expr> zero = {MakeInt(0)};
        const Expr old = ir::MakeCast(type_, ir::MakeLoad(gemm_.c.buffer, c_.At(i, j)));
        std::vector<Stmt> body = {
            ir::MakeStmt<ir::Alloc>(loc_, acc),
            ir::MakeStmt<ir::Store>(loc_, acc, zero, InitialC(old)),
            SerialLoop("k", MakeInt(k_), loc_,
                       [&](const Expr& k) {
                         const Expr b =
                             ir::MakeCast(type_, ir::MakeLoad(gemm_.b.buffer, b_.At(k, j)));
                         return ir::MakeStmt<ir::Store>(
                             loc_, acc, zero, MultiplyAdd(LoadA(i, k), b, ir::MakeLoad(acc, zero)));
                       }),
            ir::MakeStmt<ir::Store>(loc_, gemm_.c.buffer, c_.At(i, j),
                                    ir::MakeCast(gemm_.c.buffer->dtype, ir::MakeLoad(acc, zero)))};
        return ir::MakeSeq(std::move(body), loc_);
      });
    });
  }

  const ir::Gemm& gemm_;
  const VectorUnit& unit_;
  const SourceLoc loc_;
  const Matrix a_, b_, c_;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  DType type_;
  int lanes_ = 0;
};

}  // namespace

absl::StatusOr<ir::Program> LowerGemmCpu(const ir::Program& program, const PassContext& context) {
  absl::Status status;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    if (const auto* pairs = s.As<ir::PairGemm>()) return LowerPairGemm(*pairs);
    const auto* gemm = s.As<ir::Gemm>();
    if (gemm == nullptr || !status.ok()) return {};
    absl::StatusOr<Stmt> lowered = GemmLowering(*gemm, context.vector).Lower();
    if (lowered.ok()) return *std::move(lowered);
    status =
        program.source == nullptr
            ? lowered.status()
            : ErrorAt(*program.source, s->loc, std::string(lowered.status().message()),
                      "choose tile shapes that the target can multiply", lowered.status().code());
    return {};
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace kiln::passes
