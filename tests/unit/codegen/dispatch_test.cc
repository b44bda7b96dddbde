// One object for a range of sizes: which config runs where, what is refused, and what travels with
// it.
#include "compiler/codegen/dispatch.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/target/arch.h"
#include "compiler/target/host_arch.h"
#include "compiler/templates/templates.h"

namespace kiln::codegen {
namespace {

using ::testing::HasSubstr;

// Each config adds another number, so that the result says which one ran.
constexpr char kTagged[] = R"(
import tilelang
import tilelang.language as T


@tilelang.jit
def tagged(x, tag=1, block=16, threads=32):
    M = T.dynamic("M")
    x: T.Tensor((M,), T.float32)
    out = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        for i in T.Parallel(block):
            out[bx * block + i] = x[bx * block + i] + tag
    return out
)";

CompileInput Tagged(const std::string& arch_record) {
  CompileInput input;
  input.kernel_source = kTagged;
  input.kernel_path = "tagged.py";
  input.arch_record = arch_record;
  return input;
}

std::string Host() { return target::ToText(*target::DescribeHost()); }

DispatchInput TaggedRange(const std::string& arch_record) {
  DispatchInput input;
  input.kernel = Tagged(arch_record);
  input.dimension = "M";
  input.low = 3;
  input.high = 200;
  input.variants = {*Config::Parse("tag=10,block=16"), *Config::Parse("tag=20,block=64")};
  input.steps = {{3, 0}, {17, 1}, {100, 0}};
  return input;
}

// A loaded shared object's entry.
class Loaded {
 public:
  Loaded(const std::string& bytes, const std::string& name) {
    char path[] = "/tmp/kiln_dispatch_XXXXXX";
    const int file = mkstemp(path);
    EXPECT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(file);
    handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
    unlink(path);
    entry_ = handle_ == nullptr ? nullptr : dlsym(handle_, name.c_str());
    EXPECT_NE(entry_, nullptr);
  }
  ~Loaded() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  template <typename Function>
  Function As() const {
    return reinterpret_cast<Function>(entry_);
  }
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
  void* entry_ = nullptr;
};

using Map = int32_t (*)(const kiln_launch*, const void*, void*, int64_t);
using Product = int32_t (*)(const kiln_launch*, const void*, const void*, void*, int64_t);

TEST(Dispatch, RunsTheConfigOfEachSizeAndRefusesTheOthers) {
  const auto made = CompileDispatch(TaggedRange(Host()));
  ASSERT_TRUE(made.ok()) << made.status();
  const Loaded loaded(made->artifact.shared_object, made->artifact.name);
  const auto run = loaded.As<Map>();
  for (int64_t size = -2; size <= 210; ++size) {
    std::vector<float> in(256, 1), out(256, -1);
    const int32_t code = run(nullptr, in.data(), out.data(), size);
    if (size < 3 || size > 200) {
      EXPECT_EQ(code, KILN_ERROR_ARGUMENT) << size;
      EXPECT_EQ(out, std::vector<float>(256, -1)) << size;
      continue;
    }
    EXPECT_EQ(code, 0) << size;
    const float tag = size >= 17 && size < 100 ? 20 : 10;
    for (int64_t i = 0; i < 256; ++i) {
      ASSERT_EQ(out[i], i < size ? 1 + tag : -1) << "size " << size << " element " << i;
    }
  }
  // One symbol to the outside, as any other artifact.
  EXPECT_EQ(dlsym(loaded.handle(), absl::StrCat(made->artifact.name, "_variant0").c_str()),
            nullptr);
}

TEST(Dispatch, HasTheBitsOfEachConfigAlone) {
  const KernelTemplate* matmul = FindKernelTemplate("matmul");
  DispatchInput input;
  input.kernel.kernel_source = std::string(matmul->source);
  input.kernel.kernel_path = "matmul.py";
  input.kernel.entry = std::string(matmul->entry);
  input.kernel.arguments = {{"M", "T.dynamic"}, {"N", "48"}, {"K", "40"}};
  input.kernel.arch_record = Host();
  input.dimension = "M";
  input.low = 1;
  input.high = 300;
  input.variants = {*Config::Parse("block_M=8,block_N=16,block_K=8"),
                    *Config::Parse("block_M=64,block_N=48,block_K=40")};
  input.steps = {{1, 0}, {33, 1}};
  const auto made = CompileDispatch(input);
  ASSERT_TRUE(made.ok()) << made.status();
  const Loaded whole(made->artifact.shared_object, made->artifact.name);
  std::vector<float> b(40 * 48);
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::sin(static_cast<float>(i));
  for (size_t v = 0; v < 2; ++v) {
    CompileInput alone = input.kernel;
    alone.config = input.variants[v];
    const auto single = CompileKernel(alone);
    ASSERT_TRUE(single.ok()) << single.status();
    const Loaded own(single->shared_object, single->name);
    for (const int64_t m : v == 0 ? std::vector<int64_t>{1, 7, 8, 9, 32}
                                  : std::vector<int64_t>{33, 64, 65, 129, 300}) {
      std::vector<float> a(m * 40), c(m * 48, 7), d(m * 48, 9);
      for (size_t i = 0; i < a.size(); ++i) a[i] = std::cos(static_cast<float>(i));
      ASSERT_EQ(whole.As<Product>()(nullptr, a.data(), b.data(), c.data(), m), 0);
      ASSERT_EQ(own.As<Product>()(nullptr, a.data(), b.data(), d.data(), m), 0);
      EXPECT_EQ(c, d) << "M=" << m;
      for (int64_t row = 0; row < m; ++row) {
        double sum = 0;
        for (int k = 0; k < 40; ++k) sum += double{a[row * 40 + k]} * b[k * 48 + 5];
        ASSERT_NEAR(c[row * 48 + 5], sum, 1e-4) << "M=" << m << " row " << row;
      }
    }
  }
}

TEST(Dispatch, ItsManifestAndHeaderSayWhatRunsWhere) {
  const auto made = CompileDispatch(TaggedRange(Host()));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto manifest = nlohmann::json::parse(made->artifact.manifest_json);
  EXPECT_EQ(manifest.at("dispatch").at("dimension"), "M");
  EXPECT_EQ(manifest.at("dispatch").at("low"), 3);
  EXPECT_EQ(manifest.at("dispatch").at("high"), 200);
  const auto& steps = manifest.at("dispatch").at("steps");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[1].at("first"), 17);
  EXPECT_EQ(steps[1].at("last"), 99);
  EXPECT_EQ(steps[1].at("variant"), 1);
  EXPECT_EQ(manifest.at("variants").at(1).at("config").at("tag"), "20");
  EXPECT_FALSE(manifest.contains("config"));
  EXPECT_EQ(manifest.at("dims").at(0), "M");
  EXPECT_THAT(made->artifact.header, HasSubstr("M: a run-time dimension, 3 to 200"));
  // The same input, the same bytes.
  const auto again = CompileDispatch(TaggedRange(Host()));
  EXPECT_EQ(again->artifact.shared_object, made->artifact.shared_object);
  EXPECT_EQ(again->artifact.object, made->artifact.object);
  EXPECT_EQ(again->artifact.manifest_json, made->artifact.manifest_json);
}

