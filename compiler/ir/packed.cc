#include "compiler/ir/packed.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/nibbles.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int64_t kBothHalves = 17;  // a code in both halves of a byte

bool InMemory(const Buffer& b) {
  return b != nullptr && b->dtype.is_packed() &&
         (b->scope == Scope::kGlobal || b->scope == Scope::kShared);
}

// One iteration of a pair: what its variables stand for.
struct Half {
  VarMap vars;
  BufferMap buffers;
};

class Resolver : public Mutator {
 public:
  explicit Resolver(const PackedInput& input) : input_(input), parity_(input.open) {}

  Stmt Resolve(const Stmt& body) { return Mutate(body); }
  Buffer Convert(const Buffer& b, SourceLoc loc);
  absl::Status CheckView(const View& view);
  const absl::Status& status() const { return status_; }
  const std::vector<Expr>& even() const { return parity_.assumed(); }

 protected:
  Buffer VisitBuffer(const Buffer& b) override { return b == nullptr ? b : Convert(b, loc_); }
  Expr VisitExpr(const Expr& e) override;
  Stmt VisitStmt(const Stmt& s) override;

 private:
  void Refuse(SourceLoc loc, std::string message, std::string remedy,
              absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    if (status_.ok()) {
      status_ = ErrorAt(*input_.source, loc, std::move(message), std::move(remedy), code);
    }
  }
  void NotYet(const char* what, const Buffer& b, SourceLoc loc, const char* remedy) {
    Refuse(loc, absl::StrCat(what, " '", b->name, "' of ", b->dtype.ToString()), remedy,
           absl::StatusCode::kUnimplemented);
  }

  // ---- values ----
  Expr Expanded(const Expr& e) const { return Substitute(e, binds_); }
  Expr Read(const Load& load);
  Expr VisitCall(const Expr& e, const Call& call);
  // The code of a value whose type is packed.
  Expr Code(const Expr& value) { return CodeOf(Mutate(value), value.dtype()); }

  // ---- stores and the loops around them ----
  Stmt VisitSeq(const Stmt& s, const Seq& seq);
  Stmt VisitBind(const Stmt& s, const Bind& bind);
  Stmt VisitStore(const Stmt& s, const Store& store);
  Stmt VisitFor(const Stmt& s, const For& loop);
  bool PairsAlong(const Store& store, const Expr& var, const VarMap& inner);
  std::optional<size_t> PairAxis(const For& loop);
  Stmt SplitLoop(const Stmt& s, const For& loop, size_t axis);
  Stmt StoreHalf(SourceLoc loc, const Store& store, const Expr& odd);
  Stmt StoreByte(SourceLoc loc, const Store& low, const Store& high);
  bool AreOneByte(const Stmt& first, const Stmt& second);
  static bool Reads(const Stmt& s, const Buffer& buffer);

  // What two iterations of a loop over `var` do, as one of a loop over pairs.
  struct Pair {
    Expr var;
    Stmt body;  // of the loop
    Half low, high;
    bool DependsOn(const Expr& e) const;
  };
  Stmt Twice(const Stmt& s, Pair* pair);
  Stmt TwiceIf(const Stmt& s, const If& branch, Pair* pair);
  Stmt Apart(const Stmt& s, const Pair& pair);  // one after the other
  static bool IsOnlyPlace(const Pair& pair, const Store& store);
  static Stmt In(const Half& half, const Stmt& s) { return Substitute(s, half.vars, half.buffers); }

  // ---- tile operations ----
  Stmt VisitCopy(const Stmt& s, const Copy& copy);
  Stmt VisitFill(const Stmt& s, const Fill& fill);
  Stmt VisitGemm(const Stmt& s, const Gemm& gemm);
  Stmt VisitLaunch(const Stmt& s, const Launch& launch);
  using Element = std::function<Expr(const std::vector<Expr>& offsets)>;
  Stmt Loop(SourceLoc loc, const Region& dst, const Element& value);
  bool IsOfBytes(const Region& region);
  Region Bytes(const Region& region);

  const PackedInput& input_;
  Parity parity_;
  absl::Status status_;
  SourceLoc loc_;  // of the statement at hand
  std::unordered_map<const BufferNode*, Buffer> buffers_;
  VarMap vars_;              // of packed values, in their bytes
  VarMap binds_;             // what names stand for, free of loads
  bool on_threads_ = false;  // the launch says what each thread does
  bool parallel_ = false;    // inside of a loop whose iterations run beside each other
  bool owned_ = false;       // what is stored shares its bytes with nothing else
};

