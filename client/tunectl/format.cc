#include "client/tunectl/format.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proto/conditions.h"

namespace kiln::tunectl {

std::string FormatNs(double ns) {
  if (!(ns > 0)) return "-";
  // What rounds to a thousand of one unit is one of the next.
  if (ns < 999.5) return absl::StrFormat("%.0f ns", ns);
  if (ns < 999.5e3) return absl::StrFormat("%.3g us", ns / 1e3);
  if (ns < 999.5e6) return absl::StrFormat("%.3g ms", ns / 1e6);
  if (ns < 999.5e9) return absl::StrFormat("%.3g s", ns / 1e9);
  return absl::StrFormat("%.0f s", ns / 1e9);
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

int Settled(const client::Progress& p) { return p.done + p.failed + p.skipped - p.not_run; }

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
  const double percent = 100 * hint.roofline_ns / ns;
  if (percent < 100.5) return absl::StrFormat("%.0f %% of the roofline", percent);
  return absl::StrFormat(
      "above the roofline (%.0f %%: the target's record has lower peaks than the device reaches "
      "now, as when it was busy while they were measured)",
      percent);
}

std::string FormatSlate(const client::SweepDetails& details) {
  const client::Progress& p = details.summary.progress;
  int slower = 0, same = 0, skipped = details.candidates.empty() ? p.skipped : 0;
  for (const client::Candidate& c : details.candidates) {
    if (c.state != client::CandidateState::kSkipped) continue;
    ++(!c.same_binary_as.empty() ? same : !c.measurements.empty() ? slower : skipped);
  }
  std::string text = absl::StrCat(p.total, " candidates: ", p.done, " done");
  for (const auto& [count, what] :
       {std::pair{slower, "slower"},
        {same, "the same program as another"},
        {skipped, details.candidates.empty() ? "skipped" : "not run"}}) {
    if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
  }
  return absl::StrCat(text, ", ", p.failed, " failed");
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

namespace {

std::string Letter(size_t index) { return std::string(1, static_cast<char>('A' + index % 26)); }

// "M=17..64"
std::string StepText(const client::RangeTable& table, const client::RangeStep& step) {
  return absl::StrCat(table.dimension, "=", step.first,
                      step.last == step.first ? "" : absl::StrCat("..", step.last));
}

std::string FormatSteps(const client::RangeTable& table) {
  std::vector<std::vector<std::string>> rows;
  for (const client::RangeStep& step : table.steps) {
    rows.push_back({rows.empty() ? "winner " : "       ", StepText(table, step),
                    table.variants[static_cast<size_t>(step.variant)]});
  }
  return FormatTable(rows);
}

// The config that the object runs at a size; empty while nobody knows.
std::string ChosenAt(const client::RangeTable& table, int64_t size) {
  for (const client::RangeStep& step : table.steps) {
    if (size >= step.first && size <= step.last) {
      return table.variants[static_cast<size_t>(step.variant)];
    }
  }
  return "";
}

std::string RatioText(const client::RangePoint& point) {
  if (!(point.ratio_low > 0)) return "";
  return absl::StrFormat("%.3f to %.3f%s", point.ratio_low, point.ratio_high,
                         point.ratio_low > 1 ? "  slower" : "");
}

// "measure 3.10 s, check 0.08 s": the largest first; nothing below 5 ms.
std::string PartsText(const std::map<std::string, double>& seconds,
                      const std::set<std::string>& wanted) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [part, value] : seconds) {
    if (value >= 0.005 && (wanted.empty() || wanted.count(part) > 0))
      parts.emplace_back(-value, part);
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, ", ", [](std::string* out, const auto& part) {
    absl::StrAppend(
        out, part.second, " ",
        part.first > -10 ? absl::StrFormat("%.2f s", -part.first) : FormatSeconds(-part.first));
  });
}

}  // namespace

std::string FormatTime(const client::TimeAccount& time) {
  std::string text = absl::StrCat("clock    ", PartsText(time.sweep, {}));
  if (time.before_seconds >= 0.005) {
    absl::StrAppendFormat(&text, "; %.2f s before it began", time.before_seconds);
  }
  text += "\n";
  for (const client::DeviceTime& device : time.devices) {
    absl::StrAppend(&text, "device   ", device.device, "\n");
    const std::pair<const char*, std::set<std::string>> groups[] = {
        {"did",
         {"fetch", "setup", "check", "warmup", "measure", "count", "health", "other",
          "unreported"}},
        {"gave", {"others"}},
        {"waited",
         {"first", "compile", "queue", "handover", "peers", "decide", "turn", "company", "lost"}}};
    for (const auto& [title, parts] : groups) {
      const std::string told = PartsText(device.seconds, parts);
      if (!told.empty()) absl::StrAppendFormat(&text, "  %-7s%s\n", title, told);
    }
    absl::StrAppendFormat(&text,
                          "  idle   %.0f %% of the time since the first compiled candidate\n",
                          100 * device.idle_share);
  }
  return text;
}

