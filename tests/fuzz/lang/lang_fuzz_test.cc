// Mutations of real kernels, and garbage, for a bounded time. The seeds are the shipped templates,
// the golden kernels and tests/fuzz/lang/seeds (inputs that once found something). A failure prints
// the input's number: run with --seed=N --rounds=1 to see it alone.
#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/fuzz/lang/fuzz_target.h"

namespace kiln::lang {
namespace {

uint64_t first_seed = 1;
int64_t rounds = 4000;
double seconds = 25;

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  for (const char* folder :
       {"compiler/templates/", "tests/golden/lang/", "tests/fuzz/lang/seeds/"}) {
    std::vector<std::string> names;
    DIR* handle = opendir(folder);
    if (handle == nullptr) continue;
    while (const dirent* entry = readdir(handle)) {
      if (absl::EndsWith(entry->d_name, ".py")) names.emplace_back(entry->d_name);
    }
    closedir(handle);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      std::ifstream in(folder + name);
      std::stringstream text;
      text << in.rdbuf();
      corpus.push_back(text.str());
    }
  }
  return corpus;
}

// Words that the grammar and the elaborator treat specially.
constexpr const char* kWords[] = {"if ",
                                  "else:",
                                  "elif x:",
                                  "for i in range(9):",
                                  "while n:",
                                  "with T.Kernel(2) as q:",
                                  "def f():",
                                  "return x",
                                  "lambda: ",
                                  "not ",
                                  " and ",
                                  " or ",
                                  " in ",
                                  " is ",
                                  "None",
                                  "True",
                                  "0",
                                  "-1",
                                  "1e400",
                                  "9223372036854775807",
                                  "0xFFFFFFFFFFFFFFFF",
                                  "2**62",
                                  "10**9",
                                  "(",
                                  ")",
                                  "[",
                                  "]",
                                  "{",
                                  "}",
                                  ":",
                                  ",",
                                  "=",
                                  "+=",
                                  "//",
                                  "%",
                                  "**",
                                  "<<",
                                  "*",
                                  "@",
                                  ";",
                                  "\\\n",
                                  "'''",
                                  "\"",
                                  "f'{x}'",
                                  "f'{x:",
                                  "#",
                                  "\t",
                                  "\n",
                                  "\n    ",
                                  "T.serial",
                                  "T.Parallel(4, 4)",
                                  "T.alloc_var('int32')",
                                  "T.copy(A, B)",
                                  "T.gemm",
                                  "T.unroll(3)",
                                  "range(10**12)",
                                  "[0] * 10**12",
                                  "x[0]",
                                  "x[i:j]",
                                  "x[::2]",
                                  "T.float16",
                                  "'float32'",
                                  "T.dynamic('d')",
                                  "T.const('M')",
                                  "T.empty((4,), 'int32')",
                                  "T.Tensor((4,), 'int8')",
                                  "@T.macro",
                                  "@T.prim_func",
                                  "@tilelang.jit",
                                  "T.Ref",
                                  "assert x",
                                  "break",
                                  "continue",
                                  "pass",
                                  "sum",
                                  "zip",
                                  "dict",
                                  "lambda *a, **k: a",
                                  "T.use_swizzle(4)",
                                  "T.if_then_else(x, 1, 2)",
                                  "1 / 0",
                                  "T.reinterpret(1, 'float32')",
                                  "T.infinity()",
                                  "global z",
                                  "yield",
                                  "await y",
                                  "...",
                                  "b'x'",
                                  "\0",
                                  "\xff",
                                  "T.ceildiv(1, 0)",
                                  "T.min_value('uint64')",
                                  "T.pow(x, 99)",
                                  "T.annotate_layout({})"};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string Next() {
    if (Below(40) == 0) return Garbage();
    if (Below(60) == 0) return Nested();
    std::string text = corpus_[Below(corpus_.size())];
    const size_t edits = 1 + Below(6);
    const bool gentle = Below(4) != 0;  // mostly inputs that still parse
    for (size_t i = 0; i < edits; ++i) {
      if (gentle)
        GentleEdit(&text);
      else
        Edit(&text);
    }
    return text;
  }

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  std::string Garbage() {
    std::string text;
    const size_t size = Below(2000);
    for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(random_() & 0xFF));
    return text;
  }

  std::string Nested() {
    static constexpr const char* kOpen[] = {
        "(", "[",   "-",  "not ",   "lambda: ", "x if y else ", "{1:", "f(", "x[",
        "~", "2**", "1+", "await ", "*",        "f'{"};
    const std::string unit = kOpen[Below(std::size(kOpen))];
    std::string text = "x = ";
    const size_t count = 1 + Below(20000);
    for (size_t i = 0; i < count; ++i) text += unit;
    return text + "1\n";
  }

  std::string Line() {
    const std::vector<absl::string_view> lines =
        absl::StrSplit(corpus_[Below(corpus_.size())], '\n');
    return std::string(lines[Below(lines.size())]);
  }

  // A token-like run of characters at or after a random place.
  std::pair<size_t, size_t> Word(const std::string& text) {
    size_t begin = Below(text.size());
    auto is_word = [&](size_t i) {
      return absl::ascii_isalnum(text[i]) || text[i] == '_' || text[i] == '.';
    };
    while (begin < text.size() && !is_word(begin)) ++begin;
    while (begin > 0 && begin < text.size() && is_word(begin - 1)) --begin;
    size_t end = begin;
    while (end < text.size() && is_word(end)) ++end;
    return {begin, end - begin};
  }

  // The place of a random occurrence of one of `choices` at or after a random place, or npos.
  size_t Find(const std::string& text, absl::string_view choices) {
    return text.find_first_of(std::string(choices), Below(text.size()));
  }

  // Keeps the grammar: a number for a number, an operator for an operator, a name for a name, a
  // line for a line of the same indentation.
  void GentleEdit(std::string* text) {
    static constexpr const char* kNumbers[] = {
        "0",          "1",    "2",          "3",   "7",
        "64",         "-1",   "1000000007", "1.5", "9223372036854775807",
        "2147483648", "True", "None",       "n"};
    static constexpr const char* kOperators[] = {
        "+", "-",  "*", "//", "%",     "/",    "<<",   ">>",   "&", "|",
        "^", "**", "<", "==", " and ", " or ", " in ", " is ", ", "};
    if (text->empty()) return;
    switch (Below(6)) {
      case 0: {
        const size_t at = Find(*text, "0123456789");
        if (at == std::string::npos) return;
        size_t end = at;
        while (end < text->size() && absl::ascii_isdigit((*text)[end])) ++end;
        text->replace(at, end - at, kNumbers[Below(std::size(kNumbers))]);
        return;
      }
      case 1: {
        const size_t at = Find(*text, "+-*%<>&|");
        if (at == std::string::npos) return;
        text->replace(at, 1, kOperators[Below(std::size(kOperators))]);
        return;
      }
      case 2: {  // two names of one kernel change places
        const auto [a, a_size] = Word(*text);
        const std::string first = text->substr(a, a_size);
        const auto [b, b_size] = Word(*text);
        const std::string second = text->substr(b, b_size);
        if (first.empty() || second.empty()) return;
        text->replace(b, b_size, first);
        return;
      }
      case 3: {  // a function of the language for another
        static const auto& names = *new std::vector<std::string>{
            "copy",           "gemm",        "fill",         "clear",        "Parallel",
            "serial",         "unroll",      "Pipelined",    "vectorized",   "alloc_shared",
            "alloc_fragment", "alloc_local", "alloc_var",    "alloc_global", "reduce_sum",
            "reduce_max",     "atomic_add",  "if_then_else", "max",          "min",
            "cast",           "exp2",        "ceildiv",      "empty",        "const",
            "dynamic",        "Tensor",      "Kernel",       "use_swizzle",  "Layout",
            "grid",           "reinterpret", "pow",          "infinity",     "annotate_layout",
            "match_buffer",   "float16",     "int64",        "uint8",        "bool"};
        const size_t at = text->find("T.", Below(text->size()));
        if (at == std::string::npos) return;
        size_t end = at + 2;
        while (end < text->size() && (absl::ascii_isalnum((*text)[end]) || (*text)[end] == '_'))
          ++end;
        text->replace(at + 2, end - at - 2, names[Below(names.size())]);
        return;
      }
      default: {  // a line again, after another of its indentation
        std::vector<std::string> lines = absl::StrSplit(*text, '\n');
        const std::string line = lines[Below(lines.size())];
        const size_t indent = line.find_first_not_of(' ');
        if (indent == std::string::npos) return;
        std::vector<size_t> places;
        for (size_t i = 0; i < lines.size(); ++i) {
          if (lines[i].find_first_not_of(' ') == indent) places.push_back(i);
        }
        const size_t at = places[Below(places.size())];
        if (Below(2))
          lines.insert(lines.begin() + static_cast<long>(at), line);
        else
          lines[at] = line;
        *text = absl::StrJoin(lines, "\n");
        return;
      }
    }
  }

  void Edit(std::string* text) {
    if (text->empty()) return;
    const size_t at = Below(text->size());
    switch (Below(9)) {
      case 0:
        text->insert(at, kWords[Below(std::size(kWords))]);
        return;
      case 1: {
        const auto [begin, size] = Word(*text);
        text->replace(begin, size, kWords[Below(std::size(kWords))]);
        return;
      }
      case 2: {  // a word of another kernel
        const std::string& other = corpus_[Below(corpus_.size())];
        const auto [from, length] = Word(other);
        const auto [begin, size] = Word(*text);
        text->replace(begin, size, other.substr(from, length));
        return;
      }
      case 3:
        text->erase(at, 1 + Below(12));
        return;
      case 4: {  // a line twice, or a line of another kernel
        const size_t end = text->find('\n', at);
        text->insert(end == std::string::npos ? text->size() : end, "\n" + Line());
        return;
      }
      case 5: {  // drop a line
        const size_t begin = text->rfind('\n', at), end = text->find('\n', at);
        if (begin == std::string::npos || end == std::string::npos) return;
        text->erase(begin, end - begin);
        return;
      }
      case 6:
        (*text)[at] = static_cast<char>(random_() & 0xFF);
        return;
      case 7: {  // change an indentation
        const size_t line = text->find('\n', at);
        if (line == std::string::npos) return;
        if (Below(2))
          text->insert(line + 1, "    ");
        else
          text->erase(line + 1, std::min<size_t>(4, text->size() - line - 1));
        return;
      }
      default:
        text->resize(at);
        return;
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

TEST(LangFuzz, SeedsAreFine) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 20u);
  int programs = 0;
  for (const std::string& text : corpus) programs += FuzzOne(text).programs;
  EXPECT_GE(programs, 15);
}

