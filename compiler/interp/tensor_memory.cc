#include "compiler/interp/tensor_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/interp/async.h"
#include "compiler/interp/clusters.h"
#include "compiler/interp/compiler.h"
#include "compiler/interp/tf32.h"
#include "compiler/interp/tile_shape.h"

namespace kiln::interp {

bool TensorMemory::Has(Machine& m, int64_t column, int64_t count, SourceLoc loc) const {
  if (column >= first && column + count <= first + columns) return true;
  m.Fail(absl::StatusCode::kFailedPrecondition, loc,
         absl::StrCat(
             "columns ", column, " to ", column + count - 1,
             " of tensor memory, of which the block has ",
             columns == 0 ? std::string("none") : absl::StrCat(first, " to ", first + columns - 1)),
         "take columns before they are used, and as many as are used");
  return false;
}

bool TensorMemory::IsSettled(Machine& m, int64_t column, int64_t count, int64_t thread,
                             SourceLoc loc) const {
  using Stage = Move::Stage;
  const auto has = [&](const Threads& who) { return who.Has(thread); };
  for (const Move& move : moves) {
    if (move.first >= column + count || move.first + move.columns <= column) continue;
    if (std::any_of(move.settled.begin(), move.settled.end(), has)) continue;
    const bool met = std::any_of(move.met.begin(), move.met.end(), has);
    const char* const missing = move.stage == Stage::kStarted ? "wait for them"
                                : move.stage == Stage::kOver  ? "fence before a barrier"
                                : met                         ? "fence after the barrier"
                                      : "barrier of these threads and this one";
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           absl::StrCat("this may overtake loads and stores of tensor memory by other threads: "
                        "there is no ",
                        missing, " in between"),
           "order them: wait, fence, barrier, fence");
    return false;
  }
  return true;
}

void TensorMemory::Start(Move move) {
  const auto covered = [&](const Move& old) {
    return old.first >= move.first && old.first + old.columns <= move.first + move.columns;
  };
  moves.erase(std::remove_if(moves.begin(), moves.end(), covered), moves.end());
  moves.push_back(std::move(move));
}

void TensorMemory::Wait(bool stores) {
  for (Move& move : moves) {
    if (move.stage != Move::Stage::kStarted || move.stores != stores) continue;
    move.perform();
    move.stage = Move::Stage::kOver;
  }
}

void TensorMemory::FenceBefore() {
  for (Move& move : moves) {
    if (move.stage == Move::Stage::kOver) move.stage = Move::Stage::kFenced;
  }
}

void TensorMemory::FenceAfter(const Threads& who) {
  fenced = ended;
  for (Move& move : moves) {
    for (const Threads& met : move.met) {
      if (met.Has(who.first)) move.settled.push_back(met);
    }
    std::erase_if(move.met, [&](const Threads& met) { return met.Has(who.first); });
  }
}

void TensorMemory::Meet(const Threads& who) {
  for (Move& move : moves) {
    if (move.stage == Move::Stage::kFenced) move.met.push_back(who);
  }
}

void TensorMemory::Tell(const BarrierKey& barrier) {
  for (Move& move : moves) {
    if (move.stage == Move::Stage::kFenced) move.told.push_back(barrier);
  }
}

void TensorMemory::Hear(const BarrierKey& barrier, const Threads& who) {
  for (Move& move : moves) {
    const bool told = std::find(move.told.begin(), move.told.end(), barrier) != move.told.end();
    if (told) move.met.push_back(who);
  }
}

void TensorMemory::CheckEnd(Machine& m, SourceLoc loc) const {
  const bool moving = std::any_of(moves.begin(), moves.end(), [](const Move& move) {
    return move.stage == Move::Stage::kStarted;
  });
  if (m.failed()) return;
  const auto elsewhere = [](const Step& step) { return step.elsewhere; };
  if (std::any_of(arrivals.begin(), arrivals.end(), elsewhere)) {
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           "products of a block arrive at a barrier of another one that may have ended",
           "let each block wait for all that arrives at its barriers");
    return;
  }
  if (columns == 0 && steps.empty() && !moving) return;
  m.Fail(absl::StatusCode::kFailedPrecondition, loc,
         columns > 0 ? "the block ends and keeps columns of tensor memory"
                     : "products, or moves of tensor memory, are still on their way when the block "
                       "ends",
         "wait for all that was started, then give all columns back");
}

