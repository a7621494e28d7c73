#include "src/trust/signing_key.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/trust/key_file.hpp"
#include "src/trust/keyed_hash.hpp"
#include "src/trust/new_key_file.hpp"

namespace sparcl::trust {
namespace {

static_assert(std::tuple_size_v<PublicKey> == crypto_sign_PUBLICKEYBYTES &&
              std::tuple_size_v<Signature> == crypto_sign_BYTES);

constexpr std::size_t kMaxSecretFileBytes =
    4096;  // heuristic: lines of 66 bytes, and room for comments

// Zeroed on destruction.
template <class T, std::size_t kCount>
struct Scratch {
  std::array<T, kCount> data{};
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { sodium_memzero(data.data(), sizeof data); }
};
using SeedScratch = Scratch<std::byte, crypto_sign_SEEDBYTES>;

Status wrong_file(const std::string& path, std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {}", path, what));
}

// The lines of secret keys, of a file that has nothing else.
Result<std::vector<KeyLine>> secret_lines(const KeyFile& file, const std::string& path,
                                          std::size_t max_keys) {
  std::vector<KeyLine> lines = file.lines();
  const auto is_secret = [](const KeyLine& line) { return line.kind == kSecretKeyKind; };
  const auto is_public = [](const KeyLine& line) { return line.kind == kPublicKeyKind; };
  if (std::ranges::none_of(lines, is_secret)) {
    if (std::ranges::any_of(lines, is_public))
      return wrong_file(path,
                        "it is a public key, and nothing can be signed with that: give the file of "
                        "the secret key, without .pub");
    return wrong_file(
        path,
        fmt::format("it is no secret key of sparcl, a line '{} BASE64': sparcl keygen makes one",
                    kSecretKeyKind));
  }
  // Checked only now: a public key may be readable by all, and the advice would be wrong.
  if ((file.mode() & 077) != 0) {
    return wrong_file(
        path,
        fmt::format("its mode is {:04o}, so that others than its owner may read or change this "
                    "secret key: run chmod 600 {}. Make a new key if another user may have read or "
                    "changed it",
                    file.mode(), path));
  }
  const auto wrong = std::ranges::find_if(lines, [&](const KeyLine& line) {
    return line.kind != kSecretKeyKind || !line.comment.empty();
  });
  if (wrong != lines.end())
    return wrong_file(path, fmt::format("line {}: it is no line '{} BASE64', and nothing after it",
                                        wrong->number, kSecretKeyKind));
  if (lines.size() > max_keys)
    return wrong_file(
        path, fmt::format("line {}: it holds more than {} secret {}", lines[max_keys].number,
                          max_keys, max_keys == 1 ? "key" : "keys"));
  return lines;
}

}  // namespace

struct SigningKey::Secret {
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> bytes;
};

// Zeroes before it frees, by sodium_memzero.
void SigningKey::Free::operator()(Secret* secret) const { sodium_free(secret); }

Result<SigningKey::Owner> SigningKey::allocate() {
  SPARCL_RETURN_IF_ERROR(prepare_sodium());
  auto* secret = static_cast<Secret*>(sodium_malloc(sizeof(Secret)));
  if (secret == nullptr)
    return Status(Code::kOutOfMemory, "a secret key: no memory of its own can be had for it");
  return Owner(secret);
}

SigningKey SigningKey::from_seed(Owner owner, std::span<const std::byte, 32> seed) {
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES>
      public_key;  // also in the secret's second half
  crypto_sign_seed_keypair(public_key.data(), owner->bytes.data(), bytes_of(seed));
  return SigningKey(std::move(owner));
}

Result<SigningKey> SigningKey::from_seed(std::span<const std::byte, 32> seed) {
  SPARCL_ASSIGN_OR_RETURN(Owner owner, allocate());
  return from_seed(std::move(owner), seed);
}

Result<SigningKey> SigningKey::generate() {
  SeedScratch seed;
  SPARCL_RETURN_IF_ERROR(fill_random(seed.data));
  return from_seed(seed.data);
}

Result<SigningKey> SigningKey::load(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(std::vector<SigningKey> keys, load_all(path, 1));
  return std::move(keys.front());
}

Result<std::vector<SigningKey>> SigningKey::load_all(const std::string& path,
                                                     std::size_t max_keys) {
  SPARCL_ASSIGN_OR_RETURN(const KeyFile file, KeyFile::read(path, kMaxSecretFileBytes));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<KeyLine> lines, secret_lines(file, path, max_keys));
  std::vector<SigningKey> keys;
  for (const KeyLine& line : lines) {
    SeedScratch seed;
    if (const std::optional<std::string> wrong = decode_key(line.key, seed.data))
      return wrong_file(path, fmt::format("line {}: {}", line.number, *wrong));
    SPARCL_ASSIGN_OR_RETURN(SigningKey key, from_seed(seed.data));
    const auto is_same = [&](const SigningKey& each) {
      return each.public_key() == key.public_key();
    };
    if (std::ranges::any_of(keys, is_same))
      return wrong_file(path, fmt::format("line {}: this key stands there twice", line.number));
    keys.push_back(std::move(key));
  }
  return keys;
}

