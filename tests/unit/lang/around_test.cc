// Files as they are: entries inside functions, what asks of the machine, tensors of the host, keys
// of pass_configs, import paths.
#include "compiler/lang/pass_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kTuned[] = R"(
import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner

def reference(a): return a @ a

def best(M, N, with_roller=False, backend="event"):
    dtype = T.float16 if with_roller else T.float32
    half = N // 2
    configs = host_only(M)
    def kernel(rows=None, threads=128):
        @T.prim_func
        def main(A: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(M, rows), threads=threads) as b:
                T.fill(A[b * rows:(b + 1) * rows, 0:half], 1)
        return main
    tuner = AutoTuner.from_kernel(kernel=kernel, configs=configs).set_profile_args(backend=backend)
    return tuner.run(warmup=3)

def make():
    @tilelang.jit(out_idx=[-1])
    def inner(n):
        @T.prim_func
        def main(A: T.Tensor((n,), T.float32)):
            with T.Kernel(1):
                T.clear(A)
        return main
    return inner

def direct(M, bm=32):
    def inside(bm):
        @T.prim_func
        def main(A: T.Tensor((M, bm), T.float32)):
            with T.Kernel(1):
                T.clear(A)
        return main
    return inside(bm)
)";

TEST(Around, KernelsInsideOfFunctionsAreListedByTheirPath) {
  const auto names = Kernel::List(MakeSource(kTuned));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("best.kernel", "make.inner", "direct"));
}

TEST(Around, AnInnerKernelTakesTheArgumentsOfBothFunctions) {
  const auto kernel = Kernel::Parse(MakeSource(kTuned), "best.kernel");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<std::string> params;
  for (const ParamInfo& p : kernel->params()) params.push_back(p.name);
  EXPECT_THAT(params, ElementsAre("rows", "threads", "M", "N", "with_roller", "backend"));
  const Arguments arguments = {{"M", "64"}, {"N", "32"}, {"rows", "8"}};
  const auto program = Elaborate(*kernel, arguments, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const std::string text = ir::ToString(*program);
  EXPECT_THAT(text, HasSubstr("float32[64, 32]"));
  EXPECT_THAT(text, HasSubstr("0 : +16]")) << text;  // what `half` says; no host code was run

  Arguments half = arguments;
  half["with_roller"] = "True";
  EXPECT_THAT(ir::ToString(*Elaborate(*kernel, half, {})), HasSubstr("float16[64, 32]"));
  const auto missing = Elaborate(*kernel, {{"M", "64"}, {"rows", "8"}}, {});
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("parameter 'N' of 'best' has no value"));
  const auto unknown = Elaborate(*kernel, {{"M", "64"}, {"P", "8"}}, {});
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("has no parameter 'P'"));
}

TEST(Around, AnInnerKernelMayBeUnderJitAndItsOuterFunctionOneItself) {
  const auto inner = ElaborateText(kTuned, {{"n", "16"}}, "", "make.inner");
  ASSERT_TRUE(inner.ok()) << inner.status().message();
  EXPECT_TRUE(inner->params[0].is_output);
  EXPECT_EQ(inner->name, "inner");
  const auto direct = ElaborateText(kTuned, {{"M", "4"}}, "", "direct");
  EXPECT_TRUE(direct.ok()) << direct.status().message();
  const auto by_path = ElaborateText(kTuned, {{"M", "4"}, {"bm", "2"}}, "", "direct.inside");
  ASSERT_TRUE(by_path.ok()) << by_path.status().message();
  EXPECT_THAT(ir::ToString(*by_path), HasSubstr("[4, 2]"));
  const auto none = ElaborateText(kTuned, {}, "", "best.kernal");
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("did you mean 'best.kernel'?"));
}

TEST(Around, TheOnlyKernelOfAFileMayStandInAFunction) {
  const auto program = ElaborateText(
      "import tilelang\nimport tilelang.language as T\ndef test():\n    M = 4\n    @tilelang.jit\n"
      "    def k(a):\n        a: T.Tensor((M,), 'int32')\n        with T.Kernel(1):\n"
      "            T.clear(a)\n    run(k)\n");
  EXPECT_TRUE(program.ok()) << program.status().message();
}

// The value of an expression in a kernel for the test's GPU.
std::string ValueOf(const std::string& expr, const std::string& module) {
  const auto d = DiagnosticOf(
      ElaborateText(InKernel(absl::StrCat("assert False, repr(", expr, ")\n"), "", module))
          .status());
  return d ? d->message.substr(d->message.find(": ") + 2) : "no diagnostic";
}

