// T.cumsum, T.cummax, T.transpose, T.im2col and bitwise reductions, against sums that the test
// makes itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/util/everywhere.h"

namespace kiln {
namespace {

using testing::KernelText;
using testing::RunEverywhere;
using testing::Views;

void SmallNumbers(const Views& v) {
  for (int64_t i = 0; i < v[0].elements(); ++i) {
    v[0].Set(i, static_cast<double>((i * 37 + i / 7 * 11) % 15 - 7));
  }
}

struct Scan {
  int rows = 5, columns = 40;
  int dim = 1;
  bool reverse = false, max = false;
  std::string memory = "shared", type = "float32";
  int threads = 128;
};

void ExpectScans(const Scan& s) {
  const std::string shape = absl::StrCat("(", s.rows, ", ", s.columns, ")");
  const std::string tensor = absl::StrCat("T.Tensor(", shape, ", \"", s.type, "\")");
  const std::string body =
      absl::StrCat("x = T.alloc_", s.memory, "(", shape, ", \"", s.type, "\")\nT.copy(A, x)\nT.",
                   s.max ? "cummax" : "cumsum", "(x, dim=", s.dim,
                   s.reverse ? ", reverse=True" : "", ")\nT.copy(x, B)");
  RunEverywhere(
      KernelText(absl::StrCat("A: ", tensor, ", B: ", tensor), body, s.threads), SmallNumbers,
      [&](const Views& v, const std::string& where) {
        const int64_t lines = s.dim == 1 ? s.rows : s.columns;
        const int64_t length = s.dim == 1 ? s.columns : s.rows;
        for (int64_t line = 0; line < lines; ++line) {
          double total = s.max ? -HUGE_VAL : 0;
          for (int64_t k = 0; k < length; ++k) {
            const int64_t at = s.reverse ? length - 1 - k : k;
            const int64_t flat = s.dim == 1 ? line * s.columns + at : at * s.columns + line;
            total = s.max ? std::max(total, v[0].Get(flat)) : total + v[0].Get(flat);
            ASSERT_EQ(v[1].Get(flat), total) << where << ", line " << line << ", element " << at;
          }
        }
      });
}

TEST(Scans, AlongBothDimensionsOfBothKindsOfMemory) {
  for (const char* memory : {"shared", "fragment"}) {
    for (const int dim : {0, 1}) {
      ExpectScans({.dim = dim, .memory = memory});
      ExpectScans({.dim = dim, .reverse = true, .max = true, .memory = memory});
    }
  }
}

TEST(Scans, OfEveryLength) {
  ExpectScans({.rows = 1, .columns = 1000});  // several levels of chunks
  ExpectScans({.rows = 1, .columns = 997, .reverse = true, .memory = "fragment"});
  ExpectScans({.rows = 3, .columns = 1});
  ExpectScans({.rows = 200, .columns = 7, .threads = 64});  // a row a thread
  ExpectScans({.rows = 2, .columns = 129, .threads = 32});
  ExpectScans({.rows = 64, .columns = 64, .dim = 0, .threads = 256});
}

TEST(Scans, OfOtherTypes) {
  ExpectScans({.type = "int32"});
  ExpectScans({.max = true, .type = "int8"});
  ExpectScans({.type = "float16"});
  ExpectScans({.reverse = true, .memory = "fragment", .type = "bfloat16"});
  ExpectScans({.max = true, .type = "float64"});
  ExpectScans({.type = "int64"});
}

// A sum of floats of 16 bits is rounded where it is stored, not on the way: 2048 + 1 + 1 + ... of
// float16 would not move.
TEST(Scans, RoundOnce) {
  for (const char* memory : {"shared", "fragment"}) {
    RunEverywhere(
        KernelText("A: T.Tensor((64,), \"float16\"), B: T.Tensor((64,), \"float16\")",
                   absl::StrCat("x = T.alloc_", memory,
                                "((64,), \"float16\")\nT.copy(A, x)\nT.cumsum(x)\nT.copy(x, B)")),
        [](const Views& v) {
          for (int i = 0; i < 64; ++i) v[0].Set(i, i == 0 ? 2048 : 1);
        },
        [](const Views& v, const std::string& where) {
          ASSERT_EQ(v[1].Get(2), 2050) << where;
          ASSERT_EQ(v[1].Get(62), 2110) << where;
        });
  }
}

TEST(Scans, OfRegionsIntoAnotherTile) {
  const std::string body = R"(x = T.alloc_shared((8, 48), "float32")
y = T.alloc_shared((8, 48), "float32")
T.copy(A, x)
T.fill(y, -1)
T.cumsum(x[2:6, 16:48], y[2:6, 16:48], dim=1)
for k in T.serial(2):
    T.cumsum(x[k, :], y[k, :])
T.copy(y, B))";
  const std::string tensor = "T.Tensor((8, 48), \"float32\")";
  RunEverywhere(KernelText(absl::StrCat("A: ", tensor, ", B: ", tensor), body), SmallNumbers,
                [](const Views& v, const std::string& where) {
                  for (int i = 0; i < 8; ++i) {
                    double total = 0;
                    for (int j = 0; j < 48; ++j) {
                      const bool scanned = i < 2 || (i < 6 && j >= 16);
                      if (scanned) total += v[0].Get(i * 48 + j);
                      ASSERT_EQ(v[1].Get(i * 48 + j), scanned ? total : -1) << where;
                    }
                  }
                });
}

// A maximum passes over NaN, as T.reduce_max does.
TEST(Scans, MaximaPassOverNan) {
  RunEverywhere(
      KernelText("A: T.Tensor((40,), \"float32\"), B: T.Tensor((40,), \"float32\")",
                 "x = T.alloc_shared((40,), \"float32\")\nT.copy(A, x)\nT.cummax(x)\nT.copy(x, B)"),
      [](const Views& v) {
        for (int i = 0; i < 40; ++i) v[0].Set(i, i % 3 == 0 ? NAN : i % 7);
      },
      [](const Views& v, const std::string& where) {
        double most = -HUGE_VAL;
        for (int i = 0; i < 40; ++i) {
          if (i % 3 != 0) most = std::max(most, static_cast<double>(i % 7));
          ASSERT_EQ(v[1].Get(i), most) << where << " " << i;
        }
      });
}

TEST(Scans, InAPipelineAndInAPartOfTheBlock) {
  const std::string body = R"(x = T.alloc_shared((4, 64), "float32")
total = T.alloc_fragment((4, 64), "float32")
T.clear(total)
for k in T.Pipelined(3, num_stages=2):
    T.copy(A[k * 4, 0], x)
    T.cumsum(x, dim=1)
    for i, j in T.Parallel(4, 64):
        total[i, j] += x[i, j]
T.copy(total, B))";
  const auto check = [](const Views& v, const std::string& where) {
    for (int i = 0; i < 4; ++i) {
      double running = 0;
      for (int j = 0; j < 64; ++j) {
        for (int k = 0; k < 3; ++k) running += v[0].Get((k * 4 + i) * 64 + j);
        ASSERT_EQ(v[1].Get(i * 64 + j), running) << where;
      }
    }
  };
  const std::string parameters =
      "A: T.Tensor((12, 64), \"float32\"), B: T.Tensor((4, 64), \"float32\")";
  RunEverywhere(KernelText(parameters, body), SmallNumbers, check);
}

