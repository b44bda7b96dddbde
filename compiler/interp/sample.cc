// SampleReference: which blocks can contribute to a few elements, and a run of those.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/execution.h"
#include "compiler/interp/interp.h"
#include "compiler/interp/narrow.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::interp {
namespace {

constexpr int64_t kMinusInfinity = std::numeric_limits<int64_t>::min() / 4;
constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max() / 4;
constexpr int64_t kMaxBlocks = int64_t{1} << 28;
constexpr size_t kMaxBoxes = 1 << 14;  // needed boxes of one buffer; beyond, their hull

// A box of elements, bounds inclusive.
struct ElementBox {
  std::array<int64_t, kMaxRank> low{}, high{};
  bool operator<(const ElementBox& o) const { return low != o.low ? low < o.low : high < o.high; }
};

bool Intersects(const ElementBox& a, const ElementBox& b, int rank) {
  for (int d = 0; d < rank; ++d) {
    if (a.high[d] < b.low[d] || b.high[d] < a.low[d]) return false;
  }
  return true;
}

ElementBox Hull(const ElementBox& a, const ElementBox& b, int rank) {
  ElementBox hull = a;
  for (int d = 0; d < rank; ++d) {
    hull.low[d] = std::min(a.low[d], b.low[d]);
    hull.high[d] = std::max(a.high[d], b.high[d]);
  }
  return hull;
}

// The elements of one buffer that somebody wants.
class Needed {
 public:
  explicit Needed(int rank) : rank_(rank) {}
  void Add(const ElementBox& box) {
    hull_ = boxes_.empty() ? box : Hull(hull_, box, rank_);
    boxes_.insert(box);
    if (boxes_.size() > kMaxBoxes) boxes_ = {hull_};
  }
  bool Touches(const ElementBox& box) const {
    if (boxes_.empty() || !Intersects(hull_, box, rank_)) return false;
    return std::any_of(boxes_.begin(), boxes_.end(),
                       [&](const ElementBox& b) { return Intersects(b, box, rank_); });
  }

 private:
  int rank_;
  ElementBox hull_;
  std::set<ElementBox> boxes_;
};

// One dimension of an access as a function of the block ids.
struct Span {
  bool linear = false;
  int64_t per_block[3] = {0, 0, 0};
  int64_t low = 0, high = 0;  // at block 0, when linear
  ir::Expr min, extent;       // otherwise
};

struct Site {
  ir::Buffer buffer;
  std::vector<Span> spans;
  ir::Facts facts;
  bool atomic = false;
};

struct LaunchInfo {
  const ir::Launch* launch = nullptr;
  ir::Facts outer;              // what is known outside of it
  std::vector<int64_t> extent;  // of the grid
  bool every_block = false;     // under a host-level loop: no telling which run counts
  std::vector<Site> reads, writes;
};

// Collects the launches of a program and what their blocks read and write in global memory.
class Collector {
 public:
  explicit Collector(Execution* execution) : execution_(execution) {}

  void Run(const ir::Program& program) {
    ir::Facts facts;
    const auto fix = [&](const ir::Expr& var) {
      if (IsReal(var.dtype())) return;
      const int64_t value = execution_->IntValue(var);
      facts.SetBounds(var, {value, value});
    };
    for (const ir::Expr& dim : program.dims) fix(dim);
    for (const ir::Param& param : program.params) {
      if (param.kind == ir::Param::kScalar) fix(param.scalar);
    }
    Visit(program.body, &facts);
  }

  std::vector<LaunchInfo> launches;
  std::vector<ir::Buffer> host_reads;  // outside of launches

