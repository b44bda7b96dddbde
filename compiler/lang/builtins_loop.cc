// Loops, the launch, and hints about them.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

absl::Status SetRange(Elaborator& e, const BoundArgs& args, size_t first, LoopObject* loop) {
  const std::string what = absl::StrCat("a bound of ", loop->name);
  KILN_ASSIGN_OR_RETURN(Operand low, e.ToIndex(args[first], args.LocOf(first), what));
  if (!args.Given(first + 1)) {
    loop->starts.push_back({ir::MakeInt(0, low.e.dtype()), {}});
    loop->extents.push_back(std::move(low));
    return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(const Value span,
                        e.BinaryOp(ast::BinaryOp::kSub, args[first + 1], args[first], args.loc));
  KILN_ASSIGN_OR_RETURN(Operand extent, e.ToIndex(span, args.loc, what));
  loop->starts.push_back(std::move(low));
  loop->extents.push_back(std::move(extent));
  return absl::OkStatus();
}

template <ir::ForKind kind>
absl::StatusOr<Value> OneAxis(Elaborator& e, const BoundArgs& args) {
  auto* loop = e.arena().New<LoopObject>();
  loop->name = kind == ir::ForKind::kSerial   ? "T.serial"
               : kind == ir::ForKind::kUnroll ? "T.unroll"
                                              : "T.vectorized";
  loop->kind = kind;
  KILN_RETURN_IF_ERROR(SetRange(e, args, 0, loop));
  if (kind != ir::ForKind::kVectorized && args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(const int64_t step,
                          e.ToInt(args[2], args.LocOf(2), "the step of a loop"));
    if (step == 0) return e.Error(args.LocOf(2), "the step of a loop is zero", "use 1 or -1");
    if (step != 1) {
      // The count of iterations: ceil((stop - start) / step).
      KILN_ASSIGN_OR_RETURN(const Value extent, e.NewExpr(loop->extents[0], args.loc));
      KILN_ASSIGN_OR_RETURN(const Value span,
                            step > 0 ? absl::StatusOr<Value>(extent)
                                     : e.UnaryOp(ast::UnaryOp::kNeg, extent, args.loc));
      KILN_ASSIGN_OR_RETURN(const Value count,
                            e.CeilDiv(span, Value::Int(step > 0 ? step : -step), args.loc));
      KILN_ASSIGN_OR_RETURN(loop->extents[0], e.ToIndex(count, args.loc, "the extent of a loop"));
      KILN_ASSIGN_OR_RETURN(loop->step, e.ToIndex(Value::Int(step), args.loc, "the step"));
    }
  }
  return Value::Of(Type::kLoop, loop);
}

template <bool grid>
absl::StatusOr<Value> ManyAxes(Elaborator& e, const BoundArgs& args) {
  auto* loop = e.arena().New<LoopObject>();
  loop->name = grid ? "T.grid" : "T.Parallel";
  loop->kind = grid ? ir::ForKind::kSerial : ir::ForKind::kParallel;
  loop->grid = grid;
  if (args.rest.empty()) {
    return e.Error(args.loc, absl::StrCat(loop->name, " without an extent"),
                   absl::StrCat("write ", loop->name, "(m, n)"));
  }
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(Operand extent, e.ToIndex(args.rest[i], args.rest_locs[i],
                                                    absl::StrCat("an extent of ", loop->name)));
    loop->starts.push_back({ir::MakeInt(0, extent.e.dtype()), {}});
    loop->extents.push_back(std::move(extent));
  }
  if (!grid) {
    if (args.Given(0)) {
      KILN_ASSIGN_OR_RETURN(const int64_t width,
                            e.ToInt(args[0], args.LocOf(0), "coalesced_width"));
      loop->annotations["coalesced_width"] = absl::StrCat(width);
    }
    if (args.Given(1)) {
      KILN_ASSIGN_OR_RETURN(loop->annotations["loop_layout"], LoopLayout(e, args, 1));
    }
  }
  return Value::Of(Type::kLoop, loop);
}

absl::StatusOr<std::string> IntList(Elaborator& e, const Value& v, SourceLoc loc,
                                    absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.ToItems(v, loc, what));
  std::string text;
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(const int64_t i, e.ToInt(item, loc, what));
    absl::StrAppend(&text, text.empty() ? "" : ",", i);
  }
  return text;
}