TEST(Transpose, TurnsTheLastTwoDimensions) {
  for (const char* memory : {"shared", "fragment"}) {
    RunEverywhere(
        KernelText(
            "A: T.Tensor((2, 24, 40), \"float32\"), B: T.Tensor((2, 40, 24), \"float32\")",
            absl::StrCat("x = T.alloc_shared((2, 24, 40), \"float32\")\ny = T.alloc_", memory,
                         "((2, 40, 24), \"float32\")\nT.copy(A, x)\nT.transpose(x, y)\n"
                         "T.copy(y, B)")),
        SmallNumbers, [](const Views& v, const std::string& where) {
          for (int n = 0; n < 2; ++n) {
            for (int i = 0; i < 24; ++i) {
              for (int j = 0; j < 40; ++j) {
                ASSERT_EQ(v[1].Get((n * 40 + j) * 24 + i), v[0].Get((n * 24 + i) * 40 + j))
                    << where;
              }
            }
          }
        });
  }
}

struct Convolution {
  int n = 2, h = 6, w = 5, c = 32, kernel = 3, stride = 1, dilation = 1, pad = 1, block_k = 32;
};

// Patches times one filter of small numbers, against the sum that a convolution is.
void ExpectConvolves(const Convolution& s) {
  const int p = (s.h + 2 * s.pad - s.dilation * (s.kernel - 1) - 1) / s.stride + 1;
  const int q = (s.w + 2 * s.pad - s.dilation * (s.kernel - 1) - 1) / s.stride + 1;
  const int depth = s.kernel * s.kernel * s.c, pixels = s.n * p * q;
  const std::string body = absl::StrCat(
      "x = T.alloc_shared((64, ", s.block_k, "), \"float16\")\ny = T.alloc_shared((", s.block_k,
      ", 32), \"float16\")\nsums = T.alloc_fragment((64, 32), \"float32\")\nT.clear(sums)\n",
      "for k in T.Pipelined(T.ceildiv(", depth, ", ", s.block_k,
      "), num_stages=2):\n    T.im2col(A, x, bx, k, ", s.kernel, ", ", s.stride, ", ", s.dilation,
      ", ", s.pad, ")\n    T.copy(F[k * ", s.block_k, ", 0], y)\n    T.gemm(x, y, sums)\n",
      "T.copy(sums, B[bx * 64, 0])");
  const std::string parameters = absl::StrCat(
      "A: T.Tensor((", s.n, ", ", s.h, ", ", s.w, ", ", s.c, "), \"float16\"), F: T.Tensor((",
      depth, ", 32), \"float16\"), B: T.Tensor((", pixels, ", 32), \"float32\")");
  RunEverywhere(
      KernelText(parameters, body, 128, absl::StrCat("T.ceildiv(", pixels, ", 64)")),
      [](const Views& v) {
        SmallNumbers(v);
        for (int64_t i = 0; i < v[1].elements(); ++i) {
          v[1].Set(i, static_cast<double>(i * 13 % 7 - 3));
        }
      },
      [&](const Views& v, const std::string& where) {
        for (int m = 0; m < pixels; m += 3) {
          for (int f = 0; f < 32; f += 5) {
            double sum = 0;
            for (int k = 0; k < depth; ++k) {
              const int tap = k / s.c;
              const int row = m / q % p * s.stride + tap / s.kernel * s.dilation - s.pad;
              const int column = m % q * s.stride + tap % s.kernel * s.dilation - s.pad;
              if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
              sum += v[0].Get(((m / (p * q) * s.h + row) * s.w + column) * s.c + k % s.c) *
                     v[1].Get(k * 32 + f);
            }
            ASSERT_EQ(v[2].Get(m * 32 + f), sum) << where << " " << m << ", " << f;
          }
        }
      });
}

