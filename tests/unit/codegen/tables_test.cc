// Tables of tensors: the right numbers wherever the tensors lie, and no access that takes an
// address from a table for more than it is.
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/compile.h"
#include "compiler/interp/interp.h"
#include "compiler/lang/kernel.h"
#include "compiler/target/arch.h"
#include "compiler/target/host_arch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/util/compiled_program.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

// Tensor i of `out` becomes tensor which[i] of `in`, twice; what is looked up outside is zero.
constexpr char kKernel[] = R"python(
import tilelang.language as T


@T.prim_func
def kernel(
    which: T.Tensor([4], T.int32),
    src: T.Tensor([3], T.ptr),
    out: T.Tensor([4], T.ptr),
):
    with T.Kernel(4, T.ceildiv(48, 32), threads=64) as (b, bn):
        tile = T.alloc_shared((8, 32), T.float16)
        at = T.alloc_var(T.int32)
        at = which[b]
        S = T.make_tensor(src[at], (8, 48), T.float16)
        at = 1
        D = T.make_tensor(out[b], (8, 48), T.float16)
        for k in T.Pipelined(1, num_stages=2):
            T.copy(S[0, bn * 32], tile)
            for i, j in T.Parallel(8, 32):
                D[i, bn * 32 + j] = tile[i, j] + tile[i, j]
)python";

constexpr int64_t kElements = 8 * 48;

std::shared_ptr<const SourceFile> Source() {
  return std::make_shared<SourceFile>(SourceFile{"tables.py", kKernel});
}

absl::StatusOr<ir::Program> Program() {
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(Source(), ""));
  KILN_ASSIGN_OR_RETURN(const Config config, Config::Parse(""));
  return lang::Elaborate(kernel, {}, config);
}

double In(int64_t tensor, int64_t i) { return static_cast<double>((i * 7 + tensor * 3) % 31 - 15); }

// As the call passes it, `which` ends with an index outside of the table.
constexpr int32_t kWhich[] = {2, 0, 1, 7};

double Want(int64_t tensor, int64_t i) {
  return kWhich[tensor] > 2 ? 0 : 2 * In(kWhich[tensor], i);
}

TEST(Tables, AreOneBufferOfAProgram) {
  const auto program = Program();
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<interp::Tensor> tensors;
  tensors.emplace_back(kInt32, std::vector<int64_t>{4});
  tensors.emplace_back(kFloat16, std::vector<int64_t>{3, 8, 48});
  tensors.emplace_back(kFloat16, std::vector<int64_t>{4, 8, 48});
  std::memcpy(tensors[0].data(), kWhich, sizeof(kWhich));
  for (int64_t i = 0; i < 3 * kElements; ++i) {
    tensors[1].View().Set(i, In(i / kElements, i % kElements));
  }
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  interp::Options options;
  options.clip_global = true;
  const auto ran = interp::Run(*program, views, options);
  ASSERT_TRUE(ran.ok()) << ran.status();
  for (int64_t i = 0; i < 4 * kElements; ++i) {
    ASSERT_EQ(tensors[2].View().Get(i), Want(i / kElements, i % kElements)) << i;
  }
}

// Each tensor on its own, at an address that is odd in elements, between bytes that stay.
TEST(Tables, AreFollowedNatively) {
  const auto program = Program();
  ASSERT_TRUE(program.ok()) << program.status();
  const auto compiled = testing::CompiledProgram::Compile(*program);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  constexpr uint8_t kBeside = 0x5a;
  std::vector<std::vector<uint8_t>> memory(7, std::vector<uint8_t>(2 * kElements + 128, kBeside));
  std::vector<void*> addresses;
  for (size_t t = 0; t < memory.size(); ++t) {
    addresses.push_back(memory[t].data() + 2 * (2 * t + 1));
    if (t >= 3) continue;
    const interp::TensorView view{addresses[t], kFloat16, {kElements}, {}};
    for (int64_t i = 0; i < kElements; ++i) view.Set(i, In(static_cast<int64_t>(t), i));
  }
  std::vector<int32_t> which(kWhich, kWhich + 4);
  ASSERT_EQ(compiled->Run({which.data(), &addresses[0], &addresses[3]}), 0);
  for (int64_t t = 0; t < 4; ++t) {
    const interp::TensorView view{addresses[3 + t], kFloat16, {kElements}, {}};
    for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(view.Get(i), Want(t, i)) << t << ": " << i;
    const size_t first = 2 * (2 * (3 + t) + 1);
    for (size_t i = 0; i < memory[3 + t].size(); ++i) {
      if (i >= first && i < first + 2 * kElements) continue;
      ASSERT_EQ(memory[3 + t][i], kBeside) << t << ": byte " << i;
    }
  }
}