absl::StatusOr<Value> Pipelined(Elaborator& e, const BoundArgs& args) {
  auto* loop = e.arena().New<LoopObject>();
  loop->name = "T.Pipelined";
  loop->kind = ir::ForKind::kPipelined;
  KILN_RETURN_IF_ERROR(SetRange(e, args, 0, loop));
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(const Operand stages, e.ToIndex(args[2], args.LocOf(2), "num_stages"));
    if (stages.info.flags & ExprInfo::kRuntime) {
      return e.NeedsValue(args.LocOf(2), "num_stages depends on a run-time value", stages.e,
                          "use a constant or a parameter");
    }
    const auto count = ir::ConstInt(stages.e);
    if (count && (*count < 0 || *count > 64)) {
      return e.Error(args.LocOf(2), absl::StrCat("num_stages is ", *count), "use 0 to 64");
    }
    loop->num_stages = stages.e;
  }
  static constexpr const char* kLists[] = {"order", "stage"};
  for (size_t i = 0; i < 2; ++i) {
    if (!args.Given(3 + i)) continue;
    KILN_ASSIGN_OR_RETURN(loop->annotations[kLists[i]],
                          IntList(e, args[3 + i], args.LocOf(3 + i), kLists[i]));
  }
  if (args.Given(5)) {
    return e.Unimplemented(args.LocOf(5), "T.Pipelined with a sync list",
                           "leave it out: who waits for whom follows from order and stage");
  }
  if (args.Given(6)) {
    if (loop->annotations.empty()) {
      return e.Error(args.LocOf(6), "T.Pipelined with a group list, but neither order nor stage",
                     "give the groups an order or stages, or leave out the list");
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> groups,
                          e.ToItems(args[6], args.LocOf(6), "group"));
    std::vector<std::string> texts;
    for (const Value& group : groups) {
      KILN_ASSIGN_OR_RETURN(texts.emplace_back(),
                            IntList(e, group, args.LocOf(6), "a group of statements"));
    }
    loop->annotations["group"] = absl::StrJoin(texts, ";");
  }
  return Value::Of(Type::kLoop, loop);
}

constexpr int64_t kMostBlocks = int64_t{1} << 48;

// Blocks of a cluster stand together in the grid, whose extents are multiples of the cluster's.
absl::Status SetCluster(Elaborator& e, const BoundArgs& args, LaunchObject* launch) {
  std::vector<Value> dims = {args[3]};
  if (args[3].is_sequence()) dims = std::vector<Value>(args[3].seq().items);
  int64_t blocks = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(dims[i], args.LocOf(3), "cluster_dims"));
    if (n < 1 || n > 16 || (blocks *= n) > 16) {
      return e.Error(args.LocOf(3), absl::StrCat("cluster_dims is ", Repr(args[3])),
                     "a cluster has 1 to 16 blocks");
    }
    if (i >= launch->grid.size() && n > 1) {
      return e.Error(
          args.LocOf(3),
          absl::StrCat("cluster_dims names axis ", i, " of a grid of ", launch->grid.size()),
          "give one number for each axis of the grid");
    }
    if (i >= launch->grid.size()) break;
    launch->cluster.push_back(n);
    if (n == 1) continue;
    const Operand& extent = launch->grid[i];
    const ir::Expr whole = ir::Equal(
        ir::MakeBinary(ir::BinaryOp::kFloorMod, extent.e, ir::MakeInt(n, extent.e.dtype())),
        ir::MakeInt(0, extent.e.dtype()));
    const std::string text =
        absl::StrCat("the grid's axis ", i, " is no multiple of the cluster's ", n, " blocks");
    if (extent.info.flags & ExprInfo::kRuntime) {
      KILN_RETURN_IF_ERROR(e.EmitAtRoot(args.loc, ir::MakeStmt<ir::Assert>(args.loc, whole, text)));
      continue;
    }
    KILN_RETURN_IF_ERROR(e.Require(
        whole, extent.info,
        e.Error(args.LocOf(3), text, "round the grid up to whole clusters, and mask the rest")));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Kernel(Elaborator& e, const BoundArgs& args) {
  auto* launch = e.arena().New<LaunchObject>();
  if (args.rest.size() > 3) {
    return e.Error(args.loc, absl::StrCat("T.Kernel with ", args.rest.size(), " block axes"),
                   "give one to three extents, as in T.Kernel(T.ceildiv(N, 128), threads=128)");
  }
  if (args.rest.empty()) {  // T.Kernel(threads=128): one block
    KILN_ASSIGN_OR_RETURN(Operand one, e.ToIndex(Value::Int(1), args.loc, "the grid"));
    launch->grid.push_back(std::move(one));
  }
  int64_t blocks = 1;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(Operand extent,
                          e.ToIndex(args.rest[i], args.rest_locs[i], "a grid extent of T.Kernel"));
    const auto constant = ir::ConstInt(extent.e);
    if (constant && (*constant <= 0 || *constant > INT32_MAX)) {
      return e.Error(args.rest_locs[i], absl::StrCat("a grid extent of T.Kernel is ", *constant),
                     "a grid has at least one block an axis, and fewer than 2^31");
    }
    if (constant && (__builtin_mul_overflow(blocks, *constant, &blocks) || blocks > kMostBlocks)) {
      return e.Error(args.rest_locs[i], "a grid of more than 2^48 blocks", "use larger tiles");
    }
    launch->grid.push_back(std::move(extent));
  }
  Value threads = args.Given(0) ? args[0] : Value::Int(128);
  KILN_ASSIGN_OR_RETURN(const std::vector<Operand> extents,
                        e.ToShape(threads, args.LocOf(0), "threads of T.Kernel"));
  if (extents.empty() || extents.size() > 3) {
    return e.Error(args.LocOf(0), "threads of T.Kernel has one to three extents",
                   "write threads=128");
  }
  int64_t total = 1;
  for (const Operand& extent : extents) {
    if (extent.info.flags & ExprInfo::kRuntime) {
      return e.NeedsValue(args.LocOf(0), "threads of T.Kernel depends on a run-time value",
                          extent.e, "use a constant or a parameter");
    }
    if (const auto constant = ir::ConstInt(extent.e)) {
      if (*constant <= 0 || *constant > 1024)
        total = 2048;
      else
        total *= *constant;
    }
    launch->threads.push_back(extent.e);
  }
  if (total > 1024) {
    return e.Error(args.LocOf(0), absl::StrCat("threads of T.Kernel is ", Repr(threads)),
                   "a block has 1 to 1024 threads");
  }
  // args[1], is_cpu: the sweep's target decides what the kernel runs on.
  if (args.Given(2)) {
    KILN_RETURN_IF_ERROR(CheckImportedSource(e, args[2], args.LocOf(2), "the prelude of T.Kernel"));
  }
  if (args.Given(3)) KILN_RETURN_IF_ERROR(SetCluster(e, args, launch));
  return Value::Of(Type::kLaunch, launch);
}

