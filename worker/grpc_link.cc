#include "worker/grpc_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kiln/v1/work.grpc.pb.h"

namespace kiln::worker {
namespace {

constexpr size_t kChunkBytes = 256 << 10;  // as work.proto states
constexpr int kMaxMessageBytes = 8 << 20;
constexpr auto kBlobTimeout = std::chrono::minutes(5);
// A host that vanishes without a word is noticed when a heartbeat stays unacknowledged this long
// (TCP_USER_TIMEOUT, which gRPC arms only when keepalive pings are on; their period stays above
// what servers tolerate without asking).
constexpr int kKeepaliveMs = 10 * 60 * 1000;
constexpr int kUserTimeoutMs = 10 * 1000;

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

class GrpcStream : public Stream {
 public:
  GrpcStream(v1::Work::Stub* stub, std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stream_(stub->Attach(&context_)) {}
  ~GrpcStream() override {
    if (!finished_) {
      context_.TryCancel();
      stream_->Finish();
    }
  }

  bool Write(const v1::WorkerMessage& message) override { return stream_->Write(message); }
  bool Read(v1::CoordinatorMessage* message) override { return stream_->Read(message); }
  void WritesDone() override { stream_->WritesDone(); }
  void Cancel() override { context_.TryCancel(); }
  absl::Status Finish() override {
    finished_ = true;
    return FromGrpc(stream_->Finish());
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
  bool finished_ = false;
};

class GrpcLink : public Link {
 public:
  explicit GrpcLink(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kUserTimeoutMs);
    // The agent has its own backoff; gRPC's may only be shorter.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // the time a connect may take
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    work_ = v1::Work::NewStub(channel_);
    blobs_ = v1::Blobs::NewStub(channel_);
  }

  std::unique_ptr<Stream> Attach() override {
    return std::make_unique<GrpcStream>(work_.get(), channel_);
  }

  absl::Status GetBlob(const std::string& digest, int64_t offset, const Sink& sink) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kBlobTimeout);
    v1::GetBlobRequest request;
    request.set_digest(digest);
    request.set_offset(offset);
    auto reader = blobs_->GetBlob(&context, request);
    v1::GetBlobResponse response;
    absl::Status sunk;
    while (sunk.ok() && reader->Read(&response)) sunk = sink(response.chunk());
    if (!sunk.ok()) context.TryCancel();
    absl::Status finished = FromGrpc(reader->Finish());
    return sunk.ok() ? finished : sunk;
  }

  absl::Status PutBlob(const std::string& digest, absl::string_view bytes) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kBlobTimeout);
    v1::PutBlobResponse response;
    auto writer = blobs_->PutBlob(&context, &response);
    v1::PutBlobRequest request;
    request.set_digest(digest);
    request.set_size_bytes(static_cast<int64_t>(bytes.size()));
    bool open = true;
    do {
      size_t n = std::min(bytes.size(), kChunkBytes);
      request.set_chunk(bytes.data(), n);
      bytes.remove_prefix(n);
      open = writer->Write(request);
      request.Clear();
    } while (open && !bytes.empty());
    // A failed write may mean that the store had the blob already and answered early.
    if (open) writer->WritesDone();
    return FromGrpc(writer->Finish());
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Work::Stub> work_;
  std::unique_ptr<v1::Blobs::Stub> blobs_;
};

}  // namespace

std::unique_ptr<Link> MakeGrpcLink(const std::string& address) {
  return std::make_unique<GrpcLink>(address);
}

}  // namespace kiln::worker
