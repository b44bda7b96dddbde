// Where a CUDA Toolkit may be on this machine. Nothing of it is needed to build or to start.
#ifndef KILN_COMPILER_BASE_CUDA_TOOLKIT_H_
#define KILN_COMPILER_BASE_CUDA_TOOLKIT_H_

#include <string>
#include <vector>

namespace kiln {

// Folders to look into, the first one first: KILN_CUDA_PATH, /usr/local/cuda.
std::vector<std::string> ToolkitFolders();

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_CUDA_TOOLKIT_H_
