// The CPU shapes on which the recommender is judged, and a space of configs for each that knows
// nothing of the recommender.
#ifndef KILN_TESTS_BENCH_RECOMMENDER_RECOMMENDER_SHAPES_H_
#define KILN_TESTS_BENCH_RECOMMENDER_RECOMMENDER_SHAPES_H_

#include <map>
#include <string>
#include <vector>

#include "compiler/base/config.h"
#include "compiler/lang/kernel.h"
#include "compiler/roofline/recommend.h"

namespace kiln::bench {

struct JudgedShape {
  std::string name;    // "m128"
  std::string kernel;  // file in compiler/templates
  std::map<std::string, std::string> arguments;
  std::map<std::string, std::vector<int>> grid;  // tunable -> values of the independent space
};

// Six shapes: projections of a Llama layer at three batch sizes, an im2col convolution of
// ResNet-50, a ragged square and a row sum.
const std::vector<JudgedShape>& JudgedShapes();

// Every config of the grid that any compiler could take: tiles no more than twice the extent they
// cut, and at most 64 MiB of tiles a block. At least 500 a shape.
std::vector<Config> IndependentSpace(const JudgedShape& shape);

// Reads a template from the source tree (the tests' working directory) and parses it.
lang::Kernel LoadKernel(const JudgedShape& shape);

// What the recommender says of these configs, for a slate of 8.
absl::StatusOr<roofline::Recommendation> Judge(const JudgedShape& shape,
                                               const std::vector<Config>& configs,
                                               const target::Arch& arch);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_RECOMMENDER_RECOMMENDER_SHAPES_H_
