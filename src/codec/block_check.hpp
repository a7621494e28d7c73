#pragma once
// What a receiver holds of the blocks of an update, and what they make of it, as hashes: their sums
// say whether it is the base (base_check.hpp).

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/codec/block_mode.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// Sums over blocks, in any order.
struct BlockSums {
  // But for fresh blocks, whose old values nobody knows.
  Hash128 held_values;
  Hash128 new_values;  // of what the update makes of the held values
  Hash128 change;      // what the update adds to the state's hash
  Hash128 held;        // kFull: of all that is held
  // Of classes, whose changes are found by what is held: with another base they are elsewhere, and
  // then the digests of their chunk say no more than that.
  bool has_classes = false;
  bool fits = true;  // each of their changes was found

  void add(const BlockSums& other);
};

class BlockCheck {
 public:
  BlockCheck(Verify verify, const kernels::KernelSet& kernels)
      : verify_(verify), kernels_(kernels) {}

  // A block of the update against what is held. The values stay valid until the next call.
  struct Compared {
    Hash128 held_hash;  // of the held values, at the block's place; not with Verify::kOff
    std::span<const std::byte> held_values;  // at the changed elements
    std::span<const std::byte> new_values;   // what the update makes of them
  };
  Compared add_changed(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                       const kernels::Upcoming& next);
  // kTouched: what fresh blocks replace counts, too, as the update names its base by a hash.
  void hash_fresh() { hashes_fresh_ = true; }
  // kFull: one that the update leaves alone.
  void add_unchanged(std::uint64_t index, const BlockView& held);
  void add_classes(bool fits) {
    sums_.has_classes = true;
    sums_.fits = sums_.fits && fits;
  }

  // Since the last call.
  BlockSums take_sums() { return std::exchange(sums_, {}); }

 private:
  Compared read(const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next);
  kernels::ChangeHashes hash(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                             const Compared& compared);

  Verify verify_;
  bool hashes_fresh_ = false;
  const kernels::KernelSet& kernels_;
  BlockSums sums_;
  std::vector<std::byte> held_values_;
  std::vector<std::byte> new_values_;
  std::vector<std::byte> scratch_;
};

}  // namespace sparcl::codec
