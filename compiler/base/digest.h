// SHA-256 digests, the identity of everything Kiln stores: kernels, programs, sweeps, artifacts.
#ifndef KILN_COMPILER_BASE_DIGEST_H_
#define KILN_COMPILER_BASE_DIGEST_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// Lower-case hexadecimal SHA-256 of `bytes` (64 characters).
std::string Sha256Hex(absl::string_view bytes);

// True for 64 lower-case hexadecimal digits.
bool IsSha256Hex(absl::string_view text);

// Hashes a stream. Not thread-safe; one Hasher hashes one stream.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(absl::string_view bytes);

  // Length-prefixed update, so that ("ab","c") and ("a","bc") differ.
  void UpdateField(absl::string_view field);

  // The digest of all that was added. Call once, last.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_DIGEST_H_
