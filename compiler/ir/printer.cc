#include "compiler/ir/printer.h"

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <set>
#include <unordered_map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

// Concatenates, evaluating the parts from left to right: names are given out in order of
// appearance.
std::string Cat(std::initializer_list<absl::AlphaNum> parts) {
  std::string text;
  for (const absl::AlphaNum& part : parts) text.append(part.data(), part.size());
  return text;
}

using Annotations = std::map<std::string, std::string>;

// Binding strength of the text of an expression, weakest first.
enum Level {
  kOr = 1,
  kAnd,
  kNot,
  kCompare,
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kAtom
};

Level LevelOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kOr:
      return Level::kOr;
    case BinaryOp::kAnd:
      return Level::kAnd;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe:
      return kCompare;
    case BinaryOp::kBitOr:
      return Level::kBitOr;
    case BinaryOp::kBitXor:
      return Level::kBitXor;
    case BinaryOp::kBitAnd:
      return Level::kBitAnd;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return kShift;
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      return kSum;
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return kProduct;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return kAtom;
  }
  return kAtom;
}

const char* ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kGlobal:
      return "global";
    case Scope::kShared:
      return "shared";
    case Scope::kFragment:
      return "fragment";
    case Scope::kLocal:
      return "local";
    case Scope::kVar:
      return "var";
    case Scope::kTensor:
      return "tensor";
    case Scope::kRegister:
      return "register";
    case Scope::kBarrier:
      return "barrier";
    case Scope::kConstant:
      return "constant";
  }
  return "?";
}

const char* LoopName(ForKind kind) {
  switch (kind) {
    case ForKind::kSerial:
      return "serial";
    case ForKind::kUnroll:
      return "unroll";
    case ForKind::kVectorized:
      return "vectorized";
    case ForKind::kParallel:
      return "parallel";
    case ForKind::kPipelined:
      return "pipelined";
    case ForKind::kThreads:
      return "threads";
  }
  return "?";
}

const char* PolicyName(GemmPolicy policy) {
  switch (policy) {
    case GemmPolicy::kSquare:
      return "square";
    case GemmPolicy::kFullRow:
      return "full_row";
    case GemmPolicy::kFullCol:
      return "full_col";
  }
  return "?";
}

const char* OpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kAbsSum:
      return "abssum";
    case ReduceOp::kAbsMax:
      return "absmax";
    case ReduceOp::kBitAnd:
      return "bitand";
    case ReduceOp::kBitOr:
      return "bitor";
    case ReduceOp::kBitXor:
      return "bitxor";
  }
  return "?";
}

const char* OpName(AtomicOp op) {
  switch (op) {
    case AtomicOp::kAdd:
      return "add";
    case AtomicOp::kMax:
      return "max";
    case AtomicOp::kMin:
      return "min";
    case AtomicOp::kAnd:
      return "and";
    case AtomicOp::kOr:
      return "or";
    case AtomicOp::kXor:
      return "xor";
    case AtomicOp::kStore:
      return "store";
    case AtomicOp::kLoad:
      return "load";
  }
  return "?";
}

const char* OrderName(MemoryOrder order) {
  static constexpr const char* kNames[] = {"", " acquire", " release", " acq_rel", " seq_cst"};
  return kNames[static_cast<int>(order)];
}

std::string Quote(const std::string& text) { return Cat({"\"", absl::CEscape(text), "\""}); }

