// What compiling costs: the whole way from kernel text to a linked shared object, over a slate of
// configs of four templates, on one thread and on two.
//
//   compile_bench              prints "name value" lines
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/host_arch.h"
#include "compiler/templates/templates.h"

namespace kiln {
namespace {

struct Job {
  const char* kernel;
  std::map<std::string, std::string> arguments;
  std::vector<std::string> configs;
};

std::vector<codegen::CompileInput> Slate() {
  std::vector<std::string> tiles;
  for (const int m : {16, 64, 112, 128, 256}) {
    for (const int n : {64, 128, 256}) {
      for (const int k : {64, 256}) {
        tiles.push_back(absl::StrCat("block_M=", m, ",block_N=", n, ",block_K=", k));
      }
    }
  }
  const std::vector<Job> jobs = {
      {"matmul", {{"M", "512"}, {"N", "6144"}, {"K", "4096"}}, tiles},
      {"softmax", {{"M", "4096"}, {"N", "4096"}}, {"block_M=1", "block_M=2", "block_M=4"}},
      {"rmsnorm", {{"M", "4096"}, {"N", "4096"}}, {"block_M=1", "block_M=2", "block_M=4"}},
      {"reduction", {{"M", "8192"}, {"N", "8192"}}, {"block_M=1", "block_M=4", "block_M=8"}},
  };
  const absl::StatusOr<target::Arch> host = target::DescribeHost();
  KILN_CHECK(host.ok());
  std::vector<codegen::CompileInput> inputs;
  for (const Job& job : jobs) {
    const KernelTemplate* kernel = FindKernelTemplate(job.kernel);
    KILN_CHECK(kernel != nullptr);
    for (const std::string& config : job.configs) {
      codegen::CompileInput input;
      input.kernel_source = std::string(kernel->source);
      input.entry = std::string(kernel->entry);
      input.arguments = job.arguments;
      input.config = *Config::Parse(config);
      input.arch_record = target::ToText(*host);
      inputs.push_back(std::move(input));
    }
  }
  return inputs;
}

using Clock = std::chrono::steady_clock;

// Compiles the slate `rounds` times on `threads` threads; seconds in all, and of each candidate.
double CompileAll(const std::vector<codegen::CompileInput>& slate, int threads, int rounds,
                  std::vector<double>* each) {
  std::atomic<size_t> next{0};
  std::vector<double> seconds(slate.size() * rounds);
  const auto start = Clock::now();
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; ++t) {
    crew.emplace_back([&] {
      for (size_t i = next++; i < seconds.size(); i = next++) {
        const auto begin = Clock::now();
        const auto out = codegen::CompileKernel(slate[i % slate.size()]);
        if (!out.ok()) {
          std::fprintf(stderr, "%s\n", std::string(out.status().message()).c_str());
          std::exit(1);
        }
        seconds[i] = std::chrono::duration<double>(Clock::now() - begin).count();
      }
    });
  }
  for (std::thread& t : crew) t.join();
  const double total = std::chrono::duration<double>(Clock::now() - start).count();
  if (each != nullptr) *each = seconds;
  return total;
}

int Main() {
  const std::vector<codegen::CompileInput> slate = Slate();
  CompileAll(slate, 2, 1, nullptr);  // warm-up
  std::vector<double> each;
  // Interleaved, so that both see the machine in the same state.
  double one = 0, two = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<double> seconds;
    one += CompileAll(slate, 1, 1, &seconds);
    two += CompileAll(slate, 2, 1, nullptr);
    each.insert(each.end(), seconds.begin(), seconds.end());
  }
  std::sort(each.begin(), each.end());
  std::printf("compile_median_ms %.1f\n", each[each.size() / 2] * 1e3);
  std::printf("compile_p90_ms %.1f\n", each[each.size() * 9 / 10] * 1e3);
  std::printf("compile_candidates_per_second_per_core %.2f\n", 3.0 * slate.size() / one);
  std::printf("compile_two_threads_speedup %.2f\n", one / two);
  return 0;
}

}  // namespace
}  // namespace kiln

int main() { return kiln::Main(); }
