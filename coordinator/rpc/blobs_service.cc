#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "coordinator/rpc/blob_sender.h"
#include "coordinator/rpc/call.h"
#include "coordinator/rpc/services.h"
#include "coordinator/rpc/status.h"
#include "kiln/v1/work.grpc.pb.h"
#include "proto/limits.h"

namespace kiln::rpc {
namespace {

// One upload. At any moment it either waits for a message or has one job in the disk pool.
class BlobReceiver : public grpc::ServerReadReactor<v1::PutBlobRequest> {
 public:
  BlobReceiver(const ServiceParts& parts, v1::PutBlobResponse* response)
      : parts_(parts), timer_(parts.metrics, "PutBlob"), response_(response) {
    parts_.metrics->OnStream("PutBlob", 1);
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      parts_.disk->Post([this] { Take(); });
    } else {
      parts_.disk->Post([this] { Complete(); });
    }
  }
  void OnDone() override {
    parts_.metrics->OnStream("PutBlob", -1);
    timer_.End(code_);
    delete this;
  }

 private:
  void Take() {
    if (writer_ == nullptr) {
      const absl::Status opened = Open();
      if (absl::IsAlreadyExists(opened)) {
        response_->set_existed(true);
        return End(absl::OkStatus());
      }
      if (!opened.ok()) return End(opened);
    } else if (!message_.digest().empty() && message_.digest() != digest_) {
      return End(absl::InvalidArgumentError("digest: it changed within one upload"));
    }
    const absl::Status taken = Append();
    if (!taken.ok()) return End(taken);
    StartRead(&message_);
  }

  absl::Status Open() {
    if (!IsSha256Hex(message_.digest())) {
      return absl::InvalidArgumentError(
          "digest: the first message must carry the blob's SHA-256 as 64 lower-case digits");
    }
    if (message_.size_bytes() < 0) return absl::InvalidArgumentError("size_bytes: it is negative");
    if (message_.size_bytes() > RpcLimits::kMaxBlobBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("size_bytes: ", message_.size_bytes(),
                                                       " bytes, the limit of one blob is ",
                                                       RpcLimits::kMaxBlobBytes));
    }
    digest_ = message_.digest();
    auto writer = parts_.farm->blobs()->NewWriter(digest_, message_.size_bytes());
    if (!writer.ok()) return writer.status();
    writer_ = *std::move(writer);
    return absl::OkStatus();
  }

  absl::Status Append() {
    const std::string& chunk = message_.chunk();
    if (chunk.size() > static_cast<size_t>(RpcLimits::kMaxChunkBytes)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "chunk: ", chunk.size(), " bytes, the limit is ", RpcLimits::kMaxChunkBytes));
    }
    if (chunk.empty()) return absl::OkStatus();
    parts_.metrics->OnBlobBytes(static_cast<int64_t>(chunk.size()), 0);
    return writer_->Append(chunk);
  }

  void Complete() {
    if (writer_ == nullptr) return End(absl::InvalidArgumentError("the upload has no message"));
    End(writer_->Finish());
  }

  void End(const absl::Status& status) {
    writer_.reset();
    code_ = status.code();
    Finish(ToGrpc(status));
  }

  const ServiceParts parts_;
  const CallTimer timer_;
  v1::PutBlobResponse* const response_;
  v1::PutBlobRequest message_;
  std::string digest_;
  std::unique_ptr<store::BlobWriter> writer_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

class BlobsService : public v1::Blobs::CallbackService {
 public:
  explicit BlobsService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerReadReactor<v1::PutBlobRequest>* PutBlob(grpc::CallbackServerContext* context,
                                                       v1::PutBlobResponse* response) override {
    return new BlobReceiver(parts_, response);
  }

  grpc::ServerWriteReactor<v1::GetBlobResponse>* GetBlob(
      grpc::CallbackServerContext* context, const v1::GetBlobRequest* request) override {
    const auto open = [farm = parts_.farm,
                       request](v1::GetBlobResponse* first) -> absl::StatusOr<BlobRange> {
      if (!IsSha256Hex(request->digest())) {
        return absl::InvalidArgumentError("digest: write a SHA-256 as 64 lower-case digits");
      }
      const absl::StatusOr<int64_t> size = farm->blobs()->Size(request->digest());
      if (!size.ok()) return size.status();
      return BlobRange{request->digest(), *size, request->offset()};
    };
    return new BlobSender<v1::GetBlobResponse>(parts_, "GetBlob", open);
  }

 private:
  const ServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewBlobsService(const ServiceParts& parts) {
  return std::make_unique<BlobsService>(parts);
}

}  // namespace kiln::rpc
