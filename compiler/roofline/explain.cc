#include "compiler/roofline/explain.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/roofline/constants.h"

namespace kiln::roofline {
namespace {

std::string Time(double ns) {
  if (ns < 1e3) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e6) return absl::StrFormat("%.1f us", ns / 1e3);
  if (ns < 1e9) return absl::StrFormat("%.2f ms", ns / 1e6);
  return absl::StrFormat("%.2f s", ns / 1e9);
}

std::string Bytes(double b) {
  if (b < 1024) return absl::StrFormat("%.0f B", b);
  if (b < 1024 * 1024) return absl::StrFormat("%.0f KiB", b / 1024);
  return absl::StrFormat("%.1f MiB", b / 1024 / 1024);
}

int Percent(double share) { return static_cast<int>(std::lround(share * 100)); }

const char* WhatItIs(absl::string_view resource) {
  if (resource == "fma") return "the multiply-add units";
  if (resource == "tensor") return "the tensor units";
  if (resource == "sfu") return "the special-function units";
  if (resource == "vector") return "vector arithmetic outside gemms";
  if (resource == "dram") return "main memory";
  if (resource == "llc") return "the shared cache";
  if (resource == "l2") return "the second-level cache";
  if (resource == "l1") return "the nearest cache";
  if (resource == "smem") return "shared memory";
  if (resource == "launch") return "the cost of a launch";
  if (resource == "block") return "the cost of handing out blocks";
  if (resource == "latency") return "exposed memory latency";
  return "an unnamed resource";
}

void AddRisks(Hint& h, const Figures& f, const target::Arch& arch) {
  const bool cpu = arch.kind == target::ArchKind::kCpu;
  if (f.waste > 0.1) h.risks.push_back("ragged");
  if (f.tail > 1.25) h.risks.push_back("uneven-tail");
  if (f.blocks < arch.cores) h.risks.push_back("few-blocks");
  if (cpu && f.onchip_bytes > static_cast<double>(arch.l2.bytes)) h.risks.push_back("beyond-l2");
  if (!cpu && MayLackRegisters(f)) {
    h.risks.push_back(f.spare_registers < 0 ? "spills" : "spill-near");
  }
  if (f.min_run_bytes > 0 && f.min_run_bytes < 128) h.risks.push_back("short-runs");
}

}  // namespace

std::string BindingResource(const Price& price, const Figures& figures) {
  size_t best = 0;
  for (size_t i = 1; i < figures.resources.size(); ++i) {
    if (figures.resources[i] > figures.resources[best]) best = i;
  }
  return price.resources.empty() ? "" : price.resources[best].name;
}

bool MayLackRegisters(const Figures& figures) {
  return figures.spare_registers < kGpu.doubtful_registers;
}

Hint Explain(const Piece& piece, const Figures& f, const target::Arch& arch) {
  const bool cpu = arch.kind == target::ArchKind::kCpu;
  Hint h;
  h.predicted_ns = f.ns;
  const double low = cpu ? kCpu.interval_low : kGpu.interval_low;
  const double high = cpu ? kCpu.interval_high : kGpu.interval_high;
  AddRisks(h, f, arch);
  // Every risk and every guess of the analysis widens the interval.
  const double doubt = 1.0 + 0.15 * static_cast<double>(h.risks.size()) +
                       0.25 * static_cast<double>(piece.demand().approximations.size());
  h.low_ns = f.ns * (1.0 - (1.0 - low) * std::min(doubt, 2.5));
  h.high_ns = f.ns * (1.0 + (high - 1.0) * doubt);
  h.bound_by = BindingResource(piece.price(), f);
  h.flops = f.flops;
  h.dram_bytes = f.dram_bytes;
  h.compulsory_bytes = f.compulsory_bytes;
  h.roofline_ns = f.roofline_ns;

  double busiest = 0;
  std::vector<std::string> shares;
  for (size_t i = 0; i < f.resources.size(); ++i) {
    busiest = std::max(busiest, f.resources[i]);
    const int percent = Percent(f.resources[i] / f.ns);
    if (percent >= 1) shares.push_back(absl::StrCat(piece.price().resources[i].name, " ", percent));
  }
  h.reason = absl::StrCat("Bound by ", WhatItIs(h.bound_by), ", busy ",
                          Percent(std::min(1.0, busiest / f.ns)), " % of ", Time(f.ns), "; ",
                          Percent(f.roofline_ns / f.ns), " % of the roofline.");
  absl::StrAppend(&h.reason, " ", absl::StrFormat("%.0f", f.blocks),
                  f.blocks == 1 ? " block" : " blocks", " in ",
                  absl::StrFormat("%.0f", std::ceil(f.waves)), f.waves <= 1 ? " round" : " rounds",
                  " on ", arch.cores, cpu ? " cores" : " SMs");
  if (f.tail > 1.005) absl::StrAppend(&h.reason, ", uneven end +", Percent(f.tail - 1), " %");
  absl::StrAppend(&h.reason, "; a block keeps ", Bytes(f.onchip_bytes), " on chip");
  if (f.waste > 0.005) {
    absl::StrAppend(&h.reason, "; ", Percent(f.waste), " % of the arithmetic is padding");
  }
  absl::StrAppend(&h.reason, ".");
  h.fields["blocks"] = absl::StrFormat("%.0f", f.blocks);
  h.fields["onchip_bytes"] = absl::StrFormat("%.0f", f.onchip_bytes);
  h.fields["busy"] = absl::StrJoin(shares, ", ");
  if (!cpu) {
    h.fields["occupancy"] = absl::StrFormat("%.0f", f.occupancy);
    h.fields["registers"] = absl::StrFormat("%.0f", f.registers);
    h.fields["spare_registers"] = absl::StrFormat("%.0f", f.spare_registers);
  }
  if (arch.cluster > 0) {
    h.fields["warp_specialised"] = absl::StrFormat("%.0f", f.specialised);
    h.fields["cluster"] = absl::StrFormat("1,%.0f", f.cluster);
    h.fields["persistent"] = absl::StrFormat("%.0f", f.persistent);
    h.fields["ping_pong"] = f.teams > 1 ? "1" : "0";
  }
  return h;
}

void AddFields(Hint& hint, const std::map<std::string, Role>& roles) {
  std::map<Role, std::string> values;
  for (const auto& [name, role] : roles) {
    const std::string* v = hint.config.Find(name);
    if (v != nullptr && values.count(role) == 0) values[role] = *v;
  }
  const auto list = [&](std::initializer_list<Role> wanted) {
    std::vector<std::string> parts;
    for (Role r : wanted) {
      if (values.count(r) > 0) parts.push_back(values[r]);
    }
    return absl::StrJoin(parts, ",");
  };
  const bool gemm = values.count(Role::kTileM) > 0 || values.count(Role::kTileN) > 0;
  const std::string block =
      gemm ? list({Role::kTileM, Role::kTileN}) : list({Role::kTileRow, Role::kTileVector});
  if (!block.empty()) hint.fields["block"] = block;
  for (const Role role :
       {Role::kTileK, Role::kThreads, Role::kStages, Role::kPanel, Role::kSplit}) {
    if (values.count(role) > 0) hint.fields[HintField(role)] = values[role];
  }
}

}  // namespace kiln::roofline
