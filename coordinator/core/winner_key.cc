#include "coordinator/core/winner_key.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/base/digest.h"
#include "compiler/base/dtype.h"
#include "compiler/target/arch.h"
#include "coordinator/core/identity.h"

namespace kiln::core {
namespace {

using TextMap = google::protobuf::Map<std::string, std::string>;

constexpr char kNone[] = "none";
constexpr double kWattStep = 25;
constexpr double kMemoryStep = 2 * 1073741824.0;

// ---- making ----

bool IsGpu(absl::string_view arch) { return absl::StartsWith(arch, "sm_"); }

bool IsWhole(absl::string_view literal) {
  int64_t value = 0;
  return absl::SimpleAtoi(literal, &value);
}

// T.float16, "float16" and float16 are one type.
std::optional<DType> DtypeOf(absl::string_view literal) {
  for (absl::string_view quote : {"\"", "'"}) {
    if (absl::ConsumePrefix(&literal, quote)) absl::ConsumeSuffix(&literal, quote);
  }
  absl::ConsumePrefix(&literal, "T.");
  return ParseDType(literal);
}

std::string Classed(double value, double step, double unit, absl::string_view name) {
  if (!(value > 0)) return "";
  const double steps = std::max(1.0, std::round(value / step));
  return absl::StrCat(static_cast<int64_t>(steps * step / unit), " ", name);
}

std::string PowerClass(const v1::ArchRecord& arch) {
  return Classed(arch.power_watts(), kWattStep, 1, "W");
}

std::string MemoryClass(const v1::ArchRecord& arch) {
  return Classed(static_cast<double>(arch.memory_bytes()), kMemoryStep, 1 << 30, "GiB");
}

std::string DriverMajor(const v1::ArchRecord& arch) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(arch.driver(), absl::MaxSplits('.', 1));
  return parts.first;
}

void SetDevice(const v1::ArchRecord& arch, v1::WinnerKey* key) {
  const bool gpu = IsGpu(arch.name());
  key->set_arch(arch.name());
  key->set_device_model(arch.device_model());
  const absl::StatusOr<target::Arch> record = target::ParseArch(arch.record());
  if (record.ok()) {
    std::vector<std::string> features = record->features;
    std::sort(features.begin(), features.end());
    key->set_features(features.empty() ? kNone : absl::StrJoin(features, ","));
    key->set_cores(absl::StrCat(record->cores));
  } else if (gpu) {
    key->set_features(kNone);
  }
  if (!gpu) {
    key->set_power(kNone);
    key->set_memory(kNone);
    key->set_driver(kNone);
    return;
  }
  key->set_power(PowerClass(arch));
  key->set_memory(MemoryClass(arch));
  key->set_driver(DriverMajor(arch));
}

std::string PolicyText(const v1::MeasurementPolicy& policy) {
  return absl::StrFormat(
      "%s, %.9g s, %d to %d samples, error %.9g, %s",
      policy.cache() == v1::MeasurementPolicy::WARM ? "warm" : "cold", policy.min_seconds(),
      policy.min_samples(), policy.max_samples(), policy.target_relative_error(),
      policy.threads() == 0 ? "all threads" : absl::StrCat(policy.threads(), " threads"));
}

std::string PolicyText(const v1::CheckPolicy& policy) {
  if (policy.reference() == v1::CheckPolicy::NONE) return kNone;
  const std::string tolerance =
      policy.rtol() == 0 && policy.atol() == 0
          ? "by dtype"
          : absl::StrFormat("%.9g and %.9g", policy.rtol(), policy.atol());
  return absl::StrCat("interpreter, tolerance ", tolerance, ", seeds ",
                      absl::StrJoin(policy.seeds(), " "), ", ", policy.samples(), " samples");
}

std::string SpaceText(const v1::SweepSpec& spec) {
  if (spec.auto_tunables().empty() && spec.tunables().empty() && spec.configs().empty()) {
    return "auto";
  }
  return SpaceDigest(spec);
}

std::string TextDigest(const v1::SweepSpec& spec) {
  Hasher hasher;
  hasher.UpdateField("text");
  hasher.UpdateField(spec.template_());
  hasher.UpdateField(spec.entry());
  hasher.UpdateField(spec.kernel_source());
  return hasher.FinishHex();
}

// ---- comparing ----

// Every field once, the least serious first: the bit of a field is its place here.
enum Field : int {
  kDriver,
  kAssembler,
  kCompiler,
  kMemory,
  kPower,
  kCores,
  kCheck,
  kMeasurement,
  kSpace,
  kRange,
  kFeatures,
  kModel,
  kRuntime,
  kOutsideRange,
  kShapes,
  kArch,
  kFlags,
  kDtypes,
  kKernel,
  kFields
};

constexpr const char* kNames[kFields] = {
    "driver",      "assembler", "compiler", "memory",   "power",        "cores",   "check",
    "measurement", "space",     "range",    "features", "device_model", "runtime", "outside_range",
    "shapes",      "arch",      "flags",    "dtypes",   "kernel"};

// Nobody may know them of the asked device: then they are not compared.
constexpr bool MayBeUnknown(int field) { return field <= kCores || field == kFeatures; }

// The fields that each level accepts, and all below them.
constexpr uint32_t kBefore = 1u << kCheck;
constexpr uint32_t kCompatible = 1u << kFeatures;
constexpr uint32_t kSameArch = 1u << kRuntime;

const TextMap* MapOf(const v1::WinnerKey& key, int field) {
  switch (field) {
    case kRuntime:
      return &key.runtime();
    case kShapes:
      return &key.shapes();
    case kFlags:
      return &key.flags();
    case kDtypes:
      return &key.dtypes();
    default:
      return nullptr;
  }
}

const std::string& TextOf(const v1::WinnerKey& key, int field) {
  switch (field) {
    case kDriver:
      return key.driver();
    case kAssembler:
      return key.assembler();
    case kCompiler:
      return key.compiler();
    case kMemory:
      return key.memory();
    case kPower:
      return key.power();
    case kCores:
      return key.cores();
    case kCheck:
      return key.check();
    case kMeasurement:
      return key.measurement();
    case kSpace:
      return key.space();
    case kFeatures:
      return key.features();
    case kModel:
      return key.device_model();
    case kArch:
      return key.arch();
    default:
      return key.kernel();
  }
}

// ---- ranges ----

// "M=1..16384"
std::string RangeText(const v1::ShapeRange& range) {
  return absl::StrCat(range.name(), "=", range.low(), "..", range.high());
}

// The value that a key of one size has for `name`; nothing = none, or no whole number.
std::optional<int64_t> SizeOf(const v1::WinnerKey& key, const std::string& name) {
  for (const TextMap* map : {&key.runtime(), &key.shapes()}) {
    const auto found = map->find(name);
    int64_t size = 0;
    if (found != map->end() && absl::SimpleAtoi(found->second, &size)) return size;
  }
  return std::nullopt;
}

bool Inside(const v1::ShapeRange& range, int64_t low, int64_t high) {
  return low >= range.low() && high <= range.high();
}

enum class RangeRelation { kSame, kInside, kOutside };

// Of what is asked to what is stored. A winner for a range answers for each size and each range in
// it; one for a single size answers for no range.
RangeRelation Relate(const v1::WinnerKey& asked, const v1::WinnerKey& stored) {
  if (!stored.has_range()) {
    return asked.has_range() ? RangeRelation::kOutside : RangeRelation::kSame;
  }
  const v1::ShapeRange& range = stored.range();
  if (!asked.has_range()) {
    const std::optional<int64_t> size = SizeOf(asked, range.name());
    const bool inside = size.has_value() && Inside(range, *size, *size);
    return inside ? RangeRelation::kInside : RangeRelation::kOutside;
  }
  const v1::ShapeRange& own = asked.range();
  if (own.name() != range.name() || !Inside(range, own.low(), own.high())) {
    return RangeRelation::kOutside;
  }
  return own.SerializeAsString() == range.SerializeAsString() ? RangeRelation::kSame
                                                              : RangeRelation::kInside;
}

// What a key says of the dimension that the other key has a range of.
std::string SizeText(const v1::WinnerKey& key, const v1::WinnerKey& other) {
  if (key.has_range()) return RangeText(key.range());
  const std::optional<int64_t> size = SizeOf(key, other.range().name());
  return absl::StrCat(other.range().name(), "=", size.has_value() ? absl::StrCat(*size) : "?");
}

// The map without the dimensions that either key has a range of.
TextMap WithoutRanges(TextMap map, const v1::WinnerKey& asked, const v1::WinnerKey& stored) {
  for (const v1::WinnerKey* key : {&asked, &stored}) {
    if (key->has_range()) map.erase(key->range().name());
  }
  return map;
}

// How far the asked sizes reach out of the stored range.
double RangeDistance(const v1::WinnerKey& asked, const v1::WinnerKey& stored) {
  if (!stored.has_range()) return 0;
  const v1::ShapeRange& range = stored.range();
  const int64_t size = SizeOf(asked, range.name()).value_or(0);
  const int64_t low = asked.has_range() ? asked.range().low() : size;
  const int64_t high = asked.has_range() ? asked.range().high() : size;
  if (low < 1) return 0;
  const auto ratio = [](int64_t a, int64_t b) {
    return std::log2(static_cast<double>(a) / static_cast<double>(b));
  };
  return std::max(0.0, ratio(high, range.high())) + std::max(0.0, ratio(range.low(), low));
}

bool SameProgram(const v1::WinnerKey& a, const v1::WinnerKey& b) {
  return !a.kernel().empty() && a.kernel() == b.kernel();
}

// A field of `key` as it is compared with that of `other`: types by their names, and where the
// canonical programs are equal, a type that only one of them gives is the kernel's default.
TextMap Comparable(const v1::WinnerKey& key, const v1::WinnerKey& other, int field) {
  TextMap map = WithoutRanges(*MapOf(key, field), key, other);
  if (field != kDtypes) return map;
  TextMap types;
  for (const auto& [name, literal] : map) {
    if (SameProgram(key, other) && !other.dtypes().contains(name)) continue;
    const std::optional<DType> type = DtypeOf(literal);
    types[name] = type.has_value() ? type->ToString() : literal;
  }
  return types;
}

bool SameMap(const TextMap& a, const TextMap& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
           const auto found = b.find(entry.first);
           return found != b.end() && found->second == entry.second;
         });
}