TEST(Around, QuestionsAboutTheMachineAreAnsweredFromTheTarget) {
  const std::string imports =
      "import torch\nfrom tilelang.carver.arch import driver\n"
      "from tilelang.language.fp8 import determine_fp8_type\n"
      "from tilelang.utils.target import determine_target\n";
  const std::pair<const char*, const char*> kCases[] = {
      {"driver.get_num_sms()", "100"},
      {"tilelang.carver.arch.driver.get_num_sms()", "100"},
      {"torch.cuda.is_available()", "True"},
      {"torch.cuda.get_device_capability()", "(9, 0)"},
      {"torch.cuda.get_device_capability(torch.cuda.current_device())[0]", "9"},
      {"torch.cuda.get_device_properties(0).multi_processor_count", "100"},
      {"torch.cuda.get_device_properties(torch.device('cuda:0')).major", "9"},
      {"torch.cuda.get_device_name()", "'test GPU'"},
      {"driver.get_max_dynamic_shared_size_bytes()", "204800"},
      {"determine_target('auto')", "'cuda'"},
      {"determine_target('hip')", "'hip'"},
      {"determine_fp8_type()", "float8_e4m3fn"},
      {"determine_fp8_type('e5m2')", "float8_e5m2"},
      {"torch.version.hip", "None"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr, imports), expected) << expr;
}

TEST(Around, WithoutATargetSuchQuestionsAreRefused) {
  const auto kernel =
      Kernel::Parse(MakeSource(InKernel("v[0] = driver.get_num_sms()", "",
                                        "from tilelang.carver.arch import driver\n")),
                    "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto program = Elaborate(*kernel, {}, {});
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("asks of the target"));
  EXPECT_TRUE(Elaborate(*kernel, {}, {}, TestTarget()).ok());
}

TEST(Around, FactsOfATargetAreThoseOfItsRecord) {
  const TargetFacts hopper = FactsOf(*target::NamedArch("sm_90a"));
  EXPECT_TRUE(hopper.gpu);
  EXPECT_EQ(hopper.cores, target::NamedArch("sm_90a")->cores);
  EXPECT_EQ(hopper.major * 10 + hopper.minor, 90);
  const TargetFacts ampere = FactsOf(*target::NamedArch("sm_86"));
  EXPECT_EQ(ampere.major * 10 + ampere.minor, 86);
  const TargetFacts blackwell = FactsOf(*target::NamedArch("sm_100a"));
  EXPECT_EQ(blackwell.major * 10 + blackwell.minor, 100);
  const TargetFacts cpu = FactsOf(*target::NamedArch("x86-64-v4"));
  EXPECT_FALSE(cpu.gpu);
  EXPECT_EQ(cpu.cores, 2);
  EXPECT_EQ(cpu.major * 10 + cpu.minor, 80);
}

TEST(Around, TensorsOfTheHostHaveShapesAndTypes) {
  const std::string tensors =
      "import torch\nimport numpy as np\n"
      "A = torch.rand(256, 512, device='cuda', dtype=torch.float16) * 2 - 1\n"
      "B = torch.randn((1024, 512)).to('cuda', torch.bfloat16)\nM, K = A.shape\nN, K2 = B.shape\n"
      "Z = np.zeros((3, 4), np.float32)\nI = torch.randint(0, 5, (7,), dtype=torch.int32)\n";
  const std::pair<const char*, const char*> kCases[] = {
      {"(M, N, K, K2)", "(256, 1024, 512, 512)"},
      {"A.dtype", "float16"},
      {"B.dtype", "bfloat16"},
      {"(A @ B.T).shape", "(256, 1024)"},
      {"A.size(0)", "256"},
      {"A.numel()", "131072"},
      {"A.view(-1, 64).shape", "(2048, 64)"},
      {"A.transpose(0, 1).shape", "(512, 256)"},
      {"(A.float() + torch.ones(512)).dtype", "float32"},
      {"len(A)", "256"},
      {"A.half().ndim", "2"},
      {"torch.empty_like(A).shape", "(256, 512)"},
      {"Z.shape + I.shape", "(3, 4, 7)"},
      {"Z.dtype", "float32"},
      {"np.random.rand(2, 3).dtype", "float64"},
      {"(I / 2).dtype", "float32"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr, tensors), expected) << expr;
  const std::pair<const char*, const char*> kRefused[] = {
      {"A[0, 0]", "an element of a tensor of the host"},
      {"A.max()", "'max' of a tensor of the host"},
      {"A.tolist()", "'tolist' of a tensor of the host"},
      {"1 if A else 2", "cannot be a condition"},
      {"A + 'x'", "arithmetic on a tensor of the host"},
      {"A + B", "do not fit each other"},
      {"A.reshape(3, 3)", "another number of elements"},
  };
  for (const auto& [expr, message] : kRefused) {
    EXPECT_THAT(Elaborated(InKernel(absl::StrCat("q = ", expr), "", tensors)), HasSubstr(message))
        << expr;
  }
}

