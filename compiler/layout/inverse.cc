#include "compiler/layout/inverse.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

void Collect(const std::vector<Iter>& iters, bool in_replica, Axis axis, AxisDecode* decode) {
  int64_t place = 1;
  for (size_t k = iters.size(); k-- > 0;) {
    const Iter& iter = iters[k];
    if (iter.axis == axis && iter.extent > 1) {
      DigitDecode digit;
      digit.iter = iter;
      digit.in_replica = in_replica;
      digit.index = k;
      digit.place = place;
      digit.flipped = iter.stride < 0;
      digit.divisor = iter.stride < 0 ? -iter.stride : iter.stride;
      if (digit.flipped) decode->offset += iter.stride * (iter.extent - 1);
      decode->digits.push_back(digit);
    }
    place *= iter.extent;
  }
}

void ChooseMethod(AxisDecode* decode) {
  std::vector<DigitDecode>& digits = decode->digits;
  std::sort(digits.begin(), digits.end(),
            [](const DigitDecode& a, const DigitDecode& b) { return a.divisor < b.divisor; });
  bool divides = true;
  int64_t reach = 0;
  decode->method = AxisDecode::Method::kGreedy;
  for (size_t k = 0; k < digits.size(); ++k) {
    if (digits[k].divisor <= reach) decode->method = AxisDecode::Method::kTable;
    reach += digits[k].divisor * (digits[k].iter.extent - 1);
    if (k > 0) divides = divides && digits[k].divisor % digits[k - 1].divisor == 0;
  }
  if (decode->method == AxisDecode::Method::kTable || !divides) return;
  decode->method = AxisDecode::Method::kChain;
  for (size_t k = 0; k + 1 < digits.size(); ++k) {
    digits[k].modulus = digits[k + 1].divisor / digits[k].divisor;
  }
}

void ChainGuards(const AxisDecode& decode, std::vector<Guard>* guards) {
  const std::vector<DigitDecode>& digits = decode.digits;
  using Kind = Guard::Kind;
  if (digits[0].divisor > 1) guards->push_back({Kind::kMultiple, decode.axis, digits[0].divisor});
  for (const DigitDecode& d : digits) {
    if (d.modulus > 0 && d.iter.extent < d.modulus) {
      guards->push_back({Kind::kDigit, decode.axis, d.divisor, d.modulus, d.iter.extent});
    }
  }
  guards->push_back({Kind::kAtLeast, decode.axis});
  guards->push_back({Kind::kBelow, decode.axis, digits.back().divisor * digits.back().iter.extent});
}

absl::Status FillTable(AxisDecode* decode) {
  std::vector<int64_t> extents;
  for (const DigitDecode& d : decode->digits) extents.push_back(d.iter.extent);
  const int64_t entries = CheckedProduct(extents);
  if (entries < 0 || entries > Inverse::kMaxTable) {
    return absl::ResourceExhaustedError(absl::StrCat("inverse on ", NameOf(decode->axis), ": ",
                                                     "overlapping strides over too many values"));
  }
  decode->table.reserve(entries);
  for (int64_t i = 0; i < entries; ++i) {
    const std::vector<int64_t> c = Unflatten(i, extents);
    int64_t v = 0;
    for (size_t k = 0; k < c.size(); ++k) v += c[k] * decode->digits[k].divisor;
    KILN_CHECK(decode->table.emplace(v, i).second);
  }
  return absl::OkStatus();
}

bool Holds(const Guard& guard, const AxisDecode& decode, int64_t v) {
  switch (guard.kind) {
    case Guard::Kind::kMultiple:
      return FloorMod(v, guard.a) == 0;
    case Guard::Kind::kAtLeast:
      return v >= 0;
    case Guard::Kind::kBelow:
      return v < guard.a;
    case Guard::Kind::kDigit:
      return FloorMod(FloorDiv(v, guard.a), guard.b) < guard.c;
    case Guard::Kind::kMember:
      return decode.table.count(v) > 0;
    case Guard::Kind::kEqual:
      return v == 0;
    case Guard::Kind::kGreedy:
      break;
  }
  for (size_t k = decode.digits.size(); k-- > 0;) {
    const DigitDecode& d = decode.digits[k];
    const int64_t c = std::min(d.iter.extent - 1, v / d.divisor);
    if (c < 0) return false;
    v -= c * d.divisor;
  }
  return v == 0;
}

struct Found {
  int64_t element = 0;
  int64_t copy = 0;
};

inline void Put(const DigitDecode& d, int64_t digit, Found* found) {
  const int64_t c = d.flipped ? d.iter.extent - 1 - digit : digit;
  (d.in_replica ? found->copy : found->element) += c * d.place;
}

// v >= 0. False when v is not in the image.
bool DecodeChain(const AxisDecode& decode, int64_t v, Found* found) {
  uint64_t rest = static_cast<uint64_t>(v);
  for (size_t k = decode.digits.size(); k-- > 0;) {
    const DigitDecode& d = decode.digits[k];
    const uint64_t divisor = static_cast<uint64_t>(d.divisor);
    uint64_t c = 0;
    if ((divisor & (divisor - 1)) == 0) {
      c = rest >> __builtin_ctzll(divisor);
      rest &= divisor - 1;
    } else {
      c = rest / divisor;
      rest -= c * divisor;
    }
    if (c >= static_cast<uint64_t>(d.iter.extent)) return false;
    Put(d, static_cast<int64_t>(c), found);
  }
  return rest == 0;
}

