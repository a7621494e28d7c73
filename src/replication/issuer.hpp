#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "src/replication/update_store.hpp"
#include "src/trust/signing_key.hpp"

namespace sparcl::replication {

// The name in which versions are published.
struct Issuer {
  std::string model_id;
  std::atomic<std::uint64_t> epoch{0};           // it rises while versions are coded
  std::shared_ptr<const trust::SigningKey> key;  // nullptr: versions are not signed

  // The commit's digest, and its signature where there is a key. digested: of as many bytes as the
  // caller has had time for.
  Status seal(Update& update, StreamDigest& digested) const;
  // The same update, of the epoch as it is now.
  UpdateRef reissue(const UpdateRef& update) const;
};

}  // namespace sparcl::replication
