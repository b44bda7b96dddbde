// Text that is laid out: replacement fields, str.format, the % operator, padding and trimming.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/format_value.h"

namespace kiln::lang {
namespace {

constexpr absl::string_view kWhite = " \t\n\r\f\v\x1c\x1d\x1e\x1f";
constexpr char kSpecHelp[] =
    "write [fill][align][sign][width][,][.digits] and one of d, b, o, x, f, e, g, %, s";

// The arguments of one "...".format(...), and what came of it so far.
class Formatter {
 public:
  Formatter(Elaborator& e, const BoundArgs& args) : e_(e), args_(args) {}

  // `depth`: 1 inside of a field's specification.
  absl::Status Append(absl::string_view text, int depth, std::string* out) {
    size_t i = 0;
    while (i < text.size()) {
      const char c = text[i];
      if (c != '{' && c != '}') {
        out->push_back(c);
        ++i;
        continue;
      }
      if (i + 1 < text.size() && text[i + 1] == c && depth == 0) {
        out->push_back(c);
        i += 2;
        continue;
      }
      if (c == '}') return Bad("a '}' that closes nothing", "write '}}' for a brace");
      size_t end = i + 1;
      for (int open = 1; end < text.size(); ++end) {
        open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (end >= text.size()) return Bad("a '{' that nothing closes", "write '{{' for a brace");
      if (depth > 1) return Bad("fields nested more than twice", "name the parts first");
      KILN_RETURN_IF_ERROR(Field(text.substr(i + 1, end - i - 1), depth, out));
      i = end + 1;
    }
    return absl::OkStatus();
  }

  const Value& shown() const { return shown_; }

 private:
  absl::Status Bad(absl::string_view what, std::string remedy) {
    return e_.Error(args_.loc, absl::StrCat("the format has ", what), std::move(remedy));
  }

  // name[.attr][[index]]...[!r][:spec]
  absl::Status Field(absl::string_view field, int depth, std::string* out) {
    KILN_RETURN_IF_ERROR(e_.Step(args_.loc, 4));
    const size_t colon = field.find(':');
    std::string spec;
    if (colon != absl::string_view::npos) {
      KILN_RETURN_IF_ERROR(ReserveNumber(field.substr(0, colon)));
      KILN_RETURN_IF_ERROR(Append(field.substr(colon + 1), depth + 1, &spec));
      field = field.substr(0, colon);
    } else {
      KILN_RETURN_IF_ERROR(ReserveNumber(field));
    }
    char conversion = '\0';
    if (const size_t mark = field.find('!'); mark != absl::string_view::npos) {
      const absl::string_view letter = field.substr(mark + 1);
      if (letter != "r" && letter != "s") {
        return Bad(absl::StrCat("the conversion '!", letter, "'"), "use !r or !s");
      }
      conversion = letter[0];
      field = field.substr(0, mark);
    }
    KILN_ASSIGN_OR_RETURN(const Value value, Find(field));
    if (shown_.is_none()) shown_ = ShownIn(value);
    KILN_ASSIGN_OR_RETURN(const std::string text,
                          FormattedText(e_, value, conversion, spec, args_.loc));
    KILN_RETURN_IF_ERROR(e_.ChargeBytes(args_.loc, static_cast<int64_t>(text.size())));
    out->append(text);
    return absl::OkStatus();
  }

  // Numbers of fields without a name count in the order in which they begin.
  absl::Status ReserveNumber(absl::string_view field) {
    const size_t end = std::min(field.find_first_of(".[!"), field.size());
    const absl::string_view name = field.substr(0, end);
    const bool digits = !name.empty() && std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
    if (!name.empty() && !digits) return absl::OkStatus();
    counted_ |= name.empty();
    numbered_ |= digits;
    if (counted_ && numbered_) {
      return Bad("fields with and without numbers", "number all of them or none");
    }
    if (name.empty()) pending_.push_back(next_++);
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Find(absl::string_view field) {
    const size_t end = std::min(field.find_first_of(".["), field.size());
    const absl::string_view name = field.substr(0, end);
    absl::string_view rest = field.substr(end);
    Value value;
    size_t at = 0;
    if (name.empty() || absl::SimpleAtoi(name, &at)) {
      if (name.empty()) {
        at = pending_.back();
        pending_.pop_back();
      }
      if (at >= args_.rest.size()) {
        return Bad(absl::StrCat("field ", at, ", but ", args_.rest.size(), " arguments"),
                   "pass a value for each field");
      }
      value = args_.rest[at];
    } else {
      const auto found = std::find_if(args_.extra.begin(), args_.extra.end(),
                                      [&](const auto& given) { return given.name == name; });
      if (found == args_.extra.end()) {
        return Bad(absl::StrCat("the field '", name, "', which no argument has"),
                   absl::StrCat("pass ", name, "=..."));
      }
      value = found->value;
    }
    while (!rest.empty()) {
      if (rest[0] == '.') {
        rest.remove_prefix(1);
        const size_t stop = std::min(rest.find_first_of(".["), rest.size());
        KILN_ASSIGN_OR_RETURN(value,
                              e_.GetAttribute(value, std::string(rest.substr(0, stop)), args_.loc));
        rest.remove_prefix(stop);
        continue;
      }
      const size_t stop = rest.find(']');
      if (rest[0] != '[' || stop == absl::string_view::npos) {
        return Bad("a '[' that nothing closes", "write {name[0]}");
      }
      const absl::string_view key = rest.substr(1, stop - 1);
      int64_t index = 0;
      const bool number = !key.empty() &&
                          std::all_of(key.begin(), key.end(), absl::ascii_isdigit) &&
                          absl::SimpleAtoi(key, &index);
      KILN_ASSIGN_OR_RETURN(
          value, e_.SubscriptSequence(
                     value, number ? Value::Int(index) : e_.NewStr(std::string(key)), args_.loc));
      rest.remove_prefix(stop + 1);
    }
    return value;
  }

  Elaborator& e_;
  const BoundArgs& args_;
  Value shown_;
  size_t next_ = 0;
  std::vector<size_t> pending_;  // numbers of the fields that have begun
  bool counted_ = false, numbered_ = false;
};

absl::StatusOr<Value> Format(Elaborator& e, const BoundArgs& args) {
  Formatter formatter(e, args);
  std::string text;
  KILN_RETURN_IF_ERROR(formatter.Append(args[0].str(), 0, &text));
  const Value own = ShownIn(args[0]);
  return e.NewStr(std::move(text), own.is_none() ? formatter.shown() : own);
}

// One conversion of a % format: "%-8.3f".
struct Conversion {
  bool left = false, plus = false, space = false, zero = false, prefix = false;
  int64_t width = 0, digits = -1;
  char type = 's';
};

// The operands of a % format, in order or by name.
class Operands {
 public:
  Operands(Elaborator& e, const Value& value, SourceLoc loc) : e_(e), value_(value), loc_(loc) {}

  absl::StatusOr<Value> Next() {
    if (value_.Is(Type::kTuple)) {
      if (next_ < value_.seq().items.size()) return value_.seq().items[next_++];
    } else if (next_++ == 0) {
      return value_;
    }
    return e_.Error(loc_, "a % format has more fields than values", "give it a tuple of as many");
  }
  absl::StatusOr<Value> Named(absl::string_view name) {
    named_ = true;
    if (!value_.Is(Type::kDict)) {
      return e_.Error(loc_, "a % format with names takes a dict",
                      "write \"%(name)s\" % {\"name\": value}");
    }
    return e_.SubscriptSequence(value_, e_.NewStr(std::string(name)), loc_);
  }
  absl::Status CheckAllUsed() {
    const size_t count = value_.Is(Type::kTuple)  ? value_.seq().items.size()
                         : value_.Is(Type::kDict) ? 0
                                                  : 1;
    if (named_ || next_ >= count) return absl::OkStatus();
    return e_.Error(loc_, "a % format has fewer fields than values",
                    "add a field, or drop a value");
  }

 private:
  Elaborator& e_;
  const Value& value_;
  SourceLoc loc_;
  size_t next_ = 0;
  bool named_ = false;
};

absl::StatusOr<int64_t> TakeCount(Elaborator& e, absl::string_view text, size_t* i,
                                  Operands* operands, SourceLoc loc) {
  constexpr int64_t kMost = 200;
  int64_t count = 0;
  if (*i < text.size() && text[*i] == '*') {
    ++*i;
    KILN_ASSIGN_OR_RETURN(const Value value, operands->Next());
    KILN_ASSIGN_OR_RETURN(count, e.ToInt(value, loc, "the width of a % format"));
  } else {
    for (; *i < text.size() && absl::ascii_isdigit(text[*i]) && count <= kMost; ++*i) {
      count = count * 10 + (text[*i] - '0');
    }
  }
  if (count >= -kMost && count <= kMost) return count;
  return e.Error(loc, "a % format is wider than 200 characters", "use a smaller width");
}

absl::StatusOr<std::string> Converted(Elaborator& e, const Conversion& c, const Value& given,
                                      SourceLoc loc) {
  const Value value = Plain(given);
  std::string text;
  const bool number = c.type != 's' && c.type != 'r' && c.type != 'a';
  if (!number) {
    KILN_ASSIGN_OR_RETURN(text, FormattedText(e, given, c.type == 's' ? 's' : 'r', "", loc));
    if (c.digits >= 0 || c.width > 0) {
      KILN_RETURN_IF_ERROR(CheckAscii(e, e.NewStr(text), loc, "the width"));
    }
    if (c.digits >= 0 && static_cast<size_t>(c.digits) < text.size()) {
      text.resize(static_cast<size_t>(c.digits));
    }
  } else {
    const bool whole = absl::string_view("diuxXo").find(c.type) != absl::string_view::npos;
    Value shown = value;
    if (e.IsRuntime(value)) {
      KILN_RETURN_IF_ERROR(CheckKnownText(e, e.NewStr("", value), loc, "the digits"));
    }
    const bool decimal = c.type == 'd' || c.type == 'i' || c.type == 'u';
    if (decimal && value.Is(Type::kFloat)) {
      KILN_ASSIGN_OR_RETURN(shown, e.Call(Value::TypeName("int"), {value}, loc));
    }
    if (!shown.is_number() || (whole && !shown.is_integer())) {
      return e.Error(loc, absl::StrCat("%", std::string(1, c.type), " of ", Describe(value)),
                     "use %s, or give it a number");
    }
    if (shown.Is(Type::kBool)) shown = Value::Int(shown.int_value());
    std::string spec = c.plus ? "+" : c.space ? " " : "";
    if (c.prefix && (c.type == 'x' || c.type == 'X' || c.type == 'o')) spec += '#';
    if (c.zero && !c.left && c.digits < 0) absl::StrAppend(&spec, "0", c.width);
    if (!whole) {
      if (c.zero && !c.left) absl::StrAppend(&spec, c.digits < 0 ? "" : absl::StrCat("0", c.width));
      absl::StrAppend(&spec, ".", c.digits < 0 ? 6 : c.digits);
    } else if (c.digits >= 0) {  // as many digits at least
      const bool sign = shown.int_value() < 0 || c.plus || c.space;
      absl::StrAppend(&spec, "0", c.digits + (sign ? 1 : 0));
    }
    spec += decimal ? 'd' : c.type;
    const std::optional<std::string> made = FormatValue(shown, spec);
    if (!made.has_value()) {
      return e.Error(loc, absl::StrCat("%", std::string(1, c.type), " of ", Repr(value)),
                     "use at most 50 digits");
    }
    text = *made;
  }
  const size_t width = static_cast<size_t>(c.width);
  if (text.size() >= width) return text;
  const std::string padding(width - text.size(), ' ');
  return c.left ? text + padding : padding + text;
}

template <int side>  // -1 left, 0 both, 1 right
absl::StatusOr<Value> Strip(Elaborator& e, const BoundArgs& args) {
  std::string chars(kWhite);
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(chars, e.ToStr(args[1], args.LocOf(1), "what to strip"));
  }
  KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "white space at the ends"));
  KILN_RETURN_IF_ERROR(CheckAscii(e, e.NewStr(chars), args.loc, "the characters"));
  absl::string_view text = args[0].str();
  if (side <= 0) {
    const size_t first = text.find_first_not_of(chars);
    text = first == absl::string_view::npos ? "" : text.substr(first);
  }
  if (side >= 0) text = text.substr(0, text.find_last_not_of(chars) + 1);
  return e.NewStr(std::string(text), ShownIn(args[0]));
}

template <char align>
absl::StatusOr<Value> Pad(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckKnownText(e, args[0], args.loc, "the length"));
  KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "the length"));
  KILN_ASSIGN_OR_RETURN(const int64_t width, e.ToInt(args[1], args.LocOf(1), "the width"));
  std::string fill = align == '0' ? "0" : " ";
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(fill, e.ToStr(args[2], args.LocOf(2), "the fill"));
  }
  if (fill.size() != 1) {
    return e.Error(args.LocOf(2), "the fill is not one character", "use one character");
  }
  const std::string& text = args[0].str();
  const int64_t missing = width - static_cast<int64_t>(text.size());
  if (missing <= 0) return args[0];
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, missing));
  const auto some = [&](int64_t n) { return std::string(static_cast<size_t>(n), fill[0]); };
  if (align == '0' && !text.empty() && (text[0] == '-' || text[0] == '+')) {
    return e.NewStr(absl::StrCat(text.substr(0, 1), some(missing), text.substr(1)));
  }
  // What is left over stands before the text where the width is odd, behind it where it is even.
  const int64_t before = align == '<'   ? 0
                         : align == '^' ? missing / 2 + (missing & width & 1)
                                        : missing;
  return e.NewStr(absl::StrCat(some(before), text, some(missing - before)));
}

