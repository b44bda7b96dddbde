#include "compiler/roofline/piece.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/ir/printer.h"
#include "compiler/roofline/constants.h"
#include "compiler/roofline/registers.h"
#include "compiler/target/deal.h"
#include "compiler/target/legality.h"

namespace kiln::roofline {
namespace {

std::vector<Num> FullOutputs(const Price& p) {
  std::vector<Num> out = {p.ns,
                          p.legal,
                          p.blocks,
                          p.waves,
                          p.tail,
                          p.waste,
                          p.onchip_bytes,
                          p.dram_bytes,
                          p.compulsory_bytes,
                          p.flops,
                          p.roofline_ns,
                          p.registers,
                          p.spare_registers,
                          p.occupancy,
                          p.specialised,
                          p.cluster,
                          p.persistent,
                          p.teams};
  for (const ResourceTime& r : p.resources) out.push_back(r.ns);
  for (const Limit& l : p.limits) out.push_back(l.holds);
  return out;
}

// What the table of instructions says of a gemm, in this order of inputs.
constexpr size_t kAnswers = 5;
constexpr double kRegisterBytes = 4;
constexpr double kRowSharers = 4;  // lanes that share a row of a matrix instruction's result
// What the decision about warps says of a launch: the fields of target::WarpPlan.
constexpr size_t kWarpAnswers = 4;
// What it is asked by, beside the sums and the tiles.
constexpr size_t kWarpDims = 5;
// What is said of how a tile or loop is dealt out: the fields of target::Dealt.
constexpr size_t kDealAnswers = 4;
struct Chosen {
  double efficiency = 0;  // part of the arch's best rate for the operands; 0 = illegal
  double stages_a = 0;    // bytes of shared memory beside the tiles, as parts of the left operand
  double operands = 0;    // registers of a thread
  double columns = 0;     // of tensor memory
  double held_columns = 0;
  std::string unit;
  int64_t m = 0, grid_rows = 0;
  std::optional<target::GemmQuery> awaited;  // its result goes to registers after each product
  int64_t turned_bytes = 0;  // of shared memory, where a block has room for them: operands turned

