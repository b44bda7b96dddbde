// Where vectors, moved copies and chosen layouts could change what a kernel means: branches that
// change what they test, indices that change on the way, lanes that a branch leaves out, values
// that a type cannot hold. Each kernel is interpreted, interpreted again after every pass, and run
// as machine code; all must agree.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/compiled_program.h"

namespace kiln {
namespace {

using Values = std::map<std::string, std::function<double(int64_t)>>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ir::Program Elaborate(const std::string& parameters, const std::string& body,
                      const std::string& blocks) {
  auto file = std::make_shared<SourceFile>();
  file->path = "kernel.py";
  file->text = absl::StrCat("import tilelang.language as T\n\n\n@T.prim_func\ndef kernel(",
                            parameters, "):\n    with T.Kernel(", blocks, ", threads=32) as bx:\n");
  for (absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&file->text, "        ", line, "\n");
  }
  const auto kernel = lang::Kernel::Parse(file, "");
  EXPECT_TRUE(kernel.ok()) << kernel.status().message() << "\n" << file->text;
  if (!kernel.ok()) return {};
  const auto program = lang::Elaborate(*kernel, {}, {});
  EXPECT_TRUE(program.ok()) << program.status().message() << "\n" << file->text;
  return program.ok() ? *program : ir::Program();
}

// Arguments of which those in `values` are set and the others random.
std::vector<interp::Tensor> Arguments(const ir::Program& program, const Values& values) {
  auto tensors = interp::RandomArguments(program, {}, 3);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  for (size_t i = 0; i < tensors->size(); ++i) {
    const auto it = values.find(program.params[i].name);
    if (it == values.end()) continue;
    const interp::TensorView view = (*tensors)[i].View();
    for (int64_t j = 0; j < view.elements(); ++j) view.Set(j, it->second(j));
  }
  return *std::move(tensors);
}

absl::Status Interpret(const ir::Program& program, bool clip,
                       const std::vector<interp::Tensor>& tensors) {
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  interp::Options options;
  options.clip_global = clip;
  return interp::Run(program, views, options).status();
}

void ExpectSame(const std::vector<interp::Tensor>& got, const std::vector<interp::Tensor>& want,
                double tolerance, const std::string& where) {
  for (size_t i = 0; i < want.size(); ++i) {
    const auto c = interp::Compare(got[i].View(), want[i].View(), {tolerance, tolerance});
    EXPECT_TRUE(c.ok()) << where << ", tensor " << i << ": " << c.ToString(want[i].shape());
  }
}

class SemanticsTest : public ::testing::TestWithParam<int> {
 protected:
  void Expect(const std::string& parameters, const std::string& body, const Values& values = {},
              const std::string& blocks = "1", double tolerance = 0) {
    SCOPED_TRACE(body);
    const ir::Program program = Elaborate(parameters, body, blocks);
    if (!program.body.defined()) return;
    const std::vector<interp::Tensor> want = Arguments(program, values);
    const absl::Status reference = Interpret(program, true, want);
    ASSERT_TRUE(reference.ok()) << reference;
    passes::PassContext context = testing::HostPassContext(GetParam());
    context.amx_bf16 = false;
    ir::Program current = program;
    bool guarded = false;
    for (const passes::Pass& pass : passes::CpuPipeline()) {
      const auto next = pass.run(current, context);
      ASSERT_TRUE(next.ok()) << pass.name << ": " << next.status();
      current = *next;
      guarded |= std::string(pass.name) == "guard-accesses";
      ASSERT_TRUE(ir::Verify(current).ok()) << pass.name << ": " << ir::Verify(current);
      const std::vector<interp::Tensor> got = Arguments(program, values);
      const absl::Status ran = Interpret(current, !guarded, got);
      ASSERT_TRUE(ran.ok()) << pass.name << ": " << ran << "\n" << ir::ToString(current);
      ExpectSame(got, want, tolerance, absl::StrCat("after ", pass.name));
      ASSERT_FALSE(HasFailure()) << ir::ToString(current);
    }
    const auto compiled = testing::CompiledProgram::Compile(program, context);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const std::vector<interp::Tensor> got = Arguments(program, values);
    std::vector<void*> pointers;
    for (const interp::Tensor& t : got) pointers.push_back(t.data());
    ASSERT_EQ(compiled->Run(pointers), 0);
    ExpectSame(got, want, tolerance, "as machine code");
  }
};

constexpr char kAB[] = R"(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32"))";

