#include "compiler/roofline/priced_space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/roofline/explain.h"

namespace kiln::roofline {
namespace {

constexpr int64_t kChunk = 4096;  // rows priced together

double NumberOr(const std::string& text, double fallback) {
  double v = 0;
  return absl::SimpleAtod(text, &v) ? v : fallback;
}

}  // namespace

PricedSpace::PricedSpace(Expanded expanded, const target::Arch& arch)
    : arch_(arch),
      axes_(std::move(expanded.axes)),
      pieces_(std::move(expanded.pieces)),
      total_(expanded.total) {
  for (const Axis& a : axes_) {
    tunables_.push_back({a.name, RoleName(a.role), a.texts, a.derived, HintField(a.role)});
  }
  PriceAll();
  Rank();
}

void PricedSpace::FillColumns(const PieceRows& p, int64_t from, int64_t count,
                              std::vector<std::vector<double>>& columns) const {
  const auto& inputs = p.piece.inputs();
  columns.assign(inputs.size(), std::vector<double>(count));
  if (!p.list.empty()) {
    for (int64_t j = 0; j < count; ++j) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        columns[i][j] = NumberOr(*p.list[from + j].Find(inputs[i]), 0);
      }
    }
    return;
  }
  int64_t stride = p.rows;
  for (int axis : p.axes) {
    const Axis& a = axes_[axis];
    const int64_t n = static_cast<int64_t>(a.numbers.size());
    stride /= n;
    const auto at = std::find(inputs.begin(), inputs.end(), a.name);
    if (at == inputs.end()) continue;
    std::vector<double>& column = columns[at - inputs.begin()];
    for (int64_t j = 0; j < count; ++j) column[j] = a.numbers[(from + j) / stride % n];
  }
}

void PricedSpace::PriceAll() {
  std::vector<std::vector<double>> columns;
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const PieceRows& piece = pieces_[p];
    const size_t base = ns_.size();
    first_row_.push_back(static_cast<int64_t>(base));
    ns_.resize(base + piece.rows);
    for (int64_t from = 0; from < piece.rows; from += kChunk) {
      const int64_t count = std::min(kChunk, piece.rows - from);
      FillColumns(piece, from, count, columns);
      std::vector<const double*> pointers;
      for (const auto& c : columns) pointers.push_back(c.data());
      piece.piece.Evaluate(pointers, count, ns_.data() + base + from);
    }
    for (int64_t i = 0; i < piece.rows; ++i) {
      if (!piece.list.empty()) {
        listed_[piece.list[i].ToString()] = static_cast<int64_t>(rows_.size());
      }
      rows_.push_back({static_cast<int32_t>(p), i});
    }
  }
}

// Rows come in order of their values, so a stable sort breaks ties the same way everywhere.
void PricedSpace::Rank() {
  for (size_t i = 0; i < ns_.size(); ++i) {
    if (ns_[i] >= 0 && std::isfinite(ns_[i])) ranked_.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(ranked_.begin(), ranked_.end(),
                   [&](int64_t a, int64_t b) { return ns_[a] < ns_[b]; });
  total_ -= std::count_if(ns_.begin(), ns_.end(), [](double ns) { return ns <= Piece::kSame; });
  rank_of_row_.assign(ns_.size(), -1);
  for (size_t r = 0; r < ranked_.size(); ++r) rank_of_row_[ranked_[r]] = static_cast<int64_t>(r);
}

// A config says nothing of an open option that is as the passes take it: its first value.
bool PricedSpace::IsOpenOption(const Axis& axis) { return axis.open && axis.role == Role::kOption; }

Config PricedSpace::RowConfig(const Row& row) const {
  const PieceRows& p = pieces_[row.piece];
  if (!p.list.empty()) return p.list[row.index];
  Config config = p.piece.fixed();
  int64_t stride = p.rows;
  for (int axis : p.axes) {
    const Axis& a = axes_[axis];
    stride /= static_cast<int64_t>(a.texts.size());
    const int64_t at = row.index / stride % static_cast<int64_t>(a.texts.size());
    if (!IsOpenOption(a) || at > 0) config.Set(a.name, a.texts[at]);
  }
  return config;
}

std::vector<double> PricedSpace::RowValues(const Row& row) const {
  std::vector<std::vector<double>> columns;
  FillColumns(pieces_[row.piece], row.index, 1, columns);
  std::vector<double> out;
  for (const auto& c : columns) out.push_back(c[0]);
  return out;
}

Config PricedSpace::ConfigAt(int64_t rank) const { return RowConfig(RowOf(rank)); }

double PricedSpace::PredictedAt(int64_t rank) const { return ns_[ranked_[rank]]; }

int64_t PricedSpace::FindRow(const Config& config) const {
  if (const auto it = listed_.find(config.ToString()); it != listed_.end()) return it->second;
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const PieceRows& piece = pieces_[p];
    if (!piece.list.empty()) continue;
    const auto& fixed = piece.piece.fixed().values();
    size_t named = fixed.size();
    bool found = std::all_of(fixed.begin(), fixed.end(), [&](const auto& kv) {
      const std::string* v = config.Find(kv.first);
      return v != nullptr && *v == kv.second;
    });
    int64_t row = 0, stride = 1;
    std::vector<std::pair<int64_t, int64_t>> options;  // index and stride of each, the last first
    for (size_t i = piece.axes.size(); found && i-- > 0;) {
      const Axis& a = axes_[piece.axes[i]];
      const std::string* v = config.Find(a.name);
      named += v != nullptr ? 1 : 0;
      const auto first = v == nullptr && IsOpenOption(a) ? a.texts.begin() : a.texts.end();
      const auto at = v == nullptr ? first : std::find(a.texts.begin(), a.texts.end(), *v);
      found = at != a.texts.end();
      const int64_t index = at - a.texts.begin();
      if (IsOpenOption(a)) options.emplace_back(index, stride);
      row += index * stride;
      stride *= static_cast<int64_t>(a.texts.size());
    }
    if (found && named == config.values().size()) return Settled(first_row_[p] + row, options);
  }
  return -1;
}

