#include "worker/profile/launch_alarm.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "worker/profile/exit_codes.h"

namespace kiln::worker {
namespace {

char last_words[96];  // written before the alarm is set
int last_words_size = 0;

void End(int) {
  [[maybe_unused]] const ssize_t ignored =
      ::write(STDERR_FILENO, last_words, static_cast<size_t>(last_words_size));
  ::_exit(kLaunchStopped);
}

void Set(double seconds) {
  const double whole = std::floor(seconds);
  itimerval timer = {};
  timer.it_value.tv_sec = static_cast<time_t>(whole);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - whole) * 1e6);
  (void)::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

LaunchAlarm::LaunchAlarm(double seconds) {
  const int size = std::snprintf(last_words, sizeof(last_words),
                                 "a launch did not come back after %.6g s\n", seconds);
  last_words_size = std::clamp(size, 0, static_cast<int>(sizeof(last_words)) - 1);
  struct sigaction action = {};
  action.sa_handler = End;
  (void)::sigaction(SIGALRM, &action, nullptr);
  Set(std::clamp(seconds, 1e-3, 1e8));
}

LaunchAlarm::~LaunchAlarm() { Set(0); }

}  // namespace kiln::worker
