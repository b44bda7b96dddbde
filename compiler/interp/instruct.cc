// Instructions of a GPU (ir/instruct.h), by the PTX ISA: how tiles lie in shared memory is computed
// here from addresses, as the hardware does, and from nothing that the compiler believes of
// layouts.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/async.h"
#include "compiler/interp/cluster_run.h"
#include "compiler/interp/clusters.h"
#include "compiler/interp/compiler.h"
#include "compiler/interp/metadata.h"
#include "compiler/interp/parts.h"
#include "compiler/interp/tf32.h"
#include "compiler/interp/tile_shape.h"
#include "compiler/ir/sparse.h"

namespace kiln::interp {

Mbarrier* Async::Find(Machine& m, const BarrierKey& key, SourceLoc loc) {
  const auto found = barriers.find(key);
  if (found != barriers.end()) return &found->second;
  m.Fail(absl::StatusCode::kFailedPrecondition, loc, "a barrier that is not initialised",
         "initialise it before the parts of the block begin");
  return nullptr;
}

void Async::Arrive(Mbarrier* barrier, int64_t arrivals) {
  barrier->pending -= arrivals;
  Transfer(barrier, 0);
}

void Async::Transfer(Mbarrier* barrier, int64_t bytes) {
  barrier->bytes -= bytes;
  if (barrier->pending > 0 || barrier->bytes != 0) return;
  barrier->pending = barrier->count;
  ++barrier->phases;
}

void Async::Land(Machine& m, const BarrierKey& key, SourceLoc loc) {
  std::vector<Load> landing;
  std::vector<Load> flying;
  for (Load& load : loads) (load.barrier == key ? landing : flying).push_back(std::move(load));
  loads = std::move(flying);
  for (const Load& load : landing) {
    load.perform();
    if (Mbarrier* barrier = Find(m, key, loc)) Transfer(barrier, load.bytes);
  }
  for (auto& [rank, tensor] : tensors) EndProducts(m, &tensor, key, loc);
}

// Those that are committed to the barrier, and all before them, whose own arrivals may come later.
void Async::EndProducts(Machine& m, TensorMemory* tensor, const BarrierKey& key, SourceLoc loc) {
  const auto commits = [&](const TensorMemory::Step& step) { return step.commit == key; };
  auto& steps = tensor->steps;
  auto& arrivals = tensor->arrivals;
  if (std::none_of(arrivals.begin(), arrivals.end(), commits)) {
    const auto commit = std::find_if(steps.begin(), steps.end(), commits);
    if (commit == steps.end()) return;
    for (auto left = commit - steps.begin() + 1; left > 0; --left) {
      const TensorMemory::Step step = steps.front();
      steps.pop_front();
      if (step.product) step.product();
      if (step.commit) arrivals.push_back(step);
    }
  }
  arrivals.erase(std::find_if(arrivals.begin(), arrivals.end(), commits));
  if (Mbarrier* barrier = Find(m, key, loc)) Arrive(barrier, 1);
}

int64_t FirstElement(Machine& m, const Box& box) {
  const Place place = Locate(m, box);
  int64_t first = 0;
  for (int d = 0; d < place.buffer->rank; ++d) first += place.min[d] * place.buffer->stride[d];
  return first;
}

TileShape TileOf(const ir::Instruct& x, int operand) {
  const ir::Buffer& buffer = x.regions[operand].buffer;
  TileShape tile;
  tile.element = buffer->dtype.bytes();
  tile.swizzle = NoteOf(x, absl::StrCat("swizzle", operand));
  tile.height = NoteOf(x, absl::StrCat("height", operand));
  tile.columns = ir::ConstInt(buffer->shape.back()).value_or(0);
  tile.from_row = NoteOf(x, absl::StrCat("row", operand));
  tile.from_column = NoteOf(x, absl::StrCat("column", operand));
  tile.bands = NoteOf(x, absl::StrCat("bands", operand));
  return tile;
}

bool CheckSides(Machine& m, const TileShape& shape, int64_t columns, SourceLoc loc) {
  constexpr int64_t kMostSide = 256;
  const int64_t width = shape.swizzle == 0 ? columns : shape.swizzle / shape.element;
  const int64_t side = std::max(width, shape.bands);
  if (side <= kMostSide) return true;
  m.Fail(absl::StatusCode::kOutOfRange, loc,
         absl::StrCat("a box of TMA with a side of ", side, ", more than ", kMostSide),
         "move parts of the tile");
  return false;
}

bool CheckInside(Machine& m, const BufferState& tile, int64_t place, SourceLoc loc) {
  if (place >= 0 && place < tile.span) return true;
  m.Fail(absl::StatusCode::kOutOfRange, loc,
         absl::StrCat("element ", place, " of a tile of ", tile.span),
         "what an instruction knows of how a tile lies must be so");
  return false;
}

bool CheckFenced(Machine& m, const BufferState& tile, int64_t place, SourceLoc loc) {
  if (!CheckInside(m, tile, place, loc)) return false;
  if (!tile.written || (tile.written[place] & kUnfenced) == 0) return true;
  m.Fail(absl::StatusCode::kFailedPrecondition, loc,
         absl::StrCat("an asynchronous read of ", m.IndexText(tile, place),
                      ", which a thread stored without a proxy fence after it"),
         "fence, then meet, then read");
  return false;
}

namespace {

constexpr int64_t kWarp = 32;

class Nothing : public Action {
 public:
  using Action::Action;
  Flow Run(Machine&) const override { return Flow::kNext; }
};

class ProxyFenceOf : public Action {
 public:
  using Action::Action;
  Flow Run(Machine& m) const override {
    for (BufferState& b : m.buffers) {
      if (!b.written || b.wrote != kUnfenced) continue;
      for (int64_t i = 0; i < b.span; ++i) b.written[i] = b.written[i] != 0 ? kHasValue : 0;
    }
    return Flow::kNext;
  }
};

class BarrierOf : public Action {
 public:
  BarrierOf(SourceLoc loc, int64_t rank, TensorMemory::Threads who)
      : Action(loc), rank_(rank), who_(who) {}
  Flow Run(Machine& m) const override {
    if (m.options().meet_at_barriers) m.Barrier();
    m.async->tensors[rank_].Meet(who_);
    return Flow::kNext;
  }

