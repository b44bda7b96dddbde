// What diagnostics of the language say beside the error: values, names that are near, the place.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::HasSubstr;

// What those values were made from is told too, as far as it meant the same then: through names of
// the module, calls, parameters, updates and the shapes of buffers, nearest first and in bounds.
TEST(Diagnostics, ValuesAreFollowedToWhereTheyCameFrom) {
  const std::string module =
      "BLK = 48\nW = BLK // 5\ndef dbl(u): return u * 2 + 1\n"
      "def at(t, i): return t[i]\n";
  const std::vector<std::string> width = {"w = 19 from dbl(W) (set at k.py:13:9)",
                                          "W = 9 from BLK // 5 (set at k.py:6:1)",
                                          "BLK = 48 (set at k.py:5:1)"};
  const auto notes = [&](const std::string& body) {
    const auto d =
        DiagnosticOf(ElaborateText(InKernel("w = dbl(W)\n" + body, "", module)).status());
    return d.has_value() ? d->notes : std::vector<std::string>{"no error"};
  };
  const auto led_by = [&](std::vector<std::string> first) {
    first.insert(first.end(), width.begin(), width.end());
    return first;
  };
  EXPECT_EQ(notes("x[w + 60, 0] = 1\n"), width);
  EXPECT_EQ(notes("r = w + 60\nassert r < 64\n"),
            led_by({"r = 79 from w + 60 (set at k.py:14:9)"}));
  EXPECT_EQ(notes("s = T.alloc_shared((w, 8), 'float32')\nt = T.alloc_shared((w, 9), 'float32')\n"
                  "T.copy(s, t)\n"),
            width);
  EXPECT_EQ(notes("w *= 8\nx[w, 0] = 1\n"),
            std::vector<std::string>({"w = 152 (set at k.py:14:9)"}));
  // A name that was bound again since would be told wrongly.
  EXPECT_EQ(notes("r = w + 60\nw = 1\nx[r, 0] = 1\n"),
            std::vector<std::string>({"r = 79 from w + 60 (set at k.py:14:9)"}));
  // In a function: its parameters, by the caller's names.
  EXPECT_EQ(notes("y[0, 0] = at(v, w + 60)\n"),
            std::vector<std::string>({"i = 79 from w + 60 (set at k.py:14:25)", width[0], width[1],
                                      width[2], "in function 'at', called at k.py:14:19"}));
  std::string many;
  for (int i = 0; i < 20; ++i)
    absl::StrAppend(&many, "w = w\na", i + 1, " = ", i ? absl::StrCat("a", i) : "w", " + 3\n");
  EXPECT_EQ(notes(many + "x[a20, 0] = 1\n").size(), 8u);
}

TEST(Diagnostics, AStoredValueIsPointedAt) {
  const auto d = DiagnosticOf(ElaborateText(InKernel("v[0] = 1.5\n")).status());
  ASSERT_TRUE(d.has_value());
  EXPECT_THAT(d->Render(), HasSubstr("v[0] = 1.5\n                   ^~~\n"));
}

TEST(Diagnostics, DecoratorsAndImportsThatAreMisspelt) {
  const std::string head = "import tilelang\nimport tilelang.language as T\n";
  const auto said = [&](const std::string& text) {
    return std::string(ElaborateText(head + text).status().message());
  };
  EXPECT_THAT(said("@tilelang.jti\ndef f(n=4):\n    pass\n"),
              HasSubstr("k.py:3:11: error: the decorator 'jti' makes no kernel\n    @tilelang.jti\n"
                        "              ^~~\n  help: did you mean 'jit'?"));
  EXPECT_THAT(said("@T.prim_fun\ndef f(A: T.Tensor((4,), 'int32')):\n    pass\n"),
              HasSubstr("did you mean 'prim_func'?"));
  EXPECT_THAT(said("@pytest.fixture\ndef f():\n    pass\n"), HasSubstr("defines 0 kernels"));
  EXPECT_THAT(said("from tilelang.language import Tensr\n@T.prim_func\n"
                   "def f(A: Tensr((4,), 'int32')):\n    with T.Kernel(1):\n        A[0] = 1\n"),
              HasSubstr("did you mean 'Tensor'?"));
}

