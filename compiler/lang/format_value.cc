#include "compiler/lang/format_value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln::lang {
namespace {

constexpr int kMaxWidth = 200, kMaxDigits = 50;

struct Spec {
  char fill = ' ', align = '\0', sign = '-', group = '\0', type = '\0';
  bool prefix = false, zero = false;
  int width = 0, digits = -1;
};

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// Reads a number of at most `most`; false when it is larger.
bool ReadNumber(absl::string_view text, size_t* i, int most, int* out) {
  *out = 0;
  for (; *i < text.size() && text[*i] >= '0' && text[*i] <= '9'; ++*i) {
    *out = *out * 10 + (text[*i] - '0');
    if (*out > most) return false;
  }
  return true;
}

// `wide`, where it is given: whether a width above the most is what does not fit.
std::optional<Spec> ReadSpec(absl::string_view text, bool* wide = nullptr) {
  Spec spec;
  size_t i = 0;
  const auto take = [&](absl::string_view any) {
    return i < text.size() && any.find(text[i]) != absl::string_view::npos ? text[i++] : '\0';
  };
  if (text.size() > 1 && IsAlign(text[1])) spec.fill = text[i++];
  spec.align = take("<>^=");
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.prefix = take("#") != '\0';
  if (take("0")) {
    spec.zero = spec.align == '\0';
    if (spec.zero) spec.fill = '0';
  }
  if (!ReadNumber(text, &i, kMaxWidth, &spec.width)) {
    if (wide != nullptr) *wide = true;
    return std::nullopt;
  }
  spec.group = take(",_");
  if (take(".")) {
    const size_t start = i;
    if (!ReadNumber(text, &i, kMaxDigits, &spec.digits) || i == start) return std::nullopt;
  }
  spec.type = take("sdboxXeEfFgG%");
  if (i != text.size()) return std::nullopt;
  return spec;
}

std::string Pad(const Spec& spec, char align, const std::string& text) {
  const int missing = spec.width - static_cast<int>(text.size());
  if (missing <= 0) return text;
  const int before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  return std::string(static_cast<size_t>(before), spec.fill) + text +
         std::string(static_cast<size_t>(missing - before), spec.fill);
}

std::string Grouped(const std::string& digits, char group, size_t every) {
  if (group == '\0') return digits;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out.push_back(group);
    out.push_back(digits[i]);
  }
  return out;
}

// A number of whole `digits` and what follows them (".25", "e+10", "%").
std::string Number(const Spec& spec, bool negative, const std::string& prefix, std::string digits,
                   const std::string& rest, size_t every) {
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const std::string head = sign + prefix;
  const auto room = static_cast<size_t>(spec.width);
  if (spec.zero || spec.align == '=') {
    const auto length = [&](const std::string& body) {
      return head.size() + body.size() + rest.size();
    };
    std::string body = Grouped(digits, spec.group, every);
    if (spec.fill == '0') {
      while (length(body) < room) {
        digits.insert(digits.begin(), '0');
        body = Grouped(digits, spec.group, every);
      }
      return head + body + rest;
    }
    const std::string padding(length(body) < room ? room - length(body) : 0, spec.fill);
    return head + padding + body + rest;
  }
  return Pad(spec, spec.align == '\0' ? '>' : spec.align,
             head + Grouped(digits, spec.group, every) + rest);
}

std::optional<std::string> FormatInt(const Spec& spec, int64_t value) {
  if (spec.digits >= 0) return std::nullopt;
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  unsigned base = 10;
  std::string prefix;
  switch (spec.type) {
    case 'b':
      base = 2;
      break;
    case 'o':
      base = 8;
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    default:
      break;
  }
  if (base != 10 && spec.group == ',') return std::nullopt;
  if (base != 10 && spec.prefix) prefix = absl::StrCat("0", std::string(1, spec.type));
  std::string digits;
  const char* letters = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  for (uint64_t rest = size; rest > 0 || digits.empty(); rest /= base) {
    digits.insert(digits.begin(), letters[rest % base]);
  }
  return Number(spec, value < 0, prefix, std::move(digits), "", base == 10 ? 3 : 4);
}