 private:
  void Visit(const ir::Stmt& s, ir::Facts* facts);
  void VisitLaunch(const ir::Launch& x, const ir::Facts& outer);
  void VisitFor(const ir::For& x, const ir::Facts& outer);
  void Leaf(const ir::Stmt& s, const ir::Facts& facts);
  void AddRegion(const ir::Region& r, const ir::Facts& facts, bool write, bool atomic = false);
  void AddAccess(const ir::Buffer& b, const std::vector<ir::Expr>& indices, const ir::Facts& facts,
                 bool write);
  void AddLoads(const ir::Expr& e, const ir::Facts& facts);
  void Add(Site site, bool write);
  Span MakeSpan(const ir::Expr& min, const ir::Expr& extent, const ir::Facts& facts);
  bool DependsOnBlock(const ir::Expr& e);

  Execution* execution_;
  LaunchInfo* current_ = nullptr;
  int loops_ = 0;  // around a launch
  std::unordered_set<const ir::ExprNode*> block_dependent_;
};

bool Collector::DependsOnBlock(const ir::Expr& e) {
  bool depends = false;
  ir::Walk(e, [&](const ir::Expr& x) {
    depends |= block_dependent_.count(x.get()) > 0;
    return !depends;
  });
  return depends;
}

Span Collector::MakeSpan(const ir::Expr& min, const ir::Expr& extent, const ir::Facts& facts) {
  Span span;
  span.min = min;
  span.extent = extent;
  if (!min.dtype().is_scalar() || DependsOnBlock(extent)) return span;
  ir::LinearForm form = facts.Expand(min), rest;
  rest.constant = form.constant;
  for (const auto& [atom, k] : form.terms) {
    bool is_block = false;
    for (size_t d = 0; d < current_->launch->grid.size(); ++d) {
      if (!atom.same_as(current_->launch->grid[d].var)) continue;
      span.per_block[d] = k;
      is_block = true;
    }
    if (is_block) continue;
    if (DependsOnBlock(atom)) return span;
    rest.terms.emplace_back(atom, k);
  }
  const auto bounds = facts.BoundsOf(rest), size = facts.BoundsOf(extent);
  if (!bounds || !size) return span;
  span.linear = true;
  span.low = bounds->min;
  span.high = bounds->max + size->max - 1;
  return span;
}

void Collector::Add(Site site, bool write) {
  (write ? current_->writes : current_->reads).push_back(std::move(site));
}

void Collector::AddRegion(const ir::Region& r, const ir::Facts& facts, bool write, bool atomic) {
  if (!r.buffer) return;
  for (const ir::Range& range : r.ranges) {
    AddLoads(range.min, facts);
    AddLoads(range.extent, facts);
  }
  if (r.buffer->scope == ir::Scope::kGlobal && !current_ && !write) host_reads.push_back(r.buffer);
  if (r.buffer->scope != ir::Scope::kGlobal || !current_) return;
  Site site{r.buffer, {}, facts, atomic};
  for (const ir::Range& range : r.ranges) {
    site.spans.push_back(MakeSpan(range.min, range.extent, facts));
  }
  Add(std::move(site), write);
}

void Collector::AddAccess(const ir::Buffer& b, const std::vector<ir::Expr>& indices,
                          const ir::Facts& facts, bool write) {
  if (b->scope == ir::Scope::kGlobal && !current_ && !write) host_reads.push_back(b);
  if (b->scope != ir::Scope::kGlobal || !current_) return;
  Site site{b, {}, facts, false};
  for (const ir::Expr& index : indices)
    site.spans.push_back(MakeSpan(index, ir::MakeInt(1), facts));
  Add(std::move(site), write);
}

void Collector::AddLoads(const ir::Expr& e, const ir::Facts& facts) {
  ir::Walk(e, [&](const ir::Expr& x) {
    if (const auto* load = x.As<ir::Load>()) AddAccess(load->buffer, load->indices, facts, false);
    return true;
  });
}

void Collector::Leaf(const ir::Stmt& s, const ir::Facts& facts) {
  if (const auto* x = s.As<ir::Store>()) {
    for (const ir::Expr& index : x->indices) AddLoads(index, facts);
    AddLoads(x->value, facts);
    AddLoads(x->predicate, facts);
    AddAccess(x->buffer, x->indices, facts, true);
  } else if (const auto* x = s.As<ir::Copy>()) {
    AddRegion(x->src, facts, false);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Gemm>()) {
    AddRegion(x->a, facts, false);
    AddRegion(x->b, facts, false);
    if (x->sparse()) AddRegion(x->e, facts, false);
    AddLoads(x->clear_accum, facts);
    if (!ir::IsConst(x->clear_accum, 1)) AddRegion(x->c, facts, false);
    AddRegion(x->c, facts, true);
  } else if (const auto* x = s.As<ir::PairGemm>()) {
    for (const ir::Region* r : {&x->a, &x->b, &x->c}) AddRegion(*r, facts, false);
    AddRegion(x->c, facts, true);
  } else if (const auto* x = s.As<ir::Fill>()) {
    AddLoads(x->value, facts);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Reduce>()) {
    AddRegion(x->src, facts, false);
    if (!x->clear) AddRegion(x->dst, facts, false);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Scan>()) {
    AddRegion(x->src, facts, false);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Print>()) {
    for (const ir::Expr& e : x->values) AddLoads(e, facts);
  } else if (const auto* x = s.As<ir::Atomic>()) {
    AddRegion(x->src, facts, false);
    AddLoads(x->value, facts);
    AddRegion(x->dst, facts, true, /*atomic=*/true);
  } else if (const auto* x = s.As<ir::Evaluate>()) {
    AddLoads(x->value, facts);
  } else if (const auto* x = s.As<ir::Assert>()) {
    AddLoads(x->condition, facts);
  } else if (const auto* x = s.As<ir::Alloc>()) {
    AddLoads(x->init, facts);
  }
}

void Collector::VisitFor(const ir::For& x, const ir::Facts& outer) {
  ir::Facts facts = outer;
  for (const ir::Axis& axis : x.axes) {
    AddLoads(axis.min, outer);
    AddLoads(axis.extent, outer);
    facts.AddAxis(axis);
    if (DependsOnBlock(axis.min) || DependsOnBlock(axis.extent)) {
      block_dependent_.insert(axis.var.get());
    }
  }
  loops_ += current_ == nullptr;
  Visit(x.body, &facts);
  loops_ -= current_ == nullptr;
}

void Collector::VisitLaunch(const ir::Launch& x, const ir::Facts& outer) {
  ir::Facts facts = outer;
  launches.emplace_back();
  current_ = &launches.back();
  current_->launch = &x;
  current_->outer = outer;
  current_->every_block = loops_ > 0;
  for (const ir::Axis& axis : x.grid) {
    facts.AddAxis(axis);
    block_dependent_.insert(axis.var.get());
    const auto extent = facts.BoundsOf(axis.extent);
    const bool known = extent && extent->min == extent->max;
    current_->every_block |= !known;
    current_->extent.push_back(known ? std::max<int64_t>(extent->min, 0) : 1);
  }
  Visit(x.body, &facts);
  current_ = nullptr;
}

void Collector::Visit(const ir::Stmt& s, ir::Facts* facts) {
  if (const auto* x = s.As<ir::Seq>()) {
    ir::Facts inner = *facts;
    for (const ir::Stmt& child : x->stmts) Visit(child, &inner);
  } else if (const auto* x = s.As<ir::For>()) {
    VisitFor(*x, *facts);
  } else if (const auto* x = s.As<ir::While>()) {
    AddLoads(x->condition, *facts);
    ir::Facts inner = *facts;
    loops_ += current_ == nullptr;
    Visit(x->body, &inner);
    loops_ -= current_ == nullptr;
  } else if (const auto* x = s.As<ir::If>()) {
    AddLoads(x->condition, *facts);
    ir::Facts inner = *facts, other = *facts;
    Visit(x->then_case, &inner);
    if (x->else_case.defined()) Visit(x->else_case, &other);
  } else if (const auto* x = s.As<ir::OnThreads>()) {
    ir::Facts inner = *facts;
    Visit(x->body, &inner);
  } else if (const auto* x = s.As<ir::Launch>()) {
    VisitLaunch(*x, *facts);
  } else if (const auto* x = s.As<ir::Bind>()) {
    AddLoads(x->value, *facts);
    facts->SetValue(x->var, x->value);
    if (DependsOnBlock(x->value)) block_dependent_.insert(x->var.get());
  } else {
    Leaf(s, *facts);
  }
}

// What a block touches through one site.
ElementBox BoxOf(const Site& site, const LaunchInfo& info, const int64_t (&block)[3]) {
  ElementBox box;
  std::optional<ir::Facts> here;
  for (size_t d = 0; d < site.spans.size(); ++d) {
    const Span& span = site.spans[d];
    if (span.linear) {
      int64_t shift = 0;
      for (int k = 0; k < 3; ++k) shift += span.per_block[k] * block[k];
      box.low[d] = span.low + shift;
      box.high[d] = span.high + shift;
      continue;
    }
    if (!here) {
      here = site.facts;
      for (size_t k = 0; k < info.launch->grid.size(); ++k) {
        here->SetBounds(info.launch->grid[k].var, {block[k], block[k]});
      }
    }
    const auto min = here->BoundsOf(span.min), extent = here->BoundsOf(span.extent);
    box.low[d] = min ? min->min : kMinusInfinity;
    box.high[d] = min && extent ? min->max + extent->max - 1 : kInfinity;
  }
  return box;
}

// Marks the blocks that must run, from the last launch to the first.
class Planner {
 public:
  explicit Planner(const std::vector<LaunchInfo>& launches) : launches_(launches) {}