 private:
  const int64_t rank_;
  const TensorMemory::Threads who_;
};

// Registers of other threads of the warp. What a thread has not written, the other does not get.
class ShuffleOf : public Action {
 public:
  ShuffleOf(SourceLoc loc, int to, int from, NodePtr mask)
      : Action(loc), to_(to), from_(from), mask_(std::move(mask)) {}
  Flow Run(Machine& m) const override {
    BufferState& to = m.buffers[to_];
    const BufferState& from = m.buffers[from_];
    const int64_t mask = mask_->Int(m);
    if (m.failed() || !m.Step(to.span, loc)) return Flow::kStop;
    for (int64_t thread = 0; thread < to.shape[0]; ++thread) {
      const int64_t other = thread ^ mask;
      if (other >= from.shape[0]) continue;
      for (int64_t slot = 0; slot < to.shape[1]; ++slot) {
        const int64_t source = other * from.stride[0] + slot;
        const int64_t target = thread * to.stride[0] + slot;
        if (to.track_written) to.written[target] = from.written[source];
        if (to.real) {
          to.SetReal(target, from.Real(source));
        } else {
          to.SetInt(target, from.Int(source));
        }
      }
    }
    return Flow::kNext;
  }

 private:
  const int to_, from_;
  NodePtr mask_;
};

// Instructions on one mbarrier.
class OnBarrier : public Action {
 public:
  OnBarrier(const ir::Instruct& x, Box barrier, NodePtr value, TensorMemory::Threads who)
      : Action(x.loc),
        op_(x.op),
        rank_(ClusterRank(x)),
        barrier_(std::move(barrier)),
        value_(std::move(value)),
        who_(who) {}
  Flow Run(Machine& m) const override {
    const Place place = Locate(m, barrier_);
    const int64_t value = value_ ? value_->Int(m) : 0;
    if (m.failed() || !m.Step(1, loc)) return Flow::kStop;
    if (place.buffer->node->blocks > 1) return RunOfCluster(m, place, value);
    Async& async = *m.async;
    if (op_ == ir::Instruction::kBarrierInit) {
      for (int64_t i = 0; i < place.extent[0]; ++i) {
        async.barriers[{barrier_.slot, place.min[0] + i}] = {value, value, 0, 0};
      }
      return Flow::kNext;
    }
    const BarrierKey key = {barrier_.slot, place.min[0]};
    Mbarrier* barrier = async.Find(m, key, loc);
    if (barrier == nullptr) return Flow::kStop;
    if (op_ == ir::Instruction::kBarrierWait) return Wait(m, m.async.get(), key, barrier, value);
    if (op_ == ir::Instruction::kBarrierExpect) barrier->bytes += value;
    if (op_ == ir::Instruction::kBarrierArrive) async.tensors[rank_].Tell(key);
    async.Arrive(barrier, op_ == ir::Instruction::kBarrierExpect ? 1 : who_.count / kWarp);
    return Flow::kNext;
  }

