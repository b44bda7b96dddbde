// Arguments that leave a size to run time: what they say, what a kernel may do with it, and what is
// said where it may not.
#include "compiler/lang/arguments.h"

#include "compiler/lang/interface.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Arguments, OneTextOfASizeThatIsLeftToRunTime) {
  for (const char* text : {"T.dynamic", " T.dynamic ", "T.dynamic(\"M\")", "T.dynamic( 'M' )"}) {
    EXPECT_EQ(NormaliseArgument("M", text), "T.dynamic(\"M\")") << text;
    EXPECT_EQ(*DimensionOf("M", text), "M") << text;
  }
  EXPECT_EQ(NormaliseArgument("q", "T.dynamic('S')"), "T.dynamic(\"S\")");
  for (const char* text : {"1024", "None", "\"T.dynamic\"", "T.dyn", "float32", ""}) {
    EXPECT_EQ(NormaliseArgument("M", text), text);
    EXPECT_EQ(*DimensionOf("M", text), "") << text;
  }
  for (const char* text : {"T.dynamic(M)", "T.dynamic()", "T.dynamic(\"\")", "T.dynamic(\"1a\")",
                           "T.dynamic(\"M\", \"N\")", "T.dynamics", "T.dynamic(\"M)", "T.dynamic N",
                           "T.dynamic(\"M N\")"}) {
    EXPECT_EQ(NormaliseArgument("M", text), text);
    const absl::Status status = DimensionOf("M", text).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("write T.dynamic(\"M\")")) << text;
  }
}

// Rows of x by a factory, with what `before` does to its sizes first.
std::string Factory(const std::string& before, const std::string& body = "") {
  return absl::StrCat(R"(
import tilelang
import tilelang.language as T

def half(n):
    if n > 4:
        return n // 2
    return n

@tilelang.jit(out_idx=[-1])
def rows(M, N, block=4, flag=0):
    )",
                      before, R"(
    @T.prim_func
    def main(x: T.Tensor((M, N), "float32"), y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
            )",
                      body.empty() ? "pass" : body, R"(
            for i, j in T.Parallel(block, 8):
                y[bx * block + i, j] = x[bx * block + i, j]
    return main
)");
}

std::vector<std::string> DimsOf(const std::string& text, const Arguments& arguments) {
  const auto program = ElaborateText(text, arguments);
  EXPECT_TRUE(program.ok()) << program.status();
  std::vector<std::string> names;
  if (!program.ok()) return names;
  for (const ir::Expr& dim : program->dims) names.push_back(dim.As<ir::Var>()->name);
  return names;
}

TEST(Arguments, AParameterBecomesADimension) {
  EXPECT_THAT(DimsOf(Factory("pass"), {{"M", "T.dynamic"}, {"N", "8"}}), ElementsAre("M"));
  EXPECT_THAT(DimsOf(Factory("pass"), {{"M", "T.dynamic"}, {"N", "T.dynamic"}}),
              ElementsAre("M", "N"));
  EXPECT_THAT(DimsOf(Factory("pass"), {{"M", "T.dynamic('S')"}, {"N", "T.dynamic('S')"}}),
              ElementsAre("S"));
  // What the kernel itself calls so is the same dimension.
  EXPECT_THAT(DimsOf(Factory("N = T.dynamic(\"M\")"), {{"M", "T.dynamic"}, {"N", "8"}}),
              ElementsAre("M"));
  // In the program it is as if the kernel said it.
  EXPECT_EQ(Elaborated(Factory("pass"), {{"M", "T.dynamic"}, {"N", "8"}}),
            Elaborated(Factory("M = T.dynamic(\"M\")"), {{"M", "1"}, {"N", "8"}}));
}

TEST(Arguments, AConstSizeBecomesADimension) {
  const std::string text = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def scaled(x):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), T.float32)
    y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=32) as bx:
        for j in T.Parallel(N):
            y[bx, j] = x[bx, j] / N
    return y
)";
  EXPECT_THAT(DimsOf(text, {{"M", "T.dynamic"}, {"N", "8"}}), ElementsAre("M"));
  EXPECT_THAT(DimsOf(text, {{"N", "T.dynamic('cols')"}, {"M", "8"}}), ElementsAre("cols"));
  // A tensor that is given brings the size's value, not a constant.
  const Kernel kernel = *Kernel::Parse(MakeSource(text), "");
  const auto closed = CloseArguments(
      kernel, {{"x", "T.Tensor((16, 8), T.float32)"}, {"M", "T.dynamic"}}, {}, TestTarget());
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_EQ(closed->arguments, (Arguments{{"M", "T.dynamic(\"M\")"}, {"N", "8"}}));
  EXPECT_EQ(closed->runtime.at("M"), "16");
}

// Conditions on sizes in a factory are checked before each launch.
TEST(Arguments, AnAssertOfSizesBecomesACheck) {
  const std::string text = Factory("assert M % block == 0, f\"{M} rows, {block} a block\"");
  const std::string program = Elaborated(text, {{"M", "T.dynamic"}, {"N", "8"}});
  EXPECT_THAT(program, HasSubstr("assert M % 4 == 0"));
  EXPECT_THAT(program, HasSubstr("M rows, 4 a block"));
  EXPECT_THAT(Elaborated(text, {{"M", "6"}, {"N", "8"}}),
              HasSubstr("assertion failed: 6 rows, 4 a block"));
  EXPECT_THAT(Elaborated(text, {{"M", "8"}, {"N", "8"}}), Not(HasSubstr("assert")));
  EXPECT_THAT(Elaborated(Factory("T.assume(M % block == 0)"), {{"M", "T.dynamic"}, {"N", "8"}}),
              HasSubstr("assert M % 4 == 0"));
  // A tunable in it stays open.
  const Kernel kernel = *Kernel::Parse(MakeSource(text), "");
  const auto open =
      ElaborateOpen(kernel, {{"M", "T.dynamic"}, {"N", "8"}}, {}, {"block"}, TestTarget());
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_TRUE(open->program.has_value()) << open->needs->why;
  EXPECT_THAT(ir::ToString(open->program->program), HasSubstr("assert M % block == 0"));
}

