// Copy, Fill, Reduce and Atomic as loops over rows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/compiler.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/shape.h"

namespace kiln::interp {
namespace {

using ir::BinaryOp;

// The iterations [low, high) of each dimension of a region that lie inside its buffer.
struct Window {
  std::array<int64_t, kMaxRank> low{}, high{};
};

Window WindowOf(const Place& p) {
  Window w;
  for (int d = 0; d < p.buffer->rank; ++d) {
    w.low[d] = std::clamp<int64_t>(-p.min[d], 0, p.extent[d]);
    w.high[d] = std::clamp<int64_t>(p.buffer->shape[d] - p.min[d], w.low[d], p.extent[d]);
  }
  return w;
}

int64_t Volume(const Place& p) {
  int64_t volume = 1;
  for (int d = 0; d < p.buffer->rank; ++d) {
    if (__builtin_mul_overflow(volume, p.extent[d], &volume)) return INT64_MAX;
  }
  return volume;
}

// False and a failure when a part of the region lies outside the buffer.
bool RequireInside(Machine& m, const Place& p, SourceLoc loc) {
  const Window w = WindowOf(p);
  for (int d = 0; d < p.buffer->rank; ++d) {
    if (w.low[d] == 0 && w.high[d] == p.extent[d]) continue;
    m.Fail(absl::StatusCode::kOutOfRange, loc,
           absl::StrCat("region outside '", p.buffer->node->name, "': [", p.min[d], ", ",
                        p.min[d] + p.extent[d], ") of dimension ", d, ", whose extent is ",
                        p.buffer->shape[d]),
           "make the region fit the buffer");
    return false;
  }
  return true;
}

// Calls row(index) for every combination of the iterations of all dimensions but the last, inside
// the window; stops when it returns false.
template <typename F>
bool ForRows(int rank, const Window& w, const F& row) {
  std::array<int64_t, kMaxRank> index = w.low;
  for (int d = 0; d < rank; ++d) {
    if (w.low[d] >= w.high[d]) return true;
  }
  while (true) {
    if (!row(index)) return false;
    int d = rank - 2;
    for (; d >= 0; --d) {
      if (++index[d] < w.high[d]) break;
      index[d] = w.low[d];
    }
    if (d < 0) return true;
  }
}

int64_t OffsetOf(const Place& p, const std::array<int64_t, kMaxRank>& index) {
  int64_t offset = 0;
  for (int d = 0; d < p.buffer->rank; ++d) offset += (p.min[d] + index[d]) * p.buffer->stride[d];
  return offset;
}

bool RequireEqual(Machine& m, int64_t a, int64_t b, const char* what, SourceLoc loc) {
  if (a == b) return true;
  m.Fail(absl::StatusCode::kFailedPrecondition, loc,
         absl::StrCat(what, " between regions of different shapes: extents ", a, " and ", b),
         "give both regions the same extents");
  return false;
}

// Source rows that match the rows of a destination region, with zeros for what is outside.
template <typename T>
class SourceRows {
 public:
  // pairs[d]: the dimension of the source that dimension d of the destination pairs with, or -1.
  SourceRows(const Place& src, const std::vector<int>& pairs) : src_(src), pairs_(pairs) {
    std::array<bool, kMaxRank> paired{};
    for (const int p : pairs) {
      if (p >= 0) paired[p] = true;
    }
    for (int d = 0; d < src.buffer->rank; ++d) {
      if (!paired[d]) all_outside_ |= src.min[d] < 0 || src.min[d] >= src.buffer->shape[d];
    }
    window_ = WindowOf(src);
  }

  // Elements [index[last], index[last]+n) of the row into out.
  bool Read(Machine& m, const std::array<int64_t, kMaxRank>& index, int rank, int64_t n, bool track,
            SourceLoc loc, T* out) const {
    std::array<int64_t, kMaxRank> at{};
    bool outside = all_outside_;
    for (int d = 0; d + 1 < rank; ++d) {
      const int p = pairs_[d];
      if (p < 0) continue;
      at[p] = index[d];
      outside |= index[d] < window_.low[p] || index[d] >= window_.high[p];
    }
    const int last = rank > 0 ? pairs_[rank - 1] : -1;
    const int64_t first = rank > 0 ? index[rank - 1] : 0;
    int64_t low = 0, high = outside ? 0 : n;
    int64_t step = 0;
    if (last >= 0 && !outside) {
      low = std::clamp<int64_t>(window_.low[last] - first, 0, n);
      high = std::clamp<int64_t>(window_.high[last] - first, low, n);
      at[last] = first + low;
      step = src_.buffer->stride[last];
    }
    std::fill(out, out + low, T{0});
    std::fill(out + high, out + n, T{0});
    if (low >= high) return true;
    return ReadRow(m, *src_.buffer, OffsetOf(src_, at), step, high - low, track, loc, out + low);
  }