  void Need(const ir::Buffer& buffer, const ElementBox& box) {
    const auto rank = static_cast<int>(buffer->shape.size());
    needed_.try_emplace(buffer.get(), rank).first->second.Add(box);
  }

  absl::Status Plan() {
    runs_.resize(launches_.size());
    for (size_t l = launches_.size(); l-- > 0;) KILN_RETURN_IF_ERROR(PlanLaunch(l));
    return absl::OkStatus();
  }

  // Calls visit(buffer, box) for what the planned blocks read; equal boxes of neighbours come once.
  template <typename Visit>
  void ForEachRead(const Visit& visit) const {
    for (size_t l = 0; l < launches_.size(); ++l) {
      const LaunchInfo& info = launches_[l];
      for (const Site& site : info.reads) {
        if (info.every_block) {
          visit(site.buffer, Everything());
          continue;
        }
        std::set<ElementBox> seen;
        for (int64_t i = 0; i < static_cast<int64_t>(runs_[l].size()); ++i) {
          if (!runs_[l][static_cast<size_t>(i)]) continue;
          int64_t block[3] = {0, 0, 0};
          BlockOf(info, i, block);
          seen.insert(BoxOf(site, info, block));
        }
        for (const ElementBox& box : seen) visit(site.buffer, box);
      }
    }
  }

