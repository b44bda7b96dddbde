// Where parts of a CUDA Toolkit may be on this machine. Nothing of it is needed to build or to
// start.
#ifndef KILN_COMPILER_BASE_CUDA_TOOLKIT_H_
#define KILN_COMPILER_BASE_CUDA_TOOLKIT_H_

#include <string>
#include <vector>

namespace kiln {

// Stands for an assembler's name where there is none: artifacts hold PTX, which the driver
// assembles when it loads them.
inline constexpr char kDriverAssembles[] = "the driver";

// Folders to look into, the first one first: KILN_CUDA_PATH, CUDA_HOME, /usr/local/cuda, and what
// else of /usr/local is called cuda-..., the newest version first.
std::vector<std::string> ToolkitFolders();

// Files to try to open for the library `name` ("libcupti"), which the wheels of Python keep in
// `wheel` ("cuda_cupti"), the first one first: of version 13, 12 and of none that is told, in the
// folders of ToolkitFolders() as a toolkit lays them out, in what KILN_CUDA_PATH names itself, be
// it a wheel's folder, the folder nvidia of such or the site-packages around it, and last the bare
// names, for LD_LIBRARY_PATH and the system. Of the former only those that there are.
std::vector<std::string> ToolkitLibraries(const std::string& name, const std::string& wheel);

// Where ToolkitLibraries looks, and what to do, for a sentence that nothing was found.
std::string ToolkitRemedy();

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_CUDA_TOOLKIT_H_
