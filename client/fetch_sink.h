// Where downloaded bytes go. A sink hashes what it takes and knows how far it came, so that a
// broken download goes on where it stopped. Used by one thread.
#ifndef KILN_CLIENT_FETCH_SINK_H_
#define KILN_CLIENT_FETCH_SINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::client {

class FetchSink {
 public:
  virtual ~FetchSink() = default;
  // Bytes that are there already: the offset to ask for.
  virtual int64_t size() const = 0;
  // True when the bytes there are the beginning of the blob `digest` of `total_bytes` bytes; else
  // the caller calls Restart() and asks from 0. With no bytes there it is always true.
  virtual bool Continues(absl::string_view digest, int64_t total_bytes) const = 0;
  virtual absl::Status Restart() = 0;
  // Before the first Append of each attempt, after Continues() said true.
  virtual absl::Status Begin(absl::string_view digest) = 0;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // All bytes are there: checks the digest. kDataLoss when it differs, and the bytes are gone.
  virtual absl::Status Finish() = 0;
};

// Appends to `*bytes`, which is cleared first and must outlive the sink.
std::unique_ptr<FetchSink> NewStringSink(std::string* bytes);

// "<path>.<first 16 digits of the digest>.part" until Finish() renames it to `path`. Finds a part
// file that an earlier process left. kFailedPrecondition when `path`'s folder is not there.
absl::StatusOr<std::unique_ptr<FetchSink>> NewFileSink(const std::string& path);

}  // namespace kiln::client

#endif  // KILN_CLIENT_FETCH_SINK_H_
