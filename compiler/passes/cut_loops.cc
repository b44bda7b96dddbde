#include "compiler/passes/cut_loops.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Axis;
using ir::Expr;
using ir::MakeInt;
using ir::MakeStmt;
using ir::Stmt;

bool IsKnown(const Axis& axis) {
  return ir::ConstInt(axis.min).has_value() && ir::ConstInt(axis.extent).has_value();
}

class Cutter : public ir::Mutator {
 public:
  explicit Cutter(const ir::Program& program) : program_(program) {}
  const absl::Status& status() const { return status_; }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* launch = s.As<ir::Launch>()) {
      threads_ = ir::ThreadsOf(*launch).value_or(1);
      return RebuildStmt(s);
    }
    if (const auto* part = s.As<ir::OnThreads>()) {
      const int64_t around = std::exchange(threads_, part->count);
      const Stmt rebuilt = RebuildStmt(s);
      threads_ = around;
      return rebuilt;
    }
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kParallel) return RebuildStmt(s);
    if (std::all_of(loop->axes.begin(), loop->axes.end(), IsKnown)) return s;
    for (const Axis& axis : loop->axes) {
      if (!IsKnown(axis)) CheckFragments(loop->body, axis.var);
    }
    return Cut(*loop);
  }

 private:
  // Who holds which element of a fragment is settled when the kernel is compiled.
  void CheckFragments(const Stmt& body, const Expr& axis) {
    const auto check = [&](const ir::Buffer& b, const std::vector<Expr>& indices, SourceLoc loc) {
      if (b->scope != ir::Scope::kFragment || !status_.ok()) return;
      if (std::none_of(indices.begin(), indices.end(),
                       [&](const Expr& index) { return ir::Uses(index, axis); })) {
        return;
      }
      status_ = ir::ErrorAt(
          program_, loc,
          absl::StrCat("fragment '", b->name, "' is indexed by '", axis.As<ir::Var>()->name,
                       "', whose extent is not known when the kernel is compiled"),
          "loop over a constant extent and guard the rest with an if, or keep it "
          "in a T.alloc_shared");
    };
    SourceLoc loc;
    ir::Walk(
        body,
        [&](const Stmt& s) {
          loc = s->loc;
          if (const auto* store = s.As<ir::Store>()) check(store->buffer, store->indices, loc);
          return true;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<ir::Load>()) check(load->buffer, load->indices, loc);
          return true;
        });
  }

  Stmt Cut(const ir::For& loop) const {
    size_t last = loop.axes.size();
    int64_t beside = 1;  // iterations of the axes that are known
    for (size_t d = 0; d < loop.axes.size(); ++d) {
      if (IsKnown(loop.axes[d])) {
        beside *= std::clamp<int64_t>(*ir::ConstInt(loop.axes[d].extent), 1, threads_);
        beside = std::min(beside, threads_);
      } else {
        last = d;
      }
    }
    const int64_t chunk = std::max<int64_t>((threads_ + beside - 1) / beside, 1);
    std::vector<Stmt> stmts;
    std::vector<Axis> serial, parallel;
    for (size_t d = 0; d < loop.axes.size(); ++d) {
      const Axis& axis = loop.axes[d];
      if (IsKnown(axis)) {
        parallel.push_back(axis);
        continue;
      }
      // How far the loop goes is settled before its first iteration.
      const Axis settled = {axis.var, Settled(axis.min, axis, "first", loop.loc, &stmts),
                            Settled(axis.extent, axis, "count", loop.loc, &stmts)};
      parallel.push_back(settled);
      if (d != last) serial.push_back(settled);
    }
    Stmt cut = Turns(loop, std::move(parallel), last, chunk);
    for (size_t d = serial.size(); d-- > 0;) {
      cut = MakeStmt<ir::For>(loop.loc, ir::ForKind::kSerial, std::vector<Axis>{serial[d]}, cut);
    }
    stmts.push_back(std::move(cut));
    return MakeStmt<ir::Seq>(loop.loc, std::move(stmts));
  }

  static Expr Settled(const Expr& value, const Axis& axis, const char* what, SourceLoc loc,
                      std::vector<Stmt>* stmts) {
    if (ir::ConstInt(value) || value.As<ir::Var>() != nullptr) return value;
    const Expr var =
        ir::MakeVar(absl::StrCat(axis.var.As<ir::Var>()->name, "_", what), value.dtype());
    stmts->push_back(MakeStmt<ir::Bind>(loc, var, value));
    return var;
  }

  // for turn in serial: for .., i in parallel(.., chunk): if it is one of the loop's: body
  static Stmt Turns(const ir::For& loop, std::vector<Axis> axes, size_t last, int64_t chunk) {
    const Axis cut = axes[last];
    const std::string& name = cut.var.As<ir::Var>()->name;
    const DType type = cut.extent.dtype();
    const Expr turn = ir::MakeVar(absl::StrCat(name, "_turn"), type);
    const Expr inside = ir::MakeVar(absl::StrCat(name, "_inside"), type);
    const Expr size = MakeInt(chunk, type);
    const Expr number = turn * size + inside;
    std::vector<Axis> parallel;
    for (size_t d = 0; d < axes.size(); ++d) {
      if (d == last) {
        parallel.push_back({inside, MakeInt(0, type), size});
      } else if (IsKnown(axes[d])) {
        parallel.push_back(axes[d]);
      }
    }
    const Expr value = ir::MakeCast(cut.var.dtype(), cut.min + number);
    const Stmt body = ir::Substitute(loop.body, {{cut.var.get(), value}});
    const Stmt guarded = MakeStmt<ir::If>(loop.loc, number < cut.extent, body);
    const Stmt once = MakeStmt<ir::For>(loop.loc, ir::ForKind::kParallel, std::move(parallel),
                                        guarded, Expr(), loop.annotations);
    const Expr turns = FloorDiv(cut.extent + MakeInt(chunk - 1, type), size);
    return MakeStmt<ir::For>(loop.loc, ir::ForKind::kSerial,
                             std::vector<Axis>{{turn, MakeInt(0, type), turns}}, once);
  }

  const ir::Program& program_;
  absl::Status status_;
  int64_t threads_ = 1;  // that run what is being visited
};

}  // namespace

absl::StatusOr<ir::Program> CutLoops(const ir::Program& program, const PassContext&) {
  ir::Program result = program;
  Cutter cutter(program);
  result.body = cutter.Mutate(program.body);
  KILN_RETURN_IF_ERROR(cutter.status());
  return result;
}

}  // namespace kiln::passes