// What sums are checked with: 0 = take it from the tensors of the call.
TEST(Dispatch, TheLengthOfSumsIsUnknownWhereACallChoosesIt) {
  const KernelTemplate* matmul = FindKernelTemplate("matmul");
  DispatchInput input;
  input.kernel.kernel_source = std::string(matmul->source);
  input.kernel.kernel_path = "matmul.py";
  input.kernel.entry = std::string(matmul->entry);
  input.kernel.arch_record = Host();
  input.low = 1;
  input.high = 300;
  input.variants = {*Config::Parse("block_M=8,block_N=16,block_K=8"),
                    *Config::Parse("block_M=8,block_N=48,block_K=8")};
  input.steps = {{1, 0}, {33, 1}};
  for (const auto& [dimension, length] : {std::pair{"M", 40}, {"K", 0}}) {
    input.dimension = dimension;
    input.kernel.arguments = {{"M", "24"}, {"N", "48"}, {"K", "40"}};
    input.kernel.arguments[dimension] = "T.dynamic";
    const auto made = CompileDispatch(input);
    ASSERT_TRUE(made.ok()) << made.status();
    const auto manifest = nlohmann::json::parse(made->artifact.manifest_json);
    EXPECT_EQ(manifest.at("reduction_length"), length) << dimension;
  }
}