TEST_P(SemanticsTest, BranchesThatChangeWhatTheyTest) {
  Expect(kAB, R"(
S = T.alloc_shared((100,), "float32")
T.copy(A, S)
for i in T.Parallel(100):
    if S[i] > 0.0:
        S[i] = -1.0
    else:
        S[i] = 5.0
T.copy(S, B))");
  Expect(kAB, R"(
S = T.alloc_shared((100,), "float32")
R = T.alloc_shared((100,), "float32")
T.copy(A, S)
T.fill(R, 7.0)
for i in T.Parallel(100):
    if S[i] > 0.0:
        S[i] = -1.0
        if S[i] + R[i] > 6.5:
            R[i] = 1.0
        else:
            R[i] = R[i] + 3.0
            S[i] = 2.0
for i in T.Parallel(100):
    B[i] = S[i] * 16.0 + R[i])");
}

TEST_P(SemanticsTest, BranchesOnBoundValues) {
  Expect(kAB, R"(
for i in T.Parallel(100):
    x = A[i] * 2.0
    if x > 0.5:
        B[i] = x
    else:
        B[i] = 0.0)");
}

TEST_P(SemanticsTest, IndicesThatChangeBeforeTheCopyOut) {
  constexpr char kTensors[] =
      R"(A: T.Tensor((256,), "float32"), I: T.Tensor((4,), "int32"), B: T.Tensor((256,), "float32"))";
  const Values indices = {{"I", [](int64_t i) { return 3 - i; }}};
  Expect(kTensors, R"(
S = T.alloc_shared((64,), "float32")
n = T.alloc_var("int32")
n = 0
for i in T.Parallel(64):
    S[i] = A[bx * 64 + i] * 2.0
n = bx
T.copy(S, B[n * 64]))",
         indices, "4");
  Expect(kTensors, R"(
S = T.alloc_shared((64,), "float32")
for i in T.Parallel(64):
    S[i] = A[bx * 64 + i] * 2.0
off = I[bx] * 64
T.copy(S, B[off]))",
         indices, "4");
}

TEST_P(SemanticsTest, IndicesThatChangeAfterTheCopyIn) {
  constexpr char kTensors[] = R"(A: T.Tensor((4, 96), "float32"), B: T.Tensor((4,), "float32"))";
  Expect(kTensors, R"(
S = T.alloc_shared((1, 96), "float32")
r = T.alloc_fragment((1,), "float32")
n = T.alloc_var("int32")
n = 1
T.copy(A[n % 4, 0], S)
n = 2
T.reduce_max(S, r, dim=1)
T.copy(r, B[0]))");
  Expect(kTensors, R"(
S = T.alloc_shared((1, 96), "float32")
r = T.alloc_fragment((1,), "float32")
n = T.alloc_var("int32")
n = 1
for j in T.serial(3):
    T.copy(A[n % 4, 0], S)
    n = n + j
    T.reduce_max(S, r, dim=1)
    T.copy(r, B[j]))");
}

