// Measures the rates of the host: private to this folder and its tests.
#ifndef KILN_COMPILER_TARGET_CALIBRATE_H_
#define KILN_COMPILER_TARGET_CALIBRATE_H_

#include "compiler/target/arch.h"

namespace kiln::target {

// Fills in clock, units, level bandwidths and launch_ns of `arch`, which must describe this host
// (features, caches, cores). Each rate is the best of several short runs, because a disturbance
// only ever makes a run slower; launch_ns is the median of launches that waited for no core. Sets
// `calibrated`.
void Calibrate(Arch& arch);

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_CALIBRATE_H_
