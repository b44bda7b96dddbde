// What stores past the caches gain, by size of the output: streaming_bench
//
// One line a size: a threaded loop y = x / 2 with ordinary and with non-temporal stores, and the
// same followed at once by a loop that reads y. A gain above 1 in the last column is the size from
// which compiler/passes/stream_stores is right even where the next kernel reads the output.
#include <emmintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/anchors/loops.h"

namespace {

constexpr int64_t kPool = int64_t{512} << 20;  // bytes that are used in turn, so that data are cold
constexpr int kRuns = 15;

double Milliseconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void Halve(kiln::bench::Crew& crew, const float* x, float* y, int64_t count, bool past_caches) {
  crew.Run([&](int part) {
    const int64_t share = count / crew.threads() / 16 * 16;
    const int64_t last = part + 1 == crew.threads() ? count : share * (part + 1);
    const __m128 half = _mm_set1_ps(0.5f);
    for (int64_t i = share * part; i < last; i += 4) {
      const __m128 v = _mm_mul_ps(_mm_loadu_ps(x + i), half);
      past_caches ? _mm_stream_ps(y + i, v) : _mm_storeu_ps(y + i, v);
    }
    _mm_sfence();
  });
}

struct Medians {
  double write, write_and_read;
};

Medians Measure(kiln::bench::Crew& crew, const float* x, float* y, int64_t bytes,
                bool past_caches) {
  const int64_t count = bytes / 4;
  const int64_t copies = kPool / bytes;
  std::vector<double> write, both;
  for (int run = 0; run < kRuns; ++run) {
    const int64_t at = run % copies * count;
    write.push_back(Milliseconds([&] { Halve(crew, x + at, y + at, count, past_caches); }));
    both.push_back(write.back() +
                   Milliseconds([&] { kiln::bench::Read(crew, kiln_streams_gcc, y + at, count); }));
  }
  std::sort(write.begin(), write.end());
  std::sort(both.begin(), both.end());
  return {write[kRuns / 2], both[kRuns / 2]};
}

}  // namespace

int main() {
  kiln::bench::Crew crew(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  const auto allocate = [] {
    auto* memory = static_cast<float*>(std::aligned_alloc(4096, kPool));
    std::fill(memory, memory + kPool / 4, 1.0f);
    return std::unique_ptr<float, decltype(&std::free)>(memory, std::free);
  };
  const auto x = allocate(), y = allocate();
  std::printf("%8s %12s %12s %8s %16s\n", "MiB", "ordinary ms", "streaming ms", "gain",
              "gain with read");
  for (int64_t mib = 1; mib <= 256; mib *= 2) {
    const Medians ordinary = Measure(crew, x.get(), y.get(), mib << 20, false);
    const Medians streaming = Measure(crew, x.get(), y.get(), mib << 20, true);
    std::printf("%8ld %12.3f %12.3f %8.2f %16.2f\n", static_cast<long>(mib), ordinary.write,
                streaming.write, ordinary.write / streaming.write,
                ordinary.write_and_read / streaming.write_and_read);
  }
}