// The shortest decimal that reads back as the same value of its type.
std::string FloatText(double value, DType type) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  const auto end = type.bits == 64
                       ? std::to_chars(text, text + sizeof(text), value).ptr
                       : std::to_chars(text, text + sizeof(text), static_cast<float>(value)).ptr;
  std::string result(text, end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

class Printer {
 public:
  // Canonical names replace the user's by the order of appearance; parameters keep theirs.
  explicit Printer(bool canonical) : canonical_(canonical) {}

  std::string Take() { return std::move(out_); }

  void PrintProgram(const Program& program);
  void PrintStmt(const Stmt& s);
  std::string Text(const Expr& e, int level = 0);
  std::string Text(const Region& r);

 private:
  std::string NameOf(const void* node, const std::string& wanted, bool interface = false);
  std::string VarName(const Expr& var) { return NameOf(var.get(), var.As<Var>()->name); }
  std::string BufferName(const Buffer& b) { return NameOf(b.get(), b->name); }
  std::string Binder(const Expr& var);
  std::string BufferType(const Buffer& b);
  std::string List(const std::vector<Expr>& v);
  std::string Notes(const Annotations& notes);
  std::string NoteKey(const std::string& key);
  std::string AxesText(const std::vector<Axis>& axes);
  std::string Binary(const ir::Binary& x, int level);
  std::string Call(const ir::Call& x, DType type);
  std::string Access(const Buffer& b, const std::vector<Expr>& indices);
  std::string LeafText(const Stmt& s);
  void Line(const std::string& text);
  void Block(const Stmt& s);

  const bool canonical_;
  std::unordered_map<const void*, std::string> names_;
  std::map<std::string, std::string> canonical_buffers_;  // printed name of a buffer's own name
  std::set<std::string> used_;
  std::unordered_map<std::string, int> suffixes_;  // the last one given to a name
  int indent_ = 0;
  std::string out_;
};

std::string Printer::NameOf(const void* node, const std::string& wanted, bool interface) {
  const auto found = names_.find(node);
  if (found != names_.end()) return found->second;
  std::string name = wanted.empty() ? "_" : wanted;
  if (canonical_ && !interface) {
    name = Cat({"%", names_.size()});
  } else {
    for (int& last = suffixes_[wanted]; !used_.insert(name).second;) {
      name = Cat({wanted, "_", ++last});
    }
  }
  names_[node] = name;
  return name;
}

std::string Printer::Binder(const Expr& var) {
  const std::string name = VarName(var);
  return var.dtype() == kInt32 ? name : Cat({name, ": ", var.dtype().ToString()});
}

std::string Printer::List(const std::vector<Expr>& v) {
  std::string text;
  for (const Expr& e : v) text += Cat({text.empty() ? "" : ", ", Text(e)});
  return text;
}

std::string Printer::BufferType(const Buffer& b) {
  std::string text = Cat({ScopeName(b->scope), " ", b->dtype.ToString(), "[", List(b->shape), "]"});
  if (b->table) text += " table";
  if (!b->strides.empty()) text += Cat({" strides(", List(b->strides), ")"});
  if (!b->layout.empty()) text += Cat({" layout(", Quote(b->layout), ")"});
  if (b->alignment != 64) text += Cat({" align(", b->alignment, ")"});
  if (b->values) text += Cat({" {", absl::StrJoin(*b->values, " "), "}"});
  return text;
}

// "layout:<buffer>" follows the buffer's printed name.
std::string Printer::NoteKey(const std::string& key) {
  absl::string_view name = key;
  if (!absl::ConsumePrefix(&name, "layout:")) return key;
  const auto found = canonical_buffers_.find(std::string(name));
  return found == canonical_buffers_.end() ? key : Cat({"layout:", found->second});
}

std::string Printer::Notes(const Annotations& notes) {
  if (notes.empty()) return "";
  Annotations renamed;
  for (const auto& [key, value] : notes) {
    // What is said of lines of the source makes no other program.
    if (canonical_ && (key == kJoinedWhy || key == kFetchedApart)) continue;
    renamed[NoteKey(key)] = value;
  }
  if (renamed.empty()) return "";
  std::string text;
  for (const auto& [key, value] : renamed) {
    text += Cat({text.empty() ? " {" : ", ", key, "=", Quote(value)});
  }
  return text + "}";
}

std::string Printer::Access(const Buffer& b, const std::vector<Expr>& indices) {
  return Cat({BufferName(b), "[", List(indices), "]"});
}

std::string Printer::Binary(const ir::Binary& x, int level) {
  const Level own = LevelOf(x.op);
  if (own == kAtom) return Cat({Name(x.op), "(", Text(x.a), ", ", Text(x.b), ")"});
  const bool chain = own != kCompare;
  const std::string left = Text(x.a, chain ? own : own + 1);
  const std::string text = Cat({left, " ", Name(x.op), " ", Text(x.b, own + 1)});
  return level > own ? Cat({"(", text, ")"}) : text;
}

std::string Printer::Call(const ir::Call& x, DType type) {
  const std::string name = Name(x.op);
  if (x.op == Intrinsic::kReinterpret) {
    return Cat({name, "<", type.ToString(), ">(", List(x.args), ")"});
  }
  return Cat({name, "(", List(x.args), ")"});
}

std::string Printer::Text(const Expr& e, int level) {
  if (!e.defined()) return "<undefined>";
  const auto paren = [level](Level own, std::string text) {
    return level > own ? Cat({"(", text, ")"}) : text;
  };
  switch (e.kind()) {
    case ExprKind::kIntImm: {
      const int64_t value = e.As<IntImm>()->value;
      if (e.dtype().is_bool()) return value ? "True" : "False";
      if (e.dtype() != kInt32) return Cat({e.dtype().ToString(), "(", value, ")"});
      return value < 0 ? paren(Level::kUnary, Cat({value})) : Cat({value});
    }
    case ExprKind::kFloatImm: {
      const double value = e.As<FloatImm>()->value;
      const std::string text = FloatText(value, e.dtype());
      if (e.dtype() != kFloat32 || !std::isfinite(value)) {
        return Cat({e.dtype().ToString(), "(", text, ")"});
      }
      return std::signbit(value) ? paren(Level::kUnary, text) : text;
    }
    case ExprKind::kVar:
      return VarName(e);
    case ExprKind::kUnary: {
      const auto* x = e.As<Unary>();
      if (x->op == UnaryOp::kNot) {
        return paren(Level::kNot, Cat({"not ", Text(x->a, Level::kNot)}));
      }
      const char* sign = x->op == UnaryOp::kNeg ? "-" : "~";
      return paren(Level::kUnary, Cat({sign, Text(x->a, Level::kAtom)}));
    }
    case ExprKind::kBinary:
      return Binary(*e.As<ir::Binary>(), level);
    case ExprKind::kSelect: {
      const auto* x = e.As<Select>();
      return Cat({"select(", Text(x->condition), ", ", Text(x->a), ", ", Text(x->b), ")"});
    }
    case ExprKind::kCast:
      return Cat({e.dtype().ToString(), "(", Text(e.As<Cast>()->a), ")"});
    case ExprKind::kLoad: {
      const auto* x = e.As<Load>();
      std::string text = Access(x->buffer, x->indices);
      if (x->predicate.defined()) text += Cat({"{", Text(x->predicate), "}"});
      return text;
    }
    case ExprKind::kCall:
      return Call(*e.As<ir::Call>(), e.dtype());
    case ExprKind::kRamp: {
      const auto* x = e.As<Ramp>();
      return Cat({"ramp(", Text(x->base), ", ", Text(x->stride), ", ", e.dtype().lanes, ")"});
    }
    case ExprKind::kBroadcast:
      return Cat({"broadcast(", Text(e.As<Broadcast>()->a), ", ", e.dtype().lanes, ")"});
  }
  return "?";
}

std::string Printer::Text(const Region& r) {
  if (!r.buffer) return "<none>";
  const std::string name = BufferName(r.buffer);
  bool whole = r.ranges.size() == r.buffer->shape.size();
  for (size_t d = 0; whole && d < r.ranges.size(); ++d) {
    whole = IsConst(r.ranges[d].min, 0) && Same(r.ranges[d].extent, r.buffer->shape[d]);
  }
  if (whole) return name;
  std::string text;
  for (const Range& range : r.ranges) {
    text += Cat({text.empty() ? "" : ", ", Text(range.min)});
    if (!IsConst(range.extent, 1)) text += Cat({" : +", Text(range.extent)});
  }
  return Cat({name, "[", text, "]"});
}

void Printer::Line(const std::string& text) {
  out_.append(static_cast<size_t>(indent_) * 2, ' ');
  out_ += Cat({text, "\n"});
}

void Printer::Block(const Stmt& s) {
  ++indent_;
  const size_t before = out_.size();
  if (s.defined()) PrintStmt(s);
  if (out_.size() == before) Line("pass");
  --indent_;
}

std::string Printer::AxesText(const std::vector<Axis>& axes) {
  std::string names, ranges;
  for (const Axis& axis : axes) {
    const std::string extent =
        IsConst(axis.min, 0) ? Text(axis.extent) : Cat({Text(axis.min), " : +", Text(axis.extent)});
    ranges += Cat({ranges.empty() ? "" : ", ", extent});
  }
  for (const Axis& axis : axes) {
    names += Cat({names.empty() ? "" : ", ", Binder(axis.var)});
  }
  return Cat({names, " in ", "(", ranges, ")"});
}

std::string Printer::LeafText(const Stmt& s) {
  if (const auto* x = s.As<Bind>()) {
    const std::string value = Text(x->value);  // before the binder: it is out of scope here
    return Cat({"let ", Binder(x->var), " = ", value});
  }
  if (const auto* x = s.As<Alloc>()) {
    const std::string type = BufferType(x->buffer);
    const std::string init = x->init.defined() ? Cat({" = ", Text(x->init)}) : "";
    const std::string name = BufferName(x->buffer);
    canonical_buffers_[x->buffer->name] = name;
    const std::string blocks =
        x->buffer->blocks == 1 ? "" : Cat({" of ", x->buffer->blocks, " blocks"});
    const std::string place = x->place == Alloc::kOwnPlace ? "" : Cat({" at ", x->place});
    return Cat({"alloc ", name, ": ", type, blocks, place, init});
  }
  if (const auto* x = s.As<Store>()) {
    const std::string target = Access(x->buffer, x->indices);
    const std::string guard = x->predicate.defined() ? Cat({"{", Text(x->predicate), "}"}) : "";
    const char* way = x->way == StoreWay::kStream  ? " =stream "
                      : x->way == StoreWay::kAsync ? " =async "
                                                   : " = ";
    return Cat({target, guard, way, Text(x->value)});
  }
  if (const auto* x = s.As<Copy>()) {
    const std::string src = Text(x->src);
    return Cat({"copy ", src, " -> ", Text(x->dst), Notes(x->annotations)});
  }
  if (const auto* x = s.As<Gemm>()) {
    std::string text = Cat({"gemm ", Text(x->a), x->trans_a ? ".T" : ""});
    if (x->sparse()) text += Cat({" where ", Text(x->e), x->trans_e ? ".T" : ""});
    text += " @ ";
    text += Cat({Text(x->b), x->trans_b ? ".T" : "", " -> "});
    text += Cat({Text(x->c), " policy=", PolicyName(x->policy)});
    if (!IsConst(x->clear_accum, 0)) text += Cat({" clear=", Text(x->clear_accum)});
    return text;
  }
  if (const auto* x = s.As<PairGemm>()) {
    const std::string factors = Cat({Text(x->a), " @ pairs ", Text(x->b)});
    return Cat({"pair_gemm ", factors, " -> ", Text(x->c)});
  }
  if (const auto* x = s.As<Fill>()) {
    const std::string dst = Text(x->dst);
    return Cat({"fill ", dst, " = ", Text(x->value)});
  }
  if (const auto* x = s.As<Reduce>()) {
    const std::string src = Text(x->src);
    return Cat({"reduce_", OpName(x->op), " ", src, " -> ", Text(x->dst), " dim=", x->dim,
                x->clear ? "" : " accumulate"});
  }
  if (const auto* x = s.As<Atomic>()) {
    const std::string dst = Text(x->dst);
    const std::string what = x->op == AtomicOp::kLoad ? ""
                             : x->value.defined()     ? Cat({" <- ", Text(x->value)})
                                                      : Cat({" <- ", Text(x->src)});
    return Cat({"atomic_", OpName(x->op), " ", dst, what, OrderName(x->way.order),
                x->way.previous ? Cat({" -> ", BufferName(x->way.previous)}) : ""});
  }
  if (const auto* x = s.As<Scan>()) {
    const std::string src = Text(x->src);
    return Cat({"scan_", OpName(x->op), " ", src, " -> ", Text(x->dst), " dim=", x->dim,
                x->reverse ? " reverse" : ""});
  }
  if (const auto* x = s.As<Print>()) {
    std::string text = Cat({"print ", Quote(x->text[0])});
    for (size_t i = 0; i < x->values.size(); ++i) {
      text += Cat({", ", Text(x->values[i]), ", ", Quote(x->text[i + 1])});
    }
    return text;
  }
  if (const auto* x = s.As<Evaluate>()) return Cat({"eval ", Text(x->value)});
  if (const auto* x = s.As<Assert>()) {
    return Cat({"assert ", Text(x->condition), ", ", Quote(x->message)});
  }
  if (const auto* x = s.As<Instruct>()) {
    std::string operands;
    for (const Region& r : x->regions) operands += Cat({operands.empty() ? "" : ", ", Text(r)});
    const std::string args = List(x->args);
    operands += Cat({operands.empty() || args.empty() ? "" : ", ", args});
    return Cat({Name(x->op), "(", operands, ")", Notes(x->annotations)});
  }
  return s.kind() == StmtKind::kBreak ? "break" : "continue";
}

void Printer::PrintStmt(const Stmt& s) {
  if (!s.defined()) return Line("<undefined>");
  if (const auto* x = s.As<Seq>()) {
    for (const Stmt& child : x->stmts) PrintStmt(child);
  } else if (const auto* x = s.As<For>()) {
    std::string head = Cat({"for ", LoopName(x->loop), " ", AxesText(x->axes)});
    if (x->num_stages.defined()) head += Cat({" stages=", Text(x->num_stages)});
    Line(Cat({head, Notes(x->annotations), ":"}));
    Block(x->body);
  } else if (const auto* x = s.As<While>()) {
    Line(Cat({"while ", Text(x->condition), ":"}));
    Block(x->body);
  } else if (const auto* x = s.As<If>()) {
    Line(Cat({"if ", Text(x->condition), ":"}));
    Block(x->then_case);
    if (!x->else_case.defined()) return;
    Line("else:");
    Block(x->else_case);
  } else if (const auto* x = s.As<OnThreads>()) {
    Line(absl::StrCat("on threads [", x->first, ", ", x->first + x->count, "):"));
    Block(x->body);
  } else if (const auto* x = s.As<Launch>()) {
    std::string head = Cat({"launch ", AxesText(x->grid), " threads("});
    head += Cat({List(x->threads), ")"});
    // Annotations may name buffers of the body, so names are settled by printing the body first.
    std::string outer = std::move(out_);
    out_.clear();
    Block(x->body);
    std::string body = std::move(out_);
    out_ = std::move(outer);
    Line(Cat({head, Notes(x->annotations), ":"}));
    out_ += Cat({body});
  } else {
    Line(LeafText(s));
  }
}

void Printer::PrintProgram(const Program& program) {
  for (const Param& param : program.params) {
    const void* node = param.kind == Param::kTensor ? static_cast<const void*>(param.buffer.get())
                                                    : param.scalar.get();
    const std::string name = NameOf(node, param.name, /*interface=*/true);
    if (param.kind == Param::kTensor) canonical_buffers_[param.buffer->name] = name;
  }
  std::string dims = List(program.dims);
  std::string head = Cat({"def ", program.name, "("});
  for (size_t i = 0; i < program.params.size(); ++i) {
    const Param& param = program.params[i];
    head += Cat({i ? ", " : "", param.name, ": ", param.is_output ? "out " : "",
                 param.kind == Param::kTensor ? BufferType(param.buffer)
                                              : param.scalar.dtype().ToString()});
  }
  head += Cat({")", dims.empty() ? "" : Cat({" dims(", dims, ")"})});
  Line(Cat({head, Notes(program.attrs), ":"}));
  Block(program.body);
}

}  // namespace

std::string ToString(const Program& program) {
  Printer printer(/*canonical=*/false);
  printer.PrintProgram(program);
  return printer.Take();
}

std::string ToString(const Stmt& stmt) {
  Printer printer(/*canonical=*/false);
  printer.PrintStmt(stmt);
  return printer.Take();
}

std::string ToString(const Expr& expr) { return Printer(/*canonical=*/false).Text(expr); }
std::string ToString(const Region& region) { return Printer(/*canonical=*/false).Text(region); }

std::string ProgramDigest(const Program& program) {
  Printer printer(/*canonical=*/true);
  printer.PrintProgram(program);
  return Sha256Hex(Cat({"kiln program 1\n", printer.Take()}));
}

}  // namespace kiln::ir
