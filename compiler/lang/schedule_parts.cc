#include "compiler/lang/schedule_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/follow_barriers.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::Stmt;
using Stmts = std::vector<Stmt>;

constexpr size_t kBlock = SIZE_MAX;  // a statement of the whole block: parts, in order

// A statement of a part, on its way into the new order.
struct Piece {
  size_t part = 0;
  Stmt stmt;
  std::vector<Expr> guards;  // conditions that it stands under, outermost first
  ir::VarMap vars;           // loop variables: what they are in the loops around it now
};

// One end of a need: what remains of its turns.
struct End {
  const ir::StmtNode* stmt;
  const std::vector<int64_t>* turns;
  size_t depth;  // of them, those of loops that are loops of the new order
  int64_t turn() const { return (*turns)[depth]; }
};
struct Edge {
  End arrival, wait;
  size_t from = 0, to = 0;  // pieces
};

bool IsLoop(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  return loop != nullptr && HoldsBarrier(s) && !ir::Leaves(loop->body) &&
         (loop->loop == ir::ForKind::kSerial || loop->loop == ir::ForKind::kUnroll ||
          loop->loop == ir::ForKind::kPipelined);
}

Expr Not(const Expr& e) { return ir::MakeUnary(ir::UnaryOp::kNot, e); }

// Statements whose order nothing but their part gives may be taken apart.
bool Splits(const Stmt& s) {
  if (!HoldsBarrier(s)) return false;
  if (s.kind() == ir::StmtKind::kSeq) return true;
  const auto* branch = s.As<ir::If>();
  return branch != nullptr && !ReadsMemory(branch->condition);
}

void SplitInto(const Piece& piece, const Stmt& s, std::vector<Piece>* out) {
  const auto add = [&](const Stmt& x, std::vector<Expr> guards) {
    out->push_back({piece.part, x, std::move(guards), piece.vars});
  };
  const auto* seq = s.As<ir::Seq>();
  if (seq == nullptr || !HoldsBarrier(s)) return add(s, piece.guards);  // names may be bound in it
  for (const Stmt& x : seq->stmts) SplitInto(piece, x, out);
}

std::vector<Piece> Split(const Piece& piece) {
  std::vector<Piece> out;
  const auto* branch = piece.stmt.As<ir::If>();
  if (branch == nullptr) {
    SplitInto(piece, piece.stmt, &out);
    return out;
  }
  Piece yes = piece, no = piece;
  yes.guards.push_back(branch->condition);
  SplitInto(yes, branch->then_case, &out);
  if (branch->else_case.defined()) {
    no.guards.push_back(Not(branch->condition));
    SplitInto(no, branch->else_case, &out);
  }
  return out;
}

// Whether two pieces of a part stand in the two halves of an if: none of them waits for the other.
bool Exclude(const Piece& a, const Piece& b) {
  const size_t depth = std::min(a.guards.size(), b.guards.size());
  for (size_t d = 0; d < depth; ++d) {
    if (!ir::Same(a.guards[d], b.guards[d])) return ir::Same(b.guards[d], Not(a.guards[d]));
  }
  return false;
}

// Strongly connected components of pieces, in an order that keeps the edges; of those that may come
// next, the one whose first piece comes first. By Tarjan, then Kahn.
class Components {
 public:
  explicit Components(std::vector<std::vector<size_t>> next)
      : next_(std::move(next)), state_(next_.size()) {
    for (size_t i = 0; i < next_.size(); ++i) {
      if (state_[i].index == 0) Visit(i);
    }
  }

  std::vector<std::vector<size_t>> InOrder() {
    std::vector<size_t> of(next_.size()), before(found_.size(), 0);
    for (size_t c = 0; c < found_.size(); ++c) {
      std::sort(found_[c].begin(), found_[c].end());
      for (const size_t i : found_[c]) of[i] = c;
    }
    const auto each = [&](size_t c, const auto& f) {
      for (const size_t i : found_[c]) {
        for (const size_t k : next_[i]) {
          if (of[k] != c) f(of[k]);
        }
      }
    };
    for (size_t c = 0; c < found_.size(); ++c) {
      each(c, [&](size_t to) { ++before[to]; });
    }
    std::vector<std::vector<size_t>> order;
    std::vector<bool> done(found_.size(), false);
    while (order.size() < found_.size()) {
      size_t best = SIZE_MAX;
      for (size_t c = 0; c < found_.size(); ++c) {
        if (done[c] || before[c] > 0) continue;
        if (best == SIZE_MAX || found_[c][0] < found_[best][0]) best = c;
      }
      done[best] = true;
      each(best, [&](size_t to) { --before[to]; });
      order.push_back(found_[best]);
    }
    return order;
  }

