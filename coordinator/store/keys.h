// The keys of every row on disk. Frozen: README.md of this folder documents them.
#ifndef KILN_COORDINATOR_STORE_KEYS_H_
#define KILN_COORDINATOR_STORE_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace kiln::store::keys {

inline constexpr char kTerm[] = "term";
inline constexpr char kFarm[] = "farm";
inline constexpr char kSweep[] = "sweep/";
inline constexpr char kStatus[] = "status/";
inline constexpr char kActive[] = "active/";
inline constexpr char kOrder[] = "order/";
inline constexpr char kCandidate[] = "cand/";
inline constexpr char kTask[] = "task/";
inline constexpr char kWinner[] = "winner/";
inline constexpr char kKernel[] = "kernel/";
inline constexpr char kCompiled[] = "compiled/";
inline constexpr char kKill[] = "kill/";
inline constexpr char kWorker[] = "worker/";
inline constexpr char kArch[] = "arch/";
inline constexpr char kProgram[] = "program/";
inline constexpr char kMiss[] = "miss/";
inline constexpr char kMissCount[] = "misscount/";

inline constexpr char kBlob[] = "blob/";
inline constexpr char kChunk[] = "chunk/";
inline constexpr char kPin[] = "pin/";
inline constexpr char kUsed[] = "used/";
inline constexpr char kUpload[] = "upload/";
inline constexpr char kOpens[] = "opens";

inline std::string Candidates(absl::string_view sweep) {
  return absl::StrCat(kCandidate, sweep, "/");
}
inline std::string Candidate(absl::string_view sweep, int ordinal) {
  return absl::StrFormat("%s%s/%08d", kCandidate, sweep, ordinal);
}
inline std::string Tasks(absl::string_view sweep) { return absl::StrCat(kTask, sweep, "/"); }
inline std::string Task(absl::string_view sweep, absl::string_view id) {
  return absl::StrCat(kTask, sweep, "/", id);
}
inline std::string Arch(absl::string_view name, absl::string_view device_model) {
  return absl::StrCat(kArch, name, "/", device_model);
}
// Newest first: the time counts down.
inline std::string Order(int64_t submitted_unix_ms, absl::string_view sweep) {
  return absl::StrFormat("%s%019d/%s", kOrder, INT64_MAX - submitted_unix_ms, sweep);
}
inline std::string Chunk(absl::string_view digest, uint64_t upload, int index) {
  return absl::StrFormat("%s%s/%016x/%08d", kChunk, digest, upload, index);
}
inline std::string ChunksOf(absl::string_view digest, uint64_t upload) {
  return absl::StrFormat("%s%s/%016x/", kChunk, digest, upload);
}
inline std::string Upload(absl::string_view digest, uint64_t upload) {
  return absl::StrFormat("%s%s/%016x", kUpload, digest, upload);
}

}  // namespace kiln::store::keys

#endif  // KILN_COORDINATOR_STORE_KEYS_H_