  // Calls visit(block) for the planned blocks of a launch.
  template <typename Visit>
  void ForEachBlock(size_t launch, const Visit& visit) const {
    for (int64_t i = 0; i < static_cast<int64_t>(runs_[launch].size()); ++i) {
      if (!runs_[launch][static_cast<size_t>(i)]) continue;
      int64_t block[3] = {0, 0, 0};
      BlockOf(launches_[launch], i, block);
      visit(block);
    }
  }

  static ElementBox Everything() {
    ElementBox all;
    all.low.fill(kMinusInfinity);
    all.high.fill(kInfinity);
    return all;
  }

  bool Runs(int launch, const int64_t (&block)[3]) const {
    const std::vector<bool>& runs = runs_[static_cast<size_t>(launch)];
    if (runs.empty()) return true;  // all
    return runs[static_cast<size_t>(Number(launches_[static_cast<size_t>(launch)], block))];
  }

 private:
  static int64_t Number(const LaunchInfo& info, const int64_t (&block)[3]) {
    int64_t number = 0;
    for (size_t d = info.extent.size(); d-- > 0;) number = number * info.extent[d] + block[d];
    return number;
  }

  static void BlockOf(const LaunchInfo& info, int64_t number, int64_t (&block)[3]) {
    for (size_t d = 0; d < info.extent.size(); ++d) {
      block[d] = number % info.extent[d];
      number /= info.extent[d];
    }
  }

