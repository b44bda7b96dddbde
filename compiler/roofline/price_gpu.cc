#include <algorithm>
#include <cmath>

#include "compiler/roofline/constants.h"
#include "compiler/roofline/price.h"
#include "compiler/roofline/registers.h"
#include "compiler/roofline/traffic.h"
#include "compiler/target/legality.h"

namespace kiln::roofline {
namespace {

using target::Arch;

constexpr double kVectorBytes = 16;               // of one access of a thread
constexpr double kSmemOverhead = 1024;            // bytes the system keeps of each resident block
constexpr double kSmemGrain = 1024;               // tiles that TMA fills begin at multiples of it
constexpr double kBarrierBytes = 2048;            // of those between who fetches and who works
constexpr double kRowLanes = 4;                   // that hold a row of an instruction's result
constexpr double kShareRows = 16;                 // of tiles that clusters share
constexpr double kFetchers = target::kWarpgroup;  // threads of a warpgroup that fetches

// How long two things take that go on beside each other. The longer of them where the other is
// much shorter; where they are near, each is at times the one that is waited for, and the two take
// longer than either: by 19 % where they are equal, by 1.5 % where one is half of the other.
Num Together(const Num& a, const Num& b) {
  const Num aa = a * a, bb = b * b;
  return Sqrt(Sqrt(aa * aa + bb * bb));
}

class GpuPricer {
 public:
  GpuPricer(const Demand& demand, const Arch& arch, const GemmInputs& gemms,
            const std::vector<WarpInputs>& warps, const std::vector<DealInputs>& deals)
      : d_(demand),
        arch_(arch),
        tape_(*demand.tape),
        gemms_(gemms),
        warps_(warps),
        counted_(demand, arch, gemms, warps, deals),
        zero_(tape_.Const(0)),
        one_(tape_.Const(1)),
        rounds_ns_(zero_),
        even_ns_(zero_) {}

  Price Run();

 private:
  // What one block asks of its SM and of the machine, on average.
  struct BlockDemand {
    Num tensor_ns, fma_ns, vector_ns, sfu_ns, smem_bytes, llc_bytes, dram_bytes, iterations, stages;
  };
  struct Residency {
    Num smem, registers, resident;
  };
  BlockDemand PerBlock(int launch) const;
  Num SharedBytes(const LaunchDemand& launch) const;
  Residency Resident(int launch) const;
  Num LaunchRegisters(int launch, const Residency& r) const;
  const target::ComputeUnit* TensorUnit(const OpDemand& op) const;
  double ProductRate(const OpDemand& op) const;
  void AddGemm(const OpDemand& op, int gemm, BlockDemand& b) const;
  void AddElements(const OpDemand& op, BlockDemand& b) const;
  Num InTurn(int launch, const BlockDemand& b) const;
  Num OfSm(const BlockDemand& b) const;
  Num Chain(int launch, const BlockDemand& b) const;
  Num Sharers(const Access& access) const;
  const OpDemand* OnlyStore(int launch) const;
  Num Span(int launch) const;
  Num GoesByShared(int launch, const Residency& r, const OpDemand& store, double bytes) const;
  Num StoreTime(int launch, const Residency& r) const;
  Num WarpTime(int launch, Num resident) const;
  Num LaunchTime(int launch, Price& price);
  void Limits(Price& price);
  void Totals(Price& price);

