#include "compiler/interp/machine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/async.h"
#include "compiler/interp/cluster_run.h"

namespace kiln::interp {
namespace {

constexpr char kMixed[] = "touch, one of them atomically or in part,";
constexpr uint32_t kMany = 0xFFFFFFFF;  // units that touched an element: more than one

uint64_t Tag(uint32_t run, uint32_t unit) { return uint64_t{run} << 32 | unit; }
uint32_t RunOf(uint64_t tag) { return static_cast<uint32_t>(tag >> 32); }
uint32_t UnitOf(uint64_t tag) { return static_cast<uint32_t>(tag); }

// A tag of another unit in the same run of the level.
bool Conflicts(uint64_t tag, const Level& level) {
  return RunOf(tag) == level.run && UnitOf(tag) != level.unit;
}

template <typename T>
LazyArray<T> MakeLazy(int64_t n) {
  return LazyArray<T>(
      static_cast<T*>(std::calloc(static_cast<size_t>(std::max<int64_t>(n, 1)), sizeof(T))));
}

DType TypeOf(Storage storage) {
  switch (storage) {
    case Storage::kF64:
      return kFloat64;
    case Storage::kF32:
      return kFloat32;
    case Storage::kF16:
      return kFloat16;
    case Storage::kBF16:
      return kBFloat16;
    case Storage::kE4M3:
      return {TypeCode::kE4M3, 8};
    case Storage::kE5M2:
      return {TypeCode::kE5M2, 8};
    case Storage::kE4M3Fnuz:
      return {TypeCode::kE4M3Fnuz, 8};
    case Storage::kE5M2Fnuz:
      return {TypeCode::kE5M2Fnuz, 8};
    case Storage::kE8M0:
      return {TypeCode::kE8M0, 8};
    case Storage::kE2M1:
      return {TypeCode::kE2M1, 8};
    case Storage::kI8:
      return kInt8;
    case Storage::kI16:
      return {TypeCode::kInt, 16};
    case Storage::kI32:
      return kInt32;
    case Storage::kI64:
      return kInt64;
    case Storage::kU8:
      return kUInt8;
    case Storage::kU16:
      return {TypeCode::kUInt, 16};
    case Storage::kU32:
      return kUInt32;
    case Storage::kU64:
      return {TypeCode::kUInt, 64};
    case Storage::kBool:
      return kBool;
  }
  return kFloat64;
}

// Round to nearest even on the bits of a double, for results in the format's normal range.
struct Narrow {
  int mantissa_bits;
  double smallest_normal, largest;
  DType type;
};

Narrow NarrowOf(Rounding rounding) {
  switch (rounding) {
    case Rounding::kF16:
      return {10, 0x1p-14, 65504, kFloat16};
    case Rounding::kBF16:
      return {7, 0x1p-126, 0x1.FEp127, kBFloat16};
    case Rounding::kE4M3:
      return {3, 0x1p-6, 448, {TypeCode::kE4M3, 8}};
    case Rounding::kE4M3Fnuz:
      return {3, 0x1p-7, 240, {TypeCode::kE4M3Fnuz, 8}};
    case Rounding::kE5M2Fnuz:
      return {2, 0x1p-15, 57344, {TypeCode::kE5M2Fnuz, 8}};
    case Rounding::kE8M0:  // not to nearest: nothing is in the range below
      return {0, 1, 0, {TypeCode::kE8M0, 8}};
    case Rounding::kE2M1:
      return {1, 1, 6, {TypeCode::kE2M1, 8}};
    default:
      return {2, 0x1p-14, 57344, {TypeCode::kE5M2, 8}};
  }
}

template <typename T, typename V>
void Gather(const char* data, int64_t offset, int64_t step, int64_t n, V* out) {
  const T* in = reinterpret_cast<const T*>(data) + offset;
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<V>(in[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<V>(in[i * step]);
  }
}

template <typename T, typename V>
void Scatter(char* data, int64_t offset, int64_t step, int64_t n, const V* in) {
  T* out = reinterpret_cast<T*>(data) + offset;
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(in[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * step] = static_cast<T>(in[i]);
  }
}

float HalfBitsToFloat(uint16_t raw) {
  const uint32_t sign = uint32_t{raw & 0x8000u} << 16;
  const uint32_t exponent = raw >> 10 & 31, mantissa = raw & 0x3FF;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t biased = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | biased << 23 | mantissa << 13);
}

}  // namespace

Storage StorageOf(DType type) {
  switch (type.code) {
    case TypeCode::kFloat:
      return type.bits == 64 ? Storage::kF64 : type.bits == 32 ? Storage::kF32 : Storage::kF16;
    case TypeCode::kBFloat:
      return Storage::kBF16;
    case TypeCode::kE4M3:
      return Storage::kE4M3;
    case TypeCode::kE5M2:
      return Storage::kE5M2;
    case TypeCode::kE4M3Fnuz:
      return Storage::kE4M3Fnuz;
    case TypeCode::kE5M2Fnuz:
      return Storage::kE5M2Fnuz;
    case TypeCode::kE8M0:
      return Storage::kE8M0;
    case TypeCode::kE2M1:
      return Storage::kE2M1;
    case TypeCode::kBool:
      return Storage::kBool;
    case TypeCode::kInt:
      if (type.bits <= 8) return Storage::kI8;
      if (type.bits <= 16) return Storage::kI16;
      return type.bits <= 32 ? Storage::kI32 : Storage::kI64;
    case TypeCode::kUInt:
      if (type.bits <= 8) return Storage::kU8;
      if (type.bits <= 16) return Storage::kU16;
      return type.bits <= 32 ? Storage::kU32 : Storage::kU64;
    case TypeCode::kHandle:
      return Storage::kU64;
  }
  return Storage::kU64;
}

Rounding RoundingOf(DType type, Mode mode) {
  if (mode == Mode::kDouble) return Rounding::kNone;
  switch (type.code) {
    case TypeCode::kFloat:
      return type.bits == 64 ? Rounding::kNone : type.bits == 32 ? Rounding::kF32 : Rounding::kF16;
    case TypeCode::kBFloat:
      return Rounding::kBF16;
    case TypeCode::kE4M3:
      return Rounding::kE4M3;
    case TypeCode::kE5M2:
      return Rounding::kE5M2;
    case TypeCode::kE4M3Fnuz:
      return Rounding::kE4M3Fnuz;
    case TypeCode::kE5M2Fnuz:
      return Rounding::kE5M2Fnuz;
    case TypeCode::kE8M0:
      return Rounding::kE8M0;
    case TypeCode::kE2M1:
      return Rounding::kE2M1;
    default:
      return Rounding::kNone;
  }
}

double RoundSlow(double value, Rounding rounding) {
  const Narrow format = NarrowOf(rounding);
  const double magnitude = std::abs(value);
  if (!(magnitude >= format.smallest_normal && magnitude <= format.largest)) {
    return RoundToType(value, format.type);
  }
  const int shift = 52 - format.mantissa_bits;
  auto bits = std::bit_cast<uint64_t>(value);
  bits += (uint64_t{1} << (shift - 1)) - 1 + (bits >> shift & 1);
  bits &= ~((uint64_t{1} << shift) - 1);
  return std::bit_cast<double>(bits);
}

double BufferState::Real(int64_t offset) const {
  switch (storage) {
    case Storage::kF64:
      return reinterpret_cast<const double*>(data)[offset];
    case Storage::kF32:
      return reinterpret_cast<const float*>(data)[offset];
    default: {
      const DType type = TypeOf(storage);
      return LoadElement(data + offset * type.bytes(), type);
    }
  }
}

int64_t BufferState::Int(int64_t offset) const {
  int64_t value;
  LoadInts(offset, 1, 1, &value);
  return value;
}

void BufferState::SetReal(int64_t offset, double value) {
  const double rounded = Round(value, rounding);
  switch (storage) {
    case Storage::kF64:
      reinterpret_cast<double*>(data)[offset] = rounded;
      return;
    case Storage::kF32:
      reinterpret_cast<float*>(data)[offset] = static_cast<float>(rounded);
      return;
    default: {
      const DType type = TypeOf(storage);
      StoreElement(data + offset * type.bytes(), type, rounded);
    }
  }
}

void BufferState::SetInt(int64_t offset, int64_t value) { StoreInts(offset, 1, 1, &value); }

void BufferState::LoadReals(int64_t offset, int64_t step, int64_t n, double* out) const {
  switch (storage) {
    case Storage::kF64:
      return Gather<double>(data, offset, step, n, out);
    case Storage::kF32:
      return Gather<float>(data, offset, step, n, out);
    case Storage::kBF16: {
      const auto* in = reinterpret_cast<const uint16_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) {
        out[i] = std::bit_cast<float>(uint32_t{in[i * step]} << 16);
      }
      return;
    }
    case Storage::kF16: {
      const auto* in = reinterpret_cast<const uint16_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) out[i] = HalfBitsToFloat(in[i * step]);
      return;
    }
    default:
      for (int64_t i = 0; i < n; ++i) out[i] = Real(offset + i * step);
  }
}

