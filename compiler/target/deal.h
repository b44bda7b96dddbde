// How the iterations of a parallel loop, and so the elements of the tiles that it fills, are dealt
// out to the threads of a block where nothing else decides it: read by layout inference, and by the
// recommender, which counts the registers that they take.
#ifndef KILN_COMPILER_TARGET_DEAL_H_
#define KILN_COMPILER_TARGET_DEAL_H_

#include <cstdint>
#include <optional>

namespace kiln::target {

// How many threads share a row, and how many rows are done at once.
struct RowTeams {
  int64_t across = 1, down = 1;
};

// Where neither the threads are whole rows nor a row whole turns of the threads, or the last of
// several turns is not whole, what a register is part of would differ between threads: then rows
// are dealt out to teams, `width` neighbours a thread and turn. nullopt where that is not so, or
// where it would leave more than half of the threads idle.
std::optional<RowTeams> TeamsOf(int64_t rows, int64_t columns, int64_t threads, int64_t width);

// The most neighbours, up to `widest`, a power of two, for which every thread gets whole turns.
int64_t WidestDeal(int64_t rows, int64_t columns, int64_t threads, int64_t widest);

// What a thread gets, at most.
struct Dealt {
  int64_t elements = 0;
  int64_t rows = 0;     // to which they belong
  int64_t sharers = 1;  // threads that have parts of one row
  bool even = true;     // every thread gets as many
};
Dealt DealRows(int64_t rows, int64_t columns, int64_t threads, int64_t widest);

// Who turns which bytes of a matrix: of 4 x 4, a square, one thread turns all, one square at a
// time, for more would take registers that products need. A warp has `low` of them below each other
// by `wide` beside each other, and warps have `below` by `beside` of those; so many pieces of that,
// one after the other, are the matrix.
struct SquareDeal {
  static constexpr int64_t kSide = 4;
  int64_t low = 1, wide = 1;
  int64_t below = 1, beside = 1;
  int64_t pieces_down = 1, pieces_across = 1;
};
// nullopt: squares do not divide the matrix.
std::optional<SquareDeal> DealSquares(int64_t rows, int64_t columns, int64_t threads);

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_DEAL_H_
