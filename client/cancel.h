// The inside of CancelToken: who must be told, and a wait that Cancel() ends. Thread-safe.
#ifndef KILN_CLIENT_CANCEL_H_
#define KILN_CLIENT_CANCEL_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "absl/time/time.h"
#include "client/kiln_client.h"

namespace kiln::client {

struct CancelToken::State {
  std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  bool cancelled = false;
  int next_id = 0;
  std::map<int, std::function<void()>> listeners;
};

class CancelAccess {
 public:
  // Runs `on_cancel` once when `token` is cancelled (at once when it is already), until destroyed.
  // `on_cancel` runs under the token's lock: it must be quick and must not touch the token.
  CancelAccess(const CancelToken& token, std::function<void()> on_cancel);
  ~CancelAccess();
  CancelAccess(const CancelAccess&) = delete;
  CancelAccess& operator=(const CancelAccess&) = delete;

  // Sleeps for `duration` or until the token is cancelled; true when it was.
  static bool SleepUnlessCancelled(const CancelToken& token, absl::Duration duration);

 private:
  std::shared_ptr<CancelToken::State> state_;
  int id_ = -1;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CANCEL_H_
