// Carver's rule: the tile selection of TileLang's carver (DefaultPolicy and TensorCorePolicy), as a
// baseline to beat. It sees one reduction node, counts the bytes of one block over the whole
// reduction, and ranks by (bytes + 1) * waves; its constants, its 48 KiB limit and its blind spots
// are kept on purpose. Pure functions.
#ifndef KILN_COMPILER_ROOFLINE_CARVER_H_
#define KILN_COMPILER_ROOFLINE_CARVER_H_

#include <cstdint>
#include <vector>

#include "compiler/base/dtype.h"
#include "compiler/target/arch.h"

namespace kiln::roofline {

// The scalars that the rule knows of a device.
struct CarverDevice {
  int64_t smem_cap = 48 << 10;        // the static limit, on every device
  int64_t max_smem_usage = 96 << 10;  // what co-resident blocks may take together
  int64_t reg_cap = 65536;
  int64_t cores = 1;
  int64_t warp_size = 32;
  int64_t sm_partition = 4;  // also the most blocks counted as resident, and the wanted warps
  int64_t write_transaction = 32, read_transaction = 128;  // bytes
  double bandwidth_write = 750, bandwidth_read = 12080;    // only their ratio matters
  int64_t l2_bytes = 0;
  int sm = 0;  // 89, 90, ...; 0 = not NVIDIA
};
CarverDevice CarverDeviceOf(const target::Arch& arch);

// A tensor whose dimension d runs along axis axes[d]: space axes first, then reduce axes.
struct CarverTensor {
  std::vector<int> axes;
  DType dtype;
};

// out[space...] = reduce over [reduce...] of f(inputs...).
struct CarverNode {
  std::vector<int64_t> space, reduce;
  std::vector<CarverTensor> inputs;
  DType out, accum;
  bool contraction = false;  // two inputs multiplied and summed: a candidate for tensor cores
};

struct CarverHint {
  std::vector<int64_t> block;
  std::vector<int64_t> rstep;
  std::vector<int64_t> warp;    // tensor-core hints
  std::vector<int64_t> thread;  // others
  std::vector<int64_t> reduce_thread;
  std::vector<int> vectorize;  // of each input; 1 = none
  int64_t threads = 0;
  int pipeline_stage = 1;
  bool use_async = false;
  int64_t panel = 0;  // rasterisation panel; 0 = none
  bool tensor_core = false;
  double priority = 0;  // (traffic + 1) * waves
};

// True when the rule would use tensor cores: dtype pair of the generation, axes of a matrix
// product, extents of at least 16 (and the reduction of at least 16, or 32 for 8-bit types).
bool CarverTensorizes(const CarverNode& node, const CarverDevice& device);

// At most `top_k` hints, best first: TensorCorePolicy where the node tensorises and it finds any,
// else DefaultPolicy. Empty when the rule finds nothing.
std::vector<CarverHint> EmitCarver(const CarverNode& node, const CarverDevice& device, int top_k);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_CARVER_H_
