#include "compiler/interp/execution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/verify.h"

namespace kiln::interp {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

// Whether a view may stand for a parameter of type `wanted`.
bool FitsType(DType view, DType wanted, Mode mode) {
  if (view == wanted) return true;
  return mode == Mode::kDouble && wanted.is_float() && view.is_float() && view.is_scalar();
}

}  // namespace

std::vector<const ir::Param*> TensorParams(const ir::Program& program) {
  std::vector<const ir::Param*> list;
  for (const ir::Param& param : program.params) {
    if (param.kind == ir::Param::kTensor) list.push_back(&param);
  }
  return list;
}

absl::StatusOr<std::unique_ptr<Execution>> Execution::Create(const ir::Program& program,
                                                             const Options& options) {
  KILN_RETURN_IF_ERROR(ir::Verify(program));
  std::unique_ptr<Execution> e(new Execution(program, options));
  KILN_ASSIGN_OR_RETURN(e->compiled_, e->compiler_.Compile());
  e->machine_.ints.resize(static_cast<size_t>(e->compiled_.int_slots));
  e->machine_.reals.resize(static_cast<size_t>(e->compiled_.real_slots));
  e->machine_.buffers.resize(static_cast<size_t>(e->compiled_.buffer_slots));
  return e;
}

int64_t Execution::IntValue(const ir::Expr& var) {
  return machine_.ints[static_cast<size_t>(compiler_.SlotOf(var))];
}

absl::Status Execution::BindDims(const std::vector<TensorView>& params) {
  const std::vector<const ir::Param*> tensors = TensorParams(program_);
  for (const ir::Expr& dim : program_.dims) {
    const std::string& name = dim.As<ir::Var>()->name;
    std::optional<int64_t> value;
    if (const auto given = options_.dims.find(name); given != options_.dims.end()) {
      value = given->second;
    }
    for (size_t t = 0; !value && t < params.size() && t < tensors.size(); ++t) {
      const auto& shape = tensors[t]->buffer->shape;
      for (size_t d = 0; d < shape.size() && d < params[t].shape.size(); ++d) {
        if (ir::IsSize(shape[d], dim)) value = params[t].shape[d];
      }
    }
    if (!value) {
      return absl::InvalidArgumentError(
          absl::StrCat("run-time dimension '", name, "' has no value: give it in dims"));
    }
    machine_.ints[static_cast<size_t>(compiler_.SlotOf(dim))] = *value;
  }
  return absl::OkStatus();
}

