#include "client/cancel.h"

#include <utility>

namespace kiln::client {

CancelToken::CancelToken() : state_(std::make_shared<State>()) {}

void CancelToken::Cancel() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->cancelled) return;
  state_->cancelled = true;
  for (const auto& [id, listener] : state_->listeners) listener();
  state_->wake.notify_all();
}

bool CancelToken::cancelled() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->cancelled;
}

CancelAccess::CancelAccess(const CancelToken& token, std::function<void()> on_cancel)
    : state_(token.state_) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->cancelled) {
    on_cancel();
    return;
  }
  id_ = state_->next_id++;
  state_->listeners.emplace(id_, std::move(on_cancel));
}

CancelAccess::~CancelAccess() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (id_ >= 0) state_->listeners.erase(id_);
}

bool CancelAccess::SleepUnlessCancelled(const CancelToken& token, absl::Duration duration) {
  CancelToken::State& state = *token.state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  return state.wake.wait_for(lock, absl::ToChronoNanoseconds(duration),
                             [&state] { return state.cancelled; });
}

}  // namespace kiln::client
