#pragma once
// Is what the receiver holds the base of the update, or its target already? Asked block by block while the update arrives.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

struct ChunkDigests {
  std::uint64_t old_values = 0;
  std::uint64_t new_values = 0;
};

struct StateHashes {  // as the update's end has them
  std::optional<Hash128> base;
  std::optional<Hash128> target;  // always there where a full check is allowed
};

class BaseCheck {
 public:
  BaseCheck(Verify verify, const Hash128& schema_hash, const kernels::KernelSet& kernels)
      : verify_(verify), kernels_(kernels), held_hash_(schema_hash) {}

  // See UpdateDecoder::track.
  void track(const Hash128& held_hash) { tracked_ = held_hash; }

  // A block of the update, in order, against what is held; with Verify::kFull, those in between too. The values stay valid until
  // the next call.
  struct Compared {
    Hash128 held_hash;                       // of the held values, at the block's place; not with Verify::kOff
    std::span<const std::byte> held_values;  // at the changed elements
    std::span<const std::byte> new_values;   // what the update makes of them
  };
  Compared add_changed(std::uint64_t index, const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next);
  void add_unchanged(std::uint64_t index, const BlockView& held);

  // The update was composed by someone who had no base (kFlagNoDigests): state hashes alone are checked.
  void expect_no_digests() { has_digests_ = false; }

  // A block of classes, whose changes are found by what is held: with another base they are elsewhere, and then the digests of its
  // chunk say no more than that. `fits`: each of its changes was found.
  void add_classes(bool fits) {
    chunk_has_classes_ = true;
    chunk_fits_ = chunk_fits_ && fits;
  }
  // Such a chunk came: finish() needs the hash of all that is held to tell the target from a wrong base.
  bool needs_held_hash() const { return is_undecided_; }
  void set_held_hash(const Hash128& hash) { held_hash_ = hash; }

  // After the blocks of each chunk, with what the chunk says. The error's text leaves it to the caller to say where.
  Status end_chunk(const ChunkDigests& said);
  // After all chunks.
  Status finish(const StateHashes& said);

  bool already_applied() const { return already_applied_; }

 private:
  Compared read(const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next);
  kernels::ChangeHashes hash(std::uint64_t index, const BlockView& held, const DecodedBlock& block, const Compared& compared);
  Status finish_undecided(const StateHashes& said);
  Status finish_full(const StateHashes& said);
  Status finish_tracked(const StateHashes& said) const;

  Verify verify_;
  bool has_digests_ = true;
  const kernels::KernelSet& kernels_;

  // Of the chunk: sums over its blocks but fresh ones, whose old values nobody knows.
  Hash128 held_values_hash_;
  Hash128 new_values_hash_;  // of what the update makes of the held values

  bool chunk_has_classes_ = false;
  bool chunk_fits_ = true;

  bool is_undecided_ = false;
  bool all_old_ = true;  // of all chunks so far
  bool all_new_ = true;
  bool already_applied_ = false;

  std::optional<Hash128> tracked_;
  Hash128 held_hash_;    // kFull: of the state held, over the blocks so far
  Hash128 change_hash_;  // what the update adds to it
  std::vector<std::byte> held_values_;
  std::vector<std::byte> new_values_;
  std::vector<std::byte> scratch_;
};

}  // namespace sparcl::codec
