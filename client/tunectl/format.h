// Numbers and tables for people.
#ifndef KILN_CLIENT_TUNECTL_FORMAT_H_
#define KILN_CLIENT_TUNECTL_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/kiln_client.h"

namespace kiln::tunectl {

std::string FormatNs(double ns);                         // "1.23 ms"; "-" for 0
std::string FormatSeconds(double seconds);               // "12.3 s", "4 min 10 s"
std::string FormatBytes(int64_t bytes);                  // "12.5 MiB"
std::string FormatAge(absl::Time time, absl::Time now);  // "5 min ago"
// Candidates that came to an end of their own, not by the end of their sweep.
int Settled(const client::Progress& progress);

std::string ShortSweep(const std::string& sweep);  // the first 12 digits

// "512.3 GFLOP/s", or "41.2 GB/s" for a kernel without floating-point work; "" when unknown.
std::string FormatRate(const client::Hint& hint, double ns);
// Time at the roofline over time taken, in percent: "83 % of the roofline"; "" when unknown.
std::string FormatRooflineShare(const client::Hint& hint, double ns);

// "64 candidates: 8 done, 50 slower, 6 the same program as another, 0 failed"; without their
// candidates those who did not come to the end are "skipped".
std::string FormatSlate(const client::SweepDetails& details);

// The last measurement's median in ns, that of the most precise round; 0 = not measured.
double MeasuredNs(const client::Candidate& candidate);

// The last measurement with hardware counters, or, where none has them, with a reason why; null
// where nothing was counted.
const client::Measurement* Counted(const client::Candidate& candidate);

// Columns as wide as their widest cell; the first row is the header.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// What was measured for a range: the configs under letters, and a line a size with the time of
// each. '*' marks the one that the object runs there.
std::string FormatRange(const client::RangeTable& table);

// Where the time of a sweep went: the sweep as a whole, then each device, several lines.
std::string FormatTime(const client::TimeAccount& time);

// How a measurement was taken, and a warning for each thing that may have changed its time; ""
// where nothing is known of it.
std::string FormatConditions(const client::Measurement& measurement);

// A winner in a few lines; of a range, which config runs at which sizes.
std::string FormatWinner(const client::Winner& winner);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_FORMAT_H_
