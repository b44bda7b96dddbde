// Threads of a block: their indices, where they meet, and what they tell each other. What it means
// for a block is compiler/ir/threads.h's.
#include "absl/strings/str_cat.h"
#include "compiler/ir/access.h"
#include "compiler/ir/instruct.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::MakeInt;

constexpr int64_t kWarp = 32;
constexpr int64_t kMostThreads = 1024;  // of a block
constexpr uint32_t kAllLanes = ~uint32_t{0};
constexpr DType kWideWord{TypeCode::kUInt, 64};

ExprInfo AtRunTime() {
  ExprInfo info;
  info.flags = ExprInfo::kRuntime;
  return info;
}

// ---- indices ----

// Of a thread, as far as the block has axes; the number of threads along one.
absl::Status RequireThreads(Elaborator& e, SourceLoc loc, absl::string_view what) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(loc, what));
  for (const Expr& extent : e.launch().threads) {
    if (ir::ConstInt(extent)) continue;
    return e.NeedConcrete(loc, extent, absl::StrCat(what, " depends on the number of threads"));
  }
  return absl::OkStatus();
}

int64_t ThreadsAlong(Elaborator& e, size_t dim) {
  const std::vector<Expr>& threads = e.launch().threads;
  return dim < threads.size() ? *ir::ConstInt(threads[dim]) : 1;
}

// The thread's number in the block.
Expr Number(Elaborator& e) {
  Expr number = e.launch().indices[0];
  int64_t stride = ThreadsAlong(e, 0);
  for (size_t d = 1; d < e.launch().threads.size(); ++d) {
    number = number + e.launch().indices[d] * MakeInt(stride);
    stride *= ThreadsAlong(e, d);
  }
  return number;
}

Expr Lane(Elaborator& e) { return ir::FloorMod(Number(e), MakeInt(kWarp)); }

absl::StatusOr<Value> IndexAlong(Elaborator& e, size_t dim, bool of_block, SourceLoc loc) {
  if (!of_block) return e.NewExpr(e.launch().indices[dim], AtRunTime(), loc);
  const std::vector<ir::Axis>& grid = e.launch().grid;
  return dim < grid.size() ? e.NewExpr(grid[dim].var, AtRunTime(), loc) : Value::Int(0);
}

absl::StatusOr<size_t> Dimension(Elaborator& e, const BoundArgs& args) {
  int64_t dim = 0;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(dim, e.ToInt(args[0], args.LocOf(0), "the dimension"));
  }
  if (dim < 0 || dim > 2) {
    return e.Error(args.LocOf(0), absl::StrCat("dimension ", dim, " of a block or a grid"),
                   "use 0, 1 or 2");
  }
  return static_cast<size_t>(dim);
}

template <bool of_block>
absl::StatusOr<Value> Binding(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "the index of a thread"));
  KILN_ASSIGN_OR_RETURN(const size_t dim, Dimension(e, args));
  return IndexAlong(e, dim, of_block, args.loc);
}

template <bool of_block>
absl::StatusOr<Value> Bindings(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "the index of a thread"));
  std::vector<Value> all;
  for (size_t dim = 0; dim < 3; ++dim) {
    KILN_ASSIGN_OR_RETURN(all.emplace_back(), IndexAlong(e, dim, of_block, args.loc));
  }
  return e.NewList(std::move(all));
}

absl::StatusOr<Value> ExtentAlong(Elaborator& e, size_t dim, bool of_block, SourceLoc loc) {
  if (!of_block) return Value::Int(ThreadsAlong(e, dim));
  const std::vector<ir::Axis>& grid = e.launch().grid;
  if (dim >= grid.size()) return Value::Int(1);
  return e.NewExpr(grid[dim].extent, e.InfoOf(grid[dim].extent), loc);
}

template <bool of_block>
absl::StatusOr<Value> Extent(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "the size of a block"));
  KILN_ASSIGN_OR_RETURN(const size_t dim, Dimension(e, args));
  return ExtentAlong(e, dim, of_block, args.loc);
}

template <bool of_block>
absl::StatusOr<Value> Extents(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "the size of a block"));
  std::vector<Value> all;
  for (size_t dim = 0; dim < 3; ++dim) {
    KILN_ASSIGN_OR_RETURN(all.emplace_back(), ExtentAlong(e, dim, of_block, args.loc));
  }
  return e.NewList(std::move(all));
}

