#include "client/tunectl/format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace kiln::tunectl {

std::string FormatNs(double ns) {
  if (!(ns > 0)) return "-";
  if (ns < 1e3) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e6) return absl::StrFormat("%.3g us", ns / 1e3);
  if (ns < 1e9) return absl::StrFormat("%.3g ms", ns / 1e6);
  return absl::StrFormat("%.3g s", ns / 1e9);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 0) return "-";
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 90) return absl::StrFormat("%.0f s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return absl::StrCat(whole / 60, " min ", whole % 60, " s");
  if (whole < 86400) return absl::StrCat(whole / 3600, " h ", whole % 3600 / 60, " min");
  return absl::StrCat(whole / 86400, " d ", whole % 86400 / 3600, " h");
}

std::string FormatBytes(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::abs(value) >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string FormatAge(absl::Time time, absl::Time now) {
  if (time == absl::InfinitePast()) return "-";
  const double seconds = absl::ToDoubleSeconds(now - time);
  return absl::StrCat(FormatSeconds(std::max(0.0, seconds)), " ago");
}

std::string ShortSweep(const std::string& sweep) { return sweep.substr(0, 12); }

std::string FormatRate(const client::Hint& hint, double ns) {
  if (!(ns > 0)) return "";
  // Less than one operation for every two bytes: the bytes are what the user cares about.
  if (hint.flops > 0 && hint.flops * 2 >= hint.compulsory_bytes) {
    return absl::StrFormat("%.1f GFLOP/s", hint.flops / ns);
  }
  if (hint.compulsory_bytes > 0) return absl::StrFormat("%.1f GB/s", hint.compulsory_bytes / ns);
  return "";
}

std::string FormatRooflineShare(const client::Hint& hint, double ns) {
  if (!(ns > 0) || !(hint.roofline_ns > 0)) return "";
  return absl::StrFormat("%.0f %%", 100 * hint.roofline_ns / ns);
}

double MeasuredNs(const client::Candidate& candidate) {
  return candidate.measurements.empty() ? 0 : candidate.measurements.back().median_ns;
}

const client::Measurement* Counted(const client::Candidate& candidate) {
  const client::Measurement* found = nullptr;
  for (const client::Measurement& m : candidate.measurements) {
    if (!m.counters.empty() || (found == nullptr && !m.counters_missing.empty())) found = &m;
  }
  return found;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : "  ", row[i],
                      std::string(widths[i] - row[i].size(), ' '));
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string FormatWinner(const client::Winner& winner) {
  const double ns = winner.measurement.median_ns;
  std::string text = absl::StrCat("winner   ", winner.config, "\n");
  absl::StrAppend(&text, "time     ", FormatNs(ns));
  const std::string rate = FormatRate(winner.hint, ns);
  const std::string share = FormatRooflineShare(winner.hint, ns);
  if (!rate.empty()) absl::StrAppend(&text, "  ", rate);
  if (!share.empty()) absl::StrAppend(&text, "  ", share, " of the roofline");
  absl::StrAppend(&text, "\ntarget   ", winner.target,
                  winner.device_model.empty() ? "" : absl::StrCat(" (", winner.device_model, ")"),
                  "\ntried    ", winner.candidates_tried, " candidates, ", winner.candidates_failed,
                  " failed", winner.candidates_failed > 0 ? " (tunectl explain says why)" : "",
                  ", in ", FormatSeconds(winner.sweep_seconds), "\n");
  if (!winner.measurement.check_summary.empty()) {
    absl::StrAppend(&text, "checked  ", winner.measurement.check_summary, "\n");
  }
  if (winner.ratio_low > 0) {
    absl::StrAppend(&text, "lead     the runner-up takes ",
                    absl::StrFormat("%.3f to %.3f", winner.ratio_low, winner.ratio_high),
                    " times as long (95 % interval)\n");
  }
  if (!winner.ties.empty()) {
    absl::StrAppend(&text, "tied     ", absl::StrJoin(winner.ties, "\n         "), "\n");
  }
  absl::StrAppend(&text, "sweep    ", ShortSweep(winner.sweep), "\n");
  return text;
}

}  // namespace kiln::tunectl
