#include "worker/profile/extent.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

constexpr int kMaxDepth = 100;

// One pass over the text, by recursive descent: sums of products of atoms.
class Reader {
 public:
  Reader(absl::string_view text, const ExtentNames& names)
      : text_(text), rest_(text), names_(names) {}

  absl::StatusOr<int64_t> All() {
    KILN_ASSIGN_OR_RETURN(const int64_t value, Sum());
    if (!rest_.empty()) return Bad();
    return value;
  }

 private:
  absl::Status Bad() const {
    return absl::InvalidArgumentError(
        absl::StrCat("the extent '", text_.substr(0, 200), "' is no integer arithmetic"));
  }

  // Takes the operator or bracket, and the space around it.
  bool Take(absl::string_view sign) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    if (!absl::ConsumePrefix(&rest_, sign)) return false;
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return true;
  }

  absl::StatusOr<int64_t> Apply(char op, int64_t a, int64_t b) const {
    int64_t value = 0;
    bool bad = false;
    switch (op) {
      case '+':
        bad = __builtin_add_overflow(a, b, &value);
        break;
      case '-':
        bad = __builtin_sub_overflow(a, b, &value);
        break;
      case '*':
        bad = __builtin_mul_overflow(a, b, &value);
        break;
      default: {
        if (b == 0 || (b == -1 && a == INT64_MIN)) {
          bad = true;
          break;
        }
        const bool inexact = a % b != 0 && (a < 0) != (b < 0);
        value = op == '/' ? a / b - (inexact ? 1 : 0) : a % b + (inexact ? b : 0);
      }
    }
    if (!bad) return value;
    return absl::InvalidArgumentError(
        absl::StrCat("the extent '", text_.substr(0, 200), "' has no value"));
  }

  absl::StatusOr<int64_t> Sum() {
    if (++depth_ > kMaxDepth) return Bad();
    KILN_ASSIGN_OR_RETURN(int64_t value, Product());
    for (;;) {
      const char op = Take("+") ? '+' : Take("-") ? '-' : 0;
      if (op == 0) break;
      KILN_ASSIGN_OR_RETURN(const int64_t other, Product());
      KILN_ASSIGN_OR_RETURN(value, Apply(op, value, other));
    }
    --depth_;
    return value;
  }

  absl::StatusOr<int64_t> Product() {
    KILN_ASSIGN_OR_RETURN(int64_t value, Atom());
    for (;;) {
      const char op = Take("*") ? '*' : Take("//") ? '/' : Take("%") ? '%' : 0;
      if (op == 0) return value;
      KILN_ASSIGN_OR_RETURN(const int64_t other, Atom());
      KILN_ASSIGN_OR_RETURN(value, Apply(op, value, other));
    }
  }

  absl::StatusOr<int64_t> Atom() {
    if (Take("-")) {
      if (++depth_ > kMaxDepth) return Bad();
      KILN_ASSIGN_OR_RETURN(const int64_t value, Atom());
      --depth_;
      return Apply('-', 0, value);
    }
    if (Take("(")) {
      KILN_ASSIGN_OR_RETURN(const int64_t value, Sum());
      if (!Take(")")) return Bad();
      return value;
    }
    size_t length = 0;
    while (length < rest_.size() && (absl::ascii_isalnum(rest_[length]) || rest_[length] == '_')) {
      ++length;
    }
    const std::string word(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (word.empty()) return Bad();
    if (absl::ascii_isdigit(word[0])) {
      int64_t value = 0;
      if (!absl::SimpleAtoi(word, &value)) return Bad();
      return value;
    }
    if (Take("(")) return Function(word);
    return names_(word);
  }

  // min(a, b), max(a, b), and the casts int32(a) and int64(a).
  absl::StatusOr<int64_t> Function(absl::string_view name) {
    std::vector<int64_t> values;
    do {
      KILN_ASSIGN_OR_RETURN(values.emplace_back(), Sum());
    } while (Take(","));
    if (!Take(")")) return Bad();
    if (values.size() == 1 && (name == "int32" || name == "int64")) return values[0];
    if (values.size() == 2 && name == "min") return std::min(values[0], values[1]);
    if (values.size() == 2 && name == "max") return std::max(values[0], values[1]);
    return Bad();
  }

  const absl::string_view text_;
  absl::string_view rest_;
  const ExtentNames& names_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> EvaluateExtent(absl::string_view text, const ExtentNames& names) {
  return Reader(text, names).All();
}

}  // namespace kiln::worker
