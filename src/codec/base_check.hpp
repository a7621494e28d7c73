#pragma once
// Decides, block by block while the update arrives, whether the receiver holds the base of the
// update, or already its target.

#include <cstdint>
#include <optional>
#include <utility>

#include "src/base/status.hpp"
#include "src/codec/block_check.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

struct ChunkDigests {
  std::uint64_t old_values = 0;
  std::uint64_t new_values = 0;
};

struct StateHashes {  // from the update's end
  std::optional<Hash128> base;
  std::optional<Hash128> target;  // always present if a full check is allowed
};

class BaseCheck {
 public:
  BaseCheck(Verify verify, const Hash128& schema_hash) : verify_(verify), held_hash_(schema_hash) {}

  // See UpdateDecoder::track.
  void track(const Hash128& held_hash) { tracked_ = held_hash; }

  // Adds blocks of the update; with Verify::kFull also the unchanged blocks between them.
  void add(const BlockSums& sums);

  // The update was composed without the base (kFlagNoDigests): only state hashes are checked.
  void expect_no_digests() { has_digests_ = false; }

  // kFull: the update comes in the place of nothing (Writing::kOver).
  void expect_nothing_held() { is_nothing_held_ = true; }

  // True if the digests of a chunk with classes were not conclusive. finish() then needs the hash
  // of the whole held state to tell the target from a wrong base.
  bool needs_held_hash() const { return is_undecided_; }
  void set_held_hash(const Hash128& hash) { held_hash_ = hash; }

  // Called after the blocks of each chunk, with the chunk's digests. The caller adds the position
  // to the error's text.
  Status end_chunk(const ChunkDigests& said);
  // Instead, for a chunk of which a part was added: it has no digests. False: a block of classes
  // has not found its elements.
  bool drop_chunk() { return std::exchange(chunk_, {}).fits; }
  // Called after all chunks.
  Status finish(const StateHashes& said);
  // Instead, if a part of the state was added: the state's hash is not known. WrongBase also where
  // the target seems to be held.
  Status finish_window() const;

  bool already_applied() const { return already_applied_; }

 private:
  Status finish_undecided(const StateHashes& said);
  Status finish_full(const StateHashes& said);
  Status finish_tracked(const StateHashes& said) const;

  Verify verify_;
  bool has_digests_ = true;
  bool is_nothing_held_ = false;

  BlockSums chunk_;

  bool is_undecided_ = false;
  bool all_old_ = true;  // of all chunks added
  bool all_new_ = true;
  bool already_applied_ = false;

  std::optional<Hash128> tracked_;
  Hash128 held_hash_;    // kFull: of the held state, over the blocks added
  Hash128 change_hash_;  // the update's addition to it
};

}  // namespace sparcl::codec