TEST_P(SemanticsTest, LanesThatABranchLeavesOutTouchNothing) {
  constexpr char kTensors[] =
      R"(A: T.Tensor((300,), "float32"), I: T.Tensor((100,), "int32"), B: T.Tensor((100,), "float32"))";
  const Values wild = {{"I", [](int64_t i) { return i % 3 == 0 ? 1000000000.0 - i : i * 2; }}};
  Expect(kTensors, R"(
S = T.alloc_shared((256,), "float32")
T.copy(A[0:256], S)
for i in T.Parallel(100):
    B[i] = T.if_then_else(I[i] >= 0 and I[i] < 256, S[I[i]], 0.5))",
         wild);
  Expect(kTensors, R"(
S = T.alloc_shared((256,), "float32")
T.copy(A[0:256], S)
for i in T.Parallel(100):
    if I[i] < 256:
        B[i] = T.if_then_else(I[i] > 20, S[I[i]], T.if_then_else(S[I[i]] > 0.0, S[i], 2.0))
    else:
        B[i] = 3.0)",
         wild);
  Expect(kTensors, R"(
S = T.alloc_shared((256,), "float32")
T.copy(A[0:256], S)
n = T.alloc_var("int32")
n = 1000000000
for i in T.Parallel(100):
    if I[i] < -5:
        B[i] = S[n]
    else:
        B[i] = S[i])",
         wild);
}

TEST_P(SemanticsTest, LanesThatABranchLeavesOutDivideByNothing) {
  for (const std::string type : {"int32", "int64", "uint32", "int8"}) {
    const std::string tensors =
        absl::StrCat("A: T.Tensor((100,), \"", type, "\"), C: T.Tensor((100,), \"", type,
                     "\"), B: T.Tensor((100,), \"", type, "\")");
    const Values nonzero = {{"C", [](int64_t i) { return i % 5 + 1; }}};
    Expect(tensors, "for i in T.Parallel(100):\n    B[i] = A[i] // C[i] + A[i] % C[i]", nonzero);
    const Values zeros = {{"C", [](int64_t i) { return i % 3; }}};
    Expect(tensors, R"(
for i in T.Parallel(100):
    if C[i] != 0:
        B[i] = A[i] // C[i]
    else:
        B[i] = 7)",
           zeros);
    Expect(tensors, R"(
for i in T.Parallel(100):
    B[i] = T.if_then_else(C[i] != 0, A[i] // C[i], T.if_then_else(A[i] != 0, 5 % A[i], 9)))",
           zeros);
    Expect(tensors, R"(
for i in T.serial(100):
    c = C[i]
    a = A[i]
    B[i] = T.if_then_else(c != 0, a % c, 9))",
           zeros);
  }
  Expect(R"(A: T.Tensor((40,), "int32"), C: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32"))",
         "for i in T.Parallel(40):\n    B[i] = A[i] // C[i] + A[i] % C[i]",
         {{"A", [](int64_t i) { return i % 2 ? -2147483648.0 : i - 20; }},
          {"C", [](int64_t i) { return i % 4 < 2 ? -1 : -3; }}});
}

TEST_P(SemanticsTest, ReductionsOfEveryIntegerType) {
  const std::map<std::string, double> high = {
      {"int8", 100},         {"uint8", 200},         {"int16", 30000},  {"uint16", 60000},
      {"int32", 2000000000}, {"uint32", 4000000000}, {"int64", 0x1p62}, {"uint64", 0x1.8p63}};
  for (const auto& [type, top] : high) {
    const bool is_signed = type[0] == 'i';
    const auto value = [top = top, is_signed](int64_t i) {
      const double part = static_cast<double>((i * 37) % 64) / 64;
      return is_signed ? -top * (0.25 + part / 2) : top * (0.25 + 0.75 * part);
    };
    for (const std::string op : {"max", "min"}) {
      for (const int dim : {0, 1}) {
        const std::string kept = dim == 0 ? "70" : "8";
        Expect(absl::StrCat("A: T.Tensor((8, 70), \"", type, "\"), B: T.Tensor((", kept, ",), \"",
                            type, "\")"),
               absl::StrCat("S = T.alloc_shared((8, 70), \"", type, "\")\nr = T.alloc_fragment((",
                            kept, ",), \"", type, "\")\nT.copy(A, S)\nT.reduce_", op,
                            "(S, r, dim=", dim, ")\nT.copy(r, B)"),
               {{"A", value}});
      }
    }
  }
}