// ---- buffers ----

Buffer Resolver::Convert(const Buffer& b, SourceLoc loc) {
  if (!b->dtype.is_packed()) return b;
  Buffer& made = buffers_[b.get()];
  if (made != nullptr) return made;
  auto node = std::make_shared<BufferNode>(*b);
  node->dtype = Unpacked(b->dtype);
  if (InMemory(b)) {
    node->dtype = kUInt8;
    const std::string what = absl::StrCat("'", b->name, "' of ", b->dtype.ToString());
    if (!b->strides.empty()) {
      Refuse(loc, absl::StrCat(what, " has strides"),
             "two elements share a byte: pass a tensor whose elements lie side by side");
    }
    if (b->shape.empty() || !parity_.IsEven(b->shape.back())) {
      Refuse(loc, absl::StrCat("the last dimension of ", what, " is not known to be even"),
             "two elements share a byte: make it a constant that is even, or a multiple of 2");
    } else {
      node->shape.back() = Parity::Half(b->shape.back());
    }
    if (!b->layout.empty()) {
      Refuse(loc, absl::StrCat(what, " has a layout of its own"),
             "leave the layout out: its bytes lie row by row");
    }
  }
  return made = std::move(node);
}

absl::Status Resolver::CheckView(const View& view) {
  const bool memory = view.base->scope == Scope::kGlobal || view.base->scope == Scope::kShared;
  const DType from = view.base->dtype, to = view.view->dtype;
  if (memory || from == to || (!from.is_packed() && !to.is_packed())) return absl::OkStatus();
  NotYet(
      "a view of registers as elements of another width:", from.is_packed() ? view.base : view.view,
      view.loc, "in registers an element of 4 bits has a byte of its own: view a shared tile");
  return status_;
}

// ---- values ----

Expr Resolver::Read(const Load& load) {
  std::vector<Expr> indices = MutateAll(load.indices);
  const Expr place = indices.back(), known = Mutate(Expanded(load.indices.back()));
  const bool even = parity_.IsEven(known), odd = parity_.IsOdd(known);
  indices.back() = even  ? Parity::Half(known)
                   : odd ? Parity::Half(known - MakeInt(1, known.dtype()))
                         : Parity::FloorHalf(place);
  const Expr predicate = load.predicate.defined() ? Mutate(load.predicate) : Expr();
  const Expr byte =
      MakeCast(kInt32, MakeLoad(Convert(load.buffer, loc_), std::move(indices), predicate));
  const auto low = [](const Expr& x) { return MakeBinary(BinaryOp::kBitAnd, x, MakeInt(15)); };
  const auto down = [&](const Expr& n) { return MakeBinary(BinaryOp::kShr, byte, n); };
  const DType type = load.buffer->dtype;
  if (even) return FromCode(low(byte), type);
  if (odd) return FromCode(down(MakeInt(4)), type);
  const Expr is_odd = MakeBinary(BinaryOp::kBitAnd, MakeCast(kInt32, place), MakeInt(1));
  const Expr shift = is_odd * MakeInt(4);
  return FromCode(low(down(shift)), type);
}

Expr Resolver::VisitCall(const Expr& e, const Call& call) {
  const DType from = call.args.empty() ? e.dtype() : call.args[0].dtype();
  if (call.op == Intrinsic::kReinterpret && from != e.dtype() &&
      (from.is_packed() || e.dtype().is_packed())) {
    const Expr arg = Mutate(call.args[0]);
    const Expr code = from.is_packed()
                          ? CodeOf(arg, from)
                          : MakeBinary(BinaryOp::kBitAnd, MakeCast(kInt32, arg), MakeInt(15));
    return e.dtype().is_packed() ? FromCode(code, e.dtype()) : MakeCast(e.dtype(), code);
  }
  if (!e.dtype().is_packed()) return RebuildExpr(e);
  const Expr made = MakeCall(Unpacked(e.dtype()), call.op, MutateAll(call.args));
  return ToPacked(made, e.dtype());
}

