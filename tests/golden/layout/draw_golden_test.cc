// Layouts in words and pictures: each case's text is tests/golden/layout/draw/NAME.txt, its drawing
// NAME.svg. `layout_draw_golden_test --update` writes the files anew.
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/layout/describe.h"
#include "compiler/layout/draw.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/text.h"
#include "tests/property/layout/random_layout.h"

namespace kiln::layout {
namespace {

constexpr char kFolder[] = "tests/golden/layout/draw/";
bool update = false;

struct Case {
  const char* name;
  const char* text;
  std::vector<int64_t> shape;
  int bits;
  std::vector<int64_t> elements;  // described one by one
};

const Case kDrawn[] = {
    {"register_tile",
     "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid",
     {},
     32,
     {0, 25, 127}},
    {"mma_a", "S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]", {}, 16, {17}},
    {"swizzled", "<3,3,3> o S[(8,64):(64,1)]", {}, 16, {64, 200}},
    {"column_conflict", "S[(8,64):(64,1)]", {}, 16, {64}},
    {"scale_factors", "S[(32,4):(1@TLane,1@TCol)] + R[4:32@TLane]", {}, 8, {5}},
    {"tensor_memory", "S[(2,128,112):(112@TCol,1@TLane,1@TCol)]", {2, 128, 112}, 32, {}},
    {"odd", "S[(3,2,5):(-7,1@bx,1)] + R[(3,2):(40,0)] + 14 - 2@bx", {6, 5}, 32, {0, 29}},
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void Compare(const std::string& path, const std::string& actual) {
  if (update) {
    std::ofstream(path) << actual;
    return;
  }
  EXPECT_EQ(actual, ReadFile(path))
      << path << ": run layout_draw_golden_test --update, read the diff";
}

TEST(DrawGolden, TextAndSvgAreAsRecorded) {
  for (const Case& c : kDrawn) {
    const Layout layout = MustParse(c.text);
    const auto view = ViewOf(layout, c.shape, c.bits);
    ASSERT_TRUE(view.ok()) << view.status();
    std::string text = Describe(layout, *view) + "\n" + DrawText(layout, *view, {});
    for (const int64_t x : c.elements) {
      absl::StrAppend(&text, "\n", DescribeElement(layout, *view, x));
    }
    Compare(absl::StrCat(kFolder, c.name, ".txt"), text);
    Compare(absl::StrCat(kFolder, c.name, ".svg"), DrawSvg(layout, *view, {8, 8}, c.text));
  }
}

TEST(Draw, ObviousShapes) {
  const std::pair<const char*, std::vector<int64_t>> shapes[] = {
      {"S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)]", {8, 16}},
      {"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]", {16, 16}},
      {"S[(2,128,112):(112@TCol,1@TLane,1@TCol)]", {256, 112}},
      {"S[(1,64):(64,1)]", {1, 64}},
      {"<3,3,3>", {8, 64}},
      {"S[512:1]", {16, 32}},
      {"S[97:1]", {1, 97}},
      {"S[1:1]", {1, 1}},
      {"S[()]", {1, 1}},
  };
  for (const auto& [text, shape] : shapes) {
    const auto view = ViewOf(MustParse(text), {}, 32);
    ASSERT_TRUE(view.ok()) << text;
    EXPECT_EQ(view->shape, shape) << text;
  }
}

TEST(Draw, BanksAndLinesAreTheLibrarysAndGoBelowAByte) {
  for (const int64_t address : {-129, -1, 0, 1, 31, 32, 33, 1000}) {
    for (const int bytes : {1, 2, 4, 8, 16}) {
      EXPECT_EQ(BankOfBits(address, bytes * 8), BankOf(address, bytes));
      EXPECT_EQ(LineOfBits(address, bytes * 8), absl::StrCat(LineOf(address, bytes)));
      EXPECT_EQ(ByteOfBits(address, bytes * 8), absl::StrCat(address * bytes));
    }
    EXPECT_EQ(BankOfBits(address, 4), BankOf(FloorDiv(address, 2), 1));
    EXPECT_EQ(LineOfBits(address, 4), absl::StrCat(LineOf(FloorDiv(address, 2), 1)));
  }
  EXPECT_EQ(ByteOfBits(int64_t{1} << 60, 128), "18446744073709551616");
}

// The numbers of a label's field: "3|7" or, with "|+n", too many to be written.
std::set<int64_t> Numbers(absl::string_view field) {
  std::set<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(field, '|')) {
    int64_t value = 0;
    EXPECT_TRUE(absl::SimpleAtoi(part, &value)) << field;
    numbers.insert(value);
  }
  return numbers;
}

// Every label's fields, multiplied out, are the element's owners.
TEST(Draw, LabelsAreThePoints) {
  Rng rng(77);
  int owners = 0, addresses = 0;
  for (int i = 0; i < 2000; ++i) {
    RandomOptions options;
    options.max_size = 60;
    if (i % 2 == 1) options.axes = {Axis::kM};
    const Layout l = RandomLayout(&rng, options);
    if (l.copies() > static_cast<int64_t>(Cells::kShownCopies)) continue;
    const Cells cells(l, 32);
    const bool owner = cells.kind() == Cells::Kind::kOwner;
    (owner ? owners : addresses)++;
    for (int64_t x = 0; x < l.size(); ++x) {
      std::set<std::pair<int64_t, int64_t>> expected;
      for (const Coord& p : l.Apply(x)) {
        const int64_t thread = 32 * p[Axis::kWarpid] + p[Axis::kLaneid];
        expected.emplace(owner ? thread : p[Axis::kM],
                         owner ? p[Axis::kM] : BankOf(p[Axis::kM], 4));
      }
      const std::vector<std::string> fields = absl::StrSplit(cells.Label(x), absl::ByAnyChar(":/"));
      std::set<std::pair<int64_t, int64_t>> found;
      for (const int64_t first : Numbers(fields[0])) {
        if (!owner) {
          EXPECT_TRUE(Numbers(fields[1]).count(BankOf(first, 4)));
          EXPECT_TRUE(Numbers(fields[2]).count(LineOf(first, 4)));
          found.emplace(first, BankOf(first, 4));
          continue;
        }
        if (fields.size() == 1) found.emplace(first, 0);
        for (size_t k = 1; k < fields.size(); ++k) {
          for (const int64_t m : Numbers(fields[k])) found.emplace(first, m);
        }
      }
      ASSERT_EQ(found, expected) << l.ToString() << " element " << x << ": " << cells.Label(x);
    }
  }
  EXPECT_GT(owners, 500);
  EXPECT_GT(addresses, 500);
}

// Reads the formulas that InverseLines prints: + - * / mod, parentheses, axes and "<M,B,S>(axis)".
class Formula {
 public:
  Formula(absl::string_view text, const std::map<std::string, int64_t>& axes)
      : text_(text), axes_(axes) {}

