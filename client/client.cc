#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cancel.h"
#include "client/convert.h"
#include "client/fetch_sink.h"
#include "client/kiln_client.h"
#include "client/retry.h"
#include "compiler/base/status.h"
#include "kiln/v1/tuning.grpc.pb.h"
#include "proto/address.h"

namespace kiln::client {
namespace {

// Answers with many candidates are large; what the client sends is small.
constexpr int kMaxAnswerBytes = 64 << 20;
constexpr absl::Duration kUnaryTimeout = absl::Seconds(60);
constexpr int kPageSize = 500;
constexpr int kMaxRestarts = 3;

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  arguments.SetMaxSendMessageSize(-1);  // the server's limit is the one that speaks
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // the time a connect may take
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class RpcClient : public Client {
 public:
  explicit RpcClient(std::string address)
      : address_(std::move(address)), stub_(v1::Tuning::NewStub(OpenChannel(address_))) {}

  absl::StatusOr<Submitted> Submit(const SweepSpec& spec, const CallOptions& options) override;
  absl::StatusOr<SweepEvent> Watch(const std::string& sweep,
                                   const std::function<bool(const SweepEvent&)>& on_event,
                                   const CallOptions& options) override;
  absl::StatusOr<LookupResult> Lookup(const SweepSpec& spec, Match match,
                                      const CallOptions& options) override;
  absl::StatusOr<MissList> Misses(int limit, bool with_kernels,
                                  const CallOptions& options) override;
  absl::StatusOr<int64_t> ClearMisses(const std::vector<std::string>& ids,
                                      const CallOptions& options) override;
  absl::StatusOr<Fetched> FetchToFile(const FetchRequest& request, const std::string& path,
                                      const CallOptions& options) override;
  absl::StatusOr<Fetched> FetchBytes(const FetchRequest& request, std::string* bytes,
                                     const CallOptions& options) override;
  absl::StatusOr<std::vector<Compiled>> Compile(SweepSpec spec,
                                                const CallOptions& options) override;
  absl::StatusOr<std::vector<SweepSummary>> List(const ListRequest& wanted,
                                                 const CallOptions& options) override;
  absl::StatusOr<SweepDetails> Show(const std::string& sweep, bool with_candidates,
                                    const CallOptions& options) override;
  absl::StatusOr<Cancelled> Cancel(const std::string& sweep, const std::string& reason,
                                   const CallOptions& options) override;
  absl::StatusOr<std::vector<WorkerInfo>> Workers(const CallOptions& options) override;
  absl::StatusOr<std::string> WhyNobody(const std::string& target,
                                        const CallOptions& options) override;
  absl::StatusOr<std::vector<Bar>> Bars(const CallOptions& options) override;
  absl::StatusOr<std::vector<Bar>> LiftBars(const std::vector<std::string>& ids,
                                            const CallOptions& options) override;
  absl::StatusOr<GarbageReport> CollectGarbage(int64_t target_bytes, bool dry_run,
                                               const CallOptions& options) override;
  absl::StatusOr<int64_t> Backup(const std::string& directory, const CallOptions& options) override;

 private:
  template <typename Request, typename Response>
  using Method = grpc::Status (v1::Tuning::Stub::*)(grpc::ClientContext*, const Request&,
                                                    Response*);

  // A call that the server cancels (it stops) is as good as one that found nobody.
  absl::Status ToStatus(const grpc::Status& status) const;

  // One unary call with the deadline, cancellation and retries of `options`.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request,
                                const CallOptions& options);

  // One attempt of a watch; `*keep` turns false when the callback wants no more.
  absl::Status WatchOnce(const v1::WatchSweepRequest& request,
                         const std::function<bool(const SweepEvent&)>& on_event,
                         const CallOptions& options, RetryLoop* loop, SweepEvent* last, bool* keep);
  absl::StatusOr<Fetched> Fetch(const FetchRequest& request, FetchSink* sink,
                                const CallOptions& options);
  absl::Status FetchOnce(v1::FetchWinnerRequest request, FetchSink* sink,
                         const CallOptions& options, RetryLoop* loop, Fetched* fetched);
  absl::StatusOr<Fetched> FetchConfig(const FetchRequest& request, Compiled* compiled,
                                      const CallOptions& options);

  const std::string address_;
  const std::unique_ptr<v1::Tuning::Stub> stub_;
};

absl::Status RpcClient::ToStatus(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kCancelled) {
    return absl::UnavailableError(absl::StrCat("no coordinator answers at ", address_, " (",
                                               status.error_message(),
                                               "); start one, or name another address"));
  }
  return absl::Status(code, status.error_message());
}

