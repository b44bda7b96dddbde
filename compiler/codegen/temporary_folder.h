// A folder of our own that goes with the object. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_TEMPORARY_FOLDER_H_
#define KILN_COMPILER_CODEGEN_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace kiln::codegen {

class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make() {
    std::error_code error;
    std::filesystem::path place = std::filesystem::temp_directory_path(error);
    if (error) place = ".";
    if (const auto whole = std::filesystem::absolute(place, error); !error) place = whole;
    std::string pattern = (place / "kiln-build-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot make a temporary folder like ", pattern));
    }
    return TemporaryFolder(pattern);
  }
  TemporaryFolder(TemporaryFolder&& other) : path_(std::exchange(other.path_, {})) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& Path() const { return path_; }
  std::string File(const char* name) const { return absl::StrCat(path_, "/", name); }
  void Write(const char* name, absl::string_view bytes) const {
    std::ofstream(File(name), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // Empty when there is no such file.
  std::string Read(const char* name) const {
    std::ostringstream bytes;
    bytes << std::ifstream(File(name), std::ios::binary).rdbuf();
    return bytes.str();
  }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_TEMPORARY_FOLDER_H_
