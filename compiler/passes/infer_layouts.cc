#include "compiler/passes/infer_layouts.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <set>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/move.h"
#include "compiler/passes/find_meeting.h"
#include "compiler/passes/layout_roots.h"
#include "compiler/passes/layout_words.h"
#include "compiler/target/deal.h"

namespace kiln::passes {
namespace {

using layout::Ownership;
using layout::ThreadSet;
using layout::Witness;

struct State : LayoutsSoFar {
  std::vector<bool> done;  // by operation
  std::vector<Ownership> loops;
  std::vector<LayoutMove> moves;
  std::vector<LayoutDecision> story;
};

constexpr char kConflict[] = "kiln/layout-conflict";  // payload: which of Solver's conflicts

class Solver {
 public:
  Solver(const ir::Program& program, const LayoutProblem& problem, LayoutCost cost, bool explain)
      : words_(program, problem), problem_(problem), cost_(cost), explain_(explain) {
    users_.resize(problem.fragments.size());
    for (size_t o = 0; o < problem.operations.size(); ++o) {
      for (const int f : FragmentsOf(problem.operations[o])) {
        users_[f].push_back(static_cast<int>(o));
      }
    }
  }

  absl::StatusOr<LayoutSolution> Solve() {
    State state;
    for (const Fragment& f : problem_.fragments) state.fragments.emplace_back(f.size);
    for (const Operation& op : problem_.operations) {
      KILN_RETURN_IF_ERROR(CheckRaces(op));
      state.loops.emplace_back(op.iterations);
    }
    state.set_by.assign(problem_.fragments.size(), -1);
    state.done.assign(problem_.operations.size(), false);
    Annotated(&state);
    KILN_RETURN_IF_ERROR(Floating(&state));
    KILN_RETURN_IF_ERROR(Strict(&state));
    std::deque<int> all(problem_.operations.size());
    std::iota(all.begin(), all.end(), 0);
    KILN_RETURN_IF_ERROR(Propagate(InferenceStep::kCommon, std::move(all), &state));
    KILN_RETURN_IF_ERROR(Free(&state));
    return Finish(std::move(state));
  }

  LayoutConflict ConflictOf(const absl::Status& refusal) const {
    const auto index = refusal.GetPayload(kConflict);
    size_t number = 0;
    if (!index || !absl::SimpleAtoi(std::string(*index), &number)) return {};
    return conflicts_[number];
  }

 private:
  // ---- errors ----

  // `status`, which says that an operation has no place, with what it is about.
  absl::Status About(absl::Status status, const Operation& op, int64_t iteration,
                     int64_t other_iteration, const std::vector<Ownership>& fragments) {
    if (!explain_) return status;
    status.SetPayload(kConflict, absl::Cord(absl::StrCat(conflicts_.size())));
    conflicts_.push_back({static_cast<int>(&op - problem_.operations.data()), iteration,
                          other_iteration, fragments});
    return status;
  }

  absl::Status CheckRaces(const Operation& op) {
    const std::optional<Meeting> meeting = FindMeeting(problem_, op);
    if (!meeting) return absl::OkStatus();
    return About(words_.Race(op, *meeting), op, meeting->first, meeting->second, {});
  }

  // ---- the steps ----

  void Annotated(State* state) {
    for (size_t f = 0; f < problem_.fragments.size(); ++f) {
      if (!problem_.fragments[f].annotated) continue;
      state->fragments[f] = *problem_.fragments[f].annotated;
      state->story.push_back(
          {InferenceStep::kStrict,
           -1,
           {static_cast<int>(f)},
           absl::StrCat("'", words_.NameOf(static_cast<int>(f)), "' is held as it is annotated")});
    }
  }