bool SameKernel(const v1::WinnerKey& a, const v1::WinnerKey& b) {
  return a.text() == b.text() || SameProgram(a, b);
}

bool Differs(const v1::WinnerKey& asked, const v1::WinnerKey& stored, int field) {
  if (field == kKernel) return !SameKernel(asked, stored);
  if (field == kRange) return Relate(asked, stored) == RangeRelation::kInside;
  if (field == kOutsideRange) return Relate(asked, stored) == RangeRelation::kOutside;
  if (MapOf(asked, field) != nullptr) {
    return !SameMap(Comparable(asked, stored, field), Comparable(stored, asked, field));
  }
  const std::string& text = TextOf(asked, field);
  if (text.empty() && MayBeUnknown(field)) return false;
  return text != TextOf(stored, field);
}

double ShapeDistance(const TextMap& asked, const TextMap& stored) {
  double sum = 0;
  for (const auto& [name, text] : asked) {
    const auto other = stored.find(name);
    double a = 0, b = 0;
    const bool numbers = other != stored.end() && absl::SimpleAtod(text, &a) &&
                         absl::SimpleAtod(other->second, &b) && a > 0 && b > 0;
    sum += numbers                                                ? std::abs(std::log2(b / a))
           : text == (other == stored.end() ? "" : other->second) ? 0
                                                                  : 64;
  }
  return sum;
}

