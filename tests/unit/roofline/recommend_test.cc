#include "compiler/roofline/recommend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "tests/unit/roofline/kernels.h"

namespace kiln::roofline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

double Value(const Config& c, const char* name) {
  double v = 0;
  const std::string* text = c.Find(name);
  EXPECT_TRUE(text != nullptr && absl::SimpleAtod(*text, &v)) << c.ToString() << " lacks " << name;
  return v;
}

std::string RoleOf(const Recommendation& r, const std::string& name) {
  for (const Tunable& t : r.space->tunables()) {
    if (t.name == name) return t.role;
  }
  return "absent";
}

TEST(RecommendTest, DerivesTheSpaceOfAMatmul) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  const auto r = Recommend(MatmulRequest(kernel, 512, 6144, 4096));
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(RoleOf(*r, "block_M"), "tile M");
  EXPECT_EQ(RoleOf(*r, "block_N"), "tile N");
  EXPECT_EQ(RoleOf(*r, "block_K"), "tile K");
  EXPECT_EQ(RoleOf(*r, "threads"), "threads");
  EXPECT_EQ(RoleOf(*r, "num_stages"), "stages");
  EXPECT_EQ(RoleOf(*r, "panel"), "panel");
  EXPECT_EQ(RoleOf(*r, "trans_A"), "absent");  // a flag is never derived unasked
  EXPECT_GT(r->legal_count, 1000);
  EXPECT_EQ(r->ranked.size(), 16u + 48u);
  // Ranges that have no effect on this target have one value.
  for (const Tunable& t : r->space->tunables()) {
    const bool inert = t.name == "threads" || t.name == "num_stages";
    EXPECT_EQ(t.values.size() == 1, inert) << t.name;
  }
  std::set<std::string> distinct;
  for (const Hint& h : r->ranked) distinct.insert(h.config.ToString());
  EXPECT_EQ(distinct.size(), r->ranked.size());
}

// More than are looked at for their likeness: the rest is in order of price.
TEST(RecommendTest, ThousandsAreAllThatThereAre) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request request = MatmulRequest(kernel, 4096, 4096, 4096);
  request.arch = *target::NamedArch("sm_90a");
  request.top_k = 6500;
  const auto r = Recommend(request);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_GT(r->legal_count, request.top_k);
  EXPECT_GE(r->ranked.size(), 6500u);
  std::set<std::string> distinct;
  for (const Hint& h : r->ranked) distinct.insert(h.config.ToString());
  EXPECT_EQ(distinct.size(), r->ranked.size());
}

// 112 and 224 fill rows of 28672.
TEST(RecommendTest, WideTilesOfAGpuDivideTheirRow) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  const auto widths = [&](int64_t N) {
    Request request = MatmulRequest(kernel, 64, N, 4096);
    request.arch = *target::NamedArch("sm_90a");
    const auto r = Recommend(request);
    EXPECT_TRUE(r.ok()) << r.status();
    for (const Tunable& t : r->space->tunables()) {
      if (t.name == "block_N") return t.values;
    }
    return std::vector<std::string>();
  };
  EXPECT_THAT(widths(28672),
              ElementsAre("16", "32", "48", "64", "96", "112", "128", "160", "192", "224", "256"));
  EXPECT_THAT(widths(4096), ElementsAre("16", "32", "48", "64", "96", "128", "160", "192", "256"));
}

TEST(RecommendTest, TwoRunsAgreeToTheLastBit) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  const Request request = MatmulRequest(kernel, 333, 257, 129);
  const auto a = Recommend(request), b = Recommend(request);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status();
  EXPECT_EQ(a->kernel_digest, b->kernel_digest);
  ASSERT_EQ(a->ranked.size(), b->ranked.size());
  for (size_t i = 0; i < a->ranked.size(); ++i) {
    EXPECT_EQ(a->ranked[i].config, b->ranked[i].config);
    EXPECT_EQ(a->ranked[i].predicted_ns, b->ranked[i].predicted_ns);
    EXPECT_EQ(a->ranked[i].reason, b->ranked[i].reason);
  }
}

