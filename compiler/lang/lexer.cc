#include "compiler/lang/lexer.h"

#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/lang/look_alikes.h"

namespace kiln::lang {
namespace {

constexpr std::array<absl::string_view, 47> kOperators = {
    "**=", "//=", ">>=", "<<=", "...", "!=", "->", ":=", "+=", "-=", "*=", "/=",
    "%=",  "&=",  "|=",  "^=",  "@=",  "==", "<=", ">=", "<<", ">>", "**", "//",
    "+",   "-",   "*",   "/",   "%",   "@",  "&",  "|",  "^",  "~",  "<",  ">",
    "(",   ")",   "[",   "]",   "{",   "}",  ",",  ":",  ".",  ";",  "="};

bool IsNameStart(unsigned char c) { return absl::ascii_isalpha(c) || c == '_' || c >= 0x80; }
bool IsNameChar(unsigned char c) { return IsNameStart(c) || absl::ascii_isdigit(c); }

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (code >> 6)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (code >> 12)));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (code >> 18)));
    out->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

class Lexer {
 public:
  Lexer(const SourceFile& file, size_t begin, size_t end, SourceLoc start, bool whole_file,
        int max_depth)
      : file_(file),
        text_(file.text),
        pos_(begin),
        end_(end),
        line_(start.line),
        line_start_(begin - (start.column - 1)),
        whole_file_(whole_file),
        max_depth_(max_depth) {}

  absl::StatusOr<std::vector<Token>> Run();

 private:
  absl::Status Error(size_t at, std::string message, std::string remedy) const {
    return ErrorAt(file_, LocOf(at, at + 1), std::move(message), std::move(remedy));
  }
  SourceLoc LocOf(size_t begin, size_t end) const {
    return {line_, static_cast<int>(begin - line_start_) + 1,
            static_cast<int>(end - line_start_) + 1};
  }
  char At(size_t i) const { return i < end_ ? text_[i] : '\0'; }
  char Peek(size_t ahead = 0) const { return At(pos_ + ahead); }
  bool Done() const { return pos_ >= end_; }
  bool InBrackets() const { return !whole_file_ || !brackets_.empty(); }

  Token& Push(TokenKind kind, size_t begin, size_t end) {
    Token token;
    token.kind = kind;
    token.loc = LocOf(begin, end);
    token.text = absl::string_view(text_).substr(begin, end - begin);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  void NewLine() {
    ++line_;
    line_start_ = pos_;
  }

  absl::Status Indentation();
  absl::Status Next();
  absl::Status Number();
  absl::Status Operator();
  bool StringPrefix(size_t* quote, bool* raw, bool* bytes, bool* format) const;
  absl::Status String(size_t begin, size_t quote, bool raw, bool bytes, bool format);
  absl::Status Escape(bool bytes, std::string* out);
  // Reads pieces up to the closing quote, or, inside a format spec, up to its '}'.
  absl::Status Pieces(absl::string_view close, bool raw, bool in_spec, int depth,
                      std::vector<FPiece>* pieces);
  bool EndsEcho() const;
  absl::Status Value(absl::string_view close, bool raw, int depth, FPiece* piece);
  absl::Status SkipNestedString();
  void TakeNewline();

  const SourceFile& file_;
  const std::string& text_;
  size_t pos_, end_;
  int line_;
  size_t line_start_;  // offset of column 1 of line_
  bool whole_file_;
  int max_depth_;
  bool at_line_start_ = true;
  std::vector<int> indents_ = {0};
  std::vector<std::pair<char, SourceLoc>> brackets_;
  std::vector<Token> tokens_;
};

void Lexer::TakeNewline() {
  if (Peek() == '\r' && Peek(1) == '\n') ++pos_;
  ++pos_;
  NewLine();
}

absl::Status Lexer::Indentation() {
  while (true) {
    int width = 0;
    const size_t begin = pos_;
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\f') {
      width = Peek() == '\t' ? (width / 8 + 1) * 8 : Peek() == '\f' ? 0 : width + 1;
      ++pos_;
    }
    if (Peek() == '#') {
      while (!Done() && Peek() != '\n') ++pos_;
    }
    if (Done()) return absl::OkStatus();
    if (Peek() == '\n' || Peek() == '\r') {  // a blank line has no indentation
      TakeNewline();
      continue;
    }
    if (width > indents_.back()) {
      if (static_cast<int>(indents_.size()) >= max_depth_) {
        return ErrorAt(file_, LocOf(pos_, pos_ + 1),
                       absl::StrCat("more than ", max_depth_, " levels of indentation"),
                       "move the inner code into a function", absl::StatusCode::kResourceExhausted);
      }
      indents_.push_back(width);
      Push(TokenKind::kIndent, begin, pos_);
    }
    while (width < indents_.back()) {
      indents_.pop_back();
      Push(TokenKind::kDedent, pos_, pos_);
    }
    if (width != indents_.back()) {
      return Error(pos_, "this line's indentation matches no outer block",
                   "indent it like the block that it belongs to");
    }
    at_line_start_ = false;
    return absl::OkStatus();
  }
}

