// Layouts that a kernel gives by functions, and what they belong to. T.Layout says where in memory
// an element lies, T.Fragment which threads hold it in which register. Where the shape is known the
// function is tabulated and read back as digits: the text of a layout::Layout on m, or on tx and m.
// In an open elaboration it stays a text of its own, which nothing reads.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/elaborator.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/ownership.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/text.h"

namespace kiln::lang {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 22;  // of a fragment's layout, copies counted
constexpr int64_t kLargestTile = int64_t{1} << 20;  // elements; layouts of more are a tensor's
constexpr int64_t kMaxPlaces = int64_t{1} << 30;    // that a layout of memory spans
constexpr int kMaxOperations = 2000;                // of one result

// A function over the indices of a shape, and over the number of the copy where there are several.
struct Indices {
  std::vector<Operand> shape;
  std::vector<ir::Expr> vars;  // the shape's, then the copy's
  CallArgs call;
};

absl::StatusOr<Indices> IndicesOf(Elaborator& e, const BoundArgs& args) {
  Indices out;
  KILN_ASSIGN_OR_RETURN(out.shape, e.ToShape(args[0], args.LocOf(0), "the shape of a layout"));
  out.call.loc = args.loc;
  for (size_t i = 0; i < out.shape.size(); ++i) {
    out.vars.push_back(ir::MakeVar(absl::StrCat("i", i)));
  }
  for (const ir::Expr& var : out.vars) {
    ExprInfo info;
    info.flags = ExprInfo::kRuntime;
    KILN_ASSIGN_OR_RETURN(const Value index, e.NewExpr(var, info, args.loc));
    out.call.positional.push_back(index);
    out.call.locs.push_back(args.loc);
  }
  return out;
}

absl::Status AddCopy(Elaborator& e, const BoundArgs& args, Indices* indices) {
  indices->vars.push_back(ir::MakeVar("rep"));
  ExprInfo info;
  info.flags = ExprInfo::kRuntime;
  KILN_ASSIGN_OR_RETURN(const Value copy, e.NewExpr(indices->vars.back(), info, args.loc));
  indices->call.positional.push_back(copy);
  indices->call.locs.push_back(args.loc);
  return absl::OkStatus();
}

// What the function in argument `i` returns.
absl::StatusOr<std::vector<ir::Expr>> ResultsOf(Elaborator& e, const BoundArgs& args, size_t i,
                                                const CallArgs& call) {
  KILN_ASSIGN_OR_RETURN(const Value result, e.Call(args[i], call));
  std::vector<Value> items = {result};
  if (result.is_sequence()) items = result.seq().items;
  std::vector<ir::Expr> results;
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToIndex(item, args.LocOf(i), "a layout's result"));
    if (x.info.size > kMaxOperations) {
      return e.Error(args.LocOf(i),
                     absl::StrCat("a layout of more than ", kMaxOperations, " operations"),
                     "simplify it");
    }
    results.push_back(x.e);
  }
  return results;
}

std::string Listed(const std::vector<ir::Expr>& v) {
  std::string text;
  for (const ir::Expr& e : v) absl::StrAppend(&text, text.empty() ? "" : ", ", ir::ToString(e));
  return text;
}

// The extents of a shape that is known.
std::optional<std::vector<int64_t>> Known(const std::vector<Operand>& shape) {
  std::vector<int64_t> extents;
  for (const Operand& extent : shape) {
    const auto n = ir::ConstInt(extent.e);
    if (!n) return std::nullopt;
    extents.push_back(*n);
  }
  return extents;
}

std::string IndexText(int64_t x, const std::vector<int64_t>& extents) {
  return absl::StrCat("(", absl::StrJoin(layout::Unflatten(x, extents), ", "), ")");
}

