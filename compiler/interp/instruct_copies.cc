// Copies that go on while threads do: TMA, cp.async (ir/instruct.h), by the PTX ISA.
#include <algorithm>

#include "compiler/base/status.h"
#include "compiler/interp/async.h"
#include "compiler/interp/cluster_run.h"
#include "compiler/interp/compiler.h"
#include "compiler/interp/tile_shape.h"
#include "compiler/ir/shared_use.h"

namespace kiln::interp {
namespace {

// The pixels of a kPatchLoad: where a window's steps lie, rows before columns.
struct Window {
  int64_t stride = 0;  // 0: no window
  int64_t low[2] = {}, high[2] = {};
  NodePtr offset[2];
};

class TensorLoadOf : public Action {
 public:
  TensorLoadOf(SourceLoc loc, Box tile, TileShape shape, Box source, int row_dimension, Box barrier,
               int64_t first_row, Window window = {}, int64_t multicast = 0)
      : Action(loc),
        tile_(std::move(tile)),
        shape_(shape),
        row_dimension_(row_dimension),
        source_(std::move(source)),
        barrier_(std::move(barrier)),
        first_row_(first_row),
        window_(std::move(window)),
        multicast_(multicast) {}
  Flow Run(Machine& m) const override {
    const int64_t first = FirstElement(m, tile_);
    const Place source = Locate(m, source_);
    const Place barrier = Locate(m, barrier_);
    std::array<int64_t, 2> offset{};
    for (size_t d = 0; d < 2 && window_.stride > 0; ++d) {
      offset[d] = window_.offset[d]->Int(m);
      if (!m.failed() && !IsStep(source, d)) FailOutside(m);
    }
    const int rank = source.buffer->rank;
    const int64_t rows = source.extent[row_dimension_], columns = source.extent[rank - 1];
    if (m.failed() || !m.Step(rows * columns, loc)) return Flow::kStop;
    if (!CheckSides(m, shape_, columns, loc)) return Flow::kStop;
    if (multicast_ == 0) {
      Start(m, m.async.get(), first, source, offset, {barrier_.slot, barrier.min[0]});
      return NextUnlessFailed(m);
    }
    const BufferState& tile = m.buffers[tile_.slot];
    const int64_t apart = tile.span / tile.shape[0], barriers = barrier.buffer->shape[1];
    for (int64_t block = 0; multicast_ >> block != 0 && !m.failed(); ++block) {
      if ((multicast_ >> block & 1) == 0) continue;
      if (block >= tile.shape[0]) {
        m.Fail(absl::StatusCode::kOutOfRange, loc,
               absl::StrCat("a load for block ", block, " of a cluster of ", tile.shape[0]),
               "name blocks that the cluster has");
        break;
      }
      Start(m, &m.cluster->barriers(), first + (block - barrier.min[0]) * apart, source, offset,
            {barrier_.slot, block * barriers + barrier.min[1]});
    }
    return NextUnlessFailed(m);
  }

 private:
  void Start(Machine& m, Async* async, int64_t first, const Place& source,
             const std::array<int64_t, 2>& offset, const BarrierKey& key) const {
    const int64_t rows = source.extent[row_dimension_];
    const int64_t columns = source.extent[source.buffer->rank - 1];
    BufferState* tile = &m.buffers[tile_.slot];
    const auto each = [=, this, shape = shape_](const auto& visit) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) visit(shape.At(first, first_row_ + r, c), r, c);
      }
    };
    each([&](int64_t place, int64_t, int64_t) {
      if (m.failed() || !CheckInside(m, *tile, place, loc)) return;
      if (multicast_ != 0 && m.options().detect_races) {
        m.TrackRanks(tile, place, Touch::kWrite, true, kRankLevel, loc);
      }
      if (tile->track_written && tile->written[place] & kTaken) FailTaken(m, *tile, place);
      if (tile->track_written) tile->written[place] = 0;
      m.Overwrite(*tile, place, false, loc);
    });
    if (m.failed()) return;
    if (multicast_ != 0) m.cluster->Release(m, key);  // who waits for it sees what comes
    async->loads.push_back({key, rows * columns * shape_.element, [=, this, &m] {
                              each([&](int64_t place, int64_t r, int64_t c) {
                                std::array<int64_t, kMaxRank> at{};
                                std::copy_n(source.min.begin(), source.buffer->rank, at.begin());
                                at[source.buffer->rank - 1] += c;
                                if (window_.stride > 0) {
                                  Walk(source, r, offset, &at);
                                } else {
                                  at[row_dimension_] += r;
                                }
                                Put(tile, place, *source.buffer, at);
                                m.Overwrite(*tile, place, false, loc);
                              });
                            }});
    if (m.options().order == Order::kReverse) async->Land(m, key, loc);
  }

  // Steps of the window along rows (d = 0) or columns of the image.
  int64_t Steps(const Place& source, size_t d) const {
    const int64_t last = source.buffer->shape[1 + d] - 1 + window_.high[d];
    return (last - window_.low[d]) / window_.stride + 1;
  }
  bool IsStep(const Place& source, size_t d) const {
    const int64_t way = source.min[1 + d] - window_.low[d];
    return way >= 0 && way % window_.stride == 0 && way / window_.stride < Steps(source, d);
  }
  void FailOutside(Machine& m) const {
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           "the first pixel of a load is none that its window comes by", "");
  }

  void FailTaken(Machine& m, const BufferState& tile, int64_t place) const {
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           absl::StrCat("a load over ", m.IndexText(tile, place),
                        ", which a thread read without a proxy fence after it"),
           "read, fence, then give the tile back");
  }

  // To the pixel `r` steps after the first one: columns, then rows, then images.
  void Walk(const Place& source, int64_t r, const std::array<int64_t, 2>& offset,
            std::array<int64_t, kMaxRank>* at) const {
    int64_t carry = r;
    for (const size_t d : {1, 0}) {
      const int64_t steps = Steps(source, d);
      const int64_t step = (source.min[1 + d] - window_.low[d]) / window_.stride + carry;
      (*at)[1 + d] = window_.low[d] + step % steps * window_.stride + offset[d];
      carry = step / steps;
    }
    (*at)[0] += carry;
  }

  // Outside of the tensor there are zeros.
  static void Put(BufferState* tile, int64_t place, const BufferState& tensor,
                  const std::array<int64_t, kMaxRank>& at) {
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d < tensor.rank; ++d) {
      inside &= at[d] >= 0 && at[d] < tensor.shape[d];
      offset += at[d] * tensor.stride[d];
    }
    if (tile->track_written) tile->written[place] = 1;
    if (tile->real) {
      tile->SetReal(place, inside ? tensor.Real(offset) : 0);
    } else {
      tile->SetInt(place, inside ? tensor.Int(offset) : 0);
    }
  }

  Box tile_;
  const TileShape shape_;
  const int row_dimension_;
  Box source_, barrier_;
  const int64_t first_row_;  // of the tile
  const Window window_;
  const int64_t multicast_;  // bits of the blocks that get it; 0: this one
};

