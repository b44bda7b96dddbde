#include "compiler/passes/store_matrices.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/instruct.h"
#include "compiler/passes/build.h"
#include "compiler/passes/neighbours.h"
#include "compiler/passes/thread_level.h"
#include "compiler/target/legality.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kWarp = 32;
constexpr int64_t kRow = 8;   // elements of a matrix's row, and its rows
constexpr int64_t kQuad = 4;  // lanes that hold a row, a pair of elements each
constexpr int64_t kPair = 2;
constexpr int64_t kMostSteps = 512;

// One store a step, of a value that the thread computes from its registers.
struct Stores {
  ir::Axis threads, steps;
  const ir::Store* store = nullptr;
  std::vector<Expr> indices;
  Expr value;
};

bool FromRegisters(const Expr& e) {
  bool registers = true;
  ir::Walk(e, [&](const Expr& x) {
    const auto* load = x.As<ir::Load>();
    registers &= load == nullptr || load->buffer->scope == ir::Scope::kRegister ||
                 load->buffer->scope == ir::Scope::kConstant;
    return registers;
  });
  return registers;
}

// Names, and one store after them.
bool Gather(const Stmt& s, ir::VarMap* names, const ir::Store** store) {
  if (*store != nullptr) return false;
  if (const auto* bind = s.As<ir::Bind>()) {
    (*names)[bind->var.get()] = ir::Substitute(bind->value, *names);
    return true;
  }
  if (const auto* seq = s.As<ir::Seq>()) {
    return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                       [&](const Stmt& child) { return Gather(child, names, store); });
  }
  *store = s.As<ir::Store>();
  return *store != nullptr;
}

std::optional<Stores> StoresOf(const ir::For& threads) {
  const auto* steps = threads.body.As<ir::For>();
  if (steps == nullptr || steps->loop != ir::ForKind::kSerial) return std::nullopt;
  Stores out{threads.axes[0], steps->axes[0], nullptr, {}, {}};
  ir::VarMap names;
  if (!Gather(steps->body, &names, &out.store)) return std::nullopt;
  if (out.store == nullptr || out.store->predicate.defined() ||
      out.store->way != ir::StoreWay::kPlain) {
    return std::nullopt;
  }
  const ir::Buffer& tile = out.store->buffer;
  out.value = ir::Substitute(out.store->value, names);
  for (const Expr& index : out.store->indices) out.indices.push_back(ir::Substitute(index, names));
  const bool narrow = tile->dtype.is_float() && tile->dtype.bits == 16 && tile->dtype.lanes == 1;
  if (tile->scope != ir::Scope::kShared || tile->blocks > 1 || !tile->strides.empty() || !narrow ||
      out.value.dtype() != tile->dtype || !FromRegisters(out.value)) {
    return std::nullopt;
  }
  return out;
}

// Where thread t of the block stores its element of a step, from the tile's first one.
class Places {
 public:
  // nullopt where that depends on more than the two.
  static std::optional<Places> Of(const Stores& stores) {
    const auto from = ir::ConstInt(stores.threads.min), count = ir::ConstInt(stores.threads.extent);
    const auto steps = ir::ConstInt(stores.steps.extent);
    if (!from || !count || !steps || !ir::IsConst(stores.steps.min, 0) || *from % kWarp != 0 ||
        *count % kWarp != 0 || *count <= 0 || *steps % kPair != 0 || *steps > kMostSteps) {
      return std::nullopt;
    }
    std::vector<int64_t> shape;
    for (const Expr& extent : stores.store->buffer->shape) {
      const auto known = ir::ConstInt(extent);
      if (!known) return std::nullopt;
      shape.push_back(*known);
    }
    const auto flat = ir::IntFunction::Of(FlattenExpr(stores.indices, shape),
                                          {stores.threads.var, stores.steps.var});
    if (!flat.ok()) return std::nullopt;
    auto places = flat->Over({*from, 0}, {*count, *steps});
    if (!places) return std::nullopt;
    Places out;
    out.steps_ = *steps;
    out.places_ = *std::move(places);
    return out;
  }

  int64_t steps() const { return steps_; }

  // Whether four lanes of a warp store each row, two elements in two steps each; or, transposed,
  // one lane of each row's eight stores an element of it in each of two steps.
  bool AreRows() const {
    return All([&](int64_t warp, int64_t lane, int64_t step) {
      const int64_t row = At(warp + lane / kQuad * kQuad, step);
      return IsRow(row) && At(warp + lane, step) == row + lane % kQuad * kPair &&
             At(warp + lane, step + 1) == row + lane % kQuad * kPair + 1;
    });
  }
  bool AreColumns() const {
    return All([&](int64_t warp, int64_t lane, int64_t step) {
      for (const int64_t i : {0, 1}) {
        const int64_t row = At(warp + lane % kQuad, step + i);
        if (!IsRow(row) || At(warp + lane, step + i) != row + lane / kQuad) return false;
      }
      return true;
    });
  }

 private:
  int64_t At(int64_t thread, int64_t step) const {
    return places_[static_cast<size_t>(thread * steps_ + step)];
  }
  static bool IsRow(int64_t place) { return place % kRow == 0; }

