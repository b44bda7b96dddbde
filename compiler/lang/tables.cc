#include "compiler/lang/tables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

bool HoldsAddresses(const ir::Buffer& buffer) { return buffer->dtype.code == TypeCode::kHandle; }

// Whether two lists of extents are the same, element by element.
bool SameExtents(const std::vector<ir::Expr>& a, const std::vector<ir::Expr>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const ir::Expr& x, const ir::Expr& y) { return ir::Same(x, y); });
}

bool ReadsMemory(const std::vector<ir::Expr>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const ir::Expr& size) {
    bool loads = false;
    ir::Walk(size, [&](const ir::Expr& e) {
      loads |= e.As<ir::Load>() != nullptr;
      return !loads;
    });
    return loads;
  });
}

}  // namespace

bool IsTable(const TensorTypeObject& type) {
  return (type.dtype.Is(Type::kDType) && type.dtype.dtype().code == TypeCode::kHandle) ||
         (type.dtype.Is(Type::kStr) && type.dtype.str() == "handle");
}

absl::StatusOr<Value> DeclareTable(Elaborator& e, const std::string& name,
                                   const TensorTypeObject& type, const std::vector<ir::Expr>& shape,
                                   SourceLoc loc) {
  if (shape.size() != 1 || !type.strides.empty()) {
    return e.Unimplemented(loc,
                           absl::StrCat("a table of tensors '", name, "' of several dimensions"),
                           "write T.Tensor([n], T.ptr)");
  }
  if (const auto n = ir::ConstInt(shape[0]); n && *n < 1) {
    return e.Error(loc, absl::StrCat("the table of tensors '", name, "' has ", *n, " elements"),
                   "give it at least one");
  }
  return e.NewBuffer(ir::MakeBuffer(name, kHandle, shape, ir::Scope::kGlobal));
}

absl::Status CheckNoAddress(Elaborator& e, const ir::Buffer& buffer, SourceLoc loc) {
  if (!HoldsAddresses(buffer)) return absl::OkStatus();
  return e.Error(
      loc,
      absl::StrCat("'", buffer->name,
                   "' is a table of tensors: what it holds is where they lie, and no "
                   "number"),
      absl::StrCat("name a tensor by T.make_tensor(", buffer->name, "[i], shape, dtype)"));
}

void AlignTables(ir::Program* program) {
  const int64_t promised = ir::PassOption(*program, "kiln.table_alignment", 0);
  ir::BufferMap aligned;
  for (ir::Param& param : program->params) {
    if (param.kind != ir::Param::kTensor || !param.buffer->table) continue;
    if (promised <= param.buffer->alignment) continue;
    auto table = std::make_shared<ir::BufferNode>(*param.buffer);
    table->alignment = static_cast<int>(promised);
    aligned[param.buffer.get()] = table;
    param.buffer = std::move(table);
  }
  if (!aligned.empty()) program->body = ir::Substitute(program->body, {}, aligned);
}

absl::StatusOr<Value> Elaborator::MatchBuffer(const Value& handle, AddressedTensor type,
                                              SourceLoc loc) {
  const AccessObject* element = handle.Is(Type::kAccess) ? &handle.access() : nullptr;
  const bool in_table = element != nullptr && HoldsAddresses(element->buffer) && element->is_point;
  for (size_t slot = 0; slot < handles_.size(); ++slot) {
    if (in_table) {
      if (!handles_[slot].Is(Type::kBuffer)) continue;
      if (handles_[slot].buffer().buffer != element->buffer) continue;
      return TakeFromTable(*element, slot, std::move(type), loc);
    }
    if (!handle.Is(Type::kUnknown) || !handles_[slot].Is(Type::kUnknown)) continue;
    if (handles_[slot].pointer() != handle.pointer()) continue;
    if (slots_[slot].has_value()) {
      return Error(loc, "this handle already has a shape", "match each handle once");
    }
    name_hint_ = kernel_def_->params[slot].name;
    ir::Param param;
    param.name = kernel_def_->params[slot].name;
    KILN_ASSIGN_OR_RETURN(param.buffer,
                          NewNamedBuffer(type.dtype, std::move(type.shape), ir::Scope::kGlobal, loc,
                                         std::move(type.strides)));
    const Value buffer = NewBuffer(param.buffer);
    slots_[slot] = std::move(param);
    return buffer;
  }
  return Error(loc, absl::StrCat("T.match_buffer takes a T.ptr parameter, not ", Describe(handle)),
               "annotate the parameter with T.ptr or T.handle, or with T.Tensor([n], T.ptr) and "
               "pass an element of it");
}

