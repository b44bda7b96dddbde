#include "compiler/ir/threads.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/pipelined.h"
#include "compiler/ir/thread_memory.h"
#include "compiler/ir/thread_parts.h"
#include "compiler/ir/thread_regions.h"
#include "compiler/ir/thread_values.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int64_t kWarp = 32;

bool IsBarrier(const Stmt& s) {
  const auto* x = s.As<Instruct>();
  return x != nullptr && x->op == Instruction::kBlockBarrier;
}

// Of the blocks of a cluster, which stays.
bool IsOfCluster(const Stmt& s) {
  return IsBarrier(s) && s.As<Instruct>()->annotations.count("cluster") > 0;
}

bool IsBarrierOfSome(const Stmt& s) {
  return IsBarrier(s) && s.As<Instruct>()->annotations.count("some") > 0;
}

// For a barrier of the kernel's own.
bool IsWait(const Stmt& s) {
  const auto* check = s.As<Assert>();
  const auto* equal = check == nullptr ? nullptr : check->condition.As<Binary>();
  const auto* load = equal == nullptr ? nullptr : equal->a.As<Load>();
  return load != nullptr && load->buffer->scope == Scope::kBarrier;
}

bool IsTile(const Stmt& s) {
  const auto* atomic = s.As<Atomic>();
  if (atomic != nullptr) return !atomic->value.defined();
  const auto* loop = s.As<For>();
  if (loop != nullptr) return loop->loop == ForKind::kParallel;
  return s.kind() == StmtKind::kCopy || s.kind() == StmtKind::kGemm ||
         s.kind() == StmtKind::kFill || s.kind() == StmtKind::kReduce ||
         s.kind() == StmtKind::kScan;
}

// `holds` of a statement in it, but for those of parallel loops.
template <typename F>
Stmt Find(const Stmt& s, const F& holds) {
  Stmt found;
  Walk(s, [&](const Stmt& x) {
    if (!found.defined() && holds(x)) found = x;
    const auto* loop = x.As<For>();
    return !found.defined() && (loop == nullptr || loop->loop != ForKind::kParallel);
  });
  return found;
}