namespace {

constexpr int64_t kWarp = 32, kGroup = 128;
constexpr int64_t kHalf = 64, kHalfRows = 16;  // of 64 rows a warp has 16

// A result in tensor memory: row r of 128 in lane r, of 64 in the first half of each warp's lanes;
// every further 128 rows in the next columns (9.7.16.10.5).
struct SumShape {
  int64_t m = 0, n = 0;

  int64_t slabs() const { return std::max<int64_t>(1, m / TensorMemory::kLanes); }
  int64_t columns() const { return slabs() * n; }
  int64_t Lane(int64_t row) const {
    return m == kHalf ? row / kHalfRows * kWarp + row % kHalfRows : row % TensorMemory::kLanes;
  }
  int64_t Column(int64_t row, int64_t column) const {
    return row / TensorMemory::kLanes * n + column;
  }
  bool IsUsed(int64_t lane) const { return m != kHalf || lane % kWarp < kHalfRows; }
};

double Element(const BufferState& b, int64_t place) {
  return b.real ? b.Real(place) : static_cast<double>(b.Int(place));
}

// Of one block's tensor memory.
class OnTensorMemory : public Action {
 public:
  explicit OnTensorMemory(const ir::Instruct& x) : Action(x.loc), rank_(ClusterRank(x)) {}

 protected:
  TensorMemory& Own(Machine& m) const { return m.async->tensors[rank_]; }

 private:
  const int64_t rank_;
};

class AllocOfColumns : public OnTensorMemory {
 public:
  AllocOfColumns(const ir::Instruct& x, Box slot, NodePtr columns, uint32_t thread)
      : OnTensorMemory(x), slot_(std::move(slot)), columns_(std::move(columns)), thread_(thread) {}
  Flow Run(Machine& m) const override {
    const int64_t columns = columns_->Int(m);
    const int64_t place = FirstElement(m, slot_);
    TensorMemory& t = Own(m);
    if (m.failed() || !m.Step(1, loc)) return Flow::kStop;
    const bool power = columns >= kWarp && (columns & (columns - 1)) == 0;
    if (!power || columns > TensorMemory::kColumns || t.columns > 0) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             t.columns > 0 ? "the block has columns of tensor memory already"
                           : absl::StrCat(columns, " columns of tensor memory"),
             "take a power of two from 32 to 512, once");
      return Flow::kStop;
    }
    // Anywhere: addresses are what was written to the slot.
    t.first = m.options().order == Order::kReverse ? TensorMemory::kColumns - columns : 0;
    t.columns = columns;
    // Others use them once they are told.
    t.Start({t.first, columns, true, nullptr, TensorMemory::Move::Stage::kOver, {}, {}, {}});
    t.cells.assign(TensorMemory::kLanes * TensorMemory::kColumns, {});
    const bool threads = !m.levels.empty() && m.levels.back().units == Units::kThreads;
    const Level around = m.levels.empty() ? Level() : m.levels.back();
    if (threads) m.levels.back().unit = thread_;
    WriteInt(m, m.buffers[slot_.slot], place, t.first, threads, loc);
    if (threads) m.levels.back() = around;
    return NextUnlessFailed(m);
  }

 private:
  Box slot_;
  NodePtr columns_;
  const uint32_t thread_;
};

class FreeOfColumns : public OnTensorMemory {
 public:
  FreeOfColumns(const ir::Instruct& x, NodePtr address, NodePtr columns, int64_t thread)
      : OnTensorMemory(x),
        address_(std::move(address)),
        columns_(std::move(columns)),
        thread_(thread) {}
  Flow Run(Machine& m) const override {
    TensorMemory& t = Own(m);
    const int64_t first = address_->Int(m), columns = columns_->Int(m);
    if (m.failed() || !t.Has(m, first, columns, loc) ||
        !t.IsSettled(m, first, columns, thread_, loc)) {
      return Flow::kStop;
    }
    if (columns == t.columns && t.steps.empty()) {
      t.columns = 0;
      return Flow::kNext;
    }
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           t.steps.empty() ? "other columns of tensor memory are given back than were taken"
                           : "columns of tensor memory are given back while products go on",
           "give back what was taken, after all products");
    return Flow::kStop;
  }

 private:
  NodePtr address_, columns_;
  const int64_t thread_;
};

