// What layout inference costs on whole kernels, on one thread: collecting every access of a launch
// and deciding who holds and who runs what.
//
//   inference_bench           prints "inference_NAME_ms milliseconds" lines, the median of 21 runs
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "compiler/ir/visit.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/guard_accesses.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/lower_copies.h"
#include "compiler/passes/simplify.h"

namespace kiln {
namespace {

constexpr int kRuns = 21;

absl::StatusOr<ir::Program> Tiles(const std::string& path, const lang::Arguments& arguments) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  auto file = std::make_shared<SourceFile>();
  file->path = path;
  file->text = text.str();
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, ""));
  KILN_ASSIGN_OR_RETURN(ir::Program program, lang::Elaborate(kernel, arguments, {}));
  for (const passes::PassFunction pass :
       {&passes::Simplify, &passes::GuardAccesses, &passes::LowerCopies}) {
    KILN_ASSIGN_OR_RETURN(program, pass(program, {}));
  }
  return program;
}

absl::Status InferOnce(const ir::Program& program) {
  const ir::Launch* launch = nullptr;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    if (launch == nullptr) launch = s.As<ir::Launch>();
    return launch == nullptr;
  });
  KILN_CHECK(launch != nullptr);
  KILN_ASSIGN_OR_RETURN(const passes::LayoutProblem problem,
                        passes::CollectLayoutProblem(program, *launch));
  return passes::InferLayouts(program, problem).status();
}

absl::Status Bench(const char* name, const std::string& path, const lang::Arguments& arguments) {
  KILN_ASSIGN_OR_RETURN(const ir::Program program, Tiles(path, arguments));
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    KILN_RETURN_IF_ERROR(InferOnce(program));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("inference_%s_ms %.3f\n", name, times[kRuns / 2]);
  return absl::OkStatus();
}

absl::Status Main() {
  KILN_RETURN_IF_ERROR(Bench("attention", "tests/golden/lang/flash_attention.py",
                             {{"batch", "1"},
                              {"heads", "2"},
                              {"seq_q", "256"},
                              {"seq_kv", "256"},
                              {"dim", "64"},
                              {"is_causal", "True"}}));
  return Bench("row_softmax", "tests/golden/passes/explain-layouts/row-softmax.py", {});
}

}  // namespace
}  // namespace kiln

int main() {
  const absl::Status status = kiln::Main();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