 private:
  // At a barrier of a block of the cluster.
  Flow RunOfCluster(Machine& m, const Place& place, int64_t value) const {
    const std::string name = absl::StrCat("'", place.buffer->node->name, "'");
    for (size_t d = 0; d < 2; ++d) {
      if (place.min[d] >= 0 && place.min[d] < place.buffer->shape[d]) continue;
      m.Fail(absl::StatusCode::kOutOfRange, loc,
             absl::StrCat("access outside ", name, ": index ", place.min[d], " of dimension ", d,
                          ", whose extent is ", place.buffer->shape[d]),
             "name a block of the cluster, and a barrier that it has");
      return Flow::kStop;
    }
    if (!m.cluster->Reach(m, place.min[0], name, loc)) return Flow::kStop;
    Async& async = m.cluster->barriers();
    const BarrierKey key = {barrier_.slot, place.min[0] * place.buffer->shape[1] + place.min[1]};
    if (op_ == ir::Instruction::kBarrierInit) {
      async.barriers[key] = {value, value, 0, 0};
      return Flow::kNext;
    }
    Mbarrier* barrier = async.Find(m, key, loc);
    if (barrier == nullptr) return Flow::kStop;
    if (op_ == ir::Instruction::kBarrierWait) {
      if (Wait(m, &async, key, barrier, value) == Flow::kStop) return Flow::kStop;
      m.cluster->Acquire(m, key);
      return Flow::kNext;
    }
    if (op_ == ir::Instruction::kBarrierExpect) {
      barrier->bytes += value;
      async.Arrive(barrier, 1);
      return Flow::kNext;
    }
    if (m.options().meet_at_barriers) m.Barrier();
    m.cluster->Release(m, key);
    async.Arrive(barrier, value);
    return Flow::kNext;
  }

  Flow Wait(Machine& m, Async* async, const BarrierKey& key, const Mbarrier* barrier,
            int64_t parity) const {
    const auto over = [&] {
      if (barrier->phases % 2 == parity) async->Land(m, key, loc);
      return barrier->phases % 2 != parity;
    };
    if (m.parts != nullptr) {
      if (!m.parts->WaitUntil(m, over, loc)) return Flow::kStop;
      m.async->tensors[rank_].Hear(key, who_);
      return Flow::kNext;
    }
    if (!over()) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             "deadlock: the block waits for a barrier that nobody will complete",
             "let the wait come after the arrivals");
    }
    m.async->tensors[rank_].Hear(key, who_);
    return NextUnlessFailed(m);
  }

  const ir::Instruction op_;
  const int64_t rank_;
  Box barrier_;
  NodePtr value_;
  const TensorMemory::Threads who_;
};

// All blocks of the cluster.
class MeetOf : public Action {
 public:
  MeetOf(SourceLoc loc, TensorMemory::Threads who) : Action(loc), who_(who) {}
  Flow Run(Machine& m) const override {
    if (m.options().meet_at_barriers) m.Barrier();
    m.async->tensors[0].Meet(who_);  // blocks that share memory go on by themselves
    m.cluster->Arrive(m);
    if (!m.parts->WaitUntil(
            m, [&] { return m.cluster->AllArrived(m); }, loc))
      return Flow::kStop;
    m.cluster->GoOn(m);
    return Flow::kNext;
  }

 private:
  const TensorMemory::Threads who_;
};

// A product of the warps (atom 16 rows) or warpgroups (atom 64 rows) of a part.
struct ProductShape {
  int64_t m, n, k, rows;  // of all of them; of their grid
  bool trans_a, trans_b;
  bool pairs;  // the order along k
  int64_t atom;
  int64_t first, parts;  // the first thread; how many warps or warpgroups
  int64_t part;          // of the block: its number

