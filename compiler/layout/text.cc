#include "compiler/layout/text.h"

#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::layout {
namespace {

constexpr size_t kMaxText = 64 * 1024;
constexpr int kMaxNesting = 16;

std::vector<Iter> RowMajor(const std::vector<int64_t>& extents) {
  std::vector<Iter> iters(extents.size());
  int64_t stride = 1;
  for (size_t k = extents.size(); k-- > 0;) {
    iters[k] = {extents[k], stride, Axis::kM};
    if (__builtin_mul_overflow(stride, extents[k], &stride)) stride = INT64_MAX;
  }
  return iters;
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Layout> Whole() {
    KILN_ASSIGN_OR_RETURN(Layout layout, Composed(0));
    Blank();
    if (at_ != text_.size()) return Wrong("the end of the layout");
    return layout;
  }

 private:
  absl::Status Wrong(absl::string_view expected) {
    return BadArgument(absl::StrCat("layout text, column ", at_ + 1, ": expected ", expected,
                                    at_ < text_.size()
                                        ? absl::StrCat(", not '", text_.substr(at_, 12), "'")
                                        : std::string(" before the end")));
  }

  void Blank() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool Take(absl::string_view token) {
    Blank();
    if (!absl::StartsWith(text_.substr(at_), token)) return false;
    at_ += token.size();
    return true;
  }

  absl::Status Need(absl::string_view token) {
    return Take(token) ? absl::OkStatus() : Wrong(absl::StrCat("'", token, "'"));
  }

  bool Peek(absl::string_view token) {
    Blank();
    return absl::StartsWith(text_.substr(at_), token);
  }

  absl::StatusOr<int64_t> Integer() {
    Blank();
    size_t end = at_;
    if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
    while (end < text_.size() && isdigit(static_cast<unsigned char>(text_[end]))) ++end;
    int64_t value = 0;
    if (!absl::SimpleAtoi(text_.substr(at_, end - at_), &value)) return Wrong("an integer");
    at_ = end;
    return value;
  }

  absl::string_view Word() {
    Blank();
    size_t end = at_;
    while (end < text_.size() &&
           (isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) {
      ++end;
    }
    const absl::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }

  absl::StatusOr<Axis> OptionalAxis() {
    if (!Take("@")) return Axis::kM;
    const size_t start = at_;
    const absl::StatusOr<Axis> axis = FindAxis(Word());
    if (!axis.ok()) {
      return WithContext(axis.status(), absl::StrCat("layout text, column ", start + 1));
    }
    return *axis;
  }

  absl::StatusOr<Step> OneStep() {
    KILN_ASSIGN_OR_RETURN(const int64_t value, Integer());
    KILN_ASSIGN_OR_RETURN(const Axis axis, OptionalAxis());
    return Step(value, axis);
  }

  // One step, or a parenthesised list of them (a trailing comma is allowed, as in Python).
  absl::StatusOr<std::vector<Step>> Steps() {
    std::vector<Step> steps;
    if (!Take("(")) {
      KILN_ASSIGN_OR_RETURN(const Step step, OneStep());
      steps.push_back(step);
      return steps;
    }
    while (!Take(")")) {
      KILN_ASSIGN_OR_RETURN(const Step step, OneStep());
      steps.push_back(step);
      if (!Take(",") && !Peek(")")) return Wrong("',' or ')'");
    }
    return steps;
  }

  // extents [: strides] ], after the opening bracket.
  absl::StatusOr<std::vector<Iter>> Iters() {
    const size_t start = at_;
    KILN_ASSIGN_OR_RETURN(std::vector<Step> extents, Steps());
    while (Take(",")) {  // S[2,3,4], extents alone
      KILN_ASSIGN_OR_RETURN(const Step step, OneStep());
      extents.push_back(step);
    }
    std::vector<int64_t> values;
    for (const Step& e : extents) {
      if (e.axis != Axis::kM) return Wrong("extents without axes");
      values.push_back(e.value);
    }
    std::vector<Iter> iters = RowMajor(values);
    if (Take(":")) {
      KILN_ASSIGN_OR_RETURN(const std::vector<Step> strides, Steps());
      if (strides.size() != iters.size()) {
        return BadArgument(absl::StrCat("layout text, column ", start + 1, ": ", iters.size(),
                                        " extents but ", strides.size(), " strides"));
      }
      for (size_t k = 0; k < iters.size(); ++k) {
        iters[k].stride = strides[k].value;
        iters[k].axis = strides[k].axis;
      }
    }
    KILN_RETURN_IF_ERROR(Need("]"));
    return iters;
  }

  absl::StatusOr<Layout> Tile() {
    std::vector<Iter> shard, replica;
    Offset offset;
    bool has_shard = false;
    bool first = true;
    for (;;) {
      const bool minus = !first && Take("-");
      if (!first && !minus && !Take("+")) break;
      first = false;
      if (!minus && Take("S[")) {
        if (has_shard) return Wrong("one S[...] only");
        KILN_ASSIGN_OR_RETURN(shard, Iters());
        has_shard = true;
      } else if (!minus && Take("R[")) {
        KILN_ASSIGN_OR_RETURN(const std::vector<Iter> iters, Iters());
        replica.insert(replica.end(), iters.begin(), iters.end());
      } else {
        KILN_ASSIGN_OR_RETURN(const Step step, OneStep());
        if (step.value == INT64_MIN) return Wrong("an offset above -2^63");
        offset.emplace_back(step.axis, minus ? -step.value : step.value);
      }
    }
    if (!has_shard) return Wrong("S[...]");
    return Layout::FromIters(std::move(shard), std::move(replica), std::move(offset));
  }

  absl::StatusOr<SwizzleLayout> Angle() {
    int64_t numbers[3];
    for (int i = 0; i < 3; ++i) {
      if (i > 0) KILN_RETURN_IF_ERROR(Need(","));
      KILN_ASSIGN_OR_RETURN(numbers[i], Integer());
    }
    bool inner = true;
    if (Take(",")) {
      KILN_RETURN_IF_ERROR(Need("outer"));
      inner = false;
    }
    KILN_RETURN_IF_ERROR(Need(">"));
    KILN_ASSIGN_OR_RETURN(const Axis axis, OptionalAxis());
    return Checked(numbers, inner, axis);
  }

  absl::StatusOr<SwizzleLayout> Checked(const int64_t* n, bool inner, Axis axis) {
    for (int i = 0; i < 3; ++i) {
      if (n[i] < 0 || n[i] > 60) return Wrong("swizzle numbers in [0, 60]");
    }
    return SwizzleLayout::Make(static_cast<int>(n[0]), static_cast<int>(n[1]),
                               static_cast<int>(n[2]), inner, axis);
  }

  // per_element=3, swizzle_len=3, atom_len=3) or the numbers alone, after the opening parenthesis.
  absl::StatusOr<SwizzleLayout> Named() {
    static constexpr absl::string_view kNames[] = {"per_element", "swizzle_len", "atom_len"};
    int64_t numbers[3];
    for (int i = 0; i < 3; ++i) {
      if (i > 0) KILN_RETURN_IF_ERROR(Need(","));
      if (Take(kNames[i])) KILN_RETURN_IF_ERROR(Need("="));
      KILN_ASSIGN_OR_RETURN(numbers[i], Integer());
    }
    bool inner = true;
    if (Take(",")) {
      if (Take("swizzle_inner")) KILN_RETURN_IF_ERROR(Need("="));
      const absl::string_view word = Word();
      if (word != "True" && word != "False") return Wrong("True or False");
      inner = word == "True";
    }
    KILN_RETURN_IF_ERROR(Need(")"));
    return Checked(numbers, inner, Axis::kM);
  }

  absl::StatusOr<Layout> Composed(int depth) {
    if (depth > kMaxNesting) return Wrong("at most 16 nested constructors");
    if (Take("TileLayout(")) {
      KILN_ASSIGN_OR_RETURN(Layout tile, Tile());
      KILN_RETURN_IF_ERROR(Need(")"));
      return tile;
    }
    if (Take("ComposeLayout(")) {
      SwizzleLayout swizzle;
      if (Take("SwizzleLayout(")) {
        KILN_ASSIGN_OR_RETURN(swizzle, Named());
      } else {
        KILN_RETURN_IF_ERROR(Need("<"));
        KILN_ASSIGN_OR_RETURN(swizzle, Angle());
      }
      KILN_RETURN_IF_ERROR(Need(","));
      KILN_ASSIGN_OR_RETURN(const Layout tile, Composed(depth + 1));
      KILN_RETURN_IF_ERROR(Need(")"));
      return ComposeLayout(swizzle, tile);
    }
    if (Take("SwizzleLayout(")) {
      KILN_ASSIGN_OR_RETURN(const SwizzleLayout swizzle, Named());
      return ComposeLayout(swizzle);
    }
    if (!Take("<")) return Tile();
    KILN_ASSIGN_OR_RETURN(const SwizzleLayout swizzle, Angle());
    if (!Take("o ") && !Take("\u2218")) return ComposeLayout(swizzle);
    KILN_ASSIGN_OR_RETURN(const Layout tile, Composed(depth + 1));
    return ComposeLayout(swizzle, tile);
  }

  absl::string_view text_;
  size_t at_ = 0;
};

std::string Value(int64_t value, Axis axis) {
  return axis == Axis::kM ? absl::StrCat(value) : absl::StrCat(value, "@", NameOf(axis));
}

void PrintIters(absl::string_view letter, const std::vector<Iter>& iters, std::string* out) {
  std::string extents, strides;
  for (const Iter& iter : iters) {
    absl::StrAppend(&extents, extents.empty() ? "" : ",", iter.extent);
    absl::StrAppend(&strides, strides.empty() ? "" : ",", Value(iter.stride, iter.axis));
  }
  if (iters.size() == 1) {
    absl::StrAppend(out, letter, "[", extents, ":", strides, "]");
  } else {
    absl::StrAppend(out, letter, "[(", extents, "):(", strides, ")]");
  }
}

std::vector<Iter> Zip(const std::vector<int64_t>& extents, std::initializer_list<Step> strides,
                      absl::Status* status) {
  std::vector<Iter> iters = RowMajor(extents);
  if (strides.size() == 0) return iters;
  if (strides.size() != iters.size()) {
    *status = BadArgument(
        absl::StrCat(iters.size(), " extents but ", strides.size(), " strides in a layout"));
    return {};
  }
  size_t k = 0;
  for (const Step& step : strides) {
    iters[k] = {iters[k].extent, step.value, step.axis};
    ++k;
  }
  return iters;
}

}  // namespace

absl::StatusOr<Layout> Parse(absl::string_view text) {
  if (text.size() > kMaxText) return BadArgument("a layout text of more than 64 KiB");
  return Parser(text).Whole();
}

std::string Print(const Layout& layout) {
  std::string text;
  for (const SwizzleLayout& s : layout.swizzles()) absl::StrAppend(&text, s.ToString(), " o ");
  PrintIters("S", layout.shard(), &text);
  if (!layout.replica().empty()) {
    absl::StrAppend(&text, " + ");
    PrintIters("R", layout.replica(), &text);
  }
  for (const auto& [axis, value] : layout.offset()) {
    absl::StrAppend(&text, value < 0 ? " - " : " + ", Value(value < 0 ? -value : value, axis));
  }
  return text;
}

Layout MustParse(absl::string_view text) {
  absl::StatusOr<Layout> layout = Parse(text);
  if (!layout.ok()) {
    CheckFailed(__FILE__, __LINE__,
                absl::StrCat(text, ": ", std::string(layout.status().message())).c_str());
  }
  return *std::move(layout);
}

Spec S(std::vector<int64_t> extents, std::initializer_list<Step> strides) {
  Spec spec;
  spec.shard = Zip(extents, strides, &spec.status);
  return spec;
}

Spec R(std::vector<int64_t> extents, std::initializer_list<Step> strides) {
  Spec spec;
  spec.replica = Zip(extents, strides, &spec.status);
  return spec;
}

Spec operator+(Spec a, const Spec& b) {
  a.shard.insert(a.shard.end(), b.shard.begin(), b.shard.end());
  a.replica.insert(a.replica.end(), b.replica.begin(), b.replica.end());
  a.offset.insert(a.offset.end(), b.offset.begin(), b.offset.end());
  if (a.status.ok()) a.status = b.status;
  return a;
}

Spec operator+(Spec a, Step offset) {
  a.offset.emplace_back(offset.axis, offset.value);
  return a;
}

absl::StatusOr<Layout> Build(const Spec& spec) {
  KILN_RETURN_IF_ERROR(spec.status);
  return Layout::FromIters(spec.shard, spec.replica, spec.offset);
}

}  // namespace kiln::layout
