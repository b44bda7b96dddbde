#include <dlfcn.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/base/status.h"
#include "compiler/codegen/assemblers.h"

namespace kiln::codegen {
namespace {

// The library's interface, as far as it is used (nvJitLink's documentation, "User Interface").
using Handle = struct nvJitLink*;
constexpr int kOk = 0;
constexpr int kPtx = 2;  // NVJITLINK_INPUT_PTX

struct Library {
  int (*create)(Handle*, uint32_t, const char**) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*add)(Handle, int, const void*, size_t, const char*) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*error_size)(Handle, size_t*) = nullptr;
  int (*error)(Handle, char*) = nullptr;
  int (*info_size)(Handle, size_t*) = nullptr;
  int (*info)(Handle, char*) = nullptr;
  int (*version)(unsigned*, unsigned*) = nullptr;
};

void* OpenLibrary() {
  for (const std::string& name : ToolkitLibraries("libnvJitLink", "nvjitlink")) {
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

absl::StatusOr<Library> LoadLibrary() {
  void* handle = OpenLibrary();
  if (handle == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("no nvJitLink (libnvJitLink.so.13 or .12): ", ToolkitRemedy()));
  }
  Library library;
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(handle, name));
    if (*function == nullptr) missing = name;
  };
  find("nvJitLinkCreate", &library.create);
  find("nvJitLinkDestroy", &library.destroy);
  find("nvJitLinkAddData", &library.add);
  find("nvJitLinkComplete", &library.complete);
  find("nvJitLinkGetLinkedCubinSize", &library.cubin_size);
  find("nvJitLinkGetLinkedCubin", &library.cubin);
  find("nvJitLinkGetErrorLogSize", &library.error_size);
  find("nvJitLinkGetErrorLog", &library.error);
  find("nvJitLinkGetInfoLogSize", &library.info_size);
  find("nvJitLinkGetInfoLog", &library.info);
  find("nvJitLinkVersion", &library.version);
  if (missing.empty()) return library;
  return absl::UnavailableError(absl::StrCat("nvJitLink has no ", missing));
}

const absl::StatusOr<Library>& TheLibrary() {
  static const absl::StatusOr<Library>* const library = new absl::StatusOr<Library>(LoadLibrary());
  return *library;
}

std::string Log(Handle link, int (*size_of)(Handle, size_t*), int (*read)(Handle, char*)) {
  size_t size = 0;
  if (size_of(link, &size) != kOk || size == 0) return {};
  std::string text(size, '\0');
  if (read(link, text.data()) != kOk) return {};
  text.resize(text.find_last_not_of(std::string("\0\n", 2)) + 1);
  return text;
}

}  // namespace

absl::StatusOr<std::string> NvJitLinkVersion() {
  KILN_RETURN_IF_ERROR(TheLibrary().status());
  unsigned major = 0, minor = 0;
  if (TheLibrary()->version(&major, &minor) != kOk) return absl::InternalError("nvJitLinkVersion");
  return absl::StrCat("nvJitLink ", major, ".", minor);
}

absl::StatusOr<Assembled> RunNvJitLink(const std::string& ptx, const std::string& arch, int level) {
  KILN_RETURN_IF_ERROR(TheLibrary().status());
  const Library& library = *TheLibrary();
  const std::string target = absl::StrCat("-arch=", arch);
  // -O1 and -O2 only pass through (the linker itself knows -O0 and -O3).
  const std::string optimise = absl::StrCat("-Xptxas=-O", level);
  const char* options[] = {target.c_str(), optimise.c_str(), "-verbose", "-Xptxas=-v"};
  Handle link = nullptr;
  if (library.create(&link, std::size(options), options) != kOk) {
    return absl::InvalidArgumentError(
        absl::StrCat("the assembler does not know ", arch, " at -O", level));
  }
  Assembled out;
  size_t size = 0;
  bool ok = library.add(link, kPtx, ptx.data(), ptx.size(), "kernel.ptx") == kOk &&
            library.complete(link) == kOk && library.cubin_size(link, &size) == kOk;
  if (ok) {
    out.bytes.resize(size);
    ok = library.cubin(link, out.bytes.data()) == kOk;
  }
  out.log = ok ? Log(link, library.info_size, library.info)
               : Log(link, library.error_size, library.error);
  library.destroy(&link);
  if (ok) return out;
  return absl::InternalError(out.log);
}

}  // namespace kiln::codegen
