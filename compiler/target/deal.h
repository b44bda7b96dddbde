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

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_DEAL_H_
