#include "client/tunectl/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/tunectl/command.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"
#include "client/tunectl/roofline_svg.h"

namespace kiln::tunectl {
namespace {

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = (static_cast<double>(begin) + static_cast<double>(end - 1)) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
    begin = end;
  }
  return ranks;
}

// Rounds are apart in time, and what the machine did meanwhile: times compare within one.
int RoundRank(const client::Candidate& c) {
  if (c.measurements.empty()) return 3;
  const std::string& round = c.measurements.back().round;
  return round == "finals" ? 0 : round == "race" ? 1 : 2;
}

// Indices of candidates: measured ones by their last round and then by time, the others by
// prediction, failed ones last.
std::vector<size_t> Order(const client::SweepDetails& details) {
  std::vector<size_t> order(details.candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    const client::Candidate& c = details.candidates[i];
    const double ns = MeasuredNs(c);
    if (c.failed) return std::make_pair(4, c.hint.predicted_ns);
    return ns > 0 ? std::make_pair(RoundRank(c), ns) : std::make_pair(3, c.hint.predicted_ns);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return key(i) < key(j); });
  return order;
}

std::string Deviation(double predicted, double measured) {
  if (!(predicted > 0) || !(measured > 0)) return "";
  return absl::StrFormat("%+.0f %%", 100 * (measured / predicted - 1));
}

// What the hardware counted, beside what was predicted of it.
std::string CountersText(const client::Candidate& c) {
  const client::Measurement* m = Counted(c);
  if (m == nullptr) return "";
  if (m->counters.empty()) return absl::StrCat("     no counters: ", m->counters_missing, "\n");
  const auto value = [&](const char* name) {
    const auto it = m->counters.find(name);
    return it == m->counters.end() ? 0.0 : it->second;
  };
  const auto bytes = [&](const char* name) {
    return FormatBytes(static_cast<int64_t>(value(name)));
  };
  std::string text = absl::StrCat("     counted: memory ", bytes("dram_read_bytes"), " read, ",
                                  bytes("dram_write_bytes"), " written");
  if (c.hint.dram_bytes > 0) {
    absl::StrAppend(&text, " (predicted ", FormatBytes(static_cast<int64_t>(c.hint.dram_bytes)),
                    ")");
  }
  absl::StrAppend(&text, ", L2 ", bytes("l2_bytes"), ", shared ", bytes("shared_bytes"));
  absl::StrAppendFormat(&text, "; tensor pipe %.0f %%, issue %.0f %%, occupancy %.0f %%",
                        value("tensor_percent"), value("issue_percent"),
                        value("occupancy_percent"));
  std::vector<std::pair<double, std::string>> waits;
  for (const auto& [name, warps] : m->counters) {
    if (absl::StartsWith(name, "stall_")) waits.emplace_back(-warps, name.substr(6));
  }
  std::sort(waits.begin(), waits.end());
  for (size_t i = 0; i < waits.size() && i < 3; ++i) {
    absl::StrAppendFormat(&text, "%s %s %.1f", i == 0 ? "; warps wait for" : ",", waits[i].second,
                          -waits[i].first);
  }
  return text + "\n";
}

// How the winner's time was taken.
std::string TimedText(const client::Winner& winner) {
  std::string text;
  for (const absl::string_view line :
       absl::StrSplit(FormatConditions(winner.measurement), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, "     ", line, "\n");
  }
  return text;
}

std::string CandidateNotes(const client::Candidate& c, bool reasons) {
  std::string notes = CountersText(c);
  if (reasons && !c.hint.reason.empty()) absl::StrAppend(&notes, "     why: ", c.hint.reason, "\n");
  if (reasons && !c.hint.risks.empty()) {
    absl::StrAppend(&notes, "     risks: ", absl::StrJoin(c.hint.risks, ", "), "\n");
  }
  if (!c.same_binary_as.empty()) {
    absl::StrAppend(&notes, "     the same binary as ", c.same_binary_as, "\n");
  }
  if (c.failed) {
    absl::StrAppend(&notes, "     failed (", c.failure.stage, "): ", c.failure.message,
                    c.failure.witness.empty() ? "" : absl::StrCat("; ", c.failure.witness), "\n");
  }
  return notes;
}

