// Reducers: tiles that the iterations of parallel loops accumulate into.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

absl::StatusOr<ir::ReduceOp> OperationOf(Elaborator& e, const BoundArgs& args) {
  if (!args.Given(2)) return ir::ReduceOp::kSum;
  KILN_ASSIGN_OR_RETURN(const std::string op,
                        e.ToStr(args[2], args.LocOf(2), "the operation of a reducer"));
  if (op == "sum") return ir::ReduceOp::kSum;
  if (op == "max") return ir::ReduceOp::kMax;
  if (op == "min") return ir::ReduceOp::kMin;
  return e.Error(args.LocOf(2), absl::StrCat("a reducer by '", op, "'"),
                 "use \"sum\", \"max\" or \"min\"");
}

absl::StatusOr<Value> AllocReducer(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.alloc_reducer"));
  KILN_ASSIGN_OR_RETURN(const ir::ReduceOp op, OperationOf(e, args));
  KILN_ASSIGN_OR_RETURN(const DType dtype, e.ToDType(args[1], args.LocOf(1)));
  KILN_ASSIGN_OR_RETURN(const std::vector<Operand> operands,
                        e.ToShape(args[0], args.LocOf(0), "the shape of T.alloc_reducer"));
  std::vector<ir::Expr> shape;
  for (const Operand& extent : operands) {
    if (extent.info.flags & ExprInfo::kRuntime) {
      return e.Error(args.LocOf(0), "the shape of T.alloc_reducer depends on a run-time value",
                     "reducers have compile-time shapes");
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
    if (copies == "all") e.launch_notes()[absl::StrCat("replicated:", buffer->name)] = "all";
  }
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, buffer));
  e.reducers().push_back({buffer, op, args.loc, {}});
  return e.NewBuffer(buffer);
}

absl::StatusOr<Value> FinalizeReducer(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.finalize_reducer"));
  for (ir::Reducer& reducer : e.reducers()) {
    if (!args[0].Is(Type::kBuffer) || reducer.buffer != args[0].buffer().buffer) continue;
    const ir::Stmt place = ir::MakeStmt<ir::Evaluate>(args.loc, ir::MakeInt(0));
    reducer.finals.push_back(place);
    KILN_RETURN_IF_ERROR(e.Emit(args.loc, place));
    return Value::None();
  }
  return e.Error(args.LocOf(0),
                 absl::StrCat("T.finalize_reducer of ", Describe(args[0]), ", which is no reducer"),
                 "pass what T.alloc_reducer gave");
}

constexpr Builtin kRows[] = {
    {"T.alloc_reducer", "shape dtype op? replication?", AllocReducer},
    {"T.finalize_reducer", "reducer batch?", FinalizeReducer},
};

}  // namespace

BuiltinTable ReducerBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
