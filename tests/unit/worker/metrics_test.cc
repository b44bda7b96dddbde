// The metrics of a worker, and that its document lists them.
#include "worker/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace kiln::worker {
namespace {

using ::testing::HasSubstr;

// The names in the first cells of the table under "## Metrics": "| `slots`, `slots_busy` | ...".
std::set<std::string> Documented() {
  std::ifstream stream("worker/README.md");
  std::stringstream text;
  text << stream.rdbuf();
  const std::string document = text.str();
  const size_t begin = document.find("\n## Metrics\n");
  EXPECT_NE(begin, std::string::npos);
  const size_t end = document.find("\n## ", begin + 1);
  std::set<std::string> names;
  for (const absl::string_view line : absl::StrSplit(document.substr(begin, end - begin), '\n')) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    const std::vector<std::string> parts = absl::StrSplit(cells[1], '`');
    for (size_t i = 1; i < parts.size(); i += 2) names.insert("kiln_worker_" + parts[i]);
  }
  return names;
}

TEST(Metrics, TheDocumentListsWhatIsRegistered) {
  const Metrics metrics;
  const std::vector<std::string> registered = metrics.Names();
  EXPECT_GT(registered.size(), 15u);
  EXPECT_EQ(Documented(), std::set<std::string>(registered.begin(), registered.end()));
}

TEST(Metrics, WhatIsCountedIsServedUnderItsName) {
  Metrics metrics;
  metrics.TaskAcknowledged(/*used=*/false);
  metrics.TaskRevoked();
  metrics.Reconnected();
  metrics.Reconnected();
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("kiln_worker_results_stale_total 1\n"));
  EXPECT_THAT(text, HasSubstr("kiln_worker_tasks_revoked_total 1\n"));
  EXPECT_THAT(text, HasSubstr("kiln_worker_reconnects_total 2\n"));
}

}  // namespace
}  // namespace kiln::worker
