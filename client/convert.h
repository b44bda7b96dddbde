// Between the public structs of kiln_client.h and the messages that travel.
#ifndef KILN_CLIENT_CONVERT_H_
#define KILN_CLIENT_CONVERT_H_

#include "client/kiln_client.h"
#include "kiln/v1/tuning.pb.h"

namespace kiln::client {

v1::SweepSpec ToProto(const SweepSpec& spec);
// Its kernel's text with all that it imports.
std::string ClosedSource(const SweepSpec& spec);
SweepSpec FromProto(const v1::SweepSpec& spec);

Candidate FromProto(const v1::Candidate& candidate);
Winner FromProto(const v1::Winner& winner);
WinnerKey FromProto(const v1::WinnerKey& key);
v1::Match ToProto(Match match);
LookupResult FromProto(const v1::LookupWinnerResponse& response);
Miss FromProto(const v1::Miss& miss);
Progress FromProto(const v1::SweepProgress& progress);
SweepEvent FromProto(const v1::SweepEvent& event);
SweepSummary FromProto(const v1::SweepSummary& summary);
SweepDetails FromProto(const v1::GetSweepResponse& response);
WorkerInfo FromProto(const v1::WorkerInfo& worker);
Bar FromProto(const v1::Bar& bar);
Cancelled FromProto(const v1::CancelSweepResponse& response);
SweepState FromProto(v1::SweepState state);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CONVERT_H_
