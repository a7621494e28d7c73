#pragma once
// Hashes of the values that a receiver holds for the blocks of an update, and of the values that
// the update makes of them. Their sums decide whether the held state is the base (base_check.hpp).

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/codec/block_mode.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// Sums over blocks, in any order.
struct BlockSums {
  // Without fresh blocks, because their old values are unknown.
  Hash128 held_values;
  Hash128 new_values;  // of the values that the update makes
  Hash128 change;      // the update's addition to the state's hash
  Hash128 held;        // kFull: of the whole held state
  // Some blocks are coded in classes: their changes are found from the held values. With another
  // base they are found at other elements, and then the digests of their chunk say only that the
  // base is wrong.
  bool has_classes = false;
  bool fits = true;  // every change of these blocks was found

  void add(const BlockSums& other);
};

class BlockCheck {
 public:
  BlockCheck(Verify verify, const kernels::KernelSet& kernels)
      : verify_(verify), kernels_(kernels) {}

  // Compares a block of the update with the held values. The values stay valid until the next call.
  struct Compared {
    Hash128 held_hash;  // of the held values, with the block's key; not with Verify::kOff
    std::span<const std::byte> held_values;  // at the changed elements
    std::span<const std::byte> new_values;   // the values that the update makes of them
  };
  Compared add_changed(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                       const kernels::Upcoming& next);
  // kTouched: the old values of fresh blocks count, too, because the update names its base by a
  // hash.
  void hash_fresh() { hashes_fresh_ = true; }
  // A block that is sent whole, in the place of nothing.
  void add_over(std::uint64_t index, const DecodedBlock& block, std::size_t element_bytes);
  // kFull: adds a block that the update does not change.
  void add_unchanged(std::uint64_t index, const BlockView& held);
  void add_classes(bool fits) {
    sums_.has_classes = true;
    sums_.fits = sums_.fits && fits;
  }

  // The sums since the last call.
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
