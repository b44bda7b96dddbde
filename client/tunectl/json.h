// Everything that tunectl prints with --json. The keys are stable and documented in
// client/README.md; keys may be added.
#ifndef KILN_CLIENT_TUNECTL_JSON_H_
#define KILN_CLIENT_TUNECTL_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "client/kiln_client.h"

namespace kiln::tunectl {

nlohmann::json ToJson(const client::Failure& failure);
nlohmann::json ToJson(const client::Artifact& artifact);
nlohmann::json ToJson(const client::Measurement& measurement);
nlohmann::json ToJson(const client::Hint& hint);
nlohmann::json ToJson(const client::ShapeRange& range);
nlohmann::json ToJson(const client::RangeTable& table);
nlohmann::json ToJson(const client::SweepSpec& spec);
nlohmann::json ToJson(const client::Progress& progress);
nlohmann::json ToJson(const client::Candidate& candidate);
nlohmann::json ToJson(const client::WinnerKey& key);
nlohmann::json ToJson(const client::Winner& winner);
nlohmann::json ToJson(const client::LookupResult& result);
nlohmann::json ToJson(const client::Miss& miss);
nlohmann::json ToJson(const client::SweepSummary& summary);
nlohmann::json ToJson(const client::TimeAccount& time);
nlohmann::json ToJson(const client::SweepDetails& details);
nlohmann::json ToJson(const client::WorkerInfo& worker);
nlohmann::json ToJson(const client::Bar& bar);

// Prints `value` and a newline on stdout; `indent` -1 = one line. Bytes that are no UTF-8 are
// replaced.
void PrintJson(const nlohmann::json& value, int indent = 2);

}  // namespace kiln::tunectl

#endif  // KILN_CLIENT_TUNECTL_JSON_H_
