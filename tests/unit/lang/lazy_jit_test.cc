// Kernels under lazy_jit (tests/golden/lang/lazy_jit.py): what a signature says, what tensors bring
// with them, and the numbers, in the interpreter and natively, against loops written here.
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "compiler/codegen/compile.h"
#include "compiler/interp/interp.h"
#include "compiler/lang/interface.h"
#include "compiler/target/arch.h"
#include "compiler/target/host_arch.h"
#include "compiler/tools/native_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using interp::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

std::shared_ptr<const SourceFile> File() {
  static const auto& file = *new std::shared_ptr<const SourceFile>([] {
    std::ifstream in("tests/golden/lang/lazy_jit.py");
    std::stringstream text;
    text << in.rdbuf();
    return MakeSource(text.str(), "lazy_jit.py");
  }());
  return file;
}

Kernel Named(const std::string& entry) {
  auto kernel = Kernel::Parse(File(), entry);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *std::move(kernel);
}

absl::StatusOr<ClosedArguments> Closed(const std::string& entry, const Arguments& arguments) {
  return CloseArguments(Named(entry), arguments, {});
}

std::string DigestOf(const std::string& entry, const Arguments& arguments) {
  const auto closed = Closed(entry, arguments);
  EXPECT_TRUE(closed.ok()) << closed.status();
  if (!closed.ok()) return "";
  return ir::ProgramDigest(*Elaborate(Named(entry), closed->arguments, {}));
}

// What TileLang prints of gemm_dyn_K.func.annot, and the same of strides.
TEST(LazyJitSignature, IsWhatTheAnnotationsSay) {
  const auto text = [](const std::string& entry) {
    const auto signature = ReadSignature(Named(entry), {});
    return signature.ok() ? ToString(*signature) : std::string(signature.status().message());
  };
  EXPECT_EQ(text("product_any_depth"),
            "{'A': TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16')),\n"
            " 'B': TensorAnnot(shape=[K$dyn, B_shape_1$], strides=None, "
            "dtype=dtype('float16'))}");
  EXPECT_EQ(text("packed"),
            "{'A': StridedTensorAnnot(shape=[A_shape_0$dyn, A_shape_1$dyn], "
            "strides=[A_stride_0$dyn, A_stride_1$dyn], dtype=None)}");
  EXPECT_EQ(text("dimensions"),
            "{'A': TensorAnnot(shape=[A_shape_0$, A_shape_1$, A_shape_2$, 8, A_shape_4$dyn, K$dyn, "
            "L$dyn], strides=None, dtype=dtype('float32')),\n"
            " 'B': StridedTensorAnnot(shape=[K$dyn, L$dyn], strides=[B_stride_0$, 1], "
            "dtype=None)}");
  EXPECT_EQ(text("product_of_sizes"),
            "{'A': A$ptr,\n 'B': B$ptr,\n 'M': M$dyn,\n 'N': N$dyn,\n 'K': K$dyn}");
  EXPECT_EQ(text("mapped"),
            "{'A': TensorAnnot(shape=[A_shape_0$dyn], strides=None, dtype=None),\n 'fn': fn$}");
}

