// A winner against its anchor, in one run: the same inputs, the same threads, one launch of each in
// turn, so that both see the machine in the same state. Threaded loops run as both GCC and Clang
// compile them, and the faster counts. Prints one JSON object.
//
//   gemm (M > 1)          OpenBLAS sgemm
//   gemm (M = 1), rowsum  a threaded loop that reads the same bytes
//   softmax, rmsnorm      a threaded loop that reads and writes the same bytes
//   swiglu                a threaded loop that reads two streams and writes one
//
// Debian's OpenBLAS chooses a generic kernel on processors that it does not know; it is told to use
// its AVX-512 kernels where the machine has AVX-512, so that the rival is at its best.
#include <cblas.h>
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/codegen/runtime/kiln_launch.h"
#include "tests/bench/anchors/loops.h"

extern "C" void openblas_set_num_threads(int threads);
extern "C" char* openblas_get_corename();

namespace kiln {
namespace {

struct Options {
  std::string op, winner, symbol;
  int64_t m = 0, n = 0, k = 0;
  int threads = 0;
  double seconds = 1.0;
};

// A row-major float matrix, every page touched.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, int seed)
      : size_(rows * columns),
        data_(static_cast<float*>(std::aligned_alloc(4096, (size_ * 4 + 4095) / 4096 * 4096))) {
    std::minstd_rand rng(seed);
    for (int64_t i = 0; i < size_; ++i) {
      data_.get()[i] = static_cast<float>(rng()) / static_cast<float>(rng.max()) * 2 - 1;
    }
  }
  float* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  int64_t size_;
  std::unique_ptr<float, Free> data_;
};

double Seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

// The lowest median and whose it is.
std::pair<double, std::string> Fastest(const std::map<std::string, std::vector<double>>& times) {
  std::pair<double, std::string> best(std::numeric_limits<double>::infinity(), "");
  for (const auto& [name, samples] : times) best = std::min(best, {Median(samples), name});
  return best;
}

// What to time, over buffers that outlive it.
struct Contest {
  std::vector<Matrix> tensors;
  std::function<void()> winner;
  std::map<std::string, std::function<void()>> anchors;  // the fastest one counts
  double flops = 0, bytes = 0;
};

class Winner {
 public:
  Winner(const Options& o) {
    void* library = dlopen(o.winner.c_str(), RTLD_NOW | RTLD_LOCAL);
    entry_ = library ? dlsym(library, o.symbol.c_str()) : nullptr;
    if (entry_ == nullptr) {
      std::cerr << "cannot load " << o.symbol << " from " << o.winner << ": " << dlerror() << "\n";
      std::exit(2);
    }
    launch_.size = sizeof(launch_);
    launch_.version = 1;
    launch_.threads = o.threads;
  }
  void Run(float* a, float* b) const {
    Expect(reinterpret_cast<int32_t (*)(const kiln_launch*, void*, void*)>(entry_)(&launch_, a, b));
  }
  void Run(float* a, float* b, float* c) const {
    Expect(reinterpret_cast<int32_t (*)(const kiln_launch*, void*, void*, void*)>(entry_)(&launch_,
                                                                                          a, b, c));
  }

 private:
  static void Expect(int32_t code) {
    if (code == 0) return;
    std::cerr << "the winner returned error " << code << "\n";
    std::exit(1);
  }
  void* entry_;
  kiln_launch launch_ = {};
};

Contest MakeContest(const Options& o, const Winner& winner, bench::Crew& crew) {
  Contest c;
  const auto tensor = [&](int64_t rows, int64_t columns) {
    c.tensors.emplace_back(rows, columns, static_cast<int>(c.tensors.size()) + 1);
    return c.tensors.back().data();
  };
  c.tensors.reserve(4);
  const auto loop = [&](const std::function<void(const kiln_streams&)>& run) {
    for (const kiln_streams* loops : {&kiln_streams_clang, &kiln_streams_gcc}) {
      c.anchors[std::string("threaded loop, ") + loops->compiler] = [=] { run(*loops); };
    }
  };
  if (o.op == "gemm") {
    float *a = tensor(o.m, o.k), *b = tensor(o.k, o.n), *y = tensor(o.m, o.n);
    float* reference = tensor(o.m, o.n);
    const int64_t count = o.k * o.n;
    c.winner = [=, &winner] { winner.Run(a, b, y); };
    if (o.m == 1) {
      loop([=, &crew](const kiln_streams& loops) { bench::Read(crew, loops, b, count); });
    } else {
      c.anchors[std::string("OpenBLAS ") + openblas_get_corename()] = [=] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, o.m, o.n, o.k, 1, a, o.k, b, o.n, 0,
                    reference, o.n);
      };
    }
    c.flops = 2.0 * o.m * o.n * o.k;
    c.bytes = 4.0 * (o.m * o.k + o.k * o.n + o.m * o.n);
    return c;
  }
  const int64_t count = o.m * o.n;
  float* x = tensor(o.m, o.n);
  if (o.op == "rowsum") {
    float* y = tensor(o.m, 1);
    c.winner = [=, &winner] { winner.Run(x, y); };
    loop([=, &crew](const kiln_streams& loops) { bench::Read(crew, loops, x, count); });
    c.bytes = 4.0 * count;
  } else if (o.op == "swiglu") {
    float *up = tensor(o.m, o.n), *y = tensor(o.m, o.n);
    c.winner = [=, &winner] { winner.Run(x, up, y); };
    loop([=, &crew](const kiln_streams& loops) { bench::Multiply(crew, loops, x, up, y, count); });
    c.bytes = 12.0 * count;
  } else {
    float* weight = o.op == "rmsnorm" ? tensor(1, o.n) : nullptr;
    float* y = tensor(o.m, o.n);
    c.winner = [=, &winner] { weight ? winner.Run(x, weight, y) : winner.Run(x, y); };
    loop([=, &crew](const kiln_streams& loops) { bench::Copy(crew, loops, x, y, count); });
    c.bytes = 8.0 * count;
  }
  return c;
}

