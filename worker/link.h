// The seam to the coordinator: one stream for life, and blobs by separate calls. The real one
// speaks gRPC (grpc_link.h); tests use a twin in memory.
#ifndef KILN_WORKER_LINK_H_
#define KILN_WORKER_LINK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/work.pb.h"

namespace kiln::worker {

// One attachment. One reader thread and one writer thread may use it at once; Cancel() is for any
// thread and makes both return false soon.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual bool Write(const v1::WorkerMessage& message) = 0;
  virtual bool Read(v1::CoordinatorMessage* message) = 0;
  // No more writes; the coordinator ends the stream in its turn.
  virtual void WritesDone() = 0;
  virtual void Cancel() = 0;
  // Why the stream ended. After Read() returned false; once.
  virtual absl::Status Finish() = 0;
};

// Thread-safe.
class Link {
 public:
  using Sink = std::function<absl::Status(absl::string_view chunk)>;

  virtual ~Link() = default;
  virtual std::unique_ptr<Stream> Attach() = 0;
  // Streams the blob from `offset` into `sink`. kNotFound; kDataLoss; kUnavailable: try again.
  virtual absl::Status GetBlob(const std::string& digest, int64_t offset, const Sink& sink) = 0;
  // kInvalidArgument: the bytes are not the digest's.
  virtual absl::Status PutBlob(const std::string& digest, absl::string_view bytes) = 0;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_LINK_H_
