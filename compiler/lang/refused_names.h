// Public names of TileLang that Kiln does not have, and the nearest form that it does.
#ifndef KILN_COMPILER_LANG_REFUSED_NAMES_H_
#define KILN_COMPILER_LANG_REFUSED_NAMES_H_

#include <string>

#include "absl/container/flat_hash_map.h"

namespace kiln::lang {

// Name -> what to do instead, of tilelang.language.
void AddRefusedNames(absl::flat_hash_map<std::string, std::string>* refused);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_REFUSED_NAMES_H_
