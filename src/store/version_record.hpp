#pragma once
// What a chain of versions says of one of them: JSON objects that are written once, after the
// objects that they name.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/model/stream_digest.hpp"
#include "src/model/version_update.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::store {

constexpr std::size_t kMaxRecordBytes = 32 << 10;
constexpr std::uint64_t kMaxRecordNumber = std::uint64_t{1} << 62;  // others may be added to it

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
  std::optional<StoredObject> anchor;  // all bytes: the first record has this and no delta
  std::uint64_t newest_anchor = 0;     // the last record up to this whose anchor was there
  std::string model_id = {};           // "": the model has no name
  // How the tensors lie in files, and the files beside them: an attachment whose base is a file
  // without tensors (model/attachment.hpp).
  std::optional<StoredObject> description = {};
  bool skips_from_anchor = false;  // a skip from newest_anchor is there, or is being made
  std::optional<StoredObject> anchor_index = {};  // of the anchor (anchor_index.hpp)
  trust::Signatures signatures = {};              // of signed_text(); empty: it is not signed

  model::HeldVersion target() const { return {version, target_hash}; }
  model::HeldVersion base() const { return {base_version, base_hash}; }
  friend bool operator==(const VersionRecord&, const VersionRecord&) = default;
};

// An object that leads to a record's version from several versions before it, or from nothing: an
// anchor, which has all bytes. It is made when the record is there.
struct Shortcut {
  std::uint64_t number = 0, from = 0;  // of records; from 0: an anchor
  model::HeldVersion target, base;     // an anchor has no base
  StoredObject object;
  std::string model_id = {};
  std::optional<StoredObject> index = {};  // of an anchor (anchor_index.hpp); nullopt: it has none
  trust::Signatures signatures = {};       // of signed_text(); empty: it is not signed
  friend bool operator==(const Shortcut&, const Shortcut&) = default;
};

// For messages: "version 4 with the state 0f3c...".
std::string words_of(const model::HeldVersion& version);
std::string serialise(const VersionRecord& record);
std::string serialise(const Shortcut& shortcut);
// What is signed: all of it but the signatures, and what it is.
std::vector<std::byte> signed_text(VersionRecord record);
std::vector<std::byte> signed_text(Shortcut shortcut);
// Of untrusted bytes. Corrupt: it is none, and why.
Result<VersionRecord> parse_record(std::span<const std::byte> bytes);
Result<Shortcut> parse_shortcut(std::span<const std::byte> bytes);

}  // namespace sparcl::store
