// Reducers: tiles that the iterations of parallel loops accumulate into.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/tile.h"

namespace kiln::lang {
namespace {

absl::StatusOr<ir::ReduceOp> OperationOf(Elaborator& e, const BoundArgs& args) {
  if (!args.Given(2)) return ir::ReduceOp::kSum;
  KILN_ASSIGN_OR_RETURN(const std::string op,
                        e.ToStr(args[2], args.LocOf(2), "the operation of a reducer"));
  if (op == "sum") return ir::ReduceOp::kSum;
  if (op == "max") return ir::ReduceOp::kMax;
  if (op == "min") return ir::ReduceOp::kMin;
  if (op == "bitand") return ir::ReduceOp::kBitAnd;
  if (op == "bitor") return ir::ReduceOp::kBitOr;
  if (op == "bitxor") return ir::ReduceOp::kBitXor;
  return e.Error(args.LocOf(2), absl::StrCat("a reducer by '", op, "'"),
                 "use \"sum\", \"max\", \"min\", \"bitand\", \"bitor\" or \"bitxor\"");
}

absl::StatusOr<Value> AllocReducer(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.alloc_reducer"));
  KILN_ASSIGN_OR_RETURN(const ir::ReduceOp op, OperationOf(e, args));
  KILN_ASSIGN_OR_RETURN(const DType dtype, e.ToDType(args[1], args.LocOf(1)));
  const bool bits =
      op == ir::ReduceOp::kBitAnd || op == ir::ReduceOp::kBitOr || op == ir::ReduceOp::kBitXor;
  if (dtype.is_packed()) {
    return e.Unimplemented(args.LocOf(1), absl::StrCat("a reducer of ", dtype.ToString()),
                           "use int32 or float32");
  }
  if (bits && !dtype.is_int()) {
    return e.Error(args.LocOf(1), absl::StrCat("a reducer of bits of ", dtype.ToString()),
                   "use an integer type");
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Operand> operands,
                        e.ToShape(args[0], args.LocOf(0), "the shape of T.alloc_reducer"));
  std::vector<ir::Expr> shape;
  for (const Operand& extent : operands) {
    if (extent.info.flags & ExprInfo::kRuntime) {
      return e.NeedsValue(args.LocOf(0), "the shape of T.alloc_reducer depends on a run-time value",
                          extent.e, "reducers have compile-time shapes");
    }
    shape.push_back(extent.e);
  }
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer buffer,
      e.NewNamedBuffer(dtype, std::move(shape), ir::Scope::kFragment, args.loc, {}, "reducer"));
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(const std::string copies,
                          e.ToStr(args[3], args.LocOf(3), "the replication of a reducer"));
    if (copies != "all" && copies != "none") {
      return e.Error(args.LocOf(3), absl::StrCat("the replication '", copies, "' of a reducer"),
                     "use \"all\" (every thread gets the result) or \"none\"");
    }
    if (copies == "all") e.launch().notes[absl::StrCat("replicated:", buffer->name)] = "all";
  }
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, buffer));
  e.reducers().push_back({buffer, op, args.loc, {}});
  return e.NewBuffer(buffer);
}

// The reducer of that buffer; an error of `name` where it is none.
absl::StatusOr<ir::Reducer*> ReducerOf(Elaborator& e, const BoundArgs& args,
                                       const ir::Buffer& buffer, const char* name) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, name));
  for (ir::Reducer& reducer : e.reducers()) {
    if (buffer != nullptr && reducer.buffer == buffer) return &reducer;
  }
  return e.Error(args.LocOf(0),
                 absl::StrCat(name, " of ", Describe(args[0]), ", which is no reducer"),
                 "pass what T.alloc_reducer gave");
}
ir::Buffer BufferOf(const Value& v) { return v.Is(Type::kBuffer) ? v.buffer().buffer : nullptr; }

absl::StatusOr<Value> FinalizeReducer(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(ir::Reducer* const reducer,
                        ReducerOf(e, args, BufferOf(args[0]), "T.finalize_reducer"));
  const ir::Region result = ir::WholeBuffer(reducer->buffer);
  const ir::Stmt place = ir::MakeStmt<ir::Evaluate>(args.loc, ir::MakeInt(0));
  reducer->finals.push_back(place);
  KILN_RETURN_IF_ERROR(e.Emit(args.loc, place));
  if (!args.Given(1)) return Value::None();
  Tile from;
  from.region = result;
  KILN_ASSIGN_OR_RETURN(const Tile to,
                        e.ToTile(args[1], args.LocOf(1), "the destination of T.finalize_reducer"));
  KILN_RETURN_IF_ERROR(RequireSameShape(e, from, to, args.loc, "T.finalize_reducer"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Copy>(args.loc, result, to.region));
  return Value::None();
}

// T.reducer_init(r, init): from nothing, or from a value that counts once.
absl::StatusOr<Value> InitReducer(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(ir::Reducer* const reducer,
                        ReducerOf(e, args, BufferOf(args[0]), "T.reducer_init"));
  const ir::Buffer buffer = reducer->buffer;
  ir::Expr from = ir::ReducerIdentity(reducer->op, buffer->dtype);
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(const Operand init, e.ToType(args[1], buffer->dtype, args.LocOf(1),
                                                       "init of T.reducer_init"));
    from = init.e;
  }
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Fill>(args.loc, ir::WholeBuffer(buffer), from));
  return Value::None();
}

// T.reducer_update(r[i], value).
absl::StatusOr<Value> UpdateReducer(Elaborator& e, const BoundArgs& args) {
  const bool place = args[0].Is(Type::kAccess) && args[0].access().is_point;
  KILN_ASSIGN_OR_RETURN(
      ir::Reducer* const reducer,
      ReducerOf(e, args, place ? args[0].access().buffer : nullptr, "T.reducer_update"));
  std::vector<ir::Expr> indices;
  for (const AccessIndex& index : args[0].access().indices) indices.push_back(index.min);
  const ir::Buffer buffer = reducer->buffer;
  KILN_ASSIGN_OR_RETURN(const Operand value, e.ToType(args[1], buffer->dtype, args.LocOf(1),
                                                      "the value of T.reducer_update"));
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Store>(args.loc, buffer, indices,
                           ir::ReducerUpdate(reducer->op, ir::MakeLoad(buffer, indices), value.e)));
  return Value::None();
}

constexpr Builtin kRows[] = {
    {"T.alloc_reducer", "shape dtype op? replication?", AllocReducer},
    {"T.finalize_reducer", "reducer dst? batch? annotations?", FinalizeReducer},
    {"T.reducer_init", "reducer init?", InitReducer},
    {"T.reducer_update", "target value", UpdateReducer},
};

}  // namespace

BuiltinTable ReducerBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
