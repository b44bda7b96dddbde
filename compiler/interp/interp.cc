#include "compiler/interp/interp.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "compiler/base/status.h"
#include "compiler/interp/execution.h"

namespace kiln::interp {

absl::StatusOr<Stats> Run(const ir::Program& program, const std::vector<TensorView>& params,
                          const Options& options) {
  KILN_ASSIGN_OR_RETURN(const auto execution, Execution::Create(program, options));
  KILN_RETURN_IF_ERROR(execution->BindScalars(params));
  KILN_RETURN_IF_ERROR(execution->BindTensors(params));
  KILN_RETURN_IF_ERROR(execution->Run());
  return execution->stats();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> ParamShapes(const ir::Program& program,
                                                              const Options& options) {
  KILN_ASSIGN_OR_RETURN(const auto execution, Execution::Create(program, options));
  KILN_RETURN_IF_ERROR(execution->BindScalars({}));
  return execution->Shapes();
}

absl::StatusOr<std::vector<Tensor>> RandomArguments(const ir::Program& program,
                                                    const Options& options, uint64_t seed) {
  KILN_ASSIGN_OR_RETURN(const auto execution, Execution::Create(program, options));
  KILN_RETURN_IF_ERROR(execution->BindScalars({}));
  KILN_ASSIGN_OR_RETURN(const auto shapes, execution->Shapes());
  const std::vector<std::vector<int64_t>> strides = execution->Strides();
  const std::vector<const ir::Param*> params = TensorParams(program);
  double bytes = 0;
  for (size_t t = 0; t < shapes.size(); ++t) {
    double elements = 1, last = 0;
    for (size_t d = 0; d < shapes[t].size(); ++d) {
      const auto extent = static_cast<double>(shapes[t][d]);
      elements *= extent;
      if (strides[t].empty()) continue;
      if (strides[t][d] < 0) return absl::InvalidArgumentError("a negative stride");
      last += std::max(0.0, extent - 1) * static_cast<double>(strides[t][d]);
    }
    bytes += std::max(elements, last + 1) * params[t]->buffer->dtype.bytes();
  }
  if (bytes > static_cast<double>(options.max_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("the tensors take %.3g GiB, more than the limit of %.3g GiB; run it with "
                        "smaller sizes",
                        bytes / 0x1p30, static_cast<double>(options.max_bytes) / 0x1p30));
  }
  std::vector<Tensor> tensors;
  for (size_t t = 0; t < shapes.size(); ++t) {
    const DType type = params[t]->buffer->dtype;
    tensors.emplace_back(type, shapes[t], strides[t]);
    const TensorView view = tensors.back().View();
    if (!params[t]->is_output) {
      FillRandom(view, seed + t);
      continue;
    }
    const double pattern = type.is_float() ? NAN : type.is_bool() ? 0 : 91;
    const int64_t n = view.elements();
    for (int64_t i = 0; i < n; ++i) view.Set(i, pattern);
  }
  return tensors;
}

}  // namespace kiln::interp
