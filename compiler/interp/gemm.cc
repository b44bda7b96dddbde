// Gemm: operands are gathered into contiguous matrices, multiplied in float64 (or int64 when all
// three are integers), and stored with one rounding an element. A sparse form becomes the matrix
// that it stands for first.
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/interp/compiler.h"
#include "compiler/interp/gemm_kernel.h"
#include "compiler/interp/metadata.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/sparse.h"

namespace kiln::interp {
namespace {

struct Operand {
  Box box;
  int row, column;  // dimensions of the region
};

// The metadata of a sparse left operand of `element`s.
struct Metadata {
  Operand e;
  bool trans;
  DType element;
};

template <typename T>
class GemmOf : public Action {
 public:
  GemmOf(SourceLoc loc, Operand a, Operand b, Operand c, bool trans_a, bool trans_b, NodePtr clear,
         std::optional<Metadata> metadata)
      : Action(loc),
        a_(std::move(a)),
        b_(std::move(b)),
        c_(std::move(c)),
        trans_a_(trans_a),
        trans_b_(trans_b),
        clear_(std::move(clear)),
        metadata_(std::move(metadata)) {}

  Flow Run(Machine& m) const override {
    const Place a = Locate(m, a_.box), b = Locate(m, b_.box), c = Locate(m, c_.box);
    const bool clear = clear_->Int(m) != 0;
    if (m.failed()) return Flow::kStop;
    const int64_t rows = c.extent[c_.row], columns = c.extent[c_.column];
    const int64_t depth = a.extent[trans_a_ ? a_.row : a_.column] * (metadata_ ? 2 : 1);
    if (!Check(m, a, b, rows, columns, depth)) return Flow::kStop;
    if (!Inside(m, a) || !Inside(m, b) || !Inside(m, c)) return Flow::kStop;
    if (!m.Step(rows * columns / 64 * depth + 1, loc)) return Flow::kStop;
    T* am = m.Scratch<T>(0, rows * depth);
    T* bm = m.Scratch<T>(1, depth * columns);
    T* cm = m.Scratch<T>(2, rows * columns);
    if (!(metadata_ ? GatherSparse(m, a, rows, depth, am)
                    : Gather(m, a, a_, trans_a_, rows, depth, am))) {
      return Flow::kStop;
    }
    if (!Gather(m, b, b_, trans_b_, depth, columns, bm)) return Flow::kStop;
    if (clear) {
      std::fill_n(cm, rows * columns, T{0});
    } else if (!Gather(m, c, c_, false, rows, columns, cm)) {
      return Flow::kStop;
    }
    if constexpr (std::is_same_v<T, double>) {
      GemmF64(rows, columns, depth, am, bm, cm);
    } else {
      GemmI64(rows, columns, depth, am, bm, cm);
    }
    return Scatter(m, c, rows, columns, cm) ? NextUnlessFailed(m) : Flow::kStop;
  }

 private:
  bool Check(Machine& m, const Place& a, const Place& b, int64_t rows, int64_t columns,
             int64_t depth) const {
    const int64_t a_rows = a.extent[trans_a_ ? a_.column : a_.row];
    const int64_t b_rows = b.extent[trans_b_ ? b_.column : b_.row];
    const int64_t b_columns = b.extent[trans_b_ ? b_.row : b_.column];
    if (a_rows == rows && b_rows == depth && b_columns == columns) return true;
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           absl::StrCat("gemm of [", a_rows, ", ", depth, "] and [", b_rows, ", ", b_columns,
                        "] into [", rows, ", ", columns, "]"),
           "give the operands matching shapes");
    return false;
  }

  bool Inside(Machine& m, const Place& p) const {
    for (int d = 0; d < p.buffer->rank; ++d) {
      if (p.min[d] >= 0 && p.min[d] + p.extent[d] <= p.buffer->shape[d]) continue;
      m.Fail(absl::StatusCode::kOutOfRange, loc,
             absl::StrCat("gemm operand outside '", p.buffer->node->name, "': [", p.min[d], ", ",
                          p.min[d] + p.extent[d], ") of dimension ", d, ", whose extent is ",
                          p.buffer->shape[d]),
             "make the region fit the buffer");
      return false;
    }
    return true;
  }

  static int64_t Base(const Place& p) {
    int64_t offset = 0;
    for (int d = 0; d < p.buffer->rank; ++d) offset += p.min[d] * p.buffer->stride[d];
    return offset;
  }

