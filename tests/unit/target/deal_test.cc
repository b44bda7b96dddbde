// How tiles are dealt out, held against the plans of compiler/layout that are made of the answers.
#include "compiler/target/deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "compiler/layout/ownership.h"

namespace kiln::target {
namespace {

using layout::Ownership;
using layout::ThreadRange;

Ownership PlanOf(int64_t rows, int64_t columns, int64_t threads, int64_t width) {
  const ThreadRange all{0, static_cast<int>(threads)};
  const auto teams = TeamsOf(rows, columns, threads, width);
  return teams ? Ownership::PlannedRows(rows, columns, all, width, teams->across, teams->down)
               : Ownership::Planned(rows * columns, all, width);
}

TEST(DealTest, CountsWhatThePlanGives) {
  for (const int64_t rows : {1, 2, 5, 16, 48}) {
    for (const int64_t columns : {8, 40, 96, 250, 1000}) {
      for (const int64_t threads : {32, 64, 384}) {
        for (const int64_t widest : {1, 4, 8}) {
          SCOPED_TRACE(testing::Message() << rows << " x " << columns << " on " << threads
                                          << " threads, " << widest << " neighbours");
          const Dealt dealt = DealRows(rows, columns, threads, widest);
          const int64_t width = WidestDeal(rows, columns, threads, widest);
          const Ownership plan = PlanOf(rows, columns, threads, width);
          std::vector<int64_t> elements(threads);
          std::vector<std::set<int64_t>> of_rows(threads);
          for (int64_t i = 0; i < rows * columns; ++i) {
            const size_t t = plan.Owners(i)._Find_first();
            ++elements[t];
            of_rows[t].insert(i / columns);
          }
          const auto [least, most] = std::minmax_element(elements.begin(), elements.end());
          const bool even = *least == *most;
          EXPECT_EQ(dealt.even, even);
          if (even) EXPECT_EQ(dealt.elements, *most);
          EXPECT_GE(dealt.elements, *most);
          EXPECT_LT(dealt.elements, *most + widest);
          int64_t most_rows = 0;
          for (const auto& r : of_rows) most_rows = std::max(most_rows, std::ssize(r));
          if (columns % width == 0) EXPECT_GE(dealt.rows, most_rows);  // no vector is of two
        }
      }
    }
  }
}

TEST(DealTest, LeavesThreadsIdleWhereRowsHaveOddLengths) {
  const Dealt dealt = DealRows(4, 1000, 64, 4);
  EXPECT_EQ(dealt.elements, 125);  // 8 threads share a row, 32 work
  EXPECT_EQ(dealt.rows, 1);
  EXPECT_EQ(dealt.sharers, 8);
  EXPECT_FALSE(dealt.even);
}

TEST(DealTest, DealsEverySquareOnce) {
  constexpr int64_t kSide = SquareDeal::kSide;
  for (const int64_t rows : {4, 12, 32, 64, 128, 200}) {
    for (const int64_t columns : {8, 16, 40, 48, 96, 160, 256}) {
      for (const int64_t threads : {32, 128, 256, 384}) {
        SCOPED_TRACE(testing::Message()
                     << rows << " x " << columns << " on " << threads << " threads");
        const auto deal = DealSquares(rows, columns, threads);
        ASSERT_TRUE(deal);
        EXPECT_EQ(deal->low * deal->below * deal->pieces_down * kSide, rows);
        EXPECT_EQ(deal->wide * deal->beside * deal->pieces_across * kSide, columns);
        EXPECT_LE(deal->low * deal->wide, 32);
        EXPECT_LE(deal->below * deal->beside * 32, threads);
      }
    }
  }
  EXPECT_FALSE(DealSquares(30, 64, 128));
  EXPECT_FALSE(DealSquares(32, 66, 128));
}

// Of squares that do not come in eights, every lane of a warp has one all the same.
TEST(DealTest, GivesEveryLaneASquare) {
  const auto deal = DealSquares(128, 48, 128);
  ASSERT_TRUE(deal);
  EXPECT_EQ(deal->low, 8);
  EXPECT_EQ(deal->wide, 4);
  EXPECT_EQ(deal->below, 4);
  EXPECT_EQ(deal->beside, 1);
}

}  // namespace
}  // namespace kiln::target