TEST(RecommendTest, DigestIsOfTheProgramNotOfItsText) {
  const lang::Kernel kernel = TemplateKernel("reduction");
  std::string text = kernel.file()->text;
  const lang::Kernel comments = KernelFrom("# a comment\n" + text);
  const lang::Kernel renamed = KernelFrom(absl::StrReplaceAll(text, {{"found", "sums"}}));
  const lang::Kernel other = KernelFrom(
      absl::StrReplaceAll(text, {{"T.reduce(tile, found, kind", "T.reduce(tile, found, \"max\""}}));
  const auto digest = [](const lang::Kernel& k) {
    Request r;
    r.kernel = &k;
    r.arguments = {{"M", "64"}, {"N", "4096"}};
    r.arch = *target::NamedArch("x86-64-v4");
    const auto answer = Recommend(r);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->kernel_digest : "";
  };
  EXPECT_EQ(digest(kernel), digest(comments));
  EXPECT_EQ(digest(kernel), digest(renamed));
  EXPECT_NE(digest(kernel), digest(other));
}

TEST(RecommendTest, ExplicitListsAreHonouredAsGiven) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 100, 100, 100);
  r.tunables = {{"block_M", {"32", "64"}}, {"block_N", {"48"}}, {"block_K", {"16", "32", "16"}}};
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->total_count, 4);
  EXPECT_EQ(answer->legal_count, 4);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(*answer->space->ConfigAt(i).Find("block_N"), "48");
    EXPECT_EQ(answer->space->ConfigAt(i).values().size(), 3u);
  }
}

// Another N is another problem, and the smallest would always win.
TEST(RecommendTest, SizesOfTensorsAreNotTuned) {
  const auto file = std::make_shared<SourceFile>(SourceFile{"k.py", R"(
import tilelang
import tilelang.language as T
@tilelang.jit
def double(M, N=4096, block_M=16):
    @T.prim_func
    def main(x: T.Tensor((M, N), "float32"), y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M)) as b:
            for i, j in T.Parallel(block_M, N):
                y[b * block_M + i, j] = x[b * block_M + i, j] * 2.0
    return main
)"});
  const lang::Kernel kernel = *lang::Kernel::Parse(file, "double");
  Request r;
  r.kernel = &kernel;
  r.arguments = {{"M", "256"}};
  r.arch = *target::NamedArch("x86-64-v4");
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->space->ConfigAt(0).Find("N"), nullptr);
  EXPECT_THAT(answer->notes, Contains(HasSubstr("'N' decides the shape of tensor")));
  r.auto_tunables = {"N"};
  EXPECT_THAT(std::string(Recommend(r).status().message()), HasSubstr("give its value"));
  r.auto_tunables.clear();
  r.tunables = {{"N", {"64", "128"}}};  // whoever lists the values means it
  const auto listed = Recommend(r);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->total_count, 2);
}

// What the kernel asks of the machine is answered from the target of the request.
TEST(RecommendTest, KernelsSeeTheTargetThatTheyAreRecommendedFor) {
  const lang::Kernel kernel = KernelFrom(R"(
import tilelang
import tilelang.language as T
from tilelang.carver.arch import driver
@tilelang.jit
def double(x, block=64):
    N = T.const("N")
    x: T.Tensor((N,), "float32")
    y = T.empty((N,), "float32")
    blocks = driver.get_num_sms()
    tiles = T.ceildiv(N, block)
    with T.Kernel(blocks, threads=64) as b:
        for t in T.serial(T.ceildiv(tiles, blocks)):
            for i in T.Parallel(block):
                y[(t * blocks + b) * block + i] = x[(t * blocks + b) * block + i] * 2.0
    return y
)");
  std::set<std::string> digests;
  for (const char* name : {"sm_80", "sm_90a", "x86-64-v4"}) {
    Request r;
    r.kernel = &kernel;
    r.arguments = {{"N", "65536"}};
    r.arch = *target::NamedArch(name);
    const auto answer = Recommend(r);
    ASSERT_TRUE(answer.ok()) << name << ": " << answer.status();
    digests.insert(absl::StrCat(answer->kernel_digest));
    const auto program =
        lang::Elaborate(kernel, r.arguments, answer->ranked[0].config, lang::FactsOf(r.arch));
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_THAT(ir::ToString(*program),
                HasSubstr(absl::StrCat("launch b in (", r.arch.cores, ")")));
  }
  EXPECT_EQ(digests.size(), 3u) << "programs that differ have one digest";
}

