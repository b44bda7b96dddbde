#include "compiler/ir/integer_points.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace kiln::ir {
namespace {

using Wide = __int128;

constexpr int kMostRounds = 40;  // what they leave is cut by halves

Wide FloorOf(Wide a, Wide b) {  // b > 0
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// The values v in [low, high] with least <= factor * v <= most.
bool Cut(int64_t factor, Wide least, Wide most, int64_t* low, int64_t* high) {
  if (factor < 0) {
    std::swap(least, most);
    least = -least;
    most = -most;
    factor = -factor;
  }
  const Wide first = -FloorOf(-least, factor), last = FloorOf(most, factor);
  if (first > *high || last < *low) return false;
  *low = static_cast<int64_t>(std::max<Wide>(first, *low));
  *high = static_cast<int64_t>(std::min<Wide>(last, *high));
  return *low <= *high;
}

}  // namespace

size_t IntegerPoints::AddVariable(int64_t low, int64_t high) {
  box_.push_back({low, high});
  return box_.size() - 1;
}

bool IntegerPoints::NarrowBy(const Row& row, Box* box, bool* changed) {
  const auto reach = [&](const std::pair<size_t, int64_t>& term, bool up) {
    const Span& span = (*box)[term.first];
    return Wide{term.second} * ((term.second > 0) == up ? span.high : span.low);
  };
  Wide least = row.constant, most = row.constant;
  for (const auto& term : row.terms) {
    least += reach(term, false);
    most += reach(term, true);
  }
  if (most < 0 || (row.is_zero && least > 0)) return false;
  for (const auto& term : row.terms) {
    Span& span = (*box)[term.first];
    const Wide others_most = most - reach(term, true), others_least = least - reach(term, false);
    const Wide up = row.is_zero ? -others_least : reach(term, true);
    const Span before = span;
    if (!Cut(term.second, -others_most, up, &span.low, &span.high)) return false;
    if (span.low == before.low && span.high == before.high) continue;
    *changed = true;
    least = others_least + reach(term, false);
    most = others_most + reach(term, true);
  }
  return true;
}

bool IntegerPoints::Divides(const Row& row, const Box& box) {
  if (!row.is_zero) return true;
  Wide fixed = row.constant;
  int64_t divisor = 0;
  for (const auto& [variable, factor] : row.terms) {
    const Span& span = box[variable];
    if (span.low == span.high) {
      fixed += Wide{factor} * span.low;
    } else {
      divisor = std::gcd(divisor, factor);
    }
  }
  return divisor == 0 ? fixed == 0 : fixed % divisor == 0;
}

bool IntegerPoints::Narrow(const std::vector<Row>& rows, Box* box) {
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (const Row& row : rows) {
      if (!NarrowBy(row, box, &changed)) return false;
    }
  }
  return std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return Divides(row, *box); });
}

bool IntegerPoints::Settle(Row* row) {
  std::sort(row->terms.begin(), row->terms.end());
  std::vector<std::pair<size_t, int64_t>> terms;
  for (const auto& [variable, factor] : row->terms) {
    if (!terms.empty() && terms.back().first == variable) {
      if (__builtin_add_overflow(terms.back().second, factor, &terms.back().second)) return false;
    } else {
      terms.emplace_back(variable, factor);
    }
    if (terms.back().second == 0) terms.pop_back();
  }
  row->terms = std::move(terms);
  int64_t divisor = 0;
  for (const auto& [variable, factor] : row->terms) divisor = std::gcd(divisor, factor);
  if (divisor == 0) return row->is_zero ? row->constant == 0 : row->constant >= 0;
  if (row->is_zero && row->constant % divisor != 0) return false;
  for (auto& [variable, factor] : row->terms) factor /= divisor;
  row->constant = static_cast<int64_t>(FloorOf(row->constant, divisor));
  return true;
}

// What does not fit 64 bits is taken to have no point.
bool IntegerPoints::Replace(size_t variable, const Row& by, Row* row) {
  const auto found = std::find_if(row->terms.begin(), row->terms.end(),
                                  [&](const auto& term) { return term.first == variable; });
  if (found == row->terms.end()) return true;
  const int64_t times = found->second;
  row->terms.erase(found);
  for (const auto& [other, factor] : by.terms) {
    int64_t product = 0;
    if (__builtin_mul_overflow(factor, times, &product)) return false;
    row->terms.emplace_back(other, product);
  }
  int64_t product = 0;
  if (__builtin_mul_overflow(by.constant, times, &product) ||
      __builtin_add_overflow(row->constant, product, &row->constant)) {
    return false;
  }
  return Settle(row);
}

bool IntegerPoints::PutIn(std::vector<Row>* rows,
                          std::vector<std::pair<size_t, Row>>* given) const {
  for (Row& row : *rows) {
    if (!Settle(&row)) return false;
  }
  const auto is_one = [](const auto& term) { return term.second == 1 || term.second == -1; };
  while (true) {
    size_t at = 0;
    while (at < rows->size() &&
           !((*rows)[at].is_zero &&
             std::any_of((*rows)[at].terms.begin(), (*rows)[at].terms.end(), is_one))) {
      ++at;
    }
    if (at == rows->size()) return true;
    Row by = (*rows)[at];
    rows->erase(rows->begin() + static_cast<int64_t>(at));
    const auto one = std::find_if(by.terms.begin(), by.terms.end(), is_one);
    const auto [variable, sign] = *one;
    by.terms.erase(one);
    for (auto& term : by.terms) term.second *= -sign;
    by.constant *= -sign;
    for (Row& row : *rows) {
      if (!Replace(variable, by, &row)) return false;
    }
    Row above = by, below = by;  // within its span
    above.is_zero = below.is_zero = false;
    above.constant -= box_[variable].low;
    for (auto& term : below.terms) term.second = -term.second;
    below.constant = box_[variable].high - below.constant;
    if (!Settle(&above) || !Settle(&below)) return false;
    rows->push_back(std::move(above));
    rows->push_back(std::move(below));
    given->emplace_back(variable, std::move(by));
  }
}

std::optional<std::vector<int64_t>> IntegerPoints::FindOne(int64_t* steps) const {
  std::vector<Row> rows = rows_;
  std::vector<std::pair<size_t, Row>> given;
  if (!PutIn(&rows, &given)) return std::nullopt;
  std::vector<Box> open = {box_};
  for (const auto& [variable, by] : given) open[0][variable] = {0, 0};
  while (!open.empty() && --*steps >= 0) {
    Box box = std::move(open.back());
    open.pop_back();
    if (!Narrow(rows, &box)) continue;
    const auto width = [&](size_t v) { return Wide{box[v].high} - box[v].low; };
    size_t narrowest = box.size();
    for (size_t v = 0; v < box.size(); ++v) {
      if (width(v) > 0 && (narrowest == box.size() || width(v) < width(narrowest))) narrowest = v;
    }
    if (narrowest == box.size()) {
      std::vector<int64_t> point;
      for (const Span& span : box) point.push_back(span.low);
      for (size_t g = given.size(); g-- > 0;) {  // those that were put in last first
        const auto& [variable, by] = given[g];
        point[variable] = by.constant;
        for (const auto& [other, factor] : by.terms) point[variable] += factor * point[other];
      }
      return point;
    }
    const int64_t middle =
        static_cast<int64_t>(FloorOf(Wide{box[narrowest].low} + box[narrowest].high, 2));
    Box upper = box;
    upper[narrowest].low = middle + 1;
    box[narrowest].high = middle;
    open.push_back(std::move(upper));
    open.push_back(std::move(box));
  }
  return std::nullopt;
}

}  // namespace kiln::ir
