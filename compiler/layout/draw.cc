#include "compiler/layout/draw.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int64_t kWideRow = 32;    // columns that a single digit is broken into
constexpr size_t kLegendKeys = 32;  // colours that the legend names

__int128 FloorDiv128(__int128 a, __int128 b) { return a / b - (a % b < 0); }

__int128 Bits(__int128 address, int element_bits) { return address * element_bits; }

__int128 BankNumber(__int128 address, int element_bits) {
  const __int128 word = FloorDiv128(Bits(address, element_bits), kBankBytes * 8);
  return word - FloorDiv128(word, kBanks) * kBanks;
}

// Rows times columns of a tile whose digits are `extents`, nearest to a square.
std::vector<int64_t> NearSquare(const std::vector<int64_t>& extents) {
  std::vector<int64_t> best;
  int64_t rows = 1;
  const int64_t size = CheckedProduct(extents);
  double best_ratio = 0;
  for (size_t k = 0; k + 1 < extents.size(); ++k) {
    rows *= extents[k];
    const int64_t columns = size / rows;
    const double ratio =
        static_cast<double>(std::max(rows, columns)) / static_cast<double>(std::min(rows, columns));
    if (best.empty() || ratio < best_ratio || (ratio == best_ratio && columns > best.back())) {
      best = {rows, columns};
      best_ratio = ratio;
    }
  }
  return best;
}

std::vector<int64_t> OneDigit(const Layout& layout) {
  const int64_t size = layout.size();
  if (!layout.swizzles().empty()) {
    const SwizzleLayout& s = layout.swizzles().front();
    const int64_t columns = int64_t{1} << (s.per_element + s.atom_len);
    if (size % columns == 0) return {size / columns, columns};
  }
  if (size <= 2 * kWideRow) return {1, size};
  int64_t columns = kWideRow;
  while (size % columns != 0) --columns;
  return columns == 1 ? std::vector<int64_t>{1, size}
                      : std::vector<int64_t>{size / columns, columns};
}

std::vector<int64_t> ObviousShape(const Layout& layout) {
  std::vector<int64_t> extents;
  for (const Iter& iter : layout.shard()) {
    if (iter.extent > 1) extents.push_back(iter.extent);
  }
  if (layout.shard().size() == 2) {
    return {layout.shard()[0].extent, layout.shard()[1].extent};
  }
  return extents.size() < 2 ? OneDigit(layout) : NearSquare(extents);
}

}  // namespace

int64_t View::rows() const {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return rows;
}

absl::StatusOr<View> ViewOf(const Layout& layout, std::vector<int64_t> shape, int element_bits) {
  if (element_bits < 4 || element_bits > 128 || !IsPowerOfTwo(element_bits)) {
    return BadArgument(absl::StrCat("elements of ", element_bits,
                                    " bits cannot be drawn; 4, 8, 16, 32, 64 or 128 can"));
  }
  if (shape.empty()) return View{ObviousShape(layout), element_bits};
  if (CheckedProduct(shape) != layout.size()) {
    return BadArgument(absl::StrCat("shape (", absl::StrJoin(shape, ","), ") does not have the ",
                                    layout.size(), " elements of the layout"));
  }
  return View{std::move(shape), element_bits};
}

std::string Decimal(__int128 value) {
  const bool negative = value < 0;
  unsigned __int128 rest = negative ? -static_cast<unsigned __int128>(value) : value;
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  return negative ? "-" + digits : digits;
}

int BankOfBits(int64_t address, int element_bits) {
  return static_cast<int>(BankNumber(address, element_bits));
}

std::string ByteOfBits(int64_t address, int element_bits) {
  return Decimal(FloorDiv128(Bits(address, element_bits), 8));
}

std::string LineOfBits(int64_t address, int element_bits) {
  return Decimal(FloorDiv128(Bits(address, element_bits), kLineBytes * 8));
}

Cells::Cells(const Layout& layout, int element_bits)
    : layout_(layout), plain_(TileLayout(layout)), element_bits_(element_bits) {
  // Axes whose only mention is a swizzle are among the layout's and not among the plain one's.
  std::vector<Axis> threads;
  bool only_m = true;
  for (const Axis axis : plain_.axes()) {
    if (IsThread(axis)) {
      threads.push_back(axis);
    } else if (IsMemory(axis)) {
      memories_.push_back(axis);
      only_m = only_m && axis == Axis::kM;
    } else {
      others_.push_back(axis);
    }
  }
  kind_ = !threads.empty() ? Kind::kOwner : only_m ? Kind::kAddress : Kind::kPlace;
  if (kind_ == Kind::kAddress && memories_.empty()) memories_ = {Axis::kM};
  for (const Axis axis : others_) {
    other_fields_.push_back(FieldOf({axis}, false));
    absl::StrAppend(&legend_, NameOf(axis), "/");
  }
  for (const Axis axis : memories_) memory_fields_.push_back(FieldOf({axis}, false));
  if (kind_ == Kind::kAddress) {
    absl::StrAppend(&legend_, "address/bank/line");
    return;
  }
  const std::string names = absl::StrJoin(
      memories_, ",", [](std::string* out, Axis axis) { absl::StrAppend(out, NameOf(axis)); });
  if (kind_ == Kind::kOwner) {
    thread_ = FieldOf(threads, true);
    absl::StrAppend(&legend_, "thread", names.empty() ? "" : ":");
  }
  absl::StrAppend(&legend_, names);
}