// The index along an axis that is called by its name in CUDA, which must have that extent.
absl::StatusOr<Value> Named(Elaborator& e, const Value& axis, SourceLoc axis_loc,
                            const Operand& extent, SourceLoc loc, absl::string_view what) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, loc, what));
  KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(axis, axis_loc, "the name of an axis"));
  static constexpr const char* kNames[] = {"threadIdx.x", "threadIdx.y", "threadIdx.z",
                                           "blockIdx.x",  "blockIdx.y",  "blockIdx.z"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name != kNames[i]) continue;
    const bool of_block = i >= 3;
    KILN_ASSIGN_OR_RETURN(const Value there, ExtentAlong(e, i % 3, of_block, loc));
    KILN_ASSIGN_OR_RETURN(const Operand launched, e.ToIndex(there, loc, "the extent"));
    const Expr same = ir::Equal(launched.e, extent.e);
    if (!ir::IsConst(same, 1) && !ir::Same(launched.e, extent.e)) {
      return e.Error(
          loc, absl::StrCat(what, " of ", name, ", of which T.Kernel does not launch as many"),
          "give T.Kernel that extent: it is what launches threads and blocks");
    }
    return IndexAlong(e, i % 3, of_block, loc);
  }
  return e.Error(axis_loc, absl::StrCat("the axis '", name, "'"),
                 "use threadIdx.x, .y, .z or blockIdx.x, .y, .z");
}

// T.thread_binding(n, thread="threadIdx.x"), T.thread_binding(0, n, "threadIdx.x").
absl::StatusOr<Value> ThreadBinding(Elaborator& e, const BoundArgs& args) {
  size_t thread = 2;
  size_t stop = args.Given(1) && !args[1].Is(Type::kStr) ? 1 : 0;
  if (args.Given(1) && args[1].Is(Type::kStr)) thread = 1;
  if (!args.Given(thread)) {
    return e.Error(args.loc, "T.thread_binding without a thread axis",
                   "write T.thread_binding(0, n, thread=\"threadIdx.x\")");
  }
  if (stop == 1) {
    KILN_ASSIGN_OR_RETURN(const Operand start, e.ToIndex(args[0], args.LocOf(0), "the start"));
    if (!ir::IsConst(start.e, 0)) {
      return e.Error(args.LocOf(0), "T.thread_binding that does not start at 0",
                     "start at 0 and add the offset");
    }
  }
  KILN_ASSIGN_OR_RETURN(const Operand extent,
                        e.ToIndex(args[stop], args.LocOf(stop), "the extent of T.thread_binding"));
  return Named(e, args[thread], args.LocOf(thread), extent, args.loc, "T.thread_binding");
}

absl::StatusOr<Value> LaunchThread(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand extent,
                        e.ToIndex(args[1], args.LocOf(1), "the extent of T.launch_thread"));
  return Named(e, args[0], args.LocOf(0), extent, args.loc, "T.launch_thread");
}

// The warp's size, or that of a group of them: a constant.
absl::StatusOr<int64_t> Size(Elaborator& e, const BoundArgs& args, size_t i, int64_t otherwise,
                             absl::string_view what) {
  if (!args.Given(i)) return otherwise;
  KILN_ASSIGN_OR_RETURN(const int64_t size, e.ToInt(args[i], args.LocOf(i), what));
  if (size > 0 && size <= kMostThreads) return size;
  return e.Error(args.LocOf(i), absl::StrCat(what, " is ", size), "use 1 to 1024");
}

absl::StatusOr<Value> LaneIndex(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "the lane of a thread"));
  KILN_ASSIGN_OR_RETURN(const int64_t warp, Size(e, args, 0, kWarp, "the size of a warp"));
  return e.NewExpr(ir::FloorMod(Number(e), MakeInt(warp)), AtRunTime(), args.loc);
}

template <int64_t warps>
absl::StatusOr<Value> WarpIndex(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "the warp of a thread"));
  KILN_ASSIGN_OR_RETURN(const int64_t warp, Size(e, args, 0, kWarp, "the size of a warp"));
  KILN_ASSIGN_OR_RETURN(const int64_t group, Size(e, args, 1, warps, "the size of a group"));
  return e.NewExpr(ir::FloorDiv(Number(e), MakeInt(warp * group)), AtRunTime(), args.loc);
}

// One thread of every so many: the first.
absl::StatusOr<Value> Elect(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "T.shuffle_elect"));
  KILN_ASSIGN_OR_RETURN(const int64_t group,
                        e.ToInt(args[0], args.LocOf(0), "the group of T.shuffle_elect"));
  if (group < 0 || group > kMostThreads) {
    return e.Error(args.LocOf(0), absl::StrCat("the group of T.shuffle_elect is ", group),
                   "use 0, for the block, to 1024");
  }
  const Expr number = Number(e);
  const Expr within = group > 0 ? ir::FloorMod(number, MakeInt(group)) : number;
  return e.NewExpr(ir::Equal(within, MakeInt(0)), AtRunTime(), args.loc);
}

// ---- meeting ----

absl::StatusOr<Value> SyncThreads(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.sync_threads"));
  std::map<std::string, std::string> notes;
  if (args.Given(1)) notes["some"] = "";
  KILN_RETURN_IF_ERROR(
      e.Emit(args.loc, ir::MakeInstruct(args.loc, ir::Instruction::kBlockBarrier, {}, {}, notes)));
  return Value::None();
}