class FenceOf : public OnTensorMemory {
 public:
  FenceOf(const ir::Instruct& x, NodePtr after, TensorMemory::Threads who)
      : OnTensorMemory(x), after_(std::move(after)), who_(who) {}
  Flow Run(Machine& m) const override {
    TensorMemory& t = Own(m);
    if (after_->Int(m) != 0) {
      t.FenceAfter(who_);
    } else {
      t.FenceBefore();
    }
    return NextUnlessFailed(m);
  }

 private:
  NodePtr after_;
  const TensorMemory::Threads who_;
};

// One thread's product: it reads its operands as late as it may, or with Order::kReverse at once.
class ProductInTensorMemory : public OnTensorMemory {
 public:
  struct Operand {
    int slot = 0;
    TileShape tile;
    bool trans = false;  // its rows are steps along k
    Box box;
    Tf32 tf32 = Tf32::kNone;
  };
  ProductInTensorMemory(const ir::Instruct& x, SumShape shape, int64_t k, Operand a, Operand b,
                        Rounding rounding, NodePtr clear, NodePtr address, uint32_t thread)
      : OnTensorMemory(x),
        thread_(thread),
        shape_(shape),
        k_(k),
        a_(std::move(a)),
        b_(std::move(b)),
        rounding_(rounding),
        clear_(std::move(clear)),
        address_(std::move(address)) {}
  Flow Run(Machine& m) const override {
    TensorMemory& t = Own(m);
    const int64_t a = FirstElement(m, a_.box), b = FirstElement(m, b_.box);
    const bool clear = clear_->Int(m) != 0;
    const int64_t first = address_->Int(m);
    if (m.failed() || !m.Step(shape_.m * shape_.n * k_ / 64, loc)) return Flow::kStop;
    const int64_t columns = shape_.columns();
    if (!t.Has(m, first, columns, loc) || !t.IsSettled(m, first, columns, thread_, loc)) {
      return Flow::kStop;
    }
    if (!LooksAtOperands(m, a, b)) return Flow::kStop;
    ForCells(t, first, [](TensorMemory::Cell& cell, int64_t, int64_t) { ++cell.products; });
    auto multiply = [this, &m, a, b, clear, first] { Multiply(m, a, b, clear, first); };
    const auto over = [this, &t, first] {
      ++t.ended;
      ForCells(t, first, [&](TensorMemory::Cell& cell, int64_t, int64_t) {
        --cell.products;
        cell.turn = t.ended;
      });
    };
    if (m.options().order == Order::kReverse) {
      multiply();
      t.steps.push_back({over, std::nullopt, false});
    } else {
      t.steps.push_back({[multiply, over] { multiply(), over(); }, std::nullopt, false});
    }
    return NextUnlessFailed(m);
  }

 private:
  template <typename F>
  void ForCells(TensorMemory& t, int64_t first, F visit) const {
    for (int64_t row = 0; row < shape_.m; ++row) {
      for (int64_t column = 0; column < shape_.n; ++column) {
        visit(t.At(shape_.Lane(row), first + shape_.Column(row, column)), row, column);
      }
    }
  }

  // What threads stored must be fenced, and the one that starts the product must have met them
  // after. Nobody overwrites it before the product is over: all wait for that.
  bool LooksAtOperands(Machine& m, int64_t a_first, int64_t b_first) const {
    const bool threads = !m.levels.empty() && m.levels.back().units == Units::kThreads;
    const Level around = m.levels.empty() ? Level() : m.levels.back();
    if (threads) m.levels.back().unit = thread_;
    const auto look = [&](const Operand& x, int64_t first, int64_t outer) {
      BufferState& tile = m.buffers[x.slot];
      const bool track = threads && tile.depth < m.levels.size();
      for (int64_t i = 0; i < outer * k_; ++i) {
        const int64_t at = i / k_, k = i % k_;
        const int64_t place = x.trans ? x.tile.At(first, k, at) : x.tile.At(first, at, k);
        if (!CheckFenced(m, tile, place, loc)) return false;
        if (track && !m.Track(&tile, place, Touch::kLook, false, loc)) return false;
      }
      return true;
    };
    const bool met = look(a_, a_first, shape_.m) && look(b_, b_first, shape_.n);
    if (threads) m.levels.back() = around;
    return met;
  }

