// The record of the machine that this process runs on.
//
// Identity comes from cpuid and sysfs; rates come from a short calibration (at most 2 s) that is
// kept in a file, keyed by processor model, core count and record version, so that it runs once a
// machine. Blocks the calling thread and starts short-lived threads; thread-safe.
#ifndef KILN_COMPILER_TARGET_HOST_ARCH_H_
#define KILN_COMPILER_TARGET_HOST_ARCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/target/arch.h"

namespace kiln::target {

// The host's record, from `cache_dir`/arch-<key>.txt when that file is there and parses, else
// calibrated now and written there (atomically; failing to write is not an error: the next call
// calibrates again). An empty `cache_dir` never reads or writes. kUnimplemented on a processor
// that is not x86-64.
absl::StatusOr<Arch> HostArch(const std::string& cache_dir);

// The host's identity without any measurement: name, model, cores, caches, features; rates are
// those of the nominal record of that name, scaled to the cores. Microseconds.
absl::StatusOr<Arch> DescribeHost();

// Processor features as LLVM spells them, from cpuid; empty on other processors.
std::vector<std::string> HostFeatures();

// "x86-64-v2", "-v3" or "-v4" by the psABI levels; "x86-64" below that.
std::string LevelOf(const std::vector<std::string>& features);

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_HOST_ARCH_H_
