// The compiled form of a program: trees of nodes with resolved slots, built once and then run many
// times. Private to compiler/interp.
//
// A node never fails by itself: it tells the Machine and gives zero; statements look at
// Machine::failed() after each expression and stop.
#ifndef KILN_COMPILER_INTERP_NODE_H_
#define KILN_COMPILER_INTERP_NODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/interp/machine.h"

namespace kiln::interp {

// An expression. A scalar node implements Int or Real after its type; a vector node implements Ints
// or Reals, which write `lanes` values.
class Node {
 public:
  explicit Node(int lanes = 1) : lanes(lanes) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual int64_t Int(Machine& m) const;
  virtual double Real(Machine& m) const;
  virtual void Ints(Machine& m, int64_t* out) const;  // default: one lane
  virtual void Reals(Machine& m, double* out) const;

  const int lanes;
};
using NodePtr = std::unique_ptr<Node>;

template <typename T>
T Value(const Node& node, Machine& m) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return node.Int(m);
  } else {
    return node.Real(m);
  }
}
template <typename T>
void Values(const Node& node, Machine& m, T* out) {
  if constexpr (std::is_same_v<T, int64_t>) {
    node.Ints(m, out);
  } else {
    node.Reals(m, out);
  }
}

enum class Flow : uint8_t { kNext, kBreak, kContinue, kStop };

class Action {
 public:
  explicit Action(SourceLoc loc) : loc(loc) {}
  virtual ~Action() = default;
  virtual Flow Run(Machine& m) const = 0;
  const SourceLoc loc;
};
using ActionPtr = std::unique_ptr<Action>;

inline Flow NextUnlessFailed(const Machine& m) { return m.failed() ? Flow::kStop : Flow::kNext; }

// One element access: buffer[indices] under a predicate.
struct Access {
  int slot = 0;
  std::vector<NodePtr> indices;
  NodePtr predicate;   // null = always
  bool clip = false;   // outside the buffer is no error
  bool track = false;  // some level of concurrency writes the buffer
  SourceLoc loc;

  // The element's offset; false when the access does not happen (predicate, clipping) or failed.
  bool Resolve(Machine& m, int64_t* offset) const;
  // For vector accesses: offsets and whether each lane is active.
  void ResolveLanes(Machine& m, int lanes, int64_t* offsets, bool* active) const;

 private:
  bool Inside(Machine& m, const BufferState& b, const int64_t* index, int64_t* offset) const;
};

// Reads and writes an element that is known to be inside, with all checks. What copies and
// multiplies asynchronously reads as well, but no thread waits for the answer.
inline bool CheckLaterRead(Machine& m, BufferState& b, int64_t offset, bool track, SourceLoc loc) {
  if (b.written && !b.written[offset]) {
    m.FailUnwritten(b, offset, loc);
    return false;
  }
  return !track || b.depth >= m.levels.size() || m.Track(&b, offset, Touch::kRead, false, loc);
}
inline bool CheckRead(Machine& m, BufferState& b, int64_t offset, bool track, SourceLoc loc) {
  if (!CheckLaterRead(m, b, offset, track, loc)) return false;
  if (b.written && b.wrote == kUnfenced) b.written[offset] |= kTaken;
  return true;
}
bool WriteReal(Machine& m, BufferState& b, int64_t offset, double value, bool track, SourceLoc loc);
bool WriteInt(Machine& m, BufferState& b, int64_t offset, int64_t value, bool track, SourceLoc loc);

// A run of n elements at offset, offset+step, ... with all checks; the buffer's class of values
// decides which array is used. Reading converts integers to reals and back by C's rules.
template <typename T>
bool ReadRow(Machine& m, BufferState& b, int64_t offset, int64_t step, int64_t n, bool track,
             SourceLoc loc, T* out);
template <typename T>
bool WriteRow(Machine& m, BufferState& b, int64_t offset, int64_t step, int64_t n, const T* in,
              bool track, SourceLoc loc);

// A compiled region: one min and extent a dimension.
struct Box {
  int slot = 0;
  std::vector<NodePtr> mins, extents;
  bool track = false;
};
// A region's place at run time.
struct Place {
  BufferState* buffer = nullptr;
  std::array<int64_t, kMaxRank> min{}, extent{};
};
Place Locate(Machine& m, const Box& box);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_NODE_H_
