// A whole coordinator process: stores, farm, RPC server and metrics, from the options to the signal
// that ends it.
#ifndef KILN_COORDINATOR_RPC_DAEMON_H_
#define KILN_COORDINATOR_RPC_DAEMON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/options.h"
#include "coordinator/rpc/server.h"
#include "coordinator/search/expander.h"

namespace kiln::rpc {

struct DaemonOptions {
  std::string store;  // folder, created (mode 0700) when it is not there; a backup is one
  ServerOptions server;
  std::string metrics;  // "host:port", or empty = no metrics endpoint
  int64_t blob_limit_bytes = int64_t{64} << 30;
  double grace_seconds = 2;  // for running calls at the end
  core::Options core;
};

// Stable exit codes of kiln-coordinator.
enum ExitCode {
  kExitOk = 0,
  kExitFailed = 1,  // could not start for another reason
  kExitUsage = 2,
  kExitStoreInUse = 3,  // another coordinator has the store, or its format is newer
  kExitCannotListen = 4,
  kExitLostStore = 5,     // another coordinator took over, or the store broke, while running
  kExitDamagedStore = 6,  // stored data is damaged, found at the start or while running
};

// Blocks SIGINT and SIGTERM for this thread and all that it starts. Call first in main().
void BlockEndSignals();

// Runs until SIGINT or SIGTERM, then stops gracefully: nothing acknowledged is lost. Logs to
// stderr; one line "listening on ADDRESS" for each address once it serves. Call on the main thread.
ExitCode RunDaemon(const DaemonOptions& options, search::Expander* expander);

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_DAEMON_H_
