// The page of `kilnc layout --html` in a headless browser: its own evaluation of layouts against
// the library's, element by element, and its controls and clicks. The browser opens the real page
// with page_test.js and the cases of this file put at its end; what that script finds comes back in
// the document's text.
#include "compiler/tools/layout_page/layout_page.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/base/subprocess.h"
#include "compiler/layout/banks.h"
#include "compiler/layout/describe.h"
#include "compiler/layout/draw.h"
#include "compiler/layout/presets.h"
#include "compiler/layout/text.h"
#include "tests/property/layout/random_layout.h"
#include "tests/util/extreme_layouts.h"

namespace kiln::layout {
namespace {

using Json = nlohmann::json;

constexpr int kLayouts = 1000;
constexpr int kTexts = 2000;
constexpr int kClicked = 40;

std::string Browser() {
  const char* path = getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "/usr/bin" : path, ':')) {
    const std::string candidate = absl::StrCat(folder, "/chromium");
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Runs page_test.js on `cases` in the real page and returns what it reports; null after a failure.
Json RunInPage(const Json& cases) {
  const std::string browser = Browser();
  if (browser.empty()) {
    ADD_FAILURE() << "no chromium on the PATH: it is a package of deploy/install_deps.sh";
    return nullptr;
  }
  std::string folder = testing::TempDir() + "layout_page_test.XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    ADD_FAILURE() << "no folder " << folder;
    return nullptr;
  }
  const std::string script = ReadFile("tests/e2e/layout/page_test.js");
  EXPECT_FALSE(script.empty());
  const std::string data = absl::StrReplaceAll(
      cases.dump(-1, ' ', true, Json::error_handler_t::replace), {{"<", "\\u003c"}});
  const std::string page = tools::LayoutPage({"S[(8,64):(64,1)]", {8, 64}, 16});
  std::ofstream(folder + "/page.html") << absl::StrReplaceAll(
      page,
      {{"</body>", absl::StrCat("<script type=\"application/json\" "
                                "id=\"cases\">",
                                data, "</script>\n<script>\n", script, "</script>\n</body>")}});
  SubprocessOptions options;
  options.argv = {browser,
                  "--headless",
                  "--no-sandbox",
                  "--disable-gpu",
                  "--disable-dev-shm-usage",
                  "--disable-background-networking",
                  "--no-first-run",
                  "--user-data-dir=" + folder + "/profile",
                  "--dump-dom",
                  "file://" + folder + "/page.html"};
  options.output_head_bytes = options.output_tail_bytes = 16 << 20;
  auto child = Subprocess::Spawn(options);
  std::string output = child.ok() ? "" : std::string(child.status().message());
  if (child.ok()) {
    const auto exit = (*child)->WaitExit(Subprocess::Clock::now() + std::chrono::minutes(4));
    EXPECT_TRUE(exit.has_value()) << "the browser did not end in four minutes";
    output = (*child)->TakeOutput();
    (*child)->Kill();
  }
  std::filesystem::remove_all(folder);
  const size_t begin = output.find("RESULT");
  const size_t end = output.find("END", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    ADD_FAILURE() << "no result from the page:\n" << output.substr(0, 4000);
    return nullptr;
  }
  return Json::parse(absl::StrReplaceAll(output.substr(begin + 6, end - begin - 6),
                                         {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}));
}

// An element as page_test.js writes it too: "v,v;v,v|bank,bank|line,line".
std::string ElementText(const Layout& l, int64_t flat, int bits) {
  std::vector<std::string> points, banks, lines;
  std::vector<int64_t> values(l.axes().size());
  for (int64_t q = 0; q < l.copies(); ++q) {
    l.Evaluate(flat, q, values.data());
    points.push_back(absl::StrJoin(values, ","));
    int64_t m = 0;
    for (size_t a = 0; a < values.size(); ++a) m = l.axes()[a] == Axis::kM ? values[a] : m;
    banks.push_back(absl::StrCat(BankOfBits(m, bits)));
    lines.push_back(LineOfBits(m, bits));
  }
  return absl::StrCat(absl::StrJoin(points, ";"), "|", absl::StrJoin(banks, ","), "|",
                      absl::StrJoin(lines, ","));
}

Json RequestCase(const Layout& l, const View& view, const ViewRequest& r) {
  Json json = {{"column", r.column}, {"index", r.index}, {"vector", r.vector}};
  const auto addresses = RequestAddresses(l, view, r);
  if (addresses.ok()) {
    json["addresses"] = absl::StrJoin(*addresses, ",");
    json["waves"] = Wavefronts(*addresses, static_cast<int>(r.vector * view.element_bits / 8));
  } else {
    json["error"] = std::string(addresses.status().message());
  }
  return json;
}

// Everything that the page computes for one layout.
Json CaseOf(const std::string& text, const Layout& l, const std::vector<int64_t>& shape, int bits,
            Rng* rng) {
  const View view = *ViewOf(l, shape, bits);
  const Cells cells(l, bits);
  Json json = {{"text", text},
               {"shape", shape},
               {"view", absl::StrJoin(view.shape, ",")},
               {"bits", bits},
               {"print", l.ToString()},
               {"canonical", Canonical(l).ToString()},
               {"legend", cells.legend()},
               {"elements", Json::array()},
               {"labels", Json::array()},
               {"requests", Json::array()}};
  for (int64_t x = 0; x < l.size(); ++x) {
    json["elements"].push_back(ElementText(l, x, bits));
    json["labels"].push_back(cells.Label(x) + " " + ColourOf(cells.Key(x)));
  }
  for (int k = 0; k < 4; ++k) {
    const bool column = rng->Below(2) == 0;
    const int64_t index = static_cast<int64_t>(rng->Below(column ? view.columns() : view.rows()));
    json["requests"].push_back(RequestCase(l, view, {column, index, int64_t{1} << rng->Below(4)}));
  }
  const int64_t described = static_cast<int64_t>(rng->Below(l.size()));
  json["described"] = described;
  json["description"] = DescribeElement(l, view, described);
  return json;
}

struct Counts {
  int replicas = 0, offsets = 0, negative = 0, zero = 0, inner = 0, outer = 0, shared_axes = 0;
  int64_t elements = 0;

