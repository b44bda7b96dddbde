// What those who run a farm ask it: workers, garbage, bars. Part of kiln_types.h, which includes
// this file.
#ifndef KILN_CLIENT_KILN_ADMIN_H_
#define KILN_CLIENT_KILN_ADMIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace kiln::client {

struct WorkerInfo {
  std::string name;
  std::string state;
  int compile_slots = 0, profile_slots = 0, busy_compile = 0, busy_profile = 0;
  std::vector<std::string> archs;  // "x86-64-v4 (Intel ...)"
  std::string compiler_build;
  std::string assembler;
  double seconds_since_heartbeat = 0;
  std::vector<std::string> notes;
};

struct GarbageReport {
  int64_t bytes_before = 0, bytes_after = 0;
  int artifacts_dropped = 0;
};

// A program that never runs again on the farm, because child processes died of it.
struct Bar {
  std::string id;      // for LiftBars; stable
  std::string config;  // of the candidate that it was the last time; empty = not known
  std::string sweep;   // that candidate's sweep
  std::string name;    // and its name
  int children = 0;    // that it took with it
  std::string stage;   // "compile", "check", "run", "resources": where the last one died
  std::string reason;  // and how
  absl::Time last;     // when; InfinitePast = not known
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_KILN_ADMIN_H_
