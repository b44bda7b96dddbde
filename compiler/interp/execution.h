// One run of a program: compile, bind arguments, execute. Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_EXECUTION_H_
#define KILN_COMPILER_INTERP_EXECUTION_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/clusters.h"
#include "compiler/interp/compiler.h"

namespace kiln::interp {

class Execution {
 public:
  // `program` and `options` must outlive the execution.
  static absl::StatusOr<std::unique_ptr<Execution>> Create(const ir::Program& program,
                                                           const Options& options);

  // Gives values to run-time dimensions and scalars: from the options, and dimensions that are
  // missing there from the shapes of `params` (may be empty).
  absl::Status BindScalars(const std::vector<TensorView>& params);
  // The shapes of the tensor parameters; after BindScalars.
  absl::StatusOr<std::vector<std::vector<int64_t>>> Shapes();
  std::vector<std::vector<int64_t>> Strides();  // of a row-major tensor: empty
  // Checks the views and makes them the buffers; after BindScalars.
  absl::Status BindTensors(const std::vector<TensorView>& params);
  absl::Status Run();

  Stats stats() const { return {machine_.blocks_run, machine_.steps()}; }
  Machine& machine() { return machine_; }
  // The buffer of tensor parameter i.
  BufferState& tensor(int i) { return machine_.buffers[compiled_.tensors[i].slot]; }
  // Value of a run-time dimension or an integer scalar parameter; after BindScalars.
  int64_t IntValue(const ir::Expr& var);

 private:
  Execution(const ir::Program& program, const Options& options)
      : program_(JoinClusters(program)),
        options_(options),
        compiler_(program_, options),
        machine_(program_, options) {}
  absl::Status BindDims(const std::vector<TensorView>& params);
  absl::Status BindTensor(const ir::Param& param, const ParamLayout& layout,
                          const TensorView& view);

  const ir::Program program_;
  const Options& options_;
  Compiler compiler_;
  Machine machine_;
  Compiled compiled_;
};

// The tensor parameters of a program, in order.
std::vector<const ir::Param*> TensorParams(const ir::Program& program);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_EXECUTION_H_
