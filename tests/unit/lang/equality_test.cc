// Data that holds sizes of run time: what == and `in` come to, and where they are refused.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Arguments kOpen = {{"M", "T.dynamic"}, {"N", "T.dynamic"}};

// A kernel that stores what the statements leave in `r`.
std::string Storing(const std::string& statements, const std::string& module = "") {
  return absl::StrCat(R"(
import itertools
from dataclasses import dataclass
import tilelang
import tilelang.language as T
)",
                      module, R"(
@tilelang.jit
def kernel(M, N):
    @T.prim_func
    def main(x: T.Tensor((M, N), "int32")):
        with T.Kernel(4, threads=32) as bx:
            )",
                      statements, R"(
            x[0, 0] = T.if_then_else(r, 7, 8)
    return main
)");
}

// What `r` is: the statements that say it.
std::string ConditionOf(const std::string& statements, const std::string& module = "") {
  const std::string text = Elaborated(Storing(statements, module), kOpen);
  const size_t at = text.find("launch");
  return at == std::string::npos ? text : text.substr(at);
}

TEST(Equality, SizesOfRunTimeInsideOfDataAreConditions) {
  EXPECT_THAT(ConditionOf("r = (M, N) == (128, N)"), HasSubstr("M == 128"));
  EXPECT_THAT(ConditionOf("r = (M, N) == (128, 64)"), HasSubstr("M == 128 and N == 64"));
  EXPECT_THAT(ConditionOf("r = [M, 1] != [N, 1]"), HasSubstr("M != N"));
  EXPECT_THAT(ConditionOf("r = M in (1, 2)"), HasSubstr("M == 1 or M == 2"));
  EXPECT_THAT(ConditionOf("r = (M, 3) in [(1, 3), (2, 4), (N, 3)]"), HasSubstr("M == 1 or M == N"));
  EXPECT_THAT(ConditionOf("r = M not in (1, N)"), HasSubstr("not (M == 1 or M == N)"));
  EXPECT_THAT(ConditionOf("r = 128 in x.shape"), HasSubstr("M == 128 or N == 128"));
  EXPECT_THAT(ConditionOf("r = M in range(8, 65, 8)"),
              HasSubstr("M >= 8 and M <= 64 and (M - 8) % 8 == 0"));
  EXPECT_THAT(ConditionOf("r = {'a': M} == {'a': 5}"), HasSubstr("M == 5"));
  EXPECT_THAT(ConditionOf("r = (M, (N, 2)) == (4, (5, 2))"), HasSubstr("M == 4 and N == 5"));
}

// What needs no size is decided.
TEST(Equality, WhatIsCertainIsDecided) {
  for (const char* same :
       {"(M, N) == (M, N)", "[M + 1, 2] == [1 + M, 2]", "M in (N, M)", "(M, 'a') == (M, 'a')",
        "{M: 1}[M] == 1", "{M: 1, M + 1: 2}[1 + M] == 2", "[M + 1, M].index(M) == 1",
        "{'k': (M, 2)} == {'k': (M, 2)}", "(2 * M, 1) == (M + M, 1)", "[M, M].count(M) == 2",
        "range(0, 0) == range(4, 4)", "range(0, 4, 3) == range(0, 5, 3)",
        "dict([(M, 1), (M, 2)])[M] == 2", "f'{M}_{N}' == f'{M}_{N}'", "{f'k{M}': 3}[f'k{M}'] == 3",
        "f'{bx}' != None"}) {
    EXPECT_THAT(ConditionOf(std::string("r = ") + same), HasSubstr("x[0, 0] = 7")) << same;
  }
  for (const char* other :
       {"(M, 1) == (M, 2)", "(M, N) == (M + 1, N)", "(M, N) == (M,)", "M in ()", "M in ('a', None)",
        "(M, N) == [M, N]", "(M, 'a') == (N, 'b')", "M in range(0)", "{M: 1}.get(M + 1, 0) == 1"}) {
    EXPECT_THAT(ConditionOf(std::string("r = ") + other), HasSubstr("x[0, 0] = 8")) << other;
  }
}