template <bool prefix>
absl::StatusOr<Value> RemoveAffix(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string part, e.ToStr(args[1], args.LocOf(1), "the text"));
  KILN_RETURN_IF_ERROR(CheckKnownText(e, args[0], args.loc, prefix ? "the start" : "the end"));
  absl::string_view text = args[0].str();
  if (prefix && absl::StartsWith(text, part)) text.remove_prefix(part.size());
  if (!prefix && absl::EndsWith(text, part)) text.remove_suffix(part.size());
  return e.NewStr(std::string(text));
}

template <bool last>
absl::StatusOr<Value> Partition(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string by, e.ToStr(args[1], args.LocOf(1), "the separator"));
  KILN_RETURN_IF_ERROR(CheckKnownText(e, args[0], args.loc, "a place"));
  if (by.empty()) return e.Error(args.LocOf(1), "partition by an empty text", "name a separator");
  const std::string& text = args[0].str();
  const size_t at = last ? text.rfind(by) : text.find(by);
  if (at == std::string::npos) {
    const Value none = e.NewStr("");
    return last ? e.NewTuple({none, none, args[0]}) : e.NewTuple({args[0], none, none});
  }
  return e.NewTuple(
      {e.NewStr(text.substr(0, at)), e.NewStr(by), e.NewStr(text.substr(at + by.size()))});
}

