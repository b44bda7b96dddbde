#include "compiler/passes/lag_products.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/touched.h"
#include "compiler/target/arch.h"

namespace kiln::passes {
namespace {

using ir::Instruction;
using ir::Stmt;

constexpr int64_t kWarp = 32;
constexpr int64_t kOther = 48;  // registers of a thread for addresses and the loop

int64_t Note(const ir::Instruct& x, const char* name) {
  int64_t value = 0;
  const auto note = x.annotations.find(name);
  return note != x.annotations.end() && absl::SimpleAtoi(note->second, &value) ? value : 0;
}

class Lag {
 public:
  Lag(const target::Arch& gpu, int64_t threads)
      : threads_(threads),
        registers_(std::min<int64_t>(gpu.registers_thread, gpu.registers_sm / threads)) {}

  // The loop and what is left after it; undefined for any other statement.
  Stmt operator()(const Stmt& s) const {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kSerial) return {};
    std::vector<Stmt> stmts = Flatten(loop->body);
    const auto is = [](Instruction op) { return [op](const Stmt& x) { return Is(x, op); }; };
    if (std::none_of(stmts.begin(), stmts.end(), is(Instruction::kAsyncWait))) return {};
    const auto product = std::find_if(stmts.begin(), stmts.end(), is(Instruction::kMma));
    if (product == stmts.end() || !MayLag(*product->As<ir::Instruct>())) return {};
    const ir::Region sums = product->As<ir::Instruct>()->regions[0];
    for (auto other = stmts.begin(); other != stmts.end(); ++other) {
      const Touched touched = TouchedBy(*other);
      const ir::BufferNode* c = sums.buffer.get();
      if (other != product && touched.reads.count(c) + touched.writes.count(c) > 0) return {};
    }
    *product = Lagging(*product->As<ir::Instruct>());
    const Stmt all =
        ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, ir::MakeSeq(std::move(stmts), s->loc),
                              loop->num_stages, loop->annotations);
    const Stmt rest = ir::MakeInstruct(s->loc, Instruction::kMmaRest, {sums});
    return ir::MakeSeq({all, rest}, s->loc);
  }

 private:
  // Of tiles of shared memory, to sums that go on, with registers for two steps of its operands;
  // those of float32 are rounded on their way, which takes more.
  bool MayLag(const ir::Instruct& x) const {
    const ir::Buffer &a = x.regions[1].buffer, &b = x.regions[2].buffer;
    if (a->scope != ir::Scope::kShared || b->scope != ir::Scope::kShared) return false;
    if (!ir::IsConst(x.args[0], 0) || a->dtype == kFloat32) return false;
    const int64_t rows = Note(x, "rows");
    const int64_t own_m = Note(x, "m") / rows, own_n = Note(x, "n") / (threads_ / kWarp / rows);
    const int64_t sums = own_m * own_n / kWarp * x.regions[0].buffer->dtype.bytes() / 4;
    const int64_t operands = (own_m + own_n + 15) / 16 * 4;
    return sums + 2 * operands + kOther <= registers_;
  }

  static Stmt Lagging(const ir::Instruct& x) {
    std::map<std::string, std::string> notes = x.annotations;
    notes["lag"] = "1";
    return ir::MakeInstruct(x.loc, x.op, x.regions, x.args, std::move(notes));
  }

  const int64_t threads_, registers_;
};

}  // namespace

absl::StatusOr<ir::Program> LagProducts(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    int64_t threads = 1;
    for (const ir::Expr& extent : launch->threads) threads *= *ir::ConstInt(extent);
    return ir::RewriteStmts(s, Lag(GpuOf(context), threads));
  });
  return out;
}

}  // namespace kiln::passes
