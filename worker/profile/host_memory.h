// Memory that this process can read: buffers for whole tensors, and digests for devices whose
// memory is the host's.
#ifndef KILN_WORKER_PROFILE_HOST_MEMORY_H_
#define KILN_WORKER_PROFILE_HOST_MEMORY_H_

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace kiln::worker {

// For hundreds of megabytes that are about to be overwritten: in large pages where the system has
// them, and not cleared first.
template <typename T>
struct LargeAllocator {
  using value_type = T;
  static constexpr size_t kLarge = size_t{4} << 20;

  LargeAllocator() = default;
  template <typename U>
  explicit LargeAllocator(const LargeAllocator<U>&) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kLarge) return static_cast<T*>(::operator new(bytes));
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    (void)::madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kLarge) {
      ::operator delete(memory);
    } else {
      (void)::munmap(memory, bytes);
    }
  }
  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const LargeAllocator&) const { return true; }
};

// The memory of a tensor on the host. New elements hold anything.
using Bytes = std::vector<uint8_t, LargeAllocator<uint8_t>>;

// 64-bit multiply-and-rotate over words: fast, and only meant to notice accidents.
inline uint64_t DigestOfHostMemory(const void* from, int64_t bytes) {
  const auto* data = static_cast<const uint8_t*>(from);
  uint64_t hash = 0;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
    hash ^= hash >> 32;
  }
  for (; bytes > 0; --bytes) hash = (hash ^ *data++) * 0x100000001b3ULL;
  return hash;
}

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_HOST_MEMORY_H_