// Copies a few neighbours when it is waited for; then they are the thread's own stores.
class AsyncCopyOf : public Action {
 public:
  AsyncCopyOf(SourceLoc loc, Box tile, Box source, NodePtr valid)
      : Action(loc), tile_(std::move(tile)), source_(std::move(source)), valid_(std::move(valid)) {}
  Flow Run(Machine& m) const override {
    const bool valid = valid_->Int(m) != 0;
    if (m.failed()) return Flow::kStop;
    const int64_t to = FirstElement(m, tile_), from = valid ? FirstElement(m, source_) : 0;
    if (m.failed() || (valid && !InsideOf(m))) return Flow::kStop;
    BufferState* tile = &m.buffers[tile_.slot];
    const int64_t count = Locate(m, tile_).extent[tile->rank - 1];
    if (m.failed() || !m.Step(count, loc)) return Flow::kStop;
    if (tile->track_written) std::fill_n(&tile->written[to], count, uint8_t{0});
    for (int64_t i = 0; i < count && !tile->beside.empty(); ++i) {
      if (!m.Overwrite(*tile, to + i, true, loc)) return Flow::kStop;
    }
    const auto perform = [=, this, &m] {
      const BufferState& source = m.buffers[source_.slot];
      for (int64_t i = 0; i < count && !m.failed(); ++i) {
        if (tile->real) {
          WriteReal(m, *tile, to + i, valid ? source.Real(from + i) : 0, true, loc);
        } else {
          WriteInt(m, *tile, to + i, valid ? source.Int(from + i) : 0, true, loc);
        }
      }
    };
    if (m.options().order == Order::kReverse) {
      perform();
      return NextUnlessFailed(m);
    }
    if (m.async->groups.empty()) m.async->groups.emplace_back();
    m.async->groups.back().push_back({m.levels.empty() ? 0 : m.levels.back().unit, perform});
    return Flow::kNext;
  }

 private:
  bool InsideOf(Machine& m) const {
    const Place place = Locate(m, source_);
    for (int d = 0; d < place.buffer->rank; ++d) {
      if (place.min[d] >= 0 && place.min[d] + place.extent[d] <= place.buffer->shape[d]) continue;
      m.Fail(absl::StatusCode::kOutOfRange, loc, "a copy from outside of a tensor",
             "copy zeros there");
      return false;
    }
    return true;
  }

  Box tile_, source_;
  NodePtr valid_;
};

class AsyncCommitOf : public Action {
 public:
  using Action::Action;
  Flow Run(Machine& m) const override {
    if (m.async->groups.empty()) m.async->groups.emplace_back();
    m.async->groups.emplace_back();
    return Flow::kNext;
  }
};

class AsyncWaitOf : public Action {
 public:
  AsyncWaitOf(SourceLoc loc, size_t left) : Action(loc), left_(left) {}
  Flow Run(Machine& m) const override {
    auto& groups = m.async->groups;
    while (groups.size() > left_ + 1 && !m.failed()) {
      const bool threads = !m.levels.empty() && m.levels.back().units == Units::kThreads;
      const uint32_t unit = m.levels.empty() ? 0 : m.levels.back().unit;
      for (const Async::Copy& copy : groups.front()) {
        if (threads) m.levels.back().unit = copy.thread;
        copy.perform();
      }
      if (threads) m.levels.back().unit = unit;
      groups.pop_front();
    }
    return NextUnlessFailed(m);
  }

