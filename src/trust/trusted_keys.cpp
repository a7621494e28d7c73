#include "src/trust/trusted_keys.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <optional>

#include "src/trust/key_file.hpp"

namespace sparcl::trust {
namespace {

constexpr std::size_t kMaxTrustFileBytes = std::size_t{64}
                                           << 10;  // heuristic: some 700 keys with comments

// Returns the error in a line, if any.
std::optional<std::string> parse(const KeyLine& line, PublicKey& key) {
  if (line.kind == kSecretKeyKind)
    return "it is a secret key, which belongs to its owner alone: put the line of its .pub "
           "file here";
  if (line.kind != kPublicKeyKind)
    return fmt::format("it is no public key of sparcl, '{} BASE64 COMMENT'", kPublicKeyKind);
  if (std::optional<std::string> wrong = decode_key(line.key, key)) return wrong;
  // This finds 15 of 16 damaged keys: genuine keys are points of the group of prime order.
  if (crypto_core_ed25519_is_valid_point(bytes_of(key)) != 1)
    return "the key is no point of Ed25519's group: it is damaged";
  return std::nullopt;
}

}  // namespace

Result<TrustedKeys> TrustedKeys::load(const std::string& path, std::size_t threshold) {
  SPARCL_ASSIGN_OR_RETURN(TrustedKeys keys, load_any(path));
  if (keys.count() == 0)
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: it names no key: put the line of a .pub file of sparcl keygen there",
                    path));
  keys.threshold_ = std::max<std::size_t>(threshold, 1);
  return keys;
}

Result<TrustedKeys> TrustedKeys::load_any(const std::string& path) {
  SPARCL_RETURN_IF_ERROR(prepare_sodium());
  const Result<KeyFile> file = KeyFile::read(path, kMaxTrustFileBytes);
  if (!file.ok()) return file.status();
  TrustedKeys keys(path);
  for (const KeyLine& line : file->lines()) {
    Trusted trusted{{}, line.number, std::string(line.comment)};
    if (const std::optional<std::string> wrong = parse(line, trusted.key))
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: line {}: {}", path, line.number, *wrong));
    if (keys.find(trusted.key) == nullptr) keys.trusted_.push_back(trusted);
  }
  if ((file->mode() & 02) != 0) {
    return Status(
        Code::kUnauthorized,
        fmt::format("{}: its mode is {:04o}, so that everybody may add a key to trust: look at its "
                    "{} {}, then run chmod o-w {}",
                    path, file->mode(), keys.count(), keys.count() == 1 ? "key" : "keys", path));
  }
  return keys;
}

TrustedKeys TrustedKeys::of_secret(const PublicKey& key, const std::string& path) {
  TrustedKeys keys(path);
  keys.is_of_secret_ = true;
  keys.trusted_.push_back({key, 1, {}});
  return keys;
}

const TrustedKeys::Trusted* TrustedKeys::find(const PublicKey& key) const {
  for (const Trusted& trusted : trusted_) {
    if (trusted.key == key) return &trusted;  // an early exit shows nothing: no secret is compared
  }
  return nullptr;
}

Status TrustedKeys::check_threshold() const {
  if (threshold_ <= count()) return {};
  return Status(
      Code::kInvalidArgument,
      fmt::format("{}: it names {} {}, and signatures by {} of them are wanted: add keys, "
                  "or give a lower threshold",
                  path_, count(), count() == 1 ? "key" : "keys", threshold_));
}

bool TrustedKeys::trusts_any(const Signatures& signatures) const {
  return std::ranges::any_of(signatures,
                             [&](const KeySignature& each) { return trusts(each.key); });
}

Status TrustedKeys::no_trusted_key(const PublicKey& key) const {
  if (is_of_secret_) {
    return Status(
        Code::kUnauthorized,
        fmt::format("signed by the key {}, which is not the publisher's of the secret {}: "
                    "if you trust it, name the file with its public key (--trust, "
                    "trust_path)",
                    fingerprint(key), path_));
  }
  return Status(Code::kUnauthorized,
                fmt::format("signed by the key {}, which is not among the {} of {}: if you trust "
                            "it, add the line of its .pub file there",
                            fingerprint(key), count(), path_));
}

Status TrustedKeys::verify(std::span<const std::byte> message, const Signatures& signatures) const {
  std::vector<const Trusted*> signers;
  for (const KeySignature& each : signatures) {
    const Trusted* trusted = find(each.key);
    if (trusted == nullptr || std::ranges::find(signers, trusted) != signers.end()) continue;
    if (!is_signature(each.signature, message, each.key)) {
      return Status(Code::kUnauthorized,
                    fmt::format("the signature is not one by the key {} (line {} of {}) over these "
                                "bytes: they were changed, or another key signed them",
                                fingerprint(each.key), trusted->line, path_));
    }
    signers.push_back(trusted);
  }
  if (signers.size() >= threshold_) return {};
  if (signatures.empty()) return Status(Code::kUnauthorized, "it is not signed");
  if (signers.empty()) return no_trusted_key(signatures.front().key);
  return Status(
      Code::kUnauthorized,
      fmt::format("signed by {} of the {} keys of {}, and {} are wanted: let more of them "
                  "sign, or lower the threshold",
                  signers.size(), count(), path_, threshold_));
}

}  // namespace sparcl::trust
