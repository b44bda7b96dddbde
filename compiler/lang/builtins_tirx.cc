// The layout notation of TIRx as kernels write it (seed "TIRx Layout API"): S[(8, 4) : (4@laneid,
// 1@laneid)] + R[2 : 4@warpid] + 5@warpid, TileLayout, SwizzleLayout, ComposeLayout, and the
// ready-made layouts by name. A term is the text that layout/text.h reads.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lang/elaborator.h"
#include "compiler/layout/fragments.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/swizzle.h"
#include "compiler/layout/text.h"

namespace kiln::lang {
namespace {

Value NewTerm(Elaborator& e, TermObject::Kind kind, std::string text) {
  auto* term = e.arena().New<TermObject>();
  term->kind = kind;
  term->text = std::move(text);
  return Value::Of(Type::kTerm, term);
}

Value NewLayout(Elaborator& e, const layout::Layout& made) {
  auto* layout = e.arena().New<LayoutObject>();
  layout->text = made.ToString();
  layout->elements = made.size();
  for (const layout::Axis axis : made.axes()) layout->of_threads |= layout::IsThread(axis);
  return Value::Of(Type::kLayout, layout);
}

absl::StatusOr<Value> Made(Elaborator& e, const BoundArgs& args,
                           const absl::StatusOr<layout::Layout>& made) {
  if (made.ok()) return NewLayout(e, *made);
  return e.Error(args.loc, std::string(made.status().message()),
                 "see the layouts that exist with kilnc layout --list");
}

bool IsStep(const Value& v) {
  return v.Is(Type::kTerm) && v.term().kind == TermObject::Kind::kStep;
}

// "(8,4)" of (8, 4) or 8; with `steps`, "(4@laneid,1)" too.
absl::StatusOr<std::string> Numbers(Elaborator& e, const Value& v, bool steps, SourceLoc loc) {
  std::vector<Value> items = {v};
  if (v.is_sequence()) items = v.seq().items;
  std::vector<std::string> texts;
  for (const Value& item : items) {
    if (steps && IsStep(item)) {
      texts.push_back(item.term().text);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const int64_t n,
                          e.ToInt(item, loc, steps ? "a stride of a layout" : "an extent"));
    texts.push_back(absl::StrCat(n));
  }
  return absl::StrCat("(", absl::StrJoin(texts, ","), ")");
}

// S[extents : strides], S[extents].
template <char letter>
absl::StatusOr<Value> Piece(Elaborator& e, const BoundArgs& args) {
  const bool one = args.rest.size() == 1;
  if (one && args.rest[0].Is(Type::kSlice)) {
    const SliceObject& slice = args.rest[0].slice();
    if (!slice.step.is_none() || slice.start.is_none() || slice.stop.is_none()) {
      return e.Error(args.loc, "a piece of a layout is written extents : strides",
                     "write S[(8, 4) : (4@laneid, 1@laneid)]");
    }
    KILN_ASSIGN_OR_RETURN(const std::string extents, Numbers(e, slice.start, false, args.loc));
    KILN_ASSIGN_OR_RETURN(const std::string strides, Numbers(e, slice.stop, true, args.loc));
    return NewTerm(e, TermObject::Kind::kSpec,
                   absl::StrCat(std::string(1, letter), "[", extents, ":", strides, "]"));
  }
  const Value extents = one ? args.rest[0] : e.NewTuple(args.rest);
  KILN_ASSIGN_OR_RETURN(const std::string text, Numbers(e, extents, false, args.loc));
  return NewTerm(e, TermObject::Kind::kSpec, absl::StrCat(std::string(1, letter), "[", text, "]"));
}

// As much of a layout's text as a message has room for.
std::string Shown(const std::string& text) {
  constexpr size_t kMost = 200;
  return text.size() <= kMost ? text : absl::StrCat(text.substr(0, kMost), "...");
}

absl::StatusOr<Value> Tile(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kTerm) || args[0].term().kind != TermObject::Kind::kSpec) {
    return e.Error(args.LocOf(0), absl::StrCat("TileLayout of ", Describe(args[0])),
                   "write TileLayout(S[(8, 64) : (64@m, 1@m)])");
  }
  const std::string& text = args[0].term().text;
  const absl::StatusOr<layout::Layout> made = layout::Parse(text);
  if (made.ok()) return NewLayout(e, *made);
  return e.Error(args.LocOf(0), absl::StrCat(Shown(text), ": ", made.status().message()),
                 "a layout is S[extents : strides] + R[extents : strides] + offset");
}

