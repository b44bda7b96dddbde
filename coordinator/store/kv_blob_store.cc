#include "coordinator/store/kv_blob_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "coordinator/store/keys.h"
#include "kiln/v1/store.pb.h"

namespace kiln::store {
namespace {

constexpr int64_t kUsedEveryMs = 60'000;  // how stale the stored time of the last use may be
constexpr double kEvictTo = 0.95;  // of the limit, so that a full cache does not evict each put

struct Entry {
  v1::BlobRow row;
  int64_t used_ms = 0;
  int64_t used_stored_ms = 0;
  std::set<std::string> owners;
};

class KvBlobStore : public BlobStore {
 public:
  KvBlobStore(std::unique_ptr<Kv> kv, const BlobStoreOptions& options, const Clock* clock)
      : kv_(std::move(kv)), options_(options), clock_(clock) {}

  absl::Status Open();

  absl::StatusOr<std::unique_ptr<BlobWriter>> NewWriter(const std::string& digest,
                                                        int64_t size_bytes) override;
  absl::StatusOr<std::string> Read(const std::string& digest, int64_t offset,
                                   int64_t limit) override;
  absl::StatusOr<int64_t> Size(const std::string& digest) override;
  absl::Status Pin(const std::string& digest, const std::string& owner) override;
  absl::Status Unpin(const std::string& digest, const std::string& owner) override;
  absl::Status UnpinOwner(const std::string& owner, const std::string& keep) override;
  std::vector<std::pair<std::string, std::string>> Pins() override;
  absl::StatusOr<BlobGcResult> CollectGarbage(int64_t target_bytes, bool dry_run) override;
  BlobUsage Usage() override;
  absl::StatusOr<int64_t> Checkpoint(const std::string& directory) override {
    return kv_->Checkpoint(directory);
  }

 private:
  friend class KvBlobWriter;

  absl::Status LoadRows();
  absl::Status DropInterruptedUploads();
  absl::Status CheckSpace(int64_t size_bytes);
  absl::Status Publish(const v1::BlobRow& row);
  absl::StatusOr<std::string> ReadChunk(const v1::BlobRow& row, int index);
  void MarkUsed(const std::string& digest);
  absl::Status EvictIfOverLimit();
  std::vector<std::string> Evictable(int64_t target_bytes);  // holds mutex_
  absl::Status Drop(const std::vector<std::string>& digests);
  int64_t NowMs() const { return clock_->Now().wall_ms; }

  std::unique_ptr<Kv> kv_;
  const BlobStoreOptions options_;
  const Clock* const clock_;

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::set<std::string>> pinned_by_;  // owner -> digests
  int64_t bytes_ = 0;
  uint64_t next_upload_ = 1;
};

class KvBlobWriter : public BlobWriter {
 public:
  KvBlobWriter(KvBlobStore* store, const std::string& digest, int64_t size, uint64_t upload)
      : store_(store), chunk_bytes_(store->options_.chunk_bytes) {
    row_.set_digest(digest);
    row_.set_size_bytes(size);
    row_.set_upload(upload);
    row_.set_chunk_bytes(chunk_bytes_);
  }

  ~KvBlobWriter() override {
    if (!published_) Abandon();
  }

  absl::Status Append(absl::string_view bytes) override {
    if (received_ + static_cast<int64_t>(bytes.size()) > row_.size_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("blob ", row_.digest(), ": more than the ",
                                                     row_.size_bytes(), " bytes announced"));
    }
    received_ += static_cast<int64_t>(bytes.size());
    hasher_.Update(bytes);
    while (!bytes.empty()) {
      const size_t take =
          std::min(bytes.size(), static_cast<size_t>(chunk_bytes_) - buffer_.size());
      buffer_.append(bytes.data(), take);
      bytes.remove_prefix(take);
      if (static_cast<int64_t>(buffer_.size()) == chunk_bytes_) KILN_RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (received_ != row_.size_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("blob ", row_.digest(), ": ", received_,
                                                     " bytes came, ", row_.size_bytes(),
                                                     " were announced"));
    }
    const std::string actual = hasher_.FinishHex();
    if (actual != row_.digest()) {
      return absl::InvalidArgumentError(
          absl::StrCat("blob ", row_.digest(), ": the bytes have digest ", actual));
    }
    if (!buffer_.empty()) KILN_RETURN_IF_ERROR(Flush());
    KILN_RETURN_IF_ERROR(store_->Publish(row_));
    published_ = true;
    return store_->EvictIfOverLimit();
  }

