// How long the recommender takes: recommender_latency [ARCH-NAME ...]
//
// Prints "name value bar": the open elaboration and pricing of each template's derived space, and
// the time to price 10,000 candidates of a matmul on one core. Exits 1 when a bar is missed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "compiler/roofline/expand.h"
#include "compiler/roofline/recommend.h"
#include "tests/bench/recommender/recommender_shapes.h"

namespace kiln::bench {
namespace {

constexpr double kPriceBarMs = 5;
constexpr double kElaborateBarMs = 1000;

double BestMs(int runs, const std::function<void()>& f) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const auto from = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - from;
    best = std::min(best, took.count());
  }
  return best;
}

bool Print(const std::string& name, double value, double bar) {
  std::printf("%s %.3f bar %.0f %s\n", name.c_str(), value, bar, value <= bar ? "ok" : "short");
  return value <= bar;
}

bool Measure(const target::Arch& arch) {
  bool ok = true;
  for (const JudgedShape& shape : JudgedShapes()) {
    const lang::Kernel kernel = LoadKernel(shape);
    roofline::Request request;
    request.kernel = &kernel;
    request.arguments = shape.arguments;
    request.arch = arch;
    const std::string tag = arch.name + "_" + shape.name;
    const auto probe = roofline::ExpandRequest(request);
    if (!probe.ok()) {
      std::printf("# %s: %s\n", tag.c_str(), probe.status().ToString().c_str());
      continue;
    }
    ok &= Print("recommender_elaborate_ms_" + tag,
                BestMs(3, [&] { (void)roofline::ExpandRequest(request); }), kElaborateBarMs);
    int64_t legal = 0, total = 0;
    const double all = BestMs(3, [&] {
      const auto answer = roofline::Recommend(request);
      if (answer.ok()) legal = answer->legal_count, total = answer->total_count;
    });
    std::printf("recommender_total_ms_%s %.3f legal %ld of %ld\n", tag.c_str(), all,
                static_cast<long>(legal), static_cast<long>(total));
    // 10,000 candidates of the first piece.
    const roofline::PieceRows& rows = probe->pieces.front();
    constexpr int64_t kCount = 10'000;
    std::vector<std::vector<double>> columns;
    for (const std::string& name : rows.piece.inputs()) {
      std::vector<double> column(kCount, 1);
      for (const roofline::Axis& a : probe->axes) {
        if (a.name != name || a.numbers.empty()) continue;
        for (int64_t j = 0; j < kCount; ++j) column[j] = a.numbers[j * 7919 % a.numbers.size()];
      }
      columns.push_back(std::move(column));
    }
    std::vector<const double*> pointers;
    for (const auto& c : columns) pointers.push_back(c.data());
    std::vector<double> ns(kCount);
    ok &= Print("recommender_price_10k_ms_" + tag,
                BestMs(20, [&] { rows.piece.Evaluate(pointers, kCount, ns.data()); }), kPriceBarMs);
  }
  return ok;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  bool ok = true;
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"x86-64-v4"};
  for (const std::string& name : names) {
    const auto arch = kiln::target::NamedArch(name);
    if (!arch.ok()) {
      std::fprintf(stderr, "%s\n", arch.status().ToString().c_str());
      return 2;
    }
    ok &= kiln::bench::Measure(*arch);
  }
  return ok ? 0 : 1;
}
