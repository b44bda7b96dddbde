// Atomic updates.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/tile.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

// memory_order=: "relaxed", "consume" (as "acquire", which is stronger), "acquire", "release",
// "acq_rel", "seq_cst".
absl::StatusOr<ir::MemoryOrder> OrderOf(Elaborator& e, const BoundArgs& args, size_t i,
                                        ir::MemoryOrder otherwise, bool loads, bool stores) {
  if (!args.Given(i)) return otherwise;
  KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(args[i], args.LocOf(i), "memory_order"));
  using Order = ir::MemoryOrder;
  const auto wrong = [&](const char* remedy) {
    return e.Error(args.LocOf(i), absl::StrCat("the memory order '", name, "'"), remedy);
  };
  if (name == "relaxed") return Order::kRelaxed;
  if (name == "seq_cst") return Order::kSequential;
  if (name == "consume" || name == "acquire") {
    return loads ? absl::StatusOr<Order>(Order::kAcquire)
                 : wrong("a store is 'relaxed', 'release' or 'seq_cst'");
  }
  if (name == "release" || name == "acq_rel") {
    if (!stores) return wrong("a load is 'relaxed', 'consume', 'acquire' or 'seq_cst'");
    if (name == "release") return Order::kRelease;
    if (loads) return Order::kBoth;
    return wrong("a store is 'relaxed', 'release' or 'seq_cst'");
  }
  return wrong("use 'relaxed', 'consume', 'acquire', 'release', 'acq_rel' or 'seq_cst'");
}

absl::Status RequireBits(Elaborator& e, const ir::Buffer& b, SourceLoc loc, const char* name) {
  if (b->dtype.is_int() && !b->dtype.is_bool()) return absl::OkStatus();
  return e.Error(loc, absl::StrCat(name, " of '", b->name, "', which is ", b->dtype.ToString()),
                 "update a tensor of integers");
}

// Memory that several threads reach; what each thread has of its own no other one can update.
absl::StatusOr<Tile> SharedPlace(Elaborator& e, const BoundArgs& args, absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(Tile tile, e.ToTile(args[0], args.LocOf(0), what));
  const ir::Buffer& b = tile.region.buffer;
  if (b->scope != ir::Scope::kLocal && b->scope != ir::Scope::kVar) return tile;
  return e.Error(
      args.LocOf(0),
      absl::StrCat("an atomic operation on '", b->name, "', of which each thread has its own"),
      "read and assign it, as in r[i] += x, or use T.alloc_shared");
}

bool IsOne(const Tile& tile) {
  return tile.is_base || std::all_of(tile.region.ranges.begin(), tile.region.ranges.end(),
                                     [](const ir::Range& r) { return ir::IsConst(r.extent, 1); });
}

absl::Status RequireNoElementLoop(Elaborator& e, const BoundArgs& args) {
  if (!e.InElementLoop()) return absl::OkStatus();
  return e.Error(args.LocOf(0), "an atomic update of a tile in a loop over elements",
                 "index one element, or update the tile outside of the loop");
}

// A place for what an element was before the update. In a loop over elements each iteration has
// its own; elsewhere the block has one, which all its threads read.
absl::StatusOr<ir::Buffer> PlaceOfPrevious(Elaborator& e, DType type, SourceLoc loc) {
  const bool own = e.InElementLoop();
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer place,
      e.NewNamedBuffer(type, {ir::MakeInt(1)}, own ? ir::Scope::kVar : ir::Scope::kShared, loc, {},
                       "previous"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(loc, place, own ? ir::MakeConst(0, type) : ir::Expr()));
  if (!own) {  // an update outside of its tensor does not happen
    KILN_RETURN_IF_ERROR(e.EmitNew<ir::Store>(loc, place, std::vector<ir::Expr>{ir::MakeInt(0)},
                                              ir::MakeConst(0, type)));
  }
  return place;
}

// An update of one element; its value before, if `tells`.
absl::StatusOr<Value> UpdateOne(Elaborator& e, const BoundArgs& args, ir::AtomicOp op,
                                const Tile& dst, const ir::Expr& value, ir::MemoryOrder order,
                                bool tells) {
  ir::AtomicWay way{order, nullptr};
  const DType type = dst.region.buffer->dtype;
  if (tells) {
    KILN_ASSIGN_OR_RETURN(way.previous, PlaceOfPrevious(e, type, args.loc));
  }
  const ir::Buffer place = way.previous;
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Atomic>(args.loc, op, dst.region, ir::Region{}, value, std::move(way)));
  if (!tells) return Value::None();
  ExprInfo info;
  info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
  KILN_ASSIGN_OR_RETURN(const Value loaded,
                        e.NewExpr(ir::MakeLoad(place, {ir::MakeInt(0)}), info, args.loc));
  return e.Freeze(loaded, "previous", args.loc);
}

