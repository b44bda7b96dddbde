// A kernel seen from outside: what its signature says of every parameter, and the tensors that
// arguments name by shape and element type alone.
#ifndef KILN_COMPILER_LANG_INTERFACE_H_
#define KILN_COMPILER_LANG_INTERFACE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/dtype.h"
#include "compiler/lang/kernel.h"

namespace kiln::lang {

// One dimension or stride of a tensor parameter.
struct Dimension {
  enum Kind {
    kLiteral,   // 128: the tensor's must be equal
    kConstant,  // a compile-time size that comes from the tensor; another value, another program
    kRuntime,   // a size that is known when the kernel runs
    kComputed,  // an expression of such sizes
  };
  Kind kind = kLiteral;
  std::string text;     // "128", "A_shape_0", "K"
  DType type = kInt32;  // of a run-time size
};

struct ParamSignature {
  ParamInfo info;
  bool declared = false;  // a tensor whose shape the annotation says
  bool pointer = false;   // T.ptr: its shape is said in the body
  bool strided = false;   // T.StridedTensor; else row-major
  std::vector<Dimension> shape, strides;
  // Of a tensor, a run-time scalar; of a tensor none = whatever the tensor has.
  std::optional<DType> dtype;
};

struct Signature {
  std::string kernel;
  std::vector<ParamSignature> params;  // in order
};

// What the annotations say without a value for any size: a T.dyn size is a run-time one, an `int`
// or T.const size a constant that may vary. `arguments` may be missing or incomplete. Errors are
// those of elaboration before every tensor has its annotation.
absl::StatusOr<Signature> ReadSignature(const Kernel& kernel, const Arguments& arguments,
                                        const TargetFacts& target = {});

// As Python prints the annotations of a function, a parameter a line:
//   {'A': TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16')),
//    'block_M': block_M$}
// `$` marks a compile-time constant that may vary, `$dyn` a run-time value.
std::string ToString(const Signature& signature);

// Arguments as a call has them, made those of elaboration.
struct ClosedArguments {
  // Placeholders are replaced by the constants that the kernel reads from them, and run-time
  // values are left out: calls that need the same program have the same arguments.
  Arguments arguments;
  std::map<std::string, std::string> runtime;  // sizes and scalars that were given or follow
  std::vector<std::string> notes;              // what a caller may have meant otherwise
};

// Tensor parameters take a placeholder, T.Tensor((1024, 512), T.float16) or
// T.StridedTensor(shape, strides, dtype). kInvalidArgument where it does not fit the annotation:
// another rank, a literal or a shared size that differs, strides where the tensor is row-major. An
// annotation that names an element type keeps it, with a note when the placeholder has another.
// Elaborates the kernel; other errors are Elaborate's.
absl::StatusOr<ClosedArguments> CloseArguments(const Kernel& kernel, const Arguments& arguments,
                                               const Config& config, const TargetFacts& target = {},
                                               const Limits& limits = {});

// Sets of arguments that the file itself lists: `name` is a list of dicts or a function without
// parameters that returns one, as for par_compile. Values are literal texts.
absl::StatusOr<std::vector<Arguments>> ListedArguments(const Kernel& kernel, absl::string_view name,
                                                       const TargetFacts& target = {},
                                                       const Limits& limits = {});

// ---- Private to compiler/lang ----

constexpr size_t kMaxArgumentText = 4096;  // bytes of one argument

// A tensor that is known by its shape and type alone.
struct Placeholder {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: row-major
  std::optional<DType> dtype;
  bool bytes = false;  // it was given by its bytes: `shape` counts the elements in them
};

// The elaborator's part of the above.
struct Interface {
  struct Size {
    std::string text;    // a literal
    std::string tensor;  // that has it
  };
  std::map<std::string, Placeholder> placeholders;  // by parameter
  std::map<std::string, Size> sizes;                // constants that they give
  std::map<std::string, std::string> used;          // of these, the ones that were read
  std::map<std::string, int64_t> runtime;           // run-time sizes that follow
  std::vector<std::string> notes;
  Signature* signature = nullptr;  // filled while tensors are declared; sizes have no values then
  size_t first_tensor = 0;         // of the signature: a factory's own parameters come first
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_INTERFACE_H_
