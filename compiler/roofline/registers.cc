#include "compiler/roofline/registers.h"

#include <algorithm>
#include <cmath>

#include "compiler/roofline/constants.h"

namespace kiln::roofline {
namespace {

constexpr int64_t kVectorBytes = 16;  // of one access of a thread
constexpr double kGrain = 8;          // registers are handed out to a thread in eights
constexpr double kSharers = 4;        // lanes that hold parts of one row of an accumulator
constexpr double kWarp = 32;

Num RoundUp(const Num& registers) { return Ceil(registers / kGrain) * kGrain; }

// Of an element. Narrow values share one where they come as vectors.
double Words(const LocalBuffer& b) {
  const double words = static_cast<double>(b.dtype.bytes()) / 4;
  return b.by_elements ? std::max(words, 1.0) : words;
}

// The same where a guard stands between an element's load and its use.
double GuardedWords(const LocalBuffer& b) {
  if (b.dtype == kBFloat16) return kGpu.guarded_bfloat16;
  if (b.dtype == kFloat16) return kGpu.guarded_float16;
  return std::max(Words(b), 1.0);
}

// Neighbours that the widest access of the launch to a tensor takes.
int64_t WidestAccess(const Demand& d, int launch) {
  int64_t widest = 1;
  for (const Access& a : d.accesses) {
    if (a.launch == launch && !a.atomic) {
      widest = std::max(widest, kVectorBytes / d.tensors[a.tensor].dtype.bytes());
    }
  }
  return widest;
}

bool HasGemm(const Demand& d, int launch) {
  return std::any_of(d.ops.begin(), d.ops.end(), [&](const OpDemand& op) {
    return op.launch == launch && op.kind == OpKind::kGemm;
  });
}

bool ComputesNothing(const ElementWork& w) {
  const auto none = [](const Num& work) { return work.constant() == 0.0; };
  return none(w.alu) && none(w.divide) && none(w.special);
}

}  // namespace

std::vector<DealDemand> DealsOf(const Demand& d) {
  std::vector<DealDemand> deals;
  for (size_t i = 0; i < d.buffers.size(); ++i) {
    const LocalBuffer& b = d.buffers[i];
    if (b.scope != ir::Scope::kFragment || b.vector || HasGemm(d, b.launch)) continue;
    deals.push_back({static_cast<int>(i), -1, b.elements / Max(b.columns, 1.0), b.columns,
                     d.launches[b.launch].threads, WidestAccess(d, b.launch)});
  }
  for (size_t i = 0; i < d.ops.size(); ++i) {
    const OpDemand& op = d.ops[i];
    const bool fills = op.kind == OpKind::kLoop && op.dst_buffer >= 0 &&
                       d.buffers[op.dst_buffer].scope == ir::Scope::kShared;
    if (!fills || ComputesNothing(op.work) || !HasGemm(d, op.launch)) continue;
    deals.push_back(
        {-1, static_cast<int>(i), op.rows, op.columns, d.launches[op.launch].threads, 1});
  }
  return deals;
}

RegisterCount::RegisterCount(const Demand& demand, const target::Arch& arch,
                             const GemmInputs& gemms, const std::vector<WarpInputs>& warps,
                             const std::vector<DealInputs>& deals)
    : d_(demand),
      arch_(arch),
      gemms_(gemms),
      warps_(warps),
      answers_(deals),
      deals_(DealsOf(demand)),
      zero_(demand.tape->Const(0)),
      one_(demand.tape->Const(1)) {}

bool RegisterCount::Multiplies(int launch) const { return HasGemm(d_, launch); }

bool RegisterCount::Computes(int launch) const {
  return std::any_of(d_.ops.begin(), d_.ops.end(), [&](const OpDemand& op) {
    return op.launch == launch && op.kind != OpKind::kCopy &&
           (op.kind != OpKind::kLoop || !ComputesNothing(op.work));
  });
}

// The most of any product of the launch; `value` is told which.
template <typename F>
Num RegisterCount::MostOfGemms(int launch, const F& value) const {
  Num most = zero_;
  int gemm = 0;
  for (const OpDemand& op : d_.ops) {
    if (op.kind != OpKind::kGemm) continue;
    if (op.launch == launch) most = Max(most, value(gemm));
    ++gemm;
  }
  return most;
}

// Threads that hold parts of one row of a fragment: lanes of a warp, and of a second one where a
// product's warps lie beside each other, for which its left operand cannot stay in registers.
Num RegisterCount::RowSharers(int launch) const {
  return (MostOfGemms(launch, [&](int gemm) { return gemms_.stages_a[gemm]; }) + 1.0) * kSharers;
}

// Whether some of what the operation reaches for lies outside of the tensors: of its two versions
// one has guards.
Num RegisterCount::Ragged(const OpDemand& op) const {
  Num ragged = zero_;
  for (const int a : op.accesses) {
    ragged = Max(ragged, Lt(d_.accesses[a].elements, d_.accesses[a].reached));
  }
  return ragged;
}

// Elements of a fragment that a thread holds, at most. What lies outside of the tensor that it is
// stored to is never computed, unless it goes by way of shared memory, as TMA has it.
Num RegisterCount::HeldBySome(const LocalBuffer& b, int launch) const {
  const Num threads = d_.launches[launch].threads;
  // A vector beside a product's rows or a tile's is held by all who share a row.
  const Num all = Ceil(b.elements * (b.vector ? RowSharers(launch) : one_) / threads);
  if (!b.stored.defined() || (arch_.cluster > 0 && !b.by_elements)) return all;
  // A product's warps hold rows of their own.
  return Min(all, Ceil(b.stored / (b.by_elements ? threads : one_ * arch_.warp_size)));
}

// What fragments, tiles of a thread's own and operands of products take.
Num RegisterCount::Held(int launch) const {
  Num held = MostOfGemms(launch, [&](int gemm) { return gemms_.operands[gemm]; });
  for (const LocalBuffer& b : d_.buffers) {
    if (b.launch != launch || b.scope == ir::Scope::kShared || b.taken_over) continue;
    // What is folded as it comes from a tensor need not all be there at once.
    const bool folded = b.folded_once && b.writer >= 0 && !b.by_elements &&
                        d_.ops[b.writer].kind == OpKind::kCopy && d_.ops[b.writer].src_buffer < 0;
    const double words = Words(b) * (folded ? kGpu.folded_loads : 1.0);
    if (b.scope == ir::Scope::kFragment) {
      held = held + HeldBySome(b, launch) * words;
    } else if (b.scope == ir::Scope::kRegister) {  // a row for each thread
      held = held + b.elements * words / d_.launches[launch].threads;
    } else {
      held = held + b.elements * words;
    }
  }
  return held;
}

const DealInputs* RegisterCount::DealOf(int buffer) const {
  for (size_t i = 0; i < deals_.size(); ++i) {
    if (buffer >= 0 && deals_[i].buffer == buffer) return &answers_[i];
  }
  return nullptr;
}

// A tile that is folded as it comes is never there as a whole, but where guards stand between the
// two: where tensors end, and where some threads have less to do than others.
Num RegisterCount::DealtTile(size_t deal, const LocalBuffer& b) const {
  const DealInputs& dealt = answers_[deal];
  Num held = dealt.elements;
  if (b.stored.defined() && (arch_.cluster == 0 || b.by_elements)) {
    held = Min(held, Ceil(b.stored / (b.by_elements ? deals_[deal].threads : one_ * kWarp)));
  }
  if (!b.folded_once || b.writer < 0) return held * Words(b);
  const Num whole = held * (Words(b) * (b.by_elements ? kGpu.folded_values : kGpu.folded_loads));
  const Num guarded = Max(Ragged(d_.ops[b.writer]), one_ - dealt.even);
  return Select(guarded, held * GuardedWords(b), whole);
}

// What a reduction takes beside its tile, while it lasts. Its threads exchange by shuffles within a
// warp: a result to which it adds stays meanwhile. Warps exchange by shared memory: each thread
// loads what all of them found for its rows, and with a maximum the assembler takes all of that at
// once, where a sum is added up as it comes; not of so many that the loop over them stays one.
Num RegisterCount::Reduced(const OpDemand& op) const {
  const DealInputs* tile = DealOf(op.src_buffer);
  if (tile == nullptr || !op.reduce_last) return zero_;
  const Num warps = Ceil(tile->sharers / kWarp);
  const Num within = op.accumulates ? tile->rows : zero_;
  const Num across = op.adds ? zero_ : tile->rows * warps;
  const Num unrolled = Le(warps, one_ * kGpu.unrolled_warps);
  return Select(Lt(one_, warps), Select(unrolled, across, zero_), within);
}

// What fragments take in a launch without products: tiles as they are dealt out, and of what is
// beside a tile's rows or columns as much as the thread has of those.
Num RegisterCount::Dealt(int launch) const {
  Num held = zero_, reducing = zero_;
  for (size_t i = 0; i < d_.buffers.size(); ++i) {
    const LocalBuffer& b = d_.buffers[i];
    if (b.launch != launch || b.scope == ir::Scope::kShared || b.taken_over) continue;
    if (b.scope == ir::Scope::kRegister) {
      held = held + b.elements * Words(b) / d_.launches[launch].threads;
    } else if (b.scope != ir::Scope::kFragment) {
      held = held + b.elements * Words(b);
    } else if (!b.vector) {
      const auto deal = std::find_if(deals_.begin(), deals_.end(), [&](const DealDemand& x) {
        return x.buffer == static_cast<int>(i);
      });
      held = held + DealtTile(static_cast<size_t>(deal - deals_.begin()), b);
    } else {
      Num own = HeldBySome(b, launch);
      for (const OpDemand& op : d_.ops) {
        const bool folds = op.kind == OpKind::kReduce && op.dst_buffer == static_cast<int>(i);
        const DealInputs* tile = folds ? DealOf(op.src_buffer) : nullptr;
        if (tile == nullptr) continue;
        own = op.reduce_last ? tile->rows : Ceil(tile->elements / Max(tile->rows, 1.0));
      }
      held = held + own * Words(b);
    }
  }
  for (const OpDemand& op : d_.ops) {
    if (op.launch == launch && op.kind == OpKind::kReduce) reducing = Max(reducing, Reduced(op));
  }
  return held + reducing;
}

// What one element loop over a product's result takes beside it: temporaries of special functions,
// and values of a tensor that it reads by column: with guards, the assembler keeps those of a row
// for the thread's next ones.
Num RegisterCount::Temporaries(int launch) const {
  const Num columns = MostOfGemms(launch, [&](int gemm) { return gemms_.held_columns[gemm]; });
  Num most = zero_;
  for (const OpDemand& op : d_.ops) {
    if (op.launch != launch) continue;
    Num kept = op.work.special * kGpu.special_registers;
    const bool by_rows = op.kind == OpKind::kLoop && op.rows.constant() != 1.0;
    for (const int i : by_rows ? op.accesses : std::vector<int>()) {
      const Access& a = d_.accesses[i];
      if (a.write) continue;
      const Num by_column = And(Lt(a.reached, op.rows * op.columns), Le(op.columns, a.reached));
      kept = kept + Select(And(by_column, Lt(a.elements, a.reached)), columns, zero_);
    }
    most = Max(most, kept);
  }
  return most;
}

// Loops that fill an operand and of which some threads have less to do than others stand under one
// guard, in which the assembler begins all of them at once.
Num RegisterCount::Uneven(int launch) const {
  Num most = zero_;
  for (size_t i = 0; i < deals_.size(); ++i) {
    if (deals_[i].op < 0 || d_.ops[deals_[i].op].launch != launch) continue;
    most = Max(most, (one_ - answers_[i].even) * answers_[i].elements);
  }
  return most;
}

// Where the pieces that a thread gathers for a step come from, and whether they lie in the tensor.
Num RegisterCount::Gathered(int launch) const {
  Num pieces = zero_;
  for (const OpDemand& op : d_.ops) {
    if (op.launch != launch || !op.fetches) continue;
    const double bytes = static_cast<double>(d_.buffers[op.dst_buffer].dtype.bytes());
    const Num all = op.rows * op.columns * (bytes / kVectorBytes);
    pieces = pieces + Ceil(all / d_.launches[launch].threads);
  }
  return pieces * kGpu.gather_registers;
}

// Addresses of results that are kept while the next tile's products run, beside what special
// functions of the results take.
Num RegisterCount::KeptInTurns(int launch) const {
  Num special = zero_, results = zero_;
  for (const OpDemand& op : d_.ops) {
    if (op.launch != launch) continue;
    special = Max(special, op.work.special);
    const bool in_turns = op.kind == OpKind::kGemm && op.loops.size() > 1 && op.c_buffer >= 0;
    if (in_turns) results = Max(results, HeldBySome(d_.buffers[op.c_buffer], launch));
  }
  return Select(Lt(zero_, special), results * kGpu.turn_registers, zero_);
}

Num RegisterCount::Wanted(int launch) const {
  const double beside = Computes(launch) ? kGpu.overhead_registers : kGpu.move_registers;
  if (!Multiplies(launch)) return RoundUp(Held(launch) + beside);
  Num special = zero_;
  for (const OpDemand& op : d_.ops) {
    if (op.launch == launch) special = Max(special, op.work.special);
  }
  return RoundUp(Held(launch) + kGpu.gemm_registers + special * kGpu.special_registers);
}

Num RegisterCount::Needed(int launch) const {
  if (Multiplies(launch)) {
    return RoundUp(Held(launch) + Temporaries(launch) + Uneven(launch) + kGpu.gemm_registers);
  }
  if (!Computes(launch)) return RoundUp(Dealt(launch) + kGpu.move_registers);
  return RoundUp(Dealt(launch) + kGpu.overhead_registers - kGpu.freed_registers);
}

// Whether a product's sums are those of one tile after the other.
bool RegisterCount::TakesTurns(int launch) const {
  return std::any_of(d_.ops.begin(), d_.ops.end(), [&](const OpDemand& op) {
    return op.launch == launch && op.kind == OpKind::kGemm && op.loops.size() > 1 &&
           op.c_buffer >= 0;
  });
}

// Whether a product rounds its operands in registers.
bool RegisterCount::Rounds(int launch) const {
  return std::any_of(d_.ops.begin(), d_.ops.end(), [&](const OpDemand& op) {
    return op.launch == launch && op.kind == OpKind::kGemm && op.tf32 && op.a_type == kFloat32;
  });
}

Num RegisterCount::Most(int launch) const {
  const LaunchDemand& l = d_.launches[launch];
  // A thread addresses one fewer than its grains have. Those that round operands and those that do
  // tiles in turn have been seen to lack it, others not.
  const double whole = std::ceil(arch_.registers_thread / kGrain) * kGrain;
  const bool lacks = Rounds(launch) || TakesTurns(launch);
  const Num addressed = one_ * (lacks ? arch_.registers_thread : whole);
  const Num grains = Floor(static_cast<double>(arch_.registers_sm) / l.threads / kGrain);
  const Num share = grains * kGrain;
  const Num all =
      Select(Lt(share, addressed), Multiplies(launch) ? share - kGrain : share, addressed);
  Num left = all;
  const double shares[] = {kGpu.registers_of_one, kGpu.registers_of_two, kGpu.registers_of_three};
  for (int groups = 1; groups <= 3; ++groups) {
    const Num working = l.threads * warps_[launch].teams;
    left = Select(Eq(working, one_ * (128.0 * groups)), one_ * shares[groups - 1], left);
  }
  return Select(warps_[launch].specialised, left, all);
}

// Addresses the assembler can compute again where it lacks registers: they make a launch doubtful
// at worst. TMA takes none.
Num RegisterCount::Spare(int launch) const {
  const Num most = Most(launch), needed = Needed(launch);
  const Num addresses =
      Select(warps_[launch].specialised, zero_, Gathered(launch) + KeptInTurns(launch));
  const Num doubtful = Max(needed, most + kGpu.doubtful_registers);
  return most - Min(needed + addresses, doubtful);
}

}  // namespace kiln::roofline
