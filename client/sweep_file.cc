// The sweep file's grammar; client/README.md describes it for users.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/kiln_client.h"
#include "client/yaml_reader.h"
#include "compiler/base/config.h"
#include "compiler/base/dtype.h"
#include "compiler/base/status.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/source_bundle.h"
#include "proto/limits.h"

namespace kiln::client {
namespace {

namespace fs = std::filesystem;
using Limits = RpcLimits;
using Row = std::map<std::string, std::string>;

constexpr size_t kMaxSweeps = 4096;
constexpr int64_t kMaxExtent = int64_t{1} << 40;

// What a literal of the kernel language is (YamlReader::Literal).
const char* KindOf(const std::string& literal) {
  int64_t integer = 0;
  if (literal == "None") return "nothing";
  if (literal == "True" || literal == "False") return "a bool";
  if (literal[0] == '"') return "a text";
  if (ParseDType(literal).has_value()) return "a dtype";
  return absl::SimpleAtoi(literal, &integer) ? "an integer" : "a float";
}

bool IsRange(const YAML::Node& node) {
  return node.IsScalar() && absl::StrContains(node.Scalar(), "..");
}

bool IsRunTime(const YAML::Node& node) {
  return node.IsScalar() && absl::StartsWith(node.Scalar(), "T.dynamic");
}

struct Draft {
  SweepSpec spec;
  std::vector<Row> matrix;  // empty = one row with nothing
};

class SweepFile {
 public:
  SweepFile(std::shared_ptr<const SourceFile> file, std::string directory)
      : reader_(std::move(file)), directory_(std::move(directory)) {}

  absl::StatusOr<std::vector<SweepSpec>> Read();

 private:
  // The keys of one mapping: a draft, its tables, and what has been said in it so far.
  struct Scope {
    Draft* draft;
    bool kernel = false;
    bool space = false;  // tunables
    bool configs = false;
    Row arguments;  // given in this mapping, to find a name given twice
  };

  absl::Status ReadMapping(const YAML::Node& node, Draft* draft, YAML::Node* sweeps);
  YamlReader::Handlers KernelKeys(Scope* scope);
  YamlReader::Handlers SpaceKeys(Scope* scope);
  YamlReader::Handlers PolicyKeys(SweepSpec* spec);
  YamlReader::Handlers RunKeys(SweepSpec* spec);

  absl::Status ReadKernel(const YAML::Node& node, Scope* scope);
  absl::Status ReadTemplate(const YAML::Node& node, Scope* scope);
  absl::Status ReadArguments(const YAML::Node& node, Scope* scope);
  absl::Status ReadShapes(const YAML::Node& node, Scope* scope);
  absl::Status ReadRuntime(const YAML::Node& node, SweepSpec* spec);
  absl::Status LeaveToRunTime(const YAML::Node& node, const std::string& name, Scope* scope);
  absl::Status ReadRange(const YAML::Node& node, const std::string& name, SweepSpec* spec);
  absl::Status ReadDTypes(const YAML::Node& node, Scope* scope);
  absl::Status ReadTunables(const YAML::Node& node, Scope* scope);
  absl::Status ReadTunable(const std::string& name, const YAML::Node& node, SweepSpec* spec);
  absl::Status ReadConfigs(const YAML::Node& node, Scope* scope);
  absl::StatusOr<std::string> ReadConfig(const YAML::Node& node);
  absl::Status CheckOption(const YAML::Node& node, const std::string& name,
                           const std::string& text) const;
  absl::Status ReadMeasurement(const YAML::Node& node, MeasurementPolicy* policy);
  absl::Status ReadCheck(const YAML::Node& node, CheckPolicy* policy);
  absl::Status ReadBudget(const YAML::Node& node, SweepSpec* spec);
  absl::Status ReadMatrix(const YAML::Node& node, Draft* draft);
  absl::Status MatrixProduct(const YAML::Node& node, std::vector<Row>* rows);
  absl::Status AddArgument(const YAML::Node& node, const std::string& name, std::string value,
                           Scope* scope);
  absl::Status Emit(const Draft& draft, const YAML::Node& node, std::vector<SweepSpec>* specs);

