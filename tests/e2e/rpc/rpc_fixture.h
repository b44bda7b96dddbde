// A server over a scripted farm, and a client of it.
#ifndef KILN_TESTS_E2E_RPC_RPC_FIXTURE_H_
#define KILN_TESTS_E2E_RPC_RPC_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/kiln_client.h"
#include "coordinator/rpc/metrics.h"
#include "coordinator/rpc/server.h"
#include "tests/e2e/rpc/fake_farm.h"

namespace kiln {

namespace fs = std::filesystem;
using client::Client;
using client::SweepEvent;
using client::SweepSpec;
using test::FakeFarm;

inline const std::string kSweep(64, 'a');

inline v1::SweepEvent Event(v1::SweepState state, int done, const std::string& changed = "") {
  v1::SweepEvent event;
  event.mutable_progress()->set_state(state);
  event.mutable_progress()->set_done(done);
  if (!changed.empty()) event.mutable_changed()->set_config(changed);
  return event;
}

class RpcTest : public testing::Test {
 protected:
  RpcTest() {
    folder_ = fs::path(testing::TempDir()) / absl::StrCat("kiln_rpc_", getpid());
    fs::create_directories(folder_);
    address_ = absl::StrCat("unix:", (folder_ / "s.sock").string());
    Start();
  }
  ~RpcTest() override {
    server_.reset();
    fs::remove_all(folder_);
  }

  void Start() {
    rpc::ServerOptions options;
    options.listen = {address_, "127.0.0.1:0"};
    auto server = rpc::Server::Start(&farm_, metrics_.get(), options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = Client::Connect(address_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  std::shared_ptr<grpc::Channel> RawChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }

  SweepSpec Spec() {
    SweepSpec spec;
    spec.template_name = "matmul";
    spec.arguments = {{"M", "512"}, {"dtype", "float32"}};
    spec.tunables = {{"block_M", {"16", "32"}}};
    spec.user = "ada";
    return spec;
  }

  std::string StoreBundle(size_t bytes) {
    v1::ArtifactBundle bundle;
    bundle.set_name("gemm");
    std::string object(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) object[i] = static_cast<char>(i * 2654435761u >> 13);
    bundle.set_object(object);
    const std::string text = bundle.SerializeAsString();
    core::ArtifactRef artifact;
    artifact.digest = *farm_.blobs()->PutBytes(text);
    artifact.size_bytes = static_cast<int64_t>(text.size());
    artifact.info.set_config("block_M=16");
    farm_.SetArtifact(artifact);
    return text;
  }

  fs::path folder_;
  std::string address_;
  FakeFarm farm_;
  std::unique_ptr<rpc::Metrics> metrics_ = rpc::Metrics::New();
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<Client> client_;
};

}  // namespace kiln

#endif  // KILN_TESTS_E2E_RPC_RPC_FIXTURE_H_
