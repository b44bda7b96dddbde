#include "compiler/passes/alternate_products.h"

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/live_fragments.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/share_memory.h"
#include "compiler/passes/touched.h"
#include "compiler/target/arch.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kOther = 32;  // registers of a thread for the loop itself,
constexpr int64_t kLoads = 8;   // and for the addresses of what the work of a step loads
constexpr int64_t kMostLoads = 256;

// The elements of memory that a thread loads in a statement, each once.
class ThreadLoads {
 public:
  explicit ThreadLoads(const std::vector<Stmt>& stmts) { Row(stmts, {}); }
  int64_t count() const { return static_cast<int64_t>(places_.size()); }

 private:
  void Row(const std::vector<Stmt>& stmts, ir::VarMap at) {
    for (const Stmt& s : stmts) {
      const auto* bind = s.As<ir::Bind>();
      Visit(s, at);
      if (bind != nullptr) at[bind->var.get()] = ir::Substitute(bind->value, at);
    }
  }

  void Visit(const Stmt& s, const ir::VarMap& at) {
    if (count() > kMostLoads) return;
    const auto* loop = s.As<ir::For>();
    if (s.kind() == ir::StmtKind::kSeq) return Row(s.As<ir::Seq>()->stmts, at);
    if (loop == nullptr) return Look(s, at);
    const bool turns = loop->loop == ir::ForKind::kSerial;
    const int64_t trips = turns ? ir::ConstInt(loop->axes[0].extent).value_or(1) : 1;
    for (int64_t i = 0; i < trips && count() <= kMostLoads; ++i) {
      ir::VarMap inside = at;
      inside[loop->axes[0].var.get()] = MakeInt(i, loop->axes[0].var.dtype());
      Row({loop->body}, inside);
    }
  }

  void Look(const Stmt& s, const ir::VarMap& at) {
    ir::Walk(
        s, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          const auto* load = e.As<ir::Load>();
          const bool kept = load == nullptr || load->buffer->scope == ir::Scope::kRegister ||
                            load->buffer->scope == ir::Scope::kVar;
          if (!kept) places_.insert(ir::ToString(ir::Substitute(e, at)));
          return true;
        });
  }

  std::set<std::string> places_;
};

// A loop over steps, in parts that can be told apart in time.
class Alternation {
 public:
  explicit Alternation(const Stmt& s) : loc_(s->loc), loop_(s.As<ir::For>()) {}

  bool Match() {
    if (loop_ == nullptr || loop_->loop != ir::ForKind::kSerial) return false;
    const std::vector<Stmt> stmts = Flatten(loop_->body);
    const auto product = std::find_if(stmts.begin(), stmts.end(),
                                      [](const Stmt& s) { return Is(s, Instruction::kWgmma); });
    if (product == stmts.end() || product + 1 == stmts.end() ||
        !Is(product[1], Instruction::kWgmmaWait)) {
      return false;
    }
    product_ = *product;
    written_ = TouchedBy(loop_->body).writes;
    for (auto s = stmts.begin(); s != product; ++s) Before(*s);
    rest_.insert(rest_.end(), product + 2, stmts.end());
    return MayStartAhead() && MayRunBeside();
  }

  const ir::Buffer& result() const { return product_.As<ir::Instruct>()->regions[0].buffer; }

  // Whether the product is all of the result, in a block's part of so many threads.
  bool CoversResult(int64_t threads) const {
    const auto* x = product_.As<ir::Instruct>();
    return NoteOf(*x, "m") * NoteOf(*x, "n") ==
           threads * ir::ConstInt(result()->shape[1]).value_or(0);
  }

  // Registers of a thread beside those that hold fragments, with turns of so many steps: assemblers
  // ask for all that a turn loads before it waits.
  int64_t RegistersBeside(int64_t steps) const {
    const int64_t loads = ThreadLoads(rest_).count();  // of a step
    return kOther + (loads > 0 ? (loads + kLoads) * steps : 0);
  }

