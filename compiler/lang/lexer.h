// Python's tokens: indentation, line joining in brackets and by backslash, every string prefix
// (f-strings keep the places of their values), numbers in every base.
#ifndef KILN_COMPILER_LANG_LEXER_H_
#define KILN_COMPILER_LANG_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/diagnostic.h"

namespace kiln::lang {

enum class TokenKind : uint8_t {
  kName,
  kInt,
  kFloat,
  kImaginary,
  kString,
  kFString,
  kBytes,
  kOperator,
  kNewline,
  kIndent,
  kDedent,
  kEnd,
};

// One piece of an f-string: literal text, then a value given by the range of source it occupies.
struct FPiece {
  std::string literal;
  bool has_value = false;
  size_t begin = 0, end = 0;  // source offsets of the value's expression
  SourceLoc loc;              // of `begin`
  size_t echo_end = 0;        // {value=}: the source up to here is shown first; 0: not asked for
  char conversion = 0;
  std::vector<FPiece> format;
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  SourceLoc loc;
  absl::string_view text;  // the token's source; names and operators compare by it
  std::string value;       // decoded string
  int64_t int_value = 0;
  double float_value = 0;
  bool too_big = false;  // an integer literal above 2^63 - 1; int_value has its low bits
  bool beyond = false;   // and above 64 bits
  std::vector<FPiece> pieces;

  bool Is(absl::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool IsWord(absl::string_view word) const { return kind == TokenKind::kName && text == word; }
};

// Tokens of the whole file, ended by kEnd. `max_depth` bounds brackets and indentation.
absl::StatusOr<std::vector<Token>> Tokenize(const SourceFile& file, int max_depth);

// Tokens of one expression inside the file (an f-string's value): no indentation, newlines are
// spaces.
absl::StatusOr<std::vector<Token>> TokenizeRange(const SourceFile& file, size_t begin, size_t end,
                                                 SourceLoc start, int max_depth);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_LEXER_H_
