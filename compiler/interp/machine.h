// The state of a running program: variables, buffers, what is known of their elements, and the
// first error. Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_MACHINE_H_
#define KILN_COMPILER_INTERP_MACHINE_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/base/diagnostic.h"
#include "compiler/base/dtype.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/stmt.h"

namespace kiln::interp {

inline constexpr int kMaxRank = 8;
inline constexpr int kMaxLanes = 512;

// Integers, bools and handles are computed as int64_t, floats as double.
inline bool IsReal(DType type) { return type.is_float(); }

enum class Storage : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kE4M3,
  kE5M2,
  kE4M3Fnuz,
  kE5M2Fnuz,
  kE8M0,
  kE2M1,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
};
Storage StorageOf(DType type);

// How results of a float type are rounded; kNone for float64 and in Mode::kDouble.
enum class Rounding : uint8_t {
  kNone,
  kF32,
  kF16,
  kBF16,
  kE4M3,
  kE5M2,
  kE4M3Fnuz,
  kE5M2Fnuz,
  kE8M0,
  kE2M1,
};
Rounding RoundingOf(DType type, Mode mode);
double RoundSlow(double value, Rounding rounding);
inline double Round(double value, Rounding rounding) {
  if (rounding == Rounding::kNone) return value;
  if (rounding == Rounding::kF32) return static_cast<double>(static_cast<float>(value));
  return RoundSlow(value, rounding);
}

// Zeroed memory that takes pages only when touched.
struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
template <typename T>
using LazyArray = std::unique_ptr<T[], FreeDeleter>;

// Who touched an element last, at one level of concurrency (blocks of a launch, or iterations of a
// parallel loop). A tag is the run of the level in its high half, the unit in its low half.
struct Shadow {
  LazyArray<uint64_t> writer, reader, atomic;
};

// Bits of an element of shared memory. It has a value; a thread stored it, and no proxy fence came
// after: what copies and multiplies asynchronously may not see it yet; a thread read it, and no
// proxy fence came after: what is copied there asynchronously may come before the answer.
inline constexpr uint8_t kHasValue = 1, kUnfenced = 2, kTaken = 4;

struct BufferState {
  const ir::BufferNode* node = nullptr;
  bool real = true;
  bool global = false;
  Storage storage = Storage::kF64;
  Rounding rounding = Rounding::kNone;
  DType dtype;
  char* data = nullptr;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{}, stride{};  // elements
  int64_t span = 0;                                 // elements from the first to past the last
  bool track_written = false;
  LazyArray<uint8_t> written;  // the bits above, or 0; present when track_written
  uint8_t wrote = kHasValue;   // what a thread's own store leaves there: kUnfenced in shared memory
  LazyArray<char> owned;
  int64_t capacity = 0;         // elements that `owned` and `written` have room for
  size_t depth = 0;             // levels that were active when it was allocated
  std::vector<Shadow> shadows;  // one a level from `depth` on
  int64_t place = -1;           // byte of the block's shared memory; -1: bytes of its own
  std::vector<int> beside;      // slots of the buffers that have some of its bytes too

  double Real(int64_t offset) const;
  int64_t Int(int64_t offset) const;
  void SetReal(int64_t offset, double value);  // rounds
  void SetInt(int64_t offset, int64_t value);  // wraps around

  // n elements at offset, offset+step, ...
  void LoadReals(int64_t offset, int64_t step, int64_t n, double* out) const;
  void LoadInts(int64_t offset, int64_t step, int64_t n, int64_t* out) const;
  void StoreReals(int64_t offset, int64_t step, int64_t n, const double* in);
  void StoreInts(int64_t offset, int64_t step, int64_t n, const int64_t* in);
};

enum class Units : uint8_t { kBlocks, kRanks, kIterations, kThreads };

struct Level {
  uint32_t run = 0;
  uint32_t unit = 0;
  Units units = Units::kIterations;
  bool same_values = false;  // two units may write one value to one place
  // kRanks: of each unit, the last run that comes before what this one does now.
  const std::vector<uint32_t>* known = nullptr;
};

