#include "client/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/did_you_mean.h"
#include "compiler/base/config.h"
#include "compiler/base/dtype.h"
#include "compiler/base/status.h"
#include "proto/limits.h"

namespace kiln::client {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int64_t kMaxNodes = 100000;
constexpr int kMaxDepth = 64;

SourceLoc LocOf(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1, mark.column + 2};
}

const char* KindOf(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Null:
      return "nothing";
    case YAML::NodeType::Scalar:
      return "a single value";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a mapping";
    default:
      return "undefined";
  }
}

bool IsQuoted(const YAML::Node& node) { return node.Tag() == "!"; }

bool IsDecimal(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// A number as YAML writes it: starts with a digit, a sign or a dot before a digit.
bool LooksNumeric(absl::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  absl::ConsumePrefix(&text, ".");
  return !text.empty() && absl::ascii_isdigit(text[0]);
}

std::string FloatText(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Takes no notice of anything.
class IgnoreEvents : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// 0, 1, or 2 for more. YAML::LoadAll is no help: on some texts (a leading comma) it makes empty
// documents without end.
int CountDocuments(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  IgnoreEvents ignore;
  int count = 0;
  while (count < 2 && parser.HandleNextDocument(ignore)) ++count;
  return count;
}

}  // namespace

absl::Status YamlReader::Error(const YAML::Node& node, std::string message, std::string remedy,
                               absl::StatusCode code) const {
  return ErrorAt(*file_, LocOf(node.Mark()), std::move(message), std::move(remedy), code);
}

absl::Status YamlReader::CheckSize(const YAML::Node& node, int depth, int64_t* budget) const {
  if (--*budget < 0) {
    return Error(node, absl::StrCat("the file has more than ", kMaxNodes, " values"),
                 "split it into several files; aliases count every time they are used");
  }
  if (depth > kMaxDepth) {
    return Error(node, absl::StrCat("more than ", kMaxDepth, " levels of nesting"),
                 "a sweep file needs four");
  }
  if (node.IsSequence()) {
    for (const auto& item : node) KILN_RETURN_IF_ERROR(CheckSize(item, depth + 1, budget));
  } else if (node.IsMap()) {
    for (const auto& entry : node) {
      KILN_RETURN_IF_ERROR(CheckSize(entry.first, depth + 1, budget));
      KILN_RETURN_IF_ERROR(CheckSize(entry.second, depth + 1, budget));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<YAML::Node> YamlReader::Load() const {
  if (file_->text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_->path, ": ", file_->text.size(), " bytes; a sweep file has at most ", kMaxFileBytes));
  }
  const size_t nul = file_->text.find('\0');
  if (nul != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path, ": byte ", nul, " is zero: this is no text file"));
  }
  try {
    const YAML::Node root = YAML::Load(file_->text);
    if (CountDocuments(file_->text) != 1 || root.IsNull()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_->path,
                       ": the file is empty or holds several documents; a sweep file is one "
                       "mapping, and 'sweeps:' holds several sweeps"));
    }
    int64_t budget = kMaxNodes;
    KILN_RETURN_IF_ERROR(CheckSize(root, 0, &budget));
    return root;
  } catch (const YAML::Exception& e) {
    return ErrorAt(*file_, LocOf(e.mark), absl::StrCat("this is not YAML: ", e.msg),
                   "check indentation, colons and brackets near here");
  }
}