  void Add(const Layout& l) {
    replicas += l.copies() > 1;
    offsets += !l.offset().empty();
    bool below = false, none = false, twice = false;
    std::vector<Axis> seen;
    for (const Iter& iter : l.shard()) {
      below |= iter.stride < 0;
      none |= iter.stride == 0;
      twice |= std::find(seen.begin(), seen.end(), iter.axis) != seen.end();
      seen.push_back(iter.axis);
    }
    negative += below;
    zero += none;
    shared_axes += twice;
    for (const SwizzleLayout& s : l.swizzles()) (s.inner ? inner : outer)++;
    elements += l.size();
  }
};

RandomOptions OptionsOf(int i) {
  RandomOptions options;
  static const std::vector<std::vector<Axis>> kAxes = {
      {Axis::kM},
      {Axis::kM, Axis::kLaneid, Axis::kWarpid},
      {Axis::kTLane, Axis::kTCol},
      {Axis::kM, Axis::kBx},
      {Axis::kM, Axis::kTidInWg, Axis::kWgid, Axis::kCby},
      {Axis::kP, Axis::kF, Axis::kBank}};
  options.axes = kAxes[i % kAxes.size()];
  return options;
}

constexpr int kWidths[] = {4, 8, 16, 32, 64, 128};

TEST(LayoutPage, AgreesOnRandomLayouts) {
  Rng rng(2026);
  Counts counts;
  Json cases = Json::array();
  for (int i = 0; i < kLayouts; ++i) {
    const RandomOptions options = OptionsOf(i);
    const Layout l = i % 3 == 0 ? RandomTidyLayout(&rng, options) : RandomLayout(&rng, options);
    counts.Add(l);
    const std::vector<int64_t> shape =
        i % 2 == 0 ? RandomShape(&rng, l.size()) : std::vector<int64_t>{};
    cases.push_back(CaseOf(l.ToString(), l, shape, kWidths[rng.Below(std::size(kWidths))], &rng));
  }
  // Coordinates past what a double holds, and the spelled constructors.
  for (const char* text :
       {"S[(4,3):(288230376151711744,5)]", "<20,20,20> o S[(8,4):(144115188075855871,-1)]",
        "<0,5,50,outer> o S[(3,16):(31,1)] - 7", "S[4:1@warpid] + 1152921504606846900@warpid",
        "ComposeLayout(SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3), "
        "TileLayout(S[(8,64):(64@m,1@m)]))",
        "SwizzleLayout(0, 2, 3, swizzle_inner=False)", "S[(2,3,4)] + R[(4,300):(0,1)]",
        "<1,1,1>@TCol \u2218 <2,1,1> o S[(4,4):(4@TCol,1)]"}) {
    const Layout l = MustParse(text);
    cases.push_back(CaseOf(text, l, {}, 16, &rng));
    counts.Add(l);
  }
  EXPECT_GE(counts.replicas, 200);
  EXPECT_GE(counts.offsets, 200);
  EXPECT_GE(counts.negative, 100);
  EXPECT_GE(counts.zero, 50);
  EXPECT_GE(counts.inner, 100);
  EXPECT_GE(counts.outer, 40);
  EXPECT_GE(counts.shared_axes, 300);

  const Json result = RunInPage({{"evaluate", cases}});
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["failures"], Json::array()) << result.dump(1);
  EXPECT_EQ(result["evaluated"], kLayouts + 8);
  EXPECT_EQ(result["elements"], counts.elements);
  EXPECT_GT(result["requests"], 500);
  RecordProperty("elements", static_cast<int>(counts.elements));
}

