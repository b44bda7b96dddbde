#include "compiler/roofline/piece.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/ir/printer.h"
#include "compiler/roofline/constants.h"
#include "compiler/target/legality.h"

namespace kiln::roofline {
namespace {

std::vector<Num> FullOutputs(const Price& p) {
  std::vector<Num> out = {
      p.ns,           p.legal,      p.blocks,           p.waves, p.tail,        p.waste,
      p.onchip_bytes, p.dram_bytes, p.compulsory_bytes, p.flops, p.roofline_ns, p.registers,
      p.occupancy};
  for (const ResourceTime& r : p.resources) out.push_back(r.ns);
  for (const Limit& l : p.limits) out.push_back(l.holds);
  return out;
}

// What the table of instructions says of a gemm, in this order of inputs.
constexpr size_t kAnswers = 4;
struct Chosen {
  double efficiency = 0;  // part of the arch's best rate for the operands; 0 = illegal
  double stages_a = 0;
  double operands = 0;  // registers of a thread
  double columns = 0;   // of tensor memory
};

Chosen Choose(const target::Arch& arch, const OpDemand& op, int64_t m, int64_t n, int64_t k,
              int64_t threads) {
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
  target::GemmChoice choice;
  if (op.c_alone && arch.tmem_sm > 0) {
    q.c_space = target::OperandSpace::kTensor;
    choice = target::ChooseGemm(arch, q);
    if (!choice.unit.empty()) {
      return {kGpu.tensor_efficiency, 0, 0,
              static_cast<double>(target::TakenColumns(target::TensorColumns(m, n)))};
    }
    q.c_space = target::OperandSpace::kRegisters;
  }
  choice = target::ChooseGemm(arch, q);
  if (choice.unit.empty()) return {};
  const bool has_wider = arch.name == "sm_90a" || arch.name == "sm_100a";
  double efficiency = kGpu.tensor_efficiency;
  if (choice.unit == "mma" && has_wider) efficiency *= kGpu.mma_on_hopper;
  // A warp's operand fragments are read from shared memory once for each of its tiles: narrow warp
  // tiles read more per operation.
  const double wm = static_cast<double>(m) / static_cast<double>(choice.grid.rows);
  const double wn = static_cast<double>(n) / static_cast<double>(choice.grid.columns);
  if (choice.unit == "mma") efficiency *= std::min(1.0, (wm * wn) / (wm + wn) / 24.0);
  if (choice.unit == "wgmma") efficiency *= std::min(1.0, 0.5 + wn / 256.0);
  // The best rate for operands is that of tensor cores; vector units multiply all as float32.
  const auto *fma = arch.FindUnit("fma", kFloat32), *tensor = arch.FindUnit("tensor", op.a_type);
  const bool exact = op.a_type == kFloat32 && !op.tf32;
  if (choice.unit == "fma" && !exact && fma != nullptr && tensor != nullptr) {
    efficiency *= fma->all / tensor->all;
  }
  const bool staged = !op.a_shared && !target::LeftFromRegisters(q, choice);
  const bool from_shared = choice.unit == "wgmma";
  double operands = from_shared ? 0 : kGpu.operand_registers;
  const int64_t steps = k * op.a_type.bits / 256;  // an atom is 32 bytes deep
  if (choice.unit == "mma" && steps >= kGpu.steps_ahead) {
    operands = (wm / 16 * 4 + wn / 8 * 2) * static_cast<double>(steps);
  }
  return {efficiency, staged ? 1.0 : 0.0, operands, 0};
}

}  // namespace

absl::StatusOr<Piece> Piece::Make(Config fixed, const lang::OpenProgram& open,
                                  const std::map<std::string, double>& runtime,
                                  const target::Arch& arch) {
  Piece piece;
  piece.fixed_ = std::move(fixed);
  piece.arch_ = arch;
  auto demand = Analyze(open.program, open.tunables, open.constraints, runtime);
  if (!demand.ok()) return demand.status();
  piece.demand_ = std::make_shared<Demand>(*std::move(demand));
  Demand& d = *piece.demand_;
  if (arch.kind == target::ArchKind::kCpu) {
    piece.price_ = PriceOnCpu(d, arch);
  } else {
    GemmInputs gemms;
    std::vector<Num> dims;
    for (size_t i = 0; i < d.ops.size(); ++i) {
      const OpDemand& op = d.ops[i];
      if (op.kind != OpKind::kGemm) continue;
      const auto input = [&](size_t which) {
        return d.tape->Input(
            static_cast<int>(d.inputs.size() + kAnswers * piece.gemm_ops_.size() + which));
      };
      gemms.efficiency.push_back(input(0));
      gemms.stages_a.push_back(input(1));
      gemms.operands.push_back(input(2));
      gemms.columns.push_back(input(3));
      piece.gemm_ops_.push_back(static_cast<int>(i));
      for (Num n : {op.m, op.n, op.k, d.launches[op.launch].threads}) dims.push_back(n);
    }
    piece.gemm_dims_ = TapeProgram::Compile(*d.tape, dims);
    piece.price_ = PriceOnGpu(d, arch, gemms);
  }
  const Num no = d.tape->Const(-1);
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

std::vector<std::vector<double>> Piece::ChooserColumns(const std::vector<const double*>& columns,
                                                       int64_t count) const {
  const size_t gemms = gemm_ops_.size();
  std::vector<std::vector<double>> dims(4 * gemms, std::vector<double>(count));
  std::vector<double*> out;
  for (auto& d : dims) out.push_back(d.data());
  gemm_dims_.Run(columns, count, out);
  std::vector<std::vector<double>> result(kAnswers * gemms, std::vector<double>(count));
  for (size_t g = 0; g < gemms; ++g) {
    std::unordered_map<uint64_t, Chosen> memo;
    for (int64_t j = 0; j < count; ++j) {
      int64_t v[4];
      uint64_t key = 0;
      for (int i = 0; i < 4; ++i) {
        v[i] = static_cast<int64_t>(dims[4 * g + i][j]);
        key = key * 65537 + static_cast<uint64_t>(v[i]);
      }
      const auto [it, fresh] = memo.try_emplace(key);
      if (fresh) it->second = Choose(arch_, demand_->ops[gemm_ops_[g]], v[0], v[1], v[2], v[3]);
      result[kAnswers * g][j] = it->second.efficiency;
      result[kAnswers * g + 1][j] = it->second.stages_a;
      result[kAnswers * g + 2][j] = it->second.operands;
      result[kAnswers * g + 3][j] = it->second.columns;
    }
  }
  return result;
}

void Piece::Evaluate(const std::vector<const double*>& columns, int64_t count, double* ns) const {
  if (gemm_ops_.empty()) return fast_.Run(columns, count, {ns});
  const auto extra = ChooserColumns(columns, count);
  std::vector<const double*> all = columns;
  for (const auto& e : extra) all.push_back(e.data());
  fast_.Run(all, count, {ns});
}

Figures Piece::FiguresOf(const std::vector<double>& values) const {
  std::vector<const double*> columns;
  for (const double& v : values) columns.push_back(&v);
  std::vector<std::vector<double>> extra;
  if (!gemm_ops_.empty()) {
    extra = ChooserColumns(columns, 1);
    for (const auto& e : extra) columns.push_back(e.data());
  }
  constexpr size_t kScalars = 13;
  std::vector<double> raw(kScalars + price_.resources.size() + price_.limits.size() + 1);
  std::vector<double*> out;
  for (double& v : raw) out.push_back(&v);
  full_.Run(columns, 1, out);
  Figures f;
  double* const scalars[kScalars] = {
      &f.ns,           &f.legal,      &f.blocks,           &f.waves, &f.tail,        &f.waste,
      &f.onchip_bytes, &f.dram_bytes, &f.compulsory_bytes, &f.flops, &f.roofline_ns, &f.registers,
      &f.occupancy};
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