// Where `by` stands in `text`, at most `most` times (negative: any number), from the left or the
// right, none inside of another.
std::vector<size_t> PlacesOf(absl::string_view text, absl::string_view by, int64_t most,
                             bool from_right) {
  std::vector<size_t> places;
  const auto room = [&] { return most < 0 || static_cast<int64_t>(places.size()) < most; };
  if (!from_right) {
    for (size_t at = text.find(by); at != text.npos && room(); at = text.find(by, at)) {
      places.push_back(at);
      at += by.size();
    }
    return places;
  }
  for (size_t end = text.size(); end >= by.size() && room();) {
    const size_t at = text.rfind(by, end - by.size());
    if (at == text.npos) break;
    places.push_back(at);
    end = at;
  }
  std::reverse(places.begin(), places.end());
  return places;
}

// Parts between the places where `by` stands.
std::vector<absl::string_view> Between(absl::string_view text, size_t size,
                                       const std::vector<size_t>& places) {
  std::vector<absl::string_view> parts;
  size_t from = 0;
  for (const size_t at : places) {
    parts.push_back(text.substr(from, at - from));
    from = at + size;
  }
  parts.push_back(text.substr(from));
  return parts;
}

// Words between white space; what is left after `most` of them is the last part, or the first.
std::vector<absl::string_view> Words(absl::string_view text, int64_t most, bool from_right) {
  std::vector<absl::string_view> parts;
  while (true) {
    if (from_right) {
      text = text.substr(0, text.find_last_not_of(kWhite) + 1);
    } else {
      text.remove_prefix(std::min(text.find_first_not_of(kWhite), text.size()));
    }
    if (text.empty()) break;
    const bool last = most >= 0 && static_cast<int64_t>(parts.size()) == most;
    const size_t stop = from_right ? text.find_last_of(kWhite) : text.find_first_of(kWhite);
    if (last || stop == text.npos) {
      parts.push_back(text);
      break;
    }
    parts.push_back(from_right ? text.substr(stop + 1) : text.substr(0, stop));
    text = from_right ? text.substr(0, stop) : text.substr(stop);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
absl::StatusOr<Value> Split(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckKnownText(e, args[0], args.loc, "the number of parts"));
  const std::string& text = args[0].str();
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 96 * static_cast<int64_t>(text.size())));
  int64_t most = -1;
  if (args.Has(2)) {
    KILN_ASSIGN_OR_RETURN(most, e.ToInt(args[2], args.LocOf(2), "the most splits"));
  }
  std::vector<absl::string_view> parts;
  std::string by;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(by, e.ToStr(args[1], args.LocOf(1), "the separator"));
    if (by.empty()) return e.Error(args.LocOf(1), "split by an empty text", "name a separator");
    parts = Between(text, by.size(), PlacesOf(text, by, most, from_right));
  } else {
    KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "white space"));
    parts = Words(text, most, from_right);
  }
  std::vector<Value> items;
  for (const absl::string_view part : parts) items.push_back(e.NewStr(std::string(part)));
  return e.NewList(std::move(items));
}