absl::Status Lexer::Next() {
  const char c = Peek();
  if (c == ' ' || c == '\t' || c == '\f') {
    ++pos_;
    return absl::OkStatus();
  }
  if (c == '#') {
    while (!Done() && Peek() != '\n') ++pos_;
    return absl::OkStatus();
  }
  if (c == '\\' && (Peek(1) == '\n' || (Peek(1) == '\r' && Peek(2) == '\n'))) {
    ++pos_;
    TakeNewline();
    return absl::OkStatus();
  }
  if (c == '\n' || c == '\r') {
    if (!InBrackets()) {
      Push(TokenKind::kNewline, pos_, pos_ + 1);
      at_line_start_ = true;
    }
    TakeNewline();
    return absl::OkStatus();
  }
  size_t quote;
  bool raw, bytes, format;
  if (StringPrefix(&quote, &raw, &bytes, &format)) return String(pos_, quote, raw, bytes, format);
  if (IsNameStart(c)) {
    const size_t begin = pos_;
    for (; !Done() && IsNameChar(Peek()); ++pos_) {
      if (static_cast<unsigned char>(Peek()) < 0x80) continue;
      const LookAlike* other = FindLookAlike(absl::string_view(text_).substr(pos_, end_ - pos_));
      if (other == nullptr) continue;
      return ErrorAt(file_, LocOf(pos_, pos_ + other->text.size()),
                     absl::StrCat("the character ", other->name, ", which Python does not read"),
                     absl::StrCat("type ", other->instead));
    }
    Push(TokenKind::kName, begin, pos_);
    return absl::OkStatus();
  }
  if (absl::ascii_isdigit(c) || (c == '.' && absl::ascii_isdigit(Peek(1)))) return Number();
  return Operator();
}

absl::Status Lexer::Operator() {
  for (absl::string_view op : kOperators) {
    if (absl::string_view(text_).substr(pos_, op.size()) != op || pos_ + op.size() > end_) continue;
    const char c = op[0];
    if (op.size() == 1 && (c == '(' || c == '[' || c == '{')) {
      if (static_cast<int>(brackets_.size()) >= max_depth_) {
        return ErrorAt(file_, LocOf(pos_, pos_ + 1),
                       absl::StrCat("brackets are nested more than ", max_depth_, " deep"),
                       "name the inner parts", absl::StatusCode::kResourceExhausted);
      }
      brackets_.push_back({c, LocOf(pos_, pos_ + 1)});
    }
    if (op.size() == 1 && (c == ')' || c == ']' || c == '}')) {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty() || brackets_.back().first != open) {
        return Error(pos_, absl::StrCat("'", op, "' closes nothing"),
                     brackets_.empty()
                         ? "remove it, or add the opening bracket"
                         : absl::StrCat("close the '", std::string(1, brackets_.back().first),
                                        "' of line ", brackets_.back().second.line, " first"));
      }
      brackets_.pop_back();
    }
    Push(TokenKind::kOperator, pos_, pos_ + op.size());
    pos_ += op.size();
    return absl::OkStatus();
  }
  const unsigned char c = static_cast<unsigned char>(Peek());
  if (c == '\0') return Error(pos_, "a NUL byte in the source", "a kernel file is plain text");
  const bool printable = c > 32 && c < 127;
  return Error(pos_,
               printable ? absl::StrCat("unexpected character '", std::string(1, Peek()), "'")
                         : absl::StrCat("unexpected byte ", static_cast<int>(c)),
               "remove it");
}

// Digits of `base` with single underscores between them, appended to `out`.
void TakeDigits(absl::string_view text, size_t end, int base, size_t* pos, std::string* out) {
  auto is_digit = [&](char c) {
    if (base == 16) return absl::ascii_isxdigit(static_cast<unsigned char>(c));
    return c >= '0' && c < '0' + base;
  };
  while (*pos < end) {
    if (is_digit(text[*pos])) {
      out->push_back(text[(*pos)++]);
    } else if (text[*pos] == '_' && *pos + 1 < end && is_digit(text[*pos + 1]) && !out->empty()) {
      ++*pos;
    } else {
      return;
    }
  }
}

