#include "proto/limits.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/config.h"
#include "compiler/base/status.h"

namespace kiln {
namespace {

using Limits = RpcLimits;

absl::Status Wrong(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("spec.", field, ": ", what));
}

absl::Status TooBig(absl::string_view field, int64_t size, int64_t limit, absl::string_view unit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("spec.", field, ": ", size, " ", unit, ", the limit is ", limit));
}

std::string Shown(absl::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 40)) shown += absl::ascii_isprint(c) ? c : '?';
  if (text.size() > 40) shown += "...";
  return shown;
}

// How many bytes of it, from the first on, are well-formed UTF-8: a protobuf string field takes
// nothing else, and the receiver of one that is not would see no more than a broken message.
size_t Utf8Prefix(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xc2 ? 0
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                          : lead < 0xf5 ? 4
                                        : 0;
    if (length == 0 || i + length > text.size()) return i;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    }
    if (lead == 0xe0 && byte(i + 1) < 0xa0) return i;   // overlong
    if (lead == 0xed && byte(i + 1) >= 0xa0) return i;  // surrogates
    if (lead == 0xf0 && byte(i + 1) < 0x90) return i;   // overlong
    if (lead == 0xf4 && byte(i + 1) >= 0x90) return i;  // above U+10FFFF
    i += length;
  }
  return text.size();
}

bool IsUtf8(absl::string_view text) { return Utf8Prefix(text) == text.size(); }

bool IsPrintable(absl::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t limit) {
  if (text.size() > limit) {
    return TooBig(field, static_cast<int64_t>(text.size()), static_cast<int64_t>(limit), "bytes");
  }
  if (!IsPrintable(text)) return Wrong(field, "control characters are not allowed");
  if (!IsUtf8(text)) return Wrong(field, "it is not UTF-8");
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  if (IsIdentifier(name)) return absl::OkStatus();
  return Wrong(field, absl::StrCat("'", Shown(name), "' is not an identifier of at most ",
                                   Limits::kMaxNameBytes, " characters"));
}

// A tunable of the kernel, or a pass option.
absl::Status CheckTunable(absl::string_view field, absl::string_view name) {
  const bool short_enough = name.size() <= static_cast<size_t>(Limits::kMaxNameBytes);
  if (short_enough && IsOptionName(name)) return absl::OkStatus();
  return CheckName(field, name);
}

// Compile-time arguments may be any short literal of the kernel language, brackets included; the
// elaborator reads them. Here: one printable, non-empty line.
absl::Status CheckLiteral(absl::string_view field, absl::string_view name,
                          absl::string_view value) {
  const std::string where = absl::StrCat(field, "[", name, "]");
  if (value.empty()) return Wrong(where, "the value is empty; write None for no value");
  return CheckText(where, value, Limits::kMaxValueBytes);
}

