#include "worker/profile/host_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "compiler/base/int_math.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kSlabBytes = 8 << 20;
constexpr int64_t kSmallBytes = kSlabBytes / 16;  // a larger block is the system's own
constexpr int kMostEmpty = 32;                    // slabs that are kept

void* Map(int64_t bytes) {
  void* const memory = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

HostArena::~HostArena() {
  for (const auto& [memory, slab] : slabs_) (void)::munmap(memory, kSlabBytes);
}

HostArena::Slabs::iterator HostArena::SlabWithRoom(int64_t bytes) {
  if (filling_ != slabs_.end() && filling_->second.used + bytes <= kSlabBytes) return filling_;
  filling_ = std::find_if(slabs_.begin(), slabs_.end(),
                          [](const auto& slab) { return slab.second.blocks == 0; });
  if (filling_ != slabs_.end()) return filling_;
  void* const memory = Map(kSlabBytes);
  if (memory == nullptr) return slabs_.end();
  return filling_ = slabs_.emplace(static_cast<uint8_t*>(memory), Slab()).first;
}

void* HostArena::Take(int64_t bytes) {
  if (bytes > kSmallBytes) return Map(bytes);
  const int64_t size = CeilDiv(std::max<int64_t>(bytes, 1), kPage) * kPage;
  const Slabs::iterator slab = SlabWithRoom(size);
  if (slab == slabs_.end()) return nullptr;
  uint8_t* const block = slab->first + slab->second.used;
  slab->second.used += size;
  ++slab->second.blocks;
  return block;
}

void HostArena::Give(void* address, int64_t bytes) {
  if (bytes > kSmallBytes) {
    (void)::munmap(address, static_cast<size_t>(bytes));
    return;
  }
  const Slabs::iterator slab = std::prev(slabs_.upper_bound(static_cast<uint8_t*>(address)));
  KILN_CHECK(slab->second.blocks > 0);
  if (--slab->second.blocks > 0) return;
  slab->second.used = 0;
  const auto empty = std::count_if(slabs_.begin(), slabs_.end(),
                                   [](const auto& other) { return other.second.blocks == 0; });
  if (empty <= kMostEmpty) return;
  if (filling_ == slab) filling_ = slabs_.end();
  (void)::munmap(slab->first, kSlabBytes);
  slabs_.erase(slab);
}

}  // namespace kiln::worker