TEST(Im2Col, IsAConvolutionsGather) {
  ExpectConvolves({});
  ExpectConvolves({.stride = 2, .dilation = 2, .pad = 2});
  ExpectConvolves({.c = 16});  // two taps in a tile, and half of the last one
  ExpectConvolves({.c = 64, .kernel = 1, .pad = 0});
}

TEST(Reductions, MaximaOfNanWhereAskedFor) {
  const std::string body = R"(x = T.alloc_fragment((8, 24), "float16")
y = T.alloc_fragment((8,), "float16")
z = T.alloc_fragment((24,), "float32")
T.copy(A, x)
T.reduce_max(x, y, dim=1, nan_propagate=True)
T.copy(y, B[0, 0:8])
T.reduce_max(x, y, dim=1)
T.copy(y, B[1, 0:8])
for j in T.Parallel(24):
    z[j] = T.if_then_else(j == 20, T.cast(A[2, 3], "float32"), 1.0)
T.reduce_absmax(x, z, dim=0, clear=False, nan_propagate=True)
T.copy(z, B[2, 0:24]))";
  RunEverywhere(
      KernelText("A: T.Tensor((8, 24), \"float16\"), B: T.Tensor((3, 24), \"float32\")", body, 64),
      [](const Views& v) {
        SmallNumbers(v);
        for (const int at : {2 * 24 + 3, 5 * 24 + 23, 5 * 24}) v[0].Set(at, NAN);
      },
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 8; ++i) {
          double most = -HUGE_VAL;
          for (int j = 0; j < 24; ++j) most = std::fmax(most, v[0].Get(i * 24 + j));
          ASSERT_EQ(v[1].Get(24 + i), most) << where;
          if (i == 2 || i == 5) {
            ASSERT_TRUE(std::isnan(v[1].Get(i))) << where;
          } else {
            ASSERT_EQ(v[1].Get(i), most) << where;
          }
        }
        for (int j = 0; j < 24; ++j) {
          double most = 1;
          for (int i = 0; i < 8; ++i) most = std::fmax(most, std::fabs(v[0].Get(i * 24 + j)));
          if (j == 3 || j == 23 || j == 0 || j == 20) {
            ASSERT_TRUE(std::isnan(v[1].Get(48 + j))) << where;
          } else {
            ASSERT_EQ(v[1].Get(48 + j), most) << where;
          }
        }
      });
}

