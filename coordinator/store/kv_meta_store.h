// MetaStore over an ordered map. Internal to this folder and its tests.
#ifndef KILN_COORDINATOR_STORE_KV_META_STORE_H_
#define KILN_COORDINATOR_STORE_KV_META_STORE_H_

#include <memory>

#include "coordinator/store/kv.h"
#include "coordinator/store/meta_store.h"

namespace kiln::store {

inline constexpr int kMetaFormatVersion = 1;

// Checks the format and takes the map over.
absl::StatusOr<std::unique_ptr<MetaStore>> NewKvMetaStore(std::unique_ptr<Kv> kv);

}  // namespace kiln::store

#endif  // KILN_COORDINATOR_STORE_KV_META_STORE_H_