absl::StatusOr<Value> Elaborator::TakeFromTable(const AccessObject& element, size_t slot,
                                                AddressedTensor type, SourceLoc loc) {
  const std::string& name = kernel_def_->params[slot].name;
  if (type.dtype.is_packed()) {
    return Unimplemented(loc, absl::StrCat("a table of tensors of ", type.dtype.ToString()),
                         "name the bytes, as uint8, and take the nibbles apart");
  }
  if (ReadsMemory(type.shape) || ReadsMemory(type.strides)) {
    return Unimplemented(loc,
                         absl::StrCat("a shape that is read from memory, of a tensor of the "
                                      "table '",
                                      name, "'"),
                         "give all tensors of a table one shape, the largest, and keep to the part "
                         "that is used");
  }
  // The index as it is now: a variable in it may change before the tensor is used.
  ExprInfo info = element.info;
  KILN_ASSIGN_OR_RETURN(Value index, NewExpr(element.indices[0].min, info, loc));
  if (IsRuntime(index)) {
    KILN_ASSIGN_OR_RETURN(index, Freeze(index, absl::StrCat(name, "_index"), loc));
  }
  KILN_ASSIGN_OR_RETURN(const Operand at, ToIndex(index, loc, "the index of a table"));
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer named,
      NewNamedBuffer(type.dtype, type.shape, ir::Scope::kGlobal, loc, type.strides, "tensor"));
  auto tensor = std::make_shared<ir::BufferNode>(*named);
  tensor->table = true;
  if (!slots_[slot].has_value()) {
    auto table = std::make_shared<ir::BufferNode>(*named);
    table->name = name;
    table->table = true;
    table->alignment = type.dtype.bytes();
    table->shape.insert(table->shape.begin(), element.buffer->shape[0]);
    // As if they lay one after the other, which those of a caller need not.
    if (!table->strides.empty()) {
      ir::Expr span = ir::MakeInt(1);
      for (size_t d = 0; d < type.shape.size(); ++d) {
        span = span + (type.shape[d] - ir::MakeInt(1)) * type.strides[d];
      }
      table->strides.insert(table->strides.begin(), span);
    }
    ir::Param param;
    param.name = name;
    param.buffer = std::move(table);
    slots_[slot] = std::move(param);
  }
  const ir::Buffer& table = slots_[slot]->buffer;
  const std::vector<ir::Expr> known(table->shape.begin() + 1, table->shape.end());
  const size_t skipped = table->strides.empty() ? 0 : 1;
  const std::vector<ir::Expr> known_strides(table->strides.begin() + static_cast<long>(skipped),
                                            table->strides.end());
  if (table->dtype != type.dtype || !SameExtents(known, type.shape) ||
      !SameExtents(known_strides, type.strides)) {
    return Unimplemented(
        loc, absl::StrCat("a second shape or element type for what the table '", name, "' holds"),
        "give tensors of another shape a table of their own");
  }
  entries_.push_back({tensor, table, at.e});
  return NewBuffer(tensor);
}

ir::Buffer ElaboratorState::MemoryOf(const ir::Buffer& name) const {
  const auto view = std::find_if(views_.begin(), views_.end(),
                                 [&](const ir::View& known) { return known.view == name; });
  const ir::Buffer& memory = view == views_.end() ? name : view->base;
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const ir::TableEntry& e) { return e.tensor == memory; });
  return entry == entries_.end() ? memory : entry->table;
}

}  // namespace kiln::lang