  YamlReader::Handler SetText(std::string* field, const char* what);
  YamlReader::Handler SetInt(int* field, const char* what, int64_t low, int64_t high);
  YamlReader::Handler SetNumber(double* field, const char* what, double high);
  YamlReader::Handler SetSeconds(double* field, const char* what);

  const YamlReader reader_;
  const std::string directory_;
};

YamlReader::Handler SweepFile::SetText(std::string* field, const char* what) {
  return [this, field, what](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(*field, reader_.Text(node, what));
    if (field->size() <= static_cast<size_t>(Limits::kMaxNameBytes)) return absl::OkStatus();
    return reader_.Error(node, absl::StrCat(what, " is too long"),
                         absl::StrCat("use at most ", Limits::kMaxNameBytes, " bytes"));
  };
}

YamlReader::Handler SweepFile::SetInt(int* field, const char* what, int64_t low, int64_t high) {
  return [this, field, what, low, high](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const int64_t value, reader_.Integer(node, what, low, high));
    *field = static_cast<int>(value);
    return absl::OkStatus();
  };
}

YamlReader::Handler SweepFile::SetNumber(double* field, const char* what, double high) {
  return [this, field, what, high](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(*field, reader_.Number(node, what, 0, high));
    return absl::OkStatus();
  };
}

YamlReader::Handler SweepFile::SetSeconds(double* field, const char* what) {
  return [this, field, what](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(*field, reader_.Seconds(node, what, Limits::kMaxSeconds));
    return absl::OkStatus();
  };
}

absl::Status SweepFile::ReadKernel(const YAML::Node& node, Scope* scope) {
  if (scope->kernel) {
    return reader_.Error(node, "'kernel' and 'template' exclude each other", "keep one of them");
  }
  scope->kernel = true;
  KILN_ASSIGN_OR_RETURN(const std::string given, reader_.Text(node, "kernel"));
  const fs::path path =
      fs::path(given).is_absolute() ? fs::path(given) : fs::path(directory_) / given;
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || !fs::is_regular_file(path, error)) {
    return reader_.Error(
        node, absl::StrCat("cannot read the kernel ", path.string()),
        "kernel paths are relative to the sweep file; check that the file is there",
        absl::StatusCode::kNotFound);
  }
  if (size == 0 || size > static_cast<uintmax_t>(Limits::kMaxKernelBytes)) {
    return reader_.Error(node, absl::StrCat("the kernel ", path.string(), " has ", size, " bytes"),
                         absl::StrCat("a kernel has 1 to ", Limits::kMaxKernelBytes, " bytes"));
  }
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream.good() && !stream.eof()) {
    return reader_.Error(node, absl::StrCat("cannot read the kernel ", path.string()),
                         "check its permissions");
  }
  scope->draft->spec.kernel_source = lang::WithImportedFiles(text.str(), path.string());
  scope->draft->spec.closed = true;
  scope->draft->spec.kernel_path = path.lexically_normal().string();
  scope->draft->spec.template_name.clear();
  return absl::OkStatus();
}

absl::Status SweepFile::ReadTemplate(const YAML::Node& node, Scope* scope) {
  if (scope->kernel) {
    return reader_.Error(node, "'kernel' and 'template' exclude each other", "keep one of them");
  }
  scope->kernel = true;
  KILN_ASSIGN_OR_RETURN(const std::string name, reader_.Text(node, "template"));
  if (!IsIdentifier(name)) {
    return reader_.Error(node, absl::StrCat("'", name, "' is no template's name"),
                         "write a name such as matmul; a kernel of your own goes under 'kernel:'");
  }
  scope->draft->spec.template_name = name;
  scope->draft->spec.kernel_source.clear();
  scope->draft->spec.kernel_path.clear();
  return absl::OkStatus();
}

