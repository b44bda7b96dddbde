// Streams a blob in chunks: GetBlob and FetchWinner. Reads happen on the disk pool, one chunk at a
// time, the next one only after the peer took the last: a slow peer costs one chunk of memory.
#ifndef KILN_COORDINATOR_RPC_BLOB_SENDER_H_
#define KILN_COORDINATOR_RPC_BLOB_SENDER_H_

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coordinator/rpc/call.h"
#include "coordinator/rpc/services.h"
#include "coordinator/rpc/status.h"
#include "proto/limits.h"

namespace kiln::rpc {

struct BlobRange {
  std::string digest;
  int64_t total_bytes = 0;
  int64_t offset = 0;
};

// Deletes itself when the call is done. `Response` has `chunk` and `total_bytes`. `open` runs on
// the disk pool, fills the first message's other fields, and says what to send.
template <typename Response>
class BlobSender : public grpc::ServerWriteReactor<Response> {
 public:
  using Opener = std::function<absl::StatusOr<BlobRange>(Response* first)>;

  BlobSender(const ServiceParts& parts, absl::string_view method, Opener open)
      : parts_(parts), timer_(parts.metrics, method), open_(std::move(open)) {
    parts_.metrics->OnStream(method, 1);
    parts_.disk->Post([this] { Begin(); });
  }

  void OnWriteDone(bool ok) override {
    if (!ok || cancelled_) {
      End(absl::CancelledError("the reader left"));
    } else if (range_.offset >= range_.total_bytes) {
      End(absl::OkStatus());
    } else {
      parts_.disk->Post([this] {
        message_.Clear();
        SendChunk();
      });
    }
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override {
    parts_.metrics->OnStream(timer_.method(), -1);
    timer_.End(code_);
    delete this;
  }

 private:
  void Begin() {
    absl::StatusOr<BlobRange> range = open_(&message_);
    if (!range.ok()) return End(range.status());
    range_ = *std::move(range);
    if (range_.offset < 0 || range_.offset > range_.total_bytes) {
      return End(absl::OutOfRangeError(absl::StrCat("offset: ", range_.offset, " is not in 0 .. ",
                                                    range_.total_bytes, ", the blob's size")));
    }
    message_.set_total_bytes(range_.total_bytes);
    SendChunk();
  }

  void SendChunk() {
    if (range_.offset < range_.total_bytes) {
      absl::StatusOr<std::string> chunk =
          parts_.farm->blobs()->Read(range_.digest, range_.offset, RpcLimits::kMaxChunkBytes);
      if (!chunk.ok()) return End(chunk.status());
      if (chunk->empty()) return End(absl::DataLossError("the stored blob ends early"));
      range_.offset += static_cast<int64_t>(chunk->size());
      parts_.metrics->OnBlobBytes(0, static_cast<int64_t>(chunk->size()));
      message_.set_chunk(*std::move(chunk));
    }
    this->StartWrite(&message_);
  }

  void End(const absl::Status& status) {
    code_ = status.code();
    this->Finish(ToGrpc(status));
  }

  const ServiceParts parts_;
  const CallTimer timer_;
  const Opener open_;
  BlobRange range_;
  Response message_;
  std::atomic<bool> cancelled_{false};
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_BLOB_SENDER_H_
