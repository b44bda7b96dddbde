#include "compiler/lang/interleave_parts.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/barrier_state.h"
#include "compiler/lang/follow_barriers.h"
#include "compiler/lang/rank_parts.h"
#include "compiler/lang/schedule_parts.h"

namespace kiln::lang {
namespace {

using ir::Stmt;
using Parts = std::pair<const ir::StmtNode*, size_t>;  // a Seq and where in it they begin
using Events = std::vector<BarrierEvent>;

struct Region {
  size_t count = 0;  // parts
  std::map<std::pair<BarrierTurn, BarrierTurn>, size_t> known;
  std::vector<PartNeed> needs;  // in the order in which they were seen
};

// Runs parts beside each other, and notes what their waits need.
class BesideEachOther : public BarrierListener {
 public:
  explicit BesideEachOther(const ir::Program& program) : program_(program) {}

  std::map<Parts, Region>& regions() { return regions_; }

  bool KeepsParts() const override { return true; }
  void BeginBlock() override {
    state_ = BarrierState();
    last_.clear();
  }
  absl::Status On(const BarrierEvent& event) override {
    if (!event.is_wait) return CheckArrival(program_, event, state_.Arrive(event));
    if (state_.IsOver(event)) return absl::OkStatus();
    return Stuck({&event}, {""});
  }
  absl::Status OnParts(const ir::Seq& seq, size_t first, const std::vector<Events>& parts) override;

 private:
  struct Arrivals {  // of the parts, at one barrier
    std::vector<std::pair<size_t, const BarrierEvent*>> of_last, of_this;  // phase
  };

  absl::Status Arrive(size_t part, const BarrierEvent& event) {
    Arrivals& arrivals = last_[{event.barrier.get(), event.which}];
    arrivals.of_this.emplace_back(part, &event);
    const BarrierState::Ended ended = state_.Arrive(event);
    if (ended.phases > 0) arrivals.of_last = std::exchange(arrivals.of_this, {});
    return CheckArrival(program_, event, ended);
  }

  void Need(size_t part, const BarrierEvent& wait, Region* region) {
    for (const auto& [from, arrival] : last_[{wait.barrier.get(), wait.which}].of_last) {
      if (from == part) continue;
      PartNeed need = {{arrival->stmt, arrival->turns}, {wait.stmt, wait.turns}};
      if (region->known.emplace(std::make_pair(need.arrival, need.wait), 0).second) {
        region->needs.push_back(std::move(need));
      }
    }
  }

  absl::Status Stuck(const std::vector<const BarrierEvent*>& waits,
                     const std::vector<std::string>& who) const {
    std::string others;
    for (size_t i = 1; i < waits.size(); ++i) {
      absl::StrAppend(&others, i == 1 ? "; " : ", ", who[i], " wait for ", state_.Tell(*waits[i]),
                      " in line ", waits[i]->stmt->loc.line);
    }
    return NeverEnds(program_, *waits[0], state_, who[0], others);
  }

  const ir::Program& program_;
  BarrierState state_;
  std::map<std::pair<const ir::BufferNode*, int64_t>, Arrivals> last_;  // in these parts
  std::map<Parts, Region> regions_;
};

std::string NameOf(const Stmt& part) { return NameOfPart(*part.As<ir::OnThreads>()); }

absl::Status BesideEachOther::OnParts(const ir::Seq& seq, size_t first,
                                      const std::vector<Events>& parts) {
  Region& region = regions_[{&seq, first}];
  region.count = parts.size();
  last_.clear();
  std::vector<size_t> done(parts.size(), 0);
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t p = 0; p < parts.size(); ++p) {
      for (; done[p] < parts[p].size(); ++done[p], moves = true) {
        const BarrierEvent& event = parts[p][done[p]];
        if (!event.is_wait) {
          KILN_RETURN_IF_ERROR(Arrive(p, event));
        } else if (state_.IsOver(event)) {
          Need(p, event, &region);
        } else {
          break;
        }
      }
    }
  }
  last_.clear();
  std::vector<const BarrierEvent*> waits;
  std::vector<std::string> who;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (done[p] == parts[p].size()) continue;
    waits.push_back(&parts[p][done[p]]);
    who.push_back(NameOf(seq.stmts[first + p]));
  }
  return waits.empty() ? absl::OkStatus() : Stuck(waits, who);
}

// Registers that one part writes and another uses.
absl::Status CheckRegisters(const ir::Program& program, const std::vector<Stmt>& parts) {
  const auto own = [](const ir::Buffer& b) {
    return b->scope == ir::Scope::kFragment || b->scope == ir::Scope::kVar ||
           b->scope == ir::Scope::kLocal;
  };
  for (const Stmt& part : parts) {
    std::set<ir::Buffer> written;
    for (const ir::Buffer& b : ir::BuffersWritten(part)) {
      if (own(b)) written.insert(b);
    }
    for (const Stmt& other : parts) {
      if (other.same_as(part)) continue;
      for (const auto& used : {ir::BuffersRead(other), ir::BuffersWritten(other)}) {
        for (const ir::Buffer& b : used) {
          if (written.count(b) == 0) continue;
          return ir::ErrorAt(
              program, part->loc,
              absl::StrCat("'", b->name, "' is in registers, written by ", NameOf(part),
                           " and used by ", NameOf(other), ", which run beside each other"),
              "give each part one of its own, and pass values through shared memory",
              absl::StatusCode::kUnimplemented);
        }
      }
    }
  }
  return absl::OkStatus();
}

class Interleaver : public ir::Mutator {
 public:
  Interleaver(const ir::Program& program, std::map<Parts, Region>* regions)
      : program_(program), regions_(*regions) {}

  const absl::Status& status() const { return status_; }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* seq = s.As<ir::Seq>();
    if (seq == nullptr || !status_.ok()) return RebuildStmt(s);
    std::vector<Stmt> out;
    for (size_t i = 0; i < seq->stmts.size(); ++i) {
      const auto found = regions_.find({seq, i});
      if (found == regions_.end()) {
        out.push_back(Mutate(seq->stmts[i]));
        continue;
      }
      const auto begin = seq->stmts.begin() + static_cast<std::ptrdiff_t>(i);
      const std::vector<Stmt> parts(begin,
                                    begin + static_cast<std::ptrdiff_t>(found->second.count));
      for (const Stmt& x : Schedule(parts, found->second.needs)) out.push_back(x);
      i += parts.size() - 1;
    }
    return ir::MakeStmt<ir::Seq>(s->loc, std::move(out));
  }

 private:
  std::vector<Stmt> Schedule(const std::vector<Stmt>& parts, const std::vector<PartNeed>& needs) {
    status_ = CheckRegisters(program_, parts);
    if (!status_.ok()) return parts;
    absl::StatusOr<std::vector<Stmt>> ordered = ScheduleParts(program_, parts, needs);
    if (ordered.ok()) return *std::move(ordered);
    status_ = ordered.status();
    return parts;
  }

  const ir::Program& program_;
  std::map<Parts, Region>& regions_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Stmt> InterleaveParts(const ir::Program& program, const ir::Launch& launch) {
  BesideEachOther beside(program);
  KILN_RETURN_IF_ERROR(FollowBarriers(program, launch, &beside));
  if (beside.regions().empty()) return Stmt();
  Interleaver interleaver(program, &beside.regions());
  const Stmt body = interleaver.Mutate(launch.body);
  KILN_RETURN_IF_ERROR(interleaver.status());
  return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads, body,
                                  launch.annotations);
}

}  // namespace kiln::lang