absl::Status Lexer::Number() {
  const size_t begin = pos_;
  const char prefix = absl::ascii_tolower(Peek(1));
  int base = 10;
  if (Peek() == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
    base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
    pos_ += 2;
    if (Peek() == '_') ++pos_;
  }
  std::string digits;
  TakeDigits(text_, end_, base, &pos_, &digits);
  bool is_float = false;
  if (base == 10) {
    if (Peek() == '.' && !(Peek(1) == '.' && Peek(2) == '.')) {
      is_float = true;
      digits.push_back('.');
      ++pos_;
      std::string fraction = "0";
      TakeDigits(text_, end_, 10, &pos_, &fraction);
      digits.append(fraction.substr(1));
    }
    const size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 1 : 0;
    if (absl::ascii_tolower(Peek()) == 'e' && absl::ascii_isdigit(Peek(1 + sign))) {
      is_float = true;
      digits.push_back('e');
      if (sign) digits.push_back(Peek(1));
      pos_ += 1 + sign;
      std::string exponent;
      TakeDigits(text_, end_, 10, &pos_, &exponent);
      digits.append(exponent);
    }
  }
  const bool imaginary = base == 10 && absl::ascii_tolower(Peek()) == 'j';
  if (imaginary) ++pos_;
  if (digits.empty() || (!Done() && IsNameChar(Peek()))) {
    return Error(pos_, "a malformed number", "separate the number from the name that follows");
  }
  if (is_float || imaginary) {
    Token& token = Push(imaginary ? TokenKind::kImaginary : TokenKind::kFloat, begin, pos_);
    if (!absl::SimpleAtod(digits, &token.float_value)) token.float_value = HUGE_VAL;
    return absl::OkStatus();
  }
  Token& token = Push(TokenKind::kInt, begin, pos_);
  uint64_t value = 0;
  for (char c : digits) {
    const uint64_t digit = absl::ascii_isdigit(static_cast<unsigned char>(c))
                               ? c - '0'
                               : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10;
    if (value > (UINT64_MAX - digit) / base) token.beyond = true;
    value = value * base + digit;
  }
  if (base == 10 && digits.size() > 1 && digits[0] == '0' && value != 0) {
    return Error(begin, "a decimal number starts with 0",
                 "drop the zeros, or write 0o... for an octal number");
  }
  token.too_big = token.beyond || value > uint64_t{INT64_MAX};
  token.int_value = static_cast<int64_t>(value);
  return absl::OkStatus();
}

bool Lexer::StringPrefix(size_t* quote, bool* raw, bool* bytes, bool* format) const {
  *raw = *bytes = *format = false;
  size_t i = pos_;
  for (; i < pos_ + 3; ++i) {
    const char c = absl::ascii_tolower(At(i));
    if (c == '"' || c == '\'') {
      *quote = i;
      return true;
    }
    if (c == 'r')
      *raw = true;
    else if (c == 'b')
      *bytes = true;
    else if (c == 'f' || c == 't')
      *format = true;
    else if (c != 'u')
      return false;
  }
  return false;
}

absl::Status Lexer::Escape(bool bytes, std::string* out) {
  const size_t at = pos_;
  const char c = Peek(1);
  pos_ += 2;
  switch (c) {
    case '\r':
      if (Peek() == '\n') ++pos_;
      NewLine();
      return absl::OkStatus();
    case '\n':
      NewLine();
      return absl::OkStatus();
    case 'n':
      out->push_back('\n');
      return absl::OkStatus();
    case 't':
      out->push_back('\t');
      return absl::OkStatus();
    case 'r':
      out->push_back('\r');
      return absl::OkStatus();
    case 'a':
      out->push_back('\a');
      return absl::OkStatus();
    case 'b':
      out->push_back('\b');
      return absl::OkStatus();
    case 'f':
      out->push_back('\f');
      return absl::OkStatus();
    case 'v':
      out->push_back('\v');
      return absl::OkStatus();
    case '\\':
    case '\'':
    case '"':
      out->push_back(c);
      return absl::OkStatus();
    default:
      break;
  }
  if (c >= '0' && c <= '7') {
    uint32_t code = c - '0';
    for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i)
      code = code * 8 + text_[pos_++] - '0';
    AppendUtf8(code, out);
    return absl::OkStatus();
  }
  const int digits = c == 'x' ? 2 : c == 'u' && !bytes ? 4 : c == 'U' && !bytes ? 8 : 0;
  if (digits == 0) {  // Python keeps an unknown escape as it stands
    out->push_back('\\');
    --pos_;
    return absl::OkStatus();
  }
  uint32_t code = 0;
  for (int i = 0; i < digits; ++i) {
    const char d = absl::ascii_tolower(Peek());
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(d))) {
      return Error(at,
                   absl::StrCat("the escape \\", std::string(1, c), " needs ", digits,
                                " hexadecimal digits"),
                   "write them all, or put r before the string");
    }
    code =
        code * 16 + (absl::ascii_isdigit(static_cast<unsigned char>(d)) ? d - '0' : d - 'a' + 10);
    ++pos_;
  }
  if (code > 0x10FFFF)
    return Error(at, "the escape names no Unicode character", "use \\U0010FFFF or below");
  AppendUtf8(code, out);
  return absl::OkStatus();
}