 private:
  const Place& src_;
  const std::vector<int>& pairs_;
  Window window_;
  bool all_outside_ = false;
};

bool CheckPairs(Machine& m, const Place& dst, const Place& src, const std::vector<int>& pairs,
                const char* what, SourceLoc loc) {
  for (int d = 0; d < dst.buffer->rank; ++d) {
    if (pairs[d] >= 0 && !RequireEqual(m, dst.extent[d], src.extent[pairs[d]], what, loc)) {
      return false;
    }
  }
  return !m.failed();
}

// dst = src, or dst op= src, element by element.
template <typename T>
class TransferOf : public Action {
 public:
  TransferOf(SourceLoc loc, Box src, Box dst, std::vector<int> pairs, const ir::AtomicOp* op)
      : Action(loc),
        src_(std::move(src)),
        dst_(std::move(dst)),
        pairs_(std::move(pairs)),
        atomic_(op != nullptr),
        op_(op ? *op : ir::AtomicOp::kAdd) {}

  Flow Run(Machine& m) const override {
    const Place src = Locate(m, src_), dst = Locate(m, dst_);
    const char* what = atomic_ ? "atomic" : "copy";
    if (!CheckPairs(m, dst, src, pairs_, what, loc)) return Flow::kStop;
    if (!m.Step(Volume(dst), loc)) return Flow::kStop;
    const Window window = WindowOf(dst);
    const int rank = dst.buffer->rank;
    const int64_t n = rank > 0 ? window.high[rank - 1] - window.low[rank - 1] : 1;
    const int64_t step = rank > 0 ? dst.buffer->stride[rank - 1] : 1;
    std::vector<T> row(static_cast<size_t>(std::max<int64_t>(n, 1)));
    const SourceRows<T> source(src, pairs_);
    const bool ok = ForRows(rank, window, [&](const std::array<int64_t, kMaxRank>& index) {
      if (!source.Read(m, index, rank, n, src_.track, loc, row.data())) return false;
      const int64_t offset = OffsetOf(dst, index);
      if (atomic_) return Update(m, *dst.buffer, offset, step, n, row.data());
      return WriteRow(m, *dst.buffer, offset, step, n, row.data(), dst_.track, loc);
    });
    return ok ? NextUnlessFailed(m) : Flow::kStop;
  }

 private:
  bool Update(Machine& m, BufferState& b, int64_t offset, int64_t step, int64_t n,
              const T* values) const;

