// Loops and the T.Kernel block.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/extent.h"
#include "compiler/lang/iteration.h"

namespace kiln::lang {
namespace {

std::string TargetName(ast::ExprPtr target, size_t index, absl::string_view fallback) {
  if (target == nullptr) return std::string(fallback);
  if (const auto* name = target->As<ast::Name>()) return name->id;
  const std::vector<ast::ExprPtr>* items = nullptr;
  if (const auto* tuple = target->As<ast::Tuple>()) items = &tuple->items;
  if (const auto* list = target->As<ast::List>()) items = &list->items;
  if (items == nullptr || index >= items->size()) return std::string(fallback);
  if (const auto* name = (*items)[index]->As<ast::Name>()) return name->id;
  return std::string(fallback);
}

bool IsUnitStep(const Operand& step) { return !step.e.defined() || ir::IsConst(step.e, 1); }

// What a loop stores changes neither where its iterations begin nor how many there are, also where
// passes ask for that more than once.
absl::Status SettleExtents(Elaborator& e, SourceLoc loc, LoopObject* loop) {
  const auto settle = [&](Operand* operand, const char* name) -> absl::Status {
    if (!operand->e.defined() || !(operand->info.flags & ExprInfo::kLoads)) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(Value value, e.NewExpr(*operand, loc));
    KILN_ASSIGN_OR_RETURN(value, e.Freeze(value, name, loc));
    KILN_ASSIGN_OR_RETURN(*operand, e.ToOperand(value, loc, name));
    return absl::OkStatus();
  };
  if (loop->kind != ir::ForKind::kParallel && IsUnitStep(loop->step)) return absl::OkStatus();
  for (Operand& start : loop->starts) KILN_RETURN_IF_ERROR(settle(&start, "first"));
  for (Operand& extent : loop->extents) KILN_RETURN_IF_ERROR(settle(&extent, "count"));
  return settle(&loop->step, "step");
}

}  // namespace

absl::StatusOr<Flow> Elaborator::ExecFor(const ast::For& node) {
  if (node.is_async) {
    return Unimplemented(node.loc, "async is not in the kernel language", "use a plain for");
  }
  if (!node.otherwise.empty() && frame_->traced) {
    return Unimplemented(node.else_loc, "'else' on a loop is not in the kernel language",
                         "write the statements after the loop");
  }
  KILN_ASSIGN_OR_RETURN(const Value iterable, Eval(node.iterable));
  if (!frame_->traced) return ExecHostFor(node, iterable);
  if (iterable.Is(Type::kLoop)) {
    KILN_RETURN_IF_ERROR(iterable.loop().domain.empty() ? ExecIrLoop(node, iterable.loop())
                                                        : ExecPersistent(node, iterable.loop()));
    return Flow::kNormal;
  }
  if (iterable.Is(Type::kRange)) {
    auto* loop = arena_.New<LoopObject>();
    loop->name = "range";
    const RangeObject& range = iterable.range();
    KILN_ASSIGN_OR_RETURN(const Operand start,
                          ToOperand(Value::Int(range.start), node.loc, "the start"));
    loop->starts.push_back(start);
    KILN_ASSIGN_OR_RETURN(const Operand extent,
                          ToOperand(Value::Int(range.Count()), node.loc, "the extent"));
    loop->extents.push_back(extent);
    KILN_ASSIGN_OR_RETURN(loop->step, ToOperand(Value::Int(range.step), node.loc, "the step"));
    KILN_RETURN_IF_ERROR(ExecIrLoop(node, *loop));
    return Flow::kNormal;
  }
  if (iterable.Is(Type::kExpr) && launch_.IsIndex(iterable.expr().expr)) {
    // for i in T.thread_binding(n, thread="threadIdx.x"): each thread is at its own i.
    KILN_RETURN_IF_ERROR(AssignTo(node.target, iterable, /*fresh=*/true));
    return ExecBlock(node.body);
  }
  const bool data = iterable.is_sequence() || iterable.Is(Type::kLazy) ||
                    iterable.Is(Type::kDict) || iterable.Is(Type::kStr);
  if (data) {
    return Error(
        node.iterable->loc,
        absl::StrCat("a for statement in a kernel makes a run-time loop and cannot iterate "
                     "over ",
                     Describe(iterable)),
        "loop over T.unroll(n) or range(n); to build values at compile time use a "
        "comprehension or a recursive macro");
  }
  return Error(node.iterable->loc,
               absl::StrCat("a for statement in a kernel cannot iterate over ", Describe(iterable)),
               "loop over range, T.serial, T.unroll, T.vectorized, T.Parallel, T.Pipelined or "
               "T.grid");
}

absl::StatusOr<Flow> Elaborator::ExecHostFor(const ast::For& node, const Value& iterable) {
  if (iterable.Is(Type::kLoop)) {
    if (iterable.loop().domain.empty() && iterable.loop().extents[0].info.open_only()) {
      return NeedConcrete(node.iterable->loc, iterable.loop().extents[0].e,
                          "a loop of a plain function runs over it");
    }
    return Error(node.iterable->loc, absl::StrCat(iterable.loop().name, " in a plain function"),
                 "make the function a @T.macro");
  }
  auto body = [&](const Value& item) -> absl::StatusOr<Flow> {
    KILN_RETURN_IF_ERROR(Step(node.loc));
    KILN_RETURN_IF_ERROR(AssignTo(node.target, item));
    return ExecBlock(node.body);
  };
  bool broke = false;
  auto stop = [&](Flow flow) {
    broke = flow == Flow::kBreak;
    return broke || flow == Flow::kReturn || flow == Flow::kAbsent;
  };
  if (iterable.Is(Type::kRange)) {
    const RangeObject range = iterable.range();
    const int64_t count = range.Count();
    for (int64_t i = 0; i < count; ++i) {
      KILN_ASSIGN_OR_RETURN(const Flow flow, body(Value::Int(range.start + i * range.step)));
      if (stop(flow) && !broke) return flow;
      if (broke) break;
    }
  } else {
    KILN_ASSIGN_OR_RETURN(Iteration items, Iteration::Begin(*this, iterable, node.iterable->loc));
    for (size_t i = 0; i < items.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(const Flow flow, body(items.At(i)));
      if (stop(flow) && !broke) return flow;
      if (broke) break;
      KILN_RETURN_IF_ERROR(items.CheckUnchanged(*this, i));
    }
  }
  if (broke) return Flow::kNormal;
  return ExecBlock(node.otherwise);
}

absl::Status Elaborator::ExecIrLoop(const ast::For& node, LoopObject& loop) {
  KILN_RETURN_IF_ERROR(RequireLaunch(node.loc, absl::StrCat("the loop ", loop.name)));
  CountGuard depth(&depth_);
  KILN_RETURN_IF_ERROR(CheckDepth(node.loc));
  for (const Operand& extent : loop.extents) {
    // The body of a loop that never runs is not evaluated, as in Python.
    const auto count = ir::ConstInt(extent.e);
    if (count && *count <= 0) return absl::OkStatus();
  }
  std::vector<Value> values;
  if (loop.grid) return ExecIrAxis(node, loop, 0, &values);
  KILN_RETURN_IF_ERROR(SettleExtents(*this, node.loc, &loop));
  PushRegion(RegionKind::kLoop, node.loc, loop.kind);
  std::vector<ir::Axis> axes;
  for (size_t i = 0; i < loop.extents.size(); ++i) {
    const Operand& start = loop.starts[i];
    const Operand& extent = loop.extents[i];
    const DType type = ir::CommonType(start.e.dtype(), extent.e.dtype());
    const ir::Expr var = VarNamed(TargetName(node.target, i, "i"), type);
    ExprInfo info;
    info.flags = ExprInfo::kRuntime;
    KILN_ASSIGN_OR_RETURN(Value value, NewExpr(var, info, node.loc));
    const bool unit = IsUnitStep(loop.step);
    axes.push_back({var, unit ? ir::MakeCast(type, start.e) : ir::MakeInt(0, type),
                    ir::MakeCast(type, extent.e)});
    if (!unit) {
      KILN_ASSIGN_OR_RETURN(value,
                            NewExpr(start.e + var * loop.step.e, Join(start.info, info), node.loc));
    }
    values.push_back(value);
  }
  regions_.back().axes = axes;
  KILN_RETURN_IF_ERROR(ExecLoopBody(node, loop, std::move(values)));
  const std::vector<ir::Stmt> after = std::move(regions_.back().after);
  ir::Stmt body = ir::MakeSeq(PopRegion(), node.loc);
  KILN_RETURN_IF_ERROR(EmitNew<ir::For>(node.loc, loop.kind, std::move(axes), std::move(body),
                                        loop.num_stages, loop.annotations));
  for (const ir::Stmt& s : after) KILN_RETURN_IF_ERROR(Emit(node.loc, s));
  return absl::OkStatus();
}

// Tiles index, index + wave, ... of the domain, whose last axis is cut into panels of `group`: in a
// panel the other axes are walked from start to end, at every step over the panel's width. The last
// panel may be narrower, so that every tile has its turn.
absl::Status Elaborator::ExecPersistent(const ast::For& node, const LoopObject& loop) {
  const SourceLoc loc = node.iterable->loc;
  using ast::BinaryOp;
  const auto op = [&](BinaryOp what, const Value& a, const Value& b) {
    return this->BinaryOp(what, a, b, loc);
  };
  Value rows = Value::Int(1);
  for (size_t i = 0; i + 1 < loop.domain.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(rows, op(BinaryOp::kMul, rows, loop.domain[i]));
  }
  const Value last = loop.domain.back();
  KILN_ASSIGN_OR_RETURN(const Value total, op(BinaryOp::kMul, rows, last));
  KILN_ASSIGN_OR_RETURN(const Value left, op(BinaryOp::kSub, total, loop.index));
  KILN_ASSIGN_OR_RETURN(const Value turns, CeilDiv(left, loop.wave, loc));
  KILN_ASSIGN_OR_RETURN(const Value count, MinMax(true, turns, Value::Int(0), loc));
  KILN_ASSIGN_OR_RETURN(const Operand extent, ToIndex(count, loc, "the turns of T.Persistent"));
  KILN_ASSIGN_OR_RETURN(const Value group, MinMax(false, loop.group, last, loc));
  KILN_RETURN_IF_ERROR(RequireLaunch(node.loc, "the loop T.Persistent"));
  CountGuard depth(&depth_);
  KILN_RETURN_IF_ERROR(CheckDepth(node.loc));

  PushRegion(RegionKind::kLoop, node.loc, ir::ForKind::kSerial);
  const ir::Expr var = VarNamed("wave", extent.e.dtype());
  ExprInfo info;
  info.flags = ExprInfo::kRuntime;
  KILN_ASSIGN_OR_RETURN(const Value turn, NewExpr(var, info, loc));
  KILN_ASSIGN_OR_RETURN(Value tile, op(BinaryOp::kMul, turn, loop.wave));
  KILN_ASSIGN_OR_RETURN(tile, op(BinaryOp::kAdd, tile, loop.index));
  KILN_ASSIGN_OR_RETURN(tile, Freeze(tile, "tile", loc));
  KILN_ASSIGN_OR_RETURN(const Value panel, op(BinaryOp::kMul, rows, group));
  KILN_ASSIGN_OR_RETURN(const Value which, op(BinaryOp::kFloorDiv, tile, panel));
  KILN_ASSIGN_OR_RETURN(const Value base, op(BinaryOp::kMul, which, group));
  KILN_ASSIGN_OR_RETURN(const Value before, op(BinaryOp::kMul, which, panel));
  KILN_ASSIGN_OR_RETURN(Value rest, op(BinaryOp::kSub, tile, before));
  KILN_ASSIGN_OR_RETURN(Value width, op(BinaryOp::kSub, last, base));
  KILN_ASSIGN_OR_RETURN(width, MinMax(false, group, width, loc));
  KILN_ASSIGN_OR_RETURN(width, MinMax(true, width, Value::Int(1), loc));
  KILN_ASSIGN_OR_RETURN(const Value column, op(BinaryOp::kMod, rest, width));
  std::vector<Value> place(loop.domain.size());
  KILN_ASSIGN_OR_RETURN(place.back(), op(BinaryOp::kAdd, base, column));
  KILN_ASSIGN_OR_RETURN(rest, op(BinaryOp::kFloorDiv, rest, width));
  for (size_t i = place.size() - 1; i-- > 0;) {
    place[i] = rest;
    if (i == 0) break;
    KILN_ASSIGN_OR_RETURN(place[i], op(BinaryOp::kMod, rest, loop.domain[i]));
    KILN_ASSIGN_OR_RETURN(rest, op(BinaryOp::kFloorDiv, rest, loop.domain[i]));
  }
  for (size_t i = 0; i < place.size(); ++i) {
    if (!IsRuntime(place[i])) continue;
    KILN_ASSIGN_OR_RETURN(place[i], Freeze(place[i], TargetName(node.target, i, "i"), loc));
  }
  LoopObject named;
  named.name = loop.name;
  KILN_RETURN_IF_ERROR(ExecLoopBody(node, named, std::move(place)));
  ir::Stmt body = ir::MakeSeq(PopRegion(), node.loc);
  std::vector<ir::Axis> axes = {{var, ir::MakeInt(0, var.dtype()), extent.e}};
  return EmitNew<ir::For>(node.loc, ir::ForKind::kSerial, std::move(axes), std::move(body));
}

absl::Status Elaborator::ExecIrAxis(const ast::For& node, LoopObject& loop, size_t axis,
                                    std::vector<Value>* values) {
  if (axis == loop.extents.size()) return ExecLoopBody(node, loop, *values);
  PushRegion(RegionKind::kLoop, node.loc, ir::ForKind::kSerial);
  const ir::Expr var = VarNamed(TargetName(node.target, axis, "i"), loop.extents[axis].e.dtype());
  ExprInfo info;
  info.flags = ExprInfo::kRuntime;
  KILN_ASSIGN_OR_RETURN(const Value value, NewExpr(var, info, node.loc));
  values->push_back(value);
  std::vector<ir::Axis> axes = {{var, ir::MakeInt(0, var.dtype()), loop.extents[axis].e}};
  regions_.back().axes = axes;
  KILN_RETURN_IF_ERROR(ExecIrAxis(node, loop, axis + 1, values));
  ir::Stmt body = ir::MakeSeq(PopRegion(), node.loc);
  return EmitNew<ir::For>(node.loc, ir::ForKind::kSerial, std::move(axes), std::move(body));
}

absl::Status Elaborator::ExecLoopBody(const ast::For& node, LoopObject& loop,
                                      std::vector<Value> values) {
  if (values.size() == 1) {
    const bool tuple = node.target->kind == ast::ExprKind::kTuple;
    const Value target = tuple ? NewTuple({values[0]}) : values[0];
    KILN_RETURN_IF_ERROR(AssignTo(node.target, target, /*fresh=*/true));
  } else {
    const auto* tuple = node.target->As<ast::Tuple>();
    if (tuple != nullptr && tuple->items.size() != values.size()) {
      return Error(node.target->loc,
                   absl::StrCat(loop.name, " has ", values.size(), " axes, but ",
                                tuple->items.size(), " loop variables"),
                   "name one variable for each axis");
    }
    KILN_RETURN_IF_ERROR(AssignTo(node.target, NewTuple(std::move(values)), /*fresh=*/true));
  }
  return ExecBlock(node.body).status();
}

absl::StatusOr<Flow> Elaborator::ExecWhile(const ast::While& node) {
  if (!node.otherwise.empty() && frame_->traced) {
    return Unimplemented(node.else_loc, "'else' on a loop is not in the kernel language",
                         "write the statements after the loop");
  }
  if (!frame_->traced) {
    while (true) {
      KILN_RETURN_IF_ERROR(Step(node.loc));
      KILN_ASSIGN_OR_RETURN(const bool go,
                            EvalConditionNow(node.condition, "the condition of a while loop"));
      if (!go) return ExecBlock(node.otherwise);
      KILN_ASSIGN_OR_RETURN(const Flow flow, ExecBlock(node.body));
      if (flow == Flow::kReturn || flow == Flow::kAbsent) return flow;
      if (flow == Flow::kBreak) return Flow::kNormal;
    }
  }
  KILN_RETURN_IF_ERROR(RequireLaunch(node.loc, "a while loop"));
  PushRegion(RegionKind::kWhile, node.loc);
  KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(node.condition));
  if (c.known || c.expr.info.open_only()) {
    if (c.known && !c.value) {
      PopRegion();
      return Flow::kNormal;
    }
    return Error(node.condition->loc, "the condition of this while loop never changes at run time",
                 "make what it tests a T.alloc_var, or use a for loop");
  }
  if (!regions_.back().stmts.empty()) {
    return Error(node.condition->loc, "the condition of a while loop has an effect",
                 "compute it in the body into a T.alloc_var");
  }
  KILN_RETURN_IF_ERROR(ExecBlock(node.body).status());
  ir::Stmt body = ir::MakeSeq(PopRegion(), node.loc);
  KILN_RETURN_IF_ERROR(EmitNew<ir::While>(node.loc, c.expr.e, std::move(body)));
  return Flow::kNormal;
}