absl::Status SweepFile::AddArgument(const YAML::Node& node, const std::string& name,
                                    std::string value, Scope* scope) {
  if (!scope->arguments.emplace(name, value).second) {
    return reader_.Error(node, absl::StrCat("'", name, "' has a value already"),
                         "name it once under arguments, shapes or dtypes");
  }
  scope->draft->spec.arguments[name] = std::move(value);
  return absl::OkStatus();
}

absl::Status SweepFile::LeaveToRunTime(const YAML::Node& node, const std::string& name,
                                       Scope* scope) {
  const absl::StatusOr<std::string> dimension = lang::DimensionOf(name, node.Scalar());
  if (!dimension.ok()) {
    return reader_.Error(node, absl::StrCat(name, ": ", node.Scalar(), " names no dimension"),
                         "write T.dynamic, or T.dynamic(\"M\") for a dimension called M");
  }
  const std::optional<ShapeRange>& range = scope->draft->spec.range;
  // A range of it says as much.
  if (range.has_value() && range->name == name && *dimension == name) return absl::OkStatus();
  return AddArgument(node, name, lang::DynamicArgument(*dimension), scope);
}

absl::Status SweepFile::ReadArguments(const YAML::Node& node, Scope* scope) {
  return reader_.Names(
      node, "arguments", [&](const std::string& name, const YAML::Node& value) -> absl::Status {
        SweepSpec* const spec = &scope->draft->spec;
        // A text may have two dots too.
        if (IsRange(value) && absl::ascii_isdigit(static_cast<unsigned char>(value.Scalar()[0]))) {
          return ReadRange(value, name, spec);
        }
        if (IsRunTime(value)) return LeaveToRunTime(value, name, scope);
        if (spec->range.has_value() && spec->range->name == name) spec->range.reset();
        KILN_ASSIGN_OR_RETURN(std::string text,
                              reader_.Literal(value, absl::StrCat("argument ", name)));
        return AddArgument(value, name, std::move(text), scope);
      });
}

