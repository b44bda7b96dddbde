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

}  // namespace
}  // namespace kiln::lang
