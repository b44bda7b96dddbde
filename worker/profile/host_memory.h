// Digests of memory that this process can read, for devices whose memory is the host's.
#ifndef KILN_WORKER_PROFILE_HOST_MEMORY_H_
#define KILN_WORKER_PROFILE_HOST_MEMORY_H_

#include <cstdint>
#include <cstring>

namespace kiln::worker {

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
