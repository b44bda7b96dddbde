#include <algorithm>

#include "compiler/roofline/constants.h"
#include "compiler/roofline/price.h"
#include "compiler/roofline/traffic.h"

namespace kiln::roofline {
namespace {

using target::Arch;

constexpr double kNsPerGb = 1.0;  // bytes / (GB/s) = ns

// Rates of one core while all cores work.
struct CoreRates {
  double read_dram, write_dram, read_llc, write_llc, read_l2, write_l2, read_l1, write_l1;
};

CoreRates RatesOf(const Arch& a) {
  const double n = a.cores;
  const auto share = [&](double core, double all) { return std::min(core, all / n); };
  return {share(a.dram.read_core, a.dram.read_all),
          share(a.dram.write_core, a.dram.write_all),
          share(a.llc.read_core, a.llc.read_all),
          share(a.llc.write_core, a.llc.write_all),
          a.l2.read_core,
          a.l2.write_core,
          a.l1.read_core,
          a.l1.write_core};
}

class CpuPricer {
 public:
  CpuPricer(const Demand& demand, const Arch& arch)
      : d_(demand),
        arch_(arch),
        tape_(*demand.tape),
        rates_(RatesOf(arch)),
        zero_(tape_.Const(0)),
        one_(tape_.Const(1)),
        cycle_(1.0 / arch.clock_ghz) {}

  Price Run();

 private:
  // Nanoseconds of all executions of one operation on one core.
  struct OpTime {
    Num fma, tensor, vector, dram, llc, l2, l1;
  };
  void Traffic();
  OpTime TimeOf(int op) const;
  void AddAccessTimes(const OpDemand& op, OpTime& t) const;
  Num GemmCycles(const OpDemand& op) const;
  Num PanelCycles(const OpDemand& op) const;
  Num StreamCycles(const OpDemand& op) const;
  Num DotCycles(const OpDemand& op) const;
  Num Paired(const OpDemand& gemm) const;
  Num Joined(const OpDemand& copy) const;
  Num PairPasses(const OpDemand& op) const;
  Num PairNs(const OpDemand& op) const;
  Num PairOperandNs(const OpDemand& op) const;
  Num JoinCycles(const OpDemand& copy) const;
  Num LoopCycles(const OpDemand& op) const;
  Num ReduceCycles(const OpDemand& op) const;
  Num CopyCycles(const OpDemand& op) const;
  Num OnchipNs(Num read_bytes, Num write_bytes, int launch) const;
  Num GemmOperandNs(const OpDemand& op) const;
  Num Forwarded(const OpDemand& op) const;
  Num Vectors(Num columns) const { return Ceil(columns / static_cast<double>(lanes())); }
  double lanes() const { return arch_.Lanes(kFloat32); }
  Num LaunchTime(int launch, Price& price);
  void Limits(Price& price);
  void Totals(Price& price);