  Box src_, dst_;
  std::vector<int> pairs_;
  const bool atomic_;
  const ir::AtomicOp op_;
};

BinaryOp OperatorOf(ir::AtomicOp op) {
  switch (op) {
    case ir::AtomicOp::kAdd:
      return BinaryOp::kAdd;
    case ir::AtomicOp::kMax:
      return BinaryOp::kMax;
    case ir::AtomicOp::kMin:
      return BinaryOp::kMin;
    case ir::AtomicOp::kAnd:
      return BinaryOp::kBitAnd;
    case ir::AtomicOp::kOr:
      return BinaryOp::kBitOr;
    case ir::AtomicOp::kXor:
      return BinaryOp::kBitXor;
    case ir::AtomicOp::kStore:
    case ir::AtomicOp::kLoad:
      break;
  }
  return BinaryOp::kAdd;
}

// b[offset] op= value.
template <typename T>
bool UpdateOne(Machine& m, BufferState& b, int64_t offset, ir::AtomicOp op, T value, bool track,
               SourceLoc loc) {
  if (b.written && !b.written[offset] && op != ir::AtomicOp::kStore) {
    m.FailUnwritten(b, offset, loc);
    return false;
  }
  if (track && b.depth < m.levels.size() && !m.Track(&b, offset, Touch::kAtomic, true, loc))
    return false;
  if (op == ir::AtomicOp::kLoad) return true;
  if (op == ir::AtomicOp::kStore) {
    if constexpr (std::is_same_v<T, double>) return WriteReal(m, b, offset, value, false, loc);
    return WriteInt(m, b, offset, static_cast<int64_t>(value), false, loc);
  }
  if (b.real) {
    b.SetReal(offset, *ir::EvalFloat(OperatorOf(op), b.Real(offset), static_cast<double>(value)));
    return true;
  }
  int64_t whole;
  if constexpr (std::is_same_v<T, double>) {
    whole = ir::FloatToInt(value, b.dtype);
  } else {
    whole = ir::WrapInt(value, b.dtype);
  }
  b.SetInt(offset, *ir::EvalInt(OperatorOf(op), b.Int(offset), whole, b.dtype));
  return true;
}

template <typename T>
bool TransferOf<T>::Update(Machine& m, BufferState& b, int64_t offset, int64_t step, int64_t n,
                           const T* values) const {
  for (int64_t i = 0; i < n; ++i) {
    if (!UpdateOne(m, b, offset + i * step, op_, values[i], dst_.track, loc)) return false;
  }
  return true;
}

class AtomicElementOf : public Action {
 public:
  AtomicElementOf(SourceLoc loc, Access access, ir::AtomicOp op, NodePtr value, bool real)
      : Action(loc), access_(std::move(access)), op_(op), value_(std::move(value)), real_(real) {}
  // What was there before goes to the element of another buffer.
  void TellPrevious(Access to) {
    previous_ = std::move(to);
    tells_ = true;
  }
  Flow Run(Machine& m) const override {
    int64_t offset;
    if (!access_.Resolve(m, &offset)) return NextUnlessFailed(m);
    BufferState& b = m.buffers[access_.slot];
    if (real_) {
      const double value = value_->Real(m);
      if (!m.failed()) Update(m, b, offset, value);
    } else {
      const int64_t value = value_->Int(m);
      if (!m.failed()) Update(m, b, offset, value);
    }
    return NextUnlessFailed(m);
  }

 private:
  template <typename T>
  void Update(Machine& m, BufferState& b, int64_t offset, T value) const {
    const double real = tells_ && b.real ? b.Real(offset) : 0;
    const int64_t whole = tells_ && !b.real ? b.Int(offset) : 0;
    int64_t to;
    if (!UpdateOne(m, b, offset, op_, value, access_.track, loc)) return;
    if (!tells_ || !previous_.Resolve(m, &to)) return;
    BufferState& p = m.buffers[previous_.slot];
    if (b.real) {
      WriteReal(m, p, to, real, previous_.track, loc);
    } else {
      WriteInt(m, p, to, whole, previous_.track, loc);
    }
  }

  Access access_;
  Access previous_;
  bool tells_ = false;
  const ir::AtomicOp op_;
  NodePtr value_;
  const bool real_;
};

// Additions to neighbours, each of which is atomic by itself.
class GlobalAddOf : public Action {
 public:
  GlobalAddOf(SourceLoc loc, Access first, std::vector<ActionPtr> adds)
      : Action(loc), first_(std::move(first)), adds_(std::move(adds)) {}
  Flow Run(Machine& m) const override {
    int64_t offset;
    if (!first_.Resolve(m, &offset)) return NextUnlessFailed(m);
    if (offset % static_cast<int64_t>(adds_.size()) != 0) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             absl::StrCat("an addition to ", adds_.size(), " neighbours from element ", offset,
                          ", which is no multiple of them"),
             "add to fewer at a time");
      return Flow::kStop;
    }
    for (const ActionPtr& add : adds_) {
      if (add->Run(m) == Flow::kStop) return Flow::kStop;
    }
    return NextUnlessFailed(m);
  }

 private:
  Access first_;
  std::vector<ActionPtr> adds_;
};

template <typename T>
class FillOf : public Action {
 public:
  FillOf(SourceLoc loc, Box dst, NodePtr value, bool clip)
      : Action(loc), dst_(std::move(dst)), value_(std::move(value)), clip_(clip) {}
  Flow Run(Machine& m) const override {
    const Place dst = Locate(m, dst_);
    const T value = Value<T>(*value_, m);
    if (m.failed() || !m.Step(Volume(dst), loc)) return Flow::kStop;
    if (!clip_ && !RequireInside(m, dst, loc)) return Flow::kStop;
    const Window window = WindowOf(dst);
    const int rank = dst.buffer->rank;
    const int64_t n = rank > 0 ? window.high[rank - 1] - window.low[rank - 1] : 1;
    const int64_t step = rank > 0 ? dst.buffer->stride[rank - 1] : 1;
    const std::vector<T> row(static_cast<size_t>(std::max<int64_t>(n, 1)), value);
    ForRows(rank, window, [&](const std::array<int64_t, kMaxRank>& index) {
      return WriteRow(m, *dst.buffer, OffsetOf(dst, index), step, n, row.data(), dst_.track, loc);
    });
    return NextUnlessFailed(m);
  }