std::string AgreementText(const client::SweepDetails& details) {
  const Agreement a = Agree(details);
  if (a.measured < 2) return "";
  std::string text = absl::StrFormat(
      "\npredicted against measured, %d candidates: rank correlation %.2f, median error %.0f %%, "
      "%.0f %% inside the predicted interval",
      a.measured, a.rank_correlation, 100 * a.median_error, 100 * a.within_interval);
  if (a.winner_rank > 0) absl::StrAppend(&text, ", the winner was choice ", a.winner_rank);
  return absl::StrCat(text, "\n");
}

}  // namespace

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const size_t n = std::min(a.size(), b.size());
  if (n < 2) return 0;
  const std::vector<double> ra = Ranks(a), rb = Ranks(b);
  const double mean = static_cast<double>(n - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

Agreement Agree(const client::SweepDetails& details) {
  Agreement result;
  std::vector<double> predicted, measured, errors, predictions_of_all;
  double winner_predicted = 0;
  int inside = 0;
  for (const client::Candidate& c : details.candidates) {
    if (c.hint.predicted_ns > 0) predictions_of_all.push_back(c.hint.predicted_ns);
    if (details.winner != nullptr && c.config == details.winner->config) {
      winner_predicted = c.hint.predicted_ns;
    }
    const double ns = MeasuredNs(c);
    if (!(ns > 0) || !(c.hint.predicted_ns > 0)) continue;
    predicted.push_back(c.hint.predicted_ns);
    measured.push_back(ns);
    errors.push_back(std::abs(ns - c.hint.predicted_ns) / ns);
    if (ns >= c.hint.predicted_low_ns && ns <= c.hint.predicted_high_ns) ++inside;
  }
  result.measured = static_cast<int>(measured.size());
  result.rank_correlation = RankCorrelation(predicted, measured);
  if (!errors.empty()) {
    std::nth_element(errors.begin(), errors.begin() + errors.size() / 2, errors.end());
    result.median_error = errors[errors.size() / 2];
    result.within_interval = static_cast<double>(inside) / static_cast<double>(errors.size());
  }
  if (winner_predicted > 0) {
    result.winner_rank =
        1 + static_cast<int>(std::count_if(predictions_of_all.begin(), predictions_of_all.end(),
                                           [&](double p) { return p < winner_predicted; }));
  }
  return result;
}

namespace {

// Which config runs where, what it was chosen by, and where the candidates are to be seen.
std::string ExplainRange(const client::SweepDetails& details) {
  const client::RangeTable& table = *details.range;
  std::string text = absl::StrCat(
      details.summary.name, " on ", details.arch_name,
      details.device_model.empty() ? "" : absl::StrCat(" (", details.device_model, ")"), ", ",
      client::ToString(details.summary.progress.state), "\n\n");
  if (details.winner != nullptr) absl::StrAppend(&text, FormatWinner(*details.winner), "\n");
  absl::StrAppend(&text, FormatRange(table),
                  "\nAt each size the object runs a config that no other one beats there beyond "
                  "noise (the 95 % interval of\ntheir paired ratio), with the fewest configs and "
                  "then the fewest steps. RATIO is the object's time over\nthat of the best "
                  "single config, measured beside each other.\n");
  std::vector<std::vector<std::string>> rows;
  for (const client::RangePoint& point : table.points) {
    if (point.sweep.empty()) continue;
    rows.push_back({absl::StrCat("  tunectl explain ", ShortSweep(point.sweep)),
                    absl::StrCat("size ", point.size), point.winner});
  }
  if (rows.empty()) return text;
  return absl::StrCat(text, "The candidates of each size:\n", FormatTable(rows));
}

}  // namespace

std::string ExplainText(const client::SweepDetails& details, int limit, bool reasons) {
  if (details.range != nullptr) return ExplainRange(details);
  std::string text = absl::StrCat(
      details.summary.name, " on ", details.arch_name,
      details.device_model.empty() ? "" : absl::StrCat(" (", details.device_model, ")"), ", ",
      client::ToString(details.summary.progress.state), ", ", details.candidates.size(),
      " candidates\n\n");
  int shown = 0;
  for (const size_t i : Order(details)) {
    if (limit > 0 && shown == limit) {
      absl::StrAppend(&text, "... and ", details.candidates.size() - static_cast<size_t>(shown),
                      " more (--limit 0 shows all)\n");
      break;
    }
    const client::Candidate& c = details.candidates[i];
    const double ns = MeasuredNs(c);
    const bool winner = details.winner != nullptr && details.winner->config == c.config;
    absl::StrAppendFormat(
        &text, "%s%3d  %s\n     predicted %s (%s to %s), bound by %s", winner ? "*" : " ", ++shown,
        c.config.empty() ? "(no tunables)" : c.config, FormatNs(c.hint.predicted_ns),
        FormatNs(c.hint.predicted_low_ns), FormatNs(c.hint.predicted_high_ns),
        c.hint.bound_by.empty() ? "?" : c.hint.bound_by);
    if (ns > 0) {
      const std::string& round = c.measurements.back().round;
      absl::StrAppend(&text, "; measured ", FormatNs(ns), round.empty() ? "" : " in the ", round,
                      " (", Deviation(c.hint.predicted_ns, ns), ")");
      const std::string rate = FormatRate(c.hint, ns);
      const std::string share = FormatRooflineShare(c.hint, ns);
      if (!rate.empty()) absl::StrAppend(&text, ", ", rate);
      if (!share.empty()) absl::StrAppend(&text, ", ", share);
      if (winner && details.winner->measurement.round == "fresh") {
        absl::StrAppend(&text, "; once more by itself after it had won: ",
                        FormatNs(details.winner->measurement.median_ns), ", the winner's time");
      }
    } else if (!c.failed) {
      absl::StrAppend(&text, "; ", client::ToString(c.state));
    }
    absl::StrAppend(&text, "\n", winner ? TimedText(*details.winner) : "",
                    CandidateNotes(c, reasons));
  }
  return text + AgreementText(details);
}

namespace {

struct ExplainFlags {
  std::string sweep;
  std::string svg;
  int limit = 20;
  bool brief = false;
};

absl::Status WriteSvg(const client::SweepDetails& details, const std::string& path) {
  if (details.range != nullptr) {
    return absl::FailedPreconditionError(
        "a range has no roofline of its own; draw that of one of its sizes, whose sweeps 'tunectl "
        "explain' lists");
  }
  const absl::StatusOr<std::string> svg = RooflineSvg(details);
  if (!svg.ok()) return svg.status();
  std::ofstream stream(path, std::ios::trunc);
  stream << *svg;
  stream.close();
  if (!stream.fail()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path));
}

int RunExplain(const Context& context, const ExplainFlags& flags) {
  const auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto details = (*client)->Show(flags.sweep, true, context.Options());
  if (!details.ok()) return Fail(context, details.status());
  if (!flags.svg.empty()) {
    const absl::Status written = WriteSvg(*details, flags.svg);
    if (!written.ok()) return Fail(context, written);
  }
  if (context.json) {
    nlohmann::json value = ToJson(*details);
    const Agreement a = Agree(*details);
    value["agreement"] = {{"measured", a.measured},
                          {"rank_correlation", a.rank_correlation},
                          {"median_error", a.median_error},
                          {"within_interval", a.within_interval},
                          {"winner_rank", a.winner_rank}};
    if (!flags.svg.empty()) value["svg"] = flags.svg;
    PrintJson(value);
    return kExitOk;
  }
  std::printf("%s", ExplainText(*details, flags.limit, !flags.brief).c_str());
  if (!flags.svg.empty()) std::printf("wrote %s\n", flags.svg.c_str());
  return kExitOk;
}

}  // namespace

void AddExplainCommand(Context* context) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* const explain = AddCommand(
      context, "explain", "Say why these candidates, what bound each, and how they did",
      "Lists the slate, finalists first, then by time: what was predicted (with its "
      "interval),\nwhich "
      "resource binds, why the recommender chose it, its risks, what was measured and how\nfar "
      "that "
      "is from the prediction. Below: rank correlation and error of the predictions.\n--svg draws "
      "the roofline with every candidate on it.",
      {"tunectl explain 3f9ac1d2", "tunectl explain 3f9ac1d2 --svg roofline.svg --limit 5",
       "tunectl --json explain 3f9ac1d2 | jq .agreement"});
  explain->add_option("SWEEP", flags->sweep, "digest of the sweep, or at least 6 of its digits")
      ->required();
  explain->add_option("--svg", flags->svg, "draw the roofline into FILE")->type_name("FILE");
  explain->add_option("--limit", flags->limit, "at most N candidates; 0 = all")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  explain->add_flag("--brief", flags->brief, "leave out reasons and risks");
  explain->callback([context, flags] {
    context->run = [context, flags] { return RunExplain(*context, *flags); };
  });
}

}  // namespace kiln::tunectl
