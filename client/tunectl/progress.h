// Shows how a sweep goes: a bar that redraws itself on a terminal, a line now and then elsewhere,
// one JSON object a line with --json. Used by one thread.
#ifndef KILN_CLIENT_TUNECTL_PROGRESS_H_
#define KILN_CLIENT_TUNECTL_PROGRESS_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/kiln_client.h"

namespace kiln::tunectl {

enum class ProgressStyle { kNone, kBar, kLines, kJson };

// kJson when asked for, kNone when quiet, else by whether `stream` is a terminal.
ProgressStyle StyleFor(std::FILE* stream, bool json, bool quiet);

class ProgressView {
 public:
  ProgressView(std::string name, ProgressStyle style, std::FILE* stream, int columns);

  void Show(const client::SweepEvent& event, absl::Time now);
  // Ends the bar's line.
  void End();

 private:
  void ShowBar(const client::Progress& progress, absl::Time now);
  void ShowLine(const client::Progress& progress, absl::Time now);

  const std::string name_;
  const ProgressStyle style_;
  std::FILE* const stream_;
  const int columns_;
  absl::Time last_shown_ = absl::InfinitePast();
  std::string last_round_, last_message_;
  client::SweepState last_state_ = client::SweepState::kUnknown;
  bool bar_open_ = false;
};

// The bar's text for a terminal of `columns` columns, without control characters:
// "gemm [######----]  34/64  12.1/s  best 1.82 ms  race-1  14 s left".
std::string RenderBar(const std::string& name, const client::Progress& progress, int columns);

// Columns of the terminal, or 80.
int TerminalColumns(std::FILE* stream);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_PROGRESS_H_
