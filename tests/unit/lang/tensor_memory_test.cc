// Tensor memory by name: whose a tile is, who does a product, and what an author's schedule says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "compiler/base/rng.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const std::string& kernel) {
  return "import tilelang\nimport tilelang.language as T\n" + kernel;
}

// A product of 64 x 64 tiles: one warp fetches, one has products issued, the block stores. MORE
// stands where a product is issued, STEP is its place in the ring of two tiles.
std::string Warps(const std::vector<std::pair<std::string, std::string>>& more = {}) {
  std::string text = Text(R"(
@T.prim_func
def product(A: T.Tensor((64, 512), "float16"), B: T.Tensor((64, 512), "float16"),
            C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((2, 64, 64), "float16")
        b = T.alloc_shared((2, 64, 64), "float16")
        sums = T.alloc_tmem([64, 64], "float32")
        c = T.alloc_fragment((64, 64), "float32")
        full = T.alloc_barrier([32] * 2)
        free = T.alloc_barrier([1] * 2)
        done = T.alloc_barrier(1)
        tx = T.get_thread_binding()
        if tx < 32:
            for k in T.serial(8):
                T.mbarrier_wait_parity(free[k % 2], (k // 2 & 1) ^ 1)
                T.tma_copy(A[0, k * 64], a[k % 2, :, :], barrier=full[k % 2])
                T.tma_copy(B[0, k * 64], b[k % 2, :, :], barrier=full[k % 2])
                T.mbarrier_arrive(full[k % 2])
        elif tx < 64:
            place = T.alloc_var("int32", init=0)
            for k in T.serial(8):
                T.mbarrier_wait_parity(full[STEP], k // 2 & 1)
                T.tcgen05_gemm(a[STEP, :, :], b[STEP, :, :], sums, transpose_B=True,
                               mbar=free[STEP], clear_accum=k == 0)
                place = place ^ 1
            T.tcgen05_mma_arrive(done)
        T.mbarrier_wait_parity(done, 0)
        T.copy(sums, c)
        T.copy(c, C)
)");
  for (const auto& [from, to] : more) text = absl::StrReplaceAll(text, {{from, to}});
  return absl::StrReplaceAll(text, {{"STEP", "k % 2"}});
}

constexpr char kPipelined[] = R"(
@T.prim_func
def product(A: T.Tensor((64, 512), "float16"), B: T.Tensor((64, 512), "float16"),
            C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        sums = T.alloc_fragment([64, 64], "float32")
        c = T.alloc_fragment((64, 64), "float32")
        for k in T.Pipelined(8, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, sums, transpose_B=True, clear_accum=k == 0)
        T.copy(sums, c)
        T.copy(c, C)
)";

// A @ B.T of [m, k] and [n, k] small integers, as the interpreter runs `text`, whose tensors they
// and the result are.
void ExpectProduct(const std::string& text, int64_t m, int64_t n, int64_t k, int64_t times = 1) {
  const auto program = ElaborateText(text);
  ASSERT_TRUE(program.ok()) << text << program.status().message();
  interp::Tensor a(kFloat16, {m, k}), b(kFloat16, {n, k}), c(kFloat32, {m, n});
  Rng rng(7);
  std::vector<double> x, y;
  for (int64_t i = 0; i < m * k; ++i) x.push_back(static_cast<double>(rng.Below(5)) - 2);
  for (int64_t i = 0; i < n * k; ++i) y.push_back(static_cast<double>(rng.Below(5)) - 2);
  for (size_t i = 0; i < x.size(); ++i) a.View().Set(static_cast<int64_t>(i), x[i]);
  for (size_t i = 0; i < y.size(); ++i) b.View().Set(static_cast<int64_t>(i), y[i]);
  const auto ran = interp::Run(*program, {a.View(), b.View(), c.View()}, {});
  ASSERT_TRUE(ran.ok()) << ran.status().message();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += x[i * k + l] * y[j * k + l];
      ASSERT_EQ(c.as<float>()[i * n + j], static_cast<float>(sum * times))
          << i << ", " << j << "\n"
          << ir::ToString(*program);
    }
  }
}

std::string Message(const std::string& text) {
  const auto program = ElaborateText(text);
  EXPECT_FALSE(program.ok()) << text;
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("help:"));
  return std::string(program.status().message());
}

TEST(TensorMemory, OneWarpForTheBlockIsAPipeline) {
  EXPECT_EQ(Elaborated(Warps()), Elaborated(Text(kPipelined)));
  ExpectProduct(Warps(), 64, 64, 512);
  // An arrival after each product, said apart.
  EXPECT_EQ(Elaborated(Warps({{"mbar=free[STEP],", "mbar=None,"},
                              {"place = place ^ 1", "T.tcgen05_mma_arrive(free[STEP])"}})),
            Elaborated(Text(kPipelined)));
  EXPECT_EQ(Elaborated(Warps({{"T.alloc_tmem([64, 64], \"float32\")",
                               "T.alloc_buffer([64, 64], \"float32\", scope=\"shared.tmem\")"}})),
            Elaborated(Text(kPipelined)));
}

// One arrival, however many threads come by.
TEST(TensorMemory, AProductArrivesOnce) {
  EXPECT_THAT(
      Message(Warps({{"free = T.alloc_barrier([1] * 2)", "free = T.alloc_barrier([2] * 2)"}})),
      HasSubstr("never ends"));
  EXPECT_THAT(Message(Warps({{"done = T.alloc_barrier(1)", "done = T.alloc_barrier(32)"}})),
              HasSubstr("1 threads have arrived, 32 make a phase"));
}

// The part that has products issued counts by itself: its variable is everybody's then.
TEST(TensorMemory, VariablesOfTheIssuerGoAlong) {
  const std::string text = Warps({{"STEP", "place"}});
  ExpectProduct(text, 64, 64, 512);
  // Where the parts stay parts, as with tiles that are fetched in halves.
  const std::string halves =
      Warps({{"STEP", "place"},
             {"T.tma_copy(A[0, k * 64], a[k % 2, :, :], barrier=full[k % 2])",
              R"(T.tma_copy(A[0, k * 64], a[k % 2, :32, :], barrier=full[k % 2])
                T.tma_copy(A[32, k * 64], a[k % 2, 32:, :], barrier=full[k % 2]))"}});
  ExpectProduct(halves, 64, 64, 512);
  const std::string program = Elaborated(halves);
  EXPECT_THAT(program, HasSubstr("\n      gemm a[place[0], 0 : +64, 0 : +64]"));
  EXPECT_THAT(program, HasSubstr("\n      place[0] = place[0] ^ 1"));
  // Under a condition of the part's.
  ExpectProduct(Warps({{"STEP", "place"}, {"place = place ^ 1", R"(if place == 0:
                    place = 1
                else:
                    place = 0)"}}),
                64, 64, 512);
}

constexpr char kTiles[] = R"(
@T.prim_func
def product(A: T.Tensor((256, 128), "float16"), B: T.Tensor((64, 128), "float16"),
            C: T.Tensor((256, 64), "float32")):
    with T.Kernel(1, threads=256) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        sums = T.alloc_tmem([2, 64, 64], "float32")
        c = T.alloc_fragment((64, 64), "float32")
        full = T.alloc_barrier([1] * 2)
        free = T.alloc_barrier([128] * 2)
        tx = T.get_thread_binding()
        if tx < 32:
            for t in T.serial(4):
                T.mbarrier_wait_parity(free[t & 1], (t // 2 & 1) ^ 1)
                for k in T.serial(2):
                    T.copy(A[t * 64, k * 64], a)
                    T.copy(B[0, k * 64], b)
                    T.tcgen05_gemm(a, b, sums[t & 1, :, :], transpose_B=True, clear_accum=FIRST)
                T.tcgen05_mma_arrive(full[t & 1])
        elif tx >= 128:
            for t in T.serial(4):
                T.mbarrier_wait_parity(full[t & 1], t // 2 & 1)
                for i in T.unroll(2):
                    T.copy(sums[t & 1, :, i * 32:(i + 1) * 32], c[:, i * 32:(i + 1) * 32])
                T.copy(c, C[t * 64, 0])
                T.mbarrier_arrive(free[t & 1])
)";

// Tiles that are filled and emptied in one turn are one; others are chosen.
TEST(TensorMemory, SeveralTiles) {
  const std::string one = absl::StrReplaceAll(Text(kTiles), {{"FIRST", "k == 0"}});
  ExpectProduct(one, 256, 64, 128);
  EXPECT_THAT(Elaborated(one), HasSubstr("alloc sums: fragment float32[64, 64]"));
  EXPECT_THAT(Elaborated(one), HasSubstr("on threads [128, 256):\n          gemm a @ b.T -> sums"));
  // The first turns of both clear, the next two go on with what is there.
  const std::string two = absl::StrReplaceAll(Text(kTiles), {{"FIRST", "k + t // 2 == 0"}});
  const auto program = ElaborateText(two);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const std::string shown = ir::ToString(*program);
  EXPECT_THAT(shown, HasSubstr("alloc sums_tile0: fragment"));
  EXPECT_THAT(shown, HasSubstr("alloc sums_tile1: fragment"));
  EXPECT_THAT(shown, HasSubstr("if t & 1 == 0:\n          on threads [128, 256):"));
  interp::Tensor a(kFloat16, {256, 128}), b(kFloat16, {64, 128}), c(kFloat32, {256, 64});
  for (int64_t i = 0; i < 256 * 128; ++i) a.View().Set(i, static_cast<double>(1 + i / 128 / 64));
  for (int64_t i = 0; i < 64 * 128; ++i) b.View().Set(i, 1);
  ASSERT_TRUE(interp::Run(*program, {a.View(), b.View(), c.View()}, {}).ok());
  const float want[] = {128, 256, 128 + 384, 256 + 512};  // tiles 2 and 3 on those of 0 and 1
  for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(c.as<float>()[t * 64 * 64 + 65], want[t]) << shown;
}

constexpr char kOperand[] = R"(
@T.prim_func
def chain(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"),
          C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=256) as bx:
        b = T.alloc_shared((64, 64), "float16")
        p = T.alloc_tmem([64, 64], "float16")
        sums = T.alloc_tmem([64, 64], "float32")
        f = T.alloc_fragment((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        ready = T.alloc_barrier(128)
        done = T.alloc_barrier(1)
        T.copy(B, b)
        with T.ws(0):
            T.copy(A, f)
            T.copy(f, p)
            T.mbarrier_arrive(ready)
        with T.ws(WHO):
            T.mbarrier_wait_parity(ready, 0)
            T.tcgen05_gemm(p, b, sums, transpose_B=True, mbar=done, clear_accum=True)
            T.mbarrier_wait_parity(done, 0)
            T.copy(sums, c)
            T.copy(c, C)
)";

// A left operand in tensor memory is a fragment of those who multiply, or passes through shared
// memory.
TEST(TensorMemory, LeftOperands) {
  for (const auto& [who, scope] :
       std::vector<std::pair<const char*, const char*>>{{"0", "fragment"}, {"1", "shared"}}) {
    const std::string text = absl::StrReplaceAll(Text(kOperand), {{"WHO", who}});
    ExpectProduct(text, 64, 64, 64);
    EXPECT_THAT(Elaborated(text), HasSubstr(absl::StrCat("alloc p: ", scope, " float16[64, 64]")));
  }
}

// Parts of tiles that a loop counts: of an operand, of a result; an arrival under a condition of a
// warp's is one.
TEST(TensorMemory, PartsOfTiles) {
  const std::string text = Text(R"(
@T.prim_func
def parts(A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float16"),
          C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        b = T.alloc_shared((64, 128), "float16")
        f = T.alloc_fragment((64, 128), "float16")
        p = T.alloc_tmem([64, 128], "float16")
        sums = T.alloc_tmem([64, 64], "float32")
        c = T.alloc_fragment((64, 32), "float32")
        done = T.alloc_barrier(1)
        T.copy(A, f)
        T.copy(f, p)
        T.copy(B, b)
        for k in T.serial(4):
            T.tcgen05_gemm(p[:, k * 32:(k + 1) * 32], b[:, k * 32:(k + 1) * 32], sums,
                           transpose_B=True, mbar=None, clear_accum=k == 0)
        if T.get_thread_binding() < 32:
            T.tcgen05_mma_arrive(done)
        T.mbarrier_wait_parity(done, 0)
        for i in T.serial(2):
            first = i * 32
            T.copy(sums[:, first:first + 32], c)
            T.copy(c, C[0, first])
)");
  ExpectProduct(text, 64, 64, 128);
  const std::string program = Elaborated(text);
  EXPECT_THAT(program, HasSubstr("alloc p: shared float16[64, 128]"));
  EXPECT_THAT(program, HasSubstr("for serial k in (4)"));
  EXPECT_THAT(program, HasSubstr("for unroll i in (2)"));
}

// A buffer that no product names is one, whatever it says of columns.
TEST(TensorMemory, RoundTrips) {
  const auto program = ElaborateText(Text(R"(
@T.prim_func
def round(A: T.Tensor((3, 32, 8, 4), "float32"), B: T.Tensor((3, 32, 8, 4), "float32")):
    with T.Kernel(1, threads=128) as bx:
        t = T.alloc_tmem((3, 32, 8, 4), "float32")
        f = T.alloc_fragment((3, 32, 8, 4), "float32")
        g = T.alloc_fragment((3, 32, 8, 4), "float32")
        T.annotate_layout({t: T.Layout((3, 32, 8, 4), lambda a, i, j, k: [i + 32 * k, a * 8 + j])})
        T.copy(A, f)
        T.copy(f, t)
        T.copy(t[:, :, :, 0:2], g[:, :, :, 0:2])
        T.copy(t[:, :, :, 2:4], g[:, :, :, 2:4])
        T.copy(g, B)
)"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_THAT(ir::ToString(*program), HasSubstr("alloc t: fragment float32[3, 32, 8, 4]"));
  EXPECT_THAT(ir::ToString(*program), Not(HasSubstr("layout")));
  interp::Tensor a(kFloat32, {3, 32, 8, 4}), b(kFloat32, {3, 32, 8, 4});
  for (int64_t i = 0; i < 3 * 32 * 8 * 4; ++i) a.View().Set(i, static_cast<double>(i));
  ASSERT_TRUE(interp::Run(*program, {a.View(), b.View()}, {}).ok());
  for (int64_t i = 0; i < 3 * 32 * 8 * 4; ++i) ASSERT_EQ(b.as<float>()[i], i);
}

TEST(TensorMemory, WhatHasNoOwnerIsRefused) {
  // Moved by two parts.
  const std::string two = absl::StrReplaceAll(
      Text(kOperand),
      {{"WHO", "1"},
       {"T.copy(B, b)", "T.copy(B, b)\n        with T.ws(0):\n            T.copy(c, sums)"}});
  EXPECT_THAT(Message(two),
              HasSubstr("'sums' in tensor memory is moved by threads 0 to 127 and by threads 128"));
  // The result of one product as the operand of another, which others move.
  const std::string results = absl::StrReplaceAll(
      Text(kOperand),
      {{"WHO", "1"}, {"T.copy(A, f)", "T.copy(A, f)\n            T.tcgen05_gemm(b, b, p)"}});
  EXPECT_THAT(Message(results), HasSubstr("'p', the result of a product, is an operand of one"));
  const std::string tiles = absl::StrReplaceAll(Text(kTiles), {{"FIRST", "k == 0"}});
  EXPECT_THAT(Message(absl::StrReplaceAll(tiles, {{"sums[t & 1, :, i * 32:(i + 1) * 32]", "sums"},
                                                  {"c[:, i * 32:(i + 1) * 32]", "c2"},
                                                  {"full =",
                                                   "c2 = T.alloc_fragment((2, 64, 64), "
                                                   "\"float32\")\n        full ="}})),
              HasSubstr("an operation on several tiles of 'sums', which is in tensor memory"));
}

std::string Block(const std::string& body) {
  return InKernel(
      "t = T.alloc_tmem([128, 256], T.float32)\nf = T.alloc_fragment((64, 64), "
      "T.float16)\nb = T.alloc_barrier(1)\n" +
      body);
}

TEST(TensorMemory, ColumnsAreLimited) {
  EXPECT_THAT(Elaborated(Block("u = T.alloc_tmem([128, 256], T.float32)")), HasSubstr("alloc u"));
  EXPECT_THAT(Elaborated(Block("u = T.alloc_tmem([64, 512], T.float16)")), HasSubstr("alloc u"));
  EXPECT_THAT(Message(Block("u = T.alloc_tmem([128, 257], T.float32)")),
              HasSubstr("513 columns of tensor memory, of which there are 512"));
  EXPECT_THAT(Message(Block("u = T.alloc_tmem([2, 256, 136], T.float16)")),
              HasSubstr("528 columns"));
  EXPECT_THAT(Elaborated(Block("T.deallocate_tmem(t)\nu = T.alloc_tmem([128, 512], T.float32)")),
              HasSubstr("alloc u: fragment float32[128, 512]"));
}

TEST(TensorMemory, WrongCallsAreRefused) {
  EXPECT_THAT(Message(Block("u = T.alloc_tmem([128], T.float32)")), HasSubstr("of one dimension"));
  EXPECT_THAT(Message(Block("u = T.alloc_tmem([128, 8], T.float64)")),
              HasSubstr("tensor memory of float64"));
  EXPECT_THAT(Message(Block("u = T.alloc_tmem([128, n], T.float32)")), HasSubstr("run-time value"));
  EXPECT_THAT(Message(Block("T.deallocate_tmem(f)")), HasSubstr("T.deallocate_tmem of"));
  EXPECT_THAT(Message(Block("T.tcgen05_gemm(f, f, t, mbar=b, use_2cta=True)")),
              HasSubstr("a product of two blocks of a cluster"));
  EXPECT_THAT(Message(Block("T.tcgen05_mma_arrive(b, arrive_2cta=True)")),
              HasSubstr("a product of two blocks of a cluster"));
  EXPECT_THAT(Message(Block("T.tcgen05_gemm(f, f, f, mbar=f)")), HasSubstr("a barrier is wanted"));
  EXPECT_THAT(Message(Block("T.tcgen05_mma_arrive(f)")), HasSubstr("a barrier is wanted here"));
  for (const char* name : {"tcgen05_gemm_blockscaled", "mma_gemm_blockscaled", "tcgen05_cp_warpx4",
                           "tcgen05_sf_warp_transpose", "clc_try_cancel_multicast",
                           "clc_is_canceled", "clc_get_first_ctaid_x", "tcgen05_gemm_sp",
                           "initialize_tcgen05_descriptor", "ptx_arrive_barrier", "tma_gather4",
                           "WSSyncKind", "thread_return", "mfma", "CUDASourceCodeKernel"}) {
    EXPECT_THAT(Message(Block(absl::StrCat("T.", name, "(f)"))),
                HasSubstr(absl::StrCat("'T.", name, "' is not supported")));
  }
}

// ---- loops that are counted ----

// Two parts, each with a scheduler of its own or with one of both, the second one of which stores.
constexpr char kWalk[] = R"(
@tilelang.jit
def walk(A: T.Tensor((40, 32), "int32")):
    C = T.empty((40, 32), "int32")
    with T.Kernel(3, threads=256) as bx:
        x = T.alloc_shared((2, 8, 8), "int32")
        f = T.alloc_fragment((8, 8), "int32")
        full = T.alloc_barrier([128] * 2)
        free = T.alloc_barrier([128] * 2)
        BOTH
        tx = T.get_thread_binding()
        if tx < 128:
            EACH
            while s.valid():
                i, j, turn = s.m_idx, s.n_idx, s.current_iter
                T.barrier_wait(free[turn % 2], (turn // 2 & 1) ^ 1)
                T.copy(A[i * 8:(i + 1) * 8, j * 8:(j + 1) * 8], x[turn % 2, :, :])
                T.barrier_arrive(full[turn % 2])
                s.next_tile()
        else:
            EACH
            while s.valid():
                i, j, turn = s.m_idx, s.n_idx, s.current_iter
                T.barrier_wait(full[turn % 2], turn // 2 & 1)
                T.copy(x[turn % 2, :, :], f)
                for p, q in T.Parallel(8, 8):
                    f[p, q] = f[p, q] * 3 + turn
                T.copy(f, C[i * 8:(i + 1) * 8, j * 8:(j + 1) * 8])
                T.barrier_arrive(free[turn % 2])
                s.next_tile()
    return C
)";

TEST(TensorMemory, PartsThatWalkTilesByThemselves) {
  const std::string make = "s = T.PersistentTileScheduler(5, 4, num_workers=3, swizzle_size=2)";
  const std::string init = "s.init(bx)";
  const std::vector<std::pair<std::string, std::string>> forms[] = {
      {{"BOTH", "pass"}, {"EACH", make + "\n            " + init}},
      {{"BOTH", make + "\n        " + init}, {"EACH", "pass"}},
      {{"BOTH", make}, {"EACH", init}},
  };
  for (const auto& form : forms) {
    std::string text = Text(kWalk);
    for (const auto& [from, to] : form) text = absl::StrReplaceAll(text, {{from, to}});
    const auto program = ElaborateText(text);
    ASSERT_TRUE(program.ok()) << text << program.status().message();
    EXPECT_THAT(ir::ToString(*program), Not(HasSubstr("while")));
    interp::Tensor a(kInt32, {40, 32}), c(kInt32, {40, 32});
    for (int64_t i = 0; i < 40 * 32; ++i) a.as<int32_t>()[i] = static_cast<int32_t>(i);
    const auto ran = interp::Run(*program, {a.View(), c.View()}, {});
    ASSERT_TRUE(ran.ok()) << ran.status().message();
    int64_t tile = 0;
    for (const int64_t panel : {0, 2}) {  // two columns at a time, down all rows
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = panel; j < panel + 2; ++j, ++tile) {
          const int64_t at = (i * 8 + 3) * 32 + j * 8 + 5;
          EXPECT_EQ(c.as<int32_t>()[at], at * 3 + tile / 3) << ir::ToString(*program);
        }
      }
    }
  }
}

// What goes along with the counter is known in every turn only if the first one begins alike.
TEST(TensorMemory, VariablesThatBeginOtherwise) {
  const char* kernel = R"(
@T.prim_func
def turns(C: T.Tensor((6,), "int32")):
    with T.Kernel(1, threads=256) as bx:
        x = T.alloc_shared((1,), "int32")
        full = T.alloc_barrier(128)
        free = T.alloc_barrier(128)
        with T.ws(0):
            i = T.alloc_var("int32", init=0)
            twice = T.alloc_var("int32", init=FIRST)
            while i < 6:
                T.barrier_wait(free, i % 2 ^ 1)
                x[0] = twice
                T.barrier_arrive(full)
                i = i + 1
                twice = i * 2
        with T.ws(1):
            k = T.alloc_var("int32", init=0)
            while k < 6:
                T.barrier_wait(full, k % 2)
                C[k] = x[0]
                T.barrier_arrive(free)
                k = k + 1
)";
  for (const int first : {0, 7}) {
    const auto program =
        ElaborateText(absl::StrReplaceAll(Text(kernel), {{"FIRST", absl::StrCat(first)}}));
    ASSERT_TRUE(program.ok()) << program.status().message();
    interp::Tensor c(kInt32, {6});
    ASSERT_TRUE(interp::Run(*program, {c.View()}, {}).ok());
    EXPECT_EQ(c.as<int32_t>()[0], first) << ir::ToString(*program);
    for (int64_t i = 1; i < 6; ++i) EXPECT_EQ(c.as<int32_t>()[i], 2 * i) << ir::ToString(*program);
  }
}

// Roles that are told apart by ranges of threads in the middle of the block.
TEST(TensorMemory, RolesInAnyOrder) {
  const std::string text = Warps({{"threads=128", "threads=256"},
                                  {"if tx < 32:", "if tx >= 128 and tx < 160:"},
                                  {"elif tx < 64:", "elif tx >= 160 and tx < 192:"},
                                  {"        T.mbarrier_wait_parity(done, 0)\n        T.copy(sums, "
                                   "c)\n        T.copy(c, C)\n",
                                   "        elif tx < 128:\n            "
                                   "T.mbarrier_wait_parity(done, 0)\n            T.copy(sums, "
                                   "c)\n            T.copy(c, C)\n"}});
  EXPECT_EQ(Elaborated(text), Elaborated(Text(kPipelined)));
  // What both ends of the block would do at once is one statement of two parts.
  EXPECT_THAT(Message(absl::StrReplaceAll(text, {{"elif tx < 128:", "else:"}})),
              HasSubstr("under a condition that differs between threads"));
}

// ---- schedules ----

std::string Scheduled(const std::vector<std::pair<std::string, std::string>>& more = {}) {
  std::string text = Text(R"(
@T.prim_func
def product(A: T.Tensor((64, 512), "float16"), B: T.Tensor((64, 512), "float16"),
            C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        sums = T.alloc_tmem([64, 64], "float32")
        c = T.alloc_fragment((64, 64), "float32")
        T.annotate_ws_schedule(T.WSSchedule(
            num_warps=8,
            roles=[T.WSRole("fetch", warps_lo=0, warps_hi=1, max_nreg=40),
                   T.WSRole("multiply", warps_lo=1, warps_hi=2),
                   T.WSRole("store", warps_lo=4, warps_hi=8)],
            pipelines=[T.WSPipeline("tiles", [a, b], depth=2),
                       T.WSPipeline("sums", [sums], depth=1)],
            scopes=[
                T.WSScope("steps", {
                    "fetch": [T.WSSync.producer_acquire("tiles", stage=0), "load_a", "load_b",
                              T.WSSync.producer_commit("tiles", stage=0)],
                    "multiply": [T.WSSync.consumer_wait("tiles", stage=1), "product",
                                 T.WSSync.consumer_release("tiles", stage=1)]}),
                T.WSScope(T.WSScope.ROOT, {
                    "fetch": ["steps"],
                    "multiply": [T.WSSync.producer_acquire("sums"), "steps",
                                 T.WSSync.producer_commit("sums")],
                    "store": [T.WSSync.consumer_wait("sums"), "out",
                              T.WSSync.consumer_release("sums")]}),
            ]))
        for k in T.Pipelined(8, num_stages=2, annotations={T.WSID: "steps"}):
            T.copy(A[0, k * 64], a, annotations={T.WSID: "load_a"})
            T.copy(B[0, k * 64], b, annotations={T.WSID: "load_b"})
            T.gemm(a, b, sums, transpose_B=True, clear_accum=k == 0,
                   annotations={T.WSID: "product"})
        with T.ws_op("out"):
            T.copy(sums, c)
            T.copy(c, C)
)");
  for (const auto& [from, to] : more) {
    const std::string before = text;
    text = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(text, before) << from;
  }
  return text;
}

TEST(Schedules, AreAdvice) { EXPECT_EQ(Elaborated(Scheduled()), Elaborated(Text(kPipelined))); }

TEST(Schedules, AreAboutTheKernel) {
  const struct {
    const char *from, *to, *message;
  } wrong[] = {
      {"\"load_a\", \"load_b\",", "\"load_b\", \"load_a\",",
       "'fetch' does 'load_a' after 'load_b', which the program has the other way round"},
      {"\"load_a\", \"load_b\",", "\"load_a\",", "no role of the schedule does 'load_b'"},
      {"T.ws_op(\"out\")", "T.ws_op(\"last\")", "names 'out', which no operation of the kernel is"},
      {"T.WSScope(\"steps\"", "T.WSScope(\"loop\"", "names 'loop', which no operation"},
      {"producer_acquire(\"sums\")", "producer_acquire(\"sum\")", "a sync names 'sum'"},
      {"producer_commit(\"tiles\", stage=0)", "producer_commit(\"tiles\", stage=1)",
       "which it has not begun at this stage"},
      {"\"out\",\n", "\"out\", \"out\",\n", "does 'out' after 'out'"},
      {"T.WSSync.consumer_release(\"sums\")", "",
       "'store' in 'tl.ws_scope_root' begins 'sums' and does not end it"},
      {"\"store\": [", "\"write\": [", "has a body for 'write', which is no role"},
      {"warps_lo=4, warps_hi=8", "warps_lo=1, warps_hi=8", "have warps in common"},
      {"warps_lo=4, warps_hi=8", "warps_lo=4, warps_hi=9", "has warps beyond num_warps"},
      {"warps_lo=4, warps_hi=8", "warps_lo=8, warps_hi=8", "warps_lo to before warps_hi"},
      {"T.WSRole(\"store\"", "T.WSRole(\"fetch\"", "two roles are called 'fetch'"},
      {"T.WSPipeline(\"sums\"", "T.WSPipeline(\"tiles\"", "two pipelines are called 'tiles'"},
      {"[sums], depth=1", "[sums], depth=0", "at least one version"},
      {"num_warps=8", "num_warps=6", "a positive multiple of 4"},
      {"T.ws_op(\"out\")", "T.WSRole(\"out\", warps_lo=0, warps_hi=1)", "is no context"},
      {"T.ws_op(\"out\")", "T.ws_op(3)", "takes the name of the operation"},
      {"T.annotate_ws_schedule(T.WSSchedule(", "T.annotate_ws_schedule(dict(",
       "T.annotate_ws_schedule of"},
  };
  for (const auto& w : wrong) {
    EXPECT_THAT(Message(Scheduled({{w.from, w.to}})), HasSubstr(w.message)) << w.from;
  }
}

}  // namespace
}  // namespace kiln::lang
