#include "compiler/target/arch.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"
#include "compiler/target/tables.h"

namespace kiln::target {
namespace {

constexpr char kOwn[] = "a";  // ends the names of architectures whose instructions no other runs

std::string Squeezed(absl::string_view feature) {
  std::string out;
  for (char c : feature) {
    if (c != '-' && c != '_') out.push_back(c);
  }
  return out;
}

const std::vector<Arch>& Shipped() {
  static const std::vector<Arch>* const archs = [] {
    auto* all = new std::vector<Arch>(GpuArchs());
    for (Arch& a : CpuArchs()) all->push_back(std::move(a));
    return all;
  }();
  return *archs;
}

}  // namespace

bool Arch::Has(absl::string_view feature) const {
  const std::string wanted = Squeezed(feature);
  return std::any_of(features.begin(), features.end(),
                     [&](const std::string& f) { return Squeezed(f) == wanted; });
}

int64_t Arch::RegistersEach(int64_t threads) const {
  constexpr int64_t kGrain = 8;
  return std::min<int64_t>(registers_thread, registers_sm / threads / kGrain * kGrain);
}

int Arch::Lanes(DType type) const {
  const int bits = static_cast<int>(type.bytes() * 8);
  return std::max(1, vector_bits / bits);
}

const ComputeUnit* Arch::FindUnit(absl::string_view unit, DType type) const {
  for (const ComputeUnit& u : units) {
    if (u.unit == unit && u.type == type.element()) return &u;
  }
  // Integers of 8 bits have one unit, whatever their sign.
  return type.element() == kUInt8 ? FindUnit(unit, kInt8) : nullptr;
}

absl::StatusOr<Arch> NamedArch(absl::string_view name) {
  for (const Arch& a : Shipped()) {
    if (a.name == name) return a;
  }
  return absl::NotFoundError(absl::StrCat("no arch record named '", name, "'; the names are ",
                                          absl::StrJoin(ArchNames(), ", ")));
}

std::vector<std::string> ArchNames() {
  std::vector<std::string> names;
  for (const Arch& a : Shipped()) names.push_back(a.name);
  return names;
}

std::string ArchFamily(absl::string_view name) {
  if (absl::StartsWith(name, "x86-64")) return "x86-64";
  if (absl::StartsWith(name, "sm_")) return "sm";
  return std::string(name);
}

int CapabilityOf(const Arch& gpu) {
  absl::string_view digits = gpu.name;
  KILN_CHECK(absl::ConsumePrefix(&digits, "sm_"));
  absl::ConsumeSuffix(&digits, kOwn);
  int capability = 0;
  KILN_CHECK(absl::SimpleAtoi(digits, &capability));
  return capability;
}

absl::StatusOr<Arch> WithInstructions(const Arch& machine, int64_t capability) {
  if (capability == 0 || machine.kind != ArchKind::kGpu) return machine;
  for (const Arch& named : Shipped()) {
    if (named.kind != ArchKind::kGpu || CapabilityOf(named) != capability) continue;
    const bool own = absl::EndsWith(named.name, kOwn);
    if (own ? named.name != machine.name : CapabilityOf(named) > CapabilityOf(machine)) continue;
    Arch older = machine;
    older.name = named.name;
    return older;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "pass option kiln.instructions = ", capability,
      " is no compute capability (80 for sm_80) whose instructions ", machine.name, " runs"));
}

}  // namespace kiln::target
