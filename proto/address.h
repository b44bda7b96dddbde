// Where a coordinator listens and a client calls: "unix:/absolute/path" or "host:port".
#ifndef KILN_PROTO_ADDRESS_H_
#define KILN_PROTO_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

inline constexpr absl::string_view kDefaultAddress = "127.0.0.1:7465";

// OK when `address` has one of the two forms; else kInvalidArgument that says what is wrong. Port 0
// ("any free one") is for those who listen.
absl::Status CheckAddress(absl::string_view address, bool allow_port_zero = false);

// True for a Unix socket and for a host that is this machine alone: localhost, 127.x.y.z, [::1].
bool IsLocalAddress(absl::string_view address);

// The path of a "unix:" address, else "".
std::string UnixPath(absl::string_view address);

}  // namespace kiln

#endif  // KILN_PROTO_ADDRESS_H_