absl::Status YamlReader::Entries(
    const YAML::Node& node, absl::string_view what,
    const std::function<absl::Status(const YAML::Node&, const std::string&, const YAML::Node&)>&
        handler) const {
  if (!node.IsMap()) {
    return Error(node, absl::StrCat(what, " is ", KindOf(node), ", not a mapping"),
                 "write 'key: value' lines");
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      return Error(entry.first, absl::StrCat("a key of ", what, " is ", KindOf(entry.first)),
                   "keys are names");
    }
    const std::string key = entry.first.Scalar();
    if (!seen.insert(key).second) {
      return Error(entry.first, absl::StrCat("key '", key, "' is given twice in ", what),
                   "remove one of them");
    }
    KILN_RETURN_IF_ERROR(handler(entry.first, key, entry.second));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::Mapping(const YAML::Node& node, absl::string_view what,
                                 const Handlers& handlers) const {
  return Entries(
      node, what, [&](const YAML::Node& at, const std::string& key, const YAML::Node& value) {
        const auto it = handlers.find(key);
        if (it != handlers.end()) return it->second(value);
        std::vector<std::string> known;
        for (const auto& [name, handler] : handlers) known.push_back(name);
        return Error(at, absl::StrCat("unknown key '", key, "' in ", what, DidYouMean(key, known)),
                     absl::StrCat("keys: ", absl::StrJoin(known, ", ")));
      });
}

absl::Status YamlReader::Names(const YAML::Node& node, absl::string_view what,
                               const NameHandler& handler) const {
  return Entries(node, what,
                 [&](const YAML::Node& at, const std::string& key, const YAML::Node& value) {
                   if (!IsIdentifier(key)) {
                     return Error(at, absl::StrCat("'", key, "' in ", what, " is no identifier"),
                                  "write the name of a parameter of the kernel");
                   }
                   return handler(key, value);
                 });
}

absl::Status YamlReader::ConfigNames(const YAML::Node& node, absl::string_view what,
                                     const NameHandler& handler) const {
  return Entries(
      node, what, [&](const YAML::Node& at, const std::string& key, const YAML::Node& value) {
        if (!IsIdentifier(key) && !IsOptionName(key)) {
          return Error(
              at,
              absl::StrCat("'", key, "' in ", what, " is neither an identifier nor a pass option"),
              "write the name of a parameter of the kernel, or one such as kiln.cluster");
        }
        return handler(key, value);
      });
}

absl::Status YamlReader::Sequence(const YAML::Node& node, absl::string_view what,
                                  const Handler& handler) const {
  if (!node.IsSequence()) {
    return Error(node, absl::StrCat(what, " is ", KindOf(node), ", not a list"),
                 "write [a, b] or lines that start with '-'");
  }
  for (const auto& item : node) KILN_RETURN_IF_ERROR(handler(item));
  return absl::OkStatus();
}

absl::StatusOr<std::string> YamlReader::Text(const YAML::Node& node, absl::string_view what) const {
  if (!node.IsScalar()) {
    return Error(node, absl::StrCat(what, " is ", KindOf(node), ", not a text"), "write one value");
  }
  if (node.Scalar().empty()) {
    return Error(node, absl::StrCat(what, " is empty"), "give it a value, or leave the key out");
  }
  return node.Scalar();
}

absl::StatusOr<int64_t> YamlReader::Integer(const YAML::Node& node, absl::string_view what,
                                            int64_t low, int64_t high) const {
  int64_t value = 0;
  if (!node.IsScalar() || IsQuoted(node) || !IsDecimal(node.Scalar()) ||
      !absl::SimpleAtoi(node.Scalar(), &value)) {
    return Error(node, absl::StrCat(what, " is not a whole number"),
                 absl::StrCat("write a decimal number from ", low, " to ", high));
  }
  if (value < low || value > high) {
    return Error(node, absl::StrCat(what, " ", value, " is out of range"),
                 absl::StrCat("write a number from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<double> YamlReader::Number(const YAML::Node& node, absl::string_view what,
                                          double low, double high) const {
  double value = 0;
  if (!node.IsScalar() || IsQuoted(node) || !LooksNumeric(node.Scalar()) ||
      !absl::SimpleAtod(node.Scalar(), &value) || !std::isfinite(value)) {
    return Error(node, absl::StrCat(what, " is not a number"),
                 absl::StrCat("write a number from ", low, " to ", high));
  }
  if (value < low || value > high) {
    return Error(node, absl::StrCat(what, " ", value, " is out of range"),
                 absl::StrCat("write a number from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<bool> YamlReader::Boolean(const YAML::Node& node, absl::string_view what) const {
  if (node.IsScalar() && !IsQuoted(node)) {
    if (node.Scalar() == "true") return true;
    if (node.Scalar() == "false") return false;
  }
  return Error(node, absl::StrCat(what, " is neither true nor false"), "write true or false");
}

absl::StatusOr<double> YamlReader::Seconds(const YAML::Node& node, absl::string_view what,
                                           double high) const {
  absl::Duration duration;
  if (node.IsScalar() && !IsDecimal(node.Scalar()) &&
      absl::ParseDuration(node.Scalar(), &duration)) {
    const double seconds = absl::ToDoubleSeconds(duration);
    if (seconds >= 0 && seconds <= high) return seconds;
    return Error(node, absl::StrCat(what, " ", node.Scalar(), " is out of range"),
                 absl::StrCat("write 0 to ", high, " seconds"));
  }
  const absl::StatusOr<double> seconds = Number(node, what, 0, high);
  if (seconds.ok() || !node.IsScalar() || IsDecimal(node.Scalar())) return seconds;
  return Error(node, absl::StrCat(what, " '", node.Scalar(), "' is no length of time"),
               absl::StrCat("write seconds from 0 to ", high, ", or 90s, 10m, 1h30m"));
}

absl::StatusOr<int> YamlReader::Choice(const YAML::Node& node, absl::string_view what,
                                       const std::vector<std::string>& choices) const {
  KILN_ASSIGN_OR_RETURN(const std::string text, Text(node, what));
  const auto it = std::find(choices.begin(), choices.end(), text);
  if (it != choices.end()) return static_cast<int>(it - choices.begin());
  return Error(node, absl::StrCat(what, " '", text, "' is unknown", DidYouMean(text, choices)),
               absl::StrCat("write one of: ", absl::StrJoin(choices, ", ")));
}

absl::StatusOr<std::string> YamlReader::Literal(const YAML::Node& node,
                                                absl::string_view what) const {
  if (node.IsNull()) return std::string("None");
  if (!node.IsScalar()) {
    return Error(node, absl::StrCat(what, " is ", KindOf(node), ", not a single value"),
                 "write a number, true, false, a dtype or a text; 'matrix:' tries several values");
  }
  const std::string& text = node.Scalar();
  const absl::string_view dtype = absl::StripPrefix(absl::string_view(text), "T.");
  if (ParseDType(dtype).has_value()) return std::string(dtype);
  if (!IsQuoted(node)) {
    if (text == "true" || text == "True") return std::string("True");
    if (text == "false" || text == "False") return std::string("False");
    if (text == "null" || text == "~" || text == "None") return std::string("None");
    if (IsDecimal(text)) return text;
    double value = 0;
    if (LooksNumeric(text)) {
      if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
          text.find_first_of(".eE") != std::string::npos) {
        return FloatText(value);
      }
      return Error(node, absl::StrCat(what, " '", text, "' is no number of the kernel language"),
                   "write a decimal integer without leading zeros, or a float such as 0.5");
    }
  }
  const bool plain =
      !text.empty() && text.size() <= 200 &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-' || c == '+';
      });
  if (plain) return absl::StrCat("\"", text, "\"");
  return Error(node, absl::StrCat(what, " is not a value that a kernel can take"),
               absl::StrContains(text, "Tensor(")
                   ? "give a tensor by its sizes, as in shapes: {A_shape_0: 1024, A_shape_1: 512}; "
                     "'kilnc signature' names them"
                   : "texts have at most 200 letters, digits and _ . - +");
}

}  // namespace kiln::client
