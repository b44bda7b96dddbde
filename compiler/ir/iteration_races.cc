#include "compiler/ir/iteration_races.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/far_meetings.h"
#include "compiler/ir/loop_accesses.h"
#include "compiler/ir/printer.h"

namespace kiln::ir {
namespace {

constexpr int64_t kMostPoints = int64_t{1} << 18;  // of one access; a part of a larger loop
constexpr int64_t kLeastPoints = int64_t{1} << 10;
constexpr int64_t kAllPoints = int64_t{1} << 22;   // of a program, beyond which parts are small
constexpr int64_t kPointsOfStep = 2048;            // what a step of FindFarMeeting counts for
constexpr int64_t kMostVisits = int64_t{1} << 26;  // of points by pairs of accesses, of a program
constexpr int64_t kDense = int64_t{1} << 20;       // places that are worth a table

// Whether the terms of a form, each a variable of known range, tell all values of these variables
// apart.
bool TellsApart(std::vector<std::pair<int64_t, int64_t>> terms) {  // factor, extent
  for (auto& [factor, extent] : terms) factor = std::abs(factor);
  std::sort(terms.begin(), terms.end());
  __int128 reach = 0;
  for (const auto& [factor, extent] : terms) {
    if (factor <= reach) return false;
    reach += static_cast<__int128>(factor) * (extent - 1);
  }
  return true;
}

bool SameForm(const LinearForm& a, const LinearForm& b) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const auto& x) {
    return std::any_of(b.terms.begin(), b.terms.end(), [&](const auto& y) {
      return x.second == y.second && Same(x.first, y.first);
    });
  });
}

// What the check of a program may still cost.
struct Budget {
  int64_t points = kAllPoints, visits = kMostVisits;
};

// Where one access goes at every point of its loops, or of a part of them.
struct Places {
  std::vector<std::vector<int64_t>> numbers;  // by dimension, then point: what the loop decides
  std::vector<std::pair<int64_t, int64_t>> ranges;  // of these numbers
  std::vector<LinearForm> same;                     // by dimension: the rest
  std::vector<char> made;                           // by point
  std::optional<std::vector<int64_t>> values;       // of a store, where they are known
};

struct Meeting {
  int64_t first = 0, second = 0;  // iterations of the part
  const LoopAccess* one = nullptr;
  const LoopAccess* other = nullptr;
  std::string where;
};

// The accesses of one loop to one buffer.
class Meetings {
 public:
  Meetings(const LoopAccesses& loop, bool threads, Budget* budget)
      : loop_(loop), threads_(threads), budget_(*budget) {}

  std::optional<Meeting> Find(const std::vector<const LoopAccess*>& accesses) {
    if (AreApart(accesses)) return std::nullopt;
    Cut(accesses);
    std::vector<std::optional<Places>> places;
    for (const LoopAccess* a : accesses) places.push_back(PlacesOf(*a));
    for (size_t w = 0; w < accesses.size(); ++w) {
      if (!accesses[w]->write || !places[w]) continue;
      for (const bool reads : {false, true}) {
        for (size_t o = reads ? 0 : w; o < accesses.size(); ++o) {
          if (!places[o] || accesses[o]->write == reads) continue;
          auto meeting = FindBetween(*accesses[w], *places[w], *accesses[o], *places[o]);
          if (meeting) return meeting;
        }
      }
    }
    return FindFar(accesses);
  }

  const std::vector<int64_t>& extents() const { return extents_; }

 private:
  // Two accesses of which one at least is a plain store.
  bool MayMeet(const LoopAccess& store, const LoopAccess& other) const {
    if (!store.known || !other.known || store.same_guards != other.same_guards) return false;
    if (!store.atomic && !other.atomic) return true;
    // Updates are in no order with stores, but what an update leaves may be read at any time.
    return !threads_ && store.atomic != other.atomic && other.write;
  }

