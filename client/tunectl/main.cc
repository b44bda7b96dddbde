// tunectl: the command line of a Kiln farm.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/did_you_mean.h"
#include "client/tunectl/command.h"
#include "proto/address.h"

namespace kiln::tunectl {
namespace {

constexpr char kFooter[] = R"(
EXIT CODES
  0   everything asked for was done
  1   a sweep failed: no candidate survived, or its deadline passed
  2   usage: flags, sweep file or kernel; the message says where
  3   not found: sweep, winner, config or file; lookup: some sweep has no winner
  4   no coordinator answers, or a program that tune started for itself ended
  5   cancelled, or --timeout passed
  6   refused: full, in use, the wrong state, or no worker that can take the sweep came
  7   corrupt: bytes fail their digest, or a store is damaged
  70  a bug in Kiln
With several sweeps it is the code of the first one that did not succeed.

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
  app->add_option(
         "--timeout", context->timeout_seconds,
         "give up when an answer, or the end of one sweep, takes more seconds, and say how far "
         "it was (default: 60 for short answers, never for sweeps and downloads)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber)
      ->check([](const std::string& seconds) {
        double value = 0;
        const bool finite = absl::SimpleAtod(seconds, &value) && std::isfinite(value);
        return finite ? "" : "not a number of seconds";
      });
  app->add_option("--reconnect", context->reconnect_seconds,
                  "how long a watch goes on trying when its coordinator is gone")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

bool HasJsonFlag(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* argument) { return std::strcmp(argument, "--json") == 0; });
}

// CLI11 says "A subcommand is required" for one that it does not know.
std::string UsageText(const CLI::App& app, const CLI::ParseError& error) {
  if (!app.get_subcommands().empty()) return error.what();
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  for (const std::string& word : app.remaining()) {
    if (word.empty() || word[0] == '-') continue;
    return absl::StrCat("there is no command '", word, "'", client::DidYouMean(word, known),
                        "; run with --help for the list");
  }
  return absl::StrCat(error.what(), "; run with --help for more");
}

int EndOfParsing(const CLI::App& app, const CLI::ParseError& error, Context* context, bool json) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    app.exit(error);
    return kExitOk;
  }
  context->json = json;
  return Fail(*context, absl::InvalidArgumentError(UsageText(app, error)));
}

// Whoever read standard output has gone, as `head` does when it has enough.
bool NobodyReads() {
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

// Output that did not arrive is no success. A reader that went before its end knows that itself.
int FlushOutput(int code) {
  std::cout.flush();
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.good();
  if (!lost) return code;
  const int why = errno;
  if (!NobodyReads()) {
    std::fprintf(stderr, "tunectl: cannot write the output%s%s\n", why != 0 ? ": " : "",
                 why != 0 ? std::strerror(why) : "");
  }
  return code == kExitOk ? kExitRefused : code;
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
  AddMissesCommand(&context);
  AddBarsCommand(&context);
  AddListCommands(&context);
  AddExplainCommand(&context);
  AddAdminCommands(&context);
  AddCompletionCommand(&context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return FlushOutput(EndOfParsing(app, error, &context, HasJsonFlag(argc, argv)));
  }
  CancelOnSignals(context.cancel);
  return FlushOutput(context.run());
}

}  // namespace
}  // namespace kiln::tunectl

int main(int argc, char** argv) { return kiln::tunectl::Main(argc, argv); }
