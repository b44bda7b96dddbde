// The durable seam for bytes: blobs named by their SHA-256. A blob is durable before any metadata
// names it. Pinned blobs stay; the rest is a cache under a byte limit.
#ifndef KILN_COORDINATOR_STORE_BLOB_STORE_H_
#define KILN_COORDINATOR_STORE_BLOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/clock.h"

namespace kiln::store {

struct BlobStoreOptions {
  int64_t limit_bytes = int64_t{64} << 30;    // of unpinned and pinned blobs together
  int64_t max_blob_bytes = int64_t{1} << 30;  // a larger blob is refused before its first byte
  int64_t chunk_bytes = int64_t{256} << 10;   // stored and verified in pieces of this size
  int64_t min_free_disk_bytes = int64_t{64} << 20;  // a put that would leave less is refused
  // Blobs used within this time are never collected, pinned or not: something may be about to name
  // them.
  double grace_seconds = 600;
};

struct BlobGcResult {
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
  int dropped = 0;
};

struct BlobUsage {
  int64_t bytes = 0;
  int64_t pinned_bytes = 0;
  int64_t blobs = 0;
};

// One upload. Not thread-safe. Destroying it before Finish drops what was written.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // kResourceExhausted: disk full, or more bytes than were announced (kInvalidArgument).
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Durable when it returns OK. kInvalidArgument: size or digest differ from what was announced;
  // nothing is stored.
  virtual absl::Status Finish() = 0;
};

// Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Starts an upload of `size_bytes` bytes named `digest` (64 hex digits, else kInvalidArgument).
  // kAlreadyExists: the store has it; the upload can be skipped. kResourceExhausted: over
  // max_blob_bytes, or the disk is (nearly) full.
  virtual absl::StatusOr<std::unique_ptr<BlobWriter>> NewWriter(const std::string& digest,
                                                                int64_t size_bytes) = 0;

  // At most `limit` bytes from `offset`; empty at or after the end. Every byte handed out has been
  // verified. kNotFound; kDataLoss when stored bytes fail their digest; kOutOfRange for a negative
  // offset.
  virtual absl::StatusOr<std::string> Read(const std::string& digest, int64_t offset,
                                           int64_t limit) = 0;

  // Bytes of the blob. kNotFound.
  virtual absl::StatusOr<int64_t> Size(const std::string& digest) = 0;

  // A pinned blob is never collected. A blob may be pinned by several owners ("winner:<key>",
  // "sweep:<digest>"); it is free again when the last lets go. Pin: kNotFound when the blob is not
  // there. UnpinOwner drops all pins of an owner but the one of `keep` (may be empty); unknown pins
  // are fine.
  virtual absl::Status Pin(const std::string& digest, const std::string& owner) = 0;
  virtual absl::Status Unpin(const std::string& digest, const std::string& owner) = 0;
  virtual absl::Status UnpinOwner(const std::string& owner, const std::string& keep) = 0;
  // Every (digest, owner) pair; pins outlive the process.
  virtual std::vector<std::pair<std::string, std::string>> Pins() = 0;

  // Drops unpinned blobs, oldest use first, until at most `target_bytes` are left (0 = the limit).
  // A store does this by itself when a put passes the limit.
  virtual absl::StatusOr<BlobGcResult> CollectGarbage(int64_t target_bytes, bool dry_run) = 0;

  virtual BlobUsage Usage() = 0;

  // As MetaStore::Checkpoint.
  virtual absl::StatusOr<int64_t> Checkpoint(const std::string& directory) = 0;

  // Whole-blob shorthands over the calls above. PutBytes names the blob by its own digest, returns
  // it, and is content when the blob is there already.
  absl::StatusOr<std::string> PutBytes(absl::string_view bytes);
  absl::StatusOr<std::string> ReadAll(const std::string& digest);
  bool Contains(const std::string& digest) { return Size(digest).ok(); }
};

// As OpenRocksMetaStore. `clock` must outlive the store.
absl::StatusOr<std::unique_ptr<BlobStore>> OpenRocksBlobStore(const std::string& directory,
                                                              const BlobStoreOptions& options,
                                                              const Clock* clock);
std::unique_ptr<BlobStore> NewMemoryBlobStore(const BlobStoreOptions& options, const Clock* clock);

}  // namespace kiln::store

#endif  // KILN_COORDINATOR_STORE_BLOB_STORE_H_
