// A submit that the store may answer, and the toolchain that its winner is compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/coordinator/core_rig.h"

namespace kiln::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;

// A store with the winner of one sweep, after a restart: no worker is attached.
class StoredWinner : public ::testing::Test {
 protected:
  StoredWinner() {
    const uint64_t a = rig_.Attach("a", 1, 1);
    spec_.add_configs("m=0,n=0,u=0");
    KILN_CHECK(rig_.Submit(spec_).ok());
    for (int turn = 0; turn < 50 && rig_.core()->Stats().active_sweeps > 0; ++turn) {
      for (const v1::Task& task : rig_.Take(a)) rig_.Say(a, rig_.Run(task, "a"));
    }
    rig_.Restart();
  }
  uint64_t Submit() {
    const uint64_t request = rig_.NewId();
    rig_.Turn(core::Submit{request, spec_});
    return request;
  }
  absl::StatusOr<v1::SubmitSweepResponse> Reply(uint64_t request) {
    return rig_.Get<v1::SubmitSweepResponse>(request);
  }
  bool Waits(uint64_t request) { return Reply(request).status().message() == "no reply yet"; }
  v1::Register Worker(const std::string& build, int compile, int profile) {
    v1::Register info = rig_.Info(absl::StrCat("of ", build, compile, profile), compile, profile);
    info.set_compiler_build(build);
    return info;
  }

  CoreRig rig_;
  v1::SweepSpec spec_ = FakeSpec();
};

TEST_F(StoredWinner, AnswersAtOnceWhenAWorkerOfItsBuildComes) {
  const uint64_t request = Submit();
  EXPECT_TRUE(Waits(request));
  rig_.Attach(Worker("build-1", 1, 1));
  const auto reply = Reply(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->answered());
  EXPECT_THAT(reply->not_compared(), Not(Contains("compiler")));
}

TEST_F(StoredWinner, OfAnOlderBuildIsNoAnswer) {
  const uint64_t request = Submit();
  rig_.Attach(Worker("build-2", 1, 1));
  const auto reply = Reply(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->answered());
  EXPECT_EQ(rig_.core()->Stats().active_sweeps, 1);
}

// One worker measures, another compiles: the first alone does not say what the toolchain is.
TEST_F(StoredWinner, WaitsForTheWorkerThatCompiles) {
  const uint64_t request = Submit();
  rig_.Attach(Worker("build-2", 0, 1));
  EXPECT_TRUE(Waits(request));
  rig_.Attach(Worker("build-2", 1, 0));
  const auto reply = Reply(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->answered());
}

TEST_F(StoredWinner, AnswersUncomparedAfterAWhileWithoutAToolchain) {
  const uint64_t alone = Submit();
  rig_.Advance(9);
  EXPECT_TRUE(Waits(alone));
  rig_.Advance(2);
  const auto reply = Reply(alone);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->answered());
  EXPECT_EQ(reply->winner().config(), "m=0,n=0,u=0");
  EXPECT_THAT(reply->not_compared(), Contains("compiler"));
  rig_.Attach(Worker("build-2", 0, 1));  // nobody who compiles
  const uint64_t measured = Submit();
  rig_.Advance(11);
  ASSERT_TRUE(Reply(measured).ok()) << Reply(measured).status();
  EXPECT_TRUE(Reply(measured)->answered());
}

TEST_F(StoredWinner, OfAnotherProblemLeavesASubmitWaiting) {
  (*spec_.mutable_arguments())["N"] = "12345";  // the same kernel, another problem
  const uint64_t waiting = Submit();
  rig_.Advance(11);
  EXPECT_TRUE(Waits(waiting));
  rig_.Advance(20);
  EXPECT_EQ(Reply(waiting).status().code(), absl::StatusCode::kFailedPrecondition);
  const uint64_t served = Submit();
  rig_.Attach("b", 1, 1);
  const auto accepted = Reply(served);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_FALSE(accepted->answered());
}

TEST_F(StoredWinner, IsNotWaitedForByAFreshSweep) {
  spec_.set_fresh(true);
  rig_.Attach(Worker("build-2", 0, 1));
  const uint64_t request = Submit();
  ASSERT_TRUE(Reply(request).ok()) << Reply(request).status();
  EXPECT_FALSE(Reply(request)->answered());
}

}  // namespace
}  // namespace kiln::testing