  int64_t threads() const { return 2 * atom; }  // of one of them
  int64_t own_m() const { return m / rows; }
  int64_t own_n() const { return n / (parts / rows); }
  // Who computes an element, and the registers of its fragments (PTX 9.7.14.5.8, 9.7.15.5.1.1).
  int64_t Group(int64_t row, int64_t column) const {
    return row / own_m() + column / own_n() * rows;
  }
  int64_t Thread(int64_t group, int64_t r, int64_t within_quad) const {
    return first + group * threads() + r % atom / 16 * kWarp + r % 8 * 4 + within_quad;
  }
  int64_t SumSlot(int64_t r, int64_t c) const {
    return r / atom * (own_n() / 2) + c / 8 * 4 + r % 16 / 8 * 2 + c % 2;
  }
  int64_t LeftThread(int64_t group, int64_t r, int64_t at, int64_t packed) const {
    return Thread(group, r, pairs ? at % 8 / 2 : at % (4 * packed) / packed);
  }
  int64_t LeftSlot(int64_t r, int64_t at, int64_t packed, bool sparse) const {
    if (pairs) return r / atom * (k / 2) + at / 8 * 4 + r % 16 / 8 * 2 + at % 2;
    const int64_t depth = 8 * packed, all = sparse ? k / 2 : k;
    return (r / atom * (all / depth) + at / depth) * 4 * packed +
           at % depth / (4 * packed) * 2 * packed + r % 16 / 8 * packed + at % packed;
  }
};

// An operand of a product: a tile, or registers.
struct Operand {
  int slot = 0;
  bool registers = false;
  TileShape tile;
  int64_t packed = 1;  // elements of a register
  Tf32 tf32 = Tf32::kNone;
};

// Where a sparse left operand's elements stand: a tile of their metadata.
struct Metadata {
  Operand tile;
  Box box;
  bool trans;
  DType element, stored;
};

double Element(const BufferState& b, int64_t place) {
  return b.real ? b.Real(place) : static_cast<double>(b.Int(place));
}

void SetElement(BufferState* b, int64_t place, double value) {
  if (b->real) {
    b->SetReal(place, value);
  } else {
    b->SetInt(place, static_cast<int64_t>(value));
  }
}

// Adds what a product left, and nothing where none did. Its sums can be read from here on.
class MmaRestOf : public Action {
 public:
  MmaRestOf(SourceLoc loc, int c, int64_t part) : Action(loc), c_(c), part_(part) {}
  Flow Run(Machine& m) const override {
    for (const auto& [place, value] : std::exchange(m.async->rests[{c_, part_}], {})) {
      BufferState& c = m.buffers[c_];
      SetElement(&c, place, Element(c, place) + value);
      if (c.track_written) c.written[place] = 1;
    }
    return Flow::kNext;
  }

 private:
  const int c_;
  const int64_t part_;
};

class ProductOf : public Action {
 public:
  // `lag`: so much of k is left for the next.
  ProductOf(SourceLoc loc, int c, Operand left, Box a, Operand right, Box b, NodePtr clear,
            ProductShape shape, bool later, int64_t lag, std::optional<Metadata> metadata)
      : Action(loc),
        c_(c),
        left_(left),
        right_(right),
        a_(std::move(a)),
        b_(std::move(b)),
        clear_(std::move(clear)),
        shape_(shape),
        later_(later),
        lag_(lag),
        metadata_(std::move(metadata)) {}
  Flow Run(Machine& m) const override {
    const int64_t a = left_.registers ? 0 : FirstElement(m, a_), b = FirstElement(m, b_);
    const int64_t e = metadata_ ? FirstElement(m, metadata_->box) : 0;
    const bool clear = clear_->Int(m) != 0;
    if (m.failed() || !m.Step(shape_.m * shape_.n * shape_.k / 64, loc)) return Flow::kStop;
    if (lag_ > 0) MmaRestOf(loc, c_, shape_.part).Run(m);
    if (!later_) {
      Multiply(m, a, b, e, clear);
      return NextUnlessFailed(m);
    }
    if (!AreFenced(m, a, b)) return Flow::kStop;
    BufferState& c = m.buffers[c_];
    if (c.track_written) {
      std::fill_n(&c.written[shape_.first * c.stride[0]],
                  shape_.parts * shape_.threads() * c.shape[1], uint8_t{0});
    }
    m.async->products[shape_.part].push_back(
        {c_, [this, &m, a, b, clear] { Multiply(m, a, b, 0, clear); }});
    return Flow::kNext;
  }

