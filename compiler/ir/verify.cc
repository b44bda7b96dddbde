#include "compiler/ir/verify.h"

#include <set>
#include <string>
#include <unordered_set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/sparse.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

enum class Loop { kNone, kBreakable, kOther };

struct Where {
  Loop loop = Loop::kNone;
  bool in_launch = false;
  bool spread = false;                 // inside of a parallel loop or of one over threads
  int64_t first = 0, end = INT64_MAX;  // threads of the OnThreads that it is inside of
};

class Verifier {
 public:
  absl::Status Run(const Program& program);

 private:
  absl::Status Fail(SourceLoc loc, std::string what) const;
  absl::Status DefineVar(const Expr& var, SourceLoc loc);
  absl::Status DefineBuffer(const Buffer& b, SourceLoc loc);
  absl::Status CheckParams(const Program& program);

  absl::Status CheckExpr(const Expr& e, SourceLoc loc);
  absl::Status CheckExprNode(const Expr& e, SourceLoc loc);
  absl::Status CheckAccess(const Buffer& b, const std::vector<Expr>& indices, const Expr& predicate,
                           SourceLoc loc);
  absl::Status CheckRow(const Buffer& b, const std::vector<Expr>& indices, SourceLoc loc);
  absl::Status CheckIndex(const Expr& e, const char* what, SourceLoc loc);
  absl::Status CheckCondition(const Expr& e, SourceLoc loc);
  absl::Status CheckBuffer(const Buffer& b, SourceLoc loc);
  absl::Status CheckRanges(const Region& r, SourceLoc loc);
  absl::Status CheckInstruct(const Instruct& x, Where where);
  absl::Status CheckRegion(const Region& r, SourceLoc loc);

  absl::Status CheckStmt(const Stmt& s, Where where);
  absl::Status CheckSeq(const Seq& x, Where where);
  absl::Status CheckFor(const For& x, Where where);
  absl::Status CheckLaunch(const Launch& x, Where where);
  absl::Status CheckAxis(const Axis& axis, SourceLoc loc);
  absl::Status CheckStore(const Store& x);
  absl::Status CheckAlloc(const Alloc& x);
  absl::Status CheckValues(const Alloc& x);
  absl::Status CheckCopy(const Copy& x);
  absl::Status CheckGemm(const Gemm& x);
  absl::Status CheckMetadata(const Gemm& x, const Expr& rows, const Expr& kept);
  absl::Status CheckPairGemm(const PairGemm& x);
  absl::Status CheckFill(const Fill& x);
  absl::Status CheckReduce(const Reduce& x);
  absl::Status CheckScan(const Scan& x);
  absl::Status CheckAtomic(const Atomic& x);

  const SourceFile* source_ = nullptr;
  std::unordered_set<const ExprNode*> bound_, visible_vars_;
  std::unordered_set<const BufferNode*> allocated_, visible_buffers_;
  const Axis* thread_ = nullptr;  // of the loop over threads around this
};

bool Differ(const Expr& a, const Expr& b) {
  const auto x = ConstInt(a), y = ConstInt(b);
  return x && y && *x != *y;
}

absl::Status Verifier::Fail(SourceLoc loc, std::string what) const {
  if (!loc.known()) return absl::InternalError(absl::StrCat("invalid program: ", what));
  return absl::InternalError(absl::StrCat("invalid program: ", source_ ? source_->path : "line",
                                          ":", loc.line, ":", loc.column, ": ", what));
}

absl::Status Verifier::DefineVar(const Expr& var, SourceLoc loc) {
  if (!var.As<Var>()) return Fail(loc, "something that is not a variable is bound");
  if (!bound_.insert(var.get()).second) {
    return Fail(loc, absl::StrCat("variable '", var.As<Var>()->name, "' is bound twice"));
  }
  visible_vars_.insert(var.get());
  return absl::OkStatus();
}

