// The work of an ExpandJob: look the winner up, else expand the spec and look up what is known of
// its parts. Runs beside the loop.
#ifndef KILN_COORDINATOR_CORE_EXPANSION_H_
#define KILN_COORDINATOR_CORE_EXPANSION_H_

#include "coordinator/core/events.h"
#include "coordinator/search/expander.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"

namespace kiln::core {

// Blocks on disk and on the expander; thread-safe. Every failure is in the event's status.
Expanded RunExpandJob(const ExpandJob& job, search::Expander* expander, store::MetaStore* meta,
                      store::BlobStore* blobs);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_EXPANSION_H_