std::string Damaged(std::string text, Rng* rng) {
  constexpr char kRing[] = "\1";  // one byte until the end, so that it stays whole
  static const std::vector<std::string> kPieces = absl::StrSplit(
      "S[|R[|(|)|]|:|,|@|+|-|<|>| |o "
      "|0|7|m|@lane|@TCol|99999999999|99999999999999999999|outer|True|"
      "TileLayout(|SwizzleLayout(|ComposeLayout(|per_element=|\t|\n|_|x|\1",
      '|');
  for (uint64_t k = 0; k < 1 + rng->Below(3); ++k) {
    const size_t at = rng->Below(text.size() + 1);
    const size_t gone = std::min<size_t>(rng->Below(3), text.size() - at);
    text.replace(at, gone, rng->Below(3) == 0 ? "" : kPieces[rng->Below(kPieces.size())]);
  }
  return absl::StrReplaceAll(text, {{kRing, "\u2218"}});
}

TEST(LayoutPage, ReadsAndRefusesTheSameTexts) {
  Rng rng(7);
  Json cases = Json::array();
  int refused = 0;
  for (int i = 0; i < kTexts; ++i) {
    const std::string text = i % 2 == 0 ? Damaged(RandomLayout(&rng, OptionsOf(i)).ToString(), &rng)
                                        : test::ExtremeLayoutText(&rng);
    const auto layout = Parse(text);
    refused += !layout.ok();
    // An axis that a preset made up on its way is known here only.
    const std::string message =
        absl::StrReplaceAll(layout.status().message(), {{", FreeInBank", ""}});
    cases.push_back({{"text", text},
                     {"ok", layout.ok()},
                     {"says", layout.ok() ? layout->ToString() : message}});
  }
  EXPECT_GT(refused, kTexts / 2);
  EXPECT_LT(refused, kTexts);
  const Json result = RunInPage({{"texts", cases}});
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["failures"], Json::array()) << result.dump(1);
  EXPECT_EQ(result["texts"], kTexts);
}