TEST(RecommendTest, GivenConfigsAreTheWholeSpace) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 128, 128, 128);
  for (const char* c : {"block_K=32,block_M=16,block_N=64", "block_K=64,block_M=64,block_N=64",
                        "block_M=32,panel=4", "block_K=32,block_M=16,block_N=64"}) {
    r.configs.push_back(*Config::Parse(c));
  }
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->total_count, 3);  // one is given twice
  std::set<std::string> got;
  for (const Hint& h : answer->ranked) got.insert(h.config.ToString());
  EXPECT_THAT(got, Contains("block_M=32,panel=4"));
  EXPECT_EQ(got.size(), 3u);
  for (const Config& c : r.configs) EXPECT_GE(answer->space->RankOf(c), 0) << c.ToString();
}

TEST(RecommendTest, RanksAndConfigsAreInverse) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  const auto r = Recommend(MatmulRequest(kernel, 128, 256, 512));
  ASSERT_TRUE(r.ok());
  double before = 0;
  for (int64_t rank = 0; rank < r->legal_count; rank += 37) {
    EXPECT_EQ(r->space->RankOf(r->space->ConfigAt(rank)), rank);
    EXPECT_GE(r->space->PredictedAt(rank), before);
    before = r->space->PredictedAt(rank);
    EXPECT_DOUBLE_EQ(r->space->HintAt(rank).predicted_ns, before);
  }
  EXPECT_EQ(r->space->RankOf(*Config::Parse("block_M=1")), -1);
}

TEST(RecommendTest, NothingListedExceedsTheLimits) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  for (const char* arch : {"x86-64-v3", "x86-64-v4", "sm_80", "sm_90a", "sm_100a"}) {
    Request r = MatmulRequest(kernel, 4096, 4096, 4096, arch);
    r.arguments["dtype"] = "\"float16\"";
    r.strategy = Strategy::kAll;
    r.tunables = {{"block_M", {"16", "24", "64", "128", "256", "8192"}},
                  {"block_N", {"8", "28", "64", "128", "256", "8192"}},
                  {"block_K", {"16", "24", "32", "64", "4096"}},
                  {"num_stages", {"1", "3", "6"}},
                  {"threads", {"32", "100", "128", "256", "2048"}}};
    const auto answer = Recommend(r);
    ASSERT_TRUE(answer.ok()) << arch << answer.status();
    ASSERT_LT(answer->legal_count, answer->total_count) << arch;
    const bool gpu = r.arch.kind == target::ArchKind::kGpu;
    for (int64_t i = 0; i < answer->legal_count; ++i) {
      const Config c = answer->space->ConfigAt(i);
      const double m = Value(c, "block_M"), n = Value(c, "block_N"), k = Value(c, "block_K");
      const double threads = Value(c, "threads"), stages = Value(c, "num_stages");
      if (!gpu) {
        ASSERT_LE(2 * k * (m + n) + 4 * m * n, 256.0 * 1024 * 1024) << c.ToString();
        ASSERT_LE(threads, 1024) << c.ToString();
        continue;
      }
      ASSERT_LE(2 * k * (m + n) * stages, static_cast<double>(r.arch.smem_block)) << c.ToString();
      ASSERT_EQ(std::fmod(m, 16), 0) << c.ToString();
      ASSERT_EQ(std::fmod(n, 8), 0) << c.ToString();
      ASSERT_EQ(std::fmod(k, 16), 0) << c.ToString();
      ASSERT_EQ(std::fmod(threads, 32), 0) << c.ToString();
      ASSERT_LE(m * n / threads + 40, 256) << c.ToString();  // accumulators a thread
    }
  }
}