 private:
  Box dst_;
  NodePtr value_;
  const bool clip_;
};

template <typename T>
class ReduceOf : public Action {
 public:
  ReduceOf(SourceLoc loc, Box src, Box dst, std::vector<int> pairs, const ir::Reduce& reduce)
      : Action(loc),
        src_(std::move(src)),
        dst_(std::move(dst)),
        pairs_(std::move(pairs)),
        op_(reduce.op),
        dim_(reduce.dim),
        clear_(reduce.clear),
        type_(reduce.src.buffer->dtype) {}

  Flow Run(Machine& m) const override {
    const Place src = Locate(m, src_), dst = Locate(m, dst_);
    if (!CheckPairs(m, dst, src, pairs_, "reduce", loc)) return Flow::kStop;
    if (!m.Step(Volume(src), loc)) return Flow::kStop;
    if (!RequireInside(m, src, loc) || !RequireInside(m, dst, loc)) return Flow::kStop;
    const int rank = dst.buffer->rank;
    const Window window = WindowOf(dst);
    std::vector<T> line(static_cast<size_t>(std::max<int64_t>(src.extent[dim_], 1)));
    ForRows(rank, window, [&](std::array<int64_t, kMaxRank> index) {
      const int64_t n = rank > 0 ? dst.extent[rank - 1] : 1;
      for (int64_t i = 0; i < n; ++i) {
        if (rank > 0) index[rank - 1] = i;
        if (!Element(m, src, dst, index, rank, &line)) return false;
      }
      return true;
    });
    return NextUnlessFailed(m);
  }

 private:
  bool Element(Machine& m, const Place& src, const Place& dst,
               const std::array<int64_t, kMaxRank>& index, int rank, std::vector<T>* line) const {
    std::array<int64_t, kMaxRank> at{};
    for (int d = 0; d < rank; ++d) {
      if (pairs_[d] >= 0) at[pairs_[d]] = index[d];
    }
    const int64_t n = src.extent[dim_];
    if (!ReadRow(m, *src.buffer, OffsetOf(src, at), src.buffer->stride[dim_], n, src_.track, loc,
                 line->data())) {
      return false;
    }
    T total = Identity();
    if (op_ == ir::ReduceOp::kSum) {
      for (int64_t i = 0; i < n; ++i) total += (*line)[i];
    } else {
      for (int64_t i = 0; i < n; ++i) total = Join(total, (*line)[i]);
    }
    const int64_t offset = OffsetOf(dst, index);
    if (!clear_) {
      T before;
      if (!ReadRow(m, *dst.buffer, offset, 0, 1, dst_.track, loc, &before)) return false;
      total = op_ == ir::ReduceOp::kSum || op_ == ir::ReduceOp::kAbsSum ? before + total
                                                                        : Join(before, total);
    }
    return WriteRow(m, *dst.buffer, offset, 0, 1, &total, dst_.track, loc);
  }

  bool Unsigned64() const { return type_.bits == 64 && type_.is_uint(); }
  T Lowest() const {
    if constexpr (std::is_same_v<T, double>) return -HUGE_VAL;
    return Unsigned64() ? 0 : std::numeric_limits<T>::min();
  }
  T Highest() const {
    if constexpr (std::is_same_v<T, double>) return HUGE_VAL;
    return Unsigned64() ? static_cast<T>(-1) : std::numeric_limits<T>::max();
  }
  T Identity() const {
    switch (op_) {
      case ir::ReduceOp::kMax:
        return Lowest();
      case ir::ReduceOp::kMin:
        return Highest();
      case ir::ReduceOp::kBitAnd:
        return static_cast<T>(-1);
      default:
        return T{0};
    }
  }
  T Join(T a, T b) const {
    switch (op_) {
      case ir::ReduceOp::kSum:
        return a + b;
      case ir::ReduceOp::kAbsSum:
        return a + Magnitude(b);
      case ir::ReduceOp::kMax:
        return Greater(a, b);
      case ir::ReduceOp::kAbsMax:
        return Greater(a, Magnitude(b));
      case ir::ReduceOp::kMin:
        return Pick(BinaryOp::kMin, a, b);
      case ir::ReduceOp::kBitAnd:
        return static_cast<T>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
      case ir::ReduceOp::kBitOr:
        return static_cast<T>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
      case ir::ReduceOp::kBitXor:
        return static_cast<T>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
    }
    return a;
  }
  T Greater(T a, T b) const { return Pick(BinaryOp::kMax, a, b); }
  T Pick(BinaryOp op, T a, T b) const {
    if constexpr (std::is_same_v<T, double>) return *ir::EvalFloat(op, a, b);
    return *ir::EvalInt(op, a, b, Unsigned64() ? type_ : kInt64);
  }
  T Magnitude(T a) const {
    if constexpr (std::is_same_v<T, double>) return std::fabs(a);
    return Unsigned64() ? a : std::abs(a);
  }