absl::StatusOr<Flow> Elaborator::ExecWith(const ast::With& node, size_t item) {
  if (item == node.items.size()) return ExecBlock(node.body);
  KILN_ASSIGN_OR_RETURN(const Value context, Eval(node.items[item].context));
  if (context.Is(Type::kLaunch)) {
    if (!frame_->traced) {
      return Error(node.loc, "T.Kernel in a plain function",
                   "put it under @T.prim_func, @T.macro or @tilelang.jit");
    }
    return ExecLaunch(node, item, context.launch());
  }
  if (context.Is(Type::kThreads)) return ExecOnThreads(node, item, context.threads());
  if (context.Is(Type::kCombiner)) {
    launch_.around.push_back(&context.combiner());
    KILN_ASSIGN_OR_RETURN(const Flow flow, ExecWith(node, item + 1));
    launch_.around.pop_back();
    return flow;
  }
  if (context.Is(Type::kInstance)) {
    KILN_RETURN_IF_ERROR(NoteOperation(*this, context.instance(), node.items[item].context->loc));
    return ExecWith(node, item + 1);
  }
  return Error(node.items[item].context->loc, absl::StrCat(Describe(context), " is no context"),
               "a kernel's with statement takes T.Kernel(...), T.ws(...) or T.attr(...)");
}

