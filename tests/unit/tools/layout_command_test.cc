// `kilnc layout`: its forms of output, and what it says to texts and options that are wrong.
#include "compiler/tools/layout_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"
#include "compiler/layout/presets.h"
#include "compiler/layout/text.h"
#include "compiler/tools/layout_page/layout_page.h"
#include "tests/util/extreme_layouts.h"

namespace kiln::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Answer {
  int code = -1;
  std::string out, err;
};

// As on the command line, without the program's name.
Answer Kilnc(std::vector<std::string> arguments) {
  CLI::App app("kilnc");
  LayoutOptions options;
  AddLayoutCommand(&app, &options);
  std::reverse(arguments.begin(), arguments.end());
  arguments.push_back("layout");
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    return {2, "", e.what()};
  }
  std::ostringstream out, err;
  const int code = RunLayoutCommand(options, out, err);
  return {code, out.str(), err.str()};
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(LayoutCommand, SaysWhoOwnsEachElement) {
  const Answer a =
      Kilnc({"S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_THAT(a.out, HasSubstr("elements    128\n"));
  EXPECT_THAT(a.out, HasSubstr("copies      2\n"));
  EXPECT_THAT(a.out, HasSubstr("axis        warpid: 5 to 10, span 11\n"));
  EXPECT_THAT(a.out, HasSubstr("injective   yes\n"));
  EXPECT_THAT(a.out, HasSubstr("tile        (8,16), each cell thread:m\n"));
  // Element (0,8) is on lane 0 of warps 6 and 10.
  EXPECT_THAT(a.out, HasSubstr("192|320:0"));
}

TEST(LayoutCommand, SwizzleEndsTheConflict) {
  const Answer plain = Kilnc({"S[(8,64):(64,1)]", "--dtype", "float16"});
  EXPECT_THAT(plain.out, HasSubstr("column 0 read by 8 lanes: 8 wavefronts"));
  for (const std::string swizzle : {"128B", "3,3,3"}) {
    const Answer a = Kilnc({"S[(8,64):(64,1)]", "--dtype", "float16", "--swizzle", swizzle});
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_THAT(a.out, HasSubstr("<3,3,3> o S[(8,64):(64,1)]"));
    EXPECT_THAT(a.out, HasSubstr("column 0 read by 8 lanes: 1 wavefront\n"));
    EXPECT_THAT(a.out, HasSubstr(" 72/4/1 "));  // (1,0): address 72, bank 4, line 1
  }
  EXPECT_THAT(Kilnc({"<3,3,3> o S[(8,64):(64,1)]", "--swizzle", "none"}).out,
              Not(HasSubstr("<3,3,3>")));
}

TEST(LayoutCommand, DescribesOneElement) {
  const Answer a = Kilnc({"row_major", "--swizzle", "128B", "--element", "1,0"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_THAT(a.out, HasSubstr("element     (1,0), flat 64\n"));
  EXPECT_THAT(a.out, HasSubstr("point       {m=72} byte 144 bank 4 line 1\n"));
  EXPECT_THAT(a.out, HasSubstr("bank 4      shared with 15 elements: (0,8) (0,9) (1,1) "));
  EXPECT_EQ(Kilnc({"row_major", "--swizzle", "128B", "--element", "64"}).out, a.out);
}

TEST(LayoutCommand, NotInjectiveIsSaidWithItsWitness) {
  const Answer a = Kilnc({"S[(4,4):(2,1)]"});
  EXPECT_EQ(a.code, 0);
  EXPECT_THAT(a.out, HasSubstr("injective   no, not injective: two elements share a place"));
  const auto json = nlohmann::json::parse(Kilnc({"S[(4,4):(2,1)]", "--json"}).out);
  EXPECT_FALSE(json["injective"]["holds"]);
  const layout::Layout l = layout::MustParse("S[(4,4):(2,1)]");
  EXPECT_NE(json["injective"]["witness"]["element"], json["injective"]["witness"]["other"]);
  EXPECT_TRUE(l.Base(json["injective"]["witness"]["element"]) ==
              l.Base(json["injective"]["witness"]["other"]));
}

TEST(LayoutCommand, JsonHasEveryPointUpToTheLimit) {
  const std::string text = "<1,2,2> o S[(3,5):(7,1)] + R[2:40] - 3";
  const auto json = nlohmann::json::parse(Kilnc({text, "--json", "--bytes", "4"}).out);
  const layout::Layout l = layout::MustParse(text);
  ASSERT_EQ(json["elements"].size(), 15u);
  EXPECT_EQ(json["elements_left_out"], 0);
  for (int64_t x = 0; x < l.size(); ++x) {
    const std::vector<layout::Coord> points = l.Apply(x);
    ASSERT_EQ(json["elements"][x]["points"].size(), points.size());
    for (size_t q = 0; q < points.size(); ++q) {
      const auto& place = json["elements"][x]["points"][q];
      const int64_t m = points[q][layout::Axis::kM];
      EXPECT_EQ(place["m"], m);
      EXPECT_EQ(place["bank"], layout::BankOf(m, 4));
      EXPECT_EQ(place["line"], layout::LineOf(m, 4));
    }
  }
  EXPECT_EQ(layout::MustParse(json["layout"].get<std::string>()), l);
  const auto cut = nlohmann::json::parse(Kilnc({text, "--json", "--limit", "9"}).out);
  EXPECT_EQ(cut["elements"].size(), 4u);
  EXPECT_EQ(cut["elements_left_out"], 11);
}

TEST(LayoutCommand, EveryPresetIsListedAndDrawn) {
  const std::string list = Kilnc({"--list"}).out;
  const std::vector<std::string> names = layout::PresetNames();
  EXPECT_GE(names.size(), 80u);
  for (const std::string& name : names) {
    EXPECT_THAT(list, HasSubstr(absl::StrCat("\n", name, "  ")));
    const auto preset = layout::FindPreset(name);
    ASSERT_TRUE(preset.ok()) << name << ": " << preset.status();
    int64_t size = 1;
    for (const int64_t extent : preset->shape) size *= extent;
    if (!preset->shape.empty()) {
      EXPECT_EQ(size, preset->layout.size()) << name;
    }
    const Answer a = Kilnc({name});
    EXPECT_EQ(a.code, 0) << name << ": " << a.err;
    EXPECT_THAT(a.out, HasSubstr("each cell"));
  }
}

TEST(LayoutCommand, WritesFiles) {
  const std::string svg = testing::TempDir() + "layout_command_test.svg";
  const std::string html = testing::TempDir() + "layout_command_test.html";
  const Answer a = Kilnc({"mma:m16n8k16,A,16", "--svg", svg, "--html", html});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.out, "");
  EXPECT_THAT(ReadFile(svg), HasSubstr("</svg>"));
  const std::string page = ReadFile(html);
  EXPECT_THAT(page, HasSubstr("</html>"));
  for (const char* fetched : {"://", "src=", "url(", "@import", "/*data*/"}) {
    EXPECT_EQ(page.find(fetched), std::string::npos) << fetched;
  }
  EXPECT_EQ(Kilnc({"--html", "-"}).out, LayoutPage({"S[(8,64):(64,1)]", {8, 64}, 16}));
  const Answer lost = Kilnc({"row_major", "--svg", "no/such/folder/x.svg"});
  EXPECT_EQ(lost.code, 1);
  EXPECT_THAT(lost.err, HasSubstr("cannot write 'no/such/folder/x.svg'"));
}

TEST(LayoutCommand, LargeTilesAreCut) {
  const Answer a =
      Kilnc({"S[(1048576,1048576):(1048576,1)] + R[1024:0]", "--rows", "2", "--cols", "3"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_THAT(a.out, HasSubstr("not shown: 1048574 more rows and 1048573 more columns"));
  EXPECT_LT(a.out.size(), 2000u);
}

struct Mistake {
  std::vector<std::string> arguments;
  const char* says;
};

TEST(LayoutCommand, MistakesAreClearAndExitWithTwo) {
  const std::string deep = [] {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "ComposeLayout(<0,1,1>,";
    return text;
  }();
  const Mistake mistakes[] = {
      {{}, "give a layout"},
      {{""}, "give a layout"},
      {{"S["}, "column 3: expected an integer before the end"},
      {{"S[8:1"}, "column 6: expected ']' before the end"},
      {{"S[(8,2):(1)]"}, "column 3: 2 extents but 1 strides"},
      {{"S[8:1] S[8:1]"}, "column 8: expected the end of the layout, not 'S[8:1]'"},
      {{"S[8:1@lane]"}, "column 7: unknown axis 'lane'; the axes are m, bx"},
      {{"S[0:1]"}, "extent 0 of an iter"},
      {{"S[-4:1]"}, "extent -4 of an iter"},
      {{"S[99999999999999999999:1]"}, "expected an integer"},
      {{"S[(2147483648,2147483648):(1,1)]"}, "product passes 2^60"},
      {{"S[2:9223372036854775807]"}, "the coordinates on m pass 2^60"},
      {{"S[2:1] + R[1048577:0]"}, "more than 2^20 copies"},
      {{"S[2:1] + S[2:1]"}, "one S[...] only"},
      {{"R[2:1]"}, "expected S[...]"},
      {{"<3,3,2> o S[8:1]"}, "swizzle <3,3,2>"},
      {{"<3,3,99> o S[8:1]"}, "swizzle numbers in [0, 60]"},
      {{"<3,3,3> o <3,3,3> o S[8:1]"}, "the tile has a swizzle on m already"},
      {{deep}, "at most 16 nested constructors"},
      {{std::string(100000, 'S')}, "more than 64 KiB"},
      {{"\xff\xfe\x80"}, "column 1: expected an integer"},
      {{"no_such_preset"}, "no preset is called 'no_such_preset'; there are row_major"},
      {{"mma:m16n8k16,Z,16"}, "no fragment m16n8k16 Z 16 bits"},
      {{"mma:a,b,c,d"}, "has 3 parameters"},
      {{"mma_shared:16,100B"}, "swizzle mode '100B'"},
      {{"wg_local:x"}, "parameter columns=x is no number"},
      {{"wg_local:-1"}, "parameter columns=-1 is no number"},
      {{"row_major:99999999999,99999999999"}, "product passes 2^60"},
      {{"S[8:1]", "--shape", "3,3"}, "shape (3,3) does not have the 8 elements"},
      {{"S[8:1]", "--shape", "-2,-4"}, "shape (-2,-4) does not have"},
      {{"S[8:1]", "--shape", "a"}, "--shape a: 'a' is not an integer"},
      {{"S[8:1]", "--dtype", "float17"}, "unknown dtype 'float17'"},
      {{"S[8:1]", "--dtype", "float16", "--bytes", "2"}, "not both"},
      {{"S[8:1]", "--bytes", "3"}, "elements of 24 bits cannot be drawn"},
      {{"S[8:1]", "--bytes", "0"}, "--bytes"},
      {{"S[8:1]", "--swizzle", "3,3"}, "three numbers M,B,S"},
      {{"S[8:1]", "--swizzle", "-1,3,3"}, "0 to 60"},
      {{"S[8:1]", "--swizzle", "128B", "--bytes", "16"}, "no swizzle for elements of 128 bits"},
      {{"S[8:1]", "--element", "8"}, "outside [0, 8)"},
      {{"S[8:1]", "--element", "0,0,0"}, "rank 3"},
      {{"S[8:1]", "--rows", "100000"}, "--rows"},
      {{"S[8:1]", "--limit", "0"}, "--limit"},
      {{"S[8:1]", "--colour"}, "--colour"},
  };
  for (const Mistake& m : mistakes) {
    const Answer a = Kilnc(m.arguments);
    const std::string what = m.arguments.empty() ? "nothing" : m.arguments[0].substr(0, 80);
    EXPECT_EQ(a.code, 2) << what;
    EXPECT_EQ(a.out, "") << what;
    EXPECT_THAT(a.err, HasSubstr(m.says)) << what;
    EXPECT_LT(a.err.size(), 2000u) << what;
  }
}

TEST(LayoutCommand, ExtremeLayoutsEndAndAreDrawnOrRefused) {
  Rng rng(5);
  int drawn = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::string text = test::ExtremeLayoutText(&rng);
    const std::string bytes = absl::StrCat(1 << rng.Below(5));
    const Answer a = Kilnc({text, "--bytes", bytes, "--rows", "3", "--cols", "3"});
    ASSERT_TRUE(a.code == 0 || a.code == 2) << text;
    ASSERT_EQ(a.code == 0, a.err.empty()) << text;
    if (a.code != 0) continue;
    ++drawn;
    EXPECT_THAT(a.out, HasSubstr("each cell")) << text;
    EXPECT_EQ(Kilnc({text, "--bytes", bytes, "--svg", "-", "--rows", "3", "--cols", "3"}).code, 0);
    EXPECT_EQ(Kilnc({text, "--bytes", bytes, "--json", "--limit", "100"}).code, 0) << text;
    const Answer element = Kilnc({text, "--bytes", bytes, "--element", "0"});
    EXPECT_EQ(element.code, 0) << text << element.err;
  }
  EXPECT_GT(drawn, 200);
}

}  // namespace
}  // namespace kiln::tools