TEST(Reductions, AnyAndAll) {
  const std::string body = R"(x = T.alloc_shared((4, 6), "int32")
T.copy(A, x)
for r in T.serial(4):
    any = T.any_of(x[r, :])
    if any:
        B[r] = 1
    if T.all_of(x[r, 1:5]):
        B[4 + r] = 1
if T.any_of(x):
    B[8] = 7)";
  RunEverywhere(
      KernelText("A: T.Tensor((4, 6), \"int32\"), B: T.Tensor((9,), \"int32\")", body, 32),
      [](const Views& v) {
        for (int i = 0; i < 24; ++i) v[0].Set(i, i < 6 ? 0 : i < 18 ? i % 6 : 1);
        for (int i = 0; i < 9; ++i) v[1].Set(i, 0);
      },
      [](const Views& v, const std::string& where) {
        const double want[] = {0, 1, 1, 1, 0, 1, 1, 1, 7};
        for (int i = 0; i < 9; ++i) ASSERT_EQ(v[1].Get(i), want[i]) << where << " " << i;
      });
}

TEST(Reductions, ReducersByTheirCanonicalForms) {
  const std::string body = R"(r = T.alloc_reducer((12,), "int32", op="bitxor")
m = T.alloc_reducer((20,), "int32", op="max")
y = T.alloc_fragment((12,), "int32")
z = T.alloc_fragment((20,), "int32")
T.reducer_init(r, 5)
T.reducer_init(m)
for i, j in T.Parallel(12, 20):
    T.reducer_update(r[i], A[i, j])
    T.reducer_update(m[j], A[i, j])
T.finalize_reducer(r, y)
T.finalize_reducer(m, z)
T.copy(y, B[0, 0:12])
T.copy(z, B[1, 0:20]))";
  RunEverywhere(
      KernelText("A: T.Tensor((12, 20), \"int32\"), B: T.Tensor((2, 20), \"int32\")", body, 64),
      SmallNumbers, [](const Views& v, const std::string& where) {
        const auto a = [&](int i, int j) { return static_cast<int>(v[0].Get(i * 20 + j)); };
        for (int i = 0; i < 12; ++i) {
          int odd = 5;
          for (int j = 0; j < 20; ++j) odd ^= a(i, j);
          ASSERT_EQ(v[1].Get(i), odd) << where;
        }
        for (int j = 0; j < 20; ++j) {
          int most = -100;
          for (int i = 0; i < 12; ++i) most = std::max(most, a(i, j));
          ASSERT_EQ(v[1].Get(20 + j), most) << where;
        }
      });
}

TEST(BitwiseReductions, FoldBits) {
  for (const char* type : {"int32", "uint8"}) {
    const std::string body =
        absl::StrCat("x = T.alloc_fragment((12, 20), \"", type, "\")\nT.copy(A, x)\n",
                     "y = T.alloc_fragment((12,), \"", type, "\")\nz = T.alloc_fragment((20,), \"",
                     type, "\")\nT.reduce_bitand(x, y, dim=1)\nT.copy(y, B[0, 0:12])\n",
                     "T.reduce_bitor(x, z, dim=0)\nT.copy(z, B[1, 0:20])\nT.fill(y, 5)\n",
                     "T.reduce_bitxor(x, y, dim=1, clear=False)\nT.copy(y, B[2, 0:12])");
    const std::string parameters =
        absl::StrCat("A: T.Tensor((12, 20), \"", type, "\"), B: T.Tensor((3, 20), \"", type, "\")");
    RunEverywhere(
        KernelText(parameters, body, 64),
        [](const Views& v) {
          for (int i = 0; i < 240; ++i) v[0].Set(i, (i * 89 + 12) % 128 | 8);
        },
        [](const Views& v, const std::string& where) {
          const auto a = [&](int i, int j) { return static_cast<int>(v[0].Get(i * 20 + j)); };
          for (int i = 0; i < 12; ++i) {
            int all = 255, odd = 5;
            for (int j = 0; j < 20; ++j) all &= a(i, j), odd ^= a(i, j);
            ASSERT_EQ(v[1].Get(i), all) << where;
            ASSERT_EQ(v[1].Get(40 + i), odd) << where;
          }
          for (int j = 0; j < 20; ++j) {
            int any = 0;
            for (int i = 0; i < 12; ++i) any |= a(i, j);
            ASSERT_EQ(v[1].Get(20 + j), any) << where;
          }
        });
  }
}

}  // namespace
}  // namespace kiln