// The type that sums are kept in, of one object and of a range; told of half precision alone.
TEST(Dispatch, SumsInHalfPrecisionAreTold) {
  constexpr char kKernels[] = R"(
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-2, -1])
def kernels(M, K=256, sums="float16", loop=False, promoted=False, block=16):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((K, 16), T.float16),
             C: T.Tensor((M, 16), T.float32), D: T.Tensor((M, 16), T.float32)):
        with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
            a = T.alloc_shared((block, 64), T.float16)
            b = T.alloc_shared((64, 16), T.float16)
            total = T.alloc_fragment((block, 16), sums)
            wide = T.alloc_fragment((block, 16), T.float32)
            T.clear(wide)
            T.clear(total)
            for k in T.serial(K // 64):
                T.copy(A[bx * block, k * 64], a)
                T.copy(B[k * 64, 0], b)
                if promoted:
                    T.clear(total)
                if loop:
                    for i, j in T.Parallel(block, 16):
                        total[i, j] = total[i, j] + a[i, j]
                else:
                    T.gemm(a, b, total)
                if promoted:
                    for i, j in T.Parallel(block, 16):
                        wide[i, j] += total[i, j]
            if promoted:
                T.copy(wide, C[bx * block, 0])
            else:
                T.copy(total, C[bx * block, 0])
            for i, j in T.Parallel(block, 16):
                D[bx * block + i, j] = A[bx * block + i, j] + 1.0
    return main
)";
  const auto input = [&](const std::string& config) {
    CompileInput made;
    made.kernel_source = kKernels;
    made.kernel_path = "kernels.py";
    made.arch_record = Host();
    made.arguments = {{"M", "32"}};
    made.config = *Config::Parse(config);
    return made;
  };
  const auto sums = [](const std::string& text, const char* name) {
    const auto manifest = nlohmann::json::parse(text);
    for (const auto& param : manifest.at("params")) {
      if (param.at("name") == name) return param.value("sums", nlohmann::json()).dump();
    }
    return std::string("no such tensor");
  };
  for (const auto& [config, want] : std::vector<std::pair<std::string, std::string>>{
           {"loop=False", R"({"dtype":"float16","roundings":256})"},
           {"promoted=True", R"({"dtype":"float16","roundings":64})"},
           {"loop=True", R"({"dtype":"float16","roundings":16})"},
           {"loop=False,sums=bfloat16", R"({"dtype":"bfloat16","roundings":256})"},
           {"loop=False,sums=float32", "null"},
           {"loop=True,sums=float32", "null"}}) {
    const auto made = CompileKernel(input(config));
    ASSERT_TRUE(made.ok()) << config << ": " << made.status();
    EXPECT_EQ(sums(made->manifest_json, "C"), want) << config;
    EXPECT_EQ(sums(made->manifest_json, "D"), "null") << config;
    EXPECT_EQ(sums(made->manifest_json, "A"), "null") << config;
  }
  DispatchInput range;
  range.kernel = input("");
  range.kernel.arguments = {{"M", "T.dynamic"}};
  range.dimension = "M";
  range.low = 1;
  range.high = 300;
  range.variants = {*Config::Parse("sums=float32"), *Config::Parse("sums=float16,block=32")};
  range.steps = {{1, 0}, {33, 1}};
  const auto made = CompileDispatch(range);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(sums(made->artifact.manifest_json, "C"), R"({"dtype":"float16","roundings":256})");
  EXPECT_EQ(sums(made->artifact.manifest_json, "D"), "null");
}

