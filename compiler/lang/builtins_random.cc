// Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC11), counted as cuRAND counts them. Number n of a sequence is word n % 4 of the block
// whose counter is n / 4 in its low 64 bits and the sequence's number in its high ones, under the
// seed as key; T.rng_init(seed, seq, off) begins at number off.
//
// A number depends on its place in the program alone, never on threads. In a loop over elements
// iteration k, in row-major order, takes the k-th of the numbers that a call takes there, and the
// next call in the loop goes on after all iterations of the one before, whether or not a condition
// leaves some out.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::BinaryOp;
using ir::Expr;

constexpr uint32_t kFactors[] = {0xD2511F53, 0xCD9E8D57};
constexpr uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr int kRounds = 10;
constexpr double kPi = 3.14159265358979323846;

ExprInfo AtRunTime() {
  ExprInfo info;
  info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
  return info;
}

absl::StatusOr<Expr> Named(Elaborator& e, const Expr& value, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const Value v, e.NewExpr(value, AtRunTime(), loc));
  KILN_ASSIGN_OR_RETURN(const Value named, e.Freeze(v, "random", loc));
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(named, loc, "a random number"));
  return x.e.dtype() == value.dtype() ? x.e : ir::MakeCast(value.dtype(), x.e);
}

Expr Word(uint32_t n) { return ir::MakeInt(n, kUInt32); }
Expr Long(int64_t n) { return ir::MakeInt(n, kUInt64); }
Expr Low(const Expr& x) { return ir::MakeCast(kUInt32, x); }
Expr High(const Expr& x) { return Low(ir::MakeBinary(BinaryOp::kShr, x, Long(32))); }
Expr Xor(const Expr& a, const Expr& b) { return ir::MakeBinary(BinaryOp::kBitXor, a, b); }

absl::StatusOr<Expr> ToLong(Elaborator& e, const BoundArgs& args, size_t i, const char* what) {
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[i], args.LocOf(i), what));
  if (!x.e.dtype().is_int() || x.e.dtype().is_bool()) {
    return e.Error(args.LocOf(i), absl::StrCat(what, " is ", x.e.dtype().ToString()),
                   "pass an integer");
  }
  return Named(e, ir::MakeCast(kUInt64, x.e), args.loc);
}

absl::StatusOr<Value> Init(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.rng_init"));
  if (e.InElementLoop()) {
    return e.Error(args.loc, "T.rng_init in a loop over elements",
                   "begin before the loop: its iterations take numbers that follow each other");
  }
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(args[3], args.LocOf(3), "the generator"));
    if (name != "curandStatePhilox4_32_10_t") {
      return e.Error(
          args.LocOf(3), absl::StrCat("the generator '", name, "'"),
          "use 'curandStatePhilox4_32_10_t', whose numbers do not depend on those before");
    }
  }
  RandomState state;
  state.region = e.CurrentRegion();
  KILN_ASSIGN_OR_RETURN(state.seed, ToLong(e, args, 0, "the seed of T.rng_init"));
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(state.sequence, ToLong(e, args, 1, "seq of T.rng_init"));
  } else {  // one for each block
    Expr block = Long(0);
    for (size_t d = e.grid().size(); d-- > 0;) {
      block = block * ir::MakeCast(kUInt64, e.grid()[d].extent) +
              ir::MakeCast(kUInt64, e.grid()[d].var);
    }
    KILN_ASSIGN_OR_RETURN(state.sequence, Named(e, block, args.loc));
  }
  Expr from = Long(0);
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(from, ToLong(e, args, 2, "off of T.rng_init"));
  }
  KILN_ASSIGN_OR_RETURN(state.drawn, e.NewNamedBuffer(kUInt64, {ir::MakeInt(1)}, ir::Scope::kVar,
                                                      args.loc, {}, "drawn"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, state.drawn, from));
  e.random() = state;
  return Value::None();
}

absl::Status Advance(Elaborator& e, const RandomState& state, const Expr& count, SourceLoc loc,
                     ir::Stmt* out) {
  const std::vector<Expr> at = {ir::MakeInt(0)};
  *out = ir::MakeStmt<ir::Store>(loc, state.drawn, at,
                                 ir::MakeLoad(state.drawn, at) + ir::MakeCast(kUInt64, count));
  return absl::OkStatus();
}

// The number of the first of `count` draws that this call takes here.
absl::StatusOr<Expr> Take(Elaborator& e, int64_t count, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(loc, "a random number"));
  std::optional<RandomState>& state = e.random();
  if (!state || !e.IsAlive(state->region)) {
    return e.Error(loc, "a random number before T.rng_init",
                   "begin with T.rng_init(seed), outside of the loop or branch");
  }
  const Expr drawn = ir::MakeLoad(state->drawn, {ir::MakeInt(0)});
  if (!e.InElementLoop()) {
    KILN_ASSIGN_OR_RETURN(const Expr first, Named(e, drawn, loc));
    ir::Stmt next;
    KILN_RETURN_IF_ERROR(Advance(e, *state, Long(count), loc, &next));
    KILN_RETURN_IF_ERROR(e.Emit(loc, next));
    return first;
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<ir::Axis> axes, e.ElementAxes(loc));
  Expr place = Long(0), all = Long(count);
  for (const ir::Axis& axis : axes) {
    const Expr extent = ir::MakeCast(kUInt64, axis.extent);
    place = place * extent + ir::MakeCast(kUInt64, axis.var - axis.min);
    all = all * extent;
  }
  const int loop = e.EmitAfterElementLoop({});
  if (state->loop != loop) {
    state->loop = loop;
    state->taken = Long(0);
  }
  const Expr first = drawn + state->taken + place * Long(count);
  state->taken = state->taken + all;
  for (const ir::Axis& axis : axes) {
    // What follows the loop does not see the loops inside of it.
    if (ir::ConstInt(axis.extent) || axis.var.same_as(axes[0].var)) continue;
    if (e.InfoOf(axis.extent).flags & ExprInfo::kLoads) {
      return e.Error(loc, "a random number in a loop whose length is read from memory",
                     "give the loop a length that is known before");
    }
  }
  ir::Stmt next;
  KILN_RETURN_IF_ERROR(Advance(e, *state, all, loc, &next));
  e.EmitAfterElementLoop(next);
  return Named(e, first, loc);
}

