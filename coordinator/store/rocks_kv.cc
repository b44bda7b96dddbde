#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <spdlog/spdlog.h>
#include <sys/statvfs.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "coordinator/store/kv.h"

namespace kiln::store {
namespace {

rocksdb::Slice ToSlice(absl::string_view text) { return {text.data(), text.size()}; }
absl::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// The first key after all keys with `prefix`; prefixes here never end in 0xff.
std::string EndOfPrefix(std::string prefix) {
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  if (status.IsNoSpace() || absl::StrContains(text, "No space left")) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": disk full; free some space on the store's disk (", text, ")"));
  }
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat(
        what, ": stored data is damaged; restore the store from a backup (", text, ")"));
  }
  return absl::UnavailableError(absl::StrCat(what, ": ", text));
}

absl::Status OpenError(const std::string& directory, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  // The words of a failed flock and of a second open in this process; other messages have "lock" in
  // them too ("block checksum mismatch", "While open a file for lock").
  if (absl::StartsWith(text, "IO error: While lock file") ||
      absl::StartsWith(text, "IO error: lock hold by current process")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the store in ", directory,
                     " is open in another process; a store belongs to one coordinator at a time. "
                     "Stop the other one or give this one its own directory (",
                     text, ")"));
  }
  return FromRocks(status, absl::StrCat("cannot open the store in ", directory));
}

// RocksDB's messages go into our own log. Its log file would sit on the store's disk, and a disk
// that fills up under that file takes the process with it.
class ForwardingLogger : public rocksdb::Logger {
 public:
  ForwardingLogger() : rocksdb::Logger(rocksdb::WARN_LEVEL) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1024];
    std::vsnprintf(line, sizeof(line), format, arguments);
    spdlog::warn("rocksdb: {}", line);
  }
};

// After a full disk RocksDB would wait for 64 MiB of free space, and look every five seconds. The
// next write tries instead.
class RecoverOnWrite : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::Options MakeOptions(const RocksKvOptions& options) {
  rocksdb::Options out;
  out.create_if_missing = true;
  out.paranoid_checks = true;
  out.info_log = std::make_shared<ForwardingLogger>();
  out.listeners.push_back(std::make_shared<RecoverOnWrite>());
  out.max_background_jobs = 2;
  out.write_buffer_size = options.large_values ? 32 << 20 : 64 << 20;
  out.max_total_wal_size = 256 << 20;
  // A crash cuts a log short; a damage anywhere else is an error, not a reason to forget what was
  // acknowledged behind it.
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  out.max_open_files = 256;
  rocksdb::BlockBasedTableOptions table;
  table.format_version = 5;
  table.cache_index_and_filter_blocks = false;
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  if (options.large_values) {
    out.enable_blob_files = true;
    out.min_blob_size = 4096;
    out.blob_file_size = 64 << 20;
    out.enable_blob_garbage_collection = true;
    out.blob_garbage_collection_age_cutoff = 0.5;
    out.blob_garbage_collection_force_threshold = 0.5;
  }
  return out;
}

class RocksKv : public Kv {
 public:
  RocksKv(std::string directory, std::unique_ptr<rocksdb::DB> db)
      : directory_(std::move(directory)), db_(std::move(db)) {}

  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override {
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    KILN_RETURN_IF_ERROR(FromRocks(status, "reading the store"));
    return std::optional<std::string>(std::move(value));
  }

  absl::Status Scan(absl::string_view prefix, absl::string_view after,
                    const Visitor& visit) override {
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
    it->Seek(ToSlice(after > prefix ? after : prefix));
    for (; it->Valid() && it->key().starts_with(ToSlice(prefix)); it->Next()) {
      if (!after.empty() && ToView(it->key()) <= after) continue;
      if (!visit(ToView(it->key()), ToView(it->value()))) break;
    }
    return FromRocks(it->status(), "scanning the store");
  }

  absl::Status Write(const std::vector<KvOp>& ops, bool sync) override {
    rocksdb::WriteBatch batch;
    for (const KvOp& op : ops) {
      switch (op.kind) {
        case KvOp::Kind::kPut:
          batch.Put(op.key, op.value);
          break;
        case KvOp::Kind::kDelete:
          batch.Delete(op.key);
          break;
        case KvOp::Kind::kDeletePrefix:
          batch.DeleteRange(op.key, EndOfPrefix(op.key));
          break;
      }
    }
    rocksdb::WriteOptions write;
    write.sync = sync;
    rocksdb::Status status = db_->Write(write, &batch);
    // An earlier error may have left the database read-only though the disk is well again.
    if (!status.ok() && db_->Resume().ok()) status = db_->Write(write, &batch);
    return FromRocks(status, "writing the store");
  }

  absl::Status Recover() override { return FromRocks(db_->Resume(), "resuming the store"); }

  absl::StatusOr<int64_t> Checkpoint(const std::string& directory) override {
    rocksdb::Checkpoint* raw = nullptr;
    KILN_RETURN_IF_ERROR(FromRocks(rocksdb::Checkpoint::Create(db_.get(), &raw), "backup"));
    std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    KILN_RETURN_IF_ERROR(
        FromRocks(checkpoint->CreateCheckpoint(directory), absl::StrCat("backup to ", directory)));
    int64_t bytes = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
      bytes += static_cast<int64_t>(entry.file_size(ignored));
    }
    return bytes;
  }

  absl::Status Compact() override {
    return FromRocks(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr),
                     "compacting the store");
  }

  absl::StatusOr<int64_t> FreeDiskBytes() override {
    struct statvfs info {};
    if (statvfs(directory_.c_str(), &info) != 0) {
      return absl::UnavailableError(absl::StrCat("statvfs(", directory_, ") failed"));
    }
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }

 private:
  const std::string directory_;
  std::unique_ptr<rocksdb::DB> db_;
};

// Files that exist only once the database had a CURRENT: a first start that was cut short leaves no
// more than an IDENTITY, a LOCK and the first MANIFEST.
bool IsDatabaseFile(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  if (extension == ".sst" || extension == ".blob" || extension == ".log") return true;
  if (absl::StartsWith(name, "OPTIONS-")) return true;
  return absl::StartsWith(name, "MANIFEST-") && name != "MANIFEST-000001";
}

}  // namespace

absl::Status CheckRocksFiles(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path current = std::filesystem::path(directory) / "CURRENT";
  const bool has_current = std::filesystem::exists(current, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot look at ", current.string(), ": ", error.message()));
  }
  if (has_current) {
    std::string manifest;
    std::getline(std::ifstream(current), manifest);
    if (!manifest.empty() && std::filesystem::exists(current.parent_path() / manifest, error)) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(
        "the store in ", directory, " is damaged: its file CURRENT names '",
        absl::CHexEscape(manifest.substr(0, 40)), "', which is not there. Nothing was changed. ",
        "Restore the store from a backup"));
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!IsDatabaseFile(entry.path())) continue;
    return absl::DataLossError(absl::StrCat(
        "the store in ", directory, " is damaged: it holds data (",
        entry.path().filename().string(),
        ") but its file CURRENT is missing. Nothing was changed. Put CURRENT back (one line: the "
        "name of the newest MANIFEST file of that folder) or restore the store from a backup"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kv>> OpenRocksKv(const RocksKvOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot create ", options.directory, ": ", error.message()));
  }
  KILN_RETURN_IF_ERROR(CheckRocksFiles(options.directory));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(MakeOptions(options), options.directory, &db);
  if (!status.ok()) return OpenError(options.directory, status);
  return std::make_unique<RocksKv>(options.directory, std::unique_ptr<rocksdb::DB>(db));
}

}  // namespace kiln::store
