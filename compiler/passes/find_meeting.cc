#include "compiler/passes/find_meeting.h"

#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::passes {
namespace {

// Which iteration writes each of `size` places; -1: none yet.
class Writers {
 public:
  explicit Writers(int64_t size) : dense_(size <= kMaxTileElements ? size : 0, -1) {}
  int64_t& operator[](int64_t x) {
    return dense_.empty() ? sparse_.try_emplace(x, -1).first->second : dense_[x];
  }

 private:
  std::vector<int64_t> dense_;
  std::unordered_map<int64_t, int64_t> sparse_;
};

struct Pair {
  int64_t first, second;
};

// Two iterations, the second one in `list`, at one place, of which `writers` knows who writes it;
// with `writes` the iterations of `list` join them.
std::optional<Pair> FirstPair(const std::vector<int64_t>& list, bool writes, Writers* writers) {
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
  Writers writers(fragment.size);
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

std::optional<Meeting> InMemory(const Operation& op, size_t store) {
  Writers writers(op.stores[store].span);
  for (size_t other = store; other < op.stores.size(); ++other) {
    if (op.stores[other].place != op.stores[store].place) continue;
    for (const auto& list : op.stores[other].cells) {
      const auto pair = FirstPair(list, other == store, &writers);
      if (!pair) continue;
      return Meeting{pair->first, pair->second, op.stores[other].loc, "store to",
                     op.stores[other].text};
    }
  }
  for (const MemoryStore& read : op.reads) {
    if (read.place != op.stores[store].place) continue;
    for (const auto& list : read.cells) {
      const auto pair = FirstPair(list, /*writes=*/false, &writers);
      if (!pair) continue;
      return Meeting{pair->first,
                     pair->second,
                     read.loc,
                     "store to and read",
                     absl::StrCat(op.stores[store].text, " and ", read.text),
                     /*reads=*/true};
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
  for (size_t store = 0; store < op.stores.size(); ++store) {
    if (auto meeting = InMemory(op, store)) return meeting;
  }
  return std::nullopt;
}

}  // namespace kiln::passes