// "1..16384", or with the sizes to tune for: "1..16384@1 64 4096"; commas do too, where YAML has no
// other use for them.
absl::Status SweepFile::ReadRange(const YAML::Node& node, const std::string& name,
                                  SweepSpec* spec) {
  const std::string& text = node.Scalar();
  const auto wrong = [&](absl::string_view what) {
    return reader_.Error(node, absl::StrCat(name, ": ", text, " ", what),
                         "write LOW..HIGH, or LOW..HIGH@SIZE SIZE ... with the sizes to tune for");
  };
  if (spec->range.has_value() && spec->range->name != name) {
    return reader_.Error(node, absl::StrCat(name, " is a second range, beside ", spec->range->name),
                         "a sweep has one range; 'matrix:' tries several values of a shape");
  }
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  const std::pair<std::string, std::string> ends =
      absl::StrSplit(parts.first, absl::MaxSplits("..", 1));
  ShapeRange range{name, 0, 0, {}};
  if (!absl::SimpleAtoi(ends.first, &range.low) || !absl::SimpleAtoi(ends.second, &range.high)) {
    return wrong("is no range");
  }
  if (range.low < 1 || range.high <= range.low || range.high > Limits::kMaxExtent) {
    return wrong(absl::StrCat("needs 1 <= LOW < HIGH <= ", Limits::kMaxExtent));
  }
  for (const absl::string_view size :
       absl::StrSplit(parts.second, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    int64_t point = 0;
    if (!absl::SimpleAtoi(size, &point) || point < range.low || point > range.high) {
      return wrong(absl::StrCat("has the size ", size, ", which is not in it"));
    }
    range.points.push_back(point);
  }
  if (range.points.size() > static_cast<size_t>(Limits::kMaxRangePoints)) {
    return wrong(absl::StrCat("has more than ", Limits::kMaxRangePoints, " sizes"));
  }
  if (parts.second.empty() && absl::StrContains(text, "@")) return wrong("has no size after '@'");
  spec->arguments.erase(name);
  spec->runtime_values.erase(name);
  spec->range = std::move(range);
  return absl::OkStatus();
}

absl::Status SweepFile::ReadRuntime(const YAML::Node& node, SweepSpec* spec) {
  return reader_.Names(
      node, "runtime", [&](const std::string& name, const YAML::Node& value) -> absl::Status {
        if (IsRange(value)) return ReadRange(value, name, spec);
        if (spec->range.has_value() && spec->range->name == name) spec->range.reset();
        KILN_ASSIGN_OR_RETURN(spec->runtime_values[name],
                              reader_.Literal(value, absl::StrCat("runtime value ", name)));
        return absl::OkStatus();
      });
}

absl::Status SweepFile::ReadShapes(const YAML::Node& node, Scope* scope) {
  return reader_.Names(
      node, "shapes", [&](const std::string& name, const YAML::Node& value) -> absl::Status {
        SweepSpec* const spec = &scope->draft->spec;
        if (IsRange(value)) return ReadRange(value, name, spec);
        if (IsRunTime(value)) return LeaveToRunTime(value, name, scope);
        if (spec->range.has_value() && spec->range->name == name) spec->range.reset();
        KILN_ASSIGN_OR_RETURN(const int64_t extent,
                              reader_.Integer(value, absl::StrCat("shape ", name), 1, kMaxExtent));
        return AddArgument(value, name, absl::StrCat(extent), scope);
      });
}

absl::Status SweepFile::ReadDTypes(const YAML::Node& node, Scope* scope) {
  return reader_.Names(
      node, "dtypes", [&](const std::string& name, const YAML::Node& value) -> absl::Status {
        KILN_ASSIGN_OR_RETURN(std::string text,
                              reader_.Literal(value, absl::StrCat("dtype ", name)));
        if (!ParseDType(text).has_value()) {
          return reader_.Error(value, absl::StrCat(text, " is no dtype"),
                               "write float32, float16, bfloat16, float8_e4m3, int8, ...");
        }
        return AddArgument(value, name, std::move(text), scope);
      });
}

// What is said of a pass option; tunables are the kernel's own matter.
absl::Status SweepFile::CheckOption(const YAML::Node& node, const std::string& name,
                                    const std::string& text) const {
  if (!IsOptionName(name)) return absl::OkStatus();
  lang::PassOptionValue value = lang::ReadPassOption(name, text);
  if (value.fault.empty()) return absl::OkStatus();
  return reader_.Error(node, std::move(value.fault), std::move(value.remedy));
}

absl::Status SweepFile::ReadTunable(const std::string& name, const YAML::Node& node,
                                    SweepSpec* spec) {
  if (node.IsScalar() && node.Scalar() == "auto") {
    spec->auto_tunables.push_back(name);
    return absl::OkStatus();
  }
  std::vector<std::string>& values = spec->tunables[name];
  const std::string what = absl::StrCat("tunable ", name);
  if (!node.IsSequence() || node.size() == 0) {
    return reader_.Error(node, absl::StrCat(what, " is neither 'auto' nor a list of values"),
                         "write auto, or [16, 32, 64]");
  }
  std::set<std::string> seen(values.begin(), values.end());
  return reader_.Sequence(node, what, [&](const YAML::Node& item) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(std::string text, reader_.Literal(item, what));
    KILN_RETURN_IF_ERROR(CheckOption(item, name, text));
    if (!seen.insert(text).second) {
      return reader_.Error(item, absl::StrCat(what, " lists ", text, " twice"), "remove one");
    }
    const bool mixed = !values.empty() && absl::string_view(KindOf(text)) != KindOf(values.front());
    if (mixed && text != "None" && values.front() != "None") {
      return reader_.Error(item,
                           absl::StrCat(what, " lists ", text, ", ", KindOf(text), ", beside ",
                                        values.front(), ", ", KindOf(values.front())),
                           "list values of one kind");
    }
    values.push_back(std::move(text));
    return absl::OkStatus();
  });
}

