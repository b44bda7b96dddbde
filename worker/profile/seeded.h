// The numbers of inputs, from a seed by dtype: floats uniform in [-1, 1], integers in [-8, 8],
// unsigned ones in [0, 8], booleans 0 or 1; element i depends on (seed, parameter, i) alone, so
// that any of them can be had without the others.
#ifndef KILN_WORKER_PROFILE_SEEDED_H_
#define KILN_WORKER_PROFILE_SEEDED_H_

#include <cstdint>

#include "compiler/base/dtype.h"

namespace kiln::worker {

// The number of element `index` of parameter `parameter`, as it is stored (rounded to the dtype).
double SeededValue(uint64_t seed, int parameter, DType type, int64_t index);

// Writes elements [first, first + count) of the parameter's memory in host form.
void FillSeeded(uint64_t seed, int parameter, DType type, int64_t first, int64_t count, void* out);

// The numbers of elements first, first + step, ..., `count` of them: SeededValue of each.
void SeededValues(uint64_t seed, int parameter, DType type, int64_t first, int64_t step,
                  int64_t count, double* out);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_SEEDED_H_