  // Beyond the part that was gone through.
  std::optional<Meeting> FindFar(const std::vector<const LoopAccess*>& accesses) {
    std::vector<int64_t> whole;
    for (const Turns& axis : loop_.axes) whole.push_back(axis.extent);
    const auto is_cut = [&](const LoopAccess* a) {
      std::vector<int64_t> inner;
      for (const Turns& t : a->inner) inner.push_back(t.extent);
      std::vector<int64_t> part = inner;
      Shrink(&part, room_inside_);
      return part != inner;
    };
    if (extents_ == whole && std::none_of(accesses.begin(), accesses.end(), is_cut)) {
      return std::nullopt;
    }
    for (const LoopAccess* w : accesses) {
      for (const LoopAccess* o : accesses) {
        if (!w->write || !MayMeet(*w, *o) || budget_.points < -kAllPoints) continue;
        int64_t steps = -1;  // for what comes before the first
        const auto far = FindFarMeeting(loop_, *w, *o, threads_, &steps);
        budget_.points += steps * kPointsOfStep;
        if (!far) continue;
        extents_ = whole;
        const std::string where = o->write ? o->text : absl::StrCat(w->text, " and ", o->text);
        return Meeting{Number(far->first), Number(far->second), w, o, where};
      }
    }
    return std::nullopt;
  }

  int64_t Number(const std::vector<int64_t>& at) const {
    __int128 number = 0;
    for (size_t a = 0; a < at.size(); ++a) {
      number = number * extents_[a] + (at[a] - loop_.axes[a].min);
    }
    return static_cast<int64_t>(std::min<__int128>(number, INT64_MAX));
  }

  // Whether every axis is told by an index that all accesses have in common.
  bool AreApart(const std::vector<const LoopAccess*>& accesses) const {
    std::vector<char> told(loop_.axes.size(), 0);
    const LoopAccess& first = *accesses[0];
    for (size_t d = 0; d < first.indices.size(); ++d) {
      const bool common = std::all_of(accesses.begin(), accesses.end(), [&](const LoopAccess* a) {
        return SameForm(a->indices[d], first.indices[d]);
      });
      if (common) Tell(first.indices[d], first.inner, &told);
    }
    for (size_t a = 0; a < told.size(); ++a) {
      if (!told[a] && loop_.axes[a].extent > 1) return false;
    }
    return true;
  }

  void Tell(const LinearForm& form, const std::vector<Turns>& inner,
            std::vector<char>* told) const {
    std::vector<std::pair<int64_t, int64_t>> terms;
    std::vector<size_t> axes;
    for (const auto& [atom, factor] : form.terms) {
      const auto is = [&](const Turns& t) { return t.var.same_as(atom); };
      const auto axis = std::find_if(loop_.axes.begin(), loop_.axes.end(), is);
      const auto turn = std::find_if(inner.begin(), inner.end(), is);
      if (axis != loop_.axes.end()) {
        axes.push_back(axis - loop_.axes.begin());
        terms.push_back({factor, axis->extent});
      } else if (turn != inner.end()) {
        terms.push_back({factor, turn->extent});
      } else if (!loop_.IsSame(atom)) {
        return;
      }
    }
    if (!TellsApart(std::move(terms))) return;
    for (const size_t a : axes) (*told)[a] = 1;
  }

  // The part of the loop that is looked at: two iterations that meet there meet.
  void Cut(const std::vector<const LoopAccess*>& accesses) {
    const int64_t most = budget_.points > 0 ? kMostPoints : kLeastPoints;
    extents_.clear();
    for (const Turns& axis : loop_.axes) extents_.push_back(axis.extent);
    int64_t inner = 1;
    for (const LoopAccess* a : accesses) {
      __int128 turns = 1;
      for (const Turns& t : a->inner) turns = std::min<__int128>(turns * t.extent, most);
      inner = std::max(inner, static_cast<int64_t>(turns));
    }
    const int64_t room = std::max<int64_t>(most / inner, 64);
    Shrink(&extents_, room);
    room_inside_ = std::max<int64_t>(most / Product(extents_), 1);
  }

  static int64_t Product(const std::vector<int64_t>& extents) {
    int64_t n = 1;
    for (const int64_t e : extents) n *= std::max<int64_t>(e, 0);
    return std::max<int64_t>(n, 1);
  }

