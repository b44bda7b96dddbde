// What the recommender and the passes know of a machine: one plain record per target.
//
// An Arch never needs a live device. A worker fills in the record of its own machine (host_arch.h)
// and reports its text form; everybody else, on any machine, reads that text. GPU records and the
// generic x86-64 records are tables in this folder. Value type, thread-compatible.
//
// Units: bytes, nanoseconds, GHz, GB/s (1e9 bytes a second), GFLOP/s (1e9 operations a second; a
// fused multiply-add is two).
#ifndef KILN_COMPILER_TARGET_ARCH_H_
#define KILN_COMPILER_TARGET_ARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/dtype.h"

namespace kiln::target {

enum class ArchKind : uint8_t { kCpu, kGpu };

// One level of the memory hierarchy. A private level's capacity is that of one core (or SM), a
// shared level's that of the whole machine. bytes == 0: the level is absent.
// `core` figures: one core running alone. `all` figures: the sum over all cores running together.
// Write figures count the bytes stored; the read-for-ownership that a store may cause is already
// inside them. Copy figures count bytes read plus bytes stored.
struct MemoryLevel {
  int64_t bytes = 0;
  double read_core = 0, read_all = 0;
  double write_core = 0, write_all = 0;
  double copy_core = 0, copy_all = 0;

  bool operator==(const MemoryLevel&) const = default;
};

// Peak rate of one arithmetic unit on one input type.
struct ComputeUnit {
  std::string
      unit;    // "fma" (vector units), "dot" (packed pairs to float32), "tensor" (AMX, MMA), "sfu"
  DType type;  // of the inputs; of "tensor", float32 means inputs rounded to tf32
  double core = 0;  // GFLOP/s (sfu: Gop/s) of one core running alone
  double all = 0;   // of all cores running together

  bool operator==(const ComputeUnit&) const = default;
};

// One shape of a matrix instruction. The n extent may be any multiple of n_step up to n.
struct TensorAtom {
  std::string unit;  // "mma", "wgmma", "tcgen05", "amx"
  DType input;
  DType accum;
  int m = 0, n = 0, k = 0;
  int n_step = 0;  // == n when only one width exists

  bool operator==(const TensorAtom&) const = default;
};

struct Arch {
  std::string name;  // "x86-64-v4", "sm_90a": also the code generator's target
  ArchKind kind = ArchKind::kCpu;
  std::string model;        // what the vendor calls the device; display and cache keys only
  bool calibrated = false;  // measured on the machine itself; else nominal figures

  int cores = 1;         // cores this process may use, or SMs
  double clock_ghz = 0;  // sustained

  // Memory, nearest first. CPU: l1 and l2 are private, llc is shared by all cores.
  // GPU: l1 is the shared memory of one SM (bandwidth included), l2 is absent, llc is the L2 cache.
  MemoryLevel l1, l2, llc, dram;

  std::vector<ComputeUnit> units;
  std::vector<TensorAtom> atoms;

  double launch_ns = 0;  // starting a kernel: parallel-for wake-up and join, or a GPU launch
  double block_ns = 0;   // handing one block to a core

  // CPU only.
  int vector_bits = 0;  // widest vector the code generator should use
  int vector_registers = 0;
  int fma_ports = 0;                  // fused multiply-adds of full width started a cycle
  std::vector<std::string> features;  // LLVM spelling: "avx2", "avx512f", "avx512bf16", "amx-bf16"

  // GPU only.
  int warp_size = 0;
  int64_t smem_sm = 0;       // shared memory of an SM
  int64_t smem_block = 0;    // most of it one block may opt in to
  int64_t smem_static = 0;   // most of it a block gets without asking
  int64_t registers_sm = 0;  // 32-bit registers of an SM
  int registers_thread = 0;  // most of them one thread may use
  int warps_sm = 0;          // resident limits of an SM
  int blocks_sm = 0;
  int threads_block = 0;
  int cluster = 0;             // most blocks of a portable cluster; 0 = no clusters
  int64_t tmem_sm = 0;         // tensor memory, bytes; 0 = none
  double dram_latency_ns = 0;  // of a load that misses everything
  double llc_latency_ns = 0;

  bool operator==(const Arch&) const = default;

  // True when the processor has `feature`; '-' and '_' in names do not matter, so that
  // "avx512_bf16", "avx512bf16", "amx-bf16" and "amx_bf16" all work.
  bool Has(absl::string_view feature) const;
  // Most registers that each of `threads` threads of a block may have; a thread gets them in
  // eights.
  int64_t RegistersEach(int64_t threads) const;
  // Lanes of one vector register of `type`; at least 1.
  int Lanes(DType type) const;
  // The unit's rate, or null when the machine has no such unit for the type.
  const ComputeUnit* FindUnit(absl::string_view unit, DType type) const;
};

// Canonical text: "kiln-arch 1" and one "key = value" line a field, in a fixed order, fields with
// their default value left out. This is ArchRecord.record. Arch -> text -> Arch is exact.
std::string ToText(const Arch& arch);

// kInvalidArgument names the line and what is wrong with it: a bad header, an unknown or repeated
// key, a malformed or out-of-range value. At most 64 KiB.
absl::StatusOr<Arch> ParseArch(absl::string_view text);

// The records that ship: "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a" (gpu_archs.cc) and
// "x86-64-v3", "x86-64-v4" (cpu_archs.cc, nominal two-core machines for compiling without one at
// hand). kNotFound lists the names.
absl::StatusOr<Arch> NamedArch(absl::string_view name);
std::vector<std::string> ArchNames();

// "x86-64" for every x86 record, "sm" for every NVIDIA one: Register.compile_targets.
std::string ArchFamily(absl::string_view name);

// The compute capability of a GPU: "sm_90a" -> 90. KILN_CHECKs that it is the name of one.
int CapabilityOf(const Arch& gpu);

// `machine` as one that has the instructions of a GPU of that compute capability alone (pass option
// kiln.instructions: 80 for sm_80). 0: its own; a CPU always has its own. kInvalidArgument: no
// record has that capability, or not one whose instructions the machine runs: it is newer, or has
// an architecture of its own ("sm_90a"), which no later GPU runs (PTX ISA 11.1.2).
absl::StatusOr<Arch> WithInstructions(const Arch& machine, int64_t capability);

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_ARCH_H_
