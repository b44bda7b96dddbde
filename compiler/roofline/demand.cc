#include "compiler/roofline/demand.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/gather.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/sums.h"
#include "compiler/ir/turnable.h"
#include "compiler/ir/visit.h"
#include "compiler/roofline/access.h"
#include "compiler/roofline/element_work.h"
#include "compiler/roofline/symbolic.h"

namespace kiln::roofline {
namespace {

constexpr size_t kMaxOps = 100'000;   // tile operations of a kernel that can be priced
constexpr double kAssumedDim = 1024;  // a run-time dimension that nobody gave

class Analyzer {
 public:
  Analyzer(Demand* demand, const std::map<std::string, double>& runtime)
      : d_(*demand), tape_(*demand->tape), symbols_(&tape_), runtime_(runtime) {}

  void Declare(const ir::Program& program, const std::map<std::string, ir::Expr>& tunables);
  void Host(const ir::Stmt& s);
  void Constraints(const std::vector<ir::Expr>& constraints);
  bool IsGiven(const ir::Expr& e) const;  // all run-time sizes in it have values
  void Finish();

 private:
  void Launch(const ir::Launch& launch);
  void GridLoops(const ir::Launch& launch);
  Num PanelOf(const std::string& note);
  void Block(const ir::Stmt& s);
  void SerialLoop(const ir::For& loop);
  void Branch(const ir::If& branch);
  void ElementLoop(const ir::Stmt& body, const std::vector<ir::Axis>& axes, SourceLoc loc);
  void NotePipelined(const ir::Buffer& tile);
  void AddAllocation(const ir::Alloc& alloc);
  void AddCopy(const ir::Copy& copy);
  void AddGemm(const ir::Gemm& gemm);
  void AddFill(const ir::Fill& fill);
  void AddReduce(const ir::Reduce& reduce);
  void AddAtomic(const ir::Atomic& atomic);

  int NewOp(OpKind kind, std::string label, SourceLoc loc);
  void GlobalRegion(int op, const ir::Region& region, bool write, bool atomic = false);
  void AddAccess(int op, const AccessSpec& spec, bool write, bool atomic);
  int TensorOf(const ir::Buffer& buffer);
  int BufferOf(const ir::Buffer& buffer) const;
  std::vector<Num> SizesOf(const ir::Buffer& buffer);
  std::vector<Num> WideExtents(const ir::Region& region);
  Num ValueOr(const ir::Expr& e, double fallback, const char* what);
  Num Probability(const ir::Expr& condition);
  void Approximate(std::string sentence);
  void NoteRead(int buffer);
  void NoteWrite(int buffer);
  void NoteStored(const ir::Copy& copy);
  void LinkReaders();
  void UsefulParts();
  void Totals();

