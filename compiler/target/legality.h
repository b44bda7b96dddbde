// Legality of tile operations on a target, as data: which (instruction, tile, type) combinations
// the compiler accepts. Read by the recommender before it prices and by the pass that chooses the
// gemm instruction, so that the two never disagree.
#ifndef KILN_COMPILER_TARGET_LEGALITY_H_
#define KILN_COMPILER_TARGET_LEGALITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/base/dtype.h"
#include "compiler/target/arch.h"

namespace kiln::target {

enum class OperandSpace : uint8_t { kRegisters, kShared };

// One T.gemm as a block of `warps` warps sees it (CPU: warps is ignored).
struct GemmQuery {
  int64_t m = 0, n = 0, k = 0;  // the tile
  DType a, b, c;
  bool trans_a = false, trans_b = false;
  int warps = 4;
  OperandSpace a_space = OperandSpace::kShared, b_space = OperandSpace::kShared;
};

// One row of the instruction table. A row applies to the archs it names; the first row whose
// every condition holds gives the instruction.
struct GemmRule {
  const char* unit;       // "fma", "amx", "mma", "wgmma", "tcgen05"
  const char* archs;      // space-separated arch names, "sm" = every GPU, "x86-64" = every x86
  const char* inputs;     // space-separated dtype names accepted for a and b (which are equal)
  const char* accums;     // ... for c
  int m_min, m_multiple;  // 0 = no condition
  int m_also;             // an M that is accepted beside those; 0 = none
  int n_multiple, k_multiple;
  int warps_multiple;   // 4: whole warpgroups
  bool b_shared;        // b must be in shared memory
  bool k_major;         // a not transposed and b transposed
  const char* feature;  // CPU feature that must be there; "" = none
};

struct GemmChoice {
  std::string unit;  // empty: illegal
  int m_warps = 1;   // how warps tile the block: m_warps * n_warps == warps
  int n_warps = 1;
  std::string why_not;  // illegal: the first condition that no row meets, for people
};

// The fastest legal instruction, or why there is none. Warp tiling follows the square policy:
// among the legal splits the one with the least operand traffic, ties to more rows.
GemmChoice ChooseGemm(const Arch& arch, const GemmQuery& query);

// The table itself, for tests and documentation.
const std::vector<GemmRule>& GemmRules();

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_LEGALITY_H_