absl::StatusOr<Value> Replace(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string from, e.ToStr(args[1], args.LocOf(1), "the old text"));
  KILN_ASSIGN_OR_RETURN(const std::string to, e.ToStr(args[2], args.LocOf(2), "the new text"));
  int64_t most = -1;
  if (args.Has(3)) {
    KILN_ASSIGN_OR_RETURN(most, e.ToInt(args[3], args.LocOf(3), "the count"));
  }
  if (from.empty())
    return e.Error(args.LocOf(1), "replace of an empty text", "name what to replace");
  const std::string& text = args[0].str();
  const std::vector<size_t> places = PlacesOf(text, from, most, /*from_right=*/false);
  KILN_RETURN_IF_ERROR(
      e.ChargeBytes(args.loc, static_cast<int64_t>(text.size() + places.size() * to.size())));
  const Value shown = ShownIn(args[0]);
  return e.NewStr(absl::StrJoin(Between(text, from.size(), places), to),
                  shown.is_none() ? ShownIn(args[2]) : shown);
}

constexpr Builtin kRows[] = {
    {"replace", "self old new count?", Replace},
    {"split", "self sep? maxsplit?", Split<false>},
    {"rsplit", "self sep? maxsplit?", Split<true>},
    {"format", "self * **", Format},
    {"strip", "self chars?", Strip<0>},
    {"lstrip", "self chars?", Strip<-1>},
    {"rstrip", "self chars?", Strip<1>},
    {"ljust", "self width fill?", Pad<'<'>},
    {"rjust", "self width fill?", Pad<'>'>},
    {"center", "self width fill?", Pad<'^'>},
    {"zfill", "self width", Pad<'0'>},
    {"removeprefix", "self text", RemoveAffix<true>},
    {"removesuffix", "self text", RemoveAffix<false>},
    {"partition", "self by", Partition<false>},
    {"rpartition", "self by", Partition<true>},
};

}  // namespace

