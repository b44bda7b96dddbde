// What kiln-compile does with one request: call the compiler, wrap what comes back. Pure but for
// the clock; the process around it is compile_main.cc.
#ifndef KILN_WORKER_COMPILE_COMPILE_SERVICE_H_
#define KILN_WORKER_COMPILE_COMPILE_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/codegen/compile.h"
#include "compiler/codegen/dispatch.h"
#include "kiln/v1/child.pb.h"

namespace kiln::worker {

using CompileFunction =
    std::function<absl::StatusOr<codegen::CompileOutput>(const codegen::CompileInput&)>;
using DispatchFunction =
    std::function<absl::StatusOr<codegen::DispatchOutput>(const codegen::DispatchInput&)>;

// Never fails itself: a bad config, a compiler error and a bad request all are a Failure in the
// response. kInvalidArgument and kUnimplemented (the kernel or the config is wrong) become stage
// ELABORATE, kResourceExhausted RESOURCES, anything else COMPILE. `assembler`: name and version of
// what makes GPU code. `dispatch` serves the request for kDispatchConfig (proto/dispatch.h).
v1::CompileResponse ServeCompile(const v1::CompileRequest& request, const std::string& build,
                                 const std::string& assembler, const CompileFunction& compile,
                                 const DispatchFunction& dispatch = {});

// The key under which a compile result can be reused: equal keys promise equal bytes. SHA-256 over
// the length-prefixed fields, in this order; `program_digest` covers shapes, dtypes and config.
std::string ArtifactIndexKey(absl::string_view program_digest, absl::string_view target,
                             absl::string_view arch_record, absl::string_view compiler_build,
                             absl::string_view assembler);

}  // namespace kiln::worker

#endif  // KILN_WORKER_COMPILE_COMPILE_SERVICE_H_