absl::Status Verifier::DefineBuffer(const Buffer& b, SourceLoc loc) {
  if (!b) return Fail(loc, "an undefined buffer is allocated");
  if (!allocated_.insert(b.get()).second) {
    return Fail(loc, absl::StrCat("buffer '", b->name, "' is allocated twice"));
  }
  if (!b->strides.empty() && b->strides.size() != b->shape.size()) {
    return Fail(loc, absl::StrCat("buffer '", b->name, "' has ", b->strides.size(), " strides for ",
                                  b->shape.size(), " dimensions"));
  }
  if (b->table && (b->shape.size() < 2 || b->dtype.is_packed())) {
    return Fail(loc, absl::StrCat("the table '", b->name, "' holds no tensors of whole bytes"));
  }
  for (const Expr& e : b->shape) KILN_RETURN_IF_ERROR(CheckIndex(e, "a buffer's extent", loc));
  for (const Expr& e : b->strides) KILN_RETURN_IF_ERROR(CheckIndex(e, "a buffer's stride", loc));
  visible_buffers_.insert(b.get());
  return absl::OkStatus();
}

absl::Status Verifier::CheckParams(const Program& program) {
  std::set<std::string> names;
  for (const Expr& dim : program.dims) KILN_RETURN_IF_ERROR(DefineVar(dim, {}));
  for (const Param& param : program.params) {
    if (!names.insert(param.name).second) {
      return Fail({}, absl::StrCat("two parameters are named '", param.name, "'"));
    }
    if (param.kind == Param::kScalar) KILN_RETURN_IF_ERROR(DefineVar(param.scalar, {}));
  }
  for (const Param& param : program.params) {
    if (param.kind != Param::kTensor) continue;
    KILN_RETURN_IF_ERROR(DefineBuffer(param.buffer, {}));
    if (param.buffer->scope != Scope::kGlobal) {
      return Fail({}, absl::StrCat("parameter '", param.name, "' is not in global memory"));
    }
  }
  return absl::OkStatus();
}

absl::Status Verifier::Run(const Program& program) {
  source_ = program.source.get();
  KILN_RETURN_IF_ERROR(CheckParams(program));
  return CheckStmt(program.body, {});
}

absl::Status Verifier::CheckExpr(const Expr& e, SourceLoc loc) {
  if (!e.defined()) return Fail(loc, "an undefined expression");
  absl::Status status;
  Walk(e, [&](const Expr& x) {
    if (status.ok()) status = CheckExprNode(x, loc);
    return status.ok();
  });
  return status;
}

