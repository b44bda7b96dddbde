// What a pass is: a pure function from program to program.
//
// Every pass sits in a file of its own: the header is one paragraph (what it does, what it needs,
// what it guarantees) and one function. Passes read nothing but their arguments; a program that a
// pass does not change comes back as the same objects. kResourceExhausted and kInvalidArgument mean
// that the config cannot be built (a candidate that fails); kUnimplemented names what is missing.
#ifndef KILN_COMPILER_PASSES_PASS_H_
#define KILN_COMPILER_PASSES_PASS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"
#include "compiler/target/arch.h"

namespace kiln::passes {

// What the CPU passes need to know of the target's vector unit.
struct VectorUnit {
  int bits = 512;                            // width of one register
  int registers = 32;                        // architectural vector registers
  int64_t scratch_limit = int64_t{1} << 30;  // bytes of on-chip storage a block may ask for
  // Outputs from this size on go past the caches: twice as fast to write there, and from here on a
  // reader that follows at once does not lose what the writer gains (tests/bench/anchors).
  int64_t stream_bytes = int64_t{16} << 20;
  int Lanes(DType type) const { return bits / type.bits; }
};

struct PassContext {
  VectorUnit vector;
  bool amx_bf16 = false;  // tile registers that multiply bfloat16
  // The GPU whose threads and matrix instructions the thread-level passes work for; must outlive
  // the pipeline. Null: sm_80.
  const target::Arch* gpu = nullptr;
  // Products become instructions of tensor cores; else they stay arithmetic that the interpreter
  // runs thread by thread.
  bool instruct = false;
};

// `context.gpu`, or sm_80.
const target::Arch& GpuOf(const PassContext& context);

using PassFunction = absl::StatusOr<ir::Program> (*)(const ir::Program&, const PassContext&);

struct Pass {
  const char* name;
  PassFunction run;
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PASS_H_
