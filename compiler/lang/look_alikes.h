// Characters that documents, chats and web pages put in place of ASCII's.
#ifndef KILN_COMPILER_LANG_LOOK_ALIKES_H_
#define KILN_COMPILER_LANG_LOOK_ALIKES_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace kiln::lang {

struct LookAlike {
  absl::string_view text;  // in UTF-8
  const char* name;        // Unicode's, with its number
  const char* instead;     // what to type, in words
};

// The one that `text` begins with; null: it begins with no such character.
const LookAlike* FindLookAlike(absl::string_view text);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_LOOK_ALIKES_H_