Status SigningKey::save(const std::string& path) const {
  SPARCL_RETURN_IF_ERROR(check_key_path(path));
  constexpr std::size_t kBefore = kSecretKeyKind.size() + 1;
  Scratch<char, kBefore + kKeyTextBytes + 1> line;
  std::ranges::copy(kSecretKeyKind, line.data.begin());
  line.data[kBefore - 1] = ' ';
  const std::span<const std::byte> secret = std::as_bytes(std::span(secret_->bytes));
  encode_key(secret.first<kKeyBytes>(), std::span(line.data).subspan<kBefore, kKeyTextBytes>());
  line.data.back() = '\n';
  SPARCL_ASSIGN_OR_RETURN(NewKeyFile secret_file,
                          NewKeyFile::write(path, {line.data.data(), line.data.size()}, true));
  SPARCL_ASSIGN_OR_RETURN(
      NewKeyFile public_file,
      NewKeyFile::write(path + ".pub", public_key_line(public_key()) + "\n", false));
  // The secret file comes last: if it exists, however the process ended, both files do.
  SPARCL_RETURN_IF_ERROR(public_file.appear());
  SPARCL_RETURN_IF_ERROR(secret_file.appear());
  SPARCL_RETURN_IF_ERROR(sync_folder_of(path));
  public_file.keep();
  secret_file.keep();
  return {};
}

PublicKey SigningKey::public_key() const {
  PublicKey key;
  std::memcpy(key.data(), secret_->bytes.data() + crypto_sign_SEEDBYTES, key.size());
  return key;
}

Signature SigningKey::sign(std::span<const std::byte> message) const {
  Signature signature;
  crypto_sign_detached(reinterpret_cast<unsigned char*>(signature.data()), nullptr,
                       bytes_of(message), message.size(), secret_->bytes.data());
  return signature;
}

std::string fingerprint(const PublicKey& key) {
  std::array<unsigned char, crypto_generichash_BYTES> hash;
  crypto_generichash(hash.data(), hash.size(), bytes_of(key), key.size(), nullptr, 0);
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += fmt::format("{:02x}", hash[i]);
  return text;
}

bool is_signature(const Signature& signature, std::span<const std::byte> message,
                  const PublicKey& key) {
  return crypto_sign_verify_detached(bytes_of(signature), bytes_of(message), message.size(),
                                     bytes_of(key)) == 0;
}

std::string public_key_line(const PublicKey& key) {
  std::string line = std::string(kPublicKeyKind) + " " + std::string(kKeyTextBytes, ' ');
  encode_key(key, std::span<char, kKeyTextBytes>(line.end() - kKeyTextBytes, line.end()));
  return line;
}

}  // namespace sparcl::trust
