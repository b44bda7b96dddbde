// What AMX gains on bfloat16 products: gemm_bf16_bench [M,N,K [CONFIG...]]
//
// For each shape and config the matmul template is compiled twice from the same text: for this
// machine, and for this machine without its AMX features (float32 vectors). Both run in turns on
// the calling thread; each gives the least processor time of its runs, which neighbours on the
// machine disturb least. One line a config, then the best of each path and the ratio of the two,
// which is what the compiler gains here and now. Needs a machine with AMX.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/host_arch.h"
#include "compiler/templates/templates.h"
#include "tests/util/compiled_program.h"

namespace kiln {
namespace {

constexpr int kRuns = 9;

struct Shape {
  int64_t m, n, k;
};

struct Operands {
  std::vector<uint16_t> a, b;
  std::vector<float> c;
};

Operands RandomOperands(const Shape& s) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Operands o{std::vector<uint16_t>(s.m * s.k), std::vector<uint16_t>(s.k * s.n),
             std::vector<float>(s.m * s.n)};
  for (std::vector<uint16_t>* t : {&o.a, &o.b}) {
    for (uint16_t& x : *t) StoreElement(reinterpret_cast<uint8_t*>(&x), kBFloat16, uniform(rng));
  }
  return o;
}

testing::CompiledProgram Compile(const Shape& s, const std::string& config, bool amx) {
  absl::StatusOr<target::Arch> arch = target::DescribeHost();
  KILN_CHECK(arch.ok());
  if (!amx) {
    std::erase_if(arch->features, [](const std::string& f) { return absl::StartsWith(f, "amx"); });
  }
  const KernelTemplate* kernel = FindKernelTemplate("matmul");
  codegen::CompileInput input;
  input.kernel_source = std::string(kernel->source);
  input.entry = std::string(kernel->entry);
  input.arguments = {{"M", absl::StrCat(s.m)},
                     {"N", absl::StrCat(s.n)},
                     {"K", absl::StrCat(s.k)},
                     {"dtype", "bfloat16"}};
  input.config = *Config::Parse(config);
  input.arch_record = target::ToText(*arch);
  const auto compiled = codegen::CompileKernel(input);
  if (!compiled.ok()) std::fprintf(stderr, "%s\n", compiled.status().ToString().c_str());
  KILN_CHECK(compiled.ok());
  auto loaded = testing::CompiledProgram::Load(compiled->shared_object, compiled->name);
  KILN_CHECK(loaded.ok());
  return *std::move(loaded);
}

double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double Milliseconds(const testing::CompiledProgram& program, Operands& o) {
  kiln_launch launch = {};
  launch.size = sizeof launch;
  launch.version = 1;
  launch.threads = 1;
  const double start = ThreadMilliseconds();
  KILN_CHECK(program.Run({o.a.data(), o.b.data(), o.c.data()}, &launch) == 0);
  return ThreadMilliseconds() - start;
}

// The largest difference of the two results, in units of sqrt(K).
double Apart(const std::vector<float>& x, const std::vector<float>& y, const Shape& s) {
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max<double>(most, std::abs(x[i] - y[i]));
  return most / std::sqrt(static_cast<double>(s.k));
}

void Measure(const Shape& s, const std::vector<std::string>& configs) {
  const double flops = 2.0 * s.m * s.n * s.k;
  double best_amx = 1e30, best_vector = 1e30;
  std::printf("%ldx%ldx%ld\n", static_cast<long>(s.m), static_cast<long>(s.n),
              static_cast<long>(s.k));
  Operands o = RandomOperands(s);
  for (const std::string& config : configs) {
    const testing::CompiledProgram amx = Compile(s, config, true);
    const testing::CompiledProgram vector = Compile(s, config, false);
    Milliseconds(vector, o);
    const std::vector<float> expected = o.c;
    Milliseconds(amx, o);
    KILN_CHECK(Apart(expected, o.c, s) < 1e-4);
    double a = 1e30, v = 1e30;
    for (int run = 0; run < kRuns; ++run) {
      a = std::min(a, Milliseconds(amx, o));
      v = std::min(v, Milliseconds(vector, o));
    }
    best_amx = std::min(best_amx, a);
    best_vector = std::min(best_vector, v);
    std::printf("  %-40s amx %8.3f ms %7.0f GFLOP/s   vector %8.3f ms %6.0f GFLOP/s   x%.2f\n",
                config.c_str(), a, flops / a * 1e-6, v, flops / v * 1e-6, v / a);
    std::fflush(stdout);
  }
  std::printf("  best amx %.3f ms, best vector %.3f ms, ratio %.2f\n", best_amx, best_vector,
              best_vector / best_amx);
}

std::vector<std::string> DefaultConfigs() {
  return {"block_M=112,block_N=128,block_K=256", "block_M=128,block_N=128,block_K=512",
          "block_M=256,block_N=128,block_K=512", "block_M=256,block_N=256,block_K=512"};
}

int Main(int argc, char** argv) {
  const absl::StatusOr<target::Arch> host = target::DescribeHost();
  if (!host.ok() || !host->Has("amx-tile") || !host->Has("amx-bf16")) {
    std::printf("this machine has no AMX with bfloat16\n");
    return 0;
  }
  std::vector<Shape> shapes = {{1024, 1024, 1024}, {512, 6144, 4096}};
  std::vector<std::string> configs = DefaultConfigs();
  if (argc > 1) {
    const std::vector<std::string> sizes = absl::StrSplit(argv[1], ',');
    Shape s{};
    if (sizes.size() != 3 || !absl::SimpleAtoi(sizes[0], &s.m) ||
        !absl::SimpleAtoi(sizes[1], &s.n) || !absl::SimpleAtoi(sizes[2], &s.k)) {
      std::fprintf(stderr, "usage: %s [M,N,K [CONFIG...]]\n", argv[0]);
      return 2;
    }
    shapes = {s};
  }
  if (argc > 2) configs.assign(argv + 2, argv + argc);
  for (const Shape& s : shapes) Measure(s, configs);
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
