// The work of an ExpandJob: look the winner up (short), else expand the spec and look up what is
// known of its parts (as long as the kernel makes it). Runs beside the loop.
#ifndef KILN_COORDINATOR_CORE_EXPANSION_H_
#define KILN_COORDINATOR_CORE_EXPANSION_H_

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "coordinator/core/events.h"
#include "coordinator/search/expander.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"

namespace kiln::core {

// What the latest expansions said of requests, so that a lookup that misses again and again is
// expanded once. Thread-safe; holds so many, and lets the one go that was asked for longest ago.
class ProgramCache {
 public:
  struct Program {
    std::string kernel_digest;
    std::string problem_key;
  };

  explicit ProgramCache(size_t limit = 4096) : limit_(limit) {}
  // `request`: RequestDigest (identity.h).
  std::optional<Program> Find(const std::string& request);
  void Put(const std::string& request, Program program);

 private:
  using Entry = std::pair<std::string, Program>;
  const size_t limit_;
  std::mutex mutex_;
  std::list<Entry> order_;  // latest first
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;
};

// The answer that the store gives without an expansion, a failed read included; nullopt: it takes
// one. Blocks on disk; thread-safe.
std::optional<Expanded> AnswerFromStore(const ExpandJob& job, store::MetaStore* meta,
                                        store::BlobStore* blobs, ProgramCache* programs);

// After AnswerFromStore gave none. Blocks on disk and on the expander; thread-safe. Every failure
// is in the event's status. `programs` may be null.
Expanded RunExpandJob(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
                      store::BlobStore* blobs, ProgramCache* programs = nullptr);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_EXPANSION_H_
