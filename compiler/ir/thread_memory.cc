#include "compiler/ir/thread_memory.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/linear.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

bool IsMemory(const Buffer& b) {
  return b && (b->scope == Scope::kShared || b->scope == Scope::kGlobal);
}

bool Intersects(const BufferSet& a, const BufferSet& b) {
  return std::any_of(a.begin(), a.end(), [&](const BufferNode* x) { return b.count(x) > 0; });
}

// One index of one access.
struct Place {
  LinearForm thread;  // terms in the thread's indices alone
  LinearTerms fixed;  // in what is the same all through the launch
  LinearTerms rest;   // in everything else that is the same for all threads
  int64_t constant = 0;
};

struct Accesses {
  std::vector<std::vector<Expr>> indices;
  bool lost = false;  // touched in ways that say nothing of threads
};

class OwnElementsFinder {
 public:
  OwnElementsFinder(const std::vector<Expr>& indices, const std::vector<int64_t>& threads,
                    const ThreadValues& values)
      : indices_(indices), threads_(threads), values_(values) {}

  BufferSet Find(const Stmt& body) {
    Collect(body);
    BufferSet own;
    for (const auto& [buffer, accesses] : accesses_) {
      if (!accesses.lost && IsOwn(accesses)) own.insert(buffer);
    }
    return own;
  }

 private:
  void Note(const Buffer& b, const std::vector<Expr>& indices) {
    if (!IsMemory(b)) return;
    std::vector<Expr> expanded;
    for (const Expr& index : indices) expanded.push_back(Substitute(index, binds_));
    accesses_[b.get()].indices.push_back(std::move(expanded));
  }

  void Lose(const Buffer& b) {
    if (IsMemory(b)) accesses_[b.get()].lost = true;
  }

