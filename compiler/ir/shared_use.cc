#include "compiler/ir/shared_use.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int64_t kLeastAlign = 128;
constexpr int64_t kSwizzledAlign = 1024;
constexpr int kPlainAlign = 64;  // of buffers that nothing asks more of

using Set = std::vector<bool>;

bool Include(Set* to, const Set& more) {
  bool grown = false;
  for (size_t i = 0; i < more.size(); ++i) {
    if (!more[i] || (*to)[i]) continue;
    (*to)[i] = true;
    grown = true;
  }
  return grown;
}

void Exclude(Set* from, const Set& fewer) {
  for (size_t i = 0; i < fewer.size(); ++i) {
    if (fewer[i]) (*from)[i] = false;
  }
}

// What a block does, as far as shared memory is concerned.
struct Point {
  enum Kind { kLeaf, kSeq, kEither, kLoop, kBeside } kind = kLeaf;
  std::vector<Point> inner;
  // kLeaf; kBeside: touched by several of its parts.
  Set touches, allocates;
  Set loads;               // by tensor loads, and touched in no other way
  Set multiplies, stores;  // read until the next wait
  bool awaits_products = false, awaits_stores = false;
  Set before;  // touched until then, it included
};

bool IsShared(const Buffer& b) { return b->scope == Scope::kShared || b->scope == Scope::kBarrier; }

bool RunsBeside(const Stmt& s) {
  if (s.kind() != StmtKind::kOnThreads) return false;
  bool waits = false;
  Walk(s, [&](const Stmt& x) {
    const auto* instruct = x.As<Instruct>();
    waits |= instruct != nullptr && instruct->op == Instruction::kBarrierWait;
    return !waits;
  });
  return waits;
}

bool Loads(const Instruct& x) {
  return x.op == Instruction::kTensorLoad || x.op == Instruction::kPatchLoad;
}

class Finder {
 public:
  explicit Finder(const Launch& launch)
      : handed_over_(launch.annotations.count(kLoadsAwaited) > 0) {
    Walk(launch.body, [&](const Stmt& s) {
      const auto* alloc = s.As<Alloc>();
      if (alloc != nullptr && IsShared(alloc->buffer)) {
        numbers_[alloc->buffer.get()] = use_.buffers.size();
        use_.buffers.push_back(alloc->buffer);
      }
      return true;
    });
    jumps_ = HasJump(launch.body);
    const size_t count = use_.buffers.size();
    none_ = loaded_ = Set(count);
    use_.meets.assign(count, none_);
    Walk(launch.body, [&](const Stmt& s) {
      const auto* x = s.As<Instruct>();
      if (x != nullptr && Loads(*x)) Note(x->regions[0].buffer, &loaded_);
      return true;
    });
  }

  SharedUse Run(const Launch& launch) {
    Point all = Seq({PointOf(launch.body)});
    Point end = Leaf();
    end.awaits_products = end.awaits_stores = true;
    all.inner.push_back(end);
    State state{loaded_, none_, none_};
    Forward(&all, &state);
    Set after = none_;
    Backward(all, &after);
    for (size_t i = 0; i < use_.buffers.size(); ++i) {
      if (use_.buffers[i]->scope != Scope::kBarrier && use_.buffers[i]->blocks == 1) continue;
      for (size_t j = 0; j < use_.buffers.size(); ++j) Meet(i, j);
    }
    use_.together.assign(together_.begin(), together_.end());
    return std::move(use_);
  }

 private:
  struct State {
    Set before, products, stores;
    bool Include(const State& other) {
      const bool a = ir::Include(&before, other.before);
      const bool b = ir::Include(&products, other.products);
      const bool c = ir::Include(&stores, other.stores);
      return a || b || c;
    }
  };

  void Note(const Buffer& b, Set* to) const {
    const auto found = numbers_.find(b.get());
    if (found != numbers_.end()) (*to)[found->second] = true;
  }

  Point Leaf() const {
    Point p;
    p.touches = p.allocates = p.loads = p.multiplies = p.stores = p.before = none_;
    return p;
  }
  static Point Seq(std::vector<Point> inner, Point::Kind kind = Point::kSeq) {
    Point p;
    p.kind = kind;
    p.inner = std::move(inner);
    return p;
  }

