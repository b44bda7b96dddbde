// Runs programs and watches them, for tests of whole processes.
#ifndef KILN_TESTS_E2E_RPC_PROCESS_H_
#define KILN_TESTS_E2E_RPC_PROCESS_H_

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kiln::test {

inline std::string ReadText(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// build/bin, beside build/tests where this test lies.
inline std::string BinaryFolder() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return (self.parent_path().parent_path() / "bin").string();
}

// A child with its output in files; killed when the object goes away.
class Process {
 public:
  Process(std::vector<std::string> argv, const std::string& log,
          const std::map<std::string, std::string>& environment = {})
      : log_(log) {
    std::vector<char*> pointers;
    for (std::string& argument : argv) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const int out = open((log + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open((log + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out, 1);
    dup2(err, 2);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  ~Process() {
    Signal(SIGKILL);
    Wait(absl::Seconds(10));
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int number) {
    if (pid_ > 0 && !ended_) kill(pid_, number);
  }
  // The exit code, 1000 + signal, or -1 when it has not ended after `limit`.
  int Wait(absl::Duration limit) {
    const absl::Time end = absl::Now() + limit;
    while (!ended_) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
      } else if (absl::Now() > end) {
        return -1;
      } else {
        absl::SleepFor(absl::Milliseconds(5));
      }
    }
    return code_;
  }
  std::string out() const { return ReadText(log_ + ".out"); }
  std::string err() const { return ReadText(log_ + ".err"); }
  pid_t pid() const { return pid_; }

  // Waits until its stderr holds `text`.
  bool AwaitLog(const std::string& text, absl::Duration limit = absl::Seconds(20)) {
    const absl::Time end = absl::Now() + limit;
    while (err().find(text) == std::string::npos) {
      if (absl::Now() > end || Wait(absl::ZeroDuration()) != -1) {
        return err().find(text) != std::string::npos;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }

 private:
  const std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int code_ = -1;
};

// The body that GET http://127.0.0.1:port/path answers, with its header; "" when nobody does.
inline std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
    if (write(fd, request.data(), request.size()) > 0) {
      char buffer[65536];
      ssize_t got = 0;
      while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
        answer.append(buffer, static_cast<size_t>(got));
      }
    }
  }
  close(fd);
  return answer;
}

// A port that was free a moment ago.
inline int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

}  // namespace kiln::test

#endif  // KILN_TESTS_E2E_RPC_PROCESS_H_
