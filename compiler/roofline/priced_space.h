// The Space that Recommend hands out: pieces, prices and ranks. Private to this folder.
#ifndef KILN_COMPILER_ROOFLINE_PRICED_SPACE_H_
#define KILN_COMPILER_ROOFLINE_PRICED_SPACE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/roofline/expand.h"
#include "compiler/roofline/recommend.h"

namespace kiln::roofline {

class PricedSpace : public Space {
 public:
  // Prices every row. Immutable afterwards.
  PricedSpace(Expanded expanded, const target::Arch& arch);

  int64_t legal() const override { return static_cast<int64_t>(ranked_.size()); }
  int64_t total() const override { return total_; }
  Config ConfigAt(int64_t rank) const override;
  double PredictedAt(int64_t rank) const override;
  Hint HintAt(int64_t rank) const override;
  int64_t RankOf(const Config& config) const override;
  std::string BrokenLimit(const Config& config) const override;
  const std::vector<Tunable>& tunables() const override { return tunables_; }

  // Values of the config at `rank` on the numeric axes, for distances; NaN where it has none.
  std::vector<double> Coordinates(int64_t rank) const;
  const std::vector<Axis>& axes() const { return axes_; }
  const Demand& FirstDemand() const { return pieces_.front().piece.demand(); }
  // The resource that is busy longest.
  std::string BoundBy(int64_t rank) const;
  // Whether a thread of the GPU may lack registers.
  bool MayLackRegisters(int64_t rank) const;
  // Which limit most illegal rows fail, for "no legal config"; empty when some are legal.
  std::string CommonestLimit() const;

 private:
  struct Row {
    int32_t piece;
    int64_t index;  // within the piece
  };
  Row RowOf(int64_t rank) const { return rows_[ranked_[rank]]; }
  Config RowConfig(const Row& row) const;
  std::vector<double> RowValues(const Row& row) const;
  void FillColumns(const PieceRows& p, int64_t from, int64_t count,
                   std::vector<std::vector<double>>& columns) const;
  void PriceAll();
  void Rank();
  // Row of `config`, or -1; of one whose options change nothing, that of the one without them.
  int64_t FindRow(const Config& config) const;
  int64_t Settled(int64_t row, const std::vector<std::pair<int64_t, int64_t>>& options) const;
  static bool IsOpenOption(const Axis& axis);
  std::string Counterfactuals(int64_t rank) const;

  target::Arch arch_;
  std::vector<Axis> axes_;
  std::vector<PieceRows> pieces_;
  std::vector<Tunable> tunables_;
  int64_t total_ = 0;
  std::vector<Row> rows_;
  std::vector<double> ns_;                 // by row, as Piece::Evaluate gives it
  std::vector<int64_t> ranked_;            // rows of legal configs, best first
  std::vector<int64_t> rank_of_row_;       // -1 = illegal
  std::vector<int64_t> first_row_;         // of each piece
  std::map<std::string, int64_t> listed_;  // configs given outright -> row
};

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_PRICED_SPACE_H_