 private:
  absl::Status Flush() {
    std::vector<KvOp> ops;
    const int index = row_.chunk_sha256_size();
    if (index == 0) ops.push_back(KvOp::Put(keys::Upload(row_.digest(), row_.upload()), ""));
    row_.add_chunk_sha256(Sha256Hex(buffer_));
    ops.push_back(KvOp::Put(keys::Chunk(row_.digest(), row_.upload(), index), std::move(buffer_)));
    buffer_.clear();
    return store_->kv_->Write(ops, false);
  }

  void Abandon() {
    if (row_.chunk_sha256_size() == 0) return;
    std::vector<KvOp> ops;
    for (int i = 0; i < row_.chunk_sha256_size(); ++i) {
      ops.push_back(KvOp::Delete(keys::Chunk(row_.digest(), row_.upload(), i)));
    }
    ops.push_back(KvOp::Delete(keys::Upload(row_.digest(), row_.upload())));
    // If this fails, the upload row stays and the next start cleans up.
    store_->kv_->Write(ops, false).IgnoreError();
  }

  KvBlobStore* const store_;
  const int64_t chunk_bytes_;
  v1::BlobRow row_;
  Hasher hasher_;
  std::string buffer_;
  int64_t received_ = 0;
  bool published_ = false;
};

absl::Status KvBlobStore::Open() {
  KILN_RETURN_IF_ERROR(CheckFormat(kv_.get(), "kiln-blobs", kBlobFormatVersion));
  KILN_RETURN_IF_ERROR(DropInterruptedUploads());
  KILN_ASSIGN_OR_RETURN(std::optional<std::string> opens, kv_->Get(keys::kOpens));
  uint64_t count = 0;
  if (opens.has_value() && !absl::SimpleAtoi(*opens, &count)) {
    return absl::DataLossError(absl::StrCat("the store's opens row reads '", *opens, "'"));
  }
  KILN_RETURN_IF_ERROR(kv_->Write({KvOp::Put(keys::kOpens, absl::StrCat(count + 1))}, true));
  next_upload_ = ((count + 1) << 32) + 1;
  return LoadRows();
}

absl::Status KvBlobStore::DropInterruptedUploads() {
  std::vector<KvOp> ops;
  KILN_RETURN_IF_ERROR(kv_->Scan(keys::kUpload, "", [&](absl::string_view key, absl::string_view) {
    // upload/<digest>/<upload> -> chunk/<digest>/<upload>/
    ops.push_back(KvOp::DeletePrefix(
        absl::StrCat(keys::kChunk, key.substr(absl::string_view(keys::kUpload).size()), "/")));
    ops.push_back(KvOp::Delete(std::string(key)));
    return true;
  }));
  return ops.empty() ? absl::OkStatus() : kv_->Write(ops, true);
}

absl::Status KvBlobStore::LoadRows() {
  absl::Status bad;
  KILN_RETURN_IF_ERROR(
      kv_->Scan(keys::kBlob, "", [&](absl::string_view key, absl::string_view value) {
        Entry entry;
        if (!entry.row.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          bad = absl::DataLossError(absl::StrCat("row '", key, "' of the store does not parse"));
          return false;
        }
        entry.used_ms = entry.row.stored_unix_ms();
        bytes_ += entry.row.size_bytes();
        std::string digest = entry.row.digest();
        entries_.emplace(std::move(digest), std::move(entry));
        return true;
      }));
  KILN_RETURN_IF_ERROR(bad);
  KILN_RETURN_IF_ERROR(
      kv_->Scan(keys::kUsed, "", [&](absl::string_view key, absl::string_view value) {
        auto it = entries_.find(std::string(key.substr(absl::string_view(keys::kUsed).size())));
        int64_t used = 0;
        if (it != entries_.end() && absl::SimpleAtoi(value, &used)) {
          it->second.used_ms = it->second.used_stored_ms = used;
        }
        return true;
      }));
  return kv_->Scan(keys::kPin, "", [&](absl::string_view key, absl::string_view) {
    const std::pair<std::string, std::string> pin =
        absl::StrSplit(key.substr(absl::string_view(keys::kPin).size()), absl::MaxSplits('/', 1));
    auto it = entries_.find(pin.first);
    if (it == entries_.end()) return true;
    it->second.owners.insert(pin.second);
    pinned_by_[pin.second].insert(pin.first);
    return true;
  });
}

absl::Status KvBlobStore::CheckSpace(int64_t size_bytes) {
  if (size_bytes > options_.max_blob_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a blob of ", size_bytes, " bytes is over the limit of ", options_.max_blob_bytes));
  }
  KILN_ASSIGN_OR_RETURN(const int64_t free_bytes, kv_->FreeDiskBytes());
  if (free_bytes - size_bytes < options_.min_free_disk_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("disk full: ", free_bytes, " bytes free on the store's disk, of which ",
                     options_.min_free_disk_bytes, " are kept back; free some space"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BlobWriter>> KvBlobStore::NewWriter(const std::string& digest,
                                                                   int64_t size_bytes) {
  if (!IsSha256Hex(digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", digest, "' is not a SHA-256 digest (64 lower-case hexadecimal digits)"));
  }
  if (size_bytes < 0) return absl::InvalidArgumentError("the size of a blob cannot be negative");
  KILN_RETURN_IF_ERROR(CheckSpace(size_bytes));
  uint64_t upload = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (entries_.count(digest) > 0) {
      MarkUsed(digest);
      return absl::AlreadyExistsError(absl::StrCat("blob ", digest, " is stored already"));
    }
    upload = next_upload_++;
  }
  return std::make_unique<KvBlobWriter>(this, digest, size_bytes, upload);
}

absl::Status KvBlobStore::Publish(const v1::BlobRow& row) {
  Entry entry;
  entry.row = row;
  entry.used_ms = NowMs();
  entry.row.set_stored_unix_ms(entry.used_ms);
  std::lock_guard<std::mutex> lock(mutex_);
  // Two uploads of one blob at a time: the second one's chunks go, the first one's stay.
  if (entries_.count(row.digest()) > 0) {
    std::vector<KvOp> ops;
    for (int i = 0; i < row.chunk_sha256_size(); ++i) {
      ops.push_back(KvOp::Delete(keys::Chunk(row.digest(), row.upload(), i)));
    }
    ops.push_back(KvOp::Delete(keys::Upload(row.digest(), row.upload())));
    return kv_->Write(ops, false);
  }
  KILN_RETURN_IF_ERROR(
      kv_->Write({KvOp::Put(absl::StrCat(keys::kBlob, row.digest()), entry.row.SerializeAsString()),
                  KvOp::Delete(keys::Upload(row.digest(), row.upload()))},
                 true));
  bytes_ += row.size_bytes();
  entries_.emplace(row.digest(), std::move(entry));
  return absl::OkStatus();
}

// Holds mutex_.
void KvBlobStore::MarkUsed(const std::string& digest) {
  Entry& entry = entries_.at(digest);
  entry.used_ms = NowMs();
  if (entry.used_ms - entry.used_stored_ms < kUsedEveryMs) return;
  entry.used_stored_ms = entry.used_ms;
  // A lost time of use only makes the blob look older.
  kv_->Write({KvOp::Put(absl::StrCat(keys::kUsed, digest), absl::StrCat(entry.used_ms))}, false)
      .IgnoreError();
}

absl::StatusOr<std::string> KvBlobStore::ReadChunk(const v1::BlobRow& row, int index) {
  KILN_ASSIGN_OR_RETURN(std::optional<std::string> bytes,
                        kv_->Get(keys::Chunk(row.digest(), row.upload(), index)));
  if (!bytes.has_value()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (entries_.count(row.digest()) == 0) {
      return absl::NotFoundError(absl::StrCat("blob ", row.digest(), " has just been collected"));
    }
    return absl::DataLossError(
        absl::StrCat("blob ", row.digest(), ": chunk ", index, " is missing"));
  }
  if (Sha256Hex(*bytes) != row.chunk_sha256(index)) {
    return absl::DataLossError(absl::StrCat("blob ", row.digest(), ": chunk ", index,
                                            " does not match its digest; the disk damaged it"));
  }
  return *std::move(bytes);
}

absl::StatusOr<std::string> KvBlobStore::Read(const std::string& digest, int64_t offset,
                                              int64_t limit) {
  if (offset < 0 || limit < 0) return absl::OutOfRangeError("negative offset or limit");
  v1::BlobRow row;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = entries_.find(digest);
    if (it == entries_.end()) {
      return absl::NotFoundError(absl::StrCat("no blob ", digest, " in the store"));
    }
    row = it->second.row;
    MarkUsed(digest);
  }
  std::string out;
  const int64_t size = row.size_bytes();
  int64_t left = offset >= size ? 0 : std::min(limit, size - offset);
  while (left > 0) {
    const int index = static_cast<int>(offset / row.chunk_bytes());
    KILN_ASSIGN_OR_RETURN(const std::string chunk, ReadChunk(row, index));
    const int64_t from = offset - index * row.chunk_bytes();
    const int64_t take = std::min(left, static_cast<int64_t>(chunk.size()) - from);
    if (take <= 0) return absl::DataLossError(absl::StrCat("blob ", digest, ": short chunk"));
    out.append(chunk, from, take);
    offset += take;
    left -= take;
  }
  return out;
}

absl::StatusOr<int64_t> KvBlobStore::Size(const std::string& digest) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = entries_.find(digest);
  if (it == entries_.end()) {
    return absl::NotFoundError(absl::StrCat("no blob ", digest, " in the store"));
  }
  MarkUsed(digest);
  return it->second.row.size_bytes();
}

absl::Status KvBlobStore::Pin(const std::string& digest, const std::string& owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = entries_.find(digest);
  if (it == entries_.end()) {
    return absl::NotFoundError(absl::StrCat("no blob ", digest, " in the store to pin"));
  }
  if (!it->second.owners.insert(owner).second) return absl::OkStatus();
  pinned_by_[owner].insert(digest);
  return kv_->Write({KvOp::Put(absl::StrCat(keys::kPin, digest, "/", owner), "")}, false);
}

absl::Status KvBlobStore::Unpin(const std::string& digest, const std::string& owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = entries_.find(digest);
  if (it != entries_.end()) it->second.owners.erase(owner);
  auto owned = pinned_by_.find(owner);
  if (owned != pinned_by_.end() && owned->second.erase(digest) > 0 && owned->second.empty()) {
    pinned_by_.erase(owned);
  }
  return kv_->Write({KvOp::Delete(absl::StrCat(keys::kPin, digest, "/", owner))}, false);
}

absl::Status KvBlobStore::UnpinOwner(const std::string& owner, const std::string& keep) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = pinned_by_.find(owner);
  if (it == pinned_by_.end()) return absl::OkStatus();
  std::vector<KvOp> ops;
  const bool kept = it->second.erase(keep) > 0;
  for (const std::string& digest : it->second) {
    auto entry = entries_.find(digest);
    if (entry != entries_.end()) entry->second.owners.erase(owner);
    ops.push_back(KvOp::Delete(absl::StrCat(keys::kPin, digest, "/", owner)));
  }
  if (kept) {
    it->second = {keep};
  } else {
    pinned_by_.erase(it);
  }
  return ops.empty() ? absl::OkStatus() : kv_->Write(ops, false);
}

std::vector<std::pair<std::string, std::string>> KvBlobStore::Pins() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<std::string, std::string>> pins;
  for (const auto& [owner, digests] : pinned_by_) {
    for (const std::string& digest : digests) pins.emplace_back(digest, owner);
  }
  return pins;
}