  absl::Status Floating(State* state) {
    for (size_t f = 0; f < problem_.fragments.size(); ++f) {
      if (!problem_.fragments[f].floating) continue;
      if (problem_.fragments[f].annotated) {
        KILN_RETURN_IF_ERROR(HeldByAll(static_cast<int>(f), state->fragments[f]));
        continue;
      }
      state->fragments[f] =
          Ownership::Replicated(problem_.fragments[f].size, problem_.fragments[f].threads);
      state->story.push_back(
          {InferenceStep::kFloating,
           -1,
           {static_cast<int>(f)},
           absl::StrCat("'", words_.NameOf(static_cast<int>(f)), "' is touched outside of loops: ",
                        words_.Everybody(static_cast<int>(f)), " holds it")});
    }
    return absl::OkStatus();
  }

  absl::Status HeldByAll(int f, const Ownership& held) const {
    const ThreadSet all = problem_.fragments[f].threads.Set();
    for (int64_t x = 0; x < held.size(); ++x) {
      if (held.Owners(x) == all) continue;
      return words_.NotHeldByAll(f, x, held.Owners(x));
    }
    return absl::OkStatus();
  }

  absl::Status Strict(State* state) {
    for (size_t o = 0; o < problem_.operations.size(); ++o) {
      const Operation& op = problem_.operations[o];
      if (op.kind == OperationKind::kGemm || op.kind == OperationKind::kMove) {
        KILN_RETURN_IF_ERROR(Anchor(static_cast<int>(o), state));
        continue;
      }
      if (op.kind != OperationKind::kLoop) continue;
      if (op.annotated) {
        std::vector<int> decided;
        KILN_RETURN_IF_ERROR(Adopt(InferenceStep::kStrict, static_cast<int>(o), *op.annotated,
                                   "runs as it is annotated", state, &decided));
        continue;
      }
      for (const int f : FragmentsOf(op)) {
        const auto varies = std::find_if(op.uses.begin(), op.uses.end(), [&](const auto& use) {
          return use.fragment == f && !use.constant;
        });
        if (varies != op.uses.end()) {
          state->story.push_back({InferenceStep::kStrict,
                                  static_cast<int>(o),
                                  {},
                                  absl::StrCat(op.name, ": no update, because ", varies->text,
                                               " is not a constant index")});
          continue;
        }
        if (state->fragments[f].any_decided()) continue;
        state->fragments[f] =
            Ownership::Replicated(problem_.fragments[f].size, problem_.fragments[f].threads);
        state->story.push_back(
            {InferenceStep::kStrict,
             static_cast<int>(o),
             {f},
             absl::StrCat(op.name, ": touches '", words_.NameOf(f),
                          "' at constant indices: ", words_.Everybody(f), " holds it")});
      }
    }
    return absl::OkStatus();
  }

  // The operands of a matrix product lie as its instruction wants them, or are moved for it.
  absl::Status Anchor(int o, State* state) {
    const Operation& op = problem_.operations[o];
    for (const FragmentUse& use : op.uses) {
      KILN_RETURN_IF_ERROR(use.writes ? CheckHeldByPart(op, use, *state)
                                      : HeldHere(op, use, *state).status());
    }
    std::vector<int> decided;
    std::string moved;
    for (size_t u = 0; u < op.uses.size(); ++u) {
      const FragmentUse& use = op.uses[u];
      const Ownership& anchor = op.anchors[u];
      Ownership& fragment = state->fragments[use.fragment];
      std::vector<int32_t> ids;
      bool agrees = true;
      for (int64_t i = 0; i < anchor.size(); ++i) {
        const int64_t x = use.elements[0][i];
        if (fragment.decided(x)) {
          agrees &= use.writes ? fragment.Owners(x) == anchor.Owners(i)
                               : (anchor.Owners(i) & ~fragment.Owners(x)).none();
          continue;
        }
        fragment.SetAs(x, anchor, i, &ids);
        if (decided.empty() || decided.back() != use.fragment) decided.push_back(use.fragment);
        if (state->set_by[use.fragment] < 0) state->set_by[use.fragment] = o;
      }
      if (agrees) continue;
      state->moves.push_back({o, static_cast<int>(u), MovePlanOf(op, u, fragment)});
      absl::StrAppend(&moved, "; ", use.text, " is moved (", state->moves.back().plan,
                      use.writes ? ", there and back" : "",
                      "): ", words_.WhoSet(*state, use.fragment));
    }
    state->done[o] = true;
    state->loops[o] = op.anchors[0];
    std::string who = absl::StrCat(NameOf(op.unit), " says who holds its operands");
    if (!op.why_unit.empty()) absl::StrAppend(&who, " (", op.why_unit, ")");
    state->story.push_back(
        {InferenceStep::kStrict, o, decided, absl::StrCat(words_.Told(op, who, decided), moved)});
    return absl::OkStatus();
  }

