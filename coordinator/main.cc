// kiln-coordinator: flags and nothing else; the process is coordinator/rpc/daemon.h.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "compiler/target/arch.h"
#include "coordinator/rpc/daemon.h"
#include "coordinator/search/roofline_expander.h"
#include "proto/address.h"

namespace kiln {
namespace {

constexpr char kFooter[] = R"(
The RPC port is neither encrypted nor authenticated: whoever can connect can submit sweeps, and so
run code on workers. It is therefore a Unix socket (mode --socket-mode) or a loopback port, unless
--allow-remote says otherwise.

EXIT CODES
  0  ended by SIGTERM or SIGINT; nothing that was acknowledged is lost
  1  could not start for another reason
  2  usage
  3  another coordinator has the store, or its format is newer than this program
  4  an address cannot be listened on
  5  lost the store while running
  6  stored data is damaged; restore a backup

EXAMPLES
  kiln-coordinator --store /var/lib/kiln
  kiln-coordinator --store /var/lib/kiln --listen unix:/run/kiln/kiln.sock --metrics 127.0.0.1:9465
  kiln-coordinator --store /var/backups/kiln-2026-01-31     start from a backup)";

struct Flags {
  rpc::DaemonOptions daemon;
  std::string socket_mode = "0600";
  std::string log_level = "info";
  bool die_with_parent = false;
};

std::string CheckLocalMetrics(const std::string& address) {
  const absl::Status status = CheckAddress(address, /*allow_port_zero=*/true);
  if (!status.ok()) return std::string(status.message());
  if (!UnixPath(address).empty()) return "metrics need host:port";
  return "";
}

void AddFlags(CLI::App* app, Flags* flags) {
  rpc::DaemonOptions& daemon = flags->daemon;
  daemon.server.listen = {std::string(kDefaultAddress)};
  app->add_option("--store", daemon.store, "folder of the store; created when it is not there")
      ->required()
      ->type_name("DIR");
  app->add_option("--listen", daemon.server.listen,
                  "unix:/path or host:port (port 0: any free one); repeatable")
      ->allow_extra_args(false)
      ->type_name("ADDRESS")
      ->capture_default_str();
  app->add_flag("--allow-remote", daemon.server.allow_remote,
                "allow addresses that other machines can reach");
  app->add_option("--socket-mode", flags->socket_mode, "permissions of Unix sockets")
      ->type_name("OCTAL")
      ->check(CLI::IsMember({"0600", "0660", "0666"}))
      ->capture_default_str();
  app->add_option("--metrics", daemon.metrics,
                  "serve Prometheus metrics on host:port/metrics (default: none)")
      ->type_name("ADDRESS")
      ->check(CheckLocalMetrics);
  app->add_option("--blob-limit", daemon.blob_limit_bytes,
                  "bytes of stored artifacts, as in 20gb; unpinned ones above it are dropped "
                  "(default: 64gb)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app->add_option("--name", daemon.core.coordinator_name,
                  "the coordinator's name, for workers' logs")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option("--heartbeat-seconds", daemon.core.heartbeat_seconds,
                  "how often workers say that they live; a lease lasts two heartbeats")
      ->type_name("S")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
  app->add_option("--log-level", flags->log_level, "trace, debug, info, warn, error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app->add_flag("--die-with-parent", flags->die_with_parent,
                "end when the process that started this one ends");
}

// gRPC's own lines are for who debugs gRPC; what matters is in the statuses that it returns.
void QuietGrpc() { ::setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0); }

int Main(int argc, char** argv) {
  QuietGrpc();
  CLI::App app("kiln-coordinator: accepts sweeps, leases work, keeps winners", "kiln-coordinator");
  Flags flags;
  app.footer(kFooter);
  app.set_version_flag("--version", "kiln-coordinator " KILN_VERSION);
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? rpc::kExitOk : rpc::kExitUsage;
  }
  rpc::BlockEndSignals();
  if (flags.die_with_parent) prctl(PR_SET_PDEATHSIG, SIGKILL);
  flags.daemon.server.socket_mode = std::stoi(flags.socket_mode, nullptr, 8);
  flags.daemon.core.lease_seconds = 2 * flags.daemon.core.heartbeat_seconds;
  flags.daemon.core.reattach_seconds = 2 * flags.daemon.core.heartbeat_seconds;
  spdlog::set_default_logger(spdlog::stderr_logger_mt("kiln-coordinator"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  spdlog::flush_on(spdlog::level::info);
  for (const std::string& name : target::ArchNames()) flags.daemon.core.targets.insert(name);
  flags.daemon.core.targets.insert({"cpu", "gpu", "x86-64", "x86-64-v2"});
  search::RooflineExpander expander;
  return rpc::RunDaemon(flags.daemon, &expander);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
