#include "tests/bench/anchors/loops.h"

namespace kiln::bench {
namespace {

struct Share {
  int64_t first, last;
};
Share ShareOf(const Crew& crew, int64_t count, int part) {
  return {count * part / crew.threads(), count * (part + 1) / crew.threads()};
}

// Keeps a value that nothing uses.
void Keep(float value) { asm volatile("" : : "x"(value)); }

}  // namespace

Crew::Crew(int threads) : threads_(threads), start_(threads), finish_(threads) {
  for (int i = 1; i < threads; ++i) {
    helpers_.emplace_back([this, i](const std::stop_token& stop) {
      for (;;) {
        start_.arrive_and_wait();
        if (stop.stop_requested()) return;
        (*part_)(i);
        finish_.arrive_and_wait();
      }
    });
  }
}

Crew::~Crew() {
  for (std::jthread& helper : helpers_) helper.request_stop();
  start_.arrive_and_wait();
}

void Crew::Run(const std::function<void(int)>& part) {
  part_ = &part;
  start_.arrive_and_wait();
  part(0);
  finish_.arrive_and_wait();
}

void Read(Crew& crew, const float* x, int64_t count) {
  crew.Run([&](int part) {
    const Share s = ShareOf(crew, count, part);
    float sums[64] = {};
    int64_t i = s.first;
    for (; i + 64 <= s.last; i += 64) {
      for (int lane = 0; lane < 64; ++lane) sums[lane] += x[i + lane];
    }
    for (; i < s.last; ++i) sums[0] += x[i];
    for (const float sum : sums) Keep(sum);
  });
}

void Copy(Crew& crew, const float* x, float* y, int64_t count) {
  crew.Run([&](int part) {
    const Share s = ShareOf(crew, count, part);
    for (int64_t i = s.first; i < s.last; ++i) y[i] = x[i] * 0.5f;
  });
}

void Multiply(Crew& crew, const float* a, const float* b, float* y, int64_t count) {
  crew.Run([&](int part) {
    const Share s = ShareOf(crew, count, part);
    for (int64_t i = s.first; i < s.last; ++i) y[i] = a[i] * b[i];
  });
}

}  // namespace kiln::bench