absl::Status SweepFile::ReadTunables(const YAML::Node& node, Scope* scope) {
  SweepSpec& spec = scope->draft->spec;
  scope->space = true;
  spec.auto_tunables.clear();
  spec.tunables.clear();
  if (scope->configs) {
    return reader_.Error(node, "'tunables' and 'configs' exclude each other", "keep one of them");
  }
  spec.configs.clear();
  if (node.IsScalar() && node.Scalar() == "auto") return absl::OkStatus();
  return reader_.ConfigNames(node, "tunables",
                             [&](const std::string& name, const YAML::Node& value) -> absl::Status {
                               return ReadTunable(name, value, &spec);
                             });
}

absl::StatusOr<std::string> SweepFile::ReadConfig(const YAML::Node& node) {
  if (node.IsScalar()) {
    const absl::StatusOr<Config> parsed = Config::Parse(node.Scalar());
    if (!parsed.ok()) {
      return reader_.Error(node, std::string(parsed.status().message()),
                           "write {block_M: 64, block_N: 64} or block_M=64,block_N=64");
    }
    for (const auto& [name, text] : parsed->values()) {
      KILN_RETURN_IF_ERROR(CheckOption(node, name, text));
    }
    return parsed->ToString();
  }
  Config config;
  KILN_RETURN_IF_ERROR(reader_.ConfigNames(
      node, "a config", [&](const std::string& name, const YAML::Node& value) -> absl::Status {
        KILN_ASSIGN_OR_RETURN(std::string text, reader_.Literal(value, name));
        KILN_RETURN_IF_ERROR(CheckOption(value, name, text));
        config.Set(name, std::move(text));
        return absl::OkStatus();
      }));
  return config.ToString();
}

absl::Status SweepFile::ReadConfigs(const YAML::Node& node, Scope* scope) {
  SweepSpec& spec = scope->draft->spec;
  scope->configs = true;
  spec.configs.clear();
  if (scope->space) {
    return reader_.Error(node, "'tunables' and 'configs' exclude each other", "keep one of them");
  }
  spec.auto_tunables.clear();
  spec.tunables.clear();
  if (node.IsSequence() && node.size() == 0) {
    return reader_.Error(node, "'configs' is empty", "list at least one config");
  }
  std::set<std::string> seen;
  return reader_.Sequence(node, "configs", [&](const YAML::Node& item) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(std::string text, ReadConfig(item));
    if (!seen.insert(text).second) {
      return reader_.Error(item, absl::StrCat("config ", text, " is listed twice"), "remove one");
    }
    spec.configs.push_back(std::move(text));
    return absl::OkStatus();
  });
}

absl::Status SweepFile::ReadMeasurement(const YAML::Node& node, MeasurementPolicy* policy) {
  const auto cache = [this, policy](const YAML::Node& value) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const int choice,
                          reader_.Choice(value, "measurement.cache", {"cold", "warm"}));
    policy->cache = choice == 0 ? CachePolicy::kCold : CachePolicy::kWarm;
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(reader_.Mapping(
      node, "measurement",
      {{"cache", cache},
       {"min_seconds", SetNumber(&policy->min_seconds, "measurement.min_seconds", 3600)},
       {"min_samples",
        SetInt(&policy->min_samples, "measurement.min_samples", 1, Limits::kMaxSamples)},
       {"max_samples",
        SetInt(&policy->max_samples, "measurement.max_samples", 1, Limits::kMaxSamples)},
       {"relative_error",
        SetNumber(&policy->target_relative_error, "measurement.relative_error", 1)},
       {"threads", SetInt(&policy->threads, "measurement.threads", 1, 4096)}}));
  if (policy->max_samples != 0 && policy->max_samples < policy->min_samples) {
    return reader_.Error(node, "measurement.max_samples is below min_samples",
                         "raise max_samples or lower min_samples");
  }
  return absl::OkStatus();
}