  const Demand& d_;
  const Arch& arch_;
  Tape& tape_;
  const GemmInputs& gemms_;
  const std::vector<WarpInputs>& warps_;
  const RegisterCount counted_;
  const Num zero_, one_;
  Num rounds_ns_, even_ns_;  // of all launches: their blocks' rounds, and as if those were even
  std::vector<Num> miss_llc_;
};

// Threads that fetch for themselves, one piece after the other, leave main memory less in order
// than blocks that follow each other: the time by that, at least 1.
Num GpuPricer::InTurn(int launch, const BlockDemand& b) const {
  if (counted_.Multiplies(launch)) return one_;
  Num turns = Max(b.dram_bytes / (d_.launches[launch].threads * kVectorBytes), 1.0);
  for (int i = 0; i < kGpu.turn_roots; ++i) turns = Sqrt(turns);
  return turns;
}

// What share-memory makes of the launch's tiles, each with its copies for a pipelined loop.
Num GpuPricer::SharedBytes(const LaunchDemand& launch) const {
  std::vector<Num> bytes;
  for (const int i : launch.shared_buffers) {
    const LocalBuffer& b = d_.buffers[static_cast<size_t>(i)];
    bytes.push_back(Ceil(b.bytes * (b.pipelined ? b.stages : one_) / kSmemGrain) * kSmemGrain);
  }
  return ir::PlaceShared<Num>(
             launch.shared, bytes, zero_, [](size_t, Num n) { return n; },
             [](Num a, Num b) { return Max(a, b); })
      .bytes;
}

// Registers that a block takes. Beside a warpgroup that fetches, every thread starts with as many:
// what one that computes needs, or, of several, all that there are.
Num GpuPricer::LaunchRegisters(int launch, const Residency& r) const {
  const Num of_thread = Min(r.registers, counted_.Most(launch));
  const Num threads = d_.launches[launch].threads;
  const Num working = threads * warps_[launch].teams;
  const Num several = Lt(tape_.Const(kFetchers), working);
  const Num specialised = Select(several, tape_.Const(static_cast<double>(arch_.registers_sm)),
                                 (of_thread - kGpu.unused_registers) * (working + kFetchers));
  return Select(warps_[launch].specialised, specialised, of_thread * threads);
}

GpuPricer::Residency GpuPricer::Resident(int launch) const {
  const LaunchDemand& l = d_.launches[launch];
  Residency r{SharedBytes(l), counted_.Wanted(launch), one_};
  Num columns = zero_;
  int gemm = 0;
  for (const OpDemand& op : d_.ops) {
    if (op.kind != OpKind::kGemm) continue;
    const double bytes = static_cast<double>(op.a_type.bytes());
    if (op.launch == launch) columns = columns + gemms_.columns[gemm];
    if (op.launch == launch) r.smem = r.smem + gemms_.stages_a[gemm] * op.m * op.k * bytes;
    ++gemm;
  }
  const Num warps = Ceil(l.threads / static_cast<double>(arch_.warp_size));
  const Num by_smem = Floor(static_cast<double>(arch_.smem_sm) / (r.smem + kSmemOverhead));
  const Num by_registers =
      Floor(static_cast<double>(arch_.registers_sm) / LaunchRegisters(launch, r));
  const Num by_warps = Floor(static_cast<double>(arch_.warps_sm) / warps);
  r.resident = Min(Min(by_smem, by_registers), Min(by_warps, static_cast<double>(arch_.blocks_sm)));
  if (arch_.tmem_sm == 0) return r;
  // One block always fits: what has no room in tensor memory stays in registers.
  const Num by_columns = Floor(static_cast<double>(target::kTensorColumns) / Max(columns, 1.0));
  r.resident = Min(r.resident, Max(by_columns, 1.0));
  return r;
}

// The tensor units that take the operands, or null: then the multiply-add units do.
const target::ComputeUnit* GpuPricer::TensorUnit(const OpDemand& op) const {
  return op.a_type != kFloat32 || op.tf32 ? arch_.FindUnit("tensor", op.a_type) : nullptr;
}

// GFLOP/s of one SM on the best unit for the operands; the chooser's efficiency scales it.
double GpuPricer::ProductRate(const OpDemand& op) const {
  const target::ComputeUnit* unit = TensorUnit(op);
  if (unit == nullptr) unit = arch_.FindUnit("fma", op.a_type);
  if (unit == nullptr) unit = arch_.FindUnit("fma", kFloat32);
  return unit == nullptr ? 1.0 : unit->all / arch_.cores;
}

void GpuPricer::AddGemm(const OpDemand& op, int gemm, BlockDemand& b) const {
  const Num per_block = op.count / d_.launches[op.launch].blocks;
  const Num flops = 2.0 * op.m * op.n * op.k;
  const Num efficiency = Max(gemms_.efficiency[gemm], 1e-6);
  Num& unit_ns = TensorUnit(op) != nullptr ? b.tensor_ns : b.fma_ns;
  unit_ns = unit_ns + per_block * flops / (efficiency * ProductRate(op));
  // Each operand tile is read from shared memory by every warp column or row that needs it: twice
  // is what four to eight warps in a square do.
  const double bytes = static_cast<double>(op.a_type.bytes());
  b.smem_bytes = b.smem_bytes + per_block * (op.m * op.k + op.n * op.k) * (2.0 * bytes);
}

void GpuPricer::AddElements(const OpDemand& op, BlockDemand& b) const {
  const Num per_block = op.count / d_.launches[op.launch].blocks;
  const Num elements = op.rows * op.columns;
  const ElementWork& w = op.work;
  const Num issue = op.kind == OpKind::kLoop
                        ? w.alu + w.convert + w.divide * 8.0 + w.loads + w.stores + w.gathers
                        : one_;
  const double lanes = kGpu.lanes_per_clock * arch_.clock_ghz;  // thread operations a ns an SM
  b.vector_ns = b.vector_ns + per_block * elements * issue / lanes;
  if (const target::ComputeUnit* sfu = arch_.FindUnit("sfu", kFloat32)) {
    b.sfu_ns = b.sfu_ns + per_block * elements * (w.special + w.divide) / sfu->core;
  }
  b.smem_bytes = b.smem_bytes + per_block * (op.onchip_write_bytes + op.onchip_read_bytes);
}

GpuPricer::BlockDemand GpuPricer::PerBlock(int launch) const {
  const LaunchDemand& l = d_.launches[launch];
  BlockDemand b{zero_, zero_, zero_, zero_, zero_, zero_, zero_, zero_, l.stages};
  int gemm = 0;
  for (const OpDemand& op : d_.ops) {
    const bool is_gemm = op.kind == OpKind::kGemm;
    if (op.launch == launch && is_gemm) AddGemm(op, gemm, b);
    if (op.launch == launch && !is_gemm) AddElements(op, b);
    gemm += is_gemm ? 1 : 0;
  }
  for (size_t i = 0; i < d_.accesses.size(); ++i) {
    const Access& a = d_.accesses[i];
    if (a.launch != launch) continue;
    // A row of fewer bytes than a sector of 32 still moves the sector.
    const Num sectors = Max(32.0 / Max(a.run_bytes, 1.0), 1.0);
    b.llc_bytes = b.llc_bytes + a.total_bytes * sectors / (l.blocks * Sharers(a));
    b.dram_bytes = b.dram_bytes + miss_llc_[i] / l.blocks;
  }
  for (const LoopLevel& loop : d_.loops) {
    if (!loop.grid && loop.parent >= 0 && d_.loops[loop.parent].grid) {
      b.iterations = b.iterations + loop.trip;
    }
  }
  return b;
}

// The blocks that an access to a tensor serves: all of a cluster, which fetch a part each of a tile
// that they all take.
Num GpuPricer::Sharers(const Access& a) const {
  const int tile = d_.ops[a.op].dst_buffer;
  for (const FetchDemand& fetch : d_.launches[a.launch].warps.fetches) {
    if (fetch.buffer != tile || tile < 0 || !fetch.tile.same_across) continue;
    const Num whole = Eq(FloorMod(fetch.rows, tape_.Const(kShareRows)), zero_);
    return Select(whole, warps_[a.launch].cluster, one_);
  }
  return one_;
}

// What a launch pays beside its waves for how its warps work: blocks that are not persistent wait
// for their first tiles each, while nobody beside them works; clusters start and end together.
Num GpuPricer::WarpTime(int launch, Num resident) const {
  const WarpInputs& w = warps_[launch];
  const Num rounds = Max(d_.launches[launch].blocks / static_cast<double>(arch_.cores), 1.0);
  const Num starts = Select(w.persistent, one_, rounds);
  const Num fill = (starts - 1.0) * (arch_.dram_latency_ns + arch_.block_ns) / resident;
  const Num paired = Select(Lt(one_, w.cluster), starts * kGpu.cluster_ns, zero_);
  return Select(w.specialised, fill + paired, zero_);
}

// The launch's one copy of results from registers to a tensor, or null where there is none or
// several.
const OpDemand* GpuPricer::OnlyStore(int launch) const {
  const OpDemand* only = nullptr;
  for (const OpDemand& op : d_.ops) {
    const bool stores =
        op.launch == launch && op.kind == OpKind::kCopy && op.src_buffer >= 0 &&
        op.dst_buffer < 0 && op.accesses.size() == 1 &&
        d_.buffers[static_cast<size_t>(op.src_buffer)].scope == ir::Scope::kFragment;
    if (stores && only != nullptr) return nullptr;
    if (stores) only = &op;
  }
  return only;
}

// Columns of the products' results that one warp holds.
Num GpuPricer::Span(int launch) const {
  Num span = one_;
  int gemm = 0;
  for (const OpDemand& op : d_.ops) {
    if (op.kind != OpKind::kGemm) continue;
    if (op.launch == launch) span = gemms_.held_columns[gemm] * kRowLanes;
    ++gemm;
  }
  return span;
}

// Whether the pass that makes a warpgroup fetch sends the results through shared memory (0 or 1):
// panels as wide as a swizzle, each in what the tiles leave, or in their place where the block has
// no more use for them.
Num GpuPricer::GoesByShared(int launch, const Residency& r, const OpDemand& store,
                            double bytes) const {
  const auto divides = [&](const Num& a, const Num& b) { return Eq(FloorMod(b, a), zero_); };
  Num width = zero_;
  for (const double mode : {32.0, 64.0, 128.0}) {
    width = Select(divides(tape_.Const(mode), store.columns * bytes), tape_.Const(mode), width);
  }
  const Num span = Max(Span(launch) * bytes, 1.0);
  const Num whole = Max(divides(Max(width, 1.0), span), divides(span, width));
  const LaunchDemand& l = d_.launches[launch];
  Num fetched = zero_;
  for (const FetchDemand& f : l.warps.fetches) {
    fetched =
        fetched + f.rows * f.columns * l.warps.stages * static_cast<double>(f.tile.type.bytes());
  }
  const Num left = static_cast<double>(arch_.smem_block) - r.smem - kBarrierBytes;
  const Num room = Select(warps_[launch].persistent, left, Max(left, fetched));
  const Num panel = Ceil(store.rows * width / kSmemGrain) * kSmemGrain;
  const Num is_box = Le(store.rows, static_cast<double>(target::kMostBox));
  return And(And(Lt(zero_, width), whole), And(is_box, Le(panel, room)));
}

// What the warps of a block that has one that fetches wait for when they store results straight
// from registers: an instruction reaches eight rows, one a clock, for two elements of each of the
// four lanes that hold a row.
Num GpuPricer::StoreTime(int launch, const Residency& r) const {
  const OpDemand* store = OnlyStore(launch);
  if (!d_.launches[launch].warps.possible || store == nullptr) return zero_;
  const Access& access = d_.accesses[static_cast<size_t>(store->accesses[0])];
  const double bytes = static_cast<double>(d_.tensors[access.tensor].dtype.bytes());
  const Num elements = access.elements * store->count / d_.launches[launch].blocks;
  const Num straight = elements / (kRowLanes * 2 * arch_.clock_ghz);
  const Num waits =
      And(warps_[launch].specialised, Eq(GoesByShared(launch, r, *store, bytes), zero_));
  return Select(waits, straight, zero_);
}

// What a block keeps the pipes of its SM busy for.
Num GpuPricer::OfSm(const BlockDemand& b) const {
  return Max(Max(b.tensor_ns + b.fma_ns, b.vector_ns + b.sfu_ns),
             b.smem_bytes / arch_.l1.read_core);
}

// How long a block's steps take one after the other. A step of the loop holds one of the stages
// while its tiles come and while they are worked on: steps follow each other no faster than stages
// come free again.
Num GpuPricer::Chain(int launch, const BlockDemand& b) const {
  const Num steps = Max(b.iterations, 1.0);
  const Num work = OfSm(b) / steps;
  const double arrival = arch_.llc.read_all / arch_.cores * kGpu.fill_share;
  const Num missing = Min(b.dram_bytes / Max(b.llc_bytes, 1.0), 1.0);
  const Num latency =
      arch_.llc_latency_ns + missing * (arch_.dram_latency_ns - arch_.llc_latency_ns);
  const Num paired =
      Select(Lt(one_, warps_[launch].cluster), tape_.Const(kGpu.cluster_step_ns), zero_);
  const Num fill = b.llc_bytes / steps / arrival + latency + paired;
  return Max((work + fill) / Max(b.stages, 1.0), fill / Max(b.stages - 1.0, 1.0)) * b.iterations;
}

Num GpuPricer::LaunchTime(int launch, Price& price) {
  const LaunchDemand& l = d_.launches[launch];
  const BlockDemand b = PerBlock(launch);
  const Residency r = Resident(launch);
  const WarpInputs& warps = warps_[launch];
  const Num resident = Select(warps.persistent, one_, Max(r.resident, 1.0));
  const double sms = arch_.cores;
  const Num slots = resident * sms;
  const Num full = Floor(l.blocks / slots);
  const Num rest = l.blocks - full * slots;
  const Num per_sm = OfSm(b);
  const Num dram = b.dram_bytes / arch_.dram.copy_all * InTurn(launch, b);
  const Num llc = b.llc_bytes / arch_.llc.read_all;
  const Num barriers = b.iterations * (kGpu.iteration_cycles / arch_.clock_ghz);
  const Num chain = Chain(launch, b);
  const auto wave_of = [&](const Num& blocks_sm, const Num& from_llc, const Num& from_dram) {
    const Num of_sm = Max(Together(per_sm * blocks_sm, chain), from_llc);
    return Together(of_sm, from_dram) + barriers / Max(blocks_sm, 1.0) + arch_.block_ns;
  };
  const Num wave = wave_of(resident, llc * slots, dram * slots);
  // The last wave: as many blocks an SM as are left; memory runs at the rate that they can draw.
  const Num left = Ceil(rest / sms);
  const Num draw = Max(dram * rest, b.dram_bytes * left / arch_.dram.read_core);
  const Num last = wave_of(left, llc * rest, draw);
  const Num stores = Ceil(l.blocks / sms) / resident * StoreTime(launch, r);
  const Num rounds_ns = full * wave + Select(Lt(zero_, rest), last, zero_);
  const Num time = rounds_ns + WarpTime(launch, resident) + stores + arch_.dram_latency_ns * 2;

  price.blocks = price.blocks + l.blocks;
  price.waves = price.waves + l.blocks / slots;
  price.registers = Max(price.registers, r.registers);
  price.occupancy = Select(warps.persistent, Min(r.resident, 1.0), r.resident);
  price.specialised = Max(price.specialised, warps.specialised);
  price.cluster = Max(price.cluster, warps.cluster);
  price.persistent = Max(price.persistent, warps.persistent);
  price.teams = Max(price.teams, warps.teams);
  price.onchip_bytes = Max(price.onchip_bytes, r.smem);
  rounds_ns_ = rounds_ns_ + rounds_ns;
  even_ns_ = even_ns_ + l.blocks / slots * wave;
  const auto add = [&](const char* name, Num ns) {
    for (ResourceTime& t : price.resources) {
      if (t.name == name) t.ns = t.ns + ns;
    }
  };
  const Num rounds = l.blocks / sms;
  add("tensor", rounds * b.tensor_ns);
  add("fma", rounds * b.fma_ns);
  add("vector", rounds * b.vector_ns);
  add("sfu", rounds * b.sfu_ns);
  add("smem", rounds * b.smem_bytes / arch_.l1.read_core);
  add("llc", l.blocks * b.llc_bytes / arch_.llc.read_all);
  add("dram", l.blocks * b.dram_bytes / arch_.dram.copy_all);
  const Num beside = Min(resident, Ceil(l.blocks / sms));  // blocks that an SM really has
  const Num exposed = Max(chain - per_sm * beside, 0.0) + barriers / Max(beside, 1.0);
  add("latency", l.blocks / slots * exposed);
  add("launch", tape_.Const(arch_.launch_ns));
  return time + arch_.launch_ns;
}

void GpuPricer::Limits(Price& price) {
  for (size_t i = 0; i < d_.launches.size(); ++i) {
    const Residency r = Resident(static_cast<int>(i));
    const LaunchDemand& l = d_.launches[i];
    const double warp = arch_.warp_size;
    price.limits.push_back(
        {"on-chip storage", Le(r.smem, static_cast<double>(ScratchLimit(arch_)))});
    const Num spare = counted_.Spare(static_cast<int>(i));
    price.spare_registers = i == 0 ? spare : Min(price.spare_registers, spare);
    price.limits.push_back({"registers", Le(tape_.Const(-kGpu.doubtful_registers), spare)});
    price.limits.push_back({"threads", And(Le(l.threads, static_cast<double>(arch_.threads_block)),
                                           Eq(FloorMod(l.threads, tape_.Const(warp)), zero_))});
    price.limits.push_back({"residency", Le(one_, r.resident)});
    price.limits.push_back({"grid", Le(l.blocks, 2147483647.0)});
  }
  for (const LocalBuffer& b : d_.buffers) {
    price.limits.push_back({"positive tile", Le(one_, b.elements)});
  }
  for (const Num& e : gemms_.efficiency) price.limits.push_back({"gemm instruction", Lt(zero_, e)});
  for (const Constraint& c : d_.constraints) price.limits.push_back({c.text, c.holds});
  price.legal = one_;
  for (const Limit& l : price.limits) price.legal = And(price.legal, l.holds);
}

void GpuPricer::Totals(Price& price) {
  price.flops = d_.flops;
  price.compulsory_bytes = d_.compulsory_read_bytes + d_.compulsory_write_bytes;
  price.waste = 1.0 - Max(d_.flops, 1.0) / Max(d_.executed_flops, 1.0);
  price.dram_bytes = zero_;
  for (const Num& bytes : miss_llc_) price.dram_bytes = price.dram_bytes + bytes;
  double peak = 1;
  for (const OpDemand& op : d_.ops) {
    if (op.kind == OpKind::kGemm) peak = std::max(peak, ProductRate(op) * arch_.cores);
  }
  if (const auto* fma = arch_.FindUnit("fma", kFloat32)) peak = std::max(peak, fma->all);
  price.roofline_ns = Max(d_.flops / peak, price.compulsory_bytes / arch_.dram.copy_all);
}

Price GpuPricer::Run() {
  Price price;
  price.waves = price.blocks = price.registers = price.onchip_bytes = zero_;
  price.occupancy = price.cluster = price.teams = one_;
  price.specialised = price.persistent = price.spare_registers = zero_;
  for (const char* name :
       {"tensor", "fma", "vector", "sfu", "smem", "llc", "dram", "latency", "launch"}) {
    price.resources.push_back({name, zero_});
  }
  const double sms = arch_.cores;
  miss_llc_ = MissBytes(d_, {arch_.llc.bytes * kGpu.llc_share, false, sms, sms});
  price.ns = zero_;
  for (size_t l = 0; l < d_.launches.size(); ++l) {
    price.ns = price.ns + LaunchTime(static_cast<int>(l), price);
  }
  price.tail = Max(rounds_ns_ / Max(even_ns_, 1.0), 1.0);
  Limits(price);
  // Where a thread gets fewer than it would take, it spills some, or has less on its way at a time.
  Num spare = price.spare_registers;
  for (size_t l = 0; l < d_.launches.size(); ++l) {
    const int launch = static_cast<int>(l);
    spare = Min(spare, counted_.Most(launch) - counted_.Wanted(launch));
  }
  price.ns = price.ns * Select(Lt(spare, zero_), tape_.Const(kGpu.spill_factor), one_);
  Totals(price);
  return price;
}

}  // namespace

Price PriceOnGpu(const Demand& demand, const target::Arch& arch, const GemmInputs& gemms,
                 const std::vector<WarpInputs>& warps, const std::vector<DealInputs>& deals) {
  return GpuPricer(demand, arch, gemms, warps, deals).Run();
}

}  // namespace kiln::roofline
