#include "compiler/layout/swizzle.h"

#include "absl/strings/str_cat.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/witness.h"

namespace kiln::layout {

absl::StatusOr<SwizzleLayout> SwizzleLayout::Make(int per_element, int swizzle_len, int atom_len,
                                                  bool inner, Axis axis) {
  if (per_element < 0 || swizzle_len < 0 || atom_len < swizzle_len ||
      int64_t{per_element} + swizzle_len + atom_len > 60) {
    return BadArgument(absl::StrCat("swizzle <", per_element, ",", swizzle_len, ",", atom_len,
                                    ">: needs 0 <= per_element, 0 <= swizzle_len <= atom_len and a "
                                    "sum of at most 60"));
  }
  return SwizzleLayout{per_element, swizzle_len, atom_len, inner, axis};
}

std::string SwizzleLayout::ToString() const {
  std::string text =
      absl::StrCat("<", per_element, ",", swizzle_len, ",", atom_len, inner ? ">" : ",outer>");
  if (axis != Axis::kM) absl::StrAppend(&text, "@", NameOf(axis));
  return text;
}

int RowBytes(SwizzleMode mode) { return 16 << static_cast<int>(mode); }

absl::StatusOr<SwizzleMode> ParseSwizzleMode(absl::string_view text) {
  if (text == "none") return SwizzleMode::kNone;
  if (text == "32B") return SwizzleMode::k32B;
  if (text == "64B") return SwizzleMode::k64B;
  if (text == "128B") return SwizzleMode::k128B;
  return BadArgument(absl::StrCat("swizzle mode '", text, "'; none, 32B, 64B or 128B"));
}

absl::StatusOr<SwizzleLayout> SwizzleFor(int element_bits, SwizzleMode mode) {
  if (element_bits < 4 || element_bits > 64 || !IsPowerOfTwo(element_bits)) {
    return BadArgument(absl::StrCat("no swizzle for elements of ", element_bits,
                                    " bits; 4, 8, 16, 32 or 64 have one"));
  }
  return SwizzleLayout::Make(Log2(128 / element_bits), static_cast<int>(mode), 3);
}

SwizzleMode WidestMode(int element_bits, int64_t inner_extent) {
  for (const SwizzleMode mode : {SwizzleMode::k128B, SwizzleMode::k64B, SwizzleMode::k32B}) {
    if ((inner_extent * element_bits) % (RowBytes(mode) * 8) == 0) return mode;
  }
  return SwizzleMode::kNone;
}

int BankOf(int64_t address, int bytes) {
  return static_cast<int>(FloorMod(FloorDiv(address * bytes, kBankBytes), kBanks));
}

int64_t LineOf(int64_t address, int bytes) { return FloorDiv(address * bytes, kLineBytes); }

}  // namespace kiln::layout
