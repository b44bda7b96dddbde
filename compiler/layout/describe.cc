#include "compiler/layout/describe.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/layout/banks.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int64_t kLanes = 32;
constexpr int64_t kMaxBytes = 16;                  // of one lane's access
constexpr int64_t kMaxAddress = int64_t{1} << 55;  // whose byte address still fits

std::string Tuple(const std::vector<int64_t>& values) {
  return absl::StrCat("(", absl::StrJoin(values, ","), ")");
}

std::string Line(absl::string_view name, absl::string_view text) {
  return absl::StrCat(name, std::string(12 - std::min<size_t>(name.size(), 11), ' '), text, "\n");
}

absl::StatusOr<int64_t> AddressOf(const Layout& layout, int64_t flat) {
  const int64_t address = layout.Base(flat)[Axis::kM];
  if (address > kMaxAddress || address < -kMaxAddress) {
    return BadArgument(absl::StrCat("address ", address, " is beyond 2^55"));
  }
  return address;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> RequestAddresses(const Layout& layout, const View& view,
                                                      const ViewRequest& request) {
  if (Cells(layout, view.element_bits).kind() != Cells::Kind::kAddress) {
    return BadArgument("requests go to layouts on m without threads");
  }
  const int64_t vector = request.vector;
  const int64_t bits = vector < 1 || vector > 32 ? 0 : vector * view.element_bits;
  if (bits % 8 != 0 || !IsPowerOfTwo(bits) || bits > kMaxBytes * 8) {
    return BadArgument(absl::StrCat(vector, " elements of ", view.element_bits,
                                    " bits are no access of 1, 2, 4, 8 or 16 bytes"));
  }
  const int64_t rows = view.rows();
  const int64_t columns = view.columns();
  const bool fits = request.column
                        ? request.index >= 0 && request.index <= columns - vector
                        : request.index >= 0 && request.index < rows && vector <= columns;
  if (!fits) {
    return BadArgument(absl::StrCat("no ", request.column ? "column " : "row ", request.index,
                                    " of ", vector, " elements in ", rows, " x ", columns));
  }
  const int64_t lanes = std::min(kLanes, request.column ? rows : columns / vector);
  std::vector<int64_t> addresses;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t first =
        request.column ? lane * columns + request.index : request.index * columns + lane * vector;
    KILN_ASSIGN_OR_RETURN(const int64_t start, AddressOf(layout, first));
    for (int64_t k = 0; k < vector; ++k) {
      const int64_t address = layout.Base(first + k)[Axis::kM];
      const int64_t expected =
          FloorMod(start, vector) == 0 ? start + k : start - FloorMod(start, vector);
      if (address == expected) continue;
      return Refuse({absl::StrCat("the ", vector, " elements of a lane are not one aligned access"),
                     first + k, -1, Coord({{Axis::kM, address}}), Coord({{Axis::kM, expected}})});
    }
    addresses.push_back(FloorDiv(start * view.element_bits, 8));
  }
  return addresses;
}