// Whether a part of the function divides by zero there.
bool DividesByZero(const ir::Expr& result, const std::vector<ir::Expr>& vars,
                   const std::vector<int64_t>& at) {
  bool divides = false;
  ir::Walk(result, [&](const ir::Expr& x) {
    const auto* binary = x.As<ir::Binary>();
    if (binary == nullptr ||
        (binary->op != ir::BinaryOp::kFloorDiv && binary->op != ir::BinaryOp::kFloorMod)) {
      return true;
    }
    const auto divisor = ir::IntFunction::Of(binary->b, vars);
    divides = divides || (divisor.ok() && (*divisor)(at) == int64_t{0});
    return true;
  });
  return divides;
}

using Columns = std::vector<std::vector<int64_t>>;

// The values of each result for every element, row-major, and copy: columns[result][copy * n + x].
// nullopt where something that is not known decides them; an error where the function, which is
// argument i, has no value.
absl::StatusOr<std::optional<Columns>> Tabulate(Elaborator& e, const BoundArgs& args, size_t i,
                                                const std::vector<ir::Expr>& results,
                                                const std::vector<ir::Expr>& vars,
                                                const std::vector<int64_t>& extents,
                                                int64_t copies) {
  Columns columns;
  int64_t n = 1;
  for (const int64_t extent : extents) n *= extent;
  for (const ir::Expr& result : results) {
    const auto function = ir::IntFunction::Of(result, vars);
    if (!function.ok()) return std::optional<Columns>();
    std::vector<int64_t> column;
    for (int64_t copy = 0; copy < copies; ++copy) {
      for (int64_t x = 0; x < n; ++x) {
        std::vector<int64_t> at = layout::Unflatten(x, extents);
        if (vars.size() > extents.size()) at.push_back(copy);
        const std::optional<int64_t> value = (*function)(at);
        if (!value) {
          return e.Error(args.LocOf(i),
                         absl::StrCat("the layout's function ",
                                      DividesByZero(result, vars, at)
                                          ? "divides by zero"
                                          : "shifts by less than 0 or more than the bits",
                                      " at element ", IndexText(x, extents)),
                         "give every element a place");
        }
        column.push_back(*value);
      }
    }
    columns.push_back(std::move(column));
  }
  return std::make_optional(std::move(columns));
}

// Several results as one number: row-major over the extents that they span.
std::vector<int64_t> Flattened(const std::vector<std::vector<int64_t>>& columns, size_t first) {
  std::vector<int64_t> flat(columns[0].size(), 0);
  for (size_t c = first; c < columns.size(); ++c) {
    const int64_t extent = *std::max_element(columns[c].begin(), columns[c].end()) + 1;
    for (size_t x = 0; x < flat.size(); ++x) flat[x] = flat[x] * extent + columns[c][x];
  }
  return flat;
}

// More elements than a tile has anywhere: a layout of a tensor, whose function is not gone through.
bool IsLarge(const std::vector<ir::Expr>& shape) {
  int64_t n = 1;
  bool large = false;
  for (const ir::Expr& extent : shape) {
    const auto known = ir::ConstInt(extent);
    if (!known || *known < 1) return false;  // open, or refused
    large = large || __builtin_mul_overflow(n, *known, &n) || n > kLargestTile;
  }
  return large;
}

absl::Status CheckSize(Elaborator& e, const BoundArgs& args, const std::vector<int64_t>& extents,
                       int64_t copies) {
  int64_t n = copies;
  for (const int64_t extent : extents) {
    if (extent < 1)
      return e.Error(args.LocOf(0), "a layout of no elements", "give its buffer's shape");
    if (__builtin_mul_overflow(n, extent, &n) || n > kMaxElements) {
      return e.Error(args.LocOf(0),
                     absl::StrCat("a layout of more than ", kMaxElements, " elements"),
                     "use smaller tiles");
    }
  }
  return absl::OkStatus();
}