  // The cheapest way from where an operand is held to where its instruction wants it.
  std::string MovePlanOf(const Operation& op, size_t u, const Ownership& fragment) const {
    const FragmentUse& use = op.uses[u];
    const auto from = fragment.Pullback(use.elements[0]).ToLayout(), to = op.anchors[u].ToLayout();
    const Fragment& info = problem_.fragments[use.fragment];
    if (!from.ok() || !to.ok()) return "shared memory";
    const auto plan = layout::PlanMove(*from, *to, info.buffer->dtype.bits, info.shape.back());
    if (!plan.ok()) return "shared memory";
    using Kind = layout::MovePlan::Kind;
    if (plan->kind == Kind::kShuffle) {
      return absl::StrCat(plan->rounds.size(), " rounds of shuffles");
    }
    return plan->kind == Kind::kShared ? "shared memory" : "registers renamed";
  }

  // Breadth first: operations that touch what has just been decided come next, those with a written
  // fragment known before others.
  absl::Status Propagate(InferenceStep step, std::deque<int> queue, State* state) {
    while (!queue.empty()) {
      const int o = queue.front();
      queue.pop_front();
      std::vector<int> decided;
      KILN_RETURN_IF_ERROR(Visit(step, o, state, &decided));
      for (const int f : decided) {
        for (const int user : users_[f]) {
          if (user == o || std::find(queue.begin(), queue.end(), user) != queue.end()) continue;
          queue.push_back(user);
        }
      }
    }
    return absl::OkStatus();
  }

  // Decides what it can about one operation, or checks one that is decided.
  absl::Status Visit(InferenceStep step, int o, State* state, std::vector<int>* decided) {
    const Operation& op = problem_.operations[o];
    // Decided by Strict.
    if (op.kind == OperationKind::kGemm || op.kind == OperationKind::kMove) return absl::OkStatus();
    if (op.kind == OperationKind::kReduce) return VisitReduce(step, o, state, decided);
    if (state->done[o]) return Revise(o, state);
    std::optional<Ownership> loop;
    std::string why;
    KILN_RETURN_IF_ERROR(FromSource(op, *state, /*free=*/false, &loop, &why));
    if (loop) return Adopt(step, o, *std::move(loop), why, state, decided);
    state->story.push_back(
        {step, o, {}, absl::StrCat(op.name, ": waits, ", words_.WaitsFor(op, *state))});
    return absl::OkStatus();
  }

  // `loop` agrees with what is decided; what it decides itself is checked here.
  absl::Status Adopt(InferenceStep step, int o, Ownership loop, const std::string& why,
                     State* state, std::vector<int>* decided) {
    const Operation& op = problem_.operations[o];
    state->done[o] = true;
    state->loops[o] = std::move(loop);
    Complete(op, state->loops[o], o, state, decided);
    state->story.push_back({step, o, *decided, words_.Told(op, why, *decided)});
    return Revise(o, state);
  }

  // A loop that was placed before all of its fragments were decided may have to run elsewhere.
  absl::Status Revise(int o, State* state) {
    const Operation& op = problem_.operations[o];
    if (op.kind != OperationKind::kLoop || Agrees(op, state->loops[o], *state)) {
      return absl::OkStatus();
    }
    if (op.annotated) return AnnotationDisagrees(op, *state);
    KILN_ASSIGN_OR_RETURN(state->loops[o], Meet(op, *state));
    return absl::OkStatus();
  }

