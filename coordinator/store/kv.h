// The ordered map under the embedded stores. Internal to this folder: what leaves it is typed
// (MetaStore, BlobStore). Two providers, RocksDB and memory, and a failing twin.
#ifndef KILN_COORDINATOR_STORE_KV_H_
#define KILN_COORDINATOR_STORE_KV_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::store {

struct KvOp {
  enum class Kind { kPut, kDelete, kDeletePrefix };
  Kind kind = Kind::kPut;
  std::string key;
  std::string value;

  static KvOp Put(std::string key, std::string value) {
    return {Kind::kPut, std::move(key), std::move(value)};
  }
  static KvOp Delete(std::string key) { return {Kind::kDelete, std::move(key), {}}; }
  static KvOp DeletePrefix(std::string prefix) {
    return {Kind::kDeletePrefix, std::move(prefix), {}};
  }
};

// Thread-safe. Errors as MetaStore states them.
class Kv {
 public:
  virtual ~Kv() = default;

  virtual absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) = 0;

  // Calls `visit` for each key with `prefix` that is greater than `after` (empty = from the start),
  // in order, on one snapshot, until it returns false.
  using Visitor = std::function<bool(absl::string_view key, absl::string_view value)>;
  virtual absl::Status Scan(absl::string_view prefix, absl::string_view after,
                            const Visitor& visit) = 0;

  // Atomic; ops apply in order. With `sync` it is durable, with all earlier writes, when it
  // returns.
  virtual absl::Status Write(const std::vector<KvOp>& ops, bool sync) = 0;

  virtual absl::Status Recover() = 0;
  virtual absl::StatusOr<int64_t> Checkpoint(const std::string& directory) = 0;
  // Gives deleted space back to the disk; may take long.
  virtual absl::Status Compact() = 0;
  // Bytes that the disk can still take.
  virtual absl::StatusOr<int64_t> FreeDiskBytes() = 0;
};

struct RocksKvOptions {
  std::string directory;
  bool large_values = false;  // keep values in blob files beside the tree
};
// kFailedPrecondition: another process has the directory open. kDataLoss: what is there is damaged.
// Other trouble with the disk (read-only, no permission): kUnavailable with the system's words.
absl::StatusOr<std::unique_ptr<Kv>> OpenRocksKv(const RocksKvOptions& options);
// kDataLoss when `directory` holds parts of a database without the file that says which of them
// count: opening it would begin an empty one and delete the rest. OpenRocksKv asks this first; ask
// it for several directories to open all or none. Changes nothing.
absl::Status CheckRocksFiles(const std::string& directory);
std::unique_ptr<Kv> NewMemoryKv();

// Compares the stored "format" row with (kind, version), writes it into an empty store.
// kFailedPrecondition: newer than `version`, or a store of another kind.
absl::Status CheckFormat(Kv* kv, absl::string_view kind, int version);

}  // namespace kiln::store

#endif  // KILN_COORDINATOR_STORE_KV_H_
