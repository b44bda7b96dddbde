// Memory of the host for tensors. Small blocks are cut from slabs that are kept when all of their
// blocks are free: to have a page for the first time costs the system as much as filling it several
// times, and each set of tensors is thousands of copies where they are small.
#ifndef KILN_WORKER_PROFILE_HOST_ARENA_H_
#define KILN_WORKER_PROFILE_HOST_ARENA_H_

#include <cstdint>
#include <map>

namespace kiln::worker {

// Not thread-safe. What was not given back goes with it, but for large blocks.
class HostArena {
 public:
  HostArena() = default;
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  // At least page-aligned, and of any content. Null: there is no room.
  void* Take(int64_t bytes);
  // `bytes`: as they were asked for.
  void Give(void* address, int64_t bytes);

 private:
  struct Slab {
    int64_t used = 0;  // bytes from its start
    int blocks = 0;    // that are taken
  };
  using Slabs = std::map<uint8_t*, Slab>;  // by the first byte

  Slabs::iterator SlabWithRoom(int64_t bytes);

  Slabs slabs_;
  Slabs::iterator filling_ = slabs_.end();  // what the last block was cut from
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_HOST_ARENA_H_