  absl::Status AnnotationDisagrees(const Operation& op, const State& state) {
    for (const FragmentUse& use : op.uses) {
      for (const auto& list : use.elements) {
        const auto witness =
            Mismatch(*op.annotated, list, state.fragments[use.fragment], use.writes);
        if (!witness) continue;
        return About(
            words_.Disagreement(op, witness->element, op.annotated->Owners(witness->element), use,
                                witness->other, state),
            op, witness->element, -1, state.fragments);
      }
    }
    return absl::OkStatus();
  }

  // Where a loop must run for one of its uses, judged by its first access of each iteration.
  Ownership LoopFor(const Operation& op, const FragmentUse& use, const State& state) const {
    const Ownership& fragment = state.fragments[use.fragment];
    const Ownership here = fragment.Within(op.threads.Set());
    Ownership loop(op.iterations);
    std::vector<int32_t> ids;
    const bool whole = WalksWhole(op, use, fragment.size());
    for (const auto& list : use.elements) {
      for (int64_t i = 0; i < op.iterations; ++i) {
        const int64_t element = whole ? i : list[i];
        if (element < 0 || !here.decided(element) || loop.decided(i)) continue;
        loop.SetAs(i, here, element, &ids);
      }
    }
    return Anywhere(op, std::move(loop));
  }

  // Whether an iteration touches elements of the fragment, and none that is decided: a guard left
  // them out where the others were. Whoever touches all of them knows better.
  static bool LeavesOpen(const Operation& op, const FragmentUse& use, const State& state) {
    const Ownership& fragment = state.fragments[use.fragment];
    if (fragment.complete()) return false;
    for (int64_t i = 0; i < op.iterations; ++i) {
      bool touches = false, decided = false;
      for (const auto& list : use.elements) {
        touches |= list[i] >= 0;
        decided |= list[i] >= 0 && fragment.decided(list[i]);
      }
      if (touches && !decided) return true;
    }
    return false;
  }

  // Whether iteration i touches element i of a fragment of as many, or, where a guard fails,
  // nothing: it may as well run where that element is held.
  static bool WalksWhole(const Operation& op, const FragmentUse& use, int64_t size) {
    if (size != op.iterations || use.elements.size() != 1) return false;
    for (int64_t i = 0; i < size; ++i) {
      if (use.elements[0][i] >= 0 && use.elements[0][i] != i) return false;
    }
    return true;
  }

  // Iterations that are not decided, because they touch nothing that is, run anywhere.
  static Ownership Anywhere(const Operation& op, Ownership loop) {
    if (loop.complete()) return loop;
    const Ownership plan = Ownership::Planned(loop.size(), op.threads, 1);
    for (int64_t i = 0; i < loop.size(); ++i) {
      if (!loop.decided(i)) loop.Set(i, plan.Owners(i), plan.Slot(i));
    }
    return loop;
  }

  // One access of one iteration to an element whose owners are decided.
  struct Demand {
    const FragmentUse* use = nullptr;
    int64_t element = 0;
    const ThreadSet* owners = nullptr;
  };

  std::vector<Demand> DemandsOf(const Operation& op, int64_t i, const State& state) const {
    std::vector<Demand> demands;
    for (const bool writes : {true, false}) {
      for (const FragmentUse& use : op.uses) {
        const Ownership& fragment = state.fragments[use.fragment];
        for (const auto& list : use.elements) {
          if (use.writes != writes || list[i] < 0 || !fragment.decided(list[i])) continue;
          demands.push_back({&use, list[i], &fragment.Owners(list[i])});
        }
      }
    }
    return demands;
  }

