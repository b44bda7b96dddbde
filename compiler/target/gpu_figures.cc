#include "compiler/target/gpu_figures.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::target {
namespace {

constexpr int64_t kMiB = 1 << 20;

// What drivers tell of the models that the records describe (gpu_archs.cc).
constexpr struct {
  const char* name;
  GpuFigures figures;
} kModels[] = {
    {"sm_80", {108, 1410, 1593, 5120, 40 * kMiB}},     // A100-SXM4-80GB
    {"sm_86", {82, 1695, 9751, 384, 6 * kMiB}},        // GeForce RTX 3090
    {"sm_89", {128, 2520, 10501, 384, 72 * kMiB}},     // GeForce RTX 4090
    {"sm_90a", {132, 1980, 3201, 6144, 60 * kMiB}},    // H200
    {"sm_100a", {148, 1965, 3996, 8192, 126 * kMiB}},  // B200
};

const GpuFigures* ModelOf(absl::string_view name) {
  for (const auto& model : kModels) {
    if (name == model.name) return &model.figures;
  }
  return nullptr;
}

// By how much a figure differs from the table's; 1 where the driver does not say.
double Share(double device, double table) { return device > 0 && table > 0 ? device / table : 1; }

void Scale(double core, double all, MemoryLevel* level) {
  for (double* rate : {&level->read_core, &level->write_core, &level->copy_core}) *rate *= core;
  for (double* rate : {&level->read_all, &level->write_all, &level->copy_all}) *rate *= all;
}

// Of all SMs; one SM has as many bytes in flight whatever the bus, but draws no more than all do.
void ScaleMemory(double bus, MemoryLevel* dram) {
  Scale(1, bus, dram);
  dram->read_core = std::min(dram->read_core, dram->read_all);
  dram->write_core = std::min(dram->write_core, dram->write_all);
  dram->copy_core = std::min(dram->copy_core, dram->copy_all);
}

}  // namespace

absl::StatusOr<Arch> GpuArchOf(absl::string_view name, const GpuFigures& device) {
  KILN_ASSIGN_OR_RETURN(Arch arch, NamedArch(name));
  const GpuFigures* table = ModelOf(name);
  if (table == nullptr) return absl::NotFoundError(absl::StrCat("'", name, "' is no GPU"));
  const double clock = Share(device.clock_mhz, table->clock_mhz);
  const double sms = Share(device.sms, table->sms);
  arch.cores = device.sms > 0 ? device.sms : arch.cores;
  arch.clock_ghz *= clock;
  for (ComputeUnit& unit : arch.units) {
    unit.core *= clock;
    unit.all *= clock * sms;
  }
  Scale(clock, clock * sms, &arch.l1);
  Scale(clock, clock, &arch.llc);
  const double cache =
      Share(static_cast<double>(device.llc_bytes), static_cast<double>(table->llc_bytes));
  arch.llc.bytes = static_cast<int64_t>(static_cast<double>(arch.llc.bytes) * cache);
  ScaleMemory(Share(device.memory_mhz * device.bus_bits, table->memory_mhz * table->bus_bits),
              &arch.dram);
  return arch;
}

}  // namespace kiln::target