bool Overlap(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const Buffer& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

// The body of one launch.
class BlockOfThreads {
 public:
  BlockOfThreads(const Launch& launch, const std::vector<Expr>& indices,
                 std::vector<int64_t> extents, const SourceFile& source)
      : source_(source),
        indices_(indices),
        extents_(std::move(extents)),
        values_(launch.body, indices),
        regions_(indices, extents_, source) {
    extents_.resize(indices.size(), 1);
    private_ = OwnElements(launch.body, indices_, extents_, values_);
  }

  absl::StatusOr<Stmt> Body(const Stmt& body) {
    const Stmt split = InScope(body);
    KILN_RETURN_IF_ERROR(status_);
    return split;
  }

 private:
  enum class Kind {
    kBlock,   // the block does it: nothing in it differs between threads
    kThread,  // each thread does it by itself
    kMixed,   // parts of it are of either kind
  };

  void Fail(SourceLoc loc, std::string message, std::string remedy) {
    if (status_.ok()) status_ = ErrorAt(source_, loc, std::move(message), std::move(remedy));
  }

  // ---- what is whose ----

  // A tile operation on what a thread has of its own.
  bool IsOwnTile(const Stmt& s) const {
    if (s.As<Gemm>() != nullptr || s.As<Reduce>() != nullptr || s.As<Scan>() != nullptr) {
      return false;
    }
    if (const auto* loop = s.As<For>()) {
      const std::vector<Buffer> written = BuffersWritten(loop->body);
      const std::vector<Buffer> read = BuffersRead(loop->body);
      const auto own = [&](const Buffer& b) { return values_.IsOwn(b); };
      return std::any_of(written.begin(), written.end(), own) ||
             std::any_of(read.begin(), read.end(), own);
    }
    const std::vector<const Region*> all = RegionsOf(s);
    return std::any_of(all.begin(), all.end(),
                       [&](const Region* r) { return values_.IsOwn(r->buffer); });
  }

  // What no thread can do by itself, whatever the control flow around it.
  bool IsOfAll(const Stmt& s) const {
    if (IsExchange(s) || IsBarrier(s) || s.kind() == StmtKind::kOnThreads) return true;
    if (const auto* alloc = s.As<Alloc>()) {
      const Scope scope = alloc->buffer->scope;
      return scope == Scope::kShared || scope == Scope::kFragment || scope == Scope::kTensor;
    }
    return IsTile(s) && !IsOwnTile(s);
  }

  bool HoldsOfAll(const Stmt& s) const {
    return Find(s, [&](const Stmt& x) { return IsOfAll(x); }).defined();
  }

  // A single store, where all threads come by.
  bool IsOfBlock(const Store& store, const BufferSet& inside) const {
    if (values_.IsOwn(store.buffer)) return false;
    bool differs = values_.Differs(store.value) || values_.Differs(store.predicate);
    for (const Expr& index : store.indices) differs |= values_.Differs(index);
    const bool local = store.buffer->scope == Scope::kLocal || store.buffer->scope == Scope::kVar;
    return local ? inside.count(store.buffer.get()) == 0 : !differs && !active_;
  }

  // Whether a statement that concerns threads has to be taken apart. `inside`: what was allocated
  // in it so far; `loops`: of it, around `s`.
  bool MustSplit(const Stmt& s, BufferSet* inside, int loops) const {
    if (IsOfAll(s)) return true;
    if (values_.Diverges(s)) return HoldsOfAll(s) || (s.As<If>() != nullptr && IsPart(*s.As<If>()));
    switch (s.kind()) {
      case StmtKind::kSeq:
        return MustSplitSeq(*s.As<Seq>(), inside, loops);
      case StmtKind::kFor:
        if (s.As<For>()->loop == ForKind::kParallel) return false;  // of a thread: IsOfAll
        return MustSplitLoop(s.As<For>()->body, inside, loops);
      case StmtKind::kWhile:
        return MustSplitLoop(s.As<While>()->body, inside, loops);
      case StmtKind::kIf: {
        const auto* branch = s.As<If>();
        return MustSplit(branch->then_case, inside, loops) ||
               (branch->else_case.defined() && MustSplit(branch->else_case, inside, loops));
      }
      case StmtKind::kAlloc:
        inside->insert(s.As<Alloc>()->buffer.get());
        return false;
      case StmtKind::kStore:
        return IsOfBlock(*s.As<Store>(), *inside);
      case StmtKind::kPrint:
        return !active_ && !values_.Concerns(s);
      case StmtKind::kAssert:
        return IsWait(s) && !active_ && !values_.Concerns(s);
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return loops == 0;
      default:
        return false;
    }
  }

  // What warps that follow each other do beside the others, waiting for them.
  bool IsPart(const If& branch) const {
    const bool waits = Find(branch.then_case, IsWait).defined() ||
                       (branch.else_case.defined() && Find(branch.else_case, IsWait).defined());
    return waits && !active_ && SpansOf(branch).has_value();
  }

  bool MustSplitSeq(const Seq& seq, BufferSet* inside, int loops) const {
    MemoryUse before;
    for (const Stmt& child : seq.stmts) {
      const MemoryUse use = MemoryUseOf(child, private_);
      if (use.Meets(before) || MustSplit(child, inside, loops)) return true;
      before.Add(use);
    }
    return false;
  }

  // A turn may touch what the turn before has stored.
  bool MustSplitLoop(const Stmt& body, BufferSet* inside, int loops) const {
    MemoryUse use = MemoryUseOf(body, private_);
    MemoryUse stores = {{}, use.writes, use.updates};
    use.writes.clear();
    return use.Meets(stores) || MustSplit(body, inside, loops + 1);
  }

  // Each thread makes an update of its own, even where all make the same.
  static bool HasUpdate(const Stmt& s) {
    return Find(s, [](const Stmt& x) { return x.As<Atomic>() != nullptr && !IsTile(x); }).defined();
  }

  Kind KindOf(const Stmt& s) const {
    if (IsBarrier(s) || IsExchange(s)) return Kind::kMixed;
    if (!values_.Concerns(s) && !HasUpdate(s)) {
      if (Find(s, IsBarrier).defined()) return Kind::kMixed;
      const auto* bind = s.As<Bind>();
      const bool free = s.As<Alloc>() != nullptr || (bind != nullptr && !ReadsMemory(bind->value));
      if (!active_ || free || HoldsOfAll(s)) return Kind::kBlock;
    }
    BufferSet inside;
    return MustSplit(s, &inside, 0) ? Kind::kMixed : Kind::kThread;
  }

  // ---- taking apart ----

  // What threads do by themselves, since the last statement of the block.
  struct Open {
    std::vector<Stmt> stmts;
    MemoryUse use;
  };

  Stmt InScope(const Stmt& s) { return MakeStmt<Seq>(s->loc, Split(RowOf(s))); }

  std::vector<Stmt> Split(const std::vector<Stmt>& stmts) {
    std::vector<Stmt> out;
    Open open;
    for (size_t i = 0; i < stmts.size() && status_.ok(); ++i) {
      const Stmt& s = stmts[i];
      const auto* alloc = s.As<Alloc>();
      if (alloc != nullptr && values_.IsOwn(alloc->buffer)) {
        Allocate(*alloc, &open, &out);
        continue;
      }
      switch (KindOf(s)) {
        case Kind::kBlock:
          if (!MovesUp(s, open)) Close(stmts, i, &open, &out);
          out.push_back(s);
          break;
        case Kind::kThread: {
          const MemoryUse use = MemoryUseOf(s, private_);
          if (use.Meets(open.use)) Close(stmts, i, &open, &out);
          open.stmts.push_back(s);
          open.use.Add(use);
          break;
        }
        case Kind::kMixed:
          Close(stmts, i, &open, &out);
          Mixed(s, &out);
          break;
      }
    }
    Close(stmts, stmts.size(), &open, &out);
    return out;
  }

  // Declarations of the block come before what threads do where nothing keeps them from it.
  static bool MovesUp(const Stmt& s, const Open& open) {
    if (s.As<Alloc>() != nullptr && !s.As<Alloc>()->init.defined()) return true;
    if (s.As<Bind>() == nullptr && s.As<Alloc>() == nullptr) return false;
    const std::vector<Buffer> reads = BuffersRead(s);
    return std::none_of(open.stmts.begin(), open.stmts.end(),
                        [&](const Stmt& before) { return Overlap(reads, BuffersWritten(before)); });
  }

  void Allocate(const Alloc& alloc, Open* open, std::vector<Stmt>* out) {
    const Buffer registers = regions_.Hold(alloc.buffer);
    out->push_back(MakeStmt<Alloc>(alloc.loc, registers));
    const std::vector<Expr> first(alloc.buffer->shape.size(), MakeInt(0));
    if (active_ && alloc.buffer->scope == Scope::kVar) {
      // An exchange asks those as well for which the condition does not hold.
      const Stmt zero =
          MakeStmt<Store>(alloc.loc, alloc.buffer, first, MakeConst(0, alloc.buffer->dtype));
      Append(regions_.Loop(alloc.loc, {zero}, nullptr), out);
    }
    if (!alloc.init.defined()) return;
    open->stmts.push_back(MakeStmt<Store>(alloc.loc, alloc.buffer, first, alloc.init));
    open->use.Add(MemoryUseOf(open->stmts.back(), private_));
  }

  void Append(absl::StatusOr<Stmt> s, std::vector<Stmt>* out) {
    if (s.ok()) return out->push_back(*std::move(s));
    if (status_.ok()) status_ = s.status();
  }

  // The bindings among what threads do that statements from `next` on need, or what is computed
  // again for those.
  std::unordered_set<const ExprNode*> NeededLater(const Open& open, const std::vector<Stmt>& stmts,
                                                  size_t next) const {
    std::unordered_set<const ExprNode*> used;
    const auto use = [&](const Expr& e) {
      used.insert(e.get());
      return true;
    };
    for (size_t i = next; i < stmts.size(); ++i) {
      Walk(
          stmts[i], [](const Stmt&) { return true; }, use);
    }
    for (auto s = open.stmts.rbegin(); s != open.stmts.rend(); ++s) {
      const auto* bind = s->As<Bind>();
      const bool again =
          bind != nullptr && used.count(bind->var.get()) > 0 && !ReadsMemory(bind->value);
      if (again) Walk(bind->value, use);
    }
    return used;
  }

  // Ends what threads do by themselves before statement `next`.
  void Close(const std::vector<Stmt>& stmts, size_t next, Open* open, std::vector<Stmt>* out) {
    if (open->stmts.empty()) return;
    const std::unordered_set<const ExprNode*> needed = NeededLater(*open, stmts, next);
    std::vector<std::pair<Expr, Buffer>> kept;
    std::vector<Stmt> body;
    bool acts = false;
    for (const Stmt& s : open->stmts) {
      body.push_back(s);
      const auto* bind = s.As<Bind>();
      acts |= bind == nullptr;
      if (bind == nullptr || needed.count(bind->var.get()) == 0) continue;
      if (!ReadsMemory(bind->value)) {
        regions_.Recompute(bind->var, bind->value);
        continue;
      }
      const Buffer kept_in = regions_.NewRegister(bind->var.As<Var>()->name, bind->var.dtype());
      out->push_back(MakeStmt<Alloc>(s->loc, kept_in));
      body.push_back(regions_.SetOwnElement(s->loc, kept_in, bind->var));
      kept.push_back({bind->var, kept_in});
      acts = true;
    }
    if (acts) Append(regions_.Loop(open->stmts[0]->loc, std::move(body), active_), out);
    for (const auto& [var, registers] : kept) regions_.ReadFrom(var, registers);
    *open = {};
  }

  void Mixed(const Stmt& s, std::vector<Stmt>* out) {
    if (IsExchange(s)) return Exchange(*s.As<Instruct>(), out);
    if (IsBarrier(s)) {
      if ((active_ || of_some_) && !IsBarrierOfSome(s)) RefuseBarrier(s);
      if (IsOfCluster(s)) out->push_back(s);
      return;
    }
    if (values_.Diverges(s) && s.As<If>() == nullptr) return RefuseLoop(s);
    switch (s.kind()) {
      case StmtKind::kSeq:
        return out->push_back(InScope(s));
      case StmtKind::kIf:
        return SplitIf(*s.As<If>(), out);
      case StmtKind::kFor: {
        const auto* loop = s.As<For>();
        if (IsTile(s)) return RefuseTile(s);
        // Lanes that exchange values are turns, and there is nothing to fetch ahead for threads.
        const bool keeps = loop->loop == ForKind::kPipelined ? Find(s, IsTile).defined()
                                                             : loop->loop == ForKind::kUnroll;
        const Stmt body = InScope(loop->body);
        return out->push_back(
            MakeStmt<For>(s->loc, keeps ? loop->loop : ForKind::kSerial, loop->axes, body,
                          keeps ? loop->num_stages : Expr(),
                          keeps ? loop->annotations : std::map<std::string, std::string>{}));
      }
      case StmtKind::kWhile:
        return out->push_back(
            MakeStmt<While>(s->loc, s.As<While>()->condition, InScope(s.As<While>()->body)));
      case StmtKind::kOnThreads: {
        const auto* part = s.As<OnThreads>();
        return OnSpan({part->first, part->count}, part->body, s->loc, out);
      }
      default:
        return RefuseTile(s);
    }
  }

  void OnSpan(ThreadSpan span, const Stmt& body, SourceLoc loc, std::vector<Stmt>* out) {
    const ThreadSpan around = regions_.span();
    regions_.SetSpan(span);
    out->push_back(MakeStmt<OnThreads>(loc, span.first, span.count, InScope(body)));
    regions_.SetSpan(around);
  }

  void Exchange(const Instruct& x, std::vector<Stmt>* out) {
    std::vector<Region> regions;
    for (const Region& r : x.regions) {
      regions.push_back(WholeBuffer(regions_.RegistersOf(r.buffer)));
    }
    out->push_back(MakeStmt<Instruct>(x.loc, x.op, std::move(regions)));
  }

  void SplitIf(const If& branch, std::vector<Stmt>* out) {
    if (!values_.Differs(branch.condition)) {
      const Stmt chosen = InScope(branch.then_case);
      const Stmt other = branch.else_case.defined() ? InScope(branch.else_case) : Stmt();
      return out->push_back(MakeStmt<If>(branch.loc, branch.condition, chosen, other));
    }
    const bool part = IsPart(branch);
    const auto of_block = [&](const Stmt& x) {
      return (x.kind() != StmtKind::kInstruct && IsOfAll(x)) || (part && IsWait(x));
    };
    const Stmt chosen = Find(branch.then_case, of_block);
    const Stmt other = branch.else_case.defined() ? Find(branch.else_case, of_block) : Stmt();
    if (chosen.defined() || other.defined()) {
      return SplitWarps(branch, chosen.defined() ? chosen : other, out);
    }
    const Buffer around = active_;
    const Expr outer = around ? MakeBinary(BinaryOp::kNe, regions_.OwnElement(around), MakeInt(0))
                              : MakeBool(true);
    Under(outer && branch.condition, branch.then_case, out);
    if (branch.else_case.defined()) {
      Under(outer && MakeUnary(UnaryOp::kNot, branch.condition), branch.else_case, out);
    }
  }

  // What threads do for which the condition holds.
  void Under(const Expr& condition, const Stmt& body, std::vector<Stmt>* out) {
    const SourceLoc loc = body->loc;
    const Buffer holds = regions_.NewRegister("holds", kInt32);
    out->push_back(MakeStmt<Alloc>(loc, holds));
    Append(regions_.Loop(loc, {regions_.SetOwnElement(loc, holds, MakeCast(kInt32, condition))},
                         nullptr),
           out);
    const Buffer around = active_;
    active_ = holds;
    out->push_back(InScope(body));
    active_ = around;
  }

  // The threads for which a condition holds, and for which it does not, in turn; nullopt where
  // those that do something are not whole warps that follow each other.
  std::optional<std::vector<std::pair<ThreadSpan, bool>>> SpansOf(const If& branch) const {
    const ThreadSpan all = regions_.span();
    const std::vector<int64_t> zeros(indices_.size(), 0);
    std::vector<int64_t> extents(extents_.rbegin(), extents_.rend());
    const std::vector<Expr> slow_first(indices_.rbegin(), indices_.rend());
    const auto function = IntFunction::Of(branch.condition, slow_first);
    const auto by_thread = function.ok() ? function->Over(zeros, extents) : std::nullopt;
    if (!by_thread) return std::nullopt;
    std::vector<std::pair<ThreadSpan, bool>> spans;
    for (int64_t t = all.first; t < all.first + all.count; ++t) {
      const bool value = (*by_thread)[t] != 0;
      if (spans.empty() || spans.back().second != value) spans.push_back({{t, 0}, value});
      ++spans.back().first.count;
    }
    if (spans.size() > 2) return std::nullopt;
    for (const auto& [span, value] : spans) {
      const bool acts = value || branch.else_case.defined();
      if (acts && (span.first % kWarp != 0 || span.count % kWarp != 0)) return std::nullopt;
    }
    return spans;
  }

  // Tile operations for some of the threads: whole warps that follow each other.
  void SplitWarps(const If& branch, const Stmt& cause, std::vector<Stmt>* out) {
    const auto spans = SpansOf(branch);
    if (!spans || active_) return RefuseSome(branch.loc, cause);
    const bool around = std::exchange(of_some_, true);
    for (const auto& [span, value] : *spans) {
      const Stmt& body = value ? branch.then_case : branch.else_case;
      if (body.defined()) OnSpan(span, body, branch.loc, out);
    }
    of_some_ = around;
  }

  // ---- refusals ----

  void RefuseBarrier(const Stmt& s) {
    Fail(s->loc,
         absl::StrCat(IsOfCluster(s) ? "a barrier of the cluster" : "T.sync_threads",
                      " where only some threads come by"),
         "move it out of the condition: all threads of the block meet at a barrier");
  }

  void RefuseLoop(const Stmt& s) {
    const auto* loop = s.As<For>();
    if (loop != nullptr && loop->annotations.count("cluster_block") > 0) {
      return Fail(s->loc, "a copy to a block of the cluster whose rank differs between threads",
                  "let dst_block be the same for all threads: the block copies once");
    }
    const Stmt cause = Find(s, [&](const Stmt& x) { return !x.same_as(s) && IsOfAll(x); });
    const SourceLoc loc = cause.defined() ? cause->loc : s->loc;
    const char* what = cause.defined() && IsExchange(cause)  ? "an exchange between threads"
                       : cause.defined() && IsBarrier(cause) ? "a barrier"
                                                             : "a tile operation";
    Fail(loc, absl::StrCat(what, " in a loop that threads run differently often"),
         "let all threads run the loop equally often, and leave work out by an if inside of it");
  }

  void RefuseTile(const Stmt& s) {
    Fail(s->loc, "a tile operation that depends on which thread runs it: the block does it once",
         "let its place be the same for all threads, or write a loop of each thread over "
         "T.alloc_local");
  }

  void RefuseSome(SourceLoc loc, const Stmt& cause) {
    Fail(cause->loc,
         absl::StrCat("a tile operation, or an allocation, under a condition that differs between "
                      "threads (line ",
                      loc.line, ")"),
         "let the condition hold for whole warps that follow each other, as tx < 128 does, or "
         "move the operation out of it");
  }

  const SourceFile& source_;
  const std::vector<Expr>& indices_;
  std::vector<int64_t> extents_;
  const ThreadValues values_;
  ThreadRegions regions_;
  BufferSet private_;
  Buffer active_;         // the threads that are here, where not all of them are
  bool of_some_ = false;  // within what a condition gives to some warps
  absl::Status status_;
};

bool SpeaksOfThreads(const Stmt& body, const std::vector<Expr>& indices) {
  bool speaks = false;
  Walk(
      body,
      [&](const Stmt& s) {
        speaks |= IsExchange(s);
        return !speaks;
      },
      [&](const Expr& e) {
        for (const Expr& index : indices) speaks |= e.same_as(index);
        return !speaks;
      });
  return speaks;
}

absl::Status CheckParallel(const Stmt& body, const SourceFile& source) {
  absl::Status status;
  Walk(body, [&](const Stmt& s) {
    const auto* loop = s.As<For>();
    if (loop == nullptr || loop->loop != ForKind::kParallel) return status.ok();
    Walk(loop->body, [&](const Stmt& x) {
      if (status.ok() && (IsExchange(x) || IsBarrier(x))) {
        status = ErrorAt(source, x->loc,
                         absl::StrCat(IsBarrier(x) ? "a barrier" : "an exchange between threads",
                                      " in T.Parallel, whose iterations are no threads"),
                         "say what each thread does by its index, T.get_thread_binding()");
      }
      return status.ok();
    });
    return false;
  });
  return status;
}

// What an atomic update tells of the value before, it tells the thread that made it, not the block.
Stmt WithOwnAnswers(const Stmt& launch) {
  BufferMap own;
  Walk(launch, [&](const Stmt& s) {
    const auto* atomic = s.As<Atomic>();
    if (atomic != nullptr && atomic->way.previous &&
        atomic->way.previous->scope == Scope::kShared) {
      const Buffer& b = atomic->way.previous;
      own[b.get()] = MakeBuffer(b->name, b->dtype, b->shape, Scope::kVar);
    }
    return true;
  });
  return own.empty() ? launch : Substitute(launch, {}, own);
}

Stmt WithoutBarriers(const Stmt& s) {
  return WithoutStmts(s, [](const Stmt& x) { return IsBarrier(x) && !IsOfCluster(x); });
}

// A fragment of which each thread stores another value to one place, and that no tile operation
// names, is a tile of each thread's own.
Stmt WithOwnFragments(const Stmt& launch, const std::vector<Expr>& indices) {
  const auto& l = *launch.As<Launch>();
  const ThreadValues values(l.body, indices);
  std::unordered_set<const BufferNode*> own, shared;
  const auto at = [&](const Buffer& b, const std::vector<Expr>& place) {
    for (const Expr& index : place) {
      if (values.Differs(index)) shared.insert(b.get());
    }
  };
  Walk(
      l.body,
      [&](const Stmt& s) {
        if (IsTile(s)) {
          for (const Buffer& b : BuffersRead(s)) shared.insert(b.get());
          for (const Buffer& b : BuffersWritten(s)) shared.insert(b.get());
        }
        const auto* store = s.As<Store>();
        if (store == nullptr) return true;
        at(store->buffer, store->indices);
        if (values.Differs(store->value)) own.insert(store->buffer.get());
        return true;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<Load>()) at(load->buffer, load->indices);
        return true;
      });
  BufferMap tiles;
  Walk(l.body, [&](const Stmt& s) {
    const auto* alloc = s.As<Alloc>();
    if (alloc == nullptr || alloc->buffer->scope != Scope::kFragment) return true;
    const BufferNode* b = alloc->buffer.get();
    if (own.count(b) == 0 || shared.count(b) > 0 || !b->layout.empty()) return true;
    auto tile = std::make_shared<BufferNode>(*b);
    tile->scope = Scope::kLocal;
    tiles[b] = std::move(tile);
    return true;
  });
  return tiles.empty() ? launch : Substitute(launch, {}, tiles);
}

}  // namespace

absl::StatusOr<Stmt> ResolveThreads(const Stmt& body, const std::vector<Expr>& indices,
                                    const SourceFile& source) {
  absl::Status status;
  const Stmt resolved = RewriteStmts(body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<Launch>();
    if (launch == nullptr || !status.ok()) return {};
    status = CheckParallel(launch->body, source);
    if (!status.ok()) return {};
    if (!SpeaksOfThreads(launch->body, indices)) return WithoutBarriers(s);
    std::vector<int64_t> extents;
    for (const Expr& extent : launch->threads) extents.push_back(ConstInt(extent).value_or(1));
    const Stmt parts = PartsOfThreads(s, indices, extents);
    const Stmt own = WithOwnAnswers(WithOwnFragments(parts, indices));
    launch = own.As<Launch>();
    BlockOfThreads block(*launch, indices, std::move(extents), source);
    absl::StatusOr<Stmt> split = block.Body(launch->body);
    if (!split.ok()) {
      status = split.status();
      return {};
    }
    return MakeStmt<Launch>(s->loc, launch->grid, launch->threads, *std::move(split),
                            launch->annotations);
  });
  KILN_RETURN_IF_ERROR(status);
  return resolved;
}

}  // namespace kiln::ir