  // All threads that may run iteration i, where everything that it touches allows them: exactly the
  // owners of what it writes, who must hold what it reads. A refusal when there are none.
  absl::StatusOr<ThreadSet> ThreadsFor(const Operation& op, int64_t i,
                                       const std::vector<Demand>& demands, const State& state) {
    ThreadSet may = op.threads.Set();
    const Demand* by = nullptr;  // the demand that decided `may`
    for (const Demand& d : demands) {
      const ThreadSet met = may & *d.owners;
      const bool exact = by != nullptr && by->use->writes;
      const bool fits = d.use->writes ? met == *d.owners : met.any();
      if (exact ? (d.use->writes ? may != *d.owners : met != may) : !fits) {
        return About(NoPlace(op, i, may, by, d, state), op, i, -1, state.fragments);
      }
      if (met != may || by == nullptr) by = &d;
      may = met;
    }
    return may;
  }

  absl::Status NoPlace(const Operation& op, int64_t i, const ThreadSet& runs, const Demand* by,
                       const Demand& other, const State& state) const {
    if (by != nullptr && by->use == other.use) {
      return words_.DependsOnSerial(op, *other.use, i, other.element, runs, *other.owners, state);
    }
    return words_.Disagreement(op, i, runs, *other.use, other.element, state);
  }

  // Where everything that the loop touches allows it to run.
  absl::StatusOr<Ownership> Meet(const Operation& op, const State& state) {
    Ownership loop(op.iterations);
    for (int64_t i = 0; i < op.iterations; ++i) {
      const std::vector<Demand> demands = DemandsOf(op, i, state);
      if (demands.empty()) continue;
      KILN_ASSIGN_OR_RETURN(const ThreadSet threads, ThreadsFor(op, i, demands, state));
      loop.Set(i, threads, i);
    }
    return Anywhere(op, loop.Packed());
  }

  // The uses that can tell where a loop runs, best first: written and held once, read and held
  // once, written and held often; in free mode then read and held often, the one with most
  // dimensions first.
  std::vector<const FragmentUse*> Sources(const Operation& op, const State& state,
                                          bool free) const {
    const std::vector<int> touched = FragmentsOf(op);
    const auto constant = std::count_if(touched.begin(), touched.end(), [&](int f) {
      return std::all_of(op.uses.begin(), op.uses.end(),
                         [&](const auto& use) { return use.fragment != f || use.constant; });
    });
    const bool propagates = constant == 0 || static_cast<int64_t>(touched.size()) > constant;
    std::vector<std::pair<int, const FragmentUse*>> ranked;
    for (const FragmentUse& use : op.uses) {
      if (!state.fragments[use.fragment].any_decided()) continue;
      const bool once = state.fragments[use.fragment].Copies() == 1;
      const int rank = use.writes ? (once ? 0 : 2) : (once ? 1 : 3);
      if ((rank == 3 && !free) || (!use.writes && !propagates)) continue;
      ranked.push_back({rank, &use});
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<const FragmentUse*> sources;
    for (const auto& [rank, use] : ranked) sources.push_back(use);
    return sources;
  }

  // The first source that every other use agrees with; else where all of them meet.
  absl::Status FromSource(const Operation& op, const State& state, bool free,
                          std::optional<Ownership>* loop, std::string* why) {
    const std::vector<const FragmentUse*> sources = Sources(op, state, free);
    bool waits = sources.empty();
    for (const FragmentUse* use : sources) {
      if (!free && LeavesOpen(op, *use, state)) {
        waits = true;
        continue;
      }
      Ownership candidate = LoopFor(op, *use, state);
      if (!Agrees(op, candidate, state)) continue;
      *loop = std::move(candidate);
      *why = absl::StrCat("runs where ", use->text, " is held");
      return absl::OkStatus();
    }
    if (waits && !free) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(*loop, Meet(op, state));
    *why = "runs where all that it touches is held";
    return absl::OkStatus();
  }

  // Whether every use whose fragment is decided agrees with where the loop runs.
  static bool Agrees(const Operation& op, const Ownership& loop, const State& state) {
    for (const FragmentUse& use : op.uses) {
      for (const auto& list : use.elements) {
        if (Mismatch(loop, list, state.fragments[use.fragment], use.writes)) return false;
      }
    }
    return true;
  }

  static std::optional<Witness> Mismatch(const Ownership& loop, const std::vector<int64_t>& list,
                                         const Ownership& fragment, bool writes) {
    if (std::find(list.begin(), list.end(), -1) == list.end()) {
      return writes ? layout::FindWriteMismatch(loop, list, fragment)
                    : layout::FindReadMismatch(loop, list, fragment);
    }
    std::vector<int64_t> at, elements;  // the iterations that touch something
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] < 0) continue;
      at.push_back(static_cast<int64_t>(i));
      elements.push_back(list[i]);
    }
    const Ownership part = loop.Pullback(at);
    auto witness = writes ? layout::FindWriteMismatch(part, elements, fragment)
                          : layout::FindReadMismatch(part, elements, fragment);
    if (witness) witness->element = at[witness->element];
    return witness;
  }

