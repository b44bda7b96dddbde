#include "compiler/codegen/launch_slots.h"

#include "absl/strings/numbers.h"

namespace kiln::codegen {

using ir::Expr;
using llvm::Value;

LaunchSlots::LaunchSlots(const ir::Program& program) {
  Flatten(program.body);
  size_t slot = 0;
  for (const ir::Param& p : program.params) {
    if (p.kind == ir::Param::kTensor) tensors_.push_back({p.buffer, slot++});
  }
  for (const ir::Param& p : program.params) {
    if (p.kind == ir::Param::kScalar) vars_.push_back({p.scalar, slot++});
  }
  for (const Expr& dim : program.dims) vars_.push_back({dim, slot++});
  for (const ir::Stmt& s : host_) {
    if (const auto* alloc = s.As<ir::Alloc>()) {
      workspaces_.push_back(alloc->buffer);
      tensors_.push_back({alloc->buffer, slot++});
    }
  }
  for (const ir::Stmt& s : host_) {
    if (const auto* bind = s.As<ir::Bind>()) vars_.push_back({bind->var, slot++});
  }
}

void LaunchSlots::Flatten(const ir::Stmt& s) {
  const auto* seq = s.As<ir::Seq>();
  if (seq == nullptr) return host_.push_back(s);
  for (const ir::Stmt& inner : seq->stmts) Flatten(inner);
}

std::vector<std::string> LaunchSlots::Names() const {
  std::vector<std::string> names(size());
  for (const auto& [buffer, slot] : tensors_) names[slot] = buffer->name;
  for (const auto& [var, slot] : vars_) names[slot] = var.As<ir::Var>()->name;
  return names;
}

size_t LaunchSlots::SlotOf(const ir::Buffer& buffer) const {
  for (const auto& [known, slot] : tensors_) {
    if (known == buffer) return slot;
  }
  KILN_CHECK(false && "buffer without a slot");
  return 0;
}

size_t LaunchSlots::SlotOf(const Expr& var) const {
  for (const auto& [known, slot] : vars_) {
    if (known.same_as(var)) return slot;
  }
  KILN_CHECK(false && "variable without a slot");
  return 0;
}

Value* LaunchSlots::FromSlot(llvm::IRBuilder<>& b, ExprEmitter& exprs, Value* raw, DType type) {
  if (type.is_float()) {
    if (type.bits == 64) return b.CreateBitCast(raw, b.getDoubleTy());
    return b.CreateBitCast(b.CreateTrunc(raw, b.getInt32Ty()), b.getFloatTy());
  }
  if (type.is_bool()) return b.CreateICmpNE(raw, b.getInt64(0));
  return b.CreateTrunc(raw, exprs.RegisterType(type));
}

Place LaunchSlots::TensorPlace(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Buffer& buffer,
                               Value* base) {
  Place place;
  place.base = base;
  place.strides.resize(buffer->shape.size());
  Value* stride = b.getInt64(1);
  for (size_t d = buffer->shape.size(); d-- > 0;) {
    if (!buffer->strides.empty()) {
      place.strides[d] = exprs.EmitIndex(buffer->strides[d]);
      continue;
    }
    place.strides[d] = stride;
    stride = b.CreateMul(stride, exprs.EmitIndex(buffer->shape[d]));
  }
  return place;
}

void BindBlockIndices(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch,
                      Value* index) {
  std::vector<Value*> extents, block;
  for (const ir::Axis& axis : launch.grid) extents.push_back(exprs.EmitIndex(axis.extent));
  const auto panel = launch.annotations.find("swizzle_panel");
  int64_t rows = 0;
  if (panel != launch.annotations.end() && launch.grid.size() >= 2) {
    (void)absl::SimpleAtoi(panel->second, &rows);
  }
  Value* plane = extents.size() > 1 ? b.CreateMul(extents[0], extents[1]) : extents[0];
  Value* in_plane = extents.size() > 2 ? b.CreateURem(index, plane) : index;
  if (rows > 1) {
    Value* group_size = b.CreateMul(extents[0], b.getInt64(rows));
    Value* group = b.CreateUDiv(in_plane, group_size);
    Value* first = b.CreateMul(group, b.getInt64(rows));
    Value* left = b.CreateSub(extents[1], first);
    Value* height = b.CreateSelect(b.CreateICmpULT(left, b.getInt64(rows)), left, b.getInt64(rows));
    Value* rest = b.CreateURem(in_plane, group_size);
    block = {b.CreateUDiv(rest, height), b.CreateAdd(first, b.CreateURem(rest, height))};
  } else {
    block.push_back(extents.size() > 1 ? b.CreateURem(in_plane, extents[0]) : in_plane);
    if (extents.size() > 1) block.push_back(b.CreateUDiv(in_plane, extents[0]));
  }
  if (extents.size() > 2) block.push_back(b.CreateUDiv(index, plane));
  for (size_t i = 0; i < launch.grid.size(); ++i) {
    const Expr& var = launch.grid[i].var;
    exprs.BindVar(var, b.CreateTrunc(block[i], exprs.RegisterType(var.dtype())));
  }
}

Value* EmitBlockCount(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch) {
  Value* count = b.getInt64(1);
  for (const ir::Axis& axis : launch.grid) count = b.CreateMul(count, exprs.EmitIndex(axis.extent));
  return count;
}

int64_t ConstantBlockCount(const ir::Launch& launch) {
  int64_t count = 1;
  for (const ir::Axis& axis : launch.grid) count *= ir::ConstInt(axis.extent).value_or(0);
  return count;
}

}  // namespace kiln::codegen