absl::StatusOr<Value> SyncWarp(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.sync_warp"));
  KILN_RETURN_IF_ERROR(e.Emit(args.loc, ir::MakeInstruct(args.loc, ir::Instruction::kBlockBarrier,
                                                         {}, {}, {{"some", ""}})));
  return Value::None();
}

// T.tvm_storage_sync("shared"): the same, by the memory that it is about.
absl::StatusOr<Value> SyncStorage(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string scope,
                        e.ToStr(args[0], args.LocOf(0), "the scope of T.tvm_storage_sync"));
  BoundArgs none;
  none.loc = args.loc;
  if (scope == "warp") return SyncWarp(e, none);
  if (scope == "shared" || scope == "shared.dyn") return SyncThreads(e, none);
  return e.Unimplemented(
      args.LocOf(0), absl::StrCat("T.tvm_storage_sync(\"", scope, "\")"),
      scope == "global" ? "where all blocks meet, write T.sync_grid()" : "write T.sync_threads()");
}

// ---- exchanges ----

// Values of the thread that a builtin works with, as variables of the kernel.
class Exchange {
 public:
  Exchange(Elaborator& e, SourceLoc loc) : e_(e), loc_(loc) {}

  absl::StatusOr<ir::Buffer> Variable(DType type, const Expr& init, absl::string_view name) {
    KILN_ASSIGN_OR_RETURN(const ir::Buffer buffer,
                          e_.NewNamedBuffer(type, {MakeInt(1)}, ir::Scope::kVar, loc_, {}, name));
    KILN_RETURN_IF_ERROR(e_.EmitNew<ir::Alloc>(loc_, buffer, init));
    return buffer;
  }

  static Expr Read(const ir::Buffer& variable) { return ir::MakeLoad(variable, {MakeInt(0)}); }
  absl::Status Write(const ir::Buffer& variable, const Expr& value) {
    return e_.EmitNew<ir::Store>(loc_, variable, std::vector<Expr>{MakeInt(0)}, value);
  }

  absl::Status Instruct(ir::Instruction op, const std::vector<ir::Buffer>& variables) {
    std::vector<ir::Region> regions;
    for (const ir::Buffer& v : variables) regions.push_back(ir::WholeBuffer(v));
    return e_.EmitNew<ir::Instruct>(loc_, op, std::move(regions));
  }

  // What `value` is in that lane of the warp.
  absl::StatusOr<Expr> From(const Expr& lane, const Expr& value) {
    const DType type = value.dtype();
    if (type.is_bool()) {
      KILN_ASSIGN_OR_RETURN(const Expr other, From(lane, ir::MakeCast(kInt32, value)));
      return ir::MakeCast(kBool, other);
    }
    KILN_ASSIGN_OR_RETURN(const ir::Buffer from, Variable(type, value, "from"));
    KILN_ASSIGN_OR_RETURN(const ir::Buffer at, Variable(kInt32, lane, "lane"));
    KILN_ASSIGN_OR_RETURN(const ir::Buffer to, Variable(type, Expr(), "to"));
    KILN_RETURN_IF_ERROR(Instruct(ir::Instruction::kShuffle, {to, from, at}));
    return Read(to);
  }

  // A bit for each thread of the warp for which the condition holds, uint32.
  absl::StatusOr<Expr> Ballot(const Expr& condition) {
    KILN_ASSIGN_OR_RETURN(const ir::Buffer from,
                          Variable(kInt32, ir::MakeCast(kInt32, condition), "from"));
    KILN_ASSIGN_OR_RETURN(const ir::Buffer to, Variable(kUInt32, Expr(), "to"));
    KILN_RETURN_IF_ERROR(Instruct(ir::Instruction::kBallot, {to, from}));
    return Read(to);
  }

  absl::StatusOr<Value> Give(const Expr& result) {
    ExprInfo info = e_.InfoOf(result);
    info.flags |= ExprInfo::kRuntime | ExprInfo::kLoads;
    return e_.NewExpr(result, info, loc_);
  }

  SourceLoc loc() const { return loc_; }

 private:
  Elaborator& e_;
  const SourceLoc loc_;
};

enum class Way : uint8_t { kIndex, kXor, kUp, kDown };

// The lane that a thread hears from; where the way leads out of its `width` lanes, its own.
Expr SourceLane(Elaborator& e, Way way, const Expr& by, int64_t width) {
  const Expr lane = Lane(e);
  const Expr first = width == kWarp ? MakeInt(0) : lane - ir::FloorMod(lane, MakeInt(width));
  const Expr last = first + MakeInt(width - 1);
  switch (way) {
    case Way::kIndex:
      return first + ir::FloorMod(by, MakeInt(width));
    case Way::kXor: {
      const Expr other = ir::MakeBinary(ir::BinaryOp::kBitXor, lane, by);
      return width == kWarp ? other : ir::MakeSelect(other <= last, other, lane);
    }
    case Way::kUp:
      return ir::MakeSelect(first <= lane - by, lane - by, lane);
    case Way::kDown:
      return ir::MakeSelect(lane + by <= last, lane + by, lane);
  }
  return lane;
}

