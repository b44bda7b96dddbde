#include "compiler/ir/views.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/access.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/stage.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int64_t kMaxNodes = 1 << 20;  // that reads in parts may take

bool SameShape(const Buffer& a, const Buffer& b) {
  return a->shape.size() == b->shape.size() &&
         std::equal(a->shape.begin(), a->shape.end(), b->shape.begin(),
                    [](const Expr& x, const Expr& y) { return Same(x, y); });
}

bool Alike(const Buffer& a, const Buffer& b) { return a->dtype == b->dtype && SameShape(a, b); }

// The names of one memory, and what tile operations do through them.
struct Group {
  std::vector<Buffer> names;            // the base first
  std::vector<Buffer> computed, moved;  // by Gemm, Reduce and Scan; by Copy, Fill, Atomic
  bool atomic = false;
  SourceLoc loc;      // of the last view
  SourceLoc retyped;  // of one of another type than the base
  Buffer memory;

  const Buffer& base() const { return names[0]; }
  bool OneType() const {
    return std::all_of(names.begin(), names.end(),
                       [&](const Buffer& b) { return b->dtype == base()->dtype; });
  }
};

DType Unsigned(int bits) { return {TypeCode::kUInt, static_cast<uint8_t>(bits)}; }

DType MemoryType(const Group& group) {
  if (group.OneType()) return group.base()->dtype;
  int bits = group.base()->dtype.bits;
  for (const Buffer& name : group.names) bits = std::min<int>(bits, name->dtype.bits);
  std::optional<DType> computed;
  for (const Buffer& name : group.computed) {
    if (computed && *computed != name->dtype) return Unsigned(bits);
    computed = name->dtype;
  }
  return computed && computed->bits == bits ? *computed : Unsigned(bits);
}

Expr Elements(const Buffer& buffer) {
  Expr total = MakeInt(1);
  for (const Expr& extent : buffer->shape) total = total * extent;
  return total;
}

// The name whose shape the memory takes: the one that operations use, where they agree.
Buffer Model(const Group& group, DType type) {
  for (const std::vector<Buffer>* used : {&group.computed, &group.moved}) {
    std::vector<Buffer> fit;
    for (const Buffer& name : *used) {
      if (name->dtype == type) fit.push_back(name);
    }
    if (fit.empty()) continue;
    const bool agree = std::all_of(fit.begin(), fit.end(),
                                   [&](const Buffer& name) { return SameShape(name, fit[0]); });
    if (agree) return fit[0];
    return group.base()->dtype == type ? group.base() : fit[0];
  }
  return nullptr;
}

Buffer MemoryOf(const Group& group) {
  if (group.base()->scope == Scope::kGlobal) return group.base();
  const DType type = MemoryType(group);
  const Buffer model = Model(group, type);
  auto memory = std::make_shared<BufferNode>(*group.base());
  memory->dtype = type;
  memory->shape = model ? model->shape
                        : std::vector<Expr>{Elements(group.base()) *
                                            MakeInt(group.base()->dtype.bits / type.bits)};
  return Alike(memory, group.base()) ? group.base() : memory;
}

class Resolver : public Mutator {
 public:
  Resolver(const std::vector<View>& views, const SourceFile& source) : source_(source) {
    for (const View& view : views) {
      const auto [at, fresh] = index_.try_emplace(view.base.get(), groups_.size());
      if (fresh) {
        groups_.emplace_back();
        groups_.back().names.push_back(view.base);
      }
      if (view.view->dtype != view.base->dtype) groups_[at->second].retyped = view.loc;
      groups_[at->second].names.push_back(view.view);
      groups_[at->second].loc = view.loc;
      index_[view.view.get()] = at->second;
    }
  }

  absl::StatusOr<Stmt> Resolve(const Stmt& body) {
    Walk(body, [&](const Stmt& s) {
      NoteUses(s);
      return true;
    });
    for (Group& group : groups_) {
      group.memory = MemoryOf(group);
      if (group.atomic && !group.OneType()) {
        return Refused(group, "is updated by atomics");
      }
    }
    const Stmt resolved = Mutate(body);
    KILN_RETURN_IF_ERROR(status_);
    return resolved;
  }