  Demand& d_;
  Tape& tape_;
  Symbols symbols_;
  const std::map<std::string, double>& runtime_;
  std::unordered_map<const ir::BufferNode*, int> tensors_, buffers_;
  std::vector<int> loops_;  // path to here
  Num probability_;         // of the branches on the path
  const ir::Program* program_ = nullptr;
  bool tf32_ = false;  // float32 operands may be rounded
  bool turns_ = true;  // operands may be
  bool holds_ = true;  // sums in tensor memory
  int launch_ = 0;
  const ir::Launch* launch_node_ = nullptr;
  bool pipelined_ = false;              // inside a pipelined loop
  std::vector<int> writers_, readers_;  // per buffer: number of operations
  std::vector<int> last_reader_;        // per buffer
};

void Analyzer::Approximate(std::string sentence) {
  auto& all = d_.approximations;
  if (std::find(all.begin(), all.end(), sentence) == all.end()) all.push_back(std::move(sentence));
}

Num Analyzer::ValueOr(const ir::Expr& e, double fallback, const char* what) {
  bool inexact = false;
  if (const auto v = symbols_.Mean(e, &inexact)) {
    if (inexact) Approximate(absl::StrCat(what, " varies between blocks; its mean is used"));
    return *v;
  }
  Approximate(absl::StrCat(what, " depends on data; ", fallback, " is assumed"));
  return tape_.Const(fallback);
}

void Analyzer::Declare(const ir::Program& program,
                       const std::map<std::string, ir::Expr>& tunables) {
  program_ = &program;
  tf32_ = ir::PassOption(program, "kiln.tf32", 0) != 0;
  turns_ = ir::PassOption(program, "kiln.turn", 1) != 0;
  holds_ = ir::PassOption(program, "kiln.tcgen05", 1) != 0;
  for (const auto& [name, var] : tunables) {
    symbols_.SetValue(var, tape_.Input(static_cast<int>(d_.inputs.size())));
    d_.inputs.push_back(name);
  }
  const auto declare = [&](const ir::Expr& var) {
    const std::string& name = var.As<ir::Var>()->name;
    const auto it = runtime_.find(name);
    if (it == runtime_.end()) {
      Approximate(
          absl::StrCat("run-time value '", name, "' is not given; ", kAssumedDim, " is assumed"));
    }
    symbols_.SetValue(var, tape_.Const(it == runtime_.end() ? kAssumedDim : it->second));
  };
  for (const ir::Expr& dim : program.dims) declare(dim);
  for (const ir::Param& p : program.params) {
    if (p.kind == ir::Param::kScalar) declare(p.scalar);
  }
  for (const ir::Param& p : program.params) {
    if (p.kind == ir::Param::kTensor) TensorOf(p.buffer);
  }
  probability_ = tape_.Const(1);
}

int Analyzer::TensorOf(const ir::Buffer& buffer) {
  const auto [it, fresh] = tensors_.try_emplace(buffer.get(), static_cast<int>(d_.tensors.size()));
  if (fresh) {
    TensorInfo info{buffer->name, buffer->dtype, tape_.Const(1), SizesOf(buffer), false, false};
    for (const Num& n : info.shape) info.elements = info.elements * n;
    d_.tensors.push_back(info);
  }
  return it->second;
}

int Analyzer::BufferOf(const ir::Buffer& buffer) const {
  const auto it = buffers_.find(buffer.get());
  return it == buffers_.end() ? -1 : it->second;
}

std::vector<Num> Analyzer::SizesOf(const ir::Buffer& buffer) {
  std::vector<Num> out;
  for (const ir::Expr& e : buffer->shape) out.push_back(ValueOr(e, kAssumedDim, "a tensor's size"));
  return out;
}

void Analyzer::Constraints(const std::vector<ir::Expr>& constraints) {
  for (const ir::Expr& c : constraints) {
    const auto value = symbols_.Value(c);
    if (value) d_.constraints.push_back({*value, ir::ToString(c)});
  }
}

bool Analyzer::IsGiven(const ir::Expr& e) const {
  return std::none_of(program_->dims.begin(), program_->dims.end(), [&](const ir::Expr& dim) {
    return !runtime_.contains(dim.As<ir::Var>()->name) && ir::Uses(e, dim);
  });
}

void Analyzer::Host(const ir::Stmt& s) {
  if (!s.defined()) return;
  if (const auto* seq = s.As<ir::Seq>()) {
    for (const ir::Stmt& child : seq->stmts) Host(child);
  } else if (const auto* bind = s.As<ir::Bind>()) {
    symbols_.SetBind(bind->var, bind->value);
  } else if (const auto* launch = s.As<ir::Launch>()) {
    Launch(*launch);
  } else if (const auto* check = s.As<ir::Assert>()) {
    if (IsGiven(check->condition)) Constraints({check->condition});
  } else if (const auto* branch = s.As<ir::If>()) {
    Host(branch->then_case);
    Host(branch->else_case);
  } else if (const auto* loop = s.As<ir::For>()) {
    Approximate("a launch inside a host loop is priced once");
    for (const ir::Axis& a : loop->axes) symbols_.SetBind(a.var, a.min);
    Host(loop->body);
  }
}

// Enclosing loops from the grid, outermost first: z, y, x; a swizzle of panel p splits y into
// panels of p rows that x runs through.
void Analyzer::GridLoops(const ir::Launch& launch) {
  LaunchDemand& l = d_.launches.back();
  const Num one = tape_.Const(1);
  const auto push = [&](const ir::Axis& axis, Num trip, Num most, Num scale) {
    const int parent = loops_.empty() ? -1 : loops_.back();
    loops_.push_back(static_cast<int>(d_.loops.size()));
    d_.loops.push_back({axis.var.As<ir::Var>()->name, axis.var.get(), parent, trip, most, scale,
                        true, false, one});
  };
  for (size_t i = 0; i < launch.grid.size(); ++i) {
    symbols_.SetLoop(launch.grid[i].var, tape_.Const(0), l.grid[i]);
  }
  for (size_t i = launch.grid.size(); i-- > 2;) push(launch.grid[i], l.grid[i], l.grid[i], one);
  if (launch.grid.size() >= 2 && l.panel.defined()) {
    const Num rows = Max(Min(l.grid[1], l.panel), 1.0);
    // The last panel may be shorter: the inner trip count is the mean.
    const Num panels = CeilDiv(l.grid[1], rows);
    push(launch.grid[1], panels, panels, rows);
    push(launch.grid[0], l.grid[0], l.grid[0], one);
    push(launch.grid[1], l.grid[1] / panels, rows, one);
    return;
  }
  if (launch.grid.size() >= 2) push(launch.grid[1], l.grid[1], l.grid[1], one);
  push(launch.grid[0], l.grid[0], l.grid[0], one);
}

// The note is a number, or text over the open tunables: one of them, nearly always.
Num Analyzer::PanelOf(const std::string& note) {
  int panel = 0;
  if (absl::SimpleAtoi(note, &panel)) return tape_.Const(panel);
  for (size_t i = 0; i < d_.inputs.size(); ++i) {
    if (d_.inputs[i] == note) return tape_.Input(static_cast<int>(i));
  }
  Approximate(absl::StrCat("the swizzle '", note, "' is priced as none"));
  return {};
}

void Analyzer::Launch(const ir::Launch& launch) {
  launch_ = static_cast<int>(d_.launches.size());
  launch_node_ = &launch;
  d_.launches.emplace_back();
  {
    LaunchDemand& l = d_.launches.back();
    l.blocks = l.threads = l.stages = tape_.Const(1);
    for (const ir::Axis& a : launch.grid) {
      l.grid.push_back(Max(ValueOr(a.extent, 1, "the grid"), 1.0));
      l.blocks = l.blocks * l.grid.back();
    }
    for (const ir::Expr& t : launch.threads) {
      l.threads = l.threads * ValueOr(t, 128, "the number of threads");
    }
    if (const auto it = launch.annotations.find("swizzle_panel"); it != launch.annotations.end()) {
      l.panel = PanelOf(it->second);
    }
  }
  GridLoops(launch);
  Block(launch.body);
  loops_.clear();
  WarpDemand& warps = d_.launches.back().warps;
  warps = FindWarps(*program_, launch, tape_, symbols_);
  for (FetchDemand& fetch : warps.fetches) {
    const auto found = buffers_.find(fetch.into);
    if (found != buffers_.end()) fetch.buffer = found->second;
  }
  LaunchDemand& l = d_.launches.back();
  l.shared = ir::SharedUseOf(launch);
  for (const ir::Buffer& b : l.shared.buffers) l.shared_buffers.push_back(BufferOf(b));
}

Num Analyzer::Probability(const ir::Expr& condition) {
  if (const auto* b = condition.As<ir::Binary>(); b != nullptr && b->op == ir::BinaryOp::kEq) {
    for (const ir::Expr& side : {b->a, b->b}) {  // "the first iteration", "the last iteration"
      if (side.As<ir::Var>() != nullptr && symbols_.IsLoop(side.get())) {
        return 1.0 / symbols_.TripOf(side.get());
      }
    }
  }
  bool inexact = false;
  const auto mean = symbols_.Mean(condition, &inexact);
  if (!mean) {
    Approximate("a branch depends on data; half of its executions are assumed to take it");
    return tape_.Const(0.5);
  }
  if (inexact) Approximate("a branch differs between blocks or iterations; its mean is used");
  return Min(Max(*mean, 0.0), 1.0);
}

void Analyzer::Branch(const ir::If& branch) {
  const Num saved = probability_;
  const Num p = Probability(branch.condition);
  probability_ = saved * p;
  if (p.constant() != 0.0) Block(branch.then_case);
  probability_ = saved * (1.0 - p);
  if (p.constant() != 1.0) Block(branch.else_case);
  probability_ = saved;
}

void Analyzer::SerialLoop(const ir::For& loop) {
  const ir::Axis& axis = loop.axes[0];
  const ir::Expr turns = Max(axis.extent, ir::MakeInt(0, axis.extent.dtype()));  // none, not fewer
  const Num trip = Max(ValueOr(turns, 1, "a loop's trip count"), 0.0);
  const Num zero = tape_.Const(0);
  symbols_.SetLoop(axis, symbols_.Value(axis.min).value_or(zero), trip);
  const bool pipelined = loop.loop == ir::ForKind::kPipelined;
  Num stages = tape_.Const(1);
  if (pipelined && loop.num_stages.defined()) {
    stages = Max(ValueOr(loop.num_stages, 1, "the number of stages"), 1.0);
    LaunchDemand& l = d_.launches[launch_];
    l.stages = Max(l.stages, stages);
  }
  const int parent = loops_.empty() ? -1 : loops_.back();
  loops_.push_back(static_cast<int>(d_.loops.size()));
  d_.loops.push_back({axis.var.As<ir::Var>()->name, axis.var.get(), parent, trip, Ceil(trip),
                      tape_.Const(1), false, pipelined, stages});
  const bool saved = pipelined_;
  pipelined_ = pipelined_ || pipelined;
  Block(loop.body);
  pipelined_ = saved;
  loops_.pop_back();
}

void Analyzer::Block(const ir::Stmt& s) {
  if (!s.defined()) return;
  switch (s.kind()) {
    case ir::StmtKind::kSeq:
      for (const ir::Stmt& child : s.As<ir::Seq>()->stmts) Block(child);
      return;
    case ir::StmtKind::kBind:
      symbols_.SetBind(s.As<ir::Bind>()->var, s.As<ir::Bind>()->value);
      return;
    case ir::StmtKind::kAlloc:
      return AddAllocation(*s.As<ir::Alloc>());
    case ir::StmtKind::kFor: {
      const auto* loop = s.As<ir::For>();
      if (loop->loop == ir::ForKind::kParallel || loop->loop == ir::ForKind::kVectorized ||
          loop->loop == ir::ForKind::kThreads) {
        return ElementLoop(loop->body, loop->axes, s->loc);
      }
      return SerialLoop(*loop);
    }
    case ir::StmtKind::kWhile:
      Approximate("a while loop is priced as one iteration");
      return Block(s.As<ir::While>()->body);
    case ir::StmtKind::kOnThreads:
      return Block(s.As<ir::OnThreads>()->body);
    case ir::StmtKind::kIf:
      return Branch(*s.As<ir::If>());
    case ir::StmtKind::kCopy:
      return AddCopy(*s.As<ir::Copy>());
    case ir::StmtKind::kGemm:
      return AddGemm(*s.As<ir::Gemm>());
    case ir::StmtKind::kFill:
      return AddFill(*s.As<ir::Fill>());
    case ir::StmtKind::kReduce:
      return AddReduce(*s.As<ir::Reduce>());
    case ir::StmtKind::kScan: {
      const auto* scan = s.As<ir::Scan>();
      Approximate("a scan is priced as a reduction of its tile");
      return AddReduce(
          ir::Reduce(s->loc, scan->op, scan->src, scan->dst, scan->dim, /*clear=*/true));
    }
    case ir::StmtKind::kAtomic:
      if (s.As<ir::Atomic>()->value.defined()) return ElementLoop(s, {}, s->loc);
      return AddAtomic(*s.As<ir::Atomic>());
    case ir::StmtKind::kStore:
      return ElementLoop(s, {}, s->loc);
    default:
      return;
  }
}

void Analyzer::AddAllocation(const ir::Alloc& alloc) {
  const ir::Buffer& b = alloc.buffer;
  if (b->scope == ir::Scope::kVar) return;
  if (b->scope == ir::Scope::kGlobal) {
    TensorOf(b);
    return;
  }
  LocalBuffer local;
  local.name = b->name;
  local.launch = launch_;
  local.scope = b->scope;
  local.dtype = b->dtype;
  local.elements = local.stages = tape_.Const(1);
  for (size_t d = b->blocks > 1 ? 1 : 0; d < b->shape.size(); ++d) {  // of one block
    local.elements = local.elements * ValueOr(b->shape[d], 1, "a buffer's size");
  }
  local.bytes = local.elements * static_cast<double>(b->dtype.bytes());
  local.columns =
      b->shape.empty() ? tape_.Const(1) : ValueOr(b->shape.back(), 1, "a buffer's size");
  local.vector = b->shape.size() == 1;
  buffers_[b.get()] = static_cast<int>(d_.buffers.size());
  d_.buffers.push_back(local);
  writers_.push_back(0);
  readers_.push_back(0);
  last_reader_.push_back(-1);
}

// The operation that is being added reads the buffer; -1: none of this block's.
void Analyzer::NoteRead(int buffer) {
  if (buffer < 0) return;
  ++readers_[buffer];
  last_reader_[buffer] = static_cast<int>(d_.ops.size()) - 1;
}

void Analyzer::NoteWrite(int buffer) {
  ++writers_[buffer];
  d_.buffers[buffer].writer = static_cast<int>(d_.ops.size()) - 1;
}

int Analyzer::NewOp(OpKind kind, std::string label, SourceLoc loc) {
  OpDemand op;
  op.kind = kind;
  op.label = std::move(label);
  op.loc = loc;
  op.launch = launch_;
  op.loops = loops_;
  op.count = probability_;
  for (int l : loops_) op.count = op.count * d_.loops[l].trip;
  const Num zero = tape_.Const(0), one = tape_.Const(1);
  op.rows = op.columns = op.useful = one;
  op.onchip_read_bytes = op.onchip_write_bytes = zero;
  op.m = op.n = op.k = zero;
  ElementWork& w = op.work;
  w.alu = w.divide = w.special = w.convert = w.loads = w.stores = w.gathers = zero;
  d_.ops.push_back(std::move(op));
  return static_cast<int>(d_.ops.size()) - 1;
}

void Analyzer::AddAccess(int op, const AccessSpec& spec, bool write, bool atomic) {
  Access a = MeasureAccess(spec, SizesOf(spec.buffer), d_.loops, symbols_);
  a.tensor = TensorOf(spec.buffer);
  a.op = op;
  a.launch = launch_;
  a.write = write;
  a.atomic = atomic;
  a.total_bytes = d_.ops[op].count * a.elements * static_cast<double>(spec.buffer->dtype.bytes());
  TensorInfo& t = d_.tensors[a.tensor];
  (write ? t.written : t.read) = true;
  if (atomic) t.read = true;
  if (!a.exact)
    Approximate(absl::StrCat("the accesses to '", t.name, "' are bounded, not counted"));
  d_.ops[op].accesses.push_back(static_cast<int>(d_.accesses.size()));
  d_.accesses.push_back(std::move(a));
}

void Analyzer::GlobalRegion(int op, const ir::Region& region, bool write, bool atomic) {
  AccessSpec spec{region.buffer, {}, {}, loops_};
  for (const ir::Range& r : region.ranges) {
    spec.dims.push_back({r.min, ValueOr(r.extent, 1, "a region's extent")});
  }
  AddAccess(op, spec, write, atomic);
}

std::vector<Num> Analyzer::WideExtents(const ir::Region& region) {
  std::vector<Num> out;
  for (const ir::Range& r : region.ranges) {
    if (!ir::IsConst(r.extent, 1)) out.push_back(ValueOr(r.extent, 1, "a region's extent"));
  }
  return out;
}

// rows x columns of a region: columns = the last extent that is not one.
void SetShape(OpDemand& op, const std::vector<Num>& extents) {
  if (extents.empty()) return;
  op.columns = extents.back();
  for (size_t i = 0; i + 1 < extents.size(); ++i) op.rows = op.rows * extents[i];
}

void Analyzer::AddCopy(const ir::Copy& copy) {
  const ir::Buffer& src = copy.src.buffer;
  const ir::Buffer& dst = copy.dst.buffer;
  const int id =
      NewOp(OpKind::kCopy, absl::StrCat("copy ", src->name, " -> ", dst->name), copy.loc);
  const std::vector<Num> a = WideExtents(copy.src), b = WideExtents(copy.dst);
  SetShape(d_.ops[id], a.size() >= b.size() ? a : b);
  const Num elements = d_.ops[id].rows * d_.ops[id].columns;
  d_.ops[id].src_buffer = BufferOf(src);
  d_.ops[id].dst_buffer = BufferOf(dst);
  if (src->scope == ir::Scope::kGlobal) {
    GlobalRegion(id, copy.src, false);
  } else {
    d_.ops[id].onchip_read_bytes = elements * static_cast<double>(src->dtype.bytes());
    NoteRead(BufferOf(src));
  }
  if (dst->scope == ir::Scope::kGlobal) {
    GlobalRegion(id, copy.dst, true);
    NoteStored(copy);
  } else {
    d_.ops[id].onchip_write_bytes = elements * static_cast<double>(dst->dtype.bytes());
    if (const int i = BufferOf(dst); i >= 0) {
      NoteWrite(i);
      if (src->scope == ir::Scope::kGlobal) NotePipelined(dst);
    }
  }
  if (src->dtype != dst->dtype) d_.ops[id].work.convert = tape_.Const(1);
}

// What of a tile lies inside of the tensor that it is stored to, in any block.
void Analyzer::NoteStored(const ir::Copy& copy) {
  const int i = BufferOf(copy.src.buffer);
  if (i < 0) return;
  const std::vector<Num> sizes = SizesOf(copy.dst.buffer);
  Num inside = tape_.Const(1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    inside = inside * Min(ValueOr(copy.dst.ranges[d].extent, 1, "a region's extent"), sizes[d]);
  }
  d_.buffers[i].stored = inside;
}

// A tile that a pipelined loop fetches has a copy for each of its stages.
void Analyzer::NotePipelined(const ir::Buffer& tile) {
  const int i = BufferOf(tile);
  if (!pipelined_ || i < 0 || tile->scope != ir::Scope::kShared) return;
  d_.buffers[i].pipelined = true;
  d_.buffers[i].stages = d_.loops[loops_.back()].stages;
}

void Analyzer::AddGemm(const ir::Gemm& gemm) {
  const int id = NewOp(OpKind::kGemm, absl::StrCat("gemm ", gemm.c.buffer->name), gemm.loc);
  std::vector<Num> a = WideExtents(gemm.a), b = WideExtents(gemm.b);
  const Num one = tape_.Const(1);
  OpDemand& op = d_.ops[id];
  // A tile extent of one was dropped from the region: put it back from the ranges' tail.
  const auto last_two = [&](const ir::Region& r) {
    std::vector<Num> out;
    const size_t n = r.ranges.size();
    for (size_t i = n >= 2 ? n - 2 : 0; i < n; ++i) {
      out.push_back(ValueOr(r.ranges[i].extent, 1, "a region's extent"));
    }
    while (out.size() < 2) out.insert(out.begin(), one);
    return out;
  };
  a = last_two(gemm.a);
  b = last_two(gemm.b);
  op.m = a[gemm.trans_a ? 1 : 0];
  op.k = a[gemm.trans_a ? 0 : 1];
  op.n = b[gemm.trans_b ? 0 : 1];
  op.a_type = gemm.a.buffer->dtype;
  op.b_type = gemm.b.buffer->dtype;
  op.c_type = gemm.c.buffer->dtype;
  op.trans_a = gemm.trans_a;
  op.trans_b = gemm.trans_b;
  op.tf32 = tf32_;
  op.turns = turns_;
  op.c_turnable = tf32_ && ir::IsTurnable(*launch_node_, gemm.c.buffer);
  op.policy = static_cast<target::WarpPolicy>(gemm.policy);
  op.a_shared = gemm.a.buffer->scope == ir::Scope::kShared;
  op.b_shared = gemm.b.buffer->scope == ir::Scope::kShared;
  op.c_held = holds_ && ir::FindSums(*launch_node_, gemm.c.buffer).seq != nullptr;
  op.c_apart = holds_ && !op.c_held && ir::WhyNotApart(*launch_node_, gemm.c.buffer).empty();
  op.rows = op.m;
  op.columns = op.n;
  op.a_buffer = BufferOf(gemm.a.buffer);
  op.b_buffer = BufferOf(gemm.b.buffer);
  op.c_buffer = BufferOf(gemm.c.buffer);
  for (int i : {op.a_buffer, op.b_buffer, op.c_buffer}) NoteRead(i);
  if (op.c_buffer >= 0) ++writers_[op.c_buffer];
  if (gemm.a.buffer->scope == ir::Scope::kGlobal) GlobalRegion(id, gemm.a, false);
  if (gemm.b.buffer->scope == ir::Scope::kGlobal) GlobalRegion(id, gemm.b, false);
  if (gemm.c.buffer->scope == ir::Scope::kGlobal) GlobalRegion(id, gemm.c, true);
}

void Analyzer::AddFill(const ir::Fill& fill) {
  const ir::Buffer& dst = fill.dst.buffer;
  const int id = NewOp(OpKind::kFill, absl::StrCat("fill ", dst->name), fill.loc);
  SetShape(d_.ops[id], WideExtents(fill.dst));
  d_.ops[id].dst_buffer = BufferOf(dst);
  if (dst->scope == ir::Scope::kGlobal) return GlobalRegion(id, fill.dst, true);
  d_.ops[id].onchip_write_bytes =
      d_.ops[id].rows * d_.ops[id].columns * static_cast<double>(dst->dtype.bytes());
  if (const int i = BufferOf(dst); i >= 0) ++writers_[i];
}

void Analyzer::AddReduce(const ir::Reduce& reduce) {
  const ir::Buffer& src = reduce.src.buffer;
  const ir::Buffer& dst = reduce.dst.buffer;
  const int id = NewOp(OpKind::kReduce, absl::StrCat("reduce ", src->name), reduce.loc);
  SetShape(d_.ops[id], WideExtents(reduce.src));
  OpDemand& op = d_.ops[id];
  op.adds = reduce.op == ir::ReduceOp::kSum || reduce.op == ir::ReduceOp::kAbsSum;
  op.accumulates = !reduce.clear;
  op.reduce_last = reduce.dim == static_cast<int>(reduce.src.ranges.size()) - 1 || reduce.dim == -1;
  op.src_buffer = BufferOf(src);
  op.dst_buffer = BufferOf(dst);
  const Num elements = op.rows * op.columns;
  if (BufferOf(dst) >= 0) {
    ++writers_[BufferOf(dst)];
    if (!reduce.clear) NoteRead(BufferOf(dst));
  }
  if (BufferOf(src) >= 0) {
    NoteRead(BufferOf(src));
    op.onchip_read_bytes = elements * static_cast<double>(src->dtype.bytes());
  }
  if (src->scope == ir::Scope::kGlobal) GlobalRegion(id, reduce.src, false);
  if (dst->scope == ir::Scope::kGlobal) GlobalRegion(id, reduce.dst, true);
}

void Analyzer::AddAtomic(const ir::Atomic& atomic) {
  const int id =
      NewOp(OpKind::kAtomic, absl::StrCat("atomic ", atomic.dst.buffer->name), atomic.loc);
  SetShape(d_.ops[id], WideExtents(atomic.dst));
  if (atomic.dst.buffer->scope == ir::Scope::kGlobal) GlobalRegion(id, atomic.dst, true, true);
  if (atomic.src.buffer == nullptr) return;
  const int i = BufferOf(atomic.src.buffer);
  d_.ops[id].src_buffer = i;
  NoteRead(i);
  d_.ops[id].onchip_read_bytes =
      d_.ops[id].rows * d_.ops[id].columns * static_cast<double>(atomic.src.buffer->dtype.bytes());
}

void Analyzer::ElementLoop(const ir::Stmt& body, const std::vector<ir::Axis>& axes, SourceLoc loc) {
  const int id = NewOp(OpKind::kLoop, "element loop", loc);
  const Num zero = tape_.Const(0);
  std::vector<InnerAxis> inner;
  std::vector<Num> extents;
  for (const ir::Axis& a : axes) {
    extents.push_back(ValueOr(a.extent, 1, "a parallel loop's extent"));
    symbols_.SetLoop(a.var, symbols_.Value(a.min).value_or(zero), extents.back());
    inner.push_back({a.var.get(), extents.back()});
  }
  SetShape(d_.ops[id], extents);
  if (!extents.empty()) d_.ops[id].columns = extents.back();
  BodyCount body_count = CountBody(body, axes.empty() ? nullptr : axes.back().var.get(), symbols_);
  d_.ops[id].work = body_count.work;
  const Num iterations = d_.ops[id].rows * d_.ops[id].columns;
  std::set<std::string> names;
  for (const ElementAccess& e : body_count.accesses) {
    if (e.buffer->scope != ir::Scope::kGlobal) {
      const Num bytes = iterations * static_cast<double>(e.buffer->dtype.bytes());
      OpDemand& op = d_.ops[id];
      (e.write ? op.onchip_write_bytes : op.onchip_read_bytes) =
          (e.write ? op.onchip_write_bytes : op.onchip_read_bytes) + bytes;
      if (const int i = BufferOf(e.buffer); i >= 0) {
        if (e.write) {
          NoteWrite(i);
        } else {
          NoteRead(i);
        }
        if (!e.write && op.src_buffer < 0) op.src_buffer = i;
        if (e.write && op.dst_buffer < 0) op.dst_buffer = i;
        d_.buffers[i].by_elements |= e.write && writers_[i] == 1;
      }
    } else {
      AccessSpec spec{e.buffer, {}, inner, loops_};
      for (const InnerAxis& x : e.extra) spec.inner.push_back(x);
      for (const ir::Expr& index : e.indices) spec.dims.push_back({index, tape_.Const(1)});
      AddAccess(id, spec, e.write, e.atomic);
    }
    if (e.write) names.insert(e.buffer->name);
  }
  if (const ir::Stmt gather = ir::GatherOf(body, axes); gather.defined()) {
    d_.ops[id].fetches = true;
    NotePipelined(gather.As<ir::Store>()->buffer);
  }
  if (!names.empty()) d_.ops[id].label = absl::StrCat("loop that writes ", *names.begin());
}

// A tile that one copy from a tensor fills and one operation reads could be read in place.
void Analyzer::LinkReaders() {
  std::vector<int> last_reader(d_.buffers.size(), -1);
  for (size_t i = 0; i < d_.ops.size(); ++i) {
    const OpDemand& op = d_.ops[i];
    if (op.kind == OpKind::kReduce && op.src_buffer >= 0) {
      last_reader[op.src_buffer] = static_cast<int>(i);
    } else if (op.kind == OpKind::kGemm && op.b_buffer >= 0) {
      last_reader[op.b_buffer] = static_cast<int>(i);
    }
  }
  for (OpDemand& op : d_.ops) {
    if (op.kind != OpKind::kCopy || op.dst_buffer < 0 || op.src_buffer >= 0) continue;
    const int b = op.dst_buffer;
    if (writers_[b] == 1 && readers_[b] == 1) op.sole_reader = last_reader[b];
  }
  for (size_t b = 0; b < d_.buffers.size(); ++b) {
    d_.buffers[b].folded_once = writers_[b] == 1 && readers_[b] == 1 && last_reader[b] >= 0 &&
                                d_.ops[last_reader[b]].kind == OpKind::kReduce;
  }
  for (size_t i = 0; i < d_.ops.size(); ++i) {
    const OpDemand& op = d_.ops[i];
    if (op.kind != OpKind::kCopy || op.src_buffer < 0 || op.dst_buffer < 0) continue;
    LocalBuffer& to = d_.buffers[op.dst_buffer];
    const LocalBuffer& from = d_.buffers[op.src_buffer];
    to.taken_over = to.scope == ir::Scope::kFragment && from.scope == ir::Scope::kFragment &&
                    to.dtype.bytes() <= from.dtype.bytes() && writers_[op.dst_buffer] == 1 &&
                    last_reader_[op.src_buffer] == static_cast<int>(i);
  }
}

// The part of each gemm tile that lies inside the tensors: the operand tiles know from the copies
// that fill them, the result from the copy that stores it. Each of M, N and K counts in two of the
// three ratios.
void Analyzer::UsefulParts() {
  const Num one = tape_.Const(1);
  std::vector<Num> part(d_.buffers.size(), one);
  const auto inside = [&](const OpDemand& op, bool write) {
    Num p = one;
    for (int a : op.accesses) {
      if (d_.accesses[a].write == write) p = d_.accesses[a].elements / (op.rows * op.columns);
    }
    return Min(p, 1.0);
  };
  for (const OpDemand& op : d_.ops) {
    if (op.kind == OpKind::kCopy && op.dst_buffer >= 0 && !op.accesses.empty()) {
      part[op.dst_buffer] = inside(op, false);
    }
  }
  for (auto it = d_.ops.rbegin(); it != d_.ops.rend(); ++it) {
    if (it->src_buffer < 0 || (it->kind != OpKind::kCopy && it->kind != OpKind::kLoop)) continue;
    if (!it->accesses.empty() && part[it->src_buffer].same_as(one)) {
      part[it->src_buffer] = inside(*it, true);
    } else if (it->dst_buffer >= 0 && it->kind == OpKind::kCopy) {
      part[it->src_buffer] = part[it->dst_buffer];
    }
  }
  for (OpDemand& op : d_.ops) {
    if (op.kind != OpKind::kGemm) continue;
    Num product = one;
    for (int b : {op.a_buffer, op.b_buffer, op.c_buffer}) {
      if (b >= 0) product = product * part[b];
    }
    op.useful = Sqrt(product);
  }
}

void Analyzer::Totals() {
  const Num zero = tape_.Const(0);
  d_.flops = d_.executed_flops = zero;
  d_.compulsory_read_bytes = d_.compulsory_write_bytes = zero;
  for (const OpDemand& op : d_.ops) {
    if (op.kind == OpKind::kGemm) {
      const Num flops = 2.0 * op.count * op.m * op.n * op.k;
      d_.executed_flops = d_.executed_flops + flops;
      d_.flops = d_.flops + flops * op.useful;
    } else if (op.kind == OpKind::kLoop || op.kind == OpKind::kReduce) {
      const Num each = op.kind == OpKind::kReduce ? tape_.Const(1)
                                                  : op.work.alu + op.work.divide + op.work.special;
      const Num flops = op.count * op.rows * op.columns * each;
      d_.executed_flops = d_.executed_flops + flops;
      d_.flops = d_.flops + flops;
    }
  }
  for (size_t t = 0; t < d_.tensors.size(); ++t) {
    Num read = zero, written = zero;
    for (const Access& a : d_.accesses) {
      if (a.tensor != static_cast<int>(t)) continue;
      const Num all = Min(a.footprint.front(), d_.tensors[t].elements);
      if (!a.write || a.atomic) read = Max(read, all);
      if (a.write) written = Max(written, all);
    }
    const double bytes = static_cast<double>(d_.tensors[t].dtype.bytes());
    d_.compulsory_read_bytes = d_.compulsory_read_bytes + read * bytes;
    d_.compulsory_write_bytes = d_.compulsory_write_bytes + written * bytes;
  }
}

void Analyzer::Finish() {
  LinkReaders();
  UsefulParts();
  Totals();
}

}  // namespace

absl::StatusOr<Demand> Analyze(const ir::Program& program,
                               const std::map<std::string, ir::Expr>& tunables,
                               const std::vector<ir::Expr>& constraints,
                               const std::map<std::string, double>& runtime) {
  Demand demand;
  demand.tape = std::make_unique<Tape>();
  Analyzer analyzer(&demand, runtime);
  analyzer.Declare(program, tunables);
  analyzer.Host(program.body);
  if (demand.launches.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("'", program.name, "' has no T.Kernel launch: there is nothing to price"));
  }
  if (demand.ops.size() > kMaxOps) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", program.name, "' has ", demand.ops.size(),
                     " tile operations; the recommender prices up to ", kMaxOps,
                     ". Split the kernel, or write its repeated parts as loops"));
  }
  analyzer.Constraints(constraints);
  analyzer.Finish();
  return demand;
}

}  // namespace kiln::roofline
