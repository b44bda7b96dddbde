// Clusters of the hardware whose blocks write each other's shared memory: the numbers of joined
// blocks, in whatever order the blocks run; and each mistake once, which the interpreter must
// notice whatever the order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/gpu_programs.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Kernel(const std::string& launch, const std::string& body,
                   const std::string& type = "float32", int rows = 4, int columns = 64) {
  const std::string tensor = absl::StrCat("T.Tensor((", rows, ", ", columns, "), \"", type, "\")");
  return absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef kernel(x: ", tensor,
                      ", y: ", tensor, "):\n    with T.ClusterKernel(", launch, ") as pid:\n",
                      "        rank = T.block_rank_in_cluster()\n        ",
                      absl::StrReplaceAll(body, {{"\n", "\n        "}}), "\n");
}

// Every block gets the row of the one before it.
constexpr char kTwo[] = "4, threads=64, cluster_dims=2";
constexpr char kPassOn[] = R"(a = T.alloc_shared((64,), "TYPE")
b = T.alloc_shared((64,), "TYPE")
T.copy(x[pid, :], a)
T.cluster_sync()
T.copy_cluster(a, b, dst_block=(rank + 1) % 2)
T.cluster_sync()
T.copy(b, y[pid, :]))";

std::string PassOn(const std::string& type) {
  return Kernel(kTwo, absl::StrReplaceAll(kPassOn, {{"TYPE", type}}), type);
}

// There and back, by barriers.
constexpr char kAnswer[] = R"(a = T.alloc_shared((64,), "float32")
b = T.alloc_shared((64,), "float32")
asked = T.alloc_cluster_barrier([1])
answered = T.alloc_cluster_barrier([1])
T.copy(x[pid, :], a)
for turn in T.serial(3):
    if rank == 0:
        T.copy_cluster(a, b, dst_block=1, remote_barrier=asked[0])
        T.mbarrier_wait_parity(answered[0], turn % 2)
        for i in T.Parallel(64):
            a[i] = b[i]
    else:
        T.mbarrier_wait_parity(asked[0], turn % 2)
        for i in T.Parallel(64):
            a[i] = a[i] + 2 * b[i]
        T.copy_cluster(a, b, dst_block=0, remote_barrier=answered[0])
T.copy(a, y[pid, :]))";

absl::StatusOr<ir::Program> Elaborate(const std::string& text, const std::string& arch) {
  auto file = std::make_shared<SourceFile>();
  file->path = "k.py";
  file->text = text;
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, "kernel"));
  return lang::Elaborate(kernel, {}, {}, lang::FactsOf(*target::NamedArch(arch)));
}

// A note of the only launch; "-" where it has none.
std::string NoteOf(const ir::Program& program, const std::string& note) {
  std::string text = "-";
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    if (launch != nullptr && launch->annotations.count(note) > 0) {
      text = launch->annotations.at(note);
    }
    return launch == nullptr;
  });
  return text;
}

std::string Ptx(const std::string& text, const std::string& arch) {
  codegen::CompileInput input;
  input.kernel_source = text;
  input.kernel_path = "k.py";
  input.entry = "kernel";
  input.arch_record = target::ToText(*target::NamedArch(arch));
  const auto ptx = codegen::EmitStage(input, "asm");
  EXPECT_TRUE(ptx.ok()) << ptx.status();
  if (!ptx.ok()) return "";
  if (codegen::AssemblerVersion().ok()) {
    EXPECT_TRUE(codegen::Assemble(*ptx, arch).ok()) << *ptx;
  }
  return *ptx;
}

// What a program of tiles, or of loops over threads that end with all of them, leaves behind.
std::vector<interp::Tensor> Computed(const ir::Program& program, interp::Order order) {
  std::vector<interp::TensorView> views;
  std::vector<interp::Tensor> tensors = testing::SmallIntegers(program, 7, &views);
  interp::Options options;
  options.order = order;
  options.clip_global = true;
  const auto ran = interp::Run(program, views, options);
  EXPECT_TRUE(ran.ok()) << ran.status() << ir::ToString(program);
  return tensors;
}