 protected:
  Buffer VisitBuffer(const Buffer& b) override {
    const Group* group = GroupOf(b);
    return group == nullptr ? b : group->memory;
  }

  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<Load>();
    const Group* group = load == nullptr ? nullptr : GroupOf(load->buffer);
    if (group == nullptr) return RebuildExpr(e);
    const std::vector<Expr> indices = MutateAll(load->indices);
    const Expr predicate = load->predicate.defined() ? Mutate(load->predicate) : Expr();
    if (!Affordable(*group, load->buffer, indices)) return e;
    return Read(*group, load->buffer, indices,
                AndPredicate(predicate, Inside(*group, load->buffer, indices)));
  }

  Stmt VisitStmt(const Stmt& s) override {
    switch (s.kind()) {
      case StmtKind::kAlloc:
        return VisitAlloc(s);
      case StmtKind::kStore:
        return VisitStore(s);
      case StmtKind::kAtomic:
        return VisitAtomic(s);
      case StmtKind::kCopy: {
        const auto& copy = *s.As<Copy>();
        return Fits(copy.src) && Fits(copy.dst) ? RebuildStmt(s) : Mutate(LoopOf(s->loc, copy));
      }
      case StmtKind::kFill: {
        const auto& fill = *s.As<Fill>();
        return Fits(fill.dst) ? RebuildStmt(s) : Mutate(LoopOf(s->loc, fill));
      }
      case StmtKind::kGemm: {
        const auto& gemm = *s.As<Gemm>();
        if (Fits(gemm.a) && Fits(gemm.b) && Fits(gemm.c)) return RebuildStmt(s);
        return Mutate(OnCopies(s->loc, gemm));
      }
      case StmtKind::kReduce: {
        const auto& reduce = *s.As<Reduce>();
        if (Fits(reduce.src) && Fits(reduce.dst)) return RebuildStmt(s);
        return Mutate(OnCopies(s->loc, reduce));
      }
      case StmtKind::kScan: {
        const auto& scan = *s.As<Scan>();
        if (Fits(scan.src) && Fits(scan.dst)) return RebuildStmt(s);
        return Mutate(OnCopies(s->loc, scan));
      }
      case StmtKind::kLaunch:
        return VisitLaunch(s);
      default:
        return RebuildStmt(s);
    }
  }

 private:
  absl::Status Refused(const Group& group, absl::string_view what,
                       absl::string_view but = " and is viewed as elements of another type") const {
    return ErrorAt(source_, group.retyped.known() ? group.retyped : group.loc,
                   absl::StrCat("'", group.base()->name, "' ", what, but),
                   "copy it into a tile of its own, and view that");
  }

  Group* GroupOf(const Buffer& b) {
    if (b == nullptr) return nullptr;
    const auto found = index_.find(b.get());
    return found == index_.end() ? nullptr : &groups_[found->second];
  }

  void NoteUses(const Stmt& s) {
    const auto note = [&](const Region& region, std::vector<Buffer> Group::*list) {
      if (Group* group = GroupOf(region.buffer)) (group->*list).push_back(region.buffer);
    };
    if (const auto* gemm = s.As<Gemm>()) {
      for (const Region* r : {&gemm->a, &gemm->b, &gemm->c}) note(*r, &Group::computed);
    } else if (const auto* reduce = s.As<Reduce>()) {
      for (const Region* r : {&reduce->src, &reduce->dst}) note(*r, &Group::computed);
    } else if (const auto* scan = s.As<Scan>()) {
      for (const Region* r : {&scan->src, &scan->dst}) note(*r, &Group::computed);
    } else if (const auto* copy = s.As<Copy>()) {
      for (const Region* r : {&copy->src, &copy->dst}) note(*r, &Group::moved);
    } else if (const auto* fill = s.As<Fill>()) {
      note(fill->dst, &Group::moved);
    } else if (const auto* atomic = s.As<Atomic>()) {
      note(atomic->src, &Group::moved);
      if (Group* group = GroupOf(atomic->dst.buffer)) group->atomic = true;
    }
  }

  // ---- elements ----

  // That an index lies within a view of global memory, where its neighbours are other elements.
  static Expr Inside(const Group& group, const Buffer& name, const std::vector<Expr>& indices) {
    Expr inside;
    if (group.base()->scope != Scope::kGlobal || name == group.base()) return inside;
    for (size_t d = 0; d < indices.size(); ++d) {
      inside = AndPredicate(inside, MakeInt(0) <= indices[d] && indices[d] < name->shape[d]);
    }
    return inside.defined() && IsConst(inside, 1) ? Expr() : inside;
  }

  // The indices in memory of part `part` of `parts` of an element.
  static std::vector<Expr> Place(const Group& group, const Buffer& name, std::vector<Expr> indices,
                                 int part = 0, int parts = 1) {
    std::vector<Expr> shape = name->shape, memory = group.memory->shape, last;
    while (parts == 1 && shape.size() > 1 && memory.size() > 1 &&
           Same(shape.back(), memory.back())) {
      last.push_back(indices.back());
      indices.pop_back();
      shape.pop_back();
      memory.pop_back();
    }
    // More elements than an int32 counts, or who knows how many.
    const auto count = ConstInt(Elements(group.memory));
    Expr flat = indices[0];
    if (!count || *count > INT32_MAX) flat = MakeCast(kInt64, flat);
    for (size_t d = 1; d < indices.size(); ++d) flat = flat * shape[d] + indices[d];
    if (parts > 1) flat = flat * MakeInt(parts) + MakeInt(part);
    for (size_t d = memory.size(); d-- > 1;) {
      last.push_back(FloorMod(flat, memory[d]));
      flat = FloorDiv(flat, memory[d]);
    }
    last.push_back(flat);
    std::reverse(last.begin(), last.end());
    return last;
  }

  // The index of an element that memory holds in parts is written once for each of them.
  bool Affordable(const Group& group, const Buffer& name, const std::vector<Expr>& indices) {
    const int64_t parts = name->dtype.bits / group.memory->dtype.bits;
    for (const Expr& index : indices) {
      Walk(index, [&](const Expr&) { return (nodes_ += parts) <= kMaxNodes; });
    }
    if (nodes_ <= kMaxNodes) return true;
    if (status_.ok()) {
      status_ = ErrorAt(
          source_, group.retyped,
          absl::StrCat("what is read of '", group.base()->name,
                       "' through names of several types has more than ", kMaxNodes, " operations"),
          "bind indices to names of their own", absl::StatusCode::kResourceExhausted);
    }
    return false;
  }

  static Expr AsBits(const Expr& e, DType type) {
    return e.dtype() == type ? e : MakeCall(type, Intrinsic::kReinterpret, {e});
  }

  static Expr Read(const Group& group, const Buffer& name, const std::vector<Expr>& indices,
                   const Expr& predicate) {
    const int bits = group.memory->dtype.bits, parts = name->dtype.bits / bits;
    if (parts == 1) {
      return AsBits(MakeLoad(group.memory, Place(group, name, indices), predicate), name->dtype);
    }
    const DType narrow = Unsigned(bits), wide = Unsigned(name->dtype.bits);
    Expr whole;
    for (int part = 0; part < parts; ++part) {
      const Expr load = MakeLoad(group.memory, Place(group, name, indices, part, parts), predicate);
      const Expr moved = MakeBinary(BinaryOp::kShl, MakeCast(wide, AsBits(load, narrow)),
                                    MakeInt(int64_t{part} * bits, wide));
      whole = whole.defined() ? MakeBinary(BinaryOp::kBitOr, whole, moved) : moved;
    }
    return AsBits(whole, name->dtype);
  }

  static Stmt Write(SourceLoc loc, const Group& group, const Buffer& name,
                    const std::vector<Expr>& indices, const Expr& value, const Expr& predicate) {
    const int bits = group.memory->dtype.bits, parts = name->dtype.bits / bits;
    if (parts == 1) {
      return MakeStmt<Store>(loc, group.memory, Place(group, name, indices),
                             AsBits(value, group.memory->dtype), predicate);
    }
    const DType narrow = Unsigned(bits), wide = Unsigned(name->dtype.bits);
    const Expr whole = MakeVar("bits", wide);
    std::vector<Stmt> stmts = {MakeStmt<Bind>(loc, whole, AsBits(value, wide))};
    for (int part = 0; part < parts; ++part) {
      const Expr moved = MakeBinary(BinaryOp::kShr, whole, MakeInt(int64_t{part} * bits, wide));
      stmts.push_back(MakeStmt<Store>(loc, group.memory, Place(group, name, indices, part, parts),
                                      AsBits(MakeCast(narrow, moved), group.memory->dtype),
                                      predicate));
    }
    return MakeSeq(std::move(stmts), loc);
  }

  // ---- statements ----

  Stmt VisitAlloc(const Stmt& s) {
    const auto& alloc = *s.As<Alloc>();
    const Group* group = GroupOf(alloc.buffer);
    if (group == nullptr || group->memory == alloc.buffer) return RebuildStmt(s);
    return MakeStmt<Alloc>(s->loc, group->memory, alloc.init);
  }

  Stmt VisitStore(const Stmt& s) {
    const auto& store = *s.As<Store>();
    const Group* group = GroupOf(store.buffer);
    if (group == nullptr) return RebuildStmt(s);
    std::vector<Expr> indices = MutateAll(store.indices);
    Expr predicate = store.predicate.defined() ? Mutate(store.predicate) : Expr();
    predicate = AndPredicate(predicate, Inside(*group, store.buffer, indices));
    const Expr value = Mutate(store.value);
    // The first of several stores may change what the place of the next depends on.
    std::vector<Stmt> stmts;
    if (store.buffer->dtype.bits > group->memory->dtype.bits) {
      const BufferTest written = [&](const Buffer& b) { return b == group->memory; };
      for (Expr& index : indices) index = Settle(index, written, s->loc, &stmts);
      if (predicate.defined()) predicate = Settle(predicate, written, s->loc, &stmts);
    }
    stmts.push_back(Write(s->loc, *group, store.buffer, indices, value, predicate));
    return MakeSeq(std::move(stmts), s->loc);
  }

  Stmt VisitAtomic(const Stmt& s) {
    const auto& atomic = *s.As<Atomic>();
    const bool tile = !atomic.value.defined();
    if (Fits(atomic.dst) && (!tile || Fits(atomic.src))) return RebuildStmt(s);
    if (tile) return Mutate(LoopOf(s->loc, atomic));
    const Group& group = *GroupOf(atomic.dst.buffer);
    std::vector<Expr> indices;
    for (const Range& range : atomic.dst.ranges) indices.push_back(Mutate(range.min));
    const Stmt update = MakeStmt<Atomic>(
        s->loc, atomic.op, Point(group.memory, Place(group, atomic.dst.buffer, indices)), Region{},
        Mutate(atomic.value), atomic.way);
    const Expr inside = Inside(group, atomic.dst.buffer, indices);
    return inside.defined() ? MakeStmt<If>(s->loc, inside, update) : update;
  }

  Stmt VisitLaunch(const Stmt& s) {
    const auto& launch = *s.As<Launch>();
    std::map<std::string, std::string> notes = launch.annotations;
    for (const Group& group : groups_) {
      for (const Buffer& name : group.names) {
        auto note = notes.extract(absl::StrCat("layout:", name->name));
        if (note.empty()) continue;
        if (!group.OneType()) {
          status_ = Refused(group, "has a layout of its own");
        }
        const std::string key = absl::StrCat("layout:", group.memory->name);
        const auto [kept, fresh] = notes.emplace(key, note.mapped());
        if (!fresh && kept->second != note.mapped()) {
          status_ = Refused(group, "has a layout of its own",
                            " and is called by another name with another layout");
        }
      }
    }
    const Stmt rebuilt = RebuildStmt(s);
    const auto& fresh = *rebuilt.As<Launch>();
    if (notes == fresh.annotations) return rebuilt;
    return MakeStmt<Launch>(s->loc, fresh.grid, fresh.threads, fresh.body, std::move(notes));
  }

  // ---- tile operations ----

  static Region Point(const Buffer& buffer, const std::vector<Expr>& indices) {
    Region point{buffer, {}};
    for (const Expr& index : indices) point.ranges.push_back({index, MakeInt(1)});
    return point;
  }

  // Whether the region can be said of the memory as it is.
  bool Fits(const Region& region) {
    const Group* group = GroupOf(region.buffer);
    return group == nullptr || Alike(region.buffer, group->memory);
  }

  // A parallel loop over the elements of `over`. `body` gets, for a region that pairs with it, the
  // indices of the element.
  using Element = std::function<std::vector<Expr>(const Region&)>;
  Stmt ForEach(SourceLoc loc, const Region& over, const std::function<Stmt(const Element&)>& body,
               const std::map<std::string, std::string>& notes = {}) {
    std::vector<Axis> axes;
    std::vector<Expr> offsets(over.ranges.size());
    for (const int d : NonUnitDims(over)) {
      offsets[d] = MakeVar(absl::StrCat("i", axes.size()));
      axes.push_back({offsets[d], MakeInt(0), over.ranges[d].extent});
    }
    const Stmt inner = body([&](const Region& region) {
      const auto pairs = PairDims(region, over);
      KILN_CHECK(pairs.has_value());  // the language required equal shapes
      std::vector<Expr> indices;
      for (size_t d = 0; d < region.ranges.size(); ++d) {
        const int with = (*pairs)[d];
        const bool moves = with >= 0 && offsets[with].defined();
        indices.push_back(moves ? region.ranges[d].min + offsets[with] : region.ranges[d].min);
      }
      return indices;
    });
    if (axes.empty()) return inner;
    return MakeStmt<For>(loc, ForKind::kParallel, axes, inner, Expr(), notes);
  }

  // A loop for an operation that writes `dst`, from what it reads of that memory bound before it.
  using Build = std::function<Stmt(const Region& dst, const Region& src, const Expr& value)>;
  Stmt Settled(SourceLoc loc, const Region& dst, const Region& src, const Expr& value,
               const Build& build) {
    std::vector<Stmt> stmts;
    const BufferTest written = SharesWith(dst.buffer);
    const Region to = Settle(dst, written, loc, &stmts), from = Settle(src, written, loc, &stmts);
    const Expr what = Settle(value, written, loc, &stmts);
    stmts.push_back(build(to, from, what));
    return MakeSeq(std::move(stmts), loc);
  }

  BufferTest SharesWith(const Buffer& buffer) {
    const Group* group = GroupOf(buffer);
    return [this, buffer, group](const Buffer& other) {
      return other == buffer || (group != nullptr && GroupOf(other) == group);
    };
  }

  Stmt LoopOf(SourceLoc loc, const Copy& copy) {
    std::map<std::string, std::string> notes;  // of the loop that the copy becomes
    for (const char* key : {"coalesced_width", "loop_layout"}) {
      const auto note = copy.annotations.find(key);
      if (note != copy.annotations.end()) notes.insert(*note);
    }
    return Settled(
        loc, copy.dst, copy.src, Expr(), [&](const Region& dst, const Region& src, const Expr&) {
          const auto element = [&](const Element& at) {
            const Expr value = MakeCast(dst.buffer->dtype, MakeLoad(src.buffer, at(src)));
            return MakeStmt<Store>(loc, dst.buffer, at(dst), value);
          };
          return ForEach(loc, dst, element, notes);
        });
  }

  Stmt LoopOf(SourceLoc loc, const Fill& fill) {
    return Settled(loc, fill.dst, Region{}, fill.value,
                   [&](const Region& dst, const Region&, const Expr& value) {
                     return ForEach(loc, dst, [&](const Element& at) {
                       return MakeStmt<Store>(loc, dst.buffer, at(dst),
                                              MakeCast(dst.buffer->dtype, value));
                     });
                   });
  }

  Stmt LoopOf(SourceLoc loc, const Atomic& atomic) {
    return Settled(loc, atomic.dst, atomic.src, Expr(),
                   [&](const Region& dst, const Region& src, const Expr&) {
                     return ForEach(loc, dst, [&](const Element& at) {
                       const Expr value =
                           MakeCast(dst.buffer->dtype, MakeLoad(src.buffer, at(src)));
                       return MakeStmt<Atomic>(loc, atomic.op, Point(dst.buffer, at(dst)), Region{},
                                               value, atomic.way);
                     });
                   });
  }

  Stmt OnCopies(SourceLoc loc, const Gemm& gemm) {
    Stage stage(loc);
    const Region a = CopyOf(gemm.a, true, false, &stage);
    const Region b = CopyOf(gemm.b, true, false, &stage);
    const Region c = CopyOf(gemm.c, !IsConst(gemm.clear_accum, 1), true, &stage);
    return std::move(stage).Around(
        MakeStmt<Gemm>(loc, a, b, c, gemm.trans_a, gemm.trans_b, gemm.policy, gemm.clear_accum));
  }

  Stmt OnCopies(SourceLoc loc, const Reduce& reduce) {
    Stage stage(loc);
    const Region src = CopyOf(reduce.src, true, false, &stage);
    const Region dst = CopyOf(reduce.dst, !reduce.clear, true, &stage);
    return std::move(stage).Around(
        MakeStmt<Reduce>(loc, reduce.op, src, dst, reduce.dim, reduce.clear));
  }

  Stmt OnCopies(SourceLoc loc, const Scan& scan) {
    Stage stage(loc);
    const Region src = CopyOf(scan.src, true, false, &stage);
    const Region dst = CopyOf(scan.dst, false, true, &stage);
    return std::move(stage).Around(MakeStmt<Scan>(loc, scan.op, src, dst, scan.dim, scan.reverse));
  }

  Region CopyOf(const Region& region, bool reads, bool writes, Stage* stage) {
    return Fits(region) ? region : stage->Through(region, region.buffer->scope, reads, writes);
  }

  const SourceFile& source_;
  std::vector<Group> groups_;
  std::unordered_map<const BufferNode*, size_t> index_;
  int64_t nodes_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Stmt> ResolveViews(const Stmt& body, const std::vector<View>& views,
                                  const SourceFile& source) {
  if (views.empty()) return body;
  return Resolver(views, source).Resolve(body);
}

}  // namespace kiln::ir