 private:
  struct State {
    size_t index = 0, low = 0;
    bool open = false;
  };

  void Visit(size_t i) {
    state_[i] = {++count_, count_, true};
    stack_.push_back(i);
    for (const size_t k : next_[i]) {
      if (state_[k].index == 0) {
        Visit(k);
        state_[i].low = std::min(state_[i].low, state_[k].low);
      } else if (state_[k].open) {
        state_[i].low = std::min(state_[i].low, state_[k].index);
      }
    }
    if (state_[i].low != state_[i].index) return;
    found_.emplace_back();
    for (size_t k = SIZE_MAX; k != i;) {
      k = stack_.back();
      stack_.pop_back();
      state_[k].open = false;
      found_.back().push_back(k);
    }
  }

  const std::vector<std::vector<size_t>> next_;
  std::vector<State> state_;
  size_t count_ = 0;
  std::vector<size_t> stack_;
  std::vector<std::vector<size_t>> found_;
};

class Scheduler {
 public:
  Scheduler(const ir::Program& program, const Stmts& parts) : program_(program), parts_(parts) {}

  absl::StatusOr<Stmts> Run(const std::vector<PartNeed>& needs) {
    std::vector<Piece> pieces;
    for (size_t p = 0; p < parts_.size(); ++p) {
      SplitInto({p, {}, {}, {}}, parts_[p].As<ir::OnThreads>()->body, &pieces);
    }
    std::vector<Edge> edges;
    for (const PartNeed& need : needs) {
      edges.push_back({{need.arrival.stmt.get(), &need.arrival.turns, 0},
                       {need.wait.stmt.get(), &need.wait.turns, 0}});
    }
    KILN_ASSIGN_OR_RETURN(pieces, InOrder(std::move(pieces), std::move(edges)));
    return Emit(pieces);
  }

 private:
  using Pieces = std::vector<Piece>;
  using Edges = std::vector<Edge>;

  absl::StatusOr<Pieces> InOrder(Pieces pieces, Edges edges);
  absl::StatusOr<Pieces> Joined(const Pieces& pieces, Edges edges);
  absl::StatusOr<Pieces> OneLoop(const Pieces& pieces, const Edges& edges);
  absl::StatusOr<std::vector<int64_t>> Delays(const Pieces& pieces, const Edges& edges) const;
  absl::Status NoOrder(const Edges& edges, const std::string& why) const;
  Stmts Emit(const Pieces& pieces) const;
  Stmts Guarded(const Pieces& pieces, size_t begin, size_t end, size_t depth) const;

  const ir::Program& program_;
  const Stmts& parts_;
};

// Which pieces the edges are between; those within a part go without saying.
void Attach(const std::vector<Piece>& pieces, std::vector<Edge>* edges) {
  std::unordered_map<const ir::StmtNode*, size_t> owner;
  for (size_t i = 0; i < pieces.size(); ++i) {
    ir::Walk(pieces[i].stmt, [&](const Stmt& s) {
      if (IsOfBarrier(s)) owner[s.get()] = i;
      return true;
    });
  }
  for (Edge& edge : *edges) {
    edge.from = owner.at(edge.arrival.stmt);
    edge.to = owner.at(edge.wait.stmt);
  }
}

// `pieces` are those of one part after the other, each in the part's order.
absl::StatusOr<std::vector<Piece>> Scheduler::InOrder(Pieces pieces, Edges edges) {
  Attach(pieces, &edges);
  std::vector<std::vector<size_t>> next(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (size_t k = i + 1; k < pieces.size() && pieces[k].part == pieces[i].part; ++k) {
      if (!Exclude(pieces[i], pieces[k])) next[i].push_back(k);
      if (pieces[k].guards.empty()) break;  // what follows it comes after it
    }
  }
  for (const Edge& edge : edges) next[edge.from].push_back(edge.to);
  for (std::vector<size_t>& to : next) {
    std::sort(to.begin(), to.end());
    to.erase(std::unique(to.begin(), to.end()), to.end());
  }
  Pieces out;
  for (const std::vector<size_t>& component : Components(next).InOrder()) {
    if (component.size() == 1) {
      out.push_back(pieces[component[0]]);
      continue;
    }
    Pieces some;
    for (const size_t i : component) some.push_back(pieces[i]);
    const auto in = [&](size_t i) {
      return std::binary_search(component.begin(), component.end(), i);
    };
    Edges inside;
    for (const Edge& edge : edges) {
      if (in(edge.from) && in(edge.to)) inside.push_back(edge);
    }
    KILN_ASSIGN_OR_RETURN(const Pieces joined, Joined(some, std::move(inside)));
    out.insert(out.end(), joined.begin(), joined.end());
  }
  return out;
}

