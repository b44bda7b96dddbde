// What tunectl shows: bars, tables, explanations, the roofline picture, file names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>

#include "client/tunectl/bundle_files.h"
#include "client/tunectl/explain.h"
#include "client/tunectl/format.h"
#include "client/tunectl/json.h"
#include "client/tunectl/progress.h"
#include "client/tunectl/roofline_svg.h"
#include "compiler/target/arch.h"

namespace kiln::tunectl {
namespace {

using client::Candidate;
using client::SweepDetails;
using testing::HasSubstr;
using testing::Not;

TEST(Format, Numbers) {
  EXPECT_EQ(FormatNs(0), "-");
  EXPECT_EQ(FormatNs(812), "812 ns");
  EXPECT_EQ(FormatNs(1234567), "1.23 ms");
  EXPECT_EQ(FormatNs(2.5e9), "2.5 s");
  EXPECT_EQ(FormatSeconds(3.21), "3.2 s");
  EXPECT_EQ(FormatSeconds(250), "4 min 10 s");
  EXPECT_EQ(FormatSeconds(7260), "2 h 1 min");
  EXPECT_EQ(FormatBytes(1000), "1000 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 40), "5.0 TiB");
}

TEST(Format, TimesChangeTheirUnitBeforeTheyWouldBeRoundedToAThousand) {
  EXPECT_EQ(FormatNs(999.4), "999 ns");
  EXPECT_EQ(FormatNs(999.6), "1 us");
  EXPECT_EQ(FormatNs(999'400), "999 us");
  EXPECT_EQ(FormatNs(999'600), "1 ms");
  EXPECT_EQ(FormatNs(1e6), "1 ms");
  EXPECT_EQ(FormatNs(999.7e6), "1 s");
  EXPECT_EQ(FormatNs(1234e9), "1234 s");
  for (double ns = 1; ns < 1e13; ns *= 1.003) {
    EXPECT_THAT(FormatNs(ns), Not(HasSubstr("e+"))) << ns;
  }
}

TEST(Format, NothingIsFasterThanTheRooflineWithoutAWord) {
  client::Hint hint;
  hint.roofline_ns = 1000;
  EXPECT_EQ(FormatRooflineShare(hint, 1250), "80 % of the roofline");
  EXPECT_EQ(FormatRooflineShare(hint, 1000), "100 % of the roofline");
  EXPECT_THAT(FormatRooflineShare(hint, 800), HasSubstr("above the roofline (125 %: the target's"));
  EXPECT_EQ(FormatRooflineShare(client::Hint(), 800), "");
}

TEST(Format, AWinnerSaysHowItWasTimedAndWhatDisturbedIt) {
  client::Winner winner;
  winner.config = "a=1";
  EXPECT_THAT(FormatWinner(winner), Not(HasSubstr("timed")));
  winner.measurement.conditions = "warm: one copy; CUPTI 13.0 records";
  EXPECT_THAT(FormatWinner(winner), HasSubstr("\ntimed    warm: one copy; CUPTI 13.0 records\n"));
  EXPECT_THAT(FormatWinner(winner), Not(HasSubstr("warning")));
  winner.measurement.conditions += "; disturbed: process 7 used gpu0 too; SM 1980 MHz";
  EXPECT_THAT(FormatWinner(winner),
              HasSubstr("\nwarning  its time may be off: process 7 used gpu0 too\n"));
  SweepDetails details;
  details.candidates.resize(2);
  details.candidates[0].config = "a=2";
  details.candidates[1].config = "a=1";
  details.winner = std::make_shared<client::Winner>(winner);
  const std::string text = ExplainText(details, 0, false);
  EXPECT_THAT(text, HasSubstr("     timed    warm: one copy; CUPTI 13.0 records"));
  EXPECT_THAT(text, HasSubstr("     warning  its time may be off: process 7 used gpu0 too\n"));
  EXPECT_EQ(text.find("timed"), text.rfind("timed")) << "the winner's alone";
}

TEST(Format, TheSlateSaysWhyCandidatesDidNotComeToTheEnd) {
  SweepDetails details;
  details.summary.progress.total = 6;
  details.summary.progress.done = 1;
  details.summary.progress.failed = 1;
  details.summary.progress.skipped = 4;
  EXPECT_EQ(FormatSlate(details), "6 candidates: 1 done, 4 skipped, 1 failed");
  for (int i = 0; i < 6; ++i) {
    Candidate& c = details.candidates.emplace_back();
    c.state = i == 0   ? client::CandidateState::kDone
              : i == 1 ? client::CandidateState::kFailed
                       : client::CandidateState::kSkipped;
    if (i == 2 || i == 3) c.measurements.emplace_back();
    if (i == 4) c.same_binary_as = "a=1";
  }
  EXPECT_EQ(FormatSlate(details),
            "6 candidates: 1 done, 2 slower, 1 the same program as another, 1 not run, 1 failed");
}

TEST(Format, ARangeSaysWhichSizesItLeftOut) {
  client::RangeTable table;
  table.dimension = "K";
  table.compared = {"a=1"};
  for (const int64_t size : {256, 362}) {
    client::RangePoint& point = table.points.emplace_back();
    point.size = size;
    point.refused = size == 362;
    if (point.refused) point.failure = "K % 128 == 0";
  }
  EXPECT_THAT(FormatRange(table), HasSubstr("362   refused"));
  EXPECT_THAT(FormatRange(table), HasSubstr("left out 362: K % 128 == 0"));
  EXPECT_THAT(FormatRange(table), Not(HasSubstr("no winner")));
  client::Winner winner;
  winner.range = std::make_shared<client::RangeTable>(table);
  EXPECT_THAT(FormatWinner(winner), HasSubstr("measured 1 sizes"));
}

TEST(Format, TablesAlign) {
  EXPECT_EQ(FormatTable({{"A", "LONG"}, {"xyz", "1"}, {"", "2"}}), "A    LONG\nxyz  1\n     2\n");
}

TEST(Format, RateIsWhatTheKernelIsAbout) {
  client::Hint gemm;
  gemm.flops = 2e9;
  gemm.compulsory_bytes = 1e7;
  EXPECT_EQ(FormatRate(gemm, 1e7), "200.0 GFLOP/s");
  client::Hint copy;
  copy.flops = 1e6;
  copy.compulsory_bytes = 1e8;
  EXPECT_EQ(FormatRate(copy, 1e7), "10.0 GB/s");
  EXPECT_EQ(FormatRate(client::Hint(), 1e7), "");
}

client::Progress SomeProgress() {
  client::Progress p;
  p.state = client::SweepState::kRunning;
  p.total = 64;
  p.compiled = 10;
  p.done = 30;
  p.failed = 2;
  p.best_ns = 1.82e6;
  p.elapsed_seconds = 4;
  p.estimated_seconds_left = 14;
  p.round = "race-1";
  return p;
}

TEST(Progress, BarFitsEveryWidth) {
  for (int columns = 20; columns < 200; ++columns) {
    const std::string bar =
        RenderBar("a rather long name of a sweep for a bar", SomeProgress(), columns);
    EXPECT_LT(static_cast<int>(bar.size()), columns) << bar;
  }
  const std::string bar = RenderBar("gemm", SomeProgress(), 120);
  for (const char* part :
       {"gemm [####", "--]", "32/64", "8/s", "2 failed", "best 1.82 ms", "race-1", "14 s left"}) {
    EXPECT_THAT(bar, HasSubstr(part));
  }
}

TEST(Progress, WhatIsLeftOfARangeGrows) {
  client::Progress p = SomeProgress();
  for (const char* round : {"tune", "compare"}) {
    p.round = round;
    EXPECT_THAT(RenderBar("gemm", p, 120), HasSubstr("  at least 14 s left")) << round;
  }
  p.round = "prove";
  EXPECT_THAT(RenderBar("gemm", p, 120), HasSubstr("  14 s left"));
}

TEST(Progress, BarFillsUpAsCandidatesSettle) {
  client::Progress p = SomeProgress();
  size_t last = 0;
  for (p.done = 0; p.done + p.failed <= p.total; ++p.done) {
    p.compiled = 0;
    const std::string bar = RenderBar("g", p, 120);
    const auto filled = static_cast<size_t>(std::count(bar.begin(), bar.end(), '#'));
    EXPECT_GE(filled, last);
    last = filled;
  }
  p.state = client::SweepState::kDone;
  EXPECT_THAT(RenderBar("g", p, 120), Not(HasSubstr("-]")));
}

std::string Capture(ProgressStyle style, const std::vector<client::SweepEvent>& events) {
  char* data = nullptr;
  size_t size = 0;
  std::FILE* const stream = open_memstream(&data, &size);
  ProgressView view("gemm", style, stream, 100);
  absl::Time now = absl::FromUnixSeconds(1000);
  for (const client::SweepEvent& event : events) {
    view.Show(event, now);
    now += absl::Milliseconds(10);
  }
  view.End();
  std::fclose(stream);
  const std::string text(data, size);
  free(data);
  return text;
}

TEST(Progress, LinesAppearOnChangesOnly) {
  std::vector<client::SweepEvent> events(50);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].progress = SomeProgress();
    if (i >= 25) events[i].progress.round = "finals";
  }
  const std::string text = Capture(ProgressStyle::kLines, events);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_THAT(text, HasSubstr("finals"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(Capture(ProgressStyle::kNone, events), "");
  EXPECT_THAT(Capture(ProgressStyle::kBar, events), HasSubstr("\r\x1b[K"));
}

SweepDetails SomeDetails() {
  SweepDetails details;
  details.summary.name = "gemm <&\"";
  details.summary.progress.state = client::SweepState::kDone;
  details.arch_name = "x86-64-v4";
  const auto arch = target::NamedArch("x86-64-v4");
  EXPECT_TRUE(arch.ok());
  details.arch_record = target::ToText(*arch);
  for (int i = 0; i < 5; ++i) {
    Candidate c;
    c.config = "block=" + std::to_string(16 << i);
    c.hint.predicted_ns = 1e6 * (i + 1);
    c.hint.predicted_low_ns = 0.8e6 * (i + 1);
    c.hint.predicted_high_ns = 1.2e6 * (i + 1);
    c.hint.bound_by = "fma";
    c.hint.reason = "reason " + std::to_string(i);
    c.hint.flops = 1e8;
    c.hint.dram_bytes = 1e6 * (i + 1);
    c.hint.compulsory_bytes = 1e6;
    c.hint.roofline_ns = 0.5e6;
    if (i < 3) {
      client::Measurement m;
      m.median_ns = 1.1e6 * (i + 1);
      c.measurements.push_back(m);
      c.state = client::CandidateState::kDone;
    }
    details.candidates.push_back(c);
  }
  details.candidates[4].failed = true;
  details.candidates[4].failure.stage = "check";
  details.candidates[4].failure.message = "wrong numbers";
  client::Winner winner;
  winner.config = "block=16";
  details.winner = std::make_shared<const client::Winner>(winner);
  return details;
}

TEST(Explain, RankCorrelationKnowsItsEnds) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {10, 20, 30, 99}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1}, {1}), 0);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 1, 1}, {1, 2, 3}), 0);
  // 1 - 6 * sum(d^2) / (n (n^2 - 1)) without ties: d = {0, 1, 1, 0} -> 0.8.
  EXPECT_NEAR(RankCorrelation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8, 1e-12);
}