  // Elements that the loop touches and nobody has decided: a written one belongs to those who write
  // it, one that is only read to all who read it.
  void Complete(const Operation& op, const Ownership& loop, int o, State* state,
                std::vector<int>* decided) {
    for (const int f : FragmentsOf(op)) {
      Ownership& fragment = state->fragments[f];
      if (fragment.complete()) continue;
      std::vector<ThreadSet> owners(fragment.size());
      std::vector<int64_t> slots(fragment.size(), 0);
      std::vector<bool> written(fragment.size(), false);
      bool any = false;
      for (const bool writes : {true, false}) {
        for (const FragmentUse& use : op.uses) {
          if (use.fragment != f || use.writes != writes) continue;
          for (const auto& list : use.elements) {
            for (int64_t i = 0; i < op.iterations; ++i) {
              const int64_t x = list[i];
              if (x < 0 || fragment.decided(x) || (!writes && written[x])) continue;
              owners[x] |= loop.Owners(i);
              slots[x] = loop.Slot(i);
              if (writes) written[x] = true;
              any = true;
            }
          }
        }
      }
      if (!any) continue;
      for (int64_t x = 0; x < fragment.size(); ++x) {
        if (owners[x].any() && !fragment.decided(x)) fragment.Set(x, owners[x], slots[x]);
      }
      if (state->set_by[f] < 0) state->set_by[f] = o;
      decided->push_back(f);
    }
  }

  // Who holds the source decides who holds the destination: all owners of an element's parts. A
  // destination that is decided otherwise is held by whom it is: the result goes there.
  absl::Status VisitReduce(InferenceStep step, int o, State* state, std::vector<int>* decided) {
    const Operation& op = problem_.operations[o];
    const FragmentUse &from = op.uses[0], &to = op.uses[1];
    KILN_ASSIGN_OR_RETURN(const Ownership source, HeldHere(op, from, *state));
    if (!source.complete()) return absl::OkStatus();
    const Ownership folded = source.Reduced(op.extents, op.reduced_dim);
    Ownership& target = state->fragments[to.fragment];
    KILN_RETURN_IF_ERROR(CheckHeldByPart(op, to, *state));
    for (int64_t y = 0; y < folded.size(); ++y) {
      const int64_t x = to.elements[0][y];
      if (!target.decided(x)) {
        target.Set(x, folded.Owners(y), folded.Slot(y));
        if (decided->empty()) decided->push_back(to.fragment);
        if (state->set_by[to.fragment] < 0) state->set_by[to.fragment] = o;
      }
    }
    if (!state->done[o]) {
      state->story.push_back(
          {step, o, *decided,
           words_.Told(
               op, absl::StrCat("everybody who holds a part of ", from.text, " gets the result"),
               *decided)});
    }
    state->done[o] = true;
    state->loops[o] = source;
    return absl::OkStatus();
  }

  // What the threads of the operation hold of a use's elements; a refusal where they hold nothing
  // of one that somebody holds.
  absl::StatusOr<Ownership> HeldHere(const Operation& op, const FragmentUse& use,
                                     const State& state) const {
    const Ownership held = state.fragments[use.fragment].Pullback(use.elements[0]);
    const ThreadSet here = op.threads.Set();
    const Ownership part = held.Within(here);
    for (int64_t i = 0; i < held.size(); ++i) {
      if (!held.decided(i) || part.decided(i)) continue;
      return words_.Disagreement(op, i, here, use, use.elements[0][i], state);
    }
    return part;
  }

