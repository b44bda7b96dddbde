#include "compiler/ir/sum_types.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

using Node = const void*;  // a buffer or a variable
using Nodes = std::unordered_set<Node>;

constexpr int64_t kMost = int64_t{1} << 40;
// Products round a sum less often than it has terms. Single additions round it for every term, the
// kernel's and those that it is compared with alike: they count as what errs twice as much.
constexpr int64_t kEachAddition = 4;

struct Accumulator {
  Node buffer;
  DType type;
  int64_t roundings;  // 0 = not known
};

struct Loop {
  const Stmt* body;
  std::vector<Axis> axes;
  bool ordered;     // iterations come one after the other
  bool open_ended;  // a While
};

bool IsCoarse(DType type) { return type.is_float() && EpsilonOf(type) > EpsilonOf(kFloat32); }

// 0 where either is not known.
int64_t Times(int64_t a, int64_t b) {
  if (a <= 0 || b <= 0) return 0;
  return a > kMost / b ? kMost : a * b;
}

int64_t Trips(const std::vector<Axis>& axes) {
  int64_t all = 1;
  for (const Axis& axis : axes) all = Times(all, ConstInt(axis.extent).value_or(0));
  return all;
}

int64_t Elements(const Region& region) {
  int64_t all = 1;
  for (const Range& range : region.ranges) all = Times(all, ConstInt(range.extent).value_or(0));
  return all;
}

bool IsWhole(const Region& region) {
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const auto extent = ConstInt(region.ranges[d].extent);
    if (!IsConst(region.ranges[d].min, 0) || !extent.has_value()) return false;
    if (extent != ConstInt(region.buffer->shape[d])) return false;
  }
  return true;
}

// Whether each run of `s` begins the sums of `buffer` anew.
bool Resets(const Stmt& s, Node buffer) {
  if (const auto* seq = s.As<Seq>()) {
    return std::any_of(seq->stmts.begin(), seq->stmts.end(),
                       [&](const Stmt& child) { return Resets(child, buffer); });
  }
  if (const auto* alloc = s.As<Alloc>()) return alloc->buffer.get() == buffer;
  const auto* fill = s.As<Fill>();
  return fill != nullptr && fill->dst.buffer.get() == buffer && IsWhole(fill->dst);
}

bool Adds(const Expr& e) {
  bool found = false;
  Walk(e, [&](const Expr& x) {
    const auto* binary = x.As<Binary>();
    const auto* call = x.As<Call>();
    found |= binary != nullptr && x->dtype.is_float() &&
             (binary->op == BinaryOp::kAdd || binary->op == BinaryOp::kSub);
    found |= call != nullptr && call->op == Intrinsic::kFma;
    return !found;
  });
  return found;
}

class Finder {
 public:
  explicit Finder(const Program& program) {
    Visit(program.body);
    for (const auto& [store, loops] : stores_) AddStore(*store, loops);
  }

  std::optional<CoarseSums> Behind(const Buffer& buffer) const {
    const Nodes behind = Reach({buffer.get()});
    CoarseSums found;
    double coarsest = 0, squares = 0;
    bool known = true;
    for (const Accumulator& sums : accumulators_) {
      if (behind.count(sums.buffer) == 0) continue;
      const double eps = EpsilonOf(sums.type);
      if (eps > coarsest) found.type = sums.type;
      coarsest = std::max(coarsest, eps);
      squares += eps * eps * static_cast<double>(sums.roundings);
      known = known && sums.roundings > 0;
    }
    if (coarsest == 0) return std::nullopt;
    if (known) found.roundings = static_cast<int64_t>(std::ceil(squares / (coarsest * coarsest)));
    return found;
  }

 private:
  // With what they are made of.
  Nodes Reach(std::vector<Node> from) const {
    Nodes reached(from.begin(), from.end());
    while (!from.empty()) {
      const auto made_of = made_of_.find(from.back());
      from.pop_back();
      if (made_of == made_of_.end()) continue;
      for (const Node node : made_of->second) {
        if (reached.insert(node).second) from.push_back(node);
      }
    }
    return reached;
  }

