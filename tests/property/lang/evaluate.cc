// Reads Python programs that define f(), separated by "\x1e\n", and prints what the elaborator
// makes of each, as compile-time code, in the same order and separated alike:
//   value REPR      f() gave this
//   error MESSAGE   it raised, or the language refused it
#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

constexpr char kSeparator[] = "\x1e\n";
constexpr char kResult[] = "assertion failed: ";

// f() is of the first file, where the program is several (source_bundle.h).
std::string Evaluate(absl::string_view program) {
  const size_t others = std::min(program.find(kFileMark), program.size());
  const std::string text = absl::StrCat(
      "import tilelang.language as T\n", program.substr(0, others),
      "\ndef kernel():\n    r = f()\n    assert False, repr(r)\n", program.substr(others));
  const absl::Status status = ElaborateText(text, {}, "", "kernel").status();
  const std::optional<Diagnostic> d = DiagnosticOf(status);
  if (!d.has_value()) return absl::StrCat("error ", status.message());
  absl::string_view message = d->message;
  if (absl::ConsumePrefix(&message, kResult)) return absl::StrCat("value ", message);
  return absl::StrCat("error ", d->loc.line, ": ", message);
}

}  // namespace
}  // namespace kiln::lang

int main() {
  const std::string input((std::istreambuf_iterator<char>(std::cin)),
                          std::istreambuf_iterator<char>());
  bool first = true;
  for (const absl::string_view program : absl::StrSplit(input, kiln::lang::kSeparator)) {
    if (!first) std::cout << kiln::lang::kSeparator;
    first = false;
    std::cout << kiln::lang::Evaluate(program);
  }
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}
