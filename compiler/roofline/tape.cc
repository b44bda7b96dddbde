#include "compiler/roofline/tape.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "compiler/base/status.h"

namespace kiln::roofline {
namespace {

constexpr int kLanes = 128;  // configs evaluated together; a register is 1 KiB

uint64_t Bits(double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

Tape* TapeOf(Num a, Num b) {
  KILN_CHECK(a.defined() && b.defined() && a.tape() == b.tape());
  return a.tape();
}

Num Binary(TapeOp op, Num a, Num b) { return TapeOf(a, b)->Make(op, a, b); }
Num With(Num a, double b) { return a.tape()->Const(b); }

bool Commutes(TapeOp op) {
  return op == TapeOp::kAdd || op == TapeOp::kMul || op == TapeOp::kMin || op == TapeOp::kMax ||
         op == TapeOp::kEq;
}

}  // namespace

double ApplyTapeOp(TapeOp op, double a, double b, double c) {
  switch (op) {
    case TapeOp::kConst:
    case TapeOp::kInput:
      return a;
    case TapeOp::kAdd:
      return a + b;
    case TapeOp::kSub:
      return a - b;
    case TapeOp::kMul:
      return a * b;
    case TapeOp::kDiv:
      return a / b;
    case TapeOp::kFloor:
      return std::floor(a);
    case TapeOp::kMin:
      return b < a ? b : a;
    case TapeOp::kMax:
      return a < b ? b : a;
    case TapeOp::kLt:
      return a < b ? 1 : 0;
    case TapeOp::kLe:
      return a <= b ? 1 : 0;
    case TapeOp::kEq:
      return a == b ? 1 : 0;
    case TapeOp::kSelect:
      return a != 0 ? b : c;
    case TapeOp::kSqrt:
      return std::sqrt(a);
  }
  return 0;
}

std::optional<double> Num::constant() const {
  const Tape::Node& n = tape_->nodes()[id_];
  if (n.op != TapeOp::kConst) return std::nullopt;
  return n.value;
}

Num operator+(Num a, Num b) { return Binary(TapeOp::kAdd, a, b); }
Num operator-(Num a, Num b) { return Binary(TapeOp::kSub, a, b); }
Num operator*(Num a, Num b) { return Binary(TapeOp::kMul, a, b); }
Num operator/(Num a, Num b) { return Binary(TapeOp::kDiv, a, b); }
Num operator+(Num a, double b) { return a + With(a, b); }
Num operator-(Num a, double b) { return a - With(a, b); }
Num operator*(Num a, double b) { return a * With(a, b); }
Num operator/(Num a, double b) { return a / With(a, b); }
Num operator-(double a, Num b) { return With(b, a) - b; }
Num operator/(double a, Num b) { return With(b, a) / b; }
Num operator*(double a, Num b) { return b * a; }
Num operator+(double a, Num b) { return b + a; }
Num Floor(Num a) { return a.tape()->Make(TapeOp::kFloor, a); }
Num FloorDiv(Num a, Num b) { return Floor(a / b); }
Num FloorMod(Num a, Num b) { return a - b * FloorDiv(a, b); }
Num Ceil(Num a) { return 0.0 - Floor(0.0 - a); }
Num CeilDiv(Num a, Num b) { return Ceil(a / b); }
Num Min(Num a, Num b) { return Binary(TapeOp::kMin, a, b); }
Num Max(Num a, Num b) { return Binary(TapeOp::kMax, a, b); }
Num Min(Num a, double b) { return Min(a, With(a, b)); }
Num Max(Num a, double b) { return Max(a, With(a, b)); }
Num Lt(Num a, Num b) { return Binary(TapeOp::kLt, a, b); }
Num Le(Num a, Num b) { return Binary(TapeOp::kLe, a, b); }
Num Le(Num a, double b) { return Le(a, With(a, b)); }
Num Eq(Num a, Num b) { return Binary(TapeOp::kEq, a, b); }
Num And(Num a, Num b) { return Min(a, b); }
Num Or(Num a, Num b) { return Max(a, b); }
Num Not(Num a) { return 1.0 - a; }
Num Select(Num condition, Num a, Num b) {
  TapeOf(a, b);
  return TapeOf(condition, a)->Make(TapeOp::kSelect, condition, a, b);
}
Num Sqrt(Num a) { return a.tape()->Make(TapeOp::kSqrt, a); }

size_t Tape::KeyHash::operator()(const Node& n) const {
  uint64_t h = Bits(n.value) * 0x9e3779b97f4a7c15ULL;
  for (uint64_t part : {static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.a),
                        static_cast<uint64_t>(n.b), static_cast<uint64_t>(n.c)}) {
    h = (h ^ part) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 29;
  }
  return h;
}

bool Tape::KeyEq::operator()(const Node& x, const Node& y) const {
  return x.op == y.op && x.a == y.a && x.b == y.b && x.c == y.c && Bits(x.value) == Bits(y.value);
}

Num Tape::Intern(const Node& node) {
  const auto [it, fresh] = index_.try_emplace(node, static_cast<int32_t>(nodes_.size()));
  if (fresh) nodes_.push_back(node);
  return Num(this, it->second);
}

Num Tape::Const(double value) {
  if (value == 0) value = 0;  // one zero
  return Intern({TapeOp::kConst, -1, -1, -1, value});
}

Num Tape::Input(int index) { return Intern({TapeOp::kInput, index, -1, -1, 0}); }

std::optional<Num> Tape::Fold(TapeOp op, Num a, Num b, Num c) {
  const auto ca = a.constant();
  const auto cb = b.defined() ? b.constant() : std::optional<double>(0);
  const auto cc = c.defined() ? c.constant() : std::optional<double>(0);
  if (ca && cb && cc) return Const(ApplyTapeOp(op, *ca, *cb, *cc));
  switch (op) {
    case TapeOp::kAdd:
      if (ca && *ca == 0) return b;
      if (cb && *cb == 0) return a;
      break;
    case TapeOp::kSub:
      if (cb && *cb == 0) return a;
      if (a.same_as(b)) return Const(0);
      break;
    case TapeOp::kMul:
      if ((ca && *ca == 0) || (cb && *cb == 0)) return Const(0);
      if (ca && *ca == 1) return b;
      if (cb && *cb == 1) return a;
      break;
    case TapeOp::kDiv:
      if (cb && *cb == 1) return a;
      break;
    case TapeOp::kMin:
    case TapeOp::kMax:
      if (a.same_as(b)) return a;
      break;
    case TapeOp::kLe:
    case TapeOp::kEq:
      if (a.same_as(b)) return Const(1);
      break;
    case TapeOp::kSelect:
      if (ca) return *ca != 0 ? b : c;
      if (b.same_as(c)) return b;
      break;
    default:
      break;
  }
  return std::nullopt;
}

Num Tape::Make(TapeOp op, Num a, Num b, Num c) {
  KILN_CHECK(a.tape() == this);
  if (const auto folded = Fold(op, a, b, c)) return *folded;
  if (Commutes(op) && b.id() < a.id()) std::swap(a, b);
  return Intern({op, a.id(), b.defined() ? b.id() : -1, c.defined() ? c.id() : -1, 0});
}

TapeProgram TapeProgram::Compile(const Tape& tape, const std::vector<Num>& outputs) {
  const auto& nodes = tape.nodes();
  const int n = static_cast<int>(nodes.size());
  std::vector<int> last_use(n, -1);  // index of the last node that reads it; n = an output
  std::vector<bool> needed(n, false);
  for (const Num& o : outputs) {
    needed[o.id()] = true;
    last_use[o.id()] = n;
  }
  for (int i = n - 1; i >= 0; --i) {
    if (!needed[i] || nodes[i].op == TapeOp::kInput) continue;
    for (int32_t operand : {nodes[i].a, nodes[i].b, nodes[i].c}) {
      if (operand < 0) continue;
      needed[operand] = true;
      last_use[operand] = std::max(last_use[operand], i);
    }
  }
  TapeProgram p;
  std::vector<int32_t> reg(n, -1), free;
  for (int i = 0; i < n; ++i) {
    if (!needed[i]) continue;
    const Tape::Node& node = nodes[i];
    if (node.op == TapeOp::kConst) {
      reg[i] = p.registers_++;
      p.constants_.push_back({reg[i], node.value});
      continue;
    }
    Step step{node.op, -1, node.a, -1, -1};
    if (node.op != TapeOp::kInput) {
      step.a = reg[node.a];
      step.b = node.b >= 0 ? reg[node.b] : step.a;
      step.c = node.c >= 0 ? reg[node.c] : step.a;
      std::vector<int32_t> operands = {node.a, node.b, node.c};
      std::sort(operands.begin(), operands.end());
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      for (int32_t o : operands) {
        if (o >= 0 && last_use[o] == i && nodes[o].op != TapeOp::kConst) free.push_back(reg[o]);
      }
    }
    // A destination never shares a register with an operand of its own step.
    int32_t dst = -1;
    for (auto it = free.rbegin(); it != free.rend() && dst < 0; ++it) {
      if (node.op != TapeOp::kInput && (*it == step.a || *it == step.b || *it == step.c)) continue;
      dst = *it;
      free.erase(std::next(it).base());
      break;
    }
    step.dst = reg[i] = dst >= 0 ? dst : p.registers_++;
    p.steps_.push_back(step);
  }
  for (const Num& o : outputs) p.outputs_.push_back(reg[o.id()]);
  return p;
}

namespace {

#if defined(__x86_64__) && !defined(KILN_SANITIZER)  // which starts before ifuncs are resolved
__attribute__((target_clones("avx2", "default")))
#endif
void RunStep(TapeOp op, double* __restrict d, const double* a, const double* b, const double* c) {
  switch (op) {
    case TapeOp::kConst:
    case TapeOp::kInput:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i];
      return;
    case TapeOp::kAdd:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] + b[i];
      return;
    case TapeOp::kSub:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] - b[i];
      return;
    case TapeOp::kMul:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] * b[i];
      return;
    case TapeOp::kDiv:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] / b[i];
      return;
    case TapeOp::kFloor:
      for (int i = 0; i < kLanes; ++i) d[i] = std::floor(a[i]);
      return;
    case TapeOp::kMin:
      for (int i = 0; i < kLanes; ++i) d[i] = b[i] < a[i] ? b[i] : a[i];
      return;
    case TapeOp::kMax:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] < b[i] ? b[i] : a[i];
      return;
    case TapeOp::kLt:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] < b[i] ? 1.0 : 0.0;
      return;
    case TapeOp::kLe:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] <= b[i] ? 1.0 : 0.0;
      return;
    case TapeOp::kEq:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] == b[i] ? 1.0 : 0.0;
      return;
    case TapeOp::kSelect:
      for (int i = 0; i < kLanes; ++i) d[i] = a[i] != 0 ? b[i] : c[i];
      return;
    case TapeOp::kSqrt:
      for (int i = 0; i < kLanes; ++i) d[i] = std::sqrt(a[i]);
      return;
  }
}

}  // namespace

void TapeProgram::Run(const std::vector<const double*>& inputs, int64_t count,
                      const std::vector<double*>& out) const {
  KILN_CHECK(out.size() == outputs_.size());
  const auto file = std::make_unique<double[]>(static_cast<size_t>(registers_) * kLanes);
  const auto at = [&](int32_t r) { return file.get() + static_cast<size_t>(r) * kLanes; };
  for (const Constant& c : constants_) std::fill_n(at(c.reg), kLanes, c.value);
  for (int64_t base = 0; base < count; base += kLanes) {
    const int live = static_cast<int>(std::min<int64_t>(kLanes, count - base));
    for (const Step& s : steps_) {
      if (s.op == TapeOp::kInput) {
        std::copy_n(inputs[s.a] + base, live, at(s.dst));
        std::fill(at(s.dst) + live, at(s.dst) + kLanes, 1.0);
        continue;
      }
      RunStep(s.op, at(s.dst), at(s.a), at(s.b), at(s.c));
    }
    for (size_t k = 0; k < outputs_.size(); ++k) std::copy_n(at(outputs_[k]), live, out[k] + base);
  }
}

}  // namespace kiln::roofline