  bool Writes(const LaunchInfo& info, const int64_t (&block)[3]) const {
    return std::any_of(info.writes.begin(), info.writes.end(), [&](const Site& site) {
      const auto needed = needed_.find(site.buffer.get());
      return needed != needed_.end() && needed->second.Touches(BoxOf(site, info, block));
    });
  }

  // A block that reads what other blocks of its launch update atomically waits for all of them.
  static bool ReadsAtomics(const LaunchInfo& info) {
    for (const Site& write : info.writes) {
      if (!write.atomic) continue;
      for (const Site& read : info.reads) {
        if (read.buffer == write.buffer) return true;
      }
    }
    return false;
  }

  absl::Status PlanLaunch(size_t l) {
    const LaunchInfo& info = launches_[l];
    int64_t total = 1;
    for (const int64_t extent : info.extent) {
      if (__builtin_mul_overflow(total, extent, &total) || total > kMaxBlocks) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a launch of more than ", kMaxBlocks, " blocks: use larger tiles"));
      }
    }
    if (info.every_block) {
      for (const Site& read : info.reads) NeedAll(read.buffer);
      return absl::OkStatus();
    }
    std::vector<bool> runs(static_cast<size_t>(std::max<int64_t>(total, 1)));
    bool any = false;
    for (int64_t i = 0; i < total; ++i) {
      int64_t block[3] = {0, 0, 0};
      BlockOf(info, i, block);
      runs[static_cast<size_t>(i)] = Writes(info, block);
      any |= runs[static_cast<size_t>(i)];
    }
    if (any && ReadsAtomics(info)) runs.assign(runs.size(), true);
    const std::vector<const Site*> reads = ReadsOfEarlierResults(l);
    for (int64_t i = 0; !reads.empty() && i < total; ++i) {
      if (!runs[static_cast<size_t>(i)]) continue;
      int64_t block[3] = {0, 0, 0};
      BlockOf(info, i, block);
      for (const Site* site : reads) Need(site->buffer, BoxOf(*site, info, block));
    }
    runs_[l] = std::move(runs);
    return absl::OkStatus();
  }

  bool WrittenBefore(size_t l, const ir::Buffer& buffer) const {
    return std::any_of(launches_.begin(), launches_.begin() + static_cast<int64_t>(l),
                       [&](const LaunchInfo& earlier) {
                         return std::any_of(earlier.writes.begin(), earlier.writes.end(),
                                            [&](const Site& w) { return w.buffer == buffer; });
                       });
  }

  // An atomic update builds on what was there before, like a read.
  std::vector<const Site*> ReadsOfEarlierResults(size_t l) const {
    std::vector<const Site*> list;
    for (const Site& read : launches_[l].reads) {
      if (WrittenBefore(l, read.buffer)) list.push_back(&read);
    }
    for (const Site& write : launches_[l].writes) {
      if (write.atomic && WrittenBefore(l, write.buffer)) list.push_back(&write);
    }
    return list;
  }

  void NeedAll(const ir::Buffer& buffer) { Need(buffer, Everything()); }

  const std::vector<LaunchInfo>& launches_;
  std::unordered_map<const ir::BufferNode*, Needed> needed_;
  std::vector<std::vector<bool>> runs_;
};

