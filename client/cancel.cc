#include "client/cancel.h"

#include <utility>

namespace kiln::client {

CancelToken::CancelToken() : state_(std::make_shared<State>()) {}

void CancelToken::Cancel() {
  absl::MutexLock lock(&state_->mutex);
  if (state_->cancelled) return;
  state_->cancelled = true;
  for (const auto& [id, listener] : state_->listeners) listener();
}

bool CancelToken::cancelled() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->cancelled;
}

CancelAccess::CancelAccess(const CancelToken& token, std::function<void()> on_cancel)
    : state_(token.state_) {
  absl::MutexLock lock(&state_->mutex);
  if (state_->cancelled) {
    on_cancel();
    return;
  }
  id_ = state_->next_id++;
  state_->listeners.emplace(id_, std::move(on_cancel));
}

CancelAccess::~CancelAccess() {
  absl::MutexLock lock(&state_->mutex);
  if (id_ >= 0) state_->listeners.erase(id_);
}

bool CancelAccess::SleepUnlessCancelled(const CancelToken& token, absl::Duration duration) {
  CancelToken::State& state = *token.state_;
  absl::MutexLock lock(&state.mutex);
  return state.mutex.AwaitWithTimeout(absl::Condition(&state.cancelled), duration);
}

}  // namespace kiln::client
