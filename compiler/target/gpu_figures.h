// The record of a GPU that is of a table's architecture, but need not be the model which the table
// describes.
#ifndef KILN_COMPILER_TARGET_GPU_FIGURES_H_
#define KILN_COMPILER_TARGET_GPU_FIGURES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/target/arch.h"

namespace kiln::target {

// What a driver tells of a GPU; 0 where it does not say.
struct GpuFigures {
  int sms = 0;
  double clock_mhz = 0;   // most that the SMs run at
  double memory_mhz = 0;  // two transfers a clock
  int bus_bits = 0;       // of the memory
  int64_t llc_bytes = 0;
};

// The shipped record of a GPU architecture for a device with these figures: rates of the SMs follow
// their number and clock, the memory's its bus, the cache its size. A device with the figures of
// the table's model has the table's record. kNotFound as NamedArch.
absl::StatusOr<Arch> GpuArchOf(absl::string_view name, const GpuFigures& device);

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_GPU_FIGURES_H_
