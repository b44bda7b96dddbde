#include "proto/address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace kiln {

absl::Status CheckAddress(absl::string_view address, bool allow_port_zero) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("server address '", address, "': ", why,
                                                   "; write unix:/absolute/path or host:port"));
  };
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    if (path.empty() || path[0] != '/') return bad("the socket's path is not absolute");
    if (path.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return bad("the socket's path is longer than 107 bytes");
    }
    return absl::OkStatus();
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return bad("there is no port");
  const absl::string_view host = address.substr(0, colon), digits = address.substr(colon + 1);
  if (host.empty()) return bad("there is no host");
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const absl::string_view name = bracketed ? host.substr(1, host.size() - 2) : host;
  // Of an IPv6 host the zone too, as in fe80::1%eth0.
  const bool plain = absl::c_all_of(name, [&](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' ||
           (bracketed && (c == ':' || c == '%'));
  });
  if (!plain && absl::c_all_of(name, [](char c) { return absl::ascii_isxdigit(c) || c == ':'; })) {
    return bad("an IPv6 host needs brackets");
  }
  if (!plain || name.front() == '-') return bad("the host is no host name");
  int32_t port = 0;
  if (!absl::c_all_of(digits, absl::ascii_isdigit) || !absl::SimpleAtoi(digits, &port) ||
      port < (allow_port_zero ? 0 : 1) || port > 65535) {
    return bad("the port is not a number from 1 to 65535");
  }
  return absl::OkStatus();
}

bool IsLocalAddress(absl::string_view address) {
  if (!UnixPath(address).empty()) return true;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr parsed;
  if (inet_pton(AF_INET, std::string(host).c_str(), &parsed) != 1) return false;
  return (ntohl(parsed.s_addr) >> 24) == 127;
}

std::string UnixPath(absl::string_view address) {
  return absl::ConsumePrefix(&address, "unix:") ? std::string(address) : "";
}

}  // namespace kiln
