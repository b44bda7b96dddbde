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
#include "coordinator/rpc/trim.h"
#include "coordinator/rpc/write_queue.h"
#include "kiln/v1/tuning.grpc.pb.h"
#include "proto/limits.h"

namespace kiln::rpc {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr size_t kMaxQueuedEvents = 16384;

// ---- WatchSweep ----

class WatchReactor;

// The farm's side of a watch; outlives the reactor when the farm holds on to it.
class QueuedWatch : public core::WatchSink {
 public:
  explicit QueuedWatch(WatchReactor* reactor) : queue_(reactor) {}

  void OnEvent(const v1::SweepEvent& event) override;
  void OnDone(const absl::Status& status) override { queue_.End(status); }

  WriteQueue<v1::SweepEvent, WatchReactor>* queue() { return &queue_; }

 private:
  WriteQueue<v1::SweepEvent, WatchReactor> queue_;
};

class WatchReactor : public grpc::ServerWriteReactor<v1::SweepEvent> {
 public:
  WatchReactor(const ServiceParts& parts, const std::string& sweep)
      : farm_(parts.farm),
        timer_(parts.metrics, "WatchSweep"),
        sink_(std::make_shared<QueuedWatch>(this)) {
    timer_.metrics()->OnStream("WatchSweep", 1);
    const absl::Status named = CheckSweepName(sweep);
    if (named.ok()) {
      watch_ = farm_->WatchSweep(sweep, sink_);
    } else {
      sink_->OnDone(named);
    }
  }

  void FinishStream(const absl::Status& status) {
    code_ = status.code();
    Finish(ToGrpc(status));
  }
  void OnWriteDone(bool ok) override { sink_->queue()->WriteDone(ok); }
  void OnCancel() override { sink_->queue()->Abort(absl::CancelledError("the watcher left")); }
  void OnDone() override {
    if (watch_ != 0) farm_->Unwatch(watch_);
    timer_.metrics()->OnStream("WatchSweep", -1);
    timer_.End(code_);
    delete this;
  }

 private:
  core::Farm* const farm_;
  const CallTimer timer_;
  const std::shared_ptr<QueuedWatch> sink_;
  core::WatchId watch_ = 0;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

bool IsProgressOnly(const v1::SweepEvent& event) {
  return !event.has_changed() && !event.has_winner() && event.progress().state() < v1::DONE;
}

void QueuedWatch::OnEvent(const v1::SweepEvent& event) {
  if (queue_.size() > kMaxQueuedEvents) {
    queue_.Abort(absl::UnavailableError("the watcher is too slow; watch again for the state"));
    return;
  }
  v1::SweepEvent trimmed = event;
  if (trimmed.has_changed()) TrimSamples(trimmed.mutable_changed());
  queue_.PushOrMerge(std::move(trimmed), [](v1::SweepEvent* last, v1::SweepEvent* next) {
    if (!IsProgressOnly(*last)) return false;
    *last = std::move(*next);
    return true;
  });
}

// ---- unary calls ----

absl::Status CheckWinnerName(const std::string& name) {
  if (IsSha256Hex(name)) return absl::OkStatus();
  return absl::InvalidArgumentError("winner_key: it is not the whole digest of a winner's key");
}

class TuningService : public v1::Tuning::CallbackService {
 public:
  explicit TuningService(const ServiceParts& parts) : parts_(parts) {}