// Sizes of T.const in the body, and the tensors of a factory once it has its arguments.
TEST(LazyJitSignature, OtherStylesHaveOneToo) {
  const std::string kHead = "import tilelang\nimport tilelang.language as T\n";
  const auto eager = Kernel::Parse(MakeSource(kHead + R"(
@tilelang.jit
def double(A, threads: int = 64):
    m, n = T.const("M, N")
    k = T.dynamic("k")
    A: T.Tensor[[m, n, k, 2 * m], T.float16]
    B = T.empty([m, n], T.float16)
    with T.Kernel(m, threads=threads) as b:
        B[b, 0] = A[b, 0, 0, 0]
    return B
)"),
                                   "");
  ASSERT_TRUE(eager.ok()) << eager.status();
  EXPECT_EQ(ToString(*ReadSignature(*eager, {})),
            "{'A': TensorAnnot(shape=[M$, N$, k$dyn, M * 2], strides=None, "
            "dtype=dtype('float16')),\n 'threads': threads$}");
  const auto closed =
      CloseArguments(*eager, {{"A", "T.Tensor((3, 4, 5, 6), T.float16)"}, {"threads", "32"}}, {});
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_THAT(closed->arguments,
              UnorderedElementsAre(Pair("M", "3"), Pair("N", "4"), Pair("threads", "32")));
  EXPECT_THAT(closed->runtime, UnorderedElementsAre(Pair("k", "5")));
  const auto wrong = CloseArguments(*eager, {{"A", "T.Tensor((3, 4, 5, 7), T.float16)"}}, {});
  EXPECT_THAT(wrong.status().message(),
              HasSubstr("dimension 3 of 'A' is 6, and the argument has 7"));

  const auto factory = Kernel::Parse(MakeSource(kHead + R"(
def scaled(N, factor=2.0):
    @T.prim_func
    def main(x: T.Tensor((N, 4), "float32"), n: T.int32):
        with T.Kernel(N) as b:
            x[b, 0] = x[b, 1] * factor
    return main
)"),
                                     "");
  EXPECT_EQ(ToString(*ReadSignature(*factory, {})), "{'N': N$,\n 'factor': factor$}");
  EXPECT_EQ(ToString(*ReadSignature(*factory, {{"N", "16"}})),
            "{'N': N$,\n 'factor': factor$,\n 'x': TensorAnnot(shape=[16, 4], strides=None, "
            "dtype=dtype('float32')),\n 'n': n$dyn}");
}

// An error before a tensor is declared is that of its signature; one after all of them is not.
TEST(LazyJitSignature, OfAKernelThatDoesNotElaborate) {
  const auto signature = [](const char* body) {
    const auto kernel = Kernel::Parse(MakeSource(absl::StrCat(R"(import tilelang
import tilelang.language as T
@tilelang.jit
def wrong(A):
    m = T.const("M")
)",
                                                              body)),
                                      "");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    const auto read = ReadSignature(*kernel, {});
    return read.ok() ? ToString(*read) : std::string(read.status().message());
  };
  EXPECT_THAT(signature("    k = nobody\n    A: T.Tensor[[m], T.float32]\n"
                        "    with T.Kernel(m) as b:\n        A[b] = 1\n"),
              HasSubstr("'nobody'"));
  EXPECT_EQ(signature("    A: T.Tensor[[m], T.float32]\n    k = nobody\n"),
            "{'A': TensorAnnot(shape=[M$], strides=None, dtype=dtype('float32'))}");
}

TEST(LazyJitArguments, ConstantsOfSeveralTensorsAreEqual) {
  const auto kernel = Kernel::Parse(MakeSource(R"(import tilelang
import tilelang.language as T
@tilelang.jit
def added(A, B):
    m = T.const("M")
    A: T.Tensor[[m, 8], T.float32]
    B: T.Tensor[[8, m], T.float32]
    with T.Kernel(m) as b:
        A[b, 0] = B[0, b]
)"),
                                    "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto closed = [&](const char* b) {
    return CloseArguments(*kernel, {{"A", "T.Tensor((3, 8), T.float32)"}, {"B", b}}, {});
  };
  EXPECT_EQ(closed("T.Tensor((8, 3), T.float32)")->arguments, (Arguments{{"M", "3"}}));
  EXPECT_THAT(closed("T.Tensor((8, 4), T.float32)").status().message(),
              HasSubstr("the size 'M' is 3 in 'A' and 4 in 'B'"));
}

TEST(LazyJitArguments, TensorsBringTheirConstantsAndRunTimeSizes) {
  const auto closed = Closed("product_any_depth", {{"A", "T.Tensor((100, 50), T.float16)"},
                                                   {"B", "T.Tensor([50, 72], \"float16\")"}});
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_THAT(closed->arguments,
              UnorderedElementsAre(Pair("A_shape_0", "100"), Pair("B_shape_1", "72")));
  EXPECT_THAT(closed->runtime, UnorderedElementsAre(Pair("K", "50")));
  EXPECT_THAT(closed->notes, IsEmpty());

  const auto strided =
      Closed("packed", {{"A", "T.StridedTensor((512, 256), (2048, 2), T.float32)"}});
  ASSERT_TRUE(strided.ok()) << strided.status();
  EXPECT_THAT(strided->arguments, UnorderedElementsAre(Pair("A_dtype", "float32")));
  EXPECT_THAT(strided->runtime,
              UnorderedElementsAre(Pair("A_shape_0", "512"), Pair("A_shape_1", "256"),
                                   Pair("A_stride_0", "2048"), Pair("A_stride_1", "2")));

  const auto sizes = Closed("product_of_sizes", {{"A", "T.Tensor((100, 50), T.float16)"},
                                                 {"B", "T.Tensor((50, 72), T.float16)"},
                                                 {"M", "100"},
                                                 {"N", "72"},
                                                 {"K", "50"}});
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_THAT(sizes->arguments, IsEmpty());
  EXPECT_EQ(sizes->runtime.at("K"), "50");
}