// The function puts the elements where no digits of the index do (layout/factor.h).
absl::Status NoDigits(Elaborator& e, const BoundArgs& args, bool of_threads) {
  const char* supported =
      of_threads ? "thread and register are sums of digits of the index (i // 4, j % 8)"
                 : "places are sums of digits of the index (i // 4, j % 8), or digits by XOR";
  const char* remedy =
      of_threads ? "give each digit a place of its own, as in lambda i, j: (i * 4 + j // 2, j % 2)"
                 : "shift rows by XOR in place of a sum, as in lambda i, j: (i, j ^ (i % 8)), or "
                   "use tilelang.layout.make_swizzled_layout(buffer)";
  size_t by = 1;  // forward_fn, or forward_thread_fn
  while (by + 1 < args.values.size() && !args.Given(by)) ++by;
  return e.Unimplemented(args.LocOf(by),
                         absl::StrCat("a layout by this function is not supported: ", supported,
                                      ", and nothing carries from one into the next"),
                         remedy);
}

Value NewLayout(Elaborator& e, const std::vector<Operand>& shape, std::string text,
                bool of_threads) {
  auto* layout = e.arena().New<LayoutObject>();
  layout->text = std::move(text);
  layout->of_threads = of_threads;
  for (const Operand& extent : shape) layout->shape.push_back(extent.e);
  return Value::Of(Type::kLayout, layout);
}

// A layout is a function of the index alone: nothing of the block, the arguments or memory.
absl::Status RequireIndexOnly(Elaborator& e, const BoundArgs& args,
                              const std::vector<ir::Expr>& results,
                              const std::vector<ir::Expr>& vars) {
  std::string stranger;
  for (const ir::Expr& result : results) {
    ir::Walk(result, [&](const ir::Expr& x) {
      const bool index = std::any_of(vars.begin(), vars.end(),
                                     [&](const ir::Expr& var) { return var.same_as(x); });
      const bool varies =
          (x.As<ir::Var>() && !index && !e.InfoOf(x).open_only()) || x.As<ir::Load>() != nullptr;
      if (varies && stranger.empty()) stranger = ir::ToString(x);
      return true;
    });
  }
  if (stranger.empty()) return absl::OkStatus();
  return e.Error(args.loc, absl::StrCat("the layout depends on ", stranger),
                 "let it depend on the index alone, by constants and arguments");
}

std::string ShapeText(const std::vector<Operand>& shape) {
  std::vector<ir::Expr> extents;
  for (const Operand& extent : shape) extents.push_back(extent.e);
  return absl::StrCat("(", Listed(extents), ")");
}

// Coordinates count from 0 and stay within an address space that a tile can have.
absl::Status CheckColumns(Elaborator& e, const BoundArgs& args,
                          const std::vector<std::vector<int64_t>>& columns,
                          const std::vector<int64_t>& extents) {
  int64_t span = 1;
  for (const std::vector<int64_t>& column : columns) {
    const auto least = std::min_element(column.begin(), column.end());
    const auto most = std::max_element(column.begin(), column.end());
    if (*least < 0) {
      return e.Error(args.loc,
                     absl::StrCat("element ", IndexText(least - column.begin(), extents),
                                  " of the layout lies at ", *least),
                     "places count from 0");
    }
    if (*most < kMaxPlaces && span * (*most + 1) <= kMaxPlaces) {
      span *= *most + 1;
      continue;
    }
    return e.Error(args.loc,
                   absl::StrCat("element ", IndexText(most - column.begin(), extents),
                                " of the layout lies beyond place ", kMaxPlaces),
                   "keep the layout as dense as its buffer");
  }
  return absl::OkStatus();
}

absl::Status CheckApart(Elaborator& e, const BoundArgs& args, const std::vector<int64_t>& places,
                        const std::vector<int64_t>& extents) {
  std::unordered_map<int64_t, int64_t> held;
  for (size_t x = 0; x < places.size(); ++x) {
    const auto [other, is_new] = held.emplace(places[x], x);
    if (is_new) continue;
    return e.Error(args.loc,
                   absl::StrCat("elements ", IndexText(other->second, extents), " and ",
                                IndexText(x, extents), " of the layout lie at one place"),
                   "give every element a place of its own");
  }
  return absl::OkStatus();
}

