#include "compiler/codegen/assembler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"

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

void* OpenLibrary(std::vector<std::string>* tried) {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("KILN_CUDA_PATH")) {
    folders.push_back(absl::StrCat(path, "/lib64/"));
  }
  folders.insert(folders.end(), {"", "/usr/local/cuda/lib64/"});
  for (const std::string& folder : folders) {
    for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12"}) {
      tried->push_back(folder + name);
      if (void* library = ::dlopen(tried->back().c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

absl::StatusOr<Library> LoadLibrary() {
  std::vector<std::string> tried;
  void* handle = OpenLibrary(&tried);
  if (handle == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "no assembler for GPU code: ", absl::StrJoin(tried, ", "),
        " cannot be loaded; install the CUDA Toolkit or set KILN_CUDA_PATH to its folder"));
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
  return absl::UnavailableError(absl::StrCat(tried.back(), " has no ", missing));
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

// "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads" and "Used 40 registers".
void ReadResources(Cubin* cubin) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(cubin->log, absl::ByAnyChar(" \n,"), absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(words[i], &value)) continue;
    if (words[i + 1] == "registers") {
      cubin->registers = std::max(cubin->registers, static_cast<int>(value));
    } else if (i + 2 < words.size() && words[i + 1] == "bytes" && words[i + 2] == "stack") {
      cubin->stack_bytes = std::max(cubin->stack_bytes, value);
    } else if (i + 2 < words.size() && words[i + 1] == "bytes" && words[i + 2] == "spill") {
      cubin->spill_bytes += value;
    }
  }
}

absl::Status Refusal(const std::string& log) {
  const std::string words = absl::StrCat("the assembler refuses the PTX: ", log);
  const bool resources = absl::StrContains(log, "too much shared data") ||
                         absl::StrContains(log, "too many registers");
  return resources ? absl::ResourceExhaustedError(words) : absl::InternalError(words);
}

}  // namespace

absl::StatusOr<Cubin> Assemble(const std::string& ptx, const std::string& arch, int level) {
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
  Cubin cubin;
  size_t size = 0;
  const bool ok = library.add(link, kPtx, ptx.data(), ptx.size(), "kernel.ptx") == kOk &&
                  library.complete(link) == kOk && library.cubin_size(link, &size) == kOk;
  absl::Status status;
  if (ok) {
    cubin.bytes.resize(size);
    if (library.cubin(link, cubin.bytes.data()) != kOk) status = absl::InternalError("no cubin");
    cubin.log = Log(link, library.info_size, library.info);
    ReadResources(&cubin);
  } else {
    status = Refusal(Log(link, library.error_size, library.error));
  }
  library.destroy(&link);
  KILN_RETURN_IF_ERROR(status);
  return cubin;
}

absl::StatusOr<std::string> AssemblerVersion() {
  KILN_RETURN_IF_ERROR(TheLibrary().status());
  unsigned major = 0, minor = 0;
  if (TheLibrary()->version(&major, &minor) != kOk) return absl::InternalError("nvJitLinkVersion");
  return absl::StrCat("nvJitLink ", major, ".", minor);
}

}  // namespace kiln::codegen