std::vector<std::string> KvBlobStore::Evictable(int64_t target_bytes) {
  std::vector<std::tuple<int64_t, std::string, int64_t>> idle;
  const int64_t newest = NowMs() - static_cast<int64_t>(options_.grace_seconds * 1000);
  for (const auto& [digest, entry] : entries_) {
    if (entry.owners.empty() && entry.used_ms <= newest) {
      idle.emplace_back(entry.used_ms, digest, entry.row.size_bytes());
    }
  }
  std::sort(idle.begin(), idle.end());
  std::vector<std::string> chosen;
  int64_t left = bytes_;
  for (const auto& [used, digest, size] : idle) {
    if (left <= target_bytes) break;
    left -= size;
    chosen.push_back(digest);
  }
  return chosen;
}

// Holds mutex_.
absl::Status KvBlobStore::Drop(const std::vector<std::string>& digests) {
  for (const std::string& digest : digests) {
    auto it = entries_.find(digest);
    const v1::BlobRow& row = it->second.row;
    std::vector<KvOp> ops = {KvOp::Delete(absl::StrCat(keys::kBlob, digest)),
                             KvOp::Delete(absl::StrCat(keys::kUsed, digest))};
    for (int i = 0; i < row.chunk_sha256_size(); ++i) {
      ops.push_back(KvOp::Delete(keys::Chunk(digest, row.upload(), i)));
    }
    KILN_RETURN_IF_ERROR(kv_->Write(ops, false));
    bytes_ -= row.size_bytes();
    entries_.erase(it);
  }
  return absl::OkStatus();
}