// T.Layout(shape, lambda i, j: (...)).
absl::StatusOr<Value> MemoryLayout(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Indices indices, IndicesOf(e, args));
  KILN_ASSIGN_OR_RETURN(const std::vector<ir::Expr> results, ResultsOf(e, args, 1, indices.call));
  KILN_RETURN_IF_ERROR(RequireIndexOnly(e, args, results, indices.vars));
  const auto extents = Known(indices.shape);
  std::vector<ir::Expr> shape;
  for (const Operand& extent : indices.shape) shape.push_back(extent.e);
  const bool large = IsLarge(shape);
  if (extents && !large) KILN_RETURN_IF_ERROR(CheckSize(e, args, *extents, 1));
  std::optional<Columns> columns;
  if (extents && !large && !results.empty()) {
    KILN_ASSIGN_OR_RETURN(columns, Tabulate(e, args, 1, results, indices.vars, *extents, 1));
  }
  if (!columns) {
    return NewLayout(e, indices.shape,
                     absl::StrCat(ShapeText(indices.shape), " forward=(", Listed(results), ")"),
                     /*of_threads=*/false);
  }
  KILN_RETURN_IF_ERROR(CheckColumns(e, args, *columns, *extents));
  const std::vector<int64_t> places = Flattened(*columns, 0);
  KILN_RETURN_IF_ERROR(CheckApart(e, args, places, *extents));
  KILN_ASSIGN_OR_RETURN(const layout::Table table,
                        layout::Table::FromColumns(static_cast<int64_t>(places.size()), 1,
                                                   {layout::Axis::kM}, places));
  const absl::StatusOr<layout::Layout> digits = layout::Factor(table);
  if (!digits.ok()) return NoDigits(e, args, /*of_threads=*/false);
  return NewLayout(e, indices.shape, digits->ToString(), /*of_threads=*/false);
}

// thread[copy * n + x], and slot likewise or empty.
absl::StatusOr<Value> FragmentOf(Elaborator& e, const BoundArgs& args,
                                 const std::vector<Operand>& shape,
                                 const std::vector<int64_t>& thread,
                                 const std::vector<int64_t>& slot, int64_t n) {
  layout::Ownership held(n);
  std::vector<layout::ThreadSet> owners(n);
  for (size_t at = 0; at < thread.size(); ++at) {
    const int64_t x = static_cast<int64_t>(at) % n;
    if (thread[at] < 0 || thread[at] >= layout::kMaxThreads) {
      return e.Error(args.loc,
                     absl::StrCat("element ", x, " of the layout is held by thread ", thread[at]),
                     absl::StrCat("threads are 0 to ", layout::kMaxThreads - 1));
    }
    owners[x].set(thread[at]);
  }
  for (int64_t x = 0; x < n; ++x) {
    for (size_t copy = x + n; copy < slot.size(); copy += n) {
      if (slot[copy] == slot[x]) continue;
      return e.Error(args.loc,
                     absl::StrCat("the copies of element ", x, " are in registers ", slot[x],
                                  " and ", slot[copy]),
                     "let the register not depend on the copy");
    }
    if (!slot.empty() && (slot[x] < 0 || slot[x] >= kMaxElements)) {
      return e.Error(args.loc,
                     absl::StrCat("element ", x, " of the layout is in register ", slot[x]),
                     "registers count from 0");
    }
    held.Set(x, owners[x], slot.empty() ? 0 : slot[x]);
  }
  if (slot.empty()) held = held.Packed();
  if (const auto collision = layout::FindCollision(held)) {
    return e.Error(args.loc,
                   absl::StrCat("elements ", collision->element, " and ", collision->other,
                                " of the layout share a thread and a register"),
                   "give every element of a thread a register of its own");
  }
  const absl::StatusOr<layout::Layout> digits = held.ToLayout();
  if (!digits.ok()) return NoDigits(e, args, /*of_threads=*/true);
  return NewLayout(e, shape, digits->ToString(), /*of_threads=*/true);
}

