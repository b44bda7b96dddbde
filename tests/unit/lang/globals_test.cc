// Globals are what the file's statements leave of them, by whatever name or call they change; and
// kernels that belong to classes.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What the expression says in a kernel, after the module's statements; or the error.
std::string ValueOf(const std::string& module, const std::string& expr) {
  const std::string text =
      InKernel(absl::StrCat("z = ", expr, "\nassert False, repr(z)\n"), "", module);
  const auto d = DiagnosticOf(ElaborateText(text).status());
  if (!d) return "no diagnostic";
  const size_t at = d->message.find("assertion failed: ");
  return at == std::string::npos ? absl::StrCat(d->message, " | ", d->remedy)
                                 : d->message.substr(at + 18);
}

TEST(Globals, AreWhatTheStatementsLeaveOfThem) {
  const std::string config =
      "class Cfg:\n    block = 16\n    def __init__(self, *items):\n        self.items = "
      "list(items)\n    def add(self, x):\n        self.items.append(x)\n        return self\n"
      "    def register(self, name):\n        D[name] = self\nCFG = Cfg(1)\nD = {}\nL = [1]\n";
  const struct {
    const char *module, *expr, *expected;
  } kCases[] = {
      {"CFG.block = 32\nCfg.extra = 5\n", "[CFG.block, CFG.extra, Cfg.block]", "[32, 5, 16]"},
      {"Cfg.block = 64\n", "CFG.block", "64"},
      {"CFG.block += 5\n", "CFG.block", "21"},
      {"CFG.add(2)\nCFG.items.append(3)\nx = CFG.add(4)\n", "CFG.items", "[1, 2, 3, 4]"},
      {"CFG.register('a')\n", "list(D)", "['a']"},
      {"class Sub(Cfg):\n    def twice(self, x):\n        self.add(x)\n        self.add(x)\n"
       "S = Sub()\nS.twice(4)\nS.add(5)\n",
       "S.items", "[4, 4, 5]"},
      {"D['a'] = {}\nD['a']['b'] = 3\nD['a'].update(c=4)\ndel D['a']['b']\n", "D",
       "{'a': {'c': 4}}"},
      {"def put(k, v):\n    D[k] = v\nput('b', 1)\nput('a', len(D))\n", "D", "{'b': 1, 'a': 1}"},
      {"def outer(k):\n    return inner(k)\ndef inner(k):\n    D[k] = k\n    return k\n"
       "y = [outer(3)]\n",
       "D", "{3: 3}"},
      {"def grow(items, by=1):\n    items.append(by)\ngrow(L)\ngrow(D.setdefault('x', []))\n",
       "[L, D]", "[[1, 1], {'x': [1]}]"},
      {"def keep(f):\n    D[f.__name__] = f\n    return f\n@keep\ndef helper(x):\n    return x\n",
       "list(D)", "['helper']"},
      {"M = L\nM.append(2)\nL.append(3)\n", "[L, M]", "[[1, 2, 3], [1, 2, 3]]"},
      {"M = L\nM += [2]\n", "L", "[1, 2]"},
      {"K = {'l': L}\nL.append(2)\nK['l'].append(3)\n", "[K, L]", "[{'l': [1, 2, 3]}, [1, 2, 3]]"},
      {"H = Cfg()\nH.items = L\nL.append(5)\n", "H.items", "[1, 5]"},
      {"if len(L) == 1:\n    for i in range(2):\n        D[i] = L\n", "D", "{0: [1], 1: [1]}"},
      {"def named(n):\n    def keep(f):\n        D[n] = f\n        return f\n    return keep\n"
       "@named('one')\ndef helper(x):\n    return x\n",
       "list(D)", "['one']"},
      {"class Reg:\n    all = {}\n    def __init__(self):\n        self.own = []\n"
       "    def keep(self, f):\n        self.own.append(f.__name__)\n        return f\n"
       "    @classmethod\n    def named(cls, n):\n        def inner(f):\n"
       "            cls.all[n] = f\n            return f\n        return inner\n"
       "R = Reg()\n@R.keep\n@Reg.named('x')\ndef helper(x):\n    return x\n",
       "[R.own, list(Reg.all)]", "[['helper'], ['x']]"},
      {"D['a'] = [1]\nE = D.get('a')\nE.append(2)\n", "D", "{'a': [1, 2]}"},
      {"COUNT = len(L)\nL.append(2)\n", "[COUNT, L]", "[1, [1, 2]]"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(ValueOf(config + test.module, test.expr), test.expected) << test.module;
  }
}

// Statements run in the order of the file: what was computed before a change keeps what it read.
TEST(Globals, AreReadBeforeWhatChangesThem) {
  const struct {
    const char *module, *expr, *expected;
  } kCases[] = {
      {"C = {'bm': 64}\nHALF = C['bm'] // 2\nC['bm'] = 128\n", "C['bm'] + HALF", "160"},
      {"C = {'bm': 64}\nHALF = C['bm'] // 2\nC.update(bm=128)\n", "[C['bm'], HALF]", "[128, 32]"},
      {"class C:\n    n = 64\nHALF = C.n // 2\nC.n = 128\n", "[C.n, HALF]", "[128, 32]"},
      {"X = [5]\nM = len(X)\nX.append(1)\n", "[len(X), M]", "[2, 1]"},
      {"X = [5]\ndef f():\n    return X[0]\nM = f()\nX[0] = 9\n", "[X[0], M, f()]", "[9, 5, 9]"},
      {"X = [5]\nclass K:\n    n = X[0]\nX[0] = 9\n", "[X[0], K.n]", "[9, 5]"},
      {"X = [5]\ndef f(n=X[0]):\n    return n\nX[0] = 9\n", "[X[0], f()]", "[9, 5]"},
      {"X = [5]\nM = X[0]\nN = M + 1\nX[0] = 9\n", "[X[0], N]", "[9, 6]"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(ValueOf(test.module, test.expr), test.expected) << test.module;
  }
}

// What a statement of another package would have read has no value once that has changed.
TEST(Globals, WhatHostCodeReadIsNotReadLater) {
  const std::string host = "import torch\nX = [5]\nM = torch.randn(X[0])\nN = X[0]\nX[0] = 9\n";
  EXPECT_EQ(ValueOf(host, "[X, N]"), "[[9], 5]");
  const std::string loop =
      "import torch\nX = [5]\nfor x in [X]:\n    x[0] = torch.zeros(3).sum()\n";
  EXPECT_THAT(ValueOf(loop, "X"), HasSubstr("of a tensor of the host"));
}

TEST(Globals, ChangeByEveryWay) {
  const std::string table = "TAB = [4]\ndef add(x, v=3):\n    x.append(v)\n    return x\n";
  const struct {
    const char *module, *expr, *expected;
  } kCases[] = {
      // The targets of loops.
      {"D = [{'n': 1}]\nfor d in D:\n    d['n'] = 8\n", "D", "[{'n': 8}]"},
      {"for k, d in zip([3], [TAB]):\n    d[0] = k\n", "TAB", "[3]"},
      {"D = {'a': [1]}\nfor v in D.values():\n    v.append(9)\n", "D", "{'a': [1, 9]}"},
      {"D = [[1]]\nfor i, v in enumerate(D):\n    v.append(i)\n", "D", "[[1, 0]]"},
      // Arguments by name.
      {"add(v=9, x=TAB)\n", "TAB", "[4, 9]"},
      {"def f(**kw):\n    kw['a'].append(1)\nf(a=TAB)\n", "TAB", "[4, 1]"},
      {"def f(*xs):\n    xs[0].append(1)\nf(TAB)\n", "TAB", "[4, 1]"},
      // Other names inside of functions and methods.
      {"def f(x):\n    y = x\n    y.append(3)\nf(TAB)\n", "TAB", "[4, 3]"},
      {"def f():\n    y = TAB\n    y.append(3)\nf()\n", "TAB", "[4, 3]"},
      {"class C:\n    def __init__(self):\n        self.d = {}\n    def put(self, k):\n"
       "        d = self.d\n        d[k] = k\nc = C()\nc.put(1)\n",
       "c.d", "{1: 1}"},
      // Calls inside of expressions.
      {"m = len(add(TAB))\n", "TAB", "[4, 3]"},
      {"assert TAB.append(1) is None\n", "TAB", "[4, 1]"},
      {"s = f'{TAB.pop()}'\n", "TAB", "[]"},
      {"TAB.append(3) or TAB.append(5)\n", "TAB", "[4, 3, 5]"},
      {"x = [TAB.append(i) for i in range(2)]\n", "TAB", "[4, 0, 1]"},
      {"list(map(TAB.append, [1, 2]))\n", "TAB", "[4, 1, 2]"},
      // Functions' results, and functions by other names.
      {"def get():\n    return TAB\nget().append(3)\n", "TAB", "[4, 3]"},
      {"def get():\n    return TAB\nx = get()\nx.append(3)\n", "TAB", "[4, 3]"},
      {"g = add\ng(TAB)\n", "TAB", "[4, 3]"},
      {"a = TAB.append\na(3)\n", "TAB", "[4, 3]"},
      {"f = lambda v: TAB.append(v)\nf(3)\n", "TAB", "[4, 3]"},
      {"import functools\ng = functools.partial(add, TAB)\ng(6)\n", "TAB", "[4, 6]"},
      // Methods by longer paths.
      {"class C:\n    n = 1\n    def bump(self):\n        self.n += 1\nL = [C()]\nL[0].bump()\n",
       "L[0].n", "2"},
      {"class I:\n    v = 1\n    def up(self):\n        self.v = 5\nclass C:\n"
       "    def __init__(self):\n        self.i = I()\nc = C()\nc.i.up()\n",
       "c.i.v", "5"},
      {"class C:\n    n = 1\n    def __call__(self, v):\n        self.n = v\nc = C()\nc(6)\n",
       "c.n", "6"},
      // Copies that share items.
      {"X = [[1]]\nY = X + []\nY[0].append(3)\n", "X", "[[1, 3]]"},
      {"X = [[1]]\nY = [v for v in X]\nY[0].append(3)\n", "X", "[[1, 3]]"},
      {"X = [[1]]\nY = sorted(X)\nY[0].append(3)\n", "X", "[[1, 3]]"},
      {"X = [1]\nY = [X] * 2\nY[0].append(3)\n", "X", "[1, 3]"},
      {"X = [[1]]\nY = X * 2\nY[0].append(3)\n", "X", "[[1, 3]]"},
      {"X = [1]\nY = X and X\nY.append(3)\n", "X", "[1, 3]"},
      {"X = Y = [1]\nX.append(3)\n", "Y", "[1, 3]"},
      // Bodies of classes, `:=`, defaults, closures.
      {"class X:\n    TAB.append(3)\n    y = len(TAB)\n", "[TAB, X.y]", "[[4, 3], 2]"},
      {"if (y := TAB):\n    y.append(3)\n", "TAB", "[4, 3]"},
      {"N = 4\nif (N := 7) > 3:\n    pass\n", "N", "7"},
      {"def f(x=[]):\n    x.append(1)\n    return len(x)\nf()\nf()\n", "f()", "3"},
      {"def mk():\n    t = []\n    def more():\n        t.append(1)\n        return len(t)\n"
       "    return more\nmore = mk()\nmore()\nmore()\n",
       "more()", "3"},
      {"class K:\n    t = []\n    def __init__(self):\n        self.t.append(1)\nk = [K(), K()]\n",
       "len(K.t)", "2"},
      {"def g(n):\n    if n > 0:\n        TAB.append(n)\n        f(n - 1)\ndef f(n):\n"
       "    if n > 0:\n        g(n - 1)\nf(3)\n",
       "TAB", "[4, 2]"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(ValueOf(table + test.module, test.expr), test.expected) << test.module;
  }
}

// The first to read them may be a loop or branch of the kernel, of which they know nothing.
TEST(Globals, AreNotOfTheRegionThatReadsThem) {
  const std::string module =
      "L = [1]\nN = len(L)\nL += [2]\nD = {}\nfor i in range(3):\n    D[i] = L\n"
      "D[1].append(3)\nclass C:\n    all = []\nC.all.append(L)\nS = set()\nS.add(N)\n";
  for (const std::string loop : {"if True:", "for i in T.serial(4):", "for i in T.Parallel(4):",
                                 "if T.get_thread_binding(0) < 3:"}) {
    const std::string text = InKernel(
        absl::StrCat(loop, "\n    assert False, repr([L, len(D), C.all, S, N])\n"), "", module);
    const auto d = DiagnosticOf(ElaborateText(text).status());
    ASSERT_TRUE(d) << loop;
    EXPECT_THAT(d->message, HasSubstr("[[1, 2, 3], 3, [[1, 2, 3]], {1}, 1]")) << loop;
  }
}

// Of more names than are followed nothing is given that may be wrong.
TEST(Globals, TooManyThatChangeTogetherAreRefused) {
  constexpr int kLists = 1100;
  std::string module = "size = 5\ng = []\n";
  for (int i = 0; i < kLists; ++i) absl::StrAppend(&module, "x", i, " = [g]\n");
  for (int i = 0; i < kLists; ++i) absl::StrAppend(&module, "x", i, ".append(", i, ")\n");
  EXPECT_THAT(ValueOf(module, "len(x1099)"), HasSubstr("too many names together"));
  EXPECT_EQ(ValueOf(module, "size"), "5");
}

// What the language does not have is refused where a kernel would see the result.
TEST(Globals, ChangesThatCannotBeFollowedAreRefused) {
  EXPECT_THAT(ValueOf("N = 4\ndef f():\n    global N\n    N = 8\nf()\n", "N"),
              HasSubstr("global is not in the kernel language"));
  EXPECT_THAT(ValueOf("N = 4\nglobals()['N'] = 8\n", "N"),
              HasSubstr("'globals' is not in the kernel language"));
  EXPECT_THAT(ValueOf("N = 4\nexec('N = 8')\n", "N"),
              HasSubstr("'exec' is not in the kernel language"));
  EXPECT_THAT(ValueOf("class C:\n    n = 1\nc = C()\nsetattr(c, 'n', 2)\n", "c.n"),
              HasSubstr("'setattr' is not in the kernel language"));
  EXPECT_THAT(ValueOf("class C:\n    n = 1\nc = C()\ndel c.n\n", "c.n"),
              HasSubstr("del of an attribute"));
}

// Statements of host code are not run, whatever they name beside a kernel's constants.
TEST(Globals, HostCodeIsLeftAlone) {
  const std::string host =
      "import argparse\nimport torch\nM = 64\nN = 2 * M\ndtype = T.float16\n"
      "args = argparse.ArgumentParser().parse_args()\nargs.dtype = dtype\nargs.size = M\n"
      "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.flag = 3\n"
      "class Model(torch.nn.Module):\n    BLOCK = 8\n    def __init__(self, sizes):\n"
      "        super().__init__()\n        self.sizes = sizes\n    def set(self):\n"
      "        return self.sizes\nsizes = [64]\nmodel = Model(sizes)\nmodel.to('cuda')\n"
      "model.set()\nmodel.train(True)\n"
      "def run(m, n):\n    return torch.compile(m)(n)\nout = run(M, N)\nout['x'] = 3\n"
      "results = []\nresults.append(run(M, N))\nA = torch.randn(M, N)\nA.normal_()\nA[0] = 1\n";
  EXPECT_EQ(ValueOf(host, "[M, N, dtype, torch.float16, sizes]"),
            "[64, 128, float16, float16, [64]]");
}

TEST(Globals, SoAreNamesOfAFunctionAroundAKernel) {
  const std::string text =
      "import tilelang\nimport tilelang.language as T\ndef outer():\n    sizes = [1]\n"
      "    other = sizes\n    other.append(2)\n    table = {'a': {}}\n    table['a']['b'] = 5\n"
      "    def grow(x):\n        x.append(7)\n    grow(sizes)\n    host = unknown(sizes)\n"
      "    @tilelang.jit\n    def k(A: T.Tensor((8,), 'int32')):\n        with T.Kernel(1):\n"
      "            A[0] = sum(sizes) * 100 + table['a']['b']\n    k(host)\n";
  EXPECT_THAT(Elaborated(text), HasSubstr("A[0] = 1005"));
}

constexpr char kLayers[] = R"(
import torch
scale = 100
from torch import nn
import tilelang
import tilelang.language as T

class Layer(nn.Module):
    BLOCK = 16

    def __init__(self, n, scale=2, dtype="float32"):
        super().__init__()
        self.n, self.dtype = n, dtype
        self.weight = nn.Parameter(torch.randn(n))
        self.scale = scale * 3
        self.kernel = self.build()

    @staticmethod
    @tilelang.jit(out_idx=[-1])
    def shared(n: int):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, Layer.BLOCK), threads=32) as b:
                T.copy(A[b * 16], B[b * 16:b * 16 + 16])
        return main

    def build(self, extra=1):
        @T.prim_func
        def main(A: T.Tensor((self.n,), self.dtype)):
            with T.Kernel(1, threads=32):
                A[0] = self.scale + extra
        return main

    def jitted(self):
        factor = self.scale + scale
        @tilelang.jit
        def inner(block=8):
            @T.prim_func
            def main(A: T.Tensor((self.n, block), "float32")):
                with T.Kernel(1, threads=32):
                    A[0, 0] = factor
            return main
        return inner

    def broken(self):
        @T.prim_func
        def main(A: T.Tensor((self.n,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = self.weight
        return main

    def forward(self, x):
        return self.kernel(x)
)";

TEST(ClassKernels, AreListedByTheirPath) {
  const auto names = Kernel::List(MakeSource(kLayers));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names,
              ElementsAre("Layer.shared", "Layer.build", "Layer.jitted.inner", "Layer.broken"));
}

std::string ProgramOf(const std::string& entry, const Arguments& arguments) {
  const auto program = ElaborateText(kLayers, arguments, "", entry);
  return program.ok() ? ir::ToString(*program) : std::string(program.status().message());
}

TEST(ClassKernels, TakeTheArgumentsOfTheObjectToo) {
  EXPECT_THAT(ProgramOf("Layer.shared", {{"n", "64"}}), HasSubstr("float32[64]"));
  EXPECT_THAT(ProgramOf("Layer.build", {{"n", "8"}, {"dtype", "int32"}}),
              testing::AllOf(HasSubstr("int32[8]"), HasSubstr("A[0] = 7")));
  EXPECT_THAT(ProgramOf("Layer.build", {{"n", "8"}, {"scale", "1"}, {"extra", "4"}}),
              HasSubstr("A[0] = 7"));
  EXPECT_THAT(ProgramOf("Layer.jitted.inner", {{"n", "4"}}),
              testing::AllOf(HasSubstr("float32[4, 8]"), HasSubstr("A[0, 0] = 106")));
  const auto kernel = Kernel::Parse(MakeSource(kLayers), "Layer.build");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<std::string> params;
  for (const ParamInfo& p : kernel->params()) params.push_back(p.name);
  EXPECT_THAT(params, ElementsAre("extra", "n", "scale", "dtype"));
}

TEST(ClassKernels, SayWhatAnObjectLacks) {
  EXPECT_THAT(ProgramOf("Layer.build", {}), HasSubstr("parameter 'n' of '__init__' has no value"));
  EXPECT_THAT(ProgramOf("Layer.broken", {{"n", "8"}}),
              testing::AllOf(HasSubstr("self.weight"), HasSubstr("nn.Parameter")));
  EXPECT_THAT(ProgramOf("Layer.built", {{"n", "8"}}), HasSubstr("did you mean 'Layer.build'?"));
}

}  // namespace
}  // namespace kiln::lang