TEST_P(SemanticsTest, ANumberWinsOverNan) {
  const Values some = {{"A", [](int64_t i) { return i % 3 == 1 ? kNan : 4.0 - i % 7; }},
                       {"C", [](int64_t i) { return i % 2 == 1 ? kNan : i % 5 - 2.0; }}};
  Expect(R"(A: T.Tensor((100,), "float32"), C: T.Tensor((100,), "float32"),
           B: T.Tensor((4, 100), "float32"))",
         R"(
for i in T.Parallel(100):
    B[0, i] = T.max(A[i], 0.0)
    B[1, i] = T.max(0.0, A[i])
    B[2, i] = T.min(A[i], C[i])
    B[3, i] = T.max(T.min(C[i], A[i]), A[i] + C[i]))",
         some);
  const Values rows = {
      {"A", [](int64_t i) { return i / 70 == 2 || i % 11 == 3 ? kNan : 4.0 - i % 7; }},
      {"B", [](int64_t i) { return i % 2 ? kNan : 3.0; }}};
  for (const std::string op : {"max", "min", "absmax"}) {
    for (const std::string clear : {"True", "False"}) {
      for (const int dim : {0, 1}) {
        const std::string kept = dim == 0 ? "70" : "8";
        Expect(absl::StrCat("A: T.Tensor((8, 70), \"float32\"), B: T.Tensor((", kept,
                            ",), \"float32\")"),
               absl::StrCat("S = T.alloc_shared((8, 70), \"float32\")\nr = T.alloc_fragment((",
                            kept, ",), \"float32\")\nT.copy(A, S)\nT.copy(B, r)\nT.reduce_", op,
                            "(S, r, dim=", dim, ", clear=", clear, ")\nT.copy(r, B)"),
               rows);
      }
    }
  }
}

TEST_P(SemanticsTest, FloatsOutOfRangeSaturate) {
  for (const std::string type : {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"}) {
    Expect(absl::StrCat("A: T.Tensor((100,), \"float32\"), B: T.Tensor((2, 100), \"", type, "\")"),
           absl::StrCat("for i in T.Parallel(100):\n    B[0, i] = T.cast(A[i], \"", type,
                        "\")\nfor i in T.serial(100):\n    B[1, i] = T.cast(A[i], \"", type, "\")"),
           {{"A", [](int64_t i) {
               return i == 7 ? kNan : (i % 2 ? -1.0 : 1.0) * std::pow(2.0, 0.75 * i - 2);
             }}});
  }
}

// Ties, subnormal and huge numbers; every float8 back to float32, and as bits.
TEST_P(SemanticsTest, Float8sAreRoundedToEvenAndSaturate) {
  constexpr double kSpecial[] = {kNan, HUGE_VAL, -HUGE_VAL, 0.0, -0.0, 448, 464, 61440, -1e30};
  const auto value = [&](int64_t i) {
    if (i < 9) return kSpecial[i];
    return (i % 2 ? -1.0 : 1.0) *
           std::ldexp(static_cast<double>(64 + i / 2 % 64), static_cast<int>(i / 128) - 26);
  };
  for (const std::string type : {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                                 "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1_unpacked"}) {
    for (const std::string loop : {"Parallel", "serial"}) {
      const std::string body = R"(for i in T.LOOP(6000):
    B[i] = T.cast(A[i], "TYPE")
for i in T.LOOP(256):
    C[i] = T.cast(T.reinterpret(T.cast(i, "uint8"), "TYPE"), "float32")
    D[i] = T.reinterpret(T.cast(T.cast(i, "float32") * 0.01, "TYPE"), "uint8"))";
      Expect(absl::StrCat("A: T.Tensor((6000,), \"float32\"), B: T.Tensor((6000,), \"", type,
                          "\"), C: T.Tensor((256,), \"float32\"), D: T.Tensor((256,), \"uint8\")"),
             absl::StrReplaceAll(body, {{"LOOP", loop}, {"TYPE", type}}), {{"A", value}});
    }
  }
}