void SetDeadline(grpc::ClientContext* context, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
}

// A deadline that passed says what was waited for, how long, and how far it was; any other status
// is left as it is.
absl::Status SayHowFar(const absl::Status& status, absl::Duration timeout,
                       const std::string& how_far) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  std::string text = absl::StrCat("timed out after ", absl::FormatDuration(timeout), ": ", how_far);
  // gRPC's own words say nothing more.
  if (status.message() != "Deadline Exceeded") absl::StrAppend(&text, "; ", status.message());
  return absl::DeadlineExceededError(text);
}

// "ListSweeps"
template <typename Request>
std::string NameOfCall() {
  return std::string(absl::StripSuffix(Request::descriptor()->name(), "Request"));
}

template <typename Request, typename Response>
absl::StatusOr<Response> RpcClient::Call(Method<Request, Response> method, const Request& request,
                                         const CallOptions& options) {
  const absl::Duration timeout =
      options.timeout > absl::ZeroDuration() ? options.timeout : kUnaryTimeout;
  RetryLoop loop(options, timeout, absl::Now());
  while (true) {
    grpc::ClientContext context;
    SetDeadline(&context, loop.deadline());
    CancelAccess on_cancel(options.cancel, [&context] { context.TryCancel(); });
    Response response;
    const absl::Status status = ToStatus(((*stub_).*method)(&context, request, &response));
    if (status.ok()) return response;
    const absl::Status over = loop.WaitToRetry(status);
    if (!over.ok()) {
      return SayHowFar(over, timeout,
                       absl::StrCat("the coordinator at ", address_, " had not answered ",
                                    NameOfCall<Request>()));
    }
  }
}

absl::StatusOr<Submitted> RpcClient::Submit(const SweepSpec& spec, const CallOptions& options) {
  KILN_RETURN_IF_ERROR(CheckSpec(spec));
  v1::SubmitSweepRequest request;
  *request.mutable_spec() = ToProto(spec);
  KILN_ASSIGN_OR_RETURN(const v1::SubmitSweepResponse response,
                        Call(&v1::Tuning::Stub::SubmitSweep, request, options));
  Submitted submitted{response.sweep(),
                      response.joined(),
                      nullptr,
                      {response.not_compared().begin(), response.not_compared().end()}};
  if (response.answered()) {
    submitted.winner = std::make_shared<const Winner>(FromProto(response.winner()));
  }
  return submitted;
}

absl::StatusOr<LookupResult> RpcClient::Lookup(const SweepSpec& spec, Match match,
                                               const CallOptions& options) {
  KILN_RETURN_IF_ERROR(CheckSpec(spec));
  v1::LookupWinnerRequest request;
  *request.mutable_spec() = ToProto(spec);
  request.set_match(ToProto(match));
  KILN_ASSIGN_OR_RETURN(const v1::LookupWinnerResponse response,
                        Call(&v1::Tuning::Stub::LookupWinner, request, options));
  return FromProto(response);
}

absl::StatusOr<MissList> RpcClient::Misses(int limit, bool with_kernels,
                                           const CallOptions& options) {
  v1::ListMissesRequest request;
  request.set_limit(limit);
  request.set_with_kernels(with_kernels);
  KILN_ASSIGN_OR_RETURN(const v1::ListMissesResponse response,
                        Call(&v1::Tuning::Stub::ListMisses, request, options));
  MissList list;
  list.total = response.total();
  for (const v1::Miss& miss : response.misses()) list.misses.push_back(FromProto(miss));
  return list;
}

absl::StatusOr<int64_t> RpcClient::ClearMisses(const std::vector<std::string>& ids,
                                               const CallOptions& options) {
  v1::ClearMissesRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  KILN_ASSIGN_OR_RETURN(const v1::ClearMissesResponse response,
                        Call(&v1::Tuning::Stub::ClearMisses, request, options));
  return response.cleared();
}

absl::Status RpcClient::WatchOnce(const v1::WatchSweepRequest& request,
                                  const std::function<bool(const SweepEvent&)>& on_event,
                                  const CallOptions& options, RetryLoop* loop, SweepEvent* last,
                                  bool* keep) {
  grpc::ClientContext context;
  SetDeadline(&context, loop->deadline());
  CancelAccess on_cancel(options.cancel, [&context] { context.TryCancel(); });
  const auto stream = stub_->WatchSweep(&context, request);
  v1::SweepEvent message;
  while (stream->Read(&message)) {
    loop->Progressed();
    *last = FromProto(message);
    if (!on_event(*last)) {
      *keep = false;
      context.TryCancel();
      stream->Finish();
      return absl::OkStatus();
    }
  }
  return ToStatus(stream->Finish());
}

