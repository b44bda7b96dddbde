#include "compiler/passes/find_meeting.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::passes {
namespace {

struct Pair {
  int64_t first, second;
};

// Two iterations, the second one in `list`, at one place, of which `writers` knows who writes it;
// with `writes` the iterations of `list` join them.
std::optional<Pair> FirstPair(const std::vector<int64_t>& list, bool writes,
                              std::vector<int64_t>* writers) {
  for (size_t n = 0; n < list.size(); ++n) {
    const auto i = static_cast<int64_t>(n);
    if (list[n] < 0) continue;
    int64_t& writer = (*writers)[list[n]];
    if (writer >= 0 && writer != i) return Pair{writer, i};
    if (writes) writer = i;
  }
  return std::nullopt;
}

// `write`, then the other uses of its fragment.
std::vector<const FragmentUse*> UsesBeside(const Operation& op, const FragmentUse& write) {
  std::vector<const FragmentUse*> uses = {&write};
  for (const FragmentUse& use : op.uses) {
    if (&use != &write && use.fragment == write.fragment) uses.push_back(&use);
  }
  return uses;
}

std::optional<Meeting> InFragment(const Fragment& fragment, const Operation& op,
                                  const FragmentUse& write) {
  std::vector<int64_t> writers(fragment.size, -1);  // the iteration that writes an element
  for (const FragmentUse* use : UsesBeside(op, write)) {
    for (const auto& list : use->elements) {
      const auto pair = FirstPair(list, use == &write, &writers);
      if (!pair) continue;
      const std::vector<int64_t> at = layout::Unflatten(list[pair->second], fragment.shape);
      return Meeting{pair->first, pair->second, use->loc,
                     use->writes ? "store to" : "store to and read",
                     absl::StrCat(fragment.buffer->name, "(", absl::StrJoin(at, ", "), ")")};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Meeting> FindMeeting(const LayoutProblem& problem, const Operation& op) {
  if (op.kind != OperationKind::kLoop) return std::nullopt;
  for (const FragmentUse& use : op.uses) {
    if (!use.writes) continue;
    if (auto meeting = InFragment(problem.fragments[use.fragment], op, use)) return meeting;
  }
  return std::nullopt;
}

}  // namespace kiln::passes