Expr Resolver::VisitExpr(const Expr& e) {
  if (const auto* load = e.As<Load>(); load != nullptr && InMemory(load->buffer)) {
    return Read(*load);
  }
  if (const auto* call = e.As<Call>()) return VisitCall(e, *call);
  if (!e.dtype().is_packed()) return RebuildExpr(e);
  const DType type = Unpacked(e.dtype());
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return MakeInt(e.As<IntImm>()->value, type);
    case ExprKind::kFloatImm:
      return MakeFloat(e.As<FloatImm>()->value, type);
    case ExprKind::kVar: {
      const auto found = vars_.find(e.get());
      return found == vars_.end() ? e : found->second;
    }
    case ExprKind::kCast: {
      const Expr& from = e.As<Cast>()->a;
      return from.dtype() == e.dtype() ? Mutate(from) : ToPacked(Mutate(from), e.dtype());
    }
    case ExprKind::kLoad:
    case ExprKind::kSelect:
      return RebuildExpr(e);
    default:
      return ToPacked(RebuildExpr(e), e.dtype());
  }
}

// ---- statements ----

Stmt Resolver::VisitStmt(const Stmt& s) {
  loc_ = s->loc;
  const auto memory = [&](const Region& r, const char* what, const char* remedy) {
    if (InMemory(r.buffer)) NotYet(what, r.buffer, s->loc, remedy);
  };
  switch (s.kind()) {
    case StmtKind::kSeq:
      return VisitSeq(s, *s.As<Seq>());
    case StmtKind::kBind:
      return VisitBind(s, *s.As<Bind>());
    case StmtKind::kStore:
      return VisitStore(s, *s.As<Store>());
    case StmtKind::kFor:
      return VisitFor(s, *s.As<For>());
    case StmtKind::kCopy:
      return VisitCopy(s, *s.As<Copy>());
    case StmtKind::kFill:
      return VisitFill(s, *s.As<Fill>());
    case StmtKind::kGemm:
      return VisitGemm(s, *s.As<Gemm>());
    case StmtKind::kLaunch:
      return VisitLaunch(s, *s.As<Launch>());
    case StmtKind::kReduce: {
      const auto& reduce = *s.As<Reduce>();
      memory(reduce.src, "a reduction of", "copy it into a fragment, and reduce that");
      if (reduce.dst.buffer->dtype.is_packed()) {
        NotYet("a reduction into", reduce.dst.buffer, s->loc, "reduce into int32 or float32");
      }
      return RebuildStmt(s);
    }
    case StmtKind::kScan:
      if (s.As<Scan>()->dst.buffer->dtype.is_packed() || InMemory(s.As<Scan>()->src.buffer)) {
        NotYet("a scan of", s.As<Scan>()->src.buffer, s->loc, "copy it into a tile of int32");
      }
      return RebuildStmt(s);
    case StmtKind::kAtomic:
      memory(s.As<Atomic>()->dst, "an atomic update of", "update a tensor of int32");
      memory(s.As<Atomic>()->src, "an atomic update with", "copy it into a fragment first");
      return RebuildStmt(s);
    default:
      return RebuildStmt(s);
  }
}

Stmt Resolver::VisitBind(const Stmt& s, const Bind& bind) {
  const Expr value = Mutate(bind.value);
  if (!ReadsMemory(bind.value)) binds_[bind.var.get()] = Expanded(bind.value);
  if (!bind.var.dtype().is_packed()) {
    return value.same_as(bind.value) ? s : MakeStmt<Bind>(s->loc, bind.var, value);
  }
  const Expr var = MakeVar(bind.var.As<Var>()->name, value.dtype());
  vars_[bind.var.get()] = var;
  return MakeStmt<Bind>(s->loc, var, value);
}

// x[.., 2p] = a beside x[.., 2p + 1] = b.
Stmt Resolver::VisitSeq(const Stmt& s, const Seq& seq) {
  std::vector<Stmt> stmts;
  bool changed = false;
  for (size_t i = 0; i < seq.stmts.size(); ++i) {
    const bool pair = i + 1 < seq.stmts.size() && AreOneByte(seq.stmts[i], seq.stmts[i + 1]) &&
                      !Reads(seq.stmts[i + 1], seq.stmts[i].As<Store>()->buffer);
    if (pair) {
      const auto *a = seq.stmts[i].As<Store>(), *b = seq.stmts[i + 1].As<Store>();
      const bool first_low = parity_.IsEven(Expanded(a->indices.back()));
      stmts.push_back(StoreByte(s->loc, first_low ? *a : *b, first_low ? *b : *a));
      ++i;
    } else {
      stmts.push_back(Mutate(seq.stmts[i]));
    }
    changed |= pair || !stmts.back().same_as(seq.stmts[i]);
  }
  return changed ? MakeStmt<Seq>(s->loc, std::move(stmts)) : s;
}

