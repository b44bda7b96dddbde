#include "compiler/interp/parts.h"

#include <algorithm>
#include <thread>

namespace kiln::interp {

// Barriers in a part are for its own threads, so nobody's touches are before or after another's.
Parts::Parts(Machine& m, size_t count, bool apart)
    : levels_(count, m.levels), ended_(count, false) {
  for (size_t i = 0; apart && i < count; ++i) asyncs_.push_back(std::make_unique<Async>());
  for (std::vector<Level>& levels : levels_) {
    if (m.options().meet_at_barriers) levels.back().run = m.NewRun();
  }
}

void Parts::TakeTurn(Machine& m, size_t own) {
  m.levels = levels_[own];
  if (!asyncs_.empty()) m.async.swap(asyncs_[own]);
}

void Parts::EndTurn(Machine& m, size_t own) {
  levels_[own] = m.levels;
  if (!asyncs_.empty()) m.async.swap(asyncs_[own]);
}

Flow Parts::Run(Machine& m, const std::vector<ActionPtr>& bodies, bool apart) {
  const std::vector<Level> around = m.levels;
  Parts parts(m, bodies.size(), apart);
  if (m.options().order == Order::kReverse) parts.current_ = bodies.size() - 1;
  m.parts = &parts;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < bodies.size(); ++i) {
    threads.emplace_back([&m, &parts, &bodies, i] { parts.RunOne(m, i, *bodies[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  m.parts = nullptr;
  m.levels = around;
  return NextUnlessFailed(m);
}

void Parts::RunOne(Machine& m, size_t own, const Action& body) {
  std::unique_lock<std::mutex> lock(mutex_);
  turn_.wait(lock, [&] { return current_ == own; });
  TakeTurn(m, own);
  if (!m.failed()) (void)body.Run(m);
  EndTurn(m, own);
  ended_[own] = true;
  idle_ = 0;
  current_ = Next(own);
  turn_.notify_all();
}

size_t Parts::Next(size_t own) const {
  for (size_t i = 1; i < ended_.size(); ++i) {
    const size_t other = (own + i) % ended_.size();
    if (!ended_[other]) return other;
  }
  return own;
}

void Parts::HandOver(Machine& m, size_t own, std::unique_lock<std::mutex>& lock) {
  EndTurn(m, own);
  current_ = Next(own);
  turn_.notify_all();
  turn_.wait(lock, [&] { return current_ == own; });
  TakeTurn(m, own);
}

bool Parts::WaitUntil(Machine& m, const std::function<bool()>& ready, SourceLoc loc) {
  // The lock is this part's while it runs.
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  const size_t own = current_;
  bool done = ready();
  while (!done && !m.failed()) {
    if (++idle_ > static_cast<size_t>(std::count(ended_.begin(), ended_.end(), false))) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             "deadlock: all parts of the block wait for barriers that nobody will complete",
             "let every wait be followed by the arrivals that the barrier counts");
      break;
    }
    HandOver(m, own, lock);
    done = ready();
  }
  if (done) idle_ = 0;
  lock.release();
  return done && !m.failed();
}

}  // namespace kiln::interp