absl::Status SweepFile::ReadCheck(const YAML::Node& node, CheckPolicy* policy) {
  const auto reference = [this, policy](const YAML::Node& value) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const int choice,
                          reader_.Choice(value, "check.reference", {"interpreter", "none"}));
    policy->reference = choice == 0 ? CheckReference::kInterpreter : CheckReference::kNone;
    return absl::OkStatus();
  };
  const auto seeds = [this, policy](const YAML::Node& value) -> absl::Status {
    policy->seeds.clear();
    if (value.size() > static_cast<size_t>(Limits::kMaxSeeds)) {
      return reader_.Error(value, "check.seeds has too many seeds",
                           absl::StrCat("give at most ", Limits::kMaxSeeds));
    }
    return reader_.Sequence(value, "check.seeds", [&](const YAML::Node& item) -> absl::Status {
      KILN_ASSIGN_OR_RETURN(const int64_t seed, reader_.Integer(item, "seed", 0, INT64_MAX));
      policy->seeds.push_back(static_cast<uint64_t>(seed));
      return absl::OkStatus();
    });
  };
  return reader_.Mapping(
      node, "check",
      {{"reference", reference},
       {"seeds", seeds},
       {"rtol", SetNumber(&policy->rtol, "check.rtol", 1)},
       {"atol", SetNumber(&policy->atol, "check.atol", 1e30)},
       {"samples", SetInt(&policy->samples, "check.samples", 1, Limits::kMaxSamples)}});
}

absl::Status SweepFile::ReadBudget(const YAML::Node& node, SweepSpec* spec) {
  return reader_.Mapping(node, "budget",
                         {{"candidates", SetInt(&spec->max_candidates, "budget.candidates", 1,
                                                Limits::kMaxCandidates)},
                          {"seconds", SetSeconds(&spec->max_seconds, "budget.seconds")}});
}

absl::Status SweepFile::MatrixProduct(const YAML::Node& node, std::vector<Row>* rows) {
  rows->assign(1, Row());
  return reader_.Names(
      node, "matrix", [&](const std::string& name, const YAML::Node& list) -> absl::Status {
        std::vector<std::string> values;
        KILN_RETURN_IF_ERROR(reader_.Sequence(
            list, absl::StrCat("matrix.", name), [&](const YAML::Node& item) -> absl::Status {
              KILN_ASSIGN_OR_RETURN(std::string text, reader_.Literal(item, name));
              values.push_back(std::move(text));
              return absl::OkStatus();
            }));
        if (values.empty() || values.size() * rows->size() > kMaxSweeps) {
          return reader_.Error(list, "the matrix has no sweep or too many",
                               absl::StrCat("it may make 1 to ", kMaxSweeps, " sweeps"));
        }
        std::vector<Row> product;
        for (const Row& row : *rows) {
          for (const std::string& value : values) {
            product.push_back(row);
            product.back()[name] = value;
          }
        }
        *rows = std::move(product);
        return absl::OkStatus();
      });
}

absl::Status SweepFile::ReadMatrix(const YAML::Node& node, Draft* draft) {
  draft->matrix.clear();
  if (node.IsMap()) return MatrixProduct(node, &draft->matrix);
  KILN_RETURN_IF_ERROR(
      reader_.Sequence(node, "matrix", [&](const YAML::Node& item) -> absl::Status {
        Row row;
        KILN_RETURN_IF_ERROR(
            reader_.Names(item, "a row of the matrix",
                          [&](const std::string& name, const YAML::Node& value) -> absl::Status {
                            KILN_ASSIGN_OR_RETURN(row[name], reader_.Literal(value, name));
                            return absl::OkStatus();
                          }));
        draft->matrix.push_back(std::move(row));
        return absl::OkStatus();
      }));
  if (!draft->matrix.empty() && draft->matrix.size() <= kMaxSweeps) return absl::OkStatus();
  return reader_.Error(node, "the matrix has no sweep or too many",
                       absl::StrCat("it may make 1 to ", kMaxSweeps, " sweeps"));
}