std::string FormatRange(const client::RangeTable& table) {
  std::string text;
  for (size_t i = 0; i < table.compared.size(); ++i) {
    absl::StrAppend(&text, Letter(i), "  ", table.compared[i],
                    table.compared[i] == table.single ? "  (best single config)" : "", "\n");
  }
  for (const std::string& dropped : table.dropped) {
    absl::StrAppend(&text, "-  ", dropped, "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"SIZE", "TUNED"}};
  for (size_t i = 0; i < table.compared.size(); ++i) rows[0].push_back(Letter(i));
  for (const char* title : {"DISPATCHED", "SINGLE", "RATIO (95 %)"}) rows[0].emplace_back(title);
  for (const client::RangePoint& point : table.points) {
    std::vector<std::string> row = {absl::StrCat(point.size), "between"};
    if (point.tuned) row[1] = point.failure.empty() ? ShortSweep(point.sweep) : "failed";
    if (point.refused) row[1] = "refused";
    const std::string chosen = ChosenAt(table, point.size);
    for (size_t i = 0; i < table.compared.size(); ++i) {
      const bool known = i < point.times_ns.size();
      row.push_back(
          known ? absl::StrCat(FormatNs(point.times_ns[i]), table.compared[i] == chosen ? " *" : "")
                : "-");
    }
    row.push_back(FormatNs(point.dispatched_ns));
    row.push_back(FormatNs(point.single_ns));
    row.push_back(RatioText(point));
    rows.push_back(std::move(row));
  }
  absl::StrAppend(&text, "\n", FormatTable(rows));
  for (const client::RangePoint& point : table.points) {
    if (point.failure.empty()) continue;
    absl::StrAppend(&text, point.refused ? "left out " : "no winner at ", point.size, ": ",
                    point.failure, "\n");
  }
  return text;
}

std::string FormatConditions(const client::Measurement& measurement) {
  if (measurement.conditions.empty()) return "";
  std::string text = absl::StrCat("timed    ", measurement.conditions, "\n");
  for (const std::string& what : Disturbances(measurement.conditions)) {
    absl::StrAppend(&text, "warning  its time may be off: ", what, "\n");
  }
  return text;
}

std::string FormatWinner(const client::Winner& winner) {
  if (winner.range != nullptr) {
    const auto& points = winner.range->points;
    const auto measured = std::count_if(points.begin(), points.end(),
                                        [](const client::RangePoint& p) { return !p.refused; });
    return absl::StrCat(
        FormatSteps(*winner.range), "target   ", winner.target,
        winner.device_model.empty() ? "" : absl::StrCat(" (", winner.device_model, ")"),
        "\nmeasured ", measured, " sizes, in ", FormatSeconds(winner.sweep_seconds), "\nsweep    ",
        ShortSweep(winner.sweep), "\n");
  }
  const double ns = winner.measurement.median_ns;
  std::string text = absl::StrCat("winner   ", winner.config, "\n");
  absl::StrAppend(&text, "time     ", FormatNs(ns));
  const std::string rate = FormatRate(winner.hint, ns);
  const std::string share = FormatRooflineShare(winner.hint, ns);
  if (!rate.empty()) absl::StrAppend(&text, "  ", rate);
  if (!share.empty()) absl::StrAppend(&text, "  ", share);
  if (winner.measurement.round == "fresh") {
    text += "\n         measured once more by itself after it had won; the times of rounds differ";
  }
  absl::StrAppend(&text, "\ntarget   ", winner.target,
                  winner.device_model.empty() ? "" : absl::StrCat(" (", winner.device_model, ")"),
                  "\ntried    ", winner.candidates_tried, " candidates, ", winner.candidates_failed,
                  " failed", winner.candidates_failed > 0 ? " (tunectl explain says why)" : "",
                  ", in ", FormatSeconds(winner.sweep_seconds), "\n");
  if (!winner.measurement.check_summary.empty()) {
    absl::StrAppend(&text, "checked  ", winner.measurement.check_summary, "\n");
  }
  absl::StrAppend(&text, FormatConditions(winner.measurement));
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