TEST(Explain, AgreementIsOverMeasuredCandidates) {
  const Agreement a = Agree(SomeDetails());
  EXPECT_EQ(a.measured, 3);
  EXPECT_DOUBLE_EQ(a.rank_correlation, 1);
  EXPECT_NEAR(a.median_error, 0.1 / 1.1, 1e-9);
  EXPECT_DOUBLE_EQ(a.within_interval, 1);
  EXPECT_EQ(a.winner_rank, 1);
}

TEST(Explain, SaysWhyAndHowTheyDid) {
  const std::string text = ExplainText(SomeDetails(), 0, true);
  for (const char* part :
       {"*  1  block=16", "predicted 1 ms (800 us to 1.2 ms), bound by fma", "measured 1.1 ms",
        "+10 %", "why: reason 0", "failed (check): wrong numbers", "rank correlation 1.00"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_LT(text.find("block=16"), text.find("block=64"));
  EXPECT_THAT(ExplainText(SomeDetails(), 2, false), HasSubstr("3 more"));
  EXPECT_THAT(ExplainText(SomeDetails(), 2, false), Not(HasSubstr("why:")));
}

TEST(Explain, SaysWhatTheHardwareCounted) {
  SweepDetails details = SomeDetails();
  client::Measurement& counted = details.candidates[0].measurements[0];
  counted.counters = {{"dram_read_bytes", 3 << 20},   {"dram_write_bytes", 1 << 20},
                      {"l2_bytes", 9 << 20},          {"shared_bytes", 20 << 20},
                      {"tensor_percent", 71.2},       {"issue_percent", 12},
                      {"occupancy_percent", 18},      {"stall_gmma", 4.5},
                      {"stall_barrier", 0.5},         {"stall_wait", 1.25},
                      {"stall_long_scoreboard", 0.1}, {"shared_conflicts", 7}};
  details.candidates[1].measurements[0].counters_missing = "this user may not read them";
  const std::string text = ExplainText(details, 0, true);
  for (const char* part :
       {"memory 3.0 MiB read, 1.0 MiB written (predicted 976.6 KiB), L2 9.0 MiB, shared 20.0 MiB",
        "tensor pipe 71 %, issue 12 %, occupancy 18 %; warps wait for gmma 4.5, wait 1.2, "
        "barrier 0.5\n",
        "no counters: this user may not read them"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string WinnersPlace(const SweepDetails& details) {
  const auto svg = RooflineSvg(details);
  EXPECT_TRUE(svg.ok()) << svg.status();
  const size_t at = svg->find("class=\"winner\"");
  return svg->substr(at, svg->find("cy=", at) - at);
}

// Four times the bytes that were predicted: a quarter of the operations for each.
TEST(Roofline, PutsWhatWasCountedWhereItWasCounted) {
  SweepDetails details = SomeDetails();
  const std::string predicted = WinnersPlace(details);
  auto& counters = details.candidates[0].measurements[0].counters;
  counters = {{"dram_read_bytes", 0.75e6}, {"dram_write_bytes", 0.25e6}};
  EXPECT_EQ(WinnersPlace(details), predicted);
  counters["dram_read_bytes"] = 3.75e6;
  EXPECT_NE(WinnersPlace(details), predicted);
}

TEST(Roofline, DrawsEveryCandidateOnceInsideThePicture) {
  const auto svg = RooflineSvg(SomeDetails());
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_EQ(Count(*svg, "class=\"predicted\""), 4);
  EXPECT_EQ(Count(*svg, "class=\"measured\""), 2);
  EXPECT_EQ(Count(*svg, "class=\"winner\""), 1);
  EXPECT_EQ(Count(*svg, "<title>"), 5);
  EXPECT_THAT(*svg, HasSubstr("gemm &lt;&amp;&quot;"));
  EXPECT_THAT(*svg, HasSubstr("memory"));
  EXPECT_THAT(*svg, HasSubstr("fma float32"));
  EXPECT_THAT(*svg, Not(HasSubstr("nan")));
  EXPECT_THAT(*svg, Not(HasSubstr("inf")));
  for (size_t at = svg->find(" cx=\""); at != std::string::npos; at = svg->find(" cx=\"", at + 1)) {
    const double x = std::stod(svg->substr(at + 5));
    EXPECT_GE(x, 80);
    EXPECT_LE(x, 930);
  }
}

TEST(Roofline, WorksWithoutAnArchAndWithoutFlops) {
  SweepDetails details = SomeDetails();
  details.arch_record.clear();
  for (Candidate& c : details.candidates) c.hint.flops = 0;
  const auto svg = RooflineSvg(details);
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(*svg, HasSubstr("useful GB/s"));
  details.candidates.clear();
  EXPECT_TRUE(absl::IsFailedPrecondition(RooflineSvg(details).status()));
}

// What a file's sweeps make goes into folders of their names, unless those are the same.
TEST(BundleFiles, SweepsOfOneNameHaveFoldersOfTheirOwn) {
  std::vector<client::SweepSpec> specs(5);
  const char* const names[] = {"half", "half", "a b", "a_b", "alone"};
  for (size_t i = 0; i < specs.size(); ++i) specs[i].name = names[i];
  const std::string digest(64, 'd');
  EXPECT_EQ(SweepFolder(specs[4], digest, specs), "alone");
  std::set<std::string> folders;
  for (size_t i = 0; i < specs.size(); ++i) {
    folders.insert(SweepFolder(specs[i], std::string(64, static_cast<char>('a' + i)), specs));
  }
  EXPECT_EQ(folders.size(), specs.size());
  EXPECT_EQ(folders.count("half-aaaaaaaaaaaa"), 1u);
}

TEST(BundleFiles, ConfigFoldersAreSafeAndDistinct) {
  EXPECT_EQ(ConfigFolder(""), "default");
  EXPECT_EQ(ConfigFolder("a=1,b=x/../y"), "a=1,b=x____y");
  const std::string a = ConfigFolder(std::string(300, 'a') + "1");
  const std::string b = ConfigFolder(std::string(300, 'a') + "2");
  EXPECT_EQ(a.size(), 120u);
  EXPECT_NE(a, b);
}

TEST(Json, DetailsCarryWhatScriptsNeed) {
  const nlohmann::json value = ToJson(SomeDetails());
  EXPECT_EQ(value["progress"]["state"], "done");
  EXPECT_EQ(value["candidates"].size(), 5u);
  EXPECT_EQ(value["candidates"][4]["failure"]["stage"], "check");
  EXPECT_EQ(value["candidates"][0]["measurements"][0]["median_ns"], 1.1e6);
  EXPECT_EQ(value["winner"]["config"], "block=16");
}

}  // namespace
}  // namespace kiln::tunectl