int Main(int argc, char** argv) {
  Options o;
  CLI::App app(
      "Times a winner for float32 on this machine's cores beside its anchor, in one run: for a "
      "product OpenBLAS, for the others (and M=1) a threaded loop that moves the same bytes. "
      "Prints "
      "one line of JSON; ratio is the anchor's time over the winner's, above 1 = the winner is "
      "faster.");
  app.footer(
      "\nIt needs a shared object of `tunectl tune` or `fetch` whose sizes are compiled in: the "
      "same "
      "--m, --n\nand --k must be given, as nothing checks them. The symbol is kiln_ and the "
      "kernel's "
      "name (in the\nheader beside it).\n\nEXAMPLE\n"
      "  tunectl tune client/examples/link_a_winner/gemm.yaml -o kernels\n"
      "  kiln-anchors --op gemm --library kernels/kiln_matmul.so --symbol kiln_matmul --m 96 --n "
      "80 "
      "--k 64");
  app.add_option("--op", o.op, "What the kernel computes: C = A B, or over rows of [m, n]")
      ->required()
      ->check(CLI::IsMember({"gemm", "softmax", "rmsnorm", "rowsum", "swiglu"}));
  app.add_option("--library", o.winner, "The winner's shared object")->required();
  app.add_option("--symbol", o.symbol, "The C function in it")->required();
  app.add_option("--m", o.m, "Rows that it was compiled for")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--n", o.n, "Columns that it was compiled for")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--k", o.k, "What is summed over (default: none; --op gemm needs it)");
  app.add_option("--threads", o.threads, "Of both sides; 0 = all cores")->capture_default_str();
  app.add_option("--seconds", o.seconds, "Time to spend on each side")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (o.op == "gemm" && o.k <= 0) {
    std::cerr << "--op gemm needs --k\n";
    return 2;
  }
  if (o.threads <= 0) o.threads = static_cast<int>(std::thread::hardware_concurrency());
  openblas_set_num_threads(o.threads);
  bench::Crew crew(o.threads);
  const Winner winner(o);
  const Contest contest = MakeContest(o, winner, crew);
  std::vector<double> ours;
  std::map<std::string, std::vector<double>> theirs;
  contest.winner();
  for (const auto& [name, run] : contest.anchors) run();
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> span((1 + contest.anchors.size()) * o.seconds);
  while (std::chrono::steady_clock::now() - start < span || ours.size() < 5) {
    ours.push_back(Seconds(contest.winner));
    for (const auto& [name, run] : contest.anchors) theirs[name].push_back(Seconds(run));
  }
  const double median = Median(ours);
  const auto [anchor, name] = Fastest(theirs);
  const nlohmann::json out = {{"op", o.op},
                              {"m", o.m},
                              {"n", o.n},
                              {"k", o.k},
                              {"threads", o.threads},
                              {"samples", ours.size()},
                              {"winner_ms", median * 1e3},
                              {"anchor_ms", anchor * 1e3},
                              {"ratio", anchor / median},
                              {"gflops", contest.flops / median / 1e9},
                              {"gbytes", contest.bytes / median / 1e9},
                              {"anchor", name}};
  std::cout << out.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  // OpenBLAS reads its core type when it is loaded: set it and start again.
  if (std::getenv("OPENBLAS_CORETYPE") == nullptr && __builtin_cpu_supports("avx512f")) {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    execv("/proc/self/exe", argv);
  }
  return kiln::Main(argc, argv);
}