  // With the products of every other step apart, an even number of steps a turn. All products of a
  // turn end in it: assemblers look no further for what is read after a wait.
  Stmt Build(int64_t steps) const {
    const ir::Buffer& own = result();
    const ir::Buffer apart =
        ir::MakeBuffer(absl::StrCat(own->name, ".other"), own->dtype, own->shape, own->scope);
    const ir::Axis& axis = loop_->axes[0];
    const auto number = [&](int64_t n) { return MakeInt(n, axis.var.dtype()); };
    const Expr turn = ir::MakeVar("turn", axis.var.dtype());
    const Expr extent = Max(axis.extent, number(0));
    const Expr turns = FloorDiv(extent, number(steps));
    std::vector<Stmt> body;
    for (int64_t i = 0; i <= steps; ++i) {
      const auto step = [&](int64_t n) { return axis.min + turn * number(steps) + number(n); };
      const ir::Buffer &here = i % 2 == 0 ? own : apart, &before = i % 2 == 0 ? apart : own;
      if (i < steps) body.push_back(Start(step(i), here));
      if (i > 0) body.push_back(Work(step(i - 1), before, i < steps ? 1 : 0));
    }
    const ir::Axis left{axis.var, axis.min + turns * number(steps),
                        FloorMod(extent, number(steps))};
    return ir::MakeSeq(
        {ir::MakeStmt<ir::Alloc>(loc_, apart),
         ir::MakeStmt<ir::For>(loc_, loop_->loop, std::vector<ir::Axis>{{turn, number(0), turns}},
                               ir::MakeSeq(std::move(body), loc_)),
         ir::MakeStmt<ir::For>(loc_, loop_->loop, std::vector<ir::Axis>{left}, loop_->body)},
        loc_);
  }

 private:
  // Names and waits for tiles come before the product, which may be asked for ahead; the rest is
  // work.
  void Before(const Stmt& s) {
    if (Is(s, Instruction::kBarrierWait)) {
      start_.push_back(s);
      return;
    }
    const auto* bind = s.As<ir::Bind>();
    if (bind != nullptr && !DependsOnMemory(bind->value)) start_.push_back(s);
    if (bind != nullptr && DependsOnMemory(bind->value)) late_.push_back(bind->var);
    if (bind == nullptr) delayed_.push_back(s);
    rest_.push_back(s);
  }

  // What the loop itself may change, or others meanwhile, is not asked for a step earlier.
  template <typename T>
  bool DependsOnMemory(const T& x) const {
    bool depends = false;
    const auto look = [&](const Expr& e) {
      const auto* load = e.As<ir::Load>();
      depends |= load != nullptr &&
                 (load->buffer->scope != ir::Scope::kVar || written_.count(load->buffer.get()) > 0);
      return !depends;
    };
    if constexpr (std::is_same_v<T, Expr>) {
      ir::Walk(x, look);
    } else {
      ir::Walk(
          x, [](const Stmt&) { return true; }, look);
    }
    return depends;
  }

  // Whether a product starts from zero with tiles of shared memory, at places that can be told a
  // step ahead.
  bool MayStartAhead() const {
    const auto* x = product_.As<ir::Instruct>();
    const ir::Axis& axis = loop_->axes[0];
    std::vector<Stmt> ahead = start_;
    ahead.push_back(product_);
    const auto knows = [&](const Stmt& s) {
      return !DependsOnMemory(s) && std::none_of(late_.begin(), late_.end(),
                                                 [&](const Expr& var) { return ir::Uses(s, var); });
    };
    return ir::IsConst(x->args[0], 1) && x->regions[1].buffer->scope == ir::Scope::kShared &&
           !DependsOnMemory(axis.min) && !DependsOnMemory(axis.extent) &&
           std::all_of(ahead.begin(), ahead.end(), knows);
  }

  // Whether the rest of a step may run beside the next one's product.
  bool MayRunBeside() const {
    const auto* x = product_.As<ir::Instruct>();
    Buffers operands;
    for (size_t i = 1; i < x->regions.size(); ++i) operands.insert(x->regions[i].buffer.get());
    bool works = false;
    for (const Stmt& s : rest_) {
      if (!MayMove(s)) return false;
      const Touched touched = TouchedBy(s);
      if (Meet(touched.writes, operands)) return false;
      works |= touched.reads.count(result().get()) > 0;
    }
    const auto looks = [&](const Stmt& s) {
      const Touched touched = TouchedBy(s);
      return touched.reads.count(result().get()) + touched.writes.count(result().get()) > 0;
    };
    return works && std::none_of(delayed_.begin(), delayed_.end(), looks);
  }

  // No other products, no waits that these may be for, and tiles handed back that have versions.
  static bool MayMove(const Stmt& s) {
    bool may = !ir::HasJump(s) && s.kind() != ir::StmtKind::kAlloc;
    ir::Walk(s, [&](const Stmt& x) {
      may &= !Is(x, Instruction::kWgmma) && !Is(x, Instruction::kWgmmaWait) &&
             !Is(x, Instruction::kBarrierWait) &&
             !(Is(x, Instruction::kBarrierArrive) && !HasVersions(x));
      return may;
    });
    return may;
  }

  // The product of a step, to one of the two.
  Stmt Start(const Expr& step, const ir::Buffer& to) const {
    std::vector<Stmt> stmts = start_;
    stmts.push_back(product_);
    return To(At(stmts, loop_->axes[0], step, loc_), to);
  }