  Point PointOf(const Stmt& s) const {
    if (!s.defined()) return Leaf();
    switch (s.kind()) {
      case StmtKind::kSeq:
        return RowOf(s.As<ir::Seq>()->stmts);
      case StmtKind::kIf: {
        const auto* x = s.As<If>();
        return Seq({LeafOf(x->condition),
                    Seq({PointOf(x->then_case), PointOf(x->else_case)}, Point::kEither)});
      }
      case StmtKind::kFor: {
        const auto* x = s.As<For>();
        if (x->loop == ForKind::kThreads || x->loop == ForKind::kParallel ||
            x->loop == ForKind::kVectorized) {
          return LeafOf(s);
        }
        const Point head = LeafOf(x->axes[0].min + x->axes[0].extent);
        return Seq({head, Seq({PointOf(x->body)}, Point::kLoop)});
      }
      case StmtKind::kWhile: {
        const auto* x = s.As<While>();
        return Seq({LeafOf(x->condition), PointOf(x->body)}, Point::kLoop);
      }
      case StmtKind::kOnThreads:
        return PointOf(s.As<OnThreads>()->body);
      default:
        return LeafOf(s);
    }
  }

  // Statements in a row; those from the first part that runs beside others to the last are one.
  Point RowOf(const std::vector<Stmt>& stmts) const {
    const auto first = std::find_if(stmts.begin(), stmts.end(), RunsBeside);
    const auto end = std::find_if(stmts.rbegin(), stmts.rend(), RunsBeside).base();
    Point row = Seq({});
    for (auto s = stmts.begin(); s != stmts.end(); ++s) {
      if (s != first) {
        row.inner.push_back(PointOf(*s));
        continue;
      }
      row.inner.push_back(BesideOf({first, end}));
      s = end - 1;
    }
    return row;
  }

  Point BesideOf(const std::vector<Stmt>& parts) const {
    Point beside = Seq({}, Point::kBeside);
    beside.touches = none_;
    for (const Stmt& s : parts) beside.inner.push_back(PointOf(s));
    if (handed_over_) HandOver(&beside);
    Set some = none_;
    for (const Point& part : beside.inner) {
      const Set own = TouchedIn(part);
      for (size_t i = 0; i < own.size(); ++i) {
        if (own[i] && some[i]) beside.touches[i] = true;
      }
      Include(&some, own);
    }
    return beside;
  }

  // A part that does nothing but load a tile which one other reads leaves it to that one.
  void HandOver(Point* beside) const {
    for (size_t i = 0; i < none_.size(); ++i) {
      if (!loaded_[i]) continue;
      int readers = 0;
      for (const Point& part : beside->inner) readers += Reads(part, i) ? 1 : 0;
      if (readers != 1) continue;
      for (Point& part : beside->inner) {
        if (!Reads(part, i)) Leave(&part, i);
      }
    }
  }
  // Touches it, and not by loads alone.
  static bool Reads(const Point& p, size_t i) {
    if (p.kind == Point::kLeaf) return p.touches[i] && !p.loads[i];
    return std::any_of(p.inner.begin(), p.inner.end(),
                       [&](const Point& inner) { return Reads(inner, i); });
  }
  static void Leave(Point* p, size_t i) {
    if (p->kind == Point::kLeaf) p->touches[i] = false;
    for (Point& inner : p->inner) Leave(&inner, i);
  }

  Set TouchedIn(const Point& p) const {
    Set all = p.kind == Point::kLeaf ? p.touches : none_;
    for (const Point& inner : p.inner) Include(&all, TouchedIn(inner));
    return all;
  }

  Point LeafOf(const Expr& e) const { return LeafOf(MakeStmt<Evaluate>(SourceLoc(), e)); }

