#include "compiler/passes/layout_problem.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/text.h"
#include "compiler/passes/gemm_layouts.h"
#include "compiler/passes/points.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

class Collector {
 public:
  Collector(const ir::Program& program, const target::Arch& gpu) : program_(program), gpu_(gpu) {}

  absl::StatusOr<LayoutProblem> Collect(const ir::Launch& launch) {
    const std::optional<int64_t> threads = ir::ThreadsOf(launch);
    if (!threads) {
      return Error(launch.loc, "the number of threads is not a constant", "give threads=128");
    }
    if (*threads < 1 || *threads > layout::kMaxThreads) {
      return Error(launch.loc, absl::StrCat("a block of ", *threads, " threads"),
                   absl::StrCat("use 1 to ", layout::kMaxThreads));
    }
    problem_.threads = threads_ = {0, *threads};
    for (const ir::Axis& axis : launch.grid) facts_.AddAxis(axis);
    notes_ = &launch.annotations;
    KILN_ASSIGN_OR_RETURN(products_, PlanProducts(program_, launch, threads_, gpu_));
    problem_.shared = products_.tiles;
    shared_ = SharedLayouts(&products_.tiles);
    KILN_RETURN_IF_ERROR(Visit(launch.body));
    KILN_RETURN_IF_ERROR(CheckParts());
    return std::move(problem_);
  }

 private:
  absl::Status Error(SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    return ir::ErrorAt(program_, loc, std::move(message), std::move(remedy), code);
  }

  // ---- statements ----

  absl::Status Visit(const Stmt& s) {
    switch (s.kind()) {
      case ir::StmtKind::kSeq:
        for (const Stmt& child : s.As<ir::Seq>()->stmts) KILN_RETURN_IF_ERROR(Visit(child));
        return absl::OkStatus();
      case ir::StmtKind::kFor:
        return VisitFor(s, *s.As<ir::For>());
      case ir::StmtKind::kWhile:
        KILN_RETURN_IF_ERROR(Reads(s.As<ir::While>()->condition, s->loc));
        return Under({}, [&] { return Visit(s.As<ir::While>()->body); });
      case ir::StmtKind::kIf:
        return VisitIf(*s.As<ir::If>());
      case ir::StmtKind::kBind:
        KILN_RETURN_IF_ERROR(Reads(s.As<ir::Bind>()->value, s->loc));
        binds_[s.As<ir::Bind>()->var.get()] = ir::Substitute(s.As<ir::Bind>()->value, binds_);
        return absl::OkStatus();
      case ir::StmtKind::kAlloc:
        return VisitAlloc(*s.As<ir::Alloc>());
      case ir::StmtKind::kStore:
        return VisitStore(*s.As<ir::Store>());
      case ir::StmtKind::kReduce:
        return VisitReduce(s, *s.As<ir::Reduce>());
      case ir::StmtKind::kAtomic:
        return VisitAtomic(*s.As<ir::Atomic>());
      case ir::StmtKind::kEvaluate:
        return Reads(s.As<ir::Evaluate>()->value, s->loc);
      case ir::StmtKind::kAssert:
        return Reads(s.As<ir::Assert>()->condition, s->loc);
      case ir::StmtKind::kPrint:
        for (const Expr& e : s.As<ir::Print>()->values) KILN_RETURN_IF_ERROR(Reads(e, s->loc));
        width_ = 1;
        return absl::OkStatus();
      case ir::StmtKind::kInstruct:  // barriers and loads into shared memory: no fragment
      case ir::StmtKind::kBreak:
      case ir::StmtKind::kContinue:
        return absl::OkStatus();
      case ir::StmtKind::kGemm:
        return VisitGemm(s, *s.As<ir::Gemm>());
      case ir::StmtKind::kOnThreads:
        return VisitPart(*s.As<ir::OnThreads>());
      case ir::StmtKind::kCopy:
        if (const auto* copy = s.As<ir::Copy>(); products_.sums.count(copy->src.buffer.get()) > 0) {
          return VisitMove(s, copy->src, copy->dst, /*writes=*/true);
        } else if (products_.sums.count(copy->dst.buffer.get()) > 0) {
          return VisitMove(s, copy->dst, copy->src, /*writes=*/false);
        }
        break;
      case ir::StmtKind::kPairGemm:
      case ir::StmtKind::kFill:
      case ir::StmtKind::kScan:
      case ir::StmtKind::kLaunch:
        break;
    }
    return absl::InternalError("layout inference needs copies and fills lowered to loops first");
  }