// Pieces that need each other in both directions.
absl::StatusOr<std::vector<Piece>> Scheduler::Joined(const Pieces& pieces, Edges edges) {
  Pieces smaller;
  bool splits = false;
  for (const Piece& piece : pieces) {
    if (!Splits(piece.stmt)) {
      smaller.push_back(piece);
      continue;
    }
    splits = true;
    for (Piece& x : Split(piece)) smaller.push_back(std::move(x));
  }
  if (splits) return InOrder(std::move(smaller), std::move(edges));
  Attach(pieces, &edges);
  bool loops = false;
  for (const Piece& piece : pieces) {
    const auto* loop = piece.stmt.As<ir::For>();
    if (HoldsBarrier(piece.stmt) && (piece.stmt.kind() == ir::StmtKind::kWhile ||
                                     (loop != nullptr && ir::Leaves(loop->body)))) {
      return NoOrder(edges, "one of them stands in a loop that is not counted");
    }
    loops = loops || IsLoop(piece.stmt);
  }
  if (loops) return OneLoop(pieces, edges);
  return NoOrder(edges, "they stand under conditions that are loaded");
}

// For every piece the turn of the common loop in which it begins.
absl::StatusOr<std::vector<int64_t>> Scheduler::Delays(const Pieces& pieces,
                                                       const Edges& edges) const {
  std::vector<int64_t> delay(pieces.size(), 0);
  const auto turn = [&](const End& end, size_t piece) {
    return IsLoop(pieces[piece].stmt) ? end.turn() : 0;
  };
  for (size_t round = 0; round <= pieces.size(); ++round) {
    bool moves = false;
    const auto raise = [&](size_t i, int64_t at_least) {
      moves = moves || delay[i] < at_least;
      delay[i] = std::max(delay[i], at_least);
    };
    for (const Edge& edge : edges) {
      raise(edge.to, delay[edge.from] + turn(edge.arrival, edge.from) - turn(edge.wait, edge.to));
    }
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (pieces[i].part != pieces[i + 1].part) continue;
      int64_t turns = 1;
      if (IsLoop(pieces[i].stmt)) {
        const Expr extent = pieces[i].stmt.As<ir::For>()->axes[0].extent;
        const std::optional<int64_t> known = ir::ConstInt(extent);
        if (!known) {
          return NoOrder(edges,
                         "a part has another statement that belongs to them after a loop "
                         "whose steps are not known at compile time");
        }
        turns = std::max<int64_t>(*known, 1);
      }
      raise(i + 1, delay[i] + turns - 1);
    }
    if (!moves) return delay;
  }
  return NoOrder(edges,
                 "their loops go at different paces: a part waits for what another does any "
                 "number of its own steps later");
}

Expr AsType(const Expr& e, DType type) { return ir::MakeCast(type, e); }