YamlReader::Handlers SweepFile::KernelKeys(Scope* scope) {
  SweepSpec* spec = &scope->draft->spec;
  return {{"name", SetText(&spec->name, "name")},
          {"kernel", [this, scope](const YAML::Node& n) { return ReadKernel(n, scope); }},
          {"template", [this, scope](const YAML::Node& n) { return ReadTemplate(n, scope); }},
          {"entry", SetText(&spec->entry, "entry")},
          {"arguments", [this, scope](const YAML::Node& n) { return ReadArguments(n, scope); }},
          {"shapes", [this, scope](const YAML::Node& n) { return ReadShapes(n, scope); }},
          {"dtypes", [this, scope](const YAML::Node& n) { return ReadDTypes(n, scope); }},
          {"runtime", [this, spec](const YAML::Node& n) { return ReadRuntime(n, spec); }}};
}

YamlReader::Handlers SweepFile::SpaceKeys(Scope* scope) {
  return {{"tunables", [this, scope](const YAML::Node& n) { return ReadTunables(n, scope); }},
          {"configs", [this, scope](const YAML::Node& n) { return ReadConfigs(n, scope); }},
          {"matrix", [this, scope](const YAML::Node& n) { return ReadMatrix(n, scope->draft); }}};
}

YamlReader::Handlers SweepFile::PolicyKeys(SweepSpec* spec) {
  const auto objective = [this, spec](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const int choice, reader_.Choice(node, "objective", {"tune", "compile"}));
    spec->objective = choice == 0 ? Objective::kTune : Objective::kCompile;
    return absl::OkStatus();
  };
  const auto strategy = [this, spec](const YAML::Node& node) -> absl::Status {
    const std::vector<std::string> choices = {"recommended", "exhaustive", "random", "carver"};
    KILN_ASSIGN_OR_RETURN(const int choice, reader_.Choice(node, "strategy", choices));
    spec->strategy = choices[choice];
    return absl::OkStatus();
  };
  return {{"target", SetText(&spec->target, "target")},
          {"objective", objective},
          {"strategy", strategy},
          {"measurement",
           [this, spec](const YAML::Node& n) { return ReadMeasurement(n, &spec->measurement); }},
          {"check", [this, spec](const YAML::Node& n) { return ReadCheck(n, &spec->check); }}};
}

YamlReader::Handlers SweepFile::RunKeys(SweepSpec* spec) {
  const auto seed = [this, spec](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const int64_t value, reader_.Integer(node, "seed", 0, INT64_MAX));
    spec->seed = static_cast<uint64_t>(value);
    return absl::OkStatus();
  };
  const auto fresh = [this, spec](const YAML::Node& node) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(spec->fresh, reader_.Boolean(node, "fresh"));
    return absl::OkStatus();
  };
  return {{"seed", seed},
          {"fresh", fresh},
          {"top_k", SetInt(&spec->top_k, "top_k", 1, Limits::kMaxTopK)},
          {"budget", [this, spec](const YAML::Node& n) { return ReadBudget(n, spec); }},
          {"priority", SetInt(&spec->priority, "priority", -100, 100)},
          {"deadline", SetSeconds(&spec->deadline_seconds, "deadline")},
          {"user", SetText(&spec->user, "user")}};
}

