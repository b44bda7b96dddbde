// The failing twin of the stores' map: passes everything on until told to fail.
#ifndef KILN_COORDINATOR_STORE_FAILING_KV_H_
#define KILN_COORDINATOR_STORE_FAILING_KV_H_

#include <memory>

#include "coordinator/store/kv.h"

namespace kiln::store {

// What a FailingKv does; shared with the test that steers it. Thread-safe.
class FailureScript {
 public:
  FailureScript();
  ~FailureScript();
  // After `writes` more writes, every write fails with `status` (nothing is applied) until Clear.
  void FailWritesAfter(int writes, absl::Status status);
  void FailReads(absl::Status status);
  // The next read of a value whose key contains `part` comes back with one bit flipped.
  void CorruptReadsOf(std::string part);
  void Clear();
  int writes_seen() const;

 private:
  friend class FailingKv;
  struct State;
  std::unique_ptr<State> state_;
};

std::unique_ptr<Kv> NewFailingKv(std::unique_ptr<Kv> inner, FailureScript* script);

}  // namespace kiln::store

#endif  // KILN_COORDINATOR_STORE_FAILING_KV_H_
