// A piece of a space: one elaboration of the kernel with its remaining tunables open, priced.
// Private to this folder and its tests.
#ifndef KILN_COMPILER_ROOFLINE_PIECE_H_
#define KILN_COMPILER_ROOFLINE_PIECE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/base/config.h"
#include "compiler/ir/stmt.h"
#include "compiler/lang/kernel.h"
#include "compiler/roofline/demand.h"
#include "compiler/roofline/price.h"
#include "compiler/target/arch.h"

namespace kiln::roofline {

// The figures of one config that explanations quote, in tape order.
struct Figures {
  double ns = 0, legal = 0, blocks = 0, waves = 0, tail = 0, waste = 0, onchip_bytes = 0,
         dram_bytes = 0, compulsory_bytes = 0, flops = 0, roofline_ns = 0, registers = 0,
         spare_registers = 0, occupancy = 0, specialised = 0, cluster = 0, persistent = 0,
         teams = 0;
  std::vector<double> resources;  // ns, in order of Price::resources
  std::vector<double> limits;     // 0 or 1, in order of Price::limits
  double min_run_bytes = 0;       // shortest contiguous run of any tensor read; 0 = no reads
};

class Piece {
 public:
  // Analyses and prices `open`. `fixed` holds the tunables that this piece made concrete, `options`
  // names pass options that are open too, further inputs (OpenOptions).
  static absl::StatusOr<Piece> Make(Config fixed, const lang::OpenProgram& open,
                                    const std::map<std::string, double>& runtime,
                                    const target::Arch& arch,
                                    const std::vector<std::string>& options = {});

  const Config& fixed() const { return fixed_; }
  // Open tunables, in order of columns.
  const std::vector<std::string>& inputs() const { return demand_->inputs; }
  const Demand& demand() const { return *demand_; }
  const Price& price() const { return price_; }

  // Time and legality of `count` configs; columns[i][j] is input i of config j. An illegal config
  // gets a time of kIllegal; one that would be the same with the open option o left alone, where it
  // is set otherwise, kSame - o.
  static constexpr double kIllegal = -1, kSame = -2;
  void Evaluate(const std::vector<const double*>& columns, int64_t count, double* ns) const;
  // Everything about one config.
  Figures FiguresOf(const std::vector<double>& values) const;

 private:
  // GPU: what the tables and decisions of compiler/target say of each config, as columns: of each
  // gemm, then of each launch, then of each tile that is dealt out; and of each open option whether
  // the decision would be the same with it left alone.
  struct Answers {
    std::vector<std::vector<double>> columns;
    std::vector<std::vector<bool>> unchanged;
    std::vector<std::vector<int64_t>> turned_bytes;  // of products
  };
  Answers Ask(const std::vector<const double*>& columns, int64_t count) const;
  void AskGemms(const std::vector<std::vector<double>>& dims, int64_t count, Answers& out) const;
  void AskWarps(const std::vector<const double*>& columns,
                const std::vector<std::vector<double>>& dims, int64_t count, Answers& out) const;
  void AskDeals(const std::vector<std::vector<double>>& dims, int64_t count, size_t to,
                Answers& out) const;
  int64_t StagedBytes(size_t launch, int64_t row, const std::vector<std::vector<double>>& dims,
                      const Answers& answers) const;
  bool HoldsSums(size_t launch, int64_t row, const Answers& answers) const;
  static void SetOption(const OpenOption& option, double value, target::WarpQuery& query);
  void AddGpuPrice(const std::vector<std::string>& options);

  Config fixed_;
  std::shared_ptr<Demand> demand_;
  Price price_;
  TapeProgram fast_, full_, dims_;
  size_t dim_count_ = 0;  // outputs of dims_, which the questions need: of gemms, then of launches
  std::vector<int> gemm_ops_;
  std::vector<int64_t> widest_;  // of each DealsOf(demand): DealDemand::widest
  std::vector<std::pair<const OpenOption*, int>> options_;  // open, with their inputs
  target::Arch arch_;
};

// The identity of an open kernel: its programs, piece by piece, with the tunables in place.
class KernelDigest {
 public:
  void Add(const Config& fixed, const lang::OpenProgram& open);
  std::string Finish();

 private:
  std::map<std::string, std::string> pieces_;  // fixed part -> digest
};

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_PIECE_H_
