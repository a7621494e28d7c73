#pragma once
// Text files of keys: a key a line, "KIND BASE64 COMMENT" (docs/reference/keys.md). The text may be
// secret: it is zeroed in memory afterwards, and no error quotes it.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::trust {

constexpr std::size_t kKeyBytes = 32;      // a public key, or the seed of a secret one
constexpr std::size_t kKeyTextBytes = 44;  // the same in base64
constexpr std::string_view kSecretKeyKind = "sparcl-ed25519-secret";
constexpr std::string_view kPublicKeyKind = "sparcl-ed25519";

// Initialises libsodium for this folder; and bytes as it takes them.
Status prepare_sodium();
inline const unsigned char* bytes_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

struct KeyLine {
  std::size_t number;  // from 1
  std::string_view kind;
  std::string_view key;
  std::string_view comment;
};

class KeyFile {
 public:
  // A regular file of at most max_bytes.
  static Result<KeyFile> read(const std::string& path, std::size_t max_bytes);

  unsigned mode() const { return mode_; }    // 0600: the permissions alone
  unsigned owner() const { return owner_; }  // its user id
  std::string_view text() const { return {text_.get(), size_bytes_}; }
  // All but empty lines and those that begin with #. The lines point into this object.
  std::vector<KeyLine> lines() const;

 private:
  struct Zeroing {
    std::size_t size_bytes;
    void operator()(char* text) const;
  };
  KeyFile(std::size_t capacity_bytes, unsigned mode, unsigned owner)
      : text_(new char[capacity_bytes], Zeroing{capacity_bytes}), mode_(mode), owner_(owner) {}

  std::unique_ptr<char[], Zeroing> text_;
  std::size_t size_bytes_ = 0;
  unsigned mode_;
  unsigned owner_;
};

// The error in a key's text, if any. It never quotes the text.
std::optional<std::string> decode_key(std::string_view text, std::span<std::byte, kKeyBytes> out);

void encode_key(std::span<const std::byte, kKeyBytes> key, std::span<char, kKeyTextBytes> out);

}  // namespace sparcl::trust
