// The shared object of an artifact, loaded into this process: the part that every device shares.
#ifndef KILN_WORKER_PROFILE_ARTIFACT_LIBRARY_H_
#define KILN_WORKER_PROFILE_ARTIFACT_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "kiln/v1/common.pb.h"
#include "worker/profile/device.h"

namespace kiln::worker {

// Unloaded by its destructor, so that thousands of candidates do not pile up.
class ArtifactLibrary {
 public:
  // `scratch_dir`: where the object is put when the system has no memory files. kInvalidArgument:
  // the bytes are no whole shared object, or do not load; kNotFound: no such entry point.
  static absl::StatusOr<std::unique_ptr<ArtifactLibrary>> Open(const v1::ArtifactBundle& bundle,
                                                               const std::string& scratch_dir);
  ~ArtifactLibrary();
  ArtifactLibrary(const ArtifactLibrary&) = delete;
  ArtifactLibrary& operator=(const ArtifactLibrary&) = delete;

  // Calls the entry point. Returns its code (kiln_launch.h). At most kMaxArguments arguments.
  int32_t Call(const kiln_launch& launch, const LaunchArguments& arguments) const;

 private:
  ArtifactLibrary(void* library, void* entry) : library_(library), entry_(entry) {}

  void* const library_;
  void* const entry_;
};

// kInvalidArgument: more arguments than Call takes.
absl::Status CheckArgumentCount(const LaunchArguments& arguments);

// kInternal for every code but KILN_OK: what it means.
absl::Status ExplainReturn(int32_t code);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_ARTIFACT_LIBRARY_H_