absl::Status SweepFile::ReadMapping(const YAML::Node& node, Draft* draft, YAML::Node* sweeps) {
  Scope scope{draft, false, false, false, {}};
  YamlReader::Handlers handlers = KernelKeys(&scope);
  handlers.merge(SpaceKeys(&scope));
  handlers.merge(PolicyKeys(&draft->spec));
  handlers.merge(RunKeys(&draft->spec));
  if (sweeps != nullptr) {
    handlers["sweeps"] = [sweeps](const YAML::Node& value) {
      sweeps->reset(value);
      return absl::OkStatus();
    };
  }
  return reader_.Mapping(node, sweeps != nullptr ? "the sweep file" : "a sweep", handlers);
}

absl::Status SweepFile::Emit(const Draft& draft, const YAML::Node& node,
                             std::vector<SweepSpec>* specs) {
  if (draft.spec.kernel_source.empty() && draft.spec.template_name.empty()) {
    return reader_.Error(node, "the sweep has neither a kernel nor a template",
                         "add 'kernel: path/to/kernel.py' or 'template: matmul'");
  }
  const std::vector<Row> rows = draft.matrix.empty() ? std::vector<Row>(1) : draft.matrix;
  for (const Row& row : rows) {
    SweepSpec spec = draft.spec;
    if (spec.name.empty()) {
      spec.name = spec.template_name.empty() ? fs::path(spec.kernel_path).stem().string()
                                             : spec.template_name;
    }
    for (const auto& [name, value] : row) {
      spec.arguments[name] = value;
      absl::StrAppend(&spec.name, " ", name, "=", value);
    }
    if (spec.name.size() > static_cast<size_t>(Limits::kMaxNameBytes)) {
      spec.name.resize(Limits::kMaxNameBytes);
    }
    specs->push_back(std::move(spec));
    if (specs->size() > kMaxSweeps) {
      return reader_.Error(node, "the file makes too many sweeps",
                           absl::StrCat("it may make at most ", kMaxSweeps));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SweepSpec>> SweepFile::Read() {
  KILN_ASSIGN_OR_RETURN(const YAML::Node root, reader_.Load());
  Draft base;
  YAML::Node sweeps;
  KILN_RETURN_IF_ERROR(ReadMapping(root, &base, &sweeps));
  std::vector<SweepSpec> specs;
  if (sweeps.IsNull()) {
    KILN_RETURN_IF_ERROR(Emit(base, root, &specs));
    return specs;
  }
  KILN_RETURN_IF_ERROR(
      reader_.Sequence(sweeps, "sweeps", [&](const YAML::Node& item) -> absl::Status {
        Draft draft = base;
        KILN_RETURN_IF_ERROR(ReadMapping(item, &draft, nullptr));
        return Emit(draft, item, &specs);
      }));
  if (specs.empty()) return reader_.Error(sweeps, "'sweeps' is empty", "list at least one sweep");
  return specs;
}

}  // namespace

absl::StatusOr<std::vector<SweepSpec>> ParseSweepFile(absl::string_view text,
                                                      const std::string& path,
                                                      const std::string& directory) {
  auto file = std::make_shared<SourceFile>();
  file->path = path;
  file->text = std::string(text);
  try {
    return SweepFile(std::move(file), directory).Read();
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": this is not YAML: ", e.what()));
  }
}

absl::StatusOr<std::vector<SweepSpec>> LoadSweepFile(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        fs::exists(path, error) ? "this is no file: " : "there is no sweep file ", path));
  }
  if (fs::path(path).extension() == ".py") {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": this is a kernel, not a sweep file, which names one, as in 'kernel: ",
        fs::path(path).filename().string(),
        "' (client/README.md has its keys); 'kilnc run' and 'kilnc emit' take a kernel itself"));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) {
    return absl::NotFoundError(absl::StrCat("cannot open the sweep file ", path));
  }
  std::ostringstream text;
  text << stream.rdbuf();
  const fs::path folder = fs::path(path).parent_path();
  return ParseSweepFile(text.str(), path, folder.empty() ? "." : folder.string());
}

}  // namespace kiln::client