// "N=4096" of the names whose values differ; a name that is not there has no value.
std::string Chosen(const TextMap& own, const TextMap& other) {
  std::map<std::string, std::string> chosen;
  for (const auto& [name, value] : own) {
    const auto found = other.find(name);
    if (found == other.end() || found->second != value) chosen[name] = value;
  }
  for (const auto& [name, value] : other) {
    if (own.find(name) == own.end()) chosen[name] = "(not given)";
  }
  return absl::StrJoin(chosen, ", ", absl::PairFormatter("="));
}

std::string SortedText(const TextMap& entries) {
  const std::map<std::string, std::string> sorted(entries.begin(), entries.end());
  std::string text;
  for (const auto& [name, value] : sorted) {
    absl::StrAppend(&text, name.size(), ":", name, "=", value.size(), ":", value, ";");
  }
  return text;
}

}  // namespace

v1::WinnerKey MakeKey(const v1::SweepSpec& spec, const v1::ArchRecord& arch, const Tools& tools,
                      absl::string_view kernel_digest) {
  v1::WinnerKey key;
  key.set_kernel(std::string(kernel_digest));
  key.set_text(TextDigest(spec));
  for (const auto& [name, literal] : spec.arguments()) {
    TextMap* const map = IsWhole(literal)               ? key.mutable_shapes()
                         : DtypeOf(literal).has_value() ? key.mutable_dtypes()
                                                        : key.mutable_flags();
    (*map)[name] = literal;
  }
  *key.mutable_runtime() = spec.runtime_values();
  if (spec.has_range()) *key.mutable_range() = spec.range();
  SetDevice(arch, &key);
  key.set_compiler(tools.compiler_build);
  // A compiler that is known and names no assembler needs none.
  const bool needless = !tools.compiler_build.empty() && tools.assembler.empty();
  key.set_assembler(needless || !IsGpu(arch.name()) ? kNone : tools.assembler);
  key.set_measurement(PolicyText(spec.measurement()));
  key.set_check(PolicyText(spec.check()));
  key.set_space(SpaceText(spec));
  return key;
}

