// Kernel files that import from files next to them: which files travel, where names are looked up,
// and what a diagnostic calls a position.
#include "compiler/lang/source_bundle.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr char kKernel[] = R"(
@tilelang.jit
def kernel(n=4):
    @T.prim_func
    def main(x: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=32) as b:
            VALUES
    return main
)";

class SourceBundle : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        absl::StrCat("bundle_", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  // The text of a kernel that begins with `head` and stores `statements`.
  std::string Text(const std::string& head, const std::string& statements) {
    std::string kernel = kKernel;
    kernel.replace(kernel.find("VALUES"), 6, statements);
    return WithImportedFiles(
        absl::StrCat("import tilelang\nimport tilelang.language as T\n", head, kernel),
        (folder_ / "k.py").string());
  }

  std::string Elaborated(const std::string& text) {
    const auto program = ElaborateText(text);
    return program.ok() ? ir::ToString(*program) : std::string(program.status().message());
  }

  fs::path folder_;
};

TEST_F(SourceBundle, NamesAreLookedUpInTheFileThatUsesThem) {
  Write("helper.py",
        "from pkg.deep import offset\nSCALE = 3\n\ndef scaled(v):\n    return v * SCALE + "
        "offset(v)\n");
  Write("pkg/__init__.py", "from .deep import SCALE as DEEP\nfrom . import other\n");
  Write("pkg/deep.py", "SCALE = 100\n\ndef offset(v):\n    return SCALE\n");
  Write("pkg/other.py", "from ..helper import SCALE\nBOTH = SCALE + 1\n");
  const std::string text = Text(
      "from helper import scaled as grown\nimport helper\nimport pkg.other\nfrom pkg import DEEP, "
      "other\n"
      "SCALE = 7\n",
      "x[0] = grown(2) + SCALE\n            x[1] = helper.SCALE\n            x[2] = DEEP\n"
      "            x[3] = other.BOTH\n            x[4] = pkg.other.BOTH");
  const std::string program = Elaborated(text);
  EXPECT_THAT(program, HasSubstr("x[0] = 113"));  // 2 * 3 + 100, and this file's 7
  EXPECT_THAT(program, HasSubstr("x[1] = 3"));
  EXPECT_THAT(program, HasSubstr("x[2] = 100"));
  EXPECT_THAT(program, HasSubstr("x[3] = 4"));
  EXPECT_THAT(program, HasSubstr("x[4] = 4"));
}

TEST_F(SourceBundle, AMacroBringsItsFile) {
  Write(
      "tiles.py",
      "import tilelang.language as T\nWIDTH = 5\n\n@T.macro\ndef put(t, at):\n    t[at] = WIDTH\n");
  EXPECT_THAT(Elaborated(Text("from tiles import *\n", "put(x, 1)")), HasSubstr("x[1] = 5"));
}

// As in Python: the last one before the use wins, over built-in names too; __all__ and _names.
TEST_F(SourceBundle, Stars) {
  Write("a.py", "def f(v):\n    return 1\n\ndef max(a, b):\n    return 300\n\n_own = 1\n");
  Write("b.py", "def f(v):\n    return 2\n\nV = 3\n");
  Write("c.py", "__all__ = ['listed']\nlisted = 8\nf = None\n");
  Write("d.py", "from b import *\n");
  EXPECT_THAT(Elaborated(Text("from a import *\nfrom b import *\nfrom c import *\nV = 4\n",
                              "x[0] = f(1) + max(1, 2) + V + listed")),
              HasSubstr("x[0] = 314"));
  EXPECT_THAT(Elaborated(Text("V = 4\nfrom d import *\n", "x[0] = f(1) + V")),
              HasSubstr("x[0] = 5"));
  EXPECT_THAT(Elaborated(Text("from a import *\n", "x[0] = _own")),
              HasSubstr("unknown name '_own'"));
  Write("e.py", "def g():\n    return 1\nfrom h import *\n");
  Write("h.py", "from e import *\n");
  EXPECT_THAT(Elaborated(Text("from h import *\n", "x[0] = g()")), HasSubstr("error"));
}

TEST_F(SourceBundle, PackagesAndTheirFiles) {
  Write("pkg/__init__.py", "P = 1\n");
  Write("pkg/tiles.py", "Q = 20\n");
  Write("both.py", "R = 100\n");
  Write("both/__init__.py", "R = 300\n");
  EXPECT_THAT(Elaborated(Text("import pkg\nimport pkg.tiles\nfrom both import R\n",
                              "x[0] = pkg.P + pkg.tiles.Q + R")),
              HasSubstr("x[0] = 321"));
  Write("marked.py", absl::StrCat("\xEF\xBB\xBF", "S = 5  ", kFileMark, "a\n"));
  EXPECT_THAT(Elaborated(Text(absl::StrCat("from marked import S  ", kFileMark, "b\n"),
                              "from pkg.tiles import Q\n            x[0] = S + Q")),
              HasSubstr("x[0] = 25"));
}

