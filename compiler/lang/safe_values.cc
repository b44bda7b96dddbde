#include "compiler/lang/safe_values.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/cluster_marks.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

bool IsZero(const Expr& e) {
  if (const auto* number = e.As<ir::FloatImm>()) return number->value == 0;
  return ir::IsConst(e, 0);
}

const char* NameOf(const Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kReduce:
      return "a reduction";
    case ir::StmtKind::kScan:
      return "a scan";
    case ir::StmtKind::kGemm:
    case ir::StmtKind::kPairGemm:
      return "a product";
    case ir::StmtKind::kCopy:
      return "a copy to several blocks";
    case ir::StmtKind::kAtomic:
      return "an atomic operation that tells what was there";
    default:
      return "an operation";
  }
}

// The elements of two regions of one shape, but for dimensions of extent 1, one by one.
struct Elements {
  std::vector<ir::Axis> axes;
  std::vector<Expr> from, to;
};

std::optional<Elements> ElementsOf(const ir::Region& src, const ir::Region& dst) {
  Elements e;
  std::vector<size_t> read;  // the dimensions of the source that have several elements
  for (size_t d = 0; d < src.ranges.size(); ++d) {
    e.from.push_back(src.ranges[d].min);
    if (!ir::IsConst(src.ranges[d].extent, 1)) read.push_back(d);
  }
  for (const ir::Range& range : dst.ranges) {
    e.to.push_back(range.min);
    if (ir::IsConst(range.extent, 1)) continue;
    const Expr var = ir::MakeVar(absl::StrCat("i", e.axes.size()), range.extent.dtype());
    if (e.axes.size() < read.size()) {
      Expr& index = e.from[read[e.axes.size()]];
      index = index + var;
    }
    e.to.back() = e.to.back() + var;
    e.axes.push_back({var, MakeInt(0, range.extent.dtype()), range.extent});
  }
  if (e.axes.size() != read.size()) return std::nullopt;
  return e;
}

// What is read outside of tensors and of their views.
class Outside {
 public:
  explicit Outside(const std::vector<ir::View>& views) : views_(views) {}

  const ir::Buffer& Base(const ir::Buffer& b) const {
    const auto view =
        std::find_if(views_.begin(), views_.end(), [&](const ir::View& v) { return v.view == b; });
    return view == views_.end() ? b : view->base;
  }

  const SafeValue* Find(const ir::Buffer& b) const {
    if (!b || values_.empty()) return nullptr;
    const auto found = values_.find(Base(b).get());
    return found == values_.end() ? nullptr : &found->second;
  }

  absl::Status Add(const SafeValue& said, const SourceFile& source) {
    const auto [known, is_new] = values_.emplace(Base(said.tensor).get(), said);
    if (is_new || ir::Same(known->second.value, said.value)) return absl::OkStatus();
    return ErrorAt(source, said.loc,
                   absl::StrCat("'", said.tensor->name, "' has the safe values ",
                                ir::ToString(known->second.value), " and ",
                                ir::ToString(said.value), " in one launch"),
                   "give it one: it holds for all of the launch");
  }

  void DropZeros() {
    std::erase_if(values_, [](const auto& entry) { return IsZero(entry.second.value); });
  }

  bool empty() const { return values_.empty(); }

 private:
  const std::vector<ir::View>& views_;
  std::unordered_map<const ir::BufferNode*, SafeValue> values_;
};

class Reads : public ir::Mutator {
 public:
  Reads(const Outside& outside, const SourceFile& source) : outside_(outside), source_(source) {}

  const absl::Status& status() const { return status_; }

