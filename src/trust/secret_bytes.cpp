#include "src/trust/secret_bytes.hpp"

#include <sodium.h>

#include <algorithm>

#include "src/trust/key_file.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::trust {

void SecretBytes::Free::operator()(Memory* memory) const {
  sodium_free(memory);  // zeroes before it frees
}

Result<SecretBytes> SecretBytes::zeros() {
  SPARCL_RETURN_IF_ERROR(prepare_sodium());
  void* memory = sodium_malloc(sizeof(Memory));
  if (memory == nullptr)
    return Status(Code::kOutOfMemory, "a secret: no memory of its own can be had for it");
  SecretBytes secret(new (memory) Memory);
  sodium_memzero(secret.memory_->data(), sizeof(Memory));
  return secret;
}

Result<SecretBytes> SecretBytes::random() {
  SPARCL_ASSIGN_OR_RETURN(SecretBytes secret, zeros());
  SPARCL_RETURN_IF_ERROR(fill_random(secret.bytes()));
  return secret;
}

Result<SecretBytes> SecretBytes::derive(std::span<const std::byte, kSecretBytes> from,
                                        std::span<const std::byte> label) {
  SPARCL_ASSIGN_OR_RETURN(SecretBytes secret, zeros());
  SPARCL_ASSIGN_OR_RETURN(KeyedHash hash, keyed_hash(from, label));
  std::ranges::copy(hash, secret.bytes().begin());
  sodium_memzero(hash.data(), hash.size());
  return secret;
}

}  // namespace sparcl::trust
