// The roofline with every candidate of a sweep on it, as a self-contained SVG.
#ifndef KILN_CLIENT_TUNECTL_ROOFLINE_SVG_H_
#define KILN_CLIENT_TUNECTL_ROOFLINE_SVG_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/kiln_client.h"

namespace kiln::tunectl {

// Log-log: operations for each byte from memory against operations a second. Roofs are the arch
// record's (memory levels slanted, units flat). A hollow circle is a prediction, a filled one a
// measurement of the same candidate, joined by a line; the winner is larger; failed candidates are
// crosses at their prediction. For a kernel without floating-point work an "operation" is a byte
// that must move. kFailedPrecondition when no candidate has a hint with numbers.
absl::StatusOr<std::string> RooflineSvg(const client::SweepDetails& details);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_ROOFLINE_SVG_H_