// Whether two stores are of the two halves of a byte.
bool Resolver::AreOneByte(const Stmt& first, const Stmt& second) {
  const auto *a = first.As<Store>(), *b = second.As<Store>();
  if (a == nullptr || b == nullptr || a->buffer != b->buffer || !InMemory(a->buffer)) return false;
  for (size_t d = 0; d + 1 < a->indices.size(); ++d) {
    if (!Same(Expanded(a->indices[d]), Expanded(b->indices[d]))) return false;
  }
  const Expr x = Expanded(a->indices.back()), y = Expanded(b->indices.back());
  const LinearForm apart = Linearize(y - x);
  if (!apart.terms.empty()) return false;
  return apart.constant == 1 ? parity_.IsEven(x) : apart.constant == -1 && parity_.IsEven(y);
}

bool Resolver::Reads(const Stmt& s, const Buffer& buffer) {
  bool reads = false;
  Walk(
      s, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* load = e.As<Load>();
        reads = reads || (load != nullptr && load->buffer == buffer);
        return !reads;
      });
  return reads;
}

Stmt Resolver::StoreByte(SourceLoc loc, const Store& low, const Store& high) {
  std::vector<Expr> indices = MutateAll(low.indices);
  indices.back() = Parity::Half(Mutate(Expanded(low.indices.back())));
  const Expr up = MakeBinary(BinaryOp::kShl, Code(high.value), MakeInt(4));
  const Expr byte = MakeCast(kUInt8, MakeBinary(BinaryOp::kBitOr, Code(low.value), up));
  return MakeStmt<Store>(loc, Convert(low.buffer, loc), std::move(indices), byte);
}

// The other half is put back as it was. `odd`: 0 or 1, int32.
Stmt Resolver::StoreHalf(SourceLoc loc, const Store& store, const Expr& odd) {
  std::vector<Expr> indices = MutateAll(store.indices);
  indices.back() = Parity::FloorHalf(indices.back());
  const Buffer bytes = Convert(store.buffer, loc);
  const Expr old = MakeCast(kInt32, MakeLoad(bytes, indices)), shift = odd * MakeInt(4);
  const Expr keep = MakeBinary(BinaryOp::kShr, MakeInt(0xf0), shift);
  const Expr code = MakeBinary(BinaryOp::kShl, Code(store.value), shift);
  const Expr byte = MakeBinary(BinaryOp::kBitOr, MakeBinary(BinaryOp::kBitAnd, old, keep), code);
  return MakeStmt<Store>(loc, bytes, std::move(indices), MakeCast(kUInt8, byte));
}

Stmt Resolver::VisitStore(const Stmt& s, const Store& store) {
  if (!InMemory(store.buffer)) return RebuildStmt(s);
  const bool shared = store.buffer->scope == Scope::kShared;
  if (!shared || (!owned_ && (parallel_ || on_threads_))) {
    Refuse(s->loc,
           absl::StrCat("a store to '", store.buffer->name, "' of ", store.buffer->dtype.ToString(),
                        ", two elements of which share a byte, that may leave them to two ",
                        shared ? "threads" : "blocks"),
           "store x[.., e + v] for an even e in a loop over v from an even start to an even end, "
           "under conditions that hold for both or neither, or x[.., 2 * p] beside x[.., 2 * p + "
           "1]; else fill a tile of int8 and copy that",
           absl::StatusCode::kUnimplemented);
    return s;
  }
  const Expr at = MakeCast(kInt32, Mutate(store.indices.back()));
  return StoreHalf(s->loc, store, MakeBinary(BinaryOp::kBitAnd, at, MakeInt(1)));
}

// ---- loops over pairs ----