Cells::Field Cells::FieldOf(const std::vector<Axis>& axes, bool as_threads) const {
  Field field;
  for (const Axis axis : axes) {
    const auto at = std::lower_bound(plain_.axes().begin(), plain_.axes().end(), axis);
    if (at == plain_.axes().end() || *at != axis) continue;
    field.terms.push_back(
        {static_cast<size_t>(at - plain_.axes().begin()), as_threads ? InfoOf(axis).threads : 1});
  }
  for (const Iter& iter : plain_.replica()) {
    if (iter.extent > 1 && std::find(axes.begin(), axes.end(), iter.axis) != axes.end()) {
      field.replica.push_back(iter);
    }
  }
  return field;
}

__int128 Cells::Number(const Field& field, const std::vector<int64_t>& base, int64_t copy) const {
  __int128 number = 0;
  for (const Term& term : field.terms) {
    const Axis axis = plain_.axes()[term.axis];
    int64_t value = base[term.axis];
    int64_t rest = copy;
    for (size_t k = field.replica.size(); k-- > 0;) {
      const Iter& iter = field.replica[k];
      if (iter.axis == axis) value += rest % iter.extent * iter.stride;
      rest /= iter.extent;
    }
    if (const SwizzleLayout* s = layout_.swizzle(axis)) value = (*s)(value);
    number += static_cast<__int128>(value) * term.weight;
  }
  return number;
}

Cells::Numbers Cells::Read(const Field& field, const std::vector<int64_t>& base) const {
  int64_t copies = 1;
  for (const Iter& iter : field.replica) copies *= iter.extent;
  Numbers numbers;
  std::vector<__int128> distinct;
  for (int64_t q = 0; q < std::min(copies, kWalkedCopies); ++q) {
    const __int128 number = Number(field, base, q);
    if (std::find(distinct.begin(), distinct.end(), number) == distinct.end()) {
      distinct.push_back(number);
    }
  }
  const int64_t count = copies > kWalkedCopies ? copies : static_cast<int64_t>(distinct.size());
  const size_t shown = count <= static_cast<int64_t>(kShownCopies)
                           ? distinct.size()
                           : std::min(distinct.size(), kShownCopies - 1);
  numbers.shown.assign(distinct.begin(), distinct.begin() + shown);
  numbers.more = count - static_cast<int64_t>(shown);
  return numbers;
}

std::vector<int64_t> Cells::Plain(int64_t flat) const {
  std::vector<int64_t> values(plain_.axes().size() + 1);
  plain_.Evaluate(flat, 0, values.data());
  return values;
}

namespace {

template <typename Numbers, typename Function>
std::string Joined(const Numbers& numbers, Function number_of) {
  std::string text;
  for (const __int128 n : numbers.shown) {
    absl::StrAppend(&text, text.empty() ? "" : "|", Decimal(number_of(n)));
  }
  if (numbers.more > 0) absl::StrAppend(&text, "|+", numbers.more);
  return text;
}

__int128 Itself(__int128 n) { return n; }

}  // namespace

std::string Cells::Label(int64_t flat) const {
  const std::vector<int64_t> base = Plain(flat);
  std::string text;
  for (const Field& field : other_fields_) {
    absl::StrAppend(&text, Joined(Read(field, base), Itself), "/");
  }
  if (kind_ == Kind::kAddress) {
    const Numbers m = Read(memory_fields_[0], base);
    absl::StrAppend(
        &text, Joined(m, Itself), "/",
        Joined(m, [&](__int128 n) { return BankNumber(n, element_bits_); }), "/",
        Joined(m, [&](__int128 n) { return FloorDiv128(Bits(n, element_bits_), kLineBytes * 8); }));
    return text;
  }
  if (kind_ == Kind::kOwner) absl::StrAppend(&text, Joined(Read(thread_, base), Itself));
  for (size_t k = 0; k < memory_fields_.size(); ++k) {
    absl::StrAppend(&text,
                    k > 0                   ? ","
                    : kind_ == Kind::kOwner ? ":"
                                            : "",
                    Joined(Read(memory_fields_[k], base), Itself));
  }
  return text;
}

