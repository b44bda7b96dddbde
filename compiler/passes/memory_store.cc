#include "compiler/passes/memory_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/points.h"

namespace kiln::passes {
namespace {

using ir::Expr;

constexpr int64_t kMaxStoreSpan = int64_t{1} << 40;  // locations among which iterations may meet

// The terms that `variables` decide, and the rest.
std::pair<Expr, Expr> Split(const ir::LinearForm& form, const std::vector<Expr>& variables) {
  ir::LinearForm varying, same;
  varying.constant = form.constant;
  for (const auto& term : form.terms) {
    const bool varies = std::any_of(variables.begin(), variables.end(),
                                    [&](const Expr& v) { return ir::Uses(term.first, v); });
    (varies ? varying : same).terms.push_back(term);
  }
  return {ir::FromLinear(varying, kInt64), ir::FromLinear(same, kInt64)};
}

class StoreReader {
 public:
  explicit StoreReader(const StoreSite& site) : site_(site), variables_(site.axes) {
    for (const SerialVariable& v : site.serial) {
      variables_.push_back(v.var);
      serial_mins_.push_back(v.min);
      serial_extents_.push_back(v.extent);
    }
  }

  absl::StatusOr<std::optional<MemoryStore>> Read(const ir::Buffer& buffer,
                                                  const std::vector<Expr>& indices,
                                                  StorePlaces* places, int64_t* left) {
    if (site_.alone && IsApart(indices)) return std::nullopt;
    std::string fixed = absl::StrCat(reinterpret_cast<uintptr_t>(buffer.get()));
    MemoryStore store;
    store.span = 1;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!AddIndex(buffer->shape[d], indices[d], &fixed, &store.span)) return std::nullopt;
    }
    for (const Expr& guard : site_.guards) {
      if (!guard.defined()) return std::nullopt;
      absl::StatusOr<ir::IntFunction> condition = ir::IntFunction::Of(guard, variables_);
      if (!condition.ok()) return std::nullopt;
      conditions_.push_back(*std::move(condition));
    }
    store.place = static_cast<int>(places->try_emplace(fixed, places->size()).first->second);
    KILN_RETURN_IF_ERROR(ForEachPoint(
        serial_mins_, serial_extents_,
        [&](const std::vector<int64_t>& serial) { return Evaluate(serial, left, &store); }));
    return store;
  }

 private:
  // Whether each axis alone decides an index of its own: no two iterations meet.
  bool IsApart(const std::vector<Expr>& indices) const {
    std::vector<const ir::ExprNode*> told;
    for (const Expr& index : indices) {
      const auto [varying, same] = Split(site_.facts.Expand(index), variables_);
      const ir::LinearForm form = ir::Linearize(varying);
      if (form.terms.size() == 1) told.push_back(form.terms[0].first.get());
    }
    for (size_t a = 0; a < site_.axes.size(); ++a) {
      const bool apart = std::find(told.begin(), told.end(), site_.axes[a].get()) != told.end();
      if (!apart && site_.extents[a] > 1) return false;
    }
    return true;
  }

  // False where the index is not known well enough.
  bool AddIndex(const Expr& extent, const Expr& index, std::string* fixed, int64_t* span) {
    const auto [varying, same] = Split(site_.facts.Expand(index), variables_);
    auto range = site_.facts.BoundsOf(varying);
    absl::StatusOr<ir::IntFunction> function = ir::IntFunction::Of(varying, variables_);
    if (!function.ok() || !range) return false;
    // Numbers by the buffer's own extent where that is possible, so that stores are comparable.
    const auto size = ir::ConstInt(extent);
    if (size && range->min >= 0 && range->max < *size) range = ir::Bounds{0, *size - 1};
    if (__builtin_mul_overflow(*span, range->max - range->min + 1, span) ||
        *span >= kMaxStoreSpan) {
      return false;
    }
    absl::StrAppend(fixed, ", ", ir::ToString(same), " ", range->min, " ", range->max);
    functions_.push_back(*std::move(function));
    bounds_.push_back(*range);
    return true;
  }

  absl::Status Evaluate(const std::vector<int64_t>& serial, int64_t* left, MemoryStore* store) {
    std::vector<int64_t> cells;
    std::vector<int64_t> values(site_.axes.size() + serial.size());
    std::copy(serial.begin(), serial.end(),
              values.begin() + static_cast<int64_t>(site_.axes.size()));
    KILN_RETURN_IF_ERROR(
        ForEachPoint(site_.mins, site_.extents, [&](const std::vector<int64_t>& at) {
          if (--*left < 0) return absl::ResourceExhaustedError("too many accesses");
          std::copy(at.begin(), at.end(), values.begin());
          cells.push_back(CellAt(values));
          return absl::OkStatus();
        }));
    store->cells.push_back(std::move(cells));
    return absl::OkStatus();
  }

  // -1 where nothing is stored.
  int64_t CellAt(const std::vector<int64_t>& values) const {
    for (const ir::IntFunction& holds : conditions_) {
      if (holds(values) == 0) return -1;
    }
    int64_t cell = 0;
    for (size_t d = 0; d < functions_.size(); ++d) {
      const std::optional<int64_t> index = functions_[d](values);
      if (!index) return -1;
      cell = cell * (bounds_[d].max - bounds_[d].min + 1) + (*index - bounds_[d].min);
    }
    return cell;
  }

  const StoreSite& site_;
  std::vector<Expr> variables_;  // of the loop, then serial ones
  std::vector<int64_t> serial_mins_, serial_extents_;
  std::vector<ir::IntFunction> functions_, conditions_;
  std::vector<ir::Bounds> bounds_;  // of what each function gives
};

}  // namespace

std::string TextOf(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
  const auto print = [](std::string* out, const Expr& e) { absl::StrAppend(out, ir::ToString(e)); };
  return absl::StrCat(buffer->name, "[", absl::StrJoin(indices, ", ", print), "]");
}

LoopStores StoresOf(const ir::Stmt& body) {
  LoopStores stores;
  std::unordered_map<const ir::BufferNode*, std::set<std::string>> texts;
  ir::Walk(body, [&](const ir::Stmt& s) {
    const auto* store = s.As<ir::Store>();
    if (store == nullptr) return true;
    ++stores.count[store->buffer.get()];
    texts[store->buffer.get()].insert(TextOf(store->buffer, store->indices));
    return true;
  });
  const auto read = [&](const Expr& e) {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || !IsMemory(load->buffer)) return true;
    const auto stored = texts.find(load->buffer.get());
    if (stored == texts.end()) return true;
    stored->second.insert(TextOf(load->buffer, load->indices));
    if (stored->second.size() > 1) stores.read_elsewhere.insert(load->buffer.get());
    return true;
  };
  ir::Walk(
      body, [](const ir::Stmt&) { return true; }, read);
  return stores;
}

bool AreLoaded(const std::vector<Expr>& indices) {
  bool loaded = false;
  std::set<const ir::ExprNode*> seen;  // names make indices share much of themselves
  for (const Expr& index : indices) {
    ir::Walk(index, [&](const Expr& e) {
      loaded |= e.As<ir::Load>() != nullptr;
      return !loaded && seen.insert(e.get()).second;
    });
  }
  return loaded;
}

absl::StatusOr<std::optional<MemoryStore>> StoreAt(const StoreSite& site, const ir::Buffer& buffer,
                                                   const std::vector<Expr>& indices,
                                                   StorePlaces* places, int64_t* left) {
  return StoreReader(site).Read(buffer, indices, places, left);
}

}  // namespace kiln::passes