absl::Status CheckPrintable(Elaborator& e, const Value& text, SourceLoc loc) {
  if (!text.Is(Type::kStr)) return absl::OkStatus();
  const std::string& bytes = text.str();
  const auto byte = [&](size_t i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const unsigned first = byte(i), second = byte(i + 1);
    // Controls, white space, and what is for private use.
    const bool fine = first < 0xC2 || (first == 0xC2 && second > 0xA0 && second != 0xAD) ||
                      (first > 0xC2 && first < 0xE2) || (first == 0xE2 && second > 0x81) ||
                      (first == 0xE3 && (second > 0x80 || byte(i + 2) > 0x80)) ||
                      (first > 0xE3 && first < 0xED) || (first == 0xED && second < 0xA0) ||
                      first == 0xF0;
    if (fine) continue;
    return e.Unimplemented(loc, "the repr of a text with characters that may not be printable",
                           "show the text itself, as str() does");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FormattedText(Elaborator& e, const Value& value, char conversion,
                                          const std::string& spec, SourceLoc loc) {
  if (value.Is(Type::kExpr) && value.expr().info.open_only()) {
    return e.NeedConcrete(loc, value.expr().expr, "its digits become text");
  }
  std::string text;
  if (conversion == 'r') {
    KILN_ASSIGN_OR_RETURN(auto own, Elaborator::Classes(&e).Text(value, /*repr=*/true, loc));
    if (!own.has_value()) KILN_RETURN_IF_ERROR(CheckPrintable(e, value, loc));
    if (!own.has_value()) KILN_RETURN_IF_ERROR(Elaborator::Classes(&e).CheckItemTexts(value, loc));
    text = own.has_value() ? *std::move(own) : Repr(value, 1 << 16);
  } else if (spec.empty() || conversion == 's') {
    KILN_ASSIGN_OR_RETURN(text, e.TextOf(value, loc));
  }
  if (spec.empty()) return text;
  Value given = conversion == '\0' ? value : e.NewStr(std::move(text));
  if (given.Is(Type::kInstance)) {  // a member of an enum: what str() makes of it, or its value
    const bool number = Plain(given).is_number() && given.instance().type != nullptr &&
                        given.instance().type->shows_value;
    if (number) {
      given = Plain(given);
    } else if (given.instance().type != nullptr &&
               given.instance().type->kind == ClassKind::kEnum) {
      KILN_ASSIGN_OR_RETURN(text, e.TextOf(given, loc));
      given = e.NewStr(std::move(text));
    }
  }
  KILN_RETURN_IF_ERROR(CheckAscii(e, given, loc, "the width"));
  if (const std::optional<std::string> formatted = FormatValue(given, spec)) return *formatted;
  if (IsTooWide(spec)) {
    return e.Error(loc, absl::StrCat("the format '", spec, "' is wider than 200 characters"),
                   "use a smaller width");
  }
  return e.Error(loc, absl::StrCat("the format '", spec, "' does not fit ", Describe(value)),
                 kSpecHelp);
}

absl::StatusOr<Value> FormatByPercent(Elaborator& e, const Value& format, const Value& value,
                                      SourceLoc loc) {
  const std::string& text = format.str();
  Operands operands(e, value, loc);
  std::string out;
  Value shown = ShownIn(format);
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '%') {
      out.push_back(text[i++]);
      continue;
    }
    KILN_RETURN_IF_ERROR(e.Step(loc, 4));
    ++i;
    std::optional<Value> named;
    if (i < text.size() && text[i] == '(') {
      const size_t end = text.find(')', i);
      if (end == std::string::npos) {
        return e.Error(loc, "a % format has a '(' that nothing closes", "write %(name)s");
      }
      KILN_ASSIGN_OR_RETURN(named, operands.Named(text.substr(i + 1, end - i - 1)));
      i = end + 1;
    }
    Conversion c;
    for (; i < text.size() && absl::string_view("-+ 0#").find(text[i]) != absl::string_view::npos;
         ++i) {
      c.left |= text[i] == '-';
      c.plus |= text[i] == '+';
      c.space |= text[i] == ' ';
      c.zero |= text[i] == '0';
      c.prefix |= text[i] == '#';
    }
    KILN_ASSIGN_OR_RETURN(c.width, TakeCount(e, text, &i, &operands, loc));
    if (c.width < 0) {
      c.left = true;
      c.width = -c.width;
    }
    if (i < text.size() && text[i] == '.') {
      ++i;
      KILN_ASSIGN_OR_RETURN(c.digits, TakeCount(e, text, &i, &operands, loc));
      c.digits = std::max<int64_t>(0, c.digits);
    }
    if (i >= text.size()) {
      return e.Error(loc, "a % format ends in the middle of a field",
                     "write %% for a percent sign");
    }
    c.type = text[i++];
    if (c.type == '%') {
      out.push_back('%');
      continue;
    }
    if (absl::string_view("diuxXoeEfFgGsra").find(c.type) == absl::string_view::npos) {
      return e.Error(loc, absl::StrCat("a % format has the type '", std::string(1, c.type), "'"),
                     "use one of d, x, o, f, e, g, s, r");
    }
    if (!named.has_value()) {
      KILN_ASSIGN_OR_RETURN(named, operands.Next());
    }
    if (shown.is_none()) shown = ShownIn(*named);
    KILN_ASSIGN_OR_RETURN(const std::string part, Converted(e, c, *named, loc));
    KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, static_cast<int64_t>(part.size())));
    out.append(part);
  }
  KILN_RETURN_IF_ERROR(operands.CheckAllUsed());
  return e.NewStr(std::move(out), shown);
}

BuiltinTable TextMethods() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