// What blocks compute where there are no clusters, of tiles, threads and instructions of clusters.
void ExpectSame(const std::string& text, double tolerance,
                const ::testing::Matcher<const std::string&>& ptx) {
  SCOPED_TRACE(text);
  const auto joined = Elaborate(text, "sm_80");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(NoteOf(*joined, ir::kSharesMemory), "-");
  for (const char* arch : {"sm_90a", "sm_100a"}) {
    const auto program = Elaborate(text, arch);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_NE(NoteOf(*program, ir::kSharesMemory), "-") << ir::ToString(*program);
    const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
    ASSERT_TRUE(threads.ok()) << threads.status();
    const auto instructions = testing::Instructions(*program, arch);
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_EQ(testing::Difference(*joined, *instructions, tolerance), "")
        << ir::ToString(*instructions);
    for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
      const std::vector<interp::Tensor> want = Computed(*joined, order);
      for (const ir::Program& form : {*program, *threads}) {
        const std::vector<interp::Tensor> got = Computed(form, order);
        ASSERT_EQ(got.size(), want.size()) << ir::ToString(form);
        for (size_t i = 0; i < want.size(); ++i) {
          const auto same = interp::Compare(got[i].View(), want[i].View(), {tolerance, tolerance});
          EXPECT_TRUE(same.ok()) << same.ToString(got[i].shape()) << ir::ToString(form);
        }
      }
    }
    EXPECT_THAT(Ptx(text, arch), ptx);
  }
}

void ExpectSame(const std::string& text, double tolerance = 0) {
  ExpectSame(text, tolerance,
             AllOf(HasSubstr("mapa.shared::cluster"), HasSubstr("st.shared::cluster"),
                   HasSubstr("barrier.cluster.arrive.release"),
                   HasSubstr("barrier.cluster.wait.acquire")));
}

TEST(HardwareClusters, BlocksWriteEachOthersMemory) {
  for (const char* type : {"float32", "float16", "bfloat16", "int8", "float64", "float8_e4m3"}) {
    ExpectSame(PassOn(type));
  }
  ExpectSame(Kernel(kTwo, kAnswer));
  EXPECT_THAT(Ptx(Kernel(kTwo, kAnswer), "sm_90a"),
              AllOf(HasSubstr("mbarrier.arrive.release.cluster.shared::cluster.b64"),
                    HasSubstr("mbarrier.try_wait.parity.acquire.cluster")));
  EXPECT_THAT(Ptx(PassOn("float32"), "sm_80"), Not(HasSubstr("cluster")));
}

// An operand of a product, as its instruction wants it to lie, in the memory of another block.
TEST(HardwareClusters, TilesLieAlikeInAllBlocks) {
  constexpr char kProduct[] = R"(a = T.alloc_shared((64, 64), "float16")
b = T.alloc_shared((64, 64), "float16")
sums = T.alloc_fragment((64, 64), "float32")
T.copy(x[pid * 64, 0], a)
T.cluster_sync()
T.copy_cluster(a, b, dst_block=(rank + 1) % 2)
T.cluster_sync()
T.clear(sums)
T.gemm(a, b, sums)
T.copy(sums, y[pid * 64, 0]))";
  ExpectSame(Kernel("4, threads=128, cluster_dims=2", kProduct, "float16", 256), 1e-2);
}

// Axes of a cluster, ranks that only the run knows, clusters that do not fit the hardware.
TEST(HardwareClusters, AnyShape) {
  ExpectSame(absl::StrReplaceAll(
      Kernel("2, 2, threads=32, cluster_dims=(2, 2)", R"(a = T.alloc_shared((64,), "float32")
b = T.alloc_shared((64,), "float32")
row = pid[0] + 2 * pid[1]
T.copy(x[row, :], a)
T.cluster_sync()
T.copy_cluster(a, b, dst_block=3 - rank)
T.cluster_sync()
T.copy(b, y[row, :]))"),
      {{"as pid", "as (px, py)"}, {"pid[0]", "px"}, {"pid[1]", "py"}}));
  // A rank that is known to be one needs no check in the kernel.
  EXPECT_THAT(
      Ptx(absl::StrReplaceAll(PassOn("float32"), {{"(rank + 1) % 2", "1 - rank"}}), "sm_90a"),
      AllOf(HasSubstr("st.shared::cluster"), Not(HasSubstr("trap"))));
  const std::string wide = absl::StrReplaceAll(
      PassOn("float32"), {{"4, threads=64, cluster_dims=2", "16, threads=32, cluster_dims=16"},
                          {"(rank + 1) % 2", "(rank + 1) % 16"},
                          {"T.Tensor((4,", "T.Tensor((16,"}});
  const auto joined = Elaborate(wide, "sm_90a");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(NoteOf(*joined, ir::kJoined), "16");
  EXPECT_THAT(NoteOf(*joined, ir::kJoinedWhy), HasSubstr("not portable"));
}

