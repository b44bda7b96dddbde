#include <limits>
#include <map>
#include <mutex>

#include "coordinator/store/kv.h"

namespace kiln::store {
namespace {

bool HasPrefix(absl::string_view text, absl::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

class MemoryKv : public Kv {
 public:
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = rows_.find(std::string(key));
    if (it == rows_.end()) return std::optional<std::string>();
    return std::optional<std::string>(it->second);
  }

  absl::Status Scan(absl::string_view prefix, absl::string_view after,
                    const Visitor& visit) override {
    std::map<std::string, std::string> snapshot;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (auto it = rows_.lower_bound(std::string(prefix));
           it != rows_.end() && HasPrefix(it->first, prefix); ++it) {
        if (after.empty() || it->first > after) snapshot.insert(*it);
      }
    }
    for (const auto& [key, value] : snapshot) {
      if (!visit(key, value)) break;
    }
    return absl::OkStatus();
  }

  absl::Status Write(const std::vector<KvOp>& ops, bool sync) override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const KvOp& op : ops) Apply(op);
    return absl::OkStatus();
  }

  absl::Status Recover() override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Checkpoint(const std::string& directory) override {
    return absl::UnimplementedError("a store in memory has nothing on disk to copy");
  }
  absl::Status Compact() override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> FreeDiskBytes() override { return std::numeric_limits<int64_t>::max(); }

 private:
  void Apply(const KvOp& op) {
    switch (op.kind) {
      case KvOp::Kind::kPut:
        rows_[op.key] = op.value;
        return;
      case KvOp::Kind::kDelete:
        rows_.erase(op.key);
        return;
      case KvOp::Kind::kDeletePrefix: {
        auto it = rows_.lower_bound(op.key);
        while (it != rows_.end() && HasPrefix(it->first, op.key)) it = rows_.erase(it);
        return;
      }
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::string> rows_;
};

}  // namespace

std::unique_ptr<Kv> NewMemoryKv() { return std::make_unique<MemoryKv>(); }

}  // namespace kiln::store