// Iter(extent, stride, axis): one digit of TileLayout.from_iters.
absl::StatusOr<Value> Digit(Elaborator& e, const BoundArgs& args) {
  Value stride = args[1];
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(stride,
                          e.BinaryOp(ast::BinaryOp::kMatMul, args[1], args[2], args.LocOf(2)));
  }
  return e.NewTuple({args[0], stride});
}

// "S[(8,4):(4@laneid,1)]" of [Iter(8, 4, laneid), Iter(4, 1)]; "" of an empty list.
absl::StatusOr<std::string> FromDigits(Elaborator& e, const BoundArgs& args, size_t i,
                                       const char* letter) {
  if (!args.Given(i)) return std::string();
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> digits,
                        e.ToItems(args[i], args.LocOf(i), "the iters of a layout"));
  std::vector<Value> extents, strides;
  for (const Value& digit : digits) {
    if (!digit.is_sequence() || digit.seq().items.size() != 2) {
      return e.Error(args.LocOf(i), absl::StrCat("an iter of a layout is ", Describe(digit)),
                     "write Iter(extent, stride, axis)");
    }
    extents.push_back(digit.seq().items[0]);
    strides.push_back(digit.seq().items[1]);
  }
  if (digits.empty()) return std::string();
  KILN_ASSIGN_OR_RETURN(const std::string e_text,
                        Numbers(e, e.NewTuple(extents), false, args.LocOf(i)));
  KILN_ASSIGN_OR_RETURN(const std::string s_text,
                        Numbers(e, e.NewTuple(strides), true, args.LocOf(i)));
  return absl::StrCat(letter, "[", e_text, ":", s_text, "]");
}

// TileLayout.from_iters(shard, replica, offset): lists of Iter, and {axis: shift}.
absl::StatusOr<Value> FromIters(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::string text, FromDigits(e, args, 0, "S"));
  KILN_ASSIGN_OR_RETURN(const std::string replica, FromDigits(e, args, 1, "R"));
  if (text.empty()) {
    return e.Error(args.LocOf(0), "a layout without iters", "give it one: Iter(extent, stride)");
  }
  if (!replica.empty()) absl::StrAppend(&text, " + ", replica);
  if (args.Given(2)) {
    if (!args[2].Is(Type::kDict)) {
      return e.Error(args.LocOf(2), absl::StrCat("the offset of a layout is ", Describe(args[2])),
                     "write {axis: shift}");
    }
    for (const auto& [axis, shift] : args[2].dict().items) {
      KILN_ASSIGN_OR_RETURN(const Value step,
                            e.BinaryOp(ast::BinaryOp::kMatMul, shift, axis, args.LocOf(2)));
      absl::StrAppend(&text, " + ", step.term().text);
    }
  }
  const absl::StatusOr<layout::Layout> made = layout::Parse(text);
  if (made.ok()) return NewLayout(e, *made);
  return e.Error(args.loc, absl::StrCat(Shown(text), ": ", made.status().message()),
                 "an iter is Iter(extent, stride, axis)");
}

absl::StatusOr<Value> Swizzle(Elaborator& e, const BoundArgs& args) {
  int64_t n[3];
  static constexpr const char* kNames[] = {"per_element", "swizzle_len", "atom_len"};
  for (size_t i = 0; i < 3; ++i) {
    KILN_ASSIGN_OR_RETURN(n[i], e.ToInt(args[i], args.LocOf(i), kNames[i]));
    if (n[i] < 0 || n[i] > 60) {
      return e.Error(args.LocOf(i), absl::StrCat(kNames[i], "=", n[i]), "use 0 to 60");
    }
  }
  bool inner = true;
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(const int64_t given, e.ToInt(args[3], args.LocOf(3), "swizzle_inner"));
    inner = given != 0;
  }
  const auto swizzle = layout::SwizzleLayout::Make(static_cast<int>(n[0]), static_cast<int>(n[1]),
                                                   static_cast<int>(n[2]), inner);
  if (!swizzle.ok()) {
    return e.Error(args.loc, std::string(swizzle.status().message()),
                   "atom_len is at least swizzle_len; for float16 and 128 bytes all three are 3");
  }
  return NewTerm(e, TermObject::Kind::kSwizzle, swizzle->ToString());
}

