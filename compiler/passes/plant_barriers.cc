#include "compiler/passes/plant_barriers.h"

#include <set>
#include <unordered_map>

#include "absl/algorithm/container.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/tile_schedule.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

// Memory that threads share, as identities of buffers.
using Buffers = std::set<const ir::BufferNode*>;

// What has been touched since the last barrier.
struct Pending {
  Buffers reads, writes;
  Buffers starts;    // of asynchronous copies: they write before they are waited for
  Buffers unfenced;  // written by threads since the last proxy fence, which barriers do not replace
  Buffers taken;     // tiles of tensor loads, read by threads since the last proxy fence
  void Add(const Pending& other) {
    unfenced.insert(other.unfenced.begin(), other.unfenced.end());
    taken.insert(other.taken.begin(), other.taken.end());
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
    starts.insert(other.starts.begin(), other.starts.end());
  }
  bool operator==(const Pending&) const = default;
};

bool IsShared(const ir::Buffer& b) {
  return b->scope == ir::Scope::kShared || b->scope == ir::Scope::kGlobal;
}

class Planter {
 public:
  explicit Planter(const ir::Launch& launch) {
    ir::Walk(launch.body, [&](const Stmt& s) {
      const auto* x = s.As<ir::Instruct>();
      if (const auto* alloc = s.As<ir::Alloc>()) NotePlace(*alloc);
      if (x != nullptr &&
          (x->op == ir::Instruction::kTensorLoad || x->op == ir::Instruction::kPatchLoad) &&
          x->annotations.count(ir::kMulticast) == 0) {  // before and after it the block meets
        loaded_.insert(x->regions[0].buffer.get());
      }
      if (x != nullptr &&
          (x->op == ir::Instruction::kWgmma || x->op == ir::Instruction::kTcgen05Mma)) {
        for (const ir::Region& r : x->regions) multiplied_.insert(r.buffer.get());
      }
      return true;
    });
  }

