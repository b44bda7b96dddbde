#include "worker/profile/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace kiln::worker {
namespace {

constexpr int kMostReads = 4096;  // records of one look

}  // namespace

std::unique_ptr<KernelLog> KernelLog::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return nullptr;
  (void)::lseek(fd, 0, SEEK_END);
  return std::unique_ptr<KernelLog>(new KernelLog(fd));
}

KernelLog::~KernelLog() { ::close(fd_); }

int XidOfLine(const std::string& line, const std::string& bus_id) {
  constexpr absl::string_view kHead = "NVRM: Xid (PCI:";
  const size_t at = absl::string_view(line).find(kHead);
  if (at == absl::string_view::npos) return 0;
  const absl::string_view rest = absl::string_view(line).substr(at + kHead.size());
  const size_t close = rest.find("):");
  if (close == absl::string_view::npos) return 0;
  // Domains have four digits or eight, and a function may follow: bus and device tell.
  const auto bus_and_device = [](absl::string_view id) {
    id = id.substr(0, id.find('.'));
    return absl::AsciiStrToLower(id.size() > 5 ? id.substr(id.size() - 5) : id);
  };
  if (bus_and_device(rest.substr(0, close)) != bus_and_device(bus_id)) return 0;
  absl::string_view number = absl::StripLeadingAsciiWhitespace(rest.substr(close + 2));
  number = number.substr(0, number.find_first_not_of("0123456789"));
  int xid = 0;
  return absl::SimpleAtoi(number, &xid) ? xid : 0;
}

std::vector<int> KernelLog::TakeXids(const std::string& bus_id) {
  std::vector<int> found;
  char buffer[8192];
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t got = ::read(fd_, buffer, sizeof(buffer));
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;  // records were overwritten
    if (got <= 0) break;
    rest_.append(buffer, static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
      if (const int xid = XidOfLine(rest_.substr(begin, end - begin), bus_id); xid != 0) {
        found.push_back(xid);
      }
      begin = end + 1;
    }
    rest_.erase(0, begin);
  }
  return found;
}

}  // namespace kiln::worker
