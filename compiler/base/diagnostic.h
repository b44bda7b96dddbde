// Source positions and the diagnostics that the user reads: file:line:col, the line with a caret,
// what is wrong, and what to do.
#ifndef KILN_COMPILER_BASE_DIAGNOSTIC_H_
#define KILN_COMPILER_BASE_DIAGNOSTIC_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// The text that positions refer to. Immutable and shared by every position in it.
struct SourceFile {
  std::string path;
  std::string text;
  // The text of 1-based `line` without its newline; empty when out of range.
  absl::string_view Line(int line) const;

  struct Place {
    std::string path;
    int line = 0;
  };
  // The file that the line comes from, and its number there (lang/source_bundle.h).
  Place PlaceOf(int line) const;
};

// Begins a line behind which the text of another file stands, whose path follows.
inline constexpr char kFileMark[] = "# kiln: from here on the text of ";

// A half-open range of columns on one line; line and column are 1-based, 0 means unknown.
struct SourceLoc {
  int line = 0;
  int column = 0;
  int end_column = 0;
  bool known() const { return line > 0; }
};

struct Diagnostic {
  std::string path;
  SourceLoc loc;
  std::string message;             // what is wrong
  std::string remedy;              // what to do; may be empty only for internal notes
  std::string source_line;         // the text of loc.line
  std::vector<std::string> notes;  // "value chain" and secondary facts, one sentence each

  // "k.py:3:7: error: message\n    source line\n        ^~~~\n  help: remedy\n  note: ..."
  std::string Render() const;
  // Fills path, loc and source_line with a position of `file`, in the file that its line is from.
  void SetPlace(const SourceFile& file, SourceLoc at);
};

// A kInvalidArgument status (or `code`) whose message is Render() and whose payload carries the
// fields, so that a tool can print them as JSON.
absl::Status DiagnosticStatus(const Diagnostic& diagnostic,
                              absl::StatusCode code = absl::StatusCode::kInvalidArgument);

// The diagnostic inside a status made by DiagnosticStatus; nullopt for any other status.
std::optional<Diagnostic> DiagnosticOf(const absl::Status& status);

// Shorthand: a diagnostic at `loc` in `file`.
absl::Status ErrorAt(const SourceFile& file, SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument);

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_DIAGNOSTIC_H_
