#include "compiler/base/cuda_toolkit.h"

#include <cstdlib>

namespace kiln {

std::vector<std::string> ToolkitFolders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("KILN_CUDA_PATH")) folders.push_back(path);
  folders.push_back("/usr/local/cuda");
  return folders;
}

}  // namespace kiln