// Whether the store's last index is an even number and `var`, and no other index has to do with it.
bool Resolver::PairsAlong(const Store& store, const Expr& var, const VarMap& inner) {
  if (!InMemory(store.buffer)) return false;
  for (size_t d = 0; d + 1 < store.indices.size(); ++d) {
    if (Uses(Expanded(Substitute(store.indices[d], inner)), var)) return false;
  }
  LinearForm form = Linearize(Expanded(Substitute(store.indices.back(), inner)));
  if (form.CoefficientOf(var) != 1) return false;
  form.Drop(var);
  const Expr rest = FromLinear(form, store.indices.back().dtype());
  return !Uses(rest, var) && parity_.IsEven(rest);
}

std::optional<size_t> Resolver::PairAxis(const For& loop) {
  std::optional<size_t> found;
  VarMap inner;
  int stores = 0, others = 0;
  Walk(loop.body, [&](const Stmt& s) {
    if (const auto* bind = s.As<Bind>()) {
      if (!ReadsMemory(bind->value)) inner[bind->var.get()] = Substitute(bind->value, inner);
    } else if (const auto* store = s.As<Store>()) {
      ++stores;
      for (size_t a = 0; a < loop.axes.size(); ++a) {
        if (PairsAlong(*store, loop.axes[a].var, inner)) found = a;
      }
    } else if (s.kind() != StmtKind::kSeq) {
      ++others;
    }
    return true;
  });
  if (!found) return found;
  const Axis& axis = loop.axes[*found];
  if (!parity_.IsEven(Expanded(axis.min)) || !parity_.IsEven(Expanded(axis.extent))) return {};
  // In a loop whose iterations follow each other only what is alone changes places with nothing.
  const bool beside = loop.loop == ForKind::kParallel || loop.loop == ForKind::kVectorized;
  if (!beside && (stores != 1 || others != 0)) return {};
  return found;
}

Stmt Resolver::VisitFor(const Stmt& s, const For& loop) {
  const bool was = parallel_;
  parallel_ |= loop.loop == ForKind::kParallel || loop.loop == ForKind::kVectorized;
  const std::optional<size_t> axis = PairAxis(loop);
  const Stmt made = axis ? SplitLoop(s, loop, *axis) : RebuildStmt(s);
  parallel_ = was;
  return made;
}

Stmt Resolver::SplitLoop(const Stmt& s, const For& loop, size_t axis) {
  std::vector<Axis> axes;
  for (const Axis& a : loop.axes) axes.push_back({a.var, Mutate(a.min), Mutate(a.extent)});
  const Expr var = axes[axis].var;
  const Expr pair = MakeVar(var.As<Var>()->name, var.dtype());
  const Expr start = axes[axis].min;
  axes[axis] = {pair, MakeInt(0, var.dtype()), Parity::Half(Expanded(axes[axis].extent))};
  std::map<std::string, std::string> notes = loop.annotations;
  notes.erase("coalesced_width");
  if (notes.count("loop_layout") > 0) {
    Refuse(s->loc, "a loop that stores elements of 4 bits has a layout of its own",
           "leave loop_layout out: each of its threads stores whole bytes");
  }
  Pair both;
  both.var = var;
  both.body = loop.body;
  const Expr low = start + pair * MakeInt(2, var.dtype());
  both.low.vars[var.get()] = low;
  both.high.vars[var.get()] = low + MakeInt(1, var.dtype());
  const Stmt body = Twice(loop.body, &both);
  return MakeStmt<For>(s->loc, loop.loop, std::move(axes), body, loop.num_stages, std::move(notes));
}

bool Resolver::Pair::DependsOn(const Expr& e) const {
  bool depends = false;
  Walk(e, [&](const Expr& x) {
    const auto* load = x.As<Load>();
    depends = depends || low.vars.count(x.get()) > 0 ||
              (load != nullptr && low.buffers.count(load->buffer.get()) > 0);
    return !depends;
  });
  return depends;
}

// Whether all that the loop stores to the buffer is stored where `store` does it: what puts half of
// a byte back must not meet another iteration there.
bool Resolver::IsOnlyPlace(const Pair& pair, const Store& store) {
  bool only = true;
  Walk(pair.body, [&](const Stmt& s) {
    const auto* other = s.As<Store>();
    if (other == nullptr || other->buffer != store.buffer) return true;
    for (size_t d = 0; d < store.indices.size(); ++d) {
      only = only && Same(store.indices[d], other->indices[d]);
    }
    return true;
  });
  return only;
}