// What the document shows after its controls were used and an element was clicked.
Json ClickCase(const std::string& text, const std::string& dtype, int bits,
               const std::string& swizzle, const SwizzleLayout& stage, Rng* rng) {
  Layout l = MustParse(text);
  if (swizzle != "written") {
    std::vector<SwizzleLayout> swizzles = {stage};
    for (const SwizzleLayout& s : l.swizzles()) {
      if (s.axis != Axis::kM) swizzles.push_back(s);
    }
    l = *Layout::FromIters(l.shard(), l.replica(), l.offset(), swizzles);
  }
  const View view = *ViewOf(l, {}, bits);
  const int64_t row = static_cast<int64_t>(rng->Below(std::min<int64_t>(64, view.rows())));
  const int64_t column = static_cast<int64_t>(rng->Below(std::min<int64_t>(64, view.columns())));
  const int64_t flat = row * view.columns() + column;
  Json json = {{"text", text},
               {"dtype", dtype},
               {"swizzle", swizzle},
               {"layout", l.ToString()},
               {"flat", flat},
               {"label", Cells(l, bits).Label(flat)},
               {"description", DescribeElement(l, view, flat)}};
  const auto addresses = RequestAddresses(l, view, {true, column, 1});
  if (Cells(l, bits).kind() == Cells::Kind::kAddress && addresses.ok()) {
    const int waves = Wavefronts(*addresses, bits / 8);
    json["request"] = absl::StrCat("column ", column, " read by ", addresses->size(), " lane",
                                   addresses->size() == 1 ? "" : "s", ": ", waves, " wavefront",
                                   waves == 1 ? "" : "s");
    json["waves"] = waves;
  }
  return json;
}

TEST(LayoutPage, ClicksShowTheElement) {
  Rng rng(99);
  Json clicks = Json::array();
  const std::pair<const char*, int> dtypes[] = {
      {"float16", 16}, {"float32", 32}, {"int8", 8}, {"float64", 64}};
  const std::pair<const char*, SwizzleMode> modes[] = {{"none", SwizzleMode::kNone},
                                                       {"32B", SwizzleMode::k32B},
                                                       {"64B", SwizzleMode::k64B},
                                                       {"128B", SwizzleMode::k128B}};
  for (int i = 0; i < kClicked; ++i) {
    const auto& [dtype, bits] = dtypes[rng.Below(std::size(dtypes))];
    const auto& [mode, swizzle] = modes[rng.Below(std::size(modes))];
    const std::string text =
        i % 4 == 0 ? "S[(8,64):(64,1)]" : RandomLayout(&rng, OptionsOf(i)).ToString();
    clicks.push_back(ClickCase(text, dtype, bits, i % 3 == 2 ? "written" : mode,
                               *SwizzleFor(bits, swizzle), &rng));
  }
  Json presets = Json::array();
  for (const std::string& name : PresetNames()) {
    const Preset preset = *FindPreset(name);
    const View view = *ViewOf(preset.layout, preset.shape, preset.element_bits);
    const Cells cells(preset.layout, preset.element_bits);
    Json labels = Json::array();
    for (int64_t i = 0; i < std::min<int64_t>(16, view.rows()); ++i) {
      for (int64_t j = 0; j < std::min<int64_t>(16, view.columns()); ++j) {
        const int64_t flat = i * view.columns() + j;
        labels.push_back({flat, cells.Label(flat)});
      }
    }
    presets.push_back({{"name", name}, {"layout", preset.layout.ToString()}, {"labels", labels}});
  }
  const char* broken = "S[(8,64):(64;1)]";
  const Json result = RunInPage(
      {{"clicks", clicks},
       {"presets", presets},
       {"broken",
        {{"text", broken}, {"message", Parse(broken).status().message()}, {"column", 13}}}});
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["failures"], Json::array()) << result.dump(1);
  EXPECT_EQ(result["clicks"], kClicked);
  EXPECT_EQ(result["presets"], static_cast<int>(PresetNames().size()));
  EXPECT_EQ(result["broken"], 1);
}

}  // namespace
}  // namespace kiln::layout
