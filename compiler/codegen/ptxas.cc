#include <string.h>
#include <sys/wait.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/base/status.h"
#include "compiler/codegen/assemblers.h"
#include "compiler/codegen/ptxas_server.h"
#include "compiler/codegen/temporary_folder.h"
#include "llvm/Support/Program.h"

namespace kiln::codegen {
namespace {

// The exit code of what ended with a wait status; kUnavailable when a signal ended it.
absl::StatusOr<int> ExitCode(const PtxasCommand& command, int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return absl::UnavailableError(absl::StrCat(command.path, " did not run to its end: signal ",
                                             WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                                             ")"));
}

absl::StatusOr<std::string> FindPtxas() {
  std::vector<std::string> folders;
  for (const std::string& toolkit : ToolkitFolders()) folders.push_back(toolkit + "/bin");
  std::vector<llvm::StringRef> places(folders.begin(), folders.end());
  if (const auto found = llvm::sys::findProgramByName("ptxas", places)) return *found;
  if (const auto found = llvm::sys::findProgramByName("ptxas")) return *found;
  return absl::UnavailableError(
      absl::StrCat("no ptxas in ", absl::StrJoin(folders, ", "), " or on the path"));
}

struct Ptxas {
  std::string path, version;
};

// "Cuda compilation tools, release 13.0, V13.0.88"
absl::StatusOr<Ptxas> LoadPtxas() {
  Ptxas ptxas;
  KILN_ASSIGN_OR_RETURN(const std::string found, FindPtxas());
  std::error_code error;
  ptxas.path = std::filesystem::absolute(found, error).string();  // it runs in folders of its own
  if (error) return absl::UnavailableError(absl::StrCat(found, ": ", error.message()));
  KILN_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const PtxasCommand command = {ptxas.path, {"--version"}};
  KILN_ASSIGN_OR_RETURN(const int status, RunPtxasOnce(folder.Path(), command));
  KILN_ASSIGN_OR_RETURN(const int code, ExitCode(command, status));
  const std::string printed = folder.Read(kPtxasPrinted);
  if (code != 0) {
    return absl::UnavailableError(absl::StrCat(ptxas.path, " --version fails: ", printed));
  }
  const std::vector<std::string> words = absl::StrSplit(printed, absl::ByAnyChar(" \n,"));
  for (const std::string& word : words) {
    if (word.size() > 1 && word[0] == 'V' && absl::ascii_isdigit(word[1])) {
      ptxas.version = absl::StrCat("ptxas ", word.substr(1));
      return ptxas;
    }
  }
  return absl::UnavailableError(absl::StrCat(ptxas.path, " does not tell its version: ", printed));
}

const absl::StatusOr<Ptxas>& ThePtxas() {
  static const absl::StatusOr<Ptxas>* const ptxas = new absl::StatusOr<Ptxas>(LoadPtxas());
  return *ptxas;
}

}  // namespace

absl::StatusOr<std::string> PtxasVersion() {
  KILN_RETURN_IF_ERROR(ThePtxas().status());
  return ThePtxas()->version;
}

absl::StatusOr<Assembled> RunPtxas(const std::string& ptx, const std::string& arch, int level) {
  KILN_RETURN_IF_ERROR(ThePtxas().status());
  KILN_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  folder.Write(kPtxasInput, ptx);
  const PtxasCommand command = {ThePtxas()->path,
                                {absl::StrCat("-arch=", arch), absl::StrCat("-O", level), "-v",
                                 "-o", "kernel.cubin", kPtxasInput}};
  KILN_ASSIGN_OR_RETURN(const int status, RunPtxasIn(folder.Path(), command));
  KILN_ASSIGN_OR_RETURN(const int code, ExitCode(command, status));
  Assembled out;
  out.log = folder.Read(kPtxasPrinted);
  out.bytes = folder.Read("kernel.cubin");
  if (code == 0 && !out.bytes.empty()) return out;
  return absl::InternalError(out.log.empty() ? absl::StrCat("exit code ", code) : out.log);
}

}  // namespace kiln::codegen