Stmt Resolver::Apart(const Stmt& s, const Pair& pair) {
  bool own = true;
  Walk(s, [&](const Stmt& inner) {
    const auto* store = inner.As<Store>();
    if (store == nullptr || !InMemory(store->buffer)) return true;
    own = own && AreOneByte(In(pair.low, inner), In(pair.high, inner)) && IsOnlyPlace(pair, *store);
    return true;
  });
  const bool was = std::exchange(owned_, own);
  const Stmt low = Mutate(In(pair.low, FreshCopy(s)));
  const Stmt high = Mutate(In(pair.high, FreshCopy(s)));
  owned_ = was;
  return MakeSeq({low, high}, s->loc);
}

Stmt Resolver::Twice(const Stmt& s, Pair* pair) {
  loc_ = s->loc;
  if (const auto* seq = s.As<Seq>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : seq->stmts) {
      const Stmt both = Twice(child, pair);
      const auto* two = both.As<Seq>();
      // Names and buffers of both halves are there for what follows.
      if (two != nullptr && (child.As<Bind>() != nullptr || child.As<Alloc>() != nullptr)) {
        stmts.insert(stmts.end(), two->stmts.begin(), two->stmts.end());
      } else {
        stmts.push_back(both);
      }
    }
    return MakeStmt<Seq>(s->loc, std::move(stmts));
  }
  if (const auto* bind = s.As<Bind>()) {
    if (!pair->DependsOn(bind->value)) return Mutate(s);
    std::vector<Stmt> stmts;
    for (Half* half : {&pair->low, &pair->high}) {
      const Expr var = MakeVar(bind->var.As<Var>()->name, bind->var.dtype());
      const Expr value = In(*half, s).As<Bind>()->value;
      half->vars[bind->var.get()] = var;
      stmts.push_back(Mutate(MakeStmt<Bind>(s->loc, var, value)));
    }
    return MakeStmt<Seq>(s->loc, std::move(stmts));
  }
  if (const auto* alloc = s.As<Alloc>()) {
    std::vector<Stmt> stmts;
    for (Half* half : {&pair->low, &pair->high}) {
      const auto buffer = std::make_shared<BufferNode>(*alloc->buffer);
      const Expr init = alloc->init.defined() ? In(*half, s).As<Alloc>()->init : Expr();
      half->buffers[alloc->buffer.get()] = buffer;
      stmts.push_back(Mutate(MakeStmt<Alloc>(s->loc, buffer, init, alloc->place)));
    }
    return MakeStmt<Seq>(s->loc, std::move(stmts));
  }
  if (const auto* store = s.As<Store>(); store != nullptr && InMemory(store->buffer)) {
    const Stmt low = In(pair->low, s), high = In(pair->high, s);
    if (!store->predicate.defined() && AreOneByte(low, high)) {
      return StoreByte(s->loc, *low.As<Store>(), *high.As<Store>());
    }
  }
  if (const auto* branch = s.As<If>()) return TwiceIf(s, *branch, pair);
  if (const auto* loop = s.As<For>(); loop != nullptr && loop->axes.size() == 1 &&
                                      !pair->DependsOn(loop->axes[0].min) &&
                                      !pair->DependsOn(loop->axes[0].extent) && !PairAxis(*loop)) {
    const Axis& axis = loop->axes[0];
    return MakeStmt<For>(s->loc, loop->loop,
                         std::vector<Axis>{{axis.var, Mutate(axis.min), Mutate(axis.extent)}},
                         Twice(loop->body, pair), loop->num_stages, loop->annotations);
  }
  return Apart(s, *pair);
}

// One branch for both where they go the same way.
Stmt Resolver::TwiceIf(const Stmt& s, const If& branch, Pair* pair) {
  const Expr low = Expanded(Substitute(branch.condition, pair->low.vars));
  const Expr high = Expanded(Substitute(branch.condition, pair->high.vars));
  if (pair->DependsOn(branch.condition) && !parity_.HoldAlike(low, high)) return Apart(s, *pair);
  const Stmt then_case = Twice(branch.then_case, pair);
  const Stmt else_case = branch.else_case.defined() ? Twice(branch.else_case, pair) : Stmt();
  return MakeStmt<If>(s->loc, Mutate(Substitute(branch.condition, pair->low.vars)), then_case,
                      else_case);
}

