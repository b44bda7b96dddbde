#include "compiler/codegen/link.h"

#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/codegen/temporary_folder.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace kiln::codegen {
namespace {

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
  folder.Write("kernel.o", object);
  const std::string libc = LoadedLibrary("libc.so.6"), libm = LoadedLibrary("libm.so.6");
  std::vector<const char*> args = {
      "ld.lld", "-shared",      "--threads=1", "--hash-style=gnu", "--build-id=none",
      "-z",     "noexecstack",  "--as-needed", "-soname",          soname.c_str(),
      "-o",     output.c_str(), input.c_str()};
  if (!libm.empty()) args.push_back(libm.c_str());
  if (!libc.empty()) args.push_back(libc.c_str());
  std::string messages;
  {
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    llvm::raw_string_ostream stream(messages);
    // In one thread, which ends with the link: lld frees what a thread has made when that ends.
    lld::Result result = {};
    std::thread([&] {
      result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
    }).join();
    if (result.retCode != 0) {
      return absl::InternalError(absl::StrCat("linking the artifact failed: ", messages));
    }
  }
  std::string bytes = folder.Read("kernel.so");
  if (bytes.empty()) return absl::InternalError("the linker wrote no output");
  return bytes;
}

}  // namespace kiln::codegen