// The row itself, or the one that stands for it: options that change nothing are left alone.
int64_t PricedSpace::Settled(int64_t row,
                             const std::vector<std::pair<int64_t, int64_t>>& options) const {
  while (ns_[row] <= Piece::kSame) {
    const auto option = static_cast<size_t>(Piece::kSame - ns_[row]);
    const auto& [index, stride] = options[options.size() - 1 - option];
    row -= index * stride;
  }
  return row;
}

int64_t PricedSpace::RankOf(const Config& config) const {
  const int64_t row = FindRow(config);
  return row < 0 ? -1 : rank_of_row_[row];
}

std::string PricedSpace::BrokenLimit(const Config& config) const {
  const int64_t row = FindRow(config);
  if (row < 0) return "not in the space";
  const Piece& piece = pieces_[rows_[row].piece].piece;
  const Figures f = piece.FiguresOf(RowValues(rows_[row]));
  for (size_t l = 0; l < f.limits.size(); ++l) {
    if (f.limits[l] != 0) continue;
    const std::string& name = piece.price().limits[l].name;
    return name == "registers" ? absl::StrCat(name, ", ", -f.spare_registers, " too many") : name;
  }
  return "";
}

std::vector<double> PricedSpace::Coordinates(int64_t rank) const {
  const Config config = ConfigAt(rank);
  std::vector<double> out;
  for (const Axis& a : axes_) {
    const std::string* v = config.Find(a.name);
    const double absent = IsOpenOption(a) ? a.numbers.front() : std::nan("");
    out.push_back(v == nullptr ? absent : NumberOr(*v, std::nan("")));
  }
  return out;
}

std::string PricedSpace::BoundBy(int64_t rank) const {
  const Row row = RowOf(rank);
  const Piece& piece = pieces_[row.piece].piece;
  return BindingResource(piece.price(), piece.FiguresOf(RowValues(row)));
}

bool PricedSpace::MayLackRegisters(int64_t rank) const {
  const Row row = RowOf(rank);
  const Figures figures = pieces_[row.piece].piece.FiguresOf(RowValues(row));
  return arch_.kind != target::ArchKind::kCpu && roofline::MayLackRegisters(figures);
}

std::string PricedSpace::CommonestLimit() const {
  if (!ranked_.empty()) return "";
  std::map<std::string, int64_t> fails;
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(rows_.size()) / 512);
  for (size_t i = 0; i < rows_.size(); i += step) {
    const Piece& piece = pieces_[rows_[i].piece].piece;
    const Figures f = piece.FiguresOf(RowValues(rows_[i]));
    for (size_t l = 0; l < f.limits.size(); ++l) {
      if (f.limits[l] == 0) ++fails[piece.price().limits[l].name];
    }
  }
  std::string worst;
  int64_t most = 0;
  for (const auto& [name, n] : fails) {
    if (n > most) worst = name;
    most = std::max(most, n);
  }
  return worst;
}

// What one step along each axis would change, where that is known: "block_K 128: +4 %".
std::string PricedSpace::Counterfactuals(int64_t rank) const {
  const Config config = ConfigAt(rank);
  const double ns = PredictedAt(rank);
  std::vector<std::pair<double, std::string>> all;
  for (const Axis& a : axes_) {
    const std::string* v = config.Find(a.name);
    if (v == nullptr && IsOpenOption(a)) v = &a.texts.front();
    if (v == nullptr || a.texts.size() < 2) continue;
    const auto at = std::find(a.texts.begin(), a.texts.end(), *v);
    if (at == a.texts.end()) continue;
    for (int step : {-1, 1}) {
      const auto index = (at - a.texts.begin()) + step;
      if (index < 0 || index >= static_cast<std::ptrdiff_t>(a.texts.size())) continue;
      Config other = config;
      other.Set(a.name, a.texts[index]);
      const int64_t r = RankOf(other);
      if (r < 0 || r == rank) continue;
      const double change = PredictedAt(r) / ns - 1;
      all.emplace_back(std::fabs(change),
                       absl::StrCat(a.name, " ", a.texts[index], ": ", change >= 0 ? "+" : "",
                                    static_cast<int64_t>(std::lround(change * 100)), " %"));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  std::string out;
  for (size_t i = 0; i < all.size() && i < 3; ++i) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", all[i].second);
  }
  return out;
}

Hint PricedSpace::HintAt(int64_t rank) const {
  const Row row = RowOf(rank);
  const Piece& piece = pieces_[row.piece].piece;
  const Figures figures = piece.FiguresOf(RowValues(row));
  Hint hint = Explain(piece, figures, arch_);
  hint.config = RowConfig(row);
  std::map<std::string, Role> roles;
  for (const Axis& a : axes_) roles[a.name] = a.role;
  AddFields(hint, roles);
  const std::string steps = Counterfactuals(rank);
  if (!steps.empty()) absl::StrAppend(&hint.reason, " One step away: ", steps, ".");
  return hint;
}

}  // namespace kiln::roofline
