#include "compiler/base/diagnostic.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kiln {
namespace {

constexpr char kPayloadUrl[] = "kiln.diagnostic/1";
constexpr char kFieldSeparator = '\x1f';
constexpr int kWidest = 200;  // bytes of a source line that is shown whole
constexpr int kBefore = 60;   // bytes before the caret in one that is not

struct Excerpt {
  std::string text;
  int column = 0, end = 0;  // of the marked part, as SourceLoc's
};

bool InCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The line, or the part of a long one that is around `loc`, between dots.
Excerpt ExcerptOf(const std::string& line, SourceLoc loc) {
  const int size = static_cast<int>(line.size());
  if (size <= kWidest) return {line, loc.column, loc.end_column};
  int begin = loc.column <= kBefore + 4 ? 0 : std::min(loc.column - 1 - kBefore, size);
  int end = std::min(begin + kWidest, size);
  while (begin > 0 && begin < size && InCharacter(line[begin])) --begin;
  while (end > begin && end < size && InCharacter(line[end])) --end;
  const std::string before = begin > 0 ? "..." : "", after = end < size ? "..." : "";
  const int shift = static_cast<int>(before.size()) - begin;
  return {before + line.substr(begin, end - begin) + after, loc.column + shift,
          std::min(loc.end_column, end + 1) + shift};
}

}  // namespace

absl::string_view SourceFile::Line(int line) const {
  absl::string_view rest = text;
  for (int current = 1; line > 0; ++current) {
    const size_t end = rest.find('\n');
    if (current == line) return rest.substr(0, end);
    if (end == absl::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return {};
}

SourceFile::Place SourceFile::PlaceOf(int line) const {
  Place place = {path, line};
  absl::string_view rest = text;
  for (int current = 1; current < line; ++current) {
    const size_t end = rest.find('\n');
    absl::string_view here = rest.substr(0, end);
    if (absl::ConsumePrefix(&here, kFileMark)) {
      const size_t folder = path.rfind('/');
      place = {absl::StrCat(folder == std::string::npos ? "" : path.substr(0, folder + 1), here),
               line - current};
    }
    if (end == absl::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return place;
}

void Diagnostic::SetPlace(const SourceFile& file, SourceLoc at) {
  SourceFile::Place place = file.PlaceOf(at.line);
  path = std::move(place.path);
  loc = at;
  loc.line = place.line;
  source_line = std::string(file.Line(at.line));
}

std::string Diagnostic::Render() const {
  std::string out = path;
  if (loc.known()) absl::StrAppend(&out, ":", loc.line, ":", loc.column);
  absl::StrAppend(&out, ": error: ", message);
  if (!source_line.empty() && loc.known()) {
    const Excerpt shown = ExcerptOf(source_line, loc);
    const std::string& line = shown.text;
    std::string caret;
    for (int i = 1; i < shown.column && i <= static_cast<int>(line.size()); ++i) {
      caret += line[i - 1] == '\t' ? '\t' : ' ';
    }
    caret += '^';
    for (int i = shown.column + 1; i < shown.end && i <= static_cast<int>(line.size()); ++i) {
      caret += '~';
    }
    absl::StrAppend(&out, "\n    ", line, "\n    ", caret);
  }
  if (!remedy.empty()) absl::StrAppend(&out, "\n  help: ", remedy);
  for (const std::string& note : notes) absl::StrAppend(&out, "\n  note: ", note);
  return out;
}

absl::Status DiagnosticStatus(const Diagnostic& d, absl::StatusCode code) {
  absl::Status status(code, d.Render());
  std::vector<std::string> fields = {d.path,
                                     absl::StrCat(d.loc.line),
                                     absl::StrCat(d.loc.column),
                                     absl::StrCat(d.loc.end_column),
                                     d.message,
                                     d.remedy,
                                     d.source_line};
  fields.insert(fields.end(), d.notes.begin(), d.notes.end());
  status.SetPayload(kPayloadUrl,
                    absl::Cord(absl::StrJoin(fields, std::string(1, kFieldSeparator))));
  return status;
}

std::optional<Diagnostic> DiagnosticOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> fields = absl::StrSplit(text, kFieldSeparator);
  if (fields.size() < 7) return std::nullopt;
  Diagnostic d;
  d.path = fields[0];
  if (!absl::SimpleAtoi(fields[1], &d.loc.line) || !absl::SimpleAtoi(fields[2], &d.loc.column) ||
      !absl::SimpleAtoi(fields[3], &d.loc.end_column)) {
    return std::nullopt;
  }
  d.message = fields[4];
  d.remedy = fields[5];
  d.source_line = fields[6];
  d.notes.assign(fields.begin() + 7, fields.end());
  return d;
}

absl::Status ErrorAt(const SourceFile& file, SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code) {
  Diagnostic d;
  d.SetPlace(file, loc);
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  return DiagnosticStatus(d, code);
}

}  // namespace kiln