absl::Status Execution::BindScalars(const std::vector<TensorView>& params) {
  KILN_RETURN_IF_ERROR(BindDims(params));
  for (const ir::Param& param : program_.params) {
    if (param.kind != ir::Param::kScalar) continue;
    double value;
    if (const auto given = options_.scalars.find(param.name); given != options_.scalars.end()) {
      value = given->second;
    } else if (const auto dim = options_.dims.find(param.name); dim != options_.dims.end()) {
      value = static_cast<double>(dim->second);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("scalar parameter '", param.name, "' has no value: give it in scalars"));
    }
    const DType type = param.scalar.dtype();
    const auto slot = static_cast<size_t>(compiler_.SlotOf(param.scalar));
    if (IsReal(type)) {
      machine_.reals[slot] = Round(value, RoundingOf(type, options_.mode));
    } else {
      machine_.ints[slot] = ir::FloatToInt(value, type);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> Execution::Shapes() {
  std::vector<std::vector<int64_t>> shapes;
  const std::vector<const ir::Param*> params = TensorParams(program_);
  for (size_t t = 0; t < params.size(); ++t) {
    std::vector<int64_t> shape;
    for (const NodePtr& extent : compiled_.tensors[t].shape) shape.push_back(extent->Int(machine_));
    KILN_RETURN_IF_ERROR(machine_.status());
    if (std::any_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; })) {
      return absl::InvalidArgumentError(absl::StrCat("the shape of '", params[t]->name, "' is ",
                                                     ShapeText(shape),
                                                     ": give dimensions of at least 0"));
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<std::vector<int64_t>> Execution::Strides() {
  std::vector<std::vector<int64_t>> all;
  for (const ParamLayout& layout : compiled_.tensors) {
    all.emplace_back();
    for (const NodePtr& stride : layout.strides) all.back().push_back(stride->Int(machine_));
  }
  return all;
}

absl::Status Execution::BindTensor(const ir::Param& param, const ParamLayout& layout,
                                   const TensorView& view) {
  const auto fail = [&](std::string what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", param.name, "': ", what));
  };
  if (!FitsType(view.dtype, param.buffer->dtype, options_.mode)) {
    return fail(absl::StrCat("the view is ", view.dtype.ToString(), ", the parameter is ",
                             param.buffer->dtype.ToString()));
  }
  BufferState& b = machine_.buffers[static_cast<size_t>(layout.slot)];
  b.node = param.buffer.get();
  b.real = IsReal(param.buffer->dtype);
  b.global = true;
  b.dtype = param.buffer->dtype;
  b.storage = StorageOf(view.dtype);
  b.rounding = RoundingOf(param.buffer->dtype, options_.mode);
  b.rank = static_cast<int>(view.shape.size());
  b.data = static_cast<char*>(view.data);
  if (!view.strides.empty() && view.strides.size() != view.shape.size()) {
    return fail("the view has as many strides as dimensions, or none");
  }
  int64_t contiguous = 1, last = 0;
  bool empty = false;
  for (int d = b.rank - 1; d >= 0; --d) {
    b.shape[d] = view.shape[d];
    b.stride[d] = view.strides.empty() ? contiguous : view.strides[d];
    if (b.stride[d] < 0) return fail("a negative stride");
    if (!layout.strides.empty() && b.shape[d] > 1 &&
        layout.strides[d]->Int(machine_) != b.stride[d]) {
      return fail(absl::StrCat("stride ", b.stride[d], " of dimension ", d,
                               ", the parameter declares ", layout.strides[d]->Int(machine_)));
    }
    if (__builtin_mul_overflow(contiguous, std::max<int64_t>(b.shape[d], 1), &contiguous)) {
      return fail("more elements than fit in memory");
    }
    empty |= b.shape[d] == 0;
    last += (b.shape[d] - 1) * b.stride[d];
  }
  b.span = empty ? 0 : last + 1;
  b.capacity = b.span;
  if (!b.data && b.span > 0) return fail("the view has no data");
  b.track_written = param.is_output && options_.detect_uninitialised;
  if (b.track_written) {
    b.written.reset(static_cast<uint8_t*>(std::calloc(static_cast<size_t>(b.span) + 1, 1)));
    if (!b.written) return absl::ResourceExhaustedError("out of memory");
  }
  return absl::OkStatus();
}

absl::Status Execution::BindTensors(const std::vector<TensorView>& params) {
  const std::vector<const ir::Param*> tensors = TensorParams(program_);
  if (params.size() != tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", program_.name, "' has ", tensors.size(),
                                                   " tensor parameters, got ", params.size()));
  }
  KILN_ASSIGN_OR_RETURN(const auto shapes, Shapes());
  for (size_t t = 0; t < params.size(); ++t) {
    if (params[t].shape != shapes[t]) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensors[t]->name,
                                                     "': the view is ", ShapeText(params[t].shape),
                                                     ", the parameter is ", ShapeText(shapes[t])));
    }
    KILN_RETURN_IF_ERROR(BindTensor(*tensors[t], compiled_.tensors[t], params[t]));
    KILN_RETURN_IF_ERROR(machine_.status());
  }
  return absl::OkStatus();
}

absl::Status Execution::Run() {
  compiled_.body->Run(machine_);
  return machine_.status();
}

}  // namespace kiln::interp
