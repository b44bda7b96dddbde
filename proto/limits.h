// What a request may carry, in one place: the client checks it before anything travels, the
// coordinator again before it looks at the content. Numbers may grow, never shrink
// (proto/README.md).
#ifndef KILN_PROTO_LIMITS_H_
#define KILN_PROTO_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/common.pb.h"

namespace kiln {

struct RpcLimits {
  static constexpr int kMaxReceiveBytes = 4 << 20;     // one message to the coordinator
  static constexpr int kMaxChunkBytes = 256 << 10;     // PutBlob, GetBlob, FetchWinner
  static constexpr int64_t kMaxBlobBytes = 256 << 20;  // one blob
  static constexpr int kMaxKernelBytes = 1 << 20;
  static constexpr int kMaxNameBytes = 256;  // display names, paths' last parts, users
  static constexpr int kMaxPathBytes = 4096;
  static constexpr int kMaxValueBytes = 256;  // one literal
  static constexpr int kMaxArguments = 256;
  static constexpr int kMaxTunables = 64;
  static constexpr int kMaxValuesPerTunable = 1024;
  static constexpr int kMaxConfigs = 10000;
  static constexpr int kMaxConfigBytes = 4096;
  static constexpr int kMaxSeeds = 16;
  static constexpr int64_t kMaxExtent = int64_t{1} << 40;  // of a range's sizes
  static constexpr int kMaxRangePoints = 32;               // that a range names
  static constexpr int kMaxTopK = 4096;
  static constexpr int kMaxCandidates = 100000000;
  static constexpr int kMaxSamples = 100000;
  static constexpr double kMaxSeconds = 30.0 * 86400;
  static constexpr int kMaxPageSize = 1000;
  static constexpr int kMaxAnswerBytes = 60 << 20;  // one answer to a client
};

// OK when `spec` respects the limits and is well formed: names are identifiers (of what is tuned,
// pass options too), values are literals, numbers are in range, exactly one of kernel and template
// is there. kInvalidArgument says which field, what is wrong and what to do; kResourceExhausted
// when a size limit is passed. Says nothing about what the kernel means.
absl::Status CheckSweepSpec(const v1::SweepSpec& spec);

// True for a C identifier of at most kMaxNameBytes.
bool IsIdentifier(absl::string_view text);

// A sweep's name in a request: 6 to 64 lower-case hexadecimal digits.
absl::Status CheckSweepName(absl::string_view sweep);

}  // namespace kiln

#endif  // KILN_PROTO_LIMITS_H_