// Tiles go round, one after the other: nobody gets one before all are through with the last.
std::string SameTile(const std::string& launch, const std::string& mask) {
  return Kernel(launch,
                absl::StrCat(R"(tile = T.alloc_shared((64, 64), "float16")
for k in T.serial(3):
    T.copy_cluster(x[pid * 64 + k * 64, 0], tile, cluster_mask=)",
                             mask, R"()
    for i, j in T.Parallel(64, 64):
        y[pid * 64 + i, j] += tile[i, j])"),
                "float16", 512);
}

TEST(HardwareClusters, OneBlockFetchesForAllOfAMask) {
  const auto one_load = [](const std::string& mask) {
    return AllOf(HasSubstr(".multicast::cluster [%"), HasSubstr(absl::StrCat("], ", mask, ";")),
                 HasSubstr("barrier.cluster.arrive.release"));
  };
  ExpectSame(SameTile("4, threads=128, cluster_dims=2", "0b11"), 0, one_load("3"));
  ExpectSame(SameTile("4, threads=128, cluster_dims=4", "0b0110"), 0, one_load("6"));
  // An operand of a product, swizzled.
  const std::string product = Kernel("4, threads=128, cluster_dims=2",
                                     R"(a = T.alloc_shared((64, 64), "float16")
b = T.alloc_shared((64, 64), "float16")
sums = T.alloc_fragment((64, 64), "float32")
T.clear(sums)
for k in T.serial(2):
    T.copy_cluster(x[pid // 2 * 64 + k * 64, 0], a, cluster_mask=0b11)
    T.copy(x[pid * 64, 0], b)
    T.gemm(a, b, sums)
T.copy(sums, y[pid * 64, 0]))",
                                     "float16", 256);
  ExpectSame(product, 1e-2, one_load("3"));
  // Where a pipelined loop fetches ahead, or rows are no multiple of 16 bytes, each for itself.
  const auto own = Not(HasSubstr("multicast"));
  EXPECT_THAT(Ptx(absl::StrReplaceAll(product, {{"T.serial(2)", "T.Pipelined(2, num_stages=2)"}}),
                  "sm_90a"),
              own);
  ExpectSame(absl::StrReplaceAll(SameTile("4, threads=128, cluster_dims=2", "0b11"),
                                 {{"(64, 64)", "(64, 60)"}, {", 64)", ", 60)"}}),
             0, own);
}

// Each block fetches for itself what a pipelined loop or a part of the threads fetches; why is
// noted, and is no part of what the program is.
TEST(HardwareClusters, CopiesThatAreNotSharedSayWhy) {
  const std::string pipelined =
      Kernel("4, threads=64, cluster_dims=2",
             "s = T.alloc_shared((4, 64), \"float32\")\nfor k in T.Pipelined(2, num_stages=2):\n"
             "    T.copy_cluster(x[0, 0], s, cluster_mask=3)\n    T.copy(s[0, :], y[pid, :])");
  const auto program = Elaborate(pipelined, "sm_90a");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(ir::ToString(*program),
              HasSubstr("fetched_apart=\"line 8: a pipelined loop fetches it ahead\""));
  const auto moved = Elaborate("\n\n" + pipelined, "sm_90a");
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(ir::ProgramDigest(*program), ir::ProgramDigest(*moved));
  const auto parts =
      Elaborate(Kernel("4, threads=256, cluster_dims=2",
                       "s = T.alloc_shared((64, 64), \"float32\")\nfull = T.alloc_barrier(128)\n"
                       "with T.ws(1):\n    T.tma_copy(x[0, 0], s, barrier=full, cluster_mask=3)\n"
                       "    T.barrier_arrive(full)\nwith T.ws(0):\n    T.barrier_wait(full, 0)\n"
                       "    T.copy(s[0, :], y[pid, :])",
                       "float32", 64),
                "sm_90a");
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT(ir::ToString(*parts), HasSubstr("only some threads of a block make it"));
}

// Elements of a result take all blocks of the clusters that compute them, and no others.
TEST(HardwareClusters, SamplesComeFromWholeClusters) {
  for (const std::string& text : {PassOn("float32"), Kernel(kTwo, kAnswer)}) {
    const auto program = Elaborate(text, "sm_90a");
    ASSERT_TRUE(program.ok()) << program.status();
    const std::vector<interp::Tensor> want = Computed(*program, interp::Order::kForward);
    std::vector<interp::TensorView> views;
    const std::vector<interp::Tensor> tensors = testing::SmallIntegers(*program, 7, &views);
    interp::Options options;
    options.narrow = true;
    interp::Stats stats;
    const auto got = interp::SampleReference(*program, views, 1, {10, 70}, options, &stats);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, (std::vector<double>{want[1].View().Get(10), want[1].View().Get(70)}));
    EXPECT_EQ(stats.blocks, 1);  // of two clusters
  }
}