absl::StatusOr<Value> ShuffleBy(Elaborator& e, const BoundArgs& args, Way way, size_t value,
                                size_t by, size_t width) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "a shuffle"));
  int64_t lanes = kWarp;
  if (args.Given(width)) {
    KILN_ASSIGN_OR_RETURN(lanes, e.ToInt(args[width], args.LocOf(width), "the width of a shuffle"));
  }
  if (lanes < 1 || lanes > kWarp || (lanes & (lanes - 1)) != 0) {
    return e.Error(args.LocOf(width), absl::StrCat("a shuffle of ", lanes, " lanes"),
                   "use a power of two up to 32");
  }
  KILN_ASSIGN_OR_RETURN(const Operand x,
                        e.ToOperand(args[value], args.LocOf(value), "the value of a shuffle"));
  KILN_ASSIGN_OR_RETURN(const Operand source,
                        e.ToIndex(args[by], args.LocOf(by), "the lane of a shuffle"));
  const Expr lane = SourceLane(e, way, ir::MakeCast(kInt32, source.e), lanes);
  Exchange exchange(e, args.loc);
  KILN_ASSIGN_OR_RETURN(const Expr result, exchange.From(lane, x.e));
  return exchange.Give(result);
}

// T.shfl_xor(value, delta, width, mask)
template <Way way>
absl::StatusOr<Value> Shuffle(Elaborator& e, const BoundArgs& args) {
  return ShuffleBy(e, args, way, 0, 1, 2);
}
// T.tvm_warp_shuffle(mask, value, lane, width, warp_size)
template <Way way>
absl::StatusOr<Value> WarpShuffle(Elaborator& e, const BoundArgs& args) {
  return ShuffleBy(e, args, way, 1, 2, 3);
}

// ---- votes ----

absl::StatusOr<Expr> Predicate(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand p, e.ToOperand(args[0], args.LocOf(0), "the predicate"));
  if (p.e.dtype().is_bool()) return p.e;
  if (!p.e.dtype().is_int()) {
    return e.Error(args.LocOf(0), absl::StrCat("a predicate of ", p.e.dtype().ToString()),
                   "compare it with something");
  }
  return ir::MakeBinary(ir::BinaryOp::kNe, p.e, ir::MakeConst(0, p.e.dtype()));
}

// The lanes that are asked: all, or those of the mask.
absl::StatusOr<Expr> Mask(Elaborator& e, const BoundArgs& args) {
  if (!args.Given(1)) return MakeInt(kAllLanes, kUInt32);
  KILN_ASSIGN_OR_RETURN(const Operand mask,
                        e.ToType(args[1], kUInt32, args.LocOf(1), "the mask of lanes"));
  return mask.e;
}

Expr IsAsked(Elaborator& e, const Expr& mask) {
  if (ir::IsConst(mask, kAllLanes)) return ir::MakeBool(true);
  const Expr bit = ir::MakeBinary(ir::BinaryOp::kShr, mask, ir::MakeCast(kUInt32, Lane(e)));
  const Expr one = MakeInt(1, kUInt32);
  return ir::Equal(ir::MakeBinary(ir::BinaryOp::kBitAnd, bit, one), one);
}

enum class Vote : uint8_t { kBallot, kAny, kAll };

template <Vote vote>
absl::StatusOr<Value> WarpVote(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "a vote"));
  KILN_ASSIGN_OR_RETURN(const Expr holds, Predicate(e, args));
  KILN_ASSIGN_OR_RETURN(const Expr mask, Mask(e, args));
  const Expr said = vote == Vote::kAll ? ir::MakeUnary(ir::UnaryOp::kNot, holds) : holds;
  Exchange exchange(e, args.loc);
  KILN_ASSIGN_OR_RETURN(const Expr bits, exchange.Ballot(IsAsked(e, mask) && said));
  if (vote == Vote::kBallot) return exchange.Give(ir::MakeCast(kWideWord, bits));
  const Expr none = ir::Equal(bits, MakeInt(0, kUInt32));
  return exchange.Give(
      ir::MakeCast(kInt32, vote == Vote::kAll ? none : ir::MakeUnary(ir::UnaryOp::kNot, none)));
}

absl::StatusOr<Value> ActiveMask(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "T.activemask"));
  Exchange exchange(e, args.loc);
  KILN_ASSIGN_OR_RETURN(const Expr bits, exchange.Ballot(ir::MakeBool(true)));
  return exchange.Give(ir::MakeCast(kWideWord, bits));
}