// Every element of a tile by one value.
absl::StatusOr<Value> UpdateAll(Elaborator& e, const BoundArgs& args, ir::AtomicOp op,
                                const Tile& dst, const ir::Expr& value, ir::MemoryOrder order) {
  KILN_RETURN_IF_ERROR(RequireNoElementLoop(e, args));
  std::vector<ir::Axis> axes;
  ir::Region element{dst.region.buffer, {}};
  for (const ir::Range& range : dst.region.ranges) {
    const DType type = range.extent.dtype();
    axes.push_back({ir::MakeVar("i", type), ir::MakeInt(0, type), range.extent});
    element.ranges.push_back({range.min + axes.back().var, ir::MakeInt(1)});
  }
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::For>(args.loc, ir::ForKind::kParallel, std::move(axes),
                         ir::MakeStmt<ir::Atomic>(args.loc, op, element, ir::Region{}, value,
                                                  ir::AtomicWay{order, nullptr})));
  return Value::None();
}

constexpr size_t kOrder = 2, kPrevious = 3;

absl::Status NoPrevious(Elaborator& e, const BoundArgs& args) {
  return e.Unimplemented(args.LocOf(kPrevious),
                         "an atomic update of a tile that returns the previous values",
                         "update the elements in a T.Parallel loop");
}

template <ir::AtomicOp op>
absl::StatusOr<Value> Atomic(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "an atomic update"));
  bool tells = false;
  if (args.Given(kPrevious)) {
    KILN_ASSIGN_OR_RETURN(tells, e.ToBool(args[kPrevious], args.LocOf(kPrevious), "return_prev"));
  }
  KILN_ASSIGN_OR_RETURN(
      const ir::MemoryOrder order,
      OrderOf(e, args, kOrder, ir::MemoryOrder::kRelaxed, /*loads=*/true, /*stores=*/true));
  KILN_ASSIGN_OR_RETURN(Tile dst, SharedPlace(e, args, "the target of an atomic update"));
  if (op == ir::AtomicOp::kAnd || op == ir::AtomicOp::kOr || op == ir::AtomicOp::kXor) {
    KILN_RETURN_IF_ERROR(RequireBits(e, dst.region.buffer, args.LocOf(0), "a bitwise update"));
  }
  const Value& value = args[1];
  const bool is_tile = (value.Is(Type::kBuffer) && !e.IsRuntime(value)) ||
                       (value.Is(Type::kAccess) && !value.access().is_point);
  if (!is_tile) {
    KILN_ASSIGN_OR_RETURN(
        const Operand operand,
        e.ToType(value, dst.region.buffer->dtype, args.LocOf(1), "the value of an atomic update"));
    if (!IsOne(dst)) {
      if (tells) return NoPrevious(e, args);
      return UpdateAll(e, args, op, dst, operand.e, order);
    }
    return UpdateOne(e, args, op, dst, operand.e, order, tells);
  }
  if (tells) return NoPrevious(e, args);
  KILN_ASSIGN_OR_RETURN(const Tile src, e.ToTile(value, args.LocOf(1), "the value"));
  if (dst.is_base) KILN_RETURN_IF_ERROR(FillBase(e, &dst, src, args.LocOf(0)));
  KILN_RETURN_IF_ERROR(RequireSameShape(e, src, dst, args.loc, "an atomic update"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Atomic>(args.loc, op, dst.region, src.region, ir::Expr(),
                                             ir::AtomicWay{order, nullptr}));
  return Value::None();
}

absl::StatusOr<Tile> OneElement(Elaborator& e, const BoundArgs& args, const char* name) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, name));
  KILN_ASSIGN_OR_RETURN(Tile tile, SharedPlace(e, args, absl::StrCat("the element of ", name)));
  if (!IsOne(tile)) {
    return e.Error(args.LocOf(0), absl::StrCat(name, " of a whole region"), "index one element");
  }
  return tile;
}

absl::StatusOr<Value> AtomicLoad(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Tile src, OneElement(e, args, "T.atomic_load"));
  KILN_ASSIGN_OR_RETURN(
      const ir::MemoryOrder order,
      OrderOf(e, args, 1, ir::MemoryOrder::kSequential, /*loads=*/true, /*stores=*/false));
  return UpdateOne(e, args, ir::AtomicOp::kLoad, src, ir::MakeConst(0, src.region.buffer->dtype),
                   order, /*tells=*/true);
}

