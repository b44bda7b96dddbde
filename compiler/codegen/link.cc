#include "compiler/codegen/link.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace kiln::codegen {
namespace {

namespace fs = std::filesystem;

// A folder of our own that goes with the object.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make() {
    std::error_code error;
    std::string pattern = (fs::temp_directory_path(error) / "kiln-link-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot make a temporary folder like ", pattern));
    }
    return TemporaryFolder(pattern);
  }
  TemporaryFolder(TemporaryFolder&& other) : path_(std::exchange(other.path_, {})) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  std::string File(const char* name) const { return absl::StrCat(path_, "/", name); }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The file of a library that this process has loaded: what it runs with, the artifact links
// against. Symbol versions come out right without a development package. By name and not by a
// symbol's address: somebody else's malloc may stand before libc's.
std::string LoadedLibrary(const char* soname) {
  void* const handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return "";
  link_map* map = nullptr;
  const std::string path =
      dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
  dlclose(handle);
  return path;
}

}  // namespace

absl::StatusOr<std::string> LinkSharedObject(absl::string_view object, const std::string& soname) {
  KILN_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string input = folder.File("kernel.o");
  const std::string output = folder.File("kernel.so");
  std::ofstream(input, std::ios::binary).write(object.data(), object.size());
  const std::string libc = LoadedLibrary("libc.so.6"), libm = LoadedLibrary("libm.so.6");
  std::vector<const char*> args = {
      "ld.lld",       "-shared",     "--hash-style=gnu", "--build-id=none",
      "-z",           "noexecstack", "--as-needed",      "-soname",
      soname.c_str(), "-o",          output.c_str(),     input.c_str()};
  if (!libm.empty()) args.push_back(libm.c_str());
  if (!libc.empty()) args.push_back(libc.c_str());
  std::string messages;
  {
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    llvm::raw_string_ostream stream(messages);
    const lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0) {
      return absl::InternalError(absl::StrCat("linking the artifact failed: ", messages));
    }
  }
  std::ifstream linked(output, std::ios::binary);
  std::ostringstream bytes;
  bytes << linked.rdbuf();
  if (!linked) return absl::InternalError("the linker wrote no output");
  return bytes.str();
}

}  // namespace kiln::codegen