TEST(Equality, WhatCannotWaitIsRefusedByName) {
  struct Case {
    const char* statement;
    const char* message;
  };
  const Case cases[] = {
      {"r = {128: 1, 256: 0}[M]", "whether M equals 128 must be known at compile time"},
      {"r = {(128, 1): 1}.get((M, 1), 0)", "whether (M, 1) equals (128, 1) must be known"},
      {"r = {M: 1, N: 0}[M]", "whether N equals M must be known"},
      {"r = [1, 2, 3].index(M)", "whether 1 equals M must be known"},
      {"r = [N, M].index(M)", "whether N equals M must be known"},
      {"r = [1, N].count(M)", "whether 1 equals M must be known"},
      {"r = (M, 1) < (128, 2)", "whether M equals 128 must be known"},
      {"d = {1: 2}\n            d[M] = 3\n            r = True", "whether M equals 1 must be"},
      {"d = {1: 2}\n            d.pop(M)\n            r = True", "whether M equals 1 must be"},
      {"d = {1: 2}\n            d.update({M: 3})\n            r = True", "whether M equals 1"},
      {"d = {1: 2}\n            d.setdefault(M, 3)\n            r = True", "whether M equals 1"},
      {"r = {k: 1 for k in (M, N)}[M]", "whether N equals M must be"},
      {"r = [v for v in (M, 2) if (v, 1) == (2, 1)] == [2]", "comprehension must be known"},
      {"r = f'{M}' == '128'", "whether 'M' equals '128' must be known"},
      {"r = {'128_64': 1}.get(f'{M}_{N}', 0)", "whether '128_64' equals 'M_N' must be known"},
      {"r = str((M, 1)).upper()[1:2] in '1, 2'", "must be known at compile time"},
      {"r = '_'.join(['a', repr(M)]).replace('a', 'b').split('_')[1] == '3'", "must be known"},
      {"r = 'x' * 2 + f'{M + 1:d}' < 'xx3'", ""},
      {"r = f'{M}'.startswith('1')", "the start of the text 'M' must be known"},
      {"r = '123'.endswith(str(M))", "the end of the text 'M' must be known"},
      {"r = len(f'{M}_{N}') == 3", "the length of the text 'M_N' must be known"},
      {"r = f'{M}'.find('2') >= 0", "a place of the text 'M' must be known"},
      {"r = f'{M}'.isdigit()", "isdigit of the text 'M' must be known"},
      {"r = len(f'{M}'.split('2')) == 1", "the number of parts of the text 'M' must be known"},
      {"r = len(list(f'{M}')) == 1", "the number of characters of the text 'M' must be known"},
      {"r = M is 128", "'is' compares a number with a run-time value"},
      {"r = M in 'abc'", "looked for in a string"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.statement);
    const auto program = ElaborateText(Storing(c.statement), kOpen);
    ASSERT_FALSE(program.ok()) << ir::ToString(*program);
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(c.message));
  }
  const std::string text = Elaborated(Storing("r = {128: 1}[M]"), kOpen);
  EXPECT_THAT(text, AllOf(HasSubstr("it comes from the argument M=T.dynamic(\"M\")"),
                          HasSubstr("give M a number")));
}

TEST(Equality, AFactoryThatBranchesOnAnOpenTupleIsRefused) {
  const std::string text = R"(
import tilelang
import tilelang.language as T
@tilelang.jit
def kernel(M, N):
    fast = 1
    if (M, N) == (128, 64):
        fast = 2
    @T.prim_func
    def main(x: T.Tensor((M, N), "int32")):
        with T.Kernel(4, threads=32) as bx:
            x[0, 0] = fast
    return main
)";
  EXPECT_THAT(Elaborated(text, kOpen), AllOf(HasSubstr("branches on a run-time value"),
                                             HasSubstr("it comes from the arguments M=")));
  EXPECT_THAT(Elaborated(text, {{"M", "128"}, {"N", "64"}}), HasSubstr("x[0, 0] = 2"));
  EXPECT_THAT(Elaborated(text, {{"M", "128"}, {"N", "T.dynamic"}}),
              HasSubstr("it comes from the argument N="));
  EXPECT_THAT(Elaborated(text, {{"M", "64"}, {"N", "T.dynamic"}}), HasSubstr("x[0, 0] = 1"));
}

// A tunable that is left open is asked for.
TEST(Equality, OpenTunablesAreAskedFor) {
  const std::string text = R"(
import tilelang
import tilelang.language as T
@tilelang.jit
def kernel(M, block=32, other=2):
    table = {(64, 8): 2, (32, 8): 1}
    fast = table.get((block, M), 5)
    @T.prim_func
    def main(x: T.Tensor((M,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            x[0] = fast
    return main
)";
  const auto kernel = Kernel::Parse(MakeSource(text), "");
  ASSERT_TRUE(kernel.ok());
  const auto open = [&](const char* m) {
    return *ElaborateOpen(*kernel, {{"M", m}}, {}, {"block"}, TestTarget());
  };
  EXPECT_TRUE(open("9").program.has_value());  // in no key, whatever the block
  ASSERT_TRUE(open("8").needs.has_value());
  EXPECT_EQ(open("8").needs->tunables, std::vector<std::string>{"block"});
}

constexpr char kClasses[] = R"(
@dataclass
class Shape:
    m: int
    n: int

class Same:
    def __init__(self, v):
        self.v = v
    def __eq__(self, other):
        return self.v == other.v

class Own:
    def __init__(self, v):
        self.v = v
)";

TEST(Equality, Instances) {
  EXPECT_THAT(ConditionOf("r = Shape(1, 2) == Shape(1, 2)", kClasses), HasSubstr("= 7"));
  EXPECT_THAT(ConditionOf("r = Shape(1, 2) != Shape(1, 3)", kClasses), HasSubstr("= 7"));
  EXPECT_THAT(ConditionOf("r = Shape(M, 2) == Shape(4, 2)", kClasses), HasSubstr("M == 4"));
  EXPECT_THAT(ConditionOf("r = Same(3) == Same(3)", kClasses), HasSubstr("= 7"));
  EXPECT_THAT(ConditionOf("r = Same(M) in [Same(3)]", kClasses), HasSubstr("M == 3"));
  EXPECT_THAT(ConditionOf("r = Own(3) == Own(3)", kClasses), HasSubstr("= 8"));
}

// A list inside of itself ends.
TEST(Equality, IsBoundedInDepth) {
  EXPECT_THAT(ConditionOf("a = []\n            b = []\n            a.append(b)\n            "
                          "b.append(a)\n            r = a == b"),
              HasSubstr("nested more than 64 levels deep"));
}

}  // namespace
}  // namespace kiln::lang