template <bool all>
absl::StatusOr<Value> Match(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "a match"));
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[0], args.LocOf(0), "the value"));
  KILN_ASSIGN_OR_RETURN(const Expr mask, Mask(e, args));
  const DType type = x.e.dtype();
  if (type.is_float() && type.bits < 32) {
    return e.Error(args.LocOf(0), absl::StrCat("a match of ", type.ToString()),
                   "use T.reinterpret for its bits, or a wider type");
  }
  const DType word = type.bits == 64 ? kWideWord : kUInt32;
  const Expr bits = type == word      ? x.e
                    : type.is_float() ? ir::MakeCall(word, ir::Intrinsic::kReinterpret, {x.e})
                                      : ir::MakeCast(word, x.e);
  Exchange exchange(e, args.loc);
  KILN_ASSIGN_OR_RETURN(const ir::Buffer from, exchange.Variable(word, bits, "from"));
  KILN_ASSIGN_OR_RETURN(const ir::Buffer to, exchange.Variable(kUInt32, Expr(), "to"));
  KILN_RETURN_IF_ERROR(exchange.Instruct(ir::Instruction::kMatch, {to, from}));
  const Expr same = ir::MakeBinary(ir::BinaryOp::kBitAnd, Exchange::Read(to), mask);
  if (!all) return exchange.Give(same);
  KILN_ASSIGN_OR_RETURN(const Expr asked, exchange.Ballot(IsAsked(e, mask)));
  return exchange.Give(ir::MakeSelect(ir::Equal(same, asked), mask, MakeInt(0, kUInt32)));
}

enum class BlockVote : uint8_t { kCount, kAnd, kOr };

// Each warp counts by a ballot; the counts meet in shared memory. What comes out is the block's: a
// condition on it is the same for all threads.
template <BlockVote vote>
absl::StatusOr<Value> SyncVote(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "a vote of the block"));
  KILN_ASSIGN_OR_RETURN(const Expr holds, Predicate(e, args));
  const SourceLoc loc = args.loc;
  Exchange exchange(e, loc);
  KILN_RETURN_IF_ERROR(
      e.Emit(loc, ir::MakeInstruct(loc, ir::Instruction::kBlockBarrier, {}, {}, {})));
  KILN_ASSIGN_OR_RETURN(const Expr bits, exchange.Ballot(holds));
  const int64_t threads = e.launch().thread_count, warps = (threads + kWarp - 1) / kWarp;
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer counts,
      e.NewNamedBuffer(kInt32, {MakeInt(warps)}, ir::Scope::kShared, loc, {}, "counts"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(loc, counts));
  const ir::Stmt put = ir::MakeStmt<ir::Store>(
      loc, counts, std::vector<Expr>{ir::FloorDiv(Number(e), MakeInt(kWarp))},
      ir::MakeCast(kInt32, ir::MakeCall(kUInt32, ir::Intrinsic::kPopCount, {bits})));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::If>(loc, ir::Equal(Lane(e), MakeInt(0)), put));
  KILN_ASSIGN_OR_RETURN(const ir::Buffer sum, exchange.Variable(kInt32, MakeInt(0), "sum"));
  const Expr w = ir::MakeVar("w"), total = Exchange::Read(sum);
  const ir::Stmt add = ir::MakeStmt<ir::Store>(loc, sum, std::vector<Expr>{MakeInt(0)},
                                               total + ir::MakeLoad(counts, {w}));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::For>(
      loc, ir::ForKind::kSerial, std::vector<ir::Axis>{{w, MakeInt(0), MakeInt(warps)}}, add));
  if (vote == BlockVote::kCount) return exchange.Give(total);
  const Expr limit = MakeInt(vote == BlockVote::kAnd ? threads : 1);
  return exchange.Give(ir::MakeCast(kInt32, limit <= total));
}

// ---- reductions ----

enum class WarpOp : uint8_t { kSum, kMax, kMin, kAnd, kOr };

Expr CombineBy(WarpOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case WarpOp::kSum:
      return a + b;
    case WarpOp::kMax:
      return ir::Max(a, b);
    case WarpOp::kMin:
      return ir::Min(a, b);
    case WarpOp::kAnd:
      return ir::MakeBinary(ir::BinaryOp::kBitAnd, a, b);
    case WarpOp::kOr:
      return ir::MakeBinary(ir::BinaryOp::kBitOr, a, b);
  }
  return a;
}

