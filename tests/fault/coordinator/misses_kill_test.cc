// kill -9 of a coordinator while clients look up what is not there: of what was answered no more
// counts are lost than Options::miss_flush_count says, none is counted twice, and what was asked is
// there for every count.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"
#include "coordinator/core/farm.h"
#include "tests/conformance/stores.h"
#include "tests/util/fake_space.h"

namespace kiln::testing {
namespace {

constexpr int kKills = 12;
constexpr int kShapes = 7;

// Looks up for ever, one after another; writes a byte for each answer.
[[noreturn]] void Live(const std::string& dir) {
  auto meta = store::OpenRocksMetaStore(dir + "/meta");
  auto blobs = store::OpenRocksBlobStore(dir + "/blobs", {}, RealClock::Get());
  KILN_CHECK(meta.ok() && blobs.ok());
  FakeExpander expander{SpaceModel()};
  auto farm = core::Farm::Start({meta->get(), blobs->get(), &expander, RealClock::Get(), nullptr},
                                core::Options());
  KILN_CHECK(farm.ok());
  const int log = open((dir + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  for (int i = 0;; ++i) {
    v1::LookupWinnerRequest request;
    *request.mutable_spec() = FakeSpec(absl::StrCat(i % kShapes));
    std::promise<bool> answered;
    (*farm)->LookupWinner(request, [&](absl::StatusOr<v1::LookupWinnerResponse> response) {
      answered.set_value(response.ok() && !response->found());
    });
    KILN_CHECK(answered.get_future().get());
    KILN_CHECK(write(log, ".", 1) == 1);
  }
}

int64_t Answered(const std::string& dir) {
  std::error_code error;
  const auto size = std::filesystem::file_size(dir + "/log", error);
  return error ? 0 : static_cast<int64_t>(size);
}

void RunAndKill(const std::string& dir, int64_t after_us) {
  const int64_t before = Answered(dir);
  const pid_t child = fork();
  if (child == 0) Live(dir);
  for (int i = 0; i < 20'000 && Answered(dir) == before; ++i) usleep(500);
  usleep(static_cast<useconds_t>(after_us));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the coordinator crashed by itself";
}

int64_t Counted(const std::string& dir) {
  auto meta = store::OpenRocksMetaStore(dir + "/meta");
  KILN_CHECK(meta.ok());
  const auto state = (*meta)->Load();
  KILN_CHECK(state.ok());
  int64_t sum = 0;
  for (const v1::MissCountRow& row : state->miss_counts) {
    sum += row.count();
    const auto asked = (*meta)->FindMisses({row.id()});
    EXPECT_TRUE(asked.ok() && asked->size() == 1) << "a count without its request";
  }
  EXPECT_LE(state->miss_counts.size(), static_cast<size_t>(kShapes));
  return sum;
}

TEST(MissesKillMinusNine, LosesNoMoreThanItSays) {
  TempDir dir;
  Rng rng(7);
  int64_t answered = 0, counted = 0;
  for (int kill = 1; kill <= kKills; ++kill) {
    RunAndKill(dir / "", static_cast<int64_t>(rng.Below(60'000)));
    const int64_t now_answered = Answered(dir / "");
    const int64_t now_counted = Counted(dir / "");
    const int64_t answers = now_answered - answered;
    const int64_t counts = now_counted - counted;
    EXPECT_GT(answers, 0);
    EXPECT_LT(answers - counts, core::Options().miss_flush_count);
    EXPECT_LE(counts, answers + 1) << "one lookup may be counted and not answered any more";
    answered = now_answered;
    counted = now_counted;
  }
  std::printf("kills %d, answered %lld, counted %lld\n", kKills, static_cast<long long>(answered),
              static_cast<long long>(counted));
  EXPECT_GT(answered, 500);
}

}  // namespace
}  // namespace kiln::testing