  template <typename F>
  bool All(F holds) const {
    const auto threads = static_cast<int64_t>(places_.size()) / steps_;
    for (int64_t t = 0; t < threads; ++t) {
      for (int64_t step = 0; step < steps_; step += kPair) {
        if (!holds(t / kWarp * kWarp, t % kWarp, step)) return false;
      }
    }
    return true;
  }

  int64_t steps_ = 0;
  std::vector<int64_t> places_;
};

// The loop over threads with instructions of `matrices` matrices each.
Stmt Together(const Stmt& s, const Stores& stores, int64_t matrices, bool transposed,
              int64_t steps) {
  const Expr thread = stores.threads.var;
  const Expr lane = FloorMod(thread, MakeInt(kWarp)), warp = thread - lane;
  const Expr row = FloorMod(lane, MakeInt(kRow));
  const Expr matrix = FloorMod(FloorDiv(lane, MakeInt(kRow)), MakeInt(matrices));
  const Expr holder =
      transposed ? warp + FloorDiv(row, MakeInt(kPair)) : warp + row * MakeInt(kQuad);
  const int64_t each = matrices * kPair;
  const Stmt loop =
      SerialLoop("step", MakeInt(steps / each), stores.store->loc, [&](const Expr& turn) {
        const auto cast = [&](const Expr& e, const Expr& var) {
          return ir::MakeCast(var.dtype(), e);
        };
        Expr at = turn * MakeInt(each) + matrix * MakeInt(kPair);
        if (transposed) at = at + FloorMod(row, MakeInt(kPair));
        const ir::VarMap of_holder = {{thread.get(), cast(holder, thread)},
                                      {stores.steps.var.get(), cast(at, stores.steps.var)}};
        std::vector<Expr> place, values;
        for (const Expr& index : stores.indices) {
          place.push_back(ir::Substitute(index, of_holder));
        }
        for (int64_t i = 0; i < each; ++i) {
          const Expr own = cast(turn * MakeInt(each) + MakeInt(i), stores.steps.var);
          values.push_back(ir::Substitute(stores.value, {{stores.steps.var.get(), own}}));
        }
        std::map<std::string, std::string> notes;
        if (transposed) notes["trans"] = "1";
        return ir::MakeStmt<ir::Instruct>(
            stores.store->loc, ir::Instruction::kStoreMatrices,
            std::vector<ir::Region>{RunFrom(stores.store->buffer, place, kRow)}, std::move(values),
            std::move(notes));
      });
  return ir::MakeStmt<ir::For>(s->loc, ir::ForKind::kThreads, std::vector<ir::Axis>{stores.threads},
                               loop);
}

struct Verdict {
  std::optional<Stores> stores;  // nullopt: no stores that the pass is about
  int64_t matrices = 0;          // an instruction; 0: stores stay
  int64_t replaced = 0;          // stores, by each
  bool transposed = false;
  int64_t steps = 0;
  const char* why_not = "";
};

Verdict Judge(const Stmt& s) {
  Verdict out;
  const auto* threads = s.As<ir::For>();
  if (threads == nullptr || threads->loop != ir::ForKind::kThreads) return out;
  out.stores = StoresOf(*threads);
  if (!out.stores) return out;
  const auto places = Places::Of(*out.stores);
  if (!places) {
    out.why_not = "their places are not known for each thread of whole warps";
    return out;
  }
  const bool rows = places->AreRows();
  if (!rows && !places->AreColumns()) {
    out.why_not = "lanes do not hold eight elements of a row together, as matrices have them";
    return out;
  }
  out.transposed = !rows;
  out.steps = places->steps();
  out.why_not = "a thread has too few for an instruction to replace several";
  for (const int64_t matrices : {4, 2, 1}) {
    // A pair of a row is one store, of a column two.
    const int64_t replaced = rows ? matrices : matrices * kPair;
    if (out.steps % (matrices * kPair) != 0 || replaced < 2) continue;
    out.matrices = matrices;
    out.replaced = replaced;
    break;
  }
  return out;
}

Stmt Rewrite(const Stmt& s) {
  const Verdict verdict = Judge(s);
  if (verdict.matrices == 0) return {};
  return Together(s, *verdict.stores, verdict.matrices, verdict.transposed, verdict.steps);
}

}  // namespace

absl::StatusOr<ir::Program> StoreMatrices(const ir::Program& program, const PassContext& context) {
  if (!target::StoresMatrices(GpuOf(context))) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, Rewrite);
  return out;
}

std::string MatricesVerdict(const Stmt& s) {
  const Verdict v = Judge(s);
  if (!v.stores) return "";
  if (v.matrices == 0) return absl::StrCat("one by one: ", v.why_not);
  return absl::StrCat(v.matrices, v.transposed ? " transposed" : "",
                      v.matrices == 1 ? " matrix" : " matrices",
                      " an instruction (stmatrix), in place of ", v.replaced,
                      v.transposed ? " stores of an element" : " stores of a pair");
}

}  // namespace kiln::passes
