// What Python computes when it is used: views of a dict, and iterators. A view shows what its dict
// holds by now. The items of an iterator are computed when it is made, and stand for those that
// Python computes later where that is certain to be the same: it keeps what they were computed
// from. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_LAZY_H_
#define KILN_COMPILER_LANG_LAZY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// The data that some evaluation read, and what it was when that ended.
class Reads {
 public:
  // Names of scopes that are made behind the first `first` objects are its own, and not noted.
  explicit Reads(int64_t first = INT64_MAX) : first_(first) {}

  void Note(const Value& v);  // itself; what it holds is read by other means
  // And all that it holds: how much that is. `now`: how many changes there have been.
  int64_t NoteAll(const Value& v, int64_t now);
  void NoteObject(const Object& object) { objects_.try_emplace(&object, object.changes); }
  void NoteName(const Scope& scope, absl::string_view name);
  void NoteAttribute(const InstanceObject& instance, const std::string& name);
  void Add(const Reads& other);
  void Settle();           // what is there now is what was read
  bool Unchanged() const;  // since Settle
  int64_t size() const;

 private:
  int64_t first_;
  absl::flat_hash_map<const Object*, int64_t> objects_;  // how often each was changed
  absl::flat_hash_map<const void*, int64_t> whole_;      // by NoteAll: the changes by then
  absl::flat_hash_map<std::pair<const Scope*, absl::string_view>, std::optional<Value>> names_;
  absl::flat_hash_map<std::pair<const InstanceObject*, std::string>, std::optional<Value>>
      attributes_;
};

enum class LazyKind : uint8_t { kKeys, kValues, kItems, kIterator };

// A list, or a dict by one of its views, that an iterator goes over.
struct LazySource {
  Value container;
  LazyKind view = LazyKind::kKeys;
  int64_t changes = 0;  // of it, when the iterator was made
};

struct LazyObject : Object {
  LazyKind kind = LazyKind::kIterator;
  std::vector<LazySource> sources;  // of a view: its dict
  // Of an iterator.
  std::vector<Value> items;
  bool in_order = false;  // item i comes of the sources' i-th ones
  bool keeps = false;     // Python too computes the items when it is made
  bool spent = false;     // they were given
  Value returned;         // by a generator
  bool acts = false;      // computing them changed what others see
  int64_t as_of = 0;      // changes that there had been when it was made
  Reads reads;            // beside the sources
};

inline LazyObject& LazyOf(const Value& v) {
  return *static_cast<LazyObject*>(static_cast<Object*>(const_cast<void*>(v.pointer())));
}
inline bool IsIterator(const Value& v) {
  return v.Is(Type::kLazy) && LazyOf(v).kind == LazyKind::kIterator;
}
// keys() or items() of a dict, which Python takes for sets.
inline bool IsSetLike(const Value& v) {
  return v.Is(Type::kLazy) &&
         (LazyOf(v).kind == LazyKind::kKeys || LazyOf(v).kind == LazyKind::kItems);
}

// Of two numbers their values, of other data whether it is one object.
bool IsSame(const Value& a, const Value& b);

Value NewView(Elaborator& e, const Value& dict, LazyKind kind);
// How the items of an iterator come from its sources (LazyObject).
struct LazyOrder {
  bool in_order = false, keeps = false;
};
Value NewIterator(Elaborator& e, std::vector<Value> items, const std::vector<Value>& sources,
                  LazyOrder how = {});
// What a view shows, and the items of an iterator, which are taken by that. An error where they may
// be others in Python by now.
absl::StatusOr<std::vector<Value>> TakeItems(Elaborator& e, LazyObject& lazy, SourceLoc loc);
// Before `list`, or what belongs to it, is changed for each item in turn.
absl::Status CheckApart(Elaborator& e, const Value& items, SourceLoc loc);

// While one stands: whether what is evaluated changes what was made before.
class Elaborator::Effects {
 public:
  explicit Effects(Elaborator* e);
  ~Effects();
  Effects(const Effects&) = delete;
  bool Seen() const;

 private:
  Elaborator& e_;
  int64_t outer_generator_;
  int64_t outer_change_;
};

// While one stands, what is evaluated belongs to an iterator whose items Python computes when they
// are taken.
class Elaborator::Deferred {
 public:
  // `first`: objects that are made behind that many are its own; -1: from now on. `at_once`: who
  // asks takes all items before anything else happens, which is told of the expression at hand.
  explicit Deferred(Elaborator* e, int64_t first = -1, bool at_once = false);
  ~Deferred();
  Deferred(const Deferred&) = delete;

  // An item is given to who asks. What it holds may not change before the next one is asked for.
  absl::Status Give(const Value& item, SourceLoc loc);
  // The iterator of the items. An error where computing them changed what others see, unless who
  // asked takes them all at once: `what` ("the generator 'f'") says who did.
  absl::StatusOr<Value> Finish(std::vector<Value> items, const std::vector<Value>& sources,
                               bool in_order, const std::string& what, SourceLoc loc);
  // The error that computing them ended with, which Python may have elsewhere.
  absl::Status Failed(absl::Status error);

 private:
  Elaborator& e_;
  Reads reads_, given_;
  bool at_once_;
  bool shares_ = false;  // an item sees what computing the next ones changes
  Deferred* outer_;
  Reads* outer_reads_;
  int64_t outer_generator_;
  int64_t outer_change_;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_LAZY_H_
