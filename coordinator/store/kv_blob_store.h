// BlobStore over an ordered map. Internal to this folder and its tests.
#ifndef KILN_COORDINATOR_STORE_KV_BLOB_STORE_H_
#define KILN_COORDINATOR_STORE_KV_BLOB_STORE_H_

#include <memory>

#include "coordinator/store/blob_store.h"
#include "coordinator/store/kv.h"

namespace kiln::store {

inline constexpr int kBlobFormatVersion = 1;

// Checks the format, drops what interrupted uploads left, and takes the map over.
absl::StatusOr<std::unique_ptr<BlobStore>> NewKvBlobStore(std::unique_ptr<Kv> kv,
                                                          const BlobStoreOptions& options,
                                                          const Clock* clock);

}  // namespace kiln::store

#endif  // KILN_COORDINATOR_STORE_KV_BLOB_STORE_H_