absl::StatusOr<ElementBox> BoxOfElement(const std::vector<int64_t>& shape, int64_t flat) {
  int64_t total = 1;
  for (const int64_t extent : shape) total *= extent;
  if (flat < 0 || flat >= total) {
    return absl::InvalidArgumentError(
        absl::StrCat("element ", flat, " of a tensor of ", total, " elements"));
  }
  ElementBox box;
  for (size_t d = shape.size(); d-- > 0;) {
    box.low[d] = box.high[d] = flat % shape[d];
    flat /= shape[d];
  }
  return box;
}

// Float64 stand-ins for the tensors that the program writes, so that the caller's stay untouched
// and nothing rounds.
absl::StatusOr<std::vector<Tensor>> Substitute(const ir::Program& program,
                                               const std::vector<std::vector<int64_t>>& shapes,
                                               std::vector<TensorView>* views) {
  const std::vector<ir::Buffer> written = ir::BuffersWritten(program.body);
  const std::vector<ir::Buffer> read = ir::BuffersRead(program.body);
  const std::vector<const ir::Param*> params = TensorParams(program);
  std::vector<Tensor> owned;
  if (views->size() != params.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", program.name, "' has ", params.size(),
                                                   " tensor parameters, got ", views->size()));
  }
  for (size_t t = 0; t < params.size(); ++t) {
    TensorView& view = (*views)[t];
    const bool fits = view.strides.empty() || view.strides.size() == shapes[t].size();
    if (view.shape != shapes[t] || !fits) continue;  // BindTensors tells
    const bool is_written =
        std::find(written.begin(), written.end(), params[t]->buffer) != written.end();
    if (!is_written) continue;
    const DType type = params[t]->buffer->dtype;
    int64_t span = 1;  // from the first element to past the last
    for (size_t d = 0; d < view.strides.size(); ++d) span += (view.shape[d] - 1) * view.strides[d];
    owned.emplace_back(
        type.is_float() ? kFloat64 : type,
        view.strides.empty() ? shapes[t] : std::vector<int64_t>{std::max<int64_t>(span, 0)});
    const TensorView mine{owned.back().data(), owned.back().dtype(), shapes[t], view.strides};
    const bool is_read = std::find(read.begin(), read.end(), params[t]->buffer) != read.end();
    if (!params[t]->is_output && (view.data != nullptr || is_read)) {
      if (view.data == nullptr && mine.elements() > 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", params[t]->name, "' is read and has no data"));
      }
      const int64_t n = mine.elements();
      for (int64_t i = 0; i < n; ++i) mine.Set(i, view.Get(i));
    }
    view = mine;
  }
  return owned;
}

// Tells Options::prepare what will be read.
void Announce(const ir::Program& program, const Collector& collector, const Planner& planner,
              const std::vector<std::vector<int64_t>>& shapes, const Options& options) {
  if (!options.prepare) return;
  const std::vector<const ir::Param*> tensors = TensorParams(program);
  const auto tell = [&](const ir::Buffer& buffer, const ElementBox& box) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t]->buffer != buffer) continue;
      std::vector<int64_t> low, high;
      bool empty = false;
      for (size_t d = 0; d < shapes[t].size(); ++d) {
        low.push_back(std::max<int64_t>(box.low[d], 0));
        high.push_back(std::min(box.high[d], shapes[t][d] - 1));
        empty |= low.back() > high.back();
      }
      if (!empty) options.prepare(static_cast<int>(t), low, high);
    }
  };
  planner.ForEachRead(tell);
  for (const ir::Buffer& buffer : collector.host_reads) tell(buffer, Planner::Everything());
}

// A program that is about to be sampled.
struct Sampling {
  std::unique_ptr<Execution> execution;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<TensorView> views;
  std::vector<Tensor> owned;  // what some views look at
  std::unique_ptr<Collector> collector;
};

