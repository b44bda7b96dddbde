// kiln-compile: the child process that compiles. Serves one request at a time on descriptor 3 until
// its parent closes it. Started by kiln-worker; of no use by hand.
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/base/status.h"
#include "compiler/base/subprocess.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "worker/compile/compile_service.h"

namespace kiln::worker {
namespace {

absl::Status Serve() {
  FrameChannel channel(kChildChannelFd);
  const std::string build = codegen::CompilerBuild();
  v1::ChildHello hello;
  hello.set_compiler_build(build);
  hello.add_compile_targets("x86-64");
  // Without an assembler there is no code for GPUs, and no lease for it.
  const absl::StatusOr<std::string> found = codegen::AssemblerVersion();
  const std::string assembler = found.value_or("");
  if (!found.ok()) hello.add_notes(std::string(found.status().message()));
  if (!assembler.empty()) hello.add_compile_targets("sm");
  hello.set_assembler(assembler);
  KILN_RETURN_IF_ERROR(channel.Write(hello.SerializeAsString()));
  while (true) {
    KILN_ASSIGN_OR_RETURN(std::optional<std::string> frame, channel.Read());
    if (!frame.has_value()) return absl::OkStatus();
    v1::CompileRequest request;
    if (!request.ParseFromString(*frame)) {
      return absl::DataLossError("the parent sent bytes that are not a CompileRequest");
    }
    v1::CompileResponse response =
        ServeCompile(request, build, assembler, codegen::CompileKernel, codegen::CompileDispatch);
    KILN_RETURN_IF_ERROR(channel.Write(response.SerializeAsString()));
  }
}

}  // namespace
}  // namespace kiln::worker

int main() {
  kiln::EnterChild();
  absl::Status status = kiln::worker::Serve();
  if (status.ok()) return 0;
  std::fprintf(stderr, "kiln-compile: %s\n", std::string(status.message()).c_str());
  return 1;
}