bool DecodeAxis(const AxisDecode& decode, int64_t value, Found* found) {
  if (decode.swizzle.has_value()) value = (*decode.swizzle)(value);
  const int64_t v = value - decode.offset;
  if (decode.method != AxisDecode::Method::kTable) return v >= 0 && DecodeChain(decode, v, found);
  const auto it = decode.table.find(v);
  if (it == decode.table.end()) return false;
  int64_t packed = it->second;
  for (size_t k = decode.digits.size(); k-- > 0;) {
    Put(decode.digits[k], packed % decode.digits[k].iter.extent, found);
    packed /= decode.digits[k].iter.extent;
  }
  return true;
}

}  // namespace

std::string Guard::ToString() const {
  const absl::string_view name = NameOf(axis);
  switch (kind) {
    case Kind::kMultiple:
      return absl::StrCat(name, " mod ", a, " == 0");
    case Kind::kAtLeast:
      return absl::StrCat(name, " >= 0");
    case Kind::kBelow:
      return absl::StrCat(name, " < ", a);
    case Kind::kDigit:
      return absl::StrCat("(", name, " / ", a, ") mod ", b, " < ", c);
    case Kind::kGreedy:
      return absl::StrCat(name, " decodes without remainder");
    case Kind::kMember:
      return absl::StrCat(name, " in table");
    case Kind::kEqual:
      return absl::StrCat(name, " == 0");
  }
  return "";
}

absl::StatusOr<Inverse> Inverse::Of(const Layout& layout) {
  KILN_ASSIGN_OR_RETURN(const auto collision, SearchCollision(layout));
  if (collision.has_value()) return Refuse(collision->ToWitness());
  Inverse inverse;
  inverse.axes_ = layout.axes();
  for (const Axis axis : layout.axes()) {
    AxisDecode decode;
    decode.axis = axis;
    decode.offset = layout.offset(axis);
    if (const SwizzleLayout* s = layout.swizzle(axis)) decode.swizzle = *s;
    Collect(layout.shard(), false, axis, &decode);
    Collect(layout.replica(), true, axis, &decode);
    if (decode.digits.empty()) {
      inverse.guards_.push_back({Guard::Kind::kEqual, axis});
      inverse.decodes_.push_back(std::move(decode));
      continue;
    }
    ChooseMethod(&decode);
    switch (decode.method) {
      case AxisDecode::Method::kChain:
        ChainGuards(decode, &inverse.guards_);
        break;
      case AxisDecode::Method::kGreedy:
        inverse.guards_.push_back({Guard::Kind::kGreedy, axis});
        break;
      case AxisDecode::Method::kTable:
        KILN_RETURN_IF_ERROR(FillTable(&decode));
        inverse.guards_.push_back({Guard::Kind::kMember, axis});
        break;
    }
    inverse.decodes_.push_back(std::move(decode));
  }
  return inverse;
}

std::optional<std::pair<int64_t, int64_t>> Inverse::operator()(const int64_t* values) const {
  Found found;
  for (size_t a = 0; a < decodes_.size(); ++a) {
    if (!DecodeAxis(decodes_[a], values[a], &found)) return std::nullopt;
  }
  return std::make_pair(found.element, found.copy);
}

std::optional<std::pair<int64_t, int64_t>> Inverse::operator()(const Coord& point) const {
  std::vector<int64_t> values(axes_.size());
  for (const auto& [axis, value] : point.values()) {
    const auto it = std::lower_bound(axes_.begin(), axes_.end(), axis);
    if (it != axes_.end() && *it == axis) {
      values[it - axes_.begin()] = value;
    } else if (value != 0) {
      return std::nullopt;
    }
  }
  return (*this)(values.data());
}

bool Inverse::Accepts(const int64_t* values, const std::vector<bool>& keep) const {
  for (size_t g = 0; g < guards_.size(); ++g) {
    if (!keep[g]) continue;
    const size_t a = std::lower_bound(axes_.begin(), axes_.end(), guards_[g].axis) - axes_.begin();
    const AxisDecode& decode = decodes_[a];
    const int64_t value = decode.swizzle.has_value() ? (*decode.swizzle)(values[a]) : values[a];
    if (!Holds(guards_[g], decode, value - decode.offset)) return false;
  }
  return true;
}

std::vector<Guard> Inverse::GuardsWithin(Axis axis, int64_t low, int64_t high) const {
  std::vector<Guard> needed;
  for (const Guard& guard : guards_) {
    const size_t a = std::lower_bound(axes_.begin(), axes_.end(), guard.axis) - axes_.begin();
    const AxisDecode& decode = decodes_[a];
    const int64_t first = low - decode.offset;
    const int64_t last = high - 1 - decode.offset;
    // The smallest value that only this guard refuses; below zero, the largest.
    bool implied = false;
    if (guard.axis == axis && !decode.swizzle.has_value() && first <= 0 && last >= 0) {
      const bool one = first == 0 && last == 0;
      int64_t lower_digits = 0;
      for (size_t k = 0; k + 1 < decode.digits.size(); ++k) {
        lower_digits += decode.digits[k].divisor * (decode.digits[k].iter.extent - 1);
      }
      switch (guard.kind) {
        case Guard::Kind::kBelow:
          implied = last < guard.a;
          break;
        case Guard::Kind::kAtLeast:
          implied = first > lower_digits - decode.digits.back().divisor;
          break;
        case Guard::Kind::kDigit:
          implied = last < guard.a * guard.c && first == 0;
          break;
        default:
          implied = one;
      }
    }
    if (!implied) needed.push_back(guard);
  }
  return needed;
}

}  // namespace kiln::layout