  // The work of a step on its result, once all products but `left` are over.
  Stmt Work(const Expr& step, const ir::Buffer& from, int64_t left) const {
    const Stmt wait = WaitForProducts(loc_, {ir::WholeBuffer(from)}, left);
    return ir::MakeSeq({wait, To(At(rest_, loop_->axes[0], step, loc_), from)}, loc_);
  }

  Stmt To(const Stmt& s, const ir::Buffer& result_there) const {
    return ir::Substitute(s, {}, {{result().get(), result_there}});
  }

  const SourceLoc loc_;
  const ir::For* loop_;
  Stmt product_;
  Buffers written_;            // in the loop
  std::vector<Stmt> start_;    // before the product
  std::vector<Stmt> rest_;     // once it is over, and what may as well be done then
  std::vector<Stmt> delayed_;  // of these, what stood before it
  std::vector<Expr> late_;     // names that only the rest can tell
};

// A launch whose loops alternate.
class AlternateLaunch : public ir::Mutator {
 public:
  AlternateLaunch(const target::Arch& gpu, const ir::Launch& launch)
      : launch_(launch),
        live_(launch.body),
        gpu_(gpu),
        threads_(*ir::ThreadsOf(launch)),
        part_threads_(threads_),
        registers_(gpu.RegistersEach(threads_)) {}

  Stmt Run() { return Mutate(launch_.body); }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* part = s.As<ir::OnThreads>()) {
      const int64_t registers = std::exchange(registers_, RegistersOf(part->body));
      const int64_t threads = std::exchange(part_threads_, part->count);
      const Stmt out = RebuildStmt(s);
      registers_ = registers;
      part_threads_ = threads;
      return out;
    }
    Alternation alternation(s);
    if (!alternation.Match() || !alternation.CoversResult(part_threads_) ||
        LooksOutside(s, alternation.result())) {
      return RebuildStmt(s);
    }
    const int64_t steps = StepsOf(s, alternation);
    if (steps == 0) return RebuildStmt(s);
    return alternation.Build(steps);
  }

 private:
  // What setmaxnreg gives the threads of a part.
  int64_t RegistersOf(const Stmt& part) const {
    int64_t registers = registers_;
    for (const Stmt& s : Flatten(part)) {
      const auto* x = s.As<ir::Instruct>();
      if (Is(s, Instruction::kMaxRegisters)) registers = ir::ConstInt(x->args[0]).value_or(0);
    }
    return registers;
  }

  // How many steps of a turn there are registers for; 0 where for none, and where an SM would have
  // room for fewer blocks: another block is as good beside the work.
  int64_t StepsOf(const Stmt& loop, const Alternation& alternation) const {
    const int64_t held = PerThread(live_.BytesDuring(loop));
    const int64_t more = PerThread(ir::BytesOf(alternation.result()).value_or(0));
    for (const int64_t steps : {4, 2}) {
      const int64_t all = held + more + alternation.RegistersBeside(steps);
      if (all <= registers_ && BlocksOf(all) >= BlocksOf(all - more)) return steps;
    }
    return 0;
  }

  int64_t PerThread(int64_t bytes) const { return (bytes + 4 * threads_ - 1) / (4 * threads_); }

  // How many blocks of so many registers a thread an SM has at once.
  int64_t BlocksOf(int64_t registers) const {
    const int64_t shared = SharedBytesOf(launch_).value_or(0);
    int64_t blocks = gpu_.registers_sm / (threads_ * registers);
    if (shared > 0) blocks = std::min(blocks, gpu_.smem_sm / shared);
    if (const auto grid = ir::ConstInt(launch_.grid[0].extent); launch_.grid.size() == 1 && grid) {
      blocks = std::min(blocks, (*grid + gpu_.cores - 1) / gpu_.cores);
    }
    return std::max<int64_t>(blocks, 1);
  }

  // Whether anything else of the launch reads the result, or writes it, which may be for that.
  bool LooksOutside(const Stmt& loop, const ir::Buffer& result) const {
    const Stmt rest =
        ir::WithoutStmts(launch_.body, [&](const Stmt& s) { return s.same_as(loop); });
    const Touched touched = TouchedBy(rest);
    return touched.reads.count(result.get()) + touched.writes.count(result.get()) > 0;
  }

  const ir::Launch& launch_;
  const LiveFragments live_;
  const target::Arch& gpu_;
  const int64_t threads_;
  int64_t part_threads_;  // here
  int64_t registers_;     // of a thread, here
};

}  // namespace

absl::StatusOr<ir::Program> AlternateProducts(const ir::Program& program,
                                              const PassContext& context) {
  if (ir::PassOption(program, "kiln.alternate", 1) == 0) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    const Stmt body = AlternateLaunch(GpuOf(context), *launch).Run();
    if (body.same_as(launch->body)) return {};
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, body,
                                    launch->annotations);
  });
  return out;
}

}  // namespace kiln::passes
