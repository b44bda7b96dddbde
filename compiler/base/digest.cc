#include "compiler/base/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "compiler/base/status.h"

namespace kiln {

struct Hasher::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Hasher::Hasher() : context_(std::make_unique<Context>()) {
  KILN_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

Hasher::~Hasher() = default;

void Hasher::Update(absl::string_view bytes) {
  KILN_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

void Hasher::UpdateField(absl::string_view field) {
  std::array<char, 8> size;
  for (int i = 0; i < 8; ++i) size[i] = static_cast<char>(field.size() >> (8 * i));
  Update({size.data(), size.size()});
  Update(field);
}

std::string Hasher::FinishHex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw;
  unsigned int size = 0;
  KILN_CHECK(EVP_DigestFinal_ex(context_->evp, raw.data(), &size) == 1);
  return absl::BytesToHexString({reinterpret_cast<const char*>(raw.data()), size});
}

std::string Sha256Hex(absl::string_view bytes) {
  Hasher hasher;
  hasher.Update(bytes);
  return hasher.FinishHex();
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace kiln