// "1.2500" and "1.0000e+10" without the zeros that say nothing; `keep` digits stay.
std::string WithoutZeros(const std::string& text, size_t keep) {
  const size_t point = text.find('.'), end = std::min(text.find('e'), text.size());
  if (point == std::string::npos) return text;
  size_t last = end;
  while (last > point + 1 + keep && text[last - 1] == '0') --last;
  if (last == point + 1) last = point;
  return text.substr(0, last) + text.substr(end);
}

// What `.digits` without a type means: at most so many digits, and in fixed notation one behind the
// point.
std::string Short(double size, int digits) {
  digits = std::max(1, digits);
  const std::string scientific = absl::StrFormat("%.*e", digits - 1, size);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= digits - 1) {
    if (size != 0 || digits == 1) return WithoutZeros(scientific, 0);
  }
  return WithoutZeros(absl::StrFormat("%.*f", std::max(1, digits - 1 - exponent), size), 1);
}

std::optional<std::string> FormatDouble(const Spec& spec, double value) {
  if (spec.prefix) return std::nullopt;
  const double size = std::abs(value);
  const int digits = spec.digits < 0 ? 6 : spec.digits;
  std::string text;
  switch (spec.type) {
    case 'e':
      text = absl::StrFormat("%.*e", digits, size);
      break;
    case 'E':
      text = absl::StrFormat("%.*E", digits, size);
      break;
    case 'f':
      text = absl::StrFormat("%.*f", digits, size);
      break;
    case 'F':
      text = absl::StrFormat("%.*F", digits, size);
      break;
    case 'g':
      text = absl::StrFormat("%.*g", digits, size);
      break;
    case 'G':
      text = absl::StrFormat("%.*G", digits, size);
      break;
    case '%':
      text = absl::StrFormat("%.*f%%", digits, size * 100);
      break;
    case '\0':
      text = spec.digits < 0 || !std::isfinite(value) ? FormatFloat(size) : Short(size, digits);
      break;
    default:
      return std::nullopt;
  }
  const size_t whole = std::min(text.size(), text.find_first_not_of("0123456789"));
  return Number(spec, std::signbit(value) && !std::isnan(value), "", text.substr(0, whole),
                text.substr(whole), 3);
}

std::optional<std::string> FormatText(const Spec& spec, std::string text) {
  const bool fits = (spec.type == '\0' || spec.type == 's') && spec.align != '=' &&
                    spec.sign == '-' && spec.group == '\0' && !spec.prefix;
  if (!fits) return std::nullopt;
  if (spec.digits >= 0 && static_cast<size_t>(spec.digits) < text.size()) {
    text.resize(static_cast<size_t>(spec.digits));
  }
  return Pad(spec, spec.align == '\0' ? '<' : spec.align, text);
}

}  // namespace

bool IsTooWide(absl::string_view spec) {
  bool wide = false;
  return !ReadSpec(spec, &wide) && wide;
}

std::optional<std::string> FormatValue(const Value& value, absl::string_view text) {
  const std::optional<Spec> spec = ReadSpec(text);
  if (!spec) return std::nullopt;
  if (value.Is(Type::kStr)) return FormatText(*spec, value.str());
  if (value.Is(Type::kDType)) return FormatText(*spec, Repr(value));
  const bool of_floats = absl::string_view("eEfFgG%").find(spec->type) != absl::string_view::npos;
  if (value.is_integer() && (spec->type == '\0' || !of_floats)) {
    return spec->type == 's' ? std::nullopt : FormatInt(*spec, value.int_value());
  }
  if (value.is_number()) return FormatDouble(*spec, value.as_double());
  return std::nullopt;
}

}  // namespace kiln::lang