  void Collect(const Expr& e, Nodes* nodes) {
    Walk(e, [&](const Expr& x) {
      if (const auto* load = x.As<Load>()) {
        nodes->insert(load->buffer.get());
        loaded_.insert(load->buffer.get());
      }
      if (x.kind() == ExprKind::kVar) nodes->insert(x.get());
      return true;
    });
  }

  void Visit(const Stmt& s) {
    if (!s.defined()) return;
    if (const auto* seq = s.As<Seq>()) {
      for (const Stmt& child : seq->stmts) Visit(child);
    } else if (const auto* loop = s.As<For>()) {
      Inside({&loop->body, loop->axes, loop->loop != ForKind::kParallel, false}, {});
    } else if (const auto* loop = s.As<While>()) {
      Inside({&loop->body, {}, true, true}, {loop->condition});
    } else if (const auto* launch = s.As<Launch>()) {
      Inside({&launch->body, launch->grid, false, false}, {});
    } else if (const auto* part = s.As<OnThreads>()) {
      Visit(part->body);
    } else if (const auto* branch = s.As<If>()) {
      const Nodes before = conditions_;
      Collect(branch->condition, &conditions_);
      Visit(branch->then_case);
      Visit(branch->else_case);
      conditions_ = before;
    } else if (const auto* bind = s.As<Bind>()) {
      Collect(bind->value, &made_of_[bind->var.get()]);
    } else {
      Leaf(s);
    }
  }

  void Inside(const Loop& loop, const std::vector<Expr>& conditions) {
    const Nodes before = conditions_;
    for (const Expr& condition : conditions) Collect(condition, &conditions_);
    for (const Axis& axis : loop.axes) {
      Nodes& made_of = made_of_[axis.var.get()];
      Collect(axis.min, &made_of);
      Collect(axis.extent, &made_of);
      Collect(axis.extent, &conditions_);
    }
    loops_.push_back(loop);
    Visit(*loop.body);
    loops_.pop_back();
    conditions_ = before;
  }

  void Leaf(const Stmt& s) {
    Nodes read = conditions_;
    for (const Buffer& buffer : BuffersRead(s)) read.insert(buffer.get());
    Walk(s, StmtCallback([](const Stmt&) { return true; }), [&](const Expr& x) {
      if (x.kind() == ExprKind::kVar) read.insert(x.get());
      return true;
    });
    std::vector<Buffer> written = BuffersWritten(s);
    if (const auto* own = s.As<Instruct>()) {  // which of them it writes is its own affair
      for (const Region& region : own->regions) {
        read.insert(region.buffer.get());
        written.push_back(region.buffer);
      }
    }
    for (const Buffer& buffer : written) made_of_[buffer.get()].insert(read.begin(), read.end());
    if (const auto* gemm = s.As<Gemm>()) AddGemm(*gemm);
    if (const auto* reduce = s.As<Reduce>()) AddReduce(*reduce);
    if (const auto* atomic = s.As<Atomic>()) AddAtomic(*atomic);
    if (const auto* store = s.As<Store>(); store && IsCoarse(store->buffer->dtype)) {
      stores_.emplace_back(store, loops_);
    }
  }

