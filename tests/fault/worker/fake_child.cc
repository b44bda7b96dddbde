// A child whose misbehaviour is scripted by the config of each candidate: "act=crash,id=3"; the
// runner takes the act of an empty config from the bundle's path.
//
//   fake_child echo      answers each frame with the same bytes; the frame may be a command
//   fake_child compile   speaks as kiln-compile
//   fake_child runner    speaks as kiln-runner
//   fake_child mute      never says hello
//
// Acts: ok, fail, crash, abort, exit, hang, flood (a stderr flood, then ok), flood-hang, bomb
// (memory), babble (bytes that are no text, then a crash), truncate, garbage, oversize, bad-digest,
// empty, kill-once and kill-twice (SIGKILL to itself, counted in the file KILN_FAKE_STATE names),
// slow (20 ms), orphan (leaves a grandchild behind and crashes), wrong-name. Of the runner: drift
// (its device is out from here on), broken (it ends as its device does), late (it ends as a launch
// does not), company (it cannot be
// measured on now).
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compiler/base/config.h"
#include "compiler/base/digest.h"
#include "compiler/base/subprocess.h"
#include "kiln/v1/child.pb.h"
#include "worker/profile/exit_codes.h"

namespace kiln::worker {
namespace {

FrameChannel channel(kChildChannelFd);

void Write(const google::protobuf::MessageLite& message) {
  if (!channel.Write(message.SerializeAsString()).ok()) std::_Exit(9);
}

void WriteRaw(const std::string& bytes) {
  [[maybe_unused]] ssize_t ignored = ::write(kChildChannelFd, bytes.data(), bytes.size());
}

std::string Value(const std::string& config_text, const std::string& name) {
  absl::StatusOr<Config> config = Config::Parse(config_text);
  if (!config.ok()) return "";
  const std::string* value = config->Find(name);
  return value == nullptr ? "" : *value;
}

[[noreturn]] void Hang() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(3600));
}

void Flood() {
  std::string line(1 << 16, 'x');
  for (int i = 0; i < 256; ++i) std::fwrite(line.data(), 1, line.size(), stderr);
  std::fprintf(stderr, "\nlast words\n");
}

[[noreturn]] void Bomb() {
  std::vector<std::unique_ptr<char[]>> blocks;
  while (true) {
    constexpr size_t kBlock = 16 << 20;
    blocks.push_back(std::make_unique<char[]>(kBlock));
    std::memset(blocks.back().get(), 1, kBlock);
  }
}

// Dies by SIGKILL in the first `times` lives.
void KillCounted(int times) {
  const char* path = std::getenv("TMPDIR");
  std::string file = std::string(path == nullptr ? "/tmp" : path) + "/fake_child_lives";
  int lives = 0;
  std::ifstream(file) >> lives;
  if (lives >= times) return;
  std::ofstream(file) << lives + 1;
  ::kill(::getpid(), SIGKILL);
}

