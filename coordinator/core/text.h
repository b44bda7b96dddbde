// Text from elsewhere, made short.
#ifndef KILN_COORDINATOR_CORE_TEXT_H_
#define KILN_COORDINATOR_CORE_TEXT_H_

#include <cstddef>
#include <string>

namespace kiln::core {

// At most `limit` bytes, whole characters of UTF-8.
inline std::string Cut(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_TEXT_H_