absl::StatusOr<Flow> Elaborator::ExecLaunch(const ast::With& node, size_t item,
                                            LaunchObject& launch) {
  const ast::WithItem& with = node.items[item];
  for (const IrRegion& region : regions_) {
    if (region.kind == RegionKind::kRoot) continue;
    return Error(with.context->loc,
                 region.kind == RegionKind::kLaunch ? "T.Kernel inside T.Kernel"
                                                    : "T.Kernel under a run-time branch or loop",
                 "a T.Kernel block stands directly in the kernel's body");
  }
  static constexpr const char* kNames[] = {"bx", "by", "bz"};
  PushRegion(RegionKind::kLaunch, node.loc);
  launch_.Begin(launch.threads, launch.cluster);
  std::vector<ir::Axis>& grid = launch_.grid;
  std::vector<Value> values;
  for (size_t i = 0; i < launch.grid.size(); ++i) {
    const std::string name = TargetName(with.target, i, kNames[i]);
    const bool ignored = name == "_" || (launch.grid.size() > 1 && with.target != nullptr &&
                                         with.target->kind == ast::ExprKind::kName);
    const ir::Expr var = VarNamed(ignored ? kNames[i] : name, launch.grid[i].e.dtype());
    grid.push_back({var, ir::MakeInt(0, var.dtype()), launch.grid[i].e});
    ExprInfo info;
    info.flags = ExprInfo::kRuntime;
    KILN_ASSIGN_OR_RETURN(const Value value, NewExpr(var, info, node.loc));
    values.push_back(value);
  }
  random_.reset();
  Value& rank = launch_.cluster_rank;
  for (size_t i = launch.cluster.size();
       i-- > 0;) {  // ((z * cy + y) * cx + x), each in its cluster
    const Value size = Value::Int(launch.cluster[i]);
    KILN_ASSIGN_OR_RETURN(rank, BinaryOp(ast::BinaryOp::kMul, rank, size, node.loc));
    if (launch.cluster[i] == 1) continue;
    KILN_ASSIGN_OR_RETURN(const Value at, BinaryOp(ast::BinaryOp::kMod, values[i], size, node.loc));
    KILN_ASSIGN_OR_RETURN(rank, BinaryOp(ast::BinaryOp::kAdd, rank, at, node.loc));
  }
  if (with.target != nullptr) {
    const auto* tuple = with.target->As<ast::Tuple>();
    if (tuple != nullptr && tuple->items.size() != values.size()) {
      return Error(with.target->loc,
                   absl::StrCat("T.Kernel has ", values.size(), " block axes, but ",
                                tuple->items.size(), " names"),
                   "name one variable for each axis");
    }
    const bool one = values.size() == 1 && tuple == nullptr;
    KILN_RETURN_IF_ERROR(AssignTo(with.target, one ? values[0] : NewTuple(values), /*fresh=*/true));
  }
  KILN_ASSIGN_OR_RETURN(const Flow flow, ExecWith(node, item + 1));
  (void)flow;
  KILN_RETURN_IF_ERROR(CheckSchedule(*this));
  KILN_RETURN_IF_ERROR(EmitLaunch(launch, PopRegion(), node.loc));
  launch_.Begin({});
  return Flow::kNormal;
}

