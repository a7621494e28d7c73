#include "src/codec/base_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "src/codec/state_hash.hpp"

namespace sparcl::codec {

BaseCheck::Compared BaseCheck::add_changed(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                                           const kernels::Upcoming& next) {
  const std::span<const std::byte> values = new_values(held, block, next);
  Compared compared{0, {held_values_.data(), values.size()}, values};
  if (!block.fresh) {
    compared.held_digest = xxh3_64(compared.held_values, index);
    held_digest_ += compared.held_digest;
    new_digest_ += xxh3_64(values, index);
  }
  if (verify_ == Verify::kFull) add_to_hashes(index, held, block, values);
  return compared;
}

// Also leaves the held values of the same elements in held_values_ (fresh blocks: nothing).
std::span<const std::byte> BaseCheck::new_values(const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next) {
  const std::size_t bytes = block.count * held.shape.element_bytes();
  if (held_values_.size() < bytes) {
    held_values_.resize(bytes);
    new_values_.resize(bytes);
  }
  if (block.kind == DecodedKind::kWhole) {
    if (!block.fresh) copy_block(held, held_values_.data());
    return {block.whole, bytes};
  }
  gather(kernels_, held, block.changed(), held_values_.data(), next);
  if (block.kind == DecodedKind::kValues) return {block.values.data(), bytes};
  kernels_.order_of(held.shape.datatype).add_steps(held_values_.data(), block.values.data(), block.count, new_values_.data());
  if (block.kind == DecodedKind::kMixed) replace_values(block, held.shape, new_values_.data());
  return {new_values_.data(), bytes};
}

void BaseCheck::add_to_hashes(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                              std::span<const std::byte> values) {
  const std::size_t bytes = held.shape.bytes();
  if (overlay_.size() < bytes) overlay_.resize(bytes);
  copy_block(held, overlay_.data());
  held_hash_ = held_hash_ + block_hash({overlay_.data(), bytes}, index);
  if (block.kind == DecodedKind::kWhole) {
    target_hash_ = target_hash_ + block_hash(values, index);
    return;
  }
  kernels_.of(held.shape.datatype).scatter(overlay_.data(), block.positions.data(), block.count, 0, values.data(), {});
  target_hash_ = target_hash_ + block_hash({overlay_.data(), bytes}, index);
}

void BaseCheck::add_unchanged(std::uint64_t index, const BlockView& held) {
  const Hash128 hash = block_hash(held, index, scratch_);
  held_hash_ = held_hash_ + hash;
  target_hash_ = target_hash_ + hash;
}

Status BaseCheck::end_chunk(const ChunkDigests& said) {
  if (!has_digests_) {
    const bool silent = said.old_values == 0 && said.new_values == 0;
    return silent ? Status() : Status(Code::kCorrupt, "an update without digests has a chunk with some");
  }
  const bool is_old = held_digest_ == said.old_values;
  const bool is_new = held_digest_ == said.new_values;
  const bool follows = new_digest_ == said.new_values;
  all_old_ = all_old_ && is_old;
  all_new_ = all_new_ && is_new;
  held_digest_ = 0;
  new_digest_ = 0;
  if (is_old && !follows) {
    return Status(Code::kCorrupt, "the coded changes do not lead to the values that the update names");
  }
  if (verify_ != Verify::kFull && !all_old_ && !all_new_) {  // kFull ends with hashes to print
    return Status(Code::kWrongBase, fmt::format("what is held at the changed elements is {}",
                                                is_old || is_new ? "partly the base of this update and partly its target"
                                                                 : "neither the base of this update nor its target"));
  }
  return {};
}

Status BaseCheck::finish(const StateHashes& said) {
  if (verify_ == Verify::kFull) return finish_full(said);
  already_applied_ = all_new_ && !all_old_;
  return {};
}

Status BaseCheck::finish_full(const StateHashes& said) {
  already_applied_ = held_hash_ == said.target && !(said.has_base && said.base == said.target);
  if (already_applied_) return {};
  const bool is_base = said.has_base ? held_hash_ == said.base : all_old_;
  if (is_base && target_hash_ == said.target) return {};
  if (is_base && said.has_base) {
    return Status(Code::kCorrupt, fmt::format("the update leads to a state with hash {}, but names {} as its target",
                                              to_hex(target_hash_), to_hex(said.target)));
  }
  return Status(Code::kWrongBase,
                fmt::format("the state held has hash {}; the update is from {} to {}", to_hex(held_hash_),
                            said.has_base ? to_hex(said.base) : std::string("a base that its sender did not have whole"),
                            to_hex(said.target)));
}

}  // namespace sparcl::codec