  // That nobody else holds what the operation writes: those copies would grow stale.
  absl::Status CheckHeldByPart(const Operation& op, const FragmentUse& use,
                               const State& state) const {
    const ThreadSet here = op.threads.Set();
    const Ownership& fragment = state.fragments[use.fragment];
    for (size_t i = 0; i < use.elements[0].size(); ++i) {
      const int64_t x = use.elements[0][i];
      if (!fragment.decided(x) || (fragment.Owners(x) & ~here).none()) continue;
      return words_.Disagreement(op, static_cast<int64_t>(i), here, use, x, state);
    }
    return absl::OkStatus();
  }

  // ---- free mode ----

  absl::Status Free(State* state) {
    for (const std::vector<int>& component : OpenComponents(problem_, state->done)) {
      if (problem_.operations[component[0]].uses.empty()) {  // nobody else cares where it runs
        KILN_RETURN_IF_ERROR(
            Plan(component[0], WidestPlan(problem_.operations[component[0]]), state));
        continue;
      }
      std::optional<State> best;
      LayoutPrice best_price;
      const LayoutPrices prices(problem_, component, cost_);
      absl::Status first = absl::OkStatus();
      const auto attempt_all = [&](bool nearest, int root) {
        if (state->done[root] || problem_.operations[root].kind != OperationKind::kLoop) return;
        for (int64_t width = WidestPlan(problem_.operations[root]); width >= 1; width /= 2) {
          State attempt = *state;
          const absl::Status status = Grow(component, root, width, nearest, &attempt);
          if (!status.ok()) {
            if (first.ok()) first = status;
            continue;
          }
          const LayoutPrice price = prices.Of(attempt.fragments, attempt.loops);
          if (best && price >= best_price) continue;
          best = std::move(attempt);
          best_price = price;
        }
      };
      size_t left = MostRoots(component.size());
      for (const int root : RootsOf(problem_, component)) {
        if (best && left == 0) break;
        left -= left > 0 ? 1 : 0;
        attempt_all(/*nearest=*/false, root);
      }
      for (size_t i = 0; !best && i < component.size(); ++i) attempt_all(true, component[i]);
      if (!best) return first.ok() ? NothingToStartFrom(component, *state) : first;
      *state = *std::move(best);
    }
    return absl::OkStatus();
  }

  absl::Status NothingToStartFrom(const std::vector<int>& component, const State& state) const {
    for (const int o : component) {
      if (!state.done[o]) return words_.NothingWrites(problem_.operations[o]);
    }
    return absl::OkStatus();
  }

  // Plans `root`, follows the consequences, and plans the next operation that is still open: the
  // first, or, `nearest`, the first loop that touches something decided.
  absl::Status Grow(const std::vector<int>& component, int root, int64_t width, bool nearest,
                    State* state) {
    KILN_RETURN_IF_ERROR(Plan(root, width, state));
    while (const std::optional<int> o = Next(component, nearest, *state)) {
      const Operation& op = problem_.operations[*o];
      if (op.kind == OperationKind::kReduce) return words_.NothingWrites(op);
      KILN_RETURN_IF_ERROR(Plan(*o, WidestPlan(op), state));
    }
    return absl::OkStatus();
  }

  std::optional<int> Next(const std::vector<int>& component, bool nearest,
                          const State& state) const {
    std::optional<int> next;
    for (const int o : component) {
      const Operation& op = problem_.operations[o];
      if (state.done[o]) continue;
      if (!nearest) return o;
      const bool loop = op.kind == OperationKind::kLoop;
      if (loop && std::any_of(op.uses.begin(), op.uses.end(), [&](const FragmentUse& use) {
            return state.fragments[use.fragment].any_decided();
          })) {
        return o;
      }
      if (!next || (loop && problem_.operations[*next].kind != OperationKind::kLoop)) next = o;
    }
    return next;
  }

