// Short ways to write programs for the interpreter's tests.
#ifndef KILN_TESTS_UNIT_INTERP_BUILDER_H_
#define KILN_TESTS_UNIT_INTERP_BUILDER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/interp/interp.h"
#include "compiler/ir/stmt.h"

namespace kiln::interp::testing {

using ir::Buffer;
using ir::Expr;
using ir::MakeBuffer;
using ir::MakeStmt;
using ir::Region;
using ir::Scope;
using ir::Stmt;

inline constexpr SourceLoc kLoc{3, 5, 9};

inline Region Box(const Buffer& b, std::vector<std::pair<Expr, Expr>> ranges) {
  Region r{b, {}};
  for (auto& [min, extent] : ranges) r.ranges.push_back({min, extent});
  return r;
}
inline Stmt Store(const Buffer& b, std::vector<Expr> indices, Expr value, Expr predicate = {},
                  SourceLoc loc = kLoc) {
  return MakeStmt<ir::Store>(loc, b, std::move(indices), std::move(value), std::move(predicate));
}
inline Expr Load(const Buffer& b, std::vector<Expr> indices) {
  return ir::MakeLoad(b, std::move(indices));
}
inline Stmt Alloc(const Buffer& b, Expr init = {}) {
  return MakeStmt<ir::Alloc>(kLoc, b, std::move(init));
}
inline Stmt Copy(Region src, Region dst) {
  return MakeStmt<ir::Copy>(kLoc, std::move(src), std::move(dst));
}
inline Stmt Fill(Region dst, Expr value) {
  return MakeStmt<ir::Fill>(kLoc, std::move(dst), std::move(value));
}
inline Stmt For(ir::ForKind kind, Expr var, Expr extent, Stmt body) {
  return MakeStmt<ir::For>(kLoc, kind, std::vector<ir::Axis>{{var, Expr(0), extent}}, body);
}
inline Stmt Serial(Expr var, Expr extent, Stmt body) {
  return For(ir::ForKind::kSerial, var, extent, body);
}
inline Stmt Parallel(std::vector<std::pair<Expr, Expr>> axes, Stmt body) {
  std::vector<ir::Axis> list;
  for (auto& [var, extent] : axes) list.push_back({var, Expr(0), extent});
  return MakeStmt<ir::For>(kLoc, ir::ForKind::kParallel, list, body);
}
inline Stmt Seq(std::vector<Stmt> stmts) { return MakeStmt<ir::Seq>(kLoc, std::move(stmts)); }
inline Stmt Launch(std::vector<std::pair<Expr, Expr>> grid, Stmt body) {
  std::vector<ir::Axis> list;
  for (auto& [var, extent] : grid) list.push_back({var, Expr(0), extent});
  return MakeStmt<ir::Launch>(kLoc, list, std::vector<Expr>{Expr(128)}, body);
}

struct ProgramBuilder {
  ir::Program program;

  ProgramBuilder() {
    program.name = "kernel";
    program.source =
        std::make_shared<SourceFile>(SourceFile{"k.py", "one\ntwo\n    three lines\n"});
  }
  Buffer Input(const std::string& name, DType type, std::vector<Expr> shape) {
    return Param(name, type, std::move(shape), false);
  }
  Buffer Output(const std::string& name, DType type, std::vector<Expr> shape) {
    return Param(name, type, std::move(shape), true);
  }
  Expr Dim(const std::string& name) {
    program.dims.push_back(ir::MakeVar(name));
    return program.dims.back();
  }
  // One launch of one block.
  void OneBlock(std::vector<Stmt> body) {
    program.body = Launch({{ir::MakeVar("bx"), Expr(1)}}, Seq(std::move(body)));
  }

 private:
  Buffer Param(const std::string& name, DType type, std::vector<Expr> shape, bool out) {
    const Buffer b = MakeBuffer(name, type, std::move(shape), Scope::kGlobal);
    program.params.push_back({ir::Param::kTensor, name, b, {}, out});
    return b;
  }
};

inline std::vector<TensorView> Views(const std::vector<Tensor*>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor* t : tensors) views.push_back(t->View());
  return views;
}

}  // namespace kiln::interp::testing

#endif  // KILN_TESTS_UNIT_INTERP_BUILDER_H_