TEST_F(SourceBundle, DefaultsOfAClassAreReadInItsFile) {
  Write("shapes.py",
        "from dataclasses import dataclass\nW = 6\n\n@dataclass\nclass C:\n    a: int\n    b: int "
        "= W\n");
  EXPECT_THAT(Elaborated(Text("from shapes import C\nX = C(2)\n", "x[0] = X.a + X.b")),
              HasSubstr("x[0] = 8"));
}

TEST_F(SourceBundle, ALinkStandsWhereItPoints) {
  Write("real/k.py", "");
  Write("real/near.py", "N = 9\n");
  fs::create_directories(folder_ / "links");
  fs::create_symlink(folder_ / "real/k.py", folder_ / "links/k.py");
  EXPECT_THAT(WithImportedFiles("from near import N\n", (folder_ / "links/k.py").string()),
              HasSubstr("N = 9"));
}

TEST_F(SourceBundle, APositionIsOneOfItsOwnFile) {
  Write("helper.py",
        "import torch\n\ndef checked(v):\n    assert v < 3, 'too much'\n    return v\n");
  const auto program = ElaborateText(Text("from helper import checked\n", "x[0] = checked(n)"));
  const auto d = DiagnosticOf(program.status());
  ASSERT_TRUE(d.has_value()) << program.status();
  EXPECT_EQ(d->path, "helper.py");
  EXPECT_EQ(d->loc.line, 4);
  EXPECT_THAT(d->source_line, HasSubstr("assert v < 3"));
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("called at k.py:10:20"));
}

TEST_F(SourceBundle, WhatIsNoFileOrNotPythonIsToldWhereItIsUsed) {
  Write("broken.py", "def f(:\n");
  Write("math.py", "pi = 3\n");
  const std::string text =
      Text("import math\nfrom broken import f\nfrom absent import g\n", "x[0] = math.pi");
  EXPECT_THAT(text, Not(HasSubstr(kFileMark)));
  EXPECT_THAT(Elaborated(text), HasSubstr("x[0] = 3.14"));
  const std::string broken = Elaborated(Text("from broken import f\n", "x[0] = f(1)"));
  EXPECT_THAT(broken, HasSubstr("broken.py:1:6: error: "));
  EXPECT_THAT(broken, HasSubstr("    def f(:\n         ^"));
  EXPECT_THAT(broken, HasSubstr("the kernel uses this file at k.py:10:20"));
  const std::pair<const char*, const char*> uses[] = {{"import broken\n", "broken.N == 1"},
                                                      {"import broken as other\n", "other.N + 1"},
                                                      {"from broken import *\n", "f(1)"}};
  for (const auto& [head, use] : uses) {
    EXPECT_THAT(Elaborated(Text(head, absl::StrCat("x[0] = ", use))),
                HasSubstr("broken.py:1:6: error"));
  }
  for (const char* use : {"g(1)", "g", "g + 1", "g == 1", "x[g]", "T.cast(1, g)"}) {
    const std::string absent =
        Elaborated(Text("from sub.absent import g\n", absl::StrCat("x[0] = ", use)));
    EXPECT_THAT(absent, HasSubstr("there is no sub/absent.py beside the kernel file, in .")) << use;
  }
  EXPECT_THAT(Elaborated(Text("from absent import *\n", "x[0] = g(1)")),
              HasSubstr("'from absent import *' brings no names"));
  Write("helper.py", "def f(v):\n    return v\n");
  EXPECT_THAT(Elaborated(Text("from helper import g\n", "x[0] = g(1)")),
              HasSubstr("the file of 'helper' has no 'g'"));
  Write("helper.py", "def height(v):\n    return v\n");
  EXPECT_THAT(Elaborated(Text("from helper import hight\n", "x[0] = hight(1)")),
              HasSubstr("help: did you mean 'height'?"));
}

// What no message can carry does not make the kernel's own text unreadable.
TEST_F(SourceBundle, ABrokenFileOfAnyBytes) {
  const char bytes[] = "x = (\0\n\xff\xfe\r\"\"\"\nkernel = 1\n";
  Write("bytes.py", std::string(bytes, sizeof(bytes) - 1));
  const std::string text = Text("from bytes import x as w\n", "x[0] = 1");
  for (char c : text) EXPECT_TRUE(c != '\0' && static_cast<unsigned char>(c) < 0x80);
  EXPECT_THAT(Elaborated(text), HasSubstr("x[0] = 1"));
  EXPECT_THAT(Elaborated(Text("from bytes import x as w\n", "x[0] = w")), HasSubstr("bytes.py"));
}

