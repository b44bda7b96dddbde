#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"
#include "compiler/target/arch.h"

namespace kiln::target {
namespace {

constexpr char kHeader[] = "kiln-arch 1";
constexpr size_t kMaxText = 64 << 10;
constexpr size_t kMaxRows = 64;  // units, atoms or features of one record

std::string Number(double v) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}

bool ParseNumber(absl::string_view text, double* out) {
  auto r = std::from_chars(text.data(), text.data() + text.size(), *out);
  return r.ec == std::errc() && r.ptr == text.data() + text.size() && std::isfinite(*out) &&
         *out >= 0;
}

template <typename I>
bool ParseInteger(absl::string_view text, I* out) {
  int64_t v = 0;
  if (!absl::SimpleAtoi(text, &v)) return false;
  if (v < 0 || v > static_cast<int64_t>(std::numeric_limits<I>::max())) return false;
  *out = static_cast<I>(v);
  return true;
}

std::string OneLine(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return std::string(absl::StripAsciiWhitespace(out));
}

std::vector<absl::string_view> Words(absl::string_view text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

bool ParseLevel(absl::string_view text, MemoryLevel* level) {
  const auto w = Words(text);
  return w.size() == 7 && ParseInteger(w[0], &level->bytes) &&
         ParseNumber(w[1], &level->read_core) && ParseNumber(w[2], &level->read_all) &&
         ParseNumber(w[3], &level->write_core) && ParseNumber(w[4], &level->write_all) &&
         ParseNumber(w[5], &level->copy_core) && ParseNumber(w[6], &level->copy_all);
}

std::string LevelText(const MemoryLevel& l) {
  return absl::StrJoin(
      {std::to_string(l.bytes), Number(l.read_core), Number(l.read_all), Number(l.write_core),
       Number(l.write_all), Number(l.copy_core), Number(l.copy_all)},
      " ");
}

bool ParseUnit(absl::string_view text, ComputeUnit* unit) {
  const auto w = Words(text);
  if (w.size() != 4) return false;
  const auto type = ParseDType(w[1]);
  if (!type || !ParseNumber(w[2], &unit->core) || !ParseNumber(w[3], &unit->all)) return false;
  unit->unit = std::string(w[0]);
  unit->type = *type;
  return true;
}

bool ParseAtom(absl::string_view text, TensorAtom* atom) {
  const auto w = Words(text);
  if (w.size() != 7) return false;
  const auto in = ParseDType(w[1]);
  const auto acc = ParseDType(w[2]);
  if (!in || !acc) return false;
  atom->unit = std::string(w[0]);
  atom->input = *in;
  atom->accum = *acc;
  return ParseInteger(w[3], &atom->m) && ParseInteger(w[4], &atom->n) &&
         ParseInteger(w[5], &atom->k) && ParseInteger(w[6], &atom->n_step);
}

// Visits every scalar field as (key, pointer), in the order of the text. One list serves both ways.
template <typename A, typename V>
void VisitFields(A& a, V&& visit) {
  visit("name", &a.name);
  visit("kind", &a.kind);
  visit("model", &a.model);
  visit("calibrated", &a.calibrated);
  visit("cores", &a.cores);
  visit("clock_ghz", &a.clock_ghz);
  visit("l1", &a.l1);
  visit("l2", &a.l2);
  visit("llc", &a.llc);
  visit("dram", &a.dram);
  visit("launch_ns", &a.launch_ns);
  visit("block_ns", &a.block_ns);
  visit("vector_bits", &a.vector_bits);
  visit("vector_registers", &a.vector_registers);
  visit("fma_ports", &a.fma_ports);
  visit("warp_size", &a.warp_size);
  visit("smem_sm", &a.smem_sm);
  visit("smem_block", &a.smem_block);
  visit("smem_static", &a.smem_static);
  visit("registers_sm", &a.registers_sm);
  visit("registers_thread", &a.registers_thread);
  visit("warps_sm", &a.warps_sm);
  visit("blocks_sm", &a.blocks_sm);
  visit("threads_block", &a.threads_block);
  visit("cluster", &a.cluster);
  visit("tmem_sm", &a.tmem_sm);
  visit("dram_latency_ns", &a.dram_latency_ns);
  visit("llc_latency_ns", &a.llc_latency_ns);
}

std::string ValueText(const std::string& v) { return OneLine(v); }
std::string ValueText(ArchKind v) { return v == ArchKind::kCpu ? "cpu" : "gpu"; }
std::string ValueText(bool v) { return v ? "true" : "false"; }
std::string ValueText(int v) { return std::to_string(v); }
std::string ValueText(int64_t v) { return std::to_string(v); }
std::string ValueText(double v) { return Number(v); }
std::string ValueText(const MemoryLevel& v) { return LevelText(v); }

bool ParseValue(absl::string_view text, std::string* out) {
  *out = std::string(text);
  return true;
}
bool ParseValue(absl::string_view text, ArchKind* out) {
  *out = text == "cpu" ? ArchKind::kCpu : ArchKind::kGpu;
  return text == "cpu" || text == "gpu";
}
bool ParseValue(absl::string_view text, bool* out) {
  *out = text == "true";
  return text == "true" || text == "false";
}
bool ParseValue(absl::string_view text, int* out) { return ParseInteger(text, out); }
bool ParseValue(absl::string_view text, int64_t* out) { return ParseInteger(text, out); }
bool ParseValue(absl::string_view text, double* out) { return ParseNumber(text, out); }
bool ParseValue(absl::string_view text, MemoryLevel* out) { return ParseLevel(text, out); }

enum class Found { kUnknown, kBad, kRepeated, kOk };

Found ParseField(absl::string_view key, absl::string_view value, std::set<std::string>& seen,
                 Arch& arch) {
  if (key == "unit") {
    arch.units.emplace_back();
    return ParseUnit(value, &arch.units.back()) ? Found::kOk : Found::kBad;
  }
  if (key == "atom") {
    arch.atoms.emplace_back();
    return ParseAtom(value, &arch.atoms.back()) ? Found::kOk : Found::kBad;
  }
  if (!seen.insert(std::string(key)).second) return Found::kRepeated;
  if (key == "features") {
    for (absl::string_view w : Words(value)) arch.features.emplace_back(w);
    return Found::kOk;
  }
  Found found = Found::kUnknown;
  VisitFields(arch, [&](absl::string_view name, auto* field) {
    if (name == key) found = ParseValue(value, field) ? Found::kOk : Found::kBad;
  });
  return found;
}

absl::Status CheckRecord(const Arch& arch) {
  if (arch.name.empty()) return absl::InvalidArgumentError("arch record: 'name' is missing");
  if (arch.cores < 1) return absl::InvalidArgumentError("arch record: 'cores' must be at least 1");
  if (arch.units.size() > kMaxRows || arch.atoms.size() > kMaxRows ||
      arch.features.size() > 4 * kMaxRows) {
    return absl::InvalidArgumentError("arch record: too many units, atoms or features");
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToText(const Arch& arch) {
  const Arch defaults;
  std::string out = absl::StrCat(kHeader, "\n");
  std::vector<std::string> default_values;
  VisitFields(defaults, [&](absl::string_view, const auto* field) {
    default_values.push_back(ValueText(*field));
  });
  size_t index = 0;
  VisitFields(arch, [&](absl::string_view key, const auto* field) {
    const std::string value = ValueText(*field);
    const bool required = key == "name" || key == "kind";
    if (required || value != default_values[index]) absl::StrAppend(&out, key, " = ", value, "\n");
    ++index;
  });
  for (const ComputeUnit& u : arch.units) {
    absl::StrAppend(&out, "unit = ", u.unit, " ", u.type.ToString(), " ", Number(u.core), " ",
                    Number(u.all), "\n");
  }
  for (const TensorAtom& a : arch.atoms) {
    absl::StrAppend(&out, "atom = ", a.unit, " ", a.input.ToString(), " ", a.accum.ToString(), " ",
                    a.m, " ", a.n, " ", a.k, " ", a.n_step, "\n");
  }
  if (!arch.features.empty()) {
    absl::StrAppend(&out, "features = ", absl::StrJoin(arch.features, " "), "\n");
  }
  return out;
}

absl::StatusOr<Arch> ParseArch(absl::string_view text) {
  if (text.size() > kMaxText) {
    return absl::InvalidArgumentError("arch record: longer than 64 KiB");
  }
  Arch arch;
  std::set<std::string> seen;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    const absl::string_view body = absl::StripAsciiWhitespace(line);
    const std::string where = absl::StrCat("arch record, line ", line_number, ": ");
    if (line_number == 1) {
      if (body == kHeader) continue;
      return absl::InvalidArgumentError(absl::StrCat(where, "expected '", kHeader, "'"));
    }
    if (body.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(body, absl::MaxSplits('=', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
    const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
    switch (ParseField(key, value, seen, arch)) {
      case Found::kOk:
        break;
      case Found::kUnknown:
        return absl::InvalidArgumentError(
            absl::StrCat(where, "unknown key '", key, "'; was it written by a newer build?"));
      case Found::kBad:
        return absl::InvalidArgumentError(
            absl::StrCat(where, "bad value for '", key, "': '", value, "'"));
      case Found::kRepeated:
        return absl::InvalidArgumentError(absl::StrCat(where, "'", key, "' is given twice"));
    }
  }
  KILN_RETURN_IF_ERROR(CheckRecord(arch));
  return arch;
}

}  // namespace kiln::target
