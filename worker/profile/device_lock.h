// One process measures on a device at a time, whatever user it runs as: a lock by the device's name
// in a folder that all of them know. The kernel lets go of it when its process ends.
#ifndef KILN_WORKER_PROFILE_DEVICE_LOCK_H_
#define KILN_WORKER_PROFILE_DEVICE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace kiln::worker {

class DeviceLock {
 public:
  DeviceLock() = default;
  ~DeviceLock();
  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;

  // `id`: "0000:17:00.0", of the device called `name`. Waits so long for who has it, which may be
  // about to end. kFailedPrecondition: it is another process's, whose number the message names,
  // with what to do. kUnavailable: the folder takes no locks.
  static absl::StatusOr<DeviceLock> Take(const std::string& folder, const std::string& id,
                                         const std::string& name, double wait_seconds);

 private:
  explicit DeviceLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_DEVICE_LOCK_H_
