// What happened to a device itself.
#ifndef KILN_WORKER_PROFILE_DEVICE_HEALTH_H_
#define KILN_WORKER_PROFILE_DEVICE_HEALTH_H_

#include <string>

namespace kiln::worker {

// Since it was last looked at.
struct DeviceHealth {
  std::string broken;   // why nothing may be measured on it any more; empty = it may
  std::string tainted;  // why what was measured meanwhile does not count; empty = it does
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_DEVICE_HEALTH_H_