TEST_P(SemanticsTest, AtomicsFromARaggedSourceReadNothingBehindIt) {
  Expect(R"(A: T.Tensor((70,), "float32"), C: T.Tensor((1000,), "float32"))",
         "T.atomic_add(C[bx * 64:bx * 64 + 64], A[bx * 64:bx * 64 + 64])", {}, "16");
}

TEST_P(SemanticsTest, TilesRoundWhatIsCopiedIntoThem) {
  for (const std::string type : {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}) {
    Expect(R"(A: T.Tensor((32, 32), "float32"), W: T.Tensor((32, 32), "float32"),
              C: T.Tensor((32, 32), "float32"))",
           absl::StrCat("As = T.alloc_shared((32, 32), \"", type,
                        "\")\nWs = T.alloc_shared((32, 32), \"", type, R"(")
Cl = T.alloc_fragment((32, 32), "float32")
T.clear(Cl)
T.copy(A, As)
T.copy(W, Ws)
T.gemm(As, Ws, Cl)
T.copy(Cl, C))"),
           {}, "1", 2e-6);
  }
}

TEST_P(SemanticsTest, OperandsThatAreNotUsedByWholeRows) {
  constexpr char kTensors[] =
      R"(A: T.Tensor((32, 32), "float32"), W: T.Tensor((32, 128), "float32"),
      C: T.Tensor((32, 128), "float32"), D: T.Tensor((32,), "float32"))";
  constexpr char kAlloc[] = R"(
As = T.alloc_shared((32, 32), "float32")
Ws = T.alloc_shared((32, 128), "float32")
Cl = T.alloc_fragment((32, 128), "float32")
T.clear(Cl)
T.copy(A, As)
)";
  const auto small = [](int64_t i) { return i % 7 - 3.0; };
  const Values whole = {{"A", small}, {"W", small}};
  for (const std::string use :
       {"T.copy(W, Ws)\nD2 = T.alloc_shared((20,), \"float32\")\nT.copy(Ws[3, 7:27], D2)\n"
        "T.gemm(As, Ws, Cl)\nT.copy(Cl, C)\nT.copy(D2, D[0:20])",
        "T.copy(W, Ws)\nT.gemm(As, Ws, Cl)\nT.copy(Cl, C)\nT.copy(Ws[0:32, 5], D)",
        "T.clear(Ws)\nT.copy(W[0:32, 0:100], Ws[0:32, 5:105])\nT.gemm(As, Ws, Cl)\nT.copy(Cl, C)",
        "T.copy(W, Ws)\nCs = T.alloc_fragment((32, 32), \"float32\")\nT.clear(Cs)\n"
        "T.gemm(As, Ws[0:32, 8:40], Cs)\nT.copy(Cs, C[0:32, 64:96])",
        "T.copy(W, Ws)\nT.gemm(As, Ws, Cl)\nCs = T.alloc_fragment((32, 32), \"float32\")\n"
        "T.clear(Cs)\nT.gemm(As, Ws[0:32, 32:64], Cs, transpose_B=True)\nT.copy(Cl, C)\n"
        "T.copy(Cs, C[0:32, 0:32])",
        "T.fill(Ws[0:32, 9:128], 2.0)\nT.copy(W[0:32, 0:9], Ws[0:32, 0:9])\nT.gemm(As, Ws, Cl)\n"
        "T.copy(Cl, C)"}) {
    Expect(kTensors, absl::StrCat(kAlloc, use), whole);
  }
}

TEST_P(SemanticsTest, LargeLocalTilesLeaveTheStack) {
  Expect(kAB, R"(
L = T.alloc_local((4194304,), "float32")
for i in T.serial(100):
    L[i * 41943] = A[i]
for i in T.serial(100):
    B[i] = L[i * 41943] + 1.0)");
}

INSTANTIATE_TEST_SUITE_P(Widths, SemanticsTest, ::testing::Values(0, 256));

}  // namespace
}  // namespace kiln
