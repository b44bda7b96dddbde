#include "compiler/layout/fragments.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/text.h"

namespace kiln::layout {
namespace {

// With g = lane / 4 and t = lane mod 4: rows of A and C and columns of B follow g, the rest follows
// t.
constexpr FragmentRow kRows[] = {
    {"m8n8k4", 'A', 64, 8, 4, "S[(8,4):(4@laneid,1@laneid)]"},
    {"m8n8k4", 'B', 64, 4, 8, "S[(4,8):(1@laneid,4@laneid)]"},
    {"m8n8k4", 'C', 64, 8, 8, "S[(8,4,2):(4@laneid,1@laneid,1)]"},
    {"m16n8k4", 'A', 64, 16, 4, "S[(2,8,4):(1,4@laneid,1@laneid)]"},
    {"m16n8k4", 'B', 64, 4, 8, "S[(4,8):(1@laneid,4@laneid)]"},
    {"m16n8k8", 'A', 64, 16, 8, "S[(2,8,2,4):(1,4@laneid,2,1@laneid)]"},
    {"m16n8k8", 'B', 64, 8, 8, "S[(2,4,8):(1,1@laneid,4@laneid)]"},
    {"m16n8k16", 'A', 64, 16, 16, "S[(2,8,4,4):(1,4@laneid,2,1@laneid)]"},
    {"m16n8k16", 'B', 64, 16, 8, "S[(4,4,8):(1,1@laneid,4@laneid)]"},
    {"m16n8k4", 'A', 32, 16, 4, "S[(2,8,4):(1,4@laneid,1@laneid)]"},
    {"m16n8k4", 'B', 32, 4, 8, "S[(4,8):(1@laneid,4@laneid)]"},
    {"m16n8k8", 'A', 32, 16, 8, "S[(2,8,2,4):(1,4@laneid,2,1@laneid)]"},
    {"m16n8k8", 'B', 32, 8, 8, "S[(2,4,8):(1,1@laneid,4@laneid)]"},
    {"m16n8k8", 'A', 16, 16, 8, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"},
    {"m16n8k8", 'B', 16, 8, 8, "S[(4,2,8):(1@laneid,1,4@laneid)]"},
    {"m16n8k16", 'A', 16, 16, 16, "S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]"},
    {"m16n8k16", 'B', 16, 16, 8, "S[(2,4,2,8):(2,1@laneid,1,4@laneid)]"},
    {"m8n8k16", 'A', 8, 8, 16, "S[(8,4,4):(4@laneid,1@laneid,1)]"},
    {"m8n8k16", 'B', 8, 16, 8, "S[(4,4,8):(1@laneid,1,4@laneid)]"},
    {"m8n8k16", 'C', 8, 8, 8, "S[(8,4,2):(4@laneid,1@laneid,1)]"},
    {"m16n8k16", 'A', 8, 16, 16, "S[(2,8,4,4):(4,4@laneid,1@laneid,1)]"},
    {"m16n8k16", 'B', 8, 16, 8, "S[(4,4,8):(1@laneid,1,4@laneid)]"},
    {"m16n8k32", 'A', 8, 16, 32, "S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]"},
    {"m16n8k32", 'B', 8, 32, 8, "S[(2,4,4,8):(4,1@laneid,1,4@laneid)]"},
    {"m16n8k32", 'A', 4, 16, 32, "S[(2,8,4,8):(8,4@laneid,1@laneid,1)]"},
    {"m16n8k32", 'B', 4, 32, 8, "S[(4,8,8):(1@laneid,1,4@laneid)]"},
    {"m16n8k64", 'A', 4, 16, 64, "S[(2,8,2,4,8):(8,4@laneid,16,1@laneid,1)]"},
    {"m16n8k64", 'B', 4, 64, 8, "S[(2,4,8,8):(8,1@laneid,1,4@laneid)]"},
    {"m16n8k4", 'C', 32, 16, 8, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"},
    {"m16n8k8", 'C', 32, 16, 8, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"},
    {"m16n8k16", 'C', 32, 16, 8, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"},
    {"m16n8k32", 'C', 32, 16, 8, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"},
    {"m16n8k64", 'C', 32, 16, 8, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"},
};

absl::Status CheckMatrices(int count) {
  if (count == 1 || count == 2 || count == 4) return absl::OkStatus();
  return BadArgument(absl::StrCat("ldmatrix and stmatrix move 1, 2 or 4 matrices, not ", count));
}

}  // namespace

absl::Span<const FragmentRow> FragmentRows() { return kRows; }

absl::StatusOr<Layout> MmaFragment(absl::string_view shape, char operand, int element_bits) {
  std::set<std::string> known;
  for (const FragmentRow& row : kRows) {
    const bool same_width = operand == 'C' || row.element_bits == element_bits;
    if (row.shape == shape && row.operand == operand && same_width) return Parse(row.text);
    known.insert(absl::StrCat(row.shape, " ", std::string(1, row.operand), " ",
                              row.operand == 'C' ? "" : absl::StrCat(row.element_bits, " bits")));
  }
  return absl::NotFoundError(absl::StrCat("no fragment ", shape, " ", std::string(1, operand), " ",
                                          element_bits, " bits; there are ",
                                          absl::StrJoin(known, ", ")));
}

absl::StatusOr<Layout> MatrixFragment(int count, bool transposed) {
  KILN_RETURN_IF_ERROR(CheckMatrices(count));
  const char* matrix =
      transposed ? ",4,2,8):(2,1@laneid,1,4@laneid)]" : ",8,4,2):(2,4@laneid,1@laneid,1)]";
  return Parse(absl::StrCat("S[(", count, matrix));
}

absl::StatusOr<Layout> MatrixRowAddresses(int count) {
  KILN_RETURN_IF_ERROR(CheckMatrices(count));
  return Layout::FromIters({{8 * count, 1, Axis::kLaneid}});
}

Layout MatrixTileAddresses() { return MustParse("S[(16,2):(1@laneid,16@laneid)]"); }

absl::StatusOr<Layout> WgmmaAccumulator(int n) {
  if (n < 8 || n > 256 || n % 8 != 0) {
    return BadArgument(absl::StrCat("wgmma has n = 8, 16, ..., 256, not ", n));
  }
  return Parse(absl::StrCat("S[(4,2,8,", n / 8, ",4,2):(1@wid_in_wg,2,4@laneid,4,1@laneid,1)]"));
}

absl::StatusOr<Layout> WgmmaOperandA(int element_bits) {
  const char* shape = element_bits == 8    ? "m16n8k32"
                      : element_bits == 16 ? "m16n8k16"
                      : element_bits == 32 ? "m16n8k8"
                                           : "";
  KILN_ASSIGN_OR_RETURN(const Layout warp, MmaFragment(shape, 'A', element_bits));
  std::vector<Iter> shard = warp.shard();
  shard.insert(shard.begin(), Iter{4, 1, Axis::kWidInWg});
  return Layout::FromIters(std::move(shard));
}

absl::StatusOr<Layout> WgLocalLayout(int64_t columns, int64_t rows) {
  if (rows < 1 || rows > 128 || columns < 1) {
    return BadArgument(absl::StrCat("a warpgroup has 128 threads, not rows for ", rows));
  }
  return Layout::FromIters({{rows, 1, Axis::kTidInWg}, {columns, 1, Axis::kM}});
}

absl::StatusOr<Layout> PlannedLoop(int64_t n, int64_t threads, int64_t vector) {
  const int64_t turn = CheckedProduct({threads, vector});
  if (n < 1 || n > kMaxReach / 2 || turn < 0 || turn > kMaxReach / 2) {
    return BadArgument(
        absl::StrCat("a loop of ", n, " iterations on ", threads, " threads by ", vector));
  }
  return Layout::FromIters(
      {{(n + turn - 1) / turn, vector, Axis::kM}, {threads, 1, Axis::kTx}, {vector, 1, Axis::kM}});
}

}  // namespace kiln::layout