void LeaveOrphan() {
  if (::fork() == 0) Hang();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// Does what `act` says; returns when the candidate is to end well.
void Act(const std::string& act) {
  if (act == "crash") {
    std::fprintf(stderr, "about to crash\n");
    *reinterpret_cast<volatile int*>(16) = 1;
  }
  if (act == "babble") {
    std::fprintf(stderr, "caf\xc3\xa9 \xff\xfe\xc3\n");
    std::abort();
  }
  if (act == "abort") std::abort();
  if (act == "exit") std::_Exit(3);
  if (act == "broken") {
    std::fprintf(stderr, "the driver: lost\nXid 79 (fallen off the bus)\n");
    std::_Exit(kiln::worker::kDeviceBroken);
  }
  if (act == "late") {
    std::fprintf(stderr, "a launch did not come back after 10 s\n");
    std::_Exit(kiln::worker::kLaunchStopped);
  }
  if (act == "lost") {
    std::fprintf(stderr, "a launch: its context did not come back\n");
    std::_Exit(kiln::worker::kDeviceLost);
  }
  if (act == "hang") Hang();
  if (act == "flood") Flood();
  if (act == "flood_hang") {
    while (true) Flood();
  }
  if (act == "bomb") Bomb();
  if (act == "truncate") {
    WriteRaw(std::string("\x40\x00\x00\x00half", 8));
    std::_Exit(0);
  }
  if (act == "garbage") {
    WriteRaw(std::string("\x08\x00\x00\x00", 4) + "\xff\xff\xff\xff\xff\xff\xff\xff");
    Hang();
  }
  if (act == "oversize") {
    WriteRaw("\xff\xff\xff\xff");
    Hang();
  }
  if (act == "kill_once") KillCounted(1);
  if (act == "kill_twice") KillCounted(2);
  if (act == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (act == "orphan") {
    LeaveOrphan();
    std::abort();
  }
}

v1::CompileResponse Compile(const v1::CompileRequest& request) {
  std::string act = Value(request.config(), "act");
  v1::CompileResponse response;
  if (act == "fail") {
    response.mutable_failure()->set_stage(v1::Failure::ELABORATE);
    response.mutable_failure()->set_message("scripted failure");
    return response;
  }
  Act(act);
  if (act == "empty") return response;
  response.mutable_bundle()->set_name("kernel");
  response.mutable_bundle()->set_object("object of " + request.config());
  std::string bytes = response.bundle().SerializeAsString();
  response.mutable_artifact()->set_digest(Sha256Hex(act == "bad_digest" ? "other" : bytes));
  response.mutable_artifact()->set_size_bytes(static_cast<int64_t>(bytes.size()));
  return response;
}

void Profile(const v1::ProfileRequest& request) {
  for (const v1::ProfileCandidate& candidate : request.candidates()) {
    // A candidate without tunables says what to do in its bundle's path.
    std::string act =
        candidate.config().empty() ? candidate.bundle_path() : Value(candidate.config(), "act");
    v1::ProfileEvent event;
    event.set_started(act == "wrong_name" ? "nobody=1" : candidate.config());
    Write(event);
    Act(act);
    if (act == "drift" || act == "company") {
      event.mutable_result()->set_config(candidate.config());
      event.mutable_result()->set_not_run(true);
      Write(event);
      act == "drift" ? event.set_quarantined("13 % slower") : event.set_unavailable("process 7");
      return Write(event);
    }
    v1::CandidateResult* result = event.mutable_result();
    result->set_config(candidate.config());
    if (act == "fail") {
      result->mutable_failure()->set_stage(v1::Failure::CHECK);
      result->mutable_failure()->set_message("scripted failure");
    } else {
      result->mutable_measurement()->set_config(candidate.config());
      result->mutable_measurement()->set_median_ns(1000);
    }
    Write(event);
  }
  v1::ProfileEvent done;
  done.set_done(true);
  Write(done);
}

template <typename Request, typename Serve>
int ServeAll(Serve serve) {
  while (true) {
    absl::StatusOr<std::optional<std::string>> frame = channel.Read();
    if (!frame.ok()) return 4;
    if (!frame->has_value()) return 0;
    Request request;
    if (!request.ParseFromString(**frame)) return 5;
    serve(request);
  }
}

int Echo() {
  while (true) {
    absl::StatusOr<std::optional<std::string>> frame = channel.Read();
    if (!frame.ok()) return 4;
    if (!frame->has_value()) return 0;
    Act(**frame);
    if (**frame == "environment") {
      const char* secret = std::getenv("KILN_TEST_SECRET");
      (void)channel.Write(secret == nullptr ? "clean" : secret);
    } else if (!channel.Write(**frame).ok()) {
      return 6;
    }
  }
}

int Main(const std::string& role) {
  if (role == "mute") Hang();
  if (role == "echo") return Echo();
  v1::ChildHello hello;
  hello.set_compiler_build("fake-build-1");
  hello.add_compile_targets("x86-64");
  v1::ArchRecord* arch = hello.add_archs();
  arch->set_name("x86-64-v3");
  arch->set_record("fake");
  Write(hello);
  if (role == "compile") {
    return ServeAll<v1::CompileRequest>(
        [](const v1::CompileRequest& request) { Write(Compile(request)); });
  }
  return ServeAll<v1::ProfileRequest>(Profile);
}

}  // namespace
}  // namespace kiln::worker

int main(int argc, char** argv) {
  kiln::EnterChild();
  // Called with --flags of the real children too: the role is the first bare word.
  std::string role = "echo";
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') role = argv[i];
  }
  const char* name = std::strrchr(argv[0], '/');
  if (name != nullptr && std::strstr(name, "runner") != nullptr) role = "runner";
  if (name != nullptr && std::strstr(name, "compile") != nullptr) role = "compile";
  return kiln::worker::Main(role);
}