// Word `number` % 4 of its block.
absl::StatusOr<Expr> Philox(Elaborator& e, const Expr& number, SourceLoc loc) {
  const RandomState& state = *e.random();
  KILN_ASSIGN_OR_RETURN(const Expr block,
                        Named(e, ir::MakeBinary(BinaryOp::kShr, number, Long(2)), loc));
  Expr counter[4] = {Low(block), High(block), Low(state.sequence), High(state.sequence)};
  for (uint32_t round = 0; round < kRounds; ++round) {
    Expr products[2];
    for (int i = 0; i < 2; ++i) {
      KILN_ASSIGN_OR_RETURN(
          products[i], Named(e, ir::MakeCast(kUInt64, counter[2 * i]) * Long(kFactors[i]), loc));
    }
    const Expr keys[2] = {Low(state.seed) + Word(round * kWeyl[0]),
                          High(state.seed) + Word(round * kWeyl[1])};
    const Expr first = Xor(Xor(High(products[1]), counter[1]), keys[0]);
    const Expr third = Xor(Xor(High(products[0]), counter[3]), keys[1]);
    counter[0] = first;
    counter[1] = Low(products[1]);
    counter[2] = third;
    counter[3] = Low(products[0]);
  }
  const Expr word = Low(ir::MakeBinary(BinaryOp::kBitAnd, number, Long(3)));
  return Named(
      e,
      ir::MakeSelect(word < Word(2), ir::MakeSelect(Equal(word, Word(0)), counter[0], counter[1]),
                     ir::MakeSelect(Equal(word, Word(2)), counter[2], counter[3])),
      loc);
}

absl::StatusOr<Value> Rand(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Expr number, Take(e, 1, args.loc));
  KILN_ASSIGN_OR_RETURN(const Expr word, Philox(e, number, args.loc));
  return e.NewExpr(word, AtRunTime(), args.loc);
}

// In (0, 1]: of 32 bits from one number, of 64 bits from two.
Expr Uniform(const Expr& word, DType type) {
  return ir::MakeCast(type, word) * ir::MakeFloat(0x1p-32, type) + ir::MakeFloat(0x1p-33, type);
}
Expr UniformOfTwo(const Expr& a, const Expr& b) {
  const Expr bits = Xor(ir::MakeCast(kUInt64, a),
                        ir::MakeBinary(BinaryOp::kShl, ir::MakeCast(kUInt64, b), Long(21)));
  return ir::MakeCast(kFloat64, bits) * ir::MakeFloat(0x1p-53, kFloat64) +
         ir::MakeFloat(0x1p-54, kFloat64);
}

// A float of `bit` bits. "uniform": in (0, 1]. "normal": by Box and Muller, the sine's half, from
// two numbers, or four for 64 bits.
absl::StatusOr<Value> RandFloat(Elaborator& e, const BoundArgs& args) {
  int64_t bits = 32;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(bits, e.ToInt(args[0], args.LocOf(0), "bit of T.rng_rand_float"));
  }
  if (bits != 32 && bits != 64) {
    return e.Error(args.LocOf(0), absl::StrCat("a random float of ", bits, " bits"),
                   "use 32 or 64");
  }
  std::string shape = "uniform";
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(shape, e.ToStr(args[1], args.LocOf(1), "dist of T.rng_rand_float"));
  }
  if (shape != "uniform" && shape != "normal") {
    return e.Error(args.LocOf(1), absl::StrCat("the distribution '", shape, "'"),
                   "use 'uniform' or 'normal'");
  }
  const DType type = bits == 64 ? kFloat64 : kFloat32;
  const bool normal = shape == "normal";
  const int64_t each = bits == 64 ? 2 : 1;
  KILN_ASSIGN_OR_RETURN(const Expr number, Take(e, normal ? 2 * each : each, args.loc));
  Expr uniform[2];
  for (int64_t i = 0; i < (normal ? 2 : 1); ++i) {
    KILN_ASSIGN_OR_RETURN(const Expr a, Philox(e, number + Long(i * each), args.loc));
    if (each == 1) {
      uniform[i] = Uniform(a, type);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const Expr b, Philox(e, number + Long(i * each + 1), args.loc));
    uniform[i] = UniformOfTwo(a, b);
  }
  if (!normal) return e.NewExpr(uniform[0], AtRunTime(), args.loc);
  const auto call = [&](ir::Intrinsic op, const Expr& x) { return ir::MakeCall(type, op, {x}); };
  const Expr radius =
      call(ir::Intrinsic::kSqrt, ir::MakeFloat(-2, type) * call(ir::Intrinsic::kLog, uniform[0]));
  const Expr angle = uniform[1] * ir::MakeFloat(2 * kPi, type);
  return e.NewExpr(radius * call(ir::Intrinsic::kSin, angle), AtRunTime(), args.loc);
}

constexpr Builtin kRows[] = {
    {"T.rng_init", "seed seq? off? generator?", Init},
    {"T.rng_rand", "", Rand},
    {"T.rng_rand_float", "bit? dist?", RandFloat},
};

}  // namespace

BuiltinTable RandomBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