// ---- mistakes ----

absl::StatusOr<ir::Program> Lowered(const std::string& text) {
  KILN_ASSIGN_OR_RETURN(const ir::Program program, Elaborate(text, "sm_90a"));
  return testing::Instructions(program, "sm_90a");
}

std::string Failure(const ir::Program& program, interp::Order order) {
  std::vector<interp::TensorView> views;
  const std::vector<interp::Tensor> tensors = testing::SmallIntegers(program, 7, &views);
  interp::Options options;
  options.order = order;
  options.meet_at_barriers = true;
  return std::string(interp::Run(program, views, options).status().message());
}

// `program` with the n-th instruction `op` as `change` has it.
template <typename F>
std::optional<ir::Program> Changed(const ir::Program& program, ir::Instruction op, int n,
                                   F change) {
  int seen = 0;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const ir::Stmt& s) -> ir::Stmt {
    const auto* x = s.As<ir::Instruct>();
    return x == nullptr || x->op != op || seen++ != n ? ir::Stmt() : change(*x);
  });
  if (seen <= n) return std::nullopt;
  return out;
}

ir::Stmt Left(const ir::Instruct& x) { return ir::MakeSeq({}, x.loc); }

void ExpectNoticed(const ir::Program& program, const ::testing::Matcher<const std::string&>& what) {
  for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
    EXPECT_THAT(Failure(program, order), what) << ir::ToString(program);
  }
}

TEST(HardwareClusters, EachMeetingIsMissed) {
  const auto lowered = Lowered(PassOn("float32"));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Failure(*lowered, interp::Order::kForward), "");
  const auto first = Changed(*lowered, ir::Instruction::kClusterBarrier, 0, Left);
  const auto last = Changed(*lowered, ir::Instruction::kClusterBarrier, 1, Left);
  ASSERT_TRUE(first && last);
  ExpectNoticed(*first, HasSubstr("which may not have begun"));
  ExpectNoticed(*last, AnyOf(HasSubstr("race: two blocks of a cluster"),
                             HasSubstr("which nothing has written"), HasSubstr("may have ended")));
  EXPECT_FALSE(Changed(*lowered, ir::Instruction::kClusterBarrier, 2, Left).has_value());
}

// A tile that is still being read; a block that is gone.
TEST(HardwareClusters, MemoryIsReachedTooEarlyOrTooLate) {
  const std::string twice = absl::StrReplaceAll(
      PassOn("float32"),
      {{"T.copy(b, y[pid, :])",
        "T.copy(b, a)\n        T.cluster_sync()\n        T.copy_cluster(a, b, dst_block=(rank + 1) "
        "% 2)\n        T.cluster_sync()\n        T.copy(b, y[pid, :])"}});
  const auto lowered = Lowered(twice);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Failure(*lowered, interp::Order::kReverse), "");
  const auto early = Changed(*lowered, ir::Instruction::kClusterBarrier, 2, Left);
  ASSERT_TRUE(early.has_value());
  ExpectNoticed(*early, HasSubstr("race: two blocks of a cluster"));

  // Nobody reads what the last copy brings, and nothing but the compiler's own meeting at the end
  // keeps its target there.
  const std::string late = absl::StrReplaceAll(
      PassOn("float32"),
      {{"        T.cluster_sync()\n        T.copy(b, y[pid, :])", "        T.copy(a, y[pid, :])"}});
  const auto kept = Lowered(late);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(Failure(*kept, interp::Order::kForward), "");
  const auto gone = Changed(*kept, ir::Instruction::kClusterBarrier, 1, Left);
  ASSERT_TRUE(gone.has_value());
  ExpectNoticed(*gone, HasSubstr("may have ended"));
}