// Of one letter any other would be as near.
TEST(Diagnostics, ShortNamesHaveNoNearOnes) {
  EXPECT_THAT(Elaborated(InKernel("x[0, 0] = j\n")), testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(Elaborated(InKernel("x[0, 0] = P\n")), HasSubstr("did you mean 'p'?"));
}

TEST(Diagnostics, AReductionTellsWhichDimensionWent) {
  EXPECT_THAT(Elaborated(InKernel("s = T.alloc_fragment((4, 8), 'float32')\n"
                                  "r = T.alloc_fragment((8,), 'float32')\n"
                                  "T.reduce_sum(s, r, dim=1)\n")),
              HasSubstr("'s' has (4) once dimension 1 is reduced, 'r' has (8)"));
}

TEST(Diagnostics, LongLinesAreCutAroundTheCaret) {
  std::string sum = "x[0, 0]";
  for (int i = 0; i < 60; ++i) sum += " + x[0, 0]";
  const std::string said = Elaborated(InKernel("y[0, 0] = " + sum + " + nowhere + " + sum + "\n"));
  EXPECT_THAT(said, HasSubstr("unknown name 'nowhere'\n    ..."));
  const size_t line = said.find("\n    ...") + 1, caret = said.find('^'),
               next = said.find('\n', line) + 1;
  EXPECT_LT(next - line, 220u);
  EXPECT_EQ(said.substr(line + (caret - next), 7), "nowhere");
}

// Names that are no typing mistakes: other words for the same, their words in another order or cut
// short, and what an import brings.
TEST(Diagnostics, NamesOfOtherLanguagesAreKnown) {
  const std::pair<const char*, const char*> kCases[] = {
      {"x[0, 0] = T.where(n > 0, 1.0, 2.0)", "did you mean 'if_then_else'?"},
      {"x[0, 0] = T.inf('float32')", "did you mean 'infinity'?"},
      {"s = T.alloc_fragment((4,), T.fp32)", "did you mean 'float32'?"},
      {"s = T.PersistentScheduler('s', 4, 4)", "did you mean 'PersistentTileScheduler'?"},
      {"T.im2col_c2d(x, y)", "did you mean 'c2d_im2col'?"},
      {"T.gemm(x, y, x, trans_B=True)", "did you mean 'transpose_B'?"},
      {"x[0, 0] = torch.exp2(y[0, 0])", "help: in kernels it is T.exp2"},
      {"x[0, 0] = np.exp(1)", "help: add 'import numpy as np' to the file"},
      {"m = driver.get_num_sms()", "add 'from tilelang.carver.arch import driver' to the file"},
      {"for k in range(4, num_stages=2):\n    pass", "help: its arguments are given by position"},
      {"T.gemm(x, y)", "help: its parameters: A, B, C, transpose_A=, "},
      {"x[0, 0] = T.Float32(n)", "did you mean 'float32'?"},
      {"x[0, 0] = T.relu(y[0, 0])", "help: write T.max(x, 0)"},
      {"m = T.const((1 << 4) - 1, T.uint16)", "T.const names sizes, and this is a number"},
  };
  for (const auto& [body, said] : kCases) {
    const std::string imports =
        std::string(body).find("torch") != std::string::npos ? "import torch\n" : "";
    EXPECT_THAT(Elaborated(InKernel(std::string(body) + "\n", "", imports)), HasSubstr(said));
  }
  EXPECT_THAT(std::string(ElaborateText("@T.prim_func\ndef f(A: T.Tensor((4,), 'int32')):\n"
                                        "    with T.Kernel(1):\n        A[0] = 1\n")
                              .status()
                              .message()),
              HasSubstr("help: add 'import tilelang.language as T' to the file"));
  // Nothing is near by chance.
  EXPECT_THAT(Elaborated(InKernel("T.frobnicate(x)\n")), HasSubstr("compiler/lang/README.md"));
}

TEST(Diagnostics, ObjectsTellWhatTheyTake) {
  const std::string made = "s = T.PersistentTileScheduler('s', 4, 4, swizzle_size=2)\ns.init(bx)\n";
  EXPECT_THAT(Elaborated(InKernel(made + "s.next()\n")), HasSubstr("did you mean 'next_tile'?"));
  EXPECT_THAT(Elaborated(InKernel("s = T.PersistentTileScheduler('s', 4, 4, swizzle=2)\n")),
              HasSubstr("'PersistentTileScheduler' has no parameter 'swizzle'"));
  // Of a base class.
  EXPECT_THAT(Elaborated(InKernel("a = Inner()\nx[0, 0] = a.hight()\n", "",
                                  "class Outer:\n    def height(self): return 1\n"
                                  "class Inner(Outer):\n    pass\n")),
              HasSubstr("did you mean 'height'?"));
  EXPECT_THAT(Elaborated(InKernel("x[0, 0] = area(2)\n", "",
                                  "def area(width, height, scale=1): return width * height\n")),
              HasSubstr("pass it; its parameters: width, height, scale="));
}

TEST(Diagnostics, ArgumentsThatAreMissing) {
  const std::string head = "import tilelang\nimport tilelang.language as T\n";
  const auto said = [&](const std::string& text, const Arguments& arguments) {
    return std::string(ElaborateText(head + text, arguments).status().message());
  };
  const std::string factory =
      "@tilelang.jit\ndef f(M, N, in_dtype, is_causal, block=4):\n    pass\n";
  EXPECT_THAT(said(factory, {{"M", "8"}}),
              HasSubstr("parameters 'N', 'in_dtype', 'is_causal' of 'f' have no values"));
  EXPECT_THAT(said(factory, {{"M", "8"}}),
              HasSubstr("kilnc: -a N=1024 -a in_dtype=float16 -a is_causal=True; a sweep file: "));
  const std::string lazy =
      "@tilelang.lazy_jit\ndef f(A: T.Tensor[[int, int], T.float16]):\n    M, N = A.shape\n"
      "    with T.Kernel(1):\n        A[0, 0] = 1\n";
  EXPECT_THAT(said(lazy, {}), HasSubstr("-a 'A=T.Tensor((1024, 512), T.float16)'), or the size (-a "
                                        "A_shape_0=1024)"));
  EXPECT_THAT(said(lazy, {{"A", "T.Tensor((256), T.float16)"}}),
              HasSubstr("'A' has at least 2 dimensions, and the argument has 1: (256,)"));
  EXPECT_THAT(said(factory, {{"M", "8"}, {"N", "8"}, {"is_causal", "True"}, {"in_dtype", "fp16"}}),
              HasSubstr("unknown name 'fp16'; did you mean 'float16'?"));
}

}  // namespace
}  // namespace kiln::lang