absl::StatusOr<Value> AtomicStore(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Tile dst, OneElement(e, args, "T.atomic_store"));
  KILN_ASSIGN_OR_RETURN(
      const ir::MemoryOrder order,
      OrderOf(e, args, 2, ir::MemoryOrder::kSequential, /*loads=*/false, /*stores=*/true));
  KILN_ASSIGN_OR_RETURN(
      const Operand value,
      e.ToType(args[1], dst.region.buffer->dtype, args.LocOf(1), "the value of T.atomic_store"));
  return UpdateOne(e, args, ir::AtomicOp::kStore, dst, value.e, order, /*tells=*/false);
}

// The element that lies `lane` behind the first of a tile, along its last dimension.
std::vector<ir::Expr> PlaceOfLane(const Tile& tile, int64_t lane) {
  std::vector<ir::Expr> indices;
  for (const ir::Range& range : tile.region.ranges) indices.push_back(range.min);
  indices.back() = indices.back() + ir::MakeInt(lane);
  return indices;
}

// What is added to each of `count` neighbours: the lanes of a vector, or as many elements from one
// on.
absl::StatusOr<std::vector<Operand>> ValuesOfSome(Elaborator& e, const BoundArgs& args,
                                                  const ir::Buffer& to, int64_t count) {
  std::vector<Operand> values;
  if (IsVector(args[1])) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> lanes,
                          LanesOf(e, args[1], static_cast<size_t>(count), args.LocOf(1)));
    for (const Value& lane : lanes) {
      KILN_ASSIGN_OR_RETURN(
          Operand value, e.ToType(lane, to->dtype, args.LocOf(1), "the value of an atomic update"));
      values.push_back(std::move(value));
    }
    return values;
  }
  KILN_ASSIGN_OR_RETURN(const Tile src, e.ToTile(args[1], args.LocOf(1), "the value"));
  for (int64_t lane = 0; lane < count; ++lane) {
    ExprInfo info = src.info;
    info.flags |= ExprInfo::kRuntime | ExprInfo::kLoads;
    KILN_ASSIGN_OR_RETURN(
        const Value element,
        e.NewExpr(ir::MakeLoad(src.region.buffer, PlaceOfLane(src, lane)), info, args.loc));
    KILN_ASSIGN_OR_RETURN(Operand value, e.ToType(element, to->dtype, args.LocOf(1),
                                                  "the value of an atomic update"));
    values.push_back(std::move(value));
  }
  return values;
}

// Some neighbours from an element on, each by a value of its own; before, each had one of what is
// returned where that is asked for.
template <int64_t count>
absl::StatusOr<Value> AtomicAddSome(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "an atomic update"));
  bool tells = false;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(tells, e.ToBool(args[2], args.LocOf(2), "return_prev"));
  }
  KILN_ASSIGN_OR_RETURN(const Tile dst, SharedPlace(e, args, "the target of an atomic update"));
  KILN_ASSIGN_OR_RETURN(const std::vector<Operand> values,
                        ValuesOfSome(e, args, dst.region.buffer, count));
  std::vector<Value> before;
  for (int64_t lane = 0; lane < count; ++lane) {
    Tile element = dst;
    element.region.ranges.clear();
    for (const ir::Expr& index : PlaceOfLane(dst, lane)) {
      element.region.ranges.push_back({index, ir::MakeInt(1)});
    }
    KILN_ASSIGN_OR_RETURN(const Value previous,
                          UpdateOne(e, args, ir::AtomicOp::kAdd, element, values[lane].e,
                                    ir::MemoryOrder::kRelaxed, tells));
    before.push_back(previous);
  }
  return tells ? NewVector(e, std::move(before)) : Value::None();
}

constexpr char kParams[] = "dst value memory_order? return_prev? use_tma? annotations?";

constexpr Builtin kRows[] = {
    {"T.atomic_add", kParams, Atomic<ir::AtomicOp::kAdd>},
    {"T.atomic_addx2", "dst value return_prev? annotations?", AtomicAddSome<2>},
    {"T.atomic_addx4", "dst value return_prev? annotations?", AtomicAddSome<4>},
    {"T.atomic_max", kParams, Atomic<ir::AtomicOp::kMax>},
    {"T.atomic_min", kParams, Atomic<ir::AtomicOp::kMin>},
    {"T.atomic_and", kParams, Atomic<ir::AtomicOp::kAnd>},
    {"T.atomic_or", kParams, Atomic<ir::AtomicOp::kOr>},
    {"T.atomic_xor", kParams, Atomic<ir::AtomicOp::kXor>},
    {"T.atomic_load", "src memory_order?", AtomicLoad},
    {"T.atomic_store", "dst src memory_order?", AtomicStore},
};

}  // namespace

BuiltinTable AtomicBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
