// In which type the sums behind a program's outputs are kept: what a check of numbers that were
// summed in another order has to allow.
#ifndef KILN_COMPILER_IR_SUM_TYPES_H_
#define KILN_COMPILER_IR_SUM_TYPES_H_

#include <cstdint>
#include <map>
#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct CoarseSums {
  DType type;
  // To `type`, behind one element: of a product at most as many as its sum has terms, of single
  // additions four for each, so that eps times the root bounds what two orders of adding differ by.
  // Of atomic ones an element of the tensor gets as many as any on average. 0 where calls or data
  // decide.
  int64_t roundings = 0;
};

// Of a program as it is elaborated, the tensors of `params`, by name, whose elements depend on sums
// in a float type coarser than float32, and the coarsest of these types; sums in others of them
// count for as many roundings as err as much. Sums are what products and T.reduce_sum add up, what
// is added atomically, and what a loop adds to a place that it comes back to. What an element
// depends on: everything that is read where its tensor, or what that is made of, is written;
// indices and conditions too.
std::map<std::string, CoarseSums> FindCoarseSums(const Program& program);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_SUM_TYPES_H_