// T.Fragment(shape, forward_fn=lambda i, j: (thread, register)), or the two by functions of their
// own; with replicate=r the thread's also takes the number of the copy.
absl::StatusOr<Value> FragmentLayout(Elaborator& e, const BoundArgs& args) {
  enum { kShape, kForward, kThread, kReplicate, kIndex };
  KILN_ASSIGN_OR_RETURN(Indices indices, IndicesOf(e, args));
  if (args.Given(kForward) == args.Given(kThread)) {
    return e.Error(args.loc, "T.Fragment needs forward_fn or forward_thread_fn, one of them",
                   "write T.Fragment(shape, forward_fn=lambda i, j: (thread, register))");
  }
  int64_t copies = 1;
  if (args.Given(kReplicate)) {
    KILN_ASSIGN_OR_RETURN(copies, e.ToInt(args[kReplicate], args.LocOf(kReplicate), "replicate"));
    if (copies < 1)
      return e.Error(args.LocOf(kReplicate), absl::StrCat("replicate=", copies), "use 1 or more");
  }
  std::vector<ir::Expr> index;
  if (args.Given(kIndex)) {
    KILN_ASSIGN_OR_RETURN(index, ResultsOf(e, args, kIndex, indices.call));
  }
  if (copies > 1) KILN_RETURN_IF_ERROR(AddCopy(e, args, &indices));
  const size_t by = args.Given(kForward) ? kForward : kThread;
  KILN_ASSIGN_OR_RETURN(std::vector<ir::Expr> thread, ResultsOf(e, args, by, indices.call));
  if (by == kForward) {
    index.assign(thread.begin() + std::min<size_t>(1, thread.size()), thread.end());
    thread.resize(std::min<size_t>(1, thread.size()));
  }
  if (thread.size() != 1) {
    return e.Error(args.LocOf(by),
                   absl::StrCat("a layout with ", thread.size(), " threads an element"),
                   "return one number for the thread");
  }
  KILN_RETURN_IF_ERROR(RequireIndexOnly(e, args, thread, indices.vars));
  KILN_RETURN_IF_ERROR(RequireIndexOnly(e, args, index, indices.vars));
  const auto extents = Known(indices.shape);
  if (extents) KILN_RETURN_IF_ERROR(CheckSize(e, args, *extents, copies));
  std::optional<Columns> threads, slots;
  if (extents) {
    KILN_ASSIGN_OR_RETURN(threads, Tabulate(e, args, by, thread, indices.vars, *extents, copies));
    KILN_ASSIGN_OR_RETURN(slots, Tabulate(e, args, args.Given(kIndex) ? kIndex : by, index,
                                          indices.vars, *extents, copies));
  }
  if (!threads || !slots) {
    return NewLayout(e, indices.shape,
                     absl::StrCat(ShapeText(indices.shape), " thread=(", Listed(thread),
                                  ") index=(", Listed(index), ") replicate=", copies),
                     /*of_threads=*/true);
  }
  const auto n = static_cast<int64_t>((*threads)[0].size()) / copies;
  return FragmentOf(e, args, indices.shape, (*threads)[0],
                    slots->empty() ? std::vector<int64_t>() : Flattened(*slots, 0), n);
}

absl::StatusOr<Value> AnnotateLayout(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.annotate_layout"));
  if (!args[0].Is(Type::kDict)) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("T.annotate_layout takes a dict, not ", Describe(args[0])),
                   "write {buffer: layout}");
  }
  for (const auto& [key, item] : args[0].dict().items) {
    if (!key.Is(Type::kBuffer)) {
      return e.Error(args.LocOf(0), absl::StrCat("T.annotate_layout maps ", Describe(key)),
                     "write {buffer: layout}");
    }
    KILN_RETURN_IF_ERROR(AttachLayout(e, key.buffer().buffer, item, args.LocOf(0)));
  }
  return Value::None();
}

