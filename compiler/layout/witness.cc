#include "compiler/layout/witness.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"

namespace kiln::layout {
namespace {

constexpr char kPayload[] = "kiln.layout.witness";

std::string Encode(const Coord& coord) {
  std::string text;
  for (const auto& [axis, value] : coord.values()) {
    absl::StrAppend(&text, text.empty() ? "" : ",", NameOf(axis), "=", value);
  }
  return text;
}

Coord Decode(absl::string_view text) {
  Coord coord;
  for (absl::string_view term : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(term, '=');
    int64_t value = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &value)) continue;
    if (const auto axis = FindAxis(parts[0]); axis.ok()) coord.Set(*axis, value);
  }
  return coord;
}

}  // namespace

Coord::Coord(std::vector<std::pair<Axis, int64_t>> values) : values_(std::move(values)) {
  std::sort(values_.begin(), values_.end());
  for (size_t i = 1; i < values_.size(); ++i) KILN_CHECK(values_[i - 1].first != values_[i].first);
}

int64_t Coord::operator[](Axis axis) const {
  for (const auto& [a, value] : values_) {
    if (a == axis) return value;
  }
  return 0;
}

void Coord::Set(Axis axis, int64_t value) {
  for (auto& [a, old] : values_) {
    if (a == axis) {
      old = value;
      return;
    }
  }
  values_.emplace_back(axis, value);
  std::sort(values_.begin(), values_.end());
}

std::string Coord::ToString() const {
  std::string text = "{";
  for (const auto& [axis, value] : values_) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ", ", NameOf(axis), "=", value);
  }
  return text + "}";
}

namespace {

// <0, 0 or >0 as `a` comes before, equals or comes after `b`; absent axes count as zero.
int Compare(const Coord& a, const Coord& b) {
  size_t i = 0;
  size_t j = 0;
  const auto& x = a.values();
  const auto& y = b.values();
  while (i < x.size() || j < y.size()) {
    const bool left = i < x.size() && (j == y.size() || x[i].first <= y[j].first);
    const bool right = j < y.size() && (i == x.size() || y[j].first <= x[i].first);
    const int64_t u = left ? x[i++].second : 0;
    const int64_t v = right ? y[j++].second : 0;
    if (u != v) return u < v ? -1 : 1;
  }
  return 0;
}

}  // namespace

bool operator==(const Coord& a, const Coord& b) { return Compare(a, b) == 0; }
bool operator<(const Coord& a, const Coord& b) { return Compare(a, b) < 0; }

std::string Witness::ToString() const {
  std::string text = absl::StrCat(reason, element < 0 && at.values().empty() ? "" : ":");
  if (element >= 0) absl::StrAppend(&text, " element ", element);
  if (!at.values().empty()) absl::StrAppend(&text, " at ", at.ToString());
  if (other >= 0) absl::StrAppend(&text, ", element ", other);
  if (!other_at.values().empty()) {
    absl::StrAppend(&text, other >= 0 ? " at " : " against ", other_at.ToString());
  }
  return text;
}

absl::Status Refuse(Witness witness) {
  absl::Status status = absl::FailedPreconditionError(witness.ToString());
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(
                                  witness.element, ";", witness.other, ";", Encode(witness.at), ";",
                                  Encode(witness.other_at), ";", witness.reason)));
  return status;
}

absl::Status BadArgument(absl::string_view message) { return absl::InvalidArgumentError(message); }

std::optional<Witness> WitnessOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(*payload), absl::MaxSplits(';', 4));
  Witness witness;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[0], &witness.element) ||
      !absl::SimpleAtoi(parts[1], &witness.other)) {
    return std::nullopt;
  }
  witness.at = Decode(parts[2]);
  witness.other_at = Decode(parts[3]);
  witness.reason = parts[4];
  return witness;
}

}  // namespace kiln::layout