 private:
  void Multiply(Machine& m, int64_t a_first, int64_t b_first, int64_t e_first, bool clear) const {
    BufferState& c = m.buffers[c_];
    // What a warp reads, a thread of it reads, as far as others are concerned.
    const auto shares = [&](const Operand& x) { return !m.buffers[x.slot].beside.empty(); };
    const bool tracked = !later_ || shares(left_) || shares(right_);
    const bool threads = !m.levels.empty() && m.levels.back().units == Units::kThreads && tracked;
    const Level around = m.levels.empty() ? Level() : m.levels.back();
    auto& rests = m.async->rests[{c_, shape_.part}];
    for (int64_t row = 0; row < shape_.m; ++row) {
      for (int64_t column = 0; column < shape_.n; ++column) {
        const int64_t group = shape_.Group(row, column);
        const int64_t r = row % shape_.own_m(), n = column % shape_.own_n();
        if (threads) m.levels.back().unit = static_cast<uint32_t>(shape_.Thread(group, r, 0));
        double sum = 0, rest = 0;
        for (int64_t k = 0; k < shape_.k && !m.failed(); ++k) {
          const bool track = threads && n == 0;
          const double left = metadata_ ? Sparse(m, a_first, e_first, group, row, k, track)
                                        : Left(m, a_first, group, row, k, track);
          (k < shape_.k - lag_ ? sum : rest) +=
              left * Right(m, b_first, k, column, threads && r == 0);
        }
        if (threads) m.levels.back() = around;
        if (m.failed()) return;
        const int64_t place =
            shape_.Thread(group, r, n % 8 / 2) * c.stride[0] + shape_.SumSlot(r, n);
        if (c.track_written && !later_) c.written[place] = lag_ == 0 ? 1 : 0;
        SetElement(&c, place, (clear ? 0 : Element(c, place)) + sum);
        if (lag_ > 0) rests.emplace_back(place, rest);
      }
    }
  }

  bool AreFenced(Machine& m, int64_t a_first, int64_t b_first) const {
    const auto fenced = [&](const Operand& x, int64_t first, int64_t outer, bool rows_along_k) {
      for (int64_t i = 0; i < outer * shape_.k && !x.registers; ++i) {
        const int64_t at = i / shape_.k, k = i % shape_.k;
        const int64_t place = rows_along_k ? x.tile.At(first, k, at) : x.tile.At(first, at, k);
        if (!CheckFenced(m, m.buffers[x.slot], place, loc)) return false;
      }
      return true;
    };
    return fenced(left_, a_first, shape_.m, shape_.trans_a) &&
           fenced(right_, b_first, shape_.n, !shape_.trans_b);
  }

  double Left(Machine& m, int64_t first, int64_t group, int64_t row, int64_t k, bool track) const {
    BufferState& a = m.buffers[left_.slot];
    int64_t place = 0;
    if (left_.registers) {
      const int64_t r = row % shape_.own_m();
      place = shape_.LeftThread(group, r, k, left_.packed) * a.stride[0] +
              shape_.LeftSlot(r, k, left_.packed, metadata_.has_value());
    } else {
      place = shape_.trans_a ? left_.tile.At(first, k, row) : left_.tile.At(first, row, k);
    }
    if (!MayRead(m, a, place, track && !left_.registers)) return 0;
    return ToTf32(Element(a, place), left_.tf32);
  }

  // Element k of what the left operand is a sparse form of.
  double Sparse(Machine& m, int64_t first, int64_t e_first, int64_t group, int64_t row, int64_t k,
                bool track) const {
    const ir::SparseForm form = ir::SparseFormOf(metadata_->element);
    const int64_t of_row = k / form.group, bit = of_row * ir::kMetadataBits;
    const int64_t word = bit / metadata_->stored.bits;
    const TileShape& tile = metadata_->tile.tile;
    BufferState& e = m.buffers[metadata_->tile.slot];
    const int64_t at = metadata_->trans ? tile.At(e_first, word, row) : tile.At(e_first, row, word);
    if (!MayRead(m, e, at, track)) return 0;
    const int64_t bits = e.Int(at) >> bit % metadata_->stored.bits & 15;
    double element = 0;
    for (int64_t i = 0; i < form.kept; ++i) {
      const auto place = ir::PlaceInGroup(metadata_->element, bits, i);
      if (place && *place != k % form.group) continue;
      const double value = Left(m, first, group, row, of_row * form.kept + i, track);
      if (!place && (bits != 0 || value != 0)) {
        m.Fail(absl::StatusCode::kFailedPrecondition, loc,
               NoMetadataText(e.node->name, row, of_row, bits), kNoMetadataRemedy);
        return 0;
      }
      element = value;
    }
    return element;
  }

