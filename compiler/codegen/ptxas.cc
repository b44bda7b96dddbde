#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/base/status.h"
#include "compiler/codegen/assemblers.h"
#include "compiler/codegen/temporary_folder.h"
#include "llvm/Support/Program.h"

namespace kiln::codegen {
namespace {

// This process's environment, and that glibc take memory in huge pages where the system lets it:
// the assembler takes some tens of MB for a moment, and a tenth of its time would be page faults.
std::vector<llvm::StringRef> Environment() {
  static constexpr char kHugePages[] =
      "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";
  std::vector<llvm::StringRef> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  if (std::getenv("GLIBC_TUNABLES") == nullptr) environment.push_back(kHugePages);
  return environment;
}

// Runs in this process group, so that whoever kills a compiling process kills it too. The exit
// code; kUnavailable when there is none: it could not start, or a signal ended it.
absl::StatusOr<int> Run(const std::string& program, const std::vector<std::string>& args,
                        const TemporaryFolder& folder, std::string* printed) {
  const std::string output = folder.File("printed");
  std::vector<llvm::StringRef> argv = {program};
  argv.insert(argv.end(), args.begin(), args.end());
  const std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(output),
                                                      llvm::StringRef(output)};
  std::string error;
  const int code = llvm::sys::ExecuteAndWait(program, argv, Environment(), redirects, 0, 0, &error);
  *printed = folder.Read("printed");
  if (code >= 0) return code;
  return absl::UnavailableError(absl::StrCat(program, " did not run to its end: ", error));
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
  KILN_ASSIGN_OR_RETURN(ptxas.path, FindPtxas());
  KILN_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  std::string printed;
  KILN_ASSIGN_OR_RETURN(const int code, Run(ptxas.path, {"--version"}, folder, &printed));
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
  folder.Write("kernel.ptx", ptx);
  Assembled out;
  KILN_ASSIGN_OR_RETURN(const int code,
                        Run(ThePtxas()->path,
                            {absl::StrCat("-arch=", arch), absl::StrCat("-O", level), "-v", "-o",
                             folder.File("kernel.cubin"), folder.File("kernel.ptx")},
                            folder, &out.log));
  out.bytes = folder.Read("kernel.cubin");
  if (code == 0 && !out.bytes.empty()) return out;
  return absl::InternalError(out.log.empty() ? absl::StrCat("exit code ", code) : out.log);
}

}  // namespace kiln::codegen