namespace {

// One digit read off its axis, times its weight in the element or the copy.
std::string Term(const AxisDecode& decode, const DigitDecode& d) {
  std::string text(NameOf(decode.axis));
  switch (decode.method) {
    case AxisDecode::Method::kChain:
      if (d.divisor > 1) absl::StrAppend(&text, " / ", d.divisor);
      if (d.modulus > 0) {
        text = absl::StrCat(d.divisor > 1 ? "(" : "", text, d.divisor > 1 ? ")" : "", " mod ",
                            d.modulus);
      }
      break;
    case AxisDecode::Method::kGreedy:
      text = absl::StrCat("greedy(", text, ", ", d.divisor, ")");
      break;
    case AxisDecode::Method::kTable:
      text = absl::StrCat("lookup(", text, ", ", d.divisor, ")");
      break;
  }
  const bool sum = absl::StrContains(text, ' ') && decode.method == AxisDecode::Method::kChain;
  const auto wrapped = [&](const std::string& t) { return sum ? absl::StrCat("(", t, ")") : t; };
  if (d.flipped) {
    text = absl::StrCat("(", d.iter.extent - 1, " - ", wrapped(text), ")");
    return d.place > 1 ? absl::StrCat(text, " * ", d.place) : text;
  }
  return d.place > 1 ? absl::StrCat(wrapped(text), " * ", d.place) : text;
}

std::string Sum(const Inverse& inverse, bool replica) {
  std::vector<std::pair<int64_t, std::string>> terms;  // by falling weight
  for (const AxisDecode& decode : inverse.decodes()) {
    for (const DigitDecode& d : decode.digits) {
      if (d.in_replica == replica) terms.emplace_back(-d.place, Term(decode, d));
    }
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (terms.empty()) return "0";
  return absl::StrJoin(terms, " + ",
                       [](std::string* out, const auto& t) { absl::StrAppend(out, t.second); });
}

bool Uses(const Inverse& inverse, AxisDecode::Method method) {
  return std::any_of(inverse.decodes().begin(), inverse.decodes().end(),
                     [&](const AxisDecode& d) { return d.method == method; });
}

}  // namespace

std::vector<std::string> InverseLines(const Layout& layout, const Inverse& inverse) {
  std::vector<std::string> lines;
  for (const AxisDecode& decode : inverse.decodes()) {
    if (decode.offset == 0 && !decode.swizzle.has_value()) continue;
    const absl::string_view name = NameOf(decode.axis);
    std::string value(name);
    if (decode.swizzle.has_value()) {
      value = absl::StrCat(decode.swizzle->ToString(), "(", name, ")");
    }
    if (decode.offset != 0) {
      absl::StrAppend(&value, decode.offset < 0 ? " + " : " - ",
                      decode.offset < 0 ? -decode.offset : decode.offset);
    }
    lines.push_back(absl::StrCat(name, " := ", value));
  }
  lines.push_back(absl::StrCat("element = ", Sum(inverse, false)));
  if (layout.copies() > 1) lines.push_back(absl::StrCat("copy = ", Sum(inverse, true)));
  if (Uses(inverse, AxisDecode::Method::kGreedy)) {
    lines.push_back("greedy(x, s): the digit of stride s, taken from the largest stride down");
  }
  if (Uses(inverse, AxisDecode::Method::kTable)) {
    lines.push_back("lookup(x, s): the digit of stride s, found in a table of all x");
  }
  for (const Guard& guard : inverse.guards()) {
    lines.push_back(absl::StrCat("if ", guard.ToString()));
  }
  return lines;
}

namespace {

std::string RequestLine(const Layout& layout, const View& view, bool column) {
  const auto addresses = RequestAddresses(layout, view, {column, 0, 1});
  if (!addresses.ok()) return std::string(addresses.status().message());
  const int waves = Wavefronts(*addresses, view.element_bits / 8);
  return absl::StrCat(column ? "column" : "row", " 0 read by ", addresses->size(),
                      addresses->size() == 1 ? " lane: " : " lanes: ", waves,
                      waves == 1 ? " wavefront" : " wavefronts");
}

std::string InjectiveLines(const Layout& layout) {
  const auto collision = SearchCollision(layout);
  if (!collision.ok()) {
    return Line("injective", absl::StrCat("not decided: ", collision.status().message()));
  }
  if (collision->has_value()) {
    return Line("injective", absl::StrCat("no, ", (*collision)->ToWitness().ToString()));
  }
  std::string text = Line("injective", "yes");
  const auto inverse = Inverse::Of(layout);
  if (!inverse.ok()) return text + Line("inverse", inverse.status().message());
  bool first = true;
  for (const std::string& line : InverseLines(layout, *inverse)) {
    absl::StrAppend(&text, Line(first ? "inverse" : "", line));
    first = false;
  }
  return text;
}

}  // namespace

std::string Describe(const Layout& layout, const View& view) {
  std::string text = Line("layout", layout.ToString());
  absl::StrAppend(&text, Line("canonical", Canonical(layout).ToString()));
  absl::StrAppend(&text, Line("elements", absl::StrCat(layout.size())));
  absl::StrAppend(&text, Line("copies", absl::StrCat(layout.copies())));
  for (const Axis axis : layout.axes()) {
    const auto [low, high] = layout.Range(axis);
    absl::StrAppend(&text,
                    Line("axis", absl::StrCat(NameOf(axis), ": ", low, " to ", high, ", span ",
                                              layout.Span(axis),
                                              layout.swizzle(axis) ? ", before the swizzle" : "")));
  }
  absl::StrAppend(&text, InjectiveLines(layout));
  const Cells cells(layout, view.element_bits);
  if (cells.kind() == Cells::Kind::kAddress && view.element_bits >= 8) {
    absl::StrAppend(&text, Line("requests", RequestLine(layout, view, true)));
    absl::StrAppend(&text, Line("", RequestLine(layout, view, false)));
  }
  absl::StrAppend(&text,
                  Line("tile", absl::StrCat(Tuple(view.shape), ", each cell ", cells.legend(),
                                            cells.kind() == Cells::Kind::kAddress
                                                ? absl::StrCat(" of ", view.element_bits, " bits")
                                                : "")));
  return text;
}

namespace {

std::vector<int> BanksOf(const std::vector<Coord>& points, int element_bits) {
  std::vector<int> banks;
  for (const Coord& point : points) {
    const int bank = BankOfBits(point[Axis::kM], element_bits);
    if (std::find(banks.begin(), banks.end(), bank) == banks.end()) banks.push_back(bank);
  }
  return banks;
}

std::string SharersOf(const Layout& layout, const View& view, int64_t flat, int bank) {
  std::string names;
  int64_t count = 0;
  for (int64_t x = 0; x < layout.size(); ++x) {
    if (x == flat) continue;
    const std::vector<int> banks = BanksOf(layout.Apply(x), view.element_bits);
    if (std::find(banks.begin(), banks.end(), bank) == banks.end()) continue;
    if (++count <= kDescribedSharers) {
      absl::StrAppend(&names, count == 1 ? ": " : " ", Tuple(Unflatten(x, view.shape)));
    }
  }
  return Line(absl::StrCat("bank ", bank),
              absl::StrCat("shared with ", count, count == 1 ? " element" : " elements", names,
                           count > kDescribedSharers
                               ? absl::StrCat(" and ", count - kDescribedSharers, " more")
                               : ""));
}

}  // namespace

std::string DescribeElement(const Layout& layout, const View& view, int64_t flat) {
  KILN_CHECK(flat >= 0 && flat < layout.size());
  std::vector<int64_t> extents;
  for (const Iter& iter : layout.shard()) extents.push_back(iter.extent);
  std::string text =
      Line("element", absl::StrCat(Tuple(Unflatten(flat, view.shape)), ", flat ", flat));
  absl::StrAppend(&text, Line("digits", Tuple(Unflatten(flat, extents))));
  const Cells::Kind kind = Cells(layout, view.element_bits).kind();
  const int64_t shown = std::min(layout.copies(), kDescribedPoints);
  std::vector<int64_t> values(layout.axes().size());
  for (int64_t q = 0; q < shown; ++q) {
    layout.Evaluate(flat, q, values.data());
    Coord point;
    __int128 thread = 0;
    for (size_t a = 0; a < values.size(); ++a) {
      point.Set(layout.axes()[a], values[a]);
      thread += static_cast<__int128>(values[a]) * InfoOf(layout.axes()[a]).threads;
    }
    std::string where = point.ToString();
    if (kind == Cells::Kind::kOwner) absl::StrAppend(&where, " thread ", Decimal(thread));
    if (kind == Cells::Kind::kAddress) {
      const int64_t address = point[Axis::kM];
      absl::StrAppend(&where, " byte ", ByteOfBits(address, view.element_bits), " bank ",
                      BankOfBits(address, view.element_bits), " line ",
                      LineOfBits(address, view.element_bits));
    }
    absl::StrAppend(&text, Line("point", where));
  }
  if (layout.copies() > shown) {
    absl::StrAppend(&text, Line("", absl::StrCat("and ", layout.copies() - shown, " more")));
  }
  if (kind != Cells::Kind::kAddress) return text;
  if (layout.size() > kSharedPoints || layout.size() * layout.copies() > kSharedPoints) {
    return text + Line("bank", absl::StrCat("not searched for others: more than ", kSharedPoints,
                                            " points"));
  }
  for (const int bank : BanksOf(layout.Apply(flat), view.element_bits)) {
    absl::StrAppend(&text, SharersOf(layout, view, flat, bank));
  }
  return text;
}

}  // namespace kiln::layout