// As in Python: what is not there ends the branch, what is there and wrong is no ImportError.
TEST_F(SourceBundle, ATryAroundAnImportIsDecided) {
  Write("here.py", "A = 4\n");
  Write("broken.py", "def f(:\n");
  const auto value = [&](const std::string& attempt) {
    return Elaborated(Text(attempt, "x[0] = A"));
  };
  EXPECT_THAT(value("try:\n    from here import A\nexcept ImportError:\n    A = 9\n"),
              HasSubstr("x[0] = 4"));
  EXPECT_THAT(value("try:\n    from gone import A\nexcept ImportError:\n    A = 9\n"),
              HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("try:\n    from here import B as A\nexcept ImportError as e:\n    A = 9\n"),
              HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("try:\n    B = 2\n    import gone\n    A = 1\nexcept (KeyError, "
                    "ModuleNotFoundError):\n    A = B + 5\nelse:\n    A = 3\n"),
              HasSubstr("x[0] = 7"));
  EXPECT_THAT(value("try:\n    import here\nexcept ImportError:\n    A = 1\nelse:\n"
                    "    A = here.A + 1\nfinally:\n    A = A * 10\n"),
              HasSubstr("x[0] = 50"));
  EXPECT_THAT(value("try:\n    import torch\n    A = 6\nexcept ImportError:\n    A = 9\n"),
              HasSubstr("x[0] = 6"));
  for (const char* own : {"import os", "import xml.dom", "from functools import cache",
                          "from __future__ import annotations", "import dataclasses as d"}) {
    EXPECT_THAT(
        value(absl::StrCat("try:\n    ", own, "\n    A = 5\nexcept ImportError:\n    A = 9\n")),
        HasSubstr("x[0] = 5"))
        << own;
  }
  EXPECT_THAT(value("try:\n    from gone import A\nexcept KeyError:\n    A = 9\n"),
              HasSubstr("there is no gone.py"));
  EXPECT_THAT(value("try:\n    from broken import A\nexcept ImportError:\n    A = 9\n"),
              HasSubstr("broken.py:1:6: error"));
  EXPECT_THAT(value("try:\n    from math import pi\n    A = 5\nexcept ImportError:\n    A = 9\n"),
              HasSubstr("x[0] = 5"));
  EXPECT_THAT(value("try:\n    from math import tri\n    A = 5\nexcept ImportError:\n    A = 9\n"),
              HasSubstr("x[0] = 9"));
}

// An import deeper in the body ends it too; the handler of the innermost try that catches it runs.
TEST_F(SourceBundle, ATryAroundImportsInBranchesAndLoops) {
  const auto value = [&](const std::string& attempt) {
    return Elaborated(Text(attempt, "x[0] = A"));
  };
  const std::string handled = "    A = 1\nexcept ImportError:\n    A = 9\n";
  EXPECT_THAT(value("try:\n    if True:\n        import gone\n" + handled), HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("try:\n    if False:\n        import gone\n" + handled), HasSubstr("x[0] = 1"));
  EXPECT_THAT(
      value("L = []\ntry:\n    for i in range(5):\n        L.append(i)\n        if i == 2:\n"
            "            import gone\n    A = 1\nexcept ImportError:\n    A = len(L)\n"),
      HasSubstr("x[0] = 3"));
  EXPECT_THAT(value("try:\n    while True:\n        from gone import b\n" + handled),
              HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("try:\n    try:\n        import gone\n    finally:\n        B = 7\n    B = 0\n"
                    "except ImportError:\n    A = B\n"),
              HasSubstr("x[0] = 7"));
  EXPECT_THAT(
      value("try:\n    try:\n        import gone\n    except ImportError:\n        import gone2\n" +
            handled),
      HasSubstr("x[0] = 9"));
}

// A file is there when what it needs is: one that imports what is not does not load.
TEST_F(SourceBundle, ATryAroundAFileThatDoesNotLoad) {
  Write("fast.py", "import os\nimport gone\nA = 4\n");
  Write("careful.py", "try:\n    import gone\nexcept ImportError:\n    gone = None\nA = 5\n");
  Write("through.py", "from fast import A\n");
  Write("one.py", "import two\nA = 6\n");
  Write("two.py", "import one\nA = 7\n");
  const auto value = [&](const std::string& import) {
    return Elaborated(
        Text("try:\n    " + import + "\nexcept ImportError:\n    A = 9\n", "x[0] = A"));
  };
  EXPECT_THAT(value("from fast import A"), HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("import fast\n    A = fast.A"), HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("from through import A"), HasSubstr("x[0] = 9"));
  EXPECT_THAT(value("from careful import A"), HasSubstr("x[0] = 5"));
  EXPECT_THAT(value("from one import A"), HasSubstr("x[0] = 6"));
}