  int64_t Value() {
    const int64_t value = Sum();
    EXPECT_EQ(at_, text_.size()) << text_;
    return value;
  }

 private:
  bool Take(absl::string_view token) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  int64_t Sum() {
    int64_t value = Product();
    for (;;) {
      if (Take("+")) {
        value += Product();
      } else if (Take("-")) {
        value -= Product();
      } else {
        return value;
      }
    }
  }
  int64_t Product() {
    int64_t value = Factor();
    for (;;) {
      if (Take("*")) {
        value *= Factor();
      } else if (Take("/")) {
        value = FloorDiv(value, Factor());
      } else if (Take("mod")) {
        value = FloorMod(value, Factor());
      } else {
        return value;
      }
    }
  }
  int64_t Factor() {
    if (Take("(")) {
      const int64_t value = Sum();
      EXPECT_TRUE(Take(")")) << text_;
      return value;
    }
    const size_t start = at_;
    if (Take("<")) {
      at_ = text_.find('(', at_);
      std::string swizzle(text_.substr(start, at_ - start));
      const auto on_axis = Parse(swizzle);
      EXPECT_TRUE(on_axis.ok()) << swizzle;
      return on_axis->swizzles()[0](Factor());
    }
    while (at_ < text_.size() && (isalnum(text_[at_]) || text_[at_] == '_')) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    int64_t value = 0;
    if (absl::SimpleAtoi(word, &value)) return value;
    EXPECT_TRUE(axes_.count(word)) << word << " in " << text_;
    return axes_.count(word) ? axes_.at(word) : 0;
  }

  absl::string_view text_;
  const std::map<std::string, int64_t>& axes_;
  size_t at_ = 0;
};

TEST(Describe, InverseFormulasGiveTheElementBack) {
  Rng rng(78);
  int checked = 0;
  while (checked < 500) {
    const Layout l = RandomTidyLayout(&rng, {.max_size = 60});
    const auto inverse = Inverse::Of(l);
    if (!inverse.ok()) continue;
    const std::vector<std::string> lines = InverseLines(l, *inverse);
    if (absl::StrJoin(lines, "").find("(x, s)") != std::string::npos) continue;  // no formula
    ++checked;
    size_t guards = 0;
    for (const std::string& line : lines) guards += line.rfind("if ", 0) == 0;
    EXPECT_EQ(guards, inverse->guards().size());
    for (int64_t x = 0; x < l.size(); ++x) {
      for (int64_t q = 0; q < l.copies(); ++q) {
        const std::vector<Coord> points = l.Apply(x);
        std::map<std::string, int64_t> axes;
        for (const Axis axis : l.axes()) axes[std::string(NameOf(axis))] = points[q][axis];
        for (const std::string& line : lines) {
          const std::vector<std::string> define = absl::StrSplit(line, " := ");
          if (define.size() == 2) axes[define[0]] = Formula(define[1], axes).Value();
          const std::vector<std::string> result = absl::StrSplit(line, absl::MaxSplits(" = ", 1));
          if (result[0] != "element" && result[0] != "copy") continue;
          ASSERT_EQ(Formula(result[1], axes).Value(), result[0] == "copy" ? q : x)
              << l.ToString() << ": " << line;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::layout

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (absl::string_view(argv[i]) == "--update") kiln::layout::update = true;
  }
  return RUN_ALL_TESTS();
}