absl::StatusOr<std::vector<Piece>> Scheduler::OneLoop(const Pieces& pieces, const Edges& edges) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> delay, Delays(pieces, edges));
  const ir::For* model = nullptr;
  ir::ForKind kind = ir::ForKind::kUnroll;
  for (const Piece& piece : pieces) {
    const ir::For* loop = IsLoop(piece.stmt) ? piece.stmt.As<ir::For>() : nullptr;
    if (loop == nullptr) continue;
    if (model == nullptr) model = loop;
    if (loop->loop != ir::ForKind::kUnroll) kind = ir::ForKind::kSerial;
  }
  const ir::Axis& axis = model->axes[0];
  const DType type = axis.var.dtype();
  const Expr turn = ir::MakeVar(axis.var.As<ir::Var>()->name, type);
  // The turns of each piece, and of all.
  std::vector<Expr> ends;
  Expr end;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Expr extent = ir::MakeInt(1, type);
    if (IsLoop(pieces[i].stmt)) {
      extent = AsType(ir::Substitute(pieces[i].stmt.As<ir::For>()->axes[0].extent, pieces[i].vars),
                      type);
    }
    ends.push_back(extent + ir::MakeInt(delay[i], type));
    if (!end.defined()) end = ends[i];
    if (!ir::Same(end, ends[i])) end = ir::Max(end, ends[i]);
  }
  Pieces inner;
  Edges same;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Piece piece = pieces[i];
    const Expr begin = ir::MakeInt(delay[i], type);
    const bool loop = IsLoop(piece.stmt);
    if (!loop) {
      piece.guards.push_back(ir::Equal(turn, begin));
      inner.push_back(std::move(piece));
      continue;
    }
    if (delay[i] > 0) piece.guards.push_back(turn >= begin);
    if (!ir::Same(ends[i], end)) piece.guards.push_back(turn < ends[i]);
    const auto* stmt = pieces[i].stmt.As<ir::For>();
    const ir::Axis& own = stmt->axes[0];
    const Expr first = ir::Substitute(own.min, piece.vars);
    piece.vars[own.var.get()] = AsType(AsType(first, type) + (turn - begin), own.var.dtype());
    SplitInto(piece, stmt->body, &inner);
  }
  for (Edge edge : edges) {
    const auto advance = [&](End* e, size_t i) {
      return delay[i] + (IsLoop(pieces[i].stmt) ? (*e->turns)[e->depth++] : 0);
    };
    const int64_t from = advance(&edge.arrival, edge.from), to = advance(&edge.wait, edge.to);
    if (from == to) same.push_back(edge);
  }
  KILN_ASSIGN_OR_RETURN(inner, InOrder(std::move(inner), std::move(same)));
  return Pieces{{kBlock,
                 ir::MakeStmt<ir::For>(model->loc, kind,
                                       std::vector<ir::Axis>{{turn, ir::MakeInt(0, type), end}},
                                       ir::MakeSeq(Emit(inner), model->loc)),
                 {},
                 {}}};
}

absl::Status Scheduler::NoOrder(const Edges& edges, const std::string& why) const {
  const Edge& edge = edges.front();
  const auto* equal = static_cast<const ir::Assert*>(edge.wait.stmt)->condition.As<ir::Binary>();
  return ir::ErrorAt(
      program_, edge.wait.stmt->loc,
      absl::StrCat("parts that wait for each other here cannot be put into one order: this wait "
                   "for '",
                   equal->a.As<ir::Load>()->buffer->name, "' needs the arrival in line ",
                   edge.arrival.stmt->loc.line, "; ", why),
      "give the parts loops with steps that belong together, one step of each to one of the "
      "others; or leave barriers out, since T.Pipelined and T.ws order memory themselves",
      absl::StatusCode::kUnimplemented);
}

// Pieces [begin, end) of one part, under their guards from `depth` on.
Stmts Scheduler::Guarded(const Pieces& pieces, size_t begin, size_t end, size_t depth) const {
  Stmts out;
  for (size_t i = begin; i < end;) {
    const Piece& piece = pieces[i];
    if (piece.guards.size() <= depth) {
      out.push_back(ir::Substitute(piece.stmt, piece.vars));
      ++i;
      continue;
    }
    const auto guard = [&](const Piece& p) { return ir::Substitute(p.guards[depth], p.vars); };
    const Expr condition = guard(piece);
    size_t last = i + 1;
    while (last < end && pieces[last].guards.size() > depth &&
           ir::Same(guard(pieces[last]), condition)) {
      ++last;
    }
    const Stmt body = ir::MakeSeq(Guarded(pieces, i, last, depth + 1), piece.stmt->loc);
    out.push_back(ir::MakeStmt<ir::If>(piece.stmt->loc, condition, body));
    i = last;
  }
  return out;
}

Stmts Scheduler::Emit(const Pieces& pieces) const {
  Stmts out;
  for (size_t i = 0; i < pieces.size();) {
    if (pieces[i].part == kBlock) {
      out.push_back(pieces[i++].stmt);
      continue;
    }
    size_t last = i;
    while (last < pieces.size() && pieces[last].part == pieces[i].part) ++last;
    const auto* part = parts_[pieces[i].part].As<ir::OnThreads>();
    out.push_back(
        ir::MakeStmt<ir::OnThreads>(part->loc, part->first, part->count,
                                    ir::MakeSeq(Guarded(pieces, i, last, 0), pieces[i].stmt->loc)));
    i = last;
  }
  return out;
}

}  // namespace

absl::StatusOr<Stmts> ScheduleParts(const ir::Program& program, const Stmts& parts,
                                    const std::vector<PartNeed>& needs) {
  return Scheduler(program, parts).Run(needs);
}

}  // namespace kiln::lang