bool SameClass(const v1::ArchRecord& a, const v1::ArchRecord& b) {
  return PowerClass(a) == PowerClass(b) && MemoryClass(a) == MemoryClass(b) &&
         DriverMajor(a) == DriverMajor(b);
}

v1::WinnerKey KeyOf(const v1::Winner& winner) {
  if (winner.has_key()) return winner.key();
  v1::WinnerKey key = MakeKey(winner.spec(), winner.arch(),
                              {winner.artifact().compiler_build(), ""}, winner.kernel_digest());
  // An older record does not say which assembler a GPU's code went through.
  if (IsGpu(winner.arch().name())) key.clear_assembler();
  return key;
}

const std::string& RowNameOf(const v1::Winner& winner) {
  return winner.winner_key().empty() ? winner.problem_key() : winner.winner_key();
}

std::string KeyDigest(const v1::WinnerKey& key) {
  Hasher hasher;
  hasher.UpdateField("winner key 1");
  for (int field = 0; field < kFields; ++field) {
    if (field == kOutsideRange || (field == kRange && !key.has_range())) continue;
    const TextMap* map = MapOf(key, field);
    hasher.UpdateField(kNames[field]);
    if (field == kRange) {
      hasher.UpdateField(key.range().SerializeAsString());
      continue;
    }
    hasher.UpdateField(map != nullptr ? SortedText(*map) : TextOf(key, field));
  }
  return hasher.FinishHex();
}

Comparison Compare(const v1::WinnerKey& asked, const v1::WinnerKey& stored) {
  Comparison out;
  for (int field = 0; field < kFields; ++field) {
    if (Differs(asked, stored, field)) out.mask |= 1u << field;
  }
  const auto distance = [&](const TextMap& a, const TextMap& b) {
    return ShapeDistance(WithoutRanges(a, asked, stored), WithoutRanges(b, asked, stored));
  };
  out.distance = distance(asked.shapes(), stored.shapes()) +
                 distance(asked.runtime(), stored.runtime()) + RangeDistance(asked, stored);
  return out;
}

bool Accepts(v1::Match match, uint32_t mask) {
  switch (match) {
    case v1::EXACT:
      return mask == 0;
    case v1::COMPATIBLE:
      return mask < kCompatible;
    case v1::ARCH:
      return mask < kSameArch;
    default:
      return mask < kBefore;
  }
}

v1::Match LevelOf(uint32_t mask) {
  for (v1::Match level : {v1::EXACT, v1::COMPATIBLE, v1::ARCH}) {
    if (Accepts(level, mask)) return level;
  }
  return v1::MATCH_UNSPECIFIED;
}

