#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/replication/update_store.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::replication {

// The name in which versions are published.
struct Issuer {
  std::string model_id;
  std::atomic<std::uint64_t> epoch{0};  // it rises while versions are coded
  // They may be replaced while versions are coded. nullptr: versions are not signed.
  std::atomic<trust::SigningKeysRef> keys{};
  // Empty: there are no keys.
  trust::Signatures sign(std::span<const std::byte> message) const;

  // The commit's digest, and its signature where there is a key. digested: of as many bytes as the
  // caller has had time for.
  Status seal(Update& update, StreamDigest& digested) const;
  // The same update, of the epoch and by the keys as they are now.
  UpdateRef reissue(const UpdateRef& update) const;
};

}  // namespace sparcl::replication
