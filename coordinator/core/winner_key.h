// What a winner is an answer to, and how near a stored one comes to what was asked.
//
// Where the fields of a v1::WinnerKey come from:
//
// - kernel, text: the canonical program (search::Expansion), and the kernel's own text.
// - shapes, dtypes, flags: the spec's compile-time arguments that are whole numbers, that are names
//   of element types, and the rest. runtime: its run-time values.
// - arch, model, features, cores: the device that a worker reported (compiler/target/arch.h).
// - power, memory, driver: what the worker read of the GPU, in classes, so that a reserve of a few
//   MB does not count: steps of 25 W and of 2 GiB, the driver's major version.
// - compiler, assembler: of the workers of the build that a sweep is pinned to.
// - measurement, check, space: the spec, its defaults written out.
#ifndef KILN_COORDINATOR_CORE_WINNER_KEY_H_
#define KILN_COORDINATOR_CORE_WINNER_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/v1/store.pb.h"
#include "kiln/v1/tuning.pb.h"

namespace kiln::core {

struct Tools {
  std::string compiler_build;  // empty = unknown
  std::string assembler;       // of GPUs' code; empty = the compiler needs none
};

// `spec` is normalised (identity.h). `kernel_digest` is empty before the expansion.
v1::WinnerKey MakeKey(const v1::SweepSpec& spec, const v1::ArchRecord& arch, const Tools& tools,
                      absl::string_view kernel_digest);

// GPUs of one model whose power limit, memory and driver are of the same classes; CPUs always.
bool SameClass(const v1::ArchRecord& a, const v1::ArchRecord& b);

// The key of a stored winner. Of a record that an older program wrote, what it says of itself: its
// memory, power and driver are unknown where there are such.
v1::WinnerKey KeyOf(const v1::Winner& winner);

// The name of the winner's row: `winner_key`, of an older record `problem_key`.
const std::string& RowNameOf(const v1::Winner& winner);

// Digest of the key but for `text`: kernels of the same canonical program are one.
std::string KeyDigest(const v1::WinnerKey& key);

// How a stored key differs from the asked one.
struct Comparison {
  // One bit a field that differs, the more serious the higher. From the least serious on: driver,
  // assembler, compiler, memory, power, cores; check, measurement, space; range (what is asked is
  // one size of a stored range, or a part of it); features, model; runtime, outside_range (it is
  // not), shapes, arch, flags, dtypes, kernel. A smaller mask is nearer.
  uint32_t mask = 0;
  // Between equal masks: how far the shapes are apart, as the sum of |log2(stored / asked)|.
  double distance = 0;
};

// Types are compared by their names, however they are written, and one that a key does not give is
// the kernel's default where the canonical programs are equal.
// A device field or a toolchain that is unknown in `asked` differs from nothing. One that is
// unknown in `stored` only does differ.
Comparison Compare(const v1::WinnerKey& asked, const v1::WinnerKey& stored);
bool Accepts(v1::Match match, uint32_t mask);
// The nearest of EXACT, COMPATIBLE and ARCH that accepts the mask; unspecified: none.
v1::Match LevelOf(uint32_t mask);
// Most serious first. Of shapes and the like only the names that differ: "N=4096".
std::vector<v1::KeyDifference> Differences(const v1::WinnerKey& asked, const v1::WinnerKey& stored);
// Fields of `asked` that are not compared, because they are unknown.
std::vector<std::string> NotCompared(const v1::WinnerKey& asked);

// "tuned for N=4096, asked N=4100; tuned with driver 550, asked 570".
std::string DifferenceText(const std::vector<v1::KeyDifference>& differences);

// The rows in the order in which a lookup takes them: the smaller mask (runtime and outside_range
// count alike), the smaller distance, a range, the later finish, the name.
std::vector<v1::WinnerIndexRow> NearestFirst(const v1::WinnerKey& asked,
                                             std::vector<v1::WinnerIndexRow> rows);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_WINNER_KEY_H_
