// Operations in the forms in which TileLang's users write them: right everywhere, or refused where
// they stand.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/lang/right_everywhere.h"

namespace kiln::lang {
namespace {

constexpr char kPair[] = "A: T.Tensor((64,), T.int32), O: T.Tensor((64,), T.int32)";
constexpr char kSquare[] = "A: T.Tensor((8, 8), T.int32), O: T.Tensor((8, 8), T.int32)";

const std::vector<Data> kPairData = {{kInt32, {64}, Left}, {kInt32, {64}, Zero}};
const std::vector<Data> kSquareData = {{kInt32, {8, 8}, Left}, {kInt32, {8, 8}, Right}};

// n is 5 and m is 3 where A[0, 0] is -3; whatever it is, both stay within the tensors.
std::string Open(const std::string& body) {
  return Kernel(kSquare, 32,
                absl::StrCat("n = T.min(T.max(A[0, 0], -6) + 8, 8)\n"
                             "m = T.min(T.max(A[0, 0], -5) + 6, 8)\n",
                             body));
}

// ---- regions of which only the run knows how large they are ----

TEST(OpenRegions, AreCopiedFilledAndUpdatedEverywhere) {
  const auto inside = [](int64_t i) { return i / 8 >= 2 && i / 8 < 5 && i % 8 >= 1 && i % 8 < 3; };
  const auto either = [&](const Fill& there, const Fill& elsewhere) {
    return [=](int64_t i) { return inside(i) ? there(i) : elsewhere(i); };
  };
  const auto seven = [](int64_t) { return 7.0; };
  const auto both = [](int64_t i) { return Left(i) + Right(i); };
  const std::string tile = "s = T.alloc_shared((8, 8), T.int32)\n";
  const std::string fragment = "s = T.alloc_fragment((8, 8), T.int32)\n";
  ExpectRight(Open("T.fill(O[2:n, 1:m], 7)"), kSquareData, 1, either(seven, Right));
  ExpectRight(Open("O[2:n, 1:m] = 7"), kSquareData, 1, either(seven, Right));
  ExpectRight(Open("T.clear(O[2:n, 1:m])"), kSquareData, 1, either(Zero, Right));
  ExpectRight(Open("T.copy(A[2:n, 1:m], O[2:n, 1:m])"), kSquareData, 1, either(Left, Right));
  ExpectRight(Open("T.atomic_add(O[2:n, 1:m], A[2:n, 1:m])"), kSquareData, 1, either(both, Right));
  for (const std::string& held : {tile, fragment}) {
    ExpectRight(Open(held + "T.copy(A, s)\nT.fill(s[2:n, 1:m], 7)\nT.copy(s, O)"), kSquareData, 1,
                either(seven, Left));
    ExpectRight(Open(held + "T.clear(s)\nT.copy(A[2:n, 1:m], s[2:n, 1:m])\nT.copy(s, O)"),
                kSquareData, 1, either(Left, Zero));
    ExpectRight(Open(held + "T.copy(A, s)\nT.copy(s[2:n, 1:m], O[2:n, 1:m])"), kSquareData, 1,
                either(Left, Right));
    ExpectRight(Open(held + "T.copy(A, s)\nT.atomic_add(O[2:n, 1:m], s[2:n, 1:m])"), kSquareData, 1,
                either(both, Right));
  }
}

// Rows of one tile that are not the same.
TEST(OpenRegions, AreCopiedWithinATile) {
  ExpectRight(Open("s = T.alloc_shared((8, 8), T.int32)\nT.copy(A, s)\n"
                   "T.copy(s[1, 0:m], s[2, 8 - m:8])\nT.copy(s, O)"),
              kSquareData, 1, [](int64_t i) { return i >= 21 && i < 24 ? Left(i - 13) : Left(i); });
}

TEST(OpenRegions, MayBeEmptyOrReachBeyondTheTensor) {
  ExpectRight(Open("T.fill(O[n:m, :], 7)"), kSquareData, 1, Right);
  ExpectRight(Open("T.fill(O[n:n + n, 0:m], 7)"), kSquareData, 1,
              [](int64_t i) { return i / 8 >= 5 && i % 8 < 3 ? 7.0 : Right(i); });
  // What lies outside of a tensor reads as zero, in a tile too.
  ExpectRight(Open("s = T.alloc_shared((8, 8), T.int32)\nT.fill(s, 9)\n"
                   "T.copy(A[n:n + n, :], s[0:n, :])\nT.copy(s, O)"),
              kSquareData, 1, [](int64_t i) {
                return i / 8 < 3 ? Left(i + 40) : i / 8 < 5 ? 0.0 : 9.0;
              });
}

TEST(OpenRegions, TheirPlaceIsReadBeforeTheFirstStore) {
  ExpectRight(Kernel(kPair, 32,
                     "O[0] = 40\nn = A[0] + 13\n"
                     "T.copy(A[0:n], O[O[0] - 40:O[0] - 40 + n])\nO[63] = 1"),
              kPairData, 1, [](int64_t i) { return i < 10    ? Left(i)
                                                   : i == 63 ? 1.0
                                                             : 0.0; });
}

// ---- what lies outside of a tensor ----

TEST(SafeValues, AreReadOutsideOfTheTensor) {
  const char* params = "A: T.Tensor((5, 6), T.int32), O: T.Tensor((8, 8), T.int32)";
  const std::vector<Data> data = {{kInt32, {5, 6}, Left}, {kInt32, {8, 8}, Zero}};
  const auto padded = [](int64_t other, int64_t dr, int64_t dc) {
    return [=](int64_t i) {
      const int64_t r = i / 8 + dr, c = i % 8 + dc;
      const bool inside = r >= 0 && r < 5 && c >= 0 && c < 6;
      return inside ? Left(r * 6 + c) : static_cast<double>(other);
    };
  };
  const auto kernel = [&](const std::string& body) { return Kernel(params, 32, body); };
  for (const char* tile : {"T.alloc_shared", "T.alloc_fragment"}) {
    ExpectRight(kernel(absl::StrCat("s = ", tile, "((8, 8), T.int32)\n",
                                    "T.annotate_safe_value({A: -7})\nT.copy(A[0, 0], s)\n",
                                    "T.copy(s, O)")),
                data, 1, padded(-7, 0, 0));
  }
  ExpectRight(kernel("T.annotate_safe_value({A: 9})\nfor i, j in T.Parallel(8, 8):\n"
                     "    O[i, j] = A[i - 1, j - 2]"),
              data, 1, padded(9, -1, -2));
  ExpectRight(kernel("tx = T.get_thread_binding()\nl = T.alloc_local((8,), T.int32)\n"
                     "T.annotate_safe_value({A: 9})\nif tx < 8:\n    T.copy(A[tx, 0:8], l)\n"
                     "    for j in T.serial(8):\n        O[tx, j] = l[j]"),
              data, 1, padded(9, 0, 0));
  // Zero is what is read anyway.
  ExpectRight(kernel("s = T.alloc_shared((8, 8), T.int32)\nT.annotate_safe_value({A: 0})\n"
                     "T.copy(A[0, 0], s)\nT.copy(s, O)"),
              data, 1, padded(0, 0, 0));
}

TEST(SafeValues, AreHeededByEveryOperationThatReads) {
  const char* params = "A: T.Tensor((5, 6), T.int32), O: T.Tensor((8, 8), T.int32)";
  const std::vector<Data> data = {{kInt32, {5, 6}, Left}, {kInt32, {8, 8}, Right}};
  const auto padded = [](int64_t i) {
    return i / 8 < 5 && i % 8 < 6 ? Left(i / 8 * 6 + i % 8) : 9.0;
  };
  const auto added = [&](int64_t i) { return Right(i) + padded(i); };
  const auto viewed = [](int64_t i) {
    return i / 8 < 6 && i % 8 < 5 ? Left(i / 8 * 5 + i % 8) : 9.0;
  };
  const std::string tile = "s = T.alloc_shared((8, 8), T.int32)\n";
  const std::string view = "W = T.view(A, (6, 5))\n";
  const std::pair<std::string, Fill> bodies[] = {
      {"T.atomic_add(O, A[0:8, 0:8])", added},
      {"T.atomic_add(O[0, 0], A[0:8, 0:8])", added},
      {"for i, j in T.Parallel(8, 8):\n    T.atomic_add(O[i, j], A[i, j])", added},
      {tile + "T.copy(O, s)\nT.atomic_add(s, A[0:8, 0:8])\nT.copy(s, O)", added},
      {view + "T.copy(W[0:8, 0:8], O)", viewed},
      {view + "T.atomic_add(O, W[0:8, 0:8])", [&](int64_t i) { return Right(i) + viewed(i); }},
      {view + "for i, j in T.Parallel(8, 8):\n    O[i, j] = W[i, j]", viewed},
      {tile + "T.copy(T.reshape(A, (6, 5))[0:8, 0:8], s)\nT.copy(s, O)", viewed},
      {"O[0:8, 0:8] = A[0:8, 0:8]", padded},
      {tile + "s[0:8, 0:8] = A[0:8, 0:8]\nT.copy(s, O)", padded},
      {"for i, k in T.Parallel(8, 2):\n    O[i, 4 * k:4 * k + 4] = A[i, 4 * k:4 * k + 4]", padded},
      {"for i, j in T.Parallel(8, 8):\n    O[i, j] = T.__ldg(A[i, j])", padded},
      {"for i, j in T.Parallel(8, 8):\n"
       "    O[i, j] = T.reinterpret(T.ldg32(A[i, j]), T.int32)",
       padded},
      {"for i, j in T.Parallel(8, 8):\n"
       "    O[i, j] = T.reinterpret(T.ldg32(A[i, j], j < 7), T.int32)",
       [&](int64_t i) { return i % 8 < 7 ? padded(i) : 0.0; }},
      {"for i in T.Parallel(8):\n    for j in T.vectorized(8):\n        O[i, j] = A[i, j]", padded},
      {"for i, j in T.Parallel(8, 8):\n    if A[i, j] == 9:\n        O[i, j] = 9\n"
       "    else:\n        O[i, j] = A[i, j]",
       padded},
      {tile + "for k in T.Pipelined(2, num_stages=2):\n    T.copy(A[0, 4 * k], s[0:8, 0:4])\n"
              "    T.copy(s[0:8, 0:4], O[0:8, 4 * k:4 * k + 4])",
       padded},
      {tile + "tx = T.get_thread_binding()\nif tx < 16:\n"
              "    T.ptx_cp_async(s[tx // 2, tx % 2 * 4], A[tx // 2, tx % 2 * 4], 4)\n"
              "T.ptx_commit_group()\nT.ptx_wait_group(0)\nT.sync_threads()\nT.copy(s, O)",
       padded},
  };
  for (const auto& [body, want] : bodies) {
    ExpectRight(Kernel(params, 32, "T.annotate_safe_value({A: 9})\n" + body), data, 1, want);
    ExpectRight(Kernel(params, 32, body + "\nT.annotate_safe_value({A: 9})"), data, 1, want);
  }
  // A view and what it views are one memory.
  ExpectRight(Kernel(params, 32, view + "T.annotate_safe_value({W: 9})\nT.copy(A[0:8, 0:8], O)"),
              data, 1, padded);
}

TEST(SafeValues, AreRefusedWhereTheyCannotBeHeeded) {
  const std::string params =
      "A: T.Tensor((8, 8), T.float32), V: T.Tensor((64,), T.int32), n: T.int32";
  constexpr char kTells[] = "an atomic operation that tells what was there of 'V'";
  constexpr char kWithin[] = "', which has a safe value, is read and written by one operation";
  const std::vector<std::string> cases[] = {
      {"s = T.alloc_fragment((8,), T.float32)\nT.reduce_sum(A, s, dim=1)",
       "a reduction of 'A', which has a safe value of 1.0", "T.copy"},
      {"a = T.atomic_load(V[n])\nV[0] = a", kTells, "indices inside"},
      {"a = T.atomic_add(V[n], 2, return_prev=True)\nV[0] = a", kTells, "indices inside"},
      {"s = T.alloc_shared((4, 4), T.float32)\nw = T.view(A, (1, 4, 4, 4))\n"
       "T.im2col(w, s, 0, 0, 3, 1, 1, 1)",
       "T.im2col of 'w', which has a safe value of 1.0", "T.im2col pads with 0"},
      {"T.copy(A[0:4, :], A[2:6, :])", absl::StrCat("'A", kWithin), "tile first"},
      {"w = T.view(A, (4, 16))\nT.atomic_add(A[0:4, :], w[:, 0:8])", absl::StrCat("'w", kWithin),
       "tile first"},
  };
  for (const auto& c : cases) {
    ExpectRefused(Kernel(params, 32, "T.annotate_safe_value({A: 1, V: 1})\n" + c[0]), c[1], c[2]);
  }
}

TEST(SafeValues, AreOfTheTypeThatIsRead) {
  const std::string params = "A: T.Tensor((5, 6), T.int4), O: T.Tensor((8, 8), T.int32)";
  const std::vector<Data> data = {{kUInt8, {5, 3}, [](int64_t) { return 0x21; }},
                                  {kInt32, {8, 8}, Zero}};
  const std::string safe = "T.annotate_safe_value({A: 3})\n";
  ExpectRight(Kernel(params, 32, safe + "T.copy(A[0:8, 0:8], O)"), data, 1, [](int64_t i) {
    return i / 8 < 5 && i % 8 < 6 ? 1.0 + static_cast<double>(i % 2) : 3.0;
  });
  ExpectRefused(Kernel(params, 32, safe + "B = T.view(A, (5, 3), T.uint8)\nT.copy(B[0:8, 0:8], O)"),
                "the safe value of 'A' is int4, and it is read as uint8 through 'B'",
                "by its own type");
}

TEST(SafeValues, AreAddedToNeighbours) {
  const std::vector<Data> data = {{kFloat32, {6}, Left}, {kFloat32, {8}, Right}};
  const char* params = "A: T.Tensor((6,), T.float32), O: T.Tensor((8,), T.float32)";
  const auto added = [](int64_t i) { return Right(i) + (i < 6 ? Left(i) : 9.0); };
  for (const char* width : {"2", "4"}) {
    ExpectRight(Kernel(params, 32,
                       absl::StrCat("T.annotate_safe_value({A: 9})\nfor i in T.Parallel(8 // ",
                                    width, "):\n    T.atomic_addx", width, "(O[i * ", width,
                                    "], A[i * ", width, "])")),
                data, 1, added);
  }
}

// ---- atomic updates of neighbours ----

TEST(NeighbourUpdates, TellWhatWasThereBefore) {
  const std::vector<Data> data = {{kFloat32, {64}, Left}, {kFloat32, {64}, Right}};
  const char* params = "V: T.Tensor((64,), T.float32), P: T.Tensor((64,), T.float32)";
  const auto kernel = [&](const std::string& body) {
    return Kernel(params, 32, "d = T.alloc_shared((64,), T.float32)\nT.copy(V, d)\n" + body);
  };
  ExpectRight(
      kernel("for i in T.Parallel(32):\n"
             "    P[2 * i:2 * i + 2] = T.atomic_addx2(d[2 * i], V[2 * i], return_prev=True)"),
      data, 1, Left);
  ExpectRight(kernel("for i in T.Parallel(16):\n"
                     "    T.atomic_addx4(d[4 * i], V[4 * i])\n"
                     "for i in T.Parallel(16):\n"
                     "    r = T.atomic_addx4(d[4 * i:4 * i + 4], V[4 * i:4 * i + 4], "
                     "return_prev=True)\n"
                     "    P[4 * i:4 * i + 4] = r"),
              data, 1, [](int64_t i) { return 2 * Left(i); });
  // Outside of loops over elements the block updates once.
  ExpectRight(kernel("P[0:2] = T.atomic_addx2(d[2:4], V[0:2], return_prev=True)\n"
                     "T.copy(d[0:32], P[32:64])"),
              data, 1, [](int64_t i) {
                if (i < 2) return Left(i + 2);
                if (i < 32) return Right(i);
                return Left(i - 32) + (i == 34 || i == 35 ? Left(i - 34) : 0);
              });
  // The value is converted to the type of what it is added to.
  ExpectRight(
      Kernel(params, 32,
             "h = T.alloc_shared((64,), T.float16)\nT.copy(V, h)\n"
             "for i in T.Parallel(32):\n    T.atomic_addx2(h[2 * i], V[2 * i])\nT.copy(h, P)"),
      data, 1, [](int64_t i) { return 2 * Left(i); });
  // A vector's lanes are values, too.
  ExpectRight(kernel("for i in T.Parallel(32):\n"
                     "    T.atomic_addx2(d[2 * i], T.Broadcast(T.float32(3), 2))\nT.copy(d, P)"),
              data, 1, [](int64_t i) { return Left(i) + 3; });
}

// ---- numbers ----

TEST(Rounding, TiesGoToEvenOrAway) {
  const auto halves = [](int64_t i) { return static_cast<double>(i - 32) / 2; };
  const char* params = "A: T.Tensor((64,), T.float32), O: T.Tensor((64,), T.float32)";
  const std::vector<Data> data = {{kFloat32, {64}, halves}, {kFloat32, {64}, Zero}};
  const auto kernel = [&](const std::string& value) {
    return Kernel(params, 32, "for i in T.Parallel(64):\n    O[i] = " + value);
  };
  const auto even = [&](int64_t i) { return std::nearbyint(halves(i)); };
  const auto away = [&](int64_t i) { return std::round(halves(i)); };
  ExpectRight(kernel("T.round(A[i])"), data, 1, even);
  ExpectRight(kernel("T.round(A[i], \"ties-to-even\")"), data, 1, even);
  ExpectRight(kernel("T.round(A[i], rounding_mode=\"ties-away-from-zero\")"), data, 1, away);
  ExpectRight(
      kernel("T.cast(T.round(T.cast(A[i], T.float16), \"ties-away-from-zero\"), T.float32)"), data,
      1, away);
  // The largest number below a half is nearer to zero.
  ExpectRight(kernel("T.round(T.float32(0.49999997) * A[0] / A[0], \"ties-away-from-zero\")"), data,
              1, Zero);
  ExpectRefused(kernel("T.round(A[i], \"up\")"), "T.round has no rounding_mode 'up'",
                "'ties-to-even'");
}

// ---- launches and variables ----

TEST(Launches, WithoutAxesHaveOneBlock) {
  for (const char* kernel : {"T.Kernel(threads=32)", "T.Kernel()"}) {
    ExpectRight(absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef kernel(", kPair,
                             "):\n    with ", kernel,
                             ":\n        for i in T.Parallel(64):\n            O[i] = A[i] + 1\n"),
                kPairData, 1, [](int64_t i) { return Left(i) + 1; });
  }
}

TEST(Variables, ThatAreGivenNothingAreZero) {
  ExpectRight(Kernel(kPair, 32,
                     "n = T.alloc_var(T.int32)\nfor i in T.serial(64):\n    n += A[i]\nO[0] = n"),
              kPairData, 1, [](int64_t i) {
                double sum = 0;
                for (int64_t k = 0; k < 64; ++k) sum += Left(k);
                return i == 0 ? sum : 0;
              });
  ExpectRight(Kernel(kPair, 32,
                     "for i in T.serial(64):\n    n = T.alloc_var(T.int32)\n"
                     "    if A[i] > 0:\n        n = A[i]\n    O[i] = n"),
              kPairData, 1, [](int64_t i) { return std::max(Left(i), 0.0); });
}

// ---- layouts ----

// T.Layout of a tensor is gone through element by element by nobody: it may be of any size.
TEST(Layouts, OfTensorsMayBeLarge) {
  const auto kernel = [](const std::string& what, const std::string& shape) {
    return absl::StrCat(
        "import tilelang.language as T\n@T.prim_func\n"
        "def kernel(A: T.Tensor((1, 64, 4096, 128), T.float32)):\n"
        "    with T.Kernel(64, threads=128) as b:\n"
        "        s = T.alloc_shared((1, 1, 64, 128), T.float32)\n"
        "        T.annotate_layout({",
        what, ": T.Layout(", shape,
        ", lambda b, h, l, d: [b, h, l // 8, d // 8, d % 2, 4 * (l % 8) + (d % 8) // 2])})\n"
        "        T.copy(A[0, b, 0, 0], s)\n        T.copy(s, A[0, b, 64, 0])\n");
  };
  const auto program = ElaborateText(kernel("A", "A.shape"));
  EXPECT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(ElaborateText(kernel("s", "s.shape")).ok());
  ExpectRefused(kernel("A", "(1, 64, 4096, 64)"), "gets a layout of shape (1, 64, 4096, 64)",
                "buffer's shape");
  ExpectRefused(kernel("s", "(1, 64, 4096, 128)"), "the layout of 's' has more than 1048576",
                "smaller tiles");
}

TEST(Layouts, SwizzlesByTheirWidth) {
  for (const char* maker :
       {"make_swizzled_layout", "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout",
        "make_quarter_bank_swizzled_layout", "make_linear_layout"}) {
    ExpectRight(absl::StrCat("import tilelang\nimport tilelang.language as T\n@T.prim_func\n"
                             "def kernel(A: T.Tensor((32, 64), T.float16), O: T.Tensor((32, 64), "
                             "T.float16)):\n    with T.Kernel(1, threads=64):\n"
                             "        s = T.alloc_shared((32, 64), T.float16)\n"
                             "        T.annotate_layout({s: tilelang.layout.",
                             maker, "(s)})\n        T.copy(A, s)\n        T.copy(s, O)\n"),
                {{kFloat16, {32, 64}, Left}, {kFloat16, {32, 64}, Zero}}, 1, Left);
  }
}

}  // namespace
}  // namespace kiln::lang
