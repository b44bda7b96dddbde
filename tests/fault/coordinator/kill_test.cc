// kill -9 of a coordinator on a real store, at random moments, until its sweeps are done: each
// start goes on, nothing that was acknowledged is leased again, and the winner is that of a quiet
// run.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"
#include "coordinator/core/stored_view.h"
#include "tests/conformance/stores.h"
#include "tests/util/thread_worker.h"

namespace kiln::testing {
namespace {

constexpr int kKills = 20;
constexpr int kWorkers = 3;
constexpr int kEmptyTasks = 40'000;

SpaceModel Space() {
  SpaceModel space;
  space.configs = 96;
  return space;
}

v1::SweepSpec Tuning() {
  v1::SweepSpec spec = FakeSpec();
  spec.set_strategy("exhaustive");
  return spec;
}

v1::SweepSpec Empty() {
  v1::SweepSpec spec;
  spec.set_template_("empty");
  spec.set_max_candidates(kEmptyTasks);
  return spec;
}

// One line a fact, each in one write, so that a kill cannot tear it.
class Log {
 public:
  explicit Log(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600)) {}
  ~Log() { close(fd_); }
  void Line(const std::string& text) {
    const std::string line = text + "\n";
    KILN_CHECK(write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }

 private:
  const int fd_;
};

bool AllDone(store::MetaStore* meta) {
  const auto listing = meta->ListSweeps(10, "", {});
  if (!listing.ok() || listing->sweeps.size() < 2) return false;
  for (const auto& [row, status] : listing->sweeps) {
    if (!core::IsTerminal(status.state())) return false;
  }
  return true;
}

void SubmitMissing(core::Farm* farm, store::MetaStore* meta) {
  const auto listing = meta->ListSweeps(10, "", {});
  KILN_CHECK(listing.ok());
  bool empty = false;
  bool tuning = false;
  for (const auto& [row, status] : listing->sweeps) {
    (row.spec().template_() == "empty" ? empty : tuning) = true;
  }
  if (!tuning) farm->SubmitSweep(Tuning(), [](auto) {});
  if (!empty) farm->SubmitSweep(Empty(), [](auto) {});
}

// The life of one coordinator with its workers; never returns.
[[noreturn]] void Live(const std::string& dir, int life) {
  auto meta = store::OpenRocksMetaStore(dir + "/meta");
  auto blobs = store::OpenRocksBlobStore(dir + "/blobs", {}, RealClock::Get());
  KILN_CHECK(meta.ok() && blobs.ok());
  FakeExpander expander(Space());
  core::Options options;
  options.reattach_seconds = 0.1;
  auto farm =
      core::Farm::Start({meta->get(), blobs->get(), &expander, RealClock::Get(), nullptr}, options);
  KILN_CHECK(farm.ok());
  Log log(dir + "/log");
  for (int i = 0; i < kWorkers; ++i) {
    auto worker = std::make_shared<ThreadWorker>(Space(), blobs->get());
    worker->pause = std::chrono::microseconds(20);
    worker->on_lease = [&log](const v1::Task& task) { log.Line("lease " + task.id()); };
    worker->on_used = [&log](const std::string& task) { log.Line("used " + task); };
    std::thread([worker, &farm, i, life] {
      ThreadWorker::Serve(worker, farm->get(),
                          ThreadWorker::Info(absl::StrCat("w", i), absl::StrCat(life)));
    }).detach();
  }
  SubmitMissing(farm->get(), meta->get());
  while (!AllDone(meta->get())) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  log.Line("end");
  _exit(0);
}

int64_t LogSize(const std::string& dir) {
  std::error_code error;
  const auto size = std::filesystem::file_size(dir + "/log", error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Kills it so many microseconds after its first lease; negative: never. True when the child ended
// by itself.
bool RunAndKill(const std::string& dir, int life, int64_t after_us) {
  const int64_t before = LogSize(dir);
  const pid_t child = fork();
  if (child == 0) Live(dir, life);
  if (after_us >= 0) {
    for (int i = 0; i < 20'000 && LogSize(dir) == before; ++i) usleep(500);
    usleep(static_cast<useconds_t>(after_us));
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0)
      << "the coordinator crashed by itself";
  return WIFEXITED(status);
}

std::string WinnerIn(const std::string& dir) {
  auto meta = store::OpenRocksMetaStore(dir + "/meta");
  KILN_CHECK(meta.ok());
  const auto listing = (*meta)->ListSweeps(10, "", {});
  for (const auto& [row, status] : listing->sweeps) {
    EXPECT_EQ(status.state(), v1::DONE) << status.message();
    if (row.problem_key().empty()) {
      EXPECT_EQ(status.empty_done(), kEmptyTasks);
      continue;
    }
    const auto winner = (*meta)->FindWinner(status.winner_key());
    EXPECT_TRUE(winner.ok() && winner->has_value());
    return (*winner)->config();
  }
  return "";
}

TEST(KillMinusNine, TwentyTimesLosesNothingAndRepeatsNothingAcknowledged) {
  TempDir quiet;
  ASSERT_TRUE(RunAndKill(quiet / "", 1, -1));
  TempDir dir;
  Rng rng(20);
  int kills = 0;
  for (int life = 1; kills < kKills; ++life) {
    ASSERT_LE(life, 60) << "the sweeps end before they can be killed often enough";
    const bool ended = RunAndKill(dir / "", life, static_cast<int64_t>(rng.Below(40'000)));
    if (ended) break;
    ++kills;
  }
  RunAndKill(dir / "", 1000, -1);
  EXPECT_EQ(kills, kKills);
  EXPECT_EQ(WinnerIn(dir / ""), WinnerIn(quiet / ""));

  std::set<std::string> used;
  int leases = 0;
  std::ifstream log(dir / "log");
  for (std::string what, task; log >> what && what != "end";) {
    log >> task;
    if (what == "used") {
      used.insert(task);
    } else {
      ++leases;
      EXPECT_EQ(used.count(task), 0u) << task << " is leased after its acknowledgement";
    }
  }
  EXPECT_GT(leases, static_cast<int>(used.size())) << "no kill hit anything that was leased";
  RecordProperty("kills", kills);
  std::printf("kills %d, leases %d, acknowledged %zu\n", kills, leases, used.size());
}

}  // namespace
}  // namespace kiln::testing
