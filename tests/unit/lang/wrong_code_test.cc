// What users of tile compilers reported as wrong results without a word, as kernels of our own:
// each is refused with a sentence, or right in numbers: on tiles against loops written here,
// natively against the same loops, and on the threads of two GPUs against the tiles.
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/lang/right_everywhere.h"

namespace kiln::lang {
namespace {

constexpr char kPair[] = "A: T.Tensor((2,), \"int32\")";

// ---- indices ----

// Blocks beyond 2^31 elements came to the first ones again.
TEST(WrongCode, AnIndexBeyondItsBitsIsRefused) {
  const auto kernel = [](int64_t n, const std::string& first, const std::string& body) {
    return absl::StrCat(
        "import tilelang.language as T\n\n\n@T.prim_func\ndef kernel(A: T.Tensor((", n,
        ",), \"int8\"), B: T.Tensor((4, ", n, "), \"int8\")):\n    with T.Kernel(T.ceildiv(", n,
        ", 1024), threads=128) as bx:\n        first = ", first, "\n        ", body, "\n");
  };
  constexpr char kEach[] = "for i in T.Parallel(1024):\n            A[first + i] = B[2, first + i]";
  constexpr char kTile[] =
      "s = T.alloc_shared((2, 1024), \"int8\")\n        T.copy(B[1, first], s)\n        "
      "T.copy(s[0, :], A[first])";
  constexpr int64_t kMost = int64_t{1} << 31;  // elements whose places 32 bits hold
  for (const char* body : {kEach, kTile, "T.fill(A[first:first + 1024], 1)"}) {
    for (const int64_t n : {kMost + 1, int64_t{6000000000}}) {
      ExpectRefused(kernel(n, "bx * 1024", body), "and is computed in 32 bits", "T.cast(bx");
      EXPECT_TRUE(ElaborateText(kernel(n, "T.cast(bx, \"int64\") * 1024", body)).ok()) << body;
    }
    for (const int64_t n : {kMost, kMost - 1000}) {
      const auto program = ElaborateText(kernel(n, "bx * 1024", body));
      EXPECT_TRUE(program.ok()) << program.status() << body;
    }
  }
  // Not where a condition keeps it below.
  const auto guarded =
      ElaborateText(kernel(kMost + 1, "bx * 1024", "if bx < 2000:\n            A[first] = 1"));
  EXPECT_TRUE(guarded.ok()) << guarded.status();
}

// Texts of what was not known at compile time doubled with each line.
TEST(WrongCode, ChainsOfValuesTakeNoTimeToCheck) {
  std::string choices = "x = P[0]\n", steps = "k = T.get_thread_binding(0)\n";
  for (int i = 0; i < 60; ++i) {
    choices += "x = T.if_then_else(x > 1, x * x, x + x)\n";
    steps += "k = (k ^ (k >> 1)) + k\n";
  }
  const std::string params = "P: T.Tensor((8,), \"float32\"), Q: T.Tensor((8,), \"float32\")";
  for (const std::string& body : {choices + "Q[1] = x", steps + "Q[k % 8] = P[k % 8]"}) {
    const auto program = ElaborateText(Kernel(params, 32, body));
    EXPECT_TRUE(program.ok()) << program.status();
  }
}

// ---- names and conditions ----

// The condition was dropped, and the constant stored always.
TEST(WrongCode, ANameIsNotReboundUnderARunTimeCondition) {
  for (const char* value : {"0", "1.5", "True", "\"x\"", "None", "T.int32(7)", "A[1]", "a + 1"}) {
    ExpectRefused(
        Kernel(kPair, 32, absl::StrCat("a = A[0]\nif a < 0:\n    a = ", value, "\nA[1] = a")),
        "'a' (line 6) is rebound inside a run-time branch", "T.alloc_var");
  }
  ExpectRefused(Kernel(kPair, 32, "a = 1\nfor i in T.serial(4):\n    a = 2\nA[1] = a"),
                "'a' is read outside the loop or branch that made it (line 8)", "T.alloc_var");
  // What was meant.
  ExpectRight(Kernel(kPair, 32, "a = T.alloc_var(\"int32\", A[0])\nif a < 0:\n    a = 0\nA[1] = a"),
              {{kInt32, {2}, [](int64_t i) { return i == 0 ? -4.0 : 9.0; }}}, 0,
              [](int64_t i) { return i == 0 ? -4.0 : 0.0; });
}

TEST(WrongCode, ALoopsTargetIsItsOwn) {
  for (const char* loop : {"T.Parallel(2)", "T.serial(2)", "T.unroll(2)", "T.vectorized(2)"}) {
    ExpectRight(Kernel(kPair, 32,
                       absl::StrCat("for j in T.serial(2):\n    d = T.alloc_var(\"int32\")\n"
                                    "    d = j + 5\n    A[j] = d\nfor d in ",
                                    loop, ":\n    A[d] = d + 1")),
                {{kInt32, {2}, Left}}, 0, [](int64_t i) { return static_cast<double>(i) + 1; });
  }
  // The variable keeps its value beside the loop.
  ExpectRight(
      Kernel(kPair, 32,
             "d = T.alloc_var(\"int32\", 7)\ne = d\nfor i in T.serial(2):\n    A[i] = d + e"),
      {{kInt32, {2}, Left}}, 0, [](int64_t) { return 14.0; });
}

TEST(WrongCode, ACompileTimeConditionHoldsInsideOfRunTimeOnes) {
  for (const int mode : {3, 4}) {
    ExpectRight(
        Kernel(kPair, 32,
               absl::StrCat("for i in T.serial(2):\n    if A[i] > 0:\n        if mode == ", mode,
                            ":\n            A[i] = 1\n        else:\n"
                            "            A[i] = 2")),
        {{kInt32, {2}, [](int64_t i) { return i == 0 ? 8.0 : -8.0; }}}, 0, [&](int64_t i) {
          return i == 1 ? -8.0 : mode == 3 ? 1.0 : 2.0;
        });
  }
}

TEST(WrongCode, ConditionsAreEvaluatedOnceAndInTheirOrder) {
  const Fill start = [](int64_t i) { return i == 0 ? 1.0 : 7.0; };
  ExpectRight(Kernel(kPair, 32, "if A[0] > 0:\n    A[0] = 0\n    A[1] = 1"), {{kInt32, {2}, start}},
              0, [](int64_t i) { return i == 0 ? 0.0 : 1.0; });
  ExpectRight(Kernel(kPair, 32, "if A[0] > 0:\n    A[0] = 0\nif A[0] > 0:\n    A[1] = 1"),
              {{kInt32, {2}, start}}, 0, [](int64_t i) { return i == 0 ? 0.0 : 7.0; });
  // Conditions of one form on two tensors, in a loop that changes neither.
  ExpectRight(
      Kernel("P: T.Tensor((2,), \"int32\"), Q: T.Tensor((2,), \"int32\"), "
             "O: T.Tensor((4,), \"int32\")",
             32,
             "for i in T.serial(2):\n    if P[0] < 2:\n        O[i] = 1\n"
             "    if Q[0] < 2:\n        O[i + 2] = 1"),
      {{kInt32, {2}, Zero}, {kInt32, {2}, [](int64_t) { return 5.0; }}, {kInt32, {4}, Zero}}, 2,
      [](int64_t i) { return i < 2 ? 1.0 : 0.0; });
}

TEST(WrongCode, ANameKeepsWhatItWasBoundTo) {
  const Fill start = [](int64_t i) { return i == 0 ? 3.0 : 10.0; };
  // Read before an atomic update of the same element.
  ExpectRight(Kernel(kPair, 32,
                     "if A[0] > 0:\n    v = A[0]\n    T.atomic_add(A[0], 100)\n"
                     "    A[1] = v"),
              {{kInt32, {2}, start}}, 0, [](int64_t i) { return i == 0 ? 103.0 : 3.0; });
  ExpectRight(Kernel(kPair, 32, "v = T.max(A[0], 1)\nA[0] = v * 2\nA[1] = v + 1"),
              {{kInt32, {2}, start}}, 0, [](int64_t i) { return i == 0 ? 6.0 : 4.0; });
  ExpectRight(Kernel(kPair, 32, "A[0], A[1] = A[1], A[0]"), {{kInt32, {2}, start}}, 0,
              [](int64_t i) { return i == 0 ? 10.0 : 3.0; });
  // So does what a list, dict, object or default holds.
  for (const char* keep : {
           "d = {}\nd['a'] = A[0]\nA[0] = 0\nA[1] = d['a']",
           "d = {}\nd.update({'a': A[0]})\nA[0] = 0\nA[1] = d['a']",
           "d = {}\nd.setdefault('a', A[0])\nA[0] = 0\nA[1] = d['a']",
           "l = [0]\nl[0] = A[0]\nA[0] = 0\nA[1] = l[0]",
           "l = [0]\nl.extend([A[0]])\nA[0] = 0\nA[1] = l[1]",
           "l = [0]\nl += [A[0]]\nA[0] = 0\nA[1] = l[1]",
           "l = [0]\nl.insert(0, A[0])\nA[0] = 0\nA[1] = l[0]",
           "l = [[0]]\nl[0] = [A[0], 1]\nA[0] = 0\nA[1] = l[0][0]",
           "f = lambda v=A[0]: v\nA[0] = 0\nA[1] = f()",
       }) {
    ExpectRight(Kernel(kPair, 32, keep), {{kInt32, {2}, start}}, 0,
                [](int64_t i) { return i == 0 ? 0.0 : 3.0; });
  }
  // Several variables are several.
  ExpectRight(Kernel(kPair, 32,
                     "a = T.alloc_var(\"int32\")\na = A[0]\nb = T.alloc_var(\"int32\")\n"
                     "b = a * 2\nA[0] = a\nA[1] = b"),
              {{kInt32, {2}, start}}, 0, [](int64_t i) { return i == 0 ? 3.0 : 6.0; });
}

// ---- products of any extent ----

void ExpectProduct(int m, int n, int k, int threads, bool fragment_a) {
  const std::string shapes =
      absl::StrCat("A: T.Tensor((", m, ", ", k, "), \"float16\"), B: T.Tensor((", k, ", ", n,
                   "), \"float16\"), C: T.Tensor((", m, ", ", n, "), \"float32\")");
  const std::string body = absl::StrReplaceAll(
      "a = T.alloc_SCOPE((M, K), \"float16\")\nb = T.alloc_shared((K, N), \"float16\")\n"
      "c = T.alloc_fragment((M, N), \"float32\")\nT.clear(c)\nT.copy(A, a)\nT.copy(B, b)\n"
      "T.gemm(a, b, c)\nT.copy(c, C)",
      {{"SCOPE", fragment_a ? "fragment" : "shared"},
       {"M", absl::StrCat(m)},
       {"N", absl::StrCat(n)},
       {"K", absl::StrCat(k)}});
  ExpectRight(
      Kernel(shapes, threads, body),
      {{kFloat16, {m, k}, Left}, {kFloat16, {k, n}, Right}, {kFloat32, {m, n}, Zero}}, 2,
      [&](int64_t i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += Left(i / n * k + l) * Right(l * n + i % n);
        return sum;
      },
      "no instruction for this matrix product");
}

// Depths that are no multiple of an instruction's lost their tail; columns that the warps do not
// divide, and odd multiples of 8, were left out or went astray.
TEST(WrongCode, NoPartOfAProductIsLeftOut) {
  ExpectProduct(64, 64, 24, 128, false);
  ExpectProduct(64, 64, 40, 128, false);
  ExpectProduct(16, 104, 16, 384, false);
  ExpectProduct(64, 24, 32, 128, false);
  ExpectProduct(64, 56, 48, 128, false);
  ExpectProduct(64, 72, 16, 256, false);
  ExpectProduct(64, 40, 24, 128, true);
}

// ---- pipelines ----

constexpr char kRows[] =
    "A: T.Tensor((8, 32), \"int32\"), S0: T.Tensor((32,), \"int32\"), "
    "O: T.Tensor((32,), \"int32\")";

std::vector<Data> RowData() {
  return {{kInt32, {8, 32}, Left}, {kInt32, {32}, Right}, {kInt32, {32}, Zero}};
}

TEST(WrongCode, APipelineComputesWhatItsLoopDoes) {
  for (const int stages : {0, 1, 2, 3}) {
    const std::string loop = absl::StrCat(", num_stages=", stages, "):\n");
    // Read, then overwritten for the next iteration.
    ExpectRight(
        Kernel(kRows, 32,
               "S = T.alloc_shared((32,), \"int32\")\nacc = T.alloc_fragment((32,), \"int32\")\n"
               "T.clear(acc)\nT.copy(S0, S)\nfor k in T.Pipelined(8" +
                   loop +
                   "    for i in T.Parallel(32):\n        acc[i] += S[i]\n    T.copy(A[k, :], S)\n"
                   "T.copy(acc, O)"),
        RowData(), 2, [](int64_t i) {
          double sum = Right(i);
          for (int k = 0; k < 7; ++k) sum += Left(k * 32 + i);
          return sum;
        });
    // One tile twice an iteration.
    ExpectRight(
        Kernel(kRows, 32,
               "S = T.alloc_shared((32,), \"int32\")\nacc = T.alloc_fragment((32,), \"int32\")\n"
               "T.clear(acc)\nfor k in T.Pipelined(4" +
                   loop +
                   "    T.copy(A[k, :], S)\n    for i in T.Parallel(32):\n        acc[i] += S[i]\n"
                   "    T.copy(A[k + 4, :], S)\n    for i in T.Parallel(32):\n"
                   "        acc[i] += 3 * S[i]\nT.copy(acc, O)"),
        RowData(), 2, [](int64_t i) {
          double sum = 0;
          for (int k = 0; k < 8; ++k) sum += (k < 4 ? 1 : 3) * Left(k * 32 + i);
          return sum;
        });
    // The last tile is read behind the loop; two loops share it; one has a single iteration.
    ExpectRight(
        Kernel(kRows, 32,
               "S = T.alloc_shared((32,), \"int32\")\nacc = T.alloc_fragment((32,), \"int32\")\n"
               "T.clear(acc)\nfor k in T.Pipelined(7" +
                   loop +
                   "    T.copy(A[k, :], S)\n    for i in T.Parallel(32):\n        acc[i] += S[i]\n"
                   "for k in T.Pipelined(1" +
                   loop +
                   "    T.copy(A[k + 7, :], S)\n    for i in T.Parallel(32):\n"
                   "        acc[i] += S[i]\nfor i in T.Parallel(32):\n    O[i] = acc[i] + S[i]"),
        RowData(), 2, [](int64_t i) {
          double sum = Left(7 * 32 + i);
          for (int k = 0; k < 8; ++k) sum += Left(k * 32 + i);
          return sum;
        });
    // An update by an atomic operation is seen by the next iteration.
    ExpectRight(Kernel(kRows, 32,
                       "S = T.alloc_shared((32,), \"int32\")\nfor k in T.Pipelined(8" + loop +
                           "    T.copy(A[k, :], S)\n    for i in T.Parallel(32):\n"
                           "        S[i] = S[i] + O[i]\n    for i in T.Parallel(32):\n"
                           "        T.atomic_add(O[i], S[i])"),
                RowData(), 2, [](int64_t i) {
                  double sum = 0;
                  for (int k = 0; k < 8; ++k) sum += Left(k * 32 + i) + sum;
                  return sum;
                });
    // Whether a step counts is read from memory.
    ExpectRight(
        Kernel(kRows, 32,
               "S = T.alloc_shared((32,), \"int32\")\nacc = T.alloc_fragment((32,), \"int32\")\n"
               "T.clear(acc)\nfor k in T.Pipelined(8" +
                   loop +
                   "    if S0[k] > 0:\n        T.copy(A[k, :], S)\n"
                   "        for i in T.Parallel(32):\n            acc[i] += S[i]\nT.copy(acc, O)"),
        RowData(), 2, [](int64_t i) {
          double sum = 0;
          for (int k = 0; k < 8; ++k) sum += Right(k) > 0 ? Left(k * 32 + i) : 0;
          return sum;
        });
    // Where a copy reads is computed in shared memory by the same iteration.
    ExpectRight(
        Kernel(kRows, 32,
               "at = T.alloc_shared((1,), \"int32\")\nS = T.alloc_shared((32,), \"int32\")\n"
               "acc = T.alloc_fragment((32,), \"int32\")\nT.clear(acc)\nfor k in T.Pipelined(8" +
                   loop +
                   "    at[0] = (k * 3) % 8\n    row = at[0]\n    T.copy(A[row, :], S)\n"
                   "    for i in T.Parallel(32):\n        acc[i] = acc[i] * 2 + S[i]\n"
                   "T.copy(acc, O)"),
        RowData(), 2, [](int64_t i) {
          double sum = 0;
          for (int k = 0; k < 8; ++k) sum = sum * 2 + Left(k * 3 % 8 * 32 + i);
          return sum;
        });
  }
}

// ---- threads that wait for each other ----

TEST(WrongCode, PartsOfABlockMeetWhereTheyExchange) {
  for (const int part : {48, 33, 64, 100}) {
    const std::string n = absl::StrCat(part);
    // Fewer elements than threads, each read by another thread than wrote it, in a loop.
    ExpectRight(Kernel(absl::StrCat("A: T.Tensor((", n, ",), \"int32\")"), 128,
                       absl::StrReplaceAll(
                           "s = T.alloc_shared((N,), \"int32\")\nf = T.alloc_fragment((N,), "
                           "\"int32\")\nT.copy(A, s)\nfor k in T.serial(3):\n"
                           "    for i in T.Parallel(N):\n        f[i] = s[N - 1 - i] + k\n"
                           "    for i in T.Parallel(N):\n        s[i] = f[i]\nT.copy(s, A)",
                           {{"N", n}})),
                {{kInt32, {part}, Left}}, 0, [&](int64_t i) { return Left(part - 1 - i) + 3; });
    // The same under a condition that memory decides.
    ExpectRight(
        Kernel(absl::StrCat("M: T.Tensor((1,), \"int32\"), A: T.Tensor((", n, ",), \"int32\")"),
               128,
               absl::StrReplaceAll(
                   "s = T.alloc_shared((N,), \"int32\")\nT.copy(A, s)\nif M[0] != 0:\n"
                   "    for k in T.serial(2):\n        f = T.alloc_fragment((N,), "
                   "\"int32\")\n        for i in T.Parallel(N):\n"
                   "            f[i] = s[(i + 1) % N] * 2\n        T.copy(f, s)\nT.copy(s, A)",
                   {{"N", n}})),
        {{kInt32, {1}, [](int64_t) { return 1.0; }}, {kInt32, {part}, Left}}, 1,
        [&](int64_t i) { return Left((i + 2) % part) * 4; });
  }
}

// Each row's number is held by many threads, all of which run its iteration; one of them stores to
// memory for all, and the others looked at that memory before or after.
TEST(WrongCode, WhatSeveralThreadsRunSeesMemoryAsItWasOnce) {
  struct Update {
    const char* body;  // of the loop over rows: u[i] is 8, s[i] is 1
    int stored, held;
  };
  for (const Update& update : {
           Update{"if s[i] < u[i]:\n    s[i] = 100\n    u[i] = 0", 100, 0},
           Update{"u[i] = s[i]\ns[i] = 100", 100, 1},
           Update{"v = s[i]\ns[i] = v + 1\nif v == 1:\n    u[i] = v + 5", 2, 6},
           Update{"s[i] = u[i] + 1\nu[i] = s[i] + 1", 9, 10},
           Update{"for k in T.serial(3):\n    if s[i] < 3:\n        s[i] = s[i] + 1\n"
                  "        u[i] = u[i] + s[i]",
                  3, 13},
       }) {
    for (const char* memory : {"s", "O"}) {
      const std::string loop = absl::StrReplaceAll(
          update.body, {{"s[i]", absl::StrCat(memory, "[i]")}, {"\n", "\n    "}});
      const std::string text = Kernel(
          "O: T.Tensor((2,), \"int32\"), P: T.Tensor((2, 256), \"int32\")", 128,
          absl::StrCat("f = T.alloc_fragment((2, 256), \"int32\")\n"
                       "u = T.alloc_fragment((2,), \"int32\")\n"
                       "s = T.alloc_shared((2,), \"int32\")\nT.fill(u, 8)\nT.fill(s, 1)\n"
                       "T.copy(s, O)\nfor i in T.Parallel(2):\n    ",
                       loop, "\nT.copy(", memory, ", ", memory, ")\n",
                       memory == std::string("s") ? "T.copy(s, O)\n" : "",
                       "for i, j in T.Parallel(2, 256):\n    f[i, j] = u[i] + j\nT.copy(f, P)"));
      const std::vector<Data> data = {{kInt32, {2}, Zero}, {kInt32, {2, 256}, Zero}};
      ExpectRight(text, data, 0, [&](int64_t) { return update.stored; });
      ExpectRight(text, data, 1,
                  [&](int64_t i) { return update.held + static_cast<double>(i % 256); });
    }
  }
}

// All of the source is read before any of the destination is written.
TEST(WrongCode, ACopyWithinOneBufferReadsAllOfItFirst) {
  for (const int by : {1, 3, 17}) {
    const std::string n = absl::StrCat(by);
    const auto forth = [&](int64_t i) { return Left(i < by ? i : i - by); };
    const auto back = [&](int64_t i) { return Left(i < 64 - by ? i + by : i); };
    const std::vector<Data> data = {{kInt32, {64}, Left}};
    const std::string params = "A: T.Tensor((64,), \"int32\")";
    const auto body = [&](const char* text) {
      return Kernel(params, 128, absl::StrReplaceAll(text, {{"BY", n}}));
    };
    ExpectRight(body("T.copy(A[0:64 - BY], A[BY:64])"), data, 0, forth);
    ExpectRight(body("T.copy(A[BY:64], A[0:64 - BY])"), data, 0, back);
    ExpectRight(body("s = T.alloc_shared((64,), \"int32\")\nT.copy(A, s)\n"
                     "T.copy(s[0:64 - BY], s[BY:64])\nT.copy(s, A)"),
                data, 0, forth);
  }
}

// The same where a view of another type turns the copy into a loop.
TEST(WrongCode, ACopyWithinAViewedTileReadsAllOfItFirst) {
  ExpectRight(Kernel("O: T.Tensor((5, 3), \"int32\")", 128,
                     "t = T.alloc_shared((5, 3), \"int32\")\nfor i, j in T.Parallel(5, 3):\n"
                     "    t[i, j] = i * 3 + j\nT.copy(t[1:5, 0:3], t[0:4, 0:3])\n"
                     "b = T.view(t, (5, 12), \"uint8\")\nfor i, j in T.Parallel(5, 12):\n"
                     "    b[i, j] = b[i, j] ^ T.cast(1, \"uint8\")\nT.copy(t, O)"),
              {{kInt32, {5, 3}, Zero}}, 0,
              [](int64_t i) { return static_cast<double>((i < 12 ? i + 3 : i) ^ 0x01010101); });
}

// An axis of extent 1 folds to its only value: an index that comes out negative is outside of the
// tensor, and no constant of the source that counts from its end.
TEST(WrongCode, AnIndexThatFoldsBelowZeroIsOutside) {
  const std::vector<Data> data = {{kInt32, {4}, Left}, {kInt32, {1}, Right}};
  const char* params = "A: T.Tensor((4,), \"int32\"), B: T.Tensor((1,), \"int32\")";
  ExpectRight(Kernel(params, 32, "for i in T.Parallel(1):\n    A[i - 1] = 50"), data, 0, Left);
  ExpectRight(Kernel(params, 32, "for i in T.Parallel(1):\n    B[i] = A[i - 1]"), data, 1, Zero);
}

// Masks of wide vectors: columns beyond the tensor's end are 0, and nothing is stored there.
TEST(WrongCode, RaggedCopiesOfWideElementsStopAtTheEdge) {
  for (const DType type : {kInt64, kFloat64, kFloat32}) {
    const int columns = type.bits == 64 ? 8 : 16;
    const std::string at = absl::StrCat("(12, ", columns, "), \"", type.ToString(), "\")");
    const std::vector<Data> data = {{type, {12, columns}, Left}, {type, {12, columns}, Right}};
    const std::string params = absl::StrCat("A: T.Tensor(", at, ", O: T.Tensor(", at);
    const std::string tile = absl::StrCat("t = T.alloc_fragment(", at, "\n");
    const int half = columns / 2;
    ExpectRight(
        Kernel(params, 128, absl::StrCat(tile, "T.copy(A[1, ", half, "], t)\nT.copy(t, O)")), data,
        1, [&](int64_t i) {
          const int64_t row = i / columns + 1, column = i % columns + half;
          return row < 12 && column < columns ? Left(row * columns + column) : 0;
        });
    ExpectRight(
        Kernel(params, 128, absl::StrCat(tile, "T.copy(A, t)\nT.copy(t, O[1, ", half, "])")), data,
        1, [&](int64_t i) {
          const int64_t row = i / columns, column = i % columns;
          const bool stored = row >= 1 && column >= half;
          return stored ? Left((row - 1) * columns + column - half) : Right(i);
        });
  }
}

// An update runs where what its place depends on is held.
TEST(WrongCode, APlaceOfAnAtomicUpdateIsReadWhereItIsHeld) {
  ExpectRight(Kernel("O: T.Tensor((4,), \"int32\"), U: T.Tensor((8,), \"int32\")", 128,
                     "u = T.alloc_fragment((8,), \"int32\")\nT.copy(U, u)\n"
                     "for j in T.Parallel(8):\n    u[j] = u[j] * 0 + j\n"
                     "for i, j in T.Parallel(16, 8):\n    T.atomic_add(O[u[j] % 4], i)\n"
                     "T.copy(u, U)"),
              {{kInt32, {4}, Zero}, {kInt32, {8}, Left}}, 0, [](int64_t) { return 240.0; });
}

// One element, updated by the block once.
TEST(WrongCode, AnAtomicUpdateOfOneElementOutsideOfLoops) {
  ExpectRight(Kernel("A: T.Tensor((7,), \"float32\")", 64,
                     "f = T.alloc_fragment((4, 32), \"int32\")\n"
                     "t = T.alloc_shared((1,), \"float32\")\nT.fill(f, 1)\nT.fill(t, 2)\n"
                     "T.atomic_add(A[0:1], t[0:1])"),
              {{kFloat32, {7}, Left}}, 0, [](int64_t i) { return Left(i) + (i == 0 ? 2 : 0); });
}

// A part is filled after the whole was copied, and a smaller tile read by every thread.
TEST(WrongCode, WritesOfOneTileKeepTheirOrder) {
  for (const auto& [low, high] : {std::pair(10, 16), {0, 6}, {1, 64}, {63, 64}}) {
    ExpectRight(Kernel("A: T.Tensor((64,), \"int32\"), O: T.Tensor((64,), \"int32\")", 128,
                       absl::StrCat("s = T.alloc_shared((64,), \"int32\")\nT.copy(A, s)\nT.fill(s[",
                                    low, ":", high, "], 100)\nfor i in T.Parallel(64):\n",
                                    "    O[i] = s[63 - i]")),
                {{kInt32, {64}, Left}, {kInt32, {64}, Zero}}, 1,
                [&, low = low, high = high](int64_t i) {
                  return 63 - i >= low && 63 - i < high ? 100.0 : Left(63 - i);
                });
  }
  ExpectRight(Kernel("O: T.Tensor((512,), \"int32\")", 512,
                     "s = T.alloc_shared((32,), \"int32\")\nfor i in T.Parallel(32):\n"
                     "    s[i] = i * i\nfor i in T.Parallel(512):\n    O[i] = s[i % 32]"),
              {{kInt32, {512}, Zero}}, 0,
              [](int64_t i) { return static_cast<double>((i % 32) * (i % 32)); });
}

// ---- indices beyond 32 bits ----

// Places of a tensor of three gigabytes, of which pages are taken only where something is stored.
TEST(WrongCode, PlacesBeyondTwoToThe31AreReached) {
  const int64_t far = (int64_t{1} << 31) + 77, elements = 3'000'000'000;
  const auto run = [&](const std::string& text, int64_t at, const std::vector<int64_t>& shape) {
    SCOPED_TRACE(text);
    const auto program = ElaborateText(text);
    ASSERT_TRUE(program.ok()) << program.status();
    std::vector<interp::Tensor> tensors;
    tensors.emplace_back(kInt8, shape);
    tensors.emplace_back(kInt8, std::vector<int64_t>{4});
    tensors[0].View().Set(at, 42);
    const auto ran = interp::Run(*program, {tensors[0].View(), tensors[1].View()}, {});
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_EQ(tensors[1].View().Get(3), 42);
    tensors[1].View().Set(3, 0);
    const auto compiled = kiln::testing::CompiledProgram::Compile(*program);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ASSERT_EQ(compiled->Run({tensors[0].data(), tensors[1].data()}), 0);
    EXPECT_EQ(tensors[1].View().Get(3), 42);
  };
  const std::string out = ", O: T.Tensor((4,), \"int8\")";
  run(Kernel(absl::StrCat("A: T.Tensor((", elements, ",), \"int8\")", out), 32,
             absl::StrCat("O[3] = A[", far, "]")),
      far, {elements});
  run(Kernel(absl::StrCat("A: T.Tensor((4, 700000000), \"int8\")", out), 32,
             "for i in T.Parallel(4):\n    O[i] = A[i, 699999999]"),
      int64_t{4} * 700'000'000 - 1, {4, 700'000'000});
  run(Kernel(absl::StrCat("A: T.Tensor((4, 700000000), \"int8\")", out), 32,
             "s = T.alloc_shared((4, 1), \"int8\")\nT.copy(A[0, 699999999], s)\n"
             "for i in T.Parallel(4):\n    O[i] = s[i, 0]"),
      int64_t{4} * 700'000'000 - 1, {4, 700'000'000});
}

// Python raises, or goes on for ever.
TEST(WrongCode, AContainerDoesNotChangeUnderItsLoop) {
  ExpectRefused(Kernel(kPair, 32, "x = {1: 2, 3: 4}\ny = [x.pop(i) for i in x]\nA[0] = y[0]"),
                "the dict changes its length", "copy");
  ExpectRefused(Kernel(kPair, 32, "x = [1, 2]\ny = [x.append(i) for i in x]\nA[0] = len(x)"),
                "the list changes its length", "copy");
  ExpectRefused(
      Kernel(kPair, 32, "x = [3, 2, 1]\nx.sort(key=lambda v: (x.append(v), v)[1])\nA[0] = len(x)"),
      "the list changes its length", "copy");
}

// A constant that its type cannot hold, and 32-bit arithmetic of constants that leaves it.
TEST(WrongCode, ConstantsThatDoNotFitAreRefused) {
  ExpectRefused(Kernel(kPair, 32, "A[0] = 3000000000"), "3000000000", "");
  ExpectRefused(Kernel(kPair, 32, "A[0] = 2 ** 63"), "64", "");
}

}  // namespace
}  // namespace kiln::lang