  absl::Status VisitPart(const ir::OnThreads& part) {
    const layout::ThreadRange& all = problem_.threads;
    if (part.first + part.count > all.count) {
      return Error(part.loc,
                   absl::StrCat("threads ", part.first, " to ", part.first + part.count - 1,
                                " of a block of ", all.count),
                   "launch more threads");
    }
    threads_ = {part.first, part.count};
    const absl::Status status = Visit(part.body);
    threads_ = all;
    return status;
  }

  // Notes that the threads of this part touch a fragment.
  void TouchedHere(int fragment, bool writes, bool floating, SourceLoc loc) {
    touches_.push_back({fragment, writes, floating, threads_, loc});
  }

  // Where every thread must hold a fragment, these are those who write it: others would keep what
  // was there before.
  absl::Status CheckParts() {
    for (const PartTouch& t : touches_) {
      Fragment& f = problem_.fragments[t.fragment];
      if (t.writes && f.threads.count == 0) f.threads = t.threads;
      if (t.writes && f.threads != t.threads) f.threads = problem_.threads;
    }
    for (Fragment& f : problem_.fragments) {
      if (f.threads.count == 0) f.threads = problem_.threads;
      if (f.replicated) f.annotated = layout::Ownership::Replicated(f.size, f.threads);
    }
    for (const PartTouch& t : touches_) {
      const Fragment& f = problem_.fragments[t.fragment];
      const bool stale =
          t.writes ? t.threads != f.threads : (t.threads.Set() & ~f.threads.Set()).any();
      if (!f.floating || !stale) continue;
      return Error(t.loc,
                   absl::StrCat("'", f.buffer->name, "' is touched outside of loops and by ",
                                layout::ToString(t.threads.Set()), " here, but written by ",
                                layout::ToString(f.threads.Set())),
                   "touch it in one T.ws only, or pass its values through shared memory",
                   absl::StatusCode::kFailedPrecondition);
    }
    return absl::OkStatus();
  }

  absl::Status VisitIf(const ir::If& branch) {
    KILN_RETURN_IF_ERROR(Reads(branch.condition, branch.loc));
    KILN_RETURN_IF_ERROR(Under(branch.condition, [&] { return Visit(branch.then_case); }));
    if (!branch.else_case.defined()) return absl::OkStatus();
    return Under(Not(branch.condition), [&] { return Visit(branch.else_case); });
  }

  static Expr Not(const Expr& condition) {
    return ir::MakeUnary(ir::UnaryOp::kNot, ir::MakeCast(kBool, condition));
  }

  // What `visit` finds happens only where `condition` holds (undefined: nobody knows where).
  template <typename F>
  absl::Status Under(const Expr& condition, const F& visit) {
    guards_.push_back(condition.defined() ? ir::Substitute(condition, binds_) : condition);
    const absl::Status status = visit();
    guards_.pop_back();
    return status;
  }

  absl::Status VisitFor(const Stmt& s, const ir::For& loop) {
    const ir::Facts saved = facts_;
    for (const ir::Axis& axis : loop.axes) facts_.AddAxis(axis);
    const absl::Status status =
        loop.loop == ir::ForKind::kParallel ? VisitParallel(s, loop) : VisitSerial(loop);
    facts_ = saved;
    return status;
  }

  absl::Status VisitSerial(const ir::For& loop) {
    const ir::Axis& axis = loop.axes[0];
    const auto min = ir::ConstInt(axis.min), extent = ir::ConstInt(axis.extent);
    const bool known = min && extent;
    if (known) serial_.push_back({axis.var, *min, *extent});
    const absl::Status status = Visit(loop.body);
    if (known) serial_.pop_back();
    return status;
  }

