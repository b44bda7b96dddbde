// The exact inverse of a layout: from a point to its element and copy, with the conditions under
// which the point is one of the layout's at all.
//
// Per axis: undo the swizzle, take off the offset, v is left. Where the strides, sorted, each
// divide the next and leave room (s_k * e_k <= s_k+1), digit k is v / s_k mod (s_k+1 / s_k), and
// the guards say what that form assumes: v mod s_1 == 0, digits below their extents, v in range.
// Where they only leave room, digits are taken greedily from the largest and the remainder must be
// zero. Any other injective axis is looked up. The guards are minimal: without one of them some
// point of Z^axes outside the image is accepted.
#ifndef KILN_COMPILER_LAYOUT_INVERSE_H_
#define KILN_COMPILER_LAYOUT_INVERSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// A condition on v, the unswizzled and unshifted value of one axis. All of a layout's hold exactly
// on its image.
struct Guard {
  enum class Kind : uint8_t {
    kMultiple,  // v mod a == 0
    kAtLeast,   // v >= 0
    kBelow,     // v < a
    kDigit,     // (v / a) mod b < c
    kGreedy,    // greedy decoding of the axis leaves 0
    kMember,    // v is in the axis's table
    kEqual,     // v == 0: nothing moves the axis
  };
  Kind kind = Kind::kEqual;
  Axis axis = Axis::kM;
  int64_t a = 0, b = 0, c = 0;
  std::string ToString() const;  // "laneid mod 16 == 0", in terms of v
  bool operator==(const Guard&) const = default;
};

// How one digit is read off v: (v / divisor) mod modulus; modulus 0 for none. flipped: the digit is
// extent - 1 minus that (its stride was negative).
struct DigitDecode {
  Iter iter;  // as in the layout
  bool in_replica = false;
  size_t index = 0;   // position in shard() or replica()
  int64_t place = 1;  // weight of the digit in the element (or copy) index
  int64_t divisor = 1, modulus = 0;
  bool flipped = false;
};

struct AxisDecode {
  enum class Method : uint8_t { kChain, kGreedy, kTable };
  Axis axis = Axis::kM;
  Method method = Method::kChain;
  int64_t offset = 0;  // subtracted after the swizzle is undone; flipped digits are in it
  std::optional<SwizzleLayout> swizzle;
  std::vector<DigitDecode> digits;  // ascending divisors
  // kTable: v -> digits packed as the position in row-major order over `digits`' extents.
  std::unordered_map<int64_t, int64_t> table;
};

class Inverse {
 public:
  // Entries of one axis's table beyond which Of refuses (ResourceExhausted): only axes whose
  // strides overlap without colliding need one.
  static constexpr int64_t kMaxTable = int64_t{1} << 22;

  // Refused exactly when the layout is not injective; the witness is the collision.
  static absl::StatusOr<Inverse> Of(const Layout& layout);

  // (element, copy) of a point, or nullopt when it is none of the layout's. `values` in the order
  // of axes(); a Coord must be zero on all other axes.
  std::optional<std::pair<int64_t, int64_t>> operator()(const int64_t* values) const;
  std::optional<std::pair<int64_t, int64_t>> operator()(const Coord& point) const;

  // The same without the guards for which `keep` is false: what generated code that omits them
  // would compute. Meaningless digits are not range-checked.
  bool Accepts(const int64_t* values, const std::vector<bool>& keep) const;

  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<AxisDecode>& decodes() const { return decodes_; }  // one an axis
  const std::vector<Guard>& guards() const { return guards_; }
  // Those guards that a launch range low <= value < high of `axis` (as seen by the program) does
  // not imply already. Axes with a swizzle keep all.
  std::vector<Guard> GuardsWithin(Axis axis, int64_t low, int64_t high) const;

 private:
  std::vector<Axis> axes_;
  std::vector<AxisDecode> decodes_;
  std::vector<Guard> guards_;
};

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_INVERSE_H_
