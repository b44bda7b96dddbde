#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "coordinator/store/kv.h"

namespace kiln::store {
namespace {

constexpr char kFormatKey[] = "format";

absl::StatusOr<bool> IsEmpty(Kv* kv) {
  bool empty = true;
  KILN_RETURN_IF_ERROR(kv->Scan("", "", [&](absl::string_view, absl::string_view) {
    empty = false;
    return false;
  }));
  return empty;
}

}  // namespace

absl::Status CheckFormat(Kv* kv, absl::string_view kind, int version) {
  KILN_ASSIGN_OR_RETURN(std::optional<std::string> stored, kv->Get(kFormatKey));
  if (!stored.has_value()) {
    KILN_ASSIGN_OR_RETURN(const bool empty, IsEmpty(kv));
    if (!empty) {
      return absl::FailedPreconditionError(
          "the directory holds a database that is not Kiln's; name another directory");
    }
    return kv->Write({KvOp::Put(kFormatKey, absl::StrCat(kind, " ", version))}, true);
  }
  const std::vector<std::string> parts = absl::StrSplit(*stored, ' ');
  int found = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &found)) {
    return absl::DataLossError(absl::StrCat("the store's format row reads '", *stored, "'"));
  }
  if (parts[0] != kind) {
    return absl::FailedPreconditionError(
        absl::StrCat("the directory holds a store of kind '", parts[0], "', not '", kind, "'"));
  }
  if (found > version) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store has format ", found, "; this program reads up to ", version,
        ". Run the newer version of the coordinator, or restore a backup from before the upgrade"));
  }
  return absl::OkStatus();
}

}  // namespace kiln::store
