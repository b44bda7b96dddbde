// Blobs on the worker's disk: what was fetched or made here, under a byte limit, oldest use first
// out. A file's name is its digest and its bytes are hashed each time they are handed out, so a
// damaged file is fetched again and never used.
#ifndef KILN_WORKER_BLOB_CACHE_H_
#define KILN_WORKER_BLOB_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/link.h"

namespace kiln::worker {

struct BlobCacheStats {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t corrupt = 0;  // files whose bytes did not match their name
  int64_t fetched_bytes = 0;
  int64_t bytes = 0;  // on disk now
};

// Thread-safe. Two threads that miss the same blob fetch it twice; the second rename is harmless.
class BlobCache {
 public:
  // Keeps a file from being evicted while it is used.
  class Pin {
   public:
    Pin() = default;
    Pin(BlobCache* cache, std::string digest, std::string path)
        : cache_(cache), digest_(std::move(digest)), path_(std::move(path)) {}
    ~Pin() { Unpin(); }
    Pin(Pin&& other) noexcept { *this = std::move(other); }
    Pin& operator=(Pin&& other) noexcept;
    const std::string& path() const { return path_; }

   private:
    void Unpin();
    BlobCache* cache_ = nullptr;
    std::string digest_;
    std::string path_;
  };

  // Creates `directory` where needed and takes over what earlier runs left there. kInvalidArgument
  // or kUnavailable when the directory cannot be used. `link` must outlive the cache.
  static absl::StatusOr<std::unique_ptr<BlobCache>> Open(std::string directory, int64_t limit_bytes,
                                                         Link* link);

  // The blob's file, fetched where it is missing. kInvalidArgument: not a digest; kDataLoss: the
  // coordinator sent bytes that do not match; otherwise the link's status.
  absl::StatusOr<Pin> Get(const std::string& digest);
  // The blob's bytes, likewise.
  absl::StatusOr<std::string> Read(const std::string& digest);
  // Keeps bytes that were made here. An error only means that they are not cached.
  absl::Status Add(const std::string& digest, absl::string_view bytes);

  BlobCacheStats stats() const;

 private:
  struct Entry {
    int64_t bytes = 0;
    int pins = 0;
    std::list<std::string>::iterator use;  // in uses_
  };

  BlobCache(std::string directory, int64_t limit_bytes, Link* link)
      : directory_(std::move(directory)), limit_bytes_(limit_bytes), link_(link) {}

  std::string PathOf(const std::string& digest) const { return directory_ + "/" + digest; }
  absl::Status Adopt();
  // The verified bytes of the cached file, pinned; kNotFound when there is none.
  absl::StatusOr<Pin> Cached(const std::string& digest, std::string* bytes);
  absl::StatusOr<Pin> Fetch(const std::string& digest, std::string* bytes);
  absl::StatusOr<Pin> Store(const std::string& digest, absl::string_view bytes);
  void Forget(const std::string& digest);
  void EvictLocked();

  const std::string directory_;
  const int64_t limit_bytes_;
  Link* const link_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::list<std::string> uses_;  // oldest first
  BlobCacheStats stats_;
  uint64_t next_temporary_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_BLOB_CACHE_H_
