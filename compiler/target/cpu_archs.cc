// Nominal x86-64 records: what to assume of a machine that nobody has measured.
#include "compiler/target/tables.h"

namespace kiln::target {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

MemoryLevel Level(int64_t bytes, double read, double write, double scale) {
  const double copy = (read + write) / 2;
  return {bytes, read, read * scale, write, write * scale, copy, copy * scale};
}

Arch Nominal(const char* name, int vector_bits, int registers, std::vector<std::string> features) {
  Arch a;
  a.name = name;
  a.kind = ArchKind::kCpu;
  a.model = "generic";
  a.cores = 2;
  a.clock_ghz = 3.0;
  a.vector_bits = vector_bits;
  a.vector_registers = registers;
  a.fma_ports = 2;
  const double vector_bytes = vector_bits / 8.0;
  a.l1 = Level(32 * kKiB, 2 * vector_bytes * a.clock_ghz, vector_bytes * a.clock_ghz, 2);
  a.l2 = Level(1 * kMiB, vector_bytes * a.clock_ghz * 0.7, vector_bytes * a.clock_ghz * 0.4, 2);
  a.llc = Level(32 * kMiB, 20, 12, 2);
  a.dram = Level(int64_t{1} << 34, 12, 7, 1.6);
  for (DType t : {kFloat32, kFloat64}) {
    const double core = 2.0 * a.fma_ports * a.Lanes(t) * a.clock_ghz;
    a.units.push_back({"fma", t, core, core * a.cores});
  }
  a.launch_ns = 8000;
  a.block_ns = 60;
  a.features = std::move(features);
  return a;
}

}  // namespace

std::vector<Arch> CpuArchs() {
  const std::vector<std::string> v3 = {"sse4.2", "popcnt", "avx", "avx2",  "bmi",
                                       "bmi2",   "f16c",   "fma", "lzcnt", "movbe"};
  std::vector<std::string> v4 = v3;
  for (const char* f : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) {
    v4.push_back(f);
  }
  return {Nominal("x86-64-v3", 256, 16, v3), Nominal("x86-64-v4", 512, 32, v4)};
}

}  // namespace kiln::target