  Point LeafOf(const Stmt& s) const {
    Point p = Leaf();
    const auto region = [&](const Region& r) {
      if (r.buffer != nullptr) Note(r.buffer, &p.touches);
    };
    Walk(
        s,
        [&](const Stmt& x) {
          if (const auto* alloc = x.As<Alloc>()) Note(alloc->buffer, &p.allocates);
          if (const auto* store = x.As<Store>()) Note(store->buffer, &p.touches);
          if (const auto* fill = x.As<Fill>()) region(fill->dst);
          if (const auto* copy = x.As<Copy>()) {
            region(copy->src);
            region(copy->dst);
          } else if (const auto* gemm = x.As<Gemm>()) {
            for (const Region& r : {gemm->a, gemm->b, gemm->c, gemm->e}) region(r);
          } else if (const auto* reduce = x.As<Reduce>()) {
            region(reduce->src);
            region(reduce->dst);
          } else if (const auto* atomic = x.As<Atomic>()) {
            region(atomic->dst);
            region(atomic->src);
            if (atomic->way.previous) Note(atomic->way.previous, &p.touches);
          } else if (const auto* scan = x.As<Scan>()) {
            region(scan->src);
            region(scan->dst);
          } else if (const auto* instruct = x.As<Instruct>()) {
            NoteInstruct(*instruct, &p);
          }
          return true;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<Load>()) Note(load->buffer, &p.touches);
          return true;
        });
    return p;
  }

  void NoteInstruct(const Instruct& x, Point* p) const {
    for (const Region& r : x.regions) Note(r.buffer, &p->touches);
    const auto waits = [&](Instruction op) {
      return x.op == op && ConstInt(x.args[0]).value_or(1) == 0 && !jumps_;
    };
    p->awaits_products |= waits(Instruction::kWgmmaWait);
    p->awaits_stores |= waits(Instruction::kStoreWait);
    if (Loads(x)) Note(x.regions[0].buffer, &p->loads);
    if (x.op == Instruction::kTensorStore) Note(x.regions[0].buffer, &p->stores);
    if (x.op != Instruction::kWgmma && x.op != Instruction::kTcgen05Mma) return;
    for (const Region& r : x.regions) Note(r.buffer, &p->multiplies);
  }

  void Forward(Point* p, State* state) {
    switch (p->kind) {
      case Point::kLeaf:
        return Pass(p, state);
      case Point::kSeq:
        for (Point& inner : p->inner) Forward(&inner, state);
        return;
      case Point::kLoop:
        while (true) {
          State end = *state;
          for (Point& inner : p->inner) Forward(&inner, &end);
          if (!state->Include(end)) return;
        }
      case Point::kEither:
      case Point::kBeside: {
        State start = *state;
        if (p->kind == Point::kBeside) Include(&start.before, p->touches);
        for (Point& inner : p->inner) {
          State end = start;
          Forward(&inner, &end);
          state->Include(end);
        }
      }
    }
  }

  void Pass(Point* p, State* state) const {
    if (p->awaits_products) {
      Include(&p->touches, state->products);
      state->products = none_;
    }
    if (p->awaits_stores) {
      Include(&p->touches, state->stores);
      state->stores = none_;
    }
    Include(&state->products, p->multiplies);
    Include(&state->stores, p->stores);
    Exclude(&state->before, p->allocates);
    Include(&state->before, loaded_);
    Include(&state->before, p->touches);
    Include(&p->before, state->before);
  }

  void Backward(const Point& p, Set* after) {
    switch (p.kind) {
      case Point::kLeaf: {
        Include(after, p.touches);
        Set live = *after;
        for (size_t i = 0; i < live.size(); ++i) live[i] = live[i] && p.before[i];
        MeetAll(live);
        Exclude(after, p.allocates);
        return;
      }
      case Point::kSeq:
        for (size_t i = p.inner.size(); i-- > 0;) Backward(p.inner[i], after);
        return;
      case Point::kLoop:
        while (true) {
          Set start = *after;
          for (size_t i = p.inner.size(); i-- > 0;) Backward(p.inner[i], &start);
          if (!Include(after, start)) return;
        }
      case Point::kEither:
      case Point::kBeside: {
        Set end = *after;
        if (p.kind == Point::kBeside) Include(&end, p.touches);
        for (const Point& inner : p.inner) {
          Set start = end;
          Backward(inner, &start);
          Include(after, start);
        }
        if (p.kind == Point::kBeside) MeetAcross(p);
      }
    }
  }

  // What different parts touch, they touch at the same time.
  void MeetAcross(const Point& beside) {
    std::vector<Set> parts;
    for (const Point& part : beside.inner) parts.push_back(TouchedIn(part));
    for (size_t a = 0; a < parts.size(); ++a) {
      for (size_t b = 0; b < parts.size(); ++b) {
        for (size_t i = 0; a != b && i < none_.size(); ++i) {
          for (size_t j = 0; parts[a][i] && j < none_.size(); ++j) {
            if (parts[b][j]) Meet(i, j);
          }
        }
      }
    }
  }

  void Meet(size_t i, size_t j) {
    if (i == j) return;
    use_.meets[i][j] = use_.meets[j][i] = true;
  }
  void MeetAll(const Set& live) {
    if (!together_.insert(live).second) return;
    for (size_t i = 0; i < live.size(); ++i) {
      for (size_t j = 0; live[i] && j < live.size(); ++j) {
        if (live[j]) Meet(i, j);
      }
    }
  }

  const bool handed_over_;
  bool jumps_ = false;  // past waits
  std::unordered_map<const BufferNode*, size_t> numbers_;
  Set none_, loaded_;
  std::set<Set> together_;
  SharedUse use_;
};

}  // namespace

SharedUse SharedUseOf(const Launch& launch) { return Finder(launch).Run(launch); }

int64_t SharedAlignment(const BufferNode& buffer) {
  const int64_t least = buffer.alignment > kPlainAlign ? kSwizzledAlign : kLeastAlign;
  return std::max<int64_t>(least, buffer.alignment);
}

}  // namespace kiln::ir