// "the sweep had not ended: running (screen), 2 of 4 candidates settled, best so far 11797 ns"
std::string HowFar(const Progress& p) {
  if (p.state == SweepState::kUnknown) return "nothing had been heard of the sweep";
  std::string text = absl::StrCat("the sweep had not ended: ", ToString(p.state),
                                  p.round.empty() ? "" : absl::StrCat(" (", p.round, ")"), ", ",
                                  p.done + p.failed + p.skipped, " of ", p.total, " settled");
  if (p.best_ns > 0) {
    absl::StrAppendFormat(&text, ", best so far %.4g us", p.best_ns / 1e3);
  }
  if (!p.message.empty()) absl::StrAppend(&text, ", ", p.message);
  return text;
}

absl::StatusOr<SweepEvent> RpcClient::Watch(const std::string& sweep,
                                            const std::function<bool(const SweepEvent&)>& on_event,
                                            const CallOptions& options) {
  v1::WatchSweepRequest request;
  request.set_sweep(sweep);
  RetryLoop loop(options, options.timeout, absl::Now());
  loop.SetPatience(options.watch.patience);
  SweepEvent last;
  bool keep = true;
  while (true) {
    absl::Status status = WatchOnce(request, on_event, options, &loop, &last, &keep);
    if (!keep || (status.ok() && IsTerminal(last.progress.state))) return last;
    if (status.ok()) status = absl::UnavailableError("the coordinator ended the watch early");
    const bool lost = absl::IsUnavailable(status) && loop.undisturbed();
    if (lost && options.watch.on_lost && !options.cancel.cancelled()) options.watch.on_lost(status);
    const absl::Status over = loop.WaitToRetry(status);
    if (!over.ok()) return SayHowFar(over, options.timeout, HowFar(last.progress));
  }
}

absl::Status RpcClient::FetchOnce(v1::FetchWinnerRequest request, FetchSink* sink,
                                  const CallOptions& options, RetryLoop* loop, Fetched* fetched) {
  grpc::ClientContext context;
  SetDeadline(&context, loop->deadline());
  CancelAccess on_cancel(options.cancel, [&context] { context.TryCancel(); });
  request.set_offset(sink->size());
  fetched->digest.clear();
  const auto stream = stub_->FetchWinner(&context, request);
  v1::FetchWinnerResponse message;
  if (!stream->Read(&message)) {
    const absl::Status status = ToStatus(stream->Finish());
    if (absl::IsOutOfRange(status)) return sink->Restart();
    return status.ok() ? absl::InternalError("the coordinator sent an empty answer") : status;
  }
  if (!sink->Continues(message.digest(), message.total_bytes())) {
    context.TryCancel();
    stream->Finish();
    return sink->Restart();
  }
  fetched->info = FromProto(message.info());
  fetched->digest = message.digest();
  fetched->bytes = message.total_bytes();
  KILN_RETURN_IF_ERROR(sink->Begin(message.digest()));
  do {
    const absl::Status wrote = sink->Append(message.chunk());
    if (!wrote.ok()) {
      context.TryCancel();
      stream->Finish();
      return wrote;
    }
    if (!message.chunk().empty()) loop->Progressed();
  } while (stream->Read(&message));
  return ToStatus(stream->Finish());
}

absl::StatusOr<Fetched> RpcClient::Fetch(const FetchRequest& request, FetchSink* sink,
                                         const CallOptions& options) {
  v1::FetchWinnerRequest message;
  message.set_sweep(request.sweep);
  message.set_config(request.config);
  message.set_winner_key(request.winner_key);
  RetryLoop loop(options, options.timeout, absl::Now());
  Fetched fetched;
  fetched.resumed_at = sink->size();
  for (int restarts = 0; restarts <= kMaxRestarts;) {
    const absl::Status status = FetchOnce(message, sink, options, &loop, &fetched);
    if (status.ok() && !fetched.digest.empty()) {
      if (sink->size() != fetched.bytes) {
        return absl::DataLossError(absl::StrCat("the coordinator sent ", sink->size(), " of ",
                                                fetched.bytes, " bytes; fetch again"));
      }
      KILN_RETURN_IF_ERROR(sink->Finish());
      return fetched;
    }
    if (status.ok()) {  // the bytes that were there belong to another bundle: from the start
      fetched.resumed_at = 0;
      ++restarts;
      continue;
    }
    const absl::Status over = loop.WaitToRetry(status);
    if (!over.ok()) {
      return SayHowFar(over, options.timeout,
                       absl::StrCat(sink->size(), " bytes of ",
                                    fetched.bytes > 0 ? absl::StrCat(fetched.bytes) : "the bundle",
                                    " had come"));
    }
  }
  return absl::AbortedError("the bundle changes while it is fetched; fetch again");
}

