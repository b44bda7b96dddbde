#include "compiler/passes/merge_threads.h"

#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kWarp = 32;

class Merge : public ir::Mutator {
 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& b) override {
    const auto tile = tiles_.find(b.get());
    return tile == tiles_.end() ? b : tile->second;
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* launch = s.As<ir::Launch>()) {
      threads_ = ir::ThreadsOf(*launch).value_or(1);
      first_ = 0, end_ = threads_;
      return RebuildStmt(s);
    }
    if (const auto* part = s.As<ir::OnThreads>()) {
      const int64_t first = first_, end = end_;
      first_ = part->first, end_ = part->first + part->count;
      const Stmt body = Mutate(part->body);
      first_ = first, end_ = end;
      return body;
    }
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc != nullptr && alloc->buffer->scope == ir::Scope::kRegister) {
      const ir::Buffer& b = alloc->buffer;
      tiles_[b.get()] = ir::MakeBuffer(b->name, b->dtype, b->shape, ir::Scope::kFragment);
      return RebuildStmt(s);
    }
    const auto* loop = s.As<ir::For>();
    if (loop != nullptr && loop->loop == ir::ForKind::kThreads) {
      return ir::MakeStmt<ir::For>(s->loc, ir::ForKind::kSerial, loop->axes, Mutate(loop->body));
    }
    const auto* x = s.As<ir::Instruct>();
    return x != nullptr ? VisitInstruct(s, *x) : RebuildStmt(s);
  }

 private:
  Stmt VisitInstruct(const Stmt& s, const ir::Instruct& x) {
    const auto own = [&](int i, const Expr& thread) {
      return ir::MakeLoad(VisitBuffer(x.regions[i].buffer), {thread, MakeInt(0)});
    };
    const auto store = [&](const Expr& thread, const Expr& value) {
      return ir::MakeStmt<ir::Store>(x.loc, VisitBuffer(x.regions[0].buffer),
                                     std::vector<Expr>{thread, MakeInt(0)}, value);
    };
    switch (x.op) {
      case ir::Instruction::kShuffle:
        return ForEach(x.loc, [&](const Expr& thread) {
          const Expr lane = ir::FloorMod(own(2, thread), MakeInt(kWarp));
          const Expr other = thread - ir::FloorMod(thread, MakeInt(kWarp)) + lane;
          const Expr there = MakeInt(first_) <= other && other < MakeInt(end_);
          return store(thread, own(1, ir::MakeSelect(there, other, thread)));
        });
      case ir::Instruction::kBallot:
        return ForEach(x.loc, [&](const Expr& thread) {
          return Bits(x.loc, thread, store, [&](const Expr& other) {
            return ir::MakeBinary(ir::BinaryOp::kNe, own(1, other), MakeInt(0));
          });
        });
      case ir::Instruction::kMatch:
        return ForEach(x.loc, [&](const Expr& thread) {
          return Bits(x.loc, thread, store,
                      [&](const Expr& other) { return ir::Equal(own(1, other), own(1, thread)); });
        });
      default:
        return RebuildStmt(s);
    }
  }

  template <typename F>
  Stmt ForEach(SourceLoc loc, const F& body) const {
    const Expr thread = ir::MakeVar("thread");
    const ir::Axis axis = {thread, MakeInt(first_), MakeInt(end_ - first_)};
    return ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, std::vector<ir::Axis>{axis},
                                 body(thread));
  }

  // A bit for each thread of the warp for which the condition holds.
  template <typename S, typename F>
  Stmt Bits(SourceLoc loc, const Expr& thread, const S& store, const F& condition) const {
    const ir::Buffer bits = ir::MakeBuffer("bits", kUInt32, {MakeInt(1)}, ir::Scope::kVar);
    const std::vector<Expr> whole = {MakeInt(0)};
    const Expr base = ir::Max(thread - ir::FloorMod(thread, MakeInt(kWarp)), MakeInt(first_));
    const Expr count = ir::Min(MakeInt(end_) - base, MakeInt(kWarp));
    const Expr so_far = ir::MakeLoad(bits, whole);
    const Stmt ask = SerialLoop("lane", count, loc, [&](const Expr& lane) {
      const Expr other = base + lane;
      const Expr bit = ir::MakeBinary(ir::BinaryOp::kShl, MakeInt(1, kUInt32),
                                      ir::MakeCast(kUInt32, ir::FloorMod(other, MakeInt(kWarp))));
      const Expr more = ir::MakeSelect(condition(other), bit, MakeInt(0, kUInt32));
      return ir::MakeStmt<ir::Store>(loc, bits, whole,
                                     ir::MakeBinary(ir::BinaryOp::kBitOr, so_far, more));
    });
    return ir::MakeStmt<ir::Seq>(
        loc, std::vector<Stmt>{ir::MakeStmt<ir::Alloc>(loc, bits, MakeInt(0, kUInt32)), ask,
                               store(thread, so_far)});
  }

  int64_t threads_ = 1, first_ = 0, end_ = 1;  // that come by
  ir::BufferMap tiles_;                        // of registers
};

}  // namespace

absl::StatusOr<ir::Program> MergeThreads(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Merge().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