template <typename Map>
absl::Status CheckValues(absl::string_view field, const Map& values) {
  if (values.size() > static_cast<size_t>(Limits::kMaxArguments)) {
    return TooBig(field, static_cast<int64_t>(values.size()), Limits::kMaxArguments, "names");
  }
  for (const auto& [name, value] : values) {
    KILN_RETURN_IF_ERROR(CheckName(field, name));
    KILN_RETURN_IF_ERROR(CheckLiteral(field, name, value));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  return Wrong(field, absl::StrCat(value, " is not in ", low, " .. ", high));
}

absl::Status CheckKernel(const v1::SweepSpec& spec) {
  if (spec.kernel_source().empty() == spec.template_().empty()) {
    return Wrong("kernel_source", "give exactly one of a kernel's source and a template's name");
  }
  if (spec.kernel_source().size() > static_cast<size_t>(Limits::kMaxKernelBytes)) {
    return TooBig("kernel_source", static_cast<int64_t>(spec.kernel_source().size()),
                  Limits::kMaxKernelBytes, "bytes");
  }
  const absl::string_view source = spec.kernel_source();
  if (const size_t fine = Utf8Prefix(source); fine < source.size()) {
    const auto line = std::count(source.begin(), source.begin() + fine, '\n') + 1;
    return Wrong("kernel_source",
                 absl::StrCat("line ", line, " is not UTF-8; save the kernel's file in UTF-8"));
  }
  if (!spec.template_().empty()) KILN_RETURN_IF_ERROR(CheckName("template", spec.template_()));
  if (!spec.entry().empty()) KILN_RETURN_IF_ERROR(CheckName("entry", spec.entry()));
  return CheckText("kernel_path", spec.kernel_path(), Limits::kMaxPathBytes);
}

absl::Status CheckSpace(const v1::SweepSpec& spec) {
  if (spec.auto_tunables_size() + static_cast<int>(spec.tunables().size()) > Limits::kMaxTunables) {
    return TooBig("tunables",
                  spec.auto_tunables_size() + static_cast<int64_t>(spec.tunables().size()),
                  Limits::kMaxTunables, "names");
  }
  std::set<std::string> names;
  for (const std::string& name : spec.auto_tunables()) {
    KILN_RETURN_IF_ERROR(CheckTunable("auto_tunables", name));
    if (!names.insert(name).second) return Wrong("auto_tunables", absl::StrCat(name, " twice"));
  }
  for (const auto& [name, list] : spec.tunables()) {
    KILN_RETURN_IF_ERROR(CheckTunable("tunables", name));
    if (!names.insert(name).second) {
      return Wrong("tunables", absl::StrCat(name, " is automatic and listed; choose one"));
    }
    if (list.values().empty()) return Wrong("tunables", absl::StrCat(name, " has no values"));
    if (list.values_size() > Limits::kMaxValuesPerTunable) {
      return TooBig(absl::StrCat("tunables[", name, "]"), list.values_size(),
                    Limits::kMaxValuesPerTunable, "values");
    }
    for (const std::string& value : list.values()) {
      KILN_RETURN_IF_ERROR(CheckLiteral("tunables", name, value));
    }
  }
  for (const std::string& name : names) {
    if (spec.arguments().contains(name)) {
      return Wrong("tunables", absl::StrCat(name, " is a tunable and an argument; choose one"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConfigs(const v1::SweepSpec& spec) {
  if (spec.configs_size() > Limits::kMaxConfigs) {
    return TooBig("configs", spec.configs_size(), Limits::kMaxConfigs, "configs");
  }
  if (spec.configs_size() > 0 && (spec.auto_tunables_size() > 0 || !spec.tunables().empty())) {
    return Wrong("configs", "configs and tunables exclude each other; give one of them");
  }
  for (const std::string& text : spec.configs()) {
    if (text.size() > static_cast<size_t>(Limits::kMaxConfigBytes)) {
      return TooBig("configs", static_cast<int64_t>(text.size()), Limits::kMaxConfigBytes,
                    "bytes in one config");
    }
    const absl::StatusOr<Config> config = Config::Parse(text);
    if (!config.ok()) return Wrong("configs", config.status().message());
  }
  return absl::OkStatus();
}

absl::Status CheckPolicies(const v1::SweepSpec& spec) {
  const v1::MeasurementPolicy& m = spec.measurement();
  KILN_RETURN_IF_ERROR(CheckRange("measurement.min_seconds", m.min_seconds(), 0, 3600));
  KILN_RETURN_IF_ERROR(
      CheckRange("measurement.min_samples", m.min_samples(), 0, Limits::kMaxSamples));
  KILN_RETURN_IF_ERROR(
      CheckRange("measurement.max_samples", m.max_samples(), 0, Limits::kMaxSamples));
  if (m.max_samples() != 0 && m.max_samples() < m.min_samples()) {
    return Wrong("measurement.max_samples", "it is below min_samples");
  }
  KILN_RETURN_IF_ERROR(
      CheckRange("measurement.target_relative_error", m.target_relative_error(), 0, 1));
  KILN_RETURN_IF_ERROR(CheckRange("measurement.threads", m.threads(), 0, 4096));
  if (!v1::MeasurementPolicy::Cache_IsValid(m.cache())) {
    return Wrong("measurement.cache", "unknown value; use COLD or WARM");
  }
  const v1::CheckPolicy& c = spec.check();
  if (!v1::CheckPolicy::Reference_IsValid(c.reference())) {
    return Wrong("check.reference", "unknown value; use INTERPRETER or NONE");
  }
  KILN_RETURN_IF_ERROR(CheckRange("check.rtol", c.rtol(), 0, 1));
  KILN_RETURN_IF_ERROR(CheckRange("check.atol", c.atol(), 0, 1e30));
  KILN_RETURN_IF_ERROR(CheckRange("check.samples", c.samples(), 0, Limits::kMaxSamples));
  if (c.seeds_size() > Limits::kMaxSeeds) {
    return TooBig("check.seeds", c.seeds_size(), Limits::kMaxSeeds, "seeds");
  }
  return absl::OkStatus();
}

absl::Status CheckShapeRange(const v1::SweepSpec& spec) {
  if (!spec.has_range()) return absl::OkStatus();
  const v1::ShapeRange& range = spec.range();
  KILN_RETURN_IF_ERROR(CheckName("range.name", range.name()));
  if (range.low() < 1 || range.high() > Limits::kMaxExtent || range.low() >= range.high()) {
    return Wrong("range", absl::StrCat(range.name(), "=", range.low(), "..", range.high(),
                                       " is no range; write LOW..HIGH with 1 <= LOW < HIGH <= ",
                                       Limits::kMaxExtent));
  }
  if (range.points_size() > Limits::kMaxRangePoints) {
    return TooBig("range.points", range.points_size(), Limits::kMaxRangePoints, "sizes");
  }
  for (const int64_t point : range.points()) {
    if (point >= range.low() && point <= range.high()) continue;
    return Wrong("range.points", absl::StrCat(range.name(), "=", point, " is outside of ",
                                              range.low(), "..", range.high()));
  }
  if (spec.objective() == v1::SweepSpec::COMPILE) {
    return Wrong("range", "a sweep that only compiles measures no sizes; use objective tune");
  }
  const auto argument = spec.arguments().find(range.name());
  const bool fixed = argument != spec.arguments().end() &&
                     !absl::StartsWith(argument->second, "T.dynamic");  // which says the same
  if (fixed || spec.runtime_values().contains(range.name()) ||
      spec.tunables().contains(range.name())) {
    return Wrong("range", absl::StrCat(range.name(), " has a value too; give one of them"));
  }
  return absl::OkStatus();
}

absl::Status CheckBudget(const v1::SweepSpec& spec) {
  if (!v1::SweepSpec::Objective_IsValid(spec.objective()) ||
      spec.objective() == v1::SweepSpec::COMPARE || spec.has_dispatch()) {
    return Wrong("objective", "unknown value; use TUNE or COMPILE");
  }
  KILN_RETURN_IF_ERROR(CheckRange("top_k", spec.top_k(), 0, Limits::kMaxTopK));
  KILN_RETURN_IF_ERROR(
      CheckRange("max_candidates", spec.max_candidates(), 0, Limits::kMaxCandidates));
  KILN_RETURN_IF_ERROR(CheckRange("max_seconds", spec.max_seconds(), 0, Limits::kMaxSeconds));
  KILN_RETURN_IF_ERROR(
      CheckRange("deadline_seconds", spec.deadline_seconds(), 0, Limits::kMaxSeconds));
  return CheckRange("priority", spec.priority(), -100, 100);
}

}  // namespace

bool IsIdentifier(absl::string_view text) {
  if (text.empty() || text.size() > static_cast<size_t>(Limits::kMaxNameBytes)) return false;
  if (absl::ascii_isdigit(text[0])) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

absl::Status CheckSweepSpec(const v1::SweepSpec& spec) {
  KILN_RETURN_IF_ERROR(CheckText("name", spec.name(), Limits::kMaxNameBytes));
  KILN_RETURN_IF_ERROR(CheckText("user", spec.user(), Limits::kMaxNameBytes));
  KILN_RETURN_IF_ERROR(CheckText("target", spec.target(), Limits::kMaxNameBytes));
  KILN_RETURN_IF_ERROR(CheckText("strategy", spec.strategy(), Limits::kMaxNameBytes));
  KILN_RETURN_IF_ERROR(CheckKernel(spec));
  KILN_RETURN_IF_ERROR(CheckValues("arguments", spec.arguments()));
  KILN_RETURN_IF_ERROR(CheckValues("runtime_values", spec.runtime_values()));
  KILN_RETURN_IF_ERROR(CheckSpace(spec));
  KILN_RETURN_IF_ERROR(CheckConfigs(spec));
  KILN_RETURN_IF_ERROR(CheckPolicies(spec));
  KILN_RETURN_IF_ERROR(CheckShapeRange(spec));
  return CheckBudget(spec);
}

absl::Status CheckSweepName(absl::string_view sweep) {
  bool ok = sweep.size() >= 6 && sweep.size() <= 64;
  for (const char c : sweep) ok = ok && (absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'));
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sweep '", Shown(sweep),
                   "' is not the digest of a sweep or a prefix of at least 6 of its digits"));
}

}  // namespace kiln