// A tile that holds results when the operands are done with counts with theirs, not on top.
TEST(RecommendTest, TilesThatAreNotInUseTogetherShareMemory) {
  const lang::Kernel kernel = KernelFrom(R"(import tilelang
import tilelang.language as T


@tilelang.jit
def staged(A, B, num_stages: int = 2):
    A: T.Tensor((4096, 4096), "float16")
    B: T.Tensor((4096, 4096), "float16")
    C = T.empty((4096, 4096), "float16")
    with T.Kernel(32, 32, threads=128) as (bx, by):
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        out = T.alloc_shared((128, 128), "float16")
        T.clear(c)
        for k in T.Pipelined(64, num_stages=num_stages):
            T.copy(A[by * 128, k * 64], a)
            T.copy(B[k * 64, bx * 128], b)
            T.gemm(a, b, c)
        T.copy(c, out)
        T.copy(out, C[by * 128, bx * 128])
    return C
)");
  Request r;
  r.kernel = &kernel;
  r.arch = *target::NamedArch("sm_80");
  r.strategy = Strategy::kAll;
  r.tunables = {{"num_stages", {"2", "4", "5", "6"}}};
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  // 32 KiB a stage and 32 KiB of results in 163 KiB: five stages, four if they were apart.
  EXPECT_EQ(answer->legal_count, 3);
}

TEST(RecommendTest, NoLegalConfigSaysWhichLimit) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 64, 64, 64, "sm_80");
  r.arguments["dtype"] = "\"float16\"";
  r.tunables = {{"threads", {"100"}}};
  const auto answer = Recommend(r);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("legal on sm_80"));
}

TEST(RecommendTest, MistakesAreTheCallersAndSaySo) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  const auto message = [](const Request& r) {
    const auto answer = Recommend(r);
    EXPECT_FALSE(answer.ok());
    return std::string(answer.status().message());
  };
  Request r = MatmulRequest(kernel, 64, 64, 64);
  r.tunables = {{"block_m", {"32"}}};
  EXPECT_THAT(message(r), HasSubstr("has no parameter 'block_m'"));
  r.tunables = {{"block_M", {}}};
  EXPECT_THAT(message(r), HasSubstr("is empty"));
  r.tunables = {{"M", {"32"}}};
  EXPECT_THAT(message(r), HasSubstr("both an argument and a tunable"));
  r.tunables = {{"block_M", {"32"}}};
  r.configs = {*Config::Parse("block_M=32")};
  EXPECT_THAT(message(r), HasSubstr("not both"));
  r = MatmulRequest(kernel, 64, 64, 64);
  r.top_k = 0;
  EXPECT_THAT(message(r), HasSubstr("top_k"));
  r = MatmulRequest(kernel, 64, 64, 64);
  r.arguments.erase("K");
  EXPECT_FALSE(message(r).empty());
  r = MatmulRequest(kernel, 64, 64, 64);
  r.limits.configs = 3;
  EXPECT_THAT(message(r), HasSubstr("list fewer values"));
}

TEST(RecommendTest, ALargeSpaceIsThinnedAndSaysSo) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 512, 6144, 4096);
  r.limits.configs = 500;
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_LE(answer->legal_count, 500);
  EXPECT_GT(answer->total_count, 500);
  EXPECT_THAT(answer->notes, Contains(HasSubstr("sampled")));
}

