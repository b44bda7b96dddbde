// Operands of float32 as tensor cores multiply them: mma.sync rounds them in registers, wgmma and
// tcgen05 cut what they read from shared memory.
#ifndef KILN_COMPILER_INTERP_TF32_H_
#define KILN_COMPILER_INTERP_TF32_H_

#include <bit>
#include <cstdint>

namespace kiln::interp {

// How an operand of float32 becomes tf32: eight bits of exponent, ten of mantissa.
enum class Tf32 : uint8_t { kNone, kRounded, kCut };

// Rounded as by cvt.rna.tf32.f32 (PTX 9.7.9.21): to nearest, ties away from zero; infinities and
// NaNs stay. What is cut loses its last 13 bits, whatever it is: a NaN that has no others is
// infinity.
inline double ToTf32(double value, Tf32 how) {
  constexpr uint32_t kLast = 0x1fff, kHalf = 0x1000, kExponent = 0x7f800000;
  if (how == Tf32::kNone) return value;
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (how == Tf32::kRounded) {
    if ((bits & kExponent) == kExponent) return value;
    bits += kHalf;
  }
  return std::bit_cast<float>(bits & ~kLast);
}

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_TF32_H_
