// What Debian's libraries order, as ThreadSanitizer must see it. They are not built with
// ThreadSanitizer, so what the locks of absl order (in gRPC: almost everything) looks unordered.
// Linked into every program of that configuration, these definitions come before the library's:
// each does what the library does and tells ThreadSanitizer.
#include <dlfcn.h>
#include <grpc/grpc.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

namespace {

// The library's own definition of the function with this mangled name.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

#define KILN_LOCK(method, symbol)                         \
  void Mutex::method() {                                  \
    static auto* const next = Next<void(Mutex*)>(symbol); \
    next(this);                                           \
    __tsan_acquire(this);                                 \
  }
#define KILN_TRY_LOCK(method, symbol)                     \
  bool Mutex::method() {                                  \
    static auto* const next = Next<bool(Mutex*)>(symbol); \
    const bool locked = next(this);                       \
    if (locked) __tsan_acquire(this);                     \
    return locked;                                        \
  }
#define KILN_UNLOCK(method, symbol)                       \
  void Mutex::method() {                                  \
    static auto* const next = Next<void(Mutex*)>(symbol); \
    __tsan_release(this);                                 \
    next(this);                                           \
  }

KILN_LOCK(Lock, "_ZN4absl7debian35Mutex4LockEv")
KILN_LOCK(ReaderLock, "_ZN4absl7debian35Mutex10ReaderLockEv")
KILN_TRY_LOCK(TryLock, "_ZN4absl7debian35Mutex7TryLockEv")
KILN_TRY_LOCK(ReaderTryLock, "_ZN4absl7debian35Mutex13ReaderTryLockEv")
KILN_UNLOCK(Unlock, "_ZN4absl7debian35Mutex6UnlockEv")
KILN_UNLOCK(ReaderUnlock, "_ZN4absl7debian35Mutex12ReaderUnlockEv")

void CondVar::Wait(Mutex* mutex) {
  static auto* const next =
      Next<void(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  next(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool expired = next(this, mutex, deadline);
  __tsan_acquire(mutex);
  return expired;
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool expired = next(this, mutex, timeout);
  __tsan_acquire(mutex);
  return expired;
}

ABSL_NAMESPACE_END
}  // namespace absl

// gRPC starts an operation and, when it is done, drops its hold on the call before it runs the
// reaction: what came before the start comes before the reaction.
extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count,
                                                 void* tag, void* reserved) {
  static auto* const next = Next<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(call);
  return next(call, ops, count, tag, reserved);
}

extern "C" void grpc_call_unref(grpc_call* call) {
  static auto* const next = Next<decltype(grpc_call_unref)>("grpc_call_unref");
  __tsan_acquire(call);
  next(call);
}