  ServerUnaryReactor* SubmitSweep(CallbackServerContext* context,
                                  const v1::SubmitSweepRequest* request,
                                  v1::SubmitSweepResponse* response) override {
    const auto answer = Answer(context, response, "SubmitSweep");
    const absl::Status checked = CheckSweepSpec(request->spec());
    if (!checked.ok()) return answer.Fail(checked);
    parts_.farm->SubmitSweep(request->spec(), answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* LookupWinner(CallbackServerContext* context,
                                   const v1::LookupWinnerRequest* request,
                                   v1::LookupWinnerResponse* response) override {
    const auto answer = Answer(context, response, "LookupWinner");
    const absl::Status checked = CheckSweepSpec(request->spec());
    if (!checked.ok()) return answer.Fail(checked);
    if (!v1::Match_IsValid(request->match())) {
      return answer.Fail(
          absl::InvalidArgumentError("match: unknown value; use EXACT, COMPATIBLE or ARCH"));
    }
    parts_.farm->LookupWinner(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* ListMisses(CallbackServerContext* context,
                                 const v1::ListMissesRequest* request,
                                 v1::ListMissesResponse* response) override {
    const auto answer = Answer(context, response, "ListMisses");
    parts_.farm->ListMisses(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* ClearMisses(CallbackServerContext* context,
                                  const v1::ClearMissesRequest* request,
                                  v1::ClearMissesResponse* response) override {
    const auto answer = Answer(context, response, "ClearMisses");
    parts_.farm->ClearMisses(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* ListBars(CallbackServerContext* context, const v1::ListBarsRequest* request,
                               v1::ListBarsResponse* response) override {
    const auto answer = Answer(context, response, "ListBars");
    parts_.farm->ListBars(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* LiftBars(CallbackServerContext* context, const v1::LiftBarsRequest* request,
                               v1::LiftBarsResponse* response) override {
    const auto answer = Answer(context, response, "LiftBars");
    parts_.farm->LiftBars(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* ListSweeps(CallbackServerContext* context,
                                 const v1::ListSweepsRequest* request,
                                 v1::ListSweepsResponse* response) override {
    const auto answer = Answer(context, response, "ListSweeps");
    if (request->limit() < 0 || request->limit() > RpcLimits::kMaxPageSize) {
      return answer.Fail(absl::InvalidArgumentError(
          absl::StrCat("limit: ", request->limit(), " is not in 0 .. ", RpcLimits::kMaxPageSize,
                       "; ask for more with page_token")));
    }
    if (!request->parts_of().empty() && !IsSha256Hex(request->parts_of())) {
      return answer.Fail(
          absl::InvalidArgumentError("parts_of: it is not the whole digest of a sweep"));
    }
    parts_.farm->ListSweeps(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* GetSweep(CallbackServerContext* context, const v1::GetSweepRequest* request,
                               v1::GetSweepResponse* response) override {
    const auto answer = Answer(context, response, "GetSweep");
    const absl::Status named = CheckSweepName(request->sweep());
    if (!named.ok()) return answer.Fail(named);
    const bool with_samples = request->with_samples();
    parts_.farm->GetSweep(*request,
                          [answer, with_samples](absl::StatusOr<v1::GetSweepResponse> result) {
                            if (result.ok())
                              TrimAnswer(with_samples, RpcLimits::kMaxAnswerBytes, &*result);
                            answer.callback(std::move(result));
                          });
    return answer.reactor;
  }

  ServerUnaryReactor* CancelSweep(CallbackServerContext* context,
                                  const v1::CancelSweepRequest* request,
                                  v1::CancelSweepResponse* response) override {
    const auto answer = Answer(context, response, "CancelSweep");
    const absl::Status named = CheckSweepName(request->sweep());
    if (!named.ok()) return answer.Fail(named);
    if (request->reason().size() > static_cast<size_t>(RpcLimits::kMaxPathBytes)) {
      return answer.Fail(absl::ResourceExhaustedError(
          absl::StrCat("reason: at most ", RpcLimits::kMaxPathBytes, " bytes")));
    }
    parts_.farm->CancelSweep(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* ListWorkers(CallbackServerContext* context,
                                  const v1::ListWorkersRequest* request,
                                  v1::ListWorkersResponse* response) override {
    const auto answer = Answer(context, response, "ListWorkers");
    if (request->target().size() > static_cast<size_t>(RpcLimits::kMaxPathBytes)) {
      return answer.Fail(absl::ResourceExhaustedError(
          absl::StrCat("target: at most ", RpcLimits::kMaxPathBytes, " bytes")));
    }
    parts_.farm->ListWorkers(*request, answer.callback);
    return answer.reactor;
  }

  ServerUnaryReactor* CollectGarbage(CallbackServerContext* context,
                                     const v1::CollectGarbageRequest* request,
                                     v1::CollectGarbageResponse* response) override {
    const auto answer = Answer(context, response, "CollectGarbage");
    if (request->target_bytes() < 0) {
      return answer.Fail(absl::InvalidArgumentError("target_bytes: it is negative"));
    }
    parts_.disk->Post(
        [farm = parts_.farm, request, answer] { answer.callback(farm->CollectGarbage(*request)); });
    return answer.reactor;
  }

  ServerUnaryReactor* Backup(CallbackServerContext* context, const v1::BackupRequest* request,
                             v1::BackupResponse* response) override {
    const auto answer = Answer(context, response, "Backup");
    if (request->directory().empty() || request->directory()[0] != '/' ||
        request->directory().size() > static_cast<size_t>(RpcLimits::kMaxPathBytes)) {
      return answer.Fail(absl::InvalidArgumentError(
          "directory: write an absolute path on the coordinator's disk that does not exist yet"));
    }
    parts_.disk->Post(
        [farm = parts_.farm, request, answer] { answer.callback(farm->Backup(*request)); });
    return answer.reactor;
  }

  grpc::ServerWriteReactor<v1::SweepEvent>* WatchSweep(
      CallbackServerContext* context, const v1::WatchSweepRequest* request) override {
    return new WatchReactor(parts_, request->sweep());
  }

  grpc::ServerWriteReactor<v1::FetchWinnerResponse>* FetchWinner(
      CallbackServerContext* context, const v1::FetchWinnerRequest* request) override;

 private:
  // The one way in which a unary call ends.
  template <typename Response>
  struct Ending {
    ServerUnaryReactor* reactor;
    core::Callback<Response> callback;

    ServerUnaryReactor* Fail(const absl::Status& status) const {
      callback(status);
      return reactor;
    }
  };

  template <typename Response>
  Ending<Response> Answer(CallbackServerContext* context, Response* response,
                          absl::string_view method) {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    const CallTimer timer(parts_.metrics, method);
    return {reactor, [reactor, response, timer](absl::StatusOr<Response> result) {
              if (result.ok()) *response = *std::move(result);
              timer.End(result.status().code());
              reactor->Finish(ToGrpc(result.status()));
            }};
  }

  const ServiceParts parts_;
};

grpc::ServerWriteReactor<v1::FetchWinnerResponse>* TuningService::FetchWinner(
    CallbackServerContext* context, const v1::FetchWinnerRequest* request) {
  const auto open = [farm = parts_.farm,
                     request](v1::FetchWinnerResponse* first) -> absl::StatusOr<BlobRange> {
    const std::string& winner = request->winner_key();
    const absl::Status named =
        winner.empty() ? CheckSweepName(request->sweep()) : CheckWinnerName(winner);
    if (!named.ok()) return named;
    absl::StatusOr<core::ArtifactRef> artifact = farm->FindArtifact(*request);
    if (!artifact.ok()) return artifact.status();
    *first->mutable_info() = std::move(artifact->info);
    first->set_digest(artifact->digest);
    return BlobRange{artifact->digest, artifact->size_bytes, request->offset()};
  };
  return new BlobSender<v1::FetchWinnerResponse>(parts_, "FetchWinner", open);
}

}  // namespace

std::unique_ptr<grpc::Service> NewTuningService(const ServiceParts& parts) {
  return std::make_unique<TuningService>(parts);
}

}  // namespace kiln::rpc
