#include "src/codec/base_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/codec/state_hash.hpp"

namespace sparcl::codec {
namespace {

Status leads_elsewhere(const Hash128& target, const Hash128& said) {
  return Status(Code::kCorrupt,
                fmt::format("the update leads to a state with hash {}, but names {} as its target", to_hex(target), to_hex(said)));
}

}  // namespace

BaseCheck::Compared BaseCheck::add_changed(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                                           const kernels::Upcoming& next) {
  Compared compared = read(held, block, next);
  if (verify_ == Verify::kOff || (block.fresh && verify_ != Verify::kFull)) return compared;
  const kernels::ChangeHashes hashes = hash(index, held, block, compared);
  compared.held_hash = hashes.old_values;
  change_hash_ = change_hash_ + hashes.new_values - hashes.old_values;
  if (!block.fresh) {
    held_values_hash_ = held_values_hash_ + hashes.old_values;
    new_values_hash_ = new_values_hash_ + hashes.new_values;
  }
  if (verify_ == Verify::kFull) {
    held_hash_ = held_hash_ + (block.kind == DecodedKind::kWhole ? hashes.old_values : block_hash(held, index, kernels_, scratch_));
  }
  return compared;
}

// What is held of a block that comes whole is not looked at here.
BaseCheck::Compared BaseCheck::read(const BlockView& held, const DecodedBlock& block, const kernels::Upcoming& next) {
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
    add_codes(held.shape.datatype, block.code_kind, block.scale, held_values_.data(), block.values.data(), block.count,
              new_values_.data());
    return {{}, held_values, {new_values_.data(), bytes}};
  }
  kernels_.order_of(held.shape.datatype).add_steps(held_values_.data(), block.values.data(), block.count, new_values_.data());
  if (block.kind == DecodedKind::kMixed) replace_values(block, held.shape, new_values_.data());
  return {{}, held_values, {new_values_.data(), bytes}};
}

kernels::ChangeHashes BaseCheck::hash(std::uint64_t index, const BlockView& held, const DecodedBlock& block,
                                      const Compared& compared) {
  const std::span<const std::byte> news = compared.new_values;
  if (block.kind == DecodedKind::kWhole)
    return {block_hash(held, index, kernels_, scratch_), placed(kernels_.hash_words(news.data(), news.size()), index)};
  return changes_hash(kernels_, held.shape.datatype, block.changed(), compared.held_values.data(), news.data(), index);
}

void BaseCheck::add_unchanged(std::uint64_t index, const BlockView& held) {
  held_hash_ = held_hash_ + block_hash(held, index, kernels_, scratch_);
}

Status BaseCheck::end_chunk(const ChunkDigests& said) {
  if (!has_digests_) {
    const bool silent = said.old_values == 0 && said.new_values == 0;
    return silent ? Status() : Status(Code::kCorrupt, "an update without digests has a chunk with some");
  }
  const bool is_old = digest_of(held_values_hash_) == said.old_values && chunk_fits_;
  const bool is_new = digest_of(held_values_hash_) == said.new_values;
  const bool follows = digest_of(new_values_hash_) == said.new_values;
  const bool is_undecided = chunk_has_classes_ && !is_old;
  is_undecided_ = is_undecided_ || (is_undecided && verify_ != Verify::kFull);
  all_old_ = all_old_ && is_old;
  all_new_ = all_new_ && (is_new || is_undecided);
  chunk_has_classes_ = false;
  chunk_fits_ = true;
  held_values_hash_ = {};
  new_values_hash_ = {};
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
  if (is_undecided_) return finish_undecided(said);
  already_applied_ = all_new_ && !all_old_;
  return already_applied_ ? Status() : finish_tracked(said);
}

Status BaseCheck::finish_undecided(const StateHashes& said) {
  already_applied_ = held_hash_ == said.target;
  if (already_applied_) return {};
  return Status(Code::kWrongBase,
                fmt::format("the state held has hash {}: it is neither the base of this update nor its target ({})",
                            to_hex(held_hash_), to_hex(*said.target)));
}

Status BaseCheck::finish_full(const StateHashes& said) {
  const Hash128 target = held_hash_ + change_hash_;
  already_applied_ = held_hash_ == said.target && said.base != said.target;
  if (already_applied_) return {};
  const bool is_base = said.base ? held_hash_ == said.base : all_old_;
  if (is_base && target == said.target) return {};
  if (is_base && said.base) return leads_elsewhere(target, *said.target);
  return Status(
      Code::kWrongBase,
      fmt::format("the state held has hash {}; the update is from {} to {}", to_hex(held_hash_),
                  said.base ? to_hex(*said.base) : std::string("a base that its sender did not have whole"), to_hex(*said.target)));
}

// From the very state that the caller believes to hold: then its changes, which were checked against what is held, must lead to the
// target. Held states of another history are none of our business here: the caller may have written them.
Status BaseCheck::finish_tracked(const StateHashes& said) const {
  if (!tracked_ || !said.target || said.base != tracked_) return {};
  const Hash128 target = *tracked_ + change_hash_;
  return target == *said.target ? Status() : leads_elsewhere(target, *said.target);
}

}  // namespace sparcl::codec
