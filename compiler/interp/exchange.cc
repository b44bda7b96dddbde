// What threads of a warp tell each other (ir/instruct.h: kShuffle, kBallot, kMatch).
#include "compiler/interp/compiler.h"

namespace kiln::interp {
namespace {

constexpr int64_t kWarp = 32;

class ExchangeOf : public Action {
 public:
  ExchangeOf(const ir::Instruct& x, std::vector<int> slots, int64_t first, int64_t count)
      : Action(x.loc), op_(x.op), slots_(std::move(slots)), first_(first), end_(first + count) {}

  Flow Run(Machine& m) const override {
    if (!m.Step(end_ - first_, loc)) return Flow::kStop;
    BufferState& to = m.buffers[slots_[0]];
    for (int64_t thread = first_; thread < end_ && !m.failed(); ++thread) {
      const int64_t target = thread * to.stride[0];
      if (op_ == ir::Instruction::kShuffle) {
        Shuffle(m, thread, target);
      } else {
        to.SetInt(target, Bits(m, thread));
        if (to.written) to.written[target] = 1;
      }
    }
    return NextUnlessFailed(m);
  }

 private:
  void Shuffle(Machine& m, int64_t thread, int64_t target) const {
    BufferState& to = m.buffers[slots_[0]];
    const BufferState& from = m.buffers[slots_[1]];
    const int64_t lane = Int(m, slots_[2], thread) & (kWarp - 1);
    const int64_t other = thread / kWarp * kWarp + lane;
    const bool there = other >= first_ && other < end_;
    const int64_t source = (there ? other : thread) * from.stride[0];
    if (to.written) to.written[target] = there && (!from.written || from.written[source]);
    if (to.real) {
      to.SetReal(target, from.Real(source));
    } else {
      to.SetInt(target, from.Int(source));
    }
  }

  int64_t Bits(Machine& m, int64_t thread) const {
    const int64_t base = thread / kWarp * kWarp;
    const int64_t own = Int(m, slots_[1], thread);
    int64_t bits = 0;
    for (int64_t lane = 0; lane < kWarp; ++lane) {
      if (base + lane < first_ || base + lane >= end_) continue;
      const int64_t other = Int(m, slots_[1], base + lane);
      const bool set = op_ == ir::Instruction::kBallot ? other != 0 : other == own;
      if (set) bits |= int64_t{1} << lane;
    }
    return bits;
  }

  // The element of a thread, which must have been written.
  int64_t Int(Machine& m, int slot, int64_t thread) const {
    BufferState& b = m.buffers[slot];
    const int64_t offset = thread * b.stride[0];
    if (b.written && !b.written[offset]) m.FailUnwritten(b, offset, loc);
    return b.Int(offset);
  }

  const ir::Instruction op_;
  const std::vector<int> slots_;
  const int64_t first_, end_;
};

}  // namespace

ActionPtr Compiler::ExchangeAction(const ir::Instruct& x) {
  std::vector<int> slots;
  for (const ir::Region& r : x.regions) slots.push_back(SlotOf(r.buffer));
  return std::make_unique<ExchangeOf>(x, std::move(slots), part_.first, part_.count);
}

}  // namespace kiln::interp