void BufferState::LoadInts(int64_t offset, int64_t step, int64_t n, int64_t* out) const {
  switch (storage) {
    case Storage::kI8:
      return Gather<int8_t>(data, offset, step, n, out);
    case Storage::kI16:
      return Gather<int16_t>(data, offset, step, n, out);
    case Storage::kI32:
      return Gather<int32_t>(data, offset, step, n, out);
    case Storage::kU8:
      return Gather<uint8_t>(data, offset, step, n, out);
    case Storage::kU16:
      return Gather<uint16_t>(data, offset, step, n, out);
    case Storage::kU32:
      return Gather<uint32_t>(data, offset, step, n, out);
    case Storage::kBool: {
      const auto* in = reinterpret_cast<const uint8_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) out[i] = in[i * step] != 0;
      return;
    }
    default:
      return Gather<int64_t>(data, offset, step, n, out);
  }
}

void BufferState::StoreReals(int64_t offset, int64_t step, int64_t n, const double* in) {
  if (storage == Storage::kF32 && (rounding == Rounding::kNone || rounding == Rounding::kF32)) {
    return Scatter<float>(data, offset, step, n, in);
  }
  if (storage == Storage::kF64 && rounding == Rounding::kNone) {
    return Scatter<double>(data, offset, step, n, in);
  }
  if (storage == Storage::kF64 && rounding == Rounding::kF32) {
    double* out = reinterpret_cast<double*>(data) + offset;
    for (int64_t i = 0; i < n; ++i) out[i * step] = static_cast<float>(in[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) SetReal(offset + i * step, in[i]);
}

void BufferState::StoreInts(int64_t offset, int64_t step, int64_t n, const int64_t* in) {
  switch (storage) {
    case Storage::kI8:
      return Scatter<int8_t>(data, offset, step, n, in);
    case Storage::kI16:
      return Scatter<int16_t>(data, offset, step, n, in);
    case Storage::kI32:
      return Scatter<int32_t>(data, offset, step, n, in);
    case Storage::kU8:
      return Scatter<uint8_t>(data, offset, step, n, in);
    case Storage::kU16:
      return Scatter<uint16_t>(data, offset, step, n, in);
    case Storage::kU32:
      return Scatter<uint32_t>(data, offset, step, n, in);
    case Storage::kBool: {
      auto* out = reinterpret_cast<uint8_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) out[i * step] = in[i] != 0;
      return;
    }
    default:
      return Scatter<int64_t>(data, offset, step, n, in);
  }
}

void Machine::Fail(absl::StatusCode code, SourceLoc loc, std::string message, std::string remedy) {
  if (failure_) return;
  failure_ =
      std::make_unique<Failure>(Failure{code, loc, std::move(message), std::move(remedy), {}});
}

void Machine::AddNote(std::string note) {
  constexpr size_t kMaxNotes = 12;
  if (failure_ && failure_->notes.size() < kMaxNotes) failure_->notes.push_back(std::move(note));
}

absl::Status Machine::status() const {
  if (!failure_) return absl::OkStatus();
  Diagnostic d;
  d.path = program_.name;
  d.loc = failure_->loc;
  d.message = failure_->message;
  d.remedy = failure_->remedy;
  if (program_.source) d.SetPlace(*program_.source, d.loc);
  d.notes = failure_->notes;
  return DiagnosticStatus(d, failure_->code);
}

bool Machine::OutOfSteps(SourceLoc loc) {
  Fail(absl::StatusCode::kResourceExhausted, loc,
       absl::StrCat("the program did not end within ", options_.max_steps, " steps"),
       "check the loop's condition, use a smaller shape, or raise the limit");
  return false;
}

bool Machine::Charge(int64_t bytes, SourceLoc loc) {
  bytes_ += bytes;
  if (bytes_ <= options_.max_bytes) return true;
  Fail(absl::StatusCode::kResourceExhausted, loc,
       absl::StrCat("the interpreter would need more than ", options_.max_bytes,
                    " bytes for buffers"),
       "use a smaller shape or smaller tiles, or raise the limit");
  return false;
}

bool Machine::Allocate(BufferState* b, SourceLoc loc) {
  __int128 elements = 1;
  for (int d = 0; d < b->rank; ++d) elements *= std::max<int64_t>(b->shape[d], 0);
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  if (elements > kMaxElements) return Charge(INT64_MAX / 2, loc);
  b->span = static_cast<int64_t>(elements);
  int64_t stride = 1;
  for (int d = b->rank - 1; d >= 0; --d) {
    b->stride[d] = stride;
    stride *= std::max<int64_t>(b->shape[d], 0);
  }
  if (!b->owned || b->span > b->capacity) {
    if (!Charge(b->span * (b->track_written ? 9 : 8), loc)) return false;
    b->owned = MakeLazy<char>(b->span * 8);
    if (b->track_written) b->written = MakeLazy<uint8_t>(b->span);
    b->shadows.clear();
    b->capacity = b->span;
    if (!b->owned || (b->track_written && !b->written)) return Charge(INT64_MAX / 2, loc);
  } else if (b->track_written) {
    std::memset(b->written.get(), 0, static_cast<size_t>(b->span));
  }
  b->data = b->owned.get();
  b->depth = levels.size();
  if (b->node->blocks > 1) b->depth = kRankLevel;
  const bool of_block = b->node->scope == ir::Scope::kShared;
  b->wrote = of_block ? kUnfenced : kHasValue;
  const bool threads = !levels.empty() && levels.back().units == Units::kThreads;
  if (of_block && b->node->blocks == 1 && threads) --b->depth;
  return true;
}

Machine::Machine(const ir::Program& program, const Options& options)
    : async(std::make_unique<Async>()), program_(program), options_(options) {}

Machine::~Machine() = default;

Shadow* Machine::ShadowOf(BufferState* b, size_t level) {
  const size_t index = level - b->depth;
  if (b->shadows.size() <= index) b->shadows.resize(index + 1);
  return &b->shadows[index];
}

uint64_t* Machine::Tags(LazyArray<uint64_t>* array, const BufferState& b, SourceLoc loc,
                        int64_t each) {
  if (*array) return array->get();
  const int64_t n = std::max(b.capacity, b.span) * each;
  if (!Charge(n * 8, loc)) return nullptr;
  *array = MakeLazy<uint64_t>(n);
  if (!*array) Charge(INT64_MAX / 2, loc);
  return array->get();
}

bool Machine::Race(const BufferState& b, int64_t offset, const char* what, const Level& level,
                   uint32_t other, SourceLoc loc) {
  const bool blocks = level.units == Units::kBlocks;
  const bool threads = level.units == Units::kThreads;
  const bool ranks = level.units == Units::kRanks;
  const char* units = blocks              ? "blocks"
                      : ranks             ? "blocks of a cluster that do not meet in between"
                      : threads           ? "threads without a barrier between them"
                      : level.same_values ? "threads that do not meet in between"
                                          : "iterations of a parallel loop";
  std::string who = other == kMany || other == kAllThreads || level.unit == kAllThreads
                        ? std::string("several others")
                        : absl::StrCat("number ", other, " and number ", level.unit);
  Fail(absl::StatusCode::kFailedPrecondition, loc,
       absl::StrCat("race: two ", units, " (", who, ", in row-major order) ", what, " ",
                    IndexText(b, offset)),
       blocks              ? "give each block elements of its own, or use T.atomic_add"
       : ranks             ? "let the blocks of the cluster meet in between (T.cluster_sync)"
       : threads           ? "let all threads meet in between"
       : level.same_values ? "let threads read in one statement what they write in another: all "
                             "meet in between"
                           : "give each iteration elements of its own, or make the loop serial");
  return false;
}

// Of each element the last write, and the last read of each block.
bool Machine::TrackRanks(BufferState* b, int64_t offset, Touch touch, bool changes, size_t l,
                         SourceLoc loc) {
  const Level& level = levels[l];
  if (level.known == nullptr) return true;
  const int64_t blocks = b->node->blocks;
  const int64_t owner = blocks > 1 ? offset / (b->span / blocks) : level.unit;
  if (!cluster->Reach(*this, owner, absl::StrCat("'", b->node->name, "'"), loc)) return false;
  if (touch == Touch::kAtomic || (touch == Touch::kWrite && b->global && !changes)) return true;
  const std::vector<uint32_t>& known = *level.known;
  const auto ranks = static_cast<int64_t>(known.size());
  Shadow* shadow = ShadowOf(b, l);
  uint64_t* writers = Tags(&shadow->writer, *b, loc);
  uint64_t* readers = Tags(&shadow->reader, *b, loc, ranks);
  if (writers == nullptr || readers == nullptr) return false;
  const uint64_t written = writers[offset];
  const bool read = touch == Touch::kRead || touch == Touch::kLook;
  const uint32_t writer = UnitOf(written);
  if (writer < known.size() && writer != level.unit && RunOf(written) > known[writer]) {
    return Race(*b, offset, read ? "write and read" : "both write", level, writer, loc);
  }
  if (read) {
    readers[offset * ranks + level.unit] = level.run;
    return true;
  }
  for (uint32_t other = 0; other < known.size(); ++other) {
    if (other == level.unit || readers[offset * ranks + other] <= known[other]) continue;
    return Race(*b, offset, "read and write", level, other, loc);
  }
  writers[offset] = Tag(level.run, level.unit);
  return true;
}

bool Machine::Track(BufferState* b, int64_t offset, Touch touch, bool changes, SourceLoc loc) {
  for (size_t l = b->depth; l < levels.size(); ++l) {
    const Level& level = levels[l];
    if (level.units == Units::kRanks) {
      if (!TrackRanks(b, offset, touch, changes, l, loc)) return false;
      continue;
    }
    Shadow* shadow = ShadowOf(b, l);
    const uint64_t own = Tag(level.run, level.unit);
    const bool shared = touch == Touch::kAtomic || touch == Touch::kPart;
    uint64_t* writers = Tags(&shadow->writer, *b, loc);
    if (!writers) return false;
    if (!shared && shadow->atomic && Conflicts(shadow->atomic[offset], level)) {
      return Race(*b, offset, kMixed, level, UnitOf(shadow->atomic[offset]), loc);
    }
    // Blocks may write one value twice, and threads if the kernel says so; iterations may not.
    const bool may = level.units == Units::kBlocks || level.same_values;
    const bool harmless = touch == Touch::kWrite && may && !changes;
    if (Conflicts(writers[offset], level) && !harmless) {
      const char* what = touch == Touch::kWrite ? "both write" : shared ? kMixed : "write and read";
      return Race(*b, offset, what, level, UnitOf(writers[offset]), loc);
    }
    if (touch == Touch::kLook) continue;
    if (touch == Touch::kRead) {
      uint64_t* readers = Tags(&shadow->reader, *b, loc);
      if (!readers) return false;
      readers[offset] = Conflicts(readers[offset], level) ? Tag(level.run, kMany) : own;
      continue;
    }
    if (shadow->reader && Conflicts(shadow->reader[offset], level) && !harmless) {
      return Race(*b, offset, shared ? kMixed : "read and write", level,
                  UnitOf(shadow->reader[offset]), loc);
    }
    if (touch == Touch::kWrite) {
      writers[offset] = own;
      continue;
    }
    uint64_t* atomics = Tags(&shadow->atomic, *b, loc);
    if (!atomics) return false;
    atomics[offset] = Conflicts(atomics[offset], level) ? Tag(level.run, kMany) : own;
  }
  return true;
}

void Machine::Place(int slot, int64_t place) {
  BufferState& b = buffers[static_cast<size_t>(slot)];
  b.place = place;
  b.beside.clear();
  const auto end = [](const BufferState& x) { return x.place + x.span * x.dtype.bytes(); };
  for (size_t i = 0; i < buffers.size(); ++i) {
    BufferState& other = buffers[i];
    std::erase(other.beside, slot);
    if (static_cast<int>(i) == slot || other.place < 0) continue;
    if (other.place >= end(b) || place >= end(other)) continue;
    b.beside.push_back(static_cast<int>(i));
    other.beside.push_back(slot);
  }
}

void Machine::ForgetPlaces() {
  for (BufferState& b : buffers) {
    b.place = -1;
    b.beside.clear();
  }
}

bool Machine::Overwrite(const BufferState& b, int64_t offset, bool track, SourceLoc loc) {
  const int64_t begin = b.place + offset * b.dtype.bytes(), end = begin + b.dtype.bytes();
  for (const int slot : b.beside) {
    BufferState& other = buffers[static_cast<size_t>(slot)];
    const int64_t size = other.dtype.bytes();
    const Touch touch = size > b.dtype.bytes() ? Touch::kPart : Touch::kWrite;
    const int64_t first = std::max<int64_t>(0, begin - other.place) / size;
    const int64_t last = std::min(other.span, (end - other.place + size - 1) / size);
    for (int64_t i = first; i < last; ++i) {
      if (other.written) other.written[i] = 0;
      const bool tracks = track && other.depth < levels.size();
      if (tracks && !Track(&other, i, touch, true, loc)) return false;
    }
  }
  return true;
}

std::string Machine::IndexText(const BufferState& b, int64_t offset) const {
  // Strides are a permutation of row-major for everything but odd views: largest first.
  std::array<int, kMaxRank> order{};
  std::array<int64_t, kMaxRank> index{};
  for (int d = 0; d < b.rank; ++d) order[d] = d;
  std::stable_sort(order.begin(), order.begin() + b.rank,
                   [&](int x, int y) { return b.stride[x] > b.stride[y]; });
  for (int i = 0; i < b.rank; ++i) {
    const int d = order[i];
    if (b.stride[d] <= 0) continue;
    index[d] = offset / b.stride[d];
    offset -= index[d] * b.stride[d];
  }
  std::string text = absl::StrCat("'", b.node->name, "[");
  for (int d = 0; d < b.rank; ++d) absl::StrAppend(&text, d ? ", " : "", index[d]);
  return text + "]'";
}

void Machine::FailUnwritten(const BufferState& b, int64_t offset, SourceLoc loc) {
  Fail(absl::StatusCode::kFailedPrecondition, loc,
       absl::StrCat("read of ", IndexText(b, offset), ", which nothing has written",
                    b.beside.empty() ? "" : " since another tile on the same bytes"),
       "fill or copy into the buffer before it is read (T.clear, T.fill, T.copy)");
}

}  // namespace kiln::interp