absl::StatusOr<Fetched> RpcClient::FetchToFile(const FetchRequest& request, const std::string& path,
                                               const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<FetchSink> sink, NewFileSink(path));
  return Fetch(request, sink.get(), options);
}

absl::StatusOr<Fetched> RpcClient::FetchBytes(const FetchRequest& request, std::string* bytes,
                                              const CallOptions& options) {
  const std::unique_ptr<FetchSink> sink = NewStringSink(bytes);
  return Fetch(request, sink.get(), options);
}

absl::StatusOr<std::vector<Compiled>> RpcClient::Compile(SweepSpec spec,
                                                         const CallOptions& options) {
  spec.objective = Objective::kCompile;
  const absl::Time begin = absl::Now();
  const auto remaining = [&] {
    CallOptions left = options;
    if (options.timeout > absl::ZeroDuration()) {
      left.timeout = std::max(absl::Milliseconds(1), options.timeout - (absl::Now() - begin));
    }
    return left;
  };
  KILN_ASSIGN_OR_RETURN(const Submitted submitted, Submit(spec, remaining()));
  KILN_ASSIGN_OR_RETURN(const SweepEvent last,
                        Watch(
                            submitted.sweep, [](const SweepEvent&) { return true; }, remaining()));
  if (last.progress.state == SweepState::kCancelled) {
    return absl::CancelledError(
        absl::StrCat("sweep ", submitted.sweep, " was cancelled: ", last.progress.message));
  }
  KILN_ASSIGN_OR_RETURN(const SweepDetails details, Show(submitted.sweep, true, remaining()));
  std::vector<Compiled> results;
  for (const Candidate& candidate : details.candidates) {
    Compiled compiled{candidate.config, absl::UnknownError("not compiled"), candidate.failure};
    if (candidate.artifact.digest.empty()) {
      compiled.bundle = absl::AbortedError(
          candidate.failed ? candidate.failure.message
                           : absl::StrCat("the candidate is ", ToString(candidate.state)));
    } else {
      KILN_RETURN_IF_ERROR(
          FetchConfig({submitted.sweep, candidate.config}, &compiled, remaining()).status());
    }
    results.push_back(std::move(compiled));
  }
  return results;
}

absl::StatusOr<Fetched> RpcClient::FetchConfig(const FetchRequest& request, Compiled* compiled,
                                               const CallOptions& options) {
  std::string bytes;
  KILN_ASSIGN_OR_RETURN(Fetched fetched, FetchBytes(request, &bytes, options));
  compiled->bundle = ParseBundle(bytes);
  KILN_RETURN_IF_ERROR(compiled->bundle.status());
  return fetched;
}

absl::StatusOr<std::vector<SweepSummary>> RpcClient::List(const ListRequest& wanted,
                                                          const CallOptions& options) {
  std::vector<SweepSummary> sweeps;
  v1::ListSweepsRequest request;
  request.set_active_only(wanted.active_only);
  request.set_without_parts(wanted.without_parts);
  request.set_parts_of(wanted.parts_of);
  while (true) {
    const int left = wanted.limit > 0 ? wanted.limit - static_cast<int>(sweeps.size()) : kPageSize;
    if (left <= 0) return sweeps;
    request.set_limit(std::min(left, kPageSize));
    KILN_ASSIGN_OR_RETURN(const v1::ListSweepsResponse response,
                          Call(&v1::Tuning::Stub::ListSweeps, request, options));
    for (const v1::SweepSummary& summary : response.sweeps()) {
      sweeps.push_back(FromProto(summary));
    }
    if (response.next_page_token().empty()) return sweeps;
    request.set_page_token(response.next_page_token());
  }
}