  absl::Status VisitParallel(const Stmt& s, const ir::For& loop) {
    if (operation_ != nullptr) {
      return Error(loop.loc, "a parallel loop inside of a parallel loop",
                   "give both axes to one T.Parallel, or make the inner loop serial");
    }
    Operation op;
    op.stmt = s;
    op.loc = loop.loc;
    std::vector<std::string> names;
    axes_.clear();
    mins_.clear();
    for (const ir::Axis& axis : loop.axes) {
      const auto min = ir::ConstInt(axis.min), extent = ir::ConstInt(axis.extent);
      if (!min || !extent || *extent < 0) {
        return Error(loop.loc,
                     absl::StrCat("the extent of parallel axis '", ir::ToString(axis.var),
                                  "' is not known when the kernel is compiled"),
                     "loop over a constant extent and guard the rest with an if");
      }
      axes_.push_back(axis.var);
      mins_.push_back(*min);
      op.extents.push_back(*extent);
      op.iterations *= std::min(*extent, kMaxTileElements + 1);
      if (op.iterations > kMaxTileElements) return TooLarge(loop.loc, "a parallel loop");
      names.push_back(ir::ToString(axis.var));
    }
    op.threads = threads_;
    op.name = absl::StrCat("loop ", problem_.operations.size() + 1, " (",
                           absl::StrJoin(names, ", "), ")");
    operation_ = &op;
    width_ = kVectorBytes;
    std::vector<Expr> outer;  // conditions that hold for all iterations or none
    outer.swap(guards_);
    const absl::Status status = Visit(loop.body);
    outer.swap(guards_);
    operation_ = nullptr;
    KILN_RETURN_IF_ERROR(status);
    KILN_RETURN_IF_ERROR(SetWidth(loop, &op));
    const auto note = loop.annotations.find("loop_layout");
    if (note != loop.annotations.end()) {
      KILN_ASSIGN_OR_RETURN(op.annotated, Held(note->second, op.iterations, op.name, loop.loc));
    }
    problem_.operations.push_back(std::move(op));
    return absl::OkStatus();
  }

  // The widest access, or the one that `coalesced_width` asks for.
  absl::Status SetWidth(const ir::For& loop, Operation* op) const {
    op->vector_width = width_;
    const auto note = loop.annotations.find("coalesced_width");
    if (note == loop.annotations.end()) return absl::OkStatus();
    int64_t asked = 0;
    if (absl::SimpleAtoi(note->second, &asked) && asked >= 1 && width_ % asked == 0) {
      op->vector_width = asked;
      return absl::OkStatus();
    }
    return Error(loop.loc,
                 absl::StrCat("coalesced_width=", note->second, " does not divide ", width_,
                              ", the widest access of ", op->name),
                 "leave it out, or use a divisor");
  }

  absl::Status VisitAlloc(const ir::Alloc& alloc) {
    if (alloc.init.defined()) KILN_RETURN_IF_ERROR(Reads(alloc.init, alloc.loc));
    if (alloc.buffer->scope != ir::Scope::kFragment) return absl::OkStatus();
    Fragment fragment;
    fragment.buffer = alloc.buffer;
    fragment.loc = alloc.loc;
    fragment.size = 1;
    for (const Expr& extent : alloc.buffer->shape) {
      const auto n = ir::ConstInt(extent);
      if (!n) {
        return Error(alloc.loc,
                     absl::StrCat("the shape of fragment '", alloc.buffer->name,
                                  "' is not known when the kernel is compiled"),
                     "allocate a constant shape");
      }
      fragment.shape.push_back(*n);
      fragment.size *= std::min(*n, kMaxTileElements + 1);
      if (fragment.size > kMaxTileElements) return TooLarge(alloc.loc, "a fragment");
    }
    KILN_RETURN_IF_ERROR(Annotate(&fragment));
    fragments_[alloc.buffer.get()] = static_cast<int>(problem_.fragments.size());
    problem_.fragments.push_back(std::move(fragment));
    return absl::OkStatus();
  }

