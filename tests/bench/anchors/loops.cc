#include "tests/bench/anchors/loops.h"

namespace kiln::bench {
namespace {

struct Share {
  int64_t first, last;
};
Share ShareOf(const Crew& crew, int64_t count, int part) {
  return {count * part / crew.threads(), count * (part + 1) / crew.threads()};
}

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

void Read(Crew& crew, const kiln_streams& loops, const float* x, int64_t count) {
  crew.Run([&](int part) {
    const Share s = ShareOf(crew, count, part);
    loops.read(x + s.first, s.last - s.first);
  });
}

void Copy(Crew& crew, const kiln_streams& loops, const float* x, float* y, int64_t count) {
  crew.Run([&](int part) {
    const Share s = ShareOf(crew, count, part);
    loops.copy(x + s.first, y + s.first, s.last - s.first);
  });
}

void Multiply(Crew& crew, const kiln_streams& loops, const float* a, const float* b, float* y,
              int64_t count) {
  crew.Run([&](int part) {
    const Share s = ShareOf(crew, count, part);
    loops.multiply(a + s.first, b + s.first, y + s.first, s.last - s.first);
  });
}

}  // namespace kiln::bench
