// The work of an ExpandJob: look the winner up (short), else expand the spec and look up what is
// known of its parts (as long as the kernel makes it). Runs beside the loop.
#ifndef KILN_COORDINATOR_CORE_EXPANSION_H_
#define KILN_COORDINATOR_CORE_EXPANSION_H_

#include <optional>

#include "coordinator/core/events.h"
#include "coordinator/search/expander.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"

namespace kiln::core {

// The answer that the store gives without an expansion, a failed read included; nullopt: it takes
// one. Blocks on disk; thread-safe.
std::optional<Expanded> AnswerFromStore(const ExpandJob& job, store::MetaStore* meta,
                                        store::BlobStore* blobs);

// After AnswerFromStore gave none. Blocks on disk and on the expander; thread-safe. Every failure
// is in the event's status.
Expanded RunExpandJob(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
                      store::BlobStore* blobs);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_EXPANSION_H_