TEST(HardwareClusters, RanksAreWrong) {
  const auto lowered = Lowered(PassOn("float32"));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const auto with_rank = [&](const ir::Expr& wrong) {
    ir::Program out = *lowered;
    bool done = false;
    out.body = ir::RewriteStmts(out.body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* store = s.As<ir::Store>();
      if (store == nullptr || store->buffer->blocks == 1) return {};
      std::vector<ir::Expr> indices = store->indices;
      indices[0] = wrong;
      done = true;
      return ir::MakeStmt<ir::Store>(s->loc, store->buffer, indices, store->value);
    });
    EXPECT_TRUE(done);
    return out;
  };
  ExpectNoticed(with_rank(ir::MakeInt(2)), HasSubstr("index 2 of dimension 0"));
  // All to one: they write the same place, and the other has nothing.
  ExpectNoticed(with_rank(ir::MakeInt(0)), HasSubstr("race: two blocks of a cluster"));
}

TEST(HardwareClusters, BarriersOfOtherBlocksAreMissed) {
  const auto lowered = Lowered(Kernel(kTwo, kAnswer));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Failure(*lowered, interp::Order::kForward), "");
  for (int n = 0; n < 2; ++n) {
    const auto unheard = Changed(*lowered, ir::Instruction::kBarrierWait, n, Left);
    const auto silent = Changed(*lowered, ir::Instruction::kClusterArrive, n, Left);
    const auto elsewhere =
        Changed(*lowered, ir::Instruction::kClusterArrive, n, [](const ir::Instruct& x) {
          ir::Region other = x.regions[0];
          other.ranges[0].min = ir::MakeInt(2);
          return ir::MakeInstruct(x.loc, x.op, {other}, x.args);
        });
    ASSERT_TRUE(unheard && silent && elsewhere);
    ExpectNoticed(*unheard, AnyOf(HasSubstr("race: two blocks of a cluster"),
                                  HasSubstr("which nothing has written")));
    ExpectNoticed(*silent, HasSubstr("deadlock"));
    ExpectNoticed(*elsewhere, HasSubstr("index 2 of dimension 0"));
  }
  // A phase of two arrivals, of which one comes.
  const auto more = Changed(*lowered, ir::Instruction::kBarrierInit, 0, [](const ir::Instruct& x) {
    return ir::MakeInstruct(x.loc, x.op, x.regions, {ir::MakeInt(2)});
  });
  ASSERT_TRUE(more.has_value());
  ExpectNoticed(*more, HasSubstr("deadlock"));
}

TEST(HardwareClusters, MulticastsGoWrong) {
  const auto lowered = Lowered(SameTile("4, threads=128, cluster_dims=2", "0b11"));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Failure(*lowered, interp::Order::kForward), "");
  const auto masked = [&](const std::string& mask) {
    return *Changed(*lowered, ir::Instruction::kTensorLoad, 0, [&](const ir::Instruct& x) {
      return ir::MakeInstruct(x.loc, x.op, x.regions, x.args, {{ir::kMulticast, mask}});
    });
  };
  EXPECT_EQ(Failure(masked("3"), interp::Order::kReverse), "");
  ExpectNoticed(masked("1"), HasSubstr("deadlock"));
  ExpectNoticed(masked("2"), HasSubstr("deadlock"));
  ExpectNoticed(masked("7"), HasSubstr("a load for block 2 of a cluster of 2"));
  const auto left = [&](ir::Instruction op, int n) { return *Changed(*lowered, op, n, Left); };
  ExpectNoticed(left(ir::Instruction::kClusterArrive, 0), HasSubstr("deadlock"));
  ExpectNoticed(left(ir::Instruction::kBarrierExpect, 0), HasSubstr("deadlock"));
  ExpectNoticed(left(ir::Instruction::kProxyFence, 0), HasSubstr("without a proxy fence"));
  ExpectNoticed(left(ir::Instruction::kClusterBarrier, 0), HasSubstr("may not have begun"));
  ExpectNoticed(left(ir::Instruction::kBarrierWait, 0),  // of the others
                AnyOf(HasSubstr("race: two blocks of a cluster"), HasSubstr("may have ended")));
  ExpectNoticed(
      left(ir::Instruction::kBarrierWait, 1),  // of the tile
      AnyOf(HasSubstr("which nothing has written"), HasSubstr("race: two blocks of a cluster")));
}

}  // namespace
}  // namespace kiln