// Five butterflies; threads that a last warp lacks are passed over.
template <WarpOp op>
absl::StatusOr<Value> WarpReduce(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "a reduction over a warp"));
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[0], args.LocOf(0), "the value"));
  const bool of_bits = op == WarpOp::kAnd || op == WarpOp::kOr;
  if (x.e.dtype().is_bool() || (of_bits && !x.e.dtype().is_int())) {
    return e.Error(args.LocOf(0), absl::StrCat("a reduction of ", x.e.dtype().ToString()),
                   of_bits ? "use an integer" : "use T.any_sync or T.all_sync");
  }
  Exchange exchange(e, args.loc);
  KILN_ASSIGN_OR_RETURN(const ir::Buffer all, exchange.Variable(x.e.dtype(), x.e, "all"));
  const int64_t threads = e.launch().thread_count;
  for (int64_t bit = kWarp / 2; bit > 0; bit /= 2) {
    const Expr lane = SourceLane(e, Way::kXor, MakeInt(bit), kWarp);
    KILN_ASSIGN_OR_RETURN(const Expr other, exchange.From(lane, Exchange::Read(all)));
    Expr both = CombineBy(op, Exchange::Read(all), other);
    if (threads % kWarp != 0) {
      const Expr number = Number(e);
      const Expr partner = ir::MakeBinary(ir::BinaryOp::kBitXor, number, MakeInt(bit));
      both = ir::MakeSelect(partner < MakeInt(threads), both, Exchange::Read(all));
    }
    KILN_RETURN_IF_ERROR(exchange.Write(all, both));
  }
  return exchange.Give(Exchange::Read(all));
}

absl::StatusOr<Value> CommReducer(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kFunction) || args[0].function().params().size() != 2) {
    return e.Error(args.LocOf(0), "T.comm_reducer without a function of two values",
                   "write T.comm_reducer(lambda x, y: x + y, [T.cast(0, dtype)])");
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> identity,
                        e.ToItems(args[1], args.LocOf(1), "the identity of T.comm_reducer"));
  if (identity.size() != 1) {
    return e.Unimplemented(args.LocOf(1),
                           absl::StrCat("T.comm_reducer of ", identity.size(), " values at once"),
                           "reduce one value at a time");
  }
  auto* combiner = e.arena().New<CombinerObject>();
  combiner->function = args[0];
  combiner->identity = identity[0];
  return Value::Of(Type::kCombiner, combiner);
}

absl::StatusOr<Value> Attr(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string key, e.ToStr(args[1], args.LocOf(1), "the attribute"));
  if (args[0].Is(Type::kCombiner) && key == "reduce_scope") return args[0];
  return e.Unimplemented(args.loc, absl::StrCat("T.attr of '", key, "'"),
                         "only T.attr(T.comm_reducer(...), \"reduce_scope\", ...) has a meaning");
}

absl::StatusOr<Value> Evaluate(Elaborator& e, const BoundArgs& args) {
  if (args[0].is_none()) return Value::None();
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[0], args.LocOf(0), "the value"));
  if (!e.IsRuntime(args[0])) return Value::None();
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Evaluate>(args.loc, x.e));
  return Value::None();
}

// An axis of the block that a reduction goes along.
struct ReducedAxis {
  size_t dim;
  int64_t extent, stride;  // in threads
  int64_t shuffled = 1;    // that many neighbours along it know the same after the shuffles
};

class AllReduce {
 public:
  AllReduce(Elaborator& e, const CombinerObject& combiner, SourceLoc loc)
      : e_(e), exchange_(e, loc), combiner_(combiner), loc_(loc) {}

  // The combination of `value` over the threads that differ in these axes alone.
  absl::StatusOr<Expr> Over(std::vector<ReducedAxis> axes, const Expr& value) {
    KILN_ASSIGN_OR_RETURN(const ir::Buffer all, exchange_.Variable(value.dtype(), value, "all"));
    bool together = true;
    for (ReducedAxis& axis : axes) {
      const auto is_power = [](int64_t n) { return (n & (n - 1)) == 0; };
      while (is_power(axis.extent) && is_power(axis.stride) && axis.shuffled < axis.extent &&
             axis.stride * axis.shuffled < kWarp) {
        const Expr bit = MakeInt(axis.stride * axis.shuffled);
        KILN_ASSIGN_OR_RETURN(
            const Expr other,
            exchange_.From(SourceLane(e_, Way::kXor, bit, kWarp), Exchange::Read(all)));
        KILN_ASSIGN_OR_RETURN(const Expr both, Combine(Exchange::Read(all), other));
        KILN_RETURN_IF_ERROR(exchange_.Write(all, both));
        axis.shuffled *= 2;
      }
      together &= axis.shuffled == axis.extent;
    }
    if (together) return Exchange::Read(all);
    return ThroughMemory(axes, Exchange::Read(all));
  }

  absl::StatusOr<Expr> Identity(DType type) {
    KILN_ASSIGN_OR_RETURN(const Operand identity,
                          e_.ToType(combiner_.identity, type, loc_, "the identity"));
    return identity.e;
  }

 private:
  absl::StatusOr<Expr> Combine(const Expr& a, const Expr& b) {
    CallArgs args;
    args.loc = loc_;
    for (const Expr& x : {a, b}) {
      KILN_ASSIGN_OR_RETURN(const Value value, e_.NewExpr(x, e_.InfoOf(x), loc_));
      args.positional.push_back(value);
      args.locs.push_back(loc_);
    }
    KILN_ASSIGN_OR_RETURN(const Value result, e_.Call(combiner_.function, args));
    KILN_ASSIGN_OR_RETURN(const Operand both,
                          e_.ToType(result, a.dtype(), loc_, "the result of T.comm_reducer"));
    return both.e;
  }

