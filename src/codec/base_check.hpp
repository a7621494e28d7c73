#pragma once
// Is what the receiver holds the base of the update, or its target already? Asked block by block
// while the update arrives.

#include <cstdint>
#include <optional>

#include "src/base/status.hpp"
#include "src/codec/block_check.hpp"
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
  BaseCheck(Verify verify, const Hash128& schema_hash) : verify_(verify), held_hash_(schema_hash) {}

  // See UpdateDecoder::track.
  void track(const Hash128& held_hash) { tracked_ = held_hash; }

  // Of blocks of the update, and with Verify::kFull of those in between too.
  void add(const BlockSums& sums);

  // The update was composed by someone who had no base (kFlagNoDigests): state hashes alone are
  // checked.
  void expect_no_digests() { has_digests_ = false; }

  // A chunk with classes came whose digests did not tell: finish() needs the hash of all that is
  // held to tell the target from a wrong base.
  bool needs_held_hash() const { return is_undecided_; }
  void set_held_hash(const Hash128& hash) { held_hash_ = hash; }

  // After the blocks of each chunk, with what the chunk says. The error's text leaves it to the
  // caller to say where.
  Status end_chunk(const ChunkDigests& said);
  // After all chunks.
  Status finish(const StateHashes& said);

  bool already_applied() const { return already_applied_; }

 private:
  Status finish_undecided(const StateHashes& said);
  Status finish_full(const StateHashes& said);
  Status finish_tracked(const StateHashes& said) const;

  Verify verify_;
  bool has_digests_ = true;

  BlockSums chunk_;

  bool is_undecided_ = false;
  bool all_old_ = true;  // of all chunks so far
  bool all_new_ = true;
  bool already_applied_ = false;

  std::optional<Hash128> tracked_;
  Hash128 held_hash_;    // kFull: of the state held, over the blocks so far
  Hash128 change_hash_;  // what the update adds to it
};

}  // namespace sparcl::codec
