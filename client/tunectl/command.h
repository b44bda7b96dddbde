// What every command of tunectl shares: global flags, the connection, and how a run ends.
#ifndef KILN_CLIENT_TUNECTL_COMMAND_H_
#define KILN_CLIENT_TUNECTL_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/kiln_client.h"

namespace kiln::tunectl {

// Stable; documented in client/README.md and in `tunectl --help`.
enum ExitCode {
  kExitOk = 0,
  kExitSweepFailed = 1,  // a sweep failed, or has no winner
  kExitUsage = 2,        // flags, sweep file, kernel: the caller's mistake
  kExitNotFound = 3,     // no such sweep, winner, config or file
  kExitUnavailable = 4,  // no coordinator answers
  kExitCancelled = 5,    // cancelled, or --timeout passed
  kExitRefused = 6,      // the farm or the disk is full, or the state does not allow it
  kExitCorrupt = 7,      // bytes fail their digest
  kExitInternal = 70,    // a bug, here or in the farm
};

int ExitCodeOf(const absl::Status& status);
int ExitCodeOf(client::SweepState state);

class EmbeddedFarm;

// Global flags, and the command to run once they are all parsed.
struct Context {
  std::string server;
  std::string store;  // of `tune`: commands look at it instead of asking a server
  bool json = false;
  bool quiet = false;
  double timeout_seconds = 0;
  double reconnect_seconds = 90;
  client::CancelToken cancel;
  std::function<int()> run;
  CLI::App* app = nullptr;
  mutable std::shared_ptr<EmbeddedFarm> farm;

  // With `store`, starts a coordinator on it, which lives as long as the context.
  absl::StatusOr<std::unique_ptr<client::Client>> Connect() const;
  client::CallOptions Options() const;
};

// What to do after a --timeout that passed, in place of the general advice.
absl::Status AdviseOnTimeout(const absl::Status& status, const std::string& advice);

// Prints the error for people on stderr, or as {"error": {...}} on stdout with --json; returns the
// exit code.
int Fail(const Context& context, const absl::Status& status);

// Adds a subcommand with its help: one line, a paragraph, and examples (lines).
CLI::App* AddCommand(Context* context, const std::string& name, const std::string& summary,
                     const std::string& text, const std::vector<std::string>& examples);

// What submit and tune share: which sweeps of a file, and what to change in them.
struct SweepFlags {
  std::string file;
  bool from_misses = false;           // instead of a file
  int most = 0;                       // of the misses: so many; 0 = all
  std::vector<std::string> only;      // names, or parts of names
  std::vector<std::string> settings;  // NAME=VALUE
  bool fresh = false;
  bool one = false;  // more than one sweep is an error
  std::string user;
  int priority = 0;
  CLI::Option* priority_option = nullptr;
  CLI::Option* file_option = nullptr;
  CLI::Option* set_option = nullptr;
};
void AddSweepFlags(CLI::App* command, SweepFlags* flags);
// Those of them that say which sweeps are meant, and who asks: --only, --set, --one, --user.
void AddChoiceFlags(CLI::App* command, SweepFlags* flags);
// Adds --from-misses in place of the file.
void AddFromMissesFlags(CLI::App* command, SweepFlags* flags);
absl::StatusOr<std::vector<client::SweepSpec>> LoadSweeps(const SweepFlags& flags);
// What the flags choose of `all`, and change in it; `source` names where they come from.
absl::StatusOr<std::vector<client::SweepSpec>> ChooseSweeps(std::vector<client::SweepSpec> all,
                                                            const std::string& source,
                                                            const SweepFlags& flags);
// The misses as sweeps, most frequent first; empty when there are none.
absl::StatusOr<std::vector<client::SweepSpec>> SweepsFromMisses(const Context& context,
                                                                client::Client* client,
                                                                const SweepFlags& flags);
// Says that there is nothing to tune; returns the exit code.
int NoMisses(const Context& context);

// One function a file: each adds its commands to `context->app`.
void AddSubmitCommands(Context* context);     // submit, watch
void AddTuneCommand(Context* context);        // tune
void AddFetchCommands(Context* context);      // fetch, lookup
void AddMissesCommand(Context* context);      // misses
void AddBarsCommand(Context* context);        // bars
void AddListCommands(Context* context);       // list, show, workers, cancel
void AddExplainCommand(Context* context);     // explain
void AddAdminCommands(Context* context);      // gc, backup
void AddCompletionCommand(Context* context);  // completion

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_COMMAND_H_