// All blocks of the grid meet: what follows is a launch of its own (launch.cc).
absl::StatusOr<Value> MeetInGrid(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.sync_grid"));
  if (e.region().kind != RegionKind::kLaunch) {
    return e.Unimplemented(args.loc, "T.sync_grid() in a branch or loop",
                           "all blocks meet between statements of T.Kernel's own block: end the "
                           "loop before it");
  }
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Seq>(args.loc, std::vector<ir::Stmt>{}));
  e.launch().grid_meetings.push_back(e.region().stmts.back());
  return Value::None();
}

// for i, j in T.Persistent((m, n), wave_size, index): the tiles of a worker, every one once.
absl::StatusOr<Value> Persistent(Elaborator& e, const BoundArgs& args) {
  auto* loop = e.arena().New<LoopObject>();
  loop->name = "T.Persistent";
  KILN_ASSIGN_OR_RETURN(loop->domain, e.ToItems(args[0], args.LocOf(0), "the domain"));
  if (loop->domain.empty()) {
    return e.Error(args.LocOf(0), "T.Persistent over no axis", "write T.Persistent((m, n), ...)");
  }
  loop->wave = args[1];
  loop->index = args[2];
  loop->group = args.Given(3) ? args[3] : Value::Int(8);
  for (const auto& [value, what] :
       {std::pair(loop->wave, "wave_size"), {loop->group, "group_size"}}) {
    if (!value.is_integer() || value.int_value() >= 1) continue;
    return e.Error(args.loc, absl::StrCat(what, " of T.Persistent is ", Repr(value)),
                   "use at least 1");
  }
  return Value::Of(Type::kLoop, loop);
}

// The panel as text for the launch's note: a number, or an expression over open tunables.
absl::StatusOr<Value> UseSwizzle(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.use_swizzle"));
  KILN_ASSIGN_OR_RETURN(const Operand panel, e.ToIndex(args[0], args.LocOf(0), "panel_size"));
  std::string order = "row";
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(order, e.ToStr(args[1], args.LocOf(1), "order"));
    if (order != "row" && order != "column" && order != "col") {
      return e.Error(args.LocOf(1), absl::StrCat("the order '", order, "' of T.use_swizzle"),
                     "use \"row\" or \"column\"");
    }
    if (order == "col") order = "column";
  }
  ir::Expr size = panel.e;
  ExprInfo info = panel.info;
  if (args.present[2]) {
    KILN_ASSIGN_OR_RETURN(const Condition enable, e.Decide(args[2], args.LocOf(2)));
    if (enable.known && !enable.value) return Value::None();
    if (!enable.known) {
      info = Join(info, enable.expr.info);
      // `enable=panel > 0` says no more than the panel does.
      const bool same = ir::Same(
          enable.expr.e, ir::MakeBinary(ir::BinaryOp::kGt, size, ir::MakeInt(0, size.dtype())));
      if (!same) size = ir::MakeSelect(enable.expr.e, size, ir::MakeInt(0, size.dtype()));
    }
  }
  if (info.flags & ExprInfo::kRuntime) {
    return e.NeedsValue(args.loc, "T.use_swizzle depends on a run-time value", size,
                        "use a constant or a parameter");
  }
  if (const auto constant = ir::ConstInt(size)) {
    if (*constant <= 0) {
      return e.Error(args.LocOf(0), absl::StrCat("panel_size is ", *constant),
                     "use at least 1, or enable=False");
    }
    e.launch().notes["swizzle_panel"] = absl::StrCat(*constant);
  } else {
    e.launch().notes["swizzle_panel"] = ir::ToString(size);
  }
  e.launch().notes["swizzle_order"] = order;
  return Value::None();
}

