// Points of a box that satisfy linear equations and inequalities, found by cutting the box. Private
// to compiler/ir.
#ifndef KILN_COMPILER_IR_INTEGER_POINTS_H_
#define KILN_COMPILER_IR_INTEGER_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace kiln::ir {

class IntegerPoints {
 public:
  // sum of factor * variable + constant is 0, or at least 0.
  struct Row {
    std::vector<std::pair<size_t, int64_t>> terms;  // variable, factor
    int64_t constant = 0;
    bool is_zero = false;
  };

  size_t AddVariable(int64_t low, int64_t high);  // which one it is
  void AddRow(Row row) { rows_.push_back(std::move(row)); }

  // Nothing where there is no such point, or where `*steps` boxes did not show one.
  std::optional<std::vector<int64_t>> FindOne(int64_t* steps) const;

 private:
  struct Span {
    int64_t low = 0, high = 0;
  };
  using Box = std::vector<Span>;

  // The rows with variables put in that equations give, as long as there are such; false: no point.
  bool PutIn(std::vector<Row>* rows, std::vector<std::pair<size_t, Row>>* given) const;
  // A row as short as it can be; false: nothing satisfies it.
  static bool Settle(Row* row);
  static bool Replace(size_t variable, const Row& by, Row* row);

  // Cuts off what no row allows; false: nothing is left.
  static bool Narrow(const std::vector<Row>& rows, Box* box);
  static bool NarrowBy(const Row& row, Box* box, bool* changed);
  // Whether the variables that are not settled can make the row zero at all.
  static bool Divides(const Row& row, const Box& box);

  Box box_;
  std::vector<Row> rows_;
};

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_INTEGER_POINTS_H_
