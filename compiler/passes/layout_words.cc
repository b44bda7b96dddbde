#include "compiler/passes/layout_words.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/diagnostic.h"
#include "compiler/layout/layout.h"

namespace kiln::passes {
namespace {

using layout::ThreadSet;

std::string PlaceOf(const std::vector<int64_t>& shape, int64_t flat) {
  return absl::StrCat("(", absl::StrJoin(layout::Unflatten(flat, shape), ", "), ")");
}

SourceLoc LocOf(const Operation& op, SourceLoc loc) { return loc.known() ? loc : op.loc; }

}  // namespace

absl::Status LayoutWords::Error(SourceLoc loc, std::string message, std::string remedy,
                                std::vector<std::string> notes) const {
  Diagnostic d;
  d.loc = loc;
  if (program_.source) d.SetPlace(*program_.source, loc);
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  d.notes = std::move(notes);
  return DiagnosticStatus(d, absl::StatusCode::kFailedPrecondition);
}

absl::Status LayoutWords::Disagreement(const Operation& op, int64_t iteration,
                                       const ThreadSet& runs, const FragmentUse& use,
                                       int64_t element, const LayoutsSoFar& layouts) const {
  const Fragment& f = problem_.fragments[use.fragment];
  return Error(LocOf(op, use.loc),
               absl::StrCat(op.name, " does not run where ", use.text, " is held: iteration ",
                            PlaceOf(op.extents, iteration), " runs on ", layout::ToString(runs),
                            ", element ", PlaceOf(f.shape, element), " is held by ",
                            layout::ToString(layouts.fragments[use.fragment].Owners(element))),
               absl::StrCat("copy '", f.buffer->name,
                            "' to a shared buffer and read it from there, or annotate its layout"),
               {WhoSet(layouts, use.fragment)});
}

absl::Status LayoutWords::DependsOnSerial(const Operation& op, const FragmentUse& use, int64_t i,
                                          int64_t element, const ThreadSet& a, const ThreadSet& b,
                                          const LayoutsSoFar& layouts) const {
  const Fragment& f = problem_.fragments[use.fragment];
  return Error(
      LocOf(op, use.loc),
      absl::StrCat("where ", op.name, " runs would depend on a serial variable: iteration ",
                   PlaceOf(op.extents, i), " needs ", layout::ToString(a), " first and ",
                   layout::ToString(b), " for element ", PlaceOf(f.shape, element), " of ",
                   use.text),
      "make the serial loop an axis of the parallel one, or annotate a layout that keeps "
      "the elements of an iteration together",
      {WhoSet(layouts, use.fragment)});
}

absl::Status LayoutWords::Race(const Operation& op, const Meeting& meeting) const {
  return Error(
      LocOf(op, meeting.loc),
      absl::StrCat("iterations ", PlaceOf(op.extents, meeting.first), " and ",
                   PlaceOf(op.extents, meeting.second), " of ", op.name, " ", meeting.what,
                   " one element, ", meeting.where),
      "accumulate into a T.alloc_reducer, make the loop serial, or give every iteration its "
      "own element");
}

absl::Status LayoutWords::NotHeldByAll(int fragment, int64_t element,
                                       const ThreadSet& owners) const {
  const Fragment& f = problem_.fragments[fragment];
  return Error(
      f.loc,
      absl::StrCat("'", f.buffer->name, "' is touched outside of loops, so ", Everybody(fragment),
                   " must hold it, but its annotated layout gives "
                   "element ",
                   PlaceOf(f.shape, element), " to ", layout::ToString(owners)),
      "touch it in parallel loops only, or do not annotate it");
}

absl::Status LayoutWords::NothingWrites(const Operation& op) const {
  return Error(op.loc,
               absl::StrCat(op.name, " reads '", op.uses[0].text, "', which nothing writes"),
               "fill or copy into it first");
}

const std::string& LayoutWords::NameOf(int fragment) const {
  return problem_.fragments[fragment].buffer->name;
}

std::string LayoutWords::Everybody(int fragment) const {
  const layout::ThreadRange& threads = problem_.fragments[fragment].threads;
  if (threads.count == problem_.threads.count) return "every thread";
  return absl::StrCat("every thread of ", layout::ToString(threads.Set()));
}

std::string LayoutWords::WhoSet(const LayoutsSoFar& layouts, int fragment) const {
  const int by = layouts.set_by[fragment];
  if (problem_.fragments[fragment].annotated) {
    return absl::StrCat("the layout of '", NameOf(fragment), "' is annotated");
  }
  if (by < 0) return absl::StrCat(Everybody(fragment), " holds all of '", NameOf(fragment), "'");
  const Operation& op = problem_.operations[by];
  return absl::StrCat("the layout of '", NameOf(fragment), "' comes from ", op.name, " at line ",
                      op.loc.line);
}

std::string LayoutWords::Told(const Operation& op, const std::string& why,
                              const std::vector<int>& decided) const {
  std::string text = absl::StrCat(op.name, ": ", why);
  if (!decided.empty()) {
    absl::StrAppend(&text, "; decides ", absl::StrJoin(decided, ", ", [&](std::string* out, int f) {
      absl::StrAppend(out, "'", NameOf(f), "'");
    }));
  }
  return text;
}

std::string LayoutWords::WaitsFor(const Operation& op, const LayoutsSoFar& layouts) const {
  std::vector<std::string> open;
  for (const int f : FragmentsOf(op)) {
    if (!layouts.fragments[f].any_decided()) open.push_back(absl::StrCat("'", NameOf(f), "'"));
  }
  if (op.uses.empty()) return "it touches no fragment";
  if (open.empty()) return "what it reads leaves a choice";
  return absl::StrCat("nothing decides ", absl::StrJoin(open, ", "), " yet");
}

}  // namespace kiln::passes