inline constexpr uint32_t kAllThreads = 0xFFFFFFFE;  // the unit of what all threads do alike

// kLook: a read of which it is known that nobody writes there before it is over. kPart: a write of
// some of the element's bytes; others may write the rest.
enum class Touch : uint8_t { kRead, kLook, kWrite, kAtomic, kPart };

struct Failure {
  absl::StatusCode code;
  SourceLoc loc;
  std::string message, remedy;
  std::vector<std::string> notes;
};

class Parts;
class ClusterRun;
struct Async;

class Machine {
 public:
  Machine(const ir::Program& program, const Options& options);
  ~Machine();

  const Options& options() const { return options_; }
  bool failed() const { return failure_ != nullptr; }
  // Keeps the first failure.
  void Fail(absl::StatusCode code, SourceLoc loc, std::string message, std::string remedy);
  void AddNote(std::string note);
  absl::Status status() const;

  // Counts work; false (and a failure) past the limit.
  bool Step(int64_t count, SourceLoc loc) {
    steps_ += count;
    return steps_ <= options_.max_steps || OutOfSteps(loc);
  }
  int64_t steps() const { return steps_; }

  // Lays `state` out row-major for its rank and shape, owned and unwritten. False past max_bytes.
  bool Allocate(BufferState* state, SourceLoc loc);

  // Notes that the current unit touches an element. For a write by a block, `changes` says whether
  // the element's value would change. False (and a failure) on a race.
  bool Track(BufferState* b, int64_t offset, Touch touch, bool changes, SourceLoc loc);
  // Track among blocks of a cluster, whose memory it may be, at their level.
  bool TrackRanks(BufferState* b, int64_t offset, Touch touch, bool changes, size_t level,
                  SourceLoc loc);
  void PushLevel(Units units) { levels.push_back({++runs_, 0, units}); }
  // Nothing before it races with anything after it at the innermost level.
  void Barrier() { levels.back().run = NewRun(); }
  uint32_t NewRun() { return ++runs_; }
  void PopLevel() { levels.pop_back(); }

  // Places the buffer of a slot, which has been allocated, in the block's shared memory.
  void Place(int slot, int64_t place);
  // No buffer has a place any more: another block begins.
  void ForgetPlaces();
  // An element is written: what lies on the same bytes has no value any more, and who touches that
  // without a barrier in between meets this write (`track`). False (and a failure) on such a race.
  bool Overwrite(const BufferState& b, int64_t offset, bool track, SourceLoc loc);

  // Reports an unwritten element.
  void FailUnwritten(const BufferState& b, int64_t offset, SourceLoc loc);
  std::string IndexText(const BufferState& b, int64_t offset) const;

  std::vector<int64_t> ints;  // slots of integer variables, one a lane
  std::vector<double> reals;
  std::vector<BufferState> buffers;
  std::vector<Level> levels;
  int64_t blocks_run = 0;
  Parts* parts = nullptr;               // that run beside each other; null: none
  std::unique_ptr<Async> async;         // of the block
  std::unique_ptr<ClusterRun> cluster;  // of blocks that share memory; null: of one block
  // Room for the operands of one tile operation; contents do not outlive it.
  template <typename T>
  T* Scratch(int index, int64_t n) {
    std::vector<char>& room = scratch_[static_cast<size_t>(index)];
    const auto bytes = static_cast<size_t>(n) * sizeof(T);
    if (room.size() < bytes) room.resize(bytes);
    return reinterpret_cast<T*>(room.data());
  }

 private:
  bool OutOfSteps(SourceLoc loc);
  bool Race(const BufferState& b, int64_t offset, const char* what, const Level& level,
            uint32_t other, SourceLoc loc);
  Shadow* ShadowOf(BufferState* b, size_t level);
  uint64_t* Tags(LazyArray<uint64_t>* array, const BufferState& b, SourceLoc loc, int64_t each = 1);
  bool Charge(int64_t bytes, SourceLoc loc);

  const ir::Program& program_;
  const Options& options_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  uint32_t runs_ = 0;
  std::array<std::vector<char>, 3> scratch_;
  std::unique_ptr<Failure> failure_;
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_MACHINE_H_
