#include "compiler/passes/lower_scans.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"
#include "compiler/passes/loop_regions.h"
#include "compiler/passes/reduce_arithmetic.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kLeastChunk = 4;  // elements that a thread scans: fewer are not worth a turn

// What both lowerings know of a scan: its rows are all dimensions but the scanned one.
class ScanOfRows {
 public:
  explicit ScanOfRows(const ir::Scan& scan)
      : scan_(scan),
        loc_(scan.loc),
        arithmetic_(scan.op, scan.src.buffer->dtype, scan.dst.buffer->dtype),
        type_(arithmetic_.type()) {}

  absl::Status Check(const ir::Program& program) {
    for (size_t d = 0; d < scan_.src.ranges.size(); ++d) {
      const auto extent = ir::ConstInt(scan_.src.ranges[d].extent);
      if (!extent.has_value()) return ExtentOfRunTime(program, loc_, "scan");
      if (static_cast<int>(d) == scan_.dim) {
        length_ = *extent;
      } else {
        kept_.push_back(static_cast<int>(d));
        rows_ *= *extent;
      }
    }
    return absl::OkStatus();
  }

 protected:
  // Element `k` of the scan's order, as an offset along the dimension; the inverse too.
  Expr Turned(const Expr& k) const { return scan_.reverse ? MakeInt(length_ - 1) - k : k; }

  std::vector<Expr> At(const ir::Region& region, const std::vector<Expr>& row,
                       const Expr& offset) const {
    std::vector<int> dims = kept_;
    std::vector<Expr> offsets = row;
    dims.push_back(scan_.dim);
    offsets.push_back(offset);
    return RegionIndices(region, dims, offsets);
  }
  Expr Element(const std::vector<Expr>& row, const Expr& offset) const {
    return arithmetic_.Element(ir::MakeLoad(scan_.src.buffer, At(scan_.src, row, offset)));
  }
  Stmt Put(const std::vector<Expr>& row, const Expr& offset, const Expr& value) const {
    return ir::MakeStmt<ir::Store>(loc_, scan_.dst.buffer, At(scan_.dst, row, offset),
                                   ir::MakeCast(scan_.dst.buffer->dtype, value));
  }
  Stmt Set(const ir::Buffer& buffer, const std::vector<Expr>& at, const Expr& value) const {
    return ir::MakeStmt<ir::Store>(loc_, buffer, at, value);
  }
  Stmt Parallel(const std::vector<Expr>& extents,
                const std::function<Stmt(const std::vector<Expr>&)>& body) const {
    std::vector<ir::Axis> axes;
    std::vector<Expr> vars;
    for (const Expr& extent : extents) {
      vars.push_back(ir::MakeVar("i"));
      axes.push_back({vars.back(), MakeInt(0), extent});
    }
    return ir::MakeStmt<ir::For>(loc_, ir::ForKind::kParallel, std::move(axes), body(vars));
  }
  std::vector<Expr> KeptExtents() const {
    std::vector<Expr> extents;
    for (const int d : kept_) extents.push_back(scan_.src.ranges[d].extent);
    return extents;
  }

  const ir::Scan& scan_;
  const SourceLoc loc_;
  const ReduceArithmetic arithmetic_;
  const DType type_;
  std::vector<int> kept_;
  int64_t length_ = 1, rows_ = 1;
};

class CpuScan : public ScanOfRows {
 public:
  using ScanOfRows::ScanOfRows;

  Stmt Lower() const {
    const int last = static_cast<int>(scan_.src.ranges.size()) - 1;
    bool along_last = true;  // of the dimensions that are wide
    for (int d = scan_.dim + 1; d <= last; ++d) {
      along_last &= ir::IsConst(scan_.src.ranges[d].extent, 1);
    }
    std::vector<Expr> row;
    return along_last ? Rows(&row) : Together();
  }

 private:
  Stmt Rows(std::vector<Expr>* row) const {
    if (row->size() == kept_.size()) return Row(*row);
    return SerialLoop("r", scan_.src.ranges[kept_[row->size()]].extent, loc_, [&](const Expr& i) {
      row->push_back(i);
      const Stmt inner = Rows(row);
      row->pop_back();
      return inner;
    });
  }