  // Notes name buffers: where several fragments of a launch have that name, nobody knows which is
  // meant.
  absl::Status Annotate(Fragment* fragment) const {
    if (notes_->count(absl::StrCat("replicated:", fragment->buffer->name)) > 0) {
      fragment->replicated = true;
      return absl::OkStatus();
    }
    const auto note = notes_->find(absl::StrCat("layout:", fragment->buffer->name));
    if (note == notes_->end()) return absl::OkStatus();
    for (const Fragment& other : problem_.fragments) {
      if (other.buffer->name != fragment->buffer->name) continue;
      return Error(fragment->loc,
                   absl::StrCat("two fragments are called '", other.buffer->name,
                                "' and one of them is annotated with a layout"),
                   "give them different names");
    }
    KILN_ASSIGN_OR_RETURN(
        fragment->annotated,
        Held(note->second, fragment->size, absl::StrCat("fragment '", fragment->buffer->name, "'"),
             fragment->loc));
    return absl::OkStatus();
  }

  // The owners that an annotation gives to `size` elements.
  absl::StatusOr<layout::Ownership> Held(const std::string& text, int64_t size,
                                         absl::string_view what, SourceLoc loc) const {
    const std::string message = absl::StrCat("the layout of ", what, ", ", text, ", ");
    auto annotated = layout::Parse(text);
    if (annotated.ok()) annotated = layout::OnBlock(*annotated, problem_.threads.count);
    if (!annotated.ok()) {
      return Error(loc, absl::StrCat(message, "says no threads: ", annotated.status().message()),
                   "annotate fragments with T.Fragment(...)");
    }
    if (annotated->size() != size) {
      return Error(loc, absl::StrCat(message, "has ", annotated->size(), " elements, not ", size),
                   "give T.Fragment the same shape");
    }
    absl::StatusOr<layout::Ownership> held = layout::Ownership::Of(*annotated, size);
    if (!held.ok()) {
      return Error(loc,
                   absl::StrCat(message, "is no layout of registers: ", held.status().message()),
                   "annotate fragments with T.Fragment(...)");
    }
    const layout::ThreadSet outside = held->Threads() & ~threads_.Set();
    if (outside.any()) {
      return Error(loc,
                   absl::StrCat(message, "names thread ", outside._Find_first(),
                                threads_.count == problem_.threads.count
                                    ? ", which the block does not have"
                                    : ", which is not one of this T.ws"),
                   absl::StrCat("name threads ", threads_.first, " to ",
                                threads_.first + threads_.count - 1));
    }
    return held;
  }

  absl::Status TooLarge(SourceLoc loc, absl::string_view what) const {
    return Error(loc, absl::StrCat(what, " of more than ", kMaxTileElements, " elements"),
                 "use smaller tiles", absl::StatusCode::kResourceExhausted);
  }

  absl::Status VisitStore(const ir::Store& store) {
    for (const Expr& index : store.indices) KILN_RETURN_IF_ERROR(Reads(index, store.loc));
    const auto happen = [&]() -> absl::Status {
      KILN_RETURN_IF_ERROR(Reads(store.value, store.loc));
      return Touch(store.buffer, store.indices, store.predicate, /*write=*/true, store.loc);
    };
    if (!store.predicate.defined()) return happen();
    KILN_RETURN_IF_ERROR(Reads(store.predicate, store.loc));
    return Under(store.predicate, happen);
  }

  absl::Status VisitAtomic(const ir::Atomic& atomic) {
    if (!atomic.value.defined()) {
      return absl::InternalError("layout inference needs tile atomics lowered to loops first");
    }
    KILN_RETURN_IF_ERROR(Reads(atomic.value, atomic.loc));
    for (const ir::Range& range : atomic.dst.ranges) {
      KILN_RETURN_IF_ERROR(Reads(range.min, atomic.loc));
    }
    if (fragments_.count(atomic.dst.buffer.get()) > 0) {
      return Error(atomic.loc, "an atomic update of a fragment",
                   "update a shared or global buffer");
    }
    const int64_t widest =
        atomic.op == ir::AtomicOp::kAdd && atomic.dst.buffer->scope == ir::Scope::kGlobal &&
                !atomic.way.previous && atomic.way.order == ir::MemoryOrder::kRelaxed
            ? target::WidestAtomicAdd(gpu_, atomic.dst.buffer->dtype)
            : 1;
    width_ = std::min(width_, std::max<int64_t>(widest, 1));
    if (widest < 2 || operation_ == nullptr || axes_.empty()) return absl::OkStatus();
    std::vector<Expr> indices;
    for (const ir::Range& range : atomic.dst.ranges) indices.push_back(range.min);
    TouchMemory(atomic.dst.buffer, indices, {}, /*write=*/true);
    for (const Expr& guard : guards_) {
      const Expr closed = ir::Substitute(guard, binds_);
      width_ = std::min(width_, GuardWidth(closed, axes_.back(), facts_));
    }
    return absl::OkStatus();
  }