std::string WithOptions(const std::string& dict) {
  return "import tilelang\nimport tilelang.language as T\nfrom tilelang.transform import "
         "PassConfigKey\n@tilelang.jit(pass_configs={" +
         dict +
         "})\ndef f(a):\n    a: T.Tensor((4,), 'int32')\n    with T.Kernel(1):\n        "
         "T.clear(a)\n";
}

TEST(Around, EveryKeyOfPassConfigsHasItsPlace) {
  std::vector<std::string> honoured;
  for (const PassOptionRule& rule : PassOptionRules()) honoured.emplace_back(rule.name);
  for (const PassConfigKey& key : PassConfigKeys()) {
    SCOPED_TRACE(key.name);
    if (absl::string_view(key.text) == "tl.device_compile_flags") continue;  // text, not a number
    const bool refused = *key.refused != '\0';
    for (const std::string& spelling :
         {absl::StrCat("PassConfigKey.", key.name), absl::StrCat("'", key.text, "'"),
          absl::StrCat("PassConfigKey.", key.name, ".value")}) {
      const auto program = ElaborateText(WithOptions(absl::StrCat(spelling, ": ", "False")));
      const bool level = absl::string_view(key.text) == "tl.ptxas_register_usage_level";
      EXPECT_EQ(program.ok(), !refused || level) << program.status().message();
      if (!program.ok()) {
        EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented);
        EXPECT_THAT(std::string(program.status().message()), HasSubstr(key.text));
        EXPECT_TRUE(ElaborateText(WithOptions(absl::StrCat(spelling, ": ", key.harmless))).ok());
        continue;
      }
      const bool is_rule = testing::Value(std::string(key.text), testing::AnyOfArray(honoured));
      EXPECT_EQ(program->attrs.count(key.text), is_rule ? 1u : 0u);
    }
  }
  EXPECT_TRUE(ElaborateText(WithOptions("'tl.layout_visualization_formats': 'svg', "
                                        "'tl.Simplify': {'enable_simplify_let_inline': False}"))
                  .ok());
  EXPECT_FALSE(ElaborateText(WithOptions("'tl.config_index_bitwidth': 64")).ok());
  const auto flags = ElaborateText(
      WithOptions("PassConfigKey.TL_DEVICE_COMPILE_FLAGS: ['-DX=1', '--use_fast_math']"));
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->attrs.at("tl.enable_fast_math"), "true");
}

TEST(Around, BodiesMaySayTheirOptions) {
  const auto text = [](const std::string& decorated) {
    return "import tilelang\nimport tilelang.language as T\n@tilelang.jit" + decorated +
           "\ndef f(a):\n    T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: "
           "True})\n    T.annotate_compile_flags(['-O2'])\n    a: T.Tensor((4,), 'int32')\n"
           "    with T.Kernel(1):\n        T.annotate_min_blocks_per_sm(2)\n        T.clear(a)\n";
  };
  const auto own = ElaborateText(text(""));
  ASSERT_TRUE(own.ok()) << own.status().message();
  EXPECT_EQ(own->attrs.at("tl.enable_fast_math"), "true");
  EXPECT_EQ(own->attrs.at("compile_flags"), "-O2");
  const auto over = ElaborateText(text("(pass_configs={'tl.enable_fast_math': False})"));
  ASSERT_TRUE(over.ok()) << over.status().message();
  EXPECT_EQ(over->attrs.at("tl.enable_fast_math"), "false");
}

