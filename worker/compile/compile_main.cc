// kiln-compile: the child process that compiles. Serves one request at a time on descriptor 3 until
// its parent closes it. Started by kiln-worker; of no use by hand, but for --help and --version.
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/cuda_toolkit.h"
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
  hello.add_compile_targets("sm");
  const absl::StatusOr<std::string> found = codegen::AssemblerVersion();
  const std::string assembler = found.value_or(kDriverAssembles);
  if (!found.ok()) {
    hello.add_notes(absl::StrCat(found.status().message(),
                                 "; until then the GPU's driver assembles each kernel when it is "
                                 "loaded, and nobody tells its registers"));
  }
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

constexpr char kHelp[] = R"(kiln-compile: compiles candidates for kiln-worker
Usage: kiln-compile [--help | --version]

kiln-worker starts it as its child and asks for one candidate at a time on descriptor 3. It has no
options for people; limits are options of kiln-worker (--compile-slots, --compile-seconds,
--compile-memory-mib). To compile by hand, use kilnc: `kilnc emit` and `kilnc par-compile`.

EXIT CODES
  0   the parent closed the channel
  1   it was not started by kiln-worker, or the channel broke
  2   usage
  97  out of memory

ENVIRONMENT
  KILN_CUDA_PATH  where the assembler for GPUs is looked for first; without one artifacts hold PTX,
                  which the driver assembles
)";

// The exit code, when the command line asks for something else than to serve.
std::optional<int> AnswerPeople(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      std::printf("%s", kHelp);
      return 0;
    }
    if (word == "--version") {
      std::printf("%s\n", codegen::CompilerBuild().c_str());
      return 0;
    }
    std::fprintf(stderr, "kiln-compile: there is no option '%s'; run with --help for more\n",
                 argv[i]);
    return 2;
  }
  if (HasParentChannel()) return std::nullopt;
  std::fprintf(stderr,
               "kiln-compile: descriptor 3 is no channel to a parent: kiln-worker starts this "
               "program; to compile by hand, use kilnc\n");
  return 1;
}

}  // namespace
}  // namespace kiln::worker

int main(int argc, char** argv) {
  if (const auto code = kiln::worker::AnswerPeople(argc, argv)) return *code;
  kiln::EnterChild();
  absl::Status status = kiln::worker::Serve();
  if (status.ok()) return 0;
  std::fprintf(stderr, "kiln-compile: %s\n", std::string(status.message()).c_str());
  return 1;
}
