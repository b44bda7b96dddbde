#include "compiler/target/host_arch.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/digest.h"
#include "compiler/target/calibrate.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kiln::target {
namespace {

// Part of the cache key: raise it when the calibration measures something new or differently.
constexpr int kCalibrationVersion = 3;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

int AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

#if defined(__x86_64__)

struct FeatureBit {
  const char* name;  // LLVM's
  unsigned leaf, subleaf;
  char reg;  // 'a'..'d'
  int bit;
};

constexpr FeatureBit kFeatureBits[] = {
    {"sse4.2", 1, 0, 'c', 20},
    {"popcnt", 1, 0, 'c', 23},
    {"avx", 1, 0, 'c', 28},
    {"f16c", 1, 0, 'c', 29},
    {"fma", 1, 0, 'c', 12},
    {"movbe", 1, 0, 'c', 22},
    {"bmi", 7, 0, 'b', 3},
    {"avx2", 7, 0, 'b', 5},
    {"bmi2", 7, 0, 'b', 8},
    {"avx512f", 7, 0, 'b', 16},
    {"avx512dq", 7, 0, 'b', 17},
    {"avx512ifma", 7, 0, 'b', 21},
    {"avx512cd", 7, 0, 'b', 28},
    {"avx512bw", 7, 0, 'b', 30},
    {"avx512vl", 7, 0, 'b', 31},
    {"avx512vbmi", 7, 0, 'c', 1},
    {"avx512vbmi2", 7, 0, 'c', 6},
    {"avx512vnni", 7, 0, 'c', 11},
    {"amx-bf16", 7, 0, 'd', 22},
    {"avx512fp16", 7, 0, 'd', 23},
    {"amx-tile", 7, 0, 'd', 24},
    {"amx-int8", 7, 0, 'd', 25},
    {"avxvnni", 7, 1, 'a', 4},
    {"avx512bf16", 7, 1, 'a', 5},
    {"lzcnt", 0x80000001, 0, 'c', 5},
};

uint64_t EnabledStates() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (1u << 27)) == 0) return 0;  // no OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Whether the system would grant a process the tile registers of AMX. Asks without requesting them.
bool TilesOffered() {
  constexpr long kSupportedStates = 0x1021;
  constexpr uint64_t kTileData = uint64_t{1} << 18;
  uint64_t states = 0;
  return syscall(SYS_arch_prctl, kSupportedStates, &states) == 0 && (states & kTileData) != 0;
}

// A feature counts only when the system saves its registers.
bool StateEnabled(absl::string_view feature, uint64_t states) {
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  if (absl::StartsWith(feature, "avx512")) return (states & kZmm) == kZmm;
  if (absl::StartsWith(feature, "amx")) return (states & kTiles) == kTiles && TilesOffered();
  if (absl::StartsWith(feature, "avx") || feature == "fma" || feature == "f16c") {
    return (states & kYmm) == kYmm;
  }
  return true;
}

std::string BrandString() {
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned r[4] = {};
    if (!__get_cpuid(0x80000002 + i, &r[0], &r[1], &r[2], &r[3])) return "x86-64 processor";
    std::copy_n(reinterpret_cast<const char*>(r), 16, text + 16 * i);
  }
  return std::string(absl::StripAsciiWhitespace(text));
}

std::string Stepping() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  return absl::StrCat(a);
}

int64_t SizeInBytes(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  int64_t scale = 1;
  if (absl::EndsWith(text, "K")) scale = 1 << 10;
  if (absl::EndsWith(text, "M")) scale = 1 << 20;
  if (scale > 1) text.remove_suffix(1);
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value) ? value * scale : 0;
}

// Data cache sizes by level from sysfs; a machine that hides them keeps the nominal ones.
void ReadCaches(Arch& arch) {
  for (int index = 0; index < 8; ++index) {
    const std::string base = absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    const std::string type(absl::StripAsciiWhitespace(ReadFile(base + "type")));
    if (type.empty()) break;
    if (type == "Instruction") continue;
    const int64_t bytes = SizeInBytes(ReadFile(base + "size"));
    const std::string level(absl::StripAsciiWhitespace(ReadFile(base + "level")));
    if (bytes <= 0) continue;
    if (level == "1") arch.l1.bytes = bytes;
    if (level == "2") arch.l2.bytes = bytes;
    if (level == "3" || level == "4") arch.llc.bytes = bytes;
  }
}

