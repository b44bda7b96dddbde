#include "compiler/base/cuda_toolkit.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "/usr/local";

// "cuda-12.9" is before "cuda-12.10".
double VersionOf(const std::string& folder) {
  const std::string text = folder.substr(folder.rfind('-') + 1);
  const size_t dot = text.find('.');
  int major = 0, minor = 0;
  (void)absl::SimpleAtoi(text.substr(0, dot), &major);
  if (dot != std::string::npos) (void)absl::SimpleAtoi(text.substr(dot + 1), &minor);
  return major * 1000.0 + minor;
}

std::vector<std::string> InstalledFolders() {
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(kPrefix, error)) {
    const std::string path = entry.path().string();
    if (absl::StartsWith(entry.path().filename().string(), "cuda-")) folders.push_back(path);
  }
  std::sort(folders.begin(), folders.end(),
            [](const std::string& a, const std::string& b) { return VersionOf(a) > VersionOf(b); });
  return folders;
}

}  // namespace

std::vector<std::string> ToolkitFolders() {
  std::vector<std::string> folders;
  for (const char* variable : {"KILN_CUDA_PATH", "CUDA_HOME"}) {
    const char* path = std::getenv(variable);
    if (path != nullptr && *path != 0) folders.emplace_back(path);
  }
  folders.push_back(absl::StrCat(kPrefix, "/cuda"));
  for (std::string& folder : InstalledFolders()) folders.push_back(std::move(folder));
  return folders;
}

std::vector<std::string> ToolkitLibraries(const std::string& name, const std::string& wheel) {
  const std::string files[] = {absl::StrCat(name, ".so.13"), absl::StrCat(name, ".so.12"),
                               absl::StrCat(name, ".so")};
  std::vector<std::string> subfolders = {"/extras/CUPTI/lib64", "/lib64", "/lib",
                                         "/targets/x86_64-linux/lib"};
  for (const char* above : {"", "/nvidia"}) {
    subfolders.push_back(absl::StrCat(above, "/", wheel, "/lib"));
    subfolders.push_back(absl::StrCat(above, "/cu13/lib"));
  }
  subfolders.emplace_back("");
  std::vector<std::string> found;
  std::error_code error;
  for (const std::string& folder : ToolkitFolders()) {
    for (const std::string& subfolder : subfolders) {
      for (const std::string& file : files) {
        const std::string path = absl::StrCat(folder, subfolder, "/", file);
        if (fs::exists(path, error)) found.push_back(path);
      }
    }
  }
  found.insert(found.end(), std::begin(files), std::end(files));
  return found;
}

std::string ToolkitRemedy() {
  return absl::StrCat("looked in ", absl::StrJoin(ToolkitFolders(), ", "),
                      ", LD_LIBRARY_PATH and the system's folders; install the CUDA Toolkit, or "
                      "set KILN_CUDA_PATH to its folder or to the site-packages of a PyTorch");
}

}  // namespace kiln