TEST(Tables, AreFollowedByThreads) {
  const auto program = Program();
  ASSERT_TRUE(program.ok()) << program.status();
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const target::Arch arch = *target::NamedArch(gpu);
    passes::PassContext context;
    context.gpu = &arch;
    std::string why;
    EXPECT_EQ(testing::CheckThreads(*program, 5, 0, &why, context), testing::Verdict::kSame)
        << gpu << ": " << why;
  }
}

// Tiles that would be fetched 16 bytes at a time out of tensors of their own.
constexpr char kWhole[] = R"python(
import tilelang.language as T


@T.prim_func
def kernel(src: T.Tensor([3], T.ptr), out: T.Tensor([3], T.ptr)):
    with T.Kernel(3, threads=64) as b:
        tile = T.alloc_shared((8, 64), T.float16)
        S = T.make_tensor(src[b], (8, 512), T.float16)
        D = T.make_tensor(out[b], (8, 512), T.float16)
        for k in T.Pipelined(8, num_stages=2):
            T.copy(S[0, k * 64], tile)
            T.copy(tile, D[0, k * 64])
)python";

// An address out of a table is a multiple of an element's two bytes.
TEST(Tables, GiveNoWideAccesses) {
  codegen::CompileInput input;
  input.kernel_source = kWhole;
  input.kernel_path = "tables.py";
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    input.arch_record = target::ToText(*target::NamedArch(gpu));
    const auto ptx = codegen::EmitStage(input, "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    EXPECT_THAT(*ptx, HasSubstr(".u64 ")) << gpu;
    for (const char* wide : {"cp.async.ca", "cp.async.cg", "cp.async.bulk.tensor", "ld.global.v",
                             "ld.global.nc.v", "st.global.v", "st.global.b32", "st.global.u32"}) {
      EXPECT_FALSE(absl::StrContains(*ptx, wide)) << gpu << ": " << wide << "\n" << *ptx;
    }
  }
}

// But where the kernel promises more.
TEST(Tables, GiveAccessesAsWideAsIsPromised) {
  codegen::CompileInput input;
  input.kernel_source = kWhole;
  input.kernel_path = "tables.py";
  input.arch_record = target::ToText(*target::NamedArch("sm_80"));
  const auto ptx_of = [&](const char* config) {
    input.config = *Config::Parse(config);
    const auto ptx = codegen::EmitStage(input, "asm");
    EXPECT_TRUE(ptx.ok()) << ptx.status();
    return ptx.value_or("");
  };
  const std::string whole = ptx_of("kiln.table_alignment=16");
  EXPECT_THAT(whole, HasSubstr("cp.async.cg.shared.global"));
  EXPECT_THAT(whole, HasSubstr("st.global.v4.b32"));
  const std::string some = ptx_of("kiln.table_alignment=4");
  EXPECT_FALSE(absl::StrContains(some, "cp.async.cg.shared.global")) << some;
  EXPECT_FALSE(absl::StrContains(some, "st.global.v")) << some;
  EXPECT_THAT(some, HasSubstr("st.global.b32"));
  const auto kernel =
      lang::Kernel::Parse(std::make_shared<SourceFile>(SourceFile{"tables.py", kWhole}), "");
  const auto program = lang::Elaborate(*kernel, {}, *Config::Parse("kiln.table_alignment=16"));
  ASSERT_TRUE(program.ok()) << program.status();
  const target::Arch arch = *target::NamedArch("sm_80");
  passes::PassContext context;
  context.gpu = &arch;
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*program, 5, 0, &why, context), testing::Verdict::kSame) << why;
}

TEST(Tables, AreSaidInTheManifest) {
  codegen::CompileInput input;
  input.kernel_source = kKernel;
  input.kernel_path = "tables.py";
  const auto host = target::DescribeHost();
  ASSERT_TRUE(host.ok()) << host.status();
  input.arch_record = target::ToText(*host);
  const auto made = codegen::CompileKernel(input);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto params = nlohmann::json::parse(made->manifest_json)["params"];
  EXPECT_FALSE(params[0].contains("table"));
  EXPECT_EQ(params[1].value("table", false), true);
  EXPECT_EQ(params[1]["shape"], nlohmann::json({3, 8, 48}));
  EXPECT_EQ(params[2]["output"], true);
  EXPECT_THAT(made->header, HasSubstr("a table of the tensors' addresses"));
}

}  // namespace
}  // namespace kiln
