// Ends the process when code of this process does not come back: nothing else stops it.
#ifndef KILN_WORKER_PROFILE_LAUNCH_ALARM_H_
#define KILN_WORKER_PROFILE_LAUNCH_ALARM_H_

namespace kiln::worker {

// While one lives it is set; there is one at a time. When its time is up the process says on stderr
// "a launch did not come back after 10 s" and ends with kLaunchStopped. It takes SIGALRM for that,
// so that no thread of its own disturbs what is timed.
class LaunchAlarm {
 public:
  explicit LaunchAlarm(double seconds);
  ~LaunchAlarm();
  LaunchAlarm(const LaunchAlarm&) = delete;
  LaunchAlarm& operator=(const LaunchAlarm&) = delete;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_LAUNCH_ALARM_H_