  // Each thread folds what those say that know different parts.
  absl::StatusOr<Expr> ThroughMemory(const std::vector<ReducedAxis>& axes, const Expr& part) {
    const Expr number = Number(e_);
    KILN_ASSIGN_OR_RETURN(const ir::Buffer parts,
                          e_.NewNamedBuffer(part.dtype(), {MakeInt(e_.launch().thread_count)},
                                            ir::Scope::kShared, loc_, {}, "parts"));
    KILN_RETURN_IF_ERROR(e_.EmitNew<ir::Alloc>(loc_, parts));
    KILN_RETURN_IF_ERROR(e_.EmitNew<ir::Store>(loc_, parts, std::vector<Expr>{number}, part));
    KILN_ASSIGN_OR_RETURN(const Expr nothing, Identity(part.dtype()));
    KILN_ASSIGN_OR_RETURN(const ir::Buffer total,
                          exchange_.Variable(part.dtype(), nothing, "total"));
    std::vector<ir::Axis> loops;
    Expr from = number;
    for (const ReducedAxis& axis : axes) {
      const Expr own = e_.launch().indices[axis.dim];
      const Expr r = ir::MakeVar("r");
      loops.push_back({r, MakeInt(0), MakeInt(axis.extent / axis.shuffled)});
      const Expr there =
          r * MakeInt(axis.shuffled) + ir::FloorMod(own, MakeInt(axis.shuffled)) - own;
      from = from + there * MakeInt(axis.stride);
    }
    KILN_ASSIGN_OR_RETURN(const Expr both,
                          Combine(Exchange::Read(total), ir::MakeLoad(parts, {from})));
    ir::Stmt fold = ir::MakeStmt<ir::Store>(loc_, total, std::vector<Expr>{MakeInt(0)}, both);
    for (size_t i = loops.size(); i-- > 0;) {
      fold =
          ir::MakeStmt<ir::For>(loc_, ir::ForKind::kSerial, std::vector<ir::Axis>{loops[i]}, fold);
    }
    KILN_RETURN_IF_ERROR(e_.Emit(loc_, fold));
    return Exchange::Read(total);
  }

  Elaborator& e_;
  Exchange exchange_;
  const CombinerObject& combiner_;
  const SourceLoc loc_;
};

absl::StatusOr<std::vector<ReducedAxis>> AxesOf(Elaborator& e, const BoundArgs& args, size_t from) {
  std::vector<ReducedAxis> axes;
  for (size_t i = from; i < args.rest.size(); ++i) {
    const Value& v = args.rest[i];
    size_t dim = 0;
    while (dim < 3 && !(v.Is(Type::kExpr) && v.expr().expr.same_as(e.launch().indices[dim]))) ++dim;
    const bool twice =
        std::any_of(axes.begin(), axes.end(), [&](const ReducedAxis& a) { return a.dim == dim; });
    if (dim == 3 || twice) {
      return e.Error(args.rest_locs[i],
                     twice ? "T.tvm_thread_allreduce names an axis of the block twice"
                           : "T.tvm_thread_allreduce over something that is no axis of the block",
                     "name what T.get_thread_binding gives");
    }
    int64_t stride = 1;
    for (size_t d = 0; d < dim; ++d) stride *= ThreadsAlong(e, d);
    axes.push_back({dim, ThreadsAlong(e, dim), stride});
  }
  return axes;
}

// T.tvm_thread_allreduce(1, value, condition, result, axes of the block...)
absl::StatusOr<Value> ThreadAllReduce(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(RequireThreads(e, args.loc, "T.tvm_thread_allreduce"));
  if (e.launch().around.empty()) {
    return e.Error(args.loc, "T.tvm_thread_allreduce without a reducer",
                   "put it under with T.attr(T.comm_reducer(...), \"reduce_scope\", ...)");
  }
  constexpr size_t kAxes = 4;
  if (args.rest.size() < kAxes) {
    return e.Error(args.loc, "T.tvm_thread_allreduce without its operands",
                   "pass 1, a value, a condition, a result and axes of the block");
  }
  KILN_ASSIGN_OR_RETURN(const int64_t count,
                        e.ToInt(args.rest[0], args.rest_locs[0], "the number of values"));
  if (count != 1) {
    return e.Unimplemented(args.rest_locs[0],
                           absl::StrCat("T.tvm_thread_allreduce of ", count, " values at once"),
                           "reduce one value at a time");
  }
  const Value& result = args.rest[3];
  if (!result.Is(Type::kAccess) || !result.access().is_point) {
    return e.Error(args.rest_locs[3], "the result of T.tvm_thread_allreduce is no element",
                   "pass an element of a T.alloc_local, as in r[0]");
  }
  const DType type = result.access().buffer->dtype;
  AllReduce reduce(e, *e.launch().around.back(), args.loc);
  KILN_ASSIGN_OR_RETURN(Operand value,
                        e.ToType(args.rest[1], type, args.rest_locs[1], "the value"));
  KILN_ASSIGN_OR_RETURN(const Condition takes, e.Decide(args.rest[2], args.rest_locs[2]));
  if (!takes.known || !takes.value) {
    KILN_ASSIGN_OR_RETURN(const Expr nothing, reduce.Identity(type));
    value.e = takes.known ? nothing : ir::MakeSelect(takes.expr.e, value.e, nothing);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<ReducedAxis> axes, AxesOf(e, args, kAxes));
  KILN_ASSIGN_OR_RETURN(const Expr all, reduce.Over(axes, value.e));
  std::vector<Expr> at;
  for (const AccessIndex& index : result.access().indices) at.push_back(index.min);
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Store>(args.loc, result.access().buffer, std::move(at), all));
  return Value::None();
}