TEST(RecommendTest, EveryHintExplainsItself) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  const auto r = Recommend(MatmulRequest(kernel, 333, 257, 129));
  ASSERT_TRUE(r.ok());
  for (const Hint& h : r->ranked) {
    EXPECT_THAT(h.reason, HasSubstr("Bound by"));
    EXPECT_FALSE(h.bound_by.empty());
    EXPECT_LT(h.low_ns, h.predicted_ns);
    EXPECT_GT(h.high_ns, h.predicted_ns);
    EXPECT_GT(h.low_ns, 0);
    EXPECT_GE(h.predicted_ns, h.roofline_ns * 0.999) << h.config.ToString();
    EXPECT_DOUBLE_EQ(h.compulsory_bytes, 4.0 * (333 * 129 + 129 * 257 + 333 * 257));
    EXPECT_NEAR(h.flops, 2.0 * 333 * 257 * 129, 1);
    EXPECT_GE(h.dram_bytes, h.compulsory_bytes * 0.999);
    EXPECT_EQ(h.fields.count("block"), 1u);
    EXPECT_EQ(h.fields.count("rstep"), 1u);
  }
}

TEST(RecommendTest, TheSlateIsDiverse) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 1000, 1000, 1000);
  r.top_k = 8;
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok());
  std::set<double> m, n, k;
  for (int i = 0; i < 8; ++i) {
    m.insert(Value(answer->ranked[i].config, "block_M"));
    n.insert(Value(answer->ranked[i].config, "block_N"));
    k.insert(Value(answer->ranked[i].config, "block_K"));
  }
  EXPECT_GE(m.size() + n.size() + k.size(), 9u);
  EXPECT_EQ(answer->ranked[0].config, answer->space->ConfigAt(0));
  const bool own_default = std::any_of(
      answer->ranked.begin(), answer->ranked.begin() + 8,
      [](const Hint& h) { return absl::StartsWith(h.reason, "The kernel's own default"); });
  EXPECT_TRUE(own_default);
}

// Measured on an H200, pairs of blocks are an eighth faster there than what the price prefers.
TEST(RecommendTest, ASlateTriesTheOtherWayOfAnOptionThatMayBeAsGood) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 1000, 1000, 1000);
  for (const char* name : {"dtype", "out_dtype"}) r.arguments[name] = "bfloat16";
  r.arguments["trans_B"] = "True";
  r.arch = *target::NamedArch("sm_90a");
  r.top_k = 16;
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->ranked[0].fields.at("cluster"), "1,1");
  const auto paired =
      std::find_if(answer->ranked.begin(), answer->ranked.begin() + 16, [&](const Hint& h) {
        return h.fields.at("cluster") == "1,2" &&
               h.fields.at("block") == answer->ranked[0].fields.at("block") &&
               h.fields.at("rstep") == answer->ranked[0].fields.at("rstep");
      });
  EXPECT_NE(paired, answer->ranked.begin() + 16);
}

TEST(RecommendTest, EveryTemplateHasASpaceOnEveryMachine) {
  const std::map<std::string, lang::Arguments> shapes = {
      {"matmul", {{"M", "512"}, {"N", "512"}, {"K", "512"}, {"dtype", "\"float16\""}}},
      {"gemv", {{"N", "4096"}, {"K", "4096"}}},
      {"elementwise", {{"M", "4096"}, {"N", "14336"}}},
      {"reduction", {{"M", "8192"}, {"N", "8192"}}},
      {"softmax", {{"M", "4096"}, {"N", "4096"}}},
      {"rmsnorm", {{"M", "4096"}, {"N", "4096"}}},
  };
  for (const auto& [name, arguments] : shapes) {
    const lang::Kernel kernel = TemplateKernel(name);
    for (const std::string& arch : target::ArchNames()) {
      Request r;
      r.kernel = &kernel;
      r.arguments = arguments;
      r.arch = *target::NamedArch(arch);
      const auto answer = Recommend(r);
      ASSERT_TRUE(answer.ok()) << name << " on " << arch << ": " << answer.status();
      EXPECT_GT(answer->ranked[0].predicted_ns, 0) << name << " on " << arch;
      EXPECT_TRUE(std::isfinite(answer->ranked[0].high_ns)) << name << " on " << arch;
    }
  }
}