TEST_F(SourceBundle, AnEntryOfAnotherFile) {
  std::string kernel = kKernel;
  kernel.replace(kernel.find("VALUES"), 6, "x[0] = n + BASE");
  kernel.replace(kernel.find("n=4"), 3, "n=SMALL");
  Write(
      "kernels.py",
      absl::StrCat("import tilelang\nimport tilelang.language as T\nBASE = 10\nSMALL = 3\n", kernel,
                   "\ndef around(k):\n    @T.prim_func\n"
                   "    def inner(x: T.Tensor((64,), 'float32')):\n"
                   "        with T.Kernel(1, threads=32) as b:\n"
                   "            x[0] = k\n    return inner\n"));
  Write("more.py", "from kernels import *\nfrom kernels import kernel as passed\n");
  Write("circle.py", "from k2 import kernel\n");
  Write("k2.py", "from circle import kernel\n");
  const auto run = [&](const std::string& head, const std::string& entry,
                       const Arguments& arguments = {}) {
    const std::string text =
        WithImportedFiles(head + "BASE = 1\nSMALL = 1\n", (folder_ / "k.py").string());
    const auto program = ElaborateText(text, arguments, "", entry);
    return program.ok() ? ir::ToString(*program) : std::string(program.status().message());
  };
  EXPECT_THAT(run("from kernels import kernel\n", "kernel"), HasSubstr("x[0] = 13"));
  EXPECT_THAT(run("from kernels import kernel as k\n", "k", {{"n", "5"}}), HasSubstr("x[0] = 15"));
  EXPECT_THAT(run("import kernels\n", "kernels.kernel"), HasSubstr("x[0] = 13"));
  EXPECT_THAT(run("import kernels as ks\n", "ks.kernel"), HasSubstr("x[0] = 13"));
  EXPECT_THAT(run("from more import passed\n", "passed"), HasSubstr("x[0] = 13"));
  EXPECT_THAT(run("from more import *\n", "kernel", {{"n", "BASE"}}), HasSubstr("x[0] = 11"));
  EXPECT_THAT(run("from kernels import around\n", "around", {{"k", "2"}}), HasSubstr("x[0] = 2"));
  EXPECT_THAT(run("from circle import kernel\n", "kernel"), HasSubstr("no kernel 'kernel'"));
  EXPECT_THAT(run("from kernels import kernel\n", "BASE"), HasSubstr("no kernel 'BASE'"));
  EXPECT_THAT(run("import kernels\n", "kernel"), HasSubstr("no kernel 'kernel'"));
  EXPECT_THAT(run("from kernels import gone\n", "gone"), HasSubstr("no kernel 'gone'"));
}

TEST_F(SourceBundle, FilesThatImportEachOther) {
  Write("a.py",
        "from b import two\n\ndef one():\n    return 1\n\ndef three():\n    return two() + 1\n");
  Write("b.py", "from a import one\n\ndef two():\n    return one() + 1\n");
  EXPECT_THAT(Elaborated(Text("from a import three\n", "x[0] = three()")), HasSubstr("x[0] = 3"));
  Write("c.py", "from d import V\nU = V\n");
  Write("d.py", "from c import U\nV = U\n");
  EXPECT_THAT(Elaborated(Text("from c import U\n", "x[0] = U")), HasSubstr("break the cycle"));
}

TEST_F(SourceBundle, OnlyTheKernelFilesKernelsAreItsOwn) {
  Write("other.py",
        absl::StrCat("import tilelang\nimport tilelang.language as T\nP = 2\n", kKernel));
  const std::string text = Text("from other import P\n", "x[0] = P");
  EXPECT_THAT(text, HasSubstr(kFileMark));
  EXPECT_THAT(Elaborated(text), HasSubstr("x[0] = 2"));  // one kernel: none needs to be named
}

TEST_F(SourceBundle, ATextStaysWithinItsLimit) {
  Write("large.py", std::string(700 << 10, '#') + "\nP = 2\n");
  Write("other.py", std::string(600 << 10, '#') + "\nO = 2\n");
  Write("small.py", "Q = 2\n");
  const std::string text =
      Text("from large import P\nfrom other import O\nfrom small import Q\n", "x[0] = Q");
  EXPECT_LT(text.size(), size_t{1} << 20);
  EXPECT_THAT(Elaborated(text), HasSubstr("x[0] = 2"));
  EXPECT_THAT(Elaborated(Text("from large import P\nfrom other import O\n", "x[0] = O")),
              HasSubstr("other.py makes the kernel's text too large"));
}

}  // namespace
}  // namespace kiln::lang
