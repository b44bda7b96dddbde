#include "worker/profile/dynamic_library.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace kiln::worker {

absl::Status Resolve(void* library, absl::Span<const Symbol> symbols, absl::string_view who,
                     absl::string_view help) {
  for (const Symbol& symbol : symbols) {
    void* found = ::dlsym(library, symbol.name);
    if (found == nullptr && !symbol.optional) {
      return absl::UnavailableError(absl::StrCat(who, " has no ", symbol.name, help));
    }
    std::memcpy(symbol.place, &found, sizeof(found));
  }
  return absl::OkStatus();
}

}  // namespace kiln::worker