 protected:
  Expr VisitExpr(const Expr& e) override {
    if (!e.shared()) return Rebuilt(e);
    const auto known = shared_.find(e.get());
    if (known != shared_.end()) return known->second;
    const Expr rebuilt = Rebuilt(e);
    shared_.emplace(e.get(), rebuilt);
    return rebuilt;
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* copy = s.As<ir::Copy>(); copy != nullptr && outside_.Find(copy->src.buffer)) {
      if (copy->annotations.count(kClusterMask) > 0) return Refuse(s, copy->src.buffer);
      return Within(copy->src, copy->dst) ? RefuseWithin(s, copy->src) : CopyElements(s, *copy);
    }
    if (const auto* update = s.As<ir::Atomic>();
        update != nullptr && outside_.Find(update->src.buffer)) {
      return Within(update->src, update->dst) ? RefuseWithin(s, update->src)
                                              : UpdateElements(s, *update);
    }
    const Stmt* const around = std::exchange(statement_, &s);
    ir::Buffer written = std::exchange(written_, WrittenBy(s));
    const Stmt result = RebuildStmt(s);
    written_ = std::move(written);
    statement_ = around;
    return result;
  }

  // What comes by here is neither an element that is loaded nor a tile that is copied.
  ir::Buffer VisitBuffer(const ir::Buffer& b) override {
    if (b != written_ && outside_.Find(b) != nullptr) Refuse(*statement_, b);
    return b;
  }

 private:
  // What a statement writes to and does not read.
  static ir::Buffer WrittenBy(const Stmt& s) {
    if (const auto* alloc = s.As<ir::Alloc>()) return alloc->buffer;
    if (const auto* store = s.As<ir::Store>()) return store->buffer;
    if (const auto* copy = s.As<ir::Copy>()) return copy->dst.buffer;
    if (const auto* fill = s.As<ir::Fill>()) return fill->dst.buffer;
    const auto* atomic = s.As<ir::Atomic>();
    return atomic != nullptr && !atomic->way.previous ? atomic->dst.buffer : nullptr;
  }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  Stmt Refuse(const Stmt& s, const ir::Buffer& b) {
    Fail(ErrorAt(source_, s->loc,
                 absl::StrCat(NameOf(s), " of '", b->name, "', which has a safe value of ",
                              ir::ToString(outside_.Find(b)->value)),
                 s.As<ir::Atomic>() != nullptr
                     ? "leave it to indices inside of the tensor, without T.annotate_safe_value"
                     : "copy it into a tile of each block with T.copy, and use the tile",
                 absl::StatusCode::kUnimplemented));
    return s;
  }

  // All of a tile is read before any of it is written, which elements one by one would not do.
  bool Within(const ir::Region& src, const ir::Region& dst) const {
    return outside_.Base(src.buffer) == outside_.Base(dst.buffer);
  }

  Stmt RefuseWithin(const Stmt& s, const ir::Region& src) {
    Fail(ErrorAt(source_, s->loc,
                 absl::StrCat("'", src.buffer->name,
                              "', which has a safe value, is read and written by one operation"),
                 "copy what is read into a T.alloc_shared or T.alloc_fragment tile first",
                 absl::StatusCode::kUnimplemented));
    return s;
  }

  Expr Rebuilt(const Expr& e) {
    if (const auto* call = e.As<ir::Call>(); call && call->op == ir::Intrinsic::kPrefetch) return e;
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || outside_.Find(load->buffer) == nullptr) return RebuildExpr(e);
    return Read(load->buffer, MutateAll(load->indices), Mutate(load->predicate));
  }

  // Zero where a predicate does not hold.
  Expr Read(const ir::Buffer& buffer, std::vector<Expr> indices, const Expr& predicate = {}) {
    const SafeValue& safe = *outside_.Find(buffer);
    Expr inside = ir::MakeBool(true);
    for (size_t d = 0; d < indices.size(); ++d) {
      inside = inside && MakeInt(0) <= indices[d] && indices[d] < buffer->shape[d];
    }
    const Expr element = ir::MakeLoad(buffer, std::move(indices), predicate);
    if (element.dtype() != safe.value.dtype()) {
      Fail(ErrorAt(source_, safe.loc,
                   absl::StrCat("the safe value of '", safe.tensor->name, "' is ",
                                safe.value.dtype().ToString(), ", and it is read as ",
                                element.dtype().ToString(), " through '", buffer->name, "'"),
                   "read it by its own type, or copy it into a tile and view that"));
      return element;
    }
    if (predicate.defined()) inside = ir::MakeUnary(ir::UnaryOp::kNot, predicate) || inside;
    return ir::MakeSelect(inside, element, safe.value);
  }

  Stmt CopyElements(const Stmt& s, const ir::Copy& copy) {
    const auto e = ElementsOf(MutateRegionOf(copy.src), MutateRegionOf(copy.dst));
    if (!e) return Reshaped(s, copy.src.buffer);
    const Expr value =
        ir::MakeCast(copy.dst.buffer->dtype, Read(copy.src.buffer, std::move(e->from)));
    return Loops(copy.loc, copy.dst.buffer->scope == ir::Scope::kLocal, e->axes,
                 ir::MakeStmt<ir::Store>(copy.loc, copy.dst.buffer, e->to, value));
  }

  Stmt UpdateElements(const Stmt& s, const ir::Atomic& update) {
    const auto e = ElementsOf(MutateRegionOf(update.src), MutateRegionOf(update.dst));
    if (!e) return Reshaped(s, update.src.buffer);
    ir::Region element{update.dst.buffer, {}};
    for (const Expr& index : e->to) element.ranges.push_back({index, MakeInt(1)});
    const Expr value =
        ir::MakeCast(update.dst.buffer->dtype, Read(update.src.buffer, std::move(e->from)));
    return Loops(update.loc, /*own=*/false, e->axes,
                 ir::MakeStmt<ir::Atomic>(update.loc, update.op, std::move(element), ir::Region{},
                                          value, update.way));
  }

  // The ranges alone: the buffers are known.
  ir::Region MutateRegionOf(const ir::Region& r) {
    ir::Region result{r.buffer, {}};
    for (const ir::Range& range : r.ranges) {
      result.ranges.push_back({Mutate(range.min), Mutate(range.extent)});
    }
    return result;
  }

  Stmt Reshaped(const Stmt& s, const ir::Buffer& b) {
    Fail(ErrorAt(
        source_, s->loc,
        absl::StrCat("'", b->name, "', which has a safe value, goes to a tile of another shape"),
        "give both the same extents", absl::StatusCode::kUnimplemented));
    return s;
  }

  // Of the block together, or of each thread for its `own`.
  static Stmt Loops(SourceLoc loc, bool own, std::vector<ir::Axis> axes, Stmt body) {
    if (axes.empty()) return body;
    if (!own) {
      return ir::MakeStmt<ir::For>(loc, ir::ForKind::kParallel, std::move(axes), std::move(body));
    }
    for (size_t d = axes.size(); d-- > 0;) {
      body = ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, std::vector<ir::Axis>{axes[d]},
                                   std::move(body));
    }
    return body;
  }

  const Outside& outside_;
  const SourceFile& source_;
  const Stmt* statement_ = nullptr;
  ir::Buffer written_;
  absl::Status status_;
  std::unordered_map<const ir::ExprNode*, Expr> shared_;
};