  static void Shrink(std::vector<int64_t>* extents, int64_t room) {
    const auto count = [&] {
      __int128 n = 1;
      for (const int64_t e : *extents) n = std::min<__int128>(n * e, __int128{1} << 62);
      return n;
    };
    while (!extents->empty() && count() > room) {
      int64_t& largest = *std::max_element(extents->begin(), extents->end());
      if (largest < 2) return;
      largest = largest / 2 + largest % 2;
    }
  }

  std::optional<Places> PlacesOf(const LoopAccess& a) {
    if (!a.known) return std::nullopt;
    variables_.clear();
    mins_.clear();
    box_.clear();
    for (const Turns& t : a.inner) {  // slower, so that a point's iteration is a remainder
      variables_.push_back(t.var);
      mins_.push_back(t.min);
      box_.push_back(t.extent);
    }
    Shrink(&box_, room_inside_);
    for (size_t i = 0; i < loop_.axes.size(); ++i) {
      variables_.push_back(loop_.axes[i].var);
      mins_.push_back(loop_.axes[i].min);
      box_.push_back(extents_[i]);
    }
    if (std::any_of(box_.begin(), box_.end(), [](int64_t e) { return e < 1; })) {
      return std::nullopt;
    }
    Places places;
    places.made.assign(Product(box_), 1);
    for (const Expr& guard : a.guards) {
      const auto holds = Values(guard);
      if (!holds) return std::nullopt;
      for (size_t p = 0; p < holds->size(); ++p) places.made[p] &= (*holds)[p] != 0;
    }
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (!AddIndex(a, d, &places)) return std::nullopt;
    }
    if (threads_ && a.value.defined()) places.values = Values(a.value);
    return places;
  }

  std::optional<std::vector<int64_t>> Values(const Expr& e) {
    const absl::StatusOr<IntFunction> function = IntFunction::Of(e, variables_);
    if (!function.ok()) return std::nullopt;
    budget_.points -= Product(box_);
    return function->Over(mins_, box_);
  }

  bool AddIndex(const LoopAccess& a, size_t d, Places* places) {
    LinearForm varying, same;
    varying.constant = a.indices[d].constant;
    for (const auto& term : a.indices[d].terms) {
      (loop_.IsSame(term.first) ? same : varying).terms.push_back(term);
    }
    auto numbers = Values(FromLinear(varying, kInt64));
    if (!numbers) return false;
    // An element outside of a tensor is touched by nobody.
    const auto size = ConstInt(a.buffer->shape[d]);
    for (size_t p = 0; same.terms.empty() && size && p < numbers->size(); ++p) {
      places->made[p] &= (*numbers)[p] >= 0 && (*numbers)[p] < *size;
    }
    const auto [low, high] = std::minmax_element(numbers->begin(), numbers->end());
    places->ranges.emplace_back(*low, *high);
    places->numbers.push_back(*std::move(numbers));
    places->same.push_back(std::move(same));
    return true;
  }

  // Numbers for the places of both, equal where they are one; empty where they may not be compared.
  static bool Flatten(const Places& w, const Places& o, std::vector<int64_t>* w_cells,
                      std::vector<int64_t>* o_cells, int64_t* span) {
    w_cells->assign(w.made.size(), 0);
    o_cells->assign(o.made.size(), 0);
    *span = 1;
    for (size_t d = 0; d < w.numbers.size(); ++d) {
      if (!SameForm(w.same[d], o.same[d])) return false;
      const auto& [w_low, w_high] = w.ranges[d];
      const auto& [o_low, o_high] = o.ranges[d];
      const int64_t low = std::min(w_low, o_low), high = std::max(w_high, o_high);
      int64_t count = 0;
      if (__builtin_sub_overflow(high, low, &count) || count == INT64_MAX ||
          __builtin_mul_overflow(*span, count + 1, span)) {
        return false;
      }
      const auto add = [&](const std::vector<int64_t>& numbers, std::vector<int64_t>* cells) {
        for (size_t p = 0; p < cells->size(); ++p) {
          (*cells)[p] = (*cells)[p] * (count + 1) + (numbers[p] - low);
        }
      };
      add(w.numbers[d], w_cells);
      add(o.numbers[d], o_cells);
    }
    return true;
  }

  std::optional<Meeting> FindBetween(const LoopAccess& write, const Places& w,
                                     const LoopAccess& other, const Places& o) const {
    if (!MayMeet(write, other)) return std::nullopt;
    if (threads_ && other.write && (!w.values || !o.values)) return std::nullopt;
    for (size_t d = 0; d < w.ranges.size(); ++d) {  // here nothing lies in both
      if (SameForm(w.same[d], o.same[d]) &&
          (w.ranges[d].second < o.ranges[d].first || o.ranges[d].second < w.ranges[d].first)) {
        return std::nullopt;
      }
    }
    budget_.visits -= static_cast<int64_t>(w.made.size() + o.made.size());
    if (budget_.visits < 0) return std::nullopt;
    std::vector<int64_t> w_cells, o_cells;
    int64_t span = 0;
    if (!Flatten(w, o, &w_cells, &o_cells, &span)) return std::nullopt;
    const int64_t iterations = Product(extents_);
    std::vector<int64_t> dense(span <= kDense ? span : 0, -1);
    std::unordered_map<int64_t, int64_t> sparse;  // places to points
    const auto at = [&](int64_t cell) -> int64_t& {
      return dense.empty() ? sparse.try_emplace(cell, -1).first->second : dense[cell];
    };
    const bool itself = &write == &other;
    for (size_t p = 0; !itself && p < w_cells.size(); ++p) {
      if (w.made[p]) at(w_cells[p]) = static_cast<int64_t>(p);
    }
    for (size_t p = 0; p < o_cells.size(); ++p) {
      if (!o.made[p]) continue;
      int64_t& writer = at(o_cells[p]);
      const auto own = static_cast<int64_t>(p) % iterations;
      const bool harmless =
          threads_ && other.write && writer >= 0 && (*w.values)[writer] == (*o.values)[p];
      if (writer >= 0 && writer % iterations != own && !harmless) {
        return Meeting{writer % iterations, own, &write, &other, Where(write, other, o, p)};
      }
      if (itself) writer = static_cast<int64_t>(p);
    }
    return std::nullopt;
  }

  // "f(0, 3)" of a fragment, else as the kernel writes it.
  static std::string Where(const LoopAccess& write, const LoopAccess& other, const Places& o,
                           size_t p) {
    const bool known = std::all_of(o.same.begin(), o.same.end(),
                                   [](const LinearForm& form) { return form.terms.empty(); });
    if (write.buffer->scope == Scope::kFragment && known) {
      std::vector<int64_t> at;
      for (const std::vector<int64_t>& numbers : o.numbers) at.push_back(numbers[p]);
      return absl::StrCat(write.buffer->name, "(", absl::StrJoin(at, ", "), ")");
    }
    return other.write ? other.text : absl::StrCat(write.text, " and ", other.text);
  }

  const LoopAccesses& loop_;
  const bool threads_;
  Budget& budget_;
  std::vector<int64_t> extents_;  // of the part, by axis
  int64_t room_inside_ = 1;
  std::vector<Expr> variables_;
  std::vector<int64_t> mins_, box_;
};

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  absl::Status Visit(const Stmt& s) {
    switch (s.kind()) {
      case StmtKind::kSeq:
        for (const Stmt& child : s.As<Seq>()->stmts) KILN_RETURN_IF_ERROR(Visit(child));
        return absl::OkStatus();
      case StmtKind::kBind:
        binds_[s.As<Bind>()->var.get()] = Substitute(s.As<Bind>()->value, binds_);
        return absl::OkStatus();
      case StmtKind::kFor:
        return VisitLoop(*s.As<For>());
      case StmtKind::kIf:
        KILN_RETURN_IF_ERROR(Visit(s.As<If>()->then_case));
        return s.As<If>()->else_case.defined() ? Visit(s.As<If>()->else_case) : absl::OkStatus();
      case StmtKind::kWhile:
        return Visit(s.As<While>()->body);
      case StmtKind::kLaunch:
        for (const Axis& axis : s.As<Launch>()->grid) facts_.AddAxis(axis);
        return Visit(s.As<Launch>()->body);
      case StmtKind::kOnThreads:
        return Visit(s.As<OnThreads>()->body);
      default:
        return absl::OkStatus();
    }
  }

 private:
  absl::Status VisitLoop(const For& loop) {
    const bool threads = loop.loop == ForKind::kThreads && loop.annotations.count(kOfKernel) > 0;
    if (loop.loop == ForKind::kParallel || threads) {
      const LoopAccesses found = AccessesOf(loop, binds_, facts_);
      KILN_RETURN_IF_ERROR(Check(loop, found, threads));
    }
    const Facts known = facts_;
    for (const Axis& axis : loop.axes) facts_.AddAxis(axis);
    absl::Status status = Visit(loop.body);
    facts_ = known;
    return status;
  }

  absl::Status Check(const For& loop, const LoopAccesses& found, bool threads) {
    if (found.axes.size() != loop.axes.size()) return absl::OkStatus();  // of unknown starts
    std::vector<const BufferNode*> order;
    std::map<const BufferNode*, std::vector<const LoopAccess*>> by_buffer;
    for (const LoopAccess& a : found.accesses) {
      std::vector<const LoopAccess*>& list = by_buffer[a.buffer.get()];
      if (list.empty()) order.push_back(a.buffer.get());
      list.push_back(&a);
    }
    for (const BufferNode* buffer : order) {
      Meetings meetings(found, threads, &budget_);
      if (const auto m = meetings.Find(by_buffer[buffer])) {
        return Refuse(loop, *m, meetings.extents(), threads);
      }
    }
    return absl::OkStatus();
  }

  static std::string PlaceOf(const For& loop, const std::vector<int64_t>& extents, int64_t point,
                             bool threads) {
    std::vector<int64_t> at(extents.size());
    for (size_t d = extents.size(); d-- > 0;) {
      at[d] = point % extents[d] + ConstInt(loop.axes[d].min).value_or(0);
      point /= extents[d];
    }
    return threads ? absl::StrCat(at[0]) : absl::StrCat("(", absl::StrJoin(at, ", "), ")");
  }

  absl::Status Refuse(const For& loop, const Meeting& m, const std::vector<int64_t>& extents,
                      bool threads) const {
    std::vector<std::string> names;
    for (const Axis& axis : loop.axes) names.push_back(ToString(axis.var));
    const std::string loop_text =
        threads ? " of the block"
                : absl::StrCat(" of T.Parallel (", absl::StrJoin(names, ", "), ")");
    const bool reads = !m.other->write;
    const bool updates = m.one->atomic || m.other->atomic;
    const char* remedy =
        updates ? "store in a loop of its own, before or after this one, or by an atomic update too"
        : threads ? (reads ? "read it into a name of its own first: in the next statement all "
                             "threads have read it"
                           : "let one thread store, if tx == 0, or use T.atomic_add and its like")
        : reads   ? "copy what is read into a fragment before the loop, or make the loop serial"
        : m.one->buffer->scope == Scope::kFragment
            ? "accumulate into a T.alloc_reducer, make the loop serial, or give every iteration "
              "its own element"
            : "use T.atomic_add and its like, accumulate into a T.alloc_reducer, make the loop "
              "serial, or give every iteration its own element";
    return ErrorAt(
        program_, m.other->loc,
        absl::StrCat(threads ? "threads " : "iterations ", PlaceOf(loop, extents, m.first, threads),
                     " and ", PlaceOf(loop, extents, m.second, threads), loop_text,
                     reads     ? " store to and read one element"
                     : updates ? " store to and update one element"
                               : " store to one element",
                     reads && threads ? " in one statement, " : ", ", m.where),
        remedy);
  }

  const Program& program_;
  VarMap binds_;
  Facts facts_;
  Budget budget_;
};

}  // namespace

absl::Status CheckIterations(const Program& program) {
  return Checker(program).Visit(program.body);
}

}  // namespace kiln::ir