// How many additions an element gets is known where the data have no say in it.
TEST(Dispatch, AtomicSumsInHalfPrecisionAreTold) {
  CompileInput input;
  input.kernel_source = R"(
import tilelang
import tilelang.language as T


@tilelang.jit
def added(C: T.Tensor((64, 16), T.float16), A: T.Tensor((4, 64, 16), T.float16),
          I: T.Tensor((64,), T.int32), scatter=False):
    with T.Kernel(4, 4, threads=32) as (bx, by):
        for i, j in T.Parallel(16, 16):
            row = I[bx * 16 + i] if scatter else bx * 16 + i
            T.atomic_add(C[row, j], A[by, bx * 16 + i, j])
)";
  input.kernel_path = "added.py";
  input.arch_record = Host();
  for (const auto& [config, roundings] : {std::pair{"scatter=False", 16}, {"scatter=True", 0}}) {
    input.config = *Config::Parse(config);
    const auto made = CompileKernel(input);
    ASSERT_TRUE(made.ok()) << made.status();
    const auto manifest = nlohmann::json::parse(made->manifest_json);
    const auto& sums = manifest.at("params").at(0).at("sums");
    EXPECT_EQ(sums.at("dtype"), "float16");
    EXPECT_EQ(sums.at("roundings"), roundings) << config;
  }
}

TEST(Dispatch, RefusesWhatItCannotMean) {
  const auto message = [](const DispatchInput& input) {
    const auto made = CompileDispatch(input);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  DispatchInput input = TaggedRange(Host());
  input.dimension = "N";
  EXPECT_THAT(message(input), HasSubstr("no run-time dimension 'N'; it has M"));
  input = TaggedRange(Host());
  input.steps[0].first = 4;
  EXPECT_THAT(message(input), HasSubstr("does not start where the range does"));
  input = TaggedRange(Host());
  input.steps[2].first = 17;
  EXPECT_THAT(message(input), HasSubstr("do not ascend"));
  input = TaggedRange(Host());
  input.steps[1].variant = 0;
  EXPECT_THAT(message(input), HasSubstr("a variant is in no step"));
  input = TaggedRange(Host());
  input.steps[1].variant = 2;
  EXPECT_THAT(message(input), HasSubstr("no variant 2"));
  input = TaggedRange(Host());
  input.steps[2].first = 201;
  EXPECT_THAT(message(input), HasSubstr("behind the range"));
}

TEST(Dispatch, HoldsTheGpuCodeOfEveryConfig) {
  if (!AssemblerVersion().ok()) GTEST_SKIP() << "no assembler of GPU code is here";
  const auto made = CompileDispatch(TaggedRange(target::ToText(*target::NamedArch("sm_90a"))));
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->variants.size(), 2u);
  EXPECT_NE(made->variants[0].cubin, made->variants[1].cubin);
  EXPECT_TRUE(made->artifact.cubin.empty());
  for (const VariantOutput& variant : made->variants) {
    EXPECT_TRUE(absl::StrContains(made->artifact.shared_object, variant.cubin));
    EXPECT_THAT(variant.assembly, HasSubstr(".target sm_90a"));
    EXPECT_TRUE(nlohmann::json::parse(variant.manifest_json).contains("launches"));
  }
  const auto manifest = nlohmann::json::parse(made->artifact.manifest_json);
  EXPECT_FALSE(manifest.contains("launches"));
  EXPECT_TRUE(manifest.at("variants").at(0).contains("launches"));
  // Sizes outside are refused before any driver is looked for.
  const Loaded loaded(made->artifact.shared_object, made->artifact.name);
  alignas(16) float room[16];
  EXPECT_EQ(loaded.As<Map>()(nullptr, room, room, 201), KILN_ERROR_ARGUMENT);
  EXPECT_EQ(loaded.As<Map>()(nullptr, room, room, 2), KILN_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace kiln::codegen