constexpr Builtin kRows[] = {
    {"T.get_thread_binding", "dim?", Binding<false>},
    {"T.get_thread_bindings", "", Bindings<false>},
    {"T.get_block_binding", "dim?", Binding<true>},
    {"T.get_block_bindings", "", Bindings<true>},
    {"T.get_thread_extent", "dim?", Extent<false>},
    {"T.get_thread_extents", "", Extents<false>},
    {"T.get_block_extent", "dim?", Extent<true>},
    {"T.get_block_extents", "", Extents<true>},
    {"T.thread_binding", "start stop? thread? annotations?", ThreadBinding},
    {"T.launch_thread", "thread extent", LaunchThread},
    {"T.get_lane_idx", "warp_size?", LaneIndex},
    {"T.get_warp_idx", "warp_size?", WarpIndex<1>},
    {"T.get_warp_idx_sync", "warp_size?", WarpIndex<1>},
    {"T.get_warp_group_idx", "warp_size? warps_per_group?", WarpIndex<4>},
    {"T.shuffle_elect", "thread_extent", Elect},
    {"T.sync_threads", "barrier_id? arrive_count?", SyncThreads},
    {"T.tvm_storage_sync", "scope *", SyncStorage},
    {"T.sync_warp", "mask?", SyncWarp},
    {"T.shfl_sync", "value srcLane width? mask?", Shuffle<Way::kIndex>},
    {"T.shfl_xor", "value delta width? mask?", Shuffle<Way::kXor>},
    {"T.shfl_up", "value delta width? mask?", Shuffle<Way::kUp>},
    {"T.shfl_down", "value delta width? mask?", Shuffle<Way::kDown>},
    {"T.tvm_warp_shuffle", "mask value warp_id width? warp_size?", WarpShuffle<Way::kIndex>},
    {"T.tvm_warp_shuffle_xor", "mask value offset width? warp_size?", WarpShuffle<Way::kXor>},
    {"T.tvm_warp_shuffle_up", "mask value offset width? warp_size?", WarpShuffle<Way::kUp>},
    {"T.tvm_warp_shuffle_down", "mask value offset width? warp_size?", WarpShuffle<Way::kDown>},
    {"T.ballot", "predicate", WarpVote<Vote::kBallot>},
    {"T.ballot_sync", "predicate mask?", WarpVote<Vote::kBallot>},
    {"T.any_sync", "predicate mask?", WarpVote<Vote::kAny>},
    {"T.all_sync", "predicate mask?", WarpVote<Vote::kAll>},
    {"T.activemask", "", ActiveMask},
    {"T.tvm_warp_activemask", "", ActiveMask},
    {"T.match_any_sync", "value mask?", Match<false>},
    {"T.match_all_sync", "value mask?", Match<true>},
    {"T.syncthreads_count", "predicate", SyncVote<BlockVote::kCount>},
    {"T.syncthreads_and", "predicate", SyncVote<BlockVote::kAnd>},
    {"T.syncthreads_or", "predicate", SyncVote<BlockVote::kOr>},
    {"T.warp_reduce_sum", "value", WarpReduce<WarpOp::kSum>},
    {"T.warp_reduce_max", "value", WarpReduce<WarpOp::kMax>},
    {"T.warp_reduce_min", "value", WarpReduce<WarpOp::kMin>},
    {"T.warp_reduce_bitand", "value", WarpReduce<WarpOp::kAnd>},
    {"T.warp_reduce_bitor", "value", WarpReduce<WarpOp::kOr>},
    {"T.comm_reducer", "combiner identity", CommReducer},
    {"T.attr", "node attr_key value", Attr},
    {"T.evaluate", "value", Evaluate},
    {"T.tvm_thread_allreduce", "* dtype?", ThreadAllReduce},
};

}  // namespace

BuiltinTable ThreadBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