// ---- tile operations ----

// dst[..] = value, element by element. `value` gets how far the element is from the region's start,
// by dimension of dst; undefined in those of one element.
Stmt Resolver::Loop(SourceLoc loc, const Region& dst, const Element& value) {
  std::vector<Axis> axes;
  std::vector<Expr> indices, offsets(dst.ranges.size());
  for (size_t d = 0; d < dst.ranges.size(); ++d) {
    const Range& range = dst.ranges[d];
    indices.push_back(range.min);
    if (IsConst(range.extent, 1)) continue;
    const Expr var = MakeVar(absl::StrCat("i", axes.size()), range.min.dtype());
    axes.push_back({var, MakeInt(0, var.dtype()), MakeCast(var.dtype(), range.extent)});
    indices.back() = range.min + var;
    offsets[d] = var;
  }
  const Stmt store =
      MakeStmt<Store>(loc, dst.buffer, indices, MakeCast(dst.buffer->dtype, value(offsets)));
  if (axes.empty()) return Mutate(store);
  return Mutate(MakeStmt<For>(loc, ForKind::kParallel, std::move(axes), store));
}

// Whether a region of packed memory is one of whole bytes.
bool Resolver::IsOfBytes(const Region& region) {
  const Range& last = region.ranges.back();
  return parity_.IsEven(Expanded(last.min)) && parity_.IsEven(Expanded(last.extent));
}

Region Resolver::Bytes(const Region& region) {
  Region bytes = MutateRegion(region);
  const Range& last = region.ranges.back();
  bytes.ranges.back() = {Parity::Half(Mutate(Expanded(last.min))),
                         Parity::Half(Mutate(Expanded(last.extent)))};
  return bytes;
}

Stmt Resolver::VisitCopy(const Stmt& s, const Copy& copy) {
  const DType from = copy.src.buffer->dtype, to = copy.dst.buffer->dtype;
  if (!from.is_packed() && !to.is_packed()) return RebuildStmt(s);
  const auto pairs = PairDims(copy.dst, copy.src);
  KILN_CHECK(pairs.has_value());  // the language required equal shapes
  const bool memory = InMemory(copy.src.buffer) || InMemory(copy.dst.buffer);
  if (!memory && (from == to || !to.is_packed())) return RebuildStmt(s);
  if (InMemory(copy.src.buffer) && InMemory(copy.dst.buffer) && from == to &&
      pairs->back() == static_cast<int>(copy.src.ranges.size()) - 1 && IsOfBytes(copy.src) &&
      IsOfBytes(copy.dst)) {
    return MakeStmt<Copy>(s->loc, Bytes(copy.src), Bytes(copy.dst), copy.annotations);
  }
  return Loop(s->loc, copy.dst, [&](const std::vector<Expr>& offsets) {
    std::vector<Expr> at;
    for (const Range& range : copy.src.ranges) at.push_back(range.min);
    for (size_t d = 0; d < pairs->size(); ++d) {
      const int with = (*pairs)[d];
      if (with < 0 || !offsets[d].defined()) continue;
      at[with] = at[with] + MakeCast(at[with].dtype(), offsets[d]);
    }
    return MakeLoad(copy.src.buffer, std::move(at));
  });
}

Stmt Resolver::VisitFill(const Stmt& s, const Fill& fill) {
  if (!InMemory(fill.dst.buffer)) return RebuildStmt(s);
  if (!IsOfBytes(fill.dst)) {
    return Loop(s->loc, fill.dst, [&](const std::vector<Expr>&) { return fill.value; });
  }
  const Expr code = Code(fill.value) * MakeInt(kBothHalves);
  return MakeStmt<Fill>(s->loc, Bytes(fill.dst), MakeCast(kUInt8, code));
}

