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

// What the language does not have is refused where a kernel would see the result.
TEST(Globals, ChangesThatCannotBeFollowedAreRefused) {
  EXPECT_THAT(ValueOf("N = 4\ndef f():\n    global N\n    N = 8\nf()\n", "N"),
              HasSubstr("global is not in the kernel language"));
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
