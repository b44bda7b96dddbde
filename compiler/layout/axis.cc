#include "compiler/layout/axis.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::layout {
namespace {

const AxisInfo kBuiltins[] = {
    {"m", AxisKind::kMemory, Scope::kNone, Scope::kNone, 0},
    {"bx", AxisKind::kGrid, Scope::kKernel, Scope::kCta, 0},
    {"by", AxisKind::kGrid, Scope::kKernel, Scope::kCta, 0},
    {"bz", AxisKind::kGrid, Scope::kKernel, Scope::kCta, 0},
    {"cbx", AxisKind::kCluster, Scope::kCluster, Scope::kCta, 0},
    {"cby", AxisKind::kCluster, Scope::kCluster, Scope::kCta, 0},
    {"cbz", AxisKind::kCluster, Scope::kCluster, Scope::kCta, 0},
    {"tx", AxisKind::kThread, Scope::kCta, Scope::kThread, 1},
    {"warpid", AxisKind::kThread, Scope::kCta, Scope::kWarp, 32},
    {"wgid", AxisKind::kThread, Scope::kCta, Scope::kWarpgroup, 128},
    {"tid_in_wg", AxisKind::kThread, Scope::kWarpgroup, Scope::kThread, 1},
    {"wid_in_wg", AxisKind::kThread, Scope::kWarpgroup, Scope::kWarp, 32},
    {"laneid", AxisKind::kThread, Scope::kWarp, Scope::kThread, 1},
    {"P", AxisKind::kMemory, Scope::kNone, Scope::kNone, 0},
    {"F", AxisKind::kMemory, Scope::kNone, Scope::kNone, 0},
    {"Bank", AxisKind::kMemory, Scope::kNone, Scope::kNone, 0},
    {"TLane", AxisKind::kMemory, Scope::kNone, Scope::kNone, 0},
    {"TCol", AxisKind::kMemory, Scope::kNone, Scope::kNone, 0},
};

struct Registry {
  std::mutex mutex;
  std::deque<AxisInfo> names{std::begin(kBuiltins), std::end(kBuiltins)};  // stable addresses
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

bool IsIdentifier(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

}  // namespace

const AxisInfo& InfoOf(Axis axis) {
  const size_t index = static_cast<size_t>(axis);
  if (index < std::size(kBuiltins)) return kBuiltins[index];
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  KILN_CHECK(index < registry.names.size());
  return registry.names[index];
}

absl::string_view NameOf(Axis axis) { return InfoOf(axis).name; }

absl::string_view NameOf(Scope scope) {
  static constexpr absl::string_view kNames[] = {"none",      "kernel", "cluster", "cta",
                                                 "warpgroup", "warp",   "thread"};
  return kNames[static_cast<size_t>(scope)];
}

absl::StatusOr<Axis> FindAxis(absl::string_view name) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::string known;
  for (size_t i = 0; i < registry.names.size(); ++i) {
    if (registry.names[i].name == name) return static_cast<Axis>(i);
    absl::StrAppend(&known, i == 0 ? "" : ", ", registry.names[i].name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown axis '", name, "'; the axes are ", known));
}

absl::StatusOr<Axis> RegisterAxis(absl::string_view name, AxisKind kind) {
  if (!IsIdentifier(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an axis name is an identifier, not '", name, "'"));
  }
  if (kind == AxisKind::kThread) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "': the thread axes are fixed, because fusion needs their scopes"));
  }
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (size_t i = 0; i < registry.names.size(); ++i) {
    if (registry.names[i].name != name) continue;
    if (registry.names[i].kind == kind) return static_cast<Axis>(i);
    return absl::AlreadyExistsError(absl::StrCat("axis '", name, "' exists with another kind"));
  }
  if (registry.names.size() >= 0xffff) return absl::ResourceExhaustedError("65,535 axis names");
  registry.names.push_back({std::string(name), kind, Scope::kNone, Scope::kNone, 0});
  return static_cast<Axis>(registry.names.size() - 1);
}

absl::StatusOr<ScopeSpan> SpanOfScopes(const std::vector<Axis>& axes) {
  std::vector<Axis> chain;
  for (const Axis axis : axes) {
    if (IsThread(axis) && std::find(chain.begin(), chain.end(), axis) == chain.end()) {
      chain.push_back(axis);
    }
  }
  if (chain.empty()) return ScopeSpan{};
  std::sort(chain.begin(), chain.end(), [](Axis a, Axis b) {
    const AxisInfo& x = InfoOf(a);
    const AxisInfo& y = InfoOf(b);
    return x.outer != y.outer ? x.outer < y.outer : x.inner < y.inner;
  });
  for (size_t i = 1; i < chain.size(); ++i) {
    const AxisInfo& before = InfoOf(chain[i - 1]);
    const AxisInfo& after = InfoOf(chain[i]);
    if (before.inner == after.outer) continue;
    const bool twice = after.outer < before.inner;
    return absl::FailedPreconditionError(absl::StrCat(
        before.name, " counts a ", NameOf(before.inner), " in a ", NameOf(before.outer), " and ",
        after.name, " a ", NameOf(after.inner), " in a ", NameOf(after.outer),
        twice ? ": the same threads are counted twice" : ": an axis between them is missing"));
  }
  return ScopeSpan{InfoOf(chain.front()).outer, InfoOf(chain.back()).inner};
}

absl::StatusOr<Axis> AxisOfScopes(ScopeSpan span) {
  for (size_t i = 0; i < std::size(kBuiltins); ++i) {
    if (kBuiltins[i].kind == AxisKind::kThread && kBuiltins[i].outer == span.outer &&
        kBuiltins[i].inner == span.inner) {
      return static_cast<Axis>(i);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no axis counts a ", NameOf(span.inner), " in a ", NameOf(span.outer)));
}

}  // namespace kiln::layout