void ScaleToCores(Arch& arch, int cores) {
  const double ratio = static_cast<double>(cores) / arch.cores;
  for (MemoryLevel* l : {&arch.l1, &arch.l2, &arch.llc}) {
    l->read_all *= ratio;
    l->write_all *= ratio;
    l->copy_all *= ratio;
  }
  for (ComputeUnit& u : arch.units) u.all = u.core * cores;
  arch.cores = cores;
}

#endif

std::string CacheKey(const Arch& arch) {
  std::string features;
  for (const std::string& f : arch.features) absl::StrAppend(&features, f, " ");
  Hasher h;
  h.UpdateField(arch.model);
  h.UpdateField(absl::StrCat(arch.cores));
  h.UpdateField(features);
  h.UpdateField(absl::StrCat(arch.l1.bytes, "/", arch.l2.bytes, "/", arch.llc.bytes));
  h.UpdateField(absl::StrCat(kCalibrationVersion));
  return h.FinishHex().substr(0, 16);
}

void WriteAtomically(const std::string& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string temporary = absl::StrCat(path, ".", getpid());
  {
    std::ofstream out(temporary);
    out << text;
    if (!out.flush()) {
      std::remove(temporary.c_str());
      return;
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

}  // namespace

std::string LevelOf(const std::vector<std::string>& features) {
  const auto all = [&](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(), [&](const char* n) {
      return std::find(features.begin(), features.end(), n) != features.end();
    });
  };
  if (!all({"sse4.2", "popcnt"})) return "x86-64";
  if (!all({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})) return "x86-64-v2";
  if (!all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) return "x86-64-v3";
  return "x86-64-v4";
}

#if defined(__x86_64__)

std::vector<std::string> HostFeatures() {
  const uint64_t states = EnabledStates();
  std::vector<std::string> out;
  for (const FeatureBit& f : kFeatureBits) {
    unsigned r[4] = {};
    if (!__get_cpuid_count(f.leaf, f.subleaf, &r[0], &r[1], &r[2], &r[3])) continue;
    if ((r[f.reg - 'a'] >> f.bit & 1) != 0 && StateEnabled(f.name, states)) out.push_back(f.name);
  }
  return out;
}

absl::StatusOr<Arch> DescribeHost() {
  std::vector<std::string> features = HostFeatures();
  const std::string level = LevelOf(features);
  const bool wide = level == "x86-64-v4";
  auto nominal = NamedArch(wide ? "x86-64-v4" : "x86-64-v3");
  if (!nominal.ok()) return nominal.status();
  Arch arch = *std::move(nominal);
  arch.name = level;
  arch.model = absl::StrCat(BrandString(), " (", Stepping(), ")");
  arch.features = std::move(features);
  if (level == "x86-64" || level == "x86-64-v2") arch.vector_bits = 128;
  ReadCaches(arch);
  ScaleToCores(arch, AllowedCores());
  return arch;
}

absl::StatusOr<Arch> HostArch(const std::string& cache_dir) {
  static std::mutex calibrating;  // two measurements at once would disturb each other
  auto described = DescribeHost();
  if (!described.ok()) return described.status();
  Arch arch = *std::move(described);
  const std::lock_guard<std::mutex> lock(calibrating);
  const std::string path = absl::StrCat(cache_dir, "/arch-", CacheKey(arch), ".txt");
  if (!cache_dir.empty()) {
    auto cached = ParseArch(ReadFile(path));
    if (cached.ok() && cached->calibrated && cached->name == arch.name) return *std::move(cached);
  }
  Calibrate(arch);
  if (!cache_dir.empty()) WriteAtomically(path, ToText(arch));
  return arch;
}

#else

std::vector<std::string> HostFeatures() { return {}; }

absl::StatusOr<Arch> DescribeHost() {
  return absl::UnimplementedError("only x86-64 hosts have a CPU target; name an arch record");
}

absl::StatusOr<Arch> HostArch(const std::string&) { return DescribeHost(); }

#endif

}  // namespace kiln::target