 private:
  const size_t left_;
};

// A tile's box goes to a tensor when it is waited for: a tile that is filled again before that is
// seen.
class TensorStoreOf : public Action {
 public:
  TensorStoreOf(SourceLoc loc, Box tile, TileShape shape, Box target, int row_dimension,
                int64_t part)
      : Action(loc),
        tile_(std::move(tile)),
        shape_(shape),
        row_dimension_(row_dimension),
        target_(std::move(target)),
        part_(part) {}
  Flow Run(Machine& m) const override {
    const int64_t first = FirstElement(m, tile_);
    const Place target = Locate(m, target_);
    const int64_t rows = target.extent[row_dimension_];
    const int64_t columns = target.extent[target.buffer->rank - 1];
    if (m.failed() || !m.Step(rows * columns, loc)) return Flow::kStop;
    if (!CheckSides(m, shape_, columns, loc)) return Flow::kStop;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t place = shape_.At(first, i / columns, i % columns);
      if (!CheckFenced(m, m.buffers[tile_.slot], place, loc)) return Flow::kStop;
    }
    const auto perform = [=, this, &m] {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) Put(m, target, shape_.At(first, r, c), r, c);
      }
    };
    if (m.options().order == Order::kReverse) {
      perform();
    } else {
      m.async->stores[part_].push_back({perform});
    }
    return NextUnlessFailed(m);
  }

 private:
  void Put(Machine& m, const Place& target, int64_t place, int64_t r, int64_t c) const {
    BufferState& tensor = *target.buffer;
    BufferState& tile = m.buffers[tile_.slot];
    int64_t offset = 0;
    for (int d = 0; d < tensor.rank; ++d) {
      const int64_t at = target.min[d] + (d == tensor.rank - 1 ? c : d == row_dimension_ ? r : 0);
      if (at < 0 || at >= tensor.shape[d]) return;
      offset += at * tensor.stride[d];
    }
    if (!CheckLaterRead(m, tile, place, !tile.beside.empty(), loc)) return;
    if (tensor.track_written) tensor.written[offset] = 1;
    if (tensor.real) {
      tensor.SetReal(offset, tile.Real(place));
    } else {
      tensor.SetInt(offset, tile.Int(place));
    }
  }

  Box tile_;
  const TileShape shape_;
  const int row_dimension_;
  Box target_;
  const int64_t part_;  // its number
};

class StoreWaitOf : public Action {
 public:
  StoreWaitOf(SourceLoc loc, size_t left, int64_t part) : Action(loc), left_(left), part_(part) {}
  Flow Run(Machine& m) const override {
    auto& stores = m.async->stores[part_];
    while (stores.size() > left_ && !m.failed()) {
      stores.front().perform();
      stores.pop_front();
    }
    return NextUnlessFailed(m);
  }

 private:
  const size_t left_;
  const int64_t part_;
};

}  // namespace

ActionPtr Compiler::MoveAction(const ir::Instruct& x) {
  const SourceLoc loc = x.loc;
  const auto box = [&](size_t i) { return MakeBox(x.regions[i], loc); };
  const auto count = [&] { return static_cast<size_t>(ir::ConstInt(x.args[0]).value_or(0)); };
  const auto value = [&] { return x.args.empty() ? nullptr : Expr(x.args[0], loc); };
  switch (x.op) {
    case ir::Instruction::kTensorLoad:
      return std::make_unique<TensorLoadOf>(
          loc, box(0), TileOf(x, 0), box(1), ir::RowDimension(x.regions[1]), box(2),
          NoteOf(x, "first_row"), Window(), NoteOf(x, ir::kMulticast));
    case ir::Instruction::kPatchLoad: {
      Window window = {NoteOf(x, "stride"),
                       {NoteOf(x, "low_h"), NoteOf(x, "low_w")},
                       {NoteOf(x, "high_h"), NoteOf(x, "high_w")},
                       {Expr(x.args[0], loc), Expr(x.args[1], loc)}};
      return std::make_unique<TensorLoadOf>(loc, box(0), TileOf(x, 0), box(1),
                                            ir::RowDimension(x.regions[1]), box(2),
                                            /*first_row=*/0, std::move(window));
    }
    case ir::Instruction::kAsyncCopy:
      return std::make_unique<AsyncCopyOf>(loc, box(0), box(1), value());
    case ir::Instruction::kAsyncCommit:
      return std::make_unique<AsyncCommitOf>(loc);
    case ir::Instruction::kAsyncWait:
      return std::make_unique<AsyncWaitOf>(loc, count());
    case ir::Instruction::kTensorStore:
      return std::make_unique<TensorStoreOf>(loc, box(0), TileOf(x, 0), box(1),
                                             ir::RowDimension(x.regions[1]), part_.number);
    case ir::Instruction::kStoreWait:
      return std::make_unique<StoreWaitOf>(loc, count(), part_.number);
    default:
      return nullptr;
  }
}

}  // namespace kiln::interp