absl::StatusOr<std::unique_ptr<Sampling>> Begin(const ir::Program& program,
                                                const std::vector<TensorView>& params,
                                                const Options& options) {
  auto s = std::make_unique<Sampling>();
  KILN_ASSIGN_OR_RETURN(s->execution, Execution::Create(program, options));
  KILN_RETURN_IF_ERROR(s->execution->BindScalars(params));
  KILN_ASSIGN_OR_RETURN(s->shapes, s->execution->Shapes());
  s->views = params;
  KILN_ASSIGN_OR_RETURN(s->owned, Substitute(program, s->shapes, &s->views));
  KILN_RETURN_IF_ERROR(s->execution->BindTensors(s->views));
  s->collector = std::make_unique<Collector>(s->execution.get());
  s->collector->Run(program);
  return s;
}

absl::StatusOr<std::vector<double>> ValuesOf(const ir::Program& program, const Sampling& s,
                                             int output, const std::vector<int64_t>& elements) {
  const TensorView& view = s.views[output];
  const BufferState& state = s.execution->tensor(output);
  std::vector<double> values;
  for (const int64_t flat : elements) {
    const auto offset =
        (static_cast<char*>(view.At(flat)) - static_cast<char*>(view.data)) / view.dtype.bytes();
    if (state.written && !state.written[offset]) {
      return absl::FailedPreconditionError(absl::StrCat("element ", flat, " of output '",
                                                        TensorParams(program)[output]->name,
                                                        "' is not written by the program"));
    }
    values.push_back(view.Get(flat));
  }
  return values;
}

// Adds up what the parts of a sampling did.
void Count(const Execution& execution, Stats* stats) {
  if (stats == nullptr) return;
  stats->blocks += execution.stats().blocks;
  stats->steps += execution.stats().steps;
}

using BlockId = std::array<int64_t, 3>;

// The block that writes each element, of a program of one launch; nothing when that is not clear.
std::optional<std::map<BlockId, std::vector<size_t>>> BlocksOf(
    const LaunchInfo& info, const Planner& planner, const ir::Buffer& output,
    const std::vector<ElementBox>& elements) {
  const auto rank = static_cast<int>(output->shape.size());
  std::map<BlockId, std::vector<size_t>> blocks;
  size_t found = 0;
  bool clear = true;
  planner.ForEachBlock(0, [&](const int64_t(&block)[3]) {
    for (size_t e = 0; e < elements.size(); ++e) {
      bool writes = false;
      for (const Site& site : info.writes) {
        clear &= !site.atomic;
        writes |= site.buffer == output && Intersects(BoxOf(site, info, block), elements[e], rank);
      }
      if (!writes) continue;
      blocks[{block[0], block[1], block[2]}].push_back(e);
      ++found;
    }
  });
  if (!clear || found != elements.size()) return std::nullopt;
  return blocks;
}

