#include "compiler/passes/partition_sums.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

int64_t Rows(const ir::Buffer& b) { return *ir::ConstInt(b->shape[0]); }
int64_t Columns(const ir::Buffer& b) { return *ir::ConstInt(b->shape[1]); }

std::map<std::string, std::string> Shape(const ir::Buffer& sums) {
  return {{"m", absl::StrCat(Rows(sums))}, {"n", absl::StrCat(Columns(sums))}};
}

}  // namespace

PartitionSums::PartitionSums(const ir::Launch& launch, ThreadLevel* level)
    : launch_(launch), level_(level) {
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || alloc->buffer->scope != ir::Scope::kTensor) return true;
    places_.push_back({alloc->buffer,
                       {columns_, ir::MakeBuffer("done", kInt64, {MakeInt(1)}, ir::Scope::kBarrier),
                        ir::MakeBuffer("phase", kInt32, {MakeInt(1)}, ir::Scope::kVar)}});
    columns_ += target::TensorColumns(Rows(alloc->buffer), Columns(alloc->buffer));
    return true;
  });
  slot_ = ir::MakeBuffer("tensor_memory", kInt32, {MakeInt(1)}, ir::Scope::kShared);
  address_ = ir::MakeVar("columns", kInt32);
}

const PartitionSums::Place& PartitionSums::PlaceOf(const ir::Buffer& sums) const {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const auto& place) { return place.first == sums; });
  KILN_CHECK(found != places_.end());
  return found->second;
}

Expr PartitionSums::AddressOf(const ir::Buffer& sums) const {
  return address_ + MakeInt(PlaceOf(sums).first, kInt32);
}

Stmt PartitionSums::Fence(SourceLoc loc, bool after) const {
  return ir::MakeInstruct(loc, Instruction::kTcgen05Fence, {}, {MakeInt(after ? 1 : 0)});
}

Stmt PartitionSums::Multiply(const Stmt& s, const std::function<Expr(const Expr&)>& uniform) const {
  const auto& gemm = *s.As<ir::Gemm>();
  const SourceLoc loc = gemm.loc;
  const auto region = [&](const ir::Region& r) {
    ir::Region out{r.buffer, {}};
    for (const ir::Range& range : r.ranges)
      out.ranges.push_back({uniform(range.min), range.extent});
    return out;
  };
  std::map<std::string, std::string> notes = Shape(gemm.c.buffer);
  const auto dims = *ir::MatrixDims(gemm.a);
  const Expr& depth = gemm.a.ranges[gemm.trans_a ? dims.first : dims.second].extent;
  notes["k"] = absl::StrCat(*ir::ConstInt(depth));
  notes["trans_a"] = gemm.trans_a ? "1" : "0";
  notes["trans_b"] = gemm.trans_b ? "1" : "0";
  const std::vector<Expr> first = {MakeInt(0)};
  const Place& place = PlaceOf(gemm.c.buffer);
  const Expr phase = ir::MakeLoad(place.phase, first);
  const std::vector<Stmt> stmts = {
      ir::MakeInstruct(loc, Instruction::kTcgen05Mma, {region(gemm.a), region(gemm.b)},
                       {uniform(gemm.clear_accum), AddressOf(gemm.c.buffer)}, std::move(notes)),
      ir::MakeInstruct(loc, Instruction::kTcgen05Commit, {ir::WholeBuffer(place.done)}),
      ir::MakeInstruct(loc, Instruction::kBarrierWait, {ir::WholeBuffer(place.done)}, {phase}),
      ir::MakeStmt<ir::Store>(loc, place.phase, first, MakeInt(1, kInt32) - phase)};
  return ir::MakeSeq(stmts, loc);
}

Stmt PartitionSums::Move(int operation) const {
  const Operation& op = level_->problem().operations[operation];
  const auto& copy = *op.stmt.As<ir::Copy>();
  const bool loads = copy.src.buffer->scope == ir::Scope::kTensor;
  const ir::Buffer& sums = loads ? copy.src.buffer : copy.dst.buffer;
  const ir::Region held = ir::WholeBuffer(level_->Registers(op.uses[0].fragment));
  const SourceLoc loc = copy.loc;
  std::vector<Stmt> stmts;
  if (loads) stmts.push_back(Fence(loc, /*after=*/true));
  stmts.push_back(ir::MakeInstruct(loc,
                                   loads ? Instruction::kTcgen05Load : Instruction::kTcgen05Store,
                                   {held}, {AddressOf(sums)}, Shape(sums)));
  stmts.push_back(ir::MakeInstruct(
      loc, Instruction::kTcgen05Wait,
      loads ? std::vector<ir::Region>{held} : std::vector<ir::Region>{}, {MakeInt(loads ? 0 : 1)}));
  stmts.push_back(Fence(loc, /*after=*/false));
  return ir::MakeSeq(std::move(stmts), loc);
}

Stmt PartitionSums::Around(const Stmt& body) const {
  if (columns_ == 0) return body;
  const SourceLoc loc = launch_.loc;
  const Expr taken = MakeInt(target::TakenColumns(columns_));
  std::vector<Stmt> stmts;
  for (const auto& [sums, place] : places_) {
    stmts.push_back(ir::MakeStmt<ir::Alloc>(loc, place.done));
    stmts.push_back(ir::MakeStmt<ir::Alloc>(loc, place.phase, MakeInt(0, kInt32)));
    stmts.push_back(ir::MakeInstruct(loc, Instruction::kBarrierInit, {ir::WholeBuffer(place.done)},
                                     {MakeInt(1)}));
  }
  const Expr columns = ir::MakeLoad(slot_, {MakeInt(0)});
  const Stmt around[] = {
      ir::MakeStmt<ir::Alloc>(loc, slot_),
      ir::MakeInstruct(loc, Instruction::kTcgen05Alloc, {ir::WholeBuffer(slot_)}, {taken}),
      Fence(loc, /*after=*/false), ir::MakeStmt<ir::Bind>(loc, address_, columns), body,
      // Asked again: the name would take a register as long as the kernel runs.
      ir::MakeInstruct(loc, Instruction::kTcgen05Free, {}, {columns, taken})};
  stmts.insert(stmts.end(), std::begin(around), std::end(around));
  return ir::MakeStmt<ir::Seq>(loc, std::move(stmts));
}

}  // namespace kiln::passes