  // From what it reads if that is decided, else from its shape.
  absl::Status Plan(int o, int64_t width, State* state) {
    const Operation& op = problem_.operations[o];
    std::optional<Ownership> loop;
    std::string why;
    const std::optional<target::RowTeams> teams = TeamsOf(op, width);
    const Ownership plan =
        teams ? Ownership::PlannedRows(op.iterations / op.extents.back(), op.extents.back(),
                                       op.threads, width, teams->across, teams->down)
              : Ownership::Planned(op.iterations, op.threads, width);
    if (Agrees(op, plan, *state)) {
      loop = plan;
      why = absl::StrCat("dealt out to ", op.threads.count, " threads, ", width,
                         width == 1 ? " neighbour each" : " neighbours each");
      if (teams) absl::StrAppend(&why, ", ", teams->across, " to a row");
    } else {
      KILN_RETURN_IF_ERROR(FromSource(op, *state, /*free=*/true, &loop, &why));
    }
    std::vector<int> decided;
    KILN_RETURN_IF_ERROR(Adopt(InferenceStep::kFree, o, *std::move(loop), why, state, &decided));
    std::set<int> meet;
    for (const int f : decided) meet.insert(users_[f].begin(), users_[f].end());
    meet.erase(o);
    return Propagate(InferenceStep::kRevisit, {meet.begin(), meet.end()}, state);
  }

  static std::optional<target::RowTeams> TeamsOf(const Operation& op, int64_t width) {
    const int64_t columns = op.extents.empty() ? 1 : op.extents.back();
    const int64_t rows = op.iterations / std::max<int64_t>(columns, 1);
    return target::TeamsOf(rows, columns, op.threads.count, width);
  }

  // With fragments every thread's groups are whole where that is possible; without, the width that
  // leaves the fewest lanes idle, the wider of two equals.
  int64_t WidestPlan(const Operation& op) const {
    const int64_t threads = op.threads.count;
    int64_t best = op.vector_width;
    if (!op.uses.empty()) {
      const int64_t columns = op.extents.empty() ? 1 : std::max<int64_t>(op.extents.back(), 1);
      return target::WidestDeal(op.iterations / columns, columns, threads, best);
    }
    const auto padded = [&](int64_t v) {
      return (op.iterations + threads * v - 1) / (threads * v) * threads * v;
    };
    for (int64_t v = best / 2; v >= 1; v /= 2) {
      if (padded(v) < padded(best)) best = v;
    }
    return best;
  }

  LayoutSolution Finish(State state) const {
    LayoutSolution solution;
    for (size_t f = 0; f < state.fragments.size(); ++f) {
      const bool given = problem_.fragments[f].annotated.has_value();
      solution.fragments.push_back(given ? state.fragments[f] : state.fragments[f].Settled());
    }
    solution.loops = std::move(state.loops);
    solution.set_by = std::move(state.set_by);
    solution.moves = std::move(state.moves);
    solution.story = std::move(state.story);
    return solution;
  }

  const LayoutWords words_;
  const LayoutProblem& problem_;
  const LayoutCost cost_;
  std::vector<std::vector<int>> users_;    // operations, by fragment
  const bool explain_;                     // keep conflicts
  std::vector<LayoutConflict> conflicts_;  // of all refusals, those of attempts too
};

}  // namespace

const char* NameOf(InferenceStep step) {
  static constexpr const char* kNames[] = {"Floating", "Strict", "Common", "Free", "Revisit"};
  return kNames[static_cast<size_t>(step)];
}

absl::StatusOr<LayoutSolution> InferLayouts(const ir::Program& program,
                                            const LayoutProblem& problem, LayoutCost cost,
                                            LayoutConflict* conflict) {
  Solver solver(program, problem, cost, conflict != nullptr);
  absl::StatusOr<LayoutSolution> solution = solver.Solve();
  if (conflict != nullptr && !solution.ok()) *conflict = solver.ConflictOf(solution.status());
  return solution;
}

}  // namespace kiln::passes
