#pragma once
// What a reader holds that wants some of a chain's tensors, whole or as slices: the blocks that
// have their elements, in memory of its own.
//
// Its arrays have the addresses of all tensors, and take memory only where blocks are held. So an
// update is applied as to a whole state, and after an error the caller's tensors are as before.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/model/slice_place.hpp"
#include "src/model/zero_memory.hpp"
#include "src/store/chain_reader.hpp"

namespace sparcl::store {

class StoredPart {
 public:
  // Of the tensors of `wanted` in those of a version; nothing is held yet. Mismatch names a tensor
  // that the version does not have. OutOfMemory.
  static Result<std::unique_ptr<StoredPart>> open(const Chain& chain, const VersionRecord& version,
                                                  const ChainState& wanted);
  StoredPart(const StoredPart&) = delete;
  StoredPart& operator=(const StoredPart&) = delete;

  // Whether it is the part that these tensors are of this version.
  bool is_for(const VersionRecord& version, const ChainState& wanted) const {
    return version.schema == schema_ && is_of(wanted);
  }
  bool is_of(const ChainState& wanted) const;  // of any version
  const std::optional<model::HeldVersion>& held() const { return held_; }
  // Of all bytes.
  double share() const;

  // Takes the steps, as restore_window(). kernels and workers: of `wanted`.
  Status take(const Chain& chain, std::span<const ChainStep> steps, const ChainState& wanted,
              ReadCounts& counts);
  // Writes what is held into the arrays of `wanted`.
  void copy_to(const ChainState& wanted) const;

 private:
  StoredPart() = default;
  Status reserve_addresses();
  Status check_memory() const;
  void add_to_window(const model::PlacedSlice& slice);

  std::vector<std::byte> wanted_;  // the schema of the tensors
  StoredObject schema_;            // of the version
  std::vector<std::byte> schema_bytes_;
  Hash128 schema_hash_;
  std::unique_ptr<const codec::BlockMap> map_;
  std::unique_ptr<codec::BlockWindow> window_;
  std::vector<model::PlacedSlice> places_;  // of each wanted tensor
  std::optional<model::ZeroMemory> memory_;
  std::vector<std::byte*> arrays_;
  std::optional<model::HeldVersion> held_;
};

}  // namespace sparcl::store