  // How often the loops around come back to `buffer` before its sums begin anew.
  int64_t Repeated(Node buffer) const {
    int64_t times = 1;
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
      if (Resets(*loop->body, buffer)) break;
      if (loop->ordered) times = Times(times, loop->open_ended ? 0 : Trips(loop->axes));
    }
    return times;
  }

  void AddGemm(const Gemm& gemm) {
    const DType type = gemm.c.buffer->dtype;
    if (!IsCoarse(type)) return;
    const Range& depth = gemm.a.ranges[gemm.a.ranges.size() - (gemm.trans_a ? 2 : 1)];
    const bool anew = IsConst(gemm.clear_accum, 1);
    const int64_t terms = Times(ConstInt(depth.extent).value_or(0), gemm.sparse() ? 2 : 1);
    const Node sums = gemm.c.buffer.get();
    accumulators_.push_back({sums, type, Times(terms, anew ? 1 : Repeated(sums))});
  }

  void AddReduce(const Reduce& reduce) {
    const DType type = reduce.dst.buffer->dtype;
    if (!IsCoarse(type) || (reduce.op != ReduceOp::kSum && reduce.op != ReduceOp::kAbsSum)) return;
    const int64_t terms =
        ConstInt(reduce.src.ranges[static_cast<size_t>(reduce.dim)].extent).value_or(0);
    const Node sums = reduce.dst.buffer.get();
    accumulators_.push_back(
        {sums, type, Times(kEachAddition * terms, reduce.clear ? 1 : Repeated(sums))});
  }

  void AddAtomic(const Atomic& atomic) {
    const Buffer& sums = atomic.dst.buffer;
    if (!IsCoarse(sums->dtype) || atomic.op != AtomicOp::kAdd) return;
    int64_t added = Elements(atomic.dst), elements = 1;
    for (const Loop& loop : loops_) added = Times(added, loop.open_ended ? 0 : Trips(loop.axes));
    for (const Expr& extent : sums->shape) {
      elements = Times(elements, ConstInt(extent).value_or(0));
    }
    Nodes where;
    for (const Range& range : atomic.dst.ranges) Collect(range.min, &where);
    where = Reach({where.begin(), where.end()});
    if (std::any_of(loaded_.begin(), loaded_.end(),
                    [&](Node buffer) { return where.count(buffer) > 0; })) {
      added = 0;  // the data say where
    }
    const int64_t each = elements == 0 || added == 0 ? 0 : (added + elements - 1) / elements;
    accumulators_.push_back({sums.get(), sums->dtype, Times(kEachAddition, each)});
  }

  // A sum where it adds to what is made of what lies there, and a loop comes back to the place.
  void AddStore(const Store& store, const std::vector<Loop>& loops) {
    const Node sums = store.buffer.get();
    Nodes read, where;
    Collect(store.value, &read);
    if (Reach({read.begin(), read.end()}).count(sums) == 0 || !Adds(store.value)) return;
    for (const Expr& index : store.indices) Collect(index, &where);
    where = Reach({where.begin(), where.end()});
    int64_t times = 1;
    bool returns = false;
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
      if (Resets(*loop->body, sums)) break;
      const bool elsewhere =
          !loop->axes.empty() && std::all_of(loop->axes.begin(), loop->axes.end(), [&](auto& axis) {
            return where.count(axis.var.get()) > 0;
          });
      if (!loop->ordered || elsewhere) continue;
      returns = true;
      times = Times(times, loop->open_ended ? 0 : Trips(loop->axes));
    }
    if (returns) {
      accumulators_.push_back({sums, store.buffer->dtype, Times(kEachAddition, times)});
    }
  }

  std::unordered_map<Node, Nodes> made_of_;
  Nodes conditions_;  // of the statement that is visited
  Nodes loaded_;      // buffers that expressions read
  std::vector<Loop> loops_;
  std::vector<Accumulator> accumulators_;
  std::vector<std::pair<const Store*, std::vector<Loop>>> stores_;
};

}  // namespace

std::map<std::string, CoarseSums> FindCoarseSums(const Program& program) {
  std::map<std::string, CoarseSums> found;
  const Finder finder(program);
  for (const Param& param : program.params) {
    if (param.kind != Param::kTensor) continue;
    if (const auto sums = finder.Behind(param.buffer)) found[param.name] = *sums;
  }
  return found;
}

}  // namespace kiln::ir
