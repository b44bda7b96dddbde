// SwizzleLayout: the XOR permutation of a linear shared-memory address that avoids bank conflicts,
// its choice from element width and descriptor mode, and bank and line of an address.
//
// Addresses are in elements unless a name says bytes. Shared memory has 32 banks of 4-byte words,
// so a line of all banks is 128 bytes. Source: the TIRx layout notation; the same transform as
// CuTe's Swizzle<B, M, S>.
#ifndef KILN_COMPILER_LAYOUT_SWIZZLE_H_
#define KILN_COMPILER_LAYOUT_SWIZZLE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/layout/axis.h"

namespace kiln::layout {

// With x = address >> per_element: the inner form XORs bits [S, S+B) of x into bits [0, B), the
// outer form bits [0, B) into [S, S+B), where B = swizzle_len and S = atom_len >= B. The low
// per_element bits stay. An involution; a bijection on every aligned block of period() addresses.
struct SwizzleLayout {
  int per_element = 0;  // M
  int swizzle_len = 0;  // B; 0 is the identity
  int atom_len = 0;     // S
  bool inner = true;
  Axis axis = Axis::kM;  // the coordinate it permutes

  // InvalidArgument unless 0 <= M, 0 <= B <= S and M + B + S <= 60.
  static absl::StatusOr<SwizzleLayout> Make(int per_element, int swizzle_len, int atom_len,
                                            bool inner = true, Axis axis = Axis::kM);

  int64_t operator()(int64_t address) const {
    const int64_t mask = (int64_t{1} << swizzle_len) - 1;
    if (inner) return address ^ (((address >> (per_element + atom_len)) & mask) << per_element);
    return address ^ (((address >> per_element) & mask) << (per_element + atom_len));
  }

  // Adding a multiple of this commutes with the transform; no smaller offset does for all
  // addresses.
  int64_t period() const { return int64_t{1} << (per_element + swizzle_len + atom_len); }
  // A contiguous aligned run of this many addresses stays one.
  int64_t run() const { return int64_t{1} << per_element; }

  std::string ToString() const;  // <3,3,3>, <3,3,3,outer>, <3,3,3>@TCol
  bool operator==(const SwizzleLayout&) const = default;
};

// The swizzle modes of shared-memory descriptors (TMA, wgmma, tcgen05), by bytes of one atom row.
enum class SwizzleMode : uint8_t { kNone, k32B, k64B, k128B };

// Bytes of an atom row: 16, 32, 64, 128.
int RowBytes(SwizzleMode mode);
inline constexpr int64_t kAtomRows = 8;  // in every mode

// "none", "32B", "64B" or "128B".
absl::StatusOr<SwizzleMode> ParseSwizzleMode(absl::string_view text);

// The swizzle of a mode for elements of 8, 16 or 32 bits (4 and 64 as well): M = log2(128 / bits),
// B = 0, 1, 2, 3, S = 3. Other widths are refused.
absl::StatusOr<SwizzleLayout> SwizzleFor(int element_bits, SwizzleMode mode);

// The widest mode whose atom row divides `inner_extent` elements (the contiguous dimension);
// kNone when even 32 bytes do not.
SwizzleMode WidestMode(int element_bits, int64_t inner_extent);

inline constexpr int kBanks = 32;
inline constexpr int kBankBytes = 4;
inline constexpr int kLineBytes = kBanks * kBankBytes;

// Bank and line of the first byte of element `address`, `bytes` wide; floor for negative addresses.
int BankOf(int64_t address, int bytes);
int64_t LineOf(int64_t address, int bytes);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_SWIZZLE_H_