// Products are of the values, in a tile of a type that has them all.
Stmt Resolver::VisitGemm(const Stmt& s, const Gemm& gemm) {
  const DType a = gemm.a.buffer->dtype, b = gemm.b.buffer->dtype;
  if (gemm.c.buffer->dtype.is_packed()) {
    NotYet("a matrix product into", gemm.c.buffer, s->loc, "add to int32 or float32");
    return s;
  }
  if (!a.is_packed() && !b.is_packed()) return RebuildStmt(s);
  const bool floats = a.is_float() || b.is_float();
  std::vector<Stmt> stmts;
  const auto wide = [&](const Region& region, DType other) {
    const DType type = region.buffer->dtype;
    if (!type.is_packed()) return region;
    DType held = kInt8;
    if (floats) held = other.is_float() && other.bits > 8 ? other : kFloat16;
    if (!InMemory(region.buffer) && Unpacked(type) == held) return region;
    std::vector<Expr> shape;
    for (const Range& range : region.ranges) shape.push_back(range.extent);
    const Scope scope = InMemory(region.buffer) ? Scope::kShared : region.buffer->scope;
    const Buffer tile =
        MakeBuffer(absl::StrCat(region.buffer->name, ".wide"), held, std::move(shape), scope);
    stmts.push_back(MakeStmt<Alloc>(s->loc, tile));
    stmts.push_back(Mutate(MakeStmt<Copy>(s->loc, region, WholeBuffer(tile))));
    return WholeBuffer(tile);
  };
  Region x = wide(gemm.a, b), y = wide(gemm.b, a);
  if (floats && x.buffer->dtype != y.buffer->dtype) {
    Refuse(s->loc, absl::StrCat("a matrix product of ", a.ToString(), " and ", b.ToString()),
           "convert both to float16 first", absl::StatusCode::kUnimplemented);
    return s;
  }
  stmts.push_back(
      RebuildStmt(MakeStmt<Gemm>(s->loc, std::move(x), std::move(y), gemm.c, gemm.trans_a,
                                 gemm.trans_b, gemm.policy, gemm.clear_accum)));
  return MakeStmt<Seq>(s->loc, std::move(stmts));
}

Stmt Resolver::VisitLaunch(const Stmt& s, const Launch& launch) {
  Walk(launch.body, [&](const Stmt& inner) {
    const auto* alloc = inner.As<Alloc>();
    if (alloc == nullptr || !InMemory(alloc->buffer)) return true;
    if (launch.annotations.count(absl::StrCat("layout:", alloc->buffer->name)) > 0) {
      Refuse(inner->loc,
             absl::StrCat("'", alloc->buffer->name, "' of ", alloc->buffer->dtype.ToString(),
                          " has a layout of its own"),
             "leave the layout out: its bytes lie row by row");
    }
    return true;
  });
  on_threads_ = std::any_of(input_.threads.begin(), input_.threads.end(),
                            [&](const Expr& index) { return Uses(launch.body, index); });
  return RebuildStmt(s);
}

// Whether there is anything of four bits.
bool IsPacked(const Stmt& body, const std::vector<Param*>& params, const std::vector<View>& views) {
  bool packed = false;
  const auto note = [&](const Buffer& b) {
    packed = packed || (b != nullptr && b->dtype.is_packed());
  };
  for (const Param* param : params) note(param->buffer);
  for (const View& view : views) note(view.view);
  Walk(
      body,
      [&](const Stmt& s) {
        if (const auto* alloc = s.As<Alloc>()) note(alloc->buffer);
        return !packed;
      },
      [&](const Expr& e) {
        packed = packed || e.dtype().is_packed();
        return !packed;
      });
  return packed;
}

}  // namespace

absl::Status ResolvePacked(const PackedInput& input, Stmt* body, std::vector<Param*> params,
                           std::vector<View>* views, std::vector<Expr>* even) {
  if (!IsPacked(*body, params, *views)) return absl::OkStatus();
  Resolver resolver(input);
  for (const View& view : *views) KILN_RETURN_IF_ERROR(resolver.CheckView(view));
  const auto loc_of = [&](const Param& param) {
    for (const View& view : *views) {
      if (view.base == param.buffer) return view.loc;
    }
    return (*body)->loc;
  };
  for (Param* param : params) {
    if (param->kind != Param::kTensor) continue;
    const Buffer made = resolver.Convert(param->buffer, loc_of(*param));
    param->buffer = made;
  }
  *body = resolver.Resolve(*body);
  for (View& view : *views) {
    view.base = resolver.Convert(view.base, view.loc);
    view.view = resolver.Convert(view.view, view.loc);
  }
  *even = resolver.even();
  return resolver.status();
}

}  // namespace kiln::ir
