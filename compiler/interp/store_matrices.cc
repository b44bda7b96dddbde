// stmatrix (ir/instruct.h), by the PTX ISA: what a warp stores is there once all of its lanes have
// come by, each with the place of a row and its share of the matrices.
#include "absl/strings/str_cat.h"
#include "compiler/interp/async.h"
#include "compiler/interp/compiler.h"

namespace kiln::interp {
namespace {

constexpr int kWarp = 32;
constexpr int64_t kRow = 8;
constexpr uint32_t kAllLanes = ~uint32_t{0};

class StoreMatricesOf : public Action {
 public:
  StoreMatricesOf(SourceLoc loc, Box row, std::vector<NodePtr> values, bool transposed)
      : Action(loc), row_(std::move(row)), values_(std::move(values)), transposed_(transposed) {}

  Flow Run(Machine& m) const override {
    const Place place = Locate(m, row_);
    std::vector<double> own;
    for (const NodePtr& value : values_) own.push_back(value->Real(m));
    if (m.failed() || !m.Step(static_cast<int64_t>(own.size()), loc)) return Flow::kStop;
    int64_t first = 0;
    for (int d = 0; d < place.buffer->rank; ++d) {
      if (place.min[d] < 0 || place.min[d] + place.extent[d] > place.buffer->shape[d]) {
        m.Fail(absl::StatusCode::kOutOfRange, loc, "a row of a matrix outside of its tile", "");
        return Flow::kStop;
      }
      first += place.min[d] * place.buffer->stride[d];
    }
    if (first % kRow != 0) {
      m.Fail(
          absl::StatusCode::kFailedPrecondition, loc,
          absl::StrCat("a row of a matrix at element ", first, ", which is no multiple of ", kRow),
          "store its elements one by one");
      return Flow::kStop;
    }
    const uint32_t thread = m.levels.back().unit;
    const uint32_t lane = thread % kWarp;
    // The first of the warp's turns here that this lane has not come by for.
    auto& turns = m.async->matrices[{this, thread / kWarp}];
    auto turn = turns.begin();
    while (turn != turns.end() && (turn->lanes >> lane & 1) != 0) ++turn;
    if (turn == turns.end()) turn = turns.insert(turn, Async::Matrices());
    turn->lanes |= uint32_t{1} << lane;
    turn->rows[lane] = first;
    turn->values[lane] = std::move(own);
    if (turn->lanes != kAllLanes) return Flow::kNext;
    const Async::Matrices all = std::move(*turn);
    turns.erase(turn);
    if (turns.empty()) m.async->matrices.erase({this, thread / kWarp});
    Store(m, all, thread - lane);
    return NextUnlessFailed(m);
  }

 private:
  // Lane l holds, of each matrix, elements 2 (l % 4) and the next of row l / 4; transposed, those
  // of column l / 4. Row r of matrix j goes where lane 8 j + r says (PTX 9.7.14.5.16).
  void Store(Machine& m, const Async::Matrices& all, uint32_t warp) const {
    BufferState& tile = *Locate(m, row_).buffer;
    const uint32_t around = m.levels.back().unit;
    const auto matrices = static_cast<int64_t>(values_.size()) / 2;
    for (int64_t lane = 0; lane < kWarp; ++lane) {
      m.levels.back().unit = warp + static_cast<uint32_t>(lane);
      for (int64_t i = 0; i < 2 * matrices && !m.failed(); ++i) {
        const int64_t along = lane % 4 * 2 + i % 2, across = lane / 4;
        const int64_t row = transposed_ ? along : across, column = transposed_ ? across : along;
        const int64_t to = all.rows[static_cast<size_t>(i / 2 * kRow + row)] + column;
        WriteReal(m, tile, to, all.values[static_cast<size_t>(lane)][static_cast<size_t>(i)],
                  row_.track, loc);
      }
    }
    m.levels.back().unit = around;
  }

  Box row_;
  std::vector<NodePtr> values_;
  const bool transposed_;
};

}  // namespace

ActionPtr Compiler::StoreMatricesAction(const ir::Instruct& x) {
  std::vector<NodePtr> values;
  for (const ir::Expr& e : x.args) values.push_back(Expr(e, x.loc));
  return std::make_unique<StoreMatricesOf>(x.loc, MakeBox(x.regions[0], x.loc), std::move(values),
                                           x.annotations.count("trans") > 0);
}

}  // namespace kiln::interp