// The part of a tensor that the second-level cache is asked to keep.
absl::StatusOr<Value> AnnotateL2HitRatio(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.annotate_l2_hit_ratio"));
  if (!args[0].Is(Type::kDict)) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("T.annotate_l2_hit_ratio takes a dict, not ", Describe(args[0])),
                   "write {tensor: ratio}");
  }
  for (const auto& [key, item] : args[0].dict().items) {
    if (!key.Is(Type::kBuffer) || key.buffer().buffer->scope != ir::Scope::kGlobal) {
      return e.Error(args.LocOf(0), absl::StrCat("T.annotate_l2_hit_ratio maps ", Describe(key)),
                     "write {tensor: ratio} for tensors in global memory");
    }
    const double ratio = item.is_number() ? item.as_double() : -1;
    if (!(ratio >= std::numeric_limits<float>::min() && ratio <= 1)) {
      return e.Error(args.LocOf(0),
                     absl::StrCat("the hit ratio of '", key.buffer().buffer->name, "' is ",
                                  Repr(item), ", which is no number above 0 and up to 1"),
                     "give the part of the tensor that is to stay in the cache");
    }
    const ir::Buffer tensor = e.MemoryOf(key.buffer().buffer);
    e.launch().notes[absl::StrCat("l2_hit_ratio:", tensor->name)] = absl::StrFormat("%.9g", ratio);
  }
  return Value::None();
}

// The layout is of the buffer's shape, as far as both are known. (Layouts by name have none.)
absl::Status CheckFits(Elaborator& e, const ir::BufferNode& buffer, const LayoutObject& layout,
                       SourceLoc loc) {
  if (layout.shape.empty()) return absl::OkStatus();
  bool fits = layout.shape.size() == buffer.shape.size();
  for (size_t d = 0; fits && d < layout.shape.size(); ++d) {
    const auto a = ir::ConstInt(layout.shape[d]), b = ir::ConstInt(buffer.shape[d]);
    fits = !a || !b || *a == *b;
  }
  if (fits) return absl::OkStatus();
  return e.Error(loc,
                 absl::StrCat("'", buffer.name, "' of shape (", Listed(buffer.shape),
                              ") gets a layout of shape (", Listed(layout.shape), ")"),
                 "make the layout for the buffer's shape");
}

// A TIRx layout says where in registers or in shared memory: threads of the block and m.
absl::Status CheckAxes(Elaborator& e, const ir::BufferNode& buffer, const LayoutObject& layout,
                       SourceLoc loc) {
  if (layout.elements == 0) return absl::OkStatus();
  const layout::Layout parsed = layout::MustParse(layout.text);
  if (layout.of_threads) {
    const auto on_block = layout::OnBlock(parsed, /*threads=*/0);
    const absl::Status status = on_block.ok()
                                    ? layout::Ownership::Of(*on_block, parsed.size()).status()
                                    : on_block.status();
    if (!status.ok()) {
      return e.Error(loc, absl::StrCat("the layout of '", buffer.name, "': ", status.message()),
                     "threads of a block are tx, or warpid and laneid, or wgid and tid_in_wg");
    }
  } else if (const auto collision = layout::SearchCollision(parsed);
             !collision.ok() || *collision) {
    return e.Error(loc,
                   absl::StrCat("the layout of '", buffer.name, "': ",
                                collision.ok() ? (*collision)->ToWitness().ToString()
                                               : std::string(collision.status().message())),
                   "give every element a place of its own");
  }
  for (const layout::Axis axis : parsed.axes()) {
    if (axis == layout::Axis::kM || layout::IsThread(axis)) continue;
    return e.Error(loc,
                   absl::StrCat("the layout of '", buffer.name, "' has the axis ",
                                layout::InfoOf(axis).name, ", which its memory does not have"),
                   "shared memory has m, registers have thread axes and m");
  }
  return absl::OkStatus();
}