  Stmt Row(const std::vector<Expr>& row) const {
    const ir::Buffer running = ir::MakeBuffer("running", type_, {MakeInt(1)}, ir::Scope::kVar);
    const std::vector<Expr> whole = {MakeInt(0)};
    const Stmt sweep = SerialLoop("k", MakeInt(length_), loc_, [&](const Expr& k) {
      const Expr at = Turned(k), value = ir::MakeLoad(running, whole);
      return ir::MakeStmt<ir::Seq>(
          loc_, std::vector<Stmt>{Set(running, whole, arithmetic_.Combine(value, Element(row, at))),
                                  Put(row, at, value)});
    });
    return ir::MakeStmt<ir::Seq>(
        loc_, std::vector<Stmt>{ir::MakeStmt<ir::Alloc>(loc_, running, arithmetic_.Identity(type_)),
                                sweep});
  }

  // All rows step by step: vectors run across them.
  Stmt Together() const {
    const std::vector<Expr> extents = KeptExtents();
    const ir::Buffer running = ir::MakeBuffer("running", type_, extents, ir::Scope::kFragment);
    const Stmt start = Parallel(extents, [&](const std::vector<Expr>& row) {
      return Set(running, row, arithmetic_.Identity(type_));
    });
    const Stmt sweep = SerialLoop("k", MakeInt(length_), loc_, [&](const Expr& k) {
      const Expr at = Turned(k);
      return Parallel(extents, [&](const std::vector<Expr>& row) {
        const Expr value = ir::MakeLoad(running, row);
        return ir::MakeStmt<ir::Seq>(
            loc_, std::vector<Stmt>{Set(running, row, arithmetic_.Combine(value, Element(row, at))),
                                    Put(row, at, value)});
      });
    });
    return ir::MakeStmt<ir::Seq>(
        loc_, std::vector<Stmt>{ir::MakeStmt<ir::Alloc>(loc_, running), start, sweep});
  }
};

class GpuScan : public ScanOfRows {
 public:
  GpuScan(const ir::Scan& scan, int64_t threads) : ScanOfRows(scan), threads_(threads) {}

  // `memory` gets what the launch must declare.
  Stmt Lower(std::vector<ir::Buffer>* memory) {
    for (int64_t length = length_; length > 0;) {
      levels_.push_back(LevelOf(length));
      memory->push_back(levels_.back().values);
      length = levels_.back().chunks > 1 ? levels_.back().chunks : 0;
    }
    std::vector<Stmt> stmts = {OverElements([&](const std::vector<Expr>& row, const Expr& at) {
      return Set(levels_[0].values, Place(levels_[0], row, Turned(at)), Element(row, at));
    })};
    for (size_t level = 0; level < levels_.size(); ++level) stmts.push_back(Chunks(level));
    stmts.push_back(OverElements([&](const std::vector<Expr>& row, const Expr& at) {
      return Put(row, at, Value(0, row, Turned(at)));
    }));
    return ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
  }

 private:
  // Values in chunks that follow each other, a thread each; what comes next scans their totals.
  struct Level {
    int64_t length, chunk, chunks;
    ir::Buffer values;  // [rows..., chunks, chunk]
  };

  Level LevelOf(int64_t length) const {
    Level level;
    level.length = length;
    const int64_t most = std::max<int64_t>(threads_ / std::max<int64_t>(rows_, 1), 1);
    const int64_t chunks = std::clamp<int64_t>(length / kLeastChunk, 1, most);
    level.chunk = (length + chunks - 1) / chunks;
    level.chunks = (length + level.chunk - 1) / level.chunk;
    std::vector<Expr> shape = KeptExtents();
    shape.push_back(MakeInt(level.chunks));
    shape.push_back(MakeInt(level.chunk | 1));  // odd: neighbouring threads use different banks
    level.values = ir::MakeBuffer(levels_.empty() ? "scanned" : "totals", type_, std::move(shape),
                                  ir::Scope::kShared);
    return level;
  }

  static std::vector<Expr> Place(const Level& level, std::vector<Expr> row, const Expr& k) {
    row.push_back(FloorDiv(k, MakeInt(level.chunk)));
    row.push_back(FloorMod(k, MakeInt(level.chunk)));
    return row;
  }

  Stmt OverElements(
      const std::function<Stmt(const std::vector<Expr>& row, const Expr& at)>& body) const {
    std::vector<Expr> extents;
    for (const ir::Range& range : scan_.src.ranges) extents.push_back(range.extent);
    return Parallel(extents, [&](const std::vector<Expr>& vars) {
      std::vector<Expr> row;
      for (const int d : kept_) row.push_back(vars[d]);
      return body(row, vars[scan_.dim]);
    });
  }