  const Demand& d_;
  const Arch& arch_;
  Tape& tape_;
  const CoreRates rates_;
  const Num zero_, one_;
  const double cycle_;
  std::vector<Num> miss_l1_, miss_l2_, miss_llc_;  // bytes of each access
  std::vector<Num> onchip_;                        // bytes of a block, by launch
};

void CpuPricer::Traffic() {
  const double n = arch_.cores;
  miss_l1_ = MissBytes(d_, {arch_.l1.bytes * kCpu.private_share, true, 1});
  miss_l2_ = MissBytes(d_, {arch_.l2.bytes * kCpu.private_share, true, 1});
  const double shared = arch_.llc.bytes > 0 ? arch_.llc.bytes * kCpu.shared_share
                                            : arch_.l2.bytes * kCpu.private_share;
  miss_llc_ = MissBytes(d_, {shared, true, n});
  for (size_t l = 0; l < d_.launches.size(); ++l) {
    Num bytes = zero_;
    for (const LocalBuffer& b : d_.buffers) {
      if (b.launch == static_cast<int>(l)) bytes = bytes + b.bytes;
    }
    onchip_.push_back(bytes);
  }
}

// 1 when the compiler reads the tensor in place instead of staging the copy's tile.
Num CpuPricer::Forwarded(const OpDemand& op) const {
  if (op.kind != OpKind::kCopy || op.sole_reader < 0) return zero_;
  const OpDemand& reader = d_.ops[op.sole_reader];
  const Num inside =
      op.accesses.empty() ? zero_ : Le(op.rows * op.columns, d_.accesses[op.accesses[0]].elements);
  if (reader.kind == OpKind::kReduce) return inside;
  if (reader.kind != OpKind::kGemm || reader.trans_b) return zero_;
  return And(inside, Le(reader.m, static_cast<double>(kCpu.stream_rows)));
}

void CpuPricer::AddAccessTimes(const OpDemand& op, OpTime& t) const {
  for (int i : op.accesses) {
    const Access& a = d_.accesses[i];
    const Num from_dram = miss_llc_[i];
    const Num from_llc = Max(miss_l2_[i] - miss_llc_[i], 0.0);
    const Num from_l2 = Max(miss_l1_[i] - miss_l2_[i], 0.0);
    const Num dram_rate = a.run_bytes / (a.run_bytes + kCpu.run_bytes_dram) *
                          (a.write ? rates_.write_dram : rates_.read_dram);
    const Num llc_rate = a.run_bytes / (a.run_bytes + kCpu.run_bytes_llc) *
                         (a.write ? rates_.write_llc : rates_.read_llc);
    t.dram = t.dram + from_dram / dram_rate;
    t.llc = t.llc + from_llc / llc_rate;
    t.l2 = t.l2 + from_l2 / (a.write ? rates_.write_l2 : rates_.read_l2);
    t.l1 =
        t.l1 + Max(a.total_bytes - miss_l1_[i], 0.0) / (a.write ? rates_.write_l1 : rates_.read_l1);
  }
}

// Streaming over on-chip storage, from the level that the block's storage fits in.
Num CpuPricer::OnchipNs(Num read_bytes, Num write_bytes, int launch) const {
  const Num fits_l1 = Le(onchip_[launch], arch_.l1.bytes * kCpu.private_share);
  const Num fits_l2 = Le(onchip_[launch], arch_.l2.bytes * kCpu.private_share);
  const auto at = [&](double read, double write) {
    return read_bytes / (read * kNsPerGb) + write_bytes / (write * kNsPerGb);
  };
  return Select(
      fits_l1, at(rates_.read_l1, rates_.write_l1),
      Select(fits_l2, at(rates_.read_l2, rates_.write_l2), at(rates_.read_llc, rates_.write_llc)));
}

Num CpuPricer::PanelCycles(const OpDemand& op) const {
  const double most = arch_.vector_registers >= 32 ? kCpu.tile_rows_32 : kCpu.tile_rows_16;
  const double width = kCpu.tile_vectors * lanes();
  const double ports = std::max(1, arch_.fma_ports);
  const Num chunks = CeilDiv(op.m, tape_.Const(most));
  const Num rows = op.m / chunks;
  // A last panel of at most one vector costs half.
  const Num whole = Floor(op.n / width);
  const Num rest = op.n - whole * width;
  const Num panels =
      whole + Select(Lt(zero_, rest), Select(Le(rest, lanes()), one_ * 0.5, one_), zero_);
  const Num busy = rows * (kCpu.tile_vectors / ports);
  const Num latency = tape_.Const(kCpu.fma_latency);
  const Num loads = (rows + static_cast<double>(kCpu.tile_vectors)) * kCpu.load_cycles;
  const Num step = Max(Max(busy, latency), loads) / kCpu.gemm_efficiency;
  const Num ends =
      rows * (2.0 * kCpu.tile_vectors * kCpu.accumulator_cycles) + kCpu.gemm_call_cycles;
  return panels * chunks * (step * op.k + ends);
}

Num CpuPricer::StreamCycles(const OpDemand& op) const {
  const Num unroll = Max(Floor(8.0 / Max(op.m, 1.0)), 1.0);
  const Num per_pass =
      Max(op.m * unroll * (1.0 / std::max(1, arch_.fma_ports)), unroll * kCpu.load_cycles) +
      op.m * (kCpu.load_cycles + kCpu.store_cycles);
  return Ceil(op.k / unroll) * (Vectors(op.n) * per_pass + kCpu.row_cycles);
}

Num CpuPricer::DotCycles(const OpDemand& op) const {
  const bool wide = arch_.vector_registers >= 32;
  const double tm = wide ? 6 : 4, tn = wide ? 4 : 2;
  const Num tiles = CeilDiv(op.m, tape_.Const(tm)) * CeilDiv(op.n, tape_.Const(tn));
  const double step =
      std::max(tm * tn / std::max(1, arch_.fma_ports), (tm + tn) * kCpu.load_cycles) /
      kCpu.gemm_efficiency;
  const double sums = tm * tn * kCpu.gather_cycles * 0.5;
  return tiles * (Vectors(op.k) * step + sums + kCpu.gemm_call_cycles);
}

Num CpuPricer::GemmCycles(const OpDemand& op) const {
  if (op.trans_b && op.trans_a) return op.m * op.n * op.k * kCpu.scalar_cycles;
  if (op.trans_b) return DotCycles(op);
  return Select(Le(op.m, static_cast<double>(kCpu.stream_rows)), StreamCycles(op), PanelCycles(op));
}

// Operands that come from beyond L1. Per register tile and step of K the micro-kernel reads two
// vectors of B and one element of each row of A; which of them sits in L1 is a matter of size.
Num CpuPricer::GemmOperandNs(const OpDemand& op) const {
  const double element = 4;
  const double width = kCpu.tile_vectors * lanes();
  const double most = arch_.vector_registers >= 32 ? kCpu.tile_rows_32 : kCpu.tile_rows_16;
  const Num chunks = CeilDiv(op.m, tape_.Const(most));
  const Num panels = Ceil(op.n / width);
  const Num panel_bytes = op.k * (width * element);
  const Num a_bytes = op.m * op.k * element;
  const Num b_bytes = op.n * op.k * element;
  const double l1 = arch_.l1.bytes * kCpu.private_share;
  const double l2 = arch_.l2.bytes * kCpu.private_share;
  // B's panel is used by all row chunks in turn; A's tile by all panels in turn.
  const Num b_from_l2 =
      Select(Le(panel_bytes + op.k * (most * element), l1), b_bytes, b_bytes * chunks);
  const Num a_from_l2 = Select(Le(a_bytes + panel_bytes, l1), a_bytes, a_bytes * panels);
  const Num c_bytes = op.m * op.n * element;
  const Num working = onchip_[op.launch];
  const Num fits_l2 = Le(working, l2);
  const Num from_l2 = (a_from_l2 + b_from_l2 + c_bytes) / rates_.read_l2;
  const Num from_llc = (a_from_l2 + b_from_l2 + c_bytes) / rates_.read_llc;
  return Select(fits_l2, from_l2, from_llc);
}

// 1 where the product runs on the bfloat16 matrix unit (compiler/passes/pair_operands).
Num CpuPricer::Paired(const OpDemand& op) const {
  const bool types = op.a_type == kBFloat16 && op.b_type == kBFloat16 && op.c_type == kFloat32 &&
                     !op.trans_a && !op.trans_b && op.a_buffer >= 0 && op.b_buffer >= 0 &&
                     op.c_buffer >= 0;
  if (op.kind != OpKind::kGemm || !types || !arch_.Has("amx-tile") || !arch_.Has("amx-bf16")) {
    return zero_;
  }
  const Num even = Le(op.k - Floor(op.k / 2.0) * 2.0, 0.5);
  const Num large = And(Lt(one_, op.n), Lt(tape_.Const(2), op.k));
  return And(And(even, large), Lt(tape_.Const(kCpu.stream_rows), op.m));
}

// 1 where the copy fills the B tile of such a product: two rows become one of pairs.
Num CpuPricer::Joined(const OpDemand& copy) const {
  Num joined = zero_;
  if (copy.kind != OpKind::kCopy || copy.dst_buffer < 0) return joined;
  for (const OpDemand& op : d_.ops) {
    if (op.kind == OpKind::kGemm && op.b_buffer == copy.dst_buffer)
      joined = Max(joined, Paired(op));
  }
  return joined;
}

// Passes over C: one each `pair_depth` of the whole tiles of K, one for what remains.
Num CpuPricer::PairPasses(const OpDemand& op) const {
  const Num whole = Floor(op.k / 32.0) * 32.0;
  return CeilDiv(whole, tape_.Const(kCpu.pair_depth)) + Lt(whole, op.k);
}

// Per step of 32 of K a block of C takes its products or its tile loads, whichever is longer; each
// pass over C moves C's tiles in and out.
Num CpuPricer::PairNs(const OpDemand& op) const {
  const Num tile = tape_.Const(16), step = tape_.Const(32);
  const Num row_tiles = CeilDiv(op.m, tile), column_tiles = CeilDiv(op.n, tile);
  const Num row_blocks = CeilDiv(op.m, tape_.Const(kCpu.pair_rows));
  const Num column_blocks = CeilDiv(op.n, tape_.Const(kCpu.pair_columns));
  const Num steps = CeilDiv(op.k, step);
  const Num passes = PairPasses(op);
  const target::ComputeUnit* unit = arch_.FindUnit("tensor", kBFloat16);
  constexpr double kTileFlops = 2.0 * 16 * 16 * 32;
  const double product_ns =
      unit != nullptr ? kTileFlops / unit->core : kCpu.tile_product_cycles * cycle_;
  const Num products = row_tiles * column_tiles * steps * (product_ns / kCpu.pair_efficiency);
  const Num loads = (row_tiles * column_blocks + column_tiles * row_blocks) * steps *
                    (kCpu.tile_load_cycles * cycle_);
  const Num ends = row_tiles * column_tiles * (kCpu.tile_load_cycles + kCpu.tile_store_cycles) +
                   row_blocks * column_blocks * kCpu.pair_call_cycles;
  return Max(products, loads) + ends * passes * cycle_;
}

// A panel of B stays in L1 for all chunks of rows of a pass; A is read again for each panel, from
// where the block's storage fits.
Num CpuPricer::PairOperandNs(const OpDemand& op) const {
  constexpr double kElement = 2;
  const double l1 = arch_.l1.bytes * kCpu.private_share;
  const double l2 = arch_.l2.bytes * kCpu.private_share;
  const Num depth = Min(op.k, tape_.Const(kCpu.pair_depth));
  const Num panel_bytes = depth * (kCpu.pair_columns * kElement);
  const Num a_pass = op.m * depth * kElement;
  const Num a_bytes = op.m * op.k * kElement;
  const Num panels = CeilDiv(op.n, tape_.Const(kCpu.pair_columns));
  const Num a_moved = Select(Le(a_pass + panel_bytes, l1), a_bytes, a_bytes * panels);
  const Num b_moved = op.n * op.k * kElement;
  const Num c_moved = op.m * op.n * 8.0 * PairPasses(op);
  const Num bytes = a_moved + b_moved + c_moved;
  return Select(Le(onchip_[op.launch], l2), bytes / rates_.read_l2, bytes / rates_.read_llc);
}

Num CpuPricer::JoinCycles(const OpDemand& op) const {
  return Ceil(op.rows / 2.0) * (Vectors(op.columns) * kCpu.join_cycles + kCpu.row_cycles);
}

Num CpuPricer::LoopCycles(const OpDemand& op) const {
  const ElementWork& w = op.work;
  if (!w.vector) {
    const Num each =
        (w.alu + w.loads + w.stores + w.convert) + w.divide * 4.0 + w.special * 10.0 + w.gathers;
    return op.rows * op.columns * Max(each, 1.0) * kCpu.scalar_cycles * 0.25 +
           op.rows * kCpu.row_cycles;
  }
  const Num arithmetic = w.alu * kCpu.alu_cycles + w.convert * kCpu.convert_cycles +
                         w.divide * kCpu.divide_cycles + w.special * kCpu.special_cycles +
                         w.gathers * kCpu.gather_cycles;
  const Num moves = Max(w.loads * kCpu.load_cycles, w.stores * kCpu.store_cycles);
  const Num step = Max(arithmetic, moves) + Min(arithmetic, moves) * kCpu.no_overlap;
  return op.rows * (Vectors(op.columns) * Max(step, 1.0) + kCpu.row_cycles);
}

Num CpuPricer::ReduceCycles(const OpDemand& op) const {
  const Num step = Vectors(op.columns) * (kCpu.load_cycles + kCpu.alu_cycles * kCpu.no_overlap);
  const double fold = op.reduce_last ? 3.0 * kCpu.row_cycles : kCpu.row_cycles;
  return op.rows * (step + fold);
}

Num CpuPricer::CopyCycles(const OpDemand& op) const {
  const Num step = op.work.convert * kCpu.convert_cycles + kCpu.store_cycles;
  return op.rows * (Vectors(op.columns) * step + kCpu.row_cycles);
}

CpuPricer::OpTime CpuPricer::TimeOf(int index) const {
  const OpDemand& op = d_.ops[index];
  OpTime t{zero_, zero_, zero_, zero_, zero_, zero_, zero_};
  AddAccessTimes(op, t);
  const Num onchip = op.count * OnchipNs(op.onchip_read_bytes, op.onchip_write_bytes, op.launch);
  switch (op.kind) {
    case OpKind::kGemm: {
      const Num paired = Paired(op);
      t.tensor = op.count * PairNs(op) * paired;
      t.fma = op.count * GemmCycles(op) * cycle_ * Not(paired);
      t.l2 = t.l2 + op.count * Select(paired, PairOperandNs(op), GemmOperandNs(op));
      break;
    }
    case OpKind::kLoop:
    case OpKind::kAtomic:
      t.vector = op.count * LoopCycles(op) * cycle_;
      t.l1 = t.l1 + onchip;
      break;
    case OpKind::kReduce:
      t.vector = op.count * ReduceCycles(op) * cycle_;
      t.l1 = t.l1 + onchip;
      break;
    case OpKind::kCopy: {
      const Num staged = Not(Forwarded(op));
      t.vector = op.count * Select(Joined(op), JoinCycles(op), CopyCycles(op)) * cycle_ * staged;
      t.l1 = t.l1 + onchip * staged;
      break;
    }
    case OpKind::kFill:
      t.vector = op.count * CopyCycles(op) * cycle_;
      t.l1 = t.l1 + onchip;
      break;
  }
  return t;
}

// Operations follow each other on a core. Inside one, arithmetic and memory overlap in part; a
// reader that takes the tensor in place overlaps with that tensor's stream.
Num CpuPricer::LaunchTime(int launch, Price& price) {
  const LaunchDemand& l = d_.launches[launch];
  Num total = zero_;
  std::vector<Num> extra_memory(d_.ops.size(), zero_);
  std::vector<OpTime> times;
  for (size_t i = 0; i < d_.ops.size(); ++i) times.push_back(TimeOf(static_cast<int>(i)));
  const auto memory = [](const OpTime& t) { return t.dram + t.llc + t.l2 + t.l1; };
  for (size_t i = 0; i < d_.ops.size(); ++i) {
    const OpDemand& op = d_.ops[i];
    if (op.launch != launch || op.sole_reader < 0) continue;
    extra_memory[op.sole_reader] = extra_memory[op.sole_reader] + memory(times[i]) * Forwarded(op);
  }
  OpTime sum{zero_, zero_, zero_, zero_, zero_, zero_, zero_};
  for (size_t i = 0; i < d_.ops.size(); ++i) {
    const OpDemand& op = d_.ops[i];
    if (op.launch != launch) continue;
    const OpTime& t = times[i];
    const Num work = t.fma + t.tensor + t.vector;
    const Num own = memory(t) * Not(Forwarded(op)) + extra_memory[i];
    const double exposed = op.kind == OpKind::kGemm ? kCpu.gemm_no_overlap : kCpu.no_overlap;
    total = total + Max(work, own) + Min(work, own) * exposed;
    sum = {sum.fma + t.fma, sum.tensor + t.tensor, sum.vector + t.vector, sum.dram + t.dram,
           sum.llc + t.llc, sum.l2 + t.l2,         sum.l1 + t.l1};
  }
  const Num block_cost = l.blocks * arch_.block_ns;
  total = total + block_cost;
  const double cores = arch_.cores;
  const Num waves = Ceil(l.blocks / cores);
  const Num even = total / cores;
  const Num time = total / l.blocks * waves;
  price.waves = price.waves + waves;
  price.blocks = price.blocks + l.blocks;
  price.tail = Max(price.tail, time / Max(even, 1e-3));
  const auto add = [&](const char* name, Num ns) {
    for (ResourceTime& r : price.resources) {
      if (r.name == name) r.ns = r.ns + ns;
    }
  };
  add("fma", sum.fma / cores);
  add("tensor", sum.tensor / cores);
  add("vector", sum.vector / cores);
  add("dram", sum.dram / cores);
  add("llc", sum.llc / cores);
  add("l2", sum.l2 / cores);
  add("l1", sum.l1 / cores);
  add("block", block_cost / cores);
  add("launch", tape_.Const(arch_.launch_ns));
  // All cores together cannot draw more than the memory gives.
  Num floor = zero_;
  for (size_t i = 0; i < d_.accesses.size(); ++i) {
    const Access& a = d_.accesses[i];
    if (a.launch != launch) continue;
    floor = floor + miss_llc_[i] / (a.write ? arch_.dram.write_all : arch_.dram.read_all);
  }
  return Max(time, floor) + arch_.launch_ns;
}

void CpuPricer::Limits(Price& price) {
  const double scratch = static_cast<double>(ScratchLimit(arch_));
  Num storage = zero_;
  for (const Num& bytes : onchip_) storage = Max(storage, bytes);
  price.onchip_bytes = storage;
  price.limits.push_back({"on-chip storage", Le(storage, scratch)});
  for (const LaunchDemand& l : d_.launches) {
    price.limits.push_back({"threads", And(Le(one_, l.threads), Le(l.threads, 1024.0))});
    price.limits.push_back({"grid", Le(l.blocks, 2147483647.0)});
  }
  for (const LocalBuffer& b : d_.buffers) {
    price.limits.push_back({"positive tile", Le(one_, b.elements)});
  }
  for (const Constraint& c : d_.constraints) price.limits.push_back({c.text, c.holds});
  price.legal = one_;
  for (const Limit& l : price.limits) price.legal = And(price.legal, l.holds);
}

void CpuPricer::Totals(Price& price) {
  price.flops = d_.flops;
  price.compulsory_bytes = d_.compulsory_read_bytes + d_.compulsory_write_bytes;
  price.waste = 1.0 - Max(d_.flops, 1.0) / Max(d_.executed_flops, 1.0);
  price.dram_bytes = zero_;
  for (const Num& bytes : miss_llc_) price.dram_bytes = price.dram_bytes + bytes;
  const target::ComputeUnit* fma = arch_.FindUnit("fma", kFloat32);
  const double peak = fma != nullptr ? fma->all : 1.0;
  // Products that the matrix unit takes have its peak.
  const target::ComputeUnit* tensor = arch_.FindUnit("tensor", kBFloat16);
  const double saved = tensor != nullptr ? 1.0 / peak - 1.0 / std::max(peak, tensor->all) : 0.0;
  Num arithmetic = d_.flops / peak;
  for (const OpDemand& op : d_.ops) {
    if (op.kind != OpKind::kGemm) continue;
    const Num flops = op.count * op.m * op.n * op.k * op.useful * 2.0;
    arithmetic = arithmetic - flops * Paired(op) * saved;
  }
  price.roofline_ns = Max(arithmetic, d_.compulsory_read_bytes / arch_.dram.read_all +
                                          d_.compulsory_write_bytes / arch_.dram.write_all);
}

Price CpuPricer::Run() {
  Price price;
  price.waves = price.blocks = price.registers = price.spare_registers = zero_;
  price.tail = price.occupancy = price.cluster = price.teams = one_;
  price.specialised = price.persistent = zero_;
  for (const char* name :
       {"fma", "tensor", "vector", "dram", "llc", "l2", "l1", "block", "launch"}) {
    price.resources.push_back({name, zero_});
  }
  Traffic();
  price.ns = zero_;
  for (size_t l = 0; l < d_.launches.size(); ++l) {
    price.ns = price.ns + LaunchTime(static_cast<int>(l), price);
  }
  Limits(price);
  Totals(price);
  return price;
}

}  // namespace

int64_t ScratchLimit(const target::Arch& arch) {
  if (arch.kind == target::ArchKind::kGpu) return arch.smem_block;
  return int64_t{256} << 20;  // virtual memory of a thread: far past any cache, still affordable
}

Price PriceOnCpu(const Demand& demand, const target::Arch& arch) {
  return CpuPricer(demand, arch).Run();
}

}  // namespace kiln::roofline