  // Rows of an operand, each along k.
  bool Gather(Machine& m, const Operand& x, int64_t first, int64_t outer,
              std::vector<double>* rows) const {
    BufferState& tile = m.buffers[x.slot];
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t k = 0; k < k_; ++k) {
        const int64_t place = x.trans ? x.tile.At(first, k, i) : x.tile.At(first, i, k);
        if (!CheckLaterRead(m, tile, place, false, loc)) return false;
        rows->push_back(ToTf32(Element(tile, place), x.tf32));
      }
    }
    return true;
  }

  void Multiply(Machine& m, int64_t a_first, int64_t b_first, bool clear, int64_t first) const {
    std::vector<double> left, right;
    if (!Gather(m, a_, a_first, shape_.m, &left) || !Gather(m, b_, b_first, shape_.n, &right)) {
      return;
    }
    ForCells(Own(m), first, [&](TensorMemory::Cell& cell, int64_t row, int64_t column) {
      if (m.failed()) return;
      if (!clear && !cell.written) {
        m.Fail(absl::StatusCode::kFailedPrecondition, loc,
               "a product adds to columns of tensor memory that nothing has written",
               "let the first product clear them, or store what they begin with");
        return;
      }
      double sum = 0;
      for (int64_t k = 0; k < k_; ++k) {
        sum +=
            left[static_cast<size_t>(row * k_ + k)] * right[static_cast<size_t>(column * k_ + k)];
      }
      cell.value = Round(clear ? sum : cell.value + sum, rounding_);
      cell.written = true;
    });
  }

  const uint32_t thread_;  // that starts it
  const SumShape shape_;
  const int64_t k_;
  const Operand a_, b_;
  const Rounding rounding_;
  NodePtr clear_, address_;
};

class CommitOf : public OnTensorMemory {
 public:
  CommitOf(const ir::Instruct& x, Box barrier)
      : OnTensorMemory(x), elsewhere_(IsElsewhere(x)), barrier_(std::move(barrier)) {}
  Flow Run(Machine& m) const override {
    const BarrierKey key = {barrier_.slot, Locate(m, barrier_).min[0]};
    if (m.failed() || m.async->Find(m, key, loc) == nullptr) return Flow::kStop;
    Own(m).steps.push_back({nullptr, key, elsewhere_});
    return Flow::kNext;
  }

 private:
  const bool elsewhere_;
  Box barrier_;
};

// Between registers and lanes: thread t of a warpgroup has lane t (9.7.16.8.1).
class MoveOf : public OnTensorMemory {
 public:
  MoveOf(const ir::Instruct& x, bool loads, int registers, SumShape shape, int64_t first,
         int64_t groups, NodePtr address)
      : OnTensorMemory(x),
        loads_(loads),
        registers_(registers),
        shape_(shape),
        first_(first),
        groups_(groups),
        address_(std::move(address)) {}
  Flow Run(Machine& m) const override {
    TensorMemory& t = Own(m);
    const int64_t first = address_->Int(m);
    if (m.failed() || !m.Step(shape_.m * shape_.n, loc)) return Flow::kStop;
    if (!t.Has(m, first, shape_.columns(), loc)) return Flow::kStop;
    const auto perform = [this, &m, first] { Perform(m, first); };
    ForAll(m, first, [&](TensorMemory::Cell& cell, BufferState& held, int64_t place) {
      const bool over = cell.products == 0 && cell.turn <= t.fenced;
      if (!over || (loads_ && !cell.written)) Early(m, cell);
      if (loads_ && held.track_written) held.written[place] = 0;
      if (!loads_) cell.written = false;
    });
    if (m.failed()) return Flow::kStop;
    t.Start({first, shape_.columns(), !loads_, perform, {}, {}, {}, {}});
    return NextUnlessFailed(m);
  }