// One block after another, each narrowed to the elements that it writes. Nothing when some block
// cannot be narrowed, or does not run so.
std::optional<std::vector<double>> SampleNarrow(const ir::Program& program,
                                                const std::vector<TensorView>& params, int output,
                                                const std::vector<int64_t>& elements,
                                                const Sampling& whole, const Planner& planner,
                                                const Options& options, Stats* stats) {
  const std::vector<LaunchInfo>& launches = whole.collector->launches;
  if (launches.size() != 1 || launches[0].every_block) return std::nullopt;
  const ir::Buffer& buffer = TensorParams(program)[output]->buffer;
  std::vector<ElementBox> boxes;
  for (const int64_t flat : elements) boxes.push_back(*BoxOfElement(whole.shapes[output], flat));
  const auto blocks = BlocksOf(launches[0], planner, buffer, boxes);
  if (!blocks) return std::nullopt;
  std::vector<double> values(elements.size());
  for (const auto& [id, wanted] : *blocks) {
    const auto rank = static_cast<int>(buffer->shape.size());
    ElementBox hull = boxes[wanted[0]];
    for (const size_t e : wanted) hull = Hull(hull, boxes[e], rank);
    std::vector<std::pair<int64_t, int64_t>> box;
    for (int d = 0; d < rank; ++d) box.emplace_back(hull.low[d], hull.high[d]);
    const int64_t block[3] = {id[0], id[1], id[2]};
    const auto narrow = Narrow(program, block, buffer, box, launches[0].outer);
    if (!narrow) return std::nullopt;
    Options own = options;
    own.detect_uninitialised = true;  // finds what narrowing would have got wrong
    own.block_filter = [&](int, const int64_t(&other)[3]) {
      return std::equal(block, block + 3, other);
    };
    const auto part = Begin(*narrow, params, own);
    if (!part.ok()) return std::nullopt;
    Planner plan((*part)->collector->launches);
    for (const size_t e : wanted) plan.Need(buffer, boxes[e]);
    if (!plan.Plan().ok()) return std::nullopt;
    Announce(*narrow, *(*part)->collector, plan, (*part)->shapes, own);
    if (!(*part)->execution->Run().ok()) return std::nullopt;
    std::vector<int64_t> flats;
    for (const size_t e : wanted) flats.push_back(elements[e]);
    const auto got = ValuesOf(*narrow, **part, output, flats);
    if (!got.ok()) return std::nullopt;
    for (size_t i = 0; i < wanted.size(); ++i) values[wanted[i]] = (*got)[i];
    Count(*(*part)->execution, stats);
  }
  return values;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> SampleReferences(
    const ir::Program& program, const std::vector<TensorView>& params,
    const std::vector<int>& outputs, const std::vector<std::vector<int64_t>>& elements,
    const Options& options, Stats* stats) {
  if (outputs.size() != elements.size()) {
    return absl::InvalidArgumentError("one list of elements for each output");
  }
  if (stats) *stats = Stats();
  Options run_options = options;
  run_options.mode = Mode::kDouble;
  run_options.print = [](const std::string&) {};  // blocks may run again, or not at all
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Sampling> s, Begin(program, params, run_options));
  Planner planner(s->collector->launches);
  const std::vector<const ir::Param*> tensors = TensorParams(program);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] < 0 || outputs[o] >= static_cast<int>(tensors.size())) {
      return absl::InvalidArgumentError(absl::StrCat("no tensor parameter ", outputs[o]));
    }
    for (const int64_t flat : elements[o]) {
      KILN_ASSIGN_OR_RETURN(const ElementBox box, BoxOfElement(s->shapes[outputs[o]], flat));
      planner.Need(tensors[outputs[o]]->buffer, box);
    }
  }
  KILN_RETURN_IF_ERROR(planner.Plan());
  if (options.narrow && outputs.size() == 1) {
    auto narrow =
        SampleNarrow(program, params, outputs[0], elements[0], *s, planner, run_options, stats);
    if (narrow) return std::vector<std::vector<double>>{*std::move(narrow)};
    if (stats) *stats = Stats();
  }
  Announce(program, *s->collector, planner, s->shapes, options);
  run_options.block_filter = [&](int launch, const int64_t(&block)[3]) {
    return planner.Runs(launch, block);
  };
  KILN_RETURN_IF_ERROR(s->execution->Run());
  Count(*s->execution, stats);
  std::vector<std::vector<double>> values;
  for (size_t o = 0; o < outputs.size(); ++o) {
    KILN_ASSIGN_OR_RETURN(values.emplace_back(), ValuesOf(program, *s, outputs[o], elements[o]));
  }
  return values;
}

absl::StatusOr<std::vector<double>> SampleReference(const ir::Program& program,
                                                    const std::vector<TensorView>& params,
                                                    int output,
                                                    const std::vector<int64_t>& elements,
                                                    const Options& options, Stats* stats) {
  KILN_ASSIGN_OR_RETURN(auto values,
                        SampleReferences(program, params, {output}, {elements}, options, stats));
  return std::move(values[0]);
}

}  // namespace kiln::interp
