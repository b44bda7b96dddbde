// bfloat16 products on AMX against sums in double, over ragged shapes; what the code looks like;
// and a system that refuses the tiles.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"
#include "tests/util/compiled_program.h"
#include "tests/util/tile_programs.h"

namespace kiln {
namespace {

using testing::CompiledProgram;
using testing::MatmulShape;

constexpr char kNoAmx[] = "this processor, or this system, has no AMX with bfloat16";

MatmulShape Shape(int64_t m, int64_t n, int64_t k, int64_t bm, int64_t bn, int64_t bk) {
  MatmulShape s{m, n, k, bm, bn, bk};
  s.dtype = kBFloat16;
  return s;
}

std::vector<uint8_t> RandomBytes(int64_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<uint8_t> bytes(count * 2);
  for (int64_t i = 0; i < count; ++i) StoreElement(&bytes[i * 2], kBFloat16, uniform(rng));
  return bytes;
}

double At(const std::vector<uint8_t>& bytes, int64_t index) {
  return LoadElement(&bytes[index * 2], kBFloat16);
}

class AmxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HostPassContext().amx_bf16) GTEST_SKIP() << kNoAmx;
  }
};

void ExpectRight(const MatmulShape& s) {
  SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " blocks " << s.block_m
                                    << "x" << s.block_n << "x" << s.block_k);
  const auto program = CompiledProgram::Compile(testing::MatmulProgram(s));
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<uint8_t> a = RandomBytes(s.m * s.k, 1), b = RandomBytes(s.k * s.n, 2);
  std::vector<uint8_t> c(s.m * s.n * 2 + 64, 0xff);
  ASSERT_EQ(program->Run({a.data(), b.data(), c.data()}), 0);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double expected = 0;
      for (int64_t k = 0; k < s.k; ++k) expected += At(a, i * s.k + k) * At(b, k * s.n + j);
      // One rounding to bfloat16, and float32 sums.
      ASSERT_NEAR(At(c, i * s.n + j), expected, 5e-3 * (1 + std::abs(expected))) << i << "," << j;
    }
  }
  for (int i = 0; i < 64; ++i) ASSERT_EQ(c[s.m * s.n * 2 + i], 0xff) << "wrote past the end of C";
}

TEST_F(AmxTest, OneBlockOfTiles) { ExpectRight(Shape(32, 32, 32, 32, 32, 32)); }

TEST_F(AmxTest, WholeAndRaggedShapes) {
  for (const MatmulShape& s : {
           Shape(64, 96, 128, 32, 32, 64),
           Shape(128, 128, 1024, 64, 128, 1024),  // K in more than one pass over C
           Shape(100, 130, 70, 64, 128, 64),
           Shape(37, 29, 53, 17, 16, 34),
           Shape(33, 65, 17, 48, 24, 6),
           Shape(5, 7, 3, 5, 8, 4),
           Shape(64, 40, 96, 64, 40, 96),
           Shape(45, 200, 90, 45, 100, 30),
           Shape(1, 1, 1, 16, 16, 32),
       }) {
    ExpectRight(s);
  }
}

TEST_F(AmxTest, RandomShapes) {
  std::mt19937 rng(5);
  for (int i = 0; i < 12; ++i) {
    ExpectRight(Shape(1 + rng() % 90, 1 + rng() % 150, 1 + rng() % 150, 5 + rng() % 70,
                      2 + rng() % 90, 4 + 2 * (rng() % 60)));
  }
}

// ---- the code ----

codegen::CompileInput Matmul(const std::string& config, std::vector<std::string> features) {
  absl::StatusOr<target::Arch> arch = target::NamedArch("x86-64-v4");
  arch->features.insert(arch->features.end(), features.begin(), features.end());
  const KernelTemplate* kernel = FindKernelTemplate("matmul");
  codegen::CompileInput input;
  input.kernel_source = std::string(kernel->source);
  input.entry = std::string(kernel->entry);
  input.arguments = {{"M", "256"}, {"N", "256"}, {"K", "512"}, {"dtype", "bfloat16"}};
  input.config = *Config::Parse(config);
  input.arch_record = target::ToText(*arch);
  return input;
}