  double Right(Machine& m, int64_t first, int64_t k, int64_t column, bool track) const {
    BufferState& b = m.buffers[right_.slot];
    const int64_t place =
        shape_.trans_b ? right_.tile.At(first, column, k) : right_.tile.At(first, k, column);
    return MayRead(m, b, place, track) ? ToTf32(Element(b, place), right_.tf32) : 0;
  }

  // What is multiplied later, no thread reads.
  bool MayRead(Machine& m, BufferState& tile, int64_t place, bool track) const {
    if (!CheckInside(m, tile, place, loc)) return false;
    return later_ ? CheckLaterRead(m, tile, place, track, loc)
                  : CheckRead(m, tile, place, track, loc);
  }

  const int c_;
  const Operand left_, right_;
  Box a_, b_;
  NodePtr clear_;
  const ProductShape shape_;
  const bool later_;  // it ends when it is waited for
  const int64_t lag_;
  const std::optional<Metadata> metadata_;
};

// Products end in order; a result is there when no other is on its way to it.
class WgmmaWaitOf : public Action {
 public:
  WgmmaWaitOf(SourceLoc loc, size_t left, int64_t part, int64_t first, int64_t threads)
      : Action(loc), left_(left), part_(part), first_(first), threads_(threads) {}
  Flow Run(Machine& m) const override {
    auto& products = m.async->products[part_];
    while (products.size() > left_) {
      const Async::Product done = products.front();
      products.pop_front();
      done.perform();
      if (m.failed()) return Flow::kStop;
      const bool last =
          std::none_of(products.begin(), products.end(),
                       [&](const Async::Product& p) { return p.registers == done.registers; });
      BufferState& c = m.buffers[done.registers];
      if (!last || !c.track_written) continue;
      std::fill_n(&c.written[first_ * c.stride[0]], threads_ * c.shape[1], uint8_t{1});
    }
    return Flow::kNext;
  }

 private:
  const size_t left_;
  const int64_t part_, first_, threads_;
};

// Parts that follow each other in the program and wait for each other's barriers.
class PartsOf : public Action {
 public:
  PartsOf(SourceLoc loc, std::vector<ActionPtr> bodies) : Action(loc), bodies_(std::move(bodies)) {}
  Flow Run(Machine& m) const override {
    if (Parts::Run(m, bodies_) == Flow::kStop) return Flow::kStop;
    for (const auto& [part, stores] : m.async->stores) {
      if (stores.empty()) continue;
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             "stores from shared memory are still on their way when the parts of the block end",
             "wait for every store");
    }
    if (!m.async->loads.empty()) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             "loads into shared memory are still on their way when the parts of the block end",
             "wait for every load");
    }
    return NextUnlessFailed(m);
  }

 private:
  std::vector<ActionPtr> bodies_;
};

}  // namespace

ActionPtr Compiler::PartsAction(std::vector<ActionPtr> bodies, SourceLoc loc) {
  return std::make_unique<PartsOf>(loc, std::move(bodies));
}

ActionPtr Compiler::ProductAction(const ir::Instruct& x) {
  const int64_t atom = x.op == ir::Instruction::kWgmma ? 64 : 16;
  const ProductShape shape = {NoteOf(x, "m"),
                              NoteOf(x, "n"),
                              NoteOf(x, "k"),
                              NoteOf(x, "rows"),
                              NoteOf(x, "trans_a") != 0,
                              NoteOf(x, "trans_b") != 0,
                              NoteOf(x, "pairs") != 0,
                              atom,
                              part_.first,
                              part_.count / (2 * atom),
                              part_.number};
  const auto operand = [&](int i) {
    const ir::Buffer& buffer = x.regions[i].buffer;
    const Tf32 tf32 = buffer->dtype != kFloat32         ? Tf32::kNone
                      : x.op == ir::Instruction::kWgmma ? Tf32::kCut
                                                        : Tf32::kRounded;
    return Operand{SlotOf(buffer), buffer->scope == ir::Scope::kRegister, TileOf(x, i),
                   4 / buffer->dtype.bytes(), tf32};
  };
  std::optional<Metadata> metadata;
  if (x.op == ir::Instruction::kSparseMma) {
    const ir::Buffer& e = x.regions[3].buffer;
    metadata = {Operand{SlotOf(e), false, TileOf(x, 3)}, MakeBox(x.regions[3], x.loc),
                NoteOf(x, "trans_e") != 0, x.regions[1].buffer->dtype, e->dtype};
  }
  const int64_t lag = NoteOf(x, "lag") != 0 ? 32 / x.regions[1].buffer->dtype.bytes() : 0;
  return std::make_unique<ProductOf>(x.loc, SlotOf(x.regions[0].buffer), operand(1),
                                     MakeBox(x.regions[1], x.loc), operand(2),
                                     MakeBox(x.regions[2], x.loc), Expr(x.args[0], x.loc), shape,
                                     x.op == ir::Instruction::kWgmma, lag, std::move(metadata));
}

