// Kernel files that import from files next to them, as one text that travels.
#ifndef KILN_COMPILER_LANG_SOURCE_BUNDLE_H_
#define KILN_COMPILER_LANG_SOURCE_BUNDLE_H_

#include <string>

namespace kiln::lang {

// Begins a line behind which the text of a file stands that is not Python, whose path follows. Each
// of its lines is a comment that begins with kBrokenLine.
inline constexpr char kBrokenMark[] = "# kiln: this is not Python, the text of ";
inline constexpr char kBrokenLine[] = "#|";
// Is a line with the path of a file that would make the text too large.
inline constexpr char kTooLargeMark[] = "# kiln: this would make the text too large: ";

// `text`, that of the kernel file at `path`, and behind it the text of every file that it imports,
// by itself or through another of them: a/b.py or a/b/__init__.py for module a.b, looked for in the
// kernel file's folder as Python does, each behind a line that begins with kFileMark. What stands
// there is as if imported: names are looked up in the file that uses them, and only what a kernel
// reaches is evaluated. Left out are modules that kernels know (tilelang, torch, math, ...), and
// those that are no such file. Files that are not Python, and what would make the text larger than
// a kernel may be, are marked as such; who uses a name of theirs is told. A text without such
// imports comes back as it is.
std::string WithImportedFiles(std::string text, const std::string& path);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SOURCE_BUNDLE_H_