  void Collect(const Stmt& body) {
    Walk(
        body,
        [&](const Stmt& s) {
          if (const auto* loop = s.As<For>()) {
            for (const Axis& axis : loop->axes) {
              bound_.insert(axis.var.get());
              const auto min = ConstInt(axis.min), extent = ConstInt(axis.extent);
              if (min && extent && *extent > 0) ranges_[axis.var.get()] = {*min, *extent - 1};
            }
            if (loop->loop == ForKind::kParallel) {
              for (const Buffer& b : BuffersRead(s)) Lose(b);
              for (const Buffer& b : BuffersWritten(s)) Lose(b);
              return false;
            }
          }
          if (const auto* bind = s.As<Bind>()) {
            bound_.insert(bind->var.get());
            if (IsArithmetic(bind->value)) {
              binds_[bind->var.get()] = Substitute(bind->value, binds_);
            }
          }
          if (const auto* store = s.As<Store>()) Note(store->buffer, store->indices);
          const auto* atomic = s.As<Atomic>();
          if (atomic != nullptr && atomic->value.defined()) {
            std::vector<Expr> at;
            for (const Range& r : atomic->dst.ranges) at.push_back(r.min);
            Note(atomic->dst.buffer, at);
          } else {
            for (const Region* r : RegionsOf(s)) Lose(r->buffer);
          }
          return true;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<Load>()) Note(load->buffer, load->indices);
          return true;
        });
  }

  static bool IsArithmetic(const Expr& e) {
    bool plain = true;
    Walk(e, [&](const Expr& x) {
      plain &= x.kind() != ExprKind::kLoad;
      return plain;
    });
    return plain;
  }

  bool IsFixed(const Expr& e) const {
    bool fixed = true;
    Walk(e, [&](const Expr& x) {
      fixed &= x.kind() != ExprKind::kLoad && bound_.count(x.get()) == 0;
      return fixed;
    });
    return fixed;
  }

  // nullopt: some part of it differs between threads otherwise than by their indices.
  std::optional<Place> PlaceOf(const Expr& index) const {
    if (!index.dtype().is_int() || !index.dtype().is_scalar()) return std::nullopt;
    Place place;
    const LinearForm form = Linearize(index);
    place.constant = form.constant;
    for (const auto& [atom, factor] : form.terms) {
      if (!values_.Differs(atom)) {
        (IsFixed(atom) ? place.fixed : place.rest).push_back({atom, factor});
      } else if (IntFunction::Of(atom, indices_).ok()) {
        place.thread.terms.push_back({atom, factor});
      } else {
        return std::nullopt;
      }
    }
    return place;
  }

  static bool SameTerms(const LinearTerms& a, const LinearTerms& b) {
    return a.size() == b.size() && std::all_of(b.begin(), b.end(), [&](const auto& term) {
             return std::any_of(a.begin(), a.end(), [&](const auto& other) {
               return other.second == term.second && Same(other.first, term.first);
             });
           });
  }

  // What dimension d says of who touches an element: a number for each thread, different where the
  // elements are; empty: nothing.
  std::vector<int64_t> Owners(const Accesses& accesses, size_t d) const {
    std::vector<Place> places;
    for (const std::vector<Expr>& indices : accesses.indices) {
      if (d >= indices.size()) return {};
      const std::optional<Place> place = PlaceOf(indices[d]);
      if (!place) return {};
      places.push_back(*place);
    }
    bool fixed = true;  // the fixed terms are the same everywhere
    for (const Place& place : places) {
      if (!SameTerms(place.thread.terms, places[0].thread.terms)) return {};
      fixed &= SameTerms(place.fixed, places[0].fixed);
    }
    // The rest moves all threads alike, by multiples of this.
    int64_t step = 0;
    for (const Place& place : places) {
      for (const auto& term : place.rest) step = std::gcd(step, term.second);
      if (fixed) continue;
      for (const auto& term : place.fixed) step = std::gcd(step, term.second);
    }
    for (const Place& place : places) {
      const int64_t apart = place.constant - places[0].constant;
      if (step == 0 ? apart != 0 : apart % step != 0) return {};
    }
    if (places[0].thread.terms.empty()) return {};
    std::vector<int64_t> numbers = NumbersOf(places[0].thread);
    if (step == 0) return numbers;
    for (int64_t& n : numbers) n = ((n % step) + step) % step;
    return numbers;
  }

  // The same where each thread has neighbours of its own, S[8 * tx + k] for k from 0 to 7: which
  // run of neighbours an index is in, of as many as all terms in the thread's indices are multiples
  // of.
  std::vector<int64_t> OwnersOfRuns(const Accesses& accesses, size_t d) const {
    std::optional<Place> first;
    int64_t run = 0, step = 0, number = 0;  // elements, runs, the first access's run
    std::vector<int64_t> aparts;            // runs from the first access to each
    for (const std::vector<Expr>& indices : accesses.indices) {
      const auto place = d < indices.size() ? PlaceOf(indices[d]) : std::nullopt;
      if (!place || (first && !SameTerms(place->thread.terms, first->thread.terms)) ||
          (first && !SameTerms(place->fixed, first->fixed))) {
        return {};
      }
      for (const auto& term : place->thread.terms) run = std::gcd(run, term.second);
      for (const auto& term : place->fixed) {
        if (run < 2 || term.second % run != 0) return {};
      }
      if (run < 2) return {};
      int64_t low = place->constant, high = low;
      for (const auto& [atom, factor] : place->rest) {
        if (factor % run == 0) {
          step = std::gcd(step, factor / run);
          continue;
        }
        const auto range = ranges_.find(atom.get());
        if (range == ranges_.end()) return {};
        const int64_t one = factor * range->second.first;
        const int64_t other = one + factor * range->second.second;
        low += std::min(one, other);
        high += std::max(one, other);
      }
      const int64_t own = FloorDivide(low, run);
      if (own != FloorDivide(high, run)) return {};
      if (!first) {
        first = place;
        number = own;
      }
      aparts.push_back(own - number);
    }
    for (const int64_t apart : aparts) {
      if (step == 0 ? apart != 0 : apart % step != 0) return {};
    }
    std::vector<int64_t> numbers = NumbersOf(first->thread);
    for (int64_t& n : numbers) n = step == 0 ? n / run : ((n / run) % step + step) % step;
    return numbers;
  }

  // A linear form in the thread's indices, for each thread; empty where that is not known.
  std::vector<int64_t> NumbersOf(const LinearForm& thread) const {
    const auto function = IntFunction::Of(FromLinear(thread, kInt64), indices_);
    if (!function.ok()) return {};
    const std::vector<int64_t> zeros(threads_.size(), 0);
    return function->Over(zeros, threads_).value_or(std::vector<int64_t>());
  }

  bool IsOwn(const Accesses& accesses) const {
    size_t count = 1;
    for (const int64_t extent : threads_) count *= static_cast<size_t>(extent);
    std::vector<std::vector<int64_t>> owners(count);
    for (size_t d = 0; d < accesses.indices[0].size(); ++d) {
      for (const std::vector<int64_t>& numbers : {Owners(accesses, d), OwnersOfRuns(accesses, d)}) {
        for (size_t t = 0; t < numbers.size(); ++t) owners[t].push_back(numbers[t]);
      }
    }
    return std::set<std::vector<int64_t>>(owners.begin(), owners.end()).size() == count;
  }

  const std::vector<Expr>& indices_;
  const std::vector<int64_t>& threads_;
  const ThreadValues& values_;
  VarMap binds_;                               // arithmetic alone
  std::unordered_set<const ExprNode*> bound_;  // in the body
  // Of loop variables: the first value, and how far the last one is from it.
  std::unordered_map<const ExprNode*, std::pair<int64_t, int64_t>> ranges_;
  std::unordered_map<const BufferNode*, Accesses> accesses_;
};

}  // namespace

BufferSet OwnElements(const Stmt& body, const std::vector<Expr>& indices,
                      const std::vector<int64_t>& threads, const ThreadValues& values) {
  return OwnElementsFinder(indices, threads, values).Find(body);
}

void MemoryUse::Add(const MemoryUse& other) {
  reads.insert(other.reads.begin(), other.reads.end());
  writes.insert(other.writes.begin(), other.writes.end());
  updates.insert(other.updates.begin(), other.updates.end());
}

bool MemoryUse::Meets(const MemoryUse& other) const {
  const auto changes = [](const MemoryUse& a, const MemoryUse& b) {
    return Intersects(a.writes, b.reads) || Intersects(a.writes, b.writes) ||
           Intersects(a.writes, b.updates) || Intersects(a.updates, b.reads);
  };
  return changes(*this, other) || changes(other, *this);
}

MemoryUse MemoryUseOf(const Stmt& s, const BufferSet& except) {
  MemoryUse use;
  const auto note = [&](const Buffer& b, BufferSet* set) {
    if (IsMemory(b) && except.count(b.get()) == 0) set->insert(b.get());
  };
  Walk(
      s,
      [&](const Stmt& x) {
        if (const auto* store = x.As<Store>()) note(store->buffer, &use.writes);
        const std::vector<const Region*> regions = RegionsOf(x);
        const bool update = x.As<Atomic>() != nullptr;
        for (size_t i = 0; i < regions.size(); ++i) {
          note(regions[i]->buffer, i > 0 ? &use.reads : update ? &use.updates : &use.writes);
        }
        return true;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<Load>()) note(load->buffer, &use.reads);
        return true;
      });
  return use;
}

}  // namespace kiln::ir
