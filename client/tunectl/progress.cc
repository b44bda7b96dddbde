#include "client/tunectl/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"

namespace kiln::tunectl {
namespace {

constexpr absl::Duration kBarPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLinePeriod = absl::Seconds(5);

// A candidate counts half when it is compiled, so that the bar moves during the compile phase.
double Fraction(const client::Progress& p) {
  if (p.state == client::SweepState::kDone) return 1;
  if (p.total <= 0) return 0;
  const double halves = 2.0 * Settled(p) + p.compiled + p.profiling;
  return std::min(1.0, halves / (2.0 * p.total));
}

// A range's parts: what these find decides what else there is to do.
bool MoreMayFollow(const std::string& round) { return round == "tune" || round == "compare"; }

std::string Tail(const client::Progress& p) {
  std::string text = absl::StrCat(Settled(p), "/", p.total);
  if (p.elapsed_seconds > 0 && Settled(p) > 0) {
    absl::StrAppendFormat(&text, "  %.3g/s", Settled(p) / p.elapsed_seconds);
  }
  if (p.failed > 0) absl::StrAppend(&text, "  ", p.failed, " failed");
  if (p.best_ns > 0) absl::StrAppend(&text, "  best ", FormatNs(p.best_ns));
  absl::StrAppend(&text, "  ",
                  client::IsTerminal(p.state) || p.round.empty()
                      ? std::string(client::ToString(p.state))
                      : p.round);
  if (!client::IsTerminal(p.state) && p.estimated_seconds_left >= 0) {
    absl::StrAppend(&text, MoreMayFollow(p.round) ? "  at least " : "  ",
                    FormatSeconds(p.estimated_seconds_left), " left");
  }
  if (!client::IsTerminal(p.state) && !p.message.empty()) absl::StrAppend(&text, "  ", p.message);
  return text;
}

}  // namespace

ProgressStyle StyleFor(std::FILE* stream, bool json, bool quiet) {
  if (quiet) return ProgressStyle::kNone;
  if (json) return ProgressStyle::kJson;
  return isatty(fileno(stream)) != 0 ? ProgressStyle::kBar : ProgressStyle::kLines;
}

int TerminalColumns(std::FILE* stream) {
  winsize size = {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

std::string RenderBar(const std::string& name, const client::Progress& progress, int columns) {
  const std::string tail = Tail(progress);
  const int room = columns - 1;  // the last column would wrap on some terminals
  std::string label = name.substr(0, 30);
  int width = room - static_cast<int>(label.size() + tail.size()) - 5;
  if (width < 10) {
    label =
        name.substr(0, static_cast<size_t>(std::max(0, room - static_cast<int>(tail.size()) - 1)));
    return absl::StrCat(label, " ", tail).substr(0, static_cast<size_t>(room));
  }
  width = std::min(width, 40);
  const int filled = static_cast<int>(Fraction(progress) * width);
  return absl::StrCat(label, " [", std::string(filled, '#'), std::string(width - filled, '-'), "] ",
                      tail);
}

ProgressView::ProgressView(std::string name, ProgressStyle style, std::FILE* stream, int columns)
    : name_(std::move(name)), style_(style), stream_(stream), columns_(columns) {}

void ProgressView::Show(const client::SweepEvent& event, absl::Time now) {
  switch (style_) {
    case ProgressStyle::kNone:
      return;
    case ProgressStyle::kBar:
      return ShowBar(event.progress, now);
    case ProgressStyle::kLines:
      return ShowLine(event.progress, now);
    case ProgressStyle::kJson: {
      nlohmann::json value = {{"name", name_}, {"progress", ToJson(event.progress)}};
      if (event.changed != nullptr) value["changed"] = ToJson(*event.changed);
      if (event.winner != nullptr) value["winner"] = ToJson(*event.winner);
      PrintJson(value, -1);
    }
  }
}

void ProgressView::ShowBar(const client::Progress& progress, absl::Time now) {
  if (!client::IsTerminal(progress.state) && now - last_shown_ < kBarPeriod) return;
  last_shown_ = now;
  bar_open_ = true;
  std::fprintf(stream_, "\r\x1b[K%s", RenderBar(name_, progress, columns_).c_str());
  std::fflush(stream_);
}

void ProgressView::ShowLine(const client::Progress& progress, absl::Time now) {
  const bool changed = progress.state != last_state_ || progress.round != last_round_ ||
                       progress.message != last_message_;
  if (!changed && now - last_shown_ < kLinePeriod) return;
  last_shown_ = now;
  last_state_ = progress.state;
  last_round_ = progress.round;
  last_message_ = progress.message;
  std::fprintf(stream_, "%s: %s\n", name_.c_str(), Tail(progress).c_str());
  std::fflush(stream_);
}

void ProgressView::End() {
  if (!bar_open_) return;
  std::fputc('\n', stream_);
  std::fflush(stream_);
  bar_open_ = false;
}

}  // namespace kiln::tunectl
