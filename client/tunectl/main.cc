// tunectl: the command line of a Kiln farm.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/tunectl/command.h"
#include "proto/address.h"

namespace kiln::tunectl {
namespace {

constexpr char kFooter[] = R"(
EXIT CODES
  0   everything asked for was done
  1   a sweep failed: no candidate survived
  2   usage: flags, sweep file or kernel are wrong; the message says where
  3   not found: no such sweep, winner, config or file
  4   no coordinator answers
  5   cancelled, or the deadline or --timeout passed
  6   refused: something is full, in use, or in the wrong state
  7   corrupt: bytes fail their digest
  70  a bug in Kiln

ENVIRONMENT
  KILN_SERVER     the farm, when --server is not given
  KILN_BIN_DIR    where tune finds kiln-coordinator and kiln-worker
  XDG_CACHE_HOME  tune keeps its store in $XDG_CACHE_HOME/kiln (else ~/.cache/kiln)

EXAMPLES
  tunectl tune gemm.yaml -o kernels         tune here, write kernels/kiln_matmul.so, .h, .json
  tunectl submit gemm.yaml --watch          on a farm
  tunectl explain 3f9ac1d2 --svg roof.svg   why the winner won
'tunectl COMMAND --help' tells more of each command.)";

// SIGINT and SIGTERM cancel what runs; a second one ends the process at once.
void CancelOnSignals(client::CancelToken cancel) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::thread([signals, cancel]() mutable {
    int number = 0;
    sigwait(&signals, &number);
    cancel.Cancel();
    sigwait(&signals, &number);
    _exit(128 + number);
  }).detach();
}

void AddGlobalFlags(CLI::App* app, Context* context) {
  context->server = std::string(kDefaultAddress);
  app->add_option("--server", context->server, "the farm: unix:/path or host:port")
      ->envname("KILN_SERVER")
      ->take_last()
      ->type_name("ADDRESS")
      ->capture_default_str();
  app->add_option("--store", context->store,
                  "look at the store of `tune` in DIR instead of asking a farm")
      ->type_name("DIR");
  app->add_flag("--json", context->json, "print JSON, for programs");
  app->add_flag("-q,--quiet", context->quiet, "no progress");
  app->add_option("--timeout", context->timeout_seconds,
                  "give up after this many seconds (default: 60 for short calls, never for long)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
}

int Main(int argc, char** argv) {
  CLI::App app("tunectl: tune tile kernels and fetch the winners", "tunectl");
  Context context;
  context.app = &app;
  app.set_version_flag("--version", "tunectl " KILN_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  AddGlobalFlags(&app, &context);
  AddTuneCommand(&context);
  AddSubmitCommands(&context);
  AddFetchCommands(&context);
  AddListCommands(&context);
  AddExplainCommand(&context);
  AddAdminCommands(&context);
  AddCompletionCommand(&context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kExitOk : kExitUsage;
  }
  CancelOnSignals(context.cancel);
  return context.run();
}

}  // namespace
}  // namespace kiln::tunectl

int main(int argc, char** argv) { return kiln::tunectl::Main(argc, argv); }