  Box src_, dst_;
  std::vector<int> pairs_;
  const ir::ReduceOp op_;
  const int dim_;
  const bool clear_;
  const DType type_;  // of the source
};

template <typename T>
class ScanOf : public Action {
 public:
  ScanOf(SourceLoc loc, Box src, Box dst, const ir::Scan& scan)
      : Action(loc),
        src_(std::move(src)),
        dst_(std::move(dst)),
        op_(scan.op),
        dim_(scan.dim),
        reverse_(scan.reverse),
        unsigned64_(scan.src.buffer->dtype.bits == 64 && scan.src.buffer->dtype.is_uint()) {}

  Flow Run(Machine& m) const override {
    Place src = Locate(m, src_), dst = Locate(m, dst_);
    const int rank = src.buffer->rank;
    for (int d = 0; d < rank; ++d) {
      if (!RequireEqual(m, dst.extent[d], src.extent[d], "scan", loc)) return Flow::kStop;
    }
    if (!m.Step(Volume(src), loc)) return Flow::kStop;
    if (!RequireInside(m, src, loc) || !RequireInside(m, dst, loc)) return Flow::kStop;
    const int64_t n = src.extent[dim_];
    std::vector<T> line(static_cast<size_t>(std::max<int64_t>(n, 1)));
    Window window;  // the first elements of all rows
    for (int d = 0; d < rank; ++d)
      window.high[d] = d == dim_ ? std::min<int64_t>(n, 1) : src.extent[d];
    const int64_t last = rank - 1 == dim_ ? 1 : src.extent[rank - 1];
    ForRows(rank, window, [&](std::array<int64_t, kMaxRank> index) {
      for (int64_t i = 0; i < last; ++i) {
        index[rank - 1] = i;
        if (!ReadRow(m, *src.buffer, OffsetOf(src, index), src.buffer->stride[dim_], n, src_.track,
                     loc, line.data())) {
          return false;
        }
        if (reverse_) std::reverse(line.begin(), line.begin() + n);
        if (n > 0) line[0] = Join(First(), line[0]);
        for (int64_t k = 1; k < n; ++k) line[k] = Join(line[k - 1], line[k]);
        if (reverse_) std::reverse(line.begin(), line.begin() + n);
        if (!WriteRow(m, *dst.buffer, OffsetOf(dst, index), dst.buffer->stride[dim_], n,
                      line.data(), dst_.track, loc)) {
          return false;
        }
      }
      return true;
    });
    return NextUnlessFailed(m);
  }

 private:
  // What leaves every number as it is, and stands for NaN where there is no number yet.
  T First() const {
    if constexpr (std::is_same_v<T, double>) {
      if (op_ != ir::ReduceOp::kSum) return op_ == ir::ReduceOp::kMax ? -HUGE_VAL : HUGE_VAL;
    } else if (op_ != ir::ReduceOp::kSum) {
      const bool least = op_ == ir::ReduceOp::kMax;
      if (unsigned64_) return least ? T{0} : static_cast<T>(-1);
      return least ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    }
    return T{0};
  }
  T Join(T a, T b) const {
    const BinaryOp op = op_ == ir::ReduceOp::kSum   ? BinaryOp::kAdd
                        : op_ == ir::ReduceOp::kMax ? BinaryOp::kMax
                                                    : BinaryOp::kMin;
    if constexpr (std::is_same_v<T, double>) return *ir::EvalFloat(op, a, b);
    return *ir::EvalInt(op, a, b, unsigned64_ ? kUInt64 : kInt64);
  }

  Box src_, dst_;
  const ir::ReduceOp op_;
  const int dim_;
  const bool reverse_, unsigned64_;
};