  // Whether the results are of as many rows, but held by other threads: what is kept of each row
  // has no place then, where this product takes the other's result from registers.
  bool PartsWith(const Chosen& o) const {
    const bool same = unit == o.unit && grid_rows == o.grid_rows;
    return m == o.m && !same && !(Sixteen() && o.Sixteen());
  }
  // Whether each warp holds 16 rows of its own, as instructions of both kinds have them.
  bool Sixteen() const { return grid_rows * (unit == "wgmma" ? 64 : 16) == m; }
};

// Registers of a thread for bytes of a tile that are on their way as it is turned: taken apart, a
// square or one after the other.
double TurnedRegisters(int64_t rows, int64_t columns, int64_t threads, bool shared) {
  constexpr int64_t kSquare = target::SquareDeal::kSide * target::SquareDeal::kSide;
  if (shared && target::DealSquares(rows, columns, threads)) return kSquare;
  return static_cast<double>(rows * columns) / static_cast<double>(threads);
}

int64_t BytesOf(const target::TileFetch& tile) {
  return tile.rows * tile.columns * tile.type.bits / 8;
}

// Shared memory of a block beside the tiles that TMA may fetch.
Num UnfetchedBytes(const Demand& d, const LaunchDemand& launch) {
  Num bytes = d.tape->Const(0);
  for (const int i : launch.shared_buffers) {
    const LocalBuffer& b = d.buffers[static_cast<size_t>(i)];
    const auto fetches = [&](const FetchDemand& fetch) { return fetch.buffer == i; };
    if (absl::c_any_of(launch.warps.fetches, fetches)) continue;
    bytes = bytes + Ceil(b.bytes / target::kTileBytes) * target::kTileBytes;
  }
  return bytes;
}

// A product whose result lies in tensor memory, as passes/hold_sums decides it; nullopt where it
// cannot. An operand in registers goes to shared memory for it.
std::optional<Chosen> InTensorMemory(const target::Arch& arch, const OpDemand& op,
                                     target::GemmQuery q, int64_t threads) {
  if (arch.tmem_sm == 0) return std::nullopt;
  const bool awaited = op.c_apart || !op.a_shared || !op.b_shared;
  if (awaited && !target::IsWorthTensorMemory(q.m, q.n, q.k)) return std::nullopt;
  const auto own = op.c_apart ? std::optional<target::GemmQuery>(q) : std::nullopt;
  q.a_space = q.b_space = target::OperandSpace::kShared;
  q.c_space = target::OperandSpace::kTensor;
  const target::GemmChoice choice = target::ChooseGemm(arch, q);
  if (choice.unit.empty()) return std::nullopt;
  // A thread loads the sums of its lane, and so holds as many of fewer rows; where threads work on
  // them, what they make of them for the next product too.
  const int64_t lanes = std::max<int64_t>(target::kTensorLanes - q.m, 0);
  double beside = static_cast<double>(lanes * q.n) / static_cast<double>(threads);
  if (op.c_apart && !op.a_shared) {
    beside += static_cast<double>(lanes * q.k * q.a.bytes()) / kRegisterBytes /
              static_cast<double>(threads);
  }
  const int64_t row = op.c_apart ? q.n / choice.grid.columns : 0;  // of a thread, while others wait
  const int64_t tile = q.m * q.k * q.a.bytes();
  const int64_t staged = (op.a_shared ? 0 : tile) + (op.c_apart ? target::ExchangedBytes(q.m) : 0);
  return Chosen{kGpu.tensor_efficiency,
                static_cast<double>(staged) / static_cast<double>(tile),
                beside,
                static_cast<double>(target::TakenColumns(target::TensorColumns(q.m, q.n))),
                static_cast<double>(row),
                choice.unit,
                q.m,
                choice.grid.rows,
                own};
}

// `apart`: results that are wanted after each product may lie in tensor memory too.
Chosen Choose(const target::Arch& arch, const OpDemand& op, int64_t m, int64_t n, int64_t k,
              int64_t threads, bool apart) {
  target::GemmQuery q;
  q.m = m;
  q.n = n;
  q.k = k;
  q.a = op.a_type;
  q.b = op.b_type;
  q.c = op.c_type;
  q.trans_a = op.trans_a;
  q.trans_b = op.trans_b;
  q.policy = op.policy;
  q.tf32 = op.tf32;
  if (threads <= 0 || threads % arch.warp_size != 0) return {};
  q.warps = static_cast<int>(threads / arch.warp_size);
  q.a_space = op.a_shared ? target::OperandSpace::kShared : target::OperandSpace::kRegisters;
  q.b_space = op.b_shared ? target::OperandSpace::kShared : target::OperandSpace::kRegisters;
  if (op.c_held || (op.c_apart && apart)) {
    if (const auto held = InTensorMemory(arch, op, q, threads)) return *held;
  }
  const auto turned = op.turns ? target::TurnedBytes(arch, q) : std::nullopt;
  if (turned) q = *turned;
  const auto loaded = op.turns && op.c_turnable ? target::LoadTf32(arch, q) : std::nullopt;
  if (loaded) q = loaded->query;
  const target::GemmChoice choice = target::ChooseGemm(arch, q);
  if (choice.unit.empty()) return {};
  const bool has_wider = std::any_of(arch.atoms.begin(), arch.atoms.end(), [](const auto& atom) {
    return atom.unit == "wgmma" || atom.unit == "tcgen05";
  });
  double efficiency = kGpu.tensor_efficiency;
  if (choice.unit == "mma" && has_wider) efficiency *= kGpu.mma_on_hopper;
  // A warp's operand fragments are read from shared memory once for each of its tiles: narrow warp
  // tiles read more per operation.
  const double wm = static_cast<double>(q.m) / static_cast<double>(choice.grid.rows);
  const double wn = static_cast<double>(q.n) / static_cast<double>(choice.grid.columns);
  if (choice.unit == "mma") efficiency *= std::min(1.0, (wm * wn) / (wm + wn) / 24.0);
  if (choice.unit == "wgmma") efficiency *= std::min(1.0, 0.5 + wn / 256.0);
  if (turned) efficiency *= kGpu.turned;
  // The best rate for operands is that of tensor cores; vector units multiply all as float32.
  const auto *fma = arch.FindUnit("fma", kFloat32), *tensor = arch.FindUnit("tensor", op.a_type);
  const bool exact = op.a_type == kFloat32 && !op.tf32;
  if (choice.unit == "fma" && !exact && fma != nullptr && tensor != nullptr) {
    efficiency *= fma->all / tensor->all;
  }
  const bool staged = !op.a_shared && !target::LeftFromRegisters(q, choice);
  const bool from_shared = choice.unit == "wgmma";
  double operands = from_shared ? 0 : kGpu.operand_registers;
  if (choice.unit == "mma") {
    const int64_t steps = k * op.a_type.bits / 256;  // an atom is 32 bytes deep
    const bool rounded = op.a_type == kFloat32, deep = steps >= kGpu.deep;
    double held = deep ? (rounded ? kGpu.steps_fetched_rounded : kGpu.steps_fetched)
                       : (rounded ? kGpu.steps_rounded : 0);
    if (op.a_type.is_float() && op.a_type.bits == 8) {
      held = kGpu.widened * static_cast<double>(steps);
    }
    operands = std::max(operands, kGpu.operand_addresses + held * (wm / 16 * 4 + wn / 8 * 2));
  }
  if (choice.unit == "fma") {  // a row of one operand and a column of the other
    const double side = std::sqrt(static_cast<double>(m * n) / static_cast<double>(threads));
    const double words =
        static_cast<double>(op.a_type.bytes() + op.b_type.bytes()) / kRegisterBytes;
    operands = std::max(operands, kGpu.fma_steps * side * words);
  }
  if (turned) {  // one operand after the other
    operands += std::max(op.trans_a ? TurnedRegisters(k, m, threads, op.a_shared) : 0,
                         op.trans_b ? 0 : TurnedRegisters(k, n, threads, op.b_shared));
  }
  if (loaded) operands += static_cast<double>(q.m * q.k) / static_cast<double>(threads);
  const double held_columns = choice.unit == "fma" ? 0 : wn / kRowSharers;
  const int64_t turned_elements = (op.trans_a ? k * m : 0) + (op.trans_b ? 0 : k * n);
  return {efficiency,   staged ? 1.0 : 0.0,
          operands,     0,
          held_columns, choice.unit,
          q.m,          choice.grid.rows,
          std::nullopt, turned ? turned_elements * op.a_type.bytes() : 0};
}

}  // namespace

absl::StatusOr<Piece> Piece::Make(Config fixed, const lang::OpenProgram& open,
                                  const std::map<std::string, double>& runtime,
                                  const target::Arch& arch,
                                  const std::vector<std::string>& options) {
  Piece piece;
  piece.fixed_ = std::move(fixed);
  auto machine =
      target::WithInstructions(arch, ir::PassOption(open.program, "kiln.instructions", 0));
  if (!machine.ok()) return machine.status();
  piece.arch_ = *std::move(machine);
  auto demand = Analyze(open.program, open.tunables, open.constraints, runtime);
  if (!demand.ok()) return demand.status();
  piece.demand_ = std::make_shared<Demand>(*std::move(demand));
  Demand& d = *piece.demand_;
  if (arch.kind == target::ArchKind::kCpu) {
    piece.price_ = PriceOnCpu(d, arch);
  } else {
    piece.AddGpuPrice(options);
  }
  const Num no = d.tape->Const(kIllegal);
  piece.fast_ = TapeProgram::Compile(*d.tape, {Select(piece.price_.legal, piece.price_.ns, no)});
  std::vector<Num> outputs = FullOutputs(piece.price_);
  Num shortest = d.tape->Const(0);
  for (const Access& a : d.accesses) {
    if (a.write) continue;
    shortest = shortest.constant() == 0.0 ? a.run_bytes : Min(shortest, a.run_bytes);
  }
  outputs.push_back(shortest);
  piece.full_ = TapeProgram::Compile(*d.tape, outputs);
  return piece;
}

void Piece::AddGpuPrice(const std::vector<std::string>& options) {
  Demand& d = *demand_;
  for (const OpenOption& option : OpenOptions()) {
    if (std::count(options.begin(), options.end(), option.name) == 0) continue;
    options_.emplace_back(&option, static_cast<int>(d.inputs.size()));
    d.inputs.push_back(option.name);
  }
  size_t inputs = d.inputs.size();
  const auto next = [&] { return d.tape->Input(static_cast<int>(inputs++)); };
  std::vector<Num> dims;
  GemmInputs gemms;
  for (size_t i = 0; i < d.ops.size(); ++i) {
    const OpDemand& op = d.ops[i];
    if (op.kind != OpKind::kGemm) continue;
    gemms.efficiency.push_back(next());
    gemms.stages_a.push_back(next());
    gemms.operands.push_back(next());
    gemms.columns.push_back(next());
    gemms.held_columns.push_back(next());
    gemm_ops_.push_back(static_cast<int>(i));
    for (Num n : {op.m, op.n, op.k, d.launches[op.launch].threads}) dims.push_back(n);
  }
  std::vector<WarpInputs> warps;
  for (const LaunchDemand& l : d.launches) {
    const Num specialised = next(), cluster = next(), persistent = next(), teams = next();
    warps.push_back({specialised, cluster, persistent, teams});
    if (!l.warps.possible) continue;
    const Num across = l.grid.size() > 1 ? l.grid[1] : d.tape->Const(1);
    for (const Num& n : {l.threads, l.warps.stages, l.blocks, across, UnfetchedBytes(d, l)}) {
      dims.push_back(n);
    }
    dims.insert(dims.end(), l.warps.sums.begin(), l.warps.sums.end());
    for (const FetchDemand& fetch : l.warps.fetches) {
      dims.push_back(fetch.rows);
      dims.push_back(fetch.columns);
    }
  }
  std::vector<DealInputs> deals;
  for (const DealDemand& deal : DealsOf(d)) {
    const Num elements = next(), rows = next(), sharers = next(), even = next();
    deals.push_back({elements, rows, sharers, even});
    widest_.push_back(deal.widest);
    dims.insert(dims.end(), {deal.rows, deal.columns, deal.threads});
  }
  dims_ = TapeProgram::Compile(*d.tape, dims);
  dim_count_ = dims.size();
  price_ = PriceOnGpu(d, arch_, gemms, warps, deals);
}

Piece::Answers Piece::Ask(const std::vector<const double*>& columns, int64_t count) const {
  std::vector<std::vector<double>> dims(dim_count_, std::vector<double>(count));
  std::vector<double*> out;
  for (auto& d : dims) out.push_back(d.data());
  dims_.Run(columns, count, out);
  Answers answers;
  const size_t warps = kAnswers * gemm_ops_.size();
  const size_t deals = warps + kWarpAnswers * demand_->launches.size();
  answers.columns.assign(deals + kDealAnswers * widest_.size(), std::vector<double>(count));
  answers.turned_bytes.assign(gemm_ops_.size(), std::vector<int64_t>(count));
  AskGemms(dims, count, answers);
  AskWarps(columns, dims, count, answers);
  AskDeals(dims, count, deals, answers);
  return answers;
}

void Piece::AskGemms(const std::vector<std::vector<double>>& dims, int64_t count,
                     Answers& out) const {
  const size_t gemms = gemm_ops_.size();
  std::vector<std::unordered_map<uint64_t, Chosen>> memos(2 * gemms);  // apart, and not
  std::vector<const Chosen*> chosen(gemms);
  const auto op = [&](size_t g) -> const OpDemand& { return demand_->ops[gemm_ops_[g]]; };
  const auto choose = [&](size_t g, int64_t j, bool apart) {
    int64_t v[4];
    uint64_t key = 0;
    for (int i = 0; i < 4; ++i) {
      v[i] = static_cast<int64_t>(dims[4 * g + i][j]);
      key = key * 65537 + static_cast<uint64_t>(v[i]);
    }
    const auto [it, fresh] = memos[2 * g + (apart ? 1 : 0)].try_emplace(key);
    if (fresh) it->second = Choose(arch_, op(g), v[0], v[1], v[2], v[3], apart);
    chosen[g] = &it->second;
  };
  // Whether another product of the launch, of the first `most`, is one that `g` disagrees with.
  const auto any = [&](size_t g, size_t most, const auto& disagrees) {
    for (size_t e = 0; e < most; ++e) {
      if (e != g && op(e).launch == op(g).launch && disagrees(*chosen[g], *chosen[e])) return true;
    }
    return false;
  };
  const auto mixed = [](const Chosen& a, const Chosen& b) {
    return a.m == b.m && (a.columns > 0) != (b.columns > 0);
  };
  const auto parts = [](const Chosen& a, const Chosen& b) { return b.PartsWith(a); };
  for (int64_t j = 0; j < count; ++j) {
    for (size_t g = 0; g < gemms; ++g) choose(g, j, /*apart=*/true);
    // Not where a row of one result lies elsewhere than that of another, or registers lack.
    bool fit = true;
    std::map<int, target::AwaitedRegisters> registers;  // of a launch
    for (size_t g = 0; g < gemms; ++g) {
      if (chosen[g]->awaited) registers[op(g).launch].Add(*chosen[g]->awaited);
      fit &= !op(g).c_apart || !any(g, gemms, mixed);
    }
    for (const auto& [launch, held] : registers) fit &= held.Fit();
    for (size_t g = 0; g < gemms && !fit; ++g) choose(g, j, /*apart=*/false);
    for (size_t g = 0; g < gemms; ++g) {
      const Chosen& c = *chosen[g];
      double operands = c.operands;  // of results that threads work on: held beside each other
      for (size_t e = 0; e < gemms && op(g).c_apart && c.columns > 0; ++e) {
        const bool beside = e != g && op(e).launch == op(g).launch && chosen[e]->columns > 0;
        if (beside) operands += chosen[e]->operands;
      }
      out.columns[kAnswers * g][j] = !op(g).a_shared && any(g, g, parts) ? 0 : c.efficiency;
      out.columns[kAnswers * g + 1][j] = c.stages_a;
      out.turned_bytes[g][j] = c.turned_bytes;
      out.columns[kAnswers * g + 2][j] = operands;
      out.columns[kAnswers * g + 3][j] = c.columns;
      out.columns[kAnswers * g + 4][j] = c.held_columns;
    }
  }
}

void Piece::AskWarps(const std::vector<const double*>& columns,
                     const std::vector<std::vector<double>>& dims, int64_t count,
                     Answers& out) const {
  out.unchanged.assign(options_.size(), std::vector<bool>(count, true));
  size_t from = 4 * gemm_ops_.size(), to = kAnswers * gemm_ops_.size();
  for (size_t i = 0; i < demand_->launches.size(); ++i, to += kWarpAnswers) {
    const WarpDemand& w = demand_->launches[i].warps;
    target::WarpQuery q = w.query;
    for (const FetchDemand& fetch : w.fetches) q.fetches.push_back(fetch.tile);
    for (int64_t j = 0; j < count; ++j) {
      const auto at = [&](size_t dim) { return static_cast<int64_t>(dims[from + dim][j]); };
      q.stages = 0;
      if (w.possible) {
        q.threads = at(0);
        q.stages = at(1);
        q.blocks = w.known_blocks ? at(2) : 0;
        q.across = w.known_across ? at(3) : 1;
        q.other_bytes = at(4) + StagedBytes(i, j, dims, out);
        q.sums = 0;
        size_t dim = kWarpDims;
        for (size_t s = 0; s < w.sums.size(); ++s) q.sums = std::max(q.sums, at(dim++));
        for (target::TileFetch& tile : q.fetches) {
          tile.rows = at(dim++);
          tile.columns = at(dim++);
          if (!target::IsFetched(tile)) q.other_bytes += BytesOf(tile);
        }
        q.tensor_sums = HoldsSums(i, j, out);
      }
      for (const auto& [option, input] : options_) SetOption(*option, columns[input][j], q);
      const target::WarpPlan plan = target::PlanWarps(arch_, q);
      out.columns[to][j] = plan.specialised ? 1 : 0;
      out.columns[to + 1][j] = static_cast<double>(plan.cluster);
      out.columns[to + 2][j] = plan.persistent ? 1 : 0;
      out.columns[to + 3][j] = static_cast<double>(plan.teams);
      for (size_t o = 0; o < options_.size(); ++o) {
        const auto& [option, input] = options_[o];
        const auto otherwise = static_cast<double>(option->otherwise);
        if (columns[input][j] == otherwise || !out.unchanged[o][j]) continue;
        SetOption(*option, otherwise, q);
        out.unchanged[o][j] = target::PlanWarps(arch_, q) == plan;
        SetOption(*option, columns[input][j], q);
      }
    }
    if (w.possible) from += kWarpDims + w.sums.size() + 2 * w.fetches.size();
  }
}

void Piece::AskDeals(const std::vector<std::vector<double>>& dims, int64_t count, size_t to,
                     Answers& out) const {
  size_t from = dims.size() - 3 * widest_.size();
  for (size_t d = 0; d < widest_.size(); ++d, from += 3, to += kDealAnswers) {
    for (int64_t j = 0; j < count; ++j) {
      const auto at = [&](size_t dim) { return static_cast<int64_t>(dims[from + dim][j]); };
      const target::Dealt dealt = target::DealRows(at(0), at(1), at(2), widest_[d]);
      out.columns[to][j] = static_cast<double>(dealt.elements);
      out.columns[to + 1][j] = static_cast<double>(dealt.rows);
      out.columns[to + 2][j] = static_cast<double>(dealt.sharers);
      out.columns[to + 3][j] = dealt.even ? 1 : 0;
    }
  }
}

// Of shared memory, for what operands go through.
int64_t Piece::StagedBytes(size_t launch, int64_t row, const std::vector<std::vector<double>>& dims,
                           const Answers& answers) const {
  double bytes = 0;
  for (size_t g = 0; g < gemm_ops_.size(); ++g) {
    const OpDemand& op = demand_->ops[gemm_ops_[g]];
    if (op.launch != static_cast<int>(launch)) continue;
    const double elements = dims[4 * g][row] * dims[4 * g + 2][row];  // m x k
    bytes += answers.columns[kAnswers * g + 1][row] * elements * op.a_type.bytes();
    bytes += static_cast<double>(answers.turned_bytes[g][row]);
  }
  return static_cast<int64_t>(bytes);
}

bool Piece::HoldsSums(size_t launch, int64_t row, const Answers& answers) const {
  for (size_t g = 0; g < gemm_ops_.size(); ++g) {
    const bool here = demand_->ops[gemm_ops_[g]].launch == static_cast<int>(launch);
    if (here && answers.columns[kAnswers * g + 3][row] > 0) return true;
  }
  return false;
}

void Piece::SetOption(const OpenOption& option, double value, target::WarpQuery& query) {
  const absl::string_view name = option.name;
  if (name == "kiln.cluster") query.cluster = static_cast<int64_t>(value);
  if (name == "kiln.persistent") query.persistent = value != 0;
}

void Piece::Evaluate(const std::vector<const double*>& columns, int64_t count, double* ns) const {
  if (arch_.kind == target::ArchKind::kCpu) return fast_.Run(columns, count, {ns});
  const Answers answers = Ask(columns, count);
  std::vector<const double*> all = columns;
  for (const auto& column : answers.columns) all.push_back(column.data());
  fast_.Run(all, count, {ns});
  for (size_t o = 0; o < options_.size(); ++o) {
    const auto& [option, input] = options_[o];
    for (int64_t j = 0; j < count; ++j) {
      const bool set = columns[input][j] != static_cast<double>(option->otherwise);
      if (set && answers.unchanged[o][j]) ns[j] = kSame - static_cast<double>(o);
    }
  }
}

Figures Piece::FiguresOf(const std::vector<double>& values) const {
  std::vector<const double*> columns;
  for (const double& v : values) columns.push_back(&v);
  Answers answers;
  if (arch_.kind == target::ArchKind::kGpu) answers = Ask(columns, 1);
  for (const auto& column : answers.columns) columns.push_back(column.data());
  constexpr size_t kScalars = 18;
  std::vector<double> raw(kScalars + price_.resources.size() + price_.limits.size() + 1);
  std::vector<double*> out;
  for (double& v : raw) out.push_back(&v);
  full_.Run(columns, 1, out);
  Figures f;
  double* const scalars[kScalars] = {&f.ns,
                                     &f.legal,
                                     &f.blocks,
                                     &f.waves,
                                     &f.tail,
                                     &f.waste,
                                     &f.onchip_bytes,
                                     &f.dram_bytes,
                                     &f.compulsory_bytes,
                                     &f.flops,
                                     &f.roofline_ns,
                                     &f.registers,
                                     &f.spare_registers,
                                     &f.occupancy,
                                     &f.specialised,
                                     &f.cluster,
                                     &f.persistent,
                                     &f.teams};
  for (size_t i = 0; i < kScalars; ++i) *scalars[i] = raw[i];
  const auto at = raw.begin() + kScalars;
  const auto limits_at = at + static_cast<std::ptrdiff_t>(price_.resources.size());
  f.resources.assign(at, limits_at);
  f.limits.assign(limits_at, raw.end() - 1);
  f.min_run_bytes = raw.back();
  return f;
}

void KernelDigest::Add(const Config& fixed, const lang::OpenProgram& open) {
  // Naming the tunables first, in order of name, ties each to its place in the program; positions
  // and local names stay out.
  ir::Program p = open.program;
  std::vector<ir::Stmt> body;
  std::string names;
  for (const auto& [name, var] : open.tunables) {
    body.push_back(ir::MakeStmt<ir::Evaluate>(SourceLoc{}, var));
    absl::StrAppend(&names, name, ",");
  }
  for (const ir::Expr& c : open.constraints) {
    body.push_back(ir::MakeStmt<ir::Assert>(SourceLoc{}, c, ""));
  }
  body.push_back(p.body);
  p.body = ir::MakeStmt<ir::Seq>(SourceLoc{}, std::move(body));
  pieces_[fixed.ToString()] = absl::StrCat(names, ir::ProgramDigest(p));
}

std::string KernelDigest::Finish() {
  Hasher h;
  for (const auto& [fixed, digest] : pieces_) {
    h.UpdateField(fixed);
    h.UpdateField(digest);
  }
  return h.FinishHex();
}

}  // namespace kiln::roofline
