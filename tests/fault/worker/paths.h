// Where the tests of this folder find the binaries of the build.
#ifndef KILN_TESTS_FAULT_WORKER_PATHS_H_
#define KILN_TESTS_FAULT_WORKER_PATHS_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace kiln::worker {

inline std::string TestBinaryFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}
inline std::string FakeChildPath() { return TestBinaryFolder() + "/kiln-fake-child"; }
inline std::string WorkerPath() { return TestBinaryFolder() + "/../bin/kiln-worker"; }

// A folder that is removed at the end.
class ScratchDir {
 public:
  ScratchDir() {
    // Asked once: tests point TMPDIR into their own folder.
    static const std::string base = std::filesystem::temp_directory_path().string();
    std::string pattern = base + "/kiln-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kiln::worker

#endif  // KILN_TESTS_FAULT_WORKER_PATHS_H_
