#include "coordinator/store/failing_kv.h"

#include <limits>
#include <mutex>

#include "absl/strings/match.h"
#include "compiler/base/status.h"

namespace kiln::store {

struct FailureScript::State {
  std::mutex mutex;
  int writes_seen = 0;
  int fail_from = std::numeric_limits<int>::max();
  absl::Status write_status;
  absl::Status read_status;
  std::string corrupt;
};

FailureScript::FailureScript() : state_(std::make_unique<State>()) {}
FailureScript::~FailureScript() = default;

void FailureScript::FailWritesAfter(int writes, absl::Status status) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_from = state_->writes_seen + writes;
  state_->write_status = std::move(status);
}

void FailureScript::FailReads(absl::Status status) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->read_status = std::move(status);
}

void FailureScript::CorruptReadsOf(std::string part) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->corrupt = std::move(part);
}

void FailureScript::Clear() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_from = std::numeric_limits<int>::max();
  state_->read_status = absl::OkStatus();
  state_->corrupt.clear();
}

int FailureScript::writes_seen() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->writes_seen;
}

class FailingKv : public Kv {
 public:
  FailingKv(std::unique_ptr<Kv> inner, FailureScript* script)
      : inner_(std::move(inner)), state_(script->state_.get()) {}

  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override {
    bool corrupt = false;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      KILN_RETURN_IF_ERROR(state_->read_status);
      corrupt = !state_->corrupt.empty() && absl::StrContains(key, state_->corrupt);
    }
    KILN_ASSIGN_OR_RETURN(std::optional<std::string> value, inner_->Get(key));
    if (corrupt && value.has_value() && !value->empty()) (*value)[value->size() / 2] ^= 1;
    return value;
  }

  absl::Status Scan(absl::string_view prefix, absl::string_view after,
                    const Visitor& visit) override {
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      KILN_RETURN_IF_ERROR(state_->read_status);
    }
    return inner_->Scan(prefix, after, visit);
  }

  absl::Status Write(const std::vector<KvOp>& ops, bool sync) override {
    KILN_RETURN_IF_ERROR(CountWrite());
    return inner_->Write(ops, sync);
  }

  absl::Status Recover() override {
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      if (state_->writes_seen >= state_->fail_from) return state_->write_status;
    }
    return inner_->Recover();
  }
  absl::StatusOr<int64_t> Checkpoint(const std::string& directory) override {
    return inner_->Checkpoint(directory);
  }
  absl::Status Compact() override { return inner_->Compact(); }
  absl::StatusOr<int64_t> FreeDiskBytes() override { return inner_->FreeDiskBytes(); }

 private:
  absl::Status CountWrite() {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->writes_seen >= state_->fail_from) return state_->write_status;
    ++state_->writes_seen;
    return absl::OkStatus();
  }

  std::unique_ptr<Kv> inner_;
  FailureScript::State* const state_;
};

std::unique_ptr<Kv> NewFailingKv(std::unique_ptr<Kv> inner, FailureScript* script) {
  return std::make_unique<FailingKv>(std::move(inner), script);
}

}  // namespace kiln::store
