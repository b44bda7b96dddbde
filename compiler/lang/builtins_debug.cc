// T.print: lines of text from a kernel, in the interpreter and on every target. T.device_assert.
//
//   T.print(x[i], msg="label")   label: block 3, 0: 0.5
//   T.print(tile)                tile: block 3, 0: [2, 7] = 0.5      one line an element
//   T.print("reached")           reached: block 3, 0
//
// ir/print_format.h says how values look.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::Expr;

// A line in the making.
struct Line {
  std::vector<std::string> text = {""};
  std::vector<Expr> values;

  Line& operator<<(absl::string_view more) {
    absl::StrAppend(&text.back(), more);
    return *this;
  }
  Line& operator<<(const Expr& value) {
    values.push_back(value);
    text.emplace_back();
    return *this;
  }
};

// "label: block 3, 0".
Line Head(Elaborator& e, absl::string_view label) {
  Line line;
  if (!label.empty()) line << label << ": ";
  line << "block ";
  const char* separator = "";
  for (const ir::Axis& axis : e.grid()) {
    line << separator << axis.var;
    separator = ", ";
  }
  return line;
}

absl::Status PrintElements(Elaborator& e, const Tile& tile, absl::string_view label,
                           SourceLoc loc) {
  Line line = Head(e, label);
  line << ": [";
  std::vector<ir::Axis> axes;
  std::vector<Expr> indices;
  for (const ir::Range& range : tile.region.ranges) {
    const Expr var = ir::MakeVar("i", range.extent.dtype());
    axes.push_back({var, ir::MakeInt(0, var.dtype()), range.extent});
    indices.push_back(range.min + var);
    if (axes.size() > 1) line << ", ";
    line << indices.back();
  }
  line << "] = " << ir::MakeLoad(tile.region.buffer, indices);
  ir::Stmt print = ir::MakeStmt<ir::Print>(loc, std::move(line.text), std::move(line.values));
  return e.EmitNew<ir::For>(loc, ir::ForKind::kParallel, std::move(axes), std::move(print));
}

absl::StatusOr<Value> Print(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.print"));
  std::string label;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(label, e.ToStr(args[1], args.LocOf(1), "msg of T.print"));
  }
  const Value nothing = Value::None();
  const Value& v = args.Has(0) ? args[0] : nothing;
  const bool is_tile =
      (v.Is(Type::kBuffer) && !e.IsRuntime(v)) || (v.Is(Type::kAccess) && !v.access().is_point);
  if (is_tile) {
    if (e.InElementLoop()) {
      return e.Error(args.LocOf(0), "T.print of a tile in a loop over elements",
                     "print one element, or print the tile after the loop");
    }
    KILN_ASSIGN_OR_RETURN(const Tile tile, e.ToTile(v, args.LocOf(0), "what T.print shows"));
    if (label.empty()) label = tile.region.buffer->name;
    KILN_RETURN_IF_ERROR(PrintElements(e, tile, label, args.loc));
    return Value::None();
  }
  if (v.Is(Type::kStr)) {
    label = label.empty() ? v.str() : absl::StrCat(label, ": ", v.str());
  }
  Line line = Head(e, label);
  if (!v.is_none() && !v.Is(Type::kStr)) {
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(v, args.LocOf(0), "what T.print shows"));
    if (x.e.dtype().code == TypeCode::kHandle) {
      return e.Error(args.LocOf(0), "T.print of a handle", "print numbers");
    }
    line << ": " << x.e;
  }
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Print>(args.loc, std::move(line.text), std::move(line.values)));
  return Value::None();
}

// The interpreter stops with an error, a CPU's entry point returns KILN_ERROR_ASSERT, a GPU writes
// a line and ends the kernel.
absl::StatusOr<Value> DeviceAssert(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.device_assert"));
  KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(args[0], args.LocOf(0)));
  std::string message = "T.device_assert";
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(message, e.ToStr(args[1], args.LocOf(1), "the message"));
  }
  const Expr condition = c.known ? ir::MakeBool(c.value) : c.expr.e;
  if (c.known && c.value) return Value::None();
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Assert>(args.loc, condition, std::move(message)));
  return Value::None();
}

constexpr Builtin kRows[] = {
    {"T.print", "obj? msg? warp_group_id? warp_id?", Print},
    {"T.device_assert", "condition msg? no_stack_info?", DeviceAssert},
};

}  // namespace

BuiltinTable DebugBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