TEST(RecommendTest, CarverIsAStrategyBesideOurs) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 1024, 1024, 1024, "sm_89");
  r.arguments["dtype"] = r.arguments["accum_dtype"] = r.arguments["out_dtype"] = "\"float16\"";
  r.arguments["trans_B"] = "True";
  r.tunables = {{"block_M", {"32", "64", "128", "256"}},
                {"block_N", {"32", "64", "128", "256"}},
                {"block_K", {"16", "32", "64", "128"}},
                {"threads", {"128"}},
                {"num_stages", {"1", "2"}}};
  r.strategy = Strategy::kCarver;
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->ranked.size(), 2u);
  EXPECT_EQ(answer->ranked[0].config.ToString(),
            "block_K=128,block_M=32,block_N=64,num_stages=1,threads=128");
  EXPECT_EQ(answer->ranked[1].config.ToString(),
            "block_K=128,block_M=64,block_N=32,num_stages=1,threads=128");
  EXPECT_THAT(answer->ranked[0].reason, HasSubstr("TensorCorePolicy"));

  const lang::Kernel softmax = TemplateKernel("softmax");
  Request s;
  s.kernel = &softmax;
  s.arguments = {{"M", "64"}, {"N", "64"}};
  s.arch = r.arch;
  s.strategy = Strategy::kCarver;
  EXPECT_EQ(Recommend(s).status().code(), absl::StatusCode::kUnimplemented);
}

// Shapes that nobody could run cost no time: they are priced, or refused at once.
TEST(RecommendTest, ExtentsWithoutEndAreNotSearched) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request request = MatmulRequest(kernel, 512, 512, 512);
  request.arguments["M"] = "68719476736";
  const auto start = std::chrono::steady_clock::now();
  const auto own = Recommend(request);
  EXPECT_TRUE(own.ok()) << own.status();
  request.strategy = Strategy::kCarver;
  const auto carver = Recommend(request);
  EXPECT_THAT(std::string(carver.status().message()), HasSubstr("above"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// A decision of the kernel needs the tunable's value: one elaboration for each.
TEST(RecommendTest, DecisionsSplitTheSpaceIntoPieces) {
  const lang::Kernel kernel = KernelFrom(R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def scale(x, block=64, passes=1, threads=128):
    N = T.const("N")
    x: T.Tensor((N,), T.float32)
    out = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        tile = T.alloc_shared((block,), T.float32)
        T.copy(x[bx * block], tile)
        if passes == 2:
            for i in T.Parallel(block):
                tile[i] = tile[i] * 2.0
        elif passes == 3:
            assert block < 128
        for i in T.Parallel(block):
            tile[i] = tile[i] * 3.0
        T.copy(tile, out[bx * block])
    return out
)");
  Request r;
  r.kernel = &kernel;
  r.arguments = {{"N", "4096"}};
  r.arch = *target::NamedArch("x86-64-v4");
  r.tunables = {{"passes", {"1", "2", "3"}}, {"block", {"32", "64", "128", "256"}}};
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->total_count, 12);
  EXPECT_EQ(answer->legal_count, 10);  // the kernel's own assert refuses two
  EXPECT_EQ(answer->space->RankOf(*Config::Parse("block=128,passes=3")), -1);
  EXPECT_GE(answer->space->RankOf(*Config::Parse("block=64,passes=3")), 0);
  // More work takes longer, all else equal.
  const auto ns = [&](const char* config) {
    return answer->space->PredictedAt(answer->space->RankOf(*Config::Parse(config)));
  };
  EXPECT_GT(ns("block=64,passes=2"), ns("block=64,passes=1"));
  r.limits.pieces = 2;
  const auto sampled = Recommend(r);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  EXPECT_THAT(sampled->notes, Contains(HasSubstr("sampled: 2 of 3 pieces")));
}

// Tensor cores multiply float32 where the kernel allows tf32: at their rate, and by their rules.
TEST(RecommendTest, Tf32IsPricedOnTensorCores) {
  const lang::Kernel exact = TemplateKernel("matmul");
  const lang::Kernel rounded = KernelFrom(absl::StrReplaceAll(
      exact.file()->text, {{"@tilelang.jit(", "@tilelang.jit(pass_configs={\"kiln.tf32\": 1}, "}}));
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    const auto best = [&](const lang::Kernel& kernel, const char* trans_b, const char* block_k,
                          const char* trans_a = "False") {
      Request r = MatmulRequest(kernel, 4096, 4096, 4096, arch);
      r.arguments["trans_A"] = trans_a;
      r.arguments["trans_B"] = trans_b;
      r.tunables = {{"block_K", {block_k}},
                    {"num_stages", {"3"}},
                    {"panel", {"8"}},
                    {"block_M", {"64", "128"}},
                    {"block_N", {"64", "128"}}};
      const auto answer = Recommend(r);
      EXPECT_TRUE(answer.ok()) << answer.status();
      return answer->ranked[0];
    };
    const target::Arch machine = *target::NamedArch(arch);
    const double flops = 2.0 * 4096 * 4096 * 4096;
    const Hint on_fma = best(exact, "True", "32"), on_tensor = best(rounded, "True", "32");
    EXPECT_DOUBLE_EQ(on_fma.roofline_ns, flops / machine.FindUnit("fma", kFloat32)->all) << arch;
    const double peak =
        std::max(machine.FindUnit("fma", kFloat32)->all, machine.FindUnit("tensor", kFloat32)->all);
    EXPECT_DOUBLE_EQ(on_tensor.roofline_ns, flops / peak) << arch;
    const bool halved = arch == std::string("sm_86") || arch == std::string("sm_89");
    if (!halved) {  // where float32 sums halve the rate, tf32 has that of FMA
      EXPECT_LT(on_tensor.predicted_ns, on_fma.predicted_ns / 2) << arch;
    }
    // No whole atoms of eight: FMA, at its price.
    EXPECT_DOUBLE_EQ(best(rounded, "True", "20").predicted_ns,
                     best(exact, "True", "20").predicted_ns)
        << arch;
    if (arch == std::string("sm_90a")) {  // one operand from registers; neither K-major: mma.sync
      const double fast = 1.01 * on_tensor.predicted_ns;  // it takes some registers more
      EXPECT_LT(best(rounded, "False", "32").predicted_ns, fast);
      EXPECT_LT(best(rounded, "True", "32", "True").predicted_ns, fast);
      EXPECT_GT(best(rounded, "False", "32", "True").predicted_ns, 1.2 * fast);
    }
  }
}