  absl::Status VisitReduce(const Stmt& s, const ir::Reduce& reduce) {
    if (operation_ != nullptr) {
      return Error(reduce.loc, "a reduction inside of a parallel loop", "reduce outside of it");
    }
    Operation op;
    op.kind = OperationKind::kReduce;
    op.stmt = s;
    op.loc = reduce.loc;
    op.reduced_dim = reduce.dim;
    op.threads = threads_;
    op.name = absl::StrCat("reduction ", problem_.operations.size() + 1);
    for (const ir::Region* region : {&reduce.src, &reduce.dst}) {
      KILN_ASSIGN_OR_RETURN(FragmentUse use, WholeRegion(*region, "a reduction", reduce.loc));
      use.reads = region == &reduce.src || !reduce.clear;
      use.writes = region == &reduce.dst;
      TouchedHere(use.fragment, use.writes, false, reduce.loc);
      if (use.reads && !use.writes) op.extents = Extents(*region);
      op.uses.push_back(std::move(use));
    }
    op.iterations = static_cast<int64_t>(op.uses[0].elements[0].size());
    problem_.operations.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status VisitGemm(const Stmt& s, const ir::Gemm& gemm) {
    if (operation_ != nullptr) {
      return Error(gemm.loc, "a matrix product inside of a parallel loop",
                   "multiply outside of it");
    }
    if (gemm.c.buffer->scope == ir::Scope::kTensor) return absl::OkStatus();  // of no fragment
    Operation op;
    op.kind = OperationKind::kGemm;
    op.stmt = s;
    op.loc = gemm.loc;
    op.threads = threads_;
    op.name = absl::StrCat("gemm ", problem_.operations.size() + 1);
    const ProductPlan& plan = products_.plans.at(s.get());
    op.unit = plan.unit;
    op.why_unit = plan.why_not;
    op.grid = plan.grid;
    op.a_swizzle = plan.a_swizzle;
    op.b_swizzle = plan.b_swizzle;
    KILN_RETURN_IF_ERROR(AddAnchor(gemm.c, plan.c, /*writes=*/true, &op));
    const auto dims = *ir::MatrixDims(gemm.c);
    op.extents = {*ir::ConstInt(gemm.c.ranges[dims.first].extent),
                  *ir::ConstInt(gemm.c.ranges[dims.second].extent)};
    op.iterations = plan.c.size();
    if (plan.a) KILN_RETURN_IF_ERROR(AddAnchor(gemm.a, *plan.a, /*writes=*/false, &op));
    problem_.operations.push_back(std::move(op));
    return absl::OkStatus();
  }

  // Between tensor memory and a fragment, which lies as the instruction has it.
  absl::Status VisitMove(const Stmt& s, const ir::Region& sums, const ir::Region& fragment,
                         bool writes) {
    Operation op;
    op.kind = OperationKind::kMove;
    op.stmt = s;
    op.loc = s->loc;
    op.threads = threads_;
    op.name = absl::StrCat("move ", problem_.operations.size() + 1);
    const ProductPlan& plan = products_.sums.at(sums.buffer.get());
    op.unit = plan.unit;
    op.grid = plan.grid;
    KILN_RETURN_IF_ERROR(AddAnchor(fragment, plan.c, writes, &op));
    op.uses[0].reads = !writes;
    op.extents = Extents(fragment);
    op.iterations = plan.c.size();
    problem_.operations.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status AddAnchor(const ir::Region& region, const layout::Layout& held, bool writes,
                         Operation* op) {
    KILN_ASSIGN_OR_RETURN(FragmentUse use, WholeRegion(region, "a matrix product", op->loc));
    use.reads = true;
    use.writes = writes;
    TouchedHere(use.fragment, writes, false, op->loc);
    KILN_ASSIGN_OR_RETURN(layout::Ownership anchor, layout::Ownership::Of(held, held.size()));
    op->uses.push_back(std::move(use));
    op->anchors.push_back(std::move(anchor));
    return absl::OkStatus();
  }

  static std::vector<int64_t> Extents(const ir::Region& region) {
    std::vector<int64_t> extents;
    for (const ir::Range& range : region.ranges) {
      extents.push_back(ir::ConstInt(range.extent).value_or(-1));
    }
    return extents;
  }

  // A region of a fragment as a use, its elements in row-major order.
  absl::StatusOr<FragmentUse> WholeRegion(const ir::Region& region, absl::string_view what,
                                          SourceLoc loc) {
    const auto it = fragments_.find(region.buffer.get());
    if (it == fragments_.end()) {
      return Error(loc,
                   absl::StrCat(what, " of '", region.buffer->name,
                                "', which is no fragment, has no thread-level form yet"),
                   "copy it to a fragment first", absl::StatusCode::kUnimplemented);
    }
    FragmentUse use;
    use.fragment = it->second;
    use.loc = loc;
    use.text = ir::ToString(region);
    const Fragment& fragment = problem_.fragments[it->second];
    std::vector<int64_t> mins, extents = Extents(region);
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const auto min = ir::ConstInt(ir::Substitute(region.ranges[d].min, binds_));
      if (!min || extents[d] < 0) {
        return Error(loc, absl::StrCat("the region ", use.text, " is not constant"),
                     "use a constant part of the fragment", absl::StatusCode::kUnimplemented);
      }
      if (*min < 0 || *min + extents[d] > fragment.shape[d]) {
        return Error(loc, absl::StrCat(use.text, " leaves its fragment"), "use a part that exists");
      }
      mins.push_back(*min);
    }
    use.elements.emplace_back();
    KILN_RETURN_IF_ERROR(ForEachPoint(mins, extents, [&](const std::vector<int64_t>& at) {
      int64_t flat = 0;
      for (size_t d = 0; d < at.size(); ++d) flat = flat * fragment.shape[d] + at[d];
      use.elements[0].push_back(flat);
      return absl::OkStatus();
    }));
    return use;
  }

  // ---- accesses ----

  absl::Status Reads(const Expr& e, SourceLoc loc) {
    absl::Status status = absl::OkStatus();
    ir::Walk(e, [&](const Expr& x) {
      if (!status.ok()) return false;
      if (const auto* select = x.As<ir::Select>()) {
        status = ReadsOfSelect(*select, loc);
        return false;
      }
      const auto* load = x.As<ir::Load>();
      if (load == nullptr) return true;
      const auto touch = [&] {
        return Touch(load->buffer, load->indices, load->predicate, /*write=*/false, loc);
      };
      status = load->predicate.defined() ? Under(load->predicate, touch) : touch();
      return status.ok();
    });
    return status;
  }

  absl::Status ReadsOfSelect(const ir::Select& select, SourceLoc loc) {
    KILN_RETURN_IF_ERROR(Reads(select.condition, loc));
    KILN_RETURN_IF_ERROR(Under(select.condition, [&] { return Reads(select.a, loc); }));
    return Under(Not(select.condition), [&] { return Reads(select.b, loc); });
  }

  absl::Status Touch(const ir::Buffer& buffer, const std::vector<Expr>& indices,
                     const Expr& predicate, bool write, SourceLoc loc) {
    const auto it = fragments_.find(buffer.get());
    if (it == fragments_.end()) {
      if (operation_ != nullptr) TouchMemory(buffer, indices, predicate, write);
      return absl::OkStatus();
    }
    TouchedHere(it->second, write, operation_ == nullptr, loc);
    if (operation_ == nullptr) {
      problem_.fragments[it->second].floating = true;
      return absl::OkStatus();
    }
    std::vector<Expr> closed;
    for (const Expr& index : indices) closed.push_back(ir::Substitute(index, binds_));
    KILN_ASSIGN_OR_RETURN(FragmentUse use,
                          Evaluate(it->second, closed, TextOf(buffer, indices), loc));
    for (FragmentUse& other : operation_->uses) {
      if (other.fragment != use.fragment || other.elements != use.elements) continue;
      other.reads |= !write;
      other.writes |= write;
      return absl::OkStatus();
    }
    use.reads = !write;
    use.writes = write;
    operation_->uses.push_back(std::move(use));
    return absl::OkStatus();
  }

  void TouchMemory(const ir::Buffer& buffer, const std::vector<Expr>& indices,
                   const Expr& predicate, bool write) {
    if (!IsMemory(buffer)) return;
    if (axes_.empty() || !buffer->layout.empty()) {
      width_ = 1;
      return;
    }
    MemoryAccess access = {buffer, {}, axes_, mins_, operation_->extents, serial_, write, {}, {}};
    for (const Expr& index : indices) access.indices.push_back(ir::Substitute(index, binds_));
    Complete(facts_, &shared_, &access);
    width_ = std::min(width_, WidthOf(access, facts_));
    if (predicate.defined()) {
      const Expr guard = ir::Substitute(predicate, binds_);
      width_ = std::min(width_, GuardWidth(guard, axes_.back(), facts_));
    }
    operation_->accesses.push_back(std::move(access));
  }

  static std::string TextOf(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    const auto print = [](std::string* out, const Expr& e) {
      absl::StrAppend(out, ir::ToString(e));
    };
    return absl::StrCat(buffer->name, "[", absl::StrJoin(indices, ", ", print), "]");
  }

  absl::Status TooManyAccesses(SourceLoc loc) const {
    return Error(loc, absl::StrCat("more than ", kMaxAccesses, " accesses of the loop's elements"),
                 "use smaller tiles or fewer serial iterations",
                 absl::StatusCode::kResourceExhausted);
  }

  absl::StatusOr<FragmentUse> Evaluate(int fragment, const std::vector<Expr>& indices,
                                       std::string text, SourceLoc loc) {
    FragmentUse use;
    use.fragment = fragment;
    use.loc = loc;
    const Fragment& info = problem_.fragments[fragment];
    use.text = std::move(text);
    std::vector<Expr> variables = axes_;
    std::vector<int64_t> serial_mins, serial_extents;
    for (const SerialVariable& v : serial_) {
      const bool used = std::any_of(indices.begin(), indices.end(),
                                    [&](const Expr& e) { return ir::Uses(e, v.var); });
      if (!used) continue;
      variables.push_back(v.var);
      serial_mins.push_back(v.min);
      serial_extents.push_back(v.extent);
    }
    std::vector<ir::IntFunction> functions;
    use.constant = true;
    for (const Expr& index : indices) {
      absl::StatusOr<ir::IntFunction> function = ir::IntFunction::Of(index, variables);
      if (!function.ok()) {
        return Error(loc, absl::StrCat(use.text, ": ", function.status().message()),
                     "index fragments by loop variables and constants",
                     absl::StatusCode::kFailedPrecondition);
      }
      functions.push_back(*std::move(function));
      use.constant &= ir::ConstInt(index).has_value();
    }
    std::vector<ir::IntFunction> conditions;  // those whose outcome is known here
    for (const Expr& guard : guards_) {
      if (!guard.defined()) continue;
      absl::StatusOr<ir::IntFunction> condition = ir::IntFunction::Of(guard, variables);
      if (condition.ok()) conditions.push_back(*std::move(condition));
    }
    KILN_RETURN_IF_ERROR(
        ForEachPoint(serial_mins, serial_extents, [&](const std::vector<int64_t>& serial) {
          return EvaluateOnce(info, functions, conditions, serial, &use);
        }));
    return use;
  }

  absl::Status EvaluateOnce(const Fragment& info, const std::vector<ir::IntFunction>& functions,
                            const std::vector<ir::IntFunction>& conditions,
                            const std::vector<int64_t>& serial, FragmentUse* use) {
    accesses_ += operation_->iterations;
    if (accesses_ > kMaxAccesses) return TooManyAccesses(use->loc);
    std::vector<int64_t> elements;
    if (conditions.empty() && ElementsAtOnce(info, functions, serial, &elements)) {
      AddElements(std::move(elements), use);
      return absl::OkStatus();
    }
    elements.clear();
    elements.reserve(operation_->iterations);
    std::vector<int64_t> values(axes_.size() + serial.size());
    std::copy(serial.begin(), serial.end(), values.begin() + static_cast<int64_t>(axes_.size()));
    KILN_RETURN_IF_ERROR(
        ForEachPoint(mins_, operation_->extents, [&](const std::vector<int64_t>& at) {
          std::copy(at.begin(), at.end(), values.begin());
          for (const ir::IntFunction& condition : conditions) {
            if (condition(values) != 0) continue;
            elements.push_back(-1);
            return absl::OkStatus();
          }
          int64_t flat = 0;
          bool inside = true;
          for (size_t d = 0; d < functions.size(); ++d) {
            const std::optional<int64_t> index = functions[d](values);
            inside = inside && index && *index >= 0 && *index < info.shape[d];
            if (inside) flat = flat * info.shape[d] + *index;
          }
          if (!inside && guards_.empty()) {
            return Error(
                use->loc,
                absl::StrCat(use->text, " leaves its fragment at (", absl::StrJoin(at, ", "), ")"),
                "guard the access, or allocate a larger fragment");
          }
          elements.push_back(inside ? flat : -1);
          return absl::OkStatus();
        }));
    AddElements(std::move(elements), use);
    return absl::OkStatus();
  }

  // The elements of all iterations, index by index; false where one has none and is to be told of.
  bool ElementsAtOnce(const Fragment& info, const std::vector<ir::IntFunction>& functions,
                      const std::vector<int64_t>& serial, std::vector<int64_t>* elements) const {
    std::vector<int64_t> mins = mins_, extents = operation_->extents;
    mins.insert(mins.end(), serial.begin(), serial.end());
    extents.resize(mins.size(), 1);
    std::vector<int64_t>& flat = *elements;
    flat.assign(static_cast<size_t>(operation_->iterations), 0);
    for (size_t d = 0; d < functions.size(); ++d) {
      const std::optional<std::vector<int64_t>> index = functions[d].Over(mins, extents);
      if (!index) return false;
      const int64_t extent = info.shape[d];
      for (size_t i = 0; i < flat.size(); ++i) {
        const int64_t at = (*index)[i];
        const bool inside = flat[i] >= 0 && at >= 0 && at < extent;
        flat[i] = inside ? flat[i] * extent + at : -1;
      }
    }
    return !guards_.empty() || std::find(flat.begin(), flat.end(), -1) == flat.end();
  }

  static void AddElements(std::vector<int64_t> elements, FragmentUse* use) {
    const auto& known = use->elements;
    if (std::find(known.begin(), known.end(), elements) == known.end()) {
      use->elements.push_back(std::move(elements));
    }
  }

  const ir::Program& program_;
  const target::Arch& gpu_;
  LayoutProblem problem_;
  std::unordered_map<const ir::BufferNode*, int> fragments_;
  const std::map<std::string, std::string>* notes_ = nullptr;  // of the launch
  struct PartTouch {
    int fragment;
    bool writes, floating;
    layout::ThreadRange threads;
    SourceLoc loc;
  };
  std::vector<PartTouch> touches_;
  layout::ThreadRange threads_;  // that run what is being visited
  ProductsOfLaunch products_;
  SharedLayouts shared_;
  ir::VarMap binds_;
  ir::Facts facts_;
  std::vector<SerialVariable> serial_;  // in scope, outermost first
  std::vector<Expr> guards_;  // conditions between the operation and here; undefined: unknown
  int64_t accesses_ = 0;
  Operation* operation_ = nullptr;  // the parallel loop that is being visited
  std::vector<Expr> axes_;          // its variables
  std::vector<int64_t> mins_;
  int64_t width_ = 1;
};

}  // namespace

std::vector<int> FragmentsOf(const Operation& op) {
  std::vector<int> found;
  for (const FragmentUse& use : op.uses) {
    if (std::find(found.begin(), found.end(), use.fragment) == found.end()) {
      found.push_back(use.fragment);
    }
  }
  return found;
}

absl::StatusOr<LayoutProblem> CollectLayoutProblem(const ir::Program& program,
                                                   const ir::Launch& launch,
                                                   const target::Arch& gpu) {
  return Collector(program, gpu).Collect(launch);
}

}  // namespace kiln::passes