struct Refused {
  std::string text;
  const char* at;  // the line of the error holds it
  const char* message;
};

TEST(Arguments, WhatNeedsTheSizeSaysWhichArgumentIt) {
  const Refused cases[] = {
      {Factory("n = half(M)"), "if n > 4:", "'half' branches on a run-time value"},
      {Factory("n = [i for i in range(M)]"), "range(M)", "cannot be iterated here"},
      {Factory("n = [0] * M"), "[0] * M", ""},
      {Factory("n = M / 2"), "M / 2", "'/' on run-time integers"},
      {Factory("n = 2 ** M"), "2 ** M", "needs a constant exponent"},
      {Factory("n = \"a\" if M > 4 else \"b\""), "\"a\"", "a run-time condition chooses"},
      {Factory("if M > 4:\n        block = 2"), "M > 4", "branches on a run-time value"},
      {Factory("pass", "s = T.alloc_shared((M + 1, 8), \"float32\")"), "alloc_shared",
       "the shape of T.alloc_shared depends on a run-time value"},
      {Factory("pass", "n = M * 2\n            s = T.alloc_fragment((n, 8), \"float32\")"),
       "alloc_fragment", "depends on a run-time value"},
      {Factory("pass", "for k in T.Pipelined(4, num_stages=M):\n                pass"),
       "num_stages", "num_stages depends on a run-time value"},
      {Factory("pass", "for k in T.unroll(M):\n                pass"), "T.unroll(M)", ""},
      {Factory("pass", "T.use_swizzle(M)"), "use_swizzle", "T.use_swizzle depends"},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.text);
    const auto program = ElaborateText(c.text, {{"M", "T.dynamic(\"rows\")"}, {"N", "8"}});
    if (program.ok() && *c.message == '\0') continue;  // the language may learn it
    ASSERT_FALSE(program.ok()) << ir::ToString(*program);
    const auto d = DiagnosticOf(program.status());
    ASSERT_TRUE(d.has_value()) << program.status();
    EXPECT_THAT(d->message, HasSubstr(c.message));
    EXPECT_THAT(d->source_line, HasSubstr(c.at)) << program.status().message();
    if (*c.message == '\0') continue;
    EXPECT_THAT(d->message, HasSubstr("it comes from the argument M=T.dynamic(\"rows\")"));
    EXPECT_THAT(d->remedy, HasSubstr("give M a number"));
  }
}

// Shapes of outputs by names that the body gives to sizes.
TEST(Arguments, ShapesSeeThroughNames) {
  const auto text = [](const std::string& by) {
    return absl::StrCat(R"(
import tilelang
import tilelang.language as T
@tilelang.jit
def grown(x, s=2, t=1):
    M = T.const("M")
    more = M + 2
    rows = more * 3 // )",
                        by, R"(
    x: T.Tensor((M, more), "int32")
    out = T.empty((rows + 1, 4), "int32")
    with T.Kernel(4, threads=32) as bx:
        out[bx, 0] = x[bx, 0]
    return out
)");
  };
  const std::string program = Elaborated(text("s"), {{"M", "T.dynamic"}});
  EXPECT_THAT(program, HasSubstr("x: global int32[M, M + 2]"));
  EXPECT_THAT(program, HasSubstr("out: out global int32[(M + 2) * 3 // 2 + 1, 4]"));
  EXPECT_THAT(Elaborated(text("t"), {{"M", "T.dynamic"}, {"t", "T.dynamic"}}),
              HasSubstr("the shape of 'out' depends on 'rows', which the kernel's body computes"));
}

TEST(Arguments, WhatIsNoSizeIsRefused) {
  EXPECT_THAT(Elaborated(Factory("pass"), {{"M", "T.dynamic(3)"}, {"N", "8"}}),
              HasSubstr("argument M=T.dynamic(3): it names no run-time dimension"));
  EXPECT_THAT(Elaborated(Factory("pass"), {{"M", "8"}, {"N", "8"}}, "block=T.dynamic"),
              HasSubstr("'block' of the config is T.dynamic(\"block\")"));
  EXPECT_THAT(Elaborated(Factory("n = T.alloc_shared"), {{"M", "8"}, {"Q", "T.dynamic"}}),
              HasSubstr("has no parameter 'Q'"));
  EXPECT_THAT(Elaborated(Factory("pass"), {{"M", "T.dynamic('x')"}, {"N", "8"}}),
              HasSubstr("M=T.dynamic(\"x\") has the name of the parameter 'x'"));
  // An error that has another cause says nothing of arguments.
  EXPECT_THAT(Elaborated(Factory("n = half(T.dynamic(\"q\"))"), {{"M", "T.dynamic"}, {"N", "8"}}),
              Not(HasSubstr("it comes from")));
}

}  // namespace
}  // namespace kiln::lang