  // Each thread goes through its chunk.
  Stmt Chunks(size_t number) const {
    const Level& level = levels_[number];
    std::vector<Expr> extents = KeptExtents();
    extents.push_back(MakeInt(level.chunks));
    const ir::Buffer running = ir::MakeBuffer("running", type_, {MakeInt(1)}, ir::Scope::kVar);
    const std::vector<Expr> whole = {MakeInt(0)};
    return Parallel(extents, [&](const std::vector<Expr>& vars) {
      const Expr& chunk = vars.back();
      const Stmt sweep = SerialLoop("k", MakeInt(level.chunk), loc_, [&](const Expr& k) {
        std::vector<Expr> at = vars;
        at.push_back(k);
        const Expr value = ir::MakeLoad(running, whole);
        const Stmt step = ir::MakeStmt<ir::Seq>(
            loc_, std::vector<Stmt>{Set(running, whole,
                                        arithmetic_.Combine(value, ir::MakeLoad(level.values, at))),
                                    Set(level.values, at, value)});
        if (level.chunk * level.chunks == level.length) return step;
        return ir::MakeStmt<ir::If>(loc_, chunk * MakeInt(level.chunk) + k < MakeInt(level.length),
                                    step);
      });
      std::vector<Stmt> stmts = {
          ir::MakeStmt<ir::Alloc>(loc_, running, arithmetic_.Identity(type_)), sweep};
      if (number + 1 < levels_.size()) {
        const std::vector<Expr> row(vars.begin(), vars.end() - 1);
        stmts.push_back(Set(levels_[number + 1].values, Place(levels_[number + 1], row, chunk),
                            ir::MakeLoad(running, whole)));
      }
      return ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
    });
  }

  // Element k of the scan of a level's values.
  Expr Value(size_t number, const std::vector<Expr>& row, const Expr& k) const {
    const Level& level = levels_[number];
    const Expr own = ir::MakeLoad(level.values, Place(level, row, k));
    if (number + 1 == levels_.size()) return own;
    const Expr before = Max(FloorDiv(k, MakeInt(level.chunk)) - MakeInt(1), MakeInt(0));
    return ir::MakeSelect(k < MakeInt(level.chunk), own,
                          arithmetic_.Combine(Value(number + 1, row, before), own));
  }

  const int64_t threads_;
  std::vector<Level> levels_;
};

class LowerOnGpu : public ir::Mutator {
 public:
  explicit LowerOnGpu(const ir::Program& program) : program_(program) {}
  absl::Status status;

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (!status.ok()) return s;
    if (const auto* launch = s.As<ir::Launch>()) return VisitLaunch(s, *launch);
    if (const auto* part = s.As<ir::OnThreads>()) {
      const int64_t all = std::exchange(threads_, part->count);
      const Stmt inner = RebuildStmt(s);
      threads_ = all;
      return inner;
    }
    const auto* scan = s.As<ir::Scan>();
    if (scan == nullptr) return RebuildStmt(s);
    GpuScan lowering(*scan, threads_);
    status = lowering.Check(program_);
    return status.ok() ? lowering.Lower(&memory_) : s;
  }

 private:
  Stmt VisitLaunch(const Stmt& s, const ir::Launch& launch) {
    threads_ = ir::ThreadsOf(launch).value_or(1);
    memory_.clear();
    const Stmt body = Mutate(launch.body);
    if (body.same_as(launch.body)) return s;
    std::vector<Stmt> stmts;
    for (const ir::Buffer& b : memory_) stmts.push_back(ir::MakeStmt<ir::Alloc>(launch.loc, b));
    stmts.push_back(body);
    return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads,
                                    ir::MakeStmt<ir::Seq>(body->loc, std::move(stmts)),
                                    launch.annotations);
  }

  const ir::Program& program_;
  int64_t threads_ = 1;
  std::vector<ir::Buffer> memory_;
};

}  // namespace

absl::StatusOr<ir::Program> LowerScansCpu(const ir::Program& program, const PassContext&) {
  absl::Status status;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* scan = s.As<ir::Scan>();
    if (scan == nullptr || !status.ok()) return {};
    CpuScan lowering(*scan);
    status = lowering.Check(program);
    return status.ok() ? lowering.Lower() : Stmt();
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

absl::StatusOr<ir::Program> LowerScansGpu(const ir::Program& program, const PassContext&) {
  LowerOnGpu lower(program);
  ir::Program out = program;
  out.body = lower.Mutate(program.body);
  KILN_RETURN_IF_ERROR(lower.status);
  return out;
}

}  // namespace kiln::passes