// What is counted of registers may be too few: of configs that are priced alike one of which no
// thread may lack any comes first.
TEST(RecommendTest, OfEqualPricesTheFirstHasRegistersToSpare) {
  const lang::Kernel kernel = TemplateKernel("attention");
  Request r;
  r.kernel = &kernel;
  r.arch = *target::NamedArch("sm_90a");
  r.arguments = {{"seq_q", "1000"}, {"seq_kv", "1024"},     {"batch", "1"}, {"heads", "4"},
                 {"kv_heads", "2"}, {"is_causal", "False"}, {"dim", "256"}, {"dtype", "float16"}};
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->ranked[0].risks, testing::Not(Contains("spill-near")));
  const double price = answer->ranked[0].predicted_ns;
  EXPECT_THAT(answer->ranked, Contains(testing::Truly([&](const Hint& h) {
                return h.predicted_ns == price &&
                       std::find(h.risks.begin(), h.risks.end(), "spill-near") != h.risks.end();
              })));
}

TEST(RecommendTest, ASwizzlePanelIsPriced) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request r = MatmulRequest(kernel, 4096, 4096, 4096);
  r.tunables = {{"panel", {"0", "4", "16"}}, {"block_M", {"64", "128"}}};
  const auto answer = Recommend(r);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->legal_count, 6);
  std::set<std::string> panels;
  for (int64_t i = 0; i < 6; ++i) panels.insert(*answer->space->ConfigAt(i).Find("panel"));
  EXPECT_EQ(panels.size(), 3u);
}

}  // namespace
}  // namespace kiln::roofline