// A safe value is known before the launch begins, but for which block it is.
absl::Status CheckKnown(const LaunchState& launch, const SourceFile& source,
                        const std::vector<Stmt>& stmts) {
  std::unordered_set<const ir::ExprNode*> own;
  for (const Expr& index : launch.indices) own.insert(index.get());
  for (const Stmt& s : stmts) {
    ir::Walk(s, [&](const Stmt& x) {
      if (const auto* bind = x.As<ir::Bind>()) own.insert(bind->var.get());
      if (const auto* loop = x.As<ir::For>()) {
        for (const ir::Axis& axis : loop->axes) own.insert(axis.var.get());
      }
      return true;
    });
  }
  for (const SafeValue& said : launch.outside) {
    bool known = true;
    ir::Walk(said.value, [&](const Expr& e) {
      known = known && e.As<ir::Load>() == nullptr && !own.contains(e.get());
      return known;
    });
    if (known) continue;
    return ErrorAt(source, said.loc,
                   absl::StrCat("the safe value of '", said.tensor->name,
                                "' is computed in the launch: ", ir::ToString(said.value)),
                   "give a number, an argument of the kernel, or what follows from them");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status HeedSafeValues(const LaunchState& launch, const std::vector<ir::View>& views,
                            const SourceFile& source, std::vector<Stmt>* stmts) {
  if (launch.outside.empty()) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(CheckKnown(launch, source, *stmts));
  Outside outside(views);
  for (const SafeValue& said : launch.outside) KILN_RETURN_IF_ERROR(outside.Add(said, source));
  outside.DropZeros();
  if (outside.empty()) return absl::OkStatus();
  for (const auto& [image, loc] : launch.padded) {
    if (outside.Find(image) == nullptr) continue;
    return ErrorAt(source, loc,
                   absl::StrCat("T.im2col of '", image->name, "', which has a safe value of ",
                                ir::ToString(outside.Find(image)->value)),
                   "store T.if_then_else(inside, image[...], value) in a T.Parallel loop: T.im2col "
                   "pads with 0",
                   absl::StatusCode::kUnimplemented);
  }
  Reads reads(outside, source);
  for (Stmt& s : *stmts) s = reads.Mutate(s);
  return reads.status();
}

}  // namespace kiln::lang
