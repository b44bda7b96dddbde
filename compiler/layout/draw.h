// Pictures of a layout: which thread and register own each element of a tile, or its address, bank
// and 128-byte line, as text and as SVG.
//
// Pure functions of (layout, view). Only the cells that are shown are evaluated, so tiles and
// replicas may be as large as layouts allow.
#ifndef KILN_COMPILER_LAYOUT_DRAW_H_
#define KILN_COMPILER_LAYOUT_DRAW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// How a tile is looked at: its logical shape, row-major, the last dimension across and all others
// down; and the width of an element, from which banks and lines follow.
struct View {
  std::vector<int64_t> shape;
  int element_bits = 32;  // 4, 8, 16, 32, 64 or 128

  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const;
};

// The view in `shape`, or in the obvious one when that is empty: the two extents of a layout of
// two; the split of more digits that is nearest to a square, the wider one of two; a bare swizzle's
// 2^S rows; one digit in rows of up to 32. InvalidArgument when the shape does not have the
// layout's elements or the width is none of those above.
absl::StatusOr<View> ViewOf(const Layout& layout, std::vector<int64_t> shape, int element_bits);

// The first byte of an element's address, its bank and its 128-byte line; floor for negative
// addresses. BankOf and LineOf of swizzle.h, for widths below a byte and every address as well.
int BankOfBits(int64_t address, int element_bits);
std::string ByteOfBits(int64_t address, int element_bits);
std::string LineOfBits(int64_t address, int element_bits);
std::string Decimal(__int128 value);

// One cell's fields. A field is a number for each copy that differs in it: every digit moves one
// axis, so an element's points are all combinations of its fields' numbers.
//   owner     some axis counts threads: "thread:m", the thread of the block, then memory axes
//   address   m alone is memory:        "address/bank/line"
//   place     other memories:           "TLane,TCol"
// Grid and cluster axes come first, as "bx/".
class Cells {
 public:
  enum class Kind : uint8_t { kOwner, kAddress, kPlace };
  static constexpr size_t kShownCopies = 4;      // numbers of a field before "|+n"
  static constexpr int64_t kWalkedCopies = 256;  // beyond these, n counts equal ones as well

  Cells(const Layout& layout, int element_bits);

  Kind kind() const { return kind_; }
  const std::string& legend() const { return legend_; }
  std::string Label(int64_t flat) const;
  // What the colour shows, of copy 0: the thread modulo 2^64, the bank, or the first memory axis.
  int64_t Key(int64_t flat) const;
  std::string KeyName() const;  // "thread", "bank", "TLane"

 private:
  struct Term {
    size_t axis = 0;     // index into axes()
    int64_t weight = 1;  // threads of one step
  };
  struct Field {
    std::vector<Term> terms;
    std::vector<Iter> replica;
  };
  struct Numbers {
    std::vector<__int128> shown;
    int64_t more = 0;
  };
  Field FieldOf(const std::vector<Axis>& axes, bool as_threads) const;
  __int128 Number(const Field& field, const std::vector<int64_t>& base, int64_t copy) const;
  Numbers Read(const Field& field, const std::vector<int64_t>& base) const;
  std::vector<int64_t> Plain(int64_t flat) const;

  Layout layout_;
  Layout plain_;  // without swizzles
  int element_bits_;
  Kind kind_ = Kind::kPlace;
  std::string legend_;
  std::vector<Axis> others_, memories_;
  std::vector<Field> other_fields_, memory_fields_;
  Field thread_;
};

struct DrawLimits {
  int64_t rows = 32;
  int64_t columns = 16;
};

// The grid of cells with row and column numbers; what is beyond the limits is said in a last line.
std::string DrawText(const Layout& layout, const View& view, const DrawLimits& limits);

// The same as an SVG document, cells coloured by Key, with title and legend.
std::string DrawSvg(const Layout& layout, const View& view, const DrawLimits& limits,
                    absl::string_view title);

// The colour of a key: 32 hues, so that banks and the lanes of a warp differ, in three shades for
// the groups of 32 that follow; light enough for black text. "#rrggbb".
std::string ColourOf(int64_t key);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_DRAW_H_