TEST(LazyJitArguments, WhatDoesNotFitIsRefused) {
  struct Case {
    const char* entry;
    Arguments arguments;
    const char* message;
  };
  const Case cases[] = {
      {"dimensions",
       {{"A", "T.Tensor((3, 4, 5, 9, 6, 7, 8))"}, {"B_stride_0", "8"}, {"B_dtype", "int8"}},
       "dimension 3 of 'A' is 8, and the argument has 9"},
      {"product_any_depth",
       {{"A", "T.Tensor((100, 50), T.float16)"}, {"B", "T.Tensor((51, 72), T.float16)"}},
       "dimension 0 of 'B' is 'K', which is 50 in an earlier tensor and 51 in this one"},
      {"product_any_depth",
       {{"A", "T.Tensor((100,), T.float16)"}, {"B", "T.Tensor((51, 72), T.float16)"}},
       "'A' has 2 dimensions, and the argument has 1: (100,)"},
      {"mapped",
       {{"A", "T.StridedTensor((8,), (2,), T.float16)"}, {"fn", "plus_one"}},
       "'A' is row-major, and the argument has the strides (2,)"},
      {"dimensions",
       {{"A", "T.Tensor((3, 4, 5, 8, 6, 7, 8))"},
        {"B", "T.StridedTensor((7, 8), (16, 2), T.int8)"}},
       "stride 1 of 'B' is 1, and the argument has 2"},
      {"collatz", {{"A", "T.Tensor((2,), T.int32)"}, {"n", "5"}}, "dimension 0 of 'A' is 1"},
      {"packed", {{"A", "T.StridedTensor((5, 6), (6,), T.float32)"}}, "not one stride for each"},
      {"packed", {{"A", "T.Tensor((0, 6), T.float32)"}}, "has the size 0"},
      {"packed",
       {{"A", "T.Tensor((281474976710656, 6), T.float32)"}},
       "has the size 281474976710656"},
      {"product",
       {{"A", "T.Tensor((100,), T.float16)"}, {"B", "T.Tensor((50, 72), T.float16)"}},
       "'A' has at least 2 dimensions, and the argument has 1: (100,)"},
      {"packed", {{"A", "1024"}}, "'A' of 'packed' is a tensor, and the argument is an integer"},
      {"packed", {{"A", "T.zeros((5, 6))"}}, "not a literal"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Closed(c.entry, c.arguments).status().message(), HasSubstr(c.message)) << c.entry;
  }
  // The annotation's type holds, and a caller that has another hears of it.
  const auto other = Closed("product_any_depth", {{"A", "T.Tensor((100, 50), T.float32)"},
                                                  {"B", "T.Tensor((50, 72), T.float16)"}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(other->notes,
              ElementsAre("'A' is float16 by its annotation; the argument says float32"));
}

// Elements of which a byte holds two: a tensor of bytes is one of twice as many, where the
// annotation says so in any of its forms.
TEST(LazyJitArguments, PackedTensorsComeAsBytes) {
  const auto text = [](const std::string& annotation, const std::string& more = "") {
    return absl::StrCat("import tilelang\nimport tilelang.language as T\nTYPE = T.uint4\n",
                        "@tilelang.lazy_jit\ndef k(W", annotation, ", x: T.Tensor[[1], T.int32]",
                        more, "):\n",
                        more.find("body") == std::string::npos
                            ? ""
                            : "    M, K = T.const(\"M, K\")\n    W: T.Tensor[[M, K], T.int4]\n",
                        "    with T.Kernel(1, threads=32) as b:\n        x[0] = W.shape[1]\n");
  };
  const auto closed = [](const std::string& kernel, Arguments arguments) {
    arguments["x"] = "T.Tensor((1,), T.int32)";
    return CloseArguments(*Kernel::Parse(MakeSource(kernel), ""), arguments, {});
  };
  const std::string bytes = "T.Tensor((8, 80), T.int8)",
                    unsigned_bytes = "T.Tensor((8, 80), \"uint8\")";
  for (const std::string& kernel :
       {text(": T.Tensor[[int, int], \"int4\"]"), text(": T.Tensor[[int, int], T.float4_e2m1fn]"),
        text(": T.Tensor[[int, int], TYPE]"), text(": T.Tensor[[int, int], dt]", ", dt=T.int4"),
        text(": T.Tensor((int, int), dtype=\"uint4\")"), text("", ", body=1")}) {
    for (const std::string& given : {bytes, unsigned_bytes}) {
      const auto seen = closed(kernel, {{"W", given}});
      ASSERT_TRUE(seen.ok()) << kernel << seen.status();
      const std::string size = kernel.find("body") == std::string::npos ? "W_shape_1" : "K";
      EXPECT_EQ(seen->arguments.at(size), "160") << kernel;
      ASSERT_EQ(seen->notes.size(), 1u);
      EXPECT_THAT(seen->notes[0],
                  HasSubstr("(8, 160) by its annotation; the argument is its bytes"));
    }
    // In elements, as before.
    const auto elements = closed(kernel, {{"W", "T.Tensor((8, 160), T.int4)"}});
    ASSERT_TRUE(elements.ok()) << elements.status();
    EXPECT_THAT(elements->arguments, testing::Contains(Pair(testing::_, "160")));
  }
  const std::string chosen = text(": T.Tensor[[int, int], dt]", ", dt=T.int4");
  EXPECT_EQ(closed(chosen, {{"W", bytes}, {"dt", "int8"}})->arguments.at("W_shape_1"), "80");
  // Where the annotation has the size.
  const std::string literal = text(": T.Tensor[[8, 160], T.int4]");
  EXPECT_TRUE(closed(literal, {{"W", bytes}}).ok());
  EXPECT_THAT(
      std::string(closed(literal, {{"W", "T.Tensor((8, 160), T.int8)"}}).status().message()),
      HasSubstr("dimension 1 of 'W', of int4, of which a byte holds two, is 160, and the "
                "argument has 320"));
  EXPECT_TRUE(closed(text(": T.StridedTensor[[int, int], [int, 1], T.int8]"),
                     {{"W", "T.StridedTensor((8, 80), (80, 1), T.int8)"}})
                  .ok());
  // A type that only the body knows.
  const std::string late = absl::StrReplaceAll(
      text("", ", body=1"),
      {{"    W: T.Tensor[[M, K], T.int4]", "    dt = T.int4\n    W: T.Tensor[[M, K], dt]"}});
  EXPECT_THAT(std::string(closed(late, {{"W", bytes}}).status().message()),
              HasSubstr("say its shape in elements"));
}

// One program a set of constants: run-time sizes, an inner one too, are not among them.
std::string Refused(const Kernel& kernel, const Arguments& arguments) {
  return std::string(CloseArguments(kernel, arguments, {}).status().message());
}

// Sizes that no annotation names: the shape is one tuple or another, a list, a name for two.
TEST(LazyJitArguments, SizesOfComputedShapes) {
  const auto kernel = Kernel::Parse(MakeSource(R"(import tilelang
import tilelang.language as T
@tilelang.jit
def product(A, B, W, trans_B=False, sizes=(3, 5)):
    M, N, K, R = T.const("M, N, K, R")
    KH, KW = R, R
    B_shape = (N, K) if trans_B else (K, N)
    A: T.Tensor([sum(sizes), K], "float16")
    B: T.Tensor(B_shape, "float16")
    W: T.Tensor((KH, KW, M), "float16")
    C = T.empty((M, N + KH), "float32")
    with T.Kernel(M // 2) as b:
        C[b, 0] = A[0, 0]
    return C
)"),
                                    "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  Arguments given = {{"A", "T.Tensor((8, 32), T.float16)"},
                     {"B", "T.Tensor((16, 32), T.float16)"},
                     {"W", "T.Tensor((7, 7, 64), T.float16)"},
                     {"trans_B", "True"}};
  const auto closed = CloseArguments(*kernel, given, {});
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_THAT(closed->arguments,
              UnorderedElementsAre(Pair("M", "64"), Pair("N", "16"), Pair("K", "32"),
                                   Pair("R", "7"), Pair("trans_B", "True")));
  given["trans_B"] = "False";
  EXPECT_THAT(Refused(*kernel, given),
              HasSubstr("dimension 0 of 'B' is 32, and the argument has 16"));
  given["trans_B"] = "True";
  given["W"] = "T.Tensor((7, 6, 64), T.float16)";
  EXPECT_THAT(Refused(*kernel, given), HasSubstr("the size 'R' is 7 in 'W' and 6 in 'W'"));
  given.erase("W");
  EXPECT_THAT(Refused(*kernel, given), HasSubstr("the size 'M' has no value"));
}

TEST(LazyJitArguments, OnlyConstantsMakeAnotherProgram) {
  const auto any_depth = [](int m, int k, int n) {
    return DigestOf("product_any_depth",
                    {{"A", absl::StrCat("T.Tensor((", m, ", ", k, "), T.float16)")},
                     {"B", absl::StrCat("T.Tensor((", k, ", ", n, "), T.float16)")}});
  };
  EXPECT_EQ(any_depth(100, 50, 72), any_depth(100, 50, 72));
  EXPECT_EQ(any_depth(100, 50, 72), any_depth(100, 51, 72));
  EXPECT_EQ(any_depth(100, 50, 72), any_depth(100, 4096, 72));
  EXPECT_NE(any_depth(100, 50, 72), any_depth(101, 50, 72));
  EXPECT_NE(any_depth(100, 50, 72), any_depth(100, 50, 73));

  const auto mapped = [](int n, const char* dtype, const char* fn) {
    return DigestOf("mapped",
                    {{"A", absl::StrCat("T.Tensor((", n, ",), ", dtype, ")")}, {"fn", fn}});
  };
  EXPECT_EQ(mapped(1024, "float32", "plus_one"), mapped(1000, "float32", "plus_one"));
  EXPECT_NE(mapped(1024, "float32", "plus_one"), mapped(1024, "float16", "plus_one"));
  EXPECT_NE(mapped(1024, "float32", "plus_one"), mapped(1024, "float32", "squared_plus"));

  const auto packed = [](const char* tensor) { return DigestOf("packed", {{"A", tensor}}); };
  EXPECT_EQ(packed("T.Tensor((64, 64), T.float32)"),
            packed("T.StridedTensor((10, 20), (512, 4), T.float32)"));
}

TEST(LazyJitArguments, AFileListsItsOwn) {
  const Kernel kernel = Named("listed");
  const auto sets = ListedArguments(kernel, "sizes_of_listed");
  ASSERT_TRUE(sets.ok()) << sets.status();
  ASSERT_EQ(sets->size(), 2u);
  EXPECT_THAT((*sets)[1],
              UnorderedElementsAre(Pair("A", "T.Tensor((8,), float32)"), Pair("factor", "4.0")));
  EXPECT_THAT(ListedArguments(kernel, "nothing").status().message(), HasSubstr("'nothing'"));
}

TEST(LazyJitArguments, AListMayHoldStridedTensors) {
  const auto kernel = Kernel::Parse(MakeSource(R"(import tilelang
import tilelang.language as T
SETS = [{"A": T.StridedTensor((8, 4), (16, 2), T.float32), "n": 3}]
@tilelang.lazy_jit
def strided(A: T.StridedTensor[[int, int], [int, int], T.float32], n: int):
    with T.Kernel(n) as b:
        A[b, 0] = 1
)"),
                                    "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto sets = ListedArguments(*kernel, "SETS");
  ASSERT_TRUE(sets.ok()) << sets.status();
  ASSERT_EQ(sets->size(), 1u);
  EXPECT_THAT(
      (*sets)[0],
      UnorderedElementsAre(Pair("A", "T.StridedTensor((8, 4), (16, 2), float32)"), Pair("n", "3")));
}

// ---- numbers ----

struct Sizes {
  std::map<std::string, int64_t> dims;
  std::map<std::string, double> scalars;
};

// Runs the kernel on `tensors` (inputs, then outputs of zeros) in the interpreter and natively,
// checks both against `want(tensor index, flat element)`, and that sm_90a has code for it.
void ExpectNumbers(const std::string& entry, const Arguments& arguments, const Sizes& sizes,
                   const std::function<std::vector<Tensor>()>& tensors, size_t output,
                   double tolerance, const std::function<double(int64_t)>& want) {
  SCOPED_TRACE(entry);
  codegen::CompileInput input;
  input.kernel_source = File()->text;
  input.kernel_path = File()->path;
  input.entry = entry;
  input.arguments = arguments;
  input.arch_record = target::ToText(*target::DescribeHost());
  const auto program = Elaborate(Named(entry), arguments, {});
  ASSERT_TRUE(program.ok()) << program.status();
  interp::Options options;
  options.dims = sizes.dims;
  options.scalars = sizes.scalars;
  options.clip_global = true;
  const auto check = [&](const Tensor& got, const char* how) {
    for (int64_t i = 0; i < got.elements(); ++i) {
      ASSERT_NEAR(got.View().Get(i), want(i), tolerance) << how << " element " << i;
    }
  };
  const std::vector<Tensor> interpreted = tensors();
  std::vector<interp::TensorView> views;
  for (const Tensor& t : interpreted) views.push_back(t.View());
  const auto ran = interp::Run(*program, views, options);
  ASSERT_TRUE(ran.ok()) << ran.status();
  check(interpreted[output], "interpreted");

  const auto compiled = codegen::CompileKernel(input);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::vector<Tensor> native = tensors();
  const auto called = tools::CallNative(*compiled, *program, options, native, 1);
  ASSERT_TRUE(called.ok()) << called.status();
  check(native[output], "native");

  input.arch_record = target::ToText(*target::NamedArch("sm_90a"));
  const auto ptx = codegen::EmitStage(input, "asm");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_THAT(*ptx, HasSubstr(".entry"));
}

Tensor Filled(DType type, std::vector<int64_t> shape, const std::function<double(int64_t)>& value,
              std::vector<int64_t> strides = {}) {
  Tensor tensor(type, std::move(shape), std::move(strides));
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.View().Set(i, value(i));
  return tensor;
}

// Values that float16 holds exactly, and whose products and sums float32 does.
double Left(int64_t i) { return static_cast<double>(i % 17) / 8 - 1; }
double Right(int64_t i) { return static_cast<double>(i % 13) / 4 - 1.5; }

void ExpectProduct(const std::string& entry, int64_t m, int64_t n, int64_t k,
                   const Arguments& arguments, const Sizes& sizes, DType out = kFloat32,
                   double tolerance = 1e-4) {
  ExpectNumbers(
      entry, arguments, sizes,
      [&] {
        std::vector<Tensor> t;
        t.push_back(Filled(kFloat16, {m, k}, Left));
        t.push_back(Filled(kFloat16, {k, n}, Right));
        t.emplace_back(out, std::vector<int64_t>{m, n});
        return t;
      },
      2, tolerance,
      [&](int64_t i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += Left(i / n * k + l) * Right(l * n + i % n);
        return sum;
      });
}

TEST(LazyJitNumbers, Products) {
  const Arguments shapes = {
      {"A_shape_0", "192"}, {"A_shape_1", "96"}, {"B_shape_0", "96"}, {"B_shape_1", "80"}};
  ExpectProduct("product", 192, 80, 96, shapes, {});
  Arguments half = shapes;
  half.insert({{"block_M", "64"}, {"block_N", "64"}, {"out_dtype", "float16"}});
  ExpectProduct("product", 192, 80, 96, half, {}, kFloat16, 0.05);
  // No size is a multiple of its block, the depth of neither.
  ExpectProduct("product_any_depth", 100, 72, 50, {{"A_shape_0", "100"}, {"B_shape_1", "72"}},
                {{{"K", 50}}, {}});
  ExpectProduct("product_of_pointers", 100, 72, 50, {{"M", "100"}, {"N", "72"}, {"K", "50"}}, {});
  ExpectProduct("product_of_sizes", 100, 72, 50, {}, {{}, {{"M", 100}, {"N", 72}, {"K", 50}}});
}

TEST(LazyJitNumbers, StridesOfTheCall) {
  const int64_t m = 70, n = 45, row = 200, step = 3;
  ExpectNumbers(
      "packed", {{"A_dtype", "float32"}},
      {{{"A_shape_0", m}, {"A_shape_1", n}, {"A_stride_0", row}, {"A_stride_1", step}}, {}},
      [&] {
        std::vector<Tensor> t;
        t.push_back(Filled(kFloat32, {m, n}, Left, {row, step}));
        t.emplace_back(kFloat32, std::vector<int64_t>{m, n});
        return t;
      },
      1, 0, Left);
}

TEST(LazyJitNumbers, MacrosAsArguments) {
  for (const bool squared : {false, true}) {
    ExpectNumbers(
        "mapped", {{"A_dtype", "float32"}, {"fn", squared ? "squared_plus" : "plus_one"}},
        {{{"A_shape_0", 1000}}, {}},
        [&] {
          std::vector<Tensor> t;
          t.push_back(Filled(kFloat32, {1000}, Left));
          t.emplace_back(kFloat32, std::vector<int64_t>{1000});
          return t;
        },
        1, 1e-6, [&](int64_t i) { return squared ? Left(i) * Left(i) + Left(i) : Left(i) + 1; });
  }
}

// 5, 16, 8, 4, 2, 1: 100 is tripled plus one, then halved four times.
TEST(LazyJitNumbers, RecursionThroughAReference) {
  ExpectNumbers(
      "collatz", {{"n", "5"}}, {},
      [] {
        std::vector<Tensor> t;
        t.push_back(Filled(kInt32, {1}, [](int64_t) { return 100.0; }));
        return t;
      },
      0, 0, [](int64_t) { return 18.0; });
}

TEST(LazyJitNumbers, ReferencesToElementsAndTheDefaultType) {
  ExpectNumbers(
      "references", {}, {},
      [] {
        std::vector<Tensor> t;
        t.push_back(Filled(kFloat32, {2}, Right));
        return t;
      },
      0, 0, [](int64_t) { return 1.0; });
}

TEST(LazyJitNumbers, SeveralResultsOfABlockIndex) {
  ExpectNumbers(
      "waves", {}, {},
      [] {
        std::vector<Tensor> t;
        t.emplace_back(kFloat32, std::vector<int64_t>{32, 2});
        return t;
      },
      0, 1e-5,
      [](int64_t i) {
        const auto block = static_cast<double>(i / 2);
        return i % 2 == 0 ? std::sin(block) + std::cos(block) : std::sin(block) - std::cos(block);
      });
}

// A kernel that stores nothing has code, too.
TEST(LazyJitNumbers, AKernelWithoutTensorsCompiles) {
  codegen::CompileInput input;
  input.kernel_source = File()->text;
  input.entry = "waves_of_nothing";
  for (const std::string arch : {"sm_90a", "host"}) {
    input.arch_record =
        target::ToText(arch == "host" ? *target::DescribeHost() : *target::NamedArch(arch));
    const auto text = codegen::EmitStage(input, "asm");
    EXPECT_TRUE(text.ok()) << arch << ": " << text.status();
  }
}

TEST(LazyJitNumbers, EveryFormOfADimension) {
  const std::vector<int64_t> shape = {3, 4, 5, 8, 2, 7, 6};
  const int64_t stored = ((2 * 4 + 3) * 5 + 4) * 8 + 7;  // times the three last dimensions
  ExpectNumbers(
      "dimensions",
      {{"A_shape_0", "3"},
       {"A_shape_1", "4"},
       {"A_shape_2", "5"},
       {"B_stride_0", "12"},
       {"B_dtype", "int8"}},
      {{{"A_shape_4", 2}, {"K", 7}, {"L", 6}}, {}},
      [&] {
        std::vector<Tensor> t;
        t.push_back(Filled(kFloat32, shape, Left));
        t.push_back(Filled(kInt8, {7, 6}, [](int64_t) { return 3.0; }, {12, 1}));
        t.emplace_back(kFloat32, shape);
        return t;
      },
      2, 1e-6, [&](int64_t i) { return i == stored * 2 * 7 * 6 ? Left(i) + 3 : 0; });
}

}  // namespace
}  // namespace kiln::lang
