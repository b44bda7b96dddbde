// The providers that the conformance suites run against, each as a way to open and reopen a store.
#ifndef KILN_TESTS_CONFORMANCE_STORES_H_
#define KILN_TESTS_CONFORMANCE_STORES_H_

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/base/clock.h"
#include "compiler/base/status.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/kv.h"
#include "coordinator/store/kv_blob_store.h"
#include "coordinator/store/kv_meta_store.h"
#include "coordinator/store/meta_store.h"

namespace kiln::testing {

// A directory that goes with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    KILN_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class MemoryProvider {
 public:
  static constexpr bool kDurable = false;
  std::unique_ptr<store::MetaStore> OpenMeta() { return store::NewMemoryMetaStore(); }
  std::unique_ptr<store::BlobStore> OpenBlobs(const store::BlobStoreOptions& options,
                                              const Clock* clock) {
    return store::NewMemoryBlobStore(options, clock);
  }
};

class RocksProvider {
 public:
  static constexpr bool kDurable = true;
  std::unique_ptr<store::MetaStore> OpenMeta() {
    auto store = store::OpenRocksMetaStore(dir_ / "meta");
    KILN_CHECK(store.ok());
    return *std::move(store);
  }
  std::unique_ptr<store::BlobStore> OpenBlobs(const store::BlobStoreOptions& options,
                                              const Clock* clock) {
    auto store = store::OpenRocksBlobStore(dir_ / "blobs", options, clock);
    KILN_CHECK(store.ok());
    return *std::move(store);
  }
  const TempDir& dir() const { return dir_; }

 private:
  TempDir dir_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_STORES_H_