int Count(absl::string_view text, absl::string_view word) {
  int count = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) count += absl::StrContains(line, word);
  return count;
}

// The lines between the label of the loop around the first tdpbf16ps and its back edge.
std::string TileLoop(const std::string& assembly) {
  const size_t product = assembly.find("tdpbf16ps");
  const size_t label = assembly.rfind(".LBB", product);
  const size_t jump = assembly.find("\tj", product);
  return assembly.substr(label, jump - label);
}

TEST(AmxCode, ATargetWithTilesUsesThemAndOneWithoutDoesNot) {
  const std::string config = "block_M=64,block_N=64,block_K=256";
  const auto with = codegen::EmitStage(Matmul(config, {"amx-tile", "amx-bf16"}), "asm");
  const auto without = codegen::EmitStage(Matmul(config, {}), "asm");
  ASSERT_TRUE(with.ok()) << with.status();
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_GE(Count(*with, "tdpbf16ps"), 4);
  EXPECT_EQ(Count(*with, "tilerelease"), 1);
  EXPECT_EQ(Count(*with, "ldtilecfg"), 1) << "one shape is configured once a block";
  for (const char* word : {"tdpbf16ps", "tileload", "ldtilecfg", "tilerelease"}) {
    EXPECT_EQ(Count(*without, word), 0) << word;
  }
  const auto tiles_alone = codegen::EmitStage(Matmul(config, {"amx-tile"}), "asm");
  ASSERT_TRUE(tiles_alone.ok());
  EXPECT_EQ(Count(*tiles_alone, "tileload"), 0);
}

TEST(AmxCode, TheLoopOverKLoadsAndMultipliesOnly) {
  const auto assembly = codegen::EmitStage(
      Matmul("block_M=64,block_N=64,block_K=256", {"amx-tile", "amx-bf16"}), "asm");
  ASSERT_TRUE(assembly.ok()) << assembly.status();
  const std::string loop = TileLoop(*assembly);
  EXPECT_EQ(Count(loop, "tilestored"), 0) << loop;
  EXPECT_EQ(Count(loop, "ldtilecfg"), 0) << loop;
  EXPECT_EQ(Count(loop, "tileloadd"), Count(loop, "tdpbf16ps")) << loop;
  EXPECT_EQ(Count(loop, "%rsp"), 0) << loop;
}

TEST(AmxCode, RaggedBlocksConfigureEachShape) {
  const auto assembly = codegen::EmitStage(
      Matmul("block_M=40,block_N=48,block_K=80", {"amx-tile", "amx-bf16"}), "asm");
  ASSERT_TRUE(assembly.ok()) << assembly.status();
  EXPECT_GT(Count(*assembly, "ldtilecfg"), 4);
}

// ---- a system that refuses ----

// Makes the system answer EPERM to requests for tile registers, from here on.
bool RefuseTiles() {
  constexpr uint32_t kRequest = 0x1023;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRequest, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(AmxTest, ARefusalIsAnErrorCode) {
  const auto program =
      CompiledProgram::Compile(testing::MatmulProgram(Shape(32, 32, 32, 32, 32, 32)));
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<uint8_t> a(32 * 32 * 2), b = a, c(32 * 32 * 2, 0xff);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!RefuseTiles()) _exit(100);
    const int code = program->Run({a.data(), b.data(), c.data()});
    _exit(c[0] != 0xff ? 101 : -code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), -KILN_ERROR_UNSUPPORTED);
  EXPECT_EQ(program->Run({a.data(), b.data(), c.data()}), 0) << "the parent is not refused";
}

}  // namespace
}  // namespace kiln