absl::StatusOr<SweepDetails> RpcClient::Show(const std::string& sweep, bool with_candidates,
                                             const CallOptions& options) {
  v1::GetSweepRequest request;
  request.set_sweep(sweep);
  request.set_with_candidates(with_candidates);
  KILN_ASSIGN_OR_RETURN(const v1::GetSweepResponse response,
                        Call(&v1::Tuning::Stub::GetSweep, request, options));
  return FromProto(response);
}

absl::StatusOr<Cancelled> RpcClient::Cancel(const std::string& sweep, const std::string& reason,
                                            const CallOptions& options) {
  v1::CancelSweepRequest request;
  request.set_sweep(sweep);
  request.set_reason(reason);
  KILN_ASSIGN_OR_RETURN(const v1::CancelSweepResponse response,
                        Call(&v1::Tuning::Stub::CancelSweep, request, options));
  return FromProto(response);
}

std::vector<Bar> BarsOf(const google::protobuf::RepeatedPtrField<v1::Bar>& rows) {
  std::vector<Bar> bars;
  for (const v1::Bar& row : rows) bars.push_back(FromProto(row));
  return bars;
}

absl::StatusOr<std::vector<Bar>> RpcClient::Bars(const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const v1::ListBarsResponse response,
                        Call(&v1::Tuning::Stub::ListBars, v1::ListBarsRequest(), options));
  return BarsOf(response.bars());
}

absl::StatusOr<std::vector<Bar>> RpcClient::LiftBars(const std::vector<std::string>& ids,
                                                     const CallOptions& options) {
  v1::LiftBarsRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  request.set_all(ids.empty());
  KILN_ASSIGN_OR_RETURN(const v1::LiftBarsResponse response,
                        Call(&v1::Tuning::Stub::LiftBars, request, options));
  return BarsOf(response.lifted());
}

absl::StatusOr<std::vector<WorkerInfo>> RpcClient::Workers(const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                        Call(&v1::Tuning::Stub::ListWorkers, v1::ListWorkersRequest(), options));
  std::vector<WorkerInfo> workers;
  for (const v1::WorkerInfo& worker : response.workers()) workers.push_back(FromProto(worker));
  return workers;
}

absl::StatusOr<std::string> RpcClient::WhyNobody(const std::string& target,
                                                 const CallOptions& options) {
  v1::ListWorkersRequest request;
  request.set_target(target);
  KILN_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                        Call(&v1::Tuning::Stub::ListWorkers, request, options));
  return response.nobody();
}

absl::StatusOr<GarbageReport> RpcClient::CollectGarbage(int64_t target_bytes, bool dry_run,
                                                        const CallOptions& options) {
  v1::CollectGarbageRequest request;
  request.set_target_bytes(target_bytes);
  request.set_dry_run(dry_run);
  KILN_ASSIGN_OR_RETURN(const v1::CollectGarbageResponse response,
                        Call(&v1::Tuning::Stub::CollectGarbage, request, options));
  return GarbageReport{response.bytes_before(), response.bytes_after(),
                       response.artifacts_dropped()};
}

absl::StatusOr<int64_t> RpcClient::Backup(const std::string& directory,
                                          const CallOptions& options) {
  v1::BackupRequest request;
  request.set_directory(directory);
  CallOptions once = options;
  once.retry.max_attempts = 1;
  if (once.timeout <= absl::ZeroDuration()) once.timeout = absl::Minutes(10);
  KILN_ASSIGN_OR_RETURN(const v1::BackupResponse response,
                        Call(&v1::Tuning::Stub::Backup, request, once));
  return response.bytes();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address) {
  KILN_RETURN_IF_ERROR(CheckAddress(address));
  return std::unique_ptr<Client>(std::make_unique<RpcClient>(std::string(address)));
}

namespace {

Bundle BundleOf(const v1::ArtifactBundle& proto) {
  Bundle bundle;
  bundle.name = proto.name();
  bundle.target = proto.target();
  bundle.object = proto.object();
  bundle.shared_object = proto.shared_object();
  bundle.header = proto.header();
  bundle.manifest_json = proto.manifest_json();
  bundle.assembly = proto.assembly();
  bundle.cubin = proto.cubin();
  for (const v1::ArtifactBundle& variant : proto.variants()) {
    bundle.variants.push_back(BundleOf(variant));
  }
  return bundle;
}

}  // namespace

absl::StatusOr<Bundle> ParseBundle(absl::string_view bytes) {
  v1::ArtifactBundle proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || proto.name().empty()) {
    return absl::DataLossError("the bytes are no Kiln artifact bundle");
  }
  return BundleOf(proto);
}

}  // namespace kiln::client
