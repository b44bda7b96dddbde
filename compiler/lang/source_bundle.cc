#include "compiler/lang/source_bundle.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/base/diagnostic.h"
#include "compiler/lang/builtin.h"
#include "compiler/lang/kernel.h"
#include "compiler/lang/module.h"
#include "compiler/lang/parser.h"

namespace kiln::lang {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 64;
constexpr size_t kMarkRoom = 512;  // of the line that names a file

struct File {
  std::string module;
  bool package = false;
  std::string relative;  // its path in the kernel file's folder
  std::string text;
  bool too_large = false;
};

std::optional<std::string> Read(const fs::path& path, size_t room) {
  std::error_code error;
  if (fs::file_size(path, error) > room || error) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return std::nullopt;
  std::string read = std::move(text).str();
  constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";
  if (absl::StartsWith(read, kByteOrderMark)) read.erase(0, 3);
  return read;
}

std::optional<File> Find(const fs::path& folder, const std::string& module, size_t room) {
  const std::string base = absl::StrReplaceAll(module, {{".", "/"}});
  for (const bool package : {true, false}) {  // as Python, which takes the folder first
    const std::string relative = absl::StrCat(base, package ? "/__init__.py" : ".py");
    std::error_code error;
    if (!fs::is_regular_file(folder / relative, error)) continue;
    File file = {module, package, relative, "", true};
    if (auto text = Read(folder / relative, room)) {
      file.text = *std::move(text);
      file.too_large = false;
    }
    return file;
  }
  return std::nullopt;
}

// Modules that statements of the file import, in order; nullopt when it is not Python.
std::optional<std::vector<std::string>> ModulesOf(const File& file) {
  const auto tree = ParseSource(SourceFile{file.relative, file.text}, Limits{});
  if (!tree.ok()) return std::nullopt;
  std::vector<std::string> modules;
  for (const ast::Import* import : ImportsOf(**tree)) {
    const std::string from = AbsoluteName(import->module, file.module, file.package);
    if (!from.empty()) modules.push_back(from);
    for (const ast::ImportedName& name : import->names) {
      if (name.path == "*") continue;
      // A name of a package may be a file of it.
      modules.push_back(from.empty() ? name.path : absl::StrCat(from, ".", name.path));
    }
  }
  return modules;
}

// The text of a file that is not Python, as one that may stand in a message whatever bytes it has.
std::string AsComment(std::string text) {
  for (char& c : text) {
    if (c == '\0' || static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  if (absl::EndsWith(text, "\n")) text.pop_back();
  return absl::StrCat(kBrokenLine,
                      absl::StrReplaceAll(text, {{"\n", absl::StrCat("\n", kBrokenLine)}}));
}

}  // namespace

std::string WithImportedFiles(std::string text, const std::string& path) {
  const size_t limit = static_cast<size_t>(Limits{}.source_bytes);
  std::error_code error;  // a kernel file that is a link stands where it points
  const fs::path real = fs::weakly_canonical(path, error);
  const fs::path folder = (error ? fs::path(path) : real).parent_path();
  size_t size = text.size();
  std::vector<File> files = {{"", false, path, text}};
  std::set<std::string> seen;
  for (size_t i = 0; i < files.size(); ++i) {
    auto imports = ModulesOf(files[i]);
    File& file = files[i];
    if (!imports.has_value() && i > 0) {
      const size_t plain = file.text.size();
      file.text = AsComment(file.text);
      file.too_large = size + file.text.size() - plain >= limit;
      size += file.too_large ? 0 : file.text.size() - plain;
    }
    if (file.too_large) {
      absl::StrAppend(&text, "\n", kTooLargeMark, file.relative, "\n");
      continue;
    }
    if (i > 0) {
      absl::StrAppend(&text, "\n", imports ? kFileMark : kBrokenMark, file.relative, "\n",
                      file.text);
    }
    if (!imports.has_value()) continue;
    for (const std::string& module : *imports) {
      if (FindModule(module) != nullptr || !seen.insert(module).second) continue;
      if (files.size() > 2 * kMaxFiles || size + kMarkRoom >= limit) break;
      const size_t room = files.size() > kMaxFiles ? 0 : limit - size - kMarkRoom;
      auto found = Find(folder, module, room);
      if (!found.has_value()) continue;
      size += found->text.size() + kMarkRoom;
      files.push_back(*std::move(found));
    }
  }
  return text;
}

}  // namespace kiln::lang
