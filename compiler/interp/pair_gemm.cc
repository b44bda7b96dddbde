// PairGemm: the halves of the pairs become a right factor in float64, then as a Gemm.
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/compiler.h"
#include "compiler/interp/gemm_kernel.h"
#include "compiler/ir/scalar.h"

namespace kiln::interp {
namespace {

double ValueOfHalf(uint32_t half) {
  return ir::Reinterpret({static_cast<int64_t>(half), 0}, DType{TypeCode::kUInt, 16}, kBFloat16)
      .real;
}

class PairGemmOf : public Action {
 public:
  PairGemmOf(SourceLoc loc, Box a, Box b, Box c)
      : Action(loc), a_(std::move(a)), b_(std::move(b)), c_(std::move(c)) {}

  Flow Run(Machine& m) const override {
    const Place a = Locate(m, a_), b = Locate(m, b_), c = Locate(m, c_);
    if (m.failed()) return Flow::kStop;
    const int64_t rows = Extent(c, 1), columns = Extent(c, 0), pairs = Extent(b, 1);
    if (Extent(a, 1) != rows || Extent(a, 0) != 2 * pairs || Extent(b, 0) != columns) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc, "pair_gemm of regions that do not match",
             "give the operands matching shapes");
      return Flow::kStop;
    }
    if (!Inside(m, a) || !Inside(m, b) || !Inside(m, c)) return Flow::kStop;
    if (!m.Step(rows * columns / 64 * 2 * pairs + 1, loc)) return Flow::kStop;
    double* am = m.Scratch<double>(0, rows * 2 * pairs);
    double* bm = m.Scratch<double>(1, 2 * pairs * columns);
    double* cm = m.Scratch<double>(2, rows * columns);
    if (!GatherRows(m, a, a_, rows, 2 * pairs, am)) return Flow::kStop;
    if (!GatherPairs(m, b, pairs, columns, bm)) return Flow::kStop;
    if (!GatherRows(m, c, c_, rows, columns, cm)) return Flow::kStop;
    GemmF64(rows, columns, 2 * pairs, am, bm, cm);
    for (int64_t i = 0; i < rows; ++i) {
      if (!WriteRow(m, *c.buffer, RowOffset(c, i), Stride(c, 0), columns, cm + i * columns,
                    c_.track, loc)) {
        return Flow::kStop;
      }
    }
    return NextUnlessFailed(m);
  }

 private:
  // `from_last`: 0 for columns, 1 for rows.
  static int64_t Extent(const Place& p, int from_last) {
    return p.extent[p.buffer->rank - 1 - from_last];
  }
  static int64_t Stride(const Place& p, int from_last) {
    return p.buffer->stride[p.buffer->rank - 1 - from_last];
  }
  static int64_t RowOffset(const Place& p, int64_t row) {
    int64_t offset = row * Stride(p, 1);
    for (int d = 0; d < p.buffer->rank; ++d) offset += p.min[d] * p.buffer->stride[d];
    return offset;
  }

  bool Inside(Machine& m, const Place& p) const {
    for (int d = 0; d < p.buffer->rank; ++d) {
      if (p.min[d] >= 0 && p.min[d] + p.extent[d] <= p.buffer->shape[d]) continue;
      m.Fail(absl::StatusCode::kOutOfRange, loc,
             absl::StrCat("pair_gemm operand outside '", p.buffer->node->name, "'"),
             "make the region fit the buffer");
      return false;
    }
    return true;
  }

  bool GatherRows(Machine& m, const Place& p, const Box& box, int64_t rows, int64_t columns,
                  double* out) const {
    for (int64_t i = 0; i < rows; ++i) {
      if (!ReadRow(m, *p.buffer, RowOffset(p, i), Stride(p, 0), columns, box.track, loc,
                   out + i * columns)) {
        return false;
      }
    }
    return true;
  }

  bool GatherPairs(Machine& m, const Place& p, int64_t pairs, int64_t columns, double* out) const {
    std::vector<int64_t> row(columns);
    for (int64_t k = 0; k < pairs; ++k) {
      if (!ReadRow(m, *p.buffer, RowOffset(p, k), Stride(p, 0), columns, b_.track, loc,
                   row.data())) {
        return false;
      }
      for (int64_t j = 0; j < columns; ++j) {
        const auto pair = static_cast<uint32_t>(row[j]);
        out[2 * k * columns + j] = ValueOfHalf(pair & 0xffff);
        out[(2 * k + 1) * columns + j] = ValueOfHalf(pair >> 16);
      }
    }
    return true;
  }

  Box a_, b_, c_;
};

}  // namespace

ActionPtr Compiler::PairGemmAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::PairGemm>();
  return std::make_unique<PairGemmOf>(s->loc, MakeBox(x->a, s->loc), MakeBox(x->b, s->loc),
                                      MakeBox(x->c, s->loc));
}

}  // namespace kiln::interp
