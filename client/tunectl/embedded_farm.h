// A coordinator and a worker as children of this process, for `tunectl tune` and `--store`: no
// port, a Unix socket in a private folder, a store in the user's cache folder. Both end with this
// process, however it ends.
#ifndef KILN_CLIENT_TUNECTL_EMBEDDED_FARM_H_
#define KILN_CLIENT_TUNECTL_EMBEDDED_FARM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/kiln_client.h"

namespace kiln::tunectl {

struct EmbeddedOptions {
  std::string store;          // folder
  bool worker = true;         // creates the store; false: only looks at what it has
  int compile_slots = 0;      // 0 = the worker's default
  bool with_company = false;  // measure on GPUs that other processes compute on
  // A worker for each: "cpu" (compiles for every target), "gpu" (all GPUs).
  std::vector<std::string> devices = {"cpu"};
  bool wait_for_store = true;  // while another tune uses the store; else kFailedPrecondition
  client::CancelToken cancel;  // ends the waiting
};

class EmbeddedFarm {
 public:
  // Starts both children and returns when the coordinator accepts connections. Call it on the main
  // thread, before anything uses gRPC. Errors name the child's log and quote its end. kNotFound: no
  // store to look at. kInvalidArgument: the folder is the store of a kiln-coordinator.
  static absl::StatusOr<std::unique_ptr<EmbeddedFarm>> Start(const EmbeddedOptions& options);
  // Ends the children: SIGTERM, and SIGKILL 5 s later.
  virtual ~EmbeddedFarm() = default;

  virtual const std::string& address() const = 0;
  // A worker for each device, after a start without any; before OnDeath.
  virtual absl::Status StartWorkers(const std::vector<std::string>& devices) = 0;
  // Calls `on_death` once, on a thread of the farm's, when a child ends by itself.
  virtual void OnDeath(std::function<void(const absl::Status&)> on_death) = 0;
};

// True when a `tunectl tune` has made `folder` its store.
bool IsTuneStore(const std::string& folder);

// $XDG_CACHE_HOME/kiln, or $HOME/.cache/kiln. kFailedPrecondition when neither is set.
absl::StatusOr<std::string> DefaultStore();

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_EMBEDDED_FARM_H_