absl::StatusOr<Value> Compose(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kTerm) || args[0].term().kind != TermObject::Kind::kSwizzle ||
      !args[1].Is(Type::kLayout) || args[1].layout().elements == 0) {
    return e.Error(args.loc,
                   absl::StrCat("ComposeLayout of ", Describe(args[0]), " and ", Describe(args[1])),
                   "write ComposeLayout(SwizzleLayout(...), TileLayout(...))");
  }
  return Made(e, args,
              layout::Parse(absl::StrCat(args[0].term().text, " o ", args[1].layout().text)));
}

absl::StatusOr<std::vector<int64_t>> Shape(Elaborator& e, const BoundArgs& args, size_t i) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items,
                        e.ToItems(args[i], args.LocOf(i), "the shape of a layout"));
  std::vector<int64_t> shape;
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(item, args.LocOf(i), "an extent"));
    shape.push_back(n);
  }
  return shape;
}

absl::StatusOr<int64_t> Number(Elaborator& e, const BoundArgs& args, size_t i, int64_t otherwise) {
  if (!args.Given(i)) return otherwise;
  return e.ToInt(args[i], args.LocOf(i), "a size of a layout");
}

absl::StatusOr<int> Bits(Elaborator& e, const BoundArgs& args, size_t i) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[i], args.LocOf(i)));
  return type.bits;
}

// "128B", or 128.
absl::StatusOr<layout::SwizzleMode> Mode(Elaborator& e, const BoundArgs& args, size_t i) {
  std::string text;
  if (args[i].is_integer()) {
    text = args[i].int_value() == 0 ? "none" : absl::StrCat(args[i].int_value(), "B");
  } else {
    KILN_ASSIGN_OR_RETURN(text, e.ToStr(args[i], args.LocOf(i), "the swizzle mode"));
  }
  const auto mode = layout::ParseSwizzleMode(text);
  if (mode.ok()) return *mode;
  return e.Error(args.LocOf(i), std::string(mode.status().message()),
                 "write \"none\", \"32B\", \"64B\" or \"128B\"");
}

absl::StatusOr<Value> TmemDatapath(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string letter, e.ToStr(args[0], args.LocOf(0), "the datapath"));
  KILN_ASSIGN_OR_RETURN(const int64_t rows, Number(e, args, 1, 128));
  KILN_ASSIGN_OR_RETURN(const int64_t columns, Number(e, args, 2, 1));
  if (letter.size() != 1) {
    return e.Error(args.LocOf(0), absl::StrCat("the datapath '", letter, "'"), "use A to G");
  }
  return Made(e, args, layout::TmemDatapathLayout(letter[0], rows, columns));
}

absl::StatusOr<Value> Tcgen05Atom(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string atom, e.ToStr(args[0], args.LocOf(0), "the instruction"));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(e, args, 1));
  KILN_ASSIGN_OR_RETURN(const int bits, Bits(e, args, 2));
  if (shape.size() != 2) {
    return e.Error(args.LocOf(1), "tcgen05_atom_layout is of two dimensions", "give (rows, cols)");
  }
  return Made(e, args, layout::Tcgen05AtomLayout(atom, shape[0], shape[1], bits));
}

absl::StatusOr<Value> WgLocal(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t columns, Number(e, args, 0, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t rows, Number(e, args, 1, 128));
  return Made(e, args, layout::WgLocalLayout(columns, rows));
}

absl::StatusOr<Value> MmaAtom(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int bits, Bits(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const layout::SwizzleMode mode, Mode(e, args, 1));
  return Made(e, args, layout::MmaAtomLayout(bits, mode));
}

absl::StatusOr<Value> MmaShared(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int bits, Bits(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const layout::SwizzleMode mode, Mode(e, args, 1));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(e, args, 2));
  return Made(e, args, layout::MmaSharedLayout(bits, mode, shape));
}

absl::StatusOr<Value> ScaleFactorTmem(Elaborator& e, const BoundArgs& args) {
  layout::ScaleFactorShape shape;
  KILN_ASSIGN_OR_RETURN(shape.rows, Number(e, args, 0, shape.rows));
  KILN_ASSIGN_OR_RETURN(shape.factors, Number(e, args, 1, shape.factors));
  KILN_ASSIGN_OR_RETURN(shape.per_mma, Number(e, args, 2, shape.per_mma));
  KILN_ASSIGN_OR_RETURN(shape.reuse, Number(e, args, 3, shape.reuse));
  KILN_ASSIGN_OR_RETURN(shape.depth, Number(e, args, 4, shape.depth));
  return Made(e, args, layout::ScaleFactorTmemLayout(shape));
}