absl::Status Lexer::String(size_t begin, size_t quote, bool raw, bool bytes, bool format) {
  const char q = text_[quote];
  const bool triple = At(quote + 1) == q && At(quote + 2) == q;
  const std::string close(triple ? 3 : 1, q);
  const SourceLoc start = LocOf(begin, quote + close.size());
  pos_ = quote + close.size();
  std::vector<FPiece> pieces;
  if (format) {
    KILN_RETURN_IF_ERROR(Pieces(close, raw, /*in_spec=*/false, 0, &pieces));
  } else {
    pieces.emplace_back();
    std::string* out = &pieces.back().literal;
    while (!Done() && absl::string_view(text_).substr(pos_, close.size()) != close) {
      const char c = Peek();
      if (c == '\\' && pos_ + 1 < end_) {
        if (!raw) {
          KILN_RETURN_IF_ERROR(Escape(bytes, out));
          continue;
        }
        out->push_back(c);
        ++pos_;
      }
      if (Peek() == '\n') {
        if (!triple && c != '\\') break;
        out->push_back('\n');
        ++pos_;
        NewLine();
        continue;
      }
      out->push_back(text_[pos_++]);
    }
  }
  if (Done() || absl::string_view(text_).substr(pos_, close.size()) != close ||
      pos_ + close.size() > end_) {
    return ErrorAt(file_, start, "this string is not closed", absl::StrCat("end it with ", close));
  }
  pos_ += close.size();
  Token token;
  token.kind = bytes ? TokenKind::kBytes : format ? TokenKind::kFString : TokenKind::kString;
  token.loc = start;
  if (start.line == line_) token.loc.end_column = LocOf(pos_, pos_).column;
  token.text = absl::string_view(text_).substr(begin, pos_ - begin);
  if (format) {
    token.pieces = std::move(pieces);
  } else {
    token.value = std::move(pieces.back().literal);
  }
  tokens_.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status Lexer::Pieces(absl::string_view close, bool raw, bool in_spec, int depth,
                           std::vector<FPiece>* pieces) {
  if (depth > 4) return Error(pos_, "f-strings are nested too deep", "format the inner part first");
  pieces->emplace_back();
  while (!Done()) {
    if (absl::string_view(text_).substr(pos_, close.size()) == close) return absl::OkStatus();
    std::string* out = &pieces->back().literal;
    const char c = Peek();
    if (in_spec && c == '}') return absl::OkStatus();
    if (c == '\n' && close.size() == 1) return absl::OkStatus();  // reported as unclosed
    if (!in_spec && (c == '{' || c == '}') && Peek(1) == c) {
      out->push_back(c);
      pos_ += 2;
    } else if (c == '{') {
      KILN_RETURN_IF_ERROR(Value(close, raw, depth, &pieces->back()));
      pieces->emplace_back();
    } else if (c == '}') {
      return Error(pos_, "a single '}' in an f-string", "write }} for a brace");
    } else if (c == '\\' && !raw && pos_ + 1 < end_) {
      KILN_RETURN_IF_ERROR(Escape(false, out));
    } else {
      out->push_back(c);
      ++pos_;
      if (c == '\n') NewLine();
    }
  }
  return absl::OkStatus();
}

absl::Status Lexer::SkipNestedString() {
  const char q = Peek();
  const bool triple = Peek(1) == q && Peek(2) == q;
  const std::string close(triple ? 3 : 1, q);
  pos_ += close.size();
  while (!Done() && absl::string_view(text_).substr(pos_, close.size()) != close) {
    if (Peek() == '\\') ++pos_;
    if (Peek() == '\n') {
      if (!triple) break;
      ++pos_;
      NewLine();
      continue;
    }
    ++pos_;
  }
  if (Done() || Peek() == '\n')
    return Error(pos_, "this string is not closed", "close it before the brace");
  pos_ += close.size();
  return absl::OkStatus();
}

// At the `=` of {value=}, which spaces may follow.
bool Lexer::EndsEcho() const {
  const char before = At(pos_ - 1);
  if (Peek() != '=' || before == '=' || before == '!' || before == '<' || before == '>') {
    return false;
  }
  size_t next = pos_ + 1;
  while (At(next) == ' ') ++next;
  return At(next) == '}' || At(next) == ':' || (At(next) == '!' && At(next + 1) != '=');
}

absl::Status Lexer::Value(absl::string_view close, bool raw, int depth, FPiece* piece) {
  const size_t open = pos_++;
  const SourceLoc open_loc = LocOf(open, open + 1);
  piece->has_value = true;
  piece->begin = pos_;
  piece->loc = LocOf(pos_, pos_);
  int nesting = 0;
  while (!Done()) {
    const char c = Peek();
    if (nesting == 0 && (c == '}' || c == ':')) break;
    if (nesting == 0 && c == '!' && Peek(1) != '=') break;
    if (nesting == 0 && EndsEcho()) break;
    if (c == '"' || c == '\'') {
      KILN_RETURN_IF_ERROR(SkipNestedString());
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++nesting;
    if (c == ')' || c == ']' || c == '}') --nesting;
    ++pos_;
    if (c == '\n') NewLine();
  }
  piece->end = std::min(pos_, end_);
  if (Peek() == '=') {
    do ++pos_;
    while (Peek() == ' ');
    piece->echo_end = pos_;
  }
  if (Peek() == '!') {
    piece->conversion = Peek(1);
    pos_ += 2;
    if (piece->conversion != 'r' && piece->conversion != 's' && piece->conversion != 'a') {
      return Error(pos_ - 1, "an unknown f-string conversion", "use !r, !s or !a");
    }
  }
  if (Peek() == ':') {
    ++pos_;
    KILN_RETURN_IF_ERROR(Pieces(close, raw, /*in_spec=*/true, depth + 1, &piece->format));
  }
  if (Peek() != '}') {
    return ErrorAt(file_, open_loc, "this '{' of an f-string is not closed",
                   "close it with }, or write {{ for a brace");
  }
  ++pos_;
  return absl::OkStatus();
}

// How a file is encoded that is not in UTF-8, as it begins; null: it may be.
const char* OtherEncoding(absl::string_view text) {
  if (text.substr(0, 4) == absl::string_view("\xFF\xFE\0\0", 4) ||
      text.substr(0, 4) == absl::string_view("\0\0\xFE\xFF", 4)) {
    return "UTF-32";
  }
  const bool marked = text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF";
  const bool every_second = text.size() >= 2 && (text[0] == '\0') != (text[1] == '\0');
  return marked || every_second ? "UTF-16" : nullptr;
}

absl::StatusOr<std::vector<Token>> Lexer::Run() {
  if (const char* encoding = whole_file_ ? OtherEncoding(text_) : nullptr) {
    Diagnostic d;  // without the line, which is no text
    d.path = file_.path;
    d.loc = LocOf(0, 1);
    d.message = absl::StrCat("the file is in ", encoding);
    d.remedy = "save it in UTF-8";
    return DiagnosticStatus(d);
  }
  if (whole_file_ && absl::string_view(text_).substr(0, 3) == "\xEF\xBB\xBF") {
    pos_ = 3;
    line_start_ = 3;
  }
  while (!Done()) {
    if (whole_file_ && at_line_start_ && brackets_.empty()) {
      KILN_RETURN_IF_ERROR(Indentation());
      if (Done()) break;
    }
    KILN_RETURN_IF_ERROR(Next());
  }
  if (!brackets_.empty()) {
    return ErrorAt(file_, brackets_.back().second,
                   absl::StrCat("'", std::string(1, brackets_.back().first), "' is never closed"),
                   "add the closing bracket");
  }
  if (whole_file_) {
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::kNewline) {
      Push(TokenKind::kNewline, pos_, pos_);
    }
    for (; indents_.size() > 1; indents_.pop_back()) Push(TokenKind::kDedent, pos_, pos_);
  }
  Push(TokenKind::kEnd, pos_, pos_);
  return std::move(tokens_);
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(const SourceFile& file, int max_depth) {
  return Lexer(file, 0, file.text.size(), {1, 1, 1}, true, max_depth).Run();
}

absl::StatusOr<std::vector<Token>> TokenizeRange(const SourceFile& file, size_t begin, size_t end,
                                                 SourceLoc start, int max_depth) {
  return Lexer(file, begin, end, start, false, max_depth).Run();
}

}  // namespace kiln::lang