// A fact about run-time sizes alone, outside of branches and loops, is checked before the kernel is
// launched. Others are for the reference's prover: Kiln proves what it needs. A false constant is
// an error.
absl::StatusOr<Value> Assume(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(args[0], args.LocOf(0)));
  if (c.known && !c.value) {
    return e.Error(args.LocOf(0), "T.assume of something that is false", "check the condition");
  }
  if (!c.known && e.IsOfSizes(c.expr.e)) {
    KILN_RETURN_IF_ERROR(
        e.EmitCheck(args.loc, c.expr.e, absl::StrCat("T.assume: ", ir::ToString(c.expr.e))));
  }
  return Value::None();
}

// Hints about how the reference's GPU back end splits registers; they change no result.
absl::StatusOr<Value> Hint(Elaborator& e, const BoundArgs& args) { return Value::None(); }

template <bool flags>
absl::StatusOr<Value> Annotate(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.Annotate(args[0], flags, args.LocOf(0)));
  return Value::None();
}

// T.ws(0, 1): the threads of warpgroups that follow each other.
absl::StatusOr<Value> WarpGroups(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.ws"));
  constexpr int64_t kGroup = 128;
  std::vector<int64_t> groups;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t group,
                          e.ToInt(args.rest[i], args.rest_locs[i], "a warpgroup of T.ws"));
    if (group < 0 || group >= 8 || (!groups.empty() && group != groups.back() + 1)) {
      return e.Error(args.rest_locs[i], absl::StrCat("warpgroup ", group, " of T.ws"),
                     "name warpgroups 0 to 7 that follow each other, as in T.ws(0, 1)");
    }
    groups.push_back(group);
  }
  if (groups.empty()) return e.Error(args.loc, "T.ws without a warpgroup", "write T.ws(0)");
  auto* threads = e.arena().New<ThreadsObject>();
  threads->first = groups[0] * kGroup;
  threads->count = static_cast<int64_t>(groups.size()) * kGroup;
  return Value::Of(Type::kThreads, threads);
}

constexpr Builtin kRows[] = {
    {"T.serial", "start stop? step? annotations?", OneAxis<ir::ForKind::kSerial>},
    {"T.Serial", "start stop? step? annotations?", OneAxis<ir::ForKind::kSerial>},
    {"T.unroll", "start stop? step? annotations? unroll_factor? explicit?",
     OneAxis<ir::ForKind::kUnroll>},
    {"T.vectorized", "start stop? annotations?", OneAxis<ir::ForKind::kVectorized>},
    {"T.Parallel", "* coalesced_width? loop_layout? prefer_async? annotations?", ManyAxes<false>},
    {"T.parallel", "* coalesced_width? loop_layout? prefer_async? annotations?", ManyAxes<false>},
    {"T.grid", "*", ManyAxes<true>},
    {"T.Pipelined", "start stop? num_stages? order? stage? sync? group? annotations?", Pipelined},
    {"T.Kernel", "* threads? is_cpu? prelude? cluster_dims?", Kernel},
    {"T.ClusterKernel", "* threads? is_cpu? prelude? cluster_dims?", Kernel},
    {"T.sync_grid", "", MeetInGrid},
    {"T.Persistent", "domain wave_size index group_size?", Persistent},
    {"T.ws", "*", WarpGroups},
    {"T.use_swizzle", "panel_size order? enable?", UseSwizzle},
    {"T.assume", "condition", Assume},
    {"T.annotate_pass_configs", "configs", Annotate<false>},
    {"T.annotate_compile_flags", "flags", Annotate<true>},
    {"T.disable_warp_group_reg_alloc", "", Hint},
    {"T.no_set_max_nreg", "", Hint},
};

}  // namespace

BuiltinTable LoopBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