 private:
  void Early(Machine& m, const TensorMemory::Cell& cell) const {
    if (m.failed()) return;
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           cell.products > 0 ? "tensor memory is touched while products are on their way to it"
           : cell.written    ? "tensor memory is touched without a fence after its products"
                             : "tensor memory is read that nothing has written",
           "wait for the barrier that the products are committed to, then fence");
  }

  template <typename F>
  void ForAll(Machine& m, int64_t first, F visit) const {
    TensorMemory& t = Own(m);
    BufferState& held = m.buffers[registers_];
    const int64_t own = shape_.n / groups_;
    for (int64_t i = 0; i < groups_ * kGroup; ++i) {
      const int64_t lane = i % kGroup;
      if (!shape_.IsUsed(lane)) continue;
      for (int64_t slot = 0; slot < shape_.slabs() * own; ++slot) {
        const int64_t column = slot / own * shape_.n + i / kGroup * own + slot % own;
        visit(t.At(lane, first + column), held, (first_ + i) * held.stride[0] + slot);
      }
    }
  }

  void Perform(Machine& m, int64_t first) const {
    ForAll(m, first, [&](TensorMemory::Cell& cell, BufferState& held, int64_t place) {
      if (m.failed()) return;
      if (!loads_) {
        if (!CheckRead(m, held, place, false, loc)) return;
        cell.value = Element(held, place);
        cell.written = true;
        return;
      }
      if (held.track_written) held.written[place] = 1;
      if (held.real) {
        held.SetReal(place, cell.value);
      } else {
        held.SetInt(place, static_cast<int64_t>(cell.value));
      }
    });
  }

  const bool loads_;
  const int registers_;
  const SumShape shape_;
  const int64_t first_, groups_;  // thread, warpgroups
  NodePtr address_;
};

class WaitOfMoves : public OnTensorMemory {
 public:
  WaitOfMoves(const ir::Instruct& x, NodePtr stores)
      : OnTensorMemory(x), stores_(std::move(stores)) {}
  Flow Run(Machine& m) const override {
    Own(m).Wait(stores_->Int(m) != 0);
    return NextUnlessFailed(m);
  }

 private:
  NodePtr stores_;
};

}  // namespace

ActionPtr Compiler::TensorMemoryAction(const ir::Instruct& x) {
  using Threads = TensorMemory::Threads;
  const SourceLoc loc = x.loc;
  const auto arg = [&](size_t i) { return Expr(x.args[i], loc); };
  const SumShape shape = {NoteOf(x, "m"), NoteOf(x, "n")};
  const bool loads = x.op == ir::Instruction::kTcgen05Load;
  switch (x.op) {
    case ir::Instruction::kTcgen05Alloc:
      return std::make_unique<AllocOfColumns>(x, MakeBox(x.regions[0], loc), arg(0),
                                              static_cast<uint32_t>(part_.first));
    case ir::Instruction::kTcgen05Free:
      return std::make_unique<FreeOfColumns>(x, arg(0), arg(1), part_.first);
    case ir::Instruction::kTcgen05Fence:
      return std::make_unique<FenceOf>(x, arg(0), Threads{part_.first, part_.count});
    case ir::Instruction::kTcgen05Mma: {
      const auto operand = [&](int i, bool trans) {
        const ir::Buffer& tile = x.regions[i].buffer;
        return ProductInTensorMemory::Operand{SlotOf(tile), TileOf(x, i), trans,
                                              MakeBox(x.regions[i], loc),
                                              tile->dtype == kFloat32 ? Tf32::kCut : Tf32::kNone};
      };
      const bool is_int = x.regions[0].buffer->dtype.is_int();
      return std::make_unique<ProductInTensorMemory>(
          x, shape, NoteOf(x, "k"), operand(0, NoteOf(x, "trans_a") != 0),
          operand(1, NoteOf(x, "trans_b") == 0), is_int ? Rounding::kNone : RoundingFor(kFloat32),
          arg(0), arg(1), static_cast<uint32_t>(part_.first));
    }
    case ir::Instruction::kTcgen05Commit:
      return std::make_unique<CommitOf>(x, MakeBox(x.regions[0], loc));
    case ir::Instruction::kTcgen05Load:
    case ir::Instruction::kTcgen05Store:
      if (part_.first % kGroup != 0 || part_.count % kGroup != 0) {
        Error(absl::InvalidArgumentError("lanes of tensor memory belong to whole warpgroups"));
      }
      return std::make_unique<MoveOf>(x, loads, SlotOf(x.regions[0].buffer), shape, part_.first,
                                      std::max<int64_t>(1, part_.count / kGroup), arg(0));
    default:
      return std::make_unique<WaitOfMoves>(x, arg(0));
  }
}

}  // namespace kiln::interp
