// Compiles a tile program for this machine and calls it in this process.
#ifndef KILN_TESTS_UTIL_COMPILED_PROGRAM_H_
#define KILN_TESTS_UTIL_COMPILED_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/ir/stmt.h"
#include "compiler/passes/pass.h"

namespace kiln::testing {

// A loaded artifact. The library stays loaded for the object's life.
class CompiledProgram {
 public:
  // `vector_bits` 0 = the machine's own width; 256 compiles for AVX2 wherever it runs.
  static absl::StatusOr<CompiledProgram> Compile(const ir::Program& program, int vector_bits = 0);
  static absl::StatusOr<CompiledProgram> Compile(const ir::Program& program,
                                                 const passes::PassContext& context);

  // Loads a shared object and finds `symbol`.
  static absl::StatusOr<CompiledProgram> Load(const std::string& shared_object,
                                              const std::string& symbol);

  // Calls the entry with up to 6 pointers (and no dims); returns its result.
  int Run(const std::vector<void*>& tensors, const kiln_launch* launch = nullptr) const;
  // With trailing int64 arguments.
  int Run(const std::vector<void*>& tensors, const std::vector<int64_t>& dims,
          const kiln_launch* launch = nullptr) const;

 private:
  std::shared_ptr<void> handle_;
  void* entry_ = nullptr;
};

// The context of this machine, or of AVX2 when `vector_bits` is 256.
passes::PassContext HostPassContext(int vector_bits = 0);

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_COMPILED_PROGRAM_H_