absl::StatusOr<Flow> Elaborator::ExecOnThreads(const ast::With& node, size_t item,
                                               ThreadsObject& threads) {
  const SourceLoc loc = node.items[item].context->loc;
  for (const IrRegion& region : regions_) {
    const bool parallel =
        region.kind == RegionKind::kLoop &&
        (region.loop == ir::ForKind::kParallel || region.loop == ir::ForKind::kVectorized);
    if (region.kind != RegionKind::kThreads && !parallel) continue;
    return Error(loc, parallel ? "T.ws inside of a parallel loop" : "T.ws inside of T.ws",
                 "name all warpgroups in one T.ws, outside of loops over elements");
  }
  if (launch_.thread_count > 0 && threads.first + threads.count > launch_.thread_count) {
    return Error(
        loc,
        absl::StrCat("T.ws names threads ", threads.first, " to ",
                     threads.first + threads.count - 1, " of a block of ", launch_.thread_count),
        "launch more threads: a warpgroup is 128");
  }
  PushRegion(RegionKind::kThreads, loc);
  KILN_RETURN_IF_ERROR(ExecWith(node, item + 1).status());
  ir::Stmt body = ir::MakeSeq(PopRegion(), loc);
  KILN_RETURN_IF_ERROR(EmitNew<ir::OnThreads>(loc, threads.first, threads.count, std::move(body)));
  return Flow::kNormal;
}

}  // namespace kiln::lang
