#include "src/codec/block_check.hpp"

#include "src/codec/state_hash.hpp"

namespace sparcl::codec {

void BlockSums::add(const BlockSums& other) {
  held_values = held_values + other.held_values;
  new_values = new_values + other.new_values;
  change = change + other.change;
  held = held + other.held;
  has_classes = has_classes || other.has_classes;
  fits = fits && other.fits;
}

BlockCheck::Compared BlockCheck::add_changed(std::uint64_t index, const BlockView& held,
                                             const DecodedBlock& block,
                                             const kernels::Upcoming& next) {
  Compared compared = read(held, block, next);
  if (verify_ == Verify::kOff || (block.fresh && verify_ != Verify::kFull && !hashes_fresh_))
    return compared;
  const kernels::ChangeHashes hashes = hash(index, held, block, compared);
  compared.held_hash = hashes.old_values;
  sums_.change = sums_.change + hashes.new_values - hashes.old_values;
  if (!block.fresh) {
    sums_.held_values = sums_.held_values + hashes.old_values;
    sums_.new_values = sums_.new_values + hashes.new_values;
  }
  if (verify_ == Verify::kFull) {
    sums_.held = sums_.held + (block.kind == DecodedKind::kWhole
                                   ? hashes.old_values
                                   : block_hash(held, index, kernels_, scratch_));
  }
  return compared;
}

// Does not check the held values of a block that is sent whole.
BlockCheck::Compared BlockCheck::read(const BlockView& held, const DecodedBlock& block,
                                      const kernels::Upcoming& next) {
  const std::size_t bytes = block.count * held.shape.element_bytes();
  if (block.kind == DecodedKind::kWhole) return {{}, {}, {block.whole, bytes}};
  if (held_values_.size() < bytes) {
    held_values_.resize(bytes);
    new_values_.resize(bytes);
  }
  gather(kernels_, held, block.changed(), held_values_.data(), next);
  const std::span<const std::byte> held_values(held_values_.data(), bytes);
  if (block.kind == DecodedKind::kValues) return {{}, held_values, {block.values.data(), bytes}};
  if (block.kind == DecodedKind::kAdded) {
    add_codes(held.shape.datatype, block.code_kind, block.scale, held_values_.data(),
              block.values.data(), block.count, new_values_.data());
    return {{}, held_values, {new_values_.data(), bytes}};
  }
  kernels_.order_of(held.shape.datatype)
      .add_steps(held_values_.data(), block.values.data(), block.count, new_values_.data());
  if (block.kind == DecodedKind::kMixed) replace_values(block, held.shape, new_values_.data());
  return {{}, held_values, {new_values_.data(), bytes}};
}

kernels::ChangeHashes BlockCheck::hash(std::uint64_t index, const BlockView& held,
                                       const DecodedBlock& block, const Compared& compared) {
  const std::span<const std::byte> news = compared.new_values;
  if (block.kind == DecodedKind::kWhole)
    return {block_hash(held, index, kernels_, scratch_),
            placed(kernels_.hash_words(news.data(), news.size()), index)};
  return changes_hash(kernels_, held.shape.datatype, block.changed(), compared.held_values.data(),
                      news.data(), index);
}

void BlockCheck::add_over(std::uint64_t index, const DecodedBlock& block,
                          std::size_t element_bytes) {
  if (verify_ == Verify::kOff) return;
  const Hash128 hash = placed(kernels_.hash_words(block.whole, block.count * element_bytes), index);
  sums_.change = sums_.change + hash;
  if (!block.fresh) sums_.new_values = sums_.new_values + hash;
}

void BlockCheck::add_unchanged(std::uint64_t index, const BlockView& held) {
  sums_.held = sums_.held + block_hash(held, index, kernels_, scratch_);
}

}  // namespace sparcl::codec
