#pragma once
// What a chain of versions says of one of them: a JSON object that is written once, after the
// objects that it names.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/model/stream_digest.hpp"

namespace sparcl::store {

constexpr std::size_t kMaxRecordBytes = 16 << 10;

// Immutable bytes in the store. digest: of model::StreamDigest, the root over leaves of 1 MiB.
struct StoredObject {
  std::string key;
  std::uint64_t bytes = 0;
  model::Digest256 digest{};
  friend bool operator==(const StoredObject&, const StoredObject&) = default;
};

struct VersionRecord {
  std::uint64_t number = 0;  // of the chain: 1, 2, 3, ...
  std::uint64_t version = 0, base_version = 0;
  std::string writer;  // of its process: 32 hexadecimal digits by chance
  Hash128 target_hash, base_hash;
  StoredObject schema;                 // model::serialise()
  std::optional<StoredObject> delta;   // from the record before
  std::optional<StoredObject> anchor;  // all bytes
  std::uint64_t newest_anchor = 0;     // the number of the last record with one, up to this
  friend bool operator==(const VersionRecord&, const VersionRecord&) = default;
};

std::string serialise(const VersionRecord& record);
// Of untrusted bytes. Corrupt: it is no record, and why.
Result<VersionRecord> parse_record(std::span<const std::byte> bytes);

}  // namespace sparcl::store