int64_t Cells::Key(int64_t flat) const {
  const std::vector<int64_t> base = Plain(flat);
  const Field& field = kind_ == Kind::kOwner ? thread_ : memory_fields_[0];
  const __int128 number = Number(field, base, 0);
  if (kind_ == Kind::kAddress) return static_cast<int64_t>(BankNumber(number, element_bits_));
  return static_cast<int64_t>(number);
}

std::string Cells::KeyName() const {
  if (kind_ == Kind::kOwner) return "thread";
  return kind_ == Kind::kAddress ? "bank" : std::string(NameOf(memories_[0]));
}

namespace {

struct Grid {
  int64_t rows = 0, columns = 0;            // shown
  int64_t more_rows = 0, more_columns = 0;  // left out
  std::vector<std::string> row_names;
  std::vector<std::string> column_names;
  std::vector<std::vector<std::string>> labels;
  std::vector<std::vector<int64_t>> keys;
  size_t widest = 0;
};

Grid GridOf(const Cells& cells, const View& view, const DrawLimits& limits) {
  Grid grid;
  grid.rows = std::clamp<int64_t>(limits.rows, 1, view.rows());
  grid.columns = std::clamp<int64_t>(limits.columns, 1, view.columns());
  grid.more_rows = view.rows() - grid.rows;
  grid.more_columns = view.columns() - grid.columns;
  std::vector<int64_t> above(view.shape);
  if (!above.empty()) above.pop_back();
  for (int64_t j = 0; j < grid.columns; ++j) grid.column_names.push_back(absl::StrCat(j));
  for (int64_t i = 0; i < grid.rows; ++i) {
    grid.row_names.push_back(absl::StrJoin(Unflatten(i, above), ","));
    grid.labels.emplace_back();
    grid.keys.emplace_back();
    for (int64_t j = 0; j < grid.columns; ++j) {
      const int64_t flat = i * view.columns() + j;
      grid.labels.back().push_back(cells.Label(flat));
      grid.keys.back().push_back(cells.Key(flat));
      grid.widest = std::max(grid.widest, grid.labels.back().back().size());
    }
  }
  for (const std::string& name : grid.column_names) {
    grid.widest = std::max(grid.widest, name.size());
  }
  return grid;
}

std::string LeftOut(const Grid& grid) {
  if (grid.more_rows == 0 && grid.more_columns == 0) return "";
  std::vector<std::string> parts;
  if (grid.more_rows > 0) parts.push_back(absl::StrCat(grid.more_rows, " more rows"));
  if (grid.more_columns > 0) parts.push_back(absl::StrCat(grid.more_columns, " more columns"));
  return absl::StrCat("not shown: ", absl::StrJoin(parts, " and "));
}

std::string Right(const std::string& text, size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string Escaped(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

}  // namespace

std::string DrawText(const Layout& layout, const View& view, const DrawLimits& limits) {
  const Cells cells(layout, view.element_bits);
  const Grid grid = GridOf(cells, view, limits);
  size_t margin = 0;
  for (const std::string& name : grid.row_names) margin = std::max(margin, name.size());
  std::string text(margin + 1, ' ');
  for (const std::string& name : grid.column_names) {
    absl::StrAppend(&text, " ", Right(name, grid.widest));
  }
  if (grid.more_columns > 0) absl::StrAppend(&text, " ...");
  text += "\n";
  for (int64_t i = 0; i < grid.rows; ++i) {
    absl::StrAppend(&text, Right(grid.row_names[i], margin), " ");
    for (const std::string& label : grid.labels[i]) {
      absl::StrAppend(&text, " ", Right(label, grid.widest));
    }
    if (grid.more_columns > 0) absl::StrAppend(&text, " ...");
    text += "\n";
  }
  if (grid.more_rows > 0) absl::StrAppend(&text, Right("...", margin), "\n");
  const std::string left_out = LeftOut(grid);
  if (!left_out.empty()) absl::StrAppend(&text, left_out, "\n");
  return text;
}

std::string ColourOf(int64_t key) {
  struct Shade {
    int low, reach;  // of a colour's parts
  };
  constexpr Shade kShades[] = {{171, 66}, {129, 99}, {205, 40}};  // lightness 80%, 70%, 88%
  const Shade shade = kShades[FloorMod(FloorDiv(key, 32), 3)];
  const int hue = static_cast<int>(FloorMod(key, 32) * 13 % 32 * 45 / 4);
  const int ramp = hue % 120;
  const int low = shade.low;
  const int middle = low + shade.reach * (ramp <= 60 ? ramp : 120 - ramp) / 60;
  const int top = low + shade.reach;
  const int sectors[6][3] = {{top, middle, low}, {middle, top, low}, {low, top, middle},
                             {low, middle, top}, {middle, low, top}, {top, low, middle}};
  const int* rgb = sectors[hue / 60];
  char text[8];
  snprintf(text, sizeof(text), "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
  return text;
}

namespace {

constexpr int kCellHeight = 22;
constexpr int kCharacter = 7;  // width of one in the cells' font
constexpr int kTop = 64;       // above the cells
constexpr int kSwatches = 8;   // of the legend, a row

std::string Text(int64_t x, int64_t y, absl::string_view anchor, absl::string_view text) {
  return absl::StrCat("<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\">",
                      Escaped(text), "</text>\n");
}

std::string Box(int64_t x, int64_t y, int64_t width, int64_t height, int64_t key) {
  return absl::StrCat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
                      "\" fill=\"", ColourOf(key), "\" stroke=\"#ffffff\"/>\n");
}

std::string Legend(const Grid& grid, absl::string_view name, int64_t x, int64_t* y, int width) {
  std::set<int64_t> keys;
  for (const auto& row : grid.keys) keys.insert(row.begin(), row.end());
  std::string svg;
  size_t k = 0;
  for (const int64_t key : keys) {
    if (k == kLegendKeys) break;
    if (k > 0 && k % kSwatches == 0) *y += kCellHeight;
    const int64_t left = x + static_cast<int64_t>(k % kSwatches) * width;
    absl::StrAppend(&svg, Box(left, *y, 16, 16, key),
                    Text(left + 20, *y + 12, "start", absl::StrCat(name, " ", key)));
    ++k;
  }
  *y += kCellHeight;
  if (keys.size() > kLegendKeys) {
    absl::StrAppend(
        &svg, Text(x, *y + 12, "start", absl::StrCat("and ", keys.size() - kLegendKeys, " more")));
    *y += kCellHeight;
  }
  return svg;
}

}  // namespace

std::string DrawSvg(const Layout& layout, const View& view, const DrawLimits& limits,
                    absl::string_view title) {
  const Cells cells(layout, view.element_bits);
  const Grid grid = GridOf(cells, view, limits);
  size_t margin = 0;
  for (const std::string& name : grid.row_names) margin = std::max(margin, name.size());
  const int64_t left = 16 + static_cast<int64_t>(margin) * kCharacter;
  const int64_t cell = static_cast<int64_t>(grid.widest) * kCharacter + 8;
  int64_t y = kTop;
  std::string body;
  for (int64_t j = 0; j < grid.columns; ++j) {
    absl::StrAppend(&body,
                    Text(left + j * cell + cell / 2, kTop - 6, "middle", grid.column_names[j]));
  }
  for (int64_t i = 0; i < grid.rows; ++i, y += kCellHeight) {
    absl::StrAppend(&body, Text(left - 6, y + 15, "end", grid.row_names[i]));
    for (int64_t j = 0; j < grid.columns; ++j) {
      absl::StrAppend(&body, Box(left + j * cell, y, cell, kCellHeight, grid.keys[i][j]),
                      Text(left + j * cell + cell / 2, y + 15, "middle", grid.labels[i][j]));
    }
  }
  y += 8;
  const std::string left_out = LeftOut(grid);
  if (!left_out.empty()) {
    absl::StrAppend(&body, Text(left, y + 12, "start", left_out));
    y += kCellHeight;
  }
  const int swatch = std::max<int>(96, static_cast<int>(cells.KeyName().size() + 8) * kCharacter);
  absl::StrAppend(&body, Legend(grid, cells.KeyName(), left, &y, swatch));
  constexpr size_t kTitle = 120;
  const std::string heading = title.size() <= kTitle
                                  ? std::string(title)
                                  : absl::StrCat(title.substr(0, kTitle - 3), "...");
  const std::string second =
      absl::StrCat(view.rows(), " x ", view.columns(), ", each cell ", cells.legend());
  const int64_t width = std::max<int64_t>(
      {left + grid.columns * cell + 16, left + kSwatches * swatch,
       16 + static_cast<int64_t>(std::max(heading.size(), second.size())) * (kCharacter + 1)});
  return absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", y + 8,
      "\" viewBox=\"0 0 ", width, " ", y + 8,
      "\" font-family=\"monospace\" font-size=\"11\">\n<title>", Escaped(title), "</title>\n",
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<g font-size=\"13\">\n",
      Text(8, 20, "start", heading), Text(8, 38, "start", second), "</g>\n", body, "</svg>\n");
}

}  // namespace kiln::layout