absl::Status Verifier::CheckExprNode(const Expr& e, SourceLoc loc) {
  const auto mismatch = [&] {
    return Fail(loc, absl::StrCat("operand types do not match in ", ToString(e)));
  };
  if (e.kind() == ExprKind::kVar && !visible_vars_.count(e.get())) {
    return Fail(loc, absl::StrCat("variable '", e.As<Var>()->name, "' is used outside its scope"));
  }
  if (const auto* x = e.As<Unary>()) {
    if (!x->a.defined()) return Fail(loc, "an undefined operand");
    if (x->a.dtype() != e.dtype()) return mismatch();
  } else if (const auto* x = e.As<Binary>()) {
    if (!x->a.defined() || !x->b.defined()) return Fail(loc, "an undefined operand");
    const DType result = IsComparison(x->op) ? kBool.with_lanes(x->a.dtype().lanes) : x->a.dtype();
    if (x->a.dtype() != x->b.dtype() || result != e.dtype()) return mismatch();
  } else if (const auto* x = e.As<Select>()) {
    if (!x->condition.defined() || !x->a.defined() || !x->b.defined()) {
      return Fail(loc, "an undefined operand");
    }
    if (!x->condition.dtype().is_bool()) return Fail(loc, "a select's condition is not a bool");
    if (x->a.dtype() != e.dtype() || x->b.dtype() != e.dtype()) return mismatch();
  } else if (const auto* x = e.As<Cast>()) {
    if (!x->a.defined()) return Fail(loc, "an undefined operand");
    if (x->a.dtype().lanes != e.dtype().lanes) return mismatch();
  } else if (const auto* x = e.As<Load>()) {
    KILN_RETURN_IF_ERROR(CheckAccess(x->buffer, x->indices, x->predicate, loc));
    if (e.dtype().element() != x->buffer->dtype) return mismatch();
    if (!x->indices.empty() && e.dtype().lanes != x->indices.back().dtype().lanes) {
      return mismatch();
    }
  } else if (const auto* x = e.As<Call>()) {
    for (const Expr& arg : x->args) {
      if (!arg.defined()) return Fail(loc, "an undefined operand");
    }
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckIndex(const Expr& e, const char* what, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(CheckExpr(e, loc));
  if (!e.dtype().is_int()) {
    return Fail(loc, absl::StrCat(what, " is not an integer: ", ToString(e)));
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckCondition(const Expr& e, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(CheckExpr(e, loc));
  if (e.dtype() == kBool) return absl::OkStatus();
  return Fail(loc, absl::StrCat("a condition is not a bool: ", ToString(e)));
}

absl::Status Verifier::CheckBuffer(const Buffer& b, SourceLoc loc) {
  if (!b) return Fail(loc, "an undefined buffer");
  if (visible_buffers_.count(b.get())) return absl::OkStatus();
  return Fail(loc, absl::StrCat("buffer '", b->name, "' is used outside its scope"));
}

absl::Status Verifier::CheckAccess(const Buffer& b, const std::vector<Expr>& indices,
                                   const Expr& predicate, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(CheckBuffer(b, loc));
  if (indices.size() != b->shape.size()) {
    return Fail(loc, absl::StrCat("'", b->name, "' has ", b->shape.size(), " dimensions and ",
                                  indices.size(), " indices"));
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    KILN_RETURN_IF_ERROR(CheckIndex(indices[i], "an index", loc));
    const int lanes = indices[i].dtype().lanes;
    if (lanes != 1 && lanes != indices.back().dtype().lanes) {
      return Fail(loc, absl::StrCat("the indices of '", b->name, "' have different lanes"));
    }
  }
  if (b->scope == Scope::kRegister) KILN_RETURN_IF_ERROR(CheckRow(b, indices, loc));
  if (!predicate.defined()) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(CheckExpr(predicate, loc));
  return predicate.dtype().is_bool() ? absl::OkStatus() : Fail(loc, "a predicate is not a bool");
}

// A thread touches its own registers, and so that nobody has to know who runs, no others.
absl::Status Verifier::CheckRow(const Buffer& b, const std::vector<Expr>& indices, SourceLoc loc) {
  if (indices.empty())
    return Fail(loc, absl::StrCat("'", b->name, "' has no dimension of threads"));
  const bool constant = ConstInt(indices[0]).has_value();
  const bool own =
      thread_ != nullptr && (indices[0].same_as(thread_->var) ||
                             (IsConst(thread_->extent, 1) && Same(indices[0], thread_->min)));
  if (thread_ != nullptr ? own : constant) return absl::OkStatus();
  return Fail(loc, absl::StrCat("'", b->name, "' is touched at row ", ToString(indices[0]),
                                thread_ != nullptr ? ", which is not the thread's own"
                                                   : " outside of a loop over threads"));
}

absl::Status Verifier::CheckRegion(const Region& r, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(CheckBuffer(r.buffer, loc));
  if (r.buffer->scope == Scope::kRegister || r.buffer->scope == Scope::kConstant) {
    return Fail(loc, absl::StrCat("a tile operation on '", r.buffer->name, "'"));
  }
  return CheckRanges(r, loc);
}

absl::Status Verifier::CheckRanges(const Region& r, SourceLoc loc) {
  if (r.ranges.size() != r.buffer->shape.size()) {
    return Fail(loc, absl::StrCat("'", r.buffer->name, "' has ", r.buffer->shape.size(),
                                  " dimensions and ", r.ranges.size(), " ranges"));
  }
  for (const Range& range : r.ranges) {
    KILN_RETURN_IF_ERROR(CheckIndex(range.min, "a range's start", loc));
    KILN_RETURN_IF_ERROR(CheckIndex(range.extent, "a range's extent", loc));
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckStmt(const Stmt& s, Where where) {
  if (!s.defined()) return Fail({}, "an undefined statement");
  const SourceLoc loc = s->loc;
  switch (s.kind()) {
    case StmtKind::kSeq:
      return CheckSeq(*s.As<Seq>(), where);
    case StmtKind::kFor:
      return CheckFor(*s.As<For>(), where);
    case StmtKind::kLaunch:
      return CheckLaunch(*s.As<Launch>(), where);
    case StmtKind::kWhile:
      KILN_RETURN_IF_ERROR(CheckCondition(s.As<While>()->condition, loc));
      where.loop = Loop::kBreakable;
      return CheckStmt(s.As<While>()->body, where);
    case StmtKind::kIf: {
      const auto* x = s.As<If>();
      KILN_RETURN_IF_ERROR(CheckCondition(x->condition, loc));
      KILN_RETURN_IF_ERROR(CheckStmt(x->then_case, where));
      return x->else_case.defined() ? CheckStmt(x->else_case, where) : absl::OkStatus();
    }
    case StmtKind::kOnThreads: {
      const auto* x = s.As<OnThreads>();
      if (!where.in_launch) return Fail(loc, "threads outside of a launch");
      if (where.spread) return Fail(loc, "a part of a block inside of a parallel loop");
      if (x->first < 0 || x->count < 1) return Fail(loc, "a part of a block without threads");
      if (x->first < where.first || x->first + x->count > where.end) {
        return Fail(loc, "a part of a block with threads of another part");
      }
      where.first = x->first;
      where.end = x->first + x->count;
      where.loop = Loop::kNone;  // the others would go on
      return CheckStmt(x->body, where);
    }
    case StmtKind::kBind: {
      const auto* x = s.As<Bind>();
      KILN_RETURN_IF_ERROR(CheckExpr(x->value, loc));
      KILN_RETURN_IF_ERROR(DefineVar(x->var, loc));
      if (x->var.dtype() == x->value.dtype()) return absl::OkStatus();
      return Fail(loc, absl::StrCat("'", x->var.As<Var>()->name, "' is ", x->var.dtype().ToString(),
                                    " and its value is ", x->value.dtype().ToString()));
    }
    case StmtKind::kAlloc:
      return CheckAlloc(*s.As<Alloc>());
    case StmtKind::kStore:
      return CheckStore(*s.As<Store>());
    case StmtKind::kCopy:
      return CheckCopy(*s.As<Copy>());
    case StmtKind::kGemm:
      return CheckGemm(*s.As<Gemm>());
    case StmtKind::kPairGemm:
      return CheckPairGemm(*s.As<PairGemm>());
    case StmtKind::kFill:
      return CheckFill(*s.As<Fill>());
    case StmtKind::kReduce:
      return CheckReduce(*s.As<Reduce>());
    case StmtKind::kScan:
      return CheckScan(*s.As<Scan>());
    case StmtKind::kPrint: {
      const auto* x = s.As<Print>();
      if (x->text.size() != x->values.size() + 1) return Fail(loc, "a line with too few pieces");
      for (const Expr& e : x->values) KILN_RETURN_IF_ERROR(CheckExpr(e, loc));
      return absl::OkStatus();
    }
    case StmtKind::kAtomic:
      return CheckAtomic(*s.As<Atomic>());
    case StmtKind::kInstruct:
      return CheckInstruct(*s.As<Instruct>(), where);
    case StmtKind::kEvaluate:
      return CheckExpr(s.As<Evaluate>()->value, loc);
    case StmtKind::kAssert:
      return CheckCondition(s.As<Assert>()->condition, loc);
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      if (where.loop == Loop::kBreakable) return absl::OkStatus();
      return Fail(loc, where.loop == Loop::kNone
                           ? "a break or continue outside a loop"
                           : "a break or continue in a loop that is not serial");
  }
  return Fail(loc, "an unknown statement");
}

absl::Status Verifier::CheckSeq(const Seq& x, Where where) {
  std::vector<const ExprNode*> vars;
  std::vector<const BufferNode*> buffers;
  for (const Stmt& s : x.stmts) {
    KILN_RETURN_IF_ERROR(CheckStmt(s, where));
    if (const auto* bind = s.As<Bind>()) vars.push_back(bind->var.get());
    if (const auto* alloc = s.As<Alloc>()) buffers.push_back(alloc->buffer.get());
  }
  for (const ExprNode* var : vars) visible_vars_.erase(var);
  for (const BufferNode* buffer : buffers) visible_buffers_.erase(buffer);
  return absl::OkStatus();
}

absl::Status Verifier::CheckAxis(const Axis& axis, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(CheckIndex(axis.min, "a loop's start", loc));
  KILN_RETURN_IF_ERROR(CheckIndex(axis.extent, "a loop's extent", loc));
  if (!axis.min.dtype().is_scalar() || !axis.extent.dtype().is_scalar()) {
    return Fail(loc, "a loop's range is a vector");
  }
  if (!axis.var.As<Var>() || !axis.var.dtype().is_int()) {
    return Fail(loc, "a loop's variable is not an integer variable");
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckFor(const For& x, Where where) {
  if (x.axes.empty() || (x.axes.size() > 1 && x.loop != ForKind::kParallel)) {
    return Fail(x.loc, absl::StrCat("a loop with ", x.axes.size(), " axes"));
  }
  for (const Axis& axis : x.axes) KILN_RETURN_IF_ERROR(CheckAxis(axis, x.loc));
  for (const Axis& axis : x.axes) KILN_RETURN_IF_ERROR(DefineVar(axis.var, x.loc));
  if (x.num_stages.defined()) {
    KILN_RETURN_IF_ERROR(CheckIndex(x.num_stages, "num_stages", x.loc));
  }
  if (x.loop == ForKind::kThreads && (!where.in_launch || where.spread)) {
    return Fail(x.loc, "a loop over threads that is not at the top of a block");
  }
  if (x.loop == ForKind::kParallel && thread_ != nullptr) {
    return Fail(x.loc, "a parallel loop inside of a loop over threads");
  }
  where.loop = x.loop == ForKind::kSerial ? Loop::kBreakable : Loop::kOther;
  where.spread |= x.loop == ForKind::kThreads || x.loop == ForKind::kParallel;
  const Axis* const outer = thread_;
  if (x.loop == ForKind::kThreads) thread_ = &x.axes[0];
  KILN_RETURN_IF_ERROR(CheckStmt(x.body, where));
  thread_ = outer;
  for (const Axis& axis : x.axes) visible_vars_.erase(axis.var.get());
  return absl::OkStatus();
}

absl::Status Verifier::CheckLaunch(const Launch& x, Where where) {
  if (where.in_launch) return Fail(x.loc, "a launch inside a launch");
  if (x.grid.empty() || x.grid.size() > 3) return Fail(x.loc, "a grid of no 1 to 3 axes");
  if (x.threads.empty() || x.threads.size() > 3) return Fail(x.loc, "threads of no 1 to 3 axes");
  for (const Axis& axis : x.grid) {
    KILN_RETURN_IF_ERROR(CheckAxis(axis, x.loc));
    if (!IsConst(axis.min, 0)) return Fail(x.loc, "a block axis does not start at 0");
  }
  for (const Expr& e : x.threads) KILN_RETURN_IF_ERROR(CheckIndex(e, "a thread extent", x.loc));
  for (const Axis& axis : x.grid) KILN_RETURN_IF_ERROR(DefineVar(axis.var, x.loc));
  where.in_launch = true;
  where.loop = Loop::kNone;
  KILN_RETURN_IF_ERROR(CheckStmt(x.body, where));
  for (const Axis& axis : x.grid) visible_vars_.erase(axis.var.get());
  return absl::OkStatus();
}

absl::Status Verifier::CheckValues(const Alloc& x) {
  if ((x.buffer->scope == Scope::kConstant) != (x.buffer->values != nullptr)) {
    return Fail(x.loc, absl::StrCat("'", x.buffer->name, "': constants have values, others none"));
  }
  if (!x.buffer->values) return absl::OkStatus();
  int64_t elements = 1;
  for (const Expr& extent : x.buffer->shape) elements *= ConstInt(extent).value_or(-1);
  if (elements == static_cast<int64_t>(x.buffer->values->size())) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("the table '", x.buffer->name, "' has ", x.buffer->values->size(),
                                  " values for its shape"));
}

absl::Status Verifier::CheckAlloc(const Alloc& x) {
  KILN_RETURN_IF_ERROR(DefineBuffer(x.buffer, x.loc));
  KILN_RETURN_IF_ERROR(CheckValues(x));
  const bool shared = x.buffer->scope == Scope::kShared || x.buffer->scope == Scope::kBarrier;
  if (x.buffer->blocks != 1 && (!shared || !IsConst(x.buffer->shape[0], x.buffer->blocks))) {
    return Fail(x.loc, absl::StrCat("'", x.buffer->name, "' of ", x.buffer->blocks,
                                    " blocks of a cluster has no dimension of their ranks"));
  }
  if (!x.init.defined()) return absl::OkStatus();
  visible_buffers_.erase(x.buffer.get());
  KILN_RETURN_IF_ERROR(CheckExpr(x.init, x.loc));
  visible_buffers_.insert(x.buffer.get());
  if (x.buffer->scope != Scope::kVar) {
    return Fail(x.loc, absl::StrCat("'", x.buffer->name, "' has an initial value and is no var"));
  }
  if (x.init.dtype() == x.buffer->dtype) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("the initial value of '", x.buffer->name, "' is ",
                                  x.init.dtype().ToString()));
}

absl::Status Verifier::CheckStore(const Store& x) {
  KILN_RETURN_IF_ERROR(CheckAccess(x.buffer, x.indices, x.predicate, x.loc));
  KILN_RETURN_IF_ERROR(CheckExpr(x.value, x.loc));
  if (x.buffer->scope == Scope::kConstant ||
      (x.buffer->scope == Scope::kRegister && thread_ == nullptr)) {
    return Fail(x.loc, absl::StrCat("a store to '", x.buffer->name,
                                    x.buffer->scope == Scope::kConstant
                                        ? "', a table of constants"
                                        : "', registers, outside of a loop over threads"));
  }
  const int lanes = x.indices.empty() ? 1 : x.indices.back().dtype().lanes;
  if (x.value.dtype() == x.buffer->dtype.with_lanes(lanes)) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("a ", x.value.dtype().ToString(), " is stored to '",
                                  x.buffer->name, "' of ", x.buffer->dtype.ToString(),
                                  lanes > 1 ? absl::StrCat(", ", lanes, " lanes") : ""));
}

absl::Status Verifier::CheckCopy(const Copy& x) {
  KILN_RETURN_IF_ERROR(CheckRegion(x.src, x.loc));
  KILN_RETURN_IF_ERROR(CheckRegion(x.dst, x.loc));
  if (PairDims(x.dst, x.src)) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("copy between regions of different shapes: ", ToString(x.src),
                                  " and ", ToString(x.dst)));
}

absl::Status Verifier::CheckGemm(const Gemm& x) {
  for (const Region* r : {&x.a, &x.b, &x.c}) KILN_RETURN_IF_ERROR(CheckRegion(*r, x.loc));
  KILN_RETURN_IF_ERROR(CheckCondition(x.clear_accum, x.loc));
  const auto a = MatrixDims(x.a), b = MatrixDims(x.b), c = MatrixDims(x.c);
  if (!a || !b || !c) return Fail(x.loc, "a gemm operand is not a matrix");
  const auto extent = [](const Region& r, int d) { return r.ranges[d].extent; };
  const Expr m = extent(x.a, x.trans_a ? a->second : a->first);
  Expr k = extent(x.a, x.trans_a ? a->first : a->second);
  if (x.sparse()) {
    KILN_RETURN_IF_ERROR(CheckMetadata(x, m, k));
    k = k * MakeInt(2);
  }
  const Expr k2 = extent(x.b, x.trans_b ? b->second : b->first);
  const Expr n = extent(x.b, x.trans_b ? b->first : b->second);
  if (Differ(k, k2) || Differ(m, extent(x.c, c->first)) || Differ(n, extent(x.c, c->second))) {
    return Fail(x.loc, absl::StrCat("gemm shapes do not match: ", ToString(x.a), ", ",
                                    ToString(x.b), ", ", ToString(x.c)));
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckMetadata(const Gemm& x, const Expr& rows, const Expr& kept) {
  KILN_RETURN_IF_ERROR(CheckRegion(x.e, x.loc));
  const auto dims = MatrixDims(x.e);
  const DType a = x.a.buffer->dtype, e = x.e.buffer->dtype;
  if (!dims || !HasSparseForm(a) || !IsMetadata(e)) {
    return Fail(x.loc, absl::StrCat("a sparse gemm of ", a.ToString(), " with metadata ",
                                    ToString(x.e), " of ", e.ToString()));
  }
  const auto extent = [&](int d) { return x.e.ranges[d].extent; };
  const Expr along_k = extent(x.trans_e ? dims->first : dims->second);
  const Expr along_m = extent(x.trans_e ? dims->second : dims->first);
  if (Differ(along_m, rows) ||
      Differ(along_k * MakeInt(DensePerMetadata(a, e)), kept * MakeInt(2))) {
    return Fail(x.loc,
                absl::StrCat("metadata does not match: ", ToString(x.a), " and ", ToString(x.e)));
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckPairGemm(const PairGemm& x) {
  for (const Region* r : {&x.a, &x.b, &x.c}) {
    KILN_RETURN_IF_ERROR(CheckRegion(*r, x.loc));
    if (r->ranges.size() < 2) return Fail(x.loc, "a pair_gemm operand is not a matrix");
  }
  if (x.a.buffer->dtype != kBFloat16 || x.b.buffer->dtype != kUInt32 ||
      x.c.buffer->dtype != kFloat32) {
    return Fail(x.loc,
                absl::StrCat("a pair_gemm of ", x.a.buffer->dtype.ToString(), " and ",
                             x.b.buffer->dtype.ToString(), " into ", x.c.buffer->dtype.ToString()));
  }
  const auto extent = [](const Region& r, int from_last) {
    return r.ranges[r.ranges.size() - 1 - from_last].extent;
  };
  if (Differ(extent(x.a, 0), extent(x.b, 1) * MakeInt(2)) ||
      Differ(extent(x.a, 1), extent(x.c, 1)) || Differ(extent(x.b, 0), extent(x.c, 0))) {
    return Fail(x.loc, absl::StrCat("pair_gemm shapes do not match: ", ToString(x.a), ", ",
                                    ToString(x.b), ", ", ToString(x.c)));
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckFill(const Fill& x) {
  KILN_RETURN_IF_ERROR(CheckRegion(x.dst, x.loc));
  KILN_RETURN_IF_ERROR(CheckExpr(x.value, x.loc));
  if (x.value.dtype() == x.dst.buffer->dtype) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("'", x.dst.buffer->name, "' is filled with a ",
                                  x.value.dtype().ToString()));
}

absl::Status Verifier::CheckReduce(const Reduce& x) {
  KILN_RETURN_IF_ERROR(CheckRegion(x.src, x.loc));
  KILN_RETURN_IF_ERROR(CheckRegion(x.dst, x.loc));
  if (ReduceDims(x.src, x.dst, x.dim)) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("reduce of ", ToString(x.src), " over dimension ", x.dim,
                                  " does not match ", ToString(x.dst)));
}

absl::Status Verifier::CheckScan(const Scan& x) {
  KILN_RETURN_IF_ERROR(CheckRegion(x.src, x.loc));
  KILN_RETURN_IF_ERROR(CheckRegion(x.dst, x.loc));
  const int rank = static_cast<int>(x.src.ranges.size());
  bool same = x.dst.ranges.size() == x.src.ranges.size() && x.dim >= 0 && x.dim < rank;
  for (int d = 0; same && d < rank; ++d) {
    same = !Differ(x.src.ranges[d].extent, x.dst.ranges[d].extent);
  }
  if (!same) {
    return Fail(x.loc, absl::StrCat("scan of ", ToString(x.src), " along dimension ", x.dim,
                                    " does not match ", ToString(x.dst)));
  }
  if (x.op == ReduceOp::kSum || x.op == ReduceOp::kMax || x.op == ReduceOp::kMin) {
    return absl::OkStatus();
  }
  return Fail(x.loc, "a scan that is no sum, maximum or minimum");
}

absl::Status Verifier::CheckInstruct(const Instruct& x, Where where) {
  if (!where.in_launch) {
    return Fail(x.loc, absl::StrCat(Name(x.op), " outside of a launch"));
  }
  const Operands wanted = OperandsOf(x.op);
  const bool fits = wanted.more || x.regions.size() == wanted.scopes.size();
  const int args = static_cast<int>(x.args.size());
  if (!fits || args < wanted.args || (args > wanted.args && !wanted.more_args)) {
    return Fail(x.loc,
                absl::StrCat(Name(x.op), " has ", x.regions.size(), " regions and ", x.args.size(),
                             " arguments; it takes ", wanted.scopes.size(), " and ", wanted.args));
  }
  for (size_t i = 0; i < x.regions.size(); ++i) {
    const Region& r = x.regions[i];
    KILN_RETURN_IF_ERROR(CheckBuffer(r.buffer, x.loc));
    KILN_RETURN_IF_ERROR(CheckRanges(r, x.loc));
    const size_t kind = std::min(i, wanted.scopes.size() - 1);
    if (absl::c_linear_search(wanted.scopes[kind], r.buffer->scope)) continue;
    return Fail(x.loc, absl::StrCat("operand ", i, " of ", Name(x.op), ", '", r.buffer->name,
                                    "', is in the wrong kind of memory"));
  }
  for (const Expr& e : x.args) KILN_RETURN_IF_ERROR(CheckExpr(e, x.loc));
  return absl::OkStatus();
}

absl::Status Verifier::CheckAtomic(const Atomic& x) {
  KILN_RETURN_IF_ERROR(CheckRegion(x.dst, x.loc));
  if (const Buffer& previous = x.way.previous) {
    KILN_RETURN_IF_ERROR(CheckBuffer(previous, x.loc));
    if (previous->dtype != x.dst.buffer->dtype || previous->shape.size() != 1 ||
        !x.value.defined()) {
      return Fail(x.loc, absl::StrCat("'", previous->name, "' is no place for a previous value"));
    }
  }
  if (!x.value.defined()) {
    KILN_RETURN_IF_ERROR(CheckRegion(x.src, x.loc));
    if (PairDims(x.dst, x.src)) return absl::OkStatus();
    return Fail(x.loc, "an atomic between regions of different shapes");
  }
  KILN_RETURN_IF_ERROR(CheckExpr(x.value, x.loc));
  for (const Range& range : x.dst.ranges) {
    if (!IsConst(range.extent, 1)) return Fail(x.loc, "an atomic of one value on a region");
  }
  if (x.value.dtype() == x.dst.buffer->dtype) return absl::OkStatus();
  return Fail(x.loc, absl::StrCat("a ", x.value.dtype().ToString(), " is added to '",
                                  x.dst.buffer->name, "'"));
}

}  // namespace

absl::Status Verify(const Program& program) { return Verifier().Run(program); }

}  // namespace kiln::ir