ActionPtr Compiler::InstructAction(const ir::Instruct& x) {
  const SourceLoc loc = x.loc;
  const auto box = [&](size_t i) { return MakeBox(x.regions[i], loc); };
  const auto count = [&] { return static_cast<size_t>(ir::ConstInt(x.args[0]).value_or(0)); };
  const TensorMemory::Threads who = {part_.first, part_.count};
  const auto value = [&] { return x.args.empty() ? nullptr : Expr(x.args[0], loc); };

  switch (x.op) {
    case ir::Instruction::kClusterBarrier:
      if (in_cluster_) return std::make_unique<MeetOf>(loc, who);
      Error(absl::UnimplementedError(
          "blocks of a cluster meet inside of a loop or a part: the interpreter joins them only "
          "at the top of a launch"));
      return std::make_unique<Nothing>(loc);
    case ir::Instruction::kBlockBarrier:
      return std::make_unique<BarrierOf>(loc, ClusterRank(x), who);
    case ir::Instruction::kProxyFence:
      return std::make_unique<ProxyFenceOf>(loc);
    case ir::Instruction::kMaxRegisters:
      return std::make_unique<Nothing>(loc);
    case ir::Instruction::kShuffleXor:
      return std::make_unique<ShuffleOf>(loc, SlotOf(x.regions[0].buffer),
                                         SlotOf(x.regions[1].buffer), value());
    case ir::Instruction::kShuffle:
    case ir::Instruction::kBallot:
    case ir::Instruction::kMatch:
      return ExchangeAction(x);
    case ir::Instruction::kBarrierInit:
    case ir::Instruction::kBarrierArrive:
    case ir::Instruction::kClusterArrive:
    case ir::Instruction::kBarrierExpect:
    case ir::Instruction::kBarrierWait:
      return std::make_unique<OnBarrier>(x, box(0), value(), who);
    case ir::Instruction::kTensorLoad:
    case ir::Instruction::kPatchLoad:
    case ir::Instruction::kAsyncCopy:
    case ir::Instruction::kAsyncCommit:
    case ir::Instruction::kAsyncWait:
    case ir::Instruction::kTensorStore:
    case ir::Instruction::kStoreWait:
      return MoveAction(x);
    case ir::Instruction::kMma:
    case ir::Instruction::kSparseMma:
    case ir::Instruction::kWgmma:
      return ProductAction(x);
    case ir::Instruction::kMmaRest:
      return std::make_unique<MmaRestOf>(loc, SlotOf(x.regions[0].buffer), part_.number);
    case ir::Instruction::kGlobalAdd:
      return GlobalAddAction(x);
    case ir::Instruction::kStoreMatrices:
      return StoreMatricesAction(x);
    case ir::Instruction::kTcgen05Alloc:
    case ir::Instruction::kTcgen05Free:
    case ir::Instruction::kTcgen05Fence:
    case ir::Instruction::kTcgen05Mma:
    case ir::Instruction::kTcgen05Commit:
    case ir::Instruction::kTcgen05Load:
    case ir::Instruction::kTcgen05Store:
    case ir::Instruction::kTcgen05Wait:
      return TensorMemoryAction(x);
    case ir::Instruction::kWgmmaWait:
      return std::make_unique<WgmmaWaitOf>(loc, count(), part_.number, part_.first, part_.count);
  }
  return nullptr;
}

}  // namespace kiln::interp