absl::StatusOr<Value> ScaleFactorShared(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t rows, Number(e, args, 0, 128));
  KILN_ASSIGN_OR_RETURN(const int64_t factors, Number(e, args, 1, 4));
  return Made(e, args, layout::ScaleFactorSharedLayout(rows, factors));
}

absl::StatusOr<Value> Fragment(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string shape, e.ToStr(args[0], args.LocOf(0), "the shape"));
  KILN_ASSIGN_OR_RETURN(const std::string operand, e.ToStr(args[1], args.LocOf(1), "the operand"));
  KILN_ASSIGN_OR_RETURN(const int bits, Bits(e, args, 2));
  if (operand.size() != 1) {
    return e.Error(args.LocOf(1), absl::StrCat("the operand '", operand, "'"), "use A, B or C");
  }
  return Made(e, args, layout::MmaFragment(shape, operand[0], bits));
}

constexpr Builtin kRows[] = {
    {"tirx.S", "*", Piece<'S'>, true},
    {"tirx.R", "*", Piece<'R'>, true},
    {"tirx.TileLayout", "spec", Tile},
    {"tirx.TileLayout.from_iters", "shard replica? offset?", FromIters},
    {"tirx.Iter", "extent stride axis?", Digit},
    {"tirx.SwizzleLayout", "per_element swizzle_len atom_len swizzle_inner?", Swizzle},
    {"tirx.ComposeLayout", "swizzle tile", Compose},
    {"tirx.tmem_datapath_layout", "datapath rows cols", TmemDatapath},
    {"tirx.tcgen05_atom_layout", "instr_shape tensor_shape dtype", Tcgen05Atom},
    {"tirx.wg_local_layout", "cols rows?", WgLocal},
    {"tirx.mma_atom_layout", "dtype mode", MmaAtom},
    {"tirx.mma_shared_layout", "dtype mode shape", MmaShared},
    {"tirx.mma_fragment_layout", "instr_shape operand dtype", Fragment},
    {"tirx.sf_tmem_layout", "rows sf_k sf_per_mma reuse? depth?", ScaleFactorTmem},
    {"tirx.sf_smem_layout", "rows sf_k", ScaleFactorShared},
};

}  // namespace

absl::StatusOr<Value> LayoutTermOp(Elaborator& e, ast::BinaryOp op, const Value& a, const Value& b,
                                   SourceLoc loc) {
  using Kind = TermObject::Kind;
  const auto is = [](const Value& v, Kind kind) {
    return v.Is(Type::kTerm) && v.term().kind == kind;
  };
  if (op == ast::BinaryOp::kMatMul && is(b, Kind::kAxis) && !a.Is(Type::kTerm)) {
    KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(a, loc, "a stride on an axis"));
    return NewTerm(e, Kind::kStep, absl::StrCat(n, "@", b.term().text));
  }
  if (op == ast::BinaryOp::kAdd && is(a, Kind::kSpec)) {
    std::string more;
    if (is(b, Kind::kSpec) || is(b, Kind::kStep)) {
      more = b.term().text;
    } else if (!b.Is(Type::kTerm)) {
      KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(b, loc, "the offset of a layout"));
      more = absl::StrCat(n);
    }
    KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, a.term().text.size() + more.size()));
    if (!more.empty()) {
      return NewTerm(e, Kind::kSpec, absl::StrCat(a.term().text, " + ", more));
    }
  }
  return e.Error(
      loc,
      absl::StrCat("no operator '", ast::Spelling(op), "' for ", Describe(a), " and ", Describe(b)),
      "a layout is S[extents : strides] + R[extents : strides] + offset, a stride n@axis");
}

void AddLayoutAxes(absl::flat_hash_map<std::string, Value>* members) {
  for (int a = 0; a < static_cast<int>(layout::Axis::kBuiltinCount); ++a) {
    auto* term = new TermObject;  // lives as long as the module
    term->kind = TermObject::Kind::kAxis;
    term->text = std::string(layout::NameOf(static_cast<layout::Axis>(a)));
    (*members)[term->text] = Value::Of(Type::kTerm, term);
  }
}

const Builtin* FindMember(const Builtin& owner, absl::string_view name) {
  for (const Builtin& row : kRows) {
    if (row.name == absl::StrCat(owner.name, ".", name)) return &row;
  }
  return nullptr;
}

BuiltinTable TirxBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