constexpr Builtin kRows[] = {
    {"T.annotate_layout", "layouts", AnnotateLayout},
    {"T.annotate_l2_hit_ratio", "l2_hit_ratio_map", AnnotateL2HitRatio},
    {"T.Layout", "shape forward_fn", MemoryLayout},
    {"T.Fragment", "shape forward_fn? forward_thread_fn? replicate? forward_index_fn?",
     FragmentLayout},
};

}  // namespace

absl::Status AttachLayout(Elaborator& e, const ir::Buffer& buffer, const Value& layout,
                          SourceLoc loc) {
  const bool swizzle = layout.Is(Type::kTerm) && layout.term().kind == TermObject::Kind::kSwizzle;
  if (!layout.Is(Type::kLayout) && !swizzle) {
    return e.Error(loc, absl::StrCat("the layout of '", buffer->name, "' is ", Describe(layout)),
                   "give it a T.Layout(...), T.Fragment(...), TileLayout(...), "
                   "ComposeLayout(...) or tilelang.layout.make_swizzled_layout(buffer)");
  }
  std::optional<int64_t> elements = 1;
  for (const ir::Expr& extent : buffer->shape) {
    const auto n = ir::ConstInt(extent);
    elements = n && elements ? std::optional<int64_t>(*elements * *n) : std::nullopt;
  }
  if (swizzle && !elements) return absl::OkStatus();  // of an extent that is still open
  LayoutObject made;
  if (swizzle) {
    const auto whole =
        layout::Parse(absl::StrCat(layout.term().text, " o S[(", *elements, "):(1)]"));
    if (!whole.ok())
      return e.Error(loc, std::string(whole.status().message()), "use a smaller one");
    made.text = whole->ToString();
  } else {
    made = layout.layout();
  }
  if (made.of_threads != (buffer->scope == ir::Scope::kFragment)) {
    return e.Error(loc,
                   absl::StrCat("the layout of '", buffer->name, "', ",
                                made.of_threads ? "no fragment, names threads"
                                                : "a fragment, names no threads"),
                   "give fragments a T.Fragment(...) or a TileLayout on thread axes, other "
                   "buffers a T.Layout(...) or a TileLayout on m");
  }
  if (made.elements > 0 && elements && made.elements != *elements) {
    return e.Error(loc,
                   absl::StrCat("the layout of '", buffer->name, "', which has ", *elements,
                                " elements, has ", made.elements),
                   "make the layout for the buffer's shape");
  }
  if (buffer->scope == ir::Scope::kTensor) return absl::OkStatus();  // tensor_memory.h
  if (IsLarge(made.shape)) {  // tensors keep their rows, whatever is said of them
    if (buffer->scope == ir::Scope::kGlobal) return CheckFits(e, *buffer, made, loc);
    return e.Error(loc,
                   absl::StrCat("the layout of '", buffer->name, "' has more than ", kLargestTile,
                                " elements"),
                   "use smaller tiles");
  }
  KILN_RETURN_IF_ERROR(CheckAxes(e, *buffer, made, loc));
  KILN_RETURN_IF_ERROR(CheckFits(e, *buffer, made, loc));
  e.launch().notes[absl::StrCat("layout:", buffer->name)] = made.text;
  return absl::OkStatus();
}

absl::StatusOr<std::string> LoopLayout(Elaborator& e, const BoundArgs& args, size_t i) {
  if (args[i].Is(Type::kLayout) && args[i].layout().of_threads) return args[i].layout().text;
  return e.Error(args.LocOf(i),
                 absl::StrCat("loop_layout must say which thread runs an iteration, not be ",
                              Describe(args[i])),
                 "pass T.Fragment(...)");
}

BuiltinTable LayoutBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