TEST(Around, PassConfigsOfAConfigAreOptions) {
  const auto kernel = Kernel::Parse(
      MakeSource("import tilelang\nimport tilelang.language as T\n@tilelang.autotune(configs="
                 "[{'n': 4, 'pass_configs': {tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: "
                 "w, 'tl.dump_ir_path': 'x'}} for w in (True, False)])\n@tilelang.jit\n"
                 "def f(a, n=1):\n    a: T.Tensor((n,), 'int32')\n    with T.Kernel(1):\n"
                 "        T.clear(a)\n"),
      "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto configs = AutotuneConfigs(*kernel, {});
  ASSERT_TRUE(configs.ok()) << configs.status().message();
  ASSERT_EQ(configs->size(), 2u);
  EXPECT_EQ((*configs)[0].ToString(), "n=4,tl.disable_warp_specialized=True");
  const auto program = Elaborate(*kernel, {}, (*configs)[1]);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(program->attrs.at("tl.disable_warp_specialized"), "false");
}

TEST(Around, AModuleNameKeepsItsMeaningPastABranchThatIsNotTaken) {
  const std::string text =
      "tiles = 12 % 5\nif tiles > 5:\n    tiles += 100\nif tiles < 5:\n    tiles += 20\n"
      "if tiles > 50:\n    tiles = 0\n";
  EXPECT_EQ(ValueOf("tiles", text), "22");
}

TEST(Around, ImportsReachWhatThereIs) {
  const std::string text = InKernel(
      "s = T.alloc_shared((64, 64), 'float16')\nT.annotate_layout({s: "
      "make_mma_swizzle_layout(s)})\n"
      "T.clear(s)\nv[0] = NumSMs",
      "",
      "from tilelang.cuda.intrinsics import make_mma_swizzle_layout, no_such_thing\n"
      "from tilelang.tileop.base import GemmWarpPolicy\nimport tilelang.carver.arch.driver as d\n"
      "NumSMs = d.get_num_sms()\n");
  EXPECT_THAT(Elaborated(text), HasSubstr("v[0] = 100"));
}

TEST(Around, MethodsOfCompileTimeData) {
  const std::pair<const char*, const char*> kCases[] = {
      {"(64).bit_length()", "7"},
      {"(0).bit_length()", "0"},
      {"(-5).bit_length()", "3"},
      {"(255).bit_count()", "8"},
      {"{'a': 1}.pop('a')", "1"},
      {"{'a': 1}.pop('b', 3)", "3"},
      {"{'a': 1}.setdefault('a', 4)", "1"},
      {"'cuda:0'.find(':')", "4"},
      {"'12'.isdigit()", "True"},
      {"(lambda l: (l.sort(reverse=True), l.reverse(), l.remove(2), l)[-1])([2, 3, 1])", "[1, 3]"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr, ""), expected) << expr;
}

// Of parameters: what constants say, in a function's own scope; nothing where more would be needed.
TEST(Around, DefaultsAreWhatTheirConstantsSay) {
  const std::string text = R"(
import tilelang
import tilelang.language as T
from tilelang.carver.arch import driver

BLOCK = 64
STAGES = [1, 2, 3]
DTYPE = T.bfloat16
MODE = "rn"
FAST = True

def helper(v):
    return v

def slow():
    return sum([i for i in range(10000000)])

@tilelang.jit
def kernel(n, a=BLOCK, b=BLOCK * 2 + len(STAGES), c=DTYPE, d=MODE, e=(BLOCK, 1), f=FAST, g=-BLOCK,
           h=helper, i=STAGES, j=driver.get_num_sms(), k=ABSENT, l=slow(), m=2.5, o=T.float16):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32")):
        with T.Kernel(4, threads=32) as b:
            x[0] = a
    return main

def outer(BLOCK=8, MODE=BLOCK):
    @T.prim_func
    def inner(x: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=32) as b:
            x[0] = BLOCK

BLOCK = 32  # too late for the defaults above
)";
  const auto kernel = Kernel::Parse(MakeSource(text), "kernel");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::map<std::string, std::string> texts;
  for (const ParamInfo& p : kernel->params()) {
    EXPECT_EQ(p.has_default, p.name != "n");
    if (p.default_text) texts[p.name] = *p.default_text;
  }
  const std::map<std::string, std::string> expected = {
      {"a", "64"},   {"b", "131"}, {"c", "bfloat16"}, {"d", "\"rn\""}, {"e", "(64, 1)"},
      {"f", "True"}, {"g", "-64"}, {"m", "2.5"},      {"o", "float16"}};
  EXPECT_EQ(texts, expected);
  // A name of the function around it is not the module's.
  const auto inner = Kernel::Parse(MakeSource(text), "outer.inner");
  ASSERT_TRUE(inner.ok()) << inner.status();
  for (const ParamInfo& p : inner->params()) {
    if (p.name == "BLOCK") EXPECT_EQ(p.default_text, "8");
    if (p.name == "MODE") EXPECT_EQ(p.default_text, std::nullopt);
  }
}

// Bounds that are names: the extent of the slice is what they differ by.
TEST(Around, ExtentsSeeThroughNames) {
  const std::string body =
      "low = bx * 16 if p == 4 else 0\nfirst = low + (n - n)\nhigh = first + 16\n"
      "s = T.alloc_shared((16, 64), 'float32')\nT.copy(x[first:high, :], s)";
  EXPECT_THAT(Elaborated(InKernel(body)), HasSubstr("copy x[")) << Elaborated(InKernel(body));
  // Not through what may have changed in between.
  const std::string loads =
      "low = v[0]\nv[0] = 5\nhigh = v[0] + 16\ns = T.alloc_shared((16, 64), 'float32')\n"
      "T.copy(x[low:high, :], s)";
  EXPECT_THAT(Elaborated(InKernel(loads)), HasSubstr("between shapes that differ"));
}

}  // namespace
}  // namespace kiln::lang