TEST(LangFuzz, MutationsNeverCrashOrHang) {
  const std::vector<std::string> corpus = Corpus();
  const auto start = std::chrono::steady_clock::now();
  double slowest = 0;
  int64_t done = 0, parsed = 0, programs = 0, refusals = 0;
  for (uint64_t seed = first_seed; done < rounds; ++seed, ++done) {
    const std::string input = Mutator(corpus, seed).Next();
    if (std::getenv("KILN_FUZZ_LAST") != nullptr) {
      std::ofstream(std::getenv("KILN_FUZZ_LAST"), std::ios::binary) << input;
    }
    const auto before = std::chrono::steady_clock::now();
    const FuzzOutcome outcome = FuzzOne(input);
    const auto after = std::chrono::steady_clock::now();
    const double took = std::chrono::duration<double>(after - before).count();
    EXPECT_LT(took, 10.0) << "seed " << seed;
    slowest = std::max(slowest, took);
    parsed += outcome.parsed;
    programs += outcome.programs;
    refusals += outcome.refusals;
    if (std::chrono::duration<double>(after - start).count() > seconds) break;
  }
  std::cout << done << " inputs, " << parsed << " parsed, " << programs << " programs, " << refusals
            << " refusals, slowest " << slowest << " s\n";
  // A mutator that breaks everything, or nothing, tests nothing.
  if (rounds >= 1000) {
    EXPECT_GT(parsed, done / 10);
    EXPECT_GT(programs, done / 50);
    EXPECT_GT(refusals, done / 50);
  }
}

}  // namespace
}  // namespace kiln::lang

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const absl::string_view arg = argv[i];
    if (absl::StartsWith(arg, "--seed="))
      kiln::lang::first_seed = std::strtoull(argv[i] + 7, nullptr, 10);
    if (absl::StartsWith(arg, "--rounds="))
      kiln::lang::rounds = std::strtoll(argv[i] + 9, nullptr, 10);
    if (absl::StartsWith(arg, "--seconds="))
      kiln::lang::seconds = std::strtod(argv[i] + 10, nullptr);
  }
  return RUN_ALL_TESTS();
}
