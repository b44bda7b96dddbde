#include "compiler/lang/sort.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lang/lazy.h"

namespace kiln::lang {
namespace {

constexpr int kMostNested = 20;  // tuples that are looked through

// What has no place in an order, in the key or in a tuple or list that it is; null: nothing.
const char* Unordered(const Value& key, int depth = 0) {
  if (key.Is(Type::kFloat) && std::isnan(key.float_value())) return "a NaN";
  if (key.Is(Type::kSet)) return "a set";
  if (!key.is_sequence() || depth > kMostNested) return nullptr;
  for (const Value& item : key.seq().items) {
    if (const char* found = Unordered(item, depth + 1)) return found;
  }
  return nullptr;
}

class Sort {
 public:
  Sort(Elaborator* e, SourceLoc loc) : e_(*e), loc_(loc) {}

  absl::Status Run(std::vector<Value> items, const SortOrder& order);
  std::vector<Value> Items() const;

 private:
  using Entry = std::pair<Value, Value>;  // a key, and what it is of

  absl::StatusOr<bool> Less(const Entry& a, const Entry& b);
  absl::StatusOr<size_t> FirstRun();
  absl::Status Insert(size_t at);
  absl::Status CheckApart();

  Elaborator& e_;
  SourceLoc loc_;
  std::vector<Entry> entries_;
};

absl::StatusOr<bool> Sort::Less(const Entry& a, const Entry& b) {
  Elaborator::Effects effects(&e_);
  KILN_ASSIGN_OR_RETURN(const Value less,
                        e_.CompareOp(ast::CompareOp::kLt, a.first, b.first, loc_));
  KILN_ASSIGN_OR_RETURN(const bool before, e_.DecideNow(less, loc_, "a comparison"));
  if (!effects.Seen()) return before;
  return e_.Unimplemented(
      loc_,
      "a comparison changes something while items are sorted, and which of them "
      "are compared differs between versions of Python",
      "sort by a key, as in sorted(items, key=...)");
}

// How many entries at the front are in order; those that are in the opposite one are turned round.
absl::StatusOr<size_t> Sort::FirstRun() {
  if (entries_.size() < 2) return entries_.size();
  KILN_ASSIGN_OR_RETURN(const bool falls, Less(entries_[1], entries_[0]));
  size_t count = 2;
  for (; count < entries_.size(); ++count) {
    KILN_ASSIGN_OR_RETURN(const bool less, Less(entries_[count], entries_[count - 1]));
    if (less != falls) break;
  }
  if (falls) std::reverse(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

// Among those before it, which are in order.
absl::Status Sort::Insert(size_t at) {
  const Entry entry = entries_[at];
  size_t low = 0, high = at;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    KILN_ASSIGN_OR_RETURN(const bool less, Less(entry, entries_[middle]));
    (less ? high : low) = less ? middle : middle + 1;
  }
  KILN_RETURN_IF_ERROR(e_.Step(loc_, static_cast<int64_t>(at - low) / 16));
  const auto begin = entries_.begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(at),
              begin + static_cast<std::ptrdiff_t>(at) + 1);
  return absl::OkStatus();
}

absl::Status Sort::CheckApart() {
  for (size_t i = 1; i < entries_.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const bool less, Less(entries_[i - 1], entries_[i]));
    if (less) continue;
    return e_.Error(loc_, "two items of a set have equal keys, and a set has no order",
                    "sort by the items themselves, or make the key a tuple that ends with them");
  }
  return absl::OkStatus();
}

absl::Status Sort::Run(std::vector<Value> items, const SortOrder& order) {
  for (Value& item : items) {
    Value key = item;
    if (!order.key.is_none()) {
      KILN_ASSIGN_OR_RETURN(key, e_.Call(order.key, {item}, loc_));
    }
    entries_.emplace_back(key, item);
  }
  for (const Entry& entry : entries_) {
    const char* what = entries_.size() < 2 ? nullptr : Unordered(entry.first);
    if (what == nullptr) continue;
    return e_.Error(loc_, absl::StrCat(what, " is sorted, which has no place in an order"),
                    "leave it out, or sort by a key that is a number");
  }
  if (order.reverse) std::reverse(entries_.begin(), entries_.end());
  KILN_ASSIGN_OR_RETURN(const size_t run, FirstRun());
  for (size_t i = run; i < entries_.size(); ++i) KILN_RETURN_IF_ERROR(Insert(i));
  if (order.of_set) KILN_RETURN_IF_ERROR(CheckApart());
  if (order.reverse) std::reverse(entries_.begin(), entries_.end());
  return absl::OkStatus();
}

std::vector<Value> Sort::Items() const {
  std::vector<Value> items;
  for (const Entry& entry : entries_) items.push_back(entry.second);
  return items;
}

}  // namespace

absl::StatusOr<std::vector<Value>> SortItems(Elaborator& e, std::vector<Value> items,
                                             const SortOrder& order, SourceLoc loc) {
  Sort sort(&e, loc);
  KILN_RETURN_IF_ERROR(sort.Run(std::move(items), order));
  return sort.Items();
}

}  // namespace kiln::lang
