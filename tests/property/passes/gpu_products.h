// Products of tiles for tests of GPU instructions: kernels by their shape, and the mistakes that a
// compiler could make in them.
#ifndef KILN_TESTS_PROPERTY_PASSES_GPU_PRODUCTS_H_
#define KILN_TESTS_PROPERTY_PASSES_GPU_PRODUCTS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/stmt.h"

namespace kiln::testing {

struct Case {
  int m = 128, n = 128, k = 192;
  int block_m = 64, block_n = 64, block_k = 64, stages = 2, threads = 128;
  const char* type = "bfloat16";
  const char* accum = "float32";
  bool trans_a = false, trans_b = true;
  int cores = 132;
  const char* gpu = "sm_90a";
  bool registers = false;  // A goes through a fragment
  int cluster = 1;
  bool pingpong = false;
  bool streamed = false;  // A and B are asked for as what a launch reads once

  // By TMA: where the GPU has it, and products read tiles by themselves.
  bool fetches() const { return gpu == std::string("sm_90a") || gpu == std::string("sm_100a"); }
};

// The kernel; its launch is at this line.
inline constexpr int kLaunchLine = 7;
std::string Text(const Case& c);

// A program of tiles; after the passes for the case's GPU.
absl::StatusOr<ir::Program> Tiles(const std::string& text, int cluster = 1, bool pingpong = false);
absl::StatusOr<ir::Program> Lowered(const ir::Program& program, const Case& c);

// What explain-layouts says of the case on sm_90a.
std::string Story(const Case& c);

// That the case has such products, tiles that TMA fetches where it should, and the right numbers.
void ExpectComputes(const Case& c, ir::Instruction product = ir::Instruction::kWgmma);

// `change` gives another statement for an instruction, or an undefined one to leave it. Each change
// of one instruction must be noticed; how many there were.
int ExpectNoticed(const ir::Program& tiles, const ir::Program& instructions,
                  const std::function<ir::Stmt(const ir::Instruct&)>& change, double tolerance = 0);
int ExpectNoticed(const Case& c, const std::function<ir::Stmt(const ir::Instruct&)>& change);

// No instruction; the same with other arguments and annotations.
ir::Stmt Nothing(const ir::Instruct& x);
ir::Stmt With(const ir::Instruct& x, std::vector<ir::Expr> args,
              std::map<std::string, std::string> notes);

}  // namespace kiln::testing

#endif  // KILN_TESTS_PROPERTY_PASSES_GPU_PRODUCTS_H_
