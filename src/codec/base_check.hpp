#pragma once
// Is what the receiver holds the base of the update, or its target already? Asked block by block while the update arrives.

#include <cstdint>
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
  bool has_base = false;
  Hash128 base;
  Hash128 target;
};

class BaseCheck {
 public:
  BaseCheck(Verify verify, const Hash128& schema_hash, const kernels::KernelSet& kernels)
      : verify_(verify), kernels_(kernels), held_hash_(schema_hash), target_hash_(schema_hash) {}

  // A block of the update, in order, against what is held; with Verify::kFull, those in between too. The values stay valid until
  // the next call.
  struct Compared {
    std::uint64_t held_digest = 0;           // h64 of the held values
    std::span<const std::byte> held_values;  // at the changed elements
    std::span<const std::byte> new_values;   // what the update makes of them
  };
  Compared add_changed(std::uint64_t index, const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next);
  void add_unchanged(std::uint64_t index, const BlockView& held);

  // The update was composed by someone who had no base (kFlagNoDigests): state hashes alone are checked.
  void expect_no_digests() { has_digests_ = false; }

  // After the blocks of each chunk, with what the chunk says. The error's text leaves it to the caller to say where.
  Status end_chunk(const ChunkDigests& said);
  // After all chunks.
  Status finish(const StateHashes& said);

  bool already_applied() const { return already_applied_; }

 private:
  std::span<const std::byte> new_values(const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next);
  void add_to_hashes(std::uint64_t index, const BlockView& held, const DecodedBlock& block, std::span<const std::byte> values);
  Status finish_full(const StateHashes& said);

  Verify verify_;
  bool has_digests_ = true;
  const kernels::KernelSet& kernels_;

  // Of the chunk: sums over its blocks but fresh ones, whose old values nobody knows.
  std::uint64_t held_digest_ = 0;
  std::uint64_t new_digest_ = 0;  // of what the update makes of the held values

  bool all_old_ = true;  // of all chunks so far
  bool all_new_ = true;
  bool already_applied_ = false;

  Hash128 held_hash_;
  Hash128 target_hash_;  // of the held state with the update laid over it
  std::vector<std::byte> held_values_;
  std::vector<std::byte> new_values_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> overlay_;
};

}  // namespace sparcl::codec
