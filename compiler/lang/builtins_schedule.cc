// T.annotate_ws_schedule: which warps do which operations, in which stage of a pipeline, and which
// buffers they pass to each other how often. That is advice on how to run a program; what the
// program means is said by its order, and the compiler has ways of its own. A schedule is accepted
// where it is about the operations of the kernel and each role does its own in their order; its
// names are checked in the kernel language's own text (bundled.cc).
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/bundled.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

constexpr absl::string_view kOperationId = "tl.ws_op_id", kRoot = "tl.ws_scope_root";

// Whether it is an instance of the language's own class of that name.
bool IsOf(const InstanceObject& instance, absl::string_view name) {
  if (instance.type == nullptr) return false;
  const auto& classes = BundledTree().body;
  return std::any_of(classes.begin(), classes.end(), [&](ast::StmtPtr stmt) {
    const auto* def = stmt->As<ast::Class>();
    return def == instance.type->def && def->name == name;
  });
}

const Value& Attribute(const InstanceObject& instance, absl::string_view name) {
  static const Value& none = *std::make_unique<Value>().release();
  for (const auto& [key, value] : instance.attributes) {
    if (key == name) return value;
  }
  return none;
}

absl::StatusOr<Value> Annotate(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.annotate_ws_schedule"));
  if (!args[0].Is(Type::kInstance) || !IsOf(args[0].instance(), "WSSchedule")) {
    return e.Error(args.LocOf(0), absl::StrCat("T.annotate_ws_schedule of ", Describe(args[0])),
                   "pass a T.WSSchedule(num_warps, roles, pipelines, scopes)");
  }
  LaunchState& launch = e.launch();
  if (launch.schedule != nullptr) {
    return e.Error(args.loc, "a second T.annotate_ws_schedule", "say all of it in one schedule");
  }
  launch.schedule = &args[0].instance();
  launch.schedule_loc = args.loc;
  return Value::None();
}

// The place of an operation in the program, by its name.
absl::StatusOr<size_t> PlaceOf(Elaborator& e, const std::string& name) {
  const LaunchState& launch = e.launch();
  std::vector<std::string> names;
  for (size_t i = 0; i < launch.operations.size(); ++i) {
    if (launch.operations[i].first == name) return i;
    names.push_back(launch.operations[i].first);
  }
  return e.Error(
      launch.schedule_loc,
      absl::StrCat("the schedule names '", name, "', which no operation of the kernel is"),
      DidYouMean(name, names,
                 absl::StrCat("name one with annotations={T.WSID: \"", name, "\"} or T.ws_op(\"",
                              name, "\")")));
}

// One role's steps in one scope: operations, in their order, and syncs.
absl::Status CheckSteps(Elaborator& e, const std::string& role, const Value& steps,
                        std::vector<bool>* placed) {
  const SourceLoc loc = e.launch().schedule_loc;
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items,
                        e.ToItems(steps, loc, "the steps of a role"));
  std::optional<size_t> last;
  std::string before;
  for (const Value& step : items) {
    if (!step.Is(Type::kStr)) continue;
    KILN_ASSIGN_OR_RETURN(const size_t place, PlaceOf(e, step.str()));
    if (last && place <= *last) {
      return e.Unimplemented(loc,
                             absl::StrCat("'", role, "' does '", step.str(), "' after '", before,
                                          "', which the program has the other way round"),
                             "let each role do its operations in the order of the program: what it "
                             "means is said there");
    }
    (*placed)[place] = true;
    last = place;
    before = step.str();
  }
  return absl::OkStatus();
}

constexpr Builtin kRows[] = {
    {"T.annotate_ws_schedule", "schedule", Annotate},
};

}  // namespace

absl::Status NoteOperation(Elaborator& e, const Value& annotations, SourceLoc loc) {
  if (!annotations.Is(Type::kDict)) return absl::OkStatus();
  for (const auto& [key, value] : annotations.dict().items) {
    const bool by_name =
        key.Is(Type::kEnum) && key.member()->text != nullptr && key.member()->text == kOperationId;
    if (!by_name && !(key.Is(Type::kStr) && key.str() == kOperationId)) continue;
    KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(value, loc, "T.WSID"));
    e.launch().operations.emplace_back(name, loc);
  }
  return absl::OkStatus();
}

absl::Status NoteOperation(Elaborator& e, const InstanceObject& op, SourceLoc loc) {
  if (!IsOf(op, "ws_op")) {
    return e.Error(loc, "an object of a class is no context",
                   "a kernel's with statement takes T.Kernel(...), T.ws(...) or T.ws_op(...)");
  }
  KILN_RETURN_IF_ERROR(e.RequireLaunch(loc, "T.ws_op"));
  KILN_ASSIGN_OR_RETURN(const std::string name,
                        e.ToStr(Attribute(op, "op_id"), loc, "the name of T.ws_op"));
  e.launch().operations.emplace_back(name, loc);
  return absl::OkStatus();
}

absl::Status CheckSchedule(Elaborator& e) {
  const LaunchState& launch = e.launch();
  if (launch.schedule == nullptr) return absl::OkStatus();
  const SourceLoc loc = launch.schedule_loc;
  std::vector<bool> placed(launch.operations.size(), false);
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> scopes,
                        e.ToItems(Attribute(*launch.schedule, "scopes"), loc, "scopes"));
  for (const Value& scope : scopes) {
    if (!scope.Is(Type::kInstance) || !IsOf(scope.instance(), "WSScope")) {
      return e.Error(loc, absl::StrCat("a scope of the schedule is ", Describe(scope)),
                     "pass T.WSScope(id, bodies)");
    }
    KILN_ASSIGN_OR_RETURN(const std::string id,
                          e.ToStr(Attribute(scope.instance(), "id"), loc, "a scope's name"));
    if (id != kRoot) KILN_RETURN_IF_ERROR(PlaceOf(e, id).status());
    const Value& bodies = Attribute(scope.instance(), "bodies");
    if (!bodies.Is(Type::kDict)) {
      return e.Error(loc, absl::StrCat("the bodies of a scope are ", Describe(bodies)),
                     "pass a dict from each role to its steps");
    }
    for (const auto& [role, steps] : bodies.dict().items) {
      KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(role, loc, "a role of a scope"));
      KILN_RETURN_IF_ERROR(CheckSteps(e, name, steps, &placed));
    }
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    if (placed[i]) continue;
    return e.Error(launch.operations[i].second,
                   absl::StrCat("no role of the schedule does '", launch.operations[i].first, "'"),
                   "place it in a body of its scope, or take its name away");
  }
  return absl::OkStatus();
}

BuiltinTable ScheduleBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
