// Legality of tile operations on a target, as data: which (instruction, tile, type) combinations
// the compiler accepts. Read by the recommender before it prices and by the pass that chooses the
// gemm instruction, so that the two never disagree.
#ifndef KILN_COMPILER_TARGET_LEGALITY_H_
#define KILN_COMPILER_TARGET_LEGALITY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/base/dtype.h"
#include "compiler/target/arch.h"

namespace kiln::target {

enum class OperandSpace : uint8_t { kRegisters, kShared, kTensor };  // kTensor: results alone
enum class WarpPolicy : uint8_t { kSquare, kFullRow, kFullCol };     // T.GemmWarpPolicy

// How the warps of a block, or its warpgroups, share a result.
struct WarpGrid {
  int64_t rows = 1, columns = 1;
};

// An operand that is a part of a tile of shared memory: the tile, and where the part begins in it,
// as far as instructions care.
struct TilePart {
  int64_t rows = 0, columns = 0;  // of the tile
  std::optional<int64_t> row;     // of the first element, within an atom of eight
  // Its column, of which what is left of so many bytes is known: 128, 64, 32, or 0 for nothing.
  int64_t column = 0, known = 128;
};

// One T.gemm as a block of `warps` warps sees it (CPU: warps is ignored).
struct GemmQuery {
  int64_t m = 0, n = 0, k = 0;  // the tile
  DType a, b, c;
  bool trans_a = false, trans_b = false;
  int warps = 4;
  WarpPolicy policy = WarpPolicy::kSquare;
  OperandSpace a_space = OperandSpace::kShared, b_space = OperandSpace::kShared;
  bool tf32 = false;  // float32 operands may be rounded to tf32 (pass option kiln.tf32)
  OperandSpace c_space = OperandSpace::kRegisters;
  std::optional<TilePart> a_part = {}, b_part = {};  // nullopt: the operand is all of its tile
  // A is a sparse form (compiler/ir/sparse.h): k counts what it stands for, its tile has half of
  // it.
  bool sparse = false;
  // A lies in registers to which threads load it for this product, in any order that it wants
  // (passes/load_operands.h).
  bool a_loaded = false;
};

// One row of the instruction table. A row applies to the archs it names; the first row whose
// every condition holds gives the instruction.
struct GemmRule {
  const char* unit;       // "fma", "amx", "mma", "mma.sp", "wgmma", "tcgen05"
  const char* archs;      // space-separated arch names, "sm" = every GPU, "x86-64" = every x86
  const char* inputs;     // space-separated dtype names accepted for a and b (which are equal, but
                          // for floats of 8 bits and integers of 8 bits)
  const char* accums;     // ... for c
  int m_min, m_multiple;  // 0 = no condition
  int n_multiple, k_multiple;
  int warps_multiple;   // 4: whole warpgroups
  bool b_shared;        // b must be in shared memory
  bool k_major;         // a not transposed and b transposed
  bool tf32;            // rounds its operands to tf32: only where the query allows it
  const char* feature;  // CPU feature that must be there; "" = none
};

struct GemmChoice {
  std::string unit;  // empty: illegal
  WarpGrid grid;     // of warps; wgmma and tcgen05: of warpgroups
  // For people. Illegal: the first condition that no row meets. Legal: what keeps a faster
  // instruction for these types from being used; empty where there is none.
  std::string why_not;
  // Bytes of the widest swizzle in which the tiles of A and B may lie, where they are parts. For
  // wgmma and tcgen05 an operand whose rows run along k may begin inside of a swizzle, at a step of
  // the instruction; another one begins and ends with one. mma.sync must know where it begins.
  int64_t a_swizzle = 128, b_swizzle = 128;
};

// How `parts` (warps, or warpgroups) share an m x n result in atoms of `atom_rows` x 8. kFullRow
// puts as many as fit along the rows, kFullCol along the columns, kSquare makes the parts as square
// as possible (the taller grid on a tie), but warpgroups (atoms of 64 rows) as wide as one
// instruction. nullopt when no grid of exactly that many divides the result into whole atoms, of as
// many columns as the instruction `takes` (any, where it is empty).
std::optional<WarpGrid> ShareWarps(int64_t m, int64_t n, int64_t parts, WarpPolicy policy,
                                   int64_t atom_rows = 16,
                                   const std::function<bool(int64_t columns)>& takes = {});

// The fastest legal instruction, or why there is none.
GemmChoice ChooseGemm(const Arch& arch, const GemmQuery& query);

// Operands of 8 bits that are not K-major are turned in shared memory first, where tensor cores
// then multiply what vector units would: the product that is left to choose for. nullopt: they
// stay. A block without room for the turned tiles leaves them too (passes/turn_operands.h).
std::optional<GemmQuery> TurnedBytes(const Arch& arch, const GemmQuery& query);

// float32 as tf32, of which one operand is K-major and the other is not: wgmma, which reads shared
// memory K-major alone, takes that one from registers, which threads load from its tile. Where it
// is B, the result is turned: wgmma computes C^T = B^T A^T. nullopt: the operands stay where they
// are, as they do where wgmma takes both, and where a thread would hold too much.
struct LoadedTf32 {
  GemmQuery query;
  bool turned = false;
};
std::optional<LoadedTf32> LoadTf32(const Arch& arch, const GemmQuery& query);

// Whether `choice` can take A from the registers that hold it: a matrix instruction, A not
// transposed, and with one column of warps, because several would each need all of it. Else it goes
// through shared memory; float32 for wgmma too, whose order along k is not that of results, unless
// it is loaded in that order.
bool LeftFromRegisters(const GemmQuery& query, const GemmChoice& choice);

// The most neighbours in global memory to which one instruction adds, each atomically (red, PTX ISA
// 9.7.13.6); 0 where there is no addition of the type. bfloat16 before sm_90: one, by a loop that
// compares and swaps.
int64_t WidestAtomicAdd(const Arch& arch, DType type);

// Whether a warp stores matrices of 16-bit elements together (stmatrix, PTX ISA 9.7.14.5.16).
bool StoresMatrices(const Arch& arch);

// Tensor memory: 128 lanes of 512 columns of 32 bits an SM, of which a block takes a power of two.
// The columns that an m x n result fills, and those that a block takes for `columns` in all.
inline constexpr int64_t kTensorLanes = 128, kTensorColumns = 512;
int64_t TensorColumns(int64_t m, int64_t n);
int64_t TakenColumns(int64_t columns);
// Whether a product whose result is wanted at once, in registers, is large enough for it to go
// there by way of tensor memory: starting it and waiting for it takes as long as mma.sync takes for
// a small one. By counting; not measured.
bool IsWorthTensorMemory(int64_t m, int64_t n, int64_t k);
// Shared memory that such a result of m rows asks for beside all tiles: barriers, and what
// warpgroups exchange in two reductions of it, before a loop and in it.
int64_t ExchangedBytes(int64_t m);
// What threads hold while they work on such results, each of which they load lane by lane: of fewer
// rows than lanes as many registers as of all.
class AwaitedRegisters {
 public:
  void Add(const GemmQuery& query);
  // Whether all of it fits, be it that lanes without rows hold some for nothing.
  bool Fit() const { return !idle_ || held_ <= kMostAwaited; }

 private:
  static constexpr double kMostAwaited = 200;  // of a thread's 255, beside addresses
  double held_ = 0;
  bool idle_ = false;
};

// The table itself, for tests and documentation.
const std::vector<GemmRule>& GemmRules();

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_LEGALITY_H_
