// NVIDIA records. Vendor figures unless a row says measured; a worker with the device may report a
// record with better ones.
#include "compiler/target/tables.h"

namespace kiln::target {
namespace {

constexpr DType kE4M3{TypeCode::kE4M3, 8};
constexpr DType kE5M2{TypeCode::kE5M2, 8};
constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// One row of the table below.
struct Row {
  const char* name;
  const char* model;
  int sms;
  double clock_ghz;    // boost clock under load
  int64_t smem_sm;     // KiB, unified L1 and shared memory usable as shared
  int64_t smem_block;  // KiB, opt-in limit of a block
  int warps_sm, blocks_sm;
  int64_t llc;        // MiB of L2
  double dram_gbps;   // copy rate, read plus write
  double llc_gbps;    // L2 to all SMs together
  double f16_tflops;  // dense tensor rate with float32 accumulation; tf32 has half of it
  double f8_tflops;   // 0 = no fp8
  double f32_tflops;  // vector FMA
  double dram_latency_ns, llc_latency_ns;
  int cluster;   // portable cluster limit
  int64_t tmem;  // KiB of tensor memory an SM
};

constexpr Row kRows[] = {
    // A100-80GB: 40 MiB L2 in two halves; cp.async, no TMA.
    {"sm_80", "NVIDIA A100-SXM4-80GB", 108, 1.41, 164, 163, 64, 32, 40, 1935, 5100, 312, 0, 19.5,
     480, 200, 0, 0},
    // RTX 3090: small L2, 48 warps and 16 blocks an SM; half-rate tensor with float32 accumulation.
    {"sm_86", "NVIDIA GeForce RTX 3090", 82, 1.70, 100, 99, 48, 16, 6, 900, 2400, 71, 0, 35.6, 500,
     220, 0, 0},
    // RTX 4090: 72 MiB L2; fp8 through mma.sync; half-rate tensor with float32 accumulation.
    {"sm_89", "NVIDIA GeForce RTX 4090", 128, 2.52, 100, 99, 48, 24, 72, 960, 5200, 165, 330, 82.6,
     540, 260, 0, 0},
    // H200: 4.8 TB/s by the datasheet, 4.26 TB/s measured as device copy; L2 by what products of
    // 64 x 128 tiles draw; the tensor rate is what power leaves of the 989 TFLOP/s datasheet figure
    // on random data (measured 690 to 790).
    {"sm_90a", "NVIDIA H200", 132, 1.83, 228, 227, 64, 32, 50, 4256, 11000, 790, 1500, 67.0, 560,
     270, 8, 0},
    // B200: 2-CTA MMA, 256 KiB tensor memory an SM.
    {"sm_100a", "NVIDIA B200", 148, 1.85, 228, 227, 64, 32, 126, 7200, 12000, 2250, 4500, 75.0, 600,
     280, 8, 256},
};

void AddUnit(Arch& a, const char* unit, DType type, double gflops) {
  a.units.push_back({unit, type, gflops / a.cores, gflops});
}

void AddUnits(Arch& a, const Row& r) {
  AddUnit(a, "fma", kFloat32, r.f32_tflops * 1e3);
  AddUnit(a, "fma", kFloat16, r.f32_tflops * 2e3);
  AddUnit(a, "fma", kBFloat16, r.f32_tflops * 2e3);
  AddUnit(a, "tensor", kFloat16, r.f16_tflops * 1e3);
  AddUnit(a, "tensor", kBFloat16, r.f16_tflops * 1e3);
  AddUnit(a, "tensor", kFloat32, r.f16_tflops * 0.5e3);  // every data sheet: half of float16
  AddUnit(a, "tensor", kInt8, r.f16_tflops * 2e3);
  if (r.f8_tflops > 0) {
    AddUnit(a, "tensor", kE4M3, r.f8_tflops * 1e3);
    AddUnit(a, "tensor", kE5M2, r.f8_tflops * 1e3);
  }
  AddUnit(a, "sfu", kFloat32, 16.0 * r.sms * r.clock_ghz);  // 16 results a clock an SM
}

// Matrix instructions. mma.sync has one width of n; wgmma n runs in steps of 8 to 256; tcgen05 n in
// steps of 8 (16 when two blocks cooperate) to 256.
void AddAtoms(Arch& a, const Row& r) {
  for (DType t : {kFloat16, kBFloat16}) a.atoms.push_back({"mma", t, kFloat32, 16, 8, 16, 8});
  a.atoms.push_back({"mma", kInt8, kInt32, 16, 8, 32, 8});
  a.atoms.push_back({"mma", kFloat32, kFloat32, 16, 8, 8, 8});
  const absl::string_view name = r.name;
  if (r.f8_tflops > 0) {
    for (DType t : {kE4M3, kE5M2}) a.atoms.push_back({"mma", t, kFloat32, 16, 8, 32, 8});
  }
  if (name == "sm_90a") {
    for (DType t : {kFloat16, kBFloat16}) {
      a.atoms.push_back({"wgmma", t, kFloat32, 64, 256, 16, 8});
    }
    for (DType t : {kE4M3, kE5M2}) a.atoms.push_back({"wgmma", t, kFloat32, 64, 256, 32, 8});
    a.atoms.push_back({"wgmma", kFloat32, kFloat32, 64, 256, 8, 8});
  }
  if (name == "sm_100a") {
    for (DType t : {kFloat16, kBFloat16}) {
      a.atoms.push_back({"tcgen05", t, kFloat32, 128, 256, 16, 8});
    }
    for (DType t : {kE4M3, kE5M2}) a.atoms.push_back({"tcgen05", t, kFloat32, 128, 256, 32, 8});
    a.atoms.push_back({"tcgen05", kFloat32, kFloat32, 128, 256, 8, 8});
  }
}

Arch FromRow(const Row& r) {
  Arch a;
  a.name = r.name;
  a.kind = ArchKind::kGpu;
  a.model = r.model;
  a.cores = r.sms;
  a.clock_ghz = r.clock_ghz;
  const double smem_sm = 128.0 * r.clock_ghz;  // 32 banks of 4 bytes a clock
  const double smem_all = smem_sm * r.sms;
  a.l1 = {r.smem_sm * kKiB, smem_sm, smem_all, smem_sm, smem_all, smem_sm, smem_all};
  const double llc_sm = 64.0 * r.clock_ghz;  // an SM's port to L2: 64 bytes a clock
  a.llc = {r.llc * kMiB, llc_sm, r.llc_gbps, llc_sm, r.llc_gbps, llc_sm, r.llc_gbps};
  const double dram_sm = r.dram_gbps / 16;  // bytes in flight of one SM cannot fill the bus
  a.dram = {int64_t{1} << 34, dram_sm, r.dram_gbps, dram_sm, r.dram_gbps, dram_sm, r.dram_gbps};
  a.launch_ns = 3000;  // from the launch call of an idle stream to the first instruction and back
  a.block_ns = 600;    // block scheduling, first loads and drain of one block
  a.warp_size = 32;
  a.smem_sm = r.smem_sm * kKiB;
  a.smem_block = r.smem_block * kKiB;
  a.smem_static = 48 * kKiB;
  a.registers_sm = 65536;
  a.registers_thread = 255;
  a.warps_sm = r.warps_sm;
  a.blocks_sm = r.blocks_sm;
  a.threads_block = 1024;
  a.cluster = r.cluster;
  a.tmem_sm = r.tmem * kKiB;
  a.dram_latency_ns = r.dram_latency_ns;
  a.llc_latency_ns = r.llc_latency_ns;
  AddUnits(a, r);
  AddAtoms(a, r);
  return a;
}

}  // namespace

std::vector<Arch> GpuArchs() {
  std::vector<Arch> out;
  for (const Row& r : kRows) out.push_back(FromRow(r));
  return out;
}

}  // namespace kiln::target