  // The operand (or its transpose) as a row-major [rows, columns] matrix.
  bool Gather(Machine& m, const Place& p, const Operand& operand, bool transpose, int64_t rows,
              int64_t columns, T* out) const {
    const int64_t row_step = p.buffer->stride[transpose ? operand.column : operand.row];
    const int64_t step = p.buffer->stride[transpose ? operand.row : operand.column];
    const int64_t base = Base(p);
    for (int64_t i = 0; i < rows; ++i) {
      if (!ReadRow(m, *p.buffer, base + i * row_step, step, columns, operand.box.track, loc,
                   out + i * columns)) {
        return false;
      }
    }
    return true;
  }

  // The matrix that a sparse form stands for.
  bool GatherSparse(Machine& m, const Place& a, int64_t rows, int64_t depth, T* out) const {
    const Place e = Locate(m, metadata_->e.box);
    const DType element = metadata_->element;
    const ir::SparseForm form = ir::SparseFormOf(element);
    const int64_t kept = depth / 2, bits = e.buffer->node->dtype.bits;
    const int64_t words = depth / ir::DensePerMetadata(element, e.buffer->node->dtype);
    if (m.failed() || !Inside(m, e)) return false;
    std::vector<T> values(static_cast<size_t>(rows * kept)),
        where(static_cast<size_t>(rows * words));
    if (!Gather(m, a, a_, trans_a_, rows, kept, values.data()) ||
        !Gather(m, e, metadata_->e, metadata_->trans, rows, words, where.data())) {
      return false;
    }
    std::fill_n(out, rows * depth, T{0});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t group = i / form.kept, first = group * ir::kMetadataBits;
        const auto word = static_cast<int64_t>(where[row * words + first / bits]);
        const int64_t nibble = word >> first % bits & 15;
        const T value = values[row * kept + i];
        const auto place = ir::PlaceInGroup(element, nibble, i % form.kept);
        if (!place && nibble == 0 && value == 0) continue;
        if (!place) return NoMetadata(m, *e.buffer->node, row, group, nibble);
        out[row * depth + group * form.group + *place] = value;
      }
    }
    return true;
  }

  bool NoMetadata(Machine& m, const ir::BufferNode& e, int64_t row, int64_t group,
                  int64_t bits) const {
    m.Fail(absl::StatusCode::kFailedPrecondition, loc, NoMetadataText(e.name, row, group, bits),
           kNoMetadataRemedy);
    return false;
  }

  bool Scatter(Machine& m, const Place& p, int64_t rows, int64_t columns, const T* in) const {
    const int64_t base = Base(p);
    for (int64_t i = 0; i < rows; ++i) {
      if (!WriteRow(m, *p.buffer, base + i * p.buffer->stride[c_.row], p.buffer->stride[c_.column],
                    columns, in + i * columns, c_.box.track, loc)) {
        return false;
      }
    }
    return true;
  }

  Operand a_, b_, c_;
  const bool trans_a_, trans_b_;
  NodePtr clear_;
  const std::optional<Metadata> metadata_;
};

}  // namespace

ActionPtr Compiler::GemmAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Gemm>();
  const auto operand = [&](const ir::Region& region) {
    const auto dims = *ir::MatrixDims(region);
    return Operand{MakeBox(region, s->loc), dims.first, dims.second};
  };
  Operand a = operand(x->a), b = operand(x->b), c = operand(x->c);
  NodePtr clear = Expr(x->clear_accum, s->loc);
  std::optional<Metadata> metadata;
  if (x->sparse()) metadata = {operand(x->e), x->trans_e, x->a.buffer->dtype};
  const bool real =
      IsReal(x->a.buffer->dtype) || IsReal(x->b.buffer->dtype) || IsReal(x->c.buffer->dtype);
  if (real) {
    return std::make_unique<GemmOf<double>>(s->loc, std::move(a), std::move(b), std::move(c),
                                            x->trans_a, x->trans_b, std::move(clear),
                                            std::move(metadata));
  }
  return std::make_unique<GemmOf<int64_t>>(s->loc, std::move(a), std::move(b), std::move(c),
                                           x->trans_a, x->trans_b, std::move(clear),
                                           std::move(metadata));
}

}  // namespace kiln::interp