bool AnyReal(const ir::Region& a, const ir::Region& b) {
  return IsReal(a.buffer->dtype) || IsReal(b.buffer->dtype);
}

}  // namespace

ActionPtr Compiler::CopyAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Copy>();
  std::vector<int> pairs = *ir::PairDims(x->dst, x->src);
  Box src = MakeBox(x->src, s->loc), dst = MakeBox(x->dst, s->loc);
  if (AnyReal(x->src, x->dst)) {
    return std::make_unique<TransferOf<double>>(s->loc, std::move(src), std::move(dst),
                                                std::move(pairs), nullptr);
  }
  return std::make_unique<TransferOf<int64_t>>(s->loc, std::move(src), std::move(dst),
                                               std::move(pairs), nullptr);
}

ActionPtr Compiler::FillAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Fill>();
  const bool clip = options_.clip_global && x->dst.buffer->scope == ir::Scope::kGlobal;
  Box dst = MakeBox(x->dst, s->loc);
  NodePtr value = Expr(x->value, s->loc);
  if (IsReal(x->dst.buffer->dtype)) {
    return std::make_unique<FillOf<double>>(s->loc, std::move(dst), std::move(value), clip);
  }
  return std::make_unique<FillOf<int64_t>>(s->loc, std::move(dst), std::move(value), clip);
}

ActionPtr Compiler::ReduceAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Reduce>();
  std::vector<int> pairs = *ir::ReduceDims(x->src, x->dst, x->dim);
  Box src = MakeBox(x->src, s->loc), dst = MakeBox(x->dst, s->loc);
  if (AnyReal(x->src, x->dst)) {
    return std::make_unique<ReduceOf<double>>(s->loc, std::move(src), std::move(dst),
                                              std::move(pairs), *x);
  }
  return std::make_unique<ReduceOf<int64_t>>(s->loc, std::move(src), std::move(dst),
                                             std::move(pairs), *x);
}

ActionPtr Compiler::ScanAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Scan>();
  Box src = MakeBox(x->src, s->loc), dst = MakeBox(x->dst, s->loc);
  if (AnyReal(x->src, x->dst)) {
    return std::make_unique<ScanOf<double>>(s->loc, std::move(src), std::move(dst), *x);
  }
  return std::make_unique<ScanOf<int64_t>>(s->loc, std::move(src), std::move(dst), *x);
}

ActionPtr Compiler::AtomicAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Atomic>();
  if (x->value.defined()) {
    std::vector<ir::Expr> indices;
    for (const ir::Range& range : x->dst.ranges) indices.push_back(range.min);
    auto action =
        std::make_unique<AtomicElementOf>(s->loc, MakeAccess(x->dst.buffer, indices, {}, s->loc),
                                          x->op, Expr(x->value, s->loc), IsReal(x->value.dtype()));
    if (x->way.previous) {
      action->TellPrevious(MakeAccess(x->way.previous, {ir::MakeInt(0)}, {}, s->loc));
    }
    return action;
  }
  std::vector<int> pairs = *ir::PairDims(x->dst, x->src);
  Box src = MakeBox(x->src, s->loc), dst = MakeBox(x->dst, s->loc);
  if (AnyReal(x->src, x->dst)) {
    return std::make_unique<TransferOf<double>>(s->loc, std::move(src), std::move(dst),
                                                std::move(pairs), &x->op);
  }
  return std::make_unique<TransferOf<int64_t>>(s->loc, std::move(src), std::move(dst),
                                               std::move(pairs), &x->op);
}

ActionPtr Compiler::GlobalAddAction(const ir::Instruct& x) {
  const ir::Region& to = x.regions[0];
  const auto access = [&](size_t lane) {
    std::vector<ir::Expr> indices;
    for (const ir::Range& range : to.ranges) indices.push_back(range.min);
    indices.back() = indices.back() + ir::MakeInt(static_cast<int64_t>(lane));
    return MakeAccess(to.buffer, indices, {}, x.loc);
  };
  std::vector<ActionPtr> adds;
  for (size_t lane = 0; lane < x.args.size(); ++lane) {
    adds.push_back(std::make_unique<AtomicElementOf>(x.loc, access(lane), ir::AtomicOp::kAdd,
                                                     Expr(x.args[lane], x.loc),
                                                     IsReal(x.args[lane].dtype())));
  }
  return std::make_unique<GlobalAddOf>(x.loc, access(0), std::move(adds));
}

}  // namespace kiln::interp
