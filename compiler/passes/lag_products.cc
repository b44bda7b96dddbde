#include "compiler/passes/lag_products.h"

#include <algorithm>
#include <map>

#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/live_fragments.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/touched.h"
#include "compiler/target/arch.h"

namespace kiln::passes {
namespace {

using ir::Instruction;
using ir::Stmt;

constexpr int64_t kWarp = 32;
constexpr int64_t kStepBytes = 32;  // along k, of one step of the instruction
constexpr int64_t kFewest = 4;      // steps of a tile
constexpr int64_t kCopyBytes = 16;  // of one copy to shared memory
constexpr int64_t kGuardedWords = 3;
constexpr int64_t kOther = 48;  // registers of a thread for the loop and its shared memory,
constexpr int64_t kTurns = 16;  // and for a loop around it

class Lag {
 public:
  Lag(const target::Arch& gpu, const ir::Launch& launch, int64_t threads)
      : fragments_(launch.body), threads_(threads), registers_(gpu.RegistersEach(threads)) {}

  // The loop and what is left after it; undefined for any other statement.
  Stmt operator()(const Stmt& s) const {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kSerial) return {};
    std::vector<Stmt> stmts = Flatten(loop->body);
    const auto is = [](Instruction op) { return [op](const Stmt& x) { return Is(x, op); }; };
    if (std::none_of(stmts.begin(), stmts.end(), is(Instruction::kAsyncWait))) return {};
    const auto product = std::find_if(stmts.begin(), stmts.end(), is(Instruction::kMma));
    if (product == stmts.end() || !MayLag(s, *product->As<ir::Instruct>())) return {};
    const ir::Region sums = product->As<ir::Instruct>()->regions[0];
    if (!AloneWith(sums.buffer, *product, stmts)) return {};
    *product = Lagging(*product->As<ir::Instruct>());
    const Stmt all =
        ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, ir::MakeSeq(std::move(stmts), s->loc),
                              loop->num_stages, loop->annotations);
    const Stmt rest = ir::MakeInstruct(s->loc, Instruction::kMmaRest, {sums});
    return ir::MakeSeq({all, rest}, s->loc);
  }

 private:
  // Of tiles of shared memory, to sums that go on, with registers for two steps of its operands;
  // those of float32 are rounded on their way, which takes more. A tile of few steps gains little,
  // and what assembles its kernel takes more than twice as long.
  bool MayLag(const Stmt& loop, const ir::Instruct& x) const {
    const ir::Buffer &a = x.regions[1].buffer, &b = x.regions[2].buffer;
    if (a->scope != ir::Scope::kShared || b->scope != ir::Scope::kShared) return false;
    if (!ir::IsConst(x.args[0], 0) || a->dtype == kFloat32) return false;
    const int64_t m = NoteOf(x, "m"), n = NoteOf(x, "n");
    const int64_t depth = NoteOf(x, "k") * a->dtype.bytes();
    if (depth < kFewest * kStepBytes) return false;
    const int64_t rows = NoteOf(x, "rows"), columns = threads_ / kWarp / rows;
    const int64_t operands = (m / rows + n / columns + 15) / 16 * 4;
    const int64_t copies = (m + n) * depth / (kCopyBytes * threads_) * WordsOfCopies(loop);
    const int64_t live = (fragments_.BytesDuring(loop) + 4 * threads_ - 1) / (4 * threads_);
    const int64_t other = kOther + (fragments_.InLoop(loop) ? kTurns : 0);
    return live + 2 * operands + copies + other <= registers_;
  }

  // Registers of each copy to shared memory: its address, of more words where guards let some out,
  // as then no two have one in common.
  static int64_t WordsOfCopies(const Stmt& loop) {
    bool guarded = false;
    ir::Walk(loop, [&](const Stmt& s) {
      const auto* store = s.As<ir::Store>();
      if (store == nullptr || store->way != ir::StoreWay::kAsync) return !guarded;
      const auto* load = store->value.As<ir::Load>();
      guarded |= load == nullptr || load->predicate.defined();
      return !guarded;
    });
    return guarded ? kGuardedWords : 1;
  }

  // Whether the sums stand outside of the loop and are the product's alone in it.
  static bool AloneWith(const ir::Buffer& sums, const Stmt& product,
                        const std::vector<Stmt>& stmts) {
    return std::all_of(stmts.begin(), stmts.end(), [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc != nullptr && alloc->buffer == sums) return false;
      const Touched touched = TouchedBy(s);
      const ir::BufferNode* c = sums.get();
      return s.same_as(product) || touched.reads.count(c) + touched.writes.count(c) == 0;
    });
  }

  static Stmt Lagging(const ir::Instruct& x) {
    std::map<std::string, std::string> notes = x.annotations;
    notes["lag"] = "1";
    return ir::MakeInstruct(x.loc, x.op, x.regions, x.args, std::move(notes));
  }

  const LiveFragments fragments_;
  const int64_t threads_, registers_;
};

}  // namespace

absl::StatusOr<ir::Program> LagProducts(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    return ir::RewriteStmts(s, Lag(GpuOf(context), *launch, *ir::ThreadsOf(*launch)));
  });
  return out;
}

}  // namespace kiln::passes
