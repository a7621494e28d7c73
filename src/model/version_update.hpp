#pragma once
// An update as it travels, and the words that name versions.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/staging.hpp"
#include "src/codec/change_log.hpp"
#include "src/model/commit.hpp"
#include "src/model/stream_digest.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::model {

// The version that a replica holds: the number is a label, the hash says which bytes.
struct HeldVersion {
  std::uint64_t version = 0;
  Hash128 hash;
  friend bool operator==(const HeldVersion&, const HeldVersion&) = default;
};

// Names an update by its base version and the version that it leads to.
struct UpdateName {
  std::uint64_t base_version = 0;
  std::uint64_t version = 0;
  friend bool operator==(const UpdateName&, const UpdateName&) = default;
};

// Once it is shared, only its leaves and the end of its bytes may still come.
struct VersionUpdate {
  Commit commit;
  trust::Signatures signatures;  // of serialise(commit); empty: it is not signed
  // The leaves of the tree whose root the commit names; empty: they are on their way.
  std::vector<Digest256> leaves;
  Staging bytes;
  std::uint64_t missing_bytes = 0;  // at the end: they are on their way, or not checked yet
  // Counts the memory until the last copy of the update is gone: copies share the bytes.
  mutable std::shared_ptr<const void> charge;

  bool has_leaves() const { return leaves.size() == leaf_count(commit.stream_bytes); }
  std::uint64_t ready_bytes() const { return commit.stream_bytes - missing_bytes; }
  HeldVersion base() const { return {commit.base_version, commit.base_hash}; }
  HeldVersion target() const { return {commit.version, commit.target_hash}; }
  UpdateName name() const { return {commit.base_version, commit.version}; }
};
using VersionUpdateRef = std::shared_ptr<const VersionUpdate>;
using ChangeLogRef = std::shared_ptr<const codec::ChangeLog>;

}  // namespace sparcl::model