  // The statement with its barriers, in a scope of its own.
  Stmt Visit(const Stmt& s) {
    std::vector<Stmt> stmts;
    const auto* seq = s.As<ir::Seq>();
    if (seq == nullptr) {
      Visit(s, &stmts);
    } else {
      for (const Stmt& child : seq->stmts) Visit(child, &stmts);
    }
    return stmts.size() == 1 ? stmts[0] : ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts));
  }

 private:
  // Appends the statement and what comes before it.
  void Visit(const Stmt& s, std::vector<Stmt>* out) {
    switch (s.kind()) {
      case ir::StmtKind::kSeq:
        return out->push_back(Visit(s));
      case ir::StmtKind::kFor:
        if (s.As<ir::For>()->loop == ir::ForKind::kThreads) return Phase(s, out);
        return Recall(s, out);
      case ir::StmtKind::kWhile:
      case ir::StmtKind::kIf:
        return Recall(s, out);
      case ir::StmtKind::kOnThreads:
        return Part(s, out);
      case ir::StmtKind::kInstruct:
        return Instruct(s, out);
      case ir::StmtKind::kBreak:
      case ir::StmtKind::kContinue:
        jumps_.Add(pending_);
        return out->push_back(s);
      default:
        return Phase(s, out);
    }
  }

  // What a loop or branch became, and left behind, from what was pending before it.
  struct Visited {
    Pending before;
    bool inside = false;
    std::vector<Stmt> out;
    Pending after, jumps;
  };

  // A loop or branch is looked at several times, each time with all that it holds: what it became
  // the last time from the same start is kept, or the time would double with every level.
  void Recall(const Stmt& s, std::vector<Stmt>* out) {
    const auto& known = visited_[s.get()];
    const auto same = absl::c_find_if(
        known, [&](const Visited& v) { return v.inside == inside_ && v.before == pending_; });
    const Visited visited = same != known.end() ? *same : LookAt(s);
    out->insert(out->end(), visited.out.begin(), visited.out.end());
    pending_ = visited.after;
    jumps_.Add(visited.jumps);
  }

  Visited LookAt(const Stmt& s) {
    Visited visited = {pending_, inside_, {}, {}, {}};
    const Pending outer_jumps = std::exchange(jumps_, {});
    s.kind() == ir::StmtKind::kIf ? Branch(s, &visited.out) : Loop(s, &visited.out);
    visited.after = pending_;
    visited.jumps = std::exchange(jumps_, outer_jumps);
    visited_[s.get()].push_back(visited);
    return visited;
  }

  // What a thread has waited for it has written, as far as the others are concerned.
  void Instruct(const Stmt& s, std::vector<Stmt>* out) {
    const auto* x = s.As<ir::Instruct>();
    if (x->op == ir::Instruction::kTcgen05Mma) {
      // All threads wait for it before they go on, so nothing of it is left pending.
      Meet(TouchedBy(s), /*asynchronous=*/true, s->loc, out);
      return out->push_back(s);
    }
    if (x->op == ir::Instruction::kBarrierArrive && !pending_.taken.empty()) {
      // Whoever waits for it may load over what this thread's reads have not brought yet.
      Fence(s->loc, out);
    }
    if (x->op == ir::Instruction::kClusterBarrier || x->op == ir::Instruction::kClusterArrive) {
      out->push_back(s);
      return Met(s->loc, out);
    }
    if (x->op != ir::Instruction::kAsyncWait) return Phase(s, out);
    out->push_back(s);
    bool multiplied = false;
    for (const ir::Region& r : x->regions) {
      pending_.writes.insert(r.buffer.get());
      multiplied |= multiplied_.count(r.buffer.get()) > 0;
    }
    if (multiplied)
      out->push_back(ir::MakeStmt<ir::Instruct>(s->loc, ir::Instruction::kProxyFence));
  }

  // A statement that each thread runs at its own pace.
  void Phase(const Stmt& s, std::vector<Stmt>* out) {
    const Pending own = TouchedBy(s);
    Meet(own, ReadsAsynchronously(s), s->loc, out);
    pending_.Add(own);
    out->push_back(s);
  }

  // A tile of shared memory and those that lie where it does, in part or in whole.
  struct Placed {
    const ir::BufferNode* buffer;
    int64_t begin, end;
  };
  void NotePlace(const ir::Alloc& alloc) {
    if (alloc.place == ir::Alloc::kOwnPlace) return;
    const int64_t end = alloc.place + ir::BytesOf(alloc.buffer).value_or(0);
    const ir::BufferNode* buffer = alloc.buffer.get();
    for (const Placed& other : placed_) {
      if (other.begin >= end || alloc.place >= other.end) continue;
      beside_[buffer].push_back(other.buffer);
      beside_[other.buffer].push_back(buffer);
    }
    placed_.push_back({buffer, alloc.place, end});
  }

  // Whether some memory is in both.
  bool Share(const Buffers& a, const Buffers& b) const {
    const auto in_b = [&](const ir::BufferNode* x) { return b.count(x) > 0; };
    for (const ir::BufferNode* x : a) {
      const auto beside = beside_.find(x);
      if (in_b(x) || (beside != beside_.end() && absl::c_any_of(beside->second, in_b))) return true;
    }
    return false;
  }

  // A barrier where what comes next, which touches `own`, may not go on beside what is pending; a
  // fence before it where tensor cores or copies (`asynchronous`) read what threads wrote.
  void Meet(const Pending& own, bool asynchronous, SourceLoc loc, std::vector<Stmt>* out) {
    // A copy that starts goes to another version of the tile than is read beside it, but not before
    // all have read what was there.
    const bool meets = Share(own.writes, pending_.writes) || Share(own.writes, pending_.reads) ||
                       Share(own.reads, pending_.writes) || Share(own.starts, pending_.reads) ||
                       Share(own.starts, pending_.writes);
    // A product in tensor memory that another one follows at once: the meeting serves both.
    const bool both = meets && own.writes.count(tensor_memory_) > 0;
    const bool fences = asynchronous && (Share(own.reads, pending_.unfenced) ||
                                         (both && Share(multiplied_, pending_.unfenced)));
    if (fences) Fence(loc, out);
    if (fences || meets) Plant(loc, out);
  }

  void Fence(SourceLoc loc, std::vector<Stmt>* out) {
    out->push_back(ir::MakeStmt<ir::Instruct>(loc, ir::Instruction::kProxyFence));
    pending_.unfenced.clear();
    pending_.taken.clear();
  }

  static bool ReadsAsynchronously(const Stmt& s) {
    return Holds(s, ir::Instruction::kWgmma) || Holds(s, ir::Instruction::kTcgen05Mma) ||
           Holds(s, ir::Instruction::kTensorStore);
  }
  // By mbarriers: such parts run beside each other.
  static bool WaitsForOthers(const Stmt& s) { return Holds(s, ir::Instruction::kBarrierWait); }

  void Plant(SourceLoc loc, std::vector<Stmt>* out) {
    out->push_back(ir::MakeStmt<ir::Instruct>(loc, ir::Instruction::kBlockBarrier));
    Met(loc, out);
  }

  // All threads of the block have.
  void Met(SourceLoc loc, std::vector<Stmt>* out) {
    if (pending_.reads.count(tensor_memory_) > 0) {  // a product may follow what was moved
      out->push_back(ir::MakeStmt<ir::Instruct>(loc, ir::Instruction::kTcgen05Fence,
                                                std::vector<ir::Region>{},
                                                std::vector<ir::Expr>{ir::MakeInt(1)}));
    }
    pending_ = {{}, {}, {}, pending_.unfenced, pending_.taken};
  }

  Pending TouchedBy(const Stmt& s) const {
    Pending touched;
    ir::Walk(
        s,
        [&](const Stmt& inner) {
          if (const auto* store = inner.As<ir::Store>()) Note(store->buffer, &touched.writes);
          if (const auto* atomic = inner.As<ir::Atomic>()) {
            Note(atomic->dst.buffer, &touched.writes);
            if (atomic->way.previous) Note(atomic->way.previous, &touched.writes);
          }
          if (const auto* x = inner.As<ir::Instruct>()) {
            // A tensor that a store writes is no other thread's until the launch ends.
            if (x->op == ir::Instruction::kAsyncCopy) Note(x->regions[0].buffer, &touched.starts);
            if (TouchesTensorMemory(*x, &touched)) return true;
            if (x->op == ir::Instruction::kStoreMatrices) {
              Note(x->regions[0].buffer, &touched.writes);
              return true;
            }
            for (const ir::Region& r : x->regions) {
              if (x->op == ir::Instruction::kAsyncCopy) break;
              if (r.buffer->scope == ir::Scope::kShared) Note(r.buffer, &touched.reads);
              if (ByThreads(x->op)) Take(r.buffer, &touched.taken);
            }
          }
          return true;
        },
        [&](const ir::Expr& e) {
          if (const auto* load = e.As<ir::Load>()) {
            Note(load->buffer, &touched.reads);
            Take(load->buffer, &touched.taken);
          }
          return true;
        });
    touched.unfenced = touched.writes;
    return touched;
  }

  // Loads and stores are of a warp's own lanes, products of all; who takes columns tells the
  // others.
  bool TouchesTensorMemory(const ir::Instruct& x, Pending* touched) const {
    switch (x.op) {
      case ir::Instruction::kTcgen05Alloc:
        Note(x.regions[0].buffer, &touched->writes);
        touched->reads.insert(tensor_memory_);
        return true;
      case ir::Instruction::kTcgen05Load:
      case ir::Instruction::kTcgen05Store:
        touched->reads.insert(tensor_memory_);
        return true;
      case ir::Instruction::kTcgen05Free:
        touched->writes.insert(tensor_memory_);
        return true;
      case ir::Instruction::kTcgen05Mma:
        touched->writes.insert(tensor_memory_);
        return false;
      default:
        return false;
    }
  }

  void Note(const ir::Buffer& b, Buffers* to) const {
    const bool ordered = loaded_.count(b.get()) > 0 && beside_.count(b.get()) == 0;
    if (IsShared(b) && !ordered) to->insert(b.get());
  }

  // Tiles that tensor loads fill again once they are given back.
  void Take(const ir::Buffer& b, Buffers* to) const {
    if (b->scope == ir::Scope::kShared && loaded_.count(b.get()) > 0) to->insert(b.get());
  }
  // Operands come through the threads' own loads, not by what runs beside them.
  static bool ByThreads(ir::Instruction op) {
    return op == ir::Instruction::kMma || op == ir::Instruction::kSparseMma;
  }

  // `visit` plants barriers in a loop or branch. Those that are only for what happened before are
  // planted before it, once; not where `head`, its condition or bounds, has to come before them.
  template <typename F>
  Stmt AwaitBefore(const ir::Expr& head, F visit, std::vector<Stmt>* out) {
    const Pending before = pending_;
    const Stmt inside = visit();
    if (before == Pending() || CountBarriers(inside) == 0) return inside;
    const Pending own = TouchedBy(ir::MakeStmt<ir::Evaluate>(inside->loc, head));
    if (!own.reads.empty()) return inside;
    const Pending after = std::exchange(pending_, {});
    const Stmt alone = visit();
    const Pending of_alone = std::exchange(pending_, after);
    if (CountBarriers(alone) >= CountBarriers(inside)) return inside;
    pending_ = before;
    Meet(TouchedBy(alone), ReadsAsynchronously(alone), alone->loc, out);
    pending_.Add(of_alone);
    return alone;
  }

  void Loop(const Stmt& s, std::vector<Stmt>* out) {
    const auto* loop = s.As<ir::For>();
    const auto* repeat = s.As<ir::While>();
    const ir::Expr head =
        loop != nullptr ? loop->axes[0].min + loop->axes[0].extent : repeat->condition;
    Await(head, s->loc, out);
    const Stmt body = AwaitBefore(
        head, [&] { return Turn(s); }, out);
    out->push_back(loop != nullptr ? ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, body,
                                                           loop->num_stages, loop->annotations)
                                   : ir::MakeStmt<ir::While>(s->loc, repeat->condition, body));
  }

  // A loop's body also follows itself: what is pending at its end, or at a jump, is pending at its
  // start. What may be pending only grows from look to look, so that this ends.
  Stmt Turn(const Stmt& s) {
    const auto* loop = s.As<ir::For>();
    const auto* repeat = s.As<ir::While>();
    const bool apart = loop != nullptr && loop->annotations.count(kTilesApart) > 0;
    const Pending outer_jumps = jumps_;
    Pending start = pending_;
    Stmt body;
    while (true) {
      pending_ = start;
      jumps_ = {};
      body = Visit(loop != nullptr ? loop->body : repeat->body);
      if (repeat != nullptr) {
        std::vector<Stmt> ending = {body};
        Await(repeat->condition, s->loc, &ending);
        body = ir::MakeSeq(std::move(ending), s->loc);
      }
      pending_.Add(jumps_);
      Pending next = start;
      next.Add(apart ? OfShared(pending_) : pending_);
      if (next == start) break;
      start = std::move(next);
    }
    pending_.Add(start);
    jumps_ = outer_jumps;
    return body;
  }

  static Pending OfShared(const Pending& p) {
    const auto shared = [](const Buffers& all) {
      Buffers some;
      for (const ir::BufferNode* b : all) {
        if (b->scope == ir::Scope::kShared) some.insert(b);
      }
      return some;
    };
    return {shared(p.reads), shared(p.writes), p.starts, p.unfenced, p.taken};
  }

  static int CountBarriers(const Stmt& s) {
    int count = 0;
    ir::Walk(s, [&](const Stmt& inner) {
      const auto* x = inner.As<ir::Instruct>();
      count += x != nullptr && x->op == ir::Instruction::kBlockBarrier ? 1 : 0;
      return true;
    });
    return count;
  }

  void Branch(const Stmt& s, std::vector<Stmt>* out) {
    const auto* branch = s.As<ir::If>();
    Await(branch->condition, s->loc, out);
    out->push_back(AwaitBefore(
        branch->condition, [&] { return Either(s); }, out));
  }

  // With what either branch leaves behind.
  Stmt Either(const Stmt& s) {
    const auto* branch = s.As<ir::If>();
    const Pending before = pending_;
    const Stmt yes = Visit(branch->then_case);
    const Pending after = std::exchange(pending_, before);
    const Stmt no = branch->else_case.defined() ? Visit(branch->else_case) : Stmt();
    pending_.Add(after);
    return ir::MakeStmt<ir::If>(s->loc, branch->condition, yes, no);
  }

  // A condition that all threads evaluate before they go on.
  void Await(const ir::Expr& condition, SourceLoc loc, std::vector<Stmt>* out) {
    const Pending own = TouchedBy(ir::MakeStmt<ir::Evaluate>(loc, condition));
    if (Share(own.reads, pending_.writes)) Plant(loc, out);
    pending_.Add(own);
  }

  // What others have done is awaited before the part, by all, but for parts that run beside each
  // other; barriers in the part are the part's own, and its end is nobody's.
  void Part(const Stmt& s, std::vector<Stmt>* out) {
    const auto* part = s.As<ir::OnThreads>();
    Pending own = TouchedBy(part->body);
    if (inside_ || !WaitsForOthers(part->body)) {
      Meet(own, ReadsAsynchronously(part->body), s->loc, out);
    }
    const Pending before = std::exchange(pending_, {});
    const bool around = std::exchange(inside_, true);
    const Stmt body = Visit(part->body);
    inside_ = around;
    // Products are waited for by barriers of their own; the first warp, which gives columns back,
    // may have met the others of its part already.
    own.writes.erase(tensor_memory_);
    if (part->first == 0 && pending_.reads.count(tensor_memory_) == 0) {
      own.reads.erase(tensor_memory_);
    }
    pending_ = before;
    pending_.Add(own);
    out->push_back(ir::MakeStmt<ir::OnThreads>(s->loc, part->first, part->count, body));
  }

  // All of tensor memory, as if it were a buffer that threads share.
  const ir::Buffer whole_ =
      ir::MakeBuffer("tensor_memory", kInt32, {ir::MakeInt(1)}, ir::Scope::kShared);
  const ir::BufferNode* const tensor_memory_ = whole_.get();
  bool inside_ = false;  // of a part
  Pending pending_;
  Pending jumps_;  // at breaks and continues of the loop around
  std::unordered_map<const ir::StmtNode*, std::vector<Visited>> visited_;
  std::vector<Placed> placed_;
  std::unordered_map<const ir::BufferNode*, std::vector<const ir::BufferNode*>> beside_;
  Buffers loaded_;      // by tensor loads, under mbarriers
  Buffers multiplied_;  // read by tensor cores, asynchronously
};

}  // namespace

absl::StatusOr<ir::Program> PlantBarriers(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads,
                                    Planter(*launch).Visit(launch->body), launch->annotations);
  });
  return out;
}

}  // namespace kiln::passes
