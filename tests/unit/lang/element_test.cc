// What iterations and threads do to elements: races are refused for every target, scratch that is
// declared outside of a loop is each iteration's own, slices are stored to, loops turn as often as
// the run says. Kernels that are accepted are right everywhere.
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/lang/right_everywhere.h"

namespace kiln::lang {
namespace {

constexpr char kPair[] = "A: T.Tensor((64,), T.int32), O: T.Tensor((64,), T.int32)";
constexpr char kMatrix[] = "A: T.Tensor((64, 4), T.int32), O: T.Tensor((64,), T.int32)";
constexpr char kSquare[] = "A: T.Tensor((8, 8), T.int32), O: T.Tensor((8, 8), T.int32)";

const std::vector<Data> kPairData = {{kInt32, {64}, Left}, {kInt32, {64}, Zero}};
const std::vector<Data> kMatrixData = {{kInt32, {64, 4}, Left}, {kInt32, {64}, Zero}};
const std::vector<Data> kSquareData = {{kInt32, {8, 8}, Left}, {kInt32, {8, 8}, Zero}};

std::string Pair(const std::string& body) { return Kernel(kPair, 64, body); }
std::string Matrix(const std::string& body) { return Kernel(kMatrix, 32, body); }
std::string Square(const std::string& body) { return Kernel(kSquare, 32, body); }

std::string Shared(const std::string& body) {
  return Pair("s = T.alloc_shared((64,), T.int32)\nT.copy(A, s)\n" + body + "\nT.copy(s, O)");
}

void ExpectAccepted(const std::string& text) {
  const auto program = ElaborateText(text);
  EXPECT_TRUE(program.ok()) << program.status() << "\n" << text;
}

// ---- iterations ----

TEST(Iterations, TwoMayNotStoreToOneElement) {
  ExpectRefused(Pair("for i in T.Parallel(16):\n    O[0] = i"),
                "iterations (0) and (1) of T.Parallel (i) store to one element, O[0]",
                "T.atomic_add");
  // The same value is no exception: one store says it.
  ExpectRefused(Pair("for i in T.Parallel(16):\n    O[0] = 1"), "store to one element, O[0]",
                "give every iteration its own element");
  ExpectRefused(Pair("for i in T.Parallel(16):\n    O[3] += A[i]"), "store to one element, O[3]",
                "T.atomic_add");
  ExpectRefused(Shared("for i in T.Parallel(64):\n    s[i // 2] = i"),
                "iterations (0) and (1) of T.Parallel (i) store to one element, s[i // 2]", "");
  ExpectRefused(Pair("f = T.alloc_fragment((4,), T.int32)\nT.clear(f)\n"
                     "for i in T.Parallel(64):\n    f[1] += A[i]\nO[0] = f[1]"),
                "store to one element, f(1)", "T.alloc_reducer");
  ExpectRefused(Pair("for i, j in T.Parallel(8, 8):\n    O[i] = A[j]"),
                "iterations (0, 0) and (0, 1) of T.Parallel (i, j)", "");
  ExpectRefused(Pair("for i in T.Parallel(32):\n    O[i] = 1\n    O[31 - i] = 2"),
                "iterations (31) and (0)", "");
  ExpectRefused(Pair("n = A[0]\nfor i in T.Parallel(8):\n    for k in T.serial(n):\n"
                     "        O[k] = i"),
                "store to one element, O[k]", "");
  ExpectRefused(Pair("for i in T.Parallel(A[0]):\n    O[7] = i"), "iterations (0) and (1)", "");
  ExpectRefused(Pair("for i in T.Parallel(64):\n    if A[5] > 0:\n        O[i % 7] = i"),
                "iterations (0) and (7)", "");
}

TEST(Iterations, OneMayNotReadWhatAnotherStores) {
  ExpectRefused(Shared("for i in T.Parallel(63):\n    s[i] = s[i + 1]"),
                "iterations (1) and (0) of T.Parallel (i) store to and read one element, s[i] and "
                "s[i + 1]",
                "copy what is read into a fragment");
  ExpectRefused(Pair("for i in T.Parallel(63):\n    x = O[i]\n    O[i + 1] = x"),
                "iterations (0) and (1)", "");
  ExpectRefused(Shared("for i in T.Parallel(64):\n    x = s[63 - i]\n    s[i] = x * 2"),
                "iterations (63) and (0)", "make the loop serial");
}

// Loops too large to be gone through are solved.
TEST(Iterations, FarOnesMeetToo) {
  const auto large = [](const std::string& body) {
    return Kernel("A: T.Tensor((1 << 23,), T.int32), O: T.Tensor((1 << 23,), T.int32)", 64, body);
  };
  const std::pair<const char*, const char*> kMeet[] = {
      {"for i in T.Parallel(1 << 20):\n    O[i] = O[i + (1 << 19)]",
       "iterations (524288) and (0) of T.Parallel (i) store to and read one element"},
      {"for i in T.Parallel(1 << 20):\n    O[i % (1 << 19)] = A[i]",
       "iterations (0) and (524288) of T.Parallel (i) store to one element"},
      {"for i, j in T.Parallel(4096, 4096):\n    if i * 4096 + j > 16000000:\n"
       "        O[(i * 4096 + j) // 2] = A[i]",
       "store to one element"},
      {"for i, j in T.Parallel(2048, 2048):\n    O[i * 2047 + j] = A[i]", "store to one element"},
      {"for i in T.Parallel(1 << 20):\n    if i < 1000:\n        O[i] = 1\n"
       "    if i >= 1000000 and i < 1000100:\n        O[i - 999200] = 2",
       "store to one element"},
      {"for i in T.Parallel(1 << 19):\n    for k in T.serial(4):\n        O[i + k * 500000] = k",
       "store to one element"}};
  for (const auto& [body, message] : kMeet) ExpectRefused(large(body), message, "");
  for (const char* body :
       {"for i in T.Parallel(1 << 20):\n    if i < (1 << 19):\n        O[i] = O[i + (1 << 19)]",
        "for i, j in T.Parallel(2048, 2048):\n    O[i * 2048 + j] = A[i]",
        "for i, j in T.Parallel(2048, 2048):\n    O[i * 2048 + (j + 7) % 2048] = A[j]",
        "for i in T.Parallel(1 << 21):\n    O[i // 1024 * 1024 + i % 1024] = A[i]",
        "for i in T.Parallel(1 << 21):\n    if i % 2 == 0:\n        O[i // 2] = A[i]",
        "for i in T.Parallel(1 << 20):\n    O[2 * i] = O[2 * i + 1]",
        // Beyond the tensor nothing is stored; by values nothing is certain.
        "for i in T.Parallel(1 << 20):\n    O[(1 << 23) + i // 2] = A[i]",
        "for i in T.Parallel(1 << 20):\n    if A[i] > 0:\n        O[i // 2] = A[i]"}) {
    ExpectAccepted(large(body));
  }
}

// As many pairs of accesses as there are statements, squared, cost no more than a second or so.
TEST(Iterations, ManyStatementsAreBounded) {
  std::string body = "for i, j in T.Parallel(2048, 2048):";
  for (int k = 0; k < 100; ++k) {
    const std::string at = absl::StrCat("O[i * 2048 + j + ", k, " * (1 << 22)]");
    absl::StrAppend(&body, "\n    ", at, " = ", at, " + ", k);
  }
  const std::clock_t start = std::clock();
  ExpectAccepted(Kernel("O: T.Tensor((1 << 30,), T.int32)", 64, body));
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
}

// No other thread reaches what one has of its own.
TEST(Iterations, RegistersAreNotUpdatedAtomically) {
  const std::string held = "tx = T.get_thread_binding(0)\nl = T.alloc_local((64,), T.float32)\n";
  for (const char* update :
       {"T.atomic_add(l, A[0:64])", "T.atomic_max(l, 2)", "T.atomic_add(l[tx], A[tx])",
        "T.atomic_addx2(l[0], A[0])", "T.atomic_store(l[0], 1)", "O[tx] = T.atomic_load(l[0])",
        "for i in T.Parallel(64):\n    T.atomic_add(l[i], 1)"}) {
    ExpectRefused(Pair(absl::StrCat(held, update)),
                  "an atomic operation on 'l', of which each thread has its own", "r[i] += x");
  }
}

TEST(Iterations, UpdatesAndStoresDoNotMix) {
  ExpectRefused(Pair("for i in T.Parallel(64):\n    T.atomic_add(O[0], A[i])\n"
                     "    if i == 0:\n        O[0] = 1"),
                "store to and update one element, O[0]", "in a loop of its own");
  ExpectRefused(Pair("for i in T.Parallel(64):\n    O[i] = 1\n    T.atomic_max(O[63 - i], A[i])"),
                "store to and update one element", "");
  for (const char* body :
       {"for i in T.Parallel(63):\n    O[i + 1] = A[i]\n    T.atomic_add(O[0], A[i])",
        "for i in T.Parallel(64):\n    O[i] = A[i]\n    T.atomic_add(O[i], 1)",
        "for i in T.Parallel(64):\n    T.atomic_add(O[0], A[i])\n    T.atomic_max(O[0], 1)",
        "for i in T.Parallel(64):\n    T.atomic_add(O[A[i]], 1)\n    if i == 3:\n        O[0] = 1",
        // What an update leaves may be read at any time.
        "for i in T.Parallel(63):\n    if O[0] < 100:\n        T.atomic_add(O[0], A[i])\n"
        "    O[i + 1] = A[i]",
        // Threads store in an order of their own: statement by statement.
        "tx = T.get_thread_binding(0)\nif tx == 0:\n    O[0] = 0\nT.atomic_add(O[0], A[tx])"}) {
    ExpectAccepted(Pair(body));
  }
}

TEST(Iterations, WhatIsNotCertainIsAccepted) {
  for (const char* body :
       {"for i in T.Parallel(64):\n    O[63 - i] = i",
        "for i, j in T.Parallel(8, 8):\n    O[i * 8 + j] = i",
        "for i, j in T.Parallel(8, 8):\n    O[(i * 8 + j + 5) % 64] = i",
        "for i in T.Parallel(64):\n    if A[i] > 0:\n        O[0] = 1",
        "for i in T.Parallel(64):\n    if i == 3:\n        O[0] = A[i]",
        "for i in T.Parallel(64):\n    O[A[i]] = i",
        // By a number of each iteration, and by ranges of its own.
        "for i in T.Parallel(64):\n    l = T.alloc_local((1,), T.int32)\n    l[0] = i\n"
        "    O[l[0]] = 1",
        "for i in T.Parallel(8):\n    for k in T.serial(A[i]):\n        O[i * 8 + k] = k",
        "for i in T.Parallel(8):\n    for k in T.serial(8):\n        if k != i:\n"
        "            continue\n        O[k] = i",
        "for i in T.Parallel(64):\n    if A[0] > 0:\n        O[i] = 1\n    else:\n"
        "        O[63 - i] = 2",
        "for i in T.Parallel(32):\n    O[i] = O[i + 32]", "for i in T.Parallel(1):\n    O[0] = i",
        "for i in T.Parallel(A[0]):\n    O[i % 8] = i",
        // Beyond the tensor nothing is stored.
        "for i in T.Parallel(64):\n    O[64 + i // 2] = i",
        "for i in T.Parallel(64):\n    T.atomic_add(O[0], A[i])"}) {
    ExpectAccepted(Pair(body));
  }
}

// ---- threads ----

TEST(Threads, OneMayNotReadWhatAnotherStoresInOneStatement) {
  const std::string before =
      "tx = T.get_thread_binding()\ns = T.alloc_shared((64,), T.int32)\n"
      "s[tx] = A[tx]\n";
  ExpectRefused(Pair(before + "s[tx] = s[63 - tx] + 1\nO[tx] = s[tx]"),
                "threads 63 and 0 of the block store to and read one element in one statement",
                "read it into a name of its own first");
  ExpectRefused(Pair(before + "if tx < 63:\n    s[tx] = s[tx + 1]\nO[tx] = s[tx]"),
                "threads 1 and 0", "");
  ExpectRefused(Pair(before + "s[tx // 2] = tx\nO[tx] = s[tx]"),
                "threads 0 and 1 of the block store to one element, s[thread // 2]",
                "let one thread store");
  for (const char* body :
       {"if tx < 32:\n    s[tx] = s[tx] + s[tx + 32]", "s[0] = 1", "s[tx // 2] = 7",
        "s[A[tx]] = tx", "if A[tx] > 0:\n    s[3] = tx", "s[tx ^ 5] = tx"}) {
    ExpectAccepted(Pair(before + body + "\nO[tx] = s[tx]"));
  }
  // What the remedy says.
  ExpectRight(Pair(before + "x = s[63 - tx]\ns[tx] = x + 1\nO[tx] = s[tx]"), kPairData, 1,
              [](int64_t i) { return Left(63 - i) + 1; });
}

// ---- scratch ----

TEST(Scratch, IsEachIterationsOwnWhereItIsStoredToFirst) {
  const auto sum = [](int64_t i) {
    return Left(4 * i) + Left(4 * i + 1) + Left(4 * i + 2) + Left(4 * i + 3);
  };
  ExpectRight(Matrix("l = T.alloc_local((1,), T.int32)\nfor i in T.Parallel(64):\n    l[0] = 0\n"
                     "    for v in T.serial(4):\n        l[0] += A[i, v]\n    O[i] = l[0]"),
              kMatrixData, 1, sum);
  ExpectRight(Matrix("l = T.alloc_local((4,), T.int32)\nfor i in T.Parallel(64):\n    T.clear(l)\n"
                     "    for v in T.serial(4):\n        l[v] += A[i, v]\n"
                     "    O[i] = l[0] + l[1] + l[2] + l[3]"),
              kMatrixData, 1, sum);
  ExpectRight(Matrix("l = T.alloc_local((4,), T.int32)\nfor i in T.Parallel(64):\n"
                     "    for v in T.serial(4):\n        l[3 - v] = A[i, v]\n"
                     "    O[i] = l[0] + l[1] + l[2] + l[3]"),
              kMatrixData, 1, sum);
  // Several loops, and a loop around them; what the block stores before counts for nobody.
  ExpectRight(Matrix("m = T.alloc_var(T.int32, init=5)\nfor k in T.serial(2):\n"
                     "    for i in T.Parallel(64):\n        m = A[i, k]\n        if m > 0:\n"
                     "            m = m + 1\n        O[i] = m\n    for i in T.Parallel(64):\n"
                     "        m = O[i]\n        O[i] = m * 2"),
              kMatrixData, 1, [](int64_t i) {
                const double m = Left(4 * i + 1);
                return 2 * (m > 0 ? m + 1 : m);
              });
  // Of loops in loops it is the inner one's.
  ExpectRight(
      Matrix("m = T.alloc_var(T.int32)\nfor i in T.Parallel(8):\n"
             "    for j in T.Parallel(8):\n        m = A[i * 8 + j, 0]\n"
             "        O[i * 8 + j] = m"),
      kMatrixData, 1, [](int64_t i) { return Left(4 * i); },
      "a parallel loop inside of a parallel loop");
  // The block's own, stored to again after the loop.
  ExpectRight(Matrix("m = T.alloc_var(T.int32, init=5)\nfor i in T.Parallel(64):\n"
                     "    m = A[i, 0]\n    O[i] = m\nm = 3\nO[0] = m"),
              kMatrixData, 1, [](int64_t i) { return i == 0 ? 3 : Left(4 * i); });
}

TEST(Scratch, IsRefusedWhereAnIterationReadsWhatItHasNotStored) {
  const std::string var = "m = T.alloc_var(T.int32, init=0)\n";
  const std::string tile = "l = T.alloc_local((4,), T.int32)\n";
  for (const std::string& body :
       {var + "for i in T.Parallel(64):\n    m = m + A[i, 0]\n    O[i] = m",
        var + "for i in T.Parallel(64):\n    if A[i, 0] > 0:\n        m = 1\n    O[i] = m",
        var + "for i in T.Parallel(64):\n    for k in T.serial(A[i, 0]):\n        m = k\n"
              "    O[i] = m"}) {
    ExpectRefused(Matrix(body), "iterations of T.Parallel would share 'm'", "T.alloc_reducer");
  }
  for (const std::string& body :
       {tile + "for i in T.Parallel(64):\n    l[0] = 1\n    O[i] = l[1]",
        tile + "for i in T.Parallel(64):\n    l[A[i, 0]] = 1\n    O[i] = l[2]",
        tile + "for i in T.Parallel(64):\n    for v in T.serial(3):\n        l[v] = 1\n"
               "    O[i] = l[A[i, 0]]"}) {
    ExpectRefused(Matrix(body), "iterations of T.Parallel would share 'l'", "store to it first");
  }
  ExpectRefused(Matrix(var + "for i in T.Parallel(64):\n    m = A[i, 0]\n    O[i] = m\nO[0] = m"),
                "'m' is read after a T.Parallel loop", "T.alloc_fragment");
  ExpectRefused(Matrix(var + "for k in T.serial(2):\n    O[k] = m\n    for i in T.Parallel(64):\n"
                             "        m = A[i, 0]\n        O[i] = m"),
                "'m' is read after a T.Parallel loop", "");
  // A turn that leaves early does not make up for the loop.
  ExpectRefused(Matrix(var + "for k in T.serial(3):\n    m2 = m\n    O[k] = m2\n"
                             "    for i in T.Parallel(64):\n        m = A[i, 0]\n        O[i] = m\n"
                             "    if A[k, 0] > 0:\n        continue\n    m = 1"),
                "'m' is read after a T.Parallel loop", "");
}

// ---- extents of run time ----

TEST(RunTimeExtents, AreRightEverywhere) {
  for (const int64_t more : {3, 40, -9, 67}) {  // A[0] is -3: none, some, none, all of 64
    ExpectRight(
        Pair(absl::StrCat("n = A[0] + ", more, "\nfor i in T.Parallel(n):\n    O[i] = A[i] + i")),
        kPairData, 1,
        [&](int64_t i) { return i < more - 3 ? Left(i) + static_cast<double>(i) : 0; });
  }
  ExpectRight(Square("n = A[0, 0] + 8\nfor i, j in T.Parallel(n, 8):\n    O[i, j] = A[i, j] + 1"),
              kSquareData, 1, [](int64_t i) { return i < 40 ? Left(i) + 1 : 0; });
  ExpectRight(Square("n = T.min(A[0, 0] + 8, 8)\nm = T.min(A[0, 0] + 6, 8)\ns = T.alloc_shared((8, "
                     "8), T.int32)\n"
                     "T.clear(s)\nfor i, j in T.Parallel(n, m):\n    s[i, j] = A[i, j] + 1\n"
                     "T.copy(s, O)"),
              kSquareData, 1, [](int64_t i) { return i / 8 < 5 && i % 8 < 3 ? Left(i) + 1 : 0; });
  // Fewer than no iterations are none, in front of the first one too.
  ExpectRight(Pair("n = A[0] - 9\nfor i in T.Parallel(n):\n    O[i + 32] = 1"), kPairData, 1, Zero);
  ExpectRight(
      Pair("f = T.alloc_fragment((64,), T.int32)\nT.copy(A, f)\nn = A[0] + 23\n"
           "for i in T.Parallel(n):\n    O[i] = f[i]"),
      kPairData, 1, [](int64_t i) { return i < 20 ? Left(i) : 0; },
      "fragment 'f' is indexed by 'i', whose extent is not known when the kernel is compiled");
  // What the loop stores does not change how far it goes.
  ExpectRight(Pair("O[0] = 50\nfor i in T.Parallel(O[0]):\n    O[i] = 1"), kPairData, 1,
              [](int64_t i) { return i < 50 ? 1 : 0; });
}

// ---- slices ----

TEST(Slices, AreStoredToElementByElement) {
  const auto turned = [](int64_t i) { return Left(i / 8 * 8 + (i + 4) % 8); };
  ExpectRight(Square("tx = T.get_thread_binding()\nif tx < 8:\n    O[tx, 0:4] = A[tx, 4:8]\n"
                     "    O[tx, 4:8] = A[tx, 0:4]"),
              kSquareData, 1, turned);
  ExpectRight(Square("for i in T.Parallel(8):\n    O[i, 0:4] = A[i, 4:]\n    O[i, 4:] = A[i, :4]"),
              kSquareData, 1, turned);
  ExpectRight(Square("s = T.alloc_shared((8, 8), T.int32)\ns[:, 0:4] = A[:, 4:8]\n"
                     "s[:, 4:8] = A[:, 0:4]\nO[:, :] = s"),
              kSquareData, 1, turned);
  // All of the right side is read first.
  ExpectRight(Square("s = T.alloc_shared((8, 8), T.int32)\nT.copy(A, s)\n"
                     "for i in T.Parallel(8):\n    s[i, 1:8] = s[i, 0:7]\nT.copy(s, O)"),
              kSquareData, 1, [](int64_t i) { return i % 8 == 0 ? Left(i) : Left(i - 1); });
  ExpectRight(Square("O[0, :] = 3\nO[1:3, 2:4] = 5\nf = T.alloc_fragment((8,), T.int32)\n"
                     "f[:] = A[7, :]\nO[7, :] = f"),
              kSquareData, 1, [](int64_t i) {
                if (i < 8) return 3.0;
                if (i >= 56) return Left(i);
                return i / 8 < 3 && (i % 8 == 2 || i % 8 == 3) ? 5.0 : 0.0;
              });
  ExpectRefused(Square("O[0:4, 0:4] = A[0:4, 0:5]"), "a store between shapes that differ", "");
  ExpectRefused(Square("for i in T.Parallel(2):\n    O[0:2, 0:4] = A[0:2, 0:4]"),
                "more than one axis", "give its axes to the loop");
  ExpectRefused(
      Kernel("O: T.Tensor((8, 128), T.int32)", 32, "for i in T.Parallel(8):\n    O[i, :] = 1"),
      "more than 64 elements", "for v in T.serial(n)");
}

TEST(Slices, AnEllipsisIsTheDimensionsThatAreLeft) {
  const std::vector<Data> data = {{kInt32, {8, 8}, Right}, {kInt32, {8, 8}, Zero}};
  ExpectRight(Square("s = T.alloc_shared((8,), T.int32)\nfor i in T.serial(8):\n"
                     "    T.copy(A[i, ...], s)\n    T.copy(s, O[..., i])"),
              data, 1, [](int64_t i) { return Right(i % 8 * 8 + i / 8); });
  ExpectRight(Square("for i, j in T.Parallel(8, 8):\n    O[i, j, ...] = A[..., i, j]"), data, 1,
              Right);
  ExpectRefused(Square("T.copy(A[..., 0, ...], O[0, ...])"), "two '...' in an index of 'A'",
                "keep one");
  ExpectRefused(Square("O[0, 0] = A[0, 0, 0, ...]"), "'A' has 2 dimensions, but 4 indices", "");
}

TEST(Slices, TooFewIndicesAreCounted) {
  const char* remedy = "index both dimensions of 'A', as in A[i, j]";
  ExpectRefused(Square("O[0, 0] = A[0] + 1"), "a part of 'A' (2 dimensions, 1 index)", remedy);
  ExpectRefused(Square("O[0, 0] = T.exp(A[0])"), "a part of 'A' (2 dimensions, 1 index)", remedy);
  ExpectRefused(Square("x = A[0]\nO[0, 0] = x"), "a part of 'A' (2 dimensions, 1 index)", remedy);
  ExpectRefused(Square("if A[0] > 1:\n    O[0, 0] = 1"), "a part of 'A' (2 dimensions, 1 index)",
                remedy);
  ExpectRefused(Square("O[0] = 1"), "a part of 'O' (2 dimensions, 1 index) is assigned to",
                "index both dimensions of 'O'");
  ExpectRefused(Square("O[0] += 1"), "a part of 'O' (2 dimensions, 1 index) is updated in place",
                "as in O[i, j]");
}

// ---- elements outside ----

TEST(Outside, ConditionsOfTwoAxesAreLookedAt) {
  const std::string tile =
      "s = T.alloc_shared((8, 8), T.int32)\nfor i, j in T.Parallel(8, 8):\n    ";
  ExpectRefused(Square(tile + "if i + j < 9:\n        s[i + j, 0] = 1"),
                "index 8 of dimension 0, whose extent is 8", "guard the access");
  ExpectRefused(Square(tile + "if i < j:\n        s[j - i - 2, i] = 1"),
                "index -1 of dimension 0, whose extent is 8", "");
  ExpectRefused(
      Square(tile + "if i < j:\n        s[i, j] = 1\n    else:\n        s[i - j - 1, j] = 1"),
      "index -1 of dimension 0", "");
  ExpectRefused(Square(tile + "s[i // 2 - 1, j] = 1"), "index -1 of dimension 0", "");
  ExpectRefused(Square(tile + "s[i, (i + j) % 9] = 1"), "index 8 of dimension 1", "");
  ExpectAccepted(Square(tile + "if i + j < 8:\n        s[i + j, i] = 1"));
  ExpectAccepted(Square(tile + "if i < j:\n        s[j - i - 1, i] = 1"));
  ExpectAccepted(Square(tile + "if i + j < A[0, 0]:\n        s[i + j, i] = 1"));
  ExpectAccepted(Square(tile + "if i < j and i + j < 8:\n        s[i + j, j - i] = 1"));
}

}  // namespace
}  // namespace kiln::lang