absl::Status KvBlobStore::EvictIfOverLimit() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes_ <= options_.limit_bytes) return absl::OkStatus();
  return Drop(
      Evictable(static_cast<int64_t>(kEvictTo * static_cast<double>(options_.limit_bytes))));
}

absl::StatusOr<BlobGcResult> KvBlobStore::CollectGarbage(int64_t target_bytes, bool dry_run) {
  BlobGcResult result;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    result.bytes_before = result.bytes_after = bytes_;
    const std::vector<std::string> chosen =
        Evictable(target_bytes > 0 ? target_bytes : options_.limit_bytes);
    result.dropped = static_cast<int>(chosen.size());
    if (dry_run) {
      for (const std::string& digest : chosen) {
        result.bytes_after -= entries_.at(digest).row.size_bytes();
      }
      return result;
    }
    KILN_RETURN_IF_ERROR(Drop(chosen));
    result.bytes_after = bytes_;
  }
  if (result.dropped > 0) KILN_RETURN_IF_ERROR(kv_->Compact());
  return result;
}

BlobUsage KvBlobStore::Usage() {
  std::lock_guard<std::mutex> lock(mutex_);
  BlobUsage usage;
  usage.bytes = bytes_;
  usage.blobs = static_cast<int64_t>(entries_.size());
  for (const auto& [digest, entry] : entries_) {
    if (!entry.owners.empty()) usage.pinned_bytes += entry.row.size_bytes();
  }
  return usage;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> NewKvBlobStore(std::unique_ptr<Kv> kv,
                                                          const BlobStoreOptions& options,
                                                          const Clock* clock) {
  KILN_CHECK(options.chunk_bytes > 0);
  auto store = std::make_unique<KvBlobStore>(std::move(kv), options, clock);
  KILN_RETURN_IF_ERROR(store->Open());
  return store;
}

absl::StatusOr<std::unique_ptr<BlobStore>> OpenRocksBlobStore(const std::string& directory,
                                                              const BlobStoreOptions& options,
                                                              const Clock* clock) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Kv> kv, OpenRocksKv({directory, /*large_values=*/true}));
  return NewKvBlobStore(std::move(kv), options, clock);
}

std::unique_ptr<BlobStore> NewMemoryBlobStore(const BlobStoreOptions& options, const Clock* clock) {
  absl::StatusOr<std::unique_ptr<BlobStore>> store = NewKvBlobStore(NewMemoryKv(), options, clock);
  KILN_CHECK(store.ok());
  return *std::move(store);
}

absl::StatusOr<std::string> BlobStore::PutBytes(absl::string_view bytes) {
  std::string digest = Sha256Hex(bytes);
  absl::StatusOr<std::unique_ptr<BlobWriter>> writer =
      NewWriter(digest, static_cast<int64_t>(bytes.size()));
  if (absl::IsAlreadyExists(writer.status())) return digest;
  KILN_RETURN_IF_ERROR(writer.status());
  KILN_RETURN_IF_ERROR((*writer)->Append(bytes));
  KILN_RETURN_IF_ERROR((*writer)->Finish());
  return digest;
}

absl::StatusOr<std::string> BlobStore::ReadAll(const std::string& digest) {
  KILN_ASSIGN_OR_RETURN(const int64_t size, Size(digest));
  return Read(digest, 0, size);
}

}  // namespace kiln::store
