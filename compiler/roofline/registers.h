// Registers of a thread on a GPU: how many a launch wants, and how many it may have. Private to
// this folder.
#ifndef KILN_COMPILER_ROOFLINE_REGISTERS_H_
#define KILN_COMPILER_ROOFLINE_REGISTERS_H_

#include <cstdint>
#include <vector>

#include "compiler/roofline/demand.h"
#include "compiler/roofline/price.h"
#include "compiler/target/arch.h"

namespace kiln::roofline {

// A tile, or a loop, whose elements target::DealRows deals out: no product's result decides it.
struct DealDemand {
  int buffer = -1, op = -1;  // which of both it is
  Num rows, columns, threads;
  int64_t widest = 1;
};
std::vector<DealDemand> DealsOf(const Demand& demand);

class RegisterCount {
 public:
  // `deals`: the answers to DealsOf(demand), in order. The references outlive this.
  RegisterCount(const Demand& demand, const target::Arch& arch, const GemmInputs& gemms,
                const std::vector<WarpInputs>& warps, const std::vector<DealInputs>& deals);

  // What a thread of the launch takes where there are enough, and what it cannot do without.
  Num Wanted(int launch) const;
  Num Needed(int launch) const;
  // Those that a thread may need. Of a block so large that its share of an SM is less than a thread
  // can address, products lose some; beside a warpgroup that fetches, the others are given what it
  // leaves (setmaxnreg).
  Num Most(int launch) const;
  // What is left of those; below 0 some are likely to be spilled.
  Num Spare(int launch) const;

  bool Multiplies(int launch) const;

 private:
  bool Computes(int launch) const;
  bool Rounds(int launch) const;
  bool TakesTurns(int launch) const;
  Num HeldBySome(const LocalBuffer& b, int launch) const;
  Num Held(int launch) const;
  Num Dealt(int launch) const;
  Num DealtTile(size_t deal, const LocalBuffer& b) const;
  Num Reduced(const OpDemand& op) const;
  Num Temporaries(int launch) const;
  Num Uneven(int launch) const;
  Num Gathered(int launch) const;
  Num KeptInTurns(int launch) const;
  Num RowSharers(int launch) const;
  Num Ragged(const OpDemand& op) const;
  const DealInputs* DealOf(int buffer) const;
  template <typename F>
  Num MostOfGemms(int launch, const F& value) const;

  const Demand& d_;
  const target::Arch& arch_;
  const GemmInputs& gemms_;
  const std::vector<WarpInputs>& warps_;
  const std::vector<DealInputs>& answers_;
  const std::vector<DealDemand> deals_;
  const Num zero_, one_;
};

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_REGISTERS_H_