std::vector<v1::KeyDifference> Differences(const v1::WinnerKey& asked,
                                           const v1::WinnerKey& stored) {
  std::vector<v1::KeyDifference> out;
  for (int field = kFields - 1; field >= 0; --field) {
    if (!Differs(asked, stored, field)) continue;
    v1::KeyDifference& difference = out.emplace_back();
    difference.set_field(kNames[field]);
    if (field == kRange || field == kOutsideRange) {
      difference.set_stored(SizeText(stored, asked));
      difference.set_asked(SizeText(asked, stored));
    } else if (MapOf(asked, field) == nullptr) {
      difference.set_stored(TextOf(stored, field));
      difference.set_asked(TextOf(asked, field));
    } else {
      const TextMap own = Comparable(asked, stored, field);
      const TextMap other = Comparable(stored, asked, field);
      difference.set_stored(Chosen(other, own));
      difference.set_asked(Chosen(own, other));
    }
  }
  return out;
}

std::vector<std::string> NotCompared(const v1::WinnerKey& asked) {
  std::vector<std::string> out;
  for (int field = 0; field < kFields; ++field) {
    if (MayBeUnknown(field) && TextOf(asked, field).empty()) out.emplace_back(kNames[field]);
  }
  return out;
}

std::string DifferenceText(const std::vector<v1::KeyDifference>& differences) {
  const auto shown = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  // What differs because the architecture does says nothing more.
  const std::set<std::string> of_arch = {"features", "cores",  "power",
                                         "memory",   "driver", "assembler"};
  const bool arch = std::any_of(differences.begin(), differences.end(),
                                [](const v1::KeyDifference& d) { return d.field() == "arch"; });
  std::vector<std::string> parts;
  for (const v1::KeyDifference& d : differences) {
    const std::string& field = d.field();
    if (arch && of_arch.count(field) > 0) continue;
    if (field == "outside_range" && absl::StrContains(d.stored(), "..")) {
      parts.push_back(absl::StrCat(d.asked(), " is outside of ", d.stored()));
    } else if (field == "shapes" || field == "dtypes" || field == "flags" || field == "runtime" ||
               field == "range" || field == "outside_range") {
      parts.push_back(absl::StrCat("tuned for ", d.stored(), ", asked ", d.asked()));
    } else if (field == "device_model" || field == "arch") {
      parts.push_back(absl::StrCat("tuned on ", shown(d.stored()), ", asked ", shown(d.asked())));
    } else if (field == "kernel" || field == "space") {
      parts.push_back(field == "space" ? "tuned over another space of tunables" : "another kernel");
    } else {
      parts.push_back(
          absl::StrCat("tuned with ", field, " ", shown(d.stored()), ", asked ", shown(d.asked())));
    }
  }
  return absl::StrJoin(parts, "; ");
}

namespace {

// A size outside of a stored range is another size, as serious as another run-time value: how far
// it is decides, and then the range, which says more.
uint32_t Seriousness(uint32_t mask) {
  const uint32_t outside = 1u << kOutsideRange;
  return (mask & outside) == 0 ? mask : (mask & ~outside) | 1u << kRuntime;
}

// 10/9 and 9/10 are as far from 1, but for what floats round.
constexpr double kParts = 1e9;

}  // namespace

std::vector<v1::WinnerIndexRow> NearestFirst(const v1::WinnerKey& asked,
                                             std::vector<v1::WinnerIndexRow> rows) {
  using Rank = std::tuple<uint32_t, double, bool, int64_t, std::string>;
  std::vector<std::pair<Rank, v1::WinnerIndexRow>> ranked;
  for (v1::WinnerIndexRow& row : rows) {
    const Comparison c = Compare(asked, row.key());
    ranked.push_back({{Seriousness(c.mask), std::round(c.distance * kParts), !row.key().has_range(),
                       -row.finished_unix_ms(), row.winner()},
                      std::move(row)});
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  rows.clear();
  for (auto& [rank, row] : ranked) rows.push_back(std::move(row));
  return rows;
}

}  // namespace kiln::core
